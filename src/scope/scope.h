/* SPDX-License-Identifier: MIT */
/*
 * A nursery from the inside.
 *
 * The user's struct kin_nursery is a handle: it holds what must be readable after the join. What
 * others may touch while the nursery lives is the scope, a recycled block like a task's frame, so
 * that a canceller who comes late finds a block that is no longer the one it looked for, never
 * memory that has become something else.
 *
 *     word = live << 8 | OVERDUE 8 | state     state and live count change together, under the
 *                                              lock, and are published by one release store
 *                                              [NSM:7.1]
 *
 * live counts the children, plus one for the body while the state is OPEN, plus one for each
 * canceller that is walking through. Whoever takes it to 0 makes the state terminal, and its last
 * touch of the scope is the unlock; it then wakes the owner through the owner's frame, which is
 * never unmapped [NSM-2].
 *
 * Locks: outer before inner. A scope's lock is held while a child of it, or the scope of such a
 * child, is looked at, so neither can go away meanwhile.
 */
#ifndef KIN_SCOPE_SCOPE_H
#define KIN_SCOPE_SCOPE_H

#include "base/list.h"
#include "base/lock.h"
#include "mem/arena.h"
#include "mem/frame.h"
#include "park/waitq.h"
#include "sched/blocks.h"
#include "sched/report.h"
#include "sched/sched.h"
#include "task/account.h"
#include "task/bill.h"
#include "task/task.h"
#include "wait/ender.h"
#include "wait/timer.h"

#include <kin/nursery.h>

#define KIN__ERRORS_INLINE 16u
#define KIN__ENDS_MAX 65536u /* ends of children with a name that a nursery remembers by default */

/* The end of a task, as nurseries keep it. */
struct kin__failure {
    uint64_t task;
    int32_t status; /* or the value, if it is none */
    int32_t severity;
};

/* What a task said when it failed: words.c. */
struct kin__words {
    struct kin__words *next;
    uint64_t task;
    int32_t status; /* what it explains */
    char text[KIN_OUTCOME_TEXT];
};

/* Room for more failures than a handle holds, and for what was said of them. They stay readable
 * until the handle is opened again, and nobody says when a handle opened by hand is done with: so
 * the owner keeps the room among its belongings, and it goes with the owner at the latest. */
struct kin__more {
    struct kin__more *next, **link;   /* among those that one task keeps; the task's own */
    const struct kin__handle *handle; /* whose it is */
    struct kin__words *words;         /* of the failures, the newest first */
    struct kin__failure errors[];
};

/* Which of the rare fields of a scope are in use. */
#define KIN__SCOPE_TIMED 1u
#define KIN__SCOPE_GRACE 2u
#define KIN__SCOPE_KEEPS 4u
#define KIN__SCOPE_SLOTS 8u
#define KIN__SCOPE_ENDERS 16u
#define KIN__SCOPE_COUNTS 32u
#define KIN__SCOPE_METERED 64u
#define KIN__SCOPE_PARTIES 128u /* others know some child by its address: see kin__party_ops */

/* What the ends of a combinator's branches decide; on the combinator's stack, under the lock of its
 * nursery. Decided or cancelled from outside, nothing counts any more. */
struct kin__count {
    size_t need;       /* so many good ends are enough: the rest is cancelled; */
    size_t may_fail;   /* so is it when more than this many failed */
    size_t ends, fails;
    bool counts_all;   /* an end of any kind is a good one */
    bool is_decided;   /* enough, when ends == need; too few otherwise */
    uint64_t first;    /* the first end at all; 0: none yet */
    uint64_t winner;   /* the first end that was good */
    uint64_t loser;    /* the first that was not */
};

/* In front of memory of a nursery for which a metered task paid: a block of kin__alloc. */
struct kin__billed {
    _Alignas(16) struct kin__billed *next;
};

/* What is inside struct kin_nursery. It belongs to the task that opened it [NSM:6.1]. */
struct kin__handle {
    _Atomic(struct kin__scope *) scope; /* NULL: not open; any thread may look, the owner writes */
    uint64_t name;            /* of the scope; a late caller compares */
    int32_t open_status;      /* why the open failed */
    int32_t is_joined;
    int32_t state;            /* once scope is NULL: the terminal one */
    uint32_t errors_max;
    uint32_t errors_kept;     /* under the scope's lock until the join */
    uint32_t errors_dropped;
    struct kin__failure outcome;    /* after the join */
    uint64_t owner;                 /* number of the task that opened it */
    struct kin__more *more;         /* room for errors_max, when that is more than 16; for words */
    struct kin__failure errors[KIN__ERRORS_INLINE];
};

