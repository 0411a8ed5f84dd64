/* SPDX-License-Identifier: MIT */
/*
 * The global queue: chains in, chains out, under one lock.
 */
#include "sched/inject.h"

void kin__inject_push(struct kin__inject *queue, struct kin__task *first, struct kin__task *last,
                      size_t count)
{
    KIN__ASSERT(first && last && count, "house");
    last->next = NULL;
    kin__lock_take(&queue->lock, KIN__RANK_INJECT);
    if (queue->tail)
        queue->tail->next = first;
    else
        queue->head = first;
    queue->tail = last;
    /* relaxed: under the lock; the reader's hint */
    kin__store_relaxed(&queue->len, kin__load_relaxed(&queue->len) + count);
    kin__lock_give(&queue->lock, KIN__RANK_INJECT);
}

struct kin__task *kin__inject_take(struct kin__inject *queue, size_t max, size_t *count)
{
    *count = 0;
    if (kin__inject_len(queue) == 0)
        return NULL;
    kin__lock_take(&queue->lock, KIN__RANK_INJECT);
    struct kin__task *first = queue->head;
    struct kin__task *last = first;
    if (first) {
        for (*count = 1; *count < max && last->next; (*count)++)
            last = last->next;
        queue->head = last->next;
        if (!queue->head)
            queue->tail = NULL;
        last->next = NULL;
        /* relaxed: under the lock; the reader's hint */
        kin__store_relaxed(&queue->len, kin__load_relaxed(&queue->len) - *count);
    }
    kin__lock_give(&queue->lock, KIN__RANK_INJECT);
    return first;
}
