/* SPDX-License-Identifier: MIT */
/*
 * Goal: what kin_fail and kin_panic say arrives wherever the status arrives: in the outcome, in the
 *       list of failures, in reports, further outward; bounded, and never instead of the status.
 * Method: black box; then memory runs out where the words would be kept.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"

static int fail_in_words(void *arg)
{
    kin_fail(-EIO, "cannot read %s, line %d", (const char *)arg, 7);
}

static int fail_without(void *arg)
{
    (void)arg;
    kin_fail(-EPIPE, NULL);
}

static int fail_plainly(void *arg)
{
    (void)arg;
    return -ENOENT;
}

static int panic_in_words(void *arg)
{
    (void)arg;
    kin_panic("%d is too much", 3);
}

static int ask_for_outcomes(void *arg)
{
    struct kin_task_ref task;
    struct kin_outcome how, errors[8];
    struct kin_nursery n;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    (void)arg;
    options.on_error = KIN_COLLECT;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, fail_in_words, "app.conf", 0, &task), 0);
    EXPECT_EQ(kin_task_join(&n, task, &how, KIN_NEVER), 0);
    EXPECT_STR(how.text, "cannot read app.conf, line 7");
    EXPECT_EQ(how.status, -EIO);
    EXPECT_EQ(kin_nursery_errors(&n, errors, 8), 1); /* while it is open */
    EXPECT_STR(errors[0].text, "cannot read app.conf, line 7");
    EXPECT_EQ(kin_spawn_with(&n, NULL, fail_without, NULL, 0, &task), 0);
    EXPECT_EQ(kin_task_join(&n, task, &how, KIN_NEVER), 0);
    EXPECT_STR(how.text, "");
    EXPECT_EQ(kin_spawn_with(&n, NULL, fail_plainly, NULL, 0, &task), 0);
    EXPECT_EQ(kin_task_join(&n, task, &how, KIN_NEVER), 0);
    EXPECT_STR(how.text, "");
    EXPECT_EQ(kin_spawn_with(&n, NULL, panic_in_words, NULL, 0, &task), 0);
    EXPECT_EQ(kin_task_join(&n, task, &how, KIN_NEVER), 0);
    EXPECT_STR(how.text, "3 is too much");
    EXPECT_EQ(kin_nursery_join(&n, &how), KIN_PANICKED);
    EXPECT_STR(how.text, "3 is too much"); /* the panic is what the join reports */
    EXPECT_EQ(kin_nursery_errors(&n, errors, 8), 4);
    EXPECT_STR(errors[0].text, "cannot read app.conf, line 7");
    EXPECT_STR(errors[1].text, "");
    EXPECT_STR(errors[2].text, "");
    EXPECT_STR(errors[3].text, "3 is too much");
    EXPECT_EQ(kin_nursery_poll(&n, &how), KIN_PANICKED);
    EXPECT_STR(how.text, "3 is too much");
    return 0;
}

KIN_TEST(the_words_of_a_failure_are_in_its_outcome_and_in_the_list, "NSM-5 SCHED:15.2.2")
{
    run_on_few(ask_for_outcomes, NULL);
}

static int branch_out(void *arg)
{
    struct kin_branch branches[2] = {{.fn = fail_in_words, .arg = "a"},
                                     {.fn = fail_in_words, .arg = "b"}};
    (void)arg;
    EXPECT_EQ(kin_any(branches, 2, NULL), -EIO);
    EXPECT_STR(branches[0].out.text, "cannot read a, line 7");
    EXPECT_STR(branches[1].out.text, "cannot read b, line 7");
    return 0;
}

KIN_TEST(branches_of_a_combinator_have_their_words, "SCHED:15.2.2")
{
    run_on_few(branch_out, NULL);
}

/* A task that hands the failure of its child on. */
static int pass_on(void *arg)
{
    int *levels = arg;
    KIN_NURSERY(n);
    if (*levels == 0)
        return kin_nursery_end(&n, kin_spawn(&n, fail_in_words, "deep"));
    int fewer = *levels - 1;
    return kin_nursery_end(&n, kin_spawn(&n, pass_on, &fewer));
}

/* One that makes another failure of it, and one that goes on. */
static int replace(void *arg)
{
    int rc = pass_on(arg);
    return rc == -EIO ? -EPROTO : rc;
}

static int recover(void *arg)
{
    int rc = pass_on(arg);
    return rc == -EIO ? 0 : rc;
}

static int listen_outside(void *arg)
{
    struct kin_outcome how;
    struct kin_nursery n;
    int levels = 3;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, pass_on, &levels), 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), -EIO);
    EXPECT_STR(how.text, "cannot read deep, line 7");
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, replace, &levels), 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), -EPROTO);
    EXPECT_STR(how.text, "");
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, recover, &levels), 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), 0);
    EXPECT_STR(how.text, "");
    return 0;
}

