/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of leases promise on workers holds in the lab under every strategy, to the
 * tick.
 * Method: those tests themselves, run by conform.h.
 */
#include "lab/conform.h"

#include "otp/lease_test.c"
