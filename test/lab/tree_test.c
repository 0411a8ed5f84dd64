/* SPDX-License-Identifier: MIT */
/*
 * Tests of the search of all schedules: none is missing, none comes twice, bounds hold.
 */
#include "explore.h"
#include "lab/state.h"

#include <errno.h>

/* Actors that do nothing, with so many steps each. */
static struct small_program idlers(unsigned actors, const unsigned *steps)
{
    struct small_program program = {.actors = actors, .all = actors};

    for (unsigned a = 0; a < actors; a++)
        for (unsigned i = 0; i < steps[a]; i++)
            program.ops[a][i].what = SMALL_NOTHING;
    return program;
}

static uint64_t runs_of(const struct small_program *program, enum kin__strategy strategy,
                        unsigned preemptions)
{
    const struct kin__engine_config config = {
        .strategy = strategy, .preemptions = preemptions, .check_every = 7};
    const struct kin__engine_result result = explore_result(program, &config);

    EXPECT(result.failure.oracle == NULL);
    EXPECT(result.is_exhausted);
    EXPECT_EQ(result.estimate, result.runs);
    return result.runs;
}

KIN_TEST(all_interleavings_are_searched_once, "")
{
    struct small_program program = idlers(2, (const unsigned[]){4, 3});
    EXPECT_EQ(runs_of(&program, KIN__STRATEGY_DFS, 0), 35);
    program = idlers(3, (const unsigned[]){2, 3, 2});
    EXPECT_EQ(runs_of(&program, KIN__STRATEGY_DFS, 0), 210);
    program = idlers(1, (const unsigned[]){8});
    EXPECT_EQ(runs_of(&program, KIN__STRATEGY_DFS, 0), 1);
    program = idlers(2, (const unsigned[]){7, 7});
    EXPECT_EQ(runs_of(&program, KIN__STRATEGY_DFS, 0), 3432);
    EXPECT_EQ(runs_of(&program, KIN__STRATEGY_DPOR, 0), 1);
}

KIN_TEST(all_answers_to_choices_are_searched, "")
{
    static const struct small_program alone = {.actors = 1,
                                               .all = 1,
                                               .ops = {{{SMALL_CASE, 0, 3, 0},
                                                        {SMALL_FAULT, 1, 1, 0},
                                                        {SMALL_CASE, 2, 1, 0},
                                                        {SMALL_DICE, 0, 6, 0},
                                                        {SMALL_CASE, 3, 5, 0}}}};
    static const struct small_program two = {
        .actors = 2,
        .all = 2,
        .ops = {{{SMALL_CASE, 0, 3, 0}}, {{SMALL_CASE, 1, 2, 0}, {SMALL_NOTHING, 0, 0, 0}}}};

    EXPECT_EQ(runs_of(&alone, KIN__STRATEGY_DFS, 0), 3 * 2 * 5);
    EXPECT_EQ(runs_of(&alone, KIN__STRATEGY_DPOR, 0), 3 * 2 * 5);
    EXPECT_EQ(runs_of(&two, KIN__STRATEGY_DFS, 0), 3 * 3 * 2);
    EXPECT_EQ(runs_of(&two, KIN__STRATEGY_DPOR, 0), 3 * 2);
}

/* A choice that the world asks before anybody has gone on. */
KIN_TEST(a_choice_before_the_first_step_is_searched_too, "")
{
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_DPOR};
    const uint16_t one = 0;
    int status = -1;
    unsigned seen = 0;
    struct kin__engine *e = kin__engine_create(&config, &status);

    while (kin__engine_begin(e)) {
        unsigned first = kin__engine_choose(e, KIN__CHOICE_NET, 4, "first");
        (void)kin__engine_actor(e, "root");
        (void)kin__engine_pick(e, &one, 1);
        unsigned second = kin__engine_choose(e, KIN__CHOICE_TIMER, 1 + first, "second");
        seen |= 1u << (4 * first + second);
        kin__engine_end(e);
    }
    EXPECT_EQ(kin__engine_result(e)->runs, 1 + 2 + 3 + 4);
    EXPECT_EQ(seen, 0xf731);
    EXPECT(kin__engine_result(e)->is_complete);
    kin__engine_destroy(e);
}

