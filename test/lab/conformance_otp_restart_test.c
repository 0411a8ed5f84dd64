/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the conformance tests of servers and supervisors (restart) promise on workers
 * holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 */
#include "lab/conform.h"

#include "otp/conform_restart_test.c"
