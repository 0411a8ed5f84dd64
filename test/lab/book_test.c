/* SPDX-License-Identifier: MIT */
/*
 * The book of found bugs: each bug is found, for the reason its page gives, and each remedy holds.
 *
 * The programs of examples/lab are all inside of this one.
 */
#include "kin_test.h"

#include "lab/main.h"

#include <string.h>

#define RUNS_MAX 20000u /* within which each bug must be found; milliseconds */

static const struct {
    const char *name, *oracle;
} book[] = {
    {"lost_wake", "deadlock"},      {"double_close", "assert"},
    {"lock_order", "deadlock"},     {"lost_update", "assert"},
    {"lost_item", "assert"},        {"dropped_reply", "obligation-leak"},
    {"lost_token", "deadlock"},
    {"restart_storm", "return"},    {"stale_timer", "assert"},
    {"torn_read", "assert"},        {"leak_on_error", "leak"},
    {"short_read", "assert"},       {"torn_log", "assert"},
    {"cut_off", "assert"},
};
#define PAGES (sizeof(book) / sizeof(book[0]))

static struct kin__verdict verdict;

static void run(const char *name, const char *ending, enum kin_lab_strategy strategy)
{
    static struct kin__options options;
    char full[64];
    struct kin__text text;
    kin__text_init(&text, full, sizeof(full));
    kin__text_printf(&text, "%s_%s", name, ending);
    const struct kin_lab_test *test = kin__main_find(full);
    if (!test)
        EXPECT_STR(full, "a test of the book");
    struct kin_lab_config config = test->config;
    config.strategy = strategy;
    options.program = "book";
    options.is_quiet = true;
    if (strategy == KIN_LAB_RANDOM || strategy == KIN_LAB_PCT)
        config.executions_max = RUNS_MAX;
    kin__main_run(&options, &config, test, &verdict);
}

static void check_bug(size_t page, enum kin_lab_strategy strategy)
{
    run(book[page].name, "bug", strategy);
    if (!verdict.report.oracle || strcmp(verdict.report.oracle, book[page].oracle) != 0)
        EXPECT_STR(book[page].name, verdict.report.oracle);
    EXPECT_LE(verdict.runs, RUNS_MAX);
    /* the report names the file and the line, and how to see it again */
    char file[64];
    struct kin__text text;
    kin__text_init(&text, file, sizeof(file));
    kin__text_printf(&text, "%s.c:", book[page].name);
    EXPECT(strstr(verdict.report.text, "<-- here") != NULL);
#if defined(__x86_64__) || defined(__aarch64__)
    EXPECT(strstr(verdict.report.text, file) != NULL);
#endif
}

KIN_TEST(auto_finds_every_bug, "")
{
    for (size_t i = 0; i < PAGES; i++)
        check_bug(i, KIN_LAB_AUTO);
}

KIN_TEST(dpor_finds_every_bug, "")
{
    for (size_t i = 0; i < PAGES; i++)
        check_bug(i, KIN_LAB_DPOR);
}

KIN_TEST(random_finds_every_bug, "")
{
    for (size_t i = 0; i < PAGES; i++)
        check_bug(i, KIN_LAB_RANDOM);
}

KIN_TEST(every_remedy_holds_in_every_schedule, "")
{
    for (size_t i = 0; i < PAGES; i++) {
        run(book[i].name, "fixed", KIN_LAB_DPOR);
        if (verdict.status != 0 || !verdict.result.is_complete)
            EXPECT_STR(book[i].name, verdict.report.oracle ? verdict.report.text : "incomplete");
        EXPECT_GT(verdict.runs, 1);
    }
}
