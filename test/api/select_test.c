/* SPDX-License-Identifier: MIT */
/*
 * Goal: exactly one case of a select happens, the right one, chosen fairly.
 * Method: small programs through the public headers on 1, 2 and 4 workers; every buffer and every
 * status is compared, of the winner and of the losers. Where a test needs somebody to wait already,
 * it has one worker: whoever runs there goes on until it parks.
 */
#include "api/in_runtime.h"

#include <kin/chan.h>
#include <kin/select.h>
#include <kin/sync.h>

enum { UNTOUCHED = 4242 };

static struct kin_chan *make(size_t item_size, size_t capacity)
{
    struct kin_chan *chan = NULL;
    EXPECT_EQ(kin_chan_create(&chan, item_size, capacity), 0);
    return chan;
}

static _Atomic int begun;

/* On one worker: count tasks have begun, and everybody who can run does so until it waits. */
static void settle(int count)
{
    await(&begun, count);
    atomic_fetch_sub(&begun, count);
    for (int i = 0; i < 8; i++)
        EXPECT_EQ(kin_yield(), 0);
}

static int put(struct kin_chan *chan, int value, kin_time deadline)
{
    return kin_chan_send(chan, &value, deadline);
}

static int take(struct kin_chan *chan, kin_time deadline)
{
    int value = -1;
    int rc = kin_chan_recv(chan, &value, deadline);
    return rc < 0 ? rc : value;
}

/* A select whose losers must stay as they were; returns its index. */
static int select_checked(struct kin_case *cases, size_t count, kin_time deadline)
{
    for (size_t i = 0; i < count; i++)
        cases[i].status = UNTOUCHED;
    int index = kin_select(cases, count, deadline);
    EXPECT_LT(index, (int)count);
    for (size_t i = 0; i < count; i++)
        EXPECT_EQ(cases[i].status == UNTOUCHED, (int)i != index);
    return index;
}

/* A select in a task of its own. */
struct selecting {
    struct kin_case cases[4];
    size_t count;
    kin_time deadline;
    int index;
    _Atomic int is_over;
    struct kin_task_ref self;
};

static int select_once(void *arg)
{
    struct selecting *s = arg;
    s->self = kin_self();
    atomic_fetch_add(&begun, 1);
    s->index = select_checked(s->cases, s->count, s->deadline);
    atomic_store(&s->is_over, 1);
    return 0;
}

/* ---- misuse ---- */

KIN_TEST(a_select_needs_a_task, "N1002")
{
    struct kin_case none = kin_case_after(0);
    EXPECT_EQ(kin_select(&none, 1, 0), KIN_NOTASK);
    EXPECT_EQ(kin_select(NULL, 0, 0), KIN_NOTASK);
    EXPECT_EQ(kin_select_ordered(&none, 1, KIN_NEVER), KIN_NOTASK);
}

