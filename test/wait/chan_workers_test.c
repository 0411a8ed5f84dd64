/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the conformance cases ask of waiters of a channel (order of arrival, who is woken by a
 *       close, an abort, a cancel, the last reference; one case of a select only; an even choice)
 *       holds with several workers as it does with one.
 * Method: with one worker a test knows that others wait because nobody else runs. Here it looks
 *         into the queues of the channel, under its lock, before it goes on. On 1, 2 and 4 workers.
 */
#include "api/in_runtime.h"

#include "wait/chan.h"

#include <kin/chan.h>
#include <kin/select.h>

static struct kin_chan *make(size_t capacity)
{
    struct kin_chan *chan = NULL;
    EXPECT_EQ(kin_chan_create(&chan, sizeof(int), capacity), 0);
    return chan;
}

static unsigned count_queue(const struct kin__waitq *queue)
{
    unsigned count = 0;
    if (!kin__waitq_is_empty(queue)) {
        for (const struct kin__list *l = queue->list.next; l != &queue->list; l = l->next)
            count++;
    }
    return count;
}

/* Lets others run until so many senders and receivers are in line. */
static void await_waiting(struct kin_chan *chan, unsigned senders, unsigned receivers)
{
    for (;;) { /* ends: by the alarm of the test at the latest */
        kin__lock_take(&chan->lock, KIN__RANK_WAIT);
        bool is_so = count_queue(&chan->senders) == senders &&
                     count_queue(&chan->receivers) == receivers;
        kin__lock_give(&chan->lock, KIN__RANK_WAIT);
        if (is_so)
            return;
        kin_ignore(kin_yield());
    }
}

/* One operation in a task of its own. */
struct op {
    struct kin_chan *chan;
    int value;
    _Atomic int is_over;
    int rc;
};

static int send_one(void *arg)
{
    struct op *op = arg;
    op->rc = kin_chan_send(op->chan, &op->value, KIN_NEVER);
    atomic_store(&op->is_over, 1);
    return op->rc == KIN_CANCELLED ? KIN_CANCELLED : 0;
}

static int recv_one(void *arg)
{
    struct op *op = arg;
    op->rc = kin_chan_recv(op->chan, &op->value, KIN_NEVER);
    atomic_store(&op->is_over, 1);
    return op->rc == KIN_CANCELLED ? KIN_CANCELLED : 0;
}

enum { WAITERS = 12 };

/* Puts WAITERS of one direction in line, in the order of their numbers. */
static void line_up(struct kin_nursery *n, struct kin_chan *chan, struct op *ops, bool sends)
{
    for (unsigned i = 0; i < WAITERS; i++) {
        ops[i] = (struct op){chan, sends ? (int)i : -1, 0, 1};
        EXPECT_EQ(kin_spawn(n, sends ? send_one : recv_one, &ops[i]), 0);
        await_waiting(chan, sends ? i + 1 : 0, sends ? 0 : i + 1);
    }
}

