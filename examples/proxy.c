/* SPDX-License-Identifier: MIT */
/*
 * A TCP proxy: proxy LISTEN TARGET, such as proxy 127.0.0.1:8080 example.org:80.
 *
 * A connection is two copies, one for each direction, in a nursery of their own. When one side has
 * said all, the other is told so and may still answer: a half-close travels through. When one copy
 * fails, the nursery cancels the other, and both connections are closed. So they are when neither
 * side has said anything for a while: a peer that is gone without a word must not keep its place.
 *
 * Without arguments it proxies to a server of its own for a few connections, and ends.
 */
#include <kin/kin.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define IDLE KIN_SEC(60)

enum { CLIENTS = 20, CONNECTIONS = 1000, MESSAGE = 200000 };

/* ---- the proxy ---- */

struct pipe_ends {
    int to, from;
    _Atomic uint64_t *moved; /* bytes of both directions */
};

static int copy(void *arg)
{
    struct pipe_ends *ends = arg;
    struct kin_copied done;
    uint64_t before;
    int silent = 0, rc;
    do { /* ends: with the stream, or when nothing has moved either way for two times IDLE */
        before = *ends->moved;
        rc = kin_copy(ends->to, ends->from, UINT64_MAX, &done, kin_after(IDLE));
        *ends->moved += done.given;
        silent = *ends->moved == before ? silent + 1 : 0;
    } while (rc == KIN_TIMEOUT && done.taken == done.given && silent < 2);
    if (rc == 0)
        kin_ignore(kin_shutdown(ends->to, SHUT_WR)); /* that was all: the other side hears it */
    return rc;
}

struct conn {
    const char *target;
    int client;
};

/* A client is its task's to close, even of one that is cancelled before it begins. */
static void hang_up(void *arg)
{
    kin_close(((struct conn *)arg)->client);
}

static int relay(void *arg)
{
    struct conn *conn = arg;
    int server, rc = kin_tcp_connect(conn->target, &server, kin_after(KIN_SEC(10)));
    if (rc == 0) {
        _Atomic uint64_t moved = 0;
        struct pipe_ends there = {server, conn->client, &moved};
        struct pipe_ends back = {conn->client, server, &moved};
        KIN_NURSERY(n);
        rc = kin_spawn(&n, copy, &there);
        if (rc == 0)
            rc = kin_spawn(&n, copy, &back);
        kin_ignore(kin_nursery_end(&n, rc)); /* a side that breaks off is its own business */
        kin_close(server);
    } else if (rc != KIN_CANCELLED) {
        fprintf(stderr, "proxy: %s: %s\n", conn->target, kin_status_text(rc));
    }
    return 0;
}

struct proxy {
    int listener;
    const char *target;
};

static int serve(void *arg)
{
    struct proxy *proxy = arg;
    struct kin_spawn_options when_there_is_room = KIN_SPAWN_OPTIONS_INIT;
    int client, rc;
    when_there_is_room.slot_deadline = KIN_NEVER;
    when_there_is_room.cleanup = hang_up;
    KIN_NURSERY(n, .name = "proxy", .tasks_max = CONNECTIONS);
    while ((rc = kin_accept(proxy->listener, &client, KIN_NEVER)) == 0) { /* ends: when closed */
        struct conn conn = {proxy->target, client};
        rc = kin_spawn_with(&n, &when_there_is_room, relay, &conn, sizeof(conn), NULL);
        if (rc < 0) {
            hang_up(&conn); /* it is still ours */
            break;
        }
    }
    return kin_nursery_end(&n, rc == KIN_CLOSED ? 0 : rc);
}

/* ---- a server and clients to show it ---- */

static void close_it(void *fd)
{
    kin_close(*(int *)fd);
}