static int misuse(void *arg)
{
    static struct kin_case cases[KIN_SELECT_MAX + 1];
    struct kin_chan *chan = make(4, 1);
    int x = 1;
    (void)arg;
    for (size_t i = 0; i <= KIN_SELECT_MAX; i++)
        cases[i] = kin_case_send(chan, &x);
    EXPECT_EQ(kin_select(cases, KIN_SELECT_MAX + 1, 0), -EINVAL);
    EXPECT_EQ(kin_select(cases, SIZE_MAX, 0), -EINVAL);
    EXPECT_EQ(kin_select(NULL, 1, 0), -EINVAL);
    EXPECT_EQ(kin_chan_len(chan), 0);
    cases[1].kind = (enum kin_case_kind)0;
    EXPECT_EQ(kin_select(cases, 2, KIN_NEVER), -EINVAL);
    cases[1].kind = (enum kin_case_kind)77;
    EXPECT_EQ(kin_select(cases, 2, KIN_NEVER), -EINVAL);
    cases[1].kind = (enum kin_case_kind)-1;
    EXPECT_EQ(kin_select(cases, 2, KIN_NEVER), -EINVAL);
    cases[1] = kin_case_send(chan, NULL);
    EXPECT_EQ(kin_select(cases, 2, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_chan_len(chan), 0);
    EXPECT_GE(kin_select(cases + 2, KIN_SELECT_MAX - 1, KIN_NEVER), 0);
    EXPECT_EQ(kin_chan_len(chan), 1);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(nonsensical_selects_are_refused_before_anything_happens, "")
{
    run_on_few(misuse, NULL);
}

/* ---- cases that never happen ---- */

static int select_nothing(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 0);
    int x = 0;
    (void)arg;
    struct kin_case cases[] = {kin_case_send(NULL, &x), kin_case_recv(NULL, &x),
                               kin_case_event(NULL), kin_case_task((struct kin_task_ref){0}),
                               kin_case_after(INT64_MAX), kin_case_recv(chan, &x)};
    EXPECT_EQ(select_checked(cases, 0, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_select(NULL, 0, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_select(NULL, 0, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    for (size_t i = 0; i < 6; i++) {
        EXPECT_EQ(select_checked(&cases[i], 1, 0), KIN_TIMEOUT);
        EXPECT_EQ(select_checked(&cases[i], 1, 1), KIN_TIMEOUT);
        kin_time soon = kin_after(KIN_US(200));
        EXPECT_EQ(select_checked(&cases[i], 6 - i, soon), KIN_TIMEOUT);
        EXPECT_GE(kin_now(), soon);
    }
    EXPECT_EQ(x, 0);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(what_cannot_happen_waits_until_the_deadline,
         "G034 G035 G042 G043 G044 G046 D032 D033 N010")
{
    run_on_few(select_nothing, NULL);
}

static int cancel_nothing(void *arg)
{
    static const size_t counts[] = {0, 1, 2, 3};
    struct kin_chan *chan = make(sizeof(int), 0);
    int x = 0;
    (void)arg;
    for (int i = 0; i < 4; i++) {
        struct selecting s = {.count = counts[i], .deadline = KIN_NEVER};
        s.cases[0] = kin_case_recv(NULL, &x);
        s.cases[1] = kin_case_send(NULL, &x);
        s.cases[2] = kin_case_recv(chan, &x);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, select_once, &s), 0);
        settle(1);
        EXPECT_EQ(atomic_load(&s.is_over), 0);
        kin_nursery_cancel(&n, 0);
        kin_ignore(kin_nursery_join(&n, NULL));
        EXPECT_EQ(s.index, KIN_CANCELLED);
    }
    EXPECT_EQ(put(chan, 1, 0), KIN_FULL);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(an_endless_select_ends_when_it_is_cancelled, "G042 G043 G044 N008 A7")
{
    EXPECT_EQ(run_reporting(1, cancel_nothing, NULL, NULL), 0);
}

/* ---- what is ready happens at once ---- */

static int select_ready(void *arg)
{
    struct kin_chan *empty = make(sizeof(int), 0), *buffer = make(sizeof(int), 1);
    int in = -1, out = 5, other = -1;
    (void)arg;
    struct kin_case cases[] = {kin_case_recv(empty, &other), kin_case_send(buffer, &out),
                               kin_case_send(empty, &out)};
    for (int round = 0; round < 10; round++) {
        kin_time deadline = round % 2 ? 0 : KIN_NEVER;
        out = round;
        EXPECT_EQ(select_checked(cases, 3, deadline), 1);
        EXPECT_EQ(cases[1].status, 0);
        EXPECT_EQ(kin_chan_len(buffer), 1);
        EXPECT_EQ(select_checked(cases, 3, 0), KIN_TIMEOUT); /* full now */
        struct kin_case back[] = {kin_case_recv(empty, &other), kin_case_recv(buffer, &in)};
        EXPECT_EQ(select_checked(back, 2, deadline), 1);
        EXPECT_EQ(back[1].status, 0);
        EXPECT_EQ(in, round);
        EXPECT_EQ(other, -1);
        EXPECT_EQ(select_checked(back, 2, 0), KIN_TIMEOUT);
    }
    kin_chan_unref(empty);
    kin_chan_unref(buffer);
    return 0;
}

KIN_TEST(a_ready_case_is_taken_whatever_the_deadline, "G038 G047 G048 G052 D027 D029 N010")
{
    run_on_few(select_ready, NULL);
}

static int select_closed(void *arg)
{
    struct kin_chan *closed = make(sizeof(int), 2), *empty = make(sizeof(int), 0);
    int x = UNTOUCHED;
    (void)arg;
    EXPECT_EQ(put(closed, 1, 0), 0);
    kin_chan_close(closed);
    struct kin_case receive[] = {kin_case_recv(empty, &x), kin_case_recv(closed, &x)};
    struct kin_case send[] = {kin_case_send(empty, &x), kin_case_send(closed, &x)};
    EXPECT_EQ(select_checked(send, 2, KIN_NEVER), 1);
    EXPECT_EQ(send[1].status, KIN_CLOSED);
    EXPECT_EQ(select_checked(receive, 2, KIN_NEVER), 1);
    EXPECT_EQ(receive[1].status, 0);
    EXPECT_EQ(x, 1);
    for (int i = 0; i < 3; i++) {
        kin_time deadline = i == 0 ? 0 : i == 1 ? KIN_NEVER : kin_after(KIN_SEC(100));
        EXPECT_EQ(select_checked(receive, 2, deadline), 1);
        EXPECT_EQ(receive[1].status, KIN_CLOSED);
        EXPECT_EQ(select_checked(send, 2, deadline), 1);
        EXPECT_EQ(send[1].status, KIN_CLOSED);
        EXPECT_EQ(x, 1);
    }
    struct kin_case drop = kin_case_recv(closed, NULL);
    EXPECT_EQ(select_checked(&drop, 1, KIN_NEVER), 0);
    EXPECT_EQ(drop.status, KIN_CLOSED);
    kin_chan_unref(closed);
    kin_chan_unref(empty);
    return 0;
}

KIN_TEST(a_closed_channel_is_ready, "G049 G050 N005 D038")
{
    run_on_few(select_closed, NULL);
}

/* ---- waiting for a partner ---- */

/* Each of the cases in turn is the one that happens. */
static int wait_for_each(void *arg)
{
    (void)arg;
    for (int winner = 0; winner < 4; winner++) {
        struct kin_chan *chan[4];
        int in[4] = {-1, -1, -1, -1}, out = 70 + winner;
        struct selecting s = {.count = 4, .deadline = KIN_NEVER};
        for (int i = 0; i < 4; i++) {
            chan[i] = make(sizeof(int), 0);
            s.cases[i] = i % 2 ? kin_case_send(chan[i], &out) : kin_case_recv(chan[i], &in[i]);
        }
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, select_once, &s), 0);
        settle(1);
        if (winner % 2)
            EXPECT_EQ(take(chan[winner], 0), out);
        else
            EXPECT_EQ(put(chan[winner], 33, 0), 0);
        /* it has happened before the select has even run again */
        for (int i = 0; i < 4; i++)
            EXPECT_EQ(i % 2 ? take(chan[i], 0) : put(chan[i], 1, 0), i % 2 ? KIN_EMPTY : KIN_FULL);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(s.index, winner);
        EXPECT_EQ(s.cases[winner].status, 0);
        for (int i = 0; i < 4; i++) {
            EXPECT_EQ(in[i], i == winner && i % 2 == 0 ? 33 : -1);
            kin_chan_unref(chan[i]);
        }
    }
    return 0;
}

KIN_TEST(a_select_that_waits_is_met_in_one_case_only, "G052 D028 D030 D031 N002 A10 W:4.3")
{
    EXPECT_EQ(run_reporting(1, wait_for_each, NULL, NULL), 0);
}

/* ---- one channel in several cases ---- */

static int select_itself(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 0);
    int in = -1, out = 8;
    (void)arg;
    struct kin_case cases[] = {kin_case_send(chan, &out), kin_case_recv(chan, &in),
                               kin_case_send(chan, &out), kin_case_recv(chan, &in)};
    for (size_t first = 0; first < 3; first++) {
        EXPECT_EQ(select_checked(&cases[first], 2, 0), KIN_TIMEOUT);
        EXPECT_EQ(select_checked(&cases[first], 2, kin_after(KIN_US(200))), KIN_TIMEOUT);
    }
    EXPECT_EQ(select_checked(cases, 4, kin_after(KIN_US(200))), KIN_TIMEOUT);
    EXPECT_EQ(in, -1);
    EXPECT_EQ(put(chan, 1, 0), KIN_FULL);
    EXPECT_EQ(take(chan, 0), KIN_EMPTY);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_select_does_not_meet_itself, "G051")
{
    run_on_few(select_itself, NULL);
}

static int duplicates(void *arg)
{
    (void)arg;
    for (int round = 0; round < 100; round++) {
        struct kin_chan *chan = make(sizeof(int), 0);
        struct selecting s[2];
        int in[4] = {-1, -1, -1, -1};
        KIN_NURSERY(n);
        for (int i = 0; i < 2; i++) {
            s[i] = (struct selecting){.count = 2, .deadline = KIN_NEVER};
            s[i].cases[0] = kin_case_recv(chan, &in[2 * i]);
            s[i].cases[1] = kin_case_recv(chan, &in[2 * i + 1]);
            EXPECT_EQ(kin_spawn(&n, select_once, &s[i]), 0);
        }
        EXPECT_EQ(put(chan, 1, KIN_NEVER), 0);
        if (round % 2)
            EXPECT_EQ(put(chan, 2, KIN_NEVER), 0);
        else
            kin_chan_close(chan);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        int sum = in[0] + in[1] + in[2] + in[3];
        EXPECT_EQ(sum, round % 2 ? 3 - 2 : 1 - 3);
        EXPECT_EQ(s[0].cases[s[0].index].status + s[1].cases[s[1].index].status,
                  round % 2 ? 0 : KIN_CLOSED);
        kin_chan_unref(chan);
    }
    return 0;
}

KIN_TEST(one_channel_twice_in_each_of_two_selects, "G023 D042 N005")
{
    run_on_few(duplicates, NULL);
}

/* ---- close and abort ---- */

/* A select send that waits was admitted: a close leaves it alone. */
static int close_on_selects(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 0), *other = make(sizeof(int), 0);
    struct selecting sends = {.count = 2, .deadline = KIN_NEVER};
    struct selecting receives = {.count = 2, .deadline = KIN_NEVER};
    int out = 12, in = -1;
    (void)arg;
    sends.cases[0] = kin_case_recv(other, &in);
    sends.cases[1] = kin_case_send(chan, &out);
    receives.cases[0] = kin_case_recv(other, &in);
    receives.cases[1] = kin_case_recv(other, NULL);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, select_once, &sends), 0);
    settle(1);
    kin_chan_close(chan);
    settle(0);
    EXPECT_EQ(atomic_load(&sends.is_over), 0);
    EXPECT_EQ(take(chan, 0), 12);
    EXPECT_EQ(take(chan, 0), KIN_CLOSED);
    settle(0);
    EXPECT_EQ(sends.index, 1);
    EXPECT_EQ(sends.cases[1].status, 0);
    EXPECT_EQ(kin_spawn(&n, select_once, &receives), 0);
    settle(1);
    kin_chan_close(other);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(receives.cases[receives.index].status, KIN_CLOSED);
    EXPECT_EQ(in, -1);
    kin_chan_unref(chan);
    kin_chan_unref(other);
    return 0;
}

