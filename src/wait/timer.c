/* SPDX-License-Identifier: MIT */
/*
 * Timers: a wheel and its lock per worker; any worker may fire any wheel.
 *
 * A timer is armed in the wheel of the worker its task runs on and disarmed from wherever the task
 * wakes up, so the lock is nearly always taken by one thread. Firing takes a batch of (task,
 * ticket) pairs under the lock and wakes them outside of it: the node may be gone by then, the
 * frame is not. The worker's next_deadline is written under the lock and read without it, by
 * sleepers who want to know how long to sleep and by loops that want to know whether to read the
 * clock.
 */
#include "wait/timer.h"

#include "base/bits.h"
#include "base/lock.h"
#include "plat/plat.h"
#include "park/thread.h"
#include "sched/entry.h"
#include "sched/sched.h"
#include "task/budget.h"
#include "wait/duration.h"

#include <errno.h>

#ifdef KIN__LAB
#define FIRE_BATCH 1u /* one at a time: others may run between two that are due at once */
#else
#define FIRE_BATCH 16u /* small: firing may happen on the stack of a task that parks */
#endif

/* Whom to wake or what to do, copied out of a timer that may be gone by then. */
struct due {
    void (*fire)(void *object, uint64_t name);
    void *object;
    uint64_t name;
    uint32_t case_;
};

struct timers {
    struct kin__lock lock; /* rank TIMER; the rest */
    struct kin__wheel wheel;
};

static struct timers *timers_of(struct kin__worker *worker)
{
    return worker->timers;
}

static void note_next_locked(struct kin__worker *worker)
{
    /* relaxed: a hint for loops and sleepers of this worker; others are woken by whoever retires */
    kin__store_quiet(&worker->next_deadline, kin__wheel_next(&timers_of(worker)->wheel));
}

static int timers_init(struct kin__worker *worker)
{
    struct timers *timers = kin__heap_alloc(sizeof(*timers));
    if (!timers)
        return -ENOMEM;
    kin__wheel_init(&timers->wheel, kin__clock_now());
    worker->timers = timers;
    return 0;
}

static void timers_fini(struct kin__worker *worker)
{
    KIN__ASSERT(!worker->timers || timers_of(worker)->wheel.count == 0,
                "NCG-1: a deadline has outlived everybody");
    kin__heap_free(worker->timers);
    worker->timers = NULL;
}

/* Takes up to max due timers out of the wheel. */
static uint32_t take_due(struct kin__worker *owner, int64_t now, struct due *due, uint32_t max)
{
    struct timers *timers = timers_of(owner);
    uint32_t count = 0;
    struct kin__wheel_node *node;
    kin__lock_take(&timers->lock, KIN__RANK_TIMER);
    while (count < max && (node = kin__wheel_pop(&timers->wheel, now))) {
        struct kin__timer *timer = KIN__CONTAINER_OF(node, struct kin__timer, node);
        due[count++] = (struct due){timer->fire, timer->object, timer->name, timer->case_};
    }
    note_next_locked(owner);
    kin__lock_give(&timers->lock, KIN__RANK_TIMER);
    return count;
}

/* As kin__wake_task, but those that are due run in the order of their deadlines. */
static bool wake_due(const struct due *due)
{
    struct kin__task *task = due->object;
    if (KIN__UNLIKELY(due->fire != NULL)) {
        due->fire(due->object, due->name);
        return true;
    }
    enum kin__claim claim = kin__word_claim(task, due->name);
    if (claim == KIN__LOST)
        return false;
    task->wait_status = 0;
    task->wait_case = due->case_;
    if (claim == KIN__WON_PARKED || kin__word_ready(task))
        kin__schedule_last(task);
    return true;
}

