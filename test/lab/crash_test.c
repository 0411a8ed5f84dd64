/* SPDX-License-Identifier: MIT */
/*
 * Crashes and hangs that are made small: by how much, that they are told once and come again, and
 * what is said of those that cannot be.
 */
#include "kin_test.h"

#include "plat/context.h"
#include "plat/plat.h"
#include "run_child.h"

#include <kin/kin.h>

#include <poll.h>

static int volatile is_set;

/* ---- the program ---- */

static int abort_when_set(void *arg)
{
    (void)arg;
    kin_ignore(kin_yield());
    if (KIN_SHARED(is_set) == 2)
        abort();
    KIN_SHARED(is_set) = 1;
    return 0;
}

static int set_when_set(void *arg)
{
    (void)arg;
    kin_ignore(kin_yield());
    if (KIN_SHARED(is_set) == 1)
        KIN_SHARED(is_set) = 2;
    return 0;
}

static int do_much(void *arg)
{
    int *sum = arg;
    for (int i = 0; i < 20; i++)
        KIN_SHARED(*sum)++;
    return 0;
}

/* Dies only where three of five tasks go on in one order; the other two are in the way. */
KIN_LAB(dies_rarely, .strategy = KIN_LAB_RANDOM, .executions_max = 100000)
{
    int sum = 0;
    is_set = 0;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, do_much, &sum));
    KIN_LAB_OK(kin_spawn(&n, abort_when_set, NULL));
    KIN_LAB_OK(kin_spawn(&n, set_when_set, NULL));
    KIN_LAB_OK(kin_spawn(&n, abort_when_set, NULL));
    KIN_LAB_OK(kin_spawn(&n, do_much, &sum));
    return kin_nursery_join(&n, NULL);
}

static int loop_when_set(void *arg)
{
    volatile int *turns = arg;
    kin_ignore(kin_yield());
    while (KIN_SHARED(is_set) == 2)
        for (;;) /* ends: the process does */
            (*turns)++;
    KIN_SHARED(is_set) = 1;
    return 0;
}

/* The same with an end that does not come. */
KIN_LAB(hangs_rarely, .strategy = KIN_LAB_RANDOM, .executions_max = 100000)
{
    static int turns;
    int sum = 0;
    is_set = 0;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, do_much, &sum));
    KIN_LAB_OK(kin_spawn(&n, loop_when_set, &turns));
    KIN_LAB_OK(kin_spawn(&n, set_when_set, NULL));
    KIN_LAB_OK(kin_spawn(&n, loop_when_set, &turns));
    return kin_nursery_join(&n, NULL);
}

static int runs_before; /* in the memory of one process */

/* Dies of what the runs before have left: from the beginning no schedule does it. */
KIN_LAB(dies_late, .strategy = KIN_LAB_RANDOM, .executions_max = 100)
{
    if (++runs_before == 20)
        abort();
    return kin_yield();
}

static pid_t finder; /* the process that finds a crash, and not one that tries to repeat it */

__attribute__((noinline)) static void die_there(void)
{
    (void)raise(SIGABRT);
}

__attribute__((noinline)) static void die_here(void)
{
    (void)raise(SIGABRT);
}

static int abort_elsewhere(void *arg)
{
    (void)arg;
    kin_ignore(kin_yield());
    if (getpid() != finder)
        die_there();
    kin_ignore(kin_yield());
    die_here();
    return 0;
}

KIN_LAB(dies_elsewhere, .strategy = KIN_LAB_RANDOM)
{
    int sum = 0;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, do_much, &sum));
    KIN_LAB_OK(kin_spawn(&n, abort_elsewhere, NULL));
    return kin_nursery_join(&n, NULL);
}

/* Waits for something that never comes, in the process that finds it; in all others too, but not
 * for long. */
static int wait_for_nothing(void *arg)
{
    (void)arg;
    kin_ignore(kin_yield());
    for (int i = 0; getpid() == finder || i < 5; i++) /* ends: the process does, or half a second */
        (void)poll(NULL, 0, 100);
    return 0;
}

KIN_LAB(seems_to_hang, .strategy = KIN_LAB_ROUND_ROBIN)
{
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, wait_for_nothing, NULL));
    return kin_nursery_join(&n, NULL);
}

static int loop_elsewhere(void *arg)
{
    (void)arg;
    kin_ignore(kin_yield());
    while (getpid() != finder) /* ends: the process does */
        (void)pause();
    abort();
}

KIN_LAB(hangs_elsewhere, .strategy = KIN_LAB_RANDOM)
{
    int sum = 0;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, do_much, &sum));
    KIN_LAB_OK(kin_spawn(&n, loop_elsewhere, NULL));
    return kin_nursery_join(&n, NULL);
}

/* ---- its ends ---- */

static void find_elsewhere(void)
{
    finder = getpid();
    _exit(call_main("t dies_elsewhere --no-files"));
}

static void find_seeming(void)
{
    finder = getpid();
    _exit(call_main("t seems_to_hang --no-files --patience 1s"));
}

#if !KIN__ASAN && !KIN__TSAN
static void find_hanging(void)
{
    finder = getpid();
    _exit(call_main("t hangs_elsewhere --no-files"));
}
#endif

