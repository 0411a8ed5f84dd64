/* SPDX-License-Identifier: MIT */
/*
 * Goal: channels behave as the header says: order, hand-off, close, abort, references, statuses.
 * Method: small programs through the public headers on 1, 2 and 4 workers, every answer compared.
 * Where a test needs somebody to wait already, it has one worker: whoever runs there goes on until
 * it parks.
 */
#include "api/in_runtime.h"

#include <kin/chan.h>

static const size_t capacities[] = {0, 1, 2, 3, 10, 64, 100};
enum { CAPACITIES = sizeof capacities / sizeof capacities[0] };

static struct kin_chan *make(size_t item_size, size_t capacity)
{
    struct kin_chan *chan = NULL;
    EXPECT_EQ(kin_chan_create(&chan, item_size, capacity), 0);
    return chan;
}

static _Atomic int spawned, begun;

/* On one worker: everybody who can run does so until it waits. */
static void settle(void)
{
    await(&begun, atomic_load(&spawned));
    for (int i = 0; i < 8; i++)
        EXPECT_EQ(kin_yield(), 0);
}

static int put(struct kin_chan *chan, int value, kin_time deadline)
{
    return kin_chan_send(chan, &value, deadline);
}

/* The value, or the status of a failed receive. */
static int take(struct kin_chan *chan, kin_time deadline)
{
    int value = -1;
    int rc = kin_chan_recv(chan, &value, deadline);
    if (rc < 0)
        EXPECT_EQ(value, -1);
    return rc < 0 ? rc : value;
}

/* One operation in a task of its own. */
struct op {
    struct kin_chan *chan;
    int value;        /* what is sent, or was received */
    kin_time deadline;
    _Atomic int is_over;
    int rc;
    struct kin_task_ref self;
    int *log, *logged; /* where it notes its value when it is over; may be NULL */
};

static int end_op(struct op *op, int rc)
{
    op->rc = rc;
    if (op->log)
        op->log[(*op->logged)++] = op->value;
    atomic_store(&op->is_over, 1);
    return 0;
}

static int send_one(void *arg)
{
    struct op *op = arg;
    op->self = kin_self();
    atomic_fetch_add(&begun, 1);
    return end_op(op, put(op->chan, op->value, op->deadline));
}

static int recv_one(void *arg)
{
    struct op *op = arg;
    op->self = kin_self();
    atomic_fetch_add(&begun, 1);
    return end_op(op, kin_chan_recv(op->chan, &op->value, op->deadline));
}

static void spawn_op(struct kin_nursery *n, kin_task_fn *fn, struct op *op)
{
    atomic_fetch_add(&spawned, 1);
    EXPECT_EQ(kin_spawn(n, fn, op), 0);
}

/* ---- making one ---- */

KIN_TEST(nonsensical_sizes_are_refused, "G062 002:0")
{
    struct kin_chan *chan = (struct kin_chan *)(void *)&chan, *same = chan;
    static const size_t huge[] = {SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX / 2, SIZE_MAX / 8,
                                  SIZE_MAX / 16 + 1, SIZE_MAX - 1};

    EXPECT_EQ(kin_chan_create(NULL, 8, 1), -EINVAL);
    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
        EXPECT_EQ(kin_chan_create(&chan, 8, huge[i]), -EOVERFLOW);
        EXPECT_EQ(kin_chan_create(&chan, huge[i], 1), -EOVERFLOW);
        EXPECT_EQ(kin_chan_create(&chan, huge[i], 0), -EOVERFLOW);
        EXPECT_EQ(kin_chan_create(&chan, huge[i], huge[i]), -EOVERFLOW);
    }
    EXPECT_EQ(kin_chan_create(&chan, (size_t)-1, (size_t)-5), -EOVERFLOW);
    EXPECT_EQ(kin_chan_create(&chan, KIN_CHAN_ITEM_MAX + 1, 0), -EOVERFLOW);
    EXPECT_EQ(kin_chan_create(&chan, 0, SIZE_MAX), -EOVERFLOW);
    EXPECT_PTR(chan, same);
}

