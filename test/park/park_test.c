/* SPDX-License-Identifier: MIT */
/*
 * Goal: a wait ends exactly once, with what its winner brought, and leaves nothing behind.
 * Method: a waitable made by hand, whose publish can do on purpose what another thread would do by
 * chance; then tasks and foreign threads that hand numbered tokens to waiters, with deadlines and
 * cancellations in between, and every token accounted for.
 */
#include "kin_test.h"

#include "base/lock.h"
#include "base/rng.h"
#include "park/park.h"
#include "sched/sched.h"
#include "wait/timer.h"

#include <kin/kin.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int run_with(unsigned workers, kin_task_fn *fn, void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = workers;
    return kin_run(&config, fn, arg);
}

/* ---- the event ---- */

struct event {
    struct kin__lock lock; /* rank WAIT; the rest */
    bool is_set;
    int status;
    struct kin__list waiters;
    unsigned tries, publishes, unpublishes;
    void (*during_publish)(struct event *event, struct kin__waiter *waiter);
    void *hook_arg;
    bool hides; /* try says no although it is set, as if it was set before the publish */
};

static bool event_try(void *object, void *io, int *status)
{
    struct event *event = object;
    (void)io;
    kin__lock_take(&event->lock, KIN__RANK_WAIT);
    event->tries++;
    bool is_set = event->is_set && !event->hides;
    if (is_set)
        *status = event->status;
    kin__lock_give(&event->lock, KIN__RANK_WAIT);
    return is_set;
}

static bool event_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct event *event = object;
    kin__lock_take(&event->lock, KIN__RANK_WAIT);
    event->publishes++;
    bool is_set = event->is_set;
    if (is_set) {
        *status = event->status;
        event->hides = false;
    } else {
        waiter->link = (struct kin__list){NULL, NULL};
        kin__list_push_back(&event->waiters, &waiter->link);
    }
    kin__lock_give(&event->lock, KIN__RANK_WAIT);
    if (event->during_publish)
        event->during_publish(event, waiter);
    return !is_set;
}

static void event_unpublish(void *object, struct kin__waiter *waiter)
{
    struct event *event = object;
    kin__lock_take(&event->lock, KIN__RANK_WAIT);
    event->unpublishes++;
    kin__list_remove(&waiter->link);
    kin__lock_give(&event->lock, KIN__RANK_WAIT);
}

static const struct kin__waitable event_ops = {"event", event_try, event_publish, event_unpublish};

static void event_init(struct event *event)
{
    memset(event, 0, sizeof *event);
    kin__list_init(&event->waiters);
}

/* Wakes the first waiter that can be had; false: nobody, the caller keeps what it brought. */
static bool event_wake(struct event *event, int status)
{
    bool has_woken = false;
    kin__lock_take(&event->lock, KIN__RANK_WAIT);
    for (struct kin__list *link; !has_woken && (link = kin__list_pop_front(&event->waiters));)
        has_woken = kin__wake(KIN__CONTAINER_OF(link, struct kin__waiter, link), status);
    kin__lock_give(&event->lock, KIN__RANK_WAIT);
    return has_woken;
}

static void event_set(struct event *event, int status)
{
    kin__lock_take(&event->lock, KIN__RANK_WAIT);
    event->is_set = true;
    event->status = status;
    kin__lock_give(&event->lock, KIN__RANK_WAIT);
    while (event_wake(event, status))
        continue; /* ends: one waiter fewer each time */
}

static bool has_waiters(struct event *event)
{
    kin__lock_take(&event->lock, KIN__RANK_WAIT);
    bool has = !kin__list_is_empty(&event->waiters);
    kin__lock_give(&event->lock, KIN__RANK_WAIT);
    return has;
}

static void let_it_park(struct event *event)
{
    while (!has_waiters(event)) /* ends: the other task runs and parks */
        EXPECT_EQ(kin_yield(), 0);
}

