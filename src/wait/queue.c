/* SPDX-License-Identifier: MIT */
/*
 * The ring with one consumer: everything that takes the lock.
 *
 * Invariants, whenever the lock is free:
 *   1  WAITS of tail is set if and only if a receiver is linked. A live one waits only while the
 *      ring is empty and open.
 *   2  WAITS of head is set if and only if a sender is linked. Live ones wait only while the ring
 *      is full, so a sender that comes later cannot overtake one: there is no room for it before
 *      the consumer, which sees WAITS, has let the oldest in.
 *   3  pins counts waiters that were linked and neither claimed here nor unpublished: the tasks
 *      that will take the lock once more. The memory stays until they have.
 *
 * As a claimed task is woken after the lock is given up, and giving it up is the last time that an
 * operation touches the queue, whoever saw the effect of an operation may drop the last reference
 * although that operation has not returned yet. The fast ones end with their exchange.
 */
#include "wait/queue.h"

#include "wait/timer.h"

#include <errno.h>

#define WAKE_BATCH 64u /* waiters looked at before the lock is left for a moment */

/* ---- small steps; with the lock ---- */

/* Takes WAITS off a word when nobody waits for it any more. */
static inline void clear_waits(kin__a64 *word, const struct kin__waitq *waiters)
{
    if (kin__waitq_is_empty(waiters))
        (void)kin__and_relaxed(word, ~KIN__QUEUE_WAITS); /* relaxed: under the lock */
}

static inline bool claim(struct kin__queue *q, struct kin__waitq *waiters, kin__a64 *mark,
                         struct kin__claimed *claimed)
{
    bool is_won = kin__waitq_claim(waiters, claimed);
    q->pins -= is_won;
    if (is_won)
        kin__queue_unmark(mark);
    return is_won;
}

static inline bool claim_sender(struct kin__queue *q, struct kin__claimed *sender)
{
    bool is_won = claim(q, &q->senders, &q->sending, sender);
    clear_waits(&q->head, &q->senders);
    return is_won;
}

static inline bool claim_receiver(struct kin__queue *q, struct kin__claimed *receiver)
{
    bool is_won = claim(q, &q->receivers, &q->receiving, receiver);
    clear_waits(&q->tail, &q->receivers);
    return is_won;
}

/* Puts an item into the slot at tail, which is free. */
static inline void put(struct kin__queue *q, const void *item)
{
    uint64_t tail = kin__load_relaxed(&q->tail); /* relaxed: the lock, and no producer runs */
    KIN__ASSERT((tail >> KIN__TAIL_SHIFT) -
                        (kin__load_relaxed(&q->head) >> KIN__HEAD_SHIFT) < /* relaxed: as above */
                    q->capacity,
                "house");
    kin__item_copy(kin__queue_slot(q, tail >> KIN__TAIL_SHIFT), item, q->item_size);
    /* pairs with the acquire in kin__queue_has_item */
    kin__store_release(&q->tail, tail + KIN__TAIL_ONE);
}

/* One send, as a whole or not at all. */
static bool send_locked(struct kin__queue *q, const void *item, struct kin__wakes *wakes,
                        int *status)
{
    struct kin__claimed receiver;
    uint64_t tail = kin__load_relaxed(&q->tail); /* relaxed: the caller is the producer */
    *status = 0;
    if (KIN__UNLIKELY(tail & KIN__QUEUE_CLOSED)) {
        *status = KIN_CLOSED;
        return true;
    }
    if ((tail & KIN__QUEUE_WAITS) && claim_receiver(q, &receiver)) {
        kin__item_copy(receiver.io, item, q->item_size);
        kin__wakes_add(wakes, &receiver, 0);
        return true;
    }
    if (!kin__waitq_is_empty(&q->senders) || !kin__queue_has_room(q, tail >> KIN__TAIL_SHIFT))
        return false;
    put(q, item);
    return true;
}

/* One receive, as a whole or not at all. */
static bool recv_locked(struct kin__queue *q, void *item, struct kin__wakes *wakes, int *status)
{
    struct kin__claimed sender = {0};
    uint64_t head = kin__load_relaxed(&q->head); /* relaxed: the caller is the consumer */
    uint64_t position = head >> KIN__HEAD_SHIFT, tail = 0;
    *status = 0;
    if (!kin__queue_has_item(q, position, &tail)) {
        *status = KIN_CLOSED;
        return tail & KIN__QUEUE_CLOSED;
    }
    kin__item_copy(item, kin__queue_slot(q, position), q->item_size);
    /* pairs with the acquire in kin__queue_has_room */
    kin__store_release(&q->head, head + KIN__HEAD_ONE);
    if ((head & KIN__QUEUE_WAITS) && claim_sender(q, &sender)) {
        put(q, sender.io); /* the slot that became free [A9] */
        kin__wakes_add(wakes, &sender, 0);
    }
    return true;
}

/* ---- life of the memory ---- */

static void destroy(struct kin__queue *q)
{
    kin__bill_give(q->bill);
    kin__heap_free(q->ring);
    kin__heap_free_lines(q);
}

