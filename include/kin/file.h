/* SPDX-License-Identifier: MIT */
/*
 * Files: calls that park the task while the disk works.
 *
 * These calls take no deadline, because disks answer. A deadline or a cancellation of the scope
 * around ends a call that has not begun; one that has begun runs to its end, and a read or write of
 * many megabytes ends between two pieces, with what was moved by then. What the system has in
 * memory is read at once; everything else is done by the kernel behind io_uring, or by threads that
 * are there for it, so no worker waits for a disk: config.poller chooses, kin_stats_get tells.
 * (kin_read and kin_write work on files too, but their worker waits.) Where the system has no more
 * threads, a call that needs one is over with -EAGAIN in less than a second.
 *
 * In the lab the files are those of the run, in memory: see kin_lab_crash_files.
 *
 * Every call needs KIN_CAP_FILE, costs 1 op and 1 syscall and answers KIN_NOTASK outside a task;
 * -EINVAL for a NULL that may not be; KIN_CANCELLED, KIN_TIMEOUT, KIN_BUDGET, KIN_NOCAP when it has
 * not begun; -EAGAIN or -ENOMEM when no thread can be had; else what the system says.
 *
 *     int fd;
 *     char head[512];
 *     int rc = kin_open("notes.txt", O_RDONLY, 0, &fd);
 *     if (rc == 0) {
 *         ssize_t got = kin_pread(fd, head, sizeof head, 0);
 *         kin_close(fd);
 *     }
 */
#ifndef KIN_FILE_H
#define KIN_FILE_H

#include <kin/base.h>
#include <kin/io.h>
#include <kin/status.h>

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

KIN_BEGIN_DECLS

/**
 * kin_open - open or create a file.
 * @path:  borrowed.
 * @flags: as for open(2): O_RDONLY, O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND, O_DIRECTORY, ...
 *         O_CLOEXEC and O_NONBLOCK are always added: a program that is started does not inherit the
 *         descriptor, and opening a FIFO or a device does not wait for its other side.
 * @mode:  permissions of a file that is created, such as 0666.
 * @fd:    receives the descriptor, to be closed with kin_close.
 *
 * Example:
 *     int touch(const char *path)
 *     {
 *         int fd;
 *         int rc = kin_open(path, O_WRONLY | O_CREAT, 0666, &fd);
 *         return rc < 0 ? rc : kin_close(fd);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  before it has begun
 * Budget:  1 op, 1 syscall; needs KIN_CAP_FILE
 * Returns: 0, -ENOENT, -EACCES, -EEXIST, -EMFILE, ...
 */
KIN_API KIN_MUST_USE int kin_open(const char *path, int flags, mode_t mode, int *fd);

/**
 * kin_pread - read from a place in a file.
 * @fd:     a file.
 * @buf:    receives the bytes.
 * @size:   how many.
 * @offset: where they begin.
 *
 * Example:
 *     ssize_t read_page(int fd, char page[4096], int64_t number)
 *     {
 *         return kin_pread(fd, page, 4096, number * 4096);
 *     }
 *
 * From:    task
 * Parks:   yes, unless the bytes are in memory
 * Cancel:  before it has begun
 * Budget:  1 op, 1 syscall; needs KIN_CAP_FILE
 * Returns: how many bytes: fewer than @size only at the end of the file, or when an error came
 *          behind them, which the next call reports; 0 at the end; KIN_CLOSED when kin_close came
 *          before it began; -EBADF, -EIO, -EISDIR, -ESPIPE, ...
 */
KIN_API KIN_MUST_USE ssize_t kin_pread(int fd, void *buf, size_t size, int64_t offset);

/**
 * kin_pwrite - write to a place in a file.
 * @fd:     a file. One that was opened with O_APPEND is written at its end, whatever @offset says.
 * @buf:    borrowed.
 * @size:   how many bytes.
 * @offset: where they go.
 *
 * Example:
 *     ssize_t write_page(int fd, const char page[4096], int64_t number)
 *     {
 *         return kin_pwrite(fd, page, 4096, number * 4096);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  before it has begun
 * Budget:  1 op, 1 syscall; needs KIN_CAP_FILE
 * Returns: @size; less when an error came behind that many, which the next call reports; KIN_CLOSED
 *          when kin_close came before it began; -EBADF, -EIO, -ENOSPC, -EFBIG, ...
 */
