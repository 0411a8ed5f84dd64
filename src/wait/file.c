/* SPDX-License-Identifier: MIT */
/*
 * Files: what is in memory at once, the rest behind a ring or on a thread that may wait for a disk.
 *
 *     try without waiting --> done
 *           | would wait
 *     carry_out(request) --> kin__files_perform: the kernel does it, the ring brings the result
 *           | no ring, or not for this
 *           +--------------> kin__offload: perform(request) on its thread
 *
 * Every call is a request, and carry_out is the one place that decides who performs it. A request
 * on a descriptor enters it when it is performed: if the number was closed while the request was in
 * line, it ends with KIN_CLOSED instead of reaching into whatever has the number by then. Behind a
 * ring the kernel may look the number up late, on a thread of its own, so the descriptor is left
 * only when the result is there.
 *
 * What the ring refuses (-EAGAIN, -EOPNOTSUPP, -EINVAL) a thread is asked again: it says what is
 * truly wrong, or does it.
 *
 * What is in memory is copied on the worker in pieces, between which others run: a worker that
 * copies a gigabyte at once keeps its tasks waiting as a disk would. For the same reason the ring
 * is asked to leave large reads, and all writes, to a thread of the kernel. What goes there goes in
 * pieces, too: between two of them the task hears that it is cancelled, or that its time is over.
 */
#include <kin/file.h>

#include "plat/file.h"
#include "sched/entry.h"
#include "task/bill.h"
#include "task/budget.h"
#include "wait/offload.h"
#include "wait/poll.h"
#include "wait/timer.h"
#include "wait/uring.h"

#include <errno.h>
#include <string.h>

#define INLINE_MAX ((size_t)1024 * 1024) /* bytes copied on the worker before others run */
#define RING_INLINE_MAX ((size_t)128 * 1024) /* likewise by the kernel when it takes a call */
#define CARRY_MAX ((size_t)8 * 1024 * 1024) /* bytes that somebody else moves in one go */
#define ENTRIES_BYTES ((size_t)32 * 1024)

enum verb { OPEN, READ, WRITE, SYNC, SYNC_DATA, TRUNCATE, RENAME, UNLINK, RMDIR, MKDIR, STAT,
            ENTRIES };

struct request {
    enum verb verb;
    bool is_for_thread; /* a ring would take it for something else */
    struct kin__fd fd;  /* entry is NULL: it has none */
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
    char *at = request->into; /* NULL for a size of 0, perhaps */
    size_t have = 0;
    int64_t got;
    do { /* ends: less is left each time, or the end is. A size of 0 is asked, too */
        got = kin__file_pread(request->fd.fd, at, request->size - have,
                              request->offset + (int64_t)have, true);
        if (got > 0) {
            have += (size_t)got;
            at += got;
        }
    } while (got > 0 && have < request->size);
    return have ? (int64_t)have : got < 0 ? got : 0;
}

