/* SPDX-License-Identifier: MIT */
/*
 * Tests of round-robin: everybody in turn, nothing by chance.
 */
#include "explore.h"

KIN_TEST(everybody_has_a_turn, "")
{
    static const struct small_program program = {
        .actors = 3,
        .all = 3,
        .ops = {{{SMALL_NOTHING, 0, 0, 0}, {SMALL_NOTHING, 0, 0, 0}, {SMALL_NOTHING, 0, 0, 0}},
                {{SMALL_NOTHING, 0, 0, 0}},
                {{SMALL_NOTHING, 0, 0, 0}, {SMALL_NOTHING, 0, 0, 0}}},
    };
    static const uint16_t expected[] = {0, 1, 2, 0, 2, 0};
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_ROUND_ROBIN};
    struct kin__engine *e = explore(&program, &config);
    size_t count = 0;
    const uint16_t *schedule = kin__engine_schedule(e, &count);

    EXPECT_EQ(count, 6);
    for (size_t i = 0; i < count; i++)
        EXPECT_EQ(schedule[i], expected[i]);
    EXPECT_EQ(kin__engine_result(e)->runs, 1);
    EXPECT(kin__engine_result(e)->is_exhausted);
    EXPECT(!kin__engine_result(e)->is_complete);
    kin__engine_destroy(e);
}

KIN_TEST(nothing_happens_by_chance_but_the_programs_own_dice, "")
{
    static const struct small_program program = {
        .actors = 2,
        .all = 2,
        .ops = {{{SMALL_CASE, 0, 5, 0}, {SMALL_FAULT, 1, 5, 0}},
                {{SMALL_DICE, 0, 1000, 0}, {SMALL_PUT, 2, 0, 0}}},
    };
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_ROUND_ROBIN,
                                              .runs_max = 20};
    struct kin__engine *e = explore(&program, &config);

    EXPECT_EQ(kin__engine_result(e)->runs, 20); /* other seeds, other dice */
    EXPECT_EQ(world.words[0], 0);
    EXPECT_EQ(world.words[1], 0);
    kin__engine_destroy(e);
}
