/* SPDX-License-Identifier: MIT */
/*
 * Small programs of I/O that are made from a number, and have one outcome whatever the schedule.
 *
 * The same program runs in production (twin.c) and in the lab (twin_test.c); what it writes down,
 * each status and each byte, must be the same. It has a few places for descriptors, and calls that
 * are made on them, now and then on the wrong ones. One task acts at a time: another one may wait
 * in a call meanwhile, and whenever the first has done something it lets the other come as far as
 * it can (twin.settle). Ports are named in the order in which they are seen.
 *
 * Not in it, because systems differ: how much fits into a full socket (that it is full is in it),
 * permissions, times, sizes of directories, files larger than the lab's, and files that are changed
 * while they are being sent.
 */
#ifndef KIN_TEST_LAB_TWIN_H
#define KIN_TEST_LAB_TWIN_H

#include <kin/kin.h>

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define TWIN_PLACES 8
#define TWIN_OPS 40
#define TWIN_TEXT 32768
#define TWIN_FAR kin_after(KIN_SEC(3)) /* of what is there, or surely comes */

enum twin_kind { TWIN_NONE, TWIN_TCP, TWIN_UNIX, TWIN_END, TWIN_UDP, TWIN_PIPE, TWIN_FILE };

/* A place for a descriptor. */
struct twin_place {
    enum twin_kind kind; /* TCP and UNIX: listeners */
    int fd;
    int peer;                   /* the place of the other end; -1: none, or it was closed */
    size_t due;                 /* bytes that can be read */
    int backlog, queued;        /* of a listener, */
    int waiting[TWIN_PLACES];   /* and who waits to be accepted */
    bool is_broken;             /* something was shut down: it cannot be filled */
    char addr[KIN_ADDR_MAX];    /* of a listener or datagrams */
};

/* A call that another task makes. */
struct twin_call {
    struct twin_place *place;
    int fd;
    int64_t rc;
    unsigned which;
    size_t size;
    _Atomic bool is_over;
    char text[256];
};

static struct {
    uint64_t random;
    const char *home;        /* a directory of its own, with a slash */
    char base[64];           /* one in it, made and removed by each program */
    bool has_v6;
    void (*settle)(void);    /* lets everybody else come as far as they can */
    unsigned families;       /* which calls it has: 1 sockets, 2 files */
    struct twin_place places[TWIN_PLACES];
    char gone[KIN_ADDR_MAX]; /* the address of a listener that was closed */
    unsigned ports[64], port_count;
    unsigned sent;           /* bytes so far: the next is made from it */
    struct twin_call call;   /* under way, if has_call */
    struct kin_task_ref caller;
    bool has_call;
    bool is_lent;            /* a file was sent: what is written to it now may be sent instead */
    char buf[1 << 21];
    char text[TWIN_TEXT];
    size_t length;
} twin;

/* ---- numbers and words ---- */

static uint32_t twin_pick(uint32_t n)
{
    uint64_t x = twin.random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((x ^ x >> 31) % n);
}

static __attribute__((format(printf, 1, 2))) void twin_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t room = sizeof(twin.text) - twin.length;
    int length = vsnprintf(twin.text + twin.length, room, format, args);
    va_end(args);
    if (length > 0 && (size_t)length < room)
        twin.length += (size_t)length;
}

/* A status; what the system says by its number. */
static const char *twin_status(int64_t rc)
{
    static char text[2][48];
    static unsigned turn;
    turn ^= 1;
    if (rc >= 0)
        snprintf(text[turn], sizeof(text[turn]), "%lld", (long long)rc);
    else
        snprintf(text[turn], sizeof(text[turn]), "%s", kin_status_name((int)rc));
    return text[turn];
}

static uint32_t twin_hash(const char *bytes, size_t size)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 16777619u;
    return hash;
}

/* An address without what differs from run to run. */
static const char *twin_address(const char *addr)
{
    static char text[KIN_ADDR_MAX + 16];
    const char *base = strstr(addr, twin.base), *colon = strrchr(addr, ':');
    if (base) {
        snprintf(text, sizeof(text), "%.*s~%s", (int)(base - addr), addr,
                 base + strlen(twin.base));
        return text;
    }
    unsigned port = colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0, i = 0;
    if (port == 0)
        return addr;
    while (i < twin.port_count && twin.ports[i] != port) /* ends: as it says */
        i++;
    if (i == twin.port_count && i < 64)
        twin.ports[twin.port_count++] = port;
    snprintf(text, sizeof(text), "%.*s:P%u", (int)(colon - addr), addr, i);
    return text;
}

/* Bytes that were never sent before, with an end of a line now and then. */
static const char *twin_bytes(size_t size)
{
    for (size_t i = 0; i < size; i++, twin.sent++)
        twin.buf[i] = twin.sent % 11 == 10 ? '\n' : (char)('a' + twin.sent % 97 % 26);
    return twin.buf;
}

/* ---- places ---- */

