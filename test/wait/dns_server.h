/* SPDX-License-Identifier: MIT */
/*
 * A name server for tests: a task on the loopback that answers, lies, hangs or talks nonsense.
 *
 * What it does is told by the first label of the name that is asked for, so that one server can
 * do everything in one test. The second server of a test tells the truth about what the first one
 * does not.
 */
#ifndef KIN_TEST_DNS_SERVER_H
#define KIN_TEST_DNS_SERVER_H

#include "api/in_runtime.h"
#include "wait/dns_message.h"

#include <kin/net.h>

#include <poll.h>

struct dns_server {
    bool is_second;
    int udp, tcp;
    unsigned port;
    _Atomic int datagrams, streams; /* questions so far */
    _Atomic int extended; /* those that say that long datagrams are welcome */
    _Atomic int overlaps; /* questions that came before an earlier one was answered */
    _Atomic int existing; /* of the former, those for names that exist: they always come in pairs */
    /* of the last questions by datagram: what nobody should be able to guess */
    unsigned ids[256], ports[256];
};

struct dns_request {
    unsigned id, type;
    char name[256];
    char from[KIN_ADDR_MAX];
    bool is_stream;
    unsigned room; /* how long an answer may be, if it says so; else 0 */
};

/* The addresses that the truth consists of. */
static const uint8_t dns_v4[4] = {192, 0, 2, 1};
static const uint8_t dns_v6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};
static const uint8_t dns_lie[16] = {6, 6, 6, 6, [15] = 6};

/* Opens both sockets at one port that the system chooses. */
__attribute__((unused)) static void dns_server_open(struct dns_server *server, bool is_second)
{
    char addr[KIN_ADDR_MAX];
    *server = (struct dns_server){.is_second = is_second};
    for (int i = 0; i < 50; i++) {
        EXPECT_EQ(kin_udp_open("127.0.0.1:0", &server->udp), 0);
        EXPECT_EQ(kin_local_addr(server->udp, addr, sizeof addr), 0);
        server->port = (unsigned)atoi(strrchr(addr, ':') + 1);
        int rc = kin_tcp_listen(addr, NULL, &server->tcp);
        if (rc == 0)
            return;
        EXPECT_EQ(rc, -EADDRINUSE); /* somebody else has it for streams */
        EXPECT_EQ(kin_close(server->udp), 0);
    }
    kin_test_skip("no port is free for both kinds of sockets");
}

__attribute__((unused)) static void dns_server_close(struct dns_server *server)
{
    EXPECT_EQ(kin_close(server->udp), 0);
    EXPECT_EQ(kin_close(server->tcp), 0);
}

static bool dns_read_request(const uint8_t *bytes, size_t size, struct dns_request *out)
{
    size_t at = 12, length = 0;
    if (size < 17)
        return false;
    out->id = (unsigned)bytes[0] << 8 | bytes[1];
    while (at < size && bytes[at]) {
        if (length)
            out->name[length++] = '.';
        memcpy(out->name + length, bytes + at + 1, bytes[at]);
        length += bytes[at];
        at += bytes[at] + 1u;
    }
    out->name[length] = '\0';
    out->type = (unsigned)bytes[at + 1] << 8 | bytes[at + 2];
    at += 5;
    if (bytes[11] == 1 && size - at == 11 && bytes[at + 2] == 41)
        out->room = (unsigned)bytes[at + 3] << 8 | bytes[at + 4];
    return bytes[11] == 0 ? at == size : out->room != 0;
}

/* The first label is word. */
static bool dns_is(const struct dns_request *request, const char *word)
{
    size_t size = strlen(word);
    return strncmp(request->name, word, size) == 0 &&
           (request->name[size] == '.' || request->name[size] == '\0');
}

static void dns_put_address(struct message *m, unsigned type, const uint8_t *v4, const uint8_t *v6)
{
    if (type == TYPE_A)
        put_answer(m, NULL, TYPE_A, 300, v4, 4);
    else
        put_answer(m, NULL, TYPE_AAAA, 300, v6, 16);
}

static void dns_put_lie(struct message *m, const struct dns_request *request, unsigned id,
                        const char *name)
{
    put_head(m, id, 0, name, request->type);
    dns_put_address(m, request->type, dns_lie, dns_lie);
}

/* Says more than it was asked: its records must count for nobody but the name in the question. */
static void dns_put_poison(struct message *m, unsigned type)
{
    size_t size = type == TYPE_A ? 4 : 16;
    dns_put_address(m, type, dns_v4, dns_v6);
    put_answer(m, "victim.test", type, 3000, dns_lie, size);
    put_alias(m, "alias.test", 3000, "victim.test");
    set_u16(m, 10, 1); /* and once more, behind the answers */
    put_record(m, "victim.test", type, 3000, dns_lie, size);
}

