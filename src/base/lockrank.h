/* SPDX-License-Identifier: MIT */
/*
 * The order in which locks may be taken, lowest first; taking one out of order aborts in debug.
 */
#ifndef KIN_BASE_LOCKRANK_H
#define KIN_BASE_LOCKRANK_H

#include "base/assert.h"

enum kin__lock_rank {
    KIN__RANK_NURSERY = 1, /* a nursery's word; outer before inner while a cancel walks down */
    KIN__RANK_TASK,        /* the stack of nurseries a task owns */
    KIN__RANK_PARTY,       /* what others know of a task: its mailbox, its watchers */
    KIN__RANK_WAIT,        /* a waitable's list of waiters */
    KIN__RANK_POOLED,      /* the account of one who lives off another account */
    KIN__RANK_POLLER,      /* the list of pollers */
    KIN__RANK_TIMER,       /* a timer wheel */
    KIN__RANK_POOL,        /* start, retirement and sleep of workers */
    KIN__RANK_INJECT,      /* the global queue */
    KIN__RANK_STACK,       /* the pool of stacks */
    KIN__RANK_FRAME,       /* the pool of frames */
    KIN__RANK_LEAF         /* anything that takes no other */
};

#ifdef KIN_DEBUG
/* Each thread keeps the set of ranks it holds as bits (in plat/linux/thread.c). Ranks must rise;
 * only NURSERY may be taken while one of it is held. Also answers "does this thread hold any lock",
 * which must be false at every switch. */
void kin__rank_take(enum kin__lock_rank rank);
void kin__rank_give(enum kin__lock_rank rank);
bool kin__rank_holds_none(void);
#ifdef KIN__LAB
/* Whoever held locks is gone, and so are the locks. */
void kin__rank_forget(void);
#endif
#else
static inline void kin__rank_take(enum kin__lock_rank rank)
{
    (void)rank;
}
static inline void kin__rank_give(enum kin__lock_rank rank)
{
    (void)rank;
}
static inline bool kin__rank_holds_none(void)
{
    return true;
}
static inline void kin__rank_forget(void)
{
}
#endif

#endif
