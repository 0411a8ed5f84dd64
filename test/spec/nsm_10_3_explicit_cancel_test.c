/* SPDX-License-Identifier: MIT */
/*
 * Goal: scenario 10.3 of the nursery machine: an explicit cancel ends a child that yields for ever.
 * Method: cancel before the child has begun, and once it yields; the join must say cancelled.
 */
#include "api/in_runtime.h"

static int scenario(void *arg)
{
    struct kin_outcome how;
    (void)arg;
    for (int waits = 0; waits < 2; waits++) {
        _Atomic int started = 0;
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, yield_for_ever, &started), 0);
        if (waits)
            await(&started, 1);
        kin_nursery_cancel(&n, 0);
        EXPECT_EQ(kin_nursery_join(&n, &how), KIN_CANCELLED);
        EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
        EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CANCELLED);
    }
    return 0;
}

KIN_TEST(an_explicit_cancel_ends_a_child_that_yields_for_ever, "NSM:10.3 NSM:4.1 NSM:4.3")
{
    run_on_few(scenario, NULL);
}
