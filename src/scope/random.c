/* SPDX-License-Identifier: MIT */
/*
 * Random numbers: the door to the system's, with the capability and the charge in front of it.
 */
#include "plat/plat.h"
#include "sched/entry.h"
#include "task/budget.h"

#include <kin/random.h>

#include <errno.h>

int kin_random(void *buf, size_t size)
{
    struct kin__task *task = kin__task_self();
    if (!buf && size)
        return -EINVAL;
    if (task) {
        kin__entry_check(task);
        int rc = kin__op(task, KIN_CAP_RANDOM | KIN__COST_SYSCALL, 0);
        if (rc < 0)
            return rc;
    }
    return kin__plat_random(buf, size);
}
