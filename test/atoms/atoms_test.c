/* SPDX-License-Identifier: MIT */
/*
 * An exploration from its config to its report.
 */
#include "kin_test.h"

#include "words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t x;
static struct kin_atoms_report report;

static void increment(void *arg)
{
    (void)arg;
    uint32_t seen = load(&x, RELAXED);
    store(&x, seen + 1, RELAXED);
}

static void begin(void *arg)
{
    (void)arg;
    x = 0;
    kin_atoms_spawn("first", increment, NULL);
    kin_atoms_spawn("second", increment, NULL);
}

static void end(void *arg)
{
    (void)arg;
    kin_atoms_assert(x == 2, "no update is lost");
}

KIN_TEST(a_lost_update_is_found_and_reported, "")
{
    EXPECT_EQ(kin_atoms_run(NULL, begin, end, NULL, &report), KIN_PANICKED);
    EXPECT_EQ(report.status, KIN_PANICKED);
    EXPECT_EQ(report.failures, 1);
    EXPECT_STR(report.oracle, "assert");
    EXPECT(strstr(report.text, "no update is lost") != NULL);
    EXPECT(!report.exhausted);
    EXPECT_EQ(kin_atoms_run(NULL, begin, NULL, NULL, &report), 0);
    EXPECT(report.exhausted);
    EXPECT(report.oracle == NULL);
    EXPECT_STR(report.text, "");
}

KIN_TEST(a_report_is_not_needed, "")
{
    EXPECT_EQ(kin_atoms_run(NULL, begin, end, NULL, NULL), KIN_PANICKED);
}

KIN_TEST(every_strategy_runs, "")
{
    static const enum kin_atoms_strategy by_chance[] = {KIN_ATOMS_RANDOM, KIN_ATOMS_PCT,
                                                        KIN_ATOMS_WALK};
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    for (size_t i = 0; i < 3; i++) {
        config.strategy = by_chance[i];
        config.seed = kin_test_seed();
        EXPECT_EQ(kin_atoms_run(&config, begin, end, NULL, &report), KIN_PANICKED);
    }
    config.strategy = KIN_ATOMS_DFS;
    EXPECT_EQ(kin_atoms_run(&config, begin, end, NULL, &report), KIN_PANICKED);
    config.strategy = KIN_ATOMS_ROUND_ROBIN;
    EXPECT_EQ(kin_atoms_run(&config, begin, NULL, NULL, &report), 0);
    EXPECT_EQ(report.executions, 1);
}

KIN_TEST(a_failing_seed_fails_in_its_first_execution, "")
{
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    config.strategy = KIN_ATOMS_RANDOM;
    config.seed = kin_test_seed();
    EXPECT_EQ(kin_atoms_run(&config, begin, end, NULL, &report), KIN_PANICKED);
    config.seed = report.failing_seed;
    config.executions_max = 1;
    EXPECT_EQ(kin_atoms_run(&config, begin, end, NULL, &report), KIN_PANICKED);
}

KIN_TEST(executions_are_limited, "")
{
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    config.executions_max = 3;
    EXPECT_EQ(kin_atoms_run(&config, begin, NULL, NULL, &report), 0);
    EXPECT_EQ(report.executions, 3);
    EXPECT(!report.exhausted);
}

KIN_TEST(failures_are_counted_when_it_goes_on, "")
{
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    config.keeps_going = true;
    EXPECT_EQ(kin_atoms_run(&config, begin, end, NULL, &report), KIN_PANICKED);
    EXPECT(report.exhausted);
    EXPECT_EQ(report.executions, 4); /* who reads first, who writes first: one is in order each */
    EXPECT_EQ(report.failures, 2);
}

KIN_TEST(a_preemption_bound_is_kept, "")
{
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    config.preemptions = 1;
    EXPECT_EQ(kin_atoms_run(&config, begin, end, NULL, &report), KIN_PANICKED);
}

static void turn_for_ever(void *arg)
{
    (void)arg;
    for (;;)
        (void)add(&x, 1, RELAXED);
}

