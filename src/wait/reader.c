/* SPDX-License-Identifier: MIT */
/*
 * The buffered reader: a stream cut into lines, records and counts, with limits.
 *
 *     buf |....handed out....|====read, not handed out====|......room......|
 *                            start                        end              cap
 *
 * A call looks for the end of its record in what there is, reads more when it is not there, and
 * moves start only when it has all: an early return leaves everything where it was. The bytes are
 * moved to the front when there is no room behind them, which happens at most once for a record.
 * A record with its end is shorter than the buffer: there is always room for one byte more, to see
 * whether the stream goes on behind it, and for the 0 behind a line.
 */
#include <kin/reader.h>

#include "sched/entry.h"
#include "task/budget.h"

#include <kin/io.h>

#include <errno.h>
#include <string.h>

struct reader {
    int fd;
    int status;      /* 1: more may come; 0: the end was seen; < 0: why no more comes */
    char *buf;
    size_t start, end;
    size_t cap;      /* bytes of the buffer; 0: nothing can be read */
    size_t record;   /* the longest record */
    uint64_t total;  /* bytes that may still be handed out */
};

_Static_assert(sizeof(struct reader) <= sizeof(struct kin_reader), "it fits");
_Static_assert(_Alignof(struct reader) <= _Alignof(struct kin_reader), "and is aligned");

/* What a call looks for: a mark, or so many bytes. */
struct want {
    const char *mark;
    size_t size;    /* of the mark, or how many bytes */
    bool is_line;   /* a carriage return before the mark is not part of the record */
    size_t scanned; /* bytes in which the mark does not begin */
};

/* What was found: bytes of the record, and with its end. */
struct found {
    size_t size, whole;
};

static struct reader *reader_of(struct kin_reader *reader)
{
    return (struct reader *)(void *)reader;
}

void kin_reader_init(struct kin_reader *reader, int fd, void *buf, size_t cap)
{
    struct reader *r = reader_of(reader);
    if (!r)
        return;
    *r = (struct reader){.fd = fd, .status = 1, .buf = buf, .total = UINT64_MAX};
    r->cap = !buf || cap < 2 ? 0 : cap;
    r->record = cap - 1;
}

void kin_reader_limit(struct kin_reader *reader, size_t record, uint64_t total)
{
    struct reader *r = reader_of(reader);
    if (!r)
        return;
    r->record = record && record < r->cap ? record : r->cap - 1;
    r->total = total ? total : UINT64_MAX;
}

size_t kin_reader_buffered(const struct kin_reader *reader)
{
    const struct reader *r = (const struct reader *)(const void *)reader;
    return r ? r->end - r->start : 0;
}

/* ---- reading ---- */

/* What every operation begins with that finds all it needs in the buffer. */
static int charge(kin_time deadline)
{
    return kin__entry_begin(kin__task_self(), 0, deadline);
}

/* Whether a read that failed with rc would fail again, or worse, succeed: after a reset the system
 * tells of an orderly end. */
static bool is_final(int rc)
{
    return rc == KIN_CLOSED || (rc > -4096 && rc != -ENOMEM && rc != -ENOBUFS);
}

/* Reads once into size bytes at to. How many; 0: the end; or why not. */
static ssize_t read_once(struct reader *r, void *to, size_t size, kin_time deadline)
{
    ssize_t got = kin_read(r->fd, to, size, deadline);
    if (got == 0 || (got < 0 && is_final((int)got)))
        r->status = (int)got;
    return got;
}

/* Reads once into the buffer, in which there is room. */
static ssize_t fill(struct reader *r, kin_time deadline)
{
    if (r->end == r->cap) {
        memmove(r->buf, r->buf + r->start, r->end - r->start);
        r->end -= r->start;
        r->start = 0;
    }
    KIN__ASSERT(r->end < r->cap, "house"); /* a full buffer is an answer, not a reason to read */
    ssize_t got = read_once(r, r->buf + r->end, r->cap - r->end, deadline);
    r->end += got > 0 ? (size_t)got : 0;
    return got;
}

/* Takes bytes out of the buffer. */
static char *take(struct reader *r, size_t count)
{
    char *bytes = r->buf + r->start;
    r->start += count;
    if (r->start == r->end)
        r->start = r->end = 0;
    r->total -= r->total == UINT64_MAX ? 0 : count;
    return bytes;
}

/* ---- records ---- */

/* Looks for the mark. 1: found; 0: not yet; or the limit that the record exceeds. */
static int find_mark(const struct reader *r, struct want *want, struct found *found)
{
    const char *bytes = r->buf + r->start;
    size_t have = r->end - r->start, fresh = have - want->scanned;
    const char *at = want->size == 1 ? memchr(bytes + want->scanned, want->mark[0], fresh)
                                     : memmem(bytes + want->scanned, fresh, want->mark, want->size);
    if (at) {
        found->size = (size_t)(at - bytes);
        found->whole = found->size + want->size;
        if (want->is_line && found->size > 0 && at[-1] == '\r')
            found->size--;
        if (found->size > r->record || found->whole >= r->cap)
            return -EMSGSIZE;
        return found->whole > r->total ? -EFBIG : 1;
    }
    /* the longest record with its end */
    size_t longest = r->record + want->size + want->is_line;
    if (have >= longest || have == r->cap)
        return -EMSGSIZE;
    want->scanned = have < want->size ? 0 : have - (want->size - 1);
    return have > r->total ? -EFBIG : 0;
}

