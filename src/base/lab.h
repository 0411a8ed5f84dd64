/* SPDX-License-Identifier: MIT */
/*
 * What every floor says to the lab: where others may come in between, what a step touches, and what
 * could happen in more than one way. Without KIN__LAB nothing of it leaves an instruction.
 *
 * A step is what a task does between two points. It touches what others may touch as well: the
 * words behind base/atomic.h and the locks of base/lock.h say so by themselves. Files whose state
 * is not the program's (base, plat, mem, sched and the lab itself) are compiled with KIN__LAB_QUIET
 * and say nothing.
 *
 * The functions are defined in src/lab, above everybody who calls them, like kin__lock_slow of
 * base/lock.h.
 */
#ifndef KIN_BASE_LAB_H
#define KIN_BASE_LAB_H

#include <stdbool.h>
#include <stdint.h>

/* How a step touches something; the numbers are those of enum kin__touch in lab/engine.h. */
#define KIN__LAB_READ 1u
#define KIN__LAB_ADD 2u /* adds, and looks at no result */
#define KIN__LAB_WRITE 4u

/* What is chosen; the numbers are those of enum kin__choice in lab/engine.h. */
#define KIN__LAB_CASE 1u  /* which ready case of a select */
#define KIN__LAB_TIMER 2u /* which of several deadlines of one moment */

#ifdef KIN__LAB

/* What every touch and every door looks at; the rest of the world is in lab/world.h. */
struct kin__lab_gate {
    uint32_t touched; /* how this step has touched anything: KIN__LAB_ bits */
    uint32_t records; /* the engine wants to know what */
    uint32_t notes;   /* every door is told to people */
};
extern struct kin__lab_gate kin__lab_gate;

void kin__lab_touch_slow(uintptr_t what, unsigned mode);
void kin__lab_point_slow(void);
/* One of n, 0 <= answer < n. */
uint32_t kin__lab_choose(unsigned kind, uint32_t n, const char *label);
/* Whether an execution is under way: what is outside of the process cannot be reached then. */
bool kin__lab_is_inside(void);
/* The process is about to abort because of this. In an execution it is that which ends, and this
 * does not return. */
void kin__lab_abort(const char *text);
/* The running task begins an operation that may wait: it may fail there. */
void kin__lab_op(void);
/* Whether a budget is to be used up here. */
bool kin__lab_exhausts(void);
/* A nursery has been joined: all its children are over, and its handle says how. */
struct kin__scope;
void kin__lab_joined(const struct kin__scope *scope);

static inline void kin__lab_touch(const volatile void *what, unsigned mode)
{
    kin__lab_gate.touched |= mode;
    if (__builtin_expect(kin__lab_gate.records != 0, 0))
        kin__lab_touch_slow((uintptr_t)what, mode);
}

/* Others may run here, if this task has touched anything since they could. */
static inline void kin__lab_point(void)
{
    if (kin__lab_gate.touched | kin__lab_gate.notes)
        kin__lab_point_slow();
}

#define KIN__LAB_POINT() kin__lab_point()
#define KIN__LAB_INSIDE() kin__lab_is_inside()
#define KIN__LAB_ABORT(text) kin__lab_abort(text)
#define KIN__LAB_OP(deadline) ((deadline) != 0 ? kin__lab_op() : (void)0)
#define KIN__LAB_EXHAUSTS() kin__lab_exhausts()
#define KIN__LAB_JOINED(scope) kin__lab_joined(scope)

#else
#define KIN__LAB_POINT() ((void)0)
#define KIN__LAB_INSIDE() false
#define KIN__LAB_ABORT(text) ((void)0)
#define KIN__LAB_OP(deadline) ((void)0)
#define KIN__LAB_EXHAUSTS() false
#define KIN__LAB_JOINED(scope) ((void)0)
#endif

#if defined(KIN__LAB) && !defined(KIN__LAB_QUIET)
#define KIN__LAB_TOUCH(p, mode) kin__lab_touch((p), (mode))
#else
#define KIN__LAB_TOUCH(p, mode) ((void)0)
#endif

#endif
