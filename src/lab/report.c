/* SPDX-License-Identifier: MIT */
/*
 * The report of a failure: its reason in words, how to see it again, and who did what in which
 * order.
 *
 *     FAIL  lost_wake_bug: deadlock, root
 *     why:      root waits for a condition that nobody can signal
 *     found:    in run 3 after 1.25 ms, strategy random, seed 17; shrunk from 9 switches to 2
 *     replay:   ./lost_wake --replay lab/lost_wake_bug-1a2b3c4d.kinlab
 *
 *     step | root (mail)        | root/0 (post)      | where
 *        1 | spawn: root/0 ...  |                    | lost_wake.c:57
 *
 * One column for each task as long as a screen holds them; with more tasks a list that names the
 * task in each row. What does not fit a column goes on in the line below.
 */
#include "lab/report.h"

#include "lab/chrome.h"
#include "lab/picture.h"
#include "plat/source.h"
#include "lab/story.h"
#include "lab/world.h"
#include "plat/file.h"
#include "plat/plat.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define COLUMNS_MAX 4u      /* tasks that have a column of their own */
#define TABLE_BYTES 136u    /* of a line of the table */
#define STEP_DIGITS 4u /* that a number of a step has at least */
#define PLACE_BYTES 24u
#define FAILS_BYTES 30u /* a column as wide as this is wide enough for a failure */
#define ROWS_MAX (size_t)400 /* that the text shows: the last ones */
#define TEXT_BYTES (size_t)(1u << 20)
#define FILE_BYTES (size_t)(32u << 20)

struct kin__lab_wish kin__lab_wish;

/* ---- head ---- */

static void put_count(struct kin__text *out, uint64_t count)
{
    char digits[24];
    struct kin__text text;
    kin__text_init(&text, digits, sizeof(digits));
    kin__text_udec(&text, count);
    for (size_t i = 0; i < text.len; i++) {
        if (i > 0 && (text.len - i) % 3 == 0)
            kin__text_char(out, ',');
        kin__text_char(out, digits[i]);
    }
}

static const char *strategy_of(const struct kin__finding *finding)
{
    return kin__lab_wish.strategy ? kin__lab_wish.strategy : finding->strategy;
}

/* Whether the same decisions lead to the same run: else its schedule is of no use. */
static bool is_repeatable(const struct kin__engine_result *result)
{
    return !result->failure.oracle || strcmp(result->failure.oracle, "nondeterminism") != 0;
}

static void put_replay(struct kin__text *out, const struct kin__finding *finding,
                       const struct kin__engine_result *result,
                       const struct kin__report_files *files)
{
    const char *program = kin__lab_wish.program ? kin__lab_wish.program : "the program";
    const char *sweep = kin__lab_wish.sweep;
    if (!is_repeatable(result))
        kin__text_str(out, "replay:   no schedule repeats this: something decides that the lab "
                           "does not. Look for a\n          real clock, random numbers, an order "
                           "of addresses, memory that is not set, a static\n          variable "
                           "that the last run changed, a thread of somebody else\n");
    else if (files->schedule[0])
        kin__text_printf(out, "replay:   %s --replay %s\n", program, files->schedule);
    else if (result->failing_seed)
        kin__text_printf(out, "replay:   %s %s -s %s --seed %llu%s%s\n", program, finding->test,
                         strategy_of(finding), (unsigned long long)result->failing_seed,
                         sweep ? " --sweep " : "", sweep ? sweep : "");
    else if (strcmp(strategy_of(finding), "replay") != 0) /* a search finds it where it was */
        kin__text_printf(out, "replay:   %s %s -s %s%s%s\n", program, finding->test,
                         strategy_of(finding), sweep ? " --sweep " : "", sweep ? sweep : "");
    if (kin__lab_wish.unwritten[0])
        kin__text_printf(out, "files:    %s\n", kin__lab_wish.unwritten);
    if (files->picture[0])
        kin__text_printf(out, "picture:  %s\n", files->picture);
    if (files->trace[0])
        kin__text_printf(out, "trace:    %s (for ui.perfetto.dev or chrome://tracing)\n",
                         files->trace);
}

