/* SPDX-License-Identifier: MIT */
/*
 * Monitors and names: being told that somebody is over, and finding somebody.
 */
#include "bench.h"
#include "gate.h"

#include <stdio.h>

#define NURSERY 1000 /* children that were asked for by name stay with their nursery so long */
#define STRIDE 7919

static int ends(void *arg)
{
    (void)arg;
    return 0;
}

static struct kin_addr spawn(struct kin_nursery *n, kin_task_fn *fn, void *arg)
{
    struct kin_task_ref task;
    bench_must(kin_spawn_with(n, NULL, fn, arg, 0, &task), "spawn");
    return kin_task_addr(task);
}

static struct kin_monitor_ref monitor(struct kin_addr who)
{
    struct kin_monitor_ref ref;
    bench_must(kin_monitor(who, &ref), "monitor");
    return ref;
}

static void wait_down(struct kin_monitor_ref ref)
{
    struct kin_info down;
    bench_must(kin_wait_down(ref, &down, KIN_NEVER), "wait");
    bench_must(down.u.down.status, "its end");
}

static int waits(void *arg)
{
    return bench_gate_pass(arg);
}

/* ---- one after the other ---- */

static void end_all(int64_t times)
{
    for (int64_t i = 0; i < times; i += NURSERY) {
        KIN_NURSERY(n);
        for (int64_t k = 0; k < NURSERY; k++)
            wait_down(monitor(spawn(&n, ends, NULL)));
        bench_must(kin_nursery_join(&n, NULL), "join");
    }
}

/* Monitors somebody who lives on, and takes that back. */
static void revoke_all(int64_t times)
{
    struct bench_gate gate;
    bench_gate_init(&gate);
    KIN_NURSERY(n);
    struct kin_addr who = spawn(&n, waits, &gate);
    for (int64_t i = 0; i < times; i++)
        bench_must(kin_demonitor(monitor(who)), "demonitor");
    bench_gate_open(&gate);
    bench_must(kin_nursery_join(&n, NULL), "join");
}

static int monitor_main(void *arg)
{
    double n = (double)bench_args.n;
    (void)arg;
    end_all(bench_args.n / 10);
    int64_t start = bench_now();
    end_all(bench_args.n);
    bench_print("time", (double)(bench_now() - start) / n, "ns");
    start = bench_now();
    revoke_all(bench_args.n);
    bench_print("revoked", (double)(bench_now() - start) / n, "ns");
    return 0;
}

int bench_monitor(void)
{
    return bench_run(monitor_main);
}

/* ---- many watch one ---- */

static kin__ai64 watching;

/* arg points at the address of the one that is watched. */
static int watches(void *arg)
{
    struct kin_monitor_ref ref = monitor(*(struct kin_addr *)arg);
    (void)kin__add_relaxed(&watching, 1); /* alone: a counter */
    wait_down(ref);
    return 0;
}

static void watch_all(int64_t count)
{
    struct bench_gate gate;
    bench_gate_init(&gate);
    kin__store_relaxed(&watching, 0); /* alone: a counter */
    KIN_NURSERY(n);
    struct kin_addr watched = spawn(&n, waits, &gate);
    for (int64_t i = 0; i < count; i++)
        bench_must(kin_spawn(&n, watches, &watched), "spawn");
    while (kin__load_relaxed(&watching) < count) /* relaxed: a counter */
        bench_must(kin_yield(), "yield");
    bench_gate_open(&gate);
    bench_must(kin_nursery_join(&n, NULL), "join");
}

static int watched_main(void *arg)
{
    double all = (double)bench_args.n * (double)bench_args.rounds;
    (void)arg;
    watch_all(bench_args.n);
    int64_t start = bench_now();
    for (int64_t i = 0; i < bench_args.rounds; i++)
        watch_all(bench_args.n);
    bench_print("time", (double)(bench_now() - start) / all, "ns");
    return 0;
}

int bench_watched(void)
{
    return bench_run(watched_main);
}

/* ---- names ---- */

struct name {
    char text[24];
};

static struct name *names;
static int64_t lookups; /* of each finder */

/* arg points at the name to begin with. */
static int finds(void *arg)
{
    int64_t count = bench_args.rounds, at = (struct name *)arg - names;
    for (int64_t i = 0; i < lookups; i++) {
        struct kin_addr found;
        bench_must(kin_whereis(names[at].text, &found), "whereis");
        at = (at + STRIDE) % count;
    }
    return 0;
}

/* One finder for each worker. */
static void find_all(int64_t times)
{
    lookups = times / (int64_t)bench_args.workers;
    KIN_NURSERY(n);
    for (unsigned i = 0; i < bench_args.workers; i++)
        bench_must(kin_spawn(&n, finds, &names[i]), "spawn");
    bench_must(kin_nursery_join(&n, NULL), "join");
}

static int whereis_main(void *arg)
{
    int64_t count = bench_args.rounds;
    struct bench_gate gate;
    (void)arg;
    names = bench_alloc(count, sizeof *names);
    bench_gate_init(&gate);
    KIN_NURSERY(n);
    for (int64_t i = 0; i < count; i++) {
        snprintf(names[i].text, sizeof names[i].text, "service.%05d", (int)i);
        bench_must(kin_register(names[i].text, spawn(&n, waits, &gate), 0), "register");
    }
    find_all(bench_args.n / 10);
    int64_t cpu = bench_cpu(), start = bench_now();
    find_all(bench_args.n);
    bench_print("time", (double)(bench_now() - start) / (double)bench_args.n, "ns");
    bench_print("cpu", (double)(bench_cpu() - cpu) / (double)bench_args.n, "ns");
    bench_gate_open(&gate);
    bench_must(kin_nursery_join(&n, NULL), "join");
    return 0;
}

int bench_whereis(void)
{
    return bench_run(whereis_main);
}
