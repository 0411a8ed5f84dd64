/* SPDX-License-Identifier: MIT */
/*
 * wait and wake: the only way a task sleeps, and the only way it is woken.
 */
#ifndef KIN_PARK_PARK_H
#define KIN_PARK_PARK_H

#include "park/waitable.h"
#include "sched/sched.h"
#include "task/word.h"

/* One of the things a task waits for at once. */
struct kin__case {
    const struct kin__waitable *ops;
    void *object;
    void *io;
    struct kin__waiter waiter;
};

enum {
    KIN__WAIT_SHIELDED = 1, /* a cancellation does not end this wait; what cannot be masked does */
    KIN__WAIT_DEAF = 2,     /* nor does that, beyond waking it once each time: for joins */
    KIN__WAIT_TRIED = 4,    /* the caller has just tried: do not try before parking */
    KIN__WAIT_THREAD = 8,   /* outside a task the calling thread blocks: kin__wait_until only */
    KIN__WAIT_HEARS = 16    /* a cancellation ends this wait though it is masked */
};

/* wait of [002:3.1]: the only way to publish a waiter. Waits until one of the cases completes and
 * returns its index, its status in *status; or KIN_CANCELLED when the task is asked to stop first.
 * Exactly one case completes. [W:4.2] */
int kin__wait_any(struct kin__case *cases, uint32_t count, unsigned flags, int *status);
/* The same on behalf of the running task or a thread's stand-in, without looking at the door. */
int kin__wait_as(struct kin__task *task, struct kin__case *cases, uint32_t count, unsigned flags,
                 int *status);

/* The same for one thing; returns its status, or KIN_CANCELLED. */
int kin__wait(const struct kin__waitable *ops, void *object, void *io, unsigned flags);

/* wake of [002:3.1]: the only way a parked task gets into a run queue. Wakes the task that
 * published waiter, with a status for it. True: it was this call that woke it. False: somebody else
 * did, and what the caller brought is still the caller's. The waiter is read before the claim and
 * never after it. [W:4.3] */
bool kin__wake(const struct kin__waiter *waiter, int status);
/* The same by value, for callers that read the waiter under their lock and wake outside of it. */
bool kin__wake_task(struct kin__task *task, uint64_t ticket, uint32_t case_, int status);

/* A claimed task has its result: puts it into a run queue as soon as it has left its stack. Whether
 * it was still parking when it was claimed is in task->wake_ready. */
static inline void kin__wake_deliver(struct kin__task *task)
{
    if (KIN__LIKELY(!task->wake_ready) || kin__word_ready(task))
        kin__schedule(task);
}

/* The park of a plain thread that stands in for a task: thread.c. */
void kin__thread_park(struct kin__task *task);

/* Leaves a request with a task that cannot end meanwhile, and ends its park if it heeds it. */
void kin__park_request(struct kin__task *task, uint64_t request);

/* What the task's own requests mean to a call that is about to wait: 0 or KIN_CANCELLED. A mask
 * holds back what can be masked. */
static inline int kin__park_asked(struct kin__task *task)
{
    uint64_t requests = kin__word_requests(task);
    if (KIN__LIKELY(!requests))
        return 0;
    return task->masks && !(requests & KIN__UNMASKABLE) ? 0 : KIN_CANCELLED;
}

#endif
