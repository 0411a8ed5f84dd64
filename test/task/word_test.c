/* SPDX-License-Identifier: MIT */
/*
 * Goal: the word hands a park to exactly one winner, whatever the order of its five operations.
 * Method: every order on one thread against the states it must lead to; then real threads, a fresh
 * ticket per park, several wakers per ticket, each of which tries a ticket once.
 */
#include "kin_test.h"

#include "mem/frame.h"
#include "task/task.h"
#include "task/word.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* A task that runs, in a frame of this test's own. */
static void make_running(struct kin__task *task)
{
    memset(task, 0, sizeof *task);
    kin__word_init(task);
    kin__store_relaxed(&task->shadow, KIN__RUNNING); /* alone: one thread */
}

/* What the worker does when it takes the task out of a run queue. */
static void run_again(struct kin__task *task)
{
    kin__word_move(task, KIN__RUNNABLE, KIN__RUNNING, KIN__BY_WORKER);
}

static uint64_t word_of(struct kin__task *task)
{
    return kin__load_relaxed(&task->ctl); /* alone: one thread */
}

static uint64_t begin_open(struct kin__task *task, uint64_t shield)
{
    uint64_t ticket = 0;
    uint64_t heeded = shield ? KIN__KILL : KIN__REQUESTS;
    EXPECT_EQ(kin__word_begin(task, shield, heeded, &ticket), KIN__BEGUN_OPEN);
    EXPECT_EQ(kin__word_ticket(word_of(task)), ticket);
    EXPECT_EQ(word_of(task) & KIN__PARK_BITS, shield);
    return ticket;
}

#ifdef KIN_DEBUG
#define EXPECT_STATE(task, state) EXPECT_EQ(kin__load_relaxed(&(task)->shadow), state)
#else
#define EXPECT_STATE(task, state) ((void)(task))
#endif

/* ---- every order ---- */

KIN_TEST(claim_after_commit_makes_the_waker_enqueue, "F4 W:4.2 W:4.3 MX")
{
    struct kin__task task;
    make_running(&task);
    uint64_t ticket = begin_open(&task, 0);
    EXPECT_STATE(&task, KIN__PARKING);
    EXPECT(!kin__word_commit(&task));
    EXPECT_STATE(&task, KIN__PARKED);
    EXPECT_EQ(kin__word_claim(&task, ticket), KIN__WON_PARKED);
    EXPECT_STATE(&task, KIN__RUNNABLE);
    EXPECT_EQ(word_of(&task) & KIN__PARK_BITS, KIN__CLAIMED | KIN__READY | KIN__OFF);
}

KIN_TEST(ready_before_commit_makes_the_worker_enqueue, "F4 F5 W:4.2 MX")
{
    struct kin__task task;
    make_running(&task);
    uint64_t ticket = begin_open(&task, 0);
    EXPECT_EQ(kin__word_claim(&task, ticket), KIN__WON_PARKING);
    EXPECT(!kin__word_ready(&task)); /* still on its stack: the waker must not enqueue it */
    EXPECT(kin__word_commit(&task));
    EXPECT_STATE(&task, KIN__RUNNABLE);
}

KIN_TEST(commit_between_claim_and_ready_makes_the_waker_enqueue, "F4 W:4.2 MX")
{
    struct kin__task task;
    make_running(&task);
    uint64_t ticket = begin_open(&task, 0);
    EXPECT_EQ(kin__word_claim(&task, ticket), KIN__WON_PARKING);
    EXPECT(!kin__word_commit(&task)); /* the result is not there yet */
    EXPECT_STATE(&task, KIN__PARKED);
    EXPECT(kin__word_ready(&task));
    EXPECT_STATE(&task, KIN__RUNNABLE);
}

KIN_TEST(ready_before_the_switch_lets_the_task_stay, "F4 W:4.2")
{
    struct kin__task task;
    make_running(&task);
    uint64_t ticket = begin_open(&task, 0);
    EXPECT(!kin__word_is_ready(&task));
    EXPECT_EQ(kin__word_claim(&task, ticket), KIN__WON_PARKING);
    EXPECT(!kin__word_is_ready(&task)); /* claimed, not delivered */
    EXPECT(!kin__word_ready(&task));
    EXPECT(kin__word_is_ready(&task));
    EXPECT_STATE(&task, KIN__RUNNING);
    (void)begin_open(&task, 0); /* and it can park again */
}

