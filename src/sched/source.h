/* SPDX-License-Identifier: MIT */
/*
 * What a worker polls between tasks. Declared here, filled in by wait/timer.c.
 */
#ifndef KIN_SCHED_SOURCE_H
#define KIN_SCHED_SOURCE_H

#include <stdint.h>

struct kin__worker;

struct kin__source {
    /* Prepares and releases what it keeps per worker. 0 or -ENOMEM. */
    int (*init)(struct kin__worker *worker);
    void (*fini)(struct kin__worker *worker);
    /* Makes runnable what is due at now on owner's behalf, with any worker of the runtime calling.
     * How much it woke. */
    uint32_t (*poll)(struct kin__worker *owner, int64_t now);
};

#endif