/* A server that is puzzled by long questions, each in its way; true: it has said so. */
static bool dns_put_puzzled(struct message *m, const struct dns_request *request, bool is_first)
{
    bool is_bare = dns_is(request, "bare"); /* and forgets the question */
    if (!(request->room && (dns_is(request, "old") || is_bare)) &&
        !(is_first && dns_is(request, "stubborn")))
        return false;
    put_head(m, request->id, is_bare ? 4 : 1, request->name, request->type);
    if (is_bare) {
        set_u16(m, 4, 0);
        m->size = 12;
    }
    return true;
}

/* Whether the answer does not fit into a datagram, or the server says so. */
static bool dns_is_cut(const struct dns_request *request, bool is_first)
{
    return dns_is(request, "big") || dns_is(request, "long") || dns_is(request, "drip") ||
           (is_first && (dns_is(request, "hangup") || dns_is(request, "stall")));
}

/* What the server says; false: nothing. */
static bool dns_answer(struct dns_server *server, const struct dns_request *request,
                       struct message *m)
{
    bool is_first = !server->is_second;
    if (request->room)
        atomic_fetch_add(&server->extended, 1);
    if (dns_put_puzzled(m, request, is_first))
        return true;
    put_head(m, request->id, 0x0180, request->name, request->type);
    if (dns_is(request, "silent") && is_first)
        return false;
    if (dns_is(request, "dead") || (dns_is(request, "half") && request->type == TYPE_AAAA))
        return false;
    if (dns_is(request, "none") || dns_is(request, "absent")) {
        put_head(m, request->id, 3, request->name, request->type);
        if (dns_is(request, "none"))
            put_absence(m, 60, 60);
    } else if (dns_is(request, "empty") || (dns_is(request, "v4only") && request->type != TYPE_A)) {
        put_absence(m, 60, 60);
    } else if ((dns_is(request, "fail") && is_first) || dns_is(request, "failing")) {
        put_head(m, request->id, 2, request->name, request->type);
    } else if (dns_is(request, "broken") && is_first) {
        put_answer(m, NULL, request->type, 300, "123", 3);
    } else if (dns_is(request, "loop") && is_first) {
        put_alias(m, NULL, 300, "b.test");
        put_alias(m, "b.test", 300, request->name);
    } else if (dns_is(request, "circle") && is_first) { /* a name that points at itself */
        size_t at = m->size;
        put_answer(m, NULL, request->type, 300, dns_lie, request->type == TYPE_A ? 4 : 16);
        set_u16(m, at, 0xc000 | (unsigned)at);
    } else if (dns_is(request, "counts") && is_first) { /* more of everything than there is */
        dns_put_address(m, request->type, dns_lie, dns_lie);
        for (size_t at = 6; at < 12; at += 2)
            set_u16(m, at, 0xffff);
    } else if (dns_is(request, "generous")) {
        dns_put_poison(m, request->type);
    } else if (dns_is(request, "noise") && is_first) {
        for (size_t i = 2; i < m->size; i++)
            m->bytes[i] = (uint8_t)(i * 37);
    } else if (dns_is(request, "alias")) {
        put_alias(m, NULL, 300, "real.test");
        put_answer(m, "real.test", request->type, 200,
                   request->type == TYPE_A ? dns_v4 : dns_v6, request->type == TYPE_A ? 4 : 16);
    } else if (dns_is(request, "once")) { /* not to be remembered */
        put_answer(m, NULL, request->type, 0, request->type == TYPE_A ? dns_v4 : dns_v6,
                   request->type == TYPE_A ? 4 : 16);
    } else if (dns_is(request, "big") && (request->is_stream || request->room == 1232)) {
        for (unsigned i = 0; i < 40; i++) /* just below that */
            dns_put_address(m, request->type, dns_v4, dns_v6);
    } else if (!request->is_stream && dns_is_cut(request, is_first)) {
        put_head(m, request->id, 0x0200, request->name, request->type);
    } else if (dns_is(request, "long")) {
        for (unsigned i = 0; i < 3000; i++)
            dns_put_address(m, request->type, dns_v4, dns_v6);
    } else {
        dns_put_address(m, request->type, dns_v4, dns_v6);
    }
    return true;
}

