/* SPDX-License-Identifier: MIT */
/*
 * What the lab sees of a program that is compiled with -D_FORTIFY_SOURCE: the same as without.
 *
 * Sizes are not constants, so that the compiler calls the checked functions.
 */
#ifndef KIN_TEST_LAB_FORTIFY_H
#define KIN_TEST_LAB_FORTIFY_H

#include "lab/in_lab.h"
#include "plat/context.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static volatile size_t asked;

static int use_pipe(void *arg)
{
    int ends[2];
    char buf[64] = "", host[16] = "", random[16];
    struct timespec now, later;
    (void)arg;
    KIN_LAB_OK(pipe(ends));
    KIN_LAB_OK(kin_write(ends[1], "hello", 5, NULL, KIN_NEVER));
    asked = sizeof buf;
    kin_lab_assert(read(ends[0], buf, asked) == 5 && strcmp(buf, "hello") == 0, "read");
    asked = sizeof host;
    kin_lab_assert(gethostname(host, asked) == 0 && strcmp(host, "lab") == 0, "gethostname");
    asked = sizeof random;
    kin_lab_assert(getrandom(random, asked, 0) == sizeof random, "getrandom");
    kin_lab_assert(timespec_get(&now, TIME_UTC) == TIME_UTC, "timespec_get");
    KIN_LAB_OK(kin_sleep(kin_after(KIN_SEC(100))));
    kin_lab_assert(timespec_get(&later, TIME_UTC) == TIME_UTC, "timespec_get");
    kin_lab_assert(later.tv_sec == now.tv_sec + 100, "the calendar is virtual");
    kin_lab_assert(close(ends[0]) == 0 && close(ends[1]) == 0, "close");
    return 0;
}

KIN_TEST(checked_functions_are_the_lab_s, "")
{
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, use_pipe, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 5, use_pipe, NULL), 0);
}

KIN_TEST(outside_checked_functions_are_the_system_s, "")
{
    int ends[2];
    char buf[8] = "", host[256] = "";
    EXPECT_EQ(pipe(ends), 0);
    EXPECT_EQ(write(ends[1], "hi", 2), 2);
    asked = sizeof buf;
    EXPECT_EQ(read(ends[0], buf, asked), 2);
    EXPECT_STR(buf, "hi");
    asked = sizeof host;
    EXPECT_EQ(gethostname(host, asked), 0);
    EXPECT_NE(host[0], 0);
    close(ends[0]);
    close(ends[1]);
}

#if defined(__OPTIMIZE__) && !KIN__ASAN /* which looks at sizes itself */
KIN_TEST(a_buffer_that_is_too_small_is_still_seen, "")
{
    char buf[8];
    asked = sizeof buf + 1;
    EXPECT_ABORT("buffer overflow detected")
    {
        kin_ignore((int)read(0, buf, asked));
    }
}
#endif

#endif
