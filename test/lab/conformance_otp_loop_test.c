/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of the loop of a server promise on workers holds in the lab, under every
 * strategy.
 * Method: those tests themselves, run by conform.h.
 * Left out: one about the turns of a worker, of a thousand operations each; here each of them is a
 * step, and turns are the lab's to give.
 */
#define CONFORM_SKIP                                                                               \
    "a_server_that_only_continues_lets_others_run",
#include "lab/conform.h"

#include "otp/server_loop_test.c"
