/* SPDX-License-Identifier: MIT */
/*
 * Goal: pools as the header promises them: order of results, failing fast and collecting, deadlines
 * and cancellation, arguments. Method: small programs through the public headers.
 */
#include "api/in_runtime.h"

#include <kin/pool.h>

enum { ITEMS = 100 };

struct setting {
    _Atomic int begun, over, cancelled;
    int fail_at; /* the item that fails */
};

/* ---- results ---- */

static int square(void *item, void *result, void *arg)
{
    long number = *(int *)item;
    (void)arg;
    for (long i = number % 7; i > 0; i--)
        kin_ignore(kin_yield()); /* ends are in another order than begins */
    *(long *)result = number * number;
    return (int)number;
}

static int map_results(void *arg)
{
    int items[ITEMS], statuses[ITEMS];
    long results[ITEMS];
    struct kin_pool_options options = KIN_POOL_OPTIONS_INIT;
    (void)arg;
    for (int i = 0; i < ITEMS; i++)
        items[i] = ITEMS - i;
    options.limit = 9;
    options.results = results;
    options.result_size = sizeof results[0];
    options.statuses = statuses;
    EXPECT_EQ(kin_pool_map(&options, square, items, sizeof items[0], ITEMS, KIN_NEVER), 0);
    for (int i = 0; i < ITEMS; i++) {
        EXPECT_EQ(results[i], (long)items[i] * items[i]);
        EXPECT_EQ(statuses[i], items[i]);
    }
    return 0;
}

KIN_TEST(results_are_in_the_order_of_items, "")
{
    run_on_few(map_results, NULL);
}

static int change(void *item, void *result, void *arg)
{
    EXPECT_PTR(result, NULL);
    EXPECT_PTR(arg, NULL);
    ++*(int *)item;
    return 0;
}

static int map_in_place(void *arg)
{
    int items[ITEMS] = {0};
    (void)arg;
    EXPECT_EQ(kin_pool_map(NULL, change, items, sizeof items[0], ITEMS, KIN_NEVER), 0);
    for (int i = 0; i < ITEMS; i++)
        EXPECT_EQ(items[i], 1);
    return 0;
}

/* Items without a size need no array: each is NULL. */
static int count_none(void *item, void *result, void *arg)
{
    EXPECT_PTR(item, NULL);
    EXPECT_PTR(result, NULL);
    ++*(_Atomic int *)arg;
    return 0;
}

static int map_nothing(void *arg)
{
    _Atomic int ran = 0;
    struct kin_pool_options options = KIN_POOL_OPTIONS_INIT;
    (void)arg;
    options.arg = (void *)&ran;
    EXPECT_EQ(kin_pool_map(&options, count_none, NULL, 0, 3, KIN_NEVER), 0);
    EXPECT_EQ(ran, 3);
    return 0;
}

KIN_TEST(items_without_a_size_need_no_array, "")
{
    run_on_few(map_nothing, NULL);
}

KIN_TEST(without_options_items_are_done_in_place, "")
{
    run_on_few(map_in_place, NULL);
}

/* ---- failures ---- */

static int fail_at(void *item, void *result, void *arg)
{
    struct setting *setting = arg;
    int number = *(int *)item;
    (void)result;
    atomic_fetch_add(&setting->begun, 1);
    if (number == setting->fail_at)
        return -EIO;
    if (number > setting->fail_at) {
        int rc = kin_sleep(KIN_NEVER); /* ends: the failure cancels it */
        EXPECT_EQ(rc, KIN_CANCELLED);
        atomic_fetch_add(&setting->cancelled, 1);
        return rc;
    }
    return 0;
}

static int map_fail_fast(void *arg)
{
    int items[ITEMS], statuses[ITEMS];
    struct setting setting = {.fail_at = 30};
    struct kin_pool_options options = KIN_POOL_OPTIONS_INIT;
    int done = 0, cancelled = 0;
    (void)arg;
    for (int i = 0; i < ITEMS; i++)
        items[i] = i;
    options.limit = 5;
    options.arg = &setting;
    options.statuses = statuses;
    EXPECT_EQ(kin_pool_map(&options, fail_at, items, sizeof items[0], ITEMS, KIN_NEVER), -EIO);
    EXPECT_LE(atomic_load(&setting.begun), 30 + 5);
    EXPECT_EQ(statuses[30], -EIO);
    for (int i = 0; i < ITEMS; i++) {
        done += statuses[i] == 0;
        cancelled += statuses[i] == KIN_CANCELLED;
    }
    EXPECT_EQ(done + cancelled, ITEMS - 1);
    EXPECT_EQ(done + atomic_load(&setting.cancelled) + 1, atomic_load(&setting.begun));
    return 0;
}

