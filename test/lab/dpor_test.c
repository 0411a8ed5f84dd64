/* SPDX-License-Identifier: MIT */
/*
 * Tests of DPOR: on thousands of random programs it finds the classes that plain search finds, each
 * once, or nearly where steps have choices; with a bound on preemptions at least those.
 */
#include "explore.h"

#include <stdlib.h>

static struct small_set found[2];

static bool has(const struct small_set *set, uint64_t hash)
{
    for (unsigned at = (unsigned)(hash % SMALL_SET); set->slots[at]; at = (at + 1) % SMALL_SET)
        if (set->slots[at] == hash)
            return true;
    return false;
}

/* Explores everything and notes the classes of the runs that were not abandoned. */
static struct kin__engine_result classes(const struct small_program *program,
                                         enum kin__strategy strategy, unsigned bound,
                                         struct small_set *set)
{
    const struct kin__engine_config config = {
        .strategy = strategy, .preemptions = bound, .check_every = 512};
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);

    EXPECT(e != NULL);
    memset(set, 0, sizeof(*set));
    world.program = program;
    world.engine = e;
    while (kin__engine_begin(e)) {
        small_run(&world);
        if (!world.was_over)
            (void)small_set_add(set, small_class(&world));
        kin__engine_end(e);
    }
    struct kin__engine_result result = *kin__engine_result(e);
    kin__engine_destroy(e);
    EXPECT(result.failure.oracle == NULL);
    EXPECT(result.is_exhausted);
    return result;
}

struct sums {
    uint64_t all, classes, dpor, redundant;
};

/* One program by both; the classes that plain search finds must be found. */
static void compare(const struct small_program *program, unsigned bound, struct sums *sums)
{
    const struct kin__engine_result all = classes(program, KIN__STRATEGY_DFS, bound, &found[0]);
    const struct kin__engine_result dpor = classes(program, KIN__STRATEGY_DPOR, bound, &found[1]);
    unsigned missed = 0;

    for (unsigned i = 0; i < SMALL_SET; i++)
        missed += found[0].slots[i] && !has(&found[1], found[0].slots[i]);
    if (missed || (!bound && found[0].count != found[1].count)) {
        printf("plain search: %u classes in %llu runs; DPOR: %u in %llu; missed: %u\n",
               found[0].count, (unsigned long long)all.runs, found[1].count,
               (unsigned long long)dpor.runs, missed);
        small_print(program);
    }
    EXPECT_EQ(missed, 0);
    EXPECT(bound || found[0].count == found[1].count);
    EXPECT(bound || dpor.is_complete);
    sums->all += all.runs;
    sums->classes += found[0].count;
    sums->dpor += dpor.runs;
    sums->redundant += dpor.redundant;
}

/* So many programs, which a seed makes. How many runs are too many is a matter of which programs: a
 * single one can be a third of the sum. Where that is looked at they are always the same. */
static struct sums compare_seeded(const struct small_shape *shape, unsigned bound, unsigned count,
                                  uint64_t seed)
{
    struct sums sums = {0, 0, 0, 0};

    for (unsigned i = 0; i < count; i++) {
        struct kin__rng rng;
        struct small_program program;
        kin__rng_init(&rng, seed, i);
        small_random(&program, &rng, shape);
        compare(&program, bound, &sums);
    }
    printf("%u programs: %llu schedules, %llu classes, %llu runs of DPOR, %llu abandoned\n", count,
           (unsigned long long)sums.all, (unsigned long long)sums.classes,
           (unsigned long long)sums.dpor, (unsigned long long)sums.redundant);
    return sums;
}

/* Others in each run of the test. */
static struct sums compare_many(const struct small_shape *shape, unsigned bound, unsigned count)
{
    return compare_seeded(shape, bound, count, kin_test_seed());
}

/* 10,000 programs in a build that is fast, or as many as KIN_LAB_PROGRAMS says. */
static unsigned programs(unsigned of_ten)
{
    const char *wish = getenv("KIN_LAB_PROGRAMS");
    unsigned all = wish ? (unsigned)strtoul(wish, NULL, 10) :
#ifdef KIN_DEBUG
                        1000 / kin_test_scale();
#else
                        10000 / kin_test_scale();
#endif
    return all * of_ten / 10 + 1;
}

