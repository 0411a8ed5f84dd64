/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a supervisor does about a child that ended: whom it restarts, in which order, how
 * often, after how long, and when it gives up.
 * Method: black box on 1, 2 and 4 workers; every kind of child with every kind of end; diaries of
 * whole plans; intensity with windows too long to end; delays are compared with their lower bounds
 * only.
 */
#include "otp/kids.h"

/* ---- kinds of children and of ends ---- */

enum fate { RESTARTED, KEPT, GONE };

static struct kin_outcome outcome_by(enum order order)
{
    switch (order) {
    case END_WELL:
        return (struct kin_outcome){KIN_SEV_OK, 0, 0, 0, ""};
    case END_BADLY:
        return (struct kin_outcome){KIN_SEV_ERROR, -EIO, 0, 0, ""};
    case CRASH:
        return (struct kin_outcome){KIN_SEV_ERROR, -EPIPE, 0, 0, ""};
    case PANIC:
        return (struct kin_outcome){KIN_SEV_PANIC, KIN_PANICKED, 0, 0, ""};
    default:
        return (struct kin_outcome){KIN_SEV_CANCELLED, KIN_CANCELLED, 0, 0, ""};
    }
}

/* Ends kid a; with BE_DEAF, which nobody is told, it is cancelled from outside. */
static void end_a(struct house *house, enum order order)
{
    struct kin_child_info info = await_state(house, "a", KIN_CHILD_RUNNING);
    if (order == BE_DEAF)
        EXPECT_EQ(kin_task_cancel((struct kin_task_ref){info.addr.id}), 0);
    else
        tell(info.addr, order);
    await_end(info.addr);
}

static void expect_fate(enum kin_restart restart, enum order order, enum fate fate)
{
    static struct house house;
    struct kin_outcome how = outcome_by(order);

    furnish(&house, 2, restart);
    house.specs[1].restart = KIN_TRANSIENT;
    move_in(&house, 2);
    struct kin_addr before = info_of(&house, "a").addr, b = info_of(&house, "b").addr;
    end_a(&house, order);
    if (fate == RESTARTED) {
        struct kin_child_info info = await_restarts(&house, "a", 1);
        EXPECT(!kin_addr_same(info.addr, before));
        EXPECT_EQ(info.restarts, 1);
        EXPECT_EQ(info.status, how.status);
        EXPECT_EQ(info.restart, restart);
    } else if (fate == KEPT) {
        struct kin_child_info info = await_state(&house, "a", KIN_CHILD_STOPPED);
        EXPECT_EQ(info.restarts, 0);
        EXPECT_EQ(info.status, how.status);
    } else {
        while (info_of(&house, "a").name)
            kin_ignore(kin_yield());
    }
    EXPECT(kin_addr_same(info_of(&house, "b").addr, b)); /* the other one is untouched */
    EXPECT_EQ(atomic_load(&house.kids[0].starts), fate == RESTARTED ? 2 : 1);
    EXPECT_EQ(atomic_load(&house.kids[1].starts), 1);
    move_out(&house);
}

/* K091, K092, K093, K094, K136, K137 */
static int fates(void *arg)
{
    static const enum order ends[] = {END_WELL, END_BADLY, CRASH, PANIC, BE_DEAF};
    static const enum fate table[3][5] = {
        [KIN_TRANSIENT] = {KEPT, RESTARTED, RESTARTED, KEPT, KEPT},
        [KIN_PERMANENT] = {RESTARTED, RESTARTED, RESTARTED, KEPT, KEPT},
        [KIN_TEMPORARY] = {GONE, GONE, GONE, GONE, GONE}};
    (void)arg;

    for (int restart = KIN_TRANSIENT; restart <= KIN_TEMPORARY; restart++)
        for (int i = 0; i < 5; i++)
            expect_fate((enum kin_restart)restart, ends[i], table[restart][i]);
    return 0;
}

KIN_TEST(every_kind_of_child_after_every_kind_of_end,
         "SUP-CHILD-FAILED SUP-STOP-CHILD SUP-RESTART-CHILD SINV-2")
{
    run_on_few(fates, NULL);
}

/* A child that is over before it is adopted: how it ended is known all the same. */
static int over_at_once(void *arg)
{
    return *(int *)arg;
}

