/* SPDX-License-Identifier: MIT */
/*
 * Goal: who is out of a budget waits, fails or is recharged, as its nursery and the call say.
 * Method: public calls only. Exhausted tasks are woken in each of the ways there are. Nobody looks
 *         at a clock but through deadlines.
 */
#include "api/budgets.h"

/* ---- exhaustion ---- */

struct run_dry {
    struct kin_chan *chan;
    kin_time deadline;   /* of the operation that stops */
    int expected;        /* what it returns */
    _Atomic int is_dry;
    _Atomic int done;
};

/* Sends until nothing is left, then once more. */
static int send_until_dry(void *arg)
{
    struct run_dry *dry = arg;
    int item = 1;

    for (uint32_t i = kin_budget_left().channel_ops; i > 0; i--)
        EXPECT_EQ(kin_chan_send(dry->chan, &item, 0), 0);
    EXPECT_EQ(kin_budget_left().channel_ops, 0);
    atomic_store(&dry->is_dry, 1);
    uint64_t ops = kin_budget_left().ops;
    EXPECT_EQ(kin_chan_send(dry->chan, &item, dry->deadline), dry->expected);
    if (dry->expected == KIN_BUDGET)
        EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_CHANNEL_OPS);
    if (dry->expected != 0)
        EXPECT_EQ(kin_budget_left().ops, ops); /* all or nothing */
    if (dry->expected != KIN_CANCELLED)
        EXPECT_EQ(kin_checkpoint(), 0); /* only what needs the empty component stops */
    atomic_store(&dry->done, 1);
    return 0;
}

static const struct kin_budget two_sends = {1000, 0, 0, 2, 0};

static int wait_for_the_owner(void *arg)
{
    struct run_dry dry = {.deadline = KIN_NEVER};
    struct kin_task_ref ref;
    KIN_NURSERY(n, .recharge = KIN_RECHARGE_MANUAL);

    (void)arg;
    EXPECT_EQ(kin_chan_create(&dry.chan, sizeof(int), 10), 0);
    EXPECT_EQ(spawn_on(&n, two_sends, send_until_dry, &dry, &ref), 0);
    await(&dry.is_dry, 1);
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&dry.done), 0); /* [SCHED:3.2.2] */
    EXPECT_EQ(kin_budget_recharge(ref, (struct kin_budget){5, 0, 0, 0, 5}), 0);
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&dry.done), 0); /* that was not what it needs */
    EXPECT_EQ(kin_budget_recharge(ref, (struct kin_budget){0, 0, 0, 1, 0}), 0);
    await(&dry.done, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_budget_recharge(ref, much), KIN_STALE);
    kin_chan_unref(dry.chan);
    return 0;
}

KIN_TEST(who_is_exhausted_waits_until_it_is_recharged, "SCHED:3.2.1 SCHED:3.2.2 SCHED:3.2.3")
{
    run_on_few(wait_for_the_owner, NULL);
    EXPECT_EQ(run_as(KIN_SERVICE, 2, wait_for_the_owner, NULL), 0);
}

static int wait_for_a_cancel(void *arg)
{
    struct run_dry dry = {.deadline = KIN_NEVER, .expected = KIN_CANCELLED};
    KIN_NURSERY(n, .recharge = KIN_RECHARGE_MANUAL);

    (void)arg;
    EXPECT_EQ(kin_chan_create(&dry.chan, sizeof(int), 10), 0);
    EXPECT_EQ(spawn_on(&n, two_sends, send_until_dry, &dry, NULL), 0);
    await(&dry.is_dry, 1);
    EXPECT_EQ(kin_yield(), 0);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(atomic_load(&dry.done), 1);
    kin_chan_unref(dry.chan);
    return 0;
}

