/* SPDX-License-Identifier: MIT */
/*
 * Goal: every gated call is refused without its capability, and capabilities only shrink.
 * Method: public calls only, with every set that matters, from tasks and from a plain thread.
 */
#include "api/budgets.h"

#include <pthread.h>

/* ---- capabilities ---- */

struct gates {
    struct kin_chan *chan;
    uint32_t caps;
};

static int try_every_gate(void *arg)
{
    struct gates *gates = arg;
    struct kin_chan *made = NULL;
    struct kin_nursery n;
    int item = 1;
    uint32_t caps = kin_caps();

    EXPECT_EQ(caps, gates->caps);
    EXPECT_EQ(kin_nursery_open(&n, NULL), caps & KIN_CAP_SPAWN ? 0 : KIN_NOCAP);
    EXPECT_EQ(kin_spawn(&n, nothing_to_do, NULL), caps & KIN_CAP_SPAWN ? 0 : KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), caps & KIN_CAP_SPAWN ? 0 : KIN_NOCAP);
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(1))), caps & KIN_CAP_TIME ? 0 : KIN_NOCAP);
    EXPECT_EQ(kin_chan_create(&made, 4, 1), caps & KIN_CAP_CHANNEL ? 0 : KIN_NOCAP);
    EXPECT_EQ(kin_chan_send(gates->chan, &item, 0), caps & KIN_CAP_CHANNEL ? 0 : KIN_NOCAP);
    EXPECT_EQ(kin_chan_recv(gates->chan, &item, 0), caps & KIN_CAP_CHANNEL ? 0 : KIN_NOCAP);
    EXPECT_EQ(kin_budget_recharge_self((struct kin_budget){0, 0, 0, 0, 0}),
              caps & KIN_CAP_BUDGET ? 0 : KIN_NOCAP);
    EXPECT_EQ(kin_chan_len(gates->chan), 0); /* a refused send has sent nothing */
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_checkpoint(), 0);
    kin_chan_unref(made);
    return 0;
}

static int check_gates(void *arg)
{
    static const uint32_t sets[] = {0, KIN_CAP_SPAWN, KIN_CAP_BUDGET, KIN_CAP_CHANNEL, KIN_CAP_TIME,
                                    KIN_CAP_ALL & ~KIN_CAP_TIME, KIN_CAP_ALL};
    struct gates gates;

    (void)arg;
    EXPECT_EQ(kin_chan_create(&gates.chan, sizeof(int), 1), 0);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
        KIN_NURSERY(n);
        gates.caps = sets[i];
        options.caps = sets[i] ? sets[i] : KIN_CAP_NONE;
        options.budget = much;
        EXPECT_EQ(kin_spawn_with(&n, &options, try_every_gate, &gates, 0, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    kin_chan_unref(gates.chan);
    return 0;
}

KIN_TEST(every_gated_call_is_refused_without_its_capability, "SCHED:10.2.4 SCHED:15.1.2")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, check_gates, NULL), 0);
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 1, check_gates, NULL), 0);
}

static int expect_caps(void *arg)
{
    EXPECT_EQ(kin_caps(), *(uint32_t *)arg);
    return 0;
}

static int grant_what_it_has(void *arg)
{
    uint32_t own = KIN_CAP_SPAWN | KIN_CAP_TIME, one = KIN_CAP_SPAWN, none = 0;
    bool inherits = *(bool *)arg;
    KIN_NURSERY(n);

    EXPECT_EQ(kin_caps(), own);
    EXPECT_EQ(spawn_able(&n, 0, expect_caps, inherits ? &own : &none), 0);
    EXPECT_EQ(kin_spawn(&n, expect_caps, inherits ? &own : &none), 0);
    EXPECT_EQ(spawn_able(&n, KIN_CAP_SPAWN, expect_caps, &one), 0);
    EXPECT_EQ(spawn_able(&n, KIN_CAP_NONE, expect_caps, &none), 0);
    EXPECT_EQ(spawn_able(&n, KIN_CAP_NET, expect_caps, &none), KIN_NOCAP);
    EXPECT_EQ(spawn_able(&n, KIN_CAP_ALL, expect_caps, &none), KIN_NOCAP);
    EXPECT_EQ(spawn_able(&n, KIN_CAP_NONE | KIN_CAP_SPAWN, expect_caps, &none), -EINVAL);
    EXPECT_EQ(spawn_able(&n, 0x10000, expect_caps, &none), -EINVAL);
    return kin_nursery_join(&n, NULL);
}

static int grant_some(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n);

    options.caps = KIN_CAP_SPAWN | KIN_CAP_TIME;
    options.budget = much;
    EXPECT_EQ(kin_spawn_with(&n, &options, grant_what_it_has, arg, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_child_has_at_most_what_its_parent_has, "SCHED:10.2.2 SCHED:10.2.4")
{
    bool yes = true, no = false;

    EXPECT_EQ(run_as(KIN_SERVICE, 1, grant_some, &yes), 0);
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 1, grant_some, &no), 0);
    EXPECT_EQ(run_as(KIN_CLUSTER, 1, grant_some, &no), 0);
}

/* Who spawns into the nursery of another gets no more through it than it has itself. */
static int spawn_into(void *arg)
{
    struct kin_nursery *n = arg;
    uint32_t own = kin_caps();

    if (!(own & KIN_CAP_SPAWN)) {
        EXPECT_EQ(kin_spawn(n, nothing_to_do, NULL), KIN_NOCAP);
        return 0;
    }
    EXPECT_EQ(spawn_able(n, KIN_CAP_TIME, nothing_to_do, NULL), KIN_NOCAP);
    return kin_spawn_copy(n, expect_caps, &own, sizeof own);
}

static void *spawn_from_thread(void *arg)
{
    uint32_t all = KIN_CAP_ALL;

    EXPECT_EQ(kin_spawn_copy(arg, expect_caps, &all, sizeof all), 0);
    return NULL;
}

static int lend_a_nursery(void *arg)
{
    pthread_t thread;
    struct kin_nursery n, others;

    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_nursery_open(&others, NULL), 0);
    EXPECT_EQ(spawn_able(&others, KIN_CAP_SPAWN, spawn_into, &n), 0);
    EXPECT_EQ(spawn_able(&others, KIN_CAP_NONE, spawn_into, &n), 0);
    EXPECT_EQ(kin_nursery_join(&others, NULL), 0);
    EXPECT_EQ(pthread_create(&thread, NULL, spawn_from_thread, &n), 0); /* as the owner may */
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(who_spawns_into_a_nursery_of_others_gives_no_more_than_it_has, "SCHED:15.1.2")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, lend_a_nursery, NULL), 0);
    EXPECT_EQ(run_as(KIN_SERVICE, 2, lend_a_nursery, NULL), 0);
}
