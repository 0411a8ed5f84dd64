/* SPDX-License-Identifier: MIT */
/*
 * Streams: one value to many readers. A broadcast is a sequence of items, a watch is one value that
 * changes.
 *
 *     broadcast    every subscriber gets every item that is sent after it subscribed, in order
 *     watch        every reader can have the latest value, and wait until there is a newer one
 *
 * A broadcast has a ring of items, and a subscriber is a place in it. When the ring is full of
 * items that somebody has not read yet, the mode decides:
 *
 *     KIN_BROADCAST_LAG     the oldest item goes; who has not read it is told how many it lost
 *     KIN_BROADCAST_WAIT    the send waits until the slowest subscriber has made room
 *
 * Close ends admission, never data: subscribers still read what they have not read yet, and the
 * last value of a watch can still be had; then it is KIN_CLOSED. Streams belong to no nursery: they
 * live as long as somebody has a reference.
 */
#ifndef KIN_STREAM_H
#define KIN_STREAM_H

#include <kin/base.h>
#include <kin/status.h>
#include <kin/time.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

KIN_BEGIN_DECLS

struct kin_broadcast;
struct kin_subscriber;
struct kin_watch;

/* The largest item of a broadcast or a watch. Send a pointer to something larger. */
#define KIN_STREAM_ITEM_MAX ((size_t)65536)

/* What a broadcast does when an item is sent and the oldest one has not been read by everybody. */
enum kin_broadcast_mode {
    KIN_BROADCAST_LAG = 0, /* it goes */
    KIN_BROADCAST_WAIT     /* the send waits */
};

/**
 * kin_broadcast_create - make a broadcast.
 * @out:       receives it, with one reference; unchanged on failure.
 * @item_size: bytes of an item, at most KIN_STREAM_ITEM_MAX; 0: items are signals without content,
 *             and pointers to them are ignored.
 * @capacity:  items that are kept for those who have not read them yet; at least 1.
 * @mode:      what happens when they are all taken.
 *
 * Memory for all of the capacity is asked for here, so that no send can run out of it.
 *
 * Example:
 *     int make_news(struct kin_broadcast **news)
 *     {
 *         return kin_broadcast_create(news, sizeof(int), 64, KIN_BROADCAST_LAG);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Needs:   KIN_CAP_CHANNEL
 * Budget:  1 op, memory until the last reference is gone
 * Returns: 0, -EINVAL for NULL, capacity 0 or an unknown mode, -EOVERFLOW when an item or the whole
 *          is too large, -ENOMEM, KIN_NOCAP without KIN_CAP_CHANNEL, KIN_BUDGET, KIN_CANCELLED
 *          when a turn ended here and the task has been cancelled
 */
KIN_API KIN_MUST_USE int kin_broadcast_create(struct kin_broadcast **out, size_t item_size,
                                              size_t capacity, enum kin_broadcast_mode mode);

/**
 * kin_broadcast_ref - keep a broadcast.
 * @broadcast: a broadcast; NULL is left alone.
 *
 * Example:
 *     struct newsroom {
 *         struct kin_broadcast *news;
 *     };
 *
 *     void join(struct newsroom *room, struct kin_broadcast *news)
 *     {
 *         room->news = kin_broadcast_ref(news);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: broadcast
 */
KIN_API struct kin_broadcast *kin_broadcast_ref(struct kin_broadcast *broadcast);

/**
 * kin_broadcast_unref - give up a reference.
 * @broadcast: given; NULL is left alone.
 *
 * The last one closes it, and sends that wait for room answer KIN_CLOSED. Subscribers keep what
 * they have not read yet: they can still receive it. A call in progress keeps the memory until it
 * has returned; a call must not begin after the last reference is gone.
 *
 * Example:
 *     int open_station(struct kin_broadcast *news, struct kin_subscriber **listener)
 *     {
 *         int rc = kin_broadcast_subscribe(news, listener);
 *         kin_broadcast_unref(news);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: nothing
 */
KIN_API void kin_broadcast_unref(struct kin_broadcast *broadcast);

