/* SPDX-License-Identifier: MIT */
/*
 * Goal: budgets bound what tasks use, and nothing of them gets lost between pools and children.
 * Method: public calls only. Every cost is counted before and after, in every profile.
 */
#include "api/budgets.h"

/* ---- without a limit ---- */

static int be_unlimited(void *arg)
{
    struct kin_budget none = {0, 0, 0, 0, 0};

    (void)arg;
    EXPECT(is_same(kin_budget_left(), KIN_UNLIMITED_BUDGET));
    EXPECT_EQ(kin_caps(), KIN_CAP_ALL);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_NONE);
    EXPECT_EQ(kin_budget_recharge_self(none), 0);
    return 0;
}

static int spawn_unlimited(void *arg)
{
    KIN_NURSERY(n);

    EXPECT(is_same(kin_nursery_budget_left(&n), KIN_UNLIMITED_BUDGET));
    EXPECT_EQ(kin_nursery_recharge(&n, much), 0);
    EXPECT_EQ(kin_spawn(&n, be_unlimited, arg), 0);
    EXPECT_EQ(spawn_on(&n, KIN_UNLIMITED_BUDGET, be_unlimited, arg, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT(is_same(kin_nursery_budget_left(&n), (struct kin_budget){0, 0, 0, 0, 0}));
    EXPECT_EQ(kin_nursery_recharge(&n, much), KIN_STALE);
    return be_unlimited(arg);
}

KIN_TEST(in_service_nothing_has_a_limit_until_somebody_sets_one, "SCHED:10.2.2")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, spawn_unlimited, NULL), 0);
}

KIN_TEST(outside_a_task_there_is_no_budget_and_no_capability, "N1002")
{
    struct kin_budget none = {0, 0, 0, 0, 0};

    EXPECT(is_same(kin_budget_left(), none));
    EXPECT(is_same(kin_nursery_budget_left(NULL), none));
    EXPECT_EQ(kin_caps(), 0);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_NONE);
    EXPECT_EQ(kin_budget_recharge((struct kin_task_ref){1}, none), KIN_NOTASK);
    EXPECT_EQ(kin_budget_recharge_self(none), KIN_NOTASK);
    EXPECT_EQ(kin_nursery_recharge(NULL, none), -EINVAL);
}

/* ---- what operations cost ---- */

/* What was used since before, as a budget. */
static struct kin_budget used_since(struct kin_budget before)
{
    struct kin_budget now = kin_budget_left();

    return (struct kin_budget){before.ops - now.ops, before.memory - now.memory,
                               before.spawns - now.spawns, before.channel_ops - now.channel_ops,
                               before.syscalls - now.syscalls};
}

static int pay_each(void *arg)
{
    struct kin_chan *chan;
    struct kin_budget before = kin_budget_left();
    int item = 5;

    (void)arg;
    EXPECT(is_same(before, much));
    EXPECT_EQ(kin_checkpoint(), 0);
    EXPECT(is_same(used_since(before), (struct kin_budget){1, 0, 0, 0, 0}));
    EXPECT_EQ(kin_yield(), 0); /* [SCHED:4.2.2] */
    EXPECT(is_same(used_since(before), (struct kin_budget){1, 0, 0, 0, 0}));
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(10))), 0);
    EXPECT(is_same(used_since(before), (struct kin_budget){2, 0, 0, 0, 0}));
    EXPECT_EQ(kin_chan_create(&chan, sizeof item, 1), 0);
    uint64_t held = used_since(before).memory; /* by the channel */
    EXPECT_GE(held, sizeof item);
    EXPECT(is_same(used_since(before), (struct kin_budget){3, held, 0, 0, 0}));
    EXPECT_EQ(kin_chan_send(chan, &item, KIN_NEVER), 0);
    EXPECT(is_same(used_since(before), (struct kin_budget){4, held, 0, 1, 0}));
    EXPECT_EQ(kin_chan_recv(chan, &item, KIN_NEVER), 0);
    EXPECT(is_same(used_since(before), (struct kin_budget){5, held, 0, 2, 0}));
    EXPECT_EQ(kin_chan_recv(chan, &item, 0), KIN_EMPTY); /* it was an operation all the same */
    EXPECT(is_same(used_since(before), (struct kin_budget){6, held, 0, 3, 0}));
    kin_chan_unref(chan);

    char *memory = kin_alloc(300);
    EXPECT(memory != NULL);
    EXPECT(is_same(used_since(before), (struct kin_budget){7, 300, 0, 3, 0}));
    kin_free(memory);
    EXPECT(is_same(used_since(before), (struct kin_budget){7, 0, 0, 3, 0}));
    return 0;
}

