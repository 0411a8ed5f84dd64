/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of nursery promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: threads of their own, and nothing but aborts.
 */
#define CONFORM_SKIP                                                                               \
    "threads_and_other_runtimes_spawn_into_an_open_nursery",                                       \
    "threads_are_refused_while_a_nursery_is_joined",                                               \
    "a_join_by_another_task_aborts_with_task_call_and_rule",                                       \
    "joining_an_outer_nursery_before_an_inner_one_aborts",                                         \
    "a_task_that_returns_with_a_nursery_open_aborts_by_its_name",
#include "lab/conform.h"

#include "api/nursery_test.c"
