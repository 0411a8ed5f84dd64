/* SPDX-License-Identifier: MIT */
/*
 * Goal: how children are asked to stop: in which order, on which ladder, and that a supervisor
 * always comes to its end and leaves nobody.
 * Method: black box on 1, 2 and 4 workers with children that notice when they are asked, that are
 * slow, deaf, or stuck; stops in every phase of a supervisor's life; white box where memory runs
 * out at the moment when a child is adopted.
 */
#include "otp/kids.h"

#include "otp/supervisor.h"
#include "plat/plat.h"

/* ---- in order ---- */

struct turn {
    _Atomic int begun, asked, over, worst;
    int count; /* of template children: all wait for each other */
};

/* Waits for its cancellation, takes its time, and notes how many others were asked meanwhile. */
static int take_turn(void *arg)
{
    struct turn *turn = arg;
    atomic_fetch_add(&turn->begun, 1);
    kin_ignore(kin_sleep(KIN_NEVER));
    int inside = atomic_fetch_add(&turn->asked, 1) + 1 - atomic_load(&turn->over);
    if (inside > atomic_load(&turn->worst))
        atomic_store(&turn->worst, inside);
    kin_mask();
    for (int i = 0; i < 30; i++)
        kin_ignore(kin_yield());
    while (atomic_load(&turn->asked) < turn->count)
        kin_ignore(kin_yield());
    inside = atomic_load(&turn->asked) - atomic_load(&turn->over);
    if (inside > atomic_load(&turn->worst))
        atomic_store(&turn->worst, inside);
    kin_unmask();
    atomic_fetch_add(&turn->over, 1);
    return KIN_CANCELLED;
}

static int start_turn(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    struct kin_task_ref ref;
    int rc = kin_spawn_with(n, NULL, take_turn, (void *)(uintptr_t)arg, 0, &ref);
    if (rc == 0)
        *out = kin_task_addr(ref);
    return rc;
}

static int one_after_the_other(void *arg)
{
    static struct house house;
    struct turn turn = {.count = 0};
    (void)arg;

    furnish(&house, 5, KIN_PERMANENT);
    for (int i = 0; i < 5; i++) {
        house.specs[i].start = start_turn;
        house.specs[i].arg = &turn;
    }
    move_in(&house, 5);
    await(&turn.begun, 5);
    EXPECT_EQ(kin_server_stop(house.sup, 0, KIN_NEVER), 0);
    EXPECT_EQ(atomic_load(&turn.over), 5);
    EXPECT_EQ(atomic_load(&turn.worst), 1);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), 0);
    return 0;
}

KIN_TEST(each_child_is_over_before_the_next_is_asked, "SUP-CANCEL-CHILD")
{
    run_on_few(one_after_the_other, NULL);
}

/* K107: were they asked one after the other, the first would wait for the second for ever. */
static int all_at_once(void *arg)
{
    static struct house house;
    struct turn turn = {.count = 3};
    struct kin_child_spec spec = {.start = start_turn, .arg = &turn, .shutdown = KIN_NEVER};
    struct kin_addr out;
    (void)arg;

    furnish(&house, 0, KIN_TRANSIENT);
    house.options.strategy = KIN_TEMPLATE;
    move_in(&house, 0);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_supervisor_start_child(house.sup, &spec, &out, KIN_NEVER), 0);
    await(&turn.begun, 3);
    EXPECT_EQ(kin_server_stop(house.sup, 0, KIN_NEVER), 0);
    EXPECT_EQ(atomic_load(&turn.over), 3);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), 0);
    return 0;
}

KIN_TEST(template_children_are_asked_all_at_once, "SUP-CANCEL-CHILD")
{
    run_on_few(all_at_once, NULL);
}

/* ---- by whom ---- */

