/* SPDX-License-Identifier: MIT */
/*
 * Schedules from files: --replay, --shrink, --regress.
 *
 * A file names its test and the faults it was found with; the rest is the engine's. A regression
 * file is the schedule of a bug that was fixed: it must pass now, unless it has a line "known" with
 * the name of an issue: then it is of a bug that is still there, and must fail. When the program
 * has changed so much that the file no longer fits, it is followed as far as it goes, and then
 * schedules around it are explored for a moment (strategy_near.c), so that a file never dies in
 * silence. A crash takes a process with it, and the file fails by that; the others are replayed by
 * another process, so that all of them are whatever happens.
 */
#include "lab/main.h"

#include "lab/explain.h"
#include "lab/room.h"
#include "lab/stop.h"
#include "plat/file.h"
#include "plat/plat.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HEAD_BYTES 4096u                      /* of a file, in which its test is named */
#define NEAR_NS INT64_C(200000000)            /* of exploring where a file no longer fits */
#define FILES_MAX (size_t)4096
#define PATH_BYTES 512u

/* ---- what a file says of itself ---- */

struct head {
    char test[128];
    uint32_t faults;
    bool is_known;  /* a bug that is still there: it must fail */
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
    if (status == 1 && options->explains && !options->is_json && !kin__stop_signal)
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

/* What has come of the files so far. It is written to a file in memory that processes share, so
 * that one that dies leaves it to the next. */
struct progress {
    int fd;
    int at;        /* the file under way */
    bool is_known; /* of that file: it must fail */
    unsigned passed, failed, errors;
};

/* Goes well each time if it does the first time. */
static bool keep(const struct progress *progress)
{
    return pwrite(progress->fd, progress, sizeof(*progress), 0) == (ssize_t)sizeof(*progress);
}

static bool take(struct progress *progress)
{
    return pread(progress->fd, progress, sizeof(*progress), 0) == (ssize_t)sizeof(*progress);
}

/* What came of a file. That it is under way is kept before anything happens in it. */
static int regress_one(const struct kin__options *options, const char *path,
                       struct progress *progress)
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
    used.is_death_known = progress->is_known = head.is_known;
    (void)keep(progress);
    kin__main_run(&used, &config, test, &verdict);
    if (is_misread(options, path, &verdict))
        return 2;
    if (verdict.is_stopped)
        return 3;
    const bool is_near = verdict.result.has_diverged;
    if (is_near)
        run_near(&used, &config, test, &verdict);
    if (verdict.is_stopped)
        return 3;
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

static void name_path(struct kin__text *text, char *path, const char *directory,
                      const struct kin__room *names, int i)
{
    kin__text_init(text, path, PATH_BYTES);
    kin__text_printf(text, "%s/%s", directory, ((char(*)[256])names->base)[i]);
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

static void regress_from(const struct kin__options *options, const struct kin__room *names,
                         int count, struct progress *progress)
{
    for (; progress->at < count && !kin__stop_signal; progress->at++) {
        char path[PATH_BYTES];
        struct kin__text text;
        name_path(&text, path, options->file, names, progress->at);
        int status = kin__text_is_full(&text) ? complain(options, path, "the path is too long")
                                              : regress_one(options, path, progress);
        if (status == 3) /* it was stopped */
            return;
        progress->passed += status == 0;
        progress->failed += status == 1;
        progress->errors += status == 2;
    }
}

/* A process has died in the middle of a file: that is the file's failure, if it should not fail. */
static void tell_end(const struct kin__options *options, const struct kin__room *names,
                     struct progress *progress, int how)
{
    char path[PATH_BYTES], memory[PATH_BYTES + 256];
    struct kin__text text;
    if (progress->is_known && WIFSIGNALED(how)) {
        progress->passed++;
        return;
    }
    name_path(&text, path, options->file, names, progress->at);
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "FAIL  %s: ", path);
    if (WIFSIGNALED(how))
        kin__text_printf(&text, "the process died of signal %d (%s)\n", WTERMSIG(how),
                         strsignal(WTERMSIG(how)));
    else
        kin__text_printf(&text, "the process ended with status %d\n", WEXITSTATUS(how));
    if (!options->is_json)
        kin__main_say(STDOUT_FILENO, &text);
    progress->failed++;
}

/* In one process after the other: the next begins behind the file in which the last one died. */
static void regress_all(const struct kin__options *options, const struct kin__room *names,
                        int count, struct progress *progress)
{
    while (progress->at < count && !kin__stop_signal) { /* ends: each gets past one file at least */
        int how = 0;
        pid_t pid = options->break_at ? -1 : kin__stop_fork(true);
        if (pid <= 0)
            regress_from(options, names, count, progress);
        if (pid < 0)
            return;
        if (pid == 0) {
            (void)keep(progress);
            _exit(kin__main_is_unsaid() ? 2 : 0);
        }
        kin__stop_reap(pid, &how);
        (void)take(progress);
        if (progress->at >= count || kin__stop_signal)
            progress->errors += WIFEXITED(how) && WEXITSTATUS(how) == 2;
        else {
            tell_end(options, names, progress, how);
            progress->at++;
        }
    }
}

static void put_regressed(const struct progress *progress, int count, int64_t ns)
{
    char memory[256];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "%d regression file%s: %u as expected, %u not", count,
                     count == 1 ? "" : "s", progress->passed,
                     progress->failed + progress->errors);
    if (kin__stop_signal)
        kin__text_printf(&text, ", %u left when it was stopped by signal %d (%s)",
                         (unsigned)count - progress->passed - progress->failed - progress->errors,
                         (int)kin__stop_signal, strsignal((int)kin__stop_signal));
    kin__text_str(&text, "; ");
    kin__text_ns(&text, ns);
    kin__text_char(&text, '\n');
    kin__main_say(STDOUT_FILENO, &text);
}

static int regress(const struct kin__options *options)
{
    struct kin__room names = {NULL, 0};
    int count = list_files(options->file, &names);
    int64_t began = kin__host_now();
    if (count < 0)
        return complain(options, options->file, "it is no directory that can be read");
    struct progress progress = {.fd = memfd_create("kin-regress", MFD_CLOEXEC)};
    if (progress.fd < 0 || !keep(&progress))
        return complain(options, options->file, "there is no room for what comes of it");
    regress_all(options, &names, count, &progress);
    if ((!options->is_quiet || kin__stop_signal) && !options->is_json)
        put_regressed(&progress, count, kin__host_now() - began);
    close(progress.fd);
    kin__room_release(&names);
    return progress.failed ? 1 : progress.errors ? 2 : 0;
}

int kin__replay_files(const struct kin__options *options)
{
    return options->ask == KIN__ASK_REGRESS ? regress(options) : replay_one(options);
}
