/* SPDX-License-Identifier: MIT */
/*
 * Broadcasts: one lock, one ring, and subscribers that are positions in it.
 *
 *       tail                 head          positions count items since the creation
 *        |                    |
 *     ---+--[a]-[b]-[c]-[d]---+---         head - tail <= capacity
 *            ^       ^        ^
 *            one     two      two that have read everything
 *
 * An item is copied in once, whatever the number of subscribers, and memory is bounded by the
 * capacity. In mode LAG nobody is waited for: a subscriber whose position is further behind than
 * the capacity has lost the difference, and finds that out by one subtraction when it reads. In
 * mode WAIT a send needs to know whether the slowest subscriber has read the oldest item. Each slot
 * counts the subscribers whose next item it is; they move from slot to slot as they read, and tail
 * moves on when its slot is left by the last of them. So the slowest is never searched for.
 *
 * What an operation makes possible for those who wait is done by settle, for all operations alike:
 * parked sends whose items fit are admitted, oldest first [A9]; parked receives whose subscriber is
 * behind get their item; after a close the rest is told. It leaves the lock every WAKE_BATCH
 * waiters. Subscribers with parked receives are listed in order of their positions: each is listed
 * when it has read everything, hence behind all others.
 *
 * Invariants, whenever the lock is free and nobody is in the middle of settle:
 *   1  A live send waits only while the ring is full for it; later ones do not overtake it.
 *   2  A live receive waits only while its subscriber has read everything, and more may come.
 *   3  In mode WAIT the counts of all slots, and caught_up, add up to the subscribers.
 *   4  pins counts what will take the lock again: parked sends that the broadcast has not claimed,
 *      subscribers that are not freed, settles between two batches. The memory stays until then.
 *
 * What was rejected: a queue for each subscriber. A send would copy the item as often as there are
 * subscribers and hold as much memory, and in mode LAG each queue would have to throw its own
 * oldest away. Readers would not meet at one lock, but whoever sends would take all of theirs. A
 * walk over all subscribers to find the slowest: as many steps under the lock as there are
 * subscribers, each time the ring is full, which with a slow reader is always.
 */
#include <kin/stream.h>

#include "base/lab.h"
#include "base/list.h"
#include "base/lock.h"
#include "park/waitq.h"
#include "plat/plat.h"
#include "wait/item.h"
#include "wait/timer.h"

#include <errno.h>

#define WAKE_BATCH 64u /* waiters looked at before the lock is left for a moment */

struct kin_subscriber {
    struct kin_broadcast *broadcast; /* constant */
    kin__asize refs;                 /* anyone */
    /* under the broadcast's lock */
    uint64_t next;             /* position of the item that it reads next */
    struct kin__waitq waiters; /* io: a struct reading */
    struct kin__list link;     /* among the parked, while waiters is not empty */
    uint32_t pins;             /* waiters whose task will take the lock again */
    bool is_over;              /* the subscription has ended */
    struct kin__bill bill;     /* constant */
};

/* All but the constants, refs and is_closed is used under the lock. */
struct kin_broadcast {
    struct kin__lock lock; /* rank WAIT */
    kin__a32 is_closed;    /* set under the lock, for good; anyone looks */
    uint32_t item_size;    /* constant */
    uint32_t pins;
    bool waits;            /* constant: mode WAIT */
    bool is_dead;          /* has no reference left: goes with the last pin */
    uint64_t head;         /* items sent so far: the position of the next one */
    uint64_t tail;         /* mode WAIT: the oldest item that somebody has not read */
    uint64_t capacity;     /* constant */
    uint64_t mask;         /* constant; slots of the ring - 1 */
    unsigned char *ring;   /* constant */
    uint32_t *behind;      /* mode WAIT: for each slot, subscribers whose next item is there */
    uint32_t caught_up;    /* mode WAIT: subscribers that have read everything */
    kin__a32 refs;         /* anyone */
    struct kin__waitq senders; /* io: the item */
    struct kin__list parked;   /* subscribers with parked receives, by position */
    struct kin__bill bill;     /* constant */
};

