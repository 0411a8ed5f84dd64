/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of the cleanup that a child is spawned with promise on workers holds in the
 * lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: threads of their own.
 */
#define CONFORM_SKIP "a_thread_hands_things_over_as_a_task_does",
#include "lab/conform.h"

#include "api/spawn_cleanup_test.c"
