/* SPDX-License-Identifier: MIT */
/*
 * Schedules from files: --replay, --shrink, --regress.
 *
 * A file names its test and the faults it was found with; the rest is the engine's. A regression
 * file is the schedule of a bug that was fixed: it must pass now, unless it has a line "known" with
 * the name of an issue: then it is of a bug that is still there, and must fail. When the program
 * has changed so much that the file no longer fits, it is followed as far as it goes, and then
 * schedules around it are explored for a moment (strategy_near.c), so that a file never dies in
 * silence.
 */
#include "lab/main.h"

#include "lab/explain.h"
#include "lab/room.h"
#include "plat/file.h"
#include "plat/plat.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define HEAD_BYTES 4096u                      /* of a file, in which its test is named */
#define NEAR_NS INT64_C(200000000)            /* of exploring where a file no longer fits */
#define FILES_MAX (size_t)4096
#define PATH_BYTES 512u

/* ---- what a file says of itself ---- */

struct head {
    char test[128];
    uint32_t faults;
    bool is_known;  /* a bug that is still there */
    bool is_record; /* made of a record of production: lenient, and only near what was */
};

/* NULL, or why it cannot be read. */
static const char *read_head(const char *path, struct head *head)
{
    char bytes[HEAD_BYTES + 1], word[128];
    int fd = kin__host_file_open(path, O_RDONLY, 0, true);
    int64_t size = fd < 0 ? fd : kin__host_file_pread(fd, bytes, HEAD_BYTES, 0, true);
    if (fd >= 0)
        close(fd);
    memset(head, 0, sizeof(*head));
    if (size < 0)
        return kin_status_text((int)size);
    bytes[size] = '\0';
    const char *misread = kin__engine_misread(bytes, (size_t)size);
    if (misread)
        return misread;
    head->is_known = kin__engine_note(bytes, "known", word, sizeof(word));
    head->is_record = kin__engine_note(bytes, "record", word, sizeof(word));
    if (kin__engine_note(bytes, "faults", word, sizeof(word)))
        head->faults = kin__options_fault_bits(word);
    return kin__engine_note(bytes, "test", head->test, sizeof(head->test))
               ? NULL
               : "it names no test: there is no line 'test NAME' near its beginning";
}

/* ---- one file ---- */

static int complain(const struct kin__options *options, const char *path, const char *what)
{
    char memory[PATH_BYTES + 512];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "%s: %s: %s", options->program, path, what);
    kin__text_end_line(&text);
    kin__main_say(STDERR_FILENO, &text);
    return 2;
}

/* The name comes from a file: nothing in it may do anything to a terminal. */
static int complain_of_test(const struct kin__options *options, const char *path,
                            const char *name)
{
    char memory[256];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_str(&text, "it is of a test that this program does not have: '");
    for (; *name; name++)
        kin__text_char(&text, (unsigned char)*name < ' ' || *name == 0x7f ? '?' : *name);
    kin__text_str(&text, "'; --list tells those it has");
    return complain(options, path, memory);
}

/* Whether the file was no good, which is told. */
static bool is_misread(const struct kin__options *options, const char *path,
                       const struct kin__verdict *verdict)
{
    if (!verdict->is_error || !kin__lab_wish.misread[0])
        return false;
    (void)complain(options, path, kin__lab_wish.misread);
    return true;
}

static int prepare(const struct kin__options *options, const char *path,
                   const struct kin_lab_test **test, struct kin_lab_config *config,
                   struct head *head)
{
    const char *misread = read_head(path, head);
    if (misread)
        return complain(options, path, misread);
    *test = kin__main_find(head->test);
    if (!*test)
        return complain_of_test(options, path, head->test);
    *config = (*test)->config;
    config->strategy = KIN_LAB_REPLAY;
    config->replay_file = path;
    config->executions_max = 1;
    config->faults |= head->faults | options->faults;
    config->report_dir = options->ask == KIN__ASK_SHRINK ? options->reports : NULL;
    return 0;
}

/* A file that does not fit, or never did: as far as it goes, then what is around it. */
static void run_near(const struct kin__options *options, struct kin_lab_config *config,
                     const struct kin_lab_test *test, struct kin__verdict *verdict)
{
    struct kin__options used = *options;
    used.is_near = true;
    if (!used.time_ns)
        used.time_ns = NEAR_NS;
    config->report_dir = options->reports;
    config->executions_max = options->runs;
    kin__main_run(&used, config, test, verdict);
}

