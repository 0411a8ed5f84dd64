/* SPDX-License-Identifier: MIT */
/*
 * Fast queues: channels that know how many use them, for pipelines and mailboxes.
 *
 *     spsc    one task sends, one receives: the stages of a pipeline
 *     mpsc    many send, one receives: a mailbox
 *
 * They do what a buffered channel does, with the same words for it: bounded, in order, each item
 * exactly once, close ends admission and never data. Because one task alone receives, a receive
 * that finds something takes no lock, and neither does a send when one task alone sends. They
 * cannot be part of a select and cannot be used by plain threads.
 *
 * "One" means one at a time: a queue may be handed to another task, as long as the first one is
 * done with it. Two at once are found in debug builds, which abort and name both; otherwise items
 * may be lost or received twice.
 */
#ifndef KIN_QUEUE_H
#define KIN_QUEUE_H

#include <kin/base.h>
#include <kin/status.h>
#include <kin/time.h>

#include <stdbool.h>
#include <stddef.h>

KIN_BEGIN_DECLS

struct kin_spsc;
struct kin_mpsc;

/* The largest item. Send a pointer to something larger. */
#define KIN_QUEUE_ITEM_MAX ((size_t)65536)

/**
 * kin_spsc_create - make a queue for one sender and one receiver.
 * @out:       receives it, with one reference; unchanged on failure.
 * @item_size: bytes of an item, at most KIN_QUEUE_ITEM_MAX; 0: items are signals without content,
 *             and pointers to them are ignored.
 * @capacity:  items that fit inside; at least 1.
 *
 * Memory for all of the capacity is asked for here, so that no send can run out of it.
 *
 * Example:
 *     int square(void *arg)
 *     {
 *         struct kin_spsc **ends = arg;
 *         long number;
 *         int rc;
 *         while ((rc = kin_spsc_recv(ends[0], &number, KIN_NEVER)) == 0) {
 *             number *= number;
 *             rc = kin_spsc_send(ends[1], &number, KIN_NEVER);
 *             if (rc < 0)
 *                 break;
 *         }
 *         kin_spsc_close(ends[1]);
 *         return rc == KIN_CLOSED ? 0 : rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Needs:   KIN_CAP_CHANNEL
 * Budget:  1 op, memory until the last reference is gone
 * Returns: 0, -EINVAL for NULL or capacity 0, -EOVERFLOW when an item or the whole is too large,
 *          -ENOMEM, KIN_NOCAP without KIN_CAP_CHANNEL, KIN_BUDGET
 */
KIN_API KIN_MUST_USE int kin_spsc_create(struct kin_spsc **out, size_t item_size, size_t capacity);

/**
 * kin_spsc_ref - keep a queue.
 * @queue: a queue; NULL is left alone.
 *
 * Example:
 *     struct consumer {
 *         struct kin_spsc *queue;
 *     };
 *
 *     void give(struct consumer *consumer, struct kin_spsc *queue)
 *     {
 *         consumer->queue = kin_spsc_ref(queue);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: queue
 */
KIN_API struct kin_spsc *kin_spsc_ref(struct kin_spsc *queue);

/**
 * kin_spsc_unref - give up a reference.
 * @queue: given; NULL is left alone.
 *
 * The last one ends the queue: what is inside is lost, and whoever waits wakes with KIN_CLOSED. A
 * call in progress keeps the memory until it has returned; a call must not begin after the last
 * reference is gone.
 *
 * Example:
 *     void finish(struct kin_spsc *queue)
 *     {
 *         kin_spsc_close(queue);
 *         kin_spsc_unref(queue);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: nothing
 */
KIN_API void kin_spsc_unref(struct kin_spsc *queue);

/**
 * kin_spsc_close - end admission.
 * @queue: a queue; NULL or a closed one is left alone.
 *
 * A send that comes later answers KIN_CLOSED. What is inside, and what a waiting send brought, is
 * still received.
 *
 * Example:
 *     int produce(struct kin_spsc *queue, const int *items, size_t count)
 *     {
 *         int rc = 0;
 *         for (size_t i = 0; i < count && rc == 0; i++)
 *             rc = kin_spsc_send(queue, &items[i], KIN_NEVER);
 *         kin_spsc_close(queue);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: nothing
 */
KIN_API void kin_spsc_close(struct kin_spsc *queue);

/**
 * kin_spsc_send - put an item in.
 * @queue:    a queue.
 * @item:     borrowed; copied.
 * @deadline: until when to wait for room; 0: not at all.
 *
 * Example:
 *     int offer(struct kin_spsc *queue, const int *item)
 *     {
 *         return kin_spsc_send(queue, item, kin_after(KIN_MS(10)));
 *     }
 *
 * From:    task; no other may send at the same time
 * Parks:   yes
 * Cancel:  while it waits; the item stays with the caller
 * Needs:   KIN_CAP_CHANNEL
 * Budget:  1 op, 1 channel operation
 * Returns: 0 when it is inside, KIN_CLOSED, KIN_FULL with deadline 0, KIN_TIMEOUT, KIN_CANCELLED,
 *          KIN_BUDGET, KIN_NOCAP, KIN_NOTASK, -EINVAL for a NULL queue, or a NULL item of a size
 */
