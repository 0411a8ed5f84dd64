/* SPDX-License-Identifier: MIT */
/*
 * Goal: work reaches idle workers, in batches, and each task is run by one of them.
 * Method: spawns from one task on several workers under every victim policy; who ran what is
 * written down per worker; the round of steals alone is asked with workers that do not run.
 */
#include "kin_test.h"

#include "sched/sched.h"

#include <kin/kin.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 400, WORKERS = 4 };

static struct {
    atomic_uint by[WORKERS * 2];
    atomic_uint ran[TASKS];
    atomic_uint here; /* how many run at this moment */
    atomic_uint most;
} tally;

static int meet_others(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg;
    struct kin__worker *worker = kin__worker_self();
    atomic_fetch_add(&tally.by[worker->index], 1);
    atomic_fetch_add(&tally.ran[number], 1);
    unsigned here = atomic_fetch_add(&tally.here, 1) + 1;
    unsigned most = tally.most;
    while (here > most && !atomic_compare_exchange_weak(&tally.most, &most, here))
        continue;
    /* Until every worker has been here once; the first ones wait for the others to wake up. */
    while (tally.most < WORKERS)
        sched_yield();
    atomic_fetch_sub(&tally.here, 1);
    return 0;
}

static int feed_all_workers(void *arg)
{
    struct kin__sched *sched = kin__worker_self()->sched;
    struct kin_stats stats;
    KIN_NURSERY(n);
    (void)arg;
    /* relaxed: asked until it holds; ends: all others sleep and nobody searches */
    while (kin__load_relaxed(&sched->idle) != (WORKERS - 1) * KIN__IDLE_SLEEPER)
        sched_yield();
    for (uintptr_t i = 0; i < TASKS; i++)
        EXPECT_EQ(kin_spawn(&n, meet_others, (void *)i), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    printf("%llu steals of %llu tasks, %llu wakes\n", (unsigned long long)stats.steals,
           (unsigned long long)stats.tasks_stolen, (unsigned long long)stats.wakes);
    EXPECT_GE(stats.tasks_stolen, stats.steals);
    EXPECT_EQ(stats.workers, WORKERS);
    return 0;
}

KIN_TEST(every_worker_gets_work_under_every_policy, "SCHED:7.2.1 SCHED:7.3.1 SCHED:7.4.1")
{
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    for (int victim = KIN_VICTIM_RANDOM; victim <= KIN_VICTIM_LEAST_LOADED; victim++) {
        struct kin_config config = KIN_CONFIG_INIT;
        memset(&tally, 0, sizeof tally);
        config.workers = WORKERS;
        config.workers_max = WORKERS;
        config.stall_threshold = KIN_NEVER; /* nobody rescues: each wakes the next */
        config.victim = (enum kin_victim)victim;
        config.seed = kin_test_seed();
        EXPECT_EQ(kin_run(&config, feed_all_workers, NULL), 0);
        unsigned total = 0;
        for (int i = 0; i < WORKERS; i++) {
            EXPECT_GE(tally.by[i], 1);
            total += tally.by[i];
        }
        EXPECT_EQ(total, TASKS);
        for (int i = 0; i < TASKS; i++)
            EXPECT_EQ(tally.ran[i], 1);
    }
}

/* ---- the round alone ---- */

static struct kin__sched *make_sched(unsigned count)
{
    struct kin__sched *sched = kin__heap_alloc_lines(sizeof *sched);
    EXPECT(sched != NULL);
    sched->workers = kin__heap_alloc_lines(count * sizeof *sched->workers);
    EXPECT(sched->workers != NULL);
    sched->workers_max = count;
    sched->policy = kin__policy_for(KIN_VICTIM_ROUND_ROBIN);
    kin__store_relaxed(&sched->alive, count); /* alone: no threads */
    for (unsigned i = 0; i < count; i++) {
        struct kin__worker *worker = &sched->workers[i];
        worker->sched = sched;
        worker->index = (uint16_t)i;
        worker->victim_next = i;
        kin__rng_init(&worker->rng, 1, i);
        kin__bias_init(&worker->bias, true);
        kin__deque_init(&worker->deque, UINT32_MAX - 5);
        kin__store_relaxed(&worker->state, KIN__WORKER_ACTIVE); /* alone: no threads */
        kin__store_relaxed(&worker->steal_enabled, 1u);        /* alone: no threads */
    }
    return sched;
}

static void drop_sched(struct kin__sched *sched)
{
    kin__heap_free_lines(sched->workers);
    kin__heap_free_lines(sched);
}

static struct kin__task tasks[64];

static void fill(struct kin__worker *worker, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        memset(&tasks[i], 0, sizeof tasks[i]);
        kin__word_init(&tasks[i]);
        kin__store_relaxed(&tasks[i].shadow, KIN__RUNNABLE); /* alone: no threads */
        EXPECT(kin__deque_push(&worker->deque, &tasks[i]));
    }
}

