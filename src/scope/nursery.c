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
#include "task/word.h"

#include <errno.h>
#include <string.h>

/* The three spawns are one function with different constants. */
#define INLINE static inline __attribute__((always_inline))

#define MORE_LOOKS 64u /* how many blocks an open looks through for its handle's last one */

static struct kin__handle *handle_of(struct kin_nursery *n)
{
    return (struct kin__handle *)(void *)n;
}

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
static __attribute__((noinline)) void end_and_unlock(struct kin__scope *scope)
{
    struct kin__sched *sched = scope->sched;
    struct kin__task *owner = kin__load_relaxed(&scope->owner); /* relaxed: open since long */
    uint64_t ticket = scope->ticket;
    bool wakes = scope->is_waiting;
    uint64_t word = kin__load_relaxed(&scope->word); /* relaxed: under the lock */
    kin__scope_move_locked(scope, kin__scope_state(word) == KIN_NURSERY_CANCELLING
                                      ? KIN_NURSERY_CANCELLED
                                      : KIN_NURSERY_CLOSED);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY); /* the last touch of the scope */
    if (wakes)
        (void)kin__wake_task(owner, ticket, 0, 0);
    else if (!owner)
        kin__sched_stop(sched);
}

static inline void drop_and_unlock(struct kin__scope *scope)
{
    uint64_t word = kin__load_relaxed(&scope->word) - KIN__LIVE_ONE; /* relaxed: under the lock */
    kin__store_release(&scope->word, word); /* pairs as in kin__scope_move_locked */
    if (KIN__UNLIKELY(kin__scope_live(word) == 0))
        end_and_unlock(scope);
    else
        kin__lock_give(&scope->lock, KIN__RANK_NURSERY); /* maybe the last touch of the scope */
}

void kin__scope_drop_and_unlock(struct kin__scope *scope)
{
    drop_and_unlock(scope);
}

/* ---- opening ---- */

static inline void init_scope(struct kin__scope *scope, struct kin__sched *sched,
                              struct kin__task *owner, const struct kin_nursery_options *options)
{
    scope->is_sealed = 0;
    scope->is_waiting = 0;
    scope->on_error = (uint8_t)(options ? options->on_error : KIN_FAIL_FAST);
    kin__store_relaxed(&scope->word, KIN__LIVE_ONE | KIN_NURSERY_OPEN); /* alone: not shared yet */
    scope->ticket = 0;
    kin__list_init(&scope->children);
    scope->sched = sched;
    scope->name = options ? options->name : NULL;
    scope->reason = 0;
    scope->tasks_max = options ? options->tasks_max : 0;
    scope->worst.severity = KIN_SEV_OK;
    scope->outer = owner ? kin__load_relaxed(&owner->inner) : NULL; /* relaxed: the task's own */
}

static inline void init_handle(struct kin__handle *handle, struct kin__scope *scope,
                               unsigned errors_max)
{
    /* relaxed: ours until it is released */
    handle->name = scope ? kin__load_relaxed(&scope->frame.name) : 0;
    kin__store_release(&handle->scope, scope); /* pairs with the acquire in kin__scope_lock */
    handle->open_status = 0;
    handle->is_joined = 0;
    handle->state = KIN_NURSERY_OPEN;
    handle->errors_max = errors_max ? errors_max : KIN__ERRORS_INLINE;
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
    more->next = keeper->kept;
    more->link = &keeper->kept;
    if (more->next)
        more->next->link = &more->next;
    keeper->kept = more;
    kin__lock_give(&keeper->lock, KIN__RANK_NURSERY);
    kin__heap_free(old);
    return true;
}

/* The room of a handle that goes out of scope; its owner is the running task. */
static __attribute__((noinline)) void give_more(struct kin__handle *handle)
{
    struct kin__scope *keeper = kin__load_relaxed(&kin__task_self()->scope); /* relaxed: constant */
    kin__lock_take(&keeper->lock, KIN__RANK_NURSERY);
    unlink_more_locked(handle->more);
    kin__lock_give(&keeper->lock, KIN__RANK_NURSERY);
    kin__heap_free(handle->more);
    handle->more = NULL;
}

