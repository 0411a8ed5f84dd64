/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of the timers of a server promise on workers holds in the lab, under every
 * strategy.
 * Method: those tests themselves, run by conform.h. The one that takes all memory away is left
 * out: the lab has a sweep for that.
 */
#define CONFORM_SKIP "timers_are_bounded_by_memory_and_by_number",

#include "lab/conform.h"

#include "otp/server_timer_test.c"
