/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of slots promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: threads of their own.
 */
#define CONFORM_SKIP                                                                               \
    "an_outsider_that_comes_with_the_join_is_refused_and_does_not_wait",                           \
    "a_thread_blocks_while_it_waits_for_room",
/* they count on who comes first to the room that there is */
#define CONFORM_ONLY_TURNS                                                                         \
    "a_spawner_that_is_cancelled_while_it_waits_is_refused",                                       \
    "members_wait_for_room_while_the_nursery_is_joined",
#include "lab/conform.h"

#include "api/slots_test.c"
