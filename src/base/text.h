/* SPDX-License-Identifier: MIT */
/*
 * Text in a caller's buffer: formatting that allocates nothing and may run in a signal handler.
 *
 *     char memory[256];
 *     struct kin__text text;
 *     kin__text_init(&text, memory, sizeof(memory));
 *     kin__text_printf(&text, "task %u slept ", id);
 *     kin__text_ns(&text, slept_ns);
 *
 * What does not fit is cut off. Invariant: when cap > 0, then len < cap and buf[len] is NUL. Printf
 * of libc is not used because it may allocate, reads the locale and is not allowed in a signal
 * handler; and the runtime has no use for floating point.
 */
#ifndef KIN_BASE_TEXT_H
#define KIN_BASE_TEXT_H

#include <kin/base.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kin__text {
    char *buf;
    size_t cap; /* bytes in buf; 0: everything is dropped, buf may be NULL */
    size_t len; /* bytes written so far, the NUL not counted */
};

/* Starts an empty text in cap bytes at buf. */
void kin__text_init(struct kin__text *text, char *buf, size_t cap);
/* True when not one more byte fits: the end may be missing. */
bool kin__text_is_full(const struct kin__text *text);
/* Shortens the text to len bytes; a longer len changes nothing. */
void kin__text_cut(struct kin__text *text, size_t len);

void kin__text_char(struct kin__text *text, char c);
/* NULL is written as (null). */
void kin__text_str(struct kin__text *text, const char *string);
/* The bytes as they are; a NUL among them is copied too. */
void kin__text_mem(struct kin__text *text, const char *bytes, size_t size);
/* Signed and unsigned decimal numbers. */
void kin__text_dec(struct kin__text *text, int64_t value);
void kin__text_udec(struct kin__text *text, uint64_t value);
/* Hexadecimal in lower case, without 0x. */
void kin__text_hex(struct kin__text *text, uint64_t value);
/* Appends blanks until the current line is column bytes long; nothing when it is already. */
void kin__text_pad(struct kin__text *text, size_t column);
/* Ends the line; in a full text the last byte makes way for the newline. */
void kin__text_end_line(struct kin__text *text);

/* A duration for people, with three digits, rounded toward zero: 850 ns, 1.25 ms, 12.5 s; then
 * 2 min 05 s and 3 h 20 min; INT64_MAX is never. */
void kin__text_ns(struct kin__text *text, int64_t ns);
/* A size for people, with three digits, rounded down: 512 B, 1.25 KiB, 12.5 MiB. */
void kin__text_bytes(struct kin__text *text, uint64_t bytes);

/*
 * Formats as printf does: flags - and 0, a width (also *), a precision for s only (also .*),
 * lengths l, ll and z for numbers, conversions d i u x p c s %. At anything else it gives up: the
 * argument's type is unknown, so the rest of the format is copied as it stands. A NULL for s is
 * (null).
 */
KIN_PRINTF(2, 0)
void kin__text_format(struct kin__text *text, const char *format, va_list values);
KIN_PRINTF(2, 3)
void kin__text_printf(struct kin__text *text, const char *format, ...);

#endif