static int spawn_to_pay(void *arg)
{
    KIN_NURSERY(n);

    EXPECT_EQ(spawn_on(&n, much, pay_each, arg, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(each_operation_costs_what_the_table_says, "SCHED:3.3.1 SCHED:4.1.2 SCHED:4.2.2")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, spawn_to_pay, NULL), 0);
    EXPECT_EQ(run_as(KIN_SERVICE, 2, spawn_to_pay, NULL), 0);
}

static int pay_for_spawns(void *arg)
{
    struct kin_budget before = kin_budget_left();
    KIN_NURSERY(n, .budget = {100, 0, 5, 0, 0});

    (void)arg;
    EXPECT(is_same(used_since(before), (struct kin_budget){100, 0, 5, 0, 0}));
    EXPECT_EQ(spawn_on(&n, (struct kin_budget){10, 0, 0, 0, 0}, nothing_to_do, NULL, NULL), 0);
    EXPECT_EQ(used_since(before).ops, 101); /* one of the caller, */
    EXPECT_EQ(kin_nursery_budget_left(&n).spawns, 4); /* one of the pool */
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    /* the ops that the child did not use and the spawns that nobody did came back */
    EXPECT(is_same(used_since(before), (struct kin_budget){1, 0, 1, 0, 0}));
    return 0;
}

static int spawn_spawner(void *arg)
{
    KIN_NURSERY(n);

    EXPECT_EQ(spawn_on(&n, much, pay_for_spawns, arg, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_spawn_costs_an_op_of_the_caller_and_a_spawn_of_the_pool, "SCHED:3.3.1 SCHED:8.1.2")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, spawn_spawner, NULL), 0);
}

/* ---- what a child is given ---- */

static int keep_left(void *arg)
{
    *(struct kin_budget *)arg = kin_budget_left();
    return 0;
}

struct heir {
    struct kin_budget left;
    _Atomic int may_end; /* and give back what is left */
};

static int inherit(void *arg)
{
    struct heir *heir = arg;
    int rc = keep_left(&heir->left);
    await(&heir->may_end, 1);
    return rc;
}

static int inherit_strictly(void *arg)
{
    struct heir heir = {.may_end = 1};
    struct kin_budget standard = {KIN_DEFAULT_OPS, KIN_DEFAULT_MEMORY, 0, KIN_DEFAULT_CHANNEL_OPS,
                                  KIN_DEFAULT_SYSCALLS};
    (void)arg;
    {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, inherit, &heir), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT(is_same(heir.left, standard));
    }
    {
        KIN_NURSERY(n, .budget = {KIN_DEFAULT_OPS + 70, 10, 2, KIN_DEFAULT_CHANNEL_OPS,
                                  UINT32_MAX});
        atomic_store(&heir.may_end, 0);
        EXPECT_EQ(kin_spawn(&n, inherit, &heir), 0);
        EXPECT(is_same(kin_nursery_budget_left(&n), (struct kin_budget){70, 0, 1, 0, UINT32_MAX}));
        atomic_store(&heir.may_end, 1);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        standard.memory = 10; /* the pool had less */
        EXPECT(is_same(heir.left, standard));
    }
    return 0;
}

