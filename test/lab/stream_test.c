/* SPDX-License-Identifier: MIT */
/*
 * Goal: bytes go from one end of a simulated connection to the other as they do through real ones.
 * Method: pairs, pipes and connections, each property by itself; what does not depend on each other
 * is not explored in both orders.
 */
#include "lab/in_lab.h"

#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static void expect_well(int rc)
{
    if (rc < 0)
        printf("%s\n", report.text);
    EXPECT_EQ(rc, 0);
}

static void close_two(const int fds[2])
{
    kin_close(fds[0]);
    kin_close(fds[1]);
}

/* ---- independence ---- */

static int ping(void *arg)
{
    const int *fds = arg;
    char byte = 'x';
    KIN_LAB_OK(kin_write(fds[0], &byte, 1, NULL, KIN_NEVER));
    ssize_t got = kin_read(fds[1], &byte, 1, KIN_NEVER);
    return got == 1 ? 0 : -EIO;
}

static int two_pairs(void *arg)
{
    int fds[4];
    (void)arg;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM, 0, fds + 2) < 0)
        return -EIO;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, ping, fds));
    KIN_LAB_OK(kin_spawn(&n, ping, fds + 2));
    int rc = kin_nursery_join(&n, NULL);
    close_two(fds);
    close_two(fds + 2);
    return rc;
}

static int put_one(void *arg)
{
    char byte = 'x';
    return kin_write(*(const int *)arg, &byte, 1, NULL, KIN_NEVER);
}

static int both_ways(void *arg)
{
    int fds[2];
    char byte;
    (void)arg;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
        return -EIO;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, put_one, &fds[0]));
    KIN_LAB_OK(kin_spawn(&n, put_one, &fds[1]));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_lab_assert(kin_read(fds[0], &byte, 1, 0) == 1, "one way");
    kin_lab_assert(kin_read(fds[1], &byte, 1, 0) == 1, "and the other");
    close_two(fds);
    return 0;
}

static int one_way(void *arg)
{
    int fds[2];
    char bytes[2];
    (void)arg;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
        return -EIO;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, put_one, &fds[0]));
    KIN_LAB_OK(kin_spawn(&n, put_one, &fds[0]));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_lab_assert(kin_read(fds[1], bytes, 2, 0) == 2, "both arrive");
    close_two(fds);
    return 0;
}

/* What the tasks alone have: how two that do nothing may end. */
static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int two_idle(void *arg)
{
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, nothing, arg));
    KIN_LAB_OK(kin_spawn(&n, nothing, arg));
    return kin_nursery_join(&n, NULL);
}

static uint64_t executions_of(kin_task_fn *test)
{
    expect_well(lab(KIN_LAB_DPOR, 0, test, NULL));
    EXPECT(report.exhausted);
    return report.executions;
}

KIN_TEST(connections_and_directions_are_independent, "")
{
    uint64_t idle = executions_of(two_idle);
    EXPECT_EQ(executions_of(two_pairs), idle);
    EXPECT_EQ(executions_of(both_ways), idle);
    EXPECT_GT(executions_of(one_way), idle);
}

/* ---- bytes ---- */

static int pass_through(void *arg)
{
    int fds[2];
    char text[8] = "";
    struct iovec out[3] = {{(char[]){"ab"}, 2}, {NULL, 0}, {(char[]){"cde"}, 3}};
    char first[2], second[9];
    struct iovec in[2] = {{first, 2}, {second, 9}};
    size_t done;
    (void)arg;
    kin_lab_assert(pipe(fds) == 0, "a pipe");
    KIN_LAB_OK(kin_writev(fds[1], out, 3, &done, KIN_NEVER));
    kin_lab_assert(done == 5, "all of it");
    kin_lab_assert(kin_read(fds[0], text, 1, KIN_NEVER) == 1 && text[0] == 'a', "one byte");
    kin_lab_assert(kin_readv(fds[0], in, 2, KIN_NEVER) == 4, "the rest");
    kin_lab_assert(memcmp(first, "bc", 2) == 0 && memcmp(second, "de", 2) == 0, "in order");
    kin_lab_assert(kin_read(fds[0], text, 1, 0) == KIN_TIMEOUT, "no more");
    kin_lab_assert(kin_write(fds[0], text, 1, NULL, 0) == -EBADF, "the wrong end");
    kin_lab_assert(kin_read(fds[1], text, 1, 0) == -EBADF, "as well");
    kin_close(fds[1]);
    kin_lab_assert(kin_read(fds[0], text, 1, KIN_NEVER) == 0, "the end");
    kin_close(fds[0]);
    return 0;
}

