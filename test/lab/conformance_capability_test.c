/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of capability promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 */
#include "lab/conform.h"

#include "api/capability_test.c"
