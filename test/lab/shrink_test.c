/* SPDX-License-Identifier: MIT */
/*
 * Tests of shrinking: planted bugs become as small as they can be.
 */
#include "crowd.h"
#include "explore.h"

#include <stdlib.h>

static struct kin__engine_config shrinking(enum kin__strategy strategy, uint64_t seed)
{
    return (struct kin__engine_config){
        .strategy = strategy, .seed = seed, .runs_max = 100000, .shrinks = true};
}

/* Two actors add one to a word by reading and writing, after some steps that do not matter. */
static const struct small_program lost_update = {
    .actors = 3,
    .all = 3,
    .ops =
        {{{SMALL_READ, 1, 0, 0},
          {SMALL_ADD, 2, 1, 0},
          {SMALL_READ, 0, 0, 0},
          {SMALL_PUT, 0, 1, 0},
          {SMALL_ADD, 2, 1, 0}},
         {{SMALL_ADD, 3, 1, 0}, {SMALL_READ, 0, 0, 0}, {SMALL_PUT, 0, 1, 0}, {SMALL_READ, 3, 0, 0}},
         {{SMALL_READ, 1, 0, 0},
          {SMALL_ADD, 2, 1, 0},
          {SMALL_READ, 3, 0, 0},
          {SMALL_NOTHING, 0, 0, 0}}},
    .at_end = {2},
    .has_end = 1,
};

KIN_TEST(a_lost_update_shrinks_to_one_preemption, "")
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        const struct kin__engine_config config = shrinking(KIN__STRATEGY_RANDOM, seed);
        struct kin__engine *e = explore(&lost_update, &config);
        const struct kin__engine_result *result = kin__engine_result(e);
        EXPECT(result->failure.oracle != NULL);
        EXPECT_STR(result->failure.oracle, "assert");
        /* first, second, first again, and the third whenever */
        EXPECT_EQ(result->switches, 3);
        EXPECT_LE(result->switches, result->switches_before);
        EXPECT_GT(result->shrink_runs, 0);
        size_t steps = 0;
        (void)kin__engine_schedule(e, &steps);
        EXPECT_EQ(steps, 13);
        kin__engine_destroy(e);
    }
}

/* ---- long runs ---- */

#define LONG_ACTORS 8u
#define LONG_STEPS 128u
#define ENTERS(actor) (100u + 10u * (actor)) /* the step with which actors 0 and 1 enter */

static void add_long_actors(struct kin__engine *e)
{
    static const char *const paths[LONG_ACTORS] = {"root",   "root/0", "root/1", "root/2",
                                                   "root/3", "root/4", "root/5", "root/6"};

    for (unsigned a = 0; a < LONG_ACTORS; a++)
        (void)kin__engine_actor(e, paths[a]);
}

/* Eight actors with many steps; the first two may not be inside at the same time. */
static void long_run(struct kin__engine *e, bool has_faults)
{
    static uint64_t words[LONG_ACTORS];
    unsigned done[LONG_ACTORS] = {0}, inside = 0;
    bool is_weak = !has_faults;

    add_long_actors(e);
    for (unsigned actor; crowd_pick(e, done, LONG_ACTORS, LONG_STEPS, &actor);) {
        kin__engine_touch(e, (uintptr_t)&words[actor], KIN__TOUCH_WRITE);
        unsigned step = ++done[actor];
        if (has_faults && step % 8 == 0 && kin__engine_choose(e, KIN__CHOICE_FAULT, 3, "fault") &&
            actor == 7 && step == 16)
            is_weak = true;
        if (actor < 2 && step == ENTERS(actor))
            inside++;
        if (actor < 2 && step == ENTERS(actor) + 2)
            inside--;
        if (inside == 2 && is_weak)
            kin__engine_fail(e, "exclusion", -1, "root/0", "both are inside");
    }
}

static void long_run_without_faults(struct kin__engine *e)
{
    long_run(e, false);
}

static void long_run_with_faults(struct kin__engine *e)
{
    long_run(e, true);
}

