/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of names promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: a runtime in a thread of its own, memory that runs out by count, and a task that must
 * not get its turn.
 */
#define CONFORM_SKIP                                                                               \
    "names_belong_to_a_runtime", "without_memory_there_is_no_name_and_nothing_is_lost",            \
        "a_task_that_never_runs_holds_a_name_and_gives_it_up",
#include "lab/conform.h"

#include "otp/registry_test.c"
