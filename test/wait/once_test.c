/* SPDX-License-Identifier: MIT */
/*
 * Goal: those in line get the status however the function ends, those who leave get none, and the
 * task that does it is itself again afterwards.
 * Method: lines longer than a batch behind a function that waits; ends by return and by escape.
 */
#include "wait/in_line.h"

#include <kin/sync.h>

#include <pthread.h>
#include <unistd.h>

/* The crowd is the first thing in it. */
static struct kin__crowd *crowd_of(struct kin_once *once)
{
    return (struct kin__crowd *)(void *)once;
}

struct shared {
    struct kin_once once;
    struct kin_event go_on;
    _Atomic int runs;
    bool fails;
};

static int first_time(void *arg)
{
    struct shared *shared = arg;
    shared->runs++;
    EXPECT_EQ(kin_event_wait(&shared->go_on, KIN_NEVER), 0);
    if (shared->fails)
        kin_fail(-EBADMSG, "as told");
    return 9;
}

static int do_it(void *arg)
{
    struct shared *shared = arg;
    void *escape = kin__task_self()->escape;
    EXPECT_EQ(kin_once_do(&shared->once, first_time, shared, 0), 9); /* no deadline for fn */
    EXPECT_PTR(kin__task_self()->escape, escape);
    return 0;
}

static int wait_here(void *arg)
{
    struct in_line *me = arg;
    struct shared *shared = me->object;
    me->rc = kin_once_do(&shared->once, first_time, shared, me->deadline);
    return 0;
}

static int wait_in_line(void *arg)
{
    enum { WAITERS = 140 };
    static struct line line;
    (void)arg;
    for (int fails = 0; fails < 2; fails++) {
        struct shared shared = {.fails = fails};
        struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
        struct kin_nursery n;
        options.on_error = KIN_COLLECT;
        EXPECT_EQ(kin_nursery_open(&n, &options), 0);
        EXPECT_EQ(kin_spawn(&n, do_it, &shared), 0);
        await(&shared.runs, 1);
        EXPECT_EQ(kin_once_do(&shared.once, first_time, &shared, 0), KIN_TIMEOUT);
        line_open(&line, crowd_of(&shared.once), wait_here, &shared);
        for (int i = 0; i < WAITERS; i++)
            line_add(&line, i % 2 ? KIN_NEVER : kin_after(KIN_SEC(1000)));
        for (int i = 0; i < WAITERS; i += 11)
            line_cancel(&line, i);
        kin_event_set(&shared.go_on);
        line_join(&line);
        EXPECT_EQ(kin_nursery_join(&n, NULL), fails ? -EBADMSG : 0);
        for (int i = 0; i < WAITERS; i++)
            EXPECT_EQ(line.waiters[i].rc, i % 11 == 0 ? KIN_CANCELLED : fails ? -EBADMSG : 9);
        EXPECT_EQ(shared.runs, 1);
    }
    return 0;
}

KIN_TEST(all_in_line_get_the_status_however_it_ends, "G091 G092")
{
    run_on_few(wait_in_line, NULL);
}

static int at_once(void *arg)
{
    _Atomic int *runs = arg;
    return ++*runs;
}

static int race(void *arg)
{
    struct in_line *me = arg;
    struct shared *shared = me->object;
    me->rc = kin_once_do(&shared->once, at_once, &shared->runs, KIN_NEVER);
    return 0;
}

static int race_all(void *arg)
{
    const int rounds = 200 / (int)kin_test_scale() + 1;
    (void)arg;
    for (int round = 0; round < rounds; round++) {
        struct shared shared = {.runs = 0};
        struct in_line callers[8];
        KIN_NURSERY(n);
        for (int i = 0; i < 8; i++) {
            callers[i] = (struct in_line){&shared, i, KIN_NEVER, 0};
            EXPECT_EQ(kin_spawn(&n, race, &callers[i]), 0);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(shared.runs, 1);
        for (int i = 0; i < 8; i++)
            EXPECT_EQ(callers[i].rc, 1);
        expect_quiet(crowd_of(&shared.once));
    }
    return 0;
}

KIN_TEST(of_many_first_callers_one_does_it, "G091")
{
    run_on_few(race_all, NULL);
}

/* A thread in the place of a task that finished the once and loses its CPU before it lets go. */
struct slow {
    struct kin_once once;
    _Atomic int has_begun, is_through;
};

static int not_called(void *arg)
{
    (void)arg;
    EXPECT_EQ(0, 1);
    return 0;
}

static void *finish_slowly(void *arg)
{
    struct slow *slow = arg;
    void *state = (char *)&slow->once + sizeof(struct kin__crowd);
    kin__crowd_take(crowd_of(&slow->once));
    kin__store_release((kin__a32 *)state, 2u); /* DONE; pairs as in finish */
    slow->has_begun = 1;
    usleep(20000);
    slow->is_through = 1;
    kin__crowd_give(crowd_of(&slow->once));
    return NULL;
}

static int wait_for_a_slow_finisher(void *arg)
{
    struct slow slow = {.has_begun = 0};
    pthread_t thread;
    (void)arg;
    EXPECT_EQ(pthread_create(&thread, NULL, finish_slowly, &slow), 0);
    await(&slow.has_begun, 1);
    EXPECT_EQ(kin_once_do(&slow.once, not_called, NULL, KIN_NEVER), 0);
    EXPECT_EQ(slow.is_through, 1);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    return 0;
}

KIN_TEST(whoever_finds_it_done_waits_until_the_finisher_has_let_go, "")
{
    run_on_few(wait_for_a_slow_finisher, NULL);
}
