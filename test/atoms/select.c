/* SPDX-License-Identifier: MIT */
/*
 * Select: src/wait/select.c with channels and an event, as they are.
 *
 * A task chooses between two channels that others send to, or close, or between a channel and an
 * event; another one offers an item to either of two. Exactly one case happens each time; what was
 * not taken is still with the one who brought it.
 *
 * Two who choose on the same channels may see each other, step back, and begin again, any number of
 * times. A case that never happens counts how often each begins; what goes beyond is left out.
 */
#include "under.h"

#include "wait/chan.h"
#include "wait/ender.h"

#include <kin/select.h>
#include <kin/sync.h>

#include <string.h>

static struct kin_chan *left, *right;
static struct kin_event *event;
static int received, got_left, got_right;

static void start(size_t capacity)
{
    under_begin();
    received = got_left = got_right = 0;
    event = kin_atoms_alloc(sizeof(*event));
    int rc = kin_chan_create(&left, sizeof(int), capacity);
    rc += kin_chan_create(&right, sizeof(int), capacity);
    kin_atoms_assert(rc == 0, "channels are made");
}

static void send_to(void *arg)
{
    int item = arg == left ? 1 : 2;
    kin_atoms_assert(kin_chan_send(arg, &item, KIN_NEVER) == 0, "somebody receives it");
}

static void select_both(void *arg)
{
    for (int i = 0; i < *(const int *)arg; i++) {
        int a = 0, b = 0;
        struct kin_case cases[] = {KIN_CASE_RECV(left, &a), KIN_CASE_RECV(right, &b)};
        int rc = kin_select_ordered(cases, 2, KIN_NEVER);
        kin_atoms_assert((rc == 0 && a == 1 && b == 0) || (rc == 1 && b == 2 && a == 0),
                         "one case happens, and the other does not");
        received += a + b;
    }
}

static int two = 2;

/* Both are received, in either order. */
static void begin_senders(void *arg)
{
    start(*(const size_t *)arg);
    under_spawn("chooser", select_both, &two);
    under_spawn("sender 1", send_to, left);
    under_spawn("sender 2", send_to, right);
}

static void end_senders(void *arg)
{
    (void)arg;
    kin_atoms_assert(received == 3, "each arrives once");
    kin_atoms_assert(left->pins == 0 && right->pins == 0, "nobody holds on to them");
}

/* ---- a case that counts the parks of its task ---- */

static int parks[8], parks_max; /* of each thread */

static bool never(void *object, void *io, int *status)
{
    (void)object, (void)io, (void)status;
    return false;
}

static bool count_park(void *object, struct kin__waiter *waiter, int *status)
{
    (void)object, (void)waiter, (void)status;
    kin_atoms_assume(parks[kin_atoms_self()]++ < parks_max);
    return true;
}

static void leave_it(void *object, struct kin__waiter *waiter)
{
    (void)object, (void)waiter;
}

static const struct kin__waitable counter = {"counter", never, count_park, leave_it};

/* ---- two who choose meet two who offer ---- */

static int rounds;
static const struct kin_task_ref somebody = {1};

static void offer(void *arg)
{
    (void)arg;
    for (int i = 0; i < rounds; i++) {
        int item = 7;
        struct kin_case cases[] = {KIN_CASE_TASK(somebody), KIN_CASE_SEND(left, &item),
                                   KIN_CASE_SEND(right, &item)};
        int rc = kin_select_ordered(cases, 3, KIN_NEVER);
        kin_atoms_assert(rc == 1 || rc == 2, "somebody takes it");
    }
}

static void take_any(void *arg)
{
    (void)arg;
    for (int i = 0; i < rounds; i++) {
        int a = 0, b = 0;
        struct kin_case cases[] = {KIN_CASE_TASK(somebody), KIN_CASE_RECV(right, &b),
                                   KIN_CASE_RECV(left, &a)};
        int rc = kin_select_ordered(cases, 3, KIN_NEVER);
        kin_atoms_assert(rc > 0 && a + b == 7, "it is taken once");
        received += a + b;
    }
}

