/* SPDX-License-Identifier: MIT */
/*
 * Goal: no wake of a sleeping worker is ever lost, and the counts of who sleeps and searches are
 * right whenever things are quiet.
 * Method: rounds in which exactly one thing is pushed to a runtime that sleeps and nobody pushes
 * again, so that a lost wake is a test that does not end; the idle word is looked at afterwards.
 */
#include "kin_test.h"

#include "base/rng.h"
#include "plat/plat.h"
#include "sched/sched.h"

#include <kin/kin.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PUSHES = 3000, WORKERS = 4 };

static int run_with(unsigned workers, kin_task_fn *fn, void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = workers;
    return kin_run(&config, fn, arg);
}

/* Whether the workers but this one sleep, all counted, and nobody searches. */
static bool is_quiet(void)
{
    struct kin__sched *sched = kin__worker_self()->sched;
    uint32_t idle = kin__load_relaxed(&sched->idle); /* relaxed: asked until it holds */
    EXPECT_LE(idle & 0xffff, 1); /* never more than one searcher */
    EXPECT_LE(idle >> 16, sched->workers_base);
    return idle == (sched->workers_base - 1) << 16;
}

static void wait_until_quiet(void)
{
    while (!is_quiet()) /* ends: whoever finds nothing goes to sleep */
        usleep(100);    /* without the scheduler: that would wake somebody */
}

/* ---- one push at a time from outside ---- */

struct outside {
    struct kin_nursery *n;
    struct kin_task_ref host; /* cancelled at the end */
    atomic_uint ran;
    unsigned rounds;
    atomic_bool is_open;
};

static int answer(void *arg)
{
    struct outside *outside = arg;
    atomic_fetch_add(&outside->ran, 1);
    return 0;
}

static void *push_from_outside(void *arg)
{
    static const uint64_t scales[4] = {500, 5000, 50000, 150000};
    struct outside *outside = arg;
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), 0);
    while (!outside->is_open)
        sched_yield();
    for (unsigned i = 1; i <= outside->rounds; i++) {
        EXPECT_EQ(kin_spawn(outside->n, answer, outside), 0);
        while (outside->ran < i) /* ends: when a worker woke up for it */
            sched_yield();
        /* The next push comes while they spin, while they are about to sleep, or when they do. */
        int64_t until = kin_now() + (int64_t)kin__rng_below(&rng, scales[kin__rng_below(&rng, 4)]);
        while (kin_now() < until)
            kin__cpu_relax();
    }
    EXPECT_EQ(kin_task_cancel(outside->host), 0);
    return NULL;
}

static int be_pushed_to(void *arg)
{
    struct outside *outside = arg;
    pthread_t thread;
    KIN_NURSERY(n);
    outside->n = &n;
    outside->host = kin_self();
    EXPECT_EQ(pthread_create(&thread, NULL, push_from_outside, outside), 0);
    outside->is_open = true;
    /* No timer wakes anybody meanwhile, which would hide a lost wake. */
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(outside->ran, outside->rounds);
    int rc = kin_nursery_join(&n, NULL);
    EXPECT(rc == 0 || rc == KIN_CANCELLED);
    return 0;
}

static int be_pushed_to_alone(void *arg)
{
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, be_pushed_to, arg), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    wait_until_quiet();
    return 0;
}

KIN_TEST(a_push_from_outside_wakes_a_sleeping_runtime, "F4 A11 C9 SCHED:7.4.2 002:1.4")
{
    for (unsigned workers = 1; workers <= WORKERS; workers++) {
        struct outside outside = {.rounds = PUSHES / kin_test_scale()};
        EXPECT_EQ(run_with(workers, be_pushed_to_alone, &outside), 0);
        EXPECT_EQ(outside.ran, outside.rounds);
    }
}

/* ---- sleepers that get up by themselves while others are woken ---- */

static int nap_often(void *arg)
{
    unsigned number = *(const unsigned *)arg;
    for (unsigned i = 0; i < 300 / kin_test_scale(); i++)
        EXPECT_EQ(kin_sleep(kin_after(KIN_US((number * 37 + i * 13) % 100))), 0);
    return 0;
}