KIN_TEST(a_capacity_beyond_memory_is_answered, "G062 T074")
{
    struct kin_chan *chan = NULL;
    int rc = kin_chan_create(&chan, 65536, (size_t)1 << 40);
    EXPECT_EQ(rc, -ENOMEM);
    EXPECT_PTR(chan, NULL);
    /* signals need no memory, however many */
    EXPECT_EQ(kin_chan_create(&chan, 0, (size_t)1 << 60), 0);
    EXPECT_EQ(kin_chan_cap(chan), (size_t)1 << 60);
    for (int i = 0; i < 1000; i++)
        EXPECT_EQ(kin_chan_send(chan, NULL, 0), 0);
    EXPECT_EQ(kin_chan_len(chan), 1000);
    kin_chan_unref(chan);
}

KIN_TEST(null_is_answered, "")
{
    int x = 3;
    EXPECT_EQ(kin_chan_send(NULL, &x, 0), -EINVAL);
    EXPECT_EQ(kin_chan_send(NULL, &x, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_chan_recv(NULL, &x, KIN_NEVER), -EINVAL);
    EXPECT_EQ(x, 3);
    kin_chan_close(NULL);
    kin_chan_abort(NULL);
    kin_chan_unref(NULL);
    EXPECT_PTR(kin_chan_ref(NULL), NULL);
    EXPECT_EQ(kin_chan_len(NULL), 0);
    EXPECT_EQ(kin_chan_cap(NULL), 0);
    EXPECT(kin_chan_is_closed(NULL));
    struct kin_chan *chan = make(4, 1);
    EXPECT_EQ(kin_chan_send(chan, NULL, 0), -EINVAL);
    EXPECT_EQ(kin_chan_len(chan), 0);
    kin_chan_unref(chan);
}

/* ---- without waiting ---- */

KIN_TEST(a_receive_from_an_empty_channel_that_may_not_wait, "G002 T065 N010")
{
    for (int i = 0; i < CAPACITIES; i++) {
        struct kin_chan *chan = make(sizeof(int), capacities[i]);
        EXPECT_EQ(take(chan, 0), KIN_EMPTY);
        EXPECT_EQ(kin_chan_recv(chan, NULL, 0), KIN_EMPTY);
        EXPECT_EQ(take(chan, 1), KIN_TIMEOUT); /* a moment in the past */
        EXPECT_EQ(take(chan, -1), KIN_TIMEOUT);
        kin_chan_unref(chan);
    }
}

KIN_TEST(a_send_to_a_full_channel_that_may_not_wait, "G004 T065 G011 T073")
{
    for (int i = 0; i < CAPACITIES; i++) {
        struct kin_chan *chan = make(sizeof(int), capacities[i]);
        EXPECT_EQ(kin_chan_cap(chan), capacities[i]);
        for (size_t k = 0; k < capacities[i]; k++) {
            EXPECT_EQ(kin_chan_len(chan), k);
            EXPECT_EQ(put(chan, (int)k, 1), 0); /* completes at once whatever the deadline */
        }
        EXPECT_EQ(put(chan, -7, 0), KIN_FULL);
        EXPECT_EQ(put(chan, -7, 1), KIN_TIMEOUT);
        EXPECT_EQ(kin_chan_len(chan), capacities[i]);
        for (size_t k = 0; k < capacities[i]; k++)
            EXPECT_EQ(take(chan, 1), (int)k);
        EXPECT_EQ(kin_chan_len(chan), 0);
        kin_chan_unref(chan);
    }
}

/* The ring goes round many times, filled to every height. */
KIN_TEST(a_ring_keeps_the_order_all_the_way_round, "G025 CH:5.5")
{
    for (int i = 1; i < CAPACITIES; i++) {
        struct kin_chan *chan = make(sizeof(int), capacities[i]);
        int in = 0, out = 0;
        for (size_t round = 0; round < 1000; round++) {
            size_t height = round % capacities[i] + 1;
            for (size_t k = 0; k < height; k++)
                EXPECT_EQ(put(chan, in++, 0), 0);
            while (kin_chan_len(chan))
                EXPECT_EQ(take(chan, 0), out++);
        }
        EXPECT_EQ(in, out);
        kin_chan_unref(chan);
    }
}

static int pass_every_size(void *arg)
{
    static const size_t sizes[] = {0, 1, 2, 3, 4, 5, 8, 12, 16, 24, 100, 4096, 65536};
    static unsigned char in[65536], out[65536 + 1];
    size_t capacity = *(size_t *)arg;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct kin_chan *chan = make(sizes[i], capacity);
        for (int round = 0; round < 5; round++) {
            for (size_t k = 0; k < sizes[i]; k++)
                in[k] = (unsigned char)(k * 7 + i + (size_t)round);
            memset(out, 0xee, sizeof out);
            EXPECT_EQ(kin_chan_recv(chan, out, 0), KIN_EMPTY);
            EXPECT_EQ(kin_chan_send(chan, in, 0), 0);
            EXPECT_EQ(kin_chan_send(chan, in, 0), capacity > 1 ? 0 : KIN_FULL);
            EXPECT_EQ(out[0], 0xee);
            EXPECT_EQ(kin_chan_recv(chan, out, 0), 0);
            EXPECT_EQ(memcmp(in, out, sizes[i]), 0);
            EXPECT_EQ(out[sizes[i]], 0xee);
            EXPECT_EQ(kin_chan_recv(chan, NULL, 0), capacity > 1 ? 0 : KIN_EMPTY);
        }
        kin_chan_unref(chan);
    }
    return 0;
}