static int wait_for_a_deadline(void *arg)
{
    struct run_dry dry = {.deadline = kin_after(KIN_MS(2)), .expected = KIN_TIMEOUT};
    KIN_NURSERY(n, .recharge = KIN_RECHARGE_MANUAL);

    (void)arg;
    EXPECT_EQ(kin_chan_create(&dry.chan, sizeof(int), 10), 0);
    EXPECT_EQ(spawn_on(&n, two_sends, send_until_dry, &dry, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_GE(kin_now(), dry.deadline);
    kin_chan_unref(dry.chan);
    return 0;
}

static int wait_for_nothing(void *arg)
{
    struct run_dry dry = {.deadline = 0, .expected = KIN_BUDGET};

    (void)arg;
    EXPECT_EQ(kin_chan_create(&dry.chan, sizeof(int), 10), 0);
    {
        KIN_NURSERY(n, .recharge = KIN_RECHARGE_MANUAL);
        EXPECT_EQ(spawn_on(&n, two_sends, send_until_dry, &dry, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    {
        KIN_NURSERY(n, .recharge = KIN_RECHARGE_MANUAL, .on_exhausted = KIN_EXHAUSTED_FAIL);
        dry.deadline = KIN_NEVER;
        EXPECT_EQ(spawn_on(&n, two_sends, send_until_dry, &dry, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    kin_chan_unref(dry.chan);
    return 0;
}

KIN_TEST(a_cancel_ends_the_wait_for_a_recharge, "SCHED:3.2.2 NSM:4.2")
{
    run_on_few(wait_for_a_cancel, NULL);
}

KIN_TEST(a_deadline_ends_the_wait_for_a_recharge, "SCHED:3.2.2 N2001")
{
    run_on_few(wait_for_a_deadline, NULL);
}

static int wait_under_a_mask(void *arg)
{
    kin_mask();
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_checkpoint(), 0);
    atomic_store((_Atomic int *)arg, 1);
    EXPECT_EQ(kin_checkpoint(), KIN_CANCELLED); /* not before the grace is over */
    EXPECT_EQ(kin_cancel_reason(), KIN_STUCK);
    kin_unmask();
    return KIN_CANCELLED;
}

static int cancel_the_masked(void *arg)
{
    _Atomic int is_dry = 0;
    KIN_NURSERY(n, .recharge = KIN_RECHARGE_MANUAL, .cancel_grace = KIN_MS(2));

    (void)arg;
    EXPECT_EQ(spawn_on(&n, (struct kin_budget){3, 0, 0, 0, 0}, wait_under_a_mask, &is_dry, NULL),
              0);
    await(&is_dry, 1);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(the_end_of_a_grace_ends_a_wait_for_a_recharge_under_a_mask, "SCHED:3.2.2 N2002 B7")
{
    run_on_few(cancel_the_masked, NULL);
}

KIN_TEST(deadline_0_and_a_nursery_that_fails_say_budget_at_once, "SCHED:3.2.1 SCHED:14.1.1")
{
    run_on_few(wait_for_nothing, NULL);
}

static int stop_under_a_pushed_deadline(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(kin_checkpoint(), 0);
    KIN_WITHIN(KIN_MS(2));
    EXPECT_EQ(kin_checkpoint(), KIN_TIMEOUT); /* waits for ops, in vain */
    EXPECT_EQ(kin_budget_left().ops, 0);
    return 0;
}

static int exhaust_ops(void *arg)
{
    KIN_NURSERY(n, .recharge = KIN_RECHARGE_MANUAL);
    EXPECT_EQ(spawn_on(&n, (struct kin_budget){100, 0, 0, 0, 0}, stop_under_a_pushed_deadline, arg,
                       NULL),
              0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_checkpoint_without_ops_stops_and_a_pushed_deadline_ends_that, "SCHED:4.1.2 N2001")
{
    run_on_few(exhaust_ops, NULL);
}

static int notice_deadline(void *arg)
{
    int rounds = 0, rc;
    kin_time deadline = kin_after(KIN_MS(1)), previous = kin_deadline_push(deadline);

    (void)arg;
    while ((rc = kin_checkpoint()) == 0)
        rounds++;
    EXPECT_EQ(rc, KIN_TIMEOUT);
    EXPECT_GE(kin_now(), deadline);
    EXPECT_EQ(kin_checkpoint(), KIN_TIMEOUT);
    kin_deadline_pop(previous);
    EXPECT_EQ(kin_checkpoint(), 0);
    (void)kin_deadline_push(1); /* long ago: seen at once, far from the end of a slice */
    EXPECT_EQ(kin_checkpoint(), KIN_TIMEOUT);
    return 0;
}

KIN_TEST(a_checkpoint_notices_a_pushed_deadline_within_a_slice, "N2001")
{
    run_on_few(notice_deadline, NULL);
}

/* ---- recharging ---- */

static int count_checkpoints(void *arg)
{
    int rc;
    while ((rc = kin_checkpoint()) == 0)
        atomic_fetch_add((_Atomic int *)arg, 1);
    return rc;
}

static int spend_the_pool(void *arg)
{
    _Atomic int count = 0;
    KIN_NURSERY(n, .budget = {5000, 0, 4, 0, 0});

    (void)arg;
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(kin_spawn(&n, count_checkpoints, &count), 0);
    await(&count, 5000);
    for (int i = 0; i < 50; i++)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&count), 5000); /* to the last one, and not one more */
    EXPECT_EQ(kin_nursery_budget_left(&n).ops, 0);
    EXPECT_EQ(kin_nursery_recharge(&n, (struct kin_budget){777, 0, 0, 0, 0}), 0);
    await(&count, 5777);
    for (int i = 0; i < 50; i++)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&count), 5777);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(in_service_children_live_off_the_pool_to_its_last_op, "SCHED:3.2.3 SCHED:10.2.2")
{
    run_on_few(spend_the_pool, NULL);
}

struct pair {
    struct kin_chan *there, *back;
    int rounds;
};

static int ping(void *arg)
{
    struct pair *pair = arg;
    int item = 0;
    for (int i = 0; i < pair->rounds; i++) {
        EXPECT_EQ(kin_chan_send(pair->there, &item, KIN_NEVER), 0);
        EXPECT_EQ(kin_chan_recv(pair->back, &item, KIN_NEVER), 0);
    }
    return 0;
}

static int pong(void *arg)
{
    struct pair *pair = arg;
    int item;
    for (int i = 0; i < pair->rounds; i++) {
        EXPECT_EQ(kin_chan_recv(pair->there, &item, KIN_NEVER), 0);
        EXPECT_EQ(kin_chan_send(pair->back, &item, KIN_NEVER), 0);
    }
    return 0;
}

/* Two tasks that need each other, and a pool that is exactly enough: nobody may hoard. */
static int need_each_other(void *arg)
{
    struct pair pair = {.rounds = 10};
    KIN_NURSERY(n, .budget = {40, 0, 2, 40, 0});

    (void)arg;
    EXPECT_EQ(kin_chan_create(&pair.there, sizeof(int), 0), 0);
    EXPECT_EQ(kin_chan_create(&pair.back, sizeof(int), 0), 0);
    EXPECT_EQ(kin_spawn(&n, ping, &pair), 0);
    EXPECT_EQ(kin_spawn(&n, pong, &pair), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_chan_unref(pair.there);
    kin_chan_unref(pair.back);
    return 0;
}

KIN_TEST(a_pool_that_is_just_enough_is_enough_for_tasks_that_need_each_other, "SCHED:3.3.1")
{
    run_on_few(need_each_other, NULL);
}

/* Many take a portion and use one of it, and one needs all the rest before they go on. */
struct hoard {
    _Atomic int holding, left;
    struct kin_event done;
};

static int hold_a_portion(void *arg)
{
    struct hoard *hoard = arg;

    EXPECT_EQ(kin_checkpoint(), 0);
    atomic_fetch_add(&hoard->holding, 1);
    return kin_event_wait(&hoard->done, KIN_NEVER);
}

static int need_all_the_rest(void *arg)
{
    struct hoard *hoard = arg;

    while (atomic_fetch_sub(&hoard->left, 1) > 0)
        EXPECT_EQ(kin_checkpoint(), 0);
    kin_event_set(&hoard->done);
    return 0;
}

static int hoard_and_need(void *arg)
{
    struct hoard hoard = {.left = 1280 - 2 * 10}; /* each of ten has two operations */
    KIN_NURSERY(n, .budget = {1280, 0, 11, 0, 0});

    (void)arg;
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(kin_spawn(&n, hold_a_portion, &hoard), 0);
    await(&hoard.holding, 10);
    EXPECT_LT(kin_nursery_budget_left(&n).ops, 1280 - 10 - 50); /* they do hold some */
    EXPECT_EQ(kin_spawn(&n, need_all_the_rest, &hoard), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(nobody_waits_for_what_others_hold_and_do_not_use, "SCHED:3.2.2 SCHED:3.2.3")
{
    run_on_few(hoard_and_need, NULL);
}

static int hold_and_return(void *arg)
{
    _Atomic int *flags = arg;
    atomic_store(&flags[0], 1);
    while (!atomic_load(&flags[1]))
        EXPECT_EQ(kin_yield(), 0); /* which costs nothing */
    return 0;
}

static int need_one(void *arg)
{
    EXPECT_EQ(kin_checkpoint(), 0);
    atomic_store(&((_Atomic int *)arg)[2], 1);
    return 0;
}

static int live_on_what_returns(void *arg)
{
    _Atomic int flags[3] = {0};
    KIN_NURSERY(n, .budget = {100, 0, 2, 0, 0});

    (void)arg;
    EXPECT_EQ(spawn_on(&n, (struct kin_budget){100, 0, 0, 0, 0}, hold_and_return, flags, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, need_one, flags), 0);
    await(&flags[0], 1);
    for (int i = 0; i < 50; i++)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&flags[2]), 0); /* the first one has everything */
    atomic_store(&flags[1], 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&flags[2]), 1);
    return 0;
}

KIN_TEST(what_returns_to_the_pool_wakes_those_that_wait_for_it, "SCHED:8.2.1 SCHED:3.2.2")
{
    run_on_few(live_on_what_returns, NULL);
}

static int try_to_recharge_others(void *arg)
{
    struct kin_task_ref *ref = arg;
    EXPECT_EQ(kin_budget_recharge(*ref, much), kin_caps() & KIN_CAP_BUDGET ? 0 : KIN_NOCAP);
    return 0;
}

struct foreign {
    struct kin_nursery *n;
    int expected;
};

static int try_to_recharge_nursery(void *arg)
{
    struct foreign *foreign = arg;
    EXPECT_EQ(kin_nursery_recharge(foreign->n, much), foreign->expected);
    return 0;
}

static int permit_recharges(void *arg)
{
    struct kin_task_ref ref;
    struct kin_nursery n, others;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;

    (void)arg;
    options.budget = (struct kin_budget){100, 100, 10, 10, 10};
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, yield_for_ever, NULL, 0, &ref), 0);
    EXPECT_EQ(kin_nursery_open(&others, NULL), 0);
    struct foreign no = {&n, KIN_NOCAP}, yes = {&n, 0};
    EXPECT_EQ(spawn_able(&others, KIN_CAP_NONE, try_to_recharge_others, &ref), 0);
    EXPECT_EQ(spawn_able(&others, KIN_CAP_BUDGET, try_to_recharge_others, &ref), 0);
    EXPECT_EQ(spawn_able(&others, KIN_CAP_TIME, try_to_recharge_nursery, &no), 0);
    EXPECT_EQ(kin_nursery_join(&others, NULL), 0);
    EXPECT_EQ(kin_nursery_budget_left(&n).syscalls, 0); /* the pool pays first */
    EXPECT_EQ(kin_nursery_open(&others, NULL), 0);
    EXPECT_EQ(spawn_able(&others, KIN_CAP_BUDGET, try_to_recharge_nursery, &yes), 0);
    EXPECT_EQ(kin_nursery_join(&others, NULL), 0);
    EXPECT_EQ(kin_nursery_budget_left(&n).syscalls, much.syscalls);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(others_recharge_only_with_the_capability, "SCHED:3.2.3 SCHED:10.2.4")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, permit_recharges, NULL), 0);
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 2, permit_recharges, NULL), 0);
}

