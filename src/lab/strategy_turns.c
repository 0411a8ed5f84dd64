/* SPDX-License-Identifier: MIT */
/*
 * Round-robin: each actor in turn by its number, every choice its first, no faults.
 */
#include "lab/state.h"

#define LAZY_MAX 256u /* steps in a row: who waits in a loop for another must let it go on */

unsigned kin__turns_pick(struct kin__lab *s, const struct kin__menu *menu)
{
    unsigned least = KIN__NOBODY, next = KIN__NOBODY;

    for (unsigned i = 0; i < menu->count; i++) {
        unsigned actor = menu->enabled[i];
        if (actor < least)
            least = actor;
        if (actor > s->turn && actor < next)
            next = actor;
    }
    return s->turn = next != KIN__NOBODY ? next : least;
}

unsigned kin__lazy_pick(struct kin__lab *s, const struct kin__menu *menu)
{
    unsigned least = KIN__NOBODY;

    for (unsigned i = 0; i < menu->count; i++) {
        if (menu->enabled[i] == s->current && s->lazy_steps < LAZY_MAX) {
            s->lazy_steps++;
            return s->current;
        }
        if (menu->enabled[i] < least)
            least = menu->enabled[i];
    }
    if (s->lazy_steps < LAZY_MAX)
        return least;
    s->lazy_steps = 0;
    s->turn = s->current;
    return kin__turns_pick(s, menu);
}

static void turns_begin(struct kin__lab *s)
{
    s->turn = KIN__NOBODY; /* the first turn is that of the least number */
}

static uint32_t turns_choose(struct kin__lab *s, enum kin__choice kind, uint32_t n,
                             const char *label)
{
    (void)label;
    return kind == KIN__CHOICE_RANDOM ? kin__lab_dice(s, n) : 0;
}

const struct kin__plan kin__plan_turns = {
    .name = "rr", .begin = turns_begin, .pick = kin__turns_pick, .choose = turns_choose};
