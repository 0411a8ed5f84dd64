/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of conformance_scopes promise on workers holds in the lab
 * under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: threads of their own, and nothing but aborts. By turns only: a child that works on
 * until somebody else gets a turn.
 */
#define CONFORM_SKIP                                                                               \
    "of_causes_that_threads_bring_one_wins",                                                       \
    "scopes_that_are_misnested_are_found",
#define CONFORM_ONLY_TURNS                                                                         \
    "a_cancel_meets_a_scope_that_is_opened",
#include "lab/conform.h"

#include "api/conformance_scopes_test.c"
