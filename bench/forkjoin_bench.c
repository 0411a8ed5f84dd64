/* SPDX-License-Identifier: MIT */
/*
 * Fork and join: trees of nurseries, each node waiting for its children.
 */
#include "bench.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static void expect(int64_t actual, int64_t expected)
{
    if (actual != expected) {
        fprintf(stderr, "wrong result: %lld, expected %lld\n", (long long)actual,
                (long long)expected);
        exit(1);
    }
}

/* ---- fib: one child and one call per node ---- */

struct fib {
    int64_t n, result;
};

static int fib(void *arg)
{
    struct fib *f = arg;
    if (f->n < 2) {
        f->result = f->n;
        return 0;
    }
    struct fib left = {f->n - 1, 0}, right = {f->n - 2, 0};
    KIN_NURSERY(n);
    bench_must(kin_spawn(&n, fib, &left), "spawn");
    bench_must(fib(&right), "fib");
    bench_must(kin_nursery_join(&n, NULL), "join");
    f->result = left.result + right.result;
    return 0;
}

static int fib_main(void *arg)
{
    (void)arg;
    int64_t a = 0, b = 1, start = 0;
    for (int64_t i = 0; i < bench_args.n; i++) {
        int64_t c = a + b;
        a = b;
        b = c;
    }
    int64_t spawns = b - 1; /* fib(n+1) - 1 calls are above the leaves, and each spawns once */
    for (int64_t round = -1; round < bench_args.rounds; round++) {
        struct fib top = {bench_args.n, 0};
        if (round == 0)
            start = bench_now();
        bench_must(fib(&top), "fib");
        expect(top.result, a);
    }
    bench_print("time", (double)(bench_now() - start) / (double)(spawns * bench_args.rounds), "ns");
    return 0;
}

int bench_fib(void)
{
    return bench_run(fib_main);
}

/* ---- skynet: ten children per node, a number at every leaf ---- */

struct sky {
    int64_t first, size, sum;
};

static int sky(void *arg)
{
    struct sky *s = arg;
    if (s->size == 1) {
        s->sum = s->first;
        return 0;
    }
    struct sky child[10];
    KIN_NURSERY(n);
    for (int i = 0; i < 10; i++) {
        child[i] = (struct sky){s->first + i * (s->size / 10), s->size / 10, 0};
        bench_must(kin_spawn(&n, sky, &child[i]), "spawn");
    }
    bench_must(kin_nursery_join(&n, NULL), "join");
    s->sum = 0;
    for (int i = 0; i < 10; i++)
        s->sum += child[i].sum;
    return 0;
}

static int skynet_main(void *arg)
{
    (void)arg;
    int64_t start = 0;
    for (int64_t round = -1; round < bench_args.rounds; round++) {
        struct sky top = {0, bench_args.n, 0};
        if (round == 0)
            start = bench_now();
        bench_must(sky(&top), "sky");
        expect(top.sum, bench_args.n * (bench_args.n - 1) / 2);
    }
    double rounds = (double)bench_args.rounds;
    bench_print("time", (double)(bench_now() - start) / rounds / 1e6, "ms");
    return 0;
}

int bench_skynet(void)
{
    return bench_run(skynet_main);
}

/* ---- halves: a millisecond of work here, and one there ---- */

static int64_t turns; /* of a loop that takes a millisecond */

static int compute(void *arg)
{
    (void)arg;
    for (int64_t i = 0; i < turns; i++)
        __asm__ volatile("" : : "r"(i));
    return 0;
}

/* The loop's turns in a millisecond, by the fastest of some tries. */
static void measure_turns(void)
{
    int64_t best = INT64_MAX;
    turns = 1000 * 1000;
    for (int i = 0; i < 20; i++) {
        int64_t start = bench_now();
        kin_ignore(compute(NULL));
        int64_t took = bench_now() - start;
        best = took < best ? took : best;
    }
    turns = turns * 1000 * 1000 / best;
}

static int64_t time_alone(void)
{
    int64_t start = bench_now();
    bench_must(compute(NULL), "compute");
    bench_must(compute(NULL), "compute");
    return bench_now() - start;
}

/* One half is a child; the other one is a child too, or the parent's own. */
static int64_t time_together(bool are_both)
{
    int64_t start = bench_now();
    KIN_NURSERY(n);
    bench_must(kin_spawn(&n, compute, NULL), "spawn");
    bench_must(are_both ? kin_spawn(&n, compute, NULL) : compute(NULL), "spawn");
    bench_must(kin_nursery_join(&n, NULL), "join");
    return bench_now() - start;
}

static int halves_main(void *arg)
{
    enum { ALONE, LONE_CHILD, CHILDREN, WAYS };
    int64_t *times[WAYS];
    (void)arg;
    for (int way = 0; way < WAYS; way++) {
        times[way] = calloc((size_t)bench_args.n, sizeof(int64_t));
        if (!times[way])
            bench_die(-ENOMEM, "calloc");
    }
    measure_turns();
    for (int64_t i = 0; i < bench_args.n; i++) {
        times[ALONE][i] = time_alone();
        times[LONE_CHILD][i] = time_together(false);
        times[CHILDREN][i] = time_together(true);
    }
    for (int way = 0; way < WAYS; way++)
        bench_sort(times[way], bench_args.n);
    double alone = (double)times[ALONE][bench_args.n / 2];
    bench_print("lone", (double)times[LONE_CHILD][bench_args.n / 2] / alone, "x");
    bench_print("both", (double)times[CHILDREN][bench_args.n / 2] / alone, "x");
    for (int way = 0; way < WAYS; way++)
        free(times[way]);
    return 0;
}

int bench_halves(void)
{
    return bench_run(halves_main);
}
