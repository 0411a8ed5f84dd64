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
#include "sched/sched.h"
#include "task/budget.h"

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

/* What a public call of a task begins with, after it has looked at its arguments: the door, and the
 * charge for one operation (see kin__op). 0, or what the call must answer instead of starting. */
static inline int kin__entry_begin(struct kin__task *task, unsigned what, kin_time deadline)
{
    if (KIN__UNLIKELY(!task))
        return KIN_NOTASK;
    kin__entry_check(task);
    return kin__op(task, what, deadline);
}

/* What a call of a plain thread answers that needs capabilities: if the thread works for a task
 * (kin_blocking), it has those of the task. */
static inline int kin__entry_outside(unsigned what)
{
    return KIN__UNLIKELY(what & kin__thread_lacks()) ? KIN_NOCAP : 0;
}

/* The same as kin__entry_begin for a call that may come from anywhere. */
static inline int kin__entry_begin_anywhere(unsigned what, kin_time deadline)
{
    struct kin__task *task = kin__task_self();
    if (KIN__UNLIKELY(!task))
        return kin__entry_outside(what);
    kin__entry_check(task);
    return kin__op(task, what, deadline);
}

/* Whether a call that completes at once, without a lock and without a call of its own, may pass the
 * door without stopping: it is charged one step of the slice (task->slice--) and nothing else.
 * Never where every wait has to park, nor in the lab. */
static inline bool kin__entry_is_open(const struct kin__task *task)
{
#ifdef KIN__LAB
    return (void)task, false;
#else
#ifdef KIN_DEBUG
    if (kin__task_sched(task)->hard.park)
        return false;
#endif
    return !kin__op_may_yield(task);
#endif
}

/* The same for calls that only give something back, from anywhere: unref, free, close. */
static inline void kin__entry_check_gives(void)
{
    struct kin__task *task = kin__task_self();
    if (KIN__UNLIKELY(!task))
        return;
    kin__entry_check_room(task);
    KIN__LAB_POINT_GIVES();
}

/* The door alone, from anywhere: for calls that only look, in a report perhaps, or that stop. */
static inline void kin__entry_check_self(void)
{
    struct kin__task *task = kin__task_self();
    if (KIN__LIKELY(task != NULL))
        kin__entry_check(task);
}

/* What a public call of a task begins with that is never refused: the door, and a step of its turn
 * (see kin__op_turn). */
static inline void kin__entry_turn(struct kin__task *task)
{
    kin__entry_check(task);
    kin__op_turn(task);
}

/* And for those of such calls that may come from anywhere. */
static inline void kin__entry_turn_self(void)
{
    struct kin__task *task = kin__task_self();
    if (KIN__LIKELY(task != NULL))
        kin__entry_turn(task);
}

#endif
