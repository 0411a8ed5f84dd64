/* SPDX-License-Identifier: MIT */
/*
 * Source-DPOR with sleep sets: which orders of steps must be tried, from what the steps touched.
 *
 * When a step ends its touches are put together, one for each thing. It comes after
 *
 *   - the step before of the same actor, or the one that announced the actor,
 *   - the step that enabled the actor, and the last moment when everybody was idle,
 *   - all steps that had to be made before the actor was enabled, if there were several: the owner
 *     of a nursery that is joined goes on when every child has ended, and no task sees which child
 *     was the last,
 *   - every step with which it conflicts: same thing, not both reads, not both adds.
 *
 * A clock per step says which step of each actor is the last that comes before it. A conflict with
 * a step i that does not come before by another way is a race: the two are next to each other in
 * some order of the same class, and could change places. So from node i on something must be tried
 * that begins the run without i: an actor whose first step after i depends on no other step after
 * i. If such an actor is already tried there, or sleeps there, nothing is added: source sets. Else
 * the actor of the first step that does not come after i is added, with a guide (guide.c).
 * Only the last conflicting step of each actor is looked at, the latest first: those before it come
 * before it.
 *
 * What a step would touch is known only when it has run. So an actor that has been tried at a node
 * sleeps with the touches that it made; it wakes when a step conflicts with them. What it would do
 * does not change before that. With choices inside of the step there is a sleeper for each answer.
 * When one of them wakes, all do whose touches are not empty: if the actor were tried with some
 * answers only, a step that conflicts with the others would never be seen to race with it.
 *
 * What a step touches may hang on what it finds: a wait looks at its event first, and at its
 * cancellation only if the event is not set. A step that sleeps at node i may then do less when it
 * runs behind step i, and with it goes the dependence on others that should come before it. So if
 * it sleeps there with touches that it did not make later, everybody is tried at node i.
 *
 * With a bound on preemptions this is not enough: the order that is found may need one preemption
 * too many, while another of its class does not. So the racing actor is put on the list of node i
 * itself, and of the node where the block of steps around i begins, where a switch costs nothing;
 * where it cannot go on, everybody who can is put there.
 *
 * A thing knows its last read, add and write; each touch knows those before it. Whoever steps back
 * restores them, so nothing is ever searched: a write looks at the reads and adds since the last
 * write, and the next write stops there.
 */
#include "base/bits.h"
#include "lab/state.h"
#include "lab/tree.h"

#include <errno.h>
#include <string.h>

#define THINGS_FIRST 256u
#define MIX UINT64_C(0x9fb21c651e98df25)
#define BARRIER UINT64_MAX /* for a bloom: conflicts with everything */
enum { READS, ADDS, WRITES };

static uint64_t bit(unsigned actor)
{
    return UINT64_C(1) << actor;
}

static struct kin__tread *tread_at(const struct kin__tree *tree, uint32_t i)
{
    return (struct kin__tread *)tree->touches.base + i;
}

static struct kin__thing *things_of(const struct kin__tree *tree)
{
    return tree->things.base;
}

static struct kin__sleeper *sleeper_at(const struct kin__tree *tree, uint32_t i)
{
    return (struct kin__sleeper *)tree->sleepers.base + i;
}

static uint16_t *clock_of(const struct kin__tree *tree, uint32_t d)
{
    return (uint16_t *)tree->clocks.base + (size_t)d * tree->stride;
}

static bool no_memory(struct kin__lab *s)
{
    kin__lab_broke(s, -ENOMEM, "there is no memory for what the steps touch");
    return false;
}

/* ---- things ---- */

static uint32_t slot_of(const struct kin__thing *things, size_t size, uint64_t what)
{
    size_t at = (what * MIX) >> 20 & (size - 1);

    /* Ends: the table is at most half full. */
    while (things[at].what && things[at].what != what)
        at = (at + 1) & (size - 1);
    return (uint32_t)at;
}

