/* SPDX-License-Identifier: MIT */
/*
 * Ends of simulated connections: bytes, their way from one end to the other, and their end.
 *
 * What is written arrives at once, unless the link takes time, is cut, or a fault makes it late.
 * While something is under way, whatever is written later is held and leaves when that has arrived:
 * nothing overtakes, nothing is early, and a byte is late by one latency at most.
 *
 * As of real ones: an end that is closed with bytes unread resets the other, which can still read
 * what has arrived there; the first write to a TCP socket whose other end reads no more goes well,
 * and is answered with a reset. Whoever is reset after the other's end has come is told EPIPE, else
 * ECONNRESET.
 *
 * Faults, of sockets only:
 *     reset         both ends are told, and all bytes are gone
 *     short read    one, half or all but one of the bytes that are there
 *     short write   likewise, and the next write has to wait
 *     late          what is written, or the end, takes a while
 *     partition     nothing gets from one machine to the other for a while: lab/hosts.c
 *
 * Footprints: a direction is one thing, an end's own state (error, is_mute) is another.
 */
#define _GNU_SOURCE 1
#include "lab/stream.h"

#include "lab/hosts.h"
#include "lab/world.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>

#define ENDS_MAX 65536u  /* in one execution */
#define ROOM_FIRST 16384u /* bytes of a ring; it grows */
#define SOON_NS INT64_C(1000000)      /* how late is late: */
#define LONG_NS INT64_C(10000000000)

static struct kin__end *ends; /* reserved once */
static uint32_t ends_count;

/* Memory that connections had which are over. */
struct ring {
    struct kin__room bytes;
    uint32_t room;
};
static struct kin__room spares; /* struct ring */
static uint32_t spare_count;

static void give_ring(struct kin__stream *in)
{
    if (in->room && kin__room_fits(&spares, spare_count + 1, sizeof(struct ring)))
        ((struct ring *)spares.base)[spare_count++] = (struct ring){in->bytes, in->room};
    else
        kin__room_release(&in->bytes);
    in->bytes = (struct kin__room){NULL, 0};
    in->room = in->head = in->count = in->arrived = in->flying = 0;
}

static void take_ring(struct kin__stream *in)
{
    if (in->room || spare_count == 0)
        return;
    const struct ring *ring = (const struct ring *)spares.base + --spare_count;
    in->bytes = ring->bytes;
    in->room = ring->room;
}

/* ---- executions ---- */

void kin__ends_end(void)
{
    for (uint32_t i = 0; i < ends_count; i++) {
        give_ring(&ends[i].in);
        ends[i] = (struct kin__end){.fd = -1};
    }
    ends_count = 0;
}

void kin__ends_over(void)
{
    for (uint32_t i = 0; i < ends_count; i++) {
        kin__timer_disarm(&ends[i].in.late);
        kin__timer_disarm(&ends[i].in.stall);
    }
}

struct kin__end *kin__end_make(enum kin__end_kind kind, uint16_t host)
{
    if (!ends && !(ends = kin__vm_reserve(ENDS_MAX * sizeof(*ends))))
        return NULL;
    if (ends_count == ENDS_MAX)
        return NULL;
    struct kin__end *end = &ends[ends_count++];
    end->fd = -1;
    end->kind = kind;
    end->host = host;
    return end;
}

void kin__end_join(struct kin__end *a, struct kin__end *b)
{
    a->peer = b;
    b->peer = a;
}

void kin__sim_arm(struct kin__timer *timer, void (*fire)(void *object, uint64_t name), void *object,
                  int64_t ns)
{
    timer->fire = fire;
    timer->object = object;
    kin__timer_arm(timer, kin__world.sched, kin__world.now + ns);
}

int64_t kin__sim_delay(void)
{
    return kin__lab_choose(KIN__CHOICE_NET, 2, "how late") ? LONG_NS : SOON_NS;
}

/* ---- the way ---- */

static bool is_socket(const struct kin__end *end)
{
    return end->kind >= KIN__END_UNIX;
}

static bool fails(const struct kin__end *end, const char *how)
{
    return is_socket(end) && kin__lab_fault_happens(KIN_FAULT_NET, how);
}

