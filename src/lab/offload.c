/* SPDX-License-Identifier: MIT */
/*
 * Calls that block a thread, in the lab: there is one thread, so they are made by the task itself.
 *
 * A function of the program is a step of its own: others may run before and behind it, and nobody
 * while it lasts. It may touch anything, so that each depends on every other. Kin's own calls on
 * files are part of the step that makes them, and say what they touch.
 */
#include "wait/offload.h"

#include "lab/world.h"
#include "park/park.h"

#include <errno.h>

static uint32_t calls; /* a thing that every call touches: their order is seen */

/* A function of the program, which runs on a thread, for all it knows. */
static void call_foreign(struct kin__task *task, void (*fn)(void *), void *arg)
{
    struct kin__worker *worker = kin__world.worker;
    kin__lab_touch(&calls, KIN__LAB_WRITE);
    kin__lab_point();
    kin__worker_set_current(worker, NULL);
    kin__self_set(NULL);
    fn(arg);
    kin__self_set(worker);
    kin__worker_set_current(worker, task);
    kin__lab_touch(&calls, KIN__LAB_WRITE);
}

int kin__offload(enum kin__offload_kind kind, void (*fn)(void *), void *arg, kin_time deadline)
{
    struct kin__task *task = kin__task_self();
    (void)deadline;
    if (!task)
        return KIN_NOTASK;
    if (kind == KIN__OFFLOAD_NAMES)
        return KIN_UNSUPPORTED; /* what is outside cannot be reached from a run */
    kin__lab_touch(&task->ctl, KIN__LAB_READ); /* whether it is cancelled */
    int rc = kin__park_asked(task);
    if (rc < 0)
        return rc;
    if (kind == KIN__OFFLOAD_CALL)
        call_foreign(task, fn, arg);
    else
        fn(arg);
    return 0;
}

void kin__offload_enter(void)
{
}

bool kin__offload_leave(void)
{
    return false; /* the names of a run are its own: there is nothing to forget */
}

void kin__offload_limit(unsigned threads_max, int64_t idle_ns)
{
    (void)threads_max, (void)idle_ns;
}

unsigned kin__offload_threads(void)
{
    return 0;
}

unsigned kin__offload_resting(void)
{
    return 0;
}
