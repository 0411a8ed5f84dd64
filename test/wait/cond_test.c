/* SPDX-License-Identifier: MIT */
/*
 * Goal: a task that waits is in line before its mutex is free, a wait that never began has kept the
 * mutex, and each signal ends exactly one wait.
 * Method: looks into the line while the mutex changes hands; waits that are called off early.
 */
#include "wait/in_line.h"

#include "wait/mutex.h"

#include <kin/sync.h>

/* The crowd is the first thing in it. */
static struct kin__crowd *crowd_of(struct kin_cond *cond)
{
    return (struct kin__crowd *)(void *)cond;
}

struct shared {
    struct kin_mutex mutex;
    struct kin_cond cond;
    _Atomic int waiting;
};

static int wait_here(void *arg)
{
    struct in_line *me = arg;
    struct shared *shared = me->object;
    EXPECT_EQ(kin_mutex_lock(&shared->mutex, KIN_NEVER), 0);
    shared->waiting++;
    me->rc = kin_cond_wait(&shared->cond, &shared->mutex, me->deadline);
    EXPECT(kin__mutex_is_held(&shared->mutex, kin__task_self()));
    kin_mutex_unlock(&shared->mutex);
    return 0;
}

/* Whoever gets the mutex after the waiter had it finds the waiter in line. */
static int be_in_line_first(void *arg)
{
    const int rounds = 500 / (int)kin_test_scale() + 1;
    (void)arg;
    for (int round = 0; round < rounds; round++) {
        struct shared shared = {.waiting = 0};
        struct in_line waiter = {&shared, 0, KIN_NEVER, 1};
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, wait_here, &waiter), 0);
        while (!shared.waiting) /* ends: it runs */
            kin_ignore(kin_yield());
        EXPECT_EQ(kin_mutex_lock(&shared.mutex, KIN_NEVER), 0);
        EXPECT_EQ(in_line(crowd_of(&shared.cond)), 1);
        kin_cond_signal(&shared.cond);
        EXPECT_EQ(in_line(crowd_of(&shared.cond)), 0);
        kin_mutex_unlock(&shared.mutex);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(waiter.rc, 0);
        expect_quiet(crowd_of(&shared.cond));
    }
    return 0;
}

KIN_TEST(a_waiter_is_in_line_before_the_mutex_is_free, "G082")
{
    run_on_few(be_in_line_first, NULL);
}

static int wait_though_cancelled(void *arg)
{
    struct shared *shared = arg;
    EXPECT_EQ(kin_mutex_lock(&shared->mutex, 0), 0);
    uint64_t owner = kin__mutex_owner(&shared->mutex);
    while (!kin_cancelled()) /* ends: it is cancelled */
        kin_ignore(kin_yield());
    EXPECT_EQ(kin_cond_wait(&shared->cond, &shared->mutex, KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin__mutex_owner(&shared->mutex), owner);
    EXPECT_EQ(kin_cond_wait(&shared->cond, &shared->mutex, kin_after(KIN_SEC(1000))),
              KIN_CANCELLED);
    EXPECT_EQ(kin_cond_wait(&shared->cond, &shared->mutex, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin__mutex_owner(&shared->mutex), owner);
    expect_quiet(crowd_of(&shared->cond));
    kin_mutex_unlock(&shared->mutex);
    return KIN_CANCELLED;
}

static int call_waits_off(void *arg)
{
    struct shared shared = {.waiting = 0};
    struct kin_nursery n;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, wait_though_cancelled, &shared), 0);
    while (!kin__mutex_owner(&shared.mutex)) /* ends: it runs */
        kin_ignore(kin_yield());
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin__mutex_owner(&shared.mutex), 0);
    return 0;
}

KIN_TEST(a_wait_that_is_called_off_has_kept_the_mutex, "T081")
{
    run_on_few(call_waits_off, NULL);
}

/* A broadcast means those who are in line when it is made, in batches or not. */
static int broadcast_to_many(void *arg)
{
    enum { WAITERS = 200 };
    struct shared shared = {.waiting = 0};
    static struct line line;
    (void)arg;
    line_open(&line, crowd_of(&shared.cond), wait_here, &shared);
    for (int i = 0; i < WAITERS; i++)
        line_add(&line, i % 2 ? KIN_NEVER : kin_after(KIN_SEC(1000)));
    for (int i = 5; i < WAITERS; i += 10)
        line_cancel(&line, i);
    kin_cond_broadcast(&shared.cond);
    expect_quiet(crowd_of(&shared.cond));
    line_join(&line);
    for (int i = 0; i < WAITERS; i++)
        EXPECT_EQ(line.waiters[i].rc, i % 10 == 5 ? KIN_CANCELLED : 0);
    return 0;
}

KIN_TEST(a_broadcast_wakes_more_than_one_batch, "G081 T061")
{
    run_on_few(broadcast_to_many, NULL);
}
