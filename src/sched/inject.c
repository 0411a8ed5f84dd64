/* SPDX-License-Identifier: MIT */
/*
 * The global queue: chains in, chains out, under one lock.
 */
#include "sched/inject.h"

void kin__inject_push(struct kin__inject *queue, struct kin__task *first, struct kin__task *last,
                      uint32_t count)
{
    KIN__ASSERT(first && last && count, "house");
    last->next = NULL;
    first->batch_next = NULL;
    first->batch_last = last;
    first->batch_count = count;
    kin__lock_take(&queue->lock, KIN__RANK_INJECT);
    if (queue->head)
        queue->tail->batch_next = first;
    else
        queue->head = first;
    queue->tail = first;
    /* relaxed: under the lock; the reader's hint */
    kin__store_relaxed(&queue->len, kin__load_relaxed(&queue->len) + count);
    kin__lock_give(&queue->lock, KIN__RANK_INJECT);
}

/* Cuts a batch behind its first max tasks; the rest is a batch of its own. */
static struct kin__task *cut(struct kin__task *first, uint32_t max)
{
    struct kin__task *last = first;
    for (uint32_t i = 1; i < max; i++)
        last = last->next;
    struct kin__task *rest = last->next;
    rest->batch_next = first->batch_next;
    rest->batch_last = first->batch_last;
    rest->batch_count = first->batch_count - max;
    last->next = NULL;
    first->batch_last = last;
    first->batch_count = max;
    return rest;
}

struct kin__task *kin__inject_take(struct kin__inject *queue, uint32_t max)
{
    if (kin__inject_len(queue) == 0)
        return NULL;
    kin__lock_take(&queue->lock, KIN__RANK_INJECT);
    struct kin__task *first = queue->head;
    if (first) {
        if (first->batch_count > max) {
            struct kin__task *rest = cut(first, max);
            if (queue->tail == first)
                queue->tail = rest;
            queue->head = rest;
        } else {
            queue->head = first->batch_next;
        }
        /* relaxed: under the lock; the reader's hint */
        kin__store_relaxed(&queue->len, kin__load_relaxed(&queue->len) - first->batch_count);
    }
    kin__lock_give(&queue->lock, KIN__RANK_INJECT);
    return first;
}