static bool is_cut(const struct kin__end *to)
{
    return kin__link_is_cut(to->peer->host, to->host);
}

/* The next so many bytes are here, and the end behind them perhaps. */
static void arrive(struct kin__end *to, uint32_t bytes, bool is_end)
{
    struct kin__stream *in = &to->in;
    kin__lab_touch(in, KIN__LAB_WRITE);
    in->arrived += bytes;
    in->end_is_here = in->end_is_here || is_end;
    in->end_was_sent = in->end_was_sent || is_end;
    if (!to->is_closed)
        kin__sim_tell(to->fd, KIN__READY_READ | (is_end ? KIN__READY_MORE : 0));
}

static void send_off(struct kin__end *to, int64_t delay);

static void fire_late(void *object, uint64_t name)
{
    struct kin__end *to = object;
    struct kin__stream *in = &to->in;
    uint32_t bytes = in->flying;
    bool is_end = in->end_flies;
    (void)name;
    in->is_late = in->end_flies = false;
    in->flying = 0;
    if (!is_cut(to)) { /* else it is held again */
        arrive(to, bytes, is_end);
        send_off(to, 0);
    }
    kin__sims_flush();
}

/* What is held leaves, if it can. */
static void send_off(struct kin__end *to, int64_t delay)
{
    struct kin__stream *in = &to->in;
    uint32_t bytes = in->count - in->arrived;
    bool is_end = in->has_ended && !in->end_was_sent;
    if (to->is_broken || in->is_late || is_cut(to) || (!bytes && !is_end))
        return;
    int64_t ns = kin__link_latency(to->peer->host, to->host) + delay;
    if (ns == 0) {
        arrive(to, bytes, is_end);
        return;
    }
    in->flying = bytes;
    in->end_flies = is_end;
    in->is_late = true;
    kin__sim_arm(&in->late, fire_late, to, ns);
}

void kin__ends_release(void)
{
    for (uint32_t i = 0; i < ends_count; i++) {
        if (ends[i].peer)
            send_off(&ends[i], 0);
    }
}

/* Something is about to leave an end: how late it is, beside what the link takes. */
static int64_t hinder(const struct kin__end *end)
{
    kin__link_hinder(end->host, end->peer->host);
    return fails(end, "late") ? kin__sim_delay() : 0;
}

/* ---- bytes ---- */

/* Room for n bytes more. */
static bool fits(struct kin__stream *in, uint32_t n)
{
    take_ring(in);
    uint32_t room = in->room ? in->room : ROOM_FIRST;
    while (room < in->count + n) /* ends: at KIN__STREAM_BYTES */
        room *= 2;
    if (room == in->room)
        return true;
    if (!kin__room_fits(&in->bytes, room, 1))
        return false;
    char *bytes = in->bytes.base;
    if (in->head + in->count > in->room) /* what went on at the begin goes on behind the end */
        memcpy(bytes + in->room, bytes, in->head + in->count - in->room);
    in->room = room;
    return true;
}

static void put(struct kin__stream *in, const char *from, uint32_t n)
{
    char *bytes = in->bytes.base;
    uint32_t at = (in->head + in->count) % in->room;
    uint32_t first = in->room - at < n ? in->room - at : n;
    memcpy(bytes + at, from, first);
    memcpy(bytes, from + first, n - first);
    in->count += n;
}

static void get(const struct kin__stream *in, char *to, uint32_t n)
{
    const char *bytes = in->bytes.base;
    uint32_t first = in->room - in->head < n ? in->room - in->head : n;
    memcpy(to, bytes + in->head, first);
    memcpy(to + first, bytes, n - first);
}

static void drop(struct kin__stream *in, uint32_t n)
{
    in->head = (in->head + n) % in->room;
    in->count -= n;
    in->arrived -= n;
}

/* Fewer than n, which is 2 at least: one, half of them, or all but one. */
static uint32_t shorter(uint32_t n)
{
    uint32_t ways = n > 3 ? 3 : n - 1;
    uint32_t way = ways > 1 ? kin__lab_choose(KIN__CHOICE_NET, ways, "how short") : 0;
    return way == 0 ? 1 : way == 1 && ways == 3 ? n / 2 : n - 1;
}

