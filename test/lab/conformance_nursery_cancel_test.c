/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of nursery_cancel promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: a thread of its own.
 */
#define CONFORM_SKIP                                                                               \
    "a_thread_of_the_process_cancels_a_nursery",
#include "lab/conform.h"

#include "api/nursery_cancel_test.c"
