/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of net promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 */
/* it uses up the descriptors of the process */
#define CONFORM_SKIP "a_server_without_descriptors_answers_late",
#define CONFORM_ONLY_TURNS
#include "lab/conform.h"

#include "api/net_test.c"
