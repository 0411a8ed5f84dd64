/* SPDX-License-Identifier: MIT */
/*
 * A lock of four bytes for sections of a few dozen instructions, released by a plain store.
 *
 * A waiter spins, then offers its CPU, then sleeps for growing moments: the holder may have lost
 * its CPU, and with more threads than cores spinning alone would keep it from getting one. Nobody
 * sleeps on the word itself, so unlock needs no atomic read-modify-write. No lock of this kind is
 * held across a switch.
 */
#ifndef KIN_BASE_LOCK_H
#define KIN_BASE_LOCK_H

#include "base/assert.h"
#include "base/atomic.h"
#include "base/lockrank.h"

struct kin__lock {
    kin__a32 word; /* 0 free, 1 held */
};

/* Waits in a loop until bit 0 of *word could be set. Defined in plat/linux/futex.c, because waiting
 * in moments belongs to the operating system; declared here so that everybody can lock. */
void kin__lock_slow(kin__a32 *word);

static inline void kin__lock_take(struct kin__lock *lock, enum kin__lock_rank rank)
{
    kin__rank_take(rank);
    /* pairs with the release in kin__lock_give */
    if (KIN__UNLIKELY(kin__xchg_acquire(&lock->word, 1u) != 0))
        kin__lock_slow(&lock->word);
}

static inline bool kin__lock_try(struct kin__lock *lock, enum kin__lock_rank rank)
{
    /* relaxed: a hint; the exchange pairs with the release in kin__lock_give */
    if (kin__load_relaxed(&lock->word) != 0 || kin__xchg_acquire(&lock->word, 1u) != 0)
        return false;
    kin__rank_take(rank);
    return true;
}

static inline void kin__lock_give(struct kin__lock *lock, enum kin__lock_rank rank)
{
    KIN__ASSERT(kin__load_relaxed(&lock->word) == 1, "house"); /* alone: the holder's own word */
    kin__rank_give(rank);
    /* pairs with the acquire in kin__lock_take, kin__lock_try and kin__lock_slow */
    kin__store_release(&lock->word, 0u);
}

#endif
