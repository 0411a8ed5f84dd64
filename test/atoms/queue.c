/* SPDX-License-Identifier: MIT */
/*
 * The fast queues: src/wait/{spsc,mpsc,queue}.c as they are; the latter is what mailboxes are.
 *
 * One sender or two, one receiver, a ring of one, a close that comes at any moment, the last
 * reference. Items arrive in the order of each sender and once; after a close what was admitted
 * arrives; nobody is left waiting; the memory is freed once, by the last one who touches it.
 */
#include "under.h"

#include "wait/queue.h"

#include <kin/queue.h>

#include <string.h>

static struct kin_spsc *spsc;
static struct kin_mpsc *mpsc;
static int sent[2], received[8], received_count, rounds;

static void start(int count)
{
    under_begin();
    memset(sent, 0, sizeof(sent));
    memset(received, 0, sizeof(received));
    received_count = 0;
    rounds = count;
    int rc = kin_spsc_create(&spsc, sizeof(int), 1);
    rc += kin_mpsc_create(&mpsc, sizeof(int), 1);
    kin_atoms_assert(rc == 0, "queues are made");
}

/* ---- one sender ---- */

static void send_single(void *arg)
{
    (void)arg;
    for (int i = 0; i < rounds; i++) {
        int item = 1 + i, rc = kin_spsc_send(spsc, &item, KIN_NEVER);
        kin_atoms_assert(rc == 0 || rc == KIN_CLOSED, "how a send ends");
        sent[0] += rc == 0;
    }
}

static void receive_single(void *arg)
{
    (void)arg;
    for (int i = 0; i < rounds; i++) {
        int item = 0, rc = kin_spsc_recv(spsc, &item, KIN_NEVER);
        kin_atoms_assert(rc == 0 ? item == received_count + 1 : rc == KIN_CLOSED, "in order");
        received_count += rc == 0;
    }
}

static void close_single(void *arg)
{
    (void)arg;
    kin_spsc_close(spsc);
}

static void begin_single(void *arg)
{
    start(*(const int *)arg);
    under_spawn("sender", send_single, NULL);
    under_spawn("receiver", receive_single, NULL);
}

static void begin_single_close(void *arg)
{
    begin_single(arg);
    under_spawn("closer", close_single, NULL);
}

/* One who sends, one who receives at once, closes, and receives what is left. */
static void receive_and_close(void *arg)
{
    int item = 0;
    (void)arg;
    if (kin_spsc_recv(spsc, &item, 0) == 0)
        received_count++;
    kin_spsc_close(spsc);
    while (kin_spsc_recv(spsc, &item, KIN_NEVER) == 0) /* ends: nothing is admitted any more */
        received_count++;
}

static void begin_single_rounds(void *arg)
{
    start(*(const int *)arg);
    under_spawn("sender", send_single, NULL);
    under_spawn("receiver", receive_and_close, NULL);
}

static void end_single(void *arg)
{
    (void)arg;
    kin_atoms_assert(received_count == sent[0], "what was sent arrived");
}

static void end_single_all(void *arg)
{
    kin_atoms_assert(sent[0] == rounds, "all were sent");
    end_single(arg);
}

static void send_last(void *arg)
{
    send_single(arg);
    kin_spsc_unref(spsc);
}

static void receive_last(void *arg)
{
    receive_single(arg);
    kin_spsc_unref(spsc);
}

static void begin_single_last(void *arg)
{
    start(*(const int *)arg);
    (void)kin_spsc_ref(spsc);
    under_spawn("sender", send_last, NULL);
    under_spawn("receiver", receive_last, NULL);
}

/* ---- two senders ---- */

static int first = 0, second = 1;

static void send_many(void *arg)
{
    int who = *(const int *)arg;
    for (int i = 0; i < rounds; i++) {
        int item = 10 * (who + 1) + i, rc = kin_mpsc_send(mpsc, &item, KIN_NEVER);
        kin_atoms_assert(rc == 0 || rc == KIN_CLOSED, "how a send ends");
        sent[who] += rc == 0;
    }
}

static void receive_many(void *arg)
{
    int next[2] = {10, 20}, count = *(const int *)arg;
    for (int i = 0; i < count; i++) {
        int item = 0, rc = kin_mpsc_recv(mpsc, &item, KIN_NEVER);
        kin_atoms_assert(rc == 0 || rc == KIN_CLOSED, "how a receive ends");
        if (rc != 0)
            break;
        kin_atoms_assert(item == next[item / 10 - 1]++, "in the order of each sender");
        received_count++;
    }
}

static void close_many(void *arg)
{
    (void)arg;
    kin_mpsc_close(mpsc);
}

static int expected;

static void begin_many(void *arg)
{
    start(*(const int *)arg);
    expected = 2 * rounds;
    under_spawn("sender 1", send_many, &first);
    under_spawn("sender 2", send_many, &second);
    under_spawn("receiver", receive_many, &expected);
}

static void begin_many_one(void *arg)
{
    start(*(const int *)arg);
    expected = rounds;
    under_spawn("sender", send_many, &first);
    under_spawn("receiver", receive_many, &expected);
}

static void begin_many_close(void *arg)
{
    begin_many_one(arg);
    under_spawn("closer", close_many, NULL);
}

static void end_many(void *arg)
{
    (void)arg;
    kin_atoms_assert(received_count == sent[0] + sent[1], "what was sent arrived");
}

static void end_many_all(void *arg)
{
    kin_atoms_assert(sent[0] + sent[1] == expected, "all were sent");
    end_many(arg);
}

static int one = 1, two = 2, three = 3;

const struct harness harnesses[] = {
    {.name = "spsc_two_items", .begin = begin_single, .end = end_single_all, .arg = &two},
    {.name = "spsc_three_items", .begin = begin_single, .end = end_single_all, .arg = &three,
     .is_deep = true},
    {.name = "spsc_close_two_rounds", .begin = begin_single_rounds, .end = end_single,
     .arg = &two},
    {.name = "spsc_close", .begin = begin_single_close, .end = end_single, .arg = &one},
    {.name = "spsc_last_reference", .begin = begin_single_last, .arg = &one},
    {.name = "mpsc_one_sender", .begin = begin_many_one, .end = end_many_all, .arg = &two},
    {.name = "mpsc_two_senders", .begin = begin_many, .end = end_many_all, .arg = &one},
    {.name = "mpsc_close", .begin = begin_many_close, .end = end_many, .arg = &one},
    {.name = "spsc_two_items_c11", .begin = begin_single, .end = end_single_all, .arg = &two,
     .memory = KIN_ATOMS_C11},
    {.name = "mpsc_one_sender_c11", .begin = begin_many_one, .end = end_many_all, .arg = &one,
     .memory = KIN_ATOMS_C11},
    {.name = "spsc_last_reference_c11", .begin = begin_single_last, .arg = &one,
     .memory = KIN_ATOMS_C11},
    {.name = "spsc_close_c11", .begin = begin_single_close, .end = end_single, .arg = &one,
     .memory = KIN_ATOMS_C11, .is_deep = true},
    {.name = "mpsc_two_items_c11", .begin = begin_many_one, .end = end_many_all, .arg = &two,
     .memory = KIN_ATOMS_C11, .is_deep = true},
    {.name = "spsc_close_two_items", .begin = begin_single_close, .end = end_single, .arg = &two,
     .is_deep = true},
    {.name = "mpsc_close_two_items", .begin = begin_many_close, .end = end_many, .arg = &two,
     .is_deep = true},
    {.name = "mpsc_two_senders_two_items", .begin = begin_many, .end = end_many_all, .arg = &two,
     .is_deep = true},
    {0},
};
