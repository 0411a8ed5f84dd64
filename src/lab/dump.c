/* SPDX-License-Identifier: MIT */
/*
 * Reading a record of production, and making a schedule of it.
 *
 * The rings are put into one order by their times. A task goes on from where a worker picked it to
 * where it parks, yields or ends; in the schedule each such slice is a block "path:*", in the order
 * in which they began. Two that ran at the same moment, on two workers, come one after the other.
 * So a run that follows it is one that may have been, not the one that was.
 *
 * The text comes from anywhere: every number is checked and everything has a limit.
 */
#include "lab/dump.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TASKS_MAX ((size_t)1 << 21)
#define EVENTS_MAX ((size_t)1 << 23)
#define LINE_COLUMNS 88u

/* ---- words and numbers ---- */

/* The next word of a line, ended in place, which may be empty; NULL: the line is over. */
static char *take_word(char **line)
{
    char *word = *line;
    if (!*word)
        return NULL;
    *line = word + strcspn(word, " ");
    if (**line)
        *(*line)++ = '\0';
    return word;
}

/* A whole word that is a decimal number of at most most. */
static bool read_number(const char *word, uint64_t most, uint64_t *out)
{
    uint64_t value = 0;
    if (!word || !*word)
        return false;
    for (; *word; word++) {
        uint64_t digit = (uint64_t)(*word - '0');
        if (*word < '0' || *word > '9' || digit > most || value > (most - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

static bool read_signed(const char *word, int64_t *out)
{
    uint64_t value;
    bool is_negative = word && *word == '-';
    if (!read_number(is_negative ? word + 1 : word, (uint64_t)INT32_MAX + is_negative, &value))
        return false;
    *out = is_negative ? -(int64_t)value : (int64_t)value;
    return true;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Puts back what was written as %xx, in place. A lone - stands for nothing. */
static bool unescape(char *word)
{
    char *to = word;
    if (strcmp(word, "-") == 0) {
        *word = '\0';
        return true;
    }
    for (const char *from = word; *from; from++) {
        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        int high = digit_of(from[1]), low = high < 0 ? -1 : digit_of(from[2]);
        if (high < 0 || low < 0 || (high | low) == 0)
            return false;
        *to++ = (char)(high << 4 | low);
        from += 2;
    }
    *to = '\0';
    return true;
}

/* ---- lines ---- */

struct reader {
    struct kin__dump *dump;
    uint16_t ring;
    bool has_ring, has_end;
};

/* A path of the lab has only these, and so no line of a schedule can be forged by one. */
static bool is_path(const char *path)
{
    return *path && strspn(path, "abcdefghijklmnopqrstuvwxyz0123456789/?") == strlen(path);
}

static int read_task(struct reader *reader, char *line)
{
    struct kin__dump *dump = reader->dump;
    const char *number = take_word(&line), *path = take_word(&line);
    char *name = take_word(&line);
    const char *function = take_word(&line);
    uint64_t place;
    if (reader->has_ring || !function || *line || !read_number(number, TASKS_MAX, &place) ||
        place != dump->task_count || !is_path(path) || !unescape(name))
        return -EBADMSG;
    if (dump->task_count == TASKS_MAX)
        return -EFBIG;
    if (!kin__room_fits(&dump->task_room, dump->task_count + 1, sizeof(*dump->tasks)))
        return -ENOMEM;
    dump->tasks = dump->task_room.base;
    dump->tasks[dump->task_count++] = (struct kin__dump_task){path, name};
    return 0;
}

static int read_ring(struct reader *reader, char *line)
{
    const char *who = take_word(&line), *lost = take_word(&line);
    uint64_t ring = KIN__DUMP_OUTSIDE, count;
    if (!lost || *line || !read_number(lost, UINT64_MAX / 4, &count) ||
        (strcmp(who, "-") != 0 && !read_number(who, KIN__DUMP_OUTSIDE - 1, &ring)))
        return -EBADMSG;
    reader->ring = (uint16_t)ring;
    reader->has_ring = true;
    reader->dump->lost += count < UINT64_MAX - reader->dump->lost ? count : 0;
    return 0;
}

static uint8_t kind_of(const char *word)
{
    uint8_t kind = KIN__TAPE_KINDS - 1;
    while (kind > 0 && (!word || strcmp(kin__tape_kinds[kind], word) != 0))
        kind--; /* ends: 0 is none */
    return kind;
}

static bool has_task(uint8_t kind)
{
    return kind == KIN__TAPE_SPAWN || kind == KIN__TAPE_WAKE || kind == KIN__TAPE_CANCEL;
}

static int read_event(struct reader *reader, char *line)
{
    struct kin__dump *dump = reader->dump;
    struct kin__dump_event event = {.ring = reader->ring, .order = (uint32_t)dump->event_count};
    const char *ns = take_word(&line);
    event.kind = kind_of(take_word(&line));
    const char *task = take_word(&line);
    char *other = take_word(&line);
    const char *argument = take_word(&line);
    uint64_t number, by = 0;
    int64_t value = 0, extra = 0;
    if (!reader->has_ring || !event.kind || !argument || *line ||
        !read_number(ns, INT64_MAX, &event.ns) ||
        !read_number(task, dump->task_count - 1, &number) || !read_signed(argument, &extra))
        return -EBADMSG;
    if (event.kind == KIN__TAPE_PARK ? !unescape(other)
        : has_task(event.kind)       ? !read_number(other, dump->task_count - 1, &by)
                                     : !read_signed(other, &value))
        return -EBADMSG;
    event.word = event.kind == KIN__TAPE_PARK ? other : NULL;
    event.task = (uint32_t)number;
    event.by = (uint32_t)by;
    event.value = (int32_t)value;
    event.argument = (int16_t)extra;
    if (dump->event_count == EVENTS_MAX)
        return -EFBIG;
    if (!kin__room_fits(&dump->event_room, dump->event_count + 1, sizeof(event)))
        return -ENOMEM;
    dump->events = dump->event_room.base;
    dump->events[dump->event_count++] = event;
    return 0;
}

/* The rest of a line that begins with word and a blank; NULL: it does not. */
static char *after(char *line, const char *word)
{
    size_t size = strlen(word);
    return strncmp(line, word, size) == 0 && line[size] == ' ' ? line + size + 1 : NULL;
}

static int read_line(struct reader *reader, char *line)
{
    char *rest;
    uint64_t workers;
    if ((rest = after(line, "task")))
        return read_task(reader, rest);
    if ((rest = after(line, "ring")))
        return read_ring(reader, rest);
    if ((rest = after(line, "workers"))) {
        if (!read_number(rest, KIN__DUMP_OUTSIDE, &workers))
            return -EBADMSG;
        reader->dump->workers = (unsigned)workers;
        return 0;
    }
    reader->has_end = strcmp(line, "end") == 0;
    return reader->has_end ? 0 : read_event(reader, line);
}

static int read_lines(struct reader *reader, char *line, const char *end)
{
    int status = 0;
    while (line < end && status == 0 && !reader->has_end) { /* ends: a line less each time */
        char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop)
            return -ENODATA; /* the last line is not whole */
        *stop = '\0';
        if (strlen(line) != (size_t)(stop - line))
            return -EBADMSG; /* a NUL hides the rest of it */
        status = read_line(reader, line);
        line = stop + 1;
    }
    return status == 0 && !reader->has_end ? -ENODATA : status;
}

/* What makes a task runnable comes before what a worker does with it, then as in the file. */
static int compare(const void *a, const void *b)
{
    const struct kin__dump_event *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns < y->ns ? -1 : 1;
    bool is_first = has_task(x->kind);
    if (is_first != has_task(y->kind))
        return is_first ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

int kin__dump_read(struct kin__dump *dump, char *text, size_t size)
{
    static const char head[] = "kinrecord ";
    struct reader reader = {.dump = dump};
    if (size < sizeof(head) + 1 || memcmp(text, head, sizeof(head) - 1) != 0)
        return -EINVAL;
    char *line = text + sizeof(head) - 1;
    if (line[0] != '1' || line[1] != '\n')
        return -EPROTONOSUPPORT;
    if (size > KIN__DUMP_BYTES_MAX)
        return -EFBIG;
    if (!kin__room_fits(&dump->task_room, 1, sizeof(*dump->tasks)))
        return -ENOMEM;
    dump->tasks = dump->task_room.base;
    dump->tasks[dump->task_count++] = (struct kin__dump_task){"?", ""};
    int status = read_lines(&reader, line + 2, text + size);
    if (status == 0 && dump->event_count)
        qsort(dump->events, dump->event_count, sizeof(*dump->events), compare);
    return status;
}

void kin__dump_release(struct kin__dump *dump)
{
    kin__room_release(&dump->task_room);
    kin__room_release(&dump->event_room);
    *dump = (struct kin__dump){0};
}

/* ---- a schedule ---- */

struct schedule {
    const struct kin__dump *dump;
    struct kin__text *out;
    size_t begin;  /* of the line */
    uint32_t last; /* who goes on in the block before */
};

/* A block: the task goes on until it cannot. */
static void put_block(struct schedule *schedule, uint32_t task)
{
    struct kin__text *out = schedule->out;
    const char *path = schedule->dump->tasks[task].path;
    if (task == schedule->last || strchr(path, '?'))
        return;
    if (!schedule->begin || out->len - schedule->begin > LINE_COLUMNS) {
        kin__text_str(out, schedule->begin ? "\nsched" : "sched");
        schedule->begin = out->len;
    }
    kin__text_printf(out, " %s:*", path);
    schedule->last = task;
}

/* For each task who lent it its stack, for each ring what it did last: who lends parks in the lab,
 * and goes on behind the end of the child that was on its stack. */
struct lent {
    uint32_t *lenders, *last; /* the last event, plus 1 */
};

static void follow(struct schedule *schedule, struct lent *lent, size_t i)
{
    const struct kin__dump_event *events = schedule->dump->events, *event = &events[i];
    uint32_t *last = &lent->last[event->ring];
    if (event->kind == KIN__TAPE_RUN) {
        bool is_lent = *last && events[*last - 1].kind == KIN__TAPE_LEND;
        lent->lenders[event->task] = is_lent ? events[*last - 1].task : 0;
        put_block(schedule, event->task);
    } else if (event->kind == KIN__TAPE_END && lent->lenders[event->task]) {
        put_block(schedule, lent->lenders[event->task]);
    }
    *last = (uint32_t)i + 1;
}

bool kin__dump_schedule(const struct kin__dump *dump, struct kin__text *out, const char *test)
{
    struct schedule schedule = {.dump = dump, .out = out};
    struct kin__room room = {NULL, 0};
    size_t rings = (size_t)KIN__DUMP_OUTSIDE + 1;
    if (!kin__room_fits(&room, dump->task_count + rings, sizeof(uint32_t)))
        return false;
    memset(room.base, 0, (dump->task_count + rings) * sizeof(uint32_t));
    struct lent lent = {.last = room.base, .lenders = (uint32_t *)room.base + rings};
    kin__text_printf(out, "kinlab 1\ntest %s\nstrategy replay\nrecord %zu of %llu decisions\n",
                     test, dump->event_count,
                     (unsigned long long)(dump->event_count + dump->lost));
    for (size_t i = 0; i < dump->event_count; i++)
        follow(&schedule, &lent, i);
    kin__text_str(out, schedule.begin ? "\nend\n" : "end\n");
    kin__room_release(&room);
    return true;
}