KIN_TEST(a_self_claim_calls_the_park_off, "F3 W:4.2 D-4")
{
    struct kin__task task;
    make_running(&task);
    uint64_t ticket = begin_open(&task, 0);
    EXPECT(kin__word_claim_self(&task));
    EXPECT_STATE(&task, KIN__RUNNING);
    EXPECT_EQ(kin__word_claim(&task, ticket), KIN__LOST);
    EXPECT(!kin__word_claim_self(&task)); /* once */
    EXPECT_EQ(begin_open(&task, 0), ticket + 1);
}

KIN_TEST(a_self_claim_loses_against_an_earlier_winner, "F3 W:4.2 D-4")
{
    struct kin__task task;
    make_running(&task);
    uint64_t ticket = begin_open(&task, 0);
    EXPECT_EQ(kin__word_claim(&task, ticket), KIN__WON_PARKING);
    EXPECT(!kin__word_claim_self(&task));
    EXPECT(!kin__word_ready(&task));
    EXPECT(!kin__word_claim_self(&task));
    EXPECT(kin__word_is_ready(&task));
}

KIN_TEST(the_second_claim_of_a_ticket_is_lost_in_every_state, "F3 F4 W:4.3")
{
    struct kin__task task;
    make_running(&task);
    uint64_t ticket = begin_open(&task, 0);
    EXPECT_EQ(kin__word_claim(&task, ticket), KIN__WON_PARKING);
    EXPECT_EQ(kin__word_claim(&task, ticket), KIN__LOST);
    EXPECT(!kin__word_commit(&task));
    EXPECT_EQ(kin__word_claim(&task, ticket), KIN__LOST);
    EXPECT(kin__word_ready(&task));
    EXPECT_EQ(kin__word_claim(&task, ticket), KIN__LOST);
    run_again(&task);
    EXPECT_EQ(kin__word_claim(&task, ticket), KIN__LOST);
}

KIN_TEST(a_ticket_that_is_not_the_parks_changes_nothing, "ABA:8.3 D-2")
{
    struct kin__task task;
    make_running(&task);
    uint64_t first = begin_open(&task, 0);
    EXPECT(kin__word_claim_self(&task));
    uint64_t ticket = begin_open(&task, 0);
    EXPECT_NE(ticket, first);
    const uint64_t wrong[] = {first, ticket + 1, 0, UINT64_MAX, UINT64_MAX >> KIN__TICKET_SHIFT};
    for (int off = 0; off < 2; off++) {
        uint64_t before = word_of(&task);
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
            EXPECT_EQ(kin__word_claim(&task, wrong[i]), KIN__LOST);
        EXPECT_EQ(word_of(&task), before);
        if (!off)
            EXPECT(!kin__word_commit(&task));
    }
    EXPECT_EQ(kin__word_claim(&task, ticket), KIN__WON_PARKED);
}

KIN_TEST(a_running_task_cannot_be_claimed, "F1 F3")
{
    struct kin__task task;
    make_running(&task);
    EXPECT_EQ(kin__word_claim(&task, kin__word_ticket(word_of(&task))), KIN__LOST);
    EXPECT(!kin__word_claim_self(&task));
}

KIN_TEST(tickets_never_repeat_over_parks_and_lives, "ABA:8.2")
{
    struct kin__task task;
    make_running(&task);
    uint64_t last = kin__word_ticket(word_of(&task));
    for (int i = 0; i < 1000; i++) {
        uint64_t ticket = begin_open(&task, i % 2 ? KIN__SHIELD : 0);
        EXPECT_GT(ticket, last);
        last = ticket;
        if (i % 3 == 0) {
            EXPECT(kin__word_claim_self(&task));
        } else {
            EXPECT(!kin__word_commit(&task));
            EXPECT_EQ(kin__word_claim(&task, ticket), KIN__WON_PARKED);
            run_again(&task);
        }
        if (i % 7 == 0) {
            kin__word_fini(&task);
            EXPECT_EQ(kin__word_claim(&task, ticket), KIN__LOST);
            kin__word_init(&task);
            EXPECT_GT(kin__word_ticket(word_of(&task)), last);
            last = kin__word_ticket(word_of(&task));
        }
    }
}