/* A table for count more things; those that nobody on the path touches and nobody sleeps on go. */
static bool grow_things(struct kin__lab *s, size_t count)
{
    struct kin__tree *tree = &s->tree;
    struct kin__room room = {NULL, 0};
    size_t live = tree->touch_count < tree->thing_count ? tree->touch_count : tree->thing_count;
    size_t size = THINGS_FIRST;

    while (size < 4 * (live + count))
        size *= 2;
    if (!kin__room_grow(&room, size * sizeof(struct kin__thing)))
        return no_memory(s);
    struct kin__thing *things = room.base, *old = tree->things.base;
    tree->thing_count = 0;
    for (uint32_t i = 0; i < tree->touch_count; i++) {
        struct kin__tread *tread = tread_at(tree, i);
        struct kin__thing *from = &old[tread->thing];
        tread->thing = slot_of(things, size, from->what);
        struct kin__thing *to = &things[tread->thing];
        tree->thing_count += !to->what;
        *to = *from;
    }
    kin__room_release(&tree->things);
    tree->things = room;
    tree->thing_size = size;
    return true;
}

/* ---- the touches of a step ---- */

static unsigned way_of(uint32_t modes)
{
    return modes == KIN__TOUCH_READ ? READS : modes == KIN__TOUCH_ADD ? ADDS : WRITES;
}

static bool conflict(unsigned a, unsigned b)
{
    return a != b || a == WRITES;
}

/* Puts the touches of step d together, one for each thing. */
static bool gather(struct kin__lab *s, struct kin__node *node, uint32_t d)
{
    struct kin__tree *tree = &s->tree;
    const uint64_t *raw = s->head.touch_begin;
    const size_t count = (size_t)(s->head.touch_at - raw);

    uint64_t gathered = 0;

    node->touches = tree->touch_count;
    node->touch_count = node->gathers = 0;
    node->bloom = 0;
    if (2 * (tree->thing_count + count) > tree->thing_size && !grow_things(s, count))
        return false;
    if (!kin__room_fits(&tree->touches, tree->touch_count + count, sizeof(struct kin__tread)))
        return no_memory(s);
    struct kin__thing *things = things_of(tree);
    if (++tree->stamp == 0) /* after four billion steps old stamps must not come again */
        for (size_t i = tree->stamp++; i < tree->thing_size; i++)
            things[i].stamp = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t what = raw[i] | 7;
        const uint32_t slot = slot_of(things, tree->thing_size, what);
        struct kin__thing *thing = &things[slot];
        if ((raw[i] & 7) == KIN__TOUCH_GATHER)
            gathered = what;
        if (thing->stamp == tree->stamp) {
            thing->modes |= (uint32_t)(raw[i] & 7);
            continue;
        }
        tree->thing_count += !thing->what;
        thing->what = what;
        thing->stamp = tree->stamp;
        thing->modes = (uint32_t)(raw[i] & 7);
        node->bloom |= bit((unsigned)(what * MIX >> 58) * 63 >> 6);
        *tread_at(tree, tree->touch_count++) = (struct kin__tread){.thing = slot, .node = d};
    }
    node->touch_count = tree->touch_count - node->touches;
    for (uint32_t i = node->touches; i < tree->touch_count; i++) {
        struct kin__tread *tread = tread_at(tree, i);
        tread->way = way_of(things[tread->thing].modes);
        memcpy(tread->before, things[tread->thing].last, sizeof(tread->before));
        if (things[tread->thing].what == gathered)
            node->gathers = i + 1;
    }
    return true;
}

/* The things know from here on that the step has touched them. */
static void leave_tracks(struct kin__tree *tree, const struct kin__node *node)
{
    for (uint32_t i = node->touches; i < node->touches + node->touch_count; i++) {
        const struct kin__tread *tread = tread_at(tree, i);
        things_of(tree)[tread->thing].last[tread->way] = i + 1;
    }
}

static void wipe_tracks(struct kin__tree *tree, const struct kin__node *node)
{
    for (uint32_t i = node->touches; i < node->touches + node->touch_count; i++) {
        const struct kin__tread *tread = tread_at(tree, i);
        things_of(tree)[tread->thing].last[tread->way] = tread->before[tread->way];
    }
}

/* ---- answers ---- */

