/* SPDX-License-Identifier: MIT */
/*
 * Tests of schedules that come from a fuzzer's bytes.
 */
#include "explore.h"

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
