/* SPDX-License-Identifier: MIT */
/*
 * Goal: a cancel asks everybody once, holds no lock long, and takes back what it asked of an owner.
 * Method: white box: request bits of words, walks longer than one step, every order of two cancels.
 */
#include "api/in_runtime.h"

#include "scope/scope.h"
#include "task/word.h"

static bool is_asked(uint64_t request)
{
    return kin__word_requests(kin__task_self()) & request;
}

static int ask_and_take_back(void *arg)
{
    struct kin_nursery outer, inner;
    (void)arg;
    for (int order = 0; order < 3; order++) {
        EXPECT_EQ(kin_nursery_open(&outer, NULL), 0);
        EXPECT_EQ(kin_nursery_open(&inner, NULL), 0);
        EXPECT(!is_asked(KIN__REQUESTS));
        if (order != 1)
            kin_nursery_cancel(&inner, -EIO);
        if (order != 2)
            kin_nursery_cancel(&outer, -EPIPE);
        EXPECT(is_asked(KIN__SCOPE));
        EXPECT(!is_asked(KIN__CANCEL));
        EXPECT_EQ(kin_cancel_reason(), order == 2 ? -EIO : -EPIPE); /* the outermost counts */
        EXPECT_EQ(kin_nursery_join(&inner, NULL), order == 1 ? KIN_CANCELLED : -EIO);
        EXPECT_EQ(is_asked(KIN__SCOPE), order != 2); /* as long as one of them wants it */
        EXPECT_EQ(kin_cancel_reason(), order != 2 ? -EPIPE : 0);
        EXPECT_EQ(kin_nursery_join(&outer, NULL), order == 2 ? 0 : -EPIPE);
        EXPECT(!is_asked(KIN__REQUESTS));
    }
    return 0;
}

KIN_TEST(an_owner_stays_asked_until_the_last_cancelled_nursery_is_joined, "B11 B12")
{
    EXPECT_EQ(run_reporting(1, ask_and_take_back, NULL, NULL), 0);
}

static int stay_asked(void *arg)
{
    struct kin_nursery inner;

    atomic_fetch_add((_Atomic int *)arg, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT(is_asked(KIN__CANCEL));
    EXPECT_EQ(kin_nursery_open(&inner, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), KIN_CANCELLED);
    EXPECT(is_asked(KIN__CANCEL)); /* that of the task itself is for good */
    EXPECT(!is_asked(KIN__SCOPE));
    return KIN_CANCELLED;
}

static int ask_for_good(void *arg)
{
    _Atomic int started = 0;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, stay_asked, &started), 0);
    await(&started, 1);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(the_request_to_a_child_is_never_taken_back, "B12")
{
    run_on_few(ask_for_good, NULL);
}

static int end_at_once(void *arg)
{
    _Atomic int *started = arg;

    atomic_fetch_add(started, 1);
    kin_ignore(kin_sleep(KIN_NEVER));
    return 0; /* leaves the list while the walk is among its neighbours */
}

static int walk_far(void *arg)
{
    static const int counts[] = {1, 255, 256, 257, 511, 512, 513, 3000};
    (void)arg;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        _Atomic int started = 0;
        KIN_NURSERY(n);
        for (int k = 0; k < counts[i]; k++)
            EXPECT_EQ(kin_spawn(&n, end_at_once, &started), 0);
        await(&started, counts[i]);
        kin_nursery_cancel(&n, 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    }
    return 0;
}

KIN_TEST(a_walk_of_many_steps_misses_nobody_while_children_leave, "NSM:4.2 NSM-3")
{
    run_on_few(walk_far, NULL);
}

static int begin_once(void *arg)
{
    struct kin_nursery n;
    struct kin__scope *list = NULL;

    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    struct kin__scope *scope = kin__scope_lock((struct kin__handle *)(void *)&n);
    EXPECT(scope);
    EXPECT(kin__cancel_begin_locked(scope, -EIO, &list));
    EXPECT_PTR(list, scope);
    EXPECT(!kin__cancel_begin_locked(scope, -EPIPE, &list)); /* one walk only */
    EXPECT_PTR(list, scope);
    EXPECT_PTR(scope->cancel_next, NULL);
    EXPECT_EQ(scope->reason, -EIO);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CANCELLING); /* the walk's token keeps it */
    EXPECT_EQ(kin_nursery_poll(&n, NULL), KIN_EMPTY);
    kin__cancel_walk(list);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(a_walk_holds_the_nursery_and_there_is_one, "NSM:4.2 B1")
{
    EXPECT_EQ(run_reporting(1, begin_once, NULL, NULL), 0);
}

static int open_and_wait(void *arg)
{
    _Atomic int *started = arg;
    struct kin_nursery n[3];

    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(kin_nursery_open(&n[i], NULL), 0);
        EXPECT_EQ(kin_spawn(&n[i], sleep_for_ever, started), 0);
    }
    atomic_fetch_add(started, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    for (int i = 2; i >= 0; i--)
        EXPECT_EQ(kin_nursery_join(&n[i], NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_cancel_reason(), -EIO);
    return KIN_CANCELLED;
}

static int cancel_wide_and_deep(void *arg)
{
    _Atomic int started = 0;
    KIN_NURSERY(n);

    (void)arg;
    for (int i = 0; i < 300; i++)
        EXPECT_EQ(kin_spawn(&n, open_and_wait, &started), 0);
    await(&started, 1200);
    kin_nursery_cancel(&n, -EIO);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(a_walk_visits_all_nurseries_of_all_children, "B11 NSM-3 NSM:6.2")
{
    run_on_few(cancel_wide_and_deep, NULL);
}
