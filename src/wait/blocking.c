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
};

static void make_call(void *arg)
{
    struct call *call = arg;
    call->result = call->fn(call->arg);
}

int kin_blocking(kin_task_fn *fn, void *arg, int *result, kin_time deadline)
{
    struct call call = {fn, arg, 0};
    if (!fn)
        return -EINVAL;
    int rc = kin__entry_begin(kin__task_self(), KIN_CAP_BLOCKING, deadline);
    if (rc == 0)
        rc = kin__offload(KIN__OFFLOAD_CALL, make_call, &call, deadline);
    if (rc == 0 && result)
        *result = call.result;
    return rc;
}