#define KIN__STATE_MASK UINT64_C(7)
#define KIN__OVERDUE UINT64_C(8) /* it was cancelled, and its grace is over */
#define KIN__LIVE_SHIFT 8u
#define KIN__LIVE_ONE (UINT64_C(1) << KIN__LIVE_SHIFT)

struct kin__scope {
    struct kin__frame frame;   /* the pool's */
    struct kin__lock lock;     /* rank NURSERY; everything that is not said to be otherwise */
    uint8_t is_sealed;         /* closed by hand: members are refused too */
    uint8_t is_waiting;        /* the owner is parked in its join ... */
    uint8_t on_error;
    uint8_t has;               /* KIN__SCOPE_ bits: which of the rare fields are in use */
    kin__a64 word;             /* written under the lock, read by anyone */
    _Atomic(struct kin__task *) owner; /* NULL: the root, or not in use; stored last by open */
    uint64_t ticket;           /* ... with this ticket */
    struct kin__list children;

    struct kin__scope *outer;  /* the owner's next open nursery outwards; constant while open */
    /* constant while open; whoever comes late with a pointer to this block may see it change */
    _Atomic(struct kin__sched *) sched;
    struct kin__handle *handle;
    const char *name;
    const void *site;          /* code address that opened it */
    int32_t reason;            /* why it was cancelled; 0: it was not */
    uint32_t tasks_max;
    struct kin__failure worst; /* first panic, else first error; the root: its first task's end */

    struct kin__scope *cancel_next; /* link in the walk of whoever made it CANCELLING */
    struct kin__list cursor;        /* where that walk is among the children */
    struct kin__arena arena;
    struct kin__billed *billed; /* memory for which somebody paid; NULL between lives */
    struct kin__words *words; /* of children that failed, the newest first; NULL between lives */
    uint32_t cleanups; /* how many the owner had when it opened this one: later ones are newer */
    /* masks of the owner that it was opened under and that are in force; written under the lock */
    _Atomic(uint8_t) depth;
    uint8_t is_covered; /* whoever cancelled it did so to all that the owner opened after it, too */
    uint8_t is_inherited; /* it was cancelled because something around it was [E1] */

    /* rare: each valid while its bit in has is set */
    struct kin__timer timer;  /* TIMED: the deadline; once cancelled, the end of the grace */
    int64_t grace_ns;         /* GRACE: how long a cancelled child may take */
    struct kin__list ended;   /* KEEPS: children that are over and whose frames stay; */
    uint32_t ended_count;     /* how many, */
    uint32_t ended_max;       /* and of how many at most */
    struct kin__waitq slots;  /* SLOTS: spawners that wait for room under tasks_max; */
    uint64_t promised;        /* room that was given to those of them who are on their way */
    struct kin__waitq enders; /* ENDERS: who waits for one child to end; io: struct kin__ender */
    struct kin__count *count; /* COUNTS: what the ends of the children decide */
    struct kin__purse bank;    /* METERED: what its children draw from, */
    struct kin__account *pool; /* a pool of its own, or NULL */
    uint8_t recharge, on_exhausted; /* enum kin_recharge, never PROFILE; enum kin_on_exhausted */
    struct kin__bill bill;     /* METERED: of the owner, for this block if it has many open */
};
_Static_assert(sizeof(struct kin__scope) <= KIN__SCOPE_BYTES, "a scope is a frame");
_Static_assert(sizeof(struct kin__handle) <= sizeof(struct kin_nursery), "the handle fits");

static inline struct kin__handle *kin__handle_of(struct kin_nursery *n)
{
    return (struct kin__handle *)(void *)n;
}

static inline struct kin__sched *kin__scope_sched(const struct kin__scope *scope)
{
    return kin__load_relaxed(&scope->sched); /* relaxed: constant while the scope is open */
}

static inline enum kin_nursery_state kin__scope_state(uint64_t word)
{
    return (enum kin_nursery_state)(word & KIN__STATE_MASK);
}

static inline uint64_t kin__scope_live(uint64_t word)
{
    return word >> KIN__LIVE_SHIFT;
}

/* Being cancelled, or cancelled and not joined yet: its owner is asked to stop either way. */
static inline bool kin__scope_is_cancelled(uint64_t word)
{
    return kin__scope_state(word) == KIN_NURSERY_CANCELLING ||
           kin__scope_state(word) == KIN_NURSERY_CANCELLED;
}

