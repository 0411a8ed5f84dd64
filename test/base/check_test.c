/* SPDX-License-Identifier: MIT */
/*
 * Failed checks: the line they print, the hook that names the task, and that they abort.
 */
#include "base/check.h"

#include "base/assert.h"
#include "base/atomic.h"
#include "kin_test.h"

static void set_hook(kin__check_hook_fn *hook)
{
    /* alone: the test has one thread */
    kin__store_relaxed(&kin__check_hook, hook);
}

static void name_task(struct kin__text *text)
{
    kin__text_printf(text, "task %s#%d", "fetch", 17);
}

static void name_nothing(struct kin__text *text)
{
    (void)text;
}

static void fail_again(struct kin__text *text)
{
    KIN__CHECK(text == NULL, "house");
}

static void fill_up(struct kin__text *text)
{
    for (int i = 0; i < 10000; i++)
        kin__text_char(text, 'x');
}

KIN_TEST(a_check_that_holds_does_nothing, "")
{
    int evaluated = 0;
    KIN__CHECK(++evaluated == 1, "house");
    EXPECT_EQ(evaluated, 1);
}

KIN_TEST(a_failed_check_names_condition_clause_and_place, "")
{
    EXPECT_ABORT ("kin: check failed: one == 2 [F2] at ") {
        int one = 1;
        KIN__CHECK(one == 2, "F2");
    }
    EXPECT_ABORT ("kin: check failed: a < b [NSM:2.3] at dir/file.c:41 in some_function\n") {
        kin__check_failed("a < b", "NSM:2.3", "dir/file.c", 41, "some_function");
    }
    EXPECT_ABORT ("check_test.c:") {
        KIN__CHECK(false, "F2");
    }
}

KIN_TEST(a_failed_check_names_the_task, "")
{
    EXPECT_ABORT ("at f.c:1 in g, task fetch#17\n") {
        set_hook(name_task);
        kin__check_failed("a", "F2", "f.c", 1, "g");
    }
}

KIN_TEST(outside_a_task_no_task_is_named, "")
{
    EXPECT_ABORT ("at f.c:1 in g\n") {
        set_hook(name_nothing);
        kin__check_failed("a", "F2", "f.c", 1, "g");
    }
}

KIN_TEST(a_hook_that_fails_itself_still_ends_in_an_abort, "")
{
    EXPECT_ABORT ("check failed: text == NULL") {
        set_hook(fail_again);
        kin__check_failed("a", "F2", "f.c", 1, "g");
    }
}

KIN_TEST(a_line_that_is_too_long_is_cut_and_still_ends, "")
{
    EXPECT_ABORT ("xxxxxx\n") {
        set_hook(fill_up);
        kin__check_failed("a", "F2", "f.c", 1, "g");
    }
}

KIN_TEST(a_missing_clause_does_no_harm, "")
{
    EXPECT_ABORT ("check failed: a [(null)] at (null):0 in (null)\n") {
        kin__check_failed("a", NULL, NULL, 0, NULL);
    }
}

KIN_TEST(assertions_are_evaluated_in_debug_only, "")
{
    int evaluated = 0;
    KIN__ASSERT(++evaluated > 0, "house");
#ifdef KIN_DEBUG
    EXPECT_EQ(evaluated, 1);
    EXPECT_ABORT ("check failed: evaluated == 5 [F4]") {
        KIN__ASSERT(evaluated == 5, "F4");
    }
#else
    EXPECT_EQ(evaluated, 0);
    KIN__ASSERT(evaluated == 5, "F4");
#endif
}

KIN_TEST(audits_are_evaluated_in_the_lab_only, "")
{
    int evaluated = 0;
    KIN__AUDIT(++evaluated > 0, "house");
#ifdef KIN__LAB
    EXPECT_EQ(evaluated, 1);
#else
    EXPECT_EQ(evaluated, 0);
#endif
}
