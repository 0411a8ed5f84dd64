/* SPDX-License-Identifier: MIT */
/*
 * Channels: a lock, a ring, and two queues of waiters.
 *
 *                 close                  abort
 *        OPEN ------------> CLOSED ----------------> CLOSED, ABORTED
 *          |                                          ^         |
 *          +--------------------abort-----------------+         | last reference gone
 *                                                               v
 *                                                   DEAD: freed with the last pin
 *
 * One step under the lock is one operation; it either completes or changes nothing:
 *
 *     send      not OPEN                     KIN_CLOSED
 *               a receiver can be claimed    its buffer gets the item, it is woken
 *               the ring has room            the ring gets the item
 *               otherwise                    cannot complete
 *     receive   the ring has an item         take it; if a sender can be claimed, its item takes
 *                                            the place that became free and it is woken
 *               a sender can be claimed      take its item, it is woken
 *               not OPEN                     KIN_CLOSED
 *               otherwise                    cannot complete
 *     publish   the step of the same direction would do something: not linked, try again
 *               otherwise                    linked behind the others
 *
 * Each is written once, and every form uses it: with or without a deadline, in a select, from a
 * thread, and for the test whether a park must be called off.
 *
 * Invariants, whenever the lock is free. A waiter is live until its park is claimed; one that is
 * not, and was not yet taken out, stands for nobody.
 *
 *   1  A live receiver waits only while the ring is empty, the channel is OPEN, and no other task's
 *      live sender waits. Hence a close may wake every receiver: there is nothing to deliver.
 *   2  A live sender waits only while the ring is full and no other task's live receiver waits.
 *      Hence nobody who comes later overtakes it: the receive that makes room moves its item in the
 *      same step [A9].
 *   3  Items leave in the order in which they were admitted: ring, then senders, each by age.
 *   4  After the close no sender is linked [CH:5.4]; those that are stay until they are received
 *      from or leave [CH:5.3] [A6]. After the abort nobody is claimed but to hear of it.
 *   5  The bits SENDERS and RECEIVERS say whether the queues are empty.
 *   6  pins counts those who will take the lock once more: waiters that were linked and neither
 *      claimed by the channel nor unpublished; calls that let others run before they try; a close
 *      that wakes in batches. The memory stays until they have [A6].
 *
 * A select may have a sender and a receiver on one channel. They are of one task, so they must not
 * meet: publish does not count waiters of its own task, and a claim of one's own park is always
 * lost, because whoever runs a step is not parked.
 *
 * A claimed task is woken after the lock is given up, and giving it up is the last time that an
 * operation touches the channel. So whoever saw the effect of an operation may drop the last
 * reference, though that operation has not returned yet.
 *
 * A call that reaches the lock without having let others run has no pin until it waits: whoever
 * drops the last reference at that very moment has not seen it begin.
 *
 * What was rejected: a lock-free ring. It is no faster with partners on one worker, where the ring
 * and the queues are hot, and "ring empty, then link" would need a second look after each link. A
 * reference for the time of each call: two read-modify-writes, as much as the lock itself costs.
 */
#include "wait/chan.h"

#include "plat/plat.h"
#include "sched/entry.h"
#include "task/budget.h"
#include "wait/item.h"
#include "wait/timer.h"

#include <errno.h>
#include <stdint.h>

_Static_assert(KIN_CHAN_ITEM_MAX == KIN__ITEM_MAX, "one limit");

#define WAKE_BATCH 64u /* waiters looked at before the lock is left for a moment */

/* ---- small steps; _locked ones with the channel's lock ---- */

static inline void set_locked(struct kin_chan *chan, uint32_t state)
{
    kin__store_relaxed(&chan->state, state); /* relaxed: as in kin__chan_state */
}

static inline void count_locked(struct kin_chan *chan, size_t count)
{
    kin__store_relaxed(&chan->count, count); /* relaxed: as in kin__chan_count */
}

static inline unsigned char *slot(const struct kin_chan *chan, size_t at)
{
    return chan->ring + (at & chan->mask) * chan->item_size;
}

/* Takes one waiter out of a queue whose bit is given and claims its park; false: somebody else
 * did. A waiter that was claimed here never comes back for the lock. */
static inline bool claim_one_locked(struct kin_chan *chan, struct kin__waitq *queue, uint32_t bit,
                                    struct kin__claimed *claimed)
{
    bool is_won = kin__waitq_claim_one(kin__waitq_first(queue), claimed);
    chan->pins -= is_won;
    if (kin__waitq_is_empty(queue))
        set_locked(chan, kin__chan_state(chan) & ~bit);
    return is_won;
}