static int start_over(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    struct kin_task_ref ref;
    int rc = kin_spawn_with(n, NULL, over_at_once, (void *)(uintptr_t)arg, 0, &ref);
    struct kin_monitor_ref watch;
    struct kin_info info;
    if (rc < 0)
        return rc;
    *out = kin_task_addr(ref);
    EXPECT_EQ(kin_monitor(*out, &watch), 0);
    EXPECT_EQ(kin_wait_down(watch, &info, KIN_NEVER), 0); /* it is over now */
    return 0;
}

static int known_ends(void *arg)
{
    static struct house house;
    int ends[] = {0, -EXDEV};
    (void)arg;

    furnish(&house, 0, KIN_TRANSIENT);
    for (int i = 0; i < 2; i++)
        house.specs[i] = (struct kin_child_spec){
            .name = i ? "bad" : "good", .start = start_over, .arg = &ends[i]};
    house.options.max_restarts = 2;
    move_in(&house, 2);
    /* the bad one is restarted twice, and then once too often */
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), KIN_EXHAUSTED);
    return 0;
}

KIN_TEST(the_end_of_a_child_that_was_over_before_it_was_adopted_is_known, "SUP-CHILD-FAILED")
{
    run_on_few(known_ends, NULL);
}

/* ---- plans ---- */

static void await_diary(struct house *house, const char *expected)
{
    char line[DIARY * 8];
    while (strlen(read_diary(&house->diary, line)) < strlen(expected))
        kin_ignore(kin_yield());
    EXPECT_STR(line, expected);
}

static void expect_plan(enum kin_strategy strategy, const char *failed, const char *expected)
{
    static struct house house;
    struct kin_child_counts counts;

    furnish(&house, 4, KIN_TRANSIENT);
    house.options.strategy = strategy;
    house.options.max_restarts = 1; /* one plan, one entry */
    move_in(&house, 4);
    end_kid(&house, failed, END_BADLY);
    await_diary(&house, expected);
    do {
        kin_ignore(kin_yield());
        EXPECT_EQ(kin_supervisor_count_children(house.sup, &counts, KIN_NEVER), 0);
    } while (counts.active < 4);
    EXPECT_EQ(counts.specs, 4);
    move_out(&house);
}

/* K098, K100, K103, K120; D16 */
static int plans(void *arg)
{
    (void)arg;
    expect_plan(KIN_ONE_FOR_ONE, "b", "+a +b +c +d -b +b");
    expect_plan(KIN_ONE_FOR_ALL, "b", "+a +b +c +d -b -d -c -a +a +b +c +d");
    expect_plan(KIN_ONE_FOR_ALL, "d", "+a +b +c +d -d -c -b -a +a +b +c +d");
    expect_plan(KIN_REST_FOR_ONE, "b", "+a +b +c +d -b -d -c +b +c +d");
    expect_plan(KIN_REST_FOR_ONE, "d", "+a +b +c +d -d +d");
    expect_plan(KIN_REST_FOR_ONE, "a", "+a +b +c +d -a -d -c -b +a +b +c +d");
    return 0;
}

KIN_TEST(plans_cancel_in_reverse_and_restart_in_order_and_count_once,
         "SUP-PLAN-RESTART SUP-CANCEL-CHILD SUP-RESTART-CHILD")
{
    run_on_few(plans, NULL);
}

/* K095: a temporary sibling goes with the plan and does not come back; one that is lost, or was
 * terminated, is not brought back by a plan either; one that was done is. */
static int bystanders(void *arg)
{
    static struct house house;
    (void)arg;

    furnish(&house, 5, KIN_TRANSIENT);
    house.options.strategy = KIN_ONE_FOR_ALL;
    house.specs[1].restart = KIN_TEMPORARY;
    move_in(&house, 5);
    end_kid(&house, "c", PANIC);
    await_state(&house, "c", KIN_CHILD_STOPPED);
    end_kid(&house, "d", END_WELL);
    await_state(&house, "d", KIN_CHILD_STOPPED);
    EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "e", KIN_NEVER), 0);
    EXPECT_DIARY(&house.diary, "+a +b +c +d +e -d -e"); /* after a panic no on_stop runs */
    end_kid(&house, "a", CRASH);
    await_restarts(&house, "a", 1);
    await_restarts(&house, "d", 1);
    EXPECT_DIARY(&house.diary, "+a +b +c +d +e -d -e -a -b +a +d");
    EXPECT_EQ(info_of(&house, "b").name == NULL, 1);
    EXPECT_EQ(info_of(&house, "c").state, KIN_CHILD_STOPPED);
    EXPECT_EQ(info_of(&house, "e").state, KIN_CHILD_STOPPED);
    move_out(&house);
    return 0;
}