static struct twin_place *twin_free(void)
{
    for (int i = 0; i < TWIN_PLACES; i++) {
        if (twin.places[i].kind == TWIN_NONE)
            return &twin.places[i];
    }
    return NULL;
}

static int twin_index(const struct twin_place *place)
{
    return (int)(place - twin.places);
}

/* One of a kind, as a rule; NULL: there is none. */
static struct twin_place *twin_any(unsigned kinds)
{
    struct twin_place *found[TWIN_PLACES];
    uint32_t count = 0;
    if (twin_pick(12) == 0)
        kinds = ~0u;
    for (int i = 0; i < TWIN_PLACES; i++) {
        struct twin_place *place = &twin.places[i];
        if (place->kind != TWIN_NONE && (kinds & 1u << place->kind))
            found[count++] = place;
    }
    return count ? found[twin_pick(count)] : NULL;
}

#define TWIN_STREAMS (1u << TWIN_END | 1u << TWIN_PIPE)
#define TWIN_LISTENERS (1u << TWIN_TCP | 1u << TWIN_UNIX)
#define TWIN_ALL (~0u)

static struct twin_place *twin_put(struct twin_place *place, enum twin_kind kind, int fd)
{
    *place = (struct twin_place){.kind = kind, .fd = fd, .peer = -1};
    return place;
}

static void twin_join(struct twin_place *a, struct twin_place *b)
{
    a->peer = twin_index(b);
    b->peer = twin_index(a);
}

static struct twin_place *twin_peer(const struct twin_place *place)
{
    return place->peer < 0 ? NULL : &twin.places[place->peer];
}

/* Until when a call waits that nobody may ever end. */
static kin_time twin_deadline(void)
{
    uint32_t which = twin_pick(6);
    return which < 4 ? 0 : which == 4 ? 1 : kin_after(KIN_MS(1));
}

/* Whether a call that takes so much finds it, or it surely comes. */
static bool twin_is_due(const struct twin_place *place, size_t size)
{
    return size && place->due >= size && !place->is_broken && !twin.has_call;
}

static void twin_took(struct twin_place *place, int64_t got)
{
    if (got > 0 && place->kind != TWIN_FILE)
        place->due -= (size_t)got < place->due ? (size_t)got : place->due;
}

static void twin_gave(const struct twin_place *place, size_t put)
{
    struct twin_place *peer = twin_peer(place);
    if (peer)
        peer->due += put;
}

/* Whether nothing should be written now: systems differ in when it is full, and in what becomes of
 * a file that is being sent. */
static bool twin_is_full(const struct twin_place *place)
{
    const struct twin_place *peer = twin_peer(place);
    return (peer && peer->due > 15000) || (twin.is_lent && place->kind == TWIN_FILE);
}

/* ---- closing ---- */

static void twin_close_place(struct twin_place *place)
{
    twin_say("close %d: %s\n", twin_index(place), twin_status(kin_close(place->fd)));
    if (place->kind == TWIN_TCP || place->kind == TWIN_UNIX)
        snprintf(twin.gone, sizeof(twin.gone), "%s", place->addr);
    for (int i = 0; i < TWIN_PLACES; i++) {
        struct twin_place *one = &twin.places[i];
        for (int k = 0; k < one->queued; k++) {
            if (one->waiting[k] == twin_index(place))
                one->waiting[k] = -1;
        }
        if (one->kind != TWIN_NONE && one->peer == twin_index(place)) {
            one->peer = -1;
            one->is_broken = true;
        }
    }
    place->kind = TWIN_NONE;
}

/* ---- making descriptors ---- */

static void twin_listen(void)
{
    static const char *const where[] = {"127.0.0.1:0", "*:0", "[::1]:0", "[::]:0"};
    static const char *const names[] = {"s", "t", "d/s", "", "."};
    struct kin_listen_options options = KIN_LISTEN_OPTIONS_INIT;
    struct twin_place *place = twin_free(), *like;
    char addr[KIN_ADDR_MAX] = "";
    int fd = -1, rc;
    if (!place)
        return;
    options.backlog = (int)twin_pick(3);
    bool is_unix = twin_pick(3) == 0;
    options.shares_port = !is_unix && twin_pick(8) == 0;
    options.only_v6 = twin_pick(4) == 0;
    if (is_unix) {
        snprintf(addr, sizeof(addr), "unix:%s%s", twin.base, names[twin_pick(5)]);
        rc = kin_unix_listen(addr, &options, &fd);
    } else {
        like = twin_pick(3) ? NULL : twin_any(1u << TWIN_TCP);
        snprintf(addr, sizeof(addr), "%s", like ? like->addr : twin.gone[0] && twin_pick(4) == 0
                     ? twin.gone : where[twin_pick(twin.has_v6 ? 4 : 2)]);
        rc = kin_tcp_listen(addr, &options, &fd);
    }
    twin_say("listen %s backlog %d shares %d: %s", twin_address(addr), options.backlog,
             options.shares_port, twin_status(rc));
    if (rc == 0) {
        place = twin_put(place, is_unix ? TWIN_UNIX : TWIN_TCP, fd);
        place->backlog = options.backlog ? options.backlog : 4096;
        rc = kin_local_addr(fd, place->addr, sizeof(place->addr));
        twin_say(", %s at %s", twin_status(rc), twin_address(place->addr));
    }
    twin_say("\n");
    if (rc == 0 && options.shares_port && place->kind == TWIN_TCP && strcmp(addr, place->addr) == 0)
        twin_close_place(place); /* of two that share a port either may be reached */
}

