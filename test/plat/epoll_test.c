/* SPDX-License-Identifier: MIT */
/*
 * Goal: epoll as a poller: each change is told once, with the data it was given.
 * Method: pipes and a socket pair, watched directly. What all pollers do is in poller_test.c.
 */
#include "kin_test.h"

#include "plat/poller.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct kin__poller_kind *const kind = &kin__poller_epoll;

KIN_TEST(an_edge_is_told_once, "")
{
    int fds[2];
    struct kin__ready ready[4];
    struct kin__poller *poller;
    EXPECT_EQ(kind->create(&poller), 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    EXPECT_EQ(kind->watch(poller, fds[0], 77, false), 0);
    EXPECT_EQ(kind->wait(poller, ready, 4, 0), 1); /* it can be written */
    EXPECT_EQ(ready[0].data, 77);
    EXPECT_EQ(ready[0].bits, KIN__READY_WRITE);
    EXPECT_EQ(kind->wait(poller, ready, 4, 0), 0);
    EXPECT_EQ(write(fds[1], "x", 1), 1);
    EXPECT_EQ(kind->wait(poller, ready, 4, 1000000000), 1);
    EXPECT_EQ(ready[0].bits, KIN__READY_READ | KIN__READY_WRITE);
    EXPECT_EQ(kind->wait(poller, ready, 4, 1000), 0); /* nothing new */
    EXPECT_EQ(kind->watch(poller, fds[0], 78, true), 0); /* told again */
    EXPECT_EQ(kind->wait(poller, ready, 4, 0), 1);
    EXPECT_EQ(ready[0].data, 78);
    EXPECT_EQ(close(fds[1]), 0);
    EXPECT_EQ(kind->wait(poller, ready, 4, 0), 1); /* the end is for both directions */
    EXPECT_EQ(ready[0].bits, KIN__READY_READ | KIN__READY_WRITE | KIN__READY_MORE);
    kind->unwatch(poller, fds[0]);
    EXPECT_EQ(close(fds[0]), 0);
    kind->destroy(poller);
}

/* The caller need not know whether the number is still the descriptor that was watched. */
KIN_TEST(what_is_known_wrongly_is_put_right, "")
{
    int fds[2];
    struct kin__ready ready[4];
    struct kin__poller *poller;
    EXPECT_EQ(kind->create(&poller), 0);
    EXPECT_EQ(pipe(fds), 0);
    EXPECT_EQ(kind->watch(poller, fds[1], 1, true), 0); /* it never was */
    EXPECT_EQ(kind->watch(poller, fds[1], 2, false), 0); /* it is */
    EXPECT_EQ(kind->wait(poller, ready, 4, 0), 1);
    EXPECT_EQ(ready[0].data, 2);
    EXPECT_EQ(close(fds[1]), 0);
    EXPECT_EQ(close(fds[0]), 0);
    kind->destroy(poller);
}
