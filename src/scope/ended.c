/* SPDX-License-Identifier: MIT */
/*
 * The end of a child: what it means to its nursery, and waiting for the end of one task.
 *
 * A child is counted off under its nursery's lock; with the same lock held its failure is kept, its
 * siblings are cancelled if need be, and those who wait for this very end are given its outcome.
 * The frame of a child that somebody can name stays with the nursery until that is released, so
 * that its outcome can be asked for; all others go back at once.
 */
#include "scope/scope.h"
#include "wait/owner.h"

#include "sched/entry.h"
#include "scope/argument.h"
#include "scope/belongings.h"
#include "scope/capability.h"
#include "task/budget.h"
#include "task/word.h"

#include <errno.h>
#include <string.h>

/* Asked by somebody, or about to be: its nursery is being cancelled and the walk is on its way. */
static bool is_asked(const struct kin__task *task)
{
    const struct kin__scope *scope = kin__load_relaxed(&task->scope); /* relaxed: constant */
    return (kin__word_requests(task) & (KIN__CANCEL | KIN__KILL)) ||
           kin__scope_is_cancelled(kin__load_relaxed(&scope->word)); /* relaxed: under the lock */
}

struct kin_outcome kin__task_outcome(const struct kin__task *task)
{
    struct kin_outcome how = {.severity = KIN_SEV_OK, .task = kin__task_id(task)};
    if (task->over) /* it has been judged: a request that came after the end changes nothing */
        how.severity = (enum kin_severity)((task->over & ~KIN__OVER_TELLS) - 1);
    else if (task->flags & KIN__TASK_PANICKED)
        how.severity = KIN_SEV_PANIC;
    else if (task->status < 0)
        how.severity = task->status == KIN_CANCELLED && is_asked(task) ? KIN_SEV_CANCELLED
                                                                       : KIN_SEV_ERROR;
    if (how.severity == KIN_SEV_OK)
        how.value = task->status;
    else
        how.status = task->status;
    /* relaxed: constant; NULL for one that was never linked */
    const struct kin__scope *scope = kin__load_relaxed(&task->scope);
    if (KIN__UNLIKELY(scope && scope->words) && how.severity != KIN_SEV_OK)
        strcpy(how.text, kin__words_find(scope->words, how.task)); /* as long as that at most */
    return how;
}

/* Keeps a failure: in order of time, the first panic or else the first error as the worst
 * [NSM:8.1]. False: there are too many, it was only counted. */
static bool keep_locked(struct kin__scope *scope, const struct kin_outcome *how)
{
    struct kin__handle *handle = scope->handle;
    struct kin__failure *errors = handle->more ? handle->more->errors : handle->errors;
    struct kin__failure failure = {how->task, how->status, (int32_t)how->severity};
    bool is_kept = handle->errors_kept < handle->errors_max;
    if (is_kept)
        errors[handle->errors_kept++] = failure;
    else
        handle->errors_dropped++;
    if (failure.severity > scope->worst.severity) {
        scope->worst = failure;
        is_kept = true;
    }
    return is_kept;
}

/* What an end with a status means to the nursery. */
static __attribute__((noinline)) void judge_locked(struct kin__scope *scope,
                                                   struct kin__task *task,
                                                   struct kin__scope **list)
{
    struct kin_outcome how = kin__task_outcome(task);
    task->over = (uint8_t)(1 + how.severity); /* before it cancels the nursery it ends in */
    if (task->flags & KIN__TASK_INTERNAL) { /* nobody reads what it said in this nursery */
        if (how.text[0])
            kin__words_drop_locked(scope, how.task);
        return;
    }
    bool is_failure = how.severity == KIN_SEV_ERROR || how.severity == KIN_SEV_PANIC;
    if (!kin__load_relaxed(&scope->owner)) { /* relaxed: constant while a child lives */
        /* the first task of a runtime: its end is the result */
        scope->worst = (struct kin__failure){how.task, task->status, (int32_t)how.severity};
        return;
    }
    if (!(is_failure && keep_locked(scope, &how)) && how.text[0])
        kin__words_drop_locked(scope, how.task);
    if (is_failure && scope->on_error == KIN_FAIL_FAST) /* [NCG-2] [NSM:4.1] */
        (void)kin__cancel_begin_locked(scope, how.status, list);
}

