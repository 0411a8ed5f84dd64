/* SPDX-License-Identifier: MIT */
/*
 * What a running task asks and offers: who am I, let others run.
 */
#include "sched/entry.h"
#include "scope/scope.h"
#include "park/park.h"
#include "task/budget.h"
#include "task/word.h"

/* ---- the public face ---- */

struct kin_task_ref kin_self(void)
{
    struct kin__task *task = kin__task_self();
    return (struct kin_task_ref){task ? kin__task_id(task) : 0};
}

uint64_t kin_task_id(struct kin_task_ref task)
{
    return task.id;
}

int kin_yield(void)
{
    struct kin__task *task = kin__task_self();
    if (KIN__UNLIKELY(!task))
        return KIN_NOTASK;
    kin__entry_check_room(task);
    kin__worker_yield(task);
    return kin__park_asked(task);
}

#ifndef KIN__LAB /* else src/lab knows */
bool kin_in_lab(void)
{
    return false;
}
#endif

int kin_checkpoint(void)
{
    struct kin__task *task = kin__task_self();
    if (KIN__UNLIKELY(!task))
        return KIN_NOTASK;
    KIN__LAB_POINT();
    int rc = kin__op(task, 0, KIN_NEVER);
    if (KIN__UNLIKELY(rc < 0) || KIN__UNLIKELY((rc = kin__park_asked(task)) < 0))
        return rc;
    if (KIN__UNLIKELY(task->flags & KIN__TASK_DEADLINE) && task->deadline <= kin__clock_now())
        return KIN_TIMEOUT;
    return 0;
}
