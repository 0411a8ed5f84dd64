/* SPDX-License-Identifier: MIT */
/*
 * Frames for the lab: the same ones in the same order in every execution.
 *
 * Each kind has a stretch of address space, from which an execution cuts one frame after the other,
 * all zero and with its first name. A frame that is freed is not taken again before the stretch is
 * used up: two steps that have nothing to do with each other must not seem to because the one uses
 * what the other has freed.
 */
#include "lab/world.h"
#include "mem/frame.h"

#include <string.h>

#define FRAMES_MAX 65536u /* of one kind in use at once */
#define INDEX_MASK ((UINT64_C(1) << KIN__FRAME_INDEX_BITS) - 1)

static const uint16_t bytes_of[KIN__FRAME_KINDS] = {
    [KIN__FRAME_TASK] = KIN__FRAME_BYTES,
    [KIN__FRAME_SCOPE] = KIN__SCOPE_BYTES,
    [KIN__FRAME_EXTRA] = KIN__EXTRA_BYTES,
    [KIN__FRAME_OBLIGATION] = KIN__OBLIGATION_BYTES,
    [KIN__FRAME_WATCH] = KIN__WATCH_BYTES,
    [KIN__FRAME_REPLY] = KIN__REPLY_BYTES,
    [KIN__FRAME_LETTER] = KIN__LETTER_BYTES,
    [KIN__FRAME_LEASE] = KIN__LEASE_BYTES,
    [KIN__FRAME_SMALL] = KIN__SMALL_BYTES,
    [KIN__FRAME_LARGE] = KIN__LARGE_BYTES,
};

static struct pool {
    char *base;
    uint32_t next; /* first index not cut in this execution; 0 is nobody's */
    uint32_t used;
    struct kin__frame *free;
} pools[KIN__FRAME_KINDS];

void kin__lab_frames_begin(void)
{
    for (unsigned kind = 0; kind < KIN__FRAME_KINDS; kind++) {
        pools[kind].next = 1;
        pools[kind].used = 0;
        pools[kind].free = NULL;
    }
}

uint32_t kin__lab_frames_used(void)
{
    uint32_t used = 0;
    for (unsigned kind = 0; kind < KIN__FRAME_KINDS; kind++)
        used += pools[kind].used;
    return used;
}

static struct kin__frame *cut(struct pool *pool, size_t bytes)
{
    if (!pool->base && !(pool->base = kin__vm_reserve(FRAMES_MAX * bytes)))
        return NULL;
    if (pool->next == FRAMES_MAX)
        return NULL;
    uint32_t index = pool->next++;
    struct kin__frame *frame = (struct kin__frame *)(void *)(pool->base + index * bytes);
    memset(frame, 0, bytes);
    kin__world_made(frame, bytes);
    /* alone: there is one thread */
    kin__store_relaxed(&frame->name, UINT64_C(1) << KIN__FRAME_INDEX_BITS | index);
    return frame;
}

struct kin__frame *kin__frame_alloc(struct kin__frame_cache *cache)
{
    static const char *const labels[KIN__FRAME_KINDS] = {
        "task",  "nursery", "belongings", "obligation", "watch",
        "reply", "letter",  "lease",      "argument",   "argument"};
    struct pool *pool = &pools[cache->kind];
    if (pool->next == 0)
        pool->next = 1;
    if (kin__lab_fault_happens(KIN_FAULT_OOM, labels[cache->kind]))
        return NULL;
    struct kin__frame *frame = cut(pool, bytes_of[cache->kind]);
    if (!frame && (frame = pool->free))
        pool->free = frame->free_next;
    pool->used += frame != NULL;
    return frame;
}

void kin__frame_free(struct kin__frame_cache *cache, struct kin__frame *frame)
{
    struct pool *pool = &pools[cache->kind];
    uint64_t name = kin__load_relaxed(&frame->name); /* alone: as above */
    kin__store_relaxed(&frame->name, name + (UINT64_C(1) << KIN__FRAME_INDEX_BITS)); /* alone: so */
    frame->free_next = pool->free;
    pool->free = frame;
    pool->used--;
}

void kin__frame_flush(struct kin__frame_cache *cache)
{
    (void)cache; /* caches hold nothing here */
}

struct kin__frame *kin__frame_at(enum kin__frame_kind kind, uint64_t name)
{
    const struct pool *pool = &pools[kind];
    uint32_t index = (uint32_t)(name & INDEX_MASK);
    if (index == 0 || index >= pool->next || !pool->base)
        return NULL;
    return (struct kin__frame *)(void *)(pool->base + (size_t)index * bytes_of[kind]);
}

void kin__frame_each(void (*visit)(struct kin__frame *frame, void *arg), void *arg)
{
    uint32_t end = pools[KIN__FRAME_TASK].next;
    for (uint32_t index = 1; index < end; index++)
        visit(kin__frame_at(KIN__FRAME_TASK, index), arg);
}

size_t kin__frame_bytes(void)
{
    return pools[KIN__FRAME_TASK].next * (size_t)KIN__FRAME_BYTES;
}

uint64_t kin__frame_life(uint64_t name)
{
    return name >> KIN__FRAME_INDEX_BITS;
}

void kin__frame_scramble(void)
{
    /* the same names in every execution */
}
