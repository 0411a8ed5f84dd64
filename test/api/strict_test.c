/* SPDX-License-Identifier: MIT */
/*
 * Goal: what runs tasks on behalf of its caller (pools, combinators) works in every profile with
 *       what the caller may do and has, and an operation that needs several parts of a budget costs
 *       each of them, or nothing.
 * Method: black box, in the service, cluster and sovereign profiles; budgets compared before and
 *         after.
 */
#include "api/budgets.h"

#include <sys/socket.h>
#include <unistd.h>

static const enum kin_profile profiles[] = {KIN_SERVICE, KIN_CLUSTER, KIN_SOVEREIGN};
enum { PROFILES = sizeof profiles / sizeof profiles[0] };

/* Runs a body in every profile on one worker and on two. */
static void in_every_profile(kin_task_fn *fn)
{
    for (int i = 0; i < PROFILES; i++) {
        EXPECT_EQ(run_as(profiles[i], 1, fn, NULL), 0);
        EXPECT_EQ(run_as(profiles[i], 2, fn, NULL), 0);
    }
}

/* ---- pools ---- */

struct work {
    struct kin_chan *results;
    uint32_t caps; /* what the caller has */
    _Atomic int done;
};

/* What an item needs: a capability of the caller. */
static int pass_on(void *item, void *result, void *arg)
{
    struct work *work = arg;
    (void)result;
    EXPECT_EQ(kin_caps(), work->caps);
    atomic_fetch_add(&work->done, 1);
    return work->results ? kin_chan_send(work->results, item, 0) : 0;
}

enum { ITEMS = 20 };

static void use_pools(uint32_t caps)
{
    struct kin_pool_options options = KIN_POOL_OPTIONS_INIT;
    struct work work = {NULL, caps, 0};
    struct kin_chan *from = NULL;
    int items[ITEMS] = {0}, sum = 0, item;
    options.limit = 3;
    options.arg = &work;
    if (caps & KIN_CAP_CHANNEL)
        EXPECT_EQ(kin_chan_create(&work.results, sizeof item, 2 * ITEMS), 0);
    for (int i = 0; i < ITEMS; i++)
        items[i] = i;
    EXPECT_EQ(kin_pool_map(&options, pass_on, items, sizeof items[0], ITEMS, KIN_NEVER), 0);
    EXPECT_EQ(atomic_load(&work.done), ITEMS);
    if (!(caps & KIN_CAP_CHANNEL))
        return;
    EXPECT_EQ(kin_chan_create(&from, sizeof item, ITEMS), 0);
    for (int i = 0; i < ITEMS; i++)
        EXPECT_EQ(kin_chan_send(from, &items[i], 0), 0);
    kin_chan_close(from);
    EXPECT_EQ(kin_pool_each(&options, pass_on, from, KIN_NEVER), 0);
    EXPECT_EQ(atomic_load(&work.done), 2 * ITEMS);
    while (kin_chan_recv(work.results, &item, 0) == 0)
        sum += item;
    EXPECT_EQ(sum, ITEMS * (ITEMS - 1));
    kin_chan_unref(from);
    kin_chan_unref(work.results);
}

static int use_pools_with_everything(void *arg)
{
    (void)arg;
    use_pools(KIN_CAP_ALL);
    return 0;
}

static int use_pools_with_less(void *arg)
{
    (void)arg;
    use_pools(KIN_CAP_SPAWN | KIN_CAP_CHANNEL);
    return 0;
}

static int use_pools_without_channels(void *arg)
{
    struct kin_chan *chan = arg;
    struct kin_pool_options options = KIN_POOL_OPTIONS_INIT;
    use_pools(KIN_CAP_SPAWN);
    EXPECT_EQ(kin_pool_each(&options, pass_on, chan, KIN_NEVER), KIN_NOCAP);
    EXPECT_EQ(kin_chan_len(chan), 1); /* nothing was taken */
    return 0;
}

