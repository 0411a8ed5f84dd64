/* SPDX-License-Identifier: MIT */
/*
 * Goal: conditions, semaphores, events, groups, onces and barriers do what they promise, and nobody
 * who waits at one is forgotten, served twice or overtaken.
 * Method: small programs through the public headers, on one worker where order is asked for and on
 * several where it is not.
 */
#include "api/in_runtime.h"

#include <kin/sync.h>

/* ---- condition ---- */

struct awoken {
    struct kin_mutex mutex;
    struct kin_cond cond;
    _Atomic int waiting;
    int awake; /* how many, under the mutex */
    int log[100];
};

struct sleeper {
    struct awoken *awoken;
    int number;
    int rc;
};

static int wait_for_signal(void *arg)
{
    struct sleeper *sleeper = arg;
    struct awoken *awoken = sleeper->awoken;
    EXPECT_EQ(kin_mutex_lock(&awoken->mutex, KIN_NEVER), 0);
    awoken->waiting++;
    sleeper->rc = kin_cond_wait(&awoken->cond, &awoken->mutex, KIN_NEVER);
    awoken->log[awoken->awake++] = sleeper->number;
    kin_mutex_unlock(&awoken->mutex);
    return sleeper->rc;
}

static int awake_now(struct awoken *awoken)
{
    EXPECT_EQ(kin_mutex_lock(&awoken->mutex, KIN_NEVER), 0);
    int awake = awoken->awake;
    kin_mutex_unlock(&awoken->mutex);
    return awake;
}

static void settle(void)
{
    for (int i = 0; i < 50; i++)
        EXPECT_EQ(kin_yield(), 0);
}

/* As many as were signalled are awake, not one more, in the order in which they came. */
static int signal_one_by_one(void *arg)
{
    enum { SLEEPERS = 20 };
    struct awoken awoken;
    struct sleeper sleepers[SLEEPERS];
    KIN_NURSERY(n);
    (void)arg;
    memset(&awoken, 0, sizeof awoken);
    kin_cond_signal(&awoken.cond); /* nobody waits: it is not remembered */
    for (int i = 0; i < SLEEPERS; i++) {
        sleepers[i] = (struct sleeper){&awoken, i, 1};
        EXPECT_EQ(kin_spawn(&n, wait_for_signal, &sleepers[i]), 0);
        await(&awoken.waiting, i + 1);
        EXPECT_EQ(awake_now(&awoken), 0); /* having had the mutex: it waits */
    }
    for (int i = 0; i < SLEEPERS; i++) {
        kin_cond_signal(&awoken.cond);
        while (awake_now(&awoken) < i + 1)
            EXPECT_EQ(kin_yield(), 0);
        settle();
        EXPECT_EQ(awake_now(&awoken), i + 1);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < SLEEPERS; i++)
        EXPECT_EQ(awoken.log[i], i);
    return 0;
}

KIN_TEST(a_signal_wakes_the_one_that_waited_longest, "G079 G080 N018 T081")
{
    run_on_few(signal_one_by_one, NULL);
}

static int broadcast_to_all(void *arg)
{
    enum { SLEEPERS = 100 };
    struct awoken awoken;
    struct sleeper sleepers[SLEEPERS];
    KIN_NURSERY(n);
    (void)arg;
    memset(&awoken, 0, sizeof awoken);
    for (int i = 0; i < SLEEPERS; i++) {
        sleepers[i] = (struct sleeper){&awoken, i, 1};
        EXPECT_EQ(kin_spawn(&n, wait_for_signal, &sleepers[i]), 0);
    }
    await(&awoken.waiting, SLEEPERS);
    EXPECT_EQ(kin_mutex_lock(&awoken.mutex, KIN_NEVER), 0);
    kin_cond_broadcast(&awoken.cond);
    settle();
    EXPECT_EQ(awoken.awake, 0); /* the mutex is still ours */
    kin_mutex_unlock(&awoken.mutex);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(awoken.awake, SLEEPERS);
    return 0;
}

KIN_TEST(a_broadcast_wakes_all_that_wait, "G081 N018 N006")
{
    run_on_few(broadcast_to_all, NULL);
}

static int broadcast(void *arg)
{
    struct awoken *awoken = arg;
    kin_cond_broadcast(&awoken->cond);
    return 0;
}

