/* SPDX-License-Identifier: MIT */
/*
 * Goal: the ring of a broadcast and those who wait for it: order, room, close, ends of
 * subscriptions, sharing, batches. Method: one worker where a park must be certain (a task that has
 * set its flag runs on until it parks), several where only the outcome counts.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"

#include <kin/stream.h>

enum { READERS = 10, ITEMS = 300 };

static struct kin_broadcast *make(size_t capacity, enum kin_broadcast_mode mode)
{
    struct kin_broadcast *b;
    EXPECT_EQ(kin_broadcast_create(&b, sizeof(int), capacity, mode), 0);
    return b;
}

static struct kin_subscriber *subscribe(struct kin_broadcast *b)
{
    struct kin_subscriber *s;
    EXPECT_EQ(kin_broadcast_subscribe(b, &s), 0);
    return s;
}

static int send_now(struct kin_broadcast *b, int item)
{
    return kin_broadcast_send(b, &item, 0);
}

/* Reads without waiting and expects this item and this loss. */
static void expect_item(struct kin_subscriber *s, int expected, uint64_t expected_lost)
{
    int item = -1;
    uint64_t lost = 99;
    EXPECT_EQ(kin_broadcast_recv(s, &item, &lost, 0), 0);
    EXPECT_EQ(item, expected);
    EXPECT_EQ(lost, expected_lost);
}

static void expect_nothing(struct kin_subscriber *s, int status)
{
    int item = -1;
    uint64_t lost = 99;
    EXPECT_EQ(kin_broadcast_recv(s, &item, &lost, 0), status);
    EXPECT_EQ(item, -1);
    EXPECT_EQ(lost, 99);
}

/* A task that makes one call and says when it is about to and what came of it. */
struct call {
    struct kin_broadcast *b;
    struct kin_subscriber *s;
    int item;
    uint64_t lost;
    kin_time deadline;
    _Atomic int begun, over;
    int status;
};

static int call_send(void *arg)
{
    struct call *call = arg;
    atomic_store(&call->begun, 1);
    call->status = kin_broadcast_send(call->b, &call->item, call->deadline);
    atomic_store(&call->over, 1);
    return 0;
}

static int call_recv(void *arg)
{
    struct call *call = arg;
    atomic_store(&call->begun, 1);
    call->status = kin_broadcast_recv(call->s, &call->item, &call->lost, call->deadline);
    atomic_store(&call->over, 1);
    return 0;
}

/* Starts it and lets it park, which on one worker it does before this task runs again. */
static void start(struct kin_nursery *n, kin_task_fn *fn, struct call *call)
{
    if (call->deadline == 0)
        call->deadline = KIN_NEVER;
    EXPECT_EQ(kin_spawn(n, fn, call), 0);
    await(&call->begun, 1);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&call->over), 0);
}

static void expect_over(struct call *call, int status)
{
    await(&call->over, 1);
    EXPECT_EQ(call->status, status);
}

/* ---- everybody gets everything ---- */

static int read_all(void *arg)
{
    struct kin_subscriber *s = arg;
    int item, expected = 0, rc;
    uint64_t lost;
    while ((rc = kin_broadcast_recv(s, &item, &lost, KIN_NEVER)) == 0) {
        EXPECT_EQ(item, expected++);
        EXPECT_EQ(lost, 0);
    }
    kin_subscriber_unref(s);
    EXPECT_EQ(rc, KIN_CLOSED);
    EXPECT_EQ(expected, ITEMS);
    return 0;
}

static int broadcast_all(void *arg)
{
    size_t capacity = *(size_t *)arg;
    struct kin_broadcast *b = make(capacity, KIN_BROADCAST_WAIT);
    KIN_NURSERY(n);
    for (int i = 0; i < READERS; i++)
        EXPECT_EQ(kin_spawn(&n, read_all, subscribe(b)), 0);
    for (int i = 0; i < ITEMS; i++)
        EXPECT_EQ(kin_broadcast_send(b, &i, KIN_NEVER), 0);
    kin_broadcast_close(b);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_broadcast_unref(b);
    return 0;
}

KIN_TEST(every_subscriber_reads_every_item_in_order, "N006 N001")
{
    for (size_t capacity = 1; capacity <= 9; capacity += 2)
        run_on_few(broadcast_all, &capacity);
}

/* ---- lagging ---- */

