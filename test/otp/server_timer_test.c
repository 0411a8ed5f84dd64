/* SPDX-License-Identifier: MIT */
/*
 * Goal: each timer of a server comes once, at its time, in the order of (time, id), unless it was
 * set anew or cancelled; timers that are always due do not keep letters out; the idle timeout comes
 * once per idle period.
 * Method: servers that set timers in their callbacks and write down what they are told; thousands
 * of timers against a model; each request for memory fails once.
 */
#include "otp/desk.h"

#include "base/rng.h"
#include "plat/plat.h"

/* Writes every timeout down. */
static int jot_info(struct desk *desk, const struct kin_info *info)
{
    EXPECT_EQ(info->kind, KIN_INFO_TIMEOUT);
    EXPECT_EQ(info->vt, (uint64_t)info->u.timeout.deadline);
    EXPECT_LE(info->u.timeout.deadline, kin_now());
    jot(desk->plan.diary, "%llu", (unsigned long long)info->u.timeout.id);
    return 0;
}

static int do_set(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    const int *ids = job->p;
    kin_time now = kin_now();
    for (long i = 0; i < job->n; i++) /* later ones first; then two of one time */
        EXPECT_EQ(kin_server_timer_set(desk->server, (uint64_t)ids[i], now - ids[i] / 10), 0);
    answer(reply, 0);
    return 0;
}

