/* SPDX-License-Identifier: MIT */
/*
 * Goal: a mask holds a cancellation back, from the waits of its task and from the nurseries opened
 *       under it, until it is taken away or the grace is over; then the task is reported.
 * Method: black box: tasks that mask themselves are cancelled, with graces of a few milliseconds
 *         where the end of one is wanted; nothing is measured.
 */
#include "api/in_runtime.h"

#include <pthread.h>

#define SHORT KIN_MS(20)

/* What a masked task and the one that cancels it tell each other. */
struct scene {
    _Atomic int started;
    _Atomic int asked;
    _Atomic int seen;
    struct reports *reports;
};

/* ---- what a mask holds back ---- */

static int be_masked_a_while(void *arg)
{
    struct scene *scene = arg;
    kin_mask();
    atomic_store(&scene->started, 1);
    await(&scene->asked, 1);
    EXPECT(kin_cancelled()); /* it is known */
    EXPECT_EQ(kin_cancel_reason(), -EPIPE);
    EXPECT_EQ(kin_yield(), 0); /* and held back */
    for (int i = 0; i < 5000; i++)
        EXPECT_EQ(kin_checkpoint(), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
    kin_mask(); /* masks nest */
    kin_unmask();
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(100))), 0);
    kin_unmask();
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED); /* from here on everything reports it */
    EXPECT_EQ(kin_yield(), KIN_CANCELLED);
    EXPECT_EQ(kin_checkpoint(), KIN_CANCELLED);
    kin_mask(); /* until the next mask */
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(100))), 0);
    kin_unmask();
    return kin_sleep(KIN_NEVER);
}

static int cancel_a_masked_task(void *arg)
{
    struct scene scene = {0};
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, be_masked_a_while, &scene), 0);
    await(&scene.started, 1);
    kin_nursery_cancel(&n, -EPIPE);
    atomic_store(&scene.asked, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    return 0;
}

KIN_TEST(a_mask_holds_a_cancellation_back_until_it_is_taken_away, "B7 B12 NSM:4.3")
{
    run_on_few(cancel_a_masked_task, NULL);
}

/* A wait that is cancelled while the task is parked in it, masked: it ends by what it waits for. */
static int sleep_masked(void *arg)
{
    struct scene *scene = arg;
    kin_mask();
    atomic_store(&scene->started, 1);
    int rc = kin_sleep(kin_after(KIN_MS(10)));
    kin_unmask();
    return rc;
}

static int cancel_masked_sleepers(void *arg)
{
    struct scene scenes[20] = {{0}};
    KIN_NURSERY(n);
    (void)arg;
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(kin_spawn(&n, sleep_masked, &scenes[i]), 0);
    for (int i = 0; i < 20; i++)
        await(&scenes[i].started, 1);
    kin_nursery_cancel(&n, 0);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), 0); /* all ended well */
    return 0;
}

KIN_TEST(a_masked_wait_ends_by_what_it_waits_for, "B7 A7")
{
    run_on_few(cancel_masked_sleepers, NULL);
}

static int leave_masked(void *arg)
{
    (void)arg;
    kin_mask();
    kin_mask();
    return 0;
}

static int be_unmasked(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    return kin_sleep(KIN_NEVER);
}

static int reuse_frames(void *arg)
{
    (void)arg;
    for (int i = 0; i < 50; i++) {
        _Atomic int started = 0;
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, leave_masked, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        KIN_NURSERY(next);
        EXPECT_EQ(kin_spawn(&next, be_unmasked, &started), 0);
        await(&started, 1);
        kin_nursery_cancel(&next, 0);
        EXPECT_EQ(kin_nursery_join(&next, NULL), KIN_CANCELLED);
    }
    return 0;
}

KIN_TEST(a_mask_ends_with_its_task, "B7")
{
    run_on_few(reuse_frames, NULL);
}

/* ---- nurseries under a mask ---- */

