/* SPDX-License-Identifier: MIT */
/*
 * Goal: cleanups run on every way out of a task, the newest first, in order with its nurseries.
 * Method: tasks whose cleanups write letters, ended in every way, on 1, 2 and 4 workers, on stacks
 * of their own and on borrowed ones; the text and the outcome are compared.
 */
#include "api/letters.h"

/* ---- refusals ---- */

KIN_TEST(outside_a_task_nothing_is_put_down, "N1002")
{
    EXPECT_EQ(kin_defer(write_it, LETTER("a")), KIN_NOTASK);
    EXPECT_EQ(kin_defer_try(write_and_succeed, LETTER("a")), KIN_NOTASK);
    EXPECT_EQ(kin_defer(NULL, NULL), -EINVAL);
    EXPECT_EQ(kin_defer_try(NULL, NULL), -EINVAL);
    EXPECT_PTR(kin_scope_mark(), NULL);
    kin_scope_release(NULL);
    EXPECT_STR(text, "");
}

static int defer_nothing(void *arg)
{
    (void)arg;
    kin_scope_release(NULL);
    kin_scope_release(kin_scope_mark()); /* with nothing put down ever */
    EXPECT_EQ(kin_defer(NULL, NULL), -EINVAL);
    EXPECT_EQ(kin_defer_try(NULL, NULL), -EINVAL);
    DEFER("a");
    kin_scope_release(NULL);
    kin_scope_release(kin_scope_mark());
    EXPECT_STR(text, "");
    return 0;
}

KIN_TEST(without_a_function_or_a_mark_nothing_happens, "")
{
    expect_way(defer_nothing, NULL, KIN_SEV_OK, 0, "a");
}

/* ---- every way out ---- */

static int return_after_defers(void *arg)
{
    defer_abc();
    return *(int *)arg;
}

static int fail_after_defers(void *arg)
{
    defer_abc();
    kin_fail(*(int *)arg, "after defers");
}

static int panic_after_defers(void *arg)
{
    (void)arg;
    defer_abc();
    kin_panic("after defers");
}

static int sleep_after_defers(void *arg)
{
    (void)arg;
    defer_abc();
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    return KIN_CANCELLED;
}

static int defer_in_between(void *arg)
{
    (void)arg;
    DEFER("a");
    EXPECT_EQ(kin_yield(), 0);
    DEFER("b");
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(50))), 0);
    DEFER("c");
    return 0;
}

KIN_TEST(cleanups_run_in_reverse_when_the_body_returns, "NCG-3")
{
    int value = 41, error = -ENOENT;

    expect_way(return_after_defers, &value, KIN_SEV_OK, 0, "cba");
    expect_way(return_after_defers, &error, KIN_SEV_ERROR, -ENOENT, "cba");
    expect_way(defer_in_between, NULL, KIN_SEV_OK, 0, "cba");
}

KIN_TEST(cleanups_run_in_reverse_after_fail_and_panic, "NCG-3")
{
    int status = -EACCES;

    expect_way(fail_after_defers, &status, KIN_SEV_ERROR, -EACCES, "cba");
    expect_way(panic_after_defers, NULL, KIN_SEV_PANIC, KIN_PANICKED, "cba");
}

KIN_TEST(cleanups_run_in_reverse_when_the_task_is_cancelled, "NCG-3 NCG-2")
{
    expect_way_cancelling(sleep_after_defers, NULL, KIN_SEV_CANCELLED, KIN_CANCELLED, "cba", true);
}

