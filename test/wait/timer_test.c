/* SPDX-License-Identifier: MIT */
/*
 * Goal: a sleeper goes on when its time has come, never before, in order, and at once when asked
 * to. Method: real runtimes and the real clock; expectations are about order and "not before",
 * never about how soon.
 */
#include "kin_test.h"

#include "base/lock.h"
#include "base/rng.h"
#include "park/park.h"
#include "sched/sched.h"
#include "wait/timer.h"

#include <kin/blocking.h>
#include <kin/kin.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int run_with(unsigned workers, kin_task_fn *fn, void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = workers;
    return kin_run(&config, fn, arg);
}

/* ---- the edges of kin_sleep ---- */

static int sleep_in_the_past(void *arg)
{
    struct kin_stats before, after;
    (void)arg;
    EXPECT_EQ(kin_stats_get(&before), 0);
    EXPECT_EQ(kin_sleep(0), 0);
    EXPECT_EQ(kin_sleep(-1), 0);
    EXPECT_EQ(kin_sleep(INT64_MIN), 0);
    EXPECT_EQ(kin_sleep(1), 0);
    EXPECT_EQ(kin_sleep(kin_now()), 0);
    EXPECT_EQ(kin_sleep(kin_after(-KIN_SEC(5))), 0);
    EXPECT_EQ(kin_stats_get(&after), 0);
    EXPECT_EQ(after.timers, before.timers);
    return 0;
}

KIN_TEST(a_deadline_that_is_not_in_the_future_returns_at_once, "T086")
{
    EXPECT_EQ(run_with(1, sleep_in_the_past, NULL), 0);
}

KIN_TEST(sleeping_outside_a_task_is_refused, "N1002")
{
    EXPECT_EQ(kin_sleep(0), KIN_NOTASK);
    EXPECT_EQ(kin_sleep(kin_after(KIN_SEC(100))), KIN_NOTASK);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_NOTASK);
}

static int sleep_some(void *arg)
{
    static const int64_t naps[] = {1, KIN_US(3), KIN_US(17), KIN_US(200), KIN_MS(1), KIN_MS(7)};
    (void)arg;
    for (size_t i = 0; i < sizeof naps / sizeof naps[0]; i++) {
        kin_time deadline = kin_after(naps[i]);
        EXPECT_EQ(kin_sleep(deadline), 0);
        EXPECT_GE(kin_now(), deadline);
    }
    return 0;
}

KIN_TEST(a_sleep_never_ends_before_its_deadline, "T086 D043")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_with(workers, sleep_some, NULL), 0);
}

/* ---- order ---- */

enum { SLEEPERS = 100 };

struct order {
    int64_t margin; /* how long they have to fall asleep */
    kin_time start;
    kin_time step;
    unsigned log[SLEEPERS];
    unsigned count;
};

struct sleeper {
    struct order *order;
    unsigned number;
};

static int sleep_and_log(void *arg)
{
    struct sleeper *sleeper = arg;
    struct order *order = sleeper->order;
    kin_time deadline = order->start + order->step * (int64_t)sleeper->number;
    EXPECT_EQ(kin_sleep(deadline), 0);
    EXPECT_GE(kin_now(), deadline);
    order->log[order->count++] = sleeper->number;
    return 0;
}

/* Lets them fall asleep. Whether all were before the first deadline; a slow machine gets another,
 * longer chance. */
static bool was_in_time(const struct order *order, unsigned sleepers)
{
    struct kin_stats stats;
    do { /* ends: they run and park, or it is too late */
        EXPECT_EQ(kin_yield(), 0);
        EXPECT_EQ(kin_stats_get(&stats), 0);
    } while (stats.timers < sleepers && kin_now() < order->start);
    return stats.timers == sleepers && kin_now() < order->start;
}

static void expect_order(const struct order *order)
{
    EXPECT_EQ(order->count, SLEEPERS);
    for (unsigned i = 0; i < SLEEPERS; i++)
        EXPECT_EQ(order->log[i], i);
}

/* Sleepers whose deadlines are spawned in another order than they come. */
static int sleep_sort(void *arg)
{
    struct order *order = arg;
    struct sleeper sleepers[SLEEPERS];
    KIN_NURSERY(n);
    order->start = kin_after(order->margin);
    for (unsigned i = 0; i < SLEEPERS; i++) {
        sleepers[i] = (struct sleeper){order, i * 37 % SLEEPERS};
        EXPECT_EQ(kin_spawn(&n, sleep_and_log, &sleepers[i]), 0);
    }
    int in_time = was_in_time(order, SLEEPERS);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return in_time;
}

