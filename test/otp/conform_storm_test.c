/* SPDX-License-Identifier: MIT */
/*
 * Goal: nobody hangs, nothing is answered or told twice, and nothing is left, while servers,
 *       supervisors, watchers and callers come and go at random (K061, K165, K166, SINV-1).
 * Method: black box, on 1, 2 and 4 workers, by the test's seed. Each answer carries a number of its
 *         own, each monitor is either taken back or told of, each start has its stop.
 */
#include "otp/crew.h"

/* Each task's own chance, from the seed of the test. */
static uint64_t chance(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static int rounds(int wanted)
{
    return wanted / (int)kin_test_scale() + 5;
}

/* ---- callers and a server that ends again and again ---- */

#define TICKETS 200000

struct storm {
    _Atomic int is_over;
    _Atomic int next;               /* ticket */
    _Atomic unsigned char answers[TICKETS]; /* how often each ticket arrived */
    _Atomic int arrived;
    uint64_t seed;
    int id;
};

static struct storm *the_storm;

/* Answers with a ticket that nobody else gets. */
static int do_ticket(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    int ticket = atomic_fetch_add(&the_storm->next, 1);
    (void)desk;
    EXPECT_LT(ticket, TICKETS);
    if (job->n == 1)
        kin_ignore(kin_yield());
    int rc = kin_reply_send(reply, &ticket, sizeof ticket);
    EXPECT(rc == 0 || rc == KIN_GONE);
    return 0;
}

/* Keeps the call and answers the one that it kept before. */
static int do_swap(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct kin_reply *before = desk->held;
    (void)job;
    EXPECT_EQ(kin_reply_move(reply, &desk->held), 0);
    if (before) {
        int ticket = atomic_fetch_add(&the_storm->next, 1);
        EXPECT_LT(ticket, TICKETS);
        int rc = kin_reply_send(before, &ticket, sizeof ticket);
        EXPECT(rc == 0 || rc == KIN_GONE);
        kin_reply_drop(before);
    }
    return 0;
}

static void swap_out(struct desk *desk, const struct kin_outcome *why)
{
    (void)why;
    if (desk->held) {
        kin_ignore(kin_reply_abort(desk->held, KIN_STOPPING));
        kin_reply_drop(desk->held);
    }
}

static bool may_be(int rc)
{
    static const int list[] = {KIN_NOPROC, KIN_STOPPING, KIN_TIMEOUT, KIN_FULL, -EIO, -EPROTO};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (rc == list[i])
            return true;
    }
    return rc >= 0;
}

static int call_in_the_storm(void *arg)
{
    struct storm *storm = the_storm;
    uint64_t state = storm->seed + (uint64_t)(intptr_t)arg;
    while (!atomic_load(&storm->is_over)) { /* ends: the driver ends it */
        struct kin_addr to;
        uint64_t dice = chance(&state);
        kin_time deadline = dice % 5 == 0   ? 0
                            : dice % 5 == 1 ? kin_after((int64_t)(dice >> 8) % KIN_US(300))
                                            : KIN_NEVER;
        bool is_sold_out = atomic_load(&storm->next) > TICKETS - 100; /* the driver was held up */
        if (is_sold_out || kin_whereis("storm", &to) != 0) {
            linger();
            continue;
        }
        int rc;
        switch (dice >> 60) {
        case 0:
            rc = send_by(to, do_return_only, 0, NULL, deadline);
            break;
        case 1:
        case 2: /* answered by the next one who does that, so never without a deadline */
            rc = ask_by(to, do_swap, 0, NULL, kin_after(KIN_US(200)));
            break;
        default:
            rc = ask_by(to, do_ticket, (long)(dice >> 40) % 2, NULL, deadline);
        }
        EXPECT(may_be(rc));
        if (rc >= 0 && dice >> 60 != 0) {
            EXPECT_EQ(atomic_fetch_add(&storm->answers[rc], 1), 0);
            atomic_fetch_add(&storm->arrived, 1);
        }
        if (kin_in_lab()) /* or time stands still */
            linger();
    }
    return 0;
}