/**
 * kin_broadcast_close - end admission.
 * @broadcast: a broadcast; NULL or a closed one is left alone.
 *
 * Sends that come later answer KIN_CLOSED, and so do receives once a subscriber has read all. A
 * send that waits for room was admitted: its item is still read by everybody.
 *
 * Example:
 *     void sign_off(struct kin_broadcast *news)
 *     {
 *         kin_broadcast_close(news);
 *         kin_broadcast_unref(news);
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: nothing
 */
KIN_API void kin_broadcast_close(struct kin_broadcast *broadcast);

/**
 * kin_broadcast_send - give an item to every subscriber.
 * @broadcast: a broadcast.
 * @item:      borrowed; copied.
 * @deadline:  until when to wait for room in mode KIN_BROADCAST_WAIT; 0: not at all. In mode
 *             KIN_BROADCAST_LAG there always is room.
 *
 * Without subscribers the item is read by nobody, which is a success. Sends that wait are admitted
 * in the order in which they came.
 *
 * Example:
 *     int announce(struct kin_broadcast *news, int number)
 *     {
 *         return kin_broadcast_send(news, &number, KIN_NEVER);
 *     }
 *
 * From:    task
 * Parks:   in mode KIN_BROADCAST_WAIT
 * Cancel:  while it waits; the item was not sent
 * Needs:   KIN_CAP_CHANNEL
 * Budget:  1 op, 1 channel operation
 * Returns: 0 when it was sent, KIN_CLOSED, KIN_FULL with deadline 0, KIN_TIMEOUT, KIN_CANCELLED,
 *          KIN_BUDGET, KIN_NOCAP, KIN_NOTASK, -EINVAL for a NULL broadcast, or a NULL item of a
 *          size
 */
KIN_API KIN_MUST_USE int kin_broadcast_send(struct kin_broadcast *broadcast, const void *item,
                                            kin_time deadline);

/**
 * kin_broadcast_subscribe - begin to read a broadcast.
 * @broadcast: a broadcast.
 * @out:       receives a subscriber with one reference; unchanged on failure.
 *
 * It gets the items that are sent from here on. It keeps the memory of the broadcast, not its
 * admission: when nobody else has a reference the broadcast is closed. Several tasks may share a
 * subscriber; each item then goes to one of them.
 *
 * Example:
 *     int print_prices(void *arg)
 *     {
 *         struct kin_subscriber *prices = arg;
 *         double price;
 *         uint64_t lost;
 *         int rc;
 *         while ((rc = kin_broadcast_recv(prices, &price, &lost, KIN_NEVER)) == 0) {
 *             if (lost != 0)
 *                 printf("(%llu prices were missed)\n", (unsigned long long)lost);
 *             printf("%.2f\n", price);
 *         }
 *         kin_subscriber_unref(prices);
 *         return rc == KIN_CLOSED ? 0 : rc;
 *     }
 *
 *     int watch_prices(struct kin_nursery *n, struct kin_broadcast *market)
 *     {
 *         struct kin_subscriber *prices;
 *         int rc = kin_broadcast_subscribe(market, &prices);
 *         return rc < 0 ? rc : kin_spawn(n, print_prices, prices);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Needs:   KIN_CAP_CHANNEL
 * Budget:  1 op, memory until the last reference is gone
 * Returns: 0, KIN_CLOSED, -EINVAL for NULL, -ENOMEM, KIN_NOCAP, KIN_BUDGET, KIN_CANCELLED as
 *          kin_broadcast_create
 */
KIN_API KIN_MUST_USE int kin_broadcast_subscribe(struct kin_broadcast *broadcast,
                                                 struct kin_subscriber **out);

/**
 * kin_broadcast_recv - read the next item.
 * @subscriber: a subscriber.
 * @item:       receives it; NULL: it is dropped.
 * @lost:       receives how many items this subscriber missed before this one, because the ring
 *              went on without it; always 0 in mode KIN_BROADCAST_WAIT. May be NULL.
 * @deadline:   until when to wait for one; 0: not at all.
 *
 * Example:
 *     int listen(struct kin_subscriber *news)
 *     {
 *         uint64_t lost;
 *         int number, rc;
 *         while ((rc = kin_broadcast_recv(news, &number, &lost, KIN_NEVER)) == 0)
 *             printf("%d, after %llu that were missed\n", number, (unsigned long long)lost);
 *         return rc == KIN_CLOSED ? 0 : rc;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits; nothing was read
 * Needs:   KIN_CAP_CHANNEL
 * Budget:  1 op, 1 channel operation
 * Returns: 0 when an item was read, KIN_CLOSED when there is none and never will be, KIN_EMPTY with
 *          deadline 0, KIN_TIMEOUT, KIN_CANCELLED, KIN_BUDGET, KIN_NOCAP, KIN_NOTASK, -EINVAL for a
 *          NULL subscriber
 */
