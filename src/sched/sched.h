/* SPDX-License-Identifier: MIT */
/*
 * A runtime's scheduler: its workers, the global queue, who sleeps and who searches.
 */
#ifndef KIN_SCHED_SCHED_H
#define KIN_SCHED_SCHED_H

#include "base/lock.h"
#include "sched/inject.h"
#include "sched/policy.h"
#include "sched/source.h"
#include "sched/worker.h"

#include <kin/run.h>

struct kin__tape;

#define KIN__SCALE_LOG 32u /* scale decisions kept */

/* Why the number of workers changed, or did not [EP:7.3]. */
enum kin__scale_reason {
    KIN__SCALE_START,    /* the base workers */
    KIN__SCALE_RESCUE,   /* a stuck worker's queue was handed to the others */
    KIN__SCALE_REPLACE,  /* a stuck worker was given a replacement */
    KIN__SCALE_AT_LIMIT, /* it would have been, but workers_max are alive */
    KIN__SCALE_NO_THREAD, /* it would have been, but no thread could be started */
    KIN__SCALE_RETIRE,   /* a replaced worker came back, drained and retired */
    KIN__SCALE_LOST      /* a task ended the thread of a worker */
};
struct kin__scale_event {
    int64_t when;
    enum kin__scale_reason reason;
    uint16_t worker, other; /* whom it concerns; the replacement */
    uint32_t moved;         /* tasks handed over */
    int64_t stuck_ns;
    int64_t pressure;
    uint64_t task;          /* what the stuck worker runs */
};

/* What came of a look at a worker that was at work: a replacement was started, or why not. */
enum kin__gate {
    KIN__GATE_PROMOTED,      /* it was blocked, tasks waited, nobody was idle: a worker started */
    KIN__GATE_AT_LIMIT,      /* the same, but workers_max were alive */
    KIN__GATE_NO_THREAD,     /* the same, but no thread could be started */
    KIN__GATE_NOT_STUCK,     /* it had moved since, or has not stood for the threshold */
    KIN__GATE_COMPUTES,      /* it stood, but its thread used a CPU or waited for one */
    KIN__GATE_NO_WORK,       /* it was blocked, and nobody waited for it */
    KIN__GATE_IDLE_CAPACITY, /* it was blocked, and somebody slept who could be woken */
    KIN__GATE_NONPOSITIVE,   /* it was blocked, but the others had taken all that it had by then */
    KIN__GATE_COUNT
};

/* What the monitor has seen and decided so far [EP:7.3]. The monitor writes it, anybody reads. */
struct kin__scaling {
    kin__a64 positive, negative;  /* looks that found such a pressure */
    kin__a64 negative_streak_max; /* most such looks in a row */
    kin__a64 gate[KIN__GATE_COUNT];
    /* of the monitor alone */
    uint64_t negative_streak;
    uint32_t negative_still; /* looks of the streak since which nobody has moved */
    uint64_t progress;       /* of all workers, behind the last look at the pressure */
};

/* Hard modes: debug builds read KIN_HARD, a list of words, so that rare paths become common ones:
 * every wait parks, every spawn is stolen, one worker, indices start near their overflow, random
 * delays at picks, small stacks; and oom=n: the n-th request for memory or a thread fails. */
struct kin__hard {
    bool park, steal, one, wrap, slow, stack;
};

struct kin__sched {
    /* constant after create */
    struct kin__worker *workers; /* workers_max of them */
    unsigned workers_base, workers_max;
    const struct kin__policy *policy;
    const struct kin__owner_ops *owner;
    const struct kin__source *source;
    struct kin__tape *tape; /* NULL: it is not recorded */
    struct kin_config config;
    unsigned stack_class;
    struct kin__scope *root; /* the nursery of its first task, and of tasks of its own */
    uint16_t number; /* among the runtimes of the process; see kin__scheds */
    uint16_t slice;  /* operations per slice: the yield interval [SCHED:4.3.1] */
    struct kin__birth birth; /* what its tasks begin with */
    struct kin__hard hard;
    bool is_strong; /* no membarrier: see bias.h */

    /* who is out of work: see KIN__IDLE_SEARCHER; anyone compare-exchanges */
    _Alignas(KIN__LINE) kin__a32 idle;
    kin__a32 is_stopping;
    kin__a32 alive;          /* workers with a thread */
    kin__a32 visitors;       /* others in push_outside, lost ones in lose: it must stay */
    kin__a64 pushed_outside; /* tasks made runnable by others than its workers */
    kin__a64 spawned_outside;
    kin__a64 leaks; /* obligations that nobody ended */

    struct kin__inject inject;
    struct kin__stack_pool stacks;

