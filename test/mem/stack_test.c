/* SPDX-License-Identifier: MIT */
/*
 * Stacks: bounds, guards and canaries, recycling through caches and pool, trimming, threads, and
 * exhausted memory.
 */
#include "kin_test.h"

#include "base/rng.h"
#include "mem/stack.h"
#include "plat/context.h"
#include "plat/plat.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if KIN__ASAN
#include <sanitizer/asan_interface.h>
#endif

static struct kin__stack *take(struct kin__stack_cache *cache, struct kin__stack_pool *pool,
                               unsigned class_)
{
    struct kin__stack *stack = kin__stack_take(cache, pool, class_);
    EXPECT(stack);
    EXPECT_EQ(stack->class_, class_);
    EXPECT(kin__stack_is_sound(stack));
    return stack;
}

static size_t warm_of(const struct kin__stack_pool *pool)
{
    size_t warm = 0;
    for (unsigned i = 0; i < KIN__STACK_CLASSES; i++)
        warm += pool->warm[i];
    return warm;
}

static size_t held_by(const struct kin__stack_cache *cache)
{
    size_t held = 0;
    for (unsigned i = 0; i < KIN__STACK_CLASSES; i++)
        held += cache->count[i];
    return held;
}

/* Whether touching address ends a process by SIGSEGV. */
static bool faults(volatile char *address)
{
    pid_t child = fork();
    EXPECT_GE(child, 0);
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL); /* a sanitizer would report and exit instead */
        *address = 1;
        _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

/* ---- shape ---- */

KIN_TEST(class_is_the_smallest_that_holds_the_maximum, "")
{
    EXPECT_EQ(kin__stack_class(0), 0);
    EXPECT_EQ(kin__stack_class(1), 0);
    for (unsigned i = 0; i < KIN__STACK_CLASSES; i++) {
        size_t bytes = kin__stack_class_bytes(i);
        EXPECT_EQ(bytes, (size_t)16384 << i);
        EXPECT_EQ(kin__stack_class(bytes), i);
        EXPECT_EQ(kin__stack_class(bytes - 1), i);
        EXPECT_EQ(kin__stack_class(bytes + 1), i + 1);
    }
    EXPECT_EQ(kin__stack_class(SIZE_MAX), KIN__STACK_CLASSES);
}

/* Goal: every stack has what its class promises, and no byte of another. Method: a hundred of each
 * of some classes; the whole of each is written with a byte of its own and read at the end. */
KIN_TEST(stacks_are_as_large_as_promised_and_disjoint, "SCHED:5.3.2")
{
    enum { COUNT = 100, CLASSES = 4 };
    static struct kin__stack *stacks[CLASSES][COUNT];
    struct kin__stack_cache cache = {0};
    struct kin__stack_pool pool;

    kin__stack_pool_init(&pool);
    for (unsigned c = 0; c < CLASSES; c++) {
        for (int i = 0; i < COUNT; i++) {
            struct kin__stack *stack = stacks[c][i] = take(&cache, &pool, c);
            size_t promised = kin__stack_class_bytes(c);
            EXPECT_GE(stack->base - stack->low, promised + promised / 16);
            EXPECT_EQ((uintptr_t)stack->base % 64, 0);
            EXPECT_EQ((uintptr_t)stack->low % kin__vm_page(), 0);
            EXPECT(stack->is_guarded);
            memset(stack->low, (int)c * COUNT + i, (size_t)(stack->base - stack->low));
        }
    }
    for (unsigned c = 0; c < CLASSES; c++) {
        for (int i = 0; i < COUNT; i++) {
            struct kin__stack *stack = stacks[c][i];
            EXPECT_EQ(stack->class_, c);
            for (char *p = stack->low; p < stack->base; p++)
                if (*p != (char)((int)c * COUNT + i))
                    EXPECT_EQ(*p, (char)((int)c * COUNT + i));
        }
    }
    EXPECT_EQ(pool.total, COUNT * CLASSES);
    EXPECT_EQ(pool.unguarded, 0);
    kin__stack_pool_fini(&pool);
}

