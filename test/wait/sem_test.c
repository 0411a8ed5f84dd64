/* SPDX-License-Identifier: MIT */
/*
 * Goal: permits are neither lost nor made, whoever leaves; the line is served strictly from its
 * head, in batches or not.
 * Method: lines whose order is known on any number of workers, and the permits that are left.
 */
#include "wait/in_line.h"

#include <kin/sync.h>

/* The crowd is the first thing in it. */
static struct kin__crowd *crowd_of(struct kin_sem *sem)
{
    return (struct kin__crowd *)(void *)sem;
}

struct shared {
    struct kin_sem sem;
    size_t wishes[IN_LINE_MAX];
    _Atomic int count; /* who got theirs */
};

static int acquire(void *arg)
{
    struct in_line *me = arg;
    struct shared *shared = me->object;
    me->rc = kin_sem_acquire(&shared->sem, shared->wishes[me->number], me->deadline);
    if (me->rc == 0)
        shared->count++;
    return 0;
}

/* How many permits there are. */
static size_t permits_of(struct kin_sem *sem)
{
    size_t permits = 0;
    while (kin_sem_acquire(sem, 1, 0) == 0) /* ends: there are few */
        permits++;
    kin_sem_release(sem, permits);
    return permits;
}

/* After each release exactly those have left the line, from its head on, for whom it is enough. */
static int serve_in_order(void *arg)
{
    enum { WAITERS = 150 };
    static struct shared shared;
    static struct line line;
    size_t all = 0, given = 0, taken = 0;
    int served = 0;
    (void)arg;
    memset(&shared, 0, sizeof shared);
    for (int i = 0; i < WAITERS; i++)
        all += shared.wishes[i] = (size_t)(i % 5) + 1;
    line_open(&line, crowd_of(&shared.sem), acquire, &shared);
    for (int i = 0; i < WAITERS; i++)
        line_add(&line, i % 2 ? KIN_NEVER : kin_after(KIN_SEC(1000)));
    for (int i = 0; given < all; i++) { /* in crumbs, then the rest in one lump */
        size_t n = i < 50 ? 1 + (size_t)i % 3 : all - given;
        kin_sem_release(&shared.sem, n);
        given += n;
        while (served < WAITERS && taken + shared.wishes[served] <= given)
            taken += shared.wishes[served++];
        EXPECT_EQ(in_line(crowd_of(&shared.sem)), WAITERS - served);
    }
    line_join(&line);
    EXPECT_EQ(permits_of(&shared.sem), 0);
    EXPECT_EQ(shared.count, WAITERS);
    return 0;
}

KIN_TEST(permits_go_to_the_head_of_the_line, "T079 T083")
{
    run_on_few(serve_in_order, NULL);
}

/* Five get in line, the first with a deadline. False: that came before all were there. */
static bool line_up(struct line *line, struct shared *shared, kin_time deadline)
{
    for (unsigned i = 0; i < 5; i++) {
        line_spawn(line, i == 0 ? deadline : KIN_NEVER);
        while (in_line(line->crowd) != i + 1 && kin_now() < deadline) /* ends: one of the two */
            kin_ignore(kin_yield());
    }
    int served = shared->count;
    bool in_time = kin_now() < deadline;
    EXPECT(served == 0 || !in_time);
    return in_time;
}

/* The head wants more than there is; when it goes, those behind it get what fits, at once. It goes
 * at its deadline, or is cancelled if it has none. False: the deadline was too early. */