static int lag(void *arg)
{
    (void)arg;
    for (int capacity = 1; capacity <= 9; capacity++) {
        struct kin_broadcast *b = make((size_t)capacity, KIN_BROADCAST_LAG);
        struct kin_subscriber *s = subscribe(b), *fresh;
        for (int i = 0; i < 20; i++)
            EXPECT_EQ(send_now(b, i), 0);
        fresh = subscribe(b);
        expect_nothing(fresh, KIN_EMPTY);
        expect_item(s, 20 - capacity, (uint64_t)(20 - capacity));
        for (int i = 20 - capacity + 1; i < 20; i++)
            expect_item(s, i, 0);
        expect_nothing(s, KIN_EMPTY);
        EXPECT_EQ(send_now(b, 20), 0);
        expect_item(s, 20, 0);
        for (int i = 21; i <= 21 + capacity; i++)
            EXPECT_EQ(send_now(b, i), 0);
        expect_item(s, 22, 1);
        expect_item(fresh, 22, 2);
        kin_broadcast_close(b);
        for (int i = 23; i <= 21 + capacity; i++)
            expect_item(s, i, 0);
        expect_nothing(s, KIN_CLOSED);
        kin_subscriber_unref(s);
        kin_subscriber_unref(fresh);
        kin_broadcast_unref(b);
    }
    return 0;
}

KIN_TEST(a_reader_that_lags_is_told_how_many_it_lost, "")
{
    run_on_few(lag, NULL);
}

/* ---- room ---- */

static int wait_for_the_slowest(void *arg)
{
    struct kin_broadcast *b = make(3, KIN_BROADCAST_WAIT);
    struct kin_subscriber *fast = subscribe(b), *slow = subscribe(b);
    int next = 0;
    (void)arg;
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(send_now(b, next++), 0);
    EXPECT_EQ(send_now(b, 99), KIN_FULL);
    for (int i = 0; i < 3; i++)
        expect_item(fast, i, 0);
    expect_nothing(fast, KIN_EMPTY);
    EXPECT_EQ(send_now(b, 99), KIN_FULL); /* the slow one has read nothing */
    for (int i = 0; i < 50; i++) {
        expect_item(slow, i, 0);
        EXPECT_EQ(send_now(b, next++), 0);
        EXPECT_EQ(send_now(b, 99), KIN_FULL);
        expect_item(fast, i + 3, 0);
    }
    kin_subscriber_unref(slow); /* nobody waits for it any more */
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(send_now(b, next++), 0);
    EXPECT_EQ(send_now(b, 99), KIN_FULL);
    expect_item(fast, 53, 0);
    kin_subscriber_unref(fast);
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(send_now(b, i), 0); /* nobody reads: nobody is waited for */
    kin_broadcast_unref(b);
    return 0;
}

KIN_TEST(a_send_waits_for_the_slowest_subscriber, "")
{
    run_on_few(wait_for_the_slowest, NULL);
}