KIN_TEST(by_default_a_child_gets_the_standard_or_what_the_pool_has_and_no_spawns, "SCHED:8.2.1")
{
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 1, inherit_strictly, NULL), 0);
    EXPECT_EQ(run_as(KIN_CLUSTER, 2, inherit_strictly, NULL), 0);
}

static int refuse_too_much(void *arg)
{
    static const struct kin_budget pool = {100, 200, 3, 40, 50};
    static const struct kin_budget beyond[] = {
        {101, 1, 1, 1, 1}, {1, 201, 1, 1, 1}, {1, 1, 3, 1, 1}, /* 3 and the child itself are 4 */
        {1, 1, 1, 41, 1},  {1, 1, 1, 1, 51},  {1, 1, UINT32_MAX, 1, 1}};
    static const enum kin_budget_part parts[] = {KIN_BUDGET_OPS,         KIN_BUDGET_MEMORY,
                                                 KIN_BUDGET_SPAWNS,      KIN_BUDGET_CHANNEL_OPS,
                                                 KIN_BUDGET_SYSCALLS,    KIN_BUDGET_SPAWNS};
    struct kin_task_ref ref = {77};
    KIN_NURSERY(n, .budget = pool);

    (void)arg;
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        EXPECT_EQ(spawn_on(&n, beyond[i], nothing_to_do, NULL, &ref), KIN_BUDGET);
        EXPECT_EQ(kin_budget_exhausted(), parts[i]);
        EXPECT(is_same(kin_nursery_budget_left(&n), pool));
        EXPECT_EQ(ref.id, 77);
    }
    EXPECT_EQ(spawn_on(&n, (struct kin_budget){100, 200, 2, 40, 50}, nothing_to_do, NULL, NULL), 0);
    EXPECT(is_same(kin_nursery_budget_left(&n), (struct kin_budget){0, 0, 0, 0, 0}));
    EXPECT_EQ(kin_spawn(&n, nothing_to_do, NULL), KIN_BUDGET);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_SPAWNS);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_budget_larger_than_the_pool_is_refused_and_leaves_nothing_behind, "SCHED:8.2.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, refuse_too_much, NULL), 0);
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 1, refuse_too_much, NULL), 0);
}

static int use_some(void *arg)
{
    for (int i = 0; i < *(int *)arg; i++)
        EXPECT_EQ(kin_checkpoint(), 0);
    return 0;
}

static int return_the_rest(void *arg)
{
    int ten = 10, twenty = 20;
    struct kin_outcome how;
    struct kin_task_ref ref;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;

    (void)arg;
    options.budget = much;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    EXPECT_EQ(spawn_on(&n, (struct kin_budget){500, 7, 1, 2, 3}, use_some, &ten, &ref), 0);
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_budget_left(&n).ops, much.ops - 10);
    EXPECT_EQ(spawn_on(&n, (struct kin_budget){500, 7, 1, 2, 3}, use_some, &twenty, &ref), 0);
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT(is_same(kin_nursery_budget_left(&n),
                   (struct kin_budget){much.ops - 30, much.memory, much.spawns - 2,
                                       much.channel_ops, much.syscalls}));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(what_a_child_did_not_use_returns_to_the_pool, "SCHED:8.2.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, return_the_rest, NULL), 0);
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 2, return_the_rest, NULL), 0);
}