/* Gives the lock after a pin was taken off; the last one of a dead queue frees it. */
static void give_unpinned(struct kin__queue *q)
{
    bool is_last = q->pins == 0 && q->is_dead;
    kin__lock_give(&q->lock, KIN__RANK_WAIT);
    if (KIN__UNLIKELY(is_last))
        destroy(q);
}

/* ---- waiting ---- */

static bool send_try(void *object, void *io, int *status)
{
    struct kin__queue *q = object;
    struct kin__wakes wakes = {0};
    kin__lock_take(&q->lock, KIN__RANK_WAIT);
    bool is_complete = send_locked(q, io, &wakes, status);
    kin__lock_give(&q->lock, KIN__RANK_WAIT);
    kin__wakes_run(&wakes);
    return is_complete;
}

static bool recv_try(void *object, void *io, int *status)
{
    struct kin__queue *q = object;
    struct kin__wakes wakes = {0};
    kin__lock_take(&q->lock, KIN__RANK_WAIT);
    bool is_complete = recv_locked(q, io, &wakes, status);
    kin__lock_give(&q->lock, KIN__RANK_WAIT);
    kin__wakes_run(&wakes);
    return is_complete;
}

/* Sets WAITS in head unless there is room. With one producer the consumer may take an item at any
 * moment, lock or not; then the exchange fails. */
static bool announce_sender(struct kin__queue *q, uint64_t position)
{
    uint64_t head;
    do { /* ends: each round the consumer has moved on, and then there is room */
        /* pairs with the release of whoever moved head: the slot was read */
        head = kin__load_acquire(&q->head);
        if (position - (head >> KIN__HEAD_SHIFT) < q->capacity)
            return false;
        /* relaxed: the consumer that fails because of it takes the lock */
    } while (!kin__cas_relaxed(&q->head, &head, head | KIN__QUEUE_WAITS));
    return true;
}

/* The same in tail for a receiver that finds nothing. */
static bool announce_receiver(struct kin__queue *q)
{
    /* relaxed: the caller is the consumer */
    uint64_t position = kin__load_relaxed(&q->head) >> KIN__HEAD_SHIFT;
    uint64_t tail;
    do { /* ends: each round the producer has moved on, and then there is something */
        /* pairs with the release of whoever moved tail: the item is there */
        tail = kin__load_acquire(&q->tail);
        if (tail >> KIN__TAIL_SHIFT != position || (tail & KIN__QUEUE_CLOSED))
            return false;
        /* relaxed: the producer that fails because of it takes the lock */
    } while (!kin__cas_relaxed(&q->tail, &tail, tail | KIN__QUEUE_WAITS));
    return true;
}

/* Being linked is the admission of a send that waits [CH:5.1]. */
static bool send_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin__queue *q = object;
    (void)status;
    kin__lock_take(&q->lock, KIN__RANK_WAIT);
    uint64_t tail = kin__load_relaxed(&q->tail); /* relaxed: the caller is the producer */
    bool links = !(tail & KIN__QUEUE_CLOSED) && (!kin__waitq_is_empty(&q->senders) ||
                                                 announce_sender(q, tail >> KIN__TAIL_SHIFT));
    if (links) {
        if (q->is_single)
            kin__queue_mark(q, &q->sending, "kin_spsc_send");
        kin__waitq_push(&q->senders, waiter);
        q->pins++;
    }
    kin__lock_give(&q->lock, KIN__RANK_WAIT);
    return links;
}

static bool recv_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin__queue *q = object;
    (void)status;
    kin__lock_take(&q->lock, KIN__RANK_WAIT);
    bool links = announce_receiver(q);
    if (links) {
        kin__queue_mark(q, &q->receiving, q->is_single ? "kin_spsc_recv" : "kin_mpsc_recv");
        kin__waitq_push(&q->receivers, waiter);
        q->pins++;
    }
    kin__lock_give(&q->lock, KIN__RANK_WAIT);
    return links;
}

static void send_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin__queue *q = object;
    kin__lock_take(&q->lock, KIN__RANK_WAIT);
    kin__waitq_remove(waiter);
    clear_waits(&q->head, &q->senders);
    kin__queue_unmark(&q->sending);
    q->pins--;
    give_unpinned(q);
}

static void recv_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin__queue *q = object;
    kin__lock_take(&q->lock, KIN__RANK_WAIT);
    kin__waitq_remove(waiter);
    clear_waits(&q->tail, &q->receivers);
    kin__queue_unmark(&q->receiving);
    q->pins--;
    give_unpinned(q);
}

const struct kin__waitable kin__queue_send_waitable = {"queue: send", send_try, send_publish,
                                                       send_unpublish};
const struct kin__waitable kin__queue_recv_waitable = {"queue: receive", recv_try, recv_publish,
                                                       recv_unpublish};

