/* SPDX-License-Identifier: MIT */
/*
 * A lock and the tasks that wait behind it: what every object of <kin/sync.h> is made of.
 *
 * Objects live in memory of the caller and are never destroyed, so whoever was let go by one may
 * reuse its memory at once: an event on the stack of the task that waits for it, a group in a block
 * that its last waiter frees. Three rules make that safe:
 *
 *   1. Giving the lock is a waker's last touch of the object; the tasks that it has claimed run
 *      only after that, and touch the object no more.
 *   2. Whoever completes without waiting has either taken the lock or has seen it free.
 *   3. Many are woken in batches, so that nobody waits long for the lock. Between two batches a
 *      waker has touched the object for the last but one time: it is counted in sweeps, and a
 *      waiter that is still in line does not leave, not even cancelled, until the waker has been
 *      through. The object is in use as long as somebody is in line.
 *
 * All zero is a crowd of nobody.
 */
#ifndef KIN_WAIT_CROWD_H
#define KIN_WAIT_CROWD_H

#include "base/lock.h"
#include "park/waitq.h"
#include "plat/plat.h"

#define KIN__CROWD_BATCH 64u /* tasks claimed before the lock is given up for a moment */

struct kin__crowd {
    struct kin__lock lock; /* rank WAIT; the rest, and the object's own fields */
    uint16_t sweeps;       /* wakers that are between two batches */
    uint16_t is_broken;    /* of locks: the owner has ended without unlocking; see owner.h */
    struct kin__waitq queue;
};

static inline void kin__crowd_take(struct kin__crowd *crowd)
{
    kin__lock_take(&crowd->lock, KIN__RANK_WAIT);
}

static inline void kin__crowd_give(struct kin__crowd *crowd)
{
    kin__lock_give(&crowd->lock, KIN__RANK_WAIT);
}

/* For whoever saw, with an acquire, that the object is complete: whether the one who completed it
 * has also let go of it. If not, take and give the lock. */
static inline bool kin__crowd_is_quiet(struct kin__crowd *crowd)
{
    /* pairs with the release in kin__lock_give: the completer's last touch. That it had taken the
     * lock before came with what the caller saw. */
    return kin__load_acquire(&crowd->lock.word) == 0;
}

/* A waiter leaves without having been let go. The lock is held afterwards. True: it was still in
 * line. */
static inline bool kin__crowd_leave(struct kin__crowd *crowd, struct kin__waiter *waiter)
{
    kin__crowd_take(crowd);
    while (crowd->sweeps && kin__list_is_linked(&waiter->link)) { /* ends: sweeps do */
        kin__crowd_give(crowd);
        kin__thread_yield();
        kin__crowd_take(crowd);
    }
    bool was_in_line = kin__list_is_linked(&waiter->link);
    kin__waitq_remove(waiter);
    return was_in_line;
}

/* Lets go everybody who is in line now, with a status; who comes between two batches is not meant.
 * Called with the lock held, which it gives. */
static inline void kin__crowd_wake_all(struct kin__crowd *crowd, int status)
{
    struct kin__waitq swept;
    struct kin__wakes wakes = {0};
    struct kin__claimed claimed;
    bool has_more = !kin__waitq_is_empty(&crowd->queue);
    kin__list_init(&swept.list);
    if (has_more)
        kin__list_splice(&swept.list, &crowd->queue.list);
    crowd->sweeps++;
    for (;;) { /* ends: swept only gets shorter */
        while (wakes.count < KIN__CROWD_BATCH && kin__waitq_claim(&swept, &claimed))
            kin__wakes_add(&wakes, &claimed, status);
        has_more = !kin__waitq_is_empty(&swept);
        if (!has_more)
            crowd->sweeps--;
        kin__crowd_give(crowd);
        kin__wakes_run(&wakes);
        if (!has_more)
            return;
        kin__crowd_take(crowd);
    }
}

/* Lets go whoever is first in line as long as fits() says that there is room for it; enter() takes
 * the room. Nobody overtakes. Called with the lock held, which it gives. While one does this others
 * leave it to that one: it looks again at the room after every batch. */
static inline __attribute__((always_inline)) void
kin__crowd_admit(struct kin__crowd *crowd, void *object,
                 bool (*fits)(const void *object, const struct kin__waiter *waiter),
                 void (*enter)(void *object, const struct kin__claimed *claimed))
{
    struct kin__wakes wakes = {0};
    struct kin__waiter *first;
    struct kin__claimed claimed;
    bool has_more = false;
    if (KIN__UNLIKELY(crowd->sweeps)) {
        kin__crowd_give(crowd);
        return;
    }
    do { /* ends: the line gets shorter, and what newcomers take is bounded by the room */
        crowd->sweeps = (uint16_t)(crowd->sweeps - has_more);
        has_more = false;
        while ((first = kin__waitq_first(&crowd->queue)) && fits(object, first)) {
            has_more = wakes.count == KIN__CROWD_BATCH;
            if (has_more)
                break;
            if (kin__waitq_claim_one(first, &claimed)) {
                enter(object, &claimed);
                kin__wakes_add(&wakes, &claimed, 0);
            }
        }
        crowd->sweeps = (uint16_t)(crowd->sweeps + has_more);
        kin__crowd_give(crowd);
        kin__wakes_run(&wakes);
        if (KIN__UNLIKELY(has_more))
            kin__crowd_take(crowd);
    } while (has_more);
}

#endif