KIN_TEST(a_plan_leaves_those_alone_who_were_lost_or_stopped_by_hand, "SINV-2 SUP-STOP-CHILD")
{
    run_on_few(bystanders, NULL);
}

/* A second failure while a plan is under way makes one larger plan. */
static int second_failure(void *arg)
{
    static struct house house;
    (void)arg;

    furnish(&house, 4, KIN_TRANSIENT);
    house.options.strategy = KIN_REST_FOR_ONE;
    move_in(&house, 4);
    tell_kid(&house, "d", WAIT_DEAF);
    await(&house.kids[3].is_deaf, 1);
    end_kid(&house, "c", END_BADLY); /* the plan waits for d */
    while (info_of(&house, "c").state != KIN_CHILD_RESTARTING)
        kin_ignore(kin_yield());
    end_kid(&house, "a", END_BADLY);
    while (info_of(&house, "a").state != KIN_CHILD_RESTARTING)
        kin_ignore(kin_yield());
    kin_event_set(&house.kids[3].gate);
    await_restarts(&house, "d", 1);
    EXPECT_DIARY(&house.diary, "+a +b +c +d -c -a -d -b +a +b +c +d");
    move_out(&house);
    return 0;
}

KIN_TEST(a_failure_before_the_range_of_a_plan_makes_the_plan_larger, "SUP-PLAN-RESTART")
{
    run_on_few(second_failure, NULL);
}

/* A failure of one that the plan has already started begins the plan again. */
static int failure_while_starting(void *arg)
{
    static struct house house;
    (void)arg;

    furnish(&house, 3, KIN_TRANSIENT);
    house.options.strategy = KIN_ONE_FOR_ALL;
    move_in(&house, 3);
    atomic_store(&house.kids[1].start_waits, 1);
    end_kid(&house, "c", END_BADLY);
    await(&house.kids[1].starts, 2); /* a runs again, b waits in its start */
    tell_kid(&house, "a", END_BADLY);
    await(&house.kids[0].starts, 3); /* b's start was cancelled, and the plan began anew */
    kin_event_set(&house.kids[1].gate);
    await_restarts(&house, "c", 1);
    EXPECT_DIARY(&house.diary, "+a +b +c -c -b -a +a +b -a +a +b +c");
    move_out(&house);
    return 0;
}

KIN_TEST(a_failure_of_one_that_a_plan_has_restarted_begins_it_again, "SUP-PLAN-RESTART")
{
    run_on_few(failure_while_starting, NULL);
}

/* The same where the plan is that of one before: whoever it has restarted is restarted again. */
static int failure_behind_the_first(void *arg)
{
    static struct house house;
    (void)arg;

    furnish(&house, 3, KIN_TRANSIENT);
    house.options.strategy = KIN_REST_FOR_ONE;
    move_in(&house, 3);
    atomic_store(&house.kids[2].start_waits, 1);
    end_kid(&house, "a", END_BADLY);
    await(&house.kids[2].starts, 2); /* a and b run again, c waits in its start */
    tell_kid(&house, "b", END_BADLY);
    await(&house.kids[1].starts, 3);
    EXPECT_EQ(atomic_load(&house.kids[0].starts), 3);
    kin_event_set(&house.kids[2].gate);
    await_restarts(&house, "c", 1);
    EXPECT_DIARY(&house.diary, "+a +b +c -a -c -b +a +b +c -b -a +a +b +c");
    move_out(&house);
    return 0;
}

KIN_TEST(a_plan_that_begins_again_does_not_forget_whom_it_has_restarted, "SUP-PLAN-RESTART")
{
    run_on_few(failure_behind_the_first, NULL);
}

/* ---- intensity ---- */

/* K098, K132, K101: so many restarts and one more; the others are stopped in reverse. */
static void expect_exhaustion(enum kin_strategy strategy, unsigned max, int restarts)
{
    static struct house house;
    char line[DIARY * 8];

    furnish(&house, 3, KIN_TRANSIENT);
    house.options.strategy = strategy;
    house.options.max_restarts = max;
    house.options.window = KIN_SEC(100000);
    move_in(&house, 3);
    for (int i = 0; i < restarts; i++) {
        end_kid(&house, "b", CRASH);
        await_restarts(&house, "b", (unsigned)i + 1);
        await_state(&house, "c", KIN_CHILD_RUNNING);
    }
    end_kid(&house, "b", CRASH);
    struct kin_outcome how = outcome_of(&house);
    EXPECT_EQ(how.severity, KIN_SEV_ERROR);
    EXPECT_EQ(how.status, KIN_EXHAUSTED);
    read_diary(&house.diary, line);
    EXPECT_STR(line + strlen(line) - 8, "-b -c -a");
    EXPECT_EQ(atomic_load(&house.kids[1].starts), 1 + restarts);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), KIN_EXHAUSTED);
}

