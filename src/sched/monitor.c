/* SPDX-License-Identifier: MIT */
/*
 * The monitor: a thread that looks for workers that make no progress and hands their work to
 * others.
 *
 * A worker is stuck when it is ACTIVE, has not picked a task for the threshold (10 ms), and its
 * thread was either asleep in the kernel meanwhile or on a CPU for that long. A thread that merely
 * was not given a CPU is neither: replacing it would make order depend on the load of the machine
 * [D-8].
 *
 *     stuck, work waits, somebody sleeps  -> RESCUE: its queue to the global one, wake a sleeper
 *     stuck, work waits, nobody sleeps    -> REPLACE: the same, and start a worker in its place; it
 *                                            drains and retires when it comes back [WK:6.2] [C7]
 *
 * Every decision, also one that could not be carried out, is kept with its reason [EP:7.3]. The
 * monitor also gives the memory of idle stacks back. While nobody works it sleeps without a timeout
 * and whoever wakes the first worker pokes it.
 */
#include "sched/sched.h"

#define TRIM_STEP 256u      /* idle stacks trimmed per look */
#define TRIM_AFTER 400u     /* looks without progress before trimming begins */
#define DEATH_AFTER 20u     /* looks without progress before it asks whether all is over */
#define DEEP_AFTER 500u     /* looks without work before it sleeps without a timeout */
#define CALM_AFTER 8u       /* looks at workers that all had moved before it looks half as often */

void kin__monitor_poke(struct kin__sched *sched)
{
    kin__fence_seq(); /* fence: no sleeper any more before deep; mirror: in monitor_pause */
    /* pairs with the store in monitor_pause */
    if (KIN__UNLIKELY(kin__load_relaxed(&sched->monitor_deep))) {
        kin__store_release(&sched->monitor_wake, 1u); /* pairs with the load in monitor_pause */
        kin__futex_wake(&sched->monitor_wake, 1);
    }
}

/* Whether the worker has made no progress for the threshold; *event gets the details. */
static bool is_stuck(struct kin__sched *sched, struct kin__worker *worker, int64_t now,
                     struct kin__scale_event *event)
{
    uint64_t progress = kin__worker_progress(worker);
    int64_t threshold = sched->config.stall_threshold;
    /* relaxed: a state that changes meanwhile shows as progress at the next look */
    if (kin__load_relaxed(&worker->state) != KIN__WORKER_ACTIVE ||
        kin__load_relaxed(&worker->is_polling) || progress != worker->seen_progress) {
        worker->seen_progress = progress;
        worker->seen_since = now;
        worker->seen_cpu = kin__thread_cpu_ns(&worker->thread);
        return false;
    }
    event->stuck_ns = now - worker->seen_since;
    if (event->stuck_ns < threshold)
        return false;
    event->is_blocked = kin__thread_is_asleep(&worker->thread);
    int64_t cpu = kin__thread_cpu_ns(&worker->thread);
    return event->is_blocked || (cpu >= 0 && cpu - worker->seen_cpu >= threshold);
}

/* A dead slot to start a replacement in; NULL when all are alive. Under the pool's lock. */
static struct kin__worker *dead_slot_locked(struct kin__sched *sched)
{
    for (unsigned i = 0; i < sched->workers_max; i++) {
        struct kin__worker *worker = &sched->workers[i];
        /* pairs with the release in kin__pool_retire */
        if (kin__load_acquire(&worker->state) == KIN__WORKER_DEAD) {
            if (worker->thread.handle)
                kin__thread_join(&worker->thread); /* it is past its last use of anything */
            return worker;
        }
    }
    return NULL;
}

static void replace(struct kin__sched *sched, struct kin__worker *worker,
                    struct kin__scale_event *event)
{
    kin__lock_take(&sched->pool_lock, KIN__RANK_POOL);
    struct kin__worker *spare = dead_slot_locked(sched);
    event->reason = KIN__SCALE_AT_LIMIT;
    if (spare) {
        event->reason = KIN__SCALE_NO_THREAD;
        event->other = spare->index;
        if (kin__pool_start_locked(sched, spare) == 0) {
            event->reason = KIN__SCALE_REPLACE;
            sched->replaced++;
            kin__store_relaxed(&worker->is_replaced, 1u); /* relaxed: a hint for sleepers */
            kin__store_relaxed(&sched->has_stuck, 1u); /* relaxed: seen at the next look around */
            /* pairs with the load at its next pick and the fence when it retires */
            (void)kin__or_acq_rel(&worker->attention, KIN__DRAIN);
            /* relaxed: for others to see */
            kin__store_relaxed(&worker->state, KIN__WORKER_DRAINING);
        }
    }
    /* A refusal is news once for each time that a worker is stuck, not at every look. */
    bool is_news = event->reason == KIN__SCALE_REPLACE ||
                   worker->seen_refusal != worker->seen_progress;
    worker->seen_refusal = worker->seen_progress;
    if (is_news)
        kin__pool_note_locked(sched, event);
    kin__lock_give(&sched->pool_lock, KIN__RANK_POOL);
}

