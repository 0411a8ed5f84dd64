/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of starts with a monitor promise on workers holds in the lab, under
 * every strategy.
 * Method: those tests themselves, run by conform.h.
 */
#include "lab/conform.h"

#include "otp/start_monitor_test.c"
