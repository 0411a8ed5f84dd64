/* SPDX-License-Identifier: MIT */
/*
 * Reading and writing descriptors: try, wait, try again.
 *
 * A socket or a pipe takes and gives no more than it holds, and then the task waits, hears that it
 * is cancelled and looks at its deadline. A file or a device never says that it would wait: it is
 * moved in pieces, and between two of them others run and the task hears and looks.
 */
#include <kin/io.h>

#include "plat/direct.h"
#include "sched/entry.h"
#include "task/budget.h"
#include "wait/poll.h"
#include "wait/timer.h"

#include <errno.h>
#include <poll.h>
#include <sys/uio.h>

#define PARTS_MAX 1024 /* what the system takes in one call */
#define PIECE ((size_t)1024 * 1024) /* what is moved to or from a file before others run */

/* What is done to a call is written once and compiled once for each kind of call. */
#define INLINE static inline __attribute__((always_inline))

/* One call to make, again and again until it does something. How to make it goes beside it, so that
 * the compiler knows. */
struct call {
    unsigned bit; /* what to wait for */
    union {
        void *to;
        const void *from;
        const struct iovec *parts;
        const struct kin__fd *file;
    };
    size_t size; /* bytes, or parts */
    int64_t *offset;
};

typedef int64_t make_fn(const struct call *call, const struct kin__fd *fd);

INLINE int64_t make_read(const struct call *call, const struct kin__fd *fd)
{
    return kin__fd_read_some(fd, call->to, call->size);
}

INLINE int64_t make_receive(const struct call *call, const struct kin__fd *fd)
{
    return kin__direct_receive(fd->fd, call->to, call->size);
}

INLINE int64_t make_write(const struct call *call, const struct kin__fd *fd)
{
    return KIN__LIKELY(fd->manner == KIN__FD_FREE)
               ? kin__direct_write(fd->fd, call->from, call->size)
               : kin__fd_write_some(fd, call->from, call->size);
}

INLINE int64_t make_readv(const struct call *call, const struct kin__fd *fd)
{
    return kin__fd_readv_shared(fd, call->parts, (int)call->size);
}

INLINE int64_t make_writev(const struct call *call, const struct kin__fd *fd)
{
    return kin__fd_writev_shared(fd, call->parts, (int)call->size);
}

INLINE int64_t make_sendfile(const struct call *call, const struct kin__fd *fd)
{
    if (KIN__UNLIKELY(!kin__fd_enter(call->file)))
        return KIN_CLOSED;
    int64_t got = kin__fd_sendfile_shared(fd, call->file->fd, call->offset, call->size);
    kin__fd_leave(call->file);
    return got;
}

INLINE int64_t make_look(const struct call *call, const struct kin__fd *fd)
{
    return kin__fd_look(fd->fd, call->bit);
}

/* What every operation begins with: the task's door, its budget, the descriptor. needs: what the
 * task must hold besides. */
INLINE int begin_with(int number, unsigned needs, kin_time deadline, struct kin__fd *fd)
{
    struct kin__task *task = kin__task_self();
    if (KIN__UNLIKELY(!task))
        return KIN_NOTASK;
    kin__entry_check(task);
    int rc = kin__op(task, KIN__COST_SYSCALL | needs | kin__fd_needs(task, number), deadline);
    return rc < 0 ? rc : kin__fd_begin_try(number, fd);
}

INLINE int begin(int number, kin_time deadline, struct kin__fd *fd)
{
    return begin_with(number, 0, deadline, fd);
}

/* Makes the call once, on what the number meant at the beginning. */
INLINE int64_t attempt(const struct kin__fd *fd, make_fn *make, const struct call *call)
{
    if (KIN__UNLIKELY(!kin__fd_enter(fd)))
        return KIN_CLOSED;
    int64_t got = make(call, fd);
    kin__fd_leave(fd);
    return got;
}

/* Makes the call until it does something. */
INLINE int64_t perform(struct kin__fd *fd, make_fn *make, const struct call *call,
                       kin_time deadline)
{
    for (;;) { /* ends: as waits do */
        int64_t got = attempt(fd, make, call);
        if (KIN__LIKELY(got != -EAGAIN))
            return got;
        int rc = kin__fd_wait(fd, call->bit, deadline);
        if (rc < 0)
            return rc;
    }
}

/* The same for a read of size bytes in all, which need not try what the last one has emptied. A
 * deadline that passes before the poller has looked is no reason to leave data behind. */
