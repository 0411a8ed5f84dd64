/* SPDX-License-Identifier: MIT */
/*
 * What a server is made of; for the files of servers alone.
 */
#ifndef KIN_OTP_SERVING_H
#define KIN_OTP_SERVING_H

#include "base/heap.h"
#include "otp/mailbox.h"
#include "otp/reply.h"
#include "otp/server.h"
#include "otp/watch.h"
#include "scope/budget.h"

#define KIN__REQUEST_SMALL 128u /* bytes of a request that need no memory of their own */

/* How far the start has come. */
enum kin__server_start {
    KIN__START_SPAWNED = 0, /* its task has not begun */
    KIN__START_BEGUN,
    KIN__START_DONE,     /* it runs, or it has failed: start_rc */
    KIN__START_GIVEN_UP  /* the starter does not wait any more: it ends */
};

/* What a server is to do next. */
enum kin__server_next {
    KIN__NEXT_NOTHING = 0,
    KIN__NEXT_CAST,    /* cast */
    KIN__NEXT_CALL,    /* request, token */
    KIN__NEXT_REQUEST, /* the same, of kin__call_extra */
    KIN__NEXT_INFO,    /* note */
    KIN__NEXT_POSTED,  /* note */
    KIN__NEXT_TIMER,
    KIN__NEXT_ALARM,
    KIN__NEXT_STOP,
    KIN__NEXT_CANCEL,
    KIN__NEXT_REST /* its task has begun a rest: the body returns */
};

struct kin__server_timer {
    struct kin__heap_node node; /* key: when; seq: id, which is the order of those of one moment */
    struct kin__server_timer *next; /* among those of one bucket */
    uint64_t round; /* in which it was set: it is due in later ones */
};

/* The timers of a server, found by id and by time; the server's own. */
struct kin__server_timers {
    struct kin__heap heap;
    struct kin__server_timer **buckets; /* as many as the heap has room for, a power of two */
    uint64_t round;
};

struct kin_server {
    struct kin__bill bill; /* constant: who started it pays */
    /* constant once the task has begun */
    struct kin_server_ops ops;
    const struct kin__server_extra *extra;
    struct kin__sched *sched;
    struct kin__task *task;
    struct kin__party *party; /* NULL: it is none yet */
    uint64_t id;
    uint64_t starter_id;
    const void *arg; /* of on_start, */
    bool has_arg;    /* until that runs; the task's, then of whoever has the block last */
    const char *name;
    struct kin_budget init_budget, stop_budget; /* of on_start; of drain and on_stop */
    int64_t stop_timeout, idle_timeout; /* ns */
    uint8_t overflow, drain;            /* enum kin_overflow, enum kin_drain */

    /* under start_lock (rank WAIT) */
    struct kin__lock start_lock;
    uint8_t start; /* enum kin__server_start */
    int32_t start_rc;
    struct kin_addr taken_by;
    struct kin__waiter *starter; /* parked until start is DONE */
    struct kin__watch *watch;    /* the starter's monitor, which has no target yet; NULL: none */
    kin__a32 refs;               /* its task's, its starter's */

    /* under the lock of the party */
    uint8_t state;  /* enum kin_server_state */
    bool is_asked;  /* kin_server_stop was called, */
    bool is_timed;  /* (the timer of the party is armed) */
    int32_t reason; /* with this reason */
    uint64_t dropped; /* casts that newer ones have pushed out */
    struct kin__mailbox mailbox;
    struct kin__list posted; /* notes of its own kind, oldest first */
    struct kin__list moved;  /* tokens */

    /* What was taken out of the mailbox last: by the server, or, while it waits for it, by a sender
     * that hands it over, under the lock of the party. */
    uint8_t next;            /* enum kin__server_next: CAST, CALL, REQUEST; NOTHING: nothing */
    uint32_t request_size;
    struct kin__letter *cast;
    void *copy;              /* a large request; else it is in small */
    struct kin__reply *token;

