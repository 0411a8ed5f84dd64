/* SPDX-License-Identifier: MIT */
/*
 * The worker's loop: next task, switch, commit, repeat.
 *
 * Four places can be landed on after a switch: behind the switch of a task that parked or yielded,
 * at the top of a new runner, behind the native loop's switch, and nowhere else. Each begins by
 * finishing what the flow before it left undone: committing its park, queueing its yield, giving
 * its stack back. None of that may happen before the switch, because from then on other workers may
 * run the task or reuse the stack [F5] [W:4.2].
 *
 * A task that rests (park/rest.h) leaves its stack by returning. The loop that has called it then
 * commits its park, and is the one that has the stack.
 */
#include "sched/worker.h"

#include "sched/entry.h"
#include "sched/report.h"
#include "sched/sched.h"
#include "sched/tape.h"

#include <errno.h>

#define STREAK_MAX 16u       /* picks from the slot in a row before the others get a turn */
#define INJECT_BATCH 64u     /* most tasks taken from the global queue at a time */
#define SHARE_BATCH 16u      /* most woken or yielded tasks made stealable at a time */
#define AHEAD 6u              /* how far ahead a task of a long queue is warmed up */
#define SPILL (KIN__DEQUE_SIZE / 8) /* small: it happens on the stack of the task that spawns */

#define YIELD_PICKS 256u     /* picks for which turned ones pass over tasks that yielded */
#define POLL_NS 20000        /* a worker with work polls what is outside this often */
#define POLL_LATE_NS 500000  /* and no less often than that while woken tasks are in line */
#define CHILD_TURNS 16u      /* turns that a join with children of its own to run may put off */

/* ---- the queues; all with the bias held ---- */

/* A batch of the global queue: the first is returned, the others become ready here. */
static struct kin__task *pick_global(struct kin__worker *worker, uint32_t max)
{
    struct kin__sched *sched = worker->sched;
    size_t len = kin__inject_len(&sched->inject);
    if (len == 0)
        return NULL;
    /* relaxed: hint */
    uint32_t share = (uint32_t)(len / (kin__load_relaxed(&sched->alive) + 1)) + 1;
    struct kin__task *first = kin__inject_take(&sched->inject, share < max ? share : max);
    if (first && first->batch_count > 1) {
        struct kin__fifo *ready = &worker->ready;
        if (kin__load_relaxed(&ready->head)) /* alone: the owner's own */
            ready->tail->next = first->next;
        else
            kin__store_relaxed(&ready->head, first->next); /* relaxed: others only peek */
        ready->tail = first->batch_last;
    }
    return first;
}

/* The fast order. */
static inline struct kin__task *pick(struct kin__worker *worker)
{
    struct kin__task *task = kin__load_relaxed(&worker->slot); /* alone: the owner's own */
    if (task) {
        kin__store_relaxed(&worker->slot, NULL); /* relaxed: others only peek */
        if (KIN__LIKELY(++worker->streak < STREAK_MAX))
            return task;
        kin__fifo_push(&worker->ready, task);
    }
    worker->streak = 0;
    /* alone: the owner's own */
    if (kin__load_relaxed(&worker->ready.head) && (worker->flips = !worker->flips))
        return kin__fifo_pop(&worker->ready);
    if ((task = kin__deque_pop(&worker->deque)))
        return task;
    if ((task = kin__fifo_pop(&worker->ready)))
        return task;
    if (KIN__UNLIKELY(kin__deque_public(&worker->deque)) && kin__deque_reclaim(&worker->deque))
        return kin__deque_pop(&worker->deque);
    if (KIN__UNLIKELY(kin__inject_len(&worker->sched->inject)) &&
        (task = pick_global(worker, INJECT_BATCH)))
        return task;
    return kin__fifo_pop(&worker->yielded);
}

/* From when on tasks that yielded take part in turned picks: a yield offers the turn to what is
 * runnable then, so they are passed over for a while, but not for ever. */
static inline void put_off_yielded(struct kin__worker *worker)
{
    /* alone: the owner's own counters */
    uint64_t picks = kin__load_relaxed(&worker->slices) + worker->interval;
    worker->yield_due = picks - kin__load_relaxed(&worker->countdown) + YIELD_PICKS; /* alone: so */
}

/* A woken task with a priority: a place in a queue, no more. Of those that go to the front every
 * so many-th goes to the back, or two that wake each other would starve the rest. */
static __attribute__((noinline)) void push_by_priority(struct kin__worker *worker,
                                                       struct kin__task *task)
{
    if (task->flags & KIN__TASK_LOW) {
        if (!kin__load_relaxed(&worker->yielded.head)) /* alone: the owner's own */
            put_off_yielded(worker);
        kin__fifo_push(&worker->yielded, task);
    } else if (++worker->firsts < STREAK_MAX) {
        kin__fifo_push_first(&worker->ready, task);
    } else {
        worker->firsts = 0;
        kin__fifo_push(&worker->ready, task);
    }
}

