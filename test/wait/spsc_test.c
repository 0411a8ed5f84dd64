/* SPDX-License-Identifier: MIT */
/*
 * Goal: the send without a lock: it overlooks neither a receiver that comes to wait nor a close,
 * and two senders at once are found. Method: races of few items in many rounds on several workers,
 * where every item that was accepted must be received; the rest is in queue_test.c.
 */
#include "wait/queue_calls.h"

#include "base/rng.h"

/* ---- order under load ---- */

enum { MANY = 20000 };

static int send_many(void *arg)
{
    struct kin_spsc *q = arg;
    for (int i = 0; i < MANY; i++)
        EXPECT_EQ(kin_spsc_send(q, &i, KIN_NEVER), 0);
    kin_spsc_close(q);
    return 0;
}

static int pass_many(void *arg)
{
    struct kin_spsc *q = make(&spsc_kind, *(size_t *)arg);
    int item, expected = 0, rc;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, send_many, q), 0);
    while ((rc = kin_spsc_recv(q, &item, KIN_NEVER)) == 0)
        EXPECT_EQ(item, expected++);
    EXPECT_EQ(rc, KIN_CLOSED);
    EXPECT_EQ(expected, MANY);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_spsc_unref(q);
    return 0;
}

KIN_TEST(items_arrive_in_order_whatever_the_capacity, "G008 G009")
{
    static const size_t capacities[] = {1, 2, 3, 7, 64, 1000};
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++)
        run_on_few(pass_many, (void *)(uintptr_t)&capacities[i]);
}

/* ---- a close in the middle ---- */

struct race {
    struct kin_spsc *q;
    int accepted;
    uint64_t spins;
    _Atomic int begun;
};

static int send_until_closed(void *arg)
{
    struct race *race = arg;
    int rc;
    do {
        rc = kin_spsc_send(race->q, &race->accepted, KIN_NEVER);
        race->accepted += rc == 0;
        atomic_store(&race->begun, 1);
    } while (rc == 0);
    EXPECT_EQ(rc, KIN_CLOSED);
    return 0;
}

static int close_some_time(void *arg)
{
    struct race *race = arg;
    await(&race->begun, 1);
    for (uint64_t i = 0; i < race->spins; i++) {
        if (i % 64 == 63)
            kin_ignore(kin_yield());
        else
            atomic_signal_fence(memory_order_seq_cst);
    }
    kin_spsc_close(race->q);
    return 0;
}

static int race_with_close(void *arg)
{
    struct kin__rng rng;
    (void)arg;
    kin__rng_init(&rng, kin_test_seed(), 1);
    for (int round = 0; round < 200; round++) {
        struct race race = {.q = make(&spsc_kind, 1 + kin__rng_below(&rng, 4))};
        int item, got = 0, rc;
        race.spins = kin__rng_below(&rng, 500);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, send_until_closed, &race), 0);
        EXPECT_EQ(kin_spawn(&n, close_some_time, &race), 0);
        while ((rc = kin_spsc_recv(race.q, &item, KIN_NEVER)) == 0)
            EXPECT_EQ(item, got++);
        EXPECT_EQ(rc, KIN_CLOSED);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(got, race.accepted); /* all that was accepted came before the end */
        expect_nothing(&spsc_kind, race.q, KIN_CLOSED);
        kin_spsc_unref(race.q);
    }
    return 0;
}

KIN_TEST(a_send_that_races_with_a_close_is_delivered_or_refused, "CH:5.1 CH:5.3")
{
    run_on_few(race_with_close, NULL);
}

/* ---- misuse ---- */

#ifdef KIN_DEBUG
static int receive_twice(void *arg)
{
    struct call calls[2] = {{.kind = &spsc_kind}, {.kind = &spsc_kind}};
    KIN_NURSERY(n);
    (void)arg;
    calls[0].q = calls[1].q = make(&spsc_kind, 1);
    start_call(&n, call_recv, &calls[0]);
    start_call(&n, call_recv, &calls[1]);
    return kin_nursery_join(&n, NULL);
}

static int send_twice(void *arg)
{
    struct call calls[2] = {{.kind = &spsc_kind}, {.kind = &spsc_kind}};
    KIN_NURSERY(n);
    (void)arg;
    calls[0].q = calls[1].q = make(&spsc_kind, 1);
    EXPECT_EQ(send_now(&spsc_kind, calls[0].q, 1), 0);
    start_call(&n, call_send, &calls[0]);
    start_call(&n, call_send, &calls[1]);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(two_at_one_end_are_named, "")
{
    EXPECT_ABORT("one task at a time uses this end of a queue")
    {
        kin_ignore(run_reporting(1, receive_twice, NULL, NULL));
    }
    EXPECT_ABORT("kin_spsc_send")
    {
        kin_ignore(run_reporting(1, send_twice, NULL, NULL));
    }
}
#endif

/* One after the other is no misuse. */
static int send_one(void *arg)
{
    int item = 1;
    return kin_spsc_send(arg, &item, KIN_NEVER);
}

static int hand_over(void *arg)
{
    struct kin_spsc *q = make(&spsc_kind, 1);
    (void)arg;
    for (int i = 0; i < 50; i++) {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, send_one, q), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        expect_item(&spsc_kind, q, 1);
    }
    kin_spsc_unref(q);
    return 0;
}

KIN_TEST(an_end_may_be_handed_to_another_task, "")
{
    run_on_few(hand_over, NULL);
}
