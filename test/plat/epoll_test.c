/* SPDX-License-Identifier: MIT */
/*
 * Goal: the poller reports each change once, with the data it was given, and a bell ends a wait.
 * Method: pipes and a socket pair, watched directly.
 */
#include "kin_test.h"

#include "plat/plat.h"

#include <errno.h>
#include <stdio.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

KIN_TEST(an_edge_is_reported_once, "")
{
    int fds[2];
    struct kin__ready ready[4];
    int set = kin__epoll_create();
    EXPECT_GE(set, 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    EXPECT_EQ(kin__epoll_add(set, fds[0], 77), 0);
    EXPECT_EQ(kin__epoll_add(set, fds[0], 77), -EEXIST);
    EXPECT_EQ(kin__epoll_wait(set, ready, 4, 0), 1); /* it can be written */
    EXPECT_EQ(ready[0].data, 77);
    EXPECT_EQ(ready[0].bits, KIN__READY_WRITE);
    EXPECT_EQ(kin__epoll_wait(set, ready, 4, 0), 0);
    EXPECT_EQ(write(fds[1], "x", 1), 1);
    EXPECT_EQ(kin__epoll_wait(set, ready, 4, 1000000000), 1);
    EXPECT_EQ(ready[0].bits, KIN__READY_READ | KIN__READY_WRITE);
    EXPECT_EQ(kin__epoll_wait(set, ready, 4, 1000), 0); /* nothing new */
    EXPECT_EQ(kin__epoll_rearm(set, fds[0], 78), 0);    /* told again */
    EXPECT_EQ(kin__epoll_wait(set, ready, 4, 0), 1);
    EXPECT_EQ(ready[0].data, 78);
    EXPECT_EQ(close(fds[1]), 0);
    EXPECT_EQ(kin__epoll_wait(set, ready, 4, 0), 1); /* the end is for both directions */
    EXPECT_EQ(ready[0].bits, KIN__READY_READ | KIN__READY_WRITE | KIN__READY_MORE);
    EXPECT_EQ(kin__epoll_remove(set, fds[0]), 0);
    EXPECT_EQ(kin__epoll_rearm(set, fds[0], 78), -ENOENT);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(set), 0);
}

KIN_TEST(a_file_cannot_be_watched, "")
{
    int set = kin__epoll_create();
    FILE *file = tmpfile();
    EXPECT(file != NULL);
    EXPECT_EQ(kin__epoll_add(set, fileno(file), 1), -EPERM);
    fclose(file);
    EXPECT_EQ(close(set), 0);
}

static void *ring_it(void *arg)
{
    usleep(20000);
    kin__bell_ring(*(int *)arg);
    return NULL;
}

KIN_TEST(a_bell_ends_a_wait_until_it_is_cleared, "")
{
    struct kin__ready ready[1];
    pthread_t thread;
    int set = kin__epoll_create(), bell = kin__bell_create();
    EXPECT_GE(bell, 0);
    EXPECT_EQ(kin__epoll_add(set, bell, 5), 0);
    kin__bell_clear(bell); /* harmless */
    (void)kin__epoll_wait(set, ready, 1, 0);
    EXPECT_EQ(pthread_create(&thread, NULL, ring_it, &bell), 0);
    EXPECT_EQ(kin__epoll_wait(set, ready, 1, -1), 1);
    EXPECT_EQ(ready[0].data, 5);
    EXPECT(ready[0].bits & KIN__READY_READ);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    kin__bell_ring(bell); /* rung twice, cleared once */
    kin__bell_clear(bell);
    (void)kin__epoll_wait(set, ready, 1, 0);
    EXPECT_EQ(kin__epoll_wait(set, ready, 1, 0), 0);
    kin__bell_ring(bell); /* before the wait */
    EXPECT_EQ(kin__epoll_wait(set, ready, 1, -1), 1);
    EXPECT_EQ(close(bell), 0);
    EXPECT_EQ(close(set), 0);
}

KIN_TEST(want_of_memory_is_told, "")
{
    kin__plat_fail_after(1, false);
    EXPECT_EQ(kin__epoll_create(), -ENOMEM);
    kin__plat_fail_after(1, false);
    EXPECT_EQ(kin__bell_create(), -ENOMEM);
    kin__plat_fail_after(0, false);
}