static int wait_any(struct event *const *events, uint32_t count, unsigned flags, int *status)
{
    struct kin__case cases[4];
    for (uint32_t i = 0; i < count; i++)
        cases[i] = (struct kin__case){.ops = &event_ops, .object = events[i]};
    return kin__wait_any(cases, count, flags, status);
}

/* ---- one waiter ---- */

KIN_TEST(a_wait_outside_a_task_is_refused, "N1002")
{
    struct event event;
    event_init(&event);
    EXPECT_EQ(kin__wait(&event_ops, &event, NULL, 0), KIN_NOTASK);
    EXPECT_EQ(event.publishes, 0);
}

static int find_it_complete(void *arg)
{
    struct event event;
    (void)arg;
    event_init(&event);
    event_set(&event, 12);
    EXPECT_EQ(kin__wait(&event_ops, &event, NULL, 0), 12);
    EXPECT_EQ(event.publishes, 0); /* the fast path does not park */
    EXPECT_EQ(event.tries, 1);
    event.hides = true; /* set between the try and the publish */
    EXPECT_EQ(kin__wait(&event_ops, &event, NULL, 0), 12);
    EXPECT_EQ(event.publishes, 1);
    EXPECT_EQ(event.unpublishes, 0);
    EXPECT(!has_waiters(&event));
    return 0;
}

KIN_TEST(a_wake_before_the_publish_is_not_lost, "F4 W:4.2 A9")
{
    EXPECT_EQ(unsetenv("KIN_HARD"), 0); /* the fast path is the point */
    EXPECT_EQ(run_with(1, find_it_complete, NULL), 0);
}

static int set_later(void *arg)
{
    event_set(arg, 34);
    return 0;
}

static int park_until_set(void *arg)
{
    struct event event;
    (void)arg;
    for (int i = 0; i < 100; i++) {
        event_init(&event);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, set_later, &event), 0);
        EXPECT_EQ(kin__wait(&event_ops, &event, NULL, 0), 34);
        EXPECT(!has_waiters(&event));
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(a_parked_task_gets_what_its_waker_brought, "W:4.2 W:4.3 F4 002:1.3 002:3 002:3.1")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_with(workers, park_until_set, NULL), 0);
}

#ifdef KIN_DEBUG
KIN_TEST(waits_work_when_each_of_them_parks, "W:4.2 F4")
{
    EXPECT_EQ(setenv("KIN_HARD", "park", 1), 0);
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_with(workers, park_until_set, NULL), 0);
}
#endif

/* What another thread may do between the publish and the switch. */
static void wake_now(struct event *event, struct kin__waiter *waiter)
{
    (void)waiter;
    EXPECT(event_wake(event, 56));
    EXPECT(!event_wake(event, 57)); /* nobody is left to be woken twice */
}

static int wake_while_publishing(void *arg)
{
    struct event event;
    (void)arg;
    event_init(&event);
    event.during_publish = wake_now;
    EXPECT_EQ(kin__wait(&event_ops, &event, NULL, 0), 56);
    EXPECT_EQ(kin__wait(&event_ops, &event, NULL, 0), 56); /* and the next park is a new one */
    return 0;
}

KIN_TEST(a_wake_between_publish_and_switch_resumes_in_place, "F4 F5 W:4.2 A8")
{
    EXPECT_EQ(run_with(1, wake_while_publishing, NULL), 0);
    EXPECT_EQ(run_with(2, wake_while_publishing, NULL), 0);
}

/* ---- a stale waiter ---- */

static struct kin__waiter copied;

static void copy_waiter(struct event *event, struct kin__waiter *waiter)
{
    (void)event;
    copied = *waiter;
}

static int wake_twice(void *arg)
{
    struct event *event = arg;
    let_it_park(event);
    struct kin__waiter first = copied;
    EXPECT(event_wake(event, 1));
    EXPECT(!kin__wake(&first, 2)); /* won already */
    let_it_park(event);            /* the same frame, its next park */
    EXPECT(copied.task == first.task);
    EXPECT_NE(copied.ticket, first.ticket);
    EXPECT(!kin__wake(&first, 3));
    EXPECT(has_waiters(event));
    EXPECT(event_wake(event, 4));
    return 0;
}

