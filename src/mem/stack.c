/* SPDX-License-Identifier: MIT */
/*
 * Stacks: cutting them from segments, passing them round in batches, taking their memory away.
 *
 *     cache --spill 32--> pool: newest <-> batch <-> oldest --trim--> segment's list of indices
 *       ^                          |                                           |
 *       +--------refill------------+     cold: one at a time <-----------------+--- fresh slots
 *
 * A segment is one reservation of slots, 16 in the first of a class, twice as many in each further
 * one up to 1024, within 1 GiB. All its guards are made at once, when it is created. Slots are cut
 * in order, so that address space costs nothing before its turn comes.
 *
 * What happens outside the lock: whatever touches cold memory or calls the system. Under the lock
 * are a few pointers of the pool and of the first stack of a batch.
 *
 * A stack that grew deep keeps its pages until it is trimmed. Taking the deep part away when it is
 * spilled was rejected: one madvise costs several times what a task's whole end may cost, and is
 * wasted on all stacks but a few.
 */
#include "mem/stack.h"

#include "plat/plat.h"

#if KIN__ASAN
#include <sanitizer/asan_interface.h>
#endif

#define SLOTS_MIN 16u
#define SLOTS_MAX 1024u
#define SEGMENT_MAX ((size_t)1 << 30) /* bytes; a single slot may not exceed it */
#define GUARD_BYTES ((size_t)64 * 1024) /* what a frame may be too large by */
#define COLOURS 16u
#define COLOUR_BYTES 128u
#define DESCRIPTOR_BYTES ((sizeof(struct kin__stack) + KIN__LINE - 1) / KIN__LINE * KIN__LINE)
#define SPILL (KIN__STACK_HOT / 2)
#define TRIM_BATCH 128u /* stacks whose memory is taken away between two turns with the lock */
#define CANARY_WORDS 8u
#define CANARY UINT64_C(0x6b696e2d73746163)

_Static_assert(KIN__ASAN || KIN__TSAN || DESCRIPTOR_BYTES == KIN__LINE, "one line is enough");
_Static_assert(KIN__STACK_HOT <= UINT8_MAX, "the size of a batch fits in its field");
_Static_assert((KIN__STACK_MIN << (KIN__STACK_CLASSES - 1)) * 2 <= SEGMENT_MAX, "a slot fits");

/* Under the pool's lock: next_with_trimmed, cut, trimmed_count, trimmed[]. The rest is constant. */
struct kin__stack_segment {
    struct kin__stack_segment *older;             /* the next of the class */
    struct kin__stack_segment *next_with_trimmed; /* meaningful while trimmed_count > 0 */
    char *map;                                    /* where slot 0 begins */
    size_t stride;                                /* bytes from slot to slot */
    size_t guard;                                 /* bytes at the low end of each */
    uint32_t slots;
    uint32_t guarded;       /* the slots below this one have a guard */
    uint32_t cut;           /* the slots below this one were handed out at least once */
    uint32_t trimmed_count; /* how many of them are in trimmed[] */
    uint32_t class_;
    uint32_t *valgrind; /* one id per slot, from whoever cuts it; behind trimmed[] */
    uint32_t trimmed[]; /* slots without memory, the last one is taken first */
};

/* A stack by its place; what remains of one that has no memory. */
struct slot {
    struct kin__stack_segment *segment; /* NULL: none */
    uint32_t index;
    bool is_fresh; /* never handed out before */
};

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) & ~(unit - 1);
}

static char *low_of(struct slot slot)
{
    return slot.segment->map + slot.index * slot.segment->stride + slot.segment->guard;
}

static char *end_of(struct slot slot)
{
    return slot.segment->map + (slot.index + (size_t)1) * slot.segment->stride;
}

unsigned kin__stack_class(size_t max_bytes)
{
    unsigned class_ = 0;
    while (class_ < KIN__STACK_CLASSES && (KIN__STACK_MIN << class_) < max_bytes)
        class_++;
    return class_;
}

size_t kin__stack_class_bytes(unsigned class_)
{
    KIN__ASSERT(class_ < KIN__STACK_CLASSES, "house");
    return KIN__STACK_MIN << class_;
}

