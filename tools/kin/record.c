/* SPDX-License-Identifier: MIT */
/*
 * kin record: what a program did that ran with KIN_RECORD, from the file that it left.
 *
 *     kin record crash.kinrecord                                   in words
 *     kin record crash.kinrecord --svg crash.svg --trace crash.json
 *     kin record crash.kinrecord --kinlab crash.kinlab --test name
 */
#include "tool.h"

#include "lab/dump.h"
#include "lab/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
};

/* 0, or what to exit with; -1: only help was wanted. */
static int read_wish(int argc, char **argv, struct wish *wish)
{
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        const char **to = strcmp(word, "--svg") == 0      ? &wish->svg
                          : strcmp(word, "--trace") == 0  ? &wish->trace
                          : strcmp(word, "--kinlab") == 0 ? &wish->kinlab
                          : strcmp(word, "--test") == 0   ? &wish->test
                                                          : NULL;
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
            return -1;
        if (to && value)
            *to = argv[++i];
        else if (strcmp(word, "--last") == 0 && value)
            wish->last = (size_t)strtoul(argv[++i], NULL, 10);
        else if (word[0] != '-' && !wish->file)
            wish->file = word;
        else
            return 2;
    }
    return wish->file && (!wish->kinlab || wish->test) ? 0 : 2;
}

/* The whole file, with a NUL behind it; NULL: it cannot be read. */
static char *load(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    *size = 0;
    for (size_t room = (size_t)1 << 16; file && *size < KIN__DUMP_BYTES_MAX; room *= 2) {
        char *larger = realloc(text, room + 1);
        if (!larger)
            break;
        text = larger;
        *size += fread(text + *size, 1, room - *size, file);
        if (*size < room)
            break;
    }
    if (!file || ferror(file)) {
        perror(path);
        free(text);
        text = NULL;
    }
    if (file)
        fclose(file);
    if (text)
        text[*size] = '\0';
    return text;
}

/* One of the things that a record can be written as. False: no memory. */
typedef bool write_fn(const struct kin__dump *dump, const struct wish *wish, struct kin__text *out);

static bool write_schedule(const struct kin__dump *dump, const struct wish *wish,
                           struct kin__text *out)
{
    return kin__dump_schedule(dump, out, wish->test);
}

static bool write_trace(const struct kin__dump *dump, const struct wish *wish,
                        struct kin__text *out)
{
    (void)wish;
    return kin__dump_trace(dump, out);
}

static bool write_picture(const struct kin__dump *dump, const struct wish *wish,
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

/* Writes it to a file, in as much memory as it takes. 0, or what to exit with. */
static int save(const struct kin__dump *dump, const struct wish *wish, const char *path,
                write_fn *write)
{
    struct kin__text text;
    char *memory = NULL;
    if (!path)
        return 0;
    for (size_t size = (size_t)1 << 16; size <= (size_t)1 << 32; size *= 4) {
        free(memory);
        memory = malloc(size);
        if (!memory)
            break;
        kin__text_init(&text, memory, size);
        if (!write(dump, wish, &text) || kin__text_is_full(&text))
            continue;
        FILE *file = fopen(path, "wb");
        bool is_good = file && fwrite(memory, 1, text.len, file) == text.len;
        is_good = file && fclose(file) == 0 && is_good;
        if (!is_good)
            perror(path);
        free(memory);
        return is_good ? 0 : 2;
    }
    free(memory);
    fprintf(stderr, "kin record: %s: it would be too large\n", path);
    return 2;
}

static void tell(const struct kin__dump *dump, const struct wish *wish)
{
    size_t first = dump->event_count > wish->last ? dump->event_count - wish->last : 0;
    printf("%zu tasks, %zu decisions", dump->task_count - 1, dump->event_count);
    if (dump->lost)
        printf(", %llu earlier ones are lost", (unsigned long long)dump->lost);
    putchar('\n');
    for (size_t i = first; i < dump->event_count; i++) {
        char memory[2048];
        struct kin__text text;
        kin__text_init(&text, memory, sizeof(memory));
        kin__text_printf(&text, "%12llu.%03u us  ",
                         (unsigned long long)dump->events[i].ns / 1000,
                         (unsigned)(dump->events[i].ns % 1000));
        kin__dump_say(dump, &dump->events[i], &text);
        puts(memory);
    }
}

int record_main(int argc, char **argv)
{
    struct wish wish = {.last = 100};
    struct kin__dump dump = {0};
    size_t size;
    int status = read_wish(argc, argv, &wish);
    if (status) {
        fputs(usage, status < 0 ? stdout : stderr);
        return status < 0 ? 0 : status;
    }
    char *text = load(wish.file, &size);
    if (!text)
        return 2;
    int rc = kin__dump_read(&dump, text, size);
    if (rc < 0) {
        fprintf(stderr, "kin record: %s: it is no record that can be read (%s)\n", wish.file,
                kin_status_name(rc));
        status = 2;
    } else {
        status |= save(&dump, &wish, wish.svg, write_picture);
        status |= save(&dump, &wish, wish.trace, write_trace);
        status |= save(&dump, &wish, wish.kinlab, write_schedule);
        if (!wish.svg && !wish.trace && !wish.kinlab)
            tell(&dump, &wish);
    }
    kin__dump_release(&dump);
    free(text);
    return status;
}
