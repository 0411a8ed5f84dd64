/* SPDX-License-Identifier: MIT */
/*
 * Goal: programs made of channels and selects do what they do with channels of other runtimes.
 * Method: rows of items between threads, tasks and selects; prime sieves, long chains, consumers in
 * a crowd, power series as demand-driven streams of rationals; on 1, 2 and 4 workers, every item
 * compared.
 */
#include "api/in_runtime.h"

#include <kin/chan.h>
#include <kin/select.h>

#include <pthread.h>
#include <time.h>

static const size_t capacities[] = {0, 1, 2, 3, 10, 64, 100};
enum { CAPACITIES = sizeof capacities / sizeof capacities[0] };

static struct kin_chan *make(size_t item_size, size_t capacity)
{
    struct kin_chan *chan = NULL;
    EXPECT_EQ(kin_chan_create(&chan, item_size, capacity), 0);
    return chan;
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
    return rc < 0 ? rc : value;
}

/* ---- plain threads ---- */

static void *thread_sends(void *arg)
{
    for (int i = 0; i < 500; i++)
        EXPECT_EQ(put(arg, i, KIN_NEVER), 0);
    kin_chan_close(arg);
    return NULL;
}

/* Receives 0, 1, 2 ... until the channel is closed; how many. */
static int receive_row(struct kin_chan *chan, kin_time deadline)
{
    int expected = 0, value;
    while ((value = take(chan, deadline)) != KIN_CLOSED)
        EXPECT_EQ(value, expected++);
    return expected;
}

static void *thread_receives(void *arg)
{
    EXPECT_EQ(receive_row(arg, kin_after(KIN_SEC(1000))), 500);
    return NULL;
}

KIN_TEST(threads_without_a_runtime_use_a_channel, "")
{
    for (int i = 0; i < CAPACITIES; i++) {
        struct kin_chan *chan = make(sizeof(int), capacities[i]);
        pthread_t sender;
        EXPECT_EQ(pthread_create(&sender, NULL, thread_sends, chan), 0);
        EXPECT_EQ(receive_row(chan, KIN_NEVER), 500);
        EXPECT_EQ(pthread_join(sender, NULL), 0);
        kin_chan_unref(chan);
    }
}

static int task_receives(void *arg)
{
    EXPECT_EQ(receive_row(arg, KIN_NEVER), 500);
    return 0;
}

static int task_sends(void *arg)
{
    thread_sends(arg);
    return 0;
}

KIN_TEST(threads_and_tasks_meet, "")
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        for (int i = 0; i < CAPACITIES; i += 2) {
            struct kin_chan *chan = make(sizeof(int), capacities[i]);
            pthread_t thread;
            EXPECT_EQ(pthread_create(&thread, NULL, thread_sends, chan), 0);
            EXPECT_EQ(run_reporting(workers, task_receives, chan, NULL), 0);
            EXPECT_EQ(pthread_join(thread, NULL), 0);
            kin_chan_unref(chan);
            chan = make(sizeof(int), capacities[i]);
            EXPECT_EQ(pthread_create(&thread, NULL, thread_receives, chan), 0);
            EXPECT_EQ(run_reporting(workers, task_sends, chan, NULL), 0);
            EXPECT_EQ(pthread_join(thread, NULL), 0);
            kin_chan_unref(chan);
        }
    }
}

KIN_TEST(a_thread_waits_no_longer_than_it_wants, "N007")
{
    struct kin_chan *chan = make(sizeof(int), 0);
    kin_time soon = kin_after(KIN_MS(2));
    EXPECT_EQ(take(chan, soon), KIN_TIMEOUT);
    EXPECT_GE(kin_now(), soon);
    soon = kin_after(KIN_MS(2));
    EXPECT_EQ(put(chan, 1, soon), KIN_TIMEOUT);
    EXPECT_GE(kin_now(), soon);
    EXPECT_EQ(put(chan, 1, 0), KIN_FULL);
    EXPECT_EQ(take(chan, 0), KIN_EMPTY);
    kin_chan_unref(chan);
}

