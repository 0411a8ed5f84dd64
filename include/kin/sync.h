/* SPDX-License-Identifier: MIT */
/*
 * Locks and friends: how tasks exclude, count, signal and wait for each other.
 *
 *     kin_mutex     one task at a time
 *     kin_rwlock    many readers or one writer
 *     kin_cond      wait, without the mutex, until somebody says that it may have changed
 *     kin_sem       so many permits
 *     kin_event     off until it is set, then open to everybody until it is reset
 *     kin_group     wait until as many are done as were added
 *     kin_once      the first one does it, the others wait for it
 *     kin_barrier   nobody goes on before all have come
 *
 * Each is ready when all its bytes are zero, needs no destruction, never allocates, and may be
 * freed or reused as soon as no call on it is in progress. A call counts as over when the task that
 * made it goes on: a waiter that was let go may free the object even while the call that let it go
 * has not returned.
 *
 * Every wait takes a deadline: KIN_NEVER waits without end, 0 not at all. A wait that can end at
 * once does so whatever the deadline is. Otherwise it ends with KIN_TIMEOUT when its deadline, or
 * one around it, comes, and with KIN_CANCELLED when the task is asked to stop. Whoever leaves early
 * leaves no trace: what it was about to get goes to the next in line. Whoever waits is served in
 * order of arrival.
 *
 * A call that waits answers KIN_NOTASK outside a task and -EINVAL for NULL. Calls that return
 * nothing do nothing for NULL, except unlocks, which abort.
 */
#ifndef KIN_SYNC_H
#define KIN_SYNC_H

#include <kin/base.h>
#include <kin/run.h>
#include <kin/status.h>
#include <kin/time.h>

#include <stddef.h>
#include <stdint.h>

KIN_BEGIN_DECLS

/* Storage; what is inside is the runtime's. */
struct kin_mutex {
    uint64_t opaque_[4];
};
struct kin_rwlock {
    uint64_t opaque_[6];
};
struct kin_cond {
    uint64_t opaque_[4];
};
struct kin_sem {
    uint64_t opaque_[4];
};
struct kin_event {
    uint64_t opaque_[4];
};
struct kin_group {
    uint64_t opaque_[4];
};
struct kin_once {
    uint64_t opaque_[6];
};
struct kin_barrier {
    uint64_t opaque_[6];
};

/* ---- mutex ---- */

/**
 * kin_mutex_lock - wait until nobody holds the mutex, and hold it.
 * @mutex:    the mutex.
 * @deadline: how long to wait; 0 only tries.
 *
 * Waiters get the mutex in order of arrival: an unlock hands it to the first in line, and no
 * newcomer overtakes. It may be held over anything that parks.
 *
 * A task that ends while it holds a mutex breaks it: what the mutex protects was left in the middle
 * of something. That is reported, and everybody who wants the mutex is told -EOWNERDEAD from then
 * on. Of a task that held more than six locks at a time it is reported when somebody wants one.
 *
 * Example:
 *     struct account {
 *         struct kin_mutex mutex;
 *         long balance;
 *     };
 *
 *     int pay_in(struct account *account, long amount)
 *     {
 *         int rc = kin_mutex_lock(&account->mutex, KIN_NEVER);
 *         if (rc < 0)
 *             return rc;
 *         account->balance += amount;
 *         kin_mutex_unlock(&account->mutex);
 *         return 0;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits
 * Budget:  1 op
 * Returns: 0, -EDEADLK when the task holds it already, -EOWNERDEAD when it is broken, KIN_TIMEOUT,
 *          KIN_CANCELLED, KIN_BUDGET, KIN_NOTASK, -EINVAL
 */
KIN_API KIN_MUST_USE int kin_mutex_lock(struct kin_mutex *mutex, kin_time deadline);

/**
 * kin_mutex_unlock - give the mutex to the first in line, or to nobody.
 * @mutex: a mutex that the running task holds; else the process aborts and says who holds it.
 *
 * Example:
 *     int add(struct kin_mutex *lock, long *sum, long number)
 *     {
 *         int rc = kin_mutex_lock(lock, KIN_NEVER);
 *         if (rc < 0)
 *             return rc;
 *         *sum += number;
 *         kin_mutex_unlock(lock);
 *         return 0;
 *     }
 *
 * From:    task, the owner
 * Parks:   no
 * Returns: nothing
 */
