/* SPDX-License-Identifier: MIT */
/*
 * Goal: a nursery that is left in no way at all is a bug that names the task, the place where the
 *       nursery was opened and the rule; one that is ended by somebody else too.
 * Method: what must abort does so in a process of its own, and what it prints is compared. The
 *         other ways out are in test/api/cause_test.c.
 */
#include "api/in_runtime.h"

#include <setjmp.h>

static int forget(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    static struct kin_nursery n;
    (void)arg;
    options.name = "forgotten";
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    return 0;
}

static jmp_buf back;

static void jump_out(void)
{
    KIN_NURSERY(jumped);
    longjmp(back, 1);
}

static int jump(void *arg)
{
    (void)arg;
    if (setjmp(back) == 0)
        jump_out();
    return 0;
}

KIN_TEST(a_nursery_that_is_left_open_names_the_task_the_place_and_the_rule, "NSM-1")
{
    EXPECT_ABORT("a nursery was left open, the nursery forgotten, opened at ") {
        kin_ignore(run_reporting(1, forget, NULL, NULL));
    }
    EXPECT_ABORT("leaves none by return or longjmp [NSM-1], task ") {
        kin_ignore(run_reporting(1, forget, NULL, NULL));
    }
    EXPECT_ABORT("a nursery was left open, the nursery opened at ") {
        kin_ignore(run_reporting(1, jump, NULL, NULL));
    }
}

static int end_it(void *n)
{
    return kin_nursery_end(n, 0);
}

static int let_others_end_it(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, end_it, &n), 0);
    return kin_nursery_end(&n, 0);
}

static int drain_it(void *n)
{
    return kin_nursery_join_until(n, 0, NULL);
}

static int let_others_drain_it(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, drain_it, &n), 0);
    return kin_nursery_end(&n, 0);
}

KIN_TEST(a_nursery_is_ended_by_the_task_that_opened_it, "NSM-2")
{
    EXPECT_ABORT("kin_nursery_end: only the task that opened a nursery joins it") {
        kin_ignore(run_reporting(1, let_others_end_it, NULL, NULL));
    }
    EXPECT_ABORT("kin_nursery_join_until: only the task that opened a nursery joins it") {
        kin_ignore(run_reporting(1, let_others_drain_it, NULL, NULL));
    }
}
