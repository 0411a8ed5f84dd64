/* SPDX-License-Identifier: MIT */
/*
 * Where the belongings of a task come from.
 */
#ifndef KIN_SCHED_EXTRA_H
#define KIN_SCHED_EXTRA_H

#include "task/extra.h"

/* Belongings, all empty, for the running task or for one that is being made; NULL when there is no
 * memory for them. The task has none yet. */
struct kin__extra *kin__extra_make(struct kin__task *task);
/* Gives them back. Whoever filled them has emptied them. */
void kin__extra_drop(struct kin__task *task);

/* Those that the task has, or new ones. */
static inline struct kin__extra *kin__extra_need(struct kin__task *task)
{
    return task->flags & KIN__TASK_EXTRA ? task->extra : kin__extra_make(task);
}

#endif
