/* SPDX-License-Identifier: MIT */
/*
 * Once: the first one does it, the others wait for it and get the same status.
 *
 *     NEW ----first call----> RUNS ----fn returned, or its task ends inside of it----> DONE
 *
 * fn is called so that an escape from it (kin_fail, kin_panic, a stack overflow) comes by here on
 * its way out: the once is done with the status that the task ends with, those who wait are told,
 * and the escape goes on. Without that they would wait for a task that never comes back. The
 * alternative, a task of its own for fn, would take it away from its caller's nursery, name and
 * locals.
 */
#include "wait/crowd.h"

#include "plat/context.h"
#include "sched/entry.h"
#include "task/budget.h"
#include "wait/owner.h"
#include "wait/timer.h"

#include <kin/sync.h>

#include <errno.h>

enum { NEW, RUNS, DONE };

struct once {
    struct kin__crowd crowd;
    kin__a32 state; /* changes under the lock; DONE is read by anybody */
    int32_t status; /* once DONE: what fn ended with; constant then */
    uint64_t owner; /* while it RUNS: who does it, as in owner.h */
};

_Static_assert(sizeof(struct once) <= sizeof(struct kin_once), "a once fits");
_Static_assert(_Alignof(struct once) <= _Alignof(struct kin_once), "a once fits");

/* What the io of a wait points at. */
struct turn {
    bool is_mine; /* this call does it */
};

/* ---- the waitable ---- */

static bool once_try(void *object, void *io, int *status)
{
    struct once *once = object;
    struct turn *turn = io;
    /* pairs with the release in finish */
    if (kin__load_acquire(&once->state) == DONE && kin__crowd_is_quiet(&once->crowd)) {
        *status = once->status;
        return true;
    }
    uint64_t me = kin__owner_of(kin__task_self());
    kin__crowd_take(&once->crowd);
    uint32_t state = kin__load_relaxed(&once->state); /* relaxed: under the lock */
    bool is_mine = state == NEW;
    bool is_again = state == RUNS && once->owner == me;
    if (is_mine) {
        kin__store_relaxed(&once->state, RUNS); /* relaxed: under the lock */
        once->owner = me;
    }
    *status = is_again ? -EDEADLK : state == DONE ? once->status : 0;
    kin__crowd_give(&once->crowd);
    turn->is_mine = is_mine;
    return is_mine || is_again || state == DONE;
}

static bool once_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct once *once = object;
    uint64_t me = kin__owner_of(waiter->task);
    (void)status;
    kin__crowd_take(&once->crowd);
    /* relaxed: under the lock */
    bool links = kin__load_relaxed(&once->state) == RUNS && once->owner != me;
    if (links)
        kin__waitq_push(&once->crowd.queue, waiter);
    kin__crowd_give(&once->crowd);
    return links;
}

static void once_unpublish(void *object, struct kin__waiter *waiter)
{
    struct once *once = object;
    (void)kin__crowd_leave(&once->crowd, waiter);
    kin__crowd_give(&once->crowd);
}

static const struct kin__waitable once_waitable = {"once", once_try, once_publish, once_unpublish};

KIN__WAITABLE_READY(once_waitable)
{
    const struct once *once = object;
    return kin__load_relaxed(&once->state) == RUNS ? NULL : "nobody does it"; /* relaxed: as such */
}

/* ---- doing it ---- */

static void finish(struct once *once, int status)
{
    kin__crowd_take(&once->crowd);
    once->status = status;
    kin__store_release(&once->state, DONE); /* pairs with the acquire in once_try */
    kin__crowd_wake_all(&once->crowd, status);
}

/* A call of fn from which an escape can be told. */
struct call {
    kin_task_fn *fn;
    void *arg;
    bool has_returned;
};

static int call_it(void *arg)
{
    struct call *call = arg;
    int rc = call->fn(call->arg);
    call->has_returned = true;
    return rc;
}

static int run(struct once *once, struct kin__task *task, kin_task_fn *fn, void *arg)
{
    struct call call = {fn, arg, false};
    void *outer = task->escape;
    int rc = kin__call_raw(&task->escape, call_it, &call);
    task->escape = outer;
    finish(once, rc);
    if (KIN__UNLIKELY(!*(volatile bool *)&call.has_returned))
        kin__worker_escape(task);
    return rc;
}

/* ---- the public face ---- */

int kin_once_do(struct kin_once *once, kin_task_fn *fn, void *arg, kin_time deadline)
{
    struct kin__task *task = kin__task_self();
    struct turn turn = {false};
    if (!once || !fn)
        return -EINVAL;
    int rc = kin__entry_begin(task, 0, deadline);
    if (rc < 0)
        return rc;
    rc = kin__wait_until(&once_waitable, once, &turn, deadline, 0);
    return turn.is_mine ? run((struct once *)(void *)once, task, fn, arg) : rc;
}
