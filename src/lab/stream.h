/* SPDX-License-Identifier: MIT */
/*
 * Ends of a simulated connection: a socket's, a pipe's, one of a pair.
 *
 *     end a  -- written by a, read by b -->  end b         each end has what comes to it; the two
 *            <-- written by b, read by a --                directions have nothing in common
 *
 *     |  arrived  |  flying  |  held  |                    bytes of one direction, the oldest first
 *       a reader    a timer    come when there is a
 *       sees them   brings     way again, or the
 *                   them       timer has come
 */
#ifndef KIN_LAB_STREAM_H
#define KIN_LAB_STREAM_H

#include "lab/fds.h"
#include "lab/room.h"
#include "wait/timer.h"

#define KIN__STREAM_BYTES 65536u /* in one direction: a writer waits then */

/* The two ends of a pipe, or an end of a socket. */
enum kin__end_kind { KIN__END_SOURCE, KIN__END_SINK, KIN__END_UNIX, KIN__END_TCP };

struct kin__stream {
    struct kin__room bytes; /* a ring of room bytes, as long as somebody may read them */
    uint32_t room;
    uint32_t head, count, arrived, flying;
    bool has_ended;             /* nobody writes any more; */
    bool end_flies, end_is_here; /* which the timer brings; which a reader sees, */
    bool end_was_sent;          /* and which is not only because the reader wants no more */
    bool is_refused;            /* nobody reads any more */
    bool is_wanted;             /* a write found no room */
    bool is_late;               /* the timer is armed */
    bool is_stalled;            /* there is no room until the other one comes */
    struct kin__timer late, stall;
};

struct kin__end {
    struct kin__stream in;
    struct kin__end *peer; /* NULL: not connected */
    int fd;                /* who is told */
    int error;             /* what the next call is told, once; with those below: one word */
    bool is_mute;          /* nothing more is written */
    bool is_broken;        /* it was reset */
    bool is_closed;
    uint16_t host;
    enum kin__end_kind kind;
};

/* NULL: there were too many in this execution. */
struct kin__end *kin__end_make(enum kin__end_kind kind, uint16_t host);
void kin__end_join(struct kin__end *a, struct kin__end *b);
int64_t kin__end_read(struct kin__end *end, void *buf, size_t size);
/* A read in two steps: what it would get, and that so many of these bytes are taken. */
int64_t kin__end_peek(struct kin__end *end, void *buf, size_t size);
void kin__end_skip(struct kin__end *end, int64_t bytes);
int64_t kin__end_write(struct kin__end *end, const void *buf, size_t size);
unsigned kin__end_look(struct kin__end *end, unsigned bits);
int kin__end_shutdown(struct kin__end *end, int how);
void kin__end_close(struct kin__end *end);
/* Both ends are told ECONNRESET, and what was under way is gone. */
void kin__end_reset(struct kin__end *end);
/* What a call on it is told now; 0: nothing. */
int kin__end_error(struct kin__end *end);
/* Whether there is no connection any more, as TCP sees it: it was reset, or ended both ways. */
bool kin__end_is_over(const struct kin__end *end);

/* Calls fire(object, name) in so long. */
void kin__sim_arm(struct kin__timer *timer, void (*fire)(void *object, uint64_t name), void *object,
                  int64_t ns);
/* How long a planned delay lasts. */
int64_t kin__sim_delay(void);

/* There may be a way again for what is held. */
void kin__ends_release(void);
/* The runtime is over: nothing comes any more. The execution is: nothing is left. */
void kin__ends_over(void);
void kin__ends_end(void);

#endif