static void begin_offer(void *arg)
{
    start(0);
    memset(parks, 0, sizeof(parks));
    rounds = ((const int *)arg)[0];
    parks_max = ((const int *)arg)[1];
    atomic_store_explicit(&kin__ender_ops, &counter, memory_order_relaxed);
    under_spawn("taker", take_any, NULL);
    under_spawn("offerer", offer, NULL);
}

static void end_offer(void *arg)
{
    (void)arg;
    kin_atoms_assert(received == 7 * rounds, "they arrived");
    kin_atoms_assert(left->pins == 0 && right->pins == 0, "nobody holds on to them");
}

/* A channel or an event. */
static void wait_for_event(void *arg)
{
    int item = 0;
    (void)arg;
    struct kin_case cases[] = {KIN_CASE_RECV(left, &item), KIN_CASE_EVENT(event)};
    int rc = kin_select_ordered(cases, 2, KIN_NEVER);
    kin_atoms_assert((rc == 0 && item == 1) || (rc == 1 && item == 0), "one of the two");
    got_left = rc == 0;
}

static void set_event(void *arg)
{
    (void)arg;
    kin_event_set(event);
}

static void close_left(void *arg)
{
    int item = 1;
    (void)arg;
    got_right = kin_chan_send(left, &item, 0) == 0;
}

static void begin_event(void *arg)
{
    start(*(const size_t *)arg);
    under_spawn("chooser", wait_for_event, NULL);
    under_spawn("setter", set_event, NULL);
    under_spawn("sender", close_left, NULL);
}

static void end_event(void *arg)
{
    (void)arg;
    kin_atoms_assert(got_left + (int)kin_chan_len(left) == got_right, "an item is where it went");
}

/* A cancellation meets a sender. */
static void choose_asked(void *arg)
{
    int a = 0, b = 0;
    (void)arg;
    struct kin_case cases[] = {KIN_CASE_RECV(left, &a), KIN_CASE_RECV(right, &b)};
    int rc = kin_select_ordered(cases, 2, KIN_NEVER);
    kin_atoms_assert((rc == 0 && a == 1) || (rc == KIN_CANCELLED && a == 0), "one of the two");
    got_left = rc == 0;
    kin_chan_close(left);
}

static void send_or_not(void *arg)
{
    int item = 1;
    (void)arg;
    got_right = kin_chan_send(left, &item, KIN_NEVER) == 0;
}

static void cancel(void *arg)
{
    (void)arg;
    kin__park_request(under_task(0), KIN__CANCEL);
}

static void begin_cancel(void *arg)
{
    start(*(const size_t *)arg);
    under_spawn("chooser", choose_asked, NULL);
    under_spawn("sender", send_or_not, NULL);
    under_spawn_outside("canceller", cancel, NULL);
}

static void end_cancel(void *arg)
{
    (void)arg;
    kin_atoms_assert(got_left == got_right || (kin_chan_len(left) + !got_left == 2 && got_right) ||
                         !kin__waitq_is_empty(&left->senders),
                     "an item is where it went");
}

static size_t none = 0, some = 1;
static int once[] = {1, 2}, twice[] = {2, 1}; /* rounds, and parks of each in all of them */

const struct harness harnesses[] = {
    {.name = "select_two_senders_buffered", .begin = begin_senders, .end = end_senders,
     .arg = &some},
    {.name = "select_meets_select", .begin = begin_offer, .end = end_offer, .arg = once},
    {.name = "select_meets_select_twice", .begin = begin_offer, .end = end_offer, .arg = twice},
    {.name = "select_event", .begin = begin_event, .end = end_event, .arg = &none},
    {.name = "select_event_buffered", .begin = begin_event, .end = end_event, .arg = &some},
    {.name = "select_cancel", .begin = begin_cancel, .end = end_cancel, .arg = &some},
    {.name = "select_event_c11", .begin = begin_event, .end = end_event, .arg = &none,
     .memory = KIN_ATOMS_C11},
    {.name = "select_two_senders", .begin = begin_senders, .end = end_senders, .arg = &none,
     .is_deep = true},
    {0},
};