KIN_API KIN_MUST_USE int kin_broadcast_recv(struct kin_subscriber *subscriber, void *item,
                                            uint64_t *lost, kin_time deadline);

/**
 * kin_broadcast_is_closed - whether admission has ended.
 * @broadcast: a broadcast; NULL admits nothing.
 *
 * Example:
 *     int is_on_air(const struct kin_broadcast *news)
 *     {
 *         return !kin_broadcast_is_closed(news);
 *     }
 *
 * From:    anywhere
 * Returns: true for good once it was closed
 */
KIN_API bool kin_broadcast_is_closed(const struct kin_broadcast *broadcast);

/**
 * kin_subscriber_ref - keep a subscriber.
 * @subscriber: a subscriber; NULL is left alone.
 *
 * Example:
 *     struct listener {
 *         struct kin_subscriber *news;
 *     };
 *
 *     void share(struct listener *with, struct kin_subscriber *news)
 *     {
 *         with->news = kin_subscriber_ref(news);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: subscriber
 */
KIN_API struct kin_subscriber *kin_subscriber_ref(struct kin_subscriber *subscriber);

/**
 * kin_subscriber_unref - give up a reference.
 * @subscriber: given; NULL is left alone.
 *
 * The last one ends the subscription: what was not read is not waited for any more, so that a send
 * in mode KIN_BROADCAST_WAIT may find room. Receives that wait on it answer KIN_CLOSED.
 *
 * Example:
 *     int next_one_only(struct kin_subscriber *news, int *number)
 *     {
 *         int rc = kin_broadcast_recv(news, number, NULL, KIN_NEVER);
 *         kin_subscriber_unref(news);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: nothing
 */
KIN_API void kin_subscriber_unref(struct kin_subscriber *subscriber);

/**
 * kin_watch_create - make a watch.
 * @out:       receives it, with one reference; unchanged on failure.
 * @item_size: bytes of the value, at most KIN_STREAM_ITEM_MAX; 0: only the version counts.
 * @initial:   borrowed; the first value, version 1.
 *
 * Example:
 *     int follow(struct kin_watch *level)
 *     {
 *         uint64_t version = 0;
 *         int value, rc;
 *         while ((rc = kin_watch_wait(level, &value, &version, KIN_NEVER)) == 0)
 *             printf("the level is %d\n", value);
 *         return rc == KIN_CLOSED ? 0 : rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Needs:   KIN_CAP_CHANNEL
 * Budget:  1 op, memory until the last reference is gone
 * Returns: 0, -EINVAL for NULL, -EOVERFLOW when the value is too large, -ENOMEM, KIN_NOCAP without
 *          KIN_CAP_CHANNEL, KIN_BUDGET, KIN_CANCELLED as kin_broadcast_create
 */
KIN_API KIN_MUST_USE int kin_watch_create(struct kin_watch **out, size_t item_size,
                                          const void *initial);

/**
 * kin_watch_ref - keep a watch.
 * @watch: a watch; NULL is left alone.
 *
 * Example:
 *     struct panel {
 *         struct kin_watch *speed;
 *     };
 *
 *     void attach(struct panel *panel, struct kin_watch *speed)
 *     {
 *         panel->speed = kin_watch_ref(speed);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: watch
 */
KIN_API struct kin_watch *kin_watch_ref(struct kin_watch *watch);

/**
 * kin_watch_unref - give up a reference.
 * @watch: given; NULL is left alone.
 *
 * The last one closes it: whoever waits wakes with KIN_CLOSED. A call in progress keeps the memory
 * until it has returned; a call must not begin after the last reference is gone.
 *
 * Example:
 *     int read_and_leave(struct kin_watch *speed, int *value)
 *     {
 *         int rc = kin_watch_get(speed, value, NULL);
 *         kin_watch_unref(speed);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: nothing
 */
