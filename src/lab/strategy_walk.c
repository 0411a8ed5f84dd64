/* SPDX-License-Identifier: MIT */
/*
 * A walk that is uniform over interleavings: an actor goes on with a probability in proportion to
 * the steps that it has left.
 *
 * With even odds at every step not all orders are equally likely: of two actors with ten steps
 * each, one goes first all the way once in a thousand runs, though that is one of 184,756 orders.
 * The steps of everybody are those of the trial run. Those of an actor that is not there yet count
 * for the one who will announce it.
 */
#include "lab/state.h"

static void walk_begin(struct kin__lab *s)
{
    (void)s;
}

void kin__walk_learn(struct kin__lab *s)
{
    struct kin__name *names = kin__lab_names(s);

    s->has_trial = true;
    s->trial_steps = s->log.steps;
    for (unsigned actor = 0; actor < s->actor_count; actor++)
        names[s->actors[actor].name].trial_total = 0;
    for (size_t i = 0; i < s->log.steps; i++)
        names[s->actors[s->schedule[i]].name].trial_total++;
    /* Whoever is announced has a greater number than who announced it. */
    for (unsigned actor = s->actor_count; actor-- > 0;) {
        const struct kin__name *name = &names[s->actors[actor].name];
        if (name->parent != KIN__NOBODY && name->parent < actor)
            names[s->actors[name->parent].name].trial_total += name->trial_total;
    }
}

static void walk_born(struct kin__lab *s, unsigned actor)
{
    const struct kin__name *name = &kin__lab_names(s)[s->actors[actor].name];

    s->actors[actor].weight = name->trial_total;
    if (s->current == KIN__NOBODY)
        return;
    uint64_t *left = &s->actors[s->current].weight;
    *left -= *left < name->trial_total ? *left : name->trial_total;
}

static uint64_t weight_of(const struct kin__lab *s, unsigned actor)
{
    return s->actors[actor].weight ? s->actors[actor].weight : 1;
}

static unsigned walk_pick(struct kin__lab *s, const struct kin__menu *menu)
{
    uint64_t all = 0;
    unsigned i = 0;

    if (menu->count > 1) {
        for (unsigned k = 0; k < menu->count; k++)
            all += weight_of(s, menu->enabled[k]);
        uint64_t drawn = kin__draw_below(s, all);
        /* Ends: drawn is less than the sum of all weights. */
        for (; drawn >= weight_of(s, menu->enabled[i]); i++)
            drawn -= weight_of(s, menu->enabled[i]);
    }
    uint64_t *left = &s->actors[menu->enabled[i]].weight;
    *left -= *left > 0;
    return menu->enabled[i];
}

const struct kin__plan kin__plan_walk = {.name = "walk",
                                         .begin = walk_begin,
                                         .pick = walk_pick,
                                         .choose = kin__random_choose,
                                         .born = walk_born};
