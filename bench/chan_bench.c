/* SPDX-License-Identifier: MIT */
/*
 * Channels: hand over one by one, through a buffer, round a ring, up a tree, to nobody any more.
 *
 * Items are of 8 bytes. An operation is one item on its way from a send to a receive.
 *
 * The forced cases need tasks that cannot meet on one worker, which is what a scheduler otherwise
 * sees to. So each side is the only task of a runtime of its own, with one worker, on a thread of
 * its own, and nothing but the channels connects them.
 */
#include "bench.h"

#include <kin/chan.h>

#include "base/atomic.h"
#include "sched/worker.h"

#include <errno.h>
#include <pthread.h>

#define BUFFER 128

static struct kin_chan *make(size_t capacity)
{
    struct kin_chan *chan = NULL;
    bench_must(kin_chan_create(&chan, sizeof(int64_t), capacity), "create");
    return chan;
}

static void send(struct kin_chan *chan, int64_t item)
{
    bench_must(kin_chan_send(chan, &item, KIN_NEVER), "send");
}

static int64_t receive(struct kin_chan *chan)
{
    int64_t item = 0;
    bench_must(kin_chan_recv(chan, &item, KIN_NEVER), "receive");
    return item;
}

/* False: the channel is closed and empty. */
static bool receive_next(struct kin_chan *chan, int64_t *item)
{
    int rc = kin_chan_recv(chan, item, KIN_NEVER);
    if (rc == KIN_CLOSED)
        return false;
    bench_must(rc, "receive");
    return true;
}

static void expect(int64_t actual, int64_t expected)
{
    bench_must(actual == expected ? 0 : -EBADMSG, "items are lost or come twice");
}

/* Runs near as the first task of one runtime and far as that of another, one worker each. */
static int run_apart(kin_task_fn *near, void *(*far)(void *))
{
    pthread_t thread;
    bench_must(-pthread_create(&thread, NULL, far, NULL), "thread");
    int rc = bench_run_on(1, near);
    bench_must(-pthread_join(thread, NULL), "thread");
    return rc;
}

/* ---- ping-pong without a buffer ---- */

static struct kin_chan *ping, *pong;

static int echo(void *arg)
{
    int64_t item;
    (void)arg;
    while (receive_next(ping, &item))
        send(pong, item);
    return 0;
}

static void turns(int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        send(ping, i);
        expect(receive(pong), i);
    }
}

static void measure_turns(void)
{
    turns(bench_args.n / 10);
    int64_t start = bench_now();
    turns(bench_args.n);
    bench_print("time", (double)(bench_now() - start) / (double)(2 * bench_args.n), "ns");
    kin_chan_close(ping);
}

static int pingpong_main(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    bench_must(kin_spawn(&n, echo, NULL), "spawn");
    measure_turns();
    bench_must(kin_nursery_join(&n, NULL), "join");
    return 0;
}

static void make_both(void)
{
    ping = make(0);
    pong = make(0);
}

int bench_pingpong(void)
{
    make_both();
    return bench_run(pingpong_main);
}

static int near_pings(void *arg)
{
    (void)arg;
    measure_turns();
    return 0;
}

static void *far_echoes(void *arg)
{
    (void)arg;
    (void)bench_run_on(1, echo);
    return NULL;
}

int bench_crossping(void)
{
    make_both();
    return run_apart(near_pings, far_echoes);
}

/* ---- through a buffer: so many senders, as many receivers, one channel ----
 *
 * An item is a number and, in its lowest byte, the worker on which it was sent.
 */

static struct kin_chan *buffer;
static kin__ai64 received, crossed;

static int64_t here(void)
{
    return kin__worker_self()->index & 255;
}

/* arg points at how many. */
static int sends(void *arg)
{
    int64_t count = *(int64_t *)arg;
    for (int64_t i = 0; i < count; i++)
        send(buffer, i << 8 | here());
    return 0;
}

