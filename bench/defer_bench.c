/* SPDX-License-Identifier: MIT */
/*
 * Cleanups: put down and run, sixteen to a scope or one to a scope.
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

static void defers(int64_t count, int64_t each)
{
    int64_t one = 1;
    for (int64_t i = 0; i < count; i += each) {
        void *mark = kin_scope_mark();
        for (int64_t k = 0; k < each; k++)
            bench_must(kin_defer(cleanup, &one), "defer");
        kin_scope_release(mark);
    }
}

static void measure(const char *name, int64_t each)
{
    defers(bench_args.n / 10, each);
    ran = 0;
    int64_t start = bench_now();
    defers(bench_args.n, each);
    bench_print(name, (double)(bench_now() - start) / (double)bench_args.n, "ns");
    bench_must(ran >= bench_args.n ? 0 : -EBADMSG, "a cleanup did not run");
}

static int defer_main(void *arg)
{
    (void)arg;
    measure("time", SCOPE);
    measure("scoped", 1);
    return 0;
}

int bench_defer(void)
{
    return bench_run(defer_main);
}
