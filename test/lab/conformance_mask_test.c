/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of mask promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: tasks that spin while real time passes, a thread of its own, and nothing but aborts.
 */
#define CONFORM_SKIP                                                                               \
    "a_task_that_runs_on_is_reported_with_its_worker",                                             \
    "an_inner_nursery_cannot_outstay_the_grace_of_an_outer_one",                                   \
    "the_grace_of_a_cancel_from_a_thread_ends_while_the_workers_sleep",                            \
    "an_unmatched_unmask_aborts_and_so_does_the_256th_mask",
#include "lab/conform.h"

#include "api/mask_test.c"
