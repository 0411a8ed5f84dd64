/* SPDX-License-Identifier: MIT */
/*
 * Making a run small that takes its process with it.
 */
#ifndef KIN_LAB_CRASH_H
#define KIN_LAB_CRASH_H

#include "lab/engine.h"

struct kin__options;
struct kin_lab_config;
struct kin_lab_test;

/* Starts the process that will do it, should a run crash, where a failure is to be shrunk at all:
 * the keeper, which has the memory as it is now. */
void kin__crash_prepare(const struct kin__options *options);
/* What is run from here on; the pointers are borrowed until the next call. */
void kin__crash_note(const struct kin__options *options, const struct kin_lab_config *config,
                     const struct kin_lab_test *test);
/* In the handler of a signal: the engine's failure is a crash or a hang. True: it was made as small
 * as it gets and told. False: nothing was told. */
bool kin__crash_shrink(const struct kin__engine *engine);
/* No run crashes any more. */
void kin__crash_release(void);

/* How the keeper makes runs of its engine, which was made as that of the crash. */
struct kin__crash_how {
    struct kin__engine *engine;
    void (*execute)(void);  /* makes the run that the engine has begun */
    void (*tell)(void);     /* in the handler of a signal: the engine's failure is told */
    void (*progress)(void); /* between two runs */
};

/* Whether this process is the keeper, and has a crash to work on. */
bool kin__crash_is_keeper(void);
/* Works on it, and ends the process. */
_Noreturn void kin__crash_work(const struct kin__crash_how *how);

#endif
