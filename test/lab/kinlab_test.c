/* SPDX-License-Identifier: MIT */
/*
 * Tests of schedule files: what is written is read again and repeats its run; what is broken is
 * refused by name; what is hostile does no harm.
 */
#include "kin_test.h"
#include "lab/engine.h"
#include "lab/state.h"
#include "small_world.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct small_world world;

/* A file of this test's own that goes with it. */
static const char *scratch_file(void)
{
    static char path[64], directory[] = "/tmp/kinlab-XXXXXX";

    if (!path[0]) {
        EXPECT(kin_test_mkdtemp(directory) != NULL);
        (void)snprintf(path, sizeof(path), "%s/a.kinlab", directory);
    }
    return path;
}

static void run_all(struct kin__engine *e, const struct small_program *program)
{
    world.program = program;
    world.engine = e;
    while (kin__engine_begin(e)) {
        small_run(&world);
        kin__engine_end(e);
    }
}

static struct kin__engine *explore(const struct small_program *program,
                                   const struct kin__engine_config *config)
{
    int status = -1;
    struct kin__engine *e = kin__engine_create(config, &status);

    EXPECT_EQ(status, 0);
    EXPECT(e != NULL);
    run_all(e, program);
    return e;
}

/* A lost update, with choices on the way and an actor that is announced later. */
static const struct small_program lost_update = {
    .actors = 2,
    .all = 3,
    .ops = {{{SMALL_SPAWN, 0, 2, 0},
             {SMALL_READ, 0, 0, 0},
             {SMALL_PUT, 0, 1, 0},
             {SMALL_CASE, 1, 3, 0}},
            {{SMALL_DICE, 0, 1000, 0},
             {SMALL_READ, 0, 0, 0},
             {SMALL_PUT, 0, 1, 0},
             {SMALL_FAULT, 2, 1, 0}},
            {{SMALL_CASE, 3, 4, 0}, {SMALL_READ, 3, 0, 0}}},
    .at_end = {2},
    .has_end = 1,
};

static size_t read_file(const char *path, char *buf, size_t size)
{
    FILE *file = fopen(path, "r");

    EXPECT(file != NULL);
    size_t got = fread(buf, 1, size - 1, file);
    (void)fclose(file);
    buf[got] = 0;
    return got;
}

static void write_bytes(const char *path, const char *bytes, size_t size)
{
    FILE *file = fopen(path, "w");

    EXPECT(file != NULL);
    EXPECT_EQ(fwrite(bytes, 1, size, file), size);
    (void)fclose(file);
}

KIN_TEST(a_failure_of_every_strategy_repeats_a_thousand_times_from_its_file, "")
{
    static const enum kin__strategy strategies[] = {KIN__STRATEGY_AUTO, KIN__STRATEGY_RANDOM,
                                                    KIN__STRATEGY_PCT,  KIN__STRATEGY_WALK,
                                                    KIN__STRATEGY_DFS,  KIN__STRATEGY_DPOR};
    const char *path = scratch_file();

    for (size_t i = 0; i < 2 * sizeof(strategies) / sizeof(*strategies); i++) {
        const struct kin__engine_config config = {.strategy = strategies[i / 2],
                                                  .seed = 42,
                                                  .runs_max = 100000,
                                                  .test = "lost_update",
                                                  .shrinks = i % 2};
        struct kin__engine *e = explore(&lost_update, &config);
        EXPECT_STR(kin__engine_result(e)->failure.oracle, "assert");
        const uint64_t hash = kin__engine_result(e)->hash;
        EXPECT_EQ(kin__engine_save(e, path), 0);
        kin__engine_destroy(e);
        const struct kin__engine_config again = {.strategy = KIN__STRATEGY_REPLAY,
                                                 .replay = path,
                                                 .runs_max = 1000,
                                                 .keeps_going = true};
        e = explore(&lost_update, &again);
        EXPECT_EQ(kin__engine_result(e)->runs, 1000);
        EXPECT_EQ(kin__engine_result(e)->failures, 1000);
        EXPECT_EQ(kin__engine_result(e)->hash, hash);
        EXPECT(!kin__engine_result(e)->has_diverged);
        EXPECT_STR(kin__engine_result(e)->failure.oracle, "assert");
        kin__engine_destroy(e);
    }
    (void)unlink(path);
}