static int be_woken_twice(void *arg)
{
    struct event event;
    (void)arg;
    event_init(&event);
    event.during_publish = copy_waiter;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, wake_twice, &event), 0);
    EXPECT_EQ(kin__wait(&event_ops, &event, NULL, 0), 1);
    EXPECT_EQ(kin__wait(&event_ops, &event, NULL, 0), 4);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_stale_waiter_wakes_no_later_park, "ABA:8.3 D-2 A2")
{
    EXPECT_EQ(run_with(1, be_woken_twice, NULL), 0);
}

/* ---- several things at once ---- */

static int set_second(void *arg)
{
    struct event *const *events = arg;
    let_it_park(events[2]);
    event_set(events[1], 78);
    return 0;
}

static int wait_for_one_of_three(void *arg)
{
    struct event a, b, c, *events[3] = {&a, &b, &c};
    int status = 0;
    (void)arg;
    event_init(&a);
    event_init(&b);
    event_init(&c);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, set_second, events), 0);
    EXPECT_EQ(wait_any(events, 3, 0, &status), 1);
    EXPECT_EQ(status, 78);
    EXPECT(!has_waiters(&a) && !has_waiters(&b) && !has_waiters(&c));
    EXPECT_EQ(a.unpublishes, 1);
    EXPECT_EQ(b.unpublishes, 0); /* the winner was taken out by its waker */
    EXPECT_EQ(c.unpublishes, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    event_set(&a, 90);
    EXPECT_EQ(wait_any(events, 3, 0, &status), 0); /* both are set: the first one listed */
    EXPECT_EQ(status, 90);
    EXPECT_EQ(wait_any(events + 1, 2, 0, &status), 0);
    EXPECT_EQ(status, 78);
    return 0;
}

KIN_TEST(one_of_several_completes_and_the_others_are_taken_back, "A10 W:4.2")
{
    EXPECT_EQ(run_with(1, wait_for_one_of_three, NULL), 0);
    EXPECT_EQ(run_with(2, wait_for_one_of_three, NULL), 0);
}

static int claim_oneself(void *arg)
{
    struct event a, b, c, *events[3] = {&a, &b, &c};
    int status = 0;
    (void)arg;
    event_init(&a);
    event_init(&b);
    event_init(&c);
    event_set(&b, 21);
    b.hides = true;
    EXPECT_EQ(wait_any(events, 3, 0, &status), 1);
    EXPECT_EQ(status, 21);
    EXPECT(!has_waiters(&a) && !has_waiters(&c));
    EXPECT_EQ(b.tries, a.tries + 1); /* of the three only the complete one is tried again */
    EXPECT_EQ(a.unpublishes, 1);
    EXPECT_EQ(b.unpublishes, 0);
    EXPECT_EQ(c.publishes, 0); /* never reached */
    EXPECT_EQ(c.unpublishes, 0);
    return 0;
}

KIN_TEST(a_thing_found_complete_while_publishing_ends_the_wait, "D-4 A10 A9")
{
    EXPECT_EQ(run_with(1, claim_oneself, NULL), 0);
}

/* Somebody else takes what was there before the task can. */
static void take_it_away(struct event *event, struct kin__waiter *waiter)
{
    (void)waiter;
    event->is_set = false;
    event->during_publish = NULL;
}

static int set_when_it_waits(void *arg)
{
    struct event *event = arg;
    let_it_park(event);
    event_set(event, 34);
    return 0;
}

static int find_it_gone(void *arg)
{
    struct event a, b, *events[2] = {&a, &b};
    int status = 0;
    (void)arg;
    event_init(&a);
    event_init(&b);
    event_set(&b, 21);
    b.hides = true;
    b.during_publish = take_it_away;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, set_when_it_waits, &b), 0);
    EXPECT_EQ(wait_any(events, 2, 0, &status), 1);
    EXPECT_EQ(status, 34);
    EXPECT_EQ(a.publishes, 2);
    EXPECT_EQ(a.unpublishes, 2);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_thing_that_is_gone_when_it_is_tried_is_waited_for_anew, "D-4 A9")
{
    EXPECT_EQ(run_with(1, find_it_gone, NULL), 0);
    EXPECT_EQ(run_with(2, find_it_gone, NULL), 0);
}

