/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of sync promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: threads of their own.
 */
#define CONFORM_SKIP                                                                               \
    "plain_threads_may_wake_whoever_waits",                                                        \
    "what_threads_did_before_there_was_a_runtime_counts",
#include "lab/conform.h"

#include "api/sync_test.c"
