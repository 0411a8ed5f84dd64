/* SPDX-License-Identifier: MIT */
/*
 * Goal: scenario 10.1 of the nursery machine: children that succeed make the nursery succeed.
 * Method: two children return 1 and 2; the join must say success and the state closed.
 */
#include "api/in_runtime.h"

static int scenario(void *arg)
{
    struct kin_outcome how;
    int one = 1, two = 2;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, return_it, &one), 0);
    EXPECT_EQ(kin_spawn(&n, return_it, &two), 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), 0);
    EXPECT_EQ(how.severity, KIN_SEV_OK);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSED);
    return 0;
}

KIN_TEST(children_that_succeed_make_the_nursery_succeed, "NSM:10.1 NSM-2")
{
    run_on_few(scenario, NULL);
}
