/* SPDX-License-Identifier: MIT */
/*
 * Goal: a task that waits for a condition stands in line before it gives its mutex up, so that no
 *       signal of whoever gets the mutex next can be missed.
 * Method: the step between the two lasts a few nanoseconds, too short for chance. A thread holds
 *         the lock inside the mutex, where the waiter has to come by when it gives the mutex up
 *         and somebody is in line for it: the waiter stops there, and meanwhile it must be seen in
 *         the line of the condition, with the mutex still its own.
 */
#include "wait/in_line.h"

#include "wait/mutex.h"
#include "wait/owner.h"

#include <kin/sync.h>

#include <pthread.h>
#include <sched.h>

struct story {
    struct kin_mutex mutex;
    struct kin_cond cond;
    _Atomic int holds, waits, is_locked, may_unlock, signalled;
    uint64_t waiter;
};

static struct kin__crowd *crowd_of_mutex(struct story *story)
{
    void *storage = &story->mutex;
    struct kin__mutex *mutex = storage;
    return &mutex->crowd;
}

static struct kin__crowd *crowd_of_cond(struct story *story)
{
    return (struct kin__crowd *)(void *)&story->cond; /* the first thing in it */
}

static int wait_for_the_condition(void *arg)
{
    struct story *story = arg;
    EXPECT_EQ(kin_mutex_lock(&story->mutex, KIN_NEVER), 0);
    story->waiter = kin__owner_of(kin__task_self());
    atomic_store(&story->holds, 1);
    await(&story->waits, 1);
    EXPECT_EQ(kin_cond_wait(&story->cond, &story->mutex, KIN_NEVER), 0);
    EXPECT_EQ(atomic_load(&story->signalled), 1);
    kin_mutex_unlock(&story->mutex);
    return 0;
}

/* In line for the mutex; signals as soon as it has it, once. */
static int signal_with_the_mutex(void *arg)
{
    struct story *story = arg;
    EXPECT_EQ(kin_mutex_lock(&story->mutex, KIN_NEVER), 0);
    atomic_store(&story->signalled, 1);
    kin_cond_signal(&story->cond);
    kin_mutex_unlock(&story->mutex);
    return 0;
}

static void *hold_the_lock_inside(void *arg)
{
    struct story *story = arg;
    kin__crowd_take(crowd_of_mutex(story));
    atomic_store(&story->is_locked, 1);
    while (!atomic_load(&story->may_unlock)) /* ends: the test goes on, or its alarm comes */
        sched_yield();
    kin__crowd_give(crowd_of_mutex(story));
    return NULL;
}

static int stop_in_between(void *arg)
{
    struct story story = {.waiter = 0};
    pthread_t thread;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, wait_for_the_condition, &story), 0);
    await(&story.holds, 1);
    EXPECT_EQ(kin_spawn(&n, signal_with_the_mutex, &story), 0);
    await_in_line(crowd_of_mutex(&story), 1);
    EXPECT_EQ(pthread_create(&thread, NULL, hold_the_lock_inside, &story), 0);
    await(&story.is_locked, 1);
    atomic_store(&story.waits, 1);
    await_in_line(crowd_of_cond(&story), 1); /* ends: it stands there first */
    uint64_t owner;
    do /* ends: it is nobody's for the moment in which the waiter finds that somebody is in line */
        owner = kin__mutex_owner(&story.mutex);
    while (owner == 0);
    EXPECT_EQ(owner, story.waiter);
    EXPECT_EQ(atomic_load(&story.signalled), 0);
    atomic_store(&story.may_unlock, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0); /* ends: the one signal was for the waiter */
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    expect_quiet(crowd_of_cond(&story));
    return 0;
}

static int stop_often(void *arg)
{
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(stop_in_between(arg), 0);
    return 0;
}

KIN_TEST(a_waiter_stands_in_line_while_it_gives_its_mutex_up, "G082")
{
    EXPECT_EQ(run_reporting(2, stop_often, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(4, stop_often, NULL, NULL), 0);
}
