/* SPDX-License-Identifier: MIT */
/*
 * A failed run as a picture that any browser shows.
 *
 *        step   root                root/0 (post)
 *          1     #  spawn ------------>:
 *          2     #  mutex_lock         :
 *          4     |  waits, mutex       #  mutex_unlock
 *                |                     #  cond_signal
 *          5     X  FAILS ...
 *
 * A lane for each task with its state as a colour, time downward so that words can be read beside
 * the lanes; arrows for spawns, wakes and cancellations; a dashed line where virtual time passes; a
 * red mark where the run failed. Only shapes and text: no script, nothing loaded from elsewhere.
 */
#include "lab/picture.h"

#include <string.h>

enum { LEFT = 48, TOP = 96, ROW = 38, BAR = 12, MARGIN = 20, BYTE = 8, LINE = 16 };

#define ROWS_MAX (size_t)500 /* the last ones; browsers have limits too */
#define LANES_MAX 24u

enum state { NOT_YET, READY, RUNNING, WAITING, OVER };

/* Colours that people who see few of them can tell apart. */
static const char *const fill[] = {
    [READY] = "#cfe3f5", [RUNNING] = "#1b6fb5", [WAITING] = "#f2c14e", [OVER] = "#dddddd"};

struct drawing {
    struct kin__text *out;
    const struct kin__story *story;
    size_t first;              /* row that is drawn first */
    uint16_t lanes[LANES_MAX]; /* actors */
    unsigned count;
    unsigned lane_width;
    unsigned width, bottom;
};

static void put_xml(struct kin__text *out, const char *string, size_t max)
{
    for (size_t i = 0; string[i] && i < max; i++) {
        unsigned char c = (unsigned char)string[i];
        if (c == '&')
            kin__text_str(out, "&amp;");
        else if (c == '<')
            kin__text_str(out, "&lt;");
        else if (c == '>')
            kin__text_str(out, "&gt;");
        else if (c == '"')
            kin__text_str(out, "&quot;");
        else
            kin__text_char(out, c < ' ' || c >= 0x7f ? '?' : (char)c);
    }
}

static void put_text(const struct drawing *d, unsigned x, unsigned y, const char *class,
                     const char *string, size_t max)
{
    kin__text_printf(d->out, "<text x=\"%u\" y=\"%u\" class=\"%s\">", x, y, class);
    put_xml(d->out, string, max);
    kin__text_str(d->out, strlen(string) > max ? "..</text>\n" : "</text>\n");
}

static unsigned lane_x(const struct drawing *d, unsigned lane)
{
    return LEFT + lane * d->lane_width + 10;
}

static unsigned row_y(const struct drawing *d, size_t row)
{
    return TOP + (unsigned)(row - d->first) * ROW;
}

/* Which lane an actor has; count when it has none. */
static unsigned lane_of(const struct drawing *d, unsigned actor)
{
    unsigned lane = 0;
    while (lane < d->count && d->lanes[lane] != actor)
        lane++;
    return lane;
}

/* ---- lanes ---- */

/* The state of an actor behind a row. */
static enum state after(const struct kin__row *row, unsigned actor, enum state state)
{
    if (row->actor == actor)
        state = row->what == KIN__NOTE_PARK ? WAITING : row->what == KIN__NOTE_END ? OVER : READY;
    for (unsigned i = 0; i < row->links_count; i++) {
        if (row->links[i].other == actor && (state == NOT_YET || state == WAITING))
            state = READY;
    }
    return state;
}

static void put_bar(const struct drawing *d, unsigned lane, size_t from, size_t to,
                    enum state state)
{
    if (from < to && state != NOT_YET)
        kin__text_printf(d->out,
                         "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" fill=\"%s\"/>\n",
                         lane_x(d, lane) - BAR / 2, row_y(d, from), state == OVER ? 2u : BAR,
                         (unsigned)(to - from) * ROW, fill[state]);
}

static void put_lane(const struct drawing *d, unsigned lane)
{
    unsigned actor = d->lanes[lane];
    enum state state = actor == 0 ? READY : NOT_YET;
    size_t from = d->first;
    for (size_t i = 0; i < d->story->count; i++) {
        const struct kin__row *row = &d->story->rows[i];
        enum state next = after(row, actor, state);
        bool runs = row->actor == actor;
        if (i >= d->first && (runs || next != state)) {
            put_bar(d, lane, from, i, state);
            put_bar(d, lane, i, i + 1, runs ? RUNNING : state);
            from = i + 1;
        }
        state = next;
    }
    put_bar(d, lane, from, d->story->count, state);
}

/* ---- rows ---- */

