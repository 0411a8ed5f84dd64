/* SPDX-License-Identifier: MIT */
/*
 * System calls on files, as plat/file.h wants them.
 *
 * Not to wait means: RWF_NOWAIT for bytes, which copies what is in the page cache, starts to read
 * what is not and says EAGAIN; RESOLVE_CACHED for names, which walks what is in the directory
 * cache. Where the kernel or the file system has neither, the answer is EAGAIN as well.
 */
#define _GNU_SOURCE 1
#include "plat/file.h"

#include "plat/plat.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef KIN__LAB /* the lab has files in front of these: lab/file.c */
#define kin__file_open kin__host_file_open
#define kin__file_pread kin__host_file_pread
#define kin__file_pwrite kin__host_file_pwrite
#define kin__file_sync kin__host_file_sync
#define kin__file_truncate kin__host_file_truncate
#define kin__file_rename kin__host_file_rename
#define kin__file_unlink kin__host_file_unlink
#define kin__file_rmdir kin__host_file_rmdir
#define kin__file_mkdir kin__host_file_mkdir
#define kin__file_stat kin__host_file_stat
#define kin__file_entries kin__host_file_entries
#define kin__file_load kin__host_file_load
#endif

#define CALL_OPENAT2 437    /* the same number on every machine */
#define RESOLVE_IN_CACHE 32 /* RESOLVE_CACHED of the kernel's header, which may be older */
#define LOAD_FIRST 4096u /* what most files that are loaded whole fit into */

static int64_t result(int64_t got)
{
    return got < 0 ? -errno : got;
}

/* What a call means that was not to wait. Where that is not possible it would have to; for any
 * other reason to refuse the caller asks again, and waits for the true one. */
static int64_t without_waiting(int64_t got)
{
    if (got >= 0 || errno == EBADF || errno == EIO || errno == ENOSPC)
        return result(got);
    return errno == EAGAIN || errno == EOPNOTSUPP ? -EAGAIN : -ENOTSUP;
}

/* Whether a file is in memory and nowhere else. Such file systems know no RWF_NOWAIT, and never
 * wait. */
static bool is_in_memory(int fd)
{
    struct statfs is;
    return fstatfs(fd, &is) == 0 && (is.f_type == TMPFS_MAGIC || is.f_type == RAMFS_MAGIC);
}

/* Whatever is wrong, the caller looks again and waits. */
static int open_cached(const char *path, int flags)
{
    struct {
        uint64_t flags, mode, resolve;
    } how = {(uint64_t)flags, 0, RESOLVE_IN_CACHE};
    int64_t fd = syscall(CALL_OPENAT2, AT_FDCWD, path, &how, sizeof(how));
    return fd < 0 ? -EAGAIN : (int)fd;
}

