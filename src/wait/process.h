/* SPDX-License-Identifier: MIT */
/*
 * A process from the inside: what it is made of, and its steps from the start to the end.
 *
 *     make --> run --> (wait, kill, pipes: by anybody) --> end --> free
 */
#ifndef KIN_WAIT_PROCESS_H
#define KIN_WAIT_PROCESS_H

#include "base/lock.h"
#include "plat/process.h"
#include "task/bill.h"
#include "wait/poll.h"

#include <kin/process.h>

struct kin_process {
    struct kin__lock lock;   /* rank WAIT; child, pipes and how it ended */
    bool is_over;            /* it has ended: wstatus or error says how */
    bool is_reaped;          /* its number is no longer its own */
    bool leads;              /* a group */
    int wstatus;
    int error;               /* 0, or -ECHILD: somebody else knows how it ended */
    struct kin__child child; /* its fd is closed as soon as it is known to be over */
    struct kin__fd watched;  /* the same as something to wait for; entry NULL: it cannot be */
    int pipes[3];            /* our ends; -1: none */
    /* constant */
    int stop_signal;
    int64_t grace;           /* 0: none */
    uint64_t owner;          /* the task it belongs to, */
    uint32_t place;          /* and where among that one's cleanups */
    struct kin__bill bill;   /* of the same task */
};

/* 0, or -EINVAL for what makes no sense; options may be NULL. */
int kin__process_check(const char *const *argv, const struct kin_process_options *options);
/* A process that does not run yet; NULL: no memory. grace is what it has when the options leave
 * that open. */
struct kin_process *kin__process_make(const struct kin_process_options *options, int64_t grace);
/* Starts the program, on another thread while the running task parks. 0 or why not. */
int kin__process_run(struct kin_process *process, const char *const *argv,
                     const struct kin_process_options *options);
/* Sees to it that it is over and reaped, whatever else the running task is asked to do; a kill of
 * the task ends the grace. */
void kin__process_end(struct kin_process *process);
void kin__process_free(struct kin_process *process);

#endif