/* The ticket has 56 bits: whoever parks for the 2^56th time must still be found by its ticket. */
KIN_TEST(tickets_wrap_and_are_still_found, "ABA:8.2")
{
    struct kin__task task;
    make_running(&task);
    kin__store_relaxed(&task.ctl, (UINT64_MAX << KIN__TICKET_SHIFT) - 3 * KIN__TICKET_ONE +
                                      (KIN__CLAIMED | KIN__READY)); /* alone: one thread */
    for (int i = 0; i < 8; i++) {
        uint64_t ticket = begin_open(&task, 0);
        EXPECT(!kin__word_commit(&task));
        EXPECT_EQ(kin__word_claim(&task, ticket), KIN__WON_PARKED);
        EXPECT_EQ(word_of(&task) & KIN__REQUESTS, 0);
        run_again(&task);
    }
    kin__store_relaxed(&task.ctl, (UINT64_MAX << KIN__TICKET_SHIFT) |
                                      (KIN__CLAIMED | KIN__READY)); /* alone: one thread */
    kin__word_init(&task);
    EXPECT_EQ(word_of(&task), KIN__CLAIMED | KIN__READY);
}

/* ---- requests ---- */

KIN_TEST(a_request_before_begin_calls_the_park_off, "D-1 NSM:4.2")
{
    const uint64_t requests[] = {KIN__CANCEL, KIN__SCOPE, KIN__KILL, KIN__FORCE, KIN__ALONE};
    for (size_t i = 0; i < 3; i++) {
        struct kin__task task;
        uint64_t ticket;
        make_running(&task);
        uint64_t old = kin__word_request(&task, requests[i]);
        EXPECT_EQ(old & KIN__REQUESTS, 0);
        EXPECT(old & KIN__CLAIMED); /* not parked: the canceller's claim is lost */
        EXPECT_EQ(kin__word_claim(&task, kin__word_ticket(old)), KIN__LOST);
        EXPECT_EQ(kin__word_begin(&task, 0, KIN__REQUESTS, &ticket), KIN__BEGUN_ASKED);
        EXPECT_EQ(kin__word_ticket(word_of(&task)), ticket);
        EXPECT(kin__word_claim_self(&task));
        EXPECT_EQ(kin__word_requests(&task), requests[i]);
    }
}

KIN_TEST(a_request_after_begin_finds_the_ticket, "D-1 NSM:4.2")
{
    for (int off = 0; off < 2; off++) {
        struct kin__task task;
        make_running(&task);
        uint64_t ticket = begin_open(&task, 0);
        if (off)
            EXPECT(!kin__word_commit(&task));
        uint64_t old = kin__word_request(&task, KIN__CANCEL);
        EXPECT_EQ(kin__word_ticket(old), ticket);
        EXPECT_EQ(kin__word_claim(&task, kin__word_ticket(old)),
                  off ? KIN__WON_PARKED : KIN__WON_PARKING);
    }
}

KIN_TEST(two_cancellers_end_one_park_once, "F4 NSM:4.2")
{
    struct kin__task task;
    make_running(&task);
    (void)begin_open(&task, 0);
    EXPECT(!kin__word_commit(&task));
    uint64_t first = kin__word_request(&task, KIN__CANCEL);
    uint64_t second = kin__word_request(&task, KIN__CANCEL);
    EXPECT_EQ(kin__word_ticket(first), kin__word_ticket(second));
    EXPECT_EQ(kin__word_claim(&task, kin__word_ticket(second)), KIN__WON_PARKED);
    EXPECT_EQ(kin__word_claim(&task, kin__word_ticket(first)), KIN__LOST);
}

