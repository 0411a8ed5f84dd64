/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of cleanup promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: nothing but aborts, and thirty thousand cleanups of one task, which nobody can
 * disturb.
 */
#define CONFORM_SKIP                                                                               \
    "a_nursery_that_no_cleanup_ends_aborts",                                                       \
    "there_is_no_limit_but_memory",
#include "lab/conform.h"

#include "api/cleanup_test.c"