KIN_TEST(words_travel_outward_with_the_status_and_only_with_it, "NSM:8.1")
{
    run_on_few(listen_outside, NULL);
}

static int leave_it(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, fail_in_words, "left"), 0);
    while (kin_nursery_state(&n) == KIN_NURSERY_OPEN) /* ends: the child fails */
        kin_ignore(kin_yield());
    return 0;
}

static void fail_to_clean_up(void *arg)
{
    kin_fail(-EBUSY, "%s is in use", (const char *)arg);
}

static int clean_up_badly(void *arg)
{
    (void)arg;
    return kin_defer(fail_to_clean_up, "the door");
}

KIN_TEST(reports_say_the_words, "N3002 NSM:8.1")
{
    static struct reports reports;
    int levels = 2;
    memset(&reports, 0, sizeof reports);
    /* the first task: nobody asks for its outcome */
    EXPECT_EQ(run_reporting(2, pass_on, &levels, &reports), -EIO);
    EXPECT_EQ(atomic_load(&reports.count), 1);
    EXPECT_EQ(reports.status[0], -EIO);
    EXPECT(strstr(reports.text[0], "cannot read deep, line 7"));
    /* a nursery that was left */
    memset(&reports, 0, sizeof reports);
    EXPECT_EQ(run_reporting(2, leave_it, NULL, &reports), -EIO);
    EXPECT_EQ(atomic_load(&reports.count), 2);
    EXPECT(strstr(reports.text[0], "had failed with EIO: cannot read left, line 7"));
    EXPECT(strstr(reports.text[1], "cannot read left, line 7"));
    /* a cleanup */
    memset(&reports, 0, sizeof reports);
    EXPECT_EQ(run_reporting(2, clean_up_badly, NULL, &reports), KIN_CLEANUP);
    EXPECT_EQ(atomic_load(&reports.count), 1);
    EXPECT(strstr(reports.text[0], "with EBUSY: the door is in use"));
}

static int fail_at_length(void *arg)
{
    kin_fail(-EIO, "%s", (const char *)arg);
}

static int read_at_length(void *arg)
{
    static char text[1000];
    struct kin_outcome how;
    (void)arg;
    memset(text, 'y', sizeof text - 1);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, fail_at_length, text), 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), -EIO);
    EXPECT_EQ(strlen(how.text), KIN_OUTCOME_TEXT - 1);
    EXPECT_EQ(strncmp(how.text, text, KIN_OUTCOME_TEXT - 1), 0);
    return 0;
}

KIN_TEST(words_that_are_too_long_are_cut, "")
{
    run_on_few(read_at_length, NULL);
}

/* Many failures through one nursery that keeps few: the words of the others go. */
static int fail_often(void *arg)
{
    struct kin_outcome how, errors[20];
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    (void)arg;
    options.on_error = KIN_COLLECT;
    options.errors_max = 2;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    for (int i = 0; i < enough(100, 4); i++)
        EXPECT_EQ(kin_spawn(&n, fail_in_words, "one of many"), 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), -EIO);
    EXPECT_STR(how.text, "cannot read one of many, line 7");
    EXPECT_EQ(kin_nursery_errors(&n, errors, 20), 2);
    EXPECT_STR(errors[1].text, "cannot read one of many, line 7");
    /* the same handle again, with more than it holds itself */
    options.errors_max = 40;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    for (int i = 0; i < 18; i++)
        EXPECT_EQ(kin_spawn(&n, i % 2 ? fail_in_words : fail_plainly, "a second life"), 0);
    EXPECT_NE(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_nursery_errors(&n, errors, 20), 18);
    for (int i = 0; i < 18; i++)
        EXPECT_STR(errors[i].text,
                   errors[i].status == -EIO ? "cannot read a second life, line 7" : "");
    return 0;
}

KIN_TEST(a_nursery_keeps_the_words_of_the_failures_that_it_keeps, "NSM-5")
{
    run_on_few(fail_often, NULL);
}

static int fail_without_memory(void *arg)
{
    (void)arg;
    kin__plat_fail_after(1, true);
    kin_fail(-EIO, "nobody will read this");
}

static int lose_the_words(void *arg)
{
    struct kin_outcome how;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, fail_without_memory, NULL), 0);
    int rc = kin_nursery_join(&n, &how);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(rc, -EIO);
    EXPECT_EQ(how.severity, KIN_SEV_ERROR);
    return 0;
}

KIN_TEST(without_memory_the_words_are_lost_and_the_status_is_not, "NSM:8.1")
{
    EXPECT_EQ(run_reporting(1, lose_the_words, NULL, NULL), 0);
}