/* The address by which a listener is reached. */
static const char *twin_target(const struct twin_place *listener)
{
    static char addr[KIN_ADDR_MAX + 16];
    const char *port = strrchr(listener->addr, ':');
    if (strncmp(listener->addr, "[::]", 4) == 0)
        snprintf(addr, sizeof(addr), "%s%s", twin_pick(2) ? "[::1]" : "127.0.0.1", port);
    else if (strncmp(listener->addr, "0.0.0.0", 7) == 0)
        snprintf(addr, sizeof(addr), "%s%s", twin_pick(2) ? "" : "127.0.0.1", port);
    else
        return listener->addr;
    return addr;
}

static void twin_say_names(int fd)
{
    char local[KIN_ADDR_MAX] = "", peer[KIN_ADDR_MAX] = "";
    int rc = kin_local_addr(fd, local, sizeof(local));
    twin_say(" local %s %s", twin_status(rc), twin_address(local));
    rc = kin_peer_addr(fd, peer, sizeof(peer));
    twin_say(" peer %s %s", twin_status(rc), twin_address(peer));
}

static void twin_connect(void)
{
    static const char *const odd[] = {"127.0.0.1", "127.0.0.1:65536", ":", "", "[::1:7", "unix:"};
    struct twin_place *listener = twin_any(TWIN_LISTENERS | 1u << TWIN_UDP), *place = twin_free();
    int fd = -1, rc;
    if (!place)
        return;
    bool is_odd = twin_pick(10) == 0, is_listener = false;
    const char *addr = is_odd ? odd[twin_pick(6)] : twin.gone;
    if (!is_odd && listener && listener->addr[0] && twin_pick(6)) {
        addr = twin_target(listener);
        is_listener = listener->kind == TWIN_TCP || listener->kind == TWIN_UNIX;
    }
    bool is_full = is_listener && listener->queued > listener->backlog;
    kin_time until = is_full ? kin_after(KIN_MS(5)) : TWIN_FAR;
    rc = strncmp(addr, "unix:", 5) == 0 ? kin_unix_connect(addr, &fd, until)
                                        : kin_tcp_connect(addr, &fd, until);
    twin_say("connect %s: %s", twin_address(addr), twin_status(rc));
    if (rc == 0) {
        twin_put(place, TWIN_END, fd);
        twin_say_names(fd);
    }
    if (rc == 0 && is_listener && listener->queued < TWIN_PLACES)
        listener->waiting[listener->queued++] = twin_index(place);
    twin_say("\n");
}

/* Who has waited longest to be accepted is: its place, or -1. */
static int twin_take_waiting(struct twin_place *listener)
{
    int from = listener->queued ? listener->waiting[0] : -1;
    if (listener->queued)
        memmove(listener->waiting, listener->waiting + 1, (size_t)--listener->queued * sizeof(int));
    return from;
}

static void twin_accept(void)
{
    struct twin_place *listener = twin_any(TWIN_LISTENERS), *place = twin_free();
    int fd = -1;
    if (!place || !listener)
        return;
    bool is_there = listener->queued > 0 && !listener->is_broken && !twin.has_call;
    int rc = kin_accept(listener->fd, &fd, is_there ? TWIN_FAR : twin_deadline());
    twin_say("accept %d: %s", twin_index(listener), twin_status(rc));
    if (rc == 0) {
        twin_put(place, TWIN_END, fd);
        int from = twin_take_waiting(listener);
        if (from >= 0 && twin.places[from].kind == TWIN_END)
            twin_join(place, &twin.places[from]);
        twin_say_names(fd);
    }
    twin_say("\n");
}

static void twin_open_udp(void)
{
    struct twin_place *place = twin_free(), *like = twin_pick(3) ? NULL : twin_any(1u << TWIN_UDP);
    int fd = -1;
    if (!place)
        return;
    static const char *const where[] = {"127.0.0.1:0", "127.0.0.1:0", "*:0", "[::1]:0"};
    const char *addr = like && like->addr[0] ? like->addr : where[twin_pick(twin.has_v6 ? 4 : 3)];
    int rc = kin_udp_open(addr, &fd);
    twin_say("udp %s: %s", twin_address(addr), twin_status(rc));
    if (rc == 0) {
        twin_put(place, TWIN_UDP, fd);
        rc = kin_local_addr(fd, place->addr, sizeof(place->addr));
        twin_say(" %s", twin_address(place->addr));
        twin_say_names(fd);
    }
    twin_say("\n");
}

