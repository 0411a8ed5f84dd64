/* SPDX-License-Identifier: MIT */
/*
 * Programs whose bug is one schedule that the lab must have: under two strategies each.
 */
#ifndef KIN_TEST_LAB_FOUND_H
#define KIN_TEST_LAB_FOUND_H

#include "lab/in_lab.h"

/* The test fails like this, whatever the strategy. */
static void expect_found(kin_task_fn *test, int status)
{
    static const enum kin_lab_strategy both[] = {KIN_LAB_DPOR, KIN_LAB_RANDOM};
    for (unsigned s = 0; s < 2; s++) {
        for (unsigned workers = 1; workers <= 2; workers++) {
            struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
            config.strategy = both[s];
            config.workers = workers;
            config.executions_max = 20000;
            config.seed = kin_test_seed();
            EXPECT_EQ(kin_lab_run(&config, test, NULL, &report), status);
            EXPECT(!report.exhausted);
        }
    }
}

#endif