static void put_head(struct kin__text *out, const struct kin__finding *finding,
                     const struct kin__report_files *files)
{
    const struct kin__engine_result *result = kin__engine_result(finding->engine);
    const struct kin__engine_failure *failure = &result->failure;
    kin__text_printf(out, "FAIL  %s: %s%s%s\n", finding->test,
                     failure->oracle ? failure->oracle : "nothing", failure->where[0] ? ", " : "",
                     failure->where);
    kin__text_printf(out, "why:      %s\nfound:    in run ", failure->text);
    put_count(out, result->failing_run);
    if (finding->wall_ns > 0 && result->failing_run == result->runs) { /* it was not long ago */
        kin__text_str(out, " after ");
        kin__text_ns(out, finding->wall_ns);
    }
    kin__text_printf(out, ", strategy %s", strategy_of(finding));
    if (result->failing_seed)
        kin__text_printf(out, ", seed %llu", (unsigned long long)result->failing_seed);
    if (result->shrink_runs)
        kin__text_printf(out, "; shrunk from %u switches to %u in %llu run%s",
                         result->switches_before, result->switches,
                         (unsigned long long)result->shrink_runs,
                         result->shrink_runs == 1 ? "" : "s");
    if (result->shrink_runs && result->is_cut)
        kin__text_str(out, ", as far as there was time");
    kin__text_char(out, '\n');
    kin__lab_faults_tell(out);
    put_replay(out, finding, result, files);
    kin__text_char(out, '\n');
}

/* ---- table ---- */

struct table {
    const struct kin__story *story;
    uint16_t actors[COLUMNS_MAX];
    size_t ends[COLUMNS_MAX]; /* where the bar behind each column stands */
    unsigned count;           /* of columns; 0: a list of who and what */
    unsigned digits;          /* of the largest step */
};

static size_t longer(size_t a, const char *string)
{
    size_t b = strlen(string);
    return a > b ? a : b;
}

/* What a column would like to have. */
static size_t wish_of(const struct kin__story *story, unsigned actor, bool is_list)
{
    size_t most = is_list ? 0 : strlen(story->actors[actor].name);
    for (size_t i = 0; i < story->count; i++) {
        const struct kin__row *row = &story->rows[i];
        if ((is_list || row->actor == actor) &&
            (row->what != KIN__NOTE_FAIL || most < FAILS_BYTES))
            most = longer(most, row->words);
    }
    return most < 8 ? 8 : most;
}

/* Gives each column what it wishes for, or its share of what there is. */
static void share(struct table *table, size_t *wishes, unsigned count)
{
    size_t at = table->digits + 3u, room = TABLE_BYTES - at - PLACE_BYTES - 3 * count;
    size_t total = 0;
    for (unsigned i = 0; i < count; i++)
        total += wishes[i];
    while (total > room) { /* ends: the widest gives up a byte each time */
        unsigned widest = 0;
        for (unsigned i = 1; i < count; i++)
            widest = wishes[i] > wishes[widest] ? i : widest;
        wishes[widest]--;
        total--;
    }
    for (unsigned i = 0; i < count; i++)
        table->ends[i] = at += wishes[i] + (i == 0 ? 1 : 3);
}

static void plan(struct table *table, const struct kin__story *story)
{
    size_t wishes[COLUMNS_MAX] = {0}, names = 8;
    table->story = story;
    table->count = 0;
    table->digits = STEP_DIGITS;
    for (uint64_t left = story->rows[story->count - 1].step / 10000; left > 0; left /= 10)
        table->digits++;
    for (size_t i = 0; i < story->actors_count; i++) {
        if (!story->actors[i].is_seen)
            continue;
        names = longer(names, story->actors[i].name);
        if (table->count < COLUMNS_MAX) {
            table->actors[table->count] = (uint16_t)i;
            wishes[table->count] = wish_of(story, (unsigned)i, false);
        }
        table->count++;
    }
    if (table->count > COLUMNS_MAX) {
        table->count = 0; /* too many: a list */
        wishes[0] = names;
        wishes[1] = wish_of(story, 0, true);
    }
    share(table, wishes, table->count ? table->count : 2);
}

static size_t begin_of(const struct table *table, unsigned column)
{
    return column == 0 ? table->digits + 3u : table->ends[column - 1] + 2;
}

/* How much of words goes into width bytes, broken at a blank or behind a comma if there is one. */
static size_t fitting(const char *words, size_t width)
{
    size_t length = strlen(words);
    if (length <= width)
        return length;
    for (size_t i = width; i > width / 2; i--) {
        if (words[i] == ' ' || words[i - 1] == ',' || (words[i] == '-' && words[i + 1] == '>'))
            return i;
    }
    return width;
}

/* One line of the table: a piece of words in one column, a name in front of it in a list. */
static void put_piece(struct kin__text *out, const struct table *table, unsigned column,
                      const char *name, const char *piece, size_t length)
{
    unsigned count = table->count ? table->count : 2;
    for (unsigned i = 0; i < count; i++) {
        size_t width = table->ends[i] - begin_of(table, i) - 1;
        if (i == column)
            kin__text_mem(out, piece, length);
        else if (i == 0 && name)
            kin__text_mem(out, name, fitting(name, width));
        kin__text_pad(out, table->ends[i]);
        kin__text_str(out, "| ");
    }
}