/* Where a receive wants its item. */
struct reading {
    void *item;
    uint64_t *lost;
};

/* ---- the ring; with the lock ---- */

static inline bool is_closed(const struct kin_broadcast *b)
{
    return kin__load_relaxed(&b->is_closed); /* relaxed: under the lock, or only a hint */
}

static inline unsigned char *slot(const struct kin_broadcast *b, uint64_t position)
{
    return b->ring + (position & b->mask) * b->item_size;
}

static inline bool has_room(const struct kin_broadcast *b)
{
    return !b->waits || b->head - b->tail < b->capacity;
}

/* Whether a subscriber that has read everything may still get something. */
static inline bool may_come(const struct kin_broadcast *b)
{
    return !is_closed(b) || !kin__waitq_is_empty(&b->senders);
}

/* Mode WAIT: the oldest item may have been read by everybody. */
static inline void advance(struct kin_broadcast *b)
{
    while (b->tail < b->head && b->behind[b->tail & b->mask] == 0) /* ends: once for each item */
        b->tail++;
}

/* Mode WAIT: a subscriber arrives at a position. */
static inline void arrive(struct kin_broadcast *b, uint64_t position)
{
    if (position == b->head)
        b->caught_up++;
    else
        b->behind[position & b->mask]++;
}

/* Mode WAIT: a subscriber goes from a position, on or away. */
static inline void depart(struct kin_broadcast *b, uint64_t position)
{
    uint32_t *count = position == b->head ? &b->caught_up : &b->behind[position & b->mask];
    KIN__ASSERT(*count != 0, "house");
    --*count;
}

static inline void admit(struct kin_broadcast *b, const void *item)
{
    KIN__ASSERT(has_room(b), "house");
    kin__item_copy(slot(b, b->head), item, b->item_size);
    if (b->waits) {
        b->behind[b->head & b->mask] = b->caught_up; /* this is their next one */
        b->caught_up = 0;
    }
    b->head++;
    if (b->waits)
        advance(b); /* nobody subscribes: nobody is waited for */
}

static inline void read_next(struct kin_subscriber *s, const struct reading *to)
{
    struct kin_broadcast *b = s->broadcast;
    uint64_t lost = 0;
    KIN__ASSERT(s->next < b->head, "house");
    if (b->head - s->next > b->capacity) {
        lost = b->head - s->next - b->capacity;
        s->next += lost;
    }
    KIN__ASSERT(!b->waits || lost == 0, "house");
    kin__item_copy(to->item, slot(b, s->next), b->item_size);
    if (to->lost)
        *to->lost = lost;
    if (b->waits)
        depart(b, s->next);
    s->next++;
    if (b->waits) {
        arrive(b, s->next);
        advance(b);
    }
}

/* ---- life of the memory ---- */

static void destroy(struct kin_broadcast *b)
{
    kin__bill_give(b->bill);
    kin__heap_free(b->behind);
    kin__heap_free(b->ring);
    kin__heap_free_lines(b);
}

static void destroy_subscriber(struct kin_subscriber *s)
{
    kin__bill_give(s->bill);
    kin__heap_free(s);
}

/* Gives the lock after a pin was taken off; the last one of a dead broadcast frees it. */
static void give_unpinned(struct kin_broadcast *b)
{
    bool is_last = b->pins == 0 && b->is_dead;
    kin__lock_give(&b->lock, KIN__RANK_WAIT);
    if (KIN__UNLIKELY(is_last))
        destroy(b);
}

/* A subscription that is over and that nobody comes back to is nothing but memory. */
static inline bool is_garbage_locked(struct kin_subscriber *s)
{
    if (!s->is_over || s->pins != 0)
        return false;
    s->broadcast->pins--;
    return true;
}

/* ---- settling ---- */

