/* SPDX-License-Identifier: MIT */
/*
 * Goal: a worker picks every runnable task in time, in an order that its seed repeats.
 * Method: traces of small programs on one worker, compared between seeds and against what yield and
 * the queues promise; then queues that overflow and tasks that change stacks.
 */
#include "kin_test.h"

#include "base/rng.h"
#include "park/park.h"
#include "sched/sched.h"

#include <kin/kin.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int run_seeded(unsigned workers, uint64_t seed, kin_task_fn *fn, void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = workers;
    config.seed = seed;
    config.stall_threshold = KIN_NEVER; /* a slow machine must not change the order */
    return kin_run(&config, fn, arg);
}

/* ---- traces ---- */

enum { TRACE_MAX = 4096 };

struct trace {
    unsigned count;
    uint16_t at[TRACE_MAX];
    unsigned tasks, laps;
};

struct tracer {
    struct trace *trace;
    uint16_t number;
};

static void note(struct trace *trace, unsigned what)
{
    EXPECT_LT(trace->count, TRACE_MAX);
    trace->at[trace->count++] = (uint16_t)what;
}

/* Runs, yields and spawns a little, noting each step. */
static int leave_a_trace(void *arg)
{
    struct tracer *tracer = arg;
    for (unsigned lap = 0; lap < tracer->trace->laps; lap++) {
        note(tracer->trace, tracer->number);
        EXPECT_EQ(kin_yield(), 0);
    }
    note(tracer->trace, tracer->number + 1000u);
    return 0;
}

static int trace_all(void *arg)
{
    struct trace *trace = arg;
    struct tracer tracers[64];
    KIN_NURSERY(n);
    EXPECT_LE(trace->tasks, 64);
    for (unsigned i = 0; i < trace->tasks; i++) {
        tracers[i] = (struct tracer){trace, (uint16_t)i};
        EXPECT_EQ(kin_spawn(&n, leave_a_trace, &tracers[i]), 0);
        if (i % 5 == 4)
            EXPECT_EQ(kin_yield(), 0);
    }
    return kin_nursery_join(&n, NULL);
}

static uint64_t hash_of(unsigned tasks, unsigned laps, uint64_t seed)
{
    static struct trace trace;
    uint64_t hash = 0;
    memset(&trace, 0, sizeof trace);
    trace.tasks = tasks;
    trace.laps = laps;
    EXPECT_EQ(run_seeded(1, seed, trace_all, &trace), 0);
    EXPECT_EQ(trace.count, tasks * (laps + 1));
    for (unsigned i = 0; i < trace.count; i++)
        hash = kin__hash_u64(hash + trace.at[i]);
    return hash;
}

KIN_TEST(equal_seeds_give_equal_traces, "SCHED:9.1.1 C5 T102 SCHED:9.3.1")
{
    static const unsigned sizes[][2] = {{1, 1}, {8, 0}, {8, 3}, {40, 20}, {64, 60}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        uint64_t seed = kin_test_seed() + s;
        uint64_t first = hash_of(sizes[s][0], sizes[s][1], seed);
        for (int i = 0; i < 10; i++)
            EXPECT_EQ(hash_of(sizes[s][0], sizes[s][1], seed), first);
    }
}

/* How many different traces 64 seeds give. */
static unsigned count_traces(unsigned tasks, unsigned laps)
{
    uint64_t seen[64];
    unsigned count = 0;
    for (uint64_t seed = 0; seed < 64; seed++) {
        uint64_t hash = hash_of(tasks, laps, seed);
        unsigned i = 0;
        while (i < count && seen[i] != hash)
            i++;
        if (i == count)
            seen[count++] = hash;
    }
    return count;
}

KIN_TEST(different_seeds_give_different_traces, "SCHED:9.1.1 C5 T101 SCHED:9.2.1")
{
    (void)unsetenv("KIN_HARD"); /* the usual order is the point */
    unsigned small = count_traces(8, 0), middle = count_traces(8, 3), large = count_traces(40, 20);
    printf("%u of 64 traces of 8 tasks, %u with yields, %u of 40 tasks\n", small, middle, large);
    EXPECT_GE(small, 4);
    EXPECT_GE(middle, 8);
    EXPECT_GE(large, 32);
}

/* The same under default settings with tasks that compute for longer than the monitor waits: nobody
 * takes them for blocked and starts a second worker beside the only one. */
enum { LONG_TASKS = 6, LONG_LAPS = 2, LONG_MS = 15 };

struct long_trace {
    atomic_uint count, inside, most;
    unsigned at[LONG_TASKS * LONG_LAPS];
};

