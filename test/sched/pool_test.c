/* SPDX-License-Identifier: MIT */
/*
 * Goal: slots of workers are started, retired and started again without losing a thread or a timer.
 * Method: runs in which every worker blocks again and again while others need it, so that slots
 * turn round; the numbers of kin_stats_get and the log of decisions must fit together.
 */
#include "kin_test.h"

#include "plat/plat.h"
#include "sched/sched.h"

#include <kin/kin.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKERS = 6, LAPS = 5 };

struct churn {
    atomic_uint laps, sleeps;
    atomic_bool is_over;
};

/* Blocks longer than the threshold, then lets others run. */
static int block_and_yield(void *arg)
{
    struct churn *churn = arg;
    for (int i = 0; i < LAPS; i++) {
        usleep(15000);
        atomic_fetch_add(&churn->laps, 1);
        EXPECT_EQ(kin_yield(), 0);
    }
    return 0;
}

/* Has a timer in the wheel of whatever worker it is on. */
static int sleep_on_and_on(void *arg)
{
    struct churn *churn = arg;
    while (!churn->is_over) {
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(3))), 0);
        atomic_fetch_add(&churn->sleeps, 1);
    }
    return 0;
}

static unsigned count_in_log(struct kin__sched *sched, enum kin__scale_reason reason)
{
    unsigned count = 0;
    kin__lock_take(&sched->pool_lock, KIN__RANK_POOL);
    for (unsigned i = 0; i < sched->scale_count && i < KIN__SCALE_LOG; i++)
        count += sched->scale_log[i].reason == reason;
    kin__lock_give(&sched->pool_lock, KIN__RANK_POOL);
    return count;
}

static int churn_workers(void *arg)
{
    struct churn *churn = arg;
    struct kin__sched *sched = kin__worker_self()->sched;
    struct kin_stats stats;
    KIN_NURSERY(sleepers);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(kin_spawn(&sleepers, sleep_on_and_on, churn), 0);
    KIN_NURSERY(blockers);
    for (int i = 0; i < BLOCKERS; i++)
        EXPECT_EQ(kin_spawn(&blockers, block_and_yield, churn), 0);
    EXPECT_EQ(kin_nursery_join(&blockers, NULL), 0);
    churn->is_over = true;
    EXPECT_EQ(kin_nursery_join(&sleepers, NULL), 0);
    EXPECT_EQ(churn->laps, BLOCKERS * LAPS);
    do {
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
        EXPECT_EQ(kin_stats_get(&stats), 0);
        /* ends: whoever was replaced retires, and counts its last task before */
    } while (stats.workers > sched->workers_base || stats.tasks_live > 1);
    EXPECT_GE(stats.workers_replaced, 1);
    EXPECT_EQ(stats.workers_started, sched->workers_base + stats.workers_replaced);
    EXPECT_EQ(stats.tasks_live, 1);
    EXPECT_EQ(stats.pressure, 0);
    EXPECT_EQ(stats.timers, 0);
    EXPECT_EQ(count_in_log(sched, KIN__SCALE_NO_THREAD), 0);
    printf("%u replaced, %u sleeps\n", stats.workers_replaced, churn->sleeps);
    return 0;
}

KIN_TEST(slots_turn_round_while_workers_block, "C7 C12 WK:6.1 WK:6.2")
{
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct kin_config config = KIN_CONFIG_INIT;
        struct churn churn = {0};
        config.workers = workers;
        config.workers_max = workers + 2;
        EXPECT_EQ(kin_run(&config, churn_workers, &churn), 0);
        EXPECT_GE(churn.sleeps, 4);
    }
}

/* ---- the log ---- */

KIN_TEST(the_log_keeps_the_latest_decisions, "EP:7.3")
{
    static struct kin__sched sched;
    for (unsigned i = 0; i < 3 * KIN__SCALE_LOG + 5; i++)
        kin__pool_note_locked(&sched, &(struct kin__scale_event){.when = i});
    EXPECT_EQ(sched.scale_count, 3 * KIN__SCALE_LOG + 5);
    for (unsigned i = sched.scale_count - KIN__SCALE_LOG; i < sched.scale_count; i++)
        EXPECT_EQ(sched.scale_log[i % KIN__SCALE_LOG].when, i);
}

static int look_at_the_start(void *arg)
{
    struct kin__sched *sched = kin__worker_self()->sched;
    struct kin_stats stats;
    (void)arg;
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.workers, 3);
    EXPECT_EQ(stats.workers_started, 3);
    EXPECT_EQ(stats.workers_replaced, 0);
    EXPECT_EQ(count_in_log(sched, KIN__SCALE_START), 1);
    for (unsigned i = 0; i < sched->workers_max; i++) {
        uint32_t state = kin__load_relaxed(&sched->workers[i].state); /* relaxed: a snapshot */
        EXPECT_EQ(state == KIN__WORKER_DEAD, i >= 3);
    }
    return 0;
}

KIN_TEST(a_runtime_starts_its_base_workers_and_no_more, "SCHED:6.2.2 WK:6.1 C12 SCHED:6.1.1")
{
    struct kin_config config = KIN_CONFIG_INIT;
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    config.workers = 3;
    config.workers_max = 7;
    EXPECT_EQ(kin_run(&config, look_at_the_start, NULL), 0);
}

static int count_default_workers(void *arg)
{
    struct kin__sched *sched = kin__worker_self()->sched;
    (void)arg;
    EXPECT_EQ(sched->workers_base, kin__cpu_count());
    EXPECT_EQ(sched->workers_max, 2 * kin__cpu_count());
    return 0;
}

KIN_TEST(by_default_there_is_a_worker_per_cpu, "SCHED:6.2.1")
{
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    EXPECT_EQ(kin_run(NULL, count_default_workers, NULL), 0);
}
