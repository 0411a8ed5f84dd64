/* SPDX-License-Identifier: MIT */
/*
 * A record of production for people: in words, as rows of a picture, as a trace in real time.
 */
#include "lab/chrome.h"
#include "lab/dump.h"

#include <kin/status.h>

#include <string.h>

#define ROWS_MAX (size_t)10000 /* of a picture: the last ones */

/* ---- words ---- */

static void put_status(struct kin__text *out, int32_t status)
{
    if (status < 0)
        kin__text_str(out, kin_status_name(status));
    else
        kin__text_dec(out, status);
}

static const char *path_of(const struct kin__dump *dump, uint32_t task)
{
    return task ? dump->tasks[task].path : "somebody";
}

static void put_wake(const struct kin__dump *dump, const struct kin__dump_event *event,
                     struct kin__text *out)
{
    int32_t status = event->argument;
    if (event->kind == KIN__TAPE_WAKE || event->kind == KIN__TAPE_CANCEL)
        kin__text_printf(out, "is %s by %s",
                         event->kind == KIN__TAPE_WAKE ? "woken" : "cancelled",
                         path_of(dump, event->by));
    else
        kin__text_str(out, event->kind == KIN__TAPE_TIMER ? "is woken by time" : "is woken by I/O");
    if (event->kind == KIN__TAPE_TIMER || event->kind == KIN__TAPE_IO)
        status = event->value;
    kin__text_str(out, ", its wait answers ");
    put_status(out, status);
}

/* What happens to the task, without its name. */
static void put_words(const struct kin__dump *dump, const struct kin__dump_event *event,
                      struct kin__text *out)
{
    switch ((enum kin__tape_kind)event->kind) {
    case KIN__TAPE_SPAWN:
        kin__text_printf(out, "is spawned by %s", path_of(dump, event->by));
        break;
    case KIN__TAPE_RUN:
        kin__text_printf(out, "goes on, worker %u", event->ring);
        break;
    case KIN__TAPE_PARK:
        kin__text_printf(out, "waits, %s", *event->word ? event->word : "for something");
        break;
    case KIN__TAPE_YIELD:
        kin__text_str(out, "yields");
        break;
    case KIN__TAPE_LEND:
        kin__text_str(out, "joins: runs a child on its stack");
        break;
    case KIN__TAPE_ASK:
        kin__text_printf(out, "is asked to stop by %s, and goes on", path_of(dump, event->by));
        break;
    case KIN__TAPE_CASE:
        kin__text_printf(out, "selects: case %d of %d that are ready", event->argument + 1,
                         event->value);
        break;
    case KIN__TAPE_STEAL:
        kin__text_printf(out, "is taken from worker %d", event->argument);
        break;
    case KIN__TAPE_END:
        kin__text_str(out, "ends with ");
        put_status(out, event->value);
        break;
    case KIN__TAPE_REPORT:
        kin__text_str(out, "REPORT: ");
        put_status(out, event->value);
        break;
    case KIN__TAPE_SLEEP:
    case KIN__TAPE_AWAKE:
        kin__text_printf(out, "worker %u %s", event->ring,
                         event->kind == KIN__TAPE_SLEEP ? "sleeps" : "is back");
        break;
    default:
        put_wake(dump, event, out);
    }
}

void kin__dump_say(const struct kin__dump *dump, const struct kin__dump_event *event,
                   struct kin__text *out)
{
    if (event->kind != KIN__TAPE_SLEEP && event->kind != KIN__TAPE_AWAKE)
        kin__text_printf(out, "%s ", path_of(dump, event->task));
    put_words(dump, event, out);
}

/* ---- rows ---- */