INLINE int64_t perform_read(struct kin__fd *fd, make_fn *make, const struct call *call, size_t size,
                            kin_time deadline)
{
    if (deadline != 0 && size != 0 && kin__fd_is_dry(fd)) {
        int rc = kin__fd_wait(fd, KIN__READY_READ, deadline);
        if (KIN__UNLIKELY(rc == KIN_TIMEOUT))
            deadline = 0;
        else if (KIN__UNLIKELY(rc < 0))
            return rc;
    }
    int64_t got = perform(fd, make, call, deadline);
    if (got > 0 && (size_t)got < size)
        kin__fd_note_short(fd);
    return got;
}

/* ---- pieces ---- */

/* How much of size bytes one call moves. */
INLINE size_t piece_of(int fd, size_t size)
{
    return KIN__LIKELY(size <= PIECE) || kin__fd_kind(fd) == KIN__FD_KIND_SOCKET ? size : PIECE;
}

/* How many of the parts one call moves; 0: the first that is not empty is too much alone, and at
 * *at then. */
static int parts_of_piece(int fd, const struct iovec *parts, int *at, int count)
{
    size_t left = PIECE;
    for (int i = *at; i < count; i++) {
        if (KIN__LIKELY(parts[i].iov_len <= left)) {
            left -= parts[i].iov_len;
            continue;
        }
        if (kin__fd_kind(fd) == KIN__FD_KIND_SOCKET)
            break;
        if (left < PIECE)
            return i - *at;
        *at = i;
        return 0;
    }
    return count - *at;
}

/* After a call that has moved got bytes, more being left: whenever as much as a piece was moved
 * since, the others get a turn. got, or why the operation ends here. */
INLINE int64_t take_turn(int number, size_t *since, int64_t got, kin_time deadline)
{
    *since += got > 0 ? (size_t)got : 0;
    if (KIN__LIKELY(*since < PIECE) || got < 0)
        return got;
    struct kin__task *task = kin__task_self();
    *since = 0;
    int rc = kin__op(task, KIN__COST_SYSCALL | kin__fd_needs(task, number), deadline);
    if (rc == 0)
        kin__worker_yield(task);
    if (rc == 0)
        rc = kin__park_asked(task);
    deadline = kin__deadline_of(task, deadline);
    if (rc == 0 && deadline != 0 && deadline != KIN_NEVER && kin__clock_now() >= deadline)
        rc = KIN_TIMEOUT; /* deadline 0 means only that nothing is waited for */
    return rc < 0 ? rc : got;
}

/* ---- calls ---- */

ssize_t kin_read(int number, void *buf, size_t size, kin_time deadline)
{
    struct kin__fd fd;
    if (KIN__UNLIKELY(!buf && size))
        return -EINVAL;
    int rc = begin(number, deadline, &fd);
    if (rc < 0)
        return rc;
    size = piece_of(number, size);
    struct call call = {KIN__READY_READ, {.to = buf}, size, NULL};
    /* nothing is read without a wait by read(2), but not by recv(2) */
    return (ssize_t)(kin__fd_is(&fd, KIN__FD_TCP) && size
                         ? perform_read(&fd, make_receive, &call, size, deadline)
                         : perform_read(&fd, make_read, &call, size, deadline));
}

ssize_t kin_readv(int number, const struct iovec *parts, int count, kin_time deadline)
{
    struct kin__fd fd;
    if (count < 0 || count > PARTS_MAX || (count && !parts))
        return -EINVAL;
    int rc = begin(number, deadline, &fd);
    if (rc < 0)
        return rc;
    int at = 0, few = parts_of_piece(number, parts, &at, count);
    if (KIN__UNLIKELY(few == 0 && count)) {
        struct call call = {KIN__READY_READ, {.to = parts[at].iov_base}, PIECE, NULL};
        return (ssize_t)perform_read(&fd, make_read, &call, PIECE, deadline);
    }
    size_t size = 0;
    for (int i = 0; i < few; i++)
        size += parts[i].iov_len;
    struct call call = {KIN__READY_READ, {.parts = parts}, (size_t)few, NULL};
    return (ssize_t)perform_read(&fd, make_readv, &call, size, deadline);
}

int kin_read_full(int number, void *buf, size_t size, size_t *done, kin_time deadline)
{
    struct kin__fd fd;
    size_t have = 0, since = 0;
    int64_t got = KIN__UNLIKELY(!buf && size) ? -EINVAL : begin(number, deadline, &fd);
    while (got >= 0 && have < size) { /* ends: more is there each time, or the end is */
        size_t piece = piece_of(number, size - have);
        struct call call = {KIN__READY_READ, {.to = (char *)buf + have}, piece, NULL};
        got = perform_read(&fd, make_read, &call, piece, deadline);
        if (got == 0)
            break;
        have += got > 0 ? (size_t)got : 0;
        if (have < size)
            got = take_turn(number, &since, got, deadline);
    }
    if (done)
        *done = have;
    return got < 0 ? (int)got : 0;
}

