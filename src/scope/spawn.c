/* SPDX-License-Identifier: MIT */
/*
 * Spawning: who is admitted, and what a new task begins with.
 *
 * A frame is filled in first, without a lock; the nursery's lock is held only to decide and to
 * link. Whoever is refused leaves nothing behind.
 */
#include "scope/scope.h"

#include "park/park.h"
#include "sched/entry.h"
#include "scope/argument.h"
#include "scope/belongings.h"
#include "scope/budget.h"
#include "scope/capability.h"
#include "task/budget.h"
#include "task/cause.h"
#include "task/word.h"

#include <errno.h>
#include <string.h>

/* The three spawns are one function with different constants. */
#define INLINE static inline __attribute__((always_inline))

/* The nursery as a caller found it. The handle is looked at once: it may be gone as soon as the
 * join has returned, which does not wait for somebody who is about to be refused. */
struct place {
    struct kin__scope *scope;
    uint64_t name;
};

/* Who spawns; NULL: a thread that is no worker, and no task. */
struct caller {
    struct kin__worker *worker;
    struct kin__task *task;
};

static inline struct place place_of(struct kin_nursery *n)
{
    const struct kin__handle *handle = kin__handle_of(n);
    if (KIN__UNLIKELY(!handle))
        return (struct place){NULL, 0}; /* where nobody is admitted [N1001] */
    /* pairs with the release in init_handle and in release, for callers of other threads */
    return (struct place){kin__load_acquire(&handle->scope), handle->name};
}

/* Whether this spawner's children are taken at all, room or not [NSM:3.1] [B9]. */
static bool is_admitted_locked(struct kin__scope *scope, const struct kin__task *spawner)
{
    /* relaxed: under the lock */
    enum kin_nursery_state state = kin__scope_state(kin__load_relaxed(&scope->word));
    bool is_member = spawner && kin__load_relaxed(&spawner->scope) == scope; /* relaxed: constant */
    return state == KIN_NURSERY_OPEN ||
           (state == KIN_NURSERY_CLOSING && is_member && !scope->is_sealed);
}

/* Whether there is room under tasks_max when this many children have left. */
static bool has_room_locked(const struct kin__scope *scope, uint64_t leaving)
{
    uint64_t word = kin__load_relaxed(&scope->word); /* relaxed: under the lock */
    uint64_t taken = kin__scope_live(word) - (kin__scope_state(word) == KIN_NURSERY_OPEN ? 1 : 0);
    if (scope->has & KIN__SCOPE_SLOTS)
        taken += scope->promised;
    return scope->tasks_max == 0 || taken - leaving < scope->tasks_max;
}

/* The long way of admit_locked. */
static __attribute__((noinline)) int admit_slow_locked(struct kin__scope *scope,
                                                       const struct kin__task *spawner,
                                                       struct kin__scope **list)
{
    int reason = kin__cancel_inherited(scope);
    if (reason)
        (void)kin__cancel_inherit_locked(scope, reason, list);
    if (!is_admitted_locked(scope, spawner))
        return KIN_NOSCOPE;
    return has_room_locked(scope, 0) ? 0 : KIN_FULL;
}

/* Whether the nursery takes one more child from this spawner: 0, KIN_NOSCOPE or KIN_FULL. A
 * cancellation that is on its way down from outside begins here. */
static inline int admit_locked(struct kin__scope *scope, const struct kin__task *spawner,
                               struct kin__scope **list)
{
    /* fence: the owner's inner before its word; mirror: a canceller's RMW */
    kin__fence_after_rmw();
    struct kin__task *owner = kin__load_relaxed(&scope->owner); /* relaxed: constant while open */
    uint64_t word = kin__load_quiet(&scope->word);              /* relaxed: under the lock */
    if (KIN__LIKELY(kin__scope_state(word) == KIN_NURSERY_OPEN && !scope->tasks_max && owner &&
                    !kin__word_requests(owner)))
        return 0;
    kin__scope_changes(scope);
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
    task->site = site;
    kin__store_relaxed(&task->inner, NULL); /* alone: not shared yet */
    if (KIN__LIKELY(sched != NULL)) /* status, slice, runtime, flags, caps, ... in one move */
        memcpy((char *)task + offsetof(struct kin__task, status), &sched->birth,
               sizeof(sched->birth));
    else { /* link_child sees to the rest */
        task->runtime = 0;
        task->flags = 0;
    }
#ifdef KIN_DEBUG
    kin__store_relaxed(&task->shadow, KIN__INIT); /* alone: not shared yet */
#endif
}

