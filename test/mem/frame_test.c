/* SPDX-License-Identifier: MIT */
/*
 * Frames: every name once, old names never match, nothing is lost between caches and pool, and
 * exhausted memory leaves everything as it was.
 */
#include "kin_test.h"

#include "base/rng.h"
#include "mem/frame.h"
#include "plat/plat.h"

#include <stdlib.h>
#include <string.h>

#define INDEX_MASK ((UINT64_C(1) << KIN__FRAME_INDEX_BITS) - 1)
#define GENERATION (UINT64_C(1) << KIN__FRAME_INDEX_BITS)
#define BODY_BYTES (KIN__FRAME_BYTES - sizeof(struct kin__frame))

static uint64_t name_of(struct kin__frame *frame)
{
    return kin__load_relaxed(&frame->name); /* relaxed: the test's own frame */
}

static unsigned char *body_of(struct kin__frame *frame)
{
    return (unsigned char *)(frame + 1);
}

static bool is_filled(const unsigned char *p, size_t bytes, unsigned char value)
{
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != value)
            return false;
    return true;
}

static int compare_names(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Goal: a fresh frame is zero, aligned, found by its name; no two share a name or memory. */
KIN_TEST(hundred_thousand_frames_have_names_of_their_own, "ABA:8.3")
{
    enum { COUNT = 100000 };
    struct kin__frame **frames = calloc(COUNT, sizeof(*frames));
    uint64_t *names = calloc(COUNT, sizeof(*names));
    struct kin__frame_cache cache = {0};

    EXPECT(frames && names);
    for (int i = 0; i < COUNT; i++) {
        frames[i] = kin__frame_alloc(&cache);
        EXPECT(frames[i]);
        EXPECT_EQ((uintptr_t)frames[i] % 64, 0);
        EXPECT(is_filled(body_of(frames[i]), BODY_BYTES, 0));
        memset(body_of(frames[i]), i & 0xff, BODY_BYTES);
        names[i] = name_of(frames[i]);
        EXPECT_EQ(names[i] >> KIN__FRAME_INDEX_BITS, 1);
        EXPECT_NE(names[i] & INDEX_MASK, 0);
        EXPECT_PTR(kin__frame_at(KIN__FRAME_TASK, names[i]), frames[i]);
    }
    for (int i = 0; i < COUNT; i++)
        EXPECT(is_filled(body_of(frames[i]), BODY_BYTES, (unsigned char)(i & 0xff)));
    EXPECT_GE(kin__frame_bytes(), (size_t)COUNT * KIN__FRAME_BYTES);

    qsort(names, COUNT, sizeof(*names), compare_names);
    for (int i = 1; i < COUNT; i++)
        EXPECT_LT(names[i - 1], names[i]);
    for (int i = 0; i < COUNT; i++)
        kin__frame_free(&cache, frames[i]);
    kin__frame_flush(&cache);
    free(frames);
    free(names);
}

/* Goal: freeing ends the name; the frame stays readable and comes back with another one, as it
 * was left. */
KIN_TEST(freeing_ends_the_name, "ABA:8.3")
{
    struct kin__frame_cache cache = {0};
    struct kin__frame *frame = kin__frame_alloc(&cache);
    EXPECT(frame);
    uint64_t name = name_of(frame);

    memset(body_of(frame), 0x5a, BODY_BYTES);
    for (int round = 1; round <= 100; round++) {
        kin__frame_free(&cache, frame);
        EXPECT_PTR(kin__frame_at(KIN__FRAME_TASK, name), frame);
        EXPECT_EQ(name_of(frame), name + GENERATION);
        EXPECT_PTR(kin__frame_alloc(&cache), frame);
        EXPECT_NE(name_of(frame), name);
        EXPECT(is_filled(body_of(frame), BODY_BYTES, 0x5a));
        name = name_of(frame);
    }
}

KIN_TEST(names_that_nobody_had_find_nobody, "")
{
    struct kin__frame_cache cache = {0};

    EXPECT_PTR(kin__frame_at(KIN__FRAME_TASK, GENERATION | 1), NULL); /* nothing was ever cut */
    struct kin__frame *frame = kin__frame_alloc(&cache);
    EXPECT(frame);
    EXPECT_PTR(kin__frame_at(KIN__FRAME_TASK, 0), NULL);
    EXPECT_PTR(kin__frame_at(KIN__FRAME_TASK, GENERATION), NULL);
    EXPECT_PTR(kin__frame_at(KIN__FRAME_TASK, UINT64_MAX), NULL);
    EXPECT_PTR(kin__frame_at(KIN__FRAME_TASK, GENERATION | INDEX_MASK), NULL);
    EXPECT_PTR(kin__frame_at(KIN__FRAME_TASK, GENERATION | 2000), NULL); /* there, but not cut */
    EXPECT_PTR(kin__frame_at(KIN__FRAME_TASK, GENERATION | 100000), NULL); /* has none */
    /* Another generation of an index that is in use finds the frame; its name tells them apart. */
    EXPECT_PTR(kin__frame_at(KIN__FRAME_TASK, name_of(frame) + 7 * GENERATION), frame);
    EXPECT_NE(name_of(frame), name_of(frame) + 7 * GENERATION);
}

/* Goal: frames that were given back are used again before new ones are cut. */
KIN_TEST(frames_are_recycled_through_the_pool, "")
{
    enum { COUNT = 157 * KIN__FRAME_BATCH - 1 }; /* whole batches; nobody is index 0 */
    static struct kin__frame *frames[COUNT];
    struct kin__frame_cache one = {0}, other = {0};

    for (int i = 0; i < COUNT; i++)
        EXPECT(frames[i] = kin__frame_alloc(&one));
    EXPECT_EQ(one.count, 0);
    size_t bytes = kin__frame_bytes();
    for (int i = 0; i < COUNT; i++) {
        kin__frame_free(&one, frames[i]);
        EXPECT_LE(one.count, 2 * KIN__FRAME_BATCH);
    }
    kin__frame_flush(&one);
    EXPECT_EQ(one.count, 0);
    EXPECT_PTR(one.free, NULL);
    for (int i = 0; i < COUNT; i++) {
        EXPECT(frames[i] = kin__frame_alloc(&other));
        EXPECT_EQ(name_of(frames[i]) >> KIN__FRAME_INDEX_BITS, 2);
        EXPECT_LE(name_of(frames[i]) & INDEX_MASK, COUNT);
    }
    EXPECT_EQ(kin__frame_bytes(), bytes);
}

/* Goal: what was once a task's frame never becomes anything else, and the other way round. */
KIN_TEST(kinds_share_no_memory, "")
{
    enum { COUNT = 1000 };
    static struct kin__frame *scopes[COUNT];
    struct kin__frame_cache tasks = {0}, others = {.kind = KIN__FRAME_SCOPE};

    for (int i = 0; i < COUNT; i++)
        EXPECT(scopes[i] = kin__frame_alloc(&others));
    EXPECT_PTR(kin__frame_at(KIN__FRAME_TASK, name_of(scopes[0])), NULL); /* another kind */
    for (int i = 0; i < COUNT; i++)
        kin__frame_free(&others, scopes[i]);
    kin__frame_flush(&others);
    for (int i = 0; i < COUNT; i++) {
        struct kin__frame *task = kin__frame_alloc(&tasks);
        EXPECT(task);
        EXPECT_EQ(name_of(task) >> KIN__FRAME_INDEX_BITS, 1); /* never used before */
        EXPECT_PTR(kin__frame_at(KIN__FRAME_TASK, name_of(task)), task);
    }
    EXPECT_EQ(name_of(kin__frame_alloc(&others)) >> KIN__FRAME_INDEX_BITS, 2);
}

static void count_visit(struct kin__frame *frame, void *arg)
{
    size_t *count = arg;
    EXPECT_NE(name_of(frame), 0);
    ++*count;
    EXPECT_EQ(name_of(frame) & INDEX_MASK, *count); /* in the order of their indices */
}

KIN_TEST(each_visits_every_frame_ever_cut, "")
{
    struct kin__frame_cache cache = {0};
    size_t visited = 0;

    kin__frame_each(count_visit, &visited);
    EXPECT_EQ(visited, 0);
    for (int i = 0; i < 5000; i++)
        EXPECT(kin__frame_alloc(&cache));
    kin__frame_each(count_visit, &visited);
    EXPECT_EQ(visited, 5000 + cache.count);
}

/* Goal: no frame is lost, handed out twice or miscounted, whatever moves between caches and pool.
 * Method: random steps against a model; at the end everything that was cut is accounted for. */
KIN_TEST(random_traffic_between_caches_loses_nothing, "")
{
    enum { CACHES = 4, LIVE = 1500, STEPS = 200000 };
    static struct kin__frame *live[LIVE];
    struct kin__frame_cache caches[CACHES] = {{0}};
    struct kin__rng rng;
    int count = 0;

    kin__rng_init(&rng, kin_test_seed(), 0);
    for (int step = 0; step < STEPS; step++) {
        struct kin__frame_cache *cache = &caches[kin__rng_next(&rng) % CACHES];
        uint64_t what = kin__rng_next(&rng) % 1000;
        if (what == 0) {
            kin__frame_flush(cache);
            EXPECT_EQ(cache->count, 0);
        } else if (count < LIVE && (what < 500 || count == 0)) {
            struct kin__frame *frame = kin__frame_alloc(cache);
            EXPECT(frame);
            uint64_t name = name_of(frame);
            memcpy(body_of(frame), &name, sizeof(name)); /* a second owner would overwrite it */
            live[count++] = frame;
        } else {
            int i = (int)(kin__rng_next(&rng) % (unsigned)count);
            uint64_t name;
            memcpy(&name, body_of(live[i]), sizeof(name));
            EXPECT_EQ(name, name_of(live[i]));
            EXPECT_PTR(kin__frame_at(KIN__FRAME_TASK, name), live[i]);
            kin__frame_free(cache, live[i]);
            live[i] = live[--count];
        }
    }

    size_t cut = 0, found = (size_t)count;
    kin__frame_each(count_visit, &cut);
    for (int i = 0; i < CACHES; i++)
        kin__frame_flush(&caches[i]);
    for (; found < cut; found++) /* all that are free come before any new one */
        EXPECT_LE(name_of(kin__frame_alloc(&caches[0])) & INDEX_MASK, cut);
    EXPECT_EQ(caches[0].count, 0);
    EXPECT_GT(name_of(kin__frame_alloc(&caches[0])) & INDEX_MASK, cut);
}

/* ---- threads ---- */

enum { THREADS = 4, BOARD = 256, ROUNDS = 60000 };

static kin__a64 board[BOARD]; /* frames on their way from one thread to another */
static uint64_t seed;

/* Allocates frames and swaps them with frames of others, which it frees. */
static void hammer(void *arg)
{
    struct kin__frame_cache cache = {0};
    struct kin__rng rng;

    kin__rng_init(&rng, seed, (uint64_t)(uintptr_t)arg);
    for (int i = 0; i < ROUNDS; i++) {
        struct kin__frame *frame = kin__frame_alloc(&cache);
        EXPECT(frame);
        uint64_t name = name_of(frame);
        memcpy(body_of(frame), &name, sizeof(name));
        EXPECT_PTR(kin__frame_at(KIN__FRAME_TASK, name), frame);

        /* pairs with itself: what the other wrote into the frame is seen here */
        uint64_t other = kin__xchg_acq_rel(&board[kin__rng_next(&rng) % BOARD],
                                           (uint64_t)(uintptr_t)frame);
        frame = (struct kin__frame *)(uintptr_t)other;
        if (!frame)
            continue;
        memcpy(&name, body_of(frame), sizeof(name));
        EXPECT_EQ(name, name_of(frame));
        kin__frame_free(&cache, frame);
        EXPECT_NE(name_of(frame), name);
        if (kin__rng_next(&rng) % 500 == 0)
            kin__frame_flush(&cache);
    }
    kin__frame_flush(&cache);
}

/* Looks up names, mostly of frames that do not exist yet, while others cut them. */
static void look_up(void *arg)
{
    struct kin__rng rng;

    kin__rng_init(&rng, seed, (uint64_t)(uintptr_t)arg);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t index = kin__rng_next(&rng) % 8192;
        struct kin__frame *frame = kin__frame_at(KIN__FRAME_TASK, index | GENERATION);
        if (frame)
            EXPECT_EQ(name_of(frame) & INDEX_MASK, index);
    }
}

