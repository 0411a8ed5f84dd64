/* SPDX-License-Identifier: MIT */
/*
 * The word: the one atomic that says what a task is doing.
 *
 *     ctl = ticket << 9 | ALONE 256 | FORCE 128 | KILL 64 | SCOPE 32 | CANCEL 16
 *                        | SHIELD 8 | OFF 4 | READY 2 | CLAIMED 1
 *
 *                 begin                       commit
 *     RUNNING ----------------> PARKING --------------------> PARKED
 *     CLAIMED      ticket + 1   none         sets OFF          OFF
 *      ^   ^                      | claim                       | claim
 *      |   |  READY before OFF    v                             v
 *      |   +------------------ CLAIMED ---- READY ----> CLAIMED|READY|OFF = RUNNABLE
 *      +----------------------------------------------------------+ run
 *
 *   begin   the task itself, with a fresh ticket                                        [ABA:8.2]
 *   commit  whoever runs next on its worker, off its stack                           [F5] [W:4.2]
 *   claim   any thread that has the ticket; one wins, the others keep what they brought [F3] [F4]
 *   ready   the winner, after it wrote the result; whoever comes second of ready and commit puts
 *           the task into a run queue, so that happens exactly once                          [F4]
 *
 * Ticket and state share a word because a waker must check the one and claim the other in one
 * step; with two words it can check, lose the CPU, and claim a later park of the same frame [D-2].
 *
 * CANCEL (for good), SCOPE (one of its own open nurseries is being cancelled) and KILL are
 * requests; they survive every step. A begin that finds one in the word it replaced calls the park
 * off; a canceller that comes after it finds the new ticket: one modification order, so no fence is
 * needed between them. SHIELD marks a park that CANCEL and SCOPE must not end. KILL comes after the
 * grace of the nursery that the task is in, FORCE after that of one that it has open: nothing holds
 * them back. ALONE says that a CANCEL was for this task only, which is a reason of its own.
 *
 * begin adds instead of comparing: while a task runs, only requests change its word, and the four
 * low bits are known, so one addition makes the next ticket and clears them. It costs half of a
 * compare-exchange and cannot overwrite a request, which a plain store would [D-1].
 */
#ifndef KIN_TASK_WORD_H
#define KIN_TASK_WORD_H

#include "base/assert.h"
#include "base/atomic.h"
#include "task/task.h"

#include <stdbool.h>
#include <stdint.h>

#define KIN__CLAIMED UINT64_C(1)
#define KIN__READY UINT64_C(2)
#define KIN__OFF UINT64_C(4)
#define KIN__SHIELD UINT64_C(8)
#define KIN__CANCEL UINT64_C(16)
#define KIN__SCOPE UINT64_C(32)
#define KIN__KILL UINT64_C(64)
#define KIN__FORCE UINT64_C(128)
#define KIN__ALONE UINT64_C(256)
#define KIN__TICKET_SHIFT 9u
#define KIN__TICKET_ONE (UINT64_C(1) << KIN__TICKET_SHIFT)
#define KIN__PARK_BITS (KIN__CLAIMED | KIN__READY | KIN__OFF | KIN__SHIELD)
#define KIN__REQUESTS (KIN__CANCEL | KIN__SCOPE | KIN__KILL | KIN__FORCE | KIN__ALONE)
#define KIN__UNMASKABLE (KIN__KILL | KIN__FORCE)

/* The legality matrix of 002 section 9: aborts in debug when from -> to by actor is not in it. The
 * shadow is written only by whoever owns the transition, so its order is the word's. */
#ifdef KIN_DEBUG
void kin__word_move(struct kin__task *task, enum kin__state from, enum kin__state to,
                    enum kin__actor actor);
#else
static inline void kin__word_move(struct kin__task *task, enum kin__state from, enum kin__state to,
                                  enum kin__actor actor)
{
    (void)task, (void)from, (void)to, (void)actor;
}
#endif

static inline uint64_t kin__word_ticket(uint64_t word)
{
    return word >> KIN__TICKET_SHIFT;
}

/* A frame begins a new life: requests gone, a ticket that no earlier waiter has, not parked. */
static inline void kin__word_init(struct kin__task *task)
{
    uint64_t word = kin__load_relaxed(&task->ctl); /* relaxed: the frame is the caller's alone */
    uint64_t next = (kin__word_ticket(word) + 1) << KIN__TICKET_SHIFT | KIN__CLAIMED | KIN__READY;
    /* pairs with the load in kin__word_claim, by a waker that comes too late: what it does after it
     * has lost comes after the life before; everybody else gets the word through the queue */
    kin__store_release(&task->ctl, next);
}

/* The task is over: no waker and no canceller that looks at it from here on can act on it. */
static inline void kin__word_fini(struct kin__task *task)
{
    kin__word_init(task);
}

/* Which requests the task must heed now. */
static inline uint64_t kin__word_requests(const struct kin__task *task)
{
    /* pairs with the release in kin__word_request: who hears that it is to stop, because somebody
     * has failed, sees what that one did */
    return kin__load_acquire(&task->ctl) & KIN__REQUESTS;
}

enum kin__begun {
    KIN__BEGUN_OPEN,  /* go on and publish */
    KIN__BEGUN_ASKED, /* a request was there first: self-claim and leave */
};

/* RUNNING -> PARKING with a fresh ticket, given back in *ticket. heeded says which requests call
 * the park off. Task only. */
