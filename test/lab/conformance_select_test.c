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
/* which of two sends comes first is brought about by the order of yields */
#define CONFORM_ONLY_TURNS "a_close_wakes_receives_of_selects_and_leaves_their_sends",
#include "lab/conform.h"

#include "api/select_test.c"
