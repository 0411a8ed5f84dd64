/* SPDX-License-Identifier: MIT */
/*
 * The pool of frames: where the workers' caches get their batches from and return them to.
 *
 *     directory   chunk 0      chunk 1      chunk 2            one entry per 4096 indices; an entry
 *        |  +---> | -, 1, 2 .. |            |                  is set once and never changes, so a
 *        +--+-------------------> | 4096 .. |                  name is looked up without a lock
 *
 *     batches     | head | head | head |                       a stack of chains of exactly
 *                    |      |                                  KIN__FRAME_BATCH frames
 *                    v      v
 *                  frames, linked through free_next
 *
 * A batch changes hands as one pointer: nothing is walked under the lock. The stack of batches is
 * an array apart, because a free frame has one link only (what is behind its head survives
 * recycling) and a list of lists needs two. Its address space suffices for every frame there can
 * be, so giving frames back never needs memory and never fails. Fewer than a batch, left over when
 * a cache is flushed, wait in the loose list until they are enough.
 *
 * Frames are cut from a chunk in the order of their indices, a batch at a time, and only then
 * touched: memory that no task ever used stays untouched. Nothing is ever unmapped.
 */
#include "mem/frame.h"

#include "base/hash.h"
#include "base/lock.h"
#include "plat/plat.h"

#define CHUNK_BITS 12u
#define CHUNK_FRAMES (1u << CHUNK_BITS)
#define CHUNKS (1u << (KIN__FRAME_INDEX_BITS - CHUNK_BITS))
#define GROW_MAX 64u /* chunks reserved at a time, after doubling from 1 */
/* Chunks from which on they are dense enough for huge pages: a program with that many tasks passes
 * over them again and again, and small pages would cost it a table walk every twenty frames. */
#define HUGE_FROM 16u
#define BATCHES_MAX ((1u << KIN__FRAME_INDEX_BITS) / KIN__FRAME_BATCH)
#define INDEX_MASK ((UINT64_C(1) << KIN__FRAME_INDEX_BITS) - 1)

struct kin__frame_step kin__frame_step = {1, KIN__FRAME_NEXT}; /* until they are scrambled */

/* Written under scramble_lock (rank LEAF); constant once it is on. */
static struct kin__lock scramble_lock;
static struct {
    kin__a32 is_on;
    struct kin__hash_key key; /* of first generations */
} scramble;

/* Each a multiple of a cache line, so that every frame begins one and a chunk is whole pages of any
 * machine. */
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
_Static_assert(KIN__FRAME_BYTES % KIN__LINE == 0 && KIN__SCOPE_BYTES % KIN__LINE == 0 &&
                   KIN__EXTRA_BYTES % KIN__LINE == 0 && KIN__OBLIGATION_BYTES % KIN__LINE == 0 &&
                   KIN__WATCH_BYTES % KIN__LINE == 0 && KIN__REPLY_BYTES % KIN__LINE == 0 &&
                   KIN__LETTER_BYTES % KIN__LINE == 0 && KIN__LEASE_BYTES % KIN__LINE == 0 &&
                   KIN__SMALL_BYTES % KIN__LINE == 0 && KIN__LARGE_BYTES % KIN__LINE == 0,
               "every frame begins a cache line");
_Static_assert((size_t)CHUNK_FRAMES * KIN__LINE % (64 * 1024) == 0, "whole pages");
_Static_assert(CHUNK_FRAMES % KIN__FRAME_BATCH == 0, "a batch lies in one chunk");
_Static_assert(sizeof(struct kin__frame) <= KIN__FRAME_BYTES, "the head fits");

/* One pool per kind, so that a block never changes what it is. All but the directory under lock
 * (rank FRAME). */
static struct pool {
    struct kin__lock lock;
    uint32_t next;               /* first index not cut yet */
    uint32_t end;                /* first index without address space behind it */
    uint32_t grow;               /* chunks to reserve next time; 0 counts as 1 */
    uint32_t batch_count;
    struct kin__frame **batches; /* chains of exactly KIN__FRAME_BATCH; the newest last */
    struct kin__frame *loose;    /* a chain of fewer */
    uint32_t loose_count;
    kin__a64 directory[CHUNKS];  /* address of each chunk, 0: not there yet; read by anyone */
} pools[KIN__FRAME_KINDS];

static size_t frame_bytes(const struct pool *pool)
{
    return bytes_of[pool - pools];
}

/* The chunk must be there. */
static struct kin__frame *frame_of(struct pool *pool, uint32_t index)
{
    /* pairs with the release in grow_locked */
    char *chunk = (char *)(uintptr_t)kin__load_acquire(&pool->directory[index >> CHUNK_BITS]);
    return (struct kin__frame *)(void *)(chunk + (index & (CHUNK_FRAMES - 1)) * frame_bytes(pool));
}

