/* SPDX-License-Identifier: MIT */
/*
 * The one worker of the lab: how tasks begin, go on, wait and end, with the engine in between.
 *
 * The floors above call what sched/worker.h and sched/sched.h declare. With one thread there is
 * nothing to do after a switch: a task that parks is committed before it leaves its stack, and
 * nobody can run it in between. Each task has a stack of its own; a join lends none.
 *
 * Stacks are handed out in the same order in every execution: the next of all that were ever cut;
 * before that, once there are many, those of this execution that were given back, newest first.
 */
#include "lab/world.h"

#include "lab/fds.h"
#include "park/peek.h"
#include "lab/oracle.h"
#include "sched/entry.h"
#include "scope/scope.h"
#include "task/bill.h"
#include "task/budget.h"
#include "task/extra.h"
#include "task/word.h"

#include <errno.h>
#include <string.h>

#define FRESH_STACKS 64u

/* Stacks of one class. */
static struct stacks {
    struct kin__stack **all; /* in the order in which they are handed out; host memory */
    uint32_t cut, capacity;
    uint32_t used;           /* of them in this execution */
    struct kin__stack *free; /* given back in this execution */
} stacks[KIN__STACK_CLASSES];

static uint32_t endings; /* tasks that others have overtaken in the middle of their end */

void kin__lab_stacks_begin(void)
{
    endings = 0;
    for (unsigned i = 0; i < KIN__STACK_CLASSES; i++) {
        stacks[i].used = 0;
        stacks[i].free = NULL;
    }
}

/* One more of a class that has none left. */
static bool cut_stack(struct stacks *of, unsigned class_)
{
    struct kin__worker *worker = kin__world.worker;
    if (of->cut == of->capacity) {
        uint32_t capacity = of->capacity ? 2 * of->capacity : 16;
        struct kin__stack **all = kin__host_alloc(capacity * sizeof(*all));
        if (!all)
            return false;
        if (of->cut)
            memcpy(all, of->all, of->cut * sizeof(*all));
        kin__host_free(of->all);
        of->all = all;
        of->capacity = capacity;
    }
    struct kin__stack *stack = kin__stack_take(&worker->stacks, &worker->sched->stacks, class_);
    if (!stack)
        return false;
    of->all[of->cut++] = stack;
    return true;
}

/* Whether a stack that was given back must stay where it is: a search must not take what two tasks
 * have on it for one thing. It has few tasks. */
static bool has_fresh(const struct stacks *of)
{
    return kin__world.is_search && of->used < FRESH_STACKS;
}

static struct kin__stack *take_stack(unsigned class_)
{
    struct stacks *of = &stacks[class_];
    struct kin__stack *stack = has_fresh(of) ? NULL : of->free;
    if (stack) {
        of->free = stack->next;
    } else {
        if (of->used == of->cut && !cut_stack(of, class_))
            return NULL;
        stack = of->all[of->used++];
    }
    kin__world_made(stack->low, (size_t)((char *)stack->base - (char *)stack->low));
#if KIN__ASAN
    kin__stack_unpoison(stack);
#endif
    return stack;
}

/* The caller may still run on it, until its next switch. */
static void give_stack(struct kin__stack *stack)
{
    struct stacks *of = &stacks[stack->class_];
    stack->next = of->free;
    of->free = stack;
}

/* ---- the way in ---- */

static void wake_thread(struct kin__task *task)
{
    kin__store_release(&task->woken, 1u); /* pairs with the acquire in park/thread.c */
    kin__futex_wake(&task->woken, 1);
}

void kin__schedule(struct kin__task *task)
{
    struct kin__world *w = &kin__world;
    if (KIN__UNLIKELY(task->flags & KIN__TASK_THREAD)) {
        wake_thread(task);
        return;
    }
    uint32_t index = kin__player_of(task);
    struct kin__player *player = &w->players[index];
    if (KIN__UNLIKELY(player->place != KIN__WORLD_NOBODY || player->task != task)) {
        kin__world_failf("double-enqueue", KIN_PANICKED, player->path,
                         "%s was made runnable while it %s", player->path,
                         player->task == task ? "is runnable already" : "is over");
        return;
    }
    if (player->case_count && kin__world_looks(KIN_ORACLE_ORDER))
        kin__oracle_woken(player);
    player->case_count = 0;
    player->is_woken = true;
    kin__world_enable(index);
    kin__record(w->current, KIN__NOTE_WAKE, index, NULL, NULL);
}