/* Goal: the first frames of neighbouring stacks lie in different cache sets, in the page that the
 * descriptor is in. */
KIN_TEST(sixteen_neighbours_have_sixteen_colours, "")
{
    struct kin__stack_cache cache = {0};
    struct kin__stack_pool pool;
    uint32_t seen = 0;

    kin__stack_pool_init(&pool);
    for (int i = 0; i < 16; i++) {
        struct kin__stack *stack = take(&cache, &pool, 2);
        size_t page = kin__vm_page();
        size_t descriptor = (sizeof(*stack) + 63) / 64 * 64;
        size_t colour = page - descriptor - (uintptr_t)stack->base % page;
        EXPECT_EQ(colour % 128, 0);
        EXPECT_LT(colour / 128, 16);
        seen |= 1u << colour / 128;
        EXPECT_EQ((uintptr_t)(stack->base - 1) / page, (uintptr_t)stack / page);
    }
    EXPECT_EQ(seen, 0xffff);
    kin__stack_pool_fini(&pool);
}

KIN_TEST(largest_class_works, "")
{
    struct kin__stack_cache cache = {0};
    struct kin__stack_pool pool;

    kin__stack_pool_init(&pool);
    struct kin__stack *one = take(&cache, &pool, KIN__STACK_CLASSES - 1);
    struct kin__stack *two = take(&cache, &pool, KIN__STACK_CLASSES - 1);
    EXPECT_GE(one->base - one->low, (128 << 20) + (8 << 20));
    one->low[0] = one->base[-1] = two->low[0] = two->base[-1] = 1;
    EXPECT(faults(one->low - 1));
    EXPECT(faults(two->low - 1));
    kin__stack_pool_fini(&pool);
}

/* Goal: a borrowed run has the whole promised maximum below it, or is not allowed. */
KIN_TEST(stack_lends_itself_while_the_promise_holds, "")
{
    struct kin__stack_cache cache = {0};
    struct kin__stack_pool pool;

    kin__stack_pool_init(&pool);
    for (unsigned c = 0; c < 6; c++) {
        struct kin__stack *stack = take(&cache, &pool, c);
        size_t promised = kin__stack_class_bytes(c);
        EXPECT(kin__stack_can_lend(stack, stack->base));
        EXPECT(kin__stack_can_lend(stack, stack->base - promised / 16)); /* all of it */
        EXPECT(kin__stack_can_lend(stack, stack->low + promised));
        EXPECT(!kin__stack_can_lend(stack, stack->low + promised - 1));
        EXPECT(!kin__stack_can_lend(stack, stack->low));
    }
    kin__stack_pool_fini(&pool);
}

/* ---- guards and canaries ---- */

static void expect_guard(const struct kin__stack *stack, size_t guard)
{
    uintptr_t low = (uintptr_t)stack->low;

    EXPECT(stack->is_guarded);
    EXPECT(kin__stack_in_guard(stack, low - 1));
    EXPECT(kin__stack_in_guard(stack, low - guard));
    EXPECT(!kin__stack_in_guard(stack, low - guard - 1));
    EXPECT(!kin__stack_in_guard(stack, low));
    EXPECT(!kin__stack_in_guard(stack, 0));
    EXPECT(faults(stack->low - 1));
    EXPECT(faults(stack->low - guard));
    EXPECT(!faults(stack->low));
    EXPECT(!faults(stack->base - 1));
}

/* Goal: guards stop an overflow however they are made, for stacks of several segments, and survive
 * trimming. */
