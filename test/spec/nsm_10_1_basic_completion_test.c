/* SPDX-License-Identifier: MIT */
/*
 * Goal: scenario 10.1 of the nursery machine: children that succeed make the nursery succeed.
 * Method: two children return 1 and 2; their values are there, the join must say success and the
 *         state closed.
 */
#include "api/in_runtime.h"

static int scenario(void *arg)
{
    struct kin_outcome how;
    struct kin_task_ref first, second;
    int one = 1, two = 2;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, return_it, &one, 0, &first), 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, return_it, &two, 0, &second), 0);
    EXPECT_EQ(kin_task_join(&n, second, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.value, 2);
    EXPECT_EQ(kin_task_join(&n, first, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.value, 1);
    EXPECT_EQ(kin_nursery_join(&n, &how), 0);
    EXPECT_EQ(how.severity, KIN_SEV_OK);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSED);
    return 0;
}

KIN_TEST(children_that_succeed_make_the_nursery_succeed, "NSM:10.1 NSM-2")
{
    run_on_few(scenario, NULL);
}
