/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of calls and casts promise on workers holds in the lab, under every
 * strategy.
 * Method: those tests themselves, run by conform.h. The one that takes all memory away is left
 * out: the lab has a sweep for that.
 */
#define CONFORM_SKIP "without_memory_nothing_is_sent",

#include "lab/conform.h"

#include "otp/call_test.c"