static void end_desk(struct kin_addr desk, struct kin_task_ref task, unsigned way)
{
    switch (way) {
    case 0:
        EXPECT_EQ(kin_server_stop(desk, 0, KIN_NEVER), 0);
        break;
    case 1:
        EXPECT_EQ(kin_server_stop(desk, -EPROTO, KIN_NEVER), 0);
        break;
    case 2:
        EXPECT_EQ(kin_task_cancel(task), 0);
        break;
    case 3:
        EXPECT_EQ(ask(desk, do_return_only, -EIO, NULL), -EIO);
        break;
    case 4:
        EXPECT_EQ(ask(desk, do_fail, -EIO, NULL), -EIO);
        break;
    default:
        EXPECT_EQ(ask(desk, do_stop_self, 0, NULL), KIN_STOPPING);
    }
}

static int in_every_call_is_answered_once_while_servers_come_and_go(void *arg)
{
    static struct storm storm;
    struct desk_plan plan = {.on_stop = swap_out};
    uint64_t state = kin_test_seed();
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    memset(&storm, 0, sizeof storm);
    storm.seed = kin_test_seed();
    the_storm = &storm;
    for (intptr_t i = 1; i <= enough(6, 3); i++)
        EXPECT_EQ(kin_spawn(&n, call_in_the_storm, (void *)i), 0);
    options.name = "storm";
    for (int round = 0; round < enough(rounds(200), 3); round++) {
        uint64_t dice = chance(&state);
        struct kin_task_ref task;
        options.mailbox_capacity = 1 + dice % 4;
        options.drain = (enum kin_drain)((dice >> 8) % 3);
        struct kin_addr desk = open_desk(&n, &plan, &options);
        struct kin_monitor_ref ref = watch(desk);
        EXPECT_EQ(ask(desk, do_name_task, 0, &task), 0);
        for (uint64_t i = 0; i < (dice >> 16) % 8; i++)
            linger();
        end_desk(desk, task, (unsigned)((dice >> 24) % 6));
        end_of(ref);
    }
    atomic_store(&storm.is_over, 1);
    int rc = kin_nursery_join(&n, NULL);
    EXPECT(rc == 0 || rc == -EIO || rc == -EPROTO);
    EXPECT_LE(atomic_load(&storm.arrived), atomic_load(&storm.next));
    EXPECT_EQ(kin_leaks(), 0);
    return 0;
}

KIN_TEST(every_call_is_answered_once_while_servers_come_and_go, "K061 SINV-1 D17")
{
    run_on_few(in_every_call_is_answered_once_while_servers_come_and_go, NULL);
}

/* ---- many who stop one ---- */

static int stop_and_see(void *arg)
{
    struct kin_addr *desk = arg;
    int rc = kin_server_stop(*desk, -(int)(kin_task_id(kin_self()) % 4), KIN_NEVER);
    EXPECT(rc == 0 || rc == KIN_NOPROC);
    EXPECT_EQ(kin_server_state(*desk), KIN_SERVER_STOPPED);
    return 0;
}

static int in_many_may_stop_one_server(void *arg)
{
    (void)arg;
    for (int round = 0; round < enough(rounds(50), 2); round++) {
        struct kin_addr desk;
        HOUSE(n);
        desk = open_desk(&n, NULL, NULL);
        struct kin_monitor_ref ref = watch(desk);
        for (int i = 0; i < 8; i++)
            EXPECT_EQ(kin_spawn(&n, stop_and_see, &desk), 0);
        struct kin_info end = end_of(ref);
        EXPECT_GT(end.u.down.status, -4);
        EXPECT_LE(end.u.down.status, 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), end.u.down.status);
    }
    return 0;
}

KIN_TEST(many_may_stop_one_server, "K009 GS-STOPPED")
{
    run_on_few(in_many_may_stop_one_server, NULL);
}

static int hold_and_go(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_register("held", kin_self_addr(), 0), 0);
    return 0;
}

