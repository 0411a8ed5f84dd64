/* SPDX-License-Identifier: MIT */
/*
 * Searching the tree of schedules, depth first: what the next path is, and following it.
 *
 * A run repeats the known part of the path, whose last decision is new, and goes on with whoever
 * runs. Then the deepest decision that has something left is changed. Without reduction everybody
 * who could go on is left at every node; with it (dpor.c) only those whom a race has put there.
 *
 * Loops that wait for others make the tree endless. So nobody who can go on is passed over for more
 * than patience steps: then it is the only one who may. When a search that left something out for
 * this reason is over, it begins anew with more patience, up to PATIENCE_MAX, or until it has made
 * too many runs; then it is not complete. A search that left nothing out was one of all schedules.
 * A run of a program that ends under every fair schedule ends here, too; and of one that is too
 * deep the rest is run by turns, so that a livelock is found.
 *
 * With a bound on preemptions a node leaves out whom it would cost one too many. Sleep sets are not
 * used then: what they leave out was found elsewhere, perhaps only with more preemptions.
 */
#include "lab/tree.h"

#include "base/bits.h"
#include "lab/state.h"

#include <errno.h>
#include <string.h>

#define TOO_MANY "DPOR and DFS cannot search a test with more than 64 actors"
#define PATIENCE_FIRST 64u
#define PATIENCE_MAX 256u
#define UNFAIR_RUNS 200000u /* of a search that has left something out for want of patience */
#define SLEEPERS_PATIENCE 8u /* times as long may somebody be passed over who need not be tried */

static uint64_t bit(unsigned actor)
{
    return UINT64_C(1) << actor;
}

static struct kin__fork *fork_at(const struct kin__tree *tree, uint32_t i)
{
    return (struct kin__fork *)tree->forks.base + i;
}

void kin__tree_start(struct kin__tree *tree, bool reduces, uint32_t bound)
{
    tree->depth = tree->fork_count = tree->touch_count = tree->sleeper_count = 0;
    tree->has_begun = tree->is_exhausted = tree->is_cut = tree->is_refused = false;
    tree->is_unfair = tree->is_too_deep = false;
    tree->runs = 0;
    tree->patience = PATIENCE_FIRST;
    tree->reduces = reduces;
    tree->bound = bound;
    tree->around = NULL;
    tree->thing_count = 0;
    tree->guide_count = tree->guide_free = tree->guide = 0;
    tree->stamp = 0;
    if (tree->things.base)
        memset(tree->things.base, 0, tree->thing_size * sizeof(struct kin__thing));
}

void kin__tree_release(struct kin__tree *tree)
{
    kin__room_release(&tree->nodes);
    kin__room_release(&tree->forks);
    kin__room_release(&tree->touches);
    kin__room_release(&tree->sleepers);
    kin__room_release(&tree->clocks);
    kin__room_release(&tree->things);
    kin__room_release(&tree->guides);
}

/* ---- the next path ---- */

/* Whether it preempts somebody that this actor goes on at node d; around a script: whether neither
 * that nor the run so far calls for it. */
static bool preempts(const struct kin__tree *tree, uint32_t d, unsigned actor)
{
    if (d == 0)
        return false;
    const struct kin__node *node = kin__tree_node(tree, d);
    const unsigned runs = kin__tree_node(tree, d - 1)->actor;
    if (tree->around && node->wish != KIN__NOBODY)
        return actor != node->wish && actor != runs;
    return runs != actor && (node->enabled & bit(runs)) != 0;
}

/* Who is still to be tried at node d; as far as the bound allows. */
static uint64_t left_at(struct kin__tree *tree, uint32_t d)
{
    const struct kin__node *node = kin__tree_node(tree, d);
    uint64_t left = node->todo & node->enabled & ~node->done;

    if (!tree->bound)
        left &= ~node->sleep;
    if (KIN__UNLIKELY(left & node->denied))
        tree->is_unfair = true;
    left &= ~node->denied;
    if (!tree->bound)
        return left;
    for (uint64_t rest = left; rest; rest &= rest - 1) {
        unsigned actor = kin__first_bit64(rest);
        if (node->spent + preempts(tree, d, actor) < tree->bound)
            continue;
        left &= ~bit(actor);
        tree->is_cut = true;
    }
    return left;
}

/* The first answer from here on with which the last node need not sleep; n: none. Only a step with
 * this one choice is known beforehand to sleep. */
static uint32_t next_answer(const struct kin__tree *tree, uint32_t i, uint32_t from, uint32_t n)
{
    if (tree->depth == 0 || !tree->reduces || tree->bound)
        return from;
    const struct kin__node *node = kin__tree_node(tree, tree->depth - 1);
    while (i == node->forks && from < n && kin__dpor_sleeps(tree, node, kin__dpor_answers(0, from)))
        from++;
    return from;
}

