/* SPDX-License-Identifier: MIT */
/*
 * Goal: nobody walks around a budget or a capability: not through a thread that works for it, its
 *       own nursery, a sibling, memory of nurseries and copies, nor by freeing late.
 * Method: public calls only, in all three profiles; what a pool was given is held against what is
 *       left in it when everything is over.
 */
#include "api/budgets.h"

#include <kin/blocking.h>
#include <kin/janus.h>

static void run_in_all(kin_task_fn *fn, void *arg)
{
    for (int profile = KIN_SERVICE; profile <= KIN_SOVEREIGN; profile++)
        EXPECT_EQ(run_as((enum kin_profile)profile, 2, fn, arg), 0);
}

/* ---- through a thread that works for a task ---- */

static int see_caps(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_caps() & ~(uint32_t)(KIN_CAP_BLOCKING | KIN_CAP_SPAWN), 0);
    return 0;
}

static int spawn_with_all(void *nursery)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.caps = KIN_CAP_ALL;
    EXPECT_EQ(kin_spawn_with(nursery, &options, see_caps, NULL, 0, NULL), KIN_NOCAP);
    options.caps = KIN_CAP_NONE;
    return kin_spawn_with(nursery, &options, see_caps, NULL, 0, NULL);
}

static int spawn_plainly(void *nursery)
{
    return kin_spawn(nursery, see_caps, NULL);
}

/* Asks a thread to do what it may not, or may only with what it holds. */
static int ask_a_thread(void *nursery)
{
    int rc = 1, expected = kin_caps() & KIN_CAP_SPAWN ? 0 : KIN_NOCAP;
    EXPECT_EQ(kin_blocking(spawn_with_all, nursery, &rc, KIN_NEVER), 0);
    EXPECT_EQ(rc, expected);
    EXPECT_EQ(kin_blocking(spawn_plainly, nursery, &rc, KIN_NEVER), 0);
    EXPECT_EQ(rc, expected);
    return 0;
}

static int spawn_one_with_all(void *nursery)
{
    return spawn_able(nursery, KIN_CAP_ALL, nothing_to_do, NULL);
}

static int confine(void *arg)
{
    (void)arg;
    KIN_NURSERY(outer);
    KIN_NURSERY(inner);
    EXPECT_EQ(spawn_able(&inner, KIN_CAP_BLOCKING, ask_a_thread, &outer), 0);
    EXPECT_EQ(spawn_able(&inner, KIN_CAP_BLOCKING | KIN_CAP_SPAWN, ask_a_thread, &outer), 0);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    int rc = 1; /* whoever holds all has a thread that does, too */
    EXPECT_EQ(kin_blocking(spawn_one_with_all, &outer, &rc, KIN_NEVER), 0);
    EXPECT_EQ(rc, 0);
    return kin_nursery_join(&outer, NULL);
}

KIN_TEST(a_thread_that_works_for_a_task_may_do_what_the_task_may, "SCHED:1.1.2 SCHED:15.1.2")
{
    run_in_all(confine, NULL);
}

/* A runtime that such a thread starts has a first task, which holds every capability of it. */
static int run_another(void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 1;
    return kin_run(&config, see_caps, arg);
}

static int start_a_runtime(void *arg)
{
    int rc = 1;
    EXPECT_EQ(kin_blocking(run_another, arg, &rc, KIN_NEVER), 0);
    EXPECT_EQ(rc, 0);
    return 0;
}

/* The same by the other interface, whose scheduler runs on a thread of its own. */
static int janus_sees(void *arg)
{
    *(uint32_t *)arg = kin_caps();
    return 0;
}

static int create_a_scheduler(void *caps)
{
    void *scheduler = janus_scheduler_create((SchedulerConfig){.worker_count = 1});
    if (!scheduler)
        return -ENOMEM;
    void *nursery = janus_nursery_begin();
    if (nursery && janus_scheduler_spawn((void *)(uintptr_t)janus_sees, caps) == 0)
        EXPECT_EQ(janus_nursery_end(nursery), 0);
    janus_scheduler_shutdown(scheduler);
    return 0;
}

static int start_a_scheduler(void *arg)
{
    uint32_t caps = 0;
    int rc = 1;
    (void)arg;
    EXPECT_EQ(kin_blocking(create_a_scheduler, &caps, &rc, KIN_NEVER), 0);
    EXPECT_EQ(rc, 0);
    EXPECT_EQ(caps & ~kin_caps(), 0);
    EXPECT_EQ(caps & KIN_CAP_SPAWN, KIN_CAP_SPAWN); /* it ran at all */
    return 0;
}

