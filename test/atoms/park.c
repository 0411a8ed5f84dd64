/* SPDX-License-Identifier: MIT */
/*
 * Park and wake: src/task/word.h and src/park/park.c as they are, around the smallest waitable.
 *
 * A task waits twice for a slot that somebody fills, while others fill it and ask the task to stop.
 * Every wait ends exactly once, by the slot or by the request; what was put into the slot is either
 * taken or still there; the result that a waker wrote is seen by the task.
 */
#include "under.h"

#include "park/park.h"
#include "park/waitq.h"

/* Something to wait for: a number that is taken by whoever waits. */
struct slot {
    struct kin__lock lock;
    struct kin__waitq queue;
    int full; /* 0: empty */
};

static struct slot *slot;
static int taken, stopped;

static bool slot_try(void *object, void *io, int *status)
{
    struct slot *s = object;
    kin__lock_take(&s->lock, KIN__RANK_WAIT);
    bool is_full = s->full != 0;
    if (is_full)
        *(int *)io = s->full;
    s->full = 0;
    kin__lock_give(&s->lock, KIN__RANK_WAIT);
    *status = 0;
    return is_full;
}

static bool slot_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct slot *s = object;
    (void)status;
    kin__lock_take(&s->lock, KIN__RANK_WAIT);
    bool links = s->full == 0;
    if (links)
        kin__waitq_push(&s->queue, waiter);
    kin__lock_give(&s->lock, KIN__RANK_WAIT);
    return links;
}

static void slot_unpublish(void *object, struct kin__waiter *waiter)
{
    struct slot *s = object;
    kin__lock_take(&s->lock, KIN__RANK_WAIT);
    kin__waitq_remove(waiter);
    kin__lock_give(&s->lock, KIN__RANK_WAIT);
}

static const struct kin__waitable slot_waitable = {"slot", slot_try, slot_publish, slot_unpublish};

static void fill(int number)
{
    struct kin__wakes wakes = {0};
    struct kin__claimed claimed;
    kin__lock_take(&slot->lock, KIN__RANK_WAIT);
    if (kin__waitq_claim(&slot->queue, &claimed)) {
        *(int *)claimed.io = number;
        kin__wakes_add(&wakes, &claimed, 7);
    } else {
        slot->full += number;
    }
    kin__lock_give(&slot->lock, KIN__RANK_WAIT);
    kin__wakes_run(&wakes);
}

/* ---- one sleeper, one waker, two rounds ---- */

static void sleeper(void *arg)
{
    int rounds = *(const int *)arg, number = 0;
    while (taken < rounds) { /* ends: so much is filled in */
        int status = kin__wait(&slot_waitable, slot, &number, 0);
        kin_atoms_assert(status == 0 || status == 7, "a wait ends with what its waker gave it");
        taken += number;
    }
}

static void waker(void *arg)
{
    for (int i = 0; i < *(const int *)arg; i++)
        fill(1);
}

static void begin_rounds(void *arg)
{
    under_begin();
    slot = kin_atoms_alloc(sizeof(*slot));
    taken = stopped = 0;
    under_spawn("sleeper", sleeper, arg);
    under_spawn_outside("waker", waker, arg);
}

/* ---- a waker and a request at once ---- */

static void asked_sleeper(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        int number = 0, status = kin__wait(&slot_waitable, slot, &number, 0);
        kin_atoms_assert(status == 0 || status == 7 || status == KIN_CANCELLED, "one of three");
        kin_atoms_assert((status == KIN_CANCELLED) == (number == 0), "who is asked takes nothing");
        taken += number;
        stopped += status == KIN_CANCELLED;
    }
}

static void canceller(void *arg)
{
    (void)arg;
    kin__park_request(under_task(0), KIN__CANCEL);
}

static void begin_asked(void *arg)
{
    under_begin();
    slot = kin_atoms_alloc(sizeof(*slot));
    taken = stopped = 0;
    under_spawn("sleeper", asked_sleeper, arg);
    under_spawn_outside("waker", waker, arg);
    under_spawn_outside("canceller", canceller, arg);
}

static void end_asked(void *arg)
{
    kin_atoms_assert(taken + slot->full == *(const int *)arg, "nothing is lost or made");
    kin_atoms_assert(stopped >= 1 || taken == 2, "a request that came is heeded");
    kin_atoms_assert(kin__waitq_is_empty(&slot->queue), "nobody stays in line");
}

static int one = 1, two = 2, three = 3;

const struct harness harnesses[] = {
    {.name = "park_two_rounds", .begin = begin_rounds, .arg = &two},
    {.name = "park_and_a_request", .begin = begin_asked, .end = end_asked, .arg = &one},
    {.name = "park_two_and_a_request", .begin = begin_asked, .end = end_asked, .arg = &two},
    {.name = "park_two_rounds_c11", .begin = begin_rounds, .arg = &two, .memory = KIN_ATOMS_C11},
    {.name = "park_and_a_request_c11", .begin = begin_asked, .end = end_asked, .arg = &one,
     .memory = KIN_ATOMS_C11},
    {.name = "park_three_rounds", .begin = begin_rounds, .arg = &three, .is_deep = true},
    {0},
};