static inline void push_ready(struct kin__worker *worker, struct kin__task *task)
{
    if (KIN__UNLIKELY(task->flags & (KIN__TASK_HIGH | KIN__TASK_LOW)))
        push_by_priority(worker, task);
    else if (!kin__load_relaxed(&worker->slot)) /* alone: the owner's own */
        kin__store_relaxed(&worker->slot, task); /* relaxed: others only peek */
    else
        kin__fifo_push(&worker->ready, task);
    KIN__CHANGE(worker->backlog, 1);
}

/* The turned order: whoever waits longest somewhere, the seed says where to look first. */
static struct kin__task *pick_turned(struct kin__worker *worker)
{
    uint32_t place = (uint32_t)kin__rng_next(&worker->rng);
    bool can_yielded = kin__load_relaxed(&worker->slices) >= worker->yield_due; /* alone: so */
    for (uint32_t i = 0; i < 4; i++) {
        struct kin__task *task = NULL;
        switch ((place + i) % 4) {
        case 0:
            task = pick_global(worker, 1);
            break;
        case 1:
            if (can_yielded && (task = kin__fifo_pop(&worker->yielded)))
                put_off_yielded(worker);
            break;
        case 2:
            task = kin__fifo_pop(&worker->ready);
            break;
        default:
            if (!kin__deque_take_oldest(&worker->deque, &task, 1))
                task = NULL; /* a thief was faster; what was read is its */
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
        struct kin__task *task = kin__fifo_pop(&worker->ready);
        if (!task)
            task = kin__fifo_pop(&worker->yielded);
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

void kin__worker_open(struct kin__worker *worker)
{
    struct kin__task *task = kin__load_relaxed(&worker->slot); /* alone: with the bias */
    if (task) {
        kin__store_relaxed(&worker->slot, NULL); /* relaxed: others only peek */
        kin__fifo_push_first(&worker->ready, task);
    }
    (void)publish(worker);
}

/* Somebody wants work: offers what this worker does not run itself. */
static void share(struct kin__worker *worker)
{
    (void)kin__and_relaxed(&worker->attention, ~KIN__HUNGRY); /* relaxed: a thief sets it again */
    if (publish(worker) && kin__idle_wants(worker->sched))
        worker->wakes = worker->has_chores = true;
}

/* A task was picked, and somebody wants work or wants to know; is_lent: to run on the stack of the
 * one that runs. */
static __attribute__((noinline)) void heed_pick(struct kin__worker *worker, struct kin__task *task,
                                                bool is_lent)
{
    uint32_t attention = kin__load_relaxed(&worker->attention); /* relaxed: a hint */
    if (attention & KIN__TAPED)
        kin__tape_picked(worker, task, is_lent);
    if (attention != KIN__TAPED || kin__idle_wants(worker->sched))
        share(worker);
}

/* ---- picking ---- */

/* Every so often: the clock, what became due, and the turned order for this pick. */
static __attribute__((noinline)) void look_around(struct kin__worker *worker)
{
    struct kin__sched *sched = worker->sched;
    /* relaxed: a timer armed meanwhile is seen the next time */
    bool has_timers = kin__load_relaxed(&worker->next_deadline) != KIN_NEVER;
    uint32_t stuck = kin__load_relaxed(&sched->has_stuck); /* relaxed: a hint */
    bool has_io = kin__load_relaxed(&sched->io) != NULL;   /* relaxed: a hint */
    /* alone: the owner's own; the monitor only reads */
    kin__store_relaxed(&worker->slices, kin__load_relaxed(&worker->slices) + worker->interval);
    worker->interval = sched->policy->interval(worker, has_timers || stuck || has_io);
    kin__store_relaxed(&worker->countdown, worker->interval); /* alone: as above */
    if (!has_timers && !stuck && !has_io)
        return;
    worker->now = kin__clock_now();
    kin__store_relaxed(&worker->is_polling, 1u); /* relaxed: so that the monitor knows why */
    if (has_timers)
        sched->source->poll(worker, worker->now);
    for (unsigned i = 0; stuck && i < sched->workers_max; i++) {
        /* relaxed: poll looks again under the wheel's lock */
        if (kin__load_relaxed(&sched->workers[i].next_deadline) <= worker->now)
            sched->source->poll(&sched->workers[i], worker->now);
    }
    /* Whoever is woken now goes behind those in line, and by then what the wake has touched is cold
     * again: so they run first. relaxed: a hint */
    int64_t since = worker->now - kin__load_relaxed(&sched->polled_at);
    bool has_line = kin__load_relaxed(&worker->ready.head) != NULL; /* alone: the owner's own */
    if (has_io && since >= (has_line ? POLL_LATE_NS : POLL_NS))
        (void)kin__idle_poll(sched, worker->now);
    kin__store_relaxed(&worker->is_polling, 0u); /* relaxed: as above */
}

/* The worker was replaced while it was stuck: everything it holds goes to the others [WK:6.2]. */
static __attribute__((noinline)) void drain_all(struct kin__worker *worker)
{
    if (kin__worker_drain(worker))
        worker->wakes = worker->has_chores = true;
}

/* The same for a child that is to run in place of a join; NULL: not here, where it was taken from a
 * worker that drains, which takes no work up [WK:6.2]. */
static __attribute__((noinline)) struct kin__task *heed_child(struct kin__worker *worker,
                                                              struct kin__task *task)
{
    if (kin__load_relaxed(&worker->attention) & KIN__DRAIN) { /* relaxed: a hint */
        KIN__CHECK(kin__deque_push(&worker->deque, task), "SCHED:7.1.1"); /* it came from there */
        KIN__CHANGE(worker->backlog, 1);
        drain_all(worker);
        return NULL;
    }
    heed_pick(worker, task, true);
    return task;
}

static inline struct kin__task *picked(struct kin__task *task)
{
    /* Always on: a queue entry that is not runnable means that memory is already being corrupted.
     * relaxed: the queue's release made the word visible [F2] */
    KIN__CHECK(kin__load_relaxed(&task->ctl) & KIN__CLAIMED, "F2");
    kin__word_move(task, KIN__RUNNABLE, KIN__RUNNING, KIN__BY_WORKER);
    return task;
}

#ifdef KIN_DEBUG
/* Hard mode slow: a delay now and then, where others may come in between. */
static void dawdle(struct kin__worker *worker)
{
    uint64_t random = kin__rng_next(&worker->rng);
    if (random % 16 == 0)
        kin__thread_yield();
    for (uint64_t i = 0; random % 4 == 0 && i < random / 16 % 2000; i++)
        kin__cpu_relax();
}
#endif

/* One pick less until the order is turned round. True: now. */
static inline bool count_down(struct kin__worker *worker)
{
    uint32_t left = kin__load_relaxed(&worker->countdown) - 1; /* alone: the owner's own */
    kin__store_relaxed(&worker->countdown, left);              /* relaxed: the monitor only reads */
    return KIN__UNLIKELY(left == 0);
}

/* The next task, local or global, NULL for none; the bias is held afterwards, and given by whoever
 * lands, so that nothing that is queued here can be rescued before its stack is left. */
static inline struct kin__task *next_held(struct kin__worker *worker)
{
    bool is_turned = count_down(worker);
    if (is_turned)
        look_around(worker);
#ifdef KIN_DEBUG
    if (worker->sched->hard.slow)
        dawdle(worker);
#endif
    kin__bias_take(&worker->bias);
    /* relaxed: again at the next pick */
    uint32_t attention = kin__load_relaxed(&worker->attention);
    if (KIN__UNLIKELY(attention & KIN__DRAIN)) {
        drain_all(worker);
        return NULL;
    }
    struct kin__task *task = is_turned ? pick_turned(worker) : pick(worker);
    if (KIN__UNLIKELY(!task) && !(task = pick_global(worker, INJECT_BATCH)))
        return NULL;
    KIN__CHANGE(worker->backlog, -1);
    if (KIN__UNLIKELY(attention || kin__idle_wants(worker->sched)))
        heed_pick(worker, task, false);
    return picked(task);
}

/* What a flow left to be done after the switch, beside its park. */
static __attribute__((noinline)) void do_chores(struct kin__worker *worker)
{
    struct kin__stack *stack = worker->left_stack;
    worker->has_chores = false;
    if (stack) {
        worker->left_stack = NULL;
        kin__context_drop(&stack->runner);
        kin__stack_give(&worker->stacks, &worker->sched->stacks, stack);
    }
    if (worker->wakes) {
        worker->wakes = false;
        kin__idle_wake_one(worker->sched);
    }
}

/* Gives the bias, and does what was put off while it was held. */
static inline void give_bias(struct kin__worker *worker)
{
    kin__bias_give(&worker->bias);
    if (KIN__UNLIKELY(worker->has_chores))
        do_chores(worker);
}

struct kin__task *kin__worker_next(struct kin__worker *worker)
{
    struct kin__task *task = next_held(worker);
    give_bias(worker);
    return task;
}

struct kin__task *kin__worker_take_child(struct kin__worker *worker, const struct kin__scope *scope)
{
    bool has_turn = false;
    /* Children that spawn others on and on must not keep everybody else from running: now and then
     * the owner parks like anybody else, and the order is turned round. alone: the owner's own */
    if (KIN__UNLIKELY(kin__load_relaxed(&worker->countdown) == 1) &&
        ++worker->child_turns >= CHILD_TURNS) {
        worker->child_turns = 0;
        return NULL;
    }
    kin__bias_take(&worker->bias);
    struct kin__task *task = kin__deque_peek(&worker->deque);
    /* relaxed: constant while the task is queued */
    if (task && kin__load_relaxed(&task->scope) == scope && !task->stack &&
        task->stack_class <= worker->stack->class_) {
        (void)kin__deque_pop(&worker->deque);
        KIN__CHANGE(worker->backlog, -1);
        if (count_down(worker)) /* an owner that runs its children still sees to the timers */
            has_turn = true;
        /* relaxed: asked again at the next pick */
        if (KIN__UNLIKELY(kin__load_relaxed(&worker->attention) ||
                          kin__idle_wants(worker->sched)))
            task = heed_child(worker, task);
        if (KIN__LIKELY(task != NULL))
            task = picked(task);
    } else {
        task = NULL;
    }
    give_bias(worker);
    if (KIN__UNLIKELY(has_turn))
        look_around(worker);
    return task;
}

/* ---- pushing ---- */

/* The ring is full: its oldest part goes to the global queue. */
static void spill(struct kin__worker *worker)
{
    struct kin__task *old[SPILL];
    uint32_t count = kin__deque_take_oldest(&worker->deque, old, SPILL);
    for (uint32_t i = 0; i + 1 < count; i++) {
        old[i]->next = old[i + 1];
        /* not begun: sp is free to say whom to warm up when this one is picked */
        if (!old[i]->stack)
            old[i]->ctx.sp = i + AHEAD < count ? old[i + AHEAD] : NULL;
    }
    if (count)
        kin__inject_push(&worker->sched->inject, old[0], old[count - 1], count);
}

void kin__worker_push_spilling(struct kin__worker *worker, struct kin__task *task)
{
    do { /* ends: a spill makes room */
        spill(worker);
    } while (!kin__deque_push(&worker->deque, task));
}

/* Whether anybody else is idle, asked after the push. Without membarrier the word is never 0, and
 * the fence is here. A lone worker is the only one that is idle when a timer fires while it
 * searches: what it made stealable then would run last. */
static bool is_anybody_idle(const struct kin__sched *sched)
{
    if (sched->is_strong)
        kin__fence_seq(); /* fence: the push before idle; its mirror is in list_self */
    /* pairs with the exchange by which another is listed, which was started before */
    if (!(kin__load_acquire(&sched->idle) & ~KIN__IDLE_STRONG))
        return false;
    return kin__load_relaxed(&sched->alive) > 1; /* relaxed: not older than what was listed */
}

void kin__worker_offer(struct kin__worker *worker)
{
    if (!is_anybody_idle(worker->sched))
        return;
    kin__bias_take(&worker->bias);
    (void)kin__deque_publish(&worker->deque); /* half, at least one: of what comes singly, all */
    kin__bias_give(&worker->bias);
    kin__idle_wake_one(worker->sched);
}

/* Something was woken while somebody is idle. One that runs here next stays: two tasks that talk to
 * each other would be torn apart. But somebody has to be up who sees it if this slice is long. */
static __attribute__((noinline)) void offer_woken(struct kin__worker *worker)
{
    if (!is_anybody_idle(worker->sched))
        return;
    kin__bias_take(&worker->bias);
    bool is_public = kin__load_relaxed(&worker->ready.head) && publish(worker); /* alone: its own */
    kin__bias_give(&worker->bias);
    if (is_public || kin__idle_is_unwatched(worker->sched))
        kin__idle_wake_one(worker->sched);
}

void kin__worker_push_ready(struct kin__worker *worker, struct kin__task *task)
{
    kin__bias_take(&worker->bias);
    push_ready(worker, task);
    kin__bias_give(&worker->bias);
    if (kin__worker_has_company(worker))
        offer_woken(worker);
}

void kin__worker_push_last(struct kin__worker *worker, struct kin__task *task)
{
    kin__bias_take(&worker->bias);
    if (KIN__UNLIKELY(task->flags & (KIN__TASK_HIGH | KIN__TASK_LOW)))
        push_by_priority(worker, task);
    else
        kin__fifo_push(&worker->ready, task);
    KIN__CHANGE(worker->backlog, 1);
    kin__bias_give(&worker->bias);
    if (kin__worker_has_company(worker))
        offer_woken(worker);
}

uint32_t kin__worker_drain(struct kin__worker *worker)
{
    struct kin__task *first = NULL, *last = NULL, *task;
    uint32_t count = 0;
    for (;;) { /* ends: takes one of finitely many each time */
        /* alone: the owner's own, or the monitor's with the bias */
        if ((task = kin__load_relaxed(&worker->slot)))
            kin__store_relaxed(&worker->slot, NULL); /* relaxed: others only peek */
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
    return count;
}

uint64_t kin__worker_load(struct kin__worker *worker)
{
    uint64_t load = kin__deque_len(&worker->deque);
    load += kin__load_relaxed(&worker->slot) != NULL;         /* relaxed: a hint */
    load += kin__load_relaxed(&worker->ready.head) != NULL;   /* relaxed: a hint */
    load += kin__load_relaxed(&worker->yielded.head) != NULL; /* relaxed: a hint */
    return load;
}

/* ---- landing and leaving ---- */

/* Whoever woke the task was faster than its switch, and has left the rest to this worker. */
static __attribute__((noinline)) void push_late(struct kin__worker *worker, struct kin__task *task)
{
    if (worker->sched->tape)
        kin__tape_pushed(worker->sched, task, true);
    push_ready(worker, task);
    if (kin__worker_has_company(worker) && kin__idle_is_unwatched(worker->sched))
        worker->wakes = worker->has_chores = true; /* as after a yield */
}

/* The stack that is left loses the guard that this worker has lent it, the one that is entered gets
 * one if it has none of its own. So each stack has a guard while somebody runs on it, and the
 * process needs few mappings for that [SCHED:15.2.1]. The stack that is left is this worker's: its
 * task is not committed yet. */
static __attribute__((noinline)) void move_guard(struct kin__worker *worker)
{
    struct kin__stack *stack = worker->stack;
    if (worker->bare == stack)
        return;
    if (worker->bare)
        kin__stack_disarm(worker->bare);
    worker->bare = stack && !stack->is_guarded ? stack : NULL;
    if (worker->bare)
        kin__stack_arm(worker->bare);
}

/* The first stack without a guard of its own: from now on workers look at each that they enter. */
static __attribute__((noinline)) void meet_bare(struct kin__worker *worker)
{
    const struct kin__sched *sched = worker->sched;
    for (unsigned i = 0; i < sched->workers_max; i++)
        /* relaxed: who runs on the stack later has it from a queue, behind this */
        kin__store_relaxed(&sched->workers[i].has_bare, 1u);
}

/* The task is about to leave a stack that could not be given a guard: whether it has overflowed is
 * seen by its canary, as long as it can be named. */
static __attribute__((noinline)) void look_at_bare(const struct kin__task *task)
{
    KIN__CHECK(kin__stack_is_sound(task->stack), "SCHED:5.3.3: the task has overflowed its stack");
}

/* Finishes what the flow that switched here left undone, and gives the bias it held. */
static inline void land(struct kin__worker *worker)
{
    struct kin__task *task = worker->leaving;
    if (KIN__UNLIKELY(kin__load_relaxed(&worker->has_bare))) /* relaxed: see meet_bare */
        move_guard(worker);
    if (task) {
        worker->leaving = NULL;
        if (KIN__UNLIKELY(kin__word_commit(task)))
            push_late(worker, task);
    }
    give_bias(worker);
}

/* The task is over: its nursery hears of it, its frame goes back. */
static inline void retire(struct kin__worker *worker, struct kin__task *task)
{
    bool is_ours = worker->sched->owner->child_done(task);
    KIN__CHANGE(worker->live, -1);
    if (KIN__UNLIKELY(!is_ours))
        return; /* its nursery keeps the frame */
    kin__word_fini(task);
    /* Frames are taken again in reverse order. Each remembers the one freed four before it, so that
     * whoever takes it can warm up the one needed four later: in a large batch all are cold. */
    struct kin__task **before = &worker->freed[worker->freed_at++ % 4];
    task->ctx.sp = *before;
    *before = task;
    kin__frame_free_as(&worker->blocks[KIN__FRAME_TASK], &task->frame, KIN__FRAME_TASK);
}

/* What remains of a task when its body has returned. */
static inline void finish(struct kin__task *task, int rc)
{
    struct kin__worker *worker = kin__worker_self();
    if (KIN__LIKELY(!(task->flags & KIN__TASK_FAILED)))
        task->status =
            KIN__LIKELY(task->status == 0) ? rc : worker->sched->owner->cause(task, rc);
    if (KIN__UNLIKELY(kin__load_relaxed(&task->inner) != NULL)) /* relaxed: the task's own */
        worker->sched->owner->forgot(task);
    KIN__CHECK(kin__stack_is_sound(task->stack), "SCHED:5.3.3");
    kin__word_move(task, KIN__RUNNING, rc == KIN_CANCELLED ? KIN__CANCELLED : KIN__DONE,
                   KIN__BY_TASK);
    if (KIN__UNLIKELY(task->flags & KIN__TASK_SPARE))
        kin__stack_give(&worker->stacks, &worker->sched->stacks, task->spare);
    retire(worker, task);
}

/* What comes before a body: the task is on the worker's stack now. Its argument, or false: it was
 * cancelled before its first run, and the body never runs [NSM:4.2]. One that has rested does. */
static inline bool mount(struct kin__worker *worker, struct kin__task *task, void **arg)
{
    *arg = task->arg;
    task->stack = worker->stack;
    task->low = worker->stack->low;
    kin__worker_set_current(worker, task);
    return KIN__LIKELY(!(kin__word_requests(task) & (KIN__CANCEL | KIN__KILL))) ||
           kin__load_quiet(&task->waiting); /* alone: the task's own */
}

/* The body has returned, and the task owns something: whether it goes on some other time. */
static inline bool has_rest(const struct kin__task *task, int rc)
{
    return rc == KIN__RESTING && kin__load_quiet(&task->waiting); /* alone: the task's own */
}

/* The task has left its stack for good and waits: its park is committed. From then on it may run
 * elsewhere, and the stack is the caller's. */
static __attribute__((noinline)) void rest(struct kin__task *task, void *arg)
{
    struct kin__worker *worker = kin__worker_self();
    KIN__CHECK(kin__stack_is_sound(task->stack), "SCHED:5.3.3");
    KIN__ASSERT(kin__rank_holds_none(), "house");
    if (KIN__UNLIKELY(worker->sched->tape != NULL))
        kin__tape_parked(worker, task);
    kin__worker_set_current(worker, NULL);
    task->flags &= (uint16_t)~KIN__TASK_BORROWS;
    task->stack = NULL;
    task->ctx.sp = NULL; /* knows nobody to warm up */
    task->arg = arg;
    if (KIN__LIKELY(!kin__word_commit(task)))
        return;
    kin__bias_take(&worker->bias);
    push_late(worker, task);
    kin__bias_give(&worker->bias);
}

/* Calls the body on the stack that the worker is on: from the runner, whose control words are the
 * ones that a flow begins with. The worker may be another one afterwards. */
static __attribute__((noinline)) void run(struct kin__worker *worker, struct kin__task *task,
                                          const struct kin__context *lender)
{
    int rc = KIN_CANCELLED;
    void *arg;
    bool begins = mount(worker, task, &arg);
    kin__context_enter(&task->ctx, lender);
    if (KIN__LIKELY(begins))
        rc = kin__call_clean_raw(&task->escape, task->fn, arg);
    if (KIN__UNLIKELY(kin__task_owns(task, 0))) {
        if (has_rest(task, rc)) {
            kin__context_leave(&task->ctx, lender);
            rest(task, arg);
            return;
        }
        if (task->flags & KIN__TASK_EXTRA)
            rc = kin__worker_self()->sched->owner->conclude(task, rc);
        task->arg = arg; /* child_done wants it: it may be a copy */
    }
    kin__context_leave(&task->ctx, lender);
    finish(task, rc);
}

/* The same from another task, whose control words may be anything. False: it is not over, but
 * rests. */
static __attribute__((noinline)) bool run_borrowing(struct kin__worker *worker,
                                                    struct kin__task *task,
                                                    const struct kin__context *lender)
{
    int rc = KIN_CANCELLED;
    void *arg;
    bool begins = mount(worker, task, &arg);
    kin__context_enter(&task->ctx, lender);
    if (KIN__LIKELY(begins))
        rc = kin__call_raw(&task->escape, task->fn, arg);
    if (KIN__UNLIKELY(kin__task_owns(task, 0))) {
        if (has_rest(task, rc)) {
            kin__context_leave(&task->ctx, lender);
            rest(task, arg);
            return false;
        }
        if (task->flags & KIN__TASK_EXTRA)
            rc = kin__worker_self()->sched->owner->conclude(task, rc);
        task->arg = arg; /* child_done wants it: it may be a copy */
    }
    kin__context_leave(&task->ctx, lender);
    finish(task, rc);
    return true;
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
        task = next_held(worker);
        if (KIN__LIKELY(task && !task->stack && task->stack_class <= stack->class_)) {
            give_bias(worker);
            continue;
        }
        worker->left_stack = stack;
        worker->has_chores = true;
        if (!task || !task->stack)
            break;
        kin__worker_set_current(worker, task);
        worker->stack = task->stack;
        kin__context_jump(&stack->runner, &task->ctx, worker);
    }
    worker->fresh = task; /* NULL, or one that needs a larger stack: the native loop sees to it */
    kin__worker_set_current(worker, NULL);
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
    if (KIN__UNLIKELY(!stack->is_guarded))
        meet_bare(worker);
    kin__context_make(&stack->runner, stack->low, stack->base, runner);
    worker->fresh = task;
    kin__worker_set_current(worker, NULL);
    worker->stack = stack;
    land(kin__context_switch(from, &stack->runner, worker));
    return true;
}

/* Saves the running flow in from and continues with next; NULL: with the native loop. */
static inline void go(struct kin__worker *worker, struct kin__context *from, struct kin__task *next)
{
    struct kin__context *to = &worker->native;
    KIN__ASSERT(kin__rank_holds_none(), "house");
    kin__worker_set_current(worker, NULL);
    worker->stack = NULL;
    if (KIN__LIKELY(next && next->stack)) {
        kin__worker_set_current(worker, next);
        worker->stack = next->stack;
        to = &next->ctx;
    } else if (next) {
        if (begin(worker, from, next))
            return;
        worker->fresh = next; /* the native loop ends it */
    } else if (KIN__UNLIKELY(worker->sched->tape && worker->leaving)) {
        kin__tape_parked(worker, worker->leaving); /* with nobody after it that would tell */
    }
    land(kin__context_switch(from, to, worker));
}

void kin__worker_park(struct kin__task *task)
{
    if (kin__word_is_ready(task))
        return; /* the winner was faster than the switch */
    struct kin__worker *worker = kin__worker_self();
    if (KIN__UNLIKELY(worker->bare != NULL))
        look_at_bare(task);
    struct kin__task *next = next_held(worker);
    worker->leaving = task;
    go(worker, &task->ctx, next);
}

/* The common yield: nothing else is runnable here but tasks that yielded, nobody wants anything.
 * The first of them, with the bias held and the task queued behind them; NULL: the long way. A
 * yield adds one to the backlog and takes one, so it leaves it alone. */
static inline struct kin__task *next_yielded(struct kin__worker *worker, struct kin__task *task)
{
    struct kin__task *next = kin__load_relaxed(&worker->yielded.head); /* alone: the owner's own */
    struct kin__deque *deque = &worker->deque;
    uint64_t range = kin__load_relaxed(&deque->range); /* relaxed: only the owner adds to it */
    /* alone: the owner's own, all of them but attention and idle: relaxed: again at the next
     * pick */
    bool is_common = next && kin__load_relaxed(&worker->countdown) > 1 &&
                     !kin__load_relaxed(&worker->slot) &&       /* alone: as above */
                     !kin__load_relaxed(&worker->ready.head) && /* alone: as above */
                     kin__range_top(range) == kin__load_relaxed(&deque->bottom) && /* alone: so */
                     !kin__load_relaxed(&worker->attention) &&  /* relaxed: as above */
                     !kin__inject_len(&worker->sched->inject) &&
                     !kin__idle_wants(worker->sched);
    if (KIN__UNLIKELY(!is_common))
        return NULL;
    (void)count_down(worker);
    kin__bias_take(&worker->bias);
    /* alone: it was rescued; or it is one of low priority that has rested, and needs a stack */
    if (KIN__UNLIKELY(kin__load_relaxed(&worker->yielded.head) != next || !next->stack)) {
        kin__bias_give(&worker->bias);
        return NULL;
    }
    struct kin__task *after = next->next;
    worker->yielded.tail->next = task;
    worker->yielded.tail = task;
    task->next = NULL;
    if (KIN__UNLIKELY(!after))
        after = task;
    kin__store_relaxed(&worker->yielded.head, after); /* relaxed: others only peek */
    /* The one after next is in the cache by now; its stack, and the one behind it, soon will be. */
    uintptr_t sp = (uintptr_t)after->ctx.sp;
    __builtin_prefetch((void *)sp);
    __builtin_prefetch((void *)(sp + 64));
    __builtin_prefetch(after->next);
    return picked(next);
}

void kin__worker_yield(struct kin__task *task)
{
    struct kin__worker *worker = kin__worker_self();
    if (KIN__UNLIKELY(worker->bare != NULL))
        look_at_bare(task);
    struct kin__task *next = next_yielded(worker, task);
    if (KIN__LIKELY(next != NULL)) {
        kin__word_move(task, KIN__RUNNING, KIN__RUNNABLE, KIN__BY_TASK);
        kin__worker_set_current(worker, next);
        worker->stack = next->stack;
        land(kin__context_switch(&task->ctx, &next->ctx, worker));
        return;
    }
    next = next_held(worker);
    /* relaxed: asked again at the next pick */
    if (!next && !(kin__load_relaxed(&worker->attention) & KIN__DRAIN)) {
        give_bias(worker); /* nobody else */
        return;
    }
    kin__word_move(task, KIN__RUNNING, KIN__RUNNABLE, KIN__BY_TASK);
    if (!kin__load_relaxed(&worker->yielded.head)) /* alone: the owner's own */
        put_off_yielded(worker);
    kin__fifo_push(&worker->yielded, task); /* not seen by anybody while the bias is held */
    KIN__CHANGE(worker->backlog, 1);
    /* Whoever runs next may be long: somebody has to be up who sees this one. */
    if (kin__worker_has_company(worker) && kin__idle_is_unwatched(worker->sched))
        worker->wakes = worker->has_chores = true;
    go(worker, &task->ctx, next);
}

void kin__worker_run_here(struct kin__task *host, struct kin__task *child)
{
    struct kin__worker *worker = kin__worker_self();
    KIN__ASSERT(kin__worker_current(worker) == host && !child->stack, "F1");
    child->flags |= KIN__TASK_BORROWS;
    bool is_over = run_borrowing(worker, child, &host->ctx);
    worker = kin__worker_self();
    if (KIN__UNLIKELY(!is_over && worker->sched->tape))
        kin__tape_picked(worker, host, false); /* nothing else tells that it goes on */
    kin__worker_set_current(worker, host);
}

/* A frame that is larger than the guard calls kin: whatever it has written is somebody else's. */
_Noreturn static void end_beyond(struct kin__task *task, uintptr_t sp)
{
    char memory[640];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__report_beyond(&text, task, sp);
    kin__report_abort(task, &text);
}

/* Near the end of the stack there may be too little room to be sure of touching the guard: the
 * address is made up. On a stack without a guard the process ends. */
void kin__entry_overflow(struct kin__task *task)
{
    const volatile char *guard = task->low - 1;
    uintptr_t sp = (uintptr_t)__builtin_frame_address(0);
    if (sp < (uintptr_t)task->low - kin__stack_guard_bytes(task->stack))
        end_beyond(task, sp);
    KIN__CHECK(kin__stack_has_guard(task->stack), "SCHED:5.3.3: the task's stack is full");
    (void)*guard;
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

/* ---- a thread that has ended ---- */

/* Where the spare stack of a task that has lost its thread keeps the stack that it had. */
static struct kin__stack **lost_stack(struct kin__stack *spare)
{
    return (struct kin__stack **)(void *)((char *)spare->base - 16);
}

/* The task goes on here, on its spare stack, for the last time: as after an overflow, what it has
 * open lies in the dead frames, which must stay until that is seen to (scope/overflow.c). */
static void go_on_lost(void *pass)
{
    struct kin__worker *worker = pass;
    struct kin__task *task = kin__worker_current(worker);
    struct kin__stack *dead = *lost_stack(task->spare);
    land(worker);
    worker->sched->owner->unwind(task);
    kin__worker_self()->stack = dead;
    task->stack = dead;
    task->low = dead->low;
    kin__worker_escape(task);
}

void kin__worker_abandon(struct kin__worker *worker)
{
    struct kin__sched *sched = worker->sched;
    struct kin__task *task = kin__worker_current(worker);
    /* alone: its owner is gone, or asks itself */
    KIN__CHECK(task && !kin__load_relaxed(&worker->bias.busy), "C7: a thread ended between tasks");
    KIN__CHECK(!(task->flags & KIN__TASK_SPARE), "C7: a cleanup after a panic ended its thread");
    struct kin__stack *spare = kin__stack_take(&worker->stacks, &sched->stacks, task->stack_class);
    KIN__CHECK(spare != NULL, "C7: a thread ended, and there is no memory to end its task");
    *lost_stack(spare) = task->stack;
    kin__context_make(&task->ctx, spare->low, (char *)spare->base - 16, go_on_lost);
    if (!(task->flags & KIN__TASK_FAILED))
        task->status = KIN_WORKER;
    task->spare = spare;
    task->flags |= KIN__TASK_FAILED | KIN__TASK_SPARE;
    task->stack = spare;
    task->low = spare->low;
    kin__worker_set_current(worker, NULL);
    worker->stack = NULL;
    kin__word_move(task, KIN__RUNNING, KIN__RUNNABLE, KIN__BY_TASK);
    if (sched->tape)
        kin__tape_pushed(sched, task, false);
    kin__bias_take(&worker->bias);
    kin__fifo_push(&worker->ready, task);
    KIN__CHANGE(worker->backlog, 1);
    (void)kin__worker_drain(worker);
    kin__bias_give(&worker->bias);
    kin__idle_wake_one(sched);
}

/* No memory for a stack: the task ends without having run, or, after a rest, without running
 * again. */
static void fail_unrun(struct kin__worker *worker, struct kin__task *task)
{
    give_bias(worker);
    kin__worker_set_current(worker, task);
    kin__store_quiet(&task->waiting, NULL); /* relaxed: for dumps */
    task->flags |= KIN__TASK_FAILED;
    task->status = -ENOMEM;
    kin__word_move(task, KIN__RUNNING, KIN__DONE, KIN__BY_TASK);
    retire(worker, task);
    kin__worker_set_current(worker, NULL);
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
        worker->moment_ns = 0;
        kin__bias_take(&worker->bias);
        if (task->stack)
            go(worker, &worker->native, task);
        else if (!begin(worker, &worker->native, task))
            fail_unrun(worker, task);
    }
    kin__context_drop(&worker->native);
    kin__self_set(NULL);
}
