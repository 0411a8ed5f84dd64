/* SPDX-License-Identifier: MIT */
/*
 * Goal: the word of a mutex always says who holds it and whether somebody is in line, the mutex
 * goes from hand to hand in order, and to nobody who leaves.
 * Method: looks into the word and the line, with waiters whose order is known on any number of
 * workers; races of unlocks with leavers; memory that is freed the moment it may be.
 */
#include "wait/in_line.h"

#include "sched/entry.h"
#include "wait/mutex.h"
#include "wait/owner.h"

#include <errno.h>

#define WAITED (~KIN__OWNER_MASK)

static struct kin__mutex *inside(struct kin_mutex *mutex)
{
    return (struct kin__mutex *)(void *)mutex;
}

static uint64_t word_of(struct kin_mutex *mutex)
{
    return kin__load_relaxed(&inside(mutex)->word); /* alone: a look from outside */
}

static unsigned locks_held(void)
{
    return (kin__task_self()->flags & KIN__TASK_LOCKS) / KIN__TASK_LOCK;
}

struct shared {
    struct kin_mutex mutex;
    int log[IN_LINE_MAX];
    int count;
};

static int lock_and_log(void *arg)
{
    struct in_line *me = arg;
    struct shared *shared = me->object;
    me->rc = kin_mutex_lock(&shared->mutex, me->deadline);
    if (me->rc < 0) {
        EXPECT_EQ(locks_held(), 0);
        return 0;
    }
    EXPECT_EQ(word_of(&shared->mutex) & KIN__OWNER_MASK, kin__owner_of(kin__task_self()));
    EXPECT_EQ(locks_held(), 1);
    shared->log[shared->count++] = me->number;
    kin_mutex_unlock(&shared->mutex);
    EXPECT_EQ(locks_held(), 0);
    return 0;
}

static int look_at_the_word(void *arg)
{
    struct shared shared = {0};
    static struct line line;
    struct kin__task *self = kin__task_self();
    (void)arg;
    EXPECT_EQ(kin__mutex_owner(&shared.mutex), 0);
    EXPECT_EQ(kin_mutex_lock(&shared.mutex, KIN_NEVER), 0);
    EXPECT_EQ(word_of(&shared.mutex), kin__owner_of(self));
    EXPECT_EQ(kin__mutex_owner(&shared.mutex), kin__owner_of(self));
    EXPECT(kin__mutex_is_held(&shared.mutex, self));
    line_open(&line, &inside(&shared.mutex)->crowd, lock_and_log, &shared);
    line_add(&line, KIN_NEVER);
    EXPECT_EQ(word_of(&shared.mutex), kin__owner_of(self) | WAITED);
    line_cancel(&line, 0);
    EXPECT_EQ(word_of(&shared.mutex), kin__owner_of(self)); /* as if nobody had come */
    line_add(&line, KIN_NEVER);
    line_add(&line, kin_after(KIN_SEC(1000)));
    line_cancel(&line, 1);
    EXPECT_EQ(word_of(&shared.mutex), kin__owner_of(self) | WAITED);
    kin_mutex_unlock(&shared.mutex);
    EXPECT(!kin__mutex_is_held(&shared.mutex, self));
    line_join(&line);
    EXPECT_EQ(word_of(&shared.mutex), 0);
    EXPECT_EQ(line.waiters[0].rc, KIN_CANCELLED);
    EXPECT_EQ(line.waiters[1].rc, KIN_CANCELLED);
    EXPECT_EQ(line.waiters[2].rc, 0);
    return 0;
}

KIN_TEST(the_word_says_who_holds_it_and_whether_somebody_waits, "")
{
    run_on_few(look_at_the_word, NULL);
}

static int hand_on(void *arg)
{
    enum { WAITERS = 100 };
    struct shared shared = {0};
    static struct line line;
    (void)arg;
    EXPECT_EQ(kin_mutex_lock(&shared.mutex, KIN_NEVER), 0);
    line_open(&line, &inside(&shared.mutex)->crowd, lock_and_log, &shared);
    for (int i = 0; i < WAITERS; i++)
        line_add(&line, i % 2 ? KIN_NEVER : kin_after(KIN_SEC(1000)));
    for (int i = 0; i < WAITERS; i += 10)
        line_cancel(&line, i);
    kin_mutex_unlock(&shared.mutex);
    line_join(&line);
    EXPECT_EQ(word_of(&shared.mutex), 0);
    EXPECT_EQ(shared.count, WAITERS - WAITERS / 10);
    for (int i = 0, last = -1; i < shared.count; i++) {
        EXPECT_GT(shared.log[i], last);
        last = shared.log[i];
    }
    return 0;
}