static void put_arrow(const struct drawing *d, size_t row, unsigned from, unsigned i)
{
    const struct kin__row *of = &d->story->rows[row];
    unsigned to = lane_of(d, of->links[i].other);
    if (to == d->count || to == from)
        return;
    const char *class = of->links[i].what == KIN__NOTE_SPAWN    ? "spawn"
                        : of->links[i].what == KIN__NOTE_CANCEL ? "cancel"
                                                                : "wake";
    unsigned x = lane_x(d, from), end = lane_x(d, to);
    unsigned y = row_y(d, row) + ROW - 4;
    kin__text_printf(d->out,
                     "<path d=\"M%u %uH%u\" class=\"%s\" marker-end=\"url(#%s-end)\"/>\n",
                     to > from ? x + BAR / 2 : x - BAR / 2, y,
                     to > from ? end - BAR / 2 - 2 : end + BAR / 2 + 2, class, class);
}

/* Somebody is woken by the clock: an arrow from the side. */
static void put_clock(const struct drawing *d, size_t row, unsigned i)
{
    unsigned to = lane_of(d, d->story->rows[row].links[i].other);
    unsigned y = row_y(d, row) + ROW - 4;
    if (to == d->count)
        return;
    kin__text_printf(d->out,
                     "<path d=\"M%u %uH%u\" class=\"wake\" marker-end=\"url(#wake-end)\"/>\n", 4, y,
                     lane_x(d, to) - BAR / 2 - 2);
    put_text(d, 4, y - 5, "small", "clock", 8);
}

static void put_time(const struct drawing *d, size_t at)
{
    char memory[64];
    struct kin__text text;
    unsigned y = row_y(d, at) + ROW / 2;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_ns(&text, d->story->rows[at].time - d->story->rows[0].time);
    kin__text_str(&text, " since the start");
    kin__text_printf(d->out, "<path d=\"M%u %uH%u\" class=\"time\"/>\n", MARGIN, y,
                     d->width - MARGIN);
    put_text(d, LEFT + 2 * BAR, y - 4, "small", memory, sizeof(memory));
}

/* Words beside a lane: in one line, with the place below, or in two. */
static void put_words(const struct drawing *d, unsigned x, unsigned y, const struct kin__row *row)
{
    size_t bytes = (d->lane_width - 2 * BAR) / BYTE, length = strlen(row->words);
    const char *class = row->is_failure ? "red" : "word";
    char line[64];
    struct kin__text text;
    if (length <= bytes) {
        put_text(d, x, y, class, row->words, bytes);
        put_text(d, x, y + LINE - 3, "small", row->place, bytes + bytes / 4);
        return;
    }
    size_t cut = bytes;
    while (cut > bytes / 2 && row->words[cut] != ' ')
        cut--;
    if (row->words[cut] != ' ')
        cut = bytes;
    kin__text_init(&text, line, sizeof(line));
    kin__text_mem(&text, row->words, cut);
    put_text(d, x, y, class, line, sizeof(line));
    put_text(d, x, y + LINE - 2, class, row->words + cut + (row->words[cut] == ' '), bytes - 2);
}

static void put_row(const struct drawing *d, size_t at)
{
    const struct kin__row *row = &d->story->rows[at];
    unsigned lane = lane_of(d, row->actor), y = row_y(d, at);
    char step[24];
    struct kin__text text;
    if (row->what == KIN__NOTE_TIME)
        put_time(d, at);
    if (lane == d->count && !row->is_failure) {
        for (unsigned i = 0; i < row->links_count; i++)
            put_clock(d, at, i);
        return;
    }
    kin__text_init(&text, step, sizeof(step));
    kin__text_udec(&text, row->step);
    put_text(d, 4, y + LINE, "small", step, sizeof(step));
    unsigned x = lane_x(d, lane == d->count ? 0 : lane);
    if (row->is_failure)
        kin__text_printf(d->out, "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" "
                                 "class=\"fail\"/>\n<circle cx=\"%u\" cy=\"%u\" r=\"9\" "
                                 "fill=\"#c0182b\"/>\n",
                         x + BAR, y + 1, d->lane_width - 2 * BAR, ROW - 3, x, y + ROW / 2);
    kin__text_str(d->out, "<g><title>");
    put_xml(d->out, row->words, sizeof(row->words));
    kin__text_char(d->out, ' ');
    put_xml(d->out, row->place, sizeof(row->place));
    kin__text_str(d->out, "</title>\n");
    put_words(d, x + BAR + 2, y + LINE - 2, row);
    kin__text_str(d->out, "</g>\n");
    for (unsigned i = 0; i < row->links_count && lane < d->count; i++)
        put_arrow(d, at, lane, i);
}

/* ---- around ---- */

