/* SPDX-License-Identifier: MIT */
/*
 * Supervisors: how long it takes until what failed is back, and many children.
 *
 * A child is a server that says where it is as soon as it is up, and fails when it is told to.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#define EACH 100 /* restarts of one supervisor, as with the peers */

static struct kin_chan *ups; /* addresses of children that are up */

/* Wall time, for single restarts. */
static int64_t wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int tell(struct kin_server *s, void *state, const void *arg)
{
    struct kin_addr me = kin_self_addr();
    (void)s;
    (void)state;
    (void)arg;
    return kin_chan_send(ups, &me, KIN_NEVER);
}

static int fail(struct kin_server *s, void *state, const void *msg, size_t size)
{
    (void)s;
    (void)state;
    (void)msg;
    (void)size;
    return -EIO;
}

static int start_teller(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    static const struct kin_server_ops ops = {.on_start = tell, .on_cast = fail};
    (void)arg;
    return kin_server_start(n, &ops, NULL, NULL, out);
}

static int start_idler(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    static const struct kin_server_ops ops = {.on_cast = fail};
    (void)arg;
    return kin_server_start(n, &ops, NULL, NULL, out);
}

static struct kin_addr next_up(void)
{
    struct kin_addr up;
    bench_must(kin_chan_recv(ups, &up, KIN_NEVER), "receive");
    return up;
}

static void crash(struct kin_addr server)
{
    bench_must(kin_cast(server, NULL, 0, KIN_NEVER), "cast");
}

static struct kin_addr start(struct kin_nursery *n, enum kin_strategy strategy,
                             const struct kin_child_spec *children, int64_t count)
{
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    struct kin_addr sup;
    options.strategy = strategy;
    options.max_restarts = 1000000;
    options.window = KIN_SEC(1);
    bench_must(kin_supervisor_start(n, &options, children, (size_t)count, &sup), "start");
    return sup;
}

static void stop(struct kin_addr sup)
{
    bench_must(kin_server_stop(sup, 0, KIN_NEVER), "stop");
}

static void make_ups(int64_t capacity)
{
    bench_must(kin_chan_create(&ups, sizeof(struct kin_addr), (size_t)capacity), "channel");
}

/* ---- one child that fails again and again ----
 *
 * The time of each is the clock's of all, with a new supervisor for every EACH.
 */

/* Writes EACH times, ns. */
static void restart_times(struct kin_nursery *n, int64_t *took)
{
    const struct kin_child_spec spec = {
        .name = "child", .start = start_teller, .restart = KIN_PERMANENT};
    struct kin_addr sup = start(n, KIN_ONE_FOR_ONE, &spec, 1), child = next_up();
    for (int64_t i = 0; i < EACH; i++) {
        int64_t begin = wall();
        crash(child);
        child = next_up();
        took[i] = wall() - begin;
    }
    stop(sup);
}

static int restart_main(void *arg)
{
    int64_t count = bench_args.n / EACH * EACH;
    int64_t *took = bench_alloc(count, sizeof *took);
    (void)arg;
    make_ups(1);
    KIN_NURSERY(n);
    restart_times(&n, took);
    int64_t begin = bench_now();
    for (int64_t i = 0; i < count; i += EACH)
        restart_times(&n, took + i);
    bench_print("time", (double)(bench_now() - begin) / (double)count / 1e3, "us");
    bench_must(kin_nursery_join(&n, NULL), "join");
    bench_sort(took, count);
    bench_print("p50", (double)took[count / 2] / 1e3, "us");
    bench_print("p99", (double)took[count * 99 / 100] / 1e3, "us");
    return 0;
}

int bench_restart(void)
{
    return bench_run(restart_main);
}

/* ---- all children fail at once: the median of the rounds ---- */

struct name {
    char text[16];
};

/* Returns how long it took until all were back, ns. */
static int64_t restart_all(struct kin_nursery *n, const struct kin_child_spec *specs,
                           struct kin_addr *children)
{
    int64_t count = bench_args.n;
    struct kin_addr sup = start(n, KIN_ONE_FOR_ONE, specs, count);
    for (int64_t i = 0; i < count; i++)
        children[i] = next_up();
    int64_t begin = wall();
    for (int64_t i = 0; i < count; i++)
        crash(children[i]);
    for (int64_t i = 0; i < count; i++)
        children[i] = next_up();
    int64_t took = wall() - begin;
    stop(sup);
    return took;
}

static int restartall_main(void *arg)
{
    int64_t count = bench_args.n, rounds = bench_args.rounds;
    struct kin_child_spec *specs = bench_alloc(count, sizeof *specs);
    struct kin_addr *children = bench_alloc(count, sizeof *children);
    struct name *names = bench_alloc(count, sizeof *names);
    int64_t *took = bench_alloc(rounds, sizeof *took);
    (void)arg;
    make_ups(count);
    for (int64_t i = 0; i < count; i++) {
        snprintf(names[i].text, sizeof names[i].text, "child%d", (int)i);
        specs[i].name = names[i].text;
        specs[i].start = start_teller;
        specs[i].restart = KIN_PERMANENT;
    }
    KIN_NURSERY(n);
    (void)restart_all(&n, specs, children);
    for (int64_t i = 0; i < rounds; i++)
        took[i] = restart_all(&n, specs, children);
    bench_must(kin_nursery_join(&n, NULL), "join");
    bench_sort(took, rounds);
    bench_print("time", (double)took[rounds / 2] / (double)count / 1e3, "us");
    return 0;
}

int bench_restartall(void)
{
    return bench_run(restartall_main);
}

/* ---- many children ---- */

static int children_main(void *arg)
{
    const struct kin_child_spec spec = {.start = start_idler, .restart = KIN_TEMPORARY};
    double n = (double)bench_args.n;
    (void)arg;
    KIN_NURSERY(nursery);
    struct kin_addr child, sup = start(&nursery, KIN_TEMPLATE, &spec, 1);
    int64_t before = bench_memory(), begin = bench_now();
    for (int64_t i = 0; i < bench_args.n; i++)
        bench_must(kin_supervisor_start_child(sup, NULL, &child, KIN_NEVER), "start of a child");
    bench_print("start", (double)(bench_now() - begin) / n / 1e3, "us");
    bench_print("memory", (double)(bench_memory() - before) / n, "B");
    begin = bench_now();
    stop(sup);
    bench_print("stop", (double)(bench_now() - begin) / n / 1e3, "us");
    bench_must(kin_nursery_join(&nursery, NULL), "join");
    return 0;
}

int bench_children(void)
{
    return bench_run(children_main);
}
