/* SPDX-License-Identifier: MIT */
/*
 * Goal: mutex and rwlock exclude whom they must, serve in order of arrival, starve nobody, and name
 * both parties when they are misused.
 * Method: counters that only exclusion keeps right, logs of who went in when, processes that abort.
 */
#include "api/in_runtime.h"

#include <kin/sync.h>

/* ---- mutex ---- */

struct counted {
    struct kin_mutex mutex;
    struct kin_rwlock rwlock;
    long count; /* nothing but the lock keeps it right */
    _Atomic int inside;
    _Atomic int done;
};

static int count_under_mutex(void *arg)
{
    struct counted *counted = arg;
    for (int i = 0; i < 300; i++) {
        EXPECT_EQ(kin_mutex_lock(&counted->mutex, KIN_NEVER), 0);
        EXPECT_EQ(counted->inside++, 0);
        counted->count++;
        if (i % 3 == 0)
            EXPECT_EQ(kin_yield(), 0);
        EXPECT_EQ(--counted->inside, 0);
        kin_mutex_unlock(&counted->mutex);
    }
    return 0;
}

static int many_under_mutex(void *arg)
{
    struct counted counted;
    KIN_NURSERY(n);
    (void)arg;
    memset(&counted, 0, sizeof counted);
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(kin_spawn(&n, count_under_mutex, &counted), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(counted.count, 20 * 300);
    return 0;
}

KIN_TEST(a_mutex_lets_one_task_in_at_a_time, "G083 T080 T082")
{
    run_on_few(many_under_mutex, NULL);
}

static int lock_twice(void *arg)
{
    struct kin_mutex mutex = {0};
    (void)arg;
    EXPECT_EQ(kin_mutex_lock(&mutex, KIN_NEVER), 0);
    EXPECT_EQ(kin_mutex_lock(&mutex, KIN_NEVER), -EDEADLK);
    EXPECT_EQ(kin_mutex_lock(&mutex, 0), -EDEADLK);
    EXPECT_EQ(kin_mutex_lock(&mutex, kin_after(KIN_SEC(100))), -EDEADLK);
    kin_mutex_unlock(&mutex); /* once is enough: the others took nothing */
    EXPECT_EQ(kin_mutex_lock(&mutex, 0), 0);
    kin_mutex_unlock(&mutex);
    return 0;
}

KIN_TEST(the_owner_of_a_mutex_is_told_that_it_has_it, "")
{
    run_on_few(lock_twice, NULL);
}

enum { LINE = 40 };

struct ordered {
    struct kin_mutex mutex;
    struct kin_rwlock rwlock;
    _Atomic int begun;
    int log[LINE];
    int count;
};

struct numbered {
    struct ordered *ordered;
    int number;
};

static int lock_and_log(void *arg)
{
    struct numbered *numbered = arg;
    struct ordered *ordered = numbered->ordered;
    ordered->begun++;
    EXPECT_EQ(kin_mutex_lock(&ordered->mutex, KIN_NEVER), 0);
    ordered->log[ordered->count++] = numbered->number;
    if (numbered->number % 4 == 0)
        EXPECT_EQ(kin_yield(), 0);
    kin_mutex_unlock(&ordered->mutex);
    return 0;
}

/* On one worker a task that has begun has got in line when somebody else runs. */
static int lock_in_order(void *arg)
{
    struct ordered ordered;
    struct numbered numbered[LINE];
    KIN_NURSERY(n);
    (void)arg;
    memset(&ordered, 0, sizeof ordered);
    EXPECT_EQ(kin_mutex_lock(&ordered.mutex, KIN_NEVER), 0);
    for (int i = 0; i < LINE; i++) {
        numbered[i] = (struct numbered){&ordered, i};
        EXPECT_EQ(kin_spawn(&n, lock_and_log, &numbered[i]), 0);
        await(&ordered.begun, i + 1);
    }
    kin_mutex_unlock(&ordered.mutex);
    EXPECT_EQ(kin_mutex_lock(&ordered.mutex, 0), KIN_TIMEOUT); /* it is somebody else's already */
    EXPECT_EQ(kin_mutex_lock(&ordered.mutex, KIN_NEVER), 0);
    EXPECT_EQ(ordered.count, LINE); /* whoever comes last is last */
    kin_mutex_unlock(&ordered.mutex);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < LINE; i++)
        EXPECT_EQ(ordered.log[i], i);
    return 0;
}

KIN_TEST(a_mutex_is_handed_on_in_order_of_arrival, "T083 T084 N016")
{
    EXPECT_EQ(run_reporting(1, lock_in_order, NULL, NULL), 0);
}