KIN_TEST(bytes_arrive_in_order_and_then_the_end, "")
{
    expect_well(lab(KIN_LAB_ROUND_ROBIN, 1, pass_through, NULL));
}

#define MUCH 200000u /* more than a direction holds */

static int write_much(void *arg)
{
    static unsigned char bytes[MUCH];
    size_t done = 0;
    for (size_t i = 0; i < MUCH; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    int rc = kin_write(*(const int *)arg, bytes, MUCH, &done, KIN_NEVER);
    kin_close(*(const int *)arg);
    return rc < 0 ? rc : done == MUCH ? 0 : -EIO;
}

static int read_much(void *arg)
{
    unsigned char buf[3001];
    int fds[2];
    size_t at = 0;
    ssize_t got;
    (void)arg;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
        return -EIO;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, write_much, &fds[0]));
    while ((got = kin_read(fds[1], buf, sizeof(buf), KIN_NEVER)) > 0) {
        for (ssize_t i = 0; i < got; i++, at++)
            kin_lab_assert(buf[i] == (unsigned char)(at * 7 + at / 251), "the same bytes");
    }
    kin_close(fds[1]);
    kin_lab_assert(got == 0 && at == MUCH, "all of them");
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_writer_waits_when_there_is_no_room, "")
{
    expect_well(lab(KIN_LAB_RANDOM, 5, read_much, NULL));
}

static int fill(void *arg)
{
    static char bytes[MUCH];
    int fds[2];
    size_t done = 0;
    (void)arg;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
        return -EIO;
    int rc = kin_write(fds[0], bytes, MUCH, &done, kin_after(KIN_SEC(1)));
    kin_lab_assert(rc == KIN_TIMEOUT && done > 0 && done < MUCH, "as much as there is room for");
    kin_lab_assert(kin_fd_wait(fds[0], 4 /* POLLOUT */, 0) == KIN_TIMEOUT, "full");
    close_two(fds);
    return 0;
}

KIN_TEST(what_was_written_before_the_deadline_is_told, "")
{
    expect_well(lab(KIN_LAB_ROUND_ROBIN, 1, fill, NULL));
}

/* Whoever waits for room without having tried is told of it too. */
static int await_room(void *arg)
{
    struct kin_case cases[1] = {kin_case_write(*(const int *)arg)};
    return kin_select(cases, 1, KIN_NEVER);
}

static int make_room(void *arg)
{
    static char bytes[MUCH];
    int fds[2];
    (void)arg;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
        return -EIO;
    kin_lab_assert(kin_write(fds[0], bytes, MUCH, NULL, 0) == KIN_TIMEOUT, "full");
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, await_room, &fds[0]));
    KIN_LAB_OK(kin_lab_wait_all_blocked());
    kin_lab_assert(kin_read(fds[1], bytes, 10, 0) == 10, "room for ten");
    int rc = kin_nursery_join(&n, NULL);
    close_two(fds);
    return rc;
}

KIN_TEST(a_select_for_room_ends_when_there_is_some, "")
{
    expect_well(lab(KIN_LAB_DPOR, 0, make_room, NULL));
}

static int write_more(void *arg)
{
    static char bytes[MUCH];
    int rc = kin_write(*(const int *)arg, bytes, MUCH, NULL, KIN_NEVER);
    kin_lab_assert(rc == -EPIPE, "it is told that nothing is written any more");
    return 0;
}

static int end_a_writer(void *arg)
{
    int fds[2];
    (void)arg;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
        return -EIO;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, write_more, &fds[0]));
    KIN_LAB_OK(kin_shutdown(fds[0], SHUT_WR));
    int rc = kin_nursery_join(&n, NULL);
    close_two(fds);
    return rc;
}

KIN_TEST(a_writer_that_waits_hears_of_a_shutdown, "")
{
    expect_well(lab(KIN_LAB_DPOR, 0, end_a_writer, NULL));
    EXPECT(report.exhausted);
}

/* ---- how it ends ---- */

/* A connection within this machine. */
static int connect_two(int fds[2])
{
    int listener;
    char at[KIN_ADDR_MAX];
    int rc = kin_tcp_listen("127.0.0.1:0", NULL, &listener);
    if (rc == 0)
        rc = kin_local_addr(listener, at, sizeof(at));
    if (rc == 0)
        rc = kin_tcp_connect(at, &fds[0], KIN_NEVER);
    if (rc == 0)
        rc = kin_accept(listener, &fds[1], KIN_NEVER);
    kin_close(listener);
    return rc;
}