static void twin_make_two(void)
{
    int fds[2];
    struct twin_place *a = twin_free();
    bool is_pipe = twin_pick(2);
    if (!a)
        return;
    twin_put(a, is_pipe ? TWIN_PIPE : TWIN_END, -1);
    struct twin_place *b = twin_free();
    if (!b || (is_pipe ? pipe(fds) : socketpair(AF_UNIX, SOCK_STREAM, 0, fds)) != 0) {
        a->kind = TWIN_NONE;
        return;
    }
    twin_put(b, a->kind, fds[1]);
    a->fd = fds[0];
    twin_join(a, b);
    twin_say("%s: %d and %d", is_pipe ? "pipe" : "pair", twin_index(a), twin_index(b));
    twin_say_names(a->fd);
    twin_say("\n");
}

/* ---- bytes ---- */

static size_t twin_size(void)
{
    static const size_t sizes[] = {0, 1, 2, 3, 7, 20, 100, 1000, 5000};
    return sizes[twin_pick(9)];
}

static void twin_write(void)
{
    struct twin_place *place = twin_any(TWIN_STREAMS | 1u << TWIN_FILE);
    size_t size = twin_size(), done = 77;
    if (!place || twin_is_full(place))
        return;
    const char *bytes = twin_bytes(size);
    kin_time until = twin_deadline();
    int rc;
    bool has_parts = twin_pick(3) == 0;
    if (has_parts) {
        size_t first = size / 3;
        struct iovec parts[] = {{(void *)(uintptr_t)bytes, first},
                                {NULL, 0},
                                {(void *)(uintptr_t)(bytes + first), size - first}};
        rc = kin_writev(place->fd, parts, 3, &done, until);
    } else {
        rc = kin_write(place->fd, bytes, size, &done, until);
    }
    twin_say("write%s %d %zu: %s, %zu\n", has_parts ? "v" : "", twin_index(place), size,
             twin_status(rc), done);
    twin_gave(place, done <= size ? done : 0);
}

static void twin_read(void)
{
    struct twin_place *place = twin_any(TWIN_STREAMS | 1u << TWIN_FILE);
    size_t size = twin_size(), done = 0;
    if (!place)
        return;
    kin_time until = twin_is_due(place, size ? 1 : 0) ? TWIN_FAR : twin_deadline();
    char *to = twin.buf;
    ssize_t got;
    unsigned how = twin_pick(4);
    memset(to, 0, size);
    if (how == 0 && size) {
        struct iovec parts[] = {{to, size / 4}, {to + size / 4, size - size / 4}};
        got = kin_readv(place->fd, parts, 2, until);
    } else if (how == 1) {
        until = twin_is_due(place, size) ? until : twin_deadline();
        got = kin_read_full(place->fd, to, size, &done, until);
    } else {
        got = kin_read(place->fd, to, size, until);
    }
    if (how != 1)
        done = got > 0 ? (size_t)got : 0;
    twin_say("read/%u %d %zu: %s, %zu %08x\n", how, twin_index(place), size, twin_status(got), done,
             twin_hash(to, done));
    twin_took(place, (int64_t)done);
}

/* Reads lines through a small buffer; what is left in it is lost. */
static void twin_lines(void)
{
    struct twin_place *place = twin_any(TWIN_STREAMS | 1u << TWIN_FILE);
    struct kin_reader reader;
    char buf[64], *line;
    size_t size, total = 0;
    if (!place || twin.has_call)
        return;
    kin_reader_init(&reader, place->fd, buf, 8 + twin_pick(56));
    int rc = 1;
    twin_say("lines %d:", twin_index(place));
    for (int i = 0; i < 3 && rc > 0; i++) {
        rc = kin_reader_line(&reader, &line, &size, twin_deadline());
        twin_say(" %s", twin_status(rc));
        if (rc > 0) {
            twin_say(" %zu %08x", size, twin_hash(line, size));
            total += size + 1;
        }
    }
    twin_say(", %zu left\n", kin_reader_buffered(&reader));
    twin_took(place, (int64_t)(total + kin_reader_buffered(&reader)));
}

static void twin_print(void)
{
    struct twin_place *place = twin_any(TWIN_STREAMS | 1u << TWIN_FILE);
    struct kin_writer writer;
    char buf[64];
    size_t done = 0;
    if (!place || twin.has_call || twin_is_full(place))
        return;
    kin_writer_init(&writer, place->fd, buf, 8 + twin_pick(56));
    char digits[16];
    size_t put = (size_t)snprintf(digits, sizeof(digits), "%u\n", twin.sent);
    int rc = kin_writer_print(&writer, 0, "%s", digits);
    twin_say("print %d: %s", twin_index(place), twin_status(rc));
    size_t size = twin_pick(100);
    rc = kin_writer_put(&writer, twin_bytes(size), size, &done, 0);
    twin_say(" %s %zu", twin_status(rc), done);
    size_t before = kin_writer_buffered(&writer);
    rc = kin_writer_flush(&writer, 0);
    twin_say(" %s %zu of %zu\n", twin_status(rc), kin_writer_buffered(&writer), before);
    if (rc == 0)
        twin_gave(place, put + done);
}