KIN_TEST(items_of_every_size_arrive_whole, "G028 G059")
{
    size_t one = 1, two = 2;
    run_on_few(pass_every_size, &one);
    run_on_few(pass_every_size, &two);
}

struct big {
    struct kin_chan *chan;
    size_t size;
};

static int send_big(void *arg)
{
    const struct big *big = arg;
    unsigned char *item = malloc(big->size + 1);
    for (int round = 0; round < 20; round++) {
        memset(item, round + 1, big->size + 1);
        EXPECT_EQ(kin_chan_send(big->chan, item, KIN_NEVER), 0);
    }
    free(item);
    return 0;
}

/* The same hand to hand: a partner waits already, in either direction. */
static int hand_every_size(void *arg)
{
    static const size_t sizes[] = {0, 1, 4, 7, 8, 16, 17, 1000, 65536};
    (void)arg;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct big big = {make(sizes[i], i % 3), sizes[i]};
        unsigned char *item = malloc(sizes[i] + 1);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, send_big, &big), 0);
        for (int round = 0; round < 20; round++) {
            memset(item, 0xee, sizes[i] + 1);
            EXPECT_EQ(kin_chan_recv(big.chan, item, KIN_NEVER), 0);
            for (size_t k = 0; k < sizes[i]; k++)
                EXPECT_EQ(item[k], round + 1);
            EXPECT_EQ(item[sizes[i]], 0xee);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        free(item);
        kin_chan_unref(big.chan);
    }
    return 0;
}

KIN_TEST(items_of_every_size_are_handed_over_whole, "G028 G055 D037")
{
    run_on_few(hand_every_size, NULL);
}

/* ---- order ---- */

static int send_hundred(void *arg)
{
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(put(arg, i, KIN_NEVER), 0);
    return 0;
}

static int receive_hundred(void *arg)
{
    (void)arg;
    for (int i = 0; i < CAPACITIES; i++) {
        struct kin_chan *chan = make(sizeof(int), capacities[i]);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, send_hundred, chan), 0);
        for (int k = 0; k < 100; k++)
            EXPECT_EQ(take(chan, KIN_NEVER), k);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(take(chan, 0), KIN_EMPTY);
        kin_chan_unref(chan);
    }
    return 0;
}

KIN_TEST(one_sender_and_one_receiver_keep_the_order, "G008 G009 G025")
{
    run_on_few(receive_hundred, NULL);
}