KIN_TEST(a_close_wakes_receives_of_selects_and_leaves_their_sends, "A6 CH:5.3 CH:5.4")
{
    EXPECT_EQ(run_reporting(1, close_on_selects, NULL, NULL), 0);
}

static int end_on_selects(void (*end)(struct kin_chan *), bool is_last)
{
    for (int kind = 0; kind < 3; kind++) {
        struct kin_chan *chan = make(sizeof(int), 0), *other = make(sizeof(int), 0);
        struct selecting s = {.count = 3, .deadline = kin_after(KIN_SEC(1000))};
        int out = 12, in = -1;
        s.cases[0] = kind == 0 ? kin_case_recv(chan, &in) : kin_case_send(chan, &out);
        s.cases[1] = kind == 2 ? kin_case_recv(chan, &in) : kin_case_recv(NULL, &in);
        s.cases[2] = kin_case_recv(other, &in);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, select_once, &s), 0);
        settle(1);
        end(chan);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_GE(s.index, 0);
        EXPECT_LE(s.index, 1);
        EXPECT_EQ(s.cases[s.index].status, KIN_CLOSED);
        EXPECT_EQ(in, -1);
        if (!is_last)
            kin_chan_unref(chan);
        kin_chan_unref(other);
    }
    return 0;
}

