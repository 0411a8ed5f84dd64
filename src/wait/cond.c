/* SPDX-License-Identifier: MIT */
/*
 * A condition: a line of tasks that gave up a mutex to stand in it.
 *
 *     wait:    get in line -> give the mutex up -> park -> (signal, deadline, cancel) -> take the
 *              mutex again, whatever ended the park
 *
 * The first two are one step for everybody who holds the mutex: they happen in the publish of the
 * wait, in this order, so whoever gets the mutex next finds the task in line, and a signal cannot
 * fall in between. A wait that is called off before it is published has kept the mutex.
 *
 * A signal claims the first in line that nobody else has claimed: a waiter that leaves because of
 * its deadline or a cancel drops out, and the signal goes to the next. So no signal is lost on
 * somebody who returns with another status, and nobody returns 0 without one.
 *
 * Taking the mutex again is a wait that nothing ends. Moving those who are woken straight into the
 * mutex's line (wait morphing) would save each of them one park when a broadcast wakes many; it
 * would also tie every waiter to two locks, and it is not done.
 */
#include "wait/crowd.h"

#include "sched/entry.h"
#include "task/budget.h"
#include "wait/mutex.h"
#include "wait/owner.h"
#include "wait/timer.h"

#include <errno.h>

struct cond {
    struct kin__crowd crowd;
};

_Static_assert(sizeof(struct cond) <= sizeof(struct kin_cond), "a condition fits");
_Static_assert(_Alignof(struct cond) <= _Alignof(struct kin_cond), "a condition fits");

/* What the io of a waiter points at. */
struct stand {
    struct kin_mutex *mutex; /* NULL: given up already */
};

static inline struct cond *of(struct kin_cond *cond)
{
    return (struct cond *)(void *)cond;
}

/* ---- the waitable ---- */

/* A condition is never complete: only a signal that comes while somebody waits counts. */
static bool cond_try(void *object, void *io, int *status)
{
    (void)object, (void)io, (void)status;
    return false;
}

static bool cond_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct cond *cond = object;
    struct stand *stand = waiter->io;
    struct kin_mutex *mutex = stand->mutex;
    (void)status;
    stand->mutex = NULL;
    kin__crowd_take(&cond->crowd);
    kin__waitq_push(&cond->crowd.queue, waiter);
    kin__crowd_give(&cond->crowd);
    if (mutex)
        kin__mutex_release(mutex, waiter->task);
    return true;
}

static void cond_unpublish(void *object, struct kin__waiter *waiter)
{
    struct cond *cond = object;
    (void)kin__crowd_leave(&cond->crowd, waiter);
    kin__crowd_give(&cond->crowd);
}

static const struct kin__waitable cond_waitable = {"condition", cond_try, cond_publish,
                                                   cond_unpublish};

KIN__WAITABLE_READY(cond_waitable)
{
    return NULL; /* what nobody waited for is gone */
}

/* ---- the public face ---- */

int kin_cond_wait(struct kin_cond *cond, struct kin_mutex *mutex, kin_time deadline)
{
    struct kin__task *task = kin__task_self();
    if (!cond || !mutex)
        return -EINVAL;
    if (!task)
        return KIN_NOTASK;
    kin__entry_check(task);
    if (KIN__UNLIKELY(!kin__mutex_is_held(mutex, task)))
        kin__owner_misuse("kin_cond_wait", "the mutex is held by the task that waits", mutex,
                          kin__mutex_owner(mutex));
    int rc = kin__op(task, 0, deadline);
    if (rc < 0)
        return rc;
    struct stand stand = {mutex};
    rc = kin__wait_until(&cond_waitable, cond, &stand, deadline, 0);
    if (!stand.mutex) {
        int again = kin__mutex_retake(mutex, task);
        if (KIN__UNLIKELY(again < 0))
            return again;
    }
    return rc;
}

void kin_cond_signal(struct kin_cond *cond)
{
    struct kin__wakes wakes = {0};
    struct kin__claimed claimed;
    if (!cond)
        return;
    kin__entry_turn_self();
    kin__crowd_take(&of(cond)->crowd);
    if (kin__waitq_claim(&of(cond)->crowd.queue, &claimed))
        kin__wakes_add(&wakes, &claimed, 0);
    kin__crowd_give(&of(cond)->crowd);
    kin__wakes_run(&wakes);
}

void kin_cond_broadcast(struct kin_cond *cond)
{
    if (!cond)
        return;
    kin__entry_turn_self();
    kin__crowd_take(&of(cond)->crowd);
    kin__crowd_wake_all(&of(cond)->crowd, 0);
}
