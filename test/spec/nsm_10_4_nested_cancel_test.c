/* SPDX-License-Identifier: MIT */
/*
 * Goal: scenario 10.4 of the nursery machine: a cancel reaches the children of a nested nursery.
 * Method: the inner child yields for ever; the outer nursery is cancelled at three moments.
 */
#include "api/in_runtime.h"

static int own_inner(void *arg)
{
    struct kin_outcome how;
    KIN_NURSERY(inner);

    int rc = kin_spawn(&inner, yield_for_ever, arg);
    EXPECT(rc == 0 || rc == KIN_NOSCOPE); /* the cancel may be faster */
    EXPECT_EQ(kin_nursery_join(&inner, &how), KIN_CANCELLED);
    EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
    EXPECT_EQ(kin_nursery_state(&inner), KIN_NURSERY_CANCELLED);
    return KIN_CANCELLED;
}

static int scenario(void *arg)
{
    (void)arg;
    for (int moment = 0; moment < 3; moment++) {
        _Atomic int started = 0;
        KIN_NURSERY(outer);
        EXPECT_EQ(kin_spawn(&outer, own_inner, &started), 0);
        if (moment == 1)
            kin_ignore(kin_yield());
        if (moment == 2)
            await(&started, 1);
        kin_nursery_cancel(&outer, 0);
        EXPECT_EQ(kin_nursery_join(&outer, NULL), KIN_CANCELLED);
        EXPECT_EQ(kin_nursery_errors(&outer, NULL, 0), 0);
    }
    return 0;
}

KIN_TEST(a_cancel_of_the_outer_nursery_ends_the_inner_one_s_children, "NSM:10.4 NSM-3 NSM:6.2")
{
    for (int i = 0; i < 50; i++)
        run_on_few(scenario, NULL);
}