static int intensities(void *arg)
{
    (void)arg;
    expect_exhaustion(KIN_ONE_FOR_ONE, 0, 3); /* the default */
    expect_exhaustion(KIN_ONE_FOR_ONE, 2, 2);
    expect_exhaustion(KIN_ONE_FOR_ONE, KIN_NO_RESTARTS, 0);
    expect_exhaustion(KIN_ONE_FOR_ALL, 2, 2);
    expect_exhaustion(KIN_ONE_FOR_ALL, KIN_NO_RESTARTS, 0);
    expect_exhaustion(KIN_REST_FOR_ONE, 1, 1);
    return 0;
}

KIN_TEST(one_restart_too_many_ends_the_supervisor, "SUP-BUDGET-EXCEEDED")
{
    run_on_few(intensities, NULL);
}

static void note_giving_up(const struct kin_supervisor_event *event, void *arg)
{
    if (event->kind == KIN_EVENT_EXHAUSTED)
        atomic_store((_Atomic int *)arg, 1);
}

static int stop_the_supervisor(void *arg)
{
    int rc = kin_server_stop(((struct house *)arg)->sup, 0, KIN_NEVER);
    EXPECT(rc == 0 || rc == KIN_NOPROC || rc == KIN_EXHAUSTED);
    return 0;
}

/* It has given up and waits for its last child when somebody stops it, which it hears of before the
 * end of the child. */
static int stop_one_that_gave_up(void *arg)
{
    static struct house house;
    static _Atomic int has_given_up;
    struct kin_child_info infos[2];
    (void)arg;

    furnish(&house, 2, KIN_TRANSIENT);
    atomic_store(&has_given_up, 0);
    house.options.max_restarts = KIN_NO_RESTARTS;
    house.options.on_event = note_giving_up;
    house.options.event_arg = (void *)&has_given_up;
    house.specs[1].shutdown = KIN_SEC(100000);
    move_in(&house, 2);
    tell_kid(&house, "b", WAIT_DEAF);
    await(&house.kids[1].is_deaf, 1);
    tell_kid(&house, "a", END_BADLY);
    await(&has_given_up, 1);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, stop_the_supervisor, &house), 0);
    while (kin_supervisor_which_children(house.sup, infos, 2, KIN_NEVER) != KIN_STOPPING)
        kin_ignore(kin_yield()); /* ends: it is asked to stop, and says so from then on */
    kin_event_set(&house.kids[1].gate);
    EXPECT_EQ(outcome_of(&house).status, KIN_EXHAUSTED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), KIN_EXHAUSTED);
    return 0;
}

KIN_TEST(the_first_reason_to_close_down_counts, "SUP-BUDGET-EXCEEDED D16")
{
    run_on_few(stop_one_that_gave_up, NULL);
}

/* K097: restarts that are a window apart are never too many. */
static int slow_crashes(void *arg)
{
    static struct house house;
    (void)arg;

    furnish(&house, 1, KIN_TRANSIENT);
    house.options.max_restarts = 1;
    house.options.window = KIN_MS(2);
    move_in(&house, 1);
    for (unsigned i = 1; i <= 4; i++) {
        end_kid(&house, "a", CRASH);
        await_restarts(&house, "a", i);
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(2))), 0); /* the window passes */
    }
    move_out(&house);
    return 0;
}

KIN_TEST(crashes_that_are_a_window_apart_go_on_for_ever, "SUP-BUDGET-EXCEEDED")
{
    run_on_few(slow_crashes, NULL);
}

/* ---- starts that fail ---- */

