/* SPDX-License-Identifier: MIT */
/*
 * Goal: deadlines of nurseries, of parts of the code and of calls; the tightest wins; a
 *       cancellation that came first keeps its reason.
 * Method: black box, with deadlines that have passed, that are milliseconds away, or that never
 *         come; nothing is measured.
 */
#include "api/in_runtime.h"

#include <limits.h>

#define ENOUGH KIN_MS(20) /* for what comes before the deadline, as a rule */

/* A spawn into a nursery whose deadline may have passed on a busy machine; whether it worked. */
static bool spawn_before(kin_time deadline, struct kin_nursery *n, kin_task_fn *fn, void *arg)
{
    int rc = kin_spawn(n, fn, arg);
    EXPECT(rc == 0 || (rc == KIN_NOSCOPE && kin_now() >= deadline));
    return rc == 0;
}

/* ---- of a nursery ---- */

static int see_the_deadline(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED); /* a child sees a cancellation */
    EXPECT_EQ(kin_cancel_reason(), KIN_TIMEOUT);    /* and may ask why */
    return KIN_CANCELLED;
}

static int miss_a_deadline(void *arg)
{
    _Atomic int started = 0;
    struct kin_outcome how;
    kin_time deadline = kin_after(ENOUGH);
    KIN_NURSERY(n, .deadline = deadline);
    (void)arg;
    (void)spawn_before(deadline, &n, see_the_deadline, &started);
    (void)spawn_before(deadline, &n, see_the_deadline, &started);
    EXPECT_EQ(kin_nursery_join(&n, &how), KIN_TIMEOUT);
    EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
    EXPECT_EQ(how.status, KIN_TIMEOUT);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CANCELLED);
    EXPECT(!kin_cancelled()); /* the owner goes on */
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(10))), 0);
    return 0;
}

KIN_TEST(a_deadline_cancels_the_nursery_and_its_join_says_timeout, "N2001 NSM:4.1")
{
    run_on_few(miss_a_deadline, NULL);
}

static int keep_a_deadline(void *arg)
{
    int one = 1;
    (void)arg;
    for (int i = 0; i < 200; i++) {
        KIN_NURSERY(n, .deadline = kin_after(KIN_SEC(60)));
        EXPECT_EQ(kin_spawn(&n, return_it, &one), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSED);
    }
    KIN_NURSERY(never, .deadline = KIN_NEVER);
    EXPECT_EQ(kin_spawn(&never, return_it, &one), 0);
    EXPECT_EQ(kin_nursery_join(&never, NULL), 0);
    KIN_NURSERY(nearly, .deadline = KIN_NEVER - 1);
    EXPECT_EQ(kin_spawn(&nearly, return_it, &one), 0);
    EXPECT_EQ(kin_nursery_join(&nearly, NULL), 0);
    struct kin_stats stats;
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.timers, 0); /* none is left behind */
    return 0;
}

KIN_TEST(a_deadline_that_is_kept_leaves_nothing_behind, "N2001")
{
    run_on_few(keep_a_deadline, NULL);
}

static int open_too_late(void *arg)
{
    const kin_time past[] = {1, -1, INT64_MIN, kin_now()};
    (void)arg;
    for (size_t i = 0; i < sizeof past / sizeof past[0]; i++) {
        int one = 1;
        KIN_NURSERY(n, .deadline = past[i]);
        EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CANCELLED);
        EXPECT_EQ(kin_spawn(&n, return_it, &one), KIN_NOSCOPE);
        EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED); /* as in every cancelled nursery */
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_TIMEOUT);
        EXPECT(!kin_cancelled());
    }
    return 0;
}

KIN_TEST(a_nursery_whose_deadline_has_passed_is_born_cancelled, "N2001 B10")
{
    run_on_few(open_too_late, NULL);
}