KIN_TEST_LIMIT(programs_of_steps_alone_need_one_run_per_class, "", 120)
{
    const struct small_shape shape = {.actors_max = 4, .ops_max = 5, .words_max = 4};
    const struct sums many = compare_many(&shape, 0, programs(3));
    const struct sums few = compare_seeded(&shape, 0, 100, 1);

    EXPECT_EQ(many.dpor, many.classes);
    EXPECT_LE(few.redundant, few.classes / 100 + 20);
}

KIN_TEST_LIMIT(programs_that_wait_and_announce_need_one_run_per_class, "", 120)
{
    const struct small_shape shape = {.actors_max = 4,
                                      .ops_max = 5,
                                      .words_max = 4,
                                      .has_awaits = true,
                                      .has_spawns = true,
                                      .has_barriers = true};
    const struct sums many = compare_many(&shape, 0, programs(3));
    const struct sums few = compare_seeded(&shape, 0, 100, 1);

    EXPECT_EQ(many.dpor, many.classes);
    EXPECT_LE(few.redundant, few.classes / 100 + 20);
}

/* What a step touches hangs on what it finds: one that sleeps would touch more than it does later.
 */
KIN_TEST_LIMIT(programs_whose_steps_look_further_by_what_they_find, "", 120)
{
    const struct small_shape shape = {
        .actors_max = 4, .ops_max = 5, .words_max = 4, .has_looks = true};
    (void)compare_many(&shape, 0, programs(3));
    const struct sums few = compare_seeded(&shape, 0, 100, 1);

    EXPECT_LE(few.dpor, few.classes + few.classes / 10 + 10);
}

/* The second begins and then makes the first look no further; the third is what the first finds if
 * it looks further, and comes before the begin of the second or after it. */
KIN_TEST(who_sleeps_may_be_woken_by_what_it_then_does_not_touch, "")
{
    const struct small_program program = {
        .actors = 3,
        .all = 3,
        .ops = {{{SMALL_LOOK, 0, 2, 0}},
                {{SMALL_READ, 1, 0, 0}, {SMALL_STORE, 0, 1, 0}},
                {{SMALL_STORE, 1, 1, 3}}}};
    struct sums sums = {0, 0, 0, 0};

    compare(&program, 0, &sums);
    EXPECT_GT(sums.classes, 4);
}

/* When one answer of a step wakes, the others do too: a few classes come twice. */
KIN_TEST_LIMIT(programs_with_everything_need_hardly_more, "", 120)
{
    const struct small_shape shape = {.actors_max = 4,
                                      .ops_max = 5,
                                      .words_max = 4,
                                      .has_choices = true,
                                      .has_awaits = true,
                                      .has_spawns = true,
                                      .has_barriers = true,
                                      .has_looks = true};
    (void)compare_many(&shape, 0, programs(4));
    const struct sums sums = compare_seeded(&shape, 0, 100, 1);
    EXPECT_LE(sums.dpor, sums.classes + sums.classes / 10 + 10);
}

KIN_TEST_LIMIT(a_bound_leaves_out_no_class_within_it, "", 120)
{
    const struct small_shape shape = {.actors_max = 4,
                                      .ops_max = 5,
                                      .words_max = 4,
                                      .has_choices = true,
                                      .has_awaits = true,
                                      .has_spawns = true,
                                      .has_barriers = true,
                                      .has_looks = true};

    for (unsigned bound = 1; bound <= 3; bound++)
        (void)compare_many(&shape, bound, programs(1));
}

/* ---- known numbers ---- */

static uint64_t runs_of(const struct small_program *program)
{
    const struct kin__engine_result result = classes(program, KIN__STRATEGY_DPOR, 0, &found[0]);

    EXPECT_EQ(result.runs, found[0].count);
    return result.runs;
}

/* So many actors that all do the same to one word. */
static struct small_program chorus(unsigned actors, enum small_what what)
{
    struct small_program program = {.actors = actors, .all = actors};

