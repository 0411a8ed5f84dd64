/* SPDX-License-Identifier: MIT */
/*
 * Goal: files of every kind through public calls: bytes, names, directories, what is refused.
 * Method: a directory of the test's own, emptied at the end.
 */
#include "api/descriptors.h"
#include "api/in_runtime.h"

#include <kin/file.h>

#include <dirent.h>
#include <unistd.h>

static char dir[64];

/* A path in the test's directory; some at a time, of all tasks together. */
static const char *in(const char *name)
{
    static char paths[64][128];
    static _Atomic unsigned next;
    char *path = paths[atomic_fetch_add(&next, 1) % 64];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static void with_dir(kin_task_fn *fn)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        snprintf(dir, sizeof dir, "/tmp/kin-api-file-XXXXXX");
        EXPECT(kin_test_mkdtemp(dir) != NULL);
        EXPECT_EQ(run_reporting(workers, fn, NULL, NULL), 0);
        EXPECT_EQ(rmdir(dir), 0);
    }
}

static int read_and_write(void *arg)
{
    char buf[64] = "untouched";
    int fd = -7, other;
    (void)arg;
    EXPECT_EQ(kin_open(in("a"), O_RDWR, 0, &fd), -ENOENT);
    EXPECT_EQ(fd, -7);
    EXPECT_EQ(kin_open(in("a"), O_RDWR | O_CREAT, 0600, &fd), 0);
    EXPECT_EQ(kin_pread(fd, buf, sizeof buf, 0), 0);
    EXPECT_STR(buf, "untouched");
    EXPECT_EQ(kin_pwrite(fd, "0123456789", 10, 0), 10);
    EXPECT_EQ(kin_pwrite(fd, "abc", 3, 20), 3);
    EXPECT_EQ(kin_pwrite(fd, NULL, 0, 0), 0);
    EXPECT_EQ(kin_fsync(fd), 0);
    EXPECT_EQ(kin_fdatasync(fd), 0);
    EXPECT_EQ(kin_pread(fd, buf, 5, 3), 5);
    EXPECT(memcmp(buf, "34567", 5) == 0);
    EXPECT_EQ(kin_pread(fd, buf, sizeof buf, 0), 23);
    EXPECT(memcmp(buf, "0123456789\0\0\0\0\0\0\0\0\0\0abc", 23) == 0);
    EXPECT_EQ(kin_pread(fd, buf, sizeof buf, 23), 0);
    EXPECT_EQ(kin_pread(fd, buf, 0, 0), 0);
    struct stat is;
    EXPECT_EQ(kin_fstat(fd, &is), 0);
    EXPECT_EQ(is.st_size, 23);
    EXPECT_EQ(kin_ftruncate(fd, 4), 0);
    EXPECT_EQ(kin_stat(in("a"), &is), 0);
    EXPECT_EQ(is.st_size, 4);
    EXPECT_EQ(kin_open(in("a"), O_RDONLY, 0, &other), 0);
    EXPECT_EQ(kin_pread(other, buf, sizeof buf, 0), 4);
    EXPECT_EQ(kin_pwrite(other, buf, 1, 0), -EBADF);
    EXPECT_EQ(kin_close(other), 0);
    EXPECT_EQ(kin_open(in("a"), O_WRONLY | O_APPEND, 0, &other), 0);
    EXPECT_EQ(kin_pwrite(other, "end", 3, 0), 3);
    EXPECT_EQ(kin_close(other), 0);
    EXPECT_EQ(kin_pread(fd, buf, sizeof buf, 0), 7);
    EXPECT(memcmp(buf, "0123end", 7) == 0);
    EXPECT_EQ(kin_close(fd), 0);
    EXPECT_EQ(kin_remove(in("a")), 0);
    return 0;
}

KIN_TEST(what_is_written_is_read, "")
{
    with_dir(read_and_write);
}

