/* SPDX-License-Identifier: MIT */
/*
 * Goal: rings of calls are found on request, as rings of locks are, while others go on; with locks,
 * starts and stops as links of the ring; and what only looks like a ring is not taken for one.
 * Method: servers that call the next one from a callback, in rings of two to four; a server that
 * starts another, which calls it; one that stops another, which calls it; one that waits for a lock
 * whose owner calls it; a ring whose token was moved, which somebody else can break.
 */
#include "otp/desk.h"

#include <fcntl.h>

static struct kin_addr ring[4];
static int members;
static struct kin_mutex mutex;
static _Atomic int standing; /* in a callback of the ring */

/* Counts itself, waits until all are there, and calls the next one. */
static int do_call_next(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)desk;
    atomic_fetch_add(&standing, 1);
    await_flag(&standing, members);
    int rc = ask(ring[(job->n + 1) % members], do_add, 1, NULL);
    if (rc < 0)
        return rc;
    answer(reply, 0);
    return 0;
}

static int call_member(void *arg)
{
    long i = (long)(intptr_t)arg;
    kin_ignore(ask(ring[i], do_call_next, i, NULL));
    return 0;
}

/* Looks until there is a ring. */
static void await_ring(void)
{
    int fd = open("/dev/null", O_WRONLY);
    while (kin_lock_cycles(fd) < 1) /* ends: or the alarm does */
        kin_ignore(kin_sleep(kin_after(KIN_US(100))));
    EXPECT_EQ(kin_lock_cycles(fd), 1); /* it stays, and is one */
    close(fd);
}

static int in_ring(void *arg)
{
    (void)arg;
    for (members = 2; members <= 4; members++) {
        atomic_store(&standing, 0);
        HOUSE(n);
        for (int i = 0; i < members; i++)
            ring[i] = open_desk(&n, NULL, NULL);
        for (int i = 0; i < members; i++)
            EXPECT_EQ(kin_spawn(&n, call_member, (void *)(intptr_t)i), 0);
        await_ring();
        close_house(&n);
    }
    return 0;
}
KIN_TEST(a_ring_of_calls_is_found_while_others_go_on, "")
{
    run_on_few(in_ring, NULL);
}

/* ---- other links ---- */

/* on_start calls whoever starts it. */
static int call_starter(struct desk *desk)
{
    int rc = ask(*(struct kin_addr *)desk->plan.p, do_add, 1, NULL);
    return rc < 0 ? rc : 0;
}

static int do_start_another(struct desk *desk, const struct task_at_desk *job,
                            struct kin_reply *reply)
{
    struct kin_addr self = kin_self_addr(), other;
    struct desk_plan plan = {.on_start = call_starter, .p = &self};
    (void)desk, (void)reply;
    int rc = try_open_desk(job->p, &plan, NULL, &other);
    EXPECT(rc < 0);
    return 0;
}

static int in_start_ring(void *arg)
{
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    EXPECT_EQ(send_to(desk, do_start_another, 0, &n), 0);
    await_ring();
    close_house(&n);
    return 0;
}
KIN_TEST(a_ring_through_a_start_is_found, "")
{
    run_on_few(in_start_ring, NULL);
}

/* Stops a server which calls it in a callback. */
static int do_stop_other(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)desk, (void)reply;
    atomic_fetch_add(&standing, 1);
    await_flag(&standing, 2);
    kin_ignore(kin_server_stop(*(struct kin_addr *)job->p, 0, KIN_NEVER));
    return 0;
}

static int in_stop_ring(void *arg)
{
    (void)arg;
    atomic_store(&standing, 0);
    members = 2;
    HOUSE(n);
    ring[0] = open_desk(&n, NULL, NULL);
    ring[1] = open_desk(&n, NULL, NULL);
    EXPECT_EQ(send_to(ring[1], do_stop_other, 0, &ring[0]), 0);
    EXPECT_EQ(kin_spawn(&n, call_member, NULL), 0);
    await_ring();
    close_house(&n);
    return 0;
}
KIN_TEST(a_ring_through_a_stop_is_found, "")
{
    run_on_few(in_stop_ring, NULL);
}

static int do_lock(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)desk, (void)job, (void)reply;
    int rc = kin_mutex_lock(&mutex, KIN_NEVER);
    if (rc == 0) /* its owner was asked to end before this server was */
        kin_mutex_unlock(&mutex);
    return rc;
}

static int lock_and_call(void *arg)
{
    EXPECT_EQ(kin_mutex_lock(&mutex, KIN_NEVER), 0);
    kin_ignore(ask(*(struct kin_addr *)arg, do_lock, 0, NULL));
    kin_mutex_unlock(&mutex);
    return 0;
}

static int in_lock_ring(void *arg)
{
    (void)arg;
    memset(&mutex, 0, sizeof mutex);
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    EXPECT_EQ(kin_spawn(&n, lock_and_call, &desk), 0);
    await_ring();
    close_house(&n);
    return 0;
}
KIN_TEST(a_ring_of_a_lock_and_a_call_is_found, "")
{
    run_on_few(in_lock_ring, NULL);
}

/* ---- what is none ---- */

/* Keeps the token for somebody else, and then calls the next one. */
static int do_move_and_call(struct desk *desk, const struct task_at_desk *job,
                            struct kin_reply *reply)
{
    EXPECT_EQ(kin_reply_move(reply, &desk->held), 0);
    atomic_store((_Atomic(struct kin_reply *) *)job->p, desk->held);
    atomic_fetch_add(&standing, 1);
    kin_ignore(ask(ring[1], do_add, 1, NULL));
    return 0;
}

/* Calls the first one, which does not answer by itself. */
static int do_call_first(struct desk *desk, const struct task_at_desk *job,
                         struct kin_reply *reply)
{
    (void)desk;
    int rc = ask(ring[0], do_move_and_call, 0, job->p);
    answer(reply, 0);
    return rc < 0 ? rc : 0;
}

static int in_no_ring(void *arg)
{
    _Atomic(struct kin_reply *) held = NULL;
    int fd = open("/dev/null", O_WRONLY), number = 0;
    (void)arg;
    atomic_store(&standing, 0);
    HOUSE(n);
    ring[0] = open_desk(&n, NULL, NULL);
    ring[1] = open_desk(&n, NULL, NULL);
    EXPECT_EQ(send_to(ring[1], do_call_first, 0, &held), 0);
    await_flag(&standing, 1);
    for (int i = 0; i < 50; i++) { /* at no moment is it one */
        EXPECT_EQ(kin_lock_cycles(fd), 0);
        kin_ignore(kin_yield());
    }
    EXPECT_EQ(kin_reply_send(atomic_load(&held), &number, sizeof number), 0); /* breaks it */
    kin_reply_drop(atomic_load(&held));
    close_desk(ring[1]);
    close_desk(ring[0]);
    close(fd);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_token_that_was_moved_is_no_link_of_a_ring, "")
{
    run_on_few(in_no_ring, NULL);
}
