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
 * When an account is settled, what is left of what was given returns to its source, and the rest is
 * used there from then on: memory of blocks that are still there returns when these are freed.
 *
 * Whoever recharges a task comes from elsewhere, so an account has a lock of its own. No two of
 * them are held at once, and an amount that moves is in neither for a moment, but for one that
 * lives off another: it takes its portions, and these are taken back, under the locks of both.
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

/* Whether what was used is noted, so that somebody can see that nothing is lost. */
#if defined(KIN_DEBUG) || defined(KIN__LAB)
#define KIN__ACCOUNTS_CHECK 1
#else
#define KIN__ACCOUNTS_CHECK 0
#endif

/* Among the caps of a task: it has an account. Changes under the lock of its nursery only, so that
 * whoever holds that knows. */
#define KIN__CAPS_ACCOUNT 0x8000u

/* A budget with parts of one width. */
struct kin__amounts {
    uint64_t of[KIN__PARTS];
};

struct kin__account;

/* Who paid for a block of memory: an account or, when that was settled, the one that it drew from.
 * Blocks and accounts refer to it, so that a free finds out who has the budget again, however much
 * later it comes. */
struct kin__payer {
    struct kin__lock lock;        /* rank TASK: accounts are locked inside of it; the first three */
    uint32_t refs;
    struct kin__account *account; /* NULL: settled */
    uint64_t owed;                /* once it is: what of the blocks is still to return further up */
    struct kin__payer *up;        /* constant; NULL: there is no limit further up */
    /* constant: a block of so many bytes is gone, and with it its reference to this */
    void (*refund)(struct kin__payer *payer, uint64_t amount);
};

/* Where amounts come from; NULL: there is no limit. Ops, channel operations and system calls are
 * soft: who runs out of them may be given more at once. Memory and spawns are hard. */
struct kin__purse {
    struct kin__account *soft, *hard;
};

struct kin__account {
    struct kin__lock lock; /* rank WAIT; POOLED if it is, inside of its source's */

    /* constant once it is in use */
    bool is_pooled : 1; /* has nothing of its own: lives off its sources */
    bool is_hard : 1;   /* its hard parts bound its nurseries, too, and not just itself */
    bool refills : 1;   /* takes more of a soft part from its source when it is used up */
    bool fails : 1;     /* does not wait for a recharge */
    bool is_given : 1;  /* of a task: whoever spawned it has set its budget */
    /* the task's own */
    uint8_t exhausted; /* enum kin_budget_part of the last KIN_BUDGET */

    /* under the lock */
    struct kin__list hungry; /* of a struct kin__waitq: who waits for something from here */
    struct kin__list holders; /* who lives off it and took a portion; NULL: nobody ever did */
    struct kin__amounts left;
    struct kin__amounts given;  /* from the sources in all; returns as far as it is left */
    struct kin__amounts minted; /* what came from nowhere; ends with the account */
#if KIN__ACCOUNTS_CHECK
    struct kin__amounts used;
    struct kin__amounts owed; /* handed to those who wait for it and have not noted it yet */
#endif

    struct kin__purse source; /* constant */
    _Atomic(struct kin__payer *) payer; /* NULL: it never paid for memory; set once */
    union {
        struct { /* if it is pooled; under the lock of source.soft */
            struct kin__list holds; /* among its holders */
            uint64_t portion;       /* of ops, what the last one left it with */
        };
        struct kin__amounts quantum; /* if it is not: how much a refill takes; constant */
    };
    struct kin__amounts limit; /* how much it may still give itself; the task's own */
    struct kin__amounts *phase; /* what the task may use at the moment, beside; NULL: as much as it
                                   has; the task's own */
};

#endif