/* What comes before the truth: answers that look like it. */
static void dns_mislead(struct dns_server *server, const struct dns_request *request,
                        struct message *m)
{
    int fd = server->udp, elsewhere = -1;
    unsigned count = 1;
    m->size = 0;
    if (dns_is(request, "wrongid")) {
        dns_put_lie(m, request, request->id ^ 1, request->name);
    } else if (dns_is(request, "wrongname")) {
        dns_put_lie(m, request, request->id, "other.test");
    } else if (dns_is(request, "wrongtype")) {
        dns_put_lie(m, request, request->id, request->name);
        set_u16(m, 12 + strlen(request->name) + 2, request->type ^ TYPE_A ^ TYPE_AAAA);
    } else if (dns_is(request, "elsewhere")) {
        EXPECT_EQ(kin_udp_open("127.0.0.1:0", &elsewhere), 0);
        dns_put_lie(m, request, request->id, request->name);
        fd = elsewhere;
    } else if (dns_is(request, "flood") && !server->is_second) {
        dns_put_lie(m, request, request->id ^ 0x5555, request->name);
        count = 100;
    } else if (dns_is(request, "tiny")) {
        put_u16(m, request->id);
    }
    for (unsigned i = 0; i < count && m->size; i++)
        EXPECT_EQ(kin_udp_send(fd, m->bytes, m->size, request->from, KIN_NEVER), m->size);
    if (elsewhere >= 0)
        EXPECT_EQ(kin_close(elsewhere), 0);
}

__attribute__((unused)) static int dns_serve_datagrams(void *arg)
{
    struct dns_server *server = arg;
    struct message *m = malloc(sizeof *m);
    uint8_t bytes[512];
    for (;;) { /* ends: with its nursery */
        struct dns_request request = {0};
        ssize_t got = kin_udp_recv(server->udp, bytes, sizeof bytes, request.from,
                                   sizeof request.from, KIN_NEVER);
        if (got < 0) {
            free(m);
            return got == KIN_CANCELLED ? 0 : (int)got;
        }
        EXPECT(dns_read_request(bytes, (size_t)got, &request));
        int number = atomic_fetch_add(&server->datagrams, 1);
        if (!dns_is(&request, "none") && !dns_is(&request, "absent"))
            atomic_fetch_add(&server->existing, 1);
        server->ids[number % 256] = request.id;
        server->ports[number % 256] = (unsigned)atoi(strrchr(request.from, ':') + 1);
        if (dns_is(&request, "slow") && kin_fd_wait(server->udp, POLLIN, kin_after(KIN_MS(5))) > 0)
            atomic_fetch_add(&server->overlaps, 1);
        dns_mislead(server, &request, m);
        if (dns_answer(server, &request, m))
            EXPECT_EQ(kin_udp_send(server->udp, m->bytes, m->size, request.from, KIN_NEVER),
                      m->size);
    }
}

/* One question over a stream. */
static int dns_serve_stream(struct dns_server *server, int conn, struct message *m)
{
    struct dns_request request = {.is_stream = true};
    uint8_t head[2], bytes[512];
    size_t done;
    int rc = kin_read_full(conn, head, 2, &done, KIN_NEVER);
    if (rc < 0 || done < 2)
        return rc;
    size_t size = (size_t)head[0] << 8 | head[1];
    EXPECT_LE(size, sizeof bytes);
    rc = kin_read_full(conn, bytes, size, &done, KIN_NEVER);
    if (rc < 0)
        return rc;
    EXPECT(dns_read_request(bytes, done, &request));
    atomic_fetch_add(&server->streams, 1);
    if (dns_is(&request, "stall")) /* until the other side has had enough */
        return kin_read(conn, head, 1, KIN_NEVER) == KIN_CANCELLED ? KIN_CANCELLED : 0;
    if (!dns_answer(server, &request, m))
        return 0;
    head[0] = (uint8_t)(m->size >> 8);
    head[1] = (uint8_t)m->size;
    size_t step = dns_is(&request, "drip") ? 1 : m->size;
    rc = kin_write(conn, head, 2, NULL, KIN_NEVER);
    if (dns_is(&request, "hangup"))
        return rc; /* in the middle of it */
    for (size_t at = 0; rc == 0 && at < m->size; at += step) {
        rc = kin_write(conn, m->bytes + at, step, NULL, KIN_NEVER);
        if (rc == 0 && step == 1)
            rc = kin_yield();
    }
    return rc;
}

__attribute__((unused)) static int dns_serve_streams(void *arg)
{
    struct dns_server *server = arg;
    struct message *m = malloc(sizeof *m);
    int conn, rc;
    while ((rc = kin_accept(server->tcp, &conn, KIN_NEVER)) == 0) { /* ends: with its nursery */
        rc = dns_serve_stream(server, conn, m);
        EXPECT_EQ(kin_close(conn), 0);
        if (rc == KIN_CANCELLED)
            break;
    }
    free(m);
    return rc == KIN_CANCELLED ? 0 : rc;
}

__attribute__((unused)) static void dns_serve(struct kin_nursery *n, struct dns_server *server)
{
    EXPECT_EQ(kin_spawn(n, dns_serve_datagrams, server), 0);
    EXPECT_EQ(kin_spawn(n, dns_serve_streams, server), 0);
}

#endif
