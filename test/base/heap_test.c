/* SPDX-License-Identifier: MIT */
/*
 * The heap: its edges one by one, then random operations against a search through all nodes.
 */
#include "base/heap.h"

#include "base/rng.h"
#include "kin_test.h"

#include <stdlib.h>

enum { CAP = 200, ROUNDS = 20000 };

/* Every node knows its slot and none comes before its parent. */
static void expect_ordered(const struct kin__heap *heap)
{
    for (size_t i = 0; i < heap->count; i++) {
        EXPECT_EQ(heap->slots[i]->index, i + 1);
        if (i > 0)
            EXPECT(!kin__heap_before(heap->slots[i], heap->slots[(i - 1) / 4]));
    }
}

KIN_TEST(an_empty_heap_gives_nothing, "")
{
    struct kin__heap heap;
    kin__heap_init(&heap, NULL, 0);
    struct kin__heap_node node = {.key = 1};
    EXPECT_PTR(kin__heap_peek(&heap), NULL);
    EXPECT_PTR(kin__heap_pop(&heap), NULL);
    EXPECT(!kin__heap_insert(&heap, &node));
    EXPECT(!kin__heap_is_in(&node));
}

KIN_TEST(a_full_heap_refuses_and_keeps_what_it_has, "")
{
    struct kin__heap_node *slots[2];
    struct kin__heap_node nodes[3] = {{.key = 3}, {.key = 1}, {.key = 2}};
    struct kin__heap heap;
    kin__heap_init(&heap, slots, 2);
    EXPECT(kin__heap_insert(&heap, &nodes[0]));
    EXPECT(kin__heap_insert(&heap, &nodes[1]));
    EXPECT(!kin__heap_insert(&heap, &nodes[2]));
    EXPECT(!kin__heap_is_in(&nodes[2]));
    EXPECT_EQ(heap.count, 2);
    EXPECT_PTR(kin__heap_peek(&heap), &nodes[1]);
}

KIN_TEST(moved_to_larger_storage_it_goes_on, "")
{
    struct kin__heap_node *small[2], *large[4];
    struct kin__heap_node nodes[3] = {{.key = 3}, {.key = 1}, {.key = 2}};
    struct kin__heap heap;
    kin__heap_init(&heap, small, 2);
    EXPECT(kin__heap_insert(&heap, &nodes[0]));
    EXPECT(kin__heap_insert(&heap, &nodes[1]));
    EXPECT_PTR(kin__heap_move(&heap, large, 4), small);
    EXPECT(kin__heap_insert(&heap, &nodes[2]));
    EXPECT_PTR(kin__heap_pop(&heap), &nodes[1]);
    EXPECT_PTR(kin__heap_pop(&heap), &nodes[2]);
    EXPECT_PTR(kin__heap_pop(&heap), &nodes[0]);
}

KIN_TEST(equal_keys_leave_in_the_order_of_seq, "")
{
    static struct kin__heap_node nodes[CAP];
    struct kin__heap_node *slots[CAP];
    struct kin__heap heap;
    kin__heap_init(&heap, slots, CAP);
    for (size_t i = 0; i < CAP; i++) {
        nodes[i].key = 7;
        nodes[i].seq = i;
        EXPECT(kin__heap_insert(&heap, &nodes[i]));
    }
    for (size_t i = 0; i < CAP; i++)
        EXPECT_PTR(kin__heap_pop(&heap), &nodes[i]);
}

KIN_TEST(the_extreme_keys_are_ordinary, "")
{
    struct kin__heap_node *slots[4];
    struct kin__heap_node nodes[4] = {
        {.key = INT64_MAX}, {.key = 0}, {.key = INT64_MIN}, {.key = -1, .seq = UINT64_MAX}};
    struct kin__heap heap;
    kin__heap_init(&heap, slots, 4);
    for (int i = 0; i < 4; i++)
        EXPECT(kin__heap_insert(&heap, &nodes[i]));
    EXPECT_EQ(kin__heap_pop(&heap)->key, INT64_MIN);
    EXPECT_EQ(kin__heap_pop(&heap)->key, -1);
    EXPECT_EQ(kin__heap_pop(&heap)->key, 0);
    EXPECT_EQ(kin__heap_pop(&heap)->key, INT64_MAX);
}