/* The note that a row of a picture is drawn as. */
static enum kin__note note_of(const struct kin__dump_event *event)
{
    switch ((enum kin__tape_kind)event->kind) {
    case KIN__TAPE_SPAWN:
        return KIN__NOTE_SPAWN;
    case KIN__TAPE_PARK:
    case KIN__TAPE_LEND:
        return KIN__NOTE_PARK;
    case KIN__TAPE_WAKE:
    case KIN__TAPE_TIMER:
    case KIN__TAPE_IO:
        return KIN__NOTE_WAKE;
    case KIN__TAPE_CANCEL:
    case KIN__TAPE_ASK:
        return KIN__NOTE_CANCEL;
    case KIN__TAPE_END:
        return KIN__NOTE_END;
    case KIN__TAPE_REPORT:
        return KIN__NOTE_FAIL;
    default:
        return KIN__NOTE_CALL;
    }
}

static bool is_link(enum kin__note note)
{
    return note == KIN__NOTE_SPAWN || note == KIN__NOTE_WAKE || note == KIN__NOTE_CANCEL;
}

/* Actor 0 is everything that is no task: time, the outside, other threads. A row belongs to who
 * acts: the spawner, the waker. */
static void fill_row(const struct kin__dump *dump, size_t i, struct kin__row *row)
{
    const struct kin__dump_event *event = &dump->events[i];
    enum kin__note note = note_of(event);
    struct kin__text words, place;
    memset(row, 0, sizeof(*row));
    row->step = i + 1;
    row->time = (int64_t)event->ns;
    row->what = (uint8_t)(is_link(note) ? KIN__NOTE_CALL : note);
    row->actor = (uint16_t)(is_link(note) ? event->by : event->task);
    row->is_failure = note == KIN__NOTE_FAIL;
    if (is_link(note)) {
        row->links_count = 1;
        row->links[0].other = (uint16_t)event->task;
        row->links[0].what = (uint8_t)note;
    }
    kin__text_init(&words, row->words, sizeof(row->words));
    if (is_link(note))
        kin__dump_say(dump, event, &words);
    else
        put_words(dump, event, &words);
    kin__text_init(&place, row->place, sizeof(row->place));
    kin__text_ns(&place, row->time);
}

static void fill_actor(const struct kin__dump *dump, size_t i, struct kin__actor_line *actor)
{
    struct kin__text name;
    memset(actor, 0, sizeof(*actor));
    kin__text_init(&name, actor->name, sizeof(actor->name));
    kin__text_str(&name, i ? dump->tasks[i].path : "time, I/O, others");
    if (i && *dump->tasks[i].name)
        kin__text_printf(&name, " (%s)", dump->tasks[i].name);
}

bool kin__dump_story(const struct kin__dump *dump, struct kin__story *story)
{
    size_t first = dump->event_count > ROWS_MAX ? dump->event_count - ROWS_MAX : 0;
    size_t actors = dump->task_count < KIN__NOTE_NOBODY ? dump->task_count : KIN__NOTE_NOBODY;
    *story = (struct kin__story){.dropped = dump->lost + first};
    if (!kin__room_fits(&story->actors_room, actors, sizeof(*story->actors)) ||
        !kin__room_fits(&story->rows_room, dump->event_count - first + 1, sizeof(*story->rows))) {
        kin__story_forget(story);
        return false;
    }
    story->actors = story->actors_room.base;
    story->rows = story->rows_room.base;
    story->actors_count = actors;
    for (size_t i = 0; i < actors; i++)
        fill_actor(dump, i, &story->actors[i]);
    for (size_t i = first; i < dump->event_count; i++) {
        const struct kin__dump_event *event = &dump->events[i];
        bool is_workers = event->kind == KIN__TAPE_SLEEP || event->kind == KIN__TAPE_AWAKE;
        if (is_workers || event->task >= actors || event->by >= actors)
            continue;
        struct kin__row *row = &story->rows[story->count++];
        fill_row(dump, i, row);
        story->actors[row->actor].is_seen = true;
    }
    return true;
}

/* ---- the trace ---- */

static void put_us(struct kin__text *out, uint64_t ns)
{
    kin__text_printf(out, "%llu.%03u", (unsigned long long)(ns / 1000), (unsigned)(ns % 1000));
}