static int park_senders(void *arg)
{
    struct kin_broadcast *b = make(1, KIN_BROADCAST_WAIT);
    struct kin_subscriber *s = subscribe(b), *other = subscribe(b);
    struct call sends[3] = {{.b = b, .item = 1}, {.b = b, .item = 2}, {.b = b, .item = 3}};
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(send_now(b, 0), 0);
    for (int i = 0; i < 3; i++)
        start(&n, call_send, &sends[i]);
    for (int i = 0; i < 3; i++) {
        expect_item(s, i, 0);
        EXPECT_EQ(send_now(b, 99), KIN_FULL);
        expect_item(other, i, 0); /* the last one who read it makes room: the oldest goes in */
        expect_over(&sends[i], 0);
        EXPECT_EQ(send_now(b, 99), KIN_FULL);
    }
    expect_item(s, 3, 0);
    expect_item(other, 3, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_subscriber_unref(s);
    kin_subscriber_unref(other);
    kin_broadcast_unref(b);
    return 0;
}

KIN_TEST(parked_sends_are_admitted_by_age_and_not_overtaken, "T084")
{
    EXPECT_EQ(run_reporting(1, park_senders, NULL, NULL), 0);
}

static int free_room(void *arg)
{
    struct kin_broadcast *b = make(1, KIN_BROADCAST_WAIT);
    struct kin_subscriber *s = subscribe(b), *slow = subscribe(b);
    struct call send = {.b = b, .item = 1};
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(send_now(b, 0), 0);
    expect_item(s, 0, 0);
    start(&n, call_send, &send);
    kin_subscriber_unref(slow);
    expect_over(&send, 0);
    expect_item(s, 1, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_subscriber_unref(s);
    kin_broadcast_unref(b);
    return 0;
}

KIN_TEST(the_end_of_a_subscription_lets_a_parked_send_in, "")
{
    EXPECT_EQ(run_reporting(1, free_room, NULL, NULL), 0);
}

/* ---- close ---- */

static int close_with_senders(void *arg)
{
    struct kin_broadcast *b = make(1, KIN_BROADCAST_WAIT);
    struct kin_subscriber *s = subscribe(b), *slow = subscribe(b);
    struct call sends[2] = {{.b = b, .item = 1}, {.b = b, .item = 2}};
    struct call recv = {.s = s};
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(send_now(b, 0), 0);
    expect_item(s, 0, 0);
    start(&n, call_send, &sends[0]);
    start(&n, call_send, &sends[1]);
    start(&n, call_recv, &recv);
    kin_broadcast_close(b);
    kin_broadcast_close(b);
    EXPECT(kin_broadcast_is_closed(b));
    EXPECT_EQ(send_now(b, 99), KIN_CLOSED);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&recv.over), 0); /* two sends were admitted: more may come */
    expect_item(slow, 0, 0);
    expect_over(&sends[0], 0);
    expect_over(&recv, 0);
    EXPECT_EQ(recv.item, 1);
    expect_nothing(s, KIN_EMPTY);
    expect_item(slow, 1, 0);
    expect_over(&sends[1], 0);
    expect_item(s, 2, 0);
    expect_nothing(s, KIN_CLOSED);
    expect_item(slow, 2, 0);
    expect_nothing(slow, KIN_CLOSED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_subscriber_unref(s);
    kin_subscriber_unref(slow);
    kin_broadcast_unref(b);
    return 0;
}

KIN_TEST(a_close_still_delivers_what_parked_sends_brought, "CH:5.3")
{
    EXPECT_EQ(run_reporting(1, close_with_senders, NULL, NULL), 0);
}

static int leave_after_close(void *arg)
{
    struct kin_broadcast *b = make(1, KIN_BROADCAST_WAIT);
    struct kin_subscriber *s = subscribe(b), *slow = subscribe(b);
    struct call send = {.b = b, .item = 1}, recv = {.s = s};
    struct kin_task_ref sender;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(send_now(b, 0), 0);
    expect_item(s, 0, 0);
    send.deadline = KIN_NEVER;
    EXPECT_EQ(kin_spawn_with(&n, NULL, call_send, &send, 0, &sender), 0);
    await(&send.begun, 1);
    EXPECT_EQ(kin_yield(), 0);
    start(&n, call_recv, &recv);
    kin_broadcast_close(b);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&recv.over), 0);
    EXPECT_EQ(kin_task_cancel(sender), 0); /* the last one that could bring something */
    expect_over(&send, KIN_CANCELLED);
    expect_over(&recv, KIN_CLOSED);
    expect_item(slow, 0, 0);
    expect_nothing(slow, KIN_CLOSED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_subscriber_unref(s);
    kin_subscriber_unref(slow);
    kin_broadcast_unref(b);
    return 0;
}

KIN_TEST(readers_hear_of_the_close_when_the_last_admitted_send_leaves, "CH:5.3")
{
    EXPECT_EQ(run_reporting(1, leave_after_close, NULL, NULL), 0);
}

static int drop_all(void *arg)
{
    struct kin_broadcast *b = make(2, KIN_BROADCAST_WAIT);
    struct kin_subscriber *s = subscribe(b), *empty = subscribe(b);
    struct call send = {.b = b, .item = 2}, recv = {.s = empty};
    KIN_NURSERY(n);
    (void)arg;
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(send_now(b, i), 0);
        expect_item(empty, i, 0);
    }
    start(&n, call_send, &send);
    start(&n, call_recv, &recv);
    kin_broadcast_unref(b); /* the last reference: admission ends, and nobody waits to send */
    expect_over(&send, KIN_CLOSED);
    expect_over(&recv, KIN_CLOSED);
    expect_item(s, 0, 0); /* what was sent is still read */
    expect_item(s, 1, 0);
    expect_nothing(s, KIN_CLOSED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_subscriber_unref(s);
    kin_subscriber_unref(empty);
    return 0;
}