KIN_TEST(threads_share_the_pool, "")
{
    struct kin__thread threads[THREADS + 1];
    size_t cut = 0, found = 0;

    seed = kin_test_seed();
    for (uintptr_t i = 0; i <= THREADS; i++)
        EXPECT_EQ(kin__thread_start(&threads[i], i < THREADS ? hammer : look_up, (void *)i, 65536,
                                    "hammer"), 0);
    for (int i = 0; i <= THREADS; i++)
        kin__thread_join(&threads[i]);

    struct kin__frame_cache cache = {0};
    for (int i = 0; i < BOARD; i++) {
        /* relaxed: the threads were joined */
        uint64_t left = kin__load_relaxed(&board[i]);
        if (left)
            kin__frame_free(&cache, (struct kin__frame *)(uintptr_t)left);
    }
    kin__frame_each(count_visit, &cut);
    EXPECT_LE(cut, BOARD + THREADS * 4 * KIN__FRAME_BATCH);
    while (found < cut) { /* ends: each round finds one */
        EXPECT_LE(name_of(kin__frame_alloc(&cache)) & INDEX_MASK, cut);
        found++;
    }
    EXPECT_GT(name_of(kin__frame_alloc(&cache)) & INDEX_MASK, cut);
}

/* ---- exhausted memory ---- */

