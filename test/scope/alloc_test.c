/* SPDX-License-Identifier: MIT */
/*
 * Goal: memory of kin_alloc is charged to whoever took it and given back to the right one, whoever
 *       frees it and whenever.
 * Method: blocks that are freed by the task itself, by another, after its end, after the end of its
 *         nursery, and outside; every size at the edge of the budget; the heap fails on purpose.
 */
#include "api/budgets.h"

#include "plat/plat.h"

#include <malloc.h>
#include <pthread.h>

static const struct kin_budget kilobyte = {1000, 1024, 0, 0, 0};

static int alloc_to_the_edge(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_budget_left().memory, 1024);
    EXPECT_PTR(kin_alloc(1025), NULL);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_MEMORY);
    EXPECT_EQ(kin_budget_left().memory, 1024);
    char *first = kin_alloc(1000);
    EXPECT(first != NULL);
    EXPECT_PTR(kin_alloc(25), NULL);
    char *second = kin_alloc(24);
    EXPECT(second != NULL);
    EXPECT_EQ(kin_budget_left().memory, 0);
    EXPECT_PTR(kin_alloc(0), NULL); /* costs a byte: a loop over it ends, too */
    EXPECT_EQ(kin_budget_left().ops, 1000 - 5);
    memset(first, 1, 1000);
    memset(second, 2, 24);
    kin_free(second);
    EXPECT_EQ(kin_budget_left().memory, 24);
    char *empty = kin_alloc(0);
    EXPECT(empty != NULL);
    EXPECT_EQ(kin_budget_left().memory, 23);
    kin_free(first);
    kin_free(empty);
    EXPECT_EQ(kin_budget_left().memory, 1024);
    EXPECT_EQ(kin_budget_left().ops, 1000 - 6); /* a free is free */
    kin_free(NULL);
    EXPECT_PTR(kin_alloc(SIZE_MAX), NULL);
    EXPECT_PTR(kin_alloc((size_t)PTRDIFF_MAX), NULL);
    return 0;
}

static int spawn_at_the_edge(void *arg)
{
    KIN_NURSERY(n);
    EXPECT_EQ(spawn_on(&n, kilobyte, alloc_to_the_edge, arg, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(memory_is_charged_to_the_byte_and_given_back, "SCHED:3.3.1 SCHED:14.1.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, spawn_at_the_edge, NULL), 0);
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 1, spawn_at_the_edge, NULL), 0);
}

static int alloc_for_nothing(void *arg)
{
    (void)arg;
    for (size_t size = 0; size < 5000; size = size * 2 + 1) {
        unsigned char *memory = kin_alloc(size);
        EXPECT(memory != NULL);
        EXPECT_EQ((uintptr_t)memory % 16, 0);
        for (size_t i = 0; i < size; i++)
            EXPECT_EQ(memory[i], 0);
        memset(memory, 0xee, size);
        kin_free(memory);
    }
    EXPECT_EQ(kin_budget_left().memory, UINT64_MAX);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_NONE);
    return 0;
}

KIN_TEST(memory_is_zeroed_and_aligned_in_a_task_and_outside, "")
{
    EXPECT_EQ(kin_run(NULL, alloc_for_nothing, NULL), 0);
    unsigned char *memory = kin_alloc(100);
    EXPECT(memory != NULL);
    EXPECT_EQ(memory[99], 0);
    EXPECT_EQ((uintptr_t)memory % 16, 0);
    kin_free(memory);
}

/* ---- freed by others ---- */

struct hand_over {
    _Atomic(void *) block;
    _Atomic int is_freed;
};

static int take_and_see_it_returned(void *arg)
{
    struct hand_over *hand = arg;
    void *block = kin_alloc(1000);

    EXPECT_EQ(kin_budget_left().memory, 24);
    atomic_store(&hand->block, block);
    await(&hand->is_freed, 1);
    EXPECT_EQ(kin_budget_left().memory, 1024);
    return 0;
}

static int free_it(void *arg)
{
    struct hand_over *hand = arg;
    void *block;

    while (!(block = atomic_load(&hand->block)))
        EXPECT_EQ(kin_yield(), 0);
    kin_free(block);
    atomic_store(&hand->is_freed, 1);
    return 0;
}

static void *free_in_thread(void *arg)
{
    struct hand_over *hand = arg;
    kin_free(atomic_load(&hand->block));
    atomic_store(&hand->is_freed, 1);
    return NULL;
}