/* If data won, the cancellation is not lost: the next park sees it. */
KIN_TEST(requests_survive_every_step, "D-1")
{
    const uint64_t all = KIN__CANCEL | KIN__SCOPE;
    struct kin__task task;
    uint64_t ticket;
    make_running(&task);
    ticket = begin_open(&task, 0);
    (void)kin__word_request(&task, all);
    EXPECT_EQ(kin__word_claim(&task, ticket), KIN__WON_PARKING);
    EXPECT(!kin__word_ready(&task));
    EXPECT(kin__word_commit(&task));
    run_again(&task);
    EXPECT_EQ(kin__word_requests(&task), all);
    EXPECT_EQ(kin__word_begin(&task, 0, KIN__REQUESTS, &ticket), KIN__BEGUN_ASKED);
    EXPECT(kin__word_claim_self(&task));
    EXPECT_EQ(kin__word_requests(&task), all);
    (void)kin__word_unrequest(&task, KIN__SCOPE);
    EXPECT_EQ(kin__word_requests(&task), KIN__CANCEL);
    EXPECT_EQ(kin__word_begin(&task, 0, KIN__REQUESTS, &ticket), KIN__BEGUN_ASKED);
    EXPECT(kin__word_claim_self(&task));
    kin__word_init(&task);
    EXPECT_EQ(kin__word_requests(&task), 0); /* the next life is asked nothing */
}

KIN_TEST(a_shielded_park_heeds_a_kill_only, "NSM:4.2")
{
    struct kin__task task;
    uint64_t ticket;
    make_running(&task);
    (void)kin__word_request(&task, KIN__CANCEL | KIN__SCOPE);
    ticket = begin_open(&task, KIN__SHIELD);
    uint64_t old = kin__word_request(&task, KIN__CANCEL);
    EXPECT(old & KIN__SHIELD); /* which is how a canceller knows that it must not claim */
    EXPECT(!kin__word_commit(&task));
    EXPECT_EQ(kin__word_claim(&task, ticket), KIN__WON_PARKED);
    run_again(&task);
    (void)kin__word_request(&task, KIN__KILL);
    EXPECT_EQ(kin__word_begin(&task, KIN__SHIELD, KIN__KILL, &ticket), KIN__BEGUN_ASKED);
}

KIN_TEST(a_shield_covers_one_park, "NSM:4.2")
{
    struct kin__task task;
    uint64_t ticket;
    make_running(&task);
    ticket = begin_open(&task, KIN__SHIELD);
    EXPECT(!kin__word_commit(&task));
    EXPECT_EQ(kin__word_claim(&task, ticket), KIN__WON_PARKED);
    run_again(&task);
    ticket = begin_open(&task, 0);
    EXPECT_EQ(word_of(&task) & KIN__SHIELD, 0);
    EXPECT(kin__word_claim_self(&task));
    ticket = begin_open(&task, KIN__SHIELD);
    EXPECT(kin__word_claim_self(&task));
    (void)kin__word_request(&task, KIN__CANCEL);
    EXPECT_EQ(kin__word_begin(&task, 0, KIN__REQUESTS, &ticket), KIN__BEGUN_ASKED);
    EXPECT_EQ(word_of(&task) & KIN__SHIELD, 0);
}

/* ---- by name ---- */

KIN_TEST(a_name_is_of_one_life_only, "ABA:8.3")
{
    struct kin__frame_cache cache = {0};
    struct kin__task *task = kin__task_of_frame(kin__frame_alloc(&cache));
    uint64_t id = kin__task_id(task);
    kin__word_init(task);
    EXPECT_PTR(kin__task_find(id), task);

    kin__word_fini(task);
    kin__frame_free(&cache, &task->frame);
    EXPECT_PTR(kin__task_find(id), NULL);

    struct kin__task *again = kin__task_of_frame(kin__frame_alloc(&cache));
    EXPECT_PTR(again, task); /* the same memory, another life */
    EXPECT_NE(kin__task_id(again), id);
    EXPECT_PTR(kin__task_find(id), NULL);
    EXPECT_PTR(kin__task_find(0), NULL);
    kin__frame_free(&cache, &again->frame);
    kin__frame_flush(&cache);
}

/* ---- the legality matrix ---- */

#ifdef KIN_DEBUG

/* The rows of 002 section 9 that one word keeps, with the commit by whoever runs next (A3) and the
 * reuse of a frame for the next task. */
