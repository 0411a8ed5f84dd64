/* SPDX-License-Identifier: MIT */
/*
 * Whom to rob: a bounded round over victims, a batch at a time [SCHED:7.2.1] [SCHED:7.4.1].
 *
 * A victim that keeps its work private is asked to publish, which it does at its next push or pick.
 * One that computes for long comes to neither: the searcher notes how far it is, waits for as long
 * as the next step costs, and then opens its queue by force, under the bias. That costs a
 * membarrier, which interrupts every running thread; so a victim that moves is never opened [E4].
 */
#include "sched/sched.h"
#include "sched/tape.h"

#define ATTEMPTS_MAX 4u

/* The first live worker from index on that is not the thief; NULL when there is none. */
static struct kin__worker *live_from(struct kin__worker *thief, uint32_t index)
{
    struct kin__sched *sched = thief->sched;
    for (uint32_t i = 0; i < sched->workers_max; i++) {
        struct kin__worker *worker = &sched->workers[(index + i) % sched->workers_max];
        /* relaxed: a dead one has nothing, which is found out soon enough */
        if (worker != thief && kin__load_relaxed(&worker->state) != KIN__WORKER_DEAD)
            return worker;
    }
    return NULL;
}

/* Takes a batch from one victim, or asks it to publish. */
static struct kin__task *rob(struct kin__worker *thief, struct kin__worker *victim)
{
    struct kin__task *batch[KIN__STEAL_MAX];
    bool contended;
    uint32_t count = kin__deque_steal(&victim->deque, batch, KIN__STEAL_MAX, &contended);
    if (count == 0) {
        /* relaxed: a hint both ways; the victim looks at its next push or pick */
        if (!contended && kin__worker_load(victim) &&
            !(kin__load_relaxed(&victim->attention) & KIN__HUNGRY))
            (void)kin__or_relaxed(&victim->attention, KIN__HUNGRY); /* relaxed: as above */
        return NULL;
    }
    kin__bias_take(&thief->bias);
    for (uint32_t i = 1; i < count; i++)
        KIN__CHECK(kin__deque_push(&thief->deque, batch[i]), "SCHED:7.1.1"); /* it was empty */
    while (kin__deque_publish(&thief->deque)) {
        /* ends: halves what is private. What was taken for later stays stealable: the first of the
         * batch may run for long, and whoever searches next must not depend on its end. */
    }
    /* alone: the owner's own counters */
    kin__store_relaxed(&thief->steals, kin__load_relaxed(&thief->steals) + 1);
    kin__store_relaxed(&thief->stolen, kin__load_relaxed(&thief->stolen) + count);
    kin__store_relaxed(&thief->backlog, kin__load_relaxed(&thief->backlog) - 1); /* alone: so */
    kin__bias_give(&thief->bias);
    /* relaxed: the deque's acquire made the word visible */
    KIN__CHECK(kin__load_relaxed(&batch[0]->ctl) & KIN__CLAIMED, "F2");
    if (KIN__UNLIKELY(thief->sched->tape != NULL))
        kin__tape_stole(thief, victim, batch[0], count);
    kin__word_move(batch[0], KIN__RUNNABLE, KIN__RUNNING, KIN__BY_WORKER);
    return batch[0];
}

struct kin__task *kin__steal_round(struct kin__worker *thief)
{
    struct kin__sched *sched = thief->sched;
    if (!kin__load_relaxed(&thief->steal_enabled)) /* relaxed: asked again at the next round */
        return NULL;
    uint32_t others = kin__load_relaxed(&sched->alive) - 1; /* relaxed: a bound, not a count */
    uint32_t attempts = others < ATTEMPTS_MAX ? others : ATTEMPTS_MAX;
    for (uint32_t i = 0; i < attempts; i++) {
        struct kin__worker *victim = live_from(thief, sched->policy->victim(thief, i));
        struct kin__task *task = victim ? rob(thief, victim) : NULL;
        if (task)
            return task;
        KIN__CHANGE(thief->steals_failed, 1);
    }
    return NULL;
}

/* Whether only the worker itself can see what it has. */
static bool is_private(struct kin__worker *worker)
{
    return kin__worker_load(worker) && !kin__deque_public(&worker->deque);
}

bool kin__steal_watch(struct kin__worker *thief)
{
    struct kin__sched *sched = thief->sched;
    bool is_any = false;
    for (uint32_t i = 0; i < sched->workers_max; i++) {
        struct kin__worker *worker = &sched->workers[i];
        worker->is_watched = worker != thief && is_private(worker);
        worker->watched_progress = kin__worker_progress(worker);
        is_any = is_any || worker->is_watched;
    }
    return is_any && kin__load_relaxed(&thief->steal_enabled); /* relaxed: as in a round */
}

struct kin__task *kin__steal_open(struct kin__worker *thief)
{
    struct kin__sched *sched = thief->sched;
    for (uint32_t i = 0; i < sched->workers_max; i++) {
        struct kin__worker *worker = &sched->workers[i];
        if (!worker->is_watched || worker->watched_progress != kin__worker_progress(worker) ||
            !is_private(worker) || !kin__bias_revoke(&worker->bias))
            continue;
        kin__worker_open(worker);
        kin__bias_restore(&worker->bias);
        struct kin__task *task = rob(thief, worker);
        if (task)
            return task;
    }
    return NULL;
}

bool kin__steal_is_visible(struct kin__sched *sched)
{
    if (kin__inject_len(&sched->inject))
        return true;
    for (uint32_t i = 0; i < sched->workers_max; i++) {
        if (kin__deque_public(&sched->workers[i].deque))
            return true;
    }
    return false;
}

bool kin__steal_is_worth(struct kin__worker *thief)
{
    struct kin__sched *sched = thief->sched;
    if (kin__inject_len(&sched->inject))
        return true;
    for (uint32_t i = 0; i < sched->workers_max; i++) {
        if (&sched->workers[i] != thief && kin__worker_load(&sched->workers[i]))
            return true;
    }
    return false;
}