/* Somebody wakes the first case while the second is being found complete. */
static void wake_the_other(struct event *event, struct kin__waiter *waiter)
{
    (void)waiter;
    EXPECT(event_wake(event->hook_arg, 43));
}

static int lose_to_oneself(void *arg)
{
    struct event a, b, *events[2] = {&a, &b};
    int status = 0;
    (void)arg;
    event_init(&a);
    event_init(&b);
    event_set(&b, 21);
    b.hides = true;
    b.during_publish = wake_the_other;
    b.hook_arg = &a;
    EXPECT_EQ(wait_any(events, 2, 0, &status), 0);
    EXPECT_EQ(status, 43); /* the winner's, not what the complete one said */
    EXPECT(!has_waiters(&a) && !has_waiters(&b));
    return 0;
}

KIN_TEST(a_self_claim_that_loses_takes_what_the_winner_brought, "D-4 F4")
{
    EXPECT_EQ(run_with(1, lose_to_oneself, NULL), 0);
    EXPECT_EQ(run_with(2, lose_to_oneself, NULL), 0);
}

/* Woken through the first case while the later ones are not published yet. */
static int wake_while_publishing_the_rest(void *arg)
{
    struct event a, b, c, *events[3] = {&a, &b, &c};
    int status = 0;
    (void)arg;
    event_init(&a);
    event_init(&b);
    event_init(&c);
    a.during_publish = wake_now;
    EXPECT_EQ(wait_any(events, 3, 0, &status), 0);
    EXPECT_EQ(status, 56);
    EXPECT(!has_waiters(&b) && !has_waiters(&c));
    EXPECT(!event_wake(&b, 1) && !event_wake(&c, 1));
    return 0;
}

KIN_TEST(a_wake_through_the_first_case_takes_the_later_ones_back, "A8 A10")
{
    EXPECT_EQ(run_with(1, wake_while_publishing_the_rest, NULL), 0);
}

/* ---- cancellation ---- */

struct asked {
    struct event event;
    unsigned flags;
    bool by_nursery; /* cancelled with its nursery, not by name */
    atomic_int rc, again;
    atomic_bool was_cancelled;
};

static int wait_asked(void *arg)
{
    struct asked *asked = arg;
    asked->rc = kin__wait(&event_ops, &asked->event, NULL, asked->flags);
    asked->was_cancelled = kin_cancelled();
    unsigned publishes = asked->event.publishes;
    struct event other;
    event_init(&other);
    asked->again = kin__wait(&event_ops, &other, NULL, 0);
    EXPECT_EQ(other.publishes, 0); /* asked before it began: nobody ever saw it wait */
    EXPECT_EQ(asked->event.publishes, publishes);
    return KIN_CANCELLED;
}

static int cancel_while_parked(void *arg)
{
    struct asked *asked = arg;
    struct kin_task_ref ref;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, NULL, wait_asked, asked, 0, &ref), 0);
    let_it_park(&asked->event);
    if (asked->by_nursery)
        kin_nursery_cancel(&n, KIN_CANCELLED);
    else
        EXPECT_EQ(kin_task_cancel(ref), 0);
    if (asked->flags & KIN__WAIT_SHIELDED) {
        for (int i = 0; i < 200; i++)
            EXPECT_EQ(kin_yield(), asked->by_nursery ? KIN_CANCELLED : 0);
        EXPECT(has_waiters(&asked->event)); /* it did not hear of it */
        event_set(&asked->event, 65);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), asked->by_nursery ? KIN_CANCELLED : 0);
    EXPECT(!has_waiters(&asked->event));
    return 0;
}