static void guards_work(enum kin__vm_way way)
{
    enum { COUNT = 20 }; /* a segment of 16 and part of the next */
    struct kin__stack *stacks[COUNT];
    struct kin__stack_cache cache = {0};
    struct kin__stack_pool pool;

    kin__vm_force(way);
    kin__stack_pool_init(&pool);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++)
            stacks[i] = take(&cache, &pool, 0);
        expect_guard(stacks[0], 65536);
        expect_guard(stacks[1], 65536);
        expect_guard(stacks[COUNT - 1], 65536);
        for (int i = 0; i < COUNT; i++)
            kin__stack_give(&cache, &pool, stacks[i]);
        kin__stack_flush(&cache, &pool);
        EXPECT_EQ(kin__stack_trim(&pool, SIZE_MAX), COUNT);
    }
    expect_guard(take(&cache, &pool, 3), 65536);
    expect_guard(take(&cache, &pool, 6), 65536);
    kin__stack_pool_fini(&pool);
}

KIN_TEST(overflow_hits_a_guard, "SCHED:15.2.1")
{
    guards_work(KIN__VM_PROBE);
}

KIN_TEST(overflow_hits_a_guard_of_mprotect, "")
{
    guards_work(KIN__VM_MPROTECT);
}

/* Goal: without guards the canary tells, also after the stack lost its memory and got new. */
KIN_TEST(canary_shows_an_overflow, "")
{
    struct kin__stack_cache cache = {0};
    struct kin__stack_pool pool;

    kin__vm_force(KIN__VM_NONE);
    kin__stack_pool_init(&pool);
    struct kin__stack *stack = take(&cache, &pool, 1);
    EXPECT(!stack->is_guarded);
    EXPECT(!kin__stack_in_guard(stack, (uintptr_t)stack->low - 1));
    EXPECT_EQ(pool.unguarded, 1);
    for (int i = 0; i < 64; i++) {
        stack->low[i] ^= 1;
        EXPECT(!kin__stack_is_sound(stack));
        stack->low[i] ^= 1;
        EXPECT(kin__stack_is_sound(stack));
    }
    memset(stack->low + 64, 0xff, 1000);
    EXPECT(kin__stack_is_sound(stack));
    char *low = stack->low;
    memset(stack->low, 0, 64);
    EXPECT(!kin__stack_is_sound(stack));

    kin__stack_give(&cache, &pool, stack);
    kin__stack_flush(&cache, &pool);
    EXPECT_EQ(kin__stack_trim(&pool, 1), 1);
    stack = take(&cache, &pool, 1); /* expects it to be sound */
    EXPECT_PTR(stack->low, low);
    EXPECT(!stack->is_guarded);
    EXPECT_EQ(pool.unguarded, 1);
    kin__stack_pool_fini(&pool);
}

/* Goal: a stack past the cap has a guard while it is armed, and its canary is whole afterwards. */
KIN_TEST(a_guard_can_be_lent, "SCHED:15.2.1")
{
    struct kin__stack_cache cache = {0};
    struct kin__stack_pool pool;

    kin__vm_force(KIN__VM_NONE);
    kin__stack_pool_init(&pool);
    struct kin__stack *below = take(&cache, &pool, 1), *stack = take(&cache, &pool, 1);
    EXPECT(!kin__stack_has_guard(stack) && !faults(stack->low - 1));
    for (int i = 0; i < 3; i++) {
        kin__stack_arm(stack);
        EXPECT(kin__stack_has_guard(stack) && !kin__stack_has_guard(below));
        EXPECT(kin__stack_in_guard(stack, (uintptr_t)stack->low - 1));
        EXPECT(faults(stack->low - 1) && faults(stack->low - 65536));
        EXPECT(!faults(stack->low) && !faults(stack->low - 65537) && !faults(below->low - 1));
        memset(stack->low, 0, 64);
        EXPECT(kin__stack_is_sound(stack)); /* the guard is what counts */
        kin__stack_disarm(stack);
        EXPECT(!faults(stack->low - 1));
        EXPECT(!kin__stack_has_guard(stack) && kin__stack_is_sound(stack));
    }
    kin__stack_pool_fini(&pool);
}

