/* SPDX-License-Identifier: MIT */
/*
 * An account: what a metered task, or the pool of a nursery, may still use [SCHED:3.1.1].
 *
 *     sources ---given----> account ----given----> others' accounts
 *                           | used
 *     nowhere --minted-->   v
 *
 *     left + used + what others hold = given + minted          (each part that has a limit)
 *
 * Whoever recharges a task comes from elsewhere, so an account has a lock of its own. No two of
 * them are held at once: an amount that moves is in neither for a moment.
 */
#ifndef KIN_TASK_ACCOUNT_H
#define KIN_TASK_ACCOUNT_H

#include "base/list.h"
#include "base/lock.h"

#include <kin/budget.h>

#include <stdbool.h>
#include <stdint.h>

/* The parts, in the order of enum kin_budget_part. */
enum kin__part {
    KIN__PART_OPS,
    KIN__PART_MEMORY,
    KIN__PART_SPAWNS,
    KIN__PART_CHANNEL_OPS,
    KIN__PART_SYSCALLS,
    KIN__PARTS
};

#define KIN__UNLIMITED UINT64_MAX

/* Among the caps of a task: it has an account. Changes under the lock of its nursery only, so that
 * whoever holds that knows. */
#define KIN__CAPS_ACCOUNT 0x8000u

/* A budget with parts of one width. */
struct kin__amounts {
    uint64_t of[KIN__PARTS];
};

struct kin__account;

/* Where amounts come from; NULL: there is no limit. Ops, channel operations and system calls are
 * soft: who runs out of them may be given more at once. Memory and spawns are hard. */
struct kin__purse {
    struct kin__account *soft, *hard;
};

struct kin__account {
    struct kin__lock lock; /* rank WAIT */

    /* constant once it is in use */
    uint8_t is_pooled; /* has nothing of its own: lives off its sources */
    uint8_t is_hard;   /* its hard parts bound its nurseries, too, and not just itself */
    uint8_t refills;   /* takes more of a soft part from its source when it is used up */
    uint8_t fails;     /* does not wait for a recharge */
    /* the task's own */
    uint8_t exhausted; /* enum kin_budget_part of the last KIN_BUDGET */

    /* under the lock */
    struct kin__list hungry; /* of a struct kin__waitq: who waits for something from here */
    struct kin__amounts left;
    struct kin__amounts given;  /* from the sources in all; returns as far as it is left */
    struct kin__amounts minted; /* what came from nowhere; ends with the account */
#ifdef KIN_DEBUG
    struct kin__amounts used;
#endif

    struct kin__purse source;    /* constant */
    struct kin__amounts quantum; /* how much a refill takes, unless is_pooled; constant */
    struct kin__amounts limit;   /* how much it may still give itself; the task's own */
};

#endif
