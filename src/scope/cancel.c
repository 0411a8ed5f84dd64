/* SPDX-License-Identifier: MIT */
/*
 * Cancellation: who is told, in which order, and how a walk over a million tasks holds no lock
 * long.
 *
 * Cancelling a scope makes it CANCELLING at once, which ends admission, and then walks: every child
 * is asked (which wakes it if it is parked) and every nursery that a child has open is cancelled in
 * the same way. The walk is a list of scopes, each held by a token in its live count so that it
 * cannot end, and in each a cursor among the children so that the lock can be given up every few
 * hundred of them. There is no recursion, so depth costs nothing [NSM-3] [NSM:4.2] [NSM:6.2].
 * Nobody is interrupted: a task sees the request at its next wait, yield or check [NSM:4.3].
 *
 * A nursery that is opened while the walk passes its owner is either seen by the walk (the owner's
 * inner pointer was stored before the request was left) or sees the request itself: its first spawn
 * takes the scope's lock, a full fence, and looks at the owner's word (kin__cancel_inherited).
 *
 * A mask holds a cancellation back from the waits of its task, and from the nurseries that the task
 * has opened under it: otherwise a task that cleans up could not have others help. Each scope knows
 * how many of its owner's masks it was opened under and are still in force; a cancellation from
 * outside of one of them passes it over. The unmask that takes a mask away delivers what was held
 * back: it changes the depth under the scope's lock and then looks at what its owner is asked,
 * while a walk asks the owner first and then looks at the depth under that lock. So one of the two
 * sees the other (test/model/grace.pml). When the grace is over masks hold nothing back
 * (deadline.c).
 */
#include "scope/scope.h"

#include "park/park.h"
#include "sched/entry.h"
#include "task/cause.h"
#include "task/word.h"

#ifdef KIN__LAB
#define STEP 1u /* others may come in between any two */
#else
#define STEP 256u /* children asked, or nurseries inside of one cancelled, per lock */
#endif

bool kin__cancel_begin_locked(struct kin__scope *scope, int reason, struct kin__scope **list)
{
    uint64_t word = kin__load_relaxed(&scope->word); /* relaxed: under the lock */
    if (kin__scope_state(word) > KIN_NURSERY_CLOSING)
        return false;
    scope->reason = reason < 0 ? reason : KIN_CANCELLED;
    kin__scope_move_locked(scope, KIN_NURSERY_CANCELLING);
    if (kin__scope_state(word) != KIN_NURSERY_OPEN) { /* else the body's token becomes the walk's */
        word = kin__load_relaxed(&scope->word) + KIN__LIVE_ONE; /* relaxed: under the lock */
        kin__store_release(&scope->word, word); /* pairs with whoever looks without the lock */
    }
    scope->is_covered = 0;
    scope->is_inherited = 0;
    scope->cancel_next = *list;
    *list = scope;
    kin__list_init(&scope->cursor); /* no step of the walk was made */
    if (KIN__UNLIKELY(scope->has & KIN__SCOPE_SLOTS))
        kin__slots_refuse_locked(scope);
    struct kin__task *owner = kin__load_relaxed(&scope->owner); /* relaxed: constant while open */
    if (owner)
        kin__park_request(owner, KIN__SCOPE); /* the lock keeps the owner from joining */
    return true;
}

bool kin__cancel_inherit_locked(struct kin__scope *scope, int reason, struct kin__scope **list)
{
    bool is_mine = kin__cancel_begin_locked(scope, reason, list);
    if (is_mine)
        scope->is_inherited = 1;
    return is_mine;
}

int kin__cancel_status(const struct kin__scope *scope)
{
    return scope->is_inherited ? KIN_CANCELLED : scope->reason;
}

