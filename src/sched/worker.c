/* SPDX-License-Identifier: MIT */
/*
 * The worker's loop: next task, switch, commit, repeat.
 *
 * Four places can be landed on after a switch: behind the switch of a task that parked or yielded,
 * at the top of a new runner, behind the native loop's switch, and nowhere else. Each begins by
 * finishing what the flow before it left undone: committing its park, queueing its yield, giving its
 * stack back. None of that may happen before the switch, because from then on other workers may run
 * the task or reuse the stack [F5] [W:4.2].
 */
#include "sched/worker.h"

#include "sched/sched.h"

#include <errno.h>

#define STREAK_MAX 16u       /* picks from the slot in a row before the others get a turn */
#define INJECT_BATCH 64u     /* most tasks taken from the global queue at a time */
#define SHARE_BATCH 16u      /* most woken or yielded tasks made stealable at a time */
#define SPILL (KIN__DEQUE_SIZE / 8) /* small: it happens on the stack of the task that spawns */

#define BUMP(counter) /* alone: the owner's own counter, others only read it */                    \
    kin__store_relaxed(&(counter), kin__load_relaxed(&(counter)) + 1)

/* ---- the queues; all with the bias held ---- */

static void queued_add(struct kin__worker *worker, uint32_t change)
{
    /* alone: the owner's own counter, others take it as a hint */
    kin__store_relaxed(&worker->queued, kin__load_relaxed(&worker->queued) + change);
}

static inline struct kin__task *take_fifo(struct kin__worker *worker, struct kin__fifo *fifo)
{
    struct kin__task *task = kin__fifo_pop(fifo);
    if (task)
        queued_add(worker, UINT32_MAX);
    return task;
}

/* The fast order. */
static inline struct kin__task *pick(struct kin__worker *worker)
{
    struct kin__task *task = worker->slot;
    if (task) {
        worker->slot = NULL;
        if (KIN__LIKELY(++worker->streak < STREAK_MAX)) {
            queued_add(worker, UINT32_MAX);
            return task;
        }
        kin__fifo_push(&worker->ready, task);
    }
    worker->streak = 0;
    if (worker->ready.head && (worker->flips = !worker->flips))
        return take_fifo(worker, &worker->ready);
    if ((task = kin__deque_pop(&worker->deque)))
        return task;
    if ((task = take_fifo(worker, &worker->ready)))
        return task;
    if (kin__deque_public(&worker->deque) && kin__deque_reclaim(&worker->deque))
        return kin__deque_pop(&worker->deque);
    return take_fifo(worker, &worker->yielded);
}

/* A batch of the global queue: the first is returned, the others become ready here. */
static struct kin__task *pick_global(struct kin__worker *worker, size_t max)
{
    struct kin__sched *sched = worker->sched;
    size_t len = kin__inject_len(&sched->inject);
    if (len == 0)
        return NULL;
    size_t share = len / (kin__load_relaxed(&sched->alive) + 1) + 1; /* relaxed: a hint */
    size_t count;
    struct kin__task *first = kin__inject_take(&sched->inject, share < max ? share : max, &count);
    struct kin__task *next = first ? first->next : NULL;
    while (next) { /* ends: the chain has count entries */
        struct kin__task *task = next;
        next = task->next;
        kin__fifo_push(&worker->ready, task);
        queued_add(worker, 1);
    }
    return first;
}

/* The turned order: whoever waits longest somewhere, the seed says where to look first. */
static struct kin__task *pick_turned(struct kin__worker *worker)
{
    uint32_t place = (uint32_t)kin__rng_next(&worker->rng);
    for (uint32_t i = 0; i < 4; i++) {
        struct kin__task *task = NULL;
        switch ((place + i) % 4) {
        case 0:
            task = pick_global(worker, 1);
            break;
        case 1:
            task = take_fifo(worker, &worker->yielded);
            break;
        case 2:
            task = take_fifo(worker, &worker->ready);
            break;
        default:
            kin__deque_take_oldest(&worker->deque, &task, 1);
        }
        if (task)
            return task;
    }
    return pick(worker);
}