static inline int open_scope(struct kin__frame *frame, struct kin__handle *handle,
                             struct kin__sched *sched, struct kin__task *owner,
                             const struct kin_nursery_options *options)
{
    unsigned errors_max = options ? options->errors_max : 0;
    struct kin__scope *scope = KIN__CONTAINER_OF(frame, struct kin__scope, frame);
    init_handle(handle, scope, errors_max);
    if (KIN__UNLIKELY(errors_max > KIN__ERRORS_INLINE) && !take_more(handle, owner, errors_max)) {
        kin__frame_give_scope(frame);
        return -ENOMEM;
    }
    /* A canceller may still come to this block from its last life: it sees no owner and leaves. */
    init_scope(scope, sched, owner, options);
    scope->handle = handle;
    kin__store_release(&scope->owner, owner); /* pairs with the acquire in begin_inner_of */
    if (owner) /* pairs with the load in begin_inner_of; see the head of cancel.c */
        kin__store_release(&owner->inner, scope);
    return 0;
}

int kin__scope_open(struct kin__handle *handle, struct kin__sched *sched, struct kin__task *owner,
                    const struct kin_nursery_options *options)
{
    struct kin__frame *frame = kin__frame_take_scope();
    return frame ? open_scope(frame, handle, sched, owner, options) : -ENOMEM;
}

/* An open that was refused: spawn answers KIN_NOSCOPE, join the reason. */
static __attribute__((noinline)) int refuse_open(struct kin__handle *handle, int rc)
{
    init_handle(handle, NULL, 0);
    handle->state = KIN_NURSERY_CLOSED;
    handle->open_status = rc;
    return rc;
}

int kin_nursery_open(struct kin_nursery *n, const struct kin_nursery_options *options)
{
    struct kin__worker *worker = kin__worker_self();
    struct kin__handle *handle = handle_of(n);
    if (KIN__UNLIKELY(!n))
        return -EINVAL;
    if (KIN__UNLIKELY(!worker || !kin__worker_current(worker)))
        return refuse_open(handle, KIN_NOTASK);
    if (KIN__UNLIKELY(options && (options->size != sizeof(*options) ||
                                  (unsigned)options->on_error > KIN_COLLECT)))
        return refuse_open(handle, -EINVAL);
    struct kin__task *task = kin__worker_current(worker);
    kin__entry_check(task);
    struct kin__frame *frame = kin__frame_alloc(&worker->scopes);
    int rc = KIN__LIKELY(frame != NULL) ? open_scope(frame, handle, worker->sched, task, options)
                                        : -ENOMEM;
    if (KIN__UNLIKELY(rc < 0))
        return refuse_open(handle, rc);
    if (KIN__UNLIKELY(kin__word_requests(task))) { /* born cancelled */
        int reason = kin__cancel_inherited(KIN__CONTAINER_OF(frame, struct kin__scope, frame));
        if (reason)
            kin_nursery_cancel(n, reason);
    }
    return 0;
}

/* ---- spawning ---- */

/* The long way of admit_locked. */
static __attribute__((noinline)) int admit_slow_locked(struct kin__scope *scope,
                                                       const struct kin__task *spawner,
                                                       struct kin__scope **list)
{
    int reason = kin__cancel_inherited(scope);
    if (reason)
        (void)kin__cancel_begin_locked(scope, reason, list);
    uint64_t word = kin__load_relaxed(&scope->word); /* relaxed: under the lock */
    enum kin_nursery_state state = kin__scope_state(word);
    bool is_member = spawner && kin__load_relaxed(&spawner->scope) == scope; /* relaxed: constant */
    if (state != KIN_NURSERY_OPEN &&
        !(state == KIN_NURSERY_CLOSING && is_member && !scope->is_sealed))
        return KIN_NOSCOPE;
    uint64_t children = kin__scope_live(word) - (state == KIN_NURSERY_OPEN ? 1 : 0);
    return scope->tasks_max && children >= scope->tasks_max ? KIN_FULL : 0;
}

