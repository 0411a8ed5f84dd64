/* SPDX-License-Identifier: MIT */
/*
 * Goal: runners of a pool: how many there are, what happens to them when fn ends one, what is left
 * when memory is short. Method: counters around fn, losses on purpose, failing requests one by one.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"

#include <kin/pool.h>

enum { ITEMS = 200 };

struct tally {
    _Atomic int in_flight, most, done;
    _Atomic int times[ITEMS]; /* how often fn saw each item */
    int lose_every;           /* each so-many-th item ends its task */
};

static struct kin_pool_options options_of(struct tally *tally, unsigned limit,
                                          enum kin_on_error on_error)
{
    struct kin_pool_options options = KIN_POOL_OPTIONS_INIT;
    options.limit = limit;
    options.on_error = on_error;
    options.arg = tally;
    options.name = "pool";
    return options;
}

static int *numbers(void)
{
    static int items[ITEMS];
    for (int i = 0; i < ITEMS; i++)
        items[i] = i;
    return items;
}

static void enter(struct tally *tally, int item)
{
    int now = atomic_fetch_add(&tally->in_flight, 1) + 1;
    int most = atomic_load(&tally->most);
    while (now > most && !atomic_compare_exchange_weak(&tally->most, &most, now))
        continue;
    EXPECT_EQ(atomic_fetch_add(&tally->times[item], 1), 0);
}

static void leave(struct tally *tally)
{
    atomic_fetch_sub(&tally->in_flight, 1);
    atomic_fetch_add(&tally->done, 1);
}

/* ---- how many ---- */

static int work(void *item, void *result, void *arg)
{
    struct tally *tally = arg;
    (void)result;
    enter(tally, *(int *)item);
    for (int i = 0; i < *(int *)item % 5; i++)
        kin_ignore(kin_yield());
    leave(tally);
    return 0;
}

static int map_with_limits(void *arg)
{
    static const unsigned limits[] = {1, 2, 3, 16, ITEMS, ITEMS * 10};
    (void)arg;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct tally tally = {0};
        struct kin_pool_options options = options_of(&tally, limits[i], KIN_FAIL_FAST);
        EXPECT_EQ(kin_pool_map(&options, work, numbers(), sizeof(int), ITEMS, KIN_NEVER), 0);
        EXPECT_EQ(atomic_load(&tally.done), ITEMS);
        EXPECT_LE(atomic_load(&tally.most), (int)limits[i]);
        for (int j = 0; j < ITEMS; j++)
            EXPECT_EQ(atomic_load(&tally.times[j]), 1);
    }
    return 0;
}

KIN_TEST(no_more_than_the_limit_are_in_flight_and_each_item_is_done_once, "")
{
    run_on_few(map_with_limits, NULL);
}

static int meet(void *item, void *result, void *arg)
{
    struct tally *tally = arg;
    (void)item, (void)result;
    atomic_fetch_add(&tally->in_flight, 1);
    await(&tally->in_flight, 7); /* all of them, at once */
    return 0;
}

static int map_all_at_once(void *arg)
{
    struct tally tally = {0};
    struct kin_pool_options options = options_of(&tally, 7, KIN_FAIL_FAST);
    (void)arg;
    EXPECT_EQ(kin_pool_map(&options, meet, numbers(), sizeof(int), 7, KIN_NEVER), 0);
    return 0;
}

KIN_TEST(as_many_as_the_limit_are_in_flight, "")
{
    run_on_few(map_all_at_once, NULL);
}

/* ---- channels ---- */

struct source {
    struct kin_chan *chan;
    int count;
};

static int send_all(void *arg)
{
    struct source *source = arg;
    for (int i = 0; i < source->count; i++) {
        int rc = kin_chan_send(source->chan, &i, KIN_NEVER);
        if (rc < 0)
            return 0; /* cancelled, or the channel is gone */
    }
    kin_chan_close(source->chan);
    return 0;
}

static int each_with_limits(void *arg)
{
    static const unsigned limits[] = {1, 2, 5, 50};
    (void)arg;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        for (size_t capacity = 0; capacity <= 8; capacity += 4) {
            struct tally tally = {0};
            struct source source = {NULL, ITEMS};
            struct kin_pool_options options = options_of(&tally, limits[i], KIN_FAIL_FAST);
            EXPECT_EQ(kin_chan_create(&source.chan, sizeof(int), capacity), 0);
            KIN_NURSERY(n);
            EXPECT_EQ(kin_spawn(&n, send_all, &source), 0);
            EXPECT_EQ(kin_pool_each(&options, work, source.chan, KIN_NEVER), 0);
            EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
            EXPECT_EQ(atomic_load(&tally.done), ITEMS);
            EXPECT_LE(atomic_load(&tally.most), (int)limits[i]);
            kin_chan_unref(source.chan);
        }
    }
    return 0;
}

