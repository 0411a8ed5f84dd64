/* SPDX-License-Identifier: MIT */
/*
 * Goal: a runtime in the lab is configured as any other, one after the other in one execution, and
 * works without kin_lab_run as well.
 * Method: kin_run inside and outside of executions, its config seen by the program.
 */
#include "lab/in_lab.h"

static int count_reports;

static void on_report(const struct kin_report *what, void *arg)
{
    count_reports += what->status == KIN_PANICKED && arg == &count_reports;
}

static int panic(void *arg)
{
    (void)arg;
    kin_panic("told");
}

static int panic_below(void *arg)
{
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, panic, arg));
    kin_ignore(kin_nursery_join(&n, NULL));
    return 5;
}

static int run_configured(void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;
    (void)arg;
    config.workers = 3;
    config.on_report = on_report;
    config.report_arg = &count_reports;
    for (int i = 0; i < 3; i++)
        kin_lab_assert(kin_run(&config, panic_below, NULL) == 5, "its result is returned");
    config.size--;
    kin_lab_assert(kin_run(&config, panic_below, NULL) == -EINVAL, "nonsense is refused");
    return 0;
}

KIN_TEST(runtimes_of_an_execution_are_configured_by_the_program, "")
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    config.strategy = KIN_LAB_RANDOM;
    config.executions_max = 20;
    EXPECT_EQ(kin_lab_run_host(&config, run_configured, NULL, &report), 0);
    EXPECT_GE(count_reports, 60);
    EXPECT_EQ(run_configured(NULL), 0); /* not in the lab */
}

static int look(void *arg)
{
    struct kin_stats stats;
    (void)arg;
    KIN_LAB_OK(kin_stats_get(&stats));
    kin_lab_assert(stats.tasks_live == 1, "one task lives");
    kin_lab_assert(kin_run(NULL, look, NULL) == -EBUSY, "no runtime inside of another");
    return 0;
}

KIN_TEST(statistics_know_the_tasks, "")
{
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, look, NULL), 0);
}

static int return_it(void *arg)
{
    return *(int *)arg;
}

KIN_TEST(a_program_runs_without_the_lab_too, "")
{
    int values[] = {0, 7, -EIO};
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_run(NULL, return_it, &values[i]), values[i]);
    EXPECT(!kin_in_lab());
}
