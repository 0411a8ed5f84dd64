/* SPDX-License-Identifier: MIT */
/*
 * Tests of the test framework: it must see a failure, a crash, a hang, an early exit and a skip.
 *
 * Method: a list of samples that end in every way is run by kin_test_main in a forked process,
 * whose output and exit status are then read. A framework that calls everything "ok" fails here.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "kin_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char output[16384]; /* what the run of samples printed */
static int status;         /* how it exited */

/* Runs the samples whose name contains filter. */
static void run_samples(struct kin_test *samples, size_t count, const char *filter)
{
    char program[] = "samples", filter_copy[64];
    char *argv[] = {program, filter_copy, NULL};
    const int fd = memfd_create("samples", 0);

    for (size_t i = 0; i < count; i++)
        samples[i].next = i + 1 < count ? &samples[i + 1] : NULL;
    snprintf(filter_copy, sizeof filter_copy, "%s", filter);
    EXPECT_GE(fd, 0);
    fflush(stdout);
    const pid_t child = fork();
    EXPECT_GE(child, 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        dup2(fd, STDOUT_FILENO);
        _exit(kin_test_main(2, argv, samples));
    }
    int ended = 0;
    EXPECT_EQ(waitpid(child, &ended, 0), child);
    EXPECT(WIFEXITED(ended));
    status = WEXITSTATUS(ended);
    const ssize_t got = pread(fd, output, sizeof output - 1, 0);
    EXPECT_GT(got, 0);
    output[got] = 0;
    close(fd);
    printf("%s", output);
}

static void expect_printed(const char *text)
{
    if (!strstr(output, text))
        kin_test_fail(__FILE__, __LINE__, "expected in the output of the samples: ", text);
}

/* ---- samples ---- */

static void passes(void)
{
    EXPECT(1 + 1 == 2);
    EXPECT_EQ(UINT64_MAX, UINT64_MAX);
    EXPECT_NE(UINT64_MAX, -1);
    EXPECT_LT(-1, 1u);
    EXPECT_STR("a", "a");
    EXPECT_STR((const char *)NULL, NULL);
    EXPECT_PTR(output, output);
}
static void fails(void)
{
    printf("said before the failure\n");
    EXPECT(1 + 1 == 3);
}
static void fails_eq(void)
{
    EXPECT_EQ(2 + 3, 6);
}
static void fails_wide(void)
{
    EXPECT_EQ(UINT64_MAX, -1);
}
static void fails_str(void)
{
    EXPECT_STR("left", "right");
}
static void fails_null(void)
{
    EXPECT_STR((const char *)NULL, "right");
}
static void fails_ptr(void)
{
    EXPECT_PTR(output, NULL);
}
static void *thread_that_fails(void *arg)
{
    EXPECT_GE(1, 2);
    return arg;
}
static void fails_in_thread(void)
{
    pthread_t thread;

    EXPECT_EQ(pthread_create(&thread, NULL, thread_that_fails, NULL), 0);
    pthread_join(thread, NULL);
}
static void skips(void)
{
    KIN_SKIP("no such device");
}
static void crashes(void)
{
    signal(SIGSEGV, SIG_DFL); /* a sanitizer may have put its own handler there */
    raise(SIGSEGV);
}
static void hangs(void)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (;;)
        pause();
}
static void exits(void)
{
    exit(0);
}
static void fail_at_exit(void)
{
    _exit(23);
}
static void fails_at_exit(void)
{
    atexit(fail_at_exit);
}
static void aborts_as_expected(void)
{
    EXPECT_ABORT ("the word") {
        fprintf(stderr, "here is the word\n");
        abort();
    }
}
static void aborts_without_pattern(void)
{
    EXPECT_ABORT ("the word") {
        fprintf(stderr, "something else\n");
        abort();
    }
}
static void does_not_abort(void)
{
    EXPECT_ABORT ("the word") {
        fprintf(stderr, "the word\n");
    }
}
static void prints_seed(void)
{
    printf("seed is %llu\n", (unsigned long long)kin_test_seed());
    EXPECT_EQ(1, 2);
}

static void heeds_a_signal(void)
{
    raise(SIGHUP);
}

static char room[] = "/tmp/kin-samples-XXXXXX";

/* Makes a directory with a file in it, and a file, and removes nothing. */
static void make_files(void)
{
    char directory[64], path[80], file[64];

    snprintf(directory, sizeof directory, "%s/XXXXXX", room);
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/inside", directory);
    FILE *inside = fopen(path, "w");
    EXPECT(inside != NULL);
    EXPECT_EQ(fclose(inside), 0);
    snprintf(file, sizeof file, "%s/XXXXXX", room);
    EXPECT_GE(kin_test_mkstemp(file), 0);
}
static void leaves_well(void)
{
    make_files();
}
static void leaves_badly(void)
{
    make_files();
    EXPECT(false);
}
static void leaves_killed(void)
{
    make_files();
    raise(SIGKILL);
}
static void leaves_never(void)
{
    make_files();
    hangs();
}

#define SAMPLE(name, seconds)                                                                      \
    {                                                                                              \
#name, "", __FILE__, __LINE__, seconds, name, NULL                                         \
    }
