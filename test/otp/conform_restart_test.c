/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the own tests of other actor systems ask of restarts, asked of kin's supervisors: whom
 *       they start again, in which order, how often, and what comes when it is too often. Cases
 *       K091 to K137, but for those of conform_sup_test.c and conform_template_test.c. Each test
 *       names its case.
 * Method: black box, one body per case, on 1, 2 and 4 workers. Children write into a diary.
 */
#include "otp/crew.h"

/* ---- kinds of children ---- */

/* K091: a permanent child comes back after a good end, an error and a crash. */
static int in_k091_a_permanent_child_comes_back(void *arg)
{
    struct crew crew;
    (void)arg;
    SUP_OPTIONS(options);
    HOUSE(n);
    make_crew(&crew, KIN_PERMANENT);
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 1);
    struct kin_addr old = addr_of(sup, "a");
    EXPECT_EQ(ask(old, do_stop_self, 0, NULL), KIN_STOPPING);
    struct kin_addr now = await_new(sup, "a", old);
    EXPECT_EQ(ask(now, do_fail, -EIO, NULL), -EIO);
    now = await_new(sup, "a", now);
    now = crash_and_await(sup, "a", -EPIPE);
    EXPECT_EQ(child_of(sup, "a").restarts, 3);
    EXPECT_EQ(ask(now, do_add, 1, NULL), 1); /* with a fresh state */
    EXPECT_DIARY(&crew.diary, "+a -a +a -a +a -a +a");
    close_desk(sup);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k091_a_permanent_child_comes_back, "K091 SUP-RESTART-CHILD")
{
    run_on_few(in_k091_a_permanent_child_comes_back, NULL);
}

/* K092: a transient child that ends well stays away, and in the list. */
static int in_k092_a_transient_child_that_ends_well_stays_away(void *arg)
{
    struct crew crew;
    (void)arg;
    SUP_OPTIONS(options);
    HOUSE(n);
    make_crew(&crew, KIN_TRANSIENT);
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 2);
    EXPECT_EQ(ask(addr_of(sup, "a"), do_stop_self, 0, NULL), KIN_STOPPING);
    EXPECT_EQ(await_stopped(sup, "a"), 0);
    EXPECT_COUNTS(sup, 2, 1, 0, 1);
    EXPECT_DIARY(&crew.diary, "+a +b -a");
    struct kin_addr out;
    EXPECT_EQ(kin_supervisor_restart_child(sup, "a", &out, KIN_NEVER), 0);
    EXPECT_EQ(ask(out, do_add, 1, NULL), 1);
    close_desk(sup);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k092_a_transient_child_that_ends_well_stays_away, "K092 SUP-STOP-CHILD")
{
    run_on_few(in_k092_a_transient_child_that_ends_well_stays_away, NULL);
}

/* K093: a transient child that fails comes back. */
static int in_k093_a_transient_child_that_fails_comes_back(void *arg)
{
    struct crew crew;
    (void)arg;
    SUP_OPTIONS(options);
    HOUSE(n);
    make_crew(&crew, KIN_TRANSIENT);
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 1);
    for (int i = 0; i < 5; i++)
        crash_and_await(sup, "a", -EIO);
    EXPECT_EQ(child_of(sup, "a").restarts, 5);
    EXPECT_DIARY(&crew.diary, "+a -a +a -a +a -a +a -a +a -a +a");
    close_desk(sup);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k093_a_transient_child_that_fails_comes_back, "K093 SUP-CHILD-FAILED")
{
    run_on_few(in_k093_a_transient_child_that_fails_comes_back, NULL);
}

