/* SPDX-License-Identifier: MIT */
/*
 * The monitor: a thread that looks for workers that make no progress and hands their work to
 * others.
 *
 * A worker is stuck when it is ACTIVE, has not picked a task for the threshold (10 ms), and its
 * thread slept in the kernel all the while, or is gone. A thread that computes is not stuck, nor is
 * one that merely was not given a CPU: a worker started in its place would run more tasks at once
 * than there are workers, and make the order depend on the load of the machine [E4].
 *
 *     stuck, work waits, somebody sleeps  -> RESCUE: its queue to the global one, wake a sleeper
 *     stuck, work waits, nobody sleeps    -> REPLACE: the same, and start a worker in its place; it
 *                                            drains and retires when it comes back [WK:6.2] [C7]
 *     computes, work waits                -> its queue is open to thieves (steal.c); if one sleeps
 *                                            and none looks, wake it
 *
 * Every decision, also one that could not be carried out, is kept with its reason, and every look
 * at a worker that is at work is counted by what came of it [EP:7.3]. The monitor also gives the
 * memory of idle stacks back. While nobody works it sleeps without a timeout and whoever wakes the
 * first worker pokes it.
 */
#include "sched/blocked.h"
#include "sched/sched.h"

#define TRIM_STEP 256u      /* idle stacks trimmed per look */
#define TRIM_AFTER 400u     /* looks without progress before trimming begins */
#define DEATH_AFTER 20u     /* looks without progress before it asks whether all is over */
#define DEEP_AFTER 500u     /* looks without work before it sleeps without a timeout */
#define STAND_NS INT64_C(1000000000) /* between two reports that all workers are blocked */
#define NEGATIVE_MAX 8u     /* looks at a pressure that is negative while nobody moves */
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

/* What a worker has done since the last look. */
enum conduct { MOVES, COMPUTES, IS_BLOCKED, IS_GONE };

/* Whether the thread has slept since the last look but for half of the time at most. One that
 * computes and sleeps for a moment, on a page or a lock, is seen asleep now and then. */
static bool has_slept(struct kin__worker *worker, int64_t now)
{
    int64_t cpu = kin__thread_cpu_ns(&worker->thread);
    bool is_still = cpu - worker->seen_cpu <= (now - worker->seen_at) / 2;
    worker->seen_cpu = cpu;
    worker->seen_at = now;
    return is_still && kin__thread_is_asleep(&worker->thread);
}