/* One child more. */
static inline void link_locked(struct kin__scope *scope, struct kin__task *task)
{
    kin__store_relaxed(&task->scope, scope); /* relaxed: published by the run queue */
    struct kin__list *first = scope->children.next;
    task->sibling.prev = &scope->children;
    task->sibling.next = first;
    first->prev = &task->sibling;
    scope->children.next = &task->sibling;
    /* relaxed: under the lock; the store pairs as in kin__scope_move_locked */
    kin__store_release_quiet(&scope->word, kin__load_quiet(&scope->word) + KIN__LIVE_ONE);
}

struct kin__task *kin__task_make(struct kin__sched *sched, kin_task_fn *fn, void *arg,
                                 const void *site)
{
    struct kin__frame *frame = kin__block_take(KIN__FRAME_TASK);
    if (!frame)
        return NULL;
    init_task(kin__task_of_frame(frame), sched, fn, arg, site);
    return kin__task_of_frame(frame);
}

void kin__task_unmake(struct kin__task *task)
{
    if (task->flags & KIN__TASK_EXTRA)
        kin__extra_discard(task);
    kin__word_fini(task);
    kin__block_give(KIN__FRAME_TASK, &task->frame);
}

int kin__task_start_internal(struct kin__sched *sched, kin_task_fn *fn, void *arg, const char *name)
{
    struct kin__scope *root = sched->root;
    struct kin__task *task = kin__task_make(sched, fn, arg, __builtin_return_address(0));
    if (!task)
        return -ENOMEM;
    task->name = name;
    task->flags |= KIN__TASK_NAMED | KIN__TASK_INTERNAL;
    kin__lock_take(&root->lock, KIN__RANK_NURSERY);
    bool is_open = kin__scope_live(kin__load_relaxed(&root->word)) > 0; /* relaxed: locked */
    if (is_open)
        link_locked(root, task);
    kin__lock_give(&root->lock, KIN__RANK_NURSERY);
    if (!is_open) {
        kin__task_unmake(task);
        return KIN_NOSCOPE;
    }
    kin__schedule_new(kin__worker_self(), task);
    return 0;
}

/* The task was made by somebody outside of the runtime it will run in. */
static __attribute__((noinline)) void adopt(struct kin__task *task, const struct kin__sched *sched,
                                            const struct kin_spawn_options *options)
{
    uint16_t flags = task->flags;
    uint8_t class_ = task->stack_class;
    memcpy((char *)task + offsetof(struct kin__task, status), &sched->birth, sizeof(sched->birth));
    task->flags = flags;
    if (options && options->stack_max_bytes)
        task->stack_class = class_;
}

static void promise_locked(struct kin__scope *scope, uint64_t leaving, struct kin__wakes *wakes);

/* Links a task into the scope of a place, or refuses: no child without one [NCG-4]. has_promise is
 * NULL, or whether there is room under tasks_max for this one; false afterwards, whatever came. */
INLINE int link_child(const struct place *place, struct kin__task *task, struct caller caller,
                      const void *arg, size_t arg_size, const struct kin_spawn_options *options,
                      bool is_kept, bool *has_promise)
{
    struct kin__scope *list = NULL;
    struct kin__scope *scope = place->scope;
    struct kin__task *spawner = caller.task;
    struct kin__wakes wakes = {0};
    bool had_promise = has_promise && *has_promise;
    if (has_promise)
        *has_promise = false;
    if (KIN__UNLIKELY(!scope) || !kin__scope_lock_to(scope, place->name, KIN__LAB_ADD))
        return KIN_NOSCOPE;
    if (had_promise || arg_size || options || is_kept || scope->has)
        kin__scope_changes(scope);
    if (KIN__UNLIKELY(had_promise))
        scope->promised--;
    int rc = admit_locked(scope, spawner, &list);
    if (KIN__UNLIKELY(task->runtime != kin__scope_sched(scope)->number))
        adopt(task, kin__scope_sched(scope), options); /* another one than the spawner's */
    bool is_metered = (scope->has & KIN__SCOPE_METERED) || options ||
                      (KIN__LIKELY(spawner != NULL) ? (spawner->flags & KIN__TASK_METERED) != 0
                                                    : kin__thread_lacks() != 0);
    if (KIN__UNLIKELY(is_metered) && rc == 0)
        rc = kin__budget_admit_locked(scope, spawner, task, options);
    if (arg_size && rc == 0) { /* last: whoever is refused pays for no copy */
        rc = kin__argument_copy(task, spawner, caller.worker, arg, arg_size);
        if (KIN__UNLIKELY(rc < 0 && is_metered))
            kin__budget_dismiss_locked(scope, spawner, task);
    }
    if (KIN__LIKELY(rc == 0)) {
        if (is_kept && !(scope->has & KIN__SCOPE_KEEPS))
            kin__ended_keep_locked(scope, KIN__ENDS_MAX);
        link_locked(scope, task);
    } else if (had_promise) {
        promise_locked(scope, 0, &wakes);
    }
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    if (KIN__UNLIKELY(list != NULL))
        kin__cancel_walk(list);
    if (had_promise)
        kin__wakes_run(&wakes);
    return rc;
}

