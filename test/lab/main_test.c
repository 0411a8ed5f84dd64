/* SPDX-License-Identifier: MIT */
/*
 * A lab program from its command line: what it runs, what it prints, what it exits with.
 */
#include "kin_test.h"

#include "run_main.h"

#include <fcntl.h>
#include <signal.h>
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

KIN_LAB(sums_wrong, .strategy = KIN_LAB_DPOR)
{
    return two_add(add);
}

/* Three tasks that fall when the second runs in the middle of the first, and also when they run in
 * the opposite order, which takes one switch fewer, and which no small change leads to. */
struct three {
    int half, count, places[3];
    bool has_fallen;
};

static int be_first(void *arg)
{
    struct three *three = arg;
    KIN_SHARED(three->half) = 1;
    KIN_SHARED(three->half) = 0;
    KIN_SHARED(three->places[0]) = KIN_SHARED(three->count)++;
    return 0;
}

static int be_second(void *arg)
{
    struct three *three = arg;
    KIN_SHARED(three->has_fallen) = KIN_SHARED(three->half) == 1;
    KIN_SHARED(three->places[1]) = KIN_SHARED(three->count)++;
    return 0;
}

static int be_third(void *arg)
{
    struct three *three = arg;
    KIN_SHARED(three->places[2]) = KIN_SHARED(three->count)++;
    return 0;
}

KIN_LAB(falls_in_two_ways, .strategy = KIN_LAB_DPOR)
{
    struct three three = {0};
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, be_first, &three));
    KIN_LAB_OK(kin_spawn(&n, be_second, &three));
    KIN_LAB_OK(kin_spawn(&n, be_third, &three));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_lab_assert(!three.has_fallen && (three.places[2] != 0 || three.places[1] != 1),
                   "they stand");
    return 0;
}