/* The owner waits elsewhere: the deadline of its nursery wakes it. */
static int wait_elsewhere(void *arg)
{
    (void)arg;
    KIN_NURSERY(n, .deadline = kin_after(KIN_MS(2)));
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin_cancel_reason(), KIN_TIMEOUT);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_TIMEOUT);
    return 0;
}

KIN_TEST(a_deadline_wakes_an_owner_that_waits_elsewhere, "N2001 B12")
{
    run_on_few(wait_elsewhere, NULL);
}

/* ---- against cancellation and errors ---- */

/* One round; false: the deadline came before the cancel. */
static bool cancel_before(kin_time deadline, int reason)
{
    _Atomic int started = 0;
    KIN_NURSERY(n, .deadline = deadline);
    (void)spawn_before(deadline, &n, sleep_for_ever, &started);
    kin_nursery_cancel(&n, reason);
    bool is_early = kin_now() < deadline;
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    kin_mask();
    EXPECT_EQ(kin_sleep(deadline + KIN_MS(2)), 0); /* the deadline passes meanwhile */
    kin_unmask();
    int rc = kin_nursery_join(&n, NULL);
    EXPECT(rc == reason || (!is_early && rc == KIN_TIMEOUT));
    return is_early;
}

static int cancel_before_the_deadline(void *arg)
{
    int64_t ms = 2;
    (void)arg;
    for (int i = 0; i < 4; i++) {
        while (!cancel_before(kin_after(KIN_MS(ms)), i % 2 ? KIN_CANCELLED : -EPIPE))
            ms *= 2; /* ends: some deadline is far enough to be early for */
    }
    return 0;
}

KIN_TEST(a_cancel_before_the_deadline_reports_cancelled_and_not_timeout, "N2001 NSM:4.4")
{
    run_on_few(cancel_before_the_deadline, NULL);
}

static int open_in_a_cancelled_task(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    KIN_NURSERY(n, .deadline = 1);
    EXPECT_EQ(kin_cancel_reason(), -EPIPE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED); /* which came before the deadline did */
    return KIN_CANCELLED;
}

static int cancel_then_open_late(void *arg)
{
    _Atomic int started = 0;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, open_in_a_cancelled_task, &started), 0);
    await(&started, 1);
    kin_nursery_cancel(&n, -EPIPE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    return 0;
}

KIN_TEST(a_nursery_opened_late_in_a_cancelled_task_is_cancelled_from_outside, "E1 B12 NSM:6.2")
{
    run_on_few(cancel_then_open_late, NULL);
}

static int fail_when_cancelled(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    return -EIO;
}

static int fail_after_the_deadline(void *arg)
{
    _Atomic int started = 0;
    (void)arg;
    for (int64_t ms = 2; !atomic_load(&started); ms *= 2) { /* ends: the child begins before one */
        struct kin_outcome how;
        kin_time deadline = kin_after(KIN_MS(ms));
        KIN_NURSERY(n, .deadline = deadline);
        (void)spawn_before(deadline, &n, fail_when_cancelled, &started);
        int rc = kin_nursery_join(&n, &how);
        if (atomic_load(&started)) {
            EXPECT_EQ(rc, -EIO); /* an error wins in either order */
            EXPECT_EQ(how.severity, KIN_SEV_ERROR);
        }
    }
    return 0;
}

KIN_TEST(an_error_after_the_deadline_wins, "NSM:4.4 B4")
{
    run_on_few(fail_after_the_deadline, NULL);
}

/* ---- of a part of the code ---- */

