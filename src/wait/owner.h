/* SPDX-License-Identifier: MIT */
/*
 * Owners of locks: who holds one, whether that task is over, and what is said about it.
 *
 * A lock keeps the id of the task that holds it, so that a call by anybody else can name both, and
 * so that a lock whose owner is over is found by the next one who wants it: an id outlives its task
 * and never comes back. A task keeps a count of the locks it holds, so that its end can be reported
 * at once: see kin__owner_abandon. The locks themselves are not listed anywhere: their memory is
 * the caller's, may be gone before the task is, and a list through it would have to be taken on
 * trust.
 *
 * Such a lock stays broken: whatever it protects was left in the middle of something, so everybody
 * who wants it is told -EOWNERDEAD and nobody gets it. It is in order again when its memory is.
 */
#ifndef KIN_WAIT_OWNER_H
#define KIN_WAIT_OWNER_H

#include "base/assert.h"
#include "task/task.h"

#include <stdbool.h>
#include <stdint.h>

/* An id without its highest bit, which a lock may need; 37 bits of generations are left. */
#define KIN__OWNER_MASK (UINT64_MAX >> 1)

/* The count, in the bits of task->flags that nothing else uses. It stays at its maximum, 7, once it
 * is there: such a task ends without a report, because it may hold nothing; what it held is found
 * and reported by those who want it. */
#define KIN__TASK_LOCK 0x2000u
#define KIN__TASK_LOCKS 0xe000u

static inline uint64_t kin__owner_of(const struct kin__task *task)
{
    return kin__task_id(task) & KIN__OWNER_MASK;
}

/* The running task holds one lock more, or less. */
static inline void kin__owner_gain(struct kin__task *task)
{
    if (KIN__LIKELY(task->flags < KIN__TASK_LOCKS))
        task->flags = (uint16_t)(task->flags + KIN__TASK_LOCK);
}

static inline void kin__owner_lose(struct kin__task *task)
{
    if (KIN__LIKELY(task->flags < KIN__TASK_LOCKS))
        task->flags = (uint16_t)(task->flags - KIN__TASK_LOCK);
}

/* Whether the task that an owner names is over. */
bool kin__owner_is_over(uint64_t owner);
#if defined(KIN__LAB) || defined(KIN__ATOMS)
/* An execution begins, in which ids begin again: nothing is noted. */
void kin__owner_forget(void);
#endif

/* Aborts because call broke a rule that only a bug can break. Names the lock, its owner if that is
 * not 0, the running task, and the rule. */
_Noreturn void kin__owner_misuse(const char *call, const char *rule, const void *object,
                                 uint64_t owner);

/* Reports that the running task has found a lock whose owner is over. */
void kin__owner_report(const char *what, const void *object, uint64_t owner);

/* The task is over, its count is not 0 and its name still stands: reports it, and sees to it that
 * whoever waits for one of its locks is told. Called by scope, with no lock held. */
void kin__owner_abandon(struct kin__task *task);

/* What waits for locks say that they wait for: those are the ones that kin__owner_abandon makes
 * look again. They return KIN_CANCELLED from their wait without having been asked to stop. */
extern const char kin__owner_what_mutex[], kin__owner_what_rwlock[];

/* Where a rwlock has its writer, for whoever looks from outside. A mutex begins with its owner. */
#define KIN__RWLOCK_WRITER_AT 24u

#endif
