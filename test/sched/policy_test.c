/* SPDX-License-Identifier: MIT */
/*
 * Goal: every victim policy reaches every other worker, and a seed repeats its choices.
 * Method: the policies are asked directly, with a scheduler that has workers but no threads.
 */
#include "kin_test.h"

#include "base/rng.h"
#include "sched/policy.h"
#include "sched/sched.h"

#include <stdlib.h>
#include <string.h>

enum { WORKERS_MAX = 67 };

/* A scheduler of count workers, none of which runs. */
static struct kin__sched *make_sched(unsigned count, uint64_t seed)
{
    struct kin__sched *sched = kin__heap_alloc_lines(sizeof *sched);
    EXPECT(sched != NULL);
    sched->workers = kin__heap_alloc_lines(count * sizeof *sched->workers);
    EXPECT(sched->workers != NULL);
    sched->workers_max = count;
    sched->workers_base = count;
    for (unsigned i = 0; i < count; i++) {
        struct kin__worker *worker = &sched->workers[i];
        worker->sched = sched;
        worker->index = (uint16_t)i;
        worker->victim_next = i;
        kin__rng_init(&worker->rng, seed, i);
        kin__deque_init(&worker->deque, 0);
        kin__store_relaxed(&worker->state, KIN__WORKER_ACTIVE); /* alone: no threads */
        kin__store_relaxed(&worker->steal_enabled, 1u);         /* alone: no threads */
    }
    return sched;
}

static void drop_sched(struct kin__sched *sched)
{
    kin__heap_free_lines(sched->workers);
    kin__heap_free_lines(sched);
}

KIN_TEST(round_robin_visits_every_worker_once_per_lap, "SCHED:7.3.1 G075")
{
    const struct kin__policy *policy = kin__policy_for(KIN_VICTIM_ROUND_ROBIN);
    for (unsigned count = 1; count <= WORKERS_MAX; count++) {
        struct kin__sched *sched = make_sched(count, 1);
        for (unsigned t = 0; t < count; t++) {
            for (int lap = 0; lap < 3; lap++) {
                bool seen[WORKERS_MAX] = {false};
                for (unsigned i = 0; i < count; i++) {
                    uint32_t victim = policy->victim(&sched->workers[t], i);
                    EXPECT_LT(victim, count);
                    EXPECT(!seen[victim]);
                    seen[victim] = true;
                }
            }
        }
        drop_sched(sched);
    }
}

KIN_TEST(random_victims_cover_every_worker, "SCHED:7.3.1 G075")
{
    const struct kin__policy *policy = kin__policy_for(KIN_VICTIM_RANDOM);
    for (unsigned count = 1; count <= WORKERS_MAX; count++) {
        struct kin__sched *sched = make_sched(count, kin_test_seed());
        for (unsigned t = 0; t < count; t += count / 3 + 1) {
            unsigned times[WORKERS_MAX] = {0};
            for (unsigned i = 0; i < count * 200; i++) {
                uint32_t victim = policy->victim(&sched->workers[t], i % 4);
                EXPECT_LT(victim, count);
                times[victim]++;
            }
            for (unsigned i = 0; i < count; i++) {
                EXPECT_GT(times[i], 100); /* 200 each on average, 14 the deviation */
                EXPECT_LT(times[i], 300 + (count == 1) * 1000);
            }
        }
        drop_sched(sched);
    }
}

KIN_TEST(a_seed_repeats_the_victims_and_another_one_changes_them, "SCHED:7.3.2 SCHED:9.1.1")
{
    const struct kin__policy *policy = kin__policy_for(KIN_VICTIM_RANDOM);
    struct kin__sched *a = make_sched(8, 42), *b = make_sched(8, 42), *c = make_sched(8, 43);
    unsigned differs_by_seed = 0, differs_by_worker = 0;
    for (unsigned i = 0; i < 64; i++) {
        uint32_t first = policy->victim(&a->workers[3], i);
        uint32_t other = policy->victim(&a->workers[4], i);
        EXPECT_EQ(policy->victim(&b->workers[3], i), first);
        EXPECT_EQ(policy->victim(&b->workers[4], i), other);
        differs_by_seed += policy->victim(&c->workers[3], i) != first;
        differs_by_worker += other != first;
        EXPECT_EQ(policy->interval(&a->workers[3], 0), policy->interval(&b->workers[3], 0));
    }
    EXPECT_GT(differs_by_seed, 32);
    EXPECT_GT(differs_by_worker, 32);
    drop_sched(a);
    drop_sched(b);
    drop_sched(c);
}

