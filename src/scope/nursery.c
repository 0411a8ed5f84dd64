/* SPDX-License-Identifier: MIT */
/*
 * Nurseries: the five states of 000, admission, the end of a child, the join barrier.
 *
 *     OPEN --close, join--> CLOSING --last one over--> CLOSED
 *       |                      |
 *       +-------cancel---------+--> CANCELLING --last one over--> CANCELLED          [NSM:2.3]
 *
 * A join runs the children that nobody has begun yet right on the owner's stack, as long as they
 * are the newest in this worker's deque and the stack can lend: the owner cannot go on before they
 * are over, so nothing is lost if one of them parks there, and a fork-join program pays no switch
 * for a child that was not stolen.
 */
#include "scope/scope.h"

#include "park/park.h"
#include "sched/entry.h"
#include "scope/belongings.h"
#include "scope/budget.h"
#include "scope/capability.h"
#include "task/word.h"

#include <errno.h>
#include <string.h>

/* Fast paths that have a second, rare caller. */
#define INLINE static inline __attribute__((always_inline))
#define MORE_LOOKS 64u /* how many blocks an open looks through for its handle's last one */

/* ---- the word ---- */

void kin__scope_move_locked(struct kin__scope *scope, enum kin_nursery_state to)
{
    static const uint8_t legal[5] = {
        [KIN_NURSERY_OPEN] = 1 << KIN_NURSERY_CLOSING | 1 << KIN_NURSERY_CANCELLING,
        [KIN_NURSERY_CLOSING] = 1 << KIN_NURSERY_CLOSED | 1 << KIN_NURSERY_CANCELLING,
        [KIN_NURSERY_CANCELLING] = 1 << KIN_NURSERY_CANCELLED,
    }; /* none leaves a terminal state [NSM:2.4] */
    uint64_t word = kin__load_relaxed(&scope->word); /* relaxed: under the lock */
    KIN__CHECK(legal[kin__scope_state(word)] & (1u << to), "NSM:2.3");
    /* pairs with the acquire of whoever looks without the lock: the reason came before */
    kin__store_release(&scope->word, (word & ~KIN__STATE_MASK) | to);
}

/* The last one: the state becomes terminal [NSM:3.3]. */
__attribute__((noinline)) void kin__scope_end_and_unlock(struct kin__scope *scope)
{
    struct kin__sched *sched = scope->sched;
    struct kin__task *owner = kin__load_relaxed(&scope->owner); /* relaxed: open since long */
    uint64_t ticket = scope->ticket;
    bool is_waiting = scope->is_waiting;
    uint64_t word = kin__load_relaxed(&scope->word); /* relaxed: under the lock */
    kin__scope_move_locked(scope, kin__scope_state(word) == KIN_NURSERY_CANCELLING
                                      ? KIN_NURSERY_CANCELLED
                                      : KIN_NURSERY_CLOSED);
    if (KIN__UNLIKELY(scope->has & KIN__SCOPE_SLOTS))
        kin__slots_refuse_locked(scope);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY); /* the last touch of the scope */
    if (is_waiting)
        (void)kin__wake_task(owner, ticket, 0, 0);
    else if (!owner)
        kin__sched_stop(sched);
}

/* ---- opening ---- */

static inline void init_scope(struct kin__scope *scope, struct kin__sched *sched,
                              struct kin__task *owner)
{
    scope->is_sealed = 0;
    scope->is_waiting = 0;
    scope->on_error = KIN_FAIL_FAST;
    scope->has = 0;
    kin__store_relaxed(&scope->word, KIN__LIVE_ONE | KIN_NURSERY_OPEN); /* alone: not shared yet */
    scope->ticket = 0;
    kin__list_init(&scope->children);
    scope->sched = sched;
    scope->name = NULL;
    scope->reason = 0;
    scope->tasks_max = 0;
    scope->worst.severity = KIN_SEV_OK;
    scope->outer = owner ? kin__load_relaxed(&owner->inner) : NULL; /* relaxed: the task's own */
    scope->cleanups = owner ? kin__extra_cover(owner) : 0;
    kin__store_relaxed(&scope->depth, owner ? owner->masks : 0); /* alone: not shared yet */
}

