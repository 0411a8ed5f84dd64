/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of select promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: how often chance chooses what; in the lab the strategy chooses.
 */
#define CONFORM_SKIP                                                                               \
    "the_choice_among_ready_cases_is_even",                                                        \
    "both_of_two_sends_happen",                                                                    \
    "both_of_two_sends_that_wait_happen",                                                          \
    "the_seed_decides",
#include "lab/conform.h"

#include "api/select_test.c"
