/* SPDX-License-Identifier: MIT */
/*
 * The local values of a task, in the order in which they were set.
 */
#ifndef KIN_TASK_LOCAL_H
#define KIN_TASK_LOCAL_H

#include <stddef.h>
#include <stdint.h>

struct kin_local_key;

#define KIN__LOCALS_INLINE 4u

struct kin__local {
    const struct kin_local_key *key;
    void *value;          /* never NULL */
    uint32_t is_borrowed; /* inherited: its owner destroys it */
    uint32_t round;       /* of destruction in which it was set; 0: before all of them */
};

struct kin__locals {
    uint32_t count;
    uint32_t capacity;
    struct kin__local *table; /* NULL: none yet; first, or beyond that on the heap */
    uint32_t round;           /* of destruction; 0: the task is not over */
    struct kin__local first[KIN__LOCALS_INLINE];
};

/* first stays as it is: what is above count is nobody's. */
static inline void kin__locals_init(struct kin__locals *locals)
{
    locals->count = 0;
    locals->capacity = 0;
    locals->table = NULL;
    locals->round = 0;
}

#endif
