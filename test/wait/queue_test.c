/* SPDX-License-Identifier: MIT */
/*
 * Goal: what both fast queues have in common: the ring, the two words, those who wait, the ends.
 * Method: each test runs with both; one worker where a park must be certain (a task that has set
 * its flag runs on until it parks), several where only the outcome counts.
 */
#include "wait/queue_calls.h"

#include "plat/plat.h"
#include "wait/queue.h"

static void run_on_one(kin_task_fn *fn)
{
    EXPECT_EQ(run_reporting(1, fn, (void *)(uintptr_t)&spsc_kind, NULL), 0);
    EXPECT_EQ(run_reporting(1, fn, (void *)(uintptr_t)&mpsc_kind, NULL), 0);
}

static void run_both(kin_task_fn *fn)
{
    run_on_few(fn, (void *)(uintptr_t)&spsc_kind);
    run_on_few(fn, (void *)(uintptr_t)&mpsc_kind);
}

/* Nobody waits, so the ways without the lock are open. */
static void expect_no_trace(void *queue)
{
    struct kin__queue *q = queue; /* both kinds are nothing else */
    EXPECT_EQ(atomic_load(&q->tail) & KIN__QUEUE_WAITS, 0);
    EXPECT_EQ(atomic_load(&q->head) & KIN__QUEUE_WAITS, 0);
    EXPECT_EQ(q->pins, 0);
}

/* ---- the ring ---- */

static int fill_and_drain(void *arg)
{
    const struct kind *kind = arg;
    for (size_t capacity = 1; capacity <= 17; capacity++) {
        void *q = make(kind, capacity);
        int sent = 0, got = 0;
        EXPECT_EQ(kind->cap(q), capacity);
        for (int round = 0; round < 40; round++) { /* fills, then takes a few: wraps everywhere */
            while (send_now(kind, q, sent) == 0)
                sent++;
            EXPECT_EQ(kind->len(q), capacity);
            EXPECT_EQ(sent - got, (int)capacity);
            EXPECT_EQ(send_now(kind, q, 99), KIN_FULL);
            for (size_t i = 0; i < 1 + (size_t)round % capacity; i++)
                expect_item(kind, q, got++);
        }
        while (got < sent)
            expect_item(kind, q, got++);
        EXPECT_EQ(kind->len(q), 0);
        expect_nothing(kind, q, KIN_EMPTY);
        kind->unref(q);
    }
    return 0;
}

KIN_TEST(a_ring_of_any_capacity_is_exact_and_in_order, "G003 G004 G008 G011 G025")
{
    run_both(fill_and_drain);
}

/* ---- those who wait ---- */

