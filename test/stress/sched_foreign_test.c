/* SPDX-License-Identifier: MIT */
/*
 * Goal: threads that are no workers may spawn, wake and cancel at any moment, also at the last one.
 * Method: short runtimes, one after the other, each of which ends because of what a foreign thread
 * does, while that thread may still be inside the call; and one long runtime with several threads.
 */
#include "kin_test.h"

#include "base/rng.h"
#include "park/park.h"
#include "plat/plat.h"
#include "sched/sched.h"

#include <kin/kin.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUNS = 800, THREADS = 3, SPAWNS = 4000 };

/* ---- the last push of a runtime comes from outside ---- */

static struct {
    struct kin_nursery n;    /* outlives every runtime */
    struct kin_task_ref main;
    struct kin__task *task;  /* parked with ticket */
    uint64_t ticket;
    kin__a32 run;            /* what the foreign thread may act on; UINT32_MAX: the end */
    atomic_bool has_run;
    void (*act)(void);
} meeting;

/* The foreign thread may act on this run. */
static void begin_run(const unsigned *run)
{
    kin__store_release(&meeting.run, *run); /* pairs with the acquire in act_once_per_run */
    kin__futex_wake(&meeting.run, 1);
}

static int run_last(void *arg)
{
    (void)arg;
    meeting.has_run = true;
    return 0;
}

static void act_spawn(void)
{
    EXPECT_EQ(kin_spawn(&meeting.n, run_last, NULL), 0);
}

static int main_spawned(void *arg)
{
    meeting.has_run = false;
    EXPECT_EQ(kin_nursery_open(&meeting.n, NULL), 0);
    begin_run(arg);
    while (!meeting.has_run) /* ends: the thread outside spawns */
        EXPECT_EQ(kin_yield(), 0);
    return kin_nursery_join(&meeting.n, NULL);
}

static void act_cancel(void)
{
    EXPECT_EQ(kin_task_cancel(meeting.main), 0);
}

static int main_cancelled(void *arg)
{
    meeting.main = kin_self();
    begin_run(arg);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    return 0;
}

static bool wake_try(void *object, void *io, int *status)
{
    (void)object, (void)io, (void)status;
    return false;
}

static bool wake_publish(void *object, struct kin__waiter *waiter, int *status)
{
    (void)status;
    meeting.task = waiter->task;
    meeting.ticket = waiter->ticket;
    begin_run(object);
    return true;
}

static void wake_unpublish(void *object, struct kin__waiter *waiter)
{
    (void)object, (void)waiter;
}

static const struct kin__waitable wake_ops = {"outside", wake_try, wake_publish, wake_unpublish};

static void act_wake(void)
{
    EXPECT(kin__wake_task(meeting.task, meeting.ticket, 0, 44));
}

static int main_woken(void *arg)
{
    EXPECT_EQ(kin__wait(&wake_ops, arg, NULL, 0), 44);
    return 0;
}

static void *act_once_per_run(void *arg)
{
    unsigned last = 0, run;
    (void)arg;
    /* pairs with the release in begin_run */
    while ((run = kin__load_acquire(&meeting.run)) != UINT32_MAX) {
        if (run == last) {
            (void)kin__futex_wait(&meeting.run, last, -1);
            continue;
        }
        last = run;
        meeting.act();
    }
    return NULL;
}

static void meet(kin_task_fn *fn, void (*act)(void))
{
    const unsigned runs = RUNS / kin_test_scale() + 1;
    struct kin_config config = KIN_CONFIG_INIT;
    pthread_t thread;
    meeting.act = act;
    kin__store_relaxed(&meeting.run, 0u); /* alone: before the thread */
    EXPECT_EQ(pthread_create(&thread, NULL, act_once_per_run, NULL), 0);
    for (unsigned run = 1; run <= runs; run++) {
        config.workers = 1 + run % 3;
        EXPECT_EQ(kin_run(&config, fn, &run), 0);
    }
    begin_run(&(unsigned){UINT32_MAX});
    EXPECT_EQ(pthread_join(thread, NULL), 0);
}

KIN_TEST(a_runtime_may_end_with_a_spawn_from_outside, "F4")
{
    meet(main_spawned, act_spawn);
}

KIN_TEST(a_runtime_may_end_with_a_cancellation_from_outside, "F4 A7")
{
    meet(main_cancelled, act_cancel);
}

KIN_TEST(a_runtime_may_end_with_a_wake_from_outside, "F4 W:4.3")
{
    meet(main_woken, act_wake);
}

