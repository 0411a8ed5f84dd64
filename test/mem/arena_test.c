/* SPDX-License-Identifier: MIT */
/*
 * Arenas: zeroed, aligned, apart from one another, all gone together; and what happens without
 * memory or with sizes that make no sense.
 */
#include "kin_test.h"

#include "base/rng.h"
#include "mem/arena.h"
#include "plat/context.h"
#include "plat/plat.h"

#include <stdint.h>
#include <string.h>

#if KIN__ASAN
#include <sanitizer/asan_interface.h>
#endif

static bool is_filled(const unsigned char *p, size_t bytes, unsigned char value)
{
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != value)
            return false;
    return true;
}

static bool is_aligned(const void *p)
{
    return ((uintptr_t)p & 15) == 0;
}

/* Goal: allocations are zero when handed out and no two overlap. Method: random sizes, each filled
 * with its own byte, all checked at the end. */
KIN_TEST(allocations_are_zeroed_aligned_and_disjoint, "")
{
    enum { COUNT = 2000 };
    static unsigned char *memory[COUNT];
    static size_t bytes[COUNT];
    struct kin__arena arena = {0};
    struct kin__rng rng;
    size_t rounded = 0;

    kin__rng_init(&rng, kin_test_seed(), 0);
    for (int i = 0; i < COUNT; i++) {
        size_t limit = (size_t)16 << kin__rng_next(&rng) % 12; /* up to 32 KiB */
        bytes[i] = kin__rng_next(&rng) % limit;
        memory[i] = kin__arena_alloc(&arena, bytes[i]);
        EXPECT(memory[i]);
        EXPECT(is_aligned(memory[i]));
        EXPECT(is_filled(memory[i], bytes[i], 0));
        memset(memory[i], i & 0xff, bytes[i]);
        rounded += bytes[i] ? (bytes[i] + 15) / 16 * 16 : 16;
    }
    EXPECT_EQ(arena.bytes, rounded);
    for (int i = 0; i < COUNT; i++)
        EXPECT(is_filled(memory[i], bytes[i], (unsigned char)(i & 0xff)));
    kin__arena_fini(&arena);
}

KIN_TEST(size_zero_gives_a_pointer_of_its_own, "")
{
    struct kin__arena arena = {0};
    char *a = kin__arena_alloc(&arena, 0);
    char *b = kin__arena_alloc(&arena, 0);
    char *c = kin__arena_alloc(&arena, 1);

    EXPECT(a && b && c);
    EXPECT(a != b && b != c && a != c);
    EXPECT(is_aligned(a) && is_aligned(b) && is_aligned(c));
    kin__arena_fini(&arena);
}

/* Goal: sizes that would overflow are refused and change nothing. */
KIN_TEST(nonsensical_sizes_are_refused, "")
{
    static const size_t nonsense[] = {SIZE_MAX,      SIZE_MAX - 1,  SIZE_MAX - 15,   SIZE_MAX - 16,
                                      SIZE_MAX - 31, SIZE_MAX / 2, SIZE_MAX / 2 + 1, PTRDIFF_MAX};
    struct kin__arena arena = {0};
    char *before = kin__arena_alloc(&arena, 16);
    EXPECT(before);

    struct kin__arena copy = arena;
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
        EXPECT_PTR(kin__arena_alloc(&arena, nonsense[i]), NULL);
        EXPECT(memcmp(&arena, &copy, sizeof(arena)) == 0);
    }
    EXPECT_PTR((char *)kin__arena_alloc(&arena, 16), before + 16);
    kin__arena_fini(&arena);
}

/* Goal: chunks double, so many small allocations are few requests to the heap. */
KIN_TEST(chunks_double_up_to_64_kib, "")
{
    struct kin__arena arena = {0};

    kin__plat_fail_after(0, false); /* counts from 0 */
    EXPECT(kin__arena_alloc(&arena, 512 - 16));
    EXPECT_EQ(kin__plat_requests(), 1); /* one chunk of 512 with its head of 16 */
    EXPECT(kin__arena_alloc(&arena, 1024 - 16));
    EXPECT_EQ(kin__plat_requests(), 2);
    for (size_t bytes = 0; bytes < 1024 * 1024; bytes += 64)
        EXPECT(kin__arena_alloc(&arena, 64));
    /* 2, 4, 8, 16 and 32 KiB, then 1 MiB less those 62 KiB in chunks of 64 KiB */
    EXPECT_EQ(kin__plat_requests(), 2 + 5 + 16);
    kin__arena_fini(&arena);
}