static int receives(void *arg)
{
    int64_t item, sum = 0, far = 0;
    (void)arg;
    while (receive_next(buffer, &item)) {
        sum += item >> 8;
        far += (item & 255) != here();
    }
    (void)kin__add_relaxed(&received, sum); /* alone: a counter */
    (void)kin__add_relaxed(&crossed, far);  /* alone: a counter */
    return 0;
}

/* Passes n items. */
static void pour(int64_t n, int64_t pairs)
{
    int64_t each = n / pairs;
    buffer = make(BUFFER);
    kin__store_relaxed(&received, 0); /* alone: a counter */
    kin__store_relaxed(&crossed, 0);  /* alone: a counter */
    KIN_NURSERY(receivers);
    KIN_NURSERY(senders);
    for (int64_t i = 0; i < pairs; i++) {
        bench_must(kin_spawn(&receivers, receives, NULL), "spawn");
        bench_must(kin_spawn(&senders, sends, &each), "spawn");
    }
    bench_must(kin_nursery_join(&senders, NULL), "join");
    kin_chan_close(buffer);
    bench_must(kin_nursery_join(&receivers, NULL), "join");
    /* relaxed: the join has synchronised */
    expect(kin__load_relaxed(&received), pairs * (each * (each - 1) / 2));
    kin_chan_unref(buffer);
}

static int chan_main(void *arg)
{
    double n = (double)bench_args.n;
    (void)arg;
    pour(bench_args.n / 10, bench_args.rounds);
    int64_t start = bench_now();
    pour(bench_args.n, bench_args.rounds);
    bench_print("time", (double)(bench_now() - start) / n, "ns");
    /* relaxed: the join has synchronised */
    bench_print("crossed", 100.0 * (double)kin__load_relaxed(&crossed) / n, "%");
    return 0;
}

int bench_chan(void)
{
    return bench_run(chan_main);
}

static int near_receives(void *arg)
{
    int64_t item, start = 0, warm = bench_args.n / 10, count = 0;
    (void)arg;
    while (receive_next(buffer, &item)) {
        if (count++ == warm)
            start = bench_now();
    }
    bench_print("time", (double)(bench_now() - start) / (double)bench_args.n, "ns");
    expect(count, warm + bench_args.n);
    return 0;
}

static int far_sends(void *arg)
{
    int64_t count = bench_args.n / 10 + bench_args.n;
    (void)arg;
    for (int64_t i = 0; i < count; i++)
        send(buffer, i);
    kin_chan_close(buffer);
    return 0;
}

static void *far_main(void *arg)
{
    (void)arg;
    (void)bench_run_on(1, far_sends);
    return NULL;
}

int bench_crossbuf(void)
{
    buffer = make(BUFFER);
    return run_apart(near_receives, far_main);
}

/* ---- a ring: one token goes round ---- */

static struct kin_chan **ring, *finish;
static int64_t laps;

/* arg points at the channel of this place; the next one follows it, behind the last the first. */
static int passes_on(void *arg)
{
    struct kin_chan **from = arg, **to = from + 1;
    bool is_last = to == ring + bench_args.n;
    if (is_last)
        to = ring;
    for (int64_t lap = 1; lap <= laps; lap++) {
        int64_t token = receive(*from);
        send(is_last && lap == laps ? finish : *to, token + 1);
    }
    return 0;
}

/* Returns how long the token took, ns. */
static int64_t go_round(int64_t count)
{
    laps = count;
    KIN_NURSERY(n);
    for (int64_t i = 0; i < bench_args.n; i++)
        bench_must(kin_spawn(&n, passes_on, &ring[i]), "spawn");
    bench_must(kin_yield(), "yield"); /* all wait for the token */
    int64_t start = bench_now();
    send(ring[0], 0);
    expect(receive(finish), count * bench_args.n);
    int64_t took = bench_now() - start;
    bench_must(kin_nursery_join(&n, NULL), "join");
    return took;
}

