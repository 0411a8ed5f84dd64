/* SPDX-License-Identifier: MIT */
/*
 * A mutex: an owner and a line behind it, with one compare-exchange each way while nobody waits.
 *
 *     word = owner | WAITED          0: free, and nobody is in line
 *
 *     0 -> me              lock                                          anybody
 *     owner -> 0           unlock                                        the owner
 *     owner -> |WAITED     the first one gets in line                    under the lock
 *     |WAITED -> owner     the last one in line has left                 under the lock
 *     |WAITED -> next      hand-off, with WAITED if more are in line     the owner, under the lock
 *     |WAITED -> 0         all in line were leaving                      the owner, under the lock
 *
 * Invariant, under the lock of the crowd: WAITED is set exactly when somebody is in line.
 *
 * An unlock hands the mutex to the first in line, so that the word is never 0 while somebody waits
 * and nobody can overtake: order of arrival is kept to the letter, and nobody starves. The
 * alternative, to free the mutex, wake the first and let it compete with newcomers (barging), has
 * more throughput when many workers fight for one mutex, because it does not wait until the woken
 * task runs; but a task that locks again and again then starves those in line, and the cures (a
 * time limit after which the line goes first) promise an order that depends on the load. On one
 * worker hand-off costs nothing extra as long as nobody parks while it holds the mutex: the yield
 * of a slice that is over comes before the lock, not inside of it.
 *
 * Nobody spins before it gets in line. Measured with two workers, a hundred pauses gain nothing as
 * soon as there is a line, since then the mutex is never free, and cost forty parks when the owner
 * waits for something else.
 *
 * The memory may be reused by the next owner as soon as it has the mutex. An unlock that finds
 * nobody in line frees it with its last touch, the compare-exchange. One that hands over gives the
 * crowd's lock before it wakes the next owner. One that frees it under the lock, because all in
 * line were leaving, is protected by those: they are still to take the lock.
 *
 * An owner that has ended: see owner.h.
 */
#include "wait/mutex.h"

#include "sched/entry.h"
#include "task/budget.h"
#include "wait/owner.h"
#include "wait/timer.h"

#include <errno.h>

#define WAITED (~KIN__OWNER_MASK)

_Static_assert(sizeof(struct kin__mutex) <= sizeof(struct kin_mutex), "a mutex fits");
_Static_assert(_Alignof(struct kin__mutex) <= _Alignof(struct kin_mutex), "a mutex fits");
_Static_assert(offsetof(struct kin__mutex, word) == 0, "who looks from outside");

static inline struct kin__mutex *of(struct kin_mutex *mutex)
{
    return (struct kin__mutex *)(void *)mutex;
}

static inline bool take(struct kin__mutex *mutex, uint64_t me, uint64_t *found)
{
    *found = 0;
    /* pairs with the release in give and in release_slow */
    return kin__cas_acquire(&mutex->word, found, me);
}

static inline bool give(struct kin__mutex *mutex, uint64_t me, uint64_t *found)
{
    *found = me;
    /* pairs with the acquire in take */
    return kin__cas_release(&mutex->word, found, 0);
}

/* ---- the waitable ---- */

/* Whether the owner has ended. The first one to find out tells the others. Takes the lock. */
static bool is_broken(struct kin__mutex *mutex)
{
    kin__crowd_take(&mutex->crowd);
    uint64_t word = kin__load_relaxed(&mutex->word); /* relaxed: looked at again below */
    uint64_t owner = word & KIN__OWNER_MASK;
    bool is_over = owner && kin__owner_is_over(owner);
    if (KIN__UNLIKELY(is_over)) {
        /* pairs with the release in give: an owner unlocks before it ends, so a word that still has
         * its name now has it for good */
        is_over = (kin__load_acquire(&mutex->word) & KIN__OWNER_MASK) == owner;
    }
    if (KIN__LIKELY(!is_over) || mutex->crowd.is_broken) {
        kin__crowd_give(&mutex->crowd);
        return is_over;
    }
    mutex->crowd.is_broken = 1;
    /* relaxed: nobody is in line from here on, and nobody gets in */
    (void)kin__and_relaxed(&mutex->word, KIN__OWNER_MASK);
    kin__crowd_wake_all(&mutex->crowd, -EOWNERDEAD);
    kin__owner_report(kin__owner_what_mutex, mutex, owner);
    return true;
}

static bool mutex_try(void *object, void *io, int *status)
{
    struct kin__mutex *mutex = object;
    uint64_t me = kin__owner_of(kin__task_self()), found;
    (void)io;
    *status = 0;
    if (take(mutex, me, &found))
        return true;
    if ((found & KIN__OWNER_MASK) == me)
        *status = -EDEADLK;
    else if (KIN__UNLIKELY(is_broken(mutex)))
        *status = -EOWNERDEAD;
    return *status != 0;
}

static bool mutex_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin__mutex *mutex = object;
    uint64_t me = kin__owner_of(waiter->task);
    (void)status;
    kin__crowd_take(&mutex->crowd);
    uint64_t word = kin__load_relaxed(&mutex->word); /* relaxed: the exchange decides */
    bool links = false;
    while (word && !links) { /* ends: once WAITED is set only this lock's holder clears it */
        uint64_t owner = word & KIN__OWNER_MASK;
        if (owner == me || kin__owner_is_over(owner))
            break;
        /* relaxed: whoever sees WAITED takes the lock before it looks at the line */
        links = (word & WAITED) || kin__cas_relaxed(&mutex->word, &word, word | WAITED);
    }
    if (links)
        kin__waitq_push(&mutex->crowd.queue, waiter);
    kin__crowd_give(&mutex->crowd);
    return links;
}

