/* SPDX-License-Identifier: MIT */
/*
 * Goal: datagrams and Unix sockets of kin talk to programs that know nothing of kin, as what was
 * called and as who calls, half-closed connections included.
 * Method: socat and nc, started by kin, at ports that the system chooses and paths of our own; what
 * is not installed is skipped.
 */
#include "api/in_runtime.h"

#include <kin/net.h>
#include <kin/process.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LARGE 300000

/* Starts a program with pipes; ends the test where it is not installed. */
static struct kin_process *start(const char *const *argv)
{
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    struct kin_process *process = NULL;
    options.in.kind = options.out.kind = KIN_STDIO_PIPE;
    int rc = kin_process_start(argv, &options, &process);
    if (rc == -ENOENT)
        KIN_SKIP("it is not installed");
    EXPECT_EQ(rc, 0);
    return process;
}

static void say(struct kin_process *process, const char *text)
{
    EXPECT_EQ(kin_write(kin_process_pipe(process, 0), text, strlen(text), NULL, KIN_NEVER), 0);
}

/* Expects a text. */
static void hear(int fd, const char *text)
{
    char buf[64] = {0};
    size_t done;
    EXPECT_EQ(kin_read_full(fd, buf, strlen(text), &done, KIN_NEVER), 0);
    EXPECT_STR(buf, text);
}

/* ---- datagrams ---- */

static void exchange_datagrams(const char *here, const char *there)
{
    char addr[KIN_ADDR_MAX], to[KIN_ADDR_MAX], from[KIN_ADDR_MAX], buf[64];
    int fd;
    EXPECT_EQ(kin_udp_open(here, &fd), 0);
    EXPECT_EQ(kin_local_addr(fd, addr, sizeof addr), 0);
    snprintf(to, sizeof to, "%s%s", there, strrchr(addr, ':'));
    struct kin_process *socat = start((const char *const[]){"socat", "-", to, NULL});
    say(socat, "ping");
    EXPECT_EQ(kin_udp_recv(fd, buf, sizeof buf, from, sizeof from, KIN_NEVER), 4);
    EXPECT_EQ(memcmp(buf, "ping", 4), 0);
    EXPECT_EQ(kin_udp_send(fd, "pong", 4, from, KIN_NEVER), 4);
    hear(kin_process_pipe(socat, 1), "pong");
    kin_process_destroy(socat);
    EXPECT_EQ(kin_close(fd), 0);
}

static int meet_by_datagrams(void *arg)
{
    int fd;
    (void)arg;
    exchange_datagrams("127.0.0.1:0", "UDP:127.0.0.1");
    exchange_datagrams("*:0", "UDP:127.0.0.1");
    if (kin_udp_open("[::1]:0", &fd) < 0)
        return 0; /* a machine without IPv6 */
    EXPECT_EQ(kin_close(fd), 0);
    exchange_datagrams("*:0", "UDP6:[::1]");
    return 0;
}

KIN_TEST(socat_exchanges_datagrams, "")
{
    EXPECT_EQ(run_reporting(2, meet_by_datagrams, NULL, NULL), 0);
}

/* ---- listeners of others ---- */

/* Calls a listener that is about to be there. */
static int call(const char *path)
{
    int fd = -1, rc;
    do { /* ends: it comes, or the test's time is over */
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
        rc = kin_unix_connect(path, &fd, KIN_NEVER);
    } while (rc == -ENOENT || rc == -ECONNREFUSED);
    EXPECT_EQ(rc, 0);
    return fd;
}

static int write_much(void *arg)
{
    static char bytes[LARGE];
    int fd = *(int *)arg;
    memset(bytes, 'x', sizeof bytes);
    EXPECT_EQ(kin_write(fd, bytes, sizeof bytes, NULL, KIN_NEVER), 0);
    return kin_shutdown(fd, SHUT_WR);
}

/* socat listens and has a program that gives back what it gets. */
static int be_client_of_socat(void *arg)
{
    char *path = arg, listener[64], buf[4096];
    snprintf(listener, sizeof listener, "UNIX-LISTEN:%s", path);
    struct kin_process *socat = start((const char *const[]){"socat", listener, "EXEC:cat", NULL});
    int fd = call(path);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, write_much, &fd), 0);
    size_t sum = 0;
    ssize_t got;
    while ((got = kin_read(fd, buf, sizeof buf, KIN_NEVER)) > 0) /* ends: what was written does */
        sum += (size_t)got;
    EXPECT_EQ(got, 0);
    EXPECT_EQ(sum, LARGE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_close(fd), 0);
    int how = -1;
    EXPECT_EQ(kin_process_wait(socat, &how, KIN_NEVER), 0);
    EXPECT_EQ(how, 0);
    return 0;
}

/* nc listens, and has said all it has to say before it is answered. */
static int answer_after_a_half_close(void *arg)
{
    char *path = arg;
    struct kin_process *nc = start((const char *const[]){"nc", "-N", "-l", "-U", path, NULL});
    int fd = call(path), how = -1;
    say(nc, "question");
    EXPECT_EQ(kin_process_close(nc, 0), 0);
    hear(fd, "question");
    EXPECT_EQ(kin_read(fd, &(char){0}, 1, KIN_NEVER), 0);
    EXPECT_EQ(kin_write(fd, "answer", 6, NULL, KIN_NEVER), 0);
    hear(kin_process_pipe(nc, 1), "answer");
    EXPECT_EQ(kin_close(fd), 0);
    EXPECT_EQ(kin_process_wait(nc, &how, KIN_NEVER), 0);
    EXPECT_EQ(how, 0);
    return 0;
}

static void at_a_path(kin_task_fn *fn)
{
    char directory[] = "/tmp/kin-peers-XXXXXX", path[64];
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/socket", directory);
    EXPECT_EQ(run_reporting(2, fn, path, NULL), 0);
    unlink(path);
    EXPECT_EQ(rmdir(directory), 0);
}

KIN_TEST(socat_is_called, "")
{
    at_a_path(be_client_of_socat);
}

KIN_TEST(nc_is_answered_after_its_half_close, "")
{
    at_a_path(answer_after_a_half_close);
}