static int abort_on_selects(void *arg)
{
    (void)arg;
    return end_on_selects(kin_chan_abort, false) + end_on_selects(kin_chan_unref, true);
}

KIN_TEST(an_abort_and_the_last_unref_wake_selects, "A6")
{
    EXPECT_EQ(run_reporting(1, abort_on_selects, NULL, NULL), 0);
}

/* ---- time ---- */

static int select_times(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 0);
    int x = 0;
    (void)arg;
    struct kin_case at_once[] = {kin_case_recv(chan, &x), kin_case_after(0)};
    EXPECT_EQ(select_checked(at_once, 2, 0), 1);
    EXPECT_EQ(at_once[1].status, 0);
    at_once[1] = kin_case_after(-5);
    EXPECT_EQ(select_checked(at_once, 2, KIN_NEVER), 1);
    struct kin_case cases[] = {kin_case_after(KIN_SEC(1000)), kin_case_recv(chan, &x),
                               kin_case_after(KIN_US(500)), kin_case_after(KIN_SEC(500)),
                               kin_case_after(INT64_MAX - 1)};
    for (int i = 0; i < 5; i++) {
        kin_time due = kin_after(KIN_US(500));
        EXPECT_EQ(select_checked(cases, 5, i % 2 ? KIN_NEVER : kin_after(KIN_SEC(100))), 2);
        EXPECT_EQ(cases[2].status, 0);
        EXPECT_GE(kin_now(), due);
    }
    EXPECT_EQ(select_checked(cases, 5, 0), KIN_TIMEOUT);
    EXPECT_EQ(select_checked(cases, 2, kin_after(KIN_US(500))), KIN_TIMEOUT);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(times_count_from_the_call_and_the_soonest_comes_first, "D039 D040 N007")
{
    run_on_few(select_times, NULL);
}

