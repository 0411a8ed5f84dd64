/* SPDX-License-Identifier: MIT */
/*
 * The program of kin's benchmarks: kin_bench CASE WORKERS N ROUNDS [STACK_KIB].
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct bench_args bench_args;

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t bench_cpu(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t bench_now(void)
{
    return bench_args.workers == 1 ? bench_cpu() : clock_ns(CLOCK_MONOTONIC);
}

int64_t bench_memory(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long long kib, sum = 0;
    if (!file) {
        perror("/proc/self/status");
        exit(1);
    }
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmRSS: %lld", &kib) == 1 || sscanf(line, "VmPTE: %lld", &kib) == 1)
            sum += kib * 1024;
    }
    fclose(file);
    return sum;
}

void bench_print(const char *name, double value, const char *unit)
{
    printf("%s %.6g %s\n", name, value, unit);
}

void bench_die(int rc, const char *what)
{
    fprintf(stderr, "%s: %s\n", what, kin_status_name(rc));
    exit(1);
}

void *bench_alloc(int64_t count, int64_t size)
{
    void *p = malloc((size_t)(count * size));
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memset(p, 0, (size_t)(count * size));
}

int bench_run_on(unsigned workers, kin_task_fn *fn)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = workers;
    config.stall_threshold = bench_args.stall_threshold;
    config.stack_max_bytes = (size_t)bench_args.stack_kib * 1024;
    bench_must(kin_run(&config, fn, NULL), "kin_run");
    return 0;
}

int bench_run(kin_task_fn *fn)
{
    return bench_run_on(bench_args.workers, fn);
}

uint64_t bench_random(uint64_t i)
{
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void bench_sort(int64_t *values, int64_t count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
}

static const struct {
    const char *name;
    int (*run)(void);
} cases[] = {
    {"switch", bench_switch},         {"yield", bench_yield},
    {"spawn1", bench_spawn1},         {"batch", bench_batch},
    {"queued", bench_queued},         {"parkwake", bench_parkwake},
    {"fib", bench_fib},               {"skynet", bench_skynet},
    {"halves", bench_halves},
    {"steal", bench_steal},           {"parked", bench_parked},
    {"sleepers", bench_sleepers},     {"pingpong", bench_pingpong},
    {"crossping", bench_crossping},   {"chan", bench_chan},
    {"crossbuf", bench_crossbuf},     {"ring", bench_ring},
    {"chansky", bench_chansky},       {"close", bench_close},
    {"select", bench_select},         {"mutex", bench_mutex},
    {"mutexheld", bench_mutexheld},   {"nursery0", bench_nursery0},
    {"checkpoint", bench_checkpoint}, {"defer", bench_defer},
    {"cancel", bench_cancel},         {"canceltree", bench_canceltree},
    {"hog", bench_hog},               {"echo", bench_echo},
    {"file", bench_file},             {"call", bench_call},
    {"callpairs", bench_callpairs},   {"cast", bench_cast},
    {"monitor", bench_monitor},       {"watched", bench_watched},
    {"whereis", bench_whereis},       {"restart", bench_restart},
    {"restartall", bench_restartall}, {"children", bench_children},
    {"serverstart", bench_serverstart},
    {"serveralive", bench_serveralive},
};

int main(int argc, char **argv)
{
    if (argc >= 5) {
        bench_args.workers = (unsigned)atoi(argv[2]);
        bench_args.n = atoll(argv[3]);
        bench_args.rounds = atoll(argv[4]);
        bench_args.stack_kib = argc > 5 ? atoll(argv[5]) : 0;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            if (strcmp(cases[i].name, argv[1]) == 0)
                return cases[i].run();
        }
    }
    fprintf(stderr, "usage: %s CASE WORKERS N ROUNDS [STACK_KIB]; see bench/README.md\n", argv[0]);
    return 2;
}