/* Makes something stealable. True when it did. */
static bool publish(struct kin__worker *worker)
{
    if (kin__deque_public(&worker->deque))
        return true;
    if (kin__deque_publish(&worker->deque))
        return true;
    for (uint32_t i = 0; i < SHARE_BATCH; i++) {
        struct kin__task *task = take_fifo(worker, &worker->ready);
        if (!task)
            task = take_fifo(worker, &worker->yielded);
        if (!task)
            break;
        KIN__CHECK(kin__deque_push(&worker->deque, task), "SCHED:7.1.1"); /* it was empty */
    }
    /* all of it: what was just moved there would run here last */
    bool has_published = false;
    while (kin__deque_publish(&worker->deque)) /* ends: halves what is private each time */
        has_published = true;
    return has_published;
}

/* Somebody wants work: offers what this worker does not run itself. True: wake a sleeper. */
static bool share(struct kin__worker *worker)
{
    (void)kin__and_relaxed(&worker->attention, ~KIN__HUNGRY); /* relaxed: a thief sets it again */
    return publish(worker) && kin__idle_wants(worker->sched);
}

static inline bool is_wanted(struct kin__worker *worker)
{
    /* relaxed: asked again at the next pick */
    return (kin__load_relaxed(&worker->attention) & KIN__HUNGRY) || kin__idle_wants(worker->sched);
}

/* ---- picking ---- */

/* Every so often: the clock, what became due, and the turned order for this pick. */
static __attribute__((noinline)) void look_around(struct kin__worker *worker)
{
    struct kin__sched *sched = worker->sched;
    /* relaxed: a timer armed meanwhile is seen the next time */
    bool has_timers = kin__load_relaxed(&worker->next_deadline) != KIN_NEVER;
    uint32_t stuck = kin__load_relaxed(&sched->stuck); /* relaxed: a hint */
    worker->countdown = sched->policy->interval(worker, has_timers || stuck);
    if (!has_timers && !stuck)
        return;
    worker->now = kin__clock_now();
    if (has_timers)
        sched->source->poll(worker, worker->now);
    for (unsigned i = 0; stuck && i < sched->workers_max; i++) {
        /* relaxed: poll looks again under the wheel's lock */
        if (kin__load_relaxed(&sched->workers[i].next_deadline) <= worker->now)
            sched->source->poll(&sched->workers[i], worker->now);
    }
}

/* The worker was replaced while it was stuck: everything it holds goes to the others [WK:6.2]. */
static __attribute__((noinline)) struct kin__task *drain_all(struct kin__worker *worker)
{
    kin__bias_take(&worker->bias);
    size_t moved = kin__worker_drain(worker);
    kin__bias_give(&worker->bias);
    if (moved)
        kin__idle_wake_one(worker->sched);
    return NULL;
}

static inline struct kin__task *picked(struct kin__task *task)
{
    /* Always on: a queue entry that is not runnable means that memory is already being corrupted.
     * relaxed: the queue's release made the word visible [F2] */
    KIN__CHECK(kin__load_relaxed(&task->ctl) & KIN__CLAIMED, "F2");
    kin__word_move(task, KIN__RUNNABLE, KIN__RUNNING, KIN__BY_WORKER);
    return task;
}

struct kin__task *kin__worker_next(struct kin__worker *worker)
{
    bool is_turned = false;
    /* relaxed: looked at again at the next pick */
    if (KIN__UNLIKELY(kin__load_relaxed(&worker->attention) & KIN__DRAIN))
        return drain_all(worker);
    if (KIN__UNLIKELY(--worker->countdown == 0)) {
        look_around(worker);
        is_turned = true;
    }
    bool wakes = false;
    kin__bias_take(&worker->bias);
    struct kin__task *task = KIN__UNLIKELY(is_turned) ? pick_turned(worker) : pick(worker);
    if (KIN__UNLIKELY(!task))
        task = pick_global(worker, INJECT_BATCH);
    if (KIN__LIKELY(task != NULL)) {
        BUMP(worker->slices);
        if (KIN__UNLIKELY(is_wanted(worker)))
            wakes = share(worker);
    }
    kin__bias_give(&worker->bias);
    if (KIN__UNLIKELY(wakes))
        kin__idle_wake_one(worker->sched);
    return task ? picked(task) : NULL;
}

