/* SPDX-License-Identifier: MIT */
/*
 * What an operator sees: counters, every task with where it waits, and why workers came and went.
 */
#include <kin/view.h>

#include "base/text.h"
#include "park/park.h"
#include "plat/plat.h"
#include "sched/entry.h"
#include "sched/tape.h"
#include "scope/scope.h"
#include "task/word.h"
#include "wait/poll.h"
#include "wait/timer.h"

#include <errno.h>
#include <string.h>

/* What the monitor has counted; the counters are read one after the other. */
static struct kin_scaling scaling_of(struct kin__sched *sched)
{
    struct kin__scaling *seen = &sched->scaling;
    uint64_t gate[KIN__GATE_COUNT];
    for (unsigned i = 0; i < KIN__GATE_COUNT; i++)
        gate[i] = kin__load_relaxed(&seen->gate[i]); /* relaxed: a counter, as old as it is */
    struct kin_scaling scaling = {
        .positive_samples = kin__load_relaxed(&seen->positive),            /* relaxed: as above */
        .negative_samples = kin__load_relaxed(&seen->negative),            /* relaxed: as above */
        .neg_streak_max = kin__load_relaxed(&seen->negative_streak_max),   /* relaxed: as above */
        .promoted = gate[KIN__GATE_PROMOTED],
        .at_limit = gate[KIN__GATE_AT_LIMIT],
        .no_thread = gate[KIN__GATE_NO_THREAD],
        .not_stuck = gate[KIN__GATE_NOT_STUCK],
        .computes = gate[KIN__GATE_COMPUTES],
        .no_work = gate[KIN__GATE_NO_WORK],
        .idle_capacity = gate[KIN__GATE_IDLE_CAPACITY],
        .nonpositive = gate[KIN__GATE_NONPOSITIVE],
    };
    scaling.passes = scaling.promoted + scaling.at_limit + scaling.no_thread;
    return scaling;
}

int kin_stats_get(struct kin_stats *out)
{
    struct kin__worker *self = kin__worker_self();
    if (!out)
        return -EINVAL;
    if (!self)
        return KIN_NOTASK;
    kin__entry_check_self();
    KIN__LAB_SEES_ALL();
    struct kin__sched *sched = self->sched;
    struct kin_stats stats = {0};
    int64_t live = 0;
    for (unsigned i = 0; i < sched->workers_max; i++) {
        struct kin__worker *worker = &sched->workers[i];
        /* relaxed: counters, each as old as it is */
        stats.slices += kin__load_relaxed(&worker->slices);
        stats.steals += kin__load_relaxed(&worker->steals);       /* relaxed: as above */
        stats.tasks_stolen += kin__load_relaxed(&worker->stolen); /* relaxed: as above */
        stats.steals_failed += kin__load_relaxed(&worker->steals_failed); /* relaxed: as above */
        live += kin__load_relaxed(&worker->live);                 /* relaxed: as above */
        stats.timers += kin__timer_count(worker);
    }
    live += (int64_t)kin__load_relaxed(&sched->spawned_outside); /* relaxed: as above */
    stats.tasks_live = live > 0 ? (uint64_t)live : 0;
    stats.wakes = kin__load_relaxed(&sched->wakes);                 /* relaxed: as above */
    stats.workers = kin__load_relaxed(&sched->alive);               /* relaxed: as above */
    stats.pressure = kin__sched_pressure(sched);
    stats.scaling = scaling_of(sched);
    stats.poller = kin__poll_name(sched);
    stats.files = kin__poll_files_name(sched);
    kin__lock_take(&sched->pool_lock, KIN__RANK_POOL);
    stats.workers_started = sched->started;
    stats.workers_replaced = sched->replaced;
    kin__lock_give(&sched->pool_lock, KIN__RANK_POOL);
    kin__lock_take(&sched->stacks.lock, KIN__RANK_STACK);
    stats.stacks = sched->stacks.total;
    kin__lock_give(&sched->stacks.lock, KIN__RANK_STACK);
    *out = stats;
    return 0;
}

/* ---- the dump ---- */

#define KINDS_MAX 16u /* of doings that are counted apart; the others are counted together */

/* How many tasks do the same. */
struct kind {
    const char *doing, *waiting;
    size_t count;
};

struct dump {
    int fd;
    int rc; /* of the first write that failed */
    struct kin__sched *sched;
    struct kin__task *self;
    struct kind kinds[KINDS_MAX];
    size_t count;       /* tasks in all */
    size_t unsaid;      /* bytes in the buffer */
    char memory[2048];  /* lines that are not written yet */
};

static void flush(struct dump *dump)
{
    if (dump->rc == 0)
        dump->rc = kin__plat_write(dump->fd, dump->memory, dump->unsaid);
    dump->unsaid = 0;
}

static void put(struct dump *dump, struct kin__text *line)
{
    kin__text_end_line(line);
    if (line->len > sizeof(dump->memory) - dump->unsaid)
        flush(dump);
    memcpy(dump->memory + dump->unsaid, line->buf, line->len);
    dump->unsaid += line->len;
}

