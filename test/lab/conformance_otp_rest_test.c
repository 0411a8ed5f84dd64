/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of servers at rest promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h. Left out: the one that takes all stacks away,
 * which the lab has its own of, where faults do that (lab/rest_test.c); and the one that dumps.
 */
#define CONFORM_SKIP "without_memory_for_a_stack_it_ends_and_says_so", "a_dump_shows_it_parked",

#include "lab/conform.h"

#include "otp/server_rest_test.c"
