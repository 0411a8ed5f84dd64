/* SPDX-License-Identifier: MIT */
/*
 * Channels: items of one size that go from senders to receivers, each exactly once, in order.
 *
 *     capacity 0    a rendezvous: a send ends when a receiver has the item
 *     capacity n    a send ends when the item is inside; up to n wait there for a receiver
 *
 * Whoever has to wait stands in line; the oldest is served first, and nobody who comes later
 * overtakes. A call that does not succeed has handed nothing over and taken nothing.
 *
 *     close    ends admission, never data: what is inside, and what senders that wait already
 *              brought, is still received in order; then receives answer KIN_CLOSED
 *     abort    ends everything: what is inside is dropped, whoever waits gets KIN_CLOSED
 *
 * A channel belongs to no nursery: it lives as long as somebody has a reference. Any thread of the
 * process may use it, with or without a runtime; a thread blocks where a task would park.
 */
#ifndef KIN_CHAN_H
#define KIN_CHAN_H

#include <kin/base.h>
#include <kin/status.h>
#include <kin/time.h>

#include <stdbool.h>
#include <stddef.h>

KIN_BEGIN_DECLS

struct kin_chan;

/* The largest item. Send a pointer to something larger. */
#define KIN_CHAN_ITEM_MAX ((size_t)65536)

/**
 * kin_chan_create - make a channel.
 * @out:       receives it, with one reference; unchanged on failure.
 * @item_size: bytes of an item, at most KIN_CHAN_ITEM_MAX; 0: items are signals without content,
 *             and pointers to them are ignored.
 * @capacity:  items that fit inside; 0: a rendezvous.
 *
 * Memory for all of the capacity is asked for here, so that no send can run out of it.
 *
 * Example:
 *     int lengths(void *arg)
 *     {
 *         struct kin_chan *words = arg;
 *         const char *word;
 *         int sum = 0;
 *         while (kin_chan_recv(words, &word, KIN_NEVER) == 0)
 *             sum += (int)strlen(word);
 *         return sum;
 *     }
 *
 *     int count(const char **text, size_t words)
 *     {
 *         struct kin_chan *chan;
 *         int rc = kin_chan_create(&chan, sizeof(const char *), 16);
 *         if (rc < 0)
 *             return rc;
 *         KIN_NURSERY(n);
 *         rc = kin_spawn(&n, lengths, chan);
 *         for (size_t i = 0; i < words && rc == 0; i++)
 *             rc = kin_chan_send(chan, &text[i], KIN_NEVER);
 *         kin_chan_close(chan);
 *         rc = kin_nursery_end(&n, rc);
 *         kin_chan_unref(chan);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Needs:   KIN_CAP_CHANNEL
 * Budget:  1 op, memory until the last reference is gone
 * Returns: 0, -EINVAL for NULL, -EOVERFLOW when an item or the whole is too large to be addressed,
 *          -ENOMEM, KIN_NOCAP without KIN_CAP_CHANNEL, KIN_BUDGET, KIN_CANCELLED when a turn ended
 *          here and the task has been cancelled
 * Spec:    [002:0]
 */
KIN_API KIN_MUST_USE int kin_chan_create(struct kin_chan **out, size_t item_size, size_t capacity);

/**
 * kin_chan_ref - keep a channel.
 * @chan: a channel; NULL is left alone.
 *
 * Example:
 *     int serve(void *arg)
 *     {
 *         struct kin_chan *requests = arg;
 *         int number, rc;
 *         while ((rc = kin_chan_recv(requests, &number, KIN_NEVER)) == 0)
 *             printf("%d\n", number);
 *         kin_chan_unref(requests);
 *         return rc == KIN_CLOSED ? 0 : rc;
 *     }
 *
 *     int start_server(struct kin_nursery *n, struct kin_chan *requests)
 *     {
 *         int rc = kin_spawn(n, serve, kin_chan_ref(requests));
 *         if (rc < 0)
 *             kin_chan_unref(requests);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: chan
 */
KIN_API struct kin_chan *kin_chan_ref(struct kin_chan *chan);

/**
 * kin_chan_unref - give up a reference.
 * @chan: given; NULL is left alone.
 *
 * The last one ends the channel as kin_chan_abort does. A call in progress keeps the memory until
 * it has returned; a call must not begin after the last reference is gone, nor at the same moment:
 * whoever may call while others unref has a reference of its own.
 *
 * Example:
 *     int one_number(void)
 *     {
 *         struct kin_chan *chan;
 *         int item = 7, rc = kin_chan_create(&chan, sizeof item, 1);
 *         if (rc < 0)
 *             return rc;
 *         rc = kin_chan_send(chan, &item, 0);
 *         kin_chan_unref(chan);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: nothing
 */
KIN_API void kin_chan_unref(struct kin_chan *chan);

