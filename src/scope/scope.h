/* SPDX-License-Identifier: MIT */
/*
 * A nursery from the inside.
 *
 * The user's struct kin_nursery is a handle: it holds what must be readable after the join. What
 * others may touch while the nursery lives is the scope, a recycled block like a task's frame, so
 * that a canceller who comes late finds a block that is no longer the one it looked for, never
 * memory that has become something else.
 *
 *     word = live << 8 | state      state and live count change together, under the lock, and are
 *                                   published by one release store [NSM:7.1]
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
#include "sched/sched.h"
#include "task/task.h"

#include <kin/nursery.h>

#define KIN__ERRORS_INLINE 16u

/* A failure, as the handle keeps it. */
struct kin__failure {
    uint64_t task;
    int32_t status;
    int32_t severity;
};

/* Room for more failures than a handle holds. They stay readable until the handle is opened again,
 * and nobody says when a handle opened by hand is done with: so the nursery around its owner keeps
 * the room, and gives it back when it ends itself at the latest. */
struct kin__more {
    struct kin__more *next, **link;   /* among those that one nursery keeps; under its lock */
    const struct kin__handle *handle; /* whose it is */
    struct kin__failure errors[];
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
    struct kin_outcome outcome;     /* after the join */
    struct kin__more *more;         /* room for errors_max, when that is more than 16 */
    struct kin__failure errors[KIN__ERRORS_INLINE];
};

#define KIN__STATE_MASK UINT64_C(7)
#define KIN__LIVE_SHIFT 8u
#define KIN__LIVE_ONE (UINT64_C(1) << KIN__LIVE_SHIFT)

struct kin__scope {
    struct kin__frame frame;   /* the pool's */
    struct kin__lock lock;     /* rank NURSERY; everything that is not said to be otherwise */
    uint8_t is_sealed;         /* closed by hand: members are refused too */
    uint8_t is_waiting;        /* the owner is parked in its join ... */
    uint8_t on_error;
    uint8_t is_cancel_queued;
    kin__a64 word;             /* written under the lock, read by anyone */
    _Atomic(struct kin__task *) owner; /* NULL: the root, or not in use; stored last by open */
    uint64_t ticket;           /* ... with this ticket */
    struct kin__list children;

    struct kin__scope *outer;  /* the owner's next open nursery outwards; constant while open */
    struct kin__sched *sched;
    struct kin__handle *handle;
    const char *name;
    int32_t reason;            /* why it was cancelled; 0: it was not */
    uint32_t tasks_max;
    struct kin_outcome worst;  /* first panic, else first error */

    struct kin__scope *cancel_next; /* link in the walk of whoever made it CANCELLING */
    struct kin__list cursor;        /* where that walk is among the children */
    struct kin__arena arena;
    struct kin__more *kept; /* of nurseries that children have or had open */
#if KIN__ASAN || KIN__TSAN
    unsigned char sanitizer_rest[KIN__FRAME_BYTES - 192];
#endif
};
_Static_assert(sizeof(struct kin__scope) == KIN__FRAME_BYTES, "a scope is a frame");
_Static_assert(sizeof(struct kin__handle) <= sizeof(struct kin_nursery), "the handle fits");

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

/* Locks the scope that the handle names; NULL when it is no longer open. The handle is not looked
 * at any more once the lock is held: a join may be over by then. */
static inline struct kin__scope *kin__scope_lock(const struct kin__handle *handle)
{
    /* pairs with the release in init_handle and in release, for callers of other threads */
    struct kin__scope *scope = kin__load_acquire(&handle->scope);
    uint64_t name = handle->name;
    if (KIN__UNLIKELY(!scope))
        return NULL;
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    /* relaxed: changes only when the scope is released, which takes the lock */
    if (KIN__LIKELY(kin__load_relaxed(&scope->frame.name) == name))
        return scope;
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return NULL;
}

/* Moves to another state, keeping live; the transition must be one of 000 section 2.3. */
void kin__scope_move_locked(struct kin__scope *scope, enum kin_nursery_state to);

/* Takes one off live, makes the state terminal at 0, unlocks, and wakes the owner if it waits. */
void kin__scope_drop_and_unlock(struct kin__scope *scope);

/* OPEN or CLOSING -> CANCELLING with a token for the walk, and onto the list. The owner's waits
 * hear of it. True: this call did it. */
bool kin__cancel_begin_locked(struct kin__scope *scope, int reason, struct kin__scope **list);
/* Tells every descendant of every scope on the list. */
void kin__cancel_walk(struct kin__scope *list);
/* Whether the owner, or a nursery around this one, is being cancelled; then so is this one. */
int kin__cancel_inherited(struct kin__scope *scope);

/* Gives back what a scope that is over still holds. */
void kin__scope_empty(struct kin__scope *scope);
/* A scope opened in the running task or, with owner NULL, as a root. */
int kin__scope_open(struct kin__handle *handle, struct kin__sched *sched, struct kin__task *owner,
                    const struct kin_nursery_options *options);
/* A frame for a new task of sched, filled in but neither linked nor scheduled. */
struct kin__task *kin__task_make(struct kin__sched *sched, kin_task_fn *fn, void *arg,
                                 const void *site);
void kin__task_unmake(struct kin__task *task);

/* Frames of both kinds, from the running worker's cache or, outside of one, from a shared one. */
struct kin__frame *kin__frame_take_task(void);
void kin__frame_give_task(struct kin__frame *frame);
struct kin__frame *kin__frame_take_scope(void);
void kin__frame_give_scope(struct kin__frame *frame);

/* Aborts because the caller broke a rule that only a bug can break; names task, call and rule. */
_Noreturn void kin__misuse(struct kin__task *task, const char *call, const char *rule,
                           const char *clause);
/* Makes failed checks name the running task. */
void kin__fail_init(void);
/* Tells whoever wants to know (config.on_report, or standard error). */
void kin__report(struct kin__sched *sched, int status, uint64_t task, const char *text);

/* What the workers call. */
extern const struct kin__owner_ops kin__scope_owner_ops;

#endif
