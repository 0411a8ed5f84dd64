/* SPDX-License-Identifier: MIT */
/*
 * Scopes: an empty nursery, cancelling one task and a million, a hog and its neighbours.
 *
 * Stamps of single tasks are wall time: the CPU clock is a system call and would be most of the
 * figure. Where that counts, medians are printed.
 */
#include "bench.h"

#include "base/atomic.h"

#include <errno.h>

/* ---- an empty nursery ---- */

static void nurseries(int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        KIN_NURSERY(n);
        bench_must(kin_nursery_join(&n, NULL), "join");
    }
}

static int nursery0_main(void *arg)
{
    (void)arg;
    nurseries(bench_args.n / 10);
    int64_t start = bench_now();
    nurseries(bench_args.n);
    bench_print("time", (double)(bench_now() - start) / (double)bench_args.n, "ns");
    return 0;
}

int bench_nursery0(void)
{
    return bench_run(nursery0_main);
}

/* ---- checkpoints ---- */

static void checkpoints(int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        bench_must(kin_checkpoint(), "checkpoint");
}

static int checkpoint_main(void *arg)
{
    (void)arg;
    checkpoints(bench_args.n / 10);
    int64_t start = bench_now();
    checkpoints(bench_args.n);
    bench_print("time", (double)(bench_now() - start) / (double)bench_args.n, "ns");
    return 0;
}

int bench_checkpoint(void)
{
    return bench_run(checkpoint_main);
}

/* ---- one parked task is cancelled: from the call to the end of its function ---- */

static int64_t returned;

static int parks(void *arg)
{
    (void)arg;
    int rc = kin_sleep(KIN_NEVER);
    returned = kin_now();
    return rc;
}

/* Returns how long the task took to end, in *joined how long the join took, both from the call. */
static int64_t cancel_once(int64_t *joined)
{
    struct kin_task_ref task;
    KIN_NURSERY(n);
    bench_must(kin_spawn_with(&n, NULL, parks, NULL, 0, &task), "spawn");
    bench_must(kin_yield(), "yield"); /* it parks */
    int64_t start = kin_now();
    bench_must(kin_task_cancel(task), "cancel");
    kin_ignore(kin_nursery_join(&n, NULL));
    *joined = kin_now() - start;
    return returned - start;
}

static int cancel_main(void *arg)
{
    int64_t *to_return = bench_alloc(bench_args.n, sizeof *to_return);
    int64_t *to_join = bench_alloc(bench_args.n, sizeof *to_join);
    (void)arg;
    for (int64_t i = 0; i < bench_args.n / 10; i++)
        to_return[i] = cancel_once(&to_join[i]);
    for (int64_t i = 0; i < bench_args.n; i++)
        to_return[i] = cancel_once(&to_join[i]);
    bench_sort(to_return, bench_args.n);
    bench_sort(to_join, bench_args.n);
    bench_print("time", (double)to_return[bench_args.n / 2], "ns");
    bench_print("p99", (double)to_return[bench_args.n / 100 * 99], "ns");
    bench_print("joined", (double)to_join[bench_args.n / 2], "ns");
    return 0;
}

int bench_cancel(void)
{
    return bench_run(cancel_main);
}

/* ---- a tree of a million parked leaves is cancelled at its root ---- */

static kin__ai64 asleep;
static int64_t last_awake; /* when the last leaf was back; written by the one that counts to 0 */

static int leaf(void)
{
    (void)kin__add_relaxed(&asleep, 1); /* alone: a counter */
    int rc = kin_sleep(KIN_NEVER);
    if (kin__sub_relaxed(&asleep, 1) == 1) /* alone: a counter */
        last_awake = kin_now();
    return rc;
}

/* arg points at how many leaves are below. */
static int branch(void *arg)
{
    int64_t below = *(int64_t *)arg / 10;
    if (below == 0)
        return leaf();
    KIN_NURSERY(n);
    for (int i = 0; i < 10; i++)
        bench_must(kin_spawn(&n, branch, &below), "spawn");
    return kin_nursery_join(&n, NULL);
}

