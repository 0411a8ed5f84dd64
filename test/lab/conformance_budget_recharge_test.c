/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of budget_recharge promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 */
#include "lab/conform.h"

#include "api/budget_recharge_test.c"
