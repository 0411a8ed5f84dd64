/* SPDX-License-Identifier: MIT */
/*
 * Runs that would take the process with them: a crash, or a step that does not end.
 */
#ifndef KIN_LAB_DEATH_H
#define KIN_LAB_DEATH_H

#include "lab/engine.h"

/* From here on the runs of the engine are watched. When one dies, it is made the engine's failure;
 * tell is called, in the handler of a signal; then the process ends by that signal. */
void kin__death_watch(struct kin__engine *of, void (*tell)(void));
void kin__death_unwatch(void);

#endif
