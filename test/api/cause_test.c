/* SPDX-License-Identifier: MIT */
/*
 * Goal: no failure of a child is lost, whatever way out of its nursery the parent takes: by
 *       kin_nursery_end, by a join whose answer it drops, by return without a join, by kin_fail.
 * Method: black box. A child fails, the parent goes on until a call answers with an echo of that,
 *         and the end of the parent's task is compared with what the child failed with.
 */
#include "api/in_runtime.h"

enum { CAUSE = -ENOENT, OWN = -EPIPE };

static int fail(void *arg)
{
    (void)arg;
    return CAUSE;
}

/* Waits until a child of n has failed, seen by what the runtime says to n's owner. */
static void await_failure(struct kin_nursery *n)
{
    while (kin_nursery_state(n) == KIN_NURSERY_OPEN) /* ends: by the alarm of the test */
        kin_ignore(kin_yield());
}

/* Spawns a child that fails, and another one after that, which the nursery refuses. */
static int spawn_until_refused(struct kin_nursery *n)
{
    int rc = kin_spawn(n, fail, NULL);
    EXPECT_EQ(rc, 0);
    await_failure(n);
    return kin_spawn(n, fail, NULL);
}

/* A child that takes one number and fails; its parent sends until a send is ended by that. */
static int take_and_fail(void *arg)
{
    int number, rc = kin_chan_recv(arg, &number, KIN_NEVER);
    return rc < 0 ? rc : CAUSE;
}

static int send_until_refused(struct kin_nursery *n)
{
    struct kin_chan *chan;
    int rc = kin_chan_create(&chan, sizeof(int), 0);
    EXPECT_EQ(rc, 0);
    rc = kin_spawn(n, take_and_fail, chan);
    for (int i = 0; rc == 0; i++) /* ends: nobody takes a second one */
        rc = kin_chan_send(chan, &i, KIN_NEVER);
    while (kin_nursery_state(n) != KIN_NURSERY_CANCELLED) /* ends: the child is over soon */
        kin_ignore(kin_yield());
    kin_chan_unref(chan);
    return rc;
}

/* ---- kin_nursery_end ---- */

static int end_after_spawns(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    int rc = spawn_until_refused(&n);
    EXPECT_EQ(rc, KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_end(&n, rc), CAUSE);
    return 0;
}

static int end_after_sends(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    int rc = send_until_refused(&n);
    EXPECT_EQ(rc, KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_end(&n, rc), CAUSE);
    return 0;
}

KIN_TEST(end_returns_the_cause_and_not_its_echo, "NSM:8.1 NSM:4.4")
{
    run_on_few(end_after_spawns, NULL);
    run_on_few(end_after_sends, NULL);
}

static int succeed(void *arg)
{
    (void)arg;
    return 3;
}

static int end_in_all_ways(void *arg)
{
    _Atomic int started = 0;
    struct kin_nursery n;
    (void)arg;
    /* all is well */
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, succeed, NULL), 0);
    EXPECT_EQ(kin_nursery_end(&n, 0), 0);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSED);
    /* the body has failed: the children are cancelled */
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, sleep_for_ever, &started), 0);
    EXPECT_EQ(kin_nursery_end(&n, OWN), OWN);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CANCELLED);
    /* both have */
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, fail, NULL), 0);
    await_failure(&n);
    EXPECT_EQ(kin_nursery_end(&n, OWN), CAUSE);
    /* only an echo, of nothing */
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_nursery_end(&n, KIN_CLOSED), KIN_CLOSED);
    /* its own deadline has ended the body's wait */
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    kin_nursery_cancel(&n, KIN_TIMEOUT);
    EXPECT_EQ(kin_nursery_end(&n, KIN_CANCELLED), KIN_TIMEOUT);
    /* a second time, and for nothing */
    EXPECT_EQ(kin_nursery_end(&n, 0), KIN_STALE);
    EXPECT_EQ(kin_nursery_end(&n, OWN), OWN);
    EXPECT_EQ(kin_nursery_end(NULL, 0), -EINVAL);
    EXPECT_EQ(kin_nursery_end(NULL, OWN), OWN);
    return 0;
}

KIN_TEST(end_cancels_joins_and_says_what_failed_first, "NSM:4.4 NSM-2")
{
    run_on_few(end_in_all_ways, NULL);
    struct kin_nursery n;
    memset(&n, 0, sizeof n);
    EXPECT_EQ(kin_nursery_end(&n, 0), KIN_NOTASK);
    EXPECT_EQ(kin_nursery_end(&n, OWN), OWN);
}

