/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of stream promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: a thread of its own.
 */
#define CONFORM_SKIP                                                                               \
    "a_thread_can_set_what_tasks_watch",
#include "lab/conform.h"

#include "api/stream_test.c"
