/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of sync_lock promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: nothing but aborts.
 */
#define CONFORM_SKIP                                                                               \
    "a_lock_that_nobody_holds_is_not_unlocked",
#include "lab/conform.h"

#include "api/sync_lock_test.c"