/* G003 G026 T060: a send to a full channel waits; waiters are served as they came. */
static int serve_in_order(void *arg)
{
    (void)arg;
    for (int round = 0; round < 4; round++) {
        bool sends = round % 2;
        size_t capacity = sends && round > 1 ? 3 : 0;
        struct kin_chan *chan = make(capacity);
        struct op ops[WAITERS];
        int item = 100;
        for (size_t i = 0; i < capacity; i++)
            EXPECT_EQ(kin_chan_send(chan, &item, 0), 0);
        KIN_NURSERY(n);
        line_up(&n, chan, ops, sends);
        for (int i = 0; i < WAITERS; i++)
            EXPECT_EQ(atomic_load(&ops[i].is_over), 0);
        for (size_t i = 0; i < capacity; i++) { /* each lets the oldest sender in */
            EXPECT_EQ(kin_chan_recv(chan, &item, 0), 0);
            EXPECT_EQ(item, 100);
            EXPECT_EQ(kin_chan_len(chan), capacity);
        }
        for (int i = 0; i < WAITERS; i++) {
            if (sends)
                EXPECT_EQ(kin_chan_recv(chan, &item, 0), 0);
            else
                EXPECT_EQ(kin_chan_send(chan, &i, 0), 0);
            if (sends)
                EXPECT_EQ(item, i);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        for (int i = 0; i < WAITERS; i++) {
            EXPECT_EQ(ops[i].rc, 0);
            EXPECT_EQ(ops[i].value, i); /* the i-th in line got the i-th item */
        }
        kin_chan_unref(chan);
    }
    return 0;
}

KIN_TEST(waiters_are_served_as_they_came_on_any_number_of_workers, "G003 G026 T060 CH:5.5 A9")
{
    run_on_few(serve_in_order, NULL);
}

/* G007 T069 T070 N003 N004: close wakes receivers and lets admitted senders stay; abort and the
 * last reference wake all. */
static int end_with_waiters(void *arg)
{
    static void (*const ends[])(struct kin_chan *) = {kin_chan_close, kin_chan_abort,
                                                      kin_chan_unref};
    (void)arg;
    for (int way = 0; way < 3; way++) {
        for (int sends = 0; sends < 2; sends++) {
            struct kin_chan *chan = make(0);
            struct op ops[WAITERS];
            bool stays = way == 0 && sends;
            int item = -1;
            KIN_NURSERY(n);
            line_up(&n, chan, ops, sends);
            ends[way](chan);
            for (int i = 0; stays && i < WAITERS; i++) {
                EXPECT_EQ(atomic_load(&ops[i].is_over), 0);
                EXPECT_EQ(kin_chan_send(chan, &item, KIN_NEVER), KIN_CLOSED); /* too late */
                EXPECT_EQ(kin_chan_recv(chan, &item, 0), 0);
                EXPECT_EQ(item, i);
            }
            EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
            for (int i = 0; i < WAITERS; i++) {
                EXPECT_EQ(ops[i].rc, stays ? 0 : KIN_CLOSED);
                EXPECT_EQ(ops[i].value, sends ? i : -1);
            }
            if (way != 2) {
                EXPECT_EQ(kin_chan_recv(chan, &item, KIN_NEVER), KIN_CLOSED);
                kin_chan_unref(chan);
            }
        }
    }
    return 0;
}

KIN_TEST(every_end_of_a_channel_reaches_its_waiters_on_any_number_of_workers,
         "G007 T069 T070 N003 N004 A6 CH:5.3 CH:5.4")
{
    run_on_few(end_with_waiters, NULL);
}

/* T066 N008: cancelled waiters take and give nothing, and those behind them are served. */
static int cancel_every_other(void *arg)
{
    (void)arg;
    for (int sends = 0; sends < 2; sends++) {
        struct kin_chan *chan = make(0);
        struct op ops[WAITERS];
        struct kin_task_ref refs[WAITERS];
        int item = 50;
        KIN_NURSERY(n);
        for (unsigned i = 0; i < WAITERS; i++) {
            ops[i] = (struct op){chan, sends ? (int)i : -1, 0, 1};
            EXPECT_EQ(kin_spawn_with(&n, NULL, sends ? send_one : recv_one, &ops[i], 0, &refs[i]),
                      0);
            await_waiting(chan, sends ? i + 1 : 0, sends ? 0 : i + 1);
        }
        for (int i = 0; i < WAITERS; i += 2)
            EXPECT_EQ(kin_task_cancel(refs[i]), 0);
        for (int i = 1; i < WAITERS; i += 2) { /* those who leave may still be in line */
            if (sends) {
                EXPECT_EQ(kin_chan_recv(chan, &item, 0), 0);
                EXPECT_EQ(item, i);
            } else {
                EXPECT_EQ(kin_chan_send(chan, &i, 0), 0);
            }
        }
        EXPECT_EQ(kin_chan_recv(chan, &item, 0), KIN_EMPTY);
        EXPECT_EQ(kin_chan_send(chan, &item, 0), KIN_FULL);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        for (int i = 0; i < WAITERS; i++) {
            EXPECT_EQ(ops[i].rc, i % 2 ? 0 : KIN_CANCELLED);
            EXPECT_EQ(ops[i].value, i % 2 || sends ? i : -1);
        }
        kin_chan_unref(chan);
    }
    return 0;
}

KIN_TEST(cancelled_waiters_take_nothing_on_any_number_of_workers, "T066 N008 A7 A8")
{
    run_on_few(cancel_every_other, NULL);
}

/* ---- selects ---- */

struct selecting {
    struct kin_case cases[4];
    int index;
};

static int select_once(void *arg)
{
    struct selecting *s = arg;
    for (int i = 0; i < 4; i++)
        s->cases[i].status = 77;
    s->index = kin_select(s->cases, 4, KIN_NEVER);
    return 0;
}

/* G052 D028 D030 D031 N002: a select that waits is met in one case, and in no other. */
static int meet_each(void *arg)
{
    (void)arg;
    for (int round = 0; round < 20; round++) {
        int winner = round % 4, in[4] = {-1, -1, -1, -1}, out = 70 + round, got = -1;
        struct kin_chan *chan[4];
        struct selecting s = {.index = -1};
        for (int i = 0; i < 4; i++) {
            chan[i] = make(0);
            s.cases[i] = i % 2 ? kin_case_send(chan[i], &out) : kin_case_recv(chan[i], &in[i]);
        }
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, select_once, &s), 0);
        for (int i = 0; i < 4; i++)
            await_waiting(chan[i], i % 2 != 0, i % 2 == 0);
        if (winner % 2)
            EXPECT_EQ(kin_chan_recv(chan[winner], &got, 0), 0);
        else
            EXPECT_EQ(kin_chan_send(chan[winner], &out, 0), 0);
        for (int i = 0; i < 4; i++) {
            int item = 1;
            EXPECT_EQ(i % 2 ? kin_chan_recv(chan[i], &item, 0) : kin_chan_send(chan[i], &item, 0),
                      i % 2 ? KIN_EMPTY : KIN_FULL);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(s.index, winner);
        for (int i = 0; i < 4; i++) {
            EXPECT_EQ(s.cases[i].status, i == winner ? 0 : 77);
            EXPECT_EQ(in[i], i == winner && i % 2 == 0 ? out : -1);
            kin_chan_unref(chan[i]);
        }
        EXPECT_EQ(got, winner % 2 ? out : -1);
    }
    return 0;
}

