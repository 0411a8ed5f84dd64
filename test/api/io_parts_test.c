/* SPDX-License-Identifier: MIT */
/*
 * Goal: bytes go from and to several places in one call, and from a file to a socket without
 * passing through the program.
 * Method: socket pairs and a file of the test's own; peers that read late, little or not at all.
 */
#include "api/descriptors.h"
#include "api/in_runtime.h"

#include <kin/io.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define SIZE 300000

static char bytes[SIZE];
static int file;

static void both(kin_task_fn *fn)
{
    char path[] = "/tmp/kin-parts-XXXXXX";
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (char)(i * 31 >> 4);
    file = kin_test_mkstemp(path);
    EXPECT_GE(file, 0);
    EXPECT_EQ(unlink(path), 0);
    EXPECT_EQ(write(file, bytes, SIZE), SIZE);
    EXPECT_EQ(run_reporting(1, fn, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, fn, NULL, NULL), 0);
    EXPECT_EQ(close(file), 0);
}

static void make_pair(int ends[2])
{
    int small = 4096;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    EXPECT_EQ(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
}

static void close_pair(const int ends[2])
{
    EXPECT_EQ(kin_close(ends[0]), 0);
    EXPECT_EQ(kin_close(ends[1]), 0);
}

/* ---- several parts ---- */

static int read_parts(void *arg)
{
    int ends[2];
    char a[3], b[4], c[100];
    struct iovec parts[] = {{a, 3}, {NULL, 0}, {b, 4}, {c, 100}};
    (void)arg;
    make_pair(ends);
    EXPECT_EQ(kin_readv(ends[1], parts, 4, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_readv(ends[1], parts, 4, kin_after(KIN_MS(2))), KIN_TIMEOUT);
    EXPECT_EQ(kin_write(ends[0], "abcdefgh", 8, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_readv(ends[1], parts, 4, KIN_NEVER), 8);
    EXPECT_EQ(memcmp(a, "abc", 3), 0);
    EXPECT_EQ(memcmp(b, "defg", 4), 0);
    EXPECT_EQ(c[0], 'h');
    EXPECT_EQ(kin_readv(ends[1], parts, -1, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_readv(ends[1], parts, 1025, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_readv(ends[1], NULL, 1, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_shutdown(ends[0], SHUT_WR), 0);
    EXPECT_EQ(kin_readv(ends[1], parts, 4, KIN_NEVER), 0);
    close_pair(ends);
    return 0;
}

KIN_TEST(parts_are_filled_in_their_order, "")
{
    both(read_parts);
}

static int drain(void *arg)
{
    int fd = *(int *)arg;
    size_t have = 0;
    char buf[777];
    ssize_t got;
    while ((got = kin_read(fd, buf, sizeof buf, KIN_NEVER)) > 0) { /* ends: with the writer */
        EXPECT_EQ(memcmp(buf, bytes + have, (size_t)got), 0);
        have += (size_t)got;
    }
    EXPECT_EQ(have, SIZE);
    return (int)got;
}

/* Parts of all sizes, of which the system takes a piece here and a piece there. */
static int write_parts(void *arg)
{
    enum { COUNT = 40 };
    int ends[2];
    struct iovec parts[COUNT];
    size_t at = 0, done;
    (void)arg;
    make_pair(ends);
    for (int i = 0; i < COUNT; i++) {
        size_t size = i == COUNT - 1 ? SIZE - at : i % 4 == 0 ? 0 : (size_t)(i * 113);
        parts[i] = (struct iovec){bytes + at, size};
        at += size;
    }
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, drain, &ends[1]), 0);
    EXPECT_EQ(kin_writev(ends[0], parts, COUNT, &done, KIN_NEVER), 0);
    EXPECT_EQ(done, SIZE);
    EXPECT_EQ(kin_shutdown(ends[0], SHUT_WR), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_writev(ends[0], parts, 1025, &done, KIN_NEVER), -EINVAL);
    EXPECT_EQ(done, 0);
    close_pair(ends);
    return 0;
}

KIN_TEST(parts_are_written_whole_whatever_the_system_takes, "")
{
    both(write_parts);
}

/* ---- files ---- */

static int send_file(void *arg)
{
    int ends[2];
    int64_t offset = 0;
    size_t done;
    (void)arg;
    make_pair(ends);
    {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, drain, &ends[1]), 0);
        EXPECT_EQ(kin_sendfile(ends[0], file, &offset, 1000, &done, KIN_NEVER), 0);
        EXPECT_EQ(done, 1000);
        EXPECT_EQ(offset, 1000);
        EXPECT_EQ(lseek(file, 1000, SEEK_SET), 1000); /* from where the file stands: to its end */
        EXPECT_EQ(kin_sendfile(ends[0], file, NULL, SIZE_MAX, &done, KIN_NEVER), 0);
        EXPECT_EQ(done, SIZE - 1000);
        EXPECT_EQ(lseek(file, 0, SEEK_CUR), SIZE);
        EXPECT_EQ(kin_sendfile(ends[0], file, NULL, 1, &done, KIN_NEVER), 0); /* it has ended */
        EXPECT_EQ(done, 0);
        EXPECT_EQ(kin_sendfile(ends[0], file, &offset, 0, &done, KIN_NEVER), 0);
        EXPECT_EQ(kin_shutdown(ends[0], SHUT_WR), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    EXPECT_EQ(kin_sendfile(ends[0], file, &offset, 1, &done, KIN_NEVER), -EPIPE);
    EXPECT_EQ(done, 0);
    EXPECT_EQ(offset, 1000);
    EXPECT_EQ(kin_sendfile(NUMBER_OF_OURS, file, &offset, 1, &done, KIN_NEVER), -EBADF);
    close_pair(ends);
    return 0;
}

KIN_TEST(a_file_is_sent_in_pieces_or_as_a_whole, "")
{
    both(send_file);
}

struct sending {
    int to, from;
    int64_t offset;
    size_t done;
    int rc;
};

static int send_all(void *arg)
{
    struct sending *sending = arg;
    sending->rc = kin_sendfile(sending->to, sending->from, &sending->offset, SIZE, &sending->done,
                               KIN_NEVER);
    return 0;
}

/* Nobody reads: a deadline or a cancel ends it, and the rest can be sent from there. */
static int stop_and_go_on(void *arg)
{
    (void)arg;
    for (int is_cancelled = 0; is_cancelled < 2; is_cancelled++) {
        int ends[2];
        struct sending sending = {0};
        size_t rest;
        make_pair(ends);
        sending.to = ends[0];
        sending.from = file;
        if (is_cancelled) {
            KIN_NURSERY(n);
            EXPECT_EQ(kin_spawn(&n, send_all, &sending), 0);
            EXPECT_EQ(kin_fd_wait(ends[1], 1 /* POLLIN */, KIN_NEVER), 1);
            kin_nursery_cancel(&n, 0);
            EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
            EXPECT_EQ(sending.rc, KIN_CANCELLED);
        } else {
            EXPECT_EQ(kin_sendfile(ends[0], file, &sending.offset, SIZE, &sending.done,
                                   kin_after(KIN_MS(5))), KIN_TIMEOUT);
        }
        EXPECT_GT(sending.done, 0);
        EXPECT_LT(sending.done, SIZE);
        EXPECT_EQ(sending.offset, sending.done);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, drain, &ends[1]), 0);
        EXPECT_EQ(kin_sendfile(ends[0], file, &sending.offset, SIZE, &rest, KIN_NEVER), 0);
        EXPECT_EQ(sending.done + rest, SIZE);
        EXPECT_EQ(kin_shutdown(ends[0], SHUT_WR), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        close_pair(ends);
    }
    return 0;
}

KIN_TEST(a_file_that_was_not_sent_to_its_end_is_sent_on_from_there, "")
{
    both(stop_and_go_on);
}

static int send_and_end(void *arg)
{
    const struct sending *sending = arg;
    (void)send_all(arg);
    return kin_shutdown(sending->to, SHUT_WR);
}

/* The file is closed while there is no room for more of it, and its number goes to another. */
static int close_the_file(void *arg)
{
    static char back[SIZE];
    int ends[2];
    size_t got;
    (void)arg;
    make_pair(ends);
    struct sending sending = {.to = ends[0], .from = dup(file)};
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, send_and_end, &sending), 0);
    while (kin_fd_wait(ends[0], 4 /* POLLOUT */, 0) != KIN_TIMEOUT) /* ends: nobody reads yet */
        (void)kin_yield();
    EXPECT_EQ(kin_close(sending.from), 0);
    int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC); /* gets the number, if it is free by now */
    EXPECT_GE(zeros, 0);
    EXPECT_EQ(kin_read_full(ends[1], back, SIZE, &got, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(sending.rc, KIN_CLOSED);
    EXPECT_EQ(got, sending.done);
    EXPECT_EQ(memcmp(back, bytes, got), 0); /* nothing of the other one */
    EXPECT_EQ(close(zeros), 0);
    close_pair(ends);
    return 0;
}

KIN_TEST(a_file_that_is_closed_meanwhile_is_not_taken_for_the_next_one, "")
{
    both(close_the_file);
}