/* K094: a temporary child never comes back, and its spec is gone. */
static int in_k094_a_temporary_child_never_comes_back(void *arg)
{
    struct crew crew;
    (void)arg;
    SUP_OPTIONS(options);
    HOUSE(n);
    make_crew(&crew, KIN_TEMPORARY);
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 4);
    EXPECT_EQ(ask(addr_of(sup, "a"), do_stop_self, 0, NULL), KIN_STOPPING);
    crash_child(addr_of(sup, "b"), -EIO);
    EXPECT_EQ(ask(addr_of(sup, "c"), do_panic, 0, NULL), KIN_PANICKED);
    EXPECT_EQ(kin_supervisor_terminate_child(sup, "d", KIN_NEVER), 0);
    EXPECT_PTR(child_of(sup, "d").name, NULL);
    await_gone(sup, "a");
    await_gone(sup, "b");
    await_gone(sup, "c");
    EXPECT_COUNTS(sup, 0, 0, 0, 0);
    struct kin_addr out;
    EXPECT_EQ(kin_supervisor_restart_child(sup, "a", &out, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_start_child(sup, &crew.spec[0], &out, KIN_NEVER), 0);
    close_desk(sup);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k094_a_temporary_child_never_comes_back, "K094")
{
    run_on_few(in_k094_a_temporary_child_never_comes_back, NULL);
}

/* K095: a temporary child that a plan stops is not started again. */
static int in_k095_a_plan_does_not_bring_back_temporary_children(void *arg)
{
    static const enum kin_strategy strategies[] = {KIN_ONE_FOR_ALL, KIN_REST_FOR_ONE};
    HOUSE(n);
    (void)arg;
    for (int i = 0; i < 2; i++) {
        struct crew crew;
        SUP_OPTIONS(options);
        options.strategy = strategies[i];
        make_crew(&crew, KIN_PERMANENT);
        crew.spec[1].restart = KIN_TEMPORARY;
        struct kin_addr sup = start_sup(&n, &options, crew.spec, 3);
        struct kin_addr c = addr_of(sup, "c");
        crash_and_await(sup, "a", -EIO);
        await_new(sup, "c", c);
        EXPECT_DIARY(&crew.diary, "+a +b +c -a -c -b +a +c");
        await_gone(sup, "b");
        EXPECT_COUNTS(sup, 2, 2, 0, 0);
        close_desk(sup);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k095_a_plan_does_not_bring_back_temporary_children, "K095")
{
    run_on_few(in_k095_a_plan_does_not_bring_back_temporary_children, NULL);
}

/* ---- how often ---- */

/* K097: what is older than the window does not count. */
static int in_k097_old_restarts_do_not_count(void *arg)
{
    struct crew crew;
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    options.max_restarts = 1;
    options.window = KIN_MS(2);
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 1);
    for (int i = 0; i < 4; i++) {
        crash_and_await(sup, "a", -EIO);
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(3))), 0);
    }
    EXPECT_EQ(kin_server_state(sup), KIN_SERVER_RUNNING);
    EXPECT_EQ(child_of(sup, "a").restarts, 4);
    close_desk(sup);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k097_old_restarts_do_not_count, "K097")
{
    run_on_few(in_k097_old_restarts_do_not_count, NULL);
}

/* K098: one for one: the others are left alone; one failure too many ends the supervisor. */
static int in_k098_one_for_one_leaves_the_others_alone(void *arg)
{
    struct crew crew;
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    options.max_restarts = 2;
    options.window = KIN_SEC(1000);
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 2);
    struct kin_monitor_ref ref = watch(sup);
    struct kin_addr b = addr_of(sup, "b");
    EXPECT_EQ(ask(b, do_add, 7, NULL), 7);
    crash_and_await(sup, "a", -EIO);
    struct kin_addr a = crash_and_await(sup, "a", -EIO);
    EXPECT_EQ(ask(b, do_add, 1, NULL), 8);
    EXPECT_DIARY(&crew.diary, "+a +b -a +a -a +a");
    crash_child(a, -EIO);
    EXPECT_END(ref, KIN_DOWN_ERROR, KIN_EXHAUSTED);
    EXPECT_DIARY(&crew.diary, "+a +b -a +a -a +a -a -b");
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_EXHAUSTED);
    return 0;
}

KIN_TEST(k098_one_for_one_leaves_the_others_alone, "K098 SUP-BUDGET-EXCEEDED SUP-PLAN-RESTART")
{
    run_on_few(in_k098_one_for_one_leaves_the_others_alone, NULL);
}