static uint32_t attention_of(struct kin__worker *worker)
{
    return kin__load_relaxed(&worker->attention); /* alone: no threads */
}

KIN_TEST(a_thief_asks_a_victim_with_private_work_and_nobody_else, "SCHED:7.2.1")
{
    struct kin__sched *sched = make_sched(3);
    fill(&sched->workers[1], 4);
    for (int i = 0; i < 4; i++)
        EXPECT_PTR(kin__steal_round(&sched->workers[0]), NULL);
    EXPECT_EQ(attention_of(&sched->workers[1]), KIN__HUNGRY);
    EXPECT_EQ(attention_of(&sched->workers[0]), 0);
    EXPECT_EQ(attention_of(&sched->workers[2]), 0);
    EXPECT(kin__steal_is_worth(&sched->workers[0]));
    EXPECT(!kin__steal_is_worth(&sched->workers[1])); /* its own work is not somebody else's */
    EXPECT(!kin__steal_is_visible(sched));
    drop_sched(sched);
}

KIN_TEST(a_thief_takes_a_batch_and_runs_the_oldest, "SCHED:7.1.1 SCHED:7.2.1")
{
    struct kin__sched *sched = make_sched(2);
    struct kin__worker *victim = &sched->workers[1], *thief = &sched->workers[0];
    fill(victim, 16);
    EXPECT_EQ(kin__deque_publish(&victim->deque), 8);
    EXPECT(kin__steal_is_visible(sched));
    struct kin__task *got = kin__steal_round(thief);
    EXPECT_PTR(got, &tasks[0]);
    EXPECT_EQ(kin__deque_len(&thief->deque), 3);
    EXPECT_EQ(kin__deque_public(&thief->deque), 3); /* the next thief does not wait for this one */
    EXPECT_EQ(kin__deque_len(&victim->deque), 12);
    EXPECT_EQ(kin__load_relaxed(&thief->steals), 1); /* alone: no threads */
    EXPECT_EQ(kin__load_relaxed(&thief->stolen), 4); /* alone: no threads */
    EXPECT_EQ(kin__load_relaxed(&thief->backlog) + kin__load_relaxed(&victim->backlog), -1);
    drop_sched(sched);
}

KIN_TEST(dead_workers_are_passed_over, "SCHED:7.2.1 WK:6.1 G075")
{
    struct kin__sched *sched = make_sched(9);
    for (unsigned i = 0; i < 9; i++) {
        if (i != 2 && i != 7)
            kin__store_relaxed(&sched->workers[i].state, KIN__WORKER_DEAD); /* alone: no threads */
    }
    kin__store_relaxed(&sched->alive, 2u); /* alone: no threads */
    fill(&sched->workers[7], 1);
    EXPECT_EQ(kin__deque_publish(&sched->workers[7].deque), 1);
    EXPECT_PTR(kin__steal_round(&sched->workers[2]), &tasks[0]); /* in the first round */
    EXPECT_PTR(kin__steal_round(&sched->workers[2]), NULL);
    drop_sched(sched);
}

