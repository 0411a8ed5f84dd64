/* SPDX-License-Identifier: MIT */
/*
 * Random: anybody goes on, evenly; in one run of five an actor starves for a while.
 *
 * Whether a run starves somebody, when and for how long follows from its seed alone: at a step that
 * is drawn, whoever is picked does not go on again for 1, 2, 4, ... steps unless nobody else can.
 */
#include "lab/state.h"

#define STARVE_ONE_IN 5
#define STARVE_FROM_BITS 8
#define STARVE_FOR_BITS 12
#define FAULT_SITES_ONE_IN 4 /* sites that may fail in a run */
#define FAULT_ONE_IN 4       /* how often they do */

static void random_begin(struct kin__lab *s)
{
    s->starve = (struct kin__starve){UINT64_MAX, 0, KIN__NOBODY};
    if (!kin__draw_chance(s, STARVE_ONE_IN))
        return;
    s->starve.from = kin__draw_below(s, UINT64_C(1) << kin__draw_below(s, STARVE_FROM_BITS));
    s->starve.until = s->starve.from + (UINT64_C(1) << kin__draw_below(s, STARVE_FOR_BITS)) + 1;
}

unsigned kin__random_pick(struct kin__lab *s, const struct kin__menu *menu)
{
    return menu->enabled[menu->count == 1 ? 0 : kin__draw_below(s, menu->count)];
}

/* Anybody but the victim, if there is anybody. */
static unsigned pick_other(struct kin__lab *s, const struct kin__menu *menu)
{
    uint64_t at = kin__draw_below(s, menu->count);
    unsigned actor = menu->enabled[at];

    if (actor != s->starve.victim || menu->count == 1)
        return actor;
    at += 1 + kin__draw_below(s, menu->count - 1);
    return menu->enabled[at % menu->count];
}

static unsigned random_pick(struct kin__lab *s, const struct kin__menu *menu)
{
    const uint64_t step = s->log.steps;

    if (KIN__LIKELY(step < s->starve.from) || step > s->starve.until)
        return kin__random_pick(s, menu);
    if (step > s->starve.from)
        return pick_other(s, menu);
    return s->starve.victim = kin__random_pick(s, menu);
}

/* Whether faults of this label may happen at all in this run. */
static bool is_active(const struct kin__lab *s, const char *label)
{
    uint64_t hash = s->log.seed;

    for (; *label; label++)
        hash = kin__hash_u64(hash + (unsigned char)*label);
    return kin__hash_u64(hash) % FAULT_SITES_ONE_IN == 0;
}

uint32_t kin__random_choose(struct kin__lab *s, enum kin__choice kind, uint32_t n,
                            const char *label)
{
    const uint64_t all = n ? n : UINT64_C(1) << 32;

    if (kind == KIN__CHOICE_RANDOM)
        return kin__lab_dice(s, n);
    if (n == 1)
        return 0;
    if (kind != KIN__CHOICE_FAULT)
        return (uint32_t)kin__draw_below(s, all);
    if (!kin__draw_chance(s, FAULT_ONE_IN) || !is_active(s, label))
        return 0;
    return (uint32_t)(1 + kin__draw_below(s, all - 1));
}

const struct kin__plan kin__plan_random = {
    .name = "random", .begin = random_begin, .pick = random_pick, .choose = kin__random_choose};
