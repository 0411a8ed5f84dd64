/* SPDX-License-Identifier: MIT */
/*
 * Goal: how a server or a supervisor that was started with a monitor ended is known, however soon
 * that was; a start that fails leaves no monitor and tells nothing.
 * Method: servers that are over before their start has returned to the caller; starts that fail in
 * every way there is, that are refused, and that are given up while on_start goes on; counts of
 * watches in debug builds, which have to go back to where they were.
 */
#include "otp/desk.h"
#include "otp/party.h"

enum { ROUNDS = 200 };

static int go_on(struct desk *desk)
{
    (void)desk;
    return KIN_CONTINUE;
}

static int fail_at_once(struct desk *desk)
{
    (void)desk;
    return -EIO;
}

/* What starting such a desk with a monitor answers. */
static int start_watched(struct kin_nursery *n, const struct desk_plan *plan,
                         const struct kin_server_options *options, struct kin_addr *desk,
                         struct kin_monitor_ref *ref)
{
    DESK_OPTIONS(plain);
    return kin_server_start_monitor(n, &desk_ops, options ? options : &plain, plan, desk, ref);
}

static const struct desk_plan brief = {.on_start = go_on, .on_continue = fail_at_once};

static int in_early(void *arg)
{
    (void)arg;
    for (int i = 0; i < enough(ROUNDS, 2); i++) {
        struct kin_monitor_ref ref = {0};
        struct kin_addr desk;
        HOUSE(n);
        EXPECT_EQ(start_watched(&n, &brief, NULL, &desk, &ref), 0);
        struct kin_info end = end_of(ref);
        EXPECT_EQ(end.u.down.reason, KIN_DOWN_ERROR);
        EXPECT_EQ(end.u.down.status, -EIO);
        EXPECT(kin_addr_same(end.u.down.who, desk));
        EXPECT_EQ(kin_wait_down(ref, &end, 0), KIN_STALE); /* once */
        kin_ignore(kin_nursery_join(&n, NULL));
    }
    return 0;
}
KIN_TEST(the_reason_of_an_early_end_is_known, "MON-DOWN MON-CREATE D12")
{
    run_on_few(in_early, NULL);
}

/* Nobody has become a party in its place meanwhile. */
static int in_late(void *arg)
{
    (void)arg;
    for (int i = 0; i < enough(ROUNDS, 2); i++) {
        HOUSE(n);
        struct kin_addr desk = open_desk(&n, &brief, NULL);
        kin_ignore(kin_nursery_join(&n, NULL)); /* it is over for sure */
        EXPECT_END(watch(desk), KIN_DOWN_ERROR, -EIO);
    }
    return 0;
}
KIN_TEST(the_reason_is_known_until_another_is_in_its_place, "MON-DOWN D12")
{
    run_on_few(in_late, NULL);
}

/* ---- starts that fail ---- */

static int refuse(struct desk *desk)
{
    return *(int *)desk->plan.p;
}

static int in_failed(void *arg)
{
    struct kin_monitor_ref ref = {77};
    struct kin_addr desk = {0, 0};
    struct kin_info news;
    int status = -EDOM;
    struct desk_plan plan = {.on_start = refuse, .p = &status};
    (void)arg;
    DESK_OPTIONS(named);
    named.name = "here";
    HOUSE(n);
    EXPECT_EQ(start_watched(&n, &plan, NULL, &desk, &ref), -EDOM);
    status = KIN_IGNORE;
    EXPECT_EQ(start_watched(&n, &plan, NULL, &desk, &ref), KIN_IGNORE);
    status = 7;
    EXPECT_EQ(start_watched(&n, &plan, NULL, &desk, &ref), -EBADMSG);
    status = 0;
    EXPECT_EQ(kin_register("here", kin_self_addr(), 0), 0);
    EXPECT_EQ(start_watched(&n, &plan, &named, &desk, &ref), KIN_TAKEN);
    EXPECT_EQ(kin_server_start_monitor(&n, &desk_ops, &named, &plan, &desk, NULL), -EINVAL);
    kin_nursery_cancel(&n, KIN_CANCELLED);
    EXPECT(start_watched(&n, &plan, NULL, &desk, &ref) < 0);
    EXPECT_EQ(ref.id, 77);
    EXPECT_EQ(kin_wait_info(&news, 0), KIN_TIMEOUT);
    kin_ignore(kin_nursery_join(&n, NULL));
    EXPECT_EQ(kin__watch_count(), 0);
    return 0;
}
KIN_TEST(a_start_that_fails_leaves_no_monitor, "GS-INIT MON-CREATE")
{
    run_on_few(in_failed, NULL);
}

/* Waits at the gate behind a mask. */
static int linger_in_start(struct desk *desk)
{
    struct gate *gate = desk->plan.p;
    kin_mask();
    kin_ignore(kin_event_wait(&gate->open, KIN_NEVER)); /* a mask ends with the stop timeout */
    kin_unmask();
    return 0;
}

static int in_given_up(void *arg)
{
    struct kin_monitor_ref ref = {77};
    struct kin_addr desk;
    struct gate gate;
    struct desk_plan plan = {.on_start = linger_in_start, .p = &gate};
    (void)arg;
    memset(&gate, 0, sizeof gate);
    DESK_OPTIONS(o);
    o.init_timeout = o.stop_timeout = KIN_MS(1);
    HOUSE(n);
    EXPECT_EQ(start_watched(&n, &plan, &o, &desk, &ref), KIN_TIMEOUT);
    EXPECT_EQ(ref.id, 77);
    kin_event_set(&gate.open);
    kin_ignore(kin_nursery_join(&n, NULL));
    EXPECT_EQ(kin__watch_count(), 0);
    return 0;
}
KIN_TEST(a_start_that_is_given_up_leaves_no_monitor, "GS-INIT MON-CREATE")
{
    run_on_few(in_given_up, NULL);
}

/* ---- supervisors ---- */

static int start_brief(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    struct kin_monitor_ref ref;
    (void)arg;
    return start_watched(n, &brief, NULL, out, &ref); /* goes with the task that starts it */
}

static int in_supervised(void *arg)
{
    struct kin_child_spec child = {.name = "brief", .start = start_brief};
    struct kin_supervisor_options o = KIN_SUPERVISOR_OPTIONS_INIT;
    struct kin_monitor_ref ref;
    struct kin_addr sup;
    (void)arg;
    o.max_restarts = KIN_NO_RESTARTS;
    HOUSE(n);
    EXPECT_EQ(kin_supervisor_start_monitor(&n, &o, &child, 1, &sup, NULL), -EINVAL);
    EXPECT_EQ(kin_supervisor_start_monitor(&n, &o, &child, 1, &sup, &ref), 0);
    EXPECT_END(ref, KIN_DOWN_ERROR, KIN_EXHAUSTED);
    kin_ignore(kin_nursery_join(&n, NULL));
    EXPECT_EQ(kin__watch_count(), 0);
    return 0;
}
KIN_TEST(a_supervisor_can_be_monitored_from_its_start, "MON-DOWN SUP-BUDGET-EXCEEDED")
{
    run_on_few(in_supervised, NULL);
}