/* Reserves address space for more frames; as much as last time twice, or what can be had. */
static bool grow_locked(struct pool *pool)
{
    uint32_t chunks = pool->grow ? pool->grow : 1;
    uint32_t first = pool->end >> CHUNK_BITS;
    size_t chunk_bytes = CHUNK_FRAMES * frame_bytes(pool);
    char *base = NULL;

    if (!pool->batches)
        pool->batches = kin__vm_reserve(BATCHES_MAX * sizeof(pool->batches[0]));
    if (!pool->batches || first == CHUNKS)
        return false;
    if (chunks > CHUNKS - first)
        chunks = CHUNKS - first;
    while (!(base = kin__vm_reserve(chunks * chunk_bytes)) && chunks > 1)
        chunks /= 2;
    if (!base)
        return false;
    if (chunks >= HUGE_FROM)
        kin__vm_prefer_huge(base, chunks * chunk_bytes);

    for (uint32_t i = 0; i < chunks; i++) {
        uint64_t chunk = (uint64_t)(uintptr_t)(base + i * chunk_bytes);
        /* pairs with the acquire in frame_of */
        kin__store_release(&pool->directory[first + i], chunk);
    }
    pool->end += chunks * CHUNK_FRAMES;
    pool->grow = chunks < GROW_MAX ? chunks * 2 : GROW_MAX;
    return true;
}

/* ---- names that cannot be guessed ---- */

/* The first name of a frame. */
static uint64_t first_name(const struct pool *pool, uint32_t index)
{
    uint64_t generation = 1;
    /* pairs with the release in kin__frame_scramble */
    if (pool == &pools[KIN__FRAME_TASK] && kin__load_acquire(&scramble.is_on))
        generation = kin__hash_bytes(scramble.key, &index, sizeof(index)) | 1;
    return generation << KIN__FRAME_INDEX_BITS | index;
}

/* mul = 1 + k * 2^26 leaves the index alone and is 1 mod 4; to the generation index * k + c is
 * added, which is odd, since k is even and c is odd: so each comes once in 2^38 lives. */
void kin__frame_scramble(void)
{
    kin__lock_take(&scramble_lock, KIN__RANK_LEAF);
    if (!kin__load_relaxed(&scramble.is_on)) { /* relaxed: under the lock */
        struct kin__frame_step *step = &kin__frame_step;
        scramble.key = (struct kin__hash_key){kin__plat_entropy(), kin__plat_entropy()};
        uint64_t even = kin__plat_entropy() & ~UINT64_C(1), odd = kin__plat_entropy() | 1;
        /* relaxed: see struct kin__frame_step */
        kin__store_relaxed(&step->mul, 1 + (even << KIN__FRAME_INDEX_BITS));
        kin__store_relaxed(&step->add, odd << KIN__FRAME_INDEX_BITS);
        kin__store_release(&scramble.is_on, 1u); /* pairs with the acquire in first_name */
    }
    kin__lock_give(&scramble_lock, KIN__RANK_LEAF);
}

/* How many steps lead from the first name to this one: bit by bit, since the low bits of such a
 * generator have short periods, and two steps in one are a step with other constants. */
uint64_t kin__frame_life(uint64_t name)
{
    struct kin__frame_step *step = &kin__frame_step;
    /* relaxed: constants by now */
    uint64_t mul = kin__load_relaxed(&step->mul), add = kin__load_relaxed(&step->add);
    uint32_t index = (uint32_t)(name & INDEX_MASK);
    uint64_t at = first_name(&pools[KIN__FRAME_TASK], index), life = 0;
    for (unsigned bit = KIN__FRAME_INDEX_BITS; bit < 64 && at != name; bit++) {
        if ((at ^ name) >> bit & 1) {
            at = at * mul + add;
            life |= UINT64_C(1) << (bit - KIN__FRAME_INDEX_BITS);
        }
        add = (mul + 1) * add;
        mul *= mul;
    }
    return life + 1;
}

/* Sets aside the indices of one batch; returns the first, 0 being possible, or UINT32_MAX. */
static uint32_t cut_locked(struct pool *pool)
{
    uint32_t first = pool->next;

    if (first == pool->end && !grow_locked(pool))
        return UINT32_MAX;
    pool->next = first + KIN__FRAME_BATCH;
    return first;
}

/* Gives the frames of a batch their first names and chains them, lowest first; outside the lock,
 * because it touches fresh pages. The very first batch is one short: nobody is index 0. */
static struct kin__frame *chain_fresh(struct pool *pool, uint32_t first, uint32_t *count)
{
    uint32_t end = first + KIN__FRAME_BATCH;
    uint32_t index = first ? first : 1;
    struct kin__frame *head = frame_of(pool, index);

    *count = end - index;
    for (struct kin__frame *frame = head; index < end; index++) {
        struct kin__frame *after = index + 1 < end ? frame_of(pool, index + 1) : NULL;
        /* alone: nobody knows the frame yet */
        kin__store_relaxed(&frame->name, first_name(pool, index));
        frame->free_next = after;
        frame = after;
    }
    return head;
}

static void push_batch_locked(struct pool *pool, struct kin__frame *batch)
{
    KIN__ASSERT(pool->batch_count < BATCHES_MAX, "house");
    pool->batches[pool->batch_count++] = batch;
}

