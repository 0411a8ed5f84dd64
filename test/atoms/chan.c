/* SPDX-License-Identifier: MIT */
/*
 * Channels: src/wait/chan.c and src/park/park.c as they are.
 *
 * Two tasks exchange items through a channel without room and one with room for one, while a third
 * closes or aborts it, or a sender is cancelled, or the last reference goes. Items arrive in order
 * and once; after a close what was admitted arrives, and nothing else; nobody is left waiting; the
 * memory is freed once, by the last one who touches it.
 */
#include "under.h"

#include "wait/chan.h"

#include <string.h>

static struct kin_chan *chan;
static int sent[4], received[4];
static int sent_count, received_count, items;
static bool sent_all;

static void start(size_t capacity, int count)
{
    under_begin();
    items = count;
    memset(sent, 0, sizeof(sent));
    memset(received, 0, sizeof(received));
    sent_count = received_count = 0;
    sent_all = false;
    int rc = kin_chan_create(&chan, sizeof(int), capacity);
    kin_atoms_assert(rc == 0, "a channel is made");
}

static void sender(void *arg)
{
    (void)arg;
    for (int i = 0; i < items; i++) {
        int item = 10 + i, rc = kin_chan_send(chan, &item, KIN_NEVER);
        if (rc == 0)
            sent[sent_count++] = item;
        else
            kin_atoms_assert(rc == KIN_CLOSED || rc == KIN_CANCELLED, "why a send fails");
    }
}

static void receiver(void *arg)
{
    (void)arg;
    for (int i = 0; i < items; i++) {
        int item = 0, rc = kin_chan_recv(chan, &item, KIN_NEVER);
        if (rc == 0)
            received[received_count++] = item;
        else
            kin_atoms_assert(rc == KIN_CLOSED && item == 0, "why a receive fails");
    }
}

static void end(void *arg)
{
    (void)arg;
    kin_atoms_assert(received_count == sent_count, "all that was sent arrived");
    for (int i = 0; i < received_count; i++)
        kin_atoms_assert(received[i] == sent[i], "in order");
    kin_atoms_assert(kin_chan_len(chan) == 0, "nothing is left");
    kin_atoms_assert(chan->pins == 0, "nobody holds on to it");
}

/* ---- two tasks ---- */

static void begin_two(void *arg)
{
    start(*(const size_t *)arg, 2);
    under_spawn("sender", sender, NULL);
    under_spawn("receiver", receiver, NULL);
}

static void end_two(void *arg)
{
    kin_atoms_assert(sent_count == 2, "both were sent");
    end(arg);
}

/* ---- two senders ---- */

static void send_one(void *arg)
{
    int item = *(const int *)arg;
    kin_atoms_assert(kin_chan_send(chan, &item, KIN_NEVER) == 0, "it is sent");
}

static int eleven = 11, twelve = 12;

static void begin_senders(void *arg)
{
    start(*(const size_t *)arg, 2);
    under_spawn("sender 1", send_one, &eleven);
    under_spawn("sender 2", send_one, &twelve);
    under_spawn("receiver", receiver, NULL);
}

static void end_senders(void *arg)
{
    (void)arg;
    kin_atoms_assert(received_count == 2 && received[0] + received[1] == 23, "each arrives once");
}

/* ---- somebody closes it ---- */

/* Receives what there is at once, closes, and receives what is left. */
static void receiving_closer(void *arg)
{
    int item = 0;
    (void)arg;
    if (kin_chan_recv(chan, &item, 0) == 0)
        received[received_count++] = item;
    kin_chan_close(chan);
    while (kin_chan_recv(chan, &item, KIN_NEVER) == 0) /* ends: nothing is admitted any more */
        received[received_count++] = item;
}

static void closer(void *arg)
{
    (void)arg;
    kin_chan_close(chan);
}

static void aborter(void *arg)
{
    (void)arg;
    kin_chan_abort(chan);
}

/* The sender closes behind its second item, and the receiver hears of it. */
static void closing_sender(void *arg)
{
    sender(arg);
    kin_chan_close(chan);
}

static void receiver_to_the_end(void *arg)
{
    int item;
    receiver(arg);
    if (sent_all)
        kin_atoms_assert(kin_chan_recv(chan, &item, KIN_NEVER) == KIN_CLOSED, "it is closed");
}

static void begin_end(void *arg)
{
    start(*(const size_t *)arg, 2);
    sent_all = true;
    under_spawn("sender", closing_sender, NULL);
    under_spawn("receiver", receiver_to_the_end, NULL);
}