/* D8: an attempt that failed counts, and is retried while the supervisor answers. */
static int failed_attempts(void *arg)
{
    static struct house house;
    struct kin_child_counts counts;
    (void)arg;

    furnish(&house, 2, KIN_PERMANENT);
    house.options.max_restarts = 3;
    house.options.window = KIN_SEC(100000);
    house.specs[0].backoff = (struct kin_backoff){KIN_MS(5), KIN_MS(5), 100, 0};
    move_in(&house, 2);
    atomic_store(&house.kids[0].start_status, -EAGAIN);
    atomic_store(&house.kids[0].start_fails, 2);
    atomic_store(&house.kids[0].start_waits, 1);
    kin_time before = kin_now();
    end_kid(&house, "a", CRASH); /* the first entry */
    EXPECT_EQ(await_state(&house, "a", KIN_CHILD_RESTARTING).status, -EPIPE);
    EXPECT_EQ(kin_supervisor_count_children(house.sup, &counts, KIN_NEVER), 0);
    EXPECT_EQ(counts.restarting, 1); /* it answers */
    EXPECT_EQ(counts.active, 1);
    kin_event_set(&house.kids[0].gate); /* two attempts fail, which are two entries more */
    struct kin_child_info info = await_restarts(&house, "a", 1);
    EXPECT_GE(kin_now() - before, KIN_MS(15));
    EXPECT_EQ(atomic_load(&house.kids[0].starts), 4);
    EXPECT_EQ(info.restarts, 1);
    tell(info.addr, CRASH); /* one too many */
    EXPECT_EQ(outcome_of(&house).status, KIN_EXHAUSTED);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), KIN_EXHAUSTED);
    return 0;
}

KIN_TEST(attempts_that_fail_count_and_are_retried_after_the_backoff,
         "SUP-RESTART-CHILD SUP-BUDGET-EXCEEDED")
{
    run_on_few(failed_attempts, NULL);
}

static int hopeless(void *arg)
{
    static struct house house;
    (void)arg;

    furnish(&house, 3, KIN_PERMANENT);
    house.options.strategy = (enum kin_strategy) * (int *)arg;
    move_in(&house, 3);
    atomic_store(&house.kids[1].start_status, -ENODEV);
    end_kid(&house, "b", CRASH);
    EXPECT_EQ(outcome_of(&house).status, KIN_EXHAUSTED);
    EXPECT_EQ(atomic_load(&house.kids[1].starts), 1 + 3);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), KIN_EXHAUSTED);
    return 0;
}

KIN_TEST(a_child_that_cannot_be_restarted_exhausts_its_supervisor, "SUP-BUDGET-EXCEEDED")
{
    int strategies[] = {KIN_ONE_FOR_ONE, KIN_ONE_FOR_ALL, KIN_REST_FOR_ONE};
    for (int i = 0; i < 3; i++)
        run_on_few(hopeless, &strategies[i]);
}

/* A restart that is declined leaves the child stopped; one that panics is a panic. */
static int odd_restarts(void *arg)
{
    static struct house house;
    (void)arg;

    furnish(&house, 2, KIN_PERMANENT);
    move_in(&house, 2);
    atomic_store(&house.kids[0].start_status, KIN_IGNORE);
    atomic_store(&house.kids[1].start_panics, 1);
    end_kid(&house, "a", CRASH);
    await_state(&house, "a", KIN_CHILD_STOPPED);
    end_kid(&house, "b", CRASH);
    EXPECT_EQ(await_state(&house, "b", KIN_CHILD_STOPPED).status, KIN_PANICKED);
    EXPECT_EQ(atomic_load(&house.kids[0].starts), 2);
    EXPECT_EQ(atomic_load(&house.kids[1].starts), 2);
    move_out(&house);
    return 0;
}

KIN_TEST(a_restart_that_is_declined_or_panics_is_not_tried_again, "SINV-2")
{
    run_on_few(odd_restarts, NULL);
}

/* ---- escalation ---- */

struct nest {
    struct house inner;
    _Atomic int starts;
};

/* A supervisor as a child. */
static int start_nest(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    struct nest *nest = (struct nest *)(uintptr_t)arg;
    atomic_fetch_add(&nest->starts, 1);
    int rc = kin_supervisor_start(n, &nest->inner.options, nest->inner.specs, 2, out);
    if (rc == 0)
        nest->inner.sup = *out;
    return rc;
}

static void move_in_nested(struct house *outer, struct nest *nest, enum kin_restart restart,
                           enum kin_escalation escalation)
{
    memset(nest, 0, sizeof *nest);
    furnish(&nest->inner, 2, KIN_TRANSIENT);
    nest->inner.options.max_restarts = KIN_NO_RESTARTS;
    nest->inner.options.escalation = escalation;
    furnish(outer, 1, restart);
    outer->specs[0] = (struct kin_child_spec){
        .name = "nest", .start = start_nest, .arg = nest, .restart = restart};
    move_in(outer, 1);
}

