/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of io promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h.
 */
/* one about a thread; in the lab no number is used again; files are somebody else's; what a socket
 * of the lab has in its queue cannot be asked for */
#define CONFORM_SKIP                                                                               \
    "a_sleeping_runtime_hears_the_world", "a_number_that_is_used_again_is_another_descriptor",     \
        "sockets_and_files_need_their_capability_whoever_opened_them",                             \
        "a_writer_goes_on_when_its_peer_has_said_all",
#define CONFORM_ONLY_TURNS "a_partial_write_goes_on", /* a megabyte each time */
#include "lab/conform.h"

#include "api/io_test.c"