/* Cancels the next nursery of a task that cannot end meanwhile. True: this call has changed it. */
static bool cancel_inner_locked(struct kin__walk *walk, struct kin__task *task)
{
    struct kin__scope *scope = walk->inner, *next;
    /* behind the scope whose children are being asked, if there is one */
    struct kin__scope **list = walk->list ? &walk->list->cancel_next : &walk->list;
    bool is_told = false;
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    /* pairs with the release in kin__scope_open: the rest is filled in */
    bool is_current = kin__load_acquire(&scope->owner) == task;
    if (is_current && kin__load_relaxed(&scope->depth) <= walk->depth) { /* relaxed: locked */
        is_told = kin__cancel_inherit_locked(scope, walk->reason, list);
        if (is_told)
            scope->is_covered = 1; /* so are those inside of it, or the walk were quadratic */
        if (walk->depth == KIN__WALK_HURRIES)
            kin__grace_hurry_locked(scope);
    }
    next = is_current ? scope->outer : NULL;
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    if (!is_current) {
        /* It was recycled meanwhile, or its owner is between the two stores of its release: begin
         * again at the task. */
        kin__cpu_relax();
        next = kin__load_seq(&task->inner); /* pairs with the store in kin__scope_open */
    }
    walk->inner = next == walk->end ? NULL : next;
    return is_told;
}

static void cancel_some_inner_locked(struct kin__walk *walk, struct kin__task *task)
{
    unsigned told = 0;
    while (walk->inner && told < STEP) /* ends: nurseries close, and new ones are born cancelled */
        told += cancel_inner_locked(walk, task);
}

void kin__walk_into_locked(struct kin__walk *walk, struct kin__task *task, struct kin__scope *end,
                           int reason, unsigned depth)
{
    /* pairs with the store in kin__scope_open: see the head */
    struct kin__scope *inner = kin__load_seq(&task->inner);
    if (KIN__LIKELY(inner == end))
        return;
    walk->inner = inner;
    walk->end = end;
    walk->around = end ? kin__load_relaxed(&end->frame.name) : kin__task_id(task); /* relaxed: so */
    walk->reason = reason;
    walk->depth = depth;
    if (STEP > 1)
        cancel_some_inner_locked(walk, task);
}

/* Goes on with the nurseries of a task. The lock that kept it from ending was given up: it is taken
 * again if what it guards is still there. Otherwise those nurseries are joined. */
static void step_inside(struct kin__walk *walk)
{
    struct kin__task *task = NULL;
    struct kin__scope *scope = walk->end;
    if (!scope)
        scope = kin__scope_lock_of_walked(walk->around, &task);
    else if (kin__scope_lock_to(scope, walk->around, 0))
        task = kin__load_relaxed(&scope->owner); /* relaxed: constant while open */
    if (!task) {
        walk->inner = NULL;
        return;
    }
    cancel_some_inner_locked(walk, task);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
}

/* Asks up to STEP children behind the cursor, each with the nurseries that it has open. */
static void ask_some_locked(struct kin__walk *walk, struct kin__scope *scope)
{
    for (unsigned i = 0; i < STEP && !walk->inner && scope->cursor.next != &scope->children; i++) {
        struct kin__list *link = scope->cursor.next;
        struct kin__task *child = KIN__CONTAINER_OF(link, struct kin__task, sibling);
        kin__list_remove(&scope->cursor);
        kin__list_link(&scope->cursor, link, link->next);
        kin__park_request(child, KIN__CANCEL);
        kin__walk_into_locked(walk, child, NULL, scope->reason, 0);
    }
}

/* The first step of the walk through a scope. */
static void enter_locked(struct kin__walk *walk, struct kin__scope *scope)
{
    struct kin__task *owner = kin__load_relaxed(&scope->owner); /* relaxed: constant while open */
    kin__list_push_front(&scope->children, &scope->cursor);
    if (owner && !scope->is_covered) /* nurseries opened after this one go with it */
        kin__walk_into_locked(walk, owner, scope, scope->reason,
                              kin__load_relaxed(&scope->depth)); /* relaxed: locked */
}

/* Goes on with the children of the first scope on the list. */
static void step_list(struct kin__walk *walk)
{
    struct kin__scope *scope = walk->list;
    kin__lock_take_to(&scope->lock, KIN__RANK_NURSERY, 0);
    KIN__LAB_TOUCH(&scope->cursor, KIN__LAB_READ); /* and what it asks: see kin__scope_unlinks */
    if (!kin__list_is_linked(&scope->cursor))
        enter_locked(walk, scope);
    ask_some_locked(walk, scope);
    if (walk->inner || scope->cursor.next != &scope->children) {
        kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
        return;
    }
    kin__scope_changes(scope);
    walk->list = scope->cancel_next;
    kin__list_remove(&scope->cursor);
    kin__grace_arm_locked(scope);
    kin__scope_drop_and_unlock(scope);
}