/* Whoever has waited for an end, by a stop or a join, finds the name free. */
static int in_a_name_is_free_after_a_stop_and_a_join(void *arg)
{
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    options.name = "held";
    for (int i = 0; i < enough(rounds(300), 3); i++) {
        struct kin_addr found;
        struct kin_task_ref task;
        EXPECT_EQ(kin_spawn_with(&n, NULL, hold_and_go, NULL, 0, &task), 0);
        EXPECT_EQ(kin_task_join(&n, task, NULL, KIN_NEVER), 0);
        EXPECT_EQ(kin_whereis("held", &found), KIN_NOPROC);
        struct kin_addr desk = open_desk(&n, NULL, &options);
        EXPECT_EQ(kin_server_stop(desk, 0, KIN_NEVER), 0);
        EXPECT_EQ(kin_whereis("held", &found), KIN_NOPROC);
        EXPECT_EQ(kin_server_state(desk), KIN_SERVER_STOPPED);
        EXPECT_EQ(ask(desk, do_add, 1, NULL), KIN_NOPROC);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_name_is_free_after_a_stop_and_a_join, "K009 D11")
{
    run_on_few(in_a_name_is_free_after_a_stop_and_a_join, NULL);
}

/* ---- watchers ---- */

struct target {
    struct kin_event go_on;
    int status;
};

static int target_main(void *arg)
{
    struct target *target = arg;
    int rc = kin_event_wait(&target->go_on, KIN_NEVER);
    return rc < 0 ? rc : target->status;
}

struct watchers {
    struct kin_addr who[16];
    int status[16];
    uint64_t seed;
    _Atomic int told, taken_back, traps;
};

/* Watches and links at random; every monitor is told of once or taken back in time. */
static int watch_at_random(void *arg)
{
    struct watchers *all = arg;
    uint64_t state = all->seed + kin_task_id(kin_self());
    for (int i = 0; i < 40; i++) {
        uint64_t dice = chance(&state);
        unsigned k = (unsigned)(dice % 16);
        struct kin_monitor_ref ref;
        struct kin_link_ref link;
        struct kin_info info;
        EXPECT_EQ(kin_monitor(all->who[k], &ref), 0);
        int linked = kin_link(all->who[k], KIN_EXIT_TRAP, KIN_EXIT_IGNORE, &link);
        EXPECT(linked == 0 || linked == KIN_NOPROC);
        if ((dice >> 8) % 3 == 0)
            kin_ignore(kin_yield());
        int rc = (dice >> 16) % 2 ? kin_demonitor(ref) : KIN_EMPTY;
        if (rc == KIN_EMPTY) {
            EXPECT_EQ(kin_wait_down(ref, &info, KIN_NEVER), 0);
            EXPECT(kin_addr_same(info.u.down.who, all->who[k]));
            EXPECT(info.u.down.status == all->status[k] || info.u.down.status == KIN_NOPROC);
            atomic_fetch_add(&all->told, 1);
        } else {
            EXPECT(rc == 0 || rc == KIN_STALE);
            atomic_fetch_add(&all->taken_back, 1);
        }
        EXPECT_EQ(kin_wait_down(ref, &info, 0), KIN_STALE);
        EXPECT_EQ(kin_demonitor(ref), KIN_STALE);
        if (linked == 0) {
            rc = kin_unlink(link);
            EXPECT(rc == 0 || rc == KIN_STALE);
        }
        EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT); /* an unlink leaves nothing behind */
    }
    return 0;
}

static int in_monitors_and_links_at_random(void *arg)
{
    (void)arg;
    for (int round = 0; round < enough(rounds(20), 1); round++) {
        struct watchers all;
        struct target targets[16];
        HOUSE(n);
        memset(&all, 0, sizeof all);
        memset(targets, 0, sizeof targets);
        all.seed = kin_test_seed() + (uint64_t)round;
        for (int i = 0; i < 16; i++) {
            struct kin_task_ref ref;
            all.status[i] = targets[i].status = -(i % 4);
            EXPECT_EQ(kin_spawn_with(&n, NULL, target_main, &targets[i], 0, &ref), 0);
            all.who[i] = kin_task_addr(ref);
        }
        for (int i = 0; i < enough(6, 2); i++)
            EXPECT_EQ(kin_spawn(&n, watch_at_random, &all), 0);
        for (int i = 0; i < 16; i++) {
            kin_event_set(&targets[i].go_on);
            kin_ignore(kin_yield());
        }
        int rc = kin_nursery_join(&n, NULL);
        EXPECT(rc <= 0 && rc > -4);
        EXPECT_EQ(all.told + all.taken_back, enough(6, 2) * 40);
    }
    return 0;
}

KIN_TEST(monitors_and_links_at_random, "K165 K166 D12")
{
    run_on_few(in_monitors_and_links_at_random, NULL);
}

/* ---- a supervisor whose children fail while it is administered ---- */

static _Atomic int children_started, children_stopped;

static int count_start(struct desk *desk)
{
    (void)desk;
    atomic_fetch_add(&children_started, 1);
    return 0;
}

static void count_stop(struct desk *desk, const struct kin_outcome *why)
{
    (void)desk;
    (void)why;
    atomic_fetch_add(&children_stopped, 1);
}

struct office {
    struct kin_addr sup;
    struct kin_child_spec *spec;
    uint64_t seed;
    _Atomic int is_over;
};

