/* SPDX-License-Identifier: MIT */
/*
 * Which failure a task ends with: the body's, or one of its nurseries that the body only echoes.
 */
#include "task/cause.h"

#include "base/assert.h"

int kin__cause_of(const struct kin__task *task, int rc, bool is_asked)
{
    KIN__ASSERT(!(task->flags & KIN__TASK_FAILED), "house");
    if (task->status < 0)
        return rc >= 0 || kin__cause_is_echo(rc) ? task->status : rc;
    if (task->status > 0 && ((rc == KIN_CANCELLED && !is_asked) || rc == KIN_NOSCOPE))
        return -task->status;
    return rc;
}

bool kin__cause_left(struct kin__task *task, int status)
{
    bool has_failed = task->flags & KIN__TASK_FAILED; /* and unwinds: by kin_fail, of an echo? */
    bool is_panic = task->flags & KIN__TASK_PANICKED;
    /* of several that are left the first one counts */
    bool counts = has_failed ? !is_panic && kin__cause_is_echo(task->status) : task->status >= 0;
    if (counts)
        task->status = status;
    return counts;
}

void kin__cause_joined(struct kin__task *task, int status)
{
    if (!(task->flags & KIN__TASK_FAILED) && task->status >= 0)
        task->status = status == INT32_MIN ? INT32_MAX : -status;
}
