/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the own tests of other actor systems ask of supervisors, asked of kin's: starts,
 *       stops, administration and specs of cases K070 to K139; restarts are in
 *       conform_restart_test.c. Each test names its case.
 * Method: black box, one body per case, on 1, 2 and 4 workers. Children write into a diary.
 *
 * Cases that kin answers elsewhere or has nothing to ask of:
 *   K071            a supervisor's own start that declines: a supervisor has no callback
 *   K086, K108      something more than an address from a start: the start fills in an address
 *   K110, K115      that start arguments of temporary children are not kept: seen by no caller
 *   K133            the form of log lines: there are none
 *   K135            other code for a running supervisor: C has no code change
 *   K139            a restart exactly as old as the window: needs a clock that stands still, so it
 *                   is in lab/otp_ticks_test.c
 */
#include "otp/crew.h"

/* ---- start and stop ---- */

/* K070: an empty supervisor can be stopped, and ends well; cancelled, it ends as cancelled. */
static int in_k070_an_empty_supervisor_starts_and_stops(void *arg)
{
    HOUSE(n);
    struct kin_addr sup = start_sup(&n, NULL, NULL, 0);
    struct kin_monitor_ref ref = watch(sup);
    (void)arg;
    EXPECT_EQ(kin_server_state(sup), KIN_SERVER_RUNNING);
    EXPECT_COUNTS(sup, 0, 0, 0, 0);
    EXPECT_EQ(kin_server_stop(sup, 0, KIN_NEVER), 0);
    EXPECT_END(ref, KIN_DOWN_NORMAL, 0);
    EXPECT_EQ(kin_server_stop(sup, 0, KIN_NEVER), KIN_NOPROC);
    sup = start_sup(&n, NULL, NULL, 0);
    ref = watch(sup);
    EXPECT_EQ(kin_server_stop(sup, -ESHUTDOWN, KIN_NEVER), 0);
    EXPECT_END(ref, KIN_DOWN_ERROR, -ESHUTDOWN);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -ESHUTDOWN);
    return 0;
}

KIN_TEST(k070_an_empty_supervisor_starts_and_stops, "K070")
{
    run_on_few(in_k070_an_empty_supervisor_starts_and_stops, NULL);
}

static int own_a_supervisor(void *arg)
{
    struct crew *crew = arg;
    KIN_NURSERY(n);
    start_sup(&n, NULL, crew->spec, 3);
    jot(&crew->diary, "ready");
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return KIN_CANCELLED;
}

