/* SPDX-License-Identifier: MIT */
/*
 * Calls on descriptors that the program shares with others: without waiting where the kernel can,
 * else on a thread that may wait.
 *
 *     call that does not wait --> done, or not ready: the task waits for the poller
 *           | neither the kernel nor an open file of our own can (plat/linux/fd.c)
 *     ready, by a look --> kin__offload: the same call, which may wait after all
 *
 * The second way is rare: a terminal or a pipe of another user, the other side of a terminal, a
 * device. The task waits for its thread then, whatever comes, as it does in kin_blocking. Where no
 * thread can be had the worker makes the call.
 */
#include "wait/offload.h"
#include "wait/poll.h"

#include <errno.h>
#include <limits.h>

struct shared {
    enum { SHARED_READ, SHARED_WRITE, SHARED_SEND } verb;
    int fd, from;
    const struct iovec *parts;
    int count;
    int64_t *offset;
    size_t size;
    int64_t result;
};

static void perform(void *arg)
{
    struct shared *call = arg;
    if (call->verb == SHARED_READ)
        call->result = kin__fd_readv(call->fd, call->parts, call->count);
    else if (call->verb == SHARED_WRITE)
        call->result = kin__fd_writev_little(call->fd, call->parts, call->count);
    else
        call->result = kin__fd_sendfile(call->fd, call->from, call->offset, call->size);
}

/* Whether the kernel could not make the call without waiting. */
static bool must_wait(const struct kin__fd *fd, int64_t got)
{
    return KIN__UNLIKELY(got == -EOPNOTSUPP) && fd->manner > KIN__FD_SOCKET;
}

/* Has the call made where it may wait: what it returned, or why it was not made. */
static int64_t by_thread(struct shared *call)
{
    int rc = kin__offload(KIN__OFFLOAD_FILE, perform, call, KIN_NEVER);
    if (rc == -EAGAIN || rc == -ENOMEM) {
        perform(call);
        rc = 0;
    }
    return rc < 0 ? rc : call->result;
}

int64_t kin__fd_readv_shared(const struct kin__fd *fd, const struct iovec *parts, int count)
{
    struct shared call = {.verb = SHARED_READ, .fd = fd->fd, .parts = parts, .count = count};
    int64_t got = kin__fd_readv_as(fd->fd, (enum kin__fd_manner)fd->manner, parts, count);
    return must_wait(fd, got) ? by_thread(&call) : got;
}

int64_t kin__fd_writev_shared(const struct kin__fd *fd, const struct iovec *parts, int count)
{
    struct shared call = {.verb = SHARED_WRITE, .fd = fd->fd, .parts = parts, .count = count};
    int64_t put = kin__fd_writev_as(fd->fd, (enum kin__fd_manner)fd->manner, parts, count);
    return must_wait(fd, put) ? by_thread(&call) : put;
}

int64_t kin__fd_sendfile_shared(const struct kin__fd *to, int from, int64_t *offset, size_t size)
{
    struct shared call = {.verb = SHARED_SEND, .fd = to->fd, .from = from, .offset = offset,
                          .size = size < PIPE_BUF ? size : PIPE_BUF};
    int64_t put = kin__fd_sendfile_as(to->fd, (enum kin__fd_manner)to->manner, from, offset, size);
    return must_wait(to, put) ? by_thread(&call) : put;
}
