/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of replies promise on workers holds in the lab, under every
 * strategy.
 * Method: those tests themselves, run by conform.h. The one that takes all memory away is left
 * out: the lab has a sweep for that.
 */
#define CONFORM_SKIP "without_memory_a_token_stays_where_it_is",

#include "lab/conform.h"

#include "otp/reply_test.c"
