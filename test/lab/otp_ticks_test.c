/* SPDX-License-Identifier: MIT */
/*
 * Goal: what servers, supervisors and names do at a time they do at exactly that time: windows,
 *       leases, timeouts, delays, ladders; and what happens in one moment is told in one order
 *       (K017, K036, K081, K097, K107, K139, K253, K256).
 * Method: black box in the lab, where time stands still while anybody works: each body compares
 *         clocks to the tick, under round-robin, random schedules and PCT.
 */
#include "otp/crew.h"

#include "lab/in_lab.h"

static void run_all(kin_task_fn *body, void *arg)
{
    static const enum kin_lab_strategy strategies[] = {KIN_LAB_ROUND_ROBIN, KIN_LAB_RANDOM,
                                                       KIN_LAB_PCT};
    for (size_t i = 0; i < 3; i++) {
        int rc = lab(strategies[i], i ? 20 : 1, body, arg);
        if (rc < 0)
            printf("%s\n", report.text);
        EXPECT_EQ(rc, 0);
    }
}

/* ---- restarts ---- */

struct boundary {
    int64_t window; /* 0: the default, 5 s */
    int64_t later;  /* when the next failure comes */
    bool survives;
};

/* One restart is allowed; the second failure comes some time after the first. */
static int fail_twice(void *arg)
{
    const struct boundary *boundary = arg;
    struct crew crew;
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    HOUSE(n);
    make_crew(&crew, KIN_PERMANENT);
    options.max_restarts = 1;
    options.window = boundary->window;
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 1);
    struct kin_monitor_ref ref = watch(sup);
    kin_time began = kin_now();
    struct kin_addr old = addr_of(sup, "a");
    crash_child(old, -EIO);
    EXPECT_EQ(kin_now(), began); /* nothing of it takes time */
    EXPECT_EQ(kin_sleep(began + boundary->later), 0);
    old = addr_of(sup, "a");
    crash_child(old, -EIO);
    if (boundary->survives) {
        await_new(sup, "a", old);
        close_desk(sup);
        EXPECT_END(ref, KIN_DOWN_NORMAL, 0);
    } else {
        EXPECT_END(ref, KIN_DOWN_ERROR, KIN_EXHAUSTED);
    }
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

/* K139 K097: a restart exactly as old as the window is not counted; one tick younger it is. */
KIN_TEST(k139_a_restart_as_old_as_the_window_does_not_count, "K139 K097 SUP-BUDGET-EXCEEDED")
{
    run_all(fail_twice, &(struct boundary){KIN_SEC(2), KIN_SEC(2), true});
    run_all(fail_twice, &(struct boundary){KIN_SEC(2), KIN_SEC(2) - 1, false});
    run_all(fail_twice, &(struct boundary){0, KIN_SEC(5), true});
    run_all(fail_twice, &(struct boundary){0, KIN_SEC(5) - 1, false});
}

static kin_time started_at[16];
static _Atomic int starts;

static int note_start(struct desk *desk)
{
    int i = atomic_fetch_add(&starts, 1);
    (void)desk;
    EXPECT_LT(i, 16);
    started_at[i] = kin_now();
    return i == 0 ? 0 : i < 6 ? -EAGAIN : 0;
}

/* Each delay is as much of the one before as the backoff says, up to the most. */
static int back_off(void *arg)
{
    struct crew crew;
    SUP_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    atomic_store(&starts, 0);
    crew.plan[0].on_start = note_start;
    crew.spec[0].backoff = (struct kin_backoff){KIN_MS(10), KIN_MS(50), 0, 0};
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 1);
    kin_time at = kin_now();
    struct kin_addr old = addr_of(sup, "a");
    crash_child(old, -EIO);
    await_new(sup, "a", old);
    static const int64_t delays[] = {KIN_MS(10), KIN_MS(20), KIN_MS(40), KIN_MS(50), KIN_MS(50),
                                     KIN_MS(50)};
    for (int i = 0; i < 6; i++) {
        at += delays[i];
        EXPECT_EQ(started_at[i + 1], at);
    }
    close_desk(sup);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_backoff_doubles_up_to_its_most, "D8")
{
    run_all(back_off, NULL);
}

/* ---- ladders ---- */

struct ladder {
    int64_t shutdown, takes;
};

