/* SPDX-License-Identifier: MIT */
/*
 * Copying between descriptors, through the kernel where it can.
 *
 *     one is a pipe                 splice        nothing is held in between
 *     from is a file                sendfile      nothing is held in between
 *     others, the first 64 KiB      a buffer      most copies are short: two calls, no descriptors
 *     others, what comes after      two splices   through a pipe of our own
 *
 * A descriptor that blocks, because the program opened it so, is moved to and from by splice if it
 * is a pipe, else by the buffer: the other calls of the kernel would wait for it.
 *
 * Which way works is found out by trying: the kernel answers -EINVAL, and the next one is tried.
 * The buffer works always. A step of a splice that is not ready does not say which of the two ends
 * is the reason; both are looked at, and only one that is not ready is waited for: an event of one
 * that is ready may never come.
 */
#include <kin/reader.h>

#include "plat/plat.h"
#include "sched/entry.h"
#include "task/budget.h"
#include "wait/poll.h"
#include "wait/timer.h"

#include <errno.h>

#define STEP ((size_t)65536)      /* the most that is moved at a time: what a pipe holds */
#define BUFFER ((size_t)16384)
#define SHORT ((uint64_t)65536)   /* copies of less than that need no pipe */
#define IDLE_MAX 16               /* steps that moved nothing though both ends were ready */

enum way { SPLICE, SENDFILE, THROUGH_BUFFER, THROUGH_PIPE };

struct copy {
    struct kin__fd to, from;
    uint64_t left;           /* of what may be copied */
    struct kin_copied done;
    kin_time deadline;       /* of each wait ... */
    kin_time until;          /* ... and of the whole; 0 is none: nothing is waited for */
    unsigned needs;          /* capabilities */
    enum way way;
    bool blocks;             /* one of the two would wait in the kernel */
    bool has_no_pipe;        /* it was tried, or may not be: the buffer it is */
    unsigned idle;
    size_t held, at;         /* taken and not given: in the buffer from at on, or in the pipe */
    char *buf;               /* NULL: not needed yet */
    int pipe[2];             /* -1: as above */
};

/* One system call from a number to another, neither of which means something else meanwhile. */
static int64_t move(const struct copy *copy, int64_t (*make)(int to, int from, size_t size),
                    size_t size)
{
    if (!kin__fd_enter(&copy->from))
        return KIN_CLOSED;
    int64_t got = KIN_CLOSED;
    if (kin__fd_enter(&copy->to)) {
        got = make(copy->to.fd, copy->from.fd, size);
        kin__fd_leave(&copy->to);
    }
    kin__fd_leave(&copy->from);
    return got;
}

static int64_t make_sendfile(int to, int from, size_t size)
{
    return kin__fd_sendfile(to, from, NULL, size);
}

/* One of the ends: not ready, so waits for it. 1, or why not. */
static int wait_for(struct kin__fd *fd, unsigned bit, kin_time deadline)
{
    int rc = kin__fd_wait(fd, bit, deadline);
    return rc < 0 ? rc : 1;
}

/* Either end is not ready. 1: try again; or why not. */
static int wait_either(struct copy *copy)
{
    int rc = kin__fd_look(copy->from.fd, KIN__READY_READ);
    if (rc == 0)
        return wait_for(&copy->from, KIN__READY_READ, copy->deadline);
    if (rc > 0)
        rc = kin__fd_look(copy->to.fd, KIN__READY_WRITE);
    if (rc == 0)
        return wait_for(&copy->to, KIN__READY_WRITE, copy->deadline);
    if (rc > 0 && ++copy->idle == IDLE_MAX)
        copy->way = THROUGH_BUFFER;
    return rc;
}

/* What may be moved at most in the next step. */
static size_t step_size(const struct copy *copy, size_t most)
{
    return copy->left < most ? (size_t)copy->left : most;
}

static void count_taken(struct copy *copy, int64_t got)
{
    copy->done.taken += (uint64_t)got;
    copy->left -= (uint64_t)got;
    copy->idle = 0;
}

/* ---- nothing held in between ---- */

/* 1: goes on; 0: the end; or why not. */
static int step_direct(struct copy *copy)
{
    int64_t got = move(copy, copy->way == SPLICE ? kin__fd_splice : make_sendfile,
                       step_size(copy, STEP));
    if (got > 0) {
        count_taken(copy, got);
        copy->done.given += (uint64_t)got;
        return 1;
    }
    if (got == -EAGAIN)
        return wait_either(copy);
    if (got == -EINVAL || got == -ENOSYS) {
        copy->way = copy->way == SPLICE && !copy->blocks ? SENDFILE : THROUGH_BUFFER;
        return 1;
    }
    return (int)got;
}

/* ---- through a buffer or a pipe ---- */

static int64_t take(struct copy *copy)
{
    if (!kin__fd_enter(&copy->from))
        return KIN_CLOSED;
    int fd = copy->from.fd;
    int64_t got = copy->way == THROUGH_PIPE
                      ? kin__fd_splice(copy->pipe[1], fd, step_size(copy, STEP))
                      : kin__fd_read_some(&copy->from, copy->buf, step_size(copy, BUFFER));
    kin__fd_leave(&copy->from);
    return got;
}