static void *close_soon(void *arg)
{
    struct timespec moment = {0, 2000000};
    nanosleep(&moment, NULL);
    kin_chan_close(arg);
    return NULL;
}

KIN_TEST(a_close_wakes_a_thread, "G007")
{
    struct kin_chan *chan = make(sizeof(int), 0);
    pthread_t closer;
    EXPECT_EQ(pthread_create(&closer, NULL, close_soon, chan), 0);
    EXPECT_EQ(take(chan, KIN_NEVER), KIN_CLOSED);
    EXPECT_EQ(pthread_join(closer, NULL), 0);
    kin_chan_unref(chan);
}

/* ---- selects against partners ---- */

struct op {
    struct kin_chan *chan;
    int value, times;
};

static int send_row(void *arg)
{
    struct op *op = arg;
    for (int i = 0; i < op->times; i++)
        EXPECT_EQ(put(op->chan, op->value + i, KIN_NEVER), 0);
    return 0;
}

static int recv_row(void *arg)
{
    struct op *op = arg;
    for (int i = 0; i < op->times; i++)
        EXPECT_EQ(take(op->chan, KIN_NEVER), op->value + i);
    return 0;
}

enum { ITEMS = 2000 };

/* Receives from two senders until each has sent all; nothing is lost, each row stays in order. */
static int merge(void *arg)
{
    size_t capacity = *(size_t *)arg;
    struct op ops[2] = {{make(sizeof(int), capacity), 0, ITEMS},
                        {make(sizeof(int), capacity), 1000000, ITEMS}};
    int next[2] = {0, 1000000}, got[2] = {-1, -1};
    KIN_NURSERY(n);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(kin_spawn(&n, send_row, &ops[i]), 0);
    for (int i = 0; i < 2 * ITEMS; i++) {
        struct kin_case cases[] = {kin_case_recv(ops[0].chan, &got[0]),
                                   kin_case_recv(ops[1].chan, &got[1])};
        int index = kin_select(cases, 2, KIN_NEVER);
        EXPECT_GE(index, 0);
        EXPECT_EQ(cases[index].status, 0);
        EXPECT_EQ(got[index], next[index]++);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(next[0], ITEMS);
    EXPECT_EQ(next[1], 1000000 + ITEMS);
    kin_chan_unref(ops[0].chan);
    kin_chan_unref(ops[1].chan);
    return 0;
}

KIN_TEST(two_senders_against_a_select, "D034 N002")
{
    for (size_t capacity = 0; capacity < 3; capacity++)
        run_on_few(merge, &capacity);
}

static int spread(void *arg)
{
    size_t capacity = *(size_t *)arg;
    struct op ops[2] = {{make(sizeof(int), capacity), 0, ITEMS},
                        {make(sizeof(int), capacity), 1000000, ITEMS}};
    int next[2] = {0, 1000000};
    KIN_NURSERY(n);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(kin_spawn(&n, recv_row, &ops[i]), 0);
    for (int i = 0; i < 2 * ITEMS; i++) {
        /* a side that has had all is switched off */
        struct kin_case cases[2];
        for (int k = 0; k < 2; k++) {
            bool is_done = next[k] == ops[k].value + ITEMS;
            cases[k] = kin_case_send(is_done ? NULL : ops[k].chan, &next[k]);
        }
        int index = kin_select(cases, 2, KIN_NEVER);
        EXPECT_GE(index, 0);
        EXPECT_EQ(cases[index].status, 0);
        next[index]++;
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_chan_unref(ops[0].chan);
    kin_chan_unref(ops[1].chan);
    return 0;
}

KIN_TEST(two_receivers_against_a_select, "D035 G032")
{
    for (size_t capacity = 0; capacity < 3; capacity++)
        run_on_few(spread, &capacity);
}

/* Selects against selects: each side sends on one channel and receives from the other, as it
 * comes. Every item must arrive once. */
struct side {
    struct kin_chan *out, *in;
    int sent, received;
    int64_t sum;
};

static int trade(void *arg)
{
    struct side *side = arg;
    while (side->sent < ITEMS || side->received < ITEMS) {
        int in = -1, out = side->sent;
        struct kin_case cases[] = {kin_case_send(side->sent < ITEMS ? side->out : NULL, &out),
                                   kin_case_recv(side->received < ITEMS ? side->in : NULL, &in)};
        int index = kin_select(cases, 2, KIN_NEVER);
        EXPECT_GE(index, 0);
        EXPECT_EQ(cases[index].status, 0);
        if (index == 0) {
            side->sent++;
            EXPECT_EQ(in, -1);
        } else {
            EXPECT_EQ(in, side->received++);
            side->sum += in;
        }
    }
    return 0;
}

static int trade_across(void *arg)
{
    struct kin_chan *left = make(sizeof(int), *(size_t *)arg);
    struct kin_chan *right = make(sizeof(int), *(size_t *)arg);
    struct side sides[2] = {{.out = left, .in = right}, {.out = right, .in = left}};
    KIN_NURSERY(n);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(kin_spawn(&n, trade, &sides[i]), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(sides[i].sum, (int64_t)ITEMS * (ITEMS - 1) / 2);
    kin_chan_unref(left);
    kin_chan_unref(right);
    return 0;
}

KIN_TEST(selects_against_selects, "D036 A10")
{
    for (size_t capacity = 0; capacity < 2; capacity++)
        run_on_few(trade_across, &capacity);
}

/* Two of them meet each other, again and again: one sends and one receives. */
struct pair {
    struct kin_chan *chan;
    _Atomic int balance;
    int me;
};

static int meet_the_other(void *arg)
{
    struct pair *pair = arg;
    for (int i = 0; i < ITEMS; i++) {
        int in = -1, out = i;
        struct kin_case cases[] = {kin_case_send(pair->chan, &out),
                                   kin_case_recv(pair->chan, &in)};
        int index = kin_select(cases, 2, KIN_NEVER);
        EXPECT_GE(index, 0);
        EXPECT_EQ(cases[index].status, 0);
        if (index == 0)
            EXPECT_EQ(in, -1);
        else
            EXPECT_EQ(in, i); /* they are in step */
        atomic_fetch_add(&pair->balance, index == 0 ? 1 : -1);
    }
    return 0;
}

static int two_of_them(void *arg)
{
    struct pair pair = {.chan = make(sizeof(int), 0)};
    (void)arg;
    KIN_NURSERY(n);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(kin_spawn(&n, meet_the_other, &pair), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&pair.balance), 0);
    kin_chan_unref(pair.chan);
    return 0;
}

KIN_TEST(two_that_would_send_and_receive_meet_each_other, "G051 G023 D036")
{
    run_on_few(two_of_them, NULL);
}

/* ---- prime sieves ---- */

struct filter {
    struct kin_chan *in, *out;
    int prime;
};

static int send_from_two(void *arg)
{
    for (int i = 2;; i++) {
        int rc = put(arg, i, KIN_NEVER);
        if (rc < 0)
            return rc == KIN_CLOSED ? 0 : rc;
    }
}

static int pass_what_remains(void *arg)
{
    const struct filter *filter = arg;
    for (;;) {
        int number = take(filter->in, KIN_NEVER);
        if (number < 0 || (number % filter->prime && put(filter->out, number, KIN_NEVER) < 0))
            return 0;
    }
}

/* A filter for each prime, one behind the other. */
static int sieve(void *arg)
{
    enum { PRIMES = 100 };
    static struct filter filters[PRIMES];
    struct kin_chan *chan = make(sizeof(int), *(size_t *)arg);
    int prime = 0;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, send_from_two, chan), 0);
    for (int i = 0; i < PRIMES; i++) {
        prime = take(chan, KIN_NEVER);
        filters[i] = (struct filter){chan, make(sizeof(int), *(size_t *)arg), prime};
        EXPECT_EQ(kin_spawn(&n, pass_what_remains, &filters[i]), 0);
        chan = filters[i].out;
    }
    EXPECT_EQ(prime, 541); /* the hundredth */
    for (int i = 0; i < PRIMES; i++) {
        kin_chan_abort(filters[i].in);
        kin_chan_abort(filters[i].out);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < PRIMES; i++)
        kin_chan_unref(filters[i].in);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_sieve_of_filters_finds_the_primes, "G057")
{
    size_t capacity = 0;
    run_on_few(sieve, &capacity);
    capacity = 3;
    run_on_few(sieve, &capacity);
}