static int cancel_the_unborn(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_budget hundred = {100, 0, 0, 0, 0};
    struct kin_nursery n;

    (void)arg;
    options.budget = (struct kin_budget){1000, 0, 10, 0, 0};
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(spawn_on(&n, hundred, sleep_for_ever, NULL, NULL), 0);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

static int cancel_within_a_budget(void *arg)
{
    struct kin_budget enough = {2000, 0, 20, 0, 0};
    KIN_NURSERY(n, .budget = {5000, 0, 50, 0, 0});

    for (int i = 0; i < 4; i++) {
        struct kin_task_ref ref;
        struct kin_budget before = kin_nursery_budget_left(&n);
        EXPECT_EQ(spawn_on(&n, enough, cancel_the_unborn, arg, &ref), 0);
        EXPECT_EQ(kin_task_join(&n, ref, NULL, KIN_NEVER), 0);
        EXPECT_EQ(before.spawns - kin_nursery_budget_left(&n).spawns, 11);
        EXPECT_LE(before.ops - kin_nursery_budget_left(&n).ops, 30);
        EXPECT_EQ(kin_nursery_recharge(&n, (struct kin_budget){0, 0, 11, 0, 0}), 0);
    }
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(the_budget_of_a_child_that_never_ran_returns_too, "SCHED:8.2.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, cancel_within_a_budget, NULL), 0);
}

/* ---- nested nurseries ---- */

static int count_until_refused(void *arg)
{
    int rc;
    while ((rc = kin_checkpoint()) == 0)
        atomic_fetch_add((_Atomic int *)arg, 1);
    return rc;
}

static int nest_in_service(void *arg)
{
    KIN_NURSERY(n); /* no pool of its own: the one around */
    uint32_t before = kin_nursery_budget_left(&n).spawns;

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, nothing_to_do, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, nothing_to_do, NULL), 0);
    EXPECT_EQ(before - kin_nursery_budget_left(&n).spawns, 2);
    return kin_nursery_join(&n, NULL);
}

static int hold_a_pool(void *arg)
{
    KIN_NURSERY(n, .budget = {1000, 0, 7, 0, 0});
    struct kin_task_ref ref;

    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(kin_spawn_with(&n, NULL, nest_in_service, arg, 0, &ref), 0);
        EXPECT_EQ(kin_task_join(&n, ref, NULL, KIN_NEVER), 0);
    }
    EXPECT_EQ(kin_nursery_budget_left(&n).spawns, 1);
    EXPECT_EQ(kin_spawn(&n, nothing_to_do, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, nothing_to_do, NULL), KIN_BUDGET);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(in_service_a_nested_nursery_draws_on_the_nearest_pool, "SCHED:8.2.1 SCHED:10.2.2")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, hold_a_pool, NULL), 0);
    EXPECT_EQ(run_as(KIN_SERVICE, 2, hold_a_pool, NULL), 0);
}

/* A limit that was set is no limit if one can spawn around it. */
static int try_to_get_around(void *arg)
{
    struct kin_budget left = {0, 0, 0, 0, 0};
    struct kin_nursery n;

    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_nursery_budget_left(&n).spawns, 2);
    EXPECT_EQ(kin_nursery_budget_left(&n).memory, 500);
    EXPECT_EQ(spawn_on(&n, (struct kin_budget){1, 501, 0, 0, 0}, keep_left, &left, NULL),
              KIN_BUDGET);
    EXPECT_EQ(spawn_on(&n, (struct kin_budget){1, 500, 0, 0, 0}, keep_left, &left, NULL), 0);
    EXPECT_EQ(kin_budget_left().memory, 0);
    EXPECT_EQ(kin_spawn(&n, nothing_to_do, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, nothing_to_do, NULL), KIN_BUDGET);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_SPAWNS);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(left.memory, 500);
    EXPECT_EQ(kin_budget_left().memory, 500);
    return 0;
}

