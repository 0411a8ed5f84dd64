/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of conformance_tasks promise on workers holds in the lab
 * under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: threads of their own, and stacks, of which the lab has its own.
 */
#define CONFORM_SKIP                                                                               \
    "tasks_that_threads_start",                                                                    \
    "threads_with_runtimes_of_their_own",                                                          \
    "stacks_are_reclaimed_behind_nobody_s_back",
#include "lab/conform.h"

#include "api/conformance_tasks_test.c"
