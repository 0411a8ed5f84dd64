/* SPDX-License-Identifier: MIT */
/*
 * Goal: peers that break off, fall silent, are slow or speak in drops, and a system that has no
 * descriptors left, are told for what they are; and whatever ends a call, it says how far it came.
 * Method: TCP connections over the loopback, both ends in tasks of one process.
 */
#include "api/descriptors.h"
#include "api/in_runtime.h"

#include <kin/io.h>
#include <kin/net.h>
#include <kin/resolve.h>

#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static void both(kin_task_fn *fn)
{
    EXPECT_EQ(run_reporting(1, fn, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, fn, NULL, NULL), 0);
}

/* Both ends of a connection, with buffers that are soon full. */
static void make_connection(int ends[2])
{
    char addr[KIN_ADDR_MAX];
    int listener, small = 4096;
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &listener), 0);
    EXPECT_EQ(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    EXPECT_EQ(kin_local_addr(listener, addr, sizeof addr), 0);
    EXPECT_EQ(kin_tcp_connect(addr, &ends[0], KIN_NEVER), 0);
    EXPECT_EQ(kin_accept(listener, &ends[1], KIN_NEVER), 0);
    EXPECT_EQ(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    EXPECT_EQ(kin_close(listener), 0);
}

static void reset(int fd)
{
    struct linger at_once = {1, 0};
    EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    EXPECT_EQ(kin_close(fd), 0);
}

static void close_both(const int ends[2])
{
    EXPECT_EQ(kin_close(ends[0]), 0);
    EXPECT_EQ(kin_close(ends[1]), 0);
}

/* ---- one call in a task of its own ---- */

enum kind { READ, READ_FULL, WRITE, WRITEV, KINDS };

static char much[1 << 20]; /* more than the buffers of a connection take */

struct call {
    enum kind kind;
    int fd;
    kin_time deadline;
    int rc;
    size_t done;
    _Atomic int has_begun;
};

static int make_call(void *arg)
{
    struct call *call = arg;
    struct iovec parts[3] = {{much, 1000}, {much + 1000, 0}, {much + 1000, sizeof much - 1000}};
    static char into[sizeof much];
    call->done = 77;
    atomic_store(&call->has_begun, 1);
    switch (call->kind) {
    case READ:
        call->rc = (int)kin_read(call->fd, into, sizeof into, call->deadline);
        break;
    case READ_FULL:
        call->rc = kin_read_full(call->fd, into, sizeof into, &call->done, call->deadline);
        break;
    case WRITE:
        call->rc = kin_write(call->fd, much, sizeof much, &call->done, call->deadline);
        break;
    default:
        call->rc = kin_writev(call->fd, parts, 3, &call->done, call->deadline);
    }
    return 0;
}

/* ---- resets ---- */

/* The peer breaks off while somebody waits, and before somebody asks. */
static int be_reset(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2 * KINDS; i++) {
        int ends[2];
        struct call call = {.kind = (enum kind)(i / 2), .deadline = KIN_NEVER};
        make_connection(ends);
        call.fd = ends[0];
        KIN_NURSERY(n);
        if (i % 2)
            reset(ends[1]);
        EXPECT_EQ(kin_spawn(&n, make_call, &call), 0);
        await(&call.has_begun, 1);
        for (int turn = 0; turn < 20; turn++) /* by now it may be waiting */
            EXPECT_EQ(kin_yield(), 0);
        if (i % 2 == 0)
            reset(ends[1]);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        if (call.kind < WRITE)
            EXPECT_EQ(call.rc, -ECONNRESET);
        else
            EXPECT(call.rc == -ECONNRESET || call.rc == -EPIPE);
        if (call.kind == READ_FULL)
            EXPECT_EQ(call.done, 0);
        else if (call.kind != READ)
            EXPECT_LT(call.done, sizeof much);
        EXPECT_EQ(kin_write(ends[0], "x", 1, NULL, KIN_NEVER), -EPIPE); /* and no signal */
        EXPECT_EQ(kin_close(ends[0]), 0);
    }
    return 0;
}

KIN_TEST(a_reset_is_told_to_who_reads_and_to_who_writes, "")
{
    both(be_reset);
}

/* ---- silence ---- */

