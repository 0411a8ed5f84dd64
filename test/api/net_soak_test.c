/* SPDX-License-Identifier: MIT */
/*
 * Goal: connections that are opened, used, broken off and cancelled in all ways leave nothing
 * behind: no descriptor, no byte, no mapping.
 * Method: clients and a server over the loopback, random cycles in three runtimes one after the
 * other; what the process holds after the last is held against what it held after the first.
 * KIN_SOAK=n runs n cycles in all and says how far it is; `make soak` runs a million.
 *
 * Connections go to many addresses of the loopback: one alone would run out of ports, which the
 * system keeps for a while after a connection.
 */
#include "api/held.h"

#include <kin/io.h>
#include <kin/net.h>

#include <stdint.h>
#include <sys/socket.h>

#define CYCLES 20000
#define RUNS 3 /* the second with one worker, the others with two */
#define CLIENTS 24
#define ADDRESSES 250
#define BYTES_MAX 600

struct soak {
    int tcp, unix_; /* listeners */
    int port;
    char path[64];
    bool is_long;
    _Atomic int64_t left;   /* cycles that nobody has begun */
    _Atomic int64_t served; /* connections that the server has closed */
    _Atomic int64_t opened, cancelled, late, reset;
};

/* ---- the server ---- */

struct conn {
    struct soak *soak;
    int fd;
};

static int echo(void *arg)
{
    struct conn *conn = arg;
    char buf[128];
    ssize_t got;
    while ((got = kin_read(conn->fd, buf, sizeof(buf), KIN_NEVER)) > 0) { /* ends: the client */
        if (kin_write(conn->fd, buf, (size_t)got, NULL, KIN_NEVER) < 0)
            break;
    }
    EXPECT_EQ(kin_close(conn->fd), 0);
    atomic_fetch_add(&conn->soak->served, 1);
    return 0;
}

/* Serves a listener until it is closed. */
static int serve(void *arg)
{
    struct conn *listener = arg;
    int fd, rc;
    KIN_NURSERY(n);
    while ((rc = kin_accept(listener->fd, &fd, KIN_NEVER)) == 0) /* ends: so */
        EXPECT_EQ(kin_spawn_copy(&n, echo, KIN_ARGS(struct conn, listener->soak, fd)), 0);
    EXPECT(rc == KIN_CLOSED || rc == -EBADF);
    return kin_nursery_join(&n, NULL);
}

/* ---- the ways a connection goes ---- */

/* Connects; the descriptor, or why not. */
static int connect_any(struct soak *soak, uint64_t random, kin_time deadline)
{
    char addr[KIN_ADDR_MAX];
    int fd = -1, rc;
    snprintf(addr, sizeof(addr), "127.0.0.%d:%d", 1 + (int)((random >> 8) % ADDRESSES), soak->port);
    if (random & 1)
        rc = kin_tcp_connect(addr, &fd, deadline);
    else
        rc = kin_unix_connect(soak->path, &fd, deadline);
    if (rc < 0)
        return rc;
    atomic_fetch_add(&soak->opened, 1);
    return fd;
}

/* Sends some bytes and expects them back. 0, or why the task has to stop. */
static int talk(int fd, uint64_t random)
{
    char there[BYTES_MAX], back[BYTES_MAX];
    size_t size = 1 + (random >> 20) % BYTES_MAX, done = 0;
    memset(there, (int)(random >> 32) & 0xff, size);
    int rc = kin_write(fd, there, size, NULL, KIN_NEVER);
    if (rc == 0)
        rc = kin_read_full(fd, back, size, &done, KIN_NEVER);
    if (rc == 0)
        EXPECT(done == size && memcmp(there, back, size) == 0);
    return rc;
}

struct child {
    struct soak *soak;
    uint64_t random;
    bool is_silent;
};

/* Talks, or waits for what never comes, until it is cancelled. */
static int use_until_cancelled(void *arg)
{
    struct child *child = arg;
    int fd = connect_any(child->soak, child->random, KIN_NEVER);
    int rc = fd;
    if (fd >= 0) {
        rc = child->is_silent ? (int)kin_read(fd, &(char){0}, 1, KIN_NEVER)
                              : talk(fd, child->random);
        EXPECT_EQ(kin_close(fd), 0);
    }
    EXPECT(rc == KIN_CANCELLED || (rc == 0 && !child->is_silent));
    return rc;
}

static void cancel_one(struct soak *soak, uint64_t random)
{
    struct child child = {soak, random, (random >> 40) & 1};
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, use_until_cancelled, &child), 0);
    for (uint64_t i = (random >> 41) % 8; i > 0; i--)
        EXPECT_EQ(kin_yield(), 0);
    if ((random >> 44) % 16 == 0)
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(100))), 0);
    kin_nursery_cancel(&n, 0);
    int rc = kin_nursery_join(&n, NULL);
    EXPECT(rc == 0 || rc == KIN_CANCELLED);
    if (rc == KIN_CANCELLED)
        atomic_fetch_add(&soak->cancelled, 1);
}

/* Reads until the other side, or this one, is shut. */
static int read_to_the_end(void *arg)
{
    char buf[64];
    ssize_t got;
    while ((got = kin_read(*(int *)arg, buf, sizeof(buf), KIN_NEVER)) > 0) /* ends: so */
        ;
    return (int)got;
}

