/* SPDX-License-Identifier: MIT */
/*
 * System calls on descriptors: they never block, never raise a signal and return -errno.
 *
 * O_NONBLOCK belongs to the open file, which a descriptor that the program opened shares with
 * printf, the shell and other processes. It is never set there; one call is kept from blocking:
 *
 *     socket                   MSG_DONTWAIT
 *     pipe, FIFO, terminal     RWF_NOWAIT; where the kernel has that not for its kind, the call is
 *                              made on an open file of our own, by /proc/self/fd, closed after it
 *     eventfd, device, ...     RWF_NOWAIT; else a look, and the call if it is ready
 *     file, directory, disk    nothing: nobody can wait for it
 *
 * Where /proc or the permission to open is missing, a pipe or terminal is looked at, too. A look
 * and the call after it are two steps, between which somebody else may take what there was; and a
 * terminal that is ready may have less room than a write needs. So that call is made by a thread
 * that may wait: the answer here is -EOPNOTSUPP.
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
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SEND_BYTES 4096 /* on the stack of a task */
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

/* ---- descriptors that block ---- */

/* The other side of a terminal is none that can be opened again: that would make another one. */
static bool is_terminal(int fd)
{
    unsigned number;
    return isatty(fd) && ioctl(fd, TIOCGPTN, &number) < 0;
}

int kin__fd_manner(int fd)
{
    struct stat about;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return -errno;
    if (flags & O_NONBLOCK || fstat(fd, &about) < 0)
        return KIN__FD_FREE;
    switch (about.st_mode & S_IFMT) {
    case S_IFREG:
    case S_IFDIR:
    case S_IFBLK:
        return KIN__FD_FREE;
    case S_IFSOCK:
        return KIN__FD_SOCKET;
    case S_IFIFO:
        return KIN__FD_PIPE;
    default:
        return is_terminal(fd) ? KIN__FD_TTY : KIN__FD_LOOK;
    }
}

typedef ssize_t vector_fn(int fd, const struct iovec *parts, int count);

/* Whether the last call has failed because the kernel cannot do it without waiting. */
static bool is_unknown(ssize_t got)
{
    return got < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL);
}

/* A read or a write by a file of our own. False: there can be none. */
static bool call_reopened(int fd, int access, vector_fn *make, const struct iovec *parts, int count,
                          ssize_t *got)
{
    char path[32];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int own = open(path, access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own < 0)
        return false;
    *got = make(own, parts, count);
    int error = errno;
    (void)close(own);
    errno = error;
    return true;
}

static ssize_t read_as(int fd, enum kin__fd_manner manner, const struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                             .msg_iovlen = (size_t)count};
    if (manner == KIN__FD_SOCKET)
        return recvmsg(fd, &message, MSG_DONTWAIT);
    ssize_t got = preadv2(fd, parts, count, -1, RWF_NOWAIT);
    if (!is_unknown(got))
        return got;
    if (manner != KIN__FD_LOOK && call_reopened(fd, O_RDONLY, readv, parts, count, &got))
        return got;
    errno = kin__fd_look(fd, KIN__READY_READ) == 0 ? EAGAIN : EOPNOTSUPP;
    return -1;
}

int64_t kin__fd_readv_as(int fd, enum kin__fd_manner manner, const struct iovec *parts, int count)
{
    size_t size = 0;
    ssize_t got;
    if (manner == KIN__FD_FREE)
        return kin__fd_readv(fd, parts, count);
    for (int i = 0; i < count; i++)
        size |= parts[i].iov_len;
    if (size == 0) /* readv(2) never waits for nothing, as recvmsg(2) does; it may be EBADF */
        return kin__fd_readv(fd, parts, count);
    do { /* ends: as above */
        got = read_as(fd, manner, parts, count);
    } while (got < 0 && errno == EINTR);
    return result(got);
}

