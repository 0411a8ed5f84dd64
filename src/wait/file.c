/* SPDX-License-Identifier: MIT */
/*
 * Files: what is in memory at once, the rest on a thread that may wait for the disk.
 *
 *     try without waiting --> done
 *           | EAGAIN
 *     carry_out(request) --> kin__offload: perform(request) on its thread
 *
 * Every call is a request, and carry_out is the one place that decides who performs it: a poller
 * that takes files along goes there. A request on a descriptor enters it when it is performed: if
 * the number was closed while the request was in line, it ends with KIN_CLOSED instead of reaching
 * into whatever has the number by then.
 *
 * A large read copies its first part on the worker and leaves the rest to the thread, even if all
 * of it is in memory: a worker that copies a gigabyte keeps its tasks waiting as a disk would.
 */
#include <kin/file.h>

#include "plat/file.h"
#include "sched/entry.h"
#include "task/budget.h"
#include "wait/offload.h"
#include "wait/poll.h"

#include <errno.h>
#include <string.h>

#define INLINE_MAX ((size_t)1024 * 1024) /* bytes copied on the worker in one call */
#define ENTRIES_BYTES ((size_t)32 * 1024)

enum verb { OPEN, READ, WRITE, SYNC, SYNC_DATA, TRUNCATE, RENAME, UNLINK, RMDIR, MKDIR, STAT,
            ENTRIES };

struct request {
    enum verb verb;
    struct kin__fd fd; /* entry is NULL: it has none */
    const char *path, *to;
    int flags;
    unsigned mode;
    union {
        void *into;
        const void *from;
    };
    size_t size;
    int64_t offset;
    int64_t result;
};

/* ---- on the thread ---- */

static int64_t read_all(const struct request *request)
{
    size_t have = 0;
    int64_t got = 1;
    while (got > 0 && have < request->size) { /* ends: less is left each time, or the end is */
        got = kin__file_pread(request->fd.fd, (char *)request->into + have, request->size - have,
                              request->offset + (int64_t)have, true);
        have += got > 0 ? (size_t)got : 0;
    }
    return have ? (int64_t)have : got < 0 ? got : 0;
}

static int64_t write_all(const struct request *request)
{
    size_t put = 0;
    int64_t got = 1;
    while (got > 0 && put < request->size) { /* ends: less is left each time */
        got = kin__file_pwrite(request->fd.fd, (const char *)request->from + put,
                               request->size - put, request->offset + (int64_t)put, true);
        put += got > 0 ? (size_t)got : 0;
    }
    return put ? (int64_t)put : got < 0 ? got : 0;
}

static int64_t perform_one(const struct request *request)
{
    int fd = request->fd.fd;
    switch (request->verb) {
    case OPEN:
        return kin__file_open(request->path, request->flags, request->mode, true);
    case READ:
        return read_all(request);
    case WRITE:
        return write_all(request);
    case SYNC:
    case SYNC_DATA:
        return kin__file_sync(fd, request->verb == SYNC_DATA);
    case TRUNCATE:
        return kin__file_truncate(fd, request->offset);
    case RENAME:
        return kin__file_rename(request->path, request->to);
    case UNLINK:
        return kin__file_unlink(request->path);
    case RMDIR:
        return kin__file_rmdir(request->path);
    case MKDIR:
        return kin__file_mkdir(request->path, request->mode);
    case STAT:
        return kin__file_stat(request->path, fd, request->into);
    case ENTRIES:
        return kin__file_entries(fd, request->into, request->size);
    }
    return -ENOSYS;
}

static void perform(void *arg)
{
    struct request *request = arg;
    if (!request->fd.entry) {
        request->result = perform_one(request);
    } else if (kin__fd_enter(&request->fd)) {
        request->result = perform_one(request);
        kin__fd_leave(&request->fd);
    } else {
        request->result = KIN_CLOSED;
    }
}

/* ---- in the task ---- */

/* What every call begins with. */
static int begin(void)
{
    struct kin__task *task = kin__task_self();
    if (KIN__UNLIKELY(!task))
        return KIN_NOTASK;
    kin__entry_check(task);
    return kin__op(task, KIN_CAP_FILE | KIN__COST_SYSCALL, KIN_NEVER);
}

/* Has the request performed by whoever may wait for the disk: its result. */
static int64_t carry_out(struct request *request)
{
    int rc = kin__offload(KIN__OFFLOAD_FILE, perform, request, KIN_NEVER);
    return rc < 0 ? rc : request->result;
}

/* The same for a call on a descriptor that says 0 or why not. */
static int carry_out_on(int fd, struct request *request)
{
    int rc = begin();
    if (rc == 0)
        rc = kin__fd_begin_try(fd, &request->fd);
    return rc < 0 ? rc : (int)carry_out(request);
}

/* The same for a call on a name. */
static int carry_out_path(struct request *request)
{
    int rc = begin();
    return rc < 0 ? rc : (int)carry_out(request);
}

/* Opens, without charging for it. */
static int open_file(const char *path, int flags, unsigned mode, int *out)
{
    int fd = kin__file_open(path, flags, mode, false);
    if (fd == -EAGAIN) {
        struct request request = {.verb = OPEN, .path = path, .flags = flags, .mode = mode};
        fd = (int)carry_out(&request);
    }
    int rc = fd < 0 ? fd : kin__fd_opened(fd);
    if (rc == 0)
        *out = fd;
    return rc;
}

int kin_open(const char *path, int flags, mode_t mode, int *fd)
{
    if (!path || !fd)
        return -EINVAL;
    int rc = begin();
    return rc < 0 ? rc : open_file(path, flags, (unsigned)mode, fd);
}

