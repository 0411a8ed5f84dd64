/* SPDX-License-Identifier: MIT */
/*
 * Intrusive 4-ary min-heap of nodes ordered by (key, seq), in storage of the caller.
 *
 *     slots:   0 | 1 2 3 4 | 5 6 7 8 | ...      children of i: 4i+1 ... 4i+4, parent: (i-1)/4
 *
 * A node knows its slot, so that any node leaves in logarithmic time: most timers are cancelled,
 * not reached. seq breaks ties: with seq counting insertions, equal keys leave first in first out,
 * which is what makes an order repeatable. Four children per node halve the depth of a binary heap
 * and a family of pointers shares half a cache line.
 *
 * Invariant: slots[i]->index == i + 1, and no node comes before its parent. key and seq of a node
 * are not written while it is in a heap. The heap never allocates: insert says when it is full, and
 * kin__heap_move changes to larger storage that the caller provides.
 */
#ifndef KIN_BASE_HEAP_H
#define KIN_BASE_HEAP_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kin__heap_node {
    int64_t key;  /* smallest first */
    uint64_t seq; /* smallest first among equal keys */
    size_t index; /* the heap's: the node's slot plus 1, or 0 while it is in no heap */
};

struct kin__heap {
    struct kin__heap_node **slots; /* the caller's; kept until kin__heap_move or the heap's end */
    size_t count, cap;
};

/* Starts an empty heap with room for cap nodes at slots. */
static inline void kin__heap_init(struct kin__heap *heap, struct kin__heap_node **slots, size_t cap)
{
    KIN__ASSERT(slots != NULL || cap == 0, "house");
    heap->slots = slots;
    heap->count = 0;
    heap->cap = cap;
}

/* Goes over to other storage with room for cap nodes, at least as many as there are. Returns the
 * storage it used before, which is the caller's again. */
static inline struct kin__heap_node **kin__heap_move(struct kin__heap *heap,
                                                     struct kin__heap_node **slots, size_t cap)
{
    struct kin__heap_node **before = heap->slots;
    KIN__ASSERT(heap->count <= cap, "house");
    for (size_t i = 0; i < heap->count; i++)
        slots[i] = before[i];
    heap->slots = slots;
    heap->cap = cap;
    return before;
}

/* True while the node is in a heap; a zeroed node is in none. */
static inline bool kin__heap_is_in(const struct kin__heap_node *node)
{
    return node->index != 0;
}

/* The first node; NULL when the heap is empty. */
static inline struct kin__heap_node *kin__heap_peek(const struct kin__heap *heap)
{
    return heap->count == 0 ? NULL : heap->slots[0];
}

static inline bool kin__heap_before(const struct kin__heap_node *a, const struct kin__heap_node *b)
{
    return a->key != b->key ? a->key < b->key : a->seq < b->seq;
}

static inline void kin__heap_put(struct kin__heap *heap, size_t i, struct kin__heap_node *node)
{
    heap->slots[i] = node;
    node->index = i + 1;
}

/* Lays node down at slot i or above it: parents that come after it move down. */
static inline void kin__heap_rise(struct kin__heap *heap, size_t i, struct kin__heap_node *node)
{
    while (i > 0) {
        size_t parent = (i - 1) / 4;
        if (!kin__heap_before(node, heap->slots[parent]))
            break;
        kin__heap_put(heap, i, heap->slots[parent]);
        i = parent;
    }
    kin__heap_put(heap, i, node);
}

/* The child of i that comes first; i itself when it has none. */
static inline size_t kin__heap_first_child(const struct kin__heap *heap, size_t i)
{
    size_t child = 4 * i + 1;
    size_t end = child + 4 < heap->count ? child + 4 : heap->count;
    if (child >= heap->count)
        return i;
    size_t first = child;
    for (child++; child < end; child++)
        if (kin__heap_before(heap->slots[child], heap->slots[first]))
            first = child;
    return first;
}

/* Lays node down at slot i or below it: children that come before it move up. */
static inline void kin__heap_sink(struct kin__heap *heap, size_t i, struct kin__heap_node *node)
{
    /* Ends: i grows with each round, and a slot without children is its own first child. */
    for (;;) {
        size_t child = kin__heap_first_child(heap, i);
        if (child == i || !kin__heap_before(heap->slots[child], node))
            break;
        kin__heap_put(heap, i, heap->slots[child]);
        i = child;
    }
    kin__heap_put(heap, i, node);
}

/* False, with nothing changed, when the heap is full. */
static inline bool kin__heap_insert(struct kin__heap *heap, struct kin__heap_node *node)
{
    KIN__ASSERT(!kin__heap_is_in(node), "house");
    if (heap->count == heap->cap)
        return false;
    kin__heap_rise(heap, heap->count++, node);
    return true;
}

/* Takes a node out that is in this heap. */
static inline void kin__heap_remove(struct kin__heap *heap, struct kin__heap_node *node)
{
    size_t i = node->index - 1;
    KIN__CHECK(i < heap->count && heap->slots[i] == node, "house");
    node->index = 0;
    struct kin__heap_node *last = heap->slots[--heap->count];
    if (last == node)
        return;
    /* The last node fills the hole; it may belong above or below it, never both. */
    if (kin__heap_before(last, node))
        kin__heap_rise(heap, i, last);
    else
        kin__heap_sink(heap, i, last);
}

/* Takes the first node out and returns it; NULL when the heap is empty. */
static inline struct kin__heap_node *kin__heap_pop(struct kin__heap *heap)
{
    struct kin__heap_node *node = kin__heap_peek(heap);
    if (node != NULL)
        kin__heap_remove(heap, node);
    return node;
}

#endif
