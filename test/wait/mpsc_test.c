/* SPDX-License-Identifier: MIT */
/*
 * Goal: many senders: each one's order is kept, those who wait are let in by age, nothing is lost
 * or doubled. Method: counted items under load on several workers, and parks made certain on one;
 * the rest is in queue_test.c.
 */
#include "wait/queue_calls.h"

enum { SENDERS = 23, EACH = 2000 };

struct post {
    struct kin_mpsc *q;
    unsigned sender;
};

struct letter {
    unsigned sender, number;
};

static int post_all(void *arg)
{
    struct post *post = arg;
    for (unsigned i = 0; i < EACH; i++) {
        struct letter letter = {post->sender, i};
        EXPECT_EQ(kin_mpsc_send(post->q, &letter, KIN_NEVER), 0);
    }
    return 0;
}

static int post_and_close(void *arg)
{
    struct post posts[SENDERS];
    struct kin_mpsc *q = arg;
    KIN_NURSERY(n);
    for (unsigned i = 0; i < SENDERS; i++) {
        posts[i] = (struct post){q, i};
        EXPECT_EQ(kin_spawn(&n, post_all, &posts[i]), 0);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_mpsc_close(q);
    return 0;
}

static int collect(void *arg)
{
    struct kin_mpsc *q;
    unsigned next[SENDERS] = {0};
    struct letter letter;
    int rc;
    EXPECT_EQ(kin_mpsc_create(&q, sizeof letter, *(size_t *)arg), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, post_and_close, q), 0);
    while ((rc = kin_mpsc_recv(q, &letter, KIN_NEVER)) == 0) {
        EXPECT_LT(letter.sender, SENDERS);
        EXPECT_EQ(letter.number, next[letter.sender]++);
    }
    EXPECT_EQ(rc, KIN_CLOSED);
    for (unsigned i = 0; i < SENDERS; i++)
        EXPECT_EQ(next[i], EACH);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_mpsc_unref(q);
    return 0;
}

KIN_TEST(each_senders_items_arrive_once_and_in_its_order, "G010 G020")
{
    static const size_t capacities[] = {1, 3, 64};
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++)
        run_on_few(collect, (void *)(uintptr_t)&capacities[i]);
}

/* ---- age ---- */

enum { LINE = 100 };

static int stand_in_line(void *arg)
{
    static struct call calls[LINE];
    struct kin_mpsc *q = make(&mpsc_kind, 2);
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(send_now(&mpsc_kind, q, -2), 0);
    EXPECT_EQ(send_now(&mpsc_kind, q, -1), 0);
    for (int i = 0; i < LINE; i++) {
        calls[i] = (struct call){.kind = &mpsc_kind, .q = q, .item = i};
        struct kin_task_ref who = start_call(&n, call_send, &calls[i]);
        if (i % 5 == 4) /* some leave the line, one way or the other */
            EXPECT_EQ(kin_task_cancel(who), 0);
    }
    expect_item(&mpsc_kind, q, -2);
    EXPECT_EQ(send_now(&mpsc_kind, q, 99), KIN_FULL); /* nobody overtakes */
    expect_item(&mpsc_kind, q, -1);
    for (int i = 0; i < LINE; i++) {
        if (i % 5 == 4) {
            expect_over(&calls[i], KIN_CANCELLED);
            continue;
        }
        if (i < LINE - 3)
            EXPECT_EQ(send_now(&mpsc_kind, q, 99), KIN_FULL);
        expect_item(&mpsc_kind, q, i);
        expect_over(&calls[i], 0);
    }
    expect_nothing(&mpsc_kind, q, KIN_EMPTY);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_mpsc_unref(q);
    return 0;
}

KIN_TEST(senders_that_wait_are_let_in_by_age, "G026")
{
    EXPECT_EQ(run_reporting(1, stand_in_line, NULL, NULL), 0);
}

static int drop_line(void *arg)
{
    static struct call calls[LINE * 3]; /* more than one batch */
    struct kin_mpsc *q = make(&mpsc_kind, 1);
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(send_now(&mpsc_kind, q, 0), 0);
    for (int i = 0; i < LINE * 3; i++) {
        calls[i] = (struct call){.kind = &mpsc_kind, .q = q};
        start_call(&n, call_send, &calls[i]);
    }
    kin_mpsc_unref(q);
    for (int i = 0; i < LINE * 3; i++)
        expect_over(&calls[i], KIN_CLOSED);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_long_line_is_told_when_the_queue_goes, "")
{
    EXPECT_EQ(run_reporting(1, drop_line, NULL, NULL), 0);
}

#ifdef KIN_DEBUG
static int receive_twice(void *arg)
{
    struct call calls[2] = {{.kind = &mpsc_kind}, {.kind = &mpsc_kind}};
    KIN_NURSERY(n);
    (void)arg;
    calls[0].q = calls[1].q = make(&mpsc_kind, 1);
    start_call(&n, call_recv, &calls[0]);
    start_call(&n, call_recv, &calls[1]);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(two_receivers_are_named, "")
{
    EXPECT_ABORT("kin_mpsc_recv")
    {
        kin_ignore(run_reporting(1, receive_twice, NULL, NULL));
    }
}
#endif