static int set_a_limit(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_budget limit = {1000, 500, 2, 0, 0};
    struct kin_nursery n;

    for (int recharge = KIN_RECHARGE_PROFILE; recharge <= KIN_RECHARGE_MANUAL; recharge++) {
        options.recharge = (enum kin_recharge)recharge;
        EXPECT_EQ(kin_nursery_open(&n, &options), 0);
        EXPECT_EQ(spawn_on(&n, limit, try_to_get_around, arg, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(nobody_spawns_around_a_limit_that_was_set, "SCHED:15.1.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, set_a_limit, NULL), 0);
}

/* The children of one who waits for ops must not get them from elsewhere, either. */
static int use_up_below(void *arg)
{
    _Atomic int *count = arg;
    KIN_NURSERY(n);

    EXPECT_EQ(kin_spawn(&n, count_until_refused, count), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

static int bound_a_tree(void *arg)
{
    _Atomic int count = 0;
    KIN_NURSERY(n, .recharge = KIN_RECHARGE_MANUAL);

    (void)arg;
    EXPECT_EQ(spawn_on(&n, (struct kin_budget){100, 0, 1, 0, 0}, use_up_below, &count, NULL), 0);
    await(&count, 99); /* one was the spawn */
    for (int i = 0; i < 50; i++)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&count), 99);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_manual_budget_bounds_the_whole_tree_below, "SCHED:3.2.2 SCHED:15.1.1")
{
    run_on_few(bound_a_tree, NULL);
}

/* What a task was given is for its children, too, and when that is used up, what it would get. */
static int count_to(void *arg)
{
    _Atomic int *left = arg;
    while (atomic_fetch_sub(left, 1) > 0)
        EXPECT_EQ(kin_checkpoint(), 0);
    return 0;
}

static int spend_below(void *arg)
{
    _Atomic int left = 90;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_budget_left().ops, 100);
    EXPECT_GE(kin_nursery_budget_left(&n).ops, 100);
    EXPECT_EQ(kin_spawn(&n, count_to, &left), 0);
    EXPECT_EQ(kin_spawn(&n, count_to, &left), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

static int give_all_to_one(void *arg)
{
    KIN_NURSERY(n, .budget = {100, 0, 5, 0, 0});

    EXPECT_EQ(spawn_on(&n, (struct kin_budget){100, 0, 2, 0, 0}, spend_below, arg, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(one_who_holds_the_whole_pool_feeds_its_children, "SCHED:3.2.2 SCHED:8.2.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, give_all_to_one, NULL), 0);
    EXPECT_EQ(run_as(KIN_SERVICE, 2, give_all_to_one, NULL), 0);
}

/* Each holds 10 of what is above and sends another down, to a depth; at the bottom somebody uses
 * more than they all hold. */
struct descent {
    int depth;
    _Atomic int *left; /* to use */
};

static int descend(void *arg)
{
    struct descent *down = arg, next = {down->depth - 1, down->left};
    struct kin_budget ten = {10, 0, (uint32_t)down->depth, 0, 0};
    KIN_NURSERY(n);

    if (down->depth > 0)
        EXPECT_EQ(spawn_on(&n, ten, descend, &next, NULL), 0);
    else
        EXPECT_EQ(kin_spawn(&n, count_to, down->left), 0);
    return kin_nursery_join(&n, NULL);
}

/* Yields until what is left to use stays as it is. */
static void await_exhaustion(_Atomic int *left, int expected)
{
    while (atomic_load(left) > expected)
        EXPECT_EQ(kin_yield(), 0);
    for (int i = 0; i < 50; i++)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(left), expected);
}

static int descend_within(void *arg)
{
    int depth = *(int *)arg, spawns = depth + 1;
    _Atomic int left = 400;
    struct descent down = {depth, &left};
    struct kin_task_ref ref;
    KIN_NURSERY(n, .budget = {200, 0, 100, 0, 0});

    EXPECT_EQ(spawn_on(&n, (struct kin_budget){10, 0, 20, 0, 0}, descend, &down, &ref), 0);
    await_exhaustion(&left, 400 - 201 + spawns); /* the next one is begun, and waits */
    EXPECT_EQ(kin_nursery_budget_left(&n).ops, 0);
    EXPECT_EQ(kin_budget_recharge(ref, (struct kin_budget){50, 0, 0, 0, 0}), 0);
    await_exhaustion(&left, 400 - 251 + spawns);
    EXPECT_EQ(kin_nursery_recharge(&n, (struct kin_budget){500, 0, 0, 0, 0}), 0);
    EXPECT_EQ(kin_task_join(&n, ref, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_budget_left(&n).ops, 750 - 400 - spawns); /* the rest came back */
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(what_is_used_below_comes_from_all_the_budgets_above, "SCHED:3.2.2 SCHED:3.2.3")
{
    int depths[] = {0, 1, 9}; /* in the last are more than a wait has room for */

    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        EXPECT_EQ(run_as(KIN_SERVICE, 1, descend_within, &depths[i]), 0);
        EXPECT_EQ(run_as(KIN_SERVICE, 2, descend_within, &depths[i]), 0);
    }
}

static int nest_strictly(void *arg)
{
    struct kin_budget left;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_nursery_budget_left(&n).spawns, 2); /* what the owner has */
    EXPECT_EQ(kin_spawn(&n, keep_left, &left), 0);
    EXPECT_EQ(kin_spawn(&n, nothing_to_do, NULL), 0);
    EXPECT_EQ(kin_budget_left().spawns, 0);
    EXPECT_EQ(kin_budget_recharge_self((struct kin_budget){10, 0, 0, 0, 0}), KIN_NOCAP);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(left.ops, 499); /* half of what was left by then */
    EXPECT_EQ(kin_budget_left().ops, 998);
    return 0;
}

static int have_two_spawns(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n);

    options.caps = KIN_CAP_SPAWN;
    options.budget = (struct kin_budget){1000, 0, 2, 0, 0};
    EXPECT_EQ(kin_spawn_with(&n, &options, nest_strictly, arg, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(elsewhere_a_nested_nursery_draws_on_what_its_owner_has, "SCHED:8.2.1 SCHED:10.2.4")
{
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 1, have_two_spawns, NULL), 0);
}

static int open_too_large(void *arg)
{
    struct kin_nursery n;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;

    (void)arg;
    options.budget = (struct kin_budget){1, 0, 6, 0, 0};
    EXPECT_EQ(kin_nursery_open(&n, &options), KIN_BUDGET);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_SPAWNS);
    EXPECT_EQ(kin_spawn(&n, nothing_to_do, NULL), KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_BUDGET);
    EXPECT_EQ(kin_budget_left().spawns, 5);
    options.budget.spawns = 5;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    EXPECT_EQ(kin_budget_left().spawns, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_budget_left().spawns, 5);
    return 0;
}

static int open_large(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n, .recharge = KIN_RECHARGE_MANUAL);

    options.caps = KIN_CAP_SPAWN;
    options.budget = (struct kin_budget){1000, 0, 5, 0, 0};
    EXPECT_EQ(kin_spawn_with(&n, &options, open_too_large, arg, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_nursery_larger_than_its_owner_is_not_opened_and_leaves_nothing_behind, "SCHED:8.2.1")
{
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 1, open_large, NULL), 0);
    EXPECT_EQ(run_as(KIN_SERVICE, 1, open_large, NULL), 0);
}

/* ---- the whole runtime ---- */

static int live_within(void *arg)
{
    struct kin_budget left = kin_budget_left();
    int five = 5;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(left.ops, 1000);
    EXPECT_EQ(left.spawns, 2);
    EXPECT_EQ(left.channel_ops, UINT32_MAX);
    EXPECT_EQ(kin_spawn(&n, use_some, &five), 0);
    EXPECT_EQ(kin_spawn(&n, use_some, &five), 0);
    EXPECT_EQ(kin_spawn(&n, use_some, &five), KIN_BUDGET);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_SPAWNS);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_budget_left().ops, 1000 - 2 - 10); /* two spawns, ten checkpoints */
    for (int i = 0; i < 988; i++)
        EXPECT_EQ(kin_checkpoint(), 0);
    KIN_WITHIN(KIN_MS(1));
    EXPECT_EQ(kin_checkpoint(), KIN_TIMEOUT);
    return 0;
}

KIN_TEST(the_budget_of_the_config_bounds_the_whole_runtime, "SCHED:15.1.1")
{
    struct kin_config config = KIN_CONFIG_INIT;

    config.budget = (struct kin_budget){1000, 0, 2, UINT32_MAX, 0};
    config.workers = 1;
    EXPECT_EQ(kin_run(&config, live_within, NULL), 0);
    config.profile = KIN_SOVEREIGN;
    EXPECT_EQ(kin_run(&config, live_within, NULL), 0);
}

/* ---- fairness ---- */

struct crowd {
    _Atomic uint64_t hog_ops;
    _Atomic int left; /* well-behaved tasks that are not done */
    _Atomic int begun;
    uint64_t most; /* ops of the hog between two turns of another */
};

static int hog(void *arg)
{
    struct crowd *crowd = arg;
    atomic_fetch_add(&crowd->begun, 1);
    while (atomic_load(&crowd->left) > 0) {
        EXPECT_EQ(kin_checkpoint(), 0);
        atomic_fetch_add(&crowd->hog_ops, 1);
    }
    return 0;
}

static int behave(void *arg)
{
    struct crowd *crowd = arg;
    atomic_fetch_add(&crowd->begun, 1);
    while (atomic_load(&crowd->begun) < 11)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_yield(), 0);
    for (int turn = 0; turn < 200; turn++) {
        uint64_t before = atomic_load(&crowd->hog_ops);
        EXPECT_EQ(kin_yield(), 0);
        uint64_t between = atomic_load(&crowd->hog_ops) - before;
        if (between > crowd->most)
            crowd->most = between;
    }
    atomic_fetch_sub(&crowd->left, 1);
    return 0;
}

/* A hog on one worker beside ten that behave: between two turns of each it has one slice at most,
 * so that a round takes at most one slice longer than without it. */
static int share_the_worker(void *arg)
{
    struct crowd crowd = {.left = 10};
    KIN_NURSERY(n, .budget = *(struct kin_budget *)arg);

    EXPECT_EQ(kin_spawn(&n, hog, &crowd), 0);
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(kin_spawn(&n, behave, &crowd), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_LE(crowd.most, 100);
    EXPECT_GT(crowd.most, 0);
    return 0;
}

KIN_TEST(a_hog_has_one_slice_between_two_turns_of_the_others, "SCHED:4.1.1 SCHED:4.3.1")
{
    struct kin_config config = KIN_CONFIG_INIT;
    struct kin_budget unlimited = KIN_UNLIMITED_BUDGET, large = {10000000, 0, 20, 0, 0};

    config.workers = 1;
    config.yield_interval = 100;
    config.stall_threshold = KIN_NEVER; /* a replacement would be a second worker */
    EXPECT_EQ(kin_run(&config, share_the_worker, &unlimited), 0);
    EXPECT_EQ(kin_run(&config, share_the_worker, &large), 0);
}

/* An explicit budget that recharges by itself is a slice, too. */
static int slice_by_budget(void *arg)
{
    struct crowd crowd = {.left = 10};
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(spawn_on(&n, (struct kin_budget){50, 0, 0, 0, 0}, hog, &crowd, NULL), 0);
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(kin_spawn(&n, behave, &crowd), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_LE(crowd.most, 50);
    EXPECT_GT(crowd.most, 0);
    return 0;
}

KIN_TEST(who_is_recharged_by_its_nursery_goes_behind_the_others, "SCHED:3.2.1 SCHED:3.2.3")
{
    struct kin_config config = KIN_CONFIG_INIT;

    config.workers = 1;
    config.stall_threshold = KIN_NEVER;
    EXPECT_EQ(kin_run(&config, slice_by_budget, NULL), 0);
}