KIN_API void kin_mutex_unlock(struct kin_mutex *mutex);

/* ---- readers and writers ---- */

/**
 * kin_rwlock_read_lock - wait until no writer holds the lock, and hold it among other readers.
 * @rwlock:   the lock.
 * @deadline: how long to wait; 0 only tries.
 *
 * Readers and writers stand in one line. A writer waits for the readers and writers before it, a
 * reader for the writers before it; so neither kind starves the other, and readers that stand next
 * to each other go in together.
 *
 * Readers are counted, not known: a task that reads already must not read-lock again, because a
 * writer may have come in between, and must not write-lock before it has unlocked. Both wait for
 * ever. The writer itself is told -EDEADLK.
 *
 * Example:
 *     struct table {
 *         struct kin_rwlock lock;
 *         int value[16];
 *     };
 *
 *     int look_up(struct table *table, unsigned key, int *value)
 *     {
 *         int rc = kin_rwlock_read_lock(&table->lock, kin_after(KIN_MS(100)));
 *         if (rc < 0)
 *             return rc;
 *         *value = table->value[key % 16];
 *         kin_rwlock_read_unlock(&table->lock);
 *         return 0;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits
 * Budget:  1 op
 * Returns: 0, -EDEADLK when the task holds it as writer, -EOWNERDEAD when a writer has ended
 *          without unlocking it, KIN_TIMEOUT, KIN_CANCELLED, KIN_BUDGET, KIN_NOTASK, -EINVAL
 */
KIN_API KIN_MUST_USE int kin_rwlock_read_lock(struct kin_rwlock *rwlock, kin_time deadline);

/**
 * kin_rwlock_read_unlock - one reader less.
 * @rwlock: a lock that the running task holds as reader. When nobody reads, or the task holds no
 *          lock at all, the process aborts.
 *
 * Example:
 *     int look_up(struct kin_rwlock *lock, const int *table, int at, int *found)
 *     {
 *         int rc = kin_rwlock_read_lock(lock, KIN_NEVER);
 *         if (rc < 0)
 *             return rc;
 *         *found = table[at];
 *         kin_rwlock_read_unlock(lock);
 *         return 0;
 *     }
 *
 * From:    task
 * Parks:   no
 * Returns: nothing
 */
KIN_API void kin_rwlock_read_unlock(struct kin_rwlock *rwlock);

/**
 * kin_rwlock_write_lock - wait until nobody holds the lock, and hold it alone.
 * @rwlock:   the lock.
 * @deadline: how long to wait; 0 only tries.
 *
 * Example:
 *     int change(struct kin_rwlock *lock, int *table, int at, int number)
 *     {
 *         int rc = kin_rwlock_write_lock(lock, kin_after(KIN_MS(100)));
 *         if (rc < 0)
 *             return rc;
 *         table[at] = number;
 *         kin_rwlock_write_unlock(lock);
 *         return 0;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits
 * Budget:  1 op
 * Returns: as kin_rwlock_read_lock
 */
KIN_API KIN_MUST_USE int kin_rwlock_write_lock(struct kin_rwlock *rwlock, kin_time deadline);

/**
 * kin_rwlock_write_unlock - let the next ones in.
 * @rwlock: a lock that the running task holds as writer; else the process aborts and says who does.
 *
 * Example:
 *     int clear(struct kin_rwlock *lock, int *table, size_t count)
 *     {
 *         int rc = kin_rwlock_write_lock(lock, KIN_NEVER);
 *         if (rc < 0)
 *             return rc;
 *         memset(table, 0, count * sizeof(*table));
 *         kin_rwlock_write_unlock(lock);
 *         return 0;
 *     }
 *
 * From:    task, the writer
 * Parks:   no
 * Returns: nothing
 */
KIN_API void kin_rwlock_write_unlock(struct kin_rwlock *rwlock);

/* ---- condition ---- */