KIN_API KIN_MUST_USE int kin_spsc_send(struct kin_spsc *queue, const void *item, kin_time deadline);

/**
 * kin_spsc_recv - take the oldest item.
 * @queue:    a queue.
 * @item:     receives it; NULL: it is dropped.
 * @deadline: until when to wait for one; 0: not at all.
 *
 * Example:
 *     int sum_all(struct kin_spsc *queue, long *sum)
 *     {
 *         int item, rc;
 *         while ((rc = kin_spsc_recv(queue, &item, KIN_NEVER)) == 0)
 *             *sum += item;
 *         return rc == KIN_CLOSED ? 0 : rc;
 *     }
 *
 * From:    task; no other may receive at the same time
 * Parks:   yes
 * Cancel:  while it waits; nothing was taken
 * Needs:   KIN_CAP_CHANNEL
 * Budget:  1 op, 1 channel operation
 * Returns: 0 when an item was taken, KIN_CLOSED when there is none and never will be, KIN_EMPTY
 *          with deadline 0, KIN_TIMEOUT, KIN_CANCELLED, KIN_BUDGET, KIN_NOCAP, KIN_NOTASK, -EINVAL
 *          for a NULL queue
 */
KIN_API KIN_MUST_USE int kin_spsc_recv(struct kin_spsc *queue, void *item, kin_time deadline);

/**
 * kin_spsc_len - items inside.
 * @queue: a queue; NULL has none.
 *
 * Example:
 *     int is_idle(const struct kin_spsc *queue)
 *     {
 *         return kin_spsc_len(queue) == 0;
 *     }
 *
 * From:    anywhere
 * Returns: how many; others may have changed it by the time it is read
 */
KIN_API size_t kin_spsc_len(const struct kin_spsc *queue);

/**
 * kin_spsc_cap - items that fit inside, as given to kin_spsc_create.
 * @queue: a queue; NULL has room for none.
 *
 * Example:
 *     size_t room_in(const struct kin_spsc *queue)
 *     {
 *         return kin_spsc_cap(queue) - kin_spsc_len(queue);
 *     }
 *
 * From:    anywhere
 * Returns: how many
 */
KIN_API size_t kin_spsc_cap(const struct kin_spsc *queue);

/**
 * kin_spsc_is_closed - whether admission has ended.
 * @queue: a queue; NULL admits nothing.
 *
 * Example:
 *     int is_over(const struct kin_spsc *queue)
 *     {
 *         return kin_spsc_is_closed(queue) && kin_spsc_len(queue) == 0;
 *     }
 *
 * From:    anywhere
 * Returns: true for good once it was closed
 */
KIN_API bool kin_spsc_is_closed(const struct kin_spsc *queue);

/**
 * kin_mpsc_create - make a queue for many senders and one receiver.
 * @out:       receives it, with one reference; unchanged on failure.
 * @item_size: bytes of an item, at most KIN_QUEUE_ITEM_MAX; 0: items are signals without content,
 *             and pointers to them are ignored.
 * @capacity:  items that fit inside; at least 1.
 *
 * Memory for all of the capacity is asked for here, so that no send can run out of it.
 *
 * Example:
 *     int count_votes(void *arg)
 *     {
 *         struct kin_mpsc *box = arg;
 *         int vote, rc, yes = 0;
 *         while ((rc = kin_mpsc_recv(box, &vote, KIN_NEVER)) == 0)
 *             yes += vote;
 *         return rc == KIN_CLOSED ? yes : rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Needs:   KIN_CAP_CHANNEL
 * Budget:  1 op, memory until the last reference is gone
 * Returns: 0, -EINVAL for NULL or capacity 0, -EOVERFLOW when an item or the whole is too large,
 *          -ENOMEM, KIN_NOCAP without KIN_CAP_CHANNEL, KIN_BUDGET
 */
KIN_API KIN_MUST_USE int kin_mpsc_create(struct kin_mpsc **out, size_t item_size, size_t capacity);

/**
 * kin_mpsc_ref - keep a queue.
 * @queue: a queue; NULL is left alone.
 *
 * Example:
 *     struct consumer {
 *         struct kin_mpsc *queue;
 *     };
 *
 *     void give(struct consumer *consumer, struct kin_mpsc *queue)
 *     {
 *         consumer->queue = kin_mpsc_ref(queue);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: queue
 */
KIN_API struct kin_mpsc *kin_mpsc_ref(struct kin_mpsc *queue);

