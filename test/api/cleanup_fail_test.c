/* SPDX-License-Identifier: MIT */
/*
 * Goal: a cleanup that fails, panics or overflows ends alone: the rest run, and the task says so.
 * Method: such cleanups among others that write letters, after every way out; the text, the outcome
 * and the reports are compared.
 */
#include "api/letters.h"

/* ---- cleanups that fail ---- */

static int defer_failing(void *arg)
{
    int status = *(int *)arg;
    DEFER("a");
    EXPECT_EQ(kin_defer_try(write_and_succeed, LETTER("b")), 0);
    EXPECT_EQ(kin_defer_try(write_and_fail, LETTER("c")), 0);
    EXPECT_EQ(kin_defer(write_then_kin_fail, LETTER("d")), 0);
    DEFER("e");
    EXPECT_EQ(kin_defer_try(write_and_fail, LETTER("f")), 0);
    if (status == -EPERM)
        kin_fail(status, "with failing cleanups");
    if (status == KIN_PANICKED)
        kin_panic("with failing cleanups");
    return status;
}

KIN_TEST(a_failing_cleanup_fails_a_task_that_would_succeed, "N3002 NCG-3")
{
    int zero = 0, value = 12;

    expect_way(defer_failing, &zero, KIN_SEV_ERROR, KIN_CLEANUP, "fedcba");
    expect_way(defer_failing, &value, KIN_SEV_ERROR, KIN_CLEANUP, "fedcba");
}

KIN_TEST(a_failing_cleanup_changes_no_other_end, "N3002 NCG-3")
{
    int error = -ENOENT, failed = -EPERM, panicked = KIN_PANICKED;

    expect_way(defer_failing, &error, KIN_SEV_ERROR, -ENOENT, "fedcba");
    expect_way(defer_failing, &failed, KIN_SEV_ERROR, -EPERM, "fedcba");
    expect_way(defer_failing, &panicked, KIN_SEV_PANIC, KIN_PANICKED, "fedcba");
}

static int be_cancelled_with_a_failing_one(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_defer_try(write_and_fail, LETTER("a")), 0);
    return kin_sleep(KIN_NEVER);
}

KIN_TEST(a_cancelled_task_stays_cancelled_when_a_cleanup_fails, "N3002")
{
    expect_way_cancelling(be_cancelled_with_a_failing_one, NULL, KIN_SEV_CANCELLED, KIN_CANCELLED,
                          "a", true);
}

static int fail_one_cleanup(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_defer_try(write_and_fail, LETTER("a")), 0);
    return 0;
}

KIN_TEST(failed_cleanups_are_reported_once_per_task, "N3002")
{
    struct reports reports = {0};
    char culprit[32];
    int error = -ENOENT;

    clear_text();
    EXPECT_EQ(run_reporting(1, fail_one_cleanup, NULL, &reports), KIN_CLEANUP);
    EXPECT_EQ(atomic_load(&reports.count), 1);
    EXPECT_EQ(reports.status[0], KIN_CLEANUP);
    EXPECT_NE(reports.task[0], 0);
    printf("%s\n", reports.text[0]);
    snprintf(culprit, sizeof culprit, "%s (", "write_and_fail");
    EXPECT(strstr(reports.text[0], "(main), spawned at "));
    EXPECT(strstr(reports.text[0], "a cleanup failed"));
    EXPECT(strstr(reports.text[0], "EIO"));
    EXPECT(strstr(reports.text[0], culprit));

    memset(&reports, 0, sizeof reports);
    EXPECT_EQ(run_reporting(1, defer_failing, &error, &reports), -ENOENT);
    EXPECT_EQ(atomic_load(&reports.count), 1);
    EXPECT_EQ(reports.status[0], KIN_CLEANUP);
    printf("%s\n", reports.text[0]);
    EXPECT(strstr(reports.text[0], "3 cleanups failed"));
    EXPECT(strstr(reports.text[0], culprit));
    EXPECT(strstr(reports.text[0], "EIO")); /* what the first one failed with */
}

