/* SPDX-License-Identifier: MIT */
/*
 * The global queue: a FIFO that anybody may append to and every worker looks at now and then.
 *
 * Intrusive and unbounded, so nothing is ever dropped [SCHED:7.1.1]; whole chains go in and out
 * under one short lock, so a spill of half a deque costs about what one task does.
 */
#ifndef KIN_SCHED_INJECT_H
#define KIN_SCHED_INJECT_H

#include "base/lock.h"
#include "task/task.h"

struct kin__inject {
    _Alignas(64) struct kin__lock lock; /* rank INJECT */
    struct kin__task *head, *tail;      /* under lock */
    kin__asize len;                     /* written under lock, read by anyone as a hint */
};

/* Appends a chain of count tasks, linked by next from first to last. */
void kin__inject_push(struct kin__inject *queue, struct kin__task *first, struct kin__task *last,
                      size_t count);
/* Takes up to max tasks off the front as a chain; *count says how many. NULL: it is empty. */
struct kin__task *kin__inject_take(struct kin__inject *queue, size_t max, size_t *count);

static inline size_t kin__inject_len(struct kin__inject *queue)
{
    return kin__load_relaxed(&queue->len); /* relaxed: a hint; sleepers fence before they look */
}

#endif
