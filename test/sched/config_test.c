/* SPDX-License-Identifier: MIT */
/*
 * Goal: a config is refused or completed before anything is made of it.
 * Method: the two functions on a scheduler that is nothing but memory.
 */
#include "kin_test.h"

#include "sched/sched.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct kin__sched *blank(void)
{
    struct kin__sched *sched = aligned_alloc(64, (sizeof(*sched) + 63) / 64 * 64);
    EXPECT(sched != NULL);
    memset(sched, 0, sizeof(*sched));
    return sched;
}

KIN_TEST(nothing_given_means_all_defaults, "")
{
    struct kin__sched *sched = blank();
    unsetenv("KIN_HARD");
    EXPECT_EQ(kin__config_fill(sched, NULL), 0);
    EXPECT_GE(sched->config.workers, 1);
    EXPECT_EQ(sched->config.workers_max, 2 * sched->config.workers);
    EXPECT_EQ(sched->config.stack_max_bytes, 256 * 1024);
    EXPECT_EQ(sched->config.stall_threshold, KIN_MS(10));
    EXPECT_EQ(sched->config.yield_interval, 1024);
    EXPECT_EQ(sched->slice, 1024);
    EXPECT_EQ(kin__stack_class_bytes(sched->stack_class), 256 * 1024);
    free(sched);
}

KIN_TEST(what_is_given_stays, "")
{
    struct kin__sched *sched = blank();
    struct kin_config config = KIN_CONFIG_INIT;
    unsetenv("KIN_HARD");
    config.workers = 3;
    config.workers_max = 4;
    config.yield_interval = 7;
    config.stack_max_bytes = 16 * 1024;
    config.stall_threshold = 5;
    EXPECT_EQ(kin__config_fill(sched, &config), 0);
    EXPECT_EQ(sched->config.workers, 3);
    EXPECT_EQ(sched->config.workers_max, 4);
    EXPECT_EQ(sched->slice, 7);
    EXPECT_EQ(sched->stack_class, 0);
    EXPECT_EQ(sched->config.stall_threshold, 5);
    free(sched);
}

KIN_TEST(nonsense_is_refused, "")
{
    struct kin__sched *sched = blank();
    struct kin_config config = KIN_CONFIG_INIT;
    unsetenv("KIN_HARD");
    config.size--;
    EXPECT_EQ(kin__config_fill(sched, &config), -EINVAL);
    config = (struct kin_config)KIN_CONFIG_INIT;
    config.workers = KIN_WORKERS_MAX + 1;
    EXPECT_EQ(kin__config_check(&config), -EINVAL);
    config = (struct kin_config)KIN_CONFIG_INIT;
    config.workers = 4;
    config.workers_max = 3;
    EXPECT_EQ(kin__config_fill(sched, &config), -EINVAL);
    config = (struct kin_config)KIN_CONFIG_INIT;
    config.stack_max_bytes = (size_t)1 << 40;
    EXPECT_EQ(kin__config_check(&config), -EINVAL);
    config = (struct kin_config)KIN_CONFIG_INIT;
    config.profile = KIN_CORE; /* has no scheduler */
    EXPECT_EQ(kin__config_fill(sched, &config), -EINVAL);
    free(sched);
}