static int in_order(void *arg)
{
    static const int ids[] = {13, 11, 55, 12, 31, 14, 32};
    struct diary diary;
    (void)arg;
    clear_diary(&diary);
    HOUSE(n);
    struct desk_plan plan = {.diary = &diary, .on_info = jot_info};
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    EXPECT_EQ(ask(desk, do_set, 7, (void *)(uintptr_t)ids), 0);
    EXPECT_EQ(ask(desk, do_add, 0, NULL), 0); /* behind those that are due */
    EXPECT_DIARY(&diary, "55 31 32 11 12 13 14");
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(timers_come_in_the_order_of_time_and_id, "GS-INFO-SORT SINV-4")
{
    run_on_few(in_order, NULL);
}

static int do_change(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct kin_server *s = desk->server;
    (void)job;
    EXPECT_EQ(kin_server_timer_cancel(s, 1), KIN_STALE);
    EXPECT_EQ(kin_server_timer_set(s, 1, KIN_NEVER), 0);
    EXPECT_EQ(kin_server_timer_set(s, 2, 1), 0);
    EXPECT_EQ(kin_server_timer_set(s, 3, 1), 0);
    EXPECT_EQ(kin_server_timer_set(s, 4, kin_after(KIN_SEC(1000))), 0);
    EXPECT_EQ(kin_server_timer_set(s, 1, 1), 0);             /* sooner */
    EXPECT_EQ(kin_server_timer_set(s, 2, kin_after(KIN_SEC(1000))), 0); /* later */
    EXPECT_EQ(kin_server_timer_cancel(s, 3), 0);
    EXPECT_EQ(kin_server_timer_cancel(s, 3), KIN_STALE);
    EXPECT_EQ(kin_server_timer_set(s, 0, 1), -EINVAL);
    EXPECT_EQ(kin_server_timer_set(NULL, 1, 1), -EINVAL);
    EXPECT_EQ(kin_server_timer_cancel(s, 0), -EINVAL);
    EXPECT_EQ(kin_server_timer_cancel(NULL, 1), -EINVAL);
    *(struct kin_server **)job->p = s;
    answer(reply, 0);
    return 0;
}

static int in_change(void *arg)
{
    struct diary diary;
    struct kin_server *s = NULL;
    (void)arg;
    clear_diary(&diary);
    HOUSE(n);
    struct desk_plan plan = {.diary = &diary, .on_info = jot_info};
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    EXPECT_EQ(ask(desk, do_change, 0, &s), 0);
    EXPECT_EQ(kin_server_timer_set(s, 9, 1), -EPERM); /* others */
    EXPECT_EQ(kin_server_timer_cancel(s, 4), -EPERM);
    EXPECT_EQ(kin_server_stop_self(s, 0), -EPERM);
    EXPECT_EQ(kin_server_stop_self(NULL, 0), -EINVAL);
    EXPECT_EQ(kin_server_stop_self(s, 1), -EINVAL);
    EXPECT_EQ(ask(desk, do_add, 0, NULL), 0);
    EXPECT_DIARY(&diary, "1");
    close_desk(desk);
    EXPECT_DIARY(&diary, "1"); /* those that are left are forgotten */
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(timers_are_set_anew_and_cancelled, "GS-INFO-DELIVER")
{
    run_on_few(in_change, NULL);
}

/* A timer that wakes a server which has nothing else to do. */
static int do_set_soon(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    EXPECT_EQ(kin_server_timer_set(desk->server, 1, kin_after(job->n)), 0);
    answer(reply, 0);
    return 0;
}

static int in_sleep(void *arg)
{
    struct diary diary;
    (void)arg;
    clear_diary(&diary);
    HOUSE(n);
    struct desk_plan plan = {.diary = &diary, .on_info = jot_info};
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    EXPECT_EQ(ask(desk, do_set_soon, KIN_US(300), NULL), 0);
    await_words(&diary, 1);
    EXPECT_EQ(ask(desk, do_set_soon, KIN_SEC(1000), NULL), 0);
    EXPECT_EQ(ask(desk, do_set_soon, KIN_US(300), NULL), 0); /* earlier than the wait it is in */
    await_words(&diary, 2);
    EXPECT_EQ(ask(desk, do_add, 0, NULL), 0);
    EXPECT_DIARY(&diary, "1 1");
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_timer_wakes_the_server, "GS-INFO-DELIVER")
{
    run_on_few(in_sleep, NULL);
}

/* Sets itself again, always for a time that has passed. */
static int set_again(struct desk *desk, const struct kin_info *info)
{
    desk->sum++;
    return kin_server_timer_set(desk->server, info->u.timeout.id, 1);
}

static int in_always_due(void *arg)
{
    static const int id = 13;
    (void)arg;
    HOUSE(n);
    struct desk_plan plan = {.on_info = set_again};
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    EXPECT_EQ(ask(desk, do_set, 1, (void *)(uintptr_t)&id), 0);
    for (int i = 0; i < 20; i++)
        EXPECT_GE(ask(desk, do_add, 0, NULL), i); /* letters get in between, and timers do */
    EXPECT_EQ(send_to(desk, do_add, 0, NULL), 0);
    close_desk(desk); /* and so does a stop */
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_timer_that_is_always_due_keeps_nobody_out, "GS-CALL-HANDLE")
{
    run_on_few(in_always_due, NULL);
}

/* ---- many ---- */

enum { MANY = 3000 };
static kin_time model[MANY + 1]; /* 0: not set */

static int do_churn(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), 1);
    for (long i = 0; i < job->n; i++) {
        uint64_t id = 1 + kin__rng_below(&rng, MANY);
        if (kin__rng_chance(&rng, 1, 3)) {
            EXPECT_EQ(kin_server_timer_cancel(desk->server, id), model[id] ? 0 : KIN_STALE);
            model[id] = 0;
        } else {
            kin_time at = 1 + (kin_time)kin__rng_below(&rng, 1000);
            EXPECT_EQ(kin_server_timer_set(desk->server, id, at), 0);
            model[id] = at;
        }
    }
    answer(reply, 0);
    return 0;
}

/* They come in order, and are those of the model. */
static int compare(struct desk *desk, const struct kin_info *info)
{
    static kin_time last_at;
    static uint64_t last_id;
    uint64_t id = info->u.timeout.id;
    if (desk->sum++ > 0)
        EXPECT(info->u.timeout.deadline > last_at ||
               (info->u.timeout.deadline == last_at && id > last_id));
    last_at = info->u.timeout.deadline;
    last_id = id;
    EXPECT_EQ(model[id], last_at);
    model[id] = 0;
    return 0;
}