static int half_close(void *arg)
{
    int fds[2];
    char byte = 0;
    (void)arg;
    KIN_LAB_OK(connect_two(fds));
    KIN_LAB_OK(kin_write(fds[0], "q", 1, NULL, KIN_NEVER));
    KIN_LAB_OK(kin_shutdown(fds[0], SHUT_WR));
    kin_lab_assert(kin_write(fds[0], "q", 1, NULL, KIN_NEVER) == -EPIPE, "no more is written");
    kin_lab_assert(kin_read(fds[1], &byte, 1, KIN_NEVER) == 1 && byte == 'q', "what came before");
    kin_lab_assert(kin_read(fds[1], &byte, 1, KIN_NEVER) == 0, "then the end");
    KIN_LAB_OK(kin_write(fds[1], "a", 1, NULL, KIN_NEVER));
    kin_lab_assert(kin_read(fds[0], &byte, 1, KIN_NEVER) == 1 && byte == 'a', "the other way");
    kin_lab_assert(kin_shutdown(fds[0], 77) == -EINVAL, "no such direction");
    close_two(fds);
    return 0;
}

KIN_TEST(one_direction_ends_and_the_other_goes_on, "")
{
    expect_well(lab(KIN_LAB_ROUND_ROBIN, 1, half_close, NULL));
}

static int close_early(void *arg)
{
    int fds[2];
    char byte, at[KIN_ADDR_MAX];
    (void)arg;
    KIN_LAB_OK(connect_two(fds));
    kin_close(fds[1]); /* all was read: the other end sees an end, and one write goes well */
    kin_lab_assert(kin_read(fds[0], &byte, 1, KIN_NEVER) == 0, "the end");
    KIN_LAB_OK(kin_write(fds[0], "1", 1, NULL, KIN_NEVER));
    kin_lab_assert(kin_write(fds[0], "2", 1, NULL, KIN_NEVER) == -EPIPE, "then it is known");
    kin_close(fds[0]);
    KIN_LAB_OK(connect_two(fds));
    KIN_LAB_OK(kin_write(fds[1], "4", 1, NULL, KIN_NEVER));
    KIN_LAB_OK(kin_write(fds[0], "unread", 6, NULL, KIN_NEVER));
    kin_close(fds[1]); /* something was not read */
    kin_lab_assert(kin_peer_addr(fds[0], at, sizeof at) == -ENOTCONN, "with nobody any more");
    kin_lab_assert(kin_read(fds[0], &byte, 1, KIN_NEVER) == 1, "what has arrived is there");
    kin_lab_assert(kin_read(fds[0], &byte, 1, KIN_NEVER) == -ECONNRESET, "a reset");
    kin_lab_assert(kin_read(fds[0], &byte, 1, KIN_NEVER) == 0, "which is told once");
    kin_close(fds[0]);
    return 0;
}

KIN_TEST(a_close_is_an_end_or_a_reset, "")
{
    expect_well(lab(KIN_LAB_ROUND_ROBIN, 1, close_early, NULL));
}

/* The end comes, then a reset: that is told as EPIPE, to whoever writes. */
static int reset_late(void *arg)
{
    int fds[2];
    char byte;
    size_t done;
    (void)arg;
    KIN_LAB_OK(connect_two(fds));
    KIN_LAB_OK(kin_write(fds[0], "unread", 6, NULL, KIN_NEVER));
    KIN_LAB_OK(kin_shutdown(fds[1], SHUT_WR));
    kin_close(fds[1]);
    kin_lab_assert(kin_read(fds[0], &byte, 1, KIN_NEVER) == 0, "the end is first");
    kin_lab_assert(kin_write(fds[0], "1", 1, &done, KIN_NEVER) == -EPIPE, "nobody reads");
    kin_lab_assert(kin_shutdown(fds[0], SHUT_WR) == -ENOTCONN, "there is nothing to end");
    kin_close(fds[0]);
    KIN_LAB_OK(connect_two(fds));
    KIN_LAB_OK(kin_shutdown(fds[1], SHUT_RDWR));
    KIN_LAB_OK(kin_write(fds[0], "1", 1, NULL, KIN_NEVER));
    kin_lab_assert(kin_write(fds[0], "2", 1, NULL, KIN_NEVER) == -EPIPE, "it was refused");
    kin_lab_assert(kin_read(fds[1], &byte, 1, KIN_NEVER) == -ECONNRESET, "and both know");
    close_two(fds);
    return 0;
}

KIN_TEST(a_reset_behind_the_end_is_a_broken_pipe, "")
{
    expect_well(lab(KIN_LAB_ROUND_ROBIN, 1, reset_late, NULL));
}

