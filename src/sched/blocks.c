/* SPDX-License-Identifier: MIT */
/*
 * Frames of every kind: a cache per worker, and one under a lock for everybody else.
 */
#include "sched/blocks.h"

#include "base/lock.h"
#include "sched/worker.h"

#include <errno.h>

/* For threads that are not workers; under outside_lock (rank TASK). */
static struct kin__lock outside_lock;
static struct kin__frame_cache outside[KIN__FRAME_KINDS] = {
    {.kind = KIN__FRAME_TASK},
    {.kind = KIN__FRAME_SCOPE},
    {.kind = KIN__FRAME_EXTRA},
    {.kind = KIN__FRAME_OBLIGATION},
    {.kind = KIN__FRAME_WATCH},
    {.kind = KIN__FRAME_REPLY},
    {.kind = KIN__FRAME_LETTER},
    {.kind = KIN__FRAME_LEASE},
    {.kind = KIN__FRAME_SMALL},
    {.kind = KIN__FRAME_LARGE},
};

struct kin__frame *kin__block_take(enum kin__frame_kind kind)
{
    struct kin__worker *worker = kin__worker_self();
    if (KIN__LIKELY(worker != NULL))
        return kin__frame_alloc(&worker->blocks[kind]);
    kin__lock_take(&outside_lock, KIN__RANK_TASK);
    struct kin__frame *frame = kin__frame_alloc(&outside[kind]);
    kin__lock_give(&outside_lock, KIN__RANK_TASK);
    return frame;
}

struct kin__frame *kin__block_take_billed(enum kin__frame_kind kind, size_t bytes,
                                          struct kin__bill *bill, int *rc)
{
    *rc = kin__bill_take(bill, kin__task_self(), bytes);
    if (KIN__UNLIKELY(*rc < 0))
        return NULL;
    struct kin__frame *frame = kin__block_take(kind);
    if (KIN__LIKELY(frame != NULL))
        return frame;
    kin__bill_give(*bill);
    *rc = -ENOMEM;
    return NULL;
}

void kin__block_give(enum kin__frame_kind kind, struct kin__frame *frame)
{
    struct kin__worker *worker = kin__worker_self();
    if (KIN__LIKELY(worker != NULL)) {
        kin__frame_free(&worker->blocks[kind], frame);
        return;
    }
    kin__lock_take(&outside_lock, KIN__RANK_TASK);
    kin__frame_free(&outside[kind], frame);
    kin__lock_give(&outside_lock, KIN__RANK_TASK);
}
