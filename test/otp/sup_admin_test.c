/* SPDX-License-Identifier: MIT */
/*
 * Goal: what others may ask of a supervisor while it runs: start, terminate, restart, delete, list,
 * count; and template children.
 * Method: black box on 1, 2 and 4 workers; each answer of the table in the contract; callers that
 * leave; thousands of template children, whose memory is counted.
 */
#include "otp/kids.h"

#include "mem/frame.h"

/* ---- answers ---- */

/* K087, K122 */
static int answers(void *arg)
{
    static struct house house;
    struct kin_addr out = {7, 7}, a;
    struct kin_child_spec h;
    struct kin_child_info infos[4];
    (void)arg;

    furnish(&house, 2, KIN_PERMANENT);
    h = (struct kin_child_spec){
        .name = "h", .start = kid_start, .arg = &house.kids[7], .restart = KIN_PERMANENT};
    move_in(&house, 2);
    a = info_of(&house, "a").addr;
    /* there is one of that name */
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &house.specs[0], &out, KIN_NEVER), KIN_TAKEN);
    EXPECT_EQ(out.id, 7);
    EXPECT_EQ(kin_supervisor_restart_child(house.sup, "a", &out, KIN_NEVER), -EBUSY);
    EXPECT_EQ(kin_supervisor_delete_child(house.sup, "a", KIN_NEVER), -EBUSY);
    /* nobody has that name */
    EXPECT_EQ(kin_supervisor_restart_child(house.sup, "h", &out, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_delete_child(house.sup, "h", KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "h", KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_terminate_addr(house.sup, out, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_terminate_addr(house.sup, house.sup, KIN_NEVER), KIN_NOPROC);
    /* terminate is done when it returns, and may be done twice */
    EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "a", KIN_NEVER), 0);
    EXPECT_EQ(kin_server_state(a), KIN_SERVER_STOPPED);
    EXPECT_DIARY(&house.diary, "+a +b -a");
    EXPECT_EQ(info_of(&house, "a").state, KIN_CHILD_STOPPED);
    EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "a", KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_terminate_addr(house.sup, a, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &house.specs[0], &out, KIN_NEVER), KIN_TAKEN);
    /* it comes back by hand, which is no restart that counts */
    EXPECT_EQ(kin_supervisor_restart_child(house.sup, "a", &out, KIN_NEVER), 0);
    EXPECT(!kin_addr_same(out, a));
    EXPECT_EQ(kin_server_state(out), KIN_SERVER_RUNNING);
    EXPECT_EQ(info_of(&house, "a").restarts, 0);
    EXPECT_EQ(kin_supervisor_terminate_addr(house.sup, out, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_delete_child(house.sup, "a", KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_delete_child(house.sup, "a", KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &h, &out, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &house.specs[0], &out, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_which_children(house.sup, infos, 2, KIN_NEVER), 3);
    EXPECT_STR(infos[0].name, "b");
    EXPECT_STR(infos[1].name, "h");
    EXPECT_EQ(kin_server_stop(house.sup, 0, KIN_NEVER), 0);
    EXPECT_DIARY(&house.diary, "+a +b -a +a -a +h +a -a -h -b");
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &h, &out, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "a", KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_which_children(house.sup, infos, 4, KIN_NEVER), KIN_NOPROC);
    kin_ignore(kin_nursery_join(&house.n, NULL));
    return 0;
}

KIN_TEST(each_order_has_its_answers, "SUP-STOP-CHILD")
{
    run_on_few(answers, NULL);
}

static int nonsense(void *arg)
{
    static struct house house;
    static const char *const on_nobody[] = {"nobody", NULL};
    struct kin_addr out;
    struct kin_child_spec spec;
    (void)arg;

    furnish(&house, 1, KIN_TRANSIENT);
    move_in(&house, 1);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, NULL, &out, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &house.specs[0], NULL, KIN_NEVER), -EINVAL);
    spec = (struct kin_child_spec){.start = kid_start};
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &spec, &out, KIN_NEVER), -EINVAL);
    spec = (struct kin_child_spec){.name = "x"};
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &spec, &out, KIN_NEVER), -EINVAL);
    spec = (struct kin_child_spec){.name = "x", .start = kid_start, .arg_size = 1};
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &spec, &out, KIN_NEVER), -EINVAL);
    spec = (struct kin_child_spec){.name = "x", .start = kid_start, .shutdown = -3};
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &spec, &out, KIN_NEVER), -EINVAL);
    spec = (struct kin_child_spec){.name = "x", .start = kid_start, .significant = true};
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &spec, &out, KIN_NEVER), -EINVAL);
    spec = (struct kin_child_spec){.name = "x", .start = kid_start, .depends_on = on_nobody};
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &spec, &out, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_supervisor_terminate_child(house.sup, NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "", KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_supervisor_restart_child(house.sup, "a", NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_supervisor_delete_child(house.sup, NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_supervisor_which_children(house.sup, NULL, 1, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_supervisor_count_children(house.sup, NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_supervisor_which_children(house.sup, NULL, 0, KIN_NEVER), 1);
    move_out(&house);
    return 0;
}

KIN_TEST(orders_that_make_no_sense_are_refused, "")
{
    run_on_few(nonsense, NULL);
}

/* K075, K076, K072 */
static int failing_starts(void *arg)
{
    static struct house house;
    struct kin_addr out = {7, 7};
    (void)arg;

    furnish(&house, 2, KIN_PERMANENT);
    move_in(&house, 1);
    atomic_store(&house.kids[1].start_status, -ENODEV);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &house.specs[1], &out, KIN_NEVER), -ENODEV);
    EXPECT(info_of(&house, "b").name == NULL);
    EXPECT_EQ(out.id, 7);
    atomic_store(&house.kids[1].start_status, KIN_IGNORE);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &house.specs[1], &out, KIN_NEVER),
              KIN_IGNORE);
    EXPECT_EQ(info_of(&house, "b").state, KIN_CHILD_STOPPED); /* it declined, and is kept */
    EXPECT(info_of(&house, "b").name != NULL);
    EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "a", KIN_NEVER), 0);
    atomic_store(&house.kids[0].start_status, -ENODEV);
    EXPECT_EQ(kin_supervisor_restart_child(house.sup, "a", &out, KIN_NEVER), -ENODEV);
    struct kin_child_info info = info_of(&house, "a");
    EXPECT_EQ(info.state, KIN_CHILD_STOPPED); /* it is listed, and nobody tries again */
    EXPECT_EQ(info.status, -ENODEV);
    EXPECT_EQ(atomic_load(&house.kids[0].starts), 2);
    atomic_store(&house.kids[0].start_status, 0);
    EXPECT_EQ(kin_supervisor_restart_child(house.sup, "a", &out, KIN_NEVER), 0);
    atomic_store(&house.kids[1].start_status, 0);
    atomic_store(&house.kids[1].start_panics, 1);
    EXPECT_EQ(kin_supervisor_restart_child(house.sup, "b", &out, KIN_NEVER), KIN_PANICKED);
    move_out(&house);
    return 0;
}

