/* SPDX-License-Identifier: MIT */
/*
 * How long a published task waits for the worker that steals it, while that worker searches.
 *
 * Two workers. The publisher runs the first task and never yields; the thief has nothing but what it
 * steals. One sample:
 *
 *     publisher                                    thief
 *     pause 2..20 us: the thief is searching       back-off rounds, far from sleep (63 us)
 *     mark itself as asked for work
 *     stamp, spawn: the push publishes at once     sees the public part, takes it
 *     spin until the child has begun               the child stamps
 *
 * A push publishes only what a thief has asked for. A thief asks in its next round when it sees that
 * the victim has private work; the mark is set here by the publisher itself, because the figure is
 * the time from publication to the start, not the time until the thief asks. The time from a plain
 * spawn to the start, with the publisher polling checkpoints, is measured as well and printed as
 * asked_*: there, the thief has to ask first.
 *
 * The publisher only spins, so nobody but the thief can run the child. After 5 ms without a start
 * (the thief lost its CPU) the sample counts as not stolen and the publisher yields; such samples
 * are left out of the latencies and their share is printed.
 */
#include "bench.h"

#include "sched/worker.h"

#define PATIENCE_NS KIN_MS(5)

struct sample {
    kin__ai64 began; /* when; 0: not yet */
    void *worker;    /* who ran it */
};

static struct sample *samples;
static int64_t *latency;

static int child(void *arg)
{
    struct sample *sample = arg;
    int64_t now = kin_now();
    sample->worker = kin__worker_self();
    kin__store_release(&sample->began, now); /* pairs with the acquire in wait_begun */
    return 0;
}

static void pause_for(int64_t ns)
{
    kin_time until = kin_after(ns);
    while (kin_now() < until)
        kin__cpu_relax();
}

/* Spins until the child has begun or patience ends; polls says whether checkpoints are made. */
static bool wait_begun(struct sample *sample, bool polls)
{
    kin_time until = kin_after(PATIENCE_NS);
    /* pairs with the release in child */
    while (!kin__load_acquire(&sample->began)) {
        if (polls)
            bench_must(kin_checkpoint(), "checkpoint");
        else
            kin__cpu_relax();
        if (kin_now() > until)
            return false;
    }
    return true;
}

/* Takes count samples; returns how many were stolen, their latencies in latency[]. */
static int64_t take(struct kin_nursery *n, int64_t count, bool polls)
{
    int64_t stolen = 0;
    for (int64_t i = 0; i < count; i++) {
        struct sample *sample = &samples[i];
        kin__store_relaxed(&sample->began, 0); /* alone: not shared yet */
        pause_for(2000 + (int64_t)(bench_random((uint64_t)i) % 18000));
        struct kin__worker *self = kin__worker_self();
        if (!polls)
            (void)kin__or_relaxed(&self->attention, KIN__HUNGRY); /* relaxed: as a thief does */
        int64_t start = kin_now();
        bench_must(kin_spawn(n, child, sample), "spawn");
        if (!wait_begun(sample, polls)) {
            while (!kin__load_acquire(&sample->began)) /* pairs with the release in child */
                bench_must(kin_yield(), "yield");
        } else if (sample->worker != self) {
            /* alone: read after the acquire above */
            latency[stolen++] = kin__load_relaxed(&sample->began) - start;
        }
    }
    return stolen;
}

static void print(const char *const *names, int64_t stolen)
{
    if (stolen == 0)
        return;
    bench_sort(latency, stolen);
    bench_print(names[0], (double)latency[0] / 1e3, "us");
    bench_print(names[1], (double)latency[stolen / 2] / 1e3, "us");
    bench_print(names[2], (double)latency[stolen * 99 / 100] / 1e3, "us");
}

static int steal_main(void *arg)
{
    static const char *const published[] = {"steal_min", "steal_p50", "steal_p99"};
    static const char *const asked[] = {"asked_min", "asked_p50", "asked_p99"};
    (void)arg;
    KIN_NURSERY(n);
    (void)take(&n, bench_args.n / 10, false);
    int64_t stolen = take(&n, bench_args.n, false);
    print(published, stolen);
    bench_print("stolen", 100.0 * (double)stolen / (double)bench_args.n, "%");
    stolen = take(&n, bench_args.n / 10, true);
    print(asked, stolen);
    bench_print("asked_stolen", 1000.0 * (double)stolen / (double)bench_args.n, "%");
    bench_must(kin_nursery_join(&n, NULL), "join");
    return 0;
}

int bench_steal(void)
{
    samples = bench_alloc(bench_args.n, sizeof *samples);
    latency = bench_alloc(bench_args.n, sizeof *latency);
    return bench_run(steal_main);
}
