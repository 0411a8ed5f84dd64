/* SPDX-License-Identifier: MIT */
/*
 * Bytes through a buffer: a reader that cuts a stream into lines and records, a writer that gathers
 * small pieces, and a copy from one descriptor to another.
 *
 * Buffers are the caller's, so the memory of a connection is known before its first byte comes. A
 * reader has three limits: the buffer, the longest record, and how much it hands out in all. Each
 * call has a deadline of its own.
 *
 * Nothing is lost when a call ends early: what a reader has read stays in its buffer and the next
 * call goes on from there, what a writer has taken stays until it is flushed. An end and an error
 * of the descriptor stay too: whoever asks again is told again.
 *
 * A reader or writer is used by one task at a time. It owns its memory and nothing else: the
 * descriptor is closed by the caller, and there is nothing to destroy.
 */
#ifndef KIN_READER_H
#define KIN_READER_H

#include <kin/base.h>
#include <kin/status.h>
#include <kin/time.h>

#include <stddef.h>
#include <stdint.h>

KIN_BEGIN_DECLS

/* Storage; what is inside is the runtime's. */
struct kin_reader {
    uint64_t opaque_[8];
};
struct kin_writer {
    uint64_t opaque_[6];
};

/* ---- reading ---- */

/**
 * kin_reader_init - read a descriptor through a buffer.
 * @reader: receives it.
 * @fd:     a descriptor; nobody else reads it meanwhile.
 * @buf:    kept as long as the reader is used.
 * @cap:    its length, at least 2. A record is at most cap - 1 bytes, its end included.
 *
 * Example:
 *     int greet(int fd)
 *     {
 *         char buf[1024], *line;
 *         size_t size;
 *         struct kin_reader in;
 *         kin_reader_init(&in, fd, buf, sizeof(buf));
 *         int rc = kin_reader_line(&in, &line, &size, kin_after(KIN_SEC(10)));
 *         if (rc > 0)
 *             printf("hello, %s\n", line);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: nothing; a NULL or a buffer that is too short is told by the calls that read: -EINVAL
 */
KIN_API void kin_reader_init(struct kin_reader *reader, int fd, void *buf, size_t cap);

/**
 * kin_reader_limit - limit what is handed out from now on.
 * @reader: a reader.
 * @record: longest line or record, without its end; 0: what fits into the buffer.
 * @total:  bytes in all, ends of records included; 0: no limit.
 *
 * What is longer is told by -EMSGSIZE, what is more by -EFBIG. Either way the bytes stay in the
 * buffer: a caller may raise the limit, or take them with kin_reader_some.
 *
 * Example:
 *     void be_careful(struct kin_reader *in)
 *     {
 *         kin_reader_limit(in, 8192, 1 << 20);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: nothing
 */
KIN_API void kin_reader_limit(struct kin_reader *reader, size_t record, uint64_t total);

/**
 * kin_reader_line - the next line.
 * @reader:   a reader.
 * @line:     receives where it is, followed by a 0; valid until the next call on the reader.
 * @size:     receives its length, without the line feed and a carriage return before it.
 * @deadline: KIN_NEVER to wait without end, 0 to not wait at all.
 *
 * At the end of the stream the answer is 0. What came after the last line feed is handed out then,
 * once: a size that is not 0 tells of a line without an end.
 *
 * Example:
 *     int print_lines(struct kin_reader *in)
 *     {
 *         char *line;
 *         size_t size;
 *         int rc;
 *         while ((rc = kin_reader_line(in, &line, &size, KIN_NEVER)) > 0)
 *             printf("%.*s\n", (int)size, line);
 *         return rc;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  reports it, what was read stays in the buffer
 * Budget:  1 op, and 1 syscall for each read that it needs
 * Returns: 1, 0 at the end; -EMSGSIZE when the line is longer than the limit or the buffer, -EFBIG
 *          when it is more than the limit in all, KIN_TIMEOUT, KIN_CANCELLED, KIN_CLOSED,
 *          KIN_BUDGET, KIN_NOTASK, -EINVAL, -errno. Unless it is 1 or 0, line and size are left
 *          alone
 */
