/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of cleanup_fail promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: nothing but aborts.
 */
#define CONFORM_SKIP                                                                               \
    "an_overflow_while_one_is_cleaned_up_aborts",
#include "lab/conform.h"

#include "api/cleanup_fail_test.c"
