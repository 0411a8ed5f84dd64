/* SPDX-License-Identifier: MIT */
/*
 * Goal: the right to answer a call is used once: exactly one of many answers reaches the caller,
 * old names of a token answer for what became of it, and no token is lost however it ends.
 * Method: every state of a token, by every name it ever had; answers from tasks and threads against
 * each other, against the caller's leaving and the server's end; frames counted before and after.
 */
#include "otp/desk.h"

#include "plat/plat.h"
#include "sched/blocks.h"

#include <pthread.h>

/* ---- in the callback ---- */

static int do_answer_twice(struct desk *desk, const struct task_at_desk *job,
                           struct kin_reply *reply)
{
    int number = 5;
    struct kin_reply *moved = NULL;
    (void)desk, (void)job;
    EXPECT_EQ(kin_reply_send(NULL, NULL, 0), -EINVAL);
    EXPECT_EQ(kin_reply_send(reply, NULL, 1), -EINVAL);
    EXPECT_EQ(kin_reply_send(reply, &number, KIN_MESSAGE_MAX + 1), -EMSGSIZE);
    EXPECT_EQ(kin_reply_abort(reply, 0), -EINVAL);
    EXPECT_EQ(kin_reply_abort(reply, 1), -EINVAL);
    EXPECT_EQ(kin_reply_abort(NULL, -1), -EINVAL);
    EXPECT_EQ(kin_reply_move(NULL, &moved), -EINVAL);
    EXPECT_EQ(kin_reply_move(reply, NULL), -EINVAL);
    kin_reply_drop(NULL);
    EXPECT_EQ(kin_reply_send(reply, &number, sizeof number), 0);
    EXPECT_EQ(kin_reply_send(reply, &number, sizeof number), KIN_REPLIED);
    EXPECT_EQ(kin_reply_abort(reply, -EIO), KIN_REPLIED);
    EXPECT_EQ(kin_reply_move(reply, &moved), KIN_REPLIED);
    EXPECT(moved == NULL);
    kin_reply_drop(reply); /* of an answered one: nothing happens */
    return 0;
}

static int do_abort(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)desk;
    EXPECT_EQ(kin_reply_abort(reply, (int)job->n), 0);
    EXPECT_EQ(kin_reply_send(reply, NULL, 0), KIN_REPLIED);
    return 0;
}

static int do_drop(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)desk, (void)job;
    kin_reply_drop(reply);
    EXPECT_EQ(kin_reply_send(reply, NULL, 0), KIN_STALE);
    return 0;
}

/* Keeps the name of the token without moving it. */
static int do_keep_name(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)desk;
    *(struct kin_reply **)job->p = reply;
    answer(reply, 0);
    return 0;
}

static int in_the_callback(void *arg)
{
    struct kin_reply *stale = NULL;
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    EXPECT_EQ(ask(desk, do_answer_twice, 0, NULL), 5);
    EXPECT_EQ(ask(desk, do_abort, -EIO, NULL), -EIO);
    size_t before = kin_leaks();
    EXPECT_EQ(ask(desk, do_drop, 0, NULL), KIN_NOREPLY);
    EXPECT_EQ(ask(desk, do_return_only, 0, NULL), KIN_NOREPLY);
    EXPECT_EQ(kin_leaks(), before + 2);
    EXPECT_EQ(ask(desk, do_keep_name, 0, &stale), 0);
    EXPECT_EQ(kin_reply_send(stale, NULL, 0), KIN_REPLIED); /* until the next call */
    EXPECT_EQ(ask(desk, do_add, 0, NULL), 0);
    EXPECT_EQ(kin_reply_send(stale, NULL, 0), KIN_STALE);
    EXPECT_EQ(kin_reply_abort(stale, -EIO), KIN_STALE);
    EXPECT_EQ(kin_reply_move(stale, &stale), KIN_STALE);
    kin_reply_drop(stale);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_call_is_answered_once, "GS-REPLY SINV-1 GS-REPLY-LEAK")
{
    struct reports reports = {0};
    EXPECT_EQ(run_reporting(1, in_the_callback, NULL, &reports), 0);
    EXPECT_EQ(reports.count, 2);
    EXPECT_EQ(reports.status[0], KIN_LEAKED);
    EXPECT_EQ(reports.status[1], KIN_LEAKED);
}

/* ---- moved ---- */

static int do_move(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct kin_reply *again = NULL;
    (void)job;
    EXPECT_EQ(kin_reply_move(reply, &desk->held), 0);
    EXPECT(desk->held != NULL && desk->held != reply);
    EXPECT_EQ(kin_reply_send(reply, NULL, 0), KIN_STALE); /* under its old name */
    EXPECT_EQ(kin_reply_abort(reply, -EIO), KIN_STALE);
    EXPECT_EQ(kin_reply_move(reply, &again), KIN_STALE);
    kin_reply_drop(reply);
    EXPECT_EQ(kin_reply_move(desk->held, &again), 0); /* it is moved as it is */
    EXPECT_PTR(again, desk->held);
    if (job->p)
        atomic_store((_Atomic(struct kin_reply *) *)job->p, desk->held);
    return 0;
}

