/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of chan promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * By turns only: who comes after whom, which the tests bring about by the order of yields.
 */
#define CONFORM_ONLY_TURNS                                                                         \
    "waiters_are_served_in_the_order_of_their_arrival",                                            \
    "nobody_overtakes_a_sender_that_waits",
#include "lab/conform.h"

#include "api/chan_test.c"