/* A combinator's nursery has enough, or cannot get it any more: the rest is cancelled. */
void kin__count_locked(struct kin__scope *scope, const struct kin_outcome *how,
                       struct kin__scope **list)
{
    struct kin__count *count = scope->count;
    if (!count->first)
        count->first = how->task;
    /* relaxed: under the lock */
    if (count->is_decided || kin__scope_is_cancelled(kin__load_relaxed(&scope->word)))
        return;
    if (how->severity == KIN_SEV_OK || count->counts_all) {
        if (count->ends++ == 0)
            count->winner = how->task;
    } else if (count->fails++ == 0) {
        count->loser = how->task;
    }
    count->is_decided = count->ends == count->need || count->fails > count->may_fail;
    if (count->is_decided)
        (void)kin__cancel_begin_locked(scope, KIN_CANCELLED, list);
}

/* Wakes those who wait for the end of this child. */
static void tell_enders_locked(struct kin__scope *scope, const struct kin_outcome *how,
                               struct kin__wakes *wakes)
{
    KIN__LIST_EACH(link, &scope->enders.list) {
        struct kin__waiter *waiter = KIN__CONTAINER_OF(link, struct kin__waiter, link);
        struct kin__ender *ender = waiter->io;
        struct kin__claimed claimed;
        if ((ender->task && ender->task != how->task) || !kin__waitq_claim_one(waiter, &claimed))
            continue;
        ender->how = *how;
        ender->is_known = true;
        kin__wakes_add(wakes, &claimed, 0);
    }
}

/* Gives back a frame that was kept and is in no list any more. */
static void release_frame_locked(struct kin__scope *scope, struct kin__task *task)
{
    scope->ended_count--;
    kin__word_fini(task);
    kin__store_release(&task->scope, NULL); /* pairs with the acquire in kin__scope_lock_of */
    task->ctx.sp = NULL;                    /* knows nobody to warm up */
    kin__block_give(KIN__FRAME_TASK, &task->frame);
}

/* Somebody has the name of this child: its frame stays until the nursery is released, or until so
 * many ended after it that a nursery that lives for years would grow without end. */
static void keep_frame_locked(struct kin__scope *scope, struct kin__task *task)
{
    task->over = (uint8_t)(1 + kin__task_outcome(task).severity);
    kin__list_init(&task->sibling);
    kin__list_push_back(&scope->ended, &task->sibling);
    if (KIN__UNLIKELY(++scope->ended_count > scope->ended_max)) {
        struct kin__list *oldest = kin__list_pop_front(&scope->ended);
        release_frame_locked(scope, KIN__CONTAINER_OF(oldest, struct kin__task, sibling));
    }
}

_Atomic(const struct kin__party_ops *) kin__party_ops;

/* Others may know this child by its address: they are told, without the lock. It is over already,
 * and still counted, so that the scope stays; who waits for its end waits until they are told. */
static void tell_parties_locked(struct kin__scope *scope, struct kin__task *task,
                                const struct kin_outcome *how)
{
    /* pairs with the release of whoever set the bit of the scope, by the lock */
    const struct kin__party_ops *ops = kin__load_acquire_quiet(&kin__party_ops);
    task->over = (uint8_t)((1 + how->severity) | KIN__OVER_TELLS);
    kin__list_init(&task->sibling); /* not among those that are kept yet: kin__task_forget */
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    KIN__LAB_ENDS();
    ops->end(how->task, how);
    KIN__LAB_ENDS();
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    task->over = (uint8_t)(1 + how->severity);
}