/* Goal: a large request leaves the chunk that is being filled in use. */
KIN_TEST(large_request_gets_a_chunk_of_its_own, "")
{
    struct kin__arena arena = {0};
    char *first = kin__arena_alloc(&arena, 32);
    unsigned char *large = kin__arena_alloc(&arena, 100 * 1000);
    char *second = kin__arena_alloc(&arena, 32);

    EXPECT(first && large && second);
    EXPECT_PTR(second, first + 32);
    EXPECT(is_aligned(large));
    EXPECT(is_filled(large, 100 * 1000, 0));
    memset(large, 0xff, 100 * 1000);
    EXPECT(is_filled((unsigned char *)second, 32, 0));

    /* Doubling goes on where it was: 432 bytes are left of the first chunk, the next has 1024. */
    kin__plat_fail_after(0, false); /* counts from 0 */
    for (int i = 0; i < 6 + 15; i++)
        EXPECT(kin__arena_alloc(&arena, 64));
    EXPECT_EQ(kin__plat_requests(), 1);
    kin__arena_fini(&arena);

    large = kin__arena_alloc(&arena, 20 * 1000); /* the very first may be large too */
    first = kin__arena_alloc(&arena, 32);
    EXPECT(large && first);
    memset(large, 0xff, 20 * 1000);
    EXPECT(is_filled((unsigned char *)first, 32, 0));
    kin__arena_fini(&arena);
}

KIN_TEST(arena_is_empty_and_usable_after_fini, "")
{
    struct kin__arena arena = {0};
    struct kin__arena empty = {0};

    kin__arena_fini(&arena);
    for (int round = 0; round < 3; round++) {
        unsigned char *p = kin__arena_alloc(&arena, 300);
        EXPECT(p && is_filled(p, 300, 0));
        memset(p, 0xa5, 300);
        EXPECT_EQ(arena.bytes, 304);
        kin__arena_fini(&arena);
        EXPECT(memcmp(&arena, &empty, sizeof(arena)) == 0);
    }
}

/* Goal: a failed request for memory gives NULL and leaves the arena usable. Method: the n-th
 * request fails, for every n there is; the sizes make small, doubling and lone chunks. */
KIN_TEST(exhausted_memory_leaves_the_arena_consistent, "")
{
    static const size_t sizes[] = {8, 600, 5000, 20000, 8, 16000, 16000, 70000, 100};
    enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
    uint64_t failed = 0;

    for (uint64_t n = 1;; n++) {
        struct kin__arena arena = {0};
        unsigned char *memory[SIZES];
        uint64_t nulls = 0;

        EXPECT_LT(n, 100);
        kin__plat_fail_after(n, false);
        for (int i = 0; i < SIZES; i++) {
            memory[i] = kin__arena_alloc(&arena, sizes[i]);
            if (!memory[i]) {
                nulls++;
                memory[i] = kin__arena_alloc(&arena, sizes[i]); /* fails once only */
            }
            EXPECT(memory[i]);
            EXPECT(is_filled(memory[i], sizes[i], 0));
            memset(memory[i], i + 1, sizes[i]);
        }
        kin__plat_fail_after(0, false);
        for (int i = 0; i < SIZES; i++)
            EXPECT(is_filled(memory[i], sizes[i], (unsigned char)(i + 1)));
        kin__arena_fini(&arena);
        EXPECT_LE(nulls, 1);
        failed += nulls;
        if (nulls == 0)
            break;
    }
    EXPECT_GE(failed, 5); /* each chunk's request was the failing one once */
}

#if KIN__ASAN
/* Goal: ASan sees an access past an allocation, in the chunk's unused part and before the next. */
KIN_TEST(bytes_that_nobody_asked_for_are_poisoned, "")
{
    struct kin__arena arena = {0};
    char *a = kin__arena_alloc(&arena, 20);
    char *b = kin__arena_alloc(&arena, 16);
    char *large = kin__arena_alloc(&arena, 20001);

    EXPECT_PTR(__asan_region_is_poisoned(a, 20), NULL);
    EXPECT(__asan_address_is_poisoned(a + 20));
    EXPECT_PTR(__asan_region_is_poisoned(b, 16), NULL);
    EXPECT(__asan_address_is_poisoned(b + 16));
    EXPECT_PTR(__asan_region_is_poisoned(large, 20001), NULL);
    EXPECT(__asan_address_is_poisoned(large + 20001));
    kin__arena_fini(&arena);
}
#endif