static int free_by_others(void *arg)
{
    pthread_t thread;
    struct hand_over hand = {.is_freed = 0};
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(spawn_on(&n, kilobyte, take_and_see_it_returned, &hand, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, free_it, &hand), 0);
    await(&hand.is_freed, 1);
    struct hand_over again = {.is_freed = 0};
    EXPECT_EQ(spawn_on(&n, kilobyte, take_and_see_it_returned, &again, NULL), 0);
    while (!atomic_load(&again.block))
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(pthread_create(&thread, NULL, free_in_thread, &again), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    return 0;
}

KIN_TEST(who_took_a_block_has_its_budget_again_whoever_frees_it, "SCHED:3.3.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, free_by_others, NULL), 0);
    EXPECT_EQ(run_as(KIN_SERVICE, 2, free_by_others, NULL), 0);
}

static int leave_block(void *arg)
{
    *(void **)arg = kin_alloc(600);
    EXPECT(*(void **)arg != NULL);
    return 0;
}

/* The block outlives its task: the pool gets it back; it outlives its nursery: it stays spent. */
static int outlive(void *arg)
{
    void *block = NULL, *late = NULL;
    struct kin_nursery n;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_task_ref ref;
    bool is_pooled = *(bool *)arg;

    options.budget = (struct kin_budget){1000, 4000, 10, 0, 0};
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    for (int i = 0; i < 2; i++) {
        struct kin_spawn_options child = KIN_SPAWN_OPTIONS_INIT;
        if (!is_pooled)
            child.budget = (struct kin_budget){100, 1000, 0, 0, 0};
        EXPECT_EQ(kin_spawn_with(&n, &child, leave_block, i ? &late : &block, 0, &ref), 0);
        EXPECT_EQ(kin_task_join(&n, ref, NULL, KIN_NEVER), 0);
    }
    EXPECT_EQ(kin_nursery_budget_left(&n).memory, 4000 - 1200);
    kin_free(block);
    EXPECT_EQ(kin_nursery_budget_left(&n).memory, 4000 - 600);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    struct kin_budget before = kin_budget_left();
    kin_free(late);
    if (before.memory != UINT64_MAX)
        before.memory += 600; /* the owner of the nursery had given it */
    EXPECT(is_same(before, kin_budget_left()));
    return 0;
}

static int outlive_limited(void *arg)
{
    KIN_NURSERY(n);

    struct kin_budget budget = {10000, 10000, 100, 0, 0};
    EXPECT_EQ(spawn_on(&n, budget, outlive, arg, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_block_that_outlives_its_task_goes_to_the_pool, "SCHED:3.3.1 SCHED:8.2.1")
{
    bool yes = true, no = false;

    EXPECT_EQ(run_as(KIN_SERVICE, 1, outlive, &yes), 0);
    EXPECT_EQ(run_as(KIN_SERVICE, 1, outlive, &no), 0);
    EXPECT_EQ(run_as(KIN_SERVICE, 2, outlive_limited, &yes), 0);
    EXPECT_EQ(run_as(KIN_SERVICE, 2, outlive_limited, &no), 0);
}

static int share_memory(void *arg)
{
    _Atomic int *taken = arg;
    void *block = kin_alloc(300);

    if (block)
        atomic_fetch_add(taken, 1);
    else
        EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_MEMORY);
    atomic_fetch_add(&taken[1], 1);
    await(&taken[1], 5);
    kin_free(block);
    return 0;
}

static int share_the_pool(void *arg)
{
    _Atomic int taken[2] = {0};
    struct kin_nursery n;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;

    (void)arg;
    options.budget = (struct kin_budget){1000, 1000, 10, 0, 0};
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin_spawn(&n, share_memory, taken), 0);
    await(&taken[1], 5);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&taken[0]), 3); /* of 300 out of 1000 */
    return 0;
}

KIN_TEST(in_service_children_share_the_memory_of_the_pool, "SCHED:3.3.1 SCHED:10.2.2")
{
    run_on_few(share_the_pool, NULL);
}

/* ---- what may go wrong ---- */

static int run_out_of_ops(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_checkpoint(), 0);
    EXPECT_PTR(kin_alloc(1), NULL);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_OPS);
    EXPECT_EQ(kin_budget_left().memory, 1000);
    return 0;
}

static int fail_for_want_of_heap(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        kin__plat_fail_after(1, false);
        EXPECT_PTR(kin_alloc(100), NULL);
        kin__plat_fail_after(0, false);
        EXPECT_EQ(kin_budget_left().memory, 1024);
    }
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_NONE); /* it was not the budget */
    return 0;
}

static int go_wrong(void *arg)
{
    KIN_NURSERY(n, .recharge = KIN_RECHARGE_MANUAL);

    struct kin_budget one = {1, 1000, 0, 0, 0};
    EXPECT_EQ(spawn_on(&n, one, run_out_of_ops, arg, NULL), 0);
    EXPECT_EQ(spawn_on(&n, kilobyte, fail_for_want_of_heap, arg, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_refused_allocation_says_why_and_costs_no_memory, "SCHED:14.1.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, go_wrong, NULL), 0);
}

static int alloc_when_cancelled(void *arg)
{
    atomic_store((_Atomic int *)arg, 1);
    while (!kin_cancelled())
        kin_ignore(kin_yield());
    for (int i = 0; i < 3000; i++) { /* some of them at the end of a slice */
        void *block = kin_alloc(10);
        EXPECT(block != NULL);
        kin_free(block);
    }
    return KIN_CANCELLED;
}

static int cancel_one_that_allocates(void *arg)
{
    _Atomic int begun = 0;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, alloc_when_cancelled, &begun), 0);
    await(&begun, 1);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_cancelled_task_still_gets_memory_for_its_way_out, "NCG-3")
{
    run_on_few(cancel_one_that_allocates, NULL);
}

KIN_TEST(a_pointer_that_is_none_of_ours_aborts, "")
{
    uint64_t memory[8] __attribute__((aligned(16))) = {0};

    EXPECT_ABORT("kin_free of what kin_alloc gave")
    {
        kin_free(&memory[4]);
    }
}

/* Takes and frees a block that nobody is charged for, again and again. */
static int alloc_and_free(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < 256; i++) {
        void *memory = kin_alloc(64 * 1024);
        EXPECT(memory != NULL);
        kin_free(memory);
    }
    return 0;
}

KIN_TEST(what_is_freed_goes_back_to_the_heap, "SCHED:3.3.1")
{
    EXPECT_EQ(alloc_and_free(NULL), 0);
    EXPECT_EQ(kin_run(NULL, alloc_and_free, NULL), 0); /* what comes with the first one is there */
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    EXPECT_EQ(alloc_and_free(NULL), 0);
    EXPECT_EQ(kin_run(NULL, alloc_and_free, NULL), 0);
    EXPECT_LE(mallinfo2().uordblks + mallinfo2().hblkhd, before + 1024 * 1024);
}