static void begin_endless(void *arg)
{
    (void)arg;
    kin_atoms_spawn("wheel", turn_for_ever, NULL);
}

KIN_TEST(a_run_without_end_is_a_livelock, "")
{
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    config.steps_max = 1000;
    EXPECT_EQ(kin_atoms_run(&config, begin_endless, NULL, NULL, &report), KIN_STUCK);
    EXPECT_STR(report.oracle, "livelock");
}

KIN_TEST(configs_that_make_no_sense_are_refused, "")
{
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    EXPECT_EQ(kin_atoms_run(&config, NULL, NULL, NULL, &report), -EINVAL);
    config.size--;
    EXPECT_EQ(kin_atoms_run(&config, begin, NULL, NULL, &report), -EINVAL);
    config.size++;
    config.strategy = (enum kin_atoms_strategy)99;
    EXPECT_EQ(kin_atoms_run(&config, begin, NULL, NULL, &report), -EINVAL);
    config.strategy = KIN_ATOMS_DPOR;
    config.memory = (enum kin_atoms_memory)99;
    EXPECT_EQ(kin_atoms_run(&config, begin, NULL, NULL, &report), -EINVAL);
    EXPECT_EQ(report.status, -EINVAL);
}

static void begin_nested(void *arg)
{
    (void)arg;
    kin_atoms_assert(kin_atoms_run(NULL, begin, NULL, NULL, NULL) == -EINVAL, "one at a time");
}

KIN_TEST(a_run_inside_of_a_run_is_refused, "")
{
    EXPECT_EQ(kin_atoms_run(NULL, begin_nested, NULL, NULL, &report), 0);
}

static void begin_wrong(void *arg)
{
    (void)arg;
    kin_atoms_assert(false, "it cannot even begin");
}

KIN_TEST(an_assertion_holds_in_begin_too, "")
{
    EXPECT_EQ(kin_atoms_run(NULL, begin_wrong, NULL, NULL, &report), KIN_PANICKED);
    EXPECT(strstr(report.text, "it cannot even begin") != NULL);
}

/* A failure is saved, and what was saved fails again in the same way. */
KIN_TEST(a_saved_failure_replays, "")
{
    char path[] = "/tmp/kin-atoms-XXXXXX";
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    int fd = kin_test_mkstemp(path);
    EXPECT_GE(fd, 0);
    close(fd);
    config.name = "lost_update";
    config.save_file = path;
    EXPECT_EQ(kin_atoms_run(&config, begin, end, NULL, &report), KIN_PANICKED);
    config.save_file = NULL;
    config.strategy = KIN_ATOMS_REPLAY;
    config.replay_file = path;
    for (int i = 0; i < 100; i++) {
        EXPECT_EQ(kin_atoms_run(&config, begin, end, NULL, &report), KIN_PANICKED);
        EXPECT_STR(report.oracle, "assert");
    }
    EXPECT_EQ(unlink(path), 0);
    EXPECT_LT(kin_atoms_run(&config, begin, end, NULL, &report), 0);
}

/* ---- choices ---- */

static unsigned chosen[3][3];

static void choose_two(void *arg)
{
    (void)arg;
    unsigned one = kin_atoms_choose(3, "first"), other = kin_atoms_choose(3, "second");
    chosen[one][other]++;
    (void)add(&x, 1, RELAXED);
    kin_atoms_assert(kin_atoms_choose(1, "no choice") == 0, "there is one");
}

static void begin_choices(void *arg)
{
    (void)arg;
    kin_atoms_spawn("chooser", choose_two, NULL);
}

KIN_TEST(all_choices_are_tried, "")
{
    EXPECT_EQ(kin_atoms_run(NULL, begin_choices, NULL, NULL, &report), 0);
    EXPECT(report.exhausted);
    EXPECT_EQ(report.executions, 9);
    for (int i = 0; i < 9; i++)
        EXPECT_EQ(chosen[i / 3][i % 3], 1);
}