/* One side is gone and the other does not know; one direction is over and the other goes on. */
static int be_half_open(void *arg)
{
    int ends[2];
    char byte;
    size_t done;
    (void)arg;
    make_connection(ends); /* nothing comes: only time tells */
    EXPECT_EQ(kin_read(ends[0], &byte, 1, kin_after(KIN_MS(3))), KIN_TIMEOUT);
    EXPECT_EQ(kin_read_full(ends[0], &byte, 1, &done, kin_after(KIN_MS(3))), KIN_TIMEOUT);
    EXPECT_EQ(done, 0);
    EXPECT_EQ(kin_shutdown(ends[0], SHUT_WR), 0); /* the other direction still serves */
    EXPECT_EQ(kin_read(ends[1], &byte, 1, KIN_NEVER), 0);
    EXPECT_EQ(kin_read(ends[1], &byte, 1, KIN_NEVER), 0);
    for (char c = 'a'; c < 'f'; c++) {
        EXPECT_EQ(kin_write(ends[1], &c, 1, NULL, KIN_NEVER), 0);
        EXPECT_EQ(kin_read(ends[0], &byte, 1, KIN_NEVER), 1);
        EXPECT_EQ(byte, c);
    }
    EXPECT_EQ(kin_write(ends[0], "x", 1, &done, KIN_NEVER), -EPIPE);
    EXPECT_EQ(done, 0);
    close_both(ends);
    make_connection(ends); /* it closes without reading what came: who writes on hears of it */
    EXPECT_EQ(kin_write(ends[0], "x", 1, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_fd_wait(ends[1], 1 /* POLLIN */, KIN_NEVER), 1);
    EXPECT_EQ(kin_close(ends[1]), 0);
    int rc = 0;
    while (rc == 0) { /* ends: the answer to what it writes comes back */
        rc = kin_write(ends[0], "x", 1, NULL, KIN_NEVER);
        EXPECT_EQ(kin_yield(), 0);
    }
    EXPECT(rc == -EPIPE || rc == -ECONNRESET);
    EXPECT_EQ(kin_close(ends[0]), 0);
    return 0;
}

KIN_TEST(a_half_open_connection_is_found_out, "")
{
    both(be_half_open);
}

/* ---- how far it came ---- */

/* What a call says that it has moved is what the other side has seen, or has sent. */
static void expect_count(const struct call *call, int peer)
{
    static char back[sizeof much];
    size_t got;
    EXPECT_GT(call->done, 0);
    EXPECT_LT(call->done, sizeof much);
    if (call->kind == READ_FULL) {
        EXPECT_EQ(call->done, 5000);
        return;
    }
    EXPECT_EQ(kin_shutdown(call->fd, SHUT_WR), 0);
    EXPECT_EQ(kin_read_full(peer, back, sizeof back, &got, KIN_NEVER), 0);
    EXPECT_EQ(got, call->done);
    EXPECT_EQ(memcmp(back, much, got), 0);
}

/* Lets the call come as far as it can. */
static void await_progress(const struct call *call, int peer)
{
    int left = 1;
    if (call->kind != READ_FULL)
        EXPECT_EQ(kin_fd_wait(peer, 1 /* POLLIN */, KIN_NEVER), 1);
    while (call->kind == READ_FULL && left > 0) { /* ends: it reads what is there */
        EXPECT_EQ(ioctl(call->fd, FIONREAD, &left), 0);
        kin_ignore(kin_yield());
    }
}

static int end_in_the_middle(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < sizeof much; i++)
        much[i] = (char)(i * 31 >> 3);
    for (int i = 0; i < 2 * (KINDS - READ_FULL); i++) {
        int ends[2], is_cancelled = i % 2;
        struct call call = {.kind = (enum kind)(READ_FULL + i / 2), .deadline = KIN_NEVER};
        make_connection(ends); /* what is not read stays in buffers, or with the sender */
        call.fd = ends[0];
        if (!is_cancelled)
            call.deadline = kin_after(KIN_MS(20));
        if (call.kind == READ_FULL)
            EXPECT_EQ(kin_write(ends[1], much, 5000, NULL, KIN_NEVER), 0);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, make_call, &call), 0);
        if (is_cancelled) {
            await_progress(&call, ends[1]);
            kin_nursery_cancel(&n, 0);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), is_cancelled ? KIN_CANCELLED : 0);
        EXPECT_EQ(call.rc, is_cancelled ? KIN_CANCELLED : KIN_TIMEOUT);
        expect_count(&call, ends[1]);
        close_both(ends);
    }
    return 0;
}

KIN_TEST(a_deadline_and_a_cancel_tell_how_far_it_came, "")
{
    both(end_in_the_middle);
}

/* ---- drops ---- */

#define DROPS 20000

static int pour(void *arg)
{
    return kin_write(*(int *)arg, much, DROPS, NULL, KIN_NEVER);
}