void kin__stack_pool_init(struct kin__stack_pool *pool)
{
    *pool = (struct kin__stack_pool){0};
}

/* ---- segments ---- */

static void segment_destroy(struct kin__stack_segment *segment)
{
    for (uint32_t i = 0; i < segment->cut; i++)
        kin__stack_forget(segment->valgrind[i]);
#if KIN__ASAN
    __asan_unpoison_memory_region(segment->map, segment->slots * segment->stride);
#endif
    kin__vm_release(segment->map, segment->slots * segment->stride);
    kin__heap_free(segment);
}

/* A segment of so many slots with their guards, or NULL. */
static struct kin__stack_segment *segment_create(unsigned class_, uint32_t slots)
{
    KIN__LAB_KEEPS(true); /* the pool of stacks outlives an execution */
    struct kin__stack_segment *segment =
        kin__heap_alloc(sizeof(*segment) + slots * (sizeof(uint32_t) * 2));
    KIN__LAB_KEEPS(false);
    if (!segment)
        return NULL;

    size_t bytes = kin__stack_class_bytes(class_);
    size_t top = DESCRIPTOR_BYTES + (COLOURS - 1) * COLOUR_BYTES;
    segment->guard = round_up(GUARD_BYTES, kin__vm_page());
    segment->stride = segment->guard + round_up(bytes + bytes / 16 + top, kin__vm_page());
    segment->slots = slots;
    segment->class_ = class_;
    segment->valgrind = segment->trimmed + slots;
    segment->map = kin__vm_reserve(slots * segment->stride);
    if (!segment->map) {
        kin__heap_free(segment);
        return NULL;
    }
    size_t guarded = kin__vm_guard(segment->map, segment->stride, segment->guard, slots);
    segment->guarded = (uint32_t)guarded;
    return segment;
}

/* How many slots the segment after this one should have; before is NULL for the first. */
static uint32_t slots_after(unsigned class_, const struct kin__stack_segment *before)
{
    /* Sixteenth, descriptor and rounding add up to less than the stack itself... */
    size_t slot_bytes = kin__stack_class_bytes(class_) * 2 + GUARD_BYTES;
    if (before)
        slot_bytes = before->stride; /* ...and are known exactly once there is a segment. */
    size_t slots = before ? (size_t)before->slots * 2 : SLOTS_MIN;

    if (slots > SLOTS_MAX)
        slots = SLOTS_MAX;
    if (slots > SEGMENT_MAX / slot_bytes)
        slots = SEGMENT_MAX / slot_bytes;
    return slots ? (uint32_t)slots : 1;
}

/* ---- stacks by place ---- */

void kin__stack_mend(struct kin__stack *stack)
{
    uint64_t *word = (uint64_t *)(void *)stack->low;
    for (unsigned i = 0; i < CANARY_WORDS; i++)
        word[i] = CANARY ^ (uintptr_t)&word[i];
}

/* Writes the descriptor; costs a page fault, as the slot has no memory behind it. */
static struct kin__stack *materialise(struct slot slot)
{
    struct kin__stack_segment *segment = slot.segment;
    char *base = end_of(slot) - slot.index % COLOURS * COLOUR_BYTES - DESCRIPTOR_BYTES;
    struct kin__stack *stack = (struct kin__stack *)(void *)base;

    *stack = (struct kin__stack){
        .low = low_of(slot),
        .base = base,
        .segment = segment,
        .index = slot.index,
        .class_ = (uint16_t)segment->class_,
        .is_guarded = slot.index < segment->guarded,
    };
    if (!stack->is_guarded)
        kin__stack_mend(stack);
    if (slot.is_fresh)
        segment->valgrind[slot.index] = kin__stack_announce(stack->low, base);
    return stack;
}

static struct slot cut_locked(struct kin__stack_pool *pool, struct kin__stack_segment *segment)
{
    struct slot slot = {segment, segment->cut++, true};

    KIN__ASSERT(slot.index < segment->slots, "house");
    pool->total++;
    if (slot.index >= segment->guarded)
        pool->unguarded++;
    return slot;
}

