/* SPDX-License-Identifier: MIT */
/*
 * Tests of the engine's door: what a world sees of a run, and what happens when memory runs out.
 */
#include "crowd.h"
#include "kin_test.h"
#include "lab/engine.h"
#include "lab/state.h"
#include "plat/plat.h"

#include <kin/status.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct kin__engine *make(const struct kin__engine_config *config)
{
    int status = -1;
    struct kin__engine *e = kin__engine_create(config, &status);

    EXPECT(e != NULL);
    EXPECT_EQ(status, 0);
    return e;
}

KIN_TEST(a_run_is_asked_about_from_begin_to_end, "")
{
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_ROUND_ROBIN, .runs_max = 5};
    struct kin__engine *e = make(&config);
    const uint16_t both[2] = {1, 0};
    size_t count = 0;

    EXPECT(kin__engine_is_over(e));
    EXPECT(kin__engine_begin(e));
    EXPECT(!kin__engine_is_over(e));
    EXPECT(!kin__engine_is_recorded(e));
    EXPECT_EQ(kin__engine_actor(e, "root"), 0);
    EXPECT_EQ(kin__engine_actor(e, "root/0"), 1);
    EXPECT_STR(kin__engine_path(e, 1), "root/0");
    EXPECT_STR(kin__engine_path(e, 2), "?");
    EXPECT_EQ(kin__engine_step(e), 0);
    EXPECT_EQ(kin__engine_pick(e, both, 2), 0);
    EXPECT_EQ(kin__engine_step(e), 1);
    EXPECT(!kin__engine_has_touched(e));
    kin__engine_touch(e, 4711, KIN__TOUCH_READ);
    EXPECT(kin__engine_has_touched(e));
    EXPECT_EQ(kin__engine_choose(e, KIN__CHOICE_CASE, 3, "case"), 0);
    EXPECT_EQ(kin__engine_pick(e, both, 2), 1);
    EXPECT(!kin__engine_has_touched(e));
    EXPECT_EQ(kin__engine_pick(e, both, 2), 0);
    EXPECT_EQ(kin__engine_pick(e, both, 1), 1);
    const uint16_t *schedule = kin__engine_schedule(e, &count);
    EXPECT_EQ(count, 4);
    EXPECT_EQ(schedule[0] | schedule[1] << 1 | schedule[2] << 2 | schedule[3] << 3, 10);
    kin__engine_end(e);
    EXPECT(!kin__engine_begin(e)); /* it would be the same again */
    EXPECT_EQ(kin__engine_result(e)->runs, 1);
    EXPECT_EQ(kin__engine_result(e)->steps, 4);
    EXPECT(kin__engine_result(e)->failure.oracle == NULL);
    kin__engine_destroy(e);
}

KIN_TEST(the_first_failure_of_a_run_counts_and_ends_it, "")
{
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_RANDOM, .runs_max = 3};
    struct kin__engine *e = make(&config);
    const uint16_t both[2] = {0, 1};
    unsigned runs = 0, recorded = 0;

    while (kin__engine_begin(e)) {
        runs++;
        recorded += kin__engine_is_recorded(e);
        (void)kin__engine_actor(e, "root");
        (void)kin__engine_actor(e, "root/0");
        (void)kin__engine_pick(e, both, 2);
        kin__engine_fail(e, "assert", -7, "root", "first");
        EXPECT(kin__engine_is_over(e));
        kin__engine_fail(e, "deadlock", -8, "root/0", "second");
        /* What is asked behind the end is answered, by turns, and not kept. */
        unsigned next = kin__engine_pick(e, both, 2);
        EXPECT_EQ(kin__engine_pick(e, both, 2), 1 - next);
        EXPECT_EQ(kin__engine_actor(e, "root/1"), 2);
        EXPECT_EQ(kin__engine_choose(e, KIN__CHOICE_FAULT, 2, "fault"), 0);
        EXPECT_EQ(kin__engine_step(e), 1);
        kin__engine_end(e);
    }
    EXPECT_EQ(runs, 2); /* found, recorded */
    EXPECT_EQ(recorded, 1);
    const struct kin__engine_result *result = kin__engine_result(e);
    EXPECT_EQ(result->runs, 1);
    EXPECT_EQ(result->failures, 1);
    EXPECT_STR(result->failure.oracle, "assert");
    EXPECT_STR(result->failure.where, "root");
    EXPECT_STR(result->failure.text, "first");
    EXPECT_EQ(result->failure.status, -7);
    kin__engine_destroy(e);
}

