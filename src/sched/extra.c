/* SPDX-License-Identifier: MIT */
/*
 * Belongings of tasks: made empty, given back empty.
 */
#include "sched/extra.h"

#include "sched/blocks.h"

struct kin__extra *kin__extra_make(struct kin__task *task)
{
    struct kin__frame *frame = kin__block_take(KIN__FRAME_EXTRA);
    if (!frame)
        return NULL;
    struct kin__extra *extra = KIN__CONTAINER_OF(frame, struct kin__extra, frame);
    extra->task = task;
    kin__cleanups_init(&extra->cleanups);
    kin__locals_init(&extra->locals);
    extra->account.exhausted = 0; /* the rest is filled in when the task is metered */
    extra->has_owed = 0;
    extra->words = NULL;
    kin__list_init(&extra->obligations);
    extra->kept = NULL;
    task->extra = extra;
    task->flags |= KIN__TASK_EXTRA;
    return extra;
}

void kin__extra_drop(struct kin__task *task)
{
    struct kin__frame *frame = &task->extra->frame;
    task->flags &= (uint16_t)~KIN__TASK_EXTRA;
    task->extra = NULL;
    kin__block_give(KIN__FRAME_EXTRA, frame);
}
