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
static enum kin__noted note_of(const struct kin__dump_event *event)
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

static bool is_link(enum kin__noted note)
{
    return note == KIN__NOTE_SPAWN || note == KIN__NOTE_WAKE || note == KIN__NOTE_CANCEL;
}

/* Actor 0 is everything that is no task: time, the outside, other threads. A row belongs to who
 * acts: the spawner, the waker. */
static void fill_row(const struct kin__dump *dump, size_t i, struct kin__row *row)
{
    const struct kin__dump_event *event = &dump->events[i];
    enum kin__noted note = note_of(event);
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

/* What goes on in a ring. */
struct track {
    uint64_t since;
    uint32_t task;   /* who runs since then; 0 with is_open: the worker sleeps, or nobody knows */
    uint32_t latest; /* the last event, plus 1 */
    bool is_open, is_asleep;
};

struct trace {
    const struct kin__dump *dump;
    struct kin__text *out;
    struct track *tracks;
    uint32_t *lenders; /* of tasks: who lent each its stack */
    struct kin__room track_room, lender_room;
};

static void put_us(struct kin__text *out, uint64_t ns)
{
    kin__text_printf(out, "%llu.%03u", (unsigned long long)(ns / 1000), (unsigned)(ns % 1000));
}

static unsigned number_of(const struct kin__dump *dump, uint16_t ring)
{
    return ring == KIN__DUMP_OUTSIDE ? dump->workers : ring;
}

static bool ends_slice(uint8_t kind)
{
    return kind == KIN__TAPE_PARK || kind == KIN__TAPE_YIELD || kind == KIN__TAPE_LEND ||
           kind == KIN__TAPE_END || kind == KIN__TAPE_AWAKE;
}

/* A span of a track with a name, and what comes after it. */
static void put_span(const struct trace *trace, uint16_t ring, const uint64_t span[2],
                     const char *const words[2])
{
    struct kin__text *out = trace->out;
    kin__text_printf(out, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"ts\":",
                     number_of(trace->dump, ring));
    put_us(out, span[0]);
    kin__text_str(out, ",\"dur\":");
    put_us(out, span[1] - span[0]);
    kin__text_str(out, ",\"name\":");
    kin__chrome_string(out, words[0]);
    kin__text_str(out, ",\"args\":{\"then\":");
    kin__chrome_string(out, words[1]);
    kin__text_str(out, "}}");
}

/* Ends what goes on in a ring: with an event of it; NULL: as far as is known. */
static void close_track(struct trace *trace, uint16_t ring, const struct kin__dump_event *end)
{
    const struct kin__dump *dump = trace->dump;
    struct track *track = &trace->tracks[ring];
    char memory[256];
    struct kin__text then;
    if (!track->is_open)
        return;
    const uint64_t span[2] = {track->since,
                              end ? end->ns : dump->events[dump->event_count - 1].ns};
    kin__text_init(&then, memory, sizeof(memory));
    if (end && ends_slice(end->kind) && !track->is_asleep)
        put_words(dump, end, &then);
    put_span(trace, ring, span,
             (const char *const[]){track->is_asleep ? "sleeps" : path_of(dump, track->task),
                                   memory});
    track->is_open = false;
}

static void open_track(struct trace *trace, const struct kin__dump_event *event, uint32_t task)
{
    struct track *track = &trace->tracks[event->ring];
    track->since = event->ns;
    track->task = task;
    track->is_open = true;
    track->is_asleep = event->kind == KIN__TAPE_SLEEP;
}

static void put_instant(const struct trace *trace, const struct kin__dump_event *event)
{
    char memory[512];
    struct kin__text words;
    kin__text_init(&words, memory, sizeof(memory));
    kin__dump_say(trace->dump, event, &words);
    kin__text_printf(trace->out, ",\n{\"ph\":\"i\",\"s\":\"t\",\"pid\":1,\"tid\":%u,\"ts\":",
                     number_of(trace->dump, event->ring));
    put_us(trace->out, event->ns);
    kin__text_str(trace->out, ",\"name\":");
    kin__chrome_string(trace->out, memory);
    kin__text_str(trace->out, "}");
}

/* One event. Who lends its stack goes on, without a note, at the end of the child on it. */
static void put_event(struct trace *trace, size_t i)
{
    const struct kin__dump_event *events = trace->dump->events, *event = &events[i];
    struct track *track = &trace->tracks[event->ring];
    uint32_t *lender = &trace->lenders[event->task];
    bool begins = event->kind == KIN__TAPE_RUN || event->kind == KIN__TAPE_SLEEP;
    if (begins || ends_slice(event->kind))
        close_track(trace, event->ring, event);
    else
        put_instant(trace, event);
    if (event->kind == KIN__TAPE_RUN) {
        bool is_lent = track->latest && events[track->latest - 1].kind == KIN__TAPE_LEND;
        *lender = is_lent ? events[track->latest - 1].task : 0;
    }
    if (begins)
        open_track(trace, event, event->task);
    else if (event->kind == KIN__TAPE_END && *lender)
        open_track(trace, event, *lender);
    track->latest = (uint32_t)i + 1;
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

/* What rings have lost is a span from the beginning on. */
static void put_losses(const struct trace *trace)
{
    const struct kin__dump *dump = trace->dump;
    for (size_t i = 0; i < dump->ring_count; i++) {
        const struct kin__dump_ring *ring = &dump->rings[i];
        char memory[64];
        struct kin__text lost;
        if (!ring->lost || ring->since == UINT64_MAX)
            continue;
        kin__text_init(&lost, memory, sizeof(memory));
        kin__text_printf(&lost, "%llu decisions are lost", (unsigned long long)ring->lost);
        put_span(trace, ring->ring, (const uint64_t[]){0, ring->since},
                 (const char *const[]){memory, ""});
    }
}

bool kin__dump_trace(const struct kin__dump *dump, struct kin__text *out)
{
    struct trace trace = {.dump = dump, .out = out};
    size_t rings = (size_t)KIN__DUMP_OUTSIDE + 1;
    bool is_good = kin__room_fits(&trace.track_room, rings, sizeof(*trace.tracks)) &&
                   kin__room_fits(&trace.lender_room, dump->task_count, sizeof(*trace.lenders));
    trace.tracks = trace.track_room.base; /* new rooms are all zero */
    trace.lenders = trace.lender_room.base;
    kin__text_str(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,"
                       "\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"kin\"}}");
    put_tracks(out, dump);
    put_losses(&trace);
    for (size_t i = 0; is_good && i < dump->event_count; i++)
        put_event(&trace, i);
    for (size_t i = 0; is_good && i < dump->ring_count; i++)
        close_track(&trace, dump->rings[i].ring, NULL);
    kin__text_str(out, "\n]}\n");
    kin__room_release(&trace.track_room);
    kin__room_release(&trace.lender_room);
    return is_good;
}