/* Writes until nothing more fits; then somebody reads all of it, or one end is closed. */
static void twin_fill(void)
{
    struct twin_place *place = twin_any(TWIN_STREAMS), *peer = place ? twin_peer(place) : NULL;
    size_t done = 0, got = 0;
    if (!peer || twin.has_call || place->is_broken || peer->is_broken)
        return;
    memset(twin.buf, 'x', sizeof(twin.buf));
    int rc = 0;
    size_t put = 0;
    while (rc == 0) { /* ends: it becomes full */
        rc = kin_write(place->fd, twin.buf, sizeof(twin.buf), &done, kin_after(KIN_MS(1)));
        put += done;
    }
    twin_say("fill %d: %s, %s", twin_index(place), twin_status(rc), put ? "some" : "none");
    if (rc != KIN_TIMEOUT) {
        twin_say("\n");
        return;
    }
    rc = kin_fd_wait(place->fd, POLLOUT, 0);
    twin_say(", writable %s", twin_status(rc));
    size_t due = put + peer->due;
    while (got < due && rc >= KIN_TIMEOUT) { /* ends: so much was written */
        size_t part = due - got < sizeof(twin.buf) ? due - got : sizeof(twin.buf);
        rc = kin_read_full(peer->fd, twin.buf, part, &done, TWIN_FAR);
        got += done;
        if (rc < 0 || done == 0)
            break;
    }
    twin_say(", drain %s %s", twin_status(rc), got == due ? "all" : "less");
    rc = kin_fd_wait(place->fd, POLLOUT, TWIN_FAR);
    twin_say(", writable %s\n", twin_status(rc));
    peer->due = 0;
}

static void twin_wait(void)
{
    static const short events[] = {POLLIN, POLLOUT, POLLIN | POLLOUT};
    struct twin_place *place = twin_any(TWIN_ALL);
    uint32_t which = twin_pick(3);
    if (!place || (place->kind == TWIN_UNIX && place->is_broken))
        return; /* a Unix listener that is shut down is ready, and has nothing */
    int rc = kin_fd_wait(place->fd, events[which], twin_deadline());
    twin_say("wait %d %u: %s\n", twin_index(place), which, twin_status(rc));
}

static void twin_shutdown(void)
{
    struct twin_place *place = twin_any(1u << TWIN_END | TWIN_LISTENERS);
    if (!place || place->kind == TWIN_UDP || (place->kind == TWIN_UNIX && twin.has_call) ||
        (place->kind == TWIN_TCP && place->is_broken))
        return;
    int how = (int)twin_pick(4);
    int rc = kin_shutdown(place->fd, how);
    twin_say("shutdown %d %d: %s\n", twin_index(place), how, twin_status(rc));
    place->is_broken = true;
    if (twin_peer(place))
        twin_peer(place)->is_broken = true;
}

static void twin_names(void)
{
    struct twin_place *place = twin_any(TWIN_ALL);
    if (!place)
        return;
    twin_say("names %d:", twin_index(place));
    twin_say_names(place->fd);
    twin_say("\n");
}

static void twin_close(void)
{
    struct twin_place *place = twin_any(TWIN_ALL);
    if (!place)
        return;
    int fd = place->fd;
    twin_close_place(place);
    if (twin_pick(3) || twin.has_call)
        return;
    /* nobody has the number yet */
    char byte = 0;
    struct stat about;
    twin_say("closed: %s", twin_status(kin_read(fd, &byte, 1, 0)));
    twin_say(" %s", twin_status(kin_write(fd, &byte, 1, NULL, 0)));
    twin_say(" %s", twin_status(kin_fd_wait(fd, POLLIN, 0)));
    twin_say(" %s", twin_status(kin_shutdown(fd, SHUT_WR)));
    twin_say(" %s", twin_status(kin_fsync(fd)));
    twin_say(" %s", twin_status(kin_pread(fd, &byte, 1, 0)));
    twin_say(" %s", twin_status(kin_fstat(fd, &about)));
    twin_say_names(fd);
    twin_say(" %s\n", twin_status(kin_close(fd)));
}

/* ---- datagrams ---- */

static void twin_send(void)
{
    struct twin_place *place = twin_any(1u << TWIN_UDP), *to = twin_any(1u << TWIN_UDP);
    size_t size = twin_pick(20) ? twin_size() : 65508;
    if (!place || !to || !to->addr[0] || place->kind != TWIN_UDP)
        return;
    ssize_t rc = kin_udp_send(place->fd, twin_bytes(size), size, twin_target(to), 0);
    twin_say("send %d to %d %zu: %s\n", twin_index(place), twin_index(to), size, twin_status(rc));
    if (rc >= 0)
        to->due += 1;
}

