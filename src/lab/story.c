/* SPDX-License-Identifier: MIT */
/*
 * Rows from events: what the world noted, said in words.
 *
 * A note carries the return addresses of whoever made it. Going outward, the last function of kin
 * that a program may call is the call, and the address behind it is the line of the program. A
 * function of the program that ends by calling kin may have left its frame to it; then the line is
 * unknown, and nothing is said rather than something wrong.
 */
#include "lab/story.h"

#include "base/text.h"
#include "plat/source.h"

#include <string.h>

/* kin_chan_send is a call of the program, kin__chan_send and chan_send are not. */
static bool is_public(const char *function)
{
    return strncmp(function, "kin_", 4) == 0 && function[4] != '_';
}

/* The names that macros hide. */
static const char *spoken(const char *function)
{
    if (strcmp(function, "kin_lab_shared_") == 0)
        return "KIN_SHARED";
    if (strcmp(function, "kin_nursery_leave_") == 0)
        return "leaves the nursery";
    return function + 4;
}

/* What is read or written is the whole statement: "int in = KIN_SHARED(m->in)". */
static bool quote_statement(const char *line, struct kin__row *row)
{
    struct kin__text text;
    if (!strstr(line, "KIN_SHARED"))
        return false;
    const char *comment = strstr(line, "/*");
    size_t length = comment ? (size_t)(comment - line) : strlen(line);
    while (length > 0 && (line[length - 1] == ' ' || line[length - 1] == ';'))
        length--;
    kin__text_init(&text, row->call, sizeof(row->call));
    kin__text_mem(&text, line, length);
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The next call of a function in a text that begins at or behind at; NULL: there is none. */
static const char *next_call(const char *text, const char *at, const char *function)
{
    const size_t length = strlen(function);
    while ((at = strstr(at, function))) { /* ends: one byte further each time */
        if (at[length] == '(' && (at == text || !is_letter(at[-1])))
            return at;
        at++;
    }
    return NULL;
}

/* How many bytes there are from a parenthesis to the one that closes it; 0: none does. */
static size_t span(const char *at)
{
    size_t depth = 0, i = 0;
    do { /* ends: at the end of the line */
        depth += at[i] == '(';
        depth -= at[i] == ')';
        i++;
    } while (depth > 0 && at[i]);
    return depth > 0 ? 0 : i;
}

/* Which call of a function in a line is the one at a column, from 0 on: the only one that there is;
 * else the one that begins there, or the only one in the macro that does, because to a compiler all
 * of a macro is where its name is. NULL: it is not here, or nobody knows which it is. */
static const char *find_in_line(const char *line, size_t column, const char *function)
{
    const char *first = next_call(line, line, function);
    if (!first || !next_call(line, first + 1, function))
        return first;
    if (column >= strlen(line))
        return NULL;
    const char *at = next_call(line, line + column, function);
    if (at == line + column)
        return at;
    size_t name = column;
    while (is_letter(line[name])) /* ends: at the end of the line */
        name++;
    const char *end = line + name + (line[name] == '(' ? span(line + name) : 0);
    if (!at || at >= end)
        return NULL;
    const char *other = next_call(line, at + 1, function);
    return other && other < end ? NULL : at;
}

/* Puts what the source says between the parentheses of the call behind its name, if the line is
 * there and has all of it: mutex_lock(&first->lock). */
static void quote(const struct kin__place *place, const char *function, struct kin__row *row)
{
    char line[256];
    struct kin__text text;
    const size_t blanks = kin__source_line(place, line, sizeof(line));
    if (strcmp(function, "kin_lab_shared_") == 0 && quote_statement(line, row))
        return;
    const char *at = find_in_line(line, place->column - blanks - 1u, function);
    if (!at)
        return; /* it is not here: a macro, or a line that goes on */
    at += strlen(function);
    size_t i = span(at);
    if (!i)
        return;
    if (i > 12 && strncmp(at + i - 12, ", KIN_NEVER)", 12) == 0)
        i -= 12; /* goes without saying */
    else
        i--;
    kin__text_init(&text, row->call, sizeof(row->call));
    kin__text_str(&text, spoken(function));
    kin__text_mem(&text, at, i);
    kin__text_char(&text, ')');
}

static const char *path_of(const struct kin__engine *engine, unsigned actor)
{
    const char *path = engine && actor != KIN__NOTE_NOBODY ? kin__engine_path(engine, actor) : NULL;
    return path ? path : "somebody";
}

/* The clock of the world acts on the stack of whoever ran last. */
static bool is_clock(const struct kin__engine *engine, const struct kin__event *event)
{
    return event->actor == KIN__NOTE_NOBODY ||
           (event->actor == 0 && strcmp(path_of(engine, 0), "clock") == 0);
}

static void find_call(const struct kin__engine *engine, const struct kin__event *event,
                      struct kin__row *row, char *function, size_t size)
{
    struct kin__place at, next;
    struct kin__text text;
    unsigned i = 0;
    if (event->what == KIN__NOTE_END || event->what == KIN__NOTE_TIME || is_clock(engine, event))
        return; /* they are on somebody else's stack, or on none that matters */
    while (i < event->frames_count &&
           (!kin__source_function(event->frames[i], &at) || !is_public(at.function)))
        i++;
    while (i + 1 < event->frames_count && kin__source_function(event->frames[i + 1], &next) &&
           is_public(next.function)) {
        at = next;
        i++;
    }
    if (i >= event->frames_count)
        return;
    kin__text_init(&text, row->call, sizeof(row->call));
    kin__text_str(&text, spoken(at.function));
    if (i + 1 >= event->frames_count || !kin__source_find(event->frames[i + 1], &next) ||
        next.is_ours || strncmp(next.function, "kin__", 5) == 0)
        return;
    kin__text_init(&text, function, size);
    kin__text_str(&text, next.function);
    quote(&next, at.function, row);
    kin__text_init(&text, row->place, sizeof(row->place));
    if (next.file[0])
        kin__text_printf(&text, "%s:%u", next.file, next.line);
    else
        kin__text_str(&text, next.function);
}

/* Whether a call names what it waits for: mutex_lock waits for a mutex. */
static bool says_already(const char *call, const char *what)
{
    char word[32];
    struct kin__text text;
    kin__text_init(&text, word, sizeof(word));
    kin__text_mem(&text, what, strcspn(what, ": "));
    return !word[0] || strstr(call, word) != NULL;
}

/* What comes of it, without the call. */
static void say(struct kin__text *text, const struct kin__engine *engine,
                const struct kin__event *event, const char *call)
{
    switch ((enum kin__noted)event->what) {
    case KIN__NOTE_CALL:
        break;
    case KIN__NOTE_SPAWN:
        kin__text_printf(text, "%s begins", path_of(engine, event->other));
        break;
    case KIN__NOTE_PARK:
        kin__text_str(text, "waits");
        if (!says_already(call, event->text))
            kin__text_printf(text, ", %s", event->text);
        if (event->path[0])
            kin__text_printf(text, " %s", event->path);
        break;
    case KIN__NOTE_WAKE:
        kin__text_printf(text, "wakes %s", path_of(engine, event->other));
        break;
    case KIN__NOTE_CANCEL:
        kin__text_printf(text, "cancels %s", path_of(engine, event->other));
        break;
    case KIN__NOTE_TIME:
        kin__text_str(text, "time passes");
        break;
    case KIN__NOTE_FAULT:
        kin__text_printf(text, "FAULT %s", event->text);
        break;
    case KIN__NOTE_END:
        kin__text_printf(text, "ends%s%s", event->text[0] ? ": " : "", event->text);
        break;
    case KIN__NOTE_FAIL:
        kin__text_printf(text, "FAILS: %s", event->text);
        break;
    }
}

/* What comes of a call in its own step belongs to the call's row. */
static bool continues(const struct kin__row *before, const struct kin__event *event,
                      const struct kin__row *row)
{
    return before->actor == event->actor && before->step == event->step && before->call[0] &&
           strcmp(before->call, row->call) == 0 && strcmp(before->place, row->place) == 0 &&
           event->what != KIN__NOTE_CALL && event->what != KIN__NOTE_TIME &&
           event->what != KIN__NOTE_FAIL;
}

static void add_words(struct kin__row *row, const struct kin__engine *engine,
                      const struct kin__event *event, bool is_first)
{
    struct kin__text text;
    size_t length = strlen(row->words);
    kin__text_init(&text, row->words + length, sizeof(row->words) - length);
    bool has_call = row->call[0] && event->what != KIN__NOTE_FAIL;
    if (is_first && has_call)
        kin__text_str(&text, row->call);
    if (event->what != KIN__NOTE_CALL && has_call)
        kin__text_str(&text, is_first || strchr(row->words, ':') == NULL ? ": " : ", ");
    say(&text, engine, event, row->call);
    row->what = event->what;
    row->is_failure = event->what == KIN__NOTE_FAIL;
    if (event->other != KIN__NOTE_NOBODY && event->other != event->actor &&
        row->links_count < KIN__ROW_LINKS) {
        row->links[row->links_count].other = event->other;
        row->links[row->links_count++].what = event->what;
    }
}

static void name_actor(struct kin__actor_line *line, const char *path, const char *name)
{
    struct kin__text text;
    kin__text_init(&text, line->name, sizeof(line->name));
    kin__text_str(&text, path);
    if (name[0])
        kin__text_printf(&text, " (%s)", name);
}

/* Names by which people know a task: the one it was spawned with, or the function that calls. */
static void see_actors(struct kin__story *story, const struct kin__engine *engine,
                       const struct kin__event *event, const char *function)
{
    if (event->what == KIN__NOTE_SPAWN && event->other < story->actors_count && event->text[0])
        name_actor(&story->actors[event->other], path_of(engine, event->other), event->text);
    if (event->actor >= story->actors_count)
        return;
    struct kin__actor_line *line = &story->actors[event->actor];
    line->is_seen = !is_clock(engine, event);
    if (!line->name[0] || (function[0] && !strchr(line->name, '(')))
        name_actor(line, path_of(engine, event->actor), function);
}

static size_t actors_of(void)
{
    size_t count = 0;
    for (size_t i = 0; i < kin__record_count(); i++) {
        const struct kin__event *event = kin__record_get(i);
        if (event->actor != KIN__NOTE_NOBODY && event->actor >= count)
            count = event->actor + 1u;
        if (event->other != KIN__NOTE_NOBODY && event->other >= count)
            count = event->other + 1u;
    }
    return count;
}

bool kin__story_tell(struct kin__story *story, const struct kin__engine *engine)
{
    size_t events = kin__record_count(), actors = actors_of();
    if (!kin__room_fits(&story->rows_room, events + 1, sizeof(struct kin__row)) ||
        !kin__room_fits(&story->actors_room, actors + 1, sizeof(struct kin__actor_line)))
        return false;
    story->rows = story->rows_room.base;
    story->actors = story->actors_room.base;
    story->actors_count = actors;
    story->dropped = kin__record_dropped();
    story->count = 0;
    memset(story->actors, 0, (actors + 1) * sizeof(*story->actors));
    for (size_t i = 0; i < events; i++) {
        const struct kin__event *event = kin__record_get(i);
        struct kin__row *row = &story->rows[story->count];
        char function[64] = "";
        memset(row, 0, sizeof(*row));
        row->step = event->step;
        row->time = event->time;
        row->actor = event->actor;
        find_call(engine, event, row, function, sizeof(function));
        see_actors(story, engine, event, function);
        if (event->what == KIN__NOTE_CALL && !row->call[0])
            continue; /* nothing is known of it */
        if (story->count > 0 && continues(row - 1, event, row)) {
            add_words(row - 1, engine, event, false);
            continue;
        }
        add_words(row, engine, event, true);
        story->count++;
    }
    for (size_t i = 0; i < actors; i++) {
        if (!story->actors[i].name[0])
            name_actor(&story->actors[i], path_of(engine, (unsigned)i), "");
    }
    return true;
}
