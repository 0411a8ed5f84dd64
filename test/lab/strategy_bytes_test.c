/* SPDX-License-Identifier: MIT */
/*
 * Tests of schedules that come from a fuzzer's bytes.
 */
#include "explore.h"

#include <kin/kin.h>
#include <kin/lab.h>

static const struct small_program program = {
    .actors = 3,
    .all = 3,
    .ops = {{{SMALL_NOTHING, 0, 0, 0}, {SMALL_CASE, 0, 5, 0}},
            {{SMALL_NOTHING, 0, 0, 0}, {SMALL_CASE, 1, 300, 0}},
            {{SMALL_DICE, 0, 0, 0}, {SMALL_PUT, 2, 0, 0}}},
};

KIN_TEST(bytes_decide_where_there_is_something_to_decide, "")
{
    static const uint8_t bytes[] = {
        2 + 3 * 7, /* the third of three, and its dice, any number of 32 bits: */
        0x12,
        0x34,
        0x56,
        0x78,
        0,         /* the first */
        0,         /* again: */
        3,         /* case 3 of 5 */
        1 + 2 * 9, /* the second of two, which is the third actor */
        /* one is left, and nothing has to be decided but its case of 300 */
        0x01,
        0x02,
    };
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_BYTES,
                                              .bytes = bytes,
                                              .bytes_count = sizeof(bytes),
                                              .runs_max = 10};
    static const uint16_t expected[] = {2, 0, 0, 2, 1, 1};
    struct kin__engine *e = explore(&program, &config);
    size_t count = 0;
    const uint16_t *schedule = kin__engine_schedule(e, &count);

    EXPECT_EQ(kin__engine_result(e)->runs, 1);
    EXPECT_EQ(count, 6);
    for (size_t i = 0; i < count; i++)
        EXPECT_EQ(schedule[i], expected[i]);
    EXPECT_EQ(world.words[0], 3);
    EXPECT_EQ(world.words[1], 0x0102);
    EXPECT_EQ(world.words[2], 0x12345678);
    kin__engine_destroy(e);
}

KIN_TEST(behind_the_last_byte_nothing_is_special, "")
{
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_BYTES};
    static const uint16_t expected[] = {0, 0, 1, 1, 2, 2};
    struct kin__engine *e = explore(&program, &config);
    size_t count = 0;
    const uint16_t *schedule = kin__engine_schedule(e, &count);

    EXPECT_EQ(count, 6);
    for (size_t i = 0; i < count; i++)
        EXPECT_EQ(schedule[i], expected[i]);
    EXPECT_EQ(world.words[0] + world.words[1] + world.words[2], 0);
    kin__engine_destroy(e);
}

/* Every string of bytes is a run that ends. */
KIN_TEST(any_bytes_make_a_run, "")
{
    uint8_t bytes[64];
    struct kin__rng rng;

    kin__rng_init(&rng, kin_test_seed(), 0);
    for (unsigned i = 0; i < 500; i++) {
        const struct small_program lost = explore_lost_update();
        const struct kin__engine_config config = {.strategy = KIN__STRATEGY_BYTES,
                                                  .bytes = bytes,
                                                  .bytes_count = kin__rng_below(&rng, 65),
                                                  .shrinks = true};
        for (unsigned k = 0; k < sizeof(bytes); k++)
            bytes[k] = (uint8_t)kin__rng_next(&rng);
        const struct kin__engine_result result = explore_result(&lost, &config);
        EXPECT_EQ(result.runs, 1);
        EXPECT(!result.has_diverged);
        EXPECT(!result.failure.oracle || strcmp(result.failure.oracle, "assert") == 0);
    }
}

/* ---- a program of tasks ---- */

static struct kin_lab_report report;
static uint32_t digit; /* what the last run has chosen, */
static int sum;        /* and what came of the order of its tasks */

static int add_late(void *arg)
{
    int seen = KIN_SHARED(sum);
    (void)arg;
    KIN_SHARED(sum) = seen + 1;
    return 0;
}

static int choose_and_add(void *arg)
{
    (void)arg;
    sum = 0;
    digit = kin_lab_choose(256, "digit");
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, add_late, NULL));
    KIN_LAB_OK(kin_spawn(&n, add_late, NULL));
    return kin_nursery_join(&n, NULL);
}

static int run_bytes(const void *bytes, size_t count)
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    config.strategy = KIN_LAB_BYTES;
    config.bytes = bytes;
    config.bytes_count = count;
    return kin_lab_run(&config, choose_and_add, NULL, &report);
}

KIN_TEST(without_bytes_tasks_run_one_after_the_other, "")
{
    EXPECT_EQ(run_bytes(NULL, 0), 0);
    EXPECT_EQ(report.executions, 1);
    EXPECT(!report.exhausted);
    EXPECT_EQ(digit, 0);
    EXPECT_EQ(sum, 2);
    const uint64_t hash = report.schedule_hash;
    EXPECT_EQ(run_bytes("*", 1), 0);
    EXPECT_EQ(digit, '*');
    EXPECT_NE(report.schedule_hash, hash);
}

KIN_TEST(the_same_bytes_are_the_same_run, "")
{
    uint8_t bytes[4096];
    struct kin__rng rng;
    unsigned lost = 0; /* runs in which one has not seen what the other wrote */

    kin__rng_init(&rng, kin_test_seed(), 0);
    for (unsigned i = 0; i < 60; i++) {
        for (unsigned k = 0; k < sizeof(bytes); k++)
            bytes[k] = (uint8_t)kin__rng_next(&rng);
        EXPECT_EQ(run_bytes(bytes, sizeof(bytes)), 0);
        const uint64_t hash = report.schedule_hash, steps = report.steps;
        const int before = sum;
        EXPECT_EQ(report.executions, 1);
        EXPECT_EQ(digit, bytes[0]);
        EXPECT_EQ(run_bytes(bytes, 256), 0); /* those behind are more than it needs */
        EXPECT_EQ(report.schedule_hash, hash);
        EXPECT_EQ(report.steps, steps);
        EXPECT_EQ(sum, before);
        lost += sum == 1;
    }
    EXPECT_GT(lost, 0);
    EXPECT_LT(lost, 60);
}