static ssize_t write_as(int fd, enum kin__fd_manner manner, const struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                             .msg_iovlen = (size_t)count};
    if (manner == KIN__FD_SOCKET)
        return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    ssize_t put = pwritev2(fd, parts, count, -1, RWF_NOWAIT);
    if (!is_unknown(put))
        return put;
    if (manner != KIN__FD_LOOK && call_reopened(fd, O_WRONLY, writev, parts, count, &put))
        return put;
    errno = kin__fd_look(fd, KIN__READY_WRITE) == 0 ? EAGAIN : EOPNOTSUPP;
    return -1;
}

int64_t kin__fd_writev_as(int fd, enum kin__fd_manner manner, const struct iovec *parts, int count)
{
    struct quiet quiet;
    ssize_t put;
    if (manner == KIN__FD_FREE)
        return kin__fd_writev(fd, parts, count);
    if (count == 0)
        return 0;
    quiet_begin(&quiet);
    do { /* ends: as above */
        put = write_as(fd, manner, parts, count);
    } while (put < 0 && errno == EINTR);
    int64_t rc = result(put);
    quiet_end(&quiet, rc == -EPIPE);
    return rc;
}

int64_t kin__fd_writev_little(int fd, const struct iovec *parts, int count)
{
    size_t left = PIPE_BUF;
    int few = 0;
    while (few < count && parts[few].iov_len <= left) /* ends: at count */
        left -= parts[few++].iov_len;
    if (few == count || left < PIPE_BUF)
        return write_quietly(fd, parts, few);
    struct iovec part = {parts[few].iov_base, PIPE_BUF};
    return write_quietly(fd, &part, 1);
}

/* What sendfile(2) does to a pipe, but without its wait for room: also at the end of the file it
 * says whether the pipe is full or broken. */
static int64_t send_to_pipe(int to, int from, off_t *at, size_t size)
{
    struct quiet quiet;
    ssize_t put;
    quiet_begin(&quiet);
    do { /* ends: as above */
        put = splice(from, at, to, NULL, size < ONE_CALL ? size : ONE_CALL, SPLICE_F_NONBLOCK);
    } while (put < 0 && errno == EINTR);
    int64_t rc = result(put);
    quiet_end(&quiet, rc == -EPIPE);
    return rc;
}

/* sendfile(2) would wait for whom it sends to: so by splice(2), or through the program, a little at
 * a time. */
int64_t kin__fd_sendfile_as(int to, enum kin__fd_manner manner, int from, int64_t *offset,
                            size_t size)
{
    char bytes[SEND_BYTES];
    if (manner == KIN__FD_FREE)
        return kin__fd_sendfile(to, from, offset, size);
    off_t at = offset ? (off_t)*offset : lseek(from, 0, SEEK_CUR);
    if (at < 0)
        return errno == ESPIPE ? -EINVAL : -errno; /* as sendfile(2) says it */
    if (manner == KIN__FD_PIPE) {
        int64_t sent = send_to_pipe(to, from, offset ? &at : NULL, size);
        if (sent > 0 && offset)
            *offset = at;
        return sent;
    }
    ssize_t got;
    do { /* ends: as above */
        got = pread(from, bytes, size < sizeof(bytes) ? size : sizeof(bytes), at);
    } while (got < 0 && errno == EINTR);
    if (got <= 0)
        return got < 0 && errno == EISDIR ? -EINVAL : result(got); /* likewise */
    struct iovec part = {bytes, (size_t)got};
    int64_t put = kin__fd_writev_as(to, manner, &part, 1);
    if (put > 0 && offset)
        *offset = at + put;
    else if (put > 0 && lseek(from, at + put, SEEK_SET) < 0)
        return -errno;
    return put;
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

int kin__fd_takes(int fd)
{
    struct stat about;
    struct pollfd one = {fd, 0, 0};
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return -EBADF;
    bool is_pipe = fstat(fd, &about) == 0 && S_ISFIFO(about.st_mode);
    return is_pipe && poll(&one, 1, 0) == 1 && one.revents & POLLERR ? -EPIPE : 0;
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