static const struct {
    enum kin__state from, to;
    enum kin__actor actor;
} legal[] = {
    {KIN__INIT, KIN__RUNNABLE, KIN__BY_SPAWNER},
    {KIN__RUNNABLE, KIN__RUNNING, KIN__BY_WORKER},
    {KIN__RUNNING, KIN__RUNNABLE, KIN__BY_TASK},
    {KIN__RUNNING, KIN__RUNNABLE, KIN__BY_WORKER},
    {KIN__RUNNING, KIN__PARKING, KIN__BY_TASK},
    {KIN__PARKING, KIN__RUNNING, KIN__BY_TASK},
    {KIN__PARKING, KIN__PARKED, KIN__BY_WORKER},
    {KIN__PARKED, KIN__WAKING, KIN__BY_WAKER},
    {KIN__PARKED, KIN__WAKING, KIN__BY_WORKER},
    {KIN__WAKING, KIN__RUNNABLE, KIN__BY_WAKER},
    {KIN__WAKING, KIN__RUNNABLE, KIN__BY_WORKER},
    {KIN__RUNNING, KIN__DONE, KIN__BY_TASK},
    {KIN__RUNNING, KIN__CANCELLED, KIN__BY_TASK},
    {KIN__DONE, KIN__INIT, KIN__BY_SPAWNER},
    {KIN__CANCELLED, KIN__INIT, KIN__BY_SPAWNER},
};

static bool is_legal(int from, int to, int actor)
{
    for (size_t i = 0; i < sizeof legal / sizeof legal[0]; i++) {
        if ((int)legal[i].from == from && (int)legal[i].to == to && (int)legal[i].actor == actor)
            return true;
    }
    return false;
}

KIN_TEST(each_legal_transition_passes, "MX 002:2.1")
{
    for (size_t i = 0; i < sizeof legal / sizeof legal[0]; i++) {
        struct kin__task task;
        make_running(&task);
        kin__store_relaxed(&task.shadow, (int32_t)legal[i].from); /* alone: one thread */
        kin__word_move(&task, legal[i].from, legal[i].to, legal[i].actor);
        EXPECT_STATE(&task, (int32_t)legal[i].to);
    }
}

KIN_TEST(each_illegal_transition_aborts_with_its_clause, "MX")
{
    struct kin__task task;
    make_running(&task);
    for (int from = KIN__INIT; from <= KIN__CANCELLED; from++) {
        for (int to = KIN__INIT; to <= KIN__CANCELLED; to++) {
            for (int actor = KIN__BY_TASK; actor <= KIN__BY_SPAWNER; actor++) {
                if (is_legal(from, to, actor))
                    continue;
                kin__store_relaxed(&task.shadow, from); /* alone: one thread */
                EXPECT_ABORT("MX") {
                    kin__word_move(&task, (enum kin__state)from, (enum kin__state)to,
                                   (enum kin__actor)actor);
                }
            }
        }
    }
}

KIN_TEST(a_transition_from_another_state_than_the_shadows_aborts, "MX")
{
    struct kin__task task;
    make_running(&task);
    EXPECT_ABORT("MX") { kin__word_move(&task, KIN__INIT, KIN__RUNNABLE, KIN__BY_SPAWNER); }
    EXPECT_ABORT("RUNNABLE -> RUNNING by worker while RUNNING") { run_again(&task); }
    kin__store_relaxed(&task.shadow, 77); /* alone: one thread */
    EXPECT_ABORT("corrupt") { run_again(&task); }
}

KIN_TEST(beginning_a_park_twice_aborts, "F1 MX")
{
    struct kin__task task;
    uint64_t ticket;
    make_running(&task);
    ticket = begin_open(&task, 0);
    EXPECT_ABORT("F1") { (void)kin__word_begin(&task, 0, KIN__REQUESTS, &ticket); }
}

KIN_TEST(committing_a_park_twice_aborts, "W:4.2 MX")
{
    struct kin__task task;
    make_running(&task);
    (void)begin_open(&task, 0);
    EXPECT(!kin__word_commit(&task));
    EXPECT_ABORT("MX") { (void)kin__word_commit(&task); }
    kin__store_relaxed(&task.shadow, KIN__PARKING); /* alone: one thread */
    EXPECT_ABORT("W:4.2") { (void)kin__word_commit(&task); }
}