KIN_TEST(the_first_failure_cancels_what_is_in_flight_and_begins_nothing_more, "")
{
    run_on_few(map_fail_fast, NULL);
}

static int fail_some(void *item, void *result, void *arg)
{
    int number = *(int *)item;
    (void)result;
    atomic_fetch_add((_Atomic int *)arg, 1);
    if (number % 2)
        kin_ignore(kin_yield());
    return number >= 40 && number % 3 == 0 ? -number : 0;
}

static int map_collect(void *arg)
{
    int items[ITEMS], statuses[ITEMS];
    _Atomic int begun = 0;
    struct kin_pool_options options = KIN_POOL_OPTIONS_INIT;
    (void)arg;
    for (int i = 0; i < ITEMS; i++)
        items[i] = i;
    options.limit = 6;
    options.arg = &begun;
    options.on_error = KIN_COLLECT;
    options.statuses = statuses;
    EXPECT_EQ(kin_pool_map(&options, fail_some, items, sizeof items[0], ITEMS, KIN_NEVER), -42);
    EXPECT_EQ(atomic_load(&begun), ITEMS);
    for (int i = 0; i < ITEMS; i++)
        EXPECT_EQ(statuses[i], i >= 40 && i % 3 == 0 ? -i : 0);
    return 0;
}

KIN_TEST(a_pool_that_collects_does_everything_and_tells_the_first_failure_in_order, "")
{
    run_on_few(map_collect, NULL);
}

static int panic_once(void *item, void *result, void *arg)
{
    (void)result, (void)arg;
    if (*(int *)item == 3)
        kin_panic("on purpose");
    return *(int *)item > 3 ? kin_sleep(KIN_NEVER) : 0;
}

static int map_panic(void *arg)
{
    int items[ITEMS], statuses[ITEMS];
    struct kin_pool_options options = KIN_POOL_OPTIONS_INIT;
    (void)arg;
    for (int i = 0; i < ITEMS; i++)
        items[i] = i;
    options.limit = 4;
    options.statuses = statuses;
    EXPECT_EQ(kin_pool_map(&options, panic_once, items, sizeof items[0], ITEMS, KIN_NEVER),
              KIN_PANICKED);
    EXPECT_EQ(statuses[3], KIN_PANICKED);
    return 0;
}

KIN_TEST(a_panic_fails_the_pool_and_not_its_caller, "")
{
    run_on_few(map_panic, NULL);
}

/* ---- deadlines and cancellation ---- */

static int sleep_long(void *item, void *result, void *arg)
{
    struct setting *setting = arg;
    (void)item, (void)result;
    atomic_fetch_add(&setting->begun, 1);
    int rc = kin_sleep(KIN_NEVER);
    atomic_fetch_add(&setting->over, 1);
    return rc;
}