static int confine_pools(void *arg)
{
    const struct kin_budget enough = {50000, 50000, 400, 500, 500}; /* half of what there is */
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_chan *chan;
    int item = 1;
    (void)arg;
    EXPECT_EQ(kin_chan_create(&chan, sizeof item, 1), 0);
    EXPECT_EQ(kin_chan_send(chan, &item, 0), 0);
    KIN_NURSERY(n, .budget = much);
    options.budget = enough;
    options.caps = KIN_CAP_SPAWN | KIN_CAP_CHANNEL;
    EXPECT_EQ(kin_spawn_with(&n, &options, use_pools_with_less, NULL, 0, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    KIN_NURSERY(m, .budget = much);
    options.caps = KIN_CAP_SPAWN;
    EXPECT_EQ(kin_spawn_with(&m, &options, use_pools_without_channels, chan, 0, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&m, NULL), 0);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(pools_may_do_what_their_caller_may, "SCHED:10.2.2 SCHED:10.2.3 SCHED:10.2.4")
{
    in_every_profile(use_pools_with_everything);
    in_every_profile(confine_pools);
}

/* ---- an operation that needs two parts ---- */

struct two {
    int fd;
    struct kin_chan *chan;
};

static struct kin_budget spent(struct kin_budget before)
{
    struct kin_budget now = kin_budget_left();
    return (struct kin_budget){before.ops - now.ops, before.memory - now.memory,
                               before.spawns - now.spawns, before.channel_ops - now.channel_ops,
                               before.syscalls - now.syscalls};
}

/* One select on a channel and a descriptor. */
static int select_on_both(const struct two *two, kin_time deadline)
{
    struct kin_case cases[] = {kin_case_recv(two->chan, NULL), kin_case_write(two->fd)};
    return kin_select(cases, 2, deadline);
}

static int select_with_enough(void *arg)
{
    struct kin_budget before = kin_budget_left();
    EXPECT_EQ(select_on_both(arg, KIN_NEVER), 1);
    EXPECT(is_same(spent(before), (struct kin_budget){1, 0, 0, 1, 1}));
    return 0;
}

static int select_without_system_calls(void *arg)
{
    struct kin_budget before = kin_budget_left();
    EXPECT_EQ(select_on_both(arg, 0), KIN_BUDGET);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_SYSCALLS);
    EXPECT(is_same(spent(before), (struct kin_budget){0, 0, 0, 0, 0})); /* nothing, then */
    return 0;
}

static int select_without_channel_operations(void *arg)
{
    struct kin_budget before = kin_budget_left();
    EXPECT_EQ(select_on_both(arg, 0), KIN_BUDGET);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_CHANNEL_OPS);
    EXPECT(is_same(spent(before), (struct kin_budget){0, 0, 0, 0, 0}));
    return 0;
}

static int pay_for_both(void *arg)
{
    struct two two;
    int ends[2];
    (void)arg;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    two.fd = ends[0];
    EXPECT_EQ(kin_chan_create(&two.chan, 0, 1), 0);
    KIN_NURSERY(n, .budget = much, .recharge = KIN_RECHARGE_MANUAL);
    EXPECT_EQ(spawn_on(&n, (struct kin_budget){9, 9, 0, 9, 9}, select_with_enough, &two, NULL), 0);
    EXPECT_EQ(spawn_on(&n, (struct kin_budget){9, 9, 0, 9, 0}, select_without_system_calls, &two,
                       NULL),
              0);
    EXPECT_EQ(spawn_on(&n, (struct kin_budget){9, 9, 0, 0, 9}, select_without_channel_operations,
                       &two, NULL),
              0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_chan_unref(two.chan);
    EXPECT_EQ(kin_close(ends[0]), 0);
    EXPECT_EQ(close(ends[1]), 0);
    return 0;
}

KIN_TEST(a_select_on_a_channel_and_a_descriptor_costs_one_of_each, "SCHED:3.3.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, pay_for_both, NULL), 0);
}

/* ---- branches that cannot be started ---- */

static _Atomic int hedged;

static int be_hedged(void *arg)
{
    (void)arg;
    atomic_fetch_add(&hedged, 1);
    return 1;
}

/* Without spawns, or with fewer than there are branches: an hour is not waited for what cannot
 * begin. */
static int hedge_with_few_spawns(void *arg)
{
    struct kin_branch b[3];
    size_t winner = 9;
    uint32_t spawns = *(uint32_t *)arg;
    atomic_store(&hedged, 0);
    for (int i = 0; i < 3; i++)
        b[i] = (struct kin_branch){be_hedged, NULL, {KIN_SEV_PANIC, 1, 2, 3, ""}};
    int rc = kin_hedge(b, 3, KIN_SEC(3600), &winner);
    EXPECT_EQ(rc, spawns ? 0 : KIN_BUDGET);
    EXPECT_EQ(winner, spawns ? 0 : 9);
    EXPECT_EQ(atomic_load(&hedged), spawns ? 1 : 0);
    if (!spawns) {
        EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_SPAWNS);
        for (int i = 0; i < 3; i++) {
            EXPECT_EQ(b[i].out.severity, KIN_SEV_ERROR);
            EXPECT_EQ(b[i].out.status, KIN_BUDGET);
            EXPECT_EQ(b[i].out.task, 0);
        }
    }
    return 0;
}

static int hedge_in_need(void *arg)
{
    (void)arg;
    for (uint32_t spawns = 0; spawns < 2; spawns++) {
        struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
        KIN_NURSERY(n, .budget = much);
        options.budget = (struct kin_budget){1000, 1000, spawns, 10, 10};
        options.caps = KIN_CAP_SPAWN;
        EXPECT_EQ(kin_spawn_with(&n, &options, hedge_with_few_spawns, &spawns, 0, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(a_hedge_does_not_wait_for_branches_that_cannot_start, "D1 SCHED:8.2.1")
{
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 1, hedge_in_need, NULL), 0);
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 2, hedge_in_need, NULL), 0);
}

/* ---- every gate ---- */

struct gate {
    struct kin_chan *chan;
    struct kin_broadcast *news;
    struct kin_subscriber *reader;
    struct kin_watch *watch;
    struct kin_spsc *spsc;
    struct kin_mpsc *mpsc;
    struct kin_nursery *outer;
};

static int return_one(void *arg)
{
    (void)arg;
    return 1;
}

static int leave_it(void *item, void *result, void *arg)
{
    (void)item, (void)result, (void)arg;
    return 0;
}

/* Whether a call was refused for want of a capability, where that is right, or not, where it is
 * not; either way nothing may have happened that should not. */
static void expect_gate(const char *call, int rc, uint32_t needs)
{
    bool is_refused = (kin_caps() & needs) != needs;
    if ((rc == KIN_NOCAP) != is_refused) {
        fprintf(stderr, "%s\n", call);
        EXPECT_EQ(rc, is_refused ? KIN_NOCAP : 0);
    }
}
#define GATE(call, needs) expect_gate(#call, call, needs)

static void try_gates_of_scopes(struct gate *g)
{
    struct kin_branch b = {return_one, NULL, {KIN_SEV_OK, 0, 0, 0, ""}};
    struct kin_nursery n;
    int items[2] = {0, 0};
    GATE(kin_nursery_open(&n, NULL), KIN_CAP_SPAWN);
    kin_ignore(kin_nursery_join(&n, NULL));
    GATE(kin_spawn(g->outer, return_one, NULL), KIN_CAP_SPAWN);
    GATE(kin_spawn_copy(g->outer, return_one, &b, sizeof b), KIN_CAP_SPAWN);
    GATE(kin_spawn_with(g->outer, NULL, return_one, NULL, 0, NULL), KIN_CAP_SPAWN);
    GATE(kin_race(&b, 1, NULL), KIN_CAP_SPAWN);
    GATE(kin_any(&b, 1, NULL), KIN_CAP_SPAWN);
    GATE(kin_all(&b, 1), KIN_CAP_SPAWN);
    GATE(kin_quorum(&b, 1, 1), KIN_CAP_SPAWN);
    GATE(kin_timeout(&b, KIN_NEVER), KIN_CAP_SPAWN);
    GATE(kin_hedge(&b, 1, 1, NULL), KIN_CAP_SPAWN);
    GATE(kin_pool_map(NULL, leave_it, items, sizeof items[0], 2, KIN_NEVER), KIN_CAP_SPAWN);
    GATE(kin_budget_recharge_self((struct kin_budget){0, 0, 0, 0, 0}), KIN_CAP_BUDGET);
    GATE(kin_nursery_recharge(g->outer, (struct kin_budget){1, 0, 0, 0, 0}), KIN_CAP_BUDGET);
    GATE(kin_sleep(0), KIN_CAP_TIME);
    GATE(kin_sleep(kin_after(1)), KIN_CAP_TIME);
}

static void try_gates_of_channels(struct gate *g)
{
    struct kin_chan *chan = NULL;
    struct kin_broadcast *news = NULL;
    struct kin_subscriber *reader = NULL;
    struct kin_watch *watch = NULL;
    struct kin_spsc *spsc = NULL;
    struct kin_mpsc *mpsc = NULL;
    struct kin_case on_chan = kin_case_recv(g->chan, NULL), after = kin_case_after(0);
    struct kin_case both[] = {on_chan, after};
    int item = 3;
    uint64_t version = 0;
    GATE(kin_chan_create(&chan, 4, 1), KIN_CAP_CHANNEL);
    GATE(kin_chan_send(g->chan, &item, 0), KIN_CAP_CHANNEL);
    GATE(kin_chan_recv(g->chan, &item, 0), KIN_CAP_CHANNEL);
    GATE(kin_chan_recv(g->chan, &item, 1), KIN_CAP_CHANNEL);
    GATE(kin_select(&on_chan, 1, 0), KIN_CAP_CHANNEL);
    GATE(kin_select_ordered(&on_chan, 1, 1), KIN_CAP_CHANNEL);
    GATE(kin_select(&after, 1, 0), KIN_CAP_TIME);
    GATE(kin_select(both, 2, 0), KIN_CAP_CHANNEL | KIN_CAP_TIME);
    GATE(kin_broadcast_create(&news, 4, 1, KIN_BROADCAST_LAG), KIN_CAP_CHANNEL);
    GATE(kin_broadcast_subscribe(g->news, &reader), KIN_CAP_CHANNEL);
    GATE(kin_broadcast_send(g->news, &item, 0), KIN_CAP_CHANNEL);
    GATE(kin_broadcast_recv(g->reader, &item, NULL, 0), KIN_CAP_CHANNEL);
    GATE(kin_watch_create(&watch, 4, &item), KIN_CAP_CHANNEL);
    GATE(kin_watch_set(g->watch, &item), KIN_CAP_CHANNEL);
    GATE(kin_watch_get(g->watch, &item, NULL), KIN_CAP_CHANNEL);
    GATE(kin_watch_wait(g->watch, &item, &version, 0), KIN_CAP_CHANNEL);
    GATE(kin_spsc_create(&spsc, 4, 1), KIN_CAP_CHANNEL);
    GATE(kin_spsc_send(g->spsc, &item, 0), KIN_CAP_CHANNEL);
    GATE(kin_spsc_recv(g->spsc, &item, 0), KIN_CAP_CHANNEL);
    GATE(kin_mpsc_create(&mpsc, 4, 1), KIN_CAP_CHANNEL);
    GATE(kin_mpsc_send(g->mpsc, &item, 0), KIN_CAP_CHANNEL);
    GATE(kin_mpsc_recv(g->mpsc, &item, 0), KIN_CAP_CHANNEL);
    kin_subscriber_unref(reader);
    kin_chan_unref(chan); /* what was refused is NULL, and left alone */
    kin_broadcast_unref(news);
    kin_watch_unref(watch);
    kin_spsc_unref(spsc);
    kin_mpsc_unref(mpsc);
}

/* Locks need none: they have no effect outside of who holds them. */
static void try_what_has_no_gate(void)
{
    struct kin_mutex mutex = {{0}};
    struct kin_event event = {{0}};
    EXPECT_EQ(kin_mutex_lock(&mutex, 0), 0);
    kin_mutex_unlock(&mutex);
    EXPECT_EQ(kin_event_wait(&event, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_checkpoint(), 0);
    EXPECT_EQ(kin_defer(free, NULL), 0);
    kin_free(kin_alloc(1));
}

static int try_every_gate(void *arg)
{
    struct gate *g = arg;
    try_gates_of_scopes(g);
    try_gates_of_channels(g);
    try_what_has_no_gate();
    /* the calls that were refused have left nothing behind */
    EXPECT_EQ(kin_chan_len(g->chan), 0);
    EXPECT_EQ(kin_spsc_len(g->spsc), 0);
    EXPECT_EQ(kin_mpsc_len(g->mpsc), 0);
    return 0;
}

static int go_through_every_gate(void *arg)
{
    struct gate g;
    int item = 0;
    (void)arg;
    EXPECT_EQ(kin_chan_create(&g.chan, sizeof item, 1), 0);
    EXPECT_EQ(kin_broadcast_create(&g.news, sizeof item, 1, KIN_BROADCAST_LAG), 0);
    EXPECT_EQ(kin_broadcast_subscribe(g.news, &g.reader), 0);
    EXPECT_EQ(kin_watch_create(&g.watch, sizeof item, &item), 0);
    EXPECT_EQ(kin_spsc_create(&g.spsc, sizeof item, 1), 0);
    EXPECT_EQ(kin_mpsc_create(&g.mpsc, sizeof item, 1), 0);
    for (int i = 0; i < 22; i++) { /* each alone, all but each, none, all */
        uint32_t bit = i < 20 ? 1u << i / 2 : 0;
        uint32_t caps = i % 2 ? KIN_CAP_ALL & ~bit : bit;
        struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
        KIN_NURSERY(outer, .budget = KIN_UNLIMITED_BUDGET);
        KIN_NURSERY(n, .budget = much);
        g.outer = &outer;
        options.caps = caps ? caps : KIN_CAP_NONE;
        options.budget = (struct kin_budget){50000, 50000, 500, 500, 500};
        EXPECT_EQ(kin_spawn_with(&n, &options, try_every_gate, &g, 0, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&outer, NULL), 0);
    }
    kin_chan_unref(g.chan);
    kin_subscriber_unref(g.reader);
    kin_broadcast_unref(g.news);
    kin_watch_unref(g.watch);
    kin_spsc_unref(g.spsc);
    kin_mpsc_unref(g.mpsc);
    return 0;
}

KIN_TEST(every_gate_of_scopes_and_channels_is_closed_without_its_capability,
         "SCHED:10.2.4 SCHED:15.1.2 SCHED:1.1.2")
{
    in_every_profile(go_through_every_gate);
}
