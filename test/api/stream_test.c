/* SPDX-License-Identifier: MIT */
/*
 * Goal: broadcasts and watches as the header promises them, seen from outside.
 * Method: small programs through the public headers; who parks when is not asked for here.
 */
#include "api/in_runtime.h"

#include <kin/stream.h>

#include <pthread.h>

/* ---- arguments ---- */

KIN_TEST(a_broadcast_of_nonsense_is_refused, "G062")
{
    struct kin_broadcast *b = NULL;
    EXPECT_EQ(kin_broadcast_create(NULL, 4, 4, KIN_BROADCAST_LAG), -EINVAL);
    EXPECT_EQ(kin_broadcast_create(&b, 4, 0, KIN_BROADCAST_LAG), -EINVAL);
    EXPECT_EQ(kin_broadcast_create(&b, 4, 4, (enum kin_broadcast_mode)7), -EINVAL);
    EXPECT_EQ(kin_broadcast_create(&b, KIN_STREAM_ITEM_MAX + 1, 1, KIN_BROADCAST_LAG), -EOVERFLOW);
    EXPECT_EQ(kin_broadcast_create(&b, SIZE_MAX, 1, KIN_BROADCAST_LAG), -EOVERFLOW);
    EXPECT_EQ(kin_broadcast_create(&b, 8, SIZE_MAX, KIN_BROADCAST_LAG), -EOVERFLOW);
    EXPECT_EQ(kin_broadcast_create(&b, 8, SIZE_MAX / 8, KIN_BROADCAST_WAIT), -EOVERFLOW);
    EXPECT_EQ(kin_broadcast_create(&b, 0, SIZE_MAX / 2, KIN_BROADCAST_WAIT), -EOVERFLOW);
    EXPECT_EQ(kin_broadcast_create(&b, 0, SIZE_MAX, KIN_BROADCAST_LAG), -EOVERFLOW);
    EXPECT_PTR(b, NULL);
    EXPECT_EQ(kin_broadcast_create(&b, KIN_STREAM_ITEM_MAX, 2, KIN_BROADCAST_LAG), 0);
    kin_broadcast_unref(b);
}

KIN_TEST(a_watch_of_nonsense_is_refused, "")
{
    struct kin_watch *watch = NULL;
    int zero = 0;
    EXPECT_EQ(kin_watch_create(NULL, sizeof zero, &zero), -EINVAL);
    EXPECT_EQ(kin_watch_create(&watch, sizeof zero, NULL), -EINVAL);
    EXPECT_EQ(kin_watch_create(&watch, KIN_STREAM_ITEM_MAX + 1, &zero), -EOVERFLOW);
    EXPECT_EQ(kin_watch_create(&watch, SIZE_MAX, &zero), -EOVERFLOW);
    EXPECT_PTR(watch, NULL);
}

static int use_null(void *arg)
{
    struct kin_broadcast *b;
    struct kin_subscriber *s = NULL;
    struct kin_watch *watch;
    uint64_t version = 0;
    int item = 0;
    (void)arg;
    EXPECT_EQ(kin_broadcast_send(NULL, &item, 0), -EINVAL);
    EXPECT_EQ(kin_broadcast_recv(NULL, &item, NULL, 0), -EINVAL);
    EXPECT_EQ(kin_broadcast_subscribe(NULL, &s), -EINVAL);
    EXPECT_EQ(kin_watch_set(NULL, &item), -EINVAL);
    EXPECT_EQ(kin_watch_get(NULL, &item, &version), -EINVAL);
    EXPECT_EQ(kin_watch_wait(NULL, &item, &version, 0), -EINVAL);
    EXPECT_PTR(kin_broadcast_ref(NULL), NULL);
    EXPECT_PTR(kin_subscriber_ref(NULL), NULL);
    EXPECT_PTR(kin_watch_ref(NULL), NULL);
    kin_broadcast_unref(NULL);
    kin_broadcast_close(NULL);
    kin_subscriber_unref(NULL);
    kin_watch_unref(NULL);
    kin_watch_close(NULL);
    EXPECT(kin_broadcast_is_closed(NULL));
    EXPECT(kin_watch_is_closed(NULL));
    EXPECT_EQ(kin_broadcast_create(&b, sizeof item, 1, KIN_BROADCAST_LAG), 0);
    EXPECT_EQ(kin_broadcast_subscribe(b, NULL), -EINVAL);
    EXPECT_EQ(kin_broadcast_send(b, NULL, 0), -EINVAL);
    kin_broadcast_unref(b);
    EXPECT_EQ(kin_watch_create(&watch, sizeof item, &item), 0);
    EXPECT_EQ(kin_watch_set(watch, NULL), -EINVAL);
    EXPECT_EQ(kin_watch_wait(watch, &item, NULL, 0), -EINVAL);
    EXPECT_EQ(kin_watch_get(watch, NULL, NULL), 0);
    kin_watch_unref(watch);
    return 0;
}

