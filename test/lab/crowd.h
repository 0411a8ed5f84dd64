/* SPDX-License-Identifier: MIT */
/*
 * Actors that make so many steps each, for tests of the engine alone.
 */
#ifndef KIN_TEST_CROWD_H
#define KIN_TEST_CROWD_H

#include "kin_test.h"
#include "lab/engine.h"

#define CROWD_MAX 64u

/* Which of those who have made fewer than so many steps goes on; false: none, or it is over. */
static inline bool crowd_pick(struct kin__engine *e, const unsigned *done, unsigned actors,
                              unsigned steps, unsigned *actor)
{
    uint16_t enabled[CROWD_MAX];
    unsigned count = 0;

    EXPECT_LE(actors, CROWD_MAX);
    for (unsigned a = 0; a < actors; a++)
        if (done[a] < steps)
            enabled[count++] = (uint16_t)a;
    if (count == 0 || kin__engine_is_over(e))
        return false;
    *actor = kin__engine_pick(e, enabled, count);
    return !kin__engine_is_over(e);
}

#endif
