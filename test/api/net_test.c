/* SPDX-License-Identifier: MIT */
/*
 * Goal: sockets of every kind, between tasks of one process over the loopback.
 * Method: ports that the system chooses; servers that accept a bounded number of connections.
 */
#include "api/descriptors.h"
#include "api/in_runtime.h"

#include <kin/net.h>
#include <kin/view.h>

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static void both(kin_task_fn *fn)
{
    EXPECT_EQ(run_reporting(1, fn, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, fn, NULL, NULL), 0);
}

#define CLIENTS 50
#define MESSAGES 20

static int serve_one(void *arg)
{
    int fd = *(int *)arg;
    char buf[256];
    ssize_t got;
    while ((got = kin_read(fd, buf, sizeof(buf), KIN_NEVER)) > 0) /* ends: with the client */
        EXPECT_EQ(kin_write(fd, buf, (size_t)got, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_close(fd), 0);
    return (int)got;
}

static int serve(void *arg)
{
    int listener = *(int *)arg, conn;
    KIN_NURSERY(n);
    for (int i = 0; i < CLIENTS; i++) {
        EXPECT_EQ(kin_accept(listener, &conn, KIN_NEVER), 0);
        EXPECT_EQ(kin_spawn_copy(&n, serve_one, KIN_ARGS(int, conn)), 0);
    }
    return kin_nursery_join(&n, NULL);
}

struct client {
    const char *addr;
    bool is_unix;
};

static int be_client(void *arg)
{
    struct client *client = arg;
    int fd;
    EXPECT_EQ(client->is_unix ? kin_unix_connect(client->addr, &fd, KIN_NEVER)
                              : kin_tcp_connect(client->addr, &fd, KIN_NEVER), 0);
    for (int i = 0; i < MESSAGES; i++) {
        int back = -1;
        EXPECT_EQ(kin_write(fd, &i, sizeof(i), NULL, KIN_NEVER), 0);
        EXPECT_EQ(kin_read_full(fd, &back, sizeof(back), NULL, KIN_NEVER), 0);
        EXPECT_EQ(back, i);
    }
    EXPECT_EQ(kin_shutdown(fd, SHUT_WR), 0);
    EXPECT_EQ(kin_read(fd, &(char){0}, 1, KIN_NEVER), 0); /* the server closes too */
    EXPECT_EQ(kin_close(fd), 0);
    return 0;
}

static void talk(int listener, const char *addr, bool is_unix)
{
    struct client client = {addr, is_unix};
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, serve, &listener), 0);
    for (int i = 0; i < CLIENTS; i++)
        EXPECT_EQ(kin_spawn(&n, be_client, &client), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_close(listener), 0);
}

static int talk_tcp(void *arg)
{
    const char *const places[] = {"127.0.0.1:0", "[::1]:0", "*:0"};
    (void)arg;
    for (int i = 0; i < 3; i++) {
        int listener;
        char addr[KIN_ADDR_MAX];
        int rc = kin_tcp_listen(places[i], NULL, &listener);
        if (i == 1 && (rc == -EADDRNOTAVAIL || rc == -EAFNOSUPPORT))
            continue; /* a machine without IPv6 */
        EXPECT_EQ(rc, 0);
        EXPECT_EQ(kin_local_addr(listener, addr, 5), -ENOSPC);
        EXPECT_EQ(kin_local_addr(listener, addr, sizeof(addr)), 0);
        talk(listener, addr, false);
    }
    return 0;
}

KIN_TEST(clients_and_a_server_talk_over_tcp, "")
{
    both(talk_tcp);
}

static int talk_unix(void *arg)
{
    char path[64], addr[KIN_ADDR_MAX];
    int listener;
    (void)arg;
    snprintf(path, sizeof(path), "unix:@kin-test-%d", (int)getpid());
    EXPECT_EQ(kin_unix_listen(path, NULL, &listener), 0);
    EXPECT_EQ(kin_local_addr(listener, addr, sizeof(addr)), 0);
    EXPECT_STR(addr, path);
    talk(listener, path, true);
    EXPECT_EQ(kin_unix_connect("/no/such/place", &listener, KIN_NEVER), -ENOENT);
    return 0;
}

KIN_TEST(clients_and_a_server_talk_over_unix_sockets, "")
{
    both(talk_unix);
}

