/* SPDX-License-Identifier: MIT */
/*
 * Tests of the uniform walk: every interleaving is equally likely.
 */
#include "explore.h"

/* How often each order of the steps of two actors came up, by the places of the first one. */
static void count_orders(const struct small_program *program, unsigned *orders, uint64_t runs)
{
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_WALK, .seed = 31, .runs_max = runs};
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);
    bool is_trial = true;

    world.program = program;
    world.engine = e;
    while (kin__engine_begin(e)) {
        unsigned order = 0;
        small_run(&world);
        for (unsigned i = 0; i < world.events; i++)
            order = order << 1 | (world.trace[i].actor == 0);
        orders[order] += !is_trial;
        is_trial = false;
        kin__engine_end(e);
    }
    EXPECT_EQ(kin__engine_result(e)->runs, runs);
    kin__engine_destroy(e);
}

KIN_TEST(all_orders_of_two_actors_are_equally_likely, "")
{
    static const struct small_program program = {
        .actors = 2,
        .all = 2,
        .ops = {{{SMALL_NOTHING, 0, 0, 0}, {SMALL_NOTHING, 0, 0, 0}},
                {{SMALL_NOTHING, 0, 0, 0},
                 {SMALL_NOTHING, 0, 0, 0},
                 {SMALL_NOTHING, 0, 0, 0},
                 {SMALL_NOTHING, 0, 0, 0},
                 {SMALL_NOTHING, 0, 0, 0},
                 {SMALL_NOTHING, 0, 0, 0}}},
    };
    unsigned orders[256] = {0}, seen = 0;

    count_orders(&program, orders, 28000);
    for (unsigned i = 0; i < 256; i++) {
        seen += orders[i] > 0;
        EXPECT(orders[i] == 0 || (orders[i] > 850 && orders[i] < 1150)); /* 1000 each */
    }
    EXPECT_EQ(seen, 28); /* 8 over 2 */
}

KIN_TEST(steps_of_who_is_not_there_yet_count_for_its_parent, "")
{
    /* The first announces the third, which has all the steps; the second has one step. */
    static const struct small_program program = {
        .actors = 2,
        .all = 3,
        .ops = {{{SMALL_SPAWN, 0, 2, 0}},
                {{SMALL_NOTHING, 0, 0, 0}},
                {{SMALL_NOTHING, 0, 0, 0}, {SMALL_NOTHING, 0, 0, 0}, {SMALL_NOTHING, 0, 0, 0}}},
    };
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_WALK, .seed = 31, .runs_max = 10000};
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);
    unsigned places[5] = {0};
    bool is_trial = true;

    world.program = &program;
    world.engine = e;
    while (kin__engine_begin(e)) {
        small_run(&world);
        for (unsigned i = 0; i < world.events; i++)
            places[i] += !is_trial && world.trace[i].actor == 1;
        is_trial = false;
        kin__engine_end(e);
    }
    kin__engine_destroy(e);
    for (unsigned i = 0; i < 5; i++) {
        EXPECT_GT(places[i], 1800); /* 2000 each */
        EXPECT_LT(places[i], 2200);
    }
}