KIN__WAITABLE_READY(kin__queue_send_waitable)
{
    const struct kin__queue *q = object;
    bool is_first = kin__waitq_first(&q->senders) == waiter;
    return is_first && kin__queue_len(q) < q->capacity ? "there is room for it" : NULL;
}

KIN__WAITABLE_READY(kin__queue_recv_waitable)
{
    const struct kin__queue *q = object;
    return kin__queue_len(q)          ? "there is an item"
           : kin__queue_is_closed(q) ? "it is closed"
                                     : NULL;
}

int kin__queue_send_slow(struct kin__queue *q, const void *item, kin_time deadline, bool tries)
{
    void *io = (void *)(uintptr_t)item;
    int status;
    if (tries && send_try(q, io, &status))
        return status;
    return deadline == 0 ? KIN_FULL
                         : kin__wait_until(&kin__queue_send_waitable, q, io, deadline,
                                           KIN__WAIT_TRIED);
}

int kin__queue_recv_slow(struct kin__queue *q, void *item, kin_time deadline, bool tries)
{
    int status;
    if (tries && recv_try(q, item, &status))
        return status;
    return deadline == 0 ? KIN_EMPTY
                         : kin__wait_until(&kin__queue_recv_waitable, q, item, deadline,
                                           KIN__WAIT_TRIED);
}

/* ---- life ---- */

/* Tells everybody in a queue that it is over. With the lock, which is left between batches: the
 * caller has a pin. Nobody is linked any more, so the loop ends. */
static void dismiss_locked(struct kin__queue *q, struct kin__waitq *waiters,
                           bool (*claim_one)(struct kin__queue *q, struct kin__claimed *claimed))
{
    while (!kin__waitq_is_empty(waiters)) {
        struct kin__wakes wakes = {0};
        struct kin__claimed claimed;
        while (wakes.count < WAKE_BATCH && claim_one(q, &claimed))
            kin__wakes_add(&wakes, &claimed, KIN_CLOSED);
        kin__lock_give(&q->lock, KIN__RANK_WAIT);
        kin__wakes_run(&wakes);
        kin__lock_take(&q->lock, KIN__RANK_WAIT);
    }
}

/* The one point of a close, and of the end of the last reference: senders that wait were admitted
 * and stay, unless nobody is left who could receive [CH:5.3] [A6]. */
static void shut(struct kin__queue *q, bool is_dead)
{
    KIN__LAB_CALLS();
    KIN__LAB_CALLED(q, KIN__LAB_CLOSE, is_dead ? 1 + (int)kin__queue_len(q) : 0, NULL);
    kin__lock_take(&q->lock, KIN__RANK_WAIT);
    /* pairs with the exchange of a fast send: one of the two sees the other */
    (void)kin__or_acq_rel(&q->tail, KIN__QUEUE_CLOSED);
    q->pins++;
    dismiss_locked(q, &q->receivers, claim_receiver);
    if (is_dead)
        dismiss_locked(q, &q->senders, claim_sender);
    q->is_dead = q->is_dead || is_dead;
    q->pins--;
    give_unpinned(q);
}

void kin__queue_close(struct kin__queue *q)
{
    if (!q)
        return;
    kin__entry_turn_self();
    shut(q, false);
}

void kin__queue_ref(struct kin__queue *q)
{
    if (!q)
        return;
    uint32_t old = kin__add_relaxed(&q->refs, 1u); /* relaxed: the caller has one */
    KIN__CHECK(old != 0, "002:0: a reference was taken after the last one was given up");
}

void kin__queue_unref(struct kin__queue *q)
{
    if (!q)
        return;
    kin__entry_check_gives();
    /* pairs with the other unrefs: the last one sees what was done with the others' */
    uint32_t old = kin__sub_acq_rel(&q->refs, 1u);
    KIN__CHECK(old != 0, "002:0: more references were given up than taken");
    if (old == 1)
        shut(q, true);
}

int kin__queue_create(struct kin__queue **out, size_t item_size, size_t capacity, bool is_single)
{
    size_t slots, bytes;
    if (!out || capacity == 0)
        return -EINVAL;
    int rc = kin__item_enter_anywhere(0);
    if (rc < 0)
        return rc;
    if (!kin__item_measure(item_size, capacity, &slots, &bytes))
        return -EOVERFLOW;
    struct kin__bill bill;
    rc = kin__bill_take(&bill, kin__task_self(), sizeof(struct kin__queue) + bytes);
    if (rc < 0)
        return rc;
    struct kin__queue *q = kin__heap_alloc_lines(sizeof(*q));
    if (q)
        q->ring = kin__heap_alloc(bytes);
    if (!q || !q->ring) {
        kin__heap_free_lines(q);
        kin__bill_give(bill);
        return -ENOMEM;
    }
    q->bill = bill;
    q->mask = slots - 1;
    q->capacity = capacity;
    q->item_size = (uint32_t)item_size;
    q->is_single = is_single;
    kin__store_relaxed(&q->refs, 1u); /* alone: nobody else has it yet */
    KIN__LAB_MADE(q, item_size, capacity);
    *out = q;
    return 0;
}