KIN_TEST(delivering_without_a_claim_aborts, "F4")
{
    struct kin__task task;
    make_running(&task);
    (void)begin_open(&task, 0);
    EXPECT_ABORT("F4") { (void)kin__word_ready(&task); }
}

#endif

/* ---- real threads ---- */

enum { PARKS = 60000, WAKERS = 3 };

struct stress {
    struct kin__task task;
    kin__a64 ticket;         /* of the park that is on; 0: none yet; UINT64_MAX: the end */
    kin__a64 queued;         /* tickets put into the run queue, which holds one task */
    kin__a64 wins[WAKERS];   /* each waker's own */
    kin__a64 losses[WAKERS]; /* each waker's own */
};

struct waker {
    struct stress *stress;
    int index;
};

static void *wake_all(void *arg)
{
    struct waker *waker = arg;
    struct stress *stress = waker->stress;
    struct kin__task *task = &stress->task;
    uint64_t last = 0, ticket;
    /* pairs with the release in the parker's publish */
    while ((ticket = kin__load_acquire(&stress->ticket)) != UINT64_MAX) {
        if (ticket == last) {
            sched_yield();
            continue;
        }
        last = ticket; /* each waker uses a ticket once: a second try would hide a lost wake */
        enum kin__claim claim = kin__word_claim(task, ticket);
        if (claim == KIN__LOST) {
            (void)kin__add_relaxed(&stress->losses[waker->index], 1u); /* alone: a counter */
            continue;
        }
        (void)kin__add_relaxed(&stress->wins[waker->index], 1u); /* alone: a counter */
        task->wait_status = (int32_t)ticket; /* plain: the winner's until the task runs again */
        task->wait_case = (uint32_t)(ticket >> 32);
        if (claim == KIN__WON_PARKED || kin__word_ready(task))
            kin__store_release(&stress->queued, ticket); /* pairs with the parker's acquire */
    }
    return NULL;
}

/* Parks once, as a task and the worker under it; returns whether a waker woke it. */
static bool park_once(struct stress *stress, unsigned round)
{
    struct kin__task *task = &stress->task;
    uint64_t ticket;
    task->wait_status = -1;
    EXPECT_EQ(kin__word_begin(task, 0, KIN__REQUESTS, &ticket), KIN__BEGUN_OPEN);
    kin__store_release(&stress->ticket, ticket); /* pairs with the wakers' acquire */
    if (round % 4 == 0 && kin__word_claim_self(task))
        return false;
    for (unsigned i = 0; i < round % 50; i++)
        kin__cpu_relax();
    if (!kin__word_is_ready(task)) {
        if (!kin__word_commit(task)) {
            /* pairs with the winner's release */
            while (kin__load_acquire(&stress->queued) != ticket)
                sched_yield();
        }
        run_again(task);
    }
    EXPECT_EQ(task->wait_status, (int32_t)ticket); /* what this ticket's winner brought */
    EXPECT_EQ(task->wait_case, (uint32_t)(ticket >> 32));
    return true;
}

KIN_TEST(every_park_is_won_once_and_no_wake_is_lost, "F3 F4 W:4.2 W:4.3 ABA:8.3")
{
    static struct stress stress;
    struct waker wakers[WAKERS];
    pthread_t threads[WAKERS];
    unsigned rounds = 0;
    make_running(&stress.task);
    for (int i = 0; i < WAKERS; i++) {
        wakers[i] = (struct waker){&stress, i};
        EXPECT_EQ(pthread_create(&threads[i], NULL, wake_all, &wakers[i]), 0);
    }
    uint64_t woken = 0, wins = 0;
    for (; kin_test_goes_on(rounds, PARKS / kin_test_scale()); rounds++)
        woken += park_once(&stress, rounds);
    kin__store_release(&stress.ticket, UINT64_MAX); /* pairs with the wakers' acquire */
    for (int i = 0; i < WAKERS; i++) {
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
        wins += kin__load_relaxed(&stress.wins[i]); /* alone: joined */
    }
    EXPECT_EQ(wins, woken);
    EXPECT_GT(woken, rounds / 2);
}
