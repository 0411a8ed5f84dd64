/* SPDX-License-Identifier: MIT */
/*
 * Goal: a rest ends exactly once, with what its winner brought; the task has no stack meanwhile.
 * Method: a bell made by hand, and tasks that rest until it rings; a wake and a cancellation in the
 * middle of the begin, where another thread would come by chance; rings and cancellations that
 * meet, with every ring accounted for.
 */
#include "api/in_runtime.h"

#include "base/lock.h"
#include "park/peek.h"
#include "park/rest.h"
#include "sched/sched.h"

/* ---- the bell ---- */

struct bell {
    struct kin__lock lock; /* rank WAIT; the rest */
    int rings;             /* that nobody has heard */
    struct kin__waiter *waiter;
    void (*during_publish)(struct bell *bell);

    /* the task that rests */
    struct kin__task *task;
    struct kin__case one;
    struct kin_task_ref ref;
    int entered;   /* how often its body was */
    int heard;     /* rings */
    int wants;     /* so many */
    int cancelled; /* how often a wait ended so */
    _Atomic int is_over;
};

static bool bell_try(void *object, void *io, int *status)
{
    (void)object, (void)io;
    *status = 0;
    return true;
}

static bool bell_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct bell *bell = object;
    (void)status;
    kin__lock_take(&bell->lock, KIN__RANK_WAIT);
    bool waits = bell->rings == 0;
    if (waits)
        bell->waiter = waiter;
    kin__lock_give(&bell->lock, KIN__RANK_WAIT);
    if (bell->during_publish)
        bell->during_publish(bell);
    return waits;
}

static void bell_unpublish(void *object, struct kin__waiter *waiter)
{
    struct bell *bell = object;
    kin__lock_take(&bell->lock, KIN__RANK_WAIT);
    if (bell->waiter == waiter)
        bell->waiter = NULL;
    kin__lock_give(&bell->lock, KIN__RANK_WAIT);
}

static const struct kin__waitable bell_ops = {"bell", bell_try, bell_publish, bell_unpublish};

static void ring(struct bell *bell)
{
    struct kin__waiter waiter = {.task = NULL};
    kin__lock_take(&bell->lock, KIN__RANK_WAIT);
    bell->rings++;
    if (bell->waiter)
        waiter = *bell->waiter;
    bell->waiter = NULL;
    kin__lock_give(&bell->lock, KIN__RANK_WAIT);
    if (waiter.task)
        (void)kin__wake(&waiter, 7);
}

static int hear(struct bell *bell)
{
    kin__lock_take(&bell->lock, KIN__RANK_WAIT);
    int rings = bell->rings;
    bell->rings = 0;
    kin__lock_give(&bell->lock, KIN__RANK_WAIT);
    return rings;
}

/* Rests until it has heard as many rings as it wants, or is cancelled. */
static int listen(void *arg)
{
    struct bell *bell = arg;
    int rc = 0;
    EXPECT(kin__task_self()->stack != NULL);
    if (bell->entered++ > 0) {
        EXPECT_PTR(bell->task, kin__task_self());
        rc = kin__rest_end(bell->task, &bell->one);
        EXPECT(rc == 7 || rc == KIN_CANCELLED);
        /* relaxed: the task's own; a dump does not say any more that the task waits */
        EXPECT_PTR(kin__load_relaxed(&bell->task->waiting), NULL);
    }
    bell->task = kin__task_self();
    bell->one = (struct kin__case){.ops = &bell_ops, .object = bell};
    while (rc != KIN_CANCELLED) { /* ends: or the alarm does */
        bell->heard += hear(bell);
        if (bell->heard >= bell->wants)
            return bell->heard;
        rc = kin__rest_begin(bell->task, &bell->one);
        if (rc == KIN__RESTING)
            return KIN__RESTING;
    }
    bell->cancelled++;
    return KIN_CANCELLED;
}

static void end_listening(void *arg)
{
    atomic_store(&((struct bell *)arg)->is_over, 1);
}

static void spawn_listener(struct kin_nursery *n, struct bell *bell, int wants)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    *bell = (struct bell){.wants = wants, .during_publish = bell->during_publish};
    options.cleanup = end_listening; /* only who has belongings rests */
    EXPECT_EQ(kin_spawn_with(n, &options, listen, bell, 0, &bell->ref), 0);
}

/* Waits until it rests. */
static void await_rest(const struct bell *bell)
{
    const struct kin__task *task = kin__task_find(bell->ref.id);
    struct kin__waits waits;
    EXPECT(task != NULL);
    while (!kin__wait_peek(task, &waits)) /* ends: or the alarm does */
        kin_ignore(kin_yield());
    EXPECT_PTR(waits.ops, &bell_ops);
    EXPECT_PTR(waits.object, bell);
    EXPECT(task->stack == NULL);
    EXPECT(kin__task_rests(task));
}

/* ---- one at a time ---- */

