/* SPDX-License-Identifier: MIT */
/*
 * Tests in several processes.
 */
#ifndef KIN_LAB_JOBS_H
#define KIN_LAB_JOBS_H

#include "lab/main.h"

#include <sys/types.h>

typedef int kin__job_fn(const struct kin__options *options, const struct kin_lab_test *test,
                        struct kin__tally *tally);

struct kin__job {
    pid_t pid;
    int fd;           /* what it prints, and behind it its tally */
    const char *name;
};

/* A ring of jobs in the order in which they were started, which is how they are told. */
struct kin__jobs {
    struct kin__job jobs[KIN__OPTIONS_JOBS];
    unsigned max, first, count;
};

void kin__jobs_init(struct kin__jobs *jobs, unsigned max);
/* Runs fn in a process of its own, or in several that share the seeds; waits while there are too
 * many. False: somebody said stop, and it was not begun. */
bool kin__jobs_start(struct kin__jobs *jobs, const struct kin__options *options,
                     const struct kin_lab_test *test, kin__job_fn *fn, struct kin__tally *tally);
/* Waits for all of them. */
void kin__jobs_finish(struct kin__jobs *jobs, struct kin__tally *tally);

#endif
