/* SPDX-License-Identifier: MIT */
/*
 * Goal: no restart starts a child while one that it depends on stays down; and it is started when
 * that one is.
 * Method: a chain of three, a <- b <- c, and d beside it; a goes down for good in each way there
 * is, then another one fails, under each strategy; a hook waits for what the supervisor decides.
 */
#include "otp/kids.h"

static struct house house;
static _Atomic int blocked;
static char lacked[8];

static void hear(const struct kin_supervisor_event *event, void *arg)
{
    (void)arg;
    if (event->kind != KIN_EVENT_BLOCKED)
        return;
    snprintf(lacked, sizeof lacked, "%s", event->other);
    atomic_fetch_add(&blocked, 1);
}

static void await_blocked(int count)
{
    while (atomic_load(&blocked) < count) /* ends: or the alarm does */
        kin_ignore(kin_yield());
}

static void set_up(enum kin_strategy strategy)
{
    static const char *const on_a[] = {"a", NULL}, *const on_b[] = {"b", NULL};
    furnish(&house, 4, KIN_PERMANENT);
    house.specs[1].depends_on = on_a;
    house.specs[2].depends_on = on_b;
    house.options.strategy = strategy;
    house.options.on_event = hear;
    atomic_store(&blocked, 0);
    move_in(&house, 4);
}

static int starts_of(int kid)
{
    return atomic_load(&house.kids[kid].starts);
}

/* a goes down for good. */
static void lose_a(int way)
{
    if (way == 0)
        end_kid(&house, "a", PANIC);
    else if (way == 1)
        EXPECT_EQ(kin_task_cancel((struct kin_task_ref){info_of(&house, "a").addr.id}), 0);
    else
        EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "a", KIN_NEVER), 0);
    await_state(&house, "a", KIN_CHILD_STOPPED);
}

static int in_chain(void *arg)
{
    (void)arg;
    for (int i = 0; i < 9; i++) {
        enum kin_strategy strategy = (enum kin_strategy)(i % 3);
        bool is_alone = strategy == KIN_ONE_FOR_ONE;
        set_up(strategy);
        lose_a(i / 3);
        tell_kid(&house, "b", END_BADLY);
        await_blocked(is_alone ? 1 : 2); /* b, and then c, which depends on it */
        EXPECT_STR(lacked, is_alone ? "a" : "b");
        await_state(&house, "b", KIN_CHILD_STOPPED);
        EXPECT_EQ(starts_of(0), 1);
        EXPECT_EQ(starts_of(1), 1);
        EXPECT_EQ(starts_of(2), 1);
        await_restarts(&house, "d", is_alone ? 0 : 1); /* goes on without them */
        EXPECT_EQ(kin_supervisor_restart_child(house.sup, "a", &(struct kin_addr){0, 0},
                                               KIN_NEVER), 0);
        await_restarts(&house, "b", 1);
        await_restarts(&house, "c", is_alone ? 0 : 1);
        EXPECT_EQ(starts_of(1), 2);
        move_out(&house);
    }
    return 0;
}
KIN_TEST(no_child_is_started_again_while_its_dependency_is_down, "SUP-PLAN-RESTART SINV-2")
{
    run_on_few(in_chain, NULL);
}

/* One that has ended well has done what it was for. */
static int in_done(void *arg)
{
    (void)arg;
    for (int i = 0; i < 6; i++) {
        static const char *const on_a[] = {"a", NULL};
        furnish(&house, 2, KIN_PERMANENT);
        house.specs[0].restart = i & 1 ? KIN_TEMPORARY : KIN_TRANSIENT;
        house.specs[1].depends_on = on_a;
        house.options.strategy = (enum kin_strategy)(i / 2);
        house.options.on_event = hear;
        atomic_store(&blocked, 0);
        move_in(&house, 2);
        end_kid(&house, "a", END_WELL);
        while (info_of(&house, "a").name && !(i & 1) &&
               info_of(&house, "a").state != KIN_CHILD_STOPPED) /* ends: or the alarm does */
            kin_ignore(kin_yield());
        while (i & 1 && info_of(&house, "a").name) /* ends: as above */
            kin_ignore(kin_yield());
        tell_kid(&house, "b", END_BADLY);
        await_restarts(&house, "b", 1);
        EXPECT_EQ(atomic_load(&blocked), 0);
        move_out(&house);
    }
    return 0;
}
KIN_TEST(a_dependency_that_ended_well_keeps_nobody_down, "SUP-PLAN-RESTART")
{
    run_on_few(in_done, NULL);
}

/* One that is being started again is not down. */
static int in_retry(void *arg)
{
    (void)arg;
    set_up(KIN_ONE_FOR_ALL);
    struct kin_addr a = info_of(&house, "a").addr;
    atomic_store(&house.kids[0].start_fails, 2);
    atomic_store(&house.kids[0].start_status, -EAGAIN);
    tell(a, END_BADLY);
    await_restarts(&house, "c", 1);
    EXPECT_EQ(starts_of(0), 4);
    EXPECT_EQ(starts_of(1), 2);
    EXPECT_EQ(atomic_load(&blocked), 0);
    move_out(&house);
    return 0;
}
KIN_TEST(a_dependency_that_comes_back_late_is_waited_for, "SUP-PLAN-RESTART D8")
{
    run_on_few(in_retry, NULL);
}