int kin__file_open(const char *path, int flags, unsigned mode, bool may_wait)
{
    int fd;
    flags |= O_CLOEXEC | O_NONBLOCK;
    if (!may_wait)
        return flags & (O_CREAT | O_TRUNC) ? -EAGAIN : open_cached(path, flags);
    do { /* ends: nobody interrupts for ever */
        fd = open(path, flags, (mode_t)mode);
    } while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

int64_t kin__file_pread(int fd, void *buf, size_t size, int64_t offset, bool may_wait)
{
    struct iovec part = {buf, size};
    ssize_t got = 0;
    if (!may_wait && offset < 0) /* -1 means something else to the call below */
        return -EAGAIN;
    if (!may_wait)
        got = preadv2(fd, &part, 1, (off_t)offset, RWF_NOWAIT);
    if (got > 0 || (got < 0 && !(errno == EOPNOTSUPP && is_in_memory(fd))))
        return without_waiting(got);
    /* The file is in memory; or there are no more bytes. Linux 5.9 and 5.10 say the latter where
     * some are still to come from the disk. At the true end this does not wait. */
    do { /* ends: as above */
        got = pread(fd, buf, size, (off_t)offset);
    } while (got < 0 && errno == EINTR);
    return result(got);
}

int64_t kin__file_pwrite(int fd, const void *buf, size_t size, int64_t offset, bool may_wait)
{
    struct iovec part = {(void *)(uintptr_t)buf, size};
    ssize_t put = 0;
    if (!may_wait && offset < 0) /* as above */
        return -EAGAIN;
    if (!may_wait)
        put = pwritev2(fd, &part, 1, (off_t)offset, RWF_NOWAIT);
    if (!may_wait && !(put < 0 && errno == EOPNOTSUPP && is_in_memory(fd)))
        return without_waiting(put);
    do { /* ends: as above */
        put = pwrite(fd, buf, size, (off_t)offset);
    } while (put < 0 && errno == EINTR);
    return result(put);
}

int kin__file_sync(int fd, bool is_data)
{
    int rc;
    do { /* ends: as above */
        rc = is_data ? fdatasync(fd) : fsync(fd);
    } while (rc < 0 && errno == EINTR);
    return (int)result(rc);
}

int kin__file_truncate(int fd, int64_t size)
{
    int rc;
    do { /* ends: as above */
        rc = ftruncate(fd, (off_t)size);
    } while (rc < 0 && errno == EINTR);
    return (int)result(rc);
}

int kin__file_rename(const char *from, const char *to)
{
    return (int)result(rename(from, to));
}

int kin__file_unlink(const char *path)
{
    return (int)result(unlink(path));
}

int kin__file_rmdir(const char *path)
{
    return (int)result(rmdir(path));
}

int kin__file_mkdir(const char *path, unsigned mode)
{
    return (int)result(mkdir(path, (mode_t)mode));
}

int kin__file_stat(const char *path, int fd, struct stat *out)
{
    return (int)result(path ? stat(path, out) : fstat(fd, out));
}

/* ---- directories ---- */

int64_t kin__file_entries(int fd, void *buf, size_t size)
{
    return result(syscall(SYS_getdents64, fd, buf, size > INT_MAX ? INT_MAX : size));
}

size_t kin__file_entry(const void *bytes, size_t at, struct kin__file_entry *out)
{
    const char *from = (const char *)bytes + at;
    struct kin__file_record head;
    const size_t name = offsetof(struct kin__file_record, name);
    memcpy(&head, from, name);
    *out = (struct kin__file_entry){head.inode, head.type, from + name};
    return at + head.size;
}

/* ---- whole files ---- */

/* Reads to the end of fd, in a buffer that grows. */
static int load(int fd, size_t max, char **out, size_t *size)
{
    size_t cap = LOAD_FIRST, have = 0;
    char *buf = kin__heap_alloc(cap);
    int64_t got = buf ? 1 : -ENOMEM;
    while (got > 0) { /* ends: the file does, or max is reached */
        if (have + 1 == cap) {
            char *larger = have > max ? NULL : kin__heap_alloc(cap * 2);
            got = have > max ? -EFBIG : larger ? 1 : -ENOMEM;
            if (!larger)
                break;
            memcpy(larger, buf, have); /* the rest is zero, and one byte of it stays */
            kin__heap_free(buf);
            buf = larger;
            cap *= 2;
        }
        got = kin__file_pread(fd, buf + have, cap - 1 - have, (int64_t)have, true);
        have += got > 0 ? (size_t)got : 0;
    }
    if (got == 0 && have > max)
        got = -EFBIG;
    if (got < 0) {
        kin__heap_free(buf);
        return (int)got;
    }
    *out = buf;
    *size = have;
    return 0;
}

int kin__file_load(const char *path, size_t max, char **out, size_t *size)
{
    int fd = kin__file_open(path, O_RDONLY, 0, true);
    if (fd < 0)
        return fd;
    int rc = load(fd, max, out, size);
    (void)close(fd);
    return rc;
}