/* Claims the oldest parked send that can be. Who is claimed never comes back for the lock. */
static inline bool claim_sender(struct kin_broadcast *b, struct kin__claimed *claimed)
{
    if (!kin__waitq_claim(&b->senders, claimed))
        return false;
    b->pins--;
    return true;
}

static inline bool claim_receiver(struct kin_subscriber *s, struct kin__claimed *claimed)
{
    bool is_won = kin__waitq_claim(&s->waiters, claimed);
    s->pins -= is_won;
    if (kin__waitq_is_empty(&s->waiters))
        kin__list_remove(&s->link);
    return is_won;
}

/* Parked sends go in as far as there is room; all are sent away when no reference is left. */
static uint32_t settle_senders(struct kin_broadcast *b, struct kin__wakes *wakes, uint32_t most)
{
    struct kin__claimed sender;
    uint32_t count = 0;
    while (count < most && (b->is_dead || has_room(b)) && claim_sender(b, &sender)) {
        if (!b->is_dead)
            admit(b, sender.io);
        kin__wakes_add(wakes, &sender, b->is_dead ? KIN_CLOSED : 0);
        count++;
    }
    return count;
}

/* Parked receives of subscribers that are behind get their items; the others are told when nothing
 * will come. The first in the list is the furthest behind. */
static uint32_t settle_receivers(struct kin_broadcast *b, struct kin__wakes *wakes, uint32_t most)
{
    struct kin__claimed receiver;
    uint32_t count = 0;
    while (count < most && !kin__list_is_empty(&b->parked)) {
        struct kin_subscriber *s =
            KIN__CONTAINER_OF(b->parked.next, struct kin_subscriber, link);
        bool is_behind = s->next < b->head;
        if (!is_behind && may_come(b))
            break;
        if (!claim_receiver(s, &receiver))
            continue; /* it is out of the list */
        if (is_behind)
            read_next(s, receiver.io);
        kin__wakes_add(wakes, &receiver, is_behind ? 0 : KIN_CLOSED);
        count++;
        if (kin__list_is_linked(&s->link) && s->next == b->head) {
            kin__list_remove(&s->link); /* it shares: the others of it have read everything, too */
            kin__list_push_back(&b->parked, &s->link);
        }
    }
    return count;
}

/* Does for those who wait what the operation of the caller has made possible. Takes the lock from
 * the caller and gives it up. */
static void settle_and_give(struct kin_broadcast *b)
{
    for (;;) { /* ends: each batch leaves fewer who can be helped, and newcomers help themselves */
        struct kin__wakes wakes = {0};
        uint32_t count, step;
        count = 0;
        do { /* room makes items, items are read, which makes room */
            step = settle_senders(b, &wakes, WAKE_BATCH - count);
            step += settle_receivers(b, &wakes, WAKE_BATCH - count - step);
            count += step;
        } while (step != 0 && count < WAKE_BATCH);
        if (KIN__LIKELY(count < WAKE_BATCH)) {
            give_unpinned(b);
            kin__wakes_run(&wakes);
            return;
        }
        b->pins++;
        kin__lock_give(&b->lock, KIN__RANK_WAIT);
        kin__wakes_run(&wakes);
        kin__lock_take(&b->lock, KIN__RANK_WAIT);
        b->pins--;
    }
}

static inline bool needs_settling(const struct kin_broadcast *b)
{
    return !kin__list_is_empty(&b->parked) || !kin__waitq_is_empty(&b->senders);
}

/* ---- sending, as something to wait for; io is the item ---- */

static bool send_try(void *object, void *io, int *status)
{
    struct kin_broadcast *b = object;
    kin__lock_take(&b->lock, KIN__RANK_WAIT);
    *status = is_closed(b) ? KIN_CLOSED : 0;
    bool is_complete = *status || (has_room(b) && kin__waitq_is_empty(&b->senders));
    if (is_complete && *status == 0) {
        admit(b, io);
        if (KIN__UNLIKELY(needs_settling(b))) {
            settle_and_give(b);
            return true;
        }
    }
    kin__lock_give(&b->lock, KIN__RANK_WAIT);
    return is_complete;
}