/* Goal: past the cap on guards of mprotect, stacks go on with canaries. */
KIN_TEST(stacks_past_the_cap_on_guards_have_canaries, "")
{
    enum { PAST = 500 };
    struct kin__stack_cache cache = {0};
    struct kin__stack_pool pool;
    size_t unguarded = 0;

    const char *preload = getenv("LD_PRELOAD");
    if (preload && strstr(preload, "vgpreload"))
        KIN_SKIP("valgrind gives up at 30,000 mappings");
    kin__vm_force(KIN__VM_MPROTECT);
    kin__stack_pool_init(&pool);
    for (size_t i = 0; i < KIN__VM_MPROTECT_MAX + PAST; i++)
        if (!take(&cache, &pool, 0)->is_guarded)
            unguarded++;
    EXPECT_GE(unguarded, PAST);
    EXPECT_LT(unguarded, KIN__VM_MPROTECT_MAX);
    EXPECT_EQ(pool.unguarded, unguarded);
    kin__stack_pool_fini(&pool);
}

/* ---- caches and pool ---- */

/* Goal: the stack that is given may still be run on, so it must not reach the pool. */
KIN_TEST(stack_just_given_stays_in_the_cache, "")
{
    enum { COUNT = KIN__STACK_HOT + 1 };
    struct kin__stack *stacks[COUNT];
    struct kin__stack_cache cache = {0}, other = {0};
    struct kin__stack_pool pool;

    kin__stack_pool_init(&pool);
    for (int i = 0; i < COUNT; i++)
        stacks[i] = take(&cache, &pool, 0);
    for (int i = 0; i < COUNT; i++) {
        kin__stack_give(&cache, &pool, stacks[i]);
        EXPECT_PTR(cache.free[0], stacks[i]);
    }
    EXPECT_EQ(cache.count[0], KIN__STACK_HOT / 2 + 1);
    EXPECT_EQ(pool.warm[0], KIN__STACK_HOT / 2);

    /* The older half was spilled, as one batch, and serves the other worker. */
    for (uint32_t i = 0; i < KIN__STACK_HOT / 2; i++) {
        struct kin__stack *stack = take(&other, &pool, 0);
        EXPECT_PTR(stack, stacks[KIN__STACK_HOT / 2 - 1 - i]);
        EXPECT_EQ(pool.warm[0], 0);
    }
    EXPECT_EQ(other.count[0], 0);
    EXPECT_EQ(pool.total, COUNT);
    kin__stack_pool_fini(&pool);
}

/* Goal: warm stacks first, then trimmed ones, then fresh ones. */
KIN_TEST(memory_is_used_again_before_more_is_taken, "")
{
    enum { COUNT = 300 };
    static struct kin__stack *stacks[COUNT];
    struct kin__stack_cache cache = {0};
    struct kin__stack_pool pool;

    kin__stack_pool_init(&pool);
    for (int i = 0; i < COUNT; i++)
        stacks[i] = take(&cache, &pool, 1);
    for (int i = 0; i < COUNT; i++)
        kin__stack_give(&cache, &pool, stacks[i]);
    kin__stack_flush(&cache, &pool);
    EXPECT_EQ(held_by(&cache), 0);
    EXPECT_EQ(pool.warm[1], COUNT);
    EXPECT_EQ(kin__stack_trim(&pool, 100), 100);
    EXPECT_EQ(pool.warm[1], COUNT - 100);
    EXPECT_EQ(pool.trimmed, 100);

    for (int i = 0; i < COUNT; i++) {
        take(&cache, &pool, 1);
        EXPECT_EQ(pool.total, COUNT);
        EXPECT_EQ(pool.trimmed, i < COUNT - 100 ? 100 : COUNT - 1 - i);
    }
    take(&cache, &pool, 1);
    EXPECT_EQ(pool.total, COUNT + 1);
    kin__stack_pool_fini(&pool);
}

