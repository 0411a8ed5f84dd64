/* SPDX-License-Identifier: MIT */
/*
 * Goal: the clock, points in time, and sleeps: never early, in order of deadlines, cancellable.
 * Method: small programs through the public headers; nothing depends on how late a wake is.
 */
#include "api/in_runtime.h"

KIN_TEST(the_clock_never_goes_back, "")
{
    kin_time last = kin_now();

    for (int i = 0; i < 100000; i++) {
        kin_time now = kin_now();
        EXPECT_GE(now, last);
        last = now;
    }
}

KIN_TEST(points_in_time_saturate, "")
{
    kin_time before = kin_now();
    kin_time soon = kin_after(KIN_SEC(1));
    kin_time after = kin_now();

    EXPECT_GE(soon, before + KIN_SEC(1));
    EXPECT_LE(soon, after + KIN_SEC(1));
    EXPECT_EQ(kin_after(INT64_MAX), KIN_NEVER);
    EXPECT_EQ(kin_after(INT64_MAX - 1), KIN_NEVER);
    EXPECT_LT(kin_after(-KIN_SEC(1)), kin_now());
    EXPECT_LT(kin_after(INT64_MIN), 0);
    EXPECT_EQ(KIN_US(3), 3000);
    EXPECT_EQ(KIN_MS(1.5), 1500000);
    EXPECT_EQ(KIN_SEC(2), INT64_C(2000000000));
    EXPECT_EQ(KIN_NS(7), 7);
}

static int sleep_in_the_past(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_sleep(0), 0);
    EXPECT_EQ(kin_sleep(-1), 0);
    EXPECT_EQ(kin_sleep(INT64_MIN), 0);
    EXPECT_EQ(kin_sleep(1), 0);
    EXPECT_EQ(kin_sleep(kin_now()), 0);
    EXPECT_EQ(kin_sleep(kin_after(-KIN_SEC(100))), 0);
    return 0;
}

KIN_TEST(a_sleep_until_something_past_is_over_at_once, "")
{
    run_on_few(sleep_in_the_past, NULL);
}

static int sleep_a_little(void *arg)
{
    uint64_t seed = kin_test_seed() + (uint64_t)(uintptr_t)arg;

    for (int i = 0; i < 20; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        kin_time deadline = kin_after((int64_t)(seed >> 33) % KIN_US(300));
        EXPECT_EQ(kin_sleep(deadline), 0);
        EXPECT_GE(kin_now(), deadline);
    }
    return 0;
}

static int sleep_together(void *arg)
{
    KIN_NURSERY(n);

    (void)arg;
    for (uintptr_t i = 0; i < 200; i++)
        EXPECT_EQ(kin_spawn(&n, sleep_a_little, (void *)(i * 977)), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(nobody_wakes_before_its_time, "")
{
    run_on_few(sleep_together, NULL);
}

struct order {
    kin_time base;
    _Atomic int begun;
    _Atomic int at;
    int seen[20];
};

struct sleeper {
    struct order *order;
    int index;
};

static int sleep_in_order(void *arg)
{
    struct sleeper *me = arg;

    atomic_fetch_add(&me->order->begun, 1);
    EXPECT_EQ(kin_sleep(me->order->base + me->index * KIN_MS(3)), 0);
    me->order->seen[atomic_fetch_add(&me->order->at, 1)] = me->index;
    return 0;
}

/* One round; false: it was late, so that not all slept when the first became due. */
static bool sort_from(kin_time base)
{
    static struct order order;
    struct sleeper sleepers[20];
    KIN_NURSERY(n);

    memset(&order, 0, sizeof order);
    order.base = base;
    for (int i = 0; i < 20; i++) {
        sleepers[i] = (struct sleeper){&order, (i * 7) % 20};
        EXPECT_EQ(kin_spawn(&n, sleep_in_order, &sleepers[i]), 0);
    }
    await(&order.begun, 20); /* on one worker: they sleep */
    bool is_early = kin_now() < base;
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < 20 && is_early; i++)
        EXPECT_EQ(order.seen[i], i);
    return is_early;
}

static int sort_by_sleeping(void *arg)
{
    int64_t ms = 20;

    (void)arg;
    while (!sort_from(kin_after(KIN_MS(ms)))) /* ends: some time is far enough */
        ms *= 2;
    return 0;
}

KIN_TEST(sleepers_of_one_worker_wake_in_the_order_of_their_deadlines, "")
{
    EXPECT_EQ(run_reporting(1, sort_by_sleeping, NULL, NULL), 0);
}

static int wake_sleepers(void *arg)
{
    _Atomic int started = 0;
    KIN_NURSERY(n);

    (void)arg;
    for (int i = 0; i < 1000; i++)
        EXPECT_EQ(kin_spawn(&n, sleep_for_ever, &started), 0);
    await(&started, 1000);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    struct kin_stats stats;
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.timers, 0); /* nobody who leaves early leaves a timer behind */
    return 0;
}

KIN_TEST(a_cancel_wakes_a_thousand_sleepers_and_leaves_no_timer, "A10 B12")
{
    run_on_few(wake_sleepers, NULL);
}

static int nap_when_cancelled(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin_sleep(kin_after(KIN_SEC(3600))), KIN_CANCELLED);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    return KIN_CANCELLED;
}

static int nap_again(void *arg)
{
    _Atomic int started = 0;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, nap_when_cancelled, &started), 0);
    await(&started, 1);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(every_sleep_of_a_cancelled_task_ends_at_once, "B12")
{
    run_on_few(nap_again, NULL);
}

static int sleep_while_others_spin(void *arg)
{
    _Atomic int *stop = arg;

    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(100))), 0);
    atomic_store(stop, 1);
    return 0;
}

static int spin(void *arg)
{
    while (!atomic_load((_Atomic int *)arg))
        kin_ignore(kin_yield());
    return 0;
}

static int be_fair_to_timers(void *arg)
{
    _Atomic int stop = 0;
    KIN_NURSERY(n);

    (void)arg;
    for (int i = 0; i < 8; i++)
        EXPECT_EQ(kin_spawn(&n, spin, &stop), 0);
    EXPECT_EQ(kin_spawn(&n, sleep_while_others_spin, &stop), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(timers_fire_while_everybody_spins_by_yields, "SCHED:4.2.2")
{
    run_on_few(be_fair_to_timers, NULL);
}
