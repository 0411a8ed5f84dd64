/* SPDX-License-Identifier: MIT */
/*
 * Goal: calls on files work in the lab as they do outside; what two tasks do to different files is
 * independent, and to the same is not; what a crash or a fault breaks is found, kept and repeated.
 * Method: public calls. Statuses are compared with what Linux says. The number of classes that DPOR
 * finds tells what depends on what, and the outcomes that it finds are all that chance finds.
 */
#include "lab/in_lab.h"
#include "lab/report.h"

#include <kin/file.h>
#include <kin/io.h>

#include <dirent.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- calls and statuses ---- */

#define SAYS(call, status) kin_lab_assert((call) == (status), #call " says " #status)

static int make_file(const char *path, const char *text)
{
    int fd;
    int rc = kin_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666, &fd);
    if (rc < 0)
        return rc;
    ssize_t put = kin_pwrite(fd, text, strlen(text), 0);
    rc = kin_close(fd);
    return put < 0 ? (int)put : put < (ssize_t)strlen(text) ? -ENOSPC : rc;
}

static int ask_for_names(void *arg)
{
    int fd;
    char name[300];
    struct stat is;
    (void)arg;
    SAYS(kin_open("", O_RDONLY, 0, &fd), -ENOENT);
    SAYS(kin_open("none", O_RDONLY, 0, &fd), -ENOENT);
    SAYS(kin_open("none/none", O_RDONLY | O_CREAT, 0, &fd), -ENOENT);
    SAYS(make_file("file", "text"), 0);
    SAYS(kin_open("file/below", O_RDONLY, 0, &fd), -ENOTDIR);
    SAYS(kin_open("file/", O_RDONLY, 0, &fd), -ENOTDIR);
    SAYS(kin_open("new/", O_WRONLY | O_CREAT, 0600, &fd), -EISDIR);
    SAYS(kin_open("file", O_RDONLY | O_DIRECTORY, 0, &fd), -ENOTDIR);
    SAYS(kin_open("file", O_WRONLY | O_CREAT | O_EXCL, 0600, &fd), -EEXIST);
    SAYS(kin_open("/tmp", O_RDWR, 0, &fd), -EISDIR);
    SAYS(kin_open("/tmp", O_RDONLY | O_CREAT, 0600, &fd), -EISDIR);
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    SAYS(kin_open(name, O_RDONLY, 0, &fd), -ENAMETOOLONG);
    SAYS(kin_mkdir("/tmp", 0700), -EEXIST);
    SAYS(kin_mkdir("file", 0700), -EEXIST);
    SAYS(kin_mkdir("dir", 0770), 0);
    SAYS(kin_mkdir("dir/sub/", 0700), 0);
    SAYS(kin_rmdir("dir"), -ENOTEMPTY);
    SAYS(kin_rmdir("file"), -ENOTDIR);
    SAYS(kin_rmdir("/"), -EBUSY);
    SAYS(kin_rmdir("dir/."), -EINVAL);
    SAYS(kin_remove("dir"), -EISDIR);
    SAYS(kin_remove("none"), -ENOENT);
    SAYS(kin_stat("dir/sub/../../file", &is), 0);
    SAYS((is.st_mode & S_IFMT), S_IFREG);
    SAYS(is.st_size, 4);
    SAYS(kin_stat("//dir/./sub//", &is), 0);
    SAYS((is.st_mode & S_IFMT), S_IFDIR);
    SAYS(kin_stat("file/..", &is), -ENOTDIR);
    SAYS(kin_stat("/../../file", &is), 0);
    return 0;
}