static void count(struct dump *dump, const char *doing, const char *waiting)
{
    dump->count++;
    for (unsigned i = 0; i < KINDS_MAX; i++) {
        struct kind *kind = &dump->kinds[i];
        if (kind->count == 0)
            *kind = (struct kind){doing, waiting, 0};
        if (kind->doing == doing && kind->waiting == waiting) {
            kind->count++;
            return;
        }
    }
}

/* A peek at a field that only the task's worker writes, while that worker goes on: a moment old. */
__attribute__((no_sanitize("thread"))) static bool has_begun(const struct kin__task *task)
{
    return *(struct kin__stack *const volatile *)&task->stack != NULL ||
           kin__load_quiet(&task->waiting); /* relaxed: a snapshot; it rests */
}

/* What a task is doing, as its word says. */
static const char *doing(uint64_t word, bool is_begun, bool is_self)
{
    if (is_self)
        return "running";
    if (word & KIN__CLAIMED)
        return is_begun ? "runnable or running" : "new";
    return word & KIN__OFF ? "parked" : "parking";
}

/* Which nursery, and whose. The owner stays as long as it has children. */
static void put_parent_locked(const struct kin__scope *scope, struct kin__text *line)
{
    const struct kin__task *owner = kin__load_relaxed(&scope->owner); /* relaxed: locked */
    if (!owner)
        return; /* the root, which nobody owns */
    kin__text_str(line, ", child of ");
    kin__task_say_id(line, kin__task_id(owner));
    kin__text_printf(line, " (%s) in nursery %llu", kin__task_name(owner),
                     (unsigned long long)kin__load_relaxed(&scope->frame.name)); /* relaxed: so */
    if (scope->name)
        kin__text_printf(line, " (%s)", scope->name);
}

/* One line about a task that cannot end meanwhile, but for where it comes from, which is named when
 * the lock is given. */
static struct kin__task_code describe_locked(struct dump *dump, const struct kin__task *task,
                                             const struct kin__scope *scope,
                                             struct kin__text *line)
{
    uint64_t word = kin__load_relaxed(&task->ctl);             /* relaxed: a snapshot */
    const char *waiting = kin__load_relaxed(&task->waiting);   /* relaxed: a snapshot */
    const char *does = doing(word, has_begun(task), task == dump->self);
    if (word & KIN__CLAIMED)
        waiting = NULL;
    count(dump, does, waiting);
    kin__task_say_id(line, kin__task_id(task));
    kin__text_printf(line, " (%s): %s", kin__task_name(task), does);
    if (waiting)
        kin__text_printf(line, " on %s", waiting);
    if (word & KIN__REQUESTS)
        kin__text_str(line, ", cancelled");
    put_parent_locked(scope, line);
    kin__text_str(line, ", ");
    return kin__task_code(task);
}

/* Looks at any frame: a live task is held by the lock of its nursery, the rest is passed over. */
static void put_task(struct kin__frame *frame, void *arg)
{
    struct dump *dump = arg;
    struct kin__task *task = kin__task_of_frame(frame);
    /* pairs with the run queue: a hint */
    struct kin__scope *scope = kin__load_acquire(&task->scope);
    if (!scope)
        return;
    char memory[640];
    struct kin__text line;
    struct kin__task_code code = {0, 0};
    kin__text_init(&line, memory, sizeof(memory));
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    /* relaxed: a task that is in this scope cannot leave it while the lock is held; one that is
     * over may still be there, because somebody has its name */
    if (kin__load_relaxed(&task->scope) == scope && kin__scope_sched(scope) == dump->sched &&
        !task->over)
        code = describe_locked(dump, task, scope, &line);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    if (line.len) { /* written outside of the lock: whoever reads it may be slow */
        kin__task_say_code(&line, code);
        put(dump, &line);
    }
}

/* How many there are of each kind: with many tasks the line to begin with. */
static void put_kinds(struct dump *dump)
{
    char memory[512];
    struct kin__text line;
    size_t others = dump->count;
    kin__text_init(&line, memory, sizeof(memory));
    kin__text_printf(&line, "%zu tasks:", dump->count);
    for (unsigned i = 0; i < KINDS_MAX && dump->kinds[i].count; i++) {
        const struct kind *kind = &dump->kinds[i];
        others -= kind->count;
        kin__text_printf(&line, "%s %zu %s", i ? "," : "", kind->count, kind->doing);
        if (kind->waiting)
            kin__text_printf(&line, " on %s", kind->waiting);
    }
    if (others)
        kin__text_printf(&line, ", %zu others", others);
    put(dump, &line);
}

static const char *const worker_states[] = {"dead", "active", "searching", "asleep", "draining"};
static const char *const reasons[] = {"start",    "rescue",    "replace",
                                      "at limit", "no thread", "retire", "lost"};

