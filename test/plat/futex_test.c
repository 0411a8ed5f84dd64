/* SPDX-License-Identifier: MIT */
/*
 * Sleeping on a word and being woken, the lock built on moments, and the process-wide fence.
 */
#include "base/lock.h"
#include "kin_test.h"
#include "plat/plat.h"

#include <errno.h>

KIN_TEST(a_wait_on_another_value_returns_at_once, "")
{
    kin__a32 word = 5;

    EXPECT_EQ(kin__futex_wait(&word, 4, -1), 0);
}

KIN_TEST(a_wait_times_out, "")
{
    kin__a32 word = 5;
    int64_t start = kin__clock_now();
    int rc;

    do /* ends: an interruption is not for ever */
        rc = kin__futex_wait(&word, 5, 3000000);
    while (rc == -EINTR);
    EXPECT_EQ(rc, -ETIMEDOUT);
    EXPECT_GE(kin__clock_now() - start, 3000000);
    EXPECT_EQ(kin__futex_wait(&word, 5, 0), -ETIMEDOUT);
}

KIN_TEST(a_wake_of_nobody_does_nothing, "")
{
    kin__a32 word = 0;

    kin__futex_wake(&word, 1);
    kin__futex_wake(&word, 1000);
}

struct baton {
    kin__a32 word; /* whose turn it is */
    uint32_t rounds;
};

static void pass_baton(struct baton *baton, uint32_t me)
{
    for (uint32_t i = 0; i < baton->rounds; i++) {
        uint32_t seen;
        /* pairs with the release below */
        while ((seen = kin__load_acquire(&baton->word)) != me) /* ends: the other one passes it */
            (void)kin__futex_wait(&baton->word, seen, -1);
        kin__store_release(&baton->word, 1 - me); /* pairs with the acquire above */
        kin__futex_wake(&baton->word, 1);
    }
}

static void pass_baton_back(void *arg)
{
    pass_baton(arg, 1);
}

KIN_TEST(two_threads_pass_a_baton, "")
{
    struct baton baton = {0, 2000};
    struct kin__thread thread;

    EXPECT_EQ(kin__thread_start(&thread, pass_baton_back, &baton, 65536, "baton"), 0);
    pass_baton(&baton, 0);
    kin__thread_join(&thread);
    EXPECT_EQ(kin__load_relaxed(&baton.word), 0); /* alone: the other thread has ended */
}

static kin__a32 gate;
static kin__a32 passed;

static void wait_at_gate(void *arg)
{
    (void)arg;
    while (!kin__load_acquire(&gate)) /* pairs with the release in the test */
        (void)kin__futex_wait(&gate, 0, -1);
    (void)kin__add_relaxed(&passed, 1); /* relaxed: a count, read after the join */
}

KIN_TEST(a_wake_of_many_wakes_all, "")
{
    struct kin__thread threads[5];

    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin__thread_start(&threads[i], wait_at_gate, NULL, 65536, "gate"), 0);
    kin__store_release(&gate, 1); /* pairs with the acquire in wait_at_gate */
    kin__futex_wake(&gate, 5);
    for (int i = 0; i < 5; i++)
        kin__thread_join(&threads[i]);
    EXPECT_EQ(kin__load_relaxed(&passed), 5); /* alone: the threads have ended */
}

/* ---- the lock ---- */

static struct kin__lock lock;
static uint64_t counter; /* under the lock */

static void count_up(void *arg)
{
    for (int i = 0; i < *(int *)arg; i++) {
        kin__lock_take(&lock, KIN__RANK_LEAF);
        uint64_t before = counter;
        if (i % 64 == 0)
            kin__thread_yield(); /* others find it held */
        counter = before + 1;
        kin__lock_give(&lock, KIN__RANK_LEAF);
    }
}

KIN_TEST(a_lock_admits_one_at_a_time, "")
{
    struct kin__thread threads[4];
    int rounds = 20000;

    for (int i = 0; i < 4; i++)
        EXPECT_EQ(kin__thread_start(&threads[i], count_up, &rounds, 65536, "count"), 0);
    for (int i = 0; i < 4; i++)
        kin__thread_join(&threads[i]);
    EXPECT_EQ(counter, 4 * rounds);
}

static kin__a32 is_waiting;

static void take_held_lock(void *arg)
{
    (void)arg;
    kin__store_release(&is_waiting, 1); /* pairs with the acquire in the test */
    kin__lock_take(&lock, KIN__RANK_LEAF);
    counter++;
    kin__lock_give(&lock, KIN__RANK_LEAF);
}

/* The holder sleeps for longer than a waiter spins and yields. */
KIN_TEST(a_waiter_outlasts_a_holder_without_a_cpu, "")
{
    struct kin__thread thread;
    kin__a32 never = 0;

    kin__lock_take(&lock, KIN__RANK_LEAF);
    EXPECT_EQ(kin__thread_start(&thread, take_held_lock, NULL, 65536, "wait"), 0);
    while (!kin__load_acquire(&is_waiting)) /* pairs with the release in take_held_lock */
        kin__thread_yield();
    (void)kin__futex_wait(&never, 0, 20000000);
    EXPECT_EQ(counter, 0);
    EXPECT(!kin__lock_try(&lock, KIN__RANK_LEAF));
    kin__lock_give(&lock, KIN__RANK_LEAF);
    kin__thread_join(&thread);
    EXPECT_EQ(counter, 1);
    EXPECT(kin__lock_try(&lock, KIN__RANK_LEAF));
    kin__lock_give(&lock, KIN__RANK_LEAF);
}

KIN_TEST(the_slow_half_keeps_the_bits_above_the_lock, "")
{
    kin__a32 word = 0x50;

    kin__lock_slow(&word);
    EXPECT_EQ(kin__load_relaxed(&word), 0x51); /* alone: one thread */
}

/* ---- the fence: the store-load test of two threads, one half light, one half heavy ---- */

#define DUELS 3000

static kin__a32 flag_light, flag_heavy, saw_light;
static kin__a32 go;

static void duel_light(void *arg)
{
    (void)arg;
    for (uint32_t i = 1; i <= DUELS; i++) {
        while (kin__load_acquire(&go) != i) /* pairs with the release in the test */
            kin__cpu_relax();
        kin__store_relaxed(&flag_light, i); /* relaxed: ordered by the two fences */
        kin__fence_light(); /* flag_light before flag_heavy; its mirror is the membarrier */
        uint32_t light_saw = kin__load_relaxed(&flag_heavy) == i; /* relaxed: by the two fences */
        kin__store_release(&saw_light, i * 2 + light_saw); /* pairs with the acquire in the test */
    }
}

KIN_TEST(a_light_fence_and_a_membarrier_make_a_pair, "")
{
    struct kin__thread thread;

    if (!kin__membarrier_init())
        KIN_SKIP("no membarrier");
    EXPECT_EQ(kin__thread_start(&thread, duel_light, NULL, 65536, "duel"), 0);
    for (uint32_t i = 1; i <= DUELS; i++) {
        kin__store_release(&go, i);         /* pairs with the acquire in duel_light */
        kin__store_relaxed(&flag_heavy, i); /* relaxed: ordered by the two fences */
        kin__membarrier();                  /* flag_heavy before flag_light; mirror: fence_light */
        uint32_t heavy_saw = kin__load_relaxed(&flag_light) == i; /* relaxed: as above */
        uint32_t seen;
        /* pairs with the release in duel_light */
        while ((seen = kin__load_acquire(&saw_light)) / 2 != i)
            kin__cpu_relax();
        EXPECT((seen & 1u) || heavy_saw);
    }
    kin__thread_join(&thread);
}
