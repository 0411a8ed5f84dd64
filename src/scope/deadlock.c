/* SPDX-License-Identifier: MIT */
/*
 * Deadlocks: who waits for what, held by whom, when nothing can ever wake these tasks.
 *
 * The monitor finds that every worker sleeps, that nothing is queued or due, and that no other
 * thread exists (sched/monitor.c). From then on nothing changes any more, so the tasks can be
 * looked at without stopping them. It is reported and never fatal: the program may be one that is
 * meant to wait for a signal that ends it [A13].
 *
 * A ring of locks, each held by a task that waits for the next, is a deadlock of its own while
 * everybody else goes on. It is looked for on request: each task's wait is peeked at, the owner of
 * the lock is read through the kernel because its memory may be gone by then, and when the ring is
 * closed every wait in it is looked at again. A task that is still in the same park has given up
 * nothing in between, so what is reported was true. A mutex has an owner, and so has a rwlock that
 * a writer holds; readers are not known. A call waits for its server, a start and a stop for who
 * starts and ends: otp says who that is (kin__party_ops). A ring stays within one runtime: the
 * stacks of another may be gone while they are looked at.
 */
#include "scope/scope.h"

#include "base/text.h"
#include "park/peek.h"
#include "sched/entry.h"
#include "wait/ender.h"
#include "wait/mutex.h"
#include "wait/owner.h"
#include "wait/poll.h"

#include <kin/view.h>

#define TASKS_MAX 24u /* tasks that a report names; the others are counted */
#define RING_MAX 64u  /* longest ring of locks that is followed */

struct report {
    struct kin__sched *sched;
    struct kin__text text;
    uint32_t count;
    char memory[8192];
};

/* The task that this one waits for if that is no lock: whose end it is, or as otp says. */
static uint64_t other_holder(const struct kin__task *task, const struct kin__waits *waits)
{
    struct kin__ender ender;
    if (waits->ops == &kin__task_waitable)
        return kin__plat_peek(waits->object, &ender, sizeof(ender)) ? ender.task : 0;
    const struct kin__party_ops *ops = kin__load_acquire(&kin__party_ops); /* pairs with otp's */
    return ops ? ops->holder(task, waits) : 0;
}

/* The task that this one waits for: the owner of a lock, a server; 0: none in particular. */
static uint64_t holder_of(const struct kin__task *task, struct kin__waits *waits)
{
    uint64_t word;
    if (!kin__wait_peek(task, waits))
        return 0;
    uint64_t other = other_holder(task, waits);
    if (other)
        return kin__wait_is_same(task, waits) ? other : 0;
    bool is_rwlock = waits->ops->what == kin__owner_what_rwlock;
    if (!is_rwlock && waits->ops->what != kin__owner_what_mutex)
        return 0;
    const char *at = (const char *)waits->object + (is_rwlock ? KIN__RWLOCK_WRITER_AT : 0);
    if (!kin__plat_peek(at, &word, sizeof(word)) || !kin__wait_is_same(task, waits))
        return 0;
    return word & KIN__OWNER_MASK;
}

/* The task that an owner names, if it is not over. */
static const struct kin__task *task_of_owner(uint64_t owner)
{
    const struct kin__task *task = kin__task_find(owner);
    if (!task) /* an owner has lost the highest bit of its id */
        task = kin__task_find(owner | ~KIN__OWNER_MASK);
    return task;
}

/* One line for a task of the runtime that is parked. */
static void put_task(struct kin__frame *frame, void *arg)
{
    struct report *report = arg;
    const struct kin__task *task = kin__task_of_frame(frame);
    struct kin__waits waits;
    /* pairs with the run queue; every worker of this runtime is asleep */
    const struct kin__scope *scope = kin__load_acquire(&task->scope);
    if (!scope || kin__scope_sched(scope) != report->sched || task->over)
        return;
    /* Whoever is not parked has lent its stack to a child in a join, and waits below it. */
    bool is_parked = kin__wait_peek(task, &waits);
    if (report->count++ >= TASKS_MAX)
        return;
    kin__text_str(&report->text, "\n  ");
    kin__task_say(&report->text, task);
    kin__text_printf(&report->text, ", waits for %s%s", is_parked ? waits.ops->what : "nursery",
                     is_parked && waits.is_several ? " and others" : "");
    uint64_t holder = is_parked ? holder_of(task, &waits) : 0;
    if (holder) {
        kin__text_str(&report->text, " held by ");
        const struct kin__task *owner = task_of_owner(holder);
        kin__task_say_id(&report->text, owner ? kin__task_id(owner) : holder);
    }
}

