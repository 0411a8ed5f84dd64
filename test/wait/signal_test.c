/* SPDX-License-Identifier: MIT */
/*
 * Goal: the thread that listens comes and goes with those who need it, want of memory or threads is
 * told and leaves nothing, watchers fire once per arrival and are forgotten when they are over.
 * Method: white box: signals prepared by hand, requests that fail on purpose, watchers that count.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"
#include "plat/signal.h"
#include "sched/sched.h"
#include "wait/signal.h"

#include <kin/signal.h>

#include <string.h>
#include <unistd.h>

static void expect_default(int signo)
{
    struct sigaction now;
    EXPECT_EQ(sigaction(signo, NULL, &now), 0);
    EXPECT(now.sa_handler == SIG_DFL);
}

/* ---- the listener ---- */

static int hold_some(void *arg)
{
    struct kin__listener *one, *again, *other;
    (void)arg;
    EXPECT(!kin__signal_has_thread());
    EXPECT_EQ(kin__signal_prepare(SIGKILL, &one), -EINVAL);
    EXPECT(!kin__signal_has_thread());
    EXPECT_EQ(kin__signal_prepare(SIGUSR1, &one), 0);
    EXPECT(kin__signal_has_thread());
    EXPECT_EQ(kin__signal_prepare(SIGUSR1, &again), 0);
    EXPECT_PTR(again, one);
    EXPECT_EQ(kin__signal_prepare(SIGUSR2, &other), 0);
    EXPECT(other != one);
    return 0;
}

KIN_TEST(the_listener_comes_and_goes, "")
{
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(run_reporting(2, hold_some, NULL, NULL), 0);
        EXPECT(!kin__signal_has_thread());
        expect_default(SIGUSR1);
        expect_default(SIGUSR2);
    }
}

static int keep_it(void *arg)
{
    struct kin__listener *one;
    int status = 77;
    (void)arg;
    EXPECT_EQ(kin__signal_prepare(SIGUSR1, &one), 0);
    EXPECT(!kin__signal_waitable.try_complete(one, NULL, &status));
    EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
    while (!kin__signal_waitable.try_complete(one, NULL, &status)) /* ends: by the test's alarm */
        kin_ignore(kin_yield());
    EXPECT_EQ(status, 0);
    EXPECT(!kin__signal_waitable.try_complete(one, NULL, &status)); /* taken */
    EXPECT_STR(kin__signal_waitable.what, "signal");
    return 0;
}

KIN_TEST(what_nobody_waits_for_is_kept_once, "A9")
{
    EXPECT_EQ(run_reporting(1, keep_it, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, keep_it, NULL, NULL), 0);
}

/* ---- all of them ---- */

enum { CROWD = 8 };
static _Atomic(struct kin__task *) crowd[CROWD];

static int wait_in_the_crowd(void *arg)
{
    atomic_store((_Atomic(struct kin__task *) *)arg, kin__task_self());
    return kin_signal_wait(SIGUSR1, KIN_NEVER);
}

static bool is_parked(int i)
{
    struct kin__task *task = atomic_load(&crowd[i]);
    return task && kin__load_relaxed(&task->waiting) == kin__signal_waitable.what;
}

static int wake_the_crowd(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    for (int i = 0; i < CROWD; i++) {
        atomic_store(&crowd[i], NULL);
        EXPECT_EQ(kin_spawn(&n, wait_in_the_crowd, &crowd[i]), 0);
    }
    for (int i = 0; i < CROWD; i++) {
        while (!is_parked(i)) /* ends: by the alarm of the test at the latest */
            kin_ignore(kin_yield());
    }
    EXPECT_EQ(kill(getpid(), SIGUSR1), 0); /* one */
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_signal_wait(SIGUSR1, 0), KIN_TIMEOUT); /* and nothing is left of it */
    return 0;
}

KIN_TEST(one_signal_wakes_all_that_wait, "")
{
    run_on_few(wake_the_crowd, NULL);
}

/* ---- listeners ---- */

static _Atomic int turn; /* whose step it is */

/* Two tasks, one of which is busy when a signal arrives: it hears of it all the same. */
static int hear_later(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_signal_wait(SIGUSR1, 0), KIN_TIMEOUT);
    atomic_store(&turn, 1);
    await(&turn, 2); /* busy */
    EXPECT_EQ(kin_signal_wait(SIGUSR1, 0), 0);
    EXPECT_EQ(kin_signal_wait(SIGUSR1, 0), KIN_TIMEOUT); /* once */
    return 0;
}

static int hear_at_once(void *arg)
{
    (void)arg;
    atomic_store(&turn, 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, hear_later, NULL), 0);
    await(&turn, 1);
    EXPECT_EQ(kin_signal_wait(SIGUSR1, 0), KIN_TIMEOUT);
    for (int i = 0; i < 3; i++) { /* three of which the other one sees one */
        EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
        EXPECT_EQ(kin_signal_wait(SIGUSR1, KIN_NEVER), 0);
    }
    EXPECT_EQ(kin__signal_listeners(SIGUSR1), 2);
    atomic_store(&turn, 2);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(who_is_busy_hears_of_it_at_its_next_wait, "A9")
{
    run_on_few(hear_at_once, NULL);
}

