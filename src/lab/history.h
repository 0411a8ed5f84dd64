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
    uint64_t value;        /* the item, or its hash if it is longer than this */
    uint32_t player;       /* who called */
    uint8_t call;          /* enum kin__call */
    uint8_t came;          /* enum kin__came */
    bool is_blind;         /* of a receive: nobody looked at the item */
};

#define KIN__HISTORY_MAX 4096u /* calls of one execution */

enum kin__sense {
    KIN__SENSE_MADE,     /* some order explains the calls */
    KIN__SENSE_NONE,     /* no order does */
    KIN__SENSE_UNDECIDED /* the search was too long, and no sure sign of a fault was found */
};

/* Whether some order of the calls on one queue explains what they returned: each takes effect at
 * one moment while it is under way, items leave in the order in which they came, none is lost,
 * there are never more than fit, and nothing is sent after a close. The first call is MADE; they
 * are sorted by until; there are KIN__HISTORY_MAX at most. *wrong receives, if no order does, a
 * call that does not fit. */
enum kin__sense kin__history_check(const struct kin__happening *calls, size_t count,
                                   const struct kin__happening **wrong);

/* The first call that no order can explain, found without a search: a receive of what nobody had
 * begun to send so often, or of an item that was sent after another one and taken before it. NULL:
 * there is none, which says nothing about the rest. */
const struct kin__happening *kin__history_sign(const struct kin__happening *calls, size_t count);

/* ---- the history of an execution ---- */

void kin__history_begin(void);
/* All queues; fails the execution if one makes no sense. */
void kin__history_end(void);

#endif
