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
#include "task/cause.h"
#include "task/budget.h"
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
    struct kin__sched *sched = kin__scope_sched(scope);
    struct kin__task *owner = kin__load_relaxed(&scope->owner); /* relaxed: open since long */
    uint64_t ticket = scope->ticket;
    bool is_waiting = scope->is_waiting;
    uint64_t word = kin__load_relaxed(&scope->word); /* relaxed: under the lock */
    KIN__LAB_TOUCH(&scope->lock.word, KIN__LAB_GATHER); /* the owner waits for all ends */
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
    kin__store_relaxed(&scope->sched, sched); /* relaxed: a block of before may be looked at */
    scope->name = NULL;
    scope->reason = 0;
    scope->tasks_max = 0;
    scope->worst.severity = KIN_SEV_OK;
    scope->outer = owner ? kin__load_relaxed(&owner->inner) : NULL; /* relaxed: the task's own */
    scope->cleanups = owner ? kin__extra_cover(owner) : 0;
    kin__store_relaxed(&scope->depth, owner ? owner->masks : 0); /* alone: not shared yet */
}

static inline void init_handle(struct kin__handle *handle, struct kin__scope *scope,
                               const struct kin__task *owner)
{
    /* relaxed: ours until it is released */
    handle->name = scope ? kin__load_relaxed(&scope->frame.name) : 0;
    handle->owner = owner ? kin__task_id(owner) : 0;
    kin__store_release(&handle->scope, scope); /* pairs with the acquire in kin__scope_lock */
    handle->open_status = 0;
    handle->is_joined = 0;
    handle->state = KIN_NURSERY_OPEN;
    handle->errors_max = KIN__ERRORS_INLINE;
    handle->errors_kept = 0;
    handle->errors_dropped = 0;
    handle->more = NULL;
}

bool kin__more_keep(struct kin__task *owner, struct kin__more *more)
{
    struct kin__extra *extra = kin__extra_need(owner);
    if (!extra)
        return false;
    more->words = NULL;
    more->next = extra->kept;
    more->link = &extra->kept;
    if (more->next)
        more->next->link = &more->next;
    extra->kept = more;
    return true;
}

void kin__more_free(struct kin__more *more)
{
    *more->link = more->next;
    if (more->next)
        more->next->link = more->link;
    kin__words_free(more->words);
    kin__free(more);
}

/* Room for more failures than the handle holds, at the expense of payer, NULL: of nobody. 0,
 * -ENOMEM or KIN_BUDGET. A block that the same handle had in an earlier life goes, if it is among
 * the latest. */
static __attribute__((noinline)) int take_more(struct kin__handle *handle, struct kin__task *owner,
                                               struct kin__task *payer, unsigned errors_max)
{
    struct kin__more *more = NULL;
    unsigned looks = 0;
    int rc = -ENOMEM;
    if (owner && errors_max <= UINT32_MAX / sizeof(more->errors[0]))
        more = kin__alloc(payer, sizeof(*more) + errors_max * sizeof(more->errors[0]), &rc);
    if (!more)
        return rc;
    more->handle = handle;
    if (!kin__more_keep(owner, more)) {
        kin__free(more);
        return -ENOMEM;
    }
    struct kin__more *old = more->next;
    while (old && old->handle != handle) /* ends: after a few */
        old = ++looks < MORE_LOOKS ? old->next : NULL;
    if (old)
        kin__more_free(old);
    handle->more = more;
    return 0;
}

/* The room of a handle that goes out of scope, or is not opened after all. */
static __attribute__((noinline)) void give_more(struct kin__handle *handle)
{
    kin__more_free(handle->more);
    handle->more = NULL;
}

/* The join is over: room that was not needed goes at once. */
static __attribute__((noinline)) void shrink_more(struct kin__handle *handle)
{
    if (handle->errors_kept > KIN__ERRORS_INLINE || handle->more->words)
        return;
    memcpy(handle->errors, handle->more->errors, handle->errors_kept * sizeof(handle->errors[0]));
    give_more(handle);
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
    int rc = errors_max > KIN__ERRORS_INLINE ? take_more(handle, owner, owner, errors_max) : 0;
    if (rc < 0)
        return rc;
    if (options) {
        scope->on_error = (uint8_t)options->on_error;
        scope->name = options->name;
        scope->tasks_max = options->tasks_max;
        if (options->ends_max)
            kin__ended_keep_locked(scope, options->ends_max); /* not shared yet: no lock */
    }
    if (options && options->cancel_grace) {
        scope->has |= KIN__SCOPE_GRACE;
        scope->grace_ns = options->cancel_grace;
    }
    rc = kin__budget_open(scope, owner, options);
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
    return KIN__SIZED(options, "kin_nursery_open", "NURSERY_OPTIONS") &&
           (unsigned)options->on_error <= KIN_COLLECT &&
           (unsigned)options->recharge <= KIN_RECHARGE_MANUAL &&
           (unsigned)options->on_exhausted <= KIN_EXHAUSTED_FAIL && options->cancel_grace >= 0;
}

