/* SPDX-License-Identifier: MIT */
/*
 * What only some tasks have: cleanups, local values, an account, obligations, last words, room for
 * failures.
 *
 * Made (sched/extra.c) when a task first needs one of them, from a pool of its own, and given back
 * when the task is over. All of it belongs to the running task; what others may touch says so.
 */
#ifndef KIN_TASK_EXTRA_H
#define KIN_TASK_EXTRA_H

#include "base/list.h"
#include "base/lock.h"
#include "mem/frame.h"
#include "task/account.h"
#include "task/cleanup.h"
#include "task/local.h"
#include "task/task.h"

struct kin__words;
struct kin__more;

struct kin__extra {
    struct kin__frame frame; /* the pool's */
    struct kin__task *task;
    struct kin__cleanups cleanups;
    struct kin__locals locals;
    struct kin__account account;
    /* Anybody who ends an obligation: the lock (rank WAIT) survives recycling, because one who
     * comes late with a stale name may hold it just then; see scope/obligation.c. */
    struct kin__lock lock;
    uint32_t has_owed;            /* anything, ever; else the list need not be looked at; task */
    struct kin__list obligations; /* what the task owes; under lock */
    struct kin__words *words;     /* what it said when it failed, or NULL; scope/words.c */
    struct kin__more *kept;       /* blocks of nurseries that it opened: scope/scope.h; task */
};

_Static_assert(sizeof(struct kin__extra) <= KIN__EXTRA_BYTES, "belongings are a frame");

/* How many cleanups the running task has put down. */
static inline uint32_t kin__extra_cleanups(const struct kin__task *task)
{
    return task->flags & KIN__TASK_EXTRA ? task->extra->cleanups.count : 0;
}

/* The same, for a nursery that the running task opens above them. */
static inline uint32_t kin__extra_cover(struct kin__task *task)
{
    if (!(task->flags & KIN__TASK_EXTRA))
        return 0;
    task->extra->cleanups.height += KIN__HEIGHT_EVENT;
    return task->extra->cleanups.count;
}

#endif
