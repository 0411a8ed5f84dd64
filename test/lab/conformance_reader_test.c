/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of reader promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 */
/* they use options of sockets, or descriptors of the system */
#define CONFORM_SKIP                                                                               \
    "misuse_is_told", "an_end_and_a_reset_are_told_apart_and_stay",                                \
        "a_peer_that_does_not_read_loses_nothing",
#define CONFORM_ONLY_TURNS
#include "lab/conform.h"

#include "api/reader_test.c"
