/* SPDX-License-Identifier: MIT */
/*
 * Goal: a blocking call is made once, on a thread of the pool, and leaves no trace when it is not.
 * Method: white box: the only thread of the pool is kept busy while calls wait in line and give up.
 */
#include "api/in_runtime.h"

#include "wait/offload.h"

#include <kin/blocking.h>

#include <unistd.h>

struct gate {
    _Atomic int started, may_go;
};

static int wait_at(void *arg)
{
    struct gate *gate = arg;
    atomic_store(&gate->started, 1);
    while (!atomic_load(&gate->may_go))
        usleep(100);
    return 3;
}

static int hold_thread(void *arg)
{
    int result = 0;
    int rc = kin_blocking(wait_at, arg, &result, KIN_NEVER);
    return rc < 0 ? rc : result == 3 ? 0 : -EINVAL;
}

static int count_call(void *arg)
{
    return ++*(int *)arg;
}

static int give_up(void *arg)
{
    struct gate gate = {0};
    int calls = 0, result = 99;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, hold_thread, &gate), 0);
    await(&gate.started, 1);
    EXPECT_EQ(kin_blocking(count_call, &calls, &result, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_blocking(count_call, &calls, &result, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(calls, 0);
    EXPECT_EQ(result, 99);
    EXPECT_EQ(kin__offload_threads(), 1);
    atomic_store(&gate.may_go, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_blocking(count_call, &calls, &result, KIN_NEVER), 0);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(result, 1);
    return 0;
}

KIN_TEST(a_call_that_was_given_up_is_not_made, "")
{
    kin__offload_limit(1, KIN_SEC(10));
    EXPECT_EQ(run_reporting(1, give_up, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, give_up, NULL, NULL), 0);
}