/* Being linked is the admission of a send that waits. */
static bool send_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin_broadcast *b = object;
    (void)status;
    kin__lock_take(&b->lock, KIN__RANK_WAIT);
    bool links = !is_closed(b) && !(has_room(b) && kin__waitq_is_empty(&b->senders));
    if (links) {
        kin__waitq_push(&b->senders, waiter);
        b->pins++;
    }
    kin__lock_give(&b->lock, KIN__RANK_WAIT);
    return links;
}

static void send_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin_broadcast *b = object;
    kin__lock_take(&b->lock, KIN__RANK_WAIT);
    kin__waitq_remove(waiter);
    b->pins--;
    settle_and_give(b); /* after a close it may have been the last that could come */
}

static const struct kin__waitable send_waitable = {"broadcast: send", send_try, send_publish,
                                                   send_unpublish};

KIN__WAITABLE_READY(send_waitable)
{
    const struct kin_broadcast *b = object;
    bool is_first = kin__waitq_first(&b->senders) == waiter;
    return is_first && has_room(b) ? "there is room for it" : NULL;
}

/* ---- receiving; the object is the subscriber, io a struct reading ---- */

static bool recv_try(void *object, void *io, int *status)
{
    struct kin_subscriber *s = object;
    struct kin_broadcast *b = s->broadcast;
    kin__lock_take(&b->lock, KIN__RANK_WAIT);
    bool reads = s->next < b->head && kin__waitq_is_empty(&s->waiters) && !s->is_over;
    *status = reads ? 0 : KIN_CLOSED;
    bool is_complete = reads || s->is_over || (s->next == b->head && !may_come(b));
    if (reads) {
        read_next(s, io);
        if (KIN__UNLIKELY(b->waits && needs_settling(b))) {
            settle_and_give(b);
            return true;
        }
    }
    kin__lock_give(&b->lock, KIN__RANK_WAIT);
    return is_complete;
}

static bool recv_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin_subscriber *s = object;
    struct kin_broadcast *b = s->broadcast;
    (void)status;
    kin__lock_take(&b->lock, KIN__RANK_WAIT);
    bool is_first = kin__waitq_is_empty(&s->waiters);
    bool links = !s->is_over && !(s->next < b->head && is_first) &&
                 (s->next < b->head || may_come(b));
    if (links) {
        KIN__ASSERT(!is_first || s->next == b->head, "house");
        kin__waitq_push(&s->waiters, waiter);
        s->pins++;
        if (is_first)
            kin__list_push_back(&b->parked, &s->link);
    }
    kin__lock_give(&b->lock, KIN__RANK_WAIT);
    return links;
}

static void recv_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin_subscriber *s = object;
    struct kin_broadcast *b = s->broadcast;
    kin__lock_take(&b->lock, KIN__RANK_WAIT);
    kin__waitq_remove(waiter);
    if (kin__waitq_is_empty(&s->waiters))
        kin__list_remove(&s->link);
    s->pins--;
    bool is_garbage = is_garbage_locked(s);
    give_unpinned(b);
    if (is_garbage)
        destroy_subscriber(s);
}

static const struct kin__waitable recv_waitable = {"broadcast: receive", recv_try, recv_publish,
                                                   recv_unpublish};

KIN__WAITABLE_READY(recv_waitable)
{
    const struct kin_subscriber *s = object;
    const struct kin_broadcast *b = s->broadcast;
    bool is_first = kin__waitq_first(&s->waiters) == waiter;
    return is_first && s->next < b->head ? "there is an item"
           : s->is_over || !may_come(b)  ? "there will be no item"
                                         : NULL;
}

/* ---- the public face ---- */