static void put_header(struct kin__text *out, const struct table *table)
{
    kin__text_printf(out, "%*s | ", (int)table->digits, "step");
    for (unsigned i = 0; i < (table->count ? table->count : 2); i++) {
        const char *name = table->count ? table->story->actors[table->actors[i]].name
                           : i == 0     ? "who"
                                        : "what";
        kin__text_mem(out, name, fitting(name, table->ends[i] - begin_of(table, i) - 1));
        kin__text_pad(out, table->ends[i]);
        kin__text_str(out, "| ");
    }
    kin__text_str(out, "where\n");
}

/* Drops the blanks at the end of the line under way, and ends it. */
static void end_line(struct kin__text *out)
{
    size_t length = out->len;
    while (length > 0 && out->buf[length - 1] == ' ')
        length--;
    kin__text_cut(out, length);
    kin__text_char(out, '\n');
}

/* The column of a row's task; as many as there are: it has none. */
static unsigned column_of(const struct table *table, const struct kin__row *row)
{
    unsigned column = 0;
    if (!table->count)
        return row->actor < table->story->actors_count ? 1 : 2;
    while (column < table->count && table->actors[column] != row->actor)
        column++;
    return column;
}

static void put_row(struct kin__text *out, const struct table *table, const struct kin__row *row)
{
    unsigned column = column_of(table, row);
    const char *words = row->words;
    bool is_first = true;
    if (column == (table->count ? table->count : 2)) { /* the clock, the world */
        kin__text_printf(out, "%*llu | ---- %s%s ----%s\n", (int)table->digits,
                         (unsigned long long)row->step, row->is_failure ? "" : "the clock ", words,
                         row->is_failure ? "  <-- here" : "");
        return;
    }
    size_t width = table->ends[column] - begin_of(table, column) - 1;
    const char *name = table->count ? NULL : table->story->actors[row->actor].name;
    do { /* ends: passes words on */
        size_t length = fitting(words, width);
        if (is_first)
            kin__text_printf(out, "%*llu | ", (int)table->digits, (unsigned long long)row->step);
        else
            kin__text_printf(out, "%*s | ", (int)table->digits, "");
        put_piece(out, table, column, is_first ? name : NULL, words, length);
        if (is_first)
            kin__text_str(out, row->place);
        if (is_first && row->is_failure)
            kin__text_str(out, row->place[0] ? "  <-- here" : "<-- here");
        end_line(out);
        words += length;
        words += strspn(words, " ");
        is_first = false;
    } while (*words);
}

static void put_time(struct kin__text *out, const struct table *table, const struct kin__row *row,
                     int64_t start)
{
    kin__text_printf(out, "%*llu | ---- time passes: ", (int)table->digits,
                     (unsigned long long)row->step);
    kin__text_ns(out, row->time - start);
    kin__text_str(out, " since the start ----\n");
}

static void put_table(struct kin__text *out, const struct kin__story *story)
{
    struct table table;
    size_t first = story->count > ROWS_MAX ? story->count - ROWS_MAX : 0;
    if (story->count == 0)
        return;
    plan(&table, story);
    put_header(out, &table);
    if (first || story->dropped)
        kin__text_printf(out, "%*s | %llu earlier events are left out\n", (int)table.digits, "...",
                         (unsigned long long)(first + story->dropped));
    for (size_t i = first; i < story->count; i++) {
        if (story->rows[i].what == KIN__NOTE_TIME)
            put_time(out, &table, &story->rows[i], story->rows[0].time);
        else
            put_row(out, &table, &story->rows[i]);
    }
    kin__text_char(out, '\n');
}

void kin__report_text(struct kin__text *out, const struct kin__finding *finding,
                      const struct kin__story *of, const struct kin__report_files *files)
{
    const char *waits = kin__record_waits_text();
    put_head(out, finding, files);
    put_table(out, of);
    if (waits[0] && strcmp(waits, kin__engine_result(finding->engine)->failure.text) != 0)
        kin__text_printf(out, "%s%s\n", waits, waits[strlen(waits) - 1] == '\n' ? "" : "\n");
}

/* ---- files ---- */

/* A file that could not be written has no name; the first reason is told. */
static void settle(const struct kin__finding *finding, char *path, int status)
{
    struct kin__text text;
    if (status >= 0)
        return;
    if (!kin__lab_wish.unwritten[0]) {
        kin__text_init(&text, kin__lab_wish.unwritten, sizeof(kin__lab_wish.unwritten));
        kin__text_printf(&text, "%.200s cannot be written: %s",
                         path[0] ? path : finding->directory, kin_status_text(status));
    }
    path[0] = '\0';
}