/* K098: without a word about it, three restarts in five seconds are enough. */
static int in_k098_three_restarts_are_the_default(void *arg)
{
    struct crew crew;
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    options.window = KIN_SEC(1000);
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 1);
    struct kin_monitor_ref ref = watch(sup);
    struct kin_addr a = addr_of(sup, "a");
    for (int i = 0; i < 3; i++)
        a = crash_and_await(sup, "a", -EIO);
    crash_child(a, -EIO);
    EXPECT_END(ref, KIN_DOWN_ERROR, KIN_EXHAUSTED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_EXHAUSTED);
    return 0;
}

KIN_TEST(k098_three_restarts_are_the_default, "K098")
{
    run_on_few(in_k098_three_restarts_are_the_default, NULL);
}

/* K132: no restarts at all: the first failure ends the supervisor, the others stop in reverse. */
static int in_k132_no_restarts_means_the_first_failure(void *arg)
{
    struct crew crew;
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    options.max_restarts = KIN_NO_RESTARTS;
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 4);
    struct kin_monitor_ref ref = watch(sup);
    crash_child(addr_of(sup, "b"), -EIO);
    EXPECT_END(ref, KIN_DOWN_ERROR, KIN_EXHAUSTED);
    EXPECT_DIARY(&crew.diary, "+a +b +c +d -b -d -c -a");
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_EXHAUSTED);
    return 0;
}

KIN_TEST(k132_no_restarts_means_the_first_failure, "K132")
{
    run_on_few(in_k132_no_restarts_means_the_first_failure, NULL);
}

/* ---- plans ---- */

/* K100: one for all: everybody is replaced, stopped from the end, started from the front. */
static int in_k100_one_for_all_replaces_everybody(void *arg)
{
    struct crew crew;
    (void)arg;
    SUP_OPTIONS(options);
    HOUSE(n);
    make_crew(&crew, KIN_PERMANENT);
    options.strategy = KIN_ONE_FOR_ALL;
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 3);
    struct kin_addr a = addr_of(sup, "a"), c = addr_of(sup, "c");
    crash_and_await(sup, "b", -EIO);
    await_new(sup, "c", c);
    EXPECT(!kin_addr_same(addr_of(sup, "a"), a));
    EXPECT_DIARY(&crew.diary, "+a +b +c -b -c -a +a +b +c");
    close_desk(sup);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k100_one_for_all_replaces_everybody, "K100 SUP-PLAN-RESTART SUP-CANCEL-CHILD")
{
    run_on_few(in_k100_one_for_all_replaces_everybody, NULL);
}

/* K101: one for all, too often. A plan counts once, however many it starts again. */
static int in_k101_one_for_all_too_often(void *arg)
{
    struct crew crew;
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    options.strategy = KIN_ONE_FOR_ALL;
    options.max_restarts = 2;
    options.window = KIN_SEC(1000);
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 3);
    struct kin_monitor_ref ref = watch(sup);
    for (int i = 0; i < 2; i++) {
        struct kin_addr c = addr_of(sup, "c");
        crash_and_await(sup, "a", -EIO);
        await_new(sup, "c", c);
    }
    clear_diary(&crew.diary);
    crash_child(addr_of(sup, "a"), -EIO);
    EXPECT_END(ref, KIN_DOWN_ERROR, KIN_EXHAUSTED);
    EXPECT_DIARY(&crew.diary, "-a -c -b");
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_EXHAUSTED);
    return 0;
}

KIN_TEST(k101_one_for_all_too_often, "K101 D16 SUP-BUDGET-EXCEEDED")
{
    run_on_few(in_k101_one_for_all_too_often, NULL);
}

/* K103: rest for one: those behind are replaced, those in front are left alone. */
static int in_k103_rest_for_one_replaces_those_behind(void *arg)
{
    struct crew crew;
    (void)arg;
    SUP_OPTIONS(options);
    HOUSE(n);
    make_crew(&crew, KIN_PERMANENT);
    options.strategy = KIN_REST_FOR_ONE;
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 4);
    struct kin_addr a = addr_of(sup, "a"), d = addr_of(sup, "d");
    crash_and_await(sup, "b", -EIO);
    await_new(sup, "d", d);
    EXPECT(kin_addr_same(addr_of(sup, "a"), a));
    EXPECT_DIARY(&crew.diary, "+a +b +c +d -b -d -c +b +c +d");
    crash_and_await(sup, "d", -EIO);
    close_desk(sup);
    EXPECT_DIARY(&crew.diary, "+a +b +c +d -b -d -c +b +c +d -d +d -d -c -b -a");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k103_rest_for_one_replaces_those_behind, "K103 K120 SUP-PLAN-RESTART")
{
    run_on_few(in_k103_rest_for_one_replaces_those_behind, NULL);
}

