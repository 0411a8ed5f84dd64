/* SPDX-License-Identifier: MIT */
/*
 * Goal: a history of a channel is called linearizable exactly if some order explains it.
 * Method: histories written down; thousands of small random ones, compared with a search through
 * all orders that shares nothing with the one that is tested; long ones of a queue that is right
 * and of one that is broken once, where calls return long after they took effect; channels that
 * are broken from inside while the lab looks.
 */
#include "lab/in_lab.h"

#include "base/rng.h"
#include "lab/history.h"
#include "wait/chan.h"
#include "wait/queue.h"

#include <stdlib.h>

#define CALLS_MAX 4000u

static struct kin__happening calls[CALLS_MAX];
static size_t count;

static void begin(uint64_t capacity)
{
    calls[0] = (struct kin__happening){.value = capacity, .call = KIN__CALL_MADE};
    count = 1;
}

static void add(unsigned call, unsigned came, uint64_t value, uint64_t since, uint64_t until)
{
    calls[count++] = (struct kin__happening){.since = since,
                                             .until = until,
                                             .value = value,
                                             .call = (uint8_t)call,
                                             .came = (uint8_t)came};
}

static bool makes_sense(void)
{
    const struct kin__happening *wrong = NULL;
    return kin__history_check(calls, count, &wrong) == KIN__SENSE_MADE;
}

#define SEND(value, since, until) add(KIN__CALL_SEND, KIN__CAME_WELL, value, since, until)
#define RECV(value, since, until) add(KIN__CALL_RECV, KIN__CAME_WELL, value, since, until)

/* ---- written down ---- */

KIN_TEST(items_leave_in_the_order_in_which_they_came, "CH:5.5")
{
    begin(2);
    SEND(1, 1, 2), SEND(2, 3, 4), RECV(1, 5, 6), RECV(2, 7, 8);
    EXPECT(makes_sense());
    begin(2);
    SEND(1, 1, 2), SEND(2, 3, 4), RECV(2, 5, 6), RECV(1, 7, 8);
    EXPECT(!makes_sense());
    begin(2); /* two at once come in either order */
    SEND(1, 1, 3), SEND(2, 2, 4), RECV(2, 5, 6), RECV(1, 7, 8);
    EXPECT(makes_sense());
    begin(2); /* what nobody sent */
    SEND(1, 1, 2), RECV(3, 5, 6);
    const struct kin__happening *wrong = NULL;
    EXPECT_EQ(kin__history_check(calls, count, &wrong), KIN__SENSE_NONE);
    EXPECT_PTR(wrong, &calls[2]);
    begin(2); /* twice */
    SEND(1, 1, 2), RECV(1, 3, 4), RECV(1, 5, 6);
    EXPECT(!makes_sense());
    begin(2); /* before it was sent */
    RECV(1, 1, 2), SEND(1, 3, 4);
    EXPECT(!makes_sense());
}

KIN_TEST(a_channel_holds_no_more_than_fit, "CH:5.1")
{
    begin(1);
    SEND(1, 1, 2), SEND(2, 3, 4), RECV(1, 5, 6);
    EXPECT(!makes_sense());
    begin(1); /* the second waits */
    SEND(1, 1, 2), RECV(1, 4, 5), SEND(2, 3, 6);
    EXPECT(makes_sense());
    begin(0); /* both at once */
    RECV(1, 2, 3), SEND(1, 1, 4);
    EXPECT(makes_sense());
    begin(0);
    SEND(1, 1, 2), RECV(1, 3, 4);
    EXPECT(!makes_sense());
    begin(1);
    SEND(1, 1, 2), add(KIN__CALL_SEND, KIN__CAME_FULL, 0, 3, 4);
    EXPECT(makes_sense());
    begin(2);
    SEND(1, 1, 2), add(KIN__CALL_SEND, KIN__CAME_FULL, 0, 3, 4);
    EXPECT(!makes_sense());
    begin(1);
    add(KIN__CALL_RECV, KIN__CAME_EMPTY, 0, 1, 2);
    EXPECT(makes_sense());
    begin(1);
    SEND(1, 1, 2), add(KIN__CALL_RECV, KIN__CAME_EMPTY, 0, 3, 4);
    EXPECT(!makes_sense());
}

