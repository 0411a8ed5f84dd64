/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of causes promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 */
#include "lab/conform.h"

#include "api/cause_test.c"
