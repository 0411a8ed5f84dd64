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
    EXPECT_LE(kin__idle_naps(idle), kin__idle_sleepers(idle));
    EXPECT_LE(kin__idle_sleepers(idle), sched->workers_base);
    return (idle & ~KIN__IDLE_STRONG) == (sched->workers_base - 1) * KIN__IDLE_SLEEPER;
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
    unsigned pushed = 0;
    while (kin_test_goes_on(pushed, outside->rounds)) {
        EXPECT_EQ(kin_spawn(outside->n, answer, outside), 0);
        pushed++;
        while (outside->ran < pushed) /* ends: when a worker woke up for it */
            sched_yield();
        /* The next push comes while they spin, while they are about to sleep, or when they do. */
        int64_t until = kin_now() + (int64_t)kin__rng_below(&rng, scales[kin__rng_below(&rng, 4)]);
        while (kin_now() < until)
            kin__cpu_relax();
    }
    outside->rounds = pushed;
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

/* One task holds its worker. What it has spawned was taken from it, and the many idle workers are
 * asleep for good. The bound is an eighth of what one of them would burn if it did nothing else,
 * and it is on CPU time, however long the look takes. */
static int hold_a_worker_and_look(void *arg)
{
    atomic_uint *ran = arg;
    KIN_NURSERY(n);
    for (int i = 0; i < 3; i++) /* while the others are still on their way to sleep */
        EXPECT_EQ(kin_spawn(&n, count_one, ran), 0);
    wait_until_quiet();
    int64_t before = cpu_of_process(), begun = kin_now();
    usleep(200000);
    int64_t used = cpu_of_process() - before, took = kin_now() - begun;
    printf("%lld us of CPU in %lld us\n", (long long)used / 1000, (long long)took / 1000);
    EXPECT_LT(used, took / 8 * kin_test_scale());
    EXPECT_EQ(*ran, 3);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(idle_workers_sleep_and_cost_nothing, "SCHED:7.4.2")
{
    struct kin_config config = KIN_CONFIG_INIT;
    atomic_uint ran = 0;
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    config.workers = 64;
    config.stall_threshold = KIN_NEVER;
    EXPECT_EQ(kin_run(&config, hold_a_worker_and_look, &ran), 0);
    EXPECT_EQ(ran, 3);
}

KIN_TEST(the_back_off_grows_to_a_millisecond_and_ends, "SCHED:7.4.2")
{
    struct kin__sched *sched = kin__heap_alloc_lines(sizeof *sched);
    struct kin__worker *workers = kin__heap_alloc_lines(2 * sizeof *workers);
    struct kin__task task;
    int64_t last = KIN__SPIN_LAST_NS, moment;
    EXPECT(sched && workers);
    memset(&task, 0, sizeof task);
    sched->workers = workers;
    sched->workers_max = 2;
    kin__store_relaxed(&sched->alive, 2u); /* alone: no threads */
    workers[0].sched = workers[1].sched = sched;
    while ((moment = kin__idle_moment(&workers[0], true)) >= 0) { /* ends: it grows, see below */
        EXPECT_GE(moment, 2 * last);
        EXPECT_LE(moment, KIN_MS(1));
        last = moment;
    }
    EXPECT_EQ(last, KIN_MS(1));
    /* Whoever does not search sleeps for that long at once, and then for good. */
    EXPECT_EQ(kin__idle_moment(&workers[1], false), KIN_MS(1));
    EXPECT_LT(kin__idle_moment(&workers[1], false), 0);
    /* Not while somebody has work that nobody else can see. */
    kin__store_relaxed(&workers[1].slot, &task); /* alone: no threads */
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin__idle_moment(&workers[0], true), KIN_MS(1));
    /* One that is alone has nobody to look at. */
    workers[0].moment_ns = 0;
    kin__store_relaxed(&sched->alive, 1u); /* alone: no threads */
    EXPECT_LT(kin__idle_moment(&workers[0], true), 0);
    kin__heap_free_lines(workers);
    kin__heap_free_lines(sched);
}

/* ---- work wakes a sleeper: a task computes until another one, of its own worker, has run ---- */

enum { ALONE_ROUNDS = 100 };

/* A runtime in which nobody but an idle worker can help: no monitor, no more workers. */
static int run_unwatched(unsigned workers, kin_task_fn *fn, void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    config.workers = config.workers_max = workers;
    config.stall_threshold = KIN_NEVER;
    return kin_run(&config, fn, arg);
}

static void compute_until(atomic_uint *count, unsigned wanted)
{
    while (*count < wanted) /* ends: when another worker has run what this one made runnable */
        continue;
}

