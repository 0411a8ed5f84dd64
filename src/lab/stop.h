/* SPDX-License-Identifier: MIT */
/*
 * Whether somebody wants the command line to end, and the processes that end with it.
 */
#ifndef KIN_LAB_STOP_H
#define KIN_LAB_STOP_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* The signal by which it was asked to stop; 0: nobody asked. Written by its handler. */
extern volatile sig_atomic_t kin__stop_signal;
/* The seconds after which a step that goes on is taken for one that does not end: 1, or what a test
 * on a slow machine needs. */
extern unsigned kin__stop_patience;

/* From here on SIGINT, SIGTERM and SIGHUP ask to stop, unless somebody has another use for them.
 * force is called in the handler of a signal when that takes too long: it tells what there is to
 * tell, and the process ends by the first signal. */
void kin__stop_watch(void (*force)(void));
void kin__stop_unwatch(void);
/* Ends the process by the signal by which it was asked to stop. */
_Noreturn void kin__stop_die(void);

/* As fork. The child is killed when its parent ends. is_asked: it shares the work, and is asked to
 * stop when its parent is; else it stands aside, and has nothing to tell. */
pid_t kin__stop_fork(bool is_asked);
/* Waits for such a child, and for its end if it was asked to stop. */
void kin__stop_reap(pid_t pid, int *how);
/* Whether this process is such a child. */
bool kin__stop_is_child(void);

#endif