/* An owner without KIN_CAP_BUDGET gives what the pool has, and the pool what it has itself. */
static int own_without_the_capability(void *arg)
{
    struct kin_task_ref ref;
    struct kin_nursery n;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;

    (void)arg;
    EXPECT_EQ(kin_budget_left().ops, 1000);
    options.budget = (struct kin_budget){300, 0, 2, 0, 0};
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    EXPECT_EQ(kin_budget_left().ops, 700);
    EXPECT_EQ(spawn_on(&n, (struct kin_budget){100, 0, 0, 0, 0}, yield_for_ever, NULL, &ref), 0);
    EXPECT_EQ(kin_budget_left().ops, 699);
    EXPECT_EQ(kin_budget_recharge(ref, (struct kin_budget){50, 0, 0, 0, 0}), 0);
    EXPECT_EQ(kin_nursery_budget_left(&n).ops, 150);
    EXPECT_EQ(kin_budget_recharge(ref, (struct kin_budget){151, 0, 0, 0, 0}), KIN_BUDGET);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_OPS);
    EXPECT_EQ(kin_nursery_budget_left(&n).ops, 150);
    EXPECT_EQ(kin_nursery_recharge(&n, (struct kin_budget){99, 0, 0, 0, 0}), 0);
    EXPECT_EQ(kin_nursery_budget_left(&n).ops, 249);
    EXPECT_EQ(kin_budget_left().ops, 600);
    EXPECT_EQ(kin_nursery_recharge(&n, (struct kin_budget){601, 0, 0, 0, 0}), KIN_BUDGET);
    EXPECT_EQ(kin_budget_left().ops, 600);
    EXPECT_EQ(kin_budget_recharge_self((struct kin_budget){1, 0, 0, 0, 0}), KIN_NOCAP);
    EXPECT_EQ(kin_budget_recharge(kin_self(), (struct kin_budget){1, 0, 0, 0, 0}), KIN_NOCAP);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_budget_left().ops, 999); /* the one spawn */
    return 0;
}

