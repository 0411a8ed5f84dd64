/* SPDX-License-Identifier: MIT */
/*
 * Goal: a priority is a place in the queue of those that were woken, and starves nobody.
 * Method: sleepers of all three kinds that become due at once, on one worker; two of high priority
 * that hand a turn back and forth for as long as one of normal priority has not run.
 */
#include "api/in_runtime.h"

#include <stdatomic.h>

struct order {
    kin_time due;
    int count;
    int ran[3];
};

struct sleeper {
    struct order *order;
    int priority;
};

static int sleep_and_tell(void *arg)
{
    struct sleeper *sleeper = arg;
    EXPECT_EQ(kin_sleep(sleeper->order->due), 0);
    sleeper->order->ran[sleeper->order->count++] = sleeper->priority;
    return 0;
}

/* One round; false: it was late, so that not all three slept when they became due. */
static bool wake_all_three(kin_time due)
{
    struct order order = {due, 0, {0}};
    KIN_NURSERY(n);
    const int priorities[] = {KIN_PRIORITY_LOW, KIN_PRIORITY_NORMAL, KIN_PRIORITY_HIGH};
    for (int i = 0; i < 3; i++) {
        struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
        struct sleeper sleeper = {&order, priorities[i]};
        options.priority = (enum kin_priority)priorities[i];
        EXPECT_EQ(kin_spawn_with(&n, &options, sleep_and_tell, &sleeper, sizeof(sleeper), NULL), 0);
    }
    EXPECT_EQ(kin_yield(), 0); /* all three sleep */
    bool is_early = kin_now() < due;
    while (kin_now() < due + KIN_MS(1)) /* ends: time passes */
        continue;
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(order.count, 3);
    if (is_early) {
        EXPECT_EQ(order.ran[0], KIN_PRIORITY_HIGH);
        EXPECT_EQ(order.ran[1], KIN_PRIORITY_NORMAL);
        EXPECT_EQ(order.ran[2], KIN_PRIORITY_LOW);
    }
    return is_early;
}

static int wake_by_priority(void *arg)
{
    int64_t ms = 20;
    (void)arg;
    while (!wake_all_three(kin_after(KIN_MS(ms)))) /* ends: some time is far enough */
        ms *= 2;
    return 0;
}

KIN_TEST(those_that_are_woken_at_once_run_by_priority, "SCHED:5.1.1")
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 1;
    config.stall_threshold = KIN_NEVER;
    EXPECT_EQ(kin_run(&config, wake_by_priority, NULL), 0);
}

struct pair {
    atomic_bool is_over;
    long turns;
};

/* Always due again: woken with high priority over and over. */
static int come_back(void *arg)
{
    struct pair *pair = arg;
    for (int i = 0; i < 1000000 && !atomic_load(&pair->is_over); i++) {
        EXPECT_EQ(kin_sleep(kin_after(1)), 0);
        pair->turns++;
    }
    return 0;
}

static int come_once(void *arg)
{
    struct pair *pair = arg;
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
    atomic_store(&pair->is_over, true);
    return 0;
}

static int compete(void *arg)
{
    struct pair *pair = arg;
    struct kin_spawn_options high = KIN_SPAWN_OPTIONS_INIT, low = KIN_SPAWN_OPTIONS_INIT;
    high.priority = KIN_PRIORITY_HIGH;
    low.priority = KIN_PRIORITY_LOW;
    KIN_NURSERY(n);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(kin_spawn_with(&n, &high, come_back, pair, 0, NULL), 0);
    EXPECT_EQ(kin_spawn_with(&n, &low, come_once, pair, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(high_priority_starves_nobody, "SCHED:5.1.1")
{
    struct pair pair = {0};
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 1;
    EXPECT_EQ(kin_run(&config, compete, &pair), 0);
    EXPECT(atomic_load(&pair.is_over));
    EXPECT_LT(pair.turns, 4000000); /* the one of low priority came before they gave up */
}

static int ask_nonsense(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    (void)arg;
    options.priority = (enum kin_priority)17;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, &options, come_once, NULL, 0, NULL), -EINVAL);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_priority_that_does_not_exist_is_refused, "")
{
    EXPECT_EQ(run_reporting(1, ask_nonsense, NULL, NULL), 0);
}