static uint32_t at_most(size_t size, uint32_t n)
{
    return size < n ? (uint32_t)size : n;
}

/* ---- the calls ---- */

int kin__end_error(struct kin__end *end)
{
    int error = end->error;
    kin__lab_touch(&end->error, error ? KIN__LAB_WRITE : KIN__LAB_READ);
    end->error = 0;
    return error;
}

bool kin__end_is_over(const struct kin__end *end)
{
    kin__lab_touch(&end->error, KIN__LAB_READ);
    kin__lab_touch(&end->in, KIN__LAB_READ);
    return end->is_broken || (end->is_mute && end->in.end_was_sent);
}

static bool can_break(const struct kin__end *end)
{
    return !end->peer->is_closed && !is_cut(end);
}

/* What a read finds when there are no bytes. */
static int read_none(struct kin__end *end)
{
    const struct kin__stream *in = &end->in;
    if (end->kind == KIN__END_TCP && in->end_was_sent)
        return 0; /* whatever came behind it */
    int error = kin__end_error(end);
    return error ? error : in->end_is_here ? 0 : -EAGAIN;
}

int64_t kin__end_peek(struct kin__end *end, void *buf, size_t size)
{
    struct kin__stream *in = &end->in;
    kin__lab_touch(in, KIN__LAB_READ);
    bool is_ready = in->arrived || in->end_is_here;
    if (size && is_ready && can_break(end) && fails(end, "reset"))
        kin__end_reset(end);
    if (!size)
        return 0;
    if (!in->arrived)
        return read_none(end);
    kin__lab_touch(in, KIN__LAB_WRITE);
    uint32_t n = at_most(size, in->arrived);
    if (n > 1 && fails(end, "short read")) {
        n = shorter(n);
        /* whoever takes a short read for the last of it is told that it was not */
        kin__sim_tell(end->fd, KIN__READY_READ);
    }
    get(in, buf, n);
    return n;
}

void kin__end_skip(struct kin__end *end, int64_t bytes)
{
    struct kin__stream *in = &end->in;
    drop(in, (uint32_t)bytes);
    if (in->is_wanted && !in->is_stalled) {
        in->is_wanted = false;
        kin__sim_tell(end->peer->fd, KIN__READY_WRITE);
    }
}

int64_t kin__end_read(struct kin__end *end, void *buf, size_t size)
{
    int64_t got = kin__end_peek(end, buf, size);
    if (got > 0)
        kin__end_skip(end, got);
    return got;
}

static void fire_stall(void *object, uint64_t name)
{
    struct kin__end *to = object;
    (void)name;
    kin__lab_touch(&to->in, KIN__LAB_WRITE);
    to->in.is_stalled = to->in.is_wanted = false;
    kin__sim_tell(to->peer->fd, KIN__READY_WRITE);
    kin__sims_flush();
}

/* Room for a write. A pipe takes a short one in one piece or not at all. */
static uint32_t room_of(const struct kin__end *end, size_t size)
{
    const struct kin__stream *out = &end->peer->in;
    uint32_t room = out->is_stalled ? 0 : KIN__STREAM_BYTES - out->count;
    return end->kind == KIN__END_SINK && size <= PIPE_BUF && room < size ? 0 : room;
}

static void break_off(struct kin__end *end, bool keeps);

/* Whether a write makes no sense: 0 or -errno. */
static int check_write(struct kin__end *end)
{
    const struct kin__stream *out = &end->peer->in;
    if (end->kind == KIN__END_SINK)
        return out->is_refused ? -EPIPE : 0;
    if (end->kind == KIN__END_UNIX && (end->is_mute || out->is_refused))
        return -EPIPE; /* an error stays for whoever reads */
    int error = kin__end_error(end);
    return error ? error : end->is_mute ? -EPIPE : 0;
}

/* Bytes for somebody who reads no more: they are answered with a reset. */
static void send_in_vain(struct kin__end *end)
{
    if (is_cut(end))
        return;
    if (!end->peer->is_closed)
        break_off(end->peer, true);
    break_off(end, true);
}

