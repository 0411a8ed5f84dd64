/* SPDX-License-Identifier: MIT */
/*
 * Goal: nothing that callbacks bring about keeps a stop, a cancellation or the end of a grace away
 * from a server; and the drain that follows handles all that was there when it began, and no more.
 * Method: servers that find something new to do for ever, in each way there is, against each way to
 * end one; then a drain with more news than its mailbox holds letters, and one whose callbacks make
 * more of everything, with every callback counted.
 */
#include "otp/desk.h"

/* ---- servers that are never done ---- */

enum spring { CONTINUES, INFOS, TIMERS, ITS_CASTS, SPRINGS };

/* What is behind the plan of a desk. */
struct source {
    enum spring spring;
    _Atomic int runs;
};

static void watch_nobody(void)
{
    watch((struct kin_addr){0, 0}); /* is told at once */
}

static int do_spring(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct source *source = desk->plan.p;
    (void)job, (void)reply;
    atomic_fetch_add(&source->runs, 1);
    linger(); /* the lab has no other moment at which somebody else could run */
    switch (source->spring) {
    case CONTINUES:
        return KIN_CONTINUE;
    case INFOS:
        watch_nobody();
        break;
    case TIMERS:
        EXPECT_EQ(kin_server_timer_set(desk->server, 1, 1), 0);
        break;
    default: {
        int rc = send_by(kin_self_addr(), do_spring, 0, NULL, 0);
        EXPECT(rc == 0 || rc == KIN_STOPPING);
        break;
    }
    }
    return 0;
}

static int spring_again(struct desk *desk)
{
    return do_spring(desk, NULL, NULL);
}

static int spring_on_info(struct desk *desk, const struct kin_info *info)
{
    (void)info;
    return do_spring(desk, NULL, NULL);
}

enum way { STOP, CANCEL, CANCEL_NURSERY, WAYS };

static int in_starved(void *arg)
{
    struct source source = {.spring = *(enum spring *)arg};
    struct desk_plan plan = {
        .on_info = spring_on_info, .on_continue = spring_again, .p = &source};
    for (int way = 0; way < WAYS; way++) {
        HOUSE(n);
        atomic_store(&source.runs, 0);
        struct kin_addr desk = open_desk(&n, &plan, NULL);
        EXPECT_EQ(send_to(desk, do_spring, 0, NULL), 0);
        await_flag(&source.runs, 3);
        if (way == STOP)
            EXPECT_EQ(kin_server_stop(desk, 0, KIN_NEVER), 0);
        else if (way == CANCEL)
            EXPECT_EQ(kin_task_cancel((struct kin_task_ref){desk.id}), 0);
        else
            kin_nursery_cancel(&n, KIN_CANCELLED);
        kin_ignore(kin_nursery_join(&n, NULL));
    }
    return 0;
}

static void starve(enum spring spring)
{
    run_on_few(in_starved, &spring);
}
KIN_TEST(an_on_continue_without_end_starves_no_stop, "GS-STOP-BEGIN D10 D19")
{
    starve(CONTINUES);
}
KIN_TEST(infos_without_end_starve_no_stop, "GS-STOP-BEGIN D10 D19")
{
    starve(INFOS);
}
KIN_TEST(timers_without_end_starve_no_stop, "GS-STOP-BEGIN D10 D19")
{
    starve(TIMERS);
}
KIN_TEST(casts_to_itself_without_end_starve_no_stop, "GS-STOP-BEGIN D10 D19")
{
    starve(ITS_CASTS);
}

/* A supervisor is killed with its children when its grace is over, whatever they do. */
static int start_spring(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    struct desk_plan plan = {.on_info = spring_on_info,
                             .on_continue = spring_again,
                             .p = *(struct source *const *)arg};
    int rc = try_open_desk(n, &plan, NULL, out);
    return rc < 0 ? rc : send_to(*out, do_spring, 0, NULL);
}

static int in_killed(void *arg)
{
    struct source source = {.spring = *(enum spring *)arg}, *at = &source;
    struct kin_child_spec child = {.name = "spring",
                                   .start = start_spring,
                                   .arg = &at,
                                   .arg_size = sizeof at,
                                   .shutdown = KIN_BRUTAL};
    struct kin_addr sup;
    HOUSE(n);
    EXPECT_EQ(kin_supervisor_start(&n, NULL, &child, 1, &sup), 0);
    await_flag(&source.runs, 3);
    EXPECT_EQ(kin_supervisor_terminate_child(sup, "spring", KIN_NEVER), 0);
    close_desk(sup);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(nothing_without_end_starves_a_kill, "D10 D19")
{
    for (enum spring spring = 0; spring < SPRINGS; spring++)
        run_on_few(in_killed, &spring);
}

/* ---- what a drain handles ---- */

enum { WATCHED = 9, CAPACITY = 2 };

struct tally {
    int infos, casts, continues;
};

static int count_info(struct desk *desk, const struct kin_info *info)
{
    struct tally *tally = desk->plan.p;
    EXPECT_EQ(info->kind, KIN_INFO_DOWN);
    tally->infos++;
    return 0;
}

static int do_count(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct tally *tally = desk->plan.p;
    (void)job, (void)reply;
    tally->casts++;
    return 0;
}

static int do_watch(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)desk;
    watch(*(struct kin_addr *)job->p);
    answer(reply, 0);
    return 0;
}

