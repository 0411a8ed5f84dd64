/* SPDX-License-Identifier: MIT */
/*
 * Goal: a set wakes exactly those who are in line when it is made, however many they are and
 * whatever follows; the waitable completes with 0, takes nothing, and stands in selects.
 * Method: lines longer than a batch; setters, resetters and leavers at once; memory that goes away
 * with the last waiter.
 */
#include "wait/in_line.h"

#include "wait/event.h"
#include "wait/timer.h"

#include <pthread.h>
#include <unistd.h>

/* The crowd is the first thing in it. */
static struct kin__crowd *crowd_of(struct kin_event *event)
{
    return (struct kin__crowd *)(void *)event;
}

static int wait_here(void *arg)
{
    struct in_line *me = arg;
    me->rc = kin_event_wait(me->object, me->deadline);
    return 0;
}

static int wake_many(void *arg)
{
    enum { WAITERS = 300 };
    struct kin_event event = {{0}};
    static struct line line;
    (void)arg;
    for (int round = 0; round < 3; round++) {
        line_open(&line, crowd_of(&event), wait_here, &event);
        for (int i = 0; i < WAITERS; i++)
            line_add(&line, i % 2 ? KIN_NEVER : kin_after(KIN_SEC(1000)));
        for (int i = 0; i < WAITERS; i += 7)
            line_cancel(&line, i);
        kin_event_set(&event);
        kin_event_reset(&event);
        EXPECT_EQ(in_line(crowd_of(&event)), 0);
        line_join(&line);
        for (int i = 0; i < WAITERS; i++)
            EXPECT_EQ(line.waiters[i].rc, i % 7 ? 0 : KIN_CANCELLED);
        EXPECT_EQ(kin_event_wait(&event, 0), KIN_TIMEOUT);
    }
    return 0;
}

KIN_TEST(a_set_wakes_all_in_line_in_spite_of_a_reset, "T077")
{
    run_on_few(wake_many, NULL);
}

/* ---- as one of several things ---- */

struct select {
    struct kin_event events[3];
    int index, status;
};

static int wait_for_any(void *arg)
{
    struct select *select = arg;
    struct kin__case cases[4];
    for (int i = 0; i < 3; i++) {
        cases[i] = (struct kin__case){.ops = &kin__event_waitable, .object = &select->events[i]};
    }
    select->status = 1;
    select->index = kin__wait_any_until(cases, 3, kin_after(KIN_SEC(1000)), 0, &select->status);
    return 0;
}

static int select_events(void *arg)
{
    (void)arg;
    for (int chosen = 0; chosen < 3; chosen++) {
        struct select select = {.index = -1};
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, wait_for_any, &select), 0);
        for (int i = 0; i < 3; i++)
            await_in_line(crowd_of(&select.events[i]), 1);
        kin_event_set(&select.events[chosen]);
        kin_event_reset(&select.events[chosen]);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(select.index, chosen);
        EXPECT_EQ(select.status, 0);
        for (int i = 0; i < 3; i++)
            expect_quiet(crowd_of(&select.events[i]));
    }
    return 0;
}

KIN_TEST(an_event_among_others_wakes_who_waits_for_any, "A10 T077")
{
    run_on_few(select_events, NULL);
}

/* ---- everything at once ---- */

struct chaos {
    struct kin_event event;
    _Atomic int stop;
    _Atomic int woken, left;
};

static int wait_on_and_on(void *arg)
{
    struct chaos *chaos = arg;
    for (unsigned i = 0; !chaos->stop; i++) {
        int rc = kin_event_wait(&chaos->event, i % 3 ? kin_after(KIN_US(20)) : KIN_NEVER);
        EXPECT(rc == 0 || rc == KIN_TIMEOUT);
        atomic_fetch_add(rc == 0 ? &chaos->woken : &chaos->left, 1);
        kin_ignore(kin_yield());
    }
    return 0;
}

static int set_on_and_on(void *arg)
{
    struct chaos *chaos = arg;
    for (int i = 0; i < 300; i++) {
        kin_event_set(&chaos->event);
        kin_event_reset(&chaos->event);
        EXPECT_EQ(kin_yield(), 0);
        if (i % 16 == 0)
            EXPECT_EQ(kin_sleep(kin_after(KIN_US(50))), 0);
    }
    return 0;
}

static int set_and_wait(void *arg)
{
    struct chaos chaos = {.stop = 0};
    KIN_NURSERY(waiters);
    KIN_NURSERY(setters);
    (void)arg;
    for (int i = 0; i < 150; i++)
        EXPECT_EQ(kin_spawn(&waiters, wait_on_and_on, &chaos), 0);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(kin_spawn(&setters, set_on_and_on, &chaos), 0);
    EXPECT_EQ(kin_nursery_join(&setters, NULL), 0);
    chaos.stop = 1;
    kin_event_set(&chaos.event);
    EXPECT_EQ(kin_nursery_join(&waiters, NULL), 0);
    expect_quiet(crowd_of(&chaos.event));
    return 0;
}

