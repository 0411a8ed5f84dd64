/* SPDX-License-Identifier: MIT */
/*
 * Addresses: a task's number, and a node that is this one.
 */
#include "sched/sched.h"

#include <kin/addr.h>

struct kin_addr kin_self_addr(void)
{
    const struct kin__task *task = kin__task_self();
    return (struct kin_addr){0, task ? kin__task_id(task) : 0};
}

struct kin_addr kin_task_addr(struct kin_task_ref task)
{
    return (struct kin_addr){0, task.id};
}
