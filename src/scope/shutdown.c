/* SPDX-License-Identifier: MIT */
/*
 * Shutdown: SIGINT and SIGTERM cancel a nursery, without a task that waits for them.
 *
 * A task of the nursery that waits would keep the nursery from ending; so the thread that listens
 * for signals cancels it, by its name: a nursery that is over by then is another one, or none, and
 * is left alone. With no nursery named it is the first task of the runtime that is cancelled, and
 * thereby everything: the root has no owner to report to, and nobody joins it.
 */
#include "scope/scope.h"

#include "plat/signal.h"
#include "sched/entry.h"
#include "task/budget.h"
#include "wait/signal.h"

#include <kin/signal.h>

#include <errno.h>
#include <signal.h>

/* ---- a nursery ---- */

static enum kin__watched cancel_scope(void *object, uint64_t name)
{
    struct kin__scope *scope = object, *list = NULL;
    if (!kin__scope_lock_named(scope, name))
        return KIN__WATCHED_OVER;
    bool is_mine = kin__cancel_begin_locked(scope, KIN_CANCELLED, &list);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    kin__cancel_walk(list);
    return is_mine ? KIN__WATCHED_DONE : KIN__WATCHED_BUSY;
}

static bool is_scope_over(void *object, uint64_t name)
{
    const struct kin__scope *scope = object;
    return kin__load_relaxed(&scope->frame.name) != name; /* relaxed: a name never comes back */
}

static const struct kin__signal_watcher scope_watcher = {cancel_scope, is_scope_over};

/* ---- the first task ---- */

static enum kin__watched cancel_task(void *object, uint64_t name)
{
    struct kin__task *task = object;
    /* pairs with the requests of whoever else cancels it; a hint: both would be right */
    bool was_asked = kin__word_requests(task) & KIN__CANCEL;
    if (kin_task_cancel((struct kin_task_ref){name}) < 0)
        return KIN__WATCHED_OVER;
    return was_asked ? KIN__WATCHED_BUSY : KIN__WATCHED_DONE;
}

static bool is_task_over(void *object, uint64_t name)
{
    const struct kin__task *task = object;
    return kin__load_relaxed(&task->frame.name) != name; /* relaxed: a name never comes back */
}

static const struct kin__signal_watcher task_watcher = {cancel_task, is_task_over};

/* The first task of a runtime: the one that everybody descends from. Those in between cannot end as
 * long as a child of theirs runs. */
static struct kin__task *first_of(struct kin__task *task)
{
    for (;;) { /* ends: at the root, which nobody owns */
        struct kin__scope *scope = kin__load_relaxed(&task->scope); /* relaxed: constant */
        struct kin__task *owner = kin__load_relaxed(&scope->owner); /* relaxed: as above */
        if (!owner)
            return task;
        task = owner;
    }
}

/* ---- the public face ---- */

int kin_shutdown_on_signals(struct kin_nursery *n)
{
    const uint64_t signals = kin__signal_bit(SIGINT) | kin__signal_bit(SIGTERM);
    struct kin__task *task = kin__task_self();
    int rc = kin__entry_begin(task, KIN_CAP_PROCESS, KIN_NEVER);
    if (rc < 0)
        return rc;
    if (!n) {
        struct kin__task *first = first_of(task);
        return kin__signal_watch(signals, &task_watcher, first, kin__task_id(first));
    }
    struct kin__scope *scope = kin__scope_lock(kin__handle_of(n));
    if (!scope)
        return KIN_STALE;
    uint64_t name = kin__load_relaxed(&scope->frame.name); /* relaxed: constant while it is open */
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return kin__signal_watch(signals, &scope_watcher, scope, name);
}
