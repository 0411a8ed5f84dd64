/* SPDX-License-Identifier: MIT */
/*
 * The wheel: deadlines in eight levels of 64 slots, each level 64 times coarser than the one below.
 *
 *     level 0   |64 slots of 65.5 us|            one lap: 4.2 ms
 *     level 1   |64 slots of 4.2 ms|                      268 ms
 *     level 2   ...                                       17 s, 18 min, 20 h, 52 days, ...
 *
 * A deadline stands in the level of the highest bit in which its tick differs from the wheel's, so
 * it moves down at most once per level and insertion, removal and a step cost the same however many
 * there are. A bitmap per level finds the next slot that is not empty. A slot fires when its whole
 * tick is past: never early, late by a tick at most. Within a slot of level 0 deadlines fire in
 * order of (deadline, order of insertion); outside the lab the search for the place is bounded.
 *
 * Rejected: a heap, which needs an array that can fail to grow and costs twice as much to cancel.
 * No lock in here: timer.c brings it.
 */
#ifndef KIN_WAIT_WHEEL_H
#define KIN_WAIT_WHEEL_H

#include "base/list.h"

#include <stdint.h>

/* A tick is 2^16 ns: fine enough for a sleep, coarse enough for one wake-up to serve several when
 * very many sleep. In the lab it is 1 ns, and time jumps exactly to the next deadline. */
#ifdef KIN__LAB
#define KIN__WHEEL_SHIFT 0u
#define KIN__WHEEL_LEVELS 11u
#else
#define KIN__WHEEL_SHIFT 16u
#define KIN__WHEEL_LEVELS 8u
#endif
#define KIN__WHEEL_SLOTS 64u

struct kin__wheel_node {
    struct kin__list link;
    int64_t deadline; /* ns, >= 0 */
    uint64_t seq;     /* order of insertion; the wheel's */
    uint32_t place;   /* level * 64 + slot; the wheel's */
};

struct kin__wheel {
    uint64_t tick;  /* everything before it has fired */
    uint64_t seq;
    uint64_t count;
    uint64_t used[KIN__WHEEL_LEVELS]; /* bit s: slot s is not empty */
    struct kin__list slots[KIN__WHEEL_LEVELS][KIN__WHEEL_SLOTS];
};

void kin__wheel_init(struct kin__wheel *wheel, int64_t now);
/* Inserts a node that is in no wheel; a deadline in the past fires at the next step. */
void kin__wheel_insert(struct kin__wheel *wheel, struct kin__wheel_node *node);
/* Takes a node out; harmless when it is in no wheel. */
void kin__wheel_remove(struct kin__wheel *wheel, struct kin__wheel_node *node);
/* The next node that is due at now, taken out; NULL when there is none. */
struct kin__wheel_node *kin__wheel_pop(struct kin__wheel *wheel, int64_t now);
/* When the wheel wants to be stepped next; INT64_MAX when it is empty. May be early, never late. */
int64_t kin__wheel_next(const struct kin__wheel *wheel);

#endif