KIN_TEST(after_a_close_nothing_comes_and_everything_leaves, "CH:5.2 CH:5.3 CH:5.4")
{
    begin(2);
    SEND(1, 1, 2), add(KIN__CALL_CLOSE, KIN__CAME_WELL, 0, 3, 4), RECV(1, 5, 6);
    add(KIN__CALL_RECV, KIN__CAME_CLOSED, 0, 7, 8);
    EXPECT(makes_sense());
    begin(2); /* not before everything has left */
    SEND(1, 1, 2), add(KIN__CALL_CLOSE, KIN__CAME_WELL, 0, 3, 4);
    add(KIN__CALL_RECV, KIN__CAME_CLOSED, 0, 5, 6);
    EXPECT(!makes_sense());
    begin(2); /* unless it was dropped, */
    SEND(1, 1, 2), add(KIN__CALL_CLOSE, KIN__CAME_WELL, 2, 3, 4);
    add(KIN__CALL_RECV, KIN__CAME_CLOSED, 0, 5, 6);
    EXPECT(makes_sense());
    for (uint64_t dropped = 0; dropped < 3; dropped += 2) { /* all of it and no more */
        begin(2);
        SEND(1, 1, 2), add(KIN__CALL_CLOSE, KIN__CAME_WELL, 1 + dropped, 3, 4);
        EXPECT(!makes_sense());
    }
    begin(2);
    add(KIN__CALL_CLOSE, KIN__CAME_WELL, 0, 1, 2), SEND(1, 3, 4);
    EXPECT(!makes_sense());
    begin(1); /* who waited then was admitted */
    SEND(1, 1, 2), add(KIN__CALL_CLOSE, KIN__CAME_WELL, 0, 4, 5), RECV(1, 6, 7), SEND(2, 3, 8);
    EXPECT(makes_sense());
    begin(1);
    add(KIN__CALL_SEND, KIN__CAME_CLOSED, 0, 1, 2);
    EXPECT(!makes_sense());
}

/* What is remembered of a closed queue was once taken for an open one with a call more. */
KIN_TEST(what_was_tried_with_a_closed_queue_is_tried_with_an_open_one, "")
{
    for (unsigned i = 0; i < 100; i++) {
        begin(2);
        SEND(1, 2082, 3363), SEND(3, 3846, 4295);
        add(KIN__CALL_CLOSE, KIN__CAME_WELL, 2, 2340, 4421), SEND(3, 3144, 4617);
        RECV(3, 4202, 5419), RECV(1, 4524, 5901);
        add(KIN__CALL_RECV, KIN__CAME_CLOSED, 1, 4910, 5935);
        EXPECT(makes_sense()); /* the fourth, the third, the first, the second, 6, 5, 7 */
    }
}

/* Two that send the same into a queue without room: which of them may be met is not the same. */
KIN_TEST(who_sends_an_item_in_passing_is_remembered, "")
{
    begin(0);
    SEND(5, 10, 21), RECV(5, 20, 31), SEND(5, 11, 41), RECV(5, 30, 51);
    EXPECT(makes_sense());
}

/* ---- random, against all orders ---- */

struct state {
    uint64_t items[16];
    unsigned size;
    bool is_closed;
    uint64_t sent_until; /* of the last send */
};