static int ask_for_renames(void *arg)
{
    struct stat is, was;
    (void)arg;
    SAYS(make_file("a", "1"), 0);
    SAYS(make_file("b", "22"), 0);
    SAYS(kin_mkdir("dir", 0700), 0);
    SAYS(kin_mkdir("dir/sub", 0700), 0);
    SAYS(kin_mkdir("empty", 0700), 0);
    SAYS(kin_rename("none", "a"), -ENOENT);
    SAYS(kin_rename("a", "dir"), -EISDIR);
    SAYS(kin_rename("dir", "a"), -ENOTDIR);
    SAYS(kin_rename("empty", "dir"), -ENOTEMPTY);
    SAYS(kin_rename("dir", "dir/sub/dir"), -EINVAL);
    SAYS(kin_rename("a", "none/a"), -ENOENT);
    SAYS(kin_rename("a", "c/"), -ENOTDIR);
    SAYS(kin_rename("a", "/"), -EBUSY);
    SAYS(kin_rename("a", "a"), 0);
    SAYS(kin_stat("a", &was), 0);
    SAYS(kin_rename("a", "b"), 0);
    SAYS(kin_stat("a", &is), -ENOENT);
    SAYS(kin_stat("b", &is), 0);
    SAYS(is.st_ino, was.st_ino);
    SAYS(is.st_nlink, 1);
    SAYS(kin_rename("dir", "empty"), 0);
    SAYS(kin_rename("b", "empty/sub/b"), 0);
    SAYS(kin_rename("empty/sub", "/tmp/sub"), 0);
    SAYS(kin_stat("/tmp/sub/b", &is), 0);
    SAYS(kin_stat("/tmp/sub/../../empty", &is), 0);
    SAYS(make_file("a", "1"), 0);
    SAYS(kin_stat("a", &is), 0);
    kin_lab_assert(is.st_ino != was.st_ino, "another file of the same name is another");
    return 0;
}

static int ask_for_bytes(void *arg)
{
    char buf[16] = "";
    int fd, dir, other;
    size_t done;
    (void)arg;
    SAYS(kin_open("a", O_RDWR | O_CREAT, 0600, &fd), 0);
    SAYS(kin_pwrite(fd, "abcdef", 6, 2), 6);
    SAYS(kin_pread(fd, buf, sizeof buf, 1), 7);
    kin_lab_assert(memcmp(buf, "\0abcdef", 7) == 0, "what lies before is zero");
    SAYS(kin_pread(fd, buf, 1, -1), -EINVAL);
    SAYS(kin_pwrite(fd, buf, 1, -1), -EINVAL);
    SAYS(kin_pwrite(fd, buf, 1, INT64_MAX - 1), -EFBIG);
    SAYS(kin_ftruncate(fd, -1), -EINVAL);
    SAYS(kin_ftruncate(fd, 4), 0);
    SAYS(kin_ftruncate(fd, 6), 0);
    SAYS(kin_pread(fd, buf, sizeof buf, 0), 6);
    kin_lab_assert(memcmp(buf, "\0\0ab\0\0", 6) == 0, "what was cut off is gone");
    SAYS(kin_open("a", O_RDONLY, 0, &other), 0);
    SAYS(kin_pwrite(other, buf, 1, 0), -EBADF);
    SAYS(kin_ftruncate(other, 0), -EINVAL);
    SAYS(kin_read(other, buf, 3, KIN_NEVER), 3); /* by the place where the last one ended */
    SAYS(kin_read(other, buf, 9, KIN_NEVER), 3);
    SAYS(kin_read(other, buf, 9, KIN_NEVER), 0);
    SAYS(kin_write(other, buf, 1, NULL, KIN_NEVER), -EBADF);
    SAYS(kin_close(other), 0);
    SAYS(kin_pread(other, buf, 1, 0), -EBADF);
    SAYS(kin_fsync(other), -EBADF);
    SAYS(kin_close(other), -EBADF);
    SAYS(kin_open("a", O_WRONLY | O_APPEND, 0, &other), 0);
    SAYS(kin_pread(other, buf, 1, 0), -EBADF);
    SAYS(kin_write(other, "xy", 2, &done, KIN_NEVER), 0);
    SAYS(kin_pwrite(other, "z", 1, 0), 1);
    SAYS(kin_pread(fd, buf, sizeof buf, 6), 3);
    kin_lab_assert(memcmp(buf, "xyz", 3) == 0, "both are at the end");
    SAYS(kin_close(other), 0);
    SAYS(kin_remove("a"), 0);
    SAYS(kin_pread(fd, buf, sizeof buf, 6), 3); /* it is there as long as it is open */
    SAYS(kin_close(fd), 0);
    SAYS(kin_open("/tmp", O_RDONLY, 0, &dir), 0);
    SAYS(kin_pread(dir, buf, 1, 0), -EISDIR);
    SAYS(kin_read(dir, buf, 1, KIN_NEVER), -EISDIR);
    SAYS(kin_fsync(dir), 0);
    SAYS(kin_close(dir), 0);
    return 0;
}