/* What options ask of a task that is made; -EINVAL when they are nonsense. */
static int apply(struct kin__task *task, const struct kin_spawn_options *options)
{
    static const uint16_t flags[] = {0, KIN__TASK_HIGH, KIN__TASK_LOW}; /* by enum kin_priority */
    if (!KIN__SIZED(options, "kin_spawn_with", "SPAWN_OPTIONS") ||
        (unsigned)options->priority > KIN_PRIORITY_LOW ||
        (options->caps & ~(KIN_CAP_ALL | KIN_CAP_NONE)))
        return -EINVAL;
    task->flags |= flags[options->priority];
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
    return options->cleanup && !kin__cleanup_plan(task, options->cleanup) ? -ENOMEM : 0;
}

/* What a child takes over from the task that spawns it, beside what its nursery decides. */
static __attribute__((noinline)) int inherit(struct kin__task *spawner, struct kin__task *child)
{
    return kin__local_inherit(spawner, child);
}

INLINE int spawn(const struct place *place, const struct kin_spawn_options *options,
                 kin_task_fn *fn, const void *arg, size_t arg_size, struct kin_task_ref *out,
                 const void *site, bool *has_promise)
{
    if (KIN__UNLIKELY(!fn || (arg_size && !arg)))
        return -EINVAL;
    struct kin__worker *worker = kin__worker_self();
    if (KIN__UNLIKELY(!worker) && kin__thread_is_core())
        return KIN_UNSUPPORTED; /* [SCHED:10.2.1] */
    struct kin__task *spawner = KIN__LIKELY(worker != NULL) ? kin__worker_current(worker) : NULL;
    /* Outside of a worker it is known under the scope's lock only: it may end with its last
     * task. */
    struct kin__sched *sched = KIN__LIKELY(worker != NULL) ? worker->sched : NULL;
    if (KIN__LIKELY(spawner != NULL)) {
        kin__entry_check(spawner);
        if (KIN__LIKELY(spawner->slice > 1)) /* one op; a spawn is no yield point */
            spawner->slice--;
    }
    struct kin__frame *frame = KIN__LIKELY(worker != NULL)
                                   ? kin__frame_alloc(&worker->blocks[KIN__FRAME_TASK])
                                   : kin__block_take(KIN__FRAME_TASK);
    if (KIN__UNLIKELY(!frame))
        return -ENOMEM;
    struct kin__task *task = kin__task_of_frame(frame);
    init_task(task, sched, fn, (void *)(uintptr_t)arg, site);
    uint64_t id = kin__task_id(task);
    int rc = options ? apply(task, options) : 0;
    if (out)
        task->flags |= KIN__TASK_KEPT;
    if (KIN__UNLIKELY(spawner && (spawner->flags & KIN__TASK_EXTRA)) && rc == 0)
        rc = inherit(spawner, task);
    if (KIN__LIKELY(rc == 0))
        rc = link_child(place, task, (struct caller){worker, spawner}, arg, arg_size, options,
                        out != NULL, has_promise);
    if (KIN__UNLIKELY(rc < 0)) {
        if (rc == KIN_NOSCOPE && spawner)
            kin__cause_joined(spawner, 0); /* this is no echo of a nursery it has joined */
        kin__task_unmake(task);
        if (spawner)
            kin__op_turn(spawner); /* a loop over these makes nothing that could end it */
        return rc;
    }
    if (options && options->cleanup)
        task->extra->cleanups.table->arg = task->arg; /* the copy, if there is one */
    if (out)
        out->id = id;
    kin__schedule_new(worker, task);
    return 0;
}

int kin_spawn(struct kin_nursery *n, kin_task_fn *fn, void *arg)
{
    struct place place = place_of(n);
    return spawn(&place, NULL, fn, arg, 0, NULL, __builtin_return_address(0), NULL);
}

int kin_spawn_copy(struct kin_nursery *n, kin_task_fn *fn, const void *arg, size_t arg_size)
{
    struct place place = place_of(n);
    return spawn(&place, NULL, fn, arg, arg_size, NULL, __builtin_return_address(0), NULL);
}

int kin__spawn_at(struct kin_nursery *n, const struct kin_spawn_options *options, kin_task_fn *fn,
                  void *arg, struct kin_task_ref *out, const void *site)
{
    struct place place = place_of(n);
    return spawn(&place, options, fn, arg, 0, out, site, NULL);
}

/* ---- room under tasks_max ---- */

