/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of task_join promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 */
#include "lab/conform.h"

#include "api/task_join_test.c"