/* Goal: without memory alloc says so, and goes on as if nothing had happened when there is some
 * again. Method: each request fails in turn, once or for good, while two chunks are used up. */
static void alloc_with_failure(uint64_t n, bool forever, bool *has_failed)
{
    enum { COUNT = 9000 }; /* the second time the pool grows is at 4096, the third at 12288 */
    static struct kin__frame *frames[COUNT];
    struct kin__frame_cache cache = {0};
    size_t cut = 0;

    *has_failed = false;
    kin__plat_fail_after(n, forever);
    for (int i = 0; i < COUNT; i++) {
        frames[i] = kin__frame_alloc(&cache);
        if (!frames[i]) {
            *has_failed = true;
            EXPECT_EQ(cache.count, 0);
            if (forever)
                EXPECT_PTR(kin__frame_alloc(&cache), NULL);
            kin__plat_fail_after(0, false);
            frames[i] = kin__frame_alloc(&cache);
        }
        EXPECT(frames[i]);
        EXPECT_EQ(name_of(frames[i]) & INDEX_MASK, i + 1); /* no index was skipped */
        EXPECT_EQ(name_of(frames[i]) >> KIN__FRAME_INDEX_BITS, 1);
    }
    kin__frame_each(count_visit, &cut);
    EXPECT_EQ(cut, COUNT + cache.count);

    /* Giving back needs no memory. */
    kin__plat_fail_after(1, true);
    for (int i = 0; i < COUNT; i++)
        kin__frame_free(&cache, frames[i]);
    kin__frame_flush(&cache);
    EXPECT_EQ(kin__plat_requests(), 0);
}

