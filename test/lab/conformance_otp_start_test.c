/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of starts, and of servers with an extra, promise on workers holds in the
 * lab, under every strategy.
 * Method: those tests themselves, run by conform.h. Left out are the one that takes memory away,
 * for which the lab has a sweep, and the one that looks at what is no nursery.
 */
#define CONFORM_SKIP                                                                               \
    "each_request_for_memory_of_a_start_may_fail", "options_that_make_no_sense_start_nothing",

#include "lab/conform.h"

#include "otp/server_test.c"