/* The ends of a pipe are ready for what they can do, and for all when there is nobody else. */
static int look_at_pipe(void *arg)
{
    int fds[2];
    char byte, part[] = "part";
    static char full[65000];
    struct iovec parts[] = {{part, 4}, {full, 600}};
    (void)arg;
    if (pipe(fds) < 0)
        return -EIO;
    kin_lab_assert(kin_fd_wait(fds[0], POLLOUT, 0) == KIN_TIMEOUT, "one reads");
    kin_lab_assert(kin_fd_wait(fds[1], POLLIN, 0) == KIN_TIMEOUT, "one writes");
    KIN_LAB_OK(kin_write(fds[1], full, sizeof full, NULL, KIN_NEVER));
    size_t done = 1;
    kin_lab_assert(kin_writev(fds[1], parts, 2, &done, 0) == KIN_TIMEOUT, "too little room");
    kin_lab_assert(done == 0, "for all of it or nothing");
    kin_close(fds[0]);
    kin_lab_assert(kin_fd_wait(fds[1], POLLIN | POLLOUT, 0) == (POLLIN | POLLOUT), "nobody");
    kin_lab_assert(kin_write(fds[1], &byte, 1, NULL, 0) == -EPIPE, "reads");
    kin_close(fds[1]);
    return 0;
}

KIN_TEST(the_ends_of_a_pipe_are_ready_for_their_own, "")
{
    expect_well(lab(KIN_LAB_ROUND_ROBIN, 1, look_at_pipe, NULL));
}

/* ---- memory ---- */

static long resident_pages(void)
{
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident;
}

/* Many connections, one after the other. */
static int come_and_go(void *grown)
{
    int fds[2];
    long before = 0;
    for (int i = 0; i < 5000; i++) {
        if (i == 500)
            before = resident_pages();
        if (pipe(fds) < 0)
            return -EIO;
        KIN_LAB_OK(kin_write(fds[1], "1", 1, NULL, KIN_NEVER));
        close_two(fds);
    }
    if (*(long *)grown == 0) /* in the first run: others find what it has left */
        *(long *)grown = resident_pages() - before;
    return 0;
}

KIN_TEST(memory_of_connections_that_are_over_is_used_again, "")
{
    long grown = 0;
    expect_well(lab(KIN_LAB_ROUND_ROBIN, 1, come_and_go, &grown));
    EXPECT_LT(grown, 3000); /* not a page for each: there is a table, and what tasks did */
}

/* ---- faults ---- */

static unsigned sizes[8], resets, late;

/* Eight bytes from one end to the other: in how many at first? */
static int measure(void *arg)
{
    int fds[2];
    char buf[8];
    size_t done = 0;
    (void)arg;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
        return -EIO;
    kin_time began = kin_now();
    int rc = kin_write(fds[0], "12345678", 8, &done, KIN_NEVER);
    ssize_t got = rc < 0 ? rc : kin_read(fds[1], buf, 8, KIN_NEVER);
    if (got > 0) {
        kin_lab_assert(memcmp(buf, "12345678", (size_t)got) == 0, "the same bytes");
        sizes[got - 1]++;
        done = 0;
        rc = kin_read_full(fds[1], buf + got, 8 - (size_t)got, &done, KIN_NEVER);
        kin_lab_assert(rc < 0 || memcmp(buf, "12345678", 8) == 0, "all of them");
    }
    resets += got == -ECONNRESET || got == -EPIPE || rc == -ECONNRESET;
    late += kin_now() > began;
    close_two(fds);
    return 0;
}

KIN_TEST(reads_and_writes_are_short_late_or_broken_off, "")
{
    expect_well(lab_with(KIN_LAB_DPOR, 0, KIN_FAULT_NET, measure, NULL));
    EXPECT(report.exhausted);
    EXPECT_GT(sizes[0], 0);
    EXPECT_GT(sizes[3], 0);
    EXPECT_GT(sizes[6], 0);
    EXPECT_GT(sizes[7], 0);
    EXPECT_GE(resets, 2);
    EXPECT_GE(late, 4); /* both delays, of the first bytes and of those behind a short write */
}

static unsigned partial;

/* A writer with a deadline that a short write makes it miss. */
static int give_up(void *arg)
{
    int fds[2];
    size_t done = 0;
    (void)arg;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
        return -EIO;
    int rc = kin_write(fds[0], "12345678", 8, &done, kin_after(KIN_SEC(1)));
    partial += rc == KIN_TIMEOUT && done > 0 && done < 8;
    close_two(fds);
    return 0;
}

KIN_TEST(a_short_write_may_be_all_before_the_deadline, "")
{
    expect_well(lab_with(KIN_LAB_DPOR, 0, KIN_FAULT_NET, give_up, NULL));
    EXPECT_GT(partial, 0);
}