/* A large piece is read byte by byte: no byte is forgotten because nothing new comes. */
static int read_drops(void *arg)
{
    int ends[2];
    char byte;
    (void)arg;
    make_connection(ends);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, pour, &ends[0]), 0);
    for (size_t i = 0; i < DROPS; i++) {
        EXPECT_EQ(kin_read(ends[1], &byte, 1, KIN_NEVER), 1);
        EXPECT_EQ(byte, much[i]);
    }
    EXPECT_EQ(kin_read(ends[1], &byte, 1, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    close_both(ends);
    return 0;
}

KIN_TEST(one_byte_at_a_time_is_all_of_them, "")
{
    for (size_t i = 0; i < sizeof much; i++)
        much[i] = (char)(i * 7);
    both(read_drops);
}

/* Nothing is asked for: nothing is done, and nobody waits. */
static int ask_for_nothing(void *arg)
{
    int ends[2];
    size_t done = 77;
    struct iovec none = {much, 0};
    (void)arg;
    make_connection(ends);
    EXPECT_EQ(kin_read(ends[0], much, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_read(ends[0], NULL, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_readv(ends[0], &none, 1, KIN_NEVER), 0);
    EXPECT_EQ(kin_readv(ends[0], NULL, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_read_full(ends[0], much, 0, &done, KIN_NEVER), 0);
    EXPECT_EQ(done, 0);
    done = 77;
    EXPECT_EQ(kin_write(ends[0], NULL, 0, &done, KIN_NEVER), 0);
    EXPECT_EQ(done, 0);
    EXPECT_EQ(kin_writev(ends[0], &none, 1, &done, KIN_NEVER), 0);
    EXPECT_EQ(kin_writev(ends[0], NULL, 0, &done, KIN_NEVER), 0);
    EXPECT_EQ(kin_write(ends[0], "ab", 2, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_fd_wait(ends[1], 1 /* POLLIN */, KIN_NEVER), 1);
    EXPECT_EQ(kin_read(ends[1], much, 0, KIN_NEVER), 0); /* and takes nothing */
    EXPECT_EQ(kin_read(ends[1], much, 2, KIN_NEVER), 2);
    EXPECT_EQ(dup2(ends[0], NUMBER_OF_OURS), NUMBER_OF_OURS);
    EXPECT_EQ(kin_close(NUMBER_OF_OURS), 0);
    EXPECT_EQ(kin_read(NUMBER_OF_OURS, much, 0, KIN_NEVER), -EBADF);
    EXPECT_EQ(kin_write(NUMBER_OF_OURS, much, 0, &done, KIN_NEVER), -EBADF);
    close_both(ends);
    return 0;
}

KIN_TEST(nothing_asked_for_is_nothing_done, "")
{
    both(ask_for_nothing);
}

/* ---- a system without descriptors ---- */

/* Calls that open one say so at once, and work again when there are some. */
static int have_no_descriptors(void *arg)
{
    char addr[KIN_ADDR_MAX], out[2][KIN_ADDR_MAX];
    int listener, fd = -1;
    struct rlimit before, few;
    (void)arg;
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &listener), 0);
    EXPECT_EQ(kin_local_addr(listener, addr, sizeof addr), 0);
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < 2; i++) {
        few = before;
        if (i == 0) {
            int lowest = dup(0);
            few.rlim_cur = (rlim_t)lowest;
            EXPECT_EQ(close(lowest), 0);
        }
        int expected = i == 0 ? -EMFILE : 0;
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
        EXPECT_EQ(kin_tcp_connect(addr, &fd, KIN_NEVER), expected);
        if (i)
            EXPECT_EQ(kin_close(fd), 0);
        EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &fd), expected);
        if (i)
            EXPECT_EQ(kin_close(fd), 0);
        EXPECT_EQ(kin_udp_open("127.0.0.1:0", &fd), expected);
        if (i)
            EXPECT_EQ(kin_close(fd), 0);
        EXPECT_EQ(kin_unix_connect("unix:@nobody", &fd, KIN_NEVER), i ? -ECONNREFUSED : -EMFILE);
        EXPECT_EQ(kin_resolve("127.0.0.1", out, 2, KIN_NEVER), 1); /* needs none */
        EXPECT_EQ(kin_accept(listener, &fd, i ? KIN_NEVER : kin_after(KIN_MS(10))),
                  i ? 0 : KIN_TIMEOUT);
        if (i)
            EXPECT_EQ(kin_close(fd), 0);
    }
    EXPECT_EQ(kin_close(listener), 0);
    return 0;
}

KIN_TEST(without_descriptors_calls_say_so_and_recover, "")
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 1;
    config.stall_threshold = KIN_NEVER; /* without the monitor, which opens one now and then */
    EXPECT_EQ(kin_run(&config, have_no_descriptors, NULL), 0);
}

/* ---- addresses that do not answer ---- */