static inline __attribute__((always_inline)) int
open_scope(struct kin__frame *frame, struct kin__handle *handle, struct kin__sched *sched,
           struct kin__task *owner, bool is_rare, const struct kin_nursery_options *options)
{
    struct kin__scope *scope = KIN__CONTAINER_OF(frame, struct kin__scope, frame);
    init_handle(handle, scope, owner);
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
    init_handle(handle, NULL, NULL);
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
    if (KIN__UNLIKELY(--task->slice == 0)) { /* kin__op_turn, after which */
        (void)kin__op_slow(task, KIN__COST_TURN, 0);
        worker = kin__worker_self(); /* this task may go on elsewhere */
    }
    bool is_rare = options || (task->flags & (KIN__TASK_METERED | KIN__TASK_DEADLINE));
    struct kin__frame *frame = kin__frame_alloc(&worker->blocks[KIN__FRAME_SCOPE]);
    int rc = KIN__LIKELY(frame != NULL)
                 ? open_scope(frame, handle, worker->sched, task, is_rare, options)
                 : -ENOMEM;
    if (KIN__UNLIKELY(rc < 0))
        return refuse_open(handle, rc);
    KIN__CONTAINER_OF(frame, struct kin__scope, frame)->site = __builtin_return_address(0);
    if (KIN__UNLIKELY(kin__word_requests(task))) /* born cancelled */
        kin__cancel_inherit(KIN__CONTAINER_OF(frame, struct kin__scope, frame));
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

/* Waits until every child is over; at the deadline those that are left are cancelled. */
INLINE void wait_for_children(struct kin__task *task, struct kin__scope *scope, kin_time deadline)
{
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    bool is_hard = kin__worker_self()->sched->hard.park;
    if (close_and_unlock(scope))
        return;
    deadline = kin__deadline_of(task, deadline);
    if (KIN__UNLIKELY(deadline != KIN_NEVER))
        kin__deadline_arm(scope, deadline);
    if (!is_hard && run_children_here(task, scope))
        return;
    while (kin__wait(&kin__join_waitable, scope, NULL, KIN__WAIT_DEAF) < 0) {
        /* ends: only what cannot be masked wakes such a wait early, once for each nursery */
    }
}

static inline void fill_outcome(const struct kin__scope *scope, enum kin_nursery_state state,
                                struct kin__failure *how)
{
    *how = scope->worst;
    if (how->severity == KIN_SEV_OK) {
        *how = (struct kin__failure){0, 0, KIN_SEV_OK};
        if (state == KIN_NURSERY_CANCELLED) {
            how->severity = KIN_SEV_CANCELLED;
            how->status = kin__cancel_status(scope);
        }
    }
}

/* One of the owner's nurseries was cancelled and is over: does another one keep it asked? First
 * take the request back, then look: a canceller of an outer one comes before or after, never unseen
 * in between. */
static __attribute__((noinline)) void take_back(struct kin__task *task,
                                                const struct kin__scope *scope)
{
    const struct kin__failure *how = &scope->handle->outcome;
    /* what the branches of a combinator came to is for its caller to say */
    bool is_own = (how->severity != KIN_SEV_CANCELLED || !scope->is_inherited) &&
                  !(scope->has & KIN__SCOPE_COUNTS);
    kin__cause_joined(task, is_own ? how->status : 0);
    bool was_forced = kin__word_unrequest(task, KIN__SCOPE | KIN__FORCE) & KIN__FORCE;
    uint64_t again = 0;
    kin__fence_after_rmw(); /* fence: the request before the states; mirror: a canceller's RMW */
    const struct kin__scope *outer = scope->outer;
    for (; outer && !(again && !was_forced); outer = outer->outer) {
        /* pairs with the release in kin__scope_move_locked */
        uint64_t word = kin__load_acquire(&outer->word);
        if (kin__scope_is_cancelled(word))
            again |= KIN__SCOPE | (word & KIN__OVERDUE ? KIN__FORCE : 0);
    }
    if (again)
        (void)kin__word_request(task, again);
}

/* What the children said who failed stays with the handle, and the owner says the same if that is
 * what it ends with. */
static void keep_words(struct kin__task *task, struct kin__scope *scope)
{
    struct kin__handle *handle = scope->handle;
    struct kin__words *words = scope->words;
    scope->words = NULL;
    if (!(task->flags & KIN__TASK_FAILED))
        kin__words_say(task, handle->outcome.status,
                       kin__words_find(words, handle->outcome.task));
    uint32_t kept = handle->errors_kept;
    /* nobody pays for words: there was a spawn for each of these few */
    if (!handle->more && take_more(handle, task, NULL, kept) == 0)
        memcpy(handle->more->errors, handle->errors, kept * sizeof(handle->errors[0]));
    if (handle->more)
        handle->more->words = words;
    else
        kin__words_free(words); /* no memory: the failures are there, without words */
}

/* The rest of release, for a nursery with a failure or a cancellation. The scope is over, and
 * nobody else comes to it any more. */
static __attribute__((noinline)) void release_failed(struct kin__task *task,
                                                     struct kin__scope *scope)
{
    if (scope->handle->state == KIN_NURSERY_CANCELLED)
        take_back(task, scope);
    if (scope->words)
        keep_words(task, scope);
}

/* Gives back the memory of a scope that is over: it is empty again, for its next life. */
static __attribute__((noinline)) void empty_scope(struct kin__scope *scope)
{
    while (scope->billed) { /* ends: one fewer each time */
        struct kin__billed *billed = scope->billed;
        scope->billed = billed->next;
        kin__free(billed);
    }
    kin__arena_fini(&scope->arena);
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
INLINE void release(struct kin__task *task, struct kin__handle *handle, struct kin__scope *scope)
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
    if (KIN__UNLIKELY(handle->outcome.severity != KIN_SEV_OK))
        release_failed(task, scope);
    if (KIN__UNLIKELY(handle->more != NULL))
        shrink_more(handle);
    if (KIN__UNLIKELY(scope->arena.chunks != NULL || scope->billed != NULL))
        empty_scope(scope);
    kin__frame_free_as(&kin__worker_self()->blocks[KIN__FRAME_SCOPE], &scope->frame,
                       KIN__FRAME_SCOPE);
}

static int result_of(const struct kin__handle *handle, struct kin_outcome *out)
{
    if (KIN__UNLIKELY(out != NULL))
        kin__outcome_fill(out, &handle->outcome, handle->more ? handle->more->words : NULL);
    return handle->outcome.status;
}

/* Why a handle has no scope: its open was refused, or, when it is all zero, never came. */
static int why_not_open(const struct kin__handle *handle)
{
    return handle->open_status ? handle->open_status : KIN_NOSCOPE;
}

/* The scope of a handle that the running task is about to join. */
static __attribute__((noinline)) _Noreturn void refuse_join(struct kin__task *task,
                                                            struct kin__scope *scope,
                                                            const char *call)
{
    if (kin__load_relaxed(&scope->owner) != task) /* relaxed: open since long */
        kin__misuse(task, call, "only the task that opened a nursery joins it", "NSM-2");
    kin__misuse(task, call, "inner nurseries are joined before outer ones", "NSM-4");
}

INLINE int join(struct kin_nursery *n, kin_time deadline, struct kin_outcome *out, const char *call)
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
    /* relaxed: open since long; and the task's own field */
    if (KIN__UNLIKELY(kin__load_relaxed(&scope->owner) != task ||
                      kin__load_relaxed(&task->inner) != scope)) /* relaxed: as above */
        refuse_join(task, scope, call);
    wait_for_children(task, scope, deadline);
    release(task, handle, scope);
    return result_of(handle, out);
}

