/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of sync_wait promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: nothing but aborts.
 */
#define CONFORM_SKIP                                                                               \
    "more_permits_than_fit_abort",                                                                 \
    "a_group_does_not_go_below_zero_nor_beyond_its_end",
#include "lab/conform.h"

#include "api/sync_wait_test.c"