static void push_trimmed_locked(struct kin__stack_pool *pool, struct slot slot)
{
    struct kin__stack_segment *segment = slot.segment;

    KIN__ASSERT(segment->trimmed_count < segment->cut, "house");
    if (segment->trimmed_count == 0) {
        segment->next_with_trimmed = pool->trimmed_in[segment->class_];
        pool->trimmed_in[segment->class_] = segment;
    }
    segment->trimmed[segment->trimmed_count++] = slot.index;
    pool->trimmed++;
}

static struct slot pop_trimmed_locked(struct kin__stack_pool *pool,
                                      struct kin__stack_segment *segment)
{
    KIN__ASSERT(segment == pool->trimmed_in[segment->class_], "house");
    struct slot slot = {segment, segment->trimmed[--segment->trimmed_count], false};

    if (segment->trimmed_count == 0)
        pool->trimmed_in[segment->class_] = segment->next_with_trimmed;
    pool->trimmed--;
    return slot;
}

/* ---- batches in the pool ---- */

/* batch is a chain of count stacks, count > 0. The outward links of newest and oldest are never
 * read: popping leaves the neighbour's memory alone. */
static void push_newest_locked(struct kin__stack_pool *pool, struct kin__stack *batch,
                               uint32_t count)
{
    unsigned class_ = batch->class_;
    struct kin__stack *newest = pool->newest[class_];

    batch->batch = (uint8_t)count;
    batch->older = newest;
    if (newest)
        newest->newer = batch;
    else
        pool->oldest[class_] = batch;
    pool->newest[class_] = batch;
    pool->warm[class_] += count;
}

static void push_oldest_locked(struct kin__stack_pool *pool, struct kin__stack *batch,
                               uint32_t count)
{
    unsigned class_ = batch->class_;
    struct kin__stack *oldest = pool->oldest[class_];

    batch->batch = (uint8_t)count;
    batch->newer = oldest;
    if (oldest)
        oldest->older = batch;
    else
        pool->newest[class_] = batch;
    pool->oldest[class_] = batch;
    pool->warm[class_] += count;
}

static struct kin__stack *pop_newest_locked(struct kin__stack_pool *pool, unsigned class_)
{
    struct kin__stack *batch = pool->newest[class_];

    if (!batch)
        return NULL;
    if (batch == pool->oldest[class_])
        pool->newest[class_] = pool->oldest[class_] = NULL;
    else
        pool->newest[class_] = batch->older;
    pool->warm[class_] -= batch->batch;
    return batch;
}

static struct kin__stack *pop_oldest_locked(struct kin__stack_pool *pool, unsigned class_)
{
    struct kin__stack *batch = pool->oldest[class_];

    if (!batch)
        return NULL;
    if (batch == pool->newest[class_])
        pool->newest[class_] = pool->oldest[class_] = NULL;
    else
        pool->oldest[class_] = batch->newer;
    pool->warm[class_] -= batch->batch;
    return batch;
}

/* ---- taking ---- */

/* A trimmed or fresh slot of the segments there are. */
static struct slot pick_cold_locked(struct kin__stack_pool *pool, unsigned class_)
{
    struct kin__stack_segment *with_trimmed = pool->trimmed_in[class_];
    if (with_trimmed)
        return pop_trimmed_locked(pool, with_trimmed);

    struct kin__stack_segment *newest = pool->segments[class_];
    if (newest && newest->cut < newest->slots)
        return cut_locked(pool, newest);
    return (struct slot){NULL, 0, false};
}

/* Creates a segment of up to so many slots and cuts the first. When another thread created one at
 * the same time, that one is used and ours is given up; the class stays without a hole. */
static struct slot cut_from_new_segment(struct kin__stack_pool *pool, unsigned class_,
                                        uint32_t slots)
{
    struct kin__stack_segment *segment = segment_create(class_, slots);
    while (!segment && slots > 1) {
        slots /= 2; /* a smaller one may still fit in the address space */
        segment = segment_create(class_, slots);
    }

    kin__lock_take(&pool->lock, KIN__RANK_STACK);
    struct slot slot = pick_cold_locked(pool, class_);
    if (segment && !slot.segment) {
        segment->older = pool->segments[class_];
        pool->segments[class_] = segment;
        slot = cut_locked(pool, segment);
    }
    kin__lock_give(&pool->lock, KIN__RANK_STACK);

    if (segment && slot.segment != segment)
        segment_destroy(segment);
    return slot;
}