/* A child that hides behind a mask is over when its time is: not earlier, not later. */
static int wait_for_the_ladder(void *arg)
{
    const struct ladder *ladder = arg;
    struct plain stubborn;
    HOUSE(n);
    memset(&stubborn, 0, sizeof stubborn);
    struct kin_child_spec spec = plain_spec("s", start_stubborn, &stubborn, KIN_PERMANENT);
    spec.shutdown = ladder->shutdown;
    struct kin_addr sup = start_sup(&n, NULL, &spec, 1);
    await_flag(&stubborn.started, 1);
    kin_time began = kin_now();
    EXPECT_EQ(kin_supervisor_terminate_child(sup, "s", KIN_NEVER), 0);
    EXPECT_EQ(kin_now(), began + ladder->takes);
    close_desk(sup);
    return kin_nursery_join(&n, NULL);
}

/* K081 K082: 5 s unless said otherwise; KIN_BRUTAL: at once. */
KIN_TEST(k081_k082_the_ladder_takes_its_time, "K081 K082 D10")
{
    run_all(wait_for_the_ladder, &(struct ladder){KIN_SEC(1), KIN_SEC(1)});
    run_all(wait_for_the_ladder, &(struct ladder){0, KIN_SEC(5)});
    run_all(wait_for_the_ladder, &(struct ladder){KIN_BRUTAL, 0});
}

/* Two of them one after the other, by a stop; or by a cancel of the nursery, whose grace is shorter
 * than what they may take: past it all are asked at once. */
