/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of budget promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * By turns only: who runs how long before others get their turn.
 */
#define CONFORM_ONLY_TURNS                                                                         \
    "a_hog_has_one_slice_between_two_turns_of_the_others",                                         \
    "who_is_recharged_by_its_nursery_goes_behind_the_others",
#include "lab/conform.h"

#include "api/budget_test.c"
