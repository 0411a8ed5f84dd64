/* SPDX-License-Identifier: MIT */
/*
 * Goal: a server stops as whoever stops it asked: what was in its mailbox is handled or refused by
 * its policy, on_stop runs once, masked, with the true reason, or not at all; nothing that it does
 * then outlasts its stop timeout; and when the stop returns nothing of it is left.
 * Method: every way to end against every policy, with calls and casts in the box and in the room;
 * callbacks that hang, fail, and stop during the drain.
 */
#include "otp/desk.h"

/* ---- the ways to end ---- */

enum way { STOP, STOP_WITH, CANCEL, CANCEL_NURSERY, FAILS, SELF, SELF_WITH, CRASH, PANIC, WAYS };

/* What the end of the server looks like. */
static const struct {
    bool drains, stops; /* on_stop runs */
    enum kin_down_reason reason;
    int status, callers; /* what callers in the box get; 0: as the policy says */
} truth[WAYS] = {
    [STOP] = {true, true, KIN_DOWN_NORMAL, 0, KIN_STOPPING},
    [STOP_WITH] = {true, true, KIN_DOWN_ERROR, -ESHUTDOWN, KIN_STOPPING},
    [CANCEL] = {true, true, KIN_DOWN_CANCELLED, KIN_CANCELLED, KIN_STOPPING},
    [CANCEL_NURSERY] = {true, true, KIN_DOWN_CANCELLED, KIN_CANCELLED, KIN_STOPPING},
    [FAILS] = {false, true, KIN_DOWN_ERROR, -EIO, -EIO},
    [SELF] = {false, true, KIN_DOWN_NORMAL, 0, KIN_STOPPING},
    [SELF_WITH] = {false, true, KIN_DOWN_ERROR, -EPIPE, -EPIPE},
    [CRASH] = {false, true, KIN_DOWN_ERROR, -EDOM, -EDOM},
    [PANIC] = {false, false, KIN_DOWN_PANICKED, KIN_PANICKED, KIN_PANICKED},
};

static void jot_why(struct desk *desk, const struct kin_outcome *why)
{
    jot(desk->plan.diary, "why:%d:%d", (int)why->severity, why->status);
    EXPECT_EQ(why->task, kin_self().id);
    EXPECT_EQ(kin_server_state(kin_self_addr()), KIN_SERVER_STOPPING);
    EXPECT_EQ(kin_sleep(kin_after(1)), 0); /* masked: it may wait */
}

/* Waits at the gate and then ends as n says. */
static int do_end(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct gate *gate = job->p;
    enum way way = (enum way)job->n;
    (void)reply;
    kin_event_set(&gate->reached);
    kin_mask();
    EXPECT_EQ(kin_event_wait(&gate->open, KIN_NEVER), 0);
    kin_unmask();
    if (way == FAILS)
        return -EIO;
    if (way == SELF || way == SELF_WITH)
        return kin_server_stop_self(desk->server, way == SELF ? 0 : -EPIPE);
    if (way == CRASH)
        kin_fail(-EDOM, "as asked");
    if (way == PANIC)
        kin_panic("as asked");
    return 0;
}

struct stopper {
    struct kin_addr who;
    int reason, rc;
};

static int stop_it(void *arg)
{
    struct stopper *stopper = arg;
    stopper->rc = kin_server_stop(stopper->who, stopper->reason, KIN_NEVER);
    return 0;
}

/* Two letters in the box and two senders in the room, of each kind. */
struct crowd {
    struct caller caller[2], caster;
};

static void fill(struct kin_nursery *n, struct crowd *crowd, struct kin_addr desk)
{
    spawn_caller(n, &crowd->caller[0], desk, do_jot, 1);
    await(&crowd->caller[0].began, 1);
    let_others_run();
    while (ask_by(desk, do_jot, 9, NULL, 0) != KIN_FULL && send_by(desk, do_jot, 2, NULL, 0) != 0)
        kin_ignore(kin_yield()); /* ends: one of the two is true soon */
    while (ask_by(desk, do_jot, 9, NULL, 0) != KIN_FULL) /* ends: the call gets there */
        kin_ignore(kin_yield());
    spawn_caller(n, &crowd->caller[1], desk, do_jot, 3);
    memset(&crowd->caster, 0, sizeof crowd->caster);
    crowd->caster = (struct caller){.to = desk, .fn = do_jot, .n = 4};
    EXPECT_EQ(kin_spawn(n, caster_main, &crowd->caster), 0);
    await_parked(2, "call"); /* who comes later may find nobody */
    await_parked(1, "cast: room");
}