/* Two rounds of one who sends and one who closes at any moment. */
static void begin_sender_and_closer(void *arg)
{
    start(*(const size_t *)arg, 2);
    under_spawn("sender", sender, NULL);
    under_spawn("closer", receiving_closer, NULL);
}

static void begin_close(void *arg)
{
    start(*(const size_t *)arg, 1);
    under_spawn("sender", sender, NULL);
    under_spawn("receiver", receiver, NULL);
    under_spawn("closer", closer, NULL);
}

static void begin_abort(void *arg)
{
    start(*(const size_t *)arg, 1);
    under_spawn("sender", sender, NULL);
    under_spawn("receiver", receiver, NULL);
    under_spawn("aborter", aborter, NULL);
}

/* A sender that waits at an abort is refused; one whose item is in the ring was not. */
static void end_abort(void *arg)
{
    (void)arg;
    kin_atoms_assert(received_count <= sent_count, "nothing arrives that was not sent");
    for (int i = 0; i < received_count; i++)
        kin_atoms_assert(received[i] == sent[i], "in order");
    kin_atoms_assert(kin_chan_len(chan) == 0 && chan->pins == 0, "nothing is left");
}

/* ---- somebody cancels the sender ---- */

static void canceller(void *arg)
{
    (void)arg;
    kin__park_request(under_task(0), KIN__CANCEL);
}

static void begin_cancel(void *arg)
{
    start(*(const size_t *)arg, 1);
    under_spawn("sender", closing_sender, NULL);
    under_spawn("receiver", receiver, NULL);
    under_spawn_outside("canceller", canceller, NULL);
}

/* ---- the last reference ---- */

static void last_sender(void *arg)
{
    (void)arg;
    int item = 10, rc = kin_chan_send(chan, &item, KIN_NEVER);
    kin_atoms_assert(rc == 0, "somebody receives it");
    kin_chan_unref(chan);
}

static void last_receiver(void *arg)
{
    int item = 0;
    (void)arg;
    kin_atoms_assert(kin_chan_recv(chan, &item, KIN_NEVER) == 0 && item == 10, "it arrives");
    kin_chan_unref(chan);
}

static void begin_last(void *arg)
{
    start(*(const size_t *)arg, 1);
    (void)kin_chan_ref(chan);
    under_spawn("sender", last_sender, NULL);
    under_spawn("receiver", last_receiver, NULL);
}

static size_t none = 0, one = 1;

const struct harness harnesses[] = {
    {.name = "chan_rendezvous", .begin = begin_two, .end = end_two, .arg = &none},
    {.name = "chan_buffered", .begin = begin_two, .end = end_two, .arg = &one},
    {.name = "chan_close_two_rounds", .begin = begin_sender_and_closer, .end = end, .arg = &none},
    {.name = "chan_close_two_rounds_buffered", .begin = begin_sender_and_closer, .end = end,
     .arg = &one},
    {.name = "chan_last_reference", .begin = begin_last, .arg = &none},
    {.name = "chan_last_reference_buffered", .begin = begin_last, .arg = &one},
    {.name = "chan_close", .begin = begin_close, .end = end, .arg = &none},
    {.name = "chan_close_buffered", .begin = begin_close, .end = end, .arg = &one},
    {.name = "chan_cancel_buffered", .begin = begin_cancel, .end = end, .arg = &one},
    {.name = "chan_cancel", .begin = begin_cancel, .end = end, .arg = &none},
    {.name = "chan_abort_buffered", .begin = begin_abort, .end = end_abort, .arg = &one},
    {.name = "chan_abort", .begin = begin_abort, .end = end_abort, .arg = &none},
    {.name = "chan_end", .begin = begin_end, .end = end_two, .arg = &none},
    {.name = "chan_end_buffered", .begin = begin_end, .end = end_two, .arg = &one},
    {.name = "chan_two_senders_buffered", .begin = begin_senders, .end = end_senders, .arg = &one},
    {.name = "chan_rendezvous_c11", .begin = begin_two, .end = end_two, .arg = &none,
     .memory = KIN_ATOMS_C11},
    {.name = "chan_last_reference_c11", .begin = begin_last, .arg = &none,
     .memory = KIN_ATOMS_C11},
    {.name = "chan_close_two_rounds_c11", .begin = begin_sender_and_closer, .end = end,
     .arg = &none, .memory = KIN_ATOMS_C11},
    {.name = "chan_two_senders", .begin = begin_senders, .end = end_senders, .arg = &none,
     .is_deep = true},
    {.name = "chan_buffered_c11", .begin = begin_two, .end = end_two, .arg = &one,
     .memory = KIN_ATOMS_C11, .is_deep = true},
    {0},
};