KIN_TEST(a_thief_never_robs_itself, "SCHED:7.2.1 SCHED:7.3.1")
{
    struct kin__sched *sched = make_sched(2);
    struct kin__worker *thief = &sched->workers[0], *victim = &sched->workers[1];
    for (unsigned i = 0; i < 4; i++) { /* its turn comes every other time, and goes to the next */
        fill(victim, 1);
        EXPECT_EQ(kin__deque_publish(&victim->deque), 1);
        EXPECT_PTR(kin__steal_round(thief), &tasks[0]);
    }
    drop_sched(sched);
}

static uint64_t failures_of(struct kin__worker *worker)
{
    return kin__load_relaxed(&worker->steals_failed); /* alone: no threads */
}

KIN_TEST(a_round_tries_four_victims_at_most_and_counts_those_in_vain, "SCHED:7.4.1 SCHED:7.2.1")
{
    static const unsigned workers[] = {1, 2, 3, 5, 6, 40};
    for (unsigned i = 0; i < sizeof workers / sizeof workers[0]; i++) {
        struct kin__sched *sched = make_sched(workers[i]);
        struct kin__worker *thief = &sched->workers[0];
        unsigned bound = workers[i] - 1 < 4 ? workers[i] - 1 : 4;
        for (unsigned round = 1; round <= 10; round++) {
            EXPECT_PTR(kin__steal_round(thief), NULL);
            EXPECT_EQ(failures_of(thief), (uint64_t)round * bound);
        }
        drop_sched(sched);
    }
}

KIN_TEST(a_worker_that_may_not_steal_does_not_try, "SCHED:6.1.1 SCHED:7.2.1 WK:6.2")
{
    struct kin__sched *sched = make_sched(2);
    struct kin__worker *victim = &sched->workers[1], *thief = &sched->workers[0];
    fill(victim, 2);
    EXPECT_EQ(kin__deque_publish(&victim->deque), 1);
    kin__store_relaxed(&thief->steal_enabled, 0u); /* alone: no threads */
    EXPECT_PTR(kin__steal_round(thief), NULL);
    EXPECT(!kin__steal_watch(thief));
    EXPECT_EQ(failures_of(thief), 0);
    kin__store_relaxed(&thief->steal_enabled, 1u); /* alone: no threads */
    EXPECT_PTR(kin__steal_round(thief), &tasks[0]);
    drop_sched(sched);
}

KIN_TEST(a_worker_looks_at_home_then_at_the_global_queue_then_at_others, "SCHED:6.3.1")
{
    struct kin__sched *sched = make_sched(2);
    struct kin__worker *worker = &sched->workers[0], *other = &sched->workers[1];
    fill(worker, 6);
    for (unsigned i = 0; i < 6; i++) /* two each: at home, in the global queue, at the other's */
        EXPECT_PTR(kin__deque_pop(&worker->deque), &tasks[5 - i]);
    for (unsigned i = 4; i < 6; i++)
        EXPECT(kin__deque_push(&other->deque, &tasks[i]));
    while (kin__deque_publish(&other->deque))
        continue;
    for (unsigned i = 2; i < 4; i++)
        kin__inject_push(&sched->inject, &tasks[i], &tasks[i], 1);
    for (unsigned i = 0; i < 2; i++)
        EXPECT(kin__deque_push(&worker->deque, &tasks[i]));
    kin__store_relaxed(&worker->countdown, 100u); /* alone: no threads; no pick is turned round */
    EXPECT_PTR(kin__worker_next(worker), &tasks[1]); /* the newest at home */
    EXPECT_PTR(kin__worker_next(worker), &tasks[0]);
    EXPECT_PTR(kin__worker_next(worker), &tasks[2]); /* the oldest in the global queue */
    EXPECT_PTR(kin__worker_next(worker), &tasks[3]);
    EXPECT_PTR(kin__worker_next(worker), NULL);
    EXPECT_PTR(kin__steal_round(worker), &tasks[4]); /* the oldest of the other */
    drop_sched(sched);
}

