/* SPDX-License-Identifier: MIT */
/*
 * Goal: system calls on files say -errno, do not wait when they must not, and read names right.
 * Method: a directory of the test's own, emptied at the end.
 */
#include "kin_test.h"

#include "plat/file.h"
#include "plat/plat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/kin-file-XXXXXX";
static char path[64], other[64];

static void enter(void)
{
    EXPECT(kin_test_mkdtemp(dir) != NULL);
    snprintf(path, sizeof(path), "%s/a", dir);
    snprintf(other, sizeof(other), "%s/b", dir);
}

static void leave(void)
{
    unlink(path);
    unlink(other);
    EXPECT_EQ(rmdir(dir), 0);
}

KIN_TEST(bytes_are_where_they_were_put, "")
{
    char buf[16] = {0};
    enter();
    EXPECT_EQ(kin__file_open(path, O_RDWR, 0, true), -ENOENT);
    EXPECT_EQ(kin__file_open(path, O_RDWR | O_CREAT, 0600, false), -EAGAIN); /* would wait */
    int fd = kin__file_open(path, O_RDWR | O_CREAT | O_EXCL, 0600, true);
    EXPECT_GE(fd, 0);
    EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_EQ(kin__file_open(path, O_RDWR | O_CREAT | O_EXCL, 0600, true), -EEXIST);
    EXPECT_EQ(kin__file_pwrite(fd, "hello", 5, 3, true), 5);
    EXPECT_EQ(kin__file_pread(fd, buf, sizeof(buf), 0, true), 8);
    EXPECT(memcmp(buf, "\0\0\0hello", 8) == 0);
    EXPECT_EQ(kin__file_pread(fd, buf, sizeof(buf), 8, true), 0);
    EXPECT_EQ(kin__file_pread(fd, buf, sizeof(buf), -1, true), -EINVAL);
    EXPECT_EQ(kin__file_pread(fd, buf, sizeof(buf), -1, false), -EAGAIN);
    EXPECT_EQ(kin__file_pwrite(fd, buf, sizeof(buf), -1, false), -EAGAIN);
    int64_t got = kin__file_pread(fd, buf, sizeof(buf), 0, false);
    EXPECT(got == 8 || got == -EAGAIN);
    got = kin__file_pread(fd, buf, sizeof(buf), 8, false);
    EXPECT(got == 0 || got == -EAGAIN);
    got = kin__file_pwrite(fd, "xy", 2, 0, false);
    EXPECT(got == 2 || got == -EAGAIN);
    EXPECT_EQ(kin__file_truncate(fd, 2), 0);
    EXPECT_EQ(kin__file_truncate(fd, -1), -EINVAL);
    EXPECT_EQ(kin__file_sync(fd, false), 0);
    EXPECT_EQ(kin__file_sync(fd, true), 0);
    struct stat is;
    EXPECT_EQ(kin__file_stat(NULL, fd, &is), 0);
    EXPECT_EQ(is.st_size, 2);
    EXPECT_EQ(kin__fd_close(fd), 0);
    EXPECT_EQ(kin__file_pread(fd, buf, 1, 0, true), -EBADF);
    EXPECT_EQ(kin__file_pread(fd, buf, 1, 0, false), -EBADF);
    EXPECT_EQ(kin__file_pwrite(fd, buf, 1, 0, false), -EBADF);
    EXPECT_EQ(kin__file_sync(fd, false), -EBADF);
    EXPECT_EQ(kin__file_stat(NULL, fd, &is), -EBADF);
    leave();
}

KIN_TEST(names_come_and_go, "")
{
    struct stat is;
    enter();
    EXPECT_EQ(kin__file_mkdir(path, 0700), 0);
    EXPECT_EQ(kin__file_mkdir(path, 0700), -EEXIST);
    EXPECT_EQ(kin__file_unlink(path), -EISDIR);
    EXPECT_EQ(kin__file_rename(path, other), 0);
    EXPECT_EQ(kin__file_rename(path, other), -ENOENT);
    EXPECT_EQ(kin__file_stat(other, -1, &is), 0);
    EXPECT(S_ISDIR(is.st_mode));
    EXPECT_EQ(kin__file_rmdir(dir), -ENOTEMPTY);
    EXPECT_EQ(kin__file_rmdir(other), 0);
    EXPECT_EQ(kin__file_stat(other, -1, &is), -ENOENT);
    EXPECT_EQ(kin__file_unlink(other), -ENOENT);
    leave();
}