static int replay_one(const struct kin__options *options)
{
    struct kin__options used = *options;
    struct kin_lab_config config;
    struct kin__verdict verdict;
    const struct kin_lab_test *test;
    struct head head;
    if (prepare(options, options->file, &test, &config, &head) != 0)
        return 2;
    used.has_seed = false;
    used.is_unshrunk = options->ask == KIN__ASK_REPLAY && !head.is_record;
    if (head.is_record)
        run_near(&used, &config, test, &verdict);
    else
        kin__main_run(&used, &config, test, &verdict);
    if (is_misread(options, options->file, &verdict))
        return 2;
    int status = kin__main_tell(&used, test, &verdict);
    if (status == 1 && options->explains && !options->is_json)
        kin__explain(&used, &config, test, &verdict);
    return status;
}

/* ---- a directory of them ---- */

static void tell_near(const struct kin__options *options, const char *path, uint64_t runs)
{
    char memory[PATH_BYTES + 256];
    struct kin__text text;
    if (options->is_quiet || options->is_json)
        return;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "note  %s no longer fits; %llu schedules near by pass\n", path,
                     (unsigned long long)runs);
    kin__main_say(STDOUT_FILENO, &text);
}

static int regress_one(const struct kin__options *options, const char *path)
{
    struct kin__options used = *options;
    struct kin_lab_config config;
    struct kin__verdict verdict;
    const struct kin_lab_test *test;
    struct head head;
    if (prepare(options, path, &test, &config, &head) != 0)
        return 2;
    used.has_seed = false;
    used.is_unshrunk = true;
    kin__main_run(&used, &config, test, &verdict);
    if (is_misread(options, path, &verdict))
        return 2;
    const bool is_near = verdict.result.has_diverged;
    if (is_near)
        run_near(&used, &config, test, &verdict);
    if (is_near && verdict.status == 0)
        tell_near(&used, path, verdict.runs);
    if (head.is_known && verdict.status < 0 && !verdict.is_error)
        return 0;
    if (head.is_known && verdict.status == 0)
        return complain(options, path, "it is known to fail, and passes: take 'known' out") - 1;
    return verdict.status == 0 ? 0 : kin__main_tell(&used, test, &verdict);
}

/* Names in the order of strcmp, so that a directory is always told the same way. */
static void insert(char (*names)[256], size_t count, const char *name)
{
    size_t at = count;
    for (; at > 0 && strcmp(names[at - 1], name) > 0; at--)
        memcpy(names[at], names[at - 1], sizeof(names[0]));
    struct kin__text text;
    kin__text_init(&text, names[at], sizeof(names[0]));
    kin__text_str(&text, name);
}

/* How many schedules are in the directory; -1: it cannot be read. */
static int list_files(const char *directory, struct kin__room *room)
{
    DIR *dir = opendir(directory);
    size_t count = 0;
    const struct dirent *entry;
    if (!dir)
        return -1;
    while ((entry = readdir(dir)) && count < FILES_MAX) {
        size_t length = strlen(entry->d_name);
        if (length < 8 || strcmp(entry->d_name + length - 7, ".kinlab") != 0)
            continue;
        if (!kin__room_fits(room, count + 1, 256))
            break;
        insert(room->base, count++, entry->d_name);
    }
    closedir(dir);
    return (int)count;
}

static int regress(const struct kin__options *options)
{
    struct kin__room room = {NULL, 0};
    unsigned worst = 0, passed = 0;
    int count = list_files(options->file, &room);
    int64_t began = kin__host_now();
    if (count < 0)
        return complain(options, options->file, "it is no directory that can be read");
    for (int i = 0; i < count; i++) {
        char path[PATH_BYTES];
        struct kin__text text;
        kin__text_init(&text, path, sizeof(path));
        kin__text_printf(&text, "%s/%s", options->file, ((char(*)[256])room.base)[i]);
        int status = kin__text_is_full(&text) ? complain(options, path, "the path is too long")
                                              : regress_one(options, path);
        passed += status == 0;
        if (status && (worst == 0 || status == 1))
            worst = (unsigned)status;
    }
    kin__room_release(&room);
    if (!options->is_quiet && !options->is_json) {
        char memory[256];
        struct kin__text text;
        kin__text_init(&text, memory, sizeof(memory));
        kin__text_printf(&text, "%d regression file%s: %u as expected, %u not; ", count,
                         count == 1 ? "" : "s", passed, (unsigned)count - passed);
        kin__text_ns(&text, kin__host_now() - began);
        kin__text_char(&text, '\n');
        kin__main_say(STDOUT_FILENO, &text);
    }
    return (int)worst;
}

int kin__replay_files(const struct kin__options *options)
{
    return options->ask == KIN__ASK_REGRESS ? regress(options) : replay_one(options);
}
