/* SPDX-License-Identifier: MIT */
/*
 * Goal: system calls on descriptors do not block, raise no signal and say -errno.
 * Method: pipes, socket pairs and files; SIGPIPE is left at its default, which would end the test.
 */
#include "kin_test.h"

#include "plat/plat.h"

#include <errno.h>
#include <stdio.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

KIN_TEST(nothing_there_is_eagain, "")
{
    int fds[2];
    char buf[4];
    struct iovec part = {buf, sizeof(buf)};
    EXPECT_EQ(pipe(fds), 0);
    EXPECT_EQ(kin__fd_unblock(fds[0]), 0);
    EXPECT_EQ(kin__fd_unblock(fds[0]), 0);
    EXPECT_EQ(kin__fd_read(fds[0], buf, sizeof(buf)), -EAGAIN);
    EXPECT_EQ(kin__fd_readv(fds[0], &part, 1), -EAGAIN);
    EXPECT_EQ(kin__fd_look(fds[0], KIN__READY_READ), 0);
    EXPECT_EQ(kin__fd_write(fds[1], "abcdef", 6), 6);
    EXPECT_EQ(kin__fd_look(fds[0], KIN__READY_READ | KIN__READY_WRITE), KIN__READY_READ);
    EXPECT_EQ(kin__fd_read(fds[0], buf, 4), 4);
    EXPECT_EQ(kin__fd_readv(fds[0], &part, 1), 2);
    EXPECT_EQ(buf[1], 'f');
    EXPECT_EQ(kin__fd_close(fds[0]), 0);
    EXPECT_EQ(kin__fd_close(fds[0]), -EBADF);
    EXPECT_EQ(kin__fd_unblock(fds[0]), -EBADF);
    EXPECT_EQ(kin__fd_look(fds[0], KIN__READY_READ), -EBADF);
    EXPECT_EQ(kin__fd_close(fds[1]), 0);
}

static bool is_pending(void)
{
    sigset_t pending;
    EXPECT_EQ(sigpending(&pending), 0);
    return sigismember(&pending, SIGPIPE) == 1;
}

KIN_TEST(no_write_raises_a_signal, "")
{
    int fds[2];
    struct iovec part = {(char[]){"x"}, 1};
    EXPECT_EQ(pipe(fds), 0);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(kin__fd_write(fds[1], "x", 1), -EPIPE);
    EXPECT_EQ(kin__fd_writev(fds[1], &part, 1), -EPIPE);
    EXPECT(!is_pending());
    EXPECT_EQ(close(fds[1]), 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(kin__fd_write(fds[1], "x", 1), -EPIPE);
    EXPECT_EQ(kin__fd_writev(fds[1], &part, 1), -EPIPE);
    EXPECT(!is_pending());
    EXPECT_EQ(close(fds[1]), 0);
}

KIN_TEST(a_signal_of_somebody_else_stays_pending, "")
{
    int fds[2];
    sigset_t pipes;
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    EXPECT_EQ(sigprocmask(SIG_BLOCK, &pipes, NULL), 0);
    EXPECT_EQ(raise(SIGPIPE), 0);
    EXPECT_EQ(pipe(fds), 0);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(kin__fd_write(fds[1], "x", 1), -EPIPE);
    EXPECT(is_pending());
    EXPECT_EQ(close(fds[1]), 0);
}

KIN_TEST(a_file_is_sent_from_an_offset, "")
{
    int fds[2];
    char buf[8];
    int64_t offset = 2;
    FILE *file = tmpfile();
    EXPECT(file && fputs("0123456789", file) >= 0 && fflush(file) == 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    EXPECT_EQ(kin__fd_sendfile(fds[0], fileno(file), &offset, 4), 4);
    EXPECT_EQ(offset, 6);
    EXPECT_EQ(kin__fd_read(fds[1], buf, sizeof(buf)), 4);
    EXPECT_EQ(buf[0], '2');
    EXPECT_EQ(kin__fd_shutdown(fds[0], SHUT_WR), 0);
    EXPECT_EQ(kin__fd_read(fds[1], buf, sizeof(buf)), 0);
    EXPECT_EQ(kin__fd_sendfile(fds[0], fileno(file), &offset, 4), -EPIPE);
    EXPECT_EQ(kin__fd_shutdown(fileno(file), SHUT_WR), -ENOTSOCK);
    fclose(file);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
}

KIN_TEST(a_socket_is_received_from, "")
{
    int fds[2];
    char buf[4];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    EXPECT_EQ(kin__fd_receive(fds[0], buf, sizeof(buf)), -EAGAIN);
    EXPECT_EQ(kin__fd_write(fds[1], "abcdef", 6), 6);
    EXPECT_EQ(kin__fd_receive(fds[0], buf, sizeof(buf)), 4);
    EXPECT_EQ(buf[3], 'd');
    EXPECT_EQ(kin__fd_receive(fds[0], buf, sizeof(buf)), 2);
    EXPECT_EQ(close(fds[1]), 0);
    EXPECT_EQ(kin__fd_receive(fds[0], buf, sizeof(buf)), 0);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(kin__fd_receive(fds[0], buf, sizeof(buf)), -EBADF);
}

KIN_TEST(bytes_are_moved_through_pipes_only, "")
{
    int a[2], b[2], pair[2];
    char buf[8];
    EXPECT_EQ(kin__fd_pipe(a), 0);
    EXPECT_EQ(kin__fd_pipe(b), 0);
    EXPECT_EQ(fcntl(a[0], F_GETFD), FD_CLOEXEC);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    EXPECT_EQ(kin__fd_splice(b[1], a[0], 100), -EAGAIN);
    EXPECT_EQ(kin__fd_write(a[1], "abcd", 4), 4);
    EXPECT_EQ(kin__fd_splice(b[1], a[0], 3), 3);
    EXPECT_EQ(kin__fd_splice(pair[0], b[0], 100), 3);
    EXPECT_EQ(kin__fd_splice(pair[0], pair[1], 100), -EINVAL);
    EXPECT_EQ(kin__fd_read(pair[1], buf, sizeof(buf)), 3);
    EXPECT_EQ(close(b[0]), 0);
    EXPECT_EQ(kin__fd_splice(b[1], a[0], 100), -EPIPE); /* and no signal */
    EXPECT(!is_pending());
    EXPECT_EQ(close(a[1]), 0);
    EXPECT_EQ(close(pair[1]), 0);
    EXPECT_EQ(kin__fd_splice(pair[0], a[0], 100), -EPIPE);
    EXPECT(!is_pending());
    EXPECT_EQ(close(a[0]), 0);
    EXPECT_EQ(close(b[1]), 0);
    EXPECT_EQ(close(pair[0]), 0);
    kin__plat_fail_after(1, false);
    EXPECT_EQ(kin__fd_pipe(a), -ENOMEM);
    kin__plat_fail_after(0, false);
}

KIN_TEST(a_number_is_a_socket_a_file_or_something_else, "")
{
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    EXPECT_EQ(kin__fd_kind(fds[0]), KIN__FD_KIND_SOCKET);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(kin__fd_kind(fds[0]), KIN__FD_KIND_OTHER); /* nothing at all */
    EXPECT_EQ(close(fds[1]), 0);
    EXPECT_EQ(pipe(fds), 0);
    EXPECT_EQ(kin__fd_kind(fds[1]), KIN__FD_KIND_OTHER);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(kin__fd_kind(fd), KIN__FD_KIND_FILE);
    EXPECT_EQ(close(fd), 0);
}