/* A newcomer that races with a broadcast cannot take it away from who was there first. */
static int steal_a_signal(void *arg)
{
    (void)arg;
    for (int round = 0; round < 200; round++) {
        struct awoken awoken;
        struct sleeper first = {&awoken, 1, 1}, second = {&awoken, 2, 1};
        KIN_NURSERY(late);
        KIN_NURSERY(n);
        memset(&awoken, 0, sizeof awoken);
        EXPECT_EQ(kin_spawn(&n, wait_for_signal, &first), 0);
        await(&awoken.waiting, 1);
        EXPECT_EQ(awake_now(&awoken), 0);
        EXPECT_EQ(kin_spawn(&n, broadcast, &awoken), 0);
        EXPECT_EQ(kin_spawn(&late, wait_for_signal, &second), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0); /* ends: the first one is woken */
        await(&awoken.waiting, 2);
        (void)awake_now(&awoken);
        kin_cond_signal(&awoken.cond);
        EXPECT_EQ(kin_nursery_join(&late, NULL), 0);
    }
    return 0;
}

KIN_TEST(a_newcomer_does_not_take_the_signal_of_an_earlier_one, "G082")
{
    run_on_few(steal_a_signal, NULL);
}

static int wait_and_hold(void *arg)
{
    struct sleeper *sleeper = arg;
    struct awoken *awoken = sleeper->awoken;
    EXPECT_EQ(kin_mutex_lock(&awoken->mutex, KIN_NEVER), 0);
    awoken->waiting++;
    sleeper->rc = kin_cond_wait(&awoken->cond, &awoken->mutex, kin_after(KIN_SEC(1000)));
    awoken->awake++;
    EXPECT_EQ(kin_mutex_lock(&awoken->mutex, 0), -EDEADLK); /* it is held */
    kin_mutex_unlock(&awoken->mutex);
    return 0;
}

/* Signalled, then cancelled while it waits for the mutex: the signal counts, the mutex is held. */
static int cancel_while_retaking(void *arg)
{
    struct awoken awoken;
    struct sleeper sleeper = {&awoken, 0, 1};
    struct kin_task_ref ref;
    KIN_NURSERY(n);
    (void)arg;
    memset(&awoken, 0, sizeof awoken);
    EXPECT_EQ(kin_spawn_with(&n, NULL, wait_and_hold, &sleeper, 0, &ref), 0);
    await(&awoken.waiting, 1);
    EXPECT_EQ(kin_mutex_lock(&awoken.mutex, KIN_NEVER), 0);
    kin_cond_signal(&awoken.cond);
    settle();
    EXPECT_EQ(kin_task_cancel(ref), 0);
    settle();
    EXPECT_EQ(awoken.awake, 0);
    kin_mutex_unlock(&awoken.mutex);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(sleeper.rc, 0);
    EXPECT_EQ(awoken.awake, 1);

    /* cancelled first: the wait says so, and has the mutex all the same */
    memset(&awoken, 0, sizeof awoken);
    KIN_NURSERY(m);
    EXPECT_EQ(kin_spawn_with(&m, NULL, wait_and_hold, &sleeper, 0, &ref), 0);
    await(&awoken.waiting, 1);
    EXPECT_EQ(kin_mutex_lock(&awoken.mutex, KIN_NEVER), 0);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    settle();
    EXPECT_EQ(awoken.awake, 0);
    kin_cond_signal(&awoken.cond); /* too late */
    kin_mutex_unlock(&awoken.mutex);
    EXPECT_EQ(kin_nursery_join(&m, NULL), 0);
    EXPECT_EQ(sleeper.rc, KIN_CANCELLED);
    return 0;
}

KIN_TEST(the_mutex_is_held_again_whatever_ended_the_wait, "T081 A7")
{
    run_on_few(cancel_while_retaking, NULL);
}

