/* SPDX-License-Identifier: MIT */
/*
 * Frames of every kind, from the running worker's cache or, outside of one, from a shared one.
 */
#ifndef KIN_SCHED_BLOCKS_H
#define KIN_SCHED_BLOCKS_H

#include "mem/frame.h"

/* NULL when memory is used up. */
struct kin__frame *kin__block_take(enum kin__frame_kind kind);
void kin__block_give(enum kin__frame_kind kind, struct kin__frame *frame);

#endif
