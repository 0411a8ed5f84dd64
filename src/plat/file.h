/* SPDX-License-Identifier: MIT */
/*
 * System calls on files. All block until the disk has answered, retry when they are interrupted and
 * return -errno; those with a may_wait that is false answer -EAGAIN instead of blocking.
 */
#ifndef KIN_PLAT_FILE_H
#define KIN_PLAT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stat;

/* The descriptor, close-on-exec and non-blocking, or -errno. */
int kin__file_open(const char *path, int flags, unsigned mode, bool may_wait);
/* One call: how many bytes, which may be fewer than asked for. Without waiting, -EAGAIN means that
 * it is a file and would wait, -ENOTSUP that something else is wrong, and the same call says what
 * if it may wait. */
int64_t kin__file_pread(int fd, void *buf, size_t size, int64_t offset, bool may_wait);
int64_t kin__file_pwrite(int fd, const void *buf, size_t size, int64_t offset, bool may_wait);
/* is_data: without what is not needed to read the file again. */
int kin__file_sync(int fd, bool is_data);
int kin__file_truncate(int fd, int64_t size);
int kin__file_rename(const char *from, const char *to);
int kin__file_unlink(const char *path);
int kin__file_rmdir(const char *path);
int kin__file_mkdir(const char *path, unsigned mode);
/* Of a path, or of a descriptor when path is NULL. */
int kin__file_stat(const char *path, int fd, struct stat *out);

/* An entry of a directory, as the kernel writes it; glibc's own struct is the same on every 64-bit
 * machine only. */
struct kin__file_record {
    uint64_t inode;
    int64_t next;
    uint16_t size; /* of the record, with its name and a zero, a multiple of 8 */
    unsigned char type;
    char name[];
};
/* Fills buf with entries of a directory: how many bytes, 0 at the end. */
int64_t kin__file_entries(int fd, void *buf, size_t size);
/* One entry of those, at bytes[at]; name is inside of bytes. Where the next one begins. */
struct kin__file_entry {
    uint64_t inode;
    unsigned char type;
    const char *name;
};
size_t kin__file_entry(const void *bytes, size_t at, struct kin__file_entry *out);

/* Reads a whole file of at most max bytes into memory of kin__heap_alloc, with a zero behind it.
 * 0, -EFBIG, -ENOMEM, -errno. */
int kin__file_load(const char *path, size_t max, char **out, size_t *size);

#ifdef KIN__LAB
/* The same, in a run of the lab too. */
int kin__host_file_open(const char *path, int flags, unsigned mode, bool may_wait);
int64_t kin__host_file_pread(int fd, void *buf, size_t size, int64_t offset, bool may_wait);
int64_t kin__host_file_pwrite(int fd, const void *buf, size_t size, int64_t offset, bool may_wait);
int kin__host_file_sync(int fd, bool is_data);
int kin__host_file_truncate(int fd, int64_t size);
int kin__host_file_rename(const char *from, const char *to);
int kin__host_file_unlink(const char *path);
int kin__host_file_rmdir(const char *path);
int kin__host_file_mkdir(const char *path, unsigned mode);
int kin__host_file_stat(const char *path, int fd, struct stat *out);
int64_t kin__host_file_entries(int fd, void *buf, size_t size);
int kin__host_file_load(const char *path, size_t max, char **out, size_t *size);
#endif

#endif