static int hog(void *arg)
{
    struct counted *counted = arg;
    while (!counted->done) {
        EXPECT_EQ(kin_mutex_lock(&counted->mutex, KIN_NEVER), 0);
        counted->count++;
        EXPECT_EQ(kin_yield(), 0);
        kin_mutex_unlock(&counted->mutex);
    }
    return 0;
}

/* Two tasks that always want the mutex do not keep a third one out for more than a turn each. */
static int get_a_turn(void *arg)
{
    struct counted counted;
    KIN_NURSERY(n);
    (void)arg;
    memset(&counted, 0, sizeof counted);
    EXPECT_EQ(kin_spawn(&n, hog, &counted), 0);
    EXPECT_EQ(kin_spawn(&n, hog, &counted), 0);
    for (int i = 0; i < 300; i++) {
        EXPECT_EQ(kin_mutex_lock(&counted.mutex, KIN_NEVER), 0);
        kin_mutex_unlock(&counted.mutex);
    }
    counted.done = 1;
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(nobody_starves_at_a_mutex, "G084")
{
    run_on_few(get_a_turn, NULL);
}

/* ---- misuse, with both parties ---- */

static struct kin_mutex shared_mutex;
static struct kin_rwlock shared_rwlock;
static _Atomic int is_held;

static int hold_all(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_mutex_lock(&shared_mutex, KIN_NEVER), 0);
    EXPECT_EQ(kin_rwlock_write_lock(&shared_rwlock, KIN_NEVER), 0);
    is_held = 1;
    int rc = kin_sleep(KIN_NEVER);
    kin_rwlock_write_unlock(&shared_rwlock);
    kin_mutex_unlock(&shared_mutex);
    return rc;
}

static int unlock_mutex(void *arg)
{
    (void)arg;
    kin_mutex_unlock(&shared_mutex);
    return 0;
}

static int unlock_writer(void *arg)
{
    (void)arg;
    kin_rwlock_write_unlock(&shared_rwlock);
    return 0;
}

static int unlock_reader(void *arg)
{
    (void)arg;
    kin_rwlock_read_unlock(&shared_rwlock);
    return 0;
}

static int wait_without_mutex(void *arg)
{
    struct kin_cond cond = {{0}};
    (void)arg;
    return kin_cond_wait(&cond, &shared_mutex, KIN_NEVER);
}

/* Somebody called "keeper" holds everything, somebody called "thief" does what it must not. */
static int misuse_held(void *arg)
{
    struct kin_spawn_options keeper = KIN_SPAWN_OPTIONS_INIT, thief = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n);
    keeper.name = "keeper";
    thief.name = "thief";
    EXPECT_EQ(kin_spawn_with(&n, &keeper, hold_all, NULL, 0, NULL), 0);
    await(&is_held, 1);
    EXPECT_EQ(kin_spawn_with(&n, &thief, *(kin_task_fn **)arg, NULL, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

static void expect_misuse(kin_task_fn *fn, const char *call)
{
    const char *patterns[] = {call, "(keeper)", "(thief)"};
    for (int i = 0; i < 3; i++) {
        EXPECT_ABORT(patterns[i])
        {
            kin_ignore(run_reporting(1, misuse_held, &fn, NULL));
        }
    }
}

KIN_TEST(a_lock_is_unlocked_by_nobody_but_its_owner, "G085")
{
    expect_misuse(unlock_mutex, "kin_mutex_unlock: a mutex is unlocked by the task that holds it");
    expect_misuse(unlock_writer, "kin_rwlock_write_unlock: a lock is unlocked by the task");
    expect_misuse(unlock_reader, "kin_rwlock_read_unlock: a lock is unlocked by the task");
    expect_misuse(wait_without_mutex, "kin_cond_wait: the mutex is held by the task that waits");
}

static int unlock_null(void *arg)
{
    (void)arg;
    kin_mutex_unlock(NULL);
    return 0;
}

KIN_TEST(a_lock_that_nobody_holds_is_not_unlocked, "G085")
{
    kin_task_fn *const unlocks[] = {unlock_mutex, unlock_writer, unlock_reader, unlock_null};
    for (int i = 0; i < 4; i++) {
        EXPECT_ABORT("is unlocked by the task that holds it; called by task")
        {
            kin_ignore(run_reporting(1, unlocks[i], NULL, NULL));
        }
        EXPECT_ABORT("a thread outside of every task")
        {
            kin_ignore(unlocks[i](NULL));
        }
    }
}

/* ---- an owner that ends ---- */

static int lock_and_end(void *arg)
{
    struct counted *counted = arg;
    EXPECT_EQ(kin_mutex_lock(&counted->mutex, KIN_NEVER), 0);
    EXPECT_EQ(kin_rwlock_write_lock(&counted->rwlock, KIN_NEVER), 0);
    kin_panic("in the middle of something");
}

static int count_texts(const struct reports *reports, const char *words)
{
    int count = 0;
    for (int i = 0; i < reports->count && i < 8; i++)
        count += strstr(reports->text[i], words) != NULL;
    return count;
}

static int find_it_broken(void *arg)
{
    struct counted counted;
    struct kin_nursery n;
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    (void)arg;
    memset(&counted, 0, sizeof counted);
    options.name = "careless";
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn_with(&n, &options, lock_and_end, &counted, 0, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_PANICKED);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(kin_mutex_lock(&counted.mutex, KIN_NEVER), -EOWNERDEAD);
        EXPECT_EQ(kin_mutex_lock(&counted.mutex, 0), -EOWNERDEAD);
        EXPECT_EQ(kin_rwlock_read_lock(&counted.rwlock, KIN_NEVER), -EOWNERDEAD);
        EXPECT_EQ(kin_rwlock_write_lock(&counted.rwlock, 0), -EOWNERDEAD);
    }
    memset(&counted, 0, sizeof counted); /* and in order again */
    EXPECT_EQ(kin_mutex_lock(&counted.mutex, 0), 0);
    kin_mutex_unlock(&counted.mutex);
    return 0;
}

KIN_TEST(a_lock_whose_owner_has_ended_is_reported_and_refused, "T064 T085")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct reports reports = {0};
        EXPECT_EQ(run_reporting(workers, find_it_broken, NULL, &reports), 0);
        EXPECT_EQ(count_texts(&reports, "in the middle of something"), 1);
        EXPECT_EQ(count_texts(&reports, "mutex"), 1); /* each is reported once */
        EXPECT_EQ(count_texts(&reports, "rwlock"), 1);
        EXPECT_EQ(count_texts(&reports, "is broken"), 2);
    }
}

