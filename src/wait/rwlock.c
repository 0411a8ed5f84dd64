/* SPDX-License-Identifier: MIT */
/*
 * A lock for many readers or one writer, with one line for both.
 *
 *     line:  R R W R R R W ...      the head goes in as soon as there is room for it, and so does
 *            ^                      whoever comes to stand at the head then
 *
 * A reader has room when no writer is inside, a writer when nobody is. Newcomers go straight in
 * only when nobody is in line. So a writer waits for those who came before it and for nobody else,
 * and the readers behind it go in together when it leaves: neither kind can starve the other, and a
 * batch of readers is as long as it stood in line. A lock that prefers readers, or writers, is
 * faster for the kind that it prefers and has no bound for the other.
 *
 * Everything changes under the lock of the crowd. A single word for readers without waiting ones
 * would make a read lock cheaper by the price of a store, and two more states to reason about.
 */
#include "wait/crowd.h"

#include "sched/entry.h"
#include "task/budget.h"
#include "wait/owner.h"
#include "wait/timer.h"

#include <kin/sync.h>

#include <errno.h>

struct rwlock {
    struct kin__crowd crowd;
    uint64_t writer; /* who is inside as such, as in owner.h; 0: nobody */
    size_t readers;  /* how many are inside */
};

_Static_assert(sizeof(struct rwlock) <= sizeof(struct kin_rwlock), "a rwlock fits");
_Static_assert(_Alignof(struct rwlock) <= _Alignof(struct kin_rwlock), "a rwlock fits");
_Static_assert(offsetof(struct rwlock, writer) == KIN__RWLOCK_WRITER_AT, "who looks from outside");

/* What the io of a waiter points at. */
static char as_reader, as_writer;

static inline struct rwlock *of(struct kin_rwlock *rwlock)
{
    return (struct rwlock *)(void *)rwlock;
}

static inline bool has_room(const struct rwlock *rwlock, const void *as)
{
    return rwlock->writer == 0 && (as == &as_reader || rwlock->readers == 0);
}

static inline void go_in(struct rwlock *rwlock, const void *as, const struct kin__task *task)
{
    if (as == &as_reader)
        rwlock->readers++;
    else
        rwlock->writer = kin__owner_of(task);
}

/* ---- the waitable ---- */

static bool fits(const void *object, const struct kin__waiter *waiter)
{
    return has_room(object, waiter->io);
}

static void enter(void *object, const struct kin__claimed *claimed)
{
    go_in(object, claimed->io, claimed->task);
}

/* The writer has ended: the first one to find out tells the others. Gives the lock. */
static void break_it(struct rwlock *rwlock)
{
    uint64_t writer = rwlock->writer;
    bool is_first = !rwlock->crowd.is_broken;
    rwlock->crowd.is_broken = 1;
    kin__crowd_wake_all(&rwlock->crowd, -EOWNERDEAD);
    if (is_first)
        kin__owner_report(kin__owner_what_rwlock, rwlock, writer);
}

static bool rwlock_try(void *object, void *io, int *status)
{
    struct rwlock *rwlock = object;
    struct kin__task *task = kin__task_self();
    kin__crowd_take(&rwlock->crowd);
    bool goes_in = has_room(rwlock, io) && kin__waitq_is_empty(&rwlock->crowd.queue);
    *status = 0;
    if (goes_in)
        go_in(rwlock, io, task);
    else if (rwlock->writer == kin__owner_of(task))
        *status = -EDEADLK;
    else if (KIN__UNLIKELY(rwlock->writer && kin__owner_is_over(rwlock->writer)))
        *status = -EOWNERDEAD;
    if (KIN__UNLIKELY(*status == -EOWNERDEAD))
        break_it(rwlock);
    else
        kin__crowd_give(&rwlock->crowd);
    return goes_in || *status != 0;
}

