/* SPDX-License-Identifier: MIT */
/*
 * What every harness of atom mode is made of: a list of explorations and a main that runs them.
 *
 * One line for each exploration, as for other tests: "ok", how many executions there are and how
 * many were run in a second, or "FAIL" and the report. The environment may say otherwise:
 *
 *   KIN_ATOMS_DEEP=1     the large ones as well
 *   KIN_ATOMS_QUICK=1    a few thousand executions of each at most
 *   KIN_ATOMS_FIRST=1    stop at the first failure
 *   KIN_ATOMS_RANDOM=n   n executions by dice instead of all of them
 *   KIN_ATOMS_DFS=1      every interleaving, not one of each class
 *   KIN_ATOMS_MEMORY=2   C11's memory for all; 1: TSO, 0: SC
 */
#ifndef KIN_ATOMS_HARNESS_H
#define KIN_ATOMS_HARNESS_H

#include <kin/atoms.h>

#include <stdbool.h>
#include <stdint.h>

struct harness {
    const char *name;
    void (*begin)(void *arg);
    void (*end)(void *arg);
    void *arg;
    enum kin_atoms_memory memory;
    uint64_t executions;  /* exactly so many there are; 0: however many */
    bool is_deep;         /* only with KIN_ATOMS_DEEP */
    unsigned preemptions; /* with no more than so many; 0: however many */
    unsigned stale_max;
    uint64_t executions_max;
    uint64_t outcomes; /* exactly these bits were set by executions; 0: whatever */
};

/* An execution says what came out of it: a number below 64. */
void harness_outcome(unsigned number);

/* The harness defines it; ends with an entry without a name. */
extern const struct harness harnesses[];

#endif
