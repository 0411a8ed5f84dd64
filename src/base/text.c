/* SPDX-License-Identifier: MIT */
/*
 * Text in a caller's buffer: the writers, and the small part of printf that the runtime uses.
 *
 * Everything ends in text_append or text_fill, which alone know about room. A conversion is read
 * into a struct text_field; its bytes are made in a few bytes of stack and laid out by
 * text_put_field.
 */
#include "base/text.h"

#include "base/assert.h"

#include <limits.h>
#include <string.h>

#define TEXT_DIGITS_MAX 20       /* of 2^64 - 1 in decimal */
#define TEXT_COUNT_MAX 100000000 /* ten times that and a digit still fit an int */

/* One conversion of a format, between its % and its letter. */
struct text_field {
    bool is_left;     /* flag -: blanks go behind */
    bool has_zeros;   /* flag 0: zeros instead of blanks in front */
    char length;      /* 'i' int, 'l' long, 'q' long long, 'z' size_t */
    size_t width;     /* least bytes */
    size_t precision; /* most bytes of a string; SIZE_MAX: all */
};

/* A va_list is an array on some machines and changes its type when it is passed; a struct does
 * not. */
struct text_values {
    va_list list;
};

static size_t text_room(const struct kin__text *text)
{
    return text->cap == 0 ? 0 : text->cap - 1 - text->len;
}

static void text_append(struct kin__text *text, const char *bytes, size_t size)
{
    size_t room = text_room(text);
    size_t taken = size < room ? size : room;
    if (taken == 0)
        return;
    memcpy(text->buf + text->len, bytes, taken);
    text->len += taken;
    text->buf[text->len] = '\0';
}

static void text_fill(struct kin__text *text, char c, size_t count)
{
    size_t room = text_room(text);
    size_t taken = count < room ? count : room;
    if (taken == 0)
        return;
    memset(text->buf + text->len, c, taken);
    text->len += taken;
    text->buf[text->len] = '\0';
}

/* Writes the digits of value to the end of out and returns the first of them. */
static const char *text_digits(char out[TEXT_DIGITS_MAX], uint64_t value, unsigned base)
{
    char *at = out + TEXT_DIGITS_MAX;
    do {
        *--at = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0); /* ends: base >= 2, and 20 digits hold every value from base 10 up */
    return at;
}

