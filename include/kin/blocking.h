/* SPDX-License-Identifier: MIT */
/*
 * Blocking calls: functions of others that keep a thread waiting, made from a task.
 *
 * A worker that runs such a function cannot run tasks meanwhile. kin_blocking runs it on a thread
 * of its own and parks the task instead. The threads are called kin-block; they start when they are
 * needed, there are 64 of them at most, and one that has had nothing to do for 10 s ends.
 *
 *     int look_up(void *arg)
 *     {
 *         struct query *query = arg;
 *         return sqlite3_step(query->statement) == SQLITE_ROW ? 0 : -EIO;
 *     }
 *
 *     rc = kin_blocking(look_up, &query, &result, kin_after(KIN_SEC(1)));
 */
#ifndef KIN_BLOCKING_H
#define KIN_BLOCKING_H

#include <kin/base.h>
#include <kin/run.h>
#include <kin/status.h>
#include <kin/time.h>

KIN_BEGIN_DECLS

/**
 * kin_blocking - call a function that blocks its thread, and park until it is over.
 * @fn:       called with @arg outside of any task: calls of kin that need one are KIN_NOTASK in
 *            there. Signals are blocked, but for those that its own instructions cause.
 * @arg:      passed on.
 * @result:   receives what @fn returned; may be NULL.
 * @deadline: until when @fn must have started; KIN_NEVER to wait without end. 0: @fn is called if a
 *            thread is free for it, or can be started.
 *
 * Calls are started in the order in which they were made. Once @fn has started, the call waits for
 * it: nothing can end foreign code from outside, and what @arg points at must stay.
 *
 * Example:
 *     int flush_all(void *arg)
 *     {
 *         return fflush(arg) == 0 ? 0 : -1;
 *     }
 *     int save(FILE *log)
 *     {
 *         int result;
 *         int rc = kin_blocking(flush_all, log, &result, kin_after(KIN_SEC(5)));
 *         return rc < 0 ? rc : result;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  until @fn has started, never after
 * Budget:  1 op; needs KIN_CAP_BLOCKING
 * Returns: 0 when @fn has run; KIN_WORKER when it has ended its thread (pthread_exit) instead of
 *          returning; otherwise it has not run: KIN_TIMEOUT, KIN_CANCELLED, KIN_BUDGET, KIN_NOCAP,
 *          KIN_NOTASK, -EINVAL when @fn is NULL, -EAGAIN or -ENOMEM when not one thread can be
 *          started
 */
KIN_API KIN_MUST_USE int kin_blocking(kin_task_fn *fn, void *arg, int *result, kin_time deadline);

KIN_END_DECLS

#endif