int64_t kin__end_write(struct kin__end *end, const void *buf, size_t size)
{
    struct kin__end *to = end->peer;
    struct kin__stream *out = &to->in;
    kin__lab_touch(out, KIN__LAB_WRITE);
    if (size && !end->is_mute && can_break(end) && fails(end, "reset"))
        kin__end_reset(end);
    int rc = size || is_socket(end) ? check_write(end) : 0;
    if (rc < 0 || !size)
        return rc;
    if (out->is_refused) {
        send_in_vain(end);
        return (int64_t)size;
    }
    uint32_t n = at_most(size, room_of(end, size));
    if (n == 0) {
        out->is_wanted = true;
        return -EAGAIN;
    }
    if (n > 1 && fails(end, "short write")) {
        n = shorter(n);
        out->is_stalled = true;
        kin__sim_arm(&out->stall, fire_stall, to, kin__sim_delay());
    }
    if (!fits(out, n))
        return -ENOBUFS;
    put(out, buf, n);
    send_off(to, hinder(end));
    return n;
}

/* Whether everything is over, so that no call would wait. */
static bool has_hung_up(const struct kin__end *end)
{
    kin__lab_touch(&end->error, KIN__LAB_READ);
    kin__lab_touch(&end->in, KIN__LAB_READ);
    if (end->kind == KIN__END_SINK)
        return end->peer->in.is_refused;
    return end->error || end->is_broken ||
           (end->in.end_is_here && (end->is_mute || end->kind == KIN__END_SOURCE));
}

unsigned kin__end_look(struct kin__end *end, unsigned bits)
{
    unsigned ready = has_hung_up(end) ? bits : 0;
    if ((bits & KIN__READY_READ) && end->kind != KIN__END_SINK) {
        ready |= end->in.arrived ? KIN__READY_READ : 0;
        ready |= end->in.end_is_here ? KIN__READY_READ | KIN__READY_MORE : 0;
    }
    if ((bits & KIN__READY_WRITE) && end->kind != KIN__END_SOURCE) {
        struct kin__stream *out = &end->peer->in;
        bool is_ready = (end->is_mute && end->kind == KIN__END_TCP) || out->is_refused ||
                        room_of(end, PIPE_BUF) > 0;
        kin__lab_touch(out, is_ready ? KIN__LAB_READ : KIN__LAB_WRITE);
        ready |= is_ready ? KIN__READY_WRITE : 0;
        out->is_wanted = out->is_wanted || !is_ready;
    }
    return ready & bits;
}

/* Nothing more is written here; whoever waits for room is told. */
static void mute(struct kin__end *end)
{
    kin__lab_touch(&end->error, KIN__LAB_WRITE);
    end->is_mute = true;
    if (!end->is_closed)
        kin__sim_tell(end->fd, KIN__READY_WRITE);
}

/* The same, and the other end is told. */
static void finish(struct kin__end *end)
{
    struct kin__stream *out = &end->peer->in;
    kin__lab_touch(out, KIN__LAB_WRITE);
    mute(end);
    if (out->has_ended)
        return;
    out->has_ended = true;
    send_off(end->peer, end->peer->is_closed ? 0 : hinder(end));
}

/* Nothing more is read here. */
static void refuse(struct kin__end *end)
{
    struct kin__stream *in = &end->in;
    kin__lab_touch(in, KIN__LAB_WRITE);
    in->is_refused = true;
    in->is_wanted = false;
    if (end->kind == KIN__END_UNIX)
        mute(end->peer);
    else if (!end->peer->is_closed)
        kin__sim_tell(end->peer->fd, KIN__READY_WRITE);
}

int kin__end_shutdown(struct kin__end *end, int how)
{
    struct kin__stream *in = &end->in;
    if (end->kind == KIN__END_TCP && kin__end_is_over(end))
        return -ENOTCONN;
    if (how != SHUT_WR) {
        kin__lab_touch(in, KIN__LAB_WRITE);
        in->end_is_here = true;
        kin__sim_tell(end->fd, KIN__READY_READ | KIN__READY_MORE);
    }
    if (how != SHUT_RD)
        finish(end);
    /* TCP refuses nothing as long as it may write */
    if (in->end_is_here && !in->end_was_sent && (end->kind == KIN__END_UNIX || end->is_mute))
        refuse(end);
    return 0;
}