static int ring_main(void *arg)
{
    (void)arg;
    ring = bench_alloc(bench_args.n, sizeof *ring);
    for (int64_t i = 0; i < bench_args.n; i++)
        ring[i] = make(0);
    finish = make(0);
    (void)go_round(bench_args.rounds / 10 + 1);
    double hops = (double)bench_args.n * (double)bench_args.rounds;
    bench_print("time", (double)go_round(bench_args.rounds) / hops, "ns");
    return 0;
}

int bench_ring(void)
{
    return bench_run(ring_main);
}

/* ---- skynet: as in forkjoin_bench.c, but sums travel by channels ---- */

struct sky {
    int64_t first, size;
    struct kin_chan *up;
};

static int sky(void *arg)
{
    struct sky *s = arg, child[10];
    if (s->size == 1) {
        send(s->up, s->first);
        return 0;
    }
    struct kin_chan *sums = make(0);
    int64_t sum = 0;
    KIN_NURSERY(n);
    for (int i = 0; i < 10; i++) {
        child[i] = (struct sky){s->first + i * (s->size / 10), s->size / 10, sums};
        bench_must(kin_spawn(&n, sky, &child[i]), "spawn");
    }
    for (int i = 0; i < 10; i++)
        sum += receive(sums);
    bench_must(kin_nursery_join(&n, NULL), "join");
    kin_chan_unref(sums);
    send(s->up, sum);
    return 0;
}

static int chansky_main(void *arg)
{
    int64_t start = 0;
    struct kin_chan *top = make(0);
    (void)arg;
    for (int64_t round = -1; round < bench_args.rounds; round++) {
        struct sky root = {0, bench_args.n, top};
        if (round == 0)
            start = bench_now();
        KIN_NURSERY(n);
        bench_must(kin_spawn(&n, sky, &root), "spawn");
        expect(receive(top), bench_args.n * (bench_args.n - 1) / 2);
        bench_must(kin_nursery_join(&n, NULL), "join");
    }
    double rounds = (double)bench_args.rounds;
    bench_print("time", (double)(bench_now() - start) / rounds / 1e6, "ms");
    return 0;
}

int bench_chansky(void)
{
    return bench_run(chansky_main);
}

/* ---- close while many receive ---- */

static kin__ai64 waiting;
static int64_t last_awake; /* when the last receiver was back; one worker, so written in order */

static int waits(void *arg)
{
    int64_t item;
    (void)kin__add_relaxed(&waiting, 1); /* alone: a counter */
    expect(receive_next(arg, &item), false);
    if (kin__sub_relaxed(&waiting, 1) == 1) /* alone: a counter */
        last_awake = bench_now();
    return 0;
}

/* Adds to took: the close itself, the last receiver awake, all over. */
static void close_once(int64_t took[3])
{
    struct kin_chan *chan = make(0);
    KIN_NURSERY(n);
    for (int64_t i = 0; i < bench_args.n; i++)
        bench_must(kin_spawn(&n, waits, chan), "spawn");
    while (kin__load_relaxed(&waiting) < bench_args.n) /* relaxed: a counter */
        bench_must(kin_yield(), "yield");
    int64_t start = bench_now();
    kin_chan_close(chan);
    took[0] += bench_now() - start;
    bench_must(kin_nursery_join(&n, NULL), "join");
    took[1] += last_awake - start;
    took[2] += bench_now() - start;
    kin_chan_unref(chan);
}

static int close_main(void *arg)
{
    int64_t took[3] = {0, 0, 0};
    (void)arg;
    close_once(took);
    took[0] = took[1] = took[2] = 0;
    for (int64_t i = 0; i < bench_args.rounds; i++)
        close_once(took);
    double scale = (double)bench_args.rounds * 1e6;
    bench_print("close", (double)took[0] / scale, "ms");
    bench_print("awake", (double)took[1] / scale, "ms");
    bench_print("over", (double)took[2] / scale, "ms");
    return 0;
}

int bench_close(void)
{
    return bench_run(close_main);
}
