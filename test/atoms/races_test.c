/* SPDX-License-Identifier: MIT */
/*
 * Races: which two accesses are in order and which are not, one program for each way.
 */
#include "kin_test.h"

#include "words.h"

#include <string.h>

static uint32_t x, y;
static kin__wide wide;
static int plain;
static char bytes[64] __attribute__((aligned(64)));
static struct kin_atoms_report report;

struct pair {
    void (*one)(void *arg);
    void (*other)(void *arg);
    void (*third)(void *arg);
};

static void begin(void *arg)
{
    const struct pair *pair = arg;
    x = y = 0;
    wide = 0;
    plain = 0;
    kin_atoms_spawn("one", pair->one, NULL);
    kin_atoms_spawn("other", pair->other, NULL);
    if (pair->third)
        kin_atoms_spawn("third", pair->third, NULL);
}

static bool races(struct pair pair)
{
    int rc = explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin, &pair, &report);
    EXPECT(rc == 0 || (rc == KIN_PANICKED && strcmp(report.oracle, "data-race") == 0));
    for (int memory = KIN_ATOMS_TSO; memory <= KIN_ATOMS_C11; memory++) /* all see the same */
        EXPECT_EQ(explore(KIN_ATOMS_DPOR, (enum kin_atoms_memory)memory, begin, &pair, &report),
                  rc);
    return rc != 0;
}

#define FLOW(name, ...)                                                                            \
    static void name(void *arg)                                                                    \
    {                                                                                              \
        (void)arg;                                                                                 \
        __VA_ARGS__                                                                                \
    }

FLOW(writes, put(&plain, 1);)
FLOW(reads, (void)get(&plain);)

KIN_TEST(two_accesses_race_when_one_of_them_writes, "")
{
    EXPECT(races((struct pair){writes, writes, NULL}));
    EXPECT(races((struct pair){writes, reads, NULL}));
    EXPECT(races((struct pair){reads, writes, NULL}));
    EXPECT(!races((struct pair){reads, reads, NULL}));
}

FLOW(publishes, put(&plain, 1); store(&x, 1, RELEASE);)
FLOW(publishes_relaxed, put(&plain, 1); store(&x, 1, RELAXED);)
FLOW(publishes_by_fence, put(&plain, 1); __tsan_atomic_thread_fence(RELEASE);
     store(&x, 1, RELAXED);)
FLOW(subscribes, if (load(&x, ACQUIRE)) put(&plain, 2);)
FLOW(subscribes_relaxed, if (load(&x, RELAXED)) put(&plain, 2);)
FLOW(subscribes_by_fence, if (load(&x, RELAXED)) {
    __tsan_atomic_thread_fence(ACQUIRE);
    put(&plain, 2);
})

KIN_TEST(a_release_that_is_acquired_orders, "")
{
    EXPECT(!races((struct pair){publishes, subscribes, NULL}));
    EXPECT(races((struct pair){publishes_relaxed, subscribes, NULL}));
    EXPECT(races((struct pair){publishes, subscribes_relaxed, NULL}));
}

KIN_TEST(fences_order_what_relaxed_accesses_carry, "")
{
    EXPECT(!races((struct pair){publishes_by_fence, subscribes, NULL}));
    EXPECT(!races((struct pair){publishes, subscribes_by_fence, NULL}));
    EXPECT(!races((struct pair){publishes_by_fence, subscribes_by_fence, NULL}));
    EXPECT(races((struct pair){publishes_by_fence, subscribes_relaxed, NULL}));
}

/* What comes behind a release is not covered by it. */
FLOW(publishes_too_early, store(&x, 1, RELEASE); put(&plain, 1);)

KIN_TEST(what_comes_behind_a_release_is_not_ordered_by_it, "")
{
    EXPECT(races((struct pair){publishes_too_early, subscribes, NULL}));
}

/* A chain of read-modify-writes hands a release on; a store of somebody else ends it. */
FLOW(adds, (void)add(&x, 1, RELAXED);)
FLOW(overwrites, store(&x, 2, RELAXED);)
FLOW(subscribes_to_two, if (load(&x, ACQUIRE) == 2) put(&plain, 2);)

KIN_TEST(read_modify_writes_hand_a_release_on_and_stores_end_it, "")
{
    EXPECT(!races((struct pair){publishes, adds, subscribes_to_two}));
    EXPECT(races((struct pair){publishes, overwrites, subscribes_to_two}));
}

/* A compare-exchange that fails releases nothing and acquires as its second order says. */
FLOW(publishes_by_cas, put(&plain, 1); (void)cas(&x, 0, 1, RELEASE);)
FLOW(publishes_by_failed_cas, put(&plain, 1); (void)cas(&x, 5, 6, RELEASE); store(&x, 1, RELAXED);)

KIN_TEST(a_failed_exchange_hands_nothing_on, "")
{
    EXPECT(!races((struct pair){publishes_by_cas, subscribes, NULL}));
    EXPECT(races((struct pair){publishes_by_failed_cas, subscribes, NULL}));
}

