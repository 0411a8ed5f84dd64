/* SPDX-License-Identifier: MIT */
/*
 * A scheduler's life: create, start, run, stop, destroy; and the way into its queues.
 */
#include "sched/sched.h"

#include "base/bits.h"
#include "sched/tape.h"
#include "task/bill.h"
#include "task/budget.h"

#include <errno.h>
#include <string.h>

/* ---- the way in ---- */

/* From a thread that is none of its workers. As soon as the task is in the queue it may run, and be
 * the last one: the runtime ends, but is not destroyed before its visitors have left. */
static void push_outside(struct kin__sched *sched, struct kin__task *task)
{
    (void)kin__add_relaxed(&sched->visitors, 1u);       /* relaxed: released by the queue's lock */
    (void)kin__add_relaxed(&sched->pushed_outside, 1u); /* alone: a counter */
    if (KIN__UNLIKELY(sched->tape != NULL))
        kin__tape_pushed(sched, task, false);
    kin__inject_push(&sched->inject, task, task, 1);
    kin__idle_wake_one(sched);
    (void)kin__sub_acq_rel(&sched->visitors, 1u); /* pairs with the load in wait_for_visitors */
}

/* Notes a task that is about to become runnable. The caller's worker, if that is where it goes;
 * NULL: it goes to the global queue, as it does from a worker that drains [A12]. */
static struct kin__worker *note_local(struct kin__sched *sched, const struct kin__task *task)
{
    struct kin__worker *worker = kin__worker_self();
    if (KIN__LIKELY(!sched->tape) || !worker || worker->sched != sched ||
        (kin__load_relaxed(&worker->attention) & KIN__DRAIN)) /* relaxed: at worst it is emptied */
        return NULL;
    kin__tape_pushed(sched, task, false);
    return worker;
}

/* From outside of the task's runtime, or that is recorded; or there is none, and a plain thread
 * waits. Who has a task that belongs to the caller's worker after all gets that. */
static struct kin__worker *schedule_far(struct kin__task *task)
{
    if (task->flags & KIN__TASK_THREAD) {
        kin__store_release(&task->woken, 1u); /* pairs with the acquire in park/thread.c */
        kin__futex_wake(&task->woken, 1); /* frames stay mapped: at worst it wakes a stranger */
        return NULL;
    }
    struct kin__sched *sched = kin__task_sched(task);
    struct kin__worker *worker = note_local(sched, task);
    if (!worker)
        push_outside(sched, task);
    return worker;
}

/* Each has one argument, or the fast halves would pay for the second. */
static __attribute__((noinline)) void schedule_slow(struct kin__task *task)
{
    struct kin__worker *worker = schedule_far(task);
    if (worker)
        kin__worker_push_ready(worker, task);
}

static __attribute__((noinline)) void schedule_last_slow(struct kin__task *task)
{
    struct kin__worker *worker = schedule_far(task);
    if (worker)
        kin__worker_push_last(worker, task);
}

void kin__schedule(struct kin__task *task)
{
    struct kin__worker *worker = kin__worker_self();
    if (KIN__LIKELY(worker && kin__worker_owns(worker, task)))
        kin__worker_push_ready(worker, task);
    else
        schedule_slow(task);
}

void kin__schedule_last(struct kin__task *task)
{
    struct kin__worker *worker = kin__worker_self();
    if (KIN__LIKELY(worker && kin__worker_owns(worker, task)))
        kin__worker_push_last(worker, task);
    else
        schedule_last_slow(task);
}

void kin__schedule_new_slow(struct kin__task *task)
{
    struct kin__sched *sched = kin__task_sched(task);
    struct kin__worker *worker = sched->hard.steal ? NULL : note_local(sched, task);
    if (worker) {
        kin__worker_push_new(worker, task);
        return;
    }
    (void)kin__add_relaxed(&sched->spawned_outside, 1u); /* alone: a counter */
    push_outside(sched, task);
}

int kin__op_slow(struct kin__task *task, unsigned what, kin_time deadline)
{
    return kin__task_sched(task)->owner->op(task, what, deadline);
}

int kin__bill_take_slow(struct kin__bill *bill, struct kin__task *task)
{
    return kin__task_sched(task)->owner->bill(bill, task);
}

/* ---- numbers of runtimes ---- */

_Atomic(struct kin__sched *) kin__scheds[KIN__SCHEDS_MAX]; /* the 0th is nobody's */