/* What a run leaves behind decides the next one. */
KIN_LAB(remembers, .strategy = KIN_LAB_RANDOM, .executions_max = 200)
{
    static unsigned runs;
    int sum = 0;
    KIN_NURSERY(n);
    for (unsigned i = 0; i < 1 + runs % 3; i++)
        KIN_LAB_OK(kin_spawn(&n, add_at_once, &sum));
    runs++;
    return kin_nursery_join(&n, NULL);
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

KIN_TEST(what_was_drawn_becomes_as_short_as_what_was_searched, "")
{
    EXPECT_EQ(run_main("t two_ways --no-files --json"), 1);
    unsigned long long least = number_behind("\"switches\":");
    for (unsigned seed = 1, failed = 0; failed < 8; seed++) { /* ends: every second one fails */
        char line[128];
        snprintf(line, sizeof(line), "t two_ways -s random --no-files --json --seed %u", seed);
        if (run_main(line) == 0)
            continue;
        failed++;
        EXPECT_EQ(number_behind("\"switches\":"), least);
    }
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

KIN_TEST(the_bytes_of_a_file_decide_one_run, "")
{
    char line[128], path[64];
    int fd = memfd_create("bytes", 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    snprintf(line, sizeof(line), "t adds_late -s bytes:%s --no-files", path);
    EXPECT_EQ(run_main(line), 0); /* without a byte one adds after the other */
    EXPECT(says("no failure in 1 run "));
    for (int byte = 0; byte < 100; byte++)
        EXPECT_EQ(write(fd, &byte, 1), 1);
    EXPECT_EQ(run_main(line), 1);
    EXPECT(says("FAIL  adds_late: assert"));
    EXPECT(says(path)); /* how to see it again */
    snprintf(line, sizeof(line), "t adds_late -s bytes:%s --json --no-files", path);
    EXPECT_EQ(run_main(line), 1);
    EXPECT(says("\"strategy\":\"bytes:/"));
    EXPECT(says("\"runs\":1,"));
    close(fd);
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
    EXPECT_EQ(run_main("t adds_late --no-files"), 1);
    const unsigned long long first = number_behind("found:    in run ");
    EXPECT_GT(first, 0);
    EXPECT_EQ(run_main("t adds_late -k --no-files"), 1);
    EXPECT(says(" of 500 runs fail, the first by assert\n"));
    EXPECT_EQ(number_behind("found:    in run "), first);
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
                                        "t --regress /nowhere", "t -s what",
                                        "t -s bytes:/nowhere"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        EXPECT_EQ(run_main(lines[i]), 2);
        EXPECT_STR(main_out, "");
        EXPECT(strncmp(main_err, "t: ", 3) == 0);
        EXPECT_PTR(strchr(main_err, '\n'), main_err + strlen(main_err) - 1);
    }
    EXPECT_EQ(run_main("t has_a_wrong_config"), 2);
    EXPECT(says("could not run"));
}

KIN_LAB(is_deep, .strategy = KIN_LAB_PCT, .depth = 1000000)
{
    return 0;
}

KIN_LAB(has_no_file, .strategy = KIN_LAB_REPLAY)
{
    return 0;
}

KIN_LAB(has_no_time, .time_max = -1)
{
    return 0;
}

KIN_TEST(a_wrong_config_is_named, "")
{
    EXPECT_EQ(run_main("t is_deep --no-files"), 2);
    EXPECT(says("could not run: its .depth is more than 32 (-22)"));
    EXPECT_EQ(run_main("t has_no_file --no-files"), 2);
    EXPECT(says("its .strategy is KIN_LAB_REPLAY, and there is no .replay_file"));
    EXPECT_EQ(run_main("t has_no_time --no-files"), 2);
    EXPECT(says("its .time_max is negative"));
}

KIN_LAB(does_nothing)
{
    return 0;
}

KIN_TEST(a_test_that_does_nothing_passes_in_every_way, "")
{
    static const char *const ways[] = {"",       "-s auto", "-s rr",           "-s random",
                                       "-s pct", "-s urw",  "-s dpor",         "-s dfs:3",
                                       "-j4",    "-n 1",    "-s bytes:/dev/null",
                                       "--seeds 1..3 -j2",  "--sweep all",     "-t 1ns",
                                       "-s random -t 20ms", "--seed 18446744073709551615"};
    char line[128];
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        snprintf(line, sizeof(line), "t does_nothing --no-files %s", ways[i]);
        EXPECT_EQ(run_main(line), 0);
        EXPECT(says("1 test: 1 passed"));
        EXPECT(!says(" 0 runs"));
    }
}

KIN_TEST(the_longest_time_is_no_time_at_all, "")
{
    EXPECT_EQ(run_main("t does_nothing --dpor --time 438000h --no-files"), 0);
    EXPECT(says("complete: all 1 schedule passes"));
}

/* Parts of a range are of what is drawn; a search would be made again by each. */
KIN_TEST(a_search_is_not_dealt_out_with_seeds, "")
{
    EXPECT_EQ(run_main("t does_nothing --dpor --seeds 1..1000 -j4 --no-files"), 0);
    EXPECT(says("; 1 run in "));
    EXPECT_EQ(run_main("t does_nothing -s random --seeds 1..1000 -j4 --no-files"), 0);
    EXPECT(says("; 1,000 runs in "));
    EXPECT_EQ(run_main("t does_nothing -s random --seeds 1..18446744073709551615 -j3 -t 10ms "
                       "--no-files"), 0);
    EXPECT(says("1 test: 1 passed"));
}

KIN_TEST(help_and_version, "")
{
    EXPECT_EQ(run_main("t --help"), 0);
    EXPECT(says("usage: t [options] [test ...]"));
    EXPECT(says("could not be written.\n")); /* to its end */
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

/* Runs a line with its output on a device that is always full; what main returns. */
static int run_full(const char *line)
{
    int status = 0, pipes[2];
    ssize_t size = 0, part = 1;
    fflush(stdout);
    EXPECT_EQ(pipe(pipes), 0);
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        static char words[256], *argv[16];
        int argc = 0;
        snprintf(words, sizeof(words), "%s", line);
        for (char *word = strtok(words, " "); word && argc < 15; word = strtok(NULL, " "))
            argv[argc++] = word;
        int full = open("/dev/full", O_WRONLY);
        bool is_good = full >= 0 && dup2(full, STDOUT_FILENO) >= 0 &&
                       dup2(pipes[1], STDERR_FILENO) >= 0;
        _exit(is_good ? kin_lab_main(argc, argv) : 99);
    }
    close(pipes[1]);
    for (; part > 0; size += part > 0 ? part : 0)
        part = read(pipes[0], main_err + size, sizeof(main_err) - 1 - (size_t)size);
    main_err[size] = '\0';
    close(pipes[0]);
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    fputs(main_err, stdout);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

KIN_TEST(what_cannot_be_printed_is_a_failure, "")
{
    static const char *const lines[] = {"t adds_at", "t adds_at --json", "t adds_at without -j2",
                                        "t --list",  "t --help",         "t --version"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        EXPECT_EQ(run_full(lines[i]), 2);
        EXPECT_STR(main_err,
                   "t: standard output cannot be written: no space is left on the device\n");
    }
    EXPECT_EQ(run_full("t adds_late --no-files"), 1);
    EXPECT(strstr(main_err, "cannot be written") != NULL);
    EXPECT_EQ(run_full("t -q adds_at"), 0); /* nothing is to be said */
    EXPECT_STR(main_err, "");
}

KIN_TEST(a_break_without_a_debugger_is_announced, "")
{
    char status[4096] = "";
    int fd = open("/proc/self/status", O_RDONLY);
    if (fd < 0 || read(fd, status, sizeof(status) - 1) <= 0 ||
        !strstr(status, "TracerPid:\t0\n"))
        KIN_SKIP("somebody traces this test, or nobody can tell");
    close(fd);
    EXPECT_EQ(run_full("t adds_late --no-files --break-at 2"), -SIGTRAP);
    EXPECT(strstr(main_err, "t: --break-at: there is no debugger: SIGTRAP in step 2 ends") != NULL);
}

KIN_TEST(a_failure_of_a_search_can_be_seen_again_without_a_file, "")
{
    EXPECT_EQ(run_main("./t sums_wrong --no-files"), 1);
    EXPECT(says("replay:   ./t sums_wrong -s dpor\n"));
    EXPECT_EQ(run_main("t sums_wrong --json --report-dir /proc/no/such/place"), 1);
    EXPECT(says(",\"unwritten\":\"/proc/no/such/place cannot be written: "));
}

KIN_TEST(what_does_not_repeat_itself_has_no_replay, "")
{
    char directory[] = "/tmp/kin_main_XXXXXX", line[128];
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    snprintf(line, sizeof(line), "t remembers -e --report-dir %s", directory);
    EXPECT_EQ(run_main(line), 1);
    snprintf(line, sizeof(line), "rm -r %s", directory);
    EXPECT_EQ(system(line), 0);
    EXPECT(says("FAIL  remembers: nondeterminism"));
    EXPECT(says("replay:   no schedule repeats this: "));
    EXPECT(says("explain:  no schedule repeats this failure"));
    EXPECT(!says(".kinlab"));
}
