/* SPDX-License-Identifier: MIT */
/*
 * The poller of Linux: epoll, edge-triggered, with a bell to end a wait.
 */
#define _GNU_SOURCE 1
#include "plat/plat.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64 /* events fetched per call */
#define NS_PER_MS 1000000

int kin__epoll_create(void)
{
    if (!kin__plat_request())
        return -ENOMEM;
    int set = epoll_create1(EPOLL_CLOEXEC);
    return set < 0 ? -errno : set;
}

static int control(int set, int operation, int fd, uint64_t data)
{
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET,
        .data.u64 = data,
    };
    return epoll_ctl(set, operation, fd, &event) < 0 ? -errno : 0;
}

int kin__epoll_add(int set, int fd, uint64_t data)
{
    return control(set, EPOLL_CTL_ADD, fd, data);
}

int kin__epoll_rearm(int set, int fd, uint64_t data)
{
    return control(set, EPOLL_CTL_MOD, fd, data);
}

int kin__epoll_remove(int set, int fd)
{
    return control(set, EPOLL_CTL_DEL, fd, 0);
}

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

int kin__epoll_wait(int set, struct kin__ready *ready, int max, int64_t ns)
{
    struct epoll_event events[BATCH];
    if (max > BATCH)
        max = BATCH;
    int count = ns <= 0 ? epoll_wait(set, events, max, ns < 0 ? -1 : 0)
                        : wait_ns(set, events, max, ns);
    for (int i = 0; i < count; i++)
        ready[i] = (struct kin__ready){events[i].data.u64, bits_of(events[i].events)};
    return count > 0 ? count : 0; /* an interruption is an early return */
}

int kin__bell_create(void)
{
    if (!kin__plat_request())
        return -ENOMEM;
    int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return bell < 0 ? -errno : bell;
}

void kin__bell_ring(int bell)
{
    uint64_t one = 1;
    while (write(bell, &one, sizeof(one)) < 0 && errno == EINTR) /* ends: nobody interrupts twice */
        continue;
}

void kin__bell_clear(int bell)
{
    uint64_t count;
    while (read(bell, &count, sizeof(count)) < 0 && errno == EINTR) /* ends: as above */
        continue;
}