static int park_receiver(void *arg)
{
    const struct kind *kind = arg;
    void *q = make(kind, 2);
    KIN_NURSERY(n);
    for (int i = 0; i < 20; i++) {
        struct call recv = {.kind = kind, .q = q};
        start_call(&n, call_recv, &recv);
        EXPECT_EQ(send_now(kind, q, i), 0); /* goes to the receiver, into no slot */
        EXPECT_EQ(kind->len(q), 0);
        EXPECT_EQ(send_now(kind, q, i + 100), 0);
        expect_over(&recv, 0);
        EXPECT_EQ(recv.item, i);
        expect_item(kind, q, i + 100);
        expect_no_trace(q);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kind->unref(q);
    return 0;
}

KIN_TEST(an_item_goes_straight_to_a_parked_receiver, "")
{
    run_on_one(park_receiver);
}

static int park_sender(void *arg)
{
    const struct kind *kind = arg;
    for (size_t capacity = 1; capacity <= 5; capacity++) {
        void *q = make(kind, capacity);
        KIN_NURSERY(n);
        int sent = 0, got = 0;
        for (int i = 0; i < 20; i++) {
            while (send_now(kind, q, sent) == 0)
                sent++;
            struct call send = {.kind = kind, .q = q, .item = sent++};
            start_call(&n, call_send, &send);
            EXPECT_EQ(kind->len(q), capacity);
            expect_item(kind, q, got++); /* its item takes the slot at once */
            EXPECT_EQ(kind->len(q), capacity);
            expect_no_trace(q);
            expect_over(&send, 0);
            for (int j = 0; j < i % 4 && got < sent; j++)
                expect_item(kind, q, got++);
        }
        while (got < sent)
            expect_item(kind, q, got++);
        expect_nothing(kind, q, KIN_EMPTY);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        kind->unref(q);
    }
    return 0;
}

KIN_TEST(the_item_of_a_parked_sender_takes_the_slot_that_becomes_free, "")
{
    run_on_one(park_sender);
}

static int leave_early(void *arg)
{
    const struct kind *kind = arg;
    void *q = make(kind, 1);
    struct call recv = {.kind = kind, .q = q, .item = -1};
    struct call send = {.kind = kind, .q = q, .item = 8};
    KIN_NURSERY(n);
    EXPECT_EQ(kin_task_cancel(start_call(&n, call_recv, &recv)), 0);
    EXPECT_EQ(send_now(kind, q, 1), 0); /* comes while the receiver is on its way out */
    expect_over(&recv, KIN_CANCELLED);
    EXPECT_EQ(recv.item, -1);
    EXPECT_EQ(kind->len(q), 1);
    EXPECT_EQ(kin_task_cancel(start_call(&n, call_send, &send)), 0);
    expect_item(kind, q, 1); /* comes while the sender is on its way out */
    expect_over(&send, KIN_CANCELLED);
    expect_nothing(kind, q, KIN_EMPTY);
    recv.deadline = kin_after(KIN_MS(2));
    EXPECT_EQ(call_recv(&recv), 0);
    EXPECT_EQ(recv.status, KIN_TIMEOUT);
    EXPECT_EQ(send_now(kind, q, 2), 0);
    send.deadline = kin_after(KIN_MS(2));
    EXPECT_EQ(call_send(&send), 0);
    EXPECT_EQ(send.status, KIN_TIMEOUT);
    expect_item(kind, q, 2);
    expect_nothing(kind, q, KIN_EMPTY);
    expect_no_trace(q);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kind->unref(q);
    return 0;
}

KIN_TEST(who_leaves_early_takes_nothing_and_leaves_no_trace, "T066 N007 N008")
{
    run_on_one(leave_early);
}

/* A waiter of a park that is long over: whoever tries to claim it loses. */
static struct kin__waiter stale_waiter(void *io)
{
    struct kin__task *task = kin__task_self();
    uint64_t ticket = kin__word_ticket(atomic_load(&task->ctl)) - 1;
    return (struct kin__waiter){.task = task, .ticket = ticket, .io = io};
}

static int publish_by_hand(void *arg)
{
    const struct kind *kind = arg;
    struct kin__queue *q = make(kind, 1);
    int item = 5, status;
    struct kin__waiter waiter = stale_waiter(&item);
    EXPECT_EQ(send_now(kind, q, 1), 0);
    EXPECT(!kin__queue_recv_waitable.publish(q, &waiter, &status)); /* there is something */
    expect_no_trace(q);
    EXPECT(kin__queue_send_waitable.publish(q, &waiter, &status)); /* no room */
    EXPECT_EQ(atomic_load(&q->head) & KIN__QUEUE_WAITS, KIN__QUEUE_WAITS);
    expect_item(kind, q, 1); /* finds nobody to let in */
    EXPECT_EQ(atomic_load(&q->head) & KIN__QUEUE_WAITS, 0);
    EXPECT_EQ(kind->len(q), 0);
    EXPECT_EQ(q->pins, 1); /* it has not been here yet */
    kin__queue_send_waitable.unpublish(q, &waiter);
    expect_no_trace(q);
    EXPECT(!kin__queue_send_waitable.publish(q, &waiter, &status)); /* there is room */
    EXPECT(kin__queue_recv_waitable.publish(q, &waiter, &status));  /* nothing there */
    EXPECT_EQ(atomic_load(&q->tail) & KIN__QUEUE_WAITS, KIN__QUEUE_WAITS);
    EXPECT_EQ(send_now(kind, q, 2), 0); /* finds nobody to give it to, so it goes in */
    EXPECT_EQ(kind->len(q), 1);
    EXPECT_EQ(item, 5);
    kin__queue_recv_waitable.unpublish(q, &waiter);
    expect_no_trace(q);
    expect_item(kind, q, 2);
    kind->close(q);
    EXPECT(!kin__queue_recv_waitable.publish(q, &waiter, &status));
    EXPECT(!kin__queue_send_waitable.publish(q, &waiter, &status));
    expect_no_trace(q);
    kind->unref(q);
    return 0;
}

KIN_TEST(a_waiter_is_linked_unless_complete_and_a_stale_one_gets_nothing, "")
{
    run_on_one(publish_by_hand);
}

/* ---- the ends ---- */

static int close_with_sender(void *arg)
{
    const struct kind *kind = arg;
    void *q = make(kind, 2);
    struct call send = {.kind = kind, .q = q, .item = 2};
    KIN_NURSERY(n);
    EXPECT_EQ(send_now(kind, q, 0), 0);
    EXPECT_EQ(send_now(kind, q, 1), 0);
    start_call(&n, call_send, &send);
    kind->close(q);
    kind->close(q);
    EXPECT(kind->is_closed(q));
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&send.over), 0); /* it was admitted */
    for (int i = 0; i < 3; i++)
        expect_item(kind, q, i);
    expect_over(&send, 0);
    EXPECT_EQ(send_now(kind, q, 99), KIN_CLOSED);
    for (int i = 0; i < 3; i++)
        expect_nothing(kind, q, KIN_CLOSED);
    EXPECT_EQ(kind->recv(q, NULL, KIN_NEVER), KIN_CLOSED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kind->unref(q);
    return 0;
}