    for (unsigned a = 0; a < actors; a++)
        program.ops[a][0] = (struct small_op){(uint8_t)what, 0, 1, 0};
    return program;
}

KIN_TEST(reads_and_adds_commute_and_writes_do_not, "")
{
    struct small_program program = chorus(6, SMALL_READ);
    EXPECT_EQ(runs_of(&program), 1);
    program = chorus(6, SMALL_ADD);
    EXPECT_EQ(runs_of(&program), 1);
    program = chorus(6, SMALL_STORE);
    EXPECT_EQ(runs_of(&program), 720);
    program.ops[0][0].what = program.ops[1][0].what = program.ops[2][0].what = SMALL_READ;
    /* 3! orders of the writes, and each read in one of four places */
    EXPECT_EQ(runs_of(&program), 6 * 4 * 4 * 4);
    program.ops[0][0].what = program.ops[1][0].what = program.ops[2][0].what = SMALL_ADD;
    EXPECT_EQ(runs_of(&program), 6 * 4 * 4 * 4);
}

/* Several sleep until a time that comes when nobody else can go on. */
static struct kin__engine_result sleepers(bool is_idle, uint64_t runs_max)
{
    static const char *const paths[4] = {"root", "root/0", "root/1", "root/2"};
    static const uint64_t words[4];
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_DPOR,
                                              .runs_max = runs_max};
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);

    while (kin__engine_begin(e)) {
        unsigned done[4] = {0}, now = 1;
        for (unsigned a = 0; a < 4; a++)
            (void)kin__engine_actor(e, paths[a]);
        while (!kin__engine_is_over(e) && now < 4) {
            uint16_t enabled[4];
            unsigned count = 0;
            for (unsigned a = 0; a < 4; a++)
                if (done[a] < now)
                    enabled[count++] = (uint16_t)a;
            unsigned actor = kin__engine_pick(e, enabled, count);
            if (kin__engine_is_over(e))
                break;
            kin__engine_touch(e, (uintptr_t)&words[actor], KIN__TOUCH_WRITE);
            done[actor]++;
            if (count > 1)
                continue;
            if (is_idle)
                kin__engine_idle(e);
            else
                kin__engine_barrier(e);
            now++;
        }
        kin__engine_end(e);
    }
    struct kin__engine_result result = *kin__engine_result(e);
    kin__engine_destroy(e);
    EXPECT_EQ(result.is_complete, runs_max == 0);
    return result;
}

KIN_TEST(time_that_jumps_when_all_are_idle_costs_no_runs, "")
{
    const struct kin__engine_result idle = sleepers(true, 0), barrier = sleepers(false, 0);

    EXPECT_EQ(idle.runs, 1);
    EXPECT_EQ(idle.redundant, 0);
    /* Whoever is last depends on all others then, and other orders are begun. */
    EXPECT_EQ(barrier.runs, 1);
    EXPECT_GT(barrier.redundant, 0);
}

KIN_TEST(a_limit_on_runs_is_one_on_those_that_lead_nowhere_too, "")
{
    const struct kin__engine_result few = sleepers(false, 3);

    EXPECT_EQ(few.runs + few.redundant, 3);
    EXPECT_GT(few.redundant, 0);
}

/* The first actor writes a word; the second, which cannot go on before that because the first
 * announces it or wakes it, writes the same word; the third has nothing to do with them. Nothing of
 * this can be in another order, and the engine does not look for one. */
