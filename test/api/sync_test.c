/* SPDX-License-Identifier: MIT */
/*
 * Goal: what all objects of <kin/sync.h> promise alike: ready when all zero, refusals, deadlines,
 * cancellation, no trace of whoever leaves, calls from plain threads.
 * Method: one table of waits that cannot end by themselves, put through everything that may end
 * them. What each object does when it works is in sync_lock_test.c and sync_wait_test.c.
 */
#include "api/in_runtime.h"

#include <kin/sync.h>

#include <pthread.h>

/* ---- one blocked wait of each kind ---- */

struct objects {
    struct kin_mutex mutex, other;
    struct kin_rwlock for_readers, for_writers;
    struct kin_cond cond;
    struct kin_sem sem;
    struct kin_event event, end;
    struct kin_group group;
    struct kin_once once;
    struct kin_barrier barrier;
    _Atomic int runs; /* whether somebody does the once */
};

static int wait_mutex(struct objects *o, kin_time deadline)
{
    return kin_mutex_lock(&o->mutex, deadline);
}
static int wait_reader(struct objects *o, kin_time deadline)
{
    return kin_rwlock_read_lock(&o->for_writers, deadline);
}
static int wait_writer(struct objects *o, kin_time deadline)
{
    return kin_rwlock_write_lock(&o->for_readers, deadline);
}
static int wait_cond(struct objects *o, kin_time deadline)
{
    int rc = kin_mutex_lock(&o->other, KIN_NEVER);
    if (rc < 0)
        return rc;
    rc = kin_cond_wait(&o->cond, &o->other, deadline);
    if (rc != -EOWNERDEAD) /* the others may end as its owners, in the lab */
        kin_mutex_unlock(&o->other); /* aborts unless it is held, whatever else was returned */
    return rc;
}
static int wait_sem(struct objects *o, kin_time deadline)
{
    return kin_sem_acquire(&o->sem, 3, deadline);
}
static int wait_event(struct objects *o, kin_time deadline)
{
    return kin_event_wait(&o->event, deadline);
}
static int wait_group(struct objects *o, kin_time deadline)
{
    return kin_group_wait(&o->group, deadline);
}
static int wait_end(void *arg)
{
    struct objects *o = arg;
    o->runs = 1;
    return kin_event_wait(&o->end, KIN_NEVER);
}
static int wait_once(struct objects *o, kin_time deadline)
{
    return kin_once_do(&o->once, wait_end, o, deadline);
}
static int wait_barrier(struct objects *o, kin_time deadline)
{
    return kin_barrier_wait(&o->barrier, deadline);
}

static int (*const waits[])(struct objects *, kin_time) = {
    wait_mutex, wait_reader, wait_writer, wait_cond, wait_sem,
    wait_event, wait_group,  wait_once,   wait_barrier,
};
enum { WAITS = sizeof waits / sizeof waits[0] };

static int run_once(void *arg)
{
    struct objects *o = arg;
    return kin_once_do(&o->once, wait_end, o, KIN_NEVER);
}

/* Brings every object into a state in which its wait blocks. The running task holds the locks. */
static void block(struct objects *o, struct kin_nursery *n)
{
    memset(o, 0, sizeof *o);
    EXPECT_EQ(kin_mutex_lock(&o->mutex, KIN_NEVER), 0);
    EXPECT_EQ(kin_rwlock_read_lock(&o->for_readers, KIN_NEVER), 0);
    EXPECT_EQ(kin_rwlock_write_lock(&o->for_writers, KIN_NEVER), 0);
    EXPECT_EQ(kin_sem_init(&o->sem, 2), 0);
    kin_group_add(&o->group, 2);
    EXPECT_EQ(kin_barrier_init(&o->barrier, 3), 0);
    EXPECT_EQ(kin_spawn(n, run_once, o), 0);
    await(&o->runs, 1);
}

