/* SPDX-License-Identifier: MIT */
/*
 * How long a task waits for the worker that steals it, while that worker searches.
 *
 * Two workers. The publisher runs the first task and never yields; the thief has nothing but what
 * it steals. One sample:
 *
 *     publisher                                    thief
 *     pause 2..20 us, see that it searches         back-off rounds between 1 and 32 us
 *     mark itself as asked for work
 *     stamp, spawn: the push publishes at once     sees the public part, takes it
 *     spin until the child has begun               the child stamps
 *
 * A push publishes only when a thief has asked, which a thief does in its next round once it sees
 * that the victim has private work. The publisher sets the mark itself here, because the figure is
 * the time from publication to the start. It only spins afterwards, so nobody but the thief can run
 * the child.
 *
 * The asked_* figures leave the mark to the thief: the publisher spawns a child every half
 * microsecond, and the time runs from the first spawn until the thief begins any of them.
 *
 * A sample in which the thief begins nothing for 5 ms (it has lost its CPU, or sleeps) counts as
 * not stolen: it is left out of the latencies, and the share of the others is printed. On a machine
 * so busy that this happens all the time, sampling ends after 3 s.
 */
#include "bench.h"

#include "sched/sched.h"
#include "sched/worker.h"

#define PATIENCE_NS KIN_MS(5)
#define SAMPLING_NS KIN_SEC(3)
#define GAP_NS 500

struct sample {
    kin__ai64 began; /* when the thief began a child; 0: not yet */
    void *publisher; /* the worker that spawned */
};

static int64_t *latency;

static int child(void *arg)
{
    struct sample *sample = arg;
    int64_t none = 0, now = kin_now();
    if (kin__worker_self() != sample->publisher)
        /* pairs with the acquire in has_begun */
        (void)kin__cas_release(&sample->began, &none, now);
    return 0;
}

static bool has_begun(struct sample *sample)
{
    return kin__load_acquire(&sample->began) != 0; /* pairs with the release in child */
}

static void pause_for(int64_t ns)
{
    kin_time until = kin_after(ns);
    while (kin_now() < until)
        kin__cpu_relax();
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* Returns when another worker searches: until then, offers it something and ends the slice, which
 * is when sleepers are woken. */
static void await_searcher(struct kin_nursery *n)
{
    for (;;) { /* ends: a woken worker searches before it sleeps again */
        struct kin__worker *self = kin__worker_self();
        if (kin__load_relaxed(&self->sched->idle) & 0xffff) /* relaxed: a hint */
            return;
        (void)kin__or_relaxed(&self->attention, KIN__HUNGRY); /* relaxed: as a thief does */
        for (int i = 0; i < 4; i++)
            bench_must(kin_spawn(n, nothing, NULL), "spawn");
        bench_must(kin_yield(), "yield");
        pause_for(5000);
    }
}

/* One child, published at once. */
static void publish_one(struct kin_nursery *n, struct sample *sample)
{
    bench_must(kin_spawn(n, child, sample), "spawn");
    kin_time until = kin_after(PATIENCE_NS);
    while (!has_begun(sample) && kin_now() < until)
        kin__cpu_relax();
}

/* A child every half microsecond, until the thief has asked for them and begun one. */
static void spawn_many(struct kin_nursery *n, struct sample *sample)
{
    kin_time until = kin_after(PATIENCE_NS);
    while (!has_begun(sample) && kin_now() < until) {
        bench_must(kin_spawn(n, child, sample), "spawn");
        pause_for(GAP_NS);
    }
}

/* Takes count samples, in *taken how many it came to; returns how many were stolen, their latencies
 * in latency[]. */
static int64_t take(int64_t count, bool is_asked, int64_t *taken)
{
    int64_t stolen = 0, i;
    kin_time until = kin_after(SAMPLING_NS);
    for (i = 0; i < count && kin_now() < until; i++) {
        struct sample sample = {0, NULL};
        KIN_NURSERY(n);
        pause_for(2000 + (int64_t)(bench_random((uint64_t)i) % 18000));
        await_searcher(&n);
        struct kin__worker *self = kin__worker_self();
        sample.publisher = self;
        if (!is_asked)
            (void)kin__or_relaxed(&self->attention, KIN__HUNGRY); /* relaxed: as a thief does */
        int64_t start = kin_now();
        if (is_asked)
            spawn_many(&n, &sample);
        else
            publish_one(&n, &sample);
        int64_t began = kin__load_relaxed(&sample.began); /* relaxed: has_begun acquired it */
        if (began)
            latency[stolen++] = began - start;
        bench_must(kin_nursery_join(&n, NULL), "join");
    }
    *taken = i;
    return stolen;
}

static void print(const char *const *names, int64_t stolen, int64_t count)
{
    bench_print(names[3], 100.0 * (double)stolen / (double)count, "%");
    if (stolen == 0)
        return;
    bench_sort(latency, stolen);
    bench_print(names[0], (double)latency[0] / 1e3, "us");
    bench_print(names[1], (double)latency[stolen / 2] / 1e3, "us");
    bench_print(names[2], (double)latency[stolen * 99 / 100] / 1e3, "us");
}

static int steal_main(void *arg)
{
    static const char *const published[] = {"steal_min", "steal_p50", "steal_p99", "stolen"};
    static const char *const asked[] = {"asked_min", "asked_p50", "asked_p99", "asked_stolen"};
    int64_t stolen, taken;
    (void)arg;
    (void)take(bench_args.n / 10, false, &taken);
    stolen = take(bench_args.n, false, &taken);
    print(published, stolen, taken);
    stolen = take(bench_args.n / 10, true, &taken);
    print(asked, stolen, taken);
    return 0;
}

int bench_steal(void)
{
    latency = bench_alloc(bench_args.n, sizeof *latency);
    return bench_run(steal_main);
}
