/* SPDX-License-Identifier: MIT */
/*
 * <kin/base.h>: the version in both spellings, and what the attributes do.
 */
#include <kin/base.h>

#include "kin_test.h"

#include <stdio.h>

KIN_TEST(the_library_has_the_version_of_its_headers, "")
{
    char expected[64];
    snprintf(expected, sizeof(expected), "%d.%d.%d", KIN_VERSION_MAJOR, KIN_VERSION_MINOR,
             KIN_VERSION_PATCH);
    EXPECT_STR(kin_version(), expected);
    EXPECT_EQ(KIN_VERSION_NUMBER,
              KIN_VERSION_MAJOR * 10000 + KIN_VERSION_MINOR * 100 + KIN_VERSION_PATCH);
}

static int ignored;

KIN_MUST_USE static int must_use(void)
{
    ignored++;
    return -1;
}

/* Compiled with warnings as errors this also shows that no compiler complains. */
KIN_TEST(a_dropped_status_still_makes_the_call, "")
{
    kin_ignore(must_use());
    EXPECT_EQ(ignored, 1);
}

static void add_one(int **counter)
{
    ++**counter;
}

KIN_TEST(cleanup_runs_when_the_scope_is_left, "")
{
    int count = 0;
    for (int i = 0; i < 3; i++) {
        KIN_CLEANUP(add_one) int *counter = &count;
        EXPECT_EQ(*counter, i);
        if (i == 1)
            continue;
    }
    EXPECT_EQ(count, 3);
}
