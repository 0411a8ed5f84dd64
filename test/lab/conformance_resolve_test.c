/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of resolve promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 */
#define CONFORM_SKIP
#define CONFORM_ONLY_TURNS
#include "lab/conform.h"

#include "api/resolve_test.c"
