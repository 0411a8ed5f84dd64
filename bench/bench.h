/* SPDX-License-Identifier: MIT */
/*
 * What kin's benchmark programs share: arguments, clocks, memory of the process, output.
 *
 * One process measures one case once. It prints lines of "name value unit" that run.py collects.
 * With one worker the clock is the CPU time of the whole process, so that whatever else the machine
 * does is not counted; with more it is wall time.
 */
#ifndef KIN_BENCH_H
#define KIN_BENCH_H

#include <kin/kin.h>

#include <stdint.h>

struct bench_args {
    unsigned workers;
    int64_t n, rounds;
    int64_t stack_kib;       /* 0: the default maximum */
    int64_t stall_threshold; /* 0: the default; cases set it */
};

extern struct bench_args bench_args;

/* The cases, each in the file named after its kind. */
int bench_switch(void);
int bench_yield(void);
int bench_spawn1(void);
int bench_batch(void);
int bench_queued(void);
int bench_parkwake(void);
int bench_fib(void);
int bench_skynet(void);
int bench_halves(void);
int bench_steal(void);
int bench_parked(void);
int bench_sleepers(void);
int bench_pingpong(void);
int bench_crossping(void);
int bench_chan(void);
int bench_crossbuf(void);
int bench_ring(void);
int bench_chansky(void);
int bench_close(void);
int bench_select(void);
int bench_mutex(void);
int bench_mutexheld(void);
int bench_nursery0(void);
int bench_checkpoint(void);
int bench_defer(void);
int bench_cancel(void);
int bench_canceltree(void);
int bench_hog(void);
int bench_echo(void);
int bench_file(void);
int bench_call(void);
int bench_callpairs(void);
int bench_cast(void);
int bench_serverstart(void);
int bench_serveralive(void);
int bench_monitor(void);
int bench_watched(void);
int bench_whereis(void);
int bench_restart(void);
int bench_restartall(void);
int bench_children(void);

/* ns of the clock that suits the number of workers. */
int64_t bench_now(void);
/* ns of CPU time of all threads. */
int64_t bench_cpu(void);
/* Bytes that the process occupies, page tables included. */
int64_t bench_memory(void);
void bench_print(const char *name, double value, const char *unit);
/* Ends the program with a message. */
_Noreturn void bench_die(int rc, const char *what);
/* The same when rc is a failure. Inline: it stands in the loops that are measured. */
static inline void bench_must(int rc, const char *what)
{
    if (__builtin_expect(rc < 0, 0))
        bench_die(rc, what);
}
/* Allocates zeroed memory and touches it, or ends the program. */
void *bench_alloc(int64_t count, int64_t size);
/* Runs fn as the first task of a runtime with the workers asked for. */
int bench_run(kin_task_fn *fn);
/* The same with another number of workers, from any thread. */
int bench_run_on(unsigned workers, kin_task_fn *fn);
/* The i-th of a fixed row of random numbers, the same for every peer. */
uint64_t bench_random(uint64_t i);
/* Sorts in place, smallest first. */
void bench_sort(int64_t *values, int64_t count);

#endif