/* Whether a call fits, by the book; and what is inside then. */
static bool step(struct state *s, const struct kin__happening *call, uint64_t capacity,
                 uint64_t closed_at)
{
    bool is_passing = capacity == 0 && s->size == 1;
    bool is_taken = call->call == KIN__CALL_RECV && call->came == KIN__CAME_WELL;
    if (is_passing && (!is_taken || call->since > s->sent_until))
        return false;
    if (is_taken) {
        if (s->size == 0 || s->items[0] != call->value)
            return false;
        s->size--;
        memmove(s->items, s->items + 1, s->size * sizeof(s->items[0]));
        return true;
    }
    if (call->call == KIN__CALL_CLOSE) {
        s->is_closed = true;
        if (call->value && s->size != call->value - 1)
            return false;
        if (call->value)
            s->size = 0;
        return true;
    }
    if (call->came == KIN__CAME_CLOSED)
        return s->is_closed && (call->call == KIN__CALL_SEND || s->size == 0);
    if (call->came == KIN__CAME_EMPTY)
        return s->size == 0;
    if (call->came == KIN__CAME_FULL)
        return s->size >= capacity;
    if ((s->is_closed && call->since > closed_at) || s->size >= (capacity ? capacity : 1))
        return false;
    s->items[s->size++] = call->value;
    s->sent_until = call->until;
    return true;
}

static bool has_order(unsigned left, struct state state, uint64_t closed_at)
{
    if (left == 0)
        return true;
    for (unsigned i = 1; i < count; i++) {
        bool can = left >> i & 1;
        for (unsigned k = 1; k < count && can; k++)
            can = !(left >> k & 1) || calls[k].until > calls[i].since;
        struct state next = state;
        if (can && step(&next, &calls[i], calls[0].value, closed_at) &&
            has_order(left & ~(1u << i), next, closed_at))
            return true;
    }
    return false;
}

/* One that a channel might have, but for what is changed at the end. */
static void draw_history(struct kin__rng *rng)
{
    struct state state = {.size = 0};
    const unsigned calls_count = 2 + (unsigned)kin__rng_below(rng, 6);
    begin(kin__rng_below(rng, 3));
    uint64_t closed_at = UINT64_MAX;
    for (unsigned moment = 100; count <= calls_count; moment += 10) {
        struct kin__happening call = {
            .since = moment - kin__rng_below(rng, 40),
            .until = moment + 1 + kin__rng_below(rng, 40),
            .value = 1 + kin__rng_below(rng, 4),
            .call = (uint8_t)(KIN__CALL_SEND + kin__rng_below(rng, 2)),
            .came = (uint8_t)kin__rng_below(rng, 8)};
        if (kin__rng_below(rng, 12) == 0)
            call.call = KIN__CALL_CLOSE, call.value = kin__rng_below(rng, 2) * (1 + state.size);
        if (call.came > KIN__CAME_CLOSED || call.call == KIN__CALL_CLOSE)
            call.came = KIN__CAME_WELL;
        if (call.came == (call.call == KIN__CALL_SEND ? KIN__CAME_EMPTY : KIN__CAME_FULL))
            continue;
        if (call.call == KIN__CALL_RECV && call.came == KIN__CAME_WELL && state.size)
            call.value = state.items[0];
        if (step(&state, &call, calls[0].value, closed_at) || kin__rng_below(rng, 40) == 0)
            calls[count++] = call;
        if (call.call == KIN__CALL_CLOSE && call.until < closed_at)
            closed_at = call.until;
    }
    if (kin__rng_below(rng, 2))
        calls[1 + kin__rng_below(rng, count - 1)].value = 1 + kin__rng_below(rng, 4);
}

static int by_until(const void *a, const void *b)
{
    const struct kin__happening *x = a, *y = b;
    return x->until < y->until ? -1 : x->until > y->until;
}

