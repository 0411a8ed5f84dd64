/* SPDX-License-Identifier: MIT */
/*
 * The command line: what is understood, and one line for everything that is not.
 */
#include "kin_test.h"

#include "lab/options.h"

#include <string.h>

static struct kin__options options;
static char error[512];

/* Reads the words of a line, cut at blanks. */
static int read_line(const char *line)
{
    static char words[1024];
    static char *argv[64];
    int argc = 0;
    struct kin__text text;
    strncpy(words, line, sizeof(words) - 1);
    for (char *word = strtok(words, " "); word && argc < 64; word = strtok(NULL, " "))
        argv[argc++] = word;
    error[0] = '\0';
    kin__text_init(&text, error, sizeof(error));
    return kin__options_read(&options, argc, argv, &text);
}

KIN_TEST(nothing_asks_for_every_test, "")
{
    EXPECT_EQ(read_line("./t_bank"), 0);
    EXPECT_EQ(options.ask, KIN__ASK_RUN);
    EXPECT_STR(options.program, "./t_bank");
    EXPECT_EQ(options.names_count, 0);
    EXPECT(!options.has_strategy && !options.has_seed);
    EXPECT_EQ(options.jobs, 1);
    EXPECT_STR(options.reports, "kin-lab");
}

KIN_TEST(options_and_names_may_be_mixed, "")
{
    EXPECT_EQ(read_line("t bank -s pct:5 --time=500ms shop -j8 -qk --no-files --patience 3s -- "
                        "--odd"),
              0);
    EXPECT_EQ(options.names_count, 3);
    EXPECT_STR(options.names[0], "bank");
    EXPECT_STR(options.names[1], "shop");
    EXPECT_STR(options.names[2], "--odd");
    EXPECT_EQ(options.strategy, KIN_LAB_PCT);
    EXPECT_EQ(options.depth, 5);
    EXPECT_EQ(options.time_ns, 500000000);
    EXPECT_EQ(options.patience_ns, INT64_C(3000000000));
    EXPECT_EQ(options.jobs, 8);
    EXPECT(options.is_quiet && options.keeps_going);
    EXPECT_PTR(options.reports, NULL);
}