/* Goal: trimming takes the longest unused, at most as many as asked for, and takes their memory. */
KIN_TEST(trim_takes_the_oldest_and_their_memory, "")
{
    enum { COUNT = 20 };
    struct kin__stack *stacks[COUNT];
    char *tops[COUNT];
    struct kin__stack_cache cache = {0};
    struct kin__stack_pool pool;

    kin__stack_pool_init(&pool);
    EXPECT_EQ(kin__stack_trim(&pool, 10), 0);
    for (int i = 0; i < COUNT; i++) {
        stacks[i] = take(&cache, &pool, 2);
        tops[i] = stacks[i]->base;
        memset(stacks[i]->low, 0x77, (size_t)(stacks[i]->base - stacks[i]->low)); /* a deep run */
    }
    for (int i = 0; i < COUNT; i++) {
        kin__stack_give(&cache, &pool, stacks[i]);
        if (i % 10 == 9) /* two batches of ten */
            kin__stack_flush(&cache, &pool);
    }
    EXPECT_EQ(kin__stack_trim(&pool, 0), 0);
    EXPECT_EQ(kin__stack_trim(&pool, 3), 3); /* leaves seven of the older batch */
    EXPECT_EQ(kin__stack_trim(&pool, 7), 7);
    EXPECT_EQ(pool.warm[2], 10);
    EXPECT_EQ(pool.trimmed, 10);

    bool is_back[COUNT] = {false};
    for (int i = 0; i < COUNT; i++) {
        struct kin__stack *stack = take(&cache, &pool, 2);
        bool is_warm = i < 10;
        int which = 0;
        while (which < COUNT && tops[which] != stack->base)
            which++;
        EXPECT_LT(which, COUNT);
        EXPECT(!is_back[which]);
        is_back[which] = true;
        EXPECT_EQ(which >= 10, is_warm); /* the newer batch was left alone */
        for (char *p = stack->low; p < stack->base; p++)
            if (*p != (is_warm ? 0x77 : 0))
                EXPECT_EQ(*p, is_warm ? 0x77 : 0);
    }
    kin__stack_pool_fini(&pool);
}

/* Goal: trimming begins with the largest class and stops at the number asked for. */
KIN_TEST(trim_begins_with_the_largest_class, "")
{
    struct kin__stack *stacks[3];
    struct kin__stack_cache cache = {0};
    struct kin__stack_pool pool;

    kin__stack_pool_init(&pool);
    for (unsigned c = 0; c < 3; c++)
        stacks[c] = take(&cache, &pool, c);
    for (unsigned c = 0; c < 3; c++)
        kin__stack_give(&cache, &pool, stacks[c]);
    kin__stack_flush(&cache, &pool);
    for (unsigned c = 3; c > 0; c--) {
        EXPECT_EQ(pool.warm[c - 1], 1);
        EXPECT_EQ(kin__stack_trim(&pool, 1), 1);
        EXPECT_EQ(pool.warm[c - 1], 0);
    }
    EXPECT_EQ(kin__stack_trim(&pool, 1), 0);
    kin__stack_pool_fini(&pool);
}

/* Goal: no stack is handed out twice, lost or miscounted. Method: random steps on several caches
 * against a model; every stack in use carries its owner's mark at both ends. */
enum { CACHES = 3, LIVE = 600, STEPS = 60000 };

struct use {
    struct kin__stack *stack;
    uint64_t mark;
};

static void mark_put(struct use *use)
{
    memcpy(use->stack->base - 8, &use->mark, 8);
    memcpy(use->stack->base - 2048, &use->mark, 8);
}

static void mark_check(const struct use *use)
{
    EXPECT_EQ(memcmp(use->stack->base - 8, &use->mark, 8), 0);
    EXPECT_EQ(memcmp(use->stack->base - 2048, &use->mark, 8), 0);
    EXPECT_PTR(use->stack->base, (char *)use->stack);
}