/* Cancelling the nursery, or the supervisor alone, is an orderly shutdown. */
static int cancels(void *arg)
{
    static struct house house;
    struct kin_outcome how;
    (void)arg;

    for (int i = 0; i < 2; i++) {
        furnish(&house, 3, KIN_PERMANENT);
        move_in(&house, 3);
        if (i == 0) {
            kin_nursery_cancel(&house.n, 0);
            EXPECT_EQ(kin_nursery_join(&house.n, &how), KIN_CANCELLED);
        } else {
            EXPECT_EQ(kin_task_cancel((struct kin_task_ref){house.sup.id}), 0);
            EXPECT_EQ(outcome_of(&house).severity, KIN_SEV_CANCELLED);
            EXPECT_EQ(kin_nursery_join(&house.n, NULL), 0);
        }
        EXPECT_DIARY(&house.diary, "+a +b +c -c -b -a");
    }
    return 0;
}

KIN_TEST(a_cancelled_supervisor_shuts_down_in_order, "SUP-CANCEL-CHILD")
{
    run_on_few(cancels, NULL);
}

struct nest {
    struct house inner;
};

static int start_nest(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    struct nest *nest = (struct nest *)(uintptr_t)arg;
    return kin_supervisor_start(n, NULL, nest->inner.specs, 2, out);
}

static int trees(void *arg)
{
    static struct house outer;
    static struct nest nests[2];
    (void)arg;

    furnish(&outer, 3, KIN_PERMANENT);
    for (int i = 0; i < 2; i++) {
        furnish(&nests[i].inner, 2, KIN_PERMANENT);
        for (int k = 0; k < 2; k++) {
            nests[i].inner.kids[k].diary = &outer.diary;
            snprintf(nests[i].inner.kids[k].name, 4, "%c%d", 'a' + k, i);
        }
        outer.specs[i].start = start_nest;
        outer.specs[i].arg = &nests[i];
    }
    move_in(&outer, 3);
    kin_nursery_cancel(&outer.n, 0);
    EXPECT_EQ(kin_nursery_join(&outer.n, NULL), KIN_CANCELLED);
    EXPECT_DIARY(&outer.diary, "+a0 +b0 +a1 +b1 +c -c -b1 -a1 -b0 -a0");
    return 0;
}

KIN_TEST(a_tree_of_supervisors_shuts_down_from_the_last_leaf_to_the_first, "SUP-CANCEL-CHILD")
{
    run_on_few(trees, NULL);
}

/* ---- the ladder ---- */

/* K081, K082: a deaf child is killed when its time is over, or at once. */
static int deaf_ones(void *arg)
{
    static const int64_t shutdowns[] = {KIN_BRUTAL, 1, KIN_MS(2)};
    static struct house house;
    (void)arg;

    for (int i = 0; i < 3; i++) {
        furnish(&house, 2, KIN_PERMANENT);
        house.specs[1].shutdown = shutdowns[i];
        move_in(&house, 2);
        tell_kid(&house, "b", BE_DEAF);
        await(&house.kids[1].is_deaf, 1);
        kin_time before = kin_now();
        if (i < 2)
            EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "b", KIN_NEVER), 0);
        else
            EXPECT_EQ(kin_server_stop(house.sup, 0, KIN_NEVER), 0);
        EXPECT_GE(kin_now() - before, shutdowns[i]);
        EXPECT_EQ(atomic_load(&house.kids[1].stops), 1); /* its cleanups ran all the same */
        if (i < 2)
            EXPECT_EQ(info_of(&house, "b").status, KIN_CANCELLED);
        move_out(&house);
    }
    return 0;
}

KIN_TEST(a_deaf_child_is_cancelled_without_regard_to_masks_after_its_time, "SUP-CANCEL-CHILD")
{
    run_on_few(deaf_ones, NULL);
}