bool kin__dpor_sleeps(const struct kin__tree *tree, const struct kin__node *node, uint64_t answers)
{
    for (uint32_t i = 0; i < node->sleeper_count; i++) {
        const struct kin__sleeper *sleeper = sleeper_at(tree, node->sleepers + i);
        if (sleeper->actor == node->actor && sleeper->answers == answers)
            return true;
    }
    return false;
}

uint64_t kin__dpor_answers(uint64_t answers, uint32_t answer)
{
    return kin__hash_u64(answers + answer + 1);
}

/* The hash of the answers in the step of the last node. */
static uint64_t answers_of(const struct kin__tree *tree, const struct kin__node *node)
{
    const struct kin__fork *forks = tree->forks.base;
    uint64_t answers = 0;

    for (uint32_t i = node->forks; i < tree->fork_count; i++)
        answers = kin__dpor_answers(answers, forks[i].answer);
    return answers;
}

/* ---- clocks ---- */

/* Room in every clock for all actors there are. */
static bool widen_clocks(struct kin__lab *s, uint32_t depth)
{
    struct kin__tree *tree = &s->tree;
    uint32_t stride = tree->stride ? tree->stride : 8;

    while (stride < s->actor_count)
        stride *= 2;
    if (!kin__room_fits(&tree->clocks, (size_t)depth * stride, sizeof(uint16_t)))
        return no_memory(s);
    uint16_t *clocks = tree->clocks.base;
    if (stride == tree->stride)
        return true;
    /* From the last one on, so that none is written before it is read. */
    for (uint32_t d = depth - 1; d-- > 0;) {
        memmove(clocks + (size_t)d * stride, clocks + (size_t)d * tree->stride,
                tree->stride * sizeof(uint16_t));
        memset(clocks + (size_t)d * stride + tree->stride, 0,
               (stride - tree->stride) * sizeof(uint16_t));
    }
    tree->stride = stride;
    return true;
}

static void join(uint16_t *clock, const uint16_t *other, uint32_t stride)
{
    for (uint32_t a = 0; a < stride; a++)
        clock[a] = clock[a] > other[a] ? clock[a] : other[a];
}

/* Everybody who added to the thing by which a step gathers comes before whom the step enabled. */
static void join_gathered(const struct kin__tree *tree, const struct kin__node *step,
                          uint16_t *clock)
{
    if (step->gathers == 0)
        return;
    const struct kin__tread *tread = tread_at(tree, step->gathers - 1);
    /* Ends: touches before are earlier. */
    for (uint32_t at = tread->before[ADDS]; at > tread->before[WRITES];
         at = tread_at(tree, at - 1)->before[ADDS])
        join(clock, clock_of(tree, tread_at(tree, at - 1)->node), tree->stride);
}

/* What comes before step d whatever it touches. */
static uint16_t *start_clock(const struct kin__tree *tree, uint32_t d)
{
    const struct kin__node *node = kin__tree_node(tree, d);
    uint16_t *clock = clock_of(tree, d);
    uint16_t before = node->before ? node->before : tree->parent[node->actor];

    if (before)
        memcpy(clock, clock_of(tree, before - 1u), tree->stride * sizeof(*clock));
    else
        memset(clock, 0, tree->stride * sizeof(*clock));
    if (tree->waker[node->actor] > node->before) {
        join(clock, clock_of(tree, tree->waker[node->actor] - 1u), tree->stride);
        join_gathered(tree, kin__tree_node(tree, tree->waker[node->actor] - 1u), clock);
    }
    if (node->idle > node->before)
        join(clock, clock_of(tree, node->idle - 1u), tree->stride);
    return clock;
}

/* ---- races ---- */

/* Whether an actor's first step after i depends on no other step after i. */
static bool is_initial(const struct kin__tree *tree, unsigned actor, uint32_t i)
{
    uint32_t first = tree->last[actor]; /* plus 1 */

    if (first <= i + 1)
        return false;
    /* Ends: steps before are earlier. */
    for (uint32_t next; (next = kin__tree_node(tree, first - 1)->before) > i + 1; first = next)
        continue;
    const uint16_t *clock = clock_of(tree, first - 1);
    for (uint32_t a = 0; a < tree->stride; a++)
        if (clock[a] > i && a != actor)
            return false;
    return true;
}