static uint32_t timers_poll(struct kin__worker *owner, int64_t now)
{
    struct due due[FIRE_BATCH];
    uint32_t woken = 0;
    uint32_t count;
    do { /* ends: what is due at now only gets fewer */
        count = take_due(owner, now, due, FIRE_BATCH);
        for (uint32_t i = 0; i < count; i++)
            woken += wake_due(&due[i]);
    } while (count == FIRE_BATCH && FIRE_BATCH > 1);
    return woken;
}

const struct kin__source kin__timer_source = {timers_init, timers_fini, timers_poll};

/* ---- the waitable ---- */

static bool timer_try(void *object, void *io, int *status)
{
    struct kin__timer *timer = object;
    struct kin__worker *worker = kin__worker_self();
    (void)io;
    worker->now = kin__clock_now();
    *status = 0;
    return timer->node.deadline <= worker->now;
}

/* Puts a timer into the wheel of a worker, at about now. True: it is the first to come there. */
static bool insert(struct kin__timer *timer, struct kin__worker *worker, int64_t now)
{
    struct timers *timers = timers_of(worker);
    timer->home = worker;
    kin__lock_take(&timers->lock, KIN__RANK_TIMER);
    if (timers->wheel.count == 0) /* an empty wheel follows the clock for nothing */
        (void)kin__wheel_pop(&timers->wheel, now);
    int64_t before = kin__load_quiet(&worker->next_deadline); /* relaxed: under the lock */
    kin__wheel_insert(&timers->wheel, &timer->node);
    note_next_locked(worker);
    KIN__LAB_ARMED();
    bool is_first = kin__load_quiet(&worker->next_deadline) < before; /* relaxed: as above */
    kin__lock_give(&timers->lock, KIN__RANK_TIMER);
    return is_first;
}

static bool timer_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin__timer *timer = object;
    struct kin__worker *worker = kin__worker_self();
    (void)status;
    if (KIN__UNLIKELY(timer->node.deadline <= worker->now))
        return false;
    timer->object = waiter->task;
    timer->name = waiter->ticket;
    timer->case_ = waiter->case_;
    /* what never comes is in no wheel: it would keep a deadlock from being seen */
    if (KIN__LIKELY(timer->node.deadline != KIN_NEVER))
        (void)insert(timer, worker, worker->now);
    return true;
}

void kin__timer_disarm(struct kin__timer *timer)
{
    if (!timer->home)
        return;
    struct timers *timers = timers_of(timer->home);
    kin__lock_take(&timers->lock, KIN__RANK_TIMER);
    kin__wheel_remove(&timers->wheel, &timer->node);
#ifdef KIN__LAB
    note_next_locked(timer->home); /* else the clock has a step that nobody asks for */
#endif
    kin__lock_give(&timers->lock, KIN__RANK_TIMER);
}

static void timer_unpublish(void *object, struct kin__waiter *waiter)
{
    (void)waiter;
    kin__timer_disarm(object);
}

void kin__timer_arm(struct kin__timer *timer, struct kin__sched *sched, kin_time deadline)
{
    struct kin__worker *worker = kin__worker_self();
    timer->node.link.next = NULL;
    timer->node.deadline = deadline;
    if (KIN__LIKELY(worker && worker->sched == sched)) {
        (void)insert(timer, worker, worker->now);
    } else if (insert(timer, &sched->workers[0], kin__clock_now())) {
        /* its owner may sleep longer than that; every wheel is polled by whoever gets up */
        kin__idle_wake_all(sched);
    }
}

const struct kin__waitable kin__timer_waitable = {"sleep", timer_try, timer_publish,
                                                  timer_unpublish};

KIN__WAITABLE_READY(kin__timer_waitable)
{
    const struct kin__timer *timer = object;
    return timer->node.deadline <= kin__worker_self()->now ? "its time has come" : NULL;
}

uint64_t kin__timer_count(struct kin__worker *worker)
{
    struct timers *timers = timers_of(worker);
    kin__lock_take(&timers->lock, KIN__RANK_TIMER);
    uint64_t count = timers->wheel.count;
    kin__lock_give(&timers->lock, KIN__RANK_TIMER);
    return count;
}

