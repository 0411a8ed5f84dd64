/* SPDX-License-Identifier: MIT */
/*
 * Goal: kin_lab_run runs ordinary kin programs under schedules that a seed repeats, finds what is
 * wrong with them, and says what.
 * Method: small programs, some of them wrong in one way each; the verdict and its oracle compared.
 */
#include "kin_test.h"

#include <kin/kin.h>
#include <kin/lab.h>

#include <errno.h>
#include <string.h>

static struct kin_lab_report report;

static int run(enum kin_lab_strategy strategy, uint64_t executions, kin_task_fn *test, void *arg)
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    config.strategy = strategy;
    config.executions_max = executions;
    config.seed = kin_test_seed();
    return kin_lab_run(&config, test, arg, &report);
}

/* ---- programs that are right ---- */

static int put_eight(void *chan)
{
    for (int i = 0; i < 8; i++) {
        int rc = kin_chan_send(chan, &i, KIN_NEVER);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int add_up(void *arg)
{
    struct kin_chan *chan;
    int sum = 0;
    (void)arg;
    KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), 1));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, put_eight, chan));
    KIN_LAB_OK(kin_spawn(&n, put_eight, chan));
    for (int i = 0, value; i < 16; i++) {
        KIN_LAB_OK(kin_chan_recv(chan, &value, KIN_NEVER));
        sum += value;
    }
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_chan_unref(chan);
    kin_lab_assert(sum == 56, "everything arrives once");
    return 0;
}

KIN_TEST(a_program_that_is_right_passes_under_every_strategy, "")
{
    static const enum kin_lab_strategy strategies[] = {KIN_LAB_ROUND_ROBIN, KIN_LAB_RANDOM,
                                                       KIN_LAB_PCT};
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        uint64_t executions = strategies[i] == KIN_LAB_ROUND_ROBIN ? 1 : 500;
        EXPECT_EQ(run(strategies[i], executions, add_up, NULL), 0);
        EXPECT_EQ(report.executions, executions);
        EXPECT_GT(report.steps, executions * 20);
        EXPECT(report.oracle == NULL);
        EXPECT_STR(report.text, "");
    }
}

KIN_TEST(the_same_seed_gives_the_same_schedules, "")
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    uint64_t hashes[3];
    config.strategy = KIN_LAB_RANDOM;
    config.executions_max = 100;
    for (int i = 0; i < 3; i++) {
        config.seed = i < 2 ? 7 : 8;
        EXPECT_EQ(kin_lab_run(&config, add_up, NULL, &report), 0);
        hashes[i] = report.schedule_hash;
    }
    EXPECT_EQ(hashes[0], hashes[1]);
    EXPECT_NE(hashes[0], hashes[2]);
}

static int sleep_long(void *arg)
{
    (void)arg;
    kin_time begin = kin_now();
    KIN_LAB_OK(kin_sleep(begin + KIN_SEC(3600)));
    kin_lab_assert(kin_now() == begin + KIN_SEC(3600), "time jumps exactly there");
    return 0;
}

KIN_TEST(an_hour_takes_no_time, "")
{
    EXPECT_EQ(run(KIN_LAB_RANDOM, 100, sleep_long, NULL), 0);
}

static int sleep_for_ever(void *arg)
{
    (void)arg;
    return kin_sleep(KIN_NEVER);
}

static int use_everything(void *arg)
{
    struct kin_mutex mutex = {0};
    struct kin_event event = {0};
    struct kin_chan *chans[2];
    int value = 0;
    (void)arg;
    for (int i = 0; i < 2; i++)
        KIN_LAB_OK(kin_chan_create(&chans[i], sizeof(int), 0));
    {
        KIN_NURSERY(n, .deadline = kin_after(KIN_SEC(1)));
        KIN_LAB_OK(kin_spawn(&n, put_eight, chans[0]));
        KIN_LAB_OK(kin_spawn(&n, put_eight, chans[1]));
        for (int i = 0; i < 16; i++) {
            struct kin_case cases[] = {KIN_CASE_RECV(chans[0], &value),
                                       KIN_CASE_RECV(chans[1], &value),
                                       KIN_CASE_AFTER(KIN_MS(10))};
            int which = kin_select(cases, 3, KIN_NEVER);
            kin_lab_assert(which == 0 || which == 1, "one of them is there before the time");
        }
        KIN_LAB_OK(kin_mutex_lock(&mutex, KIN_NEVER));
        kin_mutex_unlock(&mutex);
        kin_event_set(&event);
        KIN_LAB_OK(kin_event_wait(&event, KIN_NEVER));
        KIN_LAB_OK(kin_nursery_join(&n, NULL));
    }
    {
        KIN_NURSERY(n, .deadline = kin_after(KIN_MS(5)));
        KIN_LAB_OK(kin_spawn(&n, sleep_for_ever, NULL));
        kin_lab_assert(kin_nursery_join(&n, NULL) == KIN_TIMEOUT, "the deadline ends it");
    }
    for (int i = 0; i < 2; i++)
        kin_chan_unref(chans[i]);
    return 0;
}

KIN_TEST(channels_select_locks_deadlines_and_cancels_work_as_ever, "")
{
    EXPECT_EQ(run(KIN_LAB_ROUND_ROBIN, 1, use_everything, NULL), 0);
    EXPECT_EQ(run(KIN_LAB_RANDOM, 500, use_everything, NULL), 0);
    EXPECT_EQ(run(KIN_LAB_PCT, 500, use_everything, NULL), 0);
}

