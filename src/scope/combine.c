/* SPDX-License-Identifier: MIT */
/*
 * Combinators: a nursery whose children's ends are counted.
 *
 *     open -> start the branches -> wait for the last -> read every outcome -> release
 *                                        |
 *                        an end that decides cancels the rest, under the nursery's lock
 *
 * The count stands on the caller's stack and is looked at under the lock of the nursery (ended.c),
 * so that the order of ends is the order in which children are counted off, and a cancellation from
 * outside, which takes the same lock, comes before an end or after it. Once decided or cancelled
 * nothing counts any more.
 *
 * Nothing is allocated but the branches themselves: out.task of each says who runs it, and the
 * frames of children that have a name stay until the release, which is when outcomes are read, of
 * branches that panicked or never ran too. A branch that could not be started counts as a failure
 * under a name that no task has.
 *
 * With enough ends the nursery is cancelled, not closed: that reaches every descendant of the
 * losers, and it is what wakes a hedge that waits to start the next branch.
 */
#include "plat/plat.h"
#include "scope/scope.h"

#include "park/park.h"
#include "sched/entry.h"
#include "scope/capability.h"

#include <kin/combine.h>

#include <errno.h>

/* One call of a combinator. */
struct call {
    struct kin_branch *b;
    size_t branches;
    const void *site; /* who called: where the branches were spawned */
    struct kin__scope *scope;
    struct kin__count count;
    struct kin_nursery nursery;
};

/* What a call decided. */
struct verdict {
    int status;
    size_t first;  /* index of the first branch that ended */
    size_t winner; /* index of the first good one; branches: none */
};

/* ---- starting ---- */

/* 0 when the call can begin, which leaves every outcome as that of a branch that never starts. */
static int check(struct kin_branch *b, size_t count)
{
    struct kin__task *task = kin__task_self();
    if (!b || count == 0)
        return -EINVAL;
    for (size_t i = 0; i < count; i++) {
        if (!b[i].fn)
            return -EINVAL;
    }
    if (!task)
        return kin__no_task();
    kin__entry_check(task);
    for (size_t i = 0; i < count; i++)
        b[i].out = (struct kin_outcome){KIN_SEV_CANCELLED, KIN_CANCELLED, 0, 0, ""};
    return 0;
}

/* Opens the nursery; need good ends are enough. */
static int begin(struct call *call, const char *name, size_t need, kin_time deadline)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    options.name = name;
    options.on_error = KIN_COLLECT; /* the count decides */
    options.deadline = deadline;
    int rc = kin_nursery_open(&call->nursery, &options);
    if (rc < 0)
        return rc;
    call->count = (struct kin__count){.need = need, .may_fail = call->branches - need};
    /* relaxed: the owner's own */
    call->scope = kin__load_relaxed(&kin__handle_of(&call->nursery)->scope);
    kin__lock_take(&call->scope->lock, KIN__RANK_NURSERY);
    call->scope->count = &call->count;
    call->scope->has |= KIN__SCOPE_COUNTS;
    kin__ended_keep_locked(call->scope, UINT32_MAX); /* each end is asked for */
    kin__lock_give(&call->scope->lock, KIN__RANK_NURSERY);
    return 0;
}

/* The name under which a branch counts that has no task: no frame has index 0. */
static uint64_t name_of_refused(size_t index)
{
    return (uint64_t)(index + 1) << KIN__FRAME_INDEX_BITS;
}

static bool is_refused(uint64_t name)
{
    return name != 0 && (name & ((UINT64_C(1) << KIN__FRAME_INDEX_BITS) - 1)) == 0;
}

/* A branch cannot be started: that is its end. */
static void refuse(struct call *call, size_t index, int status)
{
    struct kin__scope *list = NULL;
    struct kin_outcome *out = &call->b[index].out;
    *out = (struct kin_outcome){KIN_SEV_ERROR, status, 0, name_of_refused(index), ""};
    kin__lock_take(&call->scope->lock, KIN__RANK_NURSERY);
    kin__count_locked(call->scope, out, &list);
    kin__lock_give(&call->scope->lock, KIN__RANK_NURSERY);
    kin__cancel_walk(list);
}