/* Cancelled already: has others help it clean up. */
static int clean_up_together(void *arg)
{
    struct scene *scene = arg;
    _Atomic int helped = 0;
    atomic_store(&scene->started, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    kin_mask();
    {
        KIN_NURSERY(n);
        for (int i = 0; i < 10; i++)
            EXPECT_EQ(kin_spawn(&n, count_it, &helped), 0);
        EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_OPEN);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    kin_unmask();
    EXPECT_EQ(atomic_load(&helped), 10);
    KIN_NURSERY(late); /* without the mask it is as always */
    EXPECT_EQ(kin_spawn(&late, count_it, &helped), KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_join(&late, NULL), KIN_CANCELLED);
    return KIN_CANCELLED;
}

static int cancel_one_that_cleans_up(void *arg)
{
    struct scene scene = {0};
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, clean_up_together, &scene), 0);
    await(&scene.started, 1);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), 0);
    return 0;
}

KIN_TEST(a_nursery_opened_under_a_mask_works_in_a_cancelled_task, "B7 NSM:3.1")
{
    run_on_few(cancel_one_that_cleans_up, NULL);
}

/* Has a nursery open under its mask when the cancellation comes, and when the mask goes. */
static int unmask_with_a_nursery_open(void *arg)
{
    struct scene *scene = arg;
    _Atomic int started = 0;
    struct kin_nursery outer, middle, inner;
    EXPECT_EQ(kin_nursery_open(&outer, NULL), 0); /* in reach */
    kin_mask();
    EXPECT_EQ(kin_nursery_open(&middle, NULL), 0);
    kin_mask();
    EXPECT_EQ(kin_nursery_open(&inner, NULL), 0);
    EXPECT_EQ(kin_spawn(&middle, sleep_for_ever, &started), 0);
    EXPECT_EQ(kin_spawn(&inner, sleep_for_ever, &started), 0);
    await(&started, 2);
    atomic_store(&scene->started, 1);
    await(&scene->asked, 1);
    EXPECT_EQ(kin_spawn(&outer, sleep_for_ever, NULL), KIN_NOSCOPE);
    EXPECT_EQ(kin_spawn(&middle, sleep_for_ever, &started), 0); /* out of reach */
    EXPECT_EQ(kin_spawn(&inner, sleep_for_ever, &started), 0);
    await(&started, 4);
    kin_unmask(); /* one mask is still there */
    EXPECT_EQ(kin_nursery_state(&inner), KIN_NURSERY_OPEN);
    EXPECT_EQ(kin_nursery_state(&middle), KIN_NURSERY_OPEN);
    kin_unmask(); /* delivers what was held back */
    EXPECT_EQ(kin_spawn(&inner, sleep_for_ever, NULL), KIN_NOSCOPE);
    EXPECT_EQ(kin_cancel_reason(), -EPIPE);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&middle, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&outer, NULL), KIN_CANCELLED);
    return KIN_CANCELLED;
}

static int cancel_one_with_nurseries(void *arg)
{
    struct scene scene = {0};
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, unmask_with_a_nursery_open, &scene), 0);
    await(&scene.started, 1);
    kin_nursery_cancel(&n, -EPIPE);
    atomic_store(&scene.asked, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), 0);
    return 0;
}

KIN_TEST(an_unmask_delivers_to_the_nurseries_that_were_opened_under_the_mask, "B7 NSM-3 NSM:6.2")
{
    run_on_few(cancel_one_with_nurseries, NULL);
}

/* A cancel from inside of the mask passes no mask. */
static int cancel_under_the_mask(void *arg)
{
    _Atomic int started = 0;
    struct kin_nursery first, second, third;
    (void)arg;
    kin_mask();
    EXPECT_EQ(kin_nursery_open(&first, NULL), 0);
    EXPECT_EQ(kin_nursery_open(&second, NULL), 0);
    kin_mask();
    EXPECT_EQ(kin_nursery_open(&third, NULL), 0);
    EXPECT_EQ(kin_spawn(&second, sleep_for_ever, &started), 0);
    EXPECT_EQ(kin_spawn(&third, sleep_for_ever, &started), 0);
    await(&started, 2);
    kin_nursery_cancel(&first, -EIO);
    EXPECT_GE(kin_nursery_state(&second), KIN_NURSERY_CANCELLING);
    EXPECT_EQ(kin_nursery_state(&third), KIN_NURSERY_OPEN);
    kin_unmask();
    EXPECT_GE(kin_nursery_state(&third), KIN_NURSERY_CANCELLING);
    EXPECT_EQ(kin_nursery_join(&third, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&second, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&first, NULL), -EIO);
    kin_unmask();
    EXPECT(!kin_cancelled());
    return 0;
}