/* Those who are in line when the owner ends are told, and so is whoever wants reports. */
static int hold_and_panic(void *arg)
{
    struct counted *counted = arg;
    EXPECT_EQ(kin_mutex_lock(&counted->mutex, KIN_NEVER), 0);
    counted->inside = 1;
    await(&counted->done, 3); /* the others are on their way */
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(kin_yield(), 0);
    kin_panic("in the middle of something");
}

static int want_it(void *arg)
{
    struct counted *counted = arg;
    await(&counted->inside, 1);
    counted->done++;
    EXPECT_EQ(kin_mutex_lock(&counted->mutex, KIN_NEVER), -EOWNERDEAD);
    return 0;
}

static int end_with_others_in_line(void *arg)
{
    struct counted counted;
    struct kin_nursery n;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    (void)arg;
    memset(&counted, 0, sizeof counted);
    options.on_error = KIN_COLLECT;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    EXPECT_EQ(kin_spawn(&n, hold_and_panic, &counted), 0);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_spawn(&n, want_it, &counted), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_PANICKED); /* ends: nobody waits for ever */
    return 0;
}

KIN_TEST(those_in_line_are_told_when_the_owner_panics, "T064 T085")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct reports reports = {0};
        EXPECT_EQ(run_reporting(workers, end_with_others_in_line, NULL, &reports), 0);
        EXPECT_EQ(count_texts(&reports, "has ended and still holds 1 lock"), 1);
        EXPECT_EQ(count_texts(&reports, "is broken"), 1);
    }
}

/* ---- readers and writers ---- */

static int read_together(void *arg)
{
    struct counted *counted = arg;
    EXPECT_EQ(kin_rwlock_read_lock(&counted->rwlock, KIN_NEVER), 0);
    counted->inside++;
    await(&counted->inside, 30); /* ends: all of them are in at once */
    kin_rwlock_read_unlock(&counted->rwlock);
    return 0;
}

static int all_read(void *arg)
{
    struct counted counted;
    KIN_NURSERY(n);
    (void)arg;
    memset(&counted, 0, sizeof counted);
    for (int i = 0; i < 30; i++)
        EXPECT_EQ(kin_spawn(&n, read_together, &counted), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_rwlock_write_lock(&counted.rwlock, 0), 0); /* all are out again */
    kin_rwlock_write_unlock(&counted.rwlock);
    return 0;
}

KIN_TEST(readers_go_in_together, "G089")
{
    run_on_few(all_read, NULL);
}

enum { WRITER = 10000 };

