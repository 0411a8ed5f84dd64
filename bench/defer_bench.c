/* SPDX-License-Identifier: MIT */
/*
 * Cleanups: put down and run, sixteen to a scope, or one that goes with its function.
 */
#include "bench.h"

#include <kin/cleanup.h>

#include <errno.h>

#define SCOPE 16

static int64_t ran;

static void cleanup(void *arg)
{
    ran += *(int64_t *)arg;
}

static void defer_in_a_row(int64_t *by)
{
    void *mark = kin_scope_mark();
    for (int64_t k = 0; k < SCOPE; k++)
        bench_must(kin_defer(cleanup, by), "defer");
    kin_scope_release(mark);
}

__attribute__((noinline)) static void use(int64_t *by)
{
    KIN_USING(cleanup, by);
}

static void measure(const char *name, int64_t each, void (*fn)(int64_t *by))
{
    int64_t one = 1;
    for (int64_t i = 0; i < bench_args.n / 10; i += each)
        fn(&one);
    ran = 0;
    int64_t start = bench_now();
    for (int64_t i = 0; i < bench_args.n; i += each)
        fn(&one);
    bench_print(name, (double)(bench_now() - start) / (double)bench_args.n, "ns");
    bench_must(ran >= bench_args.n ? 0 : -EBADMSG, "a cleanup did not run");
}

static int defer_main(void *arg)
{
    (void)arg;
    measure("time", SCOPE, defer_in_a_row);
    measure("scoped", 1, use);
    return 0;
}

int bench_defer(void)
{
    return bench_run(defer_main);
}