KIN_API void kin_watch_unref(struct kin_watch *watch);

/**
 * kin_watch_close - the value does not change any more.
 * @watch: a watch; NULL or a closed one is left alone.
 *
 * Whoever waits for a newer value wakes with KIN_CLOSED; the last one can still be had.
 *
 * Example:
 *     void turn_off(struct kin_watch *speed)
 *     {
 *         kin_watch_close(speed);
 *         kin_watch_unref(speed);
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: nothing
 */
KIN_API void kin_watch_close(struct kin_watch *watch);

/**
 * kin_watch_set - replace the value.
 * @watch: a watch.
 * @item:  borrowed; copied.
 *
 * The version grows by one, also when the value is the same as before. Everybody who waits for a
 * newer one gets it, or an even newer one.
 *
 * Example:
 *     int set_speed(struct kin_watch *speed, int value)
 *     {
 *         return kin_watch_set(speed, &value);
 *     }
 *
 * From:    task, thread
 * Parks:   only when its budget is used up
 * Needs:   KIN_CAP_CHANNEL
 * Budget:  1 op, 1 channel operation
 * Returns: 0, KIN_CLOSED, -EINVAL for a NULL watch, or a NULL item of a size, KIN_CANCELLED,
 *          KIN_BUDGET, KIN_NOCAP
 */
KIN_API KIN_MUST_USE int kin_watch_set(struct kin_watch *watch, const void *item);

/**
 * kin_watch_get - the latest value.
 * @watch:   a watch, closed or not.
 * @item:    receives it; may be NULL.
 * @version: receives its version, to wait for a newer one; may be NULL.
 *
 * Example:
 *     int level_now(struct kin_watch *level)
 *     {
 *         int value = 0;
 *         int rc = kin_watch_get(level, &value, NULL);
 *         return rc < 0 ? rc : value;
 *     }
 *
 * From:    task, thread
 * Parks:   only when its budget is used up
 * Needs:   KIN_CAP_CHANNEL
 * Budget:  1 op, 1 channel operation
 * Returns: 0, -EINVAL for a NULL watch, KIN_CANCELLED, KIN_BUDGET, KIN_NOCAP
 */
KIN_API KIN_MUST_USE int kin_watch_get(struct kin_watch *watch, void *item, uint64_t *version);

/**
 * kin_watch_wait - wait until the value is newer than one that is known.
 * @watch:    a watch.
 * @item:     receives the latest value; may be NULL.
 * @version:  the version that is known, 0 for none; receives that of the latest value.
 * @deadline: until when to wait; 0: not at all.
 *
 * Values that were replaced before they were read are skipped: the difference of the versions tells
 * how many.
 *
 * Example:
 *     int follow(struct kin_watch *speed)
 *     {
 *         uint64_t version = 0;
 *         int value, rc;
 *         while ((rc = kin_watch_wait(speed, &value, &version, KIN_NEVER)) == 0)
 *             printf("now %d\n", value);
 *         return rc == KIN_CLOSED ? 0 : rc;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits; *version is unchanged
 * Needs:   KIN_CAP_CHANNEL
 * Budget:  1 op, 1 channel operation
 * Returns: 0 when there is a newer one, KIN_CLOSED when there never will be, KIN_EMPTY with
 *          deadline 0, KIN_TIMEOUT, KIN_CANCELLED, KIN_BUDGET, KIN_NOCAP, KIN_NOTASK, -EINVAL for a
 *          NULL watch or version
 */
KIN_API KIN_MUST_USE int kin_watch_wait(struct kin_watch *watch, void *item, uint64_t *version,
                                        kin_time deadline);

/**
 * kin_watch_is_closed - whether the value has changed for the last time.
 * @watch: a watch; NULL never changes.
 *
 * Example:
 *     int is_current(const struct kin_watch *watch)
 *     {
 *         return !kin_watch_is_closed(watch);
 *     }
 *
 * From:    anywhere
 * Returns: true for good once it was closed
 */
KIN_API bool kin_watch_is_closed(const struct kin_watch *watch);

KIN_END_DECLS

#endif