/* A number that no other runtime has now; 0: all are taken. */
static uint16_t take_number(struct kin__sched *sched)
{
    for (unsigned i = 1; i < KIN__SCHEDS_MAX; i++) {
        struct kin__sched *nobody = NULL;
        /* alone: whoever has a task of the runtime got it from there */
        if (kin__cas_acq_rel(&kin__scheds[i], &nobody, sched))
            return (uint16_t)i;
    }
    return 0;
}

static void give_number(struct kin__sched *sched)
{
    kin__store_release(&kin__scheds[sched->number], NULL); /* alone: as in take_number */
}

/* ---- life ---- */

static int init_worker(struct kin__sched *sched, unsigned index)
{
    struct kin__worker *worker = &sched->workers[index];
    worker->sched = sched;
    worker->index = (uint16_t)index;
    worker->is_caller = index == 0;
    worker->victim_next = index;
    worker->spin_ns = KIN__SPIN_LAST_NS;
    for (unsigned kind = 0; kind < KIN__FRAME_KINDS; kind++)
        worker->blocks[kind].kind = kind;
    /* alone: not shared yet */
    kin__store_relaxed(&worker->runtime, sched->tape ? KIN__RUNTIME_NONE : sched->number);
    kin__rng_init(&worker->rng, sched->config.seed, index);
    kin__bias_init(&worker->bias, sched->is_strong);
    kin__deque_init(&worker->deque, sched->hard.wrap ? UINT32_MAX - 100 : 0);
    kin__store_relaxed(&worker->next_deadline, KIN_NEVER); /* alone: not shared yet */
    kin__store_relaxed(&worker->steal_enabled, 1u); /* alone: as above [SCHED:6.1.1] */
    worker->interval = sched->policy->interval(worker, 0);
    kin__store_relaxed(&worker->countdown, worker->interval); /* alone: not shared yet */
    return sched->source->init(worker);
}

int kin__sched_create(const struct kin_config *config, const struct kin__owner_ops *owner,
                      const struct kin__source *source, struct kin__sched **out)
{
    struct kin__sched *sched = kin__heap_alloc_lines(sizeof(*sched));
    if (!sched)
        return -ENOMEM;
    int rc = kin__config_fill(sched, config);
    if (rc < 0)
        goto fail_sched;
    sched->owner = owner;
    sched->source = source;
    sched->policy = kin__policy_for((int)sched->config.victim);
    sched->workers_base = sched->config.workers;
    sched->workers_max = sched->config.workers_max;
    sched->is_strong = !kin__membarrier_init();
    /* alone: not shared yet */
    kin__store_relaxed(&sched->idle, sched->is_strong ? KIN__IDLE_STRONG : 0u);
    kin__stack_pool_init(&sched->stacks);
    rc = -EAGAIN;
    if (!(sched->number = take_number(sched)))
        goto fail_sched;
    sched->birth = (struct kin__birth){.slice = sched->slice,
                                       .runtime = sched->number,
                                       .caps = KIN_CAP_ALL,
                                       .stack_class = (uint8_t)sched->stack_class};
    rc = kin__tape_open(sched);
    if (rc < 0)
        goto fail_number;
    rc = -ENOMEM;
    sched->workers = kin__heap_alloc_lines(sched->workers_max * sizeof(*sched->workers));
    if (!sched->workers)
        goto fail_tape;
    for (unsigned i = 0; i < sched->workers_max; i++) {
        rc = init_worker(sched, i);
        if (rc < 0)
            goto fail_workers;
    }
    *out = sched;
    return 0;

fail_workers:
    for (unsigned i = 0; i < sched->workers_max; i++)
        source->fini(&sched->workers[i]);
    kin__heap_free_lines(sched->workers);
fail_tape:
    kin__tape_close(sched);
fail_number:
    give_number(sched);
fail_sched:
    kin__heap_free_lines(sched);
    return rc;
}

void kin__sched_stop(struct kin__sched *sched)
{
    kin__store_release(&sched->is_stopping, 1u); /* pairs with the acquire in every loop's end */
    kin__fence_seq(); /* fence: stopping before the wakes; its mirror is in sleep_listed */
    kin__futex_wake(&sched->is_stopping, 1); /* the caller's thread, if it was lost */
    kin__idle_wake_all(sched);
    kin__store_release(&sched->monitor_wake, 1u); /* pairs with the load in monitor_pause */
    kin__futex_wake(&sched->monitor_wake, 1);
}

/* Threads of others may still be on their way out of push_outside, lost ones out of
 * kin__pool_lose. */