KIN_TEST(random_traffic_between_caches_loses_nothing, "")
{
    static struct use uses[LIVE];
    struct kin__stack_cache caches[CACHES] = {{{0}, {0}}};
    struct kin__stack_pool pool;
    struct kin__rng rng;
    size_t count = 0;

    kin__rng_init(&rng, kin_test_seed(), 0);
    kin__stack_pool_init(&pool);
    for (uint64_t step = 0; step < STEPS; step++) {
        struct kin__stack_cache *cache = &caches[kin__rng_next(&rng) % CACHES];
        uint64_t what = kin__rng_next(&rng) % 1000;
        uint64_t phase = step / 3000 % 2 ? 350 : 650; /* by turns more are taken, or given */
        if (what < 4) {
            kin__stack_flush(cache, &pool);
            EXPECT_EQ(held_by(cache), 0);
        } else if (what < 8) {
            size_t warm = warm_of(&pool), max = kin__rng_next(&rng) % 200;
            EXPECT_EQ(kin__stack_trim(&pool, max), warm < max ? warm : max);
        } else if (count < LIVE && (what < phase || count == 0)) {
            struct use use = {take(cache, &pool, (unsigned)(kin__rng_next(&rng) % 3)), step};
            for (size_t i = 0; i < count; i++)
                EXPECT(uses[i].stack != use.stack);
            mark_put(&use);
            uses[count++] = use;
        } else {
            size_t i = kin__rng_next(&rng) % count;
            mark_check(&uses[i]);
            kin__stack_give(cache, &pool, uses[i].stack);
            uses[i] = uses[--count];
        }
        size_t free_ones = warm_of(&pool) + pool.trimmed;
        for (int i = 0; i < CACHES; i++)
            free_ones += held_by(&caches[i]);
        EXPECT_EQ(free_ones + count, pool.total);
    }
    for (size_t i = 0; i < count; i++)
        mark_check(&uses[i]);
    kin__stack_pool_fini(&pool);
}

/* ---- runs ---- */

#if !KIN__TSAN /* takes a flow for a thread, and a jump orders nothing for it */
static struct kin__context home, flow;

/* Goes depth calls down, each with an array of its own, and leaves from there for good. */
static void descend(int depth, volatile char *outer) /* recursion: at most 60 deep */
{
    volatile char room[160];

    for (size_t i = 0; i < sizeof(room); i++)
        room[i] = *outer;
    if (depth == 0)
        kin__context_jump(&flow, &home, NULL);
    if (room[0]) /* never 0 */
        descend(depth - 1, room);
    room[0] = 0; /* no tail call */
}

static void run_down(void *depth)
{
    volatile char start = 1;
    descend(*(int *)depth, &start);
}

/* Goal: what was left on a stack by a run that never returned does not disturb the next run, from
 * the cache, the pool and after a trim. Method: runs of different depths; ASan and valgrind see
 * what is wrong. */
KIN_TEST(stack_is_fine_after_an_abandoned_run, "")
{
    static int depths[] = {40, 7, 60, 23, 1, 51};
    struct kin__stack_cache cache = {0};
    struct kin__stack_pool pool;

    kin__stack_pool_init(&pool);
    kin__context_adopt(&home);
    char *low = NULL;
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        struct kin__stack *stack = take(&cache, &pool, 1);
        EXPECT(!low || low == stack->low);
        low = stack->low;
        memset(low, 0, (size_t)(stack->base - low)); /* every byte may be written */
        kin__context_make(&flow, stack->low, stack->base, run_down);
        (void)kin__context_switch(&home, &flow, &depths[i]);
        kin__context_drop(&flow);
        kin__stack_give(&cache, &pool, stack);
        if (i % 3 > 0)
            kin__stack_flush(&cache, &pool);
        if (i % 3 > 1)
            EXPECT_EQ(kin__stack_trim(&pool, 1), 1);
    }
    kin__context_drop(&home);
    EXPECT_EQ(pool.total, 1);
    kin__stack_pool_fini(&pool);
}
#endif

/* ---- threads ---- */

enum { THREADS = 3, BOARD = 200, ROUNDS = 15000 };