/* The oldest one whose park can be claimed. False: there is none, and none is left. */
static inline bool claim_locked(struct kin_chan *chan, struct kin__waitq *queue, uint32_t bit,
                                struct kin__claimed *claimed)
{
    while (kin__chan_state(chan) & bit) { /* ends: one waiter fewer each time */
        if (KIN__LIKELY(claim_one_locked(chan, queue, bit, claimed)))
            return true;
    }
    return false;
}

static inline bool claim_sender_locked(struct kin_chan *chan, struct kin__claimed *claimed)
{
    return claim_locked(chan, &chan->senders, KIN__CHAN_SENDERS, claimed);
}

static inline bool claim_receiver_locked(struct kin_chan *chan, struct kin__claimed *claimed)
{
    return claim_locked(chan, &chan->receivers, KIN__CHAN_RECEIVERS, claimed);
}

/* ---- the two steps ---- */

/* Admission is this step: the channel is seen open and the item is delivered, in one [CH:5.1]. A
 * partner comes first, then the ring [CH:5.5]. */
static inline bool send_locked(struct kin_chan *chan, const void *item, struct kin__wakes *wakes,
                               int *status)
{
    struct kin__claimed receiver;
    uint32_t state = kin__chan_state(chan);
    *status = 0;
    if (KIN__UNLIKELY(state & KIN__CHAN_CLOSED)) {
        *status = KIN_CLOSED;
        return true;
    }
    if ((state & KIN__CHAN_RECEIVERS) && claim_receiver_locked(chan, &receiver)) {
        kin__item_copy(receiver.io, item, chan->item_size);
        kin__wakes_add(wakes, &receiver, 0);
        return true;
    }
    size_t count = kin__chan_count(chan);
    if (count >= chan->capacity)
        return false;
    kin__item_copy(slot(chan, chan->head + count), item, chan->item_size);
    count_locked(chan, count + 1);
    return true;
}

/* A closed channel still delivers what it holds, and what waiting senders have brought [CH:5.2]. */
static inline bool recv_locked(struct kin_chan *chan, void *item, struct kin__wakes *wakes,
                               int *status)
{
    struct kin__claimed sender;
    uint32_t state = kin__chan_state(chan);
    size_t count = kin__chan_count(chan);
    *status = 0;
    if (count != 0) {
        size_t head = chan->head++;
        kin__item_copy(item, slot(chan, head), chan->item_size);
        if ((state & KIN__CHAN_SENDERS) && claim_sender_locked(chan, &sender)) {
            /* the place behind the last one [A9] */
            kin__item_copy(slot(chan, head + count), sender.io, chan->item_size);
            kin__wakes_add(wakes, &sender, 0);
        } else {
            count_locked(chan, count - 1);
        }
        return true;
    }
    if ((state & (KIN__CHAN_SENDERS | KIN__CHAN_ABORTED)) == KIN__CHAN_SENDERS &&
        claim_sender_locked(chan, &sender)) {
        kin__item_copy(item, sender.io, chan->item_size);
        kin__wakes_add(wakes, &sender, 0);
        return true;
    }
    if (KIN__LIKELY(!(state & KIN__CHAN_CLOSED)))
        return false;
    *status = KIN_CLOSED;
    return true;
}

/* ---- life of the memory ---- */

static void destroy(struct kin_chan *chan)
{
    kin__bill_give(chan->bill);
    if (chan->ring != (unsigned char *)chan)
        kin__heap_free(chan->ring);
    kin__heap_free_lines(chan);
}

/* Gives the lock after a pin was taken off; the last one of a dead channel frees it. False: it is
 * dead, and not for the caller to touch any more. */
static inline bool give_unpinned(struct kin_chan *chan)
{
    bool is_dead = kin__chan_state(chan) & KIN__CHAN_DEAD;
    bool is_last = is_dead && chan->pins == 0;
    kin__lock_give(&chan->lock, KIN__RANK_WAIT);
    if (KIN__UNLIKELY(is_last))
        destroy(chan);
    return !is_dead;
}

void kin__chan_pin(struct kin_chan *chan)
{
    kin__lock_take(&chan->lock, KIN__RANK_WAIT);
    chan->pins++;
    kin__lock_give(&chan->lock, KIN__RANK_WAIT);
}