/* Does of a read or write what can be done without waiting: how much, or -errno. */
static int64_t try_now(const struct request *request)
{
    size_t size = request->size < INLINE_MAX ? request->size : INLINE_MAX;
    int fd = request->fd.fd;
    if (KIN__UNLIKELY(!kin__fd_enter(&request->fd)))
        return KIN_CLOSED;
    int64_t got = request->verb == READ
                      ? kin__file_pread(fd, request->into, size, request->offset, false)
                      : kin__file_pwrite(fd, request->from, size, request->offset, false);
    kin__fd_leave(&request->fd);
    return got;
}

/* A read or a write: at once as far as that goes, then on the thread. */
static ssize_t transfer(int fd, struct request *request)
{
    int rc = begin();
    if (rc == 0)
        rc = kin__fd_begin_try(fd, &request->fd);
    if (rc < 0)
        return rc;
    if (request->size > INT64_MAX)
        return -EINVAL;
    int64_t got = try_now(request);
    if (KIN__LIKELY(got == (int64_t)request->size || got == 0 || (got < 0 && got != -EAGAIN)))
        return (ssize_t)got;
    size_t done = got > 0 ? (size_t)got : 0;
    request->into = (char *)request->into + done;
    request->size -= done;
    request->offset += (int64_t)done;
    got = carry_out(request);
    if (done == 0)
        return (ssize_t)got;
    return (ssize_t)done + (got > 0 ? (ssize_t)got : 0);
}

ssize_t kin_pread(int fd, void *buf, size_t size, int64_t offset)
{
    struct request request = {.verb = READ, .into = buf, .size = size, .offset = offset};
    return size && !buf ? -EINVAL : transfer(fd, &request);
}

ssize_t kin_pwrite(int fd, const void *buf, size_t size, int64_t offset)
{
    struct request request = {.verb = WRITE, .from = buf, .size = size, .offset = offset};
    return size && !buf ? -EINVAL : transfer(fd, &request);
}

int kin_fsync(int fd)
{
    return carry_out_on(fd, &(struct request){.verb = SYNC});
}

int kin_fdatasync(int fd)
{
    return carry_out_on(fd, &(struct request){.verb = SYNC_DATA});
}

int kin_ftruncate(int fd, int64_t size)
{
    return carry_out_on(fd, &(struct request){.verb = TRUNCATE, .offset = size});
}

int kin_rename(const char *from, const char *to)
{
    if (!from || !to)
        return -EINVAL;
    return carry_out_path(&(struct request){.verb = RENAME, .path = from, .to = to});
}

int kin_unlink(const char *path)
{
    return path ? carry_out_path(&(struct request){.verb = UNLINK, .path = path}) : -EINVAL;
}

int kin_rmdir(const char *path)
{
    return path ? carry_out_path(&(struct request){.verb = RMDIR, .path = path}) : -EINVAL;
}

int kin_mkdir(const char *path, mode_t mode)
{
    struct request request = {.verb = MKDIR, .path = path, .mode = (unsigned)mode};
    return path ? carry_out_path(&request) : -EINVAL;
}

int kin_stat(const char *path, struct stat *out)
{
    if (!path || !out)
        return -EINVAL;
    return carry_out_path(&(struct request){.verb = STAT, .path = path, .into = out});
}

int kin_fstat(int fd, struct stat *out)
{
    return out ? carry_out_on(fd, &(struct request){.verb = STAT, .into = out}) : -EINVAL;
}

/* ---- directories ---- */

struct kin_dir {
    int fd;
    size_t at, end; /* what is left in bytes */
    _Alignas(8) char bytes[ENTRIES_BYTES];
};

int kin_opendir(const char *path, struct kin_dir **out)
{
    if (!path || !out)
        return -EINVAL;
    int rc = begin();
    if (rc < 0)
        return rc;
    struct kin_dir *dir = kin__heap_alloc(sizeof(*dir));
    if (!dir)
        return -ENOMEM;
    rc = open_file(path, O_RDONLY | O_DIRECTORY, 0, &dir->fd);
    if (rc < 0)
        kin__heap_free(dir);
    else
        *out = dir;
    return rc;
}

/* Reads the next entries: how many bytes, 0 at the end. */
static int refill(struct kin_dir *dir)
{
    struct request request = {.verb = ENTRIES, .into = dir->bytes, .size = sizeof(dir->bytes)};
    int rc = kin__fd_begin_try(dir->fd, &request.fd);
    if (rc < 0)
        return rc;
    int64_t got = carry_out(&request);
    if (got < 0)
        return (int)got;
    dir->at = 0;
    dir->end = (size_t)got;
    return (int)got;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

int kin_readdir(struct kin_dir *dir, struct kin_dirent *out)
{
    struct kin__file_entry entry;
    if (!dir || !out)
        return -EINVAL;
    int rc = begin();
    if (rc < 0)
        return rc;
    do { /* ends: there are two such names in a directory */
        if (dir->at >= dir->end && (rc = refill(dir)) <= 0)
            return rc;
        dir->at = kin__file_entry(dir->bytes, dir->at, &entry);
    } while (is_dots(entry.name));
    out->inode = entry.inode;
    out->type = entry.type;
    size_t size = strnlen(entry.name, sizeof(out->name) - 1);
    memcpy(out->name, entry.name, size);
    out->name[size] = '\0';
    return 1;
}

void kin_closedir(struct kin_dir *dir)
{
    if (!dir)
        return;
    (void)kin_close(dir->fd);
    kin__heap_free(dir);
}
