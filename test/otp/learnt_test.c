/* SPDX-License-Identifier: MIT */
/*
 * Whoever learns that a task is over sees everything that the task did: one test for each way to
 * learn it.
 *
 * The last act of the task that ends is a plain write, and the first thing that the learner does is
 * a plain read of the same word. The values say that the order was right this time;
 * ThreadSanitizer says whether it always is. For that nothing else may order the two: the learner
 * waits for the last act without a call of kin, then a little longer each time, so that its look
 * falls into every moment of the end.
 */
#include "otp/crew.h"

#define ROUNDS enough(60, 1)

/* Somebody who will end, and what it leaves behind. */
struct end {
    struct kin_nursery *n;
    struct kin_addr who;
    int round, status;
    bool waits;                           /* the task that ends: for come_near */
    _Atomic int is_here, may_go, is_near; /* relaxed: they order nothing */
    int last_act;                         /* plain: nothing but kin orders it */
};

typedef void learn_fn(struct end *end);

static void act(void *arg)
{
    struct end *end = arg;
    atomic_store_explicit(&end->is_near, 1, memory_order_relaxed);
    end->last_act++;
}

static bool is_alone; /* one worker, or the lab: nobody may spin for another */

/* The one that ends is on a worker now, and keeps it until the learner, on another one, lets it go:
 * a switch on one worker would order the two. */
static void stand_by(struct end *end)
{
    atomic_store_explicit(&end->is_here, 1, memory_order_relaxed);
    while (!is_alone && !atomic_load_explicit(&end->may_go, memory_order_relaxed)) {
        /* ends: come_near says so */
    }
}

/* Waits until the end is near, and a little longer. */
static void come_near(struct end *end)
{
    while (!atomic_load_explicit(&end->is_here, memory_order_relaxed)) /* ends: it will run */
        kin_ignore(kin_yield());
    atomic_store_explicit(&end->may_go, 1, memory_order_relaxed);
    while (!atomic_load_explicit(&end->is_near, memory_order_relaxed)) { /* ends: as above */
        if (is_alone)
            kin_ignore(kin_yield());
    }
    for (volatile int i = 0; !is_alone && i < 1 << end->round % 20; i++) { /* ends: counts */
    }
}

/* The learner has learnt it. Not inlined: the read stays here, and is one that a tool sees. */
__attribute__((noinline)) static void expect_seen(const struct end *end)
{
    EXPECT_EQ(end->last_act, 1);
}

/* Looks again, after others have run. */
static void look_again(void)
{
    kin_ignore(kin_yield());
}

static void run_on_several(kin_task_fn *fn, learn_fn *learn)
{
    const char *hard = getenv("KIN_HARD");
    bool is_one = hard && strstr(hard, "one"); /* worker, whatever the test asks for */
    for (unsigned workers = kin_in_lab() ? 4 : 1; workers <= 4; workers *= 2) {
        is_alone = kin_in_lab() || workers == 1 || is_one;
        EXPECT_EQ(run_reporting(workers, fn, &learn, NULL), 0);
    }
}

/* ---- servers ---- */

static void act_at_stop(struct desk *desk, const struct kin_outcome *why)
{
    (void)why;
    act(desk->plan.p);
}

/* A desk that acts when it stops, for each round; learn makes it end, unless it waits for that. */
static int learn_of_desks(void *arg)
{
    learn_fn *learn = *(learn_fn **)arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct end end = {.round = i};
        struct desk_plan plan = {.on_stop = act_at_stop, .p = &end};
        HOUSE(n);
        end.n = &n;
        end.who = open_desk(&n, &plan, NULL);
        learn(&end);
        expect_seen(&end);
        kin_ignore(kin_nursery_join(&n, NULL));
    }
    return 0;
}

