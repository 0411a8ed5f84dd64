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
#include "sched/entry.h"
#include "sched/sched.h"

#include <errno.h>

#define FIRE_BATCH 16u /* small: firing may happen on the stack of a task that parks */

/* Whom to wake, copied out of a timer that may be gone by then. */
struct due {
    struct kin__task *task;
    uint64_t ticket;
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
    kin__store_relaxed(&worker->next_deadline, kin__wheel_next(&timers_of(worker)->wheel));
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
        due[count++] = (struct due){timer->task, timer->ticket, timer->case_};
    }
    note_next_locked(owner);
    kin__lock_give(&timers->lock, KIN__RANK_TIMER);
    return count;
}

/* As kin__wake_task, but those that are due run in the order of their deadlines. */
static bool wake_due(const struct due *due)
{
    struct kin__task *task = due->task;
    enum kin__claim claim = kin__word_claim(task, due->ticket);
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
    } while (count == FIRE_BATCH);
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

static bool timer_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin__timer *timer = object;
    struct kin__worker *worker = kin__worker_self();
    struct timers *timers = timers_of(worker);
    (void)status;
    timer->home = worker;
    timer->task = waiter->task;
    timer->ticket = waiter->ticket;
    timer->case_ = waiter->case_;
    kin__lock_take(&timers->lock, KIN__RANK_TIMER);
    if (timers->wheel.count == 0) /* an empty wheel follows the clock for nothing */
        (void)kin__wheel_pop(&timers->wheel, worker->now);
    kin__wheel_insert(&timers->wheel, &timer->node);
    note_next_locked(worker);
    kin__lock_give(&timers->lock, KIN__RANK_TIMER);
    return true;
}

static void timer_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin__timer *timer = object;
    struct timers *timers = timers_of(timer->home);
    (void)waiter;
    kin__lock_take(&timers->lock, KIN__RANK_TIMER);
    kin__wheel_remove(&timers->wheel, &timer->node);
    kin__lock_give(&timers->lock, KIN__RANK_TIMER);
}

const struct kin__waitable kin__timer_waitable = {"sleep", timer_try, timer_publish,
                                                  timer_unpublish};

uint64_t kin__timer_count(struct kin__worker *worker)
{
    struct timers *timers = timers_of(worker);
    kin__lock_take(&timers->lock, KIN__RANK_TIMER);
    uint64_t count = timers->wheel.count;
    kin__lock_give(&timers->lock, KIN__RANK_TIMER);
    return count;
}

/* ---- deadlines of other waits ---- */

int kin__wait_until(const struct kin__waitable *ops, void *object, void *io, kin_time deadline,
                    unsigned flags)
{
    int status = 0;
    if (deadline == KIN_NEVER)
        return kin__wait(ops, object, io, flags);
    struct kin__task *task = kin__task_self();
    if (!task)
        return KIN_NOTASK;
    kin__entry_check(task);
    if (ops->try_complete(object, io, &status))
        return status;
    if (deadline <= 0)
        return KIN_TIMEOUT;
    struct kin__timer timer;
    kin__timer_init(&timer, deadline);
    struct kin__case cases[2] = {{.ops = ops, .object = object, .io = io},
                                 {.ops = &kin__timer_waitable, .object = &timer}};
    int rc = kin__wait_any(cases, 2, flags, &status);
    return rc < 0 ? rc : rc == 1 ? KIN_TIMEOUT : status;
}

/* ---- the public face ---- */

kin_time kin_now(void)
{
    return kin__clock_now();
}

kin_time kin_after(int64_t ns)
{
    return kin__add_sat(kin__clock_now(), ns);
}

int kin_sleep(kin_time deadline)
{
    struct kin__timer timer;
    kin__timer_init(&timer, deadline);
    if (!kin__task_self())
        return KIN_NOTASK;
    return kin__wait(&kin__timer_waitable, &timer, NULL, 0);
}