/* Whether the nursery takes one more child from this spawner: 0, KIN_NOSCOPE or KIN_FULL. A
 * cancellation that is on its way down from outside begins here. */
static inline int admit_locked(struct kin__scope *scope, const struct kin__task *spawner,
                               struct kin__scope **list)
{
    /* fence: the owner's inner before its word; mirror: a canceller's RMW */
    kin__fence_after_rmw();
    struct kin__task *owner = kin__load_relaxed(&scope->owner); /* relaxed: constant while open */
    uint64_t word = kin__load_relaxed(&scope->word);            /* relaxed: under the lock */
    if (KIN__LIKELY(kin__scope_state(word) == KIN_NURSERY_OPEN && !scope->tasks_max && owner &&
                    !kin__word_requests(owner)))
        return 0;
    return admit_slow_locked(scope, spawner, list);
}

static inline void init_task(struct kin__task *task, struct kin__sched *sched, kin_task_fn *fn,
                             void *arg, const void *site)
{
    kin__word_init(task);
    uintptr_t ahead = (uintptr_t)task->ctx.sp; /* a frame needed soon: see retire in worker.c */
    __builtin_prefetch((void *)ahead, 1);
    __builtin_prefetch((void *)(ahead + 64), 1);
    task->ctx.sp = NULL;
    task->stack = NULL;
    task->fn = fn;
    task->arg = arg;
    task->sched = sched;
    task->site = site;
    kin__store_relaxed(&task->inner, NULL); /* alone: not shared yet */
    task->status = 0;
    task->ops = 0;
    task->stack_class = sched ? (uint8_t)sched->stack_class : 0;
    task->flags = 0;
#ifdef KIN_DEBUG
    kin__store_relaxed(&task->shadow, KIN__INIT); /* alone: not shared yet */
#endif
}

struct kin__task *kin__task_make(struct kin__sched *sched, kin_task_fn *fn, void *arg,
                                 const void *site)
{
    struct kin__frame *frame = kin__frame_take_task();
    if (!frame)
        return NULL;
    init_task(kin__task_of_frame(frame), sched, fn, arg, site);
    return kin__task_of_frame(frame);
}

void kin__task_unmake(struct kin__task *task)
{
    kin__word_fini(task);
    kin__frame_give_task(&task->frame);
}

/* Links a task into the scope that the handle names, or refuses: no child without one [NCG-4]. */
INLINE int link_child(struct kin__handle *handle, struct kin__task *task,
                      const struct kin__task *spawner, const void *arg, size_t arg_size,
                             bool has_class)
{
    struct kin__scope *list = NULL;
    struct kin__scope *scope = kin__scope_lock(handle);
    if (KIN__UNLIKELY(!scope))
        return KIN_NOSCOPE;
    int rc = admit_locked(scope, spawner, &list);
    if (KIN__UNLIKELY(task->sched != scope->sched)) { /* of another runtime than the spawner */
        task->sched = scope->sched;
        if (!has_class)
            task->stack_class = (uint8_t)scope->sched->stack_class;
    }
    if (KIN__UNLIKELY(arg_size) && rc == 0) {
        void *copy = kin__arena_alloc(&scope->arena, arg_size);
        if (copy)
            task->arg = memcpy(copy, arg, arg_size);
        else
            rc = -ENOMEM;
    }
    if (KIN__LIKELY(rc == 0)) {
        kin__store_relaxed(&task->scope, scope); /* relaxed: published by the run queue */
        struct kin__list *first = scope->children.next;
        task->sibling.prev = &scope->children;
        task->sibling.next = first;
        first->prev = &task->sibling;
        scope->children.next = &task->sibling;
        /* relaxed: under the lock; the store pairs as in kin__scope_move_locked */
        kin__store_release(&scope->word, kin__load_relaxed(&scope->word) + KIN__LIVE_ONE);
    }
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    if (KIN__UNLIKELY(list != NULL))
        kin__cancel_walk(list);
    return rc;
}