static bool any_initial(const struct kin__tree *tree, uint64_t actors, uint32_t i, unsigned *which)
{
    for (; actors; actors &= actors - 1) {
        *which = kin__first_bit64(actors);
        if (is_initial(tree, *which, i))
            return true;
    }
    return false;
}

/* Whether a step has touched a thing in this way, or written it. */
static bool has_touched(const struct kin__tree *tree, const struct kin__node *step,
                        const struct kin__tread *as)
{
    for (uint32_t i = step->touches; i < step->touches + step->touch_count; i++) {
        const struct kin__tread *tread = tread_at(tree, i);
        if (tread->thing == as->thing)
            return tread->way == as->way || tread->way == WRITES;
    }
    return false;
}

/* Whether step d is what somebody has come to do who sleeps at node i, and would touch something
 * there that step d has not touched. */
static bool does_less(const struct kin__tree *tree, uint32_t i, uint32_t d)
{
    const struct kin__node *node = kin__tree_node(tree, i), *step = kin__tree_node(tree, d);

    if (!(node->sleep & bit(step->actor)) || step->before > i)
        return false;
    for (uint32_t k = 0; k < node->sleeper_count; k++) {
        const struct kin__sleeper *sleeper = sleeper_at(tree, node->sleepers + k);
        for (uint32_t t = 0; sleeper->actor == step->actor && t < sleeper->touch_count; t++)
            if (!has_touched(tree, step, tread_at(tree, sleeper->touches + t)))
                return true;
    }
    return false;
}

/* Whether step k comes after step i. */
static bool is_after(const struct kin__tree *tree, uint32_t k, uint32_t i)
{
    return clock_of(tree, k)[kin__tree_node(tree, i)->actor] > i;
}

/* Puts on the list of node i who makes the first of the steps that turn the race with step d round,
 * with a guide to the others. False: it could not go on there. */
static bool guide_round(struct kin__tree *tree, uint32_t i, uint32_t d)
{
    struct kin__node *node = kin__tree_node(tree, i);
    uint32_t step = i + 1, guide = 0, last = 0;

    while (step < d && is_after(tree, step, i))
        step++;
    const unsigned first = kin__tree_node(tree, step)->actor;
    if (!(node->enabled & bit(first)))
        return false;
    node->todo |= bit(first);
    for (; step <= d; step++)
        if (step == d || !is_after(tree, step, i))
            kin__guide_add(tree, &guide, &last, kin__tree_node(tree, step)->actor);
    kin__guide_give(tree, node, guide);
    return true;
}

/* Somebody must be tried at node i instead of its actor, for the sake of step d. */
static void reverse(struct kin__tree *tree, uint32_t i, uint32_t d)
{
    struct kin__node *node = kin__tree_node(tree, i);
    const uint64_t others = ~bit(node->actor);
    unsigned found;

    if (KIN__UNLIKELY(does_less(tree, i, d)))
        node->todo |= node->enabled;
    else if (any_initial(tree, (node->todo | node->sleep) & others, i, &found))
        return;
    else if (!guide_round(tree, i, d))
        node->todo |= node->enabled;
}

static void put(const struct kin__tree *tree, uint32_t i, unsigned actor)
{
    struct kin__node *node = kin__tree_node(tree, i);

    node->todo |= node->enabled & bit(actor) ? bit(actor) : node->enabled;
}

/* The same with a bound on preemptions, for the sake of an actor. */
static void reverse_bounded(const struct kin__tree *tree, uint32_t i, unsigned actor)
{
    put(tree, i, actor);
    while (i > 0 && kin__tree_node(tree, i - 1)->actor == kin__tree_node(tree, i)->actor)
        i--;
    put(tree, i, actor);
}

/* The last step of each actor that conflicts with this one. */
struct rivals {
    uint64_t actors;
    uint32_t last[KIN__TREE_ACTORS]; /* plus 1 */
};

