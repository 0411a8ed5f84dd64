/* SPDX-License-Identifier: MIT */
/*
 * Near: runs around a schedule that was, the nearest first.
 *
 * A record of production, or a file that no longer fits, is close to what went wrong and not quite
 * it. So the tree of schedules is searched with the script as its trunk: the first run follows it
 * as far as it goes. At each node the script calls for somebody, and so does the run, for whoever
 * made the step before; if anybody else goes on, the run is one further away. Whoever comes out of
 * turn goes on until it cannot, or until a race wants it otherwise, and then the script does, from
 * where it stood. All runs at distance 0 come first, then those at 1, 2 and 3, each a search of its
 * own with a bound; at last there is none, and when that search ends nothing is left at all.
 *
 * If each step counted that differs, an update that is lost would be as far away as whoever comes
 * in between has steps.
 *
 * What is too large to be searched is strayed from: now and then somebody else makes a step.
 */
#include "lab/state.h"

#define DISTANCE_MAX 3u   /* of searches with a bound */
#define ROW_MAX 256u      /* steps in a row of whoever came out of turn */
#define STRAY_BITS_MIN 3u /* one step of 8 goes astray in some runs, */
#define STRAY_BITS 8u     /* of 1024 in others */

/* ---- the search ---- */

bool kin__near_first(struct kin__lab *s, const struct kin__menu *menu, struct kin__node *node,
                     uint64_t can)
{
    const struct kin__node *before = s->tree.at ? node - 1 : NULL;
    size_t pick = before ? before->pick : 0;
    bool is_out = false;

    if (before && before->wish == before->actor)
        pick = kin__script_after(s, pick, before->row);
    else if (before)
        is_out = before->row < ROW_MAX && (can >> before->actor & 1);
    node->wish = (uint16_t)kin__script_next(s, menu, &pick);
    node->pick = (uint32_t)pick;
    if (node->wish == KIN__NOBODY || !(is_out || (can >> node->wish & 1)))
        return false;
    node->actor = is_out ? before->actor : node->wish;
    if (before && before->actor == node->actor)
        node->row = (uint16_t)(before->row + (before->row < UINT16_MAX));
    return true;
}

/* ---- straying ---- */

static void stray_begin(struct kin__lab *s)
{
    kin__script_begin(s);
    s->follow.stray = UINT64_C(1) << (STRAY_BITS_MIN + kin__draw_below(s, STRAY_BITS));
}

static unsigned stray_pick(struct kin__lab *s, const struct kin__menu *menu)
{
    if (menu->count > 1 && kin__draw_chance(s, s->follow.stray))
        return kin__random_pick(s, menu);
    return kin__plan_lenient.pick(s, menu);
}

static uint32_t stray_choose(struct kin__lab *s, enum kin__choice kind, uint32_t n,
                             const char *label)
{
    uint32_t pledged = 0;

    return kin__script_answer(s, kind, n, &pledged) ? pledged
                                                    : kin__random_choose(s, kind, n, label);
}

static const struct kin__plan plan_stray = {
    .name = "stray", .begin = stray_begin, .pick = stray_pick, .choose = stray_choose};

/* ---- the next run ---- */

/* Starts the search that comes after this one. */
static void widen(struct kin__lab *s)
{
    struct kin__tree *tree = &s->tree;
    const uint32_t bound = tree->around ? tree->bound + 1 : 1; /* the distance, plus 1 */

    kin__tree_start(tree, true, bound <= DISTANCE_MAX + 1 ? bound : 0);
    tree->around = &s->file_script;
}

bool kin__near_next(struct kin__lab *s, uint64_t seed)
{
    struct kin__tree *tree = &s->tree;

    s->follow.script = &s->file_script;
    s->follow.by_turns = true;
    if (tree->is_refused) {
        kin__lab_start(s, s->seeds > 1 ? &plan_stray : &kin__plan_lenient, seed);
        return true;
    }
    if (!tree->around)
        widen(s);
    while (!kin__tree_next(s)) { /* ends: the last search leaves nothing out */
        if (s->broken || !tree->is_cut)
            return false;
        widen(s);
    }
    kin__lab_start(s, &kin__plan_tree, seed);
    return true;
}