static struct kin__engine_result fixed_order(bool is_announced)
{
    static const char *const paths[3] = {"root", "root/0", "root/1"};
    static const uint64_t words[4];
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_DPOR};
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);

    while (kin__engine_begin(e)) {
        unsigned done[3] = {0}, there = is_announced ? 2 : 3;
        uint8_t whose[3] = {0, 2, 1};
        (void)kin__engine_actor(e, paths[0]);
        (void)kin__engine_actor(e, paths[2]);
        if (!is_announced)
            (void)kin__engine_actor(e, paths[1]);
        while (!kin__engine_is_over(e)) {
            uint16_t enabled[3];
            unsigned count = 0;
            for (unsigned n = 0; n < there; n++)
                if (done[whose[n]] < 2 && (whose[n] != 1 || done[0] > 1))
                    enabled[count++] = (uint16_t)n;
            if (count == 0)
                break;
            unsigned actor = whose[kin__engine_pick(e, enabled, count)];
            if (kin__engine_is_over(e))
                break;
            kin__engine_touch(e, (uintptr_t)&words[actor == 2 ? 2 : 0], KIN__TOUCH_WRITE);
            if (++done[actor] == 2 && actor == 0 && is_announced)
                there = kin__engine_actor(e, paths[1]) + 1;
        }
        kin__engine_end(e);
    }
    struct kin__engine_result result = *kin__engine_result(e);
    kin__engine_destroy(e);
    EXPECT(result.is_complete);
    return result;
}

KIN_TEST(who_is_announced_or_woken_comes_after_that, "")
{
    for (unsigned i = 0; i < 2; i++) {
        const struct kin__engine_result result = fixed_order(i);
        EXPECT_EQ(result.runs, 1);
        EXPECT_EQ(result.redundant, 0);
    }
}

/* Steps that touch thousands of things, of which some are shared. */
KIN_TEST(a_step_may_touch_thousands_of_things, "")
{
    static uint64_t words[3][5000];
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_DPOR};
    static const char *const paths[2] = {"root", "root/0"};
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);

    while (kin__engine_begin(e)) {
        unsigned done[2] = {0, 0};
        for (unsigned a = 0; a < 2; a++)
            (void)kin__engine_actor(e, paths[a]);
        while (!kin__engine_is_over(e)) {
            uint16_t enabled[2];
            unsigned count = 0;
            for (unsigned a = 0; a < 2; a++)
                if (done[a] < 3)
                    enabled[count++] = (uint16_t)a;
            if (count == 0)
                break;
            unsigned actor = kin__engine_pick(e, enabled, count);
            if (kin__engine_is_over(e))
                break;
            for (unsigned i = 0; i < 5000; i++) {
                kin__engine_touch(e, (uintptr_t)&words[actor][i], KIN__TOUCH_WRITE);
                kin__engine_touch(e, (uintptr_t)&words[2][i], KIN__TOUCH_READ);
            }
            if (done[actor]++ == 1)
                kin__engine_touch(e, (uintptr_t)&words[2][4999], KIN__TOUCH_WRITE);
        }
        kin__engine_end(e);
    }
    /* The second steps write what all read: each of the others is before or after it. */
    EXPECT(kin__engine_result(e)->is_complete);
    EXPECT_EQ(kin__engine_result(e)->runs, 8);
    kin__engine_destroy(e);
}

/* Actors that are announced one by one make the clocks wider on the way. */
KIN_TEST(a_chain_of_forty_actors_is_one_class, "")
{
    static uint64_t words[40];
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_DPOR, .runs_max = 10000};
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);
    char path[32];

    while (kin__engine_begin(e)) {
        unsigned there = 1, done = 0, steps[40] = {0};
        (void)kin__engine_actor(e, "root");
        while (!kin__engine_is_over(e)) {
            uint16_t enabled[40];
            unsigned count = 0;
            for (unsigned a = 0; a < there; a++)
                if (steps[a] < 2)
                    enabled[count++] = (uint16_t)a;
            if (count == 0)
                break;
            unsigned actor = kin__engine_pick(e, enabled, count);
            if (kin__engine_is_over(e))
                break;
            kin__engine_touch(e, (uintptr_t)&words[actor], KIN__TOUCH_WRITE);
            if (steps[actor]++ == 0 && there < 40) {
                (void)snprintf(path, sizeof(path), "root/%u", there);
                EXPECT_EQ(kin__engine_actor(e, path), there);
                there++;
            }
            done++;
        }
        EXPECT(done == 80);
        kin__engine_end(e);
    }
    EXPECT(kin__engine_result(e)->is_complete);
    EXPECT_EQ(kin__engine_result(e)->runs, 1);
    kin__engine_destroy(e);
}