static int use_names(void *arg)
{
    struct stat is;
    int fd;
    (void)arg;
    EXPECT_EQ(kin_mkdir(in("d"), 0700), 0);
    EXPECT_EQ(kin_mkdir(in("d"), 0700), -EEXIST);
    EXPECT_EQ(kin_open(in("d/f"), O_WRONLY | O_CREAT | O_EXCL, 0600, &fd), 0);
    EXPECT_EQ(kin_close(fd), 0);
    EXPECT_EQ(kin_open(in("d/f"), O_WRONLY | O_CREAT | O_EXCL, 0600, &fd), -EEXIST);
    EXPECT_EQ(kin_rename(in("d/f"), in("d/g")), 0);
    EXPECT_EQ(kin_rename(in("d/f"), in("d/g")), -ENOENT);
    EXPECT_EQ(kin_stat(in("d/f"), &is), -ENOENT);
    EXPECT_EQ(kin_stat(in("d/g"), &is), 0);
    EXPECT(S_ISREG(is.st_mode));
    EXPECT_EQ(kin_rmdir(in("d")), -ENOTEMPTY);
    EXPECT_EQ(kin_remove(in("d")), -EISDIR);
    EXPECT_EQ(kin_remove(in("d/g")), 0);
    EXPECT_EQ(kin_remove(in("d/g")), -ENOENT);
    EXPECT_EQ(kin_rmdir(in("d")), 0);
    EXPECT_EQ(kin_rmdir(in("d")), -ENOENT);
    return 0;
}

KIN_TEST(names_are_made_changed_and_taken_away, "")
{
    with_dir(use_names);
}

#define FILES 700 /* more than one portion */

static int list(void *arg)
{
    struct kin_dir *open = NULL;
    struct kin_dirent entry;
    static unsigned char seen[FILES];
    char name[400];
    int fd, rc, count = 0;
    (void)arg;
    EXPECT_EQ(kin_opendir(in("none"), &open), -ENOENT);
    EXPECT_EQ(kin_opendir(dir, &open), 0);
    EXPECT_EQ(kin_readdir(open, &entry), 0); /* no "." and ".." */
    EXPECT_EQ(kin_readdir(open, &entry), 0);
    kin_closedir(open);
    kin_closedir(NULL);
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "%s/a-name-that-is-not-too-short-for-this-%d", dir, i);
        EXPECT_EQ(kin_open(name, O_WRONLY | O_CREAT, 0600, &fd), 0);
        EXPECT_EQ(kin_close(fd), 0);
    }
    EXPECT_EQ(kin_opendir(in("a-name-that-is-not-too-short-for-this-0"), &open), -ENOTDIR);
    EXPECT_EQ(kin_opendir(dir, &open), 0);
    while ((rc = kin_readdir(open, &entry)) > 0) {
        int i = atoi(strrchr(entry.name, '-') + 1);
        EXPECT(entry.type == DT_REG || entry.type == DT_UNKNOWN);
        EXPECT_EQ(seen[i]++, 0);
        snprintf(name, sizeof name, "%s/%s", dir, entry.name);
        EXPECT_EQ(kin_remove(name), 0);
        count++;
    }
    EXPECT_EQ(rc, 0);
    EXPECT_EQ(count, FILES);
    kin_closedir(open);
    return 0;
}

KIN_TEST(a_directory_gives_every_name_once, "")
{
    with_dir(list);
}