void kin__walk_step(struct kin__walk *walk)
{
    if (walk->inner)
        step_inside(walk);
    else if (walk->list)
        step_list(walk);
    else
        kin__kill_step(walk);
}

void kin__walk_on(struct kin__walk *walk)
{
    /* ends: every scope and child is met once */
    while (!kin__walk_is_over(walk) && !KIN__LAB_WALKS(walk))
        kin__walk_step(walk);
}

void kin__cancel_walk(struct kin__scope *list)
{
    if (list) {
        struct kin__walk walk = {.list = list};
        kin__walk_on(&walk);
    }
}

/* Why a task that was asked for itself was asked: perhaps by a link. */
static int alone_reason_of(const struct kin__task *task)
{
    /* pairs with the release that filled it in; a link asks after that */
    const struct kin__party_ops *ops = kin__load_acquire_quiet(&kin__party_ops);
    int status = ops ? ops->exit_status(kin__task_id(task)) : 0;
    return status ? status : KIN_CANCELLED;
}

/* Why the task itself was asked to stop. It cannot end meanwhile, so neither can the nursery it is
 * in: either the caller is the task, or it holds the lock of a nursery that the task has open. The
 * first reason stays; only a kill replaces it. */
static int reason_of(struct kin__task *task)
{
    uint64_t requests = kin__word_requests(task);
    if (requests & KIN__KILL)
        return KIN_STUCK;
    if (requests & KIN__ALONE)
        return alone_reason_of(task);
    struct kin__scope *scope = kin__load_relaxed(&task->scope); /* relaxed: constant */
    /* pairs with the release of whoever made it CANCELLING, which comes with its reason */
    uint64_t word = kin__load_acquire(&scope->word);
    return kin__scope_state(word) == KIN_NURSERY_CANCELLING ? scope->reason : KIN_CANCELLED;
}

int kin__cancel_inherited(struct kin__scope *scope)
{
    struct kin__task *owner = kin__load_relaxed(&scope->owner); /* relaxed: constant while open */
    uint64_t requests = owner ? kin__word_requests(owner) : 0;
    if (KIN__LIKELY(!requests))
        return 0;
    uint8_t depth = kin__load_relaxed(&scope->depth); /* relaxed: the owner's own, or locked */
    if ((requests & KIN__KILL) || ((requests & KIN__CANCEL) && depth == 0))
        return reason_of(owner);
    for (struct kin__scope *outer = scope->outer; outer; outer = outer->outer) {
        /* pairs with the release of whoever made it so; outer ones are not joined before this
         * one */
        uint64_t word = kin__load_acquire(&outer->word);
        /* relaxed: an unmask lowers inner ones first, so the relation of the two holds meanwhile */
        bool is_reached = depth <= kin__load_relaxed(&outer->depth) || (word & KIN__OVERDUE);
        if (kin__scope_is_cancelled(word) && is_reached)
            return outer->reason;
    }
    return 0;
}

void kin__cancel_inherit(struct kin__scope *scope)
{
    struct kin__scope *list = NULL;
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    int reason = kin__cancel_inherited(scope);
    if (reason)
        (void)kin__cancel_inherit_locked(scope, reason, &list);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    kin__cancel_walk(list);
}

/* ---- the public face ---- */

void kin_nursery_cancel(struct kin_nursery *n, int reason)
{
    struct kin__scope *list = NULL;
    kin__entry_check_self(); /* no turn: a stop is not put off */
    struct kin__scope *scope = n ? kin__scope_lock((struct kin__handle *)(void *)n) : NULL;
    if (!scope)
        return;
    (void)kin__cancel_begin_locked(scope, reason, &list);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    kin__cancel_walk(list);
}

bool kin__cancel_is_first_locked(const struct kin__scope *scope, const struct kin__task *task)
{
    uint64_t word = kin__load_relaxed(&scope->word); /* relaxed: under the lock */
    return !(kin__word_requests(task) & KIN__CANCEL) &&
           kin__scope_state(word) != KIN_NURSERY_CANCELLING;
}

void kin__cancel_ask_locked(const struct kin__scope *scope, struct kin__task *task)
{
    bool is_first = kin__cancel_is_first_locked(scope, task);
    kin__park_request(task, KIN__CANCEL | (is_first ? KIN__ALONE : 0));
}