int kin__nursery_join(struct kin_nursery *n, kin_time deadline, struct kin_outcome *out,
                      const char *call)
{
    return join(n, deadline, out, call);
}

int kin_nursery_join(struct kin_nursery *n, struct kin_outcome *out)
{
    return join(n, KIN_NEVER, out, "kin_nursery_join");
}

void kin__nursery_wait(struct kin_nursery *n)
{
    struct kin__task *task = kin__task_self();
    /* relaxed: its own */
    wait_for_children(task, kin__load_relaxed(&kin__handle_of(n)->scope), KIN_NEVER);
}

void kin__handle_empty(struct kin__handle *handle)
{
    if (KIN__UNLIKELY(handle->more != NULL))
        give_more(handle);
}

const struct kin__owner_ops kin__scope_owner_ops = {kin__child_done, kin__unwind, kin__conclude,
                                                    kin__cancel_cause, kin__forgot,
                                                    kin__budget_op, kin__budget_bill,
                                                    kin__deadlock_report};

/* ---- the rest of the public face ---- */

void kin_nursery_close(struct kin_nursery *n)
{
    kin__entry_turn_self();
    struct kin__scope *scope = n ? kin__scope_lock(kin__handle_of(n)) : NULL;
    if (!scope)
        return;
    scope->is_sealed = 1;
    if (KIN__UNLIKELY(scope->has & KIN__SCOPE_SLOTS))
        kin__slots_refuse_locked(scope); /* members too */
    (void)close_and_unlock(scope);
}