void kin__schedule_last(struct kin__task *task)
{
    kin__schedule(task);
}

void kin__schedule_new_slow(struct kin__task *task)
{
    struct kin__worker *worker = kin__world.worker;
    KIN__CHANGE(worker->live, 1);
    kin__world_add(task);
}

int kin__bill_take_slow(struct kin__bill *bill, struct kin__task *task)
{
    return kin__task_sched(task)->owner->bill(bill, task);
}

int kin__op_slow(struct kin__task *task, unsigned what, kin_time deadline)
{
    return kin__task_sched(task)->owner->op(task, what, deadline);
}

/* ---- bodies ---- */

/* The task is over: its nursery hears of it, its frame goes back. */
static void retire(struct kin__worker *worker, struct kin__task *task)
{
    uint32_t index = kin__player_of(task);
    kin__record(index, KIN__NOTE_END, KIN__NOTE_NOBODY, NULL,
                task->status < 0 ? kin_status_name(task->status) : NULL);
    kin__world.players[index].how = kin__task_outcome(task);
    bool is_ours = worker->sched->owner->child_done(task);
    kin__lab_touch(&task->frame.name, KIN__LAB_WRITE); /* whoever looks for it by name */
    kin__lab_touch(&task->ctl, KIN__LAB_WRITE);
    KIN__CHANGE(worker->live, -1);
    kin__world_remove(task);
    if (!is_ours)
        return; /* its nursery keeps the frame */
    kin__word_fini(task);
    task->ctx.sp = NULL;
    kin__frame_free(&worker->blocks[KIN__FRAME_TASK], &task->frame);
}

/* What a stack without a guard page has at its end is still there, whenever the task leaves it. A
 * guard page speaks for itself. */
static __attribute__((noinline)) void look_at_stack_slow(const struct kin__task *task,
                                                         const char *when)
{
    const struct kin__player *player = &kin__world.players[kin__player_of(task)];
    if (kin__stack_is_sound(task->stack))
        return;
    kin__stack_mend(task->stack); /* for the next execution */
    kin__world_failf("stack", KIN_PANICKED, player->path,
                     "%s has written behind the end of its stack, %s", player->path, when);
}

static inline void look_at_stack(const struct kin__task *task, const char *when)
{
    if (KIN__UNLIKELY(!kin__stack_has_guard(task->stack)))
        look_at_stack_slow(task, when);
}

/* What remains of a task when its body has returned. */
static void finish(struct kin__task *task, int rc)
{
    struct kin__worker *worker = kin__world.worker;
    if (KIN__LIKELY(!(task->flags & KIN__TASK_FAILED)))
        task->status =
            KIN__LIKELY(task->status == 0) ? rc : worker->sched->owner->cause(task, rc);
    if (KIN__UNLIKELY(kin__load_relaxed(&task->inner) != NULL)) /* relaxed: the task's own */
        worker->sched->owner->forgot(task);
    look_at_stack(task, "and ends"); /* [SCHED:5.3.3] */
    kin__word_move(task, KIN__RUNNING, rc == KIN_CANCELLED ? KIN__CANCELLED : KIN__DONE,
                   KIN__BY_TASK);
    if (task->flags & KIN__TASK_SPARE)
        kin__stack_give(&worker->stacks, &worker->sched->stacks, task->spare);
    retire(worker, task);
}

/* For people. */
static void note_park(const struct kin__task *task)
{
    struct kin__waits waits;
    const char *what = kin__wait_peek(task, &waits) ? kin__sim_waits(&waits) : NULL;
    if (!what)
        what = kin__load_relaxed(&task->waiting); /* alone: there is one thread */
    kin__record(kin__player_of(task), KIN__NOTE_PARK, KIN__NOTE_NOBODY, NULL, what);
}

/* The running task waits from here on. */
static void commit(struct kin__task *task)
{
    uint32_t index = kin__player_of(task);
    kin__world.players[index].switches++;
    kin__world_disable(index);
    KIN__CHECK(!kin__word_commit(task), "W:4.2");
    if (KIN__UNLIKELY(kin__record_is_on))
        note_park(task);
    look_at_stack(task, "before it waits here");
    KIN__ASSERT(kin__rank_holds_none(), "house");
    if (KIN__UNLIKELY(kin__world.faults))
        kin__lab_fault_parks(task);
}

