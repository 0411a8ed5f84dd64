/* SPDX-License-Identifier: MIT */
/*
 * A poller: how a runtime learns that descriptors are ready. One table, filled in for each way that
 * the system has. There is one, epoll. A poller of io_uring was here: it gained nothing that a
 * benchmark shows, holds the files that it watches, and ends every watch when the peer has said
 * all, also one for room to write: a writer whose peer half-closes would wait for ever or spin.
 */
#ifndef KIN_PLAT_POLLER_H
#define KIN_PLAT_POLLER_H

#include "plat/plat.h"

struct kin__poller; /* of one kind, in memory of its own */

struct kin__poller_kind {
    const char *name; /* for people */

    /* 0 and a poller; -ENOMEM, -EMFILE; -ENOSYS, -EPERM, -EOPNOTSUPP: the system refuses it. */
    int (*create)(struct kin__poller **out);
    void (*destroy)(struct kin__poller *poller);
    /* Tells of the descriptor from now on, under the name data, of each change once. is_known: it
     * was watched here before under the same number, and may still be. 0, -EBADF, -EPERM when it
     * cannot be watched, -ENOMEM, -ENOSPC. */
    int (*watch)(struct kin__poller *poller, int fd, uint64_t data, bool is_known);
    /* Tells of it no more. What it has told before may still come out of a wait. */
    void (*unwatch)(struct kin__poller *poller, int fd);
    /* Waits at most ns for something to tell: 0 not at all, -1 without end. How many, or 0. One
     * thread at a time. */
    int (*wait)(struct kin__poller *poller, struct kin__ready *ready, int max, int64_t ns);
    /* Ends a wait, now or as soon as it begins. */
    void (*wake)(struct kin__poller *poller);
};

extern const struct kin__poller_kind kin__poller_epoll;

#endif
