/* SPDX-License-Identifier: MIT */
/*
 * Pollers: how a runtime learns that descriptors are ready. One table, filled in for each way that
 * the system has.
 *
 *     kind        a watch lasts     what it holds
 *     epoll       until unwatch     nothing: a descriptor that is closed is forgotten
 *     io_uring    until it tells    the file: it stays open as long as it is watched
 */
#ifndef KIN_PLAT_POLLER_H
#define KIN_PLAT_POLLER_H

#include "plat/plat.h"

/* Data of a watch is whatever the caller likes below this, and this when it is told that something
 * was lost, nobody knows what: every watch that has not told may be. */
#define KIN__POLLER_LOST (UINT64_MAX - 15)

struct kin__poller; /* of one kind, in memory of its own */

struct kin__poller_kind {
    const char *name; /* for people */
    bool is_once;     /* a watch ends with what it tells, and begins with what is ready */

    /* 0 and a poller; -ENOMEM, -EMFILE; -ENOSYS, -EPERM, -EOPNOTSUPP: the system refuses it. */
    int (*create)(struct kin__poller **out);
    void (*destroy)(struct kin__poller *poller);
    /* Tells of the descriptor from now on, under the name data. One that is_once tells of bits
     * (KIN__READY_READ or KIN__READY_WRITE, one of them), now if it is ready; others tell of both,
     * of each change once. is_known: it was watched here before under the same number, and may
     * still be. 0, -EBADF, -EPERM when it cannot be watched, -ENOMEM, -ENOSPC. */
    int (*watch)(struct kin__poller *poller, int fd, uint64_t data, uint32_t bits, bool is_known);
    /* Tells of it no more. What it has told before may still come out of a wait. */
    void (*unwatch)(struct kin__poller *poller, int fd, uint64_t data);
    /* Waits at most ns for something to tell: 0 not at all, -1 without end. How many, or 0. One
     * thread at a time. */
    int (*wait)(struct kin__poller *poller, struct kin__ready *ready, int max, int64_t ns);
    /* Ends a wait, now or as soon as it begins. */
    void (*wake)(struct kin__poller *poller);
};

extern const struct kin__poller_kind kin__poller_epoll;
extern const struct kin__poller_kind kin__poller_uring;

#endif