KIN_TEST(a_start_by_hand_that_fails_is_the_callers_business, "SUP-STOP-CHILD")
{
    run_on_few(failing_starts, NULL);
}

/* K115: of a temporary child nothing is left. */
static int temporary_ones(void *arg)
{
    static struct house house;
    struct kin_addr out;
    (void)arg;

    furnish(&house, 2, KIN_TEMPORARY);
    move_in(&house, 0);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &house.specs[0], &out, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "a", KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "a", KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_restart_child(house.sup, "a", &out, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &house.specs[0], &out, KIN_NEVER), 0);
    atomic_store(&house.kids[1].start_status, KIN_IGNORE);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &house.specs[1], &out, KIN_NEVER),
              KIN_IGNORE);
    EXPECT_EQ(kin_supervisor_which_children(house.sup, NULL, 0, KIN_NEVER), 1);
    move_out(&house);
    return 0;
}

KIN_TEST(a_temporary_child_leaves_no_spec, "SUP-STOP-CHILD")
{
    run_on_few(temporary_ones, NULL);
}

/* ---- while something is under way ---- */

struct caller {
    struct house *house;
    const char *name;
    _Atomic int rc, is_done;
    struct kin_addr out;
};

static int call_start(void *arg)
{
    struct caller *caller = arg;
    struct house *house = caller->house;
    size_t i = (size_t)(caller->name[0] - 'a');
    int rc = kin_supervisor_start_child(house->sup, &house->specs[i], &caller->out, KIN_NEVER);
    atomic_store(&caller->rc, rc);
    atomic_store(&caller->is_done, 1);
    return 0;
}

