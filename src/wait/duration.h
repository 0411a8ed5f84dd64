/* SPDX-License-Identifier: MIT */
/*
 * Durations that were given where a deadline is asked for.
 */
#ifndef KIN_WAIT_DURATION_H
#define KIN_WAIT_DURATION_H

#include "task/task.h"

/* A deadline of the running task has passed, or is about to be set: reports it, once for each
 * place, if it must have been meant as a duration. what: the wait, or the call. Not for hot paths;
 * no lock is held. */
void kin__duration_look(struct kin__task *task, kin_time deadline, const char *what);

#endif
