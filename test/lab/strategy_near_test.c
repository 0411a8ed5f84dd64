/* SPDX-License-Identifier: MIT */
/*
 * Goal: a search around a schedule begins with it, finds what is near it first, and leaves nothing
 * out in the end.
 * Method: programs of the small world and scripts in files: a bug that is one switch away from one
 * of them; random programs around random scripts, whose classes must be those of DPOR; choices and
 * blocks that a script has open; a run with more actors than can be searched.
 */
#include "explore.h"

#include "lab/state.h"

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

/* Makes a file of these lines, which go on with "sched" or "choose". */
static struct kin__engine_config around(const char *lines)
{
    const char *path = scratch_file();
    FILE *file = fopen(path, "w");

    EXPECT(file != NULL);
    (void)fprintf(file, "kinlab 1\n%s\nend\n", lines);
    (void)fclose(file);
    return (struct kin__engine_config){
        .strategy = KIN__STRATEGY_REPLAY, .replay = path, .is_near = true, .runs_max = 100000};
}

/* Two of six actors may lose an update, early; the others race for another word, later. */
static struct small_program crowded(void)
{
    struct small_program program = {.actors = 6, .all = 6, .at_end = {2}, .has_end = 1};

    for (unsigned a = 0; a < 6; a++) {
        const uint8_t word = a > 1;
        program.ops[a][0] = (struct small_op){SMALL_READ, word, 0, 0};
        program.ops[a][1] = (struct small_op){SMALL_NOTHING, 0, 0, 0};
        program.ops[a][2] = (struct small_op){SMALL_PUT, word, 1, 0};
    }
    return program;
}

KIN_TEST(the_first_run_is_the_schedule, "")
{
    const struct small_program program = crowded();
    const struct kin__engine_config config =
        around("sched root/4:2 root/1:* root/3:1 root/4:* ghost:* root:* root/3:*");
    struct kin__engine_config once = config;
    static const uint16_t want[] = {5, 5, 2, 2, 2, 4, 5, 0, 0, 0, 4, 4};
    size_t count = 0;

    once.runs_max = 1;
    struct kin__engine *e = explore(&program, &once);
    const uint16_t *schedule = kin__engine_schedule(e, &count);
    EXPECT_EQ(count, 18);
    for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++)
        EXPECT_EQ(schedule[i], want[i]);
    kin__engine_destroy(e);
    (void)unlink(config.replay);
}

/* One switch at another place than in the file is enough; DPOR begins with what comes last. */
KIN_TEST(what_is_near_is_found_first, "")
{
    const struct small_program program = crowded();
    const struct kin__engine_config config =
        around("sched root/0:* root:* root/4:* root/2:*");
    const struct kin__engine_config dpor = {.strategy = KIN__STRATEGY_DPOR, .runs_max = 100000};
    const struct kin__engine_result near = explore_result(&program, &config);
    const struct kin__engine_result far = explore_result(&program, &dpor);

    printf("near: run %llu, DPOR: run %llu\n", (unsigned long long)near.runs,
           (unsigned long long)far.runs);
    EXPECT_STR(near.failure.oracle, "assert");
    EXPECT_LE(near.runs, 40);
    EXPECT_GT(far.runs, near.runs);
    (void)unlink(config.replay);
}

/* ---- nothing is left out ---- */

static struct small_set found[2];

static struct kin__engine_result classes(const struct small_program *program,
                                         const struct kin__engine_config *config,
                                         struct small_set *set)
{
    int status = -1;
    struct kin__engine *e = kin__engine_create(config, &status);

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
    return result;
}

/* A schedule of anybody, some of whom are nobody, with some answers. */
static struct kin__engine_config around_anything(struct kin__rng *rng)
{
    char lines[2048];
    size_t used = (size_t)snprintf(lines, sizeof(lines), "sched");
    unsigned blocks = 1 + (unsigned)kin__rng_below(rng, 8);

    for (unsigned i = 0; i < blocks; i++) {
        static const char *const who[] = {"root", "root/0", "root/1", "root/2", "ghost"};
        static const char *const counts[] = {"*", "*", "*", "1", "2", "3"};
        used += (size_t)snprintf(lines + used, sizeof(lines) - used, " %s:%s",
                                 who[kin__rng_below(rng, 5)], counts[kin__rng_below(rng, 6)]);
    }
    for (unsigned i = 1; i <= blocks; i++)
        used += (size_t)snprintf(lines + used, sizeof(lines) - used, "\nchoose %u case %u/2 case",
                                 i, (unsigned)kin__rng_below(rng, 2));
    return around(lines);
}