/* The rare things that an end may bring about, and the rest of kin__child_done. */
static __attribute__((noinline)) bool end_rare_and_unlock(struct kin__scope *scope,
                                                          struct kin__task *task,
                                                          struct kin__scope *list)
{
    struct kin_outcome how = kin__task_outcome(task);
    struct kin__wakes wakes = {0};
    if (scope->has & KIN__SCOPE_PARTIES)
        tell_parties_locked(scope, task, &how);
    bool is_kept = task->flags & KIN__TASK_KEPT;
    if (scope->has & KIN__SCOPE_COUNTS)
        kin__count_locked(scope, &how, &list);
    if ((scope->has & KIN__SCOPE_ENDERS) && !kin__waitq_is_empty(&scope->enders))
        tell_enders_locked(scope, &how, &wakes);
    if (scope->has & KIN__SCOPE_SLOTS)
        kin__slots_offer_locked(scope, &wakes);
    if (is_kept)
        keep_frame_locked(scope, task);
    else /* it is over; pairs with the acquire in kin__scope_lock_of */
        kin__store_release(&task->scope, NULL);
    kin__scope_drop_and_unlock(scope);
    kin__cancel_walk(list); /* holds a token of its own in every scope on the list */
    kin__wakes_run(&wakes);
    return !is_kept;
}

/* What a task owns that is over goes. */
static __attribute__((noinline)) void give_up(struct kin__task *task)
{
    if (task->flags & KIN__TASK_LOCKS)
        kin__owner_abandon(task);
    if (task->flags & KIN__TASK_EXTRA) { /* there was no stack for it, hence no kin__conclude */
        kin__cleanup_unrun(task);
        kin__budget_settle(task);
        kin__extra_discard(task);
    }
    if (task->caps & KIN__CAPS_COPY) /* last: cleanups may have used it */
        kin__argument_give(task);
}

/* A child is over: it is counted off, and what it ended with is its nursery's alone [NSM:3.2]
 * [SCHED:15.2.2]. */
bool kin__child_done(struct kin__task *task)
{
    struct kin__scope *scope = kin__load_relaxed(&task->scope); /* relaxed: constant */
    struct kin__scope *list = NULL;
    if (KIN__UNLIKELY(kin__task_owns(task, KIN__TASK_LOCKS)))
        give_up(task);
    kin__lock_take_to(&scope->lock, KIN__RANK_NURSERY, KIN__LAB_ADD);
    kin__scope_unlinks(scope, task);
    struct kin__list *next = task->sibling.next, *prev = task->sibling.prev;
    next->prev = prev;
    prev->next = next;
    if (KIN__UNLIKELY(task->status != 0)) {
        kin__scope_changes(scope);
        judge_locked(scope, task, &list);
    }
    if (KIN__UNLIKELY(scope->has & (KIN__SCOPE_COUNTS | KIN__SCOPE_ENDERS | KIN__SCOPE_SLOTS |
                                    KIN__SCOPE_KEEPS | KIN__SCOPE_PARTIES))) {
        kin__scope_changes(scope);
        return end_rare_and_unlock(scope, task, list);
    }
    /* it is over; pairs with the acquire in kin__scope_lock_of */
    kin__store_release(&task->scope, NULL);
    kin__scope_drop_and_unlock(scope);
    if (KIN__UNLIKELY(list != NULL))
        kin__cancel_walk(list); /* holds a token of its own in every scope on the list */
    return true;
}

void kin__ended_release_locked(struct kin__scope *scope)
{
    struct kin__list *link;
    while ((link = kin__list_pop_front(&scope->ended))) /* ends: one fewer each time */
        release_frame_locked(scope, KIN__CONTAINER_OF(link, struct kin__task, sibling));
}

void kin__task_forget(uint64_t id)
{
    struct kin__task *task;
    struct kin__scope *scope = kin__scope_lock_of(id, &task);
    if (!scope)
        return;
    if (task->over && (task->flags & KIN__TASK_KEPT)) {
        task->flags &= (uint16_t)~KIN__TASK_KEPT; /* not its own any more: it has ended */
        if (kin__list_is_linked(&task->sibling)) {
            kin__list_remove(&task->sibling);
            release_frame_locked(scope, task);
        }
    }
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
}

/* ---- waiting for the end of one task ---- */