static int confine_runtimes(void *arg)
{
    uint32_t caps = KIN_CAP_BLOCKING | KIN_CAP_SPAWN;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(spawn_able(&n, caps, start_a_runtime, NULL), 0);
    EXPECT_EQ(spawn_able(&n, caps, start_a_scheduler, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_runtime_that_is_started_on_such_a_thread_has_no_more, "SCHED:1.1.2 SCHED:15.1.2")
{
    run_in_all(confine_runtimes, NULL);
}

/* ---- by recharging ---- */

static const struct kin_budget million = {1000000, 1 << 30, 1000, 0, 0};
static const struct kin_budget hundred = {100, 100, 1, 0, 0};

static void expect_no_more(struct kin_budget before)
{
    struct kin_budget now = kin_budget_left();
    EXPECT_LE(now.ops, before.ops);
    EXPECT_LE(now.memory, before.memory);
    EXPECT_LE(now.spawns, before.spawns);
}

static int recharge_own_nursery(void *arg)
{
    struct kin_budget before = kin_budget_left();
    struct kin_nursery own;
    (void)arg;
    EXPECT_EQ(kin_budget_recharge_self(million), KIN_BUDGET);
    EXPECT_EQ(kin_nursery_open(&own, NULL), 0);
    EXPECT_EQ(kin_nursery_recharge(&own, million), 0); /* it has what its owner has */
    EXPECT_EQ(kin_nursery_join(&own, NULL), 0);
    expect_no_more(before);
    return 0;
}

struct pair {
    struct kin_task_ref refs[2];
    _Atomic int arrived, gave;
};

struct one_of {
    struct pair *pair;
    int number;
};

static int recharge_each_other(void *arg)
{
    struct one_of *me = arg;
    struct kin_budget before = kin_budget_left();
    me->pair->refs[me->number] = kin_self();
    atomic_fetch_add(&me->pair->arrived, 1);
    await(&me->pair->arrived, 2);
    EXPECT_EQ(kin_budget_recharge(me->pair->refs[!me->number], million), KIN_BUDGET);
    EXPECT_EQ(kin_budget_recharge(me->pair->refs[!me->number], hundred), KIN_BUDGET);
    atomic_fetch_add(&me->pair->gave, 1);
    await(&me->pair->gave, 2);
    expect_no_more(before);
    return 0;
}

/* Within its limit it may, for whomever; over its whole life. */
static int use_the_limit(void *nursery)
{
    EXPECT_EQ(kin_nursery_recharge(nursery, (struct kin_budget){.ops = 30}), 0);
    EXPECT_EQ(kin_budget_recharge_self((struct kin_budget){.ops = 20}), 0);
    EXPECT_EQ(kin_budget_recharge_self((struct kin_budget){.ops = 1}), KIN_BUDGET);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_OPS);
    EXPECT_EQ(kin_nursery_recharge(nursery, (struct kin_budget){.ops = 1}), KIN_BUDGET);
    return 0;
}

static int recharge_in_vain(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct pair pair = {.arrived = 0};
    struct one_of two[2] = {{&pair, 0}, {&pair, 1}};
    KIN_NURSERY(n, .budget = {.ops = 100000, .memory = 1000, .spawns = 10},
                .recharge = KIN_RECHARGE_MANUAL);
    (void)arg;
    options.caps = KIN_CAP_SPAWN | KIN_CAP_BUDGET;
    options.budget = (struct kin_budget){.ops = 10000, .memory = 100, .spawns = 1};
    EXPECT_EQ(kin_spawn_with(&n, &options, recharge_own_nursery, NULL, 0, NULL), 0);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(kin_spawn_with(&n, &options, recharge_each_other, &two[i], 0, NULL), 0);
    options.recharge_limit.ops = 50;
    EXPECT_EQ(kin_spawn_with(&n, &options, use_the_limit, &n, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(what_a_task_gives_to_anybody_counts_against_its_limit, "SCHED:3.2.3")
{
    run_in_all(recharge_in_vain, NULL);
}

static int lift(void *nursery)
{
    EXPECT_EQ(kin_nursery_recharge(nursery, KIN_UNLIMITED_BUDGET), KIN_BUDGET);
    EXPECT_LE(kin_budget_left().ops, 200);
    return 0;
}

static int limit_children(void *arg)
{
    (void)arg;
    KIN_NURSERY(n, .budget = {.ops = 200, .spawns = 1});
    EXPECT_EQ(kin_spawn(&n, lift, &n), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_child_does_not_lift_the_limit_of_its_nursery, "SCHED:3.2.3 SCHED:15.1.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 2, limit_children, NULL), 0);
}

/* ---- by memory that is not called so ---- */

static char large[1 << 20];

static int be_poor(void *arg)
{
    struct kin_budget before = kin_budget_left();
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_PTR(kin_nursery_alloc(&n, sizeof large), NULL);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_MEMORY);
    EXPECT_EQ(kin_spawn_copy(&n, nothing_to_do, large, sizeof large), KIN_BUDGET);
    EXPECT_EQ(kin_budget_left().memory, before.memory);
    char *room = kin_nursery_alloc(&n, 100);
    EXPECT(room && (uintptr_t)room % 16 == 0 && room[0] == 0 && room[99] == 0);
    memset(room, 1, 100);
    EXPECT_LE(kin_budget_left().memory, before.memory - 100);
    EXPECT_LT(kin_budget_left().ops, before.ops); /* a point to give way at, too */
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_budget_left().memory, before.memory);
    return 0;
}

static int have_poor_children(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.caps = KIN_CAP_SPAWN;
    options.budget = (struct kin_budget){.ops = 1000, .memory = 1000, .spawns = 10};
    EXPECT_EQ(kin_spawn_with(&n, &options, be_poor, NULL, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(memory_of_nurseries_and_copies_are_charged, "SCHED:3.3.1 SCHED:15.1.1 SCHED:4.1.1")
{
    run_in_all(have_poor_children, NULL);
}

/* ---- by freeing late ---- */

static int make_result(void *out)
{
    *(void **)out = kin_alloc(100);
    return *(void **)out ? 0 : KIN_BUDGET;
}

/* The same two floors further down. */
static int have_made(void *out)
{
    KIN_NURSERY(n);
    int rc = kin_spawn(&n, make_result, out);
    return rc < 0 ? rc : kin_nursery_join(&n, NULL);
}

static int collect_results(void *arg)
{
    for (int i = 0; i < 30; i++) {
        void *result = NULL;
        struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
        KIN_NURSERY(n);
        options.caps = KIN_CAP_SPAWN;
        options.budget = (struct kin_budget){.ops = 100, .memory = 400, .spawns = 2};
        EXPECT_EQ(kin_spawn_with(&n, i % 2 ? &options : NULL, i % 2 ? have_made : make_result,
                                 &result, 0, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_LE(kin_budget_left().memory, 900);
        kin_free(result);
        EXPECT_EQ(kin_budget_left().memory, 1000);
    }
    (void)arg;
    return 0;
}

static int serve_results(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n);
    (void)arg;
    options.caps = KIN_CAP_SPAWN;
    options.budget = (struct kin_budget){.ops = 100000, .memory = 1000, .spawns = 200};
    EXPECT_EQ(kin_spawn_with(&n, &options, collect_results, NULL, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(memory_that_is_freed_after_the_join_returns_to_who_is_left, "SCHED:3.3.1 SCHED:8.2.1")
{
    run_in_all(serve_results, NULL);
}

struct late {
    void *block;
    _Atomic int has_begun, may_go;
};

static int take_and_leave(void *arg)
{
    struct late *late = arg;
    atomic_store(&late->has_begun, 1);
    await(&late->may_go, 1);
    late->block = kin_alloc(150);
    return late->block ? 0 : KIN_BUDGET;
}

static int make_for_a_child(void *arg)
{
    struct late late = {.block = NULL};
    struct kin_task_ref ref;
    KIN_NURSERY(n, .budget = {.ops = 100000, .memory = 100, .spawns = 5});
    (void)arg;
    EXPECT_EQ(spawn_on(&n, (struct kin_budget){.ops = 10000, .memory = 100}, take_and_leave, &late,
                       &ref), 0);
    await(&late.has_begun, 1);
    EXPECT_EQ(kin_budget_recharge(ref, (struct kin_budget){.memory = 100}), 0);
    atomic_store(&late.may_go, 1);
    EXPECT_EQ(kin_task_join(&n, ref, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_budget_left(&n).memory, 50); /* of 200, 100 of them made, 150 are used */
    kin_free(late.block);
    EXPECT_EQ(kin_nursery_budget_left(&n).memory, 100); /* what was made ended with the child */
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(memory_that_was_made_never_returns, "SCHED:8.2.1")
{
    run_in_all(make_for_a_child, NULL);
}

/* ---- what a task makes ---- */

struct made {
    struct kin_chan *chan;
    struct kin_spsc *spsc;
    struct kin_mpsc *mpsc;
    struct kin_broadcast *broadcast;
    struct kin_subscriber *subscriber;
    struct kin_watch *watch;
    struct kin_dir *dir;
};

/* Each takes at least what its items do. */
static int make_things(void *arg)
{
    struct made *made = arg;
    uint64_t before = kin_budget_left().memory, after;
    EXPECT_EQ(kin_chan_create(&made->chan, 64, 16), 0);
    EXPECT_LE((after = kin_budget_left().memory) + 64 * 16, before);
    EXPECT_EQ(kin_spsc_create(&made->spsc, 64, 16), 0);
    EXPECT_LE((before = kin_budget_left().memory) + 64 * 16, after);
    EXPECT_EQ(kin_mpsc_create(&made->mpsc, 64, 16), 0);
    EXPECT_LE((after = kin_budget_left().memory) + 64 * 16, before);
    EXPECT_EQ(kin_broadcast_create(&made->broadcast, 64, 16, KIN_BROADCAST_WAIT), 0);
    EXPECT_LE((before = kin_budget_left().memory) + 64 * 16, after);
    EXPECT_EQ(kin_broadcast_subscribe(made->broadcast, &made->subscriber), 0);
    EXPECT_LT((after = kin_budget_left().memory), before);
    EXPECT_EQ(kin_watch_create(&made->watch, 8, &before), 0);
    EXPECT_LT((before = kin_budget_left().memory), after);
    EXPECT_EQ(kin_opendir("/", &made->dir), 0);
    EXPECT_LT(kin_budget_left().memory, before);
    return 0;
}

/* Others give up what it has made when it is over. */
static int outlive_the_maker(void *arg)
{
    struct kin_budget budget = {1000, 200000, 0, 1000, 1000};
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_task_ref maker;
    struct made made;
    (void)arg;
    KIN_NURSERY(n, .budget = {10000, 200000, 1, 10000, 10000});
    options.budget = budget;
    options.caps = KIN_CAP_CHANNEL | KIN_CAP_FILE;
    EXPECT_EQ(kin_spawn_with(&n, &options, make_things, &made, 0, &maker), 0);
    EXPECT_EQ(kin_task_join(&n, maker, NULL, KIN_NEVER), 0);
    EXPECT_LT(kin_nursery_budget_left(&n).memory, 200000);
    kin_closedir(made.dir);
    kin_watch_unref(made.watch);
    kin_subscriber_unref(made.subscriber);
    kin_broadcast_unref(made.broadcast);
    kin_mpsc_unref(made.mpsc);
    kin_spsc_unref(made.spsc);
    EXPECT_LT(kin_nursery_budget_left(&n).memory, 200000);
    kin_chan_unref(made.chan);
    EXPECT_EQ(kin_nursery_budget_left(&n).memory, 200000);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(what_a_task_makes_is_its_memory_until_the_last_reference_is_gone,
         "SCHED:3.3.1 SCHED:8.2.1")
{
    run_in_all(outlive_the_maker, NULL);
}

static int answer_call(struct kin_server *s, void *state, const void *req, size_t size,
                       struct kin_reply *reply)
{
    (void)s, (void)state, (void)req, (void)size;
    return kin_reply_send(reply, NULL, 0);
}

static int take_cast(struct kin_server *s, void *state, const void *msg, size_t size)
{
    (void)s, (void)state, (void)msg, (void)size;
    return 0;
}

/* A server and the letters in its mailbox: of a small one, and of a large one. */
static int start_and_cast(void *arg)
{
    static const struct kin_server_ops ops = {.on_call = answer_call, .on_cast = take_cast};
    static const char letter[1000];
    struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;
    uint64_t before = kin_budget_left().memory;
    struct kin_addr server;
    struct kin_nursery n;
    (void)arg;
    options.state_size = 5000;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_server_start(&n, &ops, &options, NULL, &server), 0);
    uint64_t with_server = kin_budget_left().memory;
    EXPECT_LE(with_server + 5000, before);
    for (size_t size = 1; size <= sizeof letter; size += sizeof letter - 1) {
        EXPECT_EQ(kin_cast(server, letter, size, 0), 0);
        /* behind the cast: that was handled and freed before the answer */
        EXPECT_EQ(kin_call(server, NULL, 0, NULL, 0, NULL, KIN_NEVER), 0);
        EXPECT_EQ(kin_budget_left().memory, with_server);
    }
    EXPECT_EQ(kin_cast(server, letter, sizeof letter, 0), 0);
    EXPECT_EQ(kin_server_stop(server, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_budget_left().memory, before);
    return 0;
}

static int start_in_a_budget(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    (void)arg;
    KIN_NURSERY(n);
    options.budget = (struct kin_budget){1000, 20000, 2, 1000, 0};
    options.caps = KIN_CAP_SPAWN;
    EXPECT_EQ(kin_spawn_with(&n, &options, start_and_cast, NULL, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_server_and_its_letters_are_memory_of_who_made_them, "SCHED:3.3.1 SCHED:8.2.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 2, start_in_a_budget, NULL), 0);
}

/* ---- what a server makes is memory of its task ---- */

enum { CALLERS = 200, TIMERS = 1000 };

struct greedy {
    struct kin_reply *tokens[CALLERS];
    int held, calls, refusals;
};

static struct greedy greedy;

/* Sets timers until it is refused, and again when it has given one back. */
static int set_timers(struct kin_server *s, void *state, const void *msg, size_t size)
{
    uint64_t id = 0;
    int rc;
    (void)state, (void)msg, (void)size;
    do {
        rc = kin_server_timer_set(s, ++id, kin_after(KIN_SEC(3600)));
    } while (rc == 0 && id < TIMERS);
    EXPECT_EQ(rc, KIN_BUDGET);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_MEMORY);
    EXPECT_EQ(kin_server_timer_set(s, 1, kin_after(KIN_SEC(7200))), 0); /* it is there */
    uint64_t left = kin_budget_left().memory;
    for (uint64_t i = 1; i < id; i++)
        EXPECT_EQ(kin_server_timer_cancel(s, i), 0);
    EXPECT_LT(left, kin_budget_left().memory);
    EXPECT_EQ(kin_server_timer_set(s, id, kin_after(KIN_SEC(3600))), 0);
    return 0;
}

static void answer_held(void)
{
    while (greedy.held > 0) {
        struct kin_reply *token = greedy.tokens[--greedy.held];
        EXPECT_EQ(kin_reply_send(token, NULL, 0), 0);
        kin_reply_drop(token);
    }
}

/* Puts every answer off until that is refused, or nobody else comes. */
static int put_off_calls(struct kin_server *s, void *state, const void *req, size_t size,
                         struct kin_reply *reply)
{
    (void)s, (void)state, (void)req, (void)size;
    int rc = kin_reply_move(reply, &greedy.tokens[greedy.held]);
    greedy.calls++;
    if (rc == 0) {
        greedy.held++;
    } else {
        EXPECT_EQ(rc, KIN_BUDGET);
        greedy.refusals++;
        EXPECT_EQ(kin_reply_send(reply, NULL, 0), 0);
    }
    if (rc < 0 || greedy.calls == CALLERS)
        answer_held();
    return 0;
}

static int call_greedy(void *arg)
{
    return kin_call(*(struct kin_addr *)arg, NULL, 0, NULL, 0, NULL, KIN_NEVER);
}

static int start_greedy(void *arg)
{
    static const struct kin_server_ops ops = {.on_call = put_off_calls, .on_cast = set_timers};
    struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;
    struct kin_addr server;
    (void)arg;
    greedy = (struct greedy){0};
    options.budget = KIN_UNLIMITED_BUDGET;
    options.budget.memory = 8192;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_server_start(&n, &ops, &options, NULL, &server), 0);
    {
        KIN_NURSERY(callers);
        for (int i = 0; i < CALLERS; i++)
            EXPECT_EQ(kin_spawn(&callers, call_greedy, &server), 0);
        EXPECT_EQ(kin_nursery_join(&callers, NULL), 0);
    }
    EXPECT_GT(greedy.refusals, 0);
    EXPECT_EQ(kin_cast(server, NULL, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_server_stop(server, 0, KIN_NEVER), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(timers_and_postponed_answers_are_memory_of_the_server, "SCHED:3.3.1 SCHED:15.1.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 2, start_greedy, NULL), 0);
}

/* ---- room for failures ---- */

static int ask_for_room(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    uint64_t before = kin_budget_left().memory;
    (void)arg;
    options.errors_max = 1000;
    EXPECT_EQ(kin_nursery_open(&n, &options), KIN_BUDGET);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_MEMORY);
    EXPECT_EQ(kin_budget_left().memory, before);
    options.errors_max = 20;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    EXPECT_LT(kin_budget_left().memory, before);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_budget_left().memory, before);
    return 0;
}

static int ask_in_a_budget(void *arg)
{
    struct kin_budget budget = KIN_UNLIMITED_BUDGET;
    (void)arg;
    budget.memory = 4096;
    KIN_NURSERY(n);
    EXPECT_EQ(spawn_on(&n, budget, ask_for_room, NULL, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(room_for_failures_is_memory_of_the_owner, "SCHED:3.3.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, ask_in_a_budget, NULL), 0);
}
