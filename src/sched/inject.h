/* SPDX-License-Identifier: MIT */
/*
 * The global queue: a FIFO that anybody may append to and every worker looks at now and then.
 *
 * Intrusive and unbounded, so nothing is ever dropped [SCHED:7.1.1]. What was put in together stays
 * together: a batch is a chain of tasks by next, described in its first task, and the queue is a
 * chain of batches. A batch goes in and out in a few instructions whatever its length, and none of
 * its other tasks, which are cold by then, is touched under the lock.
 */
#ifndef KIN_SCHED_INJECT_H
#define KIN_SCHED_INJECT_H

#include "base/lock.h"
#include "task/task.h"

struct kin__inject {
    _Alignas(64) struct kin__lock lock; /* rank INJECT */
    struct kin__task *head, *tail;      /* first tasks of the first and last batch; under lock */
    kin__asize len;                     /* written under lock, read by anyone as a hint */
};

/* Appends a chain of count tasks, linked by next from first to last. */
void kin__inject_push(struct kin__inject *queue, struct kin__task *first, struct kin__task *last,
                      uint32_t count);
/* Takes the oldest batch, or the first max tasks of it; described in its first task. NULL:
 * empty. */
struct kin__task *kin__inject_take(struct kin__inject *queue, uint32_t max);

static inline size_t kin__inject_len(struct kin__inject *queue)
{
    return kin__load_relaxed(&queue->len); /* relaxed: a hint; sleepers fence before they look */
}

#endif