static void end_it(enum way way, struct kin_nursery *n, struct kin_nursery *house,
                   struct stopper *stopper)
{
    if (way == STOP || way == STOP_WITH) {
        stopper->reason = way == STOP ? 0 : -ESHUTDOWN;
        EXPECT_EQ(kin_spawn(n, stop_it, stopper), 0);
        while (kin_cast(stopper->who, NULL, 0, 0) != KIN_STOPPING) /* ends: it is asked */
            kin_ignore(kin_yield());
    } else if (way == CANCEL) {
        EXPECT_EQ(kin_task_cancel((struct kin_task_ref){stopper->who.id}), 0);
    } else if (way == CANCEL_NURSERY) {
        kin_nursery_cancel(house, 0);
    }
}

static void check_diary(struct diary *diary, enum way way, enum kin_drain drain)
{
    bool is_handled = truth[way].drains && drain != KIN_DRAIN_NONE;
    char word[32];
    snprintf(word, sizeof word, "why:%d:%d", (int)truth[way].reason, truth[way].status);
    if (truth[way].reason == KIN_DOWN_ERROR)
        snprintf(word, sizeof word, "why:%d:%d", (int)KIN_SEV_ERROR, truth[way].status);
    else if (truth[way].reason == KIN_DOWN_CANCELLED)
        snprintf(word, sizeof word, "why:%d:%d", (int)KIN_SEV_CANCELLED, truth[way].status);
    EXPECT_EQ(has_word(diary, word), truth[way].stops);
    EXPECT_EQ(has_word(diary, "cast:2"), is_handled);
    EXPECT_EQ(has_word(diary, "call:1"), truth[way].drains && drain == KIN_DRAIN_ALL);
    EXPECT(!has_word(diary, "call:3")); /* they stood in the room */
    EXPECT(!has_word(diary, "cast:4"));
}

static void one_end(enum way way, enum kin_drain drain)
{
    struct diary diary;
    struct gate gate;
    struct crowd crowd;
    memset(&gate, 0, sizeof gate);
    clear_diary(&diary);
    HOUSE(outer);
    HOUSE(house);
    struct desk_plan plan = {.diary = &diary, .on_stop = jot_why};
    DESK_OPTIONS(o);
    o.mailbox_capacity = 2;
    o.drain = drain;
    struct kin_addr desk = open_desk(&house, &plan, &o);
    struct stopper stopper = {.who = desk};
    struct kin_monitor_ref ref = watch(desk);
    EXPECT_EQ(send_to(desk, do_end, way, &gate), 0);
    EXPECT_EQ(kin_event_wait(&gate.reached, KIN_NEVER), 0);
    fill(&outer, &crowd, desk);
    end_it(way, &outer, &house, &stopper);
    kin_event_set(&gate.open);
    kin_mask(); /* the nursery of this very task may be cancelled */
    EXPECT_END(ref, truth[way].reason, truth[way].status);
    kin_unmask();
    EXPECT_EQ(kin_server_state(desk), KIN_SERVER_STOPPED);
    kin_ignore(kin_nursery_join(&house, NULL));
    EXPECT_EQ(kin_nursery_join(&outer, NULL), 0);
    bool is_answered = drain == KIN_DRAIN_ALL && truth[way].drains;
    EXPECT_EQ(crowd.caller[0].rc, is_answered ? 0 : truth[way].callers);
    if (way != PANIC) {
        EXPECT_EQ(crowd.caller[1].rc, KIN_STOPPING);
        EXPECT_EQ(crowd.caster.rc, KIN_STOPPING);
    }
    EXPECT_LT(crowd.caster.rc, 0);
    EXPECT_EQ(stopper.rc, 0);
    check_diary(&diary, way, drain);
}

static int in_all_ends(void *arg)
{
    (void)arg;
    for (int way = 0; way < WAYS; way++) {
        for (int drain = KIN_DRAIN_CASTS; drain <= KIN_DRAIN_ALL; drain++)
            one_end((enum way)way, (enum kin_drain)drain);
    }
    return 0;
}
KIN_TEST(every_way_to_end_does_what_it_should,
         "GS-STOP-BEGIN GS-DRAIN-MSG GS-DRAIN-DONE GS-STOPPED SINV-1")
{
    run_on_few(in_all_ends, NULL);
}

/* ---- kin_server_stop ---- */