#define LEARN_OF_DESK(name, tags)                                                                  \
    static void name##_(struct end *end);                                                          \
    KIN_TEST(name, tags)                                                                           \
    {                                                                                              \
        run_on_several(learn_of_desks, name##_);                                                   \
    }                                                                                              \
    static void name##_(struct end *end)

/* Stops itself with n when the learner says so. */
static int do_end(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    stand_by(job->p);
    return do_stop_self(desk, job, reply);
}

/* Makes it end with a status, and waits until that is near. */
static void let_end(struct end *end, int status)
{
    EXPECT_EQ(send_to(end->who, do_end, status, end), 0);
    come_near(end);
}

LEARN_OF_DESK(a_stop_returns_behind_what_the_server_did, "K085")
{
    EXPECT_EQ(kin_server_stop(end->who, 0, KIN_NEVER), 0);
}

LEARN_OF_DESK(a_stop_of_one_that_has_ended_returns_behind_what_it_did, "K085")
{
    let_end(end, 0);
    while (kin_server_stop(end->who, 0, KIN_NEVER) != KIN_NOPROC) /* ends: when it is over */
        look_again();
}

LEARN_OF_DESK(a_call_that_finds_nobody_is_behind_what_the_server_did, "K013")
{
    let_end(end, 0);
    while (ask(end->who, do_add, 1, NULL) != KIN_NOPROC) /* ends: when it is over */
        look_again();
}

LEARN_OF_DESK(a_cast_that_finds_nobody_is_behind_what_the_server_did, "K013")
{
    let_end(end, 0);
    while (send_to(end->who, do_add, 1, NULL) != KIN_NOPROC) /* ends: when it is over */
        look_again();
}

LEARN_OF_DESK(a_state_of_stopped_is_behind_what_the_server_did, "")
{
    let_end(end, 0);
    while (kin_server_state(end->who) != KIN_SERVER_STOPPED) /* ends: when it is over */
        look_again();
}

LEARN_OF_DESK(a_cancel_that_finds_nobody_is_behind_what_the_server_did, "")
{
    let_end(end, 0);
    while (kin_task_cancel((struct kin_task_ref){end->who.id}) != KIN_STALE) /* ends: as above */
        look_again();
}

LEARN_OF_DESK(a_recharge_that_finds_nobody_is_behind_what_the_server_did, "")
{
    struct kin_budget some = {.ops = 1};
    let_end(end, 0);
    while (kin_budget_recharge((struct kin_task_ref){end->who.id}, some) != KIN_STALE)
        look_again(); /* ends: as above */
}

LEARN_OF_DESK(a_down_is_behind_what_the_target_did, "MON-DOWN")
{
    struct kin_monitor_ref ref;
    struct kin_info info;
    EXPECT_EQ(kin_monitor(end->who, &ref), 0);
    let_end(end, 0);
    EXPECT_EQ(kin_wait_down(ref, &info, KIN_NEVER), 0);
}

LEARN_OF_DESK(a_monitor_that_comes_late_is_behind_what_the_target_did, "D12")
{
    struct kin_monitor_ref ref;
    struct kin_info info;
    let_end(end, 0);
    EXPECT_EQ(kin_monitor(end->who, &ref), 0);
    EXPECT_EQ(kin_wait_down(ref, &info, KIN_NEVER), 0);
}

LEARN_OF_DESK(an_exit_that_is_trapped_is_behind_what_the_other_did, "LINK-EXIT")
{
    struct kin_link_ref ref;
    struct kin_info info;
    EXPECT_EQ(kin_link(end->who, KIN_EXIT_TRAP, KIN_EXIT_IGNORE, &ref), 0);
    let_end(end, -EIO);
    EXPECT_EQ(kin_wait_info(&info, KIN_NEVER), 0);
    EXPECT_EQ(info.kind, KIN_INFO_EXIT);
}

LEARN_OF_DESK(a_link_that_finds_nobody_is_behind_what_the_other_did, "LINK-CREATE")
{
    struct kin_link_ref ref;
    let_end(end, 0);
    while (kin_link(end->who, KIN_EXIT_IGNORE, KIN_EXIT_IGNORE, &ref) != KIN_NOPROC) {
        kin_unlink(ref); /* ends: when it is over */
        look_again();
    }
}

LEARN_OF_DESK(a_name_that_is_free_is_behind_what_its_holder_did, "D11")
{
    struct kin_addr out;
    EXPECT_EQ(kin_register("clerk", end->who, 0), 0);
    let_end(end, 0);
    while (kin_whereis("clerk", &out) != KIN_NOPROC) /* ends: when it is over */
        look_again();
}

LEARN_OF_DESK(a_name_that_can_be_taken_is_behind_what_its_holder_did, "D11")
{
    struct kin_addr self = {0, kin_self().id};
    EXPECT_EQ(kin_register("clerk", end->who, 0), 0);
    let_end(end, 0);
    while (kin_register("clerk", self, 0) != 0) /* ends: when it is over */
        look_again();
    EXPECT_EQ(kin_unregister("clerk"), 0);
}

/* ---- children of a supervisor ---- */

static int learn_of_children(void *arg)
{
    learn_fn *learn = *(learn_fn **)arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct end end = {.round = i};
        struct desk_plan plan = {.on_stop = act_at_stop, .p = &end, .label = NULL};
        struct kin_child_spec spec = desk_spec(&plan, KIN_TEMPORARY);
        SUP_OPTIONS(options);
        HOUSE(n);
        end.n = &n;
        spec.name = "clerk";
        spec.restart = KIN_TRANSIENT;
        end.who = start_sup(&n, &options, &spec, 1);
        learn(&end);
        expect_seen(&end);
        close_house(&n);
    }
    return 0;
}