static int open_what_cannot_be(void *arg)
{
    (void)arg;
    KIN_NURSERY(n, .on_error = (enum kin_on_error)99);
    int rc = kin_spawn(&n, succeed, NULL);
    EXPECT_EQ(rc, KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_end(&n, rc), -EINVAL);
    return 0;
}

KIN_TEST(end_says_why_the_open_failed, "NSM:2.2")
{
    run_on_few(open_what_cannot_be, NULL);
}

/* ---- shapes that drop what the join says ---- */

static int return_the_refusal(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    int rc = spawn_until_refused(&n);
    int joined = kin_nursery_join(&n, NULL);
    return rc < 0 ? rc : joined;
}

static int return_the_cancellation(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    int rc = send_until_refused(&n);
    int joined = kin_nursery_join(&n, NULL);
    return rc < 0 ? rc : joined;
}

static int return_after_the_deadline(void *arg)
{
    (void)arg;
    KIN_NURSERY(n, .deadline = kin_after(KIN_MS(1)));
    int rc = kin_sleep(KIN_NEVER);
    int joined = kin_nursery_join(&n, NULL);
    return rc < 0 ? rc : joined;
}

static int fail_with_the_cancellation(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    int rc = send_until_refused(&n);
    kin_ignore(kin_nursery_join(&n, NULL));
    kin_fail(rc, "the send has failed");
}

KIN_TEST(a_task_that_returns_an_echo_ends_with_the_cause, "NSM:8.1 B5")
{
    EXPECT_EQ(run_reporting(2, return_the_refusal, NULL, NULL), CAUSE);
    EXPECT_EQ(run_reporting(2, return_the_cancellation, NULL, NULL), CAUSE);
    EXPECT_EQ(run_reporting(2, return_after_the_deadline, NULL, NULL), KIN_TIMEOUT);
    EXPECT_EQ(run_reporting(2, fail_with_the_cancellation, NULL, NULL), CAUSE);
}

/* What comes later, and has to do with other nurseries, is no echo. */

static int be_refused_elsewhere(void *arg)
{
    struct kin_nursery failed, closed;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&failed, NULL), 0);
    EXPECT_EQ(kin_spawn(&failed, fail, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&failed, NULL), CAUSE);
    memset(&closed, 0, sizeof closed);
    return kin_spawn(&closed, succeed, NULL);
}

static int cancel_the_next(void *arg)
{
    struct kin_nursery n;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, fail, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), CAUSE);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    kin_nursery_cancel(&n, 0);
    return kin_nursery_end(&n, kin_sleep(KIN_NEVER));
}

static int go_on_and_succeed(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, fail, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), CAUSE);
    return 5;
}

static int go_on_and_be_cancelled(void *arg)
{
    _Atomic int *joined = arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, fail, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), CAUSE);
    atomic_store(joined, 1);
    return kin_sleep(KIN_NEVER);
}