#ifdef KIN__LAB
void kin__timer_rewind(struct kin__worker *worker, int64_t now)
{
    struct kin__wheel *wheel = &timers_of(worker)->wheel;
    kin__store_quiet(&timers_of(worker)->lock.word, 0u); /* alone: whoever held it is gone */
    if (wheel->count != 0) { /* of a run that was given up */
        kin__wheel_init(wheel, now);
    } else {
        wheel->tick = (uint64_t)now >> KIN__WHEEL_SHIFT;
        wheel->seq = 0;
    }
    note_next_locked(worker);
}
#endif

/* ---- deadlines of other waits ---- */

int kin__wait_any_until(struct kin__case *cases, uint32_t count, kin_time deadline, unsigned flags,
                        int *status)
{
    struct kin__worker *worker = kin__worker_self();
    struct kin__task *task = worker ? kin__worker_current(worker) : NULL;
    if (!task)
        return KIN_NOTASK;
    kin__entry_check_room(task);
    for (uint32_t i = 0; !(flags & KIN__WAIT_TRIED) && i < count; i++) {
        if (cases[i].ops->try_complete(cases[i].object, cases[i].io, status))
            return (int)i;
    }
    if (deadline <= 0)
        return KIN_TIMEOUT;
    flags |= KIN__WAIT_TRIED;
    deadline = kin__deadline_of(task, deadline);
    if (deadline == KIN_NEVER)
        return kin__wait_as(task, cases, count, flags, status);
    struct kin__timer timer;
    worker->now = kin__clock_now();
    if (KIN__UNLIKELY(deadline <= worker->now)) {
        kin__duration_look(task, deadline, cases[0].ops->what);
        worker = kin__worker_self(); /* a report is user's code */
        worker->now = kin__clock_now();
    }
    kin__timer_init(&timer, deadline);
    cases[count] = (struct kin__case){.ops = &kin__timer_waitable, .object = &timer};
    int rc = kin__wait_as(task, cases, count + 1, flags, status);
    return rc == (int)count ? KIN_TIMEOUT : rc;
}

int kin__wait_until(const struct kin__waitable *ops, void *object, void *io, kin_time deadline,
                    unsigned flags)
{
    struct kin__task *task = kin__task_self();
    int status = 0;
    if (KIN__UNLIKELY(!task))
        return flags & KIN__WAIT_THREAD ? kin__wait_thread(ops, object, io, deadline) : KIN_NOTASK;
    if (KIN__LIKELY(kin__deadline_of(task, deadline) == KIN_NEVER))
        return kin__wait(ops, object, io, flags);
    struct kin__case cases[2];
    cases[0].ops = ops;
    cases[0].object = object;
    cases[0].io = io;
    int rc = kin__wait_any_until(cases, 1, deadline, flags, &status);
    return rc < 0 ? rc : status;
}

/* ---- the public face ---- */

kin_time kin_now(void)
{
    KIN__LAB_READS_CLOCK();
    return kin__clock_now();
}

kin_time kin_after(int64_t ns)
{
    KIN__LAB_READS_CLOCK();
    return kin__clock_after(ns);
}

int kin_sleep(kin_time deadline)
{
    struct kin__worker *worker = kin__worker_self();
    struct kin__task *task = worker ? kin__worker_current(worker) : NULL;
    int rc = kin__entry_begin(task, KIN_CAP_TIME, deadline);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
    kin_time until = kin__deadline_of(task, deadline);
    struct kin__timer timer;
    kin__timer_init(&timer, until);
    worker = kin__worker_self(); /* others may have run */
    worker->now = kin__clock_now();
    if (deadline <= worker->now) {
        kin__duration_look(task, deadline, "kin_sleep");
        return 0;
    }
    rc = kin__wait(&kin__timer_waitable, &timer, NULL, KIN__WAIT_TRIED);
    return rc == 0 && until < deadline ? KIN_TIMEOUT : rc;
}