static inline enum kin__begun kin__word_begin(struct kin__task *task, uint64_t shield,
                                              uint64_t heeded, uint64_t *ticket)
{
    /* relaxed: the low bits are the task's own now */
    uint64_t word = kin__load_relaxed(&task->ctl);
    KIN__ASSERT(word & KIN__CLAIMED, "F1");
    kin__word_move(task, KIN__RUNNING, KIN__PARKING, KIN__BY_TASK);
    /* pairs with the acquire in kin__word_claim: a winner sees what the task did before */
    uint64_t old = kin__add_release(&task->ctl, KIN__TICKET_ONE - (word & KIN__PARK_BITS) + shield);
    KIN__ASSERT((old & KIN__PARK_BITS) == (word & KIN__PARK_BITS), "F1");
    *ticket = kin__word_ticket(old + KIN__TICKET_ONE); /* wraps as the word does */
    return KIN__UNLIKELY(old & heeded) ? KIN__BEGUN_ASKED : KIN__BEGUN_OPEN;
}

/* The task claims its own park, still on its stack. False: somebody else won and is delivering. */
static inline bool kin__word_claim_self(struct kin__task *task)
{
    uint64_t word = kin__load_relaxed(&task->ctl); /* relaxed: the exchange below decides */
    while (!(word & KIN__CLAIMED)) {
        /* pairs with the release in kin__word_ready of an earlier park */
        if (kin__cas_acquire(&task->ctl, &word, word | KIN__CLAIMED | KIN__READY)) {
            kin__word_move(task, KIN__PARKING, KIN__RUNNING, KIN__BY_TASK);
            return true;
        }
    }
    return false;
}

/* True when the winner has delivered already: the task may stay on its stack. Task only. */
static inline bool kin__word_is_ready(struct kin__task *task)
{
    /* pairs with the release in kin__word_ready: the result is there */
    bool is_ready = kin__load_acquire(&task->ctl) & KIN__READY;
    if (is_ready)
        kin__word_move(task, KIN__PARKING, KIN__RUNNING, KIN__BY_TASK);
    return is_ready;
}

/* PARKING -> PARKED, off the task's stack. True: it is ready already, the caller enqueues it. */
static inline bool kin__word_commit(struct kin__task *task)
{
    kin__word_move(task, KIN__PARKING, KIN__PARKED, KIN__BY_WORKER);
    /* pairs with kin__word_ready (the result) and with kin__word_claim (the saved context) */
    uint64_t old = kin__or_acq_rel(&task->ctl, KIN__OFF);
    KIN__ASSERT(!(old & KIN__OFF), "W:4.2");
    if (KIN__LIKELY(!(old & KIN__READY)))
        return false;
    kin__word_move(task, KIN__PARKED, KIN__WAKING, KIN__BY_WORKER);
    kin__word_move(task, KIN__WAKING, KIN__RUNNABLE, KIN__BY_WORKER);
    return true;
}

enum kin__claim {
    KIN__LOST,       /* stale ticket, or somebody else won: keep what you brought */
    KIN__WON_PARKED, /* write the result, then enqueue the task */
    KIN__WON_PARKING /* write the result, then call kin__word_ready */
};

/* Claims the park that ticket names. */
static inline enum kin__claim kin__word_claim(struct kin__task *task, uint64_t ticket)
{
    uint64_t word = kin__load_relaxed(&task->ctl); /* relaxed: the exchanges below decide */
    for (;;) { /* ends: each round sees a new word, and at most one commit and few requests come */
        if (kin__word_ticket(word) != ticket || (word & KIN__CLAIMED))
            return KIN__LOST;
        if (word & KIN__OFF) {
            /* pairs with the release in commit: the context is saved before anyone runs it */
            if (kin__cas_acquire(&task->ctl, &word, word | KIN__CLAIMED | KIN__READY)) {
                kin__word_move(task, KIN__PARKED, KIN__WAKING, KIN__BY_WAKER);
                kin__word_move(task, KIN__WAKING, KIN__RUNNABLE, KIN__BY_WAKER);
                return KIN__WON_PARKED;
            }
            /* pairs with the release in begin */
        } else if (kin__cas_acquire(&task->ctl, &word, word | KIN__CLAIMED)) {
            return KIN__WON_PARKING;
        }
    }
}

/* The result is written. True: the task has left its stack, the caller enqueues it. */
static inline bool kin__word_ready(struct kin__task *task)
{
    /* pairs with commit (the saved context) and with kin__word_is_ready (the result) */
    uint64_t old = kin__or_acq_rel(&task->ctl, KIN__READY);
    KIN__ASSERT(old & KIN__CLAIMED, "F4");
    if (!(old & KIN__OFF))
        return false;
    kin__word_move(task, KIN__PARKED, KIN__WAKING, KIN__BY_WAKER);
    kin__word_move(task, KIN__WAKING, KIN__RUNNABLE, KIN__BY_WAKER);
    return true;
}

/* Leaves a request. The word as it was: its ticket is the park to end, unless it is shielded. The
 * caller knows that the task cannot end meanwhile. */
static inline uint64_t kin__word_request(struct kin__task *task, uint64_t request)
{
    /* pairs with begin: one of the two sees the other */
    return kin__or_acq_rel(&task->ctl, request);
}

/* Takes SCOPE and FORCE back; the task itself, after a join. The word as it was. */
static inline uint64_t kin__word_unrequest(struct kin__task *task, uint64_t request)
{
    /* relaxed: the caller looks at its nurseries next */
    return kin__and_relaxed(&task->ctl, ~request);
}

#endif