static inline void init_handle(struct kin__handle *handle, struct kin__scope *scope)
{
    /* relaxed: ours until it is released */
    handle->name = scope ? kin__load_relaxed(&scope->frame.name) : 0;
    kin__store_release(&handle->scope, scope); /* pairs with the acquire in kin__scope_lock */
    handle->open_status = 0;
    handle->is_joined = 0;
    handle->state = KIN_NURSERY_OPEN;
    handle->errors_max = KIN__ERRORS_INLINE;
    handle->errors_kept = 0;
    handle->errors_dropped = 0;
    handle->more = NULL;
}

/* Takes a block out of the list it is in. Under the lock of the nursery that keeps it. */
static void unlink_more_locked(struct kin__more *more)
{
    *more->link = more->next;
    if (more->next)
        more->next->link = more->link;
}

static void link_more_locked(struct kin__scope *keeper, struct kin__more *more)
{
    more->next = keeper->kept;
    more->link = &keeper->kept;
    if (more->next)
        more->next->link = &more->next;
    keeper->kept = more;
}

void kin__more_keep(struct kin__task *owner, struct kin__more *more)
{
    struct kin__scope *keeper = kin__load_relaxed(&owner->scope); /* relaxed: constant */
    kin__lock_take(&keeper->lock, KIN__RANK_NURSERY);
    link_more_locked(keeper, more);
    kin__lock_give(&keeper->lock, KIN__RANK_NURSERY);
}

void kin__more_free(struct kin__task *owner, struct kin__more *more)
{
    struct kin__scope *keeper = kin__load_relaxed(&owner->scope); /* relaxed: constant */
    kin__lock_take(&keeper->lock, KIN__RANK_NURSERY);
    unlink_more_locked(more);
    kin__lock_give(&keeper->lock, KIN__RANK_NURSERY);
    kin__heap_free(more);
}

/* Room for more failures than the handle holds; false when there is none. A block that the same
 * handle had in an earlier life goes, if it is among the latest. */
static __attribute__((noinline)) bool take_more(struct kin__handle *handle, struct kin__task *owner,
                                                unsigned errors_max)
{
    struct kin__more *more = NULL, *old;
    unsigned looks = 0;
    if (owner && errors_max <= UINT32_MAX / sizeof(more->errors[0]))
        more = kin__heap_alloc(sizeof(*more) + errors_max * sizeof(more->errors[0]));
    if (!more)
        return false;
    struct kin__scope *keeper = kin__load_relaxed(&owner->scope); /* relaxed: constant */
    more->handle = handle;
    handle->more = more;
    kin__lock_take(&keeper->lock, KIN__RANK_NURSERY);
    for (old = keeper->kept; old && old->handle != handle; old = old->next) {
        if (++looks == MORE_LOOKS) {
            old = NULL;
            break;
        }
    }
    if (old)
        unlink_more_locked(old);
    link_more_locked(keeper, more);
    kin__lock_give(&keeper->lock, KIN__RANK_NURSERY);
    kin__heap_free(old);
    return true;
}

/* The room of a handle that goes out of scope; its owner is the running task. */
static __attribute__((noinline)) void give_more(struct kin__handle *handle)
{
    kin__more_free(kin__task_self(), handle->more);
    handle->more = NULL;
}

/* What only some nurseries ask for or are born under. 0, or why it is refused; nothing is left. */
static __attribute__((noinline)) int take_options(struct kin__scope *scope,
                                                  struct kin__handle *handle,
                                                  struct kin__task *owner,
                                                  const struct kin_nursery_options *options)
{
    unsigned errors_max = options ? options->errors_max : 0;
    if (errors_max)
        handle->errors_max = errors_max;
    if (errors_max > KIN__ERRORS_INLINE && !take_more(handle, owner, errors_max))
        return -ENOMEM;
    if (options) {
        scope->on_error = (uint8_t)options->on_error;
        scope->name = options->name;
        scope->tasks_max = options->tasks_max;
    }
    if (options && options->cancel_grace) {
        scope->has |= KIN__SCOPE_GRACE;
        scope->grace_ns = options->cancel_grace;
    }
    int rc = kin__budget_open(scope, owner, options);
    if (rc < 0 && handle->more)
        give_more(handle);
    return rc;
}

/* The deadline of a nursery that is being opened: its own or the task's, whichever is tighter. */
static kin_time deadline_of(const struct kin__task *owner,
                            const struct kin_nursery_options *options)
{
    kin_time deadline = options && options->deadline ? options->deadline : KIN_NEVER;
    return kin__deadline_of(owner, deadline);
}