/* With STOP a supervisor that gave up is restarted only if it is permanent; with ESCALATE it has
 * failed as any child does. */
static int nested(void *arg)
{
    static struct house outer;
    static struct nest nest;
    (void)arg;

    for (int i = 0; i < 4; i++) {
        enum kin_restart restart = i & 1 ? KIN_PERMANENT : KIN_TRANSIENT;
        enum kin_escalation escalation = i & 2 ? KIN_ESCALATION_ESCALATE : KIN_ESCALATION_STOP;
        move_in_nested(&outer, &nest, restart, escalation);
        end_kid(&nest.inner, "a", CRASH);
        if (i == 0) {
            struct kin_child_info info = await_state(&outer, "nest", KIN_CHILD_STOPPED);
            EXPECT_EQ(info.status, KIN_EXHAUSTED);
            EXPECT_EQ(atomic_load(&nest.starts), 1);
        } else {
            EXPECT_EQ(await_restarts(&outer, "nest", 1).status, KIN_EXHAUSTED);
            EXPECT_EQ(atomic_load(&nest.starts), 2);
        }
        move_out(&outer);
    }
    return 0;
}

KIN_TEST(a_supervisor_that_gave_up_is_restarted_as_its_escalation_says,
         "SUP-BUDGET-EXCEEDED SUP-ESCALATE")
{
    run_on_few(nested, NULL);
}

/* K112: the static part of a subtree is rebuilt, what was added is gone. */
static int tree(void *arg)
{
    static struct house outer;
    static struct nest nest;
    struct kin_addr added;
    (void)arg;

    move_in_nested(&outer, &nest, KIN_PERMANENT, KIN_ESCALATION_STOP);
    struct kin_child_spec spec = {
        .name = "h", .start = kid_start, .arg = &nest.inner.kids[7], .restart = KIN_PERMANENT};
    EXPECT_EQ(kin_supervisor_start_child(nest.inner.sup, &spec, &added, KIN_NEVER), 0);
    end_kid(&nest.inner, "b", CRASH);
    await_restarts(&outer, "nest", 1);
    EXPECT_DIARY(&nest.inner.diary, "+a +b +h -b -h -a +a +b");
    EXPECT_EQ(kin_supervisor_which_children(nest.inner.sup, NULL, 0, KIN_NEVER), 2);
    move_out(&outer);
    return 0;
}

KIN_TEST(a_subtree_that_is_rebuilt_has_what_it_was_started_with, "SUP-RESTART-CHILD")
{
    run_on_few(tree, NULL);
}

/* RESET forgives, after a delay that grows. */
static int resets(void *arg)
{
    static struct house house;
    (void)arg;

    furnish(&house, 1, KIN_PERMANENT);
    house.options.max_restarts = KIN_NO_RESTARTS;
    house.options.window = KIN_SEC(100000);
    house.options.escalation = KIN_ESCALATION_RESET;
    house.options.reset_backoff = (struct kin_backoff){KIN_MS(2), KIN_MS(4), 200, 0};
    move_in(&house, 1);
    for (unsigned i = 1; i <= 4; i++) {
        kin_time before = kin_now();
        end_kid(&house, "a", CRASH);
        await_restarts(&house, "a", i);
        EXPECT_GE(kin_now() - before, i == 1 ? KIN_MS(2) : KIN_MS(4));
    }
    move_out(&house);
    return 0;
}

KIN_TEST(a_reset_forgives_after_a_delay_that_grows, "SUP-BUDGET-EXCEEDED")
{
    run_on_few(resets, NULL);
}

/* A KIN_ESCALATE child: its failure, panic or cancel is the supervisor's; a good end is not. */
static int escalating(void *arg)
{
    static const enum order ends[] = {END_BADLY, CRASH, PANIC, BE_DEAF};
    static struct house house;
    (void)arg;

    for (int i = 0; i < 4; i++) {
        furnish(&house, 2, KIN_ESCALATE);
        move_in(&house, 2);
        end_a(&house, ends[i]);
        struct kin_outcome how = outcome_of(&house);
        EXPECT_EQ(how.severity, KIN_SEV_ERROR);
        EXPECT_EQ(how.status, outcome_by(ends[i]).status);
        EXPECT_EQ(atomic_load(&house.kids[0].starts), 1);
        EXPECT_EQ(atomic_load(&house.kids[1].stops), 1);
        EXPECT_EQ(kin_nursery_join(&house.n, NULL), how.status);
    }
    furnish(&house, 2, KIN_ESCALATE);
    move_in(&house, 2);
    end_a(&house, END_WELL);
    await_state(&house, "a", KIN_CHILD_STOPPED);
    move_out(&house);
    return 0;
}