KIN_TEST(around_anything_every_class_is_seen_in_the_end, "")
{
    const struct small_shape shape = {.actors_max = 4,
                                      .ops_max = 4,
                                      .words_max = 3,
                                      .has_choices = true,
                                      .has_awaits = true,
                                      .has_spawns = true,
                                      .has_barriers = true};
    const struct kin__engine_config dpor = {.strategy = KIN__STRATEGY_DPOR};
    uint64_t runs[2] = {0, 0};

    for (unsigned i = 0; i < 100 / kin_test_scale(); i++) {
        struct kin__rng rng;
        struct small_program program;
        kin__rng_init(&rng, kin_test_seed(), i);
        small_random(&program, &rng, &shape);
        const struct kin__engine_config config = around_anything(&rng);
        const struct kin__engine_result all = classes(&program, &dpor, &found[0]);
        const struct kin__engine_result near = classes(&program, &config, &found[1]);
        runs[0] += all.runs;
        runs[1] += near.runs;
        if (found[0].count != found[1].count)
            small_print(&program);
        EXPECT_EQ(found[1].count, found[0].count);
        EXPECT(all.is_complete && near.is_complete);
        (void)unlink(config.replay);
    }
    printf("%llu runs of DPOR, %llu around\n", (unsigned long long)runs[0],
           (unsigned long long)runs[1]);
}

/* ---- what a script has besides ---- */

KIN_TEST(answers_are_those_of_the_file_at_first, "")
{
    const struct small_program program = {
        .actors = 2,
        .all = 2,
        .ops = {{{SMALL_NOTHING, 0, 0, 0}}, {{SMALL_CASE, 0, 3, 0}, {SMALL_READ, 0, 0, 0}}},
        .at_end = {2},
        .has_end = 1,
    };
    struct kin__engine_config config = around("sched root:* root/0:*\nchoose 2 case 2/3 case");

    config.keeps_going = true;
    config.runs_max = 1;
    EXPECT_EQ(explore_result(&program, &config).failures, 0);
    config.runs_max = 0;
    const struct kin__engine_result all = explore_result(&program, &config);
    EXPECT_GE(all.failures, 2); /* the other two come as well */
    EXPECT(all.is_exhausted);
    (void)unlink(config.replay);
}

/* ---- runs that cannot be searched ---- */

#define MANY 80u

/* One of many actors reads a word twice, with a step of its own in between, and another one writes
 * it; the rest goes on beside. Fails if the two differ. */
static void run_many(struct kin__engine *e)
{
    unsigned left[MANY], steps = 0;
    uint16_t enabled[MANY];
    int word = 0, first = 0;

    for (unsigned a = 0; a < MANY; a++) {
        char path[16];
        (void)snprintf(path, sizeof(path), "root/%u", a);
        (void)kin__engine_actor(e, path);
        left[a] = a == 0 ? 3 : a == 1 ? 1 : 2;
        steps += left[a];
    }
    for (; steps > 0 && !kin__engine_is_over(e); steps--) {
        unsigned count = 0;
        for (unsigned a = 0; a < MANY; a++)
            if (left[a])
                enabled[count++] = (uint16_t)a;
        const unsigned actor = kin__engine_pick(e, enabled, count);
        left[actor]--;
        if (actor == 1)
            word = 1;
        else if (actor == 0 && left[0] == 2)
            first = word;
        else if (actor == 0 && left[0] == 0 && first != word)
            kin__engine_fail(e, "assert", -1, "root/0", "it was written in between");
    }
}

KIN_TEST(what_is_too_large_is_strayed_from, "")
{
    struct kin__engine_config config = around("sched root/0:1 root/0:* root/1:*");
    int status = -1;

    config.runs_max = 20000;
    struct kin__engine *e = kin__engine_create(&config, &status);
    EXPECT(e != NULL);
    while (kin__engine_begin(e)) {
        run_many(e);
        kin__engine_end(e);
    }
    const struct kin__engine_result *result = kin__engine_result(e);
    EXPECT_STR(result->failure.oracle, "assert"); /* and not that of an engine that gives up */
    EXPECT_GT(result->runs, 1);
    kin__engine_destroy(e);
    (void)unlink(config.replay);
}
