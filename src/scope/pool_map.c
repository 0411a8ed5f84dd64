/* SPDX-License-Identifier: MIT */
/*
 * Pools: a nursery of runners that take one item after the other.
 *
 *     array      next ------------> an index for whoever comes, in order
 *     channel    from ------------> an item for whoever waits
 *                   |        |
 *                runner   runner   ...   at most limit, in one nursery
 *                   |        |
 *                fn(item)  fn(item)      one item in flight for each
 *
 * The limit is the number of runners, so nothing has to be counted up and down around fn, and a
 * million items cost as many tasks as may run at once. Failing fast is the nursery's own: a runner
 * returns the failure of its item. When failures are collected a runner writes them down and goes
 * on.
 *
 * fn may end its runner instead of returning: by kin_fail, a panic, a stack overflow. A runner says
 * which item it has in hand before it calls fn, so after the join that item is known, and the
 * nursery's list of failures tells how it ended. When failures are collected and runners are lost
 * that way the others go on; if none is left a new round begins with a new nursery, until there are
 * no more items. A round that begins no item ends it: then tasks cannot be had.
 *
 * Runners live on the heap, because what they had in hand is read after the join, when the
 * nursery's own memory is gone.
 *
 * What was rejected: a task for each item under the nursery's tasks_max. It is what a program
 * without pools writes; it makes as many tasks as there are items, and results would have to find
 * their item again.
 */
#include "scope/scope.h"

#include "base/lock.h"
#include "plat/plat.h"
#include "sched/entry.h"
#include "scope/capability.h"
#include "wait/chan.h"

#include <kin/pool.h>

#include <errno.h>

#define ERRORS_MAX 1024u /* failures that a round keeps; of further lost runners only the loss */

struct pool;

/* A task of the pool, and what it has in hand. */
struct runner {
    struct runner *next;     /* among the pool's */
    struct pool *pool;
    struct kin_task_ref ref; /* read after the join */
    size_t index;            /* of the item in hand, */
    bool is_busy;            /* if there is one */
    _Alignas(16) unsigned char item[]; /* channel: the item in hand */
};

struct pool {
    /* constant */
    struct kin_pool_options options;
    kin_pool_fn *fn;
    struct kin_chan *from; /* NULL: an array */
    unsigned char *items;
    size_t item_size;
    size_t count;          /* of the array; channel: no end */
    size_t limit;
    uint32_t caps;               /* of the caller: a pool is a part of its own work */
    struct kin_nursery *nursery; /* of this round */

    kin__asize begun;      /* items taken so far: the index of the next one */
    kin__asize waiting;    /* channel: runners that wait for an item */
    kin__asize runners;    /* of this round, made or about to be */
    kin__a32 is_drained;   /* channel: closed and empty */

    struct kin__lock lock; /* rank LEAF; the rest */
    struct runner *list;   /* of this round */
    size_t failed_index;   /* of the first item in order that failed */
    int failed_status;     /* 0: none */
};

/* ---- one item ---- */

/* The status of an item is known. */
static void note(struct pool *pool, size_t index, int status)
{
    if (pool->options.statuses)
        pool->options.statuses[index] = status;
    if (KIN__LIKELY(status >= 0))
        return;
    kin__lock_take(&pool->lock, KIN__RANK_LEAF);
    if (pool->failed_status == 0 || index < pool->failed_index) {
        pool->failed_index = index;
        pool->failed_status = status;
    }
    kin__lock_give(&pool->lock, KIN__RANK_LEAF);
}

static int run_item(struct runner *runner, void *item, size_t index)
{
    struct pool *pool = runner->pool;
    void *result = NULL;
    if (pool->options.results)
        result = (unsigned char *)pool->options.results + index * pool->options.result_size;
    runner->index = index;
    runner->is_busy = true;
    int rc = pool->fn(item, result, pool->options.arg);
    runner->is_busy = false;
    note(pool, index, rc);
    return pool->options.on_error == KIN_FAIL_FAST && rc < 0 ? rc : 0;
}

/* ---- runners ---- */

/* An item of the array; NULL when there is none, as there may be for items without a size. */
static void *item_at(const struct pool *pool, size_t index)
{
    return pool->items ? pool->items + index * pool->item_size : NULL;
}