/* The task has left its stack for good and waits: park/rest.h. */
static void rest(struct kin__task *task, void *arg)
{
    commit(task); /* nobody runs meanwhile */
    task->stack = NULL;
    task->arg = arg;
}

static void end_point(struct kin__task *task);

/* Calls the body on the stack that the worker is on. */
static __attribute__((noinline)) void run(struct kin__worker *worker, struct kin__task *task,
                                          const struct kin__context *lender)
{
    int rc = KIN_CANCELLED;
    void *arg = task->arg;
    task->stack = worker->stack;
    task->low = worker->stack->low;
    kin__worker_set_current(worker, task);
    bool has_rested = kin__load_quiet(&task->waiting) != NULL; /* alone: there is one thread */
    if (kin__extra_cleanups(task) && !has_rested) /* the one it begins with */
        kin__lab_acquires(KIN__LAB_CLEANUP, task->extra->cleanups.table->arg, 1);
    kin__context_enter(&task->ctx, lender);
    /* Whether to begin at all is a look of its own: its first call comes later. */
    kin__lab_touch(&task->ctl, KIN__LAB_READ);
    if (has_rested || !(kin__word_requests(task) & (KIN__CANCEL | KIN__KILL)))
        rc = kin__call_clean_raw(&task->escape, task->fn, arg);
    if (rc == KIN__RESTING && kin__load_quiet(&task->waiting)) { /* alone: as above */
        kin__context_leave(&task->ctx, lender);
        rest(task, arg);
        return;
    }
    end_point(task);
    if (task->flags & KIN__TASK_EXTRA) {
        rc = worker->sched->owner->conclude(task, rc);
        end_point(task);
    }
    task->arg = arg; /* child_done wants it: it may be a copy */
    kin__context_leave(&task->ctx, lender);
    finish(task, rc);
}

/* A task that had not begun, or has rested, and for which there is no stack. */
static void fail_unrun(struct kin__worker *worker, struct kin__task *task)
{
    kin__worker_set_current(worker, task);
    if (kin__task_rests(task) && kin__extra_cleanups(task)) /* its only one, as it rests */
        KIN__LAB_LEAVES(KIN__LAB_CLEANUP, task->extra->cleanups.table->arg, 1);
    kin__store_quiet(&task->waiting, NULL); /* alone: there is one thread */
    task->flags |= KIN__TASK_FAILED;
    task->status = -ENOMEM;
    kin__word_move(task, KIN__RUNNING, KIN__DONE, KIN__BY_TASK);
    retire(worker, task);
    kin__worker_set_current(worker, NULL);
}

/* ---- switches ---- */

/* It is over, and what its end brings about is still being done, on its stack. */
static inline bool is_over(const struct kin__task *task)
{
    return kin__world.players[kin__player_of(task)].how.task != 0;
}

/* The same of a task that does not run; most have none such. */
static inline bool is_ending(const struct kin__task *task)
{
    return KIN__UNLIKELY(endings != 0) && is_over(task);
}

static inline struct kin__task *picked(struct kin__task *task)
{
    if (!is_ending(task))
        kin__word_move(task, KIN__RUNNABLE, KIN__RUNNING, KIN__BY_WORKER);
    return task;
}

/* The task that makes the next step; NULL: nobody does. */
static inline struct kin__task *next_task(void)
{
    struct kin__world *w = &kin__world;
    for (;;) { /* ends: one task fewer each time */
        struct kin__player *player = kin__world_next();
        if (!player) {
            w->current = KIN__WORLD_NOBODY;
            return NULL;
        }
        struct kin__task *task = player->task;
        if (player->is_woken) { /* it depends on whoever woke or made it */
            player->is_woken = false;
            if (kin__lab_gate.records)
                kin__lab_touch_slow((uintptr_t)&task->ctl, KIN__LAB_READ);
        }
        if (task->stack || !kin__lab_fault_happens(KIN_FAULT_OOM, "stack"))
            return task;
        fail_unrun(w->worker, picked(task));
    }
}

static void runner(void *pass);

/* A new flow for a task that was picked. NULL: there is no stack; the task has ended, and another
 * one must be picked. */
static __attribute__((noinline)) struct kin__context *new_flow(struct kin__worker *worker,
                                                               struct kin__task *task)
{
    struct kin__stack *stack = take_stack(task->stack_class);
    if (!stack) {
        fail_unrun(worker, task);
        return NULL;
    }
    kin__context_make(&stack->runner, stack->low, stack->base, runner);
    worker->fresh = task;
    kin__worker_set_current(worker, NULL);
    worker->stack = stack;
    return &stack->runner;
}