KIN_TEST(a_cancel_reaches_what_was_opened_under_the_same_mask, "B7 B11")
{
    run_on_few(cancel_under_the_mask, NULL);
}

/* ---- the end of the grace ---- */

static int sleep_masked_for_ever(void *arg)
{
    struct scene *scene = arg;
    kin_mask();
    atomic_store(&scene->started, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED); /* the mask is void */
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin_yield(), KIN_CANCELLED);
    EXPECT_EQ(kin_checkpoint(), KIN_CANCELLED);
    EXPECT_EQ(kin_cancel_reason(), KIN_STUCK); /* a kill replaces the reason */
    kin_unmask();
    return KIN_CANCELLED;
}

static int outstay_the_grace(void *arg)
{
    struct scene scene = {.reports = arg};
    struct kin_task_ref ref;
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n, .cancel_grace = SHORT);
    options.name = "stubborn";
    EXPECT_EQ(kin_spawn_with(&n, &options, sleep_masked_for_ever, &scene, 0, &ref), 0);
    await(&scene.started, 1);
    await_parked(1, "sleep"); /* or the report would say that it runs */
    kin_nursery_cancel(&n, -EPIPE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), 0);
    scene.reports->task[7] = kin_task_id(ref);
    return 0;
}

KIN_TEST(a_task_that_outstays_the_grace_is_reported_and_its_mask_is_void, "N2002 B7 D10")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct reports reports = {0};
        EXPECT_EQ(run_reporting(workers, outstay_the_grace, &reports, &reports), 0);
        EXPECT_EQ(atomic_load(&reports.count), 1); /* once; a runtime ends after its reports */
        EXPECT_EQ(reports.status[0], KIN_STUCK);
        EXPECT_EQ(reports.task[0], reports.task[7]);
        EXPECT(strstr(reports.text[0], "(stubborn)"));
        EXPECT(strstr(reports.text[0], "(mask_test.c:"));
        EXPECT(strstr(reports.text[0], "waits for sleep"));
        EXPECT(strstr(reports.text[0], "\n  ")); /* the backtrace */
    }
}

/* Runs without a check until somebody has reported it. */
static int run_until_reported(void *arg)
{
    struct scene *scene = arg;
    atomic_store(&scene->started, 1);
    while (atomic_load(&scene->reports->count) == 0) {
    }
    EXPECT_EQ(kin_yield(), KIN_CANCELLED);
    return KIN_CANCELLED;
}

static int wait_for_one_that_runs(void *arg)
{
    struct scene scene = {.reports = arg};
    KIN_NURSERY(n, .cancel_grace = SHORT);
    EXPECT_EQ(kin_spawn(&n, run_until_reported, &scene), 0);
    while (atomic_load(&scene.started) == 0)
        kin_ignore(kin_sleep(kin_after(KIN_US(100))));
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_task_that_runs_on_is_reported_with_its_worker, "N2002 B7")
{
    struct kin_config config = KIN_CONFIG_INIT;
    (void)unsetenv("KIN_HARD"); /* one runs on, and another one tells */
    for (config.workers = 2; config.workers <= 4; config.workers *= 2) {
        struct reports reports = {0};
        config.on_report = keep_report;
        config.report_arg = &reports;
        EXPECT_EQ(kin_run(&config, wait_for_one_that_runs, &reports), 0);
        EXPECT_EQ(atomic_load(&reports.count), 1);
        EXPECT_EQ(reports.status[0], KIN_STUCK);
        EXPECT(strstr(reports.text[0], "runs on worker"));
    }
}

