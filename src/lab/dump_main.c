/* SPDX-License-Identifier: MIT */
/*
 * kin record: what a program did that ran with KIN_RECORD, from the file that it left.
 *
 *     kin record crash.kinrecord                                   in words
 *     kin record crash.kinrecord --svg crash.svg --trace crash.json
 *     kin record crash.kinrecord --kinlab crash.kinlab --test name
 *
 * It stands here because it shares the lab's picture; the program kin has these files inside.
 */
#include "lab/dump.h"
#include "lab/picture.h"
#include "plat/file.h"
#include "plat/plat.h"

#include <kin/status.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define TEXT_BYTES_MAX ((size_t)4 << 30) /* of what is made of a record */
#define LAST 100u                        /* decisions that are told unless asked otherwise */

static const char usage[] =
    "usage: kin record file [options]\n"
    "\n"
    "  --last N       in words, but only the last N decisions; 100\n"
    "  --svg FILE     a picture of who did what\n"
    "  --trace FILE   a trace for ui.perfetto.dev or chrome://tracing, in real time\n"
    "  --kinlab FILE  a schedule for the lab, to be followed with --replay by a program whose\n"
    "                 test does the same as the one that was recorded\n"
    "  --test NAME    the name of that test\n"
    "\n"
    "A program is recorded when it runs with KIN_RECORD=file in its environment.\n";

struct wish {
    const char *file, *svg, *trace, *kinlab, *test;
    size_t last;
    bool is_help;
};

/* ---- what is asked for ---- */

static bool read_count(const char *word, size_t *out)
{
    size_t value = 0;
    for (; *word >= '0' && *word <= '9' && value < SIZE_MAX / 100; word++)
        value = value * 10 + (size_t)(*word - '0');
    *out = value;
    return *word == '\0';
}

/* Where the value of an option goes; NULL: it is none that has one. */
static const char **place_of(struct wish *wish, const char *word)
{
    return strcmp(word, "--svg") == 0      ? &wish->svg
           : strcmp(word, "--trace") == 0  ? &wish->trace
           : strcmp(word, "--kinlab") == 0 ? &wish->kinlab
           : strcmp(word, "--test") == 0   ? &wish->test
                                           : NULL;
}

static bool read_wish(int argc, char **argv, struct wish *wish)
{
    *wish = (struct wish){.last = LAST};
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        const char **to = place_of(wish, word);
        bool is_last = strcmp(word, "--last") == 0;
        wish->is_help = wish->is_help || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
        if (wish->is_help)
            return true;
        if ((to || is_last) && !value)
            return false;
        if (to)
            *to = argv[++i];
        else if (is_last ? !read_count(argv[++i], &wish->last) : word[0] == '-' || wish->file)
            return false;
        else if (!is_last)
            wish->file = word;
    }
    return wish->file && (!wish->kinlab || wish->test);
}

static int complain(const char *path, int status)
{
    char memory[512];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "kin record: %s: %s", path,
                     status == -EINVAL || status == -EBADMSG
                         ? "it is no record, or a broken one"
                         : kin_status_text(status));
    kin__text_end_line(&text);
    kin__plat_write(2, text.buf, text.len);
    return 2;
}

/* ---- files ---- */

static int write_file(const char *path, const struct kin__text *text)
{
    int fd = kin__file_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644, true);
    int64_t part = fd;
    for (size_t done = 0; part >= 0 && done < text->len; done += part > 0 ? (size_t)part : 0) {
        part = kin__file_pwrite(fd, text->buf + done, text->len - done, (int64_t)done, true);
        if (part == 0)
            part = -EIO;
    }
    if (fd < 0)
        return fd;
    int closed = kin__fd_close(fd);
    return part < 0 ? (int)part : closed;
}

/* ---- what a record becomes; false: no memory ---- */

typedef bool make_fn(const struct kin__dump *dump, const struct wish *wish, struct kin__text *out);