/* The lab: how the number of children changes, and nothing else, is seen by nobody before it is 0.
 * Whoever takes the lock to add one, or to take one off, says so; whatever else happens is said by
 * kin__scope_changes. */
static inline void kin__scope_changes(struct kin__scope *scope)
{
    KIN__LAB_TOUCH(&scope->lock.word, KIN__LAB_WRITE);
    (void)scope;
}

/* The lab: a child of a cancelled scope goes. The walk through the children depends on that until
 * the walk has come to the child, and from then on no more. A child that is cancelled, and not for
 * itself alone, has nothing left to hear from the walk. */
static inline void kin__scope_unlinks(struct kin__scope *scope, const struct kin__task *child)
{
#ifdef KIN__LAB
    /* quiet: under the lock, and the child is over */
    const uint64_t word = kin__load_quiet(&scope->word), asked = kin__load_quiet(&child->ctl);
    if (kin__scope_state(word) == KIN_NURSERY_CANCELLING &&
        (asked & (KIN__CANCEL | KIN__ALONE)) != KIN__CANCEL)
        KIN__LAB_TOUCH(&scope->cursor, KIN__LAB_ADD);
#endif
    (void)scope, (void)child;
}

/* Locks a scope that had this name when the caller got to know it, to change it in this way; false
 * when it is over. */
static inline bool kin__scope_lock_to(struct kin__scope *scope, uint64_t name, unsigned mode)
{
    kin__lock_take_to(&scope->lock, KIN__RANK_NURSERY, mode);
    /* relaxed: changes only when the scope is released, which takes the lock */
    if (KIN__LIKELY(kin__load_relaxed(&scope->frame.name) == name))
        return true;
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return false;
}

static inline bool kin__scope_lock_named(struct kin__scope *scope, uint64_t name)
{
    return kin__scope_lock_to(scope, name, KIN__LAB_WRITE);
}

/* Locks the scope that the handle names; NULL when it is no longer open. The handle is not looked
 * at any more once the lock is held: a join may be over by then. */
static inline struct kin__scope *kin__scope_lock(const struct kin__handle *handle)
{
    /* pairs with the release in init_handle and in release, for callers of other threads */
    struct kin__scope *scope = kin__load_acquire(&handle->scope);
    uint64_t name = handle->name;
    return KIN__LIKELY(scope != NULL) && kin__scope_lock_named(scope, name) ? scope : NULL;
}

/* What is left to do of a cancellation, in this order. It is on the stack of whoever cancels, or in
 * the lab an actor's. */
struct kin__walk {
    struct kin__scope *inner;   /* The next nursery of a task that was asked; NULL: none is left. */
    struct kin__scope *end;     /* Where those end: a nursery of the task, or NULL; */
    uint64_t around;            /* the name of end, or if there is none, that of the task; */
    int32_t reason;             /* and what is said to them. */
    uint32_t depth;             /* More masks than this hold it back. */
    struct kin__scope *list;    /* Cancelled scopes, each held by a token: children are asked. */
    struct kin__scope *overdue; /* A scope whose children are killed, which nothing holds; */
    uint64_t name;              /* its name, */
    uint64_t left;              /* how many of them at most, */
    struct kin__stuck *stuck;   /* and room for a report of each before; NULL: nobody is told. */
};
#define KIN__WALK_HURRIES 256u /* as a depth: no mask holds it back, and the grace is over, too */

static inline bool kin__walk_is_over(const struct kin__walk *walk)
{
    return !walk->inner && !walk->list && !walk->left;
}

/* Moves to another state, keeping live; the transition must be one of 000 section 2.3. */
void kin__scope_move_locked(struct kin__scope *scope, enum kin_nursery_state to);

/* Nobody is left: makes the state terminal, unlocks, and wakes the owner if it waits. */
void kin__scope_end_and_unlock(struct kin__scope *scope);

/* Takes one off live, and ends the scope at 0. */
static inline void kin__scope_drop_and_unlock(struct kin__scope *scope)
{
    uint64_t word = kin__load_quiet(&scope->word) - KIN__LIVE_ONE; /* relaxed: under the lock */
    kin__store_release_quiet(&scope->word, word); /* pairs as in kin__scope_move_locked */
    if (KIN__UNLIKELY(kin__scope_live(word) == 0))
        kin__scope_end_and_unlock(scope);
    else
        kin__lock_give(&scope->lock, KIN__RANK_NURSERY); /* maybe the last touch of the scope */
}