static void twin_receive(void)
{
    struct twin_place *place = twin_any(1u << TWIN_UDP);
    size_t size = twin_size();
    char from[KIN_ADDR_MAX] = "";
    if (!place || place->kind != TWIN_UDP)
        return;
    kin_time until = twin_is_due(place, 1) ? TWIN_FAR : twin_deadline();
    ssize_t rc = twin_pick(4) ? kin_udp_recv(place->fd, twin.buf, size, from,
                                             twin_pick(10) ? sizeof(from) : 5, until)
                 : twin_pick(2) ? kin_udp_recv(place->fd, twin.buf, size, NULL, 0, until)
                                : kin_read(place->fd, twin.buf, size, until);
    twin_say("receive %d %zu: %s %08x from %s\n", twin_index(place), size, twin_status(rc),
             twin_hash(twin.buf, rc > 0 ? (size_t)rc : 0), twin_address(from));
    if (place->due && rc >= KIN_TIMEOUT && size)
        place->due--;
}

/* ---- files ---- */

static const char *twin_path(bool may_be_long)
{
    static const char *const names[] = {"a", "b", "c", "d", "d/e", "d/f", "d/e/g", "d/e/h", "a",
                                        "b", "d", "a/x", "d/", "a/", "./a", "d/../b", "", ".", "..",
                                        "d/.", "d/..", "no/x", "d//e", "s", "d/e/"};
    static char paths[2][600];
    static unsigned turn;
    turn ^= 1;
    if (twin_pick(60) == 0)
        return "";
    if (twin_pick(60) == 0 && may_be_long)
        snprintf(paths[turn], sizeof(paths[turn]), "%s%0*d", twin.base,
                 twin_pick(2) ? 255 : 256, 0);
    else
        snprintf(paths[turn], sizeof(paths[turn]), "%s%s", twin.base, names[twin_pick(25)]);
    return paths[turn];
}

static const char *twin_short(const char *path)
{
    return *path ? path + strlen(twin.base) : "nothing";
}

static void twin_open(void)
{
    static const int extras[] = {0, O_CREAT, O_CREAT, O_CREAT | O_EXCL, O_TRUNC, O_APPEND,
                                 O_CREAT | O_TRUNC, O_DIRECTORY, O_CREAT | O_APPEND};
    struct twin_place *place = twin_free();
    const char *path = twin_path(true);
    int fd = -1, flags = (int)twin_pick(3) | extras[twin_pick(9)];
    if (!place)
        return;
    int rc = kin_open(path, flags, twin_pick(2) ? 0666 : 0600, &fd);
    twin_say("open %s %#x: %s\n", twin_short(path), (unsigned)flags, twin_status(rc));
    if (rc == 0)
        twin_put(place, TWIN_FILE, fd);
}

static int64_t twin_offset(void)
{
    static const int64_t offsets[] = {0, 0, 1, 5, 100, 4096, 10000, -1};
    return offsets[twin_pick(8)];
}

static void twin_pread(void)
{
    struct twin_place *place = twin_any(1u << TWIN_FILE);
    size_t size = twin_size();
    int64_t offset = twin_offset();
    if (!place || place->kind != TWIN_FILE || (!size && offset < 0))
        return;
    ssize_t got = kin_pread(place->fd, twin.buf, size, offset);
    twin_say("pread %d %zu at %d: %s %08x\n", twin_index(place), size, (int)offset,
             twin_status(got), twin_hash(twin.buf, got > 0 ? (size_t)got : 0));
}

static void twin_pwrite(void)
{
    struct twin_place *place = twin_any(1u << TWIN_FILE);
    size_t size = twin_size();
    int64_t offset = twin_offset();
    if (!place || place->kind != TWIN_FILE || (!size && offset < 0) || twin.is_lent)
        return;
    ssize_t put = kin_pwrite(place->fd, twin_bytes(size), size, offset);
    twin_say("pwrite %d %zu at %d: %s\n", twin_index(place), size, (int)offset, twin_status(put));
}

static void twin_say_stat(int rc, const struct stat *about)
{
    twin_say("%s", twin_status(rc));
    if (rc == 0)
        twin_say(" mode %o", (unsigned)about->st_mode);
    if (rc == 0 && S_ISREG(about->st_mode))
        twin_say(" size %lld links %u", (long long)about->st_size, (unsigned)about->st_nlink);
    twin_say("\n");
}

static void twin_on_file(void)
{
    struct twin_place *place = twin_any(1u << TWIN_FILE);
    struct stat about = {0};
    int64_t size = twin_offset();
    if (!place)
        return;
    uint32_t which = twin_pick(4);
    twin_say("file/%u %d %d: ", which, twin_index(place), (int)size);
    if (which == 0 && !twin.is_lent)
        twin_say("%s\n", twin_status(kin_ftruncate(place->fd, size)));
    else if (which == 1)
        twin_say("%s\n", twin_status(kin_fsync(place->fd)));
    else if (which == 2)
        twin_say("%s\n", twin_status(kin_fdatasync(place->fd)));
    else if (place->kind == TWIN_FILE)
        twin_say_stat(kin_fstat(place->fd, &about), &about);
    else
        twin_say("nothing\n");
}

