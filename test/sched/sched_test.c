/* SPDX-License-Identifier: MIT */
/*
 * Goal: a runtime starts, runs every task exactly once, ends, and leaves nothing behind.
 * Method: whole runs with 1 to 1024 workers, several at once, with wrong configurations and with
 * each request for a resource failing in turn; the counters must come back to where they were.
 */
#include "kin_test.h"

#include "plat/plat.h"
#include "sched/sched.h"

#include <kin/kin.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- every task once ---- */

enum { TASKS = 3000 };

struct census {
    atomic_uint ran[TASKS];
    unsigned count;
    bool yields;
};

struct member {
    struct census *census;
    unsigned number;
};

static int count_me(void *arg)
{
    struct member *member = arg;
    if (member->census->yields && member->number % 3 == 0)
        EXPECT_EQ(kin_yield(), 0);
    atomic_fetch_add(&member->census->ran[member->number], 1);
    return 0;
}

/* Half of them are spawned by the first task, the others by every second child of it. */
static int count_me_and_another(void *arg)
{
    struct member *member = arg;
    KIN_NURSERY(n);
    struct member other = {member->census, member->number + 1};
    EXPECT_EQ(kin_spawn_copy(&n, count_me, &other, sizeof other), 0);
    EXPECT_EQ(count_me(arg), 0);
    return kin_nursery_join(&n, NULL);
}

static int spawn_all(void *arg)
{
    struct census *census = arg;
    struct kin_stats stats;
    KIN_NURSERY(n);
    for (unsigned i = 0; i < census->count; i += 2) {
        struct member member = {census, i};
        EXPECT_EQ(kin_spawn_copy(&n, count_me_and_another, &member, sizeof member), 0);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    do /* ends: a worker counts an end right behind the task that it wakes */
        EXPECT_EQ(kin_stats_get(&stats), 0);
    while (stats.tasks_live > 1);
    EXPECT_EQ(stats.tasks_live, 1); /* this one [G070] */
    EXPECT_EQ(stats.pressure, 0);
    EXPECT_EQ(stats.timers, 0);
    for (unsigned i = 0; i < census->count; i++)
        EXPECT_EQ(atomic_load(&census->ran[i]), 1);
    return 17;
}

static void expect_each_once(unsigned workers, enum kin_victim victim, unsigned count)
{
    static struct census census;
    struct kin_config config = KIN_CONFIG_INIT;
    memset(&census, 0, sizeof census);
    census.count = count;
    census.yields = workers % 2 == 0;
    config.workers = workers;
    config.victim = victim;
    config.seed = kin_test_seed();
    EXPECT_EQ(kin_run(&config, spawn_all, &census), 17);
    for (unsigned i = 0; i < count; i++)
        EXPECT_EQ(atomic_load(&census.ran[i]), 1);
}

KIN_TEST(every_task_runs_once_on_few_workers, "F4 SCHED:6.2.2 SCHED:6.2.3 G070 EP:7.1")
{
    for (unsigned workers = 1; workers <= 4; workers++)
        for (int victim = KIN_VICTIM_RANDOM; victim <= KIN_VICTIM_LEAST_LOADED; victim++)
            expect_each_once(workers, (enum kin_victim)victim, TASKS);
}

KIN_TEST(every_task_runs_once_on_256_workers, "F4 SCHED:6.2.2 G070 G076 SCHED:13.2.1")
{
    expect_each_once(256, KIN_VICTIM_RANDOM, TASKS);
}

#if !KIN__TSAN
KIN_TEST(every_task_runs_once_on_1024_workers, "F4 SCHED:6.2.2 G076")
{
    expect_each_once(KIN_WORKERS_MAX, KIN_VICTIM_RANDOM, TASKS);
}
#endif

#ifdef KIN_DEBUG
KIN_TEST(every_task_runs_once_in_every_hard_mode, "F4")
{
    static const char *const modes[] = {"park", "steal", "one", "wrap", "slow", "stack",
                                        "park,steal,wrap,stack"};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        EXPECT_EQ(setenv("KIN_HARD", modes[i], 1), 0);
        expect_each_once(2, KIN_VICTIM_RANDOM, TASKS);
    }
}
#endif

/* ---- the result, and wrong configurations ---- */

static int give_back(void *arg)
{
    return *(int *)arg;
}