bool kin__chan_unpin(struct kin_chan *chan)
{
    kin__lock_take(&chan->lock, KIN__RANK_WAIT);
    chan->pins--;
    return give_unpinned(chan);
}

/* ---- waiting ---- */

static bool send_try(void *object, void *io, int *status)
{
    struct kin_chan *chan = object;
    struct kin__wakes wakes = {0};
    if (kin__chan_send_is_hopeless(chan))
        return false;
    kin__lock_take(&chan->lock, KIN__RANK_WAIT);
    bool is_complete = send_locked(chan, io, &wakes, status);
    kin__lock_give(&chan->lock, KIN__RANK_WAIT);
    kin__wakes_run(&wakes);
    return is_complete;
}

static bool recv_try(void *object, void *io, int *status)
{
    struct kin_chan *chan = object;
    struct kin__wakes wakes = {0};
    if (kin__chan_recv_is_hopeless(chan))
        return false;
    kin__lock_take(&chan->lock, KIN__RANK_WAIT);
    bool is_complete = recv_locked(chan, io, &wakes, status);
    kin__lock_give(&chan->lock, KIN__RANK_WAIT);
    kin__wakes_run(&wakes);
    return is_complete;
}

/* Whether somebody else than this task waits in a queue. Only a select has several of one task in
 * one queue, so the loop is short. */
static bool has_other(const struct kin__waitq *queue, const struct kin__task *task)
{
    for (const struct kin__list *link = queue->list.next; link != &queue->list; link = link->next) {
        if (KIN__CONTAINER_OF((struct kin__list *)link, struct kin__waiter, link)->task != task)
            return true;
    }
    return false;
}

/* Links a waiter and gives the lock. */
static inline void link_and_give(struct kin_chan *chan, struct kin__waitq *queue, uint32_t bit,
                                 struct kin__waiter *waiter)
{
    kin__waitq_push(queue, waiter);
    set_locked(chan, kin__chan_state(chan) | bit);
    chan->pins++;
    kin__lock_give(&chan->lock, KIN__RANK_WAIT);
}

/* Being linked is the admission of a sender that waits [CH:5.1]. */
static bool send_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin_chan *chan = object;
    (void)status;
    kin__lock_take(&chan->lock, KIN__RANK_WAIT);
    uint32_t state = kin__chan_state(chan);
    if ((state & KIN__CHAN_CLOSED) || kin__chan_count(chan) < chan->capacity ||
        ((state & KIN__CHAN_RECEIVERS) && has_other(&chan->receivers, waiter->task))) {
        kin__lock_give(&chan->lock, KIN__RANK_WAIT);
        return false;
    }
    link_and_give(chan, &chan->senders, KIN__CHAN_SENDERS, waiter);
    return true;
}

static bool recv_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin_chan *chan = object;
    (void)status;
    kin__lock_take(&chan->lock, KIN__RANK_WAIT);
    uint32_t state = kin__chan_state(chan);
    if ((state & KIN__CHAN_CLOSED) || kin__chan_count(chan) != 0 ||
        ((state & KIN__CHAN_SENDERS) && has_other(&chan->senders, waiter->task))) {
        kin__lock_give(&chan->lock, KIN__RANK_WAIT);
        return false;
    }
    link_and_give(chan, &chan->receivers, KIN__CHAN_RECEIVERS, waiter);
    return true;
}

static inline void unlink_waiter(struct kin_chan *chan, struct kin__waitq *queue, uint32_t bit,
                                 struct kin__waiter *waiter)
{
    kin__lock_take(&chan->lock, KIN__RANK_WAIT);
    kin__waitq_remove(waiter);
    if (kin__waitq_is_empty(queue))
        set_locked(chan, kin__chan_state(chan) & ~bit);
    chan->pins--;
    (void)give_unpinned(chan);
}

static void send_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin_chan *chan = object;
    unlink_waiter(chan, &chan->senders, KIN__CHAN_SENDERS, waiter);
}

static void recv_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin_chan *chan = object;
    unlink_waiter(chan, &chan->receivers, KIN__CHAN_RECEIVERS, waiter);
}

const struct kin__waitable kin__chan_send_waitable = {"channel: send", send_try, send_publish,
                                                      send_unpublish};
const struct kin__waitable kin__chan_recv_waitable = {"channel: receive", recv_try, recv_publish,
                                                      recv_unpublish};