struct kin__task *kin__worker_take_child(struct kin__worker *worker, const struct kin__scope *scope)
{
    bool wakes = false;
    kin__bias_take(&worker->bias);
    struct kin__task *task = kin__deque_peek(&worker->deque);
    /* relaxed: constant while the task is queued */
    if (task && kin__load_relaxed(&task->scope) == scope && !task->stack &&
        task->stack_class <= worker->stack->class_) {
        (void)kin__deque_pop(&worker->deque);
        BUMP(worker->slices);
        if (KIN__UNLIKELY(is_wanted(worker)))
            wakes = share(worker);
    } else {
        task = NULL;
    }
    kin__bias_give(&worker->bias);
    if (KIN__UNLIKELY(wakes))
        kin__idle_wake_one(worker->sched);
    return task ? picked(task) : NULL;
}

/* ---- pushing ---- */

/* The ring is full: its oldest part goes to the global queue. */
static __attribute__((noinline)) void spill(struct kin__worker *worker)
{
    struct kin__task *old[SPILL];
    uint32_t count = kin__deque_take_oldest(&worker->deque, old, SPILL);
    for (uint32_t i = 0; i + 1 < count; i++)
        old[i]->next = old[i + 1];
    if (count)
        kin__inject_push(&worker->sched->inject, old[0], old[count - 1], count);
}

void kin__worker_push_new(struct kin__worker *worker, struct kin__task *task)
{
    kin__bias_take(&worker->bias);
    while (KIN__UNLIKELY(!kin__deque_push(&worker->deque, task))) /* ends: a spill makes room */
        spill(worker);
    BUMP(worker->pushed);
    BUMP(worker->spawned);
    /* relaxed: asked again at the next pick */
    if (KIN__UNLIKELY(kin__load_relaxed(&worker->attention) & KIN__HUNGRY))
        (void)share(worker);
    kin__bias_give(&worker->bias);
}

void kin__worker_push_ready(struct kin__worker *worker, struct kin__task *task)
{
    kin__bias_take(&worker->bias);
    if (!worker->slot)
        worker->slot = task;
    else
        kin__fifo_push(&worker->ready, task);
    queued_add(worker, 1);
    BUMP(worker->pushed);
    /* relaxed: asked again at the next pick */
    if (KIN__UNLIKELY(kin__load_relaxed(&worker->attention) & KIN__HUNGRY))
        (void)share(worker);
    kin__bias_give(&worker->bias);
}

size_t kin__worker_drain(struct kin__worker *worker)
{
    struct kin__task *first = NULL, *last = NULL, *task;
    size_t count = 0;
    for (;;) { /* ends: takes one of finitely many each time */
        if ((task = worker->slot))
            worker->slot = NULL;
        else if (!(task = kin__fifo_pop(&worker->ready)) &&
                 !(task = kin__fifo_pop(&worker->yielded)) &&
                 !kin__deque_take_oldest(&worker->deque, &task, 1))
            break;
        if (last)
            last->next = task;
        else
            first = task;
        last = task;
        count++;
    }
    if (count)
        kin__inject_push(&worker->sched->inject, first, last, count);
    kin__store_relaxed(&worker->queued, 0u); /* alone: the owner's, or the monitor's with the bias */
    return count;
}

uint64_t kin__worker_load(struct kin__worker *worker)
{
    return kin__deque_len(&worker->deque) + kin__load_relaxed(&worker->queued); /* relaxed: a hint */
}

/* ---- landing and leaving ---- */