/* What children ended with is their owner's to know [SCHED:15.2.2]. The handle is open or was. */
static bool is_owners(const struct kin__handle *handle)
{
    const struct kin__task *task = kin__task_self();
    return task && handle->owner == kin__task_id(task);
}

int kin_nursery_poll(struct kin_nursery *n, struct kin_outcome *out)
{
    struct kin__handle *handle = n ? kin__handle_of(n) : NULL;
    if (!handle)
        return -EINVAL;
    kin__entry_turn_self();
    struct kin__scope *scope = kin__scope_lock(handle);
    bool may = is_owners(handle);
    if (!scope && !handle->is_joined)
        return why_not_open(handle);
    if (!scope)
        return may ? result_of(handle, out) : -EPERM;
    /* relaxed: under the lock */
    enum kin_nursery_state state = kin__scope_state(kin__load_relaxed(&scope->word));
    struct kin__failure how;
    fill_outcome(scope, state, &how);
    if (may && out && state > KIN_NURSERY_CANCELLING)
        kin__outcome_fill(out, &how, scope->words);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    if (!may)
        return -EPERM;
    return state > KIN_NURSERY_CANCELLING ? how.status : KIN_EMPTY;
}

enum kin_nursery_state kin_nursery_state(const struct kin_nursery *n)
{
    const struct kin__handle *handle = (const struct kin__handle *)(const void *)n;
    if (!n)
        return KIN_NURSERY_CLOSED;
    kin__entry_turn_self();
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
    kin__entry_turn_self();
    struct kin__scope *scope = kin__scope_lock(handle); /* not joined yet: more may come */
    size_t kept = is_owners(handle) ? handle->errors_kept : 0;
    const struct kin__more *more = kept ? handle->more : NULL; /* goes with the owner */
    const struct kin__failure *errors = more ? more->errors : handle->errors;
    const struct kin__words *words = scope ? scope->words : more ? more->words : NULL;
    for (size_t i = 0; buf && i < kept && i < cap; i++)
        kin__outcome_fill(&buf[i], &errors[i], words);
    if (scope)
        kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return kept;
}

size_t kin_nursery_errors_dropped(const struct kin_nursery *n)
{
    const struct kin__handle *handle = (const struct kin__handle *)(const void *)n;
    if (!handle)
        return 0;
    kin__entry_turn_self();
    struct kin__scope *scope = kin__scope_lock(handle); /* as above */
    size_t dropped = is_owners(handle) ? handle->errors_dropped : 0;
    if (scope)
        kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return dropped;
}

/* Memory of a nursery is charged to whoever asks for it, until the nursery is over; a task that has
 * no limit takes it from the arena. */
static void *alloc_locked(struct kin__scope *scope, struct kin__task *task, size_t size)
{
    int rc;
    task = kin__bill_client(task);
    if (!task || !(task->flags & KIN__TASK_METERED))
        return kin__arena_alloc(&scope->arena, size);
    struct kin__billed *billed =
        size <= PTRDIFF_MAX / 2 ? kin__alloc(task, sizeof(*billed) + size, &rc) : NULL;
    if (!billed)
        return NULL;
    billed->next = scope->billed;
    scope->billed = billed;
    return billed + 1;
}

void *kin_nursery_alloc(struct kin_nursery *n, size_t size)
{
    struct kin__task *task = kin__task_self();
    if (task) {
        kin__entry_check(task);
        if (kin__op(task, 0, 0) == KIN_BUDGET) /* as in kin_alloc */
            return NULL;
    }
    struct kin__scope *scope = n ? kin__scope_lock(kin__handle_of(n)) : NULL;
    if (!scope)
        return NULL;
    /* relaxed: under the lock */
    bool is_over = kin__scope_state(kin__load_relaxed(&scope->word)) > KIN_NURSERY_CANCELLING;
    void *memory = is_over ? NULL : alloc_locked(scope, task, size);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return memory;
}