/* K080, K085: KIN_NEVER waits; whoever stopped the supervisor need not. */
static int patient(void *arg)
{
    static struct house house;
    struct kin_child_counts counts;
    struct kin_addr out;
    (void)arg;

    furnish(&house, 2, KIN_PERMANENT);
    house.specs[1].shutdown = KIN_NEVER;
    move_in(&house, 2);
    tell_kid(&house, "b", WAIT_DEAF);
    await(&house.kids[1].is_deaf, 1);
    EXPECT_EQ(kin_server_stop(house.sup, 0, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    while (kin_server_state(house.sup) != KIN_SERVER_DRAINING)
        kin_ignore(kin_yield());
    EXPECT_EQ(kin_supervisor_count_children(house.sup, &counts, KIN_NEVER), KIN_STOPPING);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &house.specs[0], &out, KIN_NEVER),
              KIN_STOPPING);
    EXPECT_DIARY(&house.diary, "+a +b");
    kin_event_set(&house.kids[1].gate);
    EXPECT_EQ(outcome_of(&house).severity, KIN_SEV_OK);
    EXPECT_DIARY(&house.diary, "+a +b -b -a");
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), 0);
    return 0;
}

KIN_TEST(a_stop_goes_on_when_its_caller_leaves, "SUP-CANCEL-CHILD")
{
    run_on_few(patient, NULL);
}

static _Atomic int is_stuck, lets_go;

/* Ignores everything that it is told, until it is let go. */
static int ignore_all(void *arg)
{
    (void)arg;
    atomic_store(&is_stuck, 1);
    while (!atomic_load(&lets_go))
        kin_ignore(kin_yield());
    return 0;
}

static int start_stuck(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    struct kin_task_ref ref;
    (void)arg;
    int rc = kin_spawn_with(n, NULL, ignore_all, NULL, 0, &ref);
    if (rc == 0)
        *out = kin_task_addr(ref);
    return rc;
}

static struct reports stuck_reports;

static int stuck_one(void *arg)
{
    static struct house house;
    (void)arg;

    furnish(&house, 1, KIN_PERMANENT);
    house.specs[0].start = start_stuck;
    house.specs[0].shutdown = KIN_BRUTAL;
    atomic_store(&lets_go, 0);
    move_in(&house, 1);
    await(&is_stuck, 1);
    EXPECT_EQ(kin_server_stop(house.sup, 0, 1), KIN_TIMEOUT);
    while (atomic_load(&stuck_reports.count) == 0)
        kin_ignore(kin_sleep(kin_after(KIN_MS(20))));
    EXPECT_EQ(kin_server_state(house.sup), KIN_SERVER_DRAINING); /* nobody is let go of */
    atomic_store(&lets_go, 1);
    EXPECT_EQ(outcome_of(&house).severity, KIN_SEV_OK);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), 0);
    return 0;
}

KIN_TEST(a_child_that_ignores_even_that_is_reported_and_waited_for, "SUP-CANCEL-CHILD")
{
    kin__sup_report_ns = KIN_MS(30);
    EXPECT_EQ(run_reporting(2, stuck_one, NULL, &stuck_reports), 0);
    EXPECT_EQ(atomic_load(&stuck_reports.count), 1);
    EXPECT_EQ(stuck_reports.status[0], KIN_STUCK);
}

/* ---- no time left ---- */

/* Past the grace of the nursery the rest are cancelled at once, deaf or not. */
static int out_of_grace(void *arg)
{
    static struct house house;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    (void)arg;

    options.cancel_grace = KIN_MS(3);
    furnish(&house, 3, KIN_PERMANENT);
    for (int i = 0; i < 3; i++)
        house.specs[i].shutdown = KIN_NEVER;
    EXPECT_EQ(kin_nursery_open(&house.n, &options), 0);
    EXPECT_EQ(kin_supervisor_start(&house.n, NULL, house.specs, 3, &house.sup), 0);
    tell_kid(&house, "c", BE_DEAF);
    tell_kid(&house, "a", BE_DEAF);
    await(&house.kids[2].is_deaf, 1);
    await(&house.kids[0].is_deaf, 1);
    kin_nursery_cancel(&house.n, 0);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), KIN_CANCELLED);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(atomic_load(&house.kids[i].stops), 1);
    return 0;
}