/* Starts a branch. False: the nursery takes no more, it is decided or cancelled. */
static bool start(struct call *call, size_t index)
{
    struct kin_task_ref ref;
    struct kin_branch *b = &call->b[index];
    /* A branch is a part of the caller's own work: it may do what the caller may, everywhere. */
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.caps = kin_caps() ? kin_caps() : KIN_CAP_NONE;
    bool is_confined = options.caps != KIN_CAP_ALL || kin__worker_self()->sched->config.profile;
    int rc = kin__spawn_at(&call->nursery, is_confined ? &options : NULL, b->fn, b->arg, &ref,
                           call->site);
    if (rc == 0)
        b->out.task = ref.id;
    else if (rc != KIN_NOSCOPE)
        refuse(call, index, rc);
    return rc != KIN_NOSCOPE;
}

/* Starts all. The newest task of a worker runs first there: the last one begins. */
static void start_all(struct call *call)
{
    for (size_t i = call->branches; i > 0; i--) {
        if (!start(call, i - 1))
            return;
    }
}

/* ---- the end ---- */

/* The index of the branch that counts under a name; branches: none does. */
static size_t index_of(const struct call *call, uint64_t name)
{
    for (size_t i = 0; name && i < call->branches; i++) {
        if (call->b[i].out.task == name)
            return i;
    }
    return call->branches;
}

/* Writes down how every branch ended. The children are over, their frames are kept. */
static void read_outcomes_locked(struct call *call)
{
    for (size_t i = 0; i < call->branches; i++) {
        struct kin_outcome *out = &call->b[i].out;
        if (is_refused(out->task)) {
            out->task = 0;
        } else if (out->task) {
            const struct kin__task *task = kin__task_find(out->task);
            KIN__ASSERT(task && task->over, "NCG-1: every branch has ended, the losers too");
            *out = kin__task_outcome(task);
        }
    }
}

/* Waits for the last branch, reads the outcomes and releases the nursery. */
static struct verdict end(struct call *call)
{
    struct kin__count *count = &call->count;
    struct verdict verdict;
    kin__nursery_wait(&call->nursery);
    verdict.first = index_of(call, count->first);
    verdict.winner = index_of(call, count->winner);
    size_t loser = index_of(call, count->loser);
    kin__lock_take(&call->scope->lock, KIN__RANK_NURSERY);
    read_outcomes_locked(call);
    int reason = kin__cancel_status(call->scope);
    kin__lock_give(&call->scope->lock, KIN__RANK_NURSERY);
    if (!count->is_decided)
        verdict.status = reason;
    else if (count->ends == count->need)
        verdict.status = 0;
    else
        verdict.status = call->b[loser].out.status;
    kin_ignore(kin_nursery_join(&call->nursery, NULL));
    kin__handle_empty(kin__handle_of(&call->nursery)); /* the outcomes have the words */
    KIN__LAB_DRAINED(call->b, call->branches);
    KIN__ASSERT(count->is_decided || reason < 0, "house: decided or cancelled");
    return verdict;
}

/* The whole of a call that starts its branches together. */
static int run(struct kin_branch *b, size_t branches, size_t need, const char *name,
               kin_time deadline, size_t *winner, const void *site)
{
    struct call call = {.b = b, .branches = branches, .site = site};
    int rc = begin(&call, name, need, deadline);
    if (rc < 0)
        return rc;
    start_all(&call);
    struct verdict verdict = end(&call);
    if (winner && verdict.status == 0)
        *winner = verdict.winner;
    return verdict.status;
}

/* ---- waiting to start the next one ---- */

/* The end of any branch, as a thing to wait for: complete when more have failed than the caller
 * knows of, and when no further one can be started. */
struct progress {
    struct call *call;
    size_t seen; /* failures that have started a branch */
    struct kin__ender ender;
};

static bool has_moved_locked(const struct progress *progress)
{
    struct kin__scope *scope = progress->call->scope;
    return progress->call->count.fails > progress->seen ||
           kin__scope_is_cancelled(kin__load_relaxed(&scope->word)); /* relaxed: under the lock */
}

static bool progress_try(void *object, void *io, int *status)
{
    struct progress *progress = object;
    struct kin__lock *lock = &progress->call->scope->lock;
    (void)io;
    kin__lock_take(lock, KIN__RANK_NURSERY);
    bool has_moved = has_moved_locked(progress);
    kin__lock_give(lock, KIN__RANK_NURSERY);
    *status = 0;
    return has_moved;
}