static const char style[] =
    "<style>text{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px;fill:#222}"
    ".small{font-size:10px;fill:#777}.title{font-size:15px;font-weight:bold}"
    ".red{fill:#c0182b;font-weight:bold}.name{font-weight:bold}"
    ".spawn,.wake,.cancel{fill:none;stroke-width:1.5}.spawn{stroke:#3a8f3a}"
    ".wake{stroke:#1b6fb5}.cancel{stroke:#d97706;stroke-dasharray:5 3}"
    ".time{stroke:#999;stroke-dasharray:6 4;fill:none}"
    ".fail{fill:#fdecee;stroke:#c0182b}</style>\n";

static void put_marker(struct kin__text *out, const char *name, const char *colour)
{
    kin__text_printf(out,
                     "<marker id=\"%s-end\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" "
                     "markerWidth=\"7\" markerHeight=\"7\" orient=\"auto-start-reverse\">"
                     "<path d=\"M0 0L8 4L0 8z\" fill=\"%s\"/></marker>\n",
                     name, colour);
}

static void put_legend(const struct drawing *d)
{
    static const struct {
        enum state state;
        const char *word;
    } entries[] = {{RUNNING, "runs"}, {READY, "could run"}, {WAITING, "waits"}, {OVER, "is over"}};
    unsigned x = LEFT;
    for (unsigned i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        kin__text_printf(d->out,
                         "<rect x=\"%u\" y=\"46\" width=\"%u\" height=\"10\" fill=\"%s\"/>\n", x,
                         BAR, fill[entries[i].state]);
        put_text(d, x + BAR + 4, 55, "small", entries[i].word, 16);
        x += 90;
    }
}

static void put_head(const struct drawing *d, const struct kin__finding *finding)
{
    const struct kin__engine_failure *failure = finding->failure;
    char memory[256];
    struct kin__text text;
    unsigned height = d->bottom + 2 * MARGIN;
    kin__text_printf(d->out,
                     "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
                     "viewBox=\"0 0 %u %u\">\n",
                     d->width, height, d->width, height);
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "%s: %s", finding->test, failure->oracle ? failure->oracle : "nothing");
    kin__text_str(d->out, "<title>");
    put_xml(d->out, memory, sizeof(memory));
    kin__text_str(d->out, "</title>\n");
    kin__text_str(d->out, style);
    kin__text_str(d->out, "<defs>\n");
    put_marker(d->out, "spawn", "#3a8f3a");
    put_marker(d->out, "wake", "#1b6fb5");
    put_marker(d->out, "cancel", "#d97706");
    kin__text_printf(d->out,
                     "</defs>\n<rect width=\"%u\" height=\"%u\" fill=\"#ffffff\"/>\n", d->width,
                     height);
    put_text(d, MARGIN, 28, "title", memory, sizeof(memory));
    put_legend(d);
    for (unsigned i = 0; i < d->count; i++)
        put_text(d, lane_x(d, i) - BAR / 2, TOP - 12, "name",
                 d->story->actors[d->lanes[i]].name, d->lane_width / BYTE - 2);
}

/* Why, below the lanes, in lines that fit. */
static void put_why(const struct drawing *d, const struct kin__finding *finding)
{
    const char *why = finding->failure->text;
    size_t bytes = (d->width - 2 * MARGIN) / BYTE;
    unsigned y = d->bottom - 4 * LINE;
    for (unsigned i = 0; i < 4 && *why; i++, y += LINE) {
        size_t length = strlen(why) < bytes ? strlen(why) : bytes;
        char line[512];
        struct kin__text text;
        kin__text_init(&text, line, sizeof(line));
        kin__text_mem(&text, why, length);
        put_text(d, MARGIN, y, "red", line, sizeof(line));
        why += length;
    }
}

static void plan(struct drawing *d)
{
    const struct kin__story *story = d->story;
    d->first = story->count > ROWS_MAX ? story->count - ROWS_MAX : 0;
    d->count = 0;
    for (size_t i = 0; i < story->actors_count && d->count < LANES_MAX; i++) {
        if (story->actors[i].is_seen)
            d->lanes[d->count++] = (uint16_t)i;
    }
    d->lane_width = d->count <= 3 ? 320 : d->count <= 6 ? 240 : 170;
    d->width = LEFT + (d->count ? d->count : 1) * d->lane_width + MARGIN;
    if (d->width < 480)
        d->width = 480;
    d->bottom = TOP + (unsigned)(story->count - d->first) * ROW + 5 * LINE;
}

void kin__picture_draw(struct kin__text *out, const struct kin__finding *finding,
                       const struct kin__story *story)
{
    struct drawing d = {.out = out, .story = story};
    plan(&d);
    put_head(&d, finding);
    if (d.first || story->dropped)
        put_text(&d, LEFT, TOP - 28, "small", "earlier events are left out", 64);
    for (unsigned i = 0; i < d.count; i++)
        put_lane(&d, i);
    for (size_t i = d.first; i < story->count; i++)
        put_row(&d, i);
    put_why(&d, finding);
    kin__text_str(out, "</svg>\n");
}
