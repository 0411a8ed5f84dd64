/* SPDX-License-Identifier: MIT */
/*
 * Signals as things to wait for.
 */
#ifndef KIN_WAIT_SIGNAL_H
#define KIN_WAIT_SIGNAL_H

#include "park/waitable.h"

#include <stdbool.h>
#include <stdint.h>

struct kin__sched;

/* One signal as one task sees it; stays as long as the task. */
struct kin__listener;

/* What must come before a wait: the signal is held for the running task's runtime from here on, and
 * the task hears of each arrival. 0, -EINVAL for one that cannot be, -ENOMEM, -EAGAIN when the
 * thread that listens cannot start. */
int kin__signal_prepare(int signo, struct kin__listener **out);
/* Completes with 0 when the signal arrives, or has arrived since the task's last wait for it;
 * object: struct kin__listener. Whoever waits counts itself: kin__worker_outside. */
extern const struct kin__waitable kin__signal_waitable;

/* Something to be done when one of several signals arrives, by the thread that listens: what object
 * and name stand for is watched as long as it exists. */
enum kin__watched {
    KIN__WATCHED_DONE, /* it was done now */
    KIN__WATCHED_BUSY, /* it was done before, and goes on */
    KIN__WATCHED_OVER  /* there is nothing left to do it to */
};
struct kin__signal_watcher {
    enum kin__watched (*fire)(void *object, uint64_t name);
    bool (*is_over)(void *object, uint64_t name);
};
/* Watches for the set of signals (see plat/signal.h), in the running task's runtime. When nothing
 * was left to be done by a signal that no task ever waited for, it does what it would without kin;
 * one that comes while it is still being done has to come a moment later, because a terminal and a
 * parent process may both send it. As kin__signal_prepare. */
int kin__signal_watch(uint64_t signals, const struct kin__signal_watcher *watcher, void *object,
                      uint64_t name);

/* The tasks of a runtime are over: its signals are given back, and none of its watchers fires any
 * more. With the last runtime the thread that listens ends. */
void kin__signal_leave(struct kin__sched *sched);

#ifdef KIN__LAB
/* Does what the thread that listens would: hands out what has arrived. By a task. */
void kin__signal_deliver(void);
#endif

/* For tests: whether that thread runs; how many things are watched for by all runtimes; how many
 * tasks, some of them over, are known to listen for a signal; and how long the moment between two
 * signals that do not mean the same is. */
bool kin__signal_has_thread(void);
unsigned kin__signal_watches(void);
unsigned kin__signal_listeners(int signo);
void kin__signal_set_gap(int64_t ns);

#endif
