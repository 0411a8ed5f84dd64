/* SPDX-License-Identifier: MIT */
/*
 * A million tasks at once: parked on one gate, or asleep with a deadline each.
 */
#include "bench.h"
#include "gate.h"

/* ---- parked ---- */

static struct bench_gate gate;
static kin__ai64 waiting;

static int waits(void *arg)
{
    (void)arg;
    (void)kin__add_relaxed(&waiting, 1); /* alone: a counter */
    return bench_gate_pass(&gate);
}

static int parked_main(void *arg)
{
    (void)arg;
    bench_gate_init(&gate);
    int64_t before = bench_memory(), start = bench_now();
    KIN_NURSERY(n);
    for (int64_t i = 0; i < bench_args.n; i++)
        bench_must(kin_spawn(&n, waits, NULL), "spawn");
    while (kin__load_relaxed(&waiting) < bench_args.n) /* relaxed: a counter */
        bench_must(kin_yield(), "yield");
    bench_print("create", (double)(bench_now() - start) / 1e9, "s");
    bench_print("memory", (double)(bench_memory() - before) / (double)bench_args.n, "B");
    start = bench_now();
    bench_gate_open(&gate);
    bench_must(kin_nursery_join(&n, NULL), "join");
    bench_print("wake", (double)(bench_now() - start) / 1e9, "s");
    return 0;
}

int bench_parked(void)
{
    return bench_run(parked_main);
}

/* ---- asleep ---- */

static int64_t *late;

/* arg points at the task's own place in late. */
static int sleeps(void *arg)
{
    int64_t *mine = arg;
    uint64_t span = bench_random((uint64_t)(mine - late)) % (uint64_t)KIN_MS(bench_args.rounds);
    kin_time deadline = kin_after((int64_t)span);
    int rc = kin_sleep(deadline);
    *mine = kin_now() - deadline;
    return rc;
}

static int sleepers_main(void *arg)
{
    (void)arg;
    int64_t count = bench_args.n, start = bench_cpu();
    KIN_NURSERY(n);
    for (int64_t i = 0; i < count; i++)
        bench_must(kin_spawn(&n, sleeps, &late[i]), "spawn");
    bench_must(kin_nursery_join(&n, NULL), "join");
    bench_print("cpu", (double)(bench_cpu() - start) / 1e9, "s");
    bench_sort(late, count);
    bench_print("late_p50", (double)late[count / 2] / 1e6, "ms");
    bench_print("late_p99", (double)late[count / 100 * 99] / 1e6, "ms");
    return 0;
}

int bench_sleepers(void)
{
    late = bench_alloc(bench_args.n, sizeof *late);
    return bench_run(sleepers_main);
}
