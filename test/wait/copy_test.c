/* SPDX-License-Identifier: MIT */
/*
 * Goal: a copy moves every byte once and in order between any two kinds of descriptors, says how
 * far it came, and leaves nothing open.
 * Method: every pair of files, pipes, Unix sockets and TCP connections, small and large, with slow
 * peers; ends by the source, the limit, deadlines, cancels, closes and a broken target; memory and
 * descriptors that run out.
 */
#include "api/descriptors.h"
#include "api/in_runtime.h"

#include "plat/plat.h"
#include "sched/sched.h"
#include "wait/poller.h"

#include <kin/io.h>
#include <kin/net.h>
#include <kin/reader.h>

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum kind { A_FILE, A_PIPE, A_SOCKET, A_TCP, KINDS };

static unsigned char byte_at(uint64_t at)
{
    return (unsigned char)(at * 11 + at / 251);
}

static int open_temporary(void)
{
    char path[] = "/tmp/kin_copy_XXXXXX";
    int fd = kin_test_mkstemp(path);
    EXPECT_GE(fd, 0);
    EXPECT_EQ(unlink(path), 0);
    return fd;
}

/* ends[0] is read, ends[1] is written; a file is both. */
static void make(enum kind kind, int *ends)
{
    char addr[KIN_ADDR_MAX];
    int listener;
    switch (kind) {
    case A_FILE:
        ends[0] = ends[1] = open_temporary();
        break;
    case A_PIPE:
        EXPECT_EQ(pipe(ends), 0);
        break;
    case A_SOCKET:
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        break;
    default:
        EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &listener), 0);
        EXPECT_EQ(kin_local_addr(listener, addr, sizeof(addr)), 0);
        EXPECT_EQ(kin_tcp_connect(addr, &ends[1], KIN_NEVER), 0);
        EXPECT_EQ(kin_accept(listener, &ends[0], KIN_NEVER), 0);
        EXPECT_EQ(kin_close(listener), 0);
    }
}

struct end {
    int fd;
    enum kind kind;
    uint64_t size;
    bool is_slow;
};

static int feed(void *arg)
{
    struct end *end = arg;
    unsigned char buf[3000];
    for (uint64_t at = 0; at < end->size;) { /* ends: a piece less each time */
        size_t piece = end->size - at < sizeof(buf) ? (size_t)(end->size - at) : sizeof(buf);
        for (size_t i = 0; i < piece; i++)
            buf[i] = byte_at(at + i);
        EXPECT_EQ(kin_write(end->fd, buf, piece, NULL, KIN_NEVER), 0);
        at += piece;
        if (end->is_slow)
            EXPECT_EQ(kin_yield(), 0);
    }
    if (end->kind == A_FILE)
        EXPECT_EQ(lseek(end->fd, 0, SEEK_SET), 0);
    else
        EXPECT_EQ(kin_close(end->fd), 0);
    return 0;
}

static int drain(void *arg)
{
    struct end *end = arg;
    unsigned char buf[2000];
    uint64_t at = 0;
    ssize_t got;
    while ((got = kin_read(end->fd, buf, sizeof(buf), KIN_NEVER)) > 0) { /* ends: with the stream */
        for (ssize_t i = 0; i < got; i++)
            EXPECT_EQ(buf[i], byte_at(at + (uint64_t)i));
        at += (uint64_t)got;
        if (end->is_slow)
            EXPECT_EQ(kin_yield(), 0);
    }
    EXPECT_EQ(got, 0);
    EXPECT_EQ(at, end->size);
    return 0;
}

