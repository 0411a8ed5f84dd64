/* SPDX-License-Identifier: MIT */
/*
 * The ring with one consumer that both fast queues are made of.
 *
 *     tail = position << 2 | CLOSED 2 | WAITS 1        where the next item goes
 *     head = position << 1 | WAITS 1                   where the oldest one is
 *
 * Each WAITS lives in the word that the other side must change to complete what is waited for: a
 * receiver that found nothing sets the one in tail, a sender that found no room the one in head,
 * both by an exchange that fails if the position has moved meanwhile. So "link unless complete" is
 * one step [A9], and so is "publish unless somebody waits": a fast send or receive is one exchange
 * that moves the position on if no bit has come, and is the last thing that it does to the queue.
 * With a bit in the word the same is done under the lock, and who waits is served there:
 *
 *     tail WAITS    the ring is empty: the item goes to the receiver and into no slot
 *     head WAITS    the ring is full: the oldest sender's item takes the slot that becomes free
 *
 * Who may change what: tail, the producer by its fast exchange, and whoever has the lock while the
 * producer is parked, is the caller, or there are many (who then all need the lock); head, the
 * consumer alone; bits, whoever has the lock. Slots are the producer's from the position of tail
 * on and the consumer's from head to tail.
 *
 * What was rejected: flags of their own next to the words, with "store, full fence, load" on both
 * sides [A11]. It costs the same where a fence is a locked instruction and more elsewhere, leaves a
 * load of the flag after the item is visible, when the partner may have freed the queue, and needs
 * a third rule for items that were published while somebody closed. The same without a fence in the
 * fast path and a membarrier before each park: a pair of calls is 3 ns instead of 5 and four times
 * as fast while both run on different CPUs, but each park costs 0.4 to 10 us, as much as a hundred
 * items. The model is test/model/spsc.pml.
 */
#ifndef KIN_WAIT_QUEUE_H
#define KIN_WAIT_QUEUE_H

#include "base/atomic.h"
#include "base/lock.h"
#include "park/waitq.h"
#include "plat/plat.h"
#include "wait/item.h"
#include "wait/owner.h"

#include <kin/time.h>

#define KIN__QUEUE_WAITS UINT64_C(1)  /* of both words */
#define KIN__QUEUE_CLOSED UINT64_C(2) /* of tail */
#define KIN__QUEUE_BITS (KIN__QUEUE_WAITS | KIN__QUEUE_CLOSED)
#define KIN__TAIL_SHIFT 2u
#define KIN__HEAD_SHIFT 1u
#define KIN__TAIL_ONE (UINT64_C(1) << KIN__TAIL_SHIFT)
#define KIN__HEAD_ONE (UINT64_C(1) << KIN__HEAD_SHIFT)

struct kin__queue {
    /* the producer's line; with many, under the lock */
    _Alignas(KIN__LINE) kin__a64 tail;
    uint64_t head_seen; /* a position that head had */

    /* the consumer's line */
    _Alignas(KIN__LINE) kin__a64 head;
    uint64_t tail_seen; /* a position that tail had */

    /* constant */
    _Alignas(KIN__LINE) unsigned char *ring;
    uint64_t mask; /* slots of the ring - 1 */
    uint64_t capacity;
    uint32_t item_size;
    bool is_single; /* one producer */
    kin__a32 refs;  /* not constant: anyone */
    struct kin__bill bill;

    /* under the lock */
    _Alignas(KIN__LINE) struct kin__lock lock; /* rank WAIT */
    uint32_t pins;               /* waiters whose task will take the lock again */
    struct kin__waitq senders;   /* io: the item */
    struct kin__waitq receivers; /* io: where it goes; at most one */
    bool is_dead;                /* has no reference left: goes with the last pin */
    /* debug: who is inside, 0: nobody; one producer, the consumer */
    kin__a64 sending, receiving;
};

/* -EINVAL, -EOVERFLOW, -ENOMEM, or what the charge answers. */
int kin__queue_create(struct kin__queue **out, size_t item_size, size_t capacity, bool is_single);
void kin__queue_ref(struct kin__queue *q);
void kin__queue_unref(struct kin__queue *q);
void kin__queue_close(struct kin__queue *q);

/* Both directions with the lock, and waiting. tries: false when the caller has just found that
 * there is no room, or nothing. */
int kin__queue_send_slow(struct kin__queue *q, const void *item, kin_time deadline, bool tries);
int kin__queue_recv_slow(struct kin__queue *q, void *item, kin_time deadline, bool tries);

/* The object is the queue, io the item. Both complete with 0 or KIN_CLOSED. */
extern const struct kin__waitable kin__queue_send_waitable;
extern const struct kin__waitable kin__queue_recv_waitable;

