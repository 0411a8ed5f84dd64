/* SPDX-License-Identifier: MIT */
/*
 * Goal: of those who are in line when the last one comes all pass, of those who left before nobody
 * has come, and there is no third way, however close the moments are.
 * Method: arrivals, deadlines and cancels at once, with a balance: passes come in multiples of the
 * parties.
 */
#include "wait/in_line.h"

#include <kin/sync.h>

/* The crowd is the first thing in it. */
static struct kin__crowd *crowd_of(struct kin_barrier *barrier)
{
    return (struct kin__crowd *)(void *)barrier;
}

static int wait_here(void *arg)
{
    struct in_line *me = arg;
    me->rc = kin_barrier_wait(me->object, me->deadline);
    return 0;
}

static int come_and_go(void *arg)
{
    enum { PARTIES = 150 };
    struct kin_barrier barrier;
    static struct line line;
    (void)arg;
    EXPECT_EQ(kin_barrier_init(&barrier, PARTIES), 0);
    line_open(&line, crowd_of(&barrier), wait_here, &barrier);
    for (int i = 0; i < PARTIES - 1; i++)
        line_add(&line, i % 2 ? KIN_NEVER : kin_after(KIN_SEC(1000)));
    for (int i = 0; i < 10; i++)
        line_cancel(&line, i);
    EXPECT_EQ(kin_barrier_wait(&barrier, 0), KIN_TIMEOUT);
    for (int i = 0; i < 10; i++) /* the parties stay as many as they were */
        line_add(&line, KIN_NEVER);
    EXPECT_EQ(in_line(crowd_of(&barrier)), PARTIES - 1);
    EXPECT_EQ(kin_barrier_wait(&barrier, 0), 0); /* the last one does not wait */
    EXPECT_EQ(in_line(crowd_of(&barrier)), 0);
    EXPECT_EQ(kin_barrier_wait(&barrier, 0), KIN_TIMEOUT); /* a new round */
    line_join(&line);
    for (int i = 0; i < line.count; i++)
        EXPECT_EQ(line.waiters[i].rc, i < 10 ? KIN_CANCELLED : 0);
    return 0;
}

KIN_TEST(all_in_line_pass_when_the_last_one_comes, "T061")
{
    run_on_few(come_and_go, NULL);
}

struct balance {
    struct kin_barrier barrier;
    _Atomic int begun, passed, left;
};

static int arrive(void *arg)
{
    struct balance *balance = arg;
    balance->begun++; /* one that is cancelled before never does */
    for (int i = 0; i < 60; i++) {
        int rc = kin_barrier_wait(&balance->barrier, kin_after(KIN_US(i % 5 * 20)));
        EXPECT(rc == 0 || rc == KIN_TIMEOUT || rc == KIN_CANCELLED);
        atomic_fetch_add(rc == 0 ? &balance->passed : &balance->left, 1);
        if (i % 3 == 0)
            kin_ignore(kin_yield());
    }
    return 0;
}

/* Whoever returns 0 was counted, whoever does not was not: else the balance is off. */
static int keep_balance(void *arg)
{
    int rounds = 12 / (int)kin_test_scale() + 1, passed = 0, left = 0;
    (void)arg;
    for (int round = 0; round < rounds; round++) {
        struct balance balance = {.passed = 0};
        struct kin_task_ref refs[12];
        KIN_NURSERY(n);
        EXPECT_EQ(kin_barrier_init(&balance.barrier, 3), 0);
        for (int i = 0; i < 12; i++)
            EXPECT_EQ(kin_spawn_with(&n, NULL, arrive, &balance, 0, &refs[i]), 0);
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(300))), 0);
        for (int i = 0; i < 12; i += 3)
            (void)kin_task_cancel(refs[i]);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(balance.passed % 3, 0);
        EXPECT_EQ(balance.passed + balance.left, balance.begun * 60);
        expect_quiet(crowd_of(&balance.barrier));
        passed += balance.passed;
        left += balance.left;
    }
    printf("%d passed, %d left\n", passed, left);
    return 0;
}

KIN_TEST(whoever_returns_0_has_come_and_nobody_else, "T061 F4")
{
    run_on_few(keep_balance, NULL);
}