static uint64_t text_magnitude(int64_t value)
{
    return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

void kin__text_init(struct kin__text *text, char *buf, size_t cap)
{
    KIN__ASSERT(buf != NULL || cap == 0, "house");
    text->buf = buf;
    text->cap = cap;
    text->len = 0;
    if (cap > 0)
        buf[0] = '\0';
}

bool kin__text_is_full(const struct kin__text *text)
{
    return text_room(text) == 0;
}

void kin__text_cut(struct kin__text *text, size_t len)
{
    if (len >= text->len)
        return;
    text->len = len;
    text->buf[len] = '\0';
}

void kin__text_char(struct kin__text *text, char c)
{
    text_append(text, &c, 1);
}

void kin__text_str(struct kin__text *text, const char *string)
{
    if (string == NULL)
        string = "(null)";
    text_append(text, string, strlen(string));
}

void kin__text_mem(struct kin__text *text, const char *bytes, size_t size)
{
    text_append(text, bytes, size);
}

void kin__text_dec(struct kin__text *text, int64_t value)
{
    if (value < 0)
        kin__text_char(text, '-');
    kin__text_udec(text, text_magnitude(value));
}

void kin__text_udec(struct kin__text *text, uint64_t value)
{
    char out[TEXT_DIGITS_MAX];
    const char *digits = text_digits(out, value, 10);
    text_append(text, digits, (size_t)(out + sizeof(out) - digits));
}

void kin__text_hex(struct kin__text *text, uint64_t value)
{
    char out[TEXT_DIGITS_MAX];
    const char *digits = text_digits(out, value, 16);
    text_append(text, digits, (size_t)(out + sizeof(out) - digits));
}

void kin__text_pad(struct kin__text *text, size_t column)
{
    size_t start = text->len;
    while (start > 0 && text->buf[start - 1] != '\n')
        start--;
    size_t used = text->len - start;
    if (used < column)
        text_fill(text, ' ', column - used);
}

void kin__text_end_line(struct kin__text *text)
{
    if (text_room(text) > 0)
        kin__text_char(text, '\n');
    else if (text->len > 0)
        text->buf[text->len - 1] = '\n';
}

/* value in units, with three digits where they are more than the whole number has. */
static void text_scaled(struct kin__text *text, uint64_t value, uint64_t unit, const char *name)
{
    uint64_t whole = value / unit;
    uint64_t rest = value % unit;
    unsigned digits = unit == 1 || whole >= 100 ? 0 : whole >= 10 ? 1 : 2;
    kin__text_udec(text, whole);
    if (digits > 0)
        kin__text_char(text, '.');
    for (; digits > 0; digits--) {
        rest *= 10; /* fits: rest < unit <= 2^60 */
        kin__text_char(text, (char)('0' + rest / unit));
        rest %= unit;
    }
    kin__text_char(text, ' ');
    kin__text_str(text, name);
}

void kin__text_ns(struct kin__text *text, int64_t ns)
{
    const uint64_t us = 1000, ms = 1000 * us, s = 1000 * ms, minute = 60 * s, hour = 60 * minute;
    uint64_t value = text_magnitude(ns);
    if (ns == INT64_MAX) {
        kin__text_str(text, "never");
        return;
    }
    if (ns < 0)
        kin__text_char(text, '-');
    if (value < us)
        text_scaled(text, value, 1, "ns");
    else if (value < ms)
        text_scaled(text, value, us, "us");
    else if (value < s)
        text_scaled(text, value, ms, "ms");
    else if (value < minute)
        text_scaled(text, value, s, "s");
    else if (value < hour)
        kin__text_printf(text, "%zu min %02zu s", (size_t)(value / minute),
                         (size_t)(value % minute / s));
    else
        kin__text_printf(text, "%zu h %02zu min", (size_t)(value / hour),
                         (size_t)(value % hour / minute));
}

void kin__text_bytes(struct kin__text *text, uint64_t bytes)
{
    static const char names[][4] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned power = 0;
    while (power < 6 && bytes >> (10 * power) >= 1024)
        power++;
    text_scaled(text, bytes, UINT64_C(1) << (10 * power), names[power]);
}

/* Lays out sign and bytes in the field's width. */
static void text_put_field(struct kin__text *text, const struct text_field *field,
                           const char *prefix, const char *bytes, size_t size)
{
    size_t used = strlen(prefix) + size;
    size_t missing = field->width > used ? field->width - used : 0;
    bool has_zeros = field->has_zeros && !field->is_left;
    if (!has_zeros && !field->is_left)
        text_fill(text, ' ', missing);
    kin__text_str(text, prefix);
    if (has_zeros)
        text_fill(text, '0', missing);
    text_append(text, bytes, size);
    if (field->is_left)
        text_fill(text, ' ', missing);
}

static void text_put_number(struct kin__text *text, const struct text_field *field,
                            const char *prefix, uint64_t value, unsigned base)
{
    char out[TEXT_DIGITS_MAX];
    const char *digits = text_digits(out, value, base);
    text_put_field(text, field, prefix, digits, (size_t)(out + sizeof(out) - digits));
}

static void text_put_string(struct kin__text *text, const struct text_field *field,
                            const char *string)
{
    struct text_field plain = *field;
    plain.has_zeros = false;
    if (string == NULL)
        string = "(null)";
    /* With a precision the string need not end in NUL. */
    size_t size = 0;
    while (size < plain.precision && string[size] != '\0')
        size++;
    text_put_field(text, &plain, "", string, size);
}

static void text_put_char(struct kin__text *text, const struct text_field *field, char c)
{
    struct text_field plain = *field;
    plain.has_zeros = false;
    text_put_field(text, &plain, "", &c, 1);
}

static int64_t text_take_signed(struct text_values *values, char length)
{
    switch (length) {
    case 'l':
        return va_arg(values->list, long);
    case 'q':
        return va_arg(values->list, long long);
    case 'z':
        return va_arg(values->list, ptrdiff_t); /* the signed twin of size_t */
    default:
        return va_arg(values->list, int);
    }
}

static uint64_t text_take_unsigned(struct text_values *values, char length)
{
    switch (length) {
    case 'l':
        return va_arg(values->list, unsigned long);
    case 'q':
        return va_arg(values->list, unsigned long long);
    case 'z':
        return va_arg(values->list, size_t);
    default:
        return va_arg(values->list, unsigned);
    }
}

/* Reads a number or * at *at. A negative * stays negative, and its opposite is an int too. */
static int text_take_count(const char **at, struct text_values *values)
{
    int count = 0;
    if (**at == '*') {
        ++*at;
        count = va_arg(values->list, int);
        return count < -INT_MAX ? -INT_MAX : count;
    }
    for (; **at >= '0' && **at <= '9'; ++*at)
        count = count < TEXT_COUNT_MAX ? count * 10 + (**at - '0') : count;
    return count;
}

/* Reads flags, width, precision and length; returns the place of the conversion's letter. */
static const char *text_take_field(const char *at, struct text_field *field,
                                   struct text_values *values)
{
    *field = (struct text_field){.length = 'i', .precision = SIZE_MAX};
    for (; *at == '-' || *at == '0'; at++) {
        field->is_left |= *at == '-';
        field->has_zeros |= *at == '0';
    }
    int width = text_take_count(&at, values);
    field->is_left |= width < 0;
    field->width = (size_t)(width < 0 ? -width : width);
    if (*at == '.') {
        at++;
        int precision = text_take_count(&at, values);
        field->precision = precision < 0 ? SIZE_MAX : (size_t)precision;
    }
    if (*at == 'l' && at[1] == 'l') {
        field->length = 'q';
        return at + 2;
    }
    if (*at == 'l' || *at == 'z')
        field->length = *at++;
    return at;
}

/* Writes the value of one conversion; false when it is not one of ours. */
static bool text_put_value(struct kin__text *text, const struct text_field *field, char letter,
                           struct text_values *values)
{
    int64_t value;
    bool is_number = letter == 'd' || letter == 'i' || letter == 'u' || letter == 'x';
    if ((field->precision != SIZE_MAX && letter != 's') || (field->length != 'i' && !is_number))
        return false;
    switch (letter) {
    case 'd':
    case 'i':
        value = text_take_signed(values, field->length);
        text_put_number(text, field, value < 0 ? "-" : "", text_magnitude(value), 10);
        return true;
    case 'u':
        text_put_number(text, field, "", text_take_unsigned(values, field->length), 10);
        return true;
    case 'x':
        text_put_number(text, field, "", text_take_unsigned(values, field->length), 16);
        return true;
    case 'p':
        text_put_number(text, field, "0x", (uintptr_t)va_arg(values->list, void *), 16);
        return true;
    case 's':
        text_put_string(text, field, va_arg(values->list, const char *));
        return true;
    case 'c':
        text_put_char(text, field, (char)va_arg(values->list, int));
        return true;
    case '%':
        kin__text_char(text, '%');
        return true;
    default:
        return false;
    }
}

void kin__text_format(struct kin__text *text, const char *format, va_list values)
{
    struct text_values rest;
    va_copy(rest.list, values);
    while (*format != '\0') {
        size_t plain = strcspn(format, "%");
        text_append(text, format, plain);
        format += plain;
        if (*format == '\0')
            break;
        struct text_field field;
        const char *letter = text_take_field(format + 1, &field, &rest);
        if (!text_put_value(text, &field, *letter, &rest)) {
            kin__text_str(text, format);
            break;
        }
        format = letter + 1;
    }
    va_end(rest.list);
}

void kin__text_printf(struct kin__text *text, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    kin__text_format(text, format, values);
    va_end(values);
}