KIN_TEST(a_file_says_what_it_is_and_keeps_the_notes_of_the_world, "")
{
    const char *path = scratch_file();
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_RANDOM,
        .seed = 7,
        .test = "lost_update",
        .notes = "workers 2\nfaults cancel\nsched is not for you\n\nend\nnobody knows\n"
                 "known issue 3"};
    static char text[65536];

    struct kin__engine *e = explore(&lost_update, &config);
    EXPECT_EQ(kin__engine_save(e, path), 0);
    kin__engine_destroy(e);
    (void)read_file(path, text, sizeof(text));
    EXPECT(strncmp(text, "kinlab 1\ntest lost_update\nstrategy replay\nseed 0x", 49) == 0);
    EXPECT(strstr(text, "\nexpect fail\noracle assert\nwhere root\nstatus -1\n") != NULL);
    EXPECT(strstr(text, "\nsched root") != NULL);
    EXPECT(strstr(text, " random ") != NULL);
    EXPECT(strcmp(text + strlen(text) - 5, "\nend\n") == 0);

    const struct kin__engine_config again = {.strategy = KIN__STRATEGY_REPLAY, .replay = path};
    e = explore(&lost_update, &again);
    EXPECT_STR(kin__engine_notes(e), "workers 2\nfaults cancel\nknown issue 3\n");
    EXPECT_EQ(kin__engine_result(e)->runs, 1);
    EXPECT_EQ(kin__engine_result(e)->failing_seed, 0);
    kin__engine_destroy(e);
    (void)unlink(path);
}

KIN_TEST(a_run_that_passed_can_be_saved_too, "")
{
    static const struct small_program harmless = {
        .actors = 2, .all = 2, .ops = {{{SMALL_ADD, 0, 1, 0}}, {{SMALL_CASE, 1, 3, 0}}}};
    const char *path = scratch_file();
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_RANDOM, .runs_max = 5};
    static char text[4096];

    struct kin__engine *e = explore(&harmless, &config);
    EXPECT_EQ(kin__engine_save(e, path), 0);
    kin__engine_destroy(e);
    (void)read_file(path, text, sizeof(text));
    EXPECT(strstr(text, "\nexpect pass\n") != NULL);
    const struct kin__engine_config again = {.strategy = KIN__STRATEGY_REPLAY, .replay = path};
    e = explore(&harmless, &again);
    EXPECT(kin__engine_result(e)->failure.oracle == NULL);
    EXPECT_EQ(kin__engine_result(e)->runs, 1);
    kin__engine_destroy(e);
    (void)unlink(path);
}

KIN_TEST(names_with_any_bytes_survive, "")
{
    static const char *const odd[] = {"root", "root/a b:c%d\te\x80\xff", "root/:", "root/%41"};
    const char *path = scratch_file();
    uint64_t hash = 0;

    for (int round = 0; round < 2; round++) {
        const struct kin__engine_config config = {.strategy = round ? KIN__STRATEGY_REPLAY
                                                                    : KIN__STRATEGY_RANDOM,
                                                  .runs_max = 1,
                                                  .replay = round ? path : NULL};
        int status = -1;
        struct kin__engine *e = kin__engine_create(&config, &status);
        EXPECT_EQ(status, 0);
        while (kin__engine_begin(e)) {
            uint16_t enabled[4] = {0, 1, 2, 3};
            for (unsigned i = 0; i < 4; i++)
                EXPECT_EQ(kin__engine_actor(e, odd[i]), i);
            for (unsigned i = 0; i < 40 && !kin__engine_is_over(e); i++) {
                (void)kin__engine_pick(e, enabled, 4);
                (void)kin__engine_choose(e, KIN__CHOICE_NET, 9, i % 2 ? " a:b%\n" : "");
            }
            kin__engine_end(e);
        }
        EXPECT(kin__engine_result(e)->failure.oracle == NULL);
        EXPECT(round == 0 || kin__engine_result(e)->hash == hash);
        hash = kin__engine_result(e)->hash;
        if (round == 0)
            EXPECT_EQ(kin__engine_save(e, path), 0);
        kin__engine_destroy(e);
    }
    (void)unlink(path);
}

/* What creating an engine for this file answers. */
static int status_of(const char *text, size_t size)
{
    const char *path = scratch_file();
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_REPLAY, .replay = path};
    int status = 1;

    write_bytes(path, text, size);
    struct kin__engine *e = kin__engine_create(&config, &status);
    EXPECT((e == NULL) == (status != 0));
    kin__engine_destroy(e);
    (void)unlink(path);
    return status;
}

static int status_of_text(const char *text)
{
    return status_of(text, strlen(text));
}