/* The other sieve: each prime has a stream of its multiples, and streams are merged by pairs, which
 * makes a tree; the primes are the numbers that the merged stream leaves out. */
enum { MULTIPLES = 24, LIMIT = 540 };

struct stream {
    struct kin_chan *out, *left, *right;
    int prime;
};

static int send_multiples(void *arg)
{
    const struct stream *stream = arg;
    for (int i = stream->prime * stream->prime; i <= LIMIT; i += stream->prime)
        EXPECT_EQ(put(stream->out, i, KIN_NEVER), 0);
    kin_chan_close(stream->out);
    return 0;
}

/* In order, each number once. */
static int merge_streams(void *arg)
{
    const struct stream *stream = arg;
    int left = take(stream->left, KIN_NEVER), right = take(stream->right, KIN_NEVER);
    while (left >= 0 || right >= 0) {
        int next = right < 0 || (left >= 0 && left < right) ? left : right;
        EXPECT_EQ(put(stream->out, next, KIN_NEVER), 0);
        if (left == next)
            left = take(stream->left, KIN_NEVER);
        if (right == next)
            right = take(stream->right, KIN_NEVER);
    }
    kin_chan_close(stream->out);
    return 0;
}

static int sieve_by_merging(void *arg)
{
    static const int primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23};
    static struct stream streams[MULTIPLES];
    int made = 0, merged = 0, count = 0;
    (void)arg;
    KIN_NURSERY(n);
    for (; made < (int)(sizeof primes / sizeof primes[0]); made++) {
        streams[made] = (struct stream){.out = make(sizeof(int), 0), .prime = primes[made]};
        EXPECT_EQ(kin_spawn(&n, send_multiples, &streams[made]), 0);
    }
    for (; merged + 1 < made; merged += 2, made++) {
        streams[made] = (struct stream){.out = make(sizeof(int), 0), .left = streams[merged].out,
                                        .right = streams[merged + 1].out};
        EXPECT_EQ(kin_spawn(&n, merge_streams, &streams[made]), 0);
    }
    int composite = take(streams[made - 1].out, KIN_NEVER);
    for (int i = 2; i <= LIMIT; i++) {
        if (i == composite)
            composite = take(streams[made - 1].out, KIN_NEVER);
        else
            count++;
    }
    EXPECT_EQ(composite, KIN_CLOSED);
    EXPECT_EQ(count, 99);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < made; i++)
        kin_chan_unref(streams[i].out);
    return 0;
}