KIN_TEST(a_run_without_end_is_a_livelock, "")
{
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_RANDOM, .runs_max = 3, .steps_max = 1000};
    struct kin__engine *e = make(&config);
    const uint16_t one = 0;

    while (kin__engine_begin(e)) {
        (void)kin__engine_actor(e, "root");
        while (!kin__engine_is_over(e))
            EXPECT_EQ(kin__engine_pick(e, &one, 1), 0);
        EXPECT_EQ(kin__engine_step(e), 1000);
        kin__engine_end(e);
    }
    EXPECT_STR(kin__engine_result(e)->failure.oracle, "livelock");
    EXPECT_STR(kin__engine_result(e)->failure.where, "root");
    EXPECT_EQ(kin__engine_result(e)->failure.status, KIN_STUCK);
    kin__engine_destroy(e);
}

KIN_TEST(two_actors_of_one_path_are_told_apart, "")
{
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_RANDOM, .runs_max = 3};
    struct kin__engine *e = make(&config);

    while (kin__engine_begin(e)) {
        for (unsigned i = 0; i < 4; i++)
            EXPECT_EQ(kin__engine_actor(e, "root/0"), i);
        EXPECT_STR(kin__engine_path(e, 0), "root/0");
        EXPECT_STR(kin__engine_path(e, 1), "root/0~2");
        EXPECT_STR(kin__engine_path(e, 3), "root/0~4");
        kin__engine_end(e);
    }
    kin__engine_destroy(e);
}

KIN_TEST(thousands_of_actors_take_turns, "")
{
    static uint16_t enabled[3000];
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_AUTO, .runs_max = 4, .check_every = 1};
    struct kin__engine *e = make(&config);
    char path[32];

    while (kin__engine_begin(e)) {
        for (unsigned i = 0; i < 3000; i++) {
            (void)snprintf(path, sizeof(path), "root/%u", i);
            enabled[i] = (uint16_t)kin__engine_actor(e, path);
        }
        for (unsigned i = 0; i < 200 && !kin__engine_is_over(e); i++)
            EXPECT_LT(kin__engine_pick(e, enabled, 3000), 3000);
        kin__engine_end(e);
    }
    EXPECT_EQ(kin__engine_result(e)->runs, 4);
    EXPECT(kin__engine_result(e)->failure.oracle == NULL);
    kin__engine_destroy(e);
}

KIN_TEST(more_actors_than_there_are_numbers_are_refused, "")
{
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_RANDOM};
    struct kin__engine *e = make(&config);
    char path[32];

    while (kin__engine_begin(e)) {
        for (unsigned i = 0; i < KIN__ACTORS_MAX + 2; i++) {
            (void)snprintf(path, sizeof(path), "root/%u", i);
            EXPECT_EQ(kin__engine_actor(e, path), i < KIN__ACTORS_MAX ? i : KIN__ACTORS_MAX - 1);
        }
        EXPECT(kin__engine_is_over(e));
        kin__engine_end(e);
    }
    EXPECT_STR(kin__engine_result(e)->failure.oracle, "engine");
    EXPECT_EQ(kin__engine_result(e)->failure.status, -E2BIG);
    kin__engine_destroy(e);
}

KIN_TEST(a_config_that_makes_no_sense_is_refused, "")
{
    struct kin__engine_config config = {.strategy = (enum kin__strategy)99};
    int status = 0;

    EXPECT(kin__engine_create(&config, &status) == NULL);
    EXPECT_EQ(status, -EINVAL);
    config = (struct kin__engine_config){.strategy = KIN__STRATEGY_RANDOM, .wall_max = -1};
    EXPECT(kin__engine_create(&config, &status) == NULL);
    EXPECT_EQ(status, -EINVAL);
    config = (struct kin__engine_config){.strategy = KIN__STRATEGY_BYTES, .bytes_count = 1};
    EXPECT(kin__engine_create(&config, &status) == NULL);
    EXPECT_EQ(status, -EINVAL);
    config = (struct kin__engine_config){.strategy = KIN__STRATEGY_PCT, .depth = 1000};
    EXPECT(kin__engine_create(&config, &status) == NULL);
    EXPECT_EQ(status, -EINVAL);
    kin__engine_destroy(NULL);
}

