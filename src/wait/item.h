/* SPDX-License-Identifier: MIT */
/*
 * Items of streams and queues: copying and measuring them, and how each operation on them begins.
 */
#ifndef KIN_WAIT_ITEM_H
#define KIN_WAIT_ITEM_H

#include "base/assert.h"
#include "base/bits.h"
#include "sched/entry.h"
#include "sched/sched.h"
#include "task/bill.h"
#include "task/budget.h"

#include <kin/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KIN__ITEM_MAX ((size_t)65536) /* bytes; what is copied under a lock is bounded */

/* The sizes that most items have are moved without a call. to may be NULL: nobody wants it. */
static inline void kin__item_copy(void *to, const void *from, size_t size)
{
    if (KIN__UNLIKELY(!to))
        return;
    switch (size) {
    case 0:
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    case 8:
        memcpy(to, from, 8);
        break;
    case 16:
        memcpy(to, from, 16);
        break;
    default:
        memcpy(to, from, size);
    }
}

/* Slots of a ring for capacity items, a power of two, and the bytes they take. False: more than can
 * be addressed, or an item is too large. */
static inline bool kin__item_measure(size_t item_size, size_t capacity, size_t *slots,
                                     size_t *bytes)
{
    if (item_size > KIN__ITEM_MAX || capacity > PTRDIFF_MAX)
        return false;
    *slots = (size_t)kin__round_up_pow2(capacity);
    return !__builtin_mul_overflow(*slots, item_size, bytes) && *bytes <= PTRDIFF_MAX / 2;
}

/* What an operation that may park begins with: 0, or what it must answer instead. */
static inline int kin__item_enter(kin_time deadline)
{
    return kin__entry_begin(kin__task_self(), KIN_CAP_CHANNEL | KIN__COST_CHANNEL, deadline);
}

/* The same for one that waits for nothing but its budget, and may come from any thread: creating
 * something, which does not even do that, costs 0, using it KIN__COST_CHANNEL. */
static inline int kin__item_enter_anywhere(unsigned cost)
{
    return kin__entry_begin_anywhere(KIN_CAP_CHANNEL | cost, cost ? KIN_NEVER : 0);
}

/* Whether an operation tries before it parks: always, but in hard mode park those that may wait do
 * not, so that the rare path is the common one. */
static inline bool kin__item_tries(kin_time deadline)
{
#ifdef KIN_DEBUG
    struct kin__worker *worker = kin__worker_self();
    return deadline == 0 || !worker || !worker->sched->hard.park;
#else
    (void)deadline;
    return true;
#endif
}

#endif
