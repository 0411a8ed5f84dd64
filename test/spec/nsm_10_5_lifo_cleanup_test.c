/* SPDX-License-Identifier: MIT */
/*
 * Goal: scenario 10.5 of the nursery machine: what is inside is cleaned up before what is outside.
 * Method: the cleanups are those of the C scopes the nurseries stand in, and then those that the
 *         tasks defer; a log keeps their order.
 */
#include "api/in_runtime.h"

static char history[64];
static _Atomic size_t history_at;

static void note(const char *text)
{
    size_t at = atomic_fetch_add(&history_at, strlen(text));

    EXPECT_LT(at + strlen(text), sizeof history);
    memcpy(history + at, text, strlen(text));
}

struct note_at_the_end {
    const char *text;
};

static void note_it(struct note_at_the_end *n)
{
    note(n->text);
}

static int be_inner_task(void *arg)
{
    KIN_CLEANUP(note_it) struct note_at_the_end cleanup = {"inner cleanup;"};
    int one = 1;
    (void)arg;
    (void)cleanup;
    {
        KIN_NURSERY(inner);
        EXPECT_EQ(kin_spawn(&inner, return_it, &one), 0);
        EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    }
    note("inner done;");
    return 0;
}

static int scenario(void *arg)
{
    (void)arg;
    memset(history, 0, sizeof history);
    atomic_store(&history_at, 0);
    {
        KIN_CLEANUP(note_it) struct note_at_the_end cleanup = {"outer cleanup;"};
        (void)cleanup;
        KIN_NURSERY(outer);
        EXPECT_EQ(kin_spawn(&outer, be_inner_task, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&outer, NULL), 0);
    }
    EXPECT_STR(history, "inner done;inner cleanup;outer cleanup;");
    return 0;
}

KIN_TEST(what_is_inside_is_cleaned_up_first, "NSM:10.5 NSM-4 NSM:6.3")
{
    run_on_few(scenario, NULL);
}

static void note_text(void *text)
{
    note(text);
}

static char inner_cleanup[] = "inner cleanup;", outer_cleanup[] = "outer cleanup;";

static int defer_inside(void *arg)
{
    int one = 1;
    (void)arg;
    EXPECT_EQ(kin_defer(note_text, inner_cleanup), 0);
    KIN_NURSERY(inner);
    EXPECT_EQ(kin_spawn(&inner, return_it, &one), 0);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    note("inner done;");
    return 0;
}

/* The body of the outer nursery, as a task of its own. */
static int defer_outside(void *arg)
{
    (void)arg;
    KIN_NURSERY(outer);
    EXPECT_EQ(kin_spawn(&outer, defer_inside, NULL), 0);
    EXPECT_EQ(kin_defer(note_text, outer_cleanup), 0);
    return kin_nursery_join(&outer, NULL);
}

static int scenario_with_defer(void *arg)
{
    (void)arg;
    memset(history, 0, sizeof history);
    atomic_store(&history_at, 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, defer_outside, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_STR(history, "inner done;inner cleanup;outer cleanup;");
    return 0;
}

KIN_TEST(what_is_deferred_inside_is_cleaned_up_first, "NSM:10.5 NSM-4 NSM:6.3 NCG-3")
{
    run_on_few(scenario_with_defer, NULL);
}
