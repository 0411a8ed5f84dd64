/* SPDX-License-Identifier: MIT */
/*
 * A worker: a thread that runs tasks, with the queues it takes them from [SCHED:6.1.1].
 *
 * Runnable tasks stand in six places, looked at in this order:
 *
 *     slot      the first task woken in this slice: hot, runs next, bounded by a streak
 *     deque     tasks that have not begun, newest first; the one place thieves can reach
 *     ready     tasks that were woken, oldest first; takes turns with the deque
 *     (global)  the queue of the runtime
 *     yielded   tasks that yielded, oldest first: behind everything else, or a yielding task would
 *               starve whoever it waits for; and woken ones of low priority
 *     (others)  what can be stolen
 *
 * Every few dozen picks (the seed says how many) the order is turned round for one pick and the
 * clock, the timers and the global queue are looked at, so that nothing waits for ever.
 *
 * Tasks run on a loop that itself runs on a task stack and calls them. A task that never parks
 * borrows that stack and leaves it as it found it. When a task parks, the stack leaves with it, and
 * whoever is next continues: a parked task by a switch to its stack, a new one by a fresh loop on a
 * recycled stack, nobody by the worker's own thread stack, which looks further and sleeps.
 *
 *     thread stack:  native loop      task stack:  runner -> task
 *                                                  runner -> task -> join -> child -> ...
 */
#ifndef KIN_SCHED_WORKER_H
#define KIN_SCHED_WORKER_H

#include "base/atomic.h"
#include "base/rng.h"
#include "mem/frame.h"
#include "mem/stack.h"
#include "plat/context.h"
#include "plat/plat.h"
#include "sched/bias.h"
#include "sched/deque.h"
#include "task/task.h"
#include "task/word.h"

/* Worker states of 002 section 6 [WK:6.1]. */
enum kin__worker_state {
    KIN__WORKER_DEAD = 0, /* no thread; the slot can be started */
    KIN__WORKER_ACTIVE,
    KIN__WORKER_IDLE_SPIN,
    KIN__WORKER_SLEEP,
    KIN__WORKER_DRAINING /* was replaced: hands its queue over and retires after its slice */
};

/* What others ask of a worker; it looks at its next pick. */
#define KIN__HUNGRY 1u /* a thief wants something published */
#define KIN__DRAIN 2u  /* it was replaced: hand everything over and retire */
#define KIN__TAPED 4u  /* what it does is written down: tape.h; constant while it runs */

/* The number that a worker has in place of its runtime's when that is recorded, or when the worker
 * drains: no task has it, so that whatever becomes runnable takes the long way, where it is noted,
 * or goes to the others. */
#define KIN__RUNTIME_NONE UINT16_MAX

/* A FIFO of tasks linked by next. Owner, or monitor with the bias; others peek at the head. */
struct kin__fifo {
    _Atomic(struct kin__task *) head;
    struct kin__task *tail;
};

struct kin__worker {
    /* owner only */
    struct kin__sched *sched;
    _Atomic(struct kin__task *) current; /* what runs now, NULL between tasks; the monitor looks */
    struct kin__stack *stack;      /* the stack it runs on; NULL: the thread's own */
    /* the task whose stack was just left; whoever lands commits it */
    struct kin__task *leaving;
    kin__a32 countdown;            /* picks until the order is turned round; the monitor reads it */
    uint16_t streak;               /* picks from the slot in a row */
    uint16_t firsts;               /* woken tasks that went before others, in a row */
    bool flips;                    /* whose turn it is: deque or ready */
    bool has_chores;               /* left_stack or wakes */
    bool wakes;                    /* something was shared: wake a sleeper */
    bool is_caller;                /* the thread that called kin_run: not ours to end */
    uint16_t index;
    kin__a16 runtime; /* number of the runtime, as its tasks have it; or _NONE; the monitor too */
    uint16_t child_turns;          /* turns that a join has put off */
    /* 1: some stacks have no guard of their own; whoever takes the first of them, then constant */
    kin__a32 has_bare;
    struct kin__stack *left_stack; /* a stack whose loop ended; given back by whoever lands */
    struct kin__task *fresh;       /* handed to a new loop */
    struct kin__stack *spare;      /* handed to a task that overflowed: see scope/overflow.c */
    uintptr_t fault_pc;            /* where that task has overflowed */
    struct kin__stack *bare;       /* the stack it runs on, if that has no guard of its own */

    /* owner, or the monitor while it holds the bias */
    _Alignas(KIN__LINE) struct kin__bias bias;
    _Atomic(struct kin__task *) slot; /* others peek */
    struct kin__fifo ready, yielded;
    kin__ai64 backlog; /* made runnable here minus picked here; others read it */
    /* of the owner alone: tasks that began to wait for something outside of the process here minus
     * those that went on here; the monitor adds them up */
    kin__ai64 outside;

