/* SPDX-License-Identifier: MIT */
/*
 * The clock is the system's monotonic one and never runs backwards.
 */
#define _GNU_SOURCE 1
#include "kin_test.h"
#include "plat/plat.h"

#include <time.h>

static int64_t system_now(void)
{
    struct timespec now;

    EXPECT_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

KIN_TEST(the_clock_never_runs_backwards, "")
{
    int64_t before = kin__clock_now();

    for (int i = 0; i < 100000; i++) {
        int64_t now = kin__clock_now();
        EXPECT_GE(now, before);
        before = now;
    }
}

KIN_TEST(the_clock_is_the_monotonic_one, "")
{
    for (int i = 0; i < 1000; i++) {
        int64_t low = system_now();
        int64_t now = kin__clock_now();
        int64_t high = system_now();
        EXPECT_GE(now, low);
        EXPECT_LE(now, high);
    }
}

KIN_TEST(the_clock_moves, "")
{
    int64_t start = kin__clock_now();

    while (kin__clock_now() == start) /* ends: the alarm of the test at the latest */
        kin__thread_yield();
}