KIN_TEST(a_select_that_waits_is_met_once_on_any_number_of_workers,
         "G052 D028 D030 D031 N002 A10 W:4.3")
{
    run_on_few(meet_each, NULL);
}

/* D037: large objects through selects, one that waits and one that need not. */
enum { LARGE = 65536 };

static unsigned char large_in[LARGE], large_out[LARGE];

static int send_large(void *arg)
{
    for (int round = 1; round <= 10; round++) {
        memset(large_out, round, sizeof large_out);
        struct kin_case cases[] = {kin_case_send(arg, large_out), kin_case_recv(NULL, NULL)};
        EXPECT_EQ(kin_select(cases, 2, KIN_NEVER), 0);
        EXPECT_EQ(cases[0].status, 0);
    }
    return 0;
}

static int pass_large(void *arg)
{
    (void)arg;
    for (size_t capacity = 0; capacity < 3; capacity++) {
        struct kin_chan *chan = NULL;
        EXPECT_EQ(kin_chan_create(&chan, LARGE, capacity), 0);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, send_large, chan), 0);
        for (int round = 1; round <= 10; round++) {
            struct kin_case cases[] = {kin_case_recv(NULL, NULL), kin_case_recv(chan, large_in)};
            EXPECT_EQ(kin_select(cases, 2, KIN_NEVER), 1);
            EXPECT_EQ(cases[1].status, 0);
            for (size_t i = 0; i < LARGE; i++)
                EXPECT_EQ(large_in[i], round);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        kin_chan_unref(chan);
    }
    return 0;
}

KIN_TEST(large_items_pass_through_selects, "D037 G028")
{
    run_on_few(pass_large, NULL);
}

/* G017 G019: the choice is even whatever the worker. */
static int choose_often(void *arg)
{
    int *hits = arg;
    struct kin_chan *closed = make(1);
    kin_chan_close(closed);
    for (int i = 0; i < 4000; i++) {
        struct kin_case cases[] = {kin_case_recv(closed, NULL), kin_case_recv(NULL, NULL),
                                   kin_case_recv(closed, NULL), kin_case_recv(closed, NULL)};
        int index = kin_select(cases, 4, KIN_NEVER);
        EXPECT_GE(index, 0);
        hits[index]++;
        if (i % 64 == 0)
            EXPECT_EQ(kin_yield(), 0); /* and elsewhere, maybe */
    }
    kin_chan_unref(closed);
    return 0;
}

static int choose_on_all(void *arg)
{
    int hits[4][4] = {{0}};
    (void)arg;
    KIN_NURSERY(n);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(kin_spawn(&n, choose_often, hits[i]), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(hits[i][1], 0);
        for (int k = 0; k < 4; k++) {
            int64_t off = hits[i][k] - (k == 1 ? 0 : 4000 / 3);
            EXPECT_LE(off * off, 100 * (int64_t)4000 * 2 / 9 + 10000); /* 10 sigma and more */
        }
    }
    return 0;
}

KIN_TEST(the_choice_is_even_on_any_number_of_workers, "G017 G019")
{
#ifdef KIN_DEBUG
    const char *hard = getenv("KIN_HARD");
    if (hard && strstr(hard, "park"))
        return; /* every case is published in turn there, so that the first that is ready wins */
#endif
    run_on_few(choose_on_all, NULL);
}