/* K120: the orders follow dependencies, not the order of the specs. */
static int in_k120_orders_follow_dependencies(void *arg)
{
    struct crew crew;
    static const char *const on_c[] = {"c", NULL}, *const on_a_d[] = {"a", "d", NULL};
    (void)arg;
    SUP_OPTIONS(options);
    HOUSE(n);
    make_crew(&crew, KIN_PERMANENT);
    crew.spec[0].depends_on = on_c;
    crew.spec[1].depends_on = on_a_d;
    options.strategy = KIN_REST_FOR_ONE;
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 4);
    EXPECT(has_word(&crew.diary, "+b"));
    char first[8192], want[512];
    text_of(&crew.diary, first);
    EXPECT(strstr(first, "+c") < strstr(first, "+a"));
    EXPECT(strstr(first, "+a") < strstr(first, "+b"));
    EXPECT(strstr(first, "+d") < strstr(first, "+b"));
    struct kin_addr b = addr_of(sup, "b");
    struct kin_child_info all[4];
    EXPECT_EQ(kin_supervisor_which_children(sup, all, 4, KIN_NEVER), 4);
    clear_diary(&crew.diary);
    crash_and_await(sup, all[1].name, -EIO);
    await_new(sup, "b", b);
    snprintf(want, sizeof want, "-%s -%s -%s +%s +%s +%s", all[1].name, all[3].name, all[2].name,
             all[1].name, all[2].name, all[3].name);
    EXPECT_DIARY(&crew.diary, want);
    clear_diary(&crew.diary);
    snprintf(want, sizeof want, "-%s -%s -%s -%s", all[3].name, all[2].name, all[1].name,
             all[0].name);
    close_desk(sup);
    EXPECT_DIARY(&crew.diary, want);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k120_orders_follow_dependencies, "K120 D9")
{
    run_on_few(in_k120_orders_follow_dependencies, NULL);
}

/* ---- trees ---- */

struct branch {
    struct crew *crew; /* its children are c and d */
    enum kin_escalation escalation;
};

static int start_branch(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    const struct branch *branch = arg;
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    options.max_restarts = KIN_NO_RESTARTS;
    options.escalation = branch->escalation;
    options.strategy = KIN_ONE_FOR_ALL;
    jot(&branch->crew->diary, "+branch");
    return kin_supervisor_start(n, &options, &branch->crew->spec[2], 2, out);
}

/* K112: a failure below rebuilds the static part of a tree, not what was added by hand. */
static int in_k112_a_tree_is_rebuilt_without_what_was_added_by_hand(void *arg)
{
    struct crew crew;
    struct kin_addr out;
    (void)arg;
    SUP_OPTIONS(options);
    HOUSE(n);
    make_crew(&crew, KIN_PERMANENT);
    struct branch branch = {&crew, KIN_ESCALATION_ESCALATE};
    crew.spec[1] = crew.spec[0];
    crew.spec[1].name = "branch";
    crew.spec[1].start = start_branch;
    crew.spec[1].arg = &branch;
    crew.spec[1].arg_size = sizeof branch;
    options.strategy = KIN_ONE_FOR_ALL;
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 2);
    struct kin_addr under = addr_of(sup, "branch");
    EXPECT_EQ(kin_supervisor_start_child(under, &crew.spec[4], &out, KIN_NEVER), 0);
    EXPECT_DIARY(&crew.diary, "+a +branch +c +d +e");
    clear_diary(&crew.diary);
    struct kin_addr a = addr_of(sup, "a");
    crash_child(addr_of(under, "c"), -EIO);
    await_new(sup, "branch", under);
    EXPECT(!kin_addr_same(addr_of(sup, "a"), a));
    EXPECT_DIARY(&crew.diary, "-c -e -d -a +a +branch +c +d");
    EXPECT_EQ(kin_server_state(out), KIN_SERVER_STOPPED);
    close_desk(sup);
    EXPECT_DIARY(&crew.diary, "-c -e -d -a +a +branch +c +d -d -c -a");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k112_a_tree_is_rebuilt_without_what_was_added_by_hand, "K112 SUP-ESCALATE")
{
    run_on_few(in_k112_a_tree_is_rebuilt_without_what_was_added_by_hand, NULL);
}