static int write_file(const char *path, const struct kin__text *text)
{
    if (!path[0] || kin__text_is_full(text))
        return path[0] ? -EFBIG : -ENAMETOOLONG;
    int fd = kin__host_file_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666, true);
    if (fd < 0)
        return fd;
    int rc = kin__plat_write(fd, text->buf, text->len);
    return close(fd) < 0 && rc == 0 ? -EIO : rc;
}

/* <directory>/<test>-<first half of the schedule's hash>.<ending> */
static void name_file(char *path, size_t size, const struct kin__finding *finding,
                      const char *ending)
{
    struct kin__text text;
    uint32_t hash = (uint32_t)(kin__engine_result(finding->engine)->hash >> 32);
    kin__text_init(&text, path, size);
    kin__text_printf(&text, "%s/", finding->directory);
    for (const char *c = finding->test; *c; c++) /* a name of a test, not a path */
        kin__text_char(&text, *c == '/' || (unsigned char)*c < ' ' ? '_' : *c);
    kin__text_printf(&text, "-%08x.%s", hash, ending);
    if (kin__text_is_full(&text))
        path[0] = '\0';
}

static void save_schedule(const struct kin__finding *finding, struct kin__report_files *files)
{
    char *path = files->schedule;
    int made = kin__host_file_mkdir(finding->directory, 0777);
    if (made < 0 && made != -EEXIST) {
        settle(finding, path, made);
        return;
    }
    if (!is_repeatable(kin__engine_result(finding->engine)))
        return;
    name_file(path, sizeof(files->schedule), finding, "kinlab");
    settle(finding, path,
           path[0] ? kin__engine_save(finding->engine, path) : -ENAMETOOLONG);
}

static void draw_all(const struct kin__finding *finding, const struct kin__story *of,
                     struct kin__room *room, struct kin__report_files *files)
{
    struct kin__text text;
    size_t size = kin__room_fits(room, FILE_BYTES, 1) ? FILE_BYTES : 0;
    name_file(files->picture, sizeof(files->picture), finding, "svg");
    name_file(files->trace, sizeof(files->trace), finding, "trace.json");
    kin__text_init(&text, room->base, size);
    kin__picture_draw(&text, finding, of);
    settle(finding, files->picture, write_file(files->picture, &text));
    kin__text_init(&text, room->base, size);
    kin__chrome_write(&text, finding, of);
    settle(finding, files->trace, write_file(files->trace, &text));
}

static struct kin__story told; /* the last one */

void kin__report_take_story(struct kin__story *out)
{
    *out = told;
    told = (struct kin__story){0};
}

const char *kin__report_make(const struct kin__finding *finding, const char **file)
{
    static struct kin__room text_room;
    static struct kin__report_files files;
    struct kin__room file_room = {NULL, 0};
    struct kin__text text;
    memset(&files, 0, sizeof(files));
    kin__lab_wish.unwritten[0] = '\0';
    *file = NULL;
    if (finding->directory)
        save_schedule(finding, &files);
    if (!kin__room_fits(&text_room, TEXT_BYTES, 1) || !kin__story_tell(&told, finding->engine)) {
        kin__story_forget(&told);
        return "a failure was found, and there is no memory to tell it";
    }
    if (finding->directory && told.count > 0) /* a run that died may not have been noted */
        draw_all(finding, &told, &file_room, &files);
    kin__text_init(&text, text_room.base, TEXT_BYTES);
    kin__report_text(&text, finding, &told, &files);
    if (files.schedule[0])
        *file = files.schedule;
    kin__room_release(&file_room);
    return text.buf;
}

void kin__report_covers(struct kin__text *out, const struct kin__engine_result *result)
{
    kin__text_str(out, result->is_searched ? "every order of kin's calls and KIN_SHARED words"
                                           : "the schedules that were run");
    if (result->dice && result->is_searched)
        kin__text_printf(out, ", with the random numbers of seed %llu only (%s drew)",
                         (unsigned long long)result->seed, result->dice);
    else if (result->dice)
        kin__text_printf(out, ", with the random numbers that came (%s drew)", result->dice);
    if (result->is_bounded)
        kin__text_str(out, ", with no more preemptions than asked for");
    if (result->patience)
        kin__text_printf(out, ", as far as nobody who can run waits for %u steps of others",
                         result->patience);
    if (result->is_capped)
        kin__text_str(out, ", with as many faults as one run may have");
    kin__text_str(out, "; not: plain memory without KIN_SHARED, threads of the program's own");
}