static int in_many(void *arg)
{
    (void)arg;
    memset(model, 0, sizeof model);
    HOUSE(n);
    struct desk_plan plan = {.on_info = compare};
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    EXPECT_EQ(ask(desk, do_churn, enough(20000, 50), NULL), 0);
    EXPECT_GT(ask(desk, do_add, 0, NULL), 0);
    for (int i = 0; i <= MANY; i++)
        EXPECT_EQ(model[i], 0);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(many_timers_come_once_each, "GS-INFO-SORT SINV-4")
{
    EXPECT_EQ(run_reporting(2, in_many, NULL, NULL), 0);
}

/* ---- bounds and memory ---- */

static int do_fill(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    uint64_t id = 0;
    int rc;
    (void)job;
    while ((rc = kin_server_timer_set(desk->server, ++id, KIN_NEVER)) == 0) /* ends: at KIN_FULL */
        ;
    EXPECT_EQ(rc, KIN_FULL);
    EXPECT_EQ(id, 65537);
    EXPECT_EQ(kin_server_timer_set(desk->server, 5, KIN_NEVER), 0); /* one that is there */
    EXPECT_EQ(kin_server_timer_cancel(desk->server, 5), 0);
    EXPECT_EQ(kin_server_timer_set(desk->server, id, KIN_NEVER), 0);
    answer(reply, 0);
    return 0;
}

static int do_fail_memory(struct desk *desk, const struct task_at_desk *job,
                          struct kin_reply *reply)
{
    int failures = 0;
    (void)job;
    for (uint64_t id = 1; id <= 40; id++) {
        for (uint64_t after = 1;; after++) { /* ends: so often it does not ask */
            kin__plat_fail_after(after, false);
            int rc = kin_server_timer_set(desk->server, id, KIN_NEVER);
            kin__plat_fail_after(0, false);
            if (rc == 0)
                break;
            EXPECT_EQ(rc, -ENOMEM);
            EXPECT_EQ(kin_server_timer_cancel(desk->server, id), KIN_STALE);
            failures++;
        }
    }
    EXPECT_GE(failures, 40);
    for (uint64_t id = 1; id <= 40; id++)
        EXPECT_EQ(kin_server_timer_cancel(desk->server, id), 0);
    answer(reply, 0);
    return 0;
}

static int in_bounds(void *arg)
{
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    EXPECT_EQ(ask(desk, do_fail_memory, 0, NULL), 0);
    if (!kin_in_lab())
        EXPECT_EQ(ask(desk, do_fill, 0, NULL), 0);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(timers_are_bounded_by_memory_and_by_number, "GS-INFO-DELIVER")
{
    EXPECT_EQ(run_reporting(1, in_bounds, NULL, NULL), 0);
}

/* ---- idle ---- */

static int in_idle(void *arg)
{
    struct diary diary;
    (void)arg;
    clear_diary(&diary);
    HOUSE(n);
    struct desk_plan plan = {.diary = &diary, .on_info = jot_info};
    DESK_OPTIONS(o);
    o.idle_timeout = KIN_US(200);
    struct kin_addr desk = open_desk(&n, &plan, &o);
    await_words(&diary, 1); /* the first period begins with the start */
    kin_ignore(kin_sleep(kin_after(KIN_MS(2))));
    EXPECT_DIARY(&diary, "0"); /* once per period */
    EXPECT_EQ(send_to(desk, do_add, 1, NULL), 0);
    await_words(&diary, 2);
    EXPECT_EQ(ask(desk, do_set_soon, 1, NULL), 0); /* a timer is a message, too */
    await_words(&diary, 4);
    EXPECT_DIARY(&diary, "0 0 1 0");
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(the_idle_timeout_comes_once_per_period, "GS-INFO-DELIVER")
{
    run_on_few(in_idle, NULL);
}
