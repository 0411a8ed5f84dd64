/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the lab share: running a body under a strategy, with the report at hand.
 */
#ifndef KIN_TEST_IN_LAB_H
#define KIN_TEST_IN_LAB_H

#include "kin_test.h"

#include <kin/kin.h>
#include <kin/lab.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct kin_lab_report report;

__attribute__((unused)) static int lab_with(enum kin_lab_strategy strategy, uint64_t executions,
                                            uint32_t faults, kin_task_fn *test, void *arg)
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    config.strategy = strategy;
    config.executions_max = executions;
    config.seed = kin_test_seed();
    config.faults = faults;
    return kin_lab_run(&config, test, arg, &report);
}

__attribute__((unused)) static int lab(enum kin_lab_strategy strategy, uint64_t executions,
                                       kin_task_fn *test, void *arg)
{
    return lab_with(strategy, executions, 0, test, arg);
}

/* One execution by turns must fail with this oracle and status. */
__attribute__((unused)) static void expect_oracle(kin_task_fn *test, void *arg, const char *oracle,
                                                  int status)
{
    int rc = lab(KIN_LAB_ROUND_ROBIN, 1, test, arg);
    if (!report.oracle || strcmp(report.oracle, oracle) != 0)
        printf("%s\n", report.text);
    EXPECT_STR(report.oracle ? report.oracle : "none", oracle);
    EXPECT_EQ(rc, status);
    EXPECT_EQ(report.status, status);
}

#endif
