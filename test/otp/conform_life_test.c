/* SPDX-License-Identifier: MIT */
/*
 * Goal: servers and supervisors as programs use them: nested calls, names that survive a crash,
 *       servers that start servers, capabilities, stops in the middle of starts and restarts.
 * Method: black box, one body per situation, on 1, 2 and 4 workers.
 */
#include "otp/crew.h"

/* ---- calls through several servers ---- */

/* Passes the call on to the server in p, or adds when there is none; answers one more. */
struct hop {
    struct kin_addr next[4];
    int at;
};

static int do_hop(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct hop *hop = job->p;
    (void)desk;
    int number = 0;
    if (job->n < 3)
        number = ask(hop->next[job->n], do_hop, job->n + 1, hop);
    EXPECT_GE(number, 0);
    answer(reply, number + 1);
    return 0;
}

static int in_calls_may_go_through_several_servers(void *arg)
{
    struct hop hop;
    HOUSE(n);
    (void)arg;
    for (int i = 0; i < 4; i++)
        hop.next[i] = open_desk(&n, NULL, NULL);
    struct kin_addr first = open_desk(&n, NULL, NULL);
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(ask(first, do_hop, 0, &hop), 4);
    close_house(&n);
    return 0;
}

KIN_TEST(calls_may_go_through_several_servers, "GS-CALL-HANDLE GS-REPLY")
{
    run_on_few(in_calls_may_go_through_several_servers, NULL);
}

static int do_call_back(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct kin_addr *ring = job->p;
    (void)desk;
    int rc;
    if (job->n == 0)
        rc = ask(ring[1], do_call_back, 1, ring);
    else
        rc = -ask_by(ring[0], do_add, 1, NULL, kin_after(KIN_MS(1)));
    answer(reply, rc);
    return 0;
}

/* Two that call each other wait for each other, as long as the deadline says. */
static int in_two_servers_that_call_each_other_have_their_deadline(void *arg)
{
    struct kin_addr ring[2];
    HOUSE(n);
    (void)arg;
    ring[0] = open_desk(&n, NULL, NULL);
    ring[1] = open_desk(&n, NULL, NULL);
    EXPECT_EQ(ask(ring[0], do_call_back, 0, ring), -KIN_TIMEOUT);
    EXPECT_EQ(ask(ring[0], do_add, 5, NULL), 5);
    close_house(&n);
    return 0;
}

KIN_TEST(two_servers_that_call_each_other_have_their_deadline, "K029")
{
    run_on_few(in_two_servers_that_call_each_other_have_their_deadline, NULL);
}

/* ---- messages ---- */

struct large {
    unsigned char bytes[3000];
};

static int keep_large(struct kin_server *s, void *state, const void *msg, size_t size)
{
    const struct large *large = msg;
    _Atomic int *sum = *(_Atomic int **)state;
    (void)s;
    EXPECT_EQ(size, sizeof *large);
    for (size_t i = 1; i < sizeof large->bytes; i++)
        EXPECT_EQ(large->bytes[i], large->bytes[0]);
    EXPECT_EQ(large->bytes[0], (unsigned char)atomic_load(sum));
    atomic_fetch_add(sum, 1);
    return 0;
}

static int keep_pointer(struct kin_server *s, void *state, const void *arg)
{
    (void)s;
    memcpy(state, &arg, sizeof arg);
    return 0;
}