/**
 * kin_cond_wait - give the mutex up, wait for a signal, and take the mutex again.
 * @cond:     the condition.
 * @mutex:    a mutex that the running task holds; else the process aborts.
 * @deadline: how long to wait for the signal; taking the mutex again has no deadline.
 *
 * Giving up and beginning to wait are one step: a signal by whoever gets the mutex next is not
 * missed. There are no spurious wakes: 0 means that a signal was meant for this call. What it
 * announced may still have been used up by somebody who got the mutex first, so most callers wait
 * in a loop. Whatever is returned, the mutex is held again; it takes neither a deadline nor a
 * cancellation to make that so. The exception is -EOWNERDEAD: the mutex broke meanwhile.
 *
 * Example:
 *     #include <errno.h>
 *     struct box {
 *         struct kin_mutex mutex;
 *         struct kin_cond is_full;
 *         int item;
 *     };
 *
 *     int take(struct box *box, int *item)
 *     {
 *         int rc = kin_mutex_lock(&box->mutex, KIN_NEVER);
 *         if (rc < 0)
 *             return rc;
 *         while (box->item == 0 && rc == 0)
 *             rc = kin_cond_wait(&box->is_full, &box->mutex, KIN_NEVER);
 *         if (rc == 0) {
 *             *item = box->item;
 *             box->item = 0;
 *         }
 *         if (rc != -EOWNERDEAD)
 *             kin_mutex_unlock(&box->mutex);
 *         return rc;
 *     }
 *
 * From:    task, the owner of the mutex
 * Parks:   yes
 * Cancel:  while it waits for the signal
 * Budget:  1 op
 * Returns: 0, KIN_TIMEOUT, KIN_CANCELLED, KIN_BUDGET, KIN_NOTASK, -EINVAL, -EOWNERDEAD
 */
KIN_API KIN_MUST_USE int kin_cond_wait(struct kin_cond *cond, struct kin_mutex *mutex,
                                       kin_time deadline);

/**
 * kin_cond_signal - wake the task that has waited longest.
 * @cond: the condition; nothing happens, and nothing is remembered, when nobody waits.
 *
 * The mutex need not be held, but whoever changes what others wait for without it can be too early.
 *
 * Example:
 *     int put_one(struct kin_mutex *lock, struct kin_cond *filled, int *items)
 *     {
 *         int rc = kin_mutex_lock(lock, KIN_NEVER);
 *         if (rc < 0)
 *             return rc;
 *         ++*items;
 *         kin_cond_signal(filled);
 *         kin_mutex_unlock(lock);
 *         return 0;
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: nothing
 */
KIN_API void kin_cond_signal(struct kin_cond *cond);

/**
 * kin_cond_broadcast - wake every task that waits now.
 * @cond: the condition.
 *
 * Example:
 *     struct door {
 *         struct kin_mutex mutex;
 *         struct kin_cond opened;
 *         int is_open;
 *     };
 *
 *     int open_door(struct door *door)
 *     {
 *         int rc = kin_mutex_lock(&door->mutex, KIN_NEVER);
 *         if (rc < 0)
 *             return rc;
 *         door->is_open = 1;
 *         kin_cond_broadcast(&door->opened);
 *         kin_mutex_unlock(&door->mutex);
 *         return 0;
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: nothing
 */
KIN_API void kin_cond_broadcast(struct kin_cond *cond);

/* ---- semaphore ---- */

/**
 * kin_sem_init - make a semaphore with permits in it.
 * @sem:     storage; nobody may be using it.
 * @permits: how many there are at first. A semaphore that is all zero has none and is ready too.
 *
 * Example:
 *     struct kin_sem connections;
 *
 *     int allow_ten(void)
 *     {
 *         return kin_sem_init(&connections, 10);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: 0, -EINVAL for NULL
 */
KIN_API int kin_sem_init(struct kin_sem *sem, size_t permits);

/**
 * kin_sem_acquire - wait until there are enough permits, and take them.
 * @sem:      the semaphore.
 * @n:        how many, all at once; 0 takes none and never waits.
 * @deadline: how long to wait; 0 only tries.
 *
 * Waiters stand in one line: a call that asks for few does not overtake one that asked for many
 * before it.
 *
 * Example:
 *     static struct kin_sem connections;
 *
 *     int prepare(void)
 *     {
 *         return kin_sem_init(&connections, 10);
 *     }
 *
 *     int with_connection(int (*use)(void))
 *     {
 *         int rc = kin_sem_acquire(&connections, 1, kin_after(KIN_SEC(1)));
 *         if (rc < 0)
 *             return rc;
 *         rc = use();
 *         kin_sem_release(&connections, 1);
 *         return rc;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits
 * Budget:  1 op
 * Returns: 0, KIN_TIMEOUT, KIN_CANCELLED, KIN_BUDGET, KIN_NOTASK, -EINVAL
 */