/* Ends all of it; every object must work as if nobody had ever waited. */
static void unblock(struct objects *o)
{
    kin_mutex_unlock(&o->mutex);
    EXPECT_EQ(kin_mutex_lock(&o->mutex, 0), 0);
    kin_mutex_unlock(&o->mutex);
    EXPECT_EQ(kin_rwlock_read_lock(&o->for_readers, 0), 0); /* no writer in line keeps it out */
    kin_rwlock_read_unlock(&o->for_readers);
    kin_rwlock_read_unlock(&o->for_readers);
    EXPECT_EQ(kin_rwlock_write_lock(&o->for_readers, 0), 0);
    kin_rwlock_write_unlock(&o->for_readers);
    kin_rwlock_write_unlock(&o->for_writers);
    EXPECT_EQ(kin_rwlock_write_lock(&o->for_writers, 0), 0);
    kin_rwlock_write_unlock(&o->for_writers);
    kin_cond_signal(&o->cond); /* for nobody, so it is gone */
    EXPECT_EQ(kin_sem_acquire(&o->sem, 2, 0), 0);
    EXPECT_EQ(kin_sem_acquire(&o->sem, 1, 0), KIN_TIMEOUT);
    kin_group_done(&o->group);
    EXPECT_EQ(kin_group_wait(&o->group, 0), KIN_TIMEOUT);
    kin_group_done(&o->group);
    EXPECT_EQ(kin_group_wait(&o->group, 0), 0);
    EXPECT_EQ(kin_barrier_wait(&o->barrier, 0), KIN_TIMEOUT); /* nobody has come yet */
    kin_event_set(&o->end);
}

/* ---- ends of a wait ---- */

static int with_deadlines(void *arg)
{
    struct objects o;
    KIN_NURSERY(n);
    (void)arg;
    block(&o, &n);
    /* the locks are held by this task: another one has to try */
    for (int i = 0; i < WAITS; i++) {
        if (waits[i] == wait_mutex || waits[i] == wait_reader)
            continue;
        EXPECT_EQ(waits[i](&o, 0), KIN_TIMEOUT);
        EXPECT_EQ(waits[i](&o, -1), KIN_TIMEOUT);
        EXPECT_EQ(waits[i](&o, INT64_MIN), KIN_TIMEOUT);
        EXPECT_EQ(waits[i](&o, 1), KIN_TIMEOUT);
        EXPECT_EQ(waits[i](&o, kin_now()), KIN_TIMEOUT);
        kin_time deadline = kin_after(KIN_MS(2));
        EXPECT_EQ(waits[i](&o, deadline), KIN_TIMEOUT);
        EXPECT_GE(kin_now(), deadline);
    }
    unblock(&o);
    struct kin_stats stats;
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.timers, 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(every_wait_ends_at_its_deadline, "N2001 N017 N018 T080")
{
    run_on_few(with_deadlines, NULL);
}

struct one {
    struct objects *o;
    int kind;
    kin_time deadline;
    _Atomic int begun;
    _Atomic int rc;
    _Atomic int again;
};

static int wait_one(void *arg)
{
    struct one *one = arg;
    one->begun = 1;
    one->rc = waits[one->kind](one->o, one->deadline);
    one->again = waits[one->kind](one->o, KIN_NEVER);
    return 0;
}

static int with_cancels(void *arg)
{
    struct objects o;
    struct one ones[WAITS * 2];
    struct kin_task_ref refs[WAITS * 2];
    KIN_NURSERY(all);
    (void)arg;
    block(&o, &all);
    KIN_NURSERY(n);
    for (int i = 0; i < WAITS * 2; i++) {
        ones[i] = (struct one){.o = &o, .kind = i % WAITS};
        ones[i].deadline = i < WAITS ? KIN_NEVER : kin_after(KIN_SEC(1000));
        EXPECT_EQ(kin_spawn_with(&n, NULL, wait_one, &ones[i], 0, &refs[i]), 0);
        await(&ones[i].begun, 1);
    }
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(kin_yield(), 0);
    for (int i = 0; i < WAITS * 2; i++)
        EXPECT_EQ(kin_task_cancel(refs[i]), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < WAITS * 2; i++) {
        EXPECT_EQ(ones[i].rc, KIN_CANCELLED);
        EXPECT_EQ(ones[i].again, KIN_CANCELLED); /* sticky */
    }
    unblock(&o);
    return kin_nursery_join(&all, NULL);
}

KIN_TEST(every_wait_ends_when_its_task_is_cancelled, "T012 T061 A7 N017 N018")
{
    run_on_few(with_cancels, NULL);
}

/* Deadlines and cancels together, of many waiters of everything, until all have left. */
static int with_both(void *arg)
{
    enum { EACH = 6 };
    struct objects o;
    static struct one ones[WAITS * EACH];
    KIN_NURSERY(all);
    (void)arg;
    block(&o, &all);
    KIN_NURSERY(n);
    for (int i = 0; i < WAITS * EACH; i++) {
        ones[i] = (struct one){.o = &o, .kind = i % WAITS};
        ones[i].deadline = kin_after(KIN_US(100) * (i % 7));
        EXPECT_EQ(kin_spawn(&n, wait_one, &ones[i]), 0);
    }
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(400))), 0);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    for (int i = 0; i < WAITS * EACH; i++) {
        if (!ones[i].begun || waits[i % WAITS] == wait_barrier)
            continue; /* three at a barrier may pass */
        EXPECT(ones[i].rc == KIN_TIMEOUT || ones[i].rc == KIN_CANCELLED);
        EXPECT_EQ(ones[i].again, KIN_CANCELLED);
    }
    unblock(&o);
    return kin_nursery_join(&all, NULL);
}