static kin__a64 board[BOARD]; /* stacks on their way from one thread to another */
static struct kin__stack_pool shared;
static kin__a32 running;
static uint64_t seed;

/* Takes stacks and swaps them with stacks of others, which it gives back. */
static void hammer(void *arg)
{
    struct kin__stack_cache cache = {0};
    struct kin__rng rng;

    kin__rng_init(&rng, seed, (uint64_t)(uintptr_t)arg);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        unsigned class_ = (unsigned)(kin__rng_next(&rng) % 2);
        struct kin__stack *stack = take(&cache, &shared, class_);
        struct use use = {stack, (uint64_t)(uintptr_t)stack};
        mark_put(&use);

        /* pairs with itself: what the other wrote is seen here */
        uint64_t other = kin__xchg_acq_rel(&board[kin__rng_next(&rng) % BOARD],
                                           (uint64_t)(uintptr_t)stack);
        if (!other)
            continue;
        use = (struct use){(struct kin__stack *)(uintptr_t)other, other};
        mark_check(&use);
        memset(use.stack->base - 8, 0, 8); /* a second owner finds no mark */
        kin__stack_give(&cache, &shared, use.stack);
        if (kin__rng_next(&rng) % 200 == 0)
            kin__stack_flush(&cache, &shared);
    }
    kin__stack_flush(&cache, &shared);
    kin__sub_acq_rel(&running, 1); /* pairs with the load in trim_while_running */
}

static void trim_while_running(void *arg)
{
    (void)arg;
    /* pairs with the subtraction in hammer; ends when the last of them has ended */
    while (kin__load_acquire(&running)) {
        (void)kin__stack_trim(&shared, 40);
        kin__thread_yield();
    }
}

KIN_TEST(threads_share_the_pool, "")
{
    struct kin__thread threads[THREADS + 1];
    struct kin__stack_cache cache = {0};

    seed = kin_test_seed();
    kin__stack_pool_init(&shared);
    kin__store_relaxed(&running, THREADS); /* relaxed: the threads do not exist yet */
    for (uintptr_t i = 0; i <= THREADS; i++)
        EXPECT_EQ(kin__thread_start(&threads[i], i < THREADS ? hammer : trim_while_running,
                                    (void *)i, 65536, "hammer"), 0);
    for (int i = 0; i <= THREADS; i++)
        kin__thread_join(&threads[i]);

    for (int i = 0; i < BOARD; i++) {
        /* relaxed: the threads were joined */
        uint64_t left = kin__load_relaxed(&board[i]);
        if (left)
            kin__stack_give(&cache, &shared, (struct kin__stack *)(uintptr_t)left);
    }
    kin__stack_flush(&cache, &shared);
    EXPECT_EQ(warm_of(&shared) + shared.trimmed, shared.total);
    EXPECT_LE(shared.total, BOARD + THREADS * (2 * KIN__STACK_HOT + 2) + KIN__STACK_HOT);
    size_t warm = warm_of(&shared);
    EXPECT_EQ(kin__stack_trim(&shared, SIZE_MAX), warm);
    EXPECT_EQ(shared.trimmed, shared.total);
    kin__stack_pool_fini(&shared);
}

/* ---- exhausted memory ---- */

/* Takes COUNT stacks with the n-th request failing, gives them back and unmaps everything. Returns
 * how many requests there were; *nulls: how often there was no stack. */
