/* SPDX-License-Identifier: MIT */
/*
 * Goal: a run follows its guide as far as those on it can go on; pieces that nobody needs are used
 * again; without memory a guide is shorter, and nothing else.
 * Method: a tree without a search, whose nodes get guides of any length.
 */
#include "kin_test.h"

#include "lab/state.h"
#include "lab/tree.h"
#include "plat/plat.h"

#define ANYBODY UINT64_MAX /* as a set: everybody can go on */

/* A guide through count steps, of actors that first begins and the others follow in a circle. */
static uint32_t make_guide(struct kin__tree *tree, unsigned first, unsigned count)
{
    uint32_t guide = 0, last = 0;
    for (unsigned i = 0; i < count; i++)
        kin__guide_add(tree, &guide, &last, (first + i) % KIN__TREE_ACTORS);
    return guide;
}

/* How many steps the run makes by its guide, after the node's own, when everybody can go on. */
static unsigned follow(struct kin__tree *tree, unsigned first)
{
    unsigned steps = 0, actor;
    while ((actor = kin__guide_next(tree, ANYBODY)) != KIN__NOBODY)
        EXPECT_EQ(actor, (first + ++steps) % KIN__TREE_ACTORS);
    return steps;
}

KIN_TEST(a_run_follows_the_guide_that_begins_with_its_actor, "")
{
    struct kin__tree tree = {.depth = 0};
    struct kin__node node = {.guides = 0};

    kin__tree_start(&tree, true, 0);
    for (unsigned actor = 0; actor < 40; actor++)
        kin__guide_give(&tree, &node, make_guide(&tree, actor, actor + 1));
    for (unsigned actor = 40; actor-- > 0;) {
        node.actor = (uint16_t)actor;
        kin__guide_take(&tree, &node);
        EXPECT_EQ(follow(&tree, actor), actor);
    }
    EXPECT_EQ(node.guides, 0);
    kin__guide_take(&tree, &node);
    EXPECT_EQ(follow(&tree, 0), 0);
    kin__tree_release(&tree);
}

KIN_TEST(a_guide_ends_where_its_actor_cannot_go_on, "")
{
    struct kin__tree tree = {.depth = 0};
    struct kin__node node = {.actor = 3};

    kin__tree_start(&tree, true, 0);
    kin__guide_give(&tree, &node, make_guide(&tree, 3, 30));
    kin__guide_take(&tree, &node);
    EXPECT_EQ(kin__guide_next(&tree, UINT64_C(1) << 4), 4);
    EXPECT_EQ(kin__guide_next(&tree, UINT64_C(1) << 4), KIN__NOBODY);
    EXPECT_EQ(kin__guide_next(&tree, ANYBODY), KIN__NOBODY);
    kin__tree_release(&tree);
}

KIN_TEST(pieces_that_nobody_needs_are_used_again, "")
{
    struct kin__tree tree = {.depth = 0};
    uint32_t made = 0;

    kin__tree_start(&tree, true, 0);
    for (int round = 0; round < 100; round++) {
        struct kin__node node = {.actor = 1};
        kin__guide_give(&tree, &node, make_guide(&tree, 1, 50)); /* followed for a while */
        kin__guide_give(&tree, &node, make_guide(&tree, 2, 50)); /* forgotten with the node */
        kin__guide_take(&tree, &node);
        EXPECT_EQ(kin__guide_next(&tree, ANYBODY), 2);
        kin__guide_forget(&tree, &node);
        made = round == 1 ? tree.guide_count : made;
    }
    EXPECT_EQ(tree.guide_count, made);
    kin__tree_release(&tree);
}

KIN_TEST(a_guide_for_which_there_is_no_memory_is_shorter, "")
{
    struct kin__tree tree = {.depth = 0};
    struct kin__node node = {.actor = 0};

    kin__tree_start(&tree, true, 0);
    kin__plat_fail_after(1, false);
    EXPECT_EQ(make_guide(&tree, 0, 1), 0);
    kin__plat_fail_after(0, false);
    kin__guide_give(&tree, &node, 0);
    kin__guide_take(&tree, &node);
    EXPECT_EQ(follow(&tree, 0), 0);
    uint32_t guide = make_guide(&tree, 0, UINT32_C(1) << 22); /* more than all pieces hold */
    kin__guide_give(&tree, &node, guide);
    kin__guide_take(&tree, &node);
    unsigned steps = follow(&tree, 0);
    EXPECT_GT(steps, 1u << 20);
    EXPECT_LT(steps, 1u << 22);
    kin__tree_release(&tree);
}