static int misuse(void *arg)
{
    char buf[4];
    int fd, fds[2];
    struct stat is;
    struct kin_dir *open;
    (void)arg;
    EXPECT_EQ(kin_open(NULL, O_RDONLY, 0, &fd), -EINVAL);
    EXPECT_EQ(kin_open("/", O_RDONLY, 0, NULL), -EINVAL);
    EXPECT_EQ(kin_pread(0, NULL, 1, 0), -EINVAL);
    EXPECT_EQ(kin_pwrite(0, NULL, 1, 0), -EINVAL);
    EXPECT_EQ(kin_rename(NULL, "x"), -EINVAL);
    EXPECT_EQ(kin_rename("x", NULL), -EINVAL);
    EXPECT_EQ(kin_remove(NULL), -EINVAL);
    EXPECT_EQ(kin_mkdir(NULL, 0), -EINVAL);
    EXPECT_EQ(kin_rmdir(NULL), -EINVAL);
    EXPECT_EQ(kin_stat(NULL, &is), -EINVAL);
    EXPECT_EQ(kin_stat("/", NULL), -EINVAL);
    EXPECT_EQ(kin_fstat(0, NULL), -EINVAL);
    EXPECT_EQ(kin_opendir(NULL, &open), -EINVAL);
    EXPECT_EQ(kin_opendir("/", NULL), -EINVAL);
    EXPECT_EQ(kin_readdir(NULL, NULL), -EINVAL);
    EXPECT_EQ(kin_pread(-1, buf, 1, 0), -EBADF);
    EXPECT_EQ(kin_fsync(-1), -EBADF);
    EXPECT_EQ(kin_fstat(-1, &is), -EBADF);
    EXPECT_EQ(pipe(fds), 0);
    fds[0] = renumber(fds[0], NUMBER_OF_OURS);
    EXPECT_EQ(kin_pread(fds[0], buf, 1, 0), -ESPIPE);
    EXPECT_EQ(kin_pwrite(fds[1], buf, 1, 0), -ESPIPE);
    EXPECT_EQ(kin_pread(fds[0], NULL, 0, 0), -ESPIPE); /* nothing is asked for, too */
    EXPECT_EQ(kin_pwrite(fds[1], NULL, 0, 0), -ESPIPE);
    EXPECT_EQ(kin_pread(fds[0], NULL, 0, -1), -EINVAL);
    EXPECT_EQ(kin_pwrite(fds[1], NULL, 0, -1), -EINVAL);
    EXPECT_EQ(kin_close(fds[0]), 0);
    EXPECT_EQ(kin_pread(fds[0], buf, 1, 0), -EBADF);
    EXPECT_EQ(kin_close(fds[1]), 0);
    EXPECT_EQ(kin_open("/", O_RDONLY, 0, &fd), 0);
    EXPECT_EQ(kin_pread(fd, buf, 1, 0), -EISDIR);
    EXPECT_EQ(kin_pread(fd, buf, 1, -5), -EINVAL);
    EXPECT_EQ(kin_pread(fd, buf, 0, -1), -EINVAL);
    EXPECT_EQ(kin_pread(fd, buf, 0, 0), -EISDIR);
    EXPECT_EQ(kin_pwrite(fd, buf, 0, 0), -EBADF);
    EXPECT_EQ(kin_close(fd), 0);
    return 0;
}

KIN_TEST(misuse_is_answered, "")
{
    int fd;
    EXPECT_EQ(kin_open("/", O_RDONLY, 0, &fd), KIN_NOTASK);
    EXPECT_EQ(kin_fsync(0), KIN_NOTASK);
    EXPECT_EQ(kin_remove("/no/such/file"), KIN_NOTASK);
    EXPECT_EQ(run_reporting(1, misuse, NULL, NULL), 0);
}

static int lack_capability(void *arg)
{
    int fd;
    char buf[1];
    (void)arg;
    EXPECT_EQ(kin_open("/", O_RDONLY, 0, &fd), KIN_NOCAP);
    EXPECT_EQ(kin_pread(0, buf, 1, 0), KIN_NOCAP);
    EXPECT_EQ(kin_fsync(0), KIN_NOCAP);
    EXPECT_EQ(kin_mkdir("/tmp", 0700), KIN_NOCAP);
    return 0;
}

static int exhaust(void *arg)
{
    struct stat is;
    (void)arg;
    EXPECT_EQ(kin_stat("/", &is), 0);
    EXPECT_EQ(kin_stat("/", &is), 0);
    EXPECT_EQ(kin_stat("/", &is), KIN_BUDGET);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_SYSCALLS);
    return 0;
}