static bool is_of(int rc, const int *list)
{
    for (; *list != 1; list++) {
        if (rc == *list)
            return true;
    }
    return false;
}

static int fail_children(void *arg)
{
    struct office *office = arg;
    uint64_t state = office->seed + kin_task_id(kin_self());
    while (!atomic_load(&office->is_over)) { /* ends: the driver ends it */
        struct kin_child_info all[8];
        ssize_t count = kin_supervisor_which_children(office->sup, all, 8, KIN_NEVER);
        if (count < 0 && atomic_load(&office->is_over))
            break;
        EXPECT_GE(count, 0);
        EXPECT_LE(count, 6);
        uint64_t dice = chance(&state);
        if (count > 0) {
            struct kin_child_info child = all[dice % (uint64_t)count];
            if (child.state == KIN_CHILD_RUNNING)
                kin_ignore(ask(child.addr, (dice >> 8) % 4 ? do_return_only : do_stop_self,
                               (dice >> 8) % 4 ? -EIO : 0, NULL));
        }
        linger();
    }
    return 0;
}

static int administer(void *arg)
{
    /* KIN_CANCELLED: the child was stopped by another while it started. */
    static const int plain[] = {0, KIN_NOPROC, -EBUSY, -EALREADY, KIN_TAKEN, KIN_CANCELLED, 1};
    struct office *office = arg;
    uint64_t state = office->seed + kin_task_id(kin_self());
    for (int i = 0; i < enough(rounds(150), 6); i++) {
        uint64_t dice = chance(&state);
        struct kin_child_spec *spec = &office->spec[dice % 6];
        struct kin_addr out = {3, 4};
        int rc;
        switch ((dice >> 8) % 4) {
        case 0:
            rc = kin_supervisor_terminate_child(office->sup, spec->name, KIN_NEVER);
            break;
        case 1:
            rc = kin_supervisor_restart_child(office->sup, spec->name, &out, KIN_NEVER);
            break;
        case 2:
            rc = kin_supervisor_delete_child(office->sup, spec->name, KIN_NEVER);
            break;
        default:
            rc = kin_supervisor_start_child(office->sup, spec, &out, KIN_NEVER);
        }
        if (!is_of(rc, plain))
            printf("action %d gave %d (%s)\n", (int)((dice >> 8) % 4), rc, kin_status_name(rc));
        EXPECT(is_of(rc, plain));
        EXPECT(rc != KIN_CANCELLED || (dice >> 8) % 2);
    }
    return 0;
}

/* Children fail, are stopped, started, deleted; afterwards the supervisor stops as ever and each
 * start has had its stop. */
static void storm_over(enum kin_strategy strategy)
{
    struct crew crew;
    struct office office;
    struct kin_task_ref clerks[2];
    SUP_OPTIONS(options);
    HOUSE(n);
    make_crew(&crew, KIN_PERMANENT);
    options.strategy = strategy;
    options.max_restarts = UINT32_MAX - 1;
    atomic_store(&children_started, 0);
    atomic_store(&children_stopped, 0);
    for (int i = 0; i < 6; i++) {
        crew.plan[i].label = NULL;
        crew.plan[i].on_start = count_start;
        crew.plan[i].on_stop = count_stop;
        crew.spec[i].restart = i % 3 == 2 ? KIN_TRANSIENT : KIN_PERMANENT;
    }
    memset(&office, 0, sizeof office);
    office.sup = start_sup(&n, &options, crew.spec, 4);
    office.spec = crew.spec;
    office.seed = kin_test_seed();
    EXPECT_EQ(kin_spawn(&n, fail_children, &office), 0);
    EXPECT_EQ(kin_spawn(&n, fail_children, &office), 0);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(kin_spawn_with(&n, NULL, administer, &office, 0, &clerks[i]), 0);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(kin_task_join(&n, clerks[i], NULL, KIN_NEVER), 0);
    atomic_store(&office.is_over, 1);
    struct kin_child_counts counts = counts_of(office.sup);
    EXPECT_EQ(counts.specs, counts.active + counts.restarting + counts.stopped);
    EXPECT_EQ(kin_server_stop(office.sup, 0, KIN_NEVER), 0);
    EXPECT_EQ(atomic_load(&children_started), atomic_load(&children_stopped));
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
}

static int in_a_supervisor_in_a_storm_one_for_one(void *arg)
{
    (void)arg;
    storm_over(KIN_ONE_FOR_ONE);
    return 0;
}