static int read_a_directory(void *arg)
{
    struct kin_dir *dir;
    struct kin_dirent entry;
    char all[32] = "";
    (void)arg;
    SAYS(kin_mkdir("d", 0700), 0);
    SAYS(make_file("d/c", ""), 0);
    SAYS(make_file("d/a", ""), 0);
    SAYS(kin_mkdir("d/b", 0700), 0);
    SAYS(make_file("d/x", ""), 0);
    SAYS(kin_remove("d/x"), 0);
    SAYS(kin_opendir("d", &dir), 0);
    while (kin_readdir(dir, &entry) == 1) {
        strcat(all, entry.name);
        kin_lab_assert(entry.type == (entry.name[0] == 'b' ? DT_DIR : DT_REG), "of its kind");
    }
    kin_closedir(dir);
    kin_lab_assert(strcmp(all, "abc") == 0, "in the order of the alphabet");
    return 0;
}

static int send_a_file(void *arg)
{
    char buf[16] = "";
    int fd, ends[2];
    int64_t offset = 2;
    size_t done;
    (void)arg;
    SAYS(make_file("a", "0123456789"), 0);
    SAYS(kin_open("a", O_RDONLY, 0, &fd), 0);
    SAYS(pipe(ends), 0);
    SAYS(kin_sendfile(ends[1], fd, &offset, 4, &done, KIN_NEVER), 0);
    SAYS(offset, 6);
    SAYS(kin_sendfile(ends[1], fd, NULL, 3, &done, KIN_NEVER), 0); /* where the file is: at 0 */
    SAYS(kin_read_full(ends[0], buf, 7, &done, KIN_NEVER), 0);
    kin_lab_assert(strcmp(buf, "2345012") == 0, "it went through");
    SAYS(kin_read(fd, buf, 1, KIN_NEVER), 1);
    SAYS(buf[0], '3');
    SAYS(kin_pread(ends[0], buf, 1, 0), -ESPIPE);
    SAYS(kin_pread(ends[0], NULL, 0, 0), -ESPIPE);
    SAYS(kin_pwrite(ends[1], NULL, 0, 0), -ESPIPE);
    SAYS(kin_pread(ends[0], NULL, 0, -1), -EINVAL);
    SAYS(kin_pwrite(ends[1], NULL, 0, -1), -EINVAL);
    SAYS(kin_fsync(ends[0]), -EINVAL);
    SAYS(kin_close(ends[0]), 0);
    SAYS(kin_close(ends[1]), 0);
    SAYS(kin_close(fd), 0);
    return 0;
}

KIN_TEST(calls_say_what_they_say_outside, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 3, ask_for_names, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 3, ask_for_renames, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 3, ask_for_bytes, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 3, read_a_directory, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 3, send_a_file, NULL), 0);
}

static int leave_files(void *arg)
{
    struct stat is;
    (void)arg;
    SAYS(kin_stat("left", &is), -ENOENT);
    SAYS(kin_stat("/etc/passwd", &is), -ENOENT);
    return make_file("left", "over");
}

KIN_TEST(a_disk_is_of_one_execution_and_not_the_machines, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 5, leave_files, NULL), 0);
    EXPECT(access("left", F_OK) != 0);
}

