/* SPDX-License-Identifier: MIT */
/*
 * A rest: the wait of a task that has given its stack back.
 *
 *     body:    kin__rest_begin -> KIN__RESTING      it returns KIN__RESTING at once
 *     worker:  the stack is nobody's, the park is committed
 *     ...      woken like any other: by a wake, a cancellation
 *     body:    entered anew, on any stack           it calls kin__rest_end first
 *
 * To others it is parked: its word, its ticket and its waiter are those of any park, and whoever
 * claims it puts it into a run queue. There it has no stack, as one that has not begun, and is run
 * like one. What tells the two apart is that it says what it waits for: kin__task_rests.
 *
 * The case must lie where it stays while the task rests, and beyond: whoever peeks at a parked task
 * (peek.h) may follow the pointer a moment too late. So not in memory that is ever unmapped.
 *
 * A task that cannot get a stack when it is woken ends as one for which there was none at first,
 * with -ENOMEM and with none of its code run. So only a task rests that has nothing to undo: the
 * caller sees to that.
 */
#ifndef KIN_PARK_REST_H
#define KIN_PARK_REST_H

#include "park/park.h"

/* Begins a rest of the running task until the case completes; masks nothing, knows no deadline.
 * KIN__RESTING: the body must return that at once, and touch nothing that others may. 0: there is
 * no need to wait. KIN_CANCELLED: it is asked to stop. */
int kin__rest_begin(struct kin__task *task, struct kin__case *one);
/* The body was entered again: what the wait has come to, its status or KIN_CANCELLED. */
int kin__rest_end(struct kin__task *task, struct kin__case *one);

#endif
