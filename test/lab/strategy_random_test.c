/* SPDX-License-Identifier: MIT */
/*
 * Tests of random schedules: even odds, starvation now and then, rare faults.
 */
#include "explore.h"

KIN_TEST(first_steps_are_spread_evenly, "")
{
    static const struct small_program program = {
        .actors = 4,
        .all = 4,
        .ops = {{{SMALL_NOTHING, 0, 0, 0}},
                {{SMALL_NOTHING, 0, 0, 0}},
                {{SMALL_NOTHING, 0, 0, 0}},
                {{SMALL_NOTHING, 0, 0, 0}}},
    };
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_RANDOM, .seed = 77, .runs_max = 24000};
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);
    unsigned orders[256] = {0}, seen = 0;

    world.program = &program;
    world.engine = e;
    while (kin__engine_begin(e)) {
        unsigned order = 0;
        small_run(&world);
        for (unsigned i = 0; i < 4; i++)
            order = order << 2 | world.trace[i].actor;
        orders[order]++;
        kin__engine_end(e);
    }
    kin__engine_destroy(e);
    for (unsigned i = 0; i < 256; i++) {
        seen += orders[i] > 0;
        /* 1000 each; a starved run changes little, and the seed is fixed */
        EXPECT(orders[i] == 0 || (orders[i] > 850 && orders[i] < 1150));
    }
    EXPECT_EQ(seen, 24);
}

/* The longest wait of an actor that could have gone on, among a hundred steps of two actors. */
static unsigned longest_wait(struct kin__engine *e)
{
    static const uint16_t both[2] = {0, 1};
    unsigned waited[2] = {0, 0}, longest = 0;

    (void)kin__engine_actor(e, "root");
    (void)kin__engine_actor(e, "root/0");
    for (unsigned i = 0; i < 400; i++) {
        unsigned actor = kin__engine_pick(e, both, 2);
        waited[actor] = 0;
        waited[1 - actor]++;
        if (waited[1 - actor] > longest)
            longest = waited[1 - actor];
    }
    return longest;
}

KIN_TEST(now_and_then_an_actor_starves, "")
{
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_RANDOM, .seed = 5, .runs_max = 1000};
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);
    unsigned starved = 0;

    while (kin__engine_begin(e)) {
        starved += longest_wait(e) >= 60; /* by chance alone once in 2^52 runs */
        kin__engine_end(e);
    }
    kin__engine_destroy(e);
    EXPECT_GT(starved, 40);
    EXPECT_LT(starved, 200);
}

KIN_TEST(faults_are_rare_and_keep_to_their_sites, "")
{
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_RANDOM, .seed = 5, .runs_max = 4000};
    static const uint16_t one = 0;
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);
    unsigned runs_with[2] = {0, 0}, runs_with_both = 0;
    uint64_t fired = 0;

    while (kin__engine_begin(e)) {
        unsigned here[2] = {0, 0};
        (void)kin__engine_actor(e, "root");
        (void)kin__engine_pick(e, &one, 1);
        for (unsigned i = 0; i < 64; i++) {
            uint32_t answer = kin__engine_choose(e, KIN__CHOICE_FAULT, 4, i % 2 ? "oom" : "net");
            EXPECT_LT(answer, 4);
            here[i % 2] += answer != 0;
        }
        fired += here[0] + here[1];
        runs_with[0] += here[0] > 0;
        runs_with[1] += here[1] > 0;
        runs_with_both += here[0] > 0 && here[1] > 0;
        kin__engine_end(e);
    }
    kin__engine_destroy(e);
    /* One site of four is active in a run, and fires one time of four. */
    for (unsigned i = 0; i < 2; i++) {
        EXPECT_GT(runs_with[i], 850);
        EXPECT_LT(runs_with[i], 1150);
    }
    EXPECT_GT(runs_with_both, 180);
    EXPECT_LT(runs_with_both, 330);
    EXPECT_GT(fired, 14000);
    EXPECT_LT(fired, 18000);
}
