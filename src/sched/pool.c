/* SPDX-License-Identifier: MIT */
/*
 * The pool of workers: starting them, and retiring those that came back too late.
 */
#include "sched/sched.h"

#include "base/text.h"

#include <errno.h>

#define THREAD_STACK_BYTES ((size_t)256 * 1024)

void kin__pool_note_locked(struct kin__sched *sched, const struct kin__scale_event *event)
{
    sched->scale_log[sched->scale_count++ % KIN__SCALE_LOG] = *event;
}

static void thread_main(void *arg)
{
    struct kin__worker *worker = arg;
    if (kin__fault_thread_init() == 0) {
        kin__worker_main(worker);
        kin__fault_thread_fini();
    } else {
        kin__worker_main(worker); /* an overflow on this thread is then an ordinary crash */
    }
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
    kin__store_relaxed(&worker->state, KIN__WORKER_ACTIVE); /* alone: as above */
    kin__store_relaxed(&worker->is_replaced, 0u); /* relaxed: a hint for sleepers */
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

void kin__pool_retire(struct kin__worker *worker)
{
    struct kin__sched *sched = worker->sched;
    for (unsigned kind = 0; kind < KIN__FRAME_KINDS; kind++)
        kin__frame_flush(&worker->blocks[kind]);
    kin__stack_flush(&worker->stacks, &sched->stacks);
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