static int leave_open(void *arg)
{
    int fd;
    (void)arg;
    return kin_open("left", O_WRONLY | O_CREAT, 0600, &fd);
}

KIN_TEST(a_file_that_nobody_closes_is_a_leak, "")
{
    expect_oracle(leave_open, NULL, "leak", KIN_LEAKED);
    EXPECT(strstr(report.text, "file left") != NULL);
}

static int change_time(void *arg)
{
    struct stat first, second;
    (void)arg;
    SAYS(make_file("a", "1"), 0);
    SAYS(kin_stat("a", &first), 0);
    kin_lab_advance(KIN_SEC(3600));
    SAYS(make_file("a", "2"), 0);
    SAYS(kin_stat("a", &second), 0);
    SAYS(second.st_mtim.tv_sec - first.st_mtim.tv_sec, 3600);
    SAYS(time(NULL), second.st_mtim.tv_sec);
    return 0;
}

KIN_TEST(files_have_times_of_the_virtual_clock, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 3, change_time, NULL), 0);
}

/* ---- what depends on what ---- */

struct writer {
    const char *path; /* NULL: nothing is done */
    int fd;           /* -1: it opens the path */
};

static int write_some(void *arg)
{
    const struct writer *writer = arg;
    int fd = writer->fd;
    if (!writer->path)
        return 0;
    if (fd < 0)
        return make_file(writer->path, "text");
    kin_lab_assert(kin_pwrite(fd, "text", 4, 0) == 4, "it is written");
    return kin_fsync(fd);
}

static int write_both(void *arg)
{
    struct writer *writers = arg;
    bool opens = writers[0].fd == 0;
    for (int i = 0; i < 2 && opens; i++)
        KIN_LAB_OK(kin_open(writers[i].path, O_WRONLY | O_CREAT, 0600, &writers[i].fd));
    {
        KIN_NURSERY(n);
        KIN_LAB_OK(kin_spawn(&n, write_some, &writers[0]));
        KIN_LAB_OK(kin_spawn(&n, write_some, &writers[1]));
        KIN_LAB_OK(kin_nursery_join(&n, NULL));
    }
    for (int i = 0; i < 2 && opens; i++) {
        KIN_LAB_OK(kin_close(writers[i].fd));
        writers[i].fd = 0;
    }
    return 0;
}

/* How many schedules differ. */
static uint64_t classes(const char *first, const char *second, int fd)
{
    struct writer writers[2] = {{first, fd}, {second, fd}};
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, write_both, writers), 0);
    EXPECT(report.exhausted);
    return report.executions;
}

KIN_TEST(different_files_are_independent_and_one_is_not, "")
{
    uint64_t idle = classes(NULL, NULL, -1);
    EXPECT_EQ(classes("a", "b", 0), idle);  /* open before */
    EXPECT_EQ(classes("a", "b", -1), idle); /* opened, made in one directory and closed */
    EXPECT_GT(classes("a", "a", 0), idle);
    EXPECT_GT(classes("a", "a", -1), idle);
}

/* Small programs of chance: two tasks, a few calls each, a crash somewhere. What is on the disk
 * in the end, and what every call has said, is one outcome. */
#define TASKS 2
#define CALLS 3
#define OUTCOMES_MAX 4096

static struct {
    uint8_t code[TASKS][CALLS];
    uint64_t said[TASKS];
} chance;

