/* SPDX-License-Identifier: MIT */
/*
 * Goal: io_uring as a poller: what is peculiar to it.
 * Method: watches made directly, small rings, faults, a thread that ends. What all pollers do is in
 * poller_test.c.
 */
#include "kin_test.h"

#include "plat/poller.h"
#include "plat/uring.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct kin__poller_kind *const kind = &kin__poller_uring;

static struct kin__poller *make(void)
{
    struct kin__poller *poller = NULL;
    int rc = kind->create(&poller);
    if (rc == -ENOSYS || rc == -EPERM || rc == -EOPNOTSUPP)
        KIN_SKIP("io_uring is refused here");
    EXPECT_EQ(rc, 0);
    return poller;
}

KIN_TEST(a_watch_is_for_one_direction_and_tells_once, "")
{
    int fds[2];
    struct kin__ready ready[4];
    struct kin__poller *poller = make();
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    EXPECT_EQ(kind->watch(poller, fds[0], 1, KIN__READY_READ, false), 0);
    EXPECT_EQ(kind->wait(poller, ready, 4, 1000), 0); /* it can be written, which nobody asked */
    EXPECT_EQ(kind->watch(poller, fds[0], 2, KIN__READY_WRITE, true), 0);
    EXPECT_EQ(kind->wait(poller, ready, 4, -1), 1);
    EXPECT_EQ(ready[0].data, 2);
    EXPECT_EQ(ready[0].bits, KIN__READY_WRITE);
    EXPECT_EQ(write(fds[1], "x", 1), 1);
    EXPECT_EQ(kind->wait(poller, ready, 4, -1), 1);
    EXPECT_EQ(ready[0].data, 1);
    EXPECT_EQ(write(fds[1], "x", 1), 1);
    EXPECT_EQ(kind->wait(poller, ready, 4, 1000), 0);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
    kind->destroy(poller);
}

/* More at once than the ring has places for, in either direction. */
#define MANY 100

KIN_TEST(a_small_ring_tells_of_all, "")
{
    int fds[MANY][2];
    bool seen[MANY] = {false};
    struct kin__ready ready[8];
    struct kin__uring_faults small = {.places = 2};
    kin__uring_break(&small);
    struct kin__poller *poller = make();
    for (uint64_t i = 0; i < MANY; i++) {
        EXPECT_EQ(pipe(fds[i]), 0);
        EXPECT_EQ(kind->watch(poller, fds[i][0], i, KIN__READY_READ, false), 0);
    }
    EXPECT_EQ(kind->wait(poller, ready, 8, 0), 0);
    for (int i = 0; i < MANY; i++)
        EXPECT_EQ(write(fds[i][1], "x", 1), 1);
    for (int told = 0; told < MANY;) { /* ends: each is told once, or the alarm comes */
        int count = kind->wait(poller, ready, 8, -1);
        for (int i = 0; i < count; i++) {
            EXPECT_LT(ready[i].data, MANY);
            EXPECT(!seen[ready[i].data]);
            seen[ready[i].data] = true;
        }
        told += count;
    }
    for (int i = 0; i < MANY; i++) {
        EXPECT_EQ(close(fds[i][0]), 0);
        EXPECT_EQ(close(fds[i][1]), 0);
    }
    kind->destroy(poller);
}

struct armed {
    struct kin__poller *poller;
    int fd;
};

static void *watch_and_end(void *arg)
{
    struct armed *armed = arg;
    struct kin__ready ready[1];
    EXPECT_EQ(kind->watch(armed->poller, armed->fd, 3, KIN__READY_READ, false), 0);
    EXPECT_EQ(kind->wait(armed->poller, ready, 1, 0), 0); /* it is handed over by this thread */
    return NULL;
}

/* The kernel gives up what a thread began that has ended: the poller says that, or what is ready,
 * but not nothing. */
KIN_TEST(a_watch_whose_thread_has_ended_is_not_forgotten, "")
{
    int fds[2];
    struct kin__ready ready[1];
    pthread_t thread;
    struct armed armed = {make(), -1};
    EXPECT_EQ(pipe(fds), 0);
    armed.fd = fds[0];
    EXPECT_EQ(pthread_create(&thread, NULL, watch_and_end, &armed), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(write(fds[1], "x", 1), 1);
    int told = 0;
    while (told == 0) /* ends: or the alarm comes */
        told = kind->wait(armed.poller, ready, 1, -1);
    EXPECT_EQ(ready[0].data, 3);
    EXPECT(ready[0].bits == KIN__READY_LOST || ready[0].bits == KIN__READY_READ);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
    kind->destroy(armed.poller);
}

/* A kernel that is short of memory takes nothing for a while. */
KIN_TEST(enters_that_fail_delay_and_lose_nothing, "")
{
    static const int errors[] = {-EAGAIN, -EINTR, -EBUSY};
    int fds[2];
    struct kin__ready ready[4];
    struct kin__poller *poller = make();
    EXPECT_EQ(pipe(fds), 0);
    EXPECT_EQ(write(fds[1], "x", 1), 1);
    for (unsigned i = 0; i < 3; i++) {
        struct kin__uring_faults faults = {.enter = errors[i], .enters = 5};
        kin__uring_break(&faults);
        EXPECT_EQ(kind->watch(poller, fds[0], 10 + i, KIN__READY_READ, false), 0);
        int told = 0;
        while (told == 0) /* ends: or the alarm comes */
            told = kind->wait(poller, ready, 4, -1);
        EXPECT_EQ(told, 1);
        EXPECT_EQ(ready[0].data, 10 + i);
    }
    struct kin__uring_faults faults = {.enter = -EAGAIN, .enters = 5};
    kin__uring_break(&faults);
    kind->wake(poller); /* must not fail */
    EXPECT_EQ(kind->wait(poller, ready, 4, -1), 0);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
    kind->destroy(poller);
}

KIN_TEST(a_line_that_stays_full_is_want_of_memory, "")
{
    int fds[2];
    struct kin__uring_faults faults = {.places = 2};
    kin__uring_break(&faults);
    struct kin__poller *poller = make();
    EXPECT_EQ(pipe(fds), 0);
    EXPECT_EQ(kind->watch(poller, fds[0], 1, KIN__READY_READ, false), 0);
    EXPECT_EQ(kind->watch(poller, fds[0], 2, KIN__READY_READ, false), 0);
    faults = (struct kin__uring_faults){.enter = -EAGAIN, .enters = 1};
    kin__uring_break(&faults);
    EXPECT_EQ(kind->watch(poller, fds[0], 3, KIN__READY_READ, false), -ENOMEM);
    EXPECT_EQ(kind->watch(poller, fds[0], 3, KIN__READY_READ, false), 0);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
    kind->destroy(poller);
}

KIN_TEST(a_kernel_without_what_it_needs_is_refused, "")
{
    struct kin__poller *poller = make();
    kind->destroy(poller);
    struct kin__uring_faults faults = {.verbs = UINT64_C(1) << KIN__URING_UNWATCH};
    kin__uring_break(&faults);
    EXPECT_EQ(kind->create(&poller), -EOPNOTSUPP);
    faults = (struct kin__uring_faults){.setup = -ENOSYS};
    kin__uring_break(&faults);
    EXPECT_EQ(kind->create(&poller), -ENOSYS);
}
