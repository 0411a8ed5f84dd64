/* SPDX-License-Identifier: MIT */
/*
 * Goal: belongings begin empty, whatever the block held before.
 * Method: white box: made, dirtied, dropped and made again, inside a task.
 */
#include "api/in_runtime.h"

#include "sched/extra.h"
#include "sched/worker.h"

static int make_twice(void *arg)
{
    struct kin__task *task = kin__task_self();
    (void)arg;
    for (int i = 0; i < 3; i++) {
        EXPECT(!(task->flags & KIN__TASK_EXTRA));
        struct kin__extra *extra = kin__extra_need(task);
        EXPECT(extra != NULL);
        EXPECT_PTR(kin__extra_need(task), extra);
        EXPECT_EQ(extra->cleanups.count, 0);
        EXPECT_EQ(extra->locals.count, 0);
        EXPECT(kin__list_is_empty(&extra->obligations));
        extra->cleanups.count = 3;
        extra->locals.count = 2;
        kin__extra_drop(task);
    }
    return 0;
}

KIN_TEST(belongings_begin_empty, "")
{
    EXPECT_EQ(run_reporting(1, make_twice, NULL, NULL), 0);
}
