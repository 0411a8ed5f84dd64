/* SPDX-License-Identifier: MIT */
/*
 * The check at the door of the runtime: a task without room on its stack overflows here or nowhere.
 *
 * What runs behind the door takes locks. An overflow there would leave them held, and the task
 * could not simply be ended. So every public function that may lock or park first asks whether the
 * stack has room for the deepest path of the runtime itself; if not, the task overflows with
 * nothing held. (Touching the stack that deep instead would cost every new stack a second page.)
 */
#ifndef KIN_SCHED_ENTRY_H
#define KIN_SCHED_ENTRY_H

#include "base/assert.h"
#include "base/lab.h"
#include "plat/context.h"
#include "sched/worker.h"
#include "task/task.h"

#if KIN__ASAN || KIN__TSAN
#define KIN__ENTRY_ROOM 12288 /* sanitizers' frames are larger */
#else
#define KIN__ENTRY_ROOM 3072 /* the deepest path measured takes 1.6 KiB in a debug build */
#endif

/* The task has less room than that: touches the guard. */
void kin__entry_overflow(struct kin__task *task);

/* The check alone: behind a door that was passed already, and where others may run anyway. */
static inline void kin__entry_check_room(struct kin__task *task)
{
    if (KIN__UNLIKELY((const char *)__builtin_frame_address(0) - task->low < KIN__ENTRY_ROOM))
        kin__entry_overflow(task);
}

/* In the lab others may run at every door. */
static inline void kin__entry_check(struct kin__task *task)
{
    kin__entry_check_room(task);
    KIN__LAB_POINT();
}

/* The same for calls that may come from anywhere. */
static inline void kin__entry_check_self(void)
{
    struct kin__task *task = kin__task_self();
    if (KIN__LIKELY(task != NULL))
        kin__entry_check(task);
}

#endif