static void mutex_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin__mutex *mutex = object;
    (void)kin__crowd_leave(&mutex->crowd, waiter);
    if (kin__waitq_is_empty(&mutex->crowd.queue)) {
        /* relaxed: an unlock that still sees WAITED takes the lock and looks again */
        (void)kin__and_relaxed(&mutex->word, KIN__OWNER_MASK);
    }
    kin__crowd_give(&mutex->crowd);
}

static const struct kin__waitable mutex_waitable = {kin__owner_what_mutex, mutex_try,
                                                    mutex_publish, mutex_unpublish};

KIN__WAITABLE_READY(mutex_waitable)
{
    const struct kin__mutex *mutex = object;
    uint64_t owner = kin__load_relaxed(&mutex->word) & KIN__OWNER_MASK; /* relaxed: nobody runs */
    return !owner ? "nobody holds it" : kin__owner_is_over(owner) ? "its owner has ended" : NULL;
}

/* ---- inside ---- */

uint64_t kin__mutex_owner(const struct kin_mutex *mutex)
{
    const struct kin__mutex *inside = (const struct kin__mutex *)(const void *)mutex;
    return kin__load_relaxed(&inside->word) & KIN__OWNER_MASK; /* relaxed: a moment old */
}

bool kin__mutex_is_held(const struct kin_mutex *mutex, const struct kin__task *task)
{
    return kin__mutex_owner(mutex) == kin__owner_of(task);
}

/* Somebody was in line when the owner looked. */
static __attribute__((noinline)) void release_slow(struct kin__mutex *mutex,
                                                   struct kin__task *task, uint64_t me)
{
    struct kin__wakes wakes = {0};
    struct kin__claimed claimed;
    uint64_t found;
    kin__entry_check(task);
    do { /* ends: each round somebody got in line and left again */
        kin__crowd_take(&mutex->crowd);
        /* relaxed: only the owner, and others under the lock, change it */
        if (KIN__LIKELY(kin__load_relaxed(&mutex->word) & WAITED)) {
            if (KIN__LIKELY(kin__waitq_claim(&mutex->crowd.queue, &claimed))) {
                bool has_more = !kin__waitq_is_empty(&mutex->crowd.queue);
                uint64_t next = kin__owner_of(claimed.task) | (has_more ? WAITED : 0);
                kin__store_relaxed(&mutex->word, next); /* relaxed: the wake orders the rest */
                kin__wakes_add(&wakes, &claimed, 0);
            } else {
                kin__store_release(&mutex->word, 0); /* pairs with the acquire in take */
            }
            kin__crowd_give(&mutex->crowd);
            kin__wakes_run(&wakes);
            return;
        }
        kin__crowd_give(&mutex->crowd);
    } while (!give(mutex, me, &found));
}

void kin__mutex_release(struct kin_mutex *mutex, struct kin__task *task)
{
    uint64_t me = kin__owner_of(task), found;
    kin__owner_lose(task);
    if (!give(of(mutex), me, &found))
        release_slow(of(mutex), task, me);
}

int kin__mutex_retake(struct kin_mutex *mutex, struct kin__task *task)
{
    uint64_t found;
    int rc = 0;
    if (!take(of(mutex), kin__owner_of(task), &found)) {
        do { /* ends: a kill, or the end of some owner, wakes it at most once each */
            rc = kin__wait(&mutex_waitable, mutex, NULL, KIN__WAIT_DEAF);
        } while (rc == KIN_CANCELLED);
    }
    if (rc == 0)
        kin__owner_gain(task);
    return rc;
}

/* ---- the public face ---- */

/* Somebody holds it. */
static __attribute__((noinline)) int lock_slow(struct kin_mutex *mutex, struct kin__task *task,
                                               kin_time deadline)
{
    int rc;
    do { /* ends: see kin__owner_abandon, which makes those who wait look again */
        rc = kin__wait_until(&mutex_waitable, mutex, NULL, deadline, 0);
    } while (rc == KIN_CANCELLED && !kin__park_asked(task));
    if (rc == 0)
        kin__owner_gain(task);
    return rc;
}

int kin_mutex_lock(struct kin_mutex *mutex, kin_time deadline)
{
    struct kin__task *task = kin__task_self();
    uint64_t found;
    if (KIN__UNLIKELY(!mutex))
        return -EINVAL;
    if (KIN__UNLIKELY(!task))
        return KIN_NOTASK;
    kin__entry_check(task);
    int rc = kin__op(task, 0, deadline);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
#ifdef KIN_DEBUG
    if (kin__task_sched(task)->hard.park)
        return lock_slow(mutex, task, deadline);
#endif
    if (KIN__UNLIKELY(!take(of(mutex), kin__owner_of(task), &found)))
        return lock_slow(mutex, task, deadline);
    kin__owner_gain(task);
    return 0;
}

/* Somebody is in line, or the caller must not do this. */
static __attribute__((noinline)) void unlock_slow(struct kin_mutex *mutex, struct kin__task *task)
{
    if (!mutex || !task || !kin__mutex_is_held(mutex, task))
        kin__owner_misuse("kin_mutex_unlock", "a mutex is unlocked by the task that holds it",
                          mutex, mutex ? kin__mutex_owner(mutex) : 0);
    kin__mutex_release(mutex, task);
}

void kin_mutex_unlock(struct kin_mutex *mutex)
{
    struct kin__task *task = kin__task_self();
    uint64_t found;
    if (KIN__LIKELY(mutex && task && give(of(mutex), kin__owner_of(task), &found)))
        kin__owner_lose(task);
    else
        unlock_slow(mutex, task);
}
