/* SPDX-License-Identifier: MIT */
/*
 * Goal: connections come and go without leaving a descriptor behind, whatever ends them.
 * Method: rounds of connects and accepts with random deadlines and cancels; there are as many
 * sockets afterwards as before.
 */
#include "api/in_runtime.h"

#include "base/rng.h"
#include "plat/plat.h"

#include <kin/net.h>

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROUNDS 60

struct place {
    int listener;
    char addr[KIN_ADDR_MAX];
    uint64_t seed;
};

static int accept_many(void *arg)
{
    struct place *place = arg;
    int conn, rc;
    while ((rc = kin_accept(place->listener, &conn, KIN_NEVER)) == 0) /* ends: it is cancelled */
        EXPECT_EQ(kin_close(conn), 0);
    return rc;
}

static int connect_many(void *arg)
{
    struct place *place = arg;
    struct kin__rng rng;
    kin__rng_init(&rng, place->seed, 7);
    for (int i = 0; i < ROUNDS; i++) {
        int fd = -1;
        int64_t moment = (int64_t)kin__rng_below(&rng, 200000);
        kin_time deadline = kin__rng_below(&rng, 3) ? KIN_NEVER : kin_after(moment);
        int rc = kin_tcp_connect(place->addr, &fd, deadline);
        EXPECT(rc == 0 || rc == KIN_TIMEOUT);
        EXPECT_EQ(fd >= 0, rc == 0);
        if (rc == 0 && kin__rng_below(&rng, 2))
            EXPECT_EQ(kin_read(fd, &(char){0}, 1, KIN_NEVER), 0);
        if (rc == 0)
            EXPECT_EQ(kin_close(fd), 0);
    }
    return 0;
}

/* Others open files now and then, but no sockets. */
static int count_sockets(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += kin__fd_kind(fd) == KIN__FD_KIND_SOCKET;
    return count;
}

static int come_and_go(void *arg)
{
    struct place place = {.seed = kin_test_seed()};
    int sockets = count_sockets();
    (void)arg;
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &place.listener), 0);
    EXPECT_EQ(kin_local_addr(place.listener, place.addr, sizeof(place.addr)), 0);
    {
        KIN_NURSERY(servers);
        EXPECT_EQ(kin_spawn(&servers, accept_many, &place), 0);
        EXPECT_EQ(kin_spawn(&servers, accept_many, &place), 0);
        KIN_NURSERY(clients);
        for (int i = 0; i < 4; i++)
            EXPECT_EQ(kin_spawn(&clients, connect_many, &place), 0);
        EXPECT_EQ(kin_nursery_join(&clients, NULL), 0);
        kin_nursery_cancel(&servers, 0);
        EXPECT_EQ(kin_nursery_join(&servers, NULL), KIN_CANCELLED);
    }
    EXPECT_EQ(kin_close(place.listener), 0);
    EXPECT_EQ(count_sockets(), sockets);
    return 0;
}

KIN_TEST(no_descriptor_stays_behind, "")
{
    EXPECT_EQ(run_reporting(1, come_and_go, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, come_and_go, NULL, NULL), 0);
}

static int connect_there(void *arg)
{
    int fd = -1;
    int rc = kin_tcp_connect(arg, &fd, KIN_NEVER);
    EXPECT_EQ(fd, -1);
    return rc;
}

/* The line of a listener is full, so the system leaves further callers without an answer. */
static int call_in_vain(void *arg)
{
    struct kin_listen_options options = KIN_LISTEN_OPTIONS_INIT;
    char addr[KIN_ADDR_MAX];
    int listener, callers[2], fd;
    (void)arg;
    options.backlog = 1;
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", &options, &listener), 0);
    EXPECT_EQ(kin_local_addr(listener, addr, sizeof(addr)), 0);
    for (int i = 0; i < 2; i++) /* one more than it says */
        EXPECT_EQ(kin_tcp_connect(addr, &callers[i], KIN_NEVER), 0);
    for (int i = 0; kin_tcp_connect(addr, &fd, kin_after(KIN_MS(20))) == 0; i++) {
        EXPECT_EQ(kin_close(fd), 0); /* it is in line all the same; the second may be late */
        if (i == 8)
            KIN_SKIP("the line of a listener has no end here");
    }
    int sockets = count_sockets();
    EXPECT_EQ(kin_tcp_connect(addr, &fd, 0), KIN_TIMEOUT);
    for (int i = 0; i < 5; i++) {
        kin_time until = kin_after(KIN_US(300) * i);
        EXPECT_EQ(kin_tcp_connect(addr, &fd, until), KIN_TIMEOUT);
        EXPECT_GE(kin_now(), until);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, connect_there, addr), 0);
        if (i & 1)
            EXPECT_EQ(kin_sleep(kin_after(KIN_US(300))), 0);
        kin_nursery_cancel(&n, 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    }
    EXPECT_EQ(count_sockets(), sockets);
    EXPECT_EQ(kin_close(callers[0]), 0);
    EXPECT_EQ(kin_close(callers[1]), 0);
    return kin_close(listener);
}

KIN_TEST(a_connect_that_is_ended_leaves_nothing_behind, "")
{
    EXPECT_EQ(run_reporting(1, call_in_vain, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, call_in_vain, NULL, NULL), 0);
}