KIN_TEST(random_histories_are_judged_as_by_trying_all_orders, "")
{
    struct kin__rng rng;
    unsigned good = 0, bad = 0;
    kin__rng_init(&rng, kin_test_seed(), 0);
    for (unsigned i = 0; i < 20000; i++) {
        draw_history(&rng);
        for (unsigned k = 1; k < count; k++) { /* moments are of one call only */
            calls[k].since = calls[k].since * 32 + 2 * k;
            calls[k].until = calls[k].until * 32 + 2 * k + 1;
        }
        qsort(calls + 1, count - 1, sizeof(calls[0]), by_until);
        uint64_t closed_at = UINT64_MAX;
        for (size_t k = count - 1; k > 0; k--)
            if (calls[k].call == KIN__CALL_CLOSE)
                closed_at = calls[k].until;
        struct state state = {.size = 0};
        bool is_good = has_order(((1u << count) - 1) & ~1u, state, closed_at);
        EXPECT_EQ(makes_sense(), is_good);
        EXPECT(!is_good || kin__history_sign(calls, count) == NULL); /* a sign is a proof */
        good += is_good;
        bad += !is_good;
    }
    EXPECT_GT(good, 1000);
    EXPECT_GT(bad, 1000);
}

/* ---- long ---- */

KIN_TEST(long_histories_are_looked_at_as_a_whole, "")
{
    begin(1);
    for (uint64_t i = 0; count + 2 < CALLS_MAX; i++)
        SEND(i, 10 * i + 1, 10 * i + 2), RECV(i, 10 * i + 3, 10 * i + 4);
    EXPECT(makes_sense());
    calls[count - 3].value++;
    EXPECT(!makes_sense());
    begin(CALLS_MAX); /* never empty */
    for (uint64_t i = 0; count < CALLS_MAX; i++)
        SEND(i, 2 * i + 1, 2 * i + 2);
    EXPECT(makes_sense());
    calls[count - 1].call = KIN__CALL_RECV;
    calls[count - 1].value = 7777;
    EXPECT(!makes_sense());
}

/* A call that takes effect in the midst of others and returns after thousands of them. */
KIN_TEST(a_call_that_returns_very_late_has_come_early, "")
{
    begin(2);
    SEND(1, 2, 3);
    for (uint64_t i = 1; count + 2 < CALLS_MAX; i++)
        RECV(i, 10 * i + 1, 10 * i + 2), SEND(i + 1, 10 * i + 3, 10 * i + 4);
    calls[1].until = calls[count - 1].until + 1; /* the first send returns as the last */
    struct kin__happening late = calls[1];
    memmove(calls + 1, calls + 2, (count - 2) * sizeof(calls[0]));
    calls[count - 1] = late;
    EXPECT(makes_sense());
}

/* A queue that is used by a crowd, one call at a time each; a call begins, takes effect at a moment
 * when it can, and returns some time later: some players return very late. */
enum { CROWD = 24, ROOM_MAX = 70 };
enum fault { NONE, SWAPPED, LOST, DOUBLED, INVENTED, TOO_MANY, NOT_EMPTY, NOT_FULL, FAULTS };

static struct {
    struct kin__rng rng;
    struct player {
        struct kin__happening call;
        bool is_under_way, has_effect;
        unsigned slowness; /* returns once in so many turns */
    } players[CROWD];
    uint64_t items[CALLS_MAX], since_of[CALLS_MAX]; /* what is inside, when its send began, */
    uint64_t sent_by[CALLS_MAX];                    /* and when that returned; 0: not yet */
    size_t inside, room;
    uint64_t moment, next_value;
    bool has_twins; /* items are not all different */
} crowd;

static void put_back(struct player *player)
{
    player->call.until = ++crowd.moment;
    for (size_t i = 0; player->call.call == KIN__CALL_SEND && i < crowd.inside; i++) {
        if (crowd.since_of[i] == player->call.since)
            crowd.sent_by[i] = player->call.until;
    }
    calls[count++] = player->call;
    player->is_under_way = false;
}

static void start(struct player *player, unsigned call)
{
    *player = (struct player){.is_under_way = true, .slowness = player->slowness};
    player->call.call = (uint8_t)call;
    player->call.since = ++crowd.moment;
    player->call.is_blind = call == KIN__CALL_RECV && kin__rng_below(&crowd.rng, 8) == 0 &&
                            crowd.has_twins;
}