enum { SENDERS = 4, EACH = 1000 };

struct tally {
    struct kin_chan *chan;
    _Atomic int seen[EACH];
};

static int send_each(void *arg)
{
    struct tally *tally = arg;
    for (int i = 0; i < EACH; i++)
        EXPECT_EQ(put(tally->chan, i, KIN_NEVER), 0);
    return 0;
}

static int tally_each(void *arg)
{
    struct tally *tally = arg;
    for (int i = 0; i < EACH; i++) {
        int value = take(tally->chan, KIN_NEVER);
        EXPECT_GE(value, 0);
        EXPECT_LT(value, EACH);
        atomic_fetch_add(&tally->seen[value], 1);
    }
    return 0;
}

static int tally_all(void *arg)
{
    (void)arg;
    for (int i = 0; i < CAPACITIES; i++) {
        static struct tally tally;
        memset(&tally, 0, sizeof tally);
        tally.chan = make(sizeof(int), capacities[i]);
        KIN_NURSERY(n);
        for (int k = 0; k < SENDERS; k++) {
            EXPECT_EQ(kin_spawn(&n, send_each, &tally), 0);
            EXPECT_EQ(kin_spawn(&n, tally_each, &tally), 0);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        for (int k = 0; k < EACH; k++)
            EXPECT_EQ(atomic_load(&tally.seen[k]), SENDERS);
        kin_chan_unref(tally.chan);
    }
    return 0;
}

KIN_TEST(many_senders_and_receivers_lose_and_double_nothing, "G010 N001")
{
    run_on_few(tally_all, NULL);
}

/* Waiters of one direction, parked one after the other, served one by one. */
static int serve_in_order(void *arg)
{
    enum { WAITERS = 10 };
    int log[WAITERS], logged = 0;
    struct op ops[WAITERS];
    struct kin_chan *chan = make(sizeof(int), 0);
    kin_task_fn *fn = arg ? send_one : recv_one;
    KIN_NURSERY(n);
    for (int i = 0; i < WAITERS; i++) {
        ops[i] = (struct op){.chan = chan, .value = i, .deadline = KIN_NEVER};
        ops[i].log = log;
        ops[i].logged = &logged;
        spawn_op(&n, fn, &ops[i]);
        settle();
    }
    EXPECT_EQ(logged, 0);
    for (int i = 0; i < WAITERS; i++) {
        if (arg)
            EXPECT_EQ(take(chan, 0), i);
        else
            EXPECT_EQ(put(chan, i, 0), 0);
        settle();
        EXPECT_EQ(logged, i + 1);
        EXPECT_EQ(log[i], i);
        EXPECT_EQ(ops[i].rc, 0);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(waiters_are_served_in_the_order_of_their_arrival, "G026 T060 CH:5.5")
{
    int yes = 1;
    EXPECT_EQ(run_reporting(1, serve_in_order, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(1, serve_in_order, &yes, NULL), 0);
}

/* A full channel with senders in line: whoever comes after a receive is behind them. */
static int stay_behind(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 2);
    struct op ops[3];
    (void)arg;
    EXPECT_EQ(put(chan, 0, 0), 0);
    EXPECT_EQ(put(chan, 1, 0), 0);
    KIN_NURSERY(n);
    for (int i = 0; i < 3; i++) {
        ops[i] = (struct op){.chan = chan, .value = 2 + i, .deadline = KIN_NEVER};
        spawn_op(&n, send_one, &ops[i]);
        settle();
    }
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(kin_chan_len(chan), 2);
        EXPECT_EQ(take(chan, 0), i);
        /* the oldest sender's item has taken the place at once, before it has run */
        EXPECT_EQ(kin_chan_len(chan), 2);
        EXPECT_EQ(put(chan, 99, 0), KIN_FULL);
        settle();
        EXPECT_EQ(atomic_load(&ops[i].is_over), 1);
        EXPECT_EQ(ops[i].rc, 0);
    }
    EXPECT_EQ(take(chan, 0), 3);
    EXPECT_EQ(kin_chan_len(chan), 1);
    EXPECT_EQ(take(chan, 0), 4);
    EXPECT_EQ(take(chan, 0), KIN_EMPTY);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(nobody_overtakes_a_sender_that_waits, "A9")
{
    EXPECT_EQ(run_reporting(1, stay_behind, NULL, NULL), 0);
}

/* ---- waiting ---- */

static int wait_when_full(void *arg)
{
    (void)arg;
    for (int i = 0; i < CAPACITIES; i++) {
        struct kin_chan *chan = make(sizeof(int), capacities[i]);
        struct op op = {.chan = chan, .value = 1000, .deadline = KIN_NEVER};
        for (size_t k = 0; k < capacities[i]; k++)
            EXPECT_EQ(put(chan, (int)k, KIN_NEVER), 0);
        KIN_NURSERY(n);
        spawn_op(&n, send_one, &op);
        settle();
        EXPECT_EQ(atomic_load(&op.is_over), 0);
        EXPECT_EQ(kin_chan_len(chan), capacities[i]);
        for (size_t k = 0; k < capacities[i]; k++)
            EXPECT_EQ(take(chan, 0), (int)k);
        EXPECT_EQ(take(chan, KIN_NEVER), 1000);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(op.rc, 0);
        kin_chan_unref(chan);
    }
    return 0;
}

KIN_TEST(a_send_to_a_full_channel_waits, "G003 CH:5.1")
{
    EXPECT_EQ(run_reporting(1, wait_when_full, NULL, NULL), 0);
}

static int wait_until(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 0);
    kin_time soon;
    (void)arg;
    for (int i = 0; i < 20; i++) {
        soon = kin_after(KIN_US(300));
        EXPECT_EQ(take(chan, soon), KIN_TIMEOUT);
        EXPECT_GE(kin_now(), soon);
        soon = kin_after(KIN_US(300));
        EXPECT_EQ(put(chan, i, soon), KIN_TIMEOUT);
        EXPECT_GE(kin_now(), soon);
    }
    EXPECT_EQ(take(chan, 0), KIN_EMPTY); /* who left has left nothing behind */
    EXPECT_EQ(put(chan, 0, 0), KIN_FULL);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_wait_ends_at_its_deadline_and_leaves_nothing_behind, "N007 D038 D039")
{
    run_on_few(wait_until, NULL);
}

static int meet_in_time(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), *(size_t *)arg);
    for (int i = 0; i < 200; i++) {
        struct op out = {.chan = chan, .value = i, .deadline = kin_after(KIN_SEC(100))};
        KIN_NURSERY(n);
        spawn_op(&n, send_one, &out);
        EXPECT_EQ(take(chan, kin_after(KIN_SEC(100))), i);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(out.rc, 0);
    }
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_partner_that_comes_in_time_is_met, "N007 D040")
{
    size_t capacity = 0;
    run_on_few(meet_in_time, &capacity);
    capacity = 1;
    run_on_few(meet_in_time, &capacity);
}