/**
 * kin_chan_send - hand an item over.
 * @chan:     a channel.
 * @item:     borrowed; copied.
 * @deadline: until when to wait for a receiver, or for room; 0: not at all.
 *
 * A sender that waits was admitted: a close does not send it away.
 *
 * Example:
 *     int count_to(struct kin_chan *chan, int last)
 *     {
 *         int rc = 0;
 *         for (int i = 1; i <= last && rc == 0; i++)
 *             rc = kin_chan_send(chan, &i, KIN_NEVER);
 *         return rc;
 *     }
 *
 * From:    task, thread (which blocks)
 * Parks:   yes
 * Cancel:  while it waits; the item stays with the caller
 * Needs:   KIN_CAP_CHANNEL
 * Budget:  1 op, 1 channel operation
 * Returns: 0 when it was handed over, KIN_CLOSED, KIN_FULL with deadline 0, KIN_TIMEOUT,
 *          KIN_CANCELLED, KIN_BUDGET, KIN_NOCAP, -EINVAL for a NULL channel, or a NULL item of a
 *          size, -ENOMEM for a thread that cannot wait
 * Spec:    [CH:5.1]
 */
KIN_API KIN_MUST_USE int kin_chan_send(struct kin_chan *chan, const void *item, kin_time deadline);

/**
 * kin_chan_recv - take the oldest item.
 * @chan:     a channel.
 * @item:     receives it; NULL: it is dropped.
 * @deadline: until when to wait for one; 0: not at all.
 *
 * Example:
 *     int drain(struct kin_chan *numbers, long *sum)
 *     {
 *         int number, rc;
 *         while ((rc = kin_chan_recv(numbers, &number, kin_after(KIN_SEC(1)))) == 0)
 *             *sum += number;
 *         return rc == KIN_CLOSED ? 0 : rc;
 *     }
 *
 * From:    task, thread (which blocks)
 * Parks:   yes
 * Cancel:  while it waits; nothing was taken
 * Needs:   KIN_CAP_CHANNEL
 * Budget:  1 op, 1 channel operation
 * Returns: 0 when an item was taken, KIN_CLOSED when there is none and never will be, KIN_EMPTY
 *          with deadline 0, KIN_TIMEOUT, KIN_CANCELLED, KIN_BUDGET, KIN_NOCAP, -EINVAL for a NULL
 *          channel, -ENOMEM for a thread that cannot wait
 * Spec:    [CH:5.2]
 */
KIN_API KIN_MUST_USE int kin_chan_recv(struct kin_chan *chan, void *item, kin_time deadline);

/**
 * kin_chan_close - end admission.
 * @chan: a channel; NULL or a closed one is left alone.
 *
 * Sends that come later answer KIN_CLOSED. Receivers that wait wake with KIN_CLOSED. What is inside
 * and what waiting senders brought is still received, in order.
 *
 * Example:
 *     int produce(void *arg)
 *     {
 *         struct kin_chan *chan = arg;
 *         int last = 100, rc = kin_chan_send(chan, &last, KIN_NEVER);
 *         kin_chan_close(chan);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: nothing
 * Spec:    [CH:5.3] [CH:5.4]
 */
KIN_API void kin_chan_close(struct kin_chan *chan);

/**
 * kin_chan_abort - close, and drop everything.
 * @chan: a channel; NULL is left alone.
 *
 * What is inside is lost. Senders and receivers that wait wake with KIN_CLOSED; the items of these
 * senders were not handed over.
 *
 * Example:
 *     void stop_in_a_hurry(struct kin_chan *jobs)
 *     {
 *         kin_chan_abort(jobs);
 *         kin_chan_unref(jobs);
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: nothing
 */
KIN_API void kin_chan_abort(struct kin_chan *chan);

/**
 * kin_chan_len - items inside, without those of waiting senders.
 * @chan: a channel; NULL has none.
 *
 * Example:
 *     void show_queue(const struct kin_chan *chan)
 *     {
 *         printf("%zu of %zu\n", kin_chan_len(chan), kin_chan_cap(chan));
 *     }
 *
 * From:    anywhere
 * Returns: how many; others may have changed it by the time it is read
 */
KIN_API size_t kin_chan_len(const struct kin_chan *chan);

/**
 * kin_chan_cap - items that fit inside, as given to kin_chan_create.
 * @chan: a channel; NULL has room for none.
 *
 * Example:
 *     int is_half_full(const struct kin_chan *chan)
 *     {
 *         return kin_chan_len(chan) >= kin_chan_cap(chan) / 2;
 *     }
 *
 * From:    anywhere
 * Returns: how many
 */
KIN_API size_t kin_chan_cap(const struct kin_chan *chan);

/**
 * kin_chan_is_closed - whether admission has ended.
 * @chan: a channel; NULL admits nothing.
 *
 * There may still be something to receive.
 *
 * Example:
 *     int offer(struct kin_chan *chan, const int *item)
 *     {
 *         return kin_chan_is_closed(chan) ? KIN_CLOSED : kin_chan_send(chan, item, 0);
 *     }
 *
 * From:    anywhere
 * Returns: true for good once it was closed or aborted
 */
KIN_API bool kin_chan_is_closed(const struct kin_chan *chan);

KIN_END_DECLS

#endif
