/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of signal promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h, with signals that are raised in the lab. Left
 * out are those about the process: its masks, handlers, system calls and its end, and about threads
 * that run side by side.
 */
#define CONFORM_SKIP                                                                               \
    "when_the_runtime_ends_everything_is_as_before", "a_signal_that_all_threads_block_arrives",    \
        "every_runtime_gets_it", "signals_interrupt_nobody", "another_signal_ends_the_process",    \
        "after_the_nursery_signals_do_what_they_did",
#define CONFORM_ONLY_TURNS
#include "lab/conform.h"

#include <kin/kin.h>

#include <signal.h>

#define kill(process, signo) ((void)(process), kin_lab_raise(signo))
#include "api/signal_test.c"