KIN_TEST(a_sieve_of_merged_streams_finds_the_primes, "G058")
{
    run_on_few(sieve_by_merging, NULL);
}

/* ---- a long chain ---- */

static int pass_to_the_left(void *arg)
{
    struct kin_chan **chans = arg;
    int value = take(chans[1], KIN_NEVER);
    EXPECT_GE(value, 0);
    EXPECT_EQ(put(chans[0], value + 1, KIN_NEVER), 0);
    return 0;
}

static int chain(void *arg)
{
    int length = *(int *)arg;
    struct kin_chan **chans = malloc((size_t)(length + 1) * sizeof *chans);
    KIN_NURSERY(n);
    for (int i = 0; i <= length; i++)
        chans[i] = make(sizeof(int), 0);
    for (int i = 0; i < length; i++)
        EXPECT_EQ(kin_spawn(&n, pass_to_the_left, &chans[i]), 0);
    EXPECT_EQ(put(chans[length], 0, KIN_NEVER), 0);
    EXPECT_EQ(take(chans[0], KIN_NEVER), length);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i <= length; i++)
        kin_chan_unref(chans[i]);
    free(chans);
    return 0;
}

KIN_TEST(ten_thousand_in_a_row_pass_a_number_on, "G027")
{
    int length = enough(SANITIZED ? 1000 : 10000, 100);
    run_on_few(chain, &length);
}