    _Alignas(KIN__LINE) struct kin__lock pool_lock; /* rank POOL; the rest */
    struct kin__worker *sleepers;                   /* newest first */
    uint32_t started, replaced;
    uint32_t missing; /* lost workers for which no thread could be started */
    kin__a64 wakes;
    struct kin__scale_event scale_log[KIN__SCALE_LOG];
    uint32_t scale_count;
    struct kin__scaling scaling;

    struct kin__thread monitor;
    kin__a32 monitor_wake; /* futex */
    kin__a32 monitor_deep; /* it sleeps until somebody works */
    /* a worker was replaced once: others look after all timers from then on */
    kin__a32 has_stuck;
    _Atomic(const struct kin__outside *) io; /* NULL: nobody ever waited for anything outside */
    void *io_state;                          /* its own; written before io */
    _Atomic(void *) names; /* otp's, under which tasks are found; NULL: there never was one */
    kin__a32 is_polled;                      /* somebody is in io->poll; how: see idle.c */
    kin__ai64 polled_at;                     /* when somebody last was */
    bool stands;       /* the monitor's: all workers were blocked at its last look */
    int64_t stand_due; /* the monitor's: when it may say that again */
    uint64_t dead_progress; /* the monitor's: what had been done when it last called it dead */
};

/* Runtimes by number: a task carries that, because its second line has no room for a pointer. */
#define KIN__SCHEDS_MAX 4096u
extern _Atomic(struct kin__sched *) kin__scheds[KIN__SCHEDS_MAX];

/* The runtime of a task that is not over. */
static inline struct kin__sched *kin__task_sched(const struct kin__task *task)
{
    return kin__load_quiet(&kin__scheds[task->runtime]); /* relaxed: constant while it lives */
}

/* ---- life ---- */

/* 0, or -EINVAL for a config that makes no sense. */
int kin__config_check(const struct kin_config *config);
/* Fills in the config of a scheduler that is being made, and what follows from it alone; given may
 * be NULL. 0, -EINVAL, KIN_UNSUPPORTED. */
int kin__config_fill(struct kin__sched *sched, const struct kin_config *given);
/* Checks config, allocates, starts nothing. 0, -EINVAL, -ENOMEM. */
int kin__sched_create(const struct kin_config *config, const struct kin__owner_ops *owner,
                      const struct kin__source *source, struct kin__sched **out);
/* Starts the other workers and the monitor, runs the calling thread as worker 0 until
 * kin__sched_stop, ends and joins the threads. 0 or why a thread could not be started. */
int kin__sched_run(struct kin__sched *sched, struct kin__task *first);
/* From any worker, when the last task is over. */
void kin__sched_stop(struct kin__sched *sched);
void kin__sched_destroy(struct kin__sched *sched);

/* ---- the four functions of 002 section 3.1: schedule here, worker_next in worker.h, wait and wake
 * in park/park.h ---- */

/* Puts a runnable task into a queue, exactly once: the caller's worker's when it is one of this
 * runtime, the global one otherwise [F2] [F4]. */
void kin__schedule(struct kin__task *task);
/* The same, behind all that were woken before: for a waker whose order is seen, such as time. */
void kin__schedule_last(struct kin__task *task);
/* Whether somebody may be idle, asked by an owner that has pushed: one load of a word that hardly
 * ever changes while all are busy, and no fence; whoever sleeps for good makes all pass one. */
static inline bool kin__worker_has_company(const struct kin__worker *worker)
{
    kin__fence_light(); /* fence: the push before idle; its mirror: is_private_somewhere, idle.c */
    return KIN__UNLIKELY(kin__load_relaxed(&worker->sched->idle) != 0); /* relaxed: as above */
}

/* A new task of the running worker: the newest in its deque. */
static inline void kin__worker_push_new(struct kin__worker *worker, struct kin__task *task)
{
    kin__bias_take(&worker->bias);
    if (KIN__UNLIKELY(!kin__deque_push(&worker->deque, task)))
        kin__worker_push_spilling(worker, task);
    KIN__CHANGE(worker->backlog, 1);
    KIN__CHANGE(worker->live, 1);
    kin__bias_give(&worker->bias);
    if (kin__worker_has_company(worker))
        kin__worker_offer(worker);
}

/* The same for a task that has just been made, with worker the caller's, NULL outside of one. */
void kin__schedule_new_slow(struct kin__task *task);
static inline void kin__schedule_new(struct kin__worker *worker, struct kin__task *task)
{
    kin__word_move(task, KIN__INIT, KIN__RUNNABLE, KIN__BY_SPAWNER);
#ifdef KIN__LAB
    (void)worker; /* it has no queues */
#else
    if (KIN__LIKELY(worker && kin__worker_owns(worker, task) && !worker->sched->hard.steal))
        kin__worker_push_new(worker, task);
    else
#endif
        kin__schedule_new_slow(task);
}

