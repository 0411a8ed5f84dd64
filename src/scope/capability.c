/* SPDX-License-Identifier: MIT */
/*
 * Capabilities: what a task may do [SCHED:10.2.2] [SCHED:10.2.4].
 *
 * A set of bits in the task, filled in when it is spawned and never changed. What a child holds is
 * within what the owner of its nursery holds and within what its spawner holds, so that neither a
 * stranger who was handed the nursery nor the child itself gets more than the tree above it has. A
 * task that lacks one is metered, so that every call that needs one takes the way on which it is
 * looked at; all others pay nothing. Without one nobody spawns [SCHED:1.1.2] [SCHED:15.1.2]. They
 * are checks against mistakes and no sandbox [C10].
 */
#include "scope/capability.h"

#include "sched/worker.h"

#include <errno.h>

int kin__caps_of_child(const struct kin__scope *scope, const struct kin__task *spawner,
                       const struct kin_spawn_options *options, uint16_t *out)
{
    const struct kin__task *owner = kin__load_relaxed(&scope->owner); /* relaxed: constant here */
    uint32_t asked = options ? options->caps : 0, most = KIN_CAP_ALL;
    if (owner)
        most &= owner->caps;
    if (spawner)
        most &= spawner->caps;
    else
        most &= ~kin__thread_lacks(); /* it may work for a task: kin_blocking */
    if (!(most & KIN_CAP_SPAWN))
        return KIN_NOCAP;
    if (asked == 0)
        asked = kin__profile_is_strict(kin__scope_sched(scope)) ? 0 : most;
    else if (asked & KIN_CAP_NONE) {
        if (asked != KIN_CAP_NONE)
            return -EINVAL;
        asked = 0;
    }
    if (asked & ~most)
        return KIN_NOCAP;
    *out = (uint16_t)asked;
    return 0;
}

uint32_t kin_caps(void)
{
    const struct kin__task *task = kin__task_self();
    return task ? task->caps & KIN_CAP_ALL : 0;
}