static int wait_once(void *arg)
{
    return kin_signal_wait(SIGUSR1, *(kin_time *)arg);
}

/* The status of a wait by a task that never waited before. */
static int wait_in_a_new_task(kin_time deadline)
{
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, wait_once, &deadline), 0);
    return kin_nursery_join(&n, NULL);
}

static int take_turns(void *arg)
{
    (void)arg;
    EXPECT_EQ(wait_in_a_new_task(0), KIN_TIMEOUT);
    for (int i = 0; i < 5; i++) {
        EXPECT_EQ(kill(getpid(), SIGUSR1), 0); /* nobody waits: it is the next one's */
        EXPECT_EQ(wait_in_a_new_task(KIN_NEVER), 0);
        EXPECT_EQ(wait_in_a_new_task(0), KIN_TIMEOUT); /* and not the one's after */
    }
    return 0;
}

KIN_TEST(what_nobody_took_is_for_the_next_to_come, "")
{
    run_on_few(take_turns, NULL);
}

static int come_and_go(void *arg)
{
    (void)arg;
    for (int i = 0; i < 500; i++)
        EXPECT_EQ(wait_in_a_new_task(0), KIN_TIMEOUT);
    EXPECT_LE(kin__signal_listeners(SIGUSR1), 16);
    return 0;
}

KIN_TEST(those_that_are_over_do_not_pile_up, "")
{
    run_on_few(come_and_go, NULL);
}

enum { LISTENERS = 200 };

/* Counts arrivals until it is told to end; each is told of every one. */
static int count_arrivals(void *arg)
{
    _Atomic int *seen = arg;
    int rc;
    while ((rc = kin_signal_wait(SIGUSR1, KIN_NEVER)) == 0)
        atomic_fetch_add(seen, 1);
    return rc;
}

static int tell_many(void *arg)
{
    static _Atomic int seen[LISTENERS];
    (void)arg;
    memset((void *)seen, 0, sizeof seen);
    EXPECT_EQ(kin_signal_wait(SIGUSR1, 0), KIN_TIMEOUT);
    KIN_NURSERY(n);
    for (int i = 0; i < LISTENERS; i++)
        EXPECT_EQ(kin_spawn(&n, count_arrivals, (void *)&seen[i]), 0);
    while (kin__signal_listeners(SIGUSR1) <= LISTENERS) /* ends: by the test's alarm */
        kin_ignore(kin_yield());
    for (int round = 1; round <= 5; round++) {
        EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
        for (int i = 0; i < LISTENERS; i++)
            await(&seen[i], round);
    }
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    for (int i = 0; i < LISTENERS; i++)
        EXPECT_EQ(atomic_load(&seen[i]), 5);
    return 0;
}

KIN_TEST(each_of_many_is_told_of_each, "")
{
    run_on_few(tell_many, NULL);
}

/* ---- want ---- */

static int hold_failing(uint64_t n)
{
    struct kin__listener *one;
    kin__plat_fail_after(n, false);
    int rc = kin__signal_prepare(SIGUSR1, &one);
    kin__plat_fail_after(0, false);
    return rc;
}

static int fail_to_hold(void *arg)
{
    (void)arg;
    EXPECT_EQ(hold_failing(1), -ENOMEM);
    EXPECT_EQ(hold_failing(2), -EAGAIN); /* the thread */
    EXPECT(!kin__signal_has_thread());
    EXPECT_EQ(hold_failing(2), -EAGAIN); /* the handler */
    expect_default(SIGUSR1);
    EXPECT(kin__signal_has_thread());
    EXPECT_EQ(hold_failing(2), -ENOMEM); /* the table; it is held by now */
    EXPECT_EQ(hold_failing(2), -ENOMEM); /* the listener */
    EXPECT_EQ(kin__signal_listeners(SIGUSR1), 0);
    EXPECT_EQ(hold_failing(2), 0);
    EXPECT_EQ(kin__signal_listeners(SIGUSR1), 1);
    EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
    EXPECT_EQ(kin_signal_wait(SIGUSR1, KIN_NEVER), 0);
    return 0;
}

KIN_TEST(want_of_anything_is_told, "")
{
    EXPECT_EQ(run_reporting(1, fail_to_hold, NULL, NULL), 0);
    EXPECT(!kin__signal_has_thread());
}

/* ---- watchers ---- */

static _Atomic int fired, is_done, is_gone;

static enum kin__watched count_fires(void *object, uint64_t name)
{
    EXPECT_PTR(object, &fired);
    EXPECT_EQ(name, 42);
    atomic_fetch_add(&fired, 1);
    return atomic_exchange(&is_done, 1) ? KIN__WATCHED_BUSY : KIN__WATCHED_DONE;
}

static bool is_over(void *object, uint64_t name)
{
    (void)object, (void)name;
    return atomic_load(&is_gone);
}