static bool are_options_sound(const struct kin_nursery_options *options)
{
    return options->size == sizeof(*options) && (unsigned)options->on_error <= KIN_COLLECT &&
           (unsigned)options->recharge <= KIN_RECHARGE_MANUAL &&
           (unsigned)options->on_exhausted <= KIN_EXHAUSTED_FAIL && options->cancel_grace >= 0;
}

static inline __attribute__((always_inline)) int
open_scope(struct kin__frame *frame, struct kin__handle *handle, struct kin__sched *sched,
           struct kin__task *owner, bool is_rare, const struct kin_nursery_options *options)
{
    struct kin__scope *scope = KIN__CONTAINER_OF(frame, struct kin__scope, frame);
    init_handle(handle, scope);
    /* A canceller may still come to this block from its last life: it sees no owner and leaves. */
    init_scope(scope, sched, owner);
    scope->handle = handle;
    if (KIN__UNLIKELY(is_rare)) {
        int rc = take_options(scope, handle, owner, options);
        if (rc < 0) {
            kin__block_give(KIN__FRAME_SCOPE, frame);
            return rc;
        }
    }
    kin__store_release(&scope->owner, owner); /* pairs with the acquire in kin__cancel_inner_of */
    if (owner) /* pairs with the load in kin__cancel_inner_of; see the head of cancel.c */
        kin__store_release(&owner->inner, scope);
    if (owner)
        KIN__LAB_ACQUIRES(KIN__LAB_NURSERY, scope, 0);
    return 0;
}

int kin__scope_open(struct kin__handle *handle, struct kin__sched *sched, struct kin__task *owner,
                    const struct kin_nursery_options *options)
{
    struct kin__frame *frame = kin__block_take(KIN__FRAME_SCOPE);
    return frame ? open_scope(frame, handle, sched, owner, options != NULL, options) : -ENOMEM;
}

/* An open that was refused: spawn answers KIN_NOSCOPE, join the reason. */
static __attribute__((noinline)) int refuse_open(struct kin__handle *handle, int rc)
{
    init_handle(handle, NULL);
    handle->state = KIN_NURSERY_CLOSED;
    handle->open_status = rc;
    return rc;
}

int kin_nursery_open(struct kin_nursery *n, const struct kin_nursery_options *options)
{
    struct kin__worker *worker = kin__worker_self();
    struct kin__handle *handle = kin__handle_of(n);
    if (KIN__UNLIKELY(!n))
        return -EINVAL;
    if (KIN__UNLIKELY(!worker || !kin__worker_current(worker)))
        return refuse_open(handle, kin__no_task());
    if (KIN__UNLIKELY(options && !are_options_sound(options)))
        return refuse_open(handle, -EINVAL);
    struct kin__task *task = kin__worker_current(worker);
    kin__entry_check(task);
    bool is_rare = options || (task->flags & (KIN__TASK_METERED | KIN__TASK_DEADLINE));
    struct kin__frame *frame = kin__frame_alloc(&worker->blocks[KIN__FRAME_SCOPE]);
    int rc = KIN__LIKELY(frame != NULL)
                 ? open_scope(frame, handle, worker->sched, task, is_rare, options)
                 : -ENOMEM;
    if (KIN__UNLIKELY(rc < 0))
        return refuse_open(handle, rc);
    if (KIN__UNLIKELY(kin__word_requests(task))) { /* born cancelled */
        int reason = kin__cancel_inherited(KIN__CONTAINER_OF(frame, struct kin__scope, frame));
        if (reason)
            kin_nursery_cancel(n, reason);
    }
    if (KIN__UNLIKELY(is_rare) && deadline_of(task, options) != KIN_NEVER)
        kin__deadline_arm(KIN__CONTAINER_OF(frame, struct kin__scope, frame),
                          deadline_of(task, options)); /* a cancellation came before it */
    return 0;
}

/* ---- joining ---- */

static bool join_try(void *object, void *io, int *status)
{
    struct kin__scope *scope = object;
    (void)io;
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    /* relaxed: under the lock, which the last one has given up by then */
    bool is_over = kin__scope_live(kin__load_relaxed(&scope->word)) == 0;
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    *status = 0;
    return is_over;
}