/* What was sent is the server's own copy. */
static int in_messages_are_copied(void *arg)
{
    const struct kin_server_ops ops = {.on_start = keep_pointer, .on_cast = keep_large};
    struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;
    struct large large;
    _Atomic int count = 0;
    struct kin_addr server;
    HOUSE(n);
    (void)arg;
    options.state_size = sizeof(void *);
    EXPECT_EQ(kin_server_start(&n, &ops, &options, &count, &server), 0);
    for (int i = 0; i < 100; i++) {
        memset(&large, i, sizeof large);
        EXPECT_EQ(kin_cast(server, &large, sizeof large, KIN_NEVER), 0);
        memset(&large, 0xff, sizeof large);
    }
    await_flag(&count, 100);
    close_desk(server);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(messages_are_copied, "GS-CAST-TRY GS-CAST-HANDLE")
{
    run_on_few(in_messages_are_copied, NULL);
}

/* DROP_OLDEST drops the oldest cast, also when a call is older. */
static int in_the_oldest_cast_is_dropped_and_no_call(void *arg)
{
    struct diary diary;
    struct gate gate;
    struct caller call;
    struct desk_plan plan = {.diary = &diary};
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    options.mailbox_capacity = 3;
    options.overflow = KIN_OVERFLOW_DROP_OLDEST;
    struct kin_addr desk = open_desk(&n, &plan, &options);
    keep_busy(desk, &gate);
    spawn_caller(&n, &call, desk, do_jot, 1);
    EXPECT_EQ(send_to(desk, do_jot, 2, NULL), 0);
    EXPECT_EQ(send_to(desk, do_jot, 3, NULL), 0);
    while (ask_by(desk, do_jot, 9, NULL, 0) != KIN_FULL) /* ends: the call comes */
        linger();
    EXPECT_EQ(send_to(desk, do_jot, 4, NULL), 0);
    EXPECT_EQ(send_to(desk, do_jot, 5, NULL), 0);
    kin_event_set(&gate.open);
    await_flag(&call.over, 1);
    await_words(&diary, 3);
    EXPECT_EQ(call.rc, 0);
    EXPECT(has_word(&diary, "call:1") && has_word(&diary, "cast:4") && has_word(&diary, "cast:5"));
    EXPECT_EQ(ask(desk, do_add, 0, NULL), 0);
    EXPECT_EQ(atomic_load(&diary.words), 3);
    close_house(&n);
    return 0;
}

KIN_TEST(the_oldest_cast_is_dropped_and_no_call, "GS-CAST-FULL")
{
    run_on_few(in_the_oldest_cast_is_dropped_and_no_call, NULL);
}

/* ---- who may ---- */

static int try_to_start(void *arg)
{
    struct kin_addr out = {3, 4};
    (void)arg;
    struct kin_nursery *n = arg;
    EXPECT_EQ(try_open_desk(n, NULL, NULL, &out), KIN_NOCAP);
    EXPECT_EQ(kin_supervisor_start(n, NULL, NULL, 0, &out), KIN_NOCAP);
    EXPECT_EQ(out.id, 4);
    return 0;
}

static int in_starts_need_the_capability_to_spawn(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    HOUSE(n);
    (void)arg;
    options.caps = KIN_CAP_TIME | KIN_CAP_CHANNEL | KIN_CAP_REGISTRY;
    EXPECT_EQ(kin_spawn_with(&n, &options, try_to_start, &n, 0, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(starts_need_the_capability_to_spawn, "SCHED:10.2.3")
{
    run_on_few(in_starts_need_the_capability_to_spawn, NULL);
}

static int do_try_everything(struct desk *desk, const struct task_at_desk *job,
                             struct kin_reply *reply)
{
    struct kin_monitor_ref ref;
    struct kin_info info;
    (void)desk;
    (void)job;
    EXPECT_EQ(kin_register("forbidden", kin_self_addr(), 0), KIN_NOCAP);
    EXPECT_EQ(kin_sleep(kin_after(1)), KIN_NOCAP);
    EXPECT_EQ(kin_monitor((struct kin_addr){0, 0}, &ref), 0);
    EXPECT_EQ(kin_wait_down(ref, &info, KIN_NEVER), 0);
    answer(reply, 0);
    return 0;
}

/* A server without any capability still does what a server does. */
static int in_a_server_without_capabilities_serves(void *arg)
{
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    options.caps = KIN_CAP_NONE;
    struct kin_addr desk = open_desk(&n, NULL, &options);
    EXPECT_EQ(ask(desk, do_add, 3, NULL), 3);
    EXPECT_EQ(send_to(desk, do_add, 3, NULL), 0);
    EXPECT_EQ(ask(desk, do_try_everything, 0, NULL), 0);
    EXPECT_EQ(ask(desk, do_add, 0, NULL), 6);
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_server_without_capabilities_serves, "SCHED:10.2.3")
{
    run_on_few(in_a_server_without_capabilities_serves, NULL);
}

static int do_lend_server(struct desk *desk, const struct task_at_desk *job,
                          struct kin_reply *reply)
{
    *(struct kin_server **)job->p = desk->server;
    answer(reply, 0);
    return 0;
}

/* What belongs to the server's own task is refused to others. */
static int in_timers_and_self_stop_are_for_the_server_itself(void *arg)
{
    struct kin_server *s = NULL;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    (void)arg;
    EXPECT_EQ(ask(desk, do_lend_server, 0, &s), 0);
    EXPECT_EQ(kin_server_timer_set(s, 1, 1), -EPERM);
    EXPECT_EQ(kin_server_timer_cancel(s, 1), -EPERM);
    EXPECT_EQ(kin_server_stop_self(s, 0), -EPERM);
    EXPECT_EQ(ask(desk, do_add, 1, NULL), 1);
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(timers_and_self_stop_are_for_the_server_itself, "D5")
{
    run_on_few(in_timers_and_self_stop_are_for_the_server_itself, NULL);
}

/* ---- servers that start servers ---- */

struct family {
    struct kin_nursery *n;
    struct kin_addr child;
};

static int do_start_sibling(struct desk *desk, const struct task_at_desk *job,
                            struct kin_reply *reply)
{
    struct family *family = job->p;
    (void)desk;
    EXPECT_EQ(try_open_desk(family->n, NULL, NULL, &family->child), 0);
    answer(reply, 0);
    return 0;
}

static int use_family(void *arg)
{
    struct family *family = arg;
    struct kin_addr first = family->child;
    let_others_run();
    EXPECT_EQ(ask(first, do_start_sibling, 0, family), 0);
    EXPECT_EQ(ask(family->child, do_add, 2, NULL), 2);
    close_desk(family->child);
    close_desk(first);
    return 0;
}

/* A server may start others beside itself, also while its nursery is being joined, and the join
 * waits for all of them. */
static int in_a_server_starts_others_beside_itself(void *arg)
{
    struct family family;
    HOUSE(outer);
    HOUSE(n);
    (void)arg;
    family.n = &n;
    family.child = open_desk(&n, NULL, NULL);
    EXPECT_EQ(kin_spawn(&outer, use_family, &family), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&outer, NULL), 0);
    return 0;
}

KIN_TEST(a_server_starts_others_beside_itself, "SINV-5")
{
    run_on_few(in_a_server_starts_others_beside_itself, NULL);
}

/* ---- links between servers ---- */

static int jot_exit(struct desk *desk, const struct kin_info *info)
{
    if (info->kind == KIN_INFO_EXIT)
        jot(desk->plan.diary, "%s:exit:%d", desk->plan.label, info->u.exit.status);
    return 0;
}

struct pair {
    struct kin_addr other;
    struct kin_link_ref link;
};

static int do_link_both(struct desk *desk, const struct task_at_desk *job,
                        struct kin_reply *reply)
{
    struct pair *pair = job->p;
    (void)desk;
    EXPECT_EQ(kin_link(pair->other, KIN_EXIT_TRAP, KIN_EXIT_TRAP, &pair->link), 0);
    answer(reply, 0);
    return 0;
}

static int do_unlink(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)desk;
    int rc = kin_unlink(((struct pair *)job->p)->link);
    EXPECT_EQ(rc, 0);
    answer(reply, 0);
    return 0;
}

/* Either end may take a link back, and then neither end is told. */
static int in_either_end_takes_a_link_back(void *arg)
{
    (void)arg;
    for (int shape = 0; shape < 3; shape++) {
        struct diary diary;
        struct desk_plan a = {.diary = &diary, .label = "a", .on_info = jot_exit}, b = a;
        struct pair pair;
        char want[64];
        HOUSE(n);
        clear_diary(&diary);
        b.label = "b";
        struct kin_addr of_a = open_desk(&n, &a, NULL);
        pair.other = open_desk(&n, &b, NULL);
        EXPECT_EQ(ask(of_a, do_link_both, 0, &pair), 0);
        if (shape == 1)
            EXPECT_EQ(ask(of_a, do_unlink, 0, &pair), 0);
        if (shape == 2)
            EXPECT_EQ(ask(pair.other, do_unlink, 0, &pair), 0);
        struct kin_monitor_ref ref = watch(of_a);
        EXPECT_EQ(ask(of_a, do_return_only, -EIO, NULL), -EIO);
        EXPECT_END(ref, KIN_DOWN_ERROR, -EIO);
        snprintf(want, sizeof want, "b:exit:%d", -EIO);
        if (shape == 0)
            await_word(&diary, want);
        EXPECT_EQ(ask(pair.other, do_add, 1, NULL), 1);
        EXPECT_EQ(has_word(&diary, want), shape == 0);
        EXPECT_EQ(kin_unlink(pair.link), KIN_STALE);
        close_desk(pair.other);
        EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    }
    return 0;
}

KIN_TEST(either_end_takes_a_link_back, "LINK-CREATE LINK-EXIT D12")
{
    run_on_few(in_either_end_takes_a_link_back, NULL);
}

/* ---- supervisors ---- */

static int start_named(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    DESK_OPTIONS(options);
    options.name = "service";
    jot(*(struct diary *const *)arg, "try");
    return try_open_desk(n, NULL, &options, out);
}

/* A child with a name of its own gets it back at once, each time: its name is free before its
 * supervisor knows of its end. */
static int in_a_named_child_gets_its_name_back(void *arg)
{
    struct diary diary, *of = &diary;
    struct kin_child_spec spec;
    (void)arg;
    SUP_OPTIONS(options);
    HOUSE(n);
    clear_diary(&diary);
    memset(&spec, 0, sizeof spec);
    spec.name = "child";
    spec.start = start_named;
    spec.arg = &of;
    spec.arg_size = sizeof of;
    struct kin_addr sup = start_sup(&n, &options, &spec, 1);
    for (int i = 0; i < enough(30, 3); i++) {
        struct kin_addr found, old = addr_of(sup, "child");
        EXPECT_EQ(kin_whereis("service", &found), 0);
        EXPECT(kin_addr_same(found, old));
        EXPECT_EQ(ask(found, i % 2 ? do_fail : do_return_only, -EIO, NULL), -EIO);
        struct kin_addr now = await_new(sup, "child", old);
        EXPECT_EQ(kin_whereis("service", &found), 0);
        EXPECT(kin_addr_same(found, now));
    }
    close_desk(sup);
    EXPECT_EQ(atomic_load(&diary.words), enough(30, 3) + 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_named_child_gets_its_name_back, "D11")
{
    run_on_few(in_a_named_child_gets_its_name_back, NULL);
}

static int fail_when_cancelled(void *arg)
{
    struct plain *plain = arg;
    atomic_fetch_add(&plain->started, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    atomic_fetch_add(&plain->ended, 1);
    return -EPIPE;
}

static int start_failing(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    return start_plain(n, fail_when_cancelled, arg, out);
}

/* D16: what children end with that a plan has stopped is no failure of theirs. */
static int in_d16_ends_that_a_plan_asked_for_do_not_count(void *arg)
{
    struct plain plain;
    struct crew crew;
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    HOUSE(n);
    (void)arg;
    memset(&plain, 0, sizeof plain);
    make_crew(&crew, KIN_PERMANENT);
    crew.spec[1] = plain_spec("p", start_failing, &plain, KIN_PERMANENT);
    options.strategy = KIN_ONE_FOR_ALL;
    options.max_restarts = 2;
    options.window = KIN_SEC(1000);
    struct kin_addr sup = start_sup(&n, &options, crew.spec, 2);
    for (int i = 1; i <= 2; i++) {
        struct kin_addr old = addr_of(sup, "p");
        await_flag(&plain.started, i);
        crash_and_await(sup, "a", -EIO);
        await_new(sup, "p", old);
        EXPECT_EQ(atomic_load(&plain.ended), i);
    }
    EXPECT_EQ(kin_server_state(sup), KIN_SERVER_RUNNING);
    await_flag(&plain.started, 3);
    close_desk(sup);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(d16_ends_that_a_plan_asked_for_do_not_count, "D16 SINV-2")
{
    run_on_few(in_d16_ends_that_a_plan_asked_for_do_not_count, NULL);
}

static int end_at_once(void *arg)
{
    struct plain *plain = arg;
    atomic_fetch_add(&plain->ended, 1);
    return plain->status;
}

static int start_ephemeral(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    return start_plain(n, end_at_once, arg, out);
}

/* Children that are over before the supervisor has looked at them. */
static int in_children_that_end_at_once_are_judged_as_others(void *arg)
{
    const enum kin_restart kinds[] = {KIN_TRANSIENT, KIN_PERMANENT, KIN_TRANSIENT};
    const int status[] = {0, 0, -EIO};
    (void)arg;
    for (int i = 0; i < 3; i++) {
        struct plain plain;
        struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
        HOUSE(n);
        memset(&plain, 0, sizeof plain);
        plain.status = status[i];
        options.window = KIN_SEC(1000);
        struct kin_child_spec spec = plain_spec("e", start_ephemeral, &plain, kinds[i]);
        struct kin_addr sup = start_sup(&n, &options, NULL, 0), out;
        struct kin_monitor_ref ref = watch(sup);
        EXPECT_EQ(kin_supervisor_start_child(sup, &spec, &out, KIN_NEVER), 0);
        if (i == 0) {
            EXPECT_EQ(await_stopped(sup, "e"), 0);
            EXPECT_EQ(atomic_load(&plain.ended), 1);
            close_desk(sup);
            EXPECT_END(ref, KIN_DOWN_NORMAL, 0);
        } else { /* once and three times more */
            EXPECT_END(ref, KIN_DOWN_ERROR, KIN_EXHAUSTED);
            EXPECT_EQ(atomic_load(&plain.ended), 4);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), i == 0 ? 0 : KIN_EXHAUSTED);
    }
    return 0;
}

KIN_TEST(children_that_end_at_once_are_judged_as_others, "SUP-CHILD-FAILED D12")
{
    run_on_few(in_children_that_end_at_once_are_judged_as_others, NULL);
}

static int wait_in_start(struct desk *desk)
{
    struct gate *gate = desk->plan.p;
    kin_event_set(&gate->reached);
    int rc = kin_event_wait(&gate->open, KIN_NEVER);
    jot(desk->plan.diary, "start:%d", rc);
    return rc;
}

struct starting {
    struct kin_addr sup;
    const struct kin_child_spec *spec;
    int rc;
    _Atomic int over;
};

static int start_the_child(void *arg)
{
    struct starting *starting = arg;
    struct kin_addr out = {3, 4};
    starting->rc = kin_supervisor_start_child(starting->sup, starting->spec, &out, KIN_NEVER);
    EXPECT_EQ(out.id, 4);
    atomic_store(&starting->over, 1);
    return 0;
}

/* A supervisor that is stopped while a child starts, or while one waits to come back. */
static int in_a_supervisor_is_stopped_in_the_middle(void *arg)
{
    (void)arg;
    for (int shape = 0; shape < 2; shape++) {
        struct crew crew;
        struct gate gate;
        struct starting starting;
        SUP_OPTIONS(options);
        HOUSE(n);
        make_crew(&crew, KIN_PERMANENT);
        memset(&gate, 0, sizeof gate);
        memset(&starting, 0, sizeof starting);
        crew.spec[0].backoff = (struct kin_backoff){KIN_SEC(1000), KIN_SEC(1000), 0, 0};
        struct kin_addr sup = start_sup(&n, &options, crew.spec, 2);
        struct kin_monitor_ref ref = watch(sup);
        if (shape == 0) {
            crew.plan[2].on_start = wait_in_start;
            crew.plan[2].p = &gate;
            starting.sup = sup;
            starting.spec = &crew.spec[2];
            EXPECT_EQ(kin_spawn(&n, start_the_child, &starting), 0);
            EXPECT_EQ(kin_event_wait(&gate.reached, KIN_NEVER), 0);
            close_desk(sup);
            await_flag(&starting.over, 1);
            EXPECT_EQ(starting.rc, KIN_STOPPING);
            EXPECT_DIARY(&crew.diary, "+a +b +c start:-4096 -b -a");
        } else {
            crash_child(addr_of(sup, "a"), -EIO);
            while (child_of(sup, "a").state != KIN_CHILD_RESTARTING) /* ends: it is told */
                linger();
            close_desk(sup);
            EXPECT_DIARY(&crew.diary, "+a +b -a -b");
        }
        EXPECT_END(ref, KIN_DOWN_NORMAL, 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(a_supervisor_is_stopped_in_the_middle, "D9 D10")
{
    run_on_few(in_a_supervisor_is_stopped_in_the_middle, NULL);
}

struct late_start {
    struct kin_nursery *n;
    struct crew *crew;
    int rc;
    struct kin_addr out;
};

static int start_the_sup(void *arg)
{
    struct late_start *late = arg;
    late->rc = kin_supervisor_start(late->n, NULL, late->crew->spec, 3, &late->out);
    return 0;
}

/* A start of a supervisor that is given up: what was started is stopped in reverse. */
static int in_a_start_of_a_supervisor_that_is_given_up(void *arg)
{
    struct crew crew;
    struct gate gate;
    struct kin_task_ref task;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    memset(&gate, 0, sizeof gate);
    crew.plan[2].on_start = wait_in_start;
    crew.plan[2].p = &gate;
    struct late_start late = {&n, &crew, 1, {3, 4}};
    EXPECT_EQ(kin_spawn_with(&n, NULL, start_the_sup, &late, 0, &task), 0);
    EXPECT_EQ(kin_event_wait(&gate.reached, KIN_NEVER), 0);
    EXPECT_EQ(kin_task_cancel(task), 0);
    EXPECT_EQ(kin_task_join(&n, task, NULL, KIN_NEVER), 0);
    EXPECT_EQ(late.rc, KIN_CANCELLED);
    EXPECT_EQ(late.out.id, 4);
    EXPECT_DIARY(&crew.diary, "+a +b +c start:-4096 -b -a");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_start_of_a_supervisor_that_is_given_up, "D9")
{
    run_on_few(in_a_start_of_a_supervisor_that_is_given_up, NULL);
}

/* An exhausted supervisor tells its watchers, and its name is free for the next. */
static int in_the_next_supervisor_may_have_the_name(void *arg)
{
    struct crew crew;
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    HOUSE(n);
    (void)arg;
    options.name = "boss";
    options.max_restarts = KIN_NO_RESTARTS;
    for (int i = 0; i < 5; i++) {
        make_crew(&crew, KIN_TRANSIENT);
        struct kin_addr sup = start_sup(&n, &options, crew.spec, 2);
        struct kin_monitor_ref ref = watch(sup);
        crash_child(addr_of(sup, "b"), -EIO);
        EXPECT_END(ref, KIN_DOWN_ERROR, KIN_EXHAUSTED);
        EXPECT_DIARY(&crew.diary, "+a +b -b -a");
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_EXHAUSTED);
    return 0;
}

KIN_TEST(the_next_supervisor_may_have_the_name, "D11 SUP-BUDGET-EXCEEDED")
{
    run_on_few(in_the_next_supervisor_may_have_the_name, NULL);
}