/* The same for so many bytes. */
static int find_count(const struct reader *r, const struct want *want, struct found *found)
{
    found->size = found->whole = want->size;
    if (want->size > r->record)
        return -EMSGSIZE;
    if (want->size > r->total)
        return -EFBIG;
    return r->end - r->start >= want->size;
}

/* At the end of the stream: what is left is the record. 0, or the limit that it exceeds. */
static int find_rest(const struct reader *r, struct found *found)
{
    found->size = found->whole = r->end - r->start;
    return found->size > r->record ? -EMSGSIZE : found->size > r->total ? -EFBIG : 0;
}

/* Gets what is wanted: 1, 0 at the end, or why not. */
static int get(struct kin_reader *reader, struct want *want, char **bytes, size_t *size,
               kin_time deadline)
{
    struct reader *r = reader_of(reader);
    struct found found = {0, 0};
    bool is_charged = false;
    if (!r || !bytes || !size || !r->cap)
        return -EINVAL;
    int rc;
    while ((rc = want->mark ? find_mark(r, want, &found) : find_count(r, want, &found)) == 0) {
        /* ends: more is there each time, or the end is */
        if (r->status == 0 && (rc = find_rest(r, &found)) == 0)
            break;
        if (r->status <= 0)
            return r->status == 0 ? rc : r->status;
        ssize_t got = fill(r, deadline);
        if (got < 0)
            return (int)got;
        is_charged = true;
    }
    int charged = is_charged ? 0 : charge(deadline);
    if (rc < 0 || charged < 0)
        return charged < 0 ? charged : rc;
    *bytes = take(r, found.whole);
    *size = found.size;
    if (want->is_line)
        (*bytes)[found.size] = 0; /* where its end was; or behind the last byte, where room is */
    return rc;
}

int kin_reader_line(struct kin_reader *reader, char **line, size_t *size, kin_time deadline)
{
    struct want want = {"\n", 1, true, 0};
    return get(reader, &want, line, size, deadline);
}

int kin_reader_until(struct kin_reader *reader, const void *mark, size_t mark_size, char **bytes,
                     size_t *size, kin_time deadline)
{
    struct want want = {mark, mark_size, false, 0};
    if (!mark || !mark_size || (reader && mark_size >= reader_of(reader)->cap))
        return -EINVAL;
    return get(reader, &want, bytes, size, deadline);
}

int kin_reader_exactly(struct kin_reader *reader, size_t count, char **bytes, size_t *size,
                       kin_time deadline)
{
    struct want want = {NULL, count, false, 0};
    return get(reader, &want, bytes, size, deadline);
}

/* ---- bytes ---- */

int kin_reader_some(struct kin_reader *reader, size_t max, char **bytes, size_t *size,
                    kin_time deadline)
{
    struct reader *r = reader_of(reader);
    if (!r || !bytes || !size || !max || !r->cap)
        return -EINVAL;
    if (r->start == r->end && r->status > 0) {
        ssize_t got = fill(r, deadline);
        if (got < 0)
            return (int)got;
    } else {
        int rc = charge(deadline);
        if (rc < 0)
            return rc;
    }
    size_t have = r->end - r->start;
    if (have == 0 && r->status < 0)
        return r->status;
    if (have > 0 && r->total == 0)
        return -EFBIG;
    if (have > max)
        have = max;
    if (have > r->total)
        have = (size_t)r->total;
    *size = have;
    *bytes = take(r, have);
    return have > 0;
}

/* Gets some of size bytes into to: how many; 0 at the end; or why not. */
static ssize_t read_part(struct reader *r, char *to, size_t size, kin_time deadline)
{
    size_t have = r->end - r->start;
    if (size > r->total)
        size = (size_t)r->total;
    if (have == 0) {
        if (r->status <= 0)
            return r->status;
        if (size >= r->cap) { /* the buffer would only be in the way */
            ssize_t got = read_once(r, to, size, deadline);
            r->total -= got > 0 && r->total != UINT64_MAX ? (uint64_t)got : 0;
            return got;
        }
        ssize_t got = fill(r, deadline);
        if (got <= 0)
            return got;
        have = (size_t)got;
    }
    if (size == 0)
        return -EFBIG;
    if (have > size)
        have = size;
    memcpy(to, take(r, have), have);
    return (ssize_t)have;
}

int kin_reader_read(struct kin_reader *reader, void *to, size_t size, size_t *done,
                    kin_time deadline)
{
    struct reader *r = reader_of(reader);
    size_t have = 0;
    ssize_t got = -EINVAL;
    if (r && r->cap && (to || !size))
        got = size <= r->end - r->start ? charge(deadline) : 0;
    bool is_begun = got >= 0;
    while (is_begun && have < size) { /* ends: more is there each time, or the end is */
        got = read_part(r, (char *)to + have, size - have, deadline);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    if (done)
        *done = have;
    return got < 0 ? (int)got : 0;
}
