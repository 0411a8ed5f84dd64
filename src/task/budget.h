/* SPDX-License-Identifier: MIT */
/*
 * The charge that every operation begins with [SCHED:3.3.1] [SCHED:4.1.1].
 *
 * A task has a slice of operations. Each call of the runtime that may be made in a loop takes one
 * off; when none is left the others get a turn, a new slice is drawn and a cancellation that is due
 * is reported. A task that lives under a limited budget, or lacks a capability, is metered: each of
 * its operations takes the long way, where scope/budget.c decides. All others pay one subtraction
 * and one test.
 */
#ifndef KIN_TASK_BUDGET_H
#define KIN_TASK_BUDGET_H

#include "base/assert.h"
#include "base/lab.h"
#include "task/task.h"

#include <kin/budget.h>
#include <kin/time.h>

/* What an operation costs beside one op; joined with the capabilities it needs (KIN_CAP_ bits). */
#define KIN__COST_CHANNEL 0x10000u
#define KIN__COST_SYSCALL 0x20000u
#define KIN__COST_TURN 0x40000u /* nothing: the turn is over, and the others run */
#define KIN__COST_CAPS 0xffffu /* the bits that are capabilities */

/* The slow half: calls owner_ops.op of the task's runtime. Defined in sched/sched.c. */
int kin__op_slow(struct kin__task *task, unsigned what, kin_time deadline);

/* Whether the charge of the next operation is more than a step of the slice: others may run
 * meanwhile, and it may be refused. */
static inline bool kin__op_may_yield(const struct kin__task *task)
{
    return task->slice == 1 || (task->flags & KIN__TASK_METERED);
}

/* Charges one operation of the running task. 0, or what the call must answer instead of starting:
 * KIN_CANCELLED, KIN_TIMEOUT, KIN_BUDGET, KIN_NOCAP. Others may run meanwhile. */
static inline int kin__op(struct kin__task *task, unsigned what, kin_time deadline)
{
    if (KIN__LIKELY(--task->slice != 0 && !(task->flags & KIN__TASK_METERED)))
        return 0;
    return kin__op_slow(task, what, deadline);
}

/* A step of the turn for a call that costs nothing and that nobody may refuse, but that may be made
 * in a loop. Others may run meanwhile. */
static inline void kin__op_turn(struct kin__task *task)
{
    if (KIN__UNLIKELY(--task->slice == 0))
        (void)kin__op_slow(task, KIN__COST_TURN, 0);
}

#endif