static __attribute__((noinline)) void queue_yielded(struct kin__worker *worker,
                                                    struct kin__task *task)
{
    kin__bias_take(&worker->bias);
    kin__fifo_push(&worker->yielded, task);
    queued_add(worker, 1);
    BUMP(worker->pushed);
    kin__bias_give(&worker->bias);
}

/* Finishes what the flow that switched here left undone. */
static inline void land(struct kin__worker *worker)
{
    struct kin__task *task = worker->leaving;
    if (task) {
        worker->leaving = NULL;
        if (worker->leaving_yields) {
            worker->leaving_yields = false;
            queue_yielded(worker, task);
        } else if (kin__word_commit(task)) {
            kin__worker_push_ready(worker, task);
        }
    }
    struct kin__stack *stack = worker->left_stack;
    if (stack) {
        worker->left_stack = NULL;
        kin__context_drop(&stack->runner);
        kin__stack_give(&worker->stacks, &worker->sched->stacks, stack);
    }
}

/* What remains of a task when its body is over. */
static void finish(struct kin__task *task, int rc)
{
    if (!task->is_failed)
        task->status = rc;
    /* relaxed: the task's own field */
    KIN__CHECK(kin__load_relaxed(&task->inner) == NULL, "NSM-1");
    KIN__CHECK(kin__stack_is_sound(task->stack), "SCHED:5.3.3");
    kin__word_move(task, KIN__RUNNING, rc == KIN_CANCELLED ? KIN__CANCELLED : KIN__DONE,
                   KIN__BY_TASK);
    task->sched->owner->child_done(task);
    kin__word_fini(task);
    struct kin__worker *worker = kin__worker_self();
    if (task->spare) {
        kin__stack_give(&worker->stacks, &worker->sched->stacks, task->spare);
        task->spare = NULL;
    }
    BUMP(worker->ended);
    kin__store_relaxed(&task->scope, NULL); /* relaxed: for dumps; whoever needs it has the name */
    kin__frame_free(&worker->frames, &task->frame);
}

/* Calls the body on the stack that the worker is on. The worker may be another one afterwards. */
static __attribute__((noinline)) void run(struct kin__worker *worker, struct kin__task *task,
                                          const struct kin__context *lender)
{
    int rc = KIN_CANCELLED; /* cancelled before its first run: the body never runs [NSM:4.2] */
    task->stack = worker->stack;
    worker->current = task;
    if (KIN__LIKELY(!(kin__word_requests(task) & (KIN__CANCEL | KIN__KILL)))) {
        kin__context_enter(&task->ctx, lender);
        rc = kin__call_raw(&task->escape, task->fn, task->arg);
        kin__context_leave(&task->ctx, lender);
    }
    finish(task, rc);
}

/* The loop on a task stack; never returns, its last act is a jump. */
static void runner(void *pass)
{
    struct kin__worker *worker = pass;
    struct kin__task *task = worker->fresh;
    struct kin__stack *stack = worker->stack;
    worker->fresh = NULL;
    land(worker);
    for (;;) { /* ends: with a jump, when the next task does not need this stack */
        run(worker, task, &stack->runner);
        worker = kin__worker_self();
        task = kin__worker_next(worker);
        if (task && !task->stack && task->stack_class <= stack->class_)
            continue;
        worker->left_stack = stack;
        if (!task || !task->stack)
            break;
        worker->current = task;
        worker->stack = task->stack;
        kin__context_jump(&stack->runner, &task->ctx, worker);
    }
    worker->fresh = task; /* NULL, or one that needs a larger stack: the native loop sees to it */
    worker->current = NULL;
    worker->stack = NULL;
    kin__context_jump(&stack->runner, &worker->native, worker);
}

/* Saves the running flow in from and begins task on a stack of its own. False: there is no memory
 * for one, and nothing has happened. */
