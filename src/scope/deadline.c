/* SPDX-License-Identifier: MIT */
/*
 * Deadlines: of nurseries, which are cancelled by them, and of parts of the code, which end waits;
 * and the grace, after which masks hold nothing back any more.
 *
 * A nursery has one timer, which is armed and disarmed under its lock. While the nursery is open or
 * closing the timer is its deadline; from the moment it is cancelled it is the end of the grace. A
 * timer that fires late finds another name or another state and does nothing.
 *
 * When the grace is over the nursery is overdue:
 *
 *     its children      are reported and then killed, one after the other [N2002]: nothing that
 *                       they wait for is waited for any more, whatever they have masked
 *     nurseries inside  that its children have open are overdue at once too, so that an inner grace
 *                       cannot be longer than an outer one
 *     its owner         cannot hold its own wait for something else back any longer, until it has
 *                       joined
 *
 * The join goes on waiting: C has no way to end a task that does not want to end, and no step
 * leaves one behind [B7] [D10].
 */
#include "plat/plat.h"
#include "scope/scope.h"

#include "park/park.h"
#include "sched/entry.h"
#include "scope/stuck.h"
#include "task/word.h"
#include "wait/duration.h"

#define GRACE_DEFAULT_NS (INT64_C(5) * 1000000000)
/* How long one report may take until the children are killed without one: there may be no memory
 * for the task that reports, or whoever gets the reports does not return. */
#define REPORT_NS (INT64_C(1) * 1000000000)

/* From here on the timer of the scope does this. */
static void arm_locked(struct kin__scope *scope, void (*fire)(void *object, uint64_t name),
                       kin_time when)
{
    if (scope->has & KIN__SCOPE_TIMED)
        kin__timer_disarm(&scope->timer);
    scope->has |= KIN__SCOPE_TIMED;
    scope->timer.fire = fire;
    scope->timer.object = scope;
    scope->timer.name = kin__load_relaxed(&scope->frame.name); /* relaxed: constant while open */
    kin__timer_arm(&scope->timer, kin__scope_sched(scope), when);
}

/* ---- the deadline of a nursery ---- */

/* It has come: the nursery is cancelled [N2001]. */
static void on_deadline(void *object, uint64_t name)
{
    struct kin__scope *scope = object, *list = NULL;
    if (!kin__scope_lock_named(scope, name))
        return;
    (void)kin__cancel_begin_locked(scope, KIN_TIMEOUT, &list);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    kin__cancel_walk(list);
}

void kin__deadline_arm(struct kin__scope *scope, kin_time deadline)
{
    struct kin__scope *list = NULL;
    kin__duration_look(kin__task_self(), deadline, "a nursery");
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    /* relaxed: under the lock; somebody who cancels the owner may have been here already */
    bool is_alive = kin__scope_state(kin__load_relaxed(&scope->word)) <= KIN_NURSERY_CLOSING;
    bool has_tighter = (scope->has & KIN__SCOPE_TIMED) && scope->timer.node.deadline <= deadline;
    if (is_alive && deadline <= kin__clock_now())
        (void)kin__cancel_begin_locked(scope, KIN_TIMEOUT, &list);
    else if (is_alive && !has_tighter)
        arm_locked(scope, on_deadline, deadline);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    kin__cancel_walk(list);
}

/* ---- the end of the grace ---- */

static void on_grace(void *object, uint64_t name);

int64_t kin__grace_locked(const struct kin__scope *scope)
{
    return scope->has & KIN__SCOPE_GRACE ? scope->grace_ns : GRACE_DEFAULT_NS;
}

void kin__grace_arm_locked(struct kin__scope *scope)
{
    uint64_t word = kin__load_relaxed(&scope->word);            /* relaxed: under the lock */
    struct kin__task *owner = kin__load_relaxed(&scope->owner); /* relaxed: constant while open */
    int64_t grace = kin__grace_locked(scope);
    /* The one token is the walk's. An owner that is here itself, or joins, holds nothing back. */
    bool is_done = kin__scope_live(word) == 1 && (scope->is_waiting || owner == kin__task_self());
    if (word & KIN__OVERDUE)
        return; /* a nursery around it is, and its timer has fired already */
    if (!is_done && grace != KIN_NEVER)
        arm_locked(scope, on_grace, kin__clock_after(grace));
    else if (scope->has & KIN__SCOPE_TIMED)
        kin__timer_disarm(&scope->timer);
}