static int give_little(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    (void)arg;
    options.caps = KIN_CAP_ALL & ~KIN_CAP_FILE;
    KIN_NURSERY(n, .on_exhausted = KIN_EXHAUSTED_FAIL, .recharge = KIN_RECHARGE_MANUAL);
    EXPECT_EQ(kin_spawn_with(&n, &options, lack_capability, NULL, 0, NULL), 0);
    options.caps = 0;
    options.budget = KIN_UNLIMITED_BUDGET;
    options.budget.syscalls = 2;
    EXPECT_EQ(kin_spawn_with(&n, &options, exhaust, NULL, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(files_cost_a_system_call_and_need_their_capability, "SCHED:3.3.1")
{
    EXPECT_EQ(run_reporting(1, give_little, NULL, NULL), 0);
}

#define TASKS 40
#define STEPS 30

struct share {
    int fd, index;
};

static int work_on_part(void *arg)
{
    struct share *share = arg;
    char out[100], back[100];
    for (int i = 0; i < STEPS; i++) {
        int64_t at = (int64_t)(share->index * STEPS + i) * (int64_t)sizeof out;
        memset(out, share->index + i, sizeof out);
        EXPECT_EQ(kin_pwrite(share->fd, out, sizeof out, at), sizeof out);
        EXPECT_EQ(kin_pread(share->fd, back, sizeof back, at), sizeof back);
        EXPECT(memcmp(out, back, sizeof out) == 0);
    }
    return 0;
}

static int share_a_file(void *arg)
{
    int fd;
    (void)arg;
    EXPECT_EQ(kin_open(in("shared"), O_RDWR | O_CREAT, 0600, &fd), 0);
    KIN_NURSERY(n);
    for (int i = 0; i < TASKS; i++)
        EXPECT_EQ(kin_spawn_copy(&n, work_on_part, KIN_ARGS(struct share, fd, i)), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_close(fd), 0);
    EXPECT_EQ(kin_remove(in("shared")), 0);
    return 0;
}

KIN_TEST(many_tasks_use_one_file_at_once, "")
{
    with_dir(share_a_file);
}

/* More than is copied on the worker, in one call. */
static int move_much(void *arg)
{
    size_t size = 5 * 1024 * 1024 + 13;
    unsigned char *out = malloc(size), *back = malloc(size + 1);
    int fd;
    (void)arg;
    EXPECT(out && back);
    for (size_t i = 0; i < size; i++)
        out[i] = (unsigned char)(i * 7 + i / 1000);
    EXPECT_EQ(kin_open(in("much"), O_RDWR | O_CREAT, 0600, &fd), 0);
    EXPECT_EQ(kin_pwrite(fd, out, size, 1), size);
    EXPECT_EQ(kin_pread(fd, back, size + 1, 0), size + 1);
    EXPECT_EQ(back[0], 0);
    EXPECT(memcmp(out, back + 1, size) == 0);
    EXPECT_EQ(kin_pread(fd, back, size + 1, 1), size); /* the file ends */
    EXPECT_EQ(kin_close(fd), 0);
    EXPECT_EQ(kin_remove(in("much")), 0);
    free(out);
    free(back);
    return 0;
}

KIN_TEST(large_pieces_arrive_whole, "")
{
    with_dir(move_much);
}

static int be_cancelled(void *arg)
{
    struct stat is;
    char buf[8];
    int fd;
    EXPECT_EQ(kin_open("/proc/self/stat", O_RDONLY, 0, &fd), 0);
    atomic_fetch_add((_Atomic int *)arg, 1);
    while (!kin_cancelled())
        kin_ignore(kin_yield());
    EXPECT_EQ(kin_stat("/", &is), KIN_CANCELLED);
    EXPECT_EQ(kin_remove("/no/such/file"), KIN_CANCELLED);
    kin_mask();
    EXPECT_EQ(kin_stat("/", &is), 0);
    EXPECT_GT(kin_pread(fd, buf, sizeof buf, 0), 0);
    kin_unmask();
    EXPECT_EQ(kin_close(fd), 0);
    return 0;
}

static int cancel_it(void *arg)
{
    _Atomic int begun = 0;
    struct kin_task_ref ref;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, NULL, be_cancelled, &begun, 0, &ref), 0);
    await(&begun, 1);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_cancel_keeps_a_call_from_beginning, "")
{
    EXPECT_EQ(run_reporting(1, cancel_it, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, cancel_it, NULL, NULL), 0);
}
