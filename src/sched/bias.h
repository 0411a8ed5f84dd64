/* SPDX-License-Identifier: MIT */
/*
 * The bias: a lock that its owner takes with plain stores and others take with a barrier.
 *
 *     owner   busy = 1 ; light fence ; revoked? -> slow     other   revoked? give up; else set it
 *             ... touches its queues ...                            membarrier
 *             busy = 0 (release)                                    busy? -> revoked = 0, give up
 *                                                                   ... touches the queues ...
 *                                                                   revoked = 0 (release)
 *
 * A worker's queues are touched several times per task and by its own thread alone, except when
 * that thread is stuck in somebody's system call and the monitor must hand its queue to others, or
 * when its task computes for long and a worker without work opens its queue. Then, and only then,
 * the other side pays for both: membarrier makes every running thread pass a full fence, so either
 * the owner's busy is seen, or the owner sees revoked. A busy owner moves, so the other gives up at
 * once and nobody waits long; of two others the second gives up. Where the kernel has no membarrier
 * the light fence is a full one (KIN__STRONG). The model is test/model/bias.pml.
 */
#ifndef KIN_SCHED_BIAS_H
#define KIN_SCHED_BIAS_H

#include "base/assert.h"
#include "base/atomic.h"

struct kin__bias {
    kin__a32 busy;    /* owner writes, others read */
    kin__a32 revoked; /* KIN__REVOKED: others write, owner reads; KIN__STRONG: constant */
};
#define KIN__REVOKED 1u
#define KIN__STRONG 2u /* no membarrier on this machine: the owner fences itself, every time */

void kin__bias_init(struct kin__bias *bias, bool is_strong);

/* The owner found the bias revoked, or must fence: it has the bias when this returns. */
void kin__bias_take_slow(struct kin__bias *bias);

static inline void kin__bias_take(struct kin__bias *bias)
{
    KIN__ASSERT(!kin__load_relaxed(&bias->busy), "house"); /* alone: the owner's own */
    kin__store_relaxed(&bias->busy, 1u); /* pairs with the load in kin__bias_revoke */
    /* fence: busy before revoked; its mirror is membarrier in kin__bias_revoke */
    kin__fence_light();
    /* pairs with the release in kin__bias_restore: what was done to the queues is seen */
    if (KIN__UNLIKELY(kin__load_acquire(&bias->revoked)))
        kin__bias_take_slow(bias);
}

static inline void kin__bias_give(struct kin__bias *bias)
{
    kin__store_release(&bias->busy, 0u); /* pairs with the acquire in kin__bias_revoke */
}

/* Not the owner: true when the queues are the caller's own until kin__bias_restore. */
bool kin__bias_revoke(struct kin__bias *bias);
void kin__bias_restore(struct kin__bias *bias);

#endif