KIN_API KIN_MUST_USE int kin_reader_line(struct kin_reader *reader, char **line, size_t *size,
                                         kin_time deadline);

/**
 * kin_reader_until - the bytes before a mark.
 * @reader:    a reader.
 * @mark:      borrowed; what a record ends with.
 * @mark_size: its length, at least 1.
 * @bytes:     receives where they are, the mark not included; valid until the next call.
 * @size:      receives how many; the mark behind them is taken and dropped.
 * @deadline:  KIN_NEVER to wait without end, 0 to not wait at all.
 *
 * Example:
 *     int next_field(struct kin_reader *in, char **field, size_t *size)
 *     {
 *         return kin_reader_until(in, "; ", 2, field, size, kin_after(KIN_SEC(10)));
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  reports it, what was read stays in the buffer
 * Budget:  as kin_reader_line
 * Returns: 1, 0 at the end, with what came after the last mark; else as kin_reader_line
 */
KIN_API KIN_MUST_USE int kin_reader_until(struct kin_reader *reader, const void *mark,
                                          size_t mark_size, char **bytes, size_t *size,
                                          kin_time deadline);

/**
 * kin_reader_exactly - so many bytes, or none.
 * @reader:   a reader.
 * @count:    how many, at most the limit of a record.
 * @bytes:    receives where they are; valid until the next call.
 * @size:     receives how many: count, or fewer at the end.
 * @deadline: KIN_NEVER to wait without end, 0 to not wait at all.
 *
 * Example:
 *     int next_block(struct kin_reader *in, char **block)
 *     {
 *         size_t size;
 *         int rc = kin_reader_exactly(in, 512, block, &size, KIN_NEVER);
 *         return rc == 0 && size > 0 ? KIN_CLOSED : rc;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  reports it, what was read stays in the buffer
 * Budget:  as kin_reader_line
 * Returns: 1 when all are there, 0 at the end, with the rest; -EMSGSIZE when count is more than the
 *          limit of a record or the buffer; else as kin_reader_line
 */
KIN_API KIN_MUST_USE int kin_reader_exactly(struct kin_reader *reader, size_t count, char **bytes,
                                            size_t *size, kin_time deadline);

/**
 * kin_reader_some - what there is, at least one byte.
 * @reader:   a reader.
 * @max:      at most so many; at least 1.
 * @bytes:    receives where they are; valid until the next call.
 * @size:     receives how many.
 * @deadline: KIN_NEVER to wait without end, 0 to not wait at all.
 *
 * What is in the buffer is handed out without a look at the descriptor.
 *
 * Example:
 *     int pass_on(struct kin_reader *in, int to)
 *     {
 *         char *bytes;
 *         size_t size;
 *         int rc;
 *         while ((rc = kin_reader_some(in, 4096, &bytes, &size, KIN_NEVER)) > 0) {
 *             rc = kin_write(to, bytes, size, NULL, KIN_NEVER);
 *             if (rc < 0)
 *                 return rc;
 *         }
 *         return rc;
 *     }
 *
 * From:    task
 * Parks:   when the buffer is empty
 * Cancel:  reports it, nothing is read then
 * Budget:  as kin_reader_line
 * Returns: 1, 0 at the end, with size 0; -EFBIG when there is more than the limit in all; else as
 *          kin_reader_line
 */
KIN_API KIN_MUST_USE int kin_reader_some(struct kin_reader *reader, size_t max, char **bytes,
                                         size_t *size, kin_time deadline);

