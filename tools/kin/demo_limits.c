/* SPDX-License-Identifier: MIT */
/*
 * The stations about limits: a tree that ends at its deadline, a hog with a budget.
 */
#include "tool.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- a tree with a deadline ---- */

enum { WIDTH = 8, DEPTH = 4 }; /* 8 + 64 + 512 + 4096 tasks below the first one */

struct tree {
    kin_time deadline;
    unsigned depth;
    atomic_uint leaves, told_why, cleaned, said_goodbye;
    int64_t late_ns; /* the join, after the deadline */
};

struct branch {
    struct tree *tree;
    unsigned depth;
};

/* Gives something back, and must not be cut short: the mask holds the cancellation back. */
static void clean_up(void *arg)
{
    struct tree *tree = arg;

    kin_mask();
    if (kin_sleep(kin_after(KIN_MS(1))) == 0)
        atomic_fetch_add(&tree->said_goodbye, 1);
    kin_unmask();
    atomic_fetch_add(&tree->cleaned, 1);
}

static int wait_at_leaf(struct tree *tree)
{
    int rc = kin_defer(clean_up, tree);

    if (rc < 0)
        return rc;
    atomic_fetch_add(&tree->leaves, 1);
    rc = kin_sleep(KIN_NEVER);
    if (rc == KIN_CANCELLED && kin_cancel_reason() == KIN_TIMEOUT)
        atomic_fetch_add(&tree->told_why, 1);
    return rc;
}

static int grow(void *arg)
{
    const struct branch *branch = arg;
    struct branch child = {branch->tree, branch->depth - 1};
    int rc = 0;

    if (branch->depth == 0)
        return wait_at_leaf(branch->tree);
    KIN_NURSERY(n, .name = "branch");
    for (unsigned i = 0; i < WIDTH && rc == 0; i++)
        rc = kin_spawn(&n, grow, &child);
    return kin_nursery_end(&n, rc); /* KIN_CANCELLED: the deadline found the branch growing */
}

static int grow_until(void *arg)
{
    struct tree *tree = arg;
    struct branch root = {tree, tree->depth};
    KIN_NURSERY(n, .name = "tree", .deadline = kin_after(KIN_MS(200)));
    kin_time deadline = kin_after(KIN_MS(200));
    int rc = kin_spawn(&n, grow, &root);

    rc = kin_nursery_end(&n, rc);
    tree->late_ns = kin_now() - deadline;
    return rc == KIN_TIMEOUT ? 0 : rc < 0 ? rc : KIN_ORPHAN;
}

int demo_deadline(const struct tour *tour)
{
    struct tree tree = {.depth = tour->is_quick ? DEPTH - 1 : DEPTH};
    int rc;

    print_text("A nursery has 200 ms. Its child opens a nursery with %u children, each of these "
               "another, %u levels deep; the leaves put down a cleanup and wait for ever. The "
               "deadline cancels the outermost nursery, the cancellation reaches every leaf, each "
               "cleans up under a mask, and the join says KIN_TIMEOUT after the last one.",
               (unsigned)WIDTH, tree.depth);
    rc = demo_run(0, grow_until, &tree);
    if (rc < 0)
        return rc;
    unsigned leaves = atomic_load(&tree.leaves);
    if (atomic_load(&tree.cleaned) != leaves || atomic_load(&tree.said_goodbye) != leaves)
        return demo_wrong("not every leaf has cleaned up", KIN_CLEANUP);
    if (atomic_load(&tree.told_why) != leaves)
        return demo_wrong("not every leaf was told why", KIN_CANCELLED);
    print_figure("leaves", "%s were told why and cleaned up", text_count(leaves));
    print_figure("the join came back", "%s after the deadline",
                 text_ns((double)tree.late_ns));
    return 0;
}

/* ---- a hog with a budget ---- */

enum { NEIGHBOURS = 10, TICKS = 100, HOG_OPS = 3000000 };