KIN_TEST(waiters_that_leave_for_any_reason_leave_no_trace, "T061 N018")
{
    for (int i = 0; i < 5; i++)
        run_on_few(with_both, NULL);
}

/* ---- refusals ---- */

static int with_null(void *arg)
{
    struct kin_mutex mutex = {0};
    struct kin_cond cond = {0};
    struct kin_once once = {0};
    (void)arg;
    EXPECT_EQ(kin_mutex_lock(NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_rwlock_read_lock(NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_rwlock_write_lock(NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_cond_wait(NULL, &mutex, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_cond_wait(&cond, NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_sem_acquire(NULL, 1, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_event_wait(NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_group_wait(NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_once_do(NULL, return_it, NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_once_do(&once, NULL, NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_barrier_wait(NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_barrier_wait(&(struct kin_barrier){{0}}, KIN_NEVER), -EINVAL);
    return 0;
}

KIN_TEST(null_is_refused, "")
{
    struct kin_barrier barrier;
    EXPECT_EQ(run_reporting(1, with_null, NULL, NULL), 0);
    EXPECT_EQ(kin_sem_init(NULL, 1), -EINVAL);
    EXPECT_EQ(kin_barrier_init(NULL, 1), -EINVAL);
    EXPECT_EQ(kin_barrier_init(&barrier, 0), -EINVAL);
    kin_cond_signal(NULL);
    kin_cond_broadcast(NULL);
    kin_sem_release(NULL, 1);
    kin_event_set(NULL);
    kin_event_reset(NULL);
    kin_group_add(NULL, 1);
    kin_group_done(NULL);
}

KIN_TEST(waits_outside_a_task_are_refused, "N1002")
{
    struct objects o;
    memset(&o, 0, sizeof o);
    EXPECT_EQ(kin_barrier_init(&o.barrier, 1), 0);
    EXPECT_EQ(kin_sem_init(&o.sem, 10), 0);
    EXPECT_EQ(kin_cond_wait(&o.cond, &o.mutex, KIN_NEVER), KIN_NOTASK);
    for (int i = 0; i < WAITS; i++) {
        EXPECT_EQ(waits[i](&o, KIN_NEVER), KIN_NOTASK);
        EXPECT_EQ(waits[i](&o, 0), KIN_NOTASK); /* even if it could end at once */
    }
}

/* ---- all zero ---- */

static int when_all_zero(void *arg)
{
    struct objects o;
    (void)arg;
    memset(&o, 0, sizeof o);
    EXPECT_EQ(kin_mutex_lock(&o.mutex, 0), 0);
    kin_mutex_unlock(&o.mutex);
    EXPECT_EQ(kin_rwlock_read_lock(&o.for_readers, 0), 0);
    kin_rwlock_read_unlock(&o.for_readers);
    EXPECT_EQ(kin_rwlock_write_lock(&o.for_writers, 0), 0);
    kin_rwlock_write_unlock(&o.for_writers);
    kin_cond_signal(&o.cond);
    kin_cond_broadcast(&o.cond);
    EXPECT_EQ(kin_sem_acquire(&o.sem, 1, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_sem_acquire(&o.sem, 0, 0), 0);
    kin_sem_release(&o.sem, 1);
    EXPECT_EQ(kin_sem_acquire(&o.sem, 1, 0), 0);
    EXPECT_EQ(kin_event_wait(&o.event, 0), KIN_TIMEOUT);
    kin_event_reset(&o.event);
    kin_event_set(&o.event);
    EXPECT_EQ(kin_event_wait(&o.event, 0), 0);
    EXPECT_EQ(kin_group_wait(&o.group, 0), 0);
    EXPECT_EQ(kin_once_do(&o.once, return_it, &(int){7}, 0), 7);
    return 0;
}

KIN_TEST(objects_are_ready_when_all_zero, "")
{
    run_on_few(when_all_zero, NULL);
}

/* ---- plain threads ---- */

struct from_threads {
    struct objects o;
    _Atomic int begun, done;
    _Atomic int used; /* what the condition is about */
};

static int wait_for_thread(void *arg)
{
    struct from_threads *from = arg;
    EXPECT_EQ(kin_sem_acquire(&from->o.sem, 2, KIN_NEVER), 0);
    from->begun++;
    EXPECT_EQ(kin_event_wait(&from->o.event, KIN_NEVER), 0);
    from->begun++;
    EXPECT_EQ(kin_mutex_lock(&from->o.mutex, KIN_NEVER), 0);
    from->begun++;
    while (!from->used)
        EXPECT_EQ(kin_cond_wait(&from->o.cond, &from->o.mutex, KIN_NEVER), 0);
    kin_mutex_unlock(&from->o.mutex);
    EXPECT_EQ(kin_group_wait(&from->o.group, KIN_NEVER), 0);
    return 0;
}

static void *help(void *arg)
{
    struct from_threads *from = arg;
    kin_sem_release(&from->o.sem, 1);
    kin_sem_release(&from->o.sem, 1);
    while (from->begun < 1) /* ends: the task gets its permits */
        sched_yield();
    kin_event_set(&from->o.event);
    while (from->begun < 3)
        sched_yield();
    from->used = 1;
    /* the task may be about to wait: it holds a mutex that a thread cannot take */
    for (int i = 0; i < 100 && !from->done; i++) {
        kin_cond_signal(&from->o.cond);
        kin_cond_broadcast(&from->o.cond);
        sched_yield();
    }
    kin_group_done(&from->o.group);
    return NULL;
}

static int wake_all(void *arg)
{
    struct from_threads *from = arg;
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
    EXPECT_EQ(kin_mutex_lock(&from->o.mutex, KIN_NEVER), 0); /* whoever has looked waits now */
    kin_cond_broadcast(&from->o.cond);
    kin_mutex_unlock(&from->o.mutex);
    return 0;
}

static int with_threads(void *arg)
{
    struct from_threads from;
    pthread_t thread;
    (void)arg;
    memset(&from, 0, sizeof from);
    kin_group_add(&from.o.group, 1);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, wait_for_thread, &from), 0);
    EXPECT_EQ(pthread_create(&thread, NULL, help, &from), 0);
    while (from.begun < 3)
        EXPECT_EQ(kin_yield(), 0);
    while (!from.used)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_spawn(&n, wake_all, &from), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    from.done = 1;
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    return 0;
}

KIN_TEST(plain_threads_may_wake_whoever_waits, "")
{
    for (int i = 0; i < 10; i++)
        run_on_few(with_threads, NULL);
}

KIN_TEST(what_threads_did_before_there_was_a_runtime_counts, "")
{
    struct objects o;
    memset(&o, 0, sizeof o);
    kin_sem_release(&o.sem, 5);
    kin_event_set(&o.event);
    kin_event_reset(&o.event);
    kin_event_set(&o.event);
    kin_group_add(&o.group, 3);
    kin_group_done(&o.group);
    kin_group_done(&o.group);
    kin_group_done(&o.group);
    kin_cond_signal(&o.cond);
    kin_cond_broadcast(&o.cond);
    EXPECT_EQ(kin_sem_acquire(&o.sem, 1, 0), KIN_NOTASK);
}
