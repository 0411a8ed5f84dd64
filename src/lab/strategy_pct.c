/* SPDX-License-Identifier: MIT */
/*
 * Probabilistic concurrency testing: whoever has the highest priority goes on, and at depth - 1
 * steps that are drawn the one who would go on falls behind everybody.
 *
 * A bug that needs depth constraints on the order of steps is found by one run with a probability
 * of at least 1 / (n * k^(depth - 1)), with n actors and k steps. k is that of the trial run, which
 * is the same for every seed, so that a seed repeats its run in any engine. One run of eight
 * takes four times k: other schedules may be longer than the trial was.
 *
 * Whoever has gone on for ROW_MAX steps while others could falls behind everybody, too: it may be
 * in a loop that waits for them.
 */
#include "lab/state.h"

#define LONGER_ONE_IN 8
#define LONGER 4
#define ROW_MAX 512u                     /* steps in a row */
#define FALLEN (UINT64_C(1) << 20)       /* above all priorities of those who fell so, */
_Static_assert(FALLEN > KIN__PCT_DEPTH_MAX, "which are above those of the changes");

static void pct_begin(struct kin__lab *s)
{
    uint64_t steps = s->trial_steps ? s->trial_steps : 1;

    if (kin__draw_chance(s, LONGER_ONE_IN))
        steps *= LONGER;
    for (unsigned i = 0; i + 1 < s->pct.depth; i++)
        s->pct.change[i] = kin__draw_below(s, steps);
    s->pct.fallen = FALLEN;
    s->pct.row = 0;
}

/* Above all that fell; two actors never have the same one. */
static void pct_born(struct kin__lab *s, unsigned actor)
{
    uint64_t drawn = kin__draw(s) >> 17;

    s->actors[actor].weight = (drawn << 16 | actor) + FALLEN;
}

static unsigned highest(const struct kin__lab *s, const struct kin__menu *menu)
{
    unsigned best = menu->enabled[0];

    for (unsigned i = 1; i < menu->count; i++)
        if (s->actors[menu->enabled[i]].weight > s->actors[best].weight)
            best = menu->enabled[i];
    return best;
}

static unsigned pct_pick(struct kin__lab *s, const struct kin__menu *menu)
{
    unsigned actor = highest(s, menu);

    s->pct.row = actor == s->current && menu->count > 1 ? s->pct.row + 1 : 0;
    if (KIN__UNLIKELY(s->pct.row >= ROW_MAX) && s->pct.fallen > KIN__PCT_DEPTH_MAX) {
        s->actors[actor].weight = --s->pct.fallen;
        actor = highest(s, menu);
    }
    for (unsigned i = 0; i + 1 < s->pct.depth; i++) {
        if (s->pct.change[i] != s->log.steps)
            continue;
        s->actors[actor].weight = i;
        actor = highest(s, menu);
    }
    return actor;
}

const struct kin__plan kin__plan_pct = {.name = "pct",
                                        .begin = pct_begin,
                                        .pick = pct_pick,
                                        .choose = kin__random_choose,
                                        .born = pct_born};