/* A cancelled waiter takes nothing and gives nothing. */
static int cancel_waiters(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 0);
    struct op in = {.chan = chan, .value = -1, .deadline = KIN_NEVER};
    struct op out = {.chan = chan, .value = 5, .deadline = KIN_NEVER};
    (void)arg;
    {
        KIN_NURSERY(n);
        spawn_op(&n, recv_one, &in);
        settle();
        kin_nursery_cancel(&n, 0);
        /* the receiver is on its way out: this item must not be its */
        EXPECT_EQ(put(chan, 7, 0), KIN_FULL);
        kin_ignore(kin_nursery_join(&n, NULL));
        EXPECT_EQ(in.rc, KIN_CANCELLED);
        EXPECT_EQ(in.value, -1);
    }
    {
        KIN_NURSERY(n);
        spawn_op(&n, send_one, &out);
        settle();
        kin_nursery_cancel(&n, 0);
        EXPECT_EQ(take(chan, 0), KIN_EMPTY);
        kin_ignore(kin_nursery_join(&n, NULL));
        EXPECT_EQ(out.rc, KIN_CANCELLED);
    }
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_cancelled_waiter_neither_takes_nor_gives, "T066 N008 A7")
{
    EXPECT_EQ(run_reporting(1, cancel_waiters, NULL, NULL), 0);
}