/* The value of a successful task is not touched. */
static int join_for_value(void *arg)
{
    int value = 41;
    struct kin_outcome out;
    struct kin_task_ref ref;
    KIN_NURSERY(n);

    (void)arg;
    clear_text();
    EXPECT_EQ(kin_spawn_with(&n, NULL, return_after_defers, &value, 0, &ref), 0);
    EXPECT_EQ(kin_task_join(&n, ref, &out, KIN_NEVER), 0);
    EXPECT_EQ(out.value, 41);
    EXPECT_STR(text, "cba"); /* over means that the cleanups are over */
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(the_end_of_a_task_is_seen_after_its_cleanups, "NCG-3 NSM-2")
{
    run_on_few(join_for_value, NULL);
}

static int first_task_defers(void *arg)
{
    defer_abc();
    return *(int *)arg;
}

KIN_TEST(the_first_task_has_cleanups_too, "NCG-3")
{
    int value = 3;

    clear_text();
    EXPECT_EQ(run_reporting(1, first_task_defers, &value, NULL), 3);
    EXPECT_STR(text, "cba");
}

static int never_begin(void *arg)
{
    struct one *one = arg;
    KIN_NURSERY(n);

    for (int i = 0; i < 10; i++)
        EXPECT_EQ(kin_spawn(&n, one->fn, one->arg), 0);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_task_that_never_began_has_no_cleanups, "NSM:4.2")
{
    struct one one = {.fn = sleep_after_defers, .start = ON_BORROWED};

    EXPECT_EQ(run_reporting(1, never_begin, &one, NULL), 0);
    EXPECT_STR(text, "");
}

/* ---- together with nurseries ---- */

enum end { BY_FAIL, BY_PANIC };

_Noreturn static void end_by(void *arg)
{
    if (*(enum end *)arg == BY_FAIL)
        kin_fail(-EIO, "with nurseries open");
    kin_panic("with nurseries open");
}

static int fail_between(void *arg)
{
    KIN_NURSERY(outer);
    spawn_writer(&outer, LETTER("O"));
    DEFER("a");
    KIN_NURSERY(inner);
    spawn_writer(&inner, LETTER("I"));
    DEFER("b");
    DEFER("c");
    end_by(arg);
}

/* The nursery in which c was deferred is over: c is newer than outer all the same. */
static int fail_after_a_join(void *arg)
{
    KIN_NURSERY(outer);
    spawn_writer(&outer, LETTER("O"));
    {
        KIN_NURSERY(inner);
        DEFER("c");
        EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    }
    end_by(arg);
}

/* And here the one that is open is newer than c. */
static int fail_in_the_next(void *arg)
{
    {
        KIN_NURSERY(first);
        DEFER("c");
        EXPECT_EQ(kin_nursery_join(&first, NULL), 0);
    }
    KIN_NURSERY(next);
    spawn_writer(&next, LETTER("N"));
    end_by(arg);
}

/* The same storage is opened again in between, so that nothing but time tells them apart. */
static int fail_in_the_same(void *arg)
{
    struct kin_nursery n;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    DEFER("a");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    spawn_writer(&n, LETTER("N"));
    DEFER("b");
    end_by(arg);
}

/* A cleanup that was put down before any nursery was open. */
static int fail_with_older(void *arg)
{
    defer_abc();
    KIN_NURSERY(n);
    spawn_writer(&n, LETTER("N"));
    end_by(arg);
}

KIN_TEST(cleanups_and_nurseries_go_in_one_order, "NCG-3 NSM-4 NSM:6.3")
{
    for (enum end end = BY_FAIL; end <= BY_PANIC; end++) {
        enum kin_severity severity = end == BY_FAIL ? KIN_SEV_ERROR : KIN_SEV_PANIC;
        int status = end == BY_FAIL ? -EIO : KIN_PANICKED;
        expect_way(fail_between, &end, severity, status, "cbIaO");
        expect_way(fail_after_a_join, &end, severity, status, "cO");
        expect_way(fail_in_the_next, &end, severity, status, "Nc");
        expect_way(fail_in_the_same, &end, severity, status, "bNa");
        expect_way(fail_with_older, &end, severity, status, "Ncba");
    }
}

static int inner_task(void *arg)
{
    (void)arg;
    DEFER("c"); /* inner cleanup */
    int one = 1;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, return_it, &one), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    put_letter('d'); /* inner done */
    return 0;
}