static uint64_t outcomes[OUTCOMES_MAX];
static unsigned outcomes_count;
static bool is_sampling;
static unsigned missed;

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static int call_one(uint8_t code, unsigned index)
{
    static const char *const names[] = {"a", "b"};
    const char *name = names[code / 8 % 2], *other = names[code / 8 % 2 ^ 1];
    char byte = (char)('0' + index);
    struct stat is;
    int fd, rc;
    switch (code % 8) {
    case 0:
    case 1:
        rc = kin_open(name, O_WRONLY | O_CREAT | (code % 8 ? O_APPEND : 0), 0600, &fd);
        if (rc == 0) {
            rc = (int)kin_pwrite(fd, &byte, 1, 0);
            kin_ignore(kin_close(fd));
        }
        return rc;
    case 2:
        rc = kin_open(name, O_RDONLY, 0, &fd);
        if (rc == 0) {
            rc = (int)kin_pread(fd, &byte, 1, 0) * 256 + byte;
            kin_ignore(kin_close(fd));
        }
        return rc;
    case 3:
        return kin_rename(name, other);
    case 4:
        return kin_remove(name);
    case 5:
        rc = kin_open(code & 8 ? "/" : name, O_RDONLY, 0, &fd);
        if (rc == 0) {
            rc = kin_fsync(fd);
            kin_ignore(kin_close(fd));
        }
        return rc;
    case 6:
        rc = kin_stat(name, &is);
        return rc < 0 ? rc : (int)is.st_size;
    default:
        return kin_mkdir(name, 0700);
    }
}

static int call_some(void *arg)
{
    unsigned index = (unsigned)(uintptr_t)arg;
    for (unsigned i = 0; i < CALLS; i++) {
        int rc = call_one(chance.code[index][i], index);
        chance.said[index] = mix(chance.said[index], (uint64_t)(int64_t)rc);
    }
    return 0;
}

static uint64_t look_at(const char *path)
{
    char buf[32];
    int fd, rc = kin_open(path, O_RDONLY, 0, &fd);
    if (rc < 0)
        return (uint64_t)(int64_t)rc;
    ssize_t got = kin_pread(fd, buf, sizeof buf, 0);
    uint64_t hash = mix(1, (uint64_t)got);
    for (ssize_t i = 0; i < got; i++)
        hash = mix(hash, (uint64_t)buf[i]);
    kin_ignore(kin_close(fd));
    return hash;
}

static void note_outcome(uint64_t outcome)
{
    for (unsigned i = 0; i < outcomes_count; i++) {
        if (outcomes[i] == outcome)
            return;
    }
    if (is_sampling)
        missed++;
    else if (outcomes_count < OUTCOMES_MAX)
        outcomes[outcomes_count++] = outcome;
}

static int by_chance(void *arg)
{
    (void)arg;
    uint64_t outcome = 0;
    memset(chance.said, 0, sizeof chance.said);
    KIN_NURSERY(n);
    for (uintptr_t i = 0; i < TASKS; i++)
        KIN_LAB_OK(kin_spawn(&n, call_some, (void *)i));
    kin_lab_crash_files();
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    for (unsigned i = 0; i < TASKS; i++)
        outcome = mix(outcome, chance.said[i]);
    outcome = mix(outcome, look_at("a"));
    note_outcome(mix(outcome, look_at("b")));
    return 0;
}

KIN_TEST(what_chance_finds_dpor_has_found, "")
{
    uint64_t seed = kin_test_seed();
    unsigned programs = 10 / kin_test_scale() + 1, compared = 0;
    for (unsigned i = 0; i < programs; i++) {
        for (unsigned at = 0; at < TASKS * CALLS; at++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            chance.code[at / CALLS][at % CALLS] = (uint8_t)(seed >> 40) % 16;
        }
        outcomes_count = missed = 0;
        is_sampling = false;
        EXPECT_EQ(lab(KIN_LAB_DPOR, 30000, by_chance, NULL), 0);
        if (!report.exhausted || outcomes_count == OUTCOMES_MAX)
            continue; /* too large for this test */
        compared++;
        is_sampling = true;
        EXPECT_EQ(lab(KIN_LAB_RANDOM, 3000, by_chance, NULL), 0);
        EXPECT_EQ(missed, 0);
    }
    EXPECT_GT(compared, programs / 4);
}

/* ---- crashes ---- */