/* ---- events ---- */

static int select_events(void *arg)
{
    struct kin_event set = {0}, unset = {0};
    struct kin_chan *chan = make(sizeof(int), 0);
    int x = 0;
    (void)arg;
    kin_event_set(&set);
    struct kin_case cases[] = {kin_case_recv(chan, &x), kin_case_event(&unset),
                               kin_case_event(&set)};
    for (int i = 0; i < 4; i++) { /* an event stays set */
        EXPECT_EQ(select_checked(cases, 3, i % 2 ? 0 : KIN_NEVER), 2);
        EXPECT_EQ(cases[2].status, 0);
    }
    EXPECT_EQ(select_checked(cases, 2, 0), KIN_TIMEOUT);
    kin_chan_unref(chan);
    return 0;
}

static int wait_for_an_event(void *arg)
{
    struct kin_event event = {0};
    struct kin_chan *chan = make(sizeof(int), 0);
    struct selecting s[2];
    int x = 0;
    (void)arg;
    KIN_NURSERY(n);
    for (int i = 0; i < 2; i++) {
        s[i] = (struct selecting){.count = 2, .deadline = KIN_NEVER};
        s[i].cases[0] = kin_case_event(&event);
        s[i].cases[1] = kin_case_recv(chan, &x);
        EXPECT_EQ(kin_spawn(&n, select_once, &s[i]), 0);
    }
    settle(2);
    EXPECT_EQ(atomic_load(&s[0].is_over) + atomic_load(&s[1].is_over), 0);
    kin_event_set(&event);
    kin_event_reset(&event); /* who waits already wakes all the same */
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(s[0].index, 0);
    EXPECT_EQ(s[1].index, 0);
    EXPECT_EQ(put(chan, 1, 0), KIN_FULL);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(events_take_part, "T077")
{
    run_on_few(select_events, NULL);
    EXPECT_EQ(run_reporting(1, wait_for_an_event, NULL, NULL), 0);
}

/* ---- choice ---- */

/* How often each of count cases happened in 8000 selects; those in ready are. */
static void expect_even(size_t count, uint32_t ready)
{
    enum { TRIALS = 8000 };
    struct kin_case cases[16];
    int hits[16] = {0}, ready_count = __builtin_popcount(ready);
    struct kin_chan *full = make(0, 0), *closed = make(0, 1);
    kin_chan_close(closed);
    for (size_t i = 0; i < count; i++) {
        cases[i] = kin_case_recv(i % 2 ? full : NULL, NULL);
        if (ready >> i & 1)
            cases[i] = i % 3 ? kin_case_send(closed, NULL) : kin_case_recv(closed, NULL);
    }
    for (int i = 0; i < TRIALS; i++) {
        int index = kin_select(cases, count, i % 2 ? KIN_NEVER : 0);
        EXPECT_GE(index, 0);
        EXPECT_EQ(cases[index].status, KIN_CLOSED);
        hits[index]++;
    }
    for (size_t i = 0; i < count; i++) {
        int expected = ready >> i & 1 ? TRIALS / ready_count : 0;
        int64_t off = hits[i] - expected;
        /* 10 sigma: n p (1 - p) times a hundred */
        int64_t bound = 100 * (int64_t)expected * (ready_count - 1) / ready_count;
        EXPECT_LE(off * off, bound);
    }
    kin_chan_unref(full);
    kin_chan_unref(closed);
}

static int choose_evenly(void *arg)
{
    (void)arg;
    expect_even(2, 3);
    expect_even(8, 0x03); /* a row that is not ready does not favour whoever stands behind it */
    expect_even(8, 0x81);
    expect_even(8, 0x07);
    expect_even(8, 0xff);
    expect_even(16, 0x0111);
    expect_even(16, 0xffff);
    expect_even(5, 0x10);
    return 0;
}

KIN_TEST(the_choice_among_ready_cases_is_even, "G017")
{
#ifdef KIN_DEBUG
    const char *hard = getenv("KIN_HARD");
    if (hard && strstr(hard, "park"))
        return; /* every case is published in turn there, so that the first that is ready wins */
#endif
    EXPECT_EQ(run_reporting(1, choose_evenly, NULL, NULL), 0);
}

/* select { chan <- 0, chan <- 1 }, and what comes out of it. */
static int send_bits(void *arg)
{
    struct kin_chan *chan = arg;
    int zero = 0, one = 1;
    for (int i = 0; i < 1000; i++) {
        struct kin_case cases[] = {kin_case_send(chan, &zero), kin_case_send(chan, &one)};
        EXPECT_GE(select_checked(cases, 2, KIN_NEVER), 0);
    }
    return 0;
}

static int receive_bits(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), *(size_t *)arg);
    int ones = 0;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, send_bits, chan), 0);
    for (int i = 0; i < 1000; i++)
        ones += take(chan, KIN_NEVER);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_GE(ones, 0);
    kin_chan_unref(chan);
    return ones;
}

