/* SPDX-License-Identifier: MIT */
/*
 * I/O: plain descriptors, and calls that park the task instead of blocking the thread.
 *
 * Descriptors are those of the operating system. One that kin did not open keeps its flags, which
 * it shares with others: whether it blocks or not, the task is parked and not its thread (doc/io.md
 * says how). One that kin opened is closed with kin_close. Every call tries first and parks only
 * when it must; no call returns -EINTR or raises SIGPIPE. Files and devices, which never say that
 * they would wait, are moved a megabyte at a time: others run in between, and the call hears its
 * deadline and a cancellation. Sockets need KIN_CAP_NET and files KIN_CAP_FILE, whoever opened
 * them; pipes and the like need neither.
 */
#ifndef KIN_IO_H
#define KIN_IO_H

#include <kin/base.h>
#include <kin/status.h>
#include <kin/time.h>

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

KIN_BEGIN_DECLS

struct iovec;

/**
 * kin_read - read what there is, at least one byte.
 * @fd:       a descriptor.
 * @buf:      receives the bytes.
 * @size:     its length; 0 reads nothing. Of a file or a device one call reads a megabyte at most.
 * @deadline: KIN_NEVER to wait without end, 0 to not wait at all.
 *
 * Example:
 *     int discard(int fd)
 *     {
 *         char buf[4096];
 *         ssize_t got;
 *         do
 *             got = kin_read(fd, buf, sizeof buf, KIN_NEVER);
 *         while (got > 0);
 *         return (int)got;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  reports it, nothing is read then
 * Budget:  1 op, 1 syscall
 * Returns: how many bytes, 0 at the end; KIN_TIMEOUT, KIN_CANCELLED, KIN_CLOSED when it is closed
 *          by kin_close meanwhile, KIN_NOCAP, KIN_BUDGET, KIN_NOTASK, -EINVAL for no memory,
 *          -errno
 */
KIN_API KIN_MUST_USE ssize_t kin_read(int fd, void *buf, size_t size, kin_time deadline);

/**
 * kin_read_full - read until size bytes are there or the end is.
 * @fd:       a descriptor.
 * @buf:      receives the bytes.
 * @size:     how many.
 * @done:     receives how many there are, on every return; may be NULL.
 * @deadline: KIN_NEVER to wait without end.
 *
 * Example:
 *     int read_number(int fd, uint32_t *number)
 *     {
 *         size_t done;
 *         int rc = kin_read_full(fd, number, sizeof *number, &done, kin_after(KIN_SEC(1)));
 *         return rc == 0 && done < sizeof *number ? KIN_CLOSED : rc;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  reports it, with what was read so far in done
 * Budget:  1 op, 1 syscall
 * Returns: 0, also at an early end; else as kin_read
 */
KIN_API KIN_MUST_USE int kin_read_full(int fd, void *buf, size_t size, size_t *done,
                                       kin_time deadline);

/**
 * kin_write - write all of it.
 * @fd:       a descriptor.
 * @buf:      borrowed.
 * @size:     how many bytes.
 * @done:     receives how many were written, on every return; may be NULL.
 * @deadline: KIN_NEVER to wait without end.
 *
 * Example:
 *     int greet(int fd)
 *     {
 *         return kin_write(fd, "hello\n", 6, NULL, kin_after(KIN_SEC(1)));
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  reports it, with what was written so far in done
 * Budget:  1 op, 1 syscall
 * Returns: 0 when all of it was written; -EPIPE when nobody reads; else as kin_read
 */
KIN_API KIN_MUST_USE int kin_write(int fd, const void *buf, size_t size, size_t *done,
                                   kin_time deadline);

/**
 * kin_readv - as kin_read, into several parts.
 * @fd:       a descriptor.
 * @parts:    borrowed; where to.
 * @count:    how many parts, at most 1024.
 * @deadline: KIN_NEVER to wait without end, 0 to not wait at all.
 *
 * Example:
 *     #include <sys/uio.h>
 *
 *     ssize_t read_head_and_body(int fd, char head[16], char *body, size_t size)
 *     {
 *         struct iovec parts[] = {{head, 16}, {body, size}};
 *         return kin_readv(fd, parts, 2, kin_after(KIN_SEC(5)));
 *     }
 *
 * From:    task
 * Parks:   yes
 * Budget:  1 op, 1 syscall
 * Returns: as kin_read
 */