static bool join_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin__scope *scope = object;
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    bool is_over = kin__scope_live(kin__load_relaxed(&scope->word)) == 0; /* relaxed: locked */
    if (!is_over) {
        scope->ticket = waiter->ticket;
        scope->is_waiting = 1;
    }
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    *status = 0;
    return !is_over;
}

static void join_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin__scope *scope = object;
    (void)waiter;
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    scope->is_waiting = 0;
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
}

const struct kin__waitable kin__join_waitable = {"nursery", join_try, join_publish,
                                                 join_unpublish};

KIN__WAITABLE_READY(kin__join_waitable)
{
    const struct kin__scope *scope = object;
    uint64_t word = kin__load_relaxed(&scope->word); /* relaxed: nobody runs */
    return kin__scope_live(word) == 0 ? "nobody is left in the nursery" : NULL;
}

/* Runs children that nobody has begun on this stack. True: none is left. */
static bool run_children_here(struct kin__task *task, struct kin__scope *scope)
{
    while (kin__stack_can_lend(task->stack, __builtin_frame_address(0))) { /* ends: children do */
        struct kin__task *child = kin__worker_take_child(kin__worker_self(), scope);
        if (!child)
            return false;
        kin__worker_run_here(task, child);
        /* pairs with the release of whoever made it terminal */
        if (kin__scope_state(kin__load_acquire(&scope->word)) > KIN_NURSERY_CANCELLING)
            return true;
    }
    return false;
}

/* Ends admission: OPEN -> CLOSING, with which the body's token goes. True: nobody is left. */
static inline bool close_and_unlock(struct kin__scope *scope)
{
    uint64_t word = kin__load_relaxed(&scope->word); /* relaxed: under the lock */
    if (KIN__UNLIKELY(kin__scope_state(word) != KIN_NURSERY_OPEN)) {
        kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
        return kin__scope_live(word) == 0;
    }
    word = (word & ~KIN__STATE_MASK) | KIN_NURSERY_CLOSING;
    kin__store_release(&scope->word, word); /* pairs as in kin__scope_move_locked */
    if (KIN__UNLIKELY(scope->has & KIN__SCOPE_SLOTS))
        kin__slots_refuse_locked(scope); /* members come back */
    kin__scope_drop_and_unlock(scope);
    return kin__scope_live(word) == 1;
}

/* Waits until every child is over. */
INLINE void wait_for_children(struct kin__task *task, struct kin__scope *scope)
{
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    bool is_hard = kin__worker_self()->sched->hard.park;
    if (close_and_unlock(scope) || (!is_hard && run_children_here(task, scope)))
        return;
    while (kin__wait(&kin__join_waitable, scope, NULL, KIN__WAIT_DEAF) < 0) {
        /* ends: only what cannot be masked wakes such a wait early, once for each nursery */
    }
}

static inline void fill_outcome(const struct kin__scope *scope, enum kin_nursery_state state,
                         struct kin_outcome *how)
{
    *how = scope->worst;
    if (how->severity == KIN_SEV_OK) {
        *how = (struct kin_outcome){KIN_SEV_OK, 0, 0, 0};
        if (state == KIN_NURSERY_CANCELLED) {
            how->severity = KIN_SEV_CANCELLED;
            how->status = scope->reason;
        }
    }
}

/* One of the owner's nurseries was cancelled and is over: does another one keep it asked? First
 * take the request back, then look: a canceller of an outer one comes before or after, never unseen
 * in between. */
static __attribute__((noinline)) void take_back(struct kin__task *task, struct kin__scope *outer)
{
    bool was_forced = kin__word_unrequest(task, KIN__SCOPE | KIN__FORCE) & KIN__FORCE;
    uint64_t again = 0;
    kin__fence_after_rmw(); /* fence: the request before the states; mirror: a canceller's RMW */
    for (; outer && !(again && !was_forced); outer = outer->outer) {
        /* pairs with the release in kin__scope_move_locked */
        uint64_t word = kin__load_acquire(&outer->word);
        if (kin__scope_is_cancelled(word))
            again |= KIN__SCOPE | (word & KIN__OVERDUE ? KIN__FORCE : 0);
    }
    if (again)
        (void)kin__word_request(task, again);
}

__attribute__((noinline)) void kin__scope_empty(struct kin__scope *scope)
{
    while (scope->kept) { /* ends: one fewer each time */
        struct kin__more *more = scope->kept;
        scope->kept = more->next;
        kin__heap_free(more);
    }
    kin__arena_fini(&scope->arena); /* empty again, for the next life */
}