static void help(struct kin__sched *sched, struct kin__worker *worker,
                 struct kin__scale_event *event)
{
    if (kin__bias_revoke(&worker->bias)) {
        event->moved = kin__worker_drain(worker);
        /* a hint for the report: the owner is not in its scheduler, the task cannot end unseen */
        event->task = kin__worker_current(worker) ? kin__task_id(kin__worker_current(worker)) : 0;
        kin__bias_restore(&worker->bias);
    } else {
        worker->seen_progress = UINT64_MAX; /* it moves: not stuck after all */
        return;
    }
    event->pressure = kin__sched_pressure(sched);
    bool has_timers = kin__load_relaxed(&worker->next_deadline) != KIN_NEVER; /* relaxed: a hint */
    if (!event->moved && !kin__inject_len(&sched->inject) && !has_timers)
        return; /* nobody waits for it */
    if (kin__load_relaxed(&sched->idle) != 0) { /* relaxed: a hint; wake_one looks properly */
        if (event->moved) {
            event->reason = KIN__SCALE_RESCUE;
            kin__lock_take(&sched->pool_lock, KIN__RANK_POOL);
            kin__pool_note_locked(sched, event);
            kin__lock_give(&sched->pool_lock, KIN__RANK_POOL);
        }
        kin__idle_wake_one(sched);
        return;
    }
    replace(sched, worker, event);
}

/* Timers of a worker that is stuck are fired by the monitor itself, and those that a retired one
 * has left behind: others look after them between tasks and when they sleep, but may be stuck. */
static void fire_for(struct kin__sched *sched, struct kin__worker *worker, int64_t now)
{
    /* relaxed: poll looks again under the wheel's lock */
    if (kin__load_relaxed(&worker->next_deadline) <= now)
        sched->source->poll(worker, now);
}

/* A task whose worker was replaced may still spawn and wake before its slice is over: that goes to
 * the others, or it would wait for the task, which may be waiting for it [A12]. */
static void empty(struct kin__sched *sched, struct kin__worker *worker)
{
    if (!kin__worker_load(worker) || !kin__bias_revoke(&worker->bias))
        return;
    uint32_t moved = kin__worker_drain(worker);
    kin__bias_restore(&worker->bias);
    if (moved)
        kin__idle_wake_one(sched);
}

bool kin__monitor_look(struct kin__sched *sched, int64_t now)
{
    bool have_all_moved = true;
    for (unsigned i = 0; i < sched->workers_max; i++) {
        struct kin__worker *worker = &sched->workers[i];
        struct kin__scale_event event = {.when = now, .worker = worker->index};
        uint32_t state = kin__load_relaxed(&worker->state); /* relaxed: again soon */
        if (state == KIN__WORKER_DRAINING || state == KIN__WORKER_DEAD)
            fire_for(sched, worker, now);
        if (state == KIN__WORKER_DRAINING)
            empty(sched, worker);
        bool needs_help = is_stuck(sched, worker, now, &event);
        have_all_moved = have_all_moved && event.stuck_ns == 0;
        if (!needs_help)
            continue;
        fire_for(sched, worker, now);
        help(sched, worker, &event);
    }
    return have_all_moved;
}

/* What all workers have done so far, as one number that changes with it. */
static uint64_t progress_of_all(struct kin__sched *sched)
{
    uint64_t progress = 0;
    for (unsigned i = 0; i < sched->workers_max; i++)
        progress += kin__worker_progress(&sched->workers[i]);
    return progress;
}

/* Whether any worker is at work. */
static bool is_busy(struct kin__sched *sched)
{
    uint32_t sleepers = kin__load_relaxed(&sched->idle) >> 16; /* relaxed: a moment late is fine */
    return sleepers < kin__load_relaxed(&sched->alive);        /* relaxed: as above */
}