/**
 * kin_reader_read - read into memory of the caller until it is full or the end is there.
 * @reader:   a reader.
 * @to:       receives the bytes.
 * @size:     how many; the buffer is no limit.
 * @done:     receives how many there are, on every return; may be NULL.
 * @deadline: KIN_NEVER to wait without end.
 *
 * Example:
 *     struct head {
 *         unsigned kind, size;
 *     };
 *
 *     int read_record(struct kin_reader *in, struct head *head)
 *     {
 *         size_t done;
 *         int rc = kin_reader_read(in, head, sizeof *head, &done, KIN_NEVER);
 *         return rc == 0 && done < sizeof *head ? KIN_CLOSED : rc;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  reports it, with what was read so far in done
 * Budget:  as kin_reader_line
 * Returns: 0, also at an early end; -EFBIG when there is more than the limit in all; else as
 *          kin_reader_line
 */
KIN_API KIN_MUST_USE int kin_reader_read(struct kin_reader *reader, void *to, size_t size,
                                         size_t *done, kin_time deadline);

/**
 * kin_reader_buffered - how many bytes were read and not yet handed out.
 * @reader: a reader.
 *
 * Example:
 *     int has_more(const struct kin_reader *in)
 *     {
 *         return kin_reader_buffered(in) > 0;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: their number
 */
KIN_API size_t kin_reader_buffered(const struct kin_reader *reader);

/* ---- writing ---- */

/**
 * kin_writer_init - write to a descriptor through a buffer.
 * @writer: receives it.
 * @fd:     a descriptor; nobody else writes to it meanwhile.
 * @buf:    kept as long as the writer is used.
 * @cap:    its length, at least 1.
 *
 * Nothing is written before the buffer is full or kin_writer_flush is called.
 *
 * Example:
 *     int answer(int fd, const char *name)
 *     {
 *         char buf[1024];
 *         struct kin_writer out;
 *         kin_time deadline = kin_after(KIN_SEC(10));
 *         kin_writer_init(&out, fd, buf, sizeof(buf));
 *         int rc = kin_writer_print(&out, deadline, "hello, %s\r\n", name);
 *         return rc < 0 ? rc : kin_writer_flush(&out, deadline);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: nothing; a NULL or a buffer of no length is told by the calls that write: -EINVAL
 */
KIN_API void kin_writer_init(struct kin_writer *writer, int fd, void *buf, size_t cap);

/**
 * kin_writer_limit - limit what is taken from now on.
 * @writer: a writer.
 * @total:  bytes in all; 0: no limit.
 *
 * Example:
 *     int answer(int fd, const char *text, size_t size)
 *     {
 *         char room[4096];
 *         struct kin_writer out;
 *         kin_writer_init(&out, fd, room, sizeof room);
 *         kin_writer_limit(&out, 1 << 20);
 *         int rc = kin_writer_put(&out, text, size, NULL, KIN_NEVER);
 *         return rc < 0 ? rc : kin_writer_flush(&out, KIN_NEVER);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: nothing
 */
KIN_API void kin_writer_limit(struct kin_writer *writer, uint64_t total);

/**
 * kin_writer_put - write bytes, sooner or later.
 * @writer:   a writer.
 * @bytes:    borrowed.
 * @size:     how many.
 * @done:     receives how many were taken, on every return; may be NULL.
 * @deadline: until when to wait for room; 0: not at all.
 *
 * Bytes that were taken are in the buffer or written. Less than a buffer is taken whole or not at
 * all; more goes to the descriptor without a copy, together with what waits in the buffer.
 *
 * Example:
 *     int put_word(struct kin_writer *out, const char *word)
 *     {
 *         return kin_writer_put(out, word, strlen(word), NULL, kin_after(KIN_SEC(5)));
 *     }
 *
 * From:    task
 * Parks:   when the buffer is full
 * Cancel:  reports it, with what was taken so far in done
 * Budget:  1 op, and 1 syscall for each write that it needs
 * Returns: 0 when all of it was taken; -EFBIG when it is more than the limit and nothing was taken;
 *          -EPIPE when nobody reads, KIN_TIMEOUT, KIN_CANCELLED, KIN_CLOSED, KIN_BUDGET,
 *          KIN_NOTASK, -EINVAL, -errno
 */