/* An update that leaves the value as it is hands on what a fence has released: whether it comes
 * before a load is not the same. */
FLOW(publishes_by_nothing, put(&plain, 1); __tsan_atomic_thread_fence(RELEASE);
     (void)add(&x, 0, RELAXED);)
FLOW(subscribes_to_anything, (void)load(&x, ACQUIRE); put(&plain, 2);)

KIN_TEST(an_update_that_changes_nothing_hands_on_what_a_fence_released, "")
{
    EXPECT(races((struct pair){publishes_by_nothing, subscribes_to_anything, NULL}));
    EXPECT(races((struct pair){subscribes_to_anything, publishes_by_nothing, NULL}));
}

#ifdef __SIZEOF_INT128__
/* What accesses of 16 bytes order is what they say. */
FLOW(publishes_widely, put(&plain, 1); __tsan_atomic128_store(&wide, 1, RELEASE);)
FLOW(publishes_widely_relaxed, put(&plain, 1); __tsan_atomic128_store(&wide, 1, RELAXED);)
FLOW(exchanges_widely, kin__wide zero = 0; put(&plain, 1);
     (void)__tsan_atomic128_compare_exchange_strong(&wide, &zero, 1, ACQ_REL, RELAXED);)
FLOW(adds_widely, (void)__tsan_atomic128_fetch_add(&wide, 1, RELAXED);)
FLOW(subscribes_widely, if (__tsan_atomic128_load(&wide, ACQUIRE)) put(&plain, 2);)
FLOW(subscribes_widely_to_two, if (__tsan_atomic128_load(&wide, ACQUIRE) == 2) put(&plain, 2);)
FLOW(subscribes_widely_relaxed, if (__tsan_atomic128_load(&wide, RELAXED)) put(&plain, 2);)
FLOW(fails_widely, kin__wide zero = 0;
     if (!__tsan_atomic128_compare_exchange_weak(&wide, &zero, 0, SEQ, RELAXED)) put(&plain, 2);)

KIN_TEST(sixteen_bytes_order_what_they_say, "")
{
    EXPECT(!races((struct pair){publishes_widely, subscribes_widely, NULL}));
    EXPECT(!races((struct pair){exchanges_widely, subscribes_widely, NULL}));
    EXPECT(!races((struct pair){publishes_widely, adds_widely, subscribes_widely_to_two}));
    EXPECT(races((struct pair){publishes_widely_relaxed, subscribes_widely, NULL}));
    EXPECT(races((struct pair){publishes_widely, subscribes_widely_relaxed, NULL}));
    EXPECT(races((struct pair){publishes_widely, fails_widely, NULL}));
}
#endif

/* ---- store buffers ---- */

/* Who reads its own store from its buffer has not read that of another one in memory. */
static unsigned missed;
FLOW(publishes_and_says, put(&plain, 1); store(&x, 2, RELEASE); store(&y, 1, RELAXED);)
FLOW(reads_its_own, store(&x, 1, RELAXED); if (load(&y, RELAXED) && load(&x, ACQUIRE) == 1) {
    put(&plain, 2);
    missed++; /* not reached: that was a race */
})

KIN_TEST(what_comes_from_a_buffer_hands_nothing_on, "")
{
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    struct pair pair = {publishes_and_says, reads_its_own, NULL};
    config.memory = KIN_ATOMS_TSO;
    config.keeps_going = true;
    missed = 0;
    EXPECT_EQ(kin_atoms_run(&config, begin, NULL, &pair, &report), KIN_PANICKED);
    EXPECT_GT(report.failures, 1);
    EXPECT_EQ(missed, 0);
}

/* ---- atomic and plain accesses ---- */

/* Atomic accesses race with plain ones, not with each other. */
FLOW(writes_plainly, __tsan_write4(&y); y = 1;)
FLOW(reads_atomically, (void)load(&y, SEQ);)
FLOW(writes_atomically, store(&y, 2, SEQ);)

KIN_TEST(atomic_accesses_race_with_plain_ones_only, "")
{
    EXPECT(races((struct pair){writes_plainly, reads_atomically, NULL}));
    EXPECT(races((struct pair){writes_plainly, writes_atomically, NULL}));
    EXPECT(!races((struct pair){writes_atomically, reads_atomically, NULL}));
    EXPECT(!races((struct pair){writes_atomically, writes_atomically, NULL}));
}

/* ---- bytes ---- */

FLOW(writes_first_half, __tsan_write4(bytes);)
FLOW(writes_second_half, __tsan_write4(bytes + 4);)
FLOW(writes_the_middle, __tsan_unaligned_write4(bytes + 2);)
FLOW(writes_across_cells, __tsan_unaligned_write8(bytes + 5);)
FLOW(writes_the_next_cell, __tsan_write1(bytes + 12);)
FLOW(writes_a_range, __tsan_write_range(bytes, 13);)
FLOW(copies, __tsan_memcpy(bytes + 32, bytes, 8);)

