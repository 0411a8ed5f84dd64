/* SPDX-License-Identifier: MIT */
/*
 * Goal: who waits on a watch, for which version, and what it gets: news, close, ends, batches.
 * Method: one worker where a park must be certain (a task that has set its flag runs on until it
 * parks), several where only the outcome counts.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"

#include <kin/stream.h>

static struct kin_watch *make(int initial)
{
    struct kin_watch *watch;
    EXPECT_EQ(kin_watch_create(&watch, sizeof initial, &initial), 0);
    return watch;
}

static int set(struct kin_watch *watch, int value)
{
    return kin_watch_set(watch, &value);
}

/* A task that waits once and says when it is about to and what came of it. */
struct call {
    struct kin_watch *watch;
    int item;
    uint64_t version;
    kin_time deadline;
    _Atomic int begun, over;
    int status;
};

static int call_wait(void *arg)
{
    struct call *call = arg;
    atomic_store(&call->begun, 1);
    call->status = kin_watch_wait(call->watch, &call->item, &call->version,
                                  call->deadline ? call->deadline : KIN_NEVER);
    atomic_store(&call->over, 1);
    return 0;
}

/* Starts it and lets it park, which on one worker it does before this task runs again. */
static void start(struct kin_nursery *n, struct call *call)
{
    EXPECT_EQ(kin_spawn(n, call_wait, call), 0);
    await(&call->begun, 1);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&call->over), 0);
}

static void expect_over(struct call *call, int status, int item, uint64_t version)
{
    await(&call->over, 1);
    EXPECT_EQ(call->status, status);
    EXPECT_EQ(call->item, item);
    EXPECT_EQ(call->version, version);
}

/* ---- news ---- */

static int wait_for_news(void *arg)
{
    struct kin_watch *watch = make(10);
    struct call now = {.watch = watch, .version = 1}, later = {.watch = watch, .version = 3};
    struct call same = {.watch = watch, .version = 1};
    KIN_NURSERY(n);
    (void)arg;
    start(&n, &later); /* knows a version that has not been */
    start(&n, &now);
    start(&n, &same);
    EXPECT_EQ(set(watch, 20), 0);
    expect_over(&now, 0, 20, 2);
    expect_over(&same, 0, 20, 2);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&later.over), 0);
    EXPECT_EQ(set(watch, 30), 0);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&later.over), 0); /* 3 is what it knows */
    EXPECT_EQ(set(watch, 40), 0);
    expect_over(&later, 0, 40, 4);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_watch_unref(watch);
    return 0;
}

KIN_TEST(a_set_wakes_those_for_whom_it_is_news, "")
{
    EXPECT_EQ(run_reporting(1, wait_for_news, NULL, NULL), 0);
}

/* ---- close and the end ---- */

static int close_it(void *arg)
{
    struct kin_watch *watch = make(1);
    struct call now = {.watch = watch, .version = 1, .item = -1};
    struct call later = {.watch = watch, .version = 9, .item = -1};
    uint64_t version = 0;
    int item = 0;
    KIN_NURSERY(n);
    (void)arg;
    start(&n, &now);
    start(&n, &later);
    kin_watch_close(watch);
    kin_watch_close(watch);
    expect_over(&now, KIN_CLOSED, -1, 1);
    expect_over(&later, KIN_CLOSED, -1, 9);
    EXPECT_EQ(set(watch, 2), KIN_CLOSED);
    EXPECT_EQ(kin_watch_wait(watch, &item, &version, KIN_NEVER), 0); /* unread: still delivered */
    EXPECT_EQ(item, 1);
    EXPECT_EQ(version, 1);
    EXPECT_EQ(kin_watch_wait(watch, &item, &version, KIN_NEVER), KIN_CLOSED);
    EXPECT_EQ(kin_watch_get(watch, &item, &version), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_watch_unref(watch);
    return 0;
}

KIN_TEST(a_close_delivers_the_last_value_and_then_closed, "")
{
    EXPECT_EQ(run_reporting(1, close_it, NULL, NULL), 0);
}

static int drop_it(void *arg)
{
    struct kin_watch *watch = make(1);
    struct call calls[2] = {{.watch = watch, .version = 1}, {.watch = watch, .version = 5}};
    KIN_NURSERY(n);
    (void)arg;
    start(&n, &calls[0]);
    start(&n, &calls[1]);
    kin_watch_unref(kin_watch_ref(watch));
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&calls[0].over), 0);
    kin_watch_unref(watch); /* the calls in progress keep the memory */
    expect_over(&calls[0], KIN_CLOSED, 0, 1);
    expect_over(&calls[1], KIN_CLOSED, 0, 5);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(the_last_reference_wakes_everybody_with_closed, "")
{
    EXPECT_EQ(run_reporting(1, drop_it, NULL, NULL), 0);
}

