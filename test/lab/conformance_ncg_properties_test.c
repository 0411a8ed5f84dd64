/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of ncg_properties promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 */
#include "lab/conform.h"

#include "spec/ncg_properties_test.c"
