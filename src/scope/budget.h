/* SPDX-License-Identifier: MIT */
/*
 * Budgets of nurseries and tasks, for the rest of this floor; beside what scope/belongings.h says.
 */
#ifndef KIN_SCOPE_BUDGET_H
#define KIN_SCOPE_BUDGET_H

#include "scope/account.h"
#include "scope/scope.h"

/* The root of a runtime and its first task, which holds every capability. 0 or -ENOMEM. */
int kin__budget_root(struct kin__scope *root, struct kin__task *first);
/* A nursery is over: what is left of its pool returns to where it came from [B13]. */
void kin__budget_close(struct kin__scope *scope, struct kin__wakes *wakes);
/* Takes back what kin__budget_admit_locked did, for a child that is not linked after all. */
void kin__budget_dismiss_locked(struct kin__scope *scope, struct kin__task *spawner,
                                struct kin__task *child);
/* The scope of the task of this name, locked; NULL: the task is over. As long as it is locked, and
 * KIN__CAPS_ACCOUNT is among its caps, the account of the task stays. */
struct kin__scope *kin__budget_lock_scope_of(uint64_t id, struct kin__task **out);
/* The running task is refused for want of a part: notes which, and returns KIN_BUDGET. */
int kin__budget_refuse(struct kin__task *task, enum kin_budget_part part);
/* A part of the running task's life with a budget of its own, beside that of the task: the smaller
 * of the two bounds each component. */
struct kin__phase {
    struct kin__amounts left;
    bool is_on;   /* it has a budget at all */
    bool is_made; /* the task had no account before */
};
/* Begins one; all zero: without a limit. *phase is kept until it ends. 0 or -ENOMEM. */
int kin__phase_begin(struct kin__task *task, struct kin__phase *phase,
                     const struct kin_budget *budget);
/* Ends the one that the running task is in. */
void kin__phase_end(struct kin__task *task, struct kin__phase *phase);
/* What the children of a nursery draw from. */
static inline struct kin__purse kin__budget_bank(const struct kin__scope *scope)
{
    return scope->has & KIN__SCOPE_METERED ? scope->bank : (struct kin__purse){NULL, NULL};
}

#endif