KIN_TEST(hand_off_is_in_order_of_arrival_on_any_number_of_workers, "T083 N016")
{
    run_on_few(hand_on, NULL);
}

/* An unlock hands over before it returns: the next owner need not have run. */
static int hand_over(void *arg)
{
    struct shared shared = {0};
    static struct line line;
    (void)arg;
    EXPECT_EQ(kin_mutex_lock(&shared.mutex, KIN_NEVER), 0);
    line_open(&line, &inside(&shared.mutex)->crowd, lock_and_log, &shared);
    line_add(&line, KIN_NEVER);
    line_add(&line, KIN_NEVER);
    kin_mutex_unlock(&shared.mutex);
    /* one worker: nobody has run since */
    EXPECT_EQ(word_of(&shared.mutex), (line.refs[0].id & KIN__OWNER_MASK) | WAITED);
    EXPECT_EQ(kin_task_cancel(line.refs[0]), 0); /* it is too late for that */
    EXPECT_EQ(kin_mutex_lock(&shared.mutex, 0), KIN_TIMEOUT);
    line_join(&line);
    EXPECT_EQ(line.waiters[0].rc, 0);
    EXPECT_EQ(line.waiters[1].rc, 0);
    return 0;
}

KIN_TEST(an_unlock_makes_the_first_in_line_the_owner, "T084 A7")
{
    EXPECT_EQ(run_reporting(1, hand_over, NULL, NULL), 0);
}

/* ---- what a call costs, and what it needs ---- */

static int pay_for_locks(void *arg)
{
    struct shared shared = {0};
    struct kin__task *self = kin__task_self();
    (void)arg;
    EXPECT_EQ(kin_yield(), 0);
    self->slice = 100; /* far from its end */
    for (int i = 1; i <= 50; i++) {
        EXPECT_EQ(kin_mutex_lock(&shared.mutex, i % 2 ? KIN_NEVER : 0), 0);
        kin_mutex_unlock(&shared.mutex);
        EXPECT_EQ(self->slice, 100 - i);
    }
    return 0;
}

KIN_TEST(a_lock_costs_one_operation_and_an_unlock_none, "SCHED:4.1.1")
{
    run_on_few(pay_for_locks, NULL);
}

static int set_flag(void *arg)
{
    atomic_store((_Atomic int *)arg, 1);
    return 0;
}

/* On one worker the other one runs when this one's slice is over, and not before. */
static int lock_until_it_is_set(void *arg)
{
    struct shared shared = {0};
    _Atomic int flag = 0;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, set_flag, &flag), 0);
    while (!atomic_load(&flag)) { /* ends: by the alarm of the test at the latest */
        EXPECT_EQ(kin_mutex_lock(&shared.mutex, KIN_NEVER), 0);
        kin_mutex_unlock(&shared.mutex);
    }
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_loop_of_locks_lets_the_others_run, "SCHED:3.3.1")
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 1;
    config.stall_threshold = KIN_NEVER; /* nobody helps */
    EXPECT_EQ(kin_run(&config, lock_until_it_is_set, NULL), 0);
}

#if !SANITIZED /* their frames are of other sizes */

/* Unlocks where the stack has room for a call, but not for the runtime. */
static int unlock_at_the_end(struct kin_mutex *mutex)
{
    volatile char steps[128];
    steps[0] = 0;
    if ((const char *)__builtin_frame_address(0) - kin__task_self()->low < KIN__ENTRY_ROOM)
        kin_mutex_unlock(mutex);
    else
        steps[0] = (char)unlock_at_the_end(mutex);
    return steps[0];
}

static int hold_and_overflow(void *arg)
{
    struct shared *shared = arg;
    EXPECT_EQ(kin_mutex_lock(&shared->mutex, KIN_NEVER), 0);
    await_in_line(&inside(&shared->mutex)->crowd, 1);
    return unlock_at_the_end(&shared->mutex);
}

static int overflow_in_an_unlock(void *arg)
{
    struct shared shared = {0};
    struct kin_nursery n;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, hold_and_overflow, &shared), 0);
    while (!kin__mutex_owner(&shared.mutex)) /* ends: it runs */
        EXPECT_EQ(kin_yield(), 0);
    kin_mask(); /* the end of the other one is the end of this nursery */
    EXPECT_EQ(kin_mutex_lock(&shared.mutex, KIN_NEVER), -EOWNERDEAD);
    kin_unmask();
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_OVERFLOW);
    return 0;
}