static struct kin_reply *move_a_call(struct kin_nursery *n, struct caller *caller,
                                     struct kin_addr desk)
{
    spawn_caller(n, caller, desk, do_move, 0);
    while (!atomic_load(&caller->held)) /* ends: the call is made and taken */
        kin_ignore(kin_yield());
    return atomic_load(&caller->held);
}

static int in_moved(void *arg)
{
    struct caller caller;
    int number = 7;
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    size_t before = kin_leaks();

    struct kin_reply *held = move_a_call(&n, &caller, desk);
    EXPECT_EQ(ask(desk, do_add, 1, NULL), 1); /* the server goes on */
    EXPECT_EQ(kin_reply_send(held, &number, sizeof number), 0);
    EXPECT_EQ(kin_reply_send(held, &number, sizeof number), KIN_REPLIED);
    await(&caller.over, 1);
    EXPECT_EQ(caller.rc, 7);
    kin_reply_drop(held);
    EXPECT_EQ(kin_reply_send(held, &number, sizeof number), KIN_GONE); /* it is freed */
    kin_reply_drop(held);

    held = move_a_call(&n, &caller, desk);
    EXPECT_EQ(kin_reply_abort(held, -EIO), 0);
    await(&caller.over, 1);
    EXPECT_EQ(caller.rc, -EIO);
    kin_reply_drop(held);
    EXPECT_EQ(kin_leaks(), before);

    held = move_a_call(&n, &caller, desk);
    kin_reply_drop(held);
    await(&caller.over, 1);
    EXPECT_EQ(caller.rc, KIN_NOREPLY);
    EXPECT_EQ(kin_leaks(), before + 1);
    EXPECT_EQ(kin_reply_send(held, &number, sizeof number), KIN_GONE);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_moved_token_is_answered_later, "GS-REPLY GS-REPLY-LEAK")
{
    run_on_few(in_moved, NULL);
}

/* Whoever else has the name of a token that was not moved cannot move it. */
static int move_it(void *arg)
{
    struct kin_reply *out = NULL;
    EXPECT_EQ(kin_reply_move(arg, &out), -EPERM);
    EXPECT(out == NULL);
    int number = 3;
    EXPECT_EQ(kin_reply_send(arg, &number, sizeof number), 0); /* but answer */
    return 0;
}

static int do_let_help(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)desk, (void)job;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, move_it, reply), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