static int put_text(const char *path, const char *text, bool syncs)
{
    int fd;
    int rc = kin_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666, &fd);
    if (rc < 0)
        return rc;
    ssize_t put = kin_pwrite(fd, text, strlen(text), 0);
    rc = put < 0 ? (int)put : (size_t)put < strlen(text) ? -ENOSPC : 0;
    if (rc == 0 && syncs)
        rc = kin_fsync(fd);
    int closed = kin_close(fd);
    return rc < 0 ? rc : closed;
}

static int sync_dir(const char *path)
{
    int fd;
    int rc = kin_open(path, O_RDONLY | O_DIRECTORY, 0, &fd);
    if (rc < 0)
        return rc;
    rc = kin_fsync(fd);
    kin_ignore(kin_close(fd));
    return rc;
}

/* The bug: a crash finds the old text gone and the new one not there. */
static int rewrite(const char *text)
{
    return put_text("config", text, true);
}

/* The remedy. */
static int replace(const char *text)
{
    int rc = put_text("config.new", text, true);
    if (rc == 0)
        rc = kin_rename("config.new", "config");
    return rc < 0 ? rc : sync_dir("/");
}

/* Almost: who was told that it is saved finds the old text after a crash. */
static int replace_hastily(const char *text)
{
    int rc = put_text("config.new", text, true);
    return rc < 0 ? rc : kin_rename("config.new", "config");
}

struct saving {
    int (*save)(const char *text);
    bool is_saved;
};

static int save_new(void *arg)
{
    struct saving *saving = arg;
    int rc = saving->save("new");
    KIN_SHARED(saving->is_saved) = rc == 0;
    return 0; /* with the power gone it is -EIO */
}

static int save_and_crash(void *arg)
{
    struct saving *saving = arg;
    char text[16] = "";
    int fd;
    saving->is_saved = false;
    KIN_LAB_OK(saving->save("old"));
    KIN_LAB_OK(sync_dir("/"));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, save_new, saving));
    bool was_saved = KIN_SHARED(saving->is_saved);
    kin_lab_crash_files();
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    KIN_LAB_OK(kin_open("config", O_RDONLY, 0, &fd));
    ssize_t got = kin_pread(fd, text, sizeof text - 1, 0);
    KIN_LAB_OK(kin_close(fd));
    if (got == -EIO)
        return 0; /* planned */
    kin_lab_assert(got >= 0 && (strcmp(text, "new") == 0 || strcmp(text, "old") == 0),
                   "it is the old text or the new one");
    kin_lab_assert(!was_saved || strcmp(text, "new") == 0, "what was saved is there");
    return 0;
}

KIN_TEST(a_text_rewritten_in_place_is_lost_in_a_crash, "")
{
    struct saving saving = {rewrite, false};
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, save_and_crash, &saving), KIN_PANICKED);
    EXPECT_STR(report.oracle, "assert");
    EXPECT(strstr(report.text, "it is the old text") != NULL);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 1000, save_and_crash, &saving), KIN_PANICKED);
}

KIN_TEST(a_rename_that_nobody_syncs_is_found, "")
{
    struct saving saving = {replace_hastily, false};
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, save_and_crash, &saving), KIN_PANICKED);
    EXPECT(strstr(report.text, "what was saved is there") != NULL);
    EXPECT(strstr(report.text, "the crash undoes the") != NULL); /* what it has done is told */
}

KIN_TEST(a_text_that_is_written_aside_synced_and_renamed_lasts, "")
{
    struct saving saving = {replace, false};
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, save_and_crash, &saving), 0);
    EXPECT(report.exhausted);
    EXPECT_GT(report.executions, 10);
}

