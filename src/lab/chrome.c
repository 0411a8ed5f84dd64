/* SPDX-License-Identifier: MIT */
/*
 * A failed run in the trace format of Chrome, which Perfetto reads too.
 *
 * Every task is a thread of the trace. Virtual time stands still while tasks run, so the clock of
 * the trace counts rows, one for each microsecond; virtual time is among the arguments. A row is a
 * slice; from a wait to the row in which its task goes on there is a slice "waits"; spawns, wakes
 * and cancellations are flows between slices; the failure and where the clock jumps are instants.
 */
#include "lab/chrome.h"

#include <string.h>

void kin__chrome_string(struct kin__text *out, const char *string)
{
    kin__text_char(out, '"');
    for (; *string; string++) {
        unsigned char c = (unsigned char)*string;
        if (c == '"' || c == '\\')
            kin__text_char(out, '\\');
        if (c < ' ' || c >= 0x7f) /* names may be any bytes; the file is ASCII */
            kin__text_printf(out, "\\u%04x", c);
        else
            kin__text_char(out, (char)c);
    }
    kin__text_char(out, '"');
}

static void put_thread(struct kin__text *out, size_t actor, const char *name)
{
    kin__text_printf(out, ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%zu,\"name\":\"thread_name\","
                          "\"args\":{\"name\":", actor);
    kin__chrome_string(out, name);
    kin__text_printf(out, "}},\n{\"ph\":\"M\",\"pid\":1,\"tid\":%zu,\"name\":\"thread_sort_index\","
                          "\"args\":{\"sort_index\":%zu}}", actor, actor);
}

static void put_slice(struct kin__text *out, const struct kin__row *row, size_t at, size_t length,
                      const char *name)
{
    kin__text_printf(out, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"ts\":%zu,\"dur\":%zu,\"name\":",
                     row->actor, at, length);
    kin__chrome_string(out, name);
    kin__text_printf(out, ",\"args\":{\"step\":%llu,\"virtual_ns\":%lld,\"what\":",
                     (unsigned long long)row->step, (long long)row->time);
    kin__chrome_string(out, row->words);
    kin__text_str(out, ",\"where\":");
    kin__chrome_string(out, row->place);
    kin__text_str(out, "}}");
}

static void put_instant(struct kin__text *out, const struct kin__row *row, size_t at)
{
    kin__text_printf(out, ",\n{\"ph\":\"i\",\"s\":\"g\",\"pid\":1,\"tid\":%u,\"ts\":%zu,\"name\":",
                     row->actor == KIN__NOTE_NOBODY ? 0u : row->actor, at);
    kin__chrome_string(out, row->words);
    kin__text_printf(out, ",\"args\":{\"virtual_ns\":%lld}}", (long long)row->time);
}

/* The row in which the task of row at does something again; the end when it does not. */
static size_t next_of(const struct kin__story *story, size_t at)
{
    size_t next = at + 1;
    while (next < story->count && story->rows[next].actor != story->rows[at].actor)
        next++;
    return next;
}

static void put_flow_end(struct kin__text *out, const char *phase, unsigned actor, size_t at,
                         size_t id, const char *name)
{
    kin__text_printf(out,
                     ",\n{\"ph\":\"%s\",\"pid\":1,\"tid\":%u,\"ts\":%zu,\"id\":%zu,"
                     "\"name\":\"%s\",\"cat\":\"kin\"}",
                     phase, actor, at, id, name);
}

/* Spawns, wakes and cancellations of a row lead to the next row of the other task. */
static void put_flow(struct kin__text *out, const struct kin__story *story, size_t at, unsigned i)
{
    const struct kin__row *row = &story->rows[at];
    unsigned other = row->links[i].other;
    const char *name = row->links[i].what == KIN__NOTE_SPAWN    ? "spawn"
                       : row->links[i].what == KIN__NOTE_CANCEL ? "cancel"
                                                                : "wake";
    size_t end = at + 1;
    while (end < story->count && story->rows[end].actor != other)
        end++;
    if (end == story->count)
        return;
    size_t id = at * KIN__ROW_LINKS + i + 1;
    put_flow_end(out, "s", row->actor, at, id, name);
    put_flow_end(out, "f\",\"bp\":\"e", other, end, id, name);
}

static void put_row(struct kin__text *out, const struct kin__story *story, size_t at)
{
    const struct kin__row *row = &story->rows[at];
    if (row->is_failure || row->what == KIN__NOTE_TIME)
        put_instant(out, row, at);
    if (row->actor == KIN__NOTE_NOBODY)
        return;
    put_slice(out, row, at, 1, row->call[0] ? row->call : row->words);
    size_t next = next_of(story, at);
    if (row->what == KIN__NOTE_PARK && next > at + 1)
        put_slice(out, row, at + 1, next - at - 1, "waits");
    for (unsigned i = 0; i < row->links_count; i++)
        put_flow(out, story, at, i);
}

void kin__chrome_write(struct kin__text *out, const struct kin__finding *finding,
                       const struct kin__story *story)
{
    kin__text_str(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
                       "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{"
                       "\"name\":");
    kin__chrome_string(out, finding->test);
    kin__text_str(out, "}}");
    for (size_t i = 0; i < story->actors_count; i++)
        put_thread(out, i, story->actors[i].name);
    for (size_t i = 0; i < story->count; i++)
        put_row(out, story, i);
    kin__text_str(out, "\n]}\n");
}
