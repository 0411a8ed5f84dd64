/* SPDX-License-Identifier: MIT */
/*
 * Goal: simulated descriptors are nobody else's numbers, are gone with their run, and whatever is
 * left open in it is found.
 * Method: small runs that open and close; some that leave something open.
 */
#include "lab/in_lab.h"

#include "lab/fds.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

static void expect_well(int rc)
{
    if (rc < 0)
        printf("%s\n", report.text);
    EXPECT_EQ(rc, 0);
}

/* ---- numbers ---- */

static int first_numbers[3];

static int take_numbers(void *arg)
{
    int fds[2], *seen = arg;
    kin_lab_assert(pipe(fds) == 0, "a pipe");
    kin_lab_assert(fds[0] >= KIN__SIM_FIRST && fds[1] == fds[0] + 1, "numbers of the lab");
    kin_close(fds[0]);
    kin_lab_assert(kin_close(fds[0]) == -EBADF, "closed once");
    kin_lab_assert(close(fds[1]) == 0, "by the program");
    kin_lab_assert(close(fds[1]) == -1 && kin_errno() == EBADF, "and once");
    *seen = fds[0];
    kin_lab_assert(pipe(fds) == 0 && fds[0] > *seen + 1, "none is used twice");
    kin_close(fds[0]);
    kin_close(fds[1]);
    return 0;
}

KIN_TEST(every_run_begins_with_the_same_numbers, "")
{
    for (int i = 0; i < 3; i++)
        expect_well(lab(KIN_LAB_ROUND_ROBIN, 1, take_numbers, &first_numbers[i]));
    EXPECT_EQ(first_numbers[1], first_numbers[0]);
    EXPECT_EQ(first_numbers[2], first_numbers[0]);
}

static int use_foreign(void *arg)
{
    int fd = *(int *)arg, out;
    char byte, text[8];
    kin_lab_assert(kin_read(fd, &byte, 1, 0) == KIN_UNSUPPORTED, "read");
    kin_lab_assert(kin_write(fd, &byte, 1, NULL, 0) == KIN_UNSUPPORTED, "write");
    kin_lab_assert(kin_fd_wait(fd, POLLIN, 0) == KIN_UNSUPPORTED, "wait");
    kin_lab_assert(kin_accept(fd, &out, 0) == KIN_UNSUPPORTED, "accept");
    kin_lab_assert(kin_shutdown(fd, SHUT_RD) == KIN_UNSUPPORTED, "shutdown");
    kin_lab_assert(kin_local_addr(fd, text, 8) == KIN_UNSUPPORTED, "address");
    kin_lab_assert(kin_read(-1, &byte, 1, 0) == -EBADF, "no number");
    kin_lab_assert(kin_read(KIN__SIM_FIRST + 7, &byte, 1, 0) == -EBADF, "none that is open");
    return 0;
}

KIN_TEST(descriptors_of_the_system_cannot_be_used, "")
{
    int fds[2];
    EXPECT_EQ(pipe(fds), 0); /* outside of a run it is the system's */
    EXPECT_LT(fds[1], KIN__SIM_FIRST);
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, use_foreign, &fds[0]), 0);
    EXPECT_EQ(write(fds[1], "x", 1), 1);
    char byte;
    EXPECT_EQ(read(fds[0], &byte, 1), 1);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
}

/* ---- the program's own calls ---- */

static int by_hand(void *arg)
{
    int fds[2];
    char byte = 0;
    (void)arg;
    kin_lab_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "a pair");
    kin_lab_assert(read(fds[0], &byte, 1) == -1 && kin_errno() == EAGAIN, "it never waits");
    kin_lab_assert(write(fds[1], "x", 1) == 1, "written");
    kin_lab_assert(kin_read(fds[0], &byte, 1, 0) == 1 && byte == 'x', "and read by kin");
    kin_lab_assert(shutdown(fds[1], SHUT_WR) == 0, "the end");
    kin_lab_assert(read(fds[0], &byte, 1) == 0, "is read");
    close(fds[0]);
    close(fds[1]);
    kin_lab_assert(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) == -1, "no more");
    kin_lab_assert(kin_errno() == EOPNOTSUPP, "and why");
    kin_lab_assert(pipe2(fds, O_NONBLOCK) == 0, "a pipe");
    kin_lab_assert(kin_shutdown(fds[0], SHUT_RD) == -ENOTSOCK, "no socket");
    kin_lab_assert(kin_accept(fds[0], &fds[1], 0) == -ENOTSOCK, "nor a listener");
    close(fds[0]);
    return 0;
}

KIN_TEST(what_the_program_opens_itself_is_simulated_too, "")
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    config.oracles = ~KIN_ORACLE_LEAK; /* one end of the pipe was lost above */
    expect_well(kin_lab_run(&config, by_hand, NULL, &report));
}

static unsigned before, after;

static int shut_it(void *arg)
{
    int rc = kin_shutdown(*(int *)arg, SHUT_WR);
    before += rc == 0;
    after += rc == -EBADF;
    return 0;
}

static int close_it(void *arg)
{
    int fds[2];
    (void)arg;
    kin_lab_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "a pair");
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, shut_it, &fds[0]));
    kin_close(fds[0]);
    kin_close(fds[1]);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_close_and_a_shutdown_are_tried_in_both_orders, "")
{
    expect_well(lab(KIN_LAB_DPOR, 0, close_it, NULL));
    EXPECT_GT(before, 0);
    EXPECT_GT(after, 0);
}

