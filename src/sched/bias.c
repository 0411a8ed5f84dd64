/* SPDX-License-Identifier: MIT */
/*
 * The bias's rare half: the monitor takes it away, the owner gets it back.
 */
#include "sched/bias.h"

#include "plat/plat.h"

bool kin__bias_is_strong;

void kin__bias_take_slow(struct kin__bias *bias)
{
    kin__store_release(&bias->busy, 0u); /* pairs with the acquire in kin__bias_revoke */
    for (unsigned turn = 0;; turn++) { /* ends: the monitor holds it for one walk over the queues */
        /* pairs with the release in kin__bias_restore */
        while (kin__load_acquire(&bias->revoked)) {
            if (turn++ < 100)
                kin__cpu_relax();
            else
                kin__thread_yield();
        }
        kin__store_relaxed(&bias->busy, 1u); /* pairs with the load in kin__bias_revoke */
        kin__fence_seq(); /* fence: busy before revoked; its mirror is in kin__bias_revoke */
        if (!kin__load_acquire(&bias->revoked)) /* pairs with the release in kin__bias_restore */
            return;
        kin__store_release(&bias->busy, 0u); /* pairs with the acquire in kin__bias_revoke */
    }
}

bool kin__bias_revoke(struct kin__bias *bias)
{
    kin__store_relaxed(&bias->revoked, 1u); /* pairs with the load in kin__bias_take */
    if (kin__bias_is_strong)
        kin__fence_seq(); /* fence: revoked before busy; its mirror is in kin__bias_take */
    else
        kin__membarrier(); /* fence: the same, on every running thread */
    if (!kin__load_acquire(&bias->busy)) /* pairs with the release in kin__bias_give */
        return true;
    kin__store_release(&bias->revoked, 0u); /* pairs with the acquire in kin__bias_take_slow */
    return false;
}

void kin__bias_restore(struct kin__bias *bias)
{
    kin__store_release(&bias->revoked, 0u); /* pairs with the acquire in kin__bias_take */
}