#define LEARN_OF_CHILD(name, tags)                                                                 \
    static void name##_(struct end *end);                                                          \
    KIN_TEST(name, tags)                                                                           \
    {                                                                                              \
        run_on_several(learn_of_children, name##_);                                                \
    }                                                                                              \
    static void name##_(struct end *end)

LEARN_OF_CHILD(a_stop_of_a_supervisor_is_behind_what_its_child_did, "K078 K089")
{
    EXPECT_EQ(kin_server_stop(end->who, 0, KIN_NEVER), 0);
}

LEARN_OF_CHILD(a_child_that_is_terminated_is_behind_the_caller, "K086")
{
    EXPECT_EQ(kin_supervisor_terminate_child(end->who, "clerk", KIN_NEVER), 0);
}

LEARN_OF_CHILD(a_list_without_the_child_is_behind_what_the_child_did, "K122")
{
    struct kin_addr clerk = child_of(end->who, "clerk").addr;
    EXPECT_EQ(send_to(clerk, do_end, 0, end), 0);
    come_near(end);
    while (child_of(end->who, "clerk").state == KIN_CHILD_RUNNING) /* ends: when it is over */
        look_again();
}

LEARN_OF_CHILD(a_count_without_the_child_is_behind_what_the_child_did, "K113")
{
    struct kin_child_counts counts = {.active = 1};
    struct kin_addr clerk = child_of(end->who, "clerk").addr;
    EXPECT_EQ(send_to(clerk, do_end, 0, end), 0);
    come_near(end);
    do { /* ends: when it is over */
        look_again();
        EXPECT_EQ(kin_supervisor_count_children(end->who, &counts, KIN_NEVER), 0);
    } while (counts.active == 1);
}

/* ---- tasks ---- */

/* Ends with the status; when the learner says so, if it comes near. */
static int end_at_once(void *arg)
{
    struct end *end = arg;
    if (end->waits)
        stand_by(end);
    return end->status;
}

/* Spawns the one that ends; its last act is its cleanup, which runs even if it never began. */
static struct kin_task_ref spawn_end(struct end *end, int status, bool is_named)
{
    struct kin_task_ref ref = {0};
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.cleanup = act;
    end->status = status;
    EXPECT_EQ(kin_spawn_with(end->n, &options, end_at_once, end, 0, is_named ? &ref : NULL), 0);
    return ref;
}

/* learn opens a nursery of its own, if it needs one, and joins it after it has looked. */
static int learn_of_tasks(void *arg)
{
    learn_fn *learn = *(learn_fn **)arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct end end = {.round = i};
        learn(&end);
    }
    return 0;
}

