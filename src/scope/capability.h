/* SPDX-License-Identifier: MIT */
/*
 * Capabilities and what the profiles say about them.
 */
#ifndef KIN_SCOPE_CAPABILITY_H
#define KIN_SCOPE_CAPABILITY_H

#include "plat/plat.h"
#include "scope/scope.h"

/* Service gives without being asked; in every other profile with a scheduler what a child has is
 * what it was given [SCHED:10.2.2] [SCHED:10.2.4]. */
static inline bool kin__profile_is_strict(const struct kin__sched *sched)
{
    return sched->config.profile != KIN_SERVICE;
}

/* What a child of the nursery may do. 0, KIN_NOCAP, -EINVAL for a set that contradicts itself.
 * Under the scope's lock. */
int kin__caps_of_child(const struct kin__scope *scope, const struct kin__task *spawner,
                       const struct kin_spawn_options *options, uint16_t *out);

/* What a call answers that needs a task and has none: in the core profile there are none
 * [SCHED:10.2.1]. */
static inline int kin__no_task(void)
{
    return kin__thread_is_core() ? KIN_UNSUPPORTED : KIN_NOTASK;
}

#endif
