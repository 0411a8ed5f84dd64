/* SPDX-License-Identifier: MIT */
/*
 * A queue of waiters in order of arrival, and a batch of tasks to wake.
 *
 * Whatever can be waited for keeps its waiters in such a queue under its own lock (rank WAIT). A
 * wake has two steps: under the lock the first waiter whose park can be claimed is taken out and
 * given its result; after the lock is given up it is put into a run queue. A waiter whose park
 * somebody else has claimed drops out on the way; its task takes the same lock before it leaves,
 * so looking at it here is safe [A8].
 *
 *     kin__lock_take(...);
 *     while (more to give && kin__waitq_claim(&queue, &claimed)) {
 *         copy through claimed.io;
 *         kin__wakes_add(&wakes, &claimed, status);
 *     }
 *     kin__lock_give(...);
 *     kin__wakes_run(&wakes);
 *
 * All zero is an empty queue, so that objects made of them need no initialiser.
 */
#ifndef KIN_PARK_WAITQ_H
#define KIN_PARK_WAITQ_H

#include "park/park.h"

struct kin__waitq {
    struct kin__list list; /* next is NULL as long as nobody ever waited */
};

static inline bool kin__waitq_is_empty(const struct kin__waitq *queue)
{
    return queue->list.next == NULL || queue->list.next == &queue->list;
}

/* Links a waiter behind the others. */
static inline void kin__waitq_push(struct kin__waitq *queue, struct kin__waiter *waiter)
{
    if (KIN__UNLIKELY(queue->list.next == NULL))
        kin__list_init(&queue->list);
    kin__list_init(&waiter->link);
    kin__list_push_back(&queue->list, &waiter->link);
}

/* Takes a waiter out that was pushed once; harmless when it is out already. */
static inline void kin__waitq_remove(struct kin__waiter *waiter)
{
    kin__list_remove(&waiter->link);
}

/* The oldest waiter, still linked; NULL when there is none. */
static inline struct kin__waiter *kin__waitq_first(const struct kin__waitq *queue)
{
    return kin__waitq_is_empty(queue)
               ? NULL
               : KIN__CONTAINER_OF(queue->list.next, struct kin__waiter, link);
}

/* A task whose park the caller has claimed: it stays where it is until it is woken, and what io
 * points at is the caller's until then. */
struct kin__claimed {
    struct kin__task *task;
    void *io;
    uint32_t case_;
    int claim; /* enum kin__claim */
};

/* Takes one waiter out and claims its park. False: somebody else was faster. */
static inline bool kin__waitq_claim_one(struct kin__waiter *waiter, struct kin__claimed *out)
{
    kin__list_remove(&waiter->link);
    *out = (struct kin__claimed){waiter->task, waiter->io, waiter->case_, 0};
    out->claim = (int)kin__word_claim(waiter->task, waiter->ticket);
    return out->claim != KIN__LOST;
}

/* Takes out the first waiter whose park this call claims. False: there is none. */
static inline bool kin__waitq_claim(struct kin__waitq *queue, struct kin__claimed *out)
{
    while (!kin__waitq_is_empty(queue)) { /* ends: one fewer each time */
        if (KIN__LIKELY(kin__waitq_claim_one(kin__waitq_first(queue), out)))
            return true;
    }
    return false;
}

/* Tasks to wake after a lock is given up, in order. All zero is empty. They are linked by the field
 * that run queues use: a claimed task is in none. */
struct kin__wakes {
    struct kin__task *first, *last;
    uint32_t count;
};

/* Gives a claimed task its result and notes it for kin__wakes_run. */
static inline void kin__wakes_add(struct kin__wakes *wakes, const struct kin__claimed *claimed,
                                  int status)
{
    struct kin__task *task = claimed->task;
    task->wait_status = status;
    /* how it was claimed travels in the field that the link leaves free */
    task->wait_case = claimed->case_;
    task->wake_ready = claimed->claim == KIN__WON_PARKING;
    task->next = NULL;
    if (wakes->last)
        wakes->last->next = task;
    else
        wakes->first = task;
    wakes->last = task;
    wakes->count++;
}

/* Puts them into run queues. No lock is held. */
static inline void kin__wakes_run(struct kin__wakes *wakes)
{
    struct kin__task *task = wakes->first;
    while (task) { /* ends: one fewer each time */
        struct kin__task *next = task->next;
        kin__wake_deliver(task);
        task = next;
    }
    *wakes = (struct kin__wakes){0};
}

#endif