static int push_and_pop(void *arg)
{
    (void)arg;
    kin_time far = kin_after(KIN_SEC(60)), near = kin_after(KIN_MS(1));
    EXPECT_EQ(kin_deadline_push(far), KIN_NEVER);
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(10))), 0);
    EXPECT_EQ(kin_deadline_push(near), far);
    EXPECT_EQ(kin_deadline_push(far), near); /* it only gets tighter */
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_TIMEOUT);
    EXPECT_EQ(kin_sleep(kin_after(KIN_SEC(1))), KIN_TIMEOUT); /* and stays so */
    EXPECT_EQ(kin_sleep(kin_now()), 0); /* what can be done at once is done */
    EXPECT(!kin_cancelled());
    kin_deadline_pop(near);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_TIMEOUT);
    kin_deadline_pop(far);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
    kin_deadline_pop(KIN_NEVER);
    EXPECT_EQ(kin_deadline_push(0), KIN_NEVER);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_TIMEOUT);
    kin_deadline_pop(KIN_NEVER);
    return 0;
}

KIN_TEST(a_pushed_deadline_ends_waits_and_only_gets_tighter, "N2001")
{
    run_on_few(push_and_pop, NULL);
}

static int within(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        KIN_WITHIN(KIN_SEC(60));
        {
            KIN_WITHIN(KIN_MS(1));
            KIN_WITHIN(KIN_SEC(60)); /* two in one scope, and a looser one */
            EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_TIMEOUT);
        }
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(10))), 0);
        if (i == 1)
            continue; /* every way out of the scope ends it */
    }
    kin_time before = kin_deadline_push(KIN_NEVER);
    EXPECT_EQ(before, KIN_NEVER);
    return 0;
}

KIN_TEST(within_holds_to_the_end_of_its_scope, "N2001")
{
    run_on_few(within, NULL);
}

static int pushed_outside(void *arg)
{
    int one = 1;
    (void)arg;
    kin_time deadline = kin_after(ENOUGH);
    KIN_WITHIN(ENOUGH);
    KIN_NURSERY(n, .deadline = kin_after(KIN_SEC(60))); /* the tighter one is the pushed one */
    _Atomic int started = 0;
    (void)spawn_before(deadline, &n, see_the_deadline, &started);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_TIMEOUT);
    KIN_NURSERY(late);
    EXPECT_EQ(kin_spawn(&late, return_it, &one), KIN_NOSCOPE); /* it has passed by now */
    EXPECT_EQ(kin_nursery_join(&late, NULL), KIN_TIMEOUT);
    return 0;
}

static int pushed_inside(void *arg)
{
    _Atomic int started = 0;
    (void)arg;
    KIN_WITHIN(KIN_SEC(60));
    kin_time deadline = kin_after(ENOUGH);
    KIN_NURSERY(n, .deadline = deadline);
    (void)spawn_before(deadline, &n, see_the_deadline, &started);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_TIMEOUT);
    return 0;
}

static int sleep_a_little(void *arg)
{
    (void)arg;
    return kin_sleep(kin_after(KIN_MS(3)));
}

static int pushed_afterwards(void *arg)
{
    struct kin_task_ref task;
    struct kin_outcome how;
    struct kin_nursery n;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    {
        KIN_WITHIN(KIN_US(1));
        /* neither the nursery, which is older, nor its children hear of it; the join does */
        EXPECT_EQ(kin_spawn_with(&n, NULL, sleep_a_little, NULL, 0, &task), 0);
    }
    EXPECT_EQ(kin_task_join(&n, task, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_OK);
    {
        KIN_WITHIN(KIN_US(1));
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0); /* nobody is left that it could wait for */
    }
    return 0;
}

KIN_TEST(a_nursery_takes_a_pushed_deadline_that_is_tighter, "N2001")
{
    run_on_few(pushed_outside, NULL);
    run_on_few(pushed_inside, NULL);
    run_on_few(pushed_afterwards, NULL);
}

static int do_not_inherit(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_deadline_push(KIN_NEVER), KIN_NEVER);
    return kin_sleep(kin_after(KIN_MS(1)));
}

static int push_and_spawn(void *arg)
{
    struct kin_nursery n;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    kin_time before = kin_deadline_push(0);
    EXPECT_EQ(kin_spawn(&n, do_not_inherit, NULL), 0);
    kin_deadline_pop(before);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_pushed_deadline_is_its_task_s_own, "N2001")
{
    run_on_few(push_and_spawn, NULL);
}