KIN_API KIN_MUST_USE int kin_sem_acquire(struct kin_sem *sem, size_t n, kin_time deadline);

/**
 * kin_sem_release - put permits in.
 * @sem: the semaphore.
 * @n:   how many. Whoever releases need not be who acquired; more than SIZE_MAX in all aborts.
 *
 * Example:
 *     int use_two(struct kin_sem *permits, int (*use)(void))
 *     {
 *         int rc = kin_sem_acquire(permits, 2, KIN_NEVER);
 *         if (rc < 0)
 *             return rc;
 *         rc = use();
 *         kin_sem_release(permits, 2);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: nothing
 */
KIN_API void kin_sem_release(struct kin_sem *sem, size_t n);

/* ---- event ---- */

/**
 * kin_event_set - let everybody pass who waits or comes, until the event is reset.
 * @event: the event; setting it again changes nothing.
 *
 * Everybody who waits at this moment, in kin_event_wait or in a select, is woken, even if the event
 * is reset right afterwards.
 *
 * Example:
 *     static struct kin_event is_ready;
 *
 *     int use_service(void *arg)
 *     {
 *         (void)arg;
 *         return kin_event_wait(&is_ready, kin_after(KIN_SEC(5)));
 *     }
 *
 *     void announce_service(void)
 *     {
 *         kin_event_set(&is_ready);
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: nothing
 */
KIN_API void kin_event_set(struct kin_event *event);

/**
 * kin_event_reset - from now on whoever comes waits.
 * @event: the event; resetting it again changes nothing.
 *
 * Example:
 *     int next_round(struct kin_event *go)
 *     {
 *         int rc = kin_event_wait(go, KIN_NEVER);
 *         if (rc == 0)
 *             kin_event_reset(go);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: nothing
 */
KIN_API void kin_event_reset(struct kin_event *event);

/**
 * kin_event_wait - wait until the event is set.
 * @event:    the event.
 * @deadline: how long to wait; 0 only asks.
 *
 * Example:
 *     int wait_until_ready(struct kin_event *ready)
 *     {
 *         int rc = kin_event_wait(ready, kin_after(KIN_SEC(5)));
 *         if (rc == KIN_TIMEOUT)
 *             fprintf(stderr, "still not ready\n");
 *         return rc;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits
 * Budget:  1 op
 * Returns: 0, KIN_TIMEOUT, KIN_CANCELLED, KIN_BUDGET, KIN_NOTASK, -EINVAL
 */
KIN_API KIN_MUST_USE int kin_event_wait(struct kin_event *event, kin_time deadline);

/* ---- group ---- */

/**
 * kin_group_add - there is more to wait for.
 * @group: the group.
 * @n:     how many. Add before whoever will be done can be; more than SIZE_MAX in all aborts.
 *
 * Example:
 *     int work(void *group);
 *
 *     int start(struct kin_nursery *n, struct kin_group *group, int count)
 *     {
 *         int rc = 0;
 *         kin_group_add(group, (size_t)count);
 *         for (int i = 0; i < count; i++) {
 *             if (rc == 0)
 *                 rc = kin_spawn(n, work, group);
 *             if (rc < 0)
 *                 kin_group_done(group);
 *         }
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: nothing
 */
KIN_API void kin_group_add(struct kin_group *group, size_t n);

/**
 * kin_group_done - one less to wait for.
 * @group: the group; the process aborts when nothing is left in it.
 *
 * Example:
 *     int work(void *arg)
 *     {
 *         struct kin_group *group = arg;
 *         int rc = kin_sleep(kin_after(KIN_MS(1)));
 *         kin_group_done(group);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: nothing
 */
KIN_API void kin_group_done(struct kin_group *group);