KIN_TEST(both_of_two_sends_happen, "G018 G019")
{
    for (size_t capacity = 0; capacity <= 16; capacity += 16) {
        int ones = run_reporting(1, receive_bits, &capacity, NULL);
        EXPECT_GT(ones, 100);
        EXPECT_LT(ones, 900);
    }
}

/* The same for a select that waits: a receiver that comes finds both. */
static int find_both(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 0);
    int zero = 0, one = 1, ones = 0;
    (void)arg;
    for (int i = 0; i < 200; i++) {
        struct selecting s = {.count = 2, .deadline = KIN_NEVER};
        s.cases[0] = kin_case_send(chan, &zero);
        s.cases[1] = kin_case_send(chan, &one);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, select_once, &s), 0);
        settle(1);
        int got = take(chan, 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(s.index, got);
        ones += got;
    }
    kin_chan_unref(chan);
    return ones;
}

KIN_TEST(both_of_two_sends_that_wait_happen, "G019")
{
    int ones = run_reporting(1, find_both, NULL, NULL);
    EXPECT_GT(ones, 20);
    EXPECT_LT(ones, 180);
}

static int keep_the_order(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 4), *empty = make(sizeof(int), 0);
    int x = 1, y = 2, in = -1;
    (void)arg;
    for (int i = 0; i < 50; i++) {
        struct kin_case cases[] = {kin_case_recv(empty, &in), kin_case_send(chan, &x),
                                   kin_case_send(chan, &y), kin_case_after(0)};
        kin_time deadline = i % 2 ? 0 : KIN_NEVER;
        EXPECT_EQ(kin_select_ordered(cases, 4, deadline), 1);
        EXPECT_EQ(take(chan, 0), 1);
        cases[1].on.chan = NULL;
        EXPECT_EQ(kin_select_ordered(cases, 4, deadline), 2);
        EXPECT_EQ(take(chan, 0), 2);
        cases[2].on.chan = NULL;
        EXPECT_EQ(kin_select_ordered(cases, 4, deadline), 3);
    }
    kin_chan_unref(chan);
    kin_chan_unref(empty);
    return 0;
}

