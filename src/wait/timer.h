/* SPDX-License-Identifier: MIT */
/*
 * Timers: time as a thing to wait for, with a wheel per worker behind it.
 */
#ifndef KIN_WAIT_TIMER_H
#define KIN_WAIT_TIMER_H

#include "park/park.h"
#include "sched/source.h"
#include "wait/wheel.h"

#include <kin/time.h>

struct kin__worker;

/* A deadline that a task waits for. Lives on the sleeper's stack, as its waiter does. */
struct kin__timer {
    struct kin__wheel_node node;   /* under the wheel's lock */
    struct kin__worker *home;      /* whose wheel it is in; set before it is linked */
    struct kin__task *task;        /* whom to wake, for which park and case */
    uint64_t ticket;
    uint32_t case_;
};

static inline void kin__timer_init(struct kin__timer *timer, kin_time deadline)
{
    timer->node.link.next = NULL; /* in no wheel */
    timer->node.deadline = deadline;
    timer->home = NULL;
}

/* The waitable whose object is a struct kin__timer. Completes with 0. */
extern const struct kin__waitable kin__timer_waitable;
/* What the workers poll. */
extern const struct kin__source kin__timer_source;

/* Waits for one thing until a deadline: its status; KIN_TIMEOUT; KIN_CANCELLED. Deadline 0 does not
 * wait, KIN_NEVER waits without end. */
int kin__wait_until(const struct kin__waitable *ops, void *object, void *io, kin_time deadline,
                    unsigned flags);

/* Deadlines waiting in a worker's wheel, for statistics. */
uint64_t kin__timer_count(struct kin__worker *worker);

#endif