struct farm {
    bool has_hog;
    unsigned ticks;          /* of each neighbour */
    atomic_uint neighbours;  /* that are done */
    uint64_t hog_ops;        /* what the hog has done */
    int hog_end;
    int64_t *late;           /* of each tick, in ns */
};

struct neighbour {
    struct farm *farm;
    unsigned number;
};

/* Wakes once in a millisecond and notes how late. */
static int tick(void *arg)
{
    const struct neighbour *self = arg;
    struct farm *farm = self->farm;
    kin_time next = kin_now();

    for (unsigned i = 0; i < farm->ticks; i++) {
        next += KIN_MS(1);
        int rc = kin_sleep(next);
        if (rc < 0)
            return rc;
        farm->late[self->number * farm->ticks + i] = kin_now() - next;
    }
    atomic_fetch_add(&farm->neighbours, 1);
    return 0;
}

/* Takes all that it can get; its nursery gives it so much and no more. */
static int eat(void *arg)
{
    struct farm *farm = arg;

    while ((farm->hog_end = kin_checkpoint()) == 0)
        farm->hog_ops++;
    return 0;
}

static int feed_hog(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n, .name = "sty", .recharge = KIN_RECHARGE_MANUAL,
                .on_exhausted = KIN_EXHAUSTED_FAIL, .budget = {.ops = HOG_OPS, .spawns = 1});

    options.name = "hog";
    options.budget.ops = HOG_OPS;
    int rc = kin_spawn_with(&n, &options, eat, arg, 0, NULL);
    return kin_nursery_end(&n, rc);
}

static int live_together(void *arg)
{
    struct farm *farm = arg;
    KIN_NURSERY(n, .name = "farm");
    int rc = farm->has_hog ? kin_spawn(&n, feed_hog, farm) : 0;

    for (unsigned i = 0; i < NEIGHBOURS && rc == 0; i++)
        rc = kin_spawn_copy(&n, tick, KIN_ARGS(struct neighbour, farm, i));
    return kin_nursery_end(&n, rc);
}

static int compare_ns(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

static int run_farm(struct farm *farm, const char *name)
{
    size_t count = (size_t)NEIGHBOURS * farm->ticks;

    farm->late = calloc(count, sizeof(*farm->late));
    int rc = farm->late ? demo_run(1, live_together, farm) : KIN_PANICKED;
    if (rc == 0 && atomic_load(&farm->neighbours) != NEIGHBOURS)
        rc = demo_wrong("not every neighbour came to its end", KIN_ORPHAN);
    if (rc == 0) {
        qsort(farm->late, count, sizeof(*farm->late), compare_ns);
        print_figure(name, "half of the ticks < %s late, 99%% < %s",
                     text_ns((double)farm->late[count / 2]),
                     text_ns((double)farm->late[count / 100 * 99]));
    }
    free(farm->late);
    return rc;
}

int demo_hog(const struct tour *tour)
{
    unsigned ticks = tour->is_quick ? TICKS : TICKS * 4;
    struct farm quiet = {.ticks = ticks}, loud = {.ticks = ticks, .has_hog = true};

    print_text("On one worker %u tasks wake up once in a millisecond, first among themselves, then "
               "beside a hog that does nothing but checkpoints. A turn is 1024 operations, so the "
               "others get theirs; and the hog's nursery gives it %s operations and no more.",
               (unsigned)NEIGHBOURS, text_count(HOG_OPS));
    int rc = run_farm(&quiet, "without the hog");
    if (rc == 0)
        rc = run_farm(&loud, "beside the hog");
    if (rc < 0)
        return rc;
    if (loud.hog_end != KIN_BUDGET || loud.hog_ops != HOG_OPS)
        return demo_wrong("the hog should have eaten its budget exactly", loud.hog_end);
    print_figure("the hog", "%s operations, then %s", text_count(loud.hog_ops),
                 kin_status_name(loud.hog_end));
    return 0;
}