/* Where to go on with a task that was picked: its own flow, or a new one, or NULL. */
static inline struct kin__context *flow_of(struct kin__worker *worker, struct kin__task *task)
{
    if (KIN__UNLIKELY(!task->stack))
        return new_flow(worker, task);
    kin__worker_set_current(worker, task);
    worker->stack = task->stack;
    return is_ending(task) ? &task->stack->runner : &task->ctx;
}

/* The flow of whoever is next; NULL: it is self, on whose stack this runs. */
static inline __attribute__((always_inline)) struct kin__context *
next_flow(struct kin__worker *worker, struct kin__task *self)
{
    for (;;) { /* ends: one task fewer each time */
        struct kin__task *task = next_task();
        if (task && task == self) {
            kin__worker_set_current(worker, self);
            return NULL;
        }
        if (!task) {
            kin__worker_set_current(worker, NULL);
            worker->stack = NULL;
            return &worker->native;
        }
        struct kin__context *flow = flow_of(worker, picked(task));
        if (flow)
            return flow;
    }
}

/* The loop on a task stack; never returns, its last act is a jump. */
static void runner(void *pass)
{
    struct kin__worker *worker = pass;
    struct kin__task *task = worker->fresh;
    struct kin__stack *stack = worker->stack;
    worker->fresh = NULL;
    for (;;) { /* ends: with a jump, when the next task does not need this stack */
        run(worker, task, &stack->runner);
        task = next_task();
        if (!task || task->stack || task->stack_class > stack->class_ ||
            has_fresh(&stacks[task->stack_class]))
            break;
        picked(task);
    }
    struct kin__context *to = &worker->native;
    kin__worker_set_current(worker, NULL);
    worker->stack = NULL;
    give_stack(stack);
    if (task && task->stack)
        to = flow_of(worker, picked(task));
    else
        worker->fresh = task; /* NULL, or one that needs another stack: for the native loop */
    kin__context_jump(&stack->runner, to, worker);
}

void kin__lab_parks(const void *cases, uint32_t count)
{
    struct kin__world *w = &kin__world;
    struct kin__task *task = w->is_running ? kin__worker_current(w->worker) : NULL;
    if (!task)
        return; /* a thread's stand-in */
    struct kin__player *player = &w->players[kin__player_of(task)];
    player->cases = cases;
    player->case_count = count;
    player->arrived = ++w->arrivals;
}

void kin__worker_park(struct kin__task *task)
{
    struct kin__worker *worker = kin__world.worker;
    if (kin__word_is_ready(task))
        return; /* whoever woke it was faster */
    commit(task);
    struct kin__context *to = next_flow(worker, task);
    if (to)
        (void)kin__context_switch(&task->ctx, to, worker);
    else
        picked(task); /* the clock has woken it, and nobody else came first */
}

/* The running task stays runnable, and whoever is picked goes on. */
static inline __attribute__((always_inline)) void offer(struct kin__task *task)
{
    struct kin__worker *worker = kin__world.worker;
    KIN__ASSERT(kin__rank_holds_none(), "house");
    look_at_stack(task, "before this call");
    kin__world.players[kin__player_of(task)].switches++;
    struct kin__context *to = next_flow(worker, task);
    if (!to)
        return;
    kin__word_move(task, KIN__RUNNING, KIN__RUNNABLE, KIN__BY_TASK);
    (void)kin__context_switch(&task->ctx, to, worker);
}

void kin__lab_ends(void)
{
    struct kin__world *w = &kin__world;
    struct kin__worker *worker = w->worker;
    struct kin__task *task = w->is_running ? kin__worker_current(worker) : NULL;
    if (!task || w->current != kin__player_of(task) || !is_over(task) || !task->stack ||
        !kin__lab_gate.touched || w->is_single)
        return;
    KIN__ASSERT(kin__rank_holds_none(), "house");
    KIN__ASSERT(worker->stack == task->stack, "house");
    endings++;
    struct kin__context *to = next_flow(worker, task);
    if (to) /* the task's own flow is over: what is left is the runner's */
        (void)kin__context_switch(&task->stack->runner, to, worker);
    endings--;
}

