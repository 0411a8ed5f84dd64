/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of every_wait promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 */
#include "lab/conform.h"

#include "api/every_wait_test.c"