    /* owner only, again */
    struct kin__frame_cache blocks[KIN__FRAME_KINDS]; /* frames of each kind */
    struct kin__task *freed[4];     /* the last ones freed, in turn: see retire in worker.c */
    uint32_t freed_at;
    struct kin__context native;     /* the thread's own flow */
    uint32_t interval;              /* what countdown was set to last */
    uint32_t victim_next;           /* for round-robin */
    uint64_t seen_outside;          /* what others had pushed when it last ran out of work */
    uint64_t yield_due;             /* the pick from which on yielded takes part in turned picks */
    uint32_t spin_ns;               /* the longest moment a search of its own spins; see idle.c */
    uint32_t moment_ns;             /* how long it slept last, since it had no work; 0: it has */
    int64_t now;                    /* the clock as last read */
    struct kin__rng rng;
    struct kin__stack_cache stacks;

    struct kin__deque deque;

    /* owner writes, others read */
    _Alignas(KIN__LINE) kin__a64 slices; /* tasks picked, up to the last look around */
    kin__a64 steals;
    kin__a64 stolen;
    kin__a64 steals_failed; /* victims that had nothing to take, or were robbed by others */
    kin__ai64 live;          /* spawned here minus ended here */
    kin__a32 is_polling;     /* busy with timers, which may take a while when very many are due */
    kin__ai64 next_deadline; /* of its timers; KIN_NEVER: none. Under the wheel's lock */
    void *timers;            /* the wheel; wait/timer.c */

    /* others write */
    _Alignas(KIN__LINE) kin__a32 attention; /* KIN__HUNGRY and the like */
    kin__a32 wake;                          /* futex: 1 while a wake is due */
    kin__a32 is_outside;                    /* it sleeps in the poll of what is outside */
    kin__a32 state;                         /* enum kin__worker_state */
    kin__a32 steal_enabled;                 /* 0: it takes nothing from others; see pool.c */
    bool is_listed;                         /* among the sleepers; under the pool's lock */
    bool is_napping;                        /* and gets up by itself soon; under the pool's lock */
    struct kin__worker *sleeper_next;       /* under the pool's lock */
    struct kin__thread thread;              /* under the pool's lock */

    /* the searcher's, of whom there is one */
    uint64_t watched_progress;
    bool is_watched;

    /* the monitor's */
    uint64_t seen_progress;
    uint64_t seen_refusal; /* the progress at which it last had no replacement for it */
    int64_t seen_since; /* when it was first seen to have come this far */
    int64_t seen_at;    /* when it was last looked at, */
    int64_t seen_cpu;   /* and the CPU time of its thread then */
    int64_t awake_at;   /* when it was last seen not to sleep */
    uint32_t conduct; /* of the last look: see monitor.c */
    kin__a32 is_replaced;
};

/* A number that changes whenever the worker picks or pushes a task; from any thread. */
static inline uint64_t kin__worker_progress(const struct kin__worker *worker)
{
    /* relaxed: two counters of the owner, each a moment old */
    uint64_t picks = kin__load_relaxed(&worker->slices) * 64;
    picks += kin__load_relaxed(&worker->countdown);                  /* relaxed: as above */
    uint64_t pushes = (uint64_t)kin__load_relaxed(&worker->backlog); /* relaxed: as above */
    /* A task that spawns in a long slice is not stuck. The factor is so large that no number of
     * pushes makes up for a pick. */
    return picks * 0x9e3779b97f4a7c15 + pushes;
}

/* Whether the task belongs to the worker's runtime, and is taken by the worker itself. */
static inline bool kin__worker_owns(const struct kin__worker *worker, const struct kin__task *task)
{
    return kin__load_quiet(&worker->runtime) == task->runtime; /* relaxed: see replace, monitor.c */
}

/* The calling thread's worker; NULL elsewhere. Ask again after everything that may switch. */
static inline struct kin__worker *kin__worker_self(void)
{
    return kin__self_get();
}

static inline struct kin__task *kin__worker_current(struct kin__worker *worker)
{
    return kin__load_quiet(&worker->current); /* alone: the owner's own; the monitor reports */
}

static inline void kin__worker_set_current(struct kin__worker *worker, struct kin__task *task)
{
    kin__store_quiet(&worker->current, task); /* alone: as above */
}

/* The running task; NULL outside one. */
static inline struct kin__task *kin__task_self(void)
{
    struct kin__worker *worker = kin__worker_self();
    return worker ? kin__worker_current(worker) : NULL;
}

static inline void kin__fifo_push(struct kin__fifo *fifo, struct kin__task *task)
{
    task->next = NULL;
    if (kin__load_relaxed(&fifo->head)) /* alone: the owner's own */
        fifo->tail->next = task;
    else
        kin__store_relaxed(&fifo->head, task); /* relaxed: others only peek whether it is NULL */
    fifo->tail = task;
}