KIN_TEST(past_the_grace_everybody_is_cancelled_at_once, "SUP-CANCEL-CHILD")
{
    run_on_few(out_of_grace, NULL);
}

/* A supervisor as a brutal child: it has no time, and its children have none. */
static int brutal_nest(void *arg)
{
    static struct house outer;
    static struct nest nest;
    (void)arg;

    furnish(&outer, 1, KIN_PERMANENT);
    furnish(&nest.inner, 2, KIN_PERMANENT);
    nest.inner.specs[0].shutdown = nest.inner.specs[1].shutdown = KIN_NEVER;
    outer.specs[0] = (struct kin_child_spec){
        .name = "nest", .start = start_nest, .arg = &nest, .shutdown = KIN_BRUTAL};
    move_in(&outer, 1);
    nest.inner.sup = info_of(&outer, "nest").addr;
    tell_kid(&nest.inner, "b", BE_DEAF);
    await(&nest.inner.kids[1].is_deaf, 1);
    EXPECT_EQ(kin_supervisor_terminate_child(outer.sup, "nest", KIN_NEVER), 0);
    EXPECT_EQ(atomic_load(&nest.inner.kids[0].stops), 1);
    EXPECT_EQ(atomic_load(&nest.inner.kids[1].stops), 1);
    move_out(&outer);
    return 0;
}

KIN_TEST(a_supervisor_that_is_killed_kills_its_children_and_waits_for_them, "SUP-CANCEL-CHILD")
{
    run_on_few(brutal_nest, NULL);
}

/* ---- in every phase ---- */

struct waiting {
    struct house *house;
    _Atomic int start_rc, end_rc;
};

static int wait_for_start(void *arg)
{
    struct waiting *waiting = arg;
    struct kin_addr out;
    int rc = kin_supervisor_start_child(waiting->house->sup, &waiting->house->specs[3], &out,
                                        KIN_NEVER);
    atomic_store(&waiting->start_rc, rc);
    return 0;
}

static int wait_for_end(void *arg)
{
    struct waiting *waiting = arg;
    int rc = kin_supervisor_terminate_child(waiting->house->sup, "a", KIN_NEVER);
    atomic_store(&waiting->end_rc, rc);
    return 0;
}

/* With callers that wait: a start is refused, an end comes. */
static int with_callers(void *arg)
{
    static struct house house;
    struct waiting waiting = {.house = &house};
    struct kin_nursery n;
    (void)arg;

    furnish(&house, 4, KIN_PERMANENT);
    house.specs[0].shutdown = KIN_NEVER;
    atomic_store(&house.kids[3].start_waits, 1);
    move_in(&house, 3);
    tell_kid(&house, "a", WAIT_DEAF);
    await(&house.kids[0].is_deaf, 1);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, wait_for_start, &waiting), 0);
    EXPECT_EQ(kin_spawn(&n, wait_for_end, &waiting), 0);
    await(&house.kids[3].starts, 1);
    await_parked(2, "call"); /* who calls later may find nobody */
    while (kin_server_stop(house.sup, 0, kin_after(KIN_MS(1))) != KIN_TIMEOUT)
        ;
    kin_event_set(&house.kids[0].gate);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&waiting.start_rc), KIN_STOPPING);
    EXPECT(atomic_load(&waiting.end_rc) == 0 || atomic_load(&waiting.end_rc) == KIN_STOPPING);
    EXPECT_EQ(outcome_of(&house).severity, KIN_SEV_OK);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), 0);
    return 0;
}

KIN_TEST(callers_that_wait_are_answered_when_the_supervisor_stops, "")
{
    run_on_few(with_callers, NULL);
}