KIN_TEST(woken_tasks_and_new_ones_take_turns, "C9 G063")
{
    static const unsigned order[] = {4, 3, 5, 2, 1, 0};
    struct kin__sched *sched = make_sched(1);
    struct kin__worker *worker = &sched->workers[0];
    fill(worker, 6);
    for (unsigned i = 5; i > 3; i--) {
        EXPECT_PTR(kin__deque_pop(&worker->deque), &tasks[i]);
        kin__fifo_push_first(&worker->ready, &tasks[i]);
    }
    kin__store_relaxed(&worker->countdown, 100u); /* alone: no threads; no pick is turned round */
    for (unsigned i = 0; i < 6; i++)
        EXPECT_PTR(kin__worker_next(worker), &tasks[order[i]]);
    drop_sched(sched);
}

KIN_TEST(of_those_that_go_to_the_front_each_sixteenth_goes_to_the_back, "C9 G063")
{
    struct kin__sched *sched = make_sched(1);
    struct kin__worker *worker = &sched->workers[0];
    fill(worker, 17);
    for (unsigned i = 17; i-- > 0;)
        EXPECT_PTR(kin__deque_pop(&worker->deque), &tasks[i]);
    kin__worker_push_last(worker, &tasks[16]);
    for (unsigned i = 0; i < 16; i++) {
        tasks[i].flags = KIN__TASK_HIGH;
        kin__worker_push_ready(worker, &tasks[i]);
    }
    for (unsigned i = 15; i-- > 0;)
        EXPECT_PTR(kin__fifo_pop(&worker->ready), &tasks[i]);
    EXPECT_PTR(kin__fifo_pop(&worker->ready), &tasks[16]); /* passed over so many times, no more */
    EXPECT_PTR(kin__fifo_pop(&worker->ready), &tasks[15]);
    drop_sched(sched);
}

KIN_TEST(what_is_drained_out_of_a_worker_is_all_that_it_has, "WK:6.2 C7")
{
    struct kin__sched *sched = make_sched(1);
    struct kin__worker *worker = &sched->workers[0];
    fill(worker, 8);
    for (unsigned i = 7; i > 3; i--)
        EXPECT_PTR(kin__deque_pop(&worker->deque), &tasks[i]);
    EXPECT_EQ(kin__deque_publish(&worker->deque), 2);
    kin__store_relaxed(&worker->slot, &tasks[4]); /* alone: no threads */
    kin__fifo_push(&worker->ready, &tasks[5]);
    kin__fifo_push(&worker->yielded, &tasks[6]);
    kin__fifo_push(&worker->yielded, &tasks[7]);
    EXPECT_EQ(kin__worker_drain(worker), 8);
    EXPECT_EQ(kin__worker_load(worker), 0);
    EXPECT_EQ(kin__inject_len(&sched->inject), 8);
    EXPECT_EQ(kin__worker_drain(worker), 0);
    drop_sched(sched);
}

KIN_TEST(the_queue_of_a_worker_that_does_not_move_is_opened, "E4 E5 C7")
{
    for (unsigned kind = 0; kind < 3; kind++) { /* in the deque, woken, to run next */
        struct kin__sched *sched = make_sched(3);
        struct kin__worker *thief = &sched->workers[0], *victim = &sched->workers[2];
        fill(victim, 1);
        if (kind > 0) {
            EXPECT_PTR(kin__deque_pop(&victim->deque), &tasks[0]);
            if (kind == 1)
                kin__fifo_push(&victim->ready, &tasks[0]);
            else
                kin__store_relaxed(&victim->slot, &tasks[0]); /* alone: no threads */
        }
        EXPECT(kin__steal_watch(thief));
        KIN__CHANGE(victim->backlog, 1); /* it moves: it will publish what it is asked for */
        EXPECT_PTR(kin__steal_open(thief), NULL);
        EXPECT(!kin__steal_is_visible(sched));
        EXPECT(kin__steal_watch(thief));
        kin__bias_take(&victim->bias); /* it is at its queues: so it moves */
        EXPECT_PTR(kin__steal_open(thief), NULL);
        kin__bias_give(&victim->bias);
        EXPECT_PTR(kin__steal_open(thief), &tasks[0]);
        EXPECT(!kin__steal_watch(thief));
        drop_sched(sched);
    }
}