KIN_TEST(strategies_have_names_and_numbers, "")
{
    static const struct {
        const char *line;
        enum kin_lab_strategy strategy;
        enum kin__strategy other;
        unsigned depth, preemptions;
    } cases[] = {
        {"t -s auto", KIN_LAB_AUTO, 0, 0, 0},
        {"t -srr", KIN_LAB_ROUND_ROBIN, 0, 0, 0},
        {"t -s random", KIN_LAB_RANDOM, 0, 0, 0},
        {"t -s pct", KIN_LAB_PCT, 0, 0, 0},
        {"t -s pct:2", KIN_LAB_PCT, 0, 2, 0},
        {"t -s urw", KIN_LAB_RANDOM, KIN__STRATEGY_WALK, 0, 0},
        {"t --dpor", KIN_LAB_DPOR, 0, 0, 0},
        {"t -s dpor:3", KIN_LAB_DPOR, 0, 0, 3},
        {"t -s dfs", KIN_LAB_DPOR, KIN__STRATEGY_DFS, 0, 0},
        {"t -s dfs:1", KIN_LAB_DPOR, KIN__STRATEGY_DFS, 0, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char memory[32];
        struct kin__text text;
        EXPECT_EQ(read_line(cases[i].line), 0);
        EXPECT(options.has_strategy);
        EXPECT_EQ(options.strategy, cases[i].strategy);
        EXPECT_EQ(options.other, cases[i].other);
        EXPECT_EQ(options.depth, cases[i].depth);
        EXPECT_EQ(options.preemptions, cases[i].preemptions);
        /* and said again they mean the same */
        kin__text_init(&text, memory, sizeof(memory));
        kin__text_str(&text, "t -s ");
        kin__options_strategy(&text, cases[i].strategy, cases[i].other, cases[i].depth,
                              cases[i].preemptions);
        EXPECT_EQ(read_line(memory), 0);
        EXPECT_EQ(options.strategy, cases[i].strategy);
        EXPECT_EQ(options.other, cases[i].other);
        EXPECT_EQ(options.preemptions, cases[i].preemptions);
    }
}

KIN_TEST(bytes_have_a_file, "")
{
    EXPECT_EQ(read_line("t -s bytes:some:file"), 0);
    EXPECT_EQ(options.strategy, KIN_LAB_BYTES);
    EXPECT_STR(options.bytes_file, "some:file");
    EXPECT_EQ(read_line("t -s bytes:file -s rr"), 0); /* the last one holds */
    EXPECT_EQ(options.strategy, KIN_LAB_ROUND_ROBIN);
    EXPECT_PTR(options.bytes_file, NULL);
    EXPECT_EQ(read_line("t -s bytes"), -1);
    EXPECT_STR(error, "--strategy: the file is missing, as in bytes:FILE");
}

KIN_TEST(seeds_are_one_or_a_range, "")
{
    EXPECT_EQ(read_line("t --seeds 1..100000"), 0);
    EXPECT(options.has_seed);
    EXPECT_EQ(options.seed, 1);
    EXPECT_EQ(options.seeds, 100000);
    EXPECT_EQ(read_line("t --seed 0x5eed002a -n 3"), 0);
    EXPECT_EQ(options.seed, 0x5eed002a);
    EXPECT_EQ(options.seeds, 1);
    EXPECT_EQ(options.runs, 3);
    EXPECT_EQ(read_line("t --seed 18446744073709551615"), 0);
    EXPECT_EQ(options.seed, UINT64_MAX);
}

KIN_TEST(faults_are_a_list, "")
{
    char memory[64];
    struct kin__text text;
    EXPECT_EQ(read_line("t --sweep cancel,oom --sweep=delay"), 0);
    EXPECT_EQ(options.faults,
              KIN_FAULT_CANCEL | KIN_FAULT_OOM | KIN_FAULT_DELAY | KIN_FAULT_EACH);
    kin__text_init(&text, memory, sizeof(memory));
    kin__options_faults(&text, options.faults);
    EXPECT_STR(memory, "oom,cancel,delay,each");
    EXPECT_EQ(kin__options_fault_bits(memory), options.faults);
    EXPECT_EQ(kin__options_fault_bits(""), 0);
    EXPECT_EQ(kin__options_fault_bits("nonsense,oom,,"), KIN_FAULT_OOM);
    EXPECT_EQ(read_line("t --sweep all"), 0);
    EXPECT(options.faults & KIN_FAULT_FILE);
    EXPECT(!(options.faults & KIN_FAULT_CHAOS));
}

KIN_TEST(numbers_of_notes_are_read, "")
{
    EXPECT_EQ(kin__options_number("7", 10), 7);
    EXPECT_EQ(kin__options_number("11", 10), 0);
    EXPECT_EQ(kin__options_number("-1", 10), 0);
    EXPECT_EQ(kin__options_number("", 10), 0);
}

KIN_TEST(files_are_asked_for_one_way_at_a_time, "")
{
    EXPECT_EQ(read_line("t --replay a.kinlab --lenient -e"), 0);
    EXPECT_EQ(options.ask, KIN__ASK_REPLAY);
    EXPECT_STR(options.file, "a.kinlab");
    EXPECT(options.is_lenient && options.explains);
    EXPECT_EQ(read_line("t --shrink=a.kinlab --report-dir out"), 0);
    EXPECT_EQ(options.ask, KIN__ASK_SHRINK);
    EXPECT_STR(options.reports, "out");
    EXPECT_EQ(read_line("t --regress dir"), 0);
    EXPECT_EQ(options.ask, KIN__ASK_REGRESS);
    EXPECT_EQ(read_line("t --regress dir --list"), -1);
}

KIN_TEST(whatever_is_wrong_is_answered_with_one_line, "")
{
    static const char *const lines[] = {
        "t --nonsense",      "t -Z",              "t --seed",          "t --seed x",
        "t --seed 1..",      "t --seeds 5..4",    "t --seed 18446744073709551616",
        "t --seed -1",       "t --seed 0x",       "t --seed 1...3",    "t --seed 0",
        "t --seeds 0..9",    "t -s pct:33",
        "t --seeds 0..18446744073709551615",
        "t -n 0",            "t -n 1x",           "t -j 0",            "t -j 257",
        "t -j x",            "t -s",              "t -s nonsense",     "t -s pct:0",
        "t -s pct:x",        "t -s random:3",     "t -s pct:99999999999999999999",
        "t -s :3",           "t -s random:",      "t -s pct:",         "t -s bytes",
        "t -s bytes:",       "t --time 0",        "t --time 2parsec",  "t --time 999999999999999h",
        "t --time 9223372036s", "t --time -1s",   "t --time 1d",
        "t --time 0.5s",     "t --seed ..3",      "t --seed -1..3",    "t -n -5",
        "t -n 1e9",          "t -n 99999999999999999999", "t -j -1",   "t -s dpor:0",
        "t --time",          "t --sweep",         "t --sweep ,",       "t --sweep oom,",
        "t --sweep oom,,fail", "t --sweep bad",   "t --list=3",        "t --quiet=x",
        "t --replay",        "t --replay=",       "t --break-at 0",    "t --=",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (read_line(lines[i]) != -1)
            EXPECT_STR(lines[i], "refused");
        EXPECT_GT(strlen(error), 0);
        EXPECT_PTR(strchr(error, '\n'), NULL);
    }
    EXPECT_EQ(read_line("t -s"), -1);
    EXPECT_STR(error, "--strategy: a value is missing");
    EXPECT_EQ(read_line("t --seeds"), -1);
    EXPECT_STR(error, "--seeds: a value is missing");
    EXPECT_EQ(read_line("t --seeds 10..1"), -1);
    EXPECT_STR(error, "--seeds: '10..1' is no seed and no range such as 1..1000: it ends before it "
                      "begins");
    EXPECT_EQ(read_line("t --seeds 0..1"), -1);
    EXPECT_STR(error, "--seeds: '0..1' is no seed and no range such as 1..1000: seeds begin with "
                      "1");
    EXPECT_EQ(read_line("t -n -1"), -1); /* called by its letter, or with its value behind = */
    EXPECT_STR(error, "--runs: '-1' is no number from 1 to 18446744073709551615");
    EXPECT_EQ(read_line("t --jobs=many"), -1);
    EXPECT_STR(error, "--jobs: 'many' is no number from 1 to 256");
}

KIN_TEST(no_arguments_at_all_and_endless_ones, "")
{
    static char long_word[100000];
    static char *argv[400];
    struct kin__text text;
    kin__text_init(&text, error, sizeof(error));
    EXPECT_EQ(kin__options_read(&options, 0, argv, &text), 0);
    EXPECT_STR(options.program, "lab");
    memset(long_word, 'a', sizeof(long_word) - 1);
    argv[0] = argv[1] = long_word;
    EXPECT_EQ(kin__options_read(&options, 2, argv, &text), 0);
    memcpy(long_word, "--", 2);
    EXPECT_EQ(kin__options_read(&options, 2, argv, &text), -1);
    EXPECT_LT(strlen(error), 200);
    char name[] = "x", empty[] = "";
    for (int i = 0; i < 400; i++)
        argv[i] = name;
    EXPECT_EQ(kin__options_read(&options, 400, argv, &text), -1); /* more than there is room for */
    argv[1] = empty;
    EXPECT_EQ(kin__options_read(&options, 2, argv, &text), -1);
}

KIN_TEST(help_names_every_option, "")
{
    static char memory[8192];
    static const char *const names[] = {
        "--list", "--replay", "--shrink", "--regress", "--strategy", "--dpor", "--seeds", "--seed",
        "--runs", "--time", "--sweep", "--explain", "--report-dir", "--no-files", "--json",
        "--quiet", "--keep-going", "--no-shrink", "--lenient", "--jobs", "--break-at", "--patience",
        "-h, --help", "--version", "  -- "};
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__options_help(&text, "t_bank");
    EXPECT(strncmp(memory, "usage: t_bank ", 14) == 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        EXPECT(strstr(memory, names[i]) != NULL);
    for (const char *line = memory; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        EXPECT_LT(strcspn(line, "\n"), 88);
    }
}
