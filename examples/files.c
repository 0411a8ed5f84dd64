/* SPDX-License-Identifier: MIT */
/*
 * Files: a directory is searched for a word, all files at once, without blocking a worker.
 *
 *     main -- nursery of at most 8 -- search one file, in pieces of 64 KiB
 *                                  -- search another ...
 *          -- kin_blocking: what only libc can do
 *
 * Each file has its own task; the disk is waited for on threads that are there for it. The report
 * is written to a draft first and then takes its name in one step, so that nobody sees half of it.
 */
#include <kin/kin.h>
#include <kin/blocking.h>
#include <kin/file.h>

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE 65536
#define WORD "kin"

struct total {
    _Atomic int files, words;
};

struct search {
    char path[512];
    struct total *total;
};

/* Counts the word in a piece; the last bytes may be the begin of one and are kept for the next. */
static int count_words(const char *bytes, size_t size)
{
    int count = 0;

    for (size_t i = 0; i + strlen(WORD) <= size; i++)
        count += memcmp(bytes + i, WORD, strlen(WORD)) == 0;
    return count;
}

static int search_file(void *arg)
{
    struct search *search = arg;
    const size_t overlap = strlen(WORD) - 1;
    char *piece = malloc(PIECE);
    int64_t offset = 0;
    ssize_t got = 0;
    int fd;

    int rc = piece ? kin_open(search->path, O_RDONLY, 0, &fd) : -ENOMEM;
    if (rc < 0) {
        free(piece);
        return rc;
    }
    while ((got = kin_pread(fd, piece, PIECE, offset)) > 0) {
        atomic_fetch_add(&search->total->words, count_words(piece, (size_t)got));
        if (got < PIECE)
            break;
        offset += got - (ssize_t)overlap;
    }
    kin_close(fd);
    free(piece);
    atomic_fetch_add(&search->total->files, 1);
    return got < 0 ? (int)got : 0;
}

/* A task for every file in a directory. */
static int search_all(const char *path, struct total *total)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_dirent entry;
    struct kin_dir *dir;
    int rc = kin_opendir(path, &dir);

    if (rc < 0)
        return rc;
    KIN_NURSERY(n, .tasks_max = 8);
    options.slot_deadline = KIN_NEVER; /* waits for one of the eight to end */
    while ((rc = kin_readdir(dir, &entry)) > 0) {
        struct search search = {.total = total};

        if (entry.type != DT_REG)
            continue;
        int size = snprintf(search.path, sizeof search.path, "%s/%s", path, entry.name);
        rc = size < (int)sizeof search.path ? 0 : -ENAMETOOLONG; /* one that is cut is another */
        if (rc == 0)
            rc = kin_spawn_with(&n, &options, search_file, &search, sizeof search, NULL);
        if (rc < 0)
            break;
    }
    kin_closedir(dir);
    return kin_nursery_end(&n, rc);
}

/* Writes a report that is whole or not there. */
static int report(const char *dir, const struct total *total)
{
    char draft[512], path[512], text[100];
    int fd;

    snprintf(draft, sizeof draft, "%s/report.draft", dir);
    snprintf(path, sizeof path, "%s/report", dir);
    int size = snprintf(text, sizeof text, "%d words in %d files\n", total->words, total->files);
    int rc = kin_open(draft, O_WRONLY | O_CREAT | O_TRUNC, 0666, &fd);
    if (rc < 0)
        return rc;
    ssize_t put = kin_pwrite(fd, text, (size_t)size, 0);
    rc = put < 0 ? (int)put : put < size ? -ENOSPC : kin_fsync(fd);
    kin_close(fd);
    if (rc == 0)
        rc = kin_rename(draft, path);
    fputs(text, stdout);
    return rc;
}

/* Something that blocks its thread and knows nothing of kin. */
static int make_directory(void *arg)
{
    return mkdtemp(arg) ? 0 : -EIO;
}

/* All of the word or why not: a disk may be full in the middle. */
static int write_word(int fd, int64_t offset)
{
    ssize_t put = kin_pwrite(fd, WORD, strlen(WORD), offset);
    return put < 0 ? (int)put : put < (ssize_t)strlen(WORD) ? -ENOSPC : 0;
}

static int write_samples(const char *dir)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < 20; i++) {
        char path[512];
        int fd = -1;

        snprintf(path, sizeof path, "%s/sample-%d", dir, i);
        rc = kin_open(path, O_WRONLY | O_CREAT, 0666, &fd);
        for (int j = 0; rc == 0 && j <= i; j++) /* far apart: nothing is stored in between */
            rc = write_word(fd, (int64_t)j * 50000);
        if (fd >= 0)
            kin_close(fd);
    }
    return rc;
}

static int remove_all(const char *path)
{
    struct kin_dirent entry;
    struct kin_dir *dir;
    int rc = kin_opendir(path, &dir);

    if (rc < 0)
        return rc;
    while ((rc = kin_readdir(dir, &entry)) > 0) {
        char name[512];

        snprintf(name, sizeof name, "%s/%s", path, entry.name);
        rc = kin_remove(name);
        if (rc < 0)
            break;
    }
    kin_closedir(dir);
    return rc < 0 ? rc : kin_rmdir(path);
}

static int run(void *arg)
{
    char dir[] = "/tmp/kin-files-XXXXXX";
    struct total total = {0};
    int made = 0;

    (void)arg;
    int rc = kin_blocking(make_directory, dir, &made, KIN_NEVER);
    if (rc == 0)
        rc = made;
    if (rc < 0)
        return rc;
    rc = write_samples(dir);
    if (rc == 0)
        rc = search_all(dir, &total);
    if (rc == 0)
        rc = report(dir, &total);
    int removed = remove_all(dir);
    return rc < 0 ? rc : removed;
}

int main(void)
{
    int rc = kin_run(NULL, run, NULL);

    if (rc < 0)
        fprintf(stderr, "files: %s\n", kin_status_text(rc));
    return rc < 0;
}