static bool rwlock_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct rwlock *rwlock = object;
    uint64_t me = kin__owner_of(waiter->task);
    (void)status;
    kin__crowd_take(&rwlock->crowd);
    uint64_t writer = rwlock->writer;
    bool links = !has_room(rwlock, waiter->io) || !kin__waitq_is_empty(&rwlock->crowd.queue);
    if (writer && (writer == me || kin__owner_is_over(writer)))
        links = false; /* there is a status to return */
    if (links)
        kin__waitq_push(&rwlock->crowd.queue, waiter);
    kin__crowd_give(&rwlock->crowd);
    return links;
}

/* A writer that leaves may have kept readers out who could join those inside. */
static void rwlock_unpublish(void *object, struct kin__waiter *waiter)
{
    struct rwlock *rwlock = object;
    (void)kin__crowd_leave(&rwlock->crowd, waiter);
    kin__crowd_admit(&rwlock->crowd, rwlock, fits, enter);
}

static const struct kin__waitable rwlock_waitable = {kin__owner_what_rwlock, rwlock_try,
                                                     rwlock_publish, rwlock_unpublish};

KIN__WAITABLE_READY(rwlock_waitable)
{
    const struct rwlock *rwlock = object;
    bool is_first = kin__waitq_first(&rwlock->crowd.queue) == waiter;
    return is_first && fits(rwlock, waiter) ? "there is room for it" : NULL;
}

/* ---- the public face ---- */

static int lock(struct kin_rwlock *rwlock, char *as, kin_time deadline)
{
    struct kin__task *task = kin__task_self();
    if (!rwlock)
        return -EINVAL;
    int rc = kin__entry_begin(task, 0, deadline);
    if (rc < 0)
        return rc;
    do { /* ends: see kin__owner_abandon, which makes those who wait look again */
        rc = kin__wait_until(&rwlock_waitable, rwlock, as, deadline, 0);
    } while (rc == KIN_CANCELLED && !kin__park_asked(task));
    if (rc == 0)
        kin__owner_gain(task);
    return rc;
}

int kin_rwlock_read_lock(struct kin_rwlock *rwlock, kin_time deadline)
{
    return lock(rwlock, &as_reader, deadline);
}

int kin_rwlock_write_lock(struct kin_rwlock *rwlock, kin_time deadline)
{
    return lock(rwlock, &as_writer, deadline);
}

void kin_rwlock_read_unlock(struct kin_rwlock *rwlock)
{
    struct kin__task *task = kin__task_self();
    if (KIN__UNLIKELY(!rwlock || !task))
        kin__owner_misuse("kin_rwlock_read_unlock", "a lock is unlocked by the task that holds it",
                          rwlock, 0);
    kin__entry_check(task);
    kin__crowd_take(&of(rwlock)->crowd);
    if (KIN__UNLIKELY(of(rwlock)->readers == 0 || !(task->flags & KIN__TASK_LOCKS)))
        kin__owner_misuse("kin_rwlock_read_unlock", "a lock is unlocked by the task that holds it",
                          rwlock, of(rwlock)->writer);
    of(rwlock)->readers--;
    kin__owner_lose(task);
    kin__crowd_admit(&of(rwlock)->crowd, of(rwlock), fits, enter);
}

void kin_rwlock_write_unlock(struct kin_rwlock *rwlock)
{
    struct kin__task *task = kin__task_self();
    if (KIN__UNLIKELY(!rwlock || !task))
        kin__owner_misuse("kin_rwlock_write_unlock", "a lock is unlocked by the task that holds it",
                          rwlock, 0);
    kin__entry_check(task);
    kin__crowd_take(&of(rwlock)->crowd);
    if (KIN__UNLIKELY(of(rwlock)->writer != kin__owner_of(task)))
        kin__owner_misuse("kin_rwlock_write_unlock", "a lock is unlocked by the task that holds it",
                          rwlock, of(rwlock)->writer);
    of(rwlock)->writer = 0;
    kin__owner_lose(task);
    kin__crowd_admit(&of(rwlock)->crowd, of(rwlock), fits, enter);
}