static int nap_and_be_pushed_to(void *arg)
{
    unsigned numbers[8];
    KIN_NURSERY(n);
    for (unsigned i = 0; i < 8; i++) {
        numbers[i] = i;
        EXPECT_EQ(kin_spawn(&n, nap_often, &numbers[i]), 0);
    }
    KIN_NURSERY(pushed);
    EXPECT_EQ(kin_spawn(&pushed, be_pushed_to, arg), 0); /* it is cancelled at the end */
    EXPECT_EQ(kin_nursery_join(&pushed, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    wait_until_quiet();
    return 0;
}

KIN_TEST(the_counts_are_right_after_sleepers_got_up_by_themselves, "F4 A11 SCHED:6.3.1")
{
    for (unsigned workers = 2; workers <= WORKERS; workers++) {
        struct outside outside = {.rounds = PUSHES / 4 / kin_test_scale()};
        EXPECT_EQ(run_with(workers, nap_and_be_pushed_to, &outside), 0);
    }
}

/* ---- work for everybody wakes everybody ---- */

struct lockstep {
    atomic_uint turn;
    unsigned members, laps;
};

struct stepper {
    struct lockstep *lockstep;
    unsigned number;
};

/* Takes its turn without ever offering its worker to anybody. */
static int take_turns(void *arg)
{
    struct stepper *stepper = arg;
    struct lockstep *lockstep = stepper->lockstep;
    for (unsigned i = 0; i < lockstep->laps; i++) {
        unsigned mine = i * lockstep->members + stepper->number;
        while (lockstep->turn != mine) /* ends: the others run at the same time */
            sched_yield();
        lockstep->turn = mine + 1;
    }
    return 0;
}

static int run_in_lockstep(void *arg)
{
    struct lockstep *lockstep = arg;
    struct stepper steppers[WORKERS];
    KIN_NURSERY(n);
    for (unsigned i = 0; i < lockstep->members; i++) {
        steppers[i] = (struct stepper){lockstep, i};
        EXPECT_EQ(kin_spawn(&n, take_turns, &steppers[i]), 0);
    }
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(as_many_tasks_as_workers_run_at_the_same_time, "G066 C9")
{
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    for (int repeat = 0; repeat < 5; repeat++) {
        for (unsigned workers = 1; workers <= WORKERS; workers++) {
            struct kin_config config = KIN_CONFIG_INIT;
            struct lockstep lockstep = {0, workers, 10};
            config.workers = workers;
            config.workers_max = workers;
            EXPECT_EQ(kin_run(&config, run_in_lockstep, &lockstep), 0);
            EXPECT_EQ(lockstep.turn, lockstep.members * lockstep.laps);
        }
    }
}

/* The same with the tasks woken instead of spawned: the waker must share what it cannot run. */
static int sleep_and_take_turns(void *arg)
{
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(3))), 0);
    return take_turns(arg);
}

static int run_in_lockstep_after_a_sleep(void *arg)
{
    struct lockstep *lockstep = arg;
    struct stepper steppers[WORKERS];
    KIN_NURSERY(n);
    for (unsigned i = 0; i < lockstep->members; i++) {
        steppers[i] = (struct stepper){lockstep, i};
        EXPECT_EQ(kin_spawn(&n, sleep_and_take_turns, &steppers[i]), 0);
    }
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(woken_tasks_run_at_the_same_time_too, "G067 C9")
{
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    for (int repeat = 0; repeat < 5; repeat++) {
        struct kin_config config = KIN_CONFIG_INIT;
        struct lockstep lockstep = {0, WORKERS, 10};
        config.workers = WORKERS;
        config.workers_max = WORKERS;
        EXPECT_EQ(kin_run(&config, run_in_lockstep_after_a_sleep, &lockstep), 0);
    }
}

/* ---- nothing to do costs nothing ---- */

static int64_t cpu_of_process(void)
{
    struct timespec used;
    EXPECT_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

static int count_one(void *arg)
{
    atomic_fetch_add((atomic_uint *)arg, 1);
    return 0;
}

/* One task holds its worker and private work that nobody can take; the many idle workers ask for
 * it now and then, and do not all turn round. The bound is an eighth of what one of them would burn
 * if it did nothing else, and it is on CPU time, however long the look takes. */
static int hold_private_work(void *arg)
{
    atomic_uint *ran = arg;
    KIN_NURSERY(n);
    for (int i = 0; i < 3; i++) /* while the others are still on their way to sleep */
        EXPECT_EQ(kin_spawn(&n, count_one, ran), 0);
    usleep(50000);
    int64_t before = cpu_of_process(), begun = kin_now();
    usleep(200000);
    int64_t used = cpu_of_process() - before, took = kin_now() - begun;
    printf("%lld us of CPU in %lld us\n", (long long)used / 1000, (long long)took / 1000);
    EXPECT_LT(used, took / 8 * kin_test_scale());
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(idle_workers_back_off_while_work_is_out_of_reach, "SCHED:7.4.2")
{
    struct kin_config config = KIN_CONFIG_INIT;
    atomic_uint ran = 0;
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    config.workers = 64;
    config.stall_threshold = KIN_NEVER;
    EXPECT_EQ(kin_run(&config, hold_private_work, &ran), 0);
    EXPECT_EQ(ran, 3);
}
