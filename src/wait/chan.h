/* SPDX-License-Identifier: MIT */
/*
 * A channel as something to wait for: two tables, one for each direction.
 */
#ifndef KIN_WAIT_CHAN_H
#define KIN_WAIT_CHAN_H

#include "base/lock.h"
#include "park/waitq.h"
#include "task/bill.h"

#include <kin/chan.h>

/* Bits of a channel's state. The first three are never taken back. */
#define KIN__CHAN_CLOSED 1u    /* admits nothing any more */
#define KIN__CHAN_ABORTED 2u   /* delivers nothing any more, either */
#define KIN__CHAN_DEAD 4u      /* has no reference left: goes with the last pin */
#define KIN__CHAN_SENDERS 8u   /* the queue of senders is not empty */
#define KIN__CHAN_RECEIVERS 16u

/* All but the constants and refs is changed under the lock. A rendezvous touches one line only. */
struct kin_chan {
    struct kin__lock lock;       /* rank WAIT */
    kin__a32 state;              /* KIN__CHAN_ bits; peeked at without the lock */
    uint32_t item_size;          /* constant */
    uint32_t pins;               /* who will take the lock again; see the head of chan.c */
    size_t capacity;             /* constant; as asked for */
    kin__asize count;            /* items in the ring; peeked at without the lock */
    struct kin__waitq senders;   /* io: the item */
    struct kin__waitq receivers; /* io: where it goes; NULL: nowhere */

    size_t head;         /* where the oldest item is, before the mask */
    size_t mask;         /* constant; slots of the ring - 1 */
    unsigned char *ring; /* constant; the channel itself when items need no room */
    kin__asize refs;     /* anyone */
    struct kin__bill bill; /* constant */
};

/* The object is a struct kin_chan, io the item. Both complete with 0 or KIN_CLOSED. */
extern const struct kin__waitable kin__chan_send_waitable;
extern const struct kin__waitable kin__chan_recv_waitable;

/* Keeps the memory beyond the last reference. Unpin answers false when there is none left: then the
 * channel must not be touched any more. */
void kin__chan_pin(struct kin_chan *chan);
bool kin__chan_unpin(struct kin_chan *chan);

/* The state and the count as anybody may see them. */
static inline uint32_t kin__chan_state(const struct kin_chan *chan)
{
    return kin__load_relaxed(&chan->state); /* relaxed: the lock orders it, or it is a hint */
}

static inline size_t kin__chan_count(const struct kin_chan *chan)
{
    return kin__load_relaxed(&chan->count); /* relaxed: as above */
}

/* Whether an operation cannot complete now, as far as can be seen without the lock. A wrong no
 * costs a look under the lock, a wrong yes is noticed when a waiter is published. */
static inline bool kin__chan_send_is_hopeless(const struct kin_chan *chan)
{
    return !(kin__chan_state(chan) & (KIN__CHAN_CLOSED | KIN__CHAN_RECEIVERS)) &&
           kin__chan_count(chan) >= chan->capacity;
}

static inline bool kin__chan_recv_is_hopeless(const struct kin_chan *chan)
{
    return !(kin__chan_state(chan) & (KIN__CHAN_CLOSED | KIN__CHAN_SENDERS)) &&
           kin__chan_count(chan) == 0;
}

#endif