/* All runs of an engine that was just made; the caller destroys it. */
static struct kin__engine *shrink(uint64_t seed, void (*run)(struct kin__engine *e))
{
    const struct kin__engine_config config = shrinking(KIN__STRATEGY_RANDOM, seed);
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);

    EXPECT(e != NULL);
    while (kin__engine_begin(e)) {
        run(e);
        kin__engine_end(e);
    }
    return e;
}

KIN_TEST(a_run_of_hundreds_of_steps_shrinks_to_one_switch, "")
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct kin__engine *e = shrink(seed, long_run_without_faults);
        size_t steps = 0;
        const struct kin__engine_result *result = kin__engine_result(e);
        EXPECT_STR(result->failure.oracle, "exclusion");
        EXPECT_GT(result->switches_before, 100);
        (void)kin__engine_schedule(e, &steps);
        printf("seed %llu: %u switches became %u, %zu steps, %llu tries\n",
               (unsigned long long)seed, result->switches_before, result->switches, steps,
               (unsigned long long)result->shrink_runs);
        EXPECT_EQ(result->switches, 1);
        EXPECT_EQ(steps, ENTERS(0) + ENTERS(1));
        kin__engine_destroy(e);
    }
}

KIN_TEST(faults_that_do_not_matter_are_left_out, "")
{
    struct kin__engine *e = shrink(11, long_run_with_faults);
    size_t steps = 0;

    const struct kin__engine_result *result = kin__engine_result(e);
    EXPECT_STR(result->failure.oracle, "exclusion");
    (void)kin__engine_schedule(e, &steps);
    printf("%u switches became %u, %zu steps, %llu tries\n", result->switches_before,
           result->switches, steps, (unsigned long long)result->shrink_runs);
    EXPECT_EQ(result->switches, 2);
    EXPECT_EQ(steps, ENTERS(0) + ENTERS(1) + 16);
    kin__engine_destroy(e);
}

/* The same actors; the first two add one to a word by reading and writing, and only in the end is
 * looked at what came of it, so that everybody must run. */
static void late_run(struct kin__engine *e)
{
    unsigned done[LONG_ACTORS] = {0}, word = 0, local[2] = {0, 0};

    add_long_actors(e);
    for (unsigned actor; crowd_pick(e, done, LONG_ACTORS, LONG_STEPS, &actor);) {
        unsigned step = done[actor]++;
        if (actor < 2 && step == 60)
            local[actor] = word;
        if (actor < 2 && step == 61)
            word = local[actor] + 1;
    }
    if (!kin__engine_is_over(e) && word != 2)
        kin__engine_fail(e, "assert", -1, "root", "an update was lost");
}

KIN_TEST(a_thousand_steps_that_must_all_be_made_shrink_to_one_preemption, "")
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct kin__engine *e = shrink(seed, late_run);
        const struct kin__engine_result *result = kin__engine_result(e);
        EXPECT_STR(result->failure.oracle, "assert");
        EXPECT_GT(result->switches_before, 500);
        EXPECT_EQ(result->switches, LONG_ACTORS);
        EXPECT_LT(result->shrink_runs, 1000);
        EXPECT(!result->is_cut);
        kin__engine_destroy(e);
    }
}

KIN_TEST(a_failure_that_there_was_no_time_for_says_so, "")
{
    volatile sig_atomic_t stop = 0;
    struct kin__engine_config config = shrinking(KIN__STRATEGY_RANDOM, 1);
    int status = -1;
    config.stop = &stop;
    struct kin__engine *e = kin__engine_create(&config, &status);
    EXPECT(e != NULL);
    while (kin__engine_begin(e)) { /* ends: somebody says stop */
        late_run(e);
        kin__engine_end(e);
        stop = kin__engine_result(e)->shrink_runs >= 3;
    }
    EXPECT_EQ(kin__engine_result(e)->shrink_runs, 3);
    EXPECT(kin__engine_result(e)->is_cut);
    kin__engine_destroy(e);
}

