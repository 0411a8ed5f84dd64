/* SPDX-License-Identifier: MIT */
/*
 * A server from the inside, and what a supervisor is beyond one.
 *
 *     kin_server_start ---- spawns ----> the server's task
 *       waits for "started"                party, name, on_start, loop, drain, on_stop, end
 *            \                                 /
 *             +---- struct kin_server --------+      one heap block, two references
 *
 * A supervisor is a server with a struct kin__server_extra. It lives under a mask, so that
 * nurseries which it opens are not cancelled from outside, and hears of a cancellation all the
 * same: by on_asked, after which its loop goes on until kin__server_finish. It tells itself things
 * by notes, which other tasks post: they need no room in the mailbox and cannot fail.
 */
#ifndef KIN_OTP_SERVER_H
#define KIN_OTP_SERVER_H

#include "otp/party.h"

#include <kin/server.h>

/* How a server is asked to stop; each at most once, in this order where several come. */
enum kin__asked {
    KIN__ASKED_STOP,   /* by kin_server_stop; reason is its reason, 0 or less */
    KIN__ASKED_CANCEL, /* it was cancelled; reason is why: kin_cancel_reason() */
    KIN__ASKED_FORCED  /* its grace is over, or it was killed: no mask holds that back */
};

/* A callback of these returns as those of struct kin_server_ops do: less than 0 ends the server
 * with it at once. Any may be NULL but on_asked. */
struct kin__server_extra {
    /* It is asked to stop. It is DRAINING from now on: newcomers and the calls in its mailbox have
     * got KIN_STOPPING. The loop goes on with notes and the alarm until kin__server_finish. */
    int (*on_asked)(struct kin_server *s, void *state, enum kin__asked how, int reason);
    /* A note that kin__server_post brought; it is the callee's from now on: done is not called. */
    int (*on_note)(struct kin_server *s, void *state, struct kin__note *note);
    /* The alarm that kin__server_alarm set is due; it is off again. */
    int (*on_alarm)(struct kin_server *s, void *state);
    /* A request of kin__call_extra; as on_call, for which a kin_call of anybody is. */
    int (*on_request)(struct kin_server *s, void *state, const void *req, size_t size,
                      struct kin_reply *reply);
    /* on_start was not run and will not be: arg is given back. Once, from anywhere. */
    void (*on_unused)(const void *arg);
};

/* Of on_start, with an extra only: it has begun and is not ready. Its loop runs with notes, the
 * alarm, infos and on_asked, without letters, until kin__server_started, which lets the starter go
 * and letters in; or until kin__server_finish, whose status then is what the start answers. Infos
 * do not wait for letters that came before them meanwhile. */
#define KIN__SERVER_LATER 2

/* How a server is started by the inside. */
struct kin__server_birth {
    const struct kin__server_extra *extra; /* kept until the server is over */
    struct kin_monitor_ref *monitor; /* NULL, or as kin_server_start_monitor has it */
    const void *site;                /* the code on whose behalf it is spawned */
};

/* kin_server_start with an extra. arg is taken over, whatever comes: on_start gets it, or
 * on_unused. */
int kin__server_start(struct kin_nursery *n, const struct kin_server_ops *ops,
                      const struct kin_server_options *options, const void *arg,
                      const struct kin__server_birth *birth, struct kin_addr *out);

/* ---- for the server's own task, in a callback ---- */

/* Where it is. */
uint64_t kin__server_id(const struct kin_server *s);
struct kin_addr kin__server_addr(const struct kin_server *s);
/* Under which name it was registered; NULL: it has none. */
const char *kin__server_name(const struct kin_server *s);
void *kin__server_state_of(struct kin_server *s);
/* After KIN__SERVER_LATER: it is RUNNING, and kin_server_start returns 0. Once. */
void kin__server_started(struct kin_server *s);
/* It ends when this callback returns: 0 Ok, KIN_CANCELLED as cancelled, otherwise Err(status). With
 * nothing of its mailbox handled; on_stop is the only callback that still runs. The last one before
 * the return counts. */
void kin__server_finish(struct kin_server *s, int status);
/* Calls on_alarm once at this time; KIN_NEVER: not at all. Replaces what was set before. */
void kin__server_alarm(struct kin_server *s, kin_time at);

/* ---- for any task or thread ---- */

/* Brings the server a note of its own kind: on_note gets it, after everything that was posted
 * before it. Never fails, never waits: if the server is over, or ends before it has read it, done
 * is called, without a lock, perhaps at once. done not NULL; the rest of the note is the callee's.
  */
void kin__server_post(uint64_t server, struct kin__note *note);

/* kin_call that reaches on_request of a server with this very extra, and KIN_NOPROC if the server
 * has another or none. *was_taken, unless it is NULL: the request was or will be given to
 * on_request, whatever became of the answer. */
int kin__call_extra(struct kin_addr to, const struct kin__server_extra *extra, const void *req,
                    size_t req_size, void *rep, size_t rep_cap, size_t *rep_size, kin_time deadline,
                    bool *was_taken);

#endif
