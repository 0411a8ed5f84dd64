/* SPDX-License-Identifier: MIT */
/*
 * Goal: the truth is learnt from servers that lie, hang, fail or cut, and time and cancellation
 * hold while they do.
 * Method: two name servers as tasks on the loopback; the first misbehaves, the second does not.
 * Tries last a second, which is the shortest that resolv.conf can say: few tests let one pass.
 */
#include "api/descriptors.h"
#include "wait/dns_server.h"

#include "plat/plat.h"
#include "sched/sched.h"
#include "wait/poller.h"
#include "wait/query.h"


struct world {
    struct dns_server servers[2];
    struct kin__names names;
    struct kin__query query;
};

static void point_at(struct kin__names *names, const struct dns_server *servers, unsigned count)
{
    names->server_count = count;
    names->timeout_s = 1;
    names->attempts = 1;
    for (unsigned i = 0; i < count; i++) {
        struct kin__hostport here = {.host = "127.0.0.1", .port = (uint16_t)servers[i].port};
        EXPECT(kin__address_numeric(&here, &names->servers[i]));
    }
}

/* Asks for a name that nothing is known of. */
static int ask_until(struct world *world, const char *name, kin_time deadline)
{
    memset(&world->query, 0, sizeof world->query);
    snprintf(world->query.name, sizeof world->query.name, "%s", name);
    return kin__query_ask(&world->query, &world->names, deadline);
}

static int ask(struct world *world, const char *name)
{
    return ask_until(world, name, KIN_NEVER);
}

static void expect_verdicts(struct world *world, enum kin__dns_verdict v6, enum kin__dns_verdict v4)
{
    EXPECT_EQ(world->query.kinds[KIN__QUERY_V6].verdict, v6);
    EXPECT_EQ(world->query.kinds[KIN__QUERY_V4].verdict, v4);
}

static void expect_truth(struct world *world)
{
    const struct kin__dns_answer *v6 = &world->query.kinds[KIN__QUERY_V6].answer;
    const struct kin__dns_answer *v4 = &world->query.kinds[KIN__QUERY_V4].answer;
    expect_verdicts(world, KIN__DNS_FOUND, KIN__DNS_FOUND);
    EXPECT(memcmp(v6->addresses[0], dns_v6, 16) == 0);
    EXPECT(memcmp(v4->addresses[0], dns_v4, 4) == 0);
}

static int (*body)(struct world *world);

static int in_world(void *arg)
{
    struct world *world = calloc(1, sizeof *world);
    (void)arg;
    dns_server_open(&world->servers[0], false);
    dns_server_open(&world->servers[1], true);
    point_at(&world->names, world->servers, 2);
    KIN_NURSERY(n);
    dns_serve(&n, &world->servers[0]);
    dns_serve(&n, &world->servers[1]);
    int rc = body(world);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    dns_server_close(&world->servers[0]);
    dns_server_close(&world->servers[1]);
    free(world);
    return rc;
}

static void with_servers(int (*fn)(struct world *world))
{
    body = fn;
    EXPECT_EQ(run_reporting(1, in_world, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, in_world, NULL, NULL), 0);
}

/* The same once, where a second passes. */
static void with_servers_once(int (*fn)(struct world *world))
{
    body = fn;
    EXPECT_EQ(run_reporting(2, in_world, NULL, NULL), 0);
}

/* ---- servers that answer ---- */

static int ask_honest(struct world *world)
{
    EXPECT_EQ(ask(world, "good.test"), 0);
    expect_truth(world);
    EXPECT_EQ(world->servers[0].datagrams, 2);
    EXPECT_EQ(ask(world, "alias.test"), 0);
    expect_truth(world);
    EXPECT_EQ(world->query.kinds[0].answer.ttl_s, 200);
    EXPECT_EQ(ask(world, "v4only.test"), 0);
    expect_verdicts(world, KIN__DNS_EMPTY, KIN__DNS_FOUND);
    EXPECT_EQ(ask(world, "none.test"), 0);
    expect_verdicts(world, KIN__DNS_NOBODY, KIN__DNS_NOBODY);
    EXPECT_EQ(world->query.kinds[0].answer.ttl_s, 60);
    EXPECT_EQ(world->query.kinds[1].answer.ttl_s, 60);
    EXPECT_EQ(ask(world, "empty.test"), 0);
    expect_verdicts(world, KIN__DNS_EMPTY, KIN__DNS_EMPTY);
    EXPECT_EQ(world->servers[1].datagrams, 0); /* nobody needed the second one */
    return 0;
}