/* ---- idle workers (idle.c) ---- */

/* The word of idle workers. 0: nobody is idle, and whoever makes something runnable need not care.
 * A sleeper that naps looks around by itself within a millisecond; one that does not is woken or
 * sleeps on. Without membarrier the last bit is always set, so that everybody fences. */
#define KIN__IDLE_SEARCHER 1u      /* at most one */
#define KIN__IDLE_NAP 2u           /* each of the sleepers that naps */
#define KIN__IDLE_SLEEPER (1u << 16)
#define KIN__IDLE_STRONG (1u << 31)

static inline uint32_t kin__idle_sleepers(uint32_t idle)
{
    return (idle & ~KIN__IDLE_STRONG) >> 16;
}

static inline uint32_t kin__idle_naps(uint32_t idle)
{
    return (idle & 0xffff) >> 1;
}

#define KIN__SPIN_LAST_NS 32000 /* the longest moment that is spun */

/* Wakes one sleeper if nobody searches. The caller has published work before. */
void kin__idle_wake_one(struct kin__sched *sched);
void kin__idle_wake_all(struct kin__sched *sched);
/* True when somebody sleeps and nobody searches: whoever has more than it runs should share. */
static inline bool kin__idle_wants(struct kin__sched *sched)
{
    uint32_t idle = kin__load_relaxed(&sched->idle); /* relaxed: asked again at the next pick */
    return kin__idle_sleepers(idle) != 0 && !(idle & KIN__IDLE_SEARCHER);
}
/* True when somebody sleeps and nobody will look around soon: whoever keeps something for itself to
 * run next, and may be long about it, wakes one. */
static inline bool kin__idle_is_unwatched(struct kin__sched *sched)
{
    uint32_t idle = kin__load_relaxed(&sched->idle); /* relaxed: at worst the monitor notices */
    return kin__idle_sleepers(idle) != 0 && (idle & 0xffff) == 0;
}
/* Searches, backs off, sleeps: returns with a task, or NULL when the worker must look around
 * (a timer is due, it was woken, the runtime stops). */
struct kin__task *kin__idle_wait(struct kin__worker *worker);

/* The next moment of sleep of a worker without work, four times the one before; negative: for
 * good [SCHED:7.4.2]. */
int64_t kin__idle_moment(struct kin__worker *worker, bool is_searcher);
/* Gets a worker up that sleeps, wherever it does. */
void kin__idle_wake_worker(struct kin__worker *worker);
/* Polls what is outside without waiting, unless somebody does already. How much it woke. */
uint32_t kin__idle_poll(struct kin__sched *sched, int64_t now);

/* ---- stealing (steal.c) ---- */

/* One bounded round over victims; puts all but one of what it got into the worker's deque. */
struct kin__task *kin__steal_round(struct kin__worker *thief);
/* Whether the global queue or the public part of a deque has something. */
bool kin__steal_is_visible(struct kin__sched *sched);
/* Whether any other worker or the global queue has something runnable, visible or not. */
bool kin__steal_is_worth(struct kin__worker *thief);
/* Searcher: notes how far each of the others is that has work which only it can see. False: nobody
 * has. */
bool kin__steal_watch(struct kin__worker *thief);
/* Searcher: opens the queue of one that has not moved since, and takes from it; NULL: all have, or
 * have nothing any more. */
struct kin__task *kin__steal_open(struct kin__worker *thief);

/* ---- the pool (pool.c) ---- */

/* Starts the thread of a dead worker. Under the pool's lock once the monitor runs. */
int kin__pool_start_locked(struct kin__sched *sched, struct kin__worker *worker);
/* Notes a scale decision. Under the pool's lock. */
void kin__pool_note_locked(struct kin__sched *sched, const struct kin__scale_event *event);
/* The thread of a worker ends here: its memory goes to the pools, its slot is free. */
void kin__pool_retire(struct kin__worker *worker);
/* The thread of a worker has ended, or is about to, in the middle of a task: reports that, hands
 * on what the worker has and starts another thread in its place. */
void kin__pool_lose(struct kin__worker *worker);
/* The monitor thread: finds stuck workers, rescues their queues, replaces them, trims stacks. */
void kin__monitor_main(void *sched);
void kin__monitor_poke(struct kin__sched *sched);
/* One look of the monitor at time now. True: every worker has moved since the one before. */
bool kin__monitor_look(struct kin__sched *sched, int64_t now);

/* Runnable tasks waiting in all queues, about; signed because the counters are read one after the
 * other [EP:7.1]. */
int64_t kin__sched_pressure(struct kin__sched *sched);

#endif