/* K070 K085: cancelling its nursery is an orderly shutdown, in reverse start order. */
static int in_k070_k085_a_cancelled_supervisor_stops_its_children_in_order(void *arg)
{
    struct crew crew;
    struct kin_task_ref owner;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    EXPECT_EQ(kin_spawn_with(&n, NULL, own_a_supervisor, &crew, 0, &owner), 0);
    await_word(&crew.diary, "ready");
    EXPECT_EQ(kin_task_cancel(owner), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_DIARY(&crew.diary, "+a +b +c ready -c -b -a");
    return 0;
}

KIN_TEST(k070_k085_a_cancelled_supervisor_stops_its_children_in_order, "K070 K085 K120")
{
    run_on_few(in_k070_k085_a_cancelled_supervisor_stops_its_children_in_order, NULL);
}

static int start_and_decline(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    (void)n;
    (void)arg;
    (void)out;
    return KIN_IGNORE;
}

/* K072: a child that declines keeps its spec. */
static int in_k072_a_child_that_declines_keeps_its_spec(void *arg)
{
    struct crew crew;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    crew.spec[0].start = start_and_decline;
    struct kin_addr sup = start_sup(&n, NULL, crew.spec, 2);
    EXPECT_COUNTS(sup, 2, 1, 0, 1);
    EXPECT_EQ(child_of(sup, "a").state, KIN_CHILD_STOPPED);
    EXPECT_EQ(child_of(sup, "a").addr.id, 0);
    EXPECT_EQ(child_of(sup, "b").state, KIN_CHILD_RUNNING);
    struct kin_addr out = {3, 4};
    crew.spec[2].start = start_and_decline;
    EXPECT_EQ(kin_supervisor_start_child(sup, &crew.spec[2], &out, KIN_NEVER), KIN_IGNORE);
    EXPECT_EQ(out.id, 4);
    close_desk(sup);
    EXPECT_DIARY(&crew.diary, "+b -b");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k072_a_child_that_declines_keeps_its_spec, "K072")
{
    run_on_few(in_k072_a_child_that_declines_keeps_its_spec, NULL);
}

static int start_and_fail(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    (void)n;
    (void)arg;
    (void)out;
    return -ENODEV;
}

static int start_and_crash(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    (void)n;
    (void)arg;
    (void)out;
    kin_fail(-ENODEV, "in the start of a child");
}

/* K074: a start that fails stops what was started, in reverse; the answer names the child; nobody
 * is left, and the nursery does not fail. */
static int in_k074_a_start_that_fails_stops_what_was_started(void *arg)
{
    struct crew crew;
    const char *failed = "nobody";
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    KIN_NURSERY(n);
    (void)arg;
    for (int i = 0; i < 2; i++) {
        struct kin_addr out = {3, 4};
        make_crew(&crew, KIN_PERMANENT);
        crew.spec[2].start = i ? start_and_crash : start_and_fail;
        options.name = "boss";
        options.failed_child = &failed;
        EXPECT_EQ(kin_supervisor_start(&n, &options, crew.spec, 4, &out), -ENODEV);
        EXPECT_STR(failed, "c");
        EXPECT_EQ(out.node, 3);
        EXPECT_EQ(out.id, 4);
        EXPECT_EQ(kin_whereis("boss", &out), KIN_NOPROC);
        EXPECT_DIARY(&crew.diary, "+a +b -b -a");
        EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_OPEN);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k074_a_start_that_fails_stops_what_was_started, "K074 D9")
{
    run_on_few(in_k074_a_start_that_fails_stops_what_was_started, NULL);
}

/* K075: a child whose start fails is not in the list. */
static int in_k075_a_child_whose_start_fails_is_not_listed(void *arg)
{
    struct crew crew;
    struct kin_addr out = {3, 4};
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    struct kin_addr sup = start_sup(&n, NULL, crew.spec, 1);
    crew.spec[1].start = start_and_fail;
    EXPECT_EQ(kin_supervisor_start_child(sup, &crew.spec[1], &out, KIN_NEVER), -ENODEV);
    EXPECT_EQ(out.node, 3);
    EXPECT_EQ(out.id, 4);
    EXPECT_PTR(child_of(sup, "b").name, NULL);
    EXPECT_COUNTS(sup, 1, 1, 0, 0);
    crew.spec[1].start = start_desk_child;
    EXPECT_EQ(kin_supervisor_start_child(sup, &crew.spec[1], &out, KIN_NEVER), 0);
    EXPECT(kin_addr_same(out, addr_of(sup, "b")));
    EXPECT_COUNTS(sup, 2, 2, 0, 0);
    close_desk(sup);
    EXPECT_DIARY(&crew.diary, "+a +b -b -a");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k075_a_child_whose_start_fails_is_not_listed, "K075")
{
    run_on_few(in_k075_a_child_whose_start_fails_is_not_listed, NULL);
}

/* Fails when the int it is given says so. */
static int fail_if_told(struct desk *desk)
{
    return atomic_load((_Atomic int *)desk->plan.p);
}

/* K076: a restart by hand that fails leaves the child listed as stopped. */
static int in_k076_a_restart_by_hand_that_fails_leaves_the_child_stopped(void *arg)
{
    struct crew crew;
    struct kin_addr out = {3, 4};
    _Atomic int status = 0;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    crew.plan[0].on_start = fail_if_told;
    crew.plan[0].p = &status;
    struct kin_addr sup = start_sup(&n, NULL, crew.spec, 1);
    EXPECT_EQ(kin_supervisor_terminate_child(sup, "a", KIN_NEVER), 0);
    atomic_store(&status, -EUSERS);
    EXPECT_EQ(kin_supervisor_restart_child(sup, "a", &out, KIN_NEVER), -EUSERS);
    EXPECT_EQ(out.id, 4);
    EXPECT_EQ(child_of(sup, "a").state, KIN_CHILD_STOPPED);
    EXPECT_COUNTS(sup, 1, 0, 0, 1);
    atomic_store(&status, 0);
    EXPECT_EQ(kin_supervisor_restart_child(sup, "a", &out, KIN_NEVER), 0);
    EXPECT(kin_addr_same(out, addr_of(sup, "a")));
    EXPECT_COUNTS(sup, 1, 1, 0, 0);
    close_desk(sup);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k076_a_restart_by_hand_that_fails_leaves_the_child_stopped, "K076")
{
    run_on_few(in_k076_a_restart_by_hand_that_fails_leaves_the_child_stopped, NULL);
}

/* K077: what a spec of zeroes means. */
static int in_k077_defaults_of_a_spec(void *arg)
{
    struct crew crew;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, (enum kin_restart)0);
    struct kin_addr sup = start_sup(&n, NULL, crew.spec, 1);
    struct kin_child_info info = child_of(sup, "a");
    EXPECT_EQ(info.restart, KIN_TRANSIENT);
    EXPECT_EQ(info.restarts, 0);
    EXPECT_EQ(info.status, 0);
    EXPECT_EQ(info.state, KIN_CHILD_RUNNING);
    EXPECT_EQ(kin_supervisor_terminate_child(sup, "z", KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_restart_child(sup, "z", &info.addr, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_delete_child(sup, "z", KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_terminate_addr(sup, kin_self_addr(), KIN_NEVER), KIN_NOPROC);
    close_desk(sup);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k077_defaults_of_a_spec, "K077")
{
    run_on_few(in_k077_defaults_of_a_spec, NULL);
}

/* Whether a start with this spec in the middle is refused, and start_child of it too. */
static void expect_refused(struct kin_nursery *n, const struct kin_child_spec *bad,
                           const struct kin_supervisor_options *options)
{
    struct crew crew;
    struct kin_addr out = {3, 4};
    make_crew(&crew, KIN_TRANSIENT);
    crew.spec[1] = *bad;
    EXPECT_EQ(kin_supervisor_start(n, options, crew.spec, 3, &out), -EINVAL);
    EXPECT_EQ(out.node, 3);
    EXPECT_EQ(out.id, 4);
    struct kin_addr sup = start_sup(n, options, crew.spec, 1);
    EXPECT_EQ(kin_supervisor_start_child(sup, bad, &out, KIN_NEVER), -EINVAL);
    EXPECT_EQ(out.node, 3);
    EXPECT_EQ(out.id, 4);
    EXPECT_COUNTS(sup, 1, 1, 0, 0);
    close_desk(sup);
    EXPECT_DIARY(&crew.diary, "+a -a");
}

/* K078 K089: every field that makes no sense is refused, and nothing is started. */
static int in_k078_k089_specs_that_make_no_sense_are_refused(void *arg)
{
    struct crew crew;
    static const char *const unknown[] = {"z", NULL};
    static const char *const itself[] = {"y", NULL};
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_TRANSIENT);
    struct kin_child_spec good = crew.spec[7], bad;
    good.name = "y";
    bad = good, bad.name = NULL, expect_refused(&n, &bad, NULL);
    bad = good, bad.name = "", expect_refused(&n, &bad, NULL);
    bad = good, bad.start = NULL, expect_refused(&n, &bad, NULL);
    bad = good, bad.restart = (enum kin_restart)17, expect_refused(&n, &bad, NULL);
    bad = good, bad.restart = (enum kin_restart)-1, expect_refused(&n, &bad, NULL);
    bad = good, bad.shutdown = -2, expect_refused(&n, &bad, NULL);
    bad = good, bad.arg = NULL, expect_refused(&n, &bad, NULL);
    bad = good, bad.backoff.first = -1, expect_refused(&n, &bad, NULL);
    bad = good, bad.backoff.max = -1, expect_refused(&n, &bad, NULL);
    bad = good, bad.depends_on = unknown, expect_refused(&n, &bad, NULL);
    bad = good, bad.depends_on = itself, expect_refused(&n, &bad, NULL);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k078_k089_specs_that_make_no_sense_are_refused, "K078 K089")
{
    run_on_few(in_k078_k089_specs_that_make_no_sense_are_refused, NULL);
}

/* K089: a name that is there twice, a circle of dependencies. */
static int in_k089_duplicates_and_circles_are_refused(void *arg)
{
    struct crew crew;
    static const char *const on_b[] = {"b", NULL}, *const on_c[] = {"c", NULL},
                            *const on_a[] = {"a", NULL};
    struct kin_addr out = {3, 4};
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_TRANSIENT);
    crew.spec[2].name = "a";
    EXPECT_EQ(kin_supervisor_start(&n, NULL, crew.spec, 3, &out), -EINVAL);
    make_crew(&crew, KIN_TRANSIENT);
    crew.spec[0].depends_on = on_b;
    crew.spec[1].depends_on = on_c;
    crew.spec[2].depends_on = on_a;
    EXPECT_EQ(kin_supervisor_start(&n, NULL, crew.spec, 3, &out), -EINVAL);
    EXPECT_EQ(kin_supervisor_start(&n, NULL, NULL, 3, &out), -EINVAL);
    EXPECT_EQ(out.node, 3);
    EXPECT_EQ(out.id, 4);
    EXPECT_DIARY(&crew.diary, "");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k089_duplicates_and_circles_are_refused, "K089")
{
    run_on_few(in_k089_duplicates_and_circles_are_refused, NULL);
}

/* K089: every combination of what makes sense is accepted. */
static int in_k089_specs_that_make_sense_are_accepted(void *arg)
{
    static const int64_t shutdown[] = {0, 1, KIN_SEC(5), KIN_NEVER, KIN_BRUTAL};
    const struct kin_backoff backoffs[] = {{0, 0, 0, 0}, {1, 10, 150, 50}, {5, 0, 0, 0}};
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    struct crew crew;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_TRANSIENT);
    options.auto_shutdown = KIN_AUTO_SHUTDOWN_ALL;
    for (int kind = 0; kind < 4; kind++) {
        for (size_t i = 0; i < 5 * 3 * 2; i++) {
            struct kin_child_spec spec = crew.spec[0];
            spec.restart = (enum kin_restart)kind;
            spec.shutdown = shutdown[i % 5];
            spec.backoff = backoffs[i / 5 % 3];
            spec.significant = kind != KIN_PERMANENT && kind != KIN_ESCALATE && i / 15;
            clear_diary(&crew.diary);
            struct kin_addr sup = start_sup(&n, &options, &spec, 1);
            EXPECT_EQ(child_of(sup, "a").restart, kind);
            close_desk(sup);
            EXPECT_DIARY(&crew.diary, "+a -a");
        }
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k089_specs_that_make_sense_are_accepted, "K089")
{
    run_on_few(in_k089_specs_that_make_sense_are_accepted, NULL);
}

/* K129: a child that always comes back, or that nobody looks at, is not significant. */
static int in_k129_significant_children_must_be_able_to_matter(void *arg)
{
    struct crew crew;
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    crew.spec[7].significant = true;
    options.auto_shutdown = KIN_AUTO_SHUTDOWN_ANY;
    expect_refused(&n, &crew.spec[7], &options);
    options.auto_shutdown = KIN_AUTO_SHUTDOWN_NEVER;
    crew.spec[7].restart = KIN_TRANSIENT;
    expect_refused(&n, &crew.spec[7], &options);
    crew.spec[7].restart = KIN_TEMPORARY;
    expect_refused(&n, &crew.spec[7], &options);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k129_significant_children_must_be_able_to_matter, "K129")
{
    run_on_few(in_k129_significant_children_must_be_able_to_matter, NULL);
}

/* K090: every option of a supervisor that makes no sense is refused. */
static int in_k090_options_that_make_no_sense_are_refused(void *arg)
{
    const struct kin_supervisor_options good = KIN_SUPERVISOR_OPTIONS_INIT;
    struct kin_supervisor_options bad[9];
    struct kin_addr out = {3, 4};
    char long_name[300];
    HOUSE(n);
    (void)arg;
    for (size_t i = 0; i < 9; i++)
        bad[i] = good;
    memset(long_name, 'x', sizeof long_name);
    long_name[256] = '\0';
    bad[0].strategy = (enum kin_strategy)9;
    bad[1].window = -1;
    bad[2].escalation = (enum kin_escalation)9;
    bad[3].auto_shutdown = (enum kin_auto_shutdown)9;
    bad[4].on_child_stopped = (enum kin_child_stopped)9;
    bad[5].size = 0;
    bad[6].size = good.size + 8;
    bad[7].name = "";
    bad[8].name = long_name;
    for (size_t i = 0; i < 9; i++) {
        EXPECT_EQ(kin_supervisor_start(&n, &bad[i], NULL, 0, &out), -EINVAL);
        EXPECT_EQ(out.node, 3);
        EXPECT_EQ(out.id, 4);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k090_options_that_make_no_sense_are_refused, "K090")
{
    run_on_few(in_k090_options_that_make_no_sense_are_refused, NULL);
}

/* ---- the ladder ---- */

/* K080: children with all the time in the world end when they are asked. */
static int in_k080_children_with_an_endless_shutdown_end_when_asked(void *arg)
{
    struct plain plain;
    struct crew crew;
    HOUSE(n);
    (void)arg;
    memset(&plain, 0, sizeof plain);
    make_crew(&crew, KIN_PERMANENT);
    crew.spec[1] = plain_spec("p", start_polite, &plain, KIN_PERMANENT);
    crew.spec[0].shutdown = crew.spec[1].shutdown = KIN_NEVER;
    struct kin_addr sup = start_sup(&n, NULL, crew.spec, 2);
    struct kin_monitor_ref ref = watch(addr_of(sup, "p"));
    await_flag(&plain.started, 1);
    close_desk(sup);
    EXPECT_EQ(atomic_load(&plain.ended), 1);
    EXPECT_END(ref, KIN_DOWN_CANCELLED, KIN_CANCELLED);
    EXPECT_DIARY(&crew.diary, "+a -a");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k080_children_with_an_endless_shutdown_end_when_asked, "K080")
{
    run_on_few(in_k080_children_with_an_endless_shutdown_end_when_asked, NULL);
}

/* K081 K082: a child that hides behind a mask is asked again so that no mask helps: when its time
 * is over, or at once. */
static int in_k081_k082_a_mask_does_not_help_a_child_when_its_time_is_over(void *arg)
{
    static const int64_t shutdown[] = {KIN_MS(1), KIN_BRUTAL};
    HOUSE(n);
    (void)arg;
    for (int i = 0; i < 4; i++) {
        struct plain stubborn, polite;
        struct kin_child_spec spec[2];
        memset(&stubborn, 0, sizeof stubborn);
        memset(&polite, 0, sizeof polite);
        spec[0] = plain_spec("s", start_stubborn, &stubborn, KIN_PERMANENT);
        spec[1] = plain_spec("p", start_polite, &polite, KIN_PERMANENT);
        spec[0].shutdown = spec[1].shutdown = shutdown[i % 2];
        struct kin_addr sup = start_sup(&n, NULL, spec, 2);
        struct kin_monitor_ref s = watch(addr_of(sup, "s")), p = watch(addr_of(sup, "p"));
        await_flag(&stubborn.started, 1);
        await_flag(&polite.started, 1);
        if (i < 2) {
            close_desk(sup);
        } else {
            EXPECT_EQ(kin_supervisor_terminate_child(sup, "s", KIN_NEVER), 0);
            EXPECT_EQ(child_of(sup, "s").state, KIN_CHILD_STOPPED);
            EXPECT_EQ(child_of(sup, "p").state, KIN_CHILD_RUNNING);
            close_desk(sup);
        }
        EXPECT_END(s, KIN_DOWN_CANCELLED, KIN_CANCELLED);
        EXPECT_END(p, KIN_DOWN_CANCELLED, KIN_CANCELLED);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k081_k082_a_mask_does_not_help_a_child_when_its_time_is_over, "K081 K082 D10")
{
    run_on_few(in_k081_k082_a_mask_does_not_help_a_child_when_its_time_is_over, NULL);
}

static void wait_in_stop(struct desk *desk, const struct kin_outcome *why)
{
    struct gate *gate = desk->plan.p;
    (void)why;
    kin_event_set(&gate->reached);
    EXPECT_EQ(kin_event_wait(&gate->open, KIN_NEVER), 0);
    jot(desk->plan.diary, "waited");
}

/* K085: a stop that does not wait long enough goes on all the same. */
static int in_k085_a_stop_whose_caller_leaves_goes_on(void *arg)
{
    struct crew crew;
    struct gate gate;
    struct kin_addr none = {0, 0};
    HOUSE(n);
    (void)arg;
    memset(&gate, 0, sizeof gate);
    make_crew(&crew, KIN_PERMANENT);
    crew.plan[1].on_stop = wait_in_stop;
    crew.plan[1].p = &gate;
    struct kin_addr sup = start_sup(&n, NULL, crew.spec, 3);
    struct kin_monitor_ref ref = watch(sup);
    EXPECT_EQ(kin_server_stop(sup, 0, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_event_wait(&gate.reached, KIN_NEVER), 0);
    EXPECT_EQ(kin_server_stop(sup, 0, kin_after(1)), KIN_TIMEOUT);
    EXPECT_EQ(kin_supervisor_start_child(sup, &crew.spec[4], &none, KIN_NEVER), KIN_STOPPING);
    EXPECT_EQ(kin_supervisor_terminate_child(sup, "a", KIN_NEVER), KIN_STOPPING);
    EXPECT_DIARY(&crew.diary, "+a +b +c -c -b");
    kin_event_set(&gate.open);
    EXPECT_END(ref, KIN_DOWN_NORMAL, 0);
    EXPECT_DIARY(&crew.diary, "+a +b +c -c -b waited -a");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k085_a_stop_whose_caller_leaves_goes_on, "K085")
{
    run_on_few(in_k085_a_stop_whose_caller_leaves_goes_on, NULL);
}

/* ---- administration ---- */

/* K086 K087: what can be asked of a supervisor, and what it answers. */
static int in_k086_k087_children_are_administered(void *arg)
{
    struct crew crew;
    struct kin_addr out = {3, 4};
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    struct kin_addr sup = start_sup(&n, NULL, crew.spec, 1);
    struct kin_addr first = addr_of(sup, "a");
    EXPECT_EQ(kin_supervisor_start_child(sup, &crew.spec[0], &out, KIN_NEVER), KIN_TAKEN);
    EXPECT_EQ(kin_supervisor_restart_child(sup, "a", &out, KIN_NEVER), -EBUSY);
    EXPECT_EQ(kin_supervisor_delete_child(sup, "a", KIN_NEVER), -EBUSY);
    EXPECT_EQ(out.id, 4);
    EXPECT(kin_addr_same(addr_of(sup, "a"), first));
    EXPECT_EQ(kin_supervisor_terminate_child(sup, "a", KIN_NEVER), 0);
    EXPECT_EQ(kin_server_state(first), KIN_SERVER_STOPPED);
    EXPECT_EQ(kin_supervisor_terminate_child(sup, "a", KIN_NEVER), 0);
    EXPECT_COUNTS(sup, 1, 0, 0, 1);
    EXPECT_EQ(kin_supervisor_start_child(sup, &crew.spec[0], &out, KIN_NEVER), KIN_TAKEN);
    EXPECT_EQ(kin_supervisor_restart_child(sup, "a", &out, KIN_NEVER), 0);
    EXPECT(!kin_addr_same(out, first));
    EXPECT_EQ(kin_supervisor_terminate_addr(sup, first, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_terminate_addr(sup, out, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_delete_child(sup, "a", KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_delete_child(sup, "a", KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_restart_child(sup, "a", &out, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_terminate_child(sup, "a", KIN_NEVER), KIN_NOPROC);
    EXPECT_COUNTS(sup, 0, 0, 0, 0);
    EXPECT_EQ(kin_supervisor_start_child(sup, &crew.spec[0], &out, KIN_NEVER), 0);
    close_desk(sup);
    EXPECT_DIARY(&crew.diary, "+a -a +a -a +a -a");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k086_k087_children_are_administered, "K086 K087")
{
    run_on_few(in_k086_k087_children_are_administered, NULL);
}

/* K087: nobody, and somebody who is no supervisor. */
static int in_k087_asking_somebody_who_is_no_supervisor(void *arg)
{
    struct crew crew;
    struct kin_addr out = {3, 4};
    struct kin_child_counts counts;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    struct kin_addr over = start_sup(&n, NULL, NULL, 0);
    close_desk(over);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    const struct kin_addr who[] = {{0, 0}, over, desk, {0, UINT64_MAX}};
    for (size_t i = 0; i < 4; i++) {
        EXPECT_EQ(kin_supervisor_start_child(who[i], &crew.spec[0], &out, KIN_NEVER), KIN_NOPROC);
        EXPECT_EQ(kin_supervisor_terminate_child(who[i], "a", KIN_NEVER), KIN_NOPROC);
        EXPECT_EQ(kin_supervisor_terminate_addr(who[i], desk, KIN_NEVER), KIN_NOPROC);
        EXPECT_EQ(kin_supervisor_restart_child(who[i], "a", &out, KIN_NEVER), KIN_NOPROC);
        EXPECT_EQ(kin_supervisor_delete_child(who[i], "a", KIN_NEVER), KIN_NOPROC);
        EXPECT_EQ(kin_supervisor_which_children(who[i], NULL, 0, KIN_NEVER), KIN_NOPROC);
        EXPECT_EQ(kin_supervisor_count_children(who[i], &counts, KIN_NEVER), KIN_NOPROC);
    }
    EXPECT_EQ(out.id, 4);
    EXPECT_EQ(kin_server_state(desk), KIN_SERVER_RUNNING);
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k087_asking_somebody_who_is_no_supervisor, "K087")
{
    run_on_few(in_k087_asking_somebody_who_is_no_supervisor, NULL);
}

/* K113: counts are exact, for many children too. */
static int in_k113_many_children_are_counted_exactly(void *arg)
{
    struct plain plain;
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    struct kin_addr out;
    const int count = enough(1000 / (int)kin_test_scale() + 10, 12);
    HOUSE(n);
    (void)arg;
    memset(&plain, 0, sizeof plain);
    options.strategy = KIN_TEMPLATE;
    struct kin_child_spec spec = plain_spec(NULL, start_polite, &plain, KIN_TEMPORARY);
    struct kin_addr sup = start_sup(&n, &options, NULL, 0);
    for (int i = 1; i <= count; i++)
        EXPECT_EQ(kin_supervisor_start_child(sup, &spec, &out, KIN_NEVER), 0);
    EXPECT_EQ(counts_of(sup).active, count);
    EXPECT_EQ(kin_supervisor_which_children(sup, NULL, 0, KIN_NEVER), count);
    await_flag(&plain.started, count);
    EXPECT_EQ(kin_supervisor_terminate_addr(sup, out, KIN_NEVER), 0);
    EXPECT_EQ(counts_of(sup).active, count - 1);
    EXPECT_EQ(kin_supervisor_terminate_addr(sup, out, KIN_NEVER), KIN_NOPROC);
    close_desk(sup);
    EXPECT_EQ(atomic_load(&plain.ended), count);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k113_many_children_are_counted_exactly, "K113 K116")
{
    run_on_few(in_k113_many_children_are_counted_exactly, NULL);
}

/* K122: the list is in start order, with the stopped and without the deleted. */
static int in_k122_the_list_has_the_stopped_and_not_the_deleted(void *arg)
{
    struct crew crew;
    struct kin_child_info all[8];
    static const char *const on_d[] = {"d", NULL};
    struct kin_addr out;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_TRANSIENT);
    crew.spec[0].depends_on = on_d;
    struct kin_addr sup = start_sup(&n, NULL, crew.spec, 4);
    EXPECT_DIARY(&crew.diary, "+b +c +d +a");
    memset(all, 0, sizeof all);
    EXPECT_EQ(kin_supervisor_which_children(sup, all, 8, KIN_NEVER), 4);
    EXPECT_STR(all[0].name, "b");
    EXPECT_STR(all[1].name, "c");
    EXPECT_STR(all[2].name, "d");
    EXPECT_STR(all[3].name, "a");
    EXPECT_EQ(kin_supervisor_terminate_child(sup, "c", KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_terminate_child(sup, "b", KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_delete_child(sup, "b", KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_start_child(sup, &crew.spec[4], &out, KIN_NEVER), 0);
    memset(all, 0, sizeof all);
    EXPECT_EQ(kin_supervisor_which_children(sup, all, 1, KIN_NEVER), 4);
    EXPECT_PTR(all[1].name, NULL);
    EXPECT_EQ(kin_supervisor_which_children(sup, all, 8, KIN_NEVER), 4);
    EXPECT_STR(all[0].name, "c");
    EXPECT_EQ(all[0].state, KIN_CHILD_STOPPED);
    EXPECT_STR(all[1].name, "d");
    EXPECT_STR(all[2].name, "a");
    EXPECT_STR(all[3].name, "e");
    EXPECT(kin_addr_same(all[3].addr, out));
    close_desk(sup);
    EXPECT_DIARY(&crew.diary, "+b +c +d +a -c -b +e -e -a -d");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k122_the_list_has_the_stopped_and_not_the_deleted, "K122 K120")
{
    run_on_few(in_k122_the_list_has_the_stopped_and_not_the_deleted, NULL);
}

/* K230: no more children than allowed; a freed place can be used; one that is being restarted keeps
 * its place. */
static int in_k230_no_more_children_than_allowed(void *arg)
{
    struct plain plain;
    struct crew crew;
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    struct kin_addr first, second, third = {3, 4};
    HOUSE(n);
    (void)arg;
    memset(&plain, 0, sizeof plain);
    make_crew(&crew, KIN_PERMANENT);
    options.max_children = 2;
    options.strategy = KIN_TEMPLATE;
    /* children of a template may have the same name */
    struct kin_child_spec spec = plain_spec("same", start_polite, &plain, KIN_TEMPORARY);
    struct kin_addr sup = start_sup(&n, &options, NULL, 0);
    EXPECT_EQ(kin_supervisor_start_child(sup, &spec, &first, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_start_child(sup, &spec, &second, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_start_child(sup, &spec, &third, KIN_NEVER), KIN_FULL);
    EXPECT_EQ(third.id, 4);
    EXPECT_EQ(kin_supervisor_terminate_addr(sup, first, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_start_child(sup, &spec, &third, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_start_child(sup, &spec, &first, KIN_NEVER), KIN_FULL);
    close_desk(sup);
    options.strategy = KIN_ONE_FOR_ONE;
    sup = start_sup(&n, &options, crew.spec, 2);
    EXPECT_EQ(kin_supervisor_start_child(sup, &crew.spec[2], &first, KIN_NEVER), KIN_FULL);
    close_desk(sup);
    EXPECT_EQ(kin_supervisor_start(&n, &options, crew.spec, 3, &sup), KIN_FULL);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k230_no_more_children_than_allowed, "K230 K231")
{
    run_on_few(in_k230_no_more_children_than_allowed, NULL);
}