static void add_rival(const struct kin__tree *tree, struct rivals *rivals, uint32_t step)
{
    const unsigned actor = kin__tree_node(tree, step)->actor;

    if (!(rivals->actors & bit(actor)) || rivals->last[actor] < step + 1)
        rivals->last[actor] = step + 1;
    rivals->actors |= bit(actor);
}

/* Those who touched the same thing this way since it was written last. */
static void add_chain(const struct kin__tree *tree, struct rivals *rivals,
                      const struct kin__tread *tread, unsigned way)
{
    /* Ends: touches before are earlier. */
    for (uint32_t at = tread->before[way]; at > tread->before[WRITES];
         at = tread_at(tree, at - 1)->before[way])
        add_rival(tree, rivals, tread_at(tree, at - 1)->node);
}

static void find_rivals(const struct kin__tree *tree, const struct kin__node *node,
                        struct rivals *rivals)
{
    for (uint32_t i = node->touches; i < node->touches + node->touch_count; i++) {
        const struct kin__tread *tread = tread_at(tree, i);
        if (tread->before[WRITES])
            add_rival(tree, rivals, tread_at(tree, tread->before[WRITES] - 1)->node);
        if (conflict(tread->way, READS))
            add_chain(tree, rivals, tread, READS);
        if (conflict(tread->way, ADDS))
            add_chain(tree, rivals, tread, ADDS);
    }
    if (node->barrier)
        add_rival(tree, rivals, node->barrier - 1u);
    for (unsigned a = 0; tree->is_barrier && a < tree->stride; a++)
        if (tree->last[a] && a != node->actor)
            add_rival(tree, rivals, tree->last[a] - 1u);
    rivals->actors &= ~bit(node->actor);
}

static void find_races(struct kin__tree *tree, uint32_t d, uint16_t *clock)
{
    struct rivals rivals;

    rivals.actors = 0;
    find_rivals(tree, kin__tree_node(tree, d), &rivals);
    while (rivals.actors) {
        unsigned latest = kin__first_bit64(rivals.actors);
        for (uint64_t rest = rivals.actors; rest; rest &= rest - 1) {
            unsigned actor = kin__first_bit64(rest);
            if (rivals.last[actor] > rivals.last[latest])
                latest = actor;
        }
        rivals.actors &= ~bit(latest);
        const uint32_t step = rivals.last[latest];
        if (clock[latest] >= step)
            continue; /* it comes before in another way */
        if (tree->bound)
            reverse_bounded(tree, step - 1, kin__tree_node(tree, d)->actor);
        else
            reverse(tree, step - 1, d);
        join(clock, clock_of(tree, step - 1), tree->stride);
    }
}

bool kin__dpor_close(struct kin__lab *s, uint64_t stopped)
{
    struct kin__tree *tree = &s->tree;
    const uint32_t d = tree->at - 1;
    struct kin__node *node = kin__tree_node(tree, d);

    if (!widen_clocks(s, d + 1) || !gather(s, node, d))
        return false;
    /* Whoever can no longer go on might have done so first. */
    node->todo |= stopped;
    for (; tree->bound && stopped; stopped &= stopped - 1)
        reverse_bounded(tree, d, kin__first_bit64(stopped));
    if (!tree->bound && kin__dpor_sleeps(tree, node, answers_of(tree, node)))
        s->is_abandoned = true;
    uint16_t *clock = start_clock(tree, d);
    find_races(tree, d, clock);
    leave_tracks(tree, node);
    clock[node->actor] = (uint16_t)(d + 1);
    if (tree->is_barrier) {
        tree->barrier = d + 1;
        node->bloom = BARRIER;
    }
    if (tree->is_idle) {
        for (unsigned a = 0; a < tree->stride && a < KIN__TREE_ACTORS; a++)
            if (tree->last[a])
                join(clock, clock_of(tree, tree->last[a] - 1u), tree->stride);
        tree->idle = d + 1;
    }
    return true;
}

/* ---- sleep ---- */

