/* SPDX-License-Identifier: MIT */
/*
 * Tests of following a run: strictly it is the same, leniently as much of it as there is.
 */
#include "explore.h"
#include "lab/state.h"

#include <kin/status.h>

#include <stdlib.h>
#include <unistd.h>

static const char *scratch_file(void)
{
    static char path[64], directory[] = "/tmp/kinlab-XXXXXX";

    if (!path[0]) {
        EXPECT(kin_test_mkdtemp(directory) != NULL);
        (void)snprintf(path, sizeof(path), "%s/a.kinlab", directory);
    }
    return path;
}

/* Finds the failure of a program and saves it. */
static struct kin__engine_result save_failure(const struct small_program *program, const char *path)
{
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_RANDOM, .seed = 8, .runs_max = 10000, .shrinks = true};
    struct kin__engine *e = explore(program, &config);
    struct kin__engine_result result = *kin__engine_result(e);

    EXPECT(result.failure.oracle != NULL);
    EXPECT_EQ(kin__engine_save(e, path), 0);
    kin__engine_destroy(e);
    return result;
}

KIN_TEST(a_file_is_recorded_while_it_is_followed, "")
{
    const struct small_program program = explore_lost_update();
    const char *path = scratch_file();
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_REPLAY, .replay = path};
    int status = -1;
    unsigned runs = 0, recorded = 0;

    (void)save_failure(&program, path);
    struct kin__engine *e = kin__engine_create(&config, &status);
    world.program = &program;
    world.engine = e;
    while (kin__engine_begin(e)) {
        runs++;
        recorded += kin__engine_is_recorded(e);
        small_run(&world);
        kin__engine_end(e);
    }
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(recorded, 1);
    EXPECT_STR(kin__engine_result(e)->failure.oracle, "assert");
    kin__engine_destroy(e);
    (void)unlink(path);
}

KIN_TEST(a_program_that_changed_parts_from_its_file_strictly, "")
{
    const struct small_program program = explore_lost_update();
    struct small_program changed = program;
    const char *path = scratch_file();
    struct kin__engine_config config = {.strategy = KIN__STRATEGY_REPLAY, .replay = path};

    (void)save_failure(&program, path);
    memmove(&changed.ops[0][1], &changed.ops[0][0], 4 * sizeof(changed.ops[0][0]));
    struct kin__engine_result result = explore_result(&changed, &config);
    EXPECT(result.has_diverged);
    EXPECT_STR(result.failure.oracle, "diverged");
    EXPECT_EQ(result.failure.status, KIN_STALE);
    EXPECT(strstr(result.failure.text, "DIVERGED at decision ") != NULL);
    EXPECT(strstr(result.failure.text, "recorded ") != NULL);
    EXPECT(strstr(result.failure.text, " now ") != NULL);

    /* Leniently the same file still finds the bug. */
    config.is_lenient = true;
    result = explore_result(&changed, &config);
    EXPECT(!result.has_diverged);
    EXPECT_STR(result.failure.oracle, "assert");
    (void)unlink(path);
}

KIN_TEST(a_run_that_is_shorter_or_longer_parts_at_its_end, "")
{
    const struct small_program program = explore_lost_update();
    struct small_program shorter = program, longer = program;
    const char *path = scratch_file();
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_REPLAY, .replay = path};

    (void)save_failure(&program, path);
    for (unsigned a = 0; a < 3; a++) {
        unsigned last = 0;
        while (longer.ops[a][last].what)
            last++;
        longer.ops[a][last] = (struct small_op){SMALL_NOTHING, 0, 0, 0};
        shorter.ops[a][last - 1].what = SMALL_END;
    }
    struct kin__engine_result result = explore_result(&shorter, &config);
    EXPECT_STR(result.failure.oracle, "diverged");
    result = explore_result(&longer, &config);
    EXPECT_STR(result.failure.oracle, "diverged");
    (void)unlink(path);
}