static int canceltree_main(void *arg)
{
    int64_t before = kin_now(), below = bench_args.n;
    (void)arg;
    KIN_NURSERY(n);
    bench_must(kin_spawn(&n, branch, &below), "spawn");
    while (kin__load_relaxed(&asleep) < bench_args.n) /* relaxed: a counter */
        bench_must(kin_yield(), "yield");
    int64_t start = kin_now();
    kin_nursery_cancel(&n, 0);
    int64_t asked = kin_now();
    int rc = kin_nursery_join(&n, NULL);
    int64_t joined = kin_now();
    bench_must(rc == KIN_CANCELLED ? 0 : -EBADMSG, "join of what was cancelled");
    bench_print("create", (double)(start - before) / 1e9, "s");
    bench_print("call", (double)(asked - start) / 1e9, "s");
    bench_print("awake", (double)(last_awake - start) / 1e9, "s");
    bench_print("joined", (double)(joined - start) / 1e9, "s");
    return 0;
}

int bench_canceltree(void)
{
    return bench_run(canceltree_main);
}

/* ---- a hog beside tasks that behave ----
 *
 * A unit is 256 steps of about 100 ns, each with a checkpoint. Whoever behaves does a unit and
 * yields; the hog steps on and on and leaves it to the checkpoint to take the turn from it. The
 * latency of a unit is the time until the next one of the same task begins.
 */

#define UNIT_STEPS 256
#define STEP_ROUNDS 100

static kin__a32 is_over;
static kin__a64 left; /* what the steps computed, so that they are computed */
static int64_t *latency;

static uint64_t step(uint64_t z)
{
    for (int i = 0; i < STEP_ROUNDS; i++)
        z = (z ^ z >> 7) * 0x9e3779b97f4a7c15u;
    bench_must(kin_checkpoint(), "checkpoint");
    return z;
}

static int hogs(void *arg)
{
    uint64_t z = 1;
    (void)arg;
    while (!kin__load_relaxed(&is_over)) /* relaxed: a flag */
        z = step(z);
    kin__store_relaxed(&left, z); /* alone: nobody reads it */
    return 0;
}

/* arg points at the task's own row of latencies. */
static int behaves(void *arg)
{
    int64_t *mine = arg, before = bench_now();
    uint64_t z = 1;
    for (int64_t i = 0; i < bench_args.n; i++) {
        for (int k = 0; k < UNIT_STEPS; k++)
            z = step(z);
        bench_must(kin_yield(), "yield");
        int64_t now = bench_now();
        mine[i] = now - before;
        before = now;
    }
    kin__store_relaxed(&left, z); /* alone: nobody reads it */
    return 0;
}

/* Latencies of all units, smallest first, with or without a hog. */
static void behave_all(bool with_hog)
{
    KIN_NURSERY(hog);
    KIN_NURSERY(n);
    kin__store_relaxed(&is_over, 0u); /* relaxed: a flag */
    if (with_hog)
        bench_must(kin_spawn(&hog, hogs, NULL), "spawn");
    for (int64_t i = 0; i < bench_args.rounds; i++)
        bench_must(kin_spawn(&n, behaves, latency + i * bench_args.n), "spawn");
    bench_must(kin_nursery_join(&n, NULL), "join");
    kin__store_relaxed(&is_over, 1u); /* relaxed: a flag */
    bench_must(kin_nursery_join(&hog, NULL), "join");
    bench_sort(latency, bench_args.rounds * bench_args.n);
}

static int hog_main(void *arg)
{
    int64_t count = bench_args.rounds * bench_args.n;
    (void)arg;
    behave_all(false);
    double p50 = (double)latency[count / 2], p99 = (double)latency[count / 100 * 99];
    behave_all(true);
    bench_print("alone_p50", p50 / 1e3, "us");
    bench_print("beside_p50", (double)latency[count / 2] / 1e3, "us");
    bench_print("ratio_p50", (double)latency[count / 2] / p50, "x");
    bench_print("ratio_p99", (double)latency[count / 100 * 99] / p99, "x");
    return 0;
}

int bench_hog(void)
{
    latency = bench_alloc(bench_args.rounds * bench_args.n, sizeof *latency);
    return bench_run(hog_main);
}