/* One waits in a loop for the other: who goes on with it for ever never comes to an end. */
KIN_TEST(who_waits_in_a_loop_does_not_stop_shrinking, "")
{
    const struct kin__engine_config config = shrinking(KIN__STRATEGY_RANDOM, 3);
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);
    uint64_t longest = 0;

    while (kin__engine_begin(e)) {
        unsigned done = 0;
        (void)kin__engine_actor(e, "root");
        (void)kin__engine_actor(e, "root/0");
        while (!kin__engine_is_over(e)) {
            static const uint16_t enabled[2] = {0, 1};
            unsigned actor = kin__engine_pick(e, enabled, done < 50 ? 2 : 1);
            if (kin__engine_is_over(e))
                break;
            done += actor == 1;
            if (actor == 0 && done == 50)
                kin__engine_fail(e, "assert", -1, "root", "it came");
        }
        if (kin__engine_step(e) > longest)
            longest = kin__engine_step(e);
        kin__engine_end(e);
    }
    EXPECT_STR(kin__engine_result(e)->failure.oracle, "assert");
    EXPECT_LE(kin__engine_result(e)->switches, 1);
    EXPECT_LT(longest, 20000);
    kin__engine_destroy(e);
}

/* ---- other shapes ---- */

/* Two locks taken in two orders, each by waiting for a word to be 1 and making it 0. */
static const struct small_program lock_order = {
    .actors = 3,
    .all = 3,
    .ops = {{{SMALL_STORE, 0, 1, 2}, {SMALL_READ, 2, 0, 0}, {SMALL_READ, 3, 0, 0}},
            {{SMALL_AWAIT, 0, 0, 0},
             {SMALL_READ, 2, 0, 0},
             {SMALL_COUNT, 0, -1, 0},
             {SMALL_AWAIT, 1, 0, 0},
             {SMALL_COUNT, 1, -1, 0},
             {SMALL_COUNT, 1, 1, 0},
             {SMALL_COUNT, 0, 1, 0}},
            {{SMALL_AWAIT, 1, 0, 0},
             {SMALL_COUNT, 1, -1, 0},
             {SMALL_AWAIT, 0, 0, 0},
             {SMALL_COUNT, 0, -1, 0},
             {SMALL_COUNT, 0, 1, 0},
             {SMALL_COUNT, 1, 1, 0}}},
    .fails_on_deadlock = true,
};

KIN_TEST(a_deadlock_shrinks_to_the_two_who_block_each_other, "")
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct kin__engine_config config = shrinking(KIN__STRATEGY_RANDOM, seed);
        struct kin__engine *e = explore(&lock_order, &config);
        const struct kin__engine_result *result = kin__engine_result(e);
        EXPECT_STR(result->failure.oracle, "deadlock");
        EXPECT_EQ(result->failure.status, -35);
        /* everybody ends or is stuck: root, one, the other */
        EXPECT_EQ(result->switches, 2);
        kin__engine_destroy(e);
    }
}

/* Fails when the dice show 5 or more and the case is 2 or more, behind a handful of others. */
static const struct small_program numbers = {
    .actors = 2,
    .all = 2,
    .ops = {{{SMALL_DICE, 0, 100, 0},
             {SMALL_PUT, 0, 0, 0},
             {SMALL_DICE, 0, 100, 0},
             {SMALL_PUT, 1, 0, 0}},
            {{SMALL_CASE, 2, 7, 0}, {SMALL_CASE, 3, 5, 0}, {SMALL_FAULT, 4, 1, 0}}},
};

KIN_TEST(numbers_go_toward_zero, "")
{
    const struct kin__engine_config config = shrinking(KIN__STRATEGY_RANDOM, 5);
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);

    world.program = &numbers;
    world.engine = e;
    while (kin__engine_begin(e)) {
        small_run(&world);
        if (!world.was_over && world.words[1] >= 5 && world.words[3] >= 2)
            kin__engine_fail(e, "assert", -1, "root/0", "too much");
        kin__engine_end(e);
    }
    EXPECT_STR(kin__engine_result(e)->failure.oracle, "assert");
    EXPECT_EQ(world.words[0], 0);
    EXPECT_EQ(world.words[1], 5);
    EXPECT_EQ(world.words[2], 0);
    EXPECT_EQ(world.words[3], 2);
    EXPECT_EQ(world.words[4], 0);
    kin__engine_destroy(e);
}