KIN_API KIN_MUST_USE int kin_writer_put(struct kin_writer *writer, const void *bytes, size_t size,
                                        size_t *done, kin_time deadline);

/**
 * kin_writer_print - write text as printf does.
 * @writer:   a writer.
 * @deadline: until when to wait for room; 0: not at all.
 * @format:   borrowed; as for printf.
 *
 * The text is taken whole or not at all. It needs less than the buffer.
 *
 * Example:
 *     int put_number(struct kin_writer *out, int number)
 *     {
 *         return kin_writer_print(out, kin_after(KIN_SEC(5)), "%d\r\n", number);
 *     }
 *
 * From:    task
 * Parks:   when the buffer is full
 * Cancel:  reports it, nothing was taken then
 * Budget:  as kin_writer_put
 * Returns: 0; -EMSGSIZE when the text does not fit into an empty buffer; else as kin_writer_put
 */
KIN_API KIN_MUST_USE KIN_PRINTF(3, 4) int kin_writer_print(struct kin_writer *writer,
                                                           kin_time deadline, const char *format,
                                                           ...);

/**
 * kin_writer_flush - write what is in the buffer.
 * @writer:   a writer.
 * @deadline: KIN_NEVER to wait without end, 0 to not wait at all.
 *
 * Example:
 *     int end_answer(struct kin_writer *out)
 *     {
 *         return kin_writer_flush(out, kin_after(KIN_SEC(5)));
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  reports it, what was not written stays in the buffer
 * Budget:  1 op, 1 syscall; an empty buffer costs 1 op
 * Returns: 0 when all of it was written, else as kin_writer_put
 */
KIN_API KIN_MUST_USE int kin_writer_flush(struct kin_writer *writer, kin_time deadline);

/**
 * kin_writer_buffered - how many bytes were taken and not yet written.
 * @writer: a writer.
 *
 * Example:
 *     int flush_if_any(struct kin_writer *out)
 *     {
 *         return kin_writer_buffered(out) ? kin_writer_flush(out, KIN_NEVER) : 0;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: their number
 */
KIN_API size_t kin_writer_buffered(const struct kin_writer *writer);

/* ---- copying ---- */

/* How far a copy came. */
struct kin_copied {
    uint64_t taken; /* bytes that were read from the one descriptor ... */
    uint64_t given; /* ... and how many of them were written to the other */
};

/**
 * kin_copy - copy from one descriptor to another until the end.
 * @to:       a descriptor.
 * @from:     another one.
 * @max:      at most so many bytes; UINT64_MAX: all there are.
 * @done:     receives how far it came, on every return; may be NULL.
 * @deadline: KIN_NEVER to wait without end.
 *
 * The bytes pass through the kernel only, where it can do that; else through a buffer of 64 KiB.
 * A call that ends early may have taken up to 64 KiB more than it gave, which are gone; not when
 * one of the two is a pipe, or from is a file and to neither a device nor opened with O_APPEND.
 * A deadline that passes meanwhile ends it even if it never has to wait.
 *
 * Example:
 *     int forward(int to, int from)
 *     {
 *         struct kin_copied done;
 *         int rc = kin_copy(to, from, UINT64_MAX, &done, KIN_NEVER);
 *         printf("%llu bytes\n", (unsigned long long)done.given);
 *         return rc;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  reports it, with how far it came in done
 * Budget:  1 op and 1 syscall for every 64 KiB, or for what there is at a time
 * Returns: 0 at the end and when max bytes were copied; -EPIPE when nobody reads, KIN_TIMEOUT,
 *          KIN_CANCELLED, KIN_CLOSED, KIN_BUDGET, KIN_NOCAP, KIN_NOTASK, -ENOMEM, -errno
 */
KIN_API KIN_MUST_USE int kin_copy(int to, int from, uint64_t max, struct kin_copied *done,
                                  kin_time deadline);

KIN_END_DECLS

#endif
