/* SPDX-License-Identifier: MIT */
/*
 * System calls on descriptors: they never block, never raise a signal and return -errno.
 *
 * SIGPIPE: sockets are written to with MSG_NOSIGNAL. A pipe whose reader is gone raises it all the
 * same, so it is blocked for the length of the call and, if the call made it pending, taken back:
 * unless it was pending before, when it is somebody else's.
 *
 * The calls that servers make for each message go to the kernel directly: the C library's are
 * cancellation points, which costs two locked instructions each in a program with threads. Not
 * under a sanitizer, which must see what they write.
 */
#define _GNU_SOURCE 1
#include "plat/plat.h"

#include "plat/context.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define ONE_CALL ((size_t)0x7ffff000) /* what the kernel does at most; sendfile refuses some more */

#if KIN__ASAN || KIN__TSAN
static ssize_t read_raw(int fd, void *buf, size_t size)
{
    return read(fd, buf, size);
}

static ssize_t receive_raw(int fd, void *buf, size_t size)
{
    return recv(fd, buf, size, 0);
}

static ssize_t send_raw(int fd, const void *buf, size_t size)
{
    return send(fd, buf, size, MSG_NOSIGNAL);
}
#else
static ssize_t read_raw(int fd, void *buf, size_t size)
{
    return syscall(SYS_read, fd, buf, size);
}

static ssize_t receive_raw(int fd, void *buf, size_t size)
{
    return syscall(SYS_recvfrom, fd, buf, size, 0, NULL, NULL);
}

static ssize_t send_raw(int fd, const void *buf, size_t size)
{
    return syscall(SYS_sendto, fd, buf, size, MSG_NOSIGNAL, NULL, 0);
}
#endif

static int64_t result(ssize_t got)
{
    return got < 0 ? -errno : got;
}

int kin__fd_close(int fd)
{
    /* Linux frees the number even when it answers EINTR; another try could close somebody else's */
    return close(fd) < 0 && errno != EINTR ? -errno : 0;
}

int kin__fd_unblock(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return -errno;
    if (flags & O_NONBLOCK)
        return 0;
    return fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

int64_t kin__fd_read(int fd, void *buf, size_t size)
{
    ssize_t got;
    do { /* ends: nobody interrupts for ever */
        got = read_raw(fd, buf, size);
    } while (got < 0 && errno == EINTR);
    return result(got);
}

int64_t kin__fd_receive(int fd, void *buf, size_t size)
{
    ssize_t got;
    do { /* ends: as above */
        got = receive_raw(fd, buf, size);
    } while (got < 0 && errno == EINTR);
    return result(got);
}

int64_t kin__fd_readv(int fd, const struct iovec *parts, int count)
{
    ssize_t got;
    do { /* ends: as above */
        got = readv(fd, parts, count);
    } while (got < 0 && errno == EINTR);
    return result(got);
}

/* ---- writing without SIGPIPE ---- */

struct quiet {
    sigset_t pipe, before;
    bool was_pending;
};

static void quiet_begin(struct quiet *quiet)
{
    sigset_t pending;
    sigemptyset(&quiet->pipe);
    sigaddset(&quiet->pipe, SIGPIPE);
    quiet->was_pending = sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &quiet->pipe, &quiet->before);
}

static void quiet_end(struct quiet *quiet, bool has_broken)
{
    struct timespec now = {0, 0};
    if (has_broken && !quiet->was_pending) {
        while (sigtimedwait(&quiet->pipe, NULL, &now) < 0 && errno == EINTR) /* ends: as above */
            continue;
    }
    pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
}

/* One write to something that is no socket. */
static int64_t write_quietly(int fd, const struct iovec *parts, int count)
{
    struct quiet quiet;
    quiet_begin(&quiet);
    ssize_t put;
    do { /* ends: as above */
        put = writev(fd, parts, count);
    } while (put < 0 && errno == EINTR);
    int64_t rc = result(put);
    quiet_end(&quiet, rc == -EPIPE);
    return rc;
}

int64_t kin__fd_writev(int fd, const struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                             .msg_iovlen = (size_t)count};
    ssize_t put;
    do { /* ends: as above */
        put = sendmsg(fd, &message, MSG_NOSIGNAL);
    } while (put < 0 && errno == EINTR);
    if (put < 0 && errno == ENOTSOCK)
        return write_quietly(fd, parts, count);
    return result(put);
}

int64_t kin__fd_write(int fd, const void *buf, size_t size)
{
    ssize_t put;
    do { /* ends: as above */
        put = send_raw(fd, buf, size);
    } while (put < 0 && errno == EINTR);
    if (put >= 0 || errno != ENOTSOCK)
        return result(put);
    struct iovec part = {(void *)(uintptr_t)buf, size};
    return write_quietly(fd, &part, 1);
}

int64_t kin__fd_sendfile(int to, int from, int64_t *offset, size_t size)
{
    struct quiet quiet;
    off_t at = offset ? (off_t)*offset : 0;
    quiet_begin(&quiet);
    ssize_t put;
    do { /* ends: as above */
        put = sendfile(to, from, offset ? &at : NULL, size < ONE_CALL ? size : ONE_CALL);
    } while (put < 0 && errno == EINTR);
    int64_t rc = result(put);
    quiet_end(&quiet, rc == -EPIPE);
    if (rc >= 0 && offset)
        *offset = at;
    return rc;
}

int64_t kin__fd_splice(int to, int from, size_t size)
{
    struct quiet quiet;
    quiet_begin(&quiet);
    ssize_t put;
    do { /* ends: as above */
        put = splice(from, NULL, to, NULL, size, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    } while (put < 0 && errno == EINTR);
    int64_t rc = result(put);
    quiet_end(&quiet, rc == -EPIPE);
    return rc;
}

int kin__fd_pipe(int fds[2])
{
    if (!kin__plat_request())
        return -ENOMEM;
    return pipe2(fds, O_NONBLOCK | O_CLOEXEC) < 0 ? -errno : 0;
}

int kin__fd_shutdown(int fd, int how)
{
    return shutdown(fd, how) < 0 ? -errno : 0;
}

enum kin__fd_kind kin__fd_kind(int fd)
{
    struct stat about;
    if (fstat(fd, &about) < 0)
        return KIN__FD_KIND_OTHER; /* the call that follows says what is wrong with it */
    if (S_ISSOCK(about.st_mode))
        return KIN__FD_KIND_SOCKET;
    return S_ISREG(about.st_mode) || S_ISDIR(about.st_mode) || S_ISBLK(about.st_mode)
               ? KIN__FD_KIND_FILE
               : KIN__FD_KIND_OTHER;
}

int kin__fd_look(int fd, unsigned bits)
{
    struct pollfd one = {fd, 0, 0};
    one.events |= (short)(bits & KIN__READY_READ ? POLLIN : 0);
    one.events |= (short)(bits & KIN__READY_WRITE ? POLLOUT : 0);
    int count;
    do { /* ends: as above */
        count = poll(&one, 1, 0);
    } while (count < 0 && errno == EINTR);
    if (count < 0)
        return -errno;
    if (one.revents & POLLNVAL)
        return -EBADF;
    bool has_ended = one.revents & (POLLERR | POLLHUP);
    unsigned ready = (one.revents & POLLIN || has_ended ? KIN__READY_READ : 0) |
                     (one.revents & POLLOUT || has_ended ? KIN__READY_WRITE : 0);
    return (int)(ready & bits);
}
