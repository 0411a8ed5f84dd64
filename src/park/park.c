/* SPDX-License-Identifier: MIT */
/*
 * wait and wake: the protocol of the word, applied to things that can be waited for.
 *
 *     try each -> begin (fresh ticket) -> publish to each -> leave the stack -> woken
 *                    |                       |
 *                    asked to stop           one is complete: claim oneself, unpublish the others,
 *                                            try it; gone meanwhile: begin again
 *
 * After a wake the losers are unpublished under their own locks; a waker that is still on its way
 * to one of them finds the ticket gone.
 */
#include "park/park.h"

#include "sched/entry.h"
#include "sched/sched.h"
#include "sched/tape.h"
#include "sched/worker.h"
#include "task/word.h"

/* A wait for one thing and a wait for several are one function with different constants. */
#define INLINE static inline __attribute__((always_inline))

/* Unpublishes the first count cases but one. */
INLINE void unpublish(struct kin__case *cases, uint32_t count, uint32_t but)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i != but)
            cases[i].ops->unpublish(cases[i].object, &cases[i].waiter);
    }
}

/* Publishes to each case in turn. Returns how many are linked; *complete is the index of one that
 * was found complete on the way, or count. */
INLINE uint32_t publish(struct kin__task *task, uint64_t ticket, struct kin__case *cases,
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

/* Leaves the stack until somebody has claimed the park and delivered. */
static inline void park(struct kin__task *task, const char *what)
{
    kin__store_quiet(&task->waiting, what); /* relaxed: for dumps */
    if (KIN__LIKELY(!(task->flags & KIN__TASK_THREAD)))
        kin__worker_park(task);
    else
        kin__thread_park(task);
    kin__store_quiet(&task->waiting, NULL); /* relaxed: for dumps */
}

/* One park: the index of the case that completed, KIN_CANCELLED, or PARK_AGAIN when one was
 * complete at first and was gone when it was tried. */
#define PARK_AGAIN (-1)
INLINE int park_once(struct kin__task *task, struct kin__case *cases, uint32_t count,
                     unsigned flags, int *status)
{
    uint64_t ticket;
    uint32_t complete;
    bool is_shielded = (task->masks && !(flags & KIN__WAIT_HEARS)) ||
                       (flags & (KIN__WAIT_SHIELDED | KIN__WAIT_DEAF));
    uint64_t heeded = KIN__REQUESTS;
    if (KIN__UNLIKELY(is_shielded))
        heeded = flags & KIN__WAIT_DEAF ? 0 : KIN__UNMASKABLE;
    task->wait_cases = (uintptr_t)cases | (count > 1); /* for whoever peeks; until it is claimed */
    if (KIN__UNLIKELY(kin__word_begin(task, is_shielded ? KIN__SHIELD : 0, heeded, &ticket) ==
                      KIN__BEGUN_ASKED)) {
        if (!kin__word_claim_self(task))
            park(task, cases[0].ops->what); /* a second one was faster; it delivers the same */
        return KIN_CANCELLED;
    }
    uint32_t linked = publish(task, ticket, cases, count, &complete, status);
    if (KIN__UNLIKELY(complete != count) && kin__word_claim_self(task)) {
        unpublish(cases, linked, count);
        return cases[complete].ops->try_complete(cases[complete].object, cases[complete].io, status)
                   ? (int)complete
                   : PARK_AGAIN;
    }
    KIN__LAB_PARKS(cases, count);
    park(task, cases[0].ops->what);
    uint32_t won = task->wait_case;
    unpublish(cases, linked, won);
    if (KIN__UNLIKELY(won >= count))
        return KIN_CANCELLED;
    *status = task->wait_status;
    return (int)won;
}

/* Tries, then parks, until a case completes. */
INLINE int wait_cases(struct kin__task *task, struct kin__case *cases, uint32_t count,
                      unsigned flags, bool tries, int *status)
{
    for (;;) { /* ends: as waits do; each round somebody else took what was there */
        for (uint32_t i = 0; tries && i < count; i++) {
            if (cases[i].ops->try_complete(cases[i].object, cases[i].io, status))
                return (int)i;
        }
        int rc = park_once(task, cases, count, flags, status);
        if (KIN__LIKELY(rc != PARK_AGAIN))
            return rc;
    }
}

int kin__wait_as(struct kin__task *task, struct kin__case *cases, uint32_t count, unsigned flags,
                 int *status)
{
    return wait_cases(task, cases, count, flags, !(flags & KIN__WAIT_TRIED), status);
}

int kin__wait_any(struct kin__case *cases, uint32_t count, unsigned flags, int *status)
{
    struct kin__worker *worker = kin__worker_self();
    struct kin__task *task = worker ? kin__worker_current(worker) : NULL;
    if (!task)
        return KIN_NOTASK; /* [NCG-5] [N1002] */
    kin__entry_check_room(task);
    bool tries = !(flags & KIN__WAIT_TRIED) && !worker->sched->hard.park;
    return wait_cases(task, cases, count, flags, tries, status);
}

int kin__wait(const struct kin__waitable *ops, void *object, void *io, unsigned flags)
{
    struct kin__worker *worker = kin__worker_self();
    struct kin__task *task = worker ? kin__worker_current(worker) : NULL;
    struct kin__case one;
    int status = 0;
    if (!task)
        return KIN_NOTASK;
    kin__entry_check_room(task);
    one.ops = ops;
    one.object = object;
    one.io = io;
    bool tries = !(flags & KIN__WAIT_TRIED) && !worker->sched->hard.park;
    int rc = wait_cases(task, &one, 1, flags, tries, &status);
    return rc < 0 ? rc : status;
}

/* The park was claimed: this is what comes of it. */
static inline void answer(struct kin__task *task, enum kin__claim claim, uint32_t case_, int status)
{
    task->wait_status = status;
    task->wait_case = case_;
    task->wake_ready = claim == KIN__WON_PARKING;
    kin__wake_deliver(task);
}

bool kin__wake_task(struct kin__task *task, uint64_t ticket, uint32_t case_, int status)
{
    enum kin__claim claim = kin__word_claim(task, ticket);
    if (claim == KIN__LOST)
        return false;
    answer(task, claim, case_, status);
    return true;
}

bool kin__wake(const struct kin__waiter *waiter, int status)
{
    return kin__wake_task(waiter->task, waiter->ticket, waiter->case_, status);
}

/* It runs, or will not be disturbed, and hears of it later. */
static __attribute__((noinline)) void note_asked(struct kin__task *task)
{
    struct kin__sched *sched = kin__task_sched(task);
    if (KIN__UNLIKELY(sched->tape != NULL))
        kin__tape_asked(sched, task);
}

void kin__park_request(struct kin__task *task, uint64_t request)
{
    uint64_t word = kin__word_request(task, request);
    bool is_deaf = (word & KIN__SHIELD) && !(request & KIN__UNMASKABLE);
    enum kin__claim claim = is_deaf ? KIN__LOST : kin__word_claim(task, kin__word_ticket(word));
    if (claim != KIN__LOST)
        answer(task, claim, UINT32_MAX, KIN_CANCELLED);
    else if ((word & request) != request)
        note_asked(task);
}