static int64_t write_all(const struct request *request)
{
    const char *at = request->from;
    size_t put = 0;
    int64_t got;
    do { /* ends: as above */
        got = kin__file_pwrite(request->fd.fd, at, request->size - put,
                               request->offset + (int64_t)put, true);
        if (got > 0) {
            put += (size_t)got;
            at += got;
        }
    } while (got > 0 && put < request->size);
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

/* ---- behind the ring ---- */

static uint64_t address(const void *memory)
{
    return (uint64_t)(uintptr_t)memory;
}

/* The request as a call of the ring, but for what is read and written. False: it cannot be one. */
static bool describe(const struct request *request, struct kin__uring_call *call)
{
    *call = (struct kin__uring_call){.fd = request->fd.entry ? request->fd.fd : KIN__URING_HERE,
                                     .address = address(request->path)};
    switch (request->verb) {
    case OPEN:
        call->verb = KIN__URING_OPEN;
        call->flags = (uint32_t)(request->flags | O_CLOEXEC | O_NONBLOCK);
        call->size = request->mode;
        return true;
    case READ:
    case WRITE:
        call->verb = request->verb == READ ? KIN__URING_READ : KIN__URING_WRITE;
        if (request->verb == WRITE || request->size > RING_INLINE_MAX)
            call->how = KIN__URING_ASYNC;
        return request->offset >= 0 && kin__uring_may_touch(request->from, request->size);
    case SYNC:
    case SYNC_DATA:
        call->verb = KIN__URING_FSYNC;
        call->flags = request->verb == SYNC_DATA ? KIN__URING_DATA_ONLY : 0;
        return true;
    case TRUNCATE:
        call->verb = KIN__URING_TRUNCATE;
        call->offset = (uint64_t)request->offset;
        return request->offset >= 0;
    case RENAME:
        call->verb = KIN__URING_RENAME;
        call->second = address(request->to);
        call->size = (uint32_t)KIN__URING_HERE;
        return true;
    case UNLINK:
    case RMDIR:
        call->verb = KIN__URING_UNLINK;
        call->flags = request->verb == RMDIR ? KIN__URING_DIRECTORY : 0;
        return true;
    case MKDIR:
        call->verb = KIN__URING_MKDIR;
        call->size = request->mode;
        return true;
    case STAT:
        call->verb = KIN__URING_STAT;
        call->size = KIN__URING_BASIC;
        if (!request->path) {
            call->address = address("");
            call->flags = KIN__URING_BY_FD;
        }
        return true;
    case ENTRIES:
        return false;
    }
    return false;
}

/* Reads or writes all of it. */
static bool transfer_by_ring(struct kin__files *files, const struct request *request,
                             struct kin__uring_call *call, int64_t *result)
{
    size_t done = 0;
    int64_t got = 1;
    while (got > 0 && done < request->size) { /* ends: less is left each time, or the end is */
        size_t left = request->size - done;
        call->address = address((const char *)request->from + done);
        call->size = (uint32_t)(left < KIN__URING_SIZE_MAX ? left : KIN__URING_SIZE_MAX);
        call->offset = (uint64_t)request->offset + done;
        if (!kin__files_perform(files, call, &got))
            got = -EAGAIN;
        done += got > 0 ? (size_t)got : 0;
    }
    kin__uring_touched(request->from, done, request->verb == READ);
    *result = done ? (int64_t)done : got < 0 ? got : 0;
    return true;
}

static __attribute__((noinline)) bool stat_by_ring(struct kin__files *files,
                                                   const struct request *request,
                                                   struct kin__uring_call *call, int64_t *result)
{
    struct kin__uring_stat stat;
    call->second = address(&stat);
    bool has_begun = kin__files_perform(files, call, result);
    if (has_begun && *result == 0)
        kin__uring_stat_of(&stat, request->into);
    return has_begun;
}

/* Has the kernel perform the request. False: it has not, and somebody else must. */
static bool perform_by_ring(struct kin__files *files, struct request *request)
{
    struct kin__uring_call call;
    int64_t result = 0;
    bool has_begun;
    if (!describe(request, &call) || !kin__files_has(files, call.verb))
        return false;
    if (request->fd.entry && !kin__fd_enter(&request->fd)) {
        request->result = KIN_CLOSED;
        return true;
    }
    if (request->verb == READ || request->verb == WRITE)
        has_begun = transfer_by_ring(files, request, &call, &result);
    else if (request->verb == STAT)
        has_begun = stat_by_ring(files, request, &call, &result);
    else
        has_begun = kin__files_perform(files, &call, &result);
    if (request->fd.entry)
        kin__fd_leave(&request->fd);
    request->result = result;
    return has_begun && result != -EAGAIN && result != -EOPNOTSUPP && result != -EINVAL;
}

/* ---- in the task ---- */

/* What every call begins with. */
static int begin(void)
{
    return kin__entry_begin(kin__task_self(), KIN_CAP_FILE | KIN__COST_SYSCALL, KIN_NEVER);
}

/* Has the request performed by whoever may wait for the disk: its result. */
static int64_t carry_out(struct request *request)
{
    struct kin__files *files = request->is_for_thread ? NULL : kin__poll_files();
    if (KIN__LIKELY(files != NULL) && perform_by_ring(files, request))
        return request->result;
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

/* Between two pieces: 0, or why the task does not go on. */
static int hear(void)
{
    struct kin__task *task = kin__task_self();
    int rc = kin__park_asked(task);
    kin_time deadline = kin__deadline_of(task, KIN_NEVER);
    return rc == 0 && deadline != KIN_NEVER && deadline <= kin__clock_now() ? KIN_TIMEOUT : rc;
}

/* Does what can be done without waiting, in pieces between which others run: how much in all; *got
 * is what came last. */
static size_t transfer_now(struct request *request, int64_t *got)
{
    size_t done = 0;
    for (;;) { /* ends: less is left each time, or nothing more comes at once */
        *got = try_now(request);
        if (KIN__UNLIKELY(*got <= 0))
            return done;
        done += (size_t)*got;
        request->into = (char *)request->into + *got;
        request->offset += *got;
        request->size -= (size_t)*got;
        if (KIN__LIKELY(request->size == 0))
            return done;
        if ((size_t)*got < INLINE_MAX)
            continue;
        kin__worker_yield(kin__task_self());
        if ((*got = hear()) < 0)
            return done;
    }
}

/* Has the rest moved by somebody who may wait, in pieces: how much, or why nothing. */
static int64_t carry_pieces(struct request *request)
{
    size_t left = request->size, done = 0;
    int64_t got;
    do { /* ends: less is left each time, or the end is. A size of 0 is asked, too */
        request->size = left < CARRY_MAX ? left : CARRY_MAX;
        got = done ? hear() : 0;
        if (got == 0)
            got = carry_out(request);
        if (got > 0) {
            done += (size_t)got;
            left -= (size_t)got;
            request->into = (char *)request->into + got;
            request->offset += got;
        }
    } while (got > 0 && (size_t)got == request->size && left > 0);
    return done ? (int64_t)done : got;
}

/* A read or a write: at once as far as that goes, the rest by somebody who may wait. */
static ssize_t transfer(int fd, struct request *request)
{
    int64_t got;
    int rc = begin();
    if (rc == 0)
        rc = kin__fd_begin_try(fd, &request->fd);
    if (rc < 0)
        return rc;
    if (request->size > INT64_MAX)
        return -EINVAL;
    size_t done = transfer_now(request, &got);
    if (KIN__UNLIKELY(got == -EAGAIN || got == -ENOTSUP)) {
        request->is_for_thread = got == -ENOTSUP;
        got = carry_pieces(request);
        done += got > 0 ? (size_t)got : 0;
    }
    return done ? (ssize_t)done : (ssize_t)got;
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

int kin_remove(const char *path)
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
    struct kin__bill bill; /* constant */
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
    struct kin__bill bill;
    rc = kin__bill_take(&bill, kin__task_self(), sizeof(struct kin_dir));
    if (rc < 0)
        return rc;
    struct kin_dir *dir = kin__heap_alloc(sizeof(*dir));
    rc = dir ? open_file(path, O_RDONLY | O_DIRECTORY, 0, &dir->fd) : -ENOMEM;
    if (rc < 0) {
        kin__heap_free(dir);
        kin__bill_give(bill);
        return rc;
    }
    dir->bill = bill;
    *out = dir;
    return 0;
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
    kin__bill_give(dir->bill);
    kin__heap_free(dir);
}