/* ---- a crowd of consumers ---- */

struct crowd {
    struct kin_chan *questions, *answers;
};

static int consume(void *arg)
{
    const struct crowd *crowd = arg;
    for (;;) {
        int value = take(crowd->questions, KIN_NEVER);
        if (value == KIN_CLOSED)
            return 0;
        EXPECT_GE(value, 0);
        if (value % 3 == 0)
            kin_ignore(kin_yield());
        EXPECT_EQ(put(crowd->answers, value, KIN_NEVER), 0);
    }
}

struct feed {
    struct crowd *crowd;
    int count;
    int64_t sum;
};

static int feed_all(void *arg)
{
    struct feed *feed = arg;
    int wanted = feed->count, i = 0;
    /* in the lab all of them: a run is the same each time */
    for (; kin_in_lab() ? i < wanted : kin_test_goes_on((uint64_t)i, (uint64_t)wanted); i++) {
        int value = i * 7 % 1000;
        feed->sum += value;
        EXPECT_EQ(put(feed->crowd->questions, value, KIN_NEVER), 0);
    }
    feed->count = i;
    kin_chan_close(feed->crowd->questions); /* no more: the consumers end */
    return 0;
}

static int join_then_close(void *arg)
{
    struct crowd *crowd = arg;
    KIN_NURSERY(n);
    for (int i = 0; i < 23; i++)
        EXPECT_EQ(kin_spawn(&n, consume, crowd), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_chan_close(crowd->answers);
    return 0;
}

static int feed_a_crowd(void *arg)
{
    struct crowd crowd = {make(sizeof(int), 69), make(sizeof(int), 69)};
    struct feed feed = {&crowd, *(int *)arg, 0};
    int count = 0, value;
    int64_t sum = 0;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, join_then_close, &crowd), 0);
    EXPECT_EQ(kin_spawn(&n, feed_all, &feed), 0);
    while ((value = take(crowd.answers, KIN_NEVER)) != KIN_CLOSED) {
        EXPECT_GE(value, 0);
        count++;
        sum += value;
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(count, feed.count);
    EXPECT_EQ(sum, feed.sum);
    kin_chan_unref(crowd.questions);
    kin_chan_unref(crowd.answers);
    return 0;
}

KIN_TEST(a_crowd_of_consumers_loses_nothing, "G020")
{
    int count = enough(SANITIZED ? 27182 : 271828, 271);
    run_on_few(feed_a_crowd, &count);
}

/* ---- power series, on demand ----
 *
 * A series is a pair of channels: a signal asks for the next coefficient, which comes back as a
 * rational. Every operator is a task that asks its operands only when it is asked. The sum, the
 * product and the integral are enough to make exp from exp' = exp, and 1 / (1 - x).
 */
struct rational {
    int64_t num, den;
};

struct series {
    struct kin_chan *ask, *give;
};

enum { OPS_MAX = 600 };

struct operator {
    struct series out, left, right;
    struct rational constant;
};

static struct {
    struct kin_nursery *nursery;
    struct kin_chan *chans[2 * OPS_MAX];
    struct operator operators[OPS_MAX];
    _Atomic int chan_count, operator_count;
} flow;

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

static struct rational reduced(int64_t num, int64_t den)
{
    int64_t common = gcd(num, den);
    return (struct rational){num / common, den / common};
}

static struct rational add(struct rational a, struct rational b)
{
    return reduced(a.num * b.den + b.num * a.den, a.den * b.den);
}

