/* SPDX-License-Identifier: MIT */
/*
 * Goal: a server does one thing at a time and the right one next: on_continue before messages,
 * infos before letters but never before letters that came before them, a stop before letters,
 * letters in order; and what its callbacks return is what becomes of it.
 * Method: a server that is kept busy while everything piles up, and a diary of what it then does;
 * servers that look whether another callback of theirs runs.
 */
#include "otp/desk.h"

/* ---- what callbacks return ---- */

static int in_returns(void *arg)
{
    static const struct {
        int rc, expected;
    } ways[] = {{-EIO, -EIO}, {2, -EBADMSG}, {INT32_MAX, -EBADMSG},
                {KIN_IGNORE, KIN_IGNORE}, {KIN_CANCELLED, KIN_CANCELLED}};
    (void)arg;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        for (int casts = 0; casts < 2; casts++) {
            struct diary diary;
            clear_diary(&diary);
            HOUSE(n);
            struct desk_plan plan = {.diary = &diary, .label = "x"};
            struct kin_addr desk = open_desk(&n, &plan, NULL);
            struct kin_monitor_ref ref = watch(desk);
            if (casts)
                EXPECT_EQ(send_to(desk, do_return, ways[i].rc, NULL), 0);
            else
                EXPECT_EQ(ask(desk, do_return_only, ways[i].rc, NULL), ways[i].expected);
            EXPECT_END(ref, KIN_DOWN_ERROR, ways[i].expected);
            EXPECT_DIARY(&diary, "+x -x");
            EXPECT_EQ(kin_nursery_join(&n, NULL), ways[i].expected);
        }
    }
    return 0;
}
KIN_TEST(what_a_callback_returns_ends_the_server, "GS-STOPPED")
{
    run_on_few(in_returns, NULL);
}

/* ---- on_continue ---- */

static int jot_continue(struct desk *desk)
{
    jot(desk->plan.diary, "go:%ld", desk->sum);
    return --desk->sum > 0 ? KIN_CONTINUE : 0;
}

static int start_continuing(struct desk *desk)
{
    desk->sum = 2;
    return KIN_CONTINUE;
}

static int do_continue(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    desk->sum = job->n;
    jot(desk->plan.diary, reply ? "call" : "cast");
    answer(reply, 0);
    return KIN_CONTINUE;
}