KIN_TEST(those_in_line_are_told_of_an_overflow_in_an_unlock, "T064 T085")
{
    run_on_few(overflow_in_an_unlock, NULL);
}

#endif

/* ---- races with leavers ---- */

static int cancel_it(void *arg)
{
    struct kin_task_ref *ref = arg;
    (void)kin_task_cancel(*ref);
    return 0;
}

static int race_with_leavers(void *arg)
{
    const int rounds = 300 / (int)kin_test_scale() + 1;
    static struct line line;
    int got = 0;
    (void)arg;
    for (int round = 0; round < rounds; round++) {
        struct shared shared = {0};
        EXPECT_EQ(kin_mutex_lock(&shared.mutex, KIN_NEVER), 0);
        line_open(&line, &inside(&shared.mutex)->crowd, lock_and_log, &shared);
        for (int i = 0; i < 3; i++)
            line_add(&line, KIN_NEVER);
        KIN_NURSERY(n);
        for (int i = 0; i < 3; i++)
            EXPECT_EQ(kin_spawn(&n, cancel_it, &line.refs[i]), 0);
        if (round % 2)
            EXPECT_EQ(kin_yield(), 0);
        kin_mutex_unlock(&shared.mutex);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        line_join(&line);
        EXPECT_EQ(word_of(&shared.mutex), 0); /* whoever left, nobody is left holding it */
        int returned = 0;
        for (int i = 0; i < 3; i++)
            returned += line.waiters[i].rc == 0;
        EXPECT_EQ(returned, shared.count);
        got += returned;
    }
    printf("%d of %d waiters got the mutex\n", got, rounds * 3);
    return 0;
}

KIN_TEST(a_mutex_that_meets_leavers_is_lost_on_none, "T061 F4")
{
    run_on_few(race_with_leavers, NULL);
}

/* ---- memory ---- */

struct block {
    struct kin_mutex mutex;
    int users; /* under the mutex */
};

/* The last one to lock it frees it, unlocked by nobody. */
static int use_and_free(void *arg)
{
    struct block *block = arg;
    EXPECT_EQ(kin_mutex_lock(&block->mutex, KIN_NEVER), 0);
    if (--block->users == 0) {
        free(block); /* whoever handed it over must have let go of it */
        kin__owner_lose(kin__task_self());
        return 0;
    }
    if (block->users % 2)
        EXPECT_EQ(kin_yield(), 0);
    kin_mutex_unlock(&block->mutex);
    return 0;
}

static int free_at_once(void *arg)
{
    const int rounds = 400 / (int)kin_test_scale() + 1;
    (void)arg;
    for (int round = 0; round < rounds; round++) {
        struct block *block = calloc(1, sizeof *block);
        KIN_NURSERY(n);
        EXPECT(block != NULL);
        block->users = 2 + round % 3;
        for (int i = 0, users = block->users; i < users; i++)
            EXPECT_EQ(kin_spawn(&n, use_and_free, block), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(the_last_owner_may_free_the_memory_at_once, "")
{
    run_on_few(free_at_once, NULL);
}

/* ---- retaking ---- */

static int retake(void *arg)
{
    struct shared *shared = arg;
    EXPECT_EQ(kin__mutex_retake(&shared->mutex, kin__task_self()), 0);
    EXPECT(kin_cancelled());
    shared->count++;
    kin__mutex_release(&shared->mutex, kin__task_self());
    return KIN_CANCELLED;
}

static int retake_though_cancelled(void *arg)
{
    struct shared shared = {0};
    struct kin_nursery n;
    (void)arg;
    EXPECT_EQ(kin_mutex_lock(&shared.mutex, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, retake, &shared), 0);
    await_in_line(&inside(&shared.mutex)->crowd, 1);
    kin_nursery_cancel(&n, 0);
    for (int i = 0; i < 30; i++)
        kin_ignore(kin_yield());
    EXPECT_EQ(shared.count, 0);
    kin_mutex_unlock(&shared.mutex);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(shared.count, 1);
    EXPECT_EQ(word_of(&shared.mutex), 0);
    return 0;
}

KIN_TEST(retaking_a_mutex_heeds_no_cancellation, "T081")
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 1;
    config.stall_threshold = KIN_NEVER; /* no help for a task that is busy instead of waiting */
    EXPECT_EQ(kin_run(&config, retake_though_cancelled, NULL), 0);
    run_on_few(retake_though_cancelled, NULL);
}