KIN_TEST(an_ordered_select_takes_the_first_that_is_ready, "D041")
{
    run_on_few(keep_the_order, NULL);
}

/* Equal seeds choose alike, others do not. */
static int note_choices(void *arg)
{
    unsigned char *choices = arg;
    struct kin_chan *closed = make(0, 0);
    kin_chan_close(closed);
    for (int i = 0; i < 64; i++) {
        struct kin_case cases[] = {kin_case_recv(closed, NULL), kin_case_recv(closed, NULL),
                                   kin_case_recv(closed, NULL)};
        choices[i] = (unsigned char)kin_select(cases, 3, 0);
    }
    kin_chan_unref(closed);
    return 0;
}

KIN_TEST(the_seed_decides, "SCHED:9.2.1")
{
    unsigned char choices[3][64];
    for (int i = 0; i < 3; i++) {
        struct kin_config config = KIN_CONFIG_INIT;
        config.workers = 1;
        config.seed = i < 2 ? 77 : 78;
        EXPECT_EQ(kin_run(&config, note_choices, choices[i]), 0);
    }
    EXPECT_EQ(memcmp(choices[0], choices[1], 64), 0);
    EXPECT_NE(memcmp(choices[0], choices[2], 64), 0);
}

/* ---- every shape ---- */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* One select of a random shape over random channels, alone in the world: what may happen can be
 * told from the channels' own answers. */