static int read_some(void *arg)
{
    struct counted *counted = arg;
    for (int i = 0; i < 200; i++) {
        EXPECT_EQ(kin_rwlock_read_lock(&counted->rwlock, KIN_NEVER), 0);
        EXPECT_LT(counted->inside++, WRITER);
        if (i % 5 == 0)
            EXPECT_EQ(kin_yield(), 0);
        EXPECT_LT(--counted->inside, WRITER);
        kin_rwlock_read_unlock(&counted->rwlock);
    }
    return 0;
}

static int write_some(void *arg)
{
    struct counted *counted = arg;
    for (int i = 0; i < 100; i++) {
        EXPECT_EQ(kin_rwlock_write_lock(&counted->rwlock, KIN_NEVER), 0);
        EXPECT_EQ(atomic_fetch_add(&counted->inside, WRITER), 0);
        counted->count++;
        if (i % 5 == 0)
            EXPECT_EQ(kin_yield(), 0);
        EXPECT_EQ(atomic_fetch_sub(&counted->inside, WRITER), WRITER);
        kin_rwlock_write_unlock(&counted->rwlock);
    }
    return 0;
}

static int read_and_write(void *arg)
{
    struct counted counted;
    KIN_NURSERY(n);
    (void)arg;
    memset(&counted, 0, sizeof counted);
    for (int i = 0; i < 18; i++)
        EXPECT_EQ(kin_spawn(&n, i % 3 ? read_some : write_some, &counted), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(counted.count, 6 * 100);
    return 0;
}

KIN_TEST(a_writer_is_alone, "G090 N016")
{
    run_on_few(read_and_write, NULL);
}

static int read_on_and_on(void *arg)
{
    struct counted *counted = arg;
    while (!counted->done) {
        EXPECT_EQ(kin_rwlock_read_lock(&counted->rwlock, KIN_NEVER), 0);
        counted->inside++;
        EXPECT_EQ(kin_yield(), 0);
        kin_rwlock_read_unlock(&counted->rwlock);
    }
    return 0;
}

static int write_on_and_on(void *arg)
{
    struct counted *counted = arg;
    while (!counted->done) {
        EXPECT_EQ(kin_rwlock_write_lock(&counted->rwlock, KIN_NEVER), 0);
        counted->count++;
        EXPECT_EQ(kin_yield(), 0);
        kin_rwlock_write_unlock(&counted->rwlock);
    }
    return 0;
}

/* One of the other kind, among several that never stop, gets in again and again. */
static int get_in(void *arg)
{
    for (int kind = 0; kind < 2; kind++) {
        struct counted counted;
        KIN_NURSERY(n);
        (void)arg;
        memset(&counted, 0, sizeof counted);
        for (int i = 0; i < 4; i++)
            EXPECT_EQ(kin_spawn(&n, kind ? read_on_and_on : write_on_and_on, &counted), 0);
        for (int i = 0; i < 200; i++) {
            if (kind) {
                EXPECT_EQ(kin_rwlock_write_lock(&counted.rwlock, KIN_NEVER), 0);
                kin_rwlock_write_unlock(&counted.rwlock);
            } else {
                EXPECT_EQ(kin_rwlock_read_lock(&counted.rwlock, KIN_NEVER), 0);
                kin_rwlock_read_unlock(&counted.rwlock);
            }
        }
        counted.done = 1;
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(neither_readers_nor_writers_starve, "G090")
{
    run_on_few(get_in, NULL);
}

static int recur(void *arg)
{
    struct kin_rwlock rwlock = {{0}};
    (void)arg;
    EXPECT_EQ(kin_rwlock_write_lock(&rwlock, KIN_NEVER), 0);
    EXPECT_EQ(kin_rwlock_write_lock(&rwlock, KIN_NEVER), -EDEADLK);
    EXPECT_EQ(kin_rwlock_read_lock(&rwlock, KIN_NEVER), -EDEADLK);
    EXPECT_EQ(kin_rwlock_read_lock(&rwlock, 0), -EDEADLK);
    kin_rwlock_write_unlock(&rwlock);
    EXPECT_EQ(kin_rwlock_read_lock(&rwlock, 0), 0);
    EXPECT_EQ(kin_rwlock_read_lock(&rwlock, 0), 0); /* nobody waits in between */
    EXPECT_EQ(kin_rwlock_write_lock(&rwlock, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    kin_rwlock_read_unlock(&rwlock);
    EXPECT_EQ(kin_rwlock_write_lock(&rwlock, 0), KIN_TIMEOUT);
    kin_rwlock_read_unlock(&rwlock);
    EXPECT_EQ(kin_rwlock_write_lock(&rwlock, 0), 0);
    kin_rwlock_write_unlock(&rwlock);
    return 0;
}

KIN_TEST(the_writer_is_told_that_it_has_the_lock, "")
{
    run_on_few(recur, NULL);
}