KIN_TEST(a_cancellation_ends_a_park_and_takes_the_waiter_back, "A7 B12 T012 NSM:4.2")
{
    for (unsigned i = 0; i < 4; i++) {
        struct asked asked = {.rc = 1, .by_nursery = i / 2};
        event_init(&asked.event);
        EXPECT_EQ(run_with(1 + i % 2, cancel_while_parked, &asked), 0);
        EXPECT_EQ(asked.rc, KIN_CANCELLED);
        EXPECT(asked.was_cancelled);
        EXPECT_EQ(asked.again, KIN_CANCELLED);
        EXPECT_EQ(asked.event.unpublishes, 1);
    }
}

KIN_TEST(a_shielded_wait_is_not_ended_by_a_cancellation, "B12 G107")
{
    for (unsigned i = 0; i < 4; i++) {
        struct asked asked = {.flags = KIN__WAIT_SHIELDED, .by_nursery = i / 2};
        event_init(&asked.event);
        EXPECT_EQ(run_with(1 + i % 2, cancel_while_parked, &asked), 0);
        EXPECT_EQ(asked.rc, 65);
        EXPECT(asked.was_cancelled); /* but not forgotten either */
        EXPECT_EQ(asked.again, KIN_CANCELLED);
    }
}

/* A task with its own number, so that others can ask it; rc: what its shielded wait came to. */
struct killed {
    struct event event;
    struct kin__task *task;
    uint64_t request;
    unsigned flags;
    bool is_before; /* it is killed before it waits */
    int rc;
};

static int wait_to_be_killed(void *arg)
{
    struct killed *killed = arg;
    struct event *event = &killed->event;
    int status = 0;
    killed->task = kin__worker_current(kin__worker_self());
    if (killed->is_before)
        kin__park_request(killed->task, killed->request);
    killed->rc = wait_any(&event, 1, killed->flags, &status);
    return 0;
}

static int kill_it(void *arg)
{
    struct killed *killed = arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, wait_to_be_killed, killed), 0);
    if (!killed->is_before) {
        let_it_park(&killed->event);
        kin__park_request(killed->task, killed->request);
    } else if (killed->flags & KIN__WAIT_DEAF) {
        let_it_park(&killed->event);
        event_set(&killed->event, 1);
    }
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_kill_ends_a_shielded_wait_and_one_that_was_heard_ends_no_deaf_one, "NSM:4.2 D19")
{
    static const struct {
        unsigned flags;
        bool is_before;
        int rc;
    } table[] = {{KIN__WAIT_SHIELDED, false, KIN_CANCELLED},
                 {KIN__WAIT_SHIELDED, true, KIN_CANCELLED},
                 {KIN__WAIT_DEAF, true, 0}};
    for (unsigned i = 0; i < 12; i++) {
        struct killed killed = {.flags = table[i / 4].flags,
                                .is_before = table[i / 4].is_before,
                                .request = i % 4 < 2 ? KIN__KILL : KIN__FORCE};
        event_init(&killed.event);
        EXPECT_EQ(run_with(1 + i % 2, kill_it, &killed), 0);
        EXPECT_EQ(killed.rc, table[i / 4].rc);
        EXPECT(!has_waiters(&killed.event));
    }
}

/* The canceller comes between the publish and the switch. */
static void cancel_now(struct event *event, struct kin__waiter *waiter)
{
    (void)event;
    (void)waiter;
    EXPECT_EQ(kin_task_cancel(kin_self()), 0);
}

static void wake_then_cancel(struct event *event, struct kin__waiter *waiter)
{
    EXPECT(event_wake(event, 9));
    cancel_now(event, waiter);
}

static int be_cancelled_while_publishing(void *arg)
{
    struct asked *asked = arg;
    asked->rc = kin__wait(&event_ops, &asked->event, NULL, 0);
    return 0;
}

static int cancel_while_publishing(void *arg)
{
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, be_cancelled_while_publishing, arg), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_cancellation_between_publish_and_switch_is_not_lost, "A7 D-1 F4")
{
    struct asked asked = {.rc = 1};
    event_init(&asked.event);
    asked.event.during_publish = cancel_now;
    EXPECT_EQ(run_with(1, cancel_while_publishing, &asked), 0);
    EXPECT_EQ(asked.rc, KIN_CANCELLED);
    EXPECT(!has_waiters(&asked.event));
}