KIN_TEST(a_supervisor_in_a_storm_one_for_one, "K087 K091 SUP-PLAN-RESTART")
{
    run_on_few(in_a_supervisor_in_a_storm_one_for_one, NULL);
}

static int in_a_supervisor_in_a_storm_one_for_all(void *arg)
{
    (void)arg;
    storm_over(KIN_ONE_FOR_ALL);
    return 0;
}

KIN_TEST(a_supervisor_in_a_storm_one_for_all, "K087 K100 SUP-PLAN-RESTART")
{
    run_on_few(in_a_supervisor_in_a_storm_one_for_all, NULL);
}

static int in_a_supervisor_in_a_storm_rest_for_one(void *arg)
{
    (void)arg;
    storm_over(KIN_REST_FOR_ONE);
    return 0;
}

KIN_TEST(a_supervisor_in_a_storm_rest_for_one, "K087 K103 SUP-PLAN-RESTART")
{
    run_on_few(in_a_supervisor_in_a_storm_rest_for_one, NULL);
}

/* ---- a restart by hand, a delete and a failure at once ---- */

struct errands {
    struct kin_addr sup, victim;
    struct kin_child_spec *spec;
    int restarted, deleted, terminated, started;
};

static int restart_by_hand(void *arg)
{
    struct errands *errands = arg;
    struct kin_addr out;
    errands->restarted = kin_supervisor_restart_child(errands->sup, "d", &out, KIN_NEVER);
    return 0;
}

static int delete_by_hand(void *arg)
{
    struct errands *errands = arg;
    errands->deleted = kin_supervisor_delete_child(errands->sup, "d", KIN_NEVER);
    return 0;
}

static int terminate_by_hand(void *arg)
{
    struct errands *errands = arg;
    errands->terminated = kin_supervisor_terminate_child(errands->sup, "d", KIN_NEVER);
    return 0;
}

static int start_by_hand(void *arg)
{
    struct errands *errands = arg;
    struct kin_addr out;
    errands->started = kin_supervisor_start_child(errands->sup, errands->spec, &out, KIN_NEVER);
    return 0;
}

static int fail_the_victim(void *arg)
{
    kin_ignore(ask(((struct errands *)arg)->victim, do_return_only, -EIO, NULL));
    return 0;
}

/* Every one of them is answered, whatever the order. */
static int in_orders_for_one_child_at_once_are_all_answered(void *arg)
{
    static const int known[] = {0, KIN_NOPROC, -EBUSY, -EALREADY, KIN_TAKEN, KIN_CANCELLED, 1};
    (void)arg;
    for (int round = 0; round < enough(rounds(200), 1); round++) {
        struct crew crew;
        struct errands errands;
        SUP_OPTIONS(options);
        HOUSE(n);
        make_crew(&crew, KIN_PERMANENT);
        options.strategy = round % 2 ? KIN_REST_FOR_ONE : KIN_ONE_FOR_ALL;
        memset(&errands, 0, sizeof errands);
        errands.sup = start_sup(&n, &options, crew.spec, 4);
        errands.victim = addr_of(errands.sup, "a");
        errands.spec = &crew.spec[3];
        EXPECT_EQ(kin_supervisor_terminate_child(errands.sup, "d", KIN_NEVER), 0);
        {
            KIN_NURSERY(clerks);
            EXPECT_EQ(kin_spawn(&clerks, fail_the_victim, &errands), 0);
            EXPECT_EQ(kin_spawn(&clerks, restart_by_hand, &errands), 0);
            EXPECT_EQ(kin_spawn(&clerks, delete_by_hand, &errands), 0);
            if (round % 3 == 0)
                EXPECT_EQ(kin_spawn(&clerks, terminate_by_hand, &errands), 0);
            if (round % 3 == 1)
                EXPECT_EQ(kin_spawn(&clerks, start_by_hand, &errands), 0);
            EXPECT_EQ(kin_nursery_join(&clerks, NULL), 0);
        }
        EXPECT(is_of(errands.restarted, known));
        EXPECT(is_of(errands.deleted, known));
        EXPECT(is_of(errands.terminated, known));
        EXPECT(is_of(errands.started, known));
        close_desk(errands.sup);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(orders_for_one_child_at_once_are_all_answered, "K087 SINV-1")
{
    run_on_few(in_orders_for_one_child_at_once_are_all_answered, NULL);
}