static int64_t give(struct copy *copy)
{
    if (!kin__fd_enter(&copy->to))
        return KIN_CLOSED;
    int fd = copy->to.fd;
    int64_t got = copy->way == THROUGH_PIPE
                      ? kin__fd_splice(fd, copy->pipe[0], copy->held)
                      : kin__fd_write_some(&copy->to, copy->buf + copy->at, copy->held);
    kin__fd_leave(&copy->to);
    return got;
}

/* The pipe cannot be used after all: what it holds, if anything, is read back. */
static int leave_pipe(struct copy *copy)
{
    copy->way = THROUGH_BUFFER;
    copy->has_no_pipe = true;
    KIN__ASSERT(copy->held <= STEP, "house");
    if (copy->held == 0)
        return 1;
    kin__heap_free(copy->buf); /* there is more in the pipe than it holds */
    if (!(copy->buf = kin__heap_alloc(STEP)))
        return -ENOMEM;
    int64_t got = kin__fd_read(copy->pipe[0], copy->buf, copy->held);
    copy->at = 0;
    return got < 0 ? (int)got : got == (int64_t)copy->held ? 1 : -EIO;
}

/* Gets what the way needs. 1 or -ENOMEM. */
static int prepare(struct copy *copy)
{
    if (copy->way == THROUGH_BUFFER && copy->done.taken >= SHORT && !copy->has_no_pipe) {
        bool has_pipe = kin__fd_pipe(copy->pipe) == 0; /* without one it is a little slower */
        copy->has_no_pipe = !has_pipe;
        copy->way = has_pipe ? THROUGH_PIPE : THROUGH_BUFFER;
    }
    if (copy->way == THROUGH_BUFFER && !copy->buf && !(copy->buf = kin__heap_alloc(BUFFER)))
        return -ENOMEM;
    return 1;
}

static int step_taking(struct copy *copy)
{
    int rc = prepare(copy);
    if (rc < 0)
        return rc;
    int64_t got = take(copy);
    if (got > 0) {
        copy->held = (size_t)got;
        copy->at = 0;
        count_taken(copy, got);
        return 1;
    }
    if (got == -EAGAIN) /* the pipe is empty: it is the other end */
        return wait_for(&copy->from, KIN__READY_READ, copy->deadline);
    if (got == -EINVAL && copy->way == THROUGH_PIPE)
        return leave_pipe(copy);
    return (int)got;
}

static int step_giving(struct copy *copy)
{
    int64_t got = give(copy);
    if (got > 0) {
        copy->done.given += (uint64_t)got;
        copy->held -= (size_t)got;
        copy->at += (size_t)got;
        return 1;
    }
    if (got == -EAGAIN)
        return wait_for(&copy->to, KIN__READY_WRITE, copy->deadline);
    if (got == -EINVAL && copy->way == THROUGH_PIPE)
        return leave_pipe(copy);
    return got < 0 ? (int)got : -EIO; /* a write that writes nothing would go on for ever */
}

/* ---- the whole ---- */

static int run(struct copy *copy, struct kin__task *task)
{
    int rc = 1;
    while (rc > 0 && (copy->left || copy->held)) { /* ends: as waits do; each step is charged */
        if (copy->held) {
            rc = step_giving(copy);
            continue;
        }
        rc = kin__op(task, KIN__COST_SYSCALL | copy->needs, copy->deadline);
        if (rc == 0 && copy->done.taken && copy->until != KIN_NEVER &&
            kin__clock_now() >= copy->until)
            rc = KIN_TIMEOUT; /* bytes that never stop coming do not keep it going */
        if (rc == 0)
            rc = copy->way <= SENDFILE ? step_direct(copy) : step_taking(copy);
    }
    return rc < 0 ? rc : 0;
}

static bool is_moved_by_splice(const struct kin__fd *fd)
{
    return fd->manner == KIN__FD_FREE || fd->manner == KIN__FD_PIPE;
}

/* 0, or why nothing can be copied: the buffer would be given only after a byte was taken. */
static int choose_way(struct copy *copy)
{
    copy->blocks = copy->to.manner != KIN__FD_FREE || copy->from.manner != KIN__FD_FREE;
    copy->has_no_pipe = copy->blocks;
    if (is_moved_by_splice(&copy->to) && is_moved_by_splice(&copy->from))
        return 0;
    copy->way = THROUGH_BUFFER;
    return copy->left ? kin__fd_takes(copy->to.fd) : 0;
}

int kin_copy(int to, int from, uint64_t max, struct kin_copied *done, kin_time deadline)
{
    struct copy copy = {.left = max, .deadline = deadline, .pipe = {-1, -1}};
    struct kin__task *task = kin__task_self();
    int rc = KIN_NOTASK;
    if (task) {
        kin__entry_check(task);
        copy.until = kin__deadline_of(task, deadline);
        if (copy.until == 0)
            copy.until = KIN_NEVER;
        copy.needs = kin__fd_needs(task, from) | kin__fd_needs(task, to);
        rc = kin__fd_begin_try(from, &copy.from);
        if (rc == 0)
            rc = kin__fd_begin_try(to, &copy.to);
        if (rc == 0)
            rc = choose_way(&copy);
        if (rc == 0)
            rc = run(&copy, task);
    }
    kin__heap_free(copy.buf);
    for (unsigned i = 0; i < 2; i++) {
        if (copy.pipe[i] >= 0)
            (void)kin__fd_close(copy.pipe[i]);
    }
    if (done)
        *done = copy.done;
    return rc;
}
