/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the conformance tests of servers and supervisors (party) promise on workers
 * holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: a second runtime; requests for memory, which are others there; frames, which do not
 *           come back.
 */
#define CONFORM_SKIP                                                                               \
    "tasks_of_another_runtime_and_internal_ones_are_nobody",                                       \
        "a_monitor_without_memory_leaves_nothing", "a_link_without_memory_leaves_nothing",         \
        "a_wait_for_news_without_memory_leaves_nothing",                                           \
        "a_party_of_a_frame_that_comes_back_is_new",
#include "lab/conform.h"

#include "otp/party_test.c"