void kin__cancel_inside_locked(struct kin__task *task, struct kin__walk *walk)
{
    kin__walk_into_locked(walk, task, NULL, reason_of(task), 0);
}

int kin_task_cancel(struct kin_task_ref ref)
{
    struct kin__walk walk = {0};
    struct kin__task *task;
    kin__entry_check_self(); /* no turn: a stop is not put off */
    struct kin__scope *scope = kin__scope_lock_of(ref.id, &task);
    if (!scope)
        return KIN_STALE;
    if (!task->over) {
        kin__cancel_ask_locked(scope, task);
        kin__cancel_inside_locked(task, &walk);
    }
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    kin__walk_on(&walk);
    return 0;
}

/* Whether the task was asked, or is about to be: its nursery is being cancelled, and the walk
 * through the children has not come to the task yet. In the second case the task asks itself: what
 * one call has told the task, every later call tells it, too. */
static uint64_t asked(struct kin__task *task)
{
    uint64_t requests = task ? kin__word_requests(task) : 0;
    if (!task || (requests & (KIN__CANCEL | KIN__KILL)))
        return requests;
    struct kin__scope *scope = kin__load_relaxed(&task->scope); /* relaxed: constant */
    /* pairs with the release in kin__scope_move_locked: CANCELLING comes with its reason */
    if (kin__scope_state(kin__load_acquire(&scope->word)) != KIN_NURSERY_CANCELLING)
        return requests;
    (void)kin__word_request(task, KIN__CANCEL);
    return requests | KIN__CANCEL;
}

int kin__cancel_cause(struct kin__task *task, int rc)
{
    return kin__cause_of(task, rc, asked(task) & (KIN__CANCEL | KIN__KILL));
}

/* A mask was taken away: nurseries that were opened under it are asked what was held back. */
static __attribute__((noinline)) void deliver(struct kin__task *task)
{
    struct kin__scope *list = NULL;
    /* relaxed: the task's own field */
    struct kin__scope *scope = kin__load_relaxed(&task->inner);
    for (bool was_masked = true; scope && was_masked; scope = scope->outer) {
        kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
        /* relaxed: under the lock; those further out were opened before */
        was_masked = kin__load_relaxed(&scope->depth) > task->masks;
        if (was_masked) {
            kin__store_relaxed(&scope->depth, task->masks); /* relaxed: under the lock */
            int reason = kin__cancel_inherited(scope);
            if (reason)
                (void)kin__cancel_inherit_locked(scope, reason, &list);
        }
        kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
        if (list)
            KIN__LAB_POINT_GIVES(); /* before the next one */
    }
    kin__cancel_walk(list);
}

void kin_mask(void)
{
    struct kin__task *task = kin__task_self();
    if (!task)
        return;
    if (task->masks == UINT8_MAX)
        kin__misuse(task, "kin_mask", "masks nest 255 deep at most", "NCG-3");
    task->masks++;
}

void kin_unmask(void)
{
    struct kin__task *task = kin__task_self();
    if (!task)
        return;
    if (task->masks == 0)
        kin__misuse(task, "kin_unmask", "every kin_unmask ends a kin_mask", "NCG-3");
    task->masks--;
    if (KIN__UNLIKELY(kin__load_relaxed(&task->inner) != NULL)) { /* relaxed: the task's own */
        kin__entry_check(task);
        deliver(task);
    }
}

bool kin_cancelled(void)
{
    KIN__LAB_POINT();
    return asked(kin__task_self()) != 0;
}

int kin_cancel_reason(void)
{
    KIN__LAB_POINT();
    struct kin__task *task = kin__task_self();
    uint64_t requests = asked(task);
    if (!requests)
        return 0;
    if (requests & (KIN__CANCEL | KIN__KILL))
        return reason_of(task);
    int reason = KIN_CANCELLED;
    /* relaxed: the task's own field; the outermost one that is cancelled counts */
    for (struct kin__scope *scope = kin__load_relaxed(&task->inner); scope; scope = scope->outer) {
        /* pairs with the release of whoever made it so; a cancelled one stays until its join */
        uint64_t word = kin__load_acquire(&scope->word);
        if (kin__scope_is_cancelled(word))
            reason = scope->reason;
    }
    return reason;
}