static int defer_panicking(void *arg)
{
    int status = *(int *)arg;
    DEFER("a");
    EXPECT_EQ(kin_defer(write_then_panic, LETTER("b")), 0);
    DEFER("c");
    EXPECT_EQ(kin_defer(write_then_panic, LETTER("d")), 0);
    if (status == -EPERM)
        kin_fail(status, "with panicking cleanups");
    return status;
}

KIN_TEST(a_cleanup_that_panics_makes_the_task_panicked, "NCG-3")
{
    int ok = 0, error = -ENOENT, failed = -EPERM;

    expect_way(defer_panicking, &ok, KIN_SEV_PANIC, KIN_PANICKED, "dcba");
    expect_way(defer_panicking, &error, KIN_SEV_PANIC, KIN_PANICKED, "dcba");
    expect_way(defer_panicking, &failed, KIN_SEV_PANIC, KIN_PANICKED, "dcba");
}

/* What a failing cleanup itself put down and opened goes before the rest. */
static void build_up_and_fail(void *arg)
{
    DEFER("x");
    KIN_NURSERY(n);
    spawn_writer(&n, LETTER("N"));
    DEFER("y");
    put_letter(*(const char *)arg);
    kin_fail(-EIO, "with things of its own");
}

static int defer_building_up(void *arg)
{
    int status = *(int *)arg;
    KIN_NURSERY(outer);
    spawn_writer(&outer, LETTER("O"));
    DEFER("a");
    EXPECT_EQ(kin_defer(build_up_and_fail, LETTER("b")), 0);
    DEFER("c");
    if (status == -EPERM)
        kin_fail(status, "with a nursery open");
    kin_nursery_cancel(&outer, 0);
    EXPECT_EQ(kin_nursery_join(&outer, NULL), KIN_CANCELLED);
    return status;
}

KIN_TEST(a_failing_cleanup_takes_what_it_put_down_with_it, "NCG-3 NSM-4")
{
    int ok = 0, failed = -EPERM;

    expect_way(defer_building_up, &failed, KIN_SEV_ERROR, -EPERM, "cbyNxaO");
    expect_way(defer_building_up, &ok, KIN_SEV_ERROR, KIN_CLEANUP, "OcbyNxa");
}

/* So many failures that one on top of the other would fill any stack. */
static void count_and_fail(void *arg)
{
    volatile char room[256];

    room[0] = 1;
    ++*(int *)arg;
    if (*(int *)arg % 2)
        kin_fail(-EIO, "number %d", *(int *)arg + room[0]);
}

static int defer_many_failing(void *arg)
{
    int *counts = arg;

    counts[0] = 0;
    for (int i = 0; i < 20000; i++)
        EXPECT_EQ(kin_defer(count_and_fail, &counts[0]), 0);
    if (counts[1] < 0)
        kin_fail(counts[1], "with many");
    return 0;
}

KIN_TEST(failures_of_cleanups_do_not_pile_up, "NCG-3 N3002")
{
    int ok[2] = {0, 0}, failed[2] = {0, -EPERM};

    expect_way(defer_many_failing, ok, KIN_SEV_ERROR, KIN_CLEANUP, "");
    EXPECT_EQ(ok[0], 20000);
    expect_way(defer_many_failing, failed, KIN_SEV_ERROR, -EPERM, "");
    EXPECT_EQ(failed[0], 20000);
}

/* A report may run anything, at the very end of the task too. */
static void fail_in_report(const struct kin_report *report, void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    DEFER("r");
    if (report->status == KIN_CLEANUP)
        kin_fail(-EIO, "in a report");
}