static struct kin_test samples[] = {
    SAMPLE(passes, 60),
    SAMPLE(fails, 60),
    SAMPLE(fails_eq, 60),
    SAMPLE(fails_wide, 60),
    SAMPLE(fails_str, 60),
    SAMPLE(fails_null, 60),
    SAMPLE(fails_ptr, 60),
    SAMPLE(fails_in_thread, 60),
    SAMPLE(skips, 60),
    SAMPLE(crashes, 60),
    SAMPLE(hangs, 1),
    SAMPLE(exits, 60),
    SAMPLE(fails_at_exit, 60),
    SAMPLE(aborts_as_expected, 60),
    SAMPLE(aborts_without_pattern, 60),
    SAMPLE(does_not_abort, 60),
    SAMPLE(prints_seed, 60),
    SAMPLE(heeds_a_signal, 60),
    SAMPLE(leaves_well, 60),
    SAMPLE(leaves_badly, 60),
    SAMPLE(leaves_killed, 60),
    SAMPLE(leaves_never, 1),
};
static const size_t sample_count = sizeof samples / sizeof *samples;

/* ---- tests ---- */

KIN_TEST(a_passing_test_is_ok, "")
{
    run_samples(samples, sample_count, "passes");
    EXPECT_STR(output, "ok   passes\nsamples: 1 passed, 0 failed, 0 skipped\n");
    EXPECT_EQ(status, 0);
}

KIN_TEST(a_failing_expectation_is_seen_with_its_values_and_output, "")
{
    run_samples(samples, sample_count, "fails");
    expect_printed("FAIL fails ");
    expect_printed("EXPECT(1 + 1 == 3)");
    expect_printed("| said before the failure");
    expect_printed("EXPECT_EQ(2 + 3, 6)\n        actual:   5 (0x5)\n        expected: 6 (0x6)");
    expect_printed("actual:   18446744073709551615 (0xffffffffffffffff)\n");
    expect_printed("expected: -1 (0xffffffffffffffff)\n");
    expect_printed("actual:   \"left\"\n        expected: \"right\"");
    expect_printed("actual:   (null)\n        expected: \"right\"");
    expect_printed("EXPECT_PTR(output, NULL)");
    expect_printed("EXPECT_GE(1, 2)");
    expect_printed("FAIL fails_at_exit exit status 23 after its body returned");
    expect_printed("samples: 0 passed, 8 failed, 0 skipped\n");
    EXPECT_EQ(status, 1);
}

KIN_TEST(a_skip_is_counted_as_such, "")
{
    run_samples(samples, sample_count, "skips");
    EXPECT_STR(output, "skip skips no such device\nsamples: 0 passed, 0 failed, 1 skipped\n");
    EXPECT_EQ(status, 0);
}

KIN_TEST(a_crash_is_a_failure, "")
{
    run_samples(samples, sample_count, "crashes");
    expect_printed("FAIL crashes killed by signal 11");
    expect_printed("samples: 0 passed, 1 failed, 0 skipped\n");
    EXPECT_EQ(status, 1);
}

KIN_TEST(signals_that_the_starter_ignores_are_heeded, "")
{
    signal(SIGHUP, SIG_IGN);
    run_samples(samples, sample_count, "heeds");
    expect_printed("FAIL heeds_a_signal killed by signal 1");
    EXPECT_EQ(status, 1);
}

KIN_TEST(a_hang_with_all_signals_blocked_is_ended_by_the_alarm, "")
{
    run_samples(samples, sample_count, "hangs");
    expect_printed("FAIL hangs still running after ");
    EXPECT_EQ(status, 1);
}

KIN_TEST(files_of_a_test_go_with_it_however_it_ends, "")
{
    EXPECT(kin_test_mkdtemp(room) != NULL);
    run_samples(samples, sample_count, "leaves");
    expect_printed("samples: 1 passed, 3 failed, 0 skipped\n");
    EXPECT_EQ(rmdir(room), 0); /* it is empty */
}

KIN_TEST(a_test_that_exits_by_itself_has_failed, "")
{
    run_samples(samples, sample_count, "exits");
    expect_printed("FAIL exits ended its process with status 0");
    EXPECT_EQ(status, 1);
}

KIN_TEST(an_expected_abort_needs_the_abort_and_the_pattern, "")
{
    run_samples(samples, sample_count, "abort");
    expect_printed("ok   aborts_as_expected\n");
    expect_printed("FAIL aborts_without_pattern ");
    expect_printed("it aborted, but without the pattern");
    expect_printed("FAIL does_not_abort ");
    expect_printed("the block ran to its end");
    expect_printed("samples: 1 passed, 2 failed, 0 skipped\n");
    EXPECT_EQ(status, 1);
}

KIN_TEST(a_given_seed_reaches_the_test_and_is_printed, "")
{
    setenv("KIN_SEED", "4711", 1);
    run_samples(samples, sample_count, "prints_seed");
    expect_printed("| seed is 4711\n");
    expect_printed("KIN_SEED=0x1267");
}

KIN_TEST(the_scale_is_at_least_one, "")
{
    unsetenv("KIN_TEST_SCALE");
    EXPECT_EQ(kin_test_scale(), 1);
    setenv("KIN_TEST_SCALE", "0", 1);
    EXPECT_EQ(kin_test_scale(), 1);
    setenv("KIN_TEST_SCALE", "20", 1);
    EXPECT_EQ(kin_test_scale(), 20);
}