static unsigned track_of(const struct kin__dump *dump, const struct kin__dump_event *event)
{
    return event->ring == KIN__DUMP_OUTSIDE ? dump->workers : event->ring;
}

static bool ends_slice(uint8_t kind)
{
    return kind == KIN__TAPE_PARK || kind == KIN__TAPE_YIELD || kind == KIN__TAPE_LEND ||
           kind == KIN__TAPE_END || kind == KIN__TAPE_AWAKE;
}

/* A slice of a task, or the sleep of a worker: from begin to end, NULL: as far as is known. */
static void put_slice(struct kin__text *out, const struct kin__dump *dump,
                      const struct kin__dump_event *begin, const struct kin__dump_event *end)
{
    uint64_t until = end ? end->ns : dump->events[dump->event_count - 1].ns;
    bool is_asleep = begin->kind == KIN__TAPE_SLEEP;
    char memory[256];
    struct kin__text words;
    kin__text_init(&words, memory, sizeof(memory));
    if (end && ends_slice(end->kind) && !is_asleep)
        put_words(dump, end, &words);
    kin__text_printf(out, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"ts\":", track_of(dump, begin));
    put_us(out, begin->ns);
    kin__text_str(out, ",\"dur\":");
    put_us(out, until - begin->ns);
    kin__text_str(out, ",\"name\":");
    kin__chrome_string(out, is_asleep ? "sleeps" : path_of(dump, begin->task));
    kin__text_str(out, ",\"args\":{\"then\":");
    kin__chrome_string(out, memory);
    kin__text_str(out, "}}");
}

static void put_instant(struct kin__text *out, const struct kin__dump *dump,
                        const struct kin__dump_event *event)
{
    char memory[512];
    struct kin__text words;
    kin__text_init(&words, memory, sizeof(memory));
    kin__dump_say(dump, event, &words);
    kin__text_printf(out, ",\n{\"ph\":\"i\",\"s\":\"t\",\"pid\":1,\"tid\":%u,\"ts\":",
                     track_of(dump, event));
    put_us(out, event->ns);
    kin__text_str(out, ",\"name\":");
    kin__chrome_string(out, memory);
    kin__text_str(out, "}");
}

static void put_tracks(struct kin__text *out, const struct kin__dump *dump)
{
    for (unsigned i = 0; i <= dump->workers; i++) {
        kin__text_printf(out,
                         ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%u,\"name\":\"thread_name\","
                         "\"args\":{\"name\":\"",
                         i);
        if (i < dump->workers)
            kin__text_printf(out, "worker %u\"}}", i);
        else
            kin__text_str(out, "others\"}}");
    }
}

bool kin__dump_trace(const struct kin__dump *dump, struct kin__text *out)
{
    struct kin__room room = {NULL, 0}; /* for each ring what has begun there, plus 1 */
    size_t rings = (size_t)KIN__DUMP_OUTSIDE + 1;
    if (!kin__room_fits(&room, rings, sizeof(uint32_t)))
        return false;
    uint32_t *begun = memset(room.base, 0, rings * sizeof(uint32_t));
    kin__text_str(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,"
                       "\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"kin\"}}");
    put_tracks(out, dump);
    for (size_t i = 0; i < dump->event_count; i++) {
        const struct kin__dump_event *event = &dump->events[i];
        uint32_t *since = &begun[event->ring];
        bool begins = event->kind == KIN__TAPE_RUN || event->kind == KIN__TAPE_SLEEP;
        if (*since && (begins || ends_slice(event->kind))) {
            put_slice(out, dump, &dump->events[*since - 1], event);
            *since = 0;
        }
        if (begins)
            *since = (uint32_t)i + 1;
        else if (!ends_slice(event->kind))
            put_instant(out, dump, event);
    }
    for (size_t ring = 0; ring < rings; ring++) {
        if (begun[ring])
            put_slice(out, dump, &dump->events[begun[ring] - 1], NULL);
    }
    kin__text_str(out, "\n]}\n");
    kin__room_release(&room);
    return true;
}
