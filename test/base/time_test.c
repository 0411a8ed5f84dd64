/* SPDX-License-Identifier: MIT */
/*
 * <kin/time.h>: the arithmetic of durations; the functions are tested where they are defined.
 */
#include <kin/time.h>

#include "kin_test.h"

KIN_TEST(durations_are_nanoseconds, "")
{
    EXPECT_EQ(KIN_NS(7), 7);
    EXPECT_EQ(KIN_US(7), 7000);
    EXPECT_EQ(KIN_MS(7), 7000000);
    EXPECT_EQ(KIN_SEC(7), INT64_C(7000000000));
    EXPECT_EQ(KIN_SEC(-1), INT64_C(-1000000000));
    EXPECT_EQ(sizeof(KIN_NS(1)), 8);
    EXPECT_EQ(sizeof(KIN_SEC(1)), 8);
}

KIN_TEST(durations_do_not_overflow_an_int, "")
{
    int seconds = 86400 * 365;
    unsigned milliseconds = 4000000000u;
    EXPECT_EQ(KIN_SEC(seconds), INT64_C(31536000000000000));
    EXPECT_EQ(KIN_MS(milliseconds), INT64_C(4000000000000000));
}

KIN_TEST(durations_take_expressions_and_fractions, "")
{
    int count = 1;
    EXPECT_EQ(KIN_MS(1 + 2), 3000000);
    EXPECT_EQ(KIN_MS(1.5), 1500000);
    EXPECT_EQ(KIN_SEC(0.25), 250000000);
    EXPECT_EQ(KIN_US(count++), 1000);
    EXPECT_EQ(count, 2);
}

KIN_TEST(never_is_the_last_point_in_time, "")
{
    kin_time never = KIN_NEVER;
    EXPECT_EQ(never, INT64_MAX);
    EXPECT_EQ(sizeof(kin_time), 8);
    EXPECT_LT((kin_time)-1, 0);
}
