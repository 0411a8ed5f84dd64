/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a parked task waits for can be seen from outside, and only while it is parked.
 * Method: white box: a task that sleeps is peeked at by its parent before, during and after; so is
 * one that waits for two things and has been asked to stop, which its mask holds back.
 */
#include "api/in_runtime.h"

#include "park/peek.h"
#include "wait/timer.h"

#include <kin/chan.h>
#include <kin/select.h>

static int sleep_long(void *arg)
{
    return kin_sleep(kin_after(KIN_SEC(1000))) == KIN_CANCELLED ? 0 : *(int *)arg;
}

static int peek_at_a_sleeper(void *arg)
{
    struct kin__waits waits, again;
    struct kin_task_ref ref;
    int failure = -EIO;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, NULL, sleep_long, &failure, 0, &ref), 0);
    struct kin__task *task = kin__task_find(ref.id);
    EXPECT(task != NULL);
    EXPECT(!kin__wait_peek(task, &waits)); /* it has not run */
    EXPECT(!kin__wait_peek(kin__task_self(), &waits));
    EXPECT_EQ(kin_yield(), 0);
    EXPECT(kin__wait_peek(task, &waits));
    EXPECT_PTR(waits.ops, &kin__timer_waitable);
    EXPECT(waits.object != NULL && !waits.is_several);
    EXPECT(kin__wait_peek(task, &again));
    EXPECT_EQ(again.ticket, waits.ticket);
    EXPECT(kin__wait_is_same(task, &waits));
    EXPECT_EQ(kin_task_cancel(ref), 0);
    EXPECT(!kin__wait_is_same(task, &waits)); /* claimed */
    EXPECT(!kin__wait_peek(task, &again));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_park_can_be_peeked_at_until_it_is_claimed, "F4")
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 1;
    config.stall_threshold = KIN_NEVER; /* a slow machine must not change the order */
    EXPECT_EQ(kin_run(&config, peek_at_a_sleeper, NULL), 0);
}

static int select_masked(void *arg)
{
    struct kin_chan **chans = arg;
    int item;
    kin_mask();
    struct kin_case cases[] = {kin_case_recv(chans[0], &item), kin_case_recv(chans[1], &item)};
    int which = kin_select(cases, 2, KIN_NEVER);
    kin_unmask();
    return which == 1 ? 0 : -EIO;
}

static int peek_at_one_that_was_asked(void *arg)
{
    struct kin__waits waits, again;
    struct kin_chan *chans[2];
    struct kin_task_ref ref;
    int item = 1;
    (void)arg;
    EXPECT_EQ(kin_chan_create(&chans[0], sizeof(item), 1), 0);
    EXPECT_EQ(kin_chan_create(&chans[1], sizeof(item), 1), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, NULL, select_masked, chans, 0, &ref), 0);
    const struct kin__task *task = kin__task_find(ref.id);
    while (!kin__wait_peek(task, &waits)) /* ends: the only other task runs and parks */
        EXPECT_EQ(kin_yield(), 0);
    EXPECT(waits.is_several);
    EXPECT_EQ(kin_task_cancel(ref), 0); /* a request in the word, and the park goes on */
    EXPECT(kin__wait_is_same(task, &waits));
    EXPECT(kin__wait_peek(task, &again));
    EXPECT_EQ(again.ticket, waits.ticket);
    EXPECT_EQ(kin_chan_send(chans[1], &item, KIN_NEVER), 0);
    EXPECT(!kin__wait_is_same(task, &waits));
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_chan_unref(chans[0]);
    kin_chan_unref(chans[1]);
    return 0;
}

KIN_TEST(a_request_that_a_mask_holds_back_leaves_the_park_the_same, "F4 NSM:4.2")
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 1;
    config.stall_threshold = KIN_NEVER; /* a slow machine must not change the order */
    EXPECT_EQ(kin_run(&config, peek_at_one_that_was_asked, NULL), 0);
}
