/* SPDX-License-Identifier: MIT */
/*
 * The right to answer a call: a token that is used once.
 *
 * A handle is no pointer but the name of a use of a frame, so that one which comes late is answered
 * instead of being followed into memory that has become something else:
 *
 *     handle = moved? 63 | number of the use 62..26 | index of the frame 25..0
 *     ctl    =             number of the use          | state
 *
 * Whoever takes ctl from OPEN to another state of the same use has the right to answer, and nobody
 * else. What the token says of the caller is written before ctl is OPEN and read before that step:
 * if the step succeeds, what was read is of this use.
 *
 * A server has one token at hand for the call that it handles. kin_reply_move gives that one away,
 * into the list of those that were moved, and takes a new one: so the list is where answers that
 * somebody has forgotten are found.
 */
#ifndef KIN_OTP_REPLY_H
#define KIN_OTP_REPLY_H

#include "mem/frame.h"
#include "otp/mailbox.h"
#include "task/bill.h"

enum kin__reply_state {
    KIN__REPLY_CLOSED = 0, /* its call is over; or it has none */
    KIN__REPLY_OPEN,       /* somebody may answer */
    KIN__REPLY_SENT,       /* somebody has */
    KIN__REPLY_LEFT        /* somebody tried, and the caller had left */
};

struct kin__reply {
    struct kin__frame frame;
    kin__a64 ctl;
    /* written before ctl is OPEN, read by whoever wants to take it out of that */
    _Atomic(struct kin__task *) task;
    kin__a64 ticket;
    _Atomic(struct kin__call *) call;
    kin__a64 server;       /* the task of the server */
    kin__a32 case_;
    bool is_moved;         /* the server's; then under the lock of its party */
    struct kin__list link; /* among those that were moved; under the lock of the server's party */
    struct kin__bill bill; /* of the server, if this is not the first that it has; constant */
};
_Static_assert(sizeof(struct kin__reply) <= KIN__REPLY_BYTES, "a token is a frame");

/* A token without a call, which nobody pays for; NULL: no memory. */
struct kin__reply *kin__reply_make(uint64_t server);
void kin__reply_free(struct kin__reply *reply);
/* From here on it is the right to answer this call. Under the lock of the party. */
void kin__reply_open(struct kin__reply *reply, const struct kin__letter *letter);
/* The handle of this use. */
struct kin_reply *kin__reply_handle(const struct kin__reply *reply);
/* Nobody has answered or moved it: answers with a status, and it is closed. False: somebody had.
 * *has_left: the caller was gone already. */
bool kin__reply_close(struct kin__reply *reply, int status, bool *has_left);
/* Says that a call of a server was left without an answer; name may be NULL. */
void kin__reply_report(struct kin__sched *sched, uint64_t server, const char *name);
/* Whether it still can be answered. */
bool kin__reply_is_open(const struct kin__reply *reply);

#endif
