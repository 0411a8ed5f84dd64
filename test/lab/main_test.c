/* SPDX-License-Identifier: MIT */
/*
 * A lab program from its command line: what it runs, what it prints, what it exits with.
 */
#include "kin_test.h"

#include "run_main.h"

#include <sys/wait.h>

#include <kin/kin.h>

/* ---- the program ---- */

static int add(void *arg)
{
    int *sum = arg;
    int seen = KIN_SHARED(*sum);
    kin_ignore(kin_yield());
    KIN_SHARED(*sum) = seen + 1;
    return 0;
}

static int two_add(kin_task_fn *fn)
{
    int sum = 0;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, fn, &sum));
    KIN_LAB_OK(kin_spawn(&n, fn, &sum));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_lab_assert(sum == 2, "both are counted");
    return 0;
}

static int add_at_once(void *arg)
{
    KIN_SHARED(*(int *)arg)++;
    return 0;
}

KIN_LAB(adds_at_once, .strategy = KIN_LAB_DPOR)
{
    return two_add(add_at_once);
}

static int add_often(void *arg)
{
    for (int i = 0; i < 3; i++)
        KIN_SHARED(*(int *)arg)++;
    return 0;
}

KIN_LAB(counts_often)
{
    int sum = 0;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, add_often, &sum));
    KIN_LAB_OK(kin_spawn(&n, add_often, &sum));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_lab_assert(sum == 6, "all are counted");
    return 0;
}

KIN_LAB(adds_late, .strategy = KIN_LAB_RANDOM, .executions_max = 500)
{
    return two_add(add);
}

KIN_LAB(returns_an_error, .strategy = KIN_LAB_ROUND_ROBIN)
{
    return KIN_NOPROC;
}

KIN_LAB(has_a_wrong_config, .workers = 1000000)
{
    return 0;
}

static bool says(const char *text)
{
    return strstr(main_out, text) != NULL;
}

/* ---- tests ---- */

static bool does_exit; /* whether the next one does what it must not */

KIN_LAB(goes_without_a_word, .strategy = KIN_LAB_ROUND_ROBIN)
{
    if (does_exit)
        exit(0);
    return 0;
}

#define EIGHT "\001\001\001\001\001\001\001\001"
#define SIXTY_FOUR EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT

KIN_LAB(tells_nothing_readable, .strategy = KIN_LAB_ROUND_ROBIN)
{
    kin_lab_assert(false, SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR);
    return 0;
}

KIN_TEST(a_test_that_passes_is_one_line, "")
{
    EXPECT_EQ(run_main("t adds_at"), 0);
    EXPECT(says("ok    adds_at_once "));
    EXPECT(says("complete: all "));
    EXPECT(says("1 test: 1 passed (1 completely), 0 failed; "));
    EXPECT_STR(main_err, "");
}

KIN_TEST(a_test_that_fails_is_told, "")
{
    EXPECT_EQ(run_main("./t_sum adds_late --no-files"), 1);
    EXPECT(says("FAIL  adds_late: assert, root\n"));
    EXPECT(says("why:      both are counted\n"));
    EXPECT(says("replay:   ./t_sum adds_late -s random --seed "));
    EXPECT(says("<-- here"));
    EXPECT(says("1 test: 0 passed (0 completely), 1 failed; "));
}

/* The number behind a word of the output. */
static unsigned long long number_behind(const char *word)
{
    const char *at = strstr(main_out, word);
    return at ? strtoull(at + strlen(word), NULL, 10) : 0;
}

KIN_TEST(the_seed_of_a_failure_makes_it_fail_at_once, "")
{
    char line[128];
    EXPECT_EQ(run_main("t adds_late --no-files"), 1);
    unsigned long long seed = number_behind("--seed ");
    EXPECT_NE(seed, 0);
    snprintf(line, sizeof(line), "t adds_late -s random --no-files --json --seed %llu", seed);
    EXPECT_EQ(run_main(line), 1);
    EXPECT(says("\"runs\":1,"));
    EXPECT_EQ(number_behind("\"seed\":"), seed);
}

KIN_TEST(ranges_of_seeds_are_run_one_by_one, "")
{
    EXPECT_EQ(run_main("t adds_at -s random --seeds 1..50 --json"), 0);
    EXPECT(says("\"verdict\":\"pass\""));
    EXPECT(says("\"runs\":50,"));
    EXPECT_EQ(run_main("t adds_late -s urw --seeds 1..500 --json --no-files"), 1);
    unsigned long long seed = number_behind("\"seed\":");
    EXPECT(seed >= 1 && seed <= 500);
    EXPECT_EQ(run_main("t adds_at --seeds 1..50 --json"), 0); /* of dpor there are none */
    EXPECT_EQ(run_main("t counts_often -s auto --seeds 1..50 --json"), 0);
    EXPECT(says("\"runs\":50,"));
    EXPECT_EQ(run_main("t adds_at -s random --seeds 1..50 -n 20 --json"), 0);
    EXPECT(says("\"runs\":20,"));
}

KIN_TEST(a_test_that_calls_exit_has_failed, "")
{
    int how = 0;
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        does_exit = true;
        _exit(run_main("t without_a_word --no-files") == 0 ? 0 : 2);
    }
    EXPECT_EQ(waitpid(pid, &how, 0), pid);
    EXPECT(WIFEXITED(how));
    EXPECT_EQ(WEXITSTATUS(how), 1);
    EXPECT_EQ(run_main("t without_a_word"), 0);
}