static int fork_a_lone_child(void *arg)
{
    atomic_uint *ran = arg;
    for (unsigned i = 1; i <= ALONE_ROUNDS; i++) {
        KIN_NURSERY(n);
        if (i % 2)
            wait_until_quiet(); /* else they are on their way to sleep */
        EXPECT_EQ(kin_spawn(&n, count_one, ran), 0);
        compute_until(ran, i);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(a_lone_child_runs_while_its_parent_computes, "E5 SCHED:7.1.1 SCHED:6.3.1 SCHED:13.1.1")
{
    for (unsigned workers = 2; workers <= WORKERS; workers++) {
        atomic_uint ran = 0;
        EXPECT_EQ(run_unwatched(workers, fork_a_lone_child, &ran), 0);
    }
}

static int spawn_more_than_fits(void *arg)
{
    atomic_uint *ran = arg;
    for (unsigned i = 0; i < 10; i++) {
        KIN_NURSERY(n);
        wait_until_quiet();
        unsigned before = *ran;
        for (unsigned k = 0; k < 3 * KIN__DEQUE_SIZE; k++)
            EXPECT_EQ(kin_spawn(&n, count_one, ran), 0);
        compute_until(ran, before + 3 * KIN__DEQUE_SIZE);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(what_does_not_fit_into_the_deque_wakes_a_sleeper, "E5 002:1.4 SCHED:6.3.1")
{
    for (unsigned workers = 2; workers <= WORKERS; workers++) {
        atomic_uint ran = 0;
        EXPECT_EQ(run_unwatched(workers, spawn_more_than_fits, &ran), 0);
    }
}

struct late {
    struct kin_event go;
    atomic_uint ran, holds, is_free;
};

/* Keeps the other worker busy until it is told. */
static int hold_a_worker(void *arg)
{
    struct late *late = arg;
    late->holds++;
    while (!late->is_free) /* ends: told by the first task */
        continue;
    return 0;
}

static int spawn_while_all_are_busy(void *arg)
{
    struct late *late = arg;
    struct kin__sched *sched = kin__worker_self()->sched;
    for (unsigned i = 1; i <= ALONE_ROUNDS; i++) {
        KIN_NURSERY(n);
        late->is_free = 0;
        EXPECT_EQ(kin_spawn(&n, hold_a_worker, late), 0);
        compute_until(&late->holds, i);
        /* relaxed: asked until it holds; the thief has stopped searching before it runs */
        while (kin__load_relaxed(&sched->idle) & ~KIN__IDLE_STRONG)
            continue;
        EXPECT_EQ(kin_spawn(&n, count_one, &late->ran), 0); /* nobody is idle: it is private */
        late->is_free = 1;
        compute_until(&late->ran, i);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(a_worker_that_gets_idle_later_takes_what_was_private, "E4 E5 002:1.4")
{
    struct late late;
    memset(&late, 0, sizeof late);
    EXPECT_EQ(run_unwatched(2, spawn_while_all_are_busy, &late), 0);
}

static int wait_and_count(void *arg)
{
    struct late *late = arg;
    late->holds++;
    EXPECT_EQ(kin_event_wait(&late->go, KIN_NEVER), 0);
    late->ran++;
    return 0;
}

static int wake_and_compute(void *arg)
{
    struct late *late = arg;
    for (unsigned i = 1; i <= ALONE_ROUNDS / 2; i++) {
        unsigned count = 1 + i % 3;
        KIN_NURSERY(n);
        kin_event_reset(&late->go);
        late->ran = late->holds = 0;
        for (unsigned k = 0; k < count; k++)
            EXPECT_EQ(kin_spawn(&n, wait_and_count, late), 0);
        compute_until(&late->holds, count);
        wait_until_quiet();
        kin_event_set(&late->go);
        compute_until(&late->ran, count);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(a_woken_task_runs_while_its_waker_computes, "E5 002:1.4")
{
    struct late late;
    memset(&late, 0, sizeof late);
    EXPECT_EQ(run_unwatched(2, wake_and_compute, &late), 0);
}

static int compute_until_it_goes_on(void *arg)
{
    struct late *late = arg;
    unsigned wanted = ++late->holds;
    compute_until(&late->ran, wanted);
    return 0;
}

static int yield_to_one_that_computes(void *arg)
{
    struct late *late = arg;
    for (unsigned i = 1; i <= ALONE_ROUNDS; i++) {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, compute_until_it_goes_on, late), 0);
        while (late->holds < i)
            EXPECT_EQ(kin_yield(), 0);
        late->ran++;
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(a_task_that_yielded_goes_on_while_another_computes, "E5 002:1.4")
{
    struct late late;
    memset(&late, 0, sizeof late);
    EXPECT_EQ(run_unwatched(2, yield_to_one_that_computes, &late), 0);
}

/* A tree of forks: each task spawns one half and goes on with the other. Its leaves compute until
 * as many of them as there are workers do so at the same time. */
struct tree {
    atomic_uint inside;
    unsigned leaves, workers;
};

struct branch {
    struct tree *tree;
    unsigned leaves;
};

static int grow(void *arg)
{
    struct branch branch = *(struct branch *)arg;
    if (branch.leaves > 1) {
        struct branch half = {branch.tree, branch.leaves / 2};
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, grow, &half), 0);
        EXPECT_EQ(grow(&half), 0);
        return kin_nursery_join(&n, NULL);
    }
    branch.tree->inside++;
    compute_until(&branch.tree->inside, branch.tree->workers);
    return 0;
}

KIN_TEST(a_tree_of_forks_fills_every_worker, "SCHED:13.2.1 E5")
{
    for (unsigned workers = 1; workers <= 16; workers *= 2) {
        struct tree tree = {0, 16, workers};
        struct branch root = {&tree, tree.leaves};
        EXPECT_EQ(run_unwatched(workers, grow, &root), 0);
        EXPECT_EQ(tree.inside, tree.leaves);
    }
}