#define LEARN_OF_TASK(name, tags)                                                                  \
    static void name##_(struct end *end);                                                          \
    KIN_TEST(name, tags)                                                                           \
    {                                                                                              \
        run_on_several(learn_of_tasks, name##_);                                                   \
    }                                                                                              \
    static void name##_(struct end *end)

LEARN_OF_TASK(a_join_is_behind_what_the_children_did, "NSM:5.1")
{
    HOUSE(n);
    end->n = &n;
    spawn_end(end, 0, false);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    expect_seen(end);
}

LEARN_OF_TASK(a_join_of_one_task_is_behind_what_it_did, "SCHED:15.2.2")
{
    HOUSE(n);
    end->n = &n;
    struct kin_task_ref ref = spawn_end(end, 0, true);
    EXPECT_EQ(kin_task_join(&n, ref, NULL, KIN_NEVER), 0);
    expect_seen(end);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
}

LEARN_OF_TASK(a_poll_of_a_nursery_that_is_over_is_behind_what_the_children_did, "")
{
    HOUSE(n);
    end->n = &n;
    end->waits = true;
    spawn_end(end, 0, false);
    kin_nursery_close(&n);
    come_near(end);
    while (kin_nursery_poll(&n, NULL) == KIN_EMPTY) /* ends: when it is over */
        look_again();
    expect_seen(end);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
}

LEARN_OF_TASK(a_state_of_a_nursery_that_is_over_is_behind_what_the_children_did, "")
{
    HOUSE(n);
    end->n = &n;
    end->waits = true;
    spawn_end(end, 0, false);
    kin_nursery_close(&n);
    come_near(end);
    while (kin_nursery_state(&n) != KIN_NURSERY_CLOSED) /* ends: when it is over */
        look_again();
    expect_seen(end);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
}

LEARN_OF_TASK(an_error_in_the_list_is_behind_what_the_failed_child_did, "NSM:8.1")
{
    struct kin_outcome how;
    HOUSE(n);
    end->n = &n;
    end->waits = true;
    spawn_end(end, -EIO, false);
    come_near(end);
    while (kin_nursery_errors(&n, &how, 1) == 0) /* ends: when it is over */
        look_again();
    expect_seen(end);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
}

LEARN_OF_TASK(room_for_one_more_is_behind_what_the_child_did_who_left, "")
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    static int nothing;
    options.slot_deadline = KIN_NEVER;
    KIN_NURSERY(n, .tasks_max = 1);
    end->n = &n;
    spawn_end(end, 0, false);
    EXPECT_EQ(kin_spawn_with(&n, &options, return_it, &nothing, 0, NULL), 0);
    expect_seen(end);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
}

/* The owner of the nursery in which somebody has failed. */
LEARN_OF_TASK(an_owner_that_is_cancelled_is_behind_what_the_failed_child_did, "NCG-2")
{
    KIN_NURSERY(n, .on_error = KIN_FAIL_FAST);
    end->n = &n;
    end->waits = true;
    spawn_end(end, -EIO, false);
    come_near(end);
    while (!kin_cancelled()) /* ends: when it is over */
        look_again();
    expect_seen(end);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
}

LEARN_OF_TASK(a_checkpoint_that_is_cancelled_is_behind_what_the_failed_child_did, "NCG-2")
{
    KIN_NURSERY(n, .on_error = KIN_FAIL_FAST);
    end->n = &n;
    end->waits = true;
    spawn_end(end, -EIO, false);
    come_near(end);
    while (kin_checkpoint() == 0) /* ends: when it is over */
        look_again();
    expect_seen(end);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
}

LEARN_OF_TASK(a_wait_that_is_cancelled_is_behind_what_the_failed_child_did, "NCG-2")
{
    KIN_NURSERY(n, .on_error = KIN_FAIL_FAST);
    end->n = &n;
    spawn_end(end, -EIO, false);
    while (kin_sleep(KIN_NEVER) == 0) { /* ends: when it is over */
    }
    expect_seen(end);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
}

/* One who has linked with somebody, and hears of the end as its own cancellation. */
static int share_fate(void *arg)
{
    struct end *end = arg;
    struct kin_link_ref ref;
    EXPECT_EQ(kin_link(end->who, KIN_EXIT_PROPAGATE, KIN_EXIT_IGNORE, &ref), 0);
    let_end(end, -EIO);
    while (!kin_cancelled()) /* ends: when it is over */
        look_again();
    expect_seen(end);
    return 0;
}

LEARN_OF_DESK(a_fate_that_is_shared_is_behind_what_the_other_did, "LINK-EXIT")
{
    HOUSE(inner);
    EXPECT_EQ(kin_spawn(&inner, share_fate, end), 0);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
}

/* The end of all. */
static int end_of_all(void *arg)
{
    struct end *end = arg;
    HOUSE(n);
    end->n = &n;
    spawn_end(end, 0, false);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    end->last_act++;
    return 0;
}

KIN_TEST(the_end_of_a_runtime_is_behind_what_its_tasks_did, "")
{
    for (int i = 0; i < ROUNDS; i++) {
        struct end end = {0};
        EXPECT_EQ(run_reporting(2, end_of_all, &end, NULL), 0);
        EXPECT_EQ(end.last_act, 2);
    }
}