struct kin__stack *kin__stack_take_slow(struct kin__stack_cache *cache,
                                        struct kin__stack_pool *pool, unsigned class_)
{
    KIN__ASSERT(class_ < KIN__STACK_CLASSES && cache->count[class_] == 0, "house");
    kin__lock_take(&pool->lock, KIN__RANK_STACK);
    struct kin__stack *batch = pop_newest_locked(pool, class_);
    struct slot slot = {NULL, 0, false};
    uint32_t slots = 0;
    if (!batch) {
        slot = pick_cold_locked(pool, class_);
        slots = slots_after(class_, pool->segments[class_]);
    }
    kin__lock_give(&pool->lock, KIN__RANK_STACK);

    if (batch) {
        cache->free[class_] = batch->next;
        cache->count[class_] = batch->batch - 1u;
        kin__stack_unpoison(batch);
        return batch;
    }
    if (!slot.segment)
        slot = cut_from_new_segment(pool, class_, slots);
    return slot.segment ? materialise(slot) : NULL;
}

/* ---- giving ---- */

void kin__stack_give_slow(struct kin__stack_cache *cache, struct kin__stack_pool *pool,
                          struct kin__stack *stack)
{
    unsigned class_ = stack->class_;
    uint32_t keep = cache->count[class_] - SPILL;
    struct kin__stack *last = cache->free[class_];

    KIN__ASSERT(cache->count[class_] == KIN__STACK_HOT, "house");
    for (uint32_t i = 1; i < keep; i++)
        last = last->next;
    struct kin__stack *batch = last->next;
    last->next = NULL;

    /* The one that is given may still be run on, so it is not among the spilled. */
    stack->next = cache->free[class_];
    cache->free[class_] = stack;
    cache->count[class_] = keep + 1;

    kin__lock_take(&pool->lock, KIN__RANK_STACK);
    push_newest_locked(pool, batch, SPILL);
    kin__lock_give(&pool->lock, KIN__RANK_STACK);
}

void kin__stack_flush(struct kin__stack_cache *cache, struct kin__stack_pool *pool)
{
    kin__lock_take(&pool->lock, KIN__RANK_STACK);
    for (unsigned class_ = 0; class_ < KIN__STACK_CLASSES; class_++)
        if (cache->free[class_])
            push_newest_locked(pool, cache->free[class_], cache->count[class_]);
    kin__lock_give(&pool->lock, KIN__RANK_STACK);
    *cache = (struct kin__stack_cache){0};
}

/* ---- trimming ---- */

static bool comes_before(struct slot a, struct slot b)
{
    if (a.segment != b.segment)
        return (uintptr_t)a.segment < (uintptr_t)b.segment;
    return a.index < b.index;
}

/* By address, so that neighbours can be discarded in one call. Shell's sort: short, no recursion,
 * and good enough for TRIM_BATCH elements that are often nearly in reverse order. */
static void sort(struct slot *slots, size_t count)
{
    static const uint8_t gaps[] = {57, 23, 10, 4, 1};

    for (unsigned g = 0; g < sizeof(gaps); g++) {
        size_t gap = gaps[g];
        for (size_t i = gap; i < count; i++) {
            struct slot slot = slots[i];
            size_t hole = i;
            for (; hole >= gap && comes_before(slot, slots[hole - gap]); hole -= gap)
                slots[hole] = slots[hole - gap];
            slots[hole] = slot;
        }
    }
}

/* Gives the memory of sorted slots back, a call per run of neighbours; the guards between them
 * survive. */
static void discard(const struct slot *slots, size_t count)
{
    for (size_t first = 0, end; first < count; first = end) {
        struct kin__stack_segment *segment = slots[first].segment;
        for (end = first + 1; end < count; end++)
            if (slots[end].segment != segment || slots[end].index != slots[end - 1].index + 1)
                break;
        char *low = low_of(slots[first]);
        kin__vm_discard(low, (size_t)(end_of(slots[end - 1]) - low));
    }
}

