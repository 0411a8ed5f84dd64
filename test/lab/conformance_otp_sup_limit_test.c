/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of limits of supervisors promise on workers holds in the lab, under every
 * strategy.
 * Method: those tests themselves, run by conform.h.
 */
#include "lab/conform.h"

#include "otp/sup_limit_test.c"
