/* SPDX-License-Identifier: MIT */
/*
 * The stations about scheduling: turns, fork and join, sleeping, blocking calls.
 */
#include "tool.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- taking turns ---- */

enum { CROWD = 1000 };

struct turns {
    kin_task_fn *fn; /* what every player does */
    unsigned players;
    unsigned strokes; /* of each player */
    unsigned ball;    /* whose turn it is; one worker, so no two tasks touch it at once */
    uint64_t yields;
    int64_t ns;
};

struct player {
    struct turns *turns;
    unsigned side;
};

/* Two players and a ball: whoever does not have it yields. */
static int play(void *arg)
{
    const struct player *player = arg;
    struct turns *turns = player->turns;

    for (unsigned i = 0; i < turns->strokes; i++) {
        while (turns->ball != player->side) { /* ends: the other plays and passes the ball on */
            turns->yields++;
            int rc = kin_yield();
            if (rc < 0)
                return rc;
        }
        turns->ball = 1 - player->side;
    }
    return 0;
}

/* One of many that let each other run. */
static int yield_often(void *arg)
{
    const struct player *player = arg;
    struct turns *turns = player->turns;

    for (unsigned i = 0; i < turns->strokes; i++) {
        turns->yields++;
        int rc = kin_yield();
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int take_turns(void *arg)
{
    struct turns *turns = arg;
    struct player players[CROWD];
    KIN_NURSERY(n);

    int rc = 0;
    for (unsigned i = 0; i < turns->players && rc == 0; i++) {
        players[i] = (struct player){turns, i};
        rc = kin_spawn(&n, turns->fn, &players[i]);
    }
    kin_time start = kin_now();
    rc = kin_nursery_end(&n, rc);
    turns->ns = kin_now() - start;
    return rc;
}

struct spawns {
    unsigned count;
    unsigned done;
    int64_t ns;
};

static int count_one(void *arg)
{
    unsigned *done = arg;

    ++*done;
    return 0;
}

/* A nursery, a child, a join: one after the other. */
static int spawn_and_join(void *arg)
{
    struct spawns *spawns = arg;
    kin_time start = kin_now();

    for (unsigned i = 0; i < spawns->count; i++) {
        KIN_NURSERY(n);
        int rc = kin_spawn(&n, count_one, &spawns->done);
        rc = kin_nursery_end(&n, rc);
        if (rc < 0)
            return rc;
    }
    spawns->ns = kin_now() - start;
    return 0;
}

int demo_turns(const struct tour *tour)
{
    unsigned scale = tour->is_quick ? 1 : 10;
    struct turns pair = {.fn = play, .players = 2, .strokes = 200000 * scale};
    struct turns crowd = {.fn = yield_often, .players = CROWD, .strokes = 400 * scale};
    struct spawns spawns = {.count = 200000 * scale};

    print_text(
        "Two tasks on one worker pass a ball to and fro; whoever does not have it yields, which "
        "is one switch to the next task. Then %u tasks yield round and round.",
        (unsigned)CROWD);
    int rc = demo_run(1, take_turns, &pair);
    if (rc == 0)
        rc = demo_run(1, take_turns, &crowd);
    if (rc == 0)
        rc = demo_run(1, spawn_and_join, &spawns);
    if (rc < 0)
        return rc;
    if (spawns.done != spawns.count)
        return demo_wrong("not every child ran", KIN_ORPHAN);
    double each = (double)pair.ns / (double)pair.yields;
    print_figure("ping-pong", "%s per yield, %s million in a second", text_ns(each),
                 text_count((uint64_t)(1e3 / each)));
    print_figure("a thousand tasks", "%s per yield",
                 text_ns((double)crowd.ns / (double)crowd.yields));
    print_figure("nursery, child, join", "%s each, one after the other",
                 text_ns((double)spawns.ns / (double)spawns.count));
    return 0;
}

/* ---- fork and join ---- */

struct fib {
    unsigned n;
    uint64_t value;
};

/* One child for the larger half, the smaller one here. */
static int fib(void *arg)
{
    struct fib *self = arg;

    if (self->n < 2) {
        self->value = self->n;
        return 0;
    }
    struct fib larger = {self->n - 1, 0}, smaller = {self->n - 2, 0};
    KIN_NURSERY(n);
    int rc = kin_spawn(&n, fib, &larger);
    if (rc == 0)
        rc = fib(&smaller);
    rc = kin_nursery_end(&n, rc);
    self->value = larger.value + smaller.value;
    return rc;
}

int demo_forkjoin(const struct tour *tour)
{
    struct fib one = {tour->is_quick ? 25u : 32u, 0};
    struct fib all = one;
    uint64_t expected = tour->is_quick ? 75025 : 2178309;
    /* fib(n) calls that spawn are one fewer than its leaves, fib(n + 1). */
    double spawns = tour->is_quick ? 121392 : 3524577;

    print_text("fib(%u) in the silliest way: every call opens a nursery, spawns one half, computes "
               "the other, joins. That is %s tasks. A child that nobody stole runs on the stack of "
               "the task that joins it, without a switch.",
               one.n, text_count((uint64_t)spawns));
    kin_time start = kin_now();
    int rc = demo_run(1, fib, &one);
    int64_t one_ns = kin_now() - start;
    if (rc < 0)
        return rc;
    start = kin_now();
    rc = demo_run(0, fib, &all);
    int64_t all_ns = kin_now() - start;
    if (rc < 0)
        return rc;
    if (one.value != expected || all.value != expected)
        return demo_wrong("fib is not right", KIN_PANICKED);
    print_figure("1 worker", "%s, %s per task", text_ns((double)one_ns),
                 text_ns((double)one_ns / spawns));
    print_figure("all workers", "%s, %s per task, %.2f times as fast", text_ns((double)all_ns),
                 text_ns((double)all_ns / spawns), (double)one_ns / (double)all_ns);
    return 0;
}

/* ---- sleeping ---- */

struct night {
    unsigned count;
    int64_t longest; /* ns */
    int64_t *late;   /* of each sleeper, in ns; negative would be early */
};

struct sleeper {
    struct night *night;
    unsigned index;
    int64_t duration;
};

static int sleep_once(void *arg)
{
    const struct sleeper *sleeper = arg;
    kin_time deadline = kin_after(sleeper->duration);
    int rc = kin_sleep(deadline);

    sleeper->night->late[sleeper->index] = kin_now() - deadline;
    return rc;
}

static int sleep_all(void *arg)
{
    struct night *night = arg;
    uint32_t random = 1;
    KIN_NURSERY(n, .name = "night");

    int rc = 0;
    for (unsigned i = 0; i < night->count && rc == 0; i++) {
        random = random * 1664525u + 1013904223u;
        int64_t duration = (int64_t)((double)random / 4294967296.0 * (double)night->longest);
        rc = kin_spawn_copy(&n, sleep_once, KIN_ARGS(struct sleeper, night, i, duration));
    }
    return kin_nursery_end(&n, rc);
}

static int compare_ns(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

int demo_sleepers(const struct tour *tour)
{
    struct night night = {tour->is_quick ? 10000u : 100000u,
                          tour->is_quick ? KIN_MS(300) : KIN_SEC(2), NULL};

    night.late = calloc(night.count, sizeof(*night.late));
    if (!night.late)
        return demo_wrong("there is no memory", -ENOMEM);
    print_text(
        "%s tasks sleep once, each for a random time below %s. No thread waits for any of "
        "them: deadlines stand in a timer wheel of each worker, and a worker with nothing to "
        "do sleeps until the first one.",
        text_count(night.count), text_ns((double)night.longest));
    int64_t cpu = machine_cpu_ns();
    kin_time start = kin_now();
    int rc = demo_run(0, sleep_all, &night);
    int64_t ns = kin_now() - start;
    cpu = machine_cpu_ns() - cpu;
    qsort(night.late, night.count, sizeof(*night.late), compare_ns);
    if (rc == 0 && night.late[0] < 0)
        rc = demo_wrong("a task woke before its time", KIN_TIMEOUT);
    if (rc == 0) {
        print_figure("all awake again", "after %s, with %s of CPU time", text_ns((double)ns),
                     text_ns((double)cpu));
        print_figure("too early", "none");
        print_figure("too late", "half < %s, 99 of 100 < %s",
                     text_ns((double)night.late[night.count / 2]),
                     text_ns((double)night.late[night.count / 100 * 99]));
    }
    free(night.late);
    return rc;
}

/* ---- blocking ---- */

struct street {
    unsigned blockers, walkers;
    int64_t block_ns;
    atomic_uint blocked, walked;
    kin_time start, back_at, walked_at, over_at;
    struct kin_stats stats;
};

/* Blocks its thread, as a call into somebody else's library may. */
static int block(void *arg)
{
    struct street *street = arg;
    struct timespec time = {0, (long)street->block_ns};

    atomic_fetch_add(&street->blocked, 1);
    (void)nanosleep(&time, NULL);
    return 0;
}

static int walk(void *arg)
{
    struct street *street = arg;

    if (atomic_fetch_add(&street->walked, 1) + 1 == street->walkers)
        street->walked_at = kin_now();
    return 0;
}

/* When this task goes on behind its sleeps, every worker that it was started with is blocked. */
static int cross_street(void *arg)
{
    struct street *street = arg;
    int rc = 0;
    KIN_NURSERY(n, .name = "street");

    street->start = kin_now();
    for (unsigned i = 0; rc == 0 && i < street->blockers; i++)
        rc = kin_spawn(&n, block, street);
    while (rc == 0 &&
           atomic_load(&street->blocked) < street->blockers) /* ends: all of them begin */
        rc = kin_sleep(kin_after(KIN_MS(1)));
    street->back_at = kin_now();
    for (unsigned i = 0; rc == 0 && i < street->walkers; i++)
        rc = kin_spawn(&n, walk, street);
    rc = kin_nursery_end(&n, rc);
    street->over_at = kin_now();
    kin_ignore(kin_stats_get(&street->stats));
    return rc;
}

int demo_blocking(const struct tour *tour)
{
    struct street street = {.blockers = tour->workers, .walkers = 1000, .block_ns = KIN_MS(300)};

    print_text(
        "As many tasks as there are workers block their threads for %s in a system call, which "
        "a task should not do. The main task sleeps until they all block, then starts %u others. "
        "A monitor sees a worker without progress for 10 ms while tasks wait: it hands its "
        "queue to others and starts a replacement where nobody is free.",
        text_ns((double)street.block_ns), street.walkers);
    int rc = demo_run(0, cross_street, &street);
    if (rc < 0)
        return rc;
    if (atomic_load(&street.walked) != street.walkers)
        return demo_wrong("not every task ran", KIN_ORPHAN);
    print_figure("threads blocked", "%u", atomic_load(&street.blocked));
    print_figure("the main task went on", "after %s",
                 text_ns((double)(street.back_at - street.start)));
    print_figure("the others were over", "after %s",
                 text_ns((double)(street.walked_at - street.start)));
    print_figure("the blocked ones", "after %s", text_ns((double)(street.over_at - street.start)));
    print_figure("workers replaced", "%u", (unsigned)street.stats.workers_replaced);
    return 0;
}
