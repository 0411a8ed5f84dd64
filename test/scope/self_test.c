/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a running task asks and offers, from the inside: checkpoints.
 * Method: white box: the count behind a checkpoint.
 */
#include "api/in_runtime.h"

#include "scope/scope.h"

static int count_checkpoints(void *arg)
{
    struct kin__task *task = kin__task_self();
    int resets = 0;

    (void)arg;
    task->slice = 1024;
    for (int i = 1; i <= 5000; i++) {
        unsigned before = task->slice;
        EXPECT_EQ(kin_checkpoint(), 0);
        if (before == 1) {
            EXPECT_EQ(task->slice, 1024);
            resets++;
        } else {
            EXPECT_EQ(task->slice, before - 1);
        }
    }
    EXPECT_EQ(resets, 5000 / 1024);
    return 0;
}

KIN_TEST(a_checkpoint_yields_once_per_share, "SCHED:4.1.1")
{
    EXPECT_EQ(run_reporting(1, count_checkpoints, NULL, NULL), 0);
}

static int be_self(void *arg)
{
    EXPECT_EQ(kin_self().id, kin__task_id(kin__task_self()));
    EXPECT_PTR(kin__task_find(kin_self().id), kin__task_self());
    *(struct kin_task_ref *)arg = kin_self();
    return 0;
}

KIN_TEST(a_task_finds_itself_by_its_name_and_nobody_does_later, "002:1.1 ABA:8.3")
{
    struct kin_task_ref ref = {0};

    EXPECT_EQ(run_reporting(1, be_self, &ref, NULL), 0);
    EXPECT_NE(ref.id, 0);
    EXPECT_PTR(kin__task_find(ref.id), NULL);
    EXPECT_EQ(kin_self().id, 0);
}