static void one_shape(uint64_t *random)
{
    struct kin_chan *chans[4] = {NULL};
    struct kin_case cases[20];
    int items[20], before[20];
    size_t count = next_random(random) % 21;
    for (int i = 1; i < 4; i++) {
        chans[i] = make(sizeof(int), next_random(random) % 3);
        for (uint64_t k = next_random(random) % 3; k > 0; k--)
            kin_ignore(put(chans[i], i, 0));
        if (next_random(random) % 4 == 0)
            kin_chan_close(chans[i]);
    }
    bool is_any_ready = false, is_ready[20] = {false};
    for (size_t i = 0; i < count; i++) {
        struct kin_chan *chan = chans[next_random(random) % 4];
        before[i] = items[i] = 100 + (int)i;
        if (next_random(random) % 2) {
            cases[i] = kin_case_send(chan, &items[i]);
            is_ready[i] = chan && (kin_chan_is_closed(chan) ||
                                   kin_chan_len(chan) < kin_chan_cap(chan));
        } else {
            cases[i] = kin_case_recv(chan, &items[i]);
            is_ready[i] = chan && (kin_chan_is_closed(chan) || kin_chan_len(chan) > 0);
        }
        is_any_ready |= is_ready[i];
    }
    size_t lens[4];
    for (int i = 0; i < 4; i++)
        lens[i] = kin_chan_len(chans[i]);
    kin_time deadline = is_any_ready && next_random(random) % 2 ? KIN_NEVER : 0;
    int index = select_checked(cases, count, deadline);
    EXPECT_EQ(index >= 0, is_any_ready);
    if (!is_any_ready)
        EXPECT_EQ(index, KIN_TIMEOUT);
    else
        EXPECT(is_ready[index]);
    for (int i = 0; i < 4; i++) {
        size_t expected = lens[i];
        if (index >= 0 && chans[i] && cases[index].on.chan == chans[i] && cases[index].status == 0)
            expected += cases[index].kind == KIN_CASE_KIND_SEND ? 1 : (size_t)-1;
        EXPECT_EQ(kin_chan_len(chans[i]), expected);
    }
    for (size_t i = 0; i < count; i++) {
        bool is_taken = (int)i == index && cases[i].kind == KIN_CASE_KIND_RECV &&
                        cases[i].status == 0;
        EXPECT_EQ(items[i] != before[i], is_taken);
    }
    for (int i = 0; i < 4; i++)
        kin_chan_unref(chans[i]);
}

static int every_shape(void *arg)
{
    uint64_t random = kin_test_seed();
    (void)arg;
    for (int i = 0; i < enough(3000, 100); i++)
        one_shape(&random);
    return 0;
}

KIN_TEST(selects_of_every_shape_do_what_they_say, "G053 G018")
{
    EXPECT_EQ(run_reporting(1, every_shape, NULL, NULL), 0);
}

/* ---- the rest ---- */

static int leave_only_the_select(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 1);
    int x = 1, rounds = 0;
    (void)arg;
    while (rounds < 3) {
        struct kin_case cases[] = {kin_case_send(chan, &x), kin_case_recv(chan, &x)};
        switch (kin_select(cases, 2, KIN_NEVER)) {
        case 0:
            if (x)
                break;
            EXPECT(false);
        case 1:
            break;
        default:
            return -EIO;
        }
        rounds++;
    }
    EXPECT_EQ(rounds, 3);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_break_leaves_only_the_select, "G056")
{
    run_on_few(leave_only_the_select, NULL);
}

static int have_no_channels(void *arg)
{
    struct kin_case one = kin_case_recv(arg, NULL), other = kin_case_after(0);
    EXPECT_EQ(kin_select(&one, 1, 0), KIN_NOCAP);
    EXPECT_EQ(kin_select(&one, 1, KIN_NEVER), KIN_NOCAP);
    EXPECT_EQ(kin_select(&other, 1, KIN_NEVER), 0);
    return 0;
}

static int give_no_channels(void *arg)
{
    struct kin_chan *chan = make(sizeof(int), 2);
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    (void)arg;
    options.caps = KIN_CAP_ALL & ~KIN_CAP_CHANNEL;
    EXPECT_EQ(put(chan, 9, 0), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, &options, have_no_channels, chan, 0, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_chan_len(chan), 1);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(selects_on_channels_need_their_capability, "SCHED:1.1.2")
{
    run_on_few(give_no_channels, NULL);
}