static int stop_stubborn_ones(void *arg)
{
    const int64_t grace = *(const int64_t *)arg;
    struct plain stubborn;
    struct kin_child_spec spec[3];
    struct kin_nursery n;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    options.on_error = KIN_COLLECT;
    options.cancel_grace = grace;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    memset(&stubborn, 0, sizeof stubborn);
    static const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        spec[i] = plain_spec(names[i], start_stubborn, &stubborn, KIN_PERMANENT);
        spec[i].shutdown = KIN_SEC(2);
    }
    struct kin_addr sup = start_sup(&n, NULL, spec, 3);
    await_flag(&stubborn.started, 3);
    kin_time began = kin_now();
    if (grace) {
        kin_nursery_cancel(&n, 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
        EXPECT_EQ(kin_now(), began + grace);
    } else {
        close_desk(sup);
        EXPECT_EQ(kin_now(), began + KIN_SEC(6));
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(a_shutdown_is_bounded_by_the_ladders_and_the_grace, "D10 SUP-CANCEL-CHILD")
{
    static const int64_t graces[] = {0, KIN_SEC(3)};
    for (size_t i = 0; i < 2; i++) {
        struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
        config.oracles = ~(uint32_t)KIN_ORACLE_CANCEL; /* being stuck is the point */
        config.executions_max = 20;
        config.strategy = KIN_LAB_RANDOM;
        config.seed = kin_test_seed();
        int64_t grace = graces[i];
        int rc = kin_lab_run(&config, stop_stubborn_ones, &grace, &report);
        if (rc < 0)
            printf("%s\n", report.text);
        EXPECT_EQ(rc, 0);
    }
}

static int take_a_while(void *arg)
{
    const int64_t *takes = arg;
    kin_ignore(kin_sleep(KIN_NEVER));
    kin_mask();
    kin_ignore(kin_sleep(kin_after(*takes)));
    kin_unmask();
    return KIN_CANCELLED;
}

static int start_slow(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    return start_plain(n, take_a_while, arg, out);
}

/* K107: three children that need 1, 1 and 5 s and have 2: all is over after 2. */
static int stop_in_parallel(void *arg)
{
    static const int64_t takes[] = {KIN_SEC(1), KIN_SEC(1), KIN_SEC(5)};
    struct kin_addr out;
    SUP_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    options.strategy = KIN_TEMPLATE;
    struct kin_addr sup = start_sup(&n, &options, NULL, 0);
    for (int i = 0; i < 3; i++) {
        struct kin_child_spec spec = plain_spec(NULL, start_slow, NULL, KIN_TEMPORARY);
        spec.arg = &takes[i];
        spec.shutdown = KIN_SEC(2);
        EXPECT_EQ(kin_supervisor_start_child(sup, &spec, &out, KIN_NEVER), 0);
    }
    EXPECT_EQ(kin_sleep(kin_after(1)), 0); /* everybody sleeps */
    kin_time began = kin_now();
    close_desk(sup);
    EXPECT_EQ(kin_now(), began + KIN_SEC(2));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(k107_children_of_a_template_stop_side_by_side, "K107")
{
    run_all(stop_in_parallel, NULL);
}

/* ---- servers ---- */

static int sleep_for_ever_in_start(struct desk *desk)
{
    (void)desk;
    return kin_sleep(KIN_NEVER);
}

static int sleep_in_stop_status;

static void sleep_for_ever_in_stop(struct desk *desk, const struct kin_outcome *why)
{
    (void)desk;
    (void)why;
    sleep_in_stop_status = kin_sleep(KIN_NEVER);
}

static int keep_times(void *arg)
{
    struct desk_plan plan = {.on_start = sleep_for_ever_in_start};
    struct kin_addr out = {3, 4};
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    options.init_timeout = KIN_SEC(3);
    kin_time began = kin_now();
    EXPECT_EQ(try_open_desk(&n, &plan, &options, &out), KIN_TIMEOUT);
    EXPECT_EQ(kin_now(), began + KIN_SEC(3));
    plan.on_start = NULL;
    plan.on_stop = sleep_for_ever_in_stop;
    for (int i = 0; i < 2; i++) {
        options.stop_timeout = i ? KIN_SEC(2) : 0; /* 0: 5 s */
        struct kin_addr desk = open_desk(&n, &plan, &options);
        began = kin_now();
        sleep_in_stop_status = 1;
        EXPECT_EQ(kin_server_stop(desk, 0, KIN_NEVER), 0);
        EXPECT_EQ(kin_now(), began + (i ? KIN_SEC(2) : KIN_SEC(5)));
        EXPECT_EQ(sleep_in_stop_status, KIN_CANCELLED);
    }
    return kin_nursery_join(&n, NULL) <= 0 ? 0 : -1;
}

KIN_TEST(k002_starts_and_stops_take_no_longer_than_they_may, "K002 D19")
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    config.oracles = ~(uint32_t)KIN_ORACLE_CANCEL; /* being stuck is the point */
    config.executions_max = 20;
    config.strategy = KIN_LAB_RANDOM;
    config.seed = kin_test_seed();
    int rc = kin_lab_run(&config, keep_times, NULL, &report);
    if (rc < 0)
        printf("%s\n", report.text);
    EXPECT_EQ(rc, 0);
}

static kin_time told_at[8];
static _Atomic int told;

static int note_time(struct desk *desk, const struct kin_info *info)
{
    int i = atomic_load(&told);
    (void)desk;
    EXPECT_EQ(info->kind, KIN_INFO_TIMEOUT);
    EXPECT_LT(i, 8);
    EXPECT_EQ(info->u.timeout.deadline, kin_now());
    told_at[i] = kin_now();
    atomic_store(&told, i + 1);
    return 0;
}

static int do_timer(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    EXPECT_EQ(kin_server_timer_set(desk->server, 7, *(kin_time *)job->p), 0);
    answer(reply, 0);
    return 0;
}

/* K017 K036: timers and idle periods end to the tick; a message begins a new idle period, and each
 * has one timeout. */
static int idle_around(void *arg)
{
    struct desk_plan plan = {.on_info = note_time};
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    atomic_store(&told, 0);
    options.idle_timeout = KIN_SEC(10);
    struct kin_addr desk = open_desk(&n, &plan, &options);
    kin_time began = kin_now();
    EXPECT_EQ(kin_sleep(began + KIN_SEC(10) - 1), 0);
    EXPECT_EQ(ask(desk, do_add, 1, NULL), 1); /* one tick before its time */
    EXPECT_EQ(kin_sleep(began + KIN_SEC(50)), 0);
    EXPECT_EQ(atomic_load(&told), 1);
    EXPECT_EQ(told_at[0], began + KIN_SEC(20) - 1);
    EXPECT_EQ(ask(desk, do_add, 1, NULL), 2);
    kin_time at = began + KIN_SEC(53);
    EXPECT_EQ(ask(desk, do_timer, 0, &at), 0);
    EXPECT_EQ(kin_sleep(began + KIN_SEC(100)), 0);
    EXPECT_GE(atomic_load(&told), 3); /* the timer, then the idle period */
    EXPECT_EQ(told_at[1], at);
    EXPECT_EQ(atomic_load(&told), 3);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(k017_k036_timers_and_idle_periods_end_to_the_tick, "K017 K036")
{
    run_all(idle_around, NULL);
}

/* ---- leases ---- */

/* K253: at the deadline the name is free and the holder told; renewed one tick before it is
 * kept. */
static int hold_a_lease(void *arg)
{
    struct kin_addr found;
    struct kin_info info;
    (void)arg;
    kin_time began = kin_now();
    EXPECT_EQ(kin_register("lease", kin_self_addr(), KIN_SEC(10)), 0);
    EXPECT_EQ(kin_sleep(began + KIN_SEC(10) - 1), 0);
    EXPECT_EQ(kin_whereis("lease", &found), 0);
    EXPECT_EQ(kin_lease_renew("lease", KIN_SEC(10)), 0);
    EXPECT_EQ(kin_sleep(began + KIN_SEC(20) - 2), 0);
    EXPECT_EQ(kin_whereis("lease", &found), 0);
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_wait_info(&info, KIN_NEVER), 0);
    EXPECT_EQ(kin_now(), began + KIN_SEC(20) - 1);
    EXPECT_EQ(info.vt, began + KIN_SEC(20) - 1);
    EXPECT_EQ(info.kind, KIN_INFO_LEASE);
    EXPECT_STR(info.u.lease.name, "lease");
    EXPECT_EQ(kin_whereis("lease", &found), KIN_NOPROC);
    EXPECT_EQ(kin_register("lease", kin_self_addr(), KIN_SEC(1)), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_SEC(1))), 0);
    EXPECT_EQ(kin_whereis("lease", &found), KIN_NOPROC); /* at the deadline, not after it */
    EXPECT_EQ(kin_lease_renew("lease", KIN_SEC(1)), KIN_NOPROC);
    EXPECT_EQ(kin_wait_info(&info, 0), 0);
    return 0;
}

