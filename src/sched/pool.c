/* SPDX-License-Identifier: MIT */
/*
 * The pool of workers: starting them, retiring those that came back too late, and replacing those
 * whose thread a task has ended.
 *
 * A task may end its thread, by pthread_exit or below it, in code that does not know about kin
 * [SCHED:14.1.1]. The thread notices on its way out (kin__thread_call), or the monitor finds that
 * it is gone. The task fails with KIN_WORKER, on another thread; the queue goes to the others; and
 * a new thread is started in the slot of the worker. A thread that ended between two tasks has
 * ended inside the scheduler, whose state is anybody's guess: that is a crash [C7].
 */
#include "sched/sched.h"

#include "base/text.h"
#include "sched/report.h"

#include <errno.h>

#define THREAD_STACK_BYTES ((size_t)256 * 1024)

void kin__pool_note_locked(struct kin__sched *sched, const struct kin__scale_event *event)
{
    sched->scale_log[sched->scale_count++ % KIN__SCALE_LOG] = *event;
}

static void be_worker(void *worker)
{
    kin__worker_main(worker);
}

static void be_lost(void *worker)
{
    kin__fault_thread_fini();
    kin__pool_lose(worker);
}

static void thread_main(void *arg)
{
    struct kin__worker *worker = arg;
    (void)kin__fault_thread_init(); /* else an overflow on this thread is an ordinary crash */
    kin__thread_call(be_worker, be_lost, worker);
    kin__fault_thread_fini();
    kin__pool_retire(worker);
}

int kin__pool_start_locked(struct kin__sched *sched, struct kin__worker *worker)
{
    char name[16];
    struct kin__text text;
    kin__text_init(&text, name, sizeof(name));
    kin__text_printf(&text, "kin-%u", (unsigned)worker->index);
    /* alone: the slot is dead, nobody else writes these */
    kin__store_relaxed(&worker->attention, sched->tape ? KIN__TAPED : 0u);
    /* alone: as above */
    kin__store_relaxed(&worker->runtime, sched->tape ? KIN__RUNTIME_NONE : sched->number);
    kin__store_relaxed(&worker->state, KIN__WORKER_ACTIVE); /* alone: as above */
    kin__store_relaxed(&worker->is_replaced, 0u); /* relaxed: a hint for sleepers */
    kin__store_relaxed(&worker->steal_enabled, 1u); /* alone: as above [SCHED:6.1.1] */
    worker->seen_progress = UINT64_MAX;
    (void)kin__add_acq_rel(&sched->alive, 1u); /* pairs with retire; a bound for thieves */
    int rc = 0;
    if (worker->is_caller) {
        kin__fence_seq(); /* fence: the state before the wake; its mirror is in kin__sched_run */
        kin__store_release(&worker->wake, 1u); /* pairs with the wait in kin__sched_run */
        kin__futex_wake(&worker->wake, 1);
    } else {
        rc = kin__thread_start(&worker->thread, thread_main, worker, THREAD_STACK_BYTES, name);
    }
    if (rc < 0) {
        (void)kin__sub_acq_rel(&sched->alive, 1u);            /* pairs with the addition above */
        kin__store_relaxed(&worker->state, KIN__WORKER_DEAD); /* alone: as above */
        return rc;
    }
    sched->started++;
    return 0;
}

/* What the worker keeps for itself goes back to the pools. */
static void flush(struct kin__worker *worker)
{
    for (unsigned kind = 0; kind < KIN__FRAME_KINDS; kind++)
        kin__frame_flush(&worker->blocks[kind]);
    kin__stack_flush(&worker->stacks, &worker->sched->stacks);
}

static void report_loss(struct kin__worker *worker)
{
    struct kin__task *task = kin__worker_current(worker);
    char memory[320];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    if (task)
        kin__task_say(&text, task);
    else
        kin__text_str(&text, "no task");
    kin__text_printf(&text, " has ended the thread of worker %u, which is replaced",
                     (unsigned)worker->index);
    kin__report(worker->sched, KIN_WORKER, task ? kin__task_id(task) : 0, memory);
}

void kin__pool_lose(struct kin__worker *worker)
{
    struct kin__sched *sched = worker->sched;
    if (kin__worker_self() == worker)
        kin__self_set(NULL);
    report_loss(worker);
    /* From here on its task may go on, be the last one, and end the runtime, which must stay until
     * this thread has left it. relaxed: released by the queue's lock */
    (void)kin__add_relaxed(&sched->visitors, 1u);
    kin__worker_abandon(worker);
    flush(worker);
    kin__lock_take(&sched->pool_lock, KIN__RANK_POOL);
    bool was_replaced = kin__load_relaxed(&worker->is_replaced); /* relaxed: under the lock */
    kin__pool_note_locked(sched, &(struct kin__scale_event){.when = kin__clock_now(),
                                                            .reason = KIN__SCALE_LOST,
                                                            .worker = worker->index});
    (void)kin__sub_acq_rel(&sched->alive, 1u); /* pairs with the addition in start */
    kin__store_release(&worker->state, KIN__WORKER_DEAD); /* pairs with dead_slot_locked */
    kin__thread_leave(&worker->thread);
    worker->is_caller = false; /* a thread of its own takes its place */
    kin__store_relaxed(&sched->has_stuck, 1u); /* relaxed: its timers are looked after by all */
    if (!was_replaced && kin__pool_start_locked(sched, worker) == 0)
        sched->replaced++;
    else if (!was_replaced)
        sched->missing++; /* the monitor tries again */
    kin__lock_give(&sched->pool_lock, KIN__RANK_POOL);
    (void)kin__sub_acq_rel(&sched->visitors, 1u); /* pairs with the load in wait_for_visitors */
}

void kin__pool_retire(struct kin__worker *worker)
{
    struct kin__sched *sched = worker->sched;
    flush(worker);
    /* Whoever wakes looks after the timers it leaves behind, and polls in its place. Before the
     * slot is free: from then on the monitor may join this thread, under the lock that a wake
     * needs. relaxed: a hint */
    if (kin__load_relaxed(&worker->next_deadline) != KIN_NEVER ||
        kin__load_relaxed(&sched->io)) /* relaxed: as above */
        kin__idle_wake_one(sched);
    kin__lock_take(&sched->pool_lock, KIN__RANK_POOL);
    /* relaxed: under the lock. It stays set until the slot is used again: its timers are there */
    if (kin__load_relaxed(&worker->is_replaced))
        kin__pool_note_locked(sched, &(struct kin__scale_event){.when = kin__clock_now(),
                                                                .reason = KIN__SCALE_RETIRE,
                                                                .worker = worker->index});
    (void)kin__sub_acq_rel(&sched->alive, 1u); /* pairs with the addition in start */
    /* pairs with the acquire in the monitor's search for a dead slot: its memory is flushed */
    kin__store_release(&worker->state, KIN__WORKER_DEAD);
    kin__lock_give(&sched->pool_lock, KIN__RANK_POOL);
}

int64_t kin__sched_pressure(struct kin__sched *sched)
{
    int64_t pressure = 0;
    for (unsigned i = 0; i < sched->workers_max; i++) {
        struct kin__worker *worker = &sched->workers[i];
        /* relaxed: counters read one after the other; the sum may be off, and negative, a moment */
        pressure += kin__load_relaxed(&worker->backlog);
    }
    return pressure + (int64_t)kin__load_relaxed(&sched->pushed_outside); /* relaxed: as above */
}
