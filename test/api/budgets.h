/* SPDX-License-Identifier: MIT */
/*
 * What the tests of budgets and capabilities share: runtimes of a profile, children with a budget.
 */
#ifndef KIN_TEST_BUDGETS_H
#define KIN_TEST_BUDGETS_H

#include "api/in_runtime.h"

#include <kin/chan.h>

/* Runs fn(arg) as the first task of a runtime of a profile. */
__attribute__((unused)) static int run_as(enum kin_profile profile, unsigned workers,
                                          kin_task_fn *fn, void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;

    config.profile = profile;
    config.workers = workers;
    config.seed = kin_test_seed();
    return kin_run(&config, fn, arg);
}

__attribute__((unused)) static bool is_same(struct kin_budget a, struct kin_budget b)
{
    return a.ops == b.ops && a.memory == b.memory && a.spawns == b.spawns &&
           a.channel_ops == b.channel_ops && a.syscalls == b.syscalls;
}

__attribute__((unused)) static const struct kin_budget much = {100000, 100000, 1000, 1000, 1000};

/* Spawns fn(arg) with a budget of its own. */
__attribute__((unused)) static int spawn_on(struct kin_nursery *n, struct kin_budget budget,
                                            kin_task_fn *fn, void *arg, struct kin_task_ref *out)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;

    options.budget = budget;
    return kin_spawn_with(n, &options, fn, arg, 0, out);
}

/* The same with capabilities. */
__attribute__((unused)) static int spawn_able(struct kin_nursery *n, uint32_t caps,
                                              kin_task_fn *fn, void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;

    options.caps = caps;
    return kin_spawn_with(n, &options, fn, arg, 0, NULL);
}

/* A child that is none. */
__attribute__((unused)) static int nothing_to_do(void *arg)
{
    (void)arg;
    return 0;
}

#endif