/* In the phases of a plan, and in a backoff that would take hours. */
static int in_a_plan(void *arg)
{
    static struct house house;
    (void)arg;

    for (int phase = 0; phase < 4; phase++) {
        furnish(&house, 3, KIN_PERMANENT);
        house.options.strategy = phase == 3 ? KIN_ONE_FOR_ONE : KIN_ONE_FOR_ALL;
        house.specs[2].shutdown = KIN_NEVER;
        if (phase == 1 || phase == 3)
            house.specs[0].backoff = (struct kin_backoff){KIN_SEC(9999), KIN_SEC(9999), 0, 0};
        move_in(&house, 3);
        if (phase == 0) { /* STOPS: c is deaf */
            tell_kid(&house, "c", WAIT_DEAF);
            await(&house.kids[2].is_deaf, 1);
        }
        if (phase == 2) /* STARTS: b does not come up */
            atomic_store(&house.kids[1].start_waits, 1);
        end_kid(&house, "a", CRASH);
        await_state(&house, "a", phase == 2 ? KIN_CHILD_RUNNING : KIN_CHILD_RESTARTING);
        if (phase == 2)
            await(&house.kids[1].starts, 2);
        kin_nursery_cancel(&house.n, 0);
        if (phase == 0)
            kin_event_set(&house.kids[2].gate);
        EXPECT_EQ(kin_nursery_join(&house.n, NULL), KIN_CANCELLED);
        EXPECT_EQ(atomic_load(&house.kids[2].starts), atomic_load(&house.kids[2].stops));
    }
    return 0;
}

KIN_TEST(a_supervisor_can_be_cancelled_in_every_phase_of_a_plan, "SUP-CANCEL-CHILD")
{
    run_on_few(in_a_plan, NULL);
}

/* ---- what start functions leave behind ---- */

static _Atomic int helpers_begun, helpers_over;

static int help(void *arg)
{
    (void)arg;
    atomic_fetch_add(&helpers_begun, 1);
    int rc = kin_sleep(KIN_NEVER);
    atomic_fetch_add(&helpers_over, 1);
    return rc;
}

static int start_with_helper(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    int rc = kin_spawn(n, help, NULL);
    return rc < 0 ? rc : kid_start(n, arg, out);
}

static int helpers(void *arg)
{
    static struct house house;
    (void)arg;

    atomic_store(&helpers_begun, 0);
    atomic_store(&helpers_over, 0);
    furnish(&house, 2, KIN_PERMANENT);
    house.specs[0].start = house.specs[1].start = start_with_helper;
    move_in(&house, 2);
    await(&helpers_begun, 2);
    EXPECT_EQ(kin_server_stop(house.sup, 0, KIN_NEVER), 0);
    EXPECT_EQ(atomic_load(&helpers_over), 2); /* after the children, and before the end */
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), 0);
    return 0;
}

KIN_TEST(tasks_that_a_start_left_in_the_nursery_end_with_the_supervisor, "")
{
    run_on_few(helpers, NULL);
}

static int cancel_it(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    (void)arg, (void)out;
    kin_nursery_cancel(n, -EPERM);
    return -EPERM;
}

/* Somebody who has the nursery of a supervisor may cancel it: the supervisor ends. */
static int cancelled_from_within(void *arg)
{
    static struct house house;
    struct kin_addr out;
    struct kin_child_spec spec = {.name = "x", .start = cancel_it};
    (void)arg;

    furnish(&house, 2, KIN_PERMANENT);
    move_in(&house, 2);
    int rc = kin_supervisor_start_child(house.sup, &spec, &out, KIN_NEVER);
    EXPECT_EQ(rc, KIN_STOPPING);
    struct kin_outcome how = outcome_of(&house);
    EXPECT_EQ(how.severity, KIN_SEV_ERROR); /* nobody had asked it itself */
    EXPECT_EQ(how.status, -EPERM);          /* why its nursery was cancelled */
    EXPECT_EQ(atomic_load(&house.kids[0].stops), 1);
    EXPECT_EQ(atomic_load(&house.kids[1].stops), 1);
    kin_ignore(kin_nursery_join(&house.n, NULL));
    return 0;
}

KIN_TEST(a_supervisor_whose_nursery_is_cancelled_from_within_ends, "")
{
    run_on_few(cancelled_from_within, NULL);
}

/* ---- children that are not in the nursery ---- */