KIN_TEST(items_of_a_channel_are_done_once_within_the_limit, "")
{
    run_on_few(each_with_limits, NULL);
}

static int each_all_at_once(void *arg)
{
    struct tally tally = {0};
    struct source source = {NULL, 7};
    struct kin_pool_options options = options_of(&tally, 7, KIN_FAIL_FAST);
    (void)arg;
    EXPECT_EQ(kin_chan_create(&source.chan, sizeof(int), 0), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, send_all, &source), 0);
    EXPECT_EQ(kin_pool_each(&options, meet, source.chan, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_chan_unref(source.chan);
    return 0;
}

KIN_TEST(tasks_are_made_while_items_come_and_all_are_busy, "")
{
    run_on_few(each_all_at_once, NULL);
}

/* ---- tasks that fn ends ---- */

static int lose(void *item, void *result, void *arg)
{
    struct tally *tally = arg;
    int number = *(int *)item;
    (void)result;
    enter(tally, number);
    kin_ignore(kin_yield());
    leave(tally);
    if (number % tally->lose_every == 0)
        kin_panic("item %d is bad", number);
    if (number % tally->lose_every == 1)
        kin_fail(-EIO, "item %d is worse", number);
    return number;
}

static int collect_losses(void *arg)
{
    static int statuses[ITEMS];
    unsigned limit = *(unsigned *)arg;
    struct tally tally = {.lose_every = 7};
    struct kin_pool_options options = options_of(&tally, limit, KIN_COLLECT);
    options.statuses = statuses;
    EXPECT_EQ(kin_pool_map(&options, lose, numbers(), sizeof(int), ITEMS, KIN_NEVER),
              KIN_PANICKED); /* item 0 */
    EXPECT_EQ(atomic_load(&tally.done), ITEMS);
    EXPECT_LE(atomic_load(&tally.most), (int)limit);
    for (int i = 0; i < ITEMS; i++)
        EXPECT_EQ(statuses[i], i % 7 == 0 ? KIN_PANICKED : i % 7 == 1 ? -EIO : i);
    return 0;
}

KIN_TEST(a_pool_that_collects_outlives_its_tasks, "")
{
    for (unsigned limit = 1; limit <= 64; limit *= 4)
        run_on_few(collect_losses, &limit);
}

static int each_losses(void *arg)
{
    struct tally tally = {.lose_every = 3};
    struct source source = {NULL, ITEMS};
    struct kin_pool_options options = options_of(&tally, *(unsigned *)arg, KIN_COLLECT);
    EXPECT_EQ(kin_chan_create(&source.chan, sizeof(int), 2), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, send_all, &source), 0);
    int rc = kin_pool_each(&options, lose, source.chan, KIN_NEVER);
    EXPECT(rc == KIN_PANICKED || rc == -EIO);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&tally.done), ITEMS);
    kin_chan_unref(source.chan);
    return 0;
}

KIN_TEST(so_does_one_that_reads_a_channel, "")
{
    for (unsigned limit = 1; limit <= 16; limit *= 4)
        run_on_few(each_losses, &limit);
}

/* ---- shortage ---- */

static int do_nothing(void *item, void *result, void *arg)
{
    (void)item, (void)result;
    atomic_fetch_add((_Atomic int *)arg, 1);
    return 0;
}

static int map_short_of_memory(void *arg)
{
    static int statuses[ITEMS];
    struct kin_pool_options options = KIN_POOL_OPTIONS_INIT;
    (void)arg;
    options.limit = 20;
    options.statuses = statuses;
    for (uint64_t n = 1; n <= 60; n++) {
        _Atomic int done = 0;
        options.arg = &done;
        options.on_error = n % 2 ? KIN_FAIL_FAST : KIN_COLLECT;
        kin__plat_fail_after(n, n % 3 == 0);
        int rc = kin_pool_map(&options, do_nothing, numbers(), sizeof(int), ITEMS, KIN_NEVER);
        kin__plat_fail_after(0, false);
        EXPECT(rc == 0 || rc == -ENOMEM);
        int seen = 0;
        for (int i = 0; i < ITEMS; i++) {
            EXPECT(statuses[i] == 0 || statuses[i] == KIN_CANCELLED);
            seen += statuses[i] == 0;
        }
        EXPECT_EQ(seen, atomic_load(&done));
        if (rc == 0)
            EXPECT_EQ(seen, ITEMS);
    }
    return 0;
}

KIN_TEST(a_pool_short_of_memory_does_with_fewer_or_says_so, "N009")
{
    EXPECT_EQ(run_reporting(1, map_short_of_memory, NULL, NULL), 0);
}
