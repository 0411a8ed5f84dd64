/* SPDX-License-Identifier: MIT */
/*
 * Somebody who waits for the end of one task. What a task's end is, is known two floors up.
 */
#ifndef KIN_WAIT_ENDER_H
#define KIN_WAIT_ENDER_H

#include "park/waitable.h"

#include <kin/task.h>

struct kin__ender {
    uint64_t task;            /* whose; 0: any child of scope */
    bool is_known;            /* how says how it ended */
    struct kin__scope *scope; /* where it is linked */
    struct kin_outcome how;
};

/* The waitable whose object is a struct kin__ender; filled in by scope before a task runs. */
extern _Atomic(const struct kin__waitable *) kin__ender_ops;

#endif
