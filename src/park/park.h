/* SPDX-License-Identifier: MIT */
/*
 * wait and wake: the only way a task sleeps, and the only way it is woken.
 */
#ifndef KIN_PARK_PARK_H
#define KIN_PARK_PARK_H

#include "park/waitable.h"
#include "task/word.h"

/* One of the things a task waits for at once. */
struct kin__case {
    const struct kin__waitable *ops;
    void *object;
    void *io;
    struct kin__waiter waiter;
};

enum {
    KIN__WAIT_SHIELDED = 1 /* a cancellation does not end this wait; a kill does */
};

/* wait of [002:3.1]: the only way to publish a waiter. Waits until one of the cases completes and
 * returns its index, its status in *status; or KIN_CANCELLED when the task is asked to stop first.
 * Exactly one case completes. [W:4.2] */
int kin__wait_any(struct kin__case *cases, uint32_t count, unsigned flags, int *status);

/* The same for one thing; returns its status, or KIN_CANCELLED. */
int kin__wait(const struct kin__waitable *ops, void *object, void *io, unsigned flags);

/* wake of [002:3.1]: the only way a parked task gets into a run queue. Wakes the task that
 * published waiter, with a status for it. True: it was this call that woke it. False: somebody else
 * did, and what the caller brought is still the caller's. The waiter is read before the claim and
 * never after it. [W:4.3] */
bool kin__wake(const struct kin__waiter *waiter, int status);
/* The same by value, for callers that read the waiter under their lock and wake outside of it. */
bool kin__wake_task(struct kin__task *task, uint64_t ticket, uint32_t case_, int status);

/* Claims without waking, for hand-offs: after KIN__WON_* the caller may write through waiter->io,
 * then finishes with kin__wake_finish. claim is an enum kin__claim. */
void kin__wake_finish(struct kin__task *task, int claim, uint32_t case_, int status);

/* Leaves a request with a task that cannot end meanwhile, and ends its park if it heeds it. */
void kin__park_request(struct kin__task *task, uint64_t request);

/* What the task's own requests mean to a call that is about to wait: 0 or KIN_CANCELLED. */
static inline int kin__park_asked(struct kin__task *task)
{
    return KIN__UNLIKELY(kin__word_requests(task)) ? KIN_CANCELLED : 0;
}

#endif