KIN_TEST(without_references_parked_sends_leave_and_subscribers_read_the_rest, "")
{
    EXPECT_EQ(run_reporting(1, drop_all, NULL, NULL), 0);
}

static int end_subscription(void *arg)
{
    struct kin_broadcast *b = make(2, *(enum kin_broadcast_mode *)arg);
    struct kin_subscriber *s = subscribe(b);
    struct call recvs[2] = {{.s = s}, {.s = s}};
    KIN_NURSERY(n);
    start(&n, call_recv, &recvs[0]);
    start(&n, call_recv, &recvs[1]);
    kin_broadcast_unref(kin_broadcast_ref(b));
    kin_subscriber_unref(kin_subscriber_ref(s));
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&recvs[0].over), 0);
    kin_subscriber_unref(s); /* the calls in progress keep the memory */
    kin_broadcast_unref(b);
    expect_over(&recvs[0], KIN_CLOSED);
    expect_over(&recvs[1], KIN_CLOSED);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(the_end_of_a_subscription_wakes_those_who_wait_on_it, "")
{
    enum kin_broadcast_mode mode = KIN_BROADCAST_LAG;
    EXPECT_EQ(run_reporting(1, end_subscription, &mode, NULL), 0);
    mode = KIN_BROADCAST_WAIT;
    EXPECT_EQ(run_reporting(1, end_subscription, &mode, NULL), 0);
}

/* ---- sharing ---- */

struct share {
    struct kin_subscriber *s;
    _Atomic int seen[ITEMS];
    _Atomic int readers_done;
};

static int read_share(void *arg)
{
    struct share *share = arg;
    int item, last = -1, rc;
    while ((rc = kin_broadcast_recv(share->s, &item, NULL, KIN_NEVER)) == 0) {
        EXPECT_GT(item, last);
        last = item;
        EXPECT_EQ(atomic_fetch_add(&share->seen[item], 1), 0);
    }
    EXPECT_EQ(rc, KIN_CLOSED);
    return 0;
}

static int share_subscriber(void *arg)
{
    struct share share = {0}, alone = {0};
    struct kin_broadcast *b = make(4, KIN_BROADCAST_WAIT);
    KIN_NURSERY(n);
    (void)arg;
    share.s = subscribe(b);
    alone.s = subscribe(b);
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin_spawn(&n, read_share, &share), 0);
    EXPECT_EQ(kin_spawn(&n, read_share, &alone), 0);
    for (int i = 0; i < ITEMS; i++)
        EXPECT_EQ(kin_broadcast_send(b, &i, KIN_NEVER), 0);
    kin_broadcast_close(b);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < ITEMS; i++) {
        EXPECT_EQ(atomic_load(&share.seen[i]), 1);
        EXPECT_EQ(atomic_load(&alone.seen[i]), 1);
    }
    kin_subscriber_unref(share.s);
    kin_subscriber_unref(alone.s);
    kin_broadcast_unref(b);
    return 0;
}

KIN_TEST(tasks_that_share_a_subscriber_get_each_item_once_among_them, "")
{
    run_on_few(share_subscriber, NULL);
}

/* ---- batches ---- */

enum { CROWD = 1000 };

static int count_one(void *arg)
{
    struct call *call = arg;
    int item, rc;
    atomic_fetch_add(&call->begun, 1);
    rc = kin_broadcast_recv(call->s, &item, NULL, KIN_NEVER);
    EXPECT_EQ(rc, 0);
    EXPECT_EQ(item, 7);
    rc = kin_broadcast_recv(call->s, &item, NULL, KIN_NEVER);
    EXPECT_EQ(rc, KIN_CLOSED);
    atomic_fetch_add(&call->over, 1);
    return 0;
}

static int wake_crowd(void *arg)
{
    static struct call calls[CROWD];
    struct kin_broadcast *b = make(1, *(enum kin_broadcast_mode *)arg);
    KIN_NURSERY(n);
    memset(calls, 0, sizeof calls);
    for (int i = 0; i < CROWD; i++) {
        calls[i].s = subscribe(b);
        EXPECT_EQ(kin_spawn(&n, count_one, &calls[i]), 0);
        await(&calls[i].begun, 1);
    }
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(send_now(b, 7), 0);
    kin_broadcast_close(b);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < CROWD; i++) {
        EXPECT_EQ(atomic_load(&calls[i].over), 1);
        kin_subscriber_unref(calls[i].s);
    }
    kin_broadcast_unref(b);
    return 0;
}