static int call_terminate(void *arg)
{
    struct caller *caller = arg;
    int rc = kin_supervisor_terminate_child(caller->house->sup, caller->name, KIN_NEVER);
    atomic_store(&caller->rc, rc);
    atomic_store(&caller->is_done, 1);
    return 0;
}

/* A start that takes long: the supervisor answers others, and says what of the child. */
static int slow_start(void *arg)
{
    static struct house house;
    struct caller caller = {.house = &house, .name = "b"};
    struct kin_child_counts counts;
    struct kin_addr out;
    struct kin_nursery callers;
    (void)arg;

    furnish(&house, 2, KIN_TRANSIENT);
    atomic_store(&house.kids[1].start_waits, 1);
    move_in(&house, 1);
    EXPECT_EQ(kin_nursery_open(&callers, NULL), 0);
    EXPECT_EQ(kin_spawn(&callers, call_start, &caller), 0);
    await(&house.kids[1].starts, 1);
    EXPECT_EQ(kin_supervisor_count_children(house.sup, &counts, KIN_NEVER), 0);
    EXPECT_EQ(counts.specs, 2);
    EXPECT_EQ(counts.active, 1);
    EXPECT_EQ(counts.restarting, 1);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &house.specs[1], &out, KIN_NEVER), KIN_TAKEN);
    EXPECT_EQ(kin_supervisor_restart_child(house.sup, "b", &out, KIN_NEVER), -EALREADY);
    EXPECT_EQ(kin_supervisor_delete_child(house.sup, "b", KIN_NEVER), -EALREADY);
    EXPECT_EQ(atomic_load(&caller.is_done), 0);
    kin_event_set(&house.kids[1].gate);
    EXPECT_EQ(kin_nursery_join(&callers, NULL), 0);
    EXPECT_EQ(atomic_load(&caller.rc), 0);
    EXPECT(kin_addr_same(caller.out, info_of(&house, "b").addr));
    move_out(&house);
    return 0;
}

KIN_TEST(a_supervisor_answers_while_a_child_starts, "")
{
    run_on_few(slow_start, NULL);
}

/* "KIN_TIMEOUT leaves the start going on": so does a caller that is cancelled. */
static int callers_leave(void *arg)
{
    static struct house house;
    struct caller caller = {.house = &house, .name = "c"};
    struct kin_nursery callers;
    struct kin_task_ref task;
    struct kin_addr out = {7, 7};
    (void)arg;

    furnish(&house, 3, KIN_TRANSIENT);
    atomic_store(&house.kids[1].start_waits, 1);
    atomic_store(&house.kids[2].start_waits, 1);
    move_in(&house, 1);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &house.specs[1], &out, kin_after(KIN_MS(1))),
              KIN_TIMEOUT);
    EXPECT_EQ(out.id, 7);
    EXPECT_EQ(kin_nursery_open(&callers, NULL), 0);
    EXPECT_EQ(kin_spawn_with(&callers, NULL, call_start, &caller, 0, &task), 0);
    await(&house.kids[2].starts, 1);
    EXPECT_EQ(kin_task_cancel(task), 0);
    EXPECT_EQ(kin_nursery_join(&callers, NULL), 0);
    EXPECT_EQ(atomic_load(&caller.rc), KIN_CANCELLED);
    kin_event_set(&house.kids[1].gate);
    kin_event_set(&house.kids[2].gate);
    if (!info_of(&house, "b").name) /* the call may have timed out on its way */
        EXPECT_EQ(kin_supervisor_start_child(house.sup, &house.specs[1], &out, KIN_NEVER), 0);
    await_state(&house, "b", KIN_CHILD_RUNNING);
    await_state(&house, "c", KIN_CHILD_RUNNING);
    EXPECT_EQ(kin_supervisor_count_children(house.sup, &(struct kin_child_counts){0}, 0),
              KIN_TIMEOUT); /* deadline 0 does not wait */
    move_out(&house);
    return 0;
}

KIN_TEST(a_start_goes_on_when_its_caller_leaves, "")
{
    run_on_few(callers_leave, NULL);
}