int kin_broadcast_send(struct kin_broadcast *broadcast, const void *item, kin_time deadline)
{
    void *io = (void *)(uintptr_t)item;
    int status;
    if (KIN__UNLIKELY(!broadcast || (!item && broadcast->item_size != 0)))
        return -EINVAL;
    int rc = kin__item_enter(deadline);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
    if (kin__item_tries(deadline) && send_try(broadcast, io, &status))
        return status;
    if (deadline == 0)
        return KIN_FULL;
    return kin__wait_until(&send_waitable, broadcast, io, deadline, KIN__WAIT_TRIED);
}

int kin_broadcast_recv(struct kin_subscriber *subscriber, void *item, uint64_t *lost,
                       kin_time deadline)
{
    struct reading to = {item, lost};
    int status;
    if (KIN__UNLIKELY(!subscriber))
        return -EINVAL;
    int rc = kin__item_enter(deadline);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
    if (kin__item_tries(deadline) && recv_try(subscriber, &to, &status))
        return status;
    if (deadline == 0)
        return KIN_EMPTY;
    return kin__wait_until(&recv_waitable, subscriber, &to, deadline, KIN__WAIT_TRIED);
}

/* The one point of a close, and of the end of the last reference. */
static void shut(struct kin_broadcast *b, bool is_dead)
{
    kin__lock_take(&b->lock, KIN__RANK_WAIT);
    /* relaxed: under the lock; those who look without it ask for a hint */
    kin__store_relaxed(&b->is_closed, 1u);
    b->is_dead = b->is_dead || is_dead;
    settle_and_give(b);
}

void kin_broadcast_close(struct kin_broadcast *broadcast)
{
    if (!broadcast)
        return;
    kin__entry_turn_self();
    shut(broadcast, false);
}

bool kin_broadcast_is_closed(const struct kin_broadcast *broadcast)
{
    KIN__LAB_POINT();
    return !broadcast || is_closed(broadcast);
}

struct kin_broadcast *kin_broadcast_ref(struct kin_broadcast *broadcast)
{
    KIN__LAB_POINT();
    if (broadcast) {
        uint32_t old = kin__add_relaxed(&broadcast->refs, 1u); /* relaxed: the caller has one */
        KIN__CHECK(old != 0, "002:0: a reference was taken after the last one was given up");
    }
    return broadcast;
}

void kin_broadcast_unref(struct kin_broadcast *broadcast)
{
    if (!broadcast)
        return;
    kin__entry_check_gives();
    /* pairs with the other unrefs: the last one sees what was done with the others' */
    uint32_t old = kin__sub_acq_rel(&broadcast->refs, 1u);
    KIN__CHECK(old != 0, "002:0: more references were given up than taken");
    if (old == 1)
        shut(broadcast, true);
}

static int make(struct kin_broadcast **out, size_t item_size, size_t slots, size_t bytes,
                bool waits)
{
    struct kin__bill bill;
    size_t all = sizeof(struct kin_broadcast) + bytes + (waits ? slots * sizeof(uint32_t) : 0);
    int rc = kin__bill_take(&bill, kin__task_self(), all);
    if (rc < 0)
        return rc;
    struct kin_broadcast *b = kin__heap_alloc_lines(sizeof(*b));
    if (!b) {
        kin__bill_give(bill);
        return -ENOMEM;
    }
    b->bill = bill;
    b->ring = kin__heap_alloc(bytes);
    b->behind = waits ? kin__heap_alloc(slots * sizeof(b->behind[0])) : NULL;
    if (!b->ring || (waits && !b->behind)) {
        destroy(b);
        return -ENOMEM;
    }
    b->item_size = (uint32_t)item_size;
    b->mask = slots - 1;
    b->waits = waits;
    kin__list_init(&b->parked);
    kin__store_relaxed(&b->refs, 1u); /* alone: nobody else has it yet */
    *out = b;
    return 0;
}

