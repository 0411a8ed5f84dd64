/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of stops that nothing starves promise on workers holds in the lab, under
 * every strategy.
 * Method: those tests themselves, run by conform.h.
 */
#include "lab/conform.h"

#include "otp/server_starve_test.c"