KIN_TEST(the_failure_of_a_child_that_escalates_is_its_supervisors, "SUP-ESCALATE")
{
    run_on_few(escalating, NULL);
}

/* on_child_stopped: what the loss of a permanent child means. */
static int losses(void *arg)
{
    static struct house house;
    (void)arg;

    for (int i = 0; i < 4; i++) {
        enum order end = i & 1 ? PANIC : BE_DEAF;
        furnish(&house, 2, KIN_PERMANENT);
        house.options.on_child_stopped =
            i & 2 ? KIN_STOPPED_ESCALATE : KIN_STOPPED_STOP_SUPERVISOR;
        move_in(&house, 2);
        end_a(&house, end);
        struct kin_outcome how = outcome_of(&house);
        EXPECT_EQ(how.severity, i & 2 ? KIN_SEV_ERROR : KIN_SEV_OK);
        EXPECT_EQ(how.status, i & 2 ? outcome_by(end).status : 0);
        EXPECT_EQ(atomic_load(&house.kids[1].stops), 1);
        EXPECT_EQ(atomic_load(&house.kids[0].starts), 1);
        kin_ignore(kin_nursery_join(&house.n, NULL));
    }
    furnish(&house, 2, KIN_TRANSIENT); /* of others it says nothing */
    house.options.on_child_stopped = KIN_STOPPED_ESCALATE;
    move_in(&house, 2);
    end_a(&house, BE_DEAF);
    await_state(&house, "a", KIN_CHILD_STOPPED);
    move_out(&house);
    return 0;
}

KIN_TEST(the_loss_of_a_permanent_child_is_kept_ends_or_escalates, "SINV-2 SUP-ESCALATE")
{
    run_on_few(losses, NULL);
}

static int lose_a(void *arg)
{
    static struct house house;
    (void)arg;
    furnish(&house, 1, KIN_PERMANENT);
    move_in(&house, 1);
    end_a(&house, BE_DEAF);
    await_state(&house, "a", KIN_CHILD_STOPPED);
    move_out(&house);
    return 0;
}

KIN_TEST(the_loss_of_a_permanent_child_is_reported, "SUP-STOP-CHILD")
{
    static struct reports reports;
    EXPECT_EQ(run_reporting(2, lose_a, NULL, &reports), 0);
    EXPECT_EQ(atomic_load(&reports.count), 1);
    EXPECT_EQ(reports.status[0], KIN_CANCELLED);
    EXPECT(strstr(reports.text[0], "permanent child a (task ") != NULL);
    EXPECT(strstr(reports.text[0], "was cancelled, and is not started again") != NULL);
}

/* ---- auto shutdown ---- */

/* Whether the end of these kids, one after the other, shuts the supervisor down. */
static bool shuts_down(enum kin_auto_shutdown mode, enum kin_restart restart, bool significant,
                       enum order end, int count)
{
    static struct house house;
    struct kin_child_counts counts;

    furnish(&house, 3, restart);
    house.options.auto_shutdown = mode;
    house.specs[0].significant = house.specs[1].significant = significant;
    house.specs[2].restart = KIN_PERMANENT;
    move_in(&house, 3);
    for (int i = 0; i < count; i++) {
        struct kin_child_info before = info_of(&house, house.kids[i].name), info;
        tell(before.addr, end);
        do { /* until the supervisor has dealt with it */
            kin_ignore(kin_yield());
            info = info_of(&house, house.kids[i].name);
        } while (info.name && info.state == KIN_CHILD_RUNNING &&
                 kin_addr_same(info.addr, before.addr));
    }
    bool is_over = kin_supervisor_count_children(house.sup, &counts, KIN_NEVER) != 0;
    if (is_over) {
        struct kin_outcome how = outcome_of(&house);
        EXPECT_EQ(how.severity, KIN_SEV_OK);
        EXPECT_EQ(atomic_load(&house.kids[2].stops), 1);
    }
    move_out(&house);
    return is_over;
}