/* A sub-supervisor that had enough: with STOP it comes back only if it is permanent, with ESCALATE
 * as anybody who failed. */
static int in_an_exhausted_branch_comes_back_by_its_escalation(void *arg)
{
    HOUSE(n);
    (void)arg;
    for (int shape = 0; shape < 4; shape++) {
        struct crew crew;
        SUP_OPTIONS(options);
        make_crew(&crew, KIN_PERMANENT);
        struct branch branch = {
            &crew, shape & 1 ? KIN_ESCALATION_ESCALATE : KIN_ESCALATION_STOP};
        struct kin_child_spec spec = crew.spec[0];
        spec.name = "branch";
        spec.start = start_branch;
        spec.arg = &branch;
        spec.arg_size = sizeof branch;
        spec.restart = shape & 2 ? KIN_PERMANENT : KIN_TRANSIENT;
        struct kin_addr sup = start_sup(&n, &options, &spec, 1);
        struct kin_addr under = addr_of(sup, "branch");
        struct kin_monitor_ref ref = watch(under);
        crash_child(addr_of(under, "d"), -EIO);
        EXPECT_END(ref, KIN_DOWN_ERROR, KIN_EXHAUSTED);
        if (shape == 0)
            EXPECT_EQ(await_stopped(sup, "branch"), KIN_EXHAUSTED);
        else
            await_new(sup, "branch", under);
        close_desk(sup);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(an_exhausted_branch_comes_back_by_its_escalation, "D8 SUP-ESCALATE")
{
    run_on_few(in_an_exhausted_branch_comes_back_by_its_escalation, NULL);
}

/* Exhaustion with RESET: the supervisor lives, and its child comes back. */
static int in_an_exhausted_supervisor_may_forget(void *arg)
{
    struct crew crew;
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    options.max_restarts = 1;
    options.window = KIN_SEC(1000);
    options.escalation = KIN_ESCALATION_RESET;
    options.reset_backoff = (struct kin_backoff){1, 1, 100, 0};
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 1);
    for (int i = 0; i < 5; i++)
        crash_and_await(sup, "a", -EIO);
    EXPECT_EQ(kin_server_state(sup), KIN_SERVER_RUNNING);
    close_desk(sup);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(an_exhausted_supervisor_may_forget, "D8 SUP-BUDGET-EXCEEDED")
{
    run_on_few(in_an_exhausted_supervisor_may_forget, NULL);
}

/* ---- significant children ---- */

/* K123: children that are not significant end nothing but themselves. */
static int in_k123_children_that_are_not_significant_end_alone(void *arg)
{
    HOUSE(n);
    (void)arg;
    for (int mode = 0; mode < 3; mode++) {
        struct crew crew;
        SUP_OPTIONS(options);
        options.auto_shutdown = (enum kin_auto_shutdown)mode;
        make_crew(&crew, KIN_TRANSIENT);
        crew.spec[1].restart = KIN_TEMPORARY;
        struct kin_addr sup = start_sup(&n, &options, crew.spec, 2);
        EXPECT_EQ(ask(addr_of(sup, "a"), do_stop_self, 0, NULL), KIN_STOPPING);
        EXPECT_EQ(ask(addr_of(sup, "b"), do_stop_self, 0, NULL), KIN_STOPPING);
        await_stopped(sup, "a");
        await_gone(sup, "b");
        EXPECT_EQ(kin_server_state(sup), KIN_SERVER_RUNNING);
        close_desk(sup);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k123_children_that_are_not_significant_end_alone, "K123")
{
    run_on_few(in_k123_children_that_are_not_significant_end_alone, NULL);
}

/* K124: the end of a significant temporary child ends the supervisor, whichever way; unless it was
 * asked for. */
static int in_k124_the_end_of_a_significant_temporary_child(void *arg)
{
    desk_fn *const ways[] = {do_stop_self, do_return_only, do_panic};
    const int status[] = {0, -EIO, 0}, answers[] = {KIN_STOPPING, -EIO, KIN_PANICKED};
    HOUSE(n);
    (void)arg;
    for (int way = 0; way < 4; way++) {
        struct crew crew;
        SUP_OPTIONS(options);
        options.auto_shutdown = KIN_AUTO_SHUTDOWN_ANY;
        make_crew(&crew, KIN_TEMPORARY);
        crew.spec[1].significant = crew.spec[2].significant = true;
        struct kin_addr sup = start_sup(&n, &options, crew.spec, 3);
        struct kin_monitor_ref ref = watch(sup);
        if (way == 3) {
            EXPECT_EQ(kin_supervisor_terminate_child(sup, "b", KIN_NEVER), 0);
            EXPECT_COUNTS(sup, 2, 2, 0, 0);
            close_desk(sup);
        } else {
            EXPECT_EQ(ask(addr_of(sup, "b"), ways[way], status[way], NULL), answers[way]);
        }
        EXPECT_END(ref, KIN_DOWN_NORMAL, 0);
        EXPECT_DIARY(&crew.diary, way == 2 ? "+a +b +c -c -a" : "+a +b +c -b -c -a");
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k124_the_end_of_a_significant_temporary_child, "K124")
{
    run_on_few(in_k124_the_end_of_a_significant_temporary_child, NULL);
}

/* K125: a significant transient child: a good end shuts down, an error restarts; with ALL only the
 * last one shuts down. */
static int in_k125_the_end_of_a_significant_transient_child(void *arg)
{
    HOUSE(n);
    (void)arg;
    for (int mode = 1; mode < 3; mode++) {
        struct crew crew;
        SUP_OPTIONS(options);
        options.auto_shutdown = (enum kin_auto_shutdown)mode;
        make_crew(&crew, KIN_TRANSIENT);
        crew.spec[0].significant = crew.spec[1].significant = true;
        struct kin_addr sup = start_sup(&n, &options, crew.spec, 3);
        struct kin_monitor_ref ref = watch(sup);
        crash_and_await(sup, "a", -EIO);
        crash_and_await(sup, "b", -EIO);
        clear_diary(&crew.diary);
        EXPECT_EQ(ask(addr_of(sup, "a"), do_stop_self, 0, NULL), KIN_STOPPING);
        if (mode == KIN_AUTO_SHUTDOWN_ALL) {
            await_stopped(sup, "a");
            EXPECT_EQ(kin_server_state(sup), KIN_SERVER_RUNNING);
            EXPECT_EQ(ask(addr_of(sup, "b"), do_stop_self, 0, NULL), KIN_STOPPING);
        }
        EXPECT_END(ref, KIN_DOWN_NORMAL, 0);
        EXPECT_DIARY(&crew.diary, mode == KIN_AUTO_SHUTDOWN_ALL ? "-a -b -c" : "-a -c -b");
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k125_the_end_of_a_significant_transient_child, "K125")
{
    run_on_few(in_k125_the_end_of_a_significant_transient_child, NULL);
}

/* ---- panics and cancels ---- */

/* Ends a child by a panic, or by a cancel from outside. */
static int lose_child(struct kin_addr child, bool by_panic)
{
    struct kin_monitor_ref ref = watch(child);
    struct kin_task_ref task;
    if (by_panic) {
        EXPECT_EQ(ask(child, do_panic, 0, NULL), KIN_PANICKED);
    } else {
        EXPECT_EQ(ask(child, do_name_task, 0, &task), 0);
        EXPECT_EQ(kin_task_cancel(task), 0);
    }
    EXPECT_END(ref, by_panic ? KIN_DOWN_PANICKED : KIN_DOWN_CANCELLED,
               by_panic ? KIN_PANICKED : KIN_CANCELLED);
    return by_panic ? KIN_PANICKED : KIN_CANCELLED;
}

/* K136 K137: who panicked or was cancelled from outside is not started again. */
static int in_k136_k137_panicked_and_cancelled_children_stay_away(void *arg)
{
    HOUSE(n);
    (void)arg;
    for (int shape = 0; shape < 8; shape++) {
        struct crew crew;
        SUP_OPTIONS(options);
        options.strategy = shape & 4 ? KIN_ONE_FOR_ALL : KIN_ONE_FOR_ONE;
        make_crew(&crew, shape & 2 ? KIN_PERMANENT : KIN_TRANSIENT);
        struct kin_addr sup = start_sup(&n, &options, crew.spec, 3);
        struct kin_addr a = addr_of(sup, "a"), c = addr_of(sup, "c");
        int status = lose_child(addr_of(sup, "b"), shape & 1);
        EXPECT_EQ(await_stopped(sup, "b"), status);
        EXPECT_EQ(child_of(sup, "b").restarts, 0);
        EXPECT(kin_addr_same(addr_of(sup, "a"), a));
        EXPECT(kin_addr_same(addr_of(sup, "c"), c));
        EXPECT_DIARY(&crew.diary, shape & 1 ? "+a +b +c" : "+a +b +c -b");
        close_desk(sup);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k136_k137_panicked_and_cancelled_children_stay_away, "K136 K137 SINV-2 D7")
{
    run_on_few(in_k136_k137_panicked_and_cancelled_children_stay_away, NULL);
}

/* K137: what the loss of a permanent child means is for the supervisor's options to say. */
static int in_k137_the_loss_of_a_permanent_child(void *arg)
{
    (void)arg;
    for (int shape = 0; shape < 4; shape++) {
        bool by_panic = shape & 1, escalates = shape & 2;
        struct crew crew;
        SUP_OPTIONS(options);
        HOUSE(n);
        make_crew(&crew, KIN_PERMANENT);
        options.on_child_stopped = escalates ? KIN_STOPPED_ESCALATE : KIN_STOPPED_STOP_SUPERVISOR;
        crew.spec[0].restart = KIN_TRANSIENT;
        struct kin_addr sup = start_sup(&n, &options, crew.spec, 3);
        struct kin_monitor_ref ref = watch(sup);
        lose_child(addr_of(sup, "a"), by_panic);
        await_stopped(sup, "a"); /* a transient one means nothing */
        int status = lose_child(addr_of(sup, "b"), by_panic);
        EXPECT_END(ref, escalates ? KIN_DOWN_ERROR : KIN_DOWN_NORMAL, escalates ? status : 0);
        EXPECT_DIARY(&crew.diary, by_panic ? "+a +b +c -c" : "+a +b +c -a -b -c");
        EXPECT_EQ(kin_nursery_join(&n, NULL), escalates ? status : 0);
    }
    return 0;
}

KIN_TEST(k137_the_loss_of_a_permanent_child, "K137 D7")
{
    run_on_few(in_k137_the_loss_of_a_permanent_child, NULL);
}

/* A child that escalates: any bad end is the supervisor's; a good one is not. */
static int in_a_child_that_escalates_ends_its_supervisor(void *arg)
{
    (void)arg;
    for (int way = 0; way < 4; way++) {
        struct crew crew;
        SUP_OPTIONS(options);
        HOUSE(n);
        make_crew(&crew, KIN_PERMANENT);
        crew.spec[0].restart = KIN_ESCALATE;
        struct kin_addr sup = start_sup(&n, &options, crew.spec, 2);
        struct kin_monitor_ref ref = watch(sup);
        int status = -EIO;
        if (way == 3) {
            EXPECT_EQ(ask(addr_of(sup, "a"), do_stop_self, 0, NULL), KIN_STOPPING);
            await_stopped(sup, "a");
            EXPECT_EQ(kin_server_state(sup), KIN_SERVER_RUNNING);
            close_desk(sup);
            status = 0;
        } else if (way == 0) {
            crash_child(addr_of(sup, "a"), -EIO);
        } else {
            status = lose_child(addr_of(sup, "a"), way == 1);
        }
        EXPECT_END(ref, status ? KIN_DOWN_ERROR : KIN_DOWN_NORMAL, status);
        EXPECT_DIARY(&crew.diary, way == 1 ? "+a +b -b" : "+a +b -a -b");
        EXPECT_EQ(kin_nursery_join(&n, NULL), status);
    }
    return 0;
}

KIN_TEST(a_child_that_escalates_ends_its_supervisor, "SUP-ESCALATE D7")
{
    run_on_few(in_a_child_that_escalates_ends_its_supervisor, NULL);
}

/* ---- restarts that fail ---- */

/* Fails as long as the count says, and counts. */
static int fail_a_few_times(struct desk *desk)
{
    _Atomic int *left = desk->plan.p;
    return atomic_fetch_sub(left, 1) > 0 ? -EAGAIN : 0;
}

/* D8: a restart that fails counts and is tried again; the supervisor answers meanwhile. */
static int in_restarts_that_fail_are_tried_again(void *arg)
{
    struct crew crew;
    _Atomic int left = 0;
    (void)arg;
    SUP_OPTIONS(options);
    HOUSE(n);
    make_crew(&crew, KIN_PERMANENT);
    crew.plan[0].on_start = fail_a_few_times;
    crew.plan[0].p = &left;
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 2);
    atomic_store(&left, 3);
    struct kin_addr b = addr_of(sup, "b");
    crash_and_await(sup, "a", -EIO);
    EXPECT_DIARY(&crew.diary, "+a +b -a +a +a +a +a");
    EXPECT(kin_addr_same(addr_of(sup, "b"), b));
    close_desk(sup);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(restarts_that_fail_are_tried_again, "D8")
{
    run_on_few(in_restarts_that_fail_are_tried_again, NULL);
}

/* D8: restarts that fail use up the budget. */
static int in_restarts_that_fail_use_up_the_budget(void *arg)
{
    struct crew crew;
    _Atomic int left = 0;
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    crew.plan[0].on_start = fail_a_few_times;
    crew.plan[0].p = &left;
    options.max_restarts = 3;
    options.window = KIN_SEC(1000);
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 2);
    struct kin_monitor_ref ref = watch(sup);
    atomic_store(&left, 1000);
    crash_child(addr_of(sup, "a"), -EIO);
    EXPECT_END(ref, KIN_DOWN_ERROR, KIN_EXHAUSTED);
    EXPECT_DIARY(&crew.diary, "+a +b -a +a +a +a -b");
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_EXHAUSTED);
    return 0;
}

KIN_TEST(restarts_that_fail_use_up_the_budget, "D8")
{
    run_on_few(in_restarts_that_fail_use_up_the_budget, NULL);
}

/* While a child waits for its next start the supervisor answers, and says so. */
static int in_a_child_that_waits_to_come_back_is_restarting(void *arg)
{
    struct crew crew;
    (void)arg;
    SUP_OPTIONS(options);
    struct kin_addr out = {3, 4};
    HOUSE(n);
    make_crew(&crew, KIN_PERMANENT);
    crew.spec[0].backoff = (struct kin_backoff){KIN_SEC(1000), KIN_SEC(1000), 100, 0};
    options.max_children = 1;
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 1);
    crash_child(addr_of(sup, "a"), -EIO);
    while (child_of(sup, "a").state != KIN_CHILD_RESTARTING) /* ends: it is told of the end */
        linger();
    EXPECT_COUNTS(sup, 1, 0, 1, 0);
    EXPECT_EQ(child_of(sup, "a").status, -EIO);
    EXPECT_EQ(kin_supervisor_restart_child(sup, "a", &out, KIN_NEVER), -EALREADY);
    EXPECT_EQ(kin_supervisor_delete_child(sup, "a", KIN_NEVER), -EALREADY);
    EXPECT_EQ(kin_supervisor_start_child(sup, &crew.spec[0], &out, KIN_NEVER), KIN_TAKEN);
    EXPECT_EQ(kin_supervisor_start_child(sup, &crew.spec[1], &out, KIN_NEVER), KIN_FULL);
    EXPECT_EQ(out.id, 4);
    EXPECT_EQ(kin_supervisor_terminate_child(sup, "a", KIN_NEVER), 0);
    EXPECT_COUNTS(sup, 1, 0, 0, 1);
    EXPECT_EQ(kin_supervisor_restart_child(sup, "a", &out, KIN_NEVER), 0);
    close_desk(sup);
    EXPECT_DIARY(&crew.diary, "+a -a +a -a");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_child_that_waits_to_come_back_is_restarting, "D8 K230")
{
    run_on_few(in_a_child_that_waits_to_come_back_is_restarting, NULL);
}