/* Sleeps until the next look is due; without end when deep. */
static void monitor_pause(struct kin__sched *sched, bool is_deep, int64_t ns)
{
    /* alone: only pokes write it, and they are hints */
    kin__store_relaxed(&sched->monitor_wake, 0u);
    if (is_deep) {
        kin__store_relaxed(&sched->monitor_deep, 1u); /* pairs with the load in kin__monitor_poke */
        kin__fence_seq(); /* fence: deep before busy; its mirror is in kin__monitor_poke */
        /* pairs with kin__sched_stop */
        if (is_busy(sched) || kin__load_acquire(&sched->is_stopping))
            is_deep = false;
    }
    if (!kin__load_acquire(&sched->monitor_wake)) /* pairs with the release in kin__monitor_poke */
        (void)kin__futex_wait(&sched->monitor_wake, 0, is_deep ? -1 : ns);
    kin__store_relaxed(&sched->monitor_deep, 0u); /* alone: the monitor's own */
}

/* Whether nothing can ever run here again: every worker sleeps, nothing is queued, no timer is
 * armed, nobody outside was told, and the process has no thread beside ours that could wake a task.
 * With every worker asleep nothing of this can change, except by such a thread [A13]. */
static bool is_dead(struct kin__sched *sched)
{
    kin__lock_take(&sched->pool_lock, KIN__RANK_POOL);
    uint32_t idle = kin__load_relaxed(&sched->idle);   /* relaxed: sleepers list under the lock */
    uint32_t alive = kin__load_relaxed(&sched->alive); /* relaxed: as above */
    kin__lock_give(&sched->pool_lock, KIN__RANK_POOL);
    if ((idle >> 16) != alive || (idle & 0xffff) != 0 || kin__inject_len(&sched->inject) ||
        kin__load_acquire(&sched->is_stopping)) /* pairs with the release in kin__sched_stop */
        return false;
    unsigned ours = alive + 1; /* and this one */
    int64_t outside = 0;
    for (unsigned i = 0; i < sched->workers_max; i++) {
        struct kin__worker *worker = &sched->workers[i];
        if (kin__worker_load(worker) ||
            kin__load_relaxed(&worker->next_deadline) != KIN_NEVER) /* relaxed: all are asleep */
            return false;
        outside += kin__load_acquire(&worker->outside); /* pairs with kin__worker_outside */
        /* The thread that called kin_run stays when its worker has retired. relaxed: so */
        if (worker->is_caller && kin__load_relaxed(&worker->state) == KIN__WORKER_DEAD)
            ours++;
    }
    return outside == 0 && kin__process_threads() == ours;
}

/* Tells whoever wants to know, once for each time it comes to this. */
static void look_for_death(struct kin__sched *sched, uint64_t progress)
{
    if (sched->dead_progress == progress || !is_dead(sched) ||
        progress_of_all(sched) != progress)
        return;
    sched->dead_progress = progress;
    sched->owner->dead(sched);
}

void kin__monitor_main(void *arg)
{
    struct kin__sched *sched = arg;
    int64_t threshold = sched->config.stall_threshold;
    int64_t step = threshold / 4 > 1000000 ? threshold / 4 : 1000000;
    if (step > 100000000)
        step = 100000000;
    unsigned quiet = 0, calm = 0;
    bool is_calm = false; /* one that comes to stand is looked at more often from then on */
    uint64_t seen = 0;
    /* pairs with the release in kin__sched_stop */
    while (!kin__load_acquire(&sched->is_stopping)) {
        monitor_pause(sched, quiet >= DEEP_AFTER, is_calm ? step * 2 : step);
        uint64_t progress = progress_of_all(sched);
        is_calm = false;
        if (is_busy(sched)) {
            int64_t now = kin__clock_now();
            calm = !kin__monitor_look(sched, now) ? 0 : calm < CALM_AFTER ? calm + 1 : calm;
            is_calm = calm == CALM_AFTER;
            /* everybody is busy with long slices. relaxed: a hint */
            if (now - kin__load_relaxed(&sched->polled_at) > step)
                (void)kin__idle_poll(sched, now);
        }
        if (is_busy(sched) || progress != seen) {
            seen = progress;
            quiet = 0;
        } else if (++quiet == DEATH_AFTER) {
            look_for_death(sched, progress);
        } else if (quiet >= TRIM_AFTER) { /* idle stacks may soon be wanted again: not at once */
            if (kin__stack_trim(&sched->stacks, TRIM_STEP) && quiet >= DEEP_AFTER)
                quiet = DEEP_AFTER - 1; /* more to trim: not yet deep */
        }
    }
}