static int cancel_one_that_went_on(void *arg)
{
    _Atomic int joined = 0;
    struct kin_task_ref task;
    struct kin_outcome how;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, NULL, go_on_and_be_cancelled, &joined, 0, &task), 0);
    await(&joined, 1);
    EXPECT_EQ(kin_task_cancel(task), 0);
    EXPECT_EQ(kin_task_join(&n, task, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
    EXPECT_EQ(how.status, KIN_CANCELLED);
    return kin_nursery_end(&n, 0);
}

KIN_TEST(a_failure_that_was_joined_is_not_blamed_for_what_comes_later, "B5")
{
    EXPECT_EQ(run_reporting(2, be_refused_elsewhere, NULL, NULL), KIN_NOSCOPE);
    EXPECT_EQ(run_reporting(2, cancel_the_next, NULL, NULL), KIN_CANCELLED);
    EXPECT_EQ(run_reporting(2, go_on_and_succeed, NULL, NULL), 5);
    run_on_few(cancel_one_that_went_on, NULL);
}

/* ---- leaving without a join ---- */

static int leave_after_spawns(void *arg)
{
    (void)arg;
    KIN_NURSERY(n, .name = "parts");
    return spawn_until_refused(&n);
}

static int leave_with_success(void *arg)
{
    (void)arg;
    KIN_NURSERY(n, .name = "parts");
    EXPECT_EQ(kin_spawn(&n, fail, NULL), 0);
    await_failure(&n);
    return 1;
}

static int leave_with_another_failure(void *arg)
{
    (void)arg;
    KIN_NURSERY(n, .name = "parts");
    EXPECT_EQ(kin_spawn(&n, fail, NULL), 0);
    await_failure(&n);
    return OWN;
}

static int leave_by_fail(void *arg)
{
    (void)arg;
    KIN_NURSERY(n, .name = "parts");
    kin_fail(spawn_until_refused(&n), "cannot go on");
}

static int leave_by_another_fail(void *arg)
{
    (void)arg;
    KIN_NURSERY(n, .name = "parts");
    EXPECT_EQ(kin_spawn(&n, fail, NULL), 0);
    await_failure(&n);
    kin_fail(OWN, NULL); /* for a reason of its own, and without words */
}

static void hold_nothing(void *arg)
{
    (void)arg;
}

static int leave_with_a_cleanup(void *arg)
{
    EXPECT_EQ(kin_defer(hold_nothing, arg), 0); /* such a task ends on another way */
    return leave_with_success(arg);
}

/* Runs a body that leaves a nursery in which a child has failed: one report, and this end. */
static void expect_left(kin_task_fn *fn, int status)
{
    static struct reports reports;
    memset(&reports, 0, sizeof reports);
    EXPECT_EQ(run_reporting(2, fn, NULL, &reports), status);
    EXPECT_EQ(atomic_load(&reports.count), 1);
    EXPECT_EQ(reports.status[0], CAUSE);
    EXPECT(strstr(reports.text[0], "(main)") != NULL);
    EXPECT(strstr(reports.text[0], "the nursery parts, opened at ") != NULL);
    EXPECT(strstr(reports.text[0], "had failed with ENOENT") != NULL);
    EXPECT(strstr(reports.text[0], "kin_nursery_end") != NULL);
}

KIN_TEST(a_nursery_that_is_left_with_a_failure_is_reported_and_fails_the_task, "NSM:8.1 B2")
{
    expect_left(leave_after_spawns, CAUSE);
    expect_left(leave_with_success, CAUSE);
    expect_left(leave_with_another_failure, OWN);
    expect_left(leave_by_fail, CAUSE);
    expect_left(leave_by_another_fail, OWN);
    expect_left(leave_with_a_cleanup, CAUSE);
}

static int fail_when_cancelled(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    return CAUSE;
}

static int leave_one_that_fails_then(void *arg)
{
    _Atomic int started = 0;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, fail_when_cancelled, &started), 0);
    await(&started, 1);
    return 4;
}

KIN_TEST(a_failure_that_comes_of_leaving_is_reported_and_fails_nobody, "NSM:8.1 B2")
{
    static struct reports reports;
    memset(&reports, 0, sizeof reports);
    EXPECT_EQ(run_reporting(2, leave_one_that_fails_then, NULL, &reports), 4);
    EXPECT_EQ(atomic_load(&reports.count), 1);
    EXPECT_EQ(reports.status[0], CAUSE);
    EXPECT(strstr(reports.text[0], "was cancelled by that and failed with ENOENT") != NULL);
}

static int leave_sleepers(void *arg)
{
    _Atomic int started = 0;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, sleep_for_ever, &started), 0);
    EXPECT_EQ(kin_spawn(&n, succeed, NULL), 0);
    await(&started, 1);
    return 4;
}

KIN_TEST(a_nursery_that_is_left_without_a_failure_is_nobodys_business, "B2")
{
    static struct reports reports;
    memset(&reports, 0, sizeof reports);
    EXPECT_EQ(run_reporting(2, leave_sleepers, NULL, &reports), 4);
    EXPECT_EQ(atomic_load(&reports.count), 0);
}

/* ---- what is cancelled from outside ---- */

struct nest {
    _Atomic int started;
    int reason; /* what those inside are told */
    struct kin_outcome inner;
};

static int sleep_and_ask_why(void *arg)
{
    struct nest *nest = arg;
    atomic_fetch_add(&nest->started, 1);
    int rc = kin_sleep(KIN_NEVER);
    EXPECT_EQ(kin_cancel_reason(), nest->reason);
    return rc;
}