static int in_stop(void *arg)
{
    struct gate gate;
    struct kin_addr found;
    (void)arg;
    HOUSE(n);
    DESK_OPTIONS(o);
    o.name = "office";
    struct kin_addr desk = open_desk(&n, NULL, &o);
    EXPECT_EQ(kin_server_stop(desk, 1, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_server_stop((struct kin_addr){0, 0}, 0, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_server_stop((struct kin_addr){0, desk.id + 4096}, 0, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_server_state(desk), KIN_SERVER_RUNNING);
    keep_busy(desk, &gate);
    EXPECT_EQ(kin_server_stop(desk, -EIO, 0), KIN_TIMEOUT); /* it goes on */
    EXPECT_EQ(kin_server_stop(desk, 0, kin_after(1)), KIN_TIMEOUT);
    struct stopper stopper = {.who = desk};
    HOUSE(inner);
    EXPECT_EQ(kin_spawn(&inner, stop_it, &stopper), 0);
    kin_event_set(&gate.open);
    int rc = kin_server_stop(desk, 0, KIN_NEVER); /* it may be over already */
    EXPECT(rc == 0 || rc == KIN_NOPROC);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    EXPECT(stopper.rc == 0 || stopper.rc == KIN_NOPROC);
    EXPECT_EQ(kin_whereis("office", &found), KIN_NOPROC);
    EXPECT_EQ(kin_server_stop(desk, 0, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO); /* the first reason stays */
    return 0;
}
KIN_TEST(a_stop_waits_until_nothing_is_left, "GS-STOPPED")
{
    run_on_few(in_stop, NULL);
    EXPECT_EQ(kin_server_stop((struct kin_addr){0, 1}, 0, KIN_NEVER), KIN_NOTASK);
    EXPECT_EQ(kin_server_state((struct kin_addr){0, 1}), KIN_SERVER_STOPPED);
}

/* Many ask at once. */
static int in_many_stops(void *arg)
{
    struct stopper stopper[8];
    (void)arg;
    for (int round = 0; round < enough(20, 1); round++) {
        HOUSE(n);
        HOUSE(inner);
        struct kin_addr desk = open_desk(&n, NULL, NULL);
        for (int i = 0; i < 8; i++) {
            stopper[i] = (struct stopper){.who = desk, .rc = 1};
            EXPECT_EQ(kin_spawn(&inner, stop_it, &stopper[i]), 0);
        }
        EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
        int good = 0;
        for (int i = 0; i < 8; i++) {
            EXPECT(stopper[i].rc == 0 || stopper[i].rc == KIN_NOPROC);
            good += stopper[i].rc == 0;
        }
        EXPECT_GE(good, 1);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}
KIN_TEST(many_may_stop_a_server_at_once, "GS-STOPPED")
{
    run_on_few(in_many_stops, NULL);
}

/* ---- during the drain ---- */

static int do_stop_in_drain(struct desk *desk, const struct task_at_desk *job,
                            struct kin_reply *reply)
{
    (void)reply;
    jot(desk->plan.diary, "last");
    if (job->n < 0)
        return (int)job->n;
    return kin_server_stop_self(desk->server, 0);
}

static int in_drain(void *arg)
{
    (void)arg;
    for (int fails = 0; fails < 2; fails++) {
        struct diary diary;
        struct gate gate;
        clear_diary(&diary);
        HOUSE(n);
        struct desk_plan plan = {.diary = &diary, .label = "x"};
        struct kin_addr desk = open_desk(&n, &plan, NULL);
        keep_busy(desk, &gate);
        EXPECT_EQ(send_to(desk, do_jot, 1, NULL), 0);
        EXPECT_EQ(send_to(desk, do_stop_in_drain, fails ? -EIO : 0, NULL), 0);
        EXPECT_EQ(send_to(desk, do_jot, 2, NULL), 0);
        EXPECT_EQ(kin_server_stop(desk, 0, 0), KIN_TIMEOUT);
        kin_event_set(&gate.open);
        await_end(desk);
        EXPECT_DIARY(&diary, "+x cast:1 last -x");
        EXPECT_EQ(kin_nursery_join(&n, NULL), fails ? -EIO : 0);
    }
    return 0;
}
KIN_TEST(a_callback_may_end_the_drain, "GS-DRAIN-MSG GS-DRAIN-DONE")
{
    run_on_few(in_drain, NULL);
}

static int go_on(struct desk *desk)
{
    jot(desk->plan.diary, "go");
    return 0;
}

static int jot_info(struct desk *desk, const struct kin_info *info)
{
    jot(desk->plan.diary, "info:%d", (int)info->kind);
    return 0;
}

/* Infos and continuations are part of the drain; timers are not. */
static int do_arrange(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct kin_monitor_ref ref;
    EXPECT_EQ(kin_server_timer_set(desk->server, 1, kin_after(KIN_SEC(1000))), 0);
    EXPECT_EQ(kin_monitor(*(struct kin_addr *)job->p, &ref), 0);
    answer(reply, 0);
    return 0;
}

static int do_go_on(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)job;
    jot(desk->plan.diary, "cast");
    answer(reply, 0);
    return KIN_CONTINUE;
}

static int in_drain_infos(void *arg)
{
    struct diary diary;
    struct gate gate;
    struct kin_task_ref ref;
    _Atomic int began = 0;
    (void)arg;
    clear_diary(&diary);
    HOUSE(n);
    struct desk_plan plan = {.diary = &diary, .label = "x", .on_info = jot_info,
                             .on_continue = go_on};
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    HOUSE(inner);
    EXPECT_EQ(kin_spawn_with(&inner, NULL, sleep_for_ever, &began, 0, &ref), 0);
    struct kin_addr who = kin_task_addr(ref);
    EXPECT_EQ(ask(desk, do_arrange, 0, &who), 0);
    keep_busy(desk, &gate);
    EXPECT_EQ(send_to(desk, do_go_on, 0, NULL), 0);
    close_house(&inner);
    EXPECT_EQ(kin_server_stop(desk, 0, 0), KIN_TIMEOUT);
    kin_event_set(&gate.open);
    await_end(desk);
    EXPECT_DIARY(&diary, "+x cast go info:0 -x");
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(infos_are_part_of_the_drain, "GS-DRAIN-MSG GS-INFO-DELIVER")
{
    run_on_few(in_drain_infos, NULL);
}

/* ---- the stop timeout ---- */

static void hang_in_stop(struct desk *desk, const struct kin_outcome *why)
{
    (void)why;
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED); /* though it is masked */
    jot(desk->plan.diary, "cut");
}

static int do_hang(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)job, (void)reply;
    int rc = kin_sleep(KIN_NEVER);
    jot(desk->plan.diary, "hung:%d", rc);
    return rc;
}

/* A server that hangs when it is stopped, in its drain or in on_stop. */
struct overdue {
    bool drains;
    int64_t timeout;
    bool has_hung; /* false: its time was over before it came to that */
};

static int in_overdue(void *arg)
{
    struct overdue *overdue = arg;
    struct diary diary;
    struct gate gate;
    bool drains = overdue->drains;
    clear_diary(&diary);
    HOUSE(n);
    struct desk_plan plan = {.diary = &diary, .on_stop = drains ? NULL : hang_in_stop};
    DESK_OPTIONS(o);
    o.stop_timeout = overdue->timeout;
    struct kin_addr desk = open_desk(&n, &plan, &o);
    keep_busy(desk, &gate);
    if (drains) {
        EXPECT_EQ(send_to(desk, do_hang, 0, NULL), 0);
        EXPECT_EQ(send_to(desk, do_jot, 1, NULL), 0); /* no more of the drain after that */
    }
    EXPECT_EQ(kin_server_stop(desk, 0, 0), KIN_TIMEOUT);
    kin_event_set(&gate.open);
    await_end(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0); /* it stopped as it was asked to */
    overdue->has_hung = has_word(&diary, drains ? "hung:-4096" : "cut");
    EXPECT_DIARY(&diary, !overdue->has_hung ? "" : drains ? "hung:-4096" : "cut");
    EXPECT(overdue->has_hung || drains);
    return 0;
}
KIN_TEST(a_stop_that_takes_too_long_is_cut_short, "GS-STOP-BEGIN GS-DRAIN-DONE")
{
    for (int drains = 0; drains < 2; drains++) {
        struct overdue overdue = {.drains = drains, .timeout = KIN_MS(1)};
        while (!overdue.has_hung) { /* ends: there is more time in each round */
            struct reports reports = {0};
            EXPECT_EQ(run_reporting(2, in_overdue, &overdue, &reports), 0);
            overdue.timeout *= 2;
            if (!overdue.has_hung)
                continue; /* it may have been slow to end all the same */
            EXPECT_EQ(reports.count, 1);
            EXPECT_EQ(reports.status[0], KIN_STUCK);
        }
    }
}