KIN_TEST(a_file_that_makes_no_sense_is_refused_by_name, "")
{
    EXPECT_EQ(status_of_text("kinlab 1\nsched root:2\nend\n"), 0);
    EXPECT_EQ(status_of_text("kinlab 1\r\nsched root:2\r\nend\r\n"), 0);
    EXPECT_EQ(status_of_text(""), -EINVAL);
    EXPECT_EQ(status_of_text("hello\n"), -EINVAL);
    EXPECT_EQ(status_of_text("kinlab 2\nend\n"), -EPROTONOSUPPORT);
    EXPECT_EQ(status_of_text("kinlab 11\nend\n"), -EPROTONOSUPPORT);
    EXPECT_EQ(status_of_text("kinlab 1\nsched root:2\n"), -ENODATA);
    EXPECT_EQ(status_of_text("kinlab 1\nsched root:2\nend"), -ENODATA);
    EXPECT_EQ(status_of_text("kinlab 1\nsched root\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nsched :1\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nsched root:x\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nsched root:1x\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nsched root%zz:1\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nsched root%0:1\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nsched root%00:1\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nsched root:4194305\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nsched root:99999999999999999999\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nseed 5\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nseed 0x10000000000000000\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nchoose 0 case 1/3 here\nend\n"), 0);
    EXPECT_EQ(status_of_text("kinlab 1\nchoose 0 case 1/3\nend\n"), 0);
    EXPECT_EQ(status_of_text("kinlab 1\nchoose 0 case 4294967295/0 here\nend\n"), 0);
    EXPECT_EQ(status_of_text("kinlab 1\nchoose 0 case 3/3 here\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nchoose 0 case 4294967296/0 here\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nchoose 0 task 0/1 here\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nchoose 0 dream 0/1 here\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nchoose 0 case 0/1 here there\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nchoose 0 case\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nchoose 1 case 0/2 late\nend\n"), -EBADMSG);
    EXPECT_EQ(
        status_of_text("kinlab 1\nsched r:2\nchoose 2 case 0/2 x\nchoose 1 case 0/2 x\nend\n"),
        -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nsched r:2\nmarks 1:1\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nsched r:1\nmarks 1:1\nend\n"), 0);
    EXPECT_EQ(status_of_text("kinlab 1\nsched r:1\nmarks 10000:1\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of_text("kinlab 1\nsched r:1\nmarks 1:1-\nend\n"), -EBADMSG);
    EXPECT_EQ(status_of("kinlab 1\nsched r\0:1\nend\n", 24), -EBADMSG);
}

/* What is wrong with a file, in words. */
static const char *misread(const char *file)
{
    static char words[256], text[256];
    struct kin__text out;
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_RANDOM, .misread = &out};
    int status = 0;
    kin__text_init(&out, words, sizeof(words));
    struct kin__engine *e = kin__engine_create(&config, &status);

    EXPECT(e != NULL);
    (void)snprintf(text, sizeof(text), "%s", file);
    status = kin__kinlab_parse(kin__lab_of(e), text, strlen(text));
    EXPECT((status == 0) == (words[0] == 0));
    EXPECT(status == 0 || status == -EBADMSG);
    kin__engine_destroy(e);
    return words;
}

KIN_TEST(a_line_of_something_else_is_refused_with_its_number, "")
{
    static const char *const strange[] = {
        "garbage", "sched:root:1", "Sched root:1", " sched r:1", "\tsched r:1", "kinlab 1",
        "ends",    "end of it",    "<<<<<<< ours", "=======",    "root:1",      "texts a"};
    static const char *const known[] = {"# garbage", "",           "   ",        "#",
                                        "known one", "record 1",   "workers 2",  "faults oom",
                                        "found now", "hash 0x1",   "status -1",  "expect pass",
                                        "text",      "where root", "oracle any", "strategy replay"};
    char text[128];

    for (size_t i = 0; i < sizeof(strange) / sizeof(*strange); i++) {
        (void)snprintf(text, sizeof(text), "kinlab 1\ntest t\n%s\nsched r:1\nend\n", strange[i]);
        EXPECT_STR(misread(text),
                   "line 3: no line of a schedule begins like this; a comment begins with '#'");
        (void)snprintf(text, sizeof(text), "kinlab 1\ntest t\nsched r:1\nend\n%s\n", strange[i]);
        EXPECT_STR(misread(text), "line 5: there is something behind 'end'");
        (void)snprintf(text, sizeof(text), "kinlab 1\ntest t\nsched r:1\nend\n%s", strange[i]);
        EXPECT_STR(misread(text), "line 5: there is something behind 'end'");
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        (void)snprintf(text, sizeof(text), "kinlab 1\n%s\nsched r:1\nend\n\n# over\n", known[i]);
        EXPECT_STR(misread(text), "");
    }
}

KIN_TEST(a_file_that_is_not_there_or_is_no_file_is_refused_by_name, "")
{
    struct kin__engine_config config = {.strategy = KIN__STRATEGY_REPLAY};
    int status = 0;

    EXPECT(kin__engine_create(&config, &status) == NULL);
    EXPECT_EQ(status, -EINVAL);
    config.replay = "/nowhere/at/all.kinlab";
    EXPECT(kin__engine_create(&config, &status) == NULL);
    EXPECT_EQ(status, -ENOENT);
    config.replay = "/";
    EXPECT(kin__engine_create(&config, &status) == NULL);
    EXPECT_EQ(status, -EISDIR);

    config = (struct kin__engine_config){.strategy = KIN__STRATEGY_RANDOM, .runs_max = 1};
    struct kin__engine *e = explore(&lost_update, &config);
    EXPECT_EQ(kin__engine_save(e, "/nowhere/at/all.kinlab"), -ENOENT);
    kin__engine_destroy(e);
}

KIN_TEST(long_lines_and_paths_have_a_limit, "")
{
    static char text[1 << 20];
    size_t size = (size_t)snprintf(text, sizeof(text), "kinlab 1\nsched ");

    memset(text + size, 'a', KIN__PATH_MAX);
    (void)snprintf(text + size + KIN__PATH_MAX, 64, ":1\nend\n");
    EXPECT_EQ(status_of_text(text), -EBADMSG);
    (void)snprintf(text + size + KIN__PATH_MAX - 1, 64, ":1\nend\n");
    EXPECT_EQ(status_of_text(text), 0);

    size = (size_t)snprintf(text, sizeof(text), "kinlab 1\nknown ");
    memset(text + size, 'n', 70000);
    (void)snprintf(text + size + 70000, 64, "\nend\n");
    EXPECT_EQ(status_of_text(text), -EFBIG);
}

/* One change of a text somewhere: a bit, a byte, a piece that is cut out, doubled or moved. */
static size_t mutate(struct kin__rng *rng, char *text, size_t size, size_t cap)
{
    static const char *const words[] = {"sched", "choose", "marks", ":", "%",
                                        "/",     "\n",     " ",     "0", "99999999999999999999",
                                        "end",   "root",   "%ff"};
    size_t at = size ? (size_t)kin__rng_below(rng, size) : 0;
    size_t length = size ? 1 + (size_t)kin__rng_below(rng, size - at) : 0;
    const char *word = words[kin__rng_below(rng, sizeof(words) / sizeof(*words))];

    switch (kin__rng_below(rng, 6)) {
    case 0:
        text[at] = (char)(text[at] ^ (1 << kin__rng_below(rng, 8)));
        return size;
    case 1:
        text[at] = (char)kin__rng_below(rng, 256);
        return size;
    case 2:
        memmove(text + at, text + at + length, size - at - length);
        return size - length;
    case 3:
        return at;
    case 4:
        if (size + length > cap)
            return size;
        memmove(text + at + length, text + at, size - at);
        return size + length;
    default:
        length = strlen(word);
        if (size + length > cap)
            return size;
        memmove(text + at + length, text + at, size - at);
        memcpy(text + at, word, length);
        return size + length;
    }
}

/* An engine that follows a text, as if it had been read from a file; NULL: it was refused. */
static struct kin__engine *follow(char *text, size_t size, unsigned nth)
{
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_RANDOM, .is_lenient = nth % 2, .shrinks = nth % 8 == 1};
    int status = 1;
    struct kin__engine *e = kin__engine_create(&config, &status);

    EXPECT(e != NULL);
    kin__lab_of(e)->config.strategy = KIN__STRATEGY_REPLAY;
    status = kin__kinlab_parse(kin__lab_of(e), text, size);
    EXPECT_LE(status, 0);
    if (status == 0)
        return e;
    kin__engine_destroy(e);
    return NULL;
}

/* Whatever is in the file: it is refused, or it is followed and the run ends. */
KIN_TEST(mutated_files_do_no_harm, "")
{
    static char origin[65536], text[65536];
    const char *path = scratch_file();
    const struct kin__engine_config config = {
        .strategy = KIN__STRATEGY_RANDOM, .seed = 3, .test = "lost_update"};
    struct kin__rng rng;
    unsigned accepted = 0, refused = 0;

    struct kin__engine *e = explore(&lost_update, &config);
    EXPECT_EQ(kin__engine_save(e, path), 0);
    kin__engine_destroy(e);
    const size_t size = read_file(path, origin, sizeof(origin));
    (void)unlink(path);
    kin__rng_init(&rng, kin_test_seed(), 0);
    for (unsigned i = 0; i < 10000 / kin_test_scale(); i++) {
        size_t now = size;
        memcpy(text, origin, size);
        for (uint64_t changes = 1 + kin__rng_below(&rng, 8); changes; changes--)
            now = mutate(&rng, text, now, sizeof(text));
        /* At the very end of its own memory, so that a look behind it is seen. */
        char *tight = malloc(now ? now : 1);
        EXPECT(tight != NULL);
        memcpy(tight, text, now);
        e = follow(tight, now, i);
        if (e)
            run_all(e, &lost_update);
        accepted += e != NULL;
        refused += e == NULL;
        kin__engine_destroy(e);
        free(tight);
    }
    EXPECT_GT(accepted, 0);
    EXPECT_GT(refused, 0);
}