/* Cancelled and too late at once: the cancellation is what is told. */
static int cancelled_and_late(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    KIN_WITHIN(-1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    kin_mask();
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_TIMEOUT); /* a mask does not hold deadlines back */
    kin_unmask();
    return KIN_CANCELLED;
}

static int cancel_a_late_one(void *arg)
{
    _Atomic int started = 0;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, cancelled_and_late, &started), 0);
    await(&started, 1);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_cancellation_goes_before_a_deadline_and_a_mask_holds_no_deadline_back, "B12 N2001")
{
    run_on_few(cancel_a_late_one, NULL);
}

/* A loop that never waits still hears of the deadline. */
static int compute(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_checkpoint(), 0);
    KIN_WITHIN(KIN_MS(1));
    int rc;
    do
        rc = kin_checkpoint();
    while (rc == 0);
    EXPECT_EQ(rc, KIN_TIMEOUT);
    EXPECT_EQ(kin_yield(), 0); /* a yield is no wait */
    return 0;
}

KIN_TEST(a_checkpoint_reports_a_pushed_deadline, "N2001 SCHED:4.1.1")
{
    run_on_few(compute, NULL);
}

/* ---- outside, and many ---- */

KIN_TEST(outside_a_task_nothing_is_pushed, "")
{
    EXPECT_EQ(kin_deadline_push(5), KIN_NEVER);
    kin_deadline_pop(7);
    KIN_WITHIN(KIN_MS(1));
    EXPECT_EQ(kin_deadline_push(5), KIN_NEVER);
}

enum { MANY = 300 };

static int have_a_nursery_with_a_deadline(void *arg)
{
    _Atomic int started = 0;
    KIN_NURSERY(n, .deadline = *(kin_time *)arg);
    int rc = kin_spawn(&n, sleep_for_ever, &started);
    EXPECT(rc == 0 || rc == KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_TIMEOUT);
    return 0;
}