static int stand(void *arg)
{
    return kin_event_wait(arg, KIN_NEVER);
}

/* WATCHED tasks that the desk watches end while it is busy, and a cast waits behind that. */
static void pile_up(struct kin_addr desk, struct gate *gate)
{
    struct kin_event go = {0};
    HOUSE(n);
    for (int i = 0; i < WATCHED; i++) {
        struct kin_task_ref task;
        EXPECT_EQ(kin_spawn_with(&n, NULL, stand, &go, 0, &task), 0);
        struct kin_addr who = kin_task_addr(task);
        EXPECT_EQ(ask(desk, do_watch, 0, &who), 0);
    }
    keep_busy(desk, gate);
    kin_event_set(&go);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(send_to(desk, do_count, 0, NULL), 0);
}

static int in_drained(void *arg)
{
    (void)arg;
    for (int way = 0; way < WAYS; way++) {
        struct tally tally = {0, 0, 0};
        struct desk_plan plan = {.on_info = count_info, .p = &tally};
        struct gate gate;
        DESK_OPTIONS(o);
        o.mailbox_capacity = CAPACITY;
        HOUSE(n);
        struct kin_addr desk = open_desk(&n, &plan, &o);
        pile_up(desk, &gate);
        if (way == STOP)
            EXPECT_EQ(kin_server_stop(desk, 0, 0), KIN_TIMEOUT);
        else if (way == CANCEL)
            EXPECT_EQ(kin_task_cancel((struct kin_task_ref){desk.id}), 0);
        else
            kin_nursery_cancel(&n, KIN_CANCELLED);
        kin_event_set(&gate.open);
        kin_ignore(kin_nursery_join(&n, NULL));
        EXPECT_EQ(tally.infos, WATCHED);
        EXPECT_EQ(tally.casts, 1);
    }
    return 0;
}
KIN_TEST(a_drain_loses_no_news_and_no_cast, "GS-DRAIN-MSG D3")
{
    run_on_few(in_drained, NULL);
}

static int make_more(struct desk *desk, const struct kin_info *info)
{
    struct tally *tally = desk->plan.p;
    (void)info;
    tally->infos++;
    watch_nobody();
    return KIN_CONTINUE;
}

static int continue_more(struct desk *desk)
{
    struct tally *tally = desk->plan.p;
    tally->continues++;
    watch_nobody();
    return KIN_CONTINUE;
}

static int do_make_more(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct tally *tally = desk->plan.p;
    (void)job, (void)reply;
    tally->casts++;
    watch_nobody();
    EXPECT_EQ(send_by(kin_self_addr(), do_make_more, 0, NULL, 0), KIN_STOPPING);
    EXPECT_EQ(kin_server_timer_set(desk->server, 1, 1), 0);
    return KIN_CONTINUE;
}

static int do_leave_news(struct desk *desk, const struct task_at_desk *job,
                         struct kin_reply *reply)
{
    (void)desk;
    watch_nobody();
    watch_nobody();
    return do_wait(desk, job, reply);
}

static int in_bounded(void *arg)
{
    struct tally tally = {0, 0, 0};
    struct desk_plan plan = {.on_info = make_more, .on_continue = continue_more, .p = &tally};
    struct gate gate;
    (void)arg;
    memset(&gate, 0, sizeof gate);
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    EXPECT_EQ(send_to(desk, do_leave_news, 0, &gate), 0);
    EXPECT_EQ(kin_event_wait(&gate.reached, KIN_NEVER), 0);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(send_to(desk, do_make_more, 0, NULL), 0);
    EXPECT_EQ(kin_server_stop(desk, 0, 0), KIN_TIMEOUT);
    kin_event_set(&gate.open);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(tally.infos, 2);
    EXPECT_EQ(tally.casts, 3);
    EXPECT_EQ(tally.continues, 5); /* one for each of them */
    return 0;
}
KIN_TEST(a_drain_handles_what_was_there_and_no_more, "GS-DRAIN-MSG GS-STOP-BEGIN D19")
{
    run_on_few(in_bounded, NULL);
}