KIN_TEST(removing_a_node_of_no_heap_aborts, "")
{
    EXPECT_ABORT ("check failed: i < heap->count") {
        struct kin__heap_node *slots[2];
        struct kin__heap_node inside = {.key = 1}, outside = {.key = 1};
        struct kin__heap heap;
        kin__heap_init(&heap, slots, 2);
        kin__heap_insert(&heap, &inside);
        kin__heap_remove(&heap, &outside);
    }
}

static int compare_nodes(const void *a, const void *b)
{
    const struct kin__heap_node *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return left->seq < right->seq ? -1 : left->seq > right->seq;
}

KIN_TEST(popping_everything_sorts, "")
{
    static struct kin__heap_node nodes[CAP], sorted[CAP];
    struct kin__heap_node *slots[CAP];
    struct kin__heap heap;
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), 0);
    for (int round = 0; round < 100; round++) {
        size_t count = kin__rng_below(&rng, CAP + 1);
        kin__heap_init(&heap, slots, CAP);
        for (size_t i = 0; i < count; i++) {
            nodes[i].key = (int64_t)kin__rng_below(&rng, 50) - 25;
            nodes[i].seq = i;
            sorted[i] = nodes[i];
            EXPECT(kin__heap_insert(&heap, &nodes[i]));
        }
        qsort(sorted, count, sizeof(sorted[0]), compare_nodes);
        for (size_t i = 0; i < count; i++) {
            struct kin__heap_node *node = kin__heap_pop(&heap);
            EXPECT_EQ(node->key, sorted[i].key);
            EXPECT_EQ(node->seq, sorted[i].seq);
        }
        EXPECT_PTR(kin__heap_pop(&heap), NULL);
    }
}

/* The node that should be first, by looking at all of them; NULL when none is in the heap. */
static struct kin__heap_node *first_by_search(struct kin__heap_node *nodes, const bool *is_in)
{
    struct kin__heap_node *first = NULL;
    for (size_t i = 0; i < CAP; i++)
        if (is_in[i] && (first == NULL || compare_nodes(&nodes[i], first) < 0))
            first = &nodes[i];
    return first;
}

KIN_TEST(random_inserts_removes_and_pops_match_a_search, "")
{
    static struct kin__heap_node nodes[CAP];
    static bool is_in[CAP];
    struct kin__heap_node *slots[CAP];
    struct kin__heap heap;
    struct kin__rng rng;
    size_t count = 0;
    kin__rng_init(&rng, kin_test_seed(), 0);
    kin__heap_init(&heap, slots, CAP);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        size_t i = kin__rng_below(&rng, CAP);
        if (kin__rng_chance(&rng, 1, 8)) {
            struct kin__heap_node *expected = first_by_search(nodes, is_in);
            EXPECT_PTR(kin__heap_pop(&heap), expected);
            if (expected != NULL) {
                is_in[expected - nodes] = false;
                count--;
            }
        } else if (is_in[i]) {
            kin__heap_remove(&heap, &nodes[i]);
            is_in[i] = false;
            count--;
        } else {
            nodes[i].key = (int64_t)kin__rng_below(&rng, 40);
            nodes[i].seq = round;
            EXPECT(kin__heap_insert(&heap, &nodes[i]));
            is_in[i] = true;
            count++;
        }
        EXPECT_EQ(heap.count, count);
        EXPECT_EQ(kin__heap_is_in(&nodes[i]), is_in[i]);
        EXPECT_PTR(kin__heap_peek(&heap), first_by_search(nodes, is_in));
        expect_ordered(&heap);
    }
}