/* What options ask of a task that is made; -EINVAL when they are nonsense. */
static int apply(struct kin__task *task, const struct kin_spawn_options *options)
{
    if (options->size != sizeof(*options))
        return -EINVAL;
    if (options->stack_max_bytes) {
        unsigned class_ = kin__stack_class(options->stack_max_bytes);
        if (class_ >= KIN__STACK_CLASSES)
            return -EINVAL;
        task->stack_class = (uint8_t)class_;
    }
    if (options->name) {
        task->name = options->name;
        task->flags |= KIN__TASK_NAMED;
    }
    return 0;
}

INLINE int spawn(struct kin_nursery *n, const struct kin_spawn_options *options,
                 kin_task_fn *fn, const void *arg, size_t arg_size,
                        struct kin_task_ref *out, const void *site)
{
    if (KIN__UNLIKELY(!n || !fn || (arg_size && !arg)))
        return -EINVAL;
    struct kin__handle *handle = handle_of(n);
    struct kin__worker *worker = kin__worker_self();
    /* Outside of a worker it is known under the scope's lock only: it may end with its last
     * task. */
    struct kin__sched *sched = KIN__LIKELY(worker != NULL) ? worker->sched : NULL;
    if (KIN__LIKELY(worker && kin__worker_current(worker)))
        kin__entry_check(kin__worker_current(worker));
    struct kin__frame *frame = KIN__LIKELY(worker != NULL) ? kin__frame_alloc(&worker->frames)
                                                           : kin__frame_take_task();
    if (KIN__UNLIKELY(!frame))
        return -ENOMEM;
    struct kin__task *task = kin__task_of_frame(frame);
    init_task(task, sched, fn, (void *)(uintptr_t)arg, site);
    uint64_t id = kin__task_id(task);
    int rc = options ? apply(task, options) : 0;
    if (KIN__LIKELY(rc == 0))
        rc = link_child(handle, task, worker ? kin__worker_current(worker) : NULL, arg, arg_size,
                        options && options->stack_max_bytes);
    if (KIN__UNLIKELY(rc < 0)) {
        kin__task_unmake(task);
        return rc;
    }
    if (out)
        out->id = id;
    kin__schedule_new(worker, task);
    return 0;
}

int kin_spawn(struct kin_nursery *n, kin_task_fn *fn, void *arg)
{
    return spawn(n, NULL, fn, arg, 0, NULL, __builtin_return_address(0));
}

int kin_spawn_copy(struct kin_nursery *n, kin_task_fn *fn, const void *arg, size_t arg_size)
{
    return spawn(n, NULL, fn, arg, arg_size, NULL, __builtin_return_address(0));
}

int kin_spawn_with(struct kin_nursery *n, const struct kin_spawn_options *options, kin_task_fn *fn,
                   const void *arg, size_t arg_size, struct kin_task_ref *out)
{
    return spawn(n, options, fn, arg, arg_size, out, __builtin_return_address(0));
}

/* ---- the end of a child ---- */

static struct kin_outcome outcome_of(const struct kin__task *task)
{
    struct kin_outcome how = {KIN_SEV_OK, 0, 0, kin__task_id(task)};
    if (task->flags & KIN__TASK_PANICKED)
        how.severity = KIN_SEV_PANIC;
    else if (task->status >= 0)
        how.value = task->status;
    else if (task->status == KIN_CANCELLED && (kin__word_requests(task) & KIN__CANCEL))
        how.severity = KIN_SEV_CANCELLED;
    else
        how.severity = KIN_SEV_ERROR;
    how.status = how.severity == KIN_SEV_OK ? 0 : task->status;
    return how;
}

/* Keeps a failure: in order of time, the first panic or else the first error as the worst
 * [NSM:8.1]. */
