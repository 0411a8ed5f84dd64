/* SPDX-License-Identifier: MIT */
/*
 * The queue for one sender and one receiver: a send that finds room and nobody waiting is one
 * exchange.
 *
 * wait/queue.h has the ring, its two words and why they are as they are. Here is what the one
 * producer may do without the lock:
 *
 *     read tail ------ CLOSED -----------------------------------> KIN_CLOSED
 *        | no room as head was seen, nor as it is ---------------> KIN_FULL, or wait
 *        | WAITS: a receiver is linked --------------------------> under the lock
 *     fill the slot; exchange tail for the next position --- a bit came meanwhile: under the lock
 *        |
 *        0, and the queue is not touched again
 *
 * The exchange cannot overlook a close: an item is admitted in the order of tail, before CLOSED or
 * not at all, so the consumer that reads CLOSED with nothing left has seen everything [CH:5.1].
 */
#include <kin/queue.h>

#include "base/lab.h"
#include "wait/queue.h"

#include <errno.h>

struct kin_spsc {
    struct kin__queue queue;
};

static inline struct kin__queue *queue_of(const struct kin_spsc *queue)
{
    return (struct kin__queue *)(uintptr_t)queue;
}

/* 0, KIN_CLOSED, KIN_FULL; 1: take the lock. */
static inline int send_fast(struct kin__queue *q, const void *item)
{
    /* relaxed: the producer's own, but for the bits, and the exchange looks at those again */
    uint64_t tail = kin__load_relaxed(&q->tail);
    uint64_t position = tail >> KIN__TAIL_SHIFT;
    if (KIN__UNLIKELY(tail & KIN__QUEUE_CLOSED))
        return KIN_CLOSED;
    kin__queue_mark(q, &q->sending, "kin_spsc_send");
    bool has_room = kin__queue_has_room(q, position);
    bool is_free = !(tail & KIN__QUEUE_WAITS);
    if (KIN__LIKELY(has_room && is_free))
        kin__item_copy(kin__queue_slot(q, position), item, q->item_size);
    kin__queue_unmark(&q->sending);
    if (KIN__UNLIKELY(!has_room))
        return KIN_FULL;
    /* pairs with the acquire in kin__queue_has_item; fails when a bit has just come */
    return KIN__LIKELY(is_free) && kin__cas_release(&q->tail, &tail, tail + KIN__TAIL_ONE) ? 0 : 1;
}

/* A whole send, behind the charge. */
static inline int send_whole(struct kin__queue *q, const void *item, kin_time deadline)
{
    if (KIN__UNLIKELY(!kin__item_tries(deadline)))
        return kin__queue_send_slow(q, item, deadline, false);
    int rc = send_fast(q, item);
    if (KIN__LIKELY(rc <= 0 && (rc != KIN_FULL || deadline == 0)))
        return rc;
    return kin__queue_send_slow(q, item, deadline, rc == 1);
}

int kin_spsc_send(struct kin_spsc *queue, const void *item, kin_time deadline)
{
    struct kin__queue *q = queue_of(queue);
    if (KIN__UNLIKELY(!q || (!item && q->item_size != 0)))
        return -EINVAL;
    KIN__LAB_CALLS();
    int rc = kin__item_enter(deadline);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
    rc = send_whole(q, item, deadline);
    KIN__LAB_CALLED(q, KIN__LAB_SEND, rc, item);
    return rc;
}

int kin_spsc_recv(struct kin_spsc *queue, void *item, kin_time deadline)
{
    struct kin__queue *q = queue_of(queue);
    if (KIN__UNLIKELY(!q))
        return -EINVAL;
    KIN__LAB_CALLS();
    int rc = kin__item_enter(deadline);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
    rc = kin__queue_recv(q, item, deadline, "kin_spsc_recv");
    KIN__LAB_CALLED(q, KIN__LAB_RECV, rc, item);
    return rc;
}

int kin_spsc_create(struct kin_spsc **out, size_t item_size, size_t capacity)
{
    struct kin__queue *q;
    int rc = kin__queue_create(out ? &q : NULL, item_size, capacity, true);
    if (rc == 0)
        *out = (struct kin_spsc *)q;
    return rc;
}

struct kin_spsc *kin_spsc_ref(struct kin_spsc *queue)
{
    KIN__LAB_POINT();
    kin__queue_ref(queue_of(queue));
    return queue;
}

void kin_spsc_unref(struct kin_spsc *queue)
{
    kin__queue_unref(queue_of(queue));
}

void kin_spsc_close(struct kin_spsc *queue)
{
    kin__queue_close(queue_of(queue));
}

size_t kin_spsc_len(const struct kin_spsc *queue)
{
    KIN__LAB_POINT();
    return queue ? kin__queue_len(queue_of(queue)) : 0;
}

size_t kin_spsc_cap(const struct kin_spsc *queue)
{
    return queue ? (size_t)queue_of(queue)->capacity : 0;
}

bool kin_spsc_is_closed(const struct kin_spsc *queue)
{
    KIN__LAB_POINT();
    return !queue || kin__queue_is_closed(queue_of(queue));
}