void kin__deadlock_report(struct kin__sched *sched)
{
    struct report report = {.sched = sched}; /* on the monitor's stack, which has room */
    kin__text_init(&report.text, report.memory, sizeof(report.memory));
    kin__text_str(&report.text, "nothing can ever wake these tasks:");
    kin__frame_each(put_task, &report);
    if (report.count > TASKS_MAX)
        kin__text_printf(&report.text, "\n  and %u others", report.count - TASKS_MAX);
    if (report.count)
        kin__report(sched, KIN_DEADLOCK, 0, report.memory);
}

/* ---- rings of locks, on request ---- */

struct ring {
    const struct kin__task *tasks[RING_MAX];
    struct kin__waits waits[RING_MAX];
    unsigned count;
};

/* Whether a task is of this runtime and not over, so that its stack stays. */
static bool is_ours(const struct kin__task *task, const struct kin__sched *sched)
{
    /* pairs with the run queue: a hint */
    const struct kin__scope *scope = kin__load_acquire(&task->scope);
    return scope && kin__scope_sched(scope) == sched;
}

/* Follows the locks from first until they lead back to it. False: they do not, or somebody in the
 * ring comes before it and it is that one's to report. */
static bool follow(const struct kin__task *first, const struct kin__sched *sched,
                   struct ring *ring)
{
    const struct kin__task *task = first;
    ring->count = 0;
    do { /* ends: bounded */
        if (!task || !is_ours(task, sched) || ring->count == RING_MAX ||
            kin__task_id(task) < kin__task_id(first))
            return false;
        ring->tasks[ring->count] = task;
        uint64_t holder = holder_of(task, &ring->waits[ring->count]);
        ring->count++;
        task = holder ? task_of_owner(holder) : NULL;
    } while (task != first);
    for (unsigned i = 0; i < ring->count; i++) {
        if (!kin__wait_is_same(ring->tasks[i], &ring->waits[i]))
            return false;
    }
    return true;
}

struct search {
    int fd;
    struct kin__sched *sched;
    size_t found;
    int rc; /* of the first write that failed */
};

static void put_who(struct kin__text *text, const struct kin__task *task)
{
    kin__text_printf(text, " task %llu (%.40s)", (unsigned long long)kin__task_id(task),
                     kin__task_name(task));
}

static void look_at(struct kin__frame *frame, void *arg)
{
    struct search *search = arg;
    const struct kin__task *task = kin__task_of_frame(frame);
    struct ring ring;
    char memory[256];
    struct kin__text text;
    if (!follow(task, search->sched, &ring))
        return;
    search->found++;
    for (unsigned i = 0; i < ring.count; i++) {
        const struct kin__task *holder = ring.tasks[(i + 1) % ring.count];
        kin__text_init(&text, memory, sizeof(memory));
        kin__text_str(&text, i ? "    and" : "cycle:");
        put_who(&text, ring.tasks[i]);
        kin__text_printf(&text, " waits for %s %p held by", ring.waits[i].ops->what,
                         ring.waits[i].object);
        put_who(&text, holder);
        kin__text_end_line(&text);
        if (search->rc == 0)
            search->rc = kin__plat_write(search->fd, memory, text.len);
    }
}

int kin_lock_cycles(int fd)
{
    struct kin__worker *self = kin__worker_self();
    if (!self || !kin__worker_current(self))
        return KIN_NOTASK;
    kin__entry_check_self();
    if (kin__fd_needs(kin__worker_current(self), fd) & ~(unsigned)kin__worker_current(self)->caps)
        return KIN_NOCAP; /* as kin_write */
    KIN__LAB_SEES_ALL();
    struct search search = {fd, self->sched, 0, (int)kin__fd_write(fd, "", 0)};
    if (search.rc == 0) /* it can be told, if there is anything */
        kin__frame_each(look_at, &search);
    return search.rc < 0 ? search.rc : (int)search.found;
}