/* A signal that finds a leaver goes on to the next. */
static int signal_past_leavers(void *arg)
{
    enum { SLEEPERS = 12 };
    (void)arg;
    for (int round = 0; round < 30; round++) {
        struct awoken awoken;
        struct sleeper sleepers[SLEEPERS];
        struct kin_task_ref refs[SLEEPERS];
        KIN_NURSERY(n);
        memset(&awoken, 0, sizeof awoken);
        for (int i = 0; i < SLEEPERS; i++) {
            sleepers[i] = (struct sleeper){&awoken, i, 1};
            EXPECT_EQ(kin_spawn_with(&n, NULL, wait_and_hold, &sleepers[i], 0, &refs[i]), 0);
            await(&awoken.waiting, i + 1);
        }
        (void)awake_now(&awoken);
        for (int i = 0; i < SLEEPERS; i += 2) { /* the first in line is on its way out */
            EXPECT_EQ(kin_task_cancel(refs[i]), 0);
            kin_cond_signal(&awoken.cond);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        for (int i = 0; i < SLEEPERS; i++)
            EXPECT_EQ(sleepers[i].rc, i % 2 ? 0 : KIN_CANCELLED);
    }
    return 0;
}

KIN_TEST(a_signal_that_meets_a_leaver_goes_to_the_next, "T081 T061")
{
    run_on_few(signal_past_leavers, NULL);
}

/* ---- semaphore ---- */

static int semaphore_counts(void *arg)
{
    struct kin_sem sem;
    (void)arg;
    EXPECT_EQ(kin_sem_init(&sem, 3), 0);
    EXPECT_EQ(kin_sem_acquire(&sem, 0, 0), 0);
    EXPECT_EQ(kin_sem_acquire(&sem, 4, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_sem_acquire(&sem, 2, 0), 0);
    EXPECT_EQ(kin_sem_acquire(&sem, 2, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_sem_acquire(&sem, 1, 0), 0);
    EXPECT_EQ(kin_sem_acquire(&sem, 1, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_sem_acquire(&sem, 0, KIN_NEVER), 0); /* nothing is always there */
    kin_sem_release(&sem, 0);
    EXPECT_EQ(kin_sem_acquire(&sem, 1, 0), KIN_TIMEOUT);
    kin_sem_release(&sem, SIZE_MAX);
    EXPECT_EQ(kin_sem_acquire(&sem, SIZE_MAX, 0), 0);
    EXPECT_EQ(kin_sem_acquire(&sem, SIZE_MAX, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    return 0;
}

KIN_TEST(a_semaphore_counts_its_permits, "T078 T079")
{
    run_on_few(semaphore_counts, NULL);
}

KIN_TEST(more_permits_than_fit_abort, "")
{
    EXPECT_ABORT("kin_sem_release: a semaphore holds at most SIZE_MAX permits")
    {
        struct kin_sem sem;
        kin_ignore(kin_sem_init(&sem, 5));
        kin_sem_release(&sem, SIZE_MAX - 4);
    }
}

struct wishes {
    struct kin_sem sem;
    _Atomic int begun, done;
    int log[8];
};

struct wish {
    struct wishes *wishes;
    int number;
    size_t permits;
    int rc;
};

static int wish(void *arg)
{
    struct wish *wish = arg;
    wish->wishes->begun++;
    wish->rc = kin_sem_acquire(&wish->wishes->sem, wish->permits, KIN_NEVER);
    if (wish->rc == 0)
        wish->wishes->log[wish->wishes->done++] = wish->number;
    return 0;
}

/* One after the other, so that they stand in line in this order. */
static void stand_in_line(struct wishes *wishes, struct wish *line, int count,
                          struct kin_nursery *n, struct kin_task_ref *refs)
{
    memset(wishes, 0, sizeof *wishes);
    for (int i = 0; i < count; i++) {
        line[i].wishes = wishes;
        line[i].number = i;
        EXPECT_EQ(kin_spawn_with(n, NULL, wish, &line[i], 0, &refs[i]), 0);
        await(&wishes->begun, i + 1);
    }
}

static int small_after_large(void *arg)
{
    struct wishes wishes;
    struct wish line[4] = {{.permits = 5}, {.permits = 1}, {.permits = 2}, {.permits = 1}};
    struct kin_task_ref refs[4];
    KIN_NURSERY(n);
    (void)arg;
    stand_in_line(&wishes, line, 4, &n, refs);
    for (int i = 0; i < 4; i++) {
        kin_sem_release(&wishes.sem, 1);
        settle();
        EXPECT_EQ(wishes.done, 0);                              /* nobody overtakes the first */
        EXPECT_EQ(kin_sem_acquire(&wishes.sem, 1, 0), KIN_TIMEOUT); /* no newcomer either */
    }
    for (int i = 0; i < 4; i++) { /* exactly what the next one wants */
        kin_sem_release(&wishes.sem, i == 0 ? 1 : line[i].permits);
        await(&wishes.done, i + 1);
        settle();
        EXPECT_EQ(wishes.done, i + 1);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(wishes.log[i], i);
    EXPECT_EQ(kin_sem_acquire(&wishes.sem, 1, 0), KIN_TIMEOUT);
    return 0;
}

KIN_TEST(no_small_wish_overtakes_a_large_one, "T083")
{
    EXPECT_EQ(run_reporting(1, small_after_large, NULL, NULL), 0);
}

/* What the first one waits for is enough for those behind it, once it has left. */
static int large_one_leaves(void *arg)
{
    struct wishes wishes;
    struct wish line[4] = {{.permits = 5}, {.permits = 1}, {.permits = 2}, {.permits = 1}};
    struct kin_task_ref refs[4];
    KIN_NURSERY(n);
    (void)arg;
    stand_in_line(&wishes, line, 4, &n, refs);
    kin_sem_release(&wishes.sem, 3);
    settle();
    EXPECT_EQ(wishes.done, 0);
    EXPECT_EQ(kin_task_cancel(refs[0]), 0);
    await(&wishes.done, 2);
    settle();
    EXPECT_EQ(wishes.done, 2);
    EXPECT_EQ(wishes.log[0] + wishes.log[1], 1 + 2); /* let go at once: either may run first */
    kin_sem_release(&wishes.sem, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(line[0].rc, KIN_CANCELLED);
    EXPECT_EQ(wishes.log[2], 3);
    return 0;
}

KIN_TEST(whoever_leaves_the_line_of_a_semaphore_makes_room, "T061 T078")
{
    EXPECT_EQ(run_reporting(1, large_one_leaves, NULL, NULL), 0);
}

/* ---- event ---- */

struct crowd {
    struct kin_event event;
    struct kin_group group;
    _Atomic int begun, passed;
    _Atomic int timeouts;
};

static int pass_event(void *arg)
{
    struct crowd *crowd = arg;
    crowd->begun++;
    EXPECT_EQ(kin_event_wait(&crowd->event, KIN_NEVER), 0);
    crowd->passed++;
    return 0;
}

/* More than one batch of waiters, and a reset that follows at once. */
static int set_and_reset(void *arg)
{
    enum { WAITERS = 300 };
    struct crowd crowd;
    (void)arg;
    for (int round = 0; round < 3; round++) {
        KIN_NURSERY(n);
        memset(&crowd, 0, sizeof crowd);
        for (int i = 0; i < WAITERS; i++)
            EXPECT_EQ(kin_spawn(&n, pass_event, &crowd), 0);
        await(&crowd.begun, WAITERS);
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(5))), 0); /* those on other workers get in line */
        EXPECT_EQ(crowd.passed, 0);
        kin_event_set(&crowd.event);
        kin_event_reset(&crowd.event);
        EXPECT_EQ(kin_event_wait(&crowd.event, 0), KIN_TIMEOUT);
        EXPECT_EQ(kin_event_wait(&crowd.event, kin_after(KIN_MS(1))), KIN_TIMEOUT);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(crowd.passed, WAITERS);
    }
    return 0;
}

KIN_TEST(a_set_wakes_all_even_if_a_reset_follows_at_once, "T077")
{
    EXPECT_EQ(run_reporting(1, set_and_reset, NULL, NULL), 0);
}

static int stay_set(void *arg)
{
    struct kin_event event = {{0}};
    (void)arg;
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(kin_event_wait(&event, 0), KIN_TIMEOUT);
        kin_event_set(&event);
        kin_event_set(&event);
        EXPECT_EQ(kin_event_wait(&event, 0), 0);
        EXPECT_EQ(kin_event_wait(&event, KIN_NEVER), 0); /* takes nothing */
        EXPECT_EQ(kin_event_wait(&event, 1), 0);
        kin_event_reset(&event);
        kin_event_reset(&event);
    }
    return 0;
}

KIN_TEST(an_event_stays_set_until_it_is_reset, "T077")
{
    run_on_few(stay_set, NULL);
}

static int set_it(void *arg)
{
    kin_event_set(arg);
    return 0;
}

/* The event lives on the stack of whoever waits, and dies the moment it is set. */
static int wait_on_own_stack(void *arg)
{
    struct kin_nursery *n = arg;
    for (int i = 0; i < 300; i++) {
        struct kin_event event = {{0}};
        EXPECT_EQ(kin_spawn(n, set_it, &event), 0);
        if (i % 3 == 0)
            EXPECT_EQ(kin_yield(), 0);
        EXPECT_EQ(kin_event_wait(&event, KIN_NEVER), 0);
        memset(&event, 0x5a, sizeof event); /* a setter that still touched it would hang or die */
    }
    return 0;
}

static int many_own_stacks(void *arg)
{
    KIN_NURSERY(setters);
    (void)arg;
    {
        KIN_NURSERY(n);
        for (int i = 0; i < 8; i++)
            EXPECT_EQ(kin_spawn(&n, wait_on_own_stack, &setters), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return kin_nursery_join(&setters, NULL);
}

KIN_TEST(an_event_may_be_gone_as_soon_as_it_was_set, "")
{
    run_on_few(many_own_stacks, NULL);
}

/* ---- group ---- */

static int be_done(void *arg)
{
    struct crowd *crowd = arg;
    EXPECT_EQ(kin_yield(), 0);
    crowd->passed++;
    kin_group_done(&crowd->group);
    return 0;
}

static int wait_for_group(void *arg)
{
    struct crowd *crowd = arg;
    EXPECT_EQ(kin_group_wait(&crowd->group, KIN_NEVER), 0);
    EXPECT_EQ(crowd->passed % 16, 0);
    return 0;
}

static int groups(void *arg)
{
    struct crowd crowd;
    KIN_NURSERY(n);
    (void)arg;
    memset(&crowd, 0, sizeof crowd);
    EXPECT_EQ(kin_group_wait(&crowd.group, 0), 0);
    for (int round = 1; round <= 8; round++) { /* it can be used again */
        kin_group_add(&crowd.group, 15);
        kin_group_add(&crowd.group, 1);
        EXPECT_EQ(kin_group_wait(&crowd.group, 0), KIN_TIMEOUT);
        for (int i = 0; i < 16; i++)
            EXPECT_EQ(kin_spawn(&n, be_done, &crowd), 0);
        EXPECT_EQ(kin_group_wait(&crowd.group, KIN_NEVER), 0);
        EXPECT_EQ(crowd.passed, 16 * round);
    }
    kin_group_add(&crowd.group, 16);
    for (int i = 0; i < 80; i++)
        EXPECT_EQ(kin_spawn(&n, wait_for_group, &crowd), 0);
    for (int i = 0; i < 16; i++)
        EXPECT_EQ(kin_spawn(&n, be_done, &crowd), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_group_waits_for_as_many_as_were_added, "G086 N017")
{
    run_on_few(groups, NULL);
}

KIN_TEST(a_group_does_not_go_below_zero_nor_beyond_its_end, "G087")
{
    EXPECT_ABORT("kin_group_done: no more are done than were added")
    {
        struct kin_group group = {{0}};
        kin_group_add(&group, 2);
        kin_group_done(&group);
        kin_group_done(&group);
        kin_group_done(&group);
    }
    EXPECT_ABORT("kin_group_add: a group counts to at most SIZE_MAX")
    {
        struct kin_group group = {{0}};
        kin_group_add(&group, SIZE_MAX);
        kin_group_add(&group, 1);
    }
}

static int add_and_be_done(void *arg)
{
    struct crowd *crowd = arg;
    kin_group_add(&crowd->group, 1);
    crowd->begun++;
    kin_group_done(&crowd->group);
    return 0;
}

/* Adds that race with the wait: counted if they come first, no harm if they do not. */
static int race_adds(void *arg)
{
    (void)arg;
    for (int round = 0; round < 300; round++) {
        struct crowd crowd;
        KIN_NURSERY(n);
        memset(&crowd, 0, sizeof crowd);
        kin_group_add(&crowd.group, 1);
        for (int i = 0; i < 2; i++)
            EXPECT_EQ(kin_spawn(&n, add_and_be_done, &crowd), 0);
        kin_group_done(&crowd.group);
        EXPECT_EQ(kin_group_wait(&crowd.group, KIN_NEVER), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(kin_group_wait(&crowd.group, 0), 0);
        EXPECT_EQ(crowd.begun, 2);
    }
    return 0;
}

KIN_TEST(adding_to_a_group_may_race_with_waiting_for_it, "G088")
{
    run_on_few(race_adds, NULL);
}

/* ---- once ---- */

struct one_time {
    struct kin_once once;
    struct kin_event go_on;
    _Atomic int calls, callers;
    int how; /* what the function does */
};

enum { RETURNS, RETURNS_LATE, FAILS, PANICS, RECURS };

static int first_time(void *arg)
{
    struct one_time *one_time = arg;
    one_time->calls++;
    switch (one_time->how) {
    case RETURNS:
        return 42;
    case RETURNS_LATE:
        EXPECT_EQ(kin_event_wait(&one_time->go_on, KIN_NEVER), 0);
        return -EIO;
    case FAILS:
        EXPECT_EQ(kin_event_wait(&one_time->go_on, KIN_NEVER), 0);
        kin_fail(-EPIPE, "no luck");
    case PANICS:
        EXPECT_EQ(kin_event_wait(&one_time->go_on, KIN_NEVER), 0);
        kin_panic("on purpose");
    default:
        EXPECT_EQ(kin_once_do(&one_time->once, first_time, arg, KIN_NEVER), -EDEADLK);
        EXPECT_EQ(kin_once_do(&one_time->once, first_time, arg, 0), -EDEADLK);
        return 5;
    }
}

struct caller {
    struct one_time *one_time;
    int rc;
};

static int call_once(void *arg)
{
    struct caller *caller = arg;
    caller->one_time->callers++;
    caller->rc = kin_once_do(&caller->one_time->once, first_time, caller->one_time, KIN_NEVER);
    return 0;
}

/* What arg points at, done by many at once: all get expected, except the one that ends in it. */
static void do_once(int how, int expected, int severity)
{
    enum { CALLERS = 90 };
    struct one_time one_time;
    struct caller callers[CALLERS];
    struct kin_outcome out = {0};
    bool ends = how == FAILS || how == PANICS;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    memset(&one_time, 0, sizeof one_time);
    one_time.how = how;
    options.on_error = KIN_COLLECT;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){&one_time, 1};
        EXPECT_EQ(kin_spawn(&n, call_once, &callers[i]), 0);
    }
    await(&one_time.callers, CALLERS);
    settle();
    kin_event_set(&one_time.go_on);
    EXPECT_EQ(kin_nursery_join(&n, &out), ends ? expected : 0);
    EXPECT_EQ(out.severity, severity);
    int got = 0;
    for (int i = 0; i < CALLERS; i++)
        got += callers[i].rc == expected;
    EXPECT_EQ(got, ends ? CALLERS - 1 : CALLERS);
    EXPECT_EQ(one_time.calls, 1);
    EXPECT_EQ(kin_once_do(&one_time.once, first_time, &one_time, 0), expected); /* for good */
    EXPECT_EQ(one_time.calls, 1);
}

static int do_all_kinds(void *arg)
{
    (void)arg;
    do_once(RETURNS, 42, KIN_SEV_OK);
    do_once(RETURNS_LATE, -EIO, KIN_SEV_OK);
    do_once(FAILS, -EPIPE, KIN_SEV_ERROR);
    do_once(PANICS, KIN_PANICKED, KIN_SEV_PANIC);
    do_once(RECURS, 5, KIN_SEV_OK);
    return 0;
}

KIN_TEST(a_once_is_done_once_and_all_get_its_status, "G091 G092")
{
    run_on_few(do_all_kinds, NULL);
}

static int once_in_once(void *arg)
{
    struct one_time *inner = arg;
    int rc = kin_once_do(&inner->once, first_time, inner, KIN_NEVER);
    EXPECT_EQ(rc, 42);
    kin_fail(-ENOLINK, "from two levels down");
}

static int nest(void *arg)
{
    struct one_time *two = arg;
    kin_ignore(kin_once_do(&two[1].once, once_in_once, &two[0], KIN_NEVER));
    EXPECT_EQ(0, 1); /* not reached: the escape goes on */
    return 0;
}

static int nest_onces(void *arg)
{
    struct one_time two[2];
    struct kin_nursery n;
    (void)arg;
    memset(two, 0, sizeof two);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, nest, two), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -ENOLINK);
    EXPECT_EQ(kin_once_do(&two[0].once, first_time, two, 0), 42);
    EXPECT_EQ(kin_once_do(&two[1].once, first_time, two, 0), -ENOLINK);
    return 0;
}

KIN_TEST(an_escape_passes_through_every_once_on_its_way, "G092")
{
    run_on_few(nest_onces, NULL);
}

#if !SANITIZED
static int deep(int depth)
{
    volatile char room[512];
    room[0] = (char)depth;
    room[511] = (char)(depth ? deep(depth - 1) : 0);
    return room[0] + room[511];
}

static int overflow(void *arg)
{
    (void)arg;
    return deep(1 << 20);
}

static int overflow_once(void *arg)
{
    return kin_once_do(arg, overflow, NULL, KIN_NEVER);
}

static int overflow_in_once(void *arg)
{
    struct kin_once once = {{0}};
    struct kin_nursery n;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, overflow_once, &once), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_OVERFLOW);
    EXPECT_EQ(kin_once_do(&once, overflow, NULL, 0), KIN_OVERFLOW);
    return 0;
}

KIN_TEST(a_stack_overflow_in_a_once_counts_as_done, "G092 C8")
{
    struct kin_config config = KIN_CONFIG_INIT;
    struct reports reports = {0};
    config.workers = 1;
    config.on_overflow = KIN_STACK_PANIC;
    config.on_report = keep_report;
    config.report_arg = &reports;
    EXPECT_EQ(kin_run(&config, overflow_in_once, NULL), 0);
}
#endif

/* ---- barrier ---- */

struct rounds {
    struct kin_barrier barrier;
    _Atomic int arrived, left;
    int parties;
};

static int keep_step(void *arg)
{
    struct rounds *rounds = arg;
    for (int round = 1; round <= 100; round++) {
        rounds->arrived++;
        EXPECT_EQ(kin_barrier_wait(&rounds->barrier, KIN_NEVER), 0);
        EXPECT_GE(rounds->arrived, round * rounds->parties); /* all of this round have come */
        EXPECT_LT(rounds->arrived, (round + 1) * rounds->parties + 1);
    }
    return 0;
}

static int keep_all_in_step(void *arg)
{
    static const int parties[] = {1, 2, 7, 70};
    (void)arg;
    for (int i = 0; i < 4; i++) {
        struct rounds rounds;
        KIN_NURSERY(n);
        memset(&rounds, 0, sizeof rounds);
        rounds.parties = parties[i];
        EXPECT_EQ(kin_barrier_init(&rounds.barrier, (size_t)parties[i]), 0);
        for (int j = 0; j < parties[i]; j++)
            EXPECT_EQ(kin_spawn(&n, keep_step, &rounds), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(rounds.arrived, 100 * parties[i]);
    }
    return 0;
}

KIN_TEST(nobody_passes_a_barrier_before_all_have_come, "")
{
    run_on_few(keep_all_in_step, NULL);
}

static int arrive(void *arg)
{
    struct rounds *rounds = arg;
    rounds->arrived++;
    int rc = kin_barrier_wait(&rounds->barrier, KIN_NEVER);
    rounds->left++;
    return rc;
}

static int withdraw(void *arg)
{
    struct rounds rounds;
    struct kin_task_ref ref;
    KIN_NURSERY(n);
    (void)arg;
    memset(&rounds, 0, sizeof rounds);
    EXPECT_EQ(kin_barrier_init(&rounds.barrier, 3), 0);
    EXPECT_EQ(kin_spawn(&n, arrive, &rounds), 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, arrive, &rounds, 0, &ref), 0);
    await(&rounds.arrived, 2);
    settle();
    EXPECT_EQ(kin_task_cancel(ref), 0);
    await(&rounds.left, 1);
    EXPECT_EQ(kin_barrier_wait(&rounds.barrier, 0), KIN_TIMEOUT); /* the second of three */
    EXPECT_EQ(kin_barrier_wait(&rounds.barrier, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    settle();
    EXPECT_EQ(rounds.left, 1);
    EXPECT_EQ(kin_spawn(&n, arrive, &rounds), 0); /* three are still asked for */
    await(&rounds.arrived, 3);
    for (int rc = 1; rc != 0;) { /* ends: as soon as the other two are there */
        rc = kin_barrier_wait(&rounds.barrier, 0);
        EXPECT(rc == 0 || rc == KIN_TIMEOUT);
        kin_ignore(kin_yield());
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(rounds.left, 3);
    return 0;
}

KIN_TEST(whoever_leaves_a_barrier_has_not_come, "T061")
{
    run_on_few(withdraw, NULL);
}