static bool leave_at(kin_time deadline)
{
    static struct shared shared;
    static struct line line;
    static const size_t wishes[] = {100, 2, 1, 2, 1};
    memset(&shared, 0, sizeof shared);
    memcpy(shared.wishes, wishes, sizeof wishes);
    kin_sem_release(&shared.sem, 4);
    line_open(&line, crowd_of(&shared.sem), acquire, &shared);
    bool in_time = line_up(&line, &shared, deadline);
    if (!in_time) {
        kin_sem_release(&shared.sem, 2); /* now there is enough for all but the head */
        line_join(&line);
        return false;
    }
    if (deadline == KIN_NEVER)
        EXPECT_EQ(kin_task_cancel(line.refs[0]), 0);
    await_in_line(crowd_of(&shared.sem), 2);
    await(&shared.count, 2);
    kin_sem_release(&shared.sem, 1);
    await(&shared.count, 3);
    EXPECT_EQ(in_line(crowd_of(&shared.sem)), 1);
    kin_sem_release(&shared.sem, 3);
    line_join(&line);
    EXPECT_EQ(line.waiters[0].rc, deadline == KIN_NEVER ? KIN_CANCELLED : KIN_TIMEOUT);
    EXPECT_EQ(permits_of(&shared.sem), 2);
    return true;
}

static int head_leaves(void *arg)
{
    (void)arg;
    EXPECT(leave_at(KIN_NEVER));
    for (int64_t ns = KIN_MS(20); !leave_at(kin_after(ns)); ns *= 2)
        continue; /* ends: some time is enough */
    return 0;
}

KIN_TEST(when_the_head_leaves_those_behind_it_are_served, "T061 T078")
{
    run_on_few(head_leaves, NULL);
}

/* Releases and cancels at once: what was not returned as acquired is still there. */
static int release_all(void *arg)
{
    struct shared *shared = arg;
    for (int i = 0; i < 3; i++)
        kin_sem_release(&shared->sem, 1);
    return 0;
}

static int race_with_leavers(void *arg)
{
    const int rounds = 200 / (int)kin_test_scale() + 1;
    static struct shared shared;
    static struct line line;
    (void)arg;
    for (int round = 0; round < rounds; round++) {
        memset(&shared, 0, sizeof shared);
        line_open(&line, crowd_of(&shared.sem), acquire, &shared);
        for (int i = 0; i < 4; i++) {
            shared.wishes[i] = 1 + (size_t)(i + round) % 2;
            line_add(&line, KIN_NEVER);
        }
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, release_all, &shared), 0);
        if (round % 2)
            EXPECT_EQ(kin_yield(), 0);
        for (int i = 0; i < 4; i++)
            (void)kin_task_cancel(line.refs[i]);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        line_join(&line);
        size_t acquired = 0;
        for (int i = 0; i < 4; i++)
            acquired += line.waiters[i].rc == 0 ? shared.wishes[i] : 0;
        EXPECT_EQ(acquired + permits_of(&shared.sem), 3);
    }
    return 0;
}

KIN_TEST(permits_that_meet_leavers_stay, "T061 F4")
{
    run_on_few(race_with_leavers, NULL);
}

/* While one lets go in batches the others leave it to that one: it must find somebody in line as
 * long as it comes back, and it looks again at what there is. */
static int leave_it_to_the_sweeper(void *arg)
{
    static struct shared shared;
    static struct line line;
    (void)arg;
    memset(&shared, 0, sizeof shared);
    shared.wishes[0] = 1;
    line_open(&line, crowd_of(&shared.sem), acquire, &shared);
    line_add(&line, KIN_NEVER);
    kin__crowd_take(crowd_of(&shared.sem));
    crowd_of(&shared.sem)->sweeps++;
    kin__crowd_give(crowd_of(&shared.sem));
    kin_sem_release(&shared.sem, 1);
    EXPECT_EQ(in_line(crowd_of(&shared.sem)), 1);
    kin__crowd_take(crowd_of(&shared.sem));
    crowd_of(&shared.sem)->sweeps--;
    kin__crowd_give(crowd_of(&shared.sem));
    kin_sem_release(&shared.sem, 0); /* what the sweeper does after every batch */
    line_join(&line);
    EXPECT_EQ(line.waiters[0].rc, 0);
    EXPECT_EQ(permits_of(&shared.sem), 0);
    return 0;
}

KIN_TEST(one_waker_at_a_time_goes_along_the_line, "")
{
    run_on_few(leave_it_to_the_sweeper, NULL);
}