KIN_API KIN_MUST_USE ssize_t kin_pwrite(int fd, const void *buf, size_t size, int64_t offset);

/**
 * kin_fsync - wait until a file is on the disk.
 * @fd: a file or a directory.
 *
 * Example:
 *     int save(int fd, const void *state, size_t size)
 *     {
 *         ssize_t put = kin_pwrite(fd, state, size, 0);
 *         return put < 0 ? (int)put : kin_fsync(fd);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  before it has begun
 * Budget:  1 op, 1 syscall; needs KIN_CAP_FILE
 * Returns: 0, KIN_CLOSED when kin_close came before it began, -EBADF, -EIO, -ENOSPC, ...
 */
KIN_API KIN_MUST_USE int kin_fsync(int fd);

/**
 * kin_fdatasync - the same without what is not needed to read the file again, such as its times.
 * @fd: a file.
 *
 * Example:
 *     int append_for_good(int fd, const char *line, size_t size)
 *     {
 *         int rc = kin_write(fd, line, size, NULL, KIN_NEVER);
 *         return rc < 0 ? rc : kin_fdatasync(fd);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Needs:   KIN_CAP_FILE
 * Budget:  1 op, 1 syscall
 * Returns: as kin_fsync
 */
KIN_API KIN_MUST_USE int kin_fdatasync(int fd);

/**
 * kin_ftruncate - give a file another length; what is added reads as zeros.
 * @fd:   a file, open for writing.
 * @size: its length from then on.
 *
 * Example:
 *     int empty(int fd)
 *     {
 *         return kin_ftruncate(fd, 0);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Needs:   KIN_CAP_FILE
 * Budget:  1 op, 1 syscall
 * Returns: as kin_fsync; -EINVAL
 */
KIN_API KIN_MUST_USE int kin_ftruncate(int fd, int64_t size);

/**
 * kin_rename - give a file or directory another name, in one step.
 * @from: borrowed.
 * @to:   borrowed; what has that name already is replaced.
 *
 * Example:
 *     int replace(const char *path, const char *draft, int fd)
 *     {
 *         int rc = kin_fsync(fd);
 *         return rc < 0 ? rc : kin_rename(draft, path);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  before it has begun
 * Budget:  1 op, 1 syscall; needs KIN_CAP_FILE
 * Returns: 0, -ENOENT, -EACCES, -EXDEV, -ENOTEMPTY, ...
 */
KIN_API KIN_MUST_USE int kin_rename(const char *from, const char *to);

/**
 * kin_remove - take a name of a file away; the file goes with the last one.
 * @path: borrowed.
 *
 * Example:
 *     #include <errno.h>
 *
 *     int forget(const char *path)
 *     {
 *         int rc = kin_remove(path);
 *         return rc == -ENOENT ? 0 : rc;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Needs:   KIN_CAP_FILE
 * Budget:  1 op, 1 syscall
 * Returns: 0, -ENOENT, -EISDIR, -EACCES, ...
 */
KIN_API KIN_MUST_USE int kin_remove(const char *path);

/**
 * kin_mkdir - make a directory.
 * @path: borrowed.
 * @mode: its permissions, such as 0777.
 *
 * Example:
 *     #include <errno.h>
 *
 *     int need_directory(const char *path)
 *     {
 *         int rc = kin_mkdir(path, 0755);
 *         return rc == -EEXIST ? 0 : rc;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Needs:   KIN_CAP_FILE
 * Budget:  1 op, 1 syscall
 * Returns: 0, -EEXIST, -ENOENT, -EACCES, ...
 */
KIN_API KIN_MUST_USE int kin_mkdir(const char *path, mode_t mode);

