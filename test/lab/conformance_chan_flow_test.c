/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of chan_flow promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: threads of their own.
 */
#define CONFORM_SKIP                                                                               \
    "threads_without_a_runtime_use_a_channel",                                                     \
    "threads_and_tasks_meet",                                                                      \
    "a_thread_waits_no_longer_than_it_wants",                                                      \
    "a_close_wakes_a_thread",
#include "lab/conform.h"

#include "api/chan_flow_test.c"