/* What only some nurseries have is given back: the timer, the frames of children that were kept. */
static __attribute__((noinline)) void release_rare_locked(struct kin__scope *scope)
{
    if (scope->has & KIN__SCOPE_TIMED)
        kin__timer_disarm(&scope->timer);
    if (scope->has & KIN__SCOPE_KEEPS)
        kin__ended_release_locked(scope);
    if (scope->has & KIN__SCOPE_METERED) {
        struct kin__wakes wakes = {0};
        kin__budget_close(scope, &wakes);
        kin__wakes_run(&wakes); /* with the lock held: a push takes none of a lower rank */
    }
}

/* The scope is over: what must stay readable goes to the handle, the rest back to the pools. */
static inline void release(struct kin__task *task, struct kin__handle *handle,
                           struct kin__scope *scope)
{
    /* Taken so that a canceller that found this scope by its owner has left it. */
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    uint64_t word = kin__load_relaxed(&scope->word); /* relaxed: under the lock */
    KIN__CHECK(kin__scope_live(word) == 0, "NCG-1 N3001");
    KIN__CHECK(kin__list_is_empty(&scope->children), "NSM-1");
    handle->state = (int32_t)kin__scope_state(word);
    fill_outcome(scope, kin__scope_state(word), &handle->outcome);
    handle->is_joined = 1;
    KIN__LAB_JOINED(scope);
    if (KIN__UNLIKELY(scope->has))
        release_rare_locked(scope);
    kin__store_release(&handle->scope, NULL); /* pairs with whoever finds it gone: state is there */
    /* The name ends under the lock, or a late caller would take the next life for this one.
     * relaxed: compared under the lock */
    kin__store_relaxed(&scope->frame.name, handle->name + (UINT64_C(1) << KIN__FRAME_INDEX_BITS));
    struct kin__scope *outer = scope->outer;
    kin__store_relaxed(&scope->owner, NULL); /* relaxed: released by unlock */
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    kin__store_release(&task->inner, outer); /* pairs with the load in kin__cancel_inner_of */
    KIN__LAB_LEAVES(KIN__LAB_NURSERY, scope, 0);
    if (KIN__UNLIKELY(kin__scope_state(word) == KIN_NURSERY_CANCELLED))
        take_back(task, outer);
    if (KIN__UNLIKELY(scope->arena.chunks != NULL || scope->kept != NULL))
        kin__scope_empty(scope);
    kin__frame_free(&kin__worker_self()->blocks[KIN__FRAME_SCOPE], &scope->frame);
}

static int result_of(const struct kin__handle *handle, struct kin_outcome *out)
{
    if (out)
        *out = handle->outcome;
    return handle->outcome.status;
}

/* Why a handle has no scope: its open was refused, or, when it is all zero, never came. */
static int why_not_open(const struct kin__handle *handle)
{
    return handle->open_status ? handle->open_status : KIN_NOSCOPE;
}

int kin_nursery_join(struct kin_nursery *n, struct kin_outcome *out)
{
    struct kin__task *task = kin__task_self();
    if (!n)
        return -EINVAL;
    struct kin__handle *handle = kin__handle_of(n);
    if (KIN__UNLIKELY(!task))
        return kin__no_task();
    kin__entry_check(task);
    struct kin__scope *scope = kin__load_relaxed(&handle->scope); /* relaxed: the owner's own */
    if (KIN__UNLIKELY(!scope))
        return handle->is_joined ? KIN_STALE : why_not_open(handle);
    if (KIN__UNLIKELY(kin__load_relaxed(&scope->owner) != task)) /* relaxed: open since long */
        kin__misuse(task, "kin_nursery_join", "only the task that opened a nursery joins it",
                    "NSM-2");
    /* relaxed: the task's own field */
    if (KIN__UNLIKELY(kin__load_relaxed(&task->inner) != scope))
        kin__misuse(task, "kin_nursery_join", "inner nurseries are joined before outer ones",
                    "NSM-4");
    wait_for_children(task, scope);
    release(task, handle, scope);
    return result_of(handle, out);
}

void kin__nursery_wait(struct kin_nursery *n)
{
    struct kin__task *task = kin__task_self();
    wait_for_children(task, kin__load_relaxed(&kin__handle_of(n)->scope)); /* relaxed: its own */
}

