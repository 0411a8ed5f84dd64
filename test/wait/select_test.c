/* SPDX-License-Identifier: MIT */
/*
 * Goal: a select leaves nothing behind: no waiter, no timer, no memory; and it asks for memory only
 * when it has many cases. Method: real runtimes; the test looks into the channels and counts the
 * requests for memory, and lets them fail.
 */
#include "kin_test.h"

#include "park/park.h"
#include "plat/plat.h"
#include "sched/sched.h"
#include "wait/chan.h"
#include "wait/timer.h"

#include <kin/kin.h>
#include <kin/chan.h>
#include <kin/select.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 8 }; /* that many need no memory */

static struct kin_chan *make(size_t item_size, size_t capacity)
{
    struct kin_chan *chan = NULL;
    EXPECT_EQ(kin_chan_create(&chan, item_size, capacity), 0);
    return chan;
}

static int run_with(unsigned workers, kin_task_fn *fn, void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = workers;
    config.seed = kin_test_seed();
    return kin_run(&config, fn, arg);
}

static void expect_idle(struct kin_chan *chan)
{
    kin__lock_take(&chan->lock, KIN__RANK_WAIT);
    EXPECT_EQ(kin__chan_state(chan) & (KIN__CHAN_SENDERS | KIN__CHAN_RECEIVERS), 0);
    EXPECT(kin__waitq_is_empty(&chan->senders));
    EXPECT(kin__waitq_is_empty(&chan->receivers));
    EXPECT_EQ(chan->pins, 0);
    kin__lock_give(&chan->lock, KIN__RANK_WAIT);
}

static uint64_t timers_waiting(void)
{
    struct kin_stats stats;
    EXPECT_EQ(kin_stats_get(&stats), 0);
    return stats.timers;
}

/* ---- nothing stays behind ---- */

static int leave_nothing(void *arg)
{
    struct kin_chan *chans[FEW];
    struct kin_case cases[FEW + 1];
    int item = 0;
    (void)arg;
    uint64_t timers = timers_waiting();
    for (int i = 0; i < FEW; i++) {
        chans[i] = make(sizeof item, 0);
        cases[i] = i % 2 ? kin_case_send(chans[i], &item) : kin_case_recv(chans[i], &item);
    }
    cases[FEW] = kin_case_after(KIN_US(50));
    for (int round = 0; round < 50; round++) {
        EXPECT_EQ(kin_select(cases, FEW, kin_after(KIN_US(50))), KIN_TIMEOUT);
        EXPECT_EQ(kin_select(cases, FEW + 1, kin_after(KIN_SEC(100))), FEW);
        EXPECT_EQ(kin_select(cases, FEW + 1, 0), KIN_TIMEOUT);
        EXPECT_EQ(timers_waiting(), timers);
        for (int i = 0; i < FEW; i++)
            expect_idle(chans[i]);
    }
    for (int i = 0; i < FEW; i++)
        kin_chan_unref(chans[i]);
    return 0;
}

KIN_TEST(a_select_that_ends_leaves_no_waiter_and_no_timer, "A10")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_with(workers, leave_nothing, NULL), 0);
}

static _Atomic int is_over;

static int select_all(void *arg)
{
    struct kin_case *cases = arg;
    int index = kin_select(cases, FEW, KIN_NEVER);
    atomic_store(&is_over, 1);
    return index;
}

/* Waits with FEW cases; the one on chan happens. */
static int meet_one(void *arg)
{
    struct kin_chan *chans[FEW];
    struct kin_case cases[FEW];
    int item = 3, got = -1;
    (void)arg;
    for (int winner = 0; winner < FEW; winner++) {
        for (int i = 0; i < FEW; i++) {
            chans[i] = make(sizeof item, 0);
            cases[i] = kin_case_recv(chans[i], &got);
        }
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, select_all, cases), 0);
        EXPECT_EQ(kin_chan_send(chans[winner], &item, KIN_NEVER), 0);
        struct kin_outcome how;
        EXPECT_EQ(kin_nursery_join(&n, &how), 0);
        EXPECT_EQ(got, 3);
        for (int i = 0; i < FEW; i++) {
            expect_idle(chans[i]);
            kin_chan_unref(chans[i]);
        }
    }
    return 0;
}

KIN_TEST(the_losers_are_taken_out_of_every_queue, "A10 002:3")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_with(workers, meet_one, NULL), 0);
}

/* ---- memory ---- */

static int count_requests(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 1);
    struct kin_case cases[FEW + 1];
    int item = 1;
    (void)arg;
    for (int i = 0; i <= FEW; i++)
        cases[i] = i % 2 ? kin_case_send(chan, &item) : kin_case_recv(chan, &item);
    kin__plat_fail_after(UINT64_MAX, false); /* counts, fails nothing */
    for (int i = 0; i < 100000; i++) {
        int index = kin_select(cases, FEW, i % 2 ? KIN_NEVER : 0);
        EXPECT_EQ(index % 2, i % 2 == 0);
    }
    EXPECT_EQ(kin__plat_requests(), 0);
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(kin_select(cases, 1, kin_after(KIN_US(10))), KIN_TIMEOUT);
    EXPECT_EQ(kin__plat_requests(), 0);
    EXPECT_GE(kin_select(cases, FEW + 1, 0), 0);
    EXPECT_EQ(kin__plat_requests(), 1);
    kin__plat_fail_after(0, false);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_hundred_thousand_selects_need_no_memory, "G033")
{
    EXPECT_EQ(run_with(1, count_requests, NULL), 0);
}

