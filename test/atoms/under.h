/* SPDX-License-Identifier: MIT */
/*
 * What is below the code under test: the scheduler and the system, as thin as they can be.
 *
 * Each thread of a run is a worker with one task of its own. A task that parks commits its park, as
 * the worker that leaves its stack would, and waits until somebody has put it into a run queue; the
 * run queue is a word per task that says so. New tasks of nurseries become threads of their own.
 * Time is a variable. Frames are a few per worker. Checks that fail are failures of the run.
 */
#ifndef KIN_ATOMS_UNDER_H
#define KIN_ATOMS_UNDER_H

#include "harness.h"

#include "sched/sched.h"
#include "task/word.h"

/* Prepares a run: memory, workers, frames, time. */
void under_begin(void);
/* So many free frames for the worker of a thread; without them it has none. */
void under_frames(enum kin__frame_kind kind, unsigned thread, unsigned count);
/* A thread with a worker and a task of its own. */
void under_spawn(const char *name, void (*fn)(void *arg), void *arg);
/* A thread that is no worker. */
void under_spawn_outside(const char *name, void (*fn)(void *arg), void *arg);
/* The task of the running thread. */
struct kin__task *under_self(void);
/* The n-th task that was made by under_spawn. */
struct kin__task *under_task(unsigned n);
struct kin__worker *under_worker(unsigned n);
struct kin__sched *under_sched(void);
/* Time goes on. */
void under_set_now(int64_t now);

#endif