/**
 * kin_mpsc_unref - give up a reference.
 * @queue: given; NULL is left alone.
 *
 * The last one ends the queue: what is inside is lost, and whoever waits wakes with KIN_CLOSED. A
 * call in progress keeps the memory until it has returned; a call must not begin after the last
 * reference is gone.
 *
 * Example:
 *     void finish(struct kin_mpsc *queue)
 *     {
 *         kin_mpsc_close(queue);
 *         kin_mpsc_unref(queue);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: nothing
 */
KIN_API void kin_mpsc_unref(struct kin_mpsc *queue);

/**
 * kin_mpsc_close - end admission.
 * @queue: a queue; NULL or a closed one is left alone.
 *
 * Sends that come later answer KIN_CLOSED. What is inside, and what waiting sends brought, is still
 * received, in order.
 *
 * Example:
 *     int produce(struct kin_mpsc *queue, const int *items, size_t count)
 *     {
 *         int rc = 0;
 *         for (size_t i = 0; i < count && rc == 0; i++)
 *             rc = kin_mpsc_send(queue, &items[i], KIN_NEVER);
 *         kin_mpsc_close(queue);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: nothing
 */
KIN_API void kin_mpsc_close(struct kin_mpsc *queue);

/**
 * kin_mpsc_send - put an item in.
 * @queue:    a queue.
 * @item:     borrowed; copied.
 * @deadline: until when to wait for room; 0: not at all.
 *
 * Items of one sender are received in its order. Sends that wait are admitted in the order in which
 * they came, and no later one overtakes them.
 *
 * Example:
 *     int offer(struct kin_mpsc *queue, const int *item)
 *     {
 *         return kin_mpsc_send(queue, item, kin_after(KIN_MS(10)));
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits; the item stays with the caller
 * Needs:   KIN_CAP_CHANNEL
 * Budget:  1 op, 1 channel operation
 * Returns: 0 when it is inside, KIN_CLOSED, KIN_FULL with deadline 0, KIN_TIMEOUT, KIN_CANCELLED,
 *          KIN_BUDGET, KIN_NOCAP, KIN_NOTASK, -EINVAL for a NULL queue, or a NULL item of a size
 */
KIN_API KIN_MUST_USE int kin_mpsc_send(struct kin_mpsc *queue, const void *item, kin_time deadline);

/**
 * kin_mpsc_recv - take the oldest item.
 * @queue:    a queue.
 * @item:     receives it; NULL: it is dropped.
 * @deadline: until when to wait for one; 0: not at all.
 *
 * Example:
 *     int sum_all(struct kin_mpsc *queue, long *sum)
 *     {
 *         int item, rc;
 *         while ((rc = kin_mpsc_recv(queue, &item, KIN_NEVER)) == 0)
 *             *sum += item;
 *         return rc == KIN_CLOSED ? 0 : rc;
 *     }
 *
 * From:    task; no other may receive at the same time
 * Parks:   yes
 * Cancel:  while it waits; nothing was taken
 * Needs:   KIN_CAP_CHANNEL
 * Budget:  1 op, 1 channel operation
 * Returns: 0 when an item was taken, KIN_CLOSED when there is none and never will be, KIN_EMPTY
 *          with deadline 0, KIN_TIMEOUT, KIN_CANCELLED, KIN_BUDGET, KIN_NOCAP, KIN_NOTASK, -EINVAL
 *          for a NULL queue
 */
KIN_API KIN_MUST_USE int kin_mpsc_recv(struct kin_mpsc *queue, void *item, kin_time deadline);

/**
 * kin_mpsc_len - items inside.
 * @queue: a queue; NULL has none.
 *
 * Example:
 *     int is_idle(const struct kin_mpsc *queue)
 *     {
 *         return kin_mpsc_len(queue) == 0;
 *     }
 *
 * From:    anywhere
 * Returns: how many; others may have changed it by the time it is read
 */
KIN_API size_t kin_mpsc_len(const struct kin_mpsc *queue);

/**
 * kin_mpsc_cap - items that fit inside, as given to kin_mpsc_create.
 * @queue: a queue; NULL has room for none.
 *
 * Example:
 *     size_t room_in(const struct kin_mpsc *queue)
 *     {
 *         return kin_mpsc_cap(queue) - kin_mpsc_len(queue);
 *     }
 *
 * From:    anywhere
 * Returns: how many
 */
KIN_API size_t kin_mpsc_cap(const struct kin_mpsc *queue);

/**
 * kin_mpsc_is_closed - whether admission has ended.
 * @queue: a queue; NULL admits nothing.
 *
 * Example:
 *     int is_over(const struct kin_mpsc *queue)
 *     {
 *         return kin_mpsc_is_closed(queue) && kin_mpsc_len(queue) == 0;
 *     }
 *
 * From:    anywhere
 * Returns: true for good once it was closed
 */
KIN_API bool kin_mpsc_is_closed(const struct kin_mpsc *queue);

KIN_END_DECLS

#endif