static int run_out(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 1);
    struct kin_case cases[FEW + 1];
    int item = 1;
    (void)arg;
    for (int i = 0; i <= FEW; i++) {
        cases[i] = kin_case_send(chan, &item);
        cases[i].status = 55;
    }
    kin__plat_fail_after(1, true);
    EXPECT_EQ(kin_select(cases, FEW + 1, KIN_NEVER), -ENOMEM);
    EXPECT_EQ(kin_select_ordered(cases, FEW + 1, 0), -ENOMEM);
    EXPECT_EQ(kin_chan_len(chan), 0);
    for (int i = 0; i <= FEW; i++)
        EXPECT_EQ(cases[i].status, 55);
    EXPECT_GE(kin_select(cases, FEW, 0), 0);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(kin_chan_len(chan), 1);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_select_without_memory_has_done_nothing, "N009")
{
    EXPECT_EQ(run_with(1, run_out, NULL), 0);
}

/* ---- as many as there can be ---- */

static int select_many(void *arg)
{
    static struct kin_chan *chans[KIN_SELECT_MAX];
    static struct kin_case cases[KIN_SELECT_MAX];
    int got = -1;
    (void)arg;
    for (int i = 0; i < KIN_SELECT_MAX; i++) {
        chans[i] = make(sizeof got, 1);
        cases[i] = kin_case_recv(chans[i], &got);
    }
    for (int i = 0; i < KIN_SELECT_MAX; i += 73) {
        EXPECT_EQ(kin_select(cases, KIN_SELECT_MAX, kin_after(KIN_US(10))), KIN_TIMEOUT);
        EXPECT_EQ(kin_chan_send(chans[i], &i, 0), 0);
        EXPECT_EQ(kin_select(cases, KIN_SELECT_MAX, KIN_NEVER), i);
        EXPECT_EQ(got, i);
    }
    for (int i = 0; i < KIN_SELECT_MAX; i++) {
        expect_idle(chans[i]);
        kin_chan_unref(chans[i]);
    }
    return 0;
}

KIN_TEST(as_many_cases_as_there_can_be, "")
{
    EXPECT_EQ(run_with(1, select_many, NULL), 0);
    EXPECT_EQ(run_with(2, select_many, NULL), 0);
}

/* One channel in every case, in both directions: nobody meets himself, however often. */
static int select_one_often(void *arg)
{
    static struct kin_case cases[KIN_SELECT_MAX];
    struct kin_chan *chan = make(sizeof(int), 0);
    int item = 1;
    (void)arg;
    for (int i = 0; i < KIN_SELECT_MAX; i++)
        cases[i] = i % 2 ? kin_case_send(chan, &item) : kin_case_recv(chan, &item);
    EXPECT_EQ(kin_select(cases, KIN_SELECT_MAX, kin_after(KIN_US(100))), KIN_TIMEOUT);
    expect_idle(chan);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(one_channel_in_every_case, "G051 G023")
{
    EXPECT_EQ(run_with(1, select_one_often, NULL), 0);
}

/* ---- a channel that ends while it is selected on ---- */

struct ending {
    struct kin_chan *chans[3];
    int index, status;
};

static int select_ending(void *arg)
{
    struct ending *ending = arg;
    int item = 0;
    struct kin_case cases[] = {
        kin_case_recv(ending->chans[0], &item), kin_case_send(ending->chans[1], &item),
        kin_case_recv(ending->chans[2], &item), kin_case_send(ending->chans[0], &item)};
    ending->index = kin_select(cases, 4, KIN_NEVER);
    ending->status = ending->index >= 0 ? cases[ending->index].status : 0;
    return 0;
}

/* Whether somebody stands in each of these lines. (Pins say less: a select that is about to begin
 * pins its channels for a moment, and a channel in two cases has one as soon as it is in line for
 * the first.) */
static bool waits_on(struct kin_chan *chan, uint32_t lines)
{
    kin__lock_take(&chan->lock, KIN__RANK_WAIT);
    bool is_waiting = (kin__chan_state(chan) & lines) == lines;
    kin__lock_give(&chan->lock, KIN__RANK_WAIT);
    return is_waiting;
}

/* All three lose their last reference while the select waits: the first wakes it, and the memory of
 * the others stays until it has taken itself out. */
static int end_all(void *arg)
{
    static const uint32_t lines[] = {KIN__CHAN_SENDERS | KIN__CHAN_RECEIVERS, KIN__CHAN_SENDERS,
                                     KIN__CHAN_RECEIVERS};
    (void)arg;
    for (int round = 0; round < 200; round++) {
        struct ending ending = {.index = -1};
        for (int i = 0; i < 3; i++)
            ending.chans[i] = make(sizeof(int), 0);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, select_ending, &ending), 0);
        for (int i = 0; i < 3; i++) {
            while (!waits_on(ending.chans[i], lines[i]))
                kin_ignore(kin_yield());
        }
        for (int i = 0; i < 3; i++)
            kin_chan_unref(ending.chans[(i + round) % 3]);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(ending.index % 3, round % 3);
        EXPECT_EQ(ending.status, KIN_CLOSED);
    }
    return 0;
}

KIN_TEST(the_memory_stays_until_a_select_has_left, "A6 A10")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_with(workers, end_all, NULL), 0);
}