/* Two who terminate one child are both told, when it is over; meanwhile it runs. */
static int two_terminate(void *arg)
{
    static struct house house;
    struct caller callers[2] = {{.house = &house, .name = "a"}, {.house = &house, .name = "a"}};
    struct kin_nursery n;
    struct kin_addr out;
    (void)arg;

    furnish(&house, 1, KIN_PERMANENT);
    house.specs[0].shutdown = KIN_NEVER;
    move_in(&house, 1);
    tell_kid(&house, "a", WAIT_DEAF);
    await(&house.kids[0].is_deaf, 1);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, call_terminate, &callers[0]), 0);
    EXPECT_EQ(kin_spawn(&n, call_terminate, &callers[1]), 0);
    for (int i = 0; i < 50; i++)
        kin_ignore(kin_yield());
    EXPECT_EQ(info_of(&house, "a").state, KIN_CHILD_RUNNING);
    EXPECT_EQ(kin_supervisor_restart_child(house.sup, "a", &out, KIN_NEVER), -EBUSY);
    EXPECT_EQ(kin_supervisor_delete_child(house.sup, "a", KIN_NEVER), -EBUSY);
    EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "a", kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(atomic_load(&callers[0].is_done) + atomic_load(&callers[1].is_done), 0);
    kin_event_set(&house.kids[0].gate);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&callers[0].rc), 0);
    EXPECT_EQ(atomic_load(&callers[1].rc), 0);
    EXPECT_EQ(info_of(&house, "a").state, KIN_CHILD_STOPPED);
    move_out(&house);
    return 0;
}

KIN_TEST(everybody_who_terminates_a_child_waits_for_its_end, "")
{
    run_on_few(two_terminate, NULL);
}

/* A child that starts, or is to be restarted, can be terminated. */
static int terminate_others(void *arg)
{
    static struct house house;
    struct caller caller = {.house = &house, .name = "b"};
    struct kin_nursery n;
    struct kin_addr out;
    (void)arg;

    furnish(&house, 2, KIN_PERMANENT);
    house.specs[0].backoff = (struct kin_backoff){KIN_SEC(10000), KIN_SEC(10000), 0, 0};
    atomic_store(&house.kids[1].start_waits, 1);
    move_in(&house, 1);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, call_start, &caller), 0);
    await(&house.kids[1].starts, 1);
    EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "b", KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&caller.rc), KIN_CANCELLED);
    EXPECT(info_of(&house, "b").name == NULL); /* it never was there */
    end_kid(&house, "a", CRASH);
    await_state(&house, "a", KIN_CHILD_RESTARTING); /* for hours */
    EXPECT_EQ(kin_supervisor_restart_child(house.sup, "a", &out, KIN_NEVER), -EALREADY);
    EXPECT_EQ(kin_supervisor_delete_child(house.sup, "a", KIN_NEVER), -EALREADY);
    EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "a", KIN_NEVER), 0);
    EXPECT_EQ(info_of(&house, "a").state, KIN_CHILD_STOPPED);
    EXPECT_EQ(kin_supervisor_restart_child(house.sup, "a", &out, KIN_NEVER), 0);
    move_out(&house);
    return 0;
}

KIN_TEST(a_child_that_starts_or_waits_for_its_restart_can_be_terminated, "")
{
    run_on_few(terminate_others, NULL);
}

/* A plan takes a start over that is under way: whoever waits for it hears how that ends. */
static void take_over(enum kin_restart restart, bool is_terminated, int expected)
{
    static struct house house;
    struct caller caller = {.house = &house, .name = "c"};
    struct kin_nursery n;

    furnish(&house, 3, KIN_TRANSIENT);
    house.options.strategy = KIN_ONE_FOR_ALL;
    house.specs[1].shutdown = KIN_NEVER;
    house.specs[2].restart = restart;
    atomic_store(&house.kids[2].start_waits, 1);
    move_in(&house, 2);
    tell_kid(&house, "b", WAIT_DEAF);
    await(&house.kids[1].is_deaf, 1);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, call_start, &caller), 0);
    await(&house.kids[2].starts, 1);
    end_kid(&house, "a", CRASH); /* the plan cancels the start of c, and then waits for b */
    while (info_of(&house, "a").state != KIN_CHILD_RESTARTING)
        kin_ignore(kin_yield());
    if (is_terminated)
        EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "c", KIN_NEVER), 0);
    if (expected == 0)
        EXPECT_EQ(atomic_load(&caller.is_done), 0);
    kin_event_set(&house.kids[2].gate);
    kin_event_set(&house.kids[1].gate);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&caller.rc), expected);
    if (expected == 0)
        EXPECT(kin_addr_same(info_of(&house, "c").addr, caller.out));
    await_restarts(&house, "b", 1);
    move_out(&house);
}

