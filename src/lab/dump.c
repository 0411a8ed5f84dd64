/* SPDX-License-Identifier: MIT */
/*
 * Reading a record of production, and making a schedule of it.
 *
 * The rings are put into one order by their times. A task goes on from where a worker picked it to
 * where it parks, yields or ends; in the schedule each such slice is a block "path:*", in the order
 * in which they began. Two that ran at the same moment, on two workers, come one after the other.
 * So a run that follows it is one that may have been, not the one that was. Whoever is woken by
 * time needs the clock of the lab to move first: "clock:*". The cases that a task took of its
 * selects are given to it one after the other, if none of them is lost.
 *
 * The text comes from anywhere: every number is checked and everything has a limit.
 */
#include "lab/dump.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TASKS_MAX ((size_t)1 << 21)
#define EVENTS_MAX ((size_t)1 << 23)
#define RINGS_MAX ((size_t)KIN__DUMP_OUTSIDE + 1)
#define BLOCKS_MAX ((size_t)1 << 19) /* of a schedule: no run of the lab has more steps */
#define LINE_COLUMNS 88u
#define CLOCK UINT32_MAX /* in the place of a task */

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

/* The same with a sign. */
static bool read_signed(const char *word, uint64_t most, int64_t *out)
{
    uint64_t value;
    bool is_negative = word && *word == '-';
    if (!read_number(is_negative ? word + 1 : word, most + is_negative, &value))
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
    struct kin__dump_ring *ring; /* the last; NULL: there was none yet */
    bool has_end;
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
    if (reader->ring || !function || *line || !read_number(number, TASKS_MAX, &place) ||
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
    struct kin__dump *dump = reader->dump;
    const char *who = take_word(&line), *lost = take_word(&line);
    uint64_t ring = KIN__DUMP_OUTSIDE, count;
    if (!lost || *line || !read_number(lost, UINT64_MAX / RINGS_MAX, &count) ||
        (strcmp(who, "-") != 0 && !read_number(who, KIN__DUMP_OUTSIDE - 1, &ring)))
        return -EBADMSG;
    if (dump->ring_count == RINGS_MAX)
        return -EFBIG;
    if (!kin__room_fits(&dump->ring_room, dump->ring_count + 1, sizeof(*dump->rings)))
        return -ENOMEM;
    dump->rings = dump->ring_room.base;
    reader->ring = &dump->rings[dump->ring_count++];
    *reader->ring = (struct kin__dump_ring){count, UINT64_MAX, (uint16_t)ring};
    dump->lost += count;
    return 0;
}

static uint8_t kind_of(const char *word)
{
    uint8_t kind = KIN__TAPE_KINDS - 1;
    while (kind > 0 && (!word || strcmp(kin__tape_kinds[kind], word) != 0))
        kind--; /* ends: 0 is none */
    return kind;
}

static int read_event(struct reader *reader, char *line)
{
    struct kin__dump *dump = reader->dump;
    struct kin__dump_event event = {.order = (uint32_t)dump->event_count};
    const char *ns = take_word(&line);
    event.kind = kind_of(take_word(&line));
    const char *task = take_word(&line);
    char *other = take_word(&line);
    const char *argument = take_word(&line);
    uint64_t number, by = 0;
    int64_t value = 0, extra = 0;
    if (!reader->ring || !event.kind || !argument || *line ||
        !read_number(ns, INT64_MAX, &event.ns) ||
        !read_number(task, dump->task_count - 1, &number) ||
        !read_signed(argument, INT16_MAX, &extra))
        return -EBADMSG;
    if (event.kind == KIN__TAPE_PARK           ? !unescape(other)
        : kin__tape_has_other(event.kind) ? !read_number(other, dump->task_count - 1, &by)
                                          : !read_signed(other, INT32_MAX, &value))
        return -EBADMSG;
    if (reader->ring->since == UINT64_MAX)
        reader->ring->since = event.ns;
    event.ring = reader->ring->ring;
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
    if ((rest = after(line, "tenancy"))) /* older records do not say it */
        return strcmp(rest, KIN__TAPE_TENANCY) == 0 ? 0 : -EBADMSG;
    reader->has_end = strcmp(line, "end") == 0;
    return reader->has_end ? 0 : read_event(reader, line);
}

static int read_lines(struct reader *reader, char *line, const char *end)
{
    int status = 0;
    while (line < end && status == 0 && !reader->has_end) { /* ends: a line less each time */
        char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop)
            break; /* the last line is not whole */
        *stop = '\0';
        if (strlen(line) != (size_t)(stop - line))
            return -EBADMSG; /* a NUL hides the rest of it */
        status = read_line(reader, line);
        line = stop + 1;
    }
    reader->dump->is_cut = !reader->has_end;
    return status;
}

/* When the last of the rings that have lost something begins. */
static void find_whole(struct kin__dump *dump)
{
    for (size_t i = 0; i < dump->ring_count; i++) {
        const struct kin__dump_ring *ring = &dump->rings[i];
        if (ring->lost && ring->since > dump->whole)
            dump->whole = ring->since;
    }
}

/* What makes a task runnable comes before what a worker does with it, then as in the file. */
static int compare(const void *a, const void *b)
{
    const struct kin__dump_event *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns < y->ns ? -1 : 1;
    bool is_first = kin__tape_has_other(x->kind);
    if (is_first != kin__tape_has_other(y->kind))
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
    find_whole(dump);
    if (status == 0 && dump->event_count)
        qsort(dump->events, dump->event_count, sizeof(*dump->events), compare);
    return status;
}

void kin__dump_release(struct kin__dump *dump)
{
    kin__room_release(&dump->task_room);
    kin__room_release(&dump->event_room);
    kin__room_release(&dump->ring_room);
    *dump = (struct kin__dump){0};
}