static int wait_for_cancel(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    int rc = kin_sleep(KIN_NEVER);
    atomic_fetch_add((_Atomic int *)arg, 1);
    return rc;
}

static int start_known(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    (void)n;
    *out = *(const struct kin_addr *)arg;
    return 0;
}

/* Two children that are one task, which lives in a nursery of somebody else: both end with it, and
 * how it ended is still known to the owner of that nursery. */
static int shared_task(void *arg)
{
    static struct house house;
    static _Atomic int steps;
    struct kin_nursery n;
    struct kin_task_ref task;
    struct kin_outcome how;
    (void)arg;

    atomic_store(&steps, 0);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, wait_for_cancel, &steps, 0, &task), 0);
    struct kin_addr addr = kin_task_addr(task);
    furnish(&house, 2, KIN_TRANSIENT);
    for (int i = 0; i < 2; i++) {
        house.specs[i].start = start_known;
        house.specs[i].arg = &addr;
        house.specs[i].arg_size = sizeof addr;
    }
    move_in(&house, 2);
    await(&steps, 1);
    EXPECT_EQ(kin_supervisor_terminate_addr(house.sup, addr, KIN_NEVER), 0);
    EXPECT_EQ(atomic_load(&steps), 2);
    await_state(&house, "a", KIN_CHILD_STOPPED);
    await_state(&house, "b", KIN_CHILD_STOPPED);
    EXPECT_EQ(kin_task_join(&n, task, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
    move_out(&house);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(children_may_be_one_task_that_lives_elsewhere, "")
{
    run_on_few(shared_task, NULL);
}

static int be_deaf(void *arg)
{
    kin_mask();
    atomic_fetch_add((_Atomic int *)arg, 1);
    int rc = kin_sleep(KIN_NEVER);
    kin_unmask();
    return rc;
}

/* A supervisor that is killed kills those, too, that do not live in its nursery. */
static int killed_elsewhere(void *arg)
{
    static struct house outer;
    static struct nest nest;
    static _Atomic int is_deaf;
    struct kin_nursery n;
    struct kin_task_ref task;
    (void)arg;

    atomic_store(&is_deaf, 0);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, be_deaf, &is_deaf, 0, &task), 0);
    struct kin_addr addr = kin_task_addr(task);
    await(&is_deaf, 1);
    furnish(&outer, 1, KIN_PERMANENT);
    furnish(&nest.inner, 2, KIN_PERMANENT);
    nest.inner.specs[1].start = start_known;
    nest.inner.specs[1].arg = &addr;
    nest.inner.specs[1].shutdown = KIN_NEVER;
    outer.specs[0] = (struct kin_child_spec){
        .name = "nest", .start = start_nest, .arg = &nest, .shutdown = KIN_BRUTAL};
    move_in(&outer, 1);
    EXPECT_EQ(kin_supervisor_terminate_child(outer.sup, "nest", KIN_NEVER), 0);
    move_out(&outer);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_supervisor_that_is_killed_kills_children_that_live_elsewhere, "SUP-CANCEL-CHILD")
{
    run_on_few(killed_elsewhere, NULL);
}

static int start_boss(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    (void)n;
    return kin_whereis(arg, out);
}

/* A supervisor cannot be its own child. */
static int own_child(void *arg)
{
    static struct house house;
    struct kin_addr out;
    (void)arg;

    furnish(&house, 1, KIN_TRANSIENT);
    house.options.name = "boss";
    move_in(&house, 1);
    struct kin_child_spec spec = {.name = "x", .start = start_boss, .arg = "boss"};
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &spec, &out, KIN_NEVER), -EBADMSG);
    move_out(&house);
    return 0;
}

KIN_TEST(a_supervisor_is_not_its_own_child, "")
{
    run_on_few(own_child, NULL);
}

/* ---- no memory to adopt a child ---- */

struct blind {
    struct house house;
    struct kin_event spawned, go_on;
    _Atomic int rc, is_done, begun, ended;
};

