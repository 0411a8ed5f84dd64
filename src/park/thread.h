/* SPDX-License-Identifier: MIT */
/*
 * Waiting outside of a task.
 */
#ifndef KIN_PARK_THREAD_H
#define KIN_PARK_THREAD_H

#include "park/park.h"

#include <kin/time.h>

/* Blocks the calling thread, which runs no task, until ops completes or the deadline comes: its
 * status, KIN_TIMEOUT, -ENOMEM. */
int kin__wait_thread(const struct kin__waitable *ops, void *object, void *io, kin_time deadline);

#endif