/* Runs a program of sleepers until they were all asleep in time. */
static void expect_sorted(uint64_t seed, int64_t step, kin_task_fn *fn)
{
    struct kin_config config = KIN_CONFIG_INIT;
    int in_time = 0;
    config.workers = 1;
    config.seed = seed;
    config.stall_threshold = KIN_NEVER; /* being busy is a part of it */
    for (int64_t margin = KIN_MS(5); !in_time && margin < KIN_SEC(5); margin *= 2) {
        struct order order = {.margin = margin, .step = step};
        in_time = kin_run(&config, fn, &order);
        EXPECT_GE(in_time, 0);
        if (in_time)
            expect_order(&order);
    }
    EXPECT(in_time);
}

KIN_TEST(sleepers_of_one_worker_wake_in_the_order_of_their_deadlines, "T086 D044")
{
    expect_sorted(1, KIN_US(100), sleep_sort);
}

/* The same when the worker was busy meanwhile and finds all of them due at once. */
static int sleep_sort_late(void *arg)
{
    struct order *order = arg;
    struct sleeper sleepers[SLEEPERS];
    KIN_NURSERY(n);
    order->start = kin_after(order->margin);
    for (unsigned i = 0; i < SLEEPERS; i++) {
        sleepers[i] = (struct sleeper){order, i * 37 % SLEEPERS};
        EXPECT_EQ(kin_spawn(&n, sleep_and_log, &sleepers[i]), 0);
    }
    int in_time = was_in_time(order, SLEEPERS);
    while (kin_now() < order->start + order->step * SLEEPERS + KIN_MS(1))
        continue; /* busy, without a word to the scheduler */
    for (unsigned i = 0; order->count < SLEEPERS && i < 100000; i++)
        EXPECT_EQ(kin_yield(), 0); /* picks, so that the worker looks around while it is busy */
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return in_time;
}

KIN_TEST(sleepers_that_are_due_at_once_wake_in_the_order_of_their_deadlines, "T086 D044")
{
    for (uint64_t seed = 0; seed < 8; seed++)
        expect_sorted(seed, KIN_US(50), sleep_sort_late);
}

/* Two whose time comes while the lone worker looks for work from outside, as it does after some has
 * come: then it is idle itself, and there is nobody else to keep something for. */
static int nothing_to_do(void *arg)
{
    (void)arg;
    return 0;
}

static int sleep_while_it_looks(void *arg)
{
    struct kin__rng rng;
    (void)arg;
    kin__rng_init(&rng, kin_test_seed(), 0);
    for (uint64_t i = 0; kin_test_goes_on(i, 1000 / kin_test_scale()); i++) {
        struct order order = {.step = 1};
        struct sleeper sleepers[] = {{&order, 1}, {&order, 0}};
        KIN_NURSERY(n);
        EXPECT_EQ(kin_blocking(nothing_to_do, NULL, NULL, KIN_NEVER), 0);
        order.start = kin_after((int64_t)kin__rng_below(&rng, 200000));
        EXPECT_EQ(kin_spawn(&n, sleep_and_log, &sleepers[0]), 0);
        EXPECT_EQ(kin_spawn(&n, sleep_and_log, &sleepers[1]), 0);
        bool in_time = was_in_time(&order, 2);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(order.count, 2);
        if (in_time)
            EXPECT_EQ(order.log[0], 0);
    }
    return 0;
}

KIN_TEST(sleepers_wake_in_order_while_their_worker_looks_for_work, "T086 D044")
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 1;
    config.stall_threshold = KIN_NEVER; /* a slow machine must not change the order */
    EXPECT_EQ(kin_run(&config, sleep_while_it_looks, NULL), 0);
}

/* ---- cancellation ---- */

struct ended {
    atomic_int rc, again;
    atomic_bool is_asleep;
    kin_time deadline;
};

static int sleep_until_asked(void *arg)
{
    struct ended *ended = arg;
    ended->is_asleep = true;
    ended->rc = kin_sleep(ended->deadline);
    ended->again = kin_sleep(ended->deadline); /* sticky: the next one too */
    return ended->rc;
}

