/* SPDX-License-Identifier: MIT */
/*
 * Goal: what every poller does, whatever the system has behind it.
 * Method: each test with each kind, by its table.
 */
#include "kin_test.h"

#include "plat/poller.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct kin__poller_kind *const kinds[] = {&kin__poller_epoll};
#define KINDS 1

/* Runs a test on each kind that the system has. */
static void on_each(void (*test)(const struct kin__poller_kind *kind, struct kin__poller *poller))
{
    for (unsigned i = 0; i < KINDS; i++) {
        struct kin__poller *poller = NULL;
        EXPECT_EQ(kinds[i]->create(&poller), 0);
        test(kinds[i], poller);
        kinds[i]->destroy(poller);
    }
}

static void tell(const struct kin__poller_kind *kind, struct kin__poller *poller)
{
    int fds[2];
    struct kin__ready ready[4];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    EXPECT_EQ(kind->wait(poller, ready, 4, 0), 0);
    EXPECT_EQ(kind->watch(poller, fds[0], 77, false), 0);
    while (kind->wait(poller, ready, 4, 0) > 0) /* ends: it can be written, which is told once */
        EXPECT_EQ(ready[0].bits, KIN__READY_WRITE);
    EXPECT_EQ(write(fds[1], "x", 1), 1);
    EXPECT_EQ(kind->wait(poller, ready, 4, 1000000000), 1);
    EXPECT_EQ(ready[0].data, 77);
    EXPECT(ready[0].bits & KIN__READY_READ);
    EXPECT(!(ready[0].bits & KIN__READY_MORE));
    EXPECT_EQ(kind->wait(poller, ready, 4, 1000), 0); /* once */
    EXPECT_EQ(kind->watch(poller, fds[0], 78, true), 0); /* it is still ready */
    EXPECT_EQ(kind->wait(poller, ready, 4, 1000000000), 1);
    EXPECT_EQ(ready[0].data, 78);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
}

KIN_TEST(what_is_ready_is_told_under_its_name, "")
{
    on_each(tell);
}

static void tell_end(const struct kin__poller_kind *kind, struct kin__poller *poller)
{
    int fds[2];
    struct kin__ready ready[4];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    EXPECT_EQ(close(fds[1]), 0);
    EXPECT_EQ(kind->watch(poller, fds[0], 5, false), 0);
    EXPECT_EQ(kind->wait(poller, ready, 4, -1), 1);
    EXPECT_EQ(ready[0].bits, KIN__READY_READ | KIN__READY_WRITE | KIN__READY_MORE);
    EXPECT_EQ(close(fds[0]), 0);
}

KIN_TEST(the_end_of_the_peer_is_for_both_directions, "")
{
    on_each(tell_end);
}

static void refuse(const struct kin__poller_kind *kind, struct kin__poller *poller)
{
    FILE *file = tmpfile();
    EXPECT(file != NULL);
    EXPECT_EQ(kind->watch(poller, fileno(file), 1, false), -EPERM);
    EXPECT_EQ(kind->watch(poller, 1 << 20, 1, false), -EBADF);
    EXPECT_EQ(fclose(file), 0);
}

KIN_TEST(files_and_what_is_not_open_cannot_be_watched, "")
{
    on_each(refuse);
}

static void drop(const struct kin__poller_kind *kind, struct kin__poller *poller)
{
    int fds[2];
    struct kin__ready ready[4];
    char byte;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    EXPECT_EQ(kind->watch(poller, fds[0], 5, false), 0);
    while (kind->wait(poller, ready, 4, 0) > 0) /* ends: as above */
        continue;
    kind->unwatch(poller, fds[0]);
    EXPECT_EQ(write(fds[1], "x", 1), 1);
    EXPECT_EQ(kind->wait(poller, ready, 4, 1000000), 0);
    kind->unwatch(poller, fds[0]); /* never was */
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(read(fds[1], &byte, 1), -1); /* nobody keeps it open; what it got was not read */
    EXPECT_EQ(errno, ECONNRESET);
    EXPECT_EQ(close(fds[1]), 0);
}

KIN_TEST(what_is_not_watched_is_neither_told_of_nor_kept_open, "")
{
    on_each(drop);
}

struct bell {
    const struct kin__poller_kind *kind;
    struct kin__poller *poller;
};

static void *wake_later(void *arg)
{
    struct bell *bell = arg;
    usleep(20000);
    bell->kind->wake(bell->poller);
    return NULL;
}

static void wake(const struct kin__poller_kind *kind, struct kin__poller *poller)
{
    struct kin__ready ready[4];
    struct bell bell = {kind, poller};
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, wake_later, &bell), 0);
    EXPECT_EQ(kind->wait(poller, ready, 4, -1), 0); /* ends, or the alarm comes */
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    kind->wake(poller); /* before the wait, twice */
    kind->wake(poller);
    EXPECT_EQ(kind->wait(poller, ready, 4, -1), 0);
    EXPECT_EQ(kind->wait(poller, ready, 4, 1000), 0);
}

KIN_TEST(a_wake_ends_a_wait_or_the_next_one, "")
{
    on_each(wake);
}

KIN_TEST(without_memory_there_is_none_and_nothing_is_left, "")
{
    for (unsigned i = 0; i < KINDS; i++) {
        struct kin__poller *poller = NULL;
        uint64_t n = 0;
        int rc;
        do { /* ends: when all that it asks for is granted */
            kin__plat_fail_after(++n, false);
            rc = kinds[i]->create(&poller);
            EXPECT(rc == 0 || rc == -ENOMEM);
        } while (rc < 0);
        kin__plat_fail_after(0, false);
        EXPECT_GT(n, 3);
        kinds[i]->destroy(poller);
    }
}