KIN_TEST(honest_servers_are_believed, "")
{
    with_servers(ask_honest);
}

static int ask_for_half(struct world *world)
{
    struct kin__query *query = &world->query;
    memset(query, 0, sizeof *query);
    snprintf(query->name, sizeof query->name, "good.test");
    query->kinds[KIN__QUERY_V6].verdict = KIN__DNS_EMPTY; /* known already */
    EXPECT_EQ(kin__query_ask(query, &world->names, KIN_NEVER), 0);
    expect_verdicts(world, KIN__DNS_EMPTY, KIN__DNS_FOUND);
    EXPECT_EQ(world->servers[0].datagrams, 1);
    query->kinds[KIN__QUERY_V4].verdict = KIN__DNS_EMPTY;
    EXPECT_EQ(kin__query_ask(query, &world->names, KIN_NEVER), 0);
    EXPECT_EQ(world->servers[0].datagrams, 1);
    return 0;
}

KIN_TEST(what_is_known_is_not_asked_for, "")
{
    with_servers(ask_for_half);
}

static int ask_for_much(struct world *world)
{
    EXPECT_EQ(ask(world, "long.test"), 0);
    expect_truth(world);
    EXPECT_EQ(world->query.kinds[KIN__QUERY_V4].answer.count, KIN__DNS_ADDRESSES);
    EXPECT_EQ(world->servers[0].streams, 2);
    EXPECT_EQ(ask(world, "drip.test"), 0); /* byte by byte */
    expect_truth(world);
    EXPECT_EQ(world->servers[0].streams, 4);
    EXPECT_EQ(world->servers[1].datagrams, 0);
    return 0;
}

KIN_TEST(an_answer_that_is_cut_is_asked_for_over_a_stream, "")
{
    with_servers(ask_for_much);
}

/* ---- servers that do not ---- */

static int ask_liars(struct world *world)
{
    const char *const names[] = {"wrongid.test", "wrongname.test", "wrongtype.test",
                                 "elsewhere.test", "tiny.test"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        EXPECT_EQ(ask(world, names[i]), 0);
        expect_truth(world);
    }
    EXPECT_EQ(world->servers[1].datagrams, 0); /* the truth came behind each lie */
    return 0;
}

KIN_TEST(lies_are_not_believed, "")
{
    with_servers(ask_liars);
}

static int ask_failing(struct world *world)
{
    const char *const names[] = {"fail.test", "broken.test", "loop.test", "hangup.test",
                                 "flood.test", "circle.test", "counts.test"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int before = world->servers[1].datagrams;
        EXPECT_EQ(ask(world, names[i]), 0);
        expect_truth(world);
        EXPECT_EQ(world->servers[1].datagrams, before + 2);
    }
    EXPECT_EQ(ask(world, "failing.test"), 0); /* both fail */
    expect_verdicts(world, KIN__DNS_STRAY, KIN__DNS_STRAY);
    EXPECT_EQ(world->query.kinds[0].error, -EPROTO);
    EXPECT_EQ(world->query.kinds[1].error, -EPROTO);
    return 0;
}

KIN_TEST(a_server_that_fails_makes_way_for_the_next, "")
{
    with_servers(ask_failing);
}

static int ask_silent(struct world *world)
{
    EXPECT_EQ(ask(world, "silent.test"), 0); /* a second, then the other one */
    expect_truth(world);
    return 0;
}

KIN_TEST(after_silence_the_next_server_is_asked, "")
{
    with_servers_once(ask_silent);
}

static int ask_stalling(struct world *world)
{
    EXPECT_EQ(ask(world, "stall.test"), 0); /* its stream is open, and nothing comes */
    expect_truth(world);
    EXPECT_GT(world->servers[0].streams, 0);
    return 0;
}

KIN_TEST(a_stream_that_stalls_makes_way_for_the_next_server, "")
{
    with_servers_once(ask_stalling);
}

static int ask_noisy(struct world *world)
{
    EXPECT_EQ(ask(world, "noise.test"), 0); /* as good as silence */
    expect_truth(world);
    return 0;
}

KIN_TEST(noise_is_as_good_as_silence, "")
{
    with_servers_once(ask_noisy);
}