KIN_TEST(sets_resets_and_leavers_get_along, "T061")
{
    run_on_few(set_and_wait, NULL);
}

/* ---- memory: the three rules of crowd.h ---- */

/* A thread in the place of a setter that loses its CPU at the worst moment. */
struct slow {
    struct kin_event event;
    _Atomic int has_begun, is_through;
};

static kin__a32 *flag_of(struct kin_event *event)
{
    return (kin__a32 *)(void *)((char *)event + sizeof(struct kin__crowd));
}

static void *set_slowly(void *arg)
{
    struct slow *slow = arg;
    kin__crowd_take(crowd_of(&slow->event));
    kin__store_release(flag_of(&slow->event), 1u); /* pairs as in kin_event_set */
    slow->has_begun = 1;
    usleep(20000);
    slow->is_through = 1;
    kin__crowd_give(crowd_of(&slow->event));
    return NULL;
}

static int wait_for_a_slow_setter(void *arg)
{
    struct slow slow = {.has_begun = 0};
    pthread_t thread;
    (void)arg;
    EXPECT_EQ(pthread_create(&thread, NULL, set_slowly, &slow), 0);
    await(&slow.has_begun, 1);
    EXPECT_EQ(kin_event_wait(&slow.event, KIN_NEVER), 0);
    EXPECT_EQ(slow.is_through, 1); /* or the event would go away under its hands */
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    return 0;
}

KIN_TEST(whoever_finds_the_event_set_waits_until_the_setter_has_let_go, "")
{
    run_on_few(wait_for_a_slow_setter, NULL);
}

/* The same between two batches. */
static void *sweep_slowly(void *arg)
{
    struct slow *slow = arg;
    kin__crowd_take(crowd_of(&slow->event));
    crowd_of(&slow->event)->sweeps++;
    kin__crowd_give(crowd_of(&slow->event));
    slow->has_begun = 1;
    usleep(20000);
    kin__crowd_take(crowd_of(&slow->event));
    crowd_of(&slow->event)->sweeps--;
    slow->is_through = 1;
    kin__crowd_give(crowd_of(&slow->event));
    return NULL;
}

static int leave_during_a_sweep(void *arg)
{
    struct slow *slow = arg;
    EXPECT_EQ(kin_event_wait(&slow->event, KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(slow->is_through, 1);
    return 0;
}

static int cancel_during_a_sweep(void *arg)
{
    struct slow slow = {.has_begun = 0};
    struct kin_task_ref ref;
    pthread_t thread;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, leave_during_a_sweep, &slow, 0, &ref), 0);
    await_in_line(crowd_of(&slow.event), 1);
    EXPECT_EQ(pthread_create(&thread, NULL, sweep_slowly, &slow), 0);
    await(&slow.has_begun, 1);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    expect_quiet(crowd_of(&slow.event));
    return 0;
}

KIN_TEST(nobody_leaves_the_line_between_two_batches, "")
{
    run_on_few(cancel_during_a_sweep, NULL);
}

struct heap_event {
    struct kin_event event;
    _Atomic int users;
};

static void done_with(struct heap_event *event)
{
    if (--event->users == 0)
        free(event);
}

static int wait_and_free(void *arg)
{
    struct heap_event *event = arg;
    kin_ignore(kin_event_wait(&event->event, KIN_NEVER));
    done_with(event);
    return 0;
}

static int set_only(void *arg)
{
    struct heap_event *event = arg;
    kin_event_set(&event->event); /* not a user: the last waiter frees it under its hands */
    return 0;
}

/* More waiters than a batch, some of whom are cancelled between two batches. */
static int free_under_the_setter(void *arg)
{
    const int rounds = 30 / (int)kin_test_scale() + 1;
    (void)arg;
    for (int round = 0; round < rounds; round++) {
        enum { WAITERS = 130 };
        struct heap_event *event = calloc(1, sizeof *event);
        struct kin_task_ref refs[WAITERS];
        KIN_NURSERY(n);
        EXPECT(event != NULL);
        event->users = WAITERS;
        for (int i = 0; i < WAITERS; i++)
            EXPECT_EQ(kin_spawn_with(&n, NULL, wait_and_free, event, 0, &refs[i]), 0);
        await_in_line(crowd_of(&event->event), WAITERS);
        EXPECT_EQ(kin_spawn(&n, set_only, event), 0);
        if (round % 2)
            EXPECT_EQ(kin_yield(), 0);
        for (int i = WAITERS - 1; i > 0; i -= 3)
            (void)kin_task_cancel(refs[i]);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(the_last_waiter_may_free_the_event_under_the_setter, "")
{
    run_on_few(free_under_the_setter, NULL);
}