KIN_TEST(a_run_returns_what_its_first_task_returned, "SCHED:6.2.1")
{
    int results[] = {0, 1, INT32_MAX, -1, -EIO, KIN_TIMEOUT, KIN_CANCELLED};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        EXPECT_EQ(kin_run(NULL, give_back, &results[i]), results[i]);
}

static int never_run(void *arg)
{
    (void)arg;
    printf("a task ran although the configuration is wrong\n");
    EXPECT(false);
    return 0;
}

#define EXPECT_INVALID(change)                                                                     \
    do {                                                                                           \
        struct kin_config config = KIN_CONFIG_INIT;                                                \
        config.change;                                                                             \
        EXPECT_EQ(kin_run(&config, never_run, NULL), -EINVAL);                                     \
    } while (0)

KIN_TEST(a_wrong_configuration_is_refused, "SCHED:6.2.3")
{
    EXPECT_INVALID(size = 1);
    EXPECT_INVALID(size = 0);
    EXPECT_INVALID(workers = KIN_WORKERS_MAX + 1);
    EXPECT_INVALID(workers_max = 2 * KIN_WORKERS_MAX + 1);
    EXPECT_INVALID(stall_threshold = -1);
    EXPECT_INVALID(victim = (enum kin_victim)77);
    EXPECT_INVALID(on_overflow = (enum kin_on_overflow)77);
    EXPECT_INVALID(stack_max_bytes = SIZE_MAX);
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 3;
    config.workers_max = 2;
    if (!getenv("KIN_HARD"))
        EXPECT_EQ(kin_run(&config, never_run, NULL), -EINVAL);
    EXPECT_EQ(kin_run(NULL, NULL, NULL), -EINVAL);
}

static int run_again(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_run(NULL, never_run, NULL), -EBUSY);
    return 5;
}

KIN_TEST(a_run_inside_a_task_is_refused, "")
{
    EXPECT_EQ(kin_run(NULL, run_again, NULL), 5);
}

/* ---- outside a task ---- */

KIN_TEST(what_needs_a_task_says_so_outside_of_one, "N1002")
{
    struct kin_stats stats;
    EXPECT_EQ(kin_yield(), KIN_NOTASK);
    EXPECT_EQ(kin_checkpoint(), KIN_NOTASK);
    EXPECT_EQ(kin_stats_get(&stats), KIN_NOTASK);
    EXPECT_EQ(kin_dump(2), KIN_NOTASK);
    EXPECT_EQ(kin_self().id, 0);
    EXPECT(!kin_cancelled());
}

/* ---- several runtimes ---- */

static void *run_on_a_thread(void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;
    struct census *census = arg;
    for (int i = 0; i < 5; i++) {
        memset(census->ran, 0, sizeof census->ran);
        config.workers = 1 + (unsigned)i % 3;
        EXPECT_EQ(kin_run(&config, spawn_all, census), 17);
    }
    return NULL;
}

KIN_TEST(several_runtimes_run_at_once, "SCHED:6.2.2")
{
    enum { RUNTIMES = 4 };
    static struct census census[RUNTIMES];
    pthread_t threads[RUNTIMES];
    for (int i = 0; i < RUNTIMES; i++) {
        census[i].count = 400;
        census[i].yields = true;
        EXPECT_EQ(pthread_create(&threads[i], NULL, run_on_a_thread, &census[i]), 0);
    }
    for (int i = 0; i < RUNTIMES; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
}

static int spawn_into(void *arg)
{
    atomic_uint *count = arg;
    atomic_fetch_add(count, 1);
    return 0;
}

struct bridge {
    struct kin_nursery *n; /* of the other runtime */
    atomic_uint count;
    atomic_bool is_open, is_done;
};

static int spawn_across(void *arg)
{
    struct bridge *bridge = arg;
    for (int i = 0; i < 200; i++)
        EXPECT_EQ(kin_spawn(bridge->n, spawn_into, &bridge->count), 0);
    return 0;
}

static void *be_the_other_runtime(void *arg)
{
    struct bridge *bridge = arg;
    while (!bridge->is_open)
        sched_yield();
    EXPECT_EQ(kin_run(NULL, spawn_across, bridge), 0);
    bridge->is_done = true;
    return NULL;
}

static int be_spawned_into(void *arg)
{
    struct bridge *bridge = arg;
    KIN_NURSERY(n);
    bridge->n = &n;
    bridge->is_open = true;
    while (!bridge->is_done)
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(100))), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(bridge->count, 200);
    return 0;
}