/* How the worker behaves. */
static enum conduct watch(struct kin__sched *sched, struct kin__worker *worker, int64_t now)
{
    uint64_t progress = kin__worker_progress(worker);
    /* relaxed: a state that changes meanwhile shows as progress at the next look */
    uint32_t state = kin__load_relaxed(&worker->state);
    if ((state != KIN__WORKER_ACTIVE && state != KIN__WORKER_DRAINING) ||
        kin__load_relaxed(&worker->is_polling) || /* relaxed: as above */
        progress != worker->seen_progress) {
        worker->seen_progress = progress;
        worker->seen_since = worker->awake_at = worker->seen_at = now;
        worker->seen_cpu = kin__thread_cpu_ns(&worker->thread);
        return MOVES;
    }
    if (!has_slept(worker, now))
        worker->awake_at = now;
    if (now - worker->seen_since < sched->config.stall_threshold)
        return MOVES;
    if (kin__thread_is_gone(&worker->thread))
        return IS_GONE;
    return now - worker->awake_at < sched->config.stall_threshold ? COMPUTES : IS_BLOCKED;
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

/* Counts what came of a look. */
static void note_gate(struct kin__sched *sched, enum kin__gate gate)
{
    KIN__CHANGE(sched->scaling.gate[gate], 1u);
}

static enum kin__gate gate_of(enum kin__scale_reason reason)
{
    return reason == KIN__SCALE_REPLACE    ? KIN__GATE_PROMOTED
           : reason == KIN__SCALE_AT_LIMIT ? KIN__GATE_AT_LIMIT
                                           : KIN__GATE_NO_THREAD;
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
            /* What its task makes runnable now goes to the global queue [A12]. relaxed: what was on
             * its way into its own queue is taken out of there by empty */
            kin__store_relaxed(&worker->runtime, KIN__RUNTIME_NONE);
            kin__store_relaxed(&worker->steal_enabled, 0u); /* relaxed: it never comes to it */
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
    note_gate(sched, gate_of(event->reason));
}

/* Somebody sleeps who can do what the stuck worker does not. */
static void rescue(struct kin__sched *sched, struct kin__scale_event *event)
{
    if (event->moved) {
        event->reason = KIN__SCALE_RESCUE;
        kin__lock_take(&sched->pool_lock, KIN__RANK_POOL);
        kin__pool_note_locked(sched, event);
        kin__lock_give(&sched->pool_lock, KIN__RANK_POOL);
    }
    kin__idle_wake_one(sched);
    note_gate(sched, KIN__GATE_IDLE_CAPACITY);
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
        note_gate(sched, KIN__GATE_NOT_STUCK);
        return;
    }
    event->pressure = kin__sched_pressure(sched);
    bool has_timers = kin__load_relaxed(&worker->next_deadline) != KIN_NEVER; /* relaxed: a hint */
    if (!event->moved && !kin__inject_len(&sched->inject) && !has_timers)
        note_gate(sched, KIN__GATE_NO_WORK); /* nobody waits for it */
    else if (kin__load_relaxed(&sched->idle) & ~KIN__IDLE_STRONG) /* relaxed: wake_one looks too */
        rescue(sched, event);
    else if (event->pressure <= 0 && !has_timers)
        note_gate(sched, KIN__GATE_NONPOSITIVE); /* if it was a moment's, then at the next look */
    else
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

/* A worker that computes is left alone; those without work look at its queue. Its timers are fired
 * for them: a worker that is alone sees to its own when it is done, and no sooner could anybody. */
static void see_to_company(struct kin__sched *sched, struct kin__worker *worker, int64_t now)
{
    if (kin__load_relaxed(&sched->alive) == 1) /* relaxed: again at the next look */
        return;
    fire_for(sched, worker, now);
    if (kin__worker_load(worker) && kin__idle_is_unwatched(sched))
        kin__idle_wake_one(sched);
}

/* Whether a task is runnable and in no worker's hands. */
static bool does_anybody_wait(struct kin__sched *sched)
{
    bool is_any = kin__inject_len(&sched->inject) != 0;
    for (unsigned i = 0; !is_any && i < sched->workers_max; i++)
        is_any = kin__worker_load(&sched->workers[i]) != 0;
    return is_any;
}

/* Every worker is blocked and tasks wait: told once for each time that it comes to this, and once
 * in a while. */
static void look_for_standstill(struct kin__sched *sched, int64_t now)
{
    unsigned count = 0, blocked = 0;
    for (unsigned i = 0; i < sched->workers_max; i++) {
        const struct kin__worker *worker = &sched->workers[i];
        if (kin__load_relaxed(&worker->state) == KIN__WORKER_DEAD) /* relaxed: again soon */
            continue;
        count++;
        blocked += worker->conduct == IS_BLOCKED;
    }
    bool stands = count != 0 && blocked == count && does_anybody_wait(sched);
    if (stands && !sched->stands && now >= sched->stand_due) {
        sched->stand_due = now + STAND_NS;
        kin__blocked_report(sched, count, now);
    }
    sched->stands = stands;
}

/* Does for a worker what its conduct asks for. */
static void act(struct kin__sched *sched, struct kin__worker *worker, int64_t now)
{
    struct kin__scale_event event = {
        .when = now, .worker = worker->index, .stuck_ns = now - worker->seen_since};
    uint32_t state = kin__load_relaxed(&worker->state); /* relaxed: again soon */
    if (state == KIN__WORKER_DRAINING || state == KIN__WORKER_DEAD)
        fire_for(sched, worker, now);
    if (state == KIN__WORKER_DRAINING)
        empty(sched, worker);
    if (worker->conduct == MOVES && state == KIN__WORKER_ACTIVE) {
        note_gate(sched, KIN__GATE_NOT_STUCK);
    } else if (worker->conduct == COMPUTES) {
        if (state == KIN__WORKER_ACTIVE)
            note_gate(sched, KIN__GATE_COMPUTES);
        see_to_company(sched, worker, now);
    } else if (worker->conduct == IS_GONE) {
        kin__pool_lose(worker);
    } else if (worker->conduct == IS_BLOCKED && state == KIN__WORKER_ACTIVE) {
        fire_for(sched, worker, now);
        help(sched, worker, &event);
    }
}

/* What all workers have done so far, as one number that changes with it. */
static uint64_t progress_of_all(struct kin__sched *sched)
{
    uint64_t progress = 0;
    for (unsigned i = 0; i < sched->workers_max; i++)
        progress += kin__worker_progress(&sched->workers[i]);
    return progress;
}

/* Looks at the pressure. A negative one is a moment's: each counter is read at another time, and a
 * task may be seen to be picked by one worker before it is seen to be pushed by another. But a push
 * is counted before others can see the task, so that the sum over a time in which nobody moves is
 * what waits: if that is below 0 look after look, the counters have lost a task [EP:7.1]. */
static void sample_pressure(struct kin__sched *sched)
{
    struct kin__scaling *scaling = &sched->scaling;
    int64_t pressure = kin__sched_pressure(sched);
    uint64_t progress = progress_of_all(sched);
    bool is_still = progress == scaling->progress;
    scaling->progress = progress;
    if (pressure > 0)
        KIN__CHANGE(scaling->positive, 1u);
    if (pressure >= 0) {
        scaling->negative_streak = scaling->negative_still = 0;
        return;
    }
    KIN__CHANGE(scaling->negative, 1u);
    /* alone: the monitor's own */
    if (++scaling->negative_streak > kin__load_relaxed(&scaling->negative_streak_max))
        KIN__CHANGE(scaling->negative_streak_max, 1u);
    scaling->negative_still = is_still ? scaling->negative_still + 1 : 0;
    KIN__ASSERT(scaling->negative_still < NEGATIVE_MAX, "EP:7.1: more was picked than pushed");
}

bool kin__monitor_look(struct kin__sched *sched, int64_t now)
{
    bool have_all_moved = true;
    sample_pressure(sched);
    for (unsigned i = 0; i < sched->workers_max; i++) {
        struct kin__worker *worker = &sched->workers[i];
        worker->conduct = watch(sched, worker, now);
        have_all_moved = have_all_moved && worker->seen_since == now;
    }
    look_for_standstill(sched, now);
    for (unsigned i = 0; i < sched->workers_max; i++)
        act(sched, &sched->workers[i], now);
    return have_all_moved;
}

/* Whether any worker is at work. */
static bool is_busy(struct kin__sched *sched)
{
    uint32_t idle = kin__load_relaxed(&sched->idle); /* relaxed: a moment late is fine */
    return kin__idle_sleepers(idle) < kin__load_relaxed(&sched->alive); /* relaxed: as above */
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

/* Starts what could not be started when a worker was lost. */
static void fill_up(struct kin__sched *sched)
{
    kin__lock_take(&sched->pool_lock, KIN__RANK_POOL);
    struct kin__worker *worker = sched->missing ? dead_slot_locked(sched) : NULL;
    if (worker && kin__pool_start_locked(sched, worker) == 0) {
        sched->missing--;
        sched->replaced++;
    }
    kin__lock_give(&sched->pool_lock, KIN__RANK_POOL);
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
    if (kin__idle_sleepers(idle) != alive || (idle & 0xffff) != 0 ||
        kin__inject_len(&sched->inject) ||
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

/* When to ask whether all is over: after DEATH_AFTER looks without progress, then after twice as
 * many each time, because threads that are about to end or to rest may have been in the way. */
static bool is_time_for_death(unsigned quiet)
{
    return quiet < TRIM_AFTER && quiet % DEATH_AFTER == 0 &&
           __builtin_popcount(quiet / DEATH_AFTER) == 1;
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
        fill_up(sched);
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
        } else if (is_time_for_death(++quiet)) {
            look_for_death(sched, progress);
        } else if (quiet >= TRIM_AFTER) { /* idle stacks may soon be wanted again: not at once */
            if (kin__stack_trim(&sched->stacks, TRIM_STEP) && quiet >= DEEP_AFTER)
                quiet = DEEP_AFTER - 1; /* more to trim: not yet deep */
        }
    }
}
