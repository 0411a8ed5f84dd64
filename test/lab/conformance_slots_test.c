/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of slots promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: threads of their own.
 */
#define CONFORM_SKIP                                                                               \
    "an_outsider_that_comes_with_the_join_is_refused_and_does_not_wait",                           \
    "a_thread_blocks_while_it_waits_for_room",
#include "lab/conform.h"

#include "api/slots_test.c"