/* The call takes effect, if it can. */
static void act(struct player *player)
{
    struct kin__happening *call = &player->call;
    bool tries = kin__rng_below(&crowd.rng, 20) == 0;
    if (call->call == KIN__CALL_SEND && crowd.inside < crowd.room) {
        call->value = ++crowd.next_value;
        if (crowd.has_twins)
            call->value = 1 + kin__rng_below(&crowd.rng, 6);
        crowd.since_of[crowd.inside] = call->since;
        crowd.sent_by[crowd.inside] = 0;
        crowd.items[crowd.inside++] = call->value;
    } else if (call->call == KIN__CALL_RECV && crowd.inside > 0) {
        call->value = call->is_blind ? 0 : crowd.items[0];
        crowd.inside--;
        memmove(crowd.items, crowd.items + 1, crowd.inside * sizeof(crowd.items[0]));
        memmove(crowd.sent_by, crowd.sent_by + 1, crowd.inside * sizeof(crowd.items[0]));
        memmove(crowd.since_of, crowd.since_of + 1, crowd.inside * sizeof(crowd.items[0]));
    } else if (tries) {
        call->came = call->call == KIN__CALL_SEND ? KIN__CAME_FULL : KIN__CAME_EMPTY;
    } else {
        return;
    }
    player->has_effect = true;
}

static void move(struct player *player)
{
    if (!player->is_under_way)
        start(player, KIN__CALL_SEND + (unsigned)kin__rng_below(&crowd.rng, 2));
    else if (!player->has_effect)
        act(player);
    else if (kin__rng_below(&crowd.rng, player->slowness) == 0)
        put_back(player);
}

/* One call from its begin to its return with nothing between. */
static void at_once(unsigned call, unsigned came, uint64_t value)
{
    add(call, came, value, crowd.moment + 1, crowd.moment + 2);
    crowd.moment += 2;
}

/* Breaks the queue so that no order can explain it: what is wrong is seen by calls that are alone
 * between their begin and their return. False: it cannot be done now. */
static bool break_it(enum fault fault)
{
    size_t n = crowd.inside;
    switch (fault) {
    case SWAPPED: /* the second, which surely came later, leaves first */
        if (n < 2 || !crowd.sent_by[0] || crowd.sent_by[0] > crowd.since_of[1])
            return false;
        at_once(KIN__CALL_RECV, KIN__CAME_WELL, crowd.items[1]);
        at_once(KIN__CALL_RECV, KIN__CAME_WELL, crowd.items[0]);
        crowd.inside = 0;
        return true;
    case LOST: /* the oldest is gone, and one that surely came later leaves */
        if (n < 2 || !crowd.sent_by[0] || crowd.sent_by[0] > crowd.since_of[1])
            return false;
        at_once(KIN__CALL_RECV, KIN__CAME_WELL, crowd.items[1]);
        crowd.inside = 0;
        return true;
    case DOUBLED:
        if (n < 1)
            return false;
        at_once(KIN__CALL_RECV, KIN__CAME_WELL, crowd.items[0]);
        at_once(KIN__CALL_RECV, KIN__CAME_WELL, crowd.items[0]);
        crowd.inside = 0;
        return true;
    case INVENTED:
        at_once(KIN__CALL_RECV, KIN__CAME_WELL, 1000000);
        return true;
    case TOO_MANY: /* with nobody else about */
        for (size_t i = 0; i <= crowd.room; i++)
            at_once(KIN__CALL_SEND, KIN__CAME_WELL, 1000000 + i);
        return true;
    case NOT_EMPTY:
        at_once(KIN__CALL_SEND, KIN__CAME_WELL, 1000000);
        at_once(KIN__CALL_RECV, KIN__CAME_EMPTY, 0);
        return true;
    default:
        at_once(KIN__CALL_SEND, KIN__CAME_FULL, 0);
        return n < crowd.room;
    }
}

