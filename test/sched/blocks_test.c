/* SPDX-License-Identifier: MIT */
/*
 * Goal: frames of every kind can be had with and without a worker.
 * Method: white box: taken and given where no worker is, and inside a task.
 */
#include "api/in_runtime.h"

#include "sched/blocks.h"
#include "task/word.h"

KIN_TEST(frames_outside_of_a_worker_have_names_that_end, "ABA:8.3")
{
    for (int i = 0; i < 1000; i++) {
        struct kin__frame *task = kin__block_take(KIN__FRAME_TASK);
        struct kin__frame *scope = kin__block_take(KIN__FRAME_SCOPE);
        EXPECT(task && scope && task != scope);
        uint64_t name = kin__load_relaxed(&task->name); /* alone: the test's own */
        EXPECT_PTR(kin__frame_at(KIN__FRAME_TASK, name), task);
        EXPECT_PTR(kin__task_find(name), kin__task_of_frame(task));
        kin__block_give(KIN__FRAME_TASK, task);
        kin__block_give(KIN__FRAME_SCOPE, scope);
        EXPECT_PTR(kin__task_find(name), NULL);
    }
}

static int take_inside(void *arg)
{
    (void)arg;
    for (unsigned kind = 0; kind < KIN__FRAME_KINDS; kind++) {
        struct kin__frame *frame = kin__block_take((enum kin__frame_kind)kind);
        EXPECT(frame != NULL);
        uint64_t name = kin__load_relaxed(&frame->name); /* alone: the test's own */
        EXPECT_PTR(kin__frame_at((enum kin__frame_kind)kind, name), frame);
        kin__block_give((enum kin__frame_kind)kind, frame);
        EXPECT_NE(kin__load_relaxed(&frame->name), name); /* alone: the test's own */
    }
    return 0;
}

KIN_TEST(a_worker_has_a_cache_for_each_kind, "ABA:8.3")
{
    EXPECT_EQ(run_reporting(1, take_inside, NULL, NULL), 0);
}