/**
 * kin_rmdir - take an empty directory away.
 * @path: borrowed.
 *
 * Example:
 *     int remove_pair(const char *file, const char *directory)
 *     {
 *         int rc = kin_remove(file);
 *         return rc < 0 ? rc : kin_rmdir(directory);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Needs:   KIN_CAP_FILE
 * Budget:  1 op, 1 syscall
 * Returns: 0, -ENOTEMPTY, -ENOENT, -ENOTDIR, ...
 */
KIN_API KIN_MUST_USE int kin_rmdir(const char *path);

/**
 * kin_stat - what the system knows about the file that has a name.
 * @path: borrowed; a symbolic link stands for what it points at.
 * @out:  receives it.
 *
 * Example:
 *     #include <sys/stat.h>
 *
 *     int is_directory(const char *path)
 *     {
 *         struct stat is;
 *         int rc = kin_stat(path, &is);
 *         return rc < 0 ? rc : S_ISDIR(is.st_mode);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Needs:   KIN_CAP_FILE
 * Budget:  1 op, 1 syscall
 * Returns: 0, -ENOENT, -ENOTDIR, -EACCES, ...
 */
KIN_API KIN_MUST_USE int kin_stat(const char *path, struct stat *out);

/**
 * kin_fstat - what the system knows about an open file.
 * @fd:  a descriptor.
 * @out: receives it.
 *
 * Example:
 *     #include <sys/stat.h>
 *
 *     int64_t size_of(int fd)
 *     {
 *         struct stat is;
 *         int rc = kin_fstat(fd, &is);
 *         return rc < 0 ? rc : is.st_size;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Needs:   KIN_CAP_FILE
 * Budget:  1 op, 1 syscall
 * Returns: 0, KIN_CLOSED when kin_close came before it began, -EBADF
 */
KIN_API KIN_MUST_USE int kin_fstat(int fd, struct stat *out);

/* A directory that is being read. */
struct kin_dir;

/* One name in a directory. */
struct kin_dirent {
    uint64_t inode;
    unsigned char type; /* DT_REG, DT_DIR, DT_LNK, ... of <dirent.h>; DT_UNKNOWN: ask kin_stat */
    char name[256];
};

/**
 * kin_opendir - begin to read the names in a directory.
 * @path: borrowed.
 * @dir:  receives the directory, to be closed with kin_closedir.
 *
 * Example:
 *     int list(const char *path)
 *     {
 *         struct kin_dir *dir;
 *         struct kin_dirent entry;
 *         int rc = kin_opendir(path, &dir);
 *         if (rc < 0)
 *             return rc;
 *         while ((rc = kin_readdir(dir, &entry)) > 0)
 *             puts(entry.name);
 *         kin_closedir(dir);
 *         return rc;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  before it has begun
 * Budget:  1 op, 1 syscall; needs KIN_CAP_FILE, memory until kin_closedir
 * Returns: 0, -ENOENT, -ENOTDIR, -EACCES, ..., -ENOMEM, KIN_BUDGET
 */
KIN_API KIN_MUST_USE int kin_opendir(const char *path, struct kin_dir **dir);

/**
 * kin_readdir - the next name in a directory, in no order; "." and ".." are left out.
 * @dir:   one task at a time.
 * @entry: receives it.
 *
 * Example:
 *     int count_names(struct kin_dir *dir, size_t *count)
 *     {
 *         struct kin_dirent entry;
 *         int rc;
 *         while ((rc = kin_readdir(dir, &entry)) > 0)
 *             ++*count;
 *         return rc;
 *     }
 *
 * From:    task
 * Parks:   yes, once for some hundred names
 * Budget:  1 op, 1 syscall; needs KIN_CAP_FILE
 * Returns: 1, 0 when there are no more, -errno
 */
KIN_API KIN_MUST_USE int kin_readdir(struct kin_dir *dir, struct kin_dirent *entry);

/**
 * kin_closedir - end reading a directory.
 * @dir: given; NULL does nothing.
 *
 * Example:
 *     int can_list(const char *path)
 *     {
 *         struct kin_dir *dir;
 *         int rc = kin_opendir(path, &dir);
 *         if (rc == 0)
 *             kin_closedir(dir);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: nothing
 */
KIN_API void kin_closedir(struct kin_dir *dir);

KIN_END_DECLS

#endif