static int twin_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void twin_list(const char *path)
{
    struct kin_dir *dir;
    struct kin_dirent entry;
    char names[16][300];
    int count = 0;
    int rc = kin_opendir(path, &dir);
    twin_say("list %s: %s", twin_short(path), twin_status(rc));
    if (rc < 0)
        return;
    while ((rc = kin_readdir(dir, &entry)) > 0 && count < 16) /* ends: there are few */
        snprintf(names[count++], sizeof(names[0]), "%s/%u", entry.name, entry.type);
    kin_closedir(dir);
    qsort(names, (size_t)count, sizeof(names[0]), twin_compare);
    for (int i = 0; i < count; i++)
        twin_say(" %s", names[i]);
    twin_say(" %s", twin_status(rc));
}

static void twin_on_name(void)
{
    struct stat about = {0};
    uint32_t which = twin_pick(7);
    const char *path = twin_path(which < 4), *to = twin_path(false);
    if (which == 6) {
        twin_list(path);
        twin_say("\n");
        return;
    }
    twin_say("name/%u %s: ", which, twin_short(path));
    if (which == 0)
        twin_say("%s\n", twin_status(kin_mkdir(path, 0777)));
    else if (which == 1)
        twin_say("%s\n", twin_status(kin_remove(path)));
    else if (which == 2)
        twin_say("%s\n", twin_status(kin_rmdir(path)));
    else if (which == 3)
        twin_say_stat(kin_stat(path, &about), &about);
    else
        twin_say("to %s %s\n", twin_short(to), twin_status(kin_rename(path, to)));
}

/* Whether two places stand for one file: what a copy within it leaves is anybody's guess. */
static bool twin_is_one(const struct twin_place *a, const struct twin_place *b)
{
    struct stat one, other;
    return a->kind == TWIN_FILE && b->kind == TWIN_FILE && kin_fstat(a->fd, &one) == 0 &&
           kin_fstat(b->fd, &other) == 0 && one.st_ino == other.st_ino;
}

static void twin_copy(void)
{
    struct twin_place *from = twin_any(1u << TWIN_FILE | TWIN_STREAMS);
    struct twin_place *to = twin_any(TWIN_STREAMS | 1u << TWIN_FILE);
    struct kin_copied done = {0};
    if (!from || !to || from == to || to->peer == twin_index(from) || twin.has_call ||
        to->kind == TWIN_UDP || from->kind == TWIN_UDP || twin_is_full(to) || twin_is_one(from, to))
        return;
    uint64_t max = twin_pick(2) ? UINT64_MAX : twin_size();
    int rc = kin_copy(to->fd, from->fd, max, &done, twin_deadline());
    twin_say("copy %d to %d %lld: %s %llu %llu\n", twin_index(from), twin_index(to),
             (long long)max, twin_status(rc), (unsigned long long)done.taken,
             (unsigned long long)done.given);
    twin_took(from, (int64_t)done.taken);
    twin_gave(to, (size_t)done.given);
    twin.is_lent = true;
}

static void twin_sendfile(void)
{
    struct twin_place *from = twin_any(1u << TWIN_FILE), *to = twin_any(TWIN_STREAMS);
    size_t size = twin_size(), done = 77;
    int64_t offset = (int64_t)twin_pick(2) * 3;
    if (!from || !to || from == to || from->kind != TWIN_FILE || to->kind == TWIN_UDP ||
        twin_is_full(to) || twin_is_one(from, to))
        return;
    bool has_offset = twin_pick(2);
    int rc = kin_sendfile(to->fd, from->fd, has_offset ? &offset : NULL, size, &done,
                          twin_deadline());
    twin_say("sendfile %d to %d %zu: %s %zu, %lld\n", twin_index(from), twin_index(to), size,
             twin_status(rc), done, (long long)offset);
    twin_gave(to, done);
    twin.is_lent = true;
}

/* ---- another task that waits ---- */

static int twin_call_it(void *arg)
{
    static char buf[8192];
    struct twin_call *call = arg;
    size_t done = 0;
    char from[KIN_ADDR_MAX] = "";
    int fd = -1;
    int64_t rc = 0;
    switch (call->which) {
    case 0:
        rc = kin_read(call->fd, buf, call->size, KIN_NEVER);
        done = rc > 0 ? (size_t)rc : 0;
        break;
    case 1:
        rc = kin_read_full(call->fd, buf, call->size, &done, KIN_NEVER);
        break;
    case 2:
        rc = kin_accept(call->fd, &fd, KIN_NEVER);
        if (rc == 0)
            kin_close(fd);
        break;
    case 3:
        rc = kin_fd_wait(call->fd, POLLIN, KIN_NEVER);
        break;
    case 4:
        rc = kin_udp_recv(call->fd, buf, call->size, from, sizeof(from), KIN_NEVER);
        done = rc > 0 ? (size_t)rc : 0;
        break;
    default:
        break;
    }
    call->rc = rc;
    snprintf(call->text, sizeof(call->text), "%s, %zu %08x", twin_status(rc), done,
             twin_hash(buf, done));
    call->is_over = true;
    return 0;
}

