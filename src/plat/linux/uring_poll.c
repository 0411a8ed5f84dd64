/* SPDX-License-Identifier: MIT */
/*
 * A poller: io_uring, with a call for each direction that is watched.
 *
 * A watch tells once. A call that goes on telling would save one call for every wait, but it holds
 * the file: a descriptor that the program closes by itself would stay open behind its back, and so
 * would one of which kin has to wait for the end of the call. The call of a single watch is gone
 * when it has told. It costs no system call of its own: calls gather and go to the kernel together
 * with the next wait.
 *
 * The bell is a call that does nothing: its result ends the wait. Results of it, and of what ends a
 * watch, have names that no watch has.
 */
#define _GNU_SOURCE 1
#include "plat/poller.h"
#include "plat/uring.h"

#include <errno.h>
#include <poll.h>
#include <sys/stat.h>

#define CALLS 256u
#define RESULTS 2048u /* more are kept by the kernel, at some cost */
#define BATCH 32u
#define NOBODY UINT64_MAX

struct uring {
    struct kin__uring ring;
    /* who waits */
    uint32_t lost;                           /* results that are known to be lost */
    struct kin__uring_result results[BATCH]; /* hot, which the stack of a task is not */
};

static struct uring *uring_of(struct kin__poller *poller)
{
    return (struct uring *)(void *)poller;
}

static void uring_wake(struct kin__poller *poller)
{
    struct kin__uring *ring = &uring_of(poller)->ring;
    struct kin__uring_call call = {.verb = KIN__URING_NOP, .fd = -1, .name = NOBODY};
    while (kin__uring_queue(ring, &call) < 0) { /* ends: memory comes back */
        if (kin__uring_has_results(ring))
            return; /* no wait sleeps */
        kin__thread_yield();
    }
    kin__uring_submit_surely(ring);
}

/* ---- watching ---- */

/* Files on disks are ready at all times and cannot be waited for. 0, -EPERM, -EBADF. */
static int check(int fd)
{
    struct stat is;
    if (fstat(fd, &is) < 0)
        return -errno;
    return S_ISREG(is.st_mode) || S_ISDIR(is.st_mode) ? -EPERM : 0;
}

/* The kernel has the two halves of the word in the order of the machine. */
static uint32_t events_word(uint32_t events)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return events << 16 | events >> 16;
#else
    return events;
#endif
}

static int uring_watch(struct kin__poller *poller, int fd, uint64_t data, uint32_t bits,
                       bool is_known)
{
    struct kin__uring_call call = {.verb = KIN__URING_WATCH, .fd = fd, .name = data};
    int rc = is_known ? 0 : check(fd);
    if (rc < 0)
        return rc;
    call.flags = events_word(bits & KIN__READY_READ ? POLLIN : POLLOUT);
    return kin__uring_queue(&uring_of(poller)->ring, &call) < 0 ? -ENOMEM : 0;
}

/* At once: the number is closed next, and a call that is still in line would take another file. */
static void uring_unwatch(struct kin__poller *poller, int fd, uint64_t data)
{
    struct kin__uring *ring = &uring_of(poller)->ring;
    struct kin__uring_call call = {.verb = KIN__URING_UNWATCH, .fd = -1, .address = data,
                                   .name = NOBODY};
    (void)fd;
    if (ring->has_quiet)
        call.how = KIN__URING_QUIET;
    int rc;
    while ((rc = kin__uring_queue(ring, &call)) == -EAGAIN) /* ends: memory comes back */
        kin__thread_yield();
    if (rc == 0)
        (void)kin__uring_submit(ring); /* else with the next one: in order, so it ends what began */
}

/* ---- waiting ---- */

/* A failure or the end of the peer is for both directions: whoever waits finds out by trying. A
 * watch ends without telling when the thread has ended that began it. */
static uint32_t bits_of(int32_t value)
{
    uint32_t bits = 0;
    if (value < 0)
        return value == -ECANCELED ? KIN__READY_LOST : KIN__READY_READ | KIN__READY_WRITE;
    if (value & (POLLIN | POLLERR | POLLHUP))
        bits |= KIN__READY_READ;
    if (value & (POLLOUT | POLLERR | POLLHUP))
        bits |= KIN__READY_WRITE;
    if (value & (POLLERR | POLLHUP))
        bits |= KIN__READY_MORE;
    return bits;
}

static int gather(struct uring *uring, struct kin__ready *ready, int max)
{
    struct kin__uring_result *results = uring->results;
    uint32_t lost = kin__uring_lost(&uring->ring);
    int told = 0;
    if (KIN__UNLIKELY(lost != uring->lost)) {
        uring->lost = lost;
        ready[told++] = (struct kin__ready){KIN__POLLER_LOST, KIN__READY_LOST};
    }
    uint32_t room = (uint32_t)(max - told) < BATCH ? (uint32_t)(max - told) : BATCH;
    uint32_t count = kin__uring_take(&uring->ring, results, room);
    for (uint32_t i = 0; i < count; i++) {
        if (results[i].name != NOBODY)
            ready[told++] = (struct kin__ready){results[i].name, bits_of(results[i].value)};
    }
    return told;
}

/* What is in line goes to the kernel each time, even if there are results: else a busy descriptor
 * would keep others from being watched. */
static int uring_wait_any(struct kin__poller *poller, struct kin__ready *ready, int max, int64_t ns)
{
    struct uring *uring = uring_of(poller);
    kin__uring_wait(&uring->ring, kin__uring_has_results(&uring->ring) ? 0 : ns);
    return max > 0 ? gather(uring, ready, max) : 0;
}

/* ---- life ---- */

static void uring_destroy(struct kin__poller *poller)
{
    kin__uring_destroy(&uring_of(poller)->ring);
    kin__heap_free(poller);
}

static int uring_create(struct kin__poller **out)
{
    struct uring *uring = kin__heap_alloc(sizeof(*uring));
    if (!uring)
        return -ENOMEM;
    int rc = kin__uring_create(&uring->ring, CALLS, RESULTS, true);
    if (rc < 0) {
        kin__heap_free(uring);
        return rc;
    }
    *out = (struct kin__poller *)(void *)uring;
    if (kin__uring_has(&uring->ring, KIN__URING_NOP) &&
        kin__uring_has(&uring->ring, KIN__URING_WATCH) &&
        kin__uring_has(&uring->ring, KIN__URING_UNWATCH))
        return 0;
    uring_destroy(*out);
    return -EOPNOTSUPP;
}

const struct kin__poller_kind kin__poller_uring = {
    .name = "io_uring",
    .is_once = true,
    .create = uring_create,
    .destroy = uring_destroy,
    .watch = uring_watch,
    .unwatch = uring_unwatch,
    .wait = uring_wait_any,
    .wake = uring_wake,
};
