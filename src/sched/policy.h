/* SPDX-License-Identifier: MIT */
/*
 * The scheduling decisions, in one table that the lab replaces.
 */
#ifndef KIN_SCHED_POLICY_H
#define KIN_SCHED_POLICY_H

#include <stdint.h>

struct kin__worker;
struct kin__sched;

struct kin__policy {
    /* Picks until the order of a worker's queues is turned round next; >= 1. has_timers: the clock
     * is wanted soon. */
    uint32_t (*interval)(struct kin__worker *worker, uint32_t has_timers);
    /* The worker to rob in this attempt of a round; may name the thief itself (then it passes). */
    uint32_t (*victim)(struct kin__worker *thief, uint32_t attempt);
};

/* The table for a victim policy (enum kin_victim). */
const struct kin__policy *kin__policy_for(int victim);

#endif
