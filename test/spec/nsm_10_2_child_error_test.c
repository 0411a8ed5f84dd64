/* SPDX-License-Identifier: MIT */
/*
 * Goal: scenario 10.2 of the nursery machine: a child that fails makes the nursery fail with it.
 * Method: one child returns 1, the other an error; the join must give that error and that child.
 */
#include "api/in_runtime.h"

static int scenario(void *arg)
{
    struct kin_outcome how;
    struct kin_task_ref failing;
    int one = 1, failed = -EIO;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, return_it, &one), 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, return_it, &failed, 0, &failing), 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), -EIO);
    EXPECT_EQ(how.severity, KIN_SEV_ERROR);
    EXPECT_EQ(how.task, kin_task_id(failing));
    return 0;
}

KIN_TEST(a_child_that_fails_makes_the_nursery_fail, "NSM:10.2 NSM-5 NSM:8.1")
{
    run_on_few(scenario, NULL);
}