static int outer_task(void *arg)
{
    (void)arg;
    DEFER("o"); /* outer cleanup */
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, inner_task, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(inner_cleanups_come_before_outer_ones, "NSM:10.5 NCG-3")
{
    expect_way(outer_task, NULL, KIN_SEV_OK, 0, "dco");
}

/* A nursery opened by hand and ended by a cleanup. */
static struct kin_nursery by_hand;

static void join_by_hand(void *arg)
{
    put_letter(*(const char *)arg);
    kin_nursery_cancel(&by_hand, 0);
    kin_ignore(kin_nursery_join(&by_hand, NULL));
}

static int leave_to_a_cleanup(void *arg)
{
    bool is_older = *(bool *)arg;
    DEFER("a");
    if (is_older)
        EXPECT_EQ(kin_defer(join_by_hand, LETTER("j")), 0);
    EXPECT_EQ(kin_nursery_open(&by_hand, NULL), 0);
    spawn_writer(&by_hand, LETTER("N"));
    if (!is_older)
        EXPECT_EQ(kin_defer(join_by_hand, LETTER("j")), 0);
    return 0;
}

KIN_TEST(a_cleanup_may_end_a_nursery_opened_by_hand, "NSM-1 NCG-3")
{
    for (int is_older = 0; is_older < 2; is_older++) {
        bool arg = is_older;
        expect_way(leave_to_a_cleanup, &arg, KIN_SEV_OK, 0, "jNa");
    }
}

static int leave_open(void *arg)
{
    static struct kin_nursery n;
    (void)arg;
    DEFER("a");
    return kin_nursery_open(&n, NULL);
}

KIN_TEST(a_nursery_that_no_cleanup_ends_aborts, "NSM-1")
{
    EXPECT_ABORT("a nursery was left open")
    {
        kin_ignore(kin_run(NULL, leave_open, NULL));
    }
}

/* ---- cleanups that defer ---- */

static void write_and_defer(void *arg)
{
    put_letter(*(const char *)arg);
    DEFER("y");
    DEFER("z");
}

static void write_and_defer_deep(void *arg)
{
    const char *letter = arg;

    put_letter(*letter);
    if (letter[1])
        EXPECT_EQ(kin_defer(write_and_defer_deep, (void *)(uintptr_t)&letter[1]), 0);
}

static int defer_deferring(void *arg)
{
    int status = *(int *)arg;
    DEFER("a");
    EXPECT_EQ(kin_defer(write_and_defer, LETTER("x")), 0);
    EXPECT_EQ(kin_defer(write_and_defer_deep, LETTER("1234567890")), 0);
    DEFER("c");
    if (status < 0)
        kin_fail(status, "with deferring cleanups");
    return status;
}

KIN_TEST(a_cleanup_may_defer_again, "NCG-3")
{
    int ok = 0, error = -EIO;

    expect_way(defer_deferring, &ok, KIN_SEV_OK, 0, "c1234567890xzya");
    expect_way(defer_deferring, &error, KIN_SEV_ERROR, -EIO, "c1234567890xzya");
}

/* ---- cleanups that use the runtime ---- */

static int defer_users(void *arg)
{
    int status = *(int *)arg;
    DEFER("a");
    EXPECT_EQ(kin_defer(use_the_runtime, LETTER("b")), 0);
    EXPECT_EQ(kin_defer(use_the_runtime, LETTER("c")), 0);
    if (status < 0)
        kin_fail(status, "with cleanups that park");
    return status;
}

KIN_TEST(a_cleanup_may_park_spawn_and_join, "NCG-3")
{
    int ok = 0, error = -EIO;

    expect_way(defer_users, &ok, KIN_SEV_OK, 0, "cba");
    expect_way(defer_users, &error, KIN_SEV_ERROR, -EIO, "cba");
}

/* Cancellation still holds in a cleanup, and a mask holds it back. */
static void sleep_in_a_cleanup(void *arg)
{
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin_yield(), KIN_CANCELLED);
    kin_mask();
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(50))), 0);
    kin_unmask();
    put_letter(*(const char *)arg);
}

static int be_cancelled_with_a_sleeper(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_defer(sleep_in_a_cleanup, LETTER("b")), 0);
    EXPECT_EQ(kin_defer(sleep_in_a_cleanup, LETTER("c")), 0);
    return kin_sleep(KIN_NEVER);
}

