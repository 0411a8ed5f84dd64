/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of dependencies of supervisors promise on workers holds in the lab, under
 * every strategy.
 * Method: those tests themselves, run by conform.h.
 */
#include "lab/conform.h"

#include "otp/sup_depend_test.c"
