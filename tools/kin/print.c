/* SPDX-License-Identifier: MIT */
/*
 * Plain printing for a terminal, a dumb one, or a pipe.
 *
 * Nothing moves the cursor. Titles are bold only when standard output is a terminal that is not
 * dumb and NO_COLOR is not set. Every call leaves its text on its way, so that a tour can be
 * watched through a pipe too.
 */
#include "tool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COLUMNS = 79, INDENT = 2, NAME_COLUMNS = 32, BUFFERS = 8, BUFFER_BYTES = 48 };

static bool is_bold;
static bool has_progress; /* a line of progress is begun */

void print_init(void)
{
    const char *term = getenv("TERM");
    const char *no_color = getenv("NO_COLOR");

    is_bold =
        isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 && !(no_color && *no_color);
}

void print_title(unsigned number, const char *text)
{
    int columns = printf("\n%s%u. %s", is_bold ? "\033[1m" : "", number, text);

    printf("%s\n", is_bold ? "\033[0m" : "");
    columns -= 1 + (is_bold ? 4 : 0);
    for (int i = 0; i < columns; i++)
        putchar('-');
    putchar('\n');
    fflush(stdout);
}

/* Prints text with spaces in front of every line, broken between words. */
static void wrap(const char *text)
{
    size_t column = 0;

    while (*text) { /* ends: passes one word each time */
        size_t word = strcspn(text, " ");
        if (column && column + 1 + word > COLUMNS) {
            putchar('\n');
            column = 0;
        }
        if (column == 0)
            column = (size_t)printf("%*s%.*s", INDENT, "", (int)word, text);
        else
            column += (size_t)printf(" %.*s", (int)word, text);
        text += word;
        text += strspn(text, " ");
    }
    putchar('\n');
}

void print_text(const char *fmt, ...)
{
    char text[1024];
    va_list values;

    va_start(values, fmt);
    vsnprintf(text, sizeof(text), fmt, values);
    va_end(values);
    wrap(text);
    fflush(stdout);
}

void print_figure(const char *name, const char *fmt, ...)
{
    va_list values;
    int columns = printf("%*s%s ", INDENT + 2, "", name);

    for (; columns < NAME_COLUMNS; columns++)
        putchar('.');
    putchar(' ');
    va_start(values, fmt);
    vprintf(fmt, values);
    va_end(values);
    putchar('\n');
    fflush(stdout);
}

void print_progress(const char *word)
{
    if (word)
        printf("%*s%s", has_progress ? 1 : INDENT + 2, "", word);
    else if (has_progress)
        putchar('\n');
    has_progress = word != NULL;
    fflush(stdout);
}

/* ---- numbers ---- */

static char *buffer(void)
{
    static char buffers[BUFFERS][BUFFER_BYTES];
    static unsigned next;

    return buffers[next++ % BUFFERS];
}

const char *text_count(uint64_t count)
{
    char *text = buffer();
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
    size_t at = 0;

    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

/* Three figures and the unit that fits; value is in the first unit, the next is step times it. */
static const char *scaled(double value, double step, const char *const *units, size_t count)
{
    char *text = buffer();
    size_t unit = 0;

    while (unit + 1 < count && value >= 0.9995 * step) {
        value /= step;
        unit++;
    }
    int places = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    snprintf(text, BUFFER_BYTES, "%.*f %s", places, value, units[unit]);
    return text;
}

const char *text_ns(double ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};

    return scaled(ns, 1000, units, 4);
}

const char *text_bytes(uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};

    if (bytes < 1024) {
        char *text = buffer();
        snprintf(text, BUFFER_BYTES, "%u bytes", (unsigned)bytes);
        return text;
    }
    return scaled((double)bytes, 1024, units, 5);
}