static int run_array(void *arg)
{
    struct runner *runner = arg;
    struct pool *pool = runner->pool;
    for (;;) { /* ends: the items do */
        int rc = kin_checkpoint();
        if (rc < 0)
            return rc;
        size_t index = kin__add_relaxed(&pool->begun, 1u); /* relaxed: each gets another number */
        if (index >= pool->count)
            return 0;
        rc = run_item(runner, item_at(pool, index), index);
        if (rc < 0)
            return rc;
    }
}

static int add_runner(struct pool *pool);

/* An item was taken and nobody waits for the next one: one runner more, if there may be. */
static void add_if_busy(struct pool *pool)
{
    /* relaxed: a runner too many waits for nothing, and one too few is added with the next item */
    if (kin__sub_relaxed(&pool->waiting, 1u) != 1)
        return;
    size_t made = kin__load_relaxed(&pool->runners); /* relaxed: the exchange decides */
    while (made < pool->limit) {
        /* relaxed: only the number counts */
        if (kin__cas_relaxed(&pool->runners, &made, made + 1)) {
            kin_ignore(add_runner(pool)); /* if there is no memory, fewer must do */
            return;
        }
    }
}

static int run_channel(void *arg)
{
    struct runner *runner = arg;
    struct pool *pool = runner->pool;
    for (;;) { /* ends: the channel is closed, or the pool cancelled */
        (void)kin__add_relaxed(&pool->waiting, 1u); /* relaxed: as in add_if_busy */
        int rc = kin_chan_recv(pool->from, runner->item, KIN_NEVER);
        if (rc == KIN_CLOSED) {
            kin__store_relaxed(&pool->is_drained, 1u); /* relaxed: read after the join */
            return 0;
        }
        if (rc < 0)
            return rc;
        add_if_busy(pool);
        size_t index = kin__add_relaxed(&pool->begun, 1u); /* relaxed: each gets another number */
        rc = run_item(runner, runner->item, index);
        if (rc < 0)
            return rc;
    }
}

/* Makes a runner; the caller has counted it. */
static int add_runner(struct pool *pool)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct runner *runner = kin__heap_alloc(sizeof(*runner) + (pool->from ? pool->item_size : 0));
    if (!runner)
        return -ENOMEM;
    runner->pool = pool;
    options.name = pool->options.name;
    options.caps = pool->caps;
    kin__lock_take(&pool->lock, KIN__RANK_LEAF);
    runner->next = pool->list;
    pool->list = runner;
    kin__lock_give(&pool->lock, KIN__RANK_LEAF);
    return kin_spawn_with(pool->nursery, &options, pool->from ? run_channel : run_array, runner, 0,
                          &runner->ref);
}

/* Starts a round's runners: for an array as many as there is work for, for a channel one. 0 when
 * there is at least one. */
static int add_runners(struct pool *pool)
{
    /* relaxed: nobody runs yet */
    size_t left = pool->count - kin__load_relaxed(&pool->begun);
    size_t want = pool->from ? 1 : left < pool->limit ? left : pool->limit;
    kin__store_relaxed(&pool->runners, want); /* relaxed: the spawns publish it */
    for (size_t i = 0; i < want; i++) {
        int rc = add_runner(pool);
        if (rc < 0)
            return i == 0 ? rc : 0;
    }
    return 0;
}

/* ---- rounds ---- */

/* How the runner that had an item in hand ended. */
static int end_of(const struct runner *runner, const struct kin_outcome *errors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (errors[i].task == kin_task_id(runner->ref))
            return errors[i].status;
    }
    return KIN_PANICKED;
}

/* After the join: items that were in hand when their runner ended have failed; runners go. */
static void bury(struct pool *pool)
{
    size_t kept = kin_nursery_errors(pool->nursery, NULL, 0);
    struct kin_outcome *errors = kept ? kin__heap_alloc(kept * sizeof(*errors)) : NULL;
    if (errors)
        kin_nursery_errors(pool->nursery, errors, kept);
    while (pool->list) { /* ends: one fewer each time */
        struct runner *runner = pool->list;
        pool->list = runner->next;
        if (runner->is_busy)
            note(pool, runner->index, end_of(runner, errors, errors ? kept : 0));
        kin__heap_free(runner);
    }
    kin__heap_free(errors);
}