static int cancel_a_sleeper(void *arg)
{
    struct ended *ended = arg;
    struct kin_task_ref ref;
    struct kin_stats stats;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, NULL, sleep_until_asked, ended, 0, &ref), 0);
    while (!ended->is_asleep) /* ends: it runs */
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0); /* one cancelled alone does not fail the nursery */
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.timers, 0); /* its deadline left the wheel with it */
    return 0;
}

KIN_TEST(a_cancelled_sleeper_returns_at_once, "T012 D045 B12")
{
    const kin_time deadlines[] = {KIN_NEVER, KIN_NEVER - 1, INT64_MAX / 2};
    for (unsigned workers = 1; workers <= 2; workers++) {
        for (size_t i = 0; i < 3; i++) {
            struct ended ended = {.deadline = deadlines[i]};
            EXPECT_EQ(run_with(workers, cancel_a_sleeper, &ended), 0);
            EXPECT_EQ(ended.rc, KIN_CANCELLED);
            EXPECT_EQ(ended.again, KIN_CANCELLED);
        }
    }
}

/* ---- deadlines of other waits ---- */

struct flag {
    struct kin__lock lock; /* rank WAIT */
    bool is_set;
    struct kin__list waiters;
    int status;
};

static bool flag_try(void *object, void *io, int *status)
{
    struct flag *flag = object;
    (void)io;
    kin__lock_take(&flag->lock, KIN__RANK_WAIT);
    bool is_set = flag->is_set;
    *status = flag->status;
    kin__lock_give(&flag->lock, KIN__RANK_WAIT);
    return is_set;
}

static bool flag_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct flag *flag = object;
    kin__lock_take(&flag->lock, KIN__RANK_WAIT);
    bool is_set = flag->is_set;
    *status = flag->status;
    if (!is_set) {
        waiter->link = (struct kin__list){NULL, NULL};
        kin__list_push_back(&flag->waiters, &waiter->link);
    }
    kin__lock_give(&flag->lock, KIN__RANK_WAIT);
    return !is_set;
}

static void flag_unpublish(void *object, struct kin__waiter *waiter)
{
    struct flag *flag = object;
    kin__lock_take(&flag->lock, KIN__RANK_WAIT);
    kin__list_remove(&waiter->link);
    kin__lock_give(&flag->lock, KIN__RANK_WAIT);
}

static const struct kin__waitable flag_waitable = {"flag", flag_try, flag_publish, flag_unpublish};

static void flag_init(struct flag *flag)
{
    memset(flag, 0, sizeof *flag);
    kin__list_init(&flag->waiters);
}

static void flag_set(struct flag *flag, int status)
{
    kin__lock_take(&flag->lock, KIN__RANK_WAIT);
    flag->is_set = true;
    flag->status = status;
    for (struct kin__list *link; (link = kin__list_pop_front(&flag->waiters));)
        (void)kin__wake(KIN__CONTAINER_OF(link, struct kin__waiter, link), status);
    kin__lock_give(&flag->lock, KIN__RANK_WAIT);
}

static int set_flag(void *arg)
{
    flag_set(arg, 77);
    return 0;
}

static int wait_with_deadlines(void *arg)
{
    struct flag flag;
    struct kin_stats stats;
    (void)arg;
    flag_init(&flag);
    EXPECT_EQ(kin__wait_until(&flag_waitable, &flag, NULL, 0, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin__wait_until(&flag_waitable, &flag, NULL, -5, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin__wait_until(&flag_waitable, &flag, NULL, kin_now(), 0), KIN_TIMEOUT);
    kin_time deadline = kin_after(KIN_MS(2));
    EXPECT_EQ(kin__wait_until(&flag_waitable, &flag, NULL, deadline, 0), KIN_TIMEOUT);
    EXPECT_GE(kin_now(), deadline);
    EXPECT(kin__list_is_empty(&flag.waiters)); /* the loser was taken out */

    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, set_flag, &flag), 0);
    EXPECT_EQ(kin__wait_until(&flag_waitable, &flag, NULL, kin_after(KIN_SEC(1000)), 0), 77);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.timers, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin__wait_until(&flag_waitable, &flag, NULL, 0, 0), 77); /* complete beats too late */
    EXPECT_EQ(kin__wait_until(&flag_waitable, &flag, NULL, KIN_NEVER, 0), 77);
    return 0;
}