    /* the server's own */
    bool was_handed;   /* the last letter was: the mailbox was empty then */
    bool continues;    /* on_continue is next */
    bool is_stopping;  /* it has asked itself to stop with stop_status: when the callback returns */
    bool is_ending;    /* the loop is over, with status */
    bool is_cancelled; /* a callback has said so: it drains */
    bool is_draining;
    bool is_later;     /* KIN__SERVER_LATER, and kin__server_started was not called yet */
    bool has_started;  /* on_start was good, so on_stop is to run, */
    bool has_stopped;  /* unless it has */
    bool has_heard_stop, has_heard_cancel, has_heard_force; /* of a server with an extra */
    bool is_idle_new;  /* a message was handled: the next idle period begins */
    int32_t stop_status, status;
    kin_time idle_at;  /* KIN_NEVER: not in this idle period any more */
    kin_time alarm_at;
    struct kin__note *note; /* what on_info is given, if it is a note */
    struct kin_info timeout; /* and if it is none */
    struct kin__server_timers timers;
    struct kin__phase phase; /* on_start, or the stop, if that has a budget of its own */

    _Alignas(16) unsigned char small[KIN__REQUEST_SMALL];
    _Alignas(16) unsigned char memory[]; /* the state, then the name */
};

/* ---- life (server.c) ---- */

#define KIN__SERVER_NAME "server" /* of its task, unless it has one */

void kin__server_unref(struct kin_server *s);
/* The task has begun. False: the starter has given up, and it must not. */
bool kin__server_begin(struct kin_server *s, struct kin__task *self);
/* Gives the starter's monitor, if there is one, its target: the party of the server, locked. */
void kin__server_watched_locked(struct kin_server *s, struct kin__party *party);
/* The start is done: lets the starter go. False: it has gone, or has been told before. */
bool kin__server_tell_starter(struct kin_server *s, int rc);
/* Empties the box: casts go, callers get a status. */
void kin__server_clear(struct kin_server *s, int status);

/* ---- letters (call.c) ---- */

/* kin__server_holder of a call. */
uint64_t kin__call_holder(const struct kin__task *waiter, const struct kin__waits *waits);

/* Takes a letter that is in no list over as what is next. */
void kin__server_open_locked(struct kin_server *s, struct kin__letter *letter);

/* ---- the body of the task (server_loop.c) ---- */

int kin__server_main(void *arg);
/* When the body is over, or never ran. */
void kin__server_cleanup(void *arg);
/* Takes what is next: that it is to stop or a timer, unless it drains; an info; a letter. */
enum kin__server_next kin__server_take(struct kin_server *s);
/* Runs on_continue, and the callback for what was taken, and looks at what they return. */
void kin__server_continue(struct kin_server *s);
void kin__server_handle(struct kin_server *s, enum kin__server_next next);

/* ---- stopping (server_stop.c) ---- */

/* No newcomers from here on; those who wait for room are refused, and, of a server that drains, the
 * calls in the box, too, unless its policy has them handled. */
void kin__server_close(struct kin_server *s, enum kin_server_state state);
/* What is left to do in the body: the drain, if drains, and on_stop. What the body returns. */
int kin__server_wind_up(struct kin_server *s, bool drains, int status);

/* ---- timers (server_timer.c) ---- */

/* When the first one is due; KIN_NEVER: there is none. */
static inline kin_time kin__server_timer_at(const struct kin_server *s)
{
    const struct kin__heap_node *node = kin__heap_peek(&s->timers.heap);
    return node ? node->key : KIN_NEVER;
}
/* The first timer that is due at now and was set before this round; NULL: none is. */
struct kin__server_timer *kin__server_timer_due(const struct kin_server *s, kin_time now);
/* Takes it off. */
void kin__server_timer_take(struct kin_server *s, struct kin__server_timer *timer,
                            struct kin_info *info);
void kin__server_timers_free(struct kin_server *s);

#endif
