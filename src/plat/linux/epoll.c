/* SPDX-License-Identifier: MIT */
/*
 * A poller: epoll, edge-triggered, with a bell to end a wait.
 */
#define _GNU_SOURCE 1
#include "plat/poller.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64 /* events fetched per call */
#define NS_PER_MS 1000000
#define BELL UINT64_MAX

/* A set of descriptors, and in it one that is ready from a ring on until it is cleared. */
struct epoll {
    int set, bell;
    struct epoll_event events[BATCH]; /* who waits; hot, which the stack of a task is not */
};

static struct epoll *epoll_of(struct kin__poller *poller)
{
    return (struct epoll *)(void *)poller;
}

/* ---- the bell ---- */

static void ring(int bell)
{
    uint64_t one = 1;
    while (write(bell, &one, sizeof(one)) < 0 && errno == EINTR) /* ends: nobody interrupts twice */
        continue;
}

static void clear(int bell)
{
    uint64_t count;
    while (read(bell, &count, sizeof(count)) < 0 && errno == EINTR) /* ends: as above */
        continue;
}

static void epoll_wake(struct kin__poller *poller)
{
    ring(epoll_of(poller)->bell);
}

/* ---- watching ---- */

static int control(int set, int operation, int fd, uint64_t data)
{
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET,
        .data.u64 = data,
    };
    return epoll_ctl(set, operation, fd, &event) < 0 ? -errno : 0;
}

/* A second time tells again what is ready now. One that is known and not there was closed, and this
 * is another one. */
static int epoll_watch(struct kin__poller *poller, int fd, uint64_t data, bool is_known)
{
    int set = epoll_of(poller)->set;
    int rc = control(set, is_known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, data);
    if (rc == -ENOENT)
        rc = control(set, EPOLL_CTL_ADD, fd, data);
    else if (rc == -EEXIST)
        rc = control(set, EPOLL_CTL_MOD, fd, data);
    return rc;
}

static void epoll_unwatch(struct kin__poller *poller, int fd)
{
    (void)control(epoll_of(poller)->set, EPOLL_CTL_DEL, fd, 0);
}

/* ---- waiting ---- */

/* A failure or the end of the peer is for both directions: whoever waits finds out by trying. */
static uint32_t bits_of(uint32_t events)
{
    uint32_t bits = 0;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLPRI | EPOLLHUP | EPOLLERR))
        bits |= KIN__READY_READ;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        bits |= KIN__READY_WRITE;
    if (events & (EPOLLRDHUP | EPOLLPRI | EPOLLHUP | EPOLLERR))
        bits |= KIN__READY_MORE;
    return bits;
}

/* With nanoseconds where the kernel has them, else with milliseconds, rounded up. */
static int wait_ns(int set, struct epoll_event *events, int max, int64_t ns)
{
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    int count = epoll_pwait2(set, events, max, &time, NULL);
    if (count >= 0 || errno != ENOSYS)
        return count;
    int64_t ms = (ns + NS_PER_MS - 1) / NS_PER_MS;
    return epoll_wait(set, events, max, ms > 1000000 ? 1000000 : (int)ms);
}

static int epoll_wait_any(struct kin__poller *poller, struct kin__ready *ready, int max, int64_t ns)
{
    struct epoll *epoll = epoll_of(poller);
    struct epoll_event *events = epoll->events;
    int told = 0;
    if (max > BATCH)
        max = BATCH;
    int count = ns <= 0 ? epoll_wait(epoll->set, events, max, ns < 0 ? -1 : 0)
                        : wait_ns(epoll->set, events, max, ns);
    for (int i = 0; i < count; i++) { /* none after an interruption: an early return */
        if (__builtin_expect(events[i].data.u64 == BELL, 0))
            clear(epoll->bell);
        else
            ready[told++] = (struct kin__ready){events[i].data.u64, bits_of(events[i].events)};
    }
    return told;
}

/* ---- life ---- */

static void epoll_destroy(struct kin__poller *poller)
{
    struct epoll *epoll = epoll_of(poller);
    if (epoll->bell >= 0)
        (void)close(epoll->bell);
    if (epoll->set >= 0)
        (void)close(epoll->set);
    kin__heap_free(epoll);
}

static int epoll_create_one(struct kin__poller **out)
{
    struct epoll *epoll = kin__heap_alloc(sizeof(*epoll));
    if (!epoll)
        return -ENOMEM;
    *epoll = (struct epoll){.set = -1, .bell = -1};
    int rc = -ENOMEM;
    if (!kin__plat_request())
        goto fail;
    if ((epoll->set = epoll_create1(EPOLL_CLOEXEC)) < 0) {
        rc = -errno;
        goto fail;
    }
    if (!kin__plat_request())
        goto fail;
    if ((epoll->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
        rc = -errno;
        goto fail;
    }
    rc = control(epoll->set, EPOLL_CTL_ADD, epoll->bell, BELL);
    if (rc < 0)
        goto fail;
    *out = (struct kin__poller *)(void *)epoll;
    return 0;
fail:
    epoll_destroy((struct kin__poller *)(void *)epoll);
    return rc;
}

const struct kin__poller_kind kin__poller_epoll = {
    .name = "epoll",
    .create = epoll_create_one,
    .destroy = epoll_destroy,
    .watch = epoll_watch,
    .unwatch = epoll_unwatch,
    .wait = epoll_wait_any,
    .wake = epoll_wake,
};