static int use_after_crash(void *arg)
{
    int fd, dir;
    char byte;
    struct stat is;
    KIN_LAB_OK(kin_open("a", O_RDWR | O_CREAT, 0600, &fd));
    KIN_LAB_OK(kin_open("/", O_RDONLY, 0, &dir));
    KIN_LAB_OK(kin_fsync(dir));
    *(int *)arg = 1;
    while (*(volatile int *)arg == 1)
        KIN_LAB_OK(kin_yield());
    SAYS(kin_pread(fd, &byte, 1, 0), -EIO);
    SAYS(kin_pwrite(fd, "x", 1, 0), -EIO);
    SAYS(kin_fsync(fd), -EIO);
    SAYS(kin_fstat(fd, &is), -EIO);
    SAYS(kin_stat("a", &is), -EIO);
    SAYS(kin_open("b", O_WRONLY | O_CREAT, 0600, &fd), -EIO);
    SAYS(kin_close(fd), 0);
    SAYS(kin_close(dir), 0);
    return 0;
}

static int use_new_disk(void *arg)
{
    (void)arg;
    return make_file("later", "text");
}

static int crash_under_others(void *arg)
{
    int state = 0;
    struct stat is;
    (void)arg;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, use_after_crash, &state));
    while (*(volatile int *)&state == 0)
        KIN_LAB_OK(kin_yield());
    kin_lab_crash_files();
    state = 2;
    KIN_LAB_OK(kin_spawn(&n, use_new_disk, NULL));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    SAYS(kin_stat("a", &is), 0);
    SAYS(kin_stat("later", &is), 0);
    SAYS(kin_stat("b", &is), -ENOENT);
    return 0;
}

KIN_TEST(those_of_before_a_crash_have_no_disk_any_more, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 50, crash_under_others, NULL), 0);
}

/* ---- faults ---- */

static struct {
    unsigned eio, full, well;
} seen;

static int save_with_faults(void *arg)
{
    (void)arg;
    int rc = make_file("config", "old");
    if (rc == 0)
        rc = replace("new and longer");
    struct stat is;
    seen.eio += rc == -EIO;
    seen.full += rc == -ENOSPC;
    seen.well += rc == 0 && kin_stat("config", &is) == 0 && is.st_size == 14;
    return 0;
}

KIN_TEST(every_fault_of_files_happens_and_nothing_leaks, "")
{
    memset(&seen, 0, sizeof seen);
    EXPECT_EQ(lab_with(KIN_LAB_DPOR, 0, KIN_FAULT_FILE, save_with_faults, NULL), 0);
    EXPECT(report.exhausted);
    EXPECT_GT(seen.eio, 5);
    EXPECT_GT(seen.full, 2);
    EXPECT_GT(seen.well, 2); /* without one, and after short reads and writes */
    EXPECT_EQ(lab_with(KIN_LAB_RANDOM, 300, KIN_FAULT_FILE | KIN_FAULT_OOM | KIN_FAULT_CANCEL,
                       save_with_faults, NULL), 0);
    EXPECT_EQ(lab_with(KIN_LAB_RANDOM, 300, KIN_FAULT_FILE | KIN_FAULT_CHAOS, save_with_faults,
                       NULL), 0);
}

static int leak_when_full(void *arg)
{
    int fd;
    (void)arg;
    int rc = kin_open("a", O_WRONLY | O_CREAT, 0600, &fd);
    if (rc < 0)
        return 0;
    if (kin_pwrite(fd, "text", 4, 0) != 4)
        return 0; /* the way out that forgets the file */
    return kin_close(fd);
}

KIN_TEST(a_descriptor_that_a_full_disk_leaves_open_is_found, "")
{
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, leak_when_full, NULL), 0);
    EXPECT_EQ(lab_with(KIN_LAB_DPOR, 0, KIN_FAULT_FILE, leak_when_full, NULL), KIN_LEAKED);
    EXPECT_STR(report.oracle, "leak");
}

