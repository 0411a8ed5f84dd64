/* SPDX-License-Identifier: MIT */
/*
 * The bias's rare half: another takes it away, the owner gets it back.
 */
#include "sched/bias.h"

#include "plat/plat.h"

void kin__bias_init(struct kin__bias *bias, bool is_strong)
{
    kin__store_relaxed(&bias->busy, 0u);                             /* alone: not shared yet */
    kin__store_relaxed(&bias->revoked, is_strong ? KIN__STRONG : 0); /* alone: not shared yet */
}

void kin__bias_take_slow(struct kin__bias *bias)
{
    for (unsigned turn = 0;; turn++) { /* ends: it is held for one walk over the queues */
        kin__fence_seq(); /* fence: busy before revoked; its mirror is in kin__bias_revoke */
        /* pairs with the release in kin__bias_restore */
        if (!(kin__load_acquire(&bias->revoked) & KIN__REVOKED))
            return;
        kin__store_release(&bias->busy, 0u); /* pairs with the acquire in kin__bias_revoke */
        if (turn < 100)
            kin__cpu_relax();
        else
            kin__thread_yield();
        kin__store_relaxed(&bias->busy, 1u); /* pairs with the load in kin__bias_revoke */
    }
}

bool kin__bias_revoke(struct kin__bias *bias)
{
    /* pairs with the load in take, and with the release of whoever had it before */
    uint32_t kind = kin__or_acq_rel(&bias->revoked, KIN__REVOKED);
    if (kind & KIN__REVOKED)
        return false; /* somebody else has it, and sees to what there is */
    if (kind & KIN__STRONG)
        kin__fence_seq(); /* fence: revoked before busy; its mirror is in kin__bias_take_slow */
    else
        kin__membarrier(); /* fence: the same, on every running thread */
    if (!kin__load_acquire(&bias->busy)) /* pairs with the release in kin__bias_give */
        return true;
    kin__bias_restore(bias);
    return false;
}

void kin__bias_restore(struct kin__bias *bias)
{
    uint32_t kind = kin__load_relaxed(&bias->revoked); /* relaxed: only who revoked changes it */
    kin__store_release(&bias->revoked, kind & ~KIN__REVOKED); /* pairs with the acquire in take */
}
