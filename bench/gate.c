/* SPDX-License-Identifier: MIT */
/*
 * The baton and the gate of gate.h.
 */
#include "gate.h"

/* ---- baton ---- */

static bool baton_try(void *object, void *io, int *status)
{
    struct bench_baton *baton = object;
    bool is_here = false;
    (void)io;
    if (!kin__load_relaxed(&baton->is_here)) /* relaxed: publish looks again under the lock */
        return false;
    kin__lock_take(&baton->lock, KIN__RANK_WAIT);
    if (kin__load_relaxed(&baton->is_here)) { /* relaxed: under the lock */
        kin__store_relaxed(&baton->is_here, 0u); /* relaxed: under the lock */
        is_here = true;
        *status = 0;
    }
    kin__lock_give(&baton->lock, KIN__RANK_WAIT);
    return is_here;
}

static bool baton_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct bench_baton *baton = object;
    (void)status;
    kin__lock_take(&baton->lock, KIN__RANK_WAIT);
    bool is_here = kin__load_relaxed(&baton->is_here); /* relaxed: under the lock */
    if (!is_here)
        baton->waiter = waiter;
    kin__lock_give(&baton->lock, KIN__RANK_WAIT);
    return !is_here;
}

static void baton_unpublish(void *object, struct kin__waiter *waiter)
{
    struct bench_baton *baton = object;
    kin__lock_take(&baton->lock, KIN__RANK_WAIT);
    if (baton->waiter == waiter)
        baton->waiter = NULL;
    kin__lock_give(&baton->lock, KIN__RANK_WAIT);
}

static const struct kin__waitable baton_waitable = {"baton", baton_try, baton_publish,
                                                    baton_unpublish};

int bench_baton_take(struct bench_baton *baton)
{
    return kin__wait(&baton_waitable, baton, NULL, 0);
}

void bench_baton_give(struct bench_baton *baton)
{
    struct kin__waiter copy = {.task = NULL};
    kin__lock_take(&baton->lock, KIN__RANK_WAIT);
    if (baton->waiter)
        copy = *baton->waiter;
    else
        kin__store_relaxed(&baton->is_here, 1u); /* relaxed: under the lock */
    baton->waiter = NULL;
    kin__lock_give(&baton->lock, KIN__RANK_WAIT);
    if (copy.task)
        (void)kin__wake_task(copy.task, copy.ticket, copy.case_, 0); /* nobody else wakes it */
}

/* ---- gate ---- */

static bool gate_try(void *object, void *io, int *status)
{
    struct bench_gate *gate = object;
    (void)io;
    *status = 0;
    return kin__load_acquire(&gate->is_open); /* pairs with the release in bench_gate_open */
}

static bool gate_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct bench_gate *gate = object;
    (void)status;
    kin__lock_take(&gate->lock, KIN__RANK_WAIT);
    bool is_open = kin__load_relaxed(&gate->is_open); /* relaxed: under the lock */
    if (!is_open)
        kin__list_push_back(&gate->waiters, &waiter->link);
    kin__lock_give(&gate->lock, KIN__RANK_WAIT);
    return !is_open;
}

static void gate_unpublish(void *object, struct kin__waiter *waiter)
{
    struct bench_gate *gate = object;
    kin__lock_take(&gate->lock, KIN__RANK_WAIT);
    kin__list_remove(&waiter->link);
    kin__lock_give(&gate->lock, KIN__RANK_WAIT);
}

static const struct kin__waitable gate_waitable = {"gate", gate_try, gate_publish, gate_unpublish};

void bench_gate_init(struct bench_gate *gate)
{
    *gate = (struct bench_gate){0};
    kin__list_init(&gate->waiters);
}

int bench_gate_pass(struct bench_gate *gate)
{
    return kin__wait(&gate_waitable, gate, NULL, 0);
}

void bench_gate_open(struct bench_gate *gate)
{
    struct kin__list *link;
    do { /* ends: nobody is linked once the gate is open */
        struct kin__waiter copy = {.task = NULL};
        kin__lock_take(&gate->lock, KIN__RANK_WAIT);
        kin__store_release(&gate->is_open, 1u); /* pairs with the acquire in gate_try */
        if ((link = kin__list_pop_front(&gate->waiters)))
            copy = *KIN__CONTAINER_OF(link, struct kin__waiter, link);
        kin__lock_give(&gate->lock, KIN__RANK_WAIT);
        if (link)
            (void)kin__wake_task(copy.task, copy.ticket, copy.case_, 0); /* nobody else wakes it */
    } while (link);
}