static int do_nothing(void *arg)
{
    (void)arg;
    return 0;
}

KIN_TEST(a_test_that_does_nothing_comes_to_an_end, "")
{
    static const uint32_t faults[] = {0, KIN_FAULT_OOM | KIN_FAULT_CANCEL | KIN_FAULT_DELAY,
                                      KIN_FAULT_OOM | KIN_FAULT_EACH, KIN_FAULT_CHAOS};
    for (int strategy = KIN_LAB_AUTO; strategy <= KIN_LAB_DPOR; strategy++) {
        for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
            struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
            config.strategy = (enum kin_lab_strategy)strategy;
            config.faults = faults[i];
            EXPECT_EQ(kin_lab_run(&config, do_nothing, NULL, &report), 0);
            bool is_searched = strategy == KIN_LAB_AUTO || strategy == KIN_LAB_DPOR;
            EXPECT_EQ(report.exhausted, is_searched);
            EXPECT_EQ(kin_lab_run_host(&config, do_nothing, NULL, &report), 0);
            EXPECT_EQ(report.exhausted, is_searched);
        }
    }
}

/* ---- programs that are wrong ---- */

static int shared;

static int lose_an_update(void *arg)
{
    (void)arg;
    int seen = KIN_SHARED(shared);
    KIN_SHARED(shared) = seen + 1;
    return 0;
}

static int update_twice(void *arg)
{
    (void)arg;
    shared = 0;
    {
        KIN_NURSERY(n);
        KIN_LAB_OK(kin_spawn(&n, lose_an_update, NULL));
        KIN_LAB_OK(kin_spawn(&n, lose_an_update, NULL));
        KIN_LAB_OK(kin_nursery_join(&n, NULL));
    }
    kin_lab_assert(shared == 2, "no update is lost");
    return 0;
}

KIN_TEST(a_lost_update_is_found_and_its_seed_repeats_it, "")
{
    EXPECT_EQ(run(KIN_LAB_RANDOM, 1000, update_twice, NULL), KIN_PANICKED);
    EXPECT_STR(report.oracle, "assert");
    EXPECT_EQ(report.status, KIN_PANICKED);
    EXPECT_LT(report.executions, 200);
    EXPECT(strstr(report.text, "no update is lost") != NULL);

    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    config.strategy = KIN_LAB_RANDOM;
    config.executions_max = 1;
    config.seed = report.failing_seed;
    EXPECT_EQ(kin_lab_run(&config, update_twice, NULL, &report), KIN_PANICKED);
    EXPECT_EQ(report.executions, 1);
}

static int fail(void *arg)
{
    return arg ? -EIO : -EPROTO;
}

KIN_TEST(a_negative_return_is_a_failure_with_that_status, "")
{
    EXPECT_EQ(run(KIN_LAB_ROUND_ROBIN, 1, fail, NULL), -EPROTO);
    EXPECT_STR(report.oracle, "return");
    EXPECT_EQ(run(KIN_LAB_ROUND_ROBIN, 1, fail, &shared), -EIO);
    EXPECT_EQ(report.status, -EIO);
}

/* ---- the call itself ---- */

static int call_inside(void *arg)
{
    kin_lab_assert(kin_lab_run(NULL, add_up, NULL, NULL) == -EBUSY, "one at a time");
    kin_lab_assert(kin_in_lab(), "this is the lab");
    return arg != NULL;
}

KIN_TEST(nonsense_is_refused, "")
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    EXPECT_EQ(kin_lab_run(&config, NULL, NULL, &report), -EINVAL);
    config.size--;
    EXPECT_EQ(kin_lab_run(&config, add_up, NULL, &report), -EINVAL);
    config = (struct kin_lab_config)KIN_LAB_CONFIG_INIT;
    config.strategy = (enum kin_lab_strategy)77;
    EXPECT_EQ(kin_lab_run(&config, add_up, NULL, &report), -EINVAL);
    config = (struct kin_lab_config)KIN_LAB_CONFIG_INIT;
    config.strategy = KIN_LAB_REPLAY;
    EXPECT_EQ(kin_lab_run(&config, add_up, NULL, &report), -EINVAL);
    config.strategy = KIN_LAB_BYTES;
    config.bytes_count = 1;
    EXPECT_EQ(kin_lab_run(&config, add_up, NULL, &report), -EINVAL);
    EXPECT(!kin_in_lab());
    EXPECT_EQ(run(KIN_LAB_ROUND_ROBIN, 1, call_inside, NULL), 0);
    EXPECT(!kin_in_lab());
}

static int in_a_runtime(void *arg)
{
    return add_up(arg);
}

static int run_three(void *arg)
{
    for (int i = 0; i < 3; i++) {
        int rc = kin_run(NULL, in_a_runtime, arg);
        if (rc < 0)
            return rc;
    }
    return 0;
}

KIN_TEST(a_test_may_run_runtimes_itself, "")
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    config.strategy = KIN_LAB_RANDOM;
    config.executions_max = 100;
    EXPECT_EQ(kin_lab_run_host(&config, run_three, NULL, &report), 0);
    EXPECT_EQ(report.executions, 100);
    EXPECT_EQ(kin_run(NULL, in_a_runtime, NULL), 0); /* and programs run without the lab, too */
}