/* ---- leaving early ---- */

static int leave_early(void *arg)
{
    struct kin_watch *watch = make(1);
    struct call call = {.watch = watch, .version = 1, .item = -1, .deadline = KIN_NEVER};
    struct kin_task_ref who;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, call_wait, &call, 0, &who), 0);
    await(&call.begun, 1);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_task_cancel(who), 0);
    EXPECT_EQ(set(watch, 2), 0); /* comes while the reader is on its way out */
    expect_over(&call, KIN_CANCELLED, -1, 1);
    call = (struct call){.watch = watch, .version = 2, .deadline = kin_after(KIN_MS(2))};
    EXPECT_EQ(call_wait(&call), 0);
    expect_over(&call, KIN_TIMEOUT, 0, 2);
    call.version = 7;
    call.deadline = kin_after(KIN_MS(2));
    EXPECT_EQ(call_wait(&call), 0);
    expect_over(&call, KIN_TIMEOUT, 0, 7);
    EXPECT_EQ(set(watch, 3), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_watch_unref(watch);
    return 0;
}

KIN_TEST(a_cancelled_or_late_wait_changes_nothing, "N008")
{
    EXPECT_EQ(run_reporting(1, leave_early, NULL, NULL), 0);
}

/* ---- batches ---- */

enum { CROWD = 500, SETS = 40 };

static int follow(void *arg)
{
    struct call *call = arg;
    uint64_t version = 0;
    int item, rc;
    while ((rc = kin_watch_wait(call->watch, &item, &version, KIN_NEVER)) == 0) {
        EXPECT_EQ(item, (int)version);
        EXPECT_GT(version, call->version);
        call->version = version;
    }
    EXPECT_EQ(rc, KIN_CLOSED);
    EXPECT_EQ(call->version, SETS + 1); /* everybody saw the last one */
    return 0;
}

static int move_crowd(void *arg)
{
    static struct call calls[CROWD];
    struct kin_watch *watch = make(1);
    KIN_NURSERY(n);
    (void)arg;
    memset(calls, 0, sizeof calls);
    for (int i = 0; i < CROWD; i++) {
        calls[i].watch = watch;
        EXPECT_EQ(kin_spawn(&n, follow, &calls[i]), 0);
    }
    for (int i = 2; i <= SETS + 1; i++) {
        EXPECT_EQ(set(watch, i), 0);
        EXPECT_EQ(kin_yield(), 0);
    }
    kin_watch_close(watch);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_watch_unref(watch);
    return 0;
}

KIN_TEST(a_crowd_sees_versions_grow_and_the_last_value, "")
{
    run_on_few(move_crowd, NULL);
}

KIN_TEST(a_shortage_of_memory_is_an_answer, "N009")
{
    struct kin_watch *watch = NULL;
    int zero = 0;
    kin__plat_fail_after(1, false);
    EXPECT_EQ(kin_watch_create(&watch, sizeof zero, &zero), -ENOMEM);
    EXPECT_PTR(watch, NULL);
    kin__plat_fail_after(0, false);
}