static void keep_locked(struct kin__scope *scope, const struct kin_outcome *how)
{
    struct kin__handle *handle = scope->handle;
    struct kin__failure *errors = handle->more ? handle->more->errors : handle->errors;
    if (handle->errors_kept < handle->errors_max)
        errors[handle->errors_kept++] =
            (struct kin__failure){how->task, how->status, (int32_t)how->severity};
    else
        handle->errors_dropped++;
    if (how->severity > scope->worst.severity)
        scope->worst = *how;
}

/* What an end with a status means to the nursery. */
static __attribute__((noinline)) void judge_locked(struct kin__scope *scope,
                                                   const struct kin__task *task,
                                                   struct kin__scope **list)
{
    struct kin_outcome how = outcome_of(task);
    if (!kin__load_relaxed(&scope->owner)) { /* relaxed: constant while a child lives */
        scope->worst = how; /* the first task of a runtime: its end is the result */
    } else if (how.severity == KIN_SEV_ERROR || how.severity == KIN_SEV_PANIC) {
        keep_locked(scope, &how);
        if (scope->on_error == KIN_FAIL_FAST) /* [NCG-2] [NSM:4.1] */
            (void)kin__cancel_begin_locked(scope, how.status, list);
    }
}

/* A child is over: it is counted off, and what it ended with is its nursery's alone [NSM:3.2]
 * [SCHED:15.2.2]. */
static void child_done(struct kin__task *task)
{
    struct kin__scope *scope = kin__load_relaxed(&task->scope); /* relaxed: constant */
    struct kin__scope *list = NULL;
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    struct kin__list *next = task->sibling.next, *prev = task->sibling.prev;
    next->prev = prev;
    prev->next = next;
    /* relaxed: under the lock; over, for dumps and cancels */
    kin__store_relaxed(&task->scope, NULL);
    if (KIN__UNLIKELY(task->status != 0))
        judge_locked(scope, task, &list);
    drop_and_unlock(scope);
    if (KIN__UNLIKELY(list != NULL))
        kin__cancel_walk(list); /* holds a token of its own in every scope on the list */
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

static const struct kin__waitable join_waitable = {"nursery", join_try, join_publish,
                                                   join_unpublish};

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
    drop_and_unlock(scope);
    return kin__scope_live(word) == 1;
}