static const struct kin__signal_watcher watcher = {count_fires, is_over};

static int watch_for(void *arg)
{
    uint64_t both = kin__signal_bit(SIGUSR1) | kin__signal_bit(SIGUSR2);
    (void)arg;
    atomic_store(&fired, 0);
    atomic_store(&is_done, 0);
    atomic_store(&is_gone, 0);
    EXPECT_EQ(kin__signal_watch(both, &watcher, &fired, 42), 0);
    EXPECT_EQ(kin__signal_watch(both, &watcher, &fired, 42), 0);
    EXPECT_EQ(kin__signal_watches(), 2);
    EXPECT_EQ(kill(getpid(), SIGUSR2), 0);
    await(&fired, 2);
    atomic_store(&is_done, 0);
    EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
    await(&fired, 4);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(5))), 0);
    EXPECT_EQ(atomic_load(&fired), 4); /* each once for each signal */
    atomic_store(&is_gone, 1);
    EXPECT_EQ(kin__signal_watch(both, &watcher, &fired, 42), 0);
    EXPECT_EQ(kin__signal_watches(), 1); /* those that were over are forgotten */
    return 0;
}

KIN_TEST(watchers_fire_once_for_each_arrival, "")
{
    EXPECT_EQ(run_reporting(1, watch_for, NULL, NULL), 0);
    EXPECT_EQ(kin__signal_watches(), 0);
    EXPECT_EQ(run_reporting(2, watch_for, NULL, NULL), 0);
    expect_default(SIGUSR1);
}

static int watch_failing(uint64_t n)
{
    kin__plat_fail_after(n, false);
    int rc = kin__signal_watch(kin__signal_bit(SIGUSR1), &watcher, &fired, 42);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(kin__signal_watches(), rc == 0);
    return rc;
}

static int fail_to_watch(void *arg)
{
    (void)arg;
    atomic_store(&is_gone, 0);
    EXPECT_EQ(watch_failing(1), -ENOMEM);
    EXPECT_EQ(watch_failing(2), -ENOMEM);
    EXPECT_EQ(watch_failing(3), -EAGAIN); /* the thread */
    EXPECT_EQ(watch_failing(3), -EAGAIN); /* the handler */
    EXPECT_EQ(watch_failing(3), 0);
    return 0;
}

KIN_TEST(a_watch_that_fails_is_none, "")
{
    EXPECT_EQ(run_reporting(1, fail_to_watch, NULL, NULL), 0);
    EXPECT(!kin__signal_has_thread());
}

/* A second signal counts as the same within the gap, and does what it did before after it. */
static _Atomic int passed;

static void note_passed(int signo)
{
    atomic_store(&passed, signo);
}

static int come_twice(void *arg)
{
    (void)arg;
    atomic_store(&fired, 0);
    atomic_store(&is_done, 0);
    atomic_store(&is_gone, 0);
    atomic_store(&passed, 0);
    kin__signal_set_gap(KIN_NEVER);
    uint64_t both = kin__signal_bit(SIGUSR1) | kin__signal_bit(SIGUSR2);
    EXPECT_EQ(kin__signal_watch(both, &watcher, &fired, 42), 0);
    for (int i = 1; i <= 4; i++) {
        EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
        await(&fired, i);
    }
    EXPECT_EQ(kill(getpid(), SIGUSR2), 0);
    await(&fired, 5); /* now it is done with those before, and has let none of them pass */
    EXPECT_EQ(atomic_load(&passed), 0);
    kin__signal_set_gap(0);
    EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
    while (!atomic_load(&passed)) /* ends: by the alarm of the test at the latest */
        kin_ignore(kin_sleep(kin_after(KIN_MS(1))));
    EXPECT_EQ(atomic_load(&passed), SIGUSR1);
    await(&fired, 6);
    return 0;
}

KIN_TEST(a_second_signal_within_the_gap_is_the_same, "")
{
    EXPECT(signal(SIGUSR1, note_passed) != SIG_ERR);
    EXPECT(signal(SIGUSR2, SIG_IGN) != SIG_ERR); /* it may pass, when the gap is none */
    run_on_few(come_twice, NULL);
}

/* A watcher that works when its runtime ends is waited for. */
static _Atomic int is_slow_begun, is_slow_over;

static enum kin__watched work_slowly(void *object, uint64_t name)
{
    (void)object, (void)name;
    atomic_store(&is_slow_begun, 1);
    usleep(100000);
    atomic_store(&is_slow_over, 1);
    return KIN__WATCHED_DONE;
}

static const struct kin__signal_watcher slow_watcher = {work_slowly, is_over};

static int end_meanwhile(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin__signal_watch(kin__signal_bit(SIGUSR1), &slow_watcher, NULL, 0), 0);
    EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
    await(&is_slow_begun, 1);
    return 0;
}

KIN_TEST(no_watcher_works_when_its_runtime_is_over, "")
{
    EXPECT_EQ(run_reporting(1, end_meanwhile, NULL, NULL), 0);
    EXPECT_EQ(atomic_load(&is_slow_over), 1);
}
