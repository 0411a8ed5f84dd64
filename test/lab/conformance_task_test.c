/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of task promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: a thread of their own, a thread that blocks, and what goes to standard error. By turns
 * only: the order of yields on one worker.
 */
#define CONFORM_SKIP                                                                               \
    "a_thread_cancels_a_task",                                                                     \
    "children_that_block_their_thread_in_the_join_of_their_parent_come_back",                      \
    "without_a_callback_reports_go_to_standard_error",
#define CONFORM_ONLY_TURNS                                                                         \
    "two_tasks_that_yield_take_turns",
#include "lab/conform.h"

#include "api/task_test.c"
