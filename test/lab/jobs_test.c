/* SPDX-License-Identifier: MIT */
/*
 * Tests in several processes: told in order, counted together, and a death is a failure.
 */
#include "kin_test.h"

#include "run_main.h"

#include <kin/kin.h>

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#define PASSES(name)                                                                               \
    KIN_LAB(name, .strategy = KIN_LAB_ROUND_ROBIN)                                                 \
    {                                                                                              \
        return 0;                                                                                  \
    }

PASSES(job_a)
PASSES(job_b)
PASSES(job_c)
PASSES(job_d)
PASSES(job_e)

KIN_LAB(fails, .strategy = KIN_LAB_ROUND_ROBIN)
{
    kin_lab_assert(false, "never");
    return 0;
}

KIN_LAB(dies, .strategy = KIN_LAB_ROUND_ROBIN)
{
    (void)raise(SIGKILL);
    return 0;
}

static int tells[2]; /* a pipe from the tests below */

KIN_LAB(stays, .strategy = KIN_LAB_ROUND_ROBIN)
{
    pid_t self = getpid();
    while (write(tells[1], &self, sizeof(self)) != (ssize_t)sizeof(self)) /* ends: there is room */
        continue;
    for (;;) /* ends: it is killed, or taken for a hang */
        (void)pause();
    return 0;
}

static bool says(const char *text)
{
    return strstr(main_out, text) != NULL;
}

KIN_TEST(jobs_are_told_in_the_order_of_the_tests, "")
{
    EXPECT_EQ(run_main("t job_ -j 3"), 0);
    const char *at = main_out;
    for (char c = 'a'; c <= 'e'; c++) {
        char name[8] = "job_x ";
        name[4] = c;
        at = strstr(at, name);
        EXPECT(at != NULL);
    }
    EXPECT(says("5 tests: 5 passed"));
}

KIN_TEST(a_failure_in_a_job_is_told_and_counted, "")
{
    EXPECT_EQ(run_main("t job_a fails job_b -j2 --no-files"), 1);
    EXPECT(says("FAIL  fails: assert"));
    EXPECT(says("3 tests: 2 passed (0 completely), 1 failed"));
}

KIN_TEST(a_death_is_a_failure_and_the_others_go_on, "")
{
    EXPECT_EQ(run_main("t job_a dies job_b -j2 --no-files"), 1);
    EXPECT(says("FAIL  dies: the process died of signal 9"));
    EXPECT(says("ok    job_b"));
    EXPECT(says("3 tests: 2 passed (0 completely), 1 failed"));
}

KIN_TEST(a_range_of_seeds_is_shared, "")
{
    EXPECT_EQ(run_main("t job_a -s random --seeds 1..100 -j4"), 0);
    EXPECT(says("1 test: 1 passed (0 completely), 0 failed; 100 runs in "));
    EXPECT_EQ(run_main("t job_a -s random --seeds 1..7 -j4 --json"), 0);
    unsigned lines = 0;
    for (const char *at = main_out; (at = strchr(at, '\n')); at++)
        lines++;
    EXPECT_EQ(lines, 4);
}

KIN_TEST(no_job_outlives_the_one_that_started_it, "")
{
    pid_t job = 0;
    char byte;
    EXPECT_EQ(pipe(tells), 0);
    pid_t parent = fork();
    EXPECT(parent >= 0);
    if (parent == 0)
        _exit(run_main("t stays -j2") + 10);
    close(tells[1]);
    EXPECT_EQ(read(tells[0], &job, sizeof(job)), (ssize_t)sizeof(job));
    EXPECT_NE(job, parent);
    EXPECT_EQ(kill(parent, SIGKILL), 0);
    EXPECT_EQ(waitpid(parent, NULL, 0), parent);
    struct pollfd end = {.fd = tells[0], .events = POLLIN};
    if (poll(&end, 1, 8000) != 1) /* the end comes when nobody is left who could write */
        (void)kill(job, SIGKILL);
    else
        job = 0;
    EXPECT_EQ(job, 0);
    EXPECT_EQ(read(tells[0], &byte, 1), 0);
}