/* In place: the mode is the lab's, and nobody else passes it on. */
static inline __attribute__((always_inline)) struct kin__scope *
lock_of(uint64_t id, struct kin__task **task, unsigned mode)
{
    *task = kin__task_find(id);
    /* Any scope will do, blocks are never unmapped; the name decides below. Pairs with the release
     * in kin__child_done: who finds none sees what the task did. */
    struct kin__scope *scope = *task ? kin__load_acquire(&(*task)->scope) : NULL;
    if (!scope)
        return NULL;
    kin__lock_take_to(&scope->lock, KIN__RANK_NURSERY, mode);
    /* As long as its scope is locked a task that is in it keeps its name. Pairs with the release in
     * kin__frame_free_as. */
    if (kin__load_acquire(&(*task)->frame.name) == id &&
        kin__load_relaxed(&(*task)->scope) == scope) /* relaxed: as above */
        return scope;
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return NULL;
}

struct kin__scope *kin__scope_lock_of(uint64_t id, struct kin__task **task)
{
    return lock_of(id, task, KIN__LAB_WRITE);
}

struct kin__scope *kin__scope_lock_of_walked(uint64_t id, struct kin__task **task)
{
    return lock_of(id, task, 0);
}

/* It is over, and everybody who is told of that has been. */
static bool is_done(const struct kin__task *task)
{
    return task->over != 0 && !(task->over & KIN__OVER_TELLS);
}

static bool end_try(void *object, void *io, int *status)
{
    struct kin__ender *ender = object;
    struct kin__task *task;
    (void)io;
    *status = 0;
    struct kin__scope *scope = kin__scope_lock_of(ender->task, &task);
    if (!scope)
        return true;
    bool is_over = is_done(task);
    if (is_over) {
        ender->how = kin__task_outcome(task);
        ender->is_known = true;
    }
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return is_over;
}

static bool end_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin__ender *ender = object;
    struct kin__task *task;
    (void)status;
    struct kin__scope *scope = kin__scope_lock_of(ender->task, &task);
    if (!scope)
        return false;
    bool links = !is_done(task);
    if (links) {
        if (!(scope->has & KIN__SCOPE_ENDERS)) {
            scope->has |= KIN__SCOPE_ENDERS;
            scope->enders = (struct kin__waitq){0};
        }
        waiter->io = ender;
        kin__waitq_push(&scope->enders, waiter);
        ender->scope = scope;
    }
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return links;
}

static void end_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin__scope *scope = ((struct kin__ender *)object)->scope;
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    kin__waitq_remove(waiter);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
}

const struct kin__waitable kin__task_waitable = {"task", end_try, end_publish, end_unpublish};

KIN__WAITABLE_READY(kin__task_waitable)
{
    const struct kin__task *task = kin__task_find(((const struct kin__ender *)object)->task);
    return !task || is_done(task) ? "the task has ended" : NULL;
}

int kin_task_join(struct kin_nursery *n, struct kin_task_ref ref, struct kin_outcome *out,
                  kin_time deadline)
{
    struct kin__task *self = kin__task_self();
    struct kin__ender ender = {.task = ref.id};
    struct kin__task *task;
    if (!n || ref.id == 0)
        return -EINVAL;
    if (!self)
        return kin__no_task();
    kin__entry_check(self);
    struct kin__scope *scope = kin__scope_lock(kin__handle_of(n));
    if (!scope)
        return KIN_STALE;
    bool is_owner = kin__load_relaxed(&scope->owner) == self; /* relaxed: under the lock */
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    if (!is_owner)
        return -EPERM;
    struct kin__scope *its = kin__scope_lock_of(ender.task, &task);
    if (its)
        kin__lock_give(&its->lock, KIN__RANK_NURSERY);
    if (its && its != scope)
        return -EINVAL;
    int rc = kin__op(self, 0, deadline);
    if (KIN__LIKELY(rc == 0))
        rc = kin__wait_until(&kin__task_waitable, &ender, NULL, deadline, 0);
    if (rc < 0)
        return rc;
    if (!ender.is_known)
        return KIN_STALE;
    if (out)
        *out = ender.how;
    return 0;
}
