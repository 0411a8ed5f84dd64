/* SPDX-License-Identifier: MIT */
/*
 * Calls that block a thread, in the lab: there is one thread, so they are made by the task itself.
 *
 * A call is a step of its own: others may run before and behind it, and nobody while it lasts.
 */
#include "wait/offload.h"

#include "lab/world.h"
#include "park/park.h"
#include "sched/entry.h"
#include "task/budget.h"

#include <kin/blocking.h>

#include <errno.h>

static uint32_t calls; /* a thing that every call touches: their order is seen */

int kin__offload(enum kin__offload_kind kind, void (*fn)(void *), void *arg, kin_time deadline)
{
    struct kin__task *task = kin__task_self();
    (void)deadline;
    if (!task)
        return KIN_NOTASK;
    if (kind != KIN__OFFLOAD_CALL)
        return KIN_UNSUPPORTED; /* what is outside cannot be reached from a run */
    int rc = kin__park_asked(task);
    if (rc < 0)
        return rc;
    kin__lab_touch(&calls, KIN__LAB_WRITE);
    kin__lab_point();
    kin__worker_set_current(kin__world.worker, NULL); /* fn runs on a thread, for all it knows */
    kin__self_set(NULL);
    fn(arg);
    kin__self_set(kin__world.worker);
    kin__worker_set_current(kin__world.worker, task);
    kin__lab_touch(&calls, KIN__LAB_WRITE);
    return 0;
}

void kin__offload_enter(void)
{
}

bool kin__offload_leave(void)
{
    return true;
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

/* ---- the public face ---- */

struct call {
    kin_task_fn *fn;
    void *arg;
    int result;
};

static void make_call(void *arg)
{
    struct call *call = arg;
    call->result = call->fn(call->arg);
}

int kin_blocking(kin_task_fn *fn, void *arg, int *result, kin_time deadline)
{
    struct kin__task *task = kin__task_self();
    struct call call = {fn, arg, 0};
    if (!fn)
        return -EINVAL;
    if (!task)
        return KIN_NOTASK;
    kin__entry_check(task);
    int rc = kin__op(task, KIN_CAP_BLOCKING, deadline);
    if (rc == 0)
        rc = kin__offload(KIN__OFFLOAD_CALL, make_call, &call, deadline);
    if (rc == 0 && result)
        *result = call.result;
    return rc;
}
