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
#include <stddef.h>
#include <stdint.h>

/* How a step touches something; the numbers are those of enum kin__touch in lab/engine.h. */
#define KIN__LAB_GATHER 0u /* see KIN__TOUCH_GATHER there */
#define KIN__LAB_READ 1u
#define KIN__LAB_ADD 2u /* adds, and looks at no result */
#define KIN__LAB_WRITE 4u

/* What is chosen; the numbers are those of enum kin__choice in lab/engine.h. */
#define KIN__LAB_CASE 1u  /* which ready case of a select */
#define KIN__LAB_TIMER 2u /* which of several deadlines of one moment */

/* What is called on a channel; the numbers are those of enum kin__call in lab/history.h. */
#define KIN__LAB_SEND 1u
#define KIN__LAB_RECV 2u
#define KIN__LAB_CLOSE 3u /* rc: 0, or 1 and how many items are dropped */

/* What a supervisor decides. */
#define KIN__LAB_LEAVES_BE 0u /* nobody is started again */
#define KIN__LAB_RESTARTS 1u  /* one plan, however many it starts again */
#define KIN__LAB_FORGIVES 2u  /* its history begins anew */

/* What a task acquires and leaves again. */
#define KIN__LAB_CLEANUP 0u
#define KIN__LAB_NURSERY 1u

#ifdef KIN__LAB

/* What every touch and every door looks at; the rest of the world is in lab/world.h. */
struct kin__lab_gate {
    uint32_t touched; /* how this step has touched anything: KIN__LAB_ bits */
    uint32_t records; /* the engine wants to know what */
    uint32_t notes;   /* every door is told to people, or may be where something goes wrong */
};
extern struct kin__lab_gate kin__lab_gate;

void kin__lab_touch_slow(uintptr_t what, unsigned mode);
void kin__lab_point_slow(bool may_fail);
/* One of n, 0 <= answer < n. */
uint32_t kin__lab_choose(unsigned kind, uint32_t n, const char *label);
/* Whether an execution is under way: what is outside of the process cannot be reached then. */
bool kin__lab_is_inside(void);
/* Whether one is, and a descriptor is the system's: what happens to it is not the lab's to say. */
bool kin__lab_is_foreign(int fd);
/* A descriptor was closed, and no lock is held: others that it concerns are told. */
void kin__lab_closed(void);
/* From here on, until it is called again: memory that outlives the execution. */
void kin__lab_heap_keep(bool keeps);
/* The address of a simulated machine: 0, KIN_NOPROC, or what a fault makes of it. */
int kin__lab_lookup(const char *name, uint8_t v4[4]);
/* The process is about to abort because of this. In an execution it is that which ends, and this
 * does not return. */
void kin__lab_abort(const char *text);
/* The running task looks at the clock: others may run before it does. */
void kin__lab_reads_clock(void);
/* What the step under way reads is touched by everybody: numbers of all tasks, queues, stacks. */
void kin__lab_sees_all(void);
/* The run has drawn a random number that no strategy enumerates; who did, for people. */
void kin__lab_draws(const char *who);
/* Whether a budget is to be used up here. */
bool kin__lab_exhausts(void);
/* A channel was made; the running task begins a call on one; the call has ended with rc. */
void kin__lab_made(const void *chan, size_t item_size, size_t capacity);
void kin__lab_calls(void);
void kin__lab_called(const void *chan, unsigned what, int rc, const void *item);
/* The running task has acquired something; it leaves it; or is about to, unwinding. */
void kin__lab_acquires(unsigned kind, const void *what, uint32_t place);
void kin__lab_leaves(unsigned kind, const void *what, uint32_t place);
void kin__lab_unwinds(unsigned kind, const void *what, uint32_t place);
/* Some account of a budget has changed. */
void kin__lab_accounts(void);
/* A deadline was added to those that may come. */
void kin__lab_armed(void);
/* The running task parks with these cases: struct kin__case of park/park.h. */
void kin__lab_parks(const void *cases, uint32_t count);
/* Before a step of a walk through cancelled nurseries that may tell somebody: other tasks may run.
 * False: the caller makes the step. True: the caller is no task that could go on later, and an
 * actor of its own makes all that is left of the walk. */
struct kin__walk;
bool kin__lab_walks(const struct kin__walk *walk);
/* Between two things that the end of a task brings about: others may run. No lock is held. */
void kin__lab_ends(void);
/* A nursery has been joined: all its children are over, and its handle says how. */
struct kin__scope;
void kin__lab_joined(const struct kin__scope *scope);
/* A combinator returns, with how each of its branches has ended. */
struct kin_branch;
void kin__lab_drained(const struct kin_branch *branches, size_t count);

/* The task with this number was told something, when the newest letter in its mailbox had number
 * after; it will not read it any more; it reads it in its turn, when the oldest has number oldest
 * (0: none is there). */
struct kin_info;
void kin__lab_told(uint64_t task, const struct kin_info *info, uint64_t after);
void kin__lab_untold(const struct kin_info *info);
void kin__lab_heard(uint64_t task, const struct kin_info *info, uint64_t oldest);
/* A server has returned from a call without an answer, and nobody misses it: its caller left. */
void kin__lab_forgets(uint64_t server);
/* A supervisor has decided about a child that ended so badly, or about a start that failed. */
void kin__lab_decides(uint64_t supervisor, unsigned severity, unsigned what, int64_t window,
                      uint32_t max);