static int talk_udp(void *arg)
{
    int one, two;
    char first[KIN_ADDR_MAX], second[KIN_ADDR_MAX], from[KIN_ADDR_MAX], buf[16];
    (void)arg;
    EXPECT_EQ(kin_udp_open("127.0.0.1:0", &one), 0);
    EXPECT_EQ(kin_udp_open("127.0.0.1:0", &two), 0);
    EXPECT_EQ(kin_local_addr(one, first, sizeof(first)), 0);
    EXPECT_EQ(kin_local_addr(two, second, sizeof(second)), 0);
    EXPECT_EQ(kin_udp_recv(two, buf, sizeof(buf), NULL, 0, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_udp_send(one, "hello", 5, second, KIN_NEVER), 5);
    EXPECT_EQ(kin_udp_recv(two, buf, sizeof(buf), from, sizeof(from), KIN_NEVER), 5);
    EXPECT_STR(from, first);
    EXPECT_EQ(kin_udp_send(two, "", 0, from, KIN_NEVER), 0);
    EXPECT_EQ(kin_udp_recv(one, buf, sizeof(buf), NULL, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_close(one), 0);
    EXPECT_EQ(kin_close(two), 0);
    return 0;
}

KIN_TEST(datagrams_arrive_with_their_sender, "")
{
    both(talk_udp);
}

/* Nobody listens there any more. A watch of io_uring keeps a listener until the thread that began
 * it enters the kernel next: so does doc/io.md say. */
static int connect_to_nobody(const char *addr)
{
    struct kin_stats stats;
    int fd, rc = kin_tcp_connect(addr, &fd, KIN_NEVER);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    bool is_late = stats.poller && strstr(stats.poller, "uring");
    while (is_late && rc == 0) { /* ends: that thread enters it */
        EXPECT_EQ(kin_close(fd), 0);
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
        rc = kin_tcp_connect(addr, &fd, KIN_NEVER);
    }
    return rc;
}

static int be_refused(void *arg)
{
    int fd, listener;
    char addr[KIN_ADDR_MAX];
    (void)arg;
    EXPECT_EQ(kin_tcp_listen("127.0.0.6:0", NULL, &listener), 0); /* where others take no port */
    EXPECT_EQ(kin_local_addr(listener, addr, sizeof(addr)), 0);
    EXPECT_EQ(kin_tcp_listen(addr, NULL, &fd), -EADDRINUSE);
    EXPECT_EQ(kin_accept(listener, &fd, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_accept(listener, &fd, kin_after(KIN_MS(2))), KIN_TIMEOUT);
    EXPECT_EQ(kin_close(listener), 0);
    EXPECT_EQ(connect_to_nobody(addr), -ECONNREFUSED);
    if (!kin_in_lab()) /* where nobody else gets its number */
        listener = NUMBER_OF_OURS;
    EXPECT_EQ(kin_accept(listener, &fd, 0), -EBADF);
    const char *const bad[] = {"", "nothing", "127.0.0.1", "127.0.0.1:", "127.0.0.1:70000",
                               "::1:80", "[::1:80", "[::1]80", "a:b:c", ":x"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT_EQ(kin_tcp_connect(bad[i], &fd, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_tcp_connect(NULL, &fd, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, NULL), -EINVAL);
    return 0;
}

KIN_TEST(refusals_have_names, "")
{
    both(be_refused);
}

static int accept_one(void *arg)
{
    int conn;
    int rc = kin_accept(*(int *)arg, &conn, KIN_NEVER);
    if (rc == 0)
        EXPECT_EQ(kin_close(conn), 0);
    return rc;
}

static int close_under_an_acceptor(void *arg)
{
    int listener;
    struct kin_outcome how;
    (void)arg;
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &listener), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, accept_one, &listener), 0);
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(2))), 0);
    EXPECT_EQ(kin_close(listener), 0);
    int rc = kin_nursery_join(&n, &how);
    EXPECT(rc == KIN_CLOSED || rc == -EBADF);
    return 0;
}

KIN_TEST(closing_a_listener_ends_its_acceptor, "")
{
    both(close_under_an_acceptor);
}

static int dial(void *arg)
{
    int fd;
    int rc = kin_tcp_connect(arg, &fd, KIN_NEVER);
    if (rc == 0) {
        EXPECT_EQ(kin_read(fd, &(char){0}, 1, KIN_NEVER), 0);
        EXPECT_EQ(kin_close(fd), 0);
    }
    return rc;
}

static int free_descriptors(void *arg)
{
    int *spare = arg;
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(10))), 0);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(close(spare[i]), 0);
    return 0;
}