/* Whether the step that has just ended conflicts with what the sleeper would do. */
static bool wakes(const struct kin__tree *tree, const struct kin__node *node,
                  const struct kin__sleeper *sleeper)
{
    if (sleeper->bloom == BARRIER)
        return true;
    if (!(sleeper->bloom & node->bloom))
        return false;
    for (uint32_t i = 0; i < sleeper->touch_count; i++) {
        const struct kin__tread *tread = tread_at(tree, sleeper->touches + i);
        const struct kin__thing *thing = &things_of(tree)[tread->thing];
        if (thing->stamp == tree->stamp && conflict(way_of(thing->modes), tread->way))
            return true;
    }
    return false;
}

/* Who among the sleepers of a node has to be tried, with some answers at least, after its step. */
static uint64_t find_awake(const struct kin__tree *tree, const struct kin__node *node)
{
    uint64_t awake = 0;

    for (uint32_t i = 0; i < node->sleeper_count; i++) {
        const struct kin__sleeper *sleeper = sleeper_at(tree, node->sleepers + i);
        const uint64_t actor = bit(sleeper->actor);
        /* Whoever was done at the node has been tried with all answers by now. */
        if ((sleeper->is_partial && !(node->done & actor)) || wakes(tree, node, sleeper))
            awake |= actor;
    }
    return awake;
}

bool kin__dpor_sleep(struct kin__lab *s, struct kin__node *next)
{
    struct kin__tree *tree = &s->tree;
    const struct kin__node *node = next - 1;
    const uint64_t out = bit(node->actor) | ~next->enabled;

    if (tree->is_barrier || node->sleeper_count == 0)
        return true;
    if (!kin__room_fits(&tree->sleepers, (size_t)tree->sleeper_count + node->sleeper_count,
                        sizeof(struct kin__sleeper)))
        return no_memory(s);
    const uint64_t awake = find_awake(tree, node);
    for (uint32_t i = 0; i < node->sleeper_count; i++) {
        struct kin__sleeper sleeper = *sleeper_at(tree, node->sleepers + i);
        const uint64_t actor = bit(sleeper.actor);
        sleeper.is_partial = (awake & actor) != 0;
        if ((out & actor) || (sleeper.is_partial && sleeper.bloom))
            continue;
        *sleeper_at(tree, tree->sleeper_count++) = sleeper;
        next->sleep |= actor & ~awake;
    }
    next->sleeper_count = tree->sleeper_count - next->sleepers;
    return true;
}

/* A sleeper of the node that would touch the same in the same ways as its step; NULL: none. */
static const struct kin__sleeper *find_alike(const struct kin__tree *tree,
                                             const struct kin__node *node)
{
    for (uint32_t i = 0; i < node->sleeper_count; i++) {
        const struct kin__sleeper *sleeper = sleeper_at(tree, node->sleepers + i);
        uint32_t same = 0;
        if (sleeper->actor != node->actor || sleeper->touch_count != node->touch_count ||
            sleeper->bloom != node->bloom)
            continue;
        while (same < node->touch_count &&
               tread_at(tree, sleeper->touches + same)->thing ==
                   tread_at(tree, node->touches + same)->thing &&
               tread_at(tree, sleeper->touches + same)->way ==
                   tread_at(tree, node->touches + same)->way)
            same++;
        if (same == node->touch_count)
            return sleeper;
    }
    return NULL;
}

bool kin__dpor_tried(struct kin__lab *s, uint32_t d)
{
    struct kin__tree *tree = &s->tree;
    struct kin__node *node = kin__tree_node(tree, d);
    const uint64_t answers = answers_of(tree, node);
    struct kin__sleeper tried = {node->bloom,       answers,     node->touches,
                                 node->touch_count, node->actor, false};

    wipe_tracks(tree, node);
    if (!tree->bound && !kin__dpor_sleeps(tree, node, answers)) {
        const struct kin__sleeper *alike = find_alike(tree, node);
        if (alike)
            tried.touches = alike->touches;
        else
            node->touches = tree->touch_count;
        if (!kin__room_fits(&tree->sleepers, tree->sleeper_count + 1u, sizeof(struct kin__sleeper)))
            return no_memory(s);
        *sleeper_at(tree, tree->sleeper_count++) = tried;
        node->sleeper_count++;
    }
    tree->touch_count = node->touches;
    node->touch_count = 0;
    return true;
}