static void everybody_returns(void)
{
    for (unsigned i = 0; i < CROWD; i++) {
        if (crowd.players[i].is_under_way && crowd.players[i].has_effect)
            put_back(&crowd.players[i]);
        crowd.players[i].is_under_way = false; /* those without an effect leave no trace */
    }
}

/* A history of so many calls; with a fault, which happens somewhere in its second half. */
static void draw_long(size_t length, enum fault fault, bool has_twins)
{
    size_t most = kin__rng_below(&crowd.rng, 2) ? 4 : ROOM_MAX;
    begin(crowd.room = (fault ? 2 : 1) + kin__rng_below(&crowd.rng, most));
    crowd.inside = 0;
    crowd.moment = crowd.next_value = 0;
    crowd.has_twins = has_twins;
    for (unsigned i = 0; i < CROWD; i++) {
        static const unsigned slow[] = {1, 2, 5, 20, 500};
        crowd.players[i] = (struct player){.slowness = slow[kin__rng_below(&crowd.rng, 5)]};
    }
    size_t when = length / 2 + kin__rng_below(&crowd.rng, length / 4);
    bool is_quiet = fault == TOO_MANY || fault == NOT_EMPTY || fault == NOT_FULL;
    for (bool is_broken = fault == NONE; count < length || !is_broken;) {
        move(&crowd.players[kin__rng_below(&crowd.rng, CROWD)]);
        if (is_broken || count < when || (fault == NOT_FULL && crowd.inside == crowd.room))
            continue;
        if (is_quiet)
            everybody_returns();
        is_broken = break_it(fault);
    }
    everybody_returns();
}

static enum kin__sense judge_long(void)
{
    const struct kin__happening *wrong = NULL;
    return kin__history_check(calls, count, &wrong);
}

KIN_TEST(long_histories_of_a_right_queue_raise_no_alarm, "")
{
    unsigned undecided = 0, total = 100;
    kin__rng_init(&crowd.rng, kin_test_seed(), 1);
    for (unsigned i = 0; i < total; i++) {
        draw_long(100 + kin__rng_below(&crowd.rng, 1000), NONE, i % 4 == 0);
        enum kin__sense sense = judge_long();
        EXPECT_NE(sense, KIN__SENSE_NONE);
        EXPECT_PTR(kin__history_sign(calls, count), NULL);
        undecided += sense == KIN__SENSE_UNDECIDED;
    }
    printf("%u of %u are not decided\n", undecided, total);
    EXPECT_LT(undecided, total * 3 / 4);
}

KIN_TEST(long_histories_of_a_queue_that_is_broken_once_are_seen, "")
{
    kin__rng_init(&crowd.rng, kin_test_seed(), 2);
    for (unsigned i = 0; i < 70; i++) {
        draw_long(100 + kin__rng_below(&crowd.rng, 1000), NONE + 1 + i % (FAULTS - 1), false);
        EXPECT_EQ(judge_long(), KIN__SENSE_NONE);
    }
}

/* ---- in the lab ---- */

enum way { RIGHT, SWAP, LOSE, WIDEN, REOPEN, WAYS };