/* In front of the others. */
static inline void kin__fifo_push_first(struct kin__fifo *fifo, struct kin__task *task)
{
    task->next = kin__load_relaxed(&fifo->head); /* alone: the owner's own */
    if (!task->next)
        fifo->tail = task;
    kin__store_relaxed(&fifo->head, task); /* relaxed: others only peek */
}

/* What will be needed soon. Of a queue of tasks that have begun: the stack of the next one, whose
 * frame the pop before this one has fetched, and the frame behind it; with many of them all are
 * cold, and each would cost half a dozen misses in a row. A stack is used from a little below where
 * it was left: there the pick runs that leaves it again. A task that has not begun may know one
 * that is further behind: see spill in worker.c. Always inline: gcc 12 takes a function that only
 * fetches for one without effect and drops the calls. */
static inline __attribute__((always_inline)) void kin__fifo_warm(struct kin__task *task,
                                                                 struct kin__task *next)
{
    if (KIN__UNLIKELY(!task->stack)) {
        uintptr_t warm = (uintptr_t)task->ctx.sp;
        __builtin_prefetch((void *)warm);
        __builtin_prefetch((void *)(warm + 64));
    } else if (next) {
        const char *sp = next->stack ? next->ctx.sp : NULL;
        uintptr_t after = (uintptr_t)next->next;
        for (int line = -3; sp && line < 6; line++)
            __builtin_prefetch(sp + (int)KIN__LINE * line);
        __builtin_prefetch((void *)after);
        __builtin_prefetch((void *)(after + KIN__LINE));
    }
}

static inline struct kin__task *kin__fifo_pop(struct kin__fifo *fifo)
{
    struct kin__task *task = kin__load_relaxed(&fifo->head); /* alone: the owner's own */
    if (task) {
        struct kin__task *next = task->next;
        kin__store_relaxed(&fifo->head, next); /* relaxed: as in push */
        kin__fifo_warm(task, next);
    }
    return task;
}

/* ---- taking part in a slice: called by the running task ---- */

/* Leaves the running task, which has begun a park and published it; returns when it was woken. */
void kin__worker_park(struct kin__task *task);
/* Puts the running task behind everything runnable; returns when its turn comes. */
void kin__worker_yield(struct kin__task *task);
/* The slow half of kin__worker_push_new: makes room in a full ring and pushes. With the bias
 * held. */
void kin__worker_push_spilling(struct kin__worker *worker, struct kin__task *task);
/* Something was pushed while somebody is idle: makes it visible and wakes at most one [E5]. */
void kin__worker_offer(struct kin__worker *worker);

/* A counter that its owner alone changes. */
#define KIN__CHANGE(counter, by) /* alone: others only read it */                                  \
    kin__store_relaxed(&(counter), kin__load_relaxed(&(counter)) + (by))

/* The running task waits for something outside of the process, by 1, or goes on, by -1, wherever it
 * does: as long as one waits, no sleep of all workers is a deadlock [A13]. */
static inline void kin__worker_outside(int64_t by)
{
    struct kin__worker *worker = kin__worker_self();
    int64_t outside = kin__load_quiet(&worker->outside); /* alone: the owner's own */
    /* pairs with the load in is_dead: who sees that a task went on sees that it was picked */
    kin__store_release_quiet(&worker->outside, outside + by);
}

/* A task that was woken by the running worker. */
void kin__worker_push_ready(struct kin__worker *worker, struct kin__task *task);
/* The same, behind all that were woken before. */
void kin__worker_push_last(struct kin__worker *worker, struct kin__task *task);
/* The newest task of the deque if it is a child of scope that has not begun; NULL otherwise. */
struct kin__task *kin__worker_take_child(struct kin__worker *worker,
                                         const struct kin__scope *scope);
/* Runs such a child on the stack of the running task, until it is over or rests. Whether the stack
 * can lend is the caller's question. */
void kin__worker_run_here(struct kin__task *host, struct kin__task *child);
/* The worker's thread has ended in the middle of its task: that fails with KIN_WORKER, on another
 * thread, and all that the worker holds goes to the others. On the thread as it ends, or later. */
void kin__worker_abandon(struct kin__worker *worker);
/* Ends the body of the running task from any depth, with task->status. */
_Noreturn void kin__worker_escape(struct kin__task *task);

/* ---- the loop ---- */

/* A thread's whole life as a worker; returns when the runtime stops or the worker retired. */
void kin__worker_main(struct kin__worker *worker);
/* Local, then global: the next task to run; NULL when neither has one. Counts a slice. */
struct kin__task *kin__worker_next(struct kin__worker *worker);
/* Everything runnable the worker holds goes to the global queue. Owner, or monitor with the
 * bias. */
uint32_t kin__worker_drain(struct kin__worker *worker);
/* Makes something that the worker keeps to itself stealable, what it would run next too. Not the
 * owner, with the bias. */
void kin__worker_open(struct kin__worker *worker);
/* How many runnable tasks it holds, about. */
uint64_t kin__worker_load(struct kin__worker *worker);

#endif