/* The spawned actor's step must come between two of the first, and two of its own between two of
 * another: found by search where moving blocks gets stuck. */
static const struct small_program nested = {
    .actors = 2,
    .all = 3,
    .ops = {{{SMALL_SPAWN, 0, 2, 0},
             {SMALL_READ, 0, 0, 0},
             {SMALL_PUT, 0, 1, 0},
             {SMALL_READ, 1, 0, 0},
             {SMALL_PUT, 1, 1, 0}},
            {{SMALL_READ, 2, 0, 0}, {SMALL_READ, 1, 0, 0}, {SMALL_PUT, 1, 1, 0}},
            {{SMALL_READ, 2, 0, 0}, {SMALL_READ, 0, 0, 0}, {SMALL_PUT, 0, 1, 0}}},
};

KIN_TEST(two_bugs_in_one_run_keep_their_two_preemptions, "")
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct kin__engine_config config = shrinking(KIN__STRATEGY_RANDOM, seed);
        int status = -1;
        struct kin__engine *e = kin__engine_create(&config, &status);
        world.program = &nested;
        world.engine = e;
        while (kin__engine_begin(e)) {
            small_run(&world);
            if (!world.was_over && world.words[0] == 1 && world.words[1] == 1)
                kin__engine_fail(e, "assert", -1, "root", "two updates were lost");
            kin__engine_end(e);
        }
        EXPECT_STR(kin__engine_result(e)->failure.oracle, "assert");
        EXPECT_LE(kin__engine_result(e)->switches, 4);
        kin__engine_destroy(e);
    }
}

KIN_TEST(a_failure_at_another_place_is_another_failure, "")
{
    /* The first actor fails in any order, the second only if it comes late. */
    static const struct small_program two = {
        .actors = 2,
        .all = 2,
        .ops = {{{SMALL_STORE, 0, 1, 0},
                 {SMALL_NOTHING, 0, 0, 0},
                 {SMALL_READ, 0, 0, 0},
                 {SMALL_CHECK, 0, 7, 0}},
                {{SMALL_READ, 0, 0, 0}, {SMALL_CHECK, 0, 0, 0}}},
    };
    unsigned firsts = 0, seconds = 0;

    for (uint64_t seed = 1; seed <= 40; seed++) {
        const struct kin__engine_config config = shrinking(KIN__STRATEGY_RANDOM, seed);
        struct kin__engine *e = explore(&two, &config);
        const struct kin__engine_result *result = kin__engine_result(e);
        size_t steps = 0;
        (void)kin__engine_schedule(e, &steps);
        if (strcmp(result->failure.where, "root") == 0) {
            firsts++;
            EXPECT_EQ(result->switches, 0);
            EXPECT_EQ(steps, 4);
        } else {
            seconds++;
            EXPECT_STR(result->failure.where, "root/0");
            EXPECT_EQ(result->switches, 1);
            EXPECT_EQ(steps, 3);
        }
        kin__engine_destroy(e);
    }
    EXPECT_GT(firsts, 0);
    EXPECT_GT(seconds, 0);
}

/* ---- one actor alone ---- */

#define ALONE_STEPS 10000u

/* Its steps are one block, which has no other to be merged with. */
static void run_alone(struct kin__engine *e)
{
    static uint64_t word;
    const uint16_t enabled = 0;

    (void)kin__engine_actor(e, "root");
    for (unsigned i = 0; i < ALONE_STEPS && !kin__engine_is_over(e); i++) {
        (void)kin__engine_pick(e, &enabled, 1);
        kin__engine_touch(e, (uintptr_t)&word, KIN__TOUCH_WRITE);
    }
    kin__engine_fail(e, "assert", -1, "root", "always");
}

KIN_TEST(a_try_has_no_step_twice, "")
{
    struct kin__engine *e = shrink(1, run_alone);
    size_t steps = 0;
    (void)kin__engine_schedule(e, &steps);
    EXPECT_EQ(steps, ALONE_STEPS);
    EXPECT_STR(kin__engine_result(e)->failure.oracle, "assert");
    kin__engine_destroy(e);
}
