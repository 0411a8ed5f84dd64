/* SPDX-License-Identifier: MIT */
/*
 * A barrier: a line that is let go as soon as it is long enough.
 *
 *     whoever waits is in line; one who comes and finds parties - 1 in line completes the round:
 *     the line is taken over, the next round begins, all are let go
 *
 * Whether somebody has come is decided under the lock, not by who claims whose park: a task whose
 * deadline passes in the moment in which the last one comes has come, if it was still in line, and
 * returns 0. Otherwise the others would pass a barrier that counts one who says that it was not
 * there. Each waiter remembers the round in which it got in line and compares on its way out.
 */
#include "wait/crowd.h"

#include "sched/entry.h"
#include "task/budget.h"
#include "wait/timer.h"

#include <kin/sync.h>

#include <errno.h>

struct barrier {
    struct kin__crowd crowd;
    size_t parties; /* constant */
    size_t waiting; /* in line, of this round */
    uint64_t round;
};

_Static_assert(sizeof(struct barrier) <= sizeof(struct kin_barrier), "a barrier fits");
_Static_assert(_Alignof(struct barrier) <= _Alignof(struct kin_barrier), "a barrier fits");

/* What the io of a waiter points at. */
struct arrival {
    uint64_t round;
    bool has_passed; /* the round was complete when the waiter left */
};

static inline struct barrier *of(struct kin_barrier *barrier)
{
    return (struct barrier *)(void *)barrier;
}

/* ---- the waitable ---- */

static bool barrier_try(void *object, void *io, int *status)
{
    struct barrier *barrier = object;
    (void)io;
    *status = 0;
    kin__crowd_take(&barrier->crowd);
    bool is_last = barrier->waiting + 1 == barrier->parties;
    if (is_last) {
        barrier->waiting = 0;
        barrier->round++;
        kin__crowd_wake_all(&barrier->crowd, 0);
    } else {
        kin__crowd_give(&barrier->crowd);
    }
    return is_last;
}

static bool barrier_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct barrier *barrier = object;
    struct arrival *arrival = waiter->io;
    (void)status;
    kin__crowd_take(&barrier->crowd);
    bool links = barrier->waiting + 1 != barrier->parties;
    if (links) {
        arrival->round = barrier->round;
        barrier->waiting++;
        kin__waitq_push(&barrier->crowd.queue, waiter);
    }
    kin__crowd_give(&barrier->crowd);
    return links;
}

static void barrier_unpublish(void *object, struct kin__waiter *waiter)
{
    struct barrier *barrier = object;
    struct arrival *arrival = waiter->io;
    (void)kin__crowd_leave(&barrier->crowd, waiter);
    arrival->has_passed = arrival->round != barrier->round;
    if (!arrival->has_passed)
        barrier->waiting--;
    kin__crowd_give(&barrier->crowd);
}

static const struct kin__waitable barrier_waitable = {"barrier", barrier_try, barrier_publish,
                                                      barrier_unpublish};

KIN__WAITABLE_READY(barrier_waitable)
{
    const struct barrier *barrier = object;
    const struct arrival *arrival = waiter->io;
    return arrival->round != barrier->round       ? "its round is complete"
           : barrier->waiting >= barrier->parties ? "all have come"
                                                  : NULL;
}

/* ---- the public face ---- */

int kin_barrier_init(struct kin_barrier *barrier, size_t parties)
{
    if (!barrier || parties == 0)
        return -EINVAL;
    *of(barrier) = (struct barrier){.parties = parties};
    return 0;
}

int kin_barrier_wait(struct kin_barrier *barrier, kin_time deadline)
{
    struct arrival arrival = {0, false};
    if (!barrier || of(barrier)->parties == 0)
        return -EINVAL;
    int rc = kin__entry_begin(kin__task_self(), 0, deadline);
    if (rc < 0)
        return rc;
    rc = kin__wait_until(&barrier_waitable, barrier, &arrival, deadline, 0);
    return arrival.has_passed ? 0 : rc;
}
