/* SPDX-License-Identifier: MIT */
/*
 * Runs that take the process with them: what is told before, the file of the schedule, and that a
 * replay of it dies in the same place.
 */
#include "kin_test.h"

#include "lab/report.h"
#include "plat/context.h"
#include "run_child.h"

#include <kin/kin.h>

static int *volatile nowhere;
static int volatile is_set;

/* ---- the program ---- */

static int touch_when_set(void *arg)
{
    (void)arg;
    kin_ignore(kin_yield());
    if (KIN_SHARED(is_set))
        *nowhere = 1; /* here */
    return 0;
}

static int set_it(void *arg)
{
    (void)arg;
    KIN_SHARED(is_set) = 1;
    return 0;
}

/* Dies in some orders of the two, and not in the first. */
KIN_LAB(touches_nothing, .strategy = KIN_LAB_DPOR)
{
    is_set = 0;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, touch_when_set, NULL));
    KIN_LAB_OK(kin_spawn(&n, set_it, NULL));
    return kin_nursery_join(&n, NULL);
}

KIN_LAB(aborts, .strategy = KIN_LAB_RANDOM, .seed = 7)
{
    kin_ignore(kin_yield());
    abort();
}

KIN_LAB(passes, .strategy = KIN_LAB_ROUND_ROBIN)
{
    return 0;
}

KIN_LAB(yields_once, .strategy = KIN_LAB_ROUND_ROBIN)
{
    return kin_yield();
}

KIN_LAB(exits, .strategy = KIN_LAB_ROUND_ROBIN)
{
    kin_ignore(kin_yield());
    exit(0);
}

/* ---- its ends ---- */

/* Sanitizers have handlers for faults of their own, which stay. */
static void need_faults(void)
{
    struct sigaction now;
    EXPECT_EQ(sigaction(SIGSEGV, NULL, &now), 0);
    if (now.sa_handler != SIG_DFL)
        KIN_SKIP("a fault is somebody else's here");
}

KIN_TEST(a_crash_is_told_with_its_schedule_and_comes_again, "")
{
    char line[128];
    need_faults();
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    snprintf(line, sizeof(line), "t touches --report-dir %s", directory);
    run_child(line, NULL);
    EXPECT(died_of(SIGSEGV));
    EXPECT(says("FAIL  touches_nothing: crash, root/0"));
    EXPECT(says("segmentation fault (SIGSEGV), address 0x0, at "));
    EXPECT(says("strategy dpor"));
    run_child(replay_line(), NULL);
    EXPECT(died_of(SIGSEGV));
    EXPECT(says("FAIL  touches_nothing: crash, root/0"));
    EXPECT(says("the same end"));
    EXPECT(says("<-- here")); /* and everybody's steps before it */
    remove_directory();
}

KIN_TEST(an_abort_is_a_crash, "")
{
    run_child("t aborts --no-files", NULL);
    EXPECT(died_of(SIGABRT));
    EXPECT(says("FAIL  aborts: crash, root"));
    EXPECT(says("abort (SIGABRT)"));
    EXPECT(says("found:    in run 1 "));
    EXPECT(says("--seed 7"));
    run_child("t aborts --no-files --json", NULL);
    EXPECT(says("\"test\":\"aborts\",\"verdict\":\"fail\""));
    EXPECT(says("\"oracle\":\"crash\""));
}

KIN_TEST(a_crash_in_a_job_is_told_and_the_others_go_on, "")
{
    EXPECT_EQ(run_main("t aborts passes -j2 --no-files"), 1);
    EXPECT(says("FAIL  aborts: crash, root"));
    EXPECT(says("FAIL  aborts: the process died of signal 6"));
    EXPECT(says("ok    passes"));
    EXPECT(says("2 tests: 1 passed (0 completely), 1 failed"));
}

/* A schedule in the directory; root does both steps that a test of one task has. */
static void write_schedule(const char *name, const char *test, const char *more)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s.kinlab", directory, name);
    FILE *file = fopen(path, "w");
    EXPECT(file != NULL);
    fprintf(file, "kinlab 1\ntest %s\nseed 0x7\n%ssched root:2\nend\n", test, more);
    EXPECT_EQ(fclose(file), 0);
}