/* How many orders of two actors with n steps each have at most so many preemptions. */
static uint64_t orders_within(unsigned n, unsigned preemptions)
{
    uint64_t orders = 0;

    for (unsigned word = 0; word < 1u << (2 * n); word++) {
        unsigned left[2] = {n, n}, spent = 0;
        if ((unsigned)__builtin_popcount(word) != n)
            continue;
        for (unsigned i = 0; i < 2 * n; i++) {
            unsigned actor = word >> i & 1;
            if (i > 0 && actor != (word >> (i - 1) & 1) && left[1 - actor] > 0)
                spent++;
            left[actor]--;
        }
        orders += spent <= preemptions;
    }
    return orders;
}

KIN_TEST(a_bound_on_preemptions_leaves_the_others_out, "")
{
    const struct small_program program = idlers(2, (const unsigned[]){5, 5});

    for (unsigned bound = 1; bound < 10; bound++)
        EXPECT_EQ(runs_of(&program, KIN__STRATEGY_DFS, bound), orders_within(5, bound));
    const struct kin__engine_config some = {.strategy = KIN__STRATEGY_DFS, .preemptions = 2};
    EXPECT(!explore_result(&program, &some).is_complete);
    const struct kin__engine_config all = {.strategy = KIN__STRATEGY_DFS, .preemptions = 9};
    EXPECT(explore_result(&program, &all).is_complete);
}

KIN_TEST(a_guess_of_the_whole_is_near_it, "")
{
    const struct small_program program = idlers(2, (const unsigned[]){7, 7});

    for (uint64_t runs = 512; runs < 3432; runs += 512) {
        const struct kin__engine_config config = {.strategy = KIN__STRATEGY_DFS, .runs_max = runs};
        const struct kin__engine_result result = explore_result(&program, &config);
        EXPECT(!result.is_exhausted);
        EXPECT_GT(result.estimate, 3432 / 8);
        EXPECT_LT(result.estimate, 3432 * 8);
    }
}

/* Many actors, each with one step on a word of its own. */
static struct kin__engine_result crowd(enum kin__strategy strategy, unsigned actors)
{
    static uint16_t enabled[100];
    static uint64_t words[100];
    const struct kin__engine_config config = {.strategy = strategy, .runs_max = 100};
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);
    char path[32];

    while (kin__engine_begin(e)) {
        unsigned count = actors;
        for (unsigned i = 0; i < actors; i++) {
            (void)snprintf(path, sizeof(path), "root/%u", i);
            enabled[i] = (uint16_t)kin__engine_actor(e, path);
        }
        while (count > 0 && !kin__engine_is_over(e)) {
            unsigned actor = kin__engine_pick(e, enabled, count);
            kin__engine_touch(e, (uintptr_t)&words[actor], KIN__TOUCH_WRITE);
            for (unsigned i = 0, at = 0; i < count; i++)
                if (enabled[i] != actor)
                    enabled[at++] = enabled[i];
            count--;
        }
        kin__engine_end(e);
    }
    struct kin__engine_result result = *kin__engine_result(e);
    kin__engine_destroy(e);
    return result;
}

KIN_TEST(sixty_four_actors_are_searched_and_more_are_refused, "")
{
    struct kin__engine_result result = crowd(KIN__STRATEGY_DPOR, 64);
    EXPECT(result.failure.oracle == NULL);
    EXPECT(result.is_complete);
    EXPECT_EQ(result.runs, 1);

    result = crowd(KIN__STRATEGY_DPOR, 65);
    EXPECT_STR(result.failure.oracle, "engine");
    EXPECT_EQ(result.failure.status, -E2BIG);
    EXPECT(strstr(result.failure.text, "64 actors") != NULL);

    result = crowd(KIN__STRATEGY_AUTO, 65);
    EXPECT(result.failure.oracle == NULL);
    EXPECT_EQ(result.runs, 100);
    EXPECT(!result.is_complete);
}

KIN_TEST(runs_that_are_too_long_are_refused, "")
{
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_DFS};
    const uint16_t one = 0;
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);

    while (kin__engine_begin(e)) {
        (void)kin__engine_actor(e, "root");
        for (unsigned i = 0; i < KIN__TREE_DEPTH + 1; i++)
            (void)kin__engine_pick(e, &one, 1);
        kin__engine_end(e);
    }
    EXPECT_EQ(kin__engine_result(e)->failure.status, -E2BIG);
    kin__engine_destroy(e);
}