/* Cuts a chain behind its first count frames, which exist; returns the rest. */
static struct kin__frame *split(struct kin__frame *chain, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        chain = chain->free_next;

    struct kin__frame *rest = chain->free_next;
    chain->free_next = NULL;
    return rest;
}

struct kin__frame *kin__frame_alloc_slow(struct kin__frame_cache *cache)
{
    struct pool *pool = &pools[cache->kind];
    struct kin__frame *batch = NULL;
    uint32_t count = 0;
    uint32_t first = UINT32_MAX;

    KIN__ASSERT(!cache->free && cache->count == 0, "house");
    kin__lock_take(&pool->lock, KIN__RANK_FRAME);
    if (pool->batch_count) {
        batch = pool->batches[--pool->batch_count];
        count = KIN__FRAME_BATCH;
    } else if (pool->loose) {
        batch = pool->loose;
        count = pool->loose_count;
        pool->loose = NULL;
        pool->loose_count = 0;
    } else {
        first = cut_locked(pool);
    }
    kin__lock_give(&pool->lock, KIN__RANK_FRAME);

    if (first != UINT32_MAX)
        batch = chain_fresh(pool, first, &count);
    if (!batch)
        return NULL;
    cache->free = batch->free_next;
    cache->count = count - 1;
    return batch;
}

/* Keeps the frames freed last, which the CPU's cache still has, and returns a batch of others. */
void kin__frame_free_slow(struct kin__frame_cache *cache)
{
    struct pool *pool = &pools[cache->kind];
    KIN__ASSERT(cache->count > KIN__FRAME_BATCH, "house");
    uint32_t keep = cache->count - KIN__FRAME_BATCH;
    struct kin__frame *batch = split(cache->free, keep);

    cache->count = keep;
    kin__lock_take(&pool->lock, KIN__RANK_FRAME);
    push_batch_locked(pool, batch);
    kin__lock_give(&pool->lock, KIN__RANK_FRAME);
}

/* Adds fewer than a batch to the loose ones, and makes a batch of those when they are enough. */
static void push_loose_locked(struct pool *pool, struct kin__frame *chain,
                              struct kin__frame *last, uint32_t count)
{
    last->free_next = pool->loose;
    pool->loose = chain;
    pool->loose_count += count;
    if (pool->loose_count >= KIN__FRAME_BATCH) {
        pool->loose = split(chain, KIN__FRAME_BATCH);
        pool->loose_count -= KIN__FRAME_BATCH;
        push_batch_locked(pool, chain);
    }
}

void kin__frame_flush(struct kin__frame_cache *cache)
{
    struct pool *pool = &pools[cache->kind];
    struct kin__frame *chain = cache->free;
    uint32_t count = cache->count;

    cache->free = NULL;
    cache->count = 0;
    for (; count >= KIN__FRAME_BATCH; count -= KIN__FRAME_BATCH) {
        struct kin__frame *rest = split(chain, KIN__FRAME_BATCH);
        kin__lock_take(&pool->lock, KIN__RANK_FRAME);
        push_batch_locked(pool, chain);
        kin__lock_give(&pool->lock, KIN__RANK_FRAME);
        chain = rest;
    }
    if (count == 0)
        return;

    struct kin__frame *last = chain;
    while (last->free_next) /* ends: fewer than a batch are left */
        last = last->free_next;
    kin__lock_take(&pool->lock, KIN__RANK_FRAME);
    push_loose_locked(pool, chain, last, count);
    kin__lock_give(&pool->lock, KIN__RANK_FRAME);
}

struct kin__frame *kin__frame_at(enum kin__frame_kind kind, uint64_t name)
{
    struct pool *pool = &pools[kind];
    uint32_t index = (uint32_t)(name & INDEX_MASK);

    /* relaxed: only whether it is there; frame_of loads it again with acquire */
    if (index == 0 || kin__load_relaxed(&pool->directory[index >> CHUNK_BITS]) == 0)
        return NULL;

    struct kin__frame *frame = frame_of(pool, index);
    /* relaxed: whoever holds a name of this frame got it from its owner, behind the first write */
    return kin__load_relaxed(&frame->name) ? frame : NULL;
}

void kin__frame_each(void (*visit)(struct kin__frame *frame, void *arg), void *arg)
{
    struct pool *pool = &pools[KIN__FRAME_TASK];
    kin__lock_take(&pool->lock, KIN__RANK_FRAME);
    uint32_t end = pool->next;
    kin__lock_give(&pool->lock, KIN__RANK_FRAME);

    for (uint32_t index = 1; index < end; index++) {
        struct kin__frame *frame = frame_of(pool, index);
        /* relaxed: 0 is a frame whose batch is being chained at this moment; nobody's yet */
        if (kin__load_relaxed(&frame->name))
            visit(frame, arg);
    }
}

size_t kin__frame_bytes(void)
{
    struct pool *pool = &pools[KIN__FRAME_TASK];
    kin__lock_take(&pool->lock, KIN__RANK_FRAME);
    size_t frames = pool->end;
    kin__lock_give(&pool->lock, KIN__RANK_FRAME);
    return frames * KIN__FRAME_BYTES;
}
