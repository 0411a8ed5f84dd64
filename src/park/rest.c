/* SPDX-License-Identifier: MIT */
/*
 * A rest: the steps of a park, with the two halves of the wait in two calls of the body.
 *
 * What comes between them is the worker's: it commits the park when the body has left the stack, as
 * after a switch (rest in sched/worker.c).
 */
#include "park/rest.h"

/* What the winner has written. */
static int answer_of(struct kin__task *task, struct kin__case *one)
{
    if (KIN__LIKELY(task->wait_case == 0))
        return task->wait_status;
    one->ops->unpublish(one->object, &one->waiter);
    return KIN_CANCELLED;
}

int kin__rest_begin(struct kin__task *task, struct kin__case *one)
{
    uint64_t ticket;
    int status = 0;
    task->wait_cases = (uintptr_t)one; /* for whoever peeks; until it is claimed */
    if (KIN__UNLIKELY(kin__word_begin(task, 0, KIN__REQUESTS, &ticket) == KIN__BEGUN_ASKED)) {
        if (kin__word_claim_self(task))
            return KIN_CANCELLED;
        /* a second one was faster, and delivers the same */
    } else {
        one->waiter.task = task;
        one->waiter.ticket = ticket;
        one->waiter.case_ = 0;
        one->waiter.io = one->io;
        if (!one->ops->publish(one->object, &one->waiter, &status) && kin__word_claim_self(task))
            return 0;
        KIN__LAB_PARKS(one, 1);
    }
    if (KIN__UNLIKELY(kin__word_is_ready(task)))
        return answer_of(task, one); /* the winner was faster than the return */
    kin__store_quiet(&task->waiting, one->ops->what); /* relaxed: for dumps, and the worker's own */
    return KIN__RESTING;
}

int kin__rest_end(struct kin__task *task, struct kin__case *one)
{
    kin__store_quiet(&task->waiting, NULL); /* relaxed: as above */
    return answer_of(task, one);
}