static uint64_t take_with_failure(uint64_t n, bool forever, size_t *nulls)
{
    enum { COUNT = 200 }; /* segments of 16, 32, 64 and 128 */
    static struct kin__stack *stacks[COUNT];
    struct kin__stack_cache cache = {0};
    struct kin__stack_pool pool;
    size_t count = 0;

    *nulls = 0;
    kin__stack_pool_init(&pool);
    kin__plat_fail_after(n, forever);
    for (int i = 0; i < COUNT; i++) {
        struct kin__stack *stack = kin__stack_take(&cache, &pool, 0);
        EXPECT_EQ(held_by(&cache), 0);
        if (!stack) {
            ++*nulls;
            continue;
        }
        stack->base[-1] = 1;
        stacks[count++] = stack;
        EXPECT_EQ(pool.total, count);
    }
    uint64_t requests = kin__plat_requests();

    /* Giving, trimming and taking again need nothing. */
    for (size_t i = 0; i < count; i++)
        kin__stack_give(&cache, &pool, stacks[i]);
    kin__stack_flush(&cache, &pool);
    EXPECT_EQ(pool.warm[0], count);
    EXPECT_EQ(kin__stack_trim(&pool, SIZE_MAX), count);
    for (size_t i = 0; i < count; i++)
        take(&cache, &pool, 0);
    EXPECT_EQ(kin__plat_requests(), requests);

    kin__plat_fail_after(0, false);
    take(&cache, &pool, 0); /* and with memory there are more */
    EXPECT_EQ(pool.total, count + 1);
    kin__stack_pool_fini(&pool);
    return requests;
}

/* Sanitizers have memory of their own in the process, and so has the emulator that runs the tests
 * of other machines. */
#if defined(__aarch64__)
#define COUNTS_ADDRESS_SPACE 0
#else
#define COUNTS_ADDRESS_SPACE (!KIN__ASAN && !KIN__TSAN)
#endif

#if COUNTS_ADDRESS_SPACE
static size_t address_space(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    EXPECT(file);
    EXPECT_EQ(fscanf(file, "%zu", &pages), 1);
    (void)fclose(file);
    return pages * kin__vm_page();
}
#endif

/* Goal: whichever request fails, once or for good, nothing breaks and nothing stays behind. */
KIN_TEST(exhausted_memory_leaves_the_pool_consistent, "")
{
    size_t nulls;
    uint64_t requests = take_with_failure(0, false, &nulls);

    EXPECT_EQ(nulls, 0);
    EXPECT_EQ(requests, 8); /* two for each of four segments */
#if COUNTS_ADDRESS_SPACE
    size_t before = address_space();
#endif
    for (uint64_t n = 1; n <= requests; n++) {
        (void)take_with_failure(n, false, &nulls);
        EXPECT_EQ(nulls, 0); /* a smaller segment was to be had */
        (void)take_with_failure(n, true, &nulls);
        EXPECT_GT(nulls, 0);
        EXPECT_EQ(nulls, 200 - ((16u << (n - 1) / 2) - 16u)); /* all but the earlier segments' */
    }
#if COUNTS_ADDRESS_SPACE
    EXPECT_LT(address_space(), before + 16 * 36864); /* less than one segment */
#endif
}

#if KIN__ASAN
/* Goal: what an abandoned run has poisoned does not hurt the next one. */
KIN_TEST(poison_of_abandoned_frames_is_gone, "")
{
    struct kin__stack_cache cache = {0};
    struct kin__stack_pool pool;

    kin__stack_pool_init(&pool);
    struct kin__stack *stack = take(&cache, &pool, 1);
    for (int way = 0; way < 3; way++) {
        char *low = stack->low;
        size_t bytes = (size_t)(stack->base - low);
        __asan_poison_memory_region(stack->base - 256, 64);
        __asan_poison_memory_region(low + 1024, 64);
        kin__stack_give(&cache, &pool, stack);
        if (way > 0)
            kin__stack_flush(&cache, &pool);
        if (way > 1)
            EXPECT_EQ(kin__stack_trim(&pool, 1), 1);
        stack = take(&cache, &pool, 1);
        EXPECT_PTR(stack->low, low);
        EXPECT_PTR(__asan_region_is_poisoned(low, bytes), NULL);
    }
    char *low = stack->low;
    __asan_poison_memory_region(low, 64);
    kin__stack_pool_fini(&pool);
    EXPECT_EQ(__asan_address_is_poisoned(low), 0);
}
#endif