/* Changes the last choice of the last node that has another answer left. */
static bool next_fork(struct kin__lab *s)
{
    struct kin__tree *tree = &s->tree;
    uint32_t first = tree->depth ? kin__tree_node(tree, tree->depth - 1)->forks : 0;

    for (; tree->fork_count > first; tree->fork_count--) {
        struct kin__fork *fork = fork_at(tree, tree->fork_count - 1);
        fork->answer = next_answer(tree, tree->fork_count - 1, fork->answer + 1, fork->n);
        if (fork->answer < fork->n)
            return true;
    }
    return false;
}

/* Finds the deepest decision that has something left; what is deeper goes. */
static bool step_back(struct kin__lab *s)
{
    struct kin__tree *tree = &s->tree;

    for (; tree->depth; tree->depth--) {
        struct kin__node *node = kin__tree_node(tree, tree->depth - 1);
        if (tree->reduces && !kin__dpor_tried(s, tree->depth - 1))
            return false;
        if (next_fork(s))
            return true;
        node->done |= bit(node->actor);
        uint64_t left = left_at(tree, tree->depth - 1);
        if (left) {
            node->actor = (uint16_t)kin__first_bit64(left);
            kin__guide_take(tree, node);
            return true;
        }
        kin__guide_forget(tree, node);
        tree->touch_count = node->floor;
        tree->sleeper_count = node->sleepers;
    }
    return next_fork(s);
}

bool kin__tree_next(struct kin__lab *s)
{
    struct kin__tree *tree = &s->tree;

    if (tree->is_exhausted || tree->is_refused ||
        (tree->is_unfair && tree->runs >= UNFAIR_RUNS && !tree->around))
        return false;
    if (tree->has_begun && !step_back(s)) {
        const uint32_t patience = 4 * tree->patience;
        if (s->broken || !tree->is_unfair || patience > PATIENCE_MAX) {
            tree->is_exhausted = !s->broken;
            return false;
        }
        const struct kin__script *around = tree->around;
        kin__tree_start(tree, tree->reduces, tree->bound);
        tree->patience = patience;
        tree->around = around;
    }
    tree->has_begun = true;
    tree->runs++;
    return true;
}

/* The part of the tree that lies behind, in units of 2^-62: at each decision the branches that are
 * done, each as large as the others. */
uint64_t kin__tree_estimate(const struct kin__tree *tree, uint64_t runs)
{
    uint64_t weight = UINT64_C(1) << 62, behind = 0;
    uint32_t fork = 0;

    for (uint32_t d = 0; d <= tree->depth && weight; d++) {
        uint32_t end = d < tree->depth ? kin__tree_node(tree, d)->forks : tree->fork_count;
        for (; fork < end && weight; fork++) {
            weight /= fork_at(tree, fork)->n;
            behind += weight * fork_at(tree, fork)->answer;
        }
        if (d == tree->depth)
            break;
        const struct kin__node *node = kin__tree_node(tree, d);
        uint64_t all = node->todo & (tree->bound ? node->enabled : ~node->sleep);
        weight /= (unsigned)__builtin_popcountll(all | bit(node->actor));
        behind += weight * (unsigned)__builtin_popcountll(node->done);
    }
    if (behind == 0 || tree->is_exhausted)
        return tree->is_exhausted ? runs : 0;
    kin__wide all = ((kin__wide)runs << 62) / behind;
    return all > UINT64_MAX ? UINT64_MAX : (uint64_t)all;
}

/* ---- following a path ---- */

static void tree_begin(struct kin__lab *s)
{
    struct kin__tree *tree = &s->tree;

    tree->prefix = tree->depth;
    tree->fork_prefix = tree->fork_count;
    tree->at = tree->fork_at = 0;
    tree->closed = tree->depth ? tree->depth - 1 : 0;
    tree->is_barrier = tree->is_idle = false;
    tree->idle = tree->barrier = 0;
    tree->is_too_deep = false;
    memset(tree->since, 0, sizeof(tree->since));
    memset(tree->last, 0, sizeof(tree->last));
    memset(tree->waker, 0, sizeof(tree->waker));
    memset(tree->parent, 0, sizeof(tree->parent));
    if (tree->around)
        kin__script_begin(s);
}

static void refuse(struct kin__lab *s, const char *text)
{
    s->tree.is_refused = true;
    s->is_abandoned = true;
    if (s->config.strategy != KIN__STRATEGY_AUTO && s->config.strategy != KIN__STRATEGY_REPLAY &&
        s->phase == KIN__PHASE_EXPLORE)
        kin__lab_broke(s, -E2BIG, text);
    else
        kin__lab_over(s);
}