KIN_TEST(no_memory_for_the_pool_itself, "")
{
    bool has_failed;
    alloc_with_failure(1, false, &has_failed);
    EXPECT(has_failed);
}

KIN_TEST(no_memory_for_the_first_chunk, "")
{
    bool has_failed;
    alloc_with_failure(2, false, &has_failed);
    EXPECT(has_failed);
}

KIN_TEST(no_memory_for_the_first_chunk_for_long, "")
{
    bool has_failed;
    alloc_with_failure(2, true, &has_failed);
    EXPECT(has_failed);
}

KIN_TEST(less_memory_than_hoped_for_is_used, "")
{
    bool has_failed;
    alloc_with_failure(3, false, &has_failed); /* two chunks are not to be had, one is */
    EXPECT(!has_failed);
}

KIN_TEST(no_memory_for_a_later_chunk_for_long, "")
{
    bool has_failed;
    alloc_with_failure(3, true, &has_failed);
    EXPECT(has_failed);
}

KIN_TEST(names_of_tasks_cannot_be_guessed_and_lives_are_counted, "002:1.1 ABA:8.3")
{
    struct kin__frame_cache cache = {.kind = KIN__FRAME_TASK};
    struct kin__frame *frames[KIN__FRAME_BATCH];
    uint64_t first[KIN__FRAME_BATCH];
    kin__frame_scramble();
    for (unsigned i = 0; i < KIN__FRAME_BATCH - 1; i++) {
        frames[i] = kin__frame_alloc(&cache);
        first[i] = name_of(frames[i]);
        EXPECT_EQ(kin__frame_life(first[i]), 1);
        if (i > 0) /* neighbours are far from each other, in both directions */
            EXPECT_GT((first[i] - first[i - 1]) >> 40, 0);
    }
    for (uint64_t life = 2; life < 1000; life++) {
        uint64_t before = name_of(frames[0]);
        kin__frame_free(&cache, frames[0]);
        EXPECT_PTR(kin__frame_alloc(&cache), frames[0]);
        EXPECT_EQ(name_of(frames[0]) & INDEX_MASK, before & INDEX_MASK);
        EXPECT_NE(name_of(frames[0]), before + GENERATION);
        EXPECT_EQ(kin__frame_life(name_of(frames[0])), life);
    }
}

