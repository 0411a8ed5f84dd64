/* SPDX-License-Identifier: MIT */
/*
 * What a scheduler does all day: yield, spawn and join, park and wake, keep tasks in a queue.
 */
#include "bench.h"
#include "gate.h"

#include <errno.h>

/* ---- yield ---- */

static int yields(void *arg)
{
    (void)arg;
    for (int64_t i = 0; i < bench_args.rounds; i++)
        kin_ignore(kin_yield());
    return 0;
}

static int yield_main(void *arg)
{
    (void)arg;
    int64_t start = bench_now();
    KIN_NURSERY(n);
    for (int64_t i = 0; i < bench_args.n; i++)
        bench_must(kin_spawn(&n, yields, NULL), "spawn");
    bench_must(kin_nursery_join(&n, NULL), "join");
    double total = (double)bench_args.n * (double)bench_args.rounds;
    bench_print("time", (double)(bench_now() - start) / total, "ns");
    return 0;
}

int bench_yield(void)
{
    return bench_run(yield_main);
}

/* ---- spawn, run, join ---- */

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* A nursery, count children, a join; times over. */
static void spawns(int64_t times, int64_t count)
{
    for (int64_t i = 0; i < times; i++) {
        KIN_NURSERY(n);
        for (int64_t k = 0; k < count; k++)
            bench_must(kin_spawn(&n, nothing, NULL), "spawn");
        bench_must(kin_nursery_join(&n, NULL), "join");
    }
}

static int spawn1_main(void *arg)
{
    (void)arg;
    spawns(bench_args.n / 10, 1);
    int64_t start = bench_now();
    spawns(bench_args.n, 1);
    bench_print("time", (double)(bench_now() - start) / (double)bench_args.n, "ns");
    return 0;
}

int bench_spawn1(void)
{
    return bench_run(spawn1_main);
}

static int batch_main(void *arg)
{
    (void)arg;
    spawns(1, bench_args.n);
    int64_t start = bench_now();
    spawns(bench_args.rounds, bench_args.n);
    double total = (double)bench_args.n * (double)bench_args.rounds;
    bench_print("time", (double)(bench_now() - start) / total, "ns");
    return 0;
}

int bench_batch(void)
{
    return bench_run(batch_main);
}

/* ---- tasks that wait in the run queue ----
 *
 * The first task spawns for longer than a worker may be stuck before it is given a replacement, and
 * a replacement would run what is counted here. So workers are never replaced, and the figure is
 * refused if a child has run all the same.
 */

static kin__ai64 ran;

static int counted(void *arg)
{
    (void)arg;
    (void)kin__add_relaxed(&ran, 1); /* alone: a counter */
    return 0;
}

static int queued_main(void *arg)
{
    (void)arg;
    int64_t before = bench_memory(), start = bench_now();
    KIN_NURSERY(n);
    for (int64_t i = 0; i < bench_args.n; i++)
        bench_must(kin_spawn(&n, counted, NULL), "spawn");
    bench_print("create", (double)(bench_now() - start) / 1e9, "s");
    /* relaxed: a counter */
    bench_must(kin__load_relaxed(&ran) ? -EBUSY : 0, "a child ran too early");
    bench_print("memory", (double)(bench_memory() - before) / (double)bench_args.n, "B");
    start = bench_now();
    bench_must(kin_nursery_join(&n, NULL), "join");
    bench_print("run", (double)(bench_now() - start) / 1e9, "s");
    return 0;
}

int bench_queued(void)
{
    bench_args.stall_threshold = KIN_NEVER;
    return bench_run(queued_main);
}

/* ---- park and wake: every turn parks one task and wakes the other ---- */

static struct bench_baton ping, pong;

static int echo(void *arg)
{
    (void)arg;
    for (int64_t i = 0; i < bench_args.n / 10 + bench_args.n; i++) {
        bench_must(bench_baton_take(&ping), "take");
        bench_baton_give(&pong);
    }
    return 0;
}

static void turns(int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        bench_baton_give(&ping);
        bench_must(bench_baton_take(&pong), "take");
    }
}

static int parkwake_main(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    bench_must(kin_spawn(&n, echo, NULL), "spawn");
    turns(bench_args.n / 10);
    int64_t start = bench_now();
    turns(bench_args.n);
    bench_print("time", (double)(bench_now() - start) / (double)(2 * bench_args.n), "ns");
    bench_must(kin_nursery_join(&n, NULL), "join");
    return 0;
}

int bench_parkwake(void)
{
    return bench_run(parkwake_main);
}
