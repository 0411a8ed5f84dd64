/* SPDX-License-Identifier: MIT */
/*
 * The report of a runtime that stands still in foreign calls.
 */
#ifndef KIN_SCHED_BLOCKED_H
#define KIN_SCHED_BLOCKED_H

#include <stdint.h>

struct kin__sched;

/* Reports which tasks the count workers that there are run, and where those stand. On the monitor's
 * thread, without a lock. */
void kin__blocked_report(struct kin__sched *sched, unsigned count, int64_t now);

#endif
