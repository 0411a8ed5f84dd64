/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the conformance tests of servers and supervisors (status) promise on workers
 * holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h. Left out: what is about threads.
 */
#define CONFORM_SKIP "outside_a_task_every_call_says_so", "a_thread_may_answer",

#include "lab/conform.h"

#include "otp/conform_status_test.c"