/* The match won: the operation succeeds, and the cancellation is seen at the next wait. */
static int match_then_cancel(void *arg)
{
    struct kin_chan *chan = arg;
    int value = -1;
    atomic_fetch_add(&begun, 1);
    EXPECT_EQ(kin_chan_recv(chan, &value, KIN_NEVER), 0);
    EXPECT_EQ(value, 11);
    EXPECT(kin_cancelled());
    EXPECT_EQ(kin_chan_recv(chan, &value, KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin_chan_send(chan, &value, kin_after(KIN_SEC(100))), KIN_CANCELLED);
    EXPECT_EQ(kin_chan_recv(chan, &value, KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(value, 11);
    return 0;
}

static int cancel_after_match(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 0);
    (void)arg;
    KIN_NURSERY(n);
    atomic_fetch_add(&spawned, 1);
    EXPECT_EQ(kin_spawn(&n, match_then_cancel, chan), 0);
    settle();
    EXPECT_EQ(put(chan, 11, 0), 0);
    kin_nursery_cancel(&n, 0);
    kin_ignore(kin_nursery_join(&n, NULL));
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(what_was_matched_before_a_cancel_counts, "A7 T012 D049")
{
    EXPECT_EQ(run_reporting(1, cancel_after_match, NULL, NULL), 0);
}

/* ---- close ---- */

static int drain_closed(void *arg)
{
    (void)arg;
    for (int i = 0; i < CAPACITIES; i++) {
        struct kin_chan *chan = make(sizeof(int), capacities[i]);
        EXPECT(!kin_chan_is_closed(chan));
        for (size_t k = 0; k < capacities[i]; k++)
            EXPECT_EQ(put(chan, (int)k, KIN_NEVER), 0);
        kin_chan_close(chan);
        EXPECT(kin_chan_is_closed(chan));
        EXPECT_EQ(put(chan, 1, KIN_NEVER), KIN_CLOSED);
        EXPECT_EQ(put(chan, 1, 0), KIN_CLOSED);
        kin_chan_close(chan); /* a second time changes nothing */
        EXPECT_EQ(kin_chan_len(chan), capacities[i]);
        for (size_t k = 0; k < capacities[i]; k++)
            EXPECT_EQ(take(chan, KIN_NEVER), (int)k);
        for (int k = 0; k < 5; k++) {
            EXPECT_EQ(take(chan, KIN_NEVER), KIN_CLOSED);
            EXPECT_EQ(take(chan, 0), KIN_CLOSED);
            EXPECT_EQ(take(chan, 1), KIN_CLOSED);
        }
        kin_chan_unref(chan);
    }
    return 0;
}

KIN_TEST(a_closed_channel_delivers_what_it_holds_and_then_says_so,
         "G005 G006 G040 N003 N004 CH:5.2")
{
    run_on_few(drain_closed, NULL);
}

static int wake_receivers(void *arg)
{
    (void)arg;
    for (int i = 0; i < CAPACITIES; i++) {
        enum { WAITERS = 10 };
        struct kin_chan *chan = make(sizeof(int), capacities[i]);
        struct op ops[WAITERS];
        KIN_NURSERY(n);
        for (int k = 0; k < WAITERS; k++) {
            ops[k] = (struct op){.chan = chan, .value = -5, .deadline = KIN_NEVER};
            if (k % 2)
                ops[k].deadline = kin_after(KIN_SEC(1000));
            spawn_op(&n, recv_one, &ops[k]);
        }
        kin_ignore(kin_yield());
        kin_chan_close(chan);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        for (int k = 0; k < WAITERS; k++) {
            EXPECT_EQ(ops[k].rc, KIN_CLOSED);
            EXPECT_EQ(ops[k].value, -5);
        }
        kin_chan_unref(chan);
    }
    return 0;
}

KIN_TEST(a_close_wakes_every_receiver, "G007 N004 N006 CH:5.3 CH:5.4")
{
    run_on_few(wake_receivers, NULL);
}

/* Senders that waited before the close were admitted. */
static int keep_the_admitted(void *arg)
{
    size_t capacity = *(size_t *)arg;
    struct kin_chan *chan = make(sizeof(int), capacity);
    struct op ops[3], late = {.chan = chan, .deadline = KIN_NEVER};
    for (size_t i = 0; i < capacity; i++)
        EXPECT_EQ(put(chan, (int)i, 0), 0);
    KIN_NURSERY(n);
    for (int i = 0; i < 3; i++) {
        ops[i] = (struct op){.chan = chan, .value = (int)capacity + i, .deadline = KIN_NEVER};
        spawn_op(&n, send_one, &ops[i]);
        settle();
    }
    kin_chan_close(chan);
    spawn_op(&n, send_one, &late);
    settle();
    EXPECT_EQ(late.rc, KIN_CLOSED);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(atomic_load(&ops[i].is_over), 0);
    for (int i = 0; i < (int)capacity + 3; i++)
        EXPECT_EQ(take(chan, 0), i);
    EXPECT_EQ(take(chan, 0), KIN_CLOSED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(ops[i].rc, 0);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(senders_that_waited_before_the_close_are_received_from, "CH:5.1 CH:5.3 A6 T069")
{
    for (size_t capacity = 0; capacity < 4; capacity++)
        EXPECT_EQ(run_reporting(1, keep_the_admitted, &capacity, NULL), 0);
}

/* One of them leaves before anybody has come: it did not send. */
static int leave_a_closed_one(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 0);
    struct op stays = {.chan = chan, .value = 1, .deadline = KIN_NEVER};
    struct op leaves = {.chan = chan, .value = 2, .deadline = KIN_NEVER};
    (void)arg;
    KIN_NURSERY(n);
    spawn_op(&n, send_one, &leaves);
    spawn_op(&n, send_one, &stays);
    settle();
    kin_chan_close(chan);
    EXPECT_EQ(kin_task_cancel(leaves.self), 0);
    EXPECT_EQ(take(chan, 0), 1);
    EXPECT_EQ(take(chan, KIN_NEVER), KIN_CLOSED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(leaves.rc, KIN_CANCELLED);
    EXPECT_EQ(stays.rc, 0);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_sender_may_leave_a_closed_channel, "A6 A7")
{
    EXPECT_EQ(run_reporting(1, leave_a_closed_one, NULL, NULL), 0);
}

/* ---- abort and references ---- */

static int expect_all_closed(struct kin_chan *chan, size_t capacity, void (*end)(struct kin_chan *))
{
    enum { WAITERS = 100 };
    static struct op ops[WAITERS];
    KIN_NURSERY(n);
    for (size_t i = 0; i < capacity; i++)
        EXPECT_EQ(put(chan, (int)i, 0), 0);
    for (int i = 0; i < WAITERS; i++) {
        ops[i] = (struct op){.chan = chan, .value = i, .deadline = KIN_NEVER};
        if (i % 3 == 0)
            ops[i].deadline = kin_after(KIN_SEC(1000));
        spawn_op(&n, capacity ? send_one : recv_one, &ops[i]);
    }
    settle();
    end(chan);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < WAITERS; i++) {
        EXPECT_EQ(ops[i].rc, KIN_CLOSED);
        EXPECT_EQ(ops[i].value, i);
    }
    return 0;
}

static int abort_with_waiters(void *arg)
{
    (void)arg;
    for (size_t capacity = 0; capacity < 3; capacity++) {
        struct kin_chan *chan = make(sizeof(int), capacity);
        expect_all_closed(chan, capacity, kin_chan_abort);
        EXPECT(kin_chan_is_closed(chan));
        EXPECT_EQ(kin_chan_len(chan), 0);
        EXPECT_EQ(take(chan, KIN_NEVER), KIN_CLOSED);
        EXPECT_EQ(put(chan, 0, KIN_NEVER), KIN_CLOSED);
        kin_chan_abort(chan);
        kin_chan_close(chan);
        kin_chan_unref(chan);
    }
    return 0;
}

KIN_TEST(an_abort_drops_everything_and_wakes_everybody, "A6")
{
    EXPECT_EQ(run_reporting(1, abort_with_waiters, NULL, NULL), 0);
}

static int abort_after_close(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 1);
    struct op op = {.chan = chan, .value = 2, .deadline = KIN_NEVER};
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(put(chan, 1, 0), 0);
    spawn_op(&n, send_one, &op);
    settle();
    kin_chan_close(chan);
    kin_chan_abort(chan);
    EXPECT_EQ(take(chan, 0), KIN_CLOSED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(op.rc, KIN_CLOSED);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(an_abort_ends_what_a_close_let_live, "A6")
{
    EXPECT_EQ(run_reporting(1, abort_after_close, NULL, NULL), 0);
}

static int unref_with_waiters(void *arg)
{
    (void)arg;
    for (size_t capacity = 0; capacity < 3; capacity++)
        expect_all_closed(make(sizeof(int), capacity), capacity, kin_chan_unref);
    return 0;
}

KIN_TEST(the_last_reference_wakes_everybody, "A6 T070")
{
    EXPECT_EQ(run_reporting(1, unref_with_waiters, NULL, NULL), 0);
}

static int count_references(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 1);
    (void)arg;
    EXPECT_PTR(kin_chan_ref(chan), chan);
    EXPECT_PTR(kin_chan_ref(chan), chan);
    kin_chan_unref(chan);
    EXPECT_EQ(put(chan, 4, 0), 0);
    kin_chan_unref(chan);
    EXPECT(!kin_chan_is_closed(chan));
    EXPECT_EQ(take(chan, 0), 4);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_channel_lives_until_the_last_of_its_references, "T070 T071 T072 002:0")
{
    run_on_few(count_references, NULL);
    EXPECT_EQ(count_references(NULL), 0);
}

/* Made by a task that is over by the time it is used, in a nursery that is over, too. */
static int make_for_others(void *arg)
{
    *(struct kin_chan **)arg = make(sizeof(int), 3);
    return put(*(struct kin_chan **)arg, 42, 0);
}

static int use_what_was_made(void *arg)
{
    struct kin_chan *chan = NULL;
    (void)arg;
    {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, make_for_others, &chan), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    EXPECT_EQ(take(chan, 0), 42);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_channel_outlives_the_nursery_it_was_made_in, "002:0")
{
    run_on_few(use_what_was_made, NULL);
}

/* ---- what a task may do ---- */

static int have_no_channels(void *arg)
{
    struct kin_chan *chan = NULL, *given = arg;
    int value = 1;
    EXPECT_EQ(kin_chan_create(&chan, 4, 1), KIN_NOCAP);
    EXPECT_PTR(chan, NULL);
    EXPECT_EQ(kin_chan_send(given, &value, 0), KIN_NOCAP);
    EXPECT_EQ(kin_chan_send(given, &value, KIN_NEVER), KIN_NOCAP);
    EXPECT_EQ(kin_chan_recv(given, &value, KIN_NEVER), KIN_NOCAP);
    EXPECT_EQ(kin_chan_len(given), 1);
    kin_chan_close(given);
    return 0;
}

static int give_no_channels(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 2);
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    (void)arg;
    options.caps = KIN_CAP_ALL & ~KIN_CAP_CHANNEL;
    EXPECT_EQ(put(chan, 9, 0), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, &options, have_no_channels, chan, 0, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(take(chan, 0), 9);
    EXPECT_EQ(take(chan, 0), KIN_CLOSED);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(channels_need_their_capability, "SCHED:1.1.2")
{
    run_on_few(give_no_channels, NULL);
}
