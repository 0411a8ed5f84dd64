/* SPDX-License-Identifier: MIT */
/*
 * Goal: whoever leaves what it has acquired in another order than the newest first is seen, and
 * nobody else is.
 * Method: programs whose cleanups and nurseries are put into disorder from inside, one way each;
 * and programs that are right and look strange.
 */
#include "lab/in_lab.h"

#include "lab/world.h"
#include "scope/scope.h"
#include "task/extra.h"

static struct kin__cleanups *cleanups(void)
{
    return &kin__worker_current(kin__world.worker)->extra->cleanups;
}

static void nothing(void *arg)
{
    (void)arg;
}

static int one, two;

/* ---- disorder ---- */

static int swap_two(void *arg)
{
    (void)arg;
    KIN_LAB_OK(kin_defer(nothing, &one));
    KIN_LAB_OK(kin_defer(nothing, &two));
    struct kin__cleanup *table = cleanups()->table, first = table[0];
    table[0] = table[1];
    table[1] = first;
    return 0;
}

static int drop_one(void *arg)
{
    (void)arg;
    KIN_LAB_OK(kin_defer(nothing, &one));
    KIN_LAB_OK(kin_defer(nothing, &two));
    cleanups()->count--;
    return 0;
}

static int drop_all(void *arg)
{
    (void)arg;
    KIN_LAB_OK(kin_defer(nothing, &one));
    cleanups()->count = 0;
    return 0;
}

KIN_TEST(cleanups_that_do_not_run_in_their_order_are_seen, "NCG-3")
{
    expect_oracle(swap_two, NULL, "lifo-cleanup", KIN_PANICKED);
    EXPECT(strstr(report.text, "root leaves a cleanup that is not the newest") != NULL);
    expect_oracle(drop_one, NULL, "lifo-cleanup", KIN_PANICKED);
    expect_oracle(drop_all, NULL, "lifo-cleanup", KIN_PANICKED);
    EXPECT(strstr(report.text, "root has ended, and a cleanup of it was never run") != NULL);
}

/* The nursery is newer than the cleanup, and says that it is older. */
static int unwind_wrongly(void *is_wrong)
{
    if (kin_defer(nothing, &one) < 0)
        return -1;
    KIN_NURSERY(n);
    if (is_wrong)
        kin__handle_of(&n)->scope->cleanups = 0;
    kin_fail(-EIO, "on purpose");
}

/* The cleanup is newer, and the nursery says that it is. */
static int unwind_the_other_way(void *is_wrong)
{
    KIN_NURSERY(n);
    if (kin_defer(nothing, &one) < 0)
        return -1;
    if (is_wrong)
        kin__handle_of(&n)->scope->cleanups = 1;
    kin_fail(-EIO, "on purpose");
}

static int in_a_child(void *arg)
{
    kin_task_fn *fn = arg == &one || arg == &two ? unwind_wrongly : unwind_the_other_way;
    void *is_wrong = arg == &one || arg == NULL ? &one : NULL;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    KIN_LAB_OK(kin_spawn(&n, fn, is_wrong));
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

KIN_TEST(whoever_unwinds_leaves_nurseries_and_cleanups_in_one_order, "NCG-3 NSM:6.3")
{
    expect_oracle(in_a_child, &one, "lifo-cleanup", KIN_PANICKED);
    EXPECT(strstr(report.text, "root/0 leaves a cleanup on its way out") != NULL);
    expect_oracle(in_a_child, NULL, "lifo-cleanup", KIN_PANICKED);
    EXPECT(strstr(report.text, "root/0 leaves a nursery on its way out") != NULL);
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, in_a_child, &two), 0);
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, in_a_child, &report), 0);
}

/* ---- no disorder ---- */

static void defer_more(void *arg)
{
    (void)arg;
    kin_ignore(kin_defer(nothing, &two));
    KIN_NURSERY(n);
    kin_ignore(kin_nursery_join(&n, NULL));
}

static int strange_but_right(void *arg)
{
    (void)arg;
    void *mark = kin_scope_mark();
    KIN_LAB_OK(kin_defer(nothing, &one));
    kin_scope_release(mark);
    {
        KIN_NURSERY(n);
        KIN_LAB_OK(kin_defer(defer_more, &one)); /* newer than the nursery, and left later */
        KIN_LAB_OK(kin_nursery_join(&n, NULL));
    }
    for (int i = 0; i < 100; i++)
        KIN_LAB_OK(kin_defer(nothing, &one));
    KIN_NURSERY(outer);
    KIN_NURSERY(inner);
    KIN_LAB_OK(kin_nursery_join(&inner, NULL));
    return kin_nursery_join(&outer, NULL);
}

KIN_TEST(a_nursery_may_be_joined_before_newer_cleanups_run, "")
{
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, strange_but_right, NULL), 0);
    EXPECT_EQ(lab_with(KIN_LAB_RANDOM, 500, KIN_FAULT_CANCEL | KIN_FAULT_OOM, strange_but_right,
                       NULL),
              0);
}

/* More at once than can be followed: nobody looks any more, and nothing is said. */
static int acquire_very_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20000; i++)
        KIN_LAB_OK(kin_defer(nothing, &one));
    return 0;
}

KIN_TEST(more_than_can_be_followed_is_believed, "")
{
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, acquire_very_many, NULL), 0);
}

KIN_TEST(who_looks_at_something_else_says_nothing, "")
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    config.strategy = KIN_LAB_ROUND_ROBIN;
    config.oracles = KIN_ORACLE_LEAK;
    EXPECT_EQ(kin_lab_run(&config, swap_two, NULL, &report), 0);
}