KIN_TEST(cancellation_holds_in_a_cleanup_and_masks_do_too, "NCG-3")
{
    expect_way_cancelling(be_cancelled_with_a_sleeper, NULL, KIN_SEV_CANCELLED, KIN_CANCELLED, "cb",
                          true);
}

/* Masks and deadlines of code that is not returned to are over. */
static void expect_neither(void *arg)
{
    EXPECT_EQ(kin_deadline_push(KIN_NEVER), KIN_NEVER);
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(50))), 0);
    kin_mask();
    kin_ignore((int)(kin_deadline_push(1) != KIN_NEVER)); /* and leaves both in force */
    put_letter(*(const char *)arg);
    if (*(const char *)arg == 'b')
        kin_fail(-EIO, "with a mask and a deadline");
}

static int fail_with_mask_and_deadline(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_defer(expect_neither, LETTER("a")), 0);
    EXPECT_EQ(kin_defer(expect_neither, LETTER("b")), 0);
    EXPECT_EQ(kin_defer(expect_neither, LETTER("c")), 0);
    KIN_WITHIN(0);
    kin_mask();
    kin_fail(-EACCES, "with a mask and a deadline");
}

static void expect_no_mask(void *arg)
{
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    kin_mask();
    put_letter(*(const char *)arg);
}

static int fail_masked(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_defer(expect_no_mask, LETTER("a")), 0);
    EXPECT_EQ(kin_defer(expect_no_mask, LETTER("b")), 0);
    kin_mask();
    while (!kin_cancelled())
        EXPECT_EQ(kin_yield(), 0);
    kin_fail(-EACCES, "with a mask, asked to stop");
}

KIN_TEST(masks_and_deadlines_do_not_outlast_the_body, "NCG-3")
{
    expect_way(fail_with_mask_and_deadline, NULL, KIN_SEV_ERROR, -EACCES, "cba");
    expect_way_cancelling(fail_masked, NULL, KIN_SEV_ERROR, -EACCES, "ba", true);
}

/* ---- marks ---- */

static int release_in_steps(void *arg)
{
    (void)arg;
    DEFER("a");
    void *first = kin_scope_mark();
    DEFER("b");
    DEFER("c");
    void *second = kin_scope_mark();
    EXPECT(first != second && first && second);
    DEFER("d");
    kin_scope_release(second);
    EXPECT_STR(text, "d");
    kin_scope_release(second); /* nothing is above it */
    EXPECT_STR(text, "d");
    DEFER("e");
    DEFER("f");
    kin_scope_release(first);
    EXPECT_STR(text, "dfecb");
    kin_scope_release(second); /* the task has come below it */
    DEFER("g");
    kin_scope_release(second);
    EXPECT_STR(text, "dfecb");
    return 0;
}

KIN_TEST(a_release_runs_what_is_above_the_mark, "NCG-3")
{
    expect_way(release_in_steps, NULL, KIN_SEV_OK, 0, "dfecbga");
}

static void *outer_mark;

static void release_outer_mark(void *arg)
{
    put_letter(*(const char *)arg);
    DEFER("y");
    kin_scope_release(outer_mark);
    put_letter('!');
    DEFER("z");
}

static int release_from_a_cleanup(void *arg)
{
    int status = *(int *)arg;
    outer_mark = kin_scope_mark();
    DEFER("a");
    EXPECT_EQ(kin_defer(release_outer_mark, LETTER("b")), 0);
    DEFER("c");
    if (status < 0)
        kin_fail(status, "with marks");
    return status;
}

KIN_TEST(a_cleanup_releases_no_more_than_its_own, "NCG-3")
{
    int ok = 0, failed = -EPERM;

    expect_way(release_from_a_cleanup, &ok, KIN_SEV_OK, 0, "cby!za");
    expect_way(release_from_a_cleanup, &failed, KIN_SEV_ERROR, -EPERM, "cby!za");
}

