/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever tasks do at once, each ends once and the counters come back to where they were.
 * Method: a random tree of tasks that yield, sleep, spawn, cancel each other and block in the
 * kernel, with a threshold so low that workers are rescued and replaced all the time.
 */
#include "kin_test.h"

#include "base/rng.h"
#include "sched/sched.h"

#include <kin/kin.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOTS = 60, STEPS = 12, DEPTH_MAX = 4, NAMES = 64 };

static struct {
    atomic_uint spawned, refused, begun, ended, cancelled, blocks;
    atomic_ullong names[NAMES]; /* of tasks that somebody may cancel */
    uint64_t seed;
    bool blocks_often;
} mix;

struct node {
    uint64_t number; /* names its stream of random numbers */
    unsigned depth;
};

static int live(void *arg);

/* A nursery with some children; joins it. */
static int have_children(const struct node *node, struct kin__rng *rng)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    uint64_t count = 1 + kin__rng_below(rng, 4);
    options.on_error = kin__rng_below(rng, 2) ? KIN_COLLECT : KIN_FAIL_FAST;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    for (uint64_t i = 0; i < count; i++) {
        struct node child = {node->number * 8 + i + 1, node->depth + 1};
        struct kin_task_ref ref;
        int rc = kin_spawn_with(&n, NULL, live, &child, sizeof child, &ref);
        EXPECT(rc == 0 || rc == KIN_NOSCOPE); /* it may be cancelled already */
        atomic_fetch_add(rc == 0 ? &mix.spawned : &mix.refused, 1);
        if (rc == 0 && kin__rng_below(rng, 4) == 0)
            mix.names[kin__rng_below(rng, NAMES)] = ref.id;
    }
    if (kin__rng_below(rng, 10) == 0)
        kin_nursery_cancel(&n, KIN_CANCELLED);
    return kin_nursery_join(&n, NULL);
}

static int take_a_step(const struct node *node, struct kin__rng *rng)
{
    switch (kin__rng_below(rng, 12)) {
    case 0:
    case 1:
    case 2:
        return kin_yield();
    case 3:
    case 4:
        return kin_sleep(kin_after((int64_t)kin__rng_below(rng, 100000)));
    case 5:
    case 6:
        return node->depth < DEPTH_MAX ? have_children(node, rng) : kin_checkpoint();
    case 7:
        /* whatever has this name; it may be over, or the caller itself */
        (void)kin_task_cancel((struct kin_task_ref){mix.names[kin__rng_below(rng, NAMES)]});
        return kin_checkpoint();
    case 8:
        if (mix.blocks_often && kin__rng_below(rng, 12) == 0) {
            atomic_fetch_add(&mix.blocks, 1);
            usleep(2500);
        }
        return 0;
    default:
        return kin_checkpoint();
    }
}

static int live(void *arg)
{
    const struct node *node = arg;
    struct kin__rng rng;
    int rc = 0;
    atomic_fetch_add(&mix.begun, 1);
    kin__rng_init(&rng, mix.seed, node->number);
    for (int i = 0; i < STEPS && rc >= 0; i++)
        rc = take_a_step(node, &rng);
    EXPECT(rc >= 0 || rc == KIN_CANCELLED);
    atomic_fetch_add(rc < 0 ? &mix.cancelled : &mix.ended, 1);
    return rc < 0 ? rc : 0;
}

static int plant_the_roots(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    struct kin_stats stats;
    (void)arg;
    options.on_error = KIN_COLLECT;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    for (uint64_t i = 0; i < ROOTS / kin_test_scale() + 1; i++) {
        struct node node = {i + 1, 0};
        EXPECT_EQ(kin_spawn_copy(&n, live, &node, sizeof node), 0);
        atomic_fetch_add(&mix.spawned, 1);
    }
    int rc = kin_nursery_join(&n, NULL);
    EXPECT(rc == 0 || rc == KIN_CANCELLED);
    do /* ends: a worker counts an end right behind the task that it wakes */
        EXPECT_EQ(kin_stats_get(&stats), 0);
    while (stats.tasks_live > 1);
    EXPECT_EQ(stats.tasks_live, 1);
    EXPECT_EQ(stats.pressure, 0);
    EXPECT_EQ(stats.timers, 0);
    printf("%u workers: %u begun, %u ended, %u cancelled, %u never began, %u blocks, %u replaced\n",
           kin__worker_self()->sched->workers_base, mix.begun, mix.ended, mix.cancelled,
           mix.spawned - mix.begun, mix.blocks, stats.workers_replaced);
    return 0;
}

static void mix_with(unsigned workers, bool blocks_often)
{
    struct kin_config config = KIN_CONFIG_INIT;
    memset(&mix, 0, sizeof mix);
    mix.seed = kin_test_seed() + workers;
    mix.blocks_often = blocks_often;
    config.workers = workers;
    config.workers_max = workers + 2;
    config.seed = mix.seed;
    config.stall_threshold = KIN_MS(1);
    EXPECT_EQ(kin_run(&config, plant_the_roots, NULL), 0);
    EXPECT_EQ(mix.begun, mix.ended + mix.cancelled);
    EXPECT_LE(mix.begun, mix.spawned);
}

KIN_TEST(tasks_of_every_kind_end_once, "F4 NSM-1 NSM-2")
{
    for (unsigned workers = 1; workers <= 4; workers++)
        mix_with(workers, false);
}

KIN_TEST(tasks_of_every_kind_end_once_while_workers_are_replaced, "F4 C7 WK:6.2 NSM-1")
{
    for (unsigned workers = 1; workers <= 3; workers++)
        mix_with(workers, true);
}