static void compute_ms(int64_t ms)
{
    struct timespec used;
    EXPECT_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used), 0);
    int64_t end = (int64_t)used.tv_sec * 1000 + used.tv_nsec / 1000000 + ms;
    do
        EXPECT_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used), 0);
    while ((int64_t)used.tv_sec * 1000 + used.tv_nsec / 1000000 < end);
}

static struct long_trace long_trace;

static int compute_and_yield(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg;
    for (unsigned lap = 0; lap < LONG_LAPS; lap++) {
        unsigned inside = atomic_fetch_add(&long_trace.inside, 1) + 1;
        if (inside > long_trace.most)
            long_trace.most = inside;
        long_trace.at[atomic_fetch_add(&long_trace.count, 1)] = me;
        compute_ms(LONG_MS + me % 3);
        atomic_fetch_sub(&long_trace.inside, 1);
        EXPECT_EQ(kin_yield(), 0);
    }
    return 0;
}

static int compute_in_turns(void *arg)
{
    struct kin_stats stats;
    KIN_NURSERY(n);
    (void)arg;
    for (uintptr_t i = 0; i < LONG_TASKS; i++)
        EXPECT_EQ(kin_spawn(&n, compute_and_yield, (void *)i), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.workers_replaced, 0);
    return 0;
}

KIN_TEST(one_worker_keeps_its_order_by_default_whatever_tasks_compute, "SCHED:9.1.1 C5 E4")
{
    unsigned first[LONG_TASKS * LONG_LAPS];
    (void)unsetenv("KIN_HARD"); /* the default settings are the point */
    for (int run = 0; run < 4; run++) {
        struct kin_config config = KIN_CONFIG_INIT;
        config.workers = 1;
        config.seed = 42;
        memset(&long_trace, 0, sizeof long_trace);
        EXPECT_EQ(kin_run(&config, compute_in_turns, NULL), 0);
        EXPECT_EQ(long_trace.most, 1);
        EXPECT_EQ(long_trace.count, LONG_TASKS * LONG_LAPS);
        if (run == 0)
            memcpy(first, long_trace.at, sizeof first);
        EXPECT(memcmp(first, long_trace.at, sizeof first) == 0);
    }
}

/* ---- yields ---- */

struct turn {
    unsigned ran;
};

static int count_turn(void *arg)
{
    ((struct turn *)arg)->ran++;
    return 0;
}

static int yield_once(void *arg)
{
    unsigned tasks = *(unsigned *)arg;
    struct turn turn = {0};
    KIN_NURSERY(n);
    for (unsigned i = 0; i < tasks; i++)
        EXPECT_EQ(kin_spawn(&n, count_turn, &turn), 0);
    EXPECT_EQ(turn.ran, 0); /* a spawn is no yield */
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(turn.ran, tasks);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(after_a_yield_everything_that_was_runnable_has_run, "SCHED:4.2.1 C9 G063")
{
    static const unsigned sizes[] = {1, 2, 8, 30, 200}; /* what a deque holds; see worker.h */
    (void)unsetenv("KIN_HARD"); /* stolen tasks come from the global queue, behind yields */
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (uint64_t seed = 0; seed < 32; seed++) {
            unsigned tasks = sizes[s];
            EXPECT_EQ(run_seeded(1, seed, yield_once, &tasks), 0);
        }
    }
}

struct crowd {
    atomic_bool is_over;
    unsigned laps[16];
    unsigned members;
};

struct member {
    struct crowd *crowd;
    unsigned number;
};

static int yield_on_and_on(void *arg)
{
    struct member *member = arg;
    struct crowd *crowd = member->crowd;
    while (!crowd->is_over) {
        crowd->laps[member->number]++;
        EXPECT_EQ(kin_yield(), 0);
    }
    return 0;
}

static int watch_yielders(void *arg)
{
    struct crowd *crowd = arg;
    struct member members[16];
    KIN_NURSERY(n);
    for (unsigned i = 0; i < crowd->members; i++) {
        members[i] = (struct member){crowd, i};
        EXPECT_EQ(kin_spawn(&n, yield_on_and_on, &members[i]), 0);
    }
    for (int i = 0; i < 1000; i++) /* ends: each yield comes back although the others never stop */
        EXPECT_EQ(kin_yield(), 0);
    crowd->is_over = true;
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(tasks_that_yield_take_equal_turns, "SCHED:4.2.1 C9 G063")
{
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct crowd crowd = {.members = 16};
        EXPECT_EQ(run_seeded(1, seed, watch_yielders, &crowd), 0);
        for (unsigned i = 0; i < 16; i++) {
            EXPECT_GE(crowd.laps[i], 900);
            EXPECT_LE(crowd.laps[i], 1100);
        }
    }
}