static void put_workers(struct dump *dump)
{
    struct kin__sched *sched = dump->sched;
    char memory[256];
    struct kin__text line;
    for (unsigned i = 0; i < sched->workers_max; i++) {
        struct kin__worker *worker = &sched->workers[i];
        uint32_t state = kin__load_relaxed(&worker->state); /* relaxed: a snapshot */
        if (state == KIN__WORKER_DEAD)
            continue;
        kin__text_init(&line, memory, sizeof(memory));
        kin__text_printf(&line, "worker %u: %s, %llu slices, %llu queued", i, worker_states[state],
                         (unsigned long long)kin__load_relaxed(&worker->slices), /* relaxed: so */
                         (unsigned long long)kin__worker_load(worker));
        put(dump, &line);
    }
}

static void put_scaling(struct dump *dump)
{
    struct kin__sched *sched = dump->sched;
    char memory[256];
    struct kin__text line;
    struct kin__scale_event log[KIN__SCALE_LOG];
    kin__lock_take(&sched->pool_lock, KIN__RANK_POOL);
    uint32_t end = sched->scale_count;
    for (unsigned i = 0; i < KIN__SCALE_LOG; i++)
        log[i] = sched->scale_log[i];
    kin__lock_give(&sched->pool_lock, KIN__RANK_POOL);
    for (uint32_t i = end > KIN__SCALE_LOG ? end - KIN__SCALE_LOG : 0; i < end; i++) {
        const struct kin__scale_event *event = &log[i % KIN__SCALE_LOG];
        kin__text_init(&line, memory, sizeof(memory));
        kin__text_printf(&line, "scale %u: %s worker %u", i, reasons[event->reason],
                         (unsigned)event->worker);
        if (event->stuck_ns) {
            kin__text_str(&line, ", blocked for ");
            kin__text_ns(&line, event->stuck_ns);
            kin__text_str(&line, " in ");
            kin__task_say_id(&line, event->task);
            kin__text_printf(&line, ", %u tasks handed over, pressure %lld", event->moved,
                             (long long)event->pressure);
        }
        if (event->reason == KIN__SCALE_REPLACE)
            kin__text_printf(&line, ", replaced by worker %u", (unsigned)event->other);
        put(dump, &line);
    }
}

/* What the monitor has counted, with every reason for which nobody was started [EP:7.3]. */
static void put_gate(struct dump *dump)
{
    struct kin_scaling scaling = scaling_of(dump->sched);
    char memory[400];
    struct kin__text line;
    kin__text_init(&line, memory, sizeof(memory));
    kin__text_printf(&line, "pressure %lld: %llu looks positive, %llu negative, at most %llu of "
                     "these in a row", (long long)kin__sched_pressure(dump->sched),
                     (unsigned long long)scaling.positive_samples,
                     (unsigned long long)scaling.negative_samples,
                     (unsigned long long)scaling.neg_streak_max);
    put(dump, &line);
    kin__text_init(&line, memory, sizeof(memory));
    kin__text_printf(&line, "gate: %llu passed (%llu promoted, %llu at limit, %llu no thread)",
                     (unsigned long long)scaling.passes, (unsigned long long)scaling.promoted,
                     (unsigned long long)scaling.at_limit, (unsigned long long)scaling.no_thread);
    kin__text_printf(&line, ", blocked by %llu not stuck, %llu computes, %llu no work, "
                     "%llu idle capacity, %llu nonpositive", (unsigned long long)scaling.not_stuck,
                     (unsigned long long)scaling.computes, (unsigned long long)scaling.no_work,
                     (unsigned long long)scaling.idle_capacity,
                     (unsigned long long)scaling.nonpositive);
    put(dump, &line);
}

/* Whether the running task, if there is one, may write to a descriptor: as kin_write says. */
static bool may_write(struct kin__worker *self, int fd)
{
    const struct kin__task *task = kin__worker_current(self);
    return !task || !(kin__fd_needs(task, fd) & ~(unsigned)task->caps);
}

int kin_dump(int fd)
{
    struct kin__worker *self = kin__worker_self();
    if (!self)
        return KIN_NOTASK;
    kin__entry_check_self();
    if (!may_write(self, fd))
        return KIN_NOCAP;
    KIN__LAB_SEES_ALL();
    struct dump dump = {.fd = fd, .sched = self->sched, .self = kin__worker_current(self)};
    kin__frame_each(put_task, &dump);
    put_kinds(&dump);
    put_workers(&dump);
    put_scaling(&dump);
    put_gate(&dump);
    flush(&dump);
    return dump.rc;
}

int kin_record_dump(int fd)
{
    struct kin__worker *self = kin__worker_self();
    if (!self)
        return KIN_NOTASK;
    kin__entry_check_self();
    KIN__LAB_SEES_ALL();
    if (fd < 0)
        return -EBADF;
    if (!may_write(self, fd))
        return KIN_NOCAP;
    return self->sched->tape ? kin__tape_dump(self->sched->tape, fd, false) : KIN_UNSUPPORTED;
}