static int spawn_owner(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n);

    options.caps = KIN_CAP_SPAWN;
    options.budget = (struct kin_budget){1000, 0, 5, 0, 0};
    EXPECT_EQ(kin_spawn_with(&n, &options, own_without_the_capability, arg, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(an_owner_gives_what_it_has_and_a_refused_recharge_changes_nothing, "SCHED:3.2.3")
{
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 1, spawn_owner, NULL), 0);
    EXPECT_EQ(run_as(KIN_CLUSTER, 1, spawn_owner, NULL), 0);
}

static int help_oneself(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_budget_left().ops, 100);
    EXPECT_EQ(kin_budget_recharge_self((struct kin_budget){150, 0, 0, 0, 0}), 0);
    EXPECT_EQ(kin_budget_left().ops, 250);
    EXPECT_EQ(kin_budget_recharge_self((struct kin_budget){51, 0, 0, 0, 0}), KIN_BUDGET);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_OPS);
    EXPECT_EQ(kin_budget_recharge_self((struct kin_budget){10, 1, 0, 0, 0}), KIN_BUDGET);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_MEMORY);
    EXPECT_EQ(kin_budget_left().ops, 250);
    /* the same by another name */
    EXPECT_EQ(kin_budget_recharge(kin_self(), (struct kin_budget){50, 0, 0, 0, 0}), 0);
    EXPECT_EQ(kin_budget_left().ops, 300);
    EXPECT_EQ(kin_budget_recharge_self((struct kin_budget){1, 0, 0, 0, 0}), KIN_BUDGET);
    EXPECT_EQ(kin_budget_recharge(kin_self(), (struct kin_budget){1, 0, 0, 0, 0}), KIN_BUDGET);
    EXPECT_EQ(kin_budget_recharge_self((struct kin_budget){0, 0, 0, 0, 5}), 0); /* has no limit */
    EXPECT_EQ(kin_budget_left().syscalls, UINT32_MAX);
    return 0;
}