KIN_TEST(null_is_answered_everywhere, "")
{
    run_on_few(use_null, NULL);
}

/* ---- outside a task ---- */

KIN_TEST(outside_a_task_what_may_park_is_refused_and_the_rest_works, "N1002")
{
    struct kin_broadcast *b;
    struct kin_subscriber *s;
    struct kin_watch *watch;
    uint64_t version = 0;
    int item = 5;
    EXPECT_EQ(kin_broadcast_create(&b, sizeof item, 2, KIN_BROADCAST_LAG), 0);
    EXPECT_EQ(kin_broadcast_subscribe(b, &s), 0);
    EXPECT_EQ(kin_broadcast_send(b, &item, 0), KIN_NOTASK);
    EXPECT_EQ(kin_broadcast_recv(s, &item, NULL, 0), KIN_NOTASK);
    EXPECT(!kin_broadcast_is_closed(b));
    kin_broadcast_close(b);
    EXPECT(kin_broadcast_is_closed(b));
    EXPECT_EQ(kin_broadcast_subscribe(b, &s), KIN_CLOSED);
    kin_subscriber_unref(s);
    kin_broadcast_unref(b);
    EXPECT_EQ(kin_watch_create(&watch, sizeof item, &item), 0);
    item = 6;
    EXPECT_EQ(kin_watch_set(watch, &item), 0);
    item = 0;
    EXPECT_EQ(kin_watch_get(watch, &item, &version), 0);
    EXPECT_EQ(item, 6);
    EXPECT_EQ(version, 2);
    EXPECT_EQ(kin_watch_wait(watch, &item, &version, 0), KIN_NOTASK);
    kin_watch_close(watch);
    EXPECT(kin_watch_is_closed(watch));
    EXPECT_EQ(kin_watch_set(watch, &item), KIN_CLOSED);
    kin_watch_unref(watch);
}

static void *set_from_thread(void *arg)
{
    for (int i = 2; i <= 100; i++)
        EXPECT_EQ(kin_watch_set(arg, &i), 0);
    kin_watch_close(arg);
    kin_watch_unref(arg);
    return NULL;
}

static int watch_a_thread(void *arg)
{
    struct kin_watch *watch;
    uint64_t version = 0;
    pthread_t thread;
    int item = 1, rc;
    (void)arg;
    EXPECT_EQ(kin_watch_create(&watch, sizeof item, &item), 0);
    EXPECT_EQ(pthread_create(&thread, NULL, set_from_thread, kin_watch_ref(watch)), 0);
    while ((rc = kin_watch_wait(watch, &item, &version, KIN_NEVER)) == 0)
        EXPECT_EQ(item, (int)version);
    EXPECT_EQ(rc, KIN_CLOSED);
    EXPECT_EQ(version, 100);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    kin_watch_unref(watch);
    return 0;
}

KIN_TEST(a_thread_can_set_what_tasks_watch, "")
{
    run_on_few(watch_a_thread, NULL);
}

/* ---- deadlines ---- */

