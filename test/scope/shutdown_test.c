/* SPDX-License-Identifier: MIT */
/*
 * Goal: nurseries that are over are forgotten, and a signal that comes when a nursery ends hits it
 * or nobody.
 * Method: white box: many nurseries watched one after the other, with signals in between; the count
 * of watches; requests that fail on purpose.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"
#include "wait/signal.h"

#include <kin/signal.h>

#include <unistd.h>

static int one_after_the_other(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++) {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_shutdown_on_signals(&n), 0);
        EXPECT_EQ(kin__signal_watches(), 1); /* the last one is over */
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(nurseries_that_are_over_are_forgotten, "")
{
    run_on_few(one_after_the_other, NULL);
}

static int nested(void *arg)
{
    _Atomic int running = 0;
    (void)arg;
    KIN_NURSERY(outer);
    EXPECT_EQ(kin_shutdown_on_signals(&outer), 0);
    /* who is told comes one after the other: the outer one is still there when it is its turn */
    EXPECT_EQ(kin_spawn(&outer, sleep_for_ever, &running), 0);
    {
        KIN_NURSERY(inner);
        EXPECT_EQ(kin_shutdown_on_signals(&inner), 0);
        EXPECT_EQ(kin__signal_watches(), 2);
        EXPECT_EQ(kin_spawn(&inner, sleep_for_ever, &running), 0);
        await(&running, 2);
        EXPECT_EQ(kill(getpid(), SIGINT), 0);
        EXPECT_EQ(kin_nursery_join(&inner, NULL), KIN_CANCELLED);
    }
    EXPECT_EQ(kin_nursery_join(&outer, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(all_that_were_asked_for_are_cancelled, "")
{
    run_on_few(nested, NULL);
}

/* The signal comes while children end by themselves: each round ends one way or the other. */
static int end_in_time_or_not(void *arg)
{
    _Atomic int running = 0;
    (void)arg;
    EXPECT_EQ(kin_signal_wait(SIGTERM, 0), KIN_TIMEOUT); /* so that it never ends the process */
    for (int i = 0; i < 200; i++) {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_shutdown_on_signals(&n), 0);
        int rc = kin_spawn(&n, count_it, &running);
        EXPECT(rc == 0 || rc == KIN_NOSCOPE); /* an earlier signal may come late */
        EXPECT_EQ(kill(getpid(), SIGTERM), 0);
        rc = kin_nursery_join(&n, NULL);
        EXPECT(rc == 0 || rc == KIN_CANCELLED);
    }
    return 0;
}

KIN_TEST(a_signal_hits_the_nursery_or_nobody, "")
{
    run_on_few(end_in_time_or_not, NULL);
}

static int fail_to_ask(void *arg)
{
    int failed = 0;
    (void)arg;
    KIN_NURSERY(n);
    for (uint64_t k = 1; k <= 10; k++) {
        kin__plat_fail_after(k, false);
        int rc = kin_shutdown_on_signals(&n);
        kin__plat_fail_after(0, false);
        if (rc == 0)
            break;
        EXPECT(rc == -ENOMEM || rc == -EAGAIN);
        failed++;
    }
    EXPECT_GT(failed, 3);
    EXPECT_EQ(kill(getpid(), SIGTERM), 0);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(want_of_anything_is_told_and_can_be_overcome, "")
{
    EXPECT_EQ(run_reporting(1, fail_to_ask, NULL, NULL), 0);
}

static int ask_for_one_that_is_over(void *arg)
{
    struct kin_nursery n;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_shutdown_on_signals(&n), KIN_STALE);
    EXPECT_EQ(kin__signal_watches(), 0);
    return 0;
}

KIN_TEST(a_nursery_that_is_over_cannot_be_shut_down, "")
{
    EXPECT_EQ(kin_run(NULL, ask_for_one_that_is_over, NULL), 0);
}
