/* SPDX-License-Identifier: MIT */
/*
 * Goal: reading and writing under pressure: nothing lost, nothing twice.
 * Method: many pairs of tasks move numbered bytes through socket pairs with random sizes, while
 * others cancel and time out; every byte is accounted for, from what done says.
 */
#include "api/in_runtime.h"

#include "base/rng.h"

#include <kin/io.h>

#include <stdlib.h>
#include <sys/socket.h>

#define PAIRS 16
#define BYTES 20000

struct pair {
    int fds[2];
    uint64_t seed;
};

static int send_all(void *arg)
{
    struct pair *pair = arg;
    struct kin__rng rng;
    unsigned char buf[3000];
    size_t sent = 0;
    kin__rng_init(&rng, pair->seed, 1);
    while (sent < BYTES) { /* ends: each round that sends nothing has a deadline that passed */
        size_t size = 1 + kin__rng_below(&rng, sizeof(buf)), done = 99999;
        for (size_t i = 0; i < size; i++)
            buf[i] = (unsigned char)((sent + i) * 31);
        kin_time deadline = kin__rng_below(&rng, 4) ? KIN_NEVER : kin_after(1000);
        int rc = kin_write(pair->fds[0], buf, size, &done, deadline);
        EXPECT(rc == 0 || rc == KIN_TIMEOUT);
        EXPECT(rc == 0 ? done == size : done < size);
        sent += done;
    }
    return kin_shutdown(pair->fds[0], SHUT_WR);
}

static int receive_all(void *arg)
{
    struct pair *pair = arg;
    struct kin__rng rng;
    unsigned char buf[2000];
    size_t have = 0;
    kin__rng_init(&rng, pair->seed, 2);
    for (;;) { /* ends: at the end of the stream */
        size_t size = 1 + kin__rng_below(&rng, sizeof(buf)), done = 99999;
        kin_time deadline = kin__rng_below(&rng, 4) ? KIN_NEVER : kin_after(1000);
        int rc = kin_read_full(pair->fds[1], buf, size, &done, deadline);
        EXPECT(rc == 0 || rc == KIN_TIMEOUT);
        EXPECT_LE(done, size);
        for (size_t i = 0; i < done; i++)
            EXPECT_EQ(buf[i], (unsigned char)((have + i) * 31));
        have += done;
        if (rc == 0 && done < size)
            break;
    }
    EXPECT_GE(have, BYTES);
    return 0;
}

static int move_bytes(void *arg)
{
    struct pair pairs[PAIRS];
    (void)arg;
    KIN_NURSERY(n);
    for (int i = 0; i < PAIRS; i++) {
        int small = 4096;
        pairs[i].seed = kin_test_seed() + (uint64_t)i;
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i].fds), 0);
        EXPECT_EQ(setsockopt(pairs[i].fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
        EXPECT_EQ(kin_spawn(&n, send_all, &pairs[i]), 0);
        EXPECT_EQ(kin_spawn(&n, receive_all, &pairs[i]), 0);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < PAIRS; i++) {
        EXPECT_EQ(kin_close(pairs[i].fds[0]), 0);
        EXPECT_EQ(kin_close(pairs[i].fds[1]), 0);
    }
    return 0;
}

KIN_TEST(every_byte_arrives_once_and_in_order, "")
{
    EXPECT_EQ(run_reporting(1, move_bytes, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, move_bytes, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(4, move_bytes, NULL, NULL), 0);
}
