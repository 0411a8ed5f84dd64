/* SPDX-License-Identifier: MIT */
/*
 * What the parts of this floor do for each other at the birth and the end of a task: cleanups,
 * local values, budgets, obligations.
 */
#ifndef KIN_SCOPE_BELONGINGS_H
#define KIN_SCOPE_BELONGINGS_H

#include "sched/extra.h"
#include "scope/scope.h"
#include "task/bill.h"

struct kin_obligation;

/* A task that was made and never linked has belongings: they go, nothing runs. */
void kin__extra_discard(struct kin__task *task);

/* local.c: copies the values that spawner hands down. 0, -ENOMEM, KIN_BUDGET. */
int kin__local_inherit(struct kin__task *spawner, struct kin__task *child);
/* Destroys every value that is the task's own; on the task's stack. */
void kin__local_destroy(struct kin__task *task);
/* Gives back the memory of the table alone. */
void kin__local_free(struct kin__locals *locals);

/* cleanup.c: the first cleanup of a child that is being made; its arg is yet to be said. False: no
 * memory. */
bool kin__cleanup_plan(struct kin__task *child, void (*fn)(void *arg));
/* Runs it outside of the task, which has no stack and never gets one. */
void kin__cleanup_unrun(struct kin__task *task);
/* Gives back the memory of the table alone. */
void kin__cleanup_free(struct kin__cleanups *cleanups);
/* Runs fn(arg) as a cleanup of a task that is over and has no others left: whatever it does, this
 * returns. */
void kin__cleanup_run(struct kin__task *task, void (*fn)(void *arg), void *arg);
/* kin_fail in the running task: true when that is the failure of a cleanup and not of the body. */
bool kin__cleanup_fail(struct kin__task *task, int status);

/* alloc.c: kin_alloc for a task, NULL: a plain thread, whose client pays if it has one; without the
 * charge of an operation. NULL
 * when there is no memory, or, if *rc is KIN_BUDGET, no budget for it. */
void *kin__alloc(struct kin__task *task, size_t size, int *rc);
/* The rare half of kin__bill_take. */
int kin__budget_bill(struct kin__bill *bill, struct kin__task *task);
/* kin_free, from wherever. */
void kin__free(void *memory);

/* budget.c: the pool of a nursery that is being opened; options may be NULL. 0, KIN_NOCAP,
 * KIN_BUDGET. */
int kin__budget_open(struct kin__scope *scope, struct kin__task *owner,
                     const struct kin_nursery_options *options);
/* What a child may do and use; spawner NULL: a plain thread. 0, KIN_BUDGET, KIN_NOCAP, -ENOMEM. */
int kin__budget_admit_locked(struct kin__scope *scope, struct kin__task *spawner,
                             struct kin__task *child, const struct kin_spawn_options *options);
/* What is left of a child's budget returns to its nursery's pool. */
void kin__budget_settle(struct kin__task *task);

/* obligation.c: those that a task leaves behind are leaked: counted and, if is_told, reported. How
 * many. */
size_t kin__obligation_leak(struct kin__task *task, bool is_told);
/* From now on the running task owes it. 0, KIN_STALE, -ENOMEM. */
int kin__obligation_adopt(struct kin_obligation *handle, struct kin__task *task);
/* Leaks that were found elsewhere, such as dropped replies. */
void kin__leaks_add(struct kin__sched *sched, size_t count);

/* words.c: what the running task says about an end with this status, "" for nothing. Newer words
 * replace older ones. */
void kin__words_say(struct kin__task *task, int status, const char *text);
/* What the running task has said about this status; "": nothing. */
const char *kin__words_said(const struct kin__task *task, int status);
/* The running task ends with this status: its nursery gets the words for that. */
void kin__words_conclude(struct kin__task *task, int status);

#endif
