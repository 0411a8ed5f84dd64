/* SPDX-License-Identifier: MIT */
/*
 * Random numbers: the door to the system's, with the capability and the charge in front of it.
 */
#include "base/lab.h"
#include "plat/plat.h"
#include "sched/entry.h"
#include "task/budget.h"

#include <kin/random.h>

#include <errno.h>

int kin_random(void *buf, size_t size)
{
    if (!buf && size)
        return -EINVAL;
    int rc = kin__entry_begin_anywhere(KIN_CAP_RANDOM | KIN__COST_SYSCALL, 0);
    if (rc < 0)
        return rc;
    KIN__LAB_DRAWS("kin_random");
    return kin__plat_random(buf, size);
}
