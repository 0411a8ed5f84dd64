/* SPDX-License-Identifier: MIT */
/*
 * Tests of the course of a search: seeds, limits, the portfolio, the self-check.
 */
#include "explore.h"
#include "lab/state.h"

static const enum kin__strategy drawn[] = {KIN__STRATEGY_AUTO, KIN__STRATEGY_ROUND_ROBIN,
                                           KIN__STRATEGY_RANDOM, KIN__STRATEGY_PCT,
                                           KIN__STRATEGY_WALK};

/* Fails rarely, in a way that depends on schedule, choices and dice. */
static const struct small_program rare = {
    .actors = 3,
    .all = 3,
    .ops = {{{SMALL_DICE, 0, 16, 0},
             {SMALL_PUT, 1, 0, 0},
             {SMALL_READ, 0, 0, 0},
             {SMALL_PUT, 0, 1, 0}},
            {{SMALL_CASE, 2, 4, 0}, {SMALL_READ, 0, 0, 0}, {SMALL_PUT, 0, 1, 0}},
            {{SMALL_NOTHING, 0, 0, 0}, {SMALL_READ, 0, 0, 0}, {SMALL_PUT, 0, 1, 0}}},
};

static struct kin__engine_result hunt(const struct kin__engine_config *config)
{
    int status = -1;
    struct kin__engine *e = kin__engine_create(config, &status);

    EXPECT(e != NULL);
    world.program = &rare;
    world.engine = e;
    while (kin__engine_begin(e)) {
        small_run(&world);
        if (!world.was_over && world.words[1] >= 12 &&
            (config->strategy == KIN__STRATEGY_ROUND_ROBIN ||
             (world.words[0] == 1 && world.words[2] >= 2)))
            kin__engine_fail(e, "assert", -1, "root", "everything came together");
        kin__engine_end(e);
    }
    struct kin__engine_result result = *kin__engine_result(e);
    kin__engine_destroy(e);
    return result;
}

KIN_TEST(a_failing_seed_fails_in_its_first_run, "")
{
    unsigned seeded = 0;

    for (unsigned i = 0; i < sizeof(drawn) / sizeof(*drawn); i++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            struct kin__engine_config config = {
                .strategy = drawn[i], .seed = seed, .runs_max = 100000, .check_every = 16};
            const struct kin__engine_result found = hunt(&config);
            EXPECT(found.failure.oracle != NULL);
            EXPECT_STR(found.failure.oracle, "assert");
            if (found.failing_seed == 0) {
                EXPECT_EQ(drawn[i], KIN__STRATEGY_AUTO); /* DPOR found it */
                continue;
            }
            config.seed = found.failing_seed;
            config.runs_max = 1;
            const struct kin__engine_result again = hunt(&config);
            EXPECT_EQ(again.runs, 1);
            EXPECT_EQ(again.failures, 1);
            EXPECT_EQ(again.failing_seed, found.failing_seed);
            EXPECT_EQ(again.hash, found.hash);
            seeded++;
        }
    EXPECT_GE(seeded, 80);
}

KIN_TEST(the_same_seed_gives_the_same_search, "")
{
    for (unsigned i = 0; i < sizeof(drawn) / sizeof(*drawn); i++) {
        struct kin__engine_config config = {.strategy = drawn[i],
                                            .seed = 17,
                                            .runs_max = 3000,
                                            .keeps_going = true,
                                            .shrinks = true};
        const struct kin__engine_result one = hunt(&config), two = hunt(&config);
        EXPECT_EQ(one.runs, two.runs);
        EXPECT_EQ(one.steps, two.steps);
        EXPECT_EQ(one.failures, two.failures);
        EXPECT_EQ(one.hash, two.hash);
        EXPECT_EQ(one.shrink_runs, two.shrink_runs);
        config.seed = 18;
        EXPECT_NE(hunt(&config).failing_seed, one.failing_seed);
    }
}