/* ---- who is inside; debug builds ---- */

static inline void kin__queue_mark(struct kin__queue *q, kin__a64 *who, const char *call)
{
#ifdef KIN_DEBUG
    /* relaxed: a check, not a lock */
    uint64_t other = kin__xchg_relaxed(who, kin__owner_of(kin__task_self()));
    if (KIN__UNLIKELY(other != 0))
        kin__owner_misuse(call, "one task at a time uses this end of a queue", q, other);
#else
    (void)q, (void)who, (void)call;
#endif
}

static inline void kin__queue_unmark(kin__a64 *who)
{
#ifdef KIN_DEBUG
    kin__store_relaxed(who, 0u); /* relaxed: as above */
#else
    (void)who;
#endif
}

/* ---- words ---- */

static inline unsigned char *kin__queue_slot(const struct kin__queue *q, uint64_t position)
{
    return q->ring + (position & q->mask) * q->item_size;
}

/* Whether the producer finds room at this position. The producer, or under the lock. */
static inline bool kin__queue_has_room(struct kin__queue *q, uint64_t position)
{
    if (KIN__LIKELY(position - q->head_seen < q->capacity))
        return true;
    /* pairs with the release of whoever moved head: the slot was read */
    q->head_seen = kin__load_acquire(&q->head) >> KIN__HEAD_SHIFT;
    return position - q->head_seen < q->capacity;
}

/* Whether the consumer finds something at this position; if not, *tail is what it saw. */
static inline bool kin__queue_has_item(struct kin__queue *q, uint64_t position, uint64_t *tail)
{
    KIN__ASSERT((int64_t)(q->tail_seen - position) >= 0, "house"); /* head never passes it */
    if (KIN__LIKELY(position != q->tail_seen))
        return true;
    /* pairs with the release of whoever moved tail: the item is there */
    *tail = kin__load_acquire(&q->tail);
    q->tail_seen = *tail >> KIN__TAIL_SHIFT;
    return position != q->tail_seen;
}

/* A receive without the lock: 0, KIN_CLOSED, KIN_EMPTY; 1: a sender waits, take the lock. */
static inline int kin__queue_recv_fast(struct kin__queue *q, void *item, const char *call)
{
    uint64_t head = kin__load_relaxed(&q->head); /* relaxed: the consumer's own, but for the bit */
    uint64_t position = head >> KIN__HEAD_SHIFT, tail = 0;
    kin__queue_mark(q, &q->receiving, call);
    bool has_item = kin__queue_has_item(q, position, &tail);
    bool is_free = !(head & KIN__QUEUE_WAITS);
    if (KIN__LIKELY(has_item && is_free))
        kin__item_copy(item, kin__queue_slot(q, position), q->item_size);
    kin__queue_unmark(&q->receiving);
    if (KIN__UNLIKELY(!has_item))
        /* position and CLOSED are of one moment: nothing comes after it [CH:5.3] */
        return tail & KIN__QUEUE_CLOSED ? KIN_CLOSED : KIN_EMPTY;
    /* pairs with the acquire in kin__queue_has_room; fails when a sender has just come to wait */
    return KIN__LIKELY(is_free) && kin__cas_release(&q->head, &head, head + KIN__HEAD_ONE) ? 0 : 1;
}

/* A whole receive, behind the charge. */
static inline int kin__queue_recv(struct kin__queue *q, void *item, kin_time deadline,
                                  const char *call)
{
    if (KIN__UNLIKELY(!kin__item_tries(deadline)))
        return kin__queue_recv_slow(q, item, deadline, false);
    int rc = kin__queue_recv_fast(q, item, call);
    if (KIN__LIKELY(rc <= 0 && (rc != KIN_EMPTY || deadline == 0)))
        return rc;
    return kin__queue_recv_slow(q, item, deadline, rc == 1);
}

/* Items inside, as far as can be seen from outside. */
static inline size_t kin__queue_len(const struct kin__queue *q)
{
    /* relaxed: two moments; head first, so that tail is not behind it */
    uint64_t head = kin__load_relaxed(&q->head) >> KIN__HEAD_SHIFT;
    uint64_t tail = kin__load_relaxed(&q->tail) >> KIN__TAIL_SHIFT; /* relaxed: as above */
    uint64_t count = tail - head;
    return (int64_t)count < 0 ? 0 : count > q->capacity ? (size_t)q->capacity : (size_t)count;
}

static inline bool kin__queue_is_closed(const struct kin__queue *q)
{
    return kin__load_relaxed(&q->tail) & KIN__QUEUE_CLOSED; /* relaxed: a hint */
}

#endif