static int use_deadlines(void *arg)
{
    struct kin_broadcast *b;
    struct kin_subscriber *s;
    struct kin_watch *watch;
    uint64_t version = 0, lost = 99;
    int item = 1;
    (void)arg;
    EXPECT_EQ(kin_broadcast_create(&b, sizeof item, 1, KIN_BROADCAST_WAIT), 0);
    EXPECT_EQ(kin_broadcast_subscribe(b, &s), 0);
    EXPECT_EQ(kin_broadcast_recv(s, &item, &lost, 0), KIN_EMPTY);
    EXPECT_EQ(kin_broadcast_recv(s, &item, &lost, -1), KIN_TIMEOUT);
    EXPECT_EQ(kin_broadcast_recv(s, &item, &lost, 1), KIN_TIMEOUT);
    EXPECT_EQ(kin_broadcast_send(b, &item, 1), 0); /* what can be done at once is done */
    EXPECT_EQ(kin_broadcast_send(b, &item, 0), KIN_FULL);
    EXPECT_EQ(kin_broadcast_send(b, &item, 1), KIN_TIMEOUT);
    EXPECT_EQ(kin_broadcast_send(b, &item, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(lost, 99);
    EXPECT_EQ(kin_broadcast_recv(s, &item, &lost, 1), 0);
    EXPECT_EQ(lost, 0);
    EXPECT_EQ(kin_broadcast_recv(s, &item, &lost, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    kin_subscriber_unref(s);
    kin_broadcast_unref(b);
    EXPECT_EQ(kin_watch_create(&watch, sizeof item, &item), 0);
    EXPECT_EQ(kin_watch_wait(watch, &item, &version, 0), 0);
    EXPECT_EQ(kin_watch_wait(watch, &item, &version, 0), KIN_EMPTY);
    EXPECT_EQ(kin_watch_wait(watch, &item, &version, 1), KIN_TIMEOUT);
    EXPECT_EQ(kin_watch_wait(watch, &item, &version, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(version, 1);
    kin_watch_unref(watch);
    return 0;
}

KIN_TEST(deadlines_mean_what_they_mean_everywhere, "")
{
    run_on_few(use_deadlines, NULL);
}

/* ---- sizes ---- */

static int use_sizes(void *arg)
{
    static unsigned char out[KIN_STREAM_ITEM_MAX], in[KIN_STREAM_ITEM_MAX];
    static const size_t sizes[] = {1, 3, 4, 7, 8, 12, 16, 17, 100, 4096, KIN_STREAM_ITEM_MAX};
    (void)arg;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct kin_broadcast *b;
        struct kin_subscriber *s;
        struct kin_watch *watch;
        for (size_t j = 0; j < sizes[i]; j++)
            out[j] = (unsigned char)(j * 7 + i);
        memset(in, 0, sizeof in);
        EXPECT_EQ(kin_broadcast_create(&b, sizes[i], 3, KIN_BROADCAST_LAG), 0);
        EXPECT_EQ(kin_broadcast_subscribe(b, &s), 0);
        for (int round = 0; round < 3; round++)
            EXPECT_EQ(kin_broadcast_send(b, out, 0), 0);
        EXPECT_EQ(kin_broadcast_recv(s, NULL, NULL, 0), 0); /* dropped */
        EXPECT_EQ(kin_broadcast_recv(s, in, NULL, 0), 0);
        EXPECT_EQ(memcmp(in, out, sizes[i]), 0);
        kin_subscriber_unref(s);
        kin_broadcast_unref(b);
        EXPECT_EQ(kin_watch_create(&watch, sizes[i], out), 0);
        memset(in, 0, sizeof in);
        EXPECT_EQ(kin_watch_get(watch, in, NULL), 0);
        EXPECT_EQ(memcmp(in, out, sizes[i]), 0);
        out[0] ^= 1;
        EXPECT_EQ(kin_watch_set(watch, out), 0);
        EXPECT_EQ(kin_watch_get(watch, in, NULL), 0);
        EXPECT_EQ(memcmp(in, out, sizes[i]), 0);
        kin_watch_unref(watch);
    }
    return 0;
}

KIN_TEST(items_of_every_size_arrive_whole, "G028")
{
    run_on_few(use_sizes, NULL);
}

static int use_signals(void *arg)
{
    struct kin_broadcast *b;
    struct kin_subscriber *s;
    struct kin_watch *watch;
    uint64_t version = 0, lost = 0;
    (void)arg;
    EXPECT_EQ(kin_broadcast_create(&b, 0, 2, KIN_BROADCAST_LAG), 0);
    EXPECT_EQ(kin_broadcast_subscribe(b, &s), 0);
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin_broadcast_send(b, NULL, 0), 0);
    EXPECT_EQ(kin_broadcast_recv(s, NULL, &lost, 0), 0);
    EXPECT_EQ(lost, 3);
    EXPECT_EQ(kin_broadcast_recv(s, NULL, &lost, 0), 0);
    EXPECT_EQ(lost, 0);
    EXPECT_EQ(kin_broadcast_recv(s, NULL, &lost, 0), KIN_EMPTY);
    kin_subscriber_unref(s);
    kin_broadcast_unref(b);
    EXPECT_EQ(kin_watch_create(&watch, 0, NULL), 0);
    EXPECT_EQ(kin_watch_set(watch, NULL), 0);
    EXPECT_EQ(kin_watch_wait(watch, NULL, &version, 0), 0);
    EXPECT_EQ(version, 2);
    kin_watch_unref(watch);
    return 0;
}

KIN_TEST(signals_have_no_content_and_are_counted, "G059")
{
    run_on_few(use_signals, NULL);
}

/* ---- close ---- */

static int close_early(void *arg)
{
    struct kin_broadcast *b;
    struct kin_subscriber *s, *read;
    int item = 0;
    (void)arg;
    EXPECT_EQ(kin_broadcast_create(&b, sizeof item, 4, KIN_BROADCAST_LAG), 0);
    EXPECT_EQ(kin_broadcast_subscribe(b, &s), 0);
    EXPECT_EQ(kin_broadcast_subscribe(b, &read), 0);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(kin_broadcast_send(b, &i, KIN_NEVER), 0);
        EXPECT_EQ(kin_broadcast_recv(read, NULL, NULL, 0), 0);
    }
    kin_broadcast_close(b);
    kin_broadcast_close(b);
    EXPECT_EQ(kin_broadcast_send(b, &item, KIN_NEVER), KIN_CLOSED);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(kin_broadcast_recv(s, &item, NULL, KIN_NEVER), 0);
        EXPECT_EQ(item, i);
    }
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(kin_broadcast_recv(s, &item, NULL, i ? KIN_NEVER : 0), KIN_CLOSED);
        EXPECT_EQ(kin_broadcast_recv(read, &item, NULL, i ? KIN_NEVER : 0), KIN_CLOSED);
    }
    kin_broadcast_unref(b);
    EXPECT_EQ(kin_broadcast_recv(s, &item, NULL, KIN_NEVER), KIN_CLOSED);
    kin_subscriber_unref(s);
    kin_subscriber_unref(read);
    return 0;
}

KIN_TEST(what_is_unread_is_read_after_the_close_then_closed, "G005 G006")
{
    run_on_few(close_early, NULL);
}

/* ---- cancellation ---- */

static int recv_for_ever(void *arg)
{
    int item;
    return kin_broadcast_recv(arg, &item, NULL, KIN_NEVER);
}

static int wait_for_ever(void *arg)
{
    uint64_t version = 1;
    return kin_watch_wait(arg, NULL, &version, KIN_NEVER);
}

static int cancel_readers(void *arg)
{
    struct kin_broadcast *b;
    struct kin_subscriber *s;
    struct kin_watch *watch;
    int item = 3;
    (void)arg;
    EXPECT_EQ(kin_broadcast_create(&b, sizeof item, 4, KIN_BROADCAST_WAIT), 0);
    EXPECT_EQ(kin_broadcast_subscribe(b, &s), 0);
    EXPECT_EQ(kin_watch_create(&watch, sizeof item, &item), 0);
    {
        KIN_NURSERY(n);
        for (int i = 0; i < 5; i++) {
            EXPECT_EQ(kin_spawn(&n, recv_for_ever, s), 0);
            EXPECT_EQ(kin_spawn(&n, wait_for_ever, watch), 0);
        }
        kin_ignore(kin_yield());
        kin_nursery_cancel(&n, 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    }
    EXPECT_EQ(kin_broadcast_send(b, &item, 0), 0);
    EXPECT_EQ(kin_broadcast_recv(s, &item, NULL, 0), 0); /* nobody who left has eaten it */
    kin_subscriber_unref(s);
    kin_broadcast_unref(b);
    kin_watch_unref(watch);
    return 0;
}

KIN_TEST(a_cancelled_reader_leaves_and_eats_nothing, "T066")
{
    run_on_few(cancel_readers, NULL);
}

/* ---- capabilities and budgets ---- */

struct things {
    struct kin_broadcast *b;
    struct kin_subscriber *s;
    struct kin_watch *watch;
};

static int use_without_right(void *arg)
{
    struct things *things = arg, made = {0};
    uint64_t version = 0;
    int item = 1;
    EXPECT_EQ(kin_broadcast_create(&made.b, sizeof item, 1, KIN_BROADCAST_LAG), KIN_NOCAP);
    EXPECT_EQ(kin_broadcast_subscribe(things->b, &made.s), KIN_NOCAP);
    EXPECT_EQ(kin_watch_create(&made.watch, sizeof item, &item), KIN_NOCAP);
    EXPECT_PTR(made.b, NULL);
    EXPECT_PTR(made.s, NULL);
    EXPECT_PTR(made.watch, NULL);
    EXPECT_EQ(kin_broadcast_send(things->b, &item, 0), KIN_NOCAP);
    EXPECT_EQ(kin_broadcast_recv(things->s, &item, NULL, 0), KIN_NOCAP);
    EXPECT_EQ(kin_watch_set(things->watch, &item), KIN_NOCAP);
    EXPECT_EQ(kin_watch_get(things->watch, &item, &version), KIN_NOCAP);
    EXPECT_EQ(kin_watch_wait(things->watch, &item, &version, 0), KIN_NOCAP);
    return 0;
}

static int use_two_operations(void *arg)
{
    struct things *things = arg;
    int item = 1;
    EXPECT_EQ(kin_broadcast_send(things->b, &item, 0), 0);
    EXPECT_EQ(kin_watch_set(things->watch, &item), 0);
    EXPECT_EQ(kin_broadcast_send(things->b, &item, 0), KIN_BUDGET);
    EXPECT_EQ(kin_broadcast_recv(things->s, &item, NULL, 0), KIN_BUDGET);
    return 0;
}

static int confine(void *arg)
{
    struct things things;
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    int item = 0;
    (void)arg;
    EXPECT_EQ(kin_broadcast_create(&things.b, sizeof item, 4, KIN_BROADCAST_LAG), 0);
    EXPECT_EQ(kin_broadcast_subscribe(things.b, &things.s), 0);
    EXPECT_EQ(kin_watch_create(&things.watch, sizeof item, &item), 0);
    KIN_NURSERY(n, .recharge = KIN_RECHARGE_MANUAL);
    options.caps = KIN_CAP_ALL & ~KIN_CAP_CHANNEL;
    EXPECT_EQ(kin_spawn_with(&n, &options, use_without_right, &things, 0, NULL), 0);
    options.caps = 0;
    options.budget.ops = 100;
    options.budget.channel_ops = 2;
    EXPECT_EQ(kin_spawn_with(&n, &options, use_two_operations, &things, 0, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_subscriber_unref(things.s);
    kin_broadcast_unref(things.b);
    kin_watch_unref(things.watch);
    return 0;
}

KIN_TEST(streams_need_the_capability_and_cost_channel_operations, "")
{
    run_on_few(confine, NULL);
}