static int taken_over(void *arg)
{
    (void)arg;
    take_over(KIN_TRANSIENT, false, 0);
    take_over(KIN_TRANSIENT, true, KIN_CANCELLED);
    take_over(KIN_TEMPORARY, false, KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_start_that_a_plan_takes_over_is_answered, "SUP-PLAN-RESTART")
{
    run_on_few(taken_over, NULL);
}

/* ---- templates ---- */

static int stay(void *arg)
{
    (void)arg;
    return kin_sleep(KIN_NEVER);
}

static int end_with(void *arg)
{
    return (int)(intptr_t)arg;
}

/* A plain task that stays, or ends with the number that arg points to. */
static int start_plain(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    struct kin_task_ref ref;
    int rc = arg ? kin_spawn_with(n, NULL, end_with, (void *)(intptr_t) * (const int *)arg, 0, &ref)
                 : kin_spawn_with(n, NULL, stay, NULL, 0, &ref);
    if (rc == 0)
        *out = kin_task_addr(ref);
    return rc;
}

static void await_specs(struct kin_addr sup, size_t specs)
{
    while (kin_supervisor_which_children(sup, NULL, 0, KIN_NEVER) != (ssize_t)specs)
        kin_ignore(kin_yield());
}

/* K106, K108, K230, K231 */
static int templates(void *arg)
{
    static struct house house;
    struct kin_addr one, two, out;
    struct kin_child_spec whole = {.start = start_plain};
    struct kin_child_spec named = {.name = "same", .start = start_plain};
    int failure = -EIO;
    struct kin_child_spec with_arg = {.arg = &failure, .arg_size = sizeof failure};
    struct kin_child_spec pattern = {.start = start_plain, .restart = KIN_TEMPORARY};
    (void)arg;

    /* without a template each child brings a whole spec */
    furnish(&house, 0, KIN_TRANSIENT);
    house.options.strategy = KIN_TEMPLATE;
    house.options.max_children = 2;
    move_in(&house, 0);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, NULL, &one, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &with_arg, &one, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &whole, &one, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &named, &two, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &whole, &out, KIN_NEVER), KIN_FULL);
    EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "same", KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_terminate_addr(house.sup, one, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_terminate_addr(house.sup, one, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &named, &out, KIN_NEVER), 0); /* K231 */
    EXPECT_EQ(kin_supervisor_which_children(house.sup, NULL, 0, KIN_NEVER), 2);
    move_out(&house);
    /* with one, a child may be just like it, or bring an argument, or be whole */
    house.options.max_children = 0;
    house.specs[0] = pattern;
    move_in(&house, 1);
    EXPECT_EQ(kin_supervisor_which_children(house.sup, NULL, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, NULL, &one, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &whole, &two, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &with_arg, &out, KIN_NEVER), 0);
    await_specs(house.sup, 2); /* it was temporary, as the template is, and has failed */
    EXPECT_EQ(kin_task_cancel((struct kin_task_ref){two.id}), 0);
    await_specs(house.sup, 1); /* of a template child that is not restarted nothing stays */
    move_out(&house);
    return 0;
}

KIN_TEST(template_children_have_no_names_of_their_own, "SUP-STOP-CHILD")
{
    run_on_few(templates, NULL);
}

/* K230: children that are being restarted count. */
static int full_while_restarting(void *arg)
{
    static struct house house;
    struct kin_child_counts counts;
    struct kin_addr out;
    int failure = -EIO;
    struct kin_child_spec failing = {.start = start_plain, .arg = &failure};
    (void)arg;

    furnish(&house, 0, KIN_TRANSIENT);
    failing.backoff = (struct kin_backoff){KIN_SEC(10000), KIN_SEC(10000), 0, 0};
    house.options.strategy = KIN_TEMPLATE;
    house.options.max_children = 1;
    move_in(&house, 0);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &failing, &out, KIN_NEVER), 0);
    do {
        kin_ignore(kin_yield());
        EXPECT_EQ(kin_supervisor_count_children(house.sup, &counts, KIN_NEVER), 0);
    } while (counts.restarting == 0);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &failing, &out, KIN_NEVER), KIN_FULL);
    move_out(&house);
    return 0;
}

KIN_TEST(children_that_are_being_restarted_count_as_children, "")
{
    run_on_few(full_while_restarting, NULL);
}