KIN_TEST(a_wait_with_a_deadline_times_out_or_completes, "N2001 G096 G097")
{
    struct flag flag;
    EXPECT_EQ(run_with(1, wait_with_deadlines, NULL), 0);
    EXPECT_EQ(run_with(2, wait_with_deadlines, NULL), 0);
    flag_init(&flag);
    EXPECT_EQ(kin__wait_until(&flag_waitable, &flag, NULL, kin_after(1), 0), KIN_NOTASK);
    EXPECT_EQ(kin__wait_until(&flag_waitable, &flag, NULL, KIN_NEVER, 0), KIN_NOTASK);
}

#ifdef KIN_DEBUG
KIN_TEST(every_wait_works_when_it_must_park, "N2001")
{
    EXPECT_EQ(setenv("KIN_HARD", "park", 1), 0);
    EXPECT_EQ(run_with(1, wait_with_deadlines, NULL), 0);
    EXPECT_EQ(run_with(2, sleep_in_the_past, NULL), 0);
    EXPECT_EQ(run_with(2, sleep_some, NULL), 0);
}
#endif

struct race {
    struct flag flag;
    kin_time deadline;
    int rc;
};

static int wait_in_race(void *arg)
{
    struct race *race = arg;
    race->rc = kin__wait_until(&flag_waitable, &race->flag, NULL, race->deadline, 0);
    if (race->rc == KIN_TIMEOUT)
        EXPECT_GE(kin_now(), race->deadline);
    return 0;
}

static int set_in_race(void *arg)
{
    struct race *race = arg;
    /* until about when the tick of the deadline ends */
    while (kin_now() < race->deadline + (INT64_C(1) << KIN__WHEEL_SHIFT) * 3 / 4)
        EXPECT_EQ(kin_checkpoint(), 0);
    flag_set(&race->flag, 5);
    return 0;
}

/* Completion and deadline at the same moment: one of them, and nothing stays behind. */
static int race_them(void *arg)
{
    const int rounds = 200 / (int)kin_test_scale() + 1;
    unsigned *ends = arg;
    for (int i = 0; i < rounds; i++) {
        struct race race = {.deadline = kin_after(KIN_US(60))};
        flag_init(&race.flag);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, wait_in_race, &race), 0);
        EXPECT_EQ(kin_spawn(&n, set_in_race, &race), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT(race.rc == 5 || race.rc == KIN_TIMEOUT);
        EXPECT(kin__list_is_empty(&race.flag.waiters));
        ends[race.rc == 5]++;
    }
    struct kin_stats stats;
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.timers, 0);
    return 0;
}

KIN_TEST(a_deadline_and_a_completion_at_once_end_the_wait_once, "F4 G098")
{
    unsigned ends[2] = {0, 0};
    EXPECT_EQ(run_with(2, race_them, ends), 0);
    printf("%u timed out, %u completed\n", ends[0], ends[1]);
}

/* ---- many ---- */

static int sleep_a_little(void *arg)
{
    atomic_uint *done = arg;
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(500))), 0);
    atomic_fetch_add(done, 1);
    return 0;
}

static int sleep_in_thousands(void *arg)
{
    const unsigned many = 4000 / kin_test_scale();
    atomic_uint *done = arg;
    struct kin_stats stats;
    KIN_NURSERY(n);
    for (unsigned i = 0; i < many; i++)
        EXPECT_EQ(kin_spawn(&n, sleep_a_little, done), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(done), many);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.timers, 0);
    return 0;
}

KIN_TEST(thousands_of_sleepers_all_wake, "F4 T056")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        atomic_uint done = 0;
        EXPECT_EQ(run_with(workers, sleep_in_thousands, &done), 0);
    }
}

/* ---- workers that cannot look after their timers ---- */

struct stuck {
    int pipe[2];
    atomic_uint woken;
    atomic_bool is_over;
};

static int sleep_then_write(void *arg)
{
    struct stuck *stuck = arg;
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(30))), 0);
    atomic_fetch_add(&stuck->woken, 1);
    EXPECT_EQ(write(stuck->pipe[1], "x", 1), 1);
    return 0;
}