/* One end of a connection that is reset. What has arrived there can be read, if it is kept. */
static void break_off(struct kin__end *end, bool keeps)
{
    struct kin__stream *in = &end->in;
    kin__lab_touch(&end->error, KIN__LAB_WRITE);
    kin__lab_touch(in, KIN__LAB_WRITE);
    kin__timer_disarm(&in->late);
    kin__timer_disarm(&in->stall);
    bool is_over = kin__end_is_over(end);
    in->count = in->arrived = keeps ? in->arrived : 0;
    in->flying = 0;
    in->has_ended = in->end_is_here = true;
    in->is_late = in->end_flies = in->is_stalled = in->is_wanted = false;
    if (end->is_closed || (is_over && end->kind == KIN__END_TCP))
        return;
    end->error = end->kind == KIN__END_TCP && in->end_was_sent ? -EPIPE : -ECONNRESET;
    end->is_mute = end->is_broken = true;
    kin__sim_tell(end->fd, KIN__READY_READ | KIN__READY_WRITE | KIN__READY_MORE);
}

void kin__end_reset(struct kin__end *end)
{
    break_off(end->peer, false);
    break_off(end, false);
}

void kin__end_close(struct kin__end *end)
{
    end->is_closed = true;
    if (!end->peer)
        return;
    bool has_unread = is_socket(end) && end->in.count;
    kin__timer_disarm(&end->in.late);
    kin__timer_disarm(&end->in.stall);
    refuse(end);
    if (has_unread && can_break(end))
        break_off(end->peer, true);
    else
        finish(end);
    if (end->peer->is_closed) {
        give_ring(&end->in);
        give_ring(&end->peer->in);
    }
}

/* ---- pipes ---- */

static int64_t read_end(void *object, void *buf, size_t size)
{
    return kin__end_read(object, buf, size);
}

static int64_t peek_end(void *object, void *buf, size_t size, int64_t offset)
{
    (void)offset;
    return kin__end_peek(object, buf, size);
}

static int64_t skip_end(void *object, int64_t bytes)
{
    if (bytes)
        kin__end_skip(object, bytes);
    return 0;
}

static int64_t write_end(void *object, const void *buf, size_t size)
{
    return kin__end_write(object, buf, size);
}

static unsigned look_end(void *object, unsigned bits)
{
    return kin__end_look(object, bits);
}

static void close_end(void *object)
{
    kin__end_close(object);
}

/* A pipe that nobody reads is told so even if there is nothing to be sent. */
static int check_sink(const void *object, bool is_write)
{
    const struct kin__end *end = object;
    (void)is_write;
    kin__lab_touch(&end->peer->in, KIN__LAB_READ);
    return end->peer->in.is_refused ? -EPIPE : 0;
}

static const struct kin__sim_ops source_ops = {
    .what = "pipe", .kind = KIN__FD_KIND_OTHER, .read = read_end, .look = look_end,
    .close = close_end, .read_at = peek_end, .skip = skip_end};
static const struct kin__sim_ops sink_ops = {
    .what = "pipe", .kind = KIN__FD_KIND_OTHER, .write = write_end, .look = look_end,
    .close = close_end, .check = check_sink};

int kin__fd_pipe(int fds[2])
{
    uint16_t host = kin__host_here();
    struct kin__end *source = kin__end_make(KIN__END_SOURCE, host);
    struct kin__end *sink = kin__end_make(KIN__END_SINK, host);
    if (!source || !sink)
        return -EMFILE;
    kin__end_join(source, sink);
    source->fd = kin__sim_open(&source_ops, source);
    sink->fd = kin__sim_open(&sink_ops, sink);
    fds[0] = source->fd;
    fds[1] = sink->fd;
    return source->fd < 0 ? source->fd : sink->fd < 0 ? sink->fd : 0;
}