static int stay_full(void *arg)
{
    int fd;
    char buf[8] = "";
    (void)arg;
    KIN_LAB_OK(make_file("old", "1234"));
    KIN_LAB_OK(kin_open("a", O_RDWR | O_CREAT, 0600, &fd));
    ssize_t put = kin_pwrite(fd, "1234", 4, 0);
    if (put == 2 && kin_pwrite(fd, "34", 2, 2) == -ENOSPC) { /* and no fault is left */
        SAYS(kin_pread(fd, buf, sizeof buf, 0), 2);
        SAYS(kin_pwrite(fd, "34", 2, 2), -ENOSPC);
        SAYS(kin_pwrite(fd, "xx", 2, 0), 2); /* where there was something already */
        SAYS(kin_ftruncate(fd, 9), -ENOSPC);
        SAYS(kin_mkdir("dir", 0700), -ENOSPC);
        SAYS(kin_remove("old"), 0);
        SAYS(kin_pwrite(fd, "34", 2, 2), 2);
        seen.full++;
    }
    SAYS(kin_close(fd), 0);
    return 0;
}

KIN_TEST(a_full_disk_is_full_until_something_is_removed, "")
{
    memset(&seen, 0, sizeof seen);
    EXPECT_EQ(lab_with(KIN_LAB_DPOR, 0, KIN_FAULT_FILE, stay_full, NULL), 0);
    EXPECT_GT(seen.full, 0);
}

/* A second sync that goes well is no reason to believe that the first has been made good. */
static int sync_again(void *arg)
{
    int fd;
    char buf[8] = "";
    (void)arg;
    KIN_LAB_OK(kin_open("log", O_RDWR | O_CREAT, 0600, &fd));
    KIN_LAB_OK(sync_dir("/"));
    ssize_t put = kin_pwrite(fd, "line", 4, 0);
    bool is_safe = put == 4 && (kin_fsync(fd) == 0 || kin_fsync(fd) == 0);
    kin_ignore(kin_close(fd));
    kin_lab_crash_files();
    KIN_LAB_OK(kin_open("log", O_RDWR, 0600, &fd));
    ssize_t got = kin_pread(fd, buf, sizeof buf, 0);
    kin_ignore(kin_close(fd));
    kin_lab_assert(!is_safe || got < 0 || memcmp(buf, "line", 4) == 0, "what was synced is there");
    return 0;
}

KIN_TEST(to_sync_again_after_a_failure_is_a_bug_and_found, "")
{
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, sync_again, NULL), 0);
    EXPECT(report.exhausted);
    EXPECT_EQ(lab_with(KIN_LAB_DPOR, 0, KIN_FAULT_FILE, sync_again, NULL), KIN_PANICKED);
    EXPECT(strstr(report.text, "what was synced is there") != NULL);
    EXPECT(strstr(report.text, "a sync fails") != NULL);
}

/* ---- again and again ---- */

KIN_TEST(a_failure_is_repeated_from_its_file, "")
{
    static char path[512], dir[] = "/tmp/kin-lab-file-XXXXXX";
    struct saving saving = {rewrite, false};
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    EXPECT(kin_test_mkdtemp(dir) != NULL);
    config.strategy = KIN_LAB_RANDOM;
    config.seed = kin_test_seed();
    config.report_dir = dir;
    EXPECT_EQ(kin_lab_run(&config, save_and_crash, &saving, &report), KIN_PANICKED);
    EXPECT(report.replay_file != NULL);
    snprintf(path, sizeof path, "%s", report.replay_file);
    config.strategy = KIN_LAB_REPLAY;
    config.replay_file = path;
    config.report_dir = NULL;
    config.executions_max = 1000;
    kin__lab_wish.keeps_going = true;
    EXPECT_EQ(kin_lab_run(&config, save_and_crash, &saving, &report), KIN_PANICKED);
    EXPECT_EQ(report.executions, 1000);
    EXPECT_EQ(kin__lab_wish.result.failures, 1000);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", dir);
    EXPECT_EQ(system(command), 0);
}

KIN_TEST(equal_seeds_give_equal_runs, "")
{
    struct saving saving = {replace, false};
    uint64_t first = 0;
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(lab_with(KIN_LAB_RANDOM, 200, KIN_FAULT_FILE, save_and_crash, &saving), 0);
        if (i == 0)
            first = report.schedule_hash;
        EXPECT_EQ(report.schedule_hash, first);
    }
}