static int stay_a_while(void *arg)
{
    struct blind *blind = arg;
    atomic_store(&blind->begun, 1);
    int rc = kin_sleep(KIN_NEVER);
    atomic_store(&blind->ended, 1);
    return rc;
}

static int start_blind(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    struct blind *blind = (struct blind *)(uintptr_t)arg;
    struct kin_task_ref ref;
    int rc = kin_spawn_with(n, NULL, stay_a_while, blind, 0, &ref);
    if (rc < 0)
        return rc;
    *out = kin_task_addr(ref);
    kin_event_set(&blind->spawned);
    return kin_event_wait(&blind->go_on, KIN_NEVER);
}

static int call_blind(void *arg)
{
    struct blind *blind = arg;
    struct kin_addr out;
    struct kin_child_spec spec = {.name = "x", .start = start_blind, .arg = blind};
    int rc = kin_supervisor_start_child(blind->house.sup, &spec, &out, KIN_NEVER);
    atomic_store(&blind->rc, rc);
    atomic_store(&blind->is_done, 1);
    return 0;
}

/* Takes every watch there is, so that the supervisor finds none when it adopts its child. */
static int blind_adoption(void *arg)
{
    static struct blind blind;
    enum { MOST = 1 << 20 };
    struct kin_monitor_ref *refs = calloc(MOST, sizeof *refs);
    struct kin_nursery n;
    int count = 0, rc = 0;
    (void)arg;

    furnish(&blind.house, 1, KIN_PERMANENT);
    move_in(&blind.house, 1);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, call_blind, &blind), 0);
    EXPECT_EQ(kin_event_wait(&blind.spawned, KIN_NEVER), 0);
    await(&blind.begun, 1);
    kin__plat_fail_after(1, true);
    while (count < MOST && (rc = kin_monitor(kin_self_addr(), &refs[count])) == 0)
        count++;
    EXPECT_EQ(rc, -ENOMEM);
    kin_event_set(&blind.go_on);
    await(&blind.is_done, 1);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(atomic_load(&blind.rc), -ENOMEM);
    EXPECT_EQ(atomic_load(&blind.ended), 1); /* as if it had never been started */
    while (count > 0)
        EXPECT_EQ(kin_demonitor(refs[--count]), 0);
    EXPECT(info_of(&blind.house, "x").name == NULL);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    move_out(&blind.house);
    free(refs);
    return 0;
}

KIN_TEST(a_child_that_cannot_be_watched_is_not_left_running, "")
{
    EXPECT_EQ(run_reporting(1, blind_adoption, NULL, NULL), 0);
}

/* ---- the cluster profile ---- */

static _Atomic int spun;

static int spin(void *arg)
{
    (void)arg;
    for (int i = 0; i < 5000; i++) {
        int rc = kin_checkpoint();
        if (rc < 0)
            return rc;
    }
    atomic_store(&spun, 1);
    return kin_sleep(KIN_NEVER);
}

/* Its budget is far too small for what it does. */
static int start_poor(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_task_ref ref;
    (void)arg;
    options.budget = (struct kin_budget){100, 0, 0, 0, 0};
    options.caps = KIN_CAP_TIME;
    int rc = kin_spawn_with(n, &options, spin, NULL, 0, &ref);
    if (rc == 0)
        *out = kin_task_addr(ref);
    return rc;
}

static int in_cluster(void *arg)
{
    struct kin_child_spec spec = {.name = "poor", .start = start_poor};
    struct kin_nursery n;
    struct kin_addr sup;
    (void)arg;

    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_supervisor_start(&n, NULL, &spec, 1, &sup), 0);
    await(&spun, 1);
    EXPECT_EQ(kin_server_stop(sup, 0, KIN_NEVER), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(in_the_cluster_profile_a_supervisor_recharges_its_children, "SCHED:10.2.3")
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.profile = KIN_CLUSTER;
    config.workers = 2;
    EXPECT_EQ(kin_run(&config, in_cluster, NULL), 0);
}