static int in_helped(void *arg)
{
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    for (int i = 0; i < enough(50, 1); i++)
        EXPECT_EQ(ask(desk, do_let_help, 0, NULL), 3);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(others_may_answer_during_the_callback, "GS-REPLY")
{
    run_on_few(in_helped, NULL);
}

/* ---- callers that leave ---- */

static int in_left(void *arg)
{
    struct caller caller;
    int number = 7;
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    size_t before = kin_leaks();
    for (int drops = 0; drops < 2; drops++) {
        HOUSE(inner);
        struct kin_reply *held = move_a_call(&inner, &caller, desk);
        close_house(&inner); /* cancels the caller */
        EXPECT_EQ(caller.rc, KIN_CANCELLED);
        if (!drops) {
            EXPECT_EQ(kin_reply_send(held, &number, sizeof number), KIN_GONE);
            EXPECT_EQ(kin_reply_send(held, &number, sizeof number), KIN_GONE);
        }
        kin_reply_drop(held);
    }
    EXPECT_EQ(kin_leaks(), before); /* nobody waits for an answer */
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(an_answer_to_somebody_who_left_is_gone, "GS-REPLY")
{
    run_on_few(in_left, NULL);
}

/* ---- the end of the server ---- */

static int in_end(void *arg)
{
    static const struct {
        desk_fn *fn;
        int n, expected;
    } ends[] = {{NULL, 0, KIN_STOPPING},
                {do_return_only, -EIO, -EIO},
                {do_stop_self, 0, KIN_STOPPING},
                {do_stop_self, -EPIPE, -EPIPE},
                {do_fail, -EDOM, -EDOM}};
    struct caller caller[3];
    (void)arg;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        HOUSE(n);
        struct kin_reply *held[3];
        struct kin_addr desk = open_desk(&n, NULL, NULL);
        size_t before = kin_leaks();
        for (int k = 0; k < 3; k++)
            held[k] = move_a_call(&n, &caller[k], desk);
        EXPECT_EQ(kin_reply_send(held[1], &(int){4}, sizeof(int)), 0); /* and not dropped */
        if (ends[i].fn)
            EXPECT_EQ(ask(desk, ends[i].fn, ends[i].n, NULL), ends[i].expected);
        else
            close_desk(desk);
        for (int k = 0; k < 3; k++) /* the last: the server has come to the end of its tokens */
            await(&caller[k].over, 1);
        for (int k = 0; k < 3; k++) {
            EXPECT_EQ(caller[k].rc, k == 1 ? 4 : ends[i].expected);
            EXPECT_EQ(kin_reply_send(held[k], NULL, 0), KIN_GONE);
            kin_reply_drop(held[k]);
        }
        EXPECT_EQ(kin_leaks(), before + 2);
        kin_ignore(kin_nursery_join(&n, NULL));
    }
    return 0;
}
KIN_TEST(tokens_that_were_forgotten_are_found_at_the_end, "GS-REPLY-LEAK SINV-1")
{
    run_on_few(in_end, NULL);
}

/* ---- memory ---- */

/* There is no memory for another token: the one at hand stays. */
static int do_move_in_vain(struct desk *desk, const struct task_at_desk *job,
                           struct kin_reply *reply)
{
    struct kin_reply *moved = reply;
    struct kin__frame *taken = NULL, *frame;
    (void)desk, (void)job;
    kin__plat_fail_after(1, true);
    while ((frame = kin__block_take(KIN__FRAME_REPLY))) { /* ends: memory does */
        frame->free_next = taken;
        taken = frame;
    }
    EXPECT_EQ(kin_reply_move(reply, &moved), -ENOMEM);
    kin__plat_fail_after(0, false);
    EXPECT_PTR(moved, reply);
    while ((frame = taken)) { /* ends: one fewer each time */
        taken = frame->free_next;
        kin__block_give(KIN__FRAME_REPLY, frame);
    }
    answer(reply, 1); /* it is as it was */
    return 0;
}

static int in_no_memory(void *arg)
{
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    EXPECT_EQ(ask(desk, do_move_in_vain, 0, NULL), 1);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(without_memory_a_token_stays_where_it_is, "GS-REPLY")
{
    EXPECT_EQ(run_reporting(1, in_no_memory, NULL, NULL), 0);
}

/* ---- all at once ---- */

struct race {
    struct kin_reply *token;
    _Atomic int good, replied, gone;
};

static void race_once(struct race *race, int number)
{
    int rc = kin_reply_send(race->token, &number, sizeof number);
    if (rc == 0)
        atomic_fetch_add(&race->good, 1);
    else if (rc == KIN_REPLIED)
        atomic_fetch_add(&race->replied, 1);
    else if (rc == KIN_GONE)
        atomic_fetch_add(&race->gone, 1);
    else
        EXPECT_EQ(rc, 0);
}

static int race_task(void *arg)
{
    race_once(arg, 1);
    return 0;
}

static void *race_thread(void *arg)
{
    race_once(arg, 2);
    return NULL;
}

static int in_race(void *arg)
{
    struct caller caller;
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    for (int i = 0; i < enough(100, 1); i++) {
        struct race race = {.token = move_a_call(&n, &caller, desk)};
        pthread_t thread;
        HOUSE(inner);
        for (int k = 0; k < 3; k++)
            EXPECT_EQ(kin_spawn(&inner, race_task, &race), 0);
        bool has_thread = !kin_in_lab();
        if (has_thread)
            EXPECT_EQ(pthread_create(&thread, NULL, race_thread, &race), 0);
        EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
        if (has_thread)
            EXPECT_EQ(pthread_join(thread, NULL), 0);
        await(&caller.over, 1);
        EXPECT_EQ(race.good, 1);
        EXPECT_EQ(race.replied, has_thread ? 3 : 2);
        EXPECT_EQ(race.gone, 0);
        EXPECT(caller.rc == 1 || caller.rc == 2);
        kin_reply_drop(race.token);
    }
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(one_of_many_answers_wins, "SINV-1 GS-REPLY")
{
    run_on_few(in_race, NULL);
}

/* An answer against the end of the server, and against a drop. */
static int answer_or_gone(void *arg)
{
    race_once(arg, 1);
    return 0;
}

static int drop_it(void *arg)
{
    kin_reply_drop(((struct race *)arg)->token);
    return 0;
}

static int in_race_with_end(void *arg)
{
    struct caller caller;
    (void)arg;
    for (int i = 0; i < enough(100, 1); i++) {
        HOUSE(n);
        struct kin_addr desk = open_desk(&n, NULL, NULL);
        struct race race = {.token = move_a_call(&n, &caller, desk)};
        {
            HOUSE(inner);
            EXPECT_EQ(kin_spawn(&inner, answer_or_gone, &race), 0);
            if (i % 2)
                EXPECT_EQ(kin_spawn(&inner, drop_it, &race), 0);
            EXPECT_EQ(kin_server_stop(desk, 0, KIN_NEVER), 0);
            EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
        }
        await(&caller.over, 1);
        EXPECT_EQ(race.good + race.gone, 1);
        if (race.good)
            EXPECT_EQ(caller.rc, 1);
        else
            EXPECT(caller.rc == KIN_STOPPING || (i % 2 && caller.rc == KIN_NOREPLY));
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}
KIN_TEST(answers_race_with_the_end_of_the_server, "SINV-1 GS-REPLY-LEAK")
{
    run_on_few(in_race_with_end, NULL);
}