/* Copies size bytes from one kind to another. */
static void copy_between(enum kind from, enum kind to, uint64_t size, bool is_slow)
{
    int source[2], target[2];
    struct kin_copied done = {77, 77};
    make(from, source);
    make(to, target);
    struct end feeder = {source[1], from, size, is_slow};
    struct end drainer = {target[0], to, size, is_slow};
    KIN_NURSERY(n);
    if (from == A_FILE)
        EXPECT_EQ(feed(&feeder), 0);
    else
        EXPECT_EQ(kin_spawn(&n, feed, &feeder), 0);
    if (to != A_FILE)
        EXPECT_EQ(kin_spawn(&n, drain, &drainer), 0);
    EXPECT_EQ(kin_copy(target[1], source[0], UINT64_MAX, &done, KIN_NEVER), 0);
    EXPECT_EQ(done.taken, size);
    EXPECT_EQ(done.given, size);
    if (to == A_FILE) {
        EXPECT_EQ(lseek(target[0], 0, SEEK_CUR), (off_t)size);
        EXPECT_EQ(lseek(target[0], 0, SEEK_SET), 0);
        EXPECT_EQ(drain(&drainer), 0);
    } else {
        EXPECT_EQ(kin_close(target[1]), 0);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_close(source[0]), 0);
    EXPECT_EQ(kin_close(target[0]), 0);
}

static int copy_all_kinds(void *arg)
{
    EXPECT_EQ(kin__watcher_start(kin__worker_self()->sched), 0); /* whether somebody waits or not */
    int before = count_descriptors();
    (void)arg;
    for (unsigned from = 0; from < KINDS; from++) {
        for (unsigned to = 0; to < KINDS; to++) {
            copy_between(from, to, 0, false);
            copy_between(from, to, 1000, false);
            copy_between(from, to, 300000, false);
            copy_between(from, to, 200000, true);
        }
    }
    EXPECT_EQ(count_descriptors(), before);
    return 0;
}

KIN_TEST(every_kind_can_be_copied_to_every_kind, "")
{
    EXPECT_EQ(run_reporting(1, copy_all_kinds, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, copy_all_kinds, NULL, NULL), 0);
}

/* ---- limits and early ends ---- */

static int copy_a_part(void *arg)
{
    int source[2], target[2];
    char buf[16];
    struct kin_copied done;
    (void)arg;
    for (unsigned kind = A_PIPE; kind < KINDS; kind++) {
        make(kind, source);
        make(A_SOCKET, target);
        EXPECT_EQ(kin_write(source[1], "0123456789", 10, NULL, KIN_NEVER), 0);
        EXPECT_EQ(kin_copy(target[1], source[0], 4, &done, KIN_NEVER), 0);
        EXPECT_EQ(done.given, 4);
        EXPECT_EQ(kin_copy(target[1], source[0], 0, &done, KIN_NEVER), 0);
        EXPECT_EQ(done.given, 0);
        EXPECT_EQ(kin_read(target[0], buf, sizeof(buf), KIN_NEVER), 4);
        EXPECT_EQ(kin_read(source[0], buf, sizeof(buf), KIN_NEVER), 6); /* no more was taken */
        EXPECT_EQ(memcmp(buf, "456789", 6), 0);
        EXPECT_EQ(kin_copy(target[1], source[0], 4, &done, 0), KIN_TIMEOUT);
        EXPECT_EQ(kin_copy(target[1], source[0], 4, &done, kin_after(KIN_MS(1))), KIN_TIMEOUT);
        EXPECT_EQ(done.taken, 0);
        EXPECT_EQ(kin_close(target[0]), 0);
        EXPECT_EQ(kin_write(source[1], "x", 1, NULL, KIN_NEVER), 0);
        EXPECT_EQ(kin_copy(target[1], source[0], 4, &done, KIN_NEVER), -EPIPE); /* no signal */
        EXPECT_EQ(done.given, 0);
        EXPECT_EQ(kin_close(target[1]), 0);
        EXPECT_EQ(kin_close(source[0]), 0);
        EXPECT_EQ(kin_close(source[1]), 0);
    }
    return 0;
}

KIN_TEST(a_copy_takes_no_more_than_it_may, "")
{
    EXPECT_EQ(run_reporting(1, copy_a_part, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, copy_a_part, NULL, NULL), 0);
}

struct copying {
    int to, from;
    _Atomic int rc;
    struct kin_copied done;
};

static int copy_it(void *arg)
{
    struct copying *copying = arg;
    int rc = kin_copy(copying->to, copying->from, UINT64_MAX, &copying->done, KIN_NEVER);
    copying->rc = rc;
    return rc;
}

static bool has_room(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLOUT};
    EXPECT_GE(poll(&one, 1, 0), 0);
    return one.revents != 0;
}