static inline bool begin(struct kin__worker *worker, struct kin__context *from,
                         struct kin__task *task)
{
    struct kin__stack *stack =
        kin__stack_take(&worker->stacks, &worker->sched->stacks, task->stack_class);
    if (KIN__UNLIKELY(!stack))
        return false;
    kin__context_make(&stack->runner, stack->low, stack->base, runner);
    worker->fresh = task;
    worker->current = NULL;
    worker->stack = stack;
    land(kin__context_switch(from, &stack->runner, worker));
    return true;
}

/* Saves the running flow in from and continues with next; NULL: with the native loop. */
static inline void go(struct kin__worker *worker, struct kin__context *from, struct kin__task *next)
{
    struct kin__context *to = &worker->native;
    KIN__ASSERT(kin__rank_holds_none(), "house");
    worker->current = NULL;
    worker->stack = NULL;
    if (KIN__LIKELY(next && next->stack)) {
        worker->current = next;
        worker->stack = next->stack;
        to = &next->ctx;
    } else if (next) {
        if (begin(worker, from, next))
            return;
        worker->fresh = next; /* the native loop ends it */
    }
    land(kin__context_switch(from, to, worker));
}

void kin__worker_park(struct kin__task *task)
{
    if (kin__word_is_ready(task))
        return; /* the winner was faster than the switch */
    struct kin__worker *worker = kin__worker_self();
    struct kin__task *next = kin__worker_next(worker);
    worker->leaving = task;
    go(worker, &task->ctx, next);
}

void kin__worker_yield(struct kin__task *task)
{
    struct kin__worker *worker = kin__worker_self();
    struct kin__task *next = kin__worker_next(worker);
    /* relaxed: asked again at the next pick */
    if (!next && !(kin__load_relaxed(&worker->attention) & KIN__DRAIN))
        return; /* nobody else */
    kin__word_move(task, KIN__RUNNING, KIN__RUNNABLE, KIN__BY_TASK);
    worker->leaving = task;
    worker->leaving_yields = true;
    go(worker, &task->ctx, next);
}

void kin__worker_run_here(struct kin__task *host, struct kin__task *child)
{
    struct kin__worker *worker = kin__worker_self();
    KIN__ASSERT(worker->current == host && !child->stack, "F1");
    child->is_borrowing = true;
    run(worker, child, &host->ctx);
    kin__worker_self()->current = host;
}

#if KIN__ASAN
void __asan_handle_no_return(void);
#endif

_Noreturn void kin__worker_escape(struct kin__task *task)
{
#if KIN__ASAN
    __asan_handle_no_return();
#endif
    kin__escape_raw(task->escape, task->status);
}

/* No memory for a stack: the task ends without having run. */
static void fail_unrun(struct kin__worker *worker, struct kin__task *task)
{
    worker->current = task;
    task->is_failed = true;
    task->status = -ENOMEM;
    kin__word_move(task, KIN__RUNNING, KIN__DONE, KIN__BY_TASK);
    task->sched->owner->child_done(task);
    kin__word_fini(task);
    BUMP(worker->ended);
    kin__store_relaxed(&task->scope, NULL); /* relaxed: as in finish */
    kin__frame_free(&worker->frames, &task->frame);
    worker->current = NULL;
}

void kin__worker_main(struct kin__worker *worker)
{
    struct kin__sched *sched = worker->sched;
    kin__self_set(worker);
    kin__context_adopt(&worker->native);
    for (;;) { /* ends: when the runtime stops or the worker was replaced and is drained */
        struct kin__task *task = worker->fresh; /* left over: it needs a larger stack, or any */
        worker->fresh = NULL;
        if (!task && !(task = kin__worker_next(worker))) {
            /* pairs with the release in kin__sched_stop; relaxed for attention: a hint */
            if (kin__load_acquire(&sched->is_stopping) ||
                (kin__load_relaxed(&worker->attention) & KIN__DRAIN))
                break;
            if (!(task = kin__idle_wait(worker)))
                continue;
        }
        if (task->stack)
            go(worker, &worker->native, task);
        else if (!begin(worker, &worker->native, task))
            fail_unrun(worker, task);
    }
    kin__context_drop(&worker->native);
    kin__self_set(NULL);
}