/* A bystander: whatever happens to it comes from outside. */
static int stand_by(void *arg)
{
    struct nest *nest = arg;
    KIN_NURSERY(n);
    int rc = kin_spawn(&n, sleep_and_ask_why, nest);
    EXPECT(rc == 0 || rc == KIN_NOSCOPE);
    rc = kin_nursery_join(&n, &nest->inner);
    EXPECT_EQ(rc, KIN_CANCELLED);
    EXPECT_EQ(nest->inner.severity, KIN_SEV_CANCELLED);
    EXPECT_EQ(nest->inner.status, KIN_CANCELLED);
    EXPECT_EQ(kin_cancel_reason(), nest->reason);
    return rc;
}

static int cancel_from_outside(void *arg)
{
    struct nest nest = {.reason = *(int *)arg};
    struct kin_nursery n;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, stand_by, &nest), 0);
    await(&nest.started, 1);
    kin_nursery_cancel(&n, nest.reason);
    EXPECT_EQ(kin_nursery_join(&n, NULL), nest.reason);
    EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), 0);
    return 0;
}

KIN_TEST(the_join_of_what_was_cancelled_from_outside_is_cancelled, "E1 B4 NSM:4.4")
{
    static int reasons[] = {KIN_CANCELLED, KIN_TIMEOUT, -EIO, KIN_STOPPING};
    for (size_t i = 0; i < 4; i++)
        run_on_few(cancel_from_outside, &reasons[i]);
}

/* A nursery that is opened when its owner was asked already is born cancelled. */
static int open_late(void *arg)
{
    struct nest *nest = arg;
    atomic_fetch_add(&nest->started, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin_cancel_reason(), nest->reason);
    KIN_NURSERY(n);
    int rc = kin_spawn(&n, succeed, NULL);
    EXPECT_EQ(rc, KIN_NOSCOPE);
    return kin_nursery_end(&n, rc);
}

/* Under a mask the nursery is out of reach until the mask goes. */
static int unmask_late(void *arg)
{
    struct nest *nest = arg;
    atomic_fetch_add(&nest->started, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    kin_mask();
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, sleep_for_ever, NULL), 0);
    kin_unmask();
    return kin_nursery_end(&n, 0);
}

static int one_of_two(void *arg)
{
    struct nest *nest = arg;
    struct kin_branch branches[2] = {{.fn = sleep_and_ask_why, .arg = nest},
                                     {.fn = sleep_and_ask_why, .arg = nest}};
    EXPECT_EQ(kin_all(branches, 2), KIN_CANCELLED);
    return KIN_CANCELLED;
}

static int fail_beside(void *arg)
{
    struct nest nest = {.reason = CAUSE};
    struct kin_nursery n;
    struct kin_outcome how[4];
    kin_task_fn **bystander = arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, *bystander, &nest), 0);
    await(&nest.started, 1);
    EXPECT_EQ(kin_spawn(&n, fail, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), CAUSE);
    EXPECT_EQ(kin_nursery_errors(&n, how, 4), 1); /* the bystander is none */
    EXPECT_EQ(how[0].status, CAUSE);
    return 0;
}

KIN_TEST(a_bystander_of_a_failure_is_no_failure, "E1 B4 NSM:8.1")
{
    static kin_task_fn *const bystanders[] = {stand_by, open_late, unmask_late, one_of_two};
    for (size_t i = 0; i < 4; i++)
        run_on_few(fail_beside, (void *)(uintptr_t)&bystanders[i]);
}

/* An owner whose outer nursery failed: the inner one goes with it. */
static int join_both(void *arg)
{
    struct kin_nursery outer, inner;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&outer, NULL), 0);
    EXPECT_EQ(kin_nursery_open(&inner, NULL), 0);
    EXPECT_EQ(kin_spawn(&inner, sleep_for_ever, NULL), 0);
    EXPECT_EQ(kin_spawn(&outer, fail, NULL), 0);
    int rc = kin_nursery_join(&inner, NULL);
    EXPECT_EQ(rc, KIN_CANCELLED);
    return kin_nursery_end(&outer, rc);
}

KIN_TEST(an_inner_nursery_that_goes_with_an_outer_one_is_cancelled, "E1 NSM-4")
{
    EXPECT_EQ(run_reporting(1, join_both, NULL, NULL), CAUSE);
    EXPECT_EQ(run_reporting(4, join_both, NULL, NULL), CAUSE);
}
