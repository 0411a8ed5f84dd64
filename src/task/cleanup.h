/* SPDX-License-Identifier: MIT */
/*
 * The cleanups of a task, the newest last.
 *
 *     table:   | 0 | 1 | 2 | 3 | ...          count
 *                            ^ floor: those below wait while the cleanup under it runs
 *
 * A cleanup that runs keeps its place, emptied, until it is over: what it defers or opens comes
 * above it and thereby counts as newer than everything below.
 */
#ifndef KIN_TASK_CLEANUP_H
#define KIN_TASK_CLEANUP_H

#include <stddef.h>
#include <stdint.h>

#define KIN__CLEANUPS_INLINE 4u

enum kin__cleanup_kind {
    KIN__CLEANUP_TAKEN = 0, /* it runs, or has run: nothing is left to do */
    KIN__CLEANUP_PLAIN,     /* fn */
    KIN__CLEANUP_TRY        /* try_fn, which may fail */
};

/* One thing to do. */
struct kin__cleanup {
    union {
        void (*fn)(void *arg);
        int (*try_fn)(void *arg);
    };
    void *arg;
    uint64_t kind; /* enum kin__cleanup_kind */
};

struct kin__cleanups {
    uint32_t count;
    uint32_t capacity;
    struct kin__cleanup *table; /* NULL: none yet; first, or beyond that on the heap */
    uint32_t floor;             /* 0: the body runs; else 1 + the place of the running cleanup */
    uint32_t failed;            /* how many cleanups failed, */
    int32_t status;             /* with what the first of them did, */
    const void *culprit;        /* and its code */
    struct kin__cleanup first[KIN__CLEANUPS_INLINE];
};

/* first stays as it is: what is above count is nobody's. */
static inline void kin__cleanups_init(struct kin__cleanups *cleanups)
{
    cleanups->count = 0;
    cleanups->capacity = 0;
    cleanups->table = NULL;
    cleanups->floor = 0;
    cleanups->failed = 0;
    cleanups->status = 0;
    cleanups->culprit = NULL;
}

#endif