KIN_TEST(entries_are_read_back, "")
{
    _Alignas(8) char bytes[1024];
    struct kin__file_entry entry;
    unsigned seen = 0;
    enter();
    EXPECT_EQ(kin__file_mkdir(path, 0700), 0);
    int fd = kin__file_open(other, O_WRONLY | O_CREAT, 0600, true);
    EXPECT_EQ(kin__file_entries(fd, bytes, sizeof(bytes)), -ENOTDIR);
    EXPECT_EQ(kin__fd_close(fd), 0);
    fd = kin__file_open(dir, O_RDONLY | O_DIRECTORY, 0, true);
    int64_t size = kin__file_entries(fd, bytes, sizeof(bytes));
    EXPECT_GT(size, 0);
    for (size_t at = 0; at < (size_t)size;) {
        at = kin__file_entry(bytes, at, &entry);
        EXPECT_NE(entry.inode, 0);
        if (strcmp(entry.name, "a") == 0)
            seen |= entry.type == DT_DIR || entry.type == DT_UNKNOWN ? 1 : 0;
        else if (strcmp(entry.name, "b") == 0)
            seen |= entry.type == DT_REG || entry.type == DT_UNKNOWN ? 2 : 0;
    }
    EXPECT_EQ(seen, 3);
    EXPECT_EQ(kin__file_entries(fd, bytes, sizeof(bytes)), 0);
    EXPECT_EQ(kin__fd_close(fd), 0);
    EXPECT_EQ(kin__file_rmdir(path), 0);
    leave();
}

KIN_TEST(opening_without_waiting_finds_what_is_known_or_says_that_it_would, "")
{
    enter();
    int fd = kin__file_open(path, O_WRONLY | O_CREAT, 0600, true);
    EXPECT_EQ(kin__fd_close(fd), 0);
    fd = kin__file_open(path, O_RDONLY, 0, false);
    EXPECT(fd >= 0 || fd == -EAGAIN);
    if (fd >= 0)
        EXPECT_EQ(kin__fd_close(fd), 0);
    EXPECT_EQ(kin__file_open("/no/such/place", O_RDONLY, 0, false), -EAGAIN);
    leave();
}

KIN_TEST(a_whole_file_is_loaded, "")
{
    char *text;
    size_t size;
    enter();
    EXPECT_EQ(kin__file_load(path, 100, &text, &size), -ENOENT);
    int fd = kin__file_open(path, O_WRONLY | O_CREAT, 0600, true);
    for (size_t bytes = 0; bytes < 20000; bytes = bytes * 3 + 1) {
        for (size_t i = 0; i < bytes; i++)
            EXPECT_EQ(kin__file_pwrite(fd, &"abcdefg"[i % 7], 1, (int64_t)i, true), 1);
        EXPECT_EQ(kin__file_load(path, bytes, &text, &size), 0);
        EXPECT_EQ(size, bytes);
        EXPECT_EQ(text[bytes], 0);
        for (size_t i = 0; i < bytes; i++)
            EXPECT_EQ(text[i], "abcdefg"[i % 7]);
        kin__heap_free(text);
        if (bytes)
            EXPECT_EQ(kin__file_load(path, bytes - 1, &text, &size), -EFBIG);
    }
    for (uint64_t n = 1; n <= 3; n++) {
        kin__plat_fail_after(n, true);
        EXPECT_EQ(kin__file_load(path, 100000, &text, &size), -ENOMEM);
        kin__plat_fail_after(0, false);
    }
    EXPECT_EQ(kin__fd_close(fd), 0);
    leave();
}
