/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a cancellation tells one after the other are several steps of the lab: a task and the
 * nurseries that it has open, those among themselves, and children whose grace is over.
 * Method: programs that fail if somebody who was told acts before the next one is, under two
 * strategies each.
 */
#include "lab/found.h"

#include <errno.h>

/* ---- a task is asked before the nurseries that it has open are cancelled ---- */

static struct {
    struct kin_nursery n;
    struct kin_event never, told;
    struct kin_task_ref child;
} inside;

/* Hears from its parent that the parent was asked. */
static int hear_from_parent(void *arg)
{
    (void)arg;
    kin_mask();
    kin_ignore(kin_event_wait(&inside.told, KIN_NEVER));
    kin_unmask();
    kin_lab_assert(kin_cancelled(), "a task is asked together with its nurseries");
    return 0;
}

/* Waits until it is asked, and tells a child of its own. */
static int tell_a_child(void *arg)
{
    struct kin_nursery n;
    (void)arg;
    KIN_LAB_OK(kin_nursery_open(&n, NULL));
    kin_ignore(kin_spawn(&n, hear_from_parent, NULL)); /* refused if it was asked already */
    if (kin_event_wait(&inside.never, KIN_NEVER) < 0)
        kin_event_set(&inside.told);
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

/* Opens the nursery with one child in it. */
static int open_inside(kin_task_fn *child, const struct kin_nursery_options *options)
{
    memset(&inside, 0, sizeof inside);
    KIN_LAB_OK(kin_nursery_open(&inside.n, options));
    return child ? kin_spawn_with(&inside.n, NULL, child, NULL, 0, &inside.child) : 0;
}

static int cancel_around(void *arg)
{
    (void)arg;
    KIN_LAB_OK(open_inside(tell_a_child, NULL));
    kin_nursery_cancel(&inside.n, 0);
    kin_ignore(kin_nursery_join(&inside.n, NULL));
    return 0;
}

static int cancel_around_by_time(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    (void)arg;
    options.deadline = kin_after(KIN_MS(1));
    KIN_LAB_OK(open_inside(tell_a_child, &options));
    kin_ignore(kin_nursery_join(&inside.n, NULL));
    return 0;
}

static int cancel_the_task(void *arg)
{
    (void)arg;
    KIN_LAB_OK(open_inside(tell_a_child, NULL));
    KIN_LAB_OK(kin_task_cancel(inside.child));
    kin_ignore(kin_nursery_join(&inside.n, NULL));
    return 0;
}

static int fail_with_link(void *arg)
{
    struct kin_link_ref ref;
    (void)arg;
    kin_ignore(kin_link(kin_task_addr(inside.child), KIN_EXIT_IGNORE, KIN_EXIT_PROPAGATE, &ref));
    return -EIO;
}

static int cancel_by_link(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    (void)arg;
    options.on_error = KIN_COLLECT;
    KIN_LAB_OK(open_inside(tell_a_child, &options));
    KIN_LAB_OK(kin_spawn(&inside.n, fail_with_link, NULL));
    kin_ignore(kin_nursery_join(&inside.n, NULL));
    return 0;
}

static int cancel_that_one(void *arg)
{
    (void)arg;
    kin_nursery_cancel(&inside.n, 0);
    return 0;
}

/* The owner of a nursery without children, which is cancelled, has another one open in it. */
static int cancel_the_owner(void *arg)
{
    struct kin_nursery around;
    (void)arg;
    KIN_LAB_OK(kin_nursery_open(&around, NULL));
    KIN_LAB_OK(open_inside(NULL, NULL));
    KIN_LAB_OK(kin_spawn(&around, cancel_that_one, NULL));
    (void)tell_a_child(NULL);
    kin_ignore(kin_nursery_join(&inside.n, NULL));
    return kin_nursery_join(&around, NULL);
}

KIN_TEST(a_task_that_was_asked_may_act_before_its_nurseries_are_cancelled, "")
{
    expect_found(cancel_around, KIN_PANICKED);
    expect_found(cancel_around_by_time, KIN_PANICKED);
    expect_found(cancel_the_task, KIN_PANICKED);
    expect_found(cancel_by_link, KIN_PANICKED);
    expect_found(cancel_the_owner, KIN_PANICKED);
}

static int tell_if_cancelled(void *arg)
{
    (void)arg;
    if (kin_cancelled())
        kin_event_set(&inside.told);
    return 0;
}

static int look_if_told(void *arg)
{
    (void)arg;
    kin_mask();
    int rc = kin_event_wait(&inside.told, 0);
    kin_unmask();
    kin_lab_assert(rc < 0 || kin_cancelled(), "all nurseries of a task are cancelled at once");
    return 0;
}

/* Has two nurseries open, one in the other; arg: under a mask, for a while. */
static int own_two(void *arg)
{
    struct kin_nursery outer, inner;
    if (arg)
        kin_mask();
    KIN_LAB_OK(kin_nursery_open(&outer, NULL));
    kin_ignore(kin_spawn(&outer, look_if_told, NULL));
    KIN_LAB_OK(kin_nursery_open(&inner, NULL));
    kin_ignore(kin_spawn(&inner, tell_if_cancelled, NULL));
    if (arg)
        kin_unmask();
    kin_ignore(kin_nursery_join(&inner, NULL));
    kin_ignore(kin_nursery_join(&outer, NULL));
    return 0;
}

static int own_two_masked(void *arg)
{
    (void)arg;
    return own_two(&inside);
}

static int cancel_two(void *arg)
{
    (void)arg;
    KIN_LAB_OK(open_inside(own_two, NULL));
    KIN_LAB_OK(kin_task_cancel(inside.child));
    kin_ignore(kin_nursery_join(&inside.n, NULL));
    return 0;
}

static int cancel_two_masked(void *arg)
{
    (void)arg;
    KIN_LAB_OK(open_inside(own_two_masked, NULL));
    KIN_LAB_OK(kin_task_cancel(inside.child));
    kin_ignore(kin_nursery_join(&inside.n, NULL));
    return 0;
}

KIN_TEST(the_nurseries_of_a_task_are_cancelled_one_after_the_other, "")
{
    expect_found(cancel_two, KIN_PANICKED);
    expect_found(cancel_two_masked, KIN_PANICKED);
}

/* ---- children whose grace is over are killed one after the other ---- */

/* The one that is killed tells the other. */
static int tell_when_killed(void *arg)
{
    (void)arg;
    kin_mask();
    if (kin_event_wait(&inside.told, KIN_NEVER) < 0)
        kin_event_set(&inside.told);
    else
        kin_lab_assert(kin_checkpoint() != 0, "all are killed at once");
    kin_unmask();
    return 0;
}

static int have_two_killed(void *arg)
{
    struct kin_nursery n;
    (void)arg;
    KIN_LAB_OK(kin_nursery_open(&n, NULL));
    kin_ignore(kin_spawn(&n, tell_when_killed, NULL));
    kin_ignore(kin_spawn(&n, tell_when_killed, NULL));
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

/* Tells a child of its own when it is killed. */
static int tell_a_child_when_killed(void *arg)
{
    (void)arg;
    kin_mask();
    (void)tell_a_child(NULL);
    kin_unmask();
    return 0;
}

/* Cancels a nursery, whose grace is short. */
static int outstay(kin_task_fn *child, kin_task_fn *other)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    options.cancel_grace = KIN_MS(1);
    KIN_LAB_OK(open_inside(child, &options));
    if (other)
        KIN_LAB_OK(kin_spawn(&inside.n, other, NULL));
    kin_nursery_cancel(&inside.n, 0);
    kin_ignore(kin_nursery_join(&inside.n, NULL));
    return 0;
}

static int outstay_both(void *arg)
{
    return (void)arg, outstay(tell_when_killed, tell_when_killed);
}

static int outstay_inside(void *arg)
{
    return (void)arg, outstay(have_two_killed, NULL);
}

static int outstay_with_nursery(void *arg)
{
    return (void)arg, outstay(tell_a_child_when_killed, NULL);
}

KIN_TEST(a_child_that_was_killed_may_act_before_the_next_one_is, "")
{
    expect_found(outstay_both, KIN_PANICKED);
    expect_found(outstay_inside, KIN_PANICKED);
}

KIN_TEST(a_task_that_was_killed_may_act_before_its_nurseries_are_cancelled, "")
{
    expect_found(outstay_with_nursery, KIN_PANICKED);
}