static int break_a_channel(void *arg)
{
    struct kin_chan *chan;
    enum way way = *(enum way *)arg;
    int values[2] = {1, 2}, got = 0;
    KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), 2));
    for (int i = 0; i < 2; i++)
        KIN_LAB_OK(kin_chan_send(chan, &values[i], KIN_NEVER));
    if (way == SWAP)
        memcpy(chan->ring, (int[]){2, 1}, sizeof values);
    if (way == LOSE)
        chan->count = 0;
    if (way == WIDEN)
        chan->capacity = 3;
    kin_ignore(kin_chan_send(chan, &values[0], way == WIDEN ? KIN_NEVER : 0));
    kin_ignore(kin_chan_recv(chan, &got, 0));
    kin_chan_close(chan);
    if (way == REOPEN)
        chan->state &= ~KIN__CHAN_CLOSED;
    kin_ignore(kin_chan_send(chan, &values[0], 0));
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_channel_that_breaks_its_order_is_seen, "CH:5.1 CH:5.5")
{
    enum way way = RIGHT;
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, break_a_channel, &way), 0);
    for (way = SWAP; way < WAYS; way++)
        expect_oracle(break_a_channel, &way, "linearizability", KIN_PANICKED);
    EXPECT(strstr(report.text, "no order of the calls on one channel explains") != NULL);
}

/* The same of a queue: what is in it changes its places. */
static int break_a_queue(void *is_broken)
{
    struct kin_spsc *queue;
    int got;
    KIN_LAB_OK(kin_spsc_create(&queue, sizeof(int), 2));
    struct kin__queue *q = (struct kin__queue *)(void *)queue;
    for (int i = 1; i <= 2; i++)
        KIN_LAB_OK(kin_spsc_send(queue, &i, KIN_NEVER));
    if (is_broken)
        memcpy(q->ring, (int[]){2, 1}, 2 * sizeof(int));
    for (int i = 1; i <= 2; i++)
        KIN_LAB_OK(kin_spsc_recv(queue, &got, KIN_NEVER));
    kin_spsc_unref(queue);
    return 0;
}

KIN_TEST(a_queue_that_breaks_its_order_is_seen, "CH:5.5")
{
    int yes;
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, break_a_queue, NULL), 0);
    expect_oracle(break_a_queue, &yes, "linearizability", KIN_PANICKED);
}

/* A case of a select that loses has taken an item, and nobody ever looks for it. */
static int lose_to_a_loser(void *is_queue)
{
    struct kin_chan *chan;
    struct kin_spsc *queue;
    int value = 7, status;
    KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), 2));
    KIN_LAB_OK(kin_spsc_create(&queue, sizeof(int), 2));
    KIN_LAB_OK(kin_chan_send(chan, &value, KIN_NEVER));
    KIN_LAB_OK(kin_spsc_send(queue, &value, KIN_NEVER));
    const struct kin__waitable *loser = is_queue ? &kin__queue_recv_waitable
                                                 : &kin__chan_recv_waitable;
    EXPECT(loser->try_complete(is_queue ? (void *)queue : chan, &value, &status));
    kin_chan_unref(chan);
    kin_spsc_unref(queue);
    return 0;
}

KIN_TEST(an_item_that_a_loser_has_taken_is_missed, "CH:5.5")
{
    int yes;
    expect_oracle(lose_to_a_loser, NULL, "linearizability", KIN_PANICKED);
    EXPECT(strstr(report.text, "root finds 0 items inside when it drops them") != NULL);
    expect_oracle(lose_to_a_loser, &yes, "linearizability", KIN_PANICKED);
}

/* Two give, two take, one of each by a select, somebody closes. */
static int give(void *chan)
{
    for (int i = 0; i < 3; i++) {
        struct kin_case cases[] = {KIN_CASE_SEND(chan, &i), KIN_CASE_AFTER(KIN_SEC(1))};
        if (i == 1 && kin_select(cases, 2, KIN_NEVER) != 0)
            return 0;
        if (i != 1 && kin_chan_send(chan, &i, KIN_NEVER) < 0)
            return 0;
    }
    return 0;
}

static int take(void *chan)
{
    int value;
    for (int i = 0; i < 3; i++) {
        struct kin_case cases[] = {KIN_CASE_RECV(chan, &value), KIN_CASE_AFTER(KIN_SEC(1))};
        if (i == 1 ? kin_select(cases, 2, KIN_NEVER) != 0
                   : kin_chan_recv(chan, i ? NULL : &value, kin_after(KIN_SEC(1))) < 0)
            return 0;
    }
    kin_chan_close(chan);
    return 0;
}