KIN_API KIN_MUST_USE ssize_t kin_readv(int fd, const struct iovec *parts, int count,
                                       kin_time deadline);

/**
 * kin_writev - as kin_write, from several parts.
 * @fd:       a descriptor.
 * @parts:    borrowed; from where.
 * @count:    how many parts, at most 1024.
 * @done:     receives how many bytes were written, on every return; may be NULL.
 * @deadline: KIN_NEVER to wait without end.
 *
 * Example:
 *     #include <sys/uio.h>
 *
 *     int write_line(int fd, char *line, size_t size)
 *     {
 *         char end[] = "\r\n";
 *         struct iovec parts[] = {{line, size}, {end, 2}};
 *         return kin_writev(fd, parts, 2, NULL, kin_after(KIN_SEC(5)));
 *     }
 *
 * From:    task
 * Parks:   yes
 * Budget:  1 op, 1 syscall
 * Returns: as kin_write
 */
KIN_API KIN_MUST_USE int kin_writev(int fd, const struct iovec *parts, int count, size_t *done,
                                    kin_time deadline);

/**
 * kin_sendfile - send part of a file to a socket without copying it through the program.
 * @to:       a socket.
 * @from:     a file.
 * @offset:   where to begin; NULL: where the file stands. Receives where it ended.
 * @size:     how many bytes.
 * @done:     receives how many were sent, on every return; may be NULL.
 * @deadline: KIN_NEVER to wait without end.
 *
 * Example:
 *     int send_all(int to, int from, size_t size)
 *     {
 *         int64_t offset = 0;
 *         size_t done;
 *         int rc = kin_sendfile(to, from, &offset, size, &done, KIN_NEVER);
 *         if (rc == 0 && done < size)
 *             fprintf(stderr, "the file has only %zu bytes\n", done);
 *         return rc;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Needs:   KIN_CAP_NET and KIN_CAP_FILE
 * Budget:  1 op, 1 syscall
 * Returns: 0, also when the file ends early; else as kin_write
 */
KIN_API KIN_MUST_USE int kin_sendfile(int to, int from, int64_t *offset, size_t size, size_t *done,
                                      kin_time deadline);

/**
 * kin_fd_wait - wait until a descriptor may be ready; for foreign libraries.
 * @fd:       a descriptor.
 * @events:   POLLIN, POLLOUT or both, of poll(2).
 * @deadline: KIN_NEVER to wait without end, 0 to only look.
 *
 * Example:
 *     #include <poll.h>
 *
 *     int is_readable(int fd)
 *     {
 *         int rc = kin_fd_wait(fd, POLLIN, kin_after(KIN_MS(10)));
 *         return rc < 0 ? rc : (rc & POLLIN) != 0;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Budget:  1 op, 1 syscall
 * Returns: which of the events are ready, > 0; else as kin_read
 */
KIN_API KIN_MUST_USE int kin_fd_wait(int fd, short events, kin_time deadline);

/**
 * kin_shutdown - end one or both directions of a socket.
 * @fd:  a socket.
 * @how: SHUT_RD, SHUT_WR or SHUT_RDWR.
 *
 * Example:
 *     #include <sys/socket.h>
 *
 *     int say_all(int fd, const char *text, size_t size)
 *     {
 *         int rc = kin_write(fd, text, size, NULL, KIN_NEVER);
 *         return rc < 0 ? rc : kin_shutdown(fd, SHUT_WR);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: 0 or -errno
 */
KIN_API int kin_shutdown(int fd, int how);

/**
 * kin_close - close a descriptor.
 * @fd: a descriptor.
 *
 * Tasks that wait on it get KIN_CLOSED; a later use is -EBADF. A peer has been told when this
 * returns.
 *
 * Example:
 *     void hang_up(void *arg)
 *     {
 *         kin_ignore(kin_close(*(int *)arg));
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: 0 or -errno; the number is free in any case but -EBADF
 */
KIN_API int kin_close(int fd);

KIN_END_DECLS

#endif