static void tree_born(struct kin__lab *s, unsigned actor)
{
    if (actor >= KIN__TREE_ACTORS)
        refuse(s, TOO_MANY);
    else
        s->tree.parent[actor] = (uint16_t)s->tree.at;
}

/* The last step has ended, and mask says who can go on after it. */
static bool close_step(struct kin__lab *s, uint64_t mask)
{
    struct kin__tree *tree = &s->tree;
    struct kin__node *node = kin__tree_node(tree, tree->at - 1);

    for (uint64_t woken = mask & ~node->enabled; woken; woken &= woken - 1)
        tree->waker[kin__first_bit64(woken)] = (uint16_t)tree->at;
    if (tree->at <= tree->closed || !tree->reduces)
        return true;
    tree->closed = tree->at;
    return kin__dpor_close(s, node->enabled & ~mask & ~bit(node->actor));
}

/* The actor that the guide names goes on; without one, the actor of the step before, if it can. */
static void choose_first(struct kin__tree *tree, struct kin__node *node,
                         const struct kin__node *before, uint64_t can)
{
    unsigned actor = kin__guide_next(tree, can);

    if (actor == KIN__NOBODY)
        actor = before && (can & bit(before->actor)) ? before->actor : kin__first_bit64(can);
    node->actor = (uint16_t)actor;
    if (before && before->actor == actor)
        node->row = (uint16_t)(before->row + (before->row < UINT16_MAX));
}

/* Who may go on at a new node, of those who can: all, or the one who has waited for too long. 0:
 * there is one who need not be tried, and has waited even longer. */
static uint64_t allow(struct kin__tree *tree, uint64_t can, uint64_t asleep)
{
    unsigned longest = KIN__TREE_ACTORS;

    for (uint64_t rest = asleep; rest; rest &= rest - 1)
        if (tree->at - tree->since[kin__first_bit64(rest)] >= SLEEPERS_PATIENCE * tree->patience)
            return 0;
    for (uint64_t rest = can; rest; rest &= rest - 1) {
        unsigned actor = kin__first_bit64(rest);
        if (tree->at - tree->since[actor] >= tree->patience &&
            (longest == KIN__TREE_ACTORS || tree->since[actor] < tree->since[longest]))
            longest = actor;
    }
    return longest == KIN__TREE_ACTORS ? can : bit(longest);
}

/* A node behind the known part. False: no memory, or nobody has to be tried. */
static bool add_node(struct kin__lab *s, const struct kin__menu *menu)
{
    struct kin__tree *tree = &s->tree;
    const uint32_t d = tree->at;

    if (!kin__room_fits(&tree->nodes, d + 1u, sizeof(struct kin__node))) {
        kin__lab_broke(s, -ENOMEM, "there is no memory to search deeper");
        return false;
    }
    struct kin__node *node = kin__tree_node(tree, d), *before = d ? node - 1 : NULL;
    *node = (struct kin__node){.enabled = menu->mask,
                               .mark = menu->mark,
                               .forks = tree->fork_count,
                               .floor = tree->touch_count,
                               .touches = tree->touch_count,
                               .sleepers = tree->sleeper_count,
                               .idle = (uint16_t)tree->idle,
                               .barrier = (uint16_t)tree->barrier};
    if (before)
        node->spent = before->spent + preempts(tree, d - 1, before->actor);
    if (before && tree->reduces && !tree->bound && !kin__dpor_sleep(s, node))
        return false;
    uint64_t can = menu->mask & ~node->sleep;
    if (!can) {
        s->is_abandoned = true;
        kin__lab_over(s);
        return false;
    }
    if (KIN__UNLIKELY(d >= tree->patience)) {
        const uint64_t allowed = allow(tree, can, menu->mask & node->sleep);
        node->denied = menu->mask & ~allowed;
        can = allowed;
    }
    if (!can) {
        tree->is_unfair = s->is_abandoned = true;
        kin__lab_over(s);
        return false;
    }
    if (!tree->around || !kin__near_first(s, menu, node, can))
        choose_first(tree, node, before, can);
    node->todo = tree->reduces ? bit(node->actor) : menu->mask;
    tree->depth = d + 1;
    return true;
}

/* The run is too deep to be searched: it is brought to its end, which may be that it has none. */
static unsigned go_by_turns(struct kin__lab *s, const struct kin__menu *menu)
{
    if (!s->tree.is_too_deep)
        s->turn = s->current;
    s->tree.is_too_deep = true;
    s->head.collects = false;
    return kin__turns_pick(s, menu);
}

