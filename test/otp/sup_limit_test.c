/* SPDX-License-Identifier: MIT */
/*
 * Goal: a child's own limit of restarts holds beside its supervisor's; a supervisor that is a child
 * has as long to stop as its children take, unless its spec says otherwise.
 * Method: one child with a limit beside one without, until either limit is passed; a tree of two
 * supervisors with a leaf that takes its time, and virtual patience: alarms are looked at by who is
 * killed, not by a clock.
 */
#include "otp/kids.h"

static struct house house;

static int in_own_limit(void *arg)
{
    (void)arg;
    furnish(&house, 2, KIN_PERMANENT);
    house.specs[0].max_restarts = 2;
    house.specs[0].window = KIN_SEC(100000);
    house.options.max_restarts = 100;
    move_in(&house, 2);
    for (unsigned i = 0; i < 5; i++) /* b has none of its own */
        tell(await_restarts(&house, "b", i).addr, END_BADLY);
    await_restarts(&house, "b", 5);
    for (unsigned i = 0; i < 3; i++)
        tell(await_restarts(&house, "a", i).addr, END_BADLY);
    EXPECT_EQ(outcome_of(&house).status, KIN_EXHAUSTED);
    EXPECT_EQ(atomic_load(&house.kids[0].starts), 3);
    kin_ignore(kin_nursery_join(&house.n, NULL));
    return 0;
}
KIN_TEST(a_child_may_have_a_limit_of_its_own, "D8 SUP-BUDGET-EXCEEDED")
{
    run_on_few(in_own_limit, NULL);
}

static int in_no_restarts(void *arg)
{
    (void)arg;
    furnish(&house, 1, KIN_PERMANENT);
    house.specs[0].max_restarts = KIN_NO_RESTARTS;
    move_in(&house, 1);
    tell_kid(&house, "a", END_BADLY);
    EXPECT_EQ(outcome_of(&house).status, KIN_EXHAUSTED);
    kin_ignore(kin_nursery_join(&house.n, NULL));
    furnish(&house, 1, KIN_PERMANENT); /* the other limit holds as well */
    house.specs[0].max_restarts = 100;
    house.options.max_restarts = 1;
    move_in(&house, 1);
    for (unsigned i = 0; i < 2; i++)
        tell(await_restarts(&house, "a", i).addr, END_BADLY);
    EXPECT_EQ(outcome_of(&house).status, KIN_EXHAUSTED);
    EXPECT_EQ(atomic_load(&house.kids[0].starts), 2);
    kin_ignore(kin_nursery_join(&house.n, NULL));
    house.specs[0].window = -1;
    struct kin_addr sup;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    EXPECT_EQ(kin_supervisor_start(&n, NULL, house.specs, 1, &sup), -EINVAL);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(either_limit_is_enough, "D8 SUP-BUDGET-EXCEEDED")
{
    run_on_few(in_no_restarts, NULL);
}

/* The children of a template have the limit of the template. */
static int in_template(void *arg)
{
    struct kin_addr kid;
    (void)arg;
    furnish(&house, 1, KIN_TRANSIENT);
    house.specs[0].max_restarts = 1;
    house.specs[0].window = KIN_SEC(100000);
    house.options.strategy = KIN_TEMPLATE;
    house.options.max_restarts = 100;
    move_in(&house, 1);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, NULL, &kid, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, NULL, &kid, KIN_NEVER), 0);
    for (unsigned i = 0; i < 2; i++) { /* once each */
        struct kin_child_info infos[2];
        do { /* ends: or the alarm does */
            kin_ignore(kin_yield());
            EXPECT_EQ(kin_supervisor_which_children(house.sup, infos, 2, KIN_NEVER), 2);
        } while (infos[i].state != KIN_CHILD_RUNNING);
        tell(infos[i].addr, END_BADLY);
    }
    while (atomic_load(&house.kids[0].starts) < 4) /* ends: as above */
        kin_ignore(kin_yield());
    EXPECT_EQ(kin_server_state(house.sup), KIN_SERVER_RUNNING);
    move_out(&house);
    return 0;
}
KIN_TEST(children_of_a_template_have_a_limit_each, "D8")
{
    run_on_few(in_template, NULL);
}

/* ---- supervisors as children ---- */

static int start_branch(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    struct kin_child_spec leaf = {
        .name = "leaf", .start = kid_start, .arg = arg, .shutdown = KIN_NEVER};
    return kin_supervisor_start(n, NULL, &leaf, 1, out);
}

/* Opens the gate of a leaf which is being stopped when 30 s have passed, virtually in the lab. */
static int open_gate(void *arg)
{
    kin_ignore(kin_sleep(kin_after(KIN_SEC(30))));
    kin_event_set(&((struct kid *)arg)->gate);
    return 0;
}

static int in_patience(void *arg)
{
    struct kin_child_info leaf;
    (void)arg;
    if (!kin_in_lab())
        return 0; /* 30 s are too long to wait for */
    furnish(&house, 1, KIN_PERMANENT);
    house.specs[0].start = start_branch;
    move_in(&house, 1);
    struct kin_addr branch = await_state(&house, "a", KIN_CHILD_RUNNING).addr;
    EXPECT_EQ(kin_supervisor_which_children(branch, &leaf, 1, KIN_NEVER), 1);
    tell(leaf.addr, WAIT_DEAF);
    while (!atomic_load(&house.kids[0].is_deaf)) /* ends: or the alarm does */
        kin_ignore(kin_sleep(kin_after(1)));
    EXPECT_EQ(kin_spawn(&house.n, open_gate, &house.kids[0]), 0);
    kin_time began = kin_now();
    EXPECT_EQ(kin_server_stop(house.sup, 0, KIN_NEVER), 0);
    EXPECT_GE(kin_now() - began, KIN_SEC(30)); /* the leaf was not killed meanwhile */
    return kin_nursery_join(&house.n, NULL);
}
KIN_TEST(a_supervisor_below_is_waited_for_without_end, "D10 SUP-CANCEL-CHILD")
{
    run_on_few(in_patience, NULL);
}