KIN_TEST(json_is_whole_whatever_the_text, "")
{
    EXPECT_EQ(run_main("t readable --json --no-files"), 1);
    EXPECT_STR(main_out + strlen(main_out) - 2, "}\n");
}

KIN_TEST(json_is_one_line_for_each_test, "")
{
    EXPECT_EQ(run_main("t adds returns --json --no-files"), 1);
    unsigned lines = 0;
    for (const char *at = main_out; (at = strchr(at, '\n')); at++)
        lines++;
    EXPECT_EQ(lines, 3);
    EXPECT_PTR(strstr(main_out, "{\"test\":\"adds_at_once\",\"verdict\":\"pass\","), main_out);
    EXPECT(says("\"strategy\":\"dpor\",\"complete\":true,"));
    EXPECT(says("\"oracle\":\"return\""));
    EXPECT(says("\"status_name\":\"KIN_NOPROC\""));
}

KIN_TEST(strategies_can_be_chosen, "")
{
    static const char *const strategies[] = {"auto", "random", "pct:2", "urw", "dpor", "dpor:2"};
    EXPECT_EQ(run_main("t adds_late -s rr --json --no-files"), 1);
    EXPECT(says("\"runs\":1,"));
    for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++) {
        char line[128];
        snprintf(line, sizeof(line), "t adds_late -s %s -n 2000 --no-files", strategies[i]);
        EXPECT_EQ(run_main(line), 1);
        EXPECT(says("FAIL  adds_late: assert"));
    }
}

KIN_TEST(tests_are_listed, "")
{
    EXPECT_EQ(run_main("t --list"), 0);
    EXPECT(says("adds_at_once "));
    EXPECT(says(" dpor "));
    EXPECT(says("main_test.c\n"));
    EXPECT_EQ(run_main("t --list late"), 0);
    EXPECT(!says("adds_at_once"));
    EXPECT(says("adds_late "));
}

KIN_TEST(failing_runs_can_be_counted, "")
{
    EXPECT_EQ(run_main("t adds_late -k --no-files"), 1);
    EXPECT(says(" of 500 runs fail, the first by assert\n"));
}

KIN_TEST(quiet_says_nothing_of_what_is_well, "")
{
    EXPECT_EQ(run_main("t -q adds_at"), 0);
    EXPECT_STR(main_out, "");
    EXPECT_EQ(run_main("t -q adds --no-files"), 1);
    EXPECT(!says("adds_at_once"));
}

KIN_TEST(what_cannot_be_done_is_one_line_and_status_2, "")
{
    static const char *const lines[] = {"t --nonsense",         "t nobody_of_that_name",
                                        "t --replay /nowhere",  "t --shrink /nowhere",
                                        "t --regress /nowhere", "t -s what"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        EXPECT_EQ(run_main(lines[i]), 2);
        EXPECT_STR(main_out, "");
        EXPECT(strncmp(main_err, "t: ", 3) == 0);
        EXPECT_PTR(strchr(main_err, '\n'), main_err + strlen(main_err) - 1);
    }
    EXPECT_EQ(run_main("t has_a_wrong_config"), 2);
    EXPECT(says("could not run"));
}

KIN_TEST(help_and_version, "")
{
    EXPECT_EQ(run_main("t --help"), 0);
    EXPECT(says("usage: t [options] [test ...]"));
    EXPECT(says("cannot be done.\n")); /* to its end */
    EXPECT_EQ(run_main("t --version"), 0);
    EXPECT(strncmp(main_out, "kin-lab ", 8) == 0);
}

KIN_TEST(a_sweep_tries_each_fault_in_each_place, "")
{
    EXPECT_EQ(run_main("t adds_at --sweep oom,cancel --json"), 0);
    EXPECT(says("\"strategy\":\"dpor\",\"complete\":true,"));
    unsigned long long with = number_behind("\"runs\":");
    EXPECT_EQ(run_main("t adds_at --json"), 0);
    EXPECT_GT(with, number_behind("\"runs\":"));
}

KIN_TEST(a_sweep_says_how_many_places_there_are, "")
{
    static const char *const strategies[] = {"-s rr", "-s random --seeds 1..3", "-s pct --seed 7",
                                             "-s urw --seeds 4..5", ""};
    for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++) {
        char line[128];
        snprintf(line, sizeof(line), "t adds_at %s --sweep oom,cancel --json", strategies[i]);
        EXPECT_EQ(run_main(line), 0);
        unsigned long long sites = number_behind("\"sites\":");
        EXPECT_GT(sites, 3);
        EXPECT_EQ(number_behind("\"fired\":"), sites);
        EXPECT_GT(number_behind("\"runs\":"), sites);
    }
    EXPECT_EQ(run_main("t adds_at -s rr --sweep oom"), 0);
    EXPECT(says(" sites fired\n"));
}

KIN_TEST(a_bound_is_not_called_complete, "")
{
    EXPECT_EQ(run_main("t counts_often -s dpor:1"), 0);
    EXPECT(says("complete within the bound: "));
    EXPECT(says("1 passed (0 completely)"));
}

KIN_TEST(time_ends_what_would_go_on, "")
{
    EXPECT_EQ(run_main("t adds_at -s random --time 20ms --json"), 0);
    EXPECT(says("\"verdict\":\"pass\""));
    EXPECT_GT(number_behind("\"runs\":"), 0);
}