void kin_nursery_leave_(struct kin_nursery *n)
{
    struct kin__handle *handle = kin__handle_of(n);
    if (KIN__UNLIKELY(kin__load_relaxed(&handle->scope) != NULL)) { /* relaxed: the owner's own */
        kin_nursery_cancel(n, KIN_CANCELLED);
        kin_ignore(kin_nursery_join(n, NULL));
    }
    if (KIN__UNLIKELY(handle->more != NULL))
        give_more(handle);
}

const struct kin__owner_ops kin__scope_owner_ops = {kin__child_done, kin__unwind, kin__conclude,
                                                    kin__budget_op, kin__deadlock_report};

/* ---- the rest of the public face ---- */

void kin_nursery_close(struct kin_nursery *n)
{
    kin__entry_check_self();
    struct kin__scope *scope = n ? kin__scope_lock(kin__handle_of(n)) : NULL;
    if (!scope)
        return;
    scope->is_sealed = 1;
    if (KIN__UNLIKELY(scope->has & KIN__SCOPE_SLOTS))
        kin__slots_refuse_locked(scope); /* members too */
    (void)close_and_unlock(scope);
}

int kin_nursery_poll(struct kin_nursery *n, struct kin_outcome *out)
{
    struct kin__handle *handle = n ? kin__handle_of(n) : NULL;
    if (!handle)
        return -EINVAL;
    kin__entry_check_self();
    struct kin__scope *scope = kin__scope_lock(handle);
    if (!scope)
        return handle->is_joined ? result_of(handle, out) : why_not_open(handle);
    /* relaxed: under the lock */
    enum kin_nursery_state state = kin__scope_state(kin__load_relaxed(&scope->word));
    struct kin_outcome how;
    fill_outcome(scope, state, &how);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    if (state <= KIN_NURSERY_CANCELLING)
        return KIN_EMPTY;
    if (out)
        *out = how;
    return how.status;
}

enum kin_nursery_state kin_nursery_state(const struct kin_nursery *n)
{
    const struct kin__handle *handle = (const struct kin__handle *)(const void *)n;
    if (!n)
        return KIN_NURSERY_CLOSED;
    kin__entry_check_self();
    struct kin__scope *scope = kin__scope_lock(handle);
    if (!scope) /* all zero: it was never opened */
        return handle->state == KIN_NURSERY_OPEN ? KIN_NURSERY_CLOSED
                                                 : (enum kin_nursery_state)handle->state;
    /* relaxed: under the lock */
    enum kin_nursery_state state = kin__scope_state(kin__load_relaxed(&scope->word));
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return state;
}

size_t kin_nursery_errors(struct kin_nursery *n, struct kin_outcome *buf, size_t cap)
{
    const struct kin__handle *handle = n ? kin__handle_of(n) : NULL;
    if (!handle)
        return 0;
    kin__entry_check_self();
    struct kin__scope *scope = kin__scope_lock(handle); /* not joined yet: more may come */
    const struct kin__failure *errors = handle->more ? handle->more->errors : handle->errors;
    size_t kept = handle->errors_kept;
    for (size_t i = 0; buf && i < kept && i < cap; i++)
        buf[i] = (struct kin_outcome){(enum kin_severity)errors[i].severity, errors[i].status, 0,
                                      errors[i].task};
    if (scope)
        kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return kept;
}

size_t kin_nursery_errors_dropped(const struct kin_nursery *n)
{
    const struct kin__handle *handle = (const struct kin__handle *)(const void *)n;
    if (!handle)
        return 0;
    kin__entry_check_self();
    struct kin__scope *scope = kin__scope_lock(handle); /* as above */
    size_t dropped = handle->errors_dropped;
    if (scope)
        kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return dropped;
}

void *kin_nursery_alloc(struct kin_nursery *n, size_t size)
{
    kin__entry_check_self();
    struct kin__scope *scope = n ? kin__scope_lock(kin__handle_of(n)) : NULL;
    if (!scope)
        return NULL;
    /* relaxed: under the lock */
    bool is_over = kin__scope_state(kin__load_relaxed(&scope->word)) > KIN_NURSERY_CANCELLING;
    void *memory = is_over ? NULL : kin__arena_alloc(&scope->arena, size);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return memory;
}