static int release_around_a_nursery(void *arg)
{
    (void)arg;
    KIN_NURSERY(outer);
    spawn_writer(&outer, LETTER("O"));
    void *mark = kin_scope_mark();
    DEFER("a");
    {
        KIN_NURSERY(inner);
        DEFER("b");
        kin_scope_release(mark); /* a is older than inner */
        EXPECT_STR(text, "never");
    }
    return 0;
}

static int release_under_nurseries(void *arg)
{
    (void)arg;
    KIN_NURSERY(outer);
    void *mark = kin_scope_mark();
    KIN_NURSERY(inner);
    DEFER("a");
    kin_scope_release(mark); /* newer than both */
    EXPECT_STR(text, "a");
    EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    DEFER("b");
    kin_scope_release(mark);
    EXPECT_EQ(kin_nursery_join(&outer, NULL), 0);
    return 0;
}

KIN_TEST(a_release_past_an_open_nursery_aborts, "NCG-3 NSM-4")
{
    expect_way(release_under_nurseries, NULL, KIN_SEV_OK, 0, "ab");
    EXPECT_ABORT("kin_scope_release: nurseries opened since are joined before [NCG-3], task")
    {
        kin_ignore(kin_run(NULL, release_around_a_nursery, NULL));
    }
}

static int release_failing(void *arg)
{
    void *mark = kin_scope_mark();
    int how = *(int *)arg;
    DEFER("a");
    if (how == 0)
        EXPECT_EQ(kin_defer_try(write_and_fail, LETTER("b")), 0);
    else if (how == 1)
        EXPECT_EQ(kin_defer(write_then_kin_fail, LETTER("b")), 0);
    else
        EXPECT_EQ(kin_defer(write_then_panic, LETTER("b")), 0);
    DEFER("c");
    kin_scope_release(mark);
    put_letter('!');
    return 0;
}

KIN_TEST(a_failure_in_a_release_is_kept_and_kin_fail_there_ends_the_task, "N3002 NCG-3")
{
    int how[] = {0, 1, 2};

    expect_way(release_failing, &how[0], KIN_SEV_ERROR, KIN_CLEANUP, "cba!");
    expect_way(release_failing, &how[1], KIN_SEV_ERROR, -EPIPE, "cba");
    expect_way(release_failing, &how[2], KIN_SEV_PANIC, KIN_PANICKED, "cba");
}

static int defer_very_many(void *arg)
{
    enum { STEPS = 600, EACH = 50 };
    static void *marks[STEPS];
    (void)arg;
    for (int i = 0; i < STEPS; i++) {
        marks[i] = kin_scope_mark();
        for (int k = 0; k < EACH; k++)
            DEFER("q");
    }
    for (int i = STEPS - 1; i >= 0; i--) {
        kin_scope_release(marks[i]);
        EXPECT_EQ(strlen(text), EACH);
        clear_text();
    }
    return 0;
}

KIN_TEST(there_is_no_limit_but_memory, "NCG-3")
{
    expect_way(defer_very_many, NULL, KIN_SEV_OK, 0, "");
}

/* ---- KIN_USING ---- */

static int use_in_scopes(void *arg)
{
    (void)arg;
    KIN_USING(write_it, LETTER("a"));
    for (int i = 0; i < 3; i++) {
        KIN_USING(write_it, LETTER("b"));
        KIN_USING(write_it, LETTER("c"));
        if (i == 0)
            continue;
        DEFER("d");
        if (i == 2)
            break;
    }
    EXPECT_STR(text, "cbdcbdcb");
    KIN_USING(write_it, LETTER("e"));
    return 5;
}

static int fail_inside_using(void *arg)
{
    enum end end = BY_FAIL;
    (void)arg;
    KIN_USING(write_it, LETTER("a"));
    {
        KIN_USING(write_it, LETTER("b"));
        KIN_NURSERY(n);
        spawn_writer(&n, LETTER("N"));
        KIN_USING(write_it, LETTER("c"));
        end_by(&end);
    }
}

static int leave_using_over_a_nursery(void *arg)
{
    (void)arg;
    KIN_USING(write_it, LETTER("a"));
    KIN_NURSERY(n);
    spawn_writer(&n, LETTER("N"));
    KIN_USING(write_it, LETTER("b"));
    return 0; /* leaves b, then n, then a */
}