static int share_a_deadline(void *arg)
{
    kin_time deadline = kin_after(KIN_MS(5));
    KIN_NURSERY(n);
    (void)arg;
    for (int i = 0; i < MANY; i++)
        EXPECT_EQ(kin_spawn(&n, have_a_nursery_with_a_deadline, &deadline), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(of_many_equal_deadlines_each_comes, "N2001")
{
    run_on_few(share_a_deadline, NULL);
}

/* Deadlines that come at the very moment of the join, in blocks that are used again at once: a late
 * one must never hit the next nursery. */
static int race_with_the_join(void *arg)
{
    uint64_t random = kin_test_seed() + (uint64_t)(uintptr_t)arg;
    const int rounds = 400 / (int)kin_test_scale();
    int one = 1;
    for (int i = 0; i < rounds; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        KIN_NURSERY(n, .deadline = kin_after((int64_t)(random >> 33) % 200000));
        if (random >> 62)
            kin_ignore(kin_spawn(&n, sleep_a_little, NULL));
        else
            kin_ignore(kin_yield());
        int rc = kin_nursery_join(&n, NULL);
        EXPECT(rc == 0 || rc == KIN_TIMEOUT);
        KIN_NURSERY(next);
        EXPECT_EQ(kin_spawn(&next, return_it, &one), 0);
        kin_ignore(kin_yield());
        EXPECT_EQ(kin_nursery_state(&next), KIN_NURSERY_OPEN);
        EXPECT_EQ(kin_nursery_join(&next, NULL), 0);
        EXPECT(!kin_cancelled());
    }
    return 0;
}

static int race_side_by_side(void *arg)
{
    KIN_NURSERY(n);
    (void)arg;
    for (uintptr_t i = 0; i < 8; i++)
        EXPECT_EQ(kin_spawn(&n, race_with_the_join, (void *)i), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_deadline_that_comes_late_never_hits_the_next_nursery, "N2001 ABA:8.3 NSM:2.4")
{
    printf("seed %llu\n", (unsigned long long)kin_test_seed());
    run_on_few(race_side_by_side, NULL);
}

/* ---- of a join ---- */

static int within_a_join(void *arg)
{
    _Atomic int started = 0;
    struct kin_outcome how;
    (void)arg;
    KIN_NURSERY(n); /* before: the deadline is not its own */
    EXPECT_EQ(kin_spawn(&n, see_the_deadline, &started), 0);
    await(&started, 1);
    {
        KIN_WITHIN(KIN_MS(1));
        EXPECT_EQ(kin_nursery_join(&n, &how), KIN_TIMEOUT);
    }
    EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
    EXPECT(!kin_cancelled());
    return 0;
}

static int within_an_end(void *arg)
{
    _Atomic int started = 0;
    (void)arg;
    KIN_NURSERY(n, .deadline = kin_after(KIN_SEC(600)));
    EXPECT_EQ(kin_spawn(&n, see_the_deadline, &started), 0);
    await(&started, 1);
    KIN_WITHIN(KIN_MS(1));
    EXPECT_EQ(kin_nursery_end(&n, 0), KIN_TIMEOUT);
    return 0;
}

KIN_TEST(a_pushed_deadline_bounds_a_join, "N2001 NSM-2")
{
    run_on_few(within_a_join, NULL);
    run_on_few(within_an_end, NULL);
}

static int drain_slow_ones(void *arg)
{
    _Atomic int started = 0;
    struct kin_outcome how;
    struct kin_nursery n;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, see_the_deadline, &started), 0);
    await(&started, 1);
    EXPECT_EQ(kin_nursery_join_until(&n, kin_after(KIN_MS(1)), &how), KIN_TIMEOUT);
    EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CANCELLED);
    EXPECT_EQ(kin_nursery_join_until(&n, KIN_NEVER, NULL), KIN_STALE);
    /* a deadline that has passed, and none at all */
    for (kin_time deadline = 0; deadline <= 1; deadline++) {
        atomic_store(&started, 0);
        EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
        EXPECT_EQ(kin_spawn(&n, see_the_deadline, &started), 0);
        await(&started, 1);
        EXPECT_EQ(kin_nursery_join_until(&n, deadline, NULL), KIN_TIMEOUT);
    }
    /* a tighter one of the nursery itself stays */
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    options.deadline = kin_after(KIN_MS(1));
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    (void)spawn_before(options.deadline, &n, sleep_for_ever, NULL);
    EXPECT_EQ(kin_nursery_join_until(&n, kin_after(KIN_SEC(600)), NULL), KIN_TIMEOUT);
    return 0;
}

KIN_TEST(a_drain_cancels_what_is_left_at_its_deadline, "N2001 NSM:5.1")
{
    run_on_few(drain_slow_ones, NULL);
}

static int drain_in_time(void *arg)
{
    _Atomic int started = 0;
    int one = 1;
    struct kin_nursery n;
    (void)arg;
    /* everybody is over: it does not matter when the deadline was */
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_nursery_join_until(&n, 0, NULL), 0);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSED);
    /* they finish before it */
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, return_it, &one), 0);
    EXPECT_EQ(kin_nursery_join_until(&n, kin_after(KIN_SEC(600)), NULL), 0);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSED);
    /* a failure counts for more than the deadline */
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, fail_when_cancelled, &started), 0);
    await(&started, 1);
    EXPECT_EQ(kin_nursery_join_until(&n, kin_after(KIN_MS(1)), NULL), -EIO);
    return 0;
}

KIN_TEST(a_drain_that_is_done_in_time_cancels_nobody, "NSM:5.1 NSM:4.4")
{
    run_on_few(drain_in_time, NULL);
}