/* Spawners that wait for room under tasks_max: the next ones get what a child that leaves has left,
 * or all of them look again whether they are admitted at all. */
void kin__slots_offer_locked(struct kin__scope *scope, struct kin__wakes *wakes);
void kin__slots_refuse_locked(struct kin__scope *scope);
/* An end, in the nursery of a combinator. */
void kin__count_locked(struct kin__scope *scope, const struct kin_outcome *how,
                       struct kin__scope **list);
/* From now on the nursery keeps the frames of children that somebody can name, so many at most. */
static inline void kin__ended_keep_locked(struct kin__scope *scope, uint32_t max)
{
    scope->has |= KIN__SCOPE_KEEPS;
    kin__list_init(&scope->ended);
    scope->ended_count = 0;
    scope->ended_max = max;
}

/* Gives back the frames of children that were kept. */
void kin__ended_release_locked(struct kin__scope *scope);
/* The functions of kin__scope_owner_ops. */
bool kin__child_done(struct kin__task *task);
void kin__unwind(struct kin__task *task);
int kin__conclude(struct kin__task *task, int rc);
int kin__cancel_cause(struct kin__task *task, int rc);
_Noreturn void kin__forgot(struct kin__task *task);
int kin__budget_op(struct kin__task *task, unsigned what, kin_time deadline);
void kin__deadlock_report(struct kin__sched *sched);

/* The end of a nursery as a thing that its owner waits for; object: struct kin__scope. */
extern const struct kin__waitable kin__join_waitable;
/* The end of a task as a thing to wait for; object and io: struct kin__ender. */
extern const struct kin__waitable kin__task_waitable;

/* OPEN or CLOSING -> CANCELLING with a token for the walk, and onto the list. The owner's waits
 * hear of it. True: this call did it. */
bool kin__cancel_begin_locked(struct kin__scope *scope, int reason, struct kin__scope **list);
/* The same because something around it was cancelled for this reason: the children are told the
 * reason, and the join says no more than that it was cancelled [E1]. */
bool kin__cancel_inherit_locked(struct kin__scope *scope, int reason, struct kin__scope **list);
/* What a join says of a nursery that was cancelled and of which no child has failed. */
int kin__cancel_status(const struct kin__scope *scope);
/* Tells every descendant of every scope on the list. */
void kin__cancel_walk(struct kin__scope *list);
/* All that is left of a walk. In the lab others may run in between, and if nobody is there to wait
 * for the end of it, it ends later. */
void kin__walk_on(struct kin__walk *walk);
/* One step of that. */
void kin__walk_step(struct kin__walk *walk);
/* A task was asked to stop: the walk cancels the nurseries that the task has open, innermost first,
 * down to but without end, those that were opened under no more than depth masks. The caller holds
 * the lock of end, which is a nursery of the task, or if end is NULL, that of the scope that the
 * task is in. The walk is done with whoever was asked before. */
void kin__walk_into_locked(struct kin__walk *walk, struct kin__task *task, struct kin__scope *end,
                           int reason, unsigned depth);
/* From now on a nursery of the running task is cancelled at this time at the latest. */
void kin__deadline_arm(struct kin__scope *scope, kin_time deadline);
/* How long a cancelled child may take, in ns. */
int64_t kin__grace_locked(const struct kin__scope *scope);
/* Arms the end of the grace of a scope that was just cancelled. */
void kin__grace_arm_locked(struct kin__scope *scope);
/* The grace of a nursery that was just cancelled by a kill is over in a moment. */
void kin__grace_hurry_locked(struct kin__scope *scope);
/* The part of a step of a walk that kills a child. */
void kin__kill_step(struct kin__walk *walk);
/* One task is asked to stop for itself, under the lock of its scope: first the task, then the
 * nurseries that it has open. */
void kin__cancel_ask_locked(const struct kin__scope *scope, struct kin__task *task);
void kin__cancel_inside_locked(struct kin__task *task, struct kin__walk *walk);
/* Whether nobody has asked it before, nor its nursery. */
bool kin__cancel_is_first_locked(const struct kin__scope *scope, const struct kin__task *task);
/* Why the owner, or a nursery around this one, is being cancelled, if that reaches this one; 0
 * otherwise. The caller is the owner or has the lock. */
int kin__cancel_inherited(struct kin__scope *scope);
/* Cancels a nursery of the running task for that reason, if there is one. */
void kin__cancel_inherit(struct kin__scope *scope);