void kin__lab_point_slow(bool may_fail)
{
    struct kin__world *w = &kin__world;
    struct kin__task *task = w->is_running ? kin__worker_current(w->worker) : NULL;
    if (!task || w->current != kin__player_of(task)) {
        kin__lab_gate.touched = 0;
        return; /* the host or the clock */
    }
    /* relaxed: its own; a door inside of a park, such as that of a condition's mutex, is none */
    bool is_door = kin__load_relaxed(&task->ctl) & KIN__CLAIMED;
    /* else it is here for the record, or for a fault */
    if (is_door && kin__lab_gate.touched && !w->is_single)
        offer(task);
    kin__record(kin__player_of(task), KIN__NOTE_CALL, KIN__NOTE_NOBODY, NULL, NULL);
    if (KIN__UNLIKELY(w->faults) && is_door)
        kin__lab_fault_point(may_fail);
}

bool kin__lab_walks(const struct kin__walk *walk)
{
    struct kin__world *w = &kin__world;
    if (!w->is_running || w->is_single || w->current == KIN__WORLD_NOBODY ||
        !kin__world_walk_tells(walk))
        return false;
    struct kin__task *task = kin__worker_current(w->worker);
    const struct kin__player *player = &w->players[w->current];
    /* It runs: it is neither over, nor parked while a fault cancels it, nor woken by that fault. */
    bool is_task = task && w->current == kin__player_of(task) && !player->how.task &&
                   player->place != KIN__WORLD_NOBODY && !player->is_woken;
    if (is_task)
        offer(task);
    else
        kin__world_walk(walk);
    return !is_task;
}

/* The body has returned, or its cleanups have: the rest of the task is a step of its own. */
static void end_point(struct kin__task *task)
{
    if (kin__lab_gate.touched && !kin__world.is_single)
        offer(task);
    if (KIN__UNLIKELY(kin__world.faults))
        kin__lab_fault_point(false);
}

void kin__worker_yield(struct kin__task *task)
{
    struct kin__world *w = &kin__world;
    if (w->engine && !w->is_closed)
        kin__engine_yield(w->engine);
    offer(task);
    kin__record(kin__player_of(task), KIN__NOTE_CALL, KIN__NOTE_NOBODY, NULL, NULL);
    if (KIN__UNLIKELY(w->faults))
        kin__lab_fault_point(true);
}

struct kin__task *kin__worker_take_child(struct kin__worker *worker, const struct kin__scope *scope)
{
    (void)worker;
    (void)scope;
    return NULL; /* whoever joins parks: its children are tasks like any other */
}

void kin__worker_run_here(struct kin__task *host, struct kin__task *child)
{
    (void)host;
    (void)child;
    KIN__CHECK(false, "house: no child is taken in the lab");
}

void kin__entry_overflow(struct kin__task *task)
{
    const volatile char *guard = task->low - 1;
    KIN__CHECK(task->stack->is_guarded, "SCHED:5.3.3: the task's stack is full");
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

void kin__lab_abort(const char *text)
{
    struct kin__world *w = &kin__world;
    struct kin__worker *worker = w->worker;
    if (!w->is_running || !worker->stack)
        return; /* the host's own affair */
    kin__self_set(worker); /* a blocking call has none: lab/offload.c */
    kin__world_fail("check", KIN_PANICKED, kin__player_path(w->current), text);
    w->is_closed = w->is_killed = w->is_lost = true; /* whoever is here is never gone on with */
    struct kin__stack *stack = worker->stack;
    kin__worker_set_current(worker, NULL);
    worker->stack = NULL;
    worker->fresh = NULL;
    kin__rank_forget();
    kin__context_jump(&stack->runner, &worker->native, worker);
}

/* ---- the native loop ---- */

void kin__worker_main(struct kin__worker *worker)
{
    struct kin__world *w = &kin__world;
    kin__self_set(worker);
    kin__context_adopt(&worker->native);
    w->is_running = true;
    w->is_search = w->engine && kin__engine_is_search(w->engine) && !w->is_closed;
    worker->fresh = NULL;
    for (;;) { /* ends: when nobody is next */
        struct kin__task *task = worker->fresh; /* left over: it needs a larger stack, or any */
        worker->fresh = NULL;
        struct kin__context *to =
            task ? flow_of(worker, picked(task)) : next_flow(worker, NULL);
        if (!to)
            continue;
        if (to == &worker->native)
            break;
        (void)kin__context_switch(&worker->native, to, worker);
    }
    w->is_running = w->is_search = false;
    kin__lab_gate.records = 0;
    kin__context_drop(&worker->native);
    kin__self_set(NULL);
}