/* ---- copies ---- */

static int copy_some(void *arg)
{
    int from[2], to[2];
    char text[8] = "";
    struct kin_copied done;
    (void)arg;
    kin_lab_assert(pipe(from) == 0 && pipe(to) == 0, "two pipes");
    KIN_LAB_OK(kin_write(from[1], "copied", 6, NULL, KIN_NEVER));
    kin_close(from[1]);
    KIN_LAB_OK(kin_copy(to[1], from[0], UINT64_MAX, &done, KIN_NEVER));
    kin_lab_assert(done.taken == 6 && done.given == 6, "all of it");
    kin_lab_assert(kin_read(to[0], text, 8, KIN_NEVER) == 6 && !strcmp(text, "copied"), "the same");
    kin_close(from[0]);
    kin_close(to[0]);
    kin_close(to[1]);
    return 0;
}

KIN_TEST(copies_work_between_simulated_descriptors, "")
{
    expect_well(lab(KIN_LAB_RANDOM, 10, copy_some, NULL));
}

/* What cannot be given is not taken: kin/reader.h says so of a copy in which there is a pipe. */
static int copy_to_nobody(void *arg)
{
    static char text[100000];
    const char *which = arg;
    int from[2], to[2];
    size_t put = 0, got;
    struct kin_copied done;
    bool is_from_pipe = which[0] == 'p';
    kin_lab_assert((is_from_pipe ? pipe(from) : socketpair(AF_UNIX, SOCK_STREAM, 0, from)) == 0 &&
                   (which[1] == 'p' ? pipe(to) : socketpair(AF_UNIX, SOCK_STREAM, 0, to)) == 0,
                   "four ends");
    kin_lab_assert(kin_write(to[1], text, sizeof(text), &put, kin_after(1)) == KIN_TIMEOUT, "full");
    KIN_LAB_OK(kin_write(from[1], "kept", 4, NULL, KIN_NEVER));
    kin_lab_assert(kin_copy(to[1], from[0], UINT64_MAX, &done, kin_after(KIN_SEC(1))) ==
                   KIN_TIMEOUT, "nobody reads");
    kin_lab_assert(done.taken == 0 && done.given == 0, "nothing is lost");
    kin_close(from[1]);
    KIN_LAB_OK(kin_read_full(to[0], text, put, &got, KIN_NEVER));
    KIN_LAB_OK(kin_copy(to[1], from[0], UINT64_MAX, &done, KIN_NEVER));
    kin_lab_assert(done.taken == 4 && done.given == 4, "it is all there");
    kin_lab_assert(kin_read(to[0], text, 8, KIN_NEVER) == 4 && !memcmp(text, "kept", 4), "whole");
    kin_close(from[0]);
    kin_close(to[0]);
    kin_close(to[1]);
    return 0;
}

KIN_TEST(a_copy_with_a_pipe_takes_no_more_than_it_gives, "")
{
    char ways[][3] = {"pp", "ps", "sp"};
    for (unsigned i = 0; i < 3; i++)
        expect_well(lab(KIN_LAB_RANDOM, 5, copy_to_nobody, ways[i]));
}

/* ---- what is left ---- */

static int forget(void *arg)
{
    int listener;
    (void)arg;
    return kin_tcp_listen("127.0.0.1:7000", NULL, &listener);
}

static int let_forget(void *arg)
{
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, forget, arg));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_descriptor_that_is_left_open_is_a_leak, "")
{
    expect_oracle(let_forget, NULL, "leak", KIN_LEAKED);
    EXPECT(strstr(report.text, "root/0#fd0") != NULL || strstr(report.text, "root/0 ") != NULL);
    EXPECT(strstr(report.text, "the tcp 127.0.0.1:7000 that root/0 has opened") != NULL);
}

/* A connection that is lost on the way out of an error. */
static int lose_on_error(void *arg)
{
    int conn, fds[2];
    char byte;
    (void)arg;
    kin_lab_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "a pair");
    conn = fds[0];
    int rc = kin_write(fds[1], "x", 1, NULL, KIN_NEVER);
    kin_close(fds[1]);
    ssize_t got = rc < 0 ? rc : kin_read(conn, &byte, 1, KIN_NEVER);
    if (got < 0)
        return 0; /* and conn is nobody's */
    kin_close(conn);
    return 0;
}

KIN_TEST(a_leak_behind_a_fault_of_the_network_is_found, "")
{
    expect_well(lab(KIN_LAB_DPOR, 0, lose_on_error, NULL));
    EXPECT_EQ(lab_with(KIN_LAB_DPOR, 0, KIN_FAULT_NET, lose_on_error, NULL), KIN_LEAKED);
    EXPECT(strstr(report.text, "reset") != NULL);
}

/* ---- who waits ---- */

static int wait_for_nobody(void *arg)
{
    int listener, conn;
    (void)arg;
    KIN_LAB_OK(kin_tcp_listen("127.0.0.1:7000", NULL, &listener));
    int rc = kin_accept(listener, &conn, KIN_NEVER);
    kin_close(listener);
    return rc;
}

KIN_TEST(a_wait_has_its_reason_in_the_report, "")
{
    expect_oracle(wait_for_nobody, NULL, "deadlock", KIN_DEADLOCK);
    EXPECT(strstr(report.text, "waits for recv tcp root#fd0") != NULL);
    EXPECT(strstr(report.text, "waits, recv tcp root#fd0") != NULL);
}