KIN_TEST(one_send_and_one_close_wake_a_crowd, "")
{
    for (int mode = KIN_BROADCAST_LAG; mode <= KIN_BROADCAST_WAIT; mode++) {
        enum kin_broadcast_mode which = (enum kin_broadcast_mode)mode;
        run_on_few(wake_crowd, &which);
    }
}

/* ---- leaving early ---- */

static int leave_early(void *arg)
{
    struct kin_broadcast *b = make(1, KIN_BROADCAST_WAIT);
    struct kin_subscriber *s = subscribe(b);
    struct call recv = {.s = s}, send = {.b = b, .item = 5};
    struct kin_task_ref who;
    KIN_NURSERY(n);
    (void)arg;
    recv.deadline = KIN_NEVER;
    EXPECT_EQ(kin_spawn_with(&n, NULL, call_recv, &recv, 0, &who), 0);
    await(&recv.begun, 1);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_task_cancel(who), 0);
    EXPECT_EQ(send_now(b, 1), 0); /* comes while the reader is on its way out */
    expect_over(&recv, KIN_CANCELLED);
    expect_item(s, 1, 0);
    recv = (struct call){.s = s, .item = -1, .deadline = kin_after(KIN_MS(2))};
    EXPECT_EQ(call_recv(&recv), 0);
    EXPECT_EQ(recv.status, KIN_TIMEOUT);
    EXPECT_EQ(recv.item, -1);
    EXPECT_EQ(send_now(b, 2), 0);
    send.deadline = kin_after(KIN_MS(2));
    EXPECT_EQ(call_send(&send), 0);
    EXPECT_EQ(send.status, KIN_TIMEOUT);
    expect_item(s, 2, 0);
    expect_nothing(s, KIN_EMPTY); /* what timed out was not sent */
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_subscriber_unref(s);
    kin_broadcast_unref(b);
    return 0;
}

KIN_TEST(a_cancelled_or_late_call_neither_reads_nor_sends, "T066 N007 N008")
{
    EXPECT_EQ(run_reporting(1, leave_early, NULL, NULL), 0);
}

/* ---- memory ---- */

KIN_TEST(every_shortage_of_memory_is_an_answer, "N009")
{
    struct kin_broadcast *b = NULL;
    struct kin_subscriber *s = NULL;
    for (uint64_t n = 1; n <= 3; n++) {
        kin__plat_fail_after(n, false);
        EXPECT_EQ(kin_broadcast_create(&b, 8, 4, KIN_BROADCAST_WAIT), -ENOMEM);
        EXPECT_PTR(b, NULL);
    }
    kin__plat_fail_after(0, false);
    EXPECT_EQ(kin_broadcast_create(&b, 8, 4, KIN_BROADCAST_WAIT), 0);
    kin__plat_fail_after(1, false);
    EXPECT_EQ(kin_broadcast_subscribe(b, &s), -ENOMEM);
    EXPECT_PTR(s, NULL);
    kin__plat_fail_after(0, false);
    kin_broadcast_unref(b);
}

#ifdef KIN_DEBUG
/* In the hard mode park every wait is published, also one that could end at once. */
static int read_to_the_end(void *arg)
{
    struct kin_broadcast *broadcast;
    struct kin_subscriber *subscriber;
    int item = 5, got = 0;
    (void)arg;
    EXPECT_EQ(kin_broadcast_create(&broadcast, sizeof(item), 2, KIN_BROADCAST_LAG), 0);
    EXPECT_EQ(kin_broadcast_subscribe(broadcast, &subscriber), 0);
    EXPECT_EQ(kin_broadcast_send(broadcast, &item, KIN_NEVER), 0);
    kin_broadcast_close(broadcast);
    EXPECT_EQ(kin_broadcast_recv(subscriber, &got, NULL, KIN_NEVER), 0);
    EXPECT_EQ(got, 5);
    EXPECT_EQ(kin_broadcast_recv(subscriber, &got, NULL, KIN_NEVER), KIN_CLOSED);
    kin_subscriber_unref(subscriber);
    kin_broadcast_unref(broadcast);
    return 0;
}

KIN_TEST(who_is_about_to_wait_hears_of_a_close, "CH:5.3")
{
    EXPECT_EQ(setenv("KIN_HARD", "park", 1), 0);
    EXPECT_EQ(kin_run(NULL, read_to_the_end, NULL), 0);
}
#endif