KIN_TEST(a_task_of_one_runtime_spawns_into_another, "F4")
{
    struct bridge bridge = {0};
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, be_the_other_runtime, &bridge), 0);
    EXPECT_EQ(kin_run(NULL, be_spawned_into, &bridge), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
}

/* ---- counters ---- */

static int park_a_moment(void *arg)
{
    (void)arg;
    return kin_sleep(kin_after(KIN_US(50)));
}

static int watch_the_counters(void *arg)
{
    struct kin_stats stats;
    (void)arg;
    for (unsigned count = 1; count <= 256; count *= 4) {
        KIN_NURSERY(n);
        for (unsigned i = 0; i < count; i++)
            EXPECT_EQ(kin_spawn(&n, park_a_moment, NULL), 0);
        EXPECT_EQ(kin_stats_get(&stats), 0);
        EXPECT_LE(stats.tasks_live, count + 1);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        do /* ends: a worker counts an end right behind the task that it wakes */
            EXPECT_EQ(kin_stats_get(&stats), 0);
        while (stats.tasks_live > 1);
        EXPECT_EQ(stats.tasks_live, 1);
        EXPECT_EQ(stats.pressure, 0);
        EXPECT_EQ(stats.timers, 0);
    }
    EXPECT_EQ(kin_stats_get(NULL), -EINVAL);
    return 0;
}

KIN_TEST(the_counters_come_back_to_where_they_were, "G070 T009 EP:7.1")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct kin_config config = KIN_CONFIG_INIT;
        config.workers = workers;
        EXPECT_EQ(kin_run(&config, watch_the_counters, NULL), 0);
    }
}

/* ---- requests that fail ---- */

static int small_program(void *arg)
{
    static struct census census;
    (void)arg;
    memset(&census, 0, sizeof census);
    KIN_NURSERY(n);
    int accepted = 0;
    for (unsigned i = 0; i < 10; i++) {
        struct member member = {&census, i};
        int rc = kin_spawn_copy(&n, count_me, &member, sizeof member);
        EXPECT(rc == 0 || rc == -ENOMEM || rc == KIN_NOSCOPE);
        accepted += rc == 0;
    }
    int rc = kin_nursery_join(&n, NULL);
    EXPECT(rc == 0 || rc == -ENOMEM);
    if (rc == 0) {
        for (unsigned i = 0; i < 10; i++)
            accepted -= (int)atomic_load(&census.ran[i]);
        EXPECT_EQ(accepted, 0);
    }
    return rc;
}

/* The n-th thread, stack, frame or piece of heap that is asked for is not to be had. */
static bool run_short_of(uint64_t n)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 5;
    kin__plat_fail_after(n, false);
    int rc = kin_run(&config, small_program, NULL);
    bool has_failed = kin__plat_requests() >= n;
    kin__plat_fail_after(0, false);
    EXPECT(rc == 0 || rc == -ENOMEM || rc == -EAGAIN);
    EXPECT_EQ(kin_run(&config, small_program, NULL), 0); /* and everything works again */
    return has_failed;
}

KIN_TEST_LIMIT(a_request_that_fails_is_an_error_and_leaves_nothing_behind, "SCHED:6.2.1", 120)
{
    uint64_t n = 1;
    bool has_failed = true;
    while (has_failed) { /* ends: with the first n that is not reached */
        int status;
        pid_t process = fork(); /* fresh: nothing is cached yet */
        EXPECT_GE(process, 0);
        if (process == 0)
            exit(run_short_of(n) ? 0 : 7);
        EXPECT_EQ(waitpid(process, &status, 0), process);
        EXPECT(WIFEXITED(status));
        EXPECT(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 7);
        has_failed = WEXITSTATUS(status) == 0;
        n++;
        EXPECT_LT(n, 1000);
    }
    printf("%llu requests\n", (unsigned long long)n - 2);
    EXPECT_GT(n, 10);
}

static void *run_many(void *arg)
{
    int five = 5;
    (void)arg;
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(kin_run(NULL, give_back, &five), 5);
    return NULL;
}

KIN_TEST(runtimes_come_and_go, "SCHED:6.2.1")
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, run_many, NULL), 0);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
}
