/* SPDX-License-Identifier: MIT */
/*
 * Goal: all who are in line when the count comes to 0 are woken, whatever is added next, and
 * nothing is left of those who leave before.
 * Method: lines longer than a batch; memory that goes away with the last waiter.
 */
#include "wait/in_line.h"

#include <kin/sync.h>

/* The crowd is the first thing in it. */
static struct kin__crowd *crowd_of(struct kin_group *group)
{
    return (struct kin__crowd *)(void *)group;
}

static int wait_here(void *arg)
{
    struct in_line *me = arg;
    me->rc = kin_group_wait(me->object, me->deadline);
    return 0;
}

static int wake_at_zero(void *arg)
{
    enum { WAITERS = 150 };
    struct kin_group group = {{0}};
    static struct line line;
    (void)arg;
    for (int round = 0; round < 3; round++) {
        kin_group_add(&group, 2);
        line_open(&line, crowd_of(&group), wait_here, &group);
        for (int i = 0; i < WAITERS; i++)
            line_add(&line, i % 2 ? KIN_NEVER : kin_after(KIN_SEC(1000)));
        for (int i = 0; i < WAITERS; i += 9)
            line_cancel(&line, i);
        kin_group_done(&group);
        EXPECT_EQ(in_line(crowd_of(&group)), WAITERS - (WAITERS + 8) / 9);
        kin_group_done(&group);
        kin_group_add(&group, 1); /* concerns those who come later */
        EXPECT_EQ(in_line(crowd_of(&group)), 0);
        line_join(&line);
        for (int i = 0; i < WAITERS; i++)
            EXPECT_EQ(line.waiters[i].rc, i % 9 ? 0 : KIN_CANCELLED);
        EXPECT_EQ(kin_group_wait(&group, 0), KIN_TIMEOUT);
        kin_group_done(&group);
    }
    return 0;
}

KIN_TEST(all_in_line_are_woken_at_zero_whatever_is_added_next, "G086 G088 N017")
{
    run_on_few(wake_at_zero, NULL);
}

static int be_done(void *arg)
{
    kin_group_done(arg);
    return 0;
}

/* The group is on the stack of whoever waits for it; nobody touches it after the wait. */
static int wait_on_own_stack(void *arg)
{
    struct kin_nursery *n = arg;
    for (int i = 0; i < 200; i++) {
        struct kin_group group = {{0}};
        kin_group_add(&group, 3);
        for (int j = 0; j < 3; j++)
            EXPECT_EQ(kin_spawn(n, be_done, &group), 0);
        if (i % 3 == 0)
            EXPECT_EQ(kin_yield(), 0);
        EXPECT_EQ(kin_group_wait(&group, KIN_NEVER), 0);
        memset(&group, 0x5a, sizeof group);
    }
    return 0;
}

static int many_own_stacks(void *arg)
{
    KIN_NURSERY(doers);
    (void)arg;
    {
        KIN_NURSERY(n);
        for (int i = 0; i < 6; i++)
            EXPECT_EQ(kin_spawn(&n, wait_on_own_stack, &doers), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return kin_nursery_join(&doers, NULL);
}

KIN_TEST(a_group_may_be_gone_as_soon_as_it_was_waited_for, "")
{
    run_on_few(many_own_stacks, NULL);
}