KIN_TEST(using_undoes_when_the_scope_is_left, "NCG-3")
{
    expect_way(use_in_scopes, NULL, KIN_SEV_OK, 0, "cbdcbdcbea");
    expect_way(fail_inside_using, NULL, KIN_SEV_ERROR, -EIO, "cNba");
    expect_way(leave_using_over_a_nursery, NULL, KIN_SEV_OK, 0, "bNa");
}

/* A release with an older mark takes it along; its place may be another's then. */
static int release_inside_using(void *arg)
{
    (void)arg;
    void *mark = kin_scope_mark();
    {
        KIN_USING(write_it, LETTER("a"));
        kin_scope_release(mark);
        put_letter('-');
    }
    {
        KIN_USING(write_it, LETTER("b"));
        kin_scope_release(mark);
        DEFER("c"); /* above the mark, so it goes with the scope */
        put_letter('-');
    }
    return 0;
}

/* Whoever leaves a scope is not run again, whatever becomes of it. */
static int fail_while_leaving(void *arg)
{
    (void)arg;
    DEFER("a");
    KIN_USING(write_it, LETTER("b"));
    {
        KIN_USING(write_then_kin_fail, LETTER("c"));
        put_letter('-');
    }
    EXPECT(false); /* not reached */
    return 0;
}

static void use_in_a_cleanup(void *arg)
{
    KIN_USING(write_it, arg);
    {
        KIN_USING(write_it, LETTER("y"));
        DEFER("x");
    }
    DEFER("w");
    put_letter('-');
}

static int use_at_the_end(void *arg)
{
    (void)arg;
    DEFER("a");
    EXPECT_EQ(kin_defer(use_in_a_cleanup, LETTER("z")), 0);
    return 0;
}

/* More of them than a task has places at first: the table moves while they are in it. */
static void use_deep(int depth)
{
    KIN_USING(write_it, LETTER("d"));
    if (depth > 1)
        use_deep(depth - 1);
}

static int use_many(void *arg)
{
    (void)arg;
    DEFER("a");
    use_deep(20);
    KIN_USING(NULL, LETTER("x")); /* nothing to do is nothing done */
    return 0;
}

/* What comes and goes inside leaves it where it was. */
static int use_around_others(void *arg)
{
    (void)arg;
    KIN_USING(write_it, LETTER("a"));
    {
        KIN_NURSERY(n);
        spawn_writer(&n, LETTER("N"));
    }
    {
        KIN_USING(write_it, LETTER("b"));
        void *mark = kin_scope_mark();
        DEFER("c");
        kin_scope_release(mark);
        put_letter('-');
    }
    return 0;
}

KIN_TEST(using_runs_once_whatever_happens_inside, "NCG-3")
{
    expect_way(use_around_others, NULL, KIN_SEV_OK, 0, "Nc-ba");
    expect_way(release_inside_using, NULL, KIN_SEV_OK, 0, "a-b-c");
    expect_way(fail_while_leaving, NULL, KIN_SEV_ERROR, -EPIPE, "-cba");
    expect_way(use_at_the_end, NULL, KIN_SEV_OK, 0, "xy-wza");
    expect_way(use_many, NULL, KIN_SEV_OK, 0, "dddddddddddddddddddda");
}

static int leave_using_with_a_nursery_open(void *arg)
{
    struct kin_nursery n;
    (void)arg;
    {
        KIN_USING(write_it, LETTER("a"));
        EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(a_nursery_that_outlives_its_using_is_a_misuse, "NCG-3")
{
    EXPECT_ABORT("kin_scope_release: nurseries opened since are joined before [NCG-3], task")
    {
        kin_ignore(run_reporting(1, leave_using_with_a_nursery_open, NULL, NULL));
    }
}

static void use_outside(void)
{
    KIN_USING(write_it, LETTER("a"));
    KIN_USING(write_it, LETTER("b"));
    put_letter('!');
}

KIN_TEST(using_works_outside_a_task, "")
{
    clear_text();
    use_outside();
    EXPECT_STR(text, "!ba");
}