/* ---- a schedule ---- */

/* What is known of a task on the way. */
struct course {
    uint32_t lender; /* who lent it its stack */
    uint32_t block;  /* the last one in which it goes on */
    bool is_whole;   /* nothing that it did is lost */
};

/* A case that was taken. */
struct taken {
    uint32_t block, order, n, which;
};

struct schedule {
    const struct kin__dump *dump;
    struct kin__text *out;
    size_t begin;                   /* of the line */
    uint32_t last;                  /* who goes on in the block before */
    uint32_t blocks;                /* so far */
    struct course *courses;         /* of tasks */
    uint32_t *latest;               /* of rings: the last event, plus 1 */
    struct kin__room course_room, latest_room, taken_room;
    size_t taken_count;
};

static void put_block(struct schedule *schedule, uint32_t task, const char *path)
{
    struct kin__text *out = schedule->out;
    if (task == schedule->last || schedule->blocks == BLOCKS_MAX)
        return;
    if (!schedule->begin || out->len - schedule->begin > LINE_COLUMNS) {
        kin__text_str(out, schedule->begin ? "\nsched" : "sched");
        schedule->begin = out->len;
    }
    kin__text_printf(out, " %s:*", path);
    schedule->last = task;
    schedule->blocks++;
}

/* The task goes on until it cannot. */
static void put_task(struct schedule *schedule, uint32_t task)
{
    const char *path = schedule->dump->tasks[task].path;
    if (strchr(path, '?'))
        return;
    put_block(schedule, task, path);
    if (schedule->last == task)
        schedule->courses[task].block = schedule->blocks;
}

/* The task takes a case: behind its block. False: no memory. */
static bool take_case(struct schedule *schedule, const struct kin__dump_event *event)
{
    const struct course *course = &schedule->courses[event->task];
    if (!course->block || !course->is_whole || event->argument < 0 ||
        event->argument >= event->value)
        return true;
    if (!kin__room_fits(&schedule->taken_room, schedule->taken_count + 1, sizeof(struct taken)))
        return false;
    ((struct taken *)schedule->taken_room.base)[schedule->taken_count] =
        (struct taken){course->block, (uint32_t)schedule->taken_count, (uint32_t)event->value,
                       (uint32_t)event->argument};
    schedule->taken_count++;
    return true;
}

static int compare_taken(const void *a, const void *b)
{
    const struct taken *x = a, *y = b;
    if (x->block != y->block)
        return x->block < y->block ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static void put_cases(struct schedule *schedule)
{
    struct taken *taken = schedule->taken_room.base;
    if (taken)
        qsort(taken, schedule->taken_count, sizeof(*taken), compare_taken);
    for (size_t i = 0; i < schedule->taken_count; i++)
        kin__text_printf(schedule->out, "choose %u case %u/%u select\n", taken[i].block,
                         taken[i].which, taken[i].n);
}

/* One event on the way. Who lends its stack parks in the lab, and goes on behind the end of the
 * child that was on it. False: no memory. */
static bool follow(struct schedule *schedule, size_t i)
{
    const struct kin__dump_event *events = schedule->dump->events, *event = &events[i];
    struct course *course = &schedule->courses[event->task];
    uint32_t *latest = &schedule->latest[event->ring];
    bool is_time = event->kind == KIN__TAPE_TIMER;
    if (event->kind == KIN__TAPE_RUN) {
        bool is_lent = *latest && events[*latest - 1].kind == KIN__TAPE_LEND;
        course->lender = is_lent ? events[*latest - 1].task : 0;
        put_task(schedule, event->task);
    } else if (event->kind == KIN__TAPE_END && course->lender) {
        put_task(schedule, course->lender);
    } else if (event->kind == KIN__TAPE_SPAWN) {
        course->is_whole = event->ns >= schedule->dump->whole;
    } else if (event->kind == KIN__TAPE_CANCEL || event->kind == KIN__TAPE_ASK) {
        is_time = !event->by && event->ring != KIN__DUMP_OUTSIDE; /* a deadline of a nursery */
    }
    if (is_time)
        put_block(schedule, CLOCK, "clock");
    *latest = (uint32_t)i + 1;
    return event->kind != KIN__TAPE_CASE || take_case(schedule, event);
}

static bool put_schedule(struct schedule *schedule)
{
    const struct kin__dump *dump = schedule->dump;
    bool is_good =
        kin__room_fits(&schedule->course_room, dump->task_count, sizeof(*schedule->courses)) &&
        kin__room_fits(&schedule->latest_room, RINGS_MAX, sizeof(*schedule->latest));
    schedule->courses = schedule->course_room.base; /* new rooms are all zero */
    schedule->latest = schedule->latest_room.base;
    for (size_t i = 0; is_good && i < dump->event_count; i++)
        is_good = follow(schedule, i);
    kin__text_str(schedule->out, schedule->begin ? "\n" : "");
    if (is_good)
        put_cases(schedule);
    kin__text_str(schedule->out, "end\n");
    return is_good;
}

bool kin__dump_schedule(const struct kin__dump *dump, struct kin__text *out, const char *test)
{
    struct schedule schedule = {.dump = dump, .out = out};
    kin__text_printf(out, "kinlab 1\ntest %s\nstrategy replay\nrecord %zu of %llu decisions\n",
                     test, dump->event_count,
                     (unsigned long long)(dump->event_count + dump->lost));
    bool is_good = put_schedule(&schedule);
    kin__room_release(&schedule.course_room);
    kin__room_release(&schedule.latest_room);
    kin__room_release(&schedule.taken_room);
    return is_good;
}
