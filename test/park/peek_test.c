/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a parked task waits for can be seen from outside, and only while it is parked.
 * Method: white box: a task that sleeps is peeked at by its parent before, during and after.
 */
#include "api/in_runtime.h"

#include "park/peek.h"
#include "wait/timer.h"

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
    EXPECT_EQ(kin_run(&config, peek_at_a_sleeper, NULL), 0);
}
