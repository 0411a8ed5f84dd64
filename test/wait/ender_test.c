/* SPDX-License-Identifier: MIT */
/*
 * Goal: this floor can wait for the end of a task without knowing what that is.
 * Method: white box: the table that scope fills in, used on a task that is over and on one that is
 * not.
 */
#include "api/in_runtime.h"

#include "park/park.h"
#include "wait/ender.h"

static int be_quick(void *arg)
{
    return *(int *)arg;
}

static int wait_for_an_end(void *arg)
{
    int value = 7;
    struct kin_task_ref ref;
    const struct kin__waitable *ops = kin__load_relaxed(&kin__ender_ops); /* alone: a constant */
    (void)arg;
    EXPECT(ops != NULL);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, NULL, be_quick, &value, 0, &ref), 0);
    struct kin__ender ender = {.task = ref.id};
    EXPECT_EQ(kin__wait(ops, &ender, NULL, 0), 0);
    EXPECT(ender.is_known);
    EXPECT_EQ(ender.how.value, 7);
    struct kin__ender again = {.task = ref.id};
    EXPECT_EQ(kin__wait(ops, &again, NULL, 0), 0); /* it stays over */
    EXPECT(again.is_known);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    struct kin__ender late = {.task = ref.id};
    EXPECT_EQ(kin__wait(ops, &late, NULL, 0), 0); /* over, and nobody knows how */
    EXPECT(!late.is_known);
    return 0;
}

KIN_TEST(the_end_of_a_task_can_be_waited_for_from_below, "SCHED:15.2.2")
{
    EXPECT_EQ(run_reporting(1, wait_for_an_end, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, wait_for_an_end, NULL, NULL), 0);
}
