/* SPDX-License-Identifier: MIT */
/*
 * What was called on a queue of items and what it returned: a history, and whether it makes sense.
 */
#ifndef KIN_LAB_HISTORY_H
#define KIN_LAB_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What was called; the numbers are those of base/lab.h. */
enum kin__call {
    KIN__CALL_MADE,  /* the queue begins; value: its capacity */
    KIN__CALL_SEND,
    KIN__CALL_RECV,
    KIN__CALL_CLOSE /* value: 0, or 1 and the number of items inside, which are dropped */
};

enum kin__came {
    KIN__CAME_WELL,
    KIN__CAME_FULL,  /* of a send: there was no room */
    KIN__CAME_EMPTY, /* of a receive: there was nothing */
    KIN__CAME_CLOSED
};

/* One call. It took effect at one moment between the two, or rather must look as if. */
struct kin__happening {
    const void *queue;
    uint64_t since, until; /* moments: each is of one call only */
    uint64_t value;        /* hash of the item */
    uint32_t player;       /* who called */
    uint8_t call;          /* enum kin__call */
    uint8_t came;          /* enum kin__came */
    bool is_blind;         /* of a receive: nobody looked at the item */
};

#define KIN__HISTORY_MAX 200u /* calls that are looked at together */

/* Whether some order of the calls on one queue explains what they returned: each takes effect at
 * one moment while it is under way, items leave in the order in which they came, none is lost,
 * there are never more than fit, and nothing is sent after a close. The first call is MADE; they
 * are sorted by until. Of more than KIN__HISTORY_MAX calls those are looked at that come before the
 * first moment at which the queue is surely empty and nobody is inside, then the next, ...; what is
 * longer than that in one piece is believed. NULL: it makes sense; else the first call that does
 * not. */
const struct kin__happening *kin__history_check(const struct kin__happening *calls, size_t count);

/* ---- the history of an execution ---- */

void kin__history_begin(void);
/* All queues; fails the execution if one makes no sense. */
void kin__history_end(void);

#endif