/* A grace that never ends, inside of one that does. */
static int hide_in_an_inner_nursery(void *arg)
{
    struct scene *scene = arg;
    KIN_NURSERY(inner, .cancel_grace = KIN_NEVER);
    EXPECT_EQ(kin_spawn(&inner, sleep_masked_for_ever, arg), 0);
    await(&scene->started, 1); /* so that the join has nothing to run itself */
    EXPECT_EQ(kin_nursery_join(&inner, NULL), KIN_CANCELLED);
    return KIN_CANCELLED;
}

static int hide_deeper(void *arg)
{
    struct scene *scene = arg;
    KIN_NURSERY(inner);
    EXPECT_EQ(kin_spawn(&inner, hide_in_an_inner_nursery, arg), 0);
    await(&scene->started, 1);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), KIN_CANCELLED);
    return KIN_CANCELLED;
}

static int cancel_from_far_out(void *arg)
{
    struct scene scene = {.reports = arg};
    KIN_NURSERY(n, .cancel_grace = SHORT);
    EXPECT_EQ(kin_spawn(&n, hide_deeper, &scene), 0);
    await_parked(2, "nursery"); /* who is on the way to its join would be reported */
    await_parked(1, "sleep");
    kin_nursery_cancel(&n, -EPIPE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    return 0;
}

KIN_TEST(an_inner_nursery_cannot_outstay_the_grace_of_an_outer_one, "B7 N2002 NSM-3")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct reports reports = {0};
        EXPECT_EQ(run_reporting(workers, cancel_from_far_out, &reports, &reports), 0);
        EXPECT_EQ(atomic_load(&reports.count), 1); /* those that only join are not stuck */
        EXPECT(strstr(reports.text[0], "waits for sleep"));
    }
}

/* The children of a nursery under the mask have not been asked before: they are ended all the
 * same, and nobody blames them. */
static int wait_under_a_mask(void *arg)
{
    struct scene *scene = arg;
    _Atomic int started = 0;
    kin_mask();
    {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, sleep_for_ever, &started), 0);
        await(&started, 1);
        atomic_store(&scene->started, 1);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
        EXPECT_EQ(kin_cancel_reason(), KIN_STUCK);
    }
    kin_unmask();
    return KIN_CANCELLED;
}

static int outstay_with_children(void *arg)
{
    struct scene scene = {.reports = arg};
    KIN_NURSERY(n, .cancel_grace = SHORT);
    EXPECT_EQ(kin_spawn(&n, wait_under_a_mask, &scene), 0);
    await(&scene.started, 1);
    await_parked(1, "nursery"); /* who is on the way to its join would be reported */
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(the_end_of_the_grace_reaches_nurseries_under_a_mask, "B7 NSM-3")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct reports reports = {0};
        EXPECT_EQ(run_reporting(workers, outstay_with_children, &reports, &reports), 0);
        EXPECT_EQ(atomic_load(&reports.count), 0);
    }
}

/* An owner that holds back what its own nursery asks of it. */
static int fail_at_once(void *arg)
{
    (void)arg;
    return -EIO;
}

static int mask_against_ones_own_nursery(void *arg)
{
    struct reports *reports = arg;
    struct kin_nursery n;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    options.cancel_grace = SHORT;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    kin_mask();
    EXPECT_EQ(kin_spawn(&n, fail_at_once, NULL), 0);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED); /* when the grace is over, not before */
    EXPECT_EQ(kin_yield(), KIN_CANCELLED);
    EXPECT_EQ(kin_cancel_reason(), -EIO);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    EXPECT(!kin_cancelled()); /* that ends with the join */
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(10))), 0);
    kin_unmask();
    EXPECT_EQ(atomic_load(&reports->count), 0); /* it is no cancelled child */
    return 0;
}

KIN_TEST(an_owner_holds_back_its_own_nursery_s_cancel_no_longer_than_the_grace, "B7 B12")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct reports reports = {0};
        EXPECT_EQ(run_reporting(workers, mask_against_ones_own_nursery, &reports, &reports), 0);
    }
}

