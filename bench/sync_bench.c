/* SPDX-License-Identifier: MIT */
/*
 * Locks: so many tasks lock and unlock one mutex. They hold it for an addition, or over a yield.
 */
#include "bench.h"

#include <kin/sync.h>

#include <errno.h>

static struct kin_mutex mutex;
static int64_t sum;

/* arg points at how often. */
static int locks(void *arg)
{
    int64_t count = *(int64_t *)arg;
    for (int64_t i = 0; i < count; i++) {
        bench_must(kin_mutex_lock(&mutex, KIN_NEVER), "lock");
        sum++;
        kin_mutex_unlock(&mutex);
    }
    return 0;
}

/* Whoever holds the mutex lets everybody else come and wait for it. */
static int locks_and_yields(void *arg)
{
    int64_t count = *(int64_t *)arg;
    for (int64_t i = 0; i < count; i++) {
        bench_must(kin_mutex_lock(&mutex, KIN_NEVER), "lock");
        sum++;
        bench_must(kin_yield(), "yield");
        kin_mutex_unlock(&mutex);
    }
    return 0;
}

static void lock_all(kin_task_fn *fn, int64_t tasks, int64_t each)
{
    KIN_NURSERY(n);
    for (int64_t i = 0; i < tasks; i++)
        bench_must(kin_spawn(&n, fn, &each), "spawn");
    bench_must(kin_nursery_join(&n, NULL), "join");
}

/* n: how often in all; rounds: by how many tasks. */
static void measure(kin_task_fn *fn)
{
    int64_t tasks = bench_args.rounds, each = bench_args.n / tasks, total = tasks * each;
    lock_all(fn, tasks, each / 10);
    sum = 0;
    int64_t start = bench_now();
    lock_all(fn, tasks, each);
    bench_print("time", (double)(bench_now() - start) / (double)total, "ns");
    bench_must(sum == total ? 0 : -EBADMSG, "two held it at once");
}

static int mutex_main(void *arg)
{
    (void)arg;
    measure(locks);
    return 0;
}

static int mutexheld_main(void *arg)
{
    (void)arg;
    measure(locks_and_yields);
    return 0;
}

int bench_mutex(void)
{
    return bench_run(mutex_main);
}

int bench_mutexheld(void)
{
    return bench_run(mutexheld_main);
}