static int spawn_helpless(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n, .budget = {100, 0, 1, 0, UINT32_MAX}); /* nothing is left for the recharge */

    options.caps = KIN_CAP_BUDGET;
    options.budget = (struct kin_budget){100, 0, 0, 0, UINT32_MAX};
    options.recharge_limit = (struct kin_budget){200, 0, 0, 0, 0};
    EXPECT_EQ(kin_spawn_with(&n, &options, help_oneself, arg, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_task_recharges_itself_within_its_limit_which_is_cumulative, "SCHED:3.2.3")
{
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 1, spawn_helpless, NULL), 0);
    EXPECT_EQ(run_as(KIN_SERVICE, 1, spawn_helpless, NULL), 0);
}

/* What was made out of nothing for a nursery does not become its owner's. */
static int make_for_others(void *arg)
{
    struct kin_nursery n;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;

    (void)arg;
    options.budget = (struct kin_budget){40, 0, 0, 0, 0};
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    EXPECT_EQ(kin_budget_left().ops, 60);
    EXPECT_EQ(kin_nursery_recharge(&n, (struct kin_budget){1000, 0, 0, 0, 0}), 0);
    EXPECT_EQ(kin_nursery_budget_left(&n).ops, 1040);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_budget_left().ops, 100);
    return 0;
}

static int spawn_maker(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n);

    options.caps = KIN_CAP_BUDGET | KIN_CAP_SPAWN;
    options.budget = (struct kin_budget){100, 0, 0, 0, 0};
    options.recharge_limit = (struct kin_budget){1000, 0, 0, 0, 0};
    EXPECT_EQ(kin_spawn_with(&n, &options, make_for_others, arg, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(what_was_made_for_a_nursery_ends_with_it, "SCHED:3.2.3")
{
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 1, spawn_maker, NULL), 0);
}

static int run_unbounded(void *arg)
{
    struct kin_task_ref ref;
    _Atomic int count = 0;
    KIN_NURSERY(n, .recharge = KIN_RECHARGE_MANUAL);

    (void)arg;
    struct kin_budget ten = {10, 0, 0, 0, 0};
    EXPECT_EQ(spawn_on(&n, ten, count_checkpoints, &count, &ref), 0);
    await(&count, 10);
    EXPECT_EQ(kin_budget_recharge(ref, KIN_UNLIMITED_BUDGET), 0);
    await(&count, 5000);
    EXPECT_EQ(kin_budget_recharge(ref, KIN_UNLIMITED_BUDGET), 0);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_recharge_without_a_limit_takes_the_limit_away, "")
{
    run_on_few(run_unbounded, NULL);
}