/* A listener whose line is full, so that the system leaves further callers without an answer. */
static void fill_line(const char *addr, int callers[2], int *listener)
{
    struct kin_listen_options options = KIN_LISTEN_OPTIONS_INIT;
    int third;
    options.backlog = 1;
    EXPECT_EQ(kin_tcp_listen(addr, &options, listener), 0);
    for (int i = 0; i < 2; i++) /* one more than it says */
        EXPECT_EQ(kin_tcp_connect(addr, &callers[i], KIN_NEVER), 0);
    for (int i = 0; kin_tcp_connect(addr, &third, kin_after(KIN_MS(20))) == 0; i++) {
        EXPECT_EQ(kin_close(third), 0); /* it is in line all the same; the second may be late */
        if (i == 8)
            KIN_SKIP("the line of a listener has no end here");
    }
}

/* A name has three addresses: one refuses, one says nothing, one answers. */
static int try_all_addresses(void *arg)
{
    char addr[KIN_ADDR_MAX], other[KIN_ADDR_MAX];
    int listener, mute, callers[2], fd, conn;
    (void)arg;
    EXPECT_EQ(kin_tcp_listen("127.0.0.4:0", NULL, &listener), 0);
    EXPECT_EQ(kin_local_addr(listener, addr, sizeof addr), 0);
    snprintf(other, sizeof other, "127.0.0.3%s", strchr(addr, ':'));
    fill_line(other, callers, &mute);
    snprintf(other, sizeof other, "many.test%s", strchr(addr, ':'));
    EXPECT_EQ(kin_tcp_connect(other, &fd, KIN_NEVER), 0);
    EXPECT_EQ(kin_accept(listener, &conn, KIN_NEVER), 0);
    EXPECT_EQ(kin_peer_addr(fd, other, sizeof other), 0);
    EXPECT_STR(other, addr);
    EXPECT_EQ(kin_close(fd), 0);
    EXPECT_EQ(kin_close(conn), 0);
    EXPECT_EQ(kin_close(listener), 0);
    close_both(callers);
    return kin_close(mute);
}

static void with_hosts(const char *text, kin_task_fn *fn)
{
    char path[] = "/tmp/kin-hosts-XXXXXX";
    FILE *file = fdopen(kin_test_mkstemp(path), "w");
    EXPECT(file != NULL);
    fputs(text, file);
    fclose(file);
    EXPECT_EQ(setenv("KIN_HOSTS", path, 1), 0);
    both(fn);
    EXPECT_EQ(unlink(path), 0);
}

KIN_TEST(a_name_is_reached_by_the_address_that_answers, "")
{
    with_hosts("127.0.0.2 many.test\n127.0.0.3 many.test\n127.0.0.4 many.test\n",
               try_all_addresses);
}

/* A name of both kinds, whose first address is one that the socket, or the machine, has not. */
static int use_the_kind_that_works(void *arg)
{
    char addr[KIN_ADDR_MAX], to[KIN_ADDR_MAX], buf[8];
    int one, two, listener;
    (void)arg;
    EXPECT_EQ(kin_udp_open("127.0.0.1:0", &one), 0);
    EXPECT_EQ(kin_udp_open("127.0.0.1:0", &two), 0);
    EXPECT_EQ(kin_local_addr(two, addr, sizeof(addr)), 0);
    snprintf(to, sizeof(to), "two.test%s", strrchr(addr, ':'));
    EXPECT_EQ(kin_udp_send(one, "hello", 5, to, KIN_NEVER), 5);
    EXPECT_EQ(kin_udp_recv(two, buf, sizeof(buf), NULL, 0, KIN_NEVER), 5);
    EXPECT_EQ(kin_tcp_listen("far.test:0", NULL, &listener), 0);
    EXPECT_EQ(kin_local_addr(listener, addr, sizeof(addr)), 0);
    EXPECT_EQ(strncmp(addr, "127.0.0.1:", 10), 0);
    EXPECT_EQ(kin_close(one), 0);
    EXPECT_EQ(kin_close(two), 0);
    EXPECT_EQ(kin_close(listener), 0);
    snprintf(to, sizeof(to), "odd.test%s", strrchr(addr, ':'));
    EXPECT_EQ(kin_tcp_connect(to, &one, KIN_NEVER), -ECONNREFUSED); /* the way that there is */
    return 0;
}

KIN_TEST(a_name_of_both_kinds_is_used_by_either, "")
{
    with_hosts("::1 two.test\n127.0.0.1 two.test\n2001:db8::1 far.test\n127.0.0.1 far.test\n"
               "127.0.0.7 odd.test\n224.0.0.1 odd.test\n", /* at the first nobody listens */
               use_the_kind_that_works);
}