/* Answers with the sum of all bytes, once the client has said all. */
static int sum_up(void *arg)
{
    int fd = *(int *)arg, rc;
    char buf[4096], *bytes;
    size_t size;
    uint64_t sum = 0;
    struct kin_reader in;
    kin_reader_init(&in, fd, buf, sizeof(buf));
    while ((rc = kin_reader_some(&in, sizeof(buf), &bytes, &size, KIN_NEVER)) > 0) { /* ends: so */
        for (size_t i = 0; i < size; i++)
            sum += (unsigned char)bytes[i];
    }
    if (rc == 0)
        rc = kin_write(fd, &sum, sizeof(sum), NULL, KIN_NEVER);
    return rc;
}

static int serve_sums(void *arg)
{
    struct kin_spawn_options owning = KIN_SPAWN_OPTIONS_INIT;
    int conn, rc = 0;
    owning.cleanup = close_it;
    KIN_NURSERY(n);
    for (int i = 0; i < CLIENTS && rc == 0; i++) {
        rc = kin_accept(*(int *)arg, &conn, KIN_NEVER);
        if (rc < 0)
            break;
        rc = kin_spawn_with(&n, &owning, sum_up, &conn, sizeof(conn), NULL);
        if (rc < 0)
            kin_close(conn);
    }
    return kin_nursery_end(&n, rc);
}

static char message[MESSAGE];

static int be_client(void *arg)
{
    uint64_t sum = 0;
    size_t done = 0;
    int fd, rc = kin_tcp_connect(arg, &fd, kin_after(KIN_SEC(10)));
    if (rc < 0)
        return rc;
    rc = kin_write(fd, message, sizeof(message), NULL, KIN_NEVER);
    if (rc == 0)
        rc = kin_shutdown(fd, SHUT_WR);
    if (rc == 0)
        rc = kin_read_full(fd, &sum, sizeof(sum), &done, KIN_NEVER);
    kin_close(fd);
    return rc < 0 ? rc : sum == UINT64_C(7) * MESSAGE ? 0 : -EPROTO;
}

/* Listens and says where. */
static int listen_at(const char *at, int *listener, char *addr)
{
    int rc = kin_tcp_listen(at, NULL, listener);
    return rc < 0 ? rc : kin_local_addr(*listener, addr, KIN_ADDR_MAX);
}

static int show(void *arg)
{
    char front[KIN_ADDR_MAX], behind[KIN_ADDR_MAX];
    struct proxy proxy = {-1, behind};
    int listener;
    (void)arg;
    int rc = listen_at("127.0.0.1:0", &listener, behind);
    if (rc == 0)
        rc = listen_at("127.0.0.1:0", &proxy.listener, front);
    if (rc < 0)
        return rc;
    memset(message, 7, sizeof(message));
    KIN_NURSERY(servers);
    KIN_NURSERY(clients);
    rc = kin_spawn(&servers, serve_sums, &listener);
    if (rc == 0)
        rc = kin_spawn(&servers, serve, &proxy);
    for (int i = 0; i < CLIENTS && rc == 0; i++)
        rc = kin_spawn(&clients, be_client, front);
    rc = kin_nursery_end(&clients, rc);
    kin_close(proxy.listener);
    rc = kin_nursery_end(&servers, rc);
    kin_close(listener);
    printf("%d clients sent %d bytes each through %s to %s, the answers: %s\n", CLIENTS, MESSAGE,
           front, behind, rc == 0 ? "all right" : kin_status_name(rc));
    return rc;
}

static int run(void *arg)
{
    char **argv = arg, addr[KIN_ADDR_MAX];
    struct proxy proxy = {-1, argv[2]};
    int rc = listen_at(argv[1], &proxy.listener, addr);
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", argv[1], kin_status_text(rc));
        return 1;
    }
    printf("listening at %s for %s\n", addr, argv[2]);
    fflush(stdout);
    return serve(&proxy);
}

int main(int argc, char **argv)
{
    if (argc != 1 && argc != 3) {
        fprintf(stderr, "usage: proxy [LISTEN TARGET]\n");
        return 2;
    }
    return kin_run(NULL, argc == 3 ? run : show, argv) == 0 ? 0 : 1;
}