static int ask_half_dead(struct world *world)
{
    EXPECT_EQ(ask(world, "half.test"), 0); /* IPv6 never comes */
    EXPECT_EQ(world->query.kinds[KIN__QUERY_V4].verdict, KIN__DNS_FOUND);
    EXPECT_EQ(world->query.kinds[KIN__QUERY_V6].verdict, KIN__DNS_STRAY);
    EXPECT_EQ(world->query.kinds[KIN__QUERY_V6].error, -ETIMEDOUT);
    return 0;
}

KIN_TEST(one_kind_does_not_wait_long_for_the_other, "")
{
    with_servers_once(ask_half_dead);
}

static int ask_nobody(void *arg)
{
    struct world *world = calloc(1, sizeof *world);
    (void)arg;
    dns_server_open(&world->servers[0], false);
    point_at(&world->names, world->servers, 1);
    dns_server_close(&world->servers[0]);
    /* its port at another address: where it was, somebody else may be by now */
    struct kin__hostport nobody = {.host = "127.0.0.7", .port = (uint16_t)world->servers[0].port};
    EXPECT(kin__address_numeric(&nobody, &world->names.servers[0]));
    EXPECT_EQ(ask(world, "good.test"), 0);
    expect_verdicts(world, KIN__DNS_STRAY, KIN__DNS_STRAY);
    EXPECT_EQ(world->query.kinds[0].error, -ECONNREFUSED);
    free(world);
    return 0;
}

KIN_TEST(a_server_that_is_not_there_is_noticed_at_once, "")
{
    EXPECT_EQ(run_reporting(1, ask_nobody, NULL, NULL), 0);
}

/* ---- options ---- */

static int ask_over_streams(struct world *world)
{
    const char *const names[] = {"good.test", "long.test", "hangup.test"};
    world->names.by_stream = true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        EXPECT_EQ(ask(world, names[i]), 0);
        EXPECT_EQ(world->servers[0].streams, 2 * (int)(i + 1));
        if (i < 2)
            expect_truth(world);
    }
    expect_verdicts(world, KIN__DNS_STRAY, KIN__DNS_STRAY); /* both have hung up */
    EXPECT_EQ(world->servers[1].streams, 2);
    EXPECT_EQ(world->servers[0].datagrams + world->servers[1].datagrams, 0);
    return 0;
}

KIN_TEST(with_use_vc_nothing_goes_by_datagram, "")
{
    with_servers(ask_over_streams);
}

static int ask_at_length(struct world *world)
{
    EXPECT_EQ(ask(world, "big.test"), 0);
    EXPECT_EQ(world->servers[0].streams, 2); /* it was cut */
    world->names.has_edns = true;
    EXPECT_EQ(ask(world, "big.test"), 0);
    expect_truth(world);
    EXPECT_EQ(world->query.kinds[KIN__QUERY_V6].answer.count, KIN__DNS_ADDRESSES);
    EXPECT_EQ(world->servers[0].extended, 2);
    EXPECT_EQ(world->servers[0].streams, 2); /* it was not */
    EXPECT_EQ(ask(world, "long.test"), 0);   /* it is too long for that, too */
    expect_truth(world);
    EXPECT_EQ(world->servers[0].streams, 4);
    return 0;
}

KIN_TEST(with_edns0_longer_datagrams_come, "")
{
    with_servers(ask_at_length);
}

static int ask_the_puzzled(struct world *world)
{
    const char *const names[] = {"old.test", "bare.test"};
    world->names.has_edns = true;
    for (int i = 0; i < 4; i++) { /* by datagram, then over streams */
        world->names.by_stream = i >= 2;
        EXPECT_EQ(ask(world, names[i % 2]), 0);
        expect_truth(world);
        EXPECT_EQ(world->servers[0].extended, 2 * (i + 1)); /* once more without, each */
        EXPECT_EQ(world->servers[0].datagrams + world->servers[0].streams, 4 * (i + 1));
    }
    EXPECT_EQ(world->servers[1].datagrams + world->servers[1].streams, 0);
    world->names.by_stream = false;
    EXPECT_EQ(ask(world, "stubborn.test"), 0); /* whatever it is asked */
    expect_truth(world);
    EXPECT_EQ(world->servers[1].datagrams, 2);
    return 0;
}

KIN_TEST(who_is_puzzled_by_edns0_is_asked_without, "")
{
    with_servers(ask_the_puzzled);
}

