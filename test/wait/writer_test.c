/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a writer says that it took arrives, in order and once, whatever ends its calls early.
 * Method: random pieces, texts and flushes with random deadlines go through buffers of random size
 * to a peer that reads in random pieces; the bytes are numbered, and every count is checked.
 */
#include "api/in_runtime.h"

#include "base/rng.h"

#include <kin/io.h>
#include <kin/reader.h>

#include <sys/socket.h>

#define BYTES 60000
#define ROUNDS 8

struct run {
    int fds[2];
    uint64_t seed;
    size_t taken;    /* by the writer, when it is done */
    size_t received; /* by the peer */
};

static char byte_at(size_t at)
{
    return (char)('0' + at * 7 % 75); /* printable, so that texts can be made of them */
}

static int receive(void *arg)
{
    struct run *run = arg;
    struct kin__rng rng;
    char buf[2000];
    ssize_t got;
    kin__rng_init(&rng, run->seed, 1);
    while ((got = kin_read(run->fds[1], buf, 1 + kin__rng_below(&rng, sizeof(buf)), KIN_NEVER)) >
           0) { /* ends: with the writer */
        for (ssize_t i = 0; i < got; i++)
            EXPECT_EQ(buf[i], byte_at(run->received + (size_t)i));
        run->received += (size_t)got;
        if (kin__rng_below(&rng, 16) == 0)
            EXPECT_EQ(kin_sleep(kin_after(30000)), 0);
    }
    return (int)got;
}

static void put_piece(struct run *run, struct kin_writer *out, struct kin__rng *rng,
                      kin_time deadline)
{
    static char piece[5000];
    size_t size = kin__rng_below(rng, kin__rng_below(rng, 2) ? 40 : sizeof(piece)), done = 99999;
    for (size_t i = 0; i < size; i++)
        piece[i] = byte_at(run->taken + i);
    int rc = kin_writer_put(out, piece, size, &done, deadline);
    EXPECT(rc == 0 || (rc == KIN_TIMEOUT && deadline != KIN_NEVER));
    EXPECT(rc == 0 ? done == size : done < size);
    run->taken += done;
}

static void print_text(struct run *run, struct kin_writer *out, struct kin__rng *rng, size_t cap,
                       kin_time deadline)
{
    char text[60];
    size_t size = kin__rng_below(rng, sizeof(text)), before = kin_writer_buffered(out);
    for (size_t i = 0; i < size; i++)
        text[i] = byte_at(run->taken + i);
    int rc = kin_writer_print(out, deadline, "%.*s", (int)size, text);
    if (size >= cap) {
        EXPECT_EQ(rc, -EMSGSIZE);
        EXPECT_EQ(kin_writer_buffered(out), before);
        return;
    }
    EXPECT(rc == 0 || (rc == KIN_TIMEOUT && deadline != KIN_NEVER));
    run->taken += rc == 0 ? size : 0;
}

static int write_at_random(void *arg)
{
    (void)arg;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct run run = {.seed = kin_test_seed() + round};
        struct kin__rng rng;
        struct kin_writer out;
        char buf[3000];
        int small = 4096;
        kin__rng_init(&rng, run.seed, 2);
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, run.fds), 0);
        EXPECT_EQ(setsockopt(run.fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
        size_t cap = 1 + kin__rng_below(&rng, kin__rng_below(&rng, 2) ? 50 : sizeof(buf) - 1);
        kin_writer_init(&out, run.fds[0], buf, cap);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, receive, &run), 0);
        while (run.taken < BYTES) { /* ends: what has no deadline is taken */
            kin_time deadline = kin__rng_below(&rng, 3) ? KIN_NEVER
                                : kin__rng_below(&rng, 2) ? kin_after(5000) : 0;
            uint64_t kind = kin__rng_below(&rng, 8);
            if (kind == 0) {
                int rc = kin_writer_flush(&out, deadline);
                EXPECT(rc == 0 || (rc == KIN_TIMEOUT && deadline != KIN_NEVER));
                EXPECT(rc != 0 || kin_writer_buffered(&out) == 0);
            } else if (kind < 4) {
                print_text(&run, &out, &rng, cap, deadline);
            } else {
                put_piece(&run, &out, &rng, deadline);
            }
        }
        EXPECT_EQ(kin_writer_flush(&out, KIN_NEVER), 0);
        EXPECT_EQ(kin_shutdown(run.fds[0], SHUT_WR), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(run.received, run.taken);
        EXPECT_EQ(kin_close(run.fds[0]), 0);
        EXPECT_EQ(kin_close(run.fds[1]), 0);
    }
    return 0;
}

KIN_TEST(what_was_taken_arrives_once_and_in_order, "")
{
    EXPECT_EQ(run_reporting(1, write_at_random, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, write_at_random, NULL, NULL), 0);
}