int kin_write(int number, const void *buf, size_t size, size_t *done, kin_time deadline)
{
    struct kin__fd fd;
    size_t put = 0, since = 0;
    int64_t got = KIN__UNLIKELY(!buf && size) ? -EINVAL : begin(number, deadline, &fd);
    while (got >= 0 && put < size) { /* ends: less is left each time */
        size_t piece = piece_of(number, size - put);
        struct call call = {KIN__READY_WRITE, {.from = (const char *)buf + put}, piece, NULL};
        got = perform(&fd, make_write, &call, deadline);
        put += got > 0 ? (size_t)got : 0;
        if (KIN__UNLIKELY(got == 0))
            got = -EIO; /* a write that writes nothing would go on for ever */
        if (put < size)
            got = take_turn(number, &since, got, deadline);
    }
    if (done)
        *done = put;
    return got < 0 ? (int)got : 0;
}

/* Writes the rest of one part, of which skip bytes are gone. */
static int64_t write_rest(struct kin__fd *fd, const struct iovec *part, size_t skip,
                          kin_time deadline)
{
    struct call call = {KIN__READY_WRITE, {.from = (const char *)part->iov_base + skip},
                        piece_of(fd->fd, part->iov_len - skip), NULL};
    return perform(fd, make_write, &call, deadline);
}

int kin_writev(int number, const struct iovec *parts, int count, size_t *done, kin_time deadline)
{
    struct kin__fd fd;
    size_t put = 0, since = 0, skip = 0; /* skip: of the first part that is left */
    if (done)
        *done = 0;
    if (count < 0 || count > PARTS_MAX || (count && !parts))
        return -EINVAL;
    int64_t got = begin(number, deadline, &fd);
    int at = 0;
    while (got >= 0 && at < count) { /* ends: less is left each time */
        int few = skip ? 1 : parts_of_piece(number, parts, &at, count);
        struct call call = {KIN__READY_WRITE, {.parts = parts + at}, (size_t)few, NULL};
        got = skip || few == 0 ? write_rest(&fd, &parts[at], skip, deadline)
                                : perform(&fd, make_writev, &call, deadline);
        size_t left = got > 0 ? (size_t)got : 0;
        put += left;
        while (at < count && left >= parts[at].iov_len - skip) { /* ends: one part fewer */
            left -= parts[at++].iov_len - skip;
            skip = 0;
        }
        skip += left;
        if (KIN__UNLIKELY(got == 0 && at < count))
            got = -EIO; /* as above; empty parts are gone by now */
        if (at < count)
            got = take_turn(number, &since, got, deadline);
    }
    if (done)
        *done = put;
    return got < 0 ? (int)got : 0;
}

int kin_sendfile(int to, int from, int64_t *offset, size_t size, size_t *done, kin_time deadline)
{
    struct kin__fd fd, file;
    size_t put = 0, since = 0;
    const struct kin__task *task = kin__task_self();
    unsigned needs = task ? kin__fd_needs(task, from) : 0;
    int64_t got = begin_with(to, needs, deadline, &fd);
    if (got == 0)
        got = kin__fd_begin_try(from, &file);
    while (got >= 0 && put < size) { /* ends: less is left each time, or the file ends */
        size_t piece = size - put < PIECE ? size - put : PIECE;
        struct call call = {KIN__READY_WRITE, {.file = &file}, piece, offset};
        got = perform(&fd, make_sendfile, &call, deadline);
        if (got == 0)
            break;
        put += got > 0 ? (size_t)got : 0;
        if (put < size)
            got = take_turn(to, &since, got, deadline);
    }
    if (done)
        *done = put;
    return got < 0 ? (int)got : 0;
}

int kin_fd_wait(int number, short events, kin_time deadline)
{
    struct kin__fd fd;
    unsigned bits = (events & POLLIN ? KIN__READY_READ : 0u) |
                    (events & POLLOUT ? KIN__READY_WRITE : 0u);
    if (!bits)
        return -EINVAL;
    int rc = begin(number, deadline, &fd);
    if (rc < 0)
        return rc;
    struct call call = {bits, {.to = NULL}, 0, NULL};
    do { /* ends: as waits do; an event may be older than what somebody has read since */
        rc = (int)attempt(&fd, make_look, &call);
    } while (rc == 0 && (rc = kin__fd_wait(&fd, bits, deadline)) > 0);
    if (rc < 0)
        return rc;
    return ((unsigned)rc & KIN__READY_READ ? POLLIN : 0) |
           ((unsigned)rc & KIN__READY_WRITE ? POLLOUT : 0);
}

int kin_shutdown(int fd, int how)
{
    return kin__fd_shutdown(fd, how);
}