static struct rational times(struct rational a, struct rational b)
{
    return reduced(a.num * b.num, a.den * b.den);
}

static struct series new_series(void)
{
    int at = atomic_fetch_add(&flow.chan_count, 2);
    EXPECT_LT(at, 2 * OPS_MAX);
    flow.chans[at] = make(0, 0);
    flow.chans[at + 1] = make(sizeof(struct rational), 0);
    return (struct series){flow.chans[at], flow.chans[at + 1]};
}

/* False: all is over. */
static bool next(struct series s, struct rational *value)
{
    return kin_chan_send(s.ask, NULL, KIN_NEVER) == 0 &&
           kin_chan_recv(s.give, value, KIN_NEVER) == 0;
}

static bool is_asked(struct series s)
{
    return kin_chan_recv(s.ask, NULL, KIN_NEVER) == 0;
}

static bool give(struct series s, struct rational value)
{
    return kin_chan_send(s.give, &value, KIN_NEVER) == 0;
}

static struct series start(kin_task_fn *fn, struct series left, struct series right,
                           struct rational constant)
{
    struct operator *op = &flow.operators[atomic_fetch_add(&flow.operator_count, 1)];
    *op = (struct operator){new_series(), left, right, constant};
    int rc = kin_spawn(flow.nursery, fn, op);
    EXPECT(rc == 0 || rc == KIN_NOSCOPE); /* it is all over, and nobody will ask */
    return op->out;
}

static int add_series(void *arg)
{
    const struct operator *op = arg;
    struct rational a, b;
    while (is_asked(op->out) && next(op->left, &a) && next(op->right, &b) &&
           give(op->out, add(a, b)))
        ;
    return 0;
}

/* constant, then the series divided by 1, 2, 3 ... */
static int integrate(void *arg)
{
    const struct operator *op = arg;
    struct rational a;
    if (!is_asked(op->out) || !give(op->out, op->constant))
        return 0;
    for (int64_t i = 1; is_asked(op->out) && next(op->left, &a); i++) {
        if (!give(op->out, times(a, (struct rational){1, i})))
            break;
    }
    return 0;
}

static int scale_series(void *arg)
{
    const struct operator *op = arg;
    struct rational a;
    while (is_asked(op->out) && next(op->left, &a) && give(op->out, times(a, op->constant)))
        ;
    return 0;
}

/* All coefficients are the constant: constant / (1 - x). */
static int repeat_constant(void *arg)
{
    const struct operator *op = arg;
    while (is_asked(op->out) && give(op->out, op->constant))
        ;
    return 0;
}

/* 0, then the series. */
static int shift_series(void *arg)
{
    const struct operator *op = arg;
    struct rational a = {0, 1};
    if (is_asked(op->out) && give(op->out, a)) {
        while (is_asked(op->out) && next(op->left, &a) && give(op->out, a))
            ;
    }
    return 0;
}

/* One series for two readers, each at its own pace: what one has read ahead waits for the other. A
 * select hears whoever asks, also while an answer is due: it may need what the other reader makes
 * of what it gets here. */
static int split_series(void *arg)
{
    enum { AHEAD = 64 };
    const struct operator *op = arg; /* reads left; gives to out and right */
    const struct series outs[2] = {op->out, op->right};
    struct rational ahead[AHEAD];
    size_t read[2] = {0, 0}, made = 0;
    bool wants[2] = {false, false}, is_due = false;
    for (;;) {
        for (int i = 0; i < 2; i++) {
            if (wants[i] && read[i] < made) {
                wants[i] = false;
                if (!give(outs[i], ahead[read[i]++ % AHEAD]))
                    return 0;
            }
        }
        if ((wants[0] || wants[1]) && !is_due) {
            is_due = true;
            if (kin_chan_send(op->left.ask, NULL, KIN_NEVER) < 0)
                return 0;
        }
        EXPECT_LT(made - (read[0] < read[1] ? read[0] : read[1]), AHEAD);
        struct kin_case cases[] = {kin_case_recv(wants[0] ? NULL : outs[0].ask, NULL),
                                   kin_case_recv(wants[1] ? NULL : outs[1].ask, NULL),
                                   kin_case_recv(is_due ? op->left.give : NULL,
                                                 &ahead[made % AHEAD])};
        int who = kin_select(cases, 3, KIN_NEVER);
        if (who < 0)
            return 0;
        if (who < 2)
            wants[who] = true;
        else
            is_due = false, made++;
    }
}