KIN_TEST(a_match_that_won_is_kept_although_a_cancellation_follows, "A7")
{
    struct asked asked = {.rc = 1};
    event_init(&asked.event);
    asked.event.during_publish = wake_then_cancel;
    EXPECT_EQ(run_with(1, cancel_while_publishing, &asked), 0);
    EXPECT_EQ(asked.rc, 9);
}

/* ---- real threads: tokens that must not get lost ---- */

enum { TOKENS = 100000, WAITERS = 24, GIVERS = 2 };

/* A queue of tokens with hand-off: a giver wakes a waiter with a token or leaves it in the
 * queue. */
struct counter {
    struct kin__lock lock; /* rank WAIT; the rest */
    struct kin__list waiters;
    int *queue;
    int head, tail;
    atomic_int *seen;
    int tokens;
    atomic_int taken, handed, timeouts, cancels;
    atomic_bool is_over;
};

static bool counter_try(void *object, void *io, int *status)
{
    struct counter *counter = object;
    (void)io;
    kin__lock_take(&counter->lock, KIN__RANK_WAIT);
    bool has = counter->head < counter->tail;
    if (has)
        *status = counter->queue[counter->head++];
    kin__lock_give(&counter->lock, KIN__RANK_WAIT);
    return has;
}

/* Consumes nothing: whoever loses the claim afterwards could not put it back. */
static bool counter_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct counter *counter = object;
    kin__lock_take(&counter->lock, KIN__RANK_WAIT);
    bool has = counter->head < counter->tail;
    if (!has) {
        waiter->link = (struct kin__list){NULL, NULL};
        kin__list_push_back(&counter->waiters, &waiter->link);
    }
    kin__lock_give(&counter->lock, KIN__RANK_WAIT);
    *status = -EAGAIN;
    return !has;
}

static void counter_unpublish(void *object, struct kin__waiter *waiter)
{
    struct counter *counter = object;
    kin__lock_take(&counter->lock, KIN__RANK_WAIT);
    kin__list_remove(&waiter->link);
    kin__lock_give(&counter->lock, KIN__RANK_WAIT);
}

static const struct kin__waitable counter_ops = {"counter", counter_try, counter_publish,
                                                 counter_unpublish};

/* A token goes to the first waiter whose claim is won, by value and outside the lock. */
static void give(struct counter *counter, int token)
{
    for (;;) { /* ends: one waiter fewer each time */
        kin__lock_take(&counter->lock, KIN__RANK_WAIT);
        struct kin__list *link = kin__list_pop_front(&counter->waiters);
        if (!link) {
            counter->queue[counter->tail++] = token;
            kin__lock_give(&counter->lock, KIN__RANK_WAIT);
            return;
        }
        struct kin__waiter waiter = *KIN__CONTAINER_OF(link, struct kin__waiter, link);
        kin__lock_give(&counter->lock, KIN__RANK_WAIT);
        if (kin__wake_task(waiter.task, waiter.ticket, waiter.case_, token)) {
            atomic_fetch_add(&counter->handed, 1);
            return;
        }
    }
}

static void count_token(struct counter *counter, int token)
{
    EXPECT(token >= 0 && token < counter->tokens);
    EXPECT_EQ(atomic_fetch_add(&counter->seen[token], 1), 0);
    if (atomic_fetch_add(&counter->taken, 1) + 1 == counter->tokens)
        counter->is_over = true;
}

/* Takes tokens until it is cancelled; some waits have a deadline that is about to pass. */
static int take_tokens(void *arg)
{
    struct counter *counter = arg;
    for (unsigned i = 0;; i++) { /* ends: with a cancellation */
        kin_time deadline = i % 3 ? KIN_NEVER : kin_after(KIN_US(i % 7 * 10));
        int rc = kin__wait_until(&counter_ops, counter, NULL, deadline, 0);
        if (rc >= 0) {
            count_token(counter, rc);
        } else if (rc == KIN_CANCELLED) {
            atomic_fetch_add(&counter->cancels, 1);
            return KIN_CANCELLED;
        } else if (rc == KIN_TIMEOUT) {
            atomic_fetch_add(&counter->timeouts, 1);
        } else {
            EXPECT_EQ(rc, -EAGAIN);
        }
    }
}