static bool make_schedule(const struct kin__dump *dump, const struct wish *wish,
                          struct kin__text *out)
{
    return kin__dump_schedule(dump, out, wish->test);
}

static bool make_trace(const struct kin__dump *dump, const struct wish *wish, struct kin__text *out)
{
    (void)wish;
    return kin__dump_trace(dump, out);
}

static bool make_picture(const struct kin__dump *dump, const struct wish *wish,
                         struct kin__text *out)
{
    struct kin__engine_failure failure = {.oracle = "record"};
    struct kin__finding finding = {.test = wish->file, .failure = &failure};
    struct kin__story story;
    if (!kin__dump_story(dump, &story))
        return false;
    kin__picture_draw(out, &finding, &story);
    kin__story_forget(&story);
    return true;
}

static bool make_words(const struct kin__dump *dump, const struct wish *wish, struct kin__text *out)
{
    size_t first = dump->event_count > wish->last ? dump->event_count - wish->last : 0;
    kin__text_printf(out, "%zu tasks, %zu decisions", dump->task_count - 1, dump->event_count);
    if (dump->lost)
        kin__text_printf(out, ", %llu earlier ones are lost", (unsigned long long)dump->lost);
    kin__text_str(out, dump->is_cut ? "; the file ends before the record does\n" : "\n");
    for (size_t i = first; i < dump->event_count; i++) {
        uint64_t ns = dump->events[i].ns;
        if (ns >= dump->whole && i > first && dump->events[i - 1].ns < dump->whole)
            kin__text_str(out, "---- from here on nothing is lost\n");
        kin__text_printf(out, "%12llu.%03u us  ", (unsigned long long)ns / 1000,
                         (unsigned)(ns % 1000));
        kin__dump_say(dump, &dump->events[i], out);
        kin__text_char(out, '\n');
    }
    return true;
}

/* Makes it in as much memory as it takes, and writes it; path "": to standard output, NULL: not
 * at all. 0, or what to exit with. */
static int save(const struct kin__dump *dump, const struct wish *wish, const char *path,
                make_fn *make)
{
    struct kin__room room = {NULL, 0};
    struct kin__text text;
    int status = 0;
    if (!path)
        return 0;
    do { /* ends: the room doubles until everything fits, or the largest is not enough */
        if (room.bytes > TEXT_BYTES_MAX)
            status = -EFBIG;
        else if (!kin__room_grow(&room, room.bytes + 1))
            status = -ENOMEM;
        kin__text_init(&text, room.base, room.bytes);
        if (status == 0 && !make(dump, wish, &text))
            status = -ENOMEM;
    } while (status == 0 && kin__text_is_full(&text));
    if (status == 0 && *path)
        status = write_file(path, &text);
    else if (status == 0)
        kin__plat_write(1, text.buf, text.len);
    kin__room_release(&room);
    return status < 0 ? complain(path, status) : 0;
}

int kin__dump_main(int argc, char **argv)
{
    struct wish wish;
    struct kin__dump dump = {0};
    struct kin__room room = {NULL, 0};
    size_t size = 0;
    bool is_good = read_wish(argc, argv, &wish);
    if (!is_good || wish.is_help) {
        kin__plat_write(is_good ? 1 : 2, usage, sizeof(usage) - 1);
        return is_good ? 0 : 2;
    }
    int status = kin__room_read(&room, wish.file, KIN__DUMP_BYTES_MAX, &size);
    if (status == 0)
        status = kin__dump_read(&dump, room.base, size);
    if (status < 0) {
        status = complain(wish.file, status);
    } else {
        bool is_told = !wish.svg && !wish.trace && !wish.kinlab;
        status = save(&dump, &wish, wish.svg, make_picture) |
                 save(&dump, &wish, wish.trace, make_trace) |
                 save(&dump, &wish, wish.kinlab, make_schedule) |
                 save(&dump, &wish, is_told ? "" : NULL, make_words);
    }
    kin__dump_release(&dump);
    kin__room_release(&room);
    return status;
}
