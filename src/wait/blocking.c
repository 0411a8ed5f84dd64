/* SPDX-License-Identifier: MIT */
/*
 * kin_blocking: a function of the program that blocks its thread, called from a task.
 */
#include <kin/blocking.h>

#include "sched/entry.h"
#include "task/budget.h"
#include "wait/offload.h"

#include <errno.h>

struct call {
    kin_task_fn *fn;
    void *arg;
    int result;
    uint32_t lacks; /* capabilities that the caller does not hold, and nobody who works for it */
    struct kin__task *caller; /* pays for what the thread makes; it waits as long as fn runs */
};

static void make_call(void *arg)
{
    struct call *call = arg;
    kin__thread_set_lacks(call->lacks); /* a plain thread, but no way around [SCHED:1.1.2] */
    kin__thread_set_client(call->caller);
    call->result = call->fn(call->arg);
    kin__thread_set_client(NULL);
    kin__thread_set_lacks(0);
}

int kin_blocking(kin_task_fn *fn, void *arg, int *result, kin_time deadline)
{
    struct kin__task *task = kin__task_self();
    struct call call = {fn, arg, 0, 0, task};
    if (!fn)
        return -EINVAL;
    int rc = kin__entry_begin(task, KIN_CAP_BLOCKING, deadline);
    if (task && (task->flags & KIN__TASK_METERED)) /* all others hold every one */
        call.lacks = KIN_CAP_ALL & ~(uint32_t)task->caps;
    if (rc == 0)
        rc = kin__offload(KIN__OFFLOAD_CALL, make_call, &call, deadline);
    if (rc == 0 && result)
        *result = call.result;
    return rc;
}
