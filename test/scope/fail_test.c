/* SPDX-License-Identifier: MIT */
/*
 * Goal: reports and aborts say who, what and why, however long the text is.
 * Method: white box: the texts that kin__report and kin__misuse make, panics longer than a report.
 */
#include "api/in_runtime.h"

#include "scope/scope.h"
#include "sched/sched.h"

static int panic_at_length(void *arg)
{
    kin_panic("%s", (const char *)arg);
}

KIN_TEST(a_text_that_is_too_long_is_cut, "")
{
    static char text[5000];
    struct reports reports = {0};

    memset(text, 'y', sizeof text - 1);
    EXPECT_EQ(run_reporting(1, panic_at_length, text, &reports), KIN_PANICKED);
    EXPECT_EQ(atomic_load(&reports.count), 1);
    EXPECT_GT(strlen(reports.text[0]), 400);
    EXPECT(strstr(reports.text[0], "main"));
    EXPECT(strstr(reports.text[0], "yyyy"));
}

static int report_by_hand(void *arg)
{
    (void)arg;
    kin__report(kin__task_sched(kin__task_self()), KIN_WORKER, 17, "by hand");
    return 0;
}

KIN_TEST(a_report_reaches_the_callback_as_it_was_made, "")
{
    struct reports reports = {0};

    EXPECT_EQ(run_reporting(1, report_by_hand, NULL, &reports), 0);
    EXPECT_EQ(atomic_load(&reports.count), 1);
    EXPECT_EQ(reports.status[0], KIN_WORKER);
    EXPECT_EQ(reports.task[0], 17);
    EXPECT_STR(reports.text[0], "by hand");
}

static int misuse_something(void *arg)
{
    (void)arg;
    kin__misuse(kin__task_self(), "kin_example", "an example is not an answer", "NSM-2");
}

KIN_TEST(misuse_aborts_with_call_rule_clause_and_task, "NSM-2")
{
    EXPECT_ABORT("kin: kin_example: an example is not an answer [NSM-2], task ")
    {
        kin_ignore(kin_run(NULL, misuse_something, NULL));
    }
    EXPECT_ABORT("(main), spawned at ")
    {
        kin_ignore(kin_run(NULL, misuse_something, NULL));
    }
    EXPECT_ABORT("\n  misuse_something (fail_test.c:") /* the call that broke the rule */
    {
        kin_ignore(kin_run(NULL, misuse_something, NULL));
    }
    EXPECT_ABORT("kin: kin_example: outside [N1002]")
    {
        kin__misuse(NULL, "kin_example", "outside", "N1002");
    }
}

static int fail_with_status(void *arg)
{
    kin_fail(*(int *)arg, "%s %d", "formatted", 3);
}

KIN_TEST(a_failure_keeps_its_status_and_nonsense_becomes_einval, "")
{
    static const int status[][2] = {{-1, -1},
                                    {-EIO, -EIO},
                                    {KIN_TIMEOUT, KIN_TIMEOUT},
                                    {KIN_CANCELLED, KIN_CANCELLED},
                                    {INT32_MIN, INT32_MIN},
                                    {INT32_MAX, -EINVAL},
                                    {1, -EINVAL},
                                    {0, -EINVAL}};

    for (size_t i = 0; i < sizeof status / sizeof status[0]; i++)
        EXPECT_EQ(run_reporting(1, fail_with_status, (void *)(uintptr_t)&status[i][0], NULL),
                  status[i][1]);
}

/* A callback that itself uses the runtime, as one that logs through a task would. */
static void yield_in_report(const struct kin_report *report, void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    EXPECT_EQ(report->status, KIN_PANICKED);
    kin_ignore(kin_yield());
    kin_ignore(kin_sleep(kin_after(1000)));
}

static int panic_plainly(void *arg)
{
    (void)arg;
    kin_panic("plainly");
}

static int panic_many(void *arg)
{
    KIN_NURSERY(n, .on_error = KIN_COLLECT);

    (void)arg;
    for (int i = 0; i < 50; i++)
        EXPECT_EQ(kin_spawn(&n, panic_plainly, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_PANICKED);
    return 0;
}

KIN_TEST(a_callback_may_use_the_runtime, "")
{
    struct kin_config config = KIN_CONFIG_INIT;
    _Atomic int count = 0;

    config.workers = 2;
    config.on_report = yield_in_report;
    config.report_arg = &count;
    EXPECT_EQ(kin_run(&config, panic_many, NULL), 0);
    EXPECT_EQ(atomic_load(&count), 50);
}