/* Many are stuck: each is reported once. */
static int stay_in_crowds(void *arg)
{
    struct scene scenes[40];
    KIN_NURSERY(n, .cancel_grace = KIN_MS(1));
    (void)arg;
    memset(scenes, 0, sizeof scenes);
    for (int i = 0; i < 40; i++)
        EXPECT_EQ(kin_spawn(&n, sleep_masked_for_ever, &scenes[i]), 0);
    for (int i = 0; i < 40; i++)
        await(&scenes[i].started, 1);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(each_of_many_that_are_stuck_is_reported_once, "N2002 B7")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct reports reports = {0};
        EXPECT_EQ(run_reporting(workers, stay_in_crowds, NULL, &reports), 0);
        EXPECT_EQ(atomic_load(&reports.count), 40);
        for (int i = 0; i < 8; i++) {
            EXPECT_EQ(reports.status[i], KIN_STUCK);
            for (int k = 0; k < i; k++)
                EXPECT_NE(reports.task[i], reports.task[k]);
        }
    }
}

/* The cancel, and with it the grace, begins on a thread that is no worker, while all workers
 * sleep. */
static void *cancel_from_outside(void *arg)
{
    kin_nursery_cancel(arg, 0);
    return NULL;
}

static int be_cancelled_from_outside(void *arg)
{
    struct scene scene = {.reports = arg};
    pthread_t thread;
    KIN_NURSERY(n, .cancel_grace = SHORT);
    EXPECT_EQ(kin_spawn(&n, sleep_masked_for_ever, &scene), 0);
    await(&scene.started, 1);
    EXPECT_EQ(pthread_create(&thread, NULL, cancel_from_outside, &n), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    return 0;
}

KIN_TEST(the_grace_of_a_cancel_from_a_thread_ends_while_the_workers_sleep, "N2002 B7")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct reports reports = {0};
        EXPECT_EQ(run_reporting(workers, be_cancelled_from_outside, &reports, &reports), 0);
    }
}

/* ---- reasons ---- */

static int tell_reasons(void *arg)
{
    struct scene *scene = arg;
    atomic_store(&scene->started, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin_cancel_reason(), KIN_CANCELLED);
    atomic_store(&scene->seen, 1);
    await(&scene->asked, 1);
    EXPECT_EQ(kin_cancel_reason(), KIN_CANCELLED); /* the first one stays */
    return KIN_CANCELLED;
}

static int cancel_alone_then_together(void *arg)
{
    struct scene scene = {0};
    struct kin_task_ref ref;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, tell_reasons, &scene, 0, &ref), 0);
    await(&scene.started, 1);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    await(&scene.seen, 1);
    kin_nursery_cancel(&n, -EPIPE);
    atomic_store(&scene.asked, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    return 0;
}

KIN_TEST(the_reason_of_a_task_cancelled_alone_stays_when_its_nursery_follows, "B12 D1")
{
    run_on_few(cancel_alone_then_together, NULL);
}

/* ---- misuse ---- */

static int unmask_without_a_mask(void *arg)
{
    (void)arg;
    kin_mask();
    kin_unmask();
    kin_unmask();
    return 0;
}

static int mask_too_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < 256; i++)
        kin_mask();
    return 0;
}

static int mask_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < 255; i++)
        kin_mask();
    for (int i = 0; i < 255; i++)
        kin_unmask();
    return 0;
}

KIN_TEST(an_unmatched_unmask_aborts_and_so_does_the_256th_mask, "NCG-3")
{
    EXPECT_EQ(run_reporting(1, mask_often, NULL, NULL), 0);
    EXPECT_ABORT("kin_unmask: every kin_unmask ends a kin_mask") {
        kin_ignore(run_reporting(1, unmask_without_a_mask, NULL, NULL));
    }
    EXPECT_ABORT("kin_mask: masks nest 255 deep at most") {
        kin_ignore(run_reporting(1, mask_too_often, NULL, NULL));
    }
    kin_mask(); /* outside a task there is nothing to hold back */
    kin_unmask();
    kin_unmask();
}