/* The target is full and nobody reads it: the copy is cancelled, or one of its ends is closed. */
static int end_a_copy(void *arg)
{
    (void)arg;
    for (unsigned way = 0; way < 3; way++) {
        int source[2], target[2];
        make(A_TCP, source);
        make(A_TCP, target);
        struct copying copying = {.to = target[1], .from = source[0]};
        KIN_NURSERY(n, .on_error = KIN_COLLECT);
        EXPECT_EQ(kin_spawn(&n, copy_it, &copying), 0);
        static char zeros[65536];
        size_t put;
        int rc;
        do { /* ends: nobody reads at the other end; a copy that is late fills it first */
            rc = kin_write(source[1], zeros, sizeof(zeros), &put, kin_after(KIN_MS(20)));
        } while (rc == 0 || (rc == KIN_TIMEOUT && has_room(target[1])));
        EXPECT_EQ(rc, KIN_TIMEOUT);
        if (way == 0)
            kin_nursery_cancel(&n, 0);
        else
            EXPECT_EQ(kin_close(way == 1 ? target[1] : source[0]), 0);
        if (way == 2) /* it waits for the target: there is room again, and no source */
            EXPECT_GT(kin_read(target[0], zeros, sizeof(zeros), KIN_NEVER), 0);
        while (way == 1 && copying.rc == 0) /* ends: it waits for the target, or comes to that */
            kin_ignore(kin_write(source[1], zeros, sizeof(zeros), &put, kin_after(KIN_MS(1))));
        while (way == 2 && copying.rc == 0) /* ends: it finds out when it takes more */
            kin_ignore((int)kin_read(target[0], zeros, sizeof(zeros), kin_after(KIN_MS(1))));
        kin_ignore(kin_nursery_join(&n, NULL));
        EXPECT_EQ(copying.rc, way == 0 ? KIN_CANCELLED : KIN_CLOSED);
        EXPECT_GE(copying.done.taken, copying.done.given);
        EXPECT_LE(copying.done.taken - copying.done.given, 65536);
        EXPECT_GT(copying.done.given, 0);
        if (way != 1)
            EXPECT_EQ(kin_close(target[1]), 0);
        if (way != 2)
            EXPECT_EQ(kin_close(source[0]), 0);
        EXPECT_EQ(kin_close(source[1]), 0);
        EXPECT_EQ(kin_close(target[0]), 0);
    }
    return 0;
}

KIN_TEST(a_copy_can_be_ended_and_says_how_far_it_came, "")
{
    EXPECT_EQ(run_reporting(1, end_a_copy, NULL, NULL), 0);
}

/* Without memory it fails before it takes anything; without descriptors it takes another way. */
static int copy_without_means(void *arg)
{
    int source[2], target[2];
    struct kin_copied done;
    (void)arg;
    make(A_TCP, source);
    make(A_SOCKET, target);
    EXPECT_EQ(kin_write(source[1], "abc", 3, NULL, KIN_NEVER), 0);
    kin__plat_fail_after(1, true);
    EXPECT_EQ(kin_copy(target[1], source[0], 3, &done, KIN_NEVER), -ENOMEM);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(done.taken, 0);
    EXPECT_EQ(kin_copy(target[1], source[0], 3, &done, KIN_NEVER), 0);
    EXPECT_EQ(done.given, 3);
    EXPECT_EQ(kin_close(source[0]), 0);
    EXPECT_EQ(kin_close(source[1]), 0);
    EXPECT_EQ(kin_close(target[0]), 0);
    EXPECT_EQ(kin_close(target[1]), 0);

    make(A_TCP, source);
    make(A_TCP, target);
    struct end feeder = {source[1], A_TCP, 500000, false};
    struct end drainer = {target[0], A_TCP, 500000, false};
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, feed, &feeder), 0);
    EXPECT_EQ(kin_spawn(&n, drain, &drainer), 0);
    struct rlimit limit, none;
    EXPECT_EQ(kin_fd_wait(source[0], POLLIN, KIN_NEVER), POLLIN); /* waits have what they need */
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 3;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    EXPECT_EQ(kin_copy(target[1], source[0], UINT64_MAX, &done, KIN_NEVER), 0);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(done.given, 500000);
    EXPECT_EQ(kin_close(target[1]), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_close(source[0]), 0);
    EXPECT_EQ(kin_close(target[0]), 0);
    return 0;
}