/* The server is out of descriptors for a while, and then not any more. */
static int run_out_of_descriptors(void *arg)
{
    int listener, spare[4], lowest;
    char addr[KIN_ADDR_MAX];
    struct rlimit before, few;
    (void)arg;
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &listener), 0);
    EXPECT_EQ(kin_local_addr(listener, addr, sizeof(addr)), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, dial, addr), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(2))), 0); /* it is in the backlog */
    for (int i = 0; i < 4; i++)
        EXPECT_GE(spare[i] = dup(0), 0);
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    lowest = dup(0);
    few.rlim_cur = (rlim_t)lowest;
    EXPECT_EQ(close(lowest), 0);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    EXPECT_EQ(kin_spawn(&n, free_descriptors, spare), 0);
    EXPECT_EQ(accept_one(&listener), 0);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_close(listener), 0);
    return 0;
}

/* There is none for the first wait itself, which needs one: an acceptor waits all the same. */
static int wait_without_descriptors(void *arg)
{
    int listener, conn;
    struct rlimit before, few;
    (void)arg;
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &listener), 0);
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 3;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    EXPECT_EQ(kin_accept(listener, &conn, kin_after(KIN_MS(3))), KIN_TIMEOUT);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(kin_accept(listener, &conn, kin_after(KIN_MS(3))), KIN_TIMEOUT);
    return kin_close(listener);
}

KIN_TEST(a_server_without_descriptors_answers_late, "")
{
    EXPECT_EQ(run_reporting(1, run_out_of_descriptors, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(1, wait_without_descriptors, NULL, NULL), 0);
}

/* ---- both kinds of addresses ---- */

/* Calls an address of the port that a listener has; false: the machine has no such addresses. */
static bool call_at(const char *host, const char *port, int listener)
{
    char addr[KIN_ADDR_MAX], peer[KIN_ADDR_MAX];
    int fd, conn;
    snprintf(addr, sizeof(addr), "%s%s", host, port);
    int rc = kin_tcp_connect(addr, &fd, KIN_NEVER);
    if (rc == -EADDRNOTAVAIL || rc == -EAFNOSUPPORT)
        return false;
    EXPECT_EQ(rc, 0);
    EXPECT_EQ(kin_accept(listener, &conn, KIN_NEVER), 0);
    EXPECT_EQ(kin_local_addr(conn, peer, sizeof(peer)), 0);
    EXPECT_EQ(strncmp(peer, host, strlen(host)), 0); /* in the words of the caller */
    EXPECT_EQ(kin_close(fd), 0);
    EXPECT_EQ(kin_close(conn), 0);
    return true;
}

static int be_called_by_all(void *arg)
{
    const char *const anywhere[] = {"*:0", ":0"};
    char addr[KIN_ADDR_MAX];
    int listener, fd;
    (void)arg;
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(kin_tcp_listen(anywhere[i], NULL, &listener), 0);
        EXPECT_EQ(kin_local_addr(listener, addr, sizeof(addr)), 0);
        EXPECT(call_at("127.0.0.1", strrchr(addr, ':'), listener));
        call_at("[::1]", strrchr(addr, ':'), listener);
        EXPECT_EQ(kin_close(listener), 0);
    }
    if (kin_tcp_listen("[::1]:0", NULL, &listener) < 0)
        return 0; /* a machine without IPv6 */
    EXPECT_EQ(kin_local_addr(listener, addr, sizeof(addr)), 0);
    EXPECT_EQ(kin_tcp_connect(strrchr(addr, ':'), &fd, KIN_NEVER), 0); /* this machine is both */
    EXPECT_EQ(kin_close(fd), 0);
    EXPECT_EQ(kin_close(listener), 0);
    return 0;
}

KIN_TEST(any_address_is_one_of_either_kind, "")
{
    both(be_called_by_all);
}

/* What is on this machine is connected when the system has been asked. */
static int connect_without_waiting(void *arg)
{
    char addr[KIN_ADDR_MAX];
    int listener, fd, made = 0;
    (void)arg;
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &listener), 0);
    EXPECT_EQ(kin_local_addr(listener, addr, sizeof(addr)), 0);
    for (int i = 0; i < 20; i++) { /* a busy machine may put one off */
        int rc = kin_tcp_connect(addr, &fd, 0);
        EXPECT(rc == 0 || rc == KIN_TIMEOUT);
        made += rc == 0;
        if (rc == 0)
            EXPECT_EQ(kin_close(fd), 0);
    }
    EXPECT_GT(made, 0);
    return kin_close(listener);
}

KIN_TEST(a_connection_that_is_there_at_once_needs_no_time, "")
{
    both(connect_without_waiting);
}