static void twin_call_begin(struct kin_nursery *n)
{
    struct twin_place *place = twin_any(TWIN_LISTENERS | TWIN_STREAMS | 1u << TWIN_UDP);
    if (!place || place->kind == TWIN_FILE)
        return;
    bool is_listener = place->kind == TWIN_TCP || place->kind == TWIN_UNIX;
    memset(&twin.call, 0, sizeof(twin.call));
    twin.call.place = place;
    twin.call.fd = place->fd;
    twin.call.size = twin_size();
    twin.call.which = twin_pick(6) == 0   ? 3
                      : is_listener       ? 2
                      : place->kind == TWIN_UDP ? 4
                                          : twin_pick(2);
    if (place->kind == TWIN_UNIX && place->is_broken)
        twin.call.which = 2; /* as above */
    twin_say("begin %d call %u %zu\n", twin_index(place), twin.call.which, twin.call.size);
    if (kin_spawn_with(n, NULL, twin_call_it, &twin.call, 0, &twin.caller) < 0)
        return;
    twin.has_call = true;
    twin.settle();
    place->is_broken = true; /* what it takes is not counted */
    place->due = 0;
}

static void twin_call_end(struct kin_nursery *n)
{
    if (!twin.call.is_over)
        kin_ignore(kin_task_cancel(twin.caller));
    kin_ignore(kin_task_join(n, twin.caller, NULL, KIN_NEVER));
    if (twin.call.which == 2 && twin.call.rc == 0)
        (void)twin_take_waiting(twin.call.place);
    twin_say("call: %s\n", twin.call.text);
    twin.has_call = false;
}

/* ---- programs ---- */

typedef void twin_op(void);

static twin_op *const twin_net[] = {
    twin_listen, twin_connect, twin_connect, twin_accept, twin_accept, twin_open_udp, twin_make_two,
    twin_write, twin_write, twin_write, twin_read, twin_read, twin_read, twin_lines, twin_print,
    twin_fill, twin_wait, twin_wait, twin_shutdown, twin_names, twin_close, twin_send, twin_receive,
    twin_send, twin_receive,
};
static twin_op *const twin_files[] = {
    twin_open, twin_open, twin_open, twin_pread, twin_pwrite, twin_on_file, twin_on_name,
    twin_on_name, twin_on_name, twin_on_name, twin_write, twin_read, twin_close, twin_lines,
    twin_print, twin_wait, twin_copy, twin_sendfile, twin_names,
};
#define TWIN_COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void twin_step(struct kin_nursery *n)
{
    bool is_net = twin.families == 1 || (twin.families == 3 && twin_pick(2));
    if (is_net && !twin.has_call && twin_pick(8) == 0) {
        twin_call_begin(n);
        return;
    }
    if (is_net)
        twin_net[twin_pick(TWIN_COUNT(twin_net))]();
    else
        twin_files[twin_pick(TWIN_COUNT(twin_files))]();
    twin.settle();
    if (twin.has_call && (twin.call.is_over || twin_pick(3) == 0))
        twin_call_end(n);
}

/* Takes away what is in the directory. */
static void twin_clean(const char *dir, int depth)
{
    char path[1024];
    struct kin_dir *names;
    struct kin_dirent entry;
    if (kin_opendir(dir, &names) < 0)
        return;
    while (kin_readdir(names, &entry) > 0) { /* ends: one fewer each time */
        snprintf(path, sizeof(path), "%s/%s", dir, entry.name);
        if (kin_remove(path) == -EISDIR && depth < 8) {
            twin_clean(path, depth + 1);
            kin_ignore(kin_rmdir(path));
        }
    }
    kin_closedir(names);
}

/* Runs the program of a number; what it has to say is in twin.text. */
static int twin_run(uint64_t seed)
{
    twin.random = seed;
    twin.length = twin.port_count = twin.sent = 0;
    twin.gone[0] = '\0';
    twin.has_call = twin.is_lent = false;
    memset(twin.places, 0, sizeof(twin.places));
    twin.families = 1 + (unsigned)(seed % 3);
    snprintf(twin.base, sizeof(twin.base), "%sw/", twin.home);
    int rc = kin_mkdir(twin.base, 0777);
    if (rc < 0)
        return rc;
    KIN_NURSERY(n);
    for (int i = 0; i < TWIN_OPS; i++) {
        twin_say("%02d ", i);
        size_t before = twin.length;
        twin_step(&n);
        if (twin.length == before)
            twin.length -= 3;
    }
    if (twin.has_call)
        twin_call_end(&n);
    for (int i = 0; i < TWIN_PLACES; i++) {
        if (twin.places[i].kind != TWIN_NONE)
            twin_close_place(&twin.places[i]);
    }
    twin_list(twin.base);
    twin_say("\n");
    twin_clean(twin.home, 0);
    return kin_nursery_join(&n, NULL);
}

#endif