void kin__grace_hurry_locked(struct kin__scope *scope)
{
    scope->has |= KIN__SCOPE_GRACE;
    scope->grace_ns = 0;
    if (!(kin__load_relaxed(&scope->word) & KIN__OVERDUE)) /* relaxed: under the lock */
        arm_locked(scope, on_grace, kin__clock_now());
}

/* Cancels a child, or any other task in a scope that is locked, whatever it has masked; and the
 * nurseries that it has open, which are overdue in a moment. */
static void kill_locked(struct kin__task *task, struct kin__walk *walk)
{
    kin__park_request(task, KIN__CANCEL | KIN__KILL);
    kin__walk_into_locked(walk, task, NULL, KIN_STUCK, KIN__WALK_HURRIES);
}

/* The first of the children, which goes behind the others; NULL when there is none. A cancel may
 * still be walking among them: whoever passes over its cursor is asked once more, which changes
 * nothing. */
static struct kin__task *turn_locked(struct kin__scope *scope)
{
    struct kin__list *link = scope->children.next;
    if (link == &scope->cursor)
        link = link->next;
    if (link == &scope->children)
        return NULL;
    KIN__LAB_TOUCH(&scope->cursor, KIN__LAB_WRITE); /* see kin__scope_unlinks */
    kin__list_remove(link);
    kin__list_push_back(&scope->children, link);
    return KIN__CONTAINER_OF(link, struct kin__task, sibling);
}

/* Reports a child if it is stuck: it was asked in time, and does more than wait for children of its
 * own. The lock is given up meanwhile. False: the child, or the scope and with it the lock, is
 * gone. */
static bool report_locked(struct kin__scope *scope, uint64_t name, struct kin__task *child,
                          struct kin__stuck *stuck)
{
    struct kin__sched *sched = kin__scope_sched(scope);
    if (!(kin__word_requests(child) & KIN__CANCEL) || !kin__stuck_look(stuck, child))
        return true;
    arm_locked(scope, on_grace, kin__clock_after(REPORT_NS)); /* for this report alone */
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    kin__stuck_describe(stuck);
    kin__report(sched, KIN_STUCK, stuck->task, stuck->text);
    if (!kin__scope_lock_named(scope, name))
        return false;
    /* relaxed: constant while it is there, as in kin_task_cancel */
    if (kin__load_relaxed(&child->scope) == scope && kin__task_id(child) == stuck->task &&
        !child->over)
        return true;
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return false;
}

/* Every child that is left is to be killed by the walk, after those that are stuck were reported by
 * way of *stuck; with NULL nobody is told. */
static void kill_children(struct kin__walk *walk, struct kin__scope *scope, uint64_t name,
                          struct kin__stuck *stuck)
{
    walk->overdue = scope;
    walk->name = name;
    walk->left = UINT64_MAX;
    walk->stuck = stuck;
}

void kin__kill_step(struct kin__walk *walk)
{
    struct kin__scope *scope = walk->overdue;
    if (!kin__scope_lock_named(scope, walk->name)) {
        walk->left = 0;
        return;
    }
    uint64_t live = kin__scope_live(kin__load_relaxed(&scope->word)); /* relaxed: locked */
    walk->left = (walk->left < live ? walk->left : live) - (live > 0);
    struct kin__task *child = turn_locked(scope);
    if (child && !(kin__word_requests(child) & KIN__KILL)) {
        if (walk->stuck && !report_locked(scope, walk->name, child, walk->stuck))
            return;
        kill_locked(child, walk);
    }
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
}

/* The task that the end of a grace becomes: reports go to the user's code, which is not to run on
 * the stack of whoever happened to look at the clock. It holds nothing of the scope, which may be
 * over before it begins; arg is its name. */
static int report_stuck(void *arg)
{
    uint64_t name = (uintptr_t)arg;
    struct kin__frame *frame = kin__frame_at(KIN__FRAME_SCOPE, name);
    struct kin__stuck stuck;
    struct kin__walk walk = {0};
    kin__stuck_init(&stuck);
    kill_children(&walk, KIN__CONTAINER_OF(frame, struct kin__scope, frame), name, &stuck);
    kin__walk_on(&walk);
    return 0;
}
_Static_assert(sizeof(void *) >= sizeof(uint64_t), "an argument holds a name");

