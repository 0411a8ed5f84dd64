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

/* What a run has died of: two that die of the same signal in the same place die in the same way. */
struct kin__cause {
    int signo;
    char place[160]; /* in the program */
    unsigned looked_count;
    uintptr_t looked[16]; /* addresses that were looked at to find it, most of the work */
};
const struct kin__cause *kin__death_cause(void);
/* How long a step may last in real time, in nanoseconds. */
int64_t kin__death_patience(void);
/* In a process that was made for one watched run: how long one may last there. */
void kin__death_tick(int64_t patience);
/* Looks at what was looked at for a cause; then it is found at once in this process and in those
 * that it starts. */
void kin__death_look(const struct kin__cause *at);

#endif
