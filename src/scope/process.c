/* SPDX-License-Identifier: MIT */
/*
 * Processes belong to the task that starts them: each is one of its cleanups.
 *
 * The cleanup is put down before the program starts, so that there is no moment in which a process
 * exists and nothing would end it. When it is ended by hand its place among the cleanups is
 * emptied, and given back if nothing is above it: a task that starts one process after the other
 * does not pile up places. A place is not given back below the floor of a running cleanup, nor
 * below a nursery, whose age is told by the number of cleanups there were.
 */
#include "wait/process.h"

#include "sched/entry.h"
#include "scope/belongings.h"
#include "task/budget.h"

#include <kin/cleanup.h>

#include <errno.h>

/* A thread may have to be started, from a task: that takes more of a stack than the check at the
 * door asks for. */
#define START_ROOM 8192

static void end(void *arg)
{
    struct kin_process *process = arg;
    kin__process_end(process);
    kin__process_free(process);
}

/* Empties the place of a process among the cleanups of the running task. */
static void withdraw(struct kin__task *task, const struct kin_process *process)
{
    struct kin__cleanups *cleanups = &task->extra->cleanups;
    struct kin__scope *inner = kin__load_relaxed(&task->inner); /* relaxed: the task's own */
    uint32_t floor = cleanups->floor;
    if (inner && inner->cleanups > floor)
        floor = inner->cleanups;
    KIN__ASSERT(process->place < cleanups->count &&
                    cleanups->table[process->place].arg == process, "NCG-3");
    cleanups->table[process->place].kind = KIN__CLEANUP_TAKEN;
    while (cleanups->count > floor &&
           cleanups->table[cleanups->count - 1].kind == KIN__CLEANUP_TAKEN)
        cleanups->count--; /* ends: one fewer each time */
}

/* Half of what the nursery of the task grants it when it is cancelled: then there is time to kill
 * the process, and the task is not late itself. */
static int64_t usual_grace(struct kin__task *task)
{
    struct kin__scope *scope = kin__load_relaxed(&task->scope); /* relaxed: constant */
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    int64_t grace = kin__grace_locked(scope);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return grace / 2;
}

/* Starts a program in a process that exists already as a thing to clean up. */
static int start(struct kin__task *task, const char *const *argv,
                 const struct kin_process_options *options, struct kin_process *process)
{
    process->owner = kin__task_id(task);
    int rc = kin_defer(end, process);
    if (rc < 0)
        return rc;
    process->place = kin__extra_cleanups(task) - 1;
    rc = kin__process_run(process, argv, options);
    if (rc < 0)
        withdraw(task, process);
    return rc;
}

int kin_process_start(const char *const *argv, const struct kin_process_options *options,
                      struct kin_process **out)
{
    struct kin__task *task = kin__task_self();
    int rc = out ? kin__process_check(argv, options) : -EINVAL;
    if (rc < 0)
        return rc;
    if (!task)
        return KIN_NOTASK;
    kin__entry_check(task);
    if (KIN__UNLIKELY((const char *)__builtin_frame_address(0) - task->low < START_ROOM))
        kin__entry_overflow(task);
    rc = kin__op(task, KIN_CAP_PROCESS | KIN__COST_SYSCALL, KIN_NEVER);
    if (rc < 0)
        return rc;
    if (KIN__LAB_INSIDE())
        return KIN_UNSUPPORTED; /* what is outside cannot be reached from a run */
    struct kin__bill bill;
    rc = kin__bill_take(&bill, task, sizeof(struct kin_process));
    if (rc < 0)
        return rc;
    struct kin_process *process = kin__process_make(options, usual_grace(task));
    if (!process) {
        kin__bill_give(bill);
        return -ENOMEM;
    }
    process->bill = bill;
    rc = start(task, argv, options, process);
    if (rc < 0)
        kin__process_free(process);
    else
        *out = process;
    return rc;
}

void kin_process_destroy(struct kin_process *process)
{
    struct kin__task *task = kin__task_self();
    if (!process)
        return;
    if (!task || process->owner != kin__task_id(task))
        kin__misuse(task, "kin_process_destroy", "a process ends with the task that started it",
                    "NCG-3");
    kin__entry_check_gives();
    kin__process_end(process);
    withdraw(task, process); /* not before: until then a way out of the task would end it */
    kin__process_free(process);
}
