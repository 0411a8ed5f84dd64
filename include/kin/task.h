/* SPDX-License-Identifier: MIT */
/*
 * Tasks: what a running task can ask, offer and end.
 */
#ifndef KIN_TASK_H
#define KIN_TASK_H

#include <kin/base.h>
#include <kin/run.h>
#include <kin/status.h>
#include <kin/time.h>

#include <stdbool.h>
#include <stdint.h>

KIN_BEGIN_DECLS

/* A name for a task that stays safe when the task is over. {0} is nobody. */
struct kin_task_ref {
    uint64_t id;
};

/* How bad an end was; the larger is the worse. */
enum kin_severity { KIN_SEV_OK = 0, KIN_SEV_ERROR, KIN_SEV_CANCELLED, KIN_SEV_PANIC };

/* How a task, or a nursery, ended. */
struct kin_outcome {
    enum kin_severity severity;
    int status;    /* 0, or why it failed */
    int value;     /* what a successful task returned */
    uint64_t task; /* whose end it was; 0: nobody's in particular */
};

/**
 * kin_self - the running task.
 *
 * From:    anywhere
 * Returns: its name; {0} outside a task
 */
KIN_API struct kin_task_ref kin_self(void);

/**
 * kin_task_id - the number of a task, as reports print it.
 * @task: any name, stale ones too.
 *
 * From:    anywhere
 * Returns: the number; 0 for nobody
 */
KIN_API uint64_t kin_task_id(struct kin_task_ref task);

/**
 * kin_yield - let the other runnable tasks run.
 *
 * The task goes to the back of a queue of its own, behind everything that is runnable now.
 *
 * From:    task
 * Parks:   no, but others run
 * Cancel:  reports it, after the others ran
 * Returns: 0, KIN_CANCELLED, KIN_NOTASK
 * Spec:    [SCHED:4.2.1] [SCHED:4.2.2]
 */
KIN_API int kin_yield(void);

/**
 * kin_checkpoint - the cheap check for loops: yields when the task has had its share.
 *
 * Call it in every long loop. It costs a nanosecond or two and lets others run every so often.
 *
 * From:    task
 * Parks:   no, but others may run
 * Cancel:  reports it
 * Returns: 0, KIN_CANCELLED, KIN_NOTASK
 * Spec:    [SCHED:4.1.1]
 */
KIN_API int kin_checkpoint(void);

/**
 * kin_cancelled - whether the running task was asked to stop.
 *
 * From:    anywhere
 * Returns: true as soon as it was asked; false outside a task
 */
KIN_API bool kin_cancelled(void);

/**
 * kin_cancel_reason - why the running task was asked to stop.
 *
 * From:    anywhere
 * Returns: 0 while it was not asked; the first reason given, which later ones do not replace
 */
KIN_API int kin_cancel_reason(void);

/**
 * kin_task_cancel - ask one task to stop.
 * @task: any name.
 *
 * Asks, never waits. A task that has not begun never runs its body. A child that is cancelled alone
 * does not fail its nursery.
 *
 * From:    anywhere
 * Returns: 0, KIN_STALE when the task is over
 */
KIN_API int kin_task_cancel(struct kin_task_ref task);

/**
 * kin_fail - end the running task with an error, from any depth.
 * @status: why; a status >= 0 counts as -EINVAL.
 * @fmt:    like printf; says why to whoever reads the code or stops there in a debugger. An error
 *          is not news, so nothing is printed; the status is what the nursery gets.
 *
 * Nurseries that the task has open are cancelled and joined, innermost first. C frames in between
 * are left without running, so what they hold must be known to a nursery or a cleanup.
 *
 * From:    task
 * Returns: never
 */
KIN_API KIN_NORETURN void kin_fail(int status, const char *fmt, ...) KIN_PRINTF(2, 3);

/**
 * kin_panic - end the running task because a rule of its own was broken.
 * @fmt: like printf: %s %d %u %x %c %p %ld %lu %lld %llu %zu and widths.
 *
 * As kin_fail, but the outcome is KIN_SEV_PANIC with KIN_PANICKED and the text is reported. The
 * process goes on. Outside a task it aborts.
 *
 * From:    anywhere
 * Returns: never
 */
KIN_API KIN_NORETURN void kin_panic(const char *fmt, ...) KIN_PRINTF(1, 2);

KIN_END_DECLS

#endif