static int map_deadline(void *arg)
{
    int items[ITEMS] = {0};
    struct setting setting = {0};
    struct kin_pool_options options = KIN_POOL_OPTIONS_INIT;
    (void)arg;
    options.limit = 3;
    options.arg = &setting;
    for (int collect = 0; collect < 2; collect++) {
        options.on_error = collect ? KIN_COLLECT : KIN_FAIL_FAST;
        EXPECT_EQ(kin_pool_map(&options, sleep_long, items, sizeof items[0], ITEMS,
                               kin_after(KIN_MS(3))),
                  KIN_TIMEOUT);
        EXPECT_EQ(atomic_load(&setting.begun), atomic_load(&setting.over));
        EXPECT_LE(atomic_load(&setting.begun), 3 * (collect + 1));
    }
    EXPECT_EQ(kin_pool_map(&options, sleep_long, items, sizeof items[0], ITEMS, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_pool_map(&options, sleep_long, items, sizeof items[0], 0, 0), 0);
    return 0;
}

KIN_TEST(a_deadline_cancels_the_rest, "N2001")
{
    run_on_few(map_deadline, NULL);
}

struct inner {
    struct setting setting;
    struct kin_chan *chan;
    int rc;
};

static int run_pool(void *arg)
{
    struct inner *inner = arg;
    int items[ITEMS] = {0};
    struct kin_pool_options options = KIN_POOL_OPTIONS_INIT;
    options.limit = 4;
    options.arg = &inner->setting;
    inner->rc = inner->chan
                    ? kin_pool_each(&options, sleep_long, inner->chan, KIN_NEVER)
                    : kin_pool_map(&options, sleep_long, items, sizeof items[0], ITEMS, KIN_NEVER);
    return 0;
}

static int cancel_pools(void *arg)
{
    struct inner map = {0}, each = {0}, waiting = {0};
    int item = 0;
    (void)arg;
    EXPECT_EQ(kin_chan_create(&each.chan, sizeof item, 8), 0);
    EXPECT_EQ(kin_chan_create(&waiting.chan, sizeof item, 8), 0);
    for (int i = 0; i < 8; i++)
        EXPECT_EQ(kin_chan_send(each.chan, &item, KIN_NEVER), 0);
    {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, run_pool, &map), 0);
        EXPECT_EQ(kin_spawn(&n, run_pool, &each), 0);
        EXPECT_EQ(kin_spawn(&n, run_pool, &waiting), 0);
        await(&map.setting.begun, 4);
        await(&each.setting.begun, 4);
        kin_nursery_cancel(&n, 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    }
    EXPECT_EQ(map.rc, KIN_CANCELLED);
    EXPECT_EQ(each.rc, KIN_CANCELLED);
    EXPECT(waiting.rc == KIN_CANCELLED || waiting.rc == 0); /* 0: it never ran */
    EXPECT_EQ(atomic_load(&map.setting.over), 4);
    EXPECT_EQ(atomic_load(&each.setting.over), 4);
    EXPECT_EQ(kin_chan_len(each.chan), 4); /* what was not begun is still inside */
    kin_chan_unref(each.chan);
    kin_chan_unref(waiting.chan);
    return 0;
}

KIN_TEST(a_cancelled_pool_waits_for_what_is_in_flight_and_takes_nothing_more, "")
{
    run_on_few(cancel_pools, NULL);
}

/* ---- arguments ---- */

static int use_nonsense(void *arg)
{
    int items[3] = {0}, status;
    struct kin_pool_options options = KIN_POOL_OPTIONS_INIT;
    struct kin_chan *chan;
    (void)arg;
    EXPECT_EQ(kin_pool_map(NULL, NULL, items, sizeof items[0], 3, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_pool_map(NULL, change, NULL, sizeof items[0], 3, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_pool_map(NULL, change, NULL, sizeof items[0], 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_pool_map(NULL, change, items, SIZE_MAX, 3, KIN_NEVER), -EOVERFLOW);
    options.size--;
    EXPECT_EQ(kin_pool_map(&options, change, items, sizeof items[0], 3, KIN_NEVER), -EINVAL);
    options.size++;
    options.results = items;
    EXPECT_EQ(kin_pool_map(&options, change, items, sizeof items[0], 3, KIN_NEVER), -EINVAL);
    options.results = NULL;
    options.on_error = (enum kin_on_error)9;
    EXPECT_EQ(kin_pool_map(&options, change, items, sizeof items[0], 3, KIN_NEVER), -EINVAL);
    options.on_error = KIN_FAIL_FAST;
    EXPECT_EQ(kin_pool_each(&options, change, NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_chan_create(&chan, sizeof items[0], 1), 0);
    EXPECT_EQ(kin_pool_each(&options, NULL, chan, KIN_NEVER), -EINVAL);
    options.statuses = &status;
    EXPECT_EQ(kin_pool_each(&options, change, chan, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_pool_each(NULL, change, chan, 0), KIN_TIMEOUT);
    kin_chan_close(chan);
    EXPECT_EQ(kin_pool_each(NULL, change, chan, KIN_NEVER), 0);
    kin_chan_unref(chan);
    EXPECT_EQ(items[0], 0);
    return 0;
}

KIN_TEST(nonsense_is_answered, "")
{
    int item = 0;
    run_on_few(use_nonsense, NULL);
    EXPECT_EQ(kin_pool_map(NULL, change, &item, sizeof item, 1, KIN_NEVER), KIN_NOTASK);
}