/* G068: timers fire while tasks spin with yields on every worker. */
static int sleep_among_yielders(void *arg)
{
    struct crowd *crowd = arg;
    struct member members[2];
    KIN_NURSERY(n);
    for (unsigned i = 0; i < 2; i++) {
        members[i] = (struct member){crowd, i};
        EXPECT_EQ(kin_spawn(&n, yield_on_and_on, &members[i]), 0);
    }
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(300))), 0);
    crowd->is_over = true;
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(timers_fire_while_tasks_yield_on_every_worker, "G068")
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct crowd crowd = {.members = 2};
        EXPECT_EQ(run_seeded(workers, 3, sleep_among_yielders, &crowd), 0);
    }
}

static int check_on_and_on(void *arg)
{
    atomic_bool *is_over = arg;
    while (!*is_over) /* ends: a checkpoint yields now and then */
        EXPECT_EQ(kin_checkpoint(), 0);
    return 0;
}

static int end_it(void *arg)
{
    *(atomic_bool *)arg = true;
    return 0;
}

static int check_beside(void *arg)
{
    atomic_bool is_over = false;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, end_it, &is_over), 0);
    EXPECT_EQ(kin_spawn(&n, check_on_and_on, &is_over), 0); /* runs first: the newest */
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(checkpoints_let_others_run, "SCHED:4.1.1 G063")
{
    EXPECT_EQ(run_seeded(1, 1, check_beside, NULL), 0);
}

/* ---- nobody waits for ever ---- */

struct flood {
    atomic_bool is_over;
    struct kin_nursery *n;
    unsigned spawned;
};

/* Each spawns the next: the newest entry of the deque is always a new one. */
static int spawn_the_next(void *arg)
{
    struct flood *flood = arg;
    if (!flood->is_over) {
        flood->spawned++;
        EXPECT_EQ(kin_spawn(flood->n, spawn_the_next, flood), 0);
    }
    return 0;
}

static int stop_the_flood(void *arg)
{
    ((struct flood *)arg)->is_over = true;
    return 0;
}

static int yield_and_stop_the_flood(void *arg)
{
    EXPECT_EQ(kin_yield(), 0);
    return stop_the_flood(arg);
}

static int sleep_and_stop_the_flood(void *arg)
{
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(50))), 0);
    return stop_the_flood(arg);
}

static kin_task_fn *const stoppers[] = {stop_the_flood, yield_and_stop_the_flood,
                                        sleep_and_stop_the_flood};

static int flood_and_stop(void *arg)
{
    struct flood flood = {0};
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    flood.n = &n;
    EXPECT_EQ(kin_spawn(&n, *(kin_task_fn *const *)arg, &flood), 0); /* oldest: LIFO starves it */
    EXPECT_EQ(kin_spawn(&n, spawn_the_next, &flood), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_flood_of_new_tasks_starves_nobody, "SCHED:7.1.1 C9 G063")
{
    for (size_t i = 0; i < sizeof stoppers / sizeof stoppers[0]; i++)
        for (uint64_t seed = 0; seed < 8; seed++)
            EXPECT_EQ(run_seeded(1, seed, flood_and_stop, (void *)(uintptr_t)&stoppers[i]), 0);
}

/* Two tasks that wake each other use the hot slot on and on; the third must still run. A baton is
 * waited for by one task and given by the other. */
struct baton {
    struct kin__waiter waiter; /* a copy; only one worker, so no lock */
    bool has_waiter;
};

static bool baton_try(void *object, void *io, int *status)
{
    (void)object, (void)io, (void)status;
    return false;
}

static bool baton_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct baton *baton = object;
    (void)status;
    baton->waiter = *waiter;
    baton->has_waiter = true;
    return true;
}

static void baton_unpublish(void *object, struct kin__waiter *waiter)
{
    (void)waiter;
    ((struct baton *)object)->has_waiter = false;
}

static const struct kin__waitable baton_ops = {"baton", baton_try, baton_publish, baton_unpublish};

static void baton_give(struct baton *baton)
{
    if (baton->has_waiter) {
        baton->has_waiter = false;
        EXPECT(kin__wake(&baton->waiter, 0));
    }
}

struct pingpong {
    struct baton batons[2];
    struct kin_nursery *n;
    kin_task_fn *end; /* spawned when they are in full swing */
    atomic_bool is_over;
    unsigned laps;
};

struct player {
    struct pingpong *pingpong;
    unsigned number;
};

static int play(void *arg)
{
    struct player *player = arg;
    struct pingpong *pingpong = player->pingpong;
    while (!pingpong->is_over) {
        if (++pingpong->laps == 100)
            EXPECT_EQ(kin_spawn(pingpong->n, pingpong->end, pingpong), 0);
        baton_give(&pingpong->batons[!player->number]);
        EXPECT_EQ(kin__wait(&baton_ops, &pingpong->batons[player->number], NULL, 0), 0);
    }
    baton_give(&pingpong->batons[!player->number]);
    return 0;
}