/* The grace is over: whatever it held back is due. */
static void overdue_locked(struct kin__scope *scope, struct kin__walk *walk)
{
    /* relaxed: under the lock; the store pairs as in kin__scope_move_locked */
    kin__store_release(&scope->word, kin__load_relaxed(&scope->word) | KIN__OVERDUE);
    struct kin__task *owner = kin__load_relaxed(&scope->owner); /* relaxed: constant while open */
    if (owner) {
        kin__park_request(owner, KIN__SCOPE | KIN__FORCE);
        kin__walk_into_locked(walk, owner, scope, scope->reason, UINT8_MAX);
    }
}

/* The timer of a nursery that was cancelled: once when its grace is over, and once more when the
 * report is. */
static void on_grace(void *object, uint64_t name)
{
    struct kin__scope *scope = object;
    struct kin__walk walk = {0};
    if (!kin__scope_lock_named(scope, name))
        return;
    uint64_t word = kin__load_relaxed(&scope->word); /* relaxed: under the lock */
    bool is_first = kin__scope_is_cancelled(word) && !(word & KIN__OVERDUE);
    bool has_children = kin__scope_state(word) == KIN_NURSERY_CANCELLING;
    /* cancelled by a kill just now: nobody in there has had a time to outstay */
    bool is_told = scope->reason != KIN_STUCK;
    struct kin__sched *sched = kin__scope_sched(scope);
    if (is_first)
        overdue_locked(scope, &walk);
    if (is_first && has_children)
        arm_locked(scope, on_grace, kin__clock_after(REPORT_NS));
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    if (!is_first || !is_told) {
        kill_children(&walk, scope, name, NULL);
    } else if (has_children) {
        void *arg = (void *)(uintptr_t)name;
        kin_ignore(kin__task_start_internal(sched, report_stuck, arg, "kin: grace"));
    }
    kin__walk_on(&walk);
}

/* ---- one task alone ---- */

bool kin__task_kill(uint64_t id)
{
    struct kin__walk walk = {0};
    struct kin__task *task;
    struct kin__scope *scope = kin__scope_lock_of(id, &task);
    if (!scope)
        return false;
    bool is_alive = !task->over;
    if (is_alive)
        kill_locked(task, &walk);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    kin__walk_on(&walk);
    return is_alive;
}

/* The task that kin__task_overdue starts; arg is the number of the one that is overdue. That one is
 * looked at before it is killed, and reported afterwards: the report is user's code, which need not
 * return. */
static int report_one(void *arg)
{
    uint64_t id = (uintptr_t)arg;
    struct kin__sched *sched = kin__task_sched(kin__task_self());
    struct kin__task *task;
    struct kin__stuck stuck;
    kin__stuck_init(&stuck);
    struct kin__scope *scope = kin__scope_lock_of(id, &task);
    bool is_stuck = scope && !task->over && kin__stuck_look(&stuck, task);
    if (scope)
        kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    if (is_stuck)
        kin__stuck_describe(&stuck);
    (void)kin__task_kill(id);
    if (is_stuck)
        kin__report(sched, KIN_STUCK, stuck.task, stuck.text);
    return 0;
}

void kin__task_overdue(struct kin__sched *sched, uint64_t id)
{
    void *arg = (void *)(uintptr_t)id;
    if (kin__task_start_internal(sched, report_one, arg, "kin: overdue") < 0)
        (void)kin__task_kill(id);
}

/* ---- the public face ---- */

kin_time kin_deadline_push(kin_time deadline)
{
    struct kin__task *task = kin__task_self();
    if (!task)
        return KIN_NEVER;
    kin__duration_look(task, deadline, "kin_deadline_push");
    kin_time previous = task->flags & KIN__TASK_DEADLINE ? task->deadline : KIN_NEVER;
    if (deadline < previous) {
        task->deadline = deadline;
        task->flags |= KIN__TASK_DEADLINE;
    }
    return previous;
}

void kin_deadline_pop(kin_time previous)
{
    struct kin__task *task = kin__task_self();
    if (!task)
        return;
    task->deadline = previous;
    if (previous == KIN_NEVER)
        task->flags &= (uint16_t)~KIN__TASK_DEADLINE;
    else
        task->flags |= KIN__TASK_DEADLINE;
}