KIN_TEST(without_a_pipe_the_buffer_does, "")
{
    EXPECT_EQ(run_reporting(1, copy_without_means, NULL, NULL), 0);
}

/* A target that cannot be spliced to: a file that is appended to. */
static int copy_to_the_end(void *arg)
{
    int source[2];
    char path[] = "/tmp/kin_copy_XXXXXX";
    struct kin_copied done;
    (void)arg;
    int file = kin_test_mkstemp(path);
    EXPECT_GE(file, 0);
    int appended = open(path, O_WRONLY | O_APPEND);
    EXPECT_GE(appended, 0);
    EXPECT_EQ(unlink(path), 0);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        EXPECT_EQ(ftruncate(file, 0), 0);
        make(kind, source);
        struct end feeder = {source[1], kind, 200000, false}, drainer = {file, A_FILE, 200000, 0};
        KIN_NURSERY(n);
        if (kind == A_FILE)
            EXPECT_EQ(feed(&feeder), 0);
        else
            EXPECT_EQ(kin_spawn(&n, feed, &feeder), 0);
        EXPECT_EQ(kin_copy(appended, source[0], UINT64_MAX, &done, KIN_NEVER), 0);
        EXPECT_EQ(done.given, 200000);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(lseek(file, 0, SEEK_SET), 0);
        EXPECT_EQ(drain(&drainer), 0);
        EXPECT_EQ(kin_close(source[0]), 0);
    }
    EXPECT_EQ(kin_close(appended), 0);
    EXPECT_EQ(kin_close(file), 0);
    return 0;
}

KIN_TEST(what_cannot_be_spliced_is_copied, "")
{
    EXPECT_EQ(run_reporting(1, copy_to_the_end, NULL, NULL), 0);
}

/* A file that nobody comes to the end of; its position is how much of it was taken. */
static int open_endless(void)
{
    int file = open_temporary();
    EXPECT_EQ(ftruncate(file, (off_t)1 << 40), 0);
    return file;
}

/* A copy that never waits still lets others run, can be cancelled and has a deadline. */
static int copy_without_end(void *arg)
{
    (void)arg;
    int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
    int file = open_endless();
    struct copying copying = {.to = null, .from = zero}, counted = {.to = null, .from = file};
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, copy_it, &copying), 0);
    EXPECT_EQ(kin_spawn(&n, copy_it, &counted), 0);
    off_t first;
    while ((first = lseek(file, 0, SEEK_CUR)) == 0) /* ends: the others run, too */
        EXPECT_EQ(kin_yield(), 0);
    while (lseek(file, 0, SEEK_CUR) == first) /* ends: as above; the first piece is given then */
        EXPECT_EQ(kin_yield(), 0);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(counted.rc, KIN_CANCELLED);
    EXPECT_GT(counted.done.given, 0);
    EXPECT_GE(counted.done.taken, counted.done.given); /* the cancel may come between the two */
    EXPECT_LE(counted.done.taken, lseek(file, 0, SEEK_CUR));
    EXPECT_EQ(kin_close(file), 0);
    EXPECT_EQ(copying.rc, KIN_CANCELLED);
    EXPECT_GE(copying.done.taken, copying.done.given); /* 0, if the cancel came first */
    struct kin_copied done;
    EXPECT_EQ(kin_copy(null, zero, UINT64_MAX, &done, kin_after(KIN_MS(2))), KIN_TIMEOUT);
    kin_time before = kin_deadline_push(kin_after(KIN_MS(2)));
    EXPECT_EQ(kin_copy(null, zero, UINT64_MAX, &done, KIN_NEVER), KIN_TIMEOUT);
    EXPECT_EQ(kin_copy(null, zero, 1000000, &done, 0), 0); /* over, and can be done at once */
    EXPECT_EQ(done.given, 1000000);
    kin_deadline_pop(before);
    EXPECT_EQ(kin_close(zero), 0);
    EXPECT_EQ(kin_close(null), 0);
    return 0;
}

KIN_TEST(a_copy_that_never_waits_ends_all_the_same, "")
{
    EXPECT_EQ(run_reporting(1, copy_without_end, NULL, NULL), 0);
}