KIN_TEST(only_common_bytes_count, "")
{
    EXPECT(!races((struct pair){writes_first_half, writes_second_half, NULL}));
    EXPECT(races((struct pair){writes_first_half, writes_the_middle, NULL}));
    EXPECT(races((struct pair){writes_second_half, writes_the_middle, NULL}));
    EXPECT(races((struct pair){writes_second_half, writes_across_cells, NULL}));
    EXPECT(races((struct pair){writes_across_cells, writes_the_next_cell, NULL}));
    EXPECT(!races((struct pair){writes_first_half, writes_across_cells, NULL}));
    EXPECT(races((struct pair){writes_a_range, writes_the_next_cell, NULL}));
    EXPECT(races((struct pair){copies, writes_first_half, NULL}));
    EXPECT(!races((struct pair){copies, writes_the_next_cell, NULL}));
}

/* The write of one and the reads of all others, each of them in order with some. */
FLOW(reads_and_says, (void)get(&plain); (void)add(&x, 1, RELEASE);)
FLOW(writes_after_two, if (load(&x, ACQUIRE) == 2) put(&plain, 1);)
FLOW(writes_after_one, if (load(&x, ACQUIRE) >= 1) put(&plain, 1);)

KIN_TEST(a_write_is_compared_with_every_reader, "")
{
    EXPECT(!races((struct pair){reads_and_says, reads_and_says, writes_after_two}));
    EXPECT(races((struct pair){reads_and_says, reads_and_says, writes_after_one}));
}

KIN_TEST(a_race_names_both_places, "")
{
    EXPECT(races((struct pair){writes, reads, NULL}));
    EXPECT(strstr(report.text, "write by one at ") != NULL);
    EXPECT(strstr(report.text, "read by other at ") != NULL);
}

KIN_TEST(races_can_be_ignored, "")
{
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    struct pair pair = {writes, writes, NULL};
    config.ignores_races = true;
    EXPECT_EQ(kin_atoms_run(&config, begin, NULL, &pair, &report), 0);
}

/* With points at plain accesses the lost update itself is found. */
FLOW(increments, put(&plain, get(&plain) + 1);)

static void end_sum(void *arg)
{
    (void)arg;
    kin_atoms_assert(plain == 2, "no update is lost");
}

KIN_TEST(plain_accesses_can_be_points, "")
{
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    struct pair pair = {increments, increments, NULL};
    config.ignores_races = true;
    EXPECT_EQ(kin_atoms_run(&config, begin, end_sum, &pair, &report), 0);
    config.plain_points = true;
    EXPECT_EQ(kin_atoms_run(&config, begin, end_sum, &pair, &report), KIN_PANICKED);
    EXPECT_STR(report.oracle, "assert");
}

/* ---- memory that is gone ---- */

static int *block;

static void begin_block(void *arg)
{
    const struct pair *pair = arg;
    x = 0;
    block = kin_atoms_alloc(sizeof(*block));
    kin_atoms_spawn("one", pair->one, NULL);
    kin_atoms_spawn("other", pair->other, NULL);
}

FLOW(frees, kin_atoms_free(block);)
FLOW(uses, put(block, 1);)
FLOW(frees_and_says, kin_atoms_free(block); store(&x, 1, RELEASE);)
FLOW(uses_after, if (load(&x, ACQUIRE)) put(block, 1);)
FLOW(uses_and_says, put(block, 1); store(&x, 1, RELEASE);)
FLOW(frees_after, if (load(&x, ACQUIRE)) kin_atoms_free(block);)

KIN_TEST(memory_that_was_freed_is_touched_by_nobody, "")
{
    struct pair unordered = {frees, uses, NULL}, late = {frees_and_says, uses_after, NULL};
    struct pair right = {uses_and_says, frees_after, NULL}, twice = {frees, frees, NULL};
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin_block, &unordered, &report),
              KIN_PANICKED);
    EXPECT_STR(report.oracle, "use-after-free");
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin_block, &late, &report), KIN_PANICKED);
    EXPECT_STR(report.oracle, "use-after-free");
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin_block, &right, &report), 0);
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin_block, &twice, &report), KIN_PANICKED);
}

/* ---- many cells ---- */

static char *large;

static void sweep(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < 200000; i += 8)
        __tsan_write8(large + i);
    store(&x, 1, RELEASE);
}

static void sweep_after(void *arg)
{
    (void)arg;
    if (load(&x, ACQUIRE)) {
        for (size_t i = 0; i < 200000; i += 8)
            __tsan_read8(large + i);
    }
}

static void begin_large(void *arg)
{
    (void)arg;
    x = 0;
    large = kin_atoms_alloc(200000);
    kin_atoms_spawn("one", sweep, NULL);
    kin_atoms_spawn("other", sweep_after, NULL);
}

KIN_TEST(there_is_room_for_many_cells, "")
{
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin_large, NULL, &report), 0);
    EXPECT(report.exhausted);
}
