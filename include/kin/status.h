/* SPDX-License-Identifier: MIT */
/*
 * Statuses: what a call returns when it does not succeed.
 *
 *        0 ...       success, or a count
 *    -4095 ... -1    -errno, as the operating system gave it
 *          ... -4096 a condition of the runtime: enum kin_status
 *
 * The two families are disjoint, so that one int carries both and `if (rc < 0)` catches both: the
 * cancellation of a scope (KIN_CANCELLED) is never mistaken for -ECANCELED from the kernel. kin
 * neither sets nor reads the variable errno: it belongs to a thread, and a task may change threads.
 * A task that makes system calls of its own reads it with kin_errno().
 */
#ifndef KIN_STATUS_H
#define KIN_STATUS_H

#include <kin/base.h>

KIN_BEGIN_DECLS

enum kin_status {
    KIN_OK = 0,
    KIN_CANCELLED = -4096,   /* this task or its scope was cancelled */
    KIN_TIMEOUT = -4097,     /* N2001: a deadline passed */
    KIN_CLOSED = -4098,      /* channel or mailbox closed and drained */
    KIN_FULL = -4099,        /* no room and the call may not wait */
    KIN_EMPTY = -4100,       /* nothing there and the call may not wait */
    KIN_BUDGET = -4101,      /* a budget component is used up; kin_budget_exhausted() says which */
    KIN_NOSCOPE = -4102,     /* N1001: no nursery, or it no longer admits children */
    KIN_NOTASK = -4103,      /* N1002: called outside a task, where a task is needed */
    KIN_STUCK = -4104,       /* N2002: a task did not react to cancellation in time */
    KIN_ORPHAN = -4105,      /* N3001: a task outlived its nursery; impossible, checked anyway */
    KIN_CLEANUP = -4106,     /* N3002: a cleanup failed */
    KIN_NOCAP = -4107,       /* the task does not hold the capability */
    KIN_PANICKED = -4108,    /* a task panicked */
    KIN_OVERFLOW = -4109,    /* a task overflowed its stack */
    KIN_WORKER = -4110,      /* a worker was lost and replaced */
    KIN_NOPROC = -4111,      /* no such server, task or name */
    KIN_TAKEN = -4112,       /* the name is taken */
    KIN_STOPPING = -4113,    /* the server is draining or stopping */
    KIN_NOREPLY = -4114,     /* the server dropped the call without an answer */
    KIN_REPLIED = -4115,     /* a second answer to one call */
    KIN_GONE = -4116,        /* the caller no longer waits for this answer */
    KIN_EXHAUSTED = -4117,   /* restart budget used up */
    KIN_LEAKED = -4118,      /* an obligation was leaked */
    KIN_DEADLOCK = -4119,    /* nothing can ever wake these tasks; a server calling itself */
    KIN_NOCONN = -4120,      /* the node is not connected */
    KIN_STALE = -4121,       /* the handle refers to something that is over */
    KIN_UNSUPPORTED = -4122, /* not available in this profile, build or system */
    KIN_IGNORE = -4123       /* on_start or a child's start declined; not a failure */
};

/**
 * kin_status_name - the name of a status as it is written in C.
 * @status: what a call returned.
 *
 * A count is a success and gives "KIN_OK". A number that is neither an errno of the system nor a
 * condition of the runtime gives "unknown".
 *
 * Example:
 *     void complain(const char *what, int rc)
 *     {
 *         fprintf(stderr, "%s: %s (%s)\n", what, kin_status_text(rc), kin_status_name(rc));
 *     }
 *
 * From:    task, thread, signal
 * Parks:   no
 * Returns: "KIN_CLOSED", "EPIPE", ...; a string that is never freed, never NULL
 */
KIN_API const char *kin_status_name(int status);

/**
 * kin_status_text - what a status means, in one sentence.
 * @status: what a call returned.
 *
 * The sentence begins in lower case and has no full stop, so that it can follow a colon.
 *
 * Example:
 *     int complain(int rc)
 *     {
 *         if (rc < 0)
 *             fprintf(stderr, "%s\n", kin_status_text(rc));
 *         return rc;
 *     }
 *
 * From:    task, thread, signal
 * Parks:   no
 * Returns: "a deadline passed", ...; a string that is never freed, never NULL
 */
KIN_API const char *kin_status_text(int status);

/**
 * kin_status_code - the stable code that the specification gives a status.
 * @status: what a call returned.
 *
 * Example:
 *     void log_failure(int rc)
 *     {
 *         fprintf(stderr, "%s %s: %s\n", kin_status_code(rc), kin_status_name(rc),
 *                 kin_status_text(rc));
 *     }
 *
 * From:    task, thread, signal
 * Parks:   no
 * Returns: "N2001", ..., or "" where there is none; a string that is never freed, never NULL
 */
KIN_API const char *kin_status_code(int status);

/**
 * kin_errno - why the last system call of the running thread failed.
 *
 * For a task that calls the C library itself. The variable errno is not safe there, even right
 * after the call: a compiler looks up once in a function where errno is, and a task that has waited
 * since may be on another thread. Then the task reads what another task's call left there.
 *
 * Example:
 *     int remove_file(const char *path)
 *     {
 *         return remove(path) == 0 ? 0 : -kin_errno();
 *     }
 *
 * From:    task, thread, signal
 * Parks:   no
 * Returns: the value of errno on the thread that makes the call, as EAGAIN; 0 or more
 */
KIN_API int kin_errno(void);

KIN_END_DECLS

#endif
