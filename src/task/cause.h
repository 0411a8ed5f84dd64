/* SPDX-License-Identifier: MIT */
/*
 * The cause of a task's end, when the task returns only an echo of it.
 *
 * A child that fails cancels its nursery, and from then on the calls of the nursery's owner answer
 * KIN_CANCELLED, spawns KIN_NOSCOPE, channels that the child closed KIN_CLOSED. These answers are
 * echoes: a body that returns one of them hides the failure. So the task remembers the failure, in
 * task->status, as long as its body runs and has not called kin_fail:
 *
 *     0      there is none.
 *     < 0    of a nursery that was left without a join. Nobody has been told: the task ends with it
 *            unless the body returns a failure that is no echo.
 *     > 0    minus the failure of the latest nursery that was cancelled and joined. The body has
 *            been told, by the join; the failure counts when the body returns KIN_CANCELLED though
 *            nobody has asked the task to stop, or KIN_NOSCOPE: both come from that nursery. A
 *            refusal by another nursery, or the join of another one that was cancelled, ends it.
 */
#ifndef KIN_TASK_CAUSE_H
#define KIN_TASK_CAUSE_H

#include "task/task.h"

/* What the failure of a child may look like from the body of the nursery's owner. */
static inline bool kin__cause_is_echo(int status)
{
    return status == KIN_CANCELLED || status == KIN_NOSCOPE || status == KIN_CLOSED;
}

/* What the running task ends with when its body comes to rc. It has not failed yet. is_asked:
 * somebody wants it to stop. */
int kin__cause_of(const struct kin__task *task, int rc, bool is_asked);
/* The running task leaves a nursery of which a child failed with status, and joins it not. True:
 * that counts now. */
bool kin__cause_left(struct kin__task *task, int status);
/* The running task has joined a nursery that was cancelled, and this is what the join said; 0: what
 * comes next is no echo of a nursery that it has joined. */
void kin__cause_joined(struct kin__task *task, int status);

#endif
