/* SPDX-License-Identifier: MIT */
/*
 * The deque: a ring whose older part anybody may take from and whose newer part is its owner's.
 *
 *        top            split          bottom
 *     ----+---------------+--------------+----
 *         |    public     |   private    |
 *     ----+---------------+--------------+----
 *      thieves: CAS top+k     owner: plain push and pop at the bottom
 *
 * top and split share one 64-bit word, so a batch is taken by one compare-exchange that also proves
 * that the batch was public. Both only ever grow: a slot at or above top is rewritten only after
 * top has passed it, so a thief whose compare-exchange succeeds read what was there [D-9]. The
 * owner gets published entries back as a thief would, by moving top, and lays them into its private
 * part. (Lowering split instead looks cheaper and is wrong: the word can come back to an old value
 * with other entries behind it.)
 *
 * The owner's operations are also made by the monitor when it rescues the queue of a stuck worker,
 * under the worker's bias (bias.h): never both at once.
 */
#ifndef KIN_SCHED_DEQUE_H
#define KIN_SCHED_DEQUE_H

#include "base/assert.h"
#include "base/atomic.h"
#include "task/task.h"

#if defined(KIN__LAB) || defined(KIN__ATOMS)
#define KIN__DEQUE_SIZE 4u
#else
#define KIN__DEQUE_SIZE 256u
#endif
#define KIN__STEAL_MAX (KIN__DEQUE_SIZE / 8 + 1) /* most entries one steal takes */
#define KIN__RECLAIM_MAX 16u /* most the owner gets back at a time; it may be on a small stack */

struct kin__deque {
    /* owner writes, thieves compare-exchange */
    _Alignas(64) kin__a64 range; /* top | split << 32 */
    /* owner writes, others may look */
    _Alignas(64) kin__a32 bottom;
    _Atomic(struct kin__task *) ring[KIN__DEQUE_SIZE];
};

static inline uint32_t kin__range_top(uint64_t range)
{
    return (uint32_t)range;
}

static inline uint32_t kin__range_split(uint64_t range)
{
    return (uint32_t)(range >> 32);
}

static inline uint64_t kin__range_make(uint32_t top, uint32_t split)
{
    return (uint64_t)split << 32 | top;
}

static inline _Atomic(struct kin__task *) *kin__deque_at(struct kin__deque *deque, uint32_t index)
{
    return &deque->ring[index & (KIN__DEQUE_SIZE - 1)];
}

/* Indices start near their overflow when wrap is asked for, so that tests pass over it. */
static inline void kin__deque_init(struct kin__deque *deque, uint32_t start)
{
    kin__store_relaxed(&deque->range, kin__range_make(start, start)); /* alone: not shared yet */
    kin__store_relaxed(&deque->bottom, start);                        /* alone: not shared yet */
}

/* How many entries there are, about; from any thread. */
static inline uint32_t kin__deque_len(struct kin__deque *deque)
{
    uint64_t range = kin__load_relaxed(&deque->range); /* relaxed: a hint */
    uint32_t n = kin__load_relaxed(&deque->bottom) - kin__range_top(range); /* relaxed: a hint */
    return n > KIN__DEQUE_SIZE ? 0 : n;
}

/* How many of them thieves can see, about. */
static inline uint32_t kin__deque_public(struct kin__deque *deque)
{
    uint64_t range = kin__load_relaxed(&deque->range); /* relaxed: a hint */
    return kin__range_split(range) - kin__range_top(range);
}

/* Owner: false when the ring is full. */
static inline bool kin__deque_push(struct kin__deque *deque, struct kin__task *task)
{
    uint32_t bottom = kin__load_relaxed(&deque->bottom); /* alone: the owner's own */
    /* pairs with the exchange in steal: the slot is free only when top has passed it */
    uint32_t top = kin__range_top(kin__load_acquire(&deque->range));
    if (KIN__UNLIKELY(bottom - top >= KIN__DEQUE_SIZE))
        return false;
    kin__store_relaxed(kin__deque_at(deque, bottom), task); /* pairs with publish's release */
    kin__store_relaxed(&deque->bottom, bottom + 1);         /* alone: private until published */
    return true;
}

/* Owner: the newest private entry; NULL when there is none. */
static inline struct kin__task *kin__deque_pop(struct kin__deque *deque)
{
    uint32_t bottom = kin__load_relaxed(&deque->bottom); /* alone: the owner's own */
    /* relaxed: split is the owner's own */
    if (bottom == kin__range_split(kin__load_relaxed(&deque->range)))
        return NULL;
    /* relaxed: the owner's own entry */
    struct kin__task *task = kin__load_relaxed(kin__deque_at(deque, bottom - 1));
    kin__store_relaxed(&deque->bottom, bottom - 1); /* alone: private */
    /* relaxed: only an address to warm up; it may be an old entry, frames are never unmapped */
    __builtin_prefetch(kin__load_relaxed(kin__deque_at(deque, bottom - 2)));
    return task;
}

/* Owner: the newest private entry without taking it. */
static inline struct kin__task *kin__deque_peek(struct kin__deque *deque)
{
    uint32_t bottom = kin__load_relaxed(&deque->bottom); /* alone: the owner's own */
    /* relaxed: split is the owner's own */
    if (bottom == kin__range_split(kin__load_relaxed(&deque->range)))
        return NULL;
    return kin__load_relaxed(kin__deque_at(deque, bottom - 1)); /* relaxed: the owner's own */
}

/* Owner: the oldest half (at least one) of the private part becomes public. How many did. */
uint32_t kin__deque_publish(struct kin__deque *deque);
/* Owner, with nothing private left: the oldest public entries become private, in their order. How
 * many did. */
uint32_t kin__deque_reclaim(struct kin__deque *deque);
/* Owner: takes the count oldest entries, public or not, into out; fewer when there are fewer. What
 * is in out beyond the returned number means nothing. */
uint32_t kin__deque_take_oldest(struct kin__deque *deque, struct kin__task **out, uint32_t count);
/* Anybody: takes up to half of the public entries (at least one, at most max) into out, oldest
 * first. 0: nothing there, or somebody else was faster (*contended says which). */
uint32_t kin__deque_steal(struct kin__deque *deque, struct kin__task **out, uint32_t max,
                          bool *contended);

#endif
