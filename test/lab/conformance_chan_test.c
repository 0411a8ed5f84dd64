/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of chan promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 */
#include "lab/conform.h"

#include "api/chan_test.c"
