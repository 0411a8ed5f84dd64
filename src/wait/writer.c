/* SPDX-License-Identifier: MIT */
/*
 * The buffered writer: small pieces gathered, large ones passed on without a copy.
 *
 *     buf |....written....|====taken, not written====|......room......|
 *                         start                      end              cap
 *
 * A write that ends early moves start by what was written; the rest stays, in order.
 */
#include <kin/reader.h>

#include "sched/entry.h"
#include "task/budget.h"

#include <kin/io.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

struct writer {
    int fd;
    int status;     /* 0, or why nothing more can be written */
    char *buf;
    size_t start, end, cap;
    uint64_t total; /* bytes that may still be taken */
};

_Static_assert(sizeof(struct writer) <= sizeof(struct kin_writer), "it fits");
_Static_assert(_Alignof(struct writer) <= _Alignof(struct kin_writer), "and is aligned");

static struct writer *writer_of(struct kin_writer *writer)
{
    return (struct writer *)(void *)writer;
}

void kin_writer_init(struct kin_writer *writer, int fd, void *buf, size_t cap)
{
    struct writer *w = writer_of(writer);
    if (!w)
        return;
    *w = (struct writer){.fd = fd, .buf = buf, .cap = buf ? cap : 0, .total = UINT64_MAX};
}

void kin_writer_limit(struct kin_writer *writer, uint64_t total)
{
    if (writer)
        writer_of(writer)->total = total ? total : UINT64_MAX;
}

size_t kin_writer_buffered(const struct kin_writer *writer)
{
    const struct writer *w = (const struct writer *)(const void *)writer;
    return w ? w->end - w->start : 0;
}

/* Why nothing can be written: an error, or there is no buffer. 0: it can. */
static int why_not(const struct writer *w)
{
    return w->cap ? w->status : -EINVAL;
}

/* What every operation begins with that needs no system call. */
static int charge(kin_time deadline)
{
    return kin__entry_begin(kin__task_self(), 0, deadline);
}

/* So many of the bytes that were taken are written now; rc says how the write ended. */
static int settle(struct writer *w, size_t written, int rc)
{
    w->start += written;
    if (w->start == w->end)
        w->start = w->end = 0;
    /* an error of the descriptor, which it may tell only once */
    if (rc == KIN_CLOSED || (rc < 0 && rc > -4096 && rc != -ENOMEM && rc != -ENOBUFS))
        w->status = rc;
    return rc;
}

/* Writes what is in the buffer. */
static int flush(struct writer *w, kin_time deadline)
{
    size_t written = 0;
    int rc = kin_write(w->fd, w->buf + w->start, w->end - w->start, &written, deadline);
    return settle(w, written, rc);
}

/* Counts bytes that were taken. */
static void count(struct writer *w, size_t taken)
{
    w->total -= w->total == UINT64_MAX ? 0 : taken;
}

/* Makes the bytes in the buffer begin at its front. */
static void pack(struct writer *w)
{
    if (w->start > 0) {
        memmove(w->buf, w->buf + w->start, w->end - w->start);
        w->end -= w->start;
        w->start = 0;
    }
}

/* Writes the buffer and size bytes behind it. How many of the latter: *taken. */
static int pass_on(struct writer *w, const char *bytes, size_t size, size_t *taken,
                   kin_time deadline)
{
    size_t pending = w->end - w->start, written = 0;
    struct iovec parts[2] = {{w->buf + w->start, pending}, {(void *)(uintptr_t)bytes, size}};
    int rc = kin_writev(w->fd, parts, 2, &written, deadline);
    *taken = written > pending ? written - pending : 0;
    return settle(w, written - *taken, rc);
}

/* Takes size bytes. How many were taken: *taken. */
static int put(struct writer *w, const char *bytes, size_t size, size_t *taken, kin_time deadline)
{
    int rc = why_not(w);
    if (rc == 0 && size > w->total)
        rc = -EFBIG;
    if (rc < 0)
        return rc;
    if (size > w->cap - w->end)
        pack(w);
    if (size <= w->cap - w->end)
        rc = charge(deadline);
    else if (size >= w->cap)
        return pass_on(w, bytes, size, taken, deadline);
    else
        rc = flush(w, deadline);
    if (rc < 0)
        return rc;
    if (size)
        memcpy(w->buf + w->end, bytes, size);
    w->end += size;
    *taken = size;
    return 0;
}

int kin_writer_put(struct kin_writer *writer, const void *bytes, size_t size, size_t *done,
                   kin_time deadline)
{
    size_t taken = 0;
    int rc = -EINVAL;
    if (writer && (bytes || !size))
        rc = put(writer_of(writer), bytes, size, &taken, deadline);
    if (taken)
        count(writer_of(writer), taken);
    if (done)
        *done = taken;
    return rc;
}

/* Formats into the room behind the buffer's bytes. How long the text is, or -EINVAL. */
static __attribute__((format(printf, 2, 0))) int format_text(struct writer *w, const char *format,
                                                             va_list values)
{
    va_list again;
    va_copy(again, values);
    int size = vsnprintf(w->buf + w->end, w->cap - w->end, format, again);
    va_end(again);
    return size < 0 ? -EINVAL : size;
}

static __attribute__((format(printf, 3, 0))) int print(struct writer *w, kin_time deadline,
                                                       const char *format, va_list values)
{
    int rc = why_not(w);
    if (rc < 0)
        return rc;
    pack(w);
    rc = charge(deadline);
    int size = rc < 0 ? rc : format_text(w, format, values);
    if (size < 0)
        return size;
    if ((size_t)size >= w->cap) /* vsnprintf wants a byte for its 0 */
        return -EMSGSIZE;
    if ((uint64_t)size > w->total)
        return -EFBIG;
    if ((size_t)size >= w->cap - w->end) {
        if ((rc = flush(w, deadline)) < 0)
            return rc;
        size = format_text(w, format, values);
        if (size < 0 || (size_t)size >= w->cap)
            return size < 0 ? size : -EMSGSIZE;
    }
    w->end += (size_t)size;
    count(w, (size_t)size);
    return 0;
}

int kin_writer_print(struct kin_writer *writer, kin_time deadline, const char *format, ...)
{
    if (!writer || !format)
        return -EINVAL;
    va_list values;
    va_start(values, format);
    int rc = print(writer_of(writer), deadline, format, values);
    va_end(values);
    return rc;
}

int kin_writer_flush(struct kin_writer *writer, kin_time deadline)
{
    struct writer *w = writer_of(writer);
    if (!w)
        return -EINVAL;
    int rc = why_not(w);
    if (rc < 0)
        return rc;
    return w->start == w->end ? charge(deadline) : flush(w, deadline);
}