static int ask_in_order(struct world *world)
{
    world->names.in_turn = true;
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(ask(world, "slow.test"), 0);
        expect_truth(world);
    }
    EXPECT_EQ(world->servers[0].datagrams, 6);
    EXPECT_EQ(world->servers[0].overlaps, 0);
    EXPECT_EQ(ask(world, "none.test"), 0); /* the second question is not even asked */
    expect_verdicts(world, KIN__DNS_NOBODY, KIN__DNS_NOBODY);
    EXPECT_EQ(world->servers[0].datagrams, 7);
    EXPECT_EQ(ask_until(world, "dead.test", kin_after(KIN_MS(5))), KIN_TIMEOUT);
    return 0;
}

KIN_TEST(with_single_request_one_question_waits_for_the_other, "")
{
    with_servers(ask_in_order);
}

/* ---- time and cancellation ---- */

static int ask_briefly(struct world *world)
{
    EXPECT_EQ(ask_until(world, "dead.test", 0), KIN_TIMEOUT);
    EXPECT_EQ(world->servers[0].datagrams, 0);
    EXPECT_EQ(ask_until(world, "dead.test", kin_after(KIN_MS(5))), KIN_TIMEOUT);
    kin_time before = kin_deadline_push(kin_after(KIN_MS(5)));
    EXPECT_EQ(ask(world, "dead.test"), KIN_TIMEOUT);
    kin_deadline_pop(before);
    EXPECT_EQ(ask(world, "good.test"), 0);
    expect_truth(world);
    return 0;
}

KIN_TEST(a_deadline_ends_the_asking, "")
{
    with_servers(ask_briefly);
}

static int ask_the_dead(void *arg)
{
    return ask(arg, "dead.test");
}

static int cancel_asking(struct world *world)
{
    EXPECT_EQ(kin__watcher_start(kin__worker_self()->sched), 0); /* whether somebody waits or not */
    EXPECT_EQ(ask(world, "good.test"), 0);
    int before = count_descriptors();
    int asked = world->servers[0].datagrams;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, ask_the_dead, world), 0);
    await(&world->servers[0].datagrams, asked + 2);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(count_descriptors(), before);
    return 0;
}

KIN_TEST(a_cancel_ends_the_asking_and_leaves_nothing_open, "")
{
    with_servers(cancel_asking);
}

static int lack_memory(struct world *world)
{
    int rc = ask(world, "long.test"); /* the servers have what they need */
    EXPECT_EQ(rc, 0);
    for (uint64_t n = 1; n < 40; n++) { /* each request fails once */
        kin__plat_fail_after(n, false);
        rc = ask(world, "long.test");
        kin__plat_fail_after(0, false);
        EXPECT(rc == 0 || rc == -ENOMEM);
    }
    EXPECT_EQ(rc, 0);
    return 0;
}

KIN_TEST(without_memory_it_says_so_or_asks_the_next, "")
{
    with_servers(lack_memory);
}

/* ---- what nobody should be able to guess ---- */

static unsigned count_distinct(const unsigned *values, unsigned count)
{
    unsigned distinct = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned j = 0;
        while (j < i && values[j] != values[i])
            j++;
        distinct += j == i;
    }
    return distinct;
}

/* Whether values follow each other by no rule that their differences would show. */
static void expect_no_pattern(const unsigned *values, unsigned count, unsigned distinct)
{
    unsigned steps[256];
    EXPECT_GT(count_distinct(values, count), distinct);
    for (unsigned i = 1; i < count; i++)
        steps[i - 1] = (values[i] - values[i - 1]) & 0xffff;
    EXPECT_GT(count_distinct(steps, count - 1), distinct);
}

static int ask_often(struct world *world)
{
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(ask(world, "good.test"), 0);
    EXPECT_EQ(world->servers[0].datagrams, 200);
    expect_no_pattern(world->servers[0].ids, 200, 180);
    expect_no_pattern(world->servers[0].ports, 200, 150);
    return 0;
}

KIN_TEST(ids_and_ports_are_fresh_for_each_question, "")
{
    with_servers(ask_often);
}

static int ask_in_turn(struct world *world)
{
    world->names.rotates = true;
    for (int i = 0; i < 40; i++)
        EXPECT_EQ(ask(world, "good.test"), 0);
    EXPECT_GT(world->servers[0].datagrams, 0);
    EXPECT_GT(world->servers[1].datagrams, 0);
    return 0;
}

KIN_TEST(load_is_spread_when_asked_for, "")
{
    with_servers(ask_in_turn);
}
