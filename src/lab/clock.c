/* SPDX-License-Identifier: MIT */
/*
 * The lab's clock: virtual in an execution, the host's outside of one.
 *
 * Time stands still while anybody can run. Whoever looks at the clock on and on within one step
 * would do so for ever: that is a livelock, and the execution ends with it. Behind its end time
 * passes with the looks, so that the loop comes to an end, too.
 */
#include "lab/world.h"

#define LOOKS_MAX 1000000u /* in one step */
#define LOOK_NS 1000

static void look_in_vain(struct kin__world *w)
{
    if (w->is_closed || !w->is_running) {
        w->now += (int64_t)(w->looks - LOOKS_MAX) * LOOK_NS; /* more and more: it is to end */
        return;
    }
    w->looks = 0; /* the report looks, too */
    kin__world_failf("livelock", KIN_STUCK, kin__player_path(w->current),
                     "%u looks at the clock in one step: time passes in the lab when nobody can "
                     "run, or by kin_lab_advance; wait for it by kin_sleep or a deadline",
                     LOOKS_MAX);
}

void kin__lab_reads_clock(void)
{
    kin__lab_point();
    kin__lab_touch(&kin__world.now, KIN__LAB_READ);
}

int64_t kin__clock_now(void)
{
    struct kin__world *w = &kin__world;
    if (!w->is_on)
        return kin__host_now();
    if (KIN__UNLIKELY(++w->looks > LOOKS_MAX))
        look_in_vain(w);
    return w->now;
}