/* A block of the heap that the running task keeps until it is over. False: no memory for that. */
bool kin__more_keep(struct kin__task *owner, struct kin__more *more);
/* Frees one before that. */
void kin__more_free(struct kin__more *more);
/* A scope opened in the running task or, with owner NULL, as a root. */
int kin__scope_open(struct kin__handle *handle, struct kin__sched *sched, struct kin__task *owner,
                    const struct kin_nursery_options *options);
/* Waits until every child is over, as a join does, and releases nothing: outcomes of children that
 * were named can still be asked for. The running task is the owner; the join comes next. */
void kin__nursery_wait(struct kin_nursery *n);
/* A join on behalf of a public call, which is named when a rule is broken. */
int kin__nursery_join(struct kin_nursery *n, kin_time deadline, struct kin_outcome *out,
                      const char *call);
/* Gives back the room that a handle has beside itself; its owner is the running task. */
void kin__handle_empty(struct kin__handle *handle);
/* kin_spawn_with for callers that spawn on behalf of the code at site; never waits for room. */
int kin__spawn_at(struct kin_nursery *n, const struct kin_spawn_options *options, kin_task_fn *fn,
                  void *arg, struct kin_task_ref *out, const void *site);
/* A frame for a new task of sched, filled in but neither linked nor scheduled. */
struct kin__task *kin__task_make(struct kin__sched *sched, kin_task_fn *fn, void *arg,
                                 const void *site);
void kin__task_unmake(struct kin__task *task);
/* Starts a task of the runtime's own, as a child of its root. 0, -ENOMEM, or KIN_NOSCOPE when every
 * other task is over. */
int kin__task_start_internal(struct kin__sched *sched, kin_task_fn *fn, void *arg,
                             const char *name);

/* Frees a list of words. */
void kin__words_free(struct kin__words *list);
/* What this task said; "": nothing. */
const char *kin__words_find(const struct kin__words *list, uint64_t task);
/* Drops what this child said. */
void kin__words_drop_locked(struct kin__scope *scope, uint64_t task);
/* An end, with the words for it if they are in the list, for programs. */
void kin__outcome_fill(struct kin_outcome *out, const struct kin__failure *end,
                       const struct kin__words *list);
/* How a child ended; under the lock of its scope, or before anybody else can know it. */
struct kin_outcome kin__task_outcome(const struct kin__task *task);
/* Aborts because the caller broke a rule that only a bug can break; names task, call and rule. */
_Noreturn void kin__misuse(struct kin__task *task, const char *call, const char *rule,
                           const char *clause);
/* Makes failed checks name the running task. */
void kin__fail_init(void);

struct kin__waits;

/* What otp does for tasks that others know by their addresses. Filled in by otp before the first
 * scope has KIN__SCOPE_PARTIES. */
struct kin__party_ops {
    /* A child of such a scope is over like this. Called with no lock, before it is counted off; it
     * has been judged, so that whoever looks for it finds it over. */
    void (*end)(uint64_t task, const struct kin_outcome *how);
    /* Why it was asked to stop, if a link did; 0: none did. */
    int (*exit_status)(uint64_t task);
    /* The runtime is over. */
    void (*close)(struct kin__sched *sched);
    /* The task without which a wait of waiter does not end, if that is one of otp's; 0: it is not,
     * or there is none in particular. The waiter was in this wait a moment ago: what it waits for
     * may be gone, and the answer counts if the waiter is in the same wait afterwards. */
    uint64_t (*holder)(const struct kin__task *waiter, const struct kin__waits *waits);
};
extern _Atomic(const struct kin__party_ops *) kin__party_ops;
/* The scope of the task with this number, locked; NULL when it is over and gone. task->over says
 * whether it is over and its frame was kept. */
struct kin__scope *kin__scope_lock_of(uint64_t id, struct kin__task **task);
/* The same for a step of a walk, which leaves the scope itself as it is. */
struct kin__scope *kin__scope_lock_of_walked(uint64_t id, struct kin__task **task);
/* Nobody will ask any more how this child ended, which is over and was known by its name: its frame
 * need not be kept. Of one that is not over, or is gone, nothing changes. */
void kin__task_forget(uint64_t id);
/* Cancels the task as if its grace were over: nothing that it waits for is waited for any more,
 * whatever it has masked. False: it is over. */
bool kin__task_kill(uint64_t id);
/* The same after a report that it is stuck, on a task of the runtime's own: the caller need not be
 * one. */
void kin__task_overdue(struct kin__sched *sched, uint64_t id);

/* What the workers call. */
extern const struct kin__owner_ops kin__scope_owner_ops;

#endif
