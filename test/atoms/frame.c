/* SPDX-License-Identifier: MIT */
/*
 * Names of frames: src/mem/frame.c as it is, but for batches of two, so that a few frames are many.
 *
 * It is the registry that is below all handles. A frame is had by one at a time; what its owner
 * wrote into it is its owner's; a name finds the frame that has it, or had it, from any thread and
 * without a lock, also while the first frames are cut; and whoever compares knows an old name.
 */
#include "harness.h"

#include "mem/frame.h"
#undef KIN__FRAME_BATCH
#define KIN__FRAME_BATCH 2u
#include "mem/frame.c"

#include <string.h>

#define FRAMES 8u /* at most */

/* A frame with something of its owner's behind its head. */
struct item {
    struct kin__frame head;
    unsigned owner;
};

static struct kin__frame **batches;
static char *chunk;
static kin__a64 known; /* a name that was told to others */

/* ---- below ---- */

_Noreturn void kin__check_failed(const char *condition, const char *clause, const char *file,
                                 int line, const char *function)
{
    (void)clause, (void)file, (void)line, (void)function;
    kin_atoms_assert(false, condition);
    __builtin_trap();
}

static bool is_zero(void *word)
{
    return atomic_load_explicit((kin__a32 *)word, memory_order_relaxed) == 0;
}

void kin__lock_slow(kin__a32 *word)
{
    do
        kin_atoms_await(is_zero, word);
    while (atomic_exchange_explicit(word, 1, memory_order_acquire) != 0);
}

/* The first request is for the batches, the second for frames, which come as zeroes. */
void *kin__vm_reserve(size_t bytes)
{
    if (bytes == BATCHES_MAX * sizeof(batches[0]))
        return batches;
    uint64_t *words = (uint64_t *)(void *)chunk;
    for (size_t i = 0; i < FRAMES * KIN__FRAME_BYTES / sizeof(words[0]); i++)
        words[i] = 0;
    return chunk;
}

void kin__vm_prefer_huge(void *base, size_t bytes)
{
    (void)base, (void)bytes;
}

/* ---- threads ---- */

static struct item *take(struct kin__frame_cache *cache, unsigned owner)
{
    struct item *item = (struct item *)(void *)kin__frame_alloc(cache);
    kin_atoms_assert(item != NULL, "there is memory");
    item->owner = owner;
    return item;
}

static void give(struct kin__frame_cache *cache, struct item *item, unsigned owner)
{
    uint64_t name = atomic_load_explicit(&item->head.name, memory_order_relaxed);
    kin_atoms_assert(item->owner == owner, "nobody else has it");
    kin_atoms_assert(kin__frame_at(KIN__FRAME_TASK, name) == &item->head, "its name finds it");
    kin__frame_free(cache, &item->head);
    kin_atoms_assert(atomic_load_explicit(&item->head.name, memory_order_relaxed) != name,
                     "a name ends with its frame");
}

/* Takes one, two, ... and gives all of them back to the others. */
static void work(void *arg)
{
    unsigned rounds = *(const unsigned *)arg, me = kin_atoms_self() + 1;
    for (unsigned i = 1; i <= rounds; i++) {
        struct kin__frame_cache cache = {0};
        struct item *one = take(&cache, me);
        struct item *two = i > 1 ? take(&cache, me) : NULL;
        give(&cache, one, me);
        if (two)
            give(&cache, two, me);
        kin__frame_flush(&cache);
    }
}

static void tell(void *arg)
{
    struct kin__frame_cache cache = {0};
    struct item *item = take(&cache, 1);
    uint64_t name = atomic_load_explicit(&item->head.name, memory_order_relaxed);
    (void)arg;
    atomic_store_explicit(&known, name, memory_order_release);
    give(&cache, item, 1);
    item = take(&cache, 2); /* the same frame with another name */
    kin_atoms_assert(atomic_load_explicit(&item->head.name, memory_order_relaxed) != name,
                     "no name comes back");
    give(&cache, item, 2);
}

/* A name that was told, or one that nobody was told. */
static void look(void *arg)
{
    uint64_t name = atomic_load_explicit(&known, memory_order_acquire);
    struct kin__frame *frame = kin__frame_at(KIN__FRAME_TASK, name ? name : *(const uint64_t *)arg);
    if (name)
        kin_atoms_assert((char *)frame == chunk + (name & INDEX_MASK) * KIN__FRAME_BYTES,
                         "a name finds its frame");
    harness_outcome(!name ? frame != NULL :
                    atomic_load_explicit(&frame->name, memory_order_relaxed) == name ? 2 : 3);
}

static void visit(struct kin__frame *frame, void *arg)
{
    (void)arg;
    kin_atoms_assert(atomic_load_explicit(&frame->name, memory_order_relaxed) != 0,
                     "who is shown has a name");
}

static void look_at_all(void *arg)
{
    kin__frame_each(visit, arg);
}

/* ---- explorations ---- */

static void start(void)
{
    memset(pools, 0, offsetof(struct pool, directory));
    pools[0].directory[0] = 0;
    pools[0].batches = NULL;
    known = 0;
    batches = kin_atoms_alloc(FRAMES * sizeof(batches[0]));
    chunk = kin_atoms_alloc(FRAMES * KIN__FRAME_BYTES);
}

static void begin_two(void *arg)
{
    start();
    kin_atoms_spawn("one", work, arg);
    kin_atoms_spawn("two", work, arg);
}

static void begin_three(void *arg)
{
    begin_two(arg);
    kin_atoms_spawn("three", work, arg);
}

static void begin_lookup(void *arg)
{
    static uint64_t first = UINT64_C(1) << KIN__FRAME_INDEX_BITS | 1;
    (void)arg;
    start();
    kin_atoms_spawn("owner", tell, NULL);
    kin_atoms_spawn("looks", look, &first);
}

static void begin_dump(void *arg)
{
    start();
    kin_atoms_spawn("owner", work, arg);
    kin_atoms_spawn("looks", look_at_all, NULL);
}

static unsigned length(const struct kin__frame *chain)
{
    unsigned count = 0;
    for (; chain; chain = chain->free_next)
        count++;
    return count;
}

static void end(void *arg)
{
    unsigned free = length(pools[0].loose);
    (void)arg;
    for (uint32_t i = 0; i < pools[0].batch_count; i++)
        free += length(pools[0].batches[i]);
    kin_atoms_assert(free == pools[0].next - 1, "all of them are free; nobody is index 0");
}

static unsigned one = 1, two = 2;

const struct harness harnesses[] = {
    {.name = "frame_two", .begin = begin_two, .end = end, .arg = &one},
    {.name = "frame_two_c11", .begin = begin_two, .end = end, .arg = &one, .memory = KIN_ATOMS_C11},
    {.name = "frame_three", .begin = begin_three, .end = end, .arg = &one, .is_deep = true},
    {.name = "frame_lookup", .begin = begin_lookup, .outcomes = 15},
    {.name = "frame_lookup_c11", .begin = begin_lookup, .outcomes = 15, .memory = KIN_ATOMS_C11},
    {.name = "frame_dump", .begin = begin_dump, .end = end, .arg = &two},
    {.name = "frame_dump_c11", .begin = begin_dump, .end = end, .arg = &one,
     .memory = KIN_ATOMS_C11},
    {.name = "frame_two_rounds", .begin = begin_two, .end = end, .arg = &two},
    {0},
};