/* K106: a third crash of whatever template children is one too many. */
static int template_storm(void *arg)
{
    static struct house house;
    struct kin_addr out;
    int failure = -EIO;
    struct kin_child_spec failing = {.start = start_plain, .arg = &failure};
    (void)arg;

    furnish(&house, 0, KIN_TRANSIENT);
    house.options.strategy = KIN_TEMPLATE;
    house.options.max_restarts = 2;
    move_in(&house, 0);
    EXPECT_EQ(kin_supervisor_start_child(house.sup, &failing, &out, KIN_NEVER), 0);
    EXPECT_EQ(outcome_of(&house).status, KIN_EXHAUSTED);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), KIN_EXHAUSTED);
    return 0;
}

KIN_TEST(template_children_exhaust_their_supervisor_together, "SUP-BUDGET-EXCEEDED")
{
    run_on_few(template_storm, NULL);
}

static void count_frame(struct kin__frame *frame, void *arg)
{
    (void)frame;
    ++*(size_t *)arg;
}

/* K110, K113, K116: what is made for children that come and go is given back: there are never more
 * frames than the children that are there at once need. */
static int many_come_and_go(void *arg)
{
    static struct house house;
    size_t count = *(size_t *)arg;
    struct kin_child_counts counts;
    struct kin_addr *addrs = calloc(count, sizeof *addrs);
    int good = 0;
    struct kin_child_spec stays = {.start = start_plain, .restart = KIN_TEMPORARY};
    struct kin_child_spec passes = {
        .start = start_plain, .arg = &good, .arg_size = sizeof good, .restart = KIN_TEMPORARY};
    struct kin_addr out;

    furnish(&house, 0, KIN_TRANSIENT);
    house.options.strategy = KIN_TEMPLATE;
    move_in(&house, 0);
    for (size_t i = 0; i < count; i++)
        EXPECT_EQ(kin_supervisor_start_child(house.sup, &stays, &addrs[i], KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_count_children(house.sup, &counts, KIN_NEVER), 0);
    EXPECT_EQ(counts.specs, count);
    EXPECT_EQ(counts.active, count);
    for (size_t i = 0; i < count; i += 2)
        EXPECT_EQ(kin_supervisor_terminate_addr(house.sup, addrs[i], KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_which_children(house.sup, NULL, 0, KIN_NEVER),
              (ssize_t)(count - (count + 1) / 2));
    for (size_t i = 0; i < 10 * count; i++) {
        EXPECT_EQ(kin_supervisor_start_child(house.sup, &passes, &out, KIN_NEVER), 0);
        if (i % 100 == 99)
            await_specs(house.sup, count / 2); /* else it is not said how many are there at once */
    }
    await_specs(house.sup, count / 2);
    size_t frames = 0;
    kin__frame_each(count_frame, &frames);
    EXPECT_LT(frames, 2 * count + 2000); /* though eleven times as many have been */
    EXPECT_EQ(kin_server_stop(house.sup, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), 0);
    free(addrs);
    return 0;
}

KIN_TEST_LIMIT(thousands_of_template_children_come_and_go_and_leave_nothing, "", 120)
{
    size_t count = 2000 / kin_test_scale();
    EXPECT_EQ(run_reporting(2, many_come_and_go, &count, NULL), 0);
}

/* ---- names that outlive their children ---- */

static int names_stay(void *arg)
{
    static struct house house;
    struct kin_child_info before[2], after[2];
    (void)arg;
    for (int round = 0; round < 2; round++) {
        furnish(&house, 2, KIN_TEMPORARY);
        move_in(&house, 2);
        EXPECT_EQ(kin_supervisor_which_children(house.sup, round ? after : before, 2, KIN_NEVER),
                  2);
        end_kid(&house, "a", END_WELL); /* its record goes with it */
        while (info_of(&house, "a").name) /* ends: or the alarm does */
            kin_ignore(kin_yield());
        move_out(&house); /* and this one with the supervisor */
        EXPECT_STR(before[0].name, "a");
        EXPECT_STR(before[1].name, "b");
    }
    EXPECT_PTR(after[0].name, before[0].name); /* one copy, however often it is shown */
    EXPECT_PTR(after[1].name, before[1].name);
    return 0;
}

KIN_TEST(names_of_children_can_be_read_when_they_are_gone, "SINV-6")
{
    run_on_few(names_stay, NULL);
}
