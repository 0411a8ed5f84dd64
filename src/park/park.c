/* SPDX-License-Identifier: MIT */
/*
 * wait and wake: the protocol of the word, applied to things that can be waited for.
 *
 *     try each -> begin (fresh ticket) -> publish to each -> leave the stack -> woken
 *                    |                       |
 *                    asked to stop           one is complete: claim oneself, unpublish the others
 *
 * After a wake the losers are unpublished under their own locks; a waker that is still on its way
 * to one of them finds the ticket gone.
 */
#include "park/park.h"

#include "sched/entry.h"
#include "sched/sched.h"
#include "sched/worker.h"
#include "task/word.h"

/* Unpublishes the first count cases but one. */
static void unpublish(struct kin__case *cases, uint32_t count, uint32_t but)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i != but)
            cases[i].ops->unpublish(cases[i].object, &cases[i].waiter);
    }
}

/* Publishes to each case in turn. Returns how many are linked; *complete is the index of one that
 * was found complete on the way, or count. */
static uint32_t publish(struct kin__task *task, uint64_t ticket, struct kin__case *cases,
                        uint32_t count, uint32_t *complete, int *status)
{
    *complete = count;
    for (uint32_t i = 0; i < count; i++) {
        cases[i].waiter.task = task;
        cases[i].waiter.ticket = ticket;
        cases[i].waiter.case_ = i;
        cases[i].waiter.io = cases[i].io;
        if (!cases[i].ops->publish(cases[i].object, &cases[i].waiter, status)) {
            *complete = i;
            return i;
        }
    }
    return count;
}

/* The part of a wait behind the fast path. */
static int wait_slow(struct kin__task *task, struct kin__case *cases, uint32_t count,
                     unsigned flags, int *status)
{
    uint64_t ticket;
    uint32_t complete;
    if (kin__word_begin(task, flags & KIN__WAIT_SHIELDED ? KIN__SHIELD : 0, &ticket) ==
        KIN__BEGUN_ASKED) {
        if (kin__word_claim_self(task))
            return KIN_CANCELLED;
        kin__worker_park(task); /* a second canceller was faster; it delivers the same */
        return KIN_CANCELLED;
    }
    uint32_t linked = publish(task, ticket, cases, count, &complete, status);
    if (complete != count && kin__word_claim_self(task)) {
        unpublish(cases, linked, count);
        return (int)complete;
    }
    kin__store_relaxed(&task->waiting, cases[0].ops->what); /* relaxed: for dumps */
    kin__worker_park(task);
    kin__store_relaxed(&task->waiting, NULL); /* relaxed: for dumps */
    uint32_t won = task->wait_case;
    unpublish(cases, linked, won);
    if (won >= count)
        return KIN_CANCELLED;
    *status = task->wait_status;
    return (int)won;
}

int kin__wait_any(struct kin__case *cases, uint32_t count, unsigned flags, int *status)
{
    struct kin__task *task = kin__task_self();
    if (!task)
        return KIN_NOTASK; /* [NCG-5] [N1002] */
    kin__entry_check(task);
    if (!task->sched->hard.park) {
        for (uint32_t i = 0; i < count; i++) {
            if (cases[i].ops->try_complete(cases[i].object, cases[i].io, status))
                return (int)i;
        }
    }
    return wait_slow(task, cases, count, flags, status);
}

int kin__wait(const struct kin__waitable *ops, void *object, void *io, unsigned flags)
{
    struct kin__case one = {.ops = ops, .object = object, .io = io};
    int status = 0;
    int rc = kin__wait_any(&one, 1, flags, &status);
    return rc < 0 ? rc : status;
}

void kin__wake_finish(struct kin__task *task, int claim, uint32_t case_, int status)
{
    task->wait_status = status;
    task->wait_case = case_;
    if (claim == KIN__WON_PARKED || kin__word_ready(task))
        kin__schedule(task);
}

bool kin__wake_task(struct kin__task *task, uint64_t ticket, uint32_t case_, int status)
{
    enum kin__claim claim = kin__word_claim(task, ticket);
    if (claim == KIN__LOST)
        return false;
    kin__wake_finish(task, (int)claim, case_, status);
    return true;
}

bool kin__wake(const struct kin__waiter *waiter, int status)
{
    return kin__wake_task(waiter->task, waiter->ticket, waiter->case_, status);
}

void kin__park_request(struct kin__task *task, uint64_t request)
{
    uint64_t word = kin__word_request(task, request);
    if ((word & KIN__SHIELD) && request != KIN__KILL)
        return;
    (void)kin__wake_task(task, kin__word_ticket(word), UINT32_MAX, KIN_CANCELLED);
}
