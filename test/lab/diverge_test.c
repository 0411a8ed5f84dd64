/* SPDX-License-Identifier: MIT */
/*
 * Tests of what is said of worlds that do not repeat themselves.
 */
#include "explore.h"

#include <errno.h>

enum cheat { HONEST, ENABLES, CHOOSES, LABELS, NAMES, FORGETS, FAILS };

/* Three actors of four steps; after some runs the world does something that no answer explains. */
static struct kin__engine_result cheat(enum kin__strategy strategy, enum cheat how, unsigned from)
{
    const struct kin__engine_config config = {
        .strategy = strategy, .seed = 4, .runs_max = 400, .check_every = 4};
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);

    for (unsigned run = 0; kin__engine_begin(e); run++) {
        unsigned done[3] = {0, 0, 0};
        const bool cheats = run >= from && run % 2;
        (void)kin__engine_actor(e, "root");
        (void)kin__engine_actor(e, "root/0");
        (void)kin__engine_actor(e, cheats && how == NAMES ? "root/other" : "root/1");
        for (unsigned step = 0; step < 12 && !kin__engine_is_over(e); step++) {
            uint16_t enabled[3];
            unsigned count = 0;
            for (unsigned a = 0; a < 3; a++)
                if (done[a] < 4 && !(cheats && how == ENABLES && a == 2 && step == 1))
                    enabled[count++] = (uint16_t)a;
            if (count == 0 || (cheats && how == FORGETS && step == 6))
                break;
            unsigned actor = kin__engine_pick(e, enabled, count);
            if (kin__engine_is_over(e))
                break;
            kin__engine_touch(e, 1000, KIN__TOUCH_WRITE);
            if (done[actor]++ == 1)
                (void)kin__engine_choose(e, KIN__CHOICE_CASE, cheats && how == CHOOSES ? 3 : 2,
                                         cheats && how == LABELS ? "there" : "here");
        }
        if (cheats && how == FAILS)
            kin__engine_fail(e, "assert", -1, "root", "now and then");
        kin__engine_end(e);
    }
    struct kin__engine_result result = *kin__engine_result(e);
    kin__engine_destroy(e);
    return result;
}

static void expect_caught(enum kin__strategy strategy, enum cheat how, const char *words)
{
    const struct kin__engine_result result = cheat(strategy, how, 20);

    EXPECT(result.failure.oracle != NULL);
    EXPECT_STR(result.failure.oracle, "nondeterminism");
    EXPECT_EQ(result.failure.status, -ENOTRECOVERABLE);
    EXPECT(result.has_diverged);
    EXPECT(!result.is_complete);
    EXPECT_EQ(result.failing_seed, 0);
    printf("%s\n", result.failure.text);
    EXPECT(strstr(result.failure.text, "uncontrolled nondeterminism") != NULL);
    EXPECT(strstr(result.failure.text, words) != NULL);
}

KIN_TEST(an_honest_world_is_not_blamed, "")
{
    static const enum kin__strategy strategies[] = {KIN__STRATEGY_AUTO, KIN__STRATEGY_RANDOM,
                                                    KIN__STRATEGY_PCT,  KIN__STRATEGY_WALK,
                                                    KIN__STRATEGY_DFS,  KIN__STRATEGY_DPOR};

    for (unsigned i = 0; i < sizeof(strategies) / sizeof(*strategies); i++) {
        const struct kin__engine_result result = cheat(strategies[i], HONEST, 0);
        EXPECT(result.failure.oracle == NULL);
        EXPECT(!result.has_diverged);
    }
}

KIN_TEST(the_self_check_catches_a_world_that_cheats, "")
{
    expect_caught(KIN__STRATEGY_RANDOM, ENABLES, "recorded {root, root/0, root/1} and ");
    expect_caught(KIN__STRATEGY_RANDOM, CHOOSES, "{case of 2: here} now {case of 3: here}");
    expect_caught(KIN__STRATEGY_RANDOM, LABELS, "{case of 2: here} now {case of 2: there}");
    expect_caught(KIN__STRATEGY_RANDOM, NAMES, "DIVERGED at decision 0");
    expect_caught(KIN__STRATEGY_RANDOM, FORGETS, "now the end");
}

KIN_TEST(the_search_catches_a_world_that_cheats, "")
{
    expect_caught(KIN__STRATEGY_DPOR, ENABLES, "DIVERGED at decision 1: recorded {root");
    expect_caught(KIN__STRATEGY_DPOR, CHOOSES, "{case of 2");
    expect_caught(KIN__STRATEGY_DPOR, LABELS, "now {case of 2: there}");
    expect_caught(KIN__STRATEGY_DFS, NAMES, "DIVERGED at decision 0");
    expect_caught(KIN__STRATEGY_DPOR, FORGETS, "now the end");
}

KIN_TEST(a_failure_that_comes_and_goes_is_said_to, "")
{
    expect_caught(KIN__STRATEGY_RANDOM, FAILS, "the same decisions ended with ");
}

/* The run longer than what was recorded. */
KIN_TEST(a_run_that_goes_on_behind_its_end_is_caught, "")
{
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_RANDOM, .runs_max = 4, .check_every = 1};
    const uint16_t one = 0;
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);

    for (unsigned run = 0; kin__engine_begin(e); run++) {
        (void)kin__engine_actor(e, "root");
        for (unsigned i = 0; i < 3 + run; i++)
            (void)kin__engine_pick(e, &one, 1);
        kin__engine_end(e);
    }
    EXPECT(strstr(kin__engine_result(e)->failure.text,
                  "DIVERGED at decision 3: recorded the end now {root}") != NULL);
    kin__engine_destroy(e);
}

/* Many actors are not all named. */
KIN_TEST(long_lists_are_cut, "")
{
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_RANDOM, .runs_max = 4, .check_every = 1};
    uint16_t enabled[100];
    char path[32];
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);

    for (unsigned run = 0; kin__engine_begin(e); run++) {
        for (unsigned i = 0; i < 100; i++) {
            (void)snprintf(path, sizeof(path), "root/%u", i);
            enabled[i] = (uint16_t)kin__engine_actor(e, path);
        }
        (void)kin__engine_pick(e, enabled, run ? 99 : 100);
        kin__engine_end(e);
    }
    const char *text = kin__engine_result(e)->failure.text;
    EXPECT(strstr(text, "{root/0, root/1, root/2, root/3, root/4, root/5, root/6, root/7, ...}") !=
           NULL);
    kin__engine_destroy(e);
}
