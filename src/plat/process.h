/* SPDX-License-Identifier: MIT */
/*
 * Processes of the operating system: start a program, signal it, find out that it is over.
 */
#ifndef KIN_PLAT_PROCESS_H
#define KIN_PLAT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

enum kin__program_group { KIN__PROGRAM_SHARED, KIN__PROGRAM_GROUP, KIN__PROGRAM_SESSION };

/* What is to be started. */
struct kin__program {
    const char *const *argv; /* the first one is looked for in PATH if it has no slash */
    const char *const *env;  /* NULL: this process's */
    const char *cwd;         /* NULL: this process's */
    int fds[3];              /* what its 0, 1 and 2 are copies of; -1: this process's */
    enum kin__program_group group;
};

/* A process that was started. */
struct kin__child {
    int pid;
    int fd; /* a descriptor of it (pidfd), readable once it is over; -1: the system has none */
};

/* Starts a program; blocks the thread until it is loaded or has failed to be. The process has no
 * signal blocked and all at their default, but for what is ignored here of SIGHUP, SIGINT and
 * SIGQUIT; and no descriptor beyond 2. 0 or -errno, and then there is no process. */
int kin__program_start(const struct kin__program *program, struct kin__child *out);

/* Sends a signal; the child has not been reaped. 0 or -errno. */
int kin__child_signal(const struct kin__child *child, int signo, bool to_group);
/* Looks whether it is over: 1, with how in *wstatus; 0: it runs; -ECHILD: it is gone, and somebody
 * else knows how. Unless keeps, its number is free after that. Never blocks. */
int kin__child_reap(const struct kin__child *child, bool keeps, int *wstatus);

/* A pipe, close-on-exec; the end ours (0: to read from, 1: to write to) does not block. */
int kin__pipe_open(int ends[2], int ours);
/* What swallows everything and has nothing; close-on-exec. The descriptor or -errno. */
int kin__null_open(void);

/* For tests: as if the system lacked these, from here on. */
struct kin__program_lacks {
    bool pidfd, close_range;
};
void kin__program_force(struct kin__program_lacks lacks);
/* For tests: whether the children of all starts so far shared our memory. Not so in emulators. */
bool kin__program_shares(void);

#endif