KIN_TEST(a_crash_in_a_regression_file_is_its_failure_and_the_others_go_on, "")
{
    char line[128];
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    write_schedule("a", "yields_once", "");
    write_schedule("b", "aborts", "");
    write_schedule("c", "yields_once", "");
    write_schedule("d", "aborts", "");
    write_schedule("e", "exits", "");
    write_schedule("f", "yields_once", "");
    snprintf(line, sizeof(line), "t --regress %s --no-files", directory);
    run_child(line, NULL);
    EXPECT(WIFEXITED(how) && WEXITSTATUS(how) == 1);
    EXPECT(says("FAIL  aborts: crash, root"));
    EXPECT(says("/b.kinlab: the process died of signal 6"));
    EXPECT(says("/d.kinlab: the process died of signal 6"));
    EXPECT(says("/e.kinlab: the process ended with status 1"));
    EXPECT(says("6 regression files: 3 as expected, 3 not; "));
    write_schedule("b", "aborts", "known issue 7\n");
    write_schedule("d", "aborts", "known issue 8\n");
    write_schedule("e", "yields_once", "");
    run_child(line, NULL);
    EXPECT(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    EXPECT(!says("FAIL"));
    EXPECT(says("6 regression files: 6 as expected, 0 not; "));
    remove_directory();
}

/* ---- by kin_lab_run ---- */

static int divide(void *arg)
{
    (void)arg;
    return raise(SIGFPE);
}

static void run_divide(void)
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    (void)signal(SIGFPE, SIG_DFL);
    kin_ignore(kin_lab_run(&config, divide, NULL, NULL));
}

KIN_TEST(a_crash_under_kin_lab_run_is_told_on_the_standard_error, "")
{
    run_child(NULL, run_divide);
    EXPECT(died_of(SIGFPE));
    EXPECT(says("FAIL  test: crash, root"));
    EXPECT(says("arithmetic error (SIGFPE)"));
}

/* A report that dies itself. */
static void die_again(const struct kin_lab_report *of)
{
    (void)of;
    abort();
}

static void run_twice(void)
{
    kin__lab_wish.died = die_again;
    run_divide();
}

KIN_TEST(a_crash_in_the_report_of_a_crash_is_told_in_a_line, "")
{
    run_child(NULL, run_twice);
    EXPECT(died_of(SIGABRT));
    /* an emulator has a word of its own behind it */
    EXPECT(strstr(main_out, "FAIL  test: abort (SIGABRT), and there is no telling more\n") ==
           main_out);
    EXPECT(strstr(main_out + 1, "FAIL") == NULL);
}

static int loop(void *arg)
{
    volatile int *turns = arg;
    kin_ignore(kin_yield());
    for (;;) /* ends: by the signal that this test is about */
        (*turns)++;
    return 0;
}

static void run_loop(void)
{
    static int turns;
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    kin__lab_wish.patience = INT64_C(300000000);
    kin_ignore(kin_lab_run(&config, loop, &turns, NULL));
}

KIN_TEST(a_step_that_does_not_end_is_told, "")
{
    if (KIN__TSAN)
        KIN_SKIP("the thread sanitizer keeps signals back from such a step");
    run_child(NULL, run_loop);
    EXPECT(died_of(SIGABRT));
    EXPECT(says("FAIL  test: hang, root"));
    EXPECT(says("the step does not end, at "));
}

static int yield_a_little(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++)
        kin_ignore(kin_yield());
    return 0;
}

KIN_TEST(steps_that_end_are_no_hang_however_many, "")
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    struct kin_lab_report report;
    config.strategy = KIN_LAB_RANDOM;
    kin__lab_wish.patience = INT64_C(100000000);
    kin__lab_wish.wall_max = INT64_C(300000000);
    EXPECT_EQ(kin_lab_run(&config, yield_a_little, NULL, &report), 0);
    EXPECT_GT(report.executions, 1);
}

KIN_TEST(handlers_are_put_back, "")
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGVTALRM};
    struct sigaction before, after;
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
        EXPECT_EQ(sigaction(signals[i], NULL, &before), 0);
        EXPECT_EQ(run_main("t passes"), 0);
        EXPECT_EQ(sigaction(signals[i], NULL, &after), 0);
        EXPECT(before.sa_handler == after.sa_handler);
    }
}
