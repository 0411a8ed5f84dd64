/* SPDX-License-Identifier: MIT */
/*
 * Timers: src/wait/{timer,wheel}.c as they are: armed by one, fired by another, disarmed again.
 *
 * A task sleeps, or waits for a slot with a deadline, while another worker polls the wheel at two
 * moments and somebody cancels. A sleep ends once; a timer that was disarmed fires nothing that is
 * not checked; what was armed in vain is in no wheel.
 */
#include "under.h"

#include "wait/chan.h"
#include "wait/timer.h"

#include <kin/time.h>

#define SOON ((int64_t)1 << 20)
#define LATER ((int64_t)1 << 22)

static struct kin_chan *chan;
static int slept, fired, disarmed;

static void start(void)
{
    under_begin();
    slept = fired = disarmed = 0;
    kin_atoms_assert(kin__timer_source.init(under_worker(1)) == 0, "a wheel is made");
    int rc = kin_chan_create(&chan, sizeof(int), 0);
    kin_atoms_assert(rc == 0, "a channel is made");
}

/* Nothing is left in the wheel. */
static void end(void *arg)
{
    (void)arg;
    kin_atoms_assert(kin__timer_count(under_worker(1)) == 0, "no timer is left");
}

/* The worker whose wheel has the timer does not poll it: it runs the task. */
static void poll_others(void *arg)
{
    (void)arg;
    under_set_now(LATER);
    (void)kin__timer_source.poll(under_worker(1), SOON * 2);
    (void)kin__timer_source.poll(under_worker(1), LATER);
}

/* Something is to be polled, or nobody sleeps any more. */
static bool is_due(void *arg)
{
    (void)arg;
    return __atomic_load_n(&slept, __ATOMIC_ACQUIRE) != 0 ||
           atomic_load_explicit(&under_worker(1)->next_deadline, memory_order_relaxed) <= LATER;
}

/* Polls until the sleeper is up, as workers do. */
static void poll_until(void *arg)
{
    (void)arg;
    under_set_now(LATER);
    for (;;) { /* ends: the sleeper does */
        kin_atoms_await(is_due, NULL);
        if (__atomic_load_n(&slept, __ATOMIC_ACQUIRE))
            return;
        (void)kin__timer_source.poll(under_worker(1), LATER);
    }
}

/* ---- a sleep, and a cancellation of it ---- */

static void sleep_twice(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        int rc = kin_sleep(SOON * (i + 1));
        kin_atoms_assert(rc == 0 || rc == KIN_CANCELLED, "how a sleep ends");
    }
    __atomic_store_n(&slept, 1, __ATOMIC_RELEASE);
}

static void cancel(void *arg)
{
    (void)arg;
    kin__park_request(under_task(0), KIN__CANCEL);
}

static void begin_sleep(void *arg)
{
    (void)arg;
    start();
    under_spawn("sleeper", sleep_twice, NULL);
    under_spawn("poller", poll_until, NULL);
}

static void begin_cancel(void *arg)
{
    (void)arg;
    start();
    under_spawn("sleeper", sleep_twice, NULL);
    under_spawn("poller", poll_others, NULL);
    under_spawn_outside("canceller", cancel, NULL);
}

/* ---- a deadline and what it is for ---- */

static void receive_until(void *arg)
{
    int item = 0;
    (void)arg;
    int rc = kin_chan_recv(chan, &item, SOON);
    kin_atoms_assert((rc == 0 && item == 5) || (rc == KIN_TIMEOUT && item == 0), "one of two");
    slept = rc == 0;
    kin_chan_abort(chan);
}

static void send(void *arg)
{
    int item = 5;
    (void)arg;
    int rc = kin_chan_send(chan, &item, KIN_NEVER);
    kin_atoms_assert(rc == 0 || rc == KIN_CLOSED, "how a send ends");
    fired = rc == 0;
}

static void end_deadline(void *arg)
{
    kin_atoms_assert(slept == fired, "an item that was sent has arrived");
    end(arg);
}

static void begin_deadline(void *arg)
{
    (void)arg;
    start();
    under_spawn("receiver", receive_until, NULL);
    under_spawn("poller", poll_others, NULL);
    under_spawn("sender", send, NULL);
}

/* ---- a timer that calls ---- */

static struct kin__timer *timer;
static struct kin__lock guard;
static uint64_t generation;

static void fire(void *object, uint64_t name)
{
    (void)object;
    kin__lock_take(&guard, KIN__RANK_WAIT);
    if (name == generation)
        fired++;
    kin__lock_give(&guard, KIN__RANK_WAIT);
}

static void arm_and_disarm(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        timer->fire = fire;
        timer->name = generation;
        kin__timer_arm(timer, under_sched(), SOON * (i + 1));
        kin__lock_take(&guard, KIN__RANK_WAIT);
        disarmed += fired == i - disarmed;
        generation++;
        kin__lock_give(&guard, KIN__RANK_WAIT);
        kin__timer_disarm(timer);
    }
    kin_atoms_free(timer);
}

static void begin_call(void *arg)
{
    (void)arg;
    start();
    guard = (struct kin__lock){0};
    generation = 1;
    timer = kin_atoms_alloc(sizeof(*timer));
    under_spawn("owner", arm_and_disarm, NULL);
    under_spawn("poller", poll_others, NULL);
}

static void end_call(void *arg)
{
    kin_atoms_assert(fired + disarmed == 2, "each fires once or was disarmed");
    end(arg);
}

const struct harness harnesses[] = {
    {.name = "timer_sleep", .begin = begin_sleep, .end = end},
    {.name = "timer_cancel", .begin = begin_cancel, .end = end},
    {.name = "timer_deadline", .begin = begin_deadline, .end = end_deadline},
    {.name = "timer_disarm", .begin = begin_call, .end = end_call},
    {.name = "timer_disarm_c11", .begin = begin_call, .end = end_call, .memory = KIN_ATOMS_C11},
    {0},
};