/* Goal: a frame that nobody uses any more is still there, with a name that says so: late callers
 * read it without a lock. Method: every frame of several chunks is freed and flushed; then each is
 * looked up by the name that it had, and read, body included: pages that had been unmapped would
 * end the process, and pages that had been given back would read as zero. */
KIN_TEST(frames_are_never_unmapped, "002:1.1")
{
    enum { COUNT = 3 * 4096 };
    static uint64_t names[COUNT];
    static struct kin__frame *frames[COUNT];
    static const enum kin__frame_kind kinds[] = {KIN__FRAME_TASK, KIN__FRAME_SCOPE,
                                                 KIN__FRAME_WATCH, KIN__FRAME_LEASE};
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        struct kin__frame_cache cache = {.kind = kinds[kind]};
        for (int i = 0; i < COUNT; i++) {
            EXPECT(frames[i] = kin__frame_alloc(&cache));
            names[i] = name_of(frames[i]);
            body_of(frames[i])[0] = (unsigned char)(1 + i % 255);
        }
        size_t bytes = kin__frame_bytes();
        for (int i = 0; i < COUNT; i++)
            kin__frame_free(&cache, frames[i]);
        kin__frame_flush(&cache);
        EXPECT_EQ(kin__frame_bytes(), bytes);
        for (int i = 0; i < COUNT; i++) {
            EXPECT_PTR(kin__frame_at(kinds[kind], names[i]), frames[i]);
            EXPECT_NE(name_of(frames[i]), names[i]);
            EXPECT_EQ(name_of(frames[i]) & INDEX_MASK, names[i] & INDEX_MASK);
            EXPECT_EQ(body_of(frames[i])[0], 1 + i % 255);
        }
    }
}