KIN_TEST(k253_a_lease_runs_out_to_the_tick, "K253 REG-EXPIRE")
{
    run_all(hold_a_lease, NULL);
}

/* ---- one moment ---- */

struct heard {
    struct kin_info info[32];
    _Atomic int count;
};

static int hear(struct desk *desk, const struct kin_info *info)
{
    struct heard *heard = desk->plan.p;
    int i = atomic_load(&heard->count);
    EXPECT_LT(i, 32);
    heard->info[i] = *info;
    atomic_store(&heard->count, i + 1);
    return 0;
}

struct moment {
    struct kin_addr who[4];
    kin_time at;
    int shape;
};

/* Watches, links and timers in an order that the shape gives. */
static int do_arrange(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    const struct moment *moment = job->p;
    for (int i = 0; i < 11; i++) {
        int what = (i * (moment->shape % 2 ? 3 : 4) + moment->shape) % 11;
        struct kin_monitor_ref monitor;
        struct kin_link_ref link;
        if (what < 4)
            EXPECT_EQ(kin_monitor(moment->who[what], &monitor), 0);
        else if (what < 8)
            EXPECT_EQ(kin_link(moment->who[what - 4], KIN_EXIT_TRAP, KIN_EXIT_IGNORE, &link), 0);
        else
            EXPECT_EQ(kin_server_timer_set(desk->server, (uint64_t)what, moment->at), 0);
    }
    answer(reply, 0);
    return 0;
}

static int fail_when_told(void *arg)
{
    int rc = kin_event_wait(arg, KIN_NEVER);
    return rc < 0 ? rc : -EIO;
}

/* K256: of one moment: Downs, then Exits, then Timeouts, each by its subject; whatever the order in
 * which they were made and in which the others ended. */
static int one_moment(void *arg)
{
    struct heard heard;
    struct gate gate;
    struct moment moment;
    struct kin_event go_on[4];
    struct kin_task_ref refs[4];
    struct desk_plan plan = {.on_info = hear, .p = &heard};
    HOUSE(n);
    moment.shape = *(int *)arg;
    moment.at = kin_after(KIN_SEC(1));
    memset(&heard, 0, sizeof heard);
    memset(go_on, 0, sizeof go_on);
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(kin_spawn_with(&n, NULL, fail_when_told, &go_on[i], 0, &refs[i]), 0);
        moment.who[i] = kin_task_addr(refs[i]);
    }
    EXPECT_EQ(ask(desk, do_arrange, 0, &moment), 0);
    keep_busy(desk, &gate);
    EXPECT_EQ(kin_sleep(moment.at), 0);
    for (int i = 0; i < 4; i++)
        kin_event_set(&go_on[(i * 3 + moment.shape) % 4]);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(kin_task_join(&n, refs[i], NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_now(), moment.at);
    kin_event_set(&gate.open);
    await_flag(&heard.count, 11);
    for (int i = 0; i < 11; i++) {
        const struct kin_info *info = &heard.info[i];
        EXPECT_EQ(info->kind, i < 4 ? KIN_INFO_DOWN : i < 8 ? KIN_INFO_EXIT : KIN_INFO_TIMEOUT);
        EXPECT_EQ(info->vt, moment.at);
        if (i % 4 == 0)
            continue;
        if (i < 4)
            EXPECT_GT(info->u.down.who.id, info[-1].u.down.who.id);
        else if (i < 8)
            EXPECT_GT(info->u.exit.from.id, info[-1].u.exit.from.id);
        else
            EXPECT_GT(info->u.timeout.id, info[-1].u.timeout.id);
    }
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(k256_what_happens_in_one_moment_is_told_in_one_order, "K256 GS-INFO-SORT SINV-4 D13")
{
    for (int shape = 0; shape < 6; shape++)
        run_all(one_moment, &shape);
}