KIN_TEST(a_report_of_failed_cleanups_may_fail_itself, "N3002")
{
    struct kin_config config = KIN_CONFIG_INIT;
    _Atomic int count = 0;

    config.workers = 1;
    config.on_report = fail_in_report;
    config.report_arg = &count;
    clear_text();
    EXPECT_EQ(kin_run(&config, fail_one_cleanup, NULL), KIN_CLEANUP);
    EXPECT_EQ(atomic_load(&count), 1);
    EXPECT_STR(text, "ar");
}

/* ---- stack overflows ---- */

/* A sanitizer keeps books about frames that an overflow leaves without returning. */
#if !SANITIZED

static volatile int sink;

__attribute__((noinline)) static int descend(int depth)
{
    volatile char room[200];

    room[0] = (char)depth;
    if (depth < 0)
        return 0;
    int below = descend(depth + 1);
    room[1] = (char)below;
    return room[0] + room[1];
}

static int overflow_after_defers(void *arg)
{
    (void)arg;
    DEFER("a");
    KIN_NURSERY(n);
    spawn_writer(&n, LETTER("N"));
    DEFER("b");
    EXPECT_EQ(kin_defer(use_the_runtime, LETTER("c")), 0);
    sink = descend(0);
    return 0;
}

static int overflow_with_failing(void *arg)
{
    (void)arg;
    DEFER("a");
    EXPECT_EQ(kin_defer(write_then_panic, LETTER("b")), 0);
    EXPECT_EQ(kin_defer(write_then_kin_fail, LETTER("c")), 0);
    DEFER("d");
    sink = descend(0);
    return 0;
}

KIN_TEST(cleanups_run_in_reverse_after_an_overflow, "C8 NCG-3 SCHED:14.1.1")
{
    expect_way(overflow_after_defers, NULL, KIN_SEV_PANIC, KIN_OVERFLOW, "cbNa");
    expect_way(overflow_with_failing, NULL, KIN_SEV_PANIC, KIN_OVERFLOW, "dcba");
}

static void write_and_overflow(void *arg)
{
    put_letter(*(const char *)arg);
    DEFER("x");
    sink = descend(0);
}

static int defer_overflowing(void *arg)
{
    int status = *(int *)arg;
    DEFER("a");
    EXPECT_EQ(kin_defer(write_and_overflow, LETTER("b")), 0);
    EXPECT_EQ(kin_defer(use_the_runtime, LETTER("c")), 0);
    EXPECT_EQ(kin_defer(write_and_overflow, LETTER("d")), 0);
    if (status < 0)
        kin_fail(status, "with overflowing cleanups");
    return status;
}

KIN_TEST(a_cleanup_that_overflows_ends_alone, "C8 NCG-3")
{
    int ok = 0, failed = -EPERM;

    expect_way(defer_overflowing, &ok, KIN_SEV_PANIC, KIN_OVERFLOW, "dxcbxa");
    expect_way(defer_overflowing, &failed, KIN_SEV_PANIC, KIN_OVERFLOW, "dxcbxa");
}

static int overflow_twice(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_defer(write_and_overflow, LETTER("b")), 0);
    sink = descend(0);
    return 0;
}

KIN_TEST(an_overflow_while_one_is_cleaned_up_aborts, "C8")
{
    EXPECT_ABORT("stack overflow in task")
    {
        kin_ignore(run_reporting(1, overflow_twice, NULL, NULL));
    }
}

static void fail_in_overflow_report(const struct kin_report *report, void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    if (report->status == KIN_OVERFLOW)
        kin_fail(-EIO, "in a report");
}

KIN_TEST(a_report_of_an_overflow_may_fail, "C8")
{
    struct kin_config config = KIN_CONFIG_INIT;
    _Atomic int count = 0;

    config.workers = 1;
    config.on_report = fail_in_overflow_report;
    config.report_arg = &count;
    clear_text();
    EXPECT_EQ(kin_run(&config, overflow_after_defers, NULL), KIN_OVERFLOW);
    EXPECT_EQ(atomic_load(&count), 1);
    EXPECT_STR(text, "cbNa");
}

#endif