KIN__WAITABLE_READY(kin__chan_send_waitable)
{
    const struct kin_chan *chan = object;
    if (kin__chan_count(chan) < chan->capacity)
        return "the channel has room";
    if (kin__chan_state(chan) & KIN__CHAN_ABORTED)
        return "the channel is closed";
    return (kin__chan_state(chan) & KIN__CHAN_RECEIVERS) &&
                   has_other(&chan->receivers, waiter->task)
               ? "a receiver waits"
               : NULL;
}

KIN__WAITABLE_READY(kin__chan_recv_waitable)
{
    const struct kin_chan *chan = object;
    if (kin__chan_count(chan) > 0)
        return "the channel has an item";
    if (kin__chan_state(chan) & KIN__CHAN_CLOSED)
        return "the channel is closed";
    return (kin__chan_state(chan) & KIN__CHAN_SENDERS) && has_other(&chan->senders, waiter->task)
               ? "a sender waits"
               : NULL;
}

/* ---- the end ---- */

/* Wakes everybody in a queue with KIN_CLOSED. The lock is left between batches; nobody is linked
 * any more, so the loop ends. */
static void wake_all(struct kin_chan *chan, struct kin__waitq *queue, uint32_t bit)
{
    bool is_more;
    do {
        struct kin__wakes wakes = {0};
        struct kin__claimed claimed;
        kin__lock_take(&chan->lock, KIN__RANK_WAIT);
        for (uint32_t i = 0; i < WAKE_BATCH && (kin__chan_state(chan) & bit); i++) {
            if (claim_one_locked(chan, queue, bit, &claimed))
                kin__wakes_add(&wakes, &claimed, KIN_CLOSED);
        }
        is_more = kin__chan_state(chan) & bit;
        kin__lock_give(&chan->lock, KIN__RANK_WAIT);
        kin__wakes_run(&wakes);
    } while (is_more);
}

/* The one point of a close, an abort, and of the end of the last reference: the bits are set. Who
 * waits hears of it afterwards, once, because whoever set the bits tells them [CH:5.3] [CH:5.4]. */
static void shut(struct kin_chan *chan, uint32_t bits)
{
    KIN__LAB_CALLS();
    KIN__LAB_CALLED(chan, KIN__LAB_CLOSE,
                    bits & KIN__CHAN_ABORTED ? 1 + (int)kin__chan_count(chan) : 0, NULL);
    kin__lock_take(&chan->lock, KIN__RANK_WAIT);
    uint32_t state = kin__chan_state(chan);
    set_locked(chan, state | bits);
    if (bits & KIN__CHAN_ABORTED)
        count_locked(chan, 0);
    if ((state & bits) == bits || !(state & (KIN__CHAN_SENDERS | KIN__CHAN_RECEIVERS))) {
        (void)give_unpinned(chan);
        return;
    }
    chan->pins++; /* those that are woken may drop the last reference */
    kin__lock_give(&chan->lock, KIN__RANK_WAIT);
    wake_all(chan, &chan->receivers, KIN__CHAN_RECEIVERS);
    if (bits & KIN__CHAN_ABORTED)
        wake_all(chan, &chan->senders, KIN__CHAN_SENDERS);
    (void)kin__chan_unpin(chan);
}

/* ---- the public face ---- */

/* Both directions: one try, then the wait. refused is the answer when it must not wait. */
static inline int operate(struct kin_chan *chan, const struct kin__waitable *ops, void *item,
                          struct kin__task *task, kin_time deadline, int refused)
{
    int status;
    if (kin__item_tries(deadline) && ops->try_complete(chan, item, &status))
        return status;
    if (deadline == 0)
        return refused;
    /* what kin__wait_until does most of the time */
    if (KIN__LIKELY(task && kin__deadline_of(task, deadline) == KIN_NEVER))
        return kin__wait(ops, chan, item, KIN__WAIT_TRIED);
    return kin__wait_until(ops, chan, item, deadline, KIN__WAIT_TRIED | KIN__WAIT_THREAD);
}

/* The charge of an operation, when others may run meanwhile: one of them may give up the last
 * reference, so the call keeps the memory. */
static __attribute__((noinline)) int charge_slow(struct kin_chan *chan, struct kin__task *task,
                                                 kin_time deadline)
{
    kin__chan_pin(chan);
    int rc = kin__op(task, KIN_CAP_CHANNEL | KIN__COST_CHANNEL, deadline);
    return kin__chan_unpin(chan) || rc < 0 ? rc : KIN_CLOSED;
}