static int end_pingpong(void *arg)
{
    struct pingpong *pingpong = arg;
    pingpong->is_over = true;
    baton_give(&pingpong->batons[0]);
    baton_give(&pingpong->batons[1]);
    return 0;
}

static int yield_and_end_pingpong(void *arg)
{
    EXPECT_EQ(kin_yield(), 0);
    return end_pingpong(arg);
}

static int play_pingpong(void *arg)
{
    struct pingpong pingpong = {0};
    struct player players[2] = {{&pingpong, 0}, {&pingpong, 1}};
    bool yields = *(bool *)arg;
    KIN_NURSERY(n);
    pingpong.n = &n;
    pingpong.end = yields ? yield_and_end_pingpong : end_pingpong;
    EXPECT_EQ(kin_spawn(&n, play, &players[0]), 0);
    EXPECT_EQ(kin_spawn(&n, play, &players[1]), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_GE(pingpong.laps, 100);
    if (!yields && !getenv("KIN_HARD"))
        EXPECT_LE(pingpong.laps, 140); /* a streak ends sooner than the order is turned round */
    return 0;
}

KIN_TEST(tasks_that_wake_each_other_starve_nobody, "C9")
{
    for (int yields = 0; yields < 2; yields++) {
        for (uint64_t seed = 0; seed < 16; seed++) {
            bool how = yields;
            EXPECT_EQ(run_seeded(1, seed, play_pingpong, &how), 0);
        }
    }
}

/* ---- overflowing queues, changing stacks ---- */

enum { MANY = 20000 };

static int count_many(void *arg)
{
    atomic_fetch_add((atomic_uint *)arg, 1);
    return 0;
}

static int spawn_many(void *arg)
{
    atomic_uint *count = arg;
    struct kin_stats stats;
    KIN_NURSERY(n);
    for (unsigned i = 0; i < MANY; i++)
        EXPECT_EQ(kin_spawn(&n, count_many, count), 0);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    if (kin__worker_self()->sched->workers_base == 1) {
        EXPECT_EQ(stats.pressure, MANY);
        EXPECT_EQ(stats.tasks_live, MANY + 1);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(*count, MANY);
    /* A worker counts an end behind the task that it wakes. Ends: it has little left to do. */
    while (kin_stats_get(&stats) == 0 && stats.tasks_live > 1)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(stats.pressure, 0);
    EXPECT_EQ(stats.tasks_live, 1);
    return 0;
}

KIN_TEST(a_full_deque_spills_and_loses_nothing, "SCHED:7.1.1 C9 F4 EP:7.1")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        atomic_uint count = 0;
        EXPECT_EQ(run_seeded(workers, 5, spawn_many, &count), 0);
    }
}

static int park_on_some_stack(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg;
    volatile char room[2000];
    memset((char *)(uintptr_t)room, (int)number, sizeof room);
    EXPECT_EQ(number % 2 ? kin_yield() : kin_sleep(kin_after(KIN_US(number % 64))), 0);
    for (size_t i = 0; i < sizeof room; i += 100)
        EXPECT_EQ((unsigned char)room[i], number & 0xff);
    return 0;
}

static int mix_stacks(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n);
    (void)arg;
    for (uintptr_t i = 0; i < 600; i++) {
        options.stack_max_bytes = (size_t)65536 << i % 4;
        EXPECT_EQ(kin_spawn_with(&n, &options, park_on_some_stack, (void *)i, 0, NULL), 0);
        if (i % 50 == 49)
            EXPECT_EQ(kin_yield(), 0);
    }
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(tasks_with_different_stacks_run_side_by_side, "SCHED:5.3.2 F5")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_seeded(workers, 6, mix_stacks, NULL), 0);
}

/* ---- what a yield reports ---- */

static int yield_cancelled(void *arg)
{
    unsigned *ran = arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, count_turn, ran), 0);
    EXPECT_EQ(kin_task_cancel(kin_self()), 0);
    EXPECT_EQ(kin_yield(), KIN_CANCELLED);
    EXPECT_EQ(kin_checkpoint(), KIN_CANCELLED);
    return kin_nursery_join(&n, NULL) == KIN_CANCELLED ? KIN_CANCELLED : -EIO;
}

static int hold_the_cancelled(void *arg)
{
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, yield_cancelled, arg), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_yield_reports_a_cancellation, "B12 NSM:4.2")
{
    unsigned ran = 0;
    EXPECT_EQ(run_seeded(1, 1, hold_the_cancelled, &ran), 0);
    EXPECT_EQ(ran, 0); /* its child was cancelled before it began */
}
