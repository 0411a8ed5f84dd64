/* SPDX-License-Identifier: MIT */
/*
 * Tests of PCT: bugs of a depth are found as often as is promised.
 */
#include "explore.h"

/* How many of many runs fail. */
static uint64_t failures(const struct small_program *program, enum kin__strategy strategy,
                         unsigned depth, uint64_t runs)
{
    const struct kin__engine_config config = {
        .strategy = strategy, .seed = 1234, .depth = depth, .runs_max = runs, .keeps_going = true};

    return explore_result(program, &config).failures;
}

/* One order of two steps: the second actor's check comes before the first actor's last step. */
static const struct small_program depth_one = {
    .actors = 2,
    .all = 2,
    .ops = {{{SMALL_NOTHING, 0, 0, 0},
             {SMALL_NOTHING, 0, 0, 0},
             {SMALL_NOTHING, 0, 0, 0},
             {SMALL_NOTHING, 0, 0, 0},
             {SMALL_NOTHING, 0, 0, 0},
             {SMALL_STORE, 0, 1, 0}},
            {{SMALL_READ, 0, 0, 0}, {SMALL_CHECK, 0, 1, 0}}},
};

/* The lost update: between a read and the write after it. */
static const struct small_program depth_two = {
    .actors = 2,
    .all = 2,
    .ops = {{{SMALL_NOTHING, 0, 0, 0},
             {SMALL_NOTHING, 0, 0, 0},
             {SMALL_READ, 0, 0, 0},
             {SMALL_PUT, 0, 1, 0},
             {SMALL_NOTHING, 0, 0, 0},
             {SMALL_NOTHING, 0, 0, 0}},
            {{SMALL_NOTHING, 0, 0, 0},
             {SMALL_NOTHING, 0, 0, 0},
             {SMALL_NOTHING, 0, 0, 0},
             {SMALL_READ, 0, 0, 0},
             {SMALL_PUT, 0, 1, 0}}},
    .at_end = {2},
    .has_end = 1,
};

/* The second actor must read between two stores of the first, and then not again before the first
 * has ended. */
static const struct small_program depth_three = {
    .actors = 2,
    .all = 2,
    .ops = {{{SMALL_NOTHING, 0, 0, 0},
             {SMALL_STORE, 0, 1, 0},
             {SMALL_STORE, 0, 2, 0},
             {SMALL_NOTHING, 0, 0, 0},
             {SMALL_STORE, 0, 3, 0},
             {SMALL_STORE, 0, 4, 0}},
            {{SMALL_READ, 0, 0, 0},
             {SMALL_PUT, 1, 0, 0},
             {SMALL_READ, 0, 0, 0},
             {SMALL_PUT, 2, 0, 0}}},
};

/* Runs in which the second actor read 1 and then 4. */
static uint64_t seen_in_between(enum kin__strategy strategy, unsigned depth, uint64_t runs)
{
    const struct kin__engine_config config = {
        .strategy = strategy, .seed = 99, .depth = depth, .runs_max = runs, .keeps_going = true};
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);
    uint64_t seen = 0;

    world.program = &depth_three;
    world.engine = e;
    while (kin__engine_begin(e)) {
        small_run(&world);
        seen += !world.was_over && world.words[1] == 1 && world.words[2] == 4;
        kin__engine_end(e);
    }
    kin__engine_destroy(e);
    return seen;
}

KIN_TEST(bugs_are_found_as_often_as_is_promised, "")
{
    /* 1 / (n k^(d-1)) with n = 2 actors and k steps; one run of eight takes a longer k. */
    EXPECT_GE(failures(&depth_one, KIN__STRATEGY_PCT, 1, 8000), 8000 / 2 * 7 / 8);
    EXPECT_EQ(failures(&depth_two, KIN__STRATEGY_PCT, 1, 1000), 0);
    EXPECT_GE(failures(&depth_two, KIN__STRATEGY_PCT, 2, 8000), 8000 / (2 * 11) * 7 / 8);
    EXPECT_GE(failures(&depth_two, KIN__STRATEGY_PCT, 3, 8000), 8000 / (2 * 11 * 11) * 7 / 8);
}

KIN_TEST(two_changes_are_needed_to_come_late_twice, "")
{
    EXPECT_EQ(seen_in_between(KIN__STRATEGY_PCT, 2, 4000), 0);
    EXPECT_GE(seen_in_between(KIN__STRATEGY_PCT, 3, 40000), 40000 / (2 * 10 * 10) * 7 / 8);
}

KIN_TEST(without_changes_everybody_runs_to_its_end, "")
{
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_PCT, .seed = 3, .depth = 1, .runs_max = 500};
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);
    unsigned first = 0, runs = 0;

    world.program = &depth_three;
    world.engine = e;
    while (kin__engine_begin(e)) {
        unsigned switches = 0;
        small_run(&world);
        for (unsigned i = 1; i < world.events; i++)
            switches += world.trace[i].actor != world.trace[i - 1].actor;
        if (runs++ > 0) /* the first is the trial, by turns */
            EXPECT_EQ(switches, 1);
        first += world.trace[0].actor == 0;
        kin__engine_end(e);
    }
    EXPECT_EQ(kin__engine_result(e)->runs, 500);
    EXPECT_EQ(runs, 501);
    kin__engine_destroy(e);
    EXPECT_GT(first, 180);
    EXPECT_LT(first, 320);
}