/* From when on each of them could go on. */
static void count_waits(struct kin__tree *tree, const struct kin__node *node)
{
    const uint32_t d = tree->at - 1;

    for (uint64_t fresh = d ? node->enabled & ~(node - 1)->enabled : node->enabled; fresh;
         fresh &= fresh - 1)
        tree->since[kin__first_bit64(fresh)] = d;
    tree->since[node->actor] = d + 1;
}

static unsigned tree_pick(struct kin__lab *s, const struct kin__menu *menu)
{
    struct kin__tree *tree = &s->tree;

    if (!menu->is_small) {
        refuse(s, TOO_MANY);
        return KIN__NOBODY;
    }
    if (KIN__UNLIKELY(tree->at == KIN__TREE_DEPTH))
        return go_by_turns(s, menu);
    if (tree->at && !close_step(s, menu->mask))
        return KIN__NOBODY;
    if (s->is_abandoned) { /* the step sleeps */
        kin__lab_over(s);
        return KIN__NOBODY;
    }
    if (tree->at < tree->prefix) {
        const struct kin__node *node = kin__tree_node(tree, tree->at);
        if (node->enabled != menu->mask || node->mark != menu->mark) {
            const struct kin__asked now = {.menu = menu};
            const struct kin__decision recorded = {
                .seen = node->enabled, .kind = KIN__CHOICE_TASK, .answer = KIN__NO_NAME};
            kin__lab_diverged(s, s->log.count, &recorded, NULL, &now);
            return KIN__NOBODY;
        }
    } else if (!add_node(s, menu)) {
        return KIN__NOBODY;
    }
    struct kin__node *node = kin__tree_node(tree, tree->at++);
    count_waits(tree, node);
    node->before = tree->last[node->actor];
    tree->last[node->actor] = (uint16_t)tree->at;
    tree->idle = node->idle;
    tree->barrier = node->barrier;
    tree->is_barrier = tree->is_idle = false;
    s->head.collects = tree->reduces && tree->at >= tree->prefix;
    return node->actor;
}

static uint32_t tree_choose(struct kin__lab *s, enum kin__choice kind, uint32_t n,
                            const char *label)
{
    struct kin__tree *tree = &s->tree;
    uint32_t pledged = 0;
    const bool is_pledged = tree->around && kin__script_answer(s, kind, n, &pledged);

    if (kind == KIN__CHOICE_RANDOM || n == 0)
        return is_pledged ? pledged : kin__lab_dice(s, n);
    if (n == 1 || tree->is_too_deep)
        return 0;
    if (tree->fork_at < tree->fork_prefix) {
        const struct kin__fork *fork = fork_at(tree, tree->fork_at++);
        if (fork->kind == kind && fork->mark == s->mark)
            return (fork->answer + fork->first) % n;
        const struct kin__asked now = {.label = label, .kind = kind, .n = n};
        const struct kin__decision recorded = {.seen = fork->n, .kind = fork->kind};
        kin__lab_diverged(s, s->log.count, &recorded, NULL, &now);
        return 0;
    }
    if (!kin__room_fits(&tree->forks, tree->fork_count + 1u, sizeof(struct kin__fork))) {
        kin__lab_broke(s, -ENOMEM, "there is no memory to search deeper");
        return 0;
    }
    uint32_t first = next_answer(tree, tree->fork_count, 0, n);
    first = first < n ? first : 0;
    *fork_at(tree, tree->fork_count++) =
        (struct kin__fork){n, first, pledged, s->mark, (uint8_t)kind};
    tree->fork_at++;
    return (first + pledged) % n;
}

static void tree_over(struct kin__lab *s)
{
    struct kin__tree *tree = &s->tree;

    if (tree->is_refused || s->broken)
        return;
    if (KIN__UNLIKELY(tree->is_too_deep)) {
        if (!s->run_failure.oracle)
            refuse(s, "DPOR and DFS cannot search runs of more than 65,534 steps");
        return;
    }
    if (tree->at < tree->prefix || tree->fork_at < tree->fork_prefix) {
        const struct kin__asked now = {.menu = NULL};
        const struct kin__decision recorded = {
            .seen = tree->at < tree->prefix ? kin__tree_node(tree, tree->at)->enabled : 0,
            .kind = KIN__CHOICE_TASK,
            .answer = KIN__NO_NAME};
        kin__lab_diverged(s, s->log.count, &recorded, NULL, &now);
    } else if (tree->at) {
        (void)close_step(s, 0); /* whoever did not come to it might have gone first */
    }
}

const struct kin__plan kin__plan_tree = {.name = "dpor",
                                         .begin = tree_begin,
                                         .pick = tree_pick,
                                         .choose = tree_choose,
                                         .born = tree_born,
                                         .over = tree_over};