/* The same, drawn out: a thread that is inside when the last task ends is waited for. */
static struct {
    _Atomic(struct kin__sched *) sched;
    atomic_bool is_in, has_left;
} visit;

static void *pay_a_visit(void *arg)
{
    struct kin__sched *sched;
    (void)arg;
    while (!(sched = visit.sched))
        sched_yield();
    (void)kin__add_relaxed(&sched->visitors, 1u); /* as push_outside does */
    visit.is_in = true;
    usleep(20000);
    visit.has_left = true;
    (void)kin__sub_acq_rel(&sched->visitors, 1u); /* pairs with wait_for_visitors */
    return NULL;
}

static int be_visited(void *arg)
{
    (void)arg;
    visit.sched = kin__worker_self()->sched;
    while (!visit.is_in)
        EXPECT_EQ(kin_yield(), 0);
    return 0;
}

KIN_TEST(a_runtime_waits_for_a_thread_that_is_inside, "F4")
{
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, pay_a_visit, NULL), 0);
    EXPECT_EQ(kin_run(NULL, be_visited, NULL), 0);
    EXPECT(visit.has_left);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
}

/* ---- many threads, one runtime ---- */

static struct {
    struct kin_nursery *n;
    atomic_uint started, ended, cancelled, accepted, full;
    atomic_bool is_open;
    struct kin_task_ref refs[THREADS][64];
    unsigned spawns;
} crowd;

static int live_a_little(void *arg)
{
    int rc = 0;
    atomic_fetch_add(&crowd.started, 1);
    switch ((uintptr_t)arg % 4) {
    case 0:
        break;
    case 1:
        rc = kin_yield();
        break;
    case 2:
        rc = kin_sleep(kin_after(KIN_US(20)));
        break;
    default:
        rc = kin_sleep(kin_after(KIN_SEC(1000))); /* until somebody cancels it */
        EXPECT_EQ(rc, KIN_CANCELLED);
    }
    atomic_fetch_add(rc == KIN_CANCELLED ? &crowd.cancelled : &crowd.ended, 1);
    return rc;
}

static void *spawn_and_cancel(void *arg)
{
    unsigned thread = (unsigned)(uintptr_t)arg;
    struct kin_task_ref *refs = crowd.refs[thread];
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), thread);
    while (!crowd.is_open)
        sched_yield();
    for (unsigned i = 0; i < crowd.spawns; i++) {
        struct kin_task_ref *ref = &refs[kin__rng_below(&rng, 64)];
        (void)kin_task_cancel(*ref); /* whatever has this name: it may be over since long */
        EXPECT_EQ(kin_spawn_with(crowd.n, NULL, live_a_little, (void *)(uintptr_t)(i * 7 + thread),
                                 0, ref),
                  0);
        atomic_fetch_add(&crowd.accepted, 1);
        if (i % 32 == 0)
            sched_yield();
    }
    for (unsigned i = 0; i < 64; i++)
        (void)kin_task_cancel(refs[i]);
    return NULL;
}

static int host_the_crowd(void *arg)
{
    pthread_t threads[THREADS];
    struct kin_stats stats;
    KIN_NURSERY(n);
    (void)arg;
    crowd.n = &n;
    for (uintptr_t i = 0; i < THREADS; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, spawn_and_cancel, (void *)i), 0);
    crowd.is_open = true;
    while (crowd.accepted < THREADS * crowd.spawns)
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(500))), 0);
    for (int i = 0; i < THREADS; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0); /* every sleeper was cancelled by name */
    do /* ends: a worker counts an end right behind the task that it wakes */
        EXPECT_EQ(kin_stats_get(&stats), 0);
    while (stats.tasks_live > 1);
    EXPECT_EQ(stats.tasks_live, 1);
    EXPECT_EQ(stats.pressure, 0);
    EXPECT_EQ(stats.timers, 0);
    return 0;
}

KIN_TEST(threads_spawn_and_cancel_while_a_runtime_works, "F4 ABA:8.3 A7")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct kin_config config = KIN_CONFIG_INIT;
        memset(&crowd, 0, sizeof crowd);
        crowd.spawns = SPAWNS / kin_test_scale();
        config.workers = workers;
        EXPECT_EQ(kin_run(&config, host_the_crowd, NULL), 0);
        EXPECT_EQ(crowd.started, crowd.ended + crowd.cancelled);
        EXPECT_LE(crowd.started, crowd.accepted);
        printf("%u workers: %u ended, %u cancelled, %u never began\n", workers, crowd.ended,
               crowd.cancelled, crowd.accepted - crowd.started);
    }
}