static int use_a_channel(void *capacity)
{
    struct kin_chan *chan;
    KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), *(size_t *)capacity));
    {
        KIN_NURSERY(n);
        for (int i = 0; i < 2; i++) {
            KIN_LAB_OK(kin_spawn(&n, give, chan));
            KIN_LAB_OK(kin_spawn(&n, take, chan));
        }
        KIN_LAB_OK(kin_nursery_join(&n, NULL));
    }
    kin_chan_unref(chan);
    return 0;
}

/* A crowd hands many items on through two channels; the strategy lets some of it wait very long. */
enum { ITEMS = 271, HANDS = 23, PLACES = 69 };
static struct kin_chan *questions, *answers;

static int hand_on(void *arg)
{
    int value, rc;
    (void)arg;
    while ((rc = kin_chan_recv(questions, &value, KIN_NEVER)) == 0) {
        if (value % 3 == 0)
            kin_ignore(kin_yield());
        if ((rc = kin_chan_send(answers, &value, KIN_NEVER)) < 0)
            return rc;
    }
    return rc == KIN_CLOSED ? 0 : rc;
}

static int feed(void *arg)
{
    (void)arg;
    for (int i = 0; i < ITEMS; i++)
        KIN_LAB_OK(kin_chan_send(questions, &i, KIN_NEVER));
    kin_chan_close(questions);
    return 0;
}

static int join_then_close(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    for (int i = 0; i < HANDS; i++)
        KIN_LAB_OK(kin_spawn(&n, hand_on, NULL));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_chan_close(answers);
    return 0;
}

static int use_a_crowd(void *arg)
{
    int got = 0, value;
    (void)arg;
    KIN_LAB_OK(kin_chan_create(&questions, sizeof(int), PLACES));
    KIN_LAB_OK(kin_chan_create(&answers, sizeof(int), PLACES));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, join_then_close, NULL));
    KIN_LAB_OK(kin_spawn(&n, feed, NULL));
    while (kin_chan_recv(answers, &value, KIN_NEVER) == 0)
        got++;
    kin_lab_assert(got == ITEMS, "nothing is lost");
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_chan_unref(questions);
    kin_chan_unref(answers);
    return 0;
}

KIN_TEST(many_calls_on_one_channel_raise_no_alarm, "CH:5.5")
{
    EXPECT_EQ(lab(KIN_LAB_PCT, 200, use_a_crowd, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 50, use_a_crowd, NULL), 0);
}

/* More channels than are looked at, in memory that others had before. */
static int use_many_channels(void *arg)
{
    struct kin_chan *first, *chan;
    int value = 1;
    (void)arg;
    for (int i = 0; i < 200; i++) {
        KIN_LAB_OK(kin_chan_create(&first, sizeof(int), 1));
        KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), 2 + (size_t)i % 3));
        for (int k = 0; k < 2; k++)
            KIN_LAB_OK(kin_chan_send(chan, &value, KIN_NEVER));
        KIN_LAB_OK(kin_chan_send(first, &value, KIN_NEVER));
        kin_chan_unref(i % 2 ? first : chan);
        kin_chan_unref(i % 2 ? chan : first);
    }
    return 0;
}

KIN_TEST(many_channels_in_the_same_memory_raise_no_alarm, "")
{
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, use_many_channels, NULL), 0);
}

KIN_TEST(channels_that_are_right_make_sense, "")
{
    for (size_t capacity = 0; capacity < 3; capacity++) {
        EXPECT_EQ(lab(KIN_LAB_RANDOM, 1000, use_a_channel, &capacity), 0);
        EXPECT_EQ(lab(KIN_LAB_PCT, 1000, use_a_channel, &capacity), 0);
        EXPECT_EQ(lab(KIN_LAB_DPOR, 1000, use_a_channel, &capacity), 0);
    }
}
