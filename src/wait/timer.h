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

struct kin__sched;
struct kin__worker;

/* A deadline. Either a task waits for it: it lives on the sleeper's stack, as its waiter does. Or
 * something is done when it comes: it lives in a frame, and what it names may be over by then. */
struct kin__timer {
    struct kin__wheel_node node; /* under the wheel's lock */
    struct kin__worker *home;    /* whose wheel it is in; set before it is linked */
    void (*fire)(void *object, uint64_t name); /* NULL: a task waits */
    void *object;                /* what fire gets; or the task to wake, */
    uint64_t name;               /* what fire gets; or for which park, */
    uint32_t case_;              /* and which case */
};

/* A timer to wait for; the caller has read the clock just now. */
static inline void kin__timer_init(struct kin__timer *timer, kin_time deadline)
{
    timer->node.link.next = NULL; /* in no wheel */
    timer->node.deadline = deadline;
    timer->home = NULL;
    timer->fire = NULL;
}

/* Calls fire(object, name) at deadline, once, unless it is disarmed before: on a worker of sched,
 * or on its monitor, which is none. fire may come late, even after a disarm: it checks the name
 * under the object's lock. The timer is armed by one thread at a time. */
void kin__timer_arm(struct kin__timer *timer, struct kin__sched *sched, kin_time deadline);
void kin__timer_disarm(struct kin__timer *timer);

/* The waitable whose object is a struct kin__timer. Completes with 0. */
extern const struct kin__waitable kin__timer_waitable;
/* What the workers poll. */
extern const struct kin__source kin__timer_source;

/* Waits for one thing until a deadline or the task's pushed one, whichever is earlier: its status;
 * KIN_TIMEOUT; KIN_CANCELLED. Deadline 0 does not wait, KIN_NEVER waits without end. */
int kin__wait_until(const struct kin__waitable *ops, void *object, void *io, kin_time deadline,
                    unsigned flags);
/* The same for several: the index of the one that completed, with its status in *status. There is
 * room for one case more behind the last. */
int kin__wait_any_until(struct kin__case *cases, uint32_t count, kin_time deadline, unsigned flags,
                        int *status);
/* The earlier of a call's deadline and the one that the task has pushed. */
static inline kin_time kin__deadline_of(const struct kin__task *task, kin_time deadline)
{
    if (KIN__UNLIKELY(task->flags & KIN__TASK_DEADLINE) && task->deadline < deadline)
        return task->deadline;
    return deadline;
}

/* Deadlines waiting in a worker's wheel, for statistics. */
uint64_t kin__timer_count(struct kin__worker *worker);
#ifdef KIN__LAB
/* A run begins: the wheel is empty, and time begins again at now. */
void kin__timer_rewind(struct kin__worker *worker, int64_t now);
#endif

#endif