KIN_TEST(an_actor_that_was_not_announced_cannot_be_enabled, "")
{
    EXPECT_ABORT ("announced") {
        const struct kin__engine_config config = {.strategy = KIN__STRATEGY_RANDOM};
        struct kin__engine *e = make(&config);
        const uint16_t stranger = 3;
        (void)kin__engine_begin(e);
        (void)kin__engine_pick(e, &stranger, 1);
    }
}

/* ---- no memory ---- */

#define BUSY_ACTORS 40u
#define BUSY_STEPS 90u /* of each at most: enough to make every room grow */

/* Many actors with many steps, touches and choices; the last of all may not come too early, and a
 * run that comes to its end fails anyway. */
static void busy_run(struct kin__engine *e, unsigned steps)
{
    static uint64_t words[BUSY_ACTORS][BUSY_STEPS];
    unsigned done[BUSY_ACTORS] = {0};
    char path[128];

    for (unsigned a = 0; a < BUSY_ACTORS; a++) {
        (void)snprintf(path, sizeof(path), "root/%u/an/actor/whose/path/is/%060u", a, a);
        (void)kin__engine_actor(e, path);
    }
    for (unsigned actor; crowd_pick(e, done, BUSY_ACTORS, steps, &actor);) {
        unsigned step = done[actor]++;
        for (unsigned i = 0; i < (step == 7 ? BUSY_STEPS : 2); i++)
            kin__engine_touch(e, (uintptr_t)&words[actor][(step + i) % BUSY_STEPS],
                              KIN__TOUCH_WRITE);
        for (unsigned a = 0; step == 9 && a < BUSY_ACTORS; a++)
            for (unsigned i = 0; i < BUSY_STEPS; i++)
                kin__engine_touch(e, (uintptr_t)&words[a][i], KIN__TOUCH_READ);
        (void)kin__engine_choose(e, KIN__CHOICE_CASE, 2, "one of two");
        if (actor + 1 == BUSY_ACTORS && kin__engine_step(e) < 3)
            kin__engine_fail(e, "assert", -1, "root", "too early");
    }
    if (!kin__engine_is_over(e))
        kin__engine_fail(e, "return", -1, "root", "it is over");
}

/* Everything with the k-th request for memory failing, for each k: it says so, and is over. */
static void sweep(enum kin__strategy strategy, bool forever)
{
    const struct kin__engine_config config = {.strategy = strategy,
                                              .seed = 9,
                                              .runs_max = 2,
                                              .shrinks = strategy == KIN__STRATEGY_RANDOM,
                                              .check_every = 1,
                                              .keeps_going = true};
    uint64_t all = UINT64_MAX;

    for (uint64_t k = 0; k <= all; k++) {
        int status = 1;
        kin__plat_fail_after(k, forever);
        struct kin__engine *e = kin__engine_create(&config, &status);
        EXPECT((e == NULL) == (status != 0));
        if (!e) {
            EXPECT_EQ(status, -ENOMEM);
            continue;
        }
        while (kin__engine_begin(e)) {
            busy_run(e, strategy == KIN__STRATEGY_RANDOM ? BUSY_STEPS / 5 : BUSY_STEPS);
            kin__engine_end(e);
        }
        const struct kin__engine_result *result = kin__engine_result(e);
        EXPECT(result->failure.oracle != NULL);
        if (strcmp(result->failure.oracle, "engine") == 0)
            EXPECT_EQ(result->failure.status, -ENOMEM);
        else
            EXPECT(!strcmp(result->failure.oracle, "assert") ||
                   !strcmp(result->failure.oracle, "return"));
        EXPECT(!kin__engine_begin(e));
        if (k == 0) {
            EXPECT(strcmp(result->failure.oracle, "engine") != 0);
            all = kin__plat_requests();
        }
        kin__engine_destroy(e);
    }
    kin__plat_fail_after(0, false);
    printf("%llu requests\n", (unsigned long long)all);
    EXPECT_GT(all, 5);
    EXPECT_LT(all, 1000);
}

KIN_TEST(without_memory_it_says_so_at_every_place, "")
{
    sweep(KIN__STRATEGY_AUTO, false);
    sweep(KIN__STRATEGY_DPOR, false);
    sweep(KIN__STRATEGY_DPOR, true);
    sweep(KIN__STRATEGY_PCT, false);
}

KIN_TEST(without_memory_a_failure_stands_as_it_was_found, "")
{
    sweep(KIN__STRATEGY_RANDOM, false);
}