/* K123, K124, K125 */
static int auto_shutdowns(void *arg)
{
    (void)arg;
    for (int mode = KIN_AUTO_SHUTDOWN_NEVER; mode <= KIN_AUTO_SHUTDOWN_ALL; mode++) {
        EXPECT(!shuts_down((enum kin_auto_shutdown)mode, KIN_TEMPORARY, false, END_WELL, 2));
        EXPECT(!shuts_down((enum kin_auto_shutdown)mode, KIN_TRANSIENT, false, END_WELL, 2));
    }
    EXPECT(shuts_down(KIN_AUTO_SHUTDOWN_ANY, KIN_TEMPORARY, true, END_WELL, 1));
    EXPECT(shuts_down(KIN_AUTO_SHUTDOWN_ANY, KIN_TEMPORARY, true, CRASH, 1));
    EXPECT(shuts_down(KIN_AUTO_SHUTDOWN_ANY, KIN_TEMPORARY, true, PANIC, 1));
    EXPECT(shuts_down(KIN_AUTO_SHUTDOWN_ANY, KIN_TRANSIENT, true, END_WELL, 1));
    EXPECT(shuts_down(KIN_AUTO_SHUTDOWN_ANY, KIN_TRANSIENT, true, PANIC, 1));
    EXPECT(!shuts_down(KIN_AUTO_SHUTDOWN_ANY, KIN_TRANSIENT, true, CRASH, 1));
    EXPECT(!shuts_down(KIN_AUTO_SHUTDOWN_ALL, KIN_TEMPORARY, true, END_WELL, 1));
    EXPECT(shuts_down(KIN_AUTO_SHUTDOWN_ALL, KIN_TEMPORARY, true, END_WELL, 2));
    EXPECT(shuts_down(KIN_AUTO_SHUTDOWN_ALL, KIN_TRANSIENT, true, END_WELL, 2));
    return 0;
}

KIN_TEST(significant_children_take_their_supervisor_with_them_as_it_is_told, "")
{
    run_on_few(auto_shutdowns, NULL);
}

static int by_hand(void *arg)
{
    static struct house house;
    struct kin_child_counts counts;
    (void)arg;

    furnish(&house, 2, KIN_TEMPORARY);
    house.options.auto_shutdown = KIN_AUTO_SHUTDOWN_ANY;
    house.specs[0].significant = true;
    move_in(&house, 2);
    EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "a", KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_count_children(house.sup, &counts, KIN_NEVER), 0);
    EXPECT_EQ(counts.active, 1);
    move_out(&house);
    return 0;
}

KIN_TEST(a_significant_child_that_is_terminated_shuts_nothing_down, "")
{
    run_on_few(by_hand, NULL);
}

/* ---- backoff ---- */

static int backoffs(void *arg)
{
    static struct house house;
    (void)arg;

    furnish(&house, 2, KIN_TRANSIENT);
    house.options.strategy = KIN_REST_FOR_ONE;
    house.options.max_restarts = 10;
    house.options.window = KIN_SEC(100000);
    house.specs[0].backoff = (struct kin_backoff){KIN_MS(2), KIN_MS(6), 0, 0};
    move_in(&house, 2);
    for (unsigned i = 1; i <= 3; i++) {
        kin_time before = kin_now();
        end_kid(&house, "a", CRASH);
        await_restarts(&house, "b", i);
        EXPECT_GE(kin_now() - before, i == 1 ? KIN_MS(2) : i == 2 ? KIN_MS(4) : KIN_MS(6));
    }
    move_out(&house);
    return 0;
}

/* The second delay would take an hour, if the first run had not been as long as a window. */
static int backoff_anew(void *arg)
{
    static struct house house;
    (void)arg;

    furnish(&house, 1, KIN_TRANSIENT);
    house.options.window = KIN_MS(1);
    house.specs[0].backoff = (struct kin_backoff){KIN_MS(1), KIN_SEC(3600), 400000000, 0};
    move_in(&house, 1);
    for (unsigned i = 1; i <= 3; i++) {
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0); /* it runs for a window */
        end_kid(&house, "a", CRASH);
        await_restarts(&house, "a", i);
    }
    move_out(&house);
    return 0;
}

KIN_TEST(a_backoff_begins_anew_after_a_run_of_a_window, "SUP-RESTART-CHILD")
{
    run_on_few(backoff_anew, NULL);
}

KIN_TEST(a_plan_waits_for_the_backoff_of_the_child_that_failed, "SUP-RESTART-CHILD")
{
    run_on_few(backoffs, NULL);
}