/* The numbers in "shrunk from 40 switches to 3". */
static void read_switches(unsigned *from, unsigned *to)
{
    const char *at = strstr(main_out, "; shrunk from ");
    EXPECT(at != NULL);
    EXPECT_EQ(sscanf(at, "; shrunk from %u switches to %u in ", from, to), 2);
}

KIN_TEST(a_crash_is_shrunk_and_told_with_who_did_what, "")
{
    char line[128];
    unsigned from = 0, to = 0;
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    snprintf(line, sizeof(line), "t dies_rarely --report-dir %s", directory);
    run_child(line, NULL);
    EXPECT(died_of(SIGABRT));
    EXPECT(says("FAIL  dies_rarely: crash, root/"));
    EXPECT(says("abort (SIGABRT), at crash_test.c:"));
    EXPECT(says("picture: "));
    EXPECT(says("<-- here"));
    read_switches(&from, &to);
    EXPECT_GT(from, 8);
    EXPECT_LE(to, 4);
    EXPECT(strstr(strstr(main_out, "FAIL") + 1, "FAIL ") == NULL); /* it is told once */
    run_child(replay_line(), NULL);
    EXPECT(died_of(SIGABRT));
    EXPECT(says("the same end"));
    remove_directory();
}

KIN_TEST(a_hang_is_shrunk_and_comes_again, "")
{
    char line[512];
    unsigned from = 0, to = 0;
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    snprintf(line, sizeof(line), "t hangs_rarely --patience 100ms --report-dir %s", directory);
    run_child(line, NULL);
    EXPECT(died_of(SIGABRT));
    EXPECT(says("FAIL  hangs_rarely: hang, root/"));
    EXPECT(says("the step does not end, at crash_test.c:"));
    EXPECT(says("<-- here"));
    read_switches(&from, &to);
    EXPECT_GT(from, to);
    EXPECT(strstr(strstr(main_out, "FAIL") + 1, "FAIL ") == NULL); /* it is told once */
    snprintf(line, sizeof(line), "%s --patience 100ms", replay_line());
    run_child(line, NULL);
    EXPECT(died_of(SIGABRT));
    EXPECT(says("the same end"));
    remove_directory();
}

KIN_TEST(what_only_seems_to_hang_in_a_try_is_told_as_it_was_found, "")
{
    run_child(NULL, find_seeming);
    EXPECT(died_of(SIGABRT));
    EXPECT(says("FAIL  seems_to_hang: hang, root/0"));
    EXPECT(!says("shrunk"));
}

KIN_TEST(a_crash_that_is_shrunk_has_one_line_of_json, "")
{
    run_child("t dies_rarely --no-files --json", NULL);
    EXPECT(died_of(SIGABRT));
    EXPECT(strstr(main_out, "{\"test\":\"dies_rarely\",\"verdict\":\"fail\"") == main_out);
    EXPECT(strchr(main_out, '\n') == main_out + strlen(main_out) - 1);
}

KIN_TEST(a_crash_that_does_not_come_again_is_told_as_it_was, "")
{
    run_child("t dies_late --no-files", NULL);
    EXPECT(died_of(SIGABRT));
    EXPECT(says("FAIL  dies_late: crash, root"));
    EXPECT(says("found:    in run "));
    EXPECT(!says("shrunk"));
}

KIN_TEST(a_crash_stays_as_it_is_where_that_is_wanted, "")
{
    run_child("t dies_rarely --no-files --no-shrink", NULL);
    EXPECT(died_of(SIGABRT));
    EXPECT(!says("shrunk"));
}

KIN_TEST(a_try_that_dies_in_another_place_is_not_the_same, "")
{
    run_child(NULL, find_elsewhere);
    EXPECT(died_of(SIGABRT));
    EXPECT(says("FAIL  dies_elsewhere: crash, root/1"));
    EXPECT(!says("die_there"));
    EXPECT(!says("shrunk"));
}

#if !KIN__ASAN && !KIN__TSAN /* where everything is slow a try has ten seconds */
KIN_TEST(tries_that_do_not_end_are_given_up, "")
{
    if (kin__is_under_valgrind())
        return;
    run_child(NULL, find_hanging);
    EXPECT(died_of(SIGABRT));
    EXPECT(says("FAIL  hangs_elsewhere: crash, root/1"));
    EXPECT(!says("shrunk"));
}
#endif

KIN_TEST(a_file_of_a_crash_is_shrunk, "")
{
    char line[512], file[256] = "";
    unsigned from = 0, to = 0;
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    snprintf(line, sizeof(line), "t dies_rarely --no-shrink --report-dir %s", directory);
    run_child(line, NULL);
    EXPECT_EQ(sscanf(replay_line(), "t --replay %255s", file), 1);
    snprintf(line, sizeof(line), "t --shrink %s --report-dir %s", file, directory);
    run_child(line, NULL);
    EXPECT(died_of(SIGABRT));
    read_switches(&from, &to);
    EXPECT_GT(from, to);
    EXPECT(!says("the file that is replayed"));
    remove_directory();
}

KIN_TEST(a_crash_in_a_job_is_shrunk_too, "")
{
    EXPECT_EQ(run_main("t dies_rarely dies_late -j2 --no-files"), 1);
    EXPECT(says("; shrunk from "));
    EXPECT(says("FAIL  dies_late: crash, root"));
    EXPECT(says("2 tests: 0 passed (0 completely), 2 failed"));
}
