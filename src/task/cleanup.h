/* SPDX-License-Identifier: MIT */
/*
 * The cleanups of a task, the newest last.
 *
 *     table:   | 0 | 1 | 2 | 3 | ...          count
 *                            ^ floor: those below wait while the cleanup under it runs
 *
 * A cleanup that runs keeps its place, emptied, until it is over: what it defers or opens comes
 * above it and thereby counts as newer than everything below.
 *
 * What KIN_USING has put down is taken back by the code of the C scope itself as long as the height
 * is what it was: nothing was put down above it since, none was released, and no nursery opened.
 * Whatever changes the height writes all of it: a load right behind a store of one half waits.
 */
#ifndef KIN_TASK_CLEANUP_H
#define KIN_TASK_CLEANUP_H

#include <stddef.h>
#include <stdint.h>

#define KIN__CLEANUPS_INLINE 4u
#define KIN__HEIGHT_EVENT (UINT64_C(1) << 32)

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the lower half of a word comes first on every machine that kin runs on"
#endif

enum kin__cleanup_kind {
    KIN__CLEANUP_TAKEN = 0, /* it runs, or has run: nothing is left to do */
    KIN__CLEANUP_PLAIN,     /* fn */
    KIN__CLEANUP_TRY        /* try_fn, which may fail */
};

/* One thing to do. */
struct kin__cleanup {
    union {
        void (*any)(void); /* either of these: */
        void (*fn)(void *arg);
        int (*try_fn)(void *arg);
    };
    void *arg;
    uint64_t kind; /* enum kin__cleanup_kind */
};

struct kin__cleanups {
    union {
        uint64_t height; /* count, and KIN__HEIGHT_EVENT for each release and nursery opened */
        uint32_t count;  /* its lower half */
    };
    struct kin__cleanup *table; /* NULL: none yet; first, or beyond that on the heap */
    uint32_t capacity;
    uint32_t floor;             /* 0: the body runs; else 1 + the place of the running cleanup */
    uint32_t failed;            /* how many cleanups failed, */
    int32_t status;             /* with what the first of them did, */
    const void *culprit;        /* and its code */
    struct kin__cleanup first[KIN__CLEANUPS_INLINE];
};

/* first stays as it is: what is above count is nobody's. */
static inline void kin__cleanups_init(struct kin__cleanups *cleanups)
{
    cleanups->height = 0;
    cleanups->capacity = 0;
    cleanups->table = NULL;
    cleanups->floor = 0;
    cleanups->failed = 0;
    cleanups->status = 0;
    cleanups->culprit = NULL;
}

#endif