static int in_continue(void *arg)
{
    struct diary diary;
    struct gate gate;
    (void)arg;
    clear_diary(&diary);
    HOUSE(n);
    struct desk_plan plan = {.diary = &diary, .on_start = start_continuing,
                             .on_continue = jot_continue};
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    keep_busy(desk, &gate);
    EXPECT_EQ(send_to(desk, do_continue, 3, NULL), 0);
    EXPECT_EQ(send_to(desk, do_jot, 1, NULL), 0);
    kin_event_set(&gate.open);
    EXPECT_EQ(ask(desk, do_continue, 1, NULL), 0);
    close_desk(desk);
    EXPECT_DIARY(&diary, "go:2 go:1 cast go:3 go:2 go:1 cast:1 call go:1");
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(on_continue_comes_before_the_next_message, "GS-CAST-HANDLE")
{
    run_on_few(in_continue, NULL);
}

/* ---- one at a time, in order ---- */

static int do_alone(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    _Atomic int *inside = job->p;
    EXPECT_EQ(atomic_fetch_add(inside, 1), 0);
    kin_ignore(kin_yield());
    desk->sum++;
    EXPECT_EQ(atomic_fetch_sub(inside, 1), 1);
    answer(reply, (int)desk->sum);
    return 0;
}

static int in_alone(void *arg)
{
    _Atomic int inside = 0;
    struct caller caller[16];
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    int count = enough(16, 3);
    {
        HOUSE(inner);
        for (int i = 0; i < count; i++) {
            memset(&caller[i], 0, sizeof caller[i]);
            caller[i].to = desk;
            caller[i].fn = do_alone;
            caller[i].p = &inside;
            EXPECT_EQ(kin_spawn(&inner, i % 2 ? caller_main : caster_main, &caller[i]), 0);
        }
        EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    }
    EXPECT_EQ(ask(desk, do_add, 0, NULL), count);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(callbacks_never_run_at_once, "GS-CALL-HANDLE GS-CAST-HANDLE")
{
    run_on_few(in_alone, NULL);
}

/* ---- infos among letters ---- */

static int jot_down(struct desk *desk, const struct kin_info *info)
{
    if (info->kind == KIN_INFO_DOWN)
        jot(desk->plan.diary, "down");
    else
        jot(desk->plan.diary, "time:%d", (int)info->u.timeout.id);
    return 0;
}

/* Watches the task p. */
static int do_watch(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct kin_monitor_ref ref;
    (void)desk;
    EXPECT_EQ(kin_monitor(*(struct kin_addr *)job->p, &ref), 0);
    answer(reply, 0);
    return 0;
}

/* Sends a last word, when its gate opens, and ends. */
struct goodbye {
    struct kin_addr to;
    struct gate gate;
};

static int say_goodbye(void *arg)
{
    struct goodbye *goodbye = arg;
    EXPECT_EQ(kin_event_wait(&goodbye->gate.open, KIN_NEVER), 0);
    EXPECT_EQ(send_to(goodbye->to, do_jot, 1, NULL), 0);
    return 0;
}

static int do_timer_due(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    EXPECT_EQ(kin_server_timer_set(desk->server, (uint64_t)job->n, 1), 0);
    answer(reply, 0);
    return 0;
}

static int in_infos(void *arg)
{
    struct goodbye goodbye = {.gate = {{{0}}, {{0}}}};
    struct diary diary;
    struct gate gate;
    struct kin_task_ref ref;
    (void)arg;
    clear_diary(&diary);
    HOUSE(n);
    struct desk_plan plan = {.diary = &diary, .on_info = jot_down};
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    {
        HOUSE(inner);
        goodbye.to = desk;
        EXPECT_EQ(kin_spawn_with(&inner, NULL, say_goodbye, &goodbye, 0, &ref), 0);
        struct kin_addr who = kin_task_addr(ref);
        EXPECT_EQ(ask(desk, do_watch, 0, &who), 0);
        keep_busy(desk, &gate);
        kin_event_set(&goodbye.gate.open);
        EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    }
    EXPECT_EQ(send_to(desk, do_timer_due, 5, NULL), 0);
    EXPECT_EQ(send_to(desk, do_jot, 2, NULL), 0);
    kin_event_set(&gate.open);
    EXPECT_EQ(ask(desk, do_add, 0, NULL), 0);
    /* what was sent before the end, the news of it, then what came later; a timer at once */
    EXPECT_DIARY(&diary, "cast:1 down time:5 cast:2");
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(infos_come_before_letters_that_came_after_them, "GS-INFO-DELIVER GS-INFO-SORT SINV-4")
{
    run_on_few(in_infos, NULL);
}

/* ---- a stop among letters ---- */

/* Swallows the cancellation of whoever runs it. */
static int do_swallow(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct gate *gate = job->p;
    kin_event_set(&gate->reached);
    kin_ignore(kin_event_wait(&gate->open, KIN_NEVER));
    jot(desk->plan.diary, "swallowed");
    answer(reply, 0);
    return 0;
}

/* A server that is busy all the time hears of a cancellation before the next letter: calls are
 * refused, casts are the drain's. */
static int in_busy_cancel(void *arg)
{
    struct diary diary;
    struct gate gate;
    struct caller caller;
    (void)arg;
    clear_diary(&diary);
    memset(&gate, 0, sizeof gate);
    HOUSE(n);
    struct desk_plan plan = {.diary = &diary, .label = "x"};
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    EXPECT_EQ(send_to(desk, do_swallow, 0, &gate), 0);
    EXPECT_EQ(kin_event_wait(&gate.reached, KIN_NEVER), 0);
    EXPECT_EQ(send_to(desk, do_jot, 1, NULL), 0);
    HOUSE(inner);
    spawn_caller(&inner, &caller, desk, do_jot, 2);
    await_parked(1, "call"); /* who comes later may find nobody */
    EXPECT_EQ(kin_task_cancel((struct kin_task_ref){desk.id}), 0);
    int rc = send_to(desk, do_jot, 3, NULL); /* from this moment on */
    EXPECT(rc == KIN_STOPPING || rc == KIN_NOPROC);
    rc = ask(desk, do_jot, 4, NULL);
    EXPECT(rc == KIN_STOPPING || rc == KIN_NOPROC);
    await_end(desk);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    EXPECT_EQ(caller.rc, KIN_STOPPING);
    EXPECT_DIARY(&diary, "+x swallowed cast:1 -x");
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}
KIN_TEST(a_busy_server_hears_of_a_cancellation, "GS-STOP-BEGIN GS-DRAIN-MSG")
{
    run_on_few(in_busy_cancel, NULL);
}

/* Gives up when it is cancelled, and leaves its caller without an answer. */
static int do_give_up(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    static struct kin_event never;
    (void)desk, (void)job, (void)reply;
    return kin_event_wait(&never, KIN_NEVER);
}

static int in_giving_up(void *arg)
{
    struct diary diary;
    struct caller caller;
    (void)arg;
    clear_diary(&diary);
    HOUSE(n);
    struct desk_plan plan = {.diary = &diary, .label = "x"};
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    HOUSE(inner);
    spawn_caller(&inner, &caller, desk, do_give_up, 0);
    await_parked(1, "event");
    EXPECT_EQ(kin_task_cancel((struct kin_task_ref){desk.id}), 0);
    await_end(desk);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    EXPECT_EQ(caller.rc, KIN_STOPPING); /* it was aborted by the drain, not forgotten */
    EXPECT_DIARY(&diary, "+x -x");
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}
KIN_TEST(a_call_that_a_cancelled_callback_leaves_is_refused_not_forgotten, "GS-REPLY-LEAK")
{
    run_on_few(in_giving_up, NULL);
}

/* ---- turns ---- */

static int set_flag(void *arg)
{
    atomic_store((_Atomic int *)arg, 1);
    return 0;
}

/* Sends itself the same again until the flag is set: it always has something to do. */
static int do_keep_going(struct desk *desk, const struct task_at_desk *job,
                         struct kin_reply *reply)
{
    (void)desk, (void)reply;
    return atomic_load((_Atomic int *)job->p)
               ? 0
               : kin_server_timer_set(desk->server, 1, 1);
}

static int keep_going(struct desk *desk, const struct kin_info *info)
{
    (void)info;
    return atomic_load((_Atomic int *)desk->plan.p) ? 0 : kin_server_timer_set(desk->server, 1, 1);
}

/* One worker: whoever is spawned into its queue runs although the server never waits. */
static int in_turns(void *arg)
{
    _Atomic int flag = 0;
    (void)arg;
    HOUSE(n);
    struct desk_plan plan = {.on_info = keep_going, .p = &flag};
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    EXPECT_EQ(send_to(desk, do_keep_going, 0, &flag), 0);
    EXPECT_EQ(kin_spawn(&n, set_flag, &flag), 0);
    await(&flag, 1);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_server_that_never_waits_lets_others_run, "GS-CAST-HANDLE")
{
    run_on_few(in_turns, NULL);
}

/* Where two tell each other how far they are. */
struct meeting {
    _Atomic int has_begun, is_over;
};

static int go_on_and_on(struct desk *desk)
{
    struct meeting *meeting = desk->plan.p;
    atomic_store(&meeting->has_begun, 1);
    return atomic_load(&meeting->is_over) ? 0 : KIN_CONTINUE;
}

/* A server that calls nothing of kin and finds something to do without looking at its mailbox. */
static int in_turns_of_callbacks(void *arg)
{
    struct meeting meeting = {0};
    (void)arg;
    HOUSE(n);
    struct desk_plan plan = {.on_continue = go_on_and_on, .p = &meeting};
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    EXPECT_EQ(send_to(desk, do_return, KIN_CONTINUE, NULL), 0);
    await(&meeting.has_begun, 1);
    atomic_store(&meeting.is_over, 1); /* this task has had its turn */
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_server_that_only_continues_lets_others_run, "GS-CAST-HANDLE")
{
    run_on_few(in_turns_of_callbacks, NULL);
}

/* ---- what callbacks leave behind ---- */

static int do_push_deadline(struct desk *desk, const struct task_at_desk *job,
                            struct kin_reply *reply)
{
    (void)desk, (void)job;
    kin_deadline_push(1); /* and never takes it back */
    answer(reply, 0);
    return 0;
}

static int in_leftovers(void *arg)
{
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    EXPECT_EQ(ask(desk, do_push_deadline, 0, NULL), 0);
    let_others_run();
    EXPECT_EQ(ask(desk, do_add, 1, NULL), 1);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_deadline_that_a_callback_leaves_behind_is_gone, "GS-CALL-HANDLE")
{
    run_on_few(in_leftovers, NULL);
}

/* Waiting for somebody's end in a callback does not take letters, and is not woken by them. */
static int do_wait_down(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct kin_monitor_ref ref;
    struct kin_info info;
    struct goodbye *goodbye = job->p;
    EXPECT_EQ(kin_monitor(goodbye->to, &ref), 0);
    kin_event_set(&goodbye->gate.reached);
    EXPECT_EQ(kin_wait_down(ref, &info, KIN_NEVER), 0);
    jot(desk->plan.diary, "waited");
    answer(reply, 0);
    return 0;
}

static int wait_here(void *arg)
{
    struct goodbye *goodbye = arg;
    return kin_event_wait(&goodbye->gate.open, KIN_NEVER);
}

static int in_wait_down(void *arg)
{
    struct goodbye goodbye = {.gate = {{{0}}, {{0}}}};
    struct diary diary;
    struct kin_task_ref ref;
    (void)arg;
    clear_diary(&diary);
    HOUSE(n);
    struct desk_plan plan = {.diary = &diary, .on_info = jot_down};
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    HOUSE(inner);
    EXPECT_EQ(kin_spawn_with(&inner, NULL, wait_here, &goodbye, 0, &ref), 0);
    goodbye.to = kin_task_addr(ref);
    EXPECT_EQ(send_to(desk, do_wait_down, 0, &goodbye), 0);
    EXPECT_EQ(kin_event_wait(&goodbye.gate.reached, KIN_NEVER), 0);
    let_others_run();
    EXPECT_EQ(send_to(desk, do_jot, 1, NULL), 0);
    let_others_run();
    kin_event_set(&goodbye.gate.open);
    EXPECT_EQ(ask(desk, do_add, 0, NULL), 0);
    EXPECT_DIARY(&diary, "waited cast:1"); /* and on_info is not told again */
    EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_callback_may_wait_for_an_end, "GS-INFO-DELIVER")
{
    run_on_few(in_wait_down, NULL);
}