struct giver {
    struct counter *counter;
    int first, step;
};

static void *give_from_a_thread(void *arg)
{
    struct giver *giver = arg;
    for (int i = giver->first; i < giver->counter->tokens; i += giver->step) {
        give(giver->counter, i);
        if (i % 64 == 0)
            sched_yield();
    }
    return NULL;
}

static int give_from_a_task(void *arg)
{
    struct giver *giver = arg;
    for (int i = giver->first; i < giver->counter->tokens; i += giver->step) {
        give(giver->counter, i);
        if (i % 64 == 0)
            EXPECT_EQ(kin_yield(), 0);
    }
    return 0;
}

/* Cancels waiters one by one and spawns others in their place, until every token was taken. */
static int churn(struct counter *counter, struct kin_nursery *n, struct kin_task_ref *refs)
{
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), 0);
    while (!counter->is_over) { /* ends: tokens are given until all are taken */
        uint64_t which = kin__rng_below(&rng, WAITERS);
        int rc = kin_task_cancel(refs[which]);
        EXPECT(rc == 0 || rc == KIN_STALE);
        EXPECT_EQ(kin_spawn_with(n, NULL, take_tokens, counter, 0, &refs[which]), 0);
        for (uint64_t i = kin__rng_below(&rng, 20); i > 0; i--)
            EXPECT_EQ(kin_yield(), 0);
    }
    return 0;
}

static int hand_out_tokens(void *arg)
{
    struct counter *counter = arg;
    struct kin_task_ref refs[WAITERS];
    struct giver givers[2 * GIVERS];
    pthread_t threads[GIVERS];
    KIN_NURSERY(takers);
    KIN_NURSERY(tasks);
    for (int i = 0; i < WAITERS; i++)
        EXPECT_EQ(kin_spawn_with(&takers, NULL, take_tokens, counter, 0, &refs[i]), 0);
    for (int i = 0; i < 2 * GIVERS; i++)
        givers[i] = (struct giver){counter, i, 2 * GIVERS};
    for (int i = 0; i < GIVERS; i++) {
        EXPECT_EQ(kin_spawn(&tasks, give_from_a_task, &givers[i]), 0);
        EXPECT_EQ(pthread_create(&threads[i], NULL, give_from_a_thread, &givers[GIVERS + i]), 0);
    }
    EXPECT_EQ(churn(counter, &takers, refs), 0);
    EXPECT_EQ(kin_nursery_join(&tasks, NULL), 0);
    for (int i = 0; i < GIVERS; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    kin_nursery_cancel(&takers, KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&takers, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(no_token_is_lost_or_given_twice_among_deadlines_and_cancellations,
         "F3 F4 A7 A8 T066 ABA:8.3")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct counter counter;
        memset(&counter, 0, sizeof counter);
        kin__list_init(&counter.waiters);
        counter.tokens = TOKENS / (int)kin_test_scale();
        counter.queue = calloc((size_t)counter.tokens, sizeof counter.queue[0]);
        counter.seen = calloc((size_t)counter.tokens, sizeof counter.seen[0]);
        EXPECT(counter.queue && counter.seen);
        EXPECT_EQ(run_with(workers, hand_out_tokens, &counter), 0);
        EXPECT_EQ(counter.taken, counter.tokens);
        EXPECT(kin__list_is_empty(&counter.waiters));
        for (int i = 0; i < counter.tokens; i++)
            EXPECT_EQ(counter.seen[i], 1);
        printf("%u workers: %d handed over, %d timeouts, %d cancels\n", workers, counter.handed,
               counter.timeouts, counter.cancels);
        free(counter.queue);
        free(counter.seen);
    }
}
