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

/* In the lab a lock stands for what it guards, but for those of queues, pools and wheels: what is
 * in them is not the program's state. */
static inline void kin__lock_touch(struct kin__lock *lock, enum kin__lock_rank rank, unsigned mode)
{
    if (mode && (rank <= KIN__RANK_POOLED || rank == KIN__RANK_LEAF))
        KIN__LAB_TOUCH(&lock->word, mode);
    (void)lock, (void)mode;
}

/* For somebody who changes what the lock guards in this way: KIN__LAB_ADD if the order of such
 * changes is seen by nobody; 0 if the caller itself says what it touches. */
static inline void kin__lock_take_to(struct kin__lock *lock, enum kin__lock_rank rank,
                                     unsigned mode)
{
    kin__rank_take(rank);
    kin__lock_touch(lock, rank, mode);
    /* pairs with the release in kin__lock_give */
    if (KIN__UNLIKELY(kin__xchg_acquire_quiet(&lock->word, 1u) != 0))
        kin__lock_slow(&lock->word);
}

static inline void kin__lock_take(struct kin__lock *lock, enum kin__lock_rank rank)
{
    kin__lock_take_to(lock, rank, KIN__LAB_WRITE);
}

static inline bool kin__lock_try(struct kin__lock *lock, enum kin__lock_rank rank)
{
    kin__lock_touch(lock, rank, KIN__LAB_WRITE);
    /* relaxed: a hint; the exchange pairs with the release in kin__lock_give */
    if (kin__load_quiet(&lock->word) != 0 || kin__xchg_acquire_quiet(&lock->word, 1u) != 0)
        return false;
    kin__rank_take(rank);
    return true;
}

static inline void kin__lock_give(struct kin__lock *lock, enum kin__lock_rank rank)
{
    KIN__ASSERT(kin__load_quiet(&lock->word) == 1, "house"); /* alone: the holder's own word */
    kin__rank_give(rank);
    /* pairs with the acquire in kin__lock_take, kin__lock_try and kin__lock_slow */
    kin__store_release_quiet(&lock->word, 0u);
}

#endif