/* The only worker parks a sleeper, then blocks in a system call that only the sleeper ends. */
static int block_until_a_sleeper_writes(void *arg)
{
    struct stuck *stuck = arg;
    char byte;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, sleep_then_write, stuck), 0);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(read(stuck->pipe[0], &byte, 1), 1);
    EXPECT_EQ(stuck->woken, 1);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(timers_of_a_blocked_worker_fire_all_the_same, "C7 WK:6.2")
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct stuck stuck = {0};
        EXPECT_EQ(pipe(stuck.pipe), 0);
        EXPECT_EQ(run_with(workers, block_until_a_sleeper_writes, &stuck), 0);
        close(stuck.pipe[0]);
        close(stuck.pipe[1]);
    }
}

static int sleep_long(void *arg)
{
    struct stuck *stuck = arg;
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(120))), 0);
    stuck->is_over = true;
    return 0;
}

static int yield_until_over(void *arg)
{
    struct stuck *stuck = arg;
    while (!stuck->is_over) /* ends: when the timer of the retired worker fires */
        EXPECT_EQ(kin_yield(), 0);
    return 0;
}

/* The worker whose wheel holds the sleeper is replaced and retires before the deadline, and the one
 * that took its place never gets idle. */
static int retire_with_a_timer(void *arg)
{
    struct stuck *stuck = arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, sleep_long, stuck), 0);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_spawn(&n, yield_until_over, stuck), 0);
    EXPECT_EQ(kin_spawn(&n, yield_until_over, stuck), 0);
    usleep(40000); /* in the kernel: the others run on a replacement */
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(timers_of_a_retired_worker_fire_while_the_others_are_busy, "C7 WK:6.2")
{
    struct stuck stuck = {0};
    EXPECT_EQ(run_with(1, retire_with_a_timer, &stuck), 0);
    EXPECT(stuck.is_over);
}

static int sleep_long_then_write(void *arg)
{
    struct stuck *stuck = arg;
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(200))), 0);
    EXPECT_EQ(write(stuck->pipe[1], "x", 1), 1);
    return 0;
}

/* The worker whose wheel holds the sleeper retires, and then the one that took its place blocks in
 * a system call that only the sleeper ends. */
static int retire_and_block(void *arg)
{
    struct stuck *stuck = arg;
    struct kin_stats stats;
    char byte;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, sleep_long_then_write, stuck), 0);
    EXPECT_EQ(kin_yield(), 0);
    do { /* ends: somebody waits for the timer, so the worker is replaced */
        usleep(20000);
        EXPECT_EQ(kin_stats_get(&stats), 0);
    } while (stats.workers_replaced == 0);
    while (stats.workers > 1) { /* ends: the slice is over, so it retires */
        EXPECT_EQ(kin_yield(), 0);
        EXPECT_EQ(kin_stats_get(&stats), 0);
    }
    EXPECT_EQ(read(stuck->pipe[0], &byte, 1), 1);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(timers_of_a_retired_worker_fire_while_the_others_are_blocked, "C7 WK:6.2")
{
    struct stuck stuck = {0};
    EXPECT_EQ(pipe(stuck.pipe), 0);
    EXPECT_EQ(run_with(1, retire_and_block, &stuck), 0);
    close(stuck.pipe[0]);
    close(stuck.pipe[1]);
}

/* ---- timers that nobody waits for ---- */

static atomic_uint fired;

static void note_fired(void *object, uint64_t name)
{
    EXPECT_PTR(object, &fired);
    EXPECT_EQ(name, 77);
    atomic_fetch_add(&fired, 1);
}

/* A thread that is no worker arms a timer of the runtime. */
static void *arm_from_outside(void *arg)
{
    static struct kin__timer timer;
    kin__timer_init(&timer, KIN_NEVER);
    timer.fire = note_fired;
    timer.object = &fired;
    timer.name = 77;
    kin__timer_arm(&timer, arg, kin_after(KIN_MS(1)));
    return NULL;
}

static int await_the_timer(void *arg)
{
    pthread_t thread;
    (void)arg;
    EXPECT_EQ(pthread_create(&thread, NULL, arm_from_outside, kin__worker_self()->sched), 0);
    while (atomic_load(&fired) == 0) /* ends: or the alarm does */
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(atomic_load(&fired), 1);
    return 0;
}

KIN_TEST(a_thread_outside_may_arm_a_timer_of_a_runtime, "G068")
{
    EXPECT_EQ(run_with(1, await_the_timer, NULL), 0);
    atomic_store(&fired, 0);
    EXPECT_EQ(run_with(2, await_the_timer, NULL), 0);
}
