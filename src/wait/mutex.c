/* SPDX-License-Identifier: MIT */
/*
 * A mutex: an owner and a line behind it, with one atomic instruction each way while nobody waits.
 *
 *     word = owner | WAITED          0: free, and nobody is in line
 *
 *     0 -> me              lock                                          anybody
 *     me -> 0              unlock, a subtraction                         the owner
 *     me|WAITED -> WAITED  unlock, and somebody is in line               the owner
 *     WAITED -> me|WAITED  it is the owner's again for the time being    who has unlocked
 *     owner -> |WAITED     the first one gets in line                    under the lock
 *     |WAITED -> owner     the last one in line has left                 under the lock
 *     |WAITED -> next      hand-off, with WAITED if more are in line     the owner, under the lock
 *
 * Invariant, under the lock of the crowd: if somebody is in line WAITED is set, and if it is set
 * for no reason the owner is unlocking. A word without an owner that is not 0 is changed by nobody
 * but the one who has unlocked.
 *
 * To subtract what was there is cheaper than a compare-exchange, which has to wait for the value
 * that it compares: a lock and an unlock take 4.6 ns instead of 5.1.
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
 * nobody in line frees it with its last touch, the subtraction. One that hands over gives the
 * crowd's lock before it wakes the next owner. One that finds that all in line have left does not
 * free it under the lock: it unlocks once more.
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
    /* pairs with the release in give */
    return kin__cas_acquire(&mutex->word, found, me);
}

/* False: somebody is in line, and release_slow has to see to it. */
static inline bool give(struct kin__mutex *mutex, uint64_t me)
{
    /* pairs with the acquire in take */
    return kin__sub_release(&mutex->word, me) == me;
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
        if (owner && (owner == me || kin__owner_is_over(owner)))
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
    uint64_t word = kin__load_relaxed(&mutex->word); /* relaxed: the exchange decides */
    if (kin__waitq_is_empty(&mutex->crowd.queue) && (word & KIN__OWNER_MASK)) {
        /* relaxed: an unlock that saw WAITED, which is how this fails, takes the lock and looks
         * again */
        (void)kin__cas_relaxed(&mutex->word, &word, word & KIN__OWNER_MASK);
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

/* Somebody was in line when the owner unlocked. */
static __attribute__((noinline)) void release_slow(struct kin__mutex *mutex,
                                                   struct kin__task *task, uint64_t me)
{
    struct kin__wakes wakes = {0};
    struct kin__claimed claimed;
    /* relaxed: nobody else changes it; an overflow here leaves it with an owner that has ended */
    kin__store_relaxed(&mutex->word, me | WAITED);
    kin__entry_check(task);
    do { /* ends: each round somebody got in line and left again */
        kin__crowd_take(&mutex->crowd);
        if (KIN__LIKELY(kin__waitq_claim(&mutex->crowd.queue, &claimed))) {
            bool has_more = !kin__waitq_is_empty(&mutex->crowd.queue);
            uint64_t next = kin__owner_of(claimed.task) | (has_more ? WAITED : 0);
            kin__store_relaxed(&mutex->word, next); /* relaxed: the wake orders the rest */
            kin__wakes_add(&wakes, &claimed, 0);
        } else {
            kin__store_relaxed(&mutex->word, me); /* relaxed: the owner's; give orders the rest */
        }
        kin__crowd_give(&mutex->crowd);
    } while (!wakes.count && !give(mutex, me));
    kin__owner_lose(task);
    kin__wakes_run(&wakes);
}

void kin__mutex_release(struct kin_mutex *mutex, struct kin__task *task)
{
    uint64_t me = kin__owner_of(task);
    if (give(of(mutex), me))
        kin__owner_lose(task);
    else
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

/* Somebody holds it, or there is more to the call than that. */
static __attribute__((noinline)) int lock_slow(struct kin_mutex *mutex, struct kin__task *task,
                                               kin_time deadline)
{
    if (!mutex)
        return -EINVAL;
    int rc = kin__entry_begin(task, 0, deadline);
    if (rc < 0)
        return rc;
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
    if (KIN__UNLIKELY(!mutex || !task || !kin__entry_is_open(task) ||
                      !take(of(mutex), kin__owner_of(task), &found)))
        return lock_slow(mutex, task, deadline);
    task->slice--;
    kin__owner_gain(task);
    return 0;
}

/* Somebody is in line, or the caller must not do this: then the word is made what it was. */
static __attribute__((noinline)) void unlock_slow(struct kin_mutex *mutex, struct kin__task *task)
{
    uint64_t me = task ? kin__owner_of(task) : 0, owner = 0;
    /* relaxed: what give left, if this task was the owner */
    if (mutex && task && kin__load_relaxed(&of(mutex)->word) == WAITED) {
        release_slow(of(mutex), task, me);
        return;
    }
    if (mutex) /* relaxed: orders nothing */
        owner = (kin__add_relaxed(&of(mutex)->word, me) + me) & KIN__OWNER_MASK;
    kin__owner_misuse("kin_mutex_unlock", "a mutex is unlocked by the task that holds it", mutex,
                      owner);
}

void kin_mutex_unlock(struct kin_mutex *mutex)
{
    KIN__LAB_POINT();
    struct kin__task *task = kin__task_self();
    if (KIN__LIKELY(mutex && task && give(of(mutex), kin__owner_of(task))))
        kin__owner_lose(task);
    else
        unlock_slow(mutex, task);
}
