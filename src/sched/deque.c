/* SPDX-License-Identifier: MIT */
/*
 * The deque's slow halves: publishing, getting back, stealing.
 */
#include "sched/deque.h"

uint32_t kin__deque_publish(struct kin__deque *deque)
{
    uint32_t bottom = kin__load_relaxed(&deque->bottom); /* alone: the owner's own */
    uint64_t range = kin__load_relaxed(&deque->range);   /* relaxed: the exchange decides */
    for (;;) { /* ends: only thieves interfere, and each takes at least one of finitely many */
        uint32_t split = kin__range_split(range);
        uint32_t moved = (bottom - split + 1) / 2;
        if (moved == 0)
            return 0;
        uint64_t next = kin__range_make(kin__range_top(range), split + moved);
        if (kin__cas_release(&deque->range, &range, next)) /* pairs with the acquire in steal */
            return moved;
    }
}

uint32_t kin__deque_reclaim(struct kin__deque *deque)
{
    uint64_t range = kin__load_relaxed(&deque->range); /* relaxed: the exchange decides */
    struct kin__task *taken[KIN__RECLAIM_MAX];
    uint32_t bottom = kin__load_relaxed(&deque->bottom); /* alone: the owner's own */
    KIN__ASSERT(bottom == kin__range_split(range), "SCHED:7.1.1");
    for (;;) { /* ends: as in publish */
        uint32_t top = kin__range_top(range);
        uint32_t split = kin__range_split(range);
        uint32_t count = split - top < KIN__RECLAIM_MAX ? split - top : KIN__RECLAIM_MAX;
        if (count == 0)
            return 0;
        for (uint32_t i = 0; i < count; i++)
            taken[i] = kin__load_relaxed(kin__deque_at(deque, top + i)); /* relaxed: own stores */
        /* pairs with the exchange in steal: each entry goes to one of us */
        if (!kin__cas_acq_rel(&deque->range, &range, kin__range_make(top + count, split)))
            continue;
        for (uint32_t i = 0; i < count; i++) /* pairs with publish's release */
            kin__store_relaxed(kin__deque_at(deque, bottom + i), taken[i]);
        kin__store_relaxed(&deque->bottom, bottom + count); /* alone: private */
        return count;
    }
}

uint32_t kin__deque_take_oldest(struct kin__deque *deque, struct kin__task **out, uint32_t count)
{
    uint64_t range = kin__load_relaxed(&deque->range);   /* relaxed: the exchange decides */
    uint32_t bottom = kin__load_relaxed(&deque->bottom); /* alone: the owner's own */
    for (;;) { /* ends: as in publish */
        uint32_t top = kin__range_top(range);
        uint32_t split = kin__range_split(range);
        uint32_t taken = bottom - top < count ? bottom - top : count;
        if (taken == 0)
            return 0;
        for (uint32_t i = 0; i < taken; i++)
            out[i] = kin__load_relaxed(kin__deque_at(deque, top + i)); /* relaxed: own stores */
        uint32_t rest = split - top > taken ? split : top + taken;
        /* pairs with the exchange in steal: each entry goes to one of us */
        if (kin__cas_acq_rel(&deque->range, &range, kin__range_make(top + taken, rest)))
            return taken;
    }
}

uint32_t kin__deque_steal(struct kin__deque *deque, struct kin__task **out, uint32_t max,
                          bool *contended)
{
    uint64_t range = kin__load_acquire(&deque->range); /* pairs with publish */
    uint32_t top = kin__range_top(range);
    uint32_t count = (kin__range_split(range) - top + 1) / 2;
    *contended = false;
    if (count == 0)
        return 0;
    if (count > max)
        count = max;
    for (uint32_t i = 0; i < count; i++)
        /* pairs with publish, as above */
        out[i] = kin__load_relaxed(kin__deque_at(deque, top + i));
    /* pairs with publish, reclaim and push: entries are read before their slots are given up */
    if (kin__cas_acq_rel(&deque->range, &range,
                         kin__range_make(top + count, kin__range_split(range))))
        return count;
    *contended = true;
    return 0;
}