static void shut_under_a_reader(int fd)
{
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, read_to_the_end, &fd), 0);
    EXPECT_EQ(kin_write(fd, "x", 1, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_shutdown(fd, SHUT_RDWR), 0);
    int rc = kin_nursery_join(&n, NULL);
    EXPECT(rc == 0 || rc == -ECONNRESET); /* it may hear that the byte came too late */
}

static void cycle(struct soak *soak, uint64_t random)
{
    struct linger at_once = {1, 0};
    unsigned way = (unsigned)(random >> 48) % 8;
    if (way < 2) {
        cancel_one(soak, random);
        return;
    }
    kin_time deadline = way == 2 ? kin_after((random >> 52) % 64 * 1000) : KIN_NEVER;
    int fd = connect_any(soak, random, deadline);
    if (way == 2 && fd == KIN_TIMEOUT) {
        atomic_fetch_add(&soak->late, 1);
        return;
    }
    EXPECT_GE(fd, 0);
    if (way == 3)
        shut_under_a_reader(fd);
    else if (way < 7)
        EXPECT_EQ(talk(fd, random), 0);
    if (way == 4 && setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0)
        atomic_fetch_add(&soak->reset, 1);
    EXPECT_EQ(kin_close(fd), 0);
}

static int be_client(void *arg)
{
    struct child *client = arg; /* its own copy */
    while (atomic_fetch_sub(&client->soak->left, 1) > 0) /* ends: with the last cycle */
        cycle(client->soak, next_random(&client->random));
    return 0;
}

/* ---- the whole ---- */

static int run_cycles(void *arg)
{
    struct soak *soak = arg;
    char addr[KIN_ADDR_MAX];
    snprintf(soak->path, sizeof(soak->path), "unix:@kin-soak-%d", (int)getpid());
    EXPECT_EQ(kin_tcp_listen("0.0.0.0:0", NULL, &soak->tcp), 0);
    EXPECT_EQ(kin_unix_listen(soak->path, NULL, &soak->unix_), 0);
    EXPECT_EQ(kin_local_addr(soak->tcp, addr, sizeof(addr)), 0);
    soak->port = atoi(strrchr(addr, ':') + 1);
    KIN_NURSERY(servers);
    EXPECT_EQ(kin_spawn_copy(&servers, serve, KIN_ARGS(struct conn, soak, soak->tcp)), 0);
    EXPECT_EQ(kin_spawn_copy(&servers, serve, KIN_ARGS(struct conn, soak, soak->unix_)), 0);
    KIN_NURSERY(watchers);
    if (soak->is_long)
        EXPECT_EQ(kin_spawn_copy(&watchers, show_progress,
                                 KIN_ARGS(struct progress, "connections", &soak->served)), 0);
    KIN_NURSERY(clients);
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct child client = {soak, first_random(i), false};
        EXPECT_EQ(kin_spawn_copy(&clients, be_client, &client, sizeof(client)), 0);
    }
    EXPECT_EQ(kin_nursery_join(&clients, NULL), 0);
    /* The last ones may have gone before they were accepted. Ends: they still are. */
    while (atomic_load(&soak->served) < atomic_load(&soak->opened))
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(100))), 0);
    kin_nursery_cancel(&watchers, 0);
    EXPECT_EQ(kin_nursery_join(&watchers, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_close(soak->tcp), 0);
    EXPECT_EQ(kin_close(soak->unix_), 0);
    return kin_nursery_join(&servers, NULL);
}

/* One runtime, and what is held after it. */
static struct held run_once(unsigned workers, int64_t cycles, bool is_long)
{
    struct soak soak = {.tcp = -1, .unix_ = -1, .left = cycles, .is_long = is_long};
    kin_time start = kin_now();
    EXPECT_EQ(run_reporting(workers, run_cycles, &soak, NULL), 0);
    struct held held = hold();
    EXPECT_GE(soak.served, soak.opened); /* a cancelled connect may have reached the server */
    EXPECT_GT(soak.cancelled, 0);
    EXPECT_GT(soak.reset, 0);
    printf("  %lld cycles with %u workers in %lld ms: %lld opened, %lld served, ",
           (long long)cycles, workers, (long long)((kin_now() - start) / KIN_MS(1)),
           (long long)soak.opened, (long long)soak.served);
    printf("%lld cancelled, %lld late, %lld reset; then ", (long long)soak.cancelled,
           (long long)soak.late, (long long)soak.reset);
    print_held(held);
    return held;
}

KIN_TEST_LIMIT(connections_leave_nothing_behind, "", 120)
{
    int64_t wanted = number_or("KIN_SOAK", 0);
    int64_t slower = (SANITIZED ? 2 : 1) * (int64_t)kin_test_scale();
    int64_t cycles = wanted ? wanted : CYCLES / slower;
    struct held held[RUNS];
    hold_one_arena();
    for (int i = 0; i < RUNS; i++)
        held[i] = run_once(i == 1 ? 1 : 2, cycles / RUNS, wanted != 0);
    expect_held(held[RUNS - 1], held[0]);
}