/* Waits until every child is over. */
static inline void wait_for_children(struct kin__task *task, struct kin__scope *scope)
{
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    if (close_and_unlock(scope) || (!task->sched->hard.park && run_children_here(task, scope)))
        return;
    while (kin__wait(&join_waitable, scope, NULL, KIN__WAIT_SHIELDED) < 0) {
        /* ends: only a kill ends such a wait early, and children of a killed task end too */
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
    kin__word_unrequest(task, KIN__SCOPE);
    kin__fence_after_rmw(); /* fence: the request before the states; mirror: a canceller's RMW */
    for (; outer; outer = outer->outer) {
        /* pairs with the release in kin__scope_move_locked */
        if (kin__scope_is_cancelled(kin__load_acquire(&outer->word)))
            (void)kin__word_request(task, KIN__SCOPE);
    }
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
    kin__store_release(&handle->scope, NULL); /* pairs with whoever finds it gone: state is there */
    /* The name ends under the lock, or a late caller would take the next life for this one.
     * relaxed: compared under the lock */
    kin__store_relaxed(&scope->frame.name, handle->name + (UINT64_C(1) << KIN__FRAME_INDEX_BITS));
    struct kin__scope *outer = scope->outer;
    kin__store_relaxed(&scope->owner, NULL); /* relaxed: released by unlock */
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    kin__store_release(&task->inner, outer); /* pairs with the load in begin_inner_of */
    if (KIN__UNLIKELY(kin__scope_state(word) == KIN_NURSERY_CANCELLED))
        take_back(task, outer);
    if (KIN__UNLIKELY(scope->arena.chunks != NULL || scope->kept != NULL))
        kin__scope_empty(scope);
    kin__frame_free(&kin__worker_self()->scopes, &scope->frame);
}

static int result_of(const struct kin__handle *handle, struct kin_outcome *out)
{
    if (out)
        *out = handle->outcome;
    return handle->outcome.status;
}

int kin_nursery_join(struct kin_nursery *n, struct kin_outcome *out)
{
    struct kin__task *task = kin__task_self();
    if (!n)
        return -EINVAL;
    struct kin__handle *handle = handle_of(n);
    if (KIN__UNLIKELY(!task))
        return KIN_NOTASK;
    kin__entry_check(task);
    struct kin__scope *scope = kin__load_relaxed(&handle->scope); /* relaxed: the owner's own */
    if (KIN__UNLIKELY(!scope))
        return handle->is_joined ? KIN_STALE : handle->open_status;
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

void kin_nursery_leave_(struct kin_nursery *n)
{
    struct kin__handle *handle = handle_of(n);
    if (KIN__UNLIKELY(kin__load_relaxed(&handle->scope) != NULL)) { /* relaxed: the owner's own */
        kin_nursery_cancel(n, KIN_CANCELLED);
        kin_ignore(kin_nursery_join(n, NULL));
    }
    if (KIN__UNLIKELY(handle->more != NULL))
        give_more(handle);
}

/* Cancels and joins whatever the task has open, innermost first [NSM-4] [NSM:6.3]. */
static void unwind(struct kin__task *task)
{
    struct kin__scope *scope;
    /* relaxed: the task's own field */
    while ((scope = kin__load_relaxed(&task->inner))) { /* ends: each join makes one fewer */
        /* relaxed: the owner's own; another value means that the handle was opened twice */
        KIN__CHECK(kin__load_relaxed(&scope->handle->scope) == scope, "NSM-4: opened twice");
        kin_nursery_leave_((struct kin_nursery *)(void *)scope->handle);
    }
}

const struct kin__owner_ops kin__scope_owner_ops = {child_done, unwind};

/* ---- the rest of the public face ---- */

void kin_nursery_close(struct kin_nursery *n)
{
    kin__entry_check_self();
    struct kin__scope *scope = n ? kin__scope_lock(handle_of(n)) : NULL;
    if (!scope)
        return;
    scope->is_sealed = 1;
    (void)close_and_unlock(scope);
}

int kin_nursery_poll(struct kin_nursery *n, struct kin_outcome *out)
{
    struct kin__handle *handle = n ? handle_of(n) : NULL;
    if (!handle)
        return -EINVAL;
    kin__entry_check_self();
    struct kin__scope *scope = kin__scope_lock(handle);
    if (!scope)
        return handle->is_joined ? result_of(handle, out) : handle->open_status;
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
    if (!scope)
        return (enum kin_nursery_state)handle->state;
    /* relaxed: under the lock */
    enum kin_nursery_state state = kin__scope_state(kin__load_relaxed(&scope->word));
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return state;
}

size_t kin_nursery_errors(struct kin_nursery *n, struct kin_outcome *buf, size_t cap)
{
    const struct kin__handle *handle = n ? handle_of(n) : NULL;
    if (!handle)
        return 0;
    const struct kin__failure *errors = handle->more ? handle->more->errors : handle->errors;
    for (size_t i = 0; i < handle->errors_kept && i < cap; i++)
        buf[i] = (struct kin_outcome){(enum kin_severity)errors[i].severity, errors[i].status, 0,
                                      errors[i].task};
    return handle->errors_kept;
}

size_t kin_nursery_errors_dropped(const struct kin_nursery *n)
{
    const struct kin__handle *handle = (const struct kin__handle *)(const void *)n;
    return handle ? handle->errors_dropped : 0;
}

void *kin_nursery_alloc(struct kin_nursery *n, size_t size)
{
    kin__entry_check_self();
    struct kin__scope *scope = n ? kin__scope_lock(handle_of(n)) : NULL;
    if (!scope)
        return NULL;
    /* relaxed: under the lock */
    bool is_over = kin__scope_state(kin__load_relaxed(&scope->word)) > KIN_NURSERY_CANCELLING;
    void *memory = is_over ? NULL : kin__arena_alloc(&scope->arena, size);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return memory;
}
