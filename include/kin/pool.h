/* SPDX-License-Identifier: MIT */
/*
 * Pools: do something with many items, a limited number of them at a time.
 *
 *     kin_pool_map     the items of an array, with a result for each
 *     kin_pool_each    whatever comes out of a channel, until it is closed
 *
 * At most limit tasks are made, and each does one item after the other. They hold the capabilities
 * of the caller, in every profile. The call returns when the last of them is over, so what fn
 * points at may be the caller's own. When fn fails the rest is cancelled, or goes on, as on_error
 * says:
 *
 *     KIN_FAIL_FAST    items that are not begun never are, those in flight are cancelled and waited
 *                      for; the call returns the first failure in time
 *     KIN_COLLECT      every item is done; the call returns the failure of the first item in order
 */
#ifndef KIN_POOL_H
#define KIN_POOL_H

#include <kin/base.h>
#include <kin/chan.h>
#include <kin/nursery.h>
#include <kin/status.h>
#include <kin/time.h>

#include <stddef.h>

KIN_BEGIN_DECLS

/* What is done with each item, in a task. result is where its result goes, or NULL. At least 0 is
 * success, less than 0 is the item's failure; so are kin_fail and a panic, which end the task but
 * not the pool. */
typedef int kin_pool_fn(void *item, void *result, void *arg);

struct kin_pool_options {
    size_t size;
    const char *name;           /* of the tasks; kept until the call returns */
    unsigned limit;             /* items in flight at most; 0: as many as the runtime has workers */
    enum kin_on_error on_error; /* 0: KIN_FAIL_FAST */
    void *arg;                  /* handed to fn */
    void *results;              /* kin_pool_map: a place for each item's result, in their order */
    size_t result_size;         /* bytes of one */
    int *statuses;              /* kin_pool_map: receives what fn returned for each item, in their
                                   order; KIN_CANCELLED for those that were never begun */
};
#define KIN_POOL_OPTIONS_INIT                                                                      \
    { sizeof(struct kin_pool_options), 0, 0, KIN_FAIL_FAST, 0, 0, 0, 0 }
#ifndef __cplusplus
#define KIN_POOL_OPTIONS(...) KIN_OPTIONS_(kin_pool_options, __VA_ARGS__)
#endif

/**
 * kin_pool_map - call fn for each item of an array.
 * @options:   borrowed; NULL for all defaults.
 * @fn:        what is done with an item.
 * @items:     the first item; borrowed. fn may change items in place.
 * @item_size: bytes from one item to the next.
 * @count:     how many; 0 does nothing.
 * @deadline:  when it comes before the last item is done, the rest is cancelled; 0: at once.
 *
 * Items are begun in their order. There is no order among those in flight.
 *
 * Example:
 *     int length_of(void *item, void *result, void *arg)
 *     {
 *         (void)arg;
 *         *(size_t *)result = strlen(*(const char **)item);
 *         return 0;
 *     }
 *
 *     int lengths_of(const char **words, size_t count, size_t *lengths)
 *     {
 *         struct kin_pool_options options = KIN_POOL_OPTIONS_INIT;
 *         options.limit = 8;
 *         options.results = lengths;
 *         options.result_size = sizeof *lengths;
 *         return kin_pool_map(&options, length_of, words, sizeof *words, count, KIN_NEVER);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  cancels what is in flight; it is waited for all the same
 * Needs:   KIN_CAP_SPAWN
 * Budget:  1 op, 1 spawn for each child
 * Returns: 0 when every item succeeded; the first failure; KIN_TIMEOUT when the deadline came;
 *          KIN_CANCELLED; -EINVAL for NULL or a wrong size, -EOVERFLOW for more items than can be
 *          addressed, -ENOMEM, KIN_NOCAP, KIN_BUDGET, KIN_NOTASK, KIN_UNSUPPORTED in the core
 *          profile
 */
KIN_API KIN_MUST_USE int kin_pool_map(const struct kin_pool_options *options, kin_pool_fn *fn,
                                      void *items, size_t item_size, size_t count,
                                      kin_time deadline);

/**
 * kin_pool_each - call fn for each item that comes out of a channel.
 * @options:  borrowed; NULL for all defaults. results and statuses must be NULL.
 * @fn:       what is done with an item; the item is fn's until it returns.
 * @from:     a channel; kept until the call returns, and neither closed nor drained when it fails.
 * @deadline: when it comes before the channel is closed and empty, the rest is cancelled; 0: at
 *            once.
 *
 * Tasks are made as items come, at most limit of them. Every item that was taken out is given to
 * fn, also when the pool is being cancelled.
 *
 * Example:
 *     int store(void *item, void *result, void *arg)
 *     {
 *         (void)result;
 *         return fprintf(arg, "%s\n", *(char **)item);
 *     }
 *
 *     int store_all(struct kin_chan *lines, FILE *file)
 *     {
 *         struct kin_pool_options options = KIN_POOL_OPTIONS_INIT;
 *         options.limit = 4;
 *         options.arg = file;
 *         return kin_pool_each(&options, store, lines, KIN_NEVER);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  cancels what is in flight; it is waited for all the same
 * Needs:   KIN_CAP_SPAWN and KIN_CAP_CHANNEL
 * Budget:  1 op, 1 spawn for each child, 1 channel operation
 * Returns: 0 when the channel is closed and every item succeeded; the first failure; KIN_TIMEOUT
 *          when the deadline came; KIN_CANCELLED; -EINVAL for NULL or a wrong size, -ENOMEM,
 *          KIN_NOCAP, KIN_BUDGET, KIN_NOTASK, KIN_UNSUPPORTED in the core profile
 */
KIN_API KIN_MUST_USE int kin_pool_each(const struct kin_pool_options *options, kin_pool_fn *fn,
                                       struct kin_chan *from, kin_time deadline);

KIN_END_DECLS

#endif
