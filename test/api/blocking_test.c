/* SPDX-License-Identifier: MIT */
/*
 * Goal: functions that block a thread, called from tasks.
 * Method: functions that wait for a flag which only another task sets: with one worker that works
 * only if the caller is parked.
 */
#include "api/in_runtime.h"

#include <kin/blocking.h>

#include <pthread.h>
#include <unistd.h>

static int give_back(void *arg)
{
    return *(int *)arg;
}

static int end_the_thread(void *arg)
{
    pthread_exit(arg);
}

static int return_what_it_returned(void *arg)
{
    int values[] = {0, 7, -1, -ENOENT, KIN_CLOSED, INT32_MAX, INT32_MIN};
    (void)arg;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        int result = 99;
        EXPECT_EQ(kin_blocking(give_back, &values[i], &result, KIN_NEVER), 0);
        EXPECT_EQ(result, values[i]);
        EXPECT_EQ(kin_blocking(give_back, &values[i], NULL, KIN_NEVER), 0);
    }
    int result = 99;
    EXPECT_EQ(kin_blocking(NULL, NULL, &result, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_blocking(end_the_thread, NULL, &result, KIN_NEVER), KIN_WORKER);
    EXPECT_EQ(result, 99);
    return 0;
}

KIN_TEST(the_result_is_what_the_function_returned, "")
{
    run_on_few(return_what_it_returned, NULL);
}

KIN_TEST(outside_a_task_it_is_refused, "N1002")
{
    int value = 1, result = 99;
    EXPECT_EQ(kin_blocking(give_back, &value, &result, KIN_NEVER), KIN_NOTASK);
    EXPECT_EQ(result, 99);
}

static int wait_for_flag(void *arg)
{
    _Atomic int *flags = arg;
    atomic_store(&flags[0], 1);
    while (!atomic_load(&flags[1]))
        usleep(100);
    return 5;
}

static int raise_flag(void *arg)
{
    _Atomic int *flags = arg;
    await(&flags[0], 1);
    atomic_store(&flags[1], 1);
    return 0;
}

static int go_on_meanwhile(void *arg)
{
    _Atomic int flags[2] = {0, 0};
    int result = 0;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, raise_flag, flags), 0);
    EXPECT_EQ(kin_blocking(wait_for_flag, flags, &result, KIN_NEVER), 0);
    EXPECT_EQ(result, 5);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(others_run_while_a_function_blocks, "")
{
    run_on_few(go_on_meanwhile, NULL);
}

static int use_kin(void *arg)
{
    struct kin_event *event = arg;
    EXPECT_EQ(kin_sleep(kin_after(1)), KIN_NOTASK);
    EXPECT_EQ(kin_event_wait(event, KIN_NEVER), KIN_NOTASK);
    EXPECT_EQ(kin_blocking(give_back, NULL, NULL, KIN_NEVER), KIN_NOTASK);
    kin_event_set(event); /* allowed from everywhere */
    return 0;
}

static int call_back(void *arg)
{
    struct kin_event event = {0};
    (void)arg;
    EXPECT_EQ(kin_blocking(use_kin, &event, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_event_wait(&event, 0), 0);
    return 0;
}

KIN_TEST(the_function_is_in_no_task, "N1002")
{
    run_on_few(call_back, NULL);
}

static int lack_capability(void *arg)
{
    int value = 3, result = 99;
    (void)arg;
    EXPECT_EQ(kin_blocking(give_back, &value, &result, KIN_NEVER), KIN_NOCAP);
    EXPECT_EQ(result, 99);
    return 0;
}

static int give_little(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    (void)arg;
    options.caps = KIN_CAP_ALL & ~KIN_CAP_BLOCKING;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, &options, lack_capability, NULL, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(it_needs_its_capability, "")
{
    EXPECT_EQ(run_reporting(1, give_little, NULL, NULL), 0);
}

/* Takes every thread, then sees that a deadline and a cancel end the wait for one. */
#define MOST 64

struct crowd {
    _Atomic int started, may_go, refused;
};

static int stay(void *arg)
{
    struct crowd *crowd = arg;
    atomic_fetch_add(&crowd->started, 1);
    while (!atomic_load(&crowd->may_go))
        usleep(500);
    return 0;
}

static int occupy(void *arg)
{
    return kin_blocking(stay, arg, NULL, KIN_NEVER);
}

static int wait_in_vain(void *arg)
{
    struct crowd *crowd = arg;
    EXPECT_EQ(kin_blocking(stay, crowd, NULL, KIN_NEVER), KIN_CANCELLED);
    atomic_fetch_add(&crowd->refused, 1);
    return 0;
}

static int fill_up(void *arg)
{
    struct crowd crowd = {0};
    struct kin_task_ref ref;
    struct kin_outcome how;
    (void)arg;
    KIN_NURSERY(n);
    for (int i = 0; i < MOST; i++)
        EXPECT_EQ(kin_spawn(&n, occupy, &crowd), 0);
    await(&crowd.started, MOST);
    EXPECT_EQ(kin_blocking(stay, &crowd, NULL, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_blocking(stay, &crowd, NULL, kin_after(KIN_MS(2))), KIN_TIMEOUT);
    EXPECT_EQ(kin_spawn_with(&n, NULL, wait_in_vain, &crowd, 0, &ref), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(2))), 0);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT(crowd.refused == 1 || how.severity == KIN_SEV_CANCELLED);
    EXPECT_EQ(crowd.started, MOST);
    atomic_store(&crowd.may_go, 1);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(there_are_as_many_threads_as_the_header_says, "")
{
    EXPECT_EQ(run_reporting(2, fill_up, NULL, NULL), 0);
}