/* What every operation begins with. 0, or what it must answer instead. */
static inline int enter(struct kin_chan *chan, struct kin__task *task, kin_time deadline)
{
    if (KIN__UNLIKELY(!task))
        return kin__entry_outside(KIN_CAP_CHANNEL);
    kin__entry_check(task);
    if (KIN__UNLIKELY(kin__op_may_yield(task)))
        return charge_slow(chan, task, deadline);
    return kin__op(task, KIN_CAP_CHANNEL | KIN__COST_CHANNEL, deadline);
}

int kin_chan_send(struct kin_chan *chan, const void *item, kin_time deadline)
{
    if (KIN__UNLIKELY(!chan || (!item && chan->item_size != 0)))
        return -EINVAL;
    struct kin__task *task = kin__task_self();
    KIN__LAB_CALLS();
    int rc = enter(chan, task, deadline);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
    rc = operate(chan, &kin__chan_send_waitable, (void *)(uintptr_t)item, task, deadline, KIN_FULL);
    KIN__LAB_CALLED(chan, KIN__LAB_SEND, rc, item);
    return rc;
}

int kin_chan_recv(struct kin_chan *chan, void *item, kin_time deadline)
{
    if (KIN__UNLIKELY(!chan))
        return -EINVAL;
    struct kin__task *task = kin__task_self();
    KIN__LAB_CALLS();
    int rc = enter(chan, task, deadline);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
    rc = operate(chan, &kin__chan_recv_waitable, item, task, deadline, KIN_EMPTY);
    KIN__LAB_CALLED(chan, KIN__LAB_RECV, rc, item);
    return rc;
}

void kin_chan_close(struct kin_chan *chan)
{
    if (!chan)
        return;
    kin__entry_turn_self();
    shut(chan, KIN__CHAN_CLOSED);
}

void kin_chan_abort(struct kin_chan *chan)
{
    if (!chan)
        return;
    kin__entry_turn_self();
    shut(chan, KIN__CHAN_CLOSED | KIN__CHAN_ABORTED);
}

struct kin_chan *kin_chan_ref(struct kin_chan *chan)
{
    KIN__LAB_POINT();
    if (chan) {
        size_t old = kin__add_relaxed(&chan->refs, 1u); /* relaxed: the caller has one */
        KIN__CHECK(old != 0, "002:0: a reference was taken after the last one was given up");
    }
    return chan;
}

void kin_chan_unref(struct kin_chan *chan)
{
    if (!chan)
        return;
    kin__entry_check_gives();
    /* pairs with the other unrefs: the last one sees what was done with the others' */
    size_t old = kin__sub_acq_rel(&chan->refs, 1u);
    KIN__CHECK(old != 0, "002:0: more references were given up than taken");
    if (old == 1)
        shut(chan, KIN__CHAN_CLOSED | KIN__CHAN_ABORTED | KIN__CHAN_DEAD);
}

size_t kin_chan_len(const struct kin_chan *chan)
{
    KIN__LAB_POINT();
    return chan ? kin__chan_count(chan) : 0;
}

size_t kin_chan_cap(const struct kin_chan *chan)
{
    return chan ? chan->capacity : 0;
}

bool kin_chan_is_closed(const struct kin_chan *chan)
{
    KIN__LAB_POINT();
    return !chan || (kin__chan_state(chan) & KIN__CHAN_CLOSED);
}

int kin_chan_create(struct kin_chan **out, size_t item_size, size_t capacity)
{
    size_t slots, bytes;
    if (!out)
        return -EINVAL;
    int rc = kin__item_enter_anywhere(0);
    if (rc < 0)
        return rc;
    if (!kin__item_measure(item_size, capacity, &slots, &bytes))
        return -EOVERFLOW;
    struct kin__bill bill;
    bool has_ring = capacity && bytes;
    rc = kin__bill_take(&bill, kin__task_self(), sizeof(struct kin_chan) + (has_ring ? bytes : 0));
    if (rc < 0)
        return rc;
    struct kin_chan *chan = kin__heap_alloc_lines(sizeof(*chan));
    if (chan)
        chan->ring = has_ring ? kin__heap_alloc(bytes) : (unsigned char *)chan;
    if (!chan || !chan->ring) {
        kin__heap_free_lines(chan);
        kin__bill_give(bill);
        return -ENOMEM;
    }
    chan->bill = bill;
    chan->item_size = (uint32_t)item_size;
    chan->capacity = capacity;
    chan->mask = slots - 1;
    kin__store_relaxed(&chan->refs, 1u); /* alone: nobody else has it yet */
    KIN__LAB_MADE(chan, item_size, capacity);
    *out = chan;
    return 0;
}