static bool is_done(const struct pool *pool)
{
    /* relaxed: after the join */
    return pool->from ? kin__load_relaxed(&pool->is_drained) != 0
                      : kin__load_relaxed(&pool->begun) >= pool->count; /* relaxed: as above */
}

/* One nursery, opened and joined. *is_over: there is no point in another round. */
static int run_round(struct pool *pool, kin_time deadline, bool *is_over)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery nursery;
    size_t before = kin__load_relaxed(&pool->begun); /* relaxed: nobody runs */
    options.name = pool->options.name;
    options.on_error = pool->options.on_error;
    options.deadline = deadline == KIN_NEVER ? 0 : deadline;
    options.errors_max = pool->limit < ERRORS_MAX ? (unsigned)pool->limit : ERRORS_MAX;
    *is_over = true;
    pool->nursery = &nursery;
    int rc = kin_nursery_open(&nursery, &options);
    if (rc < 0)
        return rc;
    int started = add_runners(pool);
    rc = kin_nursery_join(&nursery, NULL);
    if (started < 0 && rc == 0)
        rc = started;
    bury(pool);
    kin__handle_empty(kin__handle_of(&nursery));
    bool is_cancelled = kin_nursery_state(&nursery) == KIN_NURSERY_CANCELLED;
    bool is_idle = kin__load_relaxed(&pool->begun) == before; /* relaxed: after the join */
    *is_over = rc == 0 || is_cancelled || is_idle || pool->options.on_error == KIN_FAIL_FAST;
    return rc;
}

static int run(struct pool *pool, kin_time deadline)
{
    bool is_over = false;
    int rc = 0;
    if (deadline <= 0)
        return KIN_TIMEOUT;
    while (!is_over) { /* ends: each round begins an item, or is the last */
        rc = run_round(pool, deadline, &is_over);
        if (!is_over && is_done(pool))
            break; /* what failed is written down */
    }
    if (is_over && rc < 0)
        return rc;
    return pool->failed_status;
}

/* ---- the public face ---- */

/* What both calls check. 0, and the pool has its options. */
static int begin(struct pool *pool, const struct kin_pool_options *options, kin_pool_fn *fn)
{
    static const struct kin_pool_options defaults = KIN_POOL_OPTIONS_INIT;
    struct kin__task *task = kin__task_self();
    if (!options)
        options = &defaults;
    if (!fn || !KIN__SIZED(options, "kin_pool_map", "POOL_OPTIONS") ||
        (options->results && !options->result_size) ||
        (options->on_error != KIN_FAIL_FAST && options->on_error != KIN_COLLECT))
        return -EINVAL;
    if (!task)
        return kin__no_task();
    kin__entry_check(task);
    *pool = (struct pool){.options = *options, .fn = fn};
    pool->caps = kin_caps() ? kin_caps() : KIN_CAP_NONE;
    pool->limit = options->limit ? options->limit : kin__task_sched(task)->workers_base;
    return 0;
}

int kin_pool_map(const struct kin_pool_options *options, kin_pool_fn *fn, void *items,
                 size_t item_size, size_t count, kin_time deadline)
{
    struct pool pool;
    size_t bytes;
    if (!items && item_size != 0 && count != 0)
        return -EINVAL;
    int rc = begin(&pool, options, fn);
    if (rc < 0)
        return rc;
    if (__builtin_mul_overflow(item_size, count, &bytes) ||
        __builtin_mul_overflow(pool.options.result_size, count, &bytes) || count > PTRDIFF_MAX)
        return -EOVERFLOW;
    pool.items = items;
    pool.item_size = item_size;
    pool.count = count;
    for (size_t i = 0; pool.options.statuses && i < count; i++)
        pool.options.statuses[i] = KIN_CANCELLED;
    return count == 0 ? 0 : run(&pool, deadline);
}

int kin_pool_each(const struct kin_pool_options *options, kin_pool_fn *fn, struct kin_chan *from,
                  kin_time deadline)
{
    struct pool pool;
    if (!from || (options && (options->results || options->statuses)))
        return -EINVAL;
    int rc = begin(&pool, options, fn);
    if (rc < 0)
        return rc;
    pool.from = kin_chan_ref(from);
    pool.item_size = from->item_size;
    pool.count = SIZE_MAX;
    rc = run(&pool, deadline);
    kin_chan_unref(from);
    return rc;
}