static int in_rings(void *arg)
{
    struct bell bell = {.wants = 0};
    struct kin_outcome how;
    (void)arg;
    KIN_NURSERY(n);
    spawn_listener(&n, &bell, 5);
    for (int i = 0; i < 5; i++) {
        await_rest(&bell);
        EXPECT_EQ(bell.entered, i + 1);
        EXPECT_EQ(bell.heard, i);
        ring(&bell);
    }
    EXPECT_EQ(kin_task_join(&n, bell.ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_OK);
    EXPECT_EQ(how.value, 5);
    EXPECT_EQ(atomic_load(&bell.is_over), 1);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(the_body_is_entered_anew_for_each_wake, "F4 W:4.2")
{
    run_on_few(in_rings, NULL);
}

/* A task that was cancelled before its first run does not run; one that has rested does. */
static int in_cancel(void *arg)
{
    struct bell bell = {.wants = 0};
    struct kin_outcome how;
    (void)arg;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    spawn_listener(&n, &bell, 1);
    await_rest(&bell);
    EXPECT_EQ(kin_task_cancel(bell.ref), 0);
    EXPECT_EQ(kin_task_join(&n, bell.ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
    EXPECT_EQ(bell.entered, 2);
    EXPECT_EQ(bell.cancelled, 1);
    EXPECT(bell.waiter == NULL);
    EXPECT_EQ(atomic_load(&bell.is_over), 1);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_cancellation_ends_a_rest_and_the_body_hears_of_it, "NSM:4.2")
{
    run_on_few(in_cancel, NULL);
}

/* ---- in the middle of a begin ---- */

static void cancel_it(struct bell *bell)
{
    kin_ignore(kin_task_cancel(kin_self()));
    bell->during_publish = NULL;
}

static void ring_it(struct bell *bell)
{
    if (bell->heard + bell->rings < 3)
        ring(bell);
}

static int in_middle(void *arg)
{
    struct bell bell = {.during_publish = ring_it};
    (void)arg;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    spawn_listener(&n, &bell, 3);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(bell.heard, 3);
    EXPECT_EQ(bell.entered, 1); /* whoever was faster than the return spares it */
    KIN_NURSERY(again, .on_error = KIN_COLLECT);
    bell.during_publish = cancel_it;
    spawn_listener(&again, &bell, 1);
    kin_ignore(kin_nursery_join(&again, NULL));
    EXPECT_EQ(bell.cancelled, 1);
    EXPECT_EQ(bell.entered, 1);
    return 0;
}
KIN_TEST(who_wakes_it_while_it_begins_is_not_lost, "W:4.3")
{
    run_on_few(in_middle, NULL);
}

/* ---- a status that only looks like a rest ---- */

static int return_the_mark(void *arg)
{
    (void)arg;
    return KIN__RESTING;
}

static int in_mark(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct bell bell = {.wants = 0};
    struct kin_task_ref ref;
    struct kin_outcome how;
    (void)arg;
    options.cleanup = end_listening;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    EXPECT_EQ(kin_spawn_with(&n, &options, return_the_mark, &bell, 0, &ref), 0);
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_ERROR);
    EXPECT_EQ(how.status, KIN__RESTING);
    EXPECT_EQ(atomic_load(&bell.is_over), 1);
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}
KIN_TEST(who_did_not_begin_a_rest_has_ended, "")
{
    run_on_few(in_mark, NULL);
}

/* ---- rings and cancellations that meet ---- */

static int ring_all(void *arg)
{
    struct bell *bell = arg;
    for (int i = 0; i < 50; i++) {
        ring(bell);
        if (i % 7 == 0)
            kin_ignore(kin_yield());
    }
    return 0;
}

static int cancel_some_time(void *arg)
{
    struct bell *bell = arg;
    for (int i = 0; i < 20; i++)
        kin_ignore(kin_yield());
    kin_ignore(kin_task_cancel(bell->ref));
    return 0;
}

static int in_race(void *arg)
{
    (void)arg;
    for (int round = 0; round < 200; round++) {
        struct bell bell = {.wants = 0};
        KIN_NURSERY(n, .on_error = KIN_COLLECT);
        spawn_listener(&n, &bell, 100);
        EXPECT_EQ(kin_spawn(&n, ring_all, &bell), 0);
        if (round % 2)
            EXPECT_EQ(kin_spawn(&n, cancel_some_time, &bell), 0);
        EXPECT_EQ(kin_spawn(&n, ring_all, &bell), 0);
        kin_ignore(kin_nursery_join(&n, NULL));
        EXPECT_EQ(bell.heard + bell.rings, 100);
        /* who is cancelled before it begins does not run */
        EXPECT_EQ(bell.entered > 0 && bell.cancelled == 0, bell.heard == 100);
        EXPECT_LE(bell.cancelled, 1);
        EXPECT_EQ(atomic_load(&bell.is_over), 1);
    }
    return 0;
}
KIN_TEST(no_ring_is_lost, "F4")
{
    run_on_few(in_race, NULL);
}
