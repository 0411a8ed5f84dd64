/* SPDX-License-Identifier: MIT */
/*
 * Goal: fast queues as the header promises them, seen from outside.
 * Method: each test runs with both kinds, through the public headers.
 */
#include "wait/queue_calls.h"

static void run_both(kin_task_fn *fn)
{
    run_on_few(fn, (void *)(uintptr_t)&spsc_kind);
    run_on_few(fn, (void *)(uintptr_t)&mpsc_kind);
}

static int use_nonsense(void *arg)
{
    const struct kind *kind = arg;
    void *q = NULL;
    int item = 0;
    EXPECT_EQ(kind->create(NULL, 4, 4), -EINVAL);
    EXPECT_EQ(kind->create(&q, 4, 0), -EINVAL);
    EXPECT_EQ(kind->create(&q, KIN_QUEUE_ITEM_MAX + 1, 1), -EOVERFLOW);
    EXPECT_EQ(kind->create(&q, SIZE_MAX, 1), -EOVERFLOW);
    EXPECT_EQ(kind->create(&q, 8, SIZE_MAX), -EOVERFLOW);
    EXPECT_EQ(kind->create(&q, 8, SIZE_MAX / 8), -EOVERFLOW);
    EXPECT_PTR(q, NULL);
    EXPECT_EQ(kind->send(NULL, &item, 0), -EINVAL);
    EXPECT_EQ(kind->recv(NULL, &item, 0), -EINVAL);
    kind->ref(NULL);
    kind->unref(NULL);
    kind->close(NULL);
    EXPECT_EQ(kind->len(NULL), 0);
    EXPECT_EQ(kind->cap(NULL), 0);
    EXPECT(kind->is_closed(NULL));
    EXPECT_EQ(kind->create(&q, sizeof item, 1), 0);
    EXPECT_EQ(kind->send(q, NULL, 0), -EINVAL);
    EXPECT(!kind->is_closed(q));
    kind->unref(q);
    return 0;
}

KIN_TEST(nonsense_is_answered, "G062")
{
    run_both(use_nonsense);
}

KIN_TEST(outside_a_task_what_may_park_is_refused, "N1002")
{
    const struct kind *kinds[2] = {&spsc_kind, &mpsc_kind};
    for (int i = 0; i < 2; i++) {
        void *q = make(kinds[i], 2);
        EXPECT_EQ(send_now(kinds[i], q, 1), KIN_NOTASK);
        expect_nothing(kinds[i], q, KIN_NOTASK);
        kinds[i]->close(q);
        EXPECT(kinds[i]->is_closed(q));
        kinds[i]->unref(q);
    }
}

static int use_deadlines(void *arg)
{
    const struct kind *kind = arg;
    void *q = make(kind, 1);
    int item = 1;
    EXPECT_EQ(kind->recv(q, &item, 0), KIN_EMPTY);
    EXPECT_EQ(kind->recv(q, &item, -1), KIN_TIMEOUT);
    EXPECT_EQ(kind->recv(q, &item, 1), KIN_TIMEOUT);
    EXPECT_EQ(kind->recv(q, &item, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(kind->send(q, &item, 1), 0); /* what can be done at once is done */
    EXPECT_EQ(kind->send(q, &item, 0), KIN_FULL);
    EXPECT_EQ(kind->send(q, &item, 1), KIN_TIMEOUT);
    EXPECT_EQ(kind->send(q, &item, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(kind->recv(q, &item, 1), 0);
    kind->unref(q);
    return 0;
}

KIN_TEST(deadlines_mean_what_they_mean_everywhere, "")
{
    run_both(use_deadlines);
}

static int use_sizes(void *arg)
{
    static unsigned char out[KIN_QUEUE_ITEM_MAX], in[KIN_QUEUE_ITEM_MAX];
    static const size_t sizes[] = {0, 1, 3, 4, 8, 12, 16, 17, 100, 4096, KIN_QUEUE_ITEM_MAX};
    const struct kind *kind = arg;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *q;
        EXPECT_EQ(kind->create(&q, sizes[i], 3), 0);
        for (int round = 0; round < 10; round++) {
            for (size_t j = 0; j < sizes[i]; j++)
                out[j] = (unsigned char)(j * 7 + i + (size_t)round);
            memset(in, 0, sizeof in);
            EXPECT_EQ(kind->send(q, sizes[i] ? out : NULL, 0), 0);
            EXPECT_EQ(kind->send(q, out, 0), 0);
            EXPECT_EQ(kind->recv(q, NULL, 0), 0); /* dropped */
            EXPECT_EQ(kind->recv(q, in, 0), 0);
            EXPECT_EQ(memcmp(in, out, sizes[i]), 0);
        }
        EXPECT_EQ(kind->recv(q, in, 0), KIN_EMPTY);
        kind->unref(q);
    }
    return 0;
}

KIN_TEST(items_of_every_size_arrive_whole, "G028 G059")
{
    run_both(use_sizes);
}

/* ---- a pipeline ---- */

enum { STAGES = 20, NUMBERS = 500 };

struct stage {
    const struct kind *kind;
    void *from, *to;
};

static int add_one(void *arg)
{
    struct stage *stage = arg;
    int number, rc;
    while ((rc = stage->kind->recv(stage->from, &number, KIN_NEVER)) == 0) {
        number++;
        EXPECT_EQ(stage->kind->send(stage->to, &number, KIN_NEVER), 0);
    }
    stage->kind->close(stage->to);
    EXPECT_EQ(rc, KIN_CLOSED);
    return 0;
}

static int feed(void *arg)
{
    struct stage *stage = arg;
    for (int i = 0; i < NUMBERS; i++)
        EXPECT_EQ(stage->kind->send(stage->to, &i, KIN_NEVER), 0);
    stage->kind->close(stage->to);
    return 0;
}

static int pipeline(void *arg)
{
    const struct kind *kind = arg;
    struct stage stages[STAGES + 1];
    int number, expected = 0, rc;
    void *last = NULL;
    for (int i = 0; i <= STAGES; i++) {
        stages[i] = (struct stage){kind, last, make(kind, 1 + (size_t)i % 4)};
        last = stages[i].to;
    }
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, feed, &stages[0]), 0);
    for (int i = 1; i <= STAGES; i++)
        EXPECT_EQ(kin_spawn(&n, add_one, &stages[i]), 0);
    while ((rc = kind->recv(last, &number, KIN_NEVER)) == 0)
        EXPECT_EQ(number, STAGES + expected++);
    EXPECT_EQ(rc, KIN_CLOSED);
    EXPECT_EQ(expected, NUMBERS);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i <= STAGES; i++)
        kind->unref(stages[i].to);
    return 0;
}