static bool progress_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct progress *progress = object;
    struct kin__scope *scope = progress->call->scope;
    (void)status;
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    bool links = !has_moved_locked(progress);
    if (links) {
        if (!(scope->has & KIN__SCOPE_ENDERS)) {
            scope->has |= KIN__SCOPE_ENDERS;
            scope->enders = (struct kin__waitq){0};
        }
        waiter->io = &progress->ender;
        kin__waitq_push(&scope->enders, waiter);
    }
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return links;
}

static void progress_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin__lock *lock = &((struct progress *)object)->call->scope->lock;
    kin__lock_take(lock, KIN__RANK_NURSERY);
    kin__waitq_remove(waiter);
    kin__lock_give(lock, KIN__RANK_NURSERY);
}

static const struct kin__waitable progress_waitable = {"branch", progress_try, progress_publish,
                                                       progress_unpublish};

KIN__WAITABLE_READY(progress_waitable)
{
    return has_moved_locked(object) ? "a branch has failed, or none can start" : NULL;
}

/* Waits until the next branch is to be started: the delay is over or one has failed. False: none
 * is, because the call is decided or cancelled. */
static bool wait_for_next(struct call *call, struct progress *progress, int64_t delay)
{
    struct kin__task *task = kin__task_self();
    kin_time due = kin__clock_after(delay);
    int rc = kin__wait_until(&progress_waitable, progress, NULL, due, 0);
    if (rc == 0) {
        progress->seen++;
        return true; /* if it is decided or cancelled, the start is refused */
    }
    if (rc == KIN_TIMEOUT && kin__deadline_of(task, due) == due)
        return true;
    /* The task is cancelled, or a pushed deadline has come. Either reaches the nursery in a moment;
     * but what its last branch returns until then must not be taken for the end of the call. */
    if (rc == KIN_TIMEOUT)
        kin_nursery_cancel(&call->nursery, rc);
    else
        kin__cancel_inherit(call->scope);
    return false;
}

/* ---- the public face ---- */

int kin_race(struct kin_branch *b, size_t count, size_t *winner)
{
    int rc = check(b, count);
    if (rc < 0)
        return rc;
    struct call call = {.b = b, .branches = count, .site = __builtin_return_address(0)};
    rc = begin(&call, "kin_race", 1, 0);
    if (rc < 0)
        return rc;
    call.count.counts_all = true; /* alone: no branch runs yet */
    start_all(&call);
    struct verdict verdict = end(&call);
    if (winner) /* cancelled before one was started: any will do */
        *winner = verdict.first < count ? verdict.first : 0;
    return verdict.status == 0 ? b[verdict.winner].out.status : verdict.status;
}

int kin_any(struct kin_branch *b, size_t count, size_t *winner)
{
    int rc = check(b, count);
    return rc < 0 ? rc : run(b, count, 1, "kin_any", 0, winner, __builtin_return_address(0));
}

int kin_all(struct kin_branch *b, size_t count)
{
    int rc = check(b, count);
    return rc < 0 ? rc : run(b, count, count, "kin_all", 0, NULL, __builtin_return_address(0));
}

int kin_quorum(struct kin_branch *b, size_t count, size_t need)
{
    if (need == 0 || need > count)
        return -EINVAL;
    int rc = check(b, count);
    return rc < 0 ? rc : run(b, count, need, "kin_quorum", 0, NULL, __builtin_return_address(0));
}

int kin_timeout(struct kin_branch *b, kin_time deadline)
{
    int rc = check(b, 1);
    if (rc < 0)
        return rc;
    if (deadline <= 0)
        deadline = 1; /* long ago; in options 0 means none */
    return run(b, 1, 1, "kin_timeout", deadline, NULL, __builtin_return_address(0));
}

int kin_hedge(struct kin_branch *b, size_t count, int64_t delay, size_t *winner)
{
    int rc = check(b, count);
    if (rc < 0)
        return rc;
    if (delay <= 0)
        return run(b, count, 1, "kin_hedge", 0, winner, __builtin_return_address(0));
    struct call call = {.b = b, .branches = count, .site = __builtin_return_address(0)};
    rc = begin(&call, "kin_hedge", 1, 0);
    if (rc < 0)
        return rc;
    struct progress progress = {.call = &call};
    for (size_t i = 0; i < count; i++) {
        if (!start(&call, i) || (i + 1 < count && !wait_for_next(&call, &progress, delay)))
            break;
    }
    struct verdict verdict = end(&call);
    if (winner && verdict.status == 0)
        *winner = verdict.winner;
    return verdict.status;
}
