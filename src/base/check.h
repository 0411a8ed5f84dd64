/* SPDX-License-Identifier: MIT */
/*
 * What a failed check does beyond base/assert.h: it asks a hook who was running.
 */
#ifndef KIN_BASE_CHECK_H
#define KIN_BASE_CHECK_H

#include "base/text.h"

/* Appends the name of the task that runs on this thread, or nothing outside a task. It runs
 * wherever a check failed, with any lock held and perhaps in a signal handler: it takes no lock,
 * allocates nothing and checks nothing itself. */
typedef void kin__check_hook_fn(struct kin__text *text);

/* The floor that knows tasks stores its function here once, through base/atomic.h; NULL until then.
 * The first failed check takes it out, so that a check that fails inside the hook does not call it
 * again. */
extern _Atomic(kin__check_hook_fn *) kin__check_hook;

#endif