KIN_TEST(going_on_counts_failures_and_keeps_the_first, "")
{
    const struct small_program program = explore_lost_update();
    struct kin__engine_config config = {.strategy = KIN__STRATEGY_RANDOM, .runs_max = 1000};
    const struct kin__engine_result first = explore_result(&program, &config);

    config.keeps_going = true;
    const struct kin__engine_result all = explore_result(&program, &config);
    EXPECT_EQ(first.failures, 1);
    EXPECT_LT(first.runs, 100);
    EXPECT_EQ(all.runs, 1000);
    EXPECT_GT(all.failures, 100);
    EXPECT_EQ(all.failing_seed, first.failing_seed);
    EXPECT_EQ(all.hash, first.hash);
}

KIN_TEST(the_portfolio_is_complete_where_dpor_is, "")
{
    struct small_program program = explore_lost_update();
    struct kin__engine_config config = {.strategy = KIN__STRATEGY_AUTO, .check_every = 64};

    program.has_end = 0;
    struct kin__engine_result result = explore_result(&program, &config);
    EXPECT(result.failure.oracle == NULL);
    EXPECT(result.is_complete);
    EXPECT(result.is_exhausted);
    EXPECT_GT(result.runs, 50); /* others had their slice too */

    program.has_end = 1;
    result = explore_result(&program, &config);
    EXPECT_STR(result.failure.oracle, "assert");
    EXPECT(!result.is_complete);
}

KIN_TEST(a_bug_of_the_trial_is_a_failure_of_every_seed, "")
{
    static const struct small_program program = {
        .actors = 1, .all = 1, .ops = {{{SMALL_READ, 0, 0, 0}, {SMALL_CHECK, 0, 5, 0}}}};

    for (unsigned i = 0; i < sizeof(drawn) / sizeof(*drawn); i++) {
        const struct kin__engine_config config = {.strategy = drawn[i], .seed = 6, .runs_max = 1};
        const struct kin__engine_result result = explore_result(&program, &config);
        EXPECT_EQ(result.runs, 1);
        EXPECT_EQ(result.failures, 1);
        EXPECT_EQ(result.failing_seed, 6);
    }
}

KIN_TEST(real_time_ends_a_search, "")
{
    struct small_program program = explore_lost_update();
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_RANDOM,
                                              .wall_max = INT64_C(20000000)};
    const int64_t before = kin__lab_wall();

    program.has_end = 0;
    const struct kin__engine_result result = explore_result(&program, &config);
    EXPECT_GE(kin__lab_wall() - before, INT64_C(20000000));
    EXPECT_GT(result.runs, 0);
    EXPECT(!result.is_complete);
}

/* A search of which every run is abandoned, or has no step at all, ends in time too. */
KIN_TEST(real_time_ends_a_search_of_runs_without_steps, "")
{
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_RANDOM,
                                              .wall_max = INT64_C(5000000)};
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);

    while (kin__engine_begin(e))
        kin__engine_end(e);
    EXPECT_GT(kin__engine_result(e)->runs, 0);
    kin__engine_destroy(e);
}

/* Checks are runs of the world but do not count. */
KIN_TEST(runs_are_checked_as_often_as_is_said, "")
{
    struct small_program program = explore_lost_update();
    struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_RANDOM, .runs_max = 640, .check_every = 64};

    program.has_end = 0;
    world.runs = 0;
    EXPECT_EQ(explore_result(&program, &config).runs, 640);
    EXPECT_EQ(world.runs, 650);
    config.check_every = 0;
    world.runs = 0;
    EXPECT_EQ(explore_result(&program, &config).runs, 640);
    EXPECT_EQ(world.runs, 640);
}

/* The hashes of the runs of one engine; how many there were. */
static unsigned hashes_of(const struct kin__engine_config *config, uint64_t *hashes, unsigned max)
{
    int status = -1;
    struct kin__engine *e = kin__engine_create(config, &status);
    unsigned count = 0;

    EXPECT(e != NULL);
    world.program = &rare;
    world.engine = e;
    while (kin__engine_begin(e)) {
        const uint64_t runs = kin__engine_result(e)->runs;
        small_run(&world);
        kin__engine_end(e);
        if (kin__engine_result(e)->runs > runs && count < max) /* else it was a trial */
            hashes[count++] = kin__engine_result(e)->hash;
    }
    kin__engine_destroy(e);
    return count;
}

