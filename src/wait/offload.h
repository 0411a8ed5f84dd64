/* SPDX-License-Identifier: MIT */
/*
 * Calls that block a thread, made on threads that are there for it.
 */
#ifndef KIN_WAIT_OFFLOAD_H
#define KIN_WAIT_OFFLOAD_H

#include <kin/time.h>

#include <stdbool.h>
#include <stdint.h>

/* What is blocked for; also what a dump says of the task that waits. */
enum kin__offload_kind {
    KIN__OFFLOAD_CALL, /* foreign code, which takes as long as it likes */
    KIN__OFFLOAD_FILE, /* system calls on files: the system answers */
    KIN__OFFLOAD_NAMES /* the machine's own files about host names */
};

/* Runs fn(arg) on another thread and parks the running task until it is over. The deadline, the
 * task's pushed one and a cancellation hold until fn starts; after that the call waits for fn,
 * whatever comes. 0 when fn has run, KIN_WORKER when it has ended its thread; otherwise it has not
 * run and will not: KIN_TIMEOUT (with deadline 0 or one that has passed: no thread was free),
 * KIN_CANCELLED, KIN_NOTASK, -EAGAIN or -ENOMEM when not even one thread can be had. */
int kin__offload(enum kin__offload_kind kind, void (*fn)(void *), void *arg, kin_time deadline);

/* A runtime begins, a runtime has ended. With the last one the threads end too; true: it was the
 * last one. Calls may be made without any of this: then threads end when they have idled enough. */
void kin__offload_enter(void);
bool kin__offload_leave(void);

/* For foreign code and for kin's own calls each: at most so many threads, 1 to 256, of which one
 * that has nothing to do ends after so long. Takes effect for threads and calls from then on. */
void kin__offload_limit(unsigned threads_max, int64_t idle_ns);
/* Threads there are; and those among them that have nothing to do and can wake nobody. */
unsigned kin__offload_threads(void);
unsigned kin__offload_resting(void);

#endif
