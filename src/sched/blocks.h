/* SPDX-License-Identifier: MIT */
/*
 * Frames of every kind, from the running worker's cache or, outside of one, from a shared one.
 */
#ifndef KIN_SCHED_BLOCKS_H
#define KIN_SCHED_BLOCKS_H

#include "mem/frame.h"
#include "task/bill.h"

/* NULL when memory is used up. */
struct kin__frame *kin__block_take(enum kin__frame_kind kind);
/* The same at the expense of the running task, which is charged bytes. NULL: *rc is -ENOMEM or
 * KIN_BUDGET, and nobody owes anything. */
struct kin__frame *kin__block_take_billed(enum kin__frame_kind kind, size_t bytes,
                                          struct kin__bill *bill, int *rc);
void kin__block_give(enum kin__frame_kind kind, struct kin__frame *frame);

#endif
