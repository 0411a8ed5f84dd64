/* SPDX-License-Identifier: MIT */
/*
 * What is polled between tasks. Declared here, filled in by wait.
 */
#ifndef KIN_SCHED_SOURCE_H
#define KIN_SCHED_SOURCE_H

#include <stdint.h>

struct kin__sched;
struct kin__worker;

struct kin__source {
    /* Prepares and releases what it keeps per worker. 0 or -ENOMEM. */
    int (*init)(struct kin__worker *worker);
    void (*fini)(struct kin__worker *worker);
    /* Makes runnable what is due at now on owner's behalf, with any worker of the runtime calling.
     * How much it woke. */
    uint32_t (*poll)(struct kin__worker *owner, int64_t now);
};

/* What a runtime waits for beside time: descriptors, signals, the end of processes. Declared here,
 * filled in by wait/poll.c when the first task waits for one. One thread polls at a time. */
struct kin__outside {
    /* Makes runnable what is ready; waits for it at most ns: 0 not at all, -1 without end. How much
     * it woke. */
    uint32_t (*poll)(struct kin__sched *sched, int64_t ns);
    /* Ends a poll that waits, now or as soon as it begins. */
    void (*wake)(struct kin__sched *sched);
    /* The runtime is over. */
    void (*fini)(struct kin__sched *sched);
};

#endif