KIN_TEST(leniently_an_unknown_actor_is_left_out, "")
{
    const struct small_program program = explore_lost_update();
    const char *path = scratch_file();
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_REPLAY, .replay = path, .is_lenient = true};
    static const char text[] = "kinlab 1\nsched ghost:3 root/0:1 root:2 root/9:1 root/0:1 root:9\n"
                               "choose 1 case 1/3 never-asked\nend\n";
    FILE *file = fopen(path, "w");

    EXPECT(file != NULL);
    (void)fputs(text, file);
    (void)fclose(file);
    struct kin__engine *e = explore(&program, &config);
    size_t count = 0;
    const uint16_t *schedule = kin__engine_schedule(e, &count);
    EXPECT_EQ(count, 8);
    EXPECT_EQ(schedule[0], 1);
    EXPECT_EQ(schedule[1], 0);
    EXPECT_EQ(schedule[2], 0);
    EXPECT_EQ(schedule[3], 1);
    EXPECT_EQ(schedule[4], 0);
    kin__engine_destroy(e);
    (void)unlink(path);
}

KIN_TEST(leniently_an_open_block_lasts_until_its_actor_cannot_go_on, "")
{
    const struct small_program program = explore_lost_update();
    const char *path = scratch_file();
    struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_REPLAY, .replay = path, .is_lenient = true};
    static const char text[] = "kinlab 1\nsched ghost:* root/0:* root:1 root/0:* root:*\nend\n";
    FILE *file = fopen(path, "w");

    EXPECT(file != NULL);
    (void)fputs(text, file);
    (void)fclose(file);
    struct kin__engine *e = explore(&program, &config);
    size_t count = 0, switches = 0;
    const uint16_t *schedule = kin__engine_schedule(e, &count);
    EXPECT_GT(count, 2);
    EXPECT_EQ(schedule[0], 1);
    for (size_t i = 1; i < count; i++)
        switches += schedule[i] != schedule[i - 1];
    EXPECT_LE(switches, 2); /* root/0 to its end, root to its own, whoever is left */
    kin__engine_destroy(e);
    config.is_lenient = false; /* strictly it says nothing */
    EXPECT_STR(explore_result(&program, &config).failure.oracle, "diverged");
    (void)unlink(path);
}

KIN_TEST(an_answer_belongs_to_whoever_has_the_open_block, "")
{
    const struct small_program program = {
        .actors = 2,
        .all = 2,
        .ops = {{{SMALL_CASE, 0, 3, 0}}, {{SMALL_CASE, 1, 3, 0}}},
        .at_end = {1, 2},
        .has_end = 3,
    };
    const char *path = scratch_file();
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_REPLAY, .replay = path, .is_lenient = true};
    FILE *file = fopen(path, "w");

    EXPECT(file != NULL);
    (void)fputs("kinlab 1\nsched root/0:* root:*\nchoose 1 case 2/3 case\n"
                "choose 2 case 1/3 case\nend\n", file);
    (void)fclose(file);
    EXPECT(explore_result(&program, &config).failure.oracle == NULL);
    (void)unlink(path);
}

KIN_TEST(an_open_block_of_one_who_waits_in_a_loop_has_an_end, "")
{
    const char *path = scratch_file();
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_REPLAY, .replay = path, .is_lenient = true};
    const uint16_t both[] = {0, 1};
    FILE *file = fopen(path, "w");
    int status = -1;

    EXPECT(file != NULL);
    (void)fputs("kinlab 1\nsched root:* root/0:1\nend\n", file);
    (void)fclose(file);
    struct kin__engine *e = kin__engine_create(&config, &status);
    EXPECT(e && kin__engine_begin(e));
    (void)kin__engine_actor(e, "root");
    (void)kin__engine_actor(e, "root/0");
    unsigned steps = 0;
    while (!kin__engine_is_over(e) && kin__engine_pick(e, both, 2) == 0)
        steps++; /* ends: the other one has a turn, or the engine has enough */
    EXPECT(!kin__engine_is_over(e));
    EXPECT_GT(steps, 100);
    kin__engine_end(e);
    kin__engine_destroy(e);
    (void)unlink(path);
}

KIN_TEST(shrinking_may_start_from_a_file, "")
{
    const struct small_program program = explore_lost_update();
    const char *path = scratch_file();
    const struct kin__engine_config first = {
        .strategy = KIN__STRATEGY_RANDOM, .seed = 8, .runs_max = 10000};
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_REPLAY, .replay = path, .shrinks = true};

    struct kin__engine *e = explore(&program, &first);
    EXPECT_EQ(kin__engine_save(e, path), 0);
    kin__engine_destroy(e);
    struct kin__engine_result result = explore_result(&program, &config);
    EXPECT_STR(result.failure.oracle, "assert");
    EXPECT_GT(result.shrink_runs, 0);
    EXPECT_LE(result.switches, result.switches_before);
    (void)unlink(path);
}