int kin_broadcast_create(struct kin_broadcast **out, size_t item_size, size_t capacity,
                         enum kin_broadcast_mode mode)
{
    size_t slots, bytes;
    if (!out || capacity == 0 || (mode != KIN_BROADCAST_LAG && mode != KIN_BROADCAST_WAIT))
        return -EINVAL;
    int rc = kin__item_enter_anywhere(0);
    if (rc < 0)
        return rc;
    if (!kin__item_measure(item_size, capacity, &slots, &bytes) ||
        slots > PTRDIFF_MAX / sizeof(uint32_t))
        return -EOVERFLOW;
    rc = make(out, item_size, slots, bytes, mode == KIN_BROADCAST_WAIT);
    if (rc == 0)
        (*out)->capacity = capacity;
    return rc;
}

int kin_broadcast_subscribe(struct kin_broadcast *broadcast, struct kin_subscriber **out)
{
    if (!broadcast || !out)
        return -EINVAL;
    int rc = kin__item_enter_anywhere(0);
    if (rc < 0)
        return rc;
    struct kin__bill bill;
    rc = kin__bill_take(&bill, kin__task_self(), sizeof(struct kin_subscriber));
    if (rc < 0)
        return rc;
    struct kin_subscriber *s = kin__heap_alloc(sizeof(*s));
    if (!s) {
        kin__bill_give(bill);
        return -ENOMEM;
    }
    s->bill = bill;
    s->broadcast = broadcast;
    kin__list_init(&s->link);
    kin__store_relaxed(&s->refs, 1u); /* alone: nobody else has it yet */
    kin__lock_take(&broadcast->lock, KIN__RANK_WAIT);
    bool is_late = is_closed(broadcast);
    s->next = broadcast->head;
    if (!is_late) {
        broadcast->pins++;
        if (broadcast->waits)
            arrive(broadcast, s->next);
    }
    kin__lock_give(&broadcast->lock, KIN__RANK_WAIT);
    if (is_late) {
        destroy_subscriber(s);
        return KIN_CLOSED;
    }
    *out = s;
    return 0;
}

struct kin_subscriber *kin_subscriber_ref(struct kin_subscriber *subscriber)
{
    KIN__LAB_POINT();
    if (subscriber) {
        size_t old = kin__add_relaxed(&subscriber->refs, 1u); /* relaxed: the caller has one */
        KIN__CHECK(old != 0, "002:0: a reference was taken after the last one was given up");
    }
    return subscriber;
}

/* Tells everybody who waits on a subscription that it is over, in batches. With the lock, which is
 * left in between. */
static void dismiss_locked(struct kin_subscriber *s)
{
    struct kin_broadcast *b = s->broadcast;
    while (!kin__waitq_is_empty(&s->waiters)) { /* ends: nobody is linked any more */
        struct kin__wakes wakes = {0};
        struct kin__claimed receiver;
        while (wakes.count < WAKE_BATCH && claim_receiver(s, &receiver))
            kin__wakes_add(&wakes, &receiver, KIN_CLOSED);
        kin__lock_give(&b->lock, KIN__RANK_WAIT);
        kin__wakes_run(&wakes);
        kin__lock_take(&b->lock, KIN__RANK_WAIT);
    }
}

void kin_subscriber_unref(struct kin_subscriber *subscriber)
{
    struct kin_subscriber *s = subscriber;
    if (!s)
        return;
    kin__entry_check_gives();
    /* pairs with the other unrefs: the last one sees what was done with the others' */
    size_t old = kin__sub_acq_rel(&s->refs, 1u);
    KIN__CHECK(old != 0, "002:0: more references were given up than taken");
    if (old != 1)
        return;
    struct kin_broadcast *b = s->broadcast;
    kin__lock_take(&b->lock, KIN__RANK_WAIT);
    s->is_over = true;
    s->pins++;
    dismiss_locked(s);
    if (b->waits) {
        depart(b, s->next);
        advance(b);
    }
    s->pins--;
    bool is_garbage = is_garbage_locked(s);
    settle_and_give(b); /* a send may have waited for nobody else */
    if (is_garbage)
        destroy_subscriber(s);
}