/**
 * kin_group_wait - wait until nothing is left.
 * @group:    the group. It can be used again afterwards, and by several waiters at once.
 * @deadline: how long to wait; 0 only asks.
 *
 * Everybody who waits when the last one is done is woken, even if more is added right afterwards.
 *
 * Example:
 *     static struct kin_group requests;
 *
 *     void begin_request(void)
 *     {
 *         kin_group_add(&requests, 1);
 *     }
 *
 *     void end_request(void)
 *     {
 *         kin_group_done(&requests);
 *     }
 *
 *     int drain_requests(void)
 *     {
 *         return kin_group_wait(&requests, kin_after(KIN_SEC(10)));
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits
 * Budget:  1 op
 * Returns: 0, KIN_TIMEOUT, KIN_CANCELLED, KIN_BUDGET, KIN_NOTASK, -EINVAL
 */
KIN_API KIN_MUST_USE int kin_group_wait(struct kin_group *group, kin_time deadline);

/* ---- once ---- */

/**
 * kin_once_do - do something the first time, wait for it the other times.
 * @once:     what remembers that it was done, and how it ended.
 * @fn:       what to do; called in the task that comes first.
 * @arg:      handed to fn.
 * @deadline: how long to wait for the task that does it; it does not limit fn itself.
 *
 * Everybody gets the status that fn returned, and it is never called again, even if it failed. A
 * task that ends inside of fn, by kin_fail, kin_panic or a stack overflow, has failed with the
 * status it ends with: the others get that.
 *
 * Example:
 *     static struct kin_once once;
 *     static int table[16];
 *
 *     int fill_table(void *arg)
 *     {
 *         (void)arg;
 *         for (int i = 0; i < 16; i++)
 *             table[i] = i * i;
 *         return 0;
 *     }
 *
 *     int square(int i)
 *     {
 *         int rc = kin_once_do(&once, fill_table, NULL, KIN_NEVER);
 *         return rc < 0 ? rc : table[i % 16];
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits for the task that does it
 * Budget:  1 op
 * Returns: what fn returned, -EDEADLK when fn itself calls it, KIN_TIMEOUT, KIN_CANCELLED,
 *          KIN_BUDGET, KIN_NOTASK, -EINVAL
 */
KIN_API KIN_MUST_USE int kin_once_do(struct kin_once *once, kin_task_fn *fn, void *arg,
                                     kin_time deadline);

/* ---- barrier ---- */

/**
 * kin_barrier_init - make a barrier for so many.
 * @barrier: storage; nobody may be using it.
 * @parties: how many must come, at least 1. A barrier that is all zero is for nobody.
 *
 * Example:
 *     int compute(void *barrier);
 *
 *     int compute_together(size_t count)
 *     {
 *         struct kin_barrier barrier;
 *         int rc = kin_barrier_init(&barrier, count);
 *         KIN_NURSERY(n);
 *         for (size_t i = 0; i < count && rc == 0; i++)
 *             rc = kin_spawn(&n, compute, &barrier);
 *         return kin_nursery_end(&n, rc);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: 0, -EINVAL for NULL or 0 parties
 */
KIN_API int kin_barrier_init(struct kin_barrier *barrier, size_t parties);

/**
 * kin_barrier_wait - wait until all have come.
 * @barrier:  the barrier. The next round begins as soon as a round is full.
 * @deadline: how long to wait; 0 waits only if this is the last one to come.
 *
 * A call that returns anything but 0 has not come: somebody else must, for the round to be full.
 * The number of parties stays as it is.
 *
 * Example:
 *     int steps(struct kin_barrier *barrier, void (*step)(int), int count)
 *     {
 *         for (int i = 0; i < count; i++) {
 *             step(i);
 *             int rc = kin_barrier_wait(barrier, KIN_NEVER);
 *             if (rc < 0)
 *                 return rc;
 *         }
 *         return 0;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  while it waits
 * Budget:  1 op
 * Returns: 0, KIN_TIMEOUT, KIN_CANCELLED, KIN_BUDGET, KIN_NOTASK, -EINVAL for NULL or a barrier
 *          that was not made
 */
KIN_API KIN_MUST_USE int kin_barrier_wait(struct kin_barrier *barrier, kin_time deadline);

KIN_END_DECLS

#endif
