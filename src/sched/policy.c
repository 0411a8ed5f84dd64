/* SPDX-License-Identifier: MIT */
/*
 * The production policies: seeded intervals, and whom to rob [SCHED:7.3.1], at random from a
 * seed by default [SCHED:7.3.2]. Nothing else is random [SCHED:9.2.1].
 */
#include "sched/policy.h"

#include "sched/sched.h"

#define EARLY 32u /* picks from the start with short intervals */

/* The first intervals are short, so that the seed shows in small programs too [SCHED:9.1.1]; later
 * ones keep the fast order most of the time and the clock fresh while timers wait. */
static uint32_t interval(struct kin__worker *worker, uint32_t has_timers)
{
    uint32_t random = (uint32_t)kin__rng_next(&worker->rng);
    if (kin__load_relaxed(&worker->slices) < EARLY) /* alone: the owner's own */
        return 1 + random % 4;
    return has_timers ? 8 + random % 8 : 32 + random % 32;
}

static uint32_t victim_random(struct kin__worker *thief, uint32_t attempt)
{
    (void)attempt;
    return (uint32_t)kin__rng_below(&thief->rng, thief->sched->workers_max);
}

static uint32_t victim_round_robin(struct kin__worker *thief, uint32_t attempt)
{
    (void)attempt;
    thief->victim_next = (thief->victim_next + 1) % thief->sched->workers_max;
    return thief->victim_next;
}

static uint32_t victim_least_loaded(struct kin__worker *thief, uint32_t attempt)
{
    struct kin__sched *sched = thief->sched;
    uint32_t best = thief->index;
    uint64_t most = 0;
    if (attempt > 0) /* the busiest was contended: anybody else */
        return victim_random(thief, attempt);
    for (uint32_t i = 0; i < sched->workers_max; i++) {
        uint64_t load = i == thief->index ? 0 : kin__worker_load(&sched->workers[i]);
        if (load > most) {
            most = load;
            best = i;
        }
    }
    return best;
}

const struct kin__policy *kin__policy_for(int victim)
{
    static const struct kin__policy policies[] = {
        [KIN_VICTIM_RANDOM] = {interval, victim_random},
        [KIN_VICTIM_ROUND_ROBIN] = {interval, victim_round_robin},
        [KIN_VICTIM_LEAST_LOADED] = {interval, victim_least_loaded},
    };
    return &policies[victim];
}
