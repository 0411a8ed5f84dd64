/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of words promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 */
/* memory that runs out is the lab's own business */
#define CONFORM_SKIP "without_memory_the_words_are_lost_and_the_status_is_not",
#include "lab/conform.h"

#include "scope/words_test.c"
