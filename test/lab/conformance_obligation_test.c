/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of obligation promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: threads of their own.
 */
#define CONFORM_SKIP                                                                               \
    "any_task_and_any_thread_may_end_one",
#include "lab/conform.h"

#include "api/obligation_test.c"
