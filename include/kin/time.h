/* SPDX-License-Identifier: MIT */
/*
 * Time: points on one monotonic clock, and durations, both in nanoseconds.
 *
 * Deadlines are points, not durations, because points compose: a function hands its own deadline to
 * everything it calls and never adds up what is left. A duration becomes a deadline through
 * kin_after. In the lab the clock is virtual and moves only when every task waits.
 *
 * A duration where a deadline belongs, as in kin_sleep(KIN_SEC(1)), is a point shortly after the
 * start of the system, which has passed: it is reported, once for each place in the program, with
 * the calls that led there.
 */
#ifndef KIN_TIME_H
#define KIN_TIME_H

#include <kin/base.h>

#include <stdint.h>

KIN_BEGIN_DECLS

/* A point in time: nanoseconds of CLOCK_MONOTONIC, one clock for all runtimes. */
typedef int64_t kin_time;

/* The deadline that never comes. */
#define KIN_NEVER INT64_MAX

/* Where a grace is asked for: none, what has to end is killed at once. */
#define KIN_BRUTAL ((int64_t)-1)

/* Durations in nanoseconds. x may be an integer or a fraction: KIN_MS(1.5). */
#define KIN_NS(x) ((int64_t)(x))
#define KIN_US(x) ((int64_t)(INT64_C(1000) * (x)))
#define KIN_MS(x) ((int64_t)(INT64_C(1000000) * (x)))
#define KIN_SEC(x) ((int64_t)(INT64_C(1000000000) * (x)))

/**
 * kin_now - the time.
 *
 * Example:
 *     int64_t duration_of(void (*work)(void))
 *     {
 *         kin_time start = kin_now();
 *         work();
 *         return kin_now() - start;
 *     }
 *
 * From:    task, thread
 * Parks:   no
 * Returns: nanoseconds of CLOCK_MONOTONIC, never less than an earlier call gave; virtual time in
 *          the lab
 */
KIN_API kin_time kin_now(void);

/**
 * kin_after - the point in time that is a duration away from now.
 * @ns: the duration; a negative one gives a point in the past.
 *
 * The sum saturates: kin_after(INT64_MAX) is KIN_NEVER.
 *
 * Example:
 *     int receive_soon(struct kin_chan *chan, int *item)
 *     {
 *         return kin_chan_recv(chan, item, kin_after(KIN_MS(20)));
 *     }
 *
 * From:    task, thread
 * Parks:   no
 * Returns: kin_now() + @ns
 */
KIN_API kin_time kin_after(int64_t ns);

/**
 * kin_sleep - let other tasks run until a point in time.
 * @deadline: when to go on; KIN_NEVER sleeps until the task is cancelled.
 *
 * A deadline that is not in the future returns 0 at once. The scope's own deadline ends the sleep
 * like a cancellation.
 *
 * Example:
 *     int tick_three_times(void *arg)
 *     {
 *         (void)arg;
 *         kin_time next = kin_now();
 *         for (int i = 0; i < 3; i++) {
 *             next += KIN_MS(10);
 *             int rc = kin_sleep(next);
 *             if (rc < 0)
 *                 return rc;
 *         }
 *         return 0;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  at once, and while it sleeps
 * Needs:   KIN_CAP_TIME
 * Budget:  1 op
 * Returns: 0 when the time came, KIN_CANCELLED, KIN_TIMEOUT, KIN_BUDGET, KIN_NOCAP, KIN_NOTASK
 */
KIN_API KIN_MUST_USE int kin_sleep(kin_time deadline);

KIN_END_DECLS

#endif