KIN_TEST(a_close_ends_admission_and_never_data, "G005 G006 G040 CH:5.3")
{
    run_on_one(close_with_sender);
}

static int close_with_receiver(void *arg)
{
    const struct kind *kind = arg;
    void *q = make(kind, 2);
    struct call recv = {.kind = kind, .q = q, .item = -1};
    KIN_NURSERY(n);
    start_call(&n, call_recv, &recv);
    kind->close(q);
    expect_over(&recv, KIN_CLOSED);
    EXPECT_EQ(recv.item, -1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kind->unref(q);
    return 0;
}

KIN_TEST(a_close_wakes_a_parked_receiver, "G007")
{
    run_on_one(close_with_receiver);
}

static int drop_it(void *arg)
{
    const struct kind *kind = arg;
    struct call recv = {.kind = kind, .q = make(kind, 1)};
    struct call send = {.kind = kind, .q = make(kind, 1), .item = 1};
    struct call late = {.kind = kind, .q = make(kind, 1), .item = 1};
    KIN_NURSERY(n);
    start_call(&n, call_recv, &recv);
    kind->ref(recv.q);
    kind->unref(recv.q);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&recv.over), 0);
    kind->unref(recv.q); /* the call in progress keeps the memory */
    expect_over(&recv, KIN_CLOSED);
    EXPECT_EQ(send_now(kind, send.q, 0), 0);
    start_call(&n, call_send, &send);
    kind->unref(send.q);
    expect_over(&send, KIN_CLOSED);
    EXPECT_EQ(send_now(kind, late.q, 0), 0);
    EXPECT_EQ(kin_task_cancel(start_call(&n, call_send, &late)), 0);
    kind->unref(late.q); /* before the cancelled call has taken itself out */
    expect_over(&late, KIN_CANCELLED);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(the_last_reference_wakes_everybody_and_a_call_keeps_the_memory, "")
{
    run_on_one(drop_it);
}

/* The receiver frees the queue as soon as it has the last item, while the call that sent it may
 * still be running. */
struct hot {
    const struct kind *kind;
    void *q;
    int count;
};

static int send_hot(void *arg)
{
    struct hot *hot = arg;
    for (int i = 0; i < hot->count; i++)
        EXPECT_EQ(hot->kind->send(hot->q, &i, KIN_NEVER), 0);
    return 0;
}

static int free_hot(void *arg)
{
    const struct kind *kind = arg;
    for (int round = 0; round < 300; round++) {
        struct hot hot = {kind, make(kind, (size_t)(1 + round % 3)), 1 + round % 5};
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, send_hot, &hot), 0);
        for (int i = 0; i < hot.count; i++) {
            int item;
            EXPECT_EQ(kind->recv(hot.q, &item, KIN_NEVER), 0);
            EXPECT_EQ(item, i);
        }
        kind->unref(hot.q);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(who_has_the_last_item_may_free_the_queue, "")
{
    run_both(free_hot);
}

/* ---- memory and sizes ---- */

KIN_TEST(every_shortage_of_memory_is_an_answer, "N009")
{
    const struct kind *kinds[2] = {&spsc_kind, &mpsc_kind};
    for (int i = 0; i < 2; i++) {
        void *q = NULL;
        for (uint64_t n = 1; n <= 2; n++) {
            kin__plat_fail_after(n, false);
            EXPECT_EQ(kinds[i]->create(&q, 8, 4), -ENOMEM);
            EXPECT_PTR(q, NULL);
        }
        kin__plat_fail_after(0, false);
    }
}

KIN_TEST(the_sides_of_a_queue_are_on_lines_of_their_own, "")
{
    EXPECT_EQ(offsetof(struct kin__queue, tail) / 64, 0);
    EXPECT_EQ(offsetof(struct kin__queue, head_seen) / 64, 0);
    EXPECT_EQ(offsetof(struct kin__queue, head) / 64, 1);
    EXPECT_EQ(offsetof(struct kin__queue, tail_seen) / 64, 1);
    EXPECT_EQ(offsetof(struct kin__queue, ring) / 64, 2);
    EXPECT_EQ(offsetof(struct kin__queue, lock) / 64, 3);
}
