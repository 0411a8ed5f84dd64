/* SPDX-License-Identifier: MIT */
/*
 * The poller of a runtime: who watches its descriptors, and wakes whoever waits for them.
 */
#ifndef KIN_WAIT_POLLER_H
#define KIN_WAIT_POLLER_H

#include "plat/poller.h"
#include "sched/sched.h"
#include "wait/poll.h"

struct kin__files;

#define KIN__WATCHER_BATCH 32 /* as many as stay warm in the caches until their tasks run */

struct kin__watcher {
    /* constant */
    const struct kin__poller_kind *kind;
    struct kin__poller *impl;
    uint32_t number; /* no other poller of the process ever has it */

    kin__a32 files_state;     /* how calls on files are carried out; whoever starts it, once */
    struct kin__files *files; /* written before the state */
    int files_error;          /* why there is none; likewise */
    /* whoever polls, which may be on the cold stack of a task that parks: not there */
    struct kin__ready ready[KIN__WATCHER_BATCH];
    struct kin__fd_entry *entries[KIN__WATCHER_BATCH]; /* theirs; while they are fetched */
};

/* Gives a runtime its poller, if it has none. 0 or -errno. */
int kin__watcher_start(struct kin__sched *sched);
/* The poller of the runtime that the caller is in; NULL: outside of one, or it has none. */
static inline struct kin__watcher *kin__watcher_here(void)
{
    struct kin__worker *worker = kin__worker_self();
    /* pairs with the store in install */
    return worker && kin__load_acquire(&worker->sched->io) ? worker->sched->io_state : NULL;
}

/* Whether the kernel tells the poller about the descriptor for as long as it is open. */
static inline bool kin__watcher_has(const struct kin__watcher *watcher, const struct kin__fd *fd)
{
    /* relaxed: a descriptor that is being closed is found to be when the waiter is linked */
    return kin__fd_is(fd, KIN__FD_OURS) &&
           kin__load_relaxed(&fd->entry->poller) == watcher->number; /* relaxed: as above */
}

/* Under the entry's lock: the kernel tells the poller about the descriptor. 0 or -errno. */
int kin__watcher_add_locked(struct kin__watcher *watcher, const struct kin__fd *fd);

#endif