static struct series split(struct series s, struct series *other)
{
    *other = new_series();
    return start(split_series, s, *other, (struct rational){0, 1});
}

/* F G = f0 g0 + x (f0 G' + g0 F' + x F' G'), where F = f0 + x F': a new product for each term. */
static int multiply(void *arg)
{
    const struct operator *op = arg;
    const struct rational zero = {0, 1};
    struct rational f, g, a;
    if (!is_asked(op->out) || !next(op->left, &f) || !next(op->right, &g) ||
        !give(op->out, times(f, g)))
        return 0;
    struct series f_more, g_more;
    struct series f_rest = split(op->left, &f_more), g_rest = split(op->right, &g_more);
    struct series product = start(multiply, f_more, g_more, zero);
    struct series sum = start(add_series, start(scale_series, g_rest, g_rest, f),
                              start(scale_series, f_rest, f_rest, g), zero);
    struct series rest = start(add_series, sum, start(shift_series, product, product, zero), zero);
    while (is_asked(op->out) && next(rest, &a) && give(op->out, a))
        ;
    return 0;
}

/* exp' = exp and exp(0) = 1: a loop of channels. */
static struct series exponential(void)
{
    const struct rational one = {1, 1};
    struct series back = new_series(), out;
    struct series integral = start(integrate, back, back, one);
    /* the split feeds the loop and the reader */
    out = start(split_series, integral, back, one);
    return out;
}

static void expect_coefficients(struct series s, const int64_t (*expected)[2], int count)
{
    for (int i = 0; i < count; i++) {
        struct rational a = {0, 0};
        EXPECT(next(s, &a));
        EXPECT_EQ(a.num, expected[i][0]);
        EXPECT_EQ(a.den, expected[i][1]);
    }
}

static void flow_begin(struct kin_nursery *n)
{
    flow.nursery = n;
    atomic_store(&flow.chan_count, 0);
    atomic_store(&flow.operator_count, 0);
}

static void flow_end(void)
{
    kin_nursery_cancel(flow.nursery, 0);
    EXPECT_EQ(kin_nursery_join(flow.nursery, NULL), KIN_CANCELLED);
    for (int i = 0; i < atomic_load(&flow.chan_count); i++)
        kin_chan_unref(flow.chans[i]);
}

static int compute_series(void *arg)
{
    static const int64_t exp_x[][2] = {{1, 1}, {1, 1}, {1, 2}, {1, 6}, {1, 24}, {1, 120}, {1, 720}};
    static const int64_t exp_2x[][2] = {{1, 1}, {2, 1}, {2, 1}, {4, 3}, {2, 3}, {4, 15}};
    static const int64_t squares[][2] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}};
    const struct rational one = {1, 1};
    struct series s;
    (void)arg;
    KIN_NURSERY(n);
    flow_begin(&n);
    expect_coefficients(exponential(), exp_x, 7);
    s = start(repeat_constant, (struct series){NULL, NULL}, (struct series){NULL, NULL}, one);
    struct series t =
        start(repeat_constant, (struct series){NULL, NULL}, (struct series){NULL, NULL}, one);
    expect_coefficients(start(multiply, s, t, one), squares, 6); /* 1 / (1 - x) squared */
    expect_coefficients(start(multiply, exponential(), exponential(), one), exp_2x, 6);
    flow_end();
    return 0;
}

KIN_TEST(power_series_flow_on_demand, "G030 G031")
{
    run_on_few(compute_series, NULL);
}
