/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the conformance tests of servers and supervisors (misuse) promise on workers
 * holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 */
#include "lab/conform.h"

#include "otp/conform_misuse_test.c"