static void wait_for_visitors(struct kin__sched *sched)
{
    /* pairs with the subtractions there; ends: nothing is left to be pushed, nobody to be lost */
    while (kin__load_acquire(&sched->visitors))
        kin__thread_yield();
}

/* Ends and joins every thread that was started. */
static void join_threads(struct kin__sched *sched)
{
    if (sched->monitor.handle)
        kin__thread_join(&sched->monitor); /* first: it starts workers */
    wait_for_visitors(sched);              /* as does a thread that is lost */
    for (unsigned i = 0; i < sched->workers_max; i++) { /* the 0th is the caller's, unless lost */
        if (sched->workers[i].thread.handle)
            kin__thread_join(&sched->workers[i].thread);
    }
}

static int start_threads(struct kin__sched *sched)
{
    int rc = 0;
    /* Without the lock, which those that run already want in order to sleep: nobody else starts or
     * counts workers before the monitor and the first task do. */
    for (unsigned i = 0; rc == 0 && i < sched->workers_base; i++)
        rc = kin__pool_start_locked(sched, &sched->workers[i]);
    kin__lock_take(&sched->pool_lock, KIN__RANK_POOL);
    kin__pool_note_locked(sched, &(struct kin__scale_event){.when = kin__clock_now(),
                                                            .reason = KIN__SCALE_START});
    kin__lock_give(&sched->pool_lock, KIN__RANK_POOL);
    if (rc == 0 && sched->config.stall_threshold != KIN_NEVER)
        rc = kin__thread_start(&sched->monitor, kin__monitor_main, sched, (size_t)128 * 1024,
                               "kin-monitor");
    return rc;
}

/* Worker 0 was replaced and has retired: the calling thread waits until it is wanted again as a
 * worker (true) or the runtime stops (false). */
static bool wait_as_caller(struct kin__sched *sched)
{
    struct kin__worker *worker = &sched->workers[0];
    for (;;) { /* ends: every runtime stops */
        kin__store_relaxed(&worker->wake, 0u); /* pairs with the stores of stop and start */
        kin__fence_seq(); /* fence: wake before the rest; mirrors: stop and start have one */
        if (kin__load_acquire(&sched->is_stopping)) /* pairs with the release in kin__sched_stop */
            return false;
        /* pairs with the store in kin__pool_start_locked, by the fences */
        if (kin__load_acquire(&worker->state) != KIN__WORKER_DEAD)
            return true;
        (void)kin__futex_wait(&worker->wake, 0, -1);
    }
}

static void be_caller(void *arg)
{
    struct kin__sched *sched = arg;
    do {
        kin__worker_main(&sched->workers[0]);
        kin__pool_retire(&sched->workers[0]);
    } while (wait_as_caller(sched));
}

/* A task has ended the thread that called kin_run. It ends when the runtime has: what is on its
 * stack is in use until then, and it is the one that takes the signals of the process. */
static void be_lost_caller(void *arg)
{
    struct kin__sched *sched = arg;
    kin__pool_lose(&sched->workers[0]);
    kin__thread_passive(1);
    /* pairs with the release in kin__sched_stop; ends: every runtime stops */
    while (!kin__load_acquire(&sched->is_stopping))
        (void)kin__futex_wait(&sched->is_stopping, 0, -1);
    kin__thread_passive(-1);
    join_threads(sched);
    wait_for_visitors(sched);
}

int kin__sched_run(struct kin__sched *sched, struct kin__task *first)
{
    kin__thread_adopt(&sched->workers[0].thread);
    int rc = start_threads(sched);
    if (rc < 0) {
        kin__sched_stop(sched);
        join_threads(sched);
        return rc;
    }
    kin__schedule_new(NULL, first);
    kin__thread_call(be_caller, be_lost_caller, sched);
    join_threads(sched);
    wait_for_visitors(sched);
    KIN__ASSERT(kin__sched_pressure(sched) == 0, "EP:7.1: all that was pushed was picked");
    return 0;
}

void kin__sched_destroy(struct kin__sched *sched)
{
    for (unsigned i = 0; i < sched->workers_max; i++)
        sched->source->fini(&sched->workers[i]);
    const struct kin__outside *io = kin__load_relaxed(&sched->io); /* alone: nobody else is left */
    if (io)
        io->fini(sched);
    kin__tape_close(sched);
    kin__stack_pool_fini(&sched->stacks);
    give_number(sched);
    kin__heap_free_lines(sched->workers);
    kin__heap_free_lines(sched);
}
