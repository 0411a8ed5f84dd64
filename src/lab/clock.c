/* SPDX-License-Identifier: MIT */
/*
 * The lab's clock: virtual in an execution, the host's outside of one.
 *
 * Whoever looks at it on and on without letting anybody run waits for time to pass: then it does.
 */
#include "lab/world.h"

#define LOOKS_MAX 1024u /* in one step, for which time stands still */
#define LOOK_NS 1000

int64_t kin__clock_now(void)
{
    struct kin__world *w = &kin__world;
    if (!w->is_on)
        return kin__host_now();
    if (KIN__UNLIKELY(++w->looks > LOOKS_MAX))
        w->now += LOOK_NS;
    return w->now;
}