/* Takes up to max of the oldest stacks out of the pool and lists their places. */
static size_t take_oldest(struct kin__stack_pool *pool, unsigned class_, struct slot *slots,
                          size_t max)
{
    size_t count = 0;

    while (count < max) { /* ends: each round adds one at least */
        kin__lock_take(&pool->lock, KIN__RANK_STACK);
        struct kin__stack *batch = pop_oldest_locked(pool, class_);
        kin__lock_give(&pool->lock, KIN__RANK_STACK);
        if (!batch)
            break;

        struct kin__stack *stack = batch;
        uint32_t left = batch->batch;
        for (; left > 0 && count < max; left--) {
            slots[count++] = (struct slot){stack->segment, stack->index, false};
            kin__stack_unpoison(stack);
            stack = stack->next;
        }
        if (left == 0)
            continue;
        kin__lock_take(&pool->lock, KIN__RANK_STACK);
        push_oldest_locked(pool, stack, left);
        kin__lock_give(&pool->lock, KIN__RANK_STACK);
    }
    return count;
}

static size_t trim_class(struct kin__stack_pool *pool, unsigned class_, size_t max)
{
    struct slot slots[TRIM_BATCH];
    size_t done = 0;

    while (done < max) { /* ends: each round adds one at least */
        size_t left = max - done;
        size_t count = take_oldest(pool, class_, slots, left < TRIM_BATCH ? left : TRIM_BATCH);
        if (count == 0)
            break;
        sort(slots, count);
        discard(slots, count);
        kin__lock_take(&pool->lock, KIN__RANK_STACK);
        for (size_t i = count; i > 0; i--) /* backwards: the lowest is taken again first */
            push_trimmed_locked(pool, slots[i - 1]);
        kin__lock_give(&pool->lock, KIN__RANK_STACK);
        done += count;
    }
    return done;
}

size_t kin__stack_trim(struct kin__stack_pool *pool, size_t max)
{
    size_t done = 0;
    for (unsigned class_ = KIN__STACK_CLASSES; class_ > 0; class_--)
        done += trim_class(pool, class_ - 1, max - done);
    return done;
}

void kin__stack_pool_fini(struct kin__stack_pool *pool)
{
    for (unsigned class_ = 0; class_ < KIN__STACK_CLASSES; class_++) {
        struct kin__stack_segment *segment = pool->segments[class_];
        while (segment) { /* ends: the list of segments does */
            struct kin__stack_segment *older = segment->older;
            segment_destroy(segment);
            segment = older;
        }
    }
    *pool = (struct kin__stack_pool){0};
}

/* ---- asking ---- */

void kin__stack_unpoison(const struct kin__stack *stack)
{
#if KIN__ASAN
    __asan_unpoison_memory_region(stack->low, (size_t)(stack->base - stack->low));
#else
    (void)stack;
#endif
}

bool kin__stack_in_guard(const struct kin__stack *stack, uintptr_t address)
{
    uintptr_t low = (uintptr_t)stack->low;
    return kin__stack_has_guard(stack) && address < low && address >= low - stack->segment->guard;
}

size_t kin__stack_guard_bytes(const struct kin__stack *stack)
{
    return stack->segment->guard;
}

void kin__stack_arm(struct kin__stack *stack)
{
    size_t guard = stack->segment->guard;
    KIN__ASSERT(!stack->is_guarded && !stack->is_armed, "house");
    stack->is_armed = kin__vm_close(stack->low - guard, guard);
}

void kin__stack_disarm(struct kin__stack *stack)
{
    size_t guard = stack->segment->guard;
    if (!stack->is_armed)
        return;
    kin__vm_open(stack->low - guard, guard);
    stack->is_armed = false;
    if (!kin__stack_is_sound(stack)) /* whoever overflowed has met the guard, past the canary */
        kin__stack_mend(stack);
}

/* Reads what an overflowed frame may have poisoned. */
__attribute__((no_sanitize_address)) bool kin__stack_is_sound(const struct kin__stack *stack)
{
    if (kin__stack_has_guard(stack))
        return true;

    const uint64_t *word = (const uint64_t *)(const void *)stack->low;
    for (unsigned i = 0; i < CANARY_WORDS; i++)
        if (word[i] != (CANARY ^ (uintptr_t)&word[i]))
            return false;
    return true;
}