static inline void kin__lab_touch(const volatile void *what, unsigned mode)
{
    kin__lab_gate.touched |= mode;
    if (__builtin_expect(kin__lab_gate.records != 0, 0))
        kin__lab_touch_slow((uintptr_t)what, mode);
}

/* The same for an exchange that has happened, or has not. */
static inline bool kin__lab_touch_decided(const volatile void *what, bool is_done)
{
    kin__lab_touch(what, is_done ? KIN__LAB_WRITE : KIN__LAB_READ);
    return is_done;
}

/* Others may run here, if this task has touched anything since they could. may_fail: a fault may
 * end the task, as it may everywhere but where it gives back what nobody else would. */
static inline void kin__lab_point_at(bool may_fail)
{
    if (kin__lab_gate.touched | kin__lab_gate.notes)
        kin__lab_point_slow(may_fail);
}

static inline void kin__lab_point(void)
{
    kin__lab_point_at(true);
}

#define KIN__LAB_POINT() kin__lab_point()
#define KIN__LAB_POINT_GIVES() kin__lab_point_at(false)
#define KIN__LAB_INSIDE() kin__lab_is_inside()
#define KIN__LAB_FOREIGN(fd) kin__lab_is_foreign(fd)
#define KIN__LAB_CLOSED() kin__lab_closed()
#define KIN__LAB_KEEPS(keeps) kin__lab_heap_keep(keeps)
#define KIN__LAB_ABORT(text) kin__lab_abort(text)
#define KIN__LAB_READS_CLOCK() kin__lab_reads_clock()
#define KIN__LAB_SEES_ALL() kin__lab_sees_all()
#define KIN__LAB_DRAWS(who) kin__lab_draws(who)
#define KIN__LAB_EXHAUSTS() kin__lab_exhausts()
#define KIN__LAB_WALKS(walk) kin__lab_walks(walk)
#define KIN__LAB_ENDS() kin__lab_ends()
#define KIN__LAB_JOINED(scope) kin__lab_joined(scope)
#define KIN__LAB_DRAINED(branches, count) kin__lab_drained((branches), (count))
#define KIN__LAB_PARKS(cases, count) kin__lab_parks((cases), (count))
#define KIN__LAB_ACCOUNTS() kin__lab_accounts()
#define KIN__LAB_ARMED() kin__lab_armed()
#define KIN__LAB_ACQUIRES(kind, what, place) kin__lab_acquires((kind), (what), (place))
#define KIN__LAB_LEAVES(kind, what, place) kin__lab_leaves((kind), (what), (place))
#define KIN__LAB_UNWINDS(kind, what, place) kin__lab_unwinds((kind), (what), (place))
#define KIN__LAB_MADE(chan, item_size, capacity) kin__lab_made((chan), (item_size), (capacity))
#define KIN__LAB_CALLS() kin__lab_calls()
#define KIN__LAB_CALLED(chan, what, rc, item) kin__lab_called((chan), (what), (rc), (item))
#define KIN__LAB_TOLD(task, info, after) kin__lab_told((task), (info), (after))
#define KIN__LAB_UNTOLD(info) kin__lab_untold(info)
#define KIN__LAB_HEARD(task, info, oldest) kin__lab_heard((task), (info), (oldest))
#define KIN__LAB_FORGETS(server) kin__lab_forgets(server)
#define KIN__LAB_DECIDES(supervisor, severity, what, window, max)                                  \
    kin__lab_decides((supervisor), (severity), (what), (window), (max))

#else
#define KIN__LAB_POINT() ((void)0)
#define KIN__LAB_POINT_GIVES() ((void)0)
#define KIN__LAB_INSIDE() false
#define KIN__LAB_FOREIGN(fd) false
#define KIN__LAB_CLOSED() ((void)0)
#define KIN__LAB_KEEPS(keeps) ((void)0)
#define KIN__LAB_ABORT(text) ((void)0)
#define KIN__LAB_READS_CLOCK() ((void)0)
#define KIN__LAB_SEES_ALL() ((void)0)
#define KIN__LAB_DRAWS(who) ((void)0)
#define KIN__LAB_EXHAUSTS() false
#define KIN__LAB_WALKS(walk) false
#define KIN__LAB_ENDS() ((void)0)
#define KIN__LAB_JOINED(scope) ((void)0)
#define KIN__LAB_DRAINED(branches, count) ((void)0)
#define KIN__LAB_PARKS(cases, count) ((void)0)
#define KIN__LAB_ACCOUNTS() ((void)0)
#define KIN__LAB_ARMED() ((void)0)
#define KIN__LAB_ACQUIRES(kind, what, place) ((void)0)
#define KIN__LAB_LEAVES(kind, what, place) ((void)0)
#define KIN__LAB_UNWINDS(kind, what, place) ((void)0)
#define KIN__LAB_MADE(chan, item_size, capacity) ((void)0)
#define KIN__LAB_CALLS() ((void)0)
#define KIN__LAB_CALLED(chan, what, rc, item) ((void)0)
#define KIN__LAB_TOLD(task, info, after) ((void)0)
#define KIN__LAB_UNTOLD(info) ((void)0)
#define KIN__LAB_HEARD(task, info, oldest) ((void)0)
#define KIN__LAB_FORGETS(server) ((void)0)
#define KIN__LAB_DECIDES(supervisor, severity, what, window, max) ((void)0)
#endif

#if defined(KIN__LAB) && !defined(KIN__LAB_QUIET)
#define KIN__LAB_TOUCH(p, mode) kin__lab_touch((p), (mode))
#else
#define KIN__LAB_TOUCH(p, mode) ((void)0)
#endif

#endif