KIN_TEST(a_pipeline_passes_everything_on_and_is_torn_down, "G027")
{
    run_both(pipeline);
}

static int cancel_both_ends(void *arg)
{
    const struct kind *kind = arg;
    struct call recv = {.kind = kind, .q = make(kind, 1)};
    struct call send = {.kind = kind, .q = make(kind, 1), .item = 9};
    EXPECT_EQ(send_now(kind, send.q, 1), 0);
    {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, call_recv, &recv), 0);
        EXPECT_EQ(kin_spawn(&n, call_send, &send), 0);
        await(&recv.begun, 1);
        await(&send.begun, 1);
        kin_nursery_cancel(&n, 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    }
    EXPECT_EQ(recv.status, KIN_CANCELLED);
    EXPECT_EQ(send.status, KIN_CANCELLED);
    expect_item(kind, send.q, 1);
    expect_nothing(kind, send.q, KIN_EMPTY);
    kind->unref(recv.q);
    kind->unref(send.q);
    return 0;
}

KIN_TEST(a_cancelled_call_took_and_gave_nothing, "T066 N008")
{
    run_both(cancel_both_ends);
}

/* ---- capabilities and budgets ---- */

static int use_without_right(void *arg)
{
    struct call *call = arg;
    void *q = NULL;
    EXPECT_EQ(call->kind->create(&q, 4, 1), KIN_NOCAP);
    EXPECT_PTR(q, NULL);
    EXPECT_EQ(send_now(call->kind, call->q, 1), KIN_NOCAP);
    expect_nothing(call->kind, call->q, KIN_NOCAP);
    return 0;
}

static int use_two_operations(void *arg)
{
    struct call *call = arg;
    EXPECT_EQ(send_now(call->kind, call->q, 1), 0);
    expect_item(call->kind, call->q, 1);
    EXPECT_EQ(send_now(call->kind, call->q, 2), KIN_BUDGET);
    expect_nothing(call->kind, call->q, KIN_BUDGET);
    return 0;
}

static int confine(void *arg)
{
    struct call call = {.kind = arg, .q = make(arg, 2)};
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    {
        KIN_NURSERY(n); /* one at a time: each end has one user */
        options.caps = KIN_CAP_ALL & ~KIN_CAP_CHANNEL;
        EXPECT_EQ(kin_spawn_with(&n, &options, use_without_right, &call, 0, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    KIN_NURSERY(n, .recharge = KIN_RECHARGE_MANUAL);
    options.caps = 0;
    options.budget.ops = 100;
    options.budget.channel_ops = 2;
    EXPECT_EQ(kin_spawn_with(&n, &options, use_two_operations, &call, 0, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    call.kind->unref(call.q);
    return 0;
}

KIN_TEST(queues_need_the_capability_and_cost_channel_operations, "")
{
    run_both(confine);
}