KIN_TEST(a_range_of_seeds_is_those_seeds_one_by_one, "")
{
    enum { SEEDS = 20 };

    for (unsigned i = 0; i < sizeof(drawn) / sizeof(*drawn); i++) {
        uint64_t all[SEEDS + 1], one[2];
        struct kin__engine_config config = {.strategy = drawn[i], .seed = 5, .seeds = SEEDS};
        EXPECT_EQ(hashes_of(&config, all, SEEDS + 1), SEEDS);
        config.seeds = 0;
        config.runs_max = 1;
        for (unsigned k = 0; k < SEEDS; k++, config.seed++) {
            EXPECT_EQ(hashes_of(&config, one, 2), 1);
            EXPECT_EQ(one[0], all[k]);
        }
    }
}

/* ---- sweeps ---- */

/* Two actors, and five faults, each of which leaves its mark. */
static const struct small_program faulty = {
    .actors = 2,
    .all = 2,
    .ops = {{{SMALL_FAULT, 0, 1, 0}, {SMALL_FAULT, 1, 1, 0}, {SMALL_FAULT, 4, 1, 0}},
            {{SMALL_FAULT, 2, 1, 0}, {SMALL_NOTHING, 0, 0, 0}, {SMALL_FAULT, 3, 1, 0}}},
};

KIN_TEST(a_sweep_makes_each_fault_happen_once_in_each_schedule, "")
{
    enum { SEEDS = 10, FAULTS = 5 };

    for (unsigned i = 0; i < sizeof(drawn) / sizeof(*drawn); i++) {
        const unsigned seeds = drawn[i] == KIN__STRATEGY_ROUND_ROBIN ? 1 : SEEDS;
        const struct kin__engine_config config = {
            .strategy = drawn[i], .seed = 3, .seeds = SEEDS, .sweeps = true, .check_every = 7};
        int status = -1;
        struct kin__engine *e = kin__engine_create(&config, &status);
        unsigned happened[SMALL_WORDS] = {0}, most = 0;
        EXPECT(e != NULL);
        world.program = &faulty;
        world.engine = e;
        while (kin__engine_begin(e)) {
            const uint64_t runs = kin__engine_result(e)->runs;
            unsigned here = 0;
            small_run(&world);
            kin__engine_end(e);
            if (kin__engine_result(e)->runs == runs)
                continue;
            for (unsigned k = 0; k < FAULTS; k++) {
                happened[k] += world.words[k] != 0;
                here += world.words[k] != 0;
            }
            most = here > most ? here : most;
        }
        const struct kin__engine_result *result = kin__engine_result(e);
        /* A portfolio begins by turns. */
        const unsigned sweeps = seeds + (drawn[i] == KIN__STRATEGY_AUTO);
        for (unsigned k = 0; k < FAULTS; k++)
            EXPECT_EQ(happened[k], sweeps);
        EXPECT_EQ(most, 1);
        EXPECT_EQ(result->fired, result->sites);
        EXPECT_EQ(result->sites, sweeps * FAULTS);
        EXPECT_EQ(result->runs, sweeps + result->sites);
        EXPECT(result->failure.oracle == NULL);
        kin__engine_destroy(e);
    }
}

KIN_TEST(a_search_begins_with_a_sweep_and_goes_on, "")
{
    const struct kin__engine_config plain = {.strategy = KIN__STRATEGY_DPOR},
                                    swept = {.strategy = KIN__STRATEGY_DPOR, .sweeps = true};
    const struct kin__engine_result without = explore_result(&faulty, &plain),
                                    with = explore_result(&faulty, &swept);

    EXPECT(without.is_complete && with.is_complete);
    EXPECT_EQ(without.sites, 0);
    EXPECT_EQ(with.fired, with.sites);
    EXPECT_EQ(with.runs, without.runs + 1 + with.sites);
}