/*
 * Whoever waits for room is served in order of arrival: a child that leaves promises its room to
 * the first of them, and until that one has come back nobody else gets it. A promise that is not
 * used, because memory or a budget is, goes on to the next. So somebody waits only while every
 * room is taken or promised.
 */

/* A spawner that waits for room. */
struct slot {
    struct place place;
    const struct kin__task *spawner; /* NULL: a plain thread */
};

/* Whether to go and look again: there is room, or there will never be. */
static bool is_worth_locked(struct kin__scope *scope, const struct kin__task *spawner)
{
    return !is_admitted_locked(scope, spawner) || has_room_locked(scope, 0);
}

static bool slot_try(void *object, void *io, int *status)
{
    struct slot *slot = object;
    struct kin__scope *scope = slot->place.scope;
    (void)io;
    *status = 0;
    if (!kin__scope_lock_named(scope, slot->place.name))
        return true;
    bool is_worth = is_worth_locked(scope, slot->spawner);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return is_worth;
}

static bool slot_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct slot *slot = object;
    struct kin__scope *scope = slot->place.scope;
    (void)status;
    if (!kin__scope_lock_named(scope, slot->place.name))
        return false;
    bool links = !is_worth_locked(scope, slot->spawner);
    if (links) {
        if (!(scope->has & KIN__SCOPE_SLOTS)) {
            scope->has |= KIN__SCOPE_SLOTS;
            scope->slots = (struct kin__waitq){0};
            scope->promised = 0;
        }
        kin__waitq_push(&scope->slots, waiter);
    }
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return links;
}

/* The scope may be over: its block is still there, and nobody is linked to it any more. */
static void slot_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin__scope *scope = ((struct slot *)object)->place.scope;
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    kin__waitq_remove(waiter);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
}

static const struct kin__waitable slot_waitable = {"slot", slot_try, slot_publish, slot_unpublish};

KIN__WAITABLE_READY(slot_waitable)
{
    const struct slot *slot = object;
    struct kin__scope *scope = slot->place.scope;
    /* relaxed: nobody runs */
    bool is_same = kin__load_relaxed(&scope->frame.name) == slot->place.name;
    return !is_same || is_worth_locked(scope, slot->spawner) ? "the nursery has room" : NULL;
}

#define PROMISED 1 /* what a wait for room ends with, beside 0: look again */

/* Promises what room there is when this many children have left. */
static void promise_locked(struct kin__scope *scope, uint64_t leaving, struct kin__wakes *wakes)
{
    struct kin__claimed claimed;
    while (has_room_locked(scope, leaving) && kin__waitq_claim(&scope->slots, &claimed)) {
        scope->promised++; /* ends: there is less room each time */
        kin__wakes_add(wakes, &claimed, PROMISED);
    }
}

void kin__slots_offer_locked(struct kin__scope *scope, struct kin__wakes *wakes)
{
    promise_locked(scope, 1, wakes);
}

/* Wakes with the lock held: a push takes none of a lower rank. */
void kin__slots_refuse_locked(struct kin__scope *scope)
{
    struct kin__claimed claimed;
    struct kin__wakes wakes = {0};
    while (kin__waitq_claim(&scope->slots, &claimed)) /* ends: one fewer each time */
        kin__wakes_add(&wakes, &claimed, 0);
    kin__wakes_run(&wakes);
}

/* Room was promised and is not needed: it is the next one's. */
static void pass_on(const struct place *place)
{
    struct kin__wakes wakes = {0};
    if (!kin__scope_lock_named(place->scope, place->name))
        return;
    place->scope->promised--;
    promise_locked(place->scope, 0, &wakes);
    kin__lock_give(&place->scope->lock, KIN__RANK_NURSERY);
    kin__wakes_run(&wakes);
}

int kin_spawn_with(struct kin_nursery *n, const struct kin_spawn_options *options, kin_task_fn *fn,
                   const void *arg, size_t arg_size, struct kin_task_ref *out)
{
    const void *site = __builtin_return_address(0);
    bool has_promise = false;
    struct slot slot = {place_of(n), kin__task_self()};
    for (;;) { /* ends: as waits do; each round somebody else took the room */
        int rc = spawn(&slot.place, options, fn, arg, arg_size, out, site, &has_promise);
        if (KIN__UNLIKELY(has_promise)) /* refused before it came to the nursery */
            pass_on(&slot.place);
        if (rc != KIN_FULL || !options || options->slot_deadline == 0)
            return rc;
        rc = kin__wait_until(&slot_waitable, &slot, NULL, options->slot_deadline, KIN__WAIT_THREAD);
        if (rc < 0)
            return rc == KIN_CANCELLED ? KIN_NOSCOPE : rc;
        has_promise = rc == PROMISED;
    }
}
