/* SPDX-License-Identifier: MIT */
/*
 * What a supervisor decides, as functions of what it knows: no task, no clock, no lock.
 *
 *     the order     in which children are started: each after those it depends on, otherwise as
 *                   they were given
 *     the verdict   what the end of one child means
 *     the plan      which children are stopped and started again: a range of ranks. They are
 *                   cancelled from the last to the first and restarted from the first to the last
 *     the history   when restarts were; whether one more is one too many
 *     the pace      how long to wait before the next attempt
 */
#ifndef KIN_OTP_PLAN_H
#define KIN_OTP_PLAN_H

#include "base/rng.h"

#include <kin/supervisor.h>

/* ---- the order ---- */

/* Fills order[0 .. count) with the indices of the children in the order of their starts: the first
 * in the array of all whose dependencies have come. Each child has a name of its own. 0; -EINVAL
 * when a name is missing, empty or there twice, when a dependency is unknown, or when they run in a
 * circle; -ENOMEM. */
int kin__plan_order(const struct kin_child_spec *children, size_t count, struct kin__hash_key key,
                    uint32_t *order);

/* ---- the verdict ---- */

enum kin__verdict {
    KIN__VERDICT_KEEP,    /* it stays, stopped [SUP-STOP-CHILD] */
    KIN__VERDICT_FORGET,  /* its spec goes with it */
    KIN__VERDICT_RESTART, /* by a plan */
    KIN__VERDICT_STOP,    /* the supervisor stops, well */
    KIN__VERDICT_ESCALATE /* the supervisor ends as the child did [SUP-ESCALATE] */
};

/* What an end with this severity means for a child of this kind [SUP-CHILD-FAILED]. is_quiet: it is
 * a supervisor that gave up and asks for nothing. */
enum kin__verdict kin__plan_verdict(enum kin_restart restart, enum kin_severity severity,
                                    bool is_quiet, enum kin_child_stopped on_stopped);

/* ---- the plan ---- */

/* Children whose ranks are first to last, both included. */
struct kin__plan {
    uint64_t first, last;
};

/* The plan for a child that failed [SUP-PLAN-RESTART]. */
struct kin__plan kin__plan_of(enum kin_strategy strategy, uint64_t rank);

static inline bool kin__plan_has(struct kin__plan plan, uint64_t rank)
{
    return plan.first <= rank && rank <= plan.last;
}

/* ---- the history ---- */

struct kin__history {
    unsigned max;   /* restarts in a window */
    int64_t window; /* ns */
    int64_t *times; /* a ring of those that may count, the oldest first */
    size_t cap, first, count;
};

/* max and window as in struct kin_supervisor_options. False: no memory. */
bool kin__history_init(struct kin__history *history, unsigned max, int64_t window);
void kin__history_fini(struct kin__history *history);
/* One more restart at this time, which is not before the last one. False: it is one too many, and
 * is not noted [SUP-BUDGET-EXCEEDED]. A restart that is a whole window old does not count. */
bool kin__history_add(struct kin__history *history, int64_t now);
/* Nothing was. */
void kin__history_clear(struct kin__history *history);

/* ---- the pace ---- */

/* Whether its numbers make sense. */
bool kin__backoff_is_valid(const struct kin_backoff *backoff);
/* How long to wait now. *delay is what the last wait was without its jitter, 0 before the first,
 * and becomes that of this one. */
int64_t kin__backoff_next(const struct kin_backoff *backoff, int64_t *delay, struct kin__rng *rng);

#endif