KIN_TEST(least_loaded_robs_the_worker_with_the_most, "SCHED:7.3.1")
{
    const struct kin__policy *policy = kin__policy_for(KIN_VICTIM_LEAST_LOADED);
    struct kin__sched *sched = make_sched(5, 1);
    static struct kin__task tasks[16];
    /* nobody has anything: itself, it passes */
    EXPECT_EQ(policy->victim(&sched->workers[2], 0), 2);
    for (int i = 0; i < 3; i++)
        EXPECT(kin__deque_push(&sched->workers[1].deque, &tasks[i]));
    for (int i = 3; i < 8; i++)
        EXPECT(kin__deque_push(&sched->workers[4].deque, &tasks[i]));
    for (int i = 8; i < 16; i++)
        EXPECT(kin__deque_push(&sched->workers[2].deque, &tasks[i]));
    EXPECT_EQ(policy->victim(&sched->workers[0], 0), 2);
    EXPECT_EQ(policy->victim(&sched->workers[2], 0), 4); /* never itself */
    bool seen[5] = {false};
    for (unsigned i = 1; i < 500; i++)
        seen[policy->victim(&sched->workers[0], i)] = true;
    for (int i = 1; i < 5; i++)
        EXPECT(seen[i]); /* when the busiest was contended, anybody */
    drop_sched(sched);
}

KIN_TEST(intervals_are_at_least_one_and_short_while_timers_wait, "SCHED:9.1.1")
{
    struct kin__sched *sched = make_sched(1, kin_test_seed());
    struct kin__worker *worker = &sched->workers[0];
    const struct kin__policy *policy = kin__policy_for(KIN_VICTIM_RANDOM);
    for (int i = 0; i < 1000; i++) {
        kin__store_relaxed(&worker->slices, 0u); /* alone: no threads */
        uint32_t first = policy->interval(worker, 0);
        EXPECT(first >= 1 && first <= 8); /* the seed shows early */
        kin__store_relaxed(&worker->slices, 1000u); /* alone: no threads */
        uint32_t with = policy->interval(worker, 1), without = policy->interval(worker, 0);
        EXPECT(with >= 1 && with < 64);
        EXPECT(without >= 1 && without < 64); /* kin__worker_progress counts in laps of 64 */
        EXPECT_LE(with, 16);
    }
    drop_sched(sched);
}

/* A round of steals reaches every live victim in time, whatever the policy, and never the thief. */
KIN_TEST(steals_reach_the_one_worker_that_has_work, "SCHED:7.2.1 SCHED:7.4.1 G075")
{
    const int policies[] = {KIN_VICTIM_RANDOM, KIN_VICTIM_ROUND_ROBIN, KIN_VICTIM_LEAST_LOADED};
    for (size_t p = 0; p < 3; p++) {
        for (unsigned count = 2; count <= 33; count++) {
            struct kin__sched *sched = make_sched(count, kin_test_seed() + count);
            static struct kin__task task;
            unsigned busy = count / 2, thief = count - 1;
            memset(&task, 0, sizeof task);
            kin__word_init(&task);
            kin__store_relaxed(&task.shadow, KIN__RUNNABLE); /* alone: no threads */
            sched->policy = kin__policy_for(policies[p]);
            kin__store_relaxed(&sched->alive, count); /* alone: no threads */
            if (busy == thief)
                busy--;
            EXPECT(kin__deque_push(&sched->workers[busy].deque, &task));
            struct kin__task *got = NULL;
            unsigned rounds = 0;
            for (; !got && rounds < 100 * count; rounds++) {
                got = kin__steal_round(&sched->workers[thief]);
                /* relaxed: no threads; asked for once, the owner publishes at its next pick */
                if (!got && (kin__load_relaxed(&sched->workers[busy].attention) & KIN__HUNGRY))
                    (void)kin__deque_publish(&sched->workers[busy].deque);
            }
            EXPECT_PTR(got, &task);
            if (policies[p] == KIN_VICTIM_LEAST_LOADED)
                EXPECT_LE(rounds, 2);
            drop_sched(sched);
        }
    }
}
