/* SPDX-License-Identifier: MIT */
/*
 * A semaphore: permits, and a line of tasks that want some.
 *
 * The head of the line gets its permits as soon as there are enough, all at once; until then
 * nothing is set aside for it, and nobody behind it, nor any newcomer, gets any. That keeps order
 * of arrival between large and small wishes. When the head leaves, what there is may be enough for
 * those behind it.
 *
 * Invariant, under the lock of the crowd and while nobody sweeps: the head wants more than there
 * is.
 */
#include "wait/crowd.h"

#include "sched/entry.h"
#include "task/budget.h"
#include "wait/owner.h"
#include "wait/timer.h"

#include <kin/sync.h>

#include <errno.h>

struct sem {
    struct kin__crowd crowd;
    size_t permits;
};

_Static_assert(sizeof(struct sem) <= sizeof(struct kin_sem), "a semaphore fits");
_Static_assert(_Alignof(struct sem) <= _Alignof(struct kin_sem), "a semaphore fits");

static inline struct sem *of(struct kin_sem *sem)
{
    return (struct sem *)(void *)sem;
}

/* How many permits a wait is for: its io points at the number. */
static inline size_t wish(const void *io)
{
    return *(const size_t *)io;
}

/* ---- the waitable ---- */

static bool fits(const void *object, const struct kin__waiter *waiter)
{
    const struct sem *sem = object;
    return sem->permits >= wish(waiter->io);
}

static void enter(void *object, const struct kin__claimed *claimed)
{
    struct sem *sem = object;
    sem->permits -= wish(claimed->io);
}

static inline bool is_free(const struct sem *sem, const void *io)
{
    return sem->permits >= wish(io) && kin__waitq_is_empty(&sem->crowd.queue);
}

static bool sem_try(void *object, void *io, int *status)
{
    struct sem *sem = object;
    kin__crowd_take(&sem->crowd);
    bool takes = is_free(sem, io);
    if (takes)
        sem->permits -= wish(io);
    kin__crowd_give(&sem->crowd);
    *status = 0;
    return takes;
}

static bool sem_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct sem *sem = object;
    (void)status;
    kin__crowd_take(&sem->crowd);
    bool links = !is_free(sem, waiter->io);
    if (links)
        kin__waitq_push(&sem->crowd.queue, waiter);
    kin__crowd_give(&sem->crowd);
    return links;
}

static void sem_unpublish(void *object, struct kin__waiter *waiter)
{
    struct sem *sem = object;
    (void)kin__crowd_leave(&sem->crowd, waiter);
    kin__crowd_admit(&sem->crowd, sem, fits, enter);
}

static const struct kin__waitable sem_waitable = {"semaphore", sem_try, sem_publish,
                                                  sem_unpublish};

KIN__WAITABLE_READY(sem_waitable)
{
    const struct sem *sem = object;
    bool is_first = kin__waitq_first(&sem->crowd.queue) == waiter;
    return is_first && fits(sem, waiter) ? "there are permits for it" : NULL;
}

/* ---- the public face ---- */

int kin_sem_init(struct kin_sem *sem, size_t permits)
{
    if (!sem)
        return -EINVAL;
    *of(sem) = (struct sem){.permits = permits};
    return 0;
}

int kin_sem_acquire(struct kin_sem *sem, size_t n, kin_time deadline)
{
    if (!sem)
        return -EINVAL;
    int rc = kin__entry_begin(kin__task_self(), 0, deadline);
    if (rc < 0 || n == 0)
        return rc;
    return kin__wait_until(&sem_waitable, sem, &n, deadline, 0);
}

void kin_sem_release(struct kin_sem *sem, size_t n)
{
    if (!sem)
        return;
    kin__entry_turn_self();
    kin__crowd_take(&of(sem)->crowd);
    if (KIN__UNLIKELY(n > SIZE_MAX - of(sem)->permits))
        kin__owner_misuse("kin_sem_release", "a semaphore holds at most SIZE_MAX permits", sem, 0);
    of(sem)->permits += n;
    kin__crowd_admit(&of(sem)->crowd, of(sem), fits, enter);
}
