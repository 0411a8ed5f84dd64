/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the own tests of other actor systems ask of monitors, links and signals, asked of
 *       kin's: cases K160 to K185. Each test names its case.
 * Method: black box, one body per case, on 1, 2 and 4 workers.
 *
 * Cases that kin answers elsewhere or has nothing to ask of:
 *   K177            being killed: C has no kill; the length of chains is asked in K175
 *   K180            an exit that is caught on the way: kin_fail returns to nobody
 *   K181            aliases: an answer goes to the call that it belongs to, see K052
 *   K183            suspending a task: nobody can
 *   K185            lanes of messages: conform_order_test.c
 */
#include "otp/desk.h"

/* Somebody who ends when and how he is told. */
struct mortal {
    struct kin_event go_on;
    int status;       /* what it returns */
    bool panics;
    _Atomic int started;
    struct kin_task_ref ref;
};

static int mortal_main(void *arg)
{
    struct mortal *mortal = arg;
    atomic_store(&mortal->started, 1);
    int rc = kin_event_wait(&mortal->go_on, KIN_NEVER);
    if (rc < 0)
        return rc;
    if (mortal->panics)
        kin_panic("as told");
    return mortal->status;
}

static struct kin_addr spawn_mortal(struct kin_nursery *n, struct mortal *mortal, int status)
{
    memset(mortal, 0, sizeof *mortal);
    mortal->status = status;
    EXPECT_EQ(kin_spawn_with(n, NULL, mortal_main, mortal, 0, &mortal->ref), 0);
    await_flag(&mortal->started, 1);
    return kin_task_addr(mortal->ref);
}

/* ---- monitors ---- */

/* K160: every way to end, seen by a plain task. */
static int in_k160_a_monitor_tells_how_somebody_ended(void *arg)
{
    const int status[] = {0, 7, -EIO, KIN_CLOSED};
    struct mortal mortal;
    HOUSE(n);
    (void)arg;
    for (size_t i = 0; i < 4; i++) {
        struct kin_addr who = spawn_mortal(&n, &mortal, status[i]);
        struct kin_monitor_ref ref = watch(who);
        struct kin_info info;
        EXPECT_EQ(kin_wait_down(ref, &info, 0), KIN_TIMEOUT);
        kin_event_set(&mortal.go_on);
        info = end_of(ref);
        EXPECT(kin_addr_same(info.u.down.who, who));
        EXPECT_EQ(info.u.down.reason, status[i] < 0 ? KIN_DOWN_ERROR : KIN_DOWN_NORMAL);
        EXPECT_EQ(info.u.down.status, status[i] < 0 ? status[i] : 0);
        EXPECT_GT(info.vt, 0);
    }
    struct kin_monitor_ref ref = watch(spawn_mortal(&n, &mortal, 0));
    EXPECT_EQ(kin_task_cancel(mortal.ref), 0);
    EXPECT_END(ref, KIN_DOWN_CANCELLED, KIN_CANCELLED);
    ref = watch(spawn_mortal(&n, &mortal, 0));
    mortal.panics = true;
    kin_event_set(&mortal.go_on);
    EXPECT_END(ref, KIN_DOWN_PANICKED, KIN_PANICKED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_PANICKED);
    return 0;
}

KIN_TEST(k160_a_monitor_tells_how_somebody_ended, "K160 MON-CREATE MON-DOWN")
{
    run_on_few(in_k160_a_monitor_tells_how_somebody_ended, NULL);
}

static int fail_at_depth(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(100))), 0);
    kin_fail(-EDOM, "from below");
}

/* K160: somebody who is over already, or never was, or is elsewhere. */
static int in_k160_a_monitor_of_somebody_who_is_not_there(void *arg)
{
    struct kin_task_ref ref;
    struct kin_info info;
    struct kin_outcome out;
    HOUSE(n);
    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, fail_at_depth, NULL, 0, &ref), 0);
    EXPECT_EQ(kin_task_join(&n, ref, &out, KIN_NEVER), 0);
    struct kin_addr who = kin_task_addr(ref);
    info = end_of(watch(who));
    EXPECT((info.u.down.reason == KIN_DOWN_ERROR && info.u.down.status == -EDOM) ||
           (info.u.down.reason == KIN_DOWN_NOPROC && info.u.down.status == KIN_NOPROC));
    EXPECT(kin_addr_same(info.u.down.who, who));
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EDOM);
    const struct kin_addr nobody[] = {{0, 0}, {0, UINT64_MAX}, {0, 1}};
    for (size_t i = 0; i < 3; i++) {
        struct kin_monitor_ref watching = watch(nobody[i]);
        EXPECT_EQ(kin_wait_down(watching, &info, 0), 0); /* it is there at once */
        EXPECT_EQ(info.u.down.reason, KIN_DOWN_NOPROC);
        EXPECT_EQ(info.u.down.status, KIN_NOPROC);
        EXPECT(kin_addr_same(info.u.down.who, nobody[i]));
        EXPECT_EQ(info.u.down.ref.id, watching.id);
    }
    EXPECT_EQ(kin_wait_down(watch((struct kin_addr){9, 5}), &info, 0), 0);
    EXPECT_EQ(info.u.down.reason, KIN_DOWN_NOCONN);
    return 0;
}

KIN_TEST(k160_a_monitor_of_somebody_who_is_not_there, "K160 D12")
{
    run_on_few(in_k160_a_monitor_of_somebody_who_is_not_there, NULL);
}

static int jot_down(struct desk *desk, const struct kin_info *info)
{
    if (info->kind == KIN_INFO_DOWN)
        jot(desk->plan.diary, "down:%d", info->u.down.status);
    else if (info->kind == KIN_INFO_EXIT)
        jot(desk->plan.diary, "exit:%d", info->u.exit.status);
    else
        jot(desk->plan.diary, "other:%d", (int)info->kind);
    return 0;
}

static int do_watch(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct kin_monitor_ref ref;
    (void)desk;
    EXPECT_EQ(kin_monitor(*(struct kin_addr *)job->p, &ref), 0);
    answer(reply, 0);
    return 0;
}

static int do_link(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct kin_link_ref ref;
    (void)desk;
    EXPECT_EQ(kin_link(*(struct kin_addr *)job->p, (enum kin_exit_policy)job->n, KIN_EXIT_IGNORE,
                       &ref),
              0);
    answer(reply, 0);
    return 0;
}

/* K160 K168: a server is told by its callback, once for each monitor. */
static int in_k160_k168_a_server_is_told_by_its_callback(void *arg)
{
    struct diary diary;
    struct mortal mortal;
    struct desk_plan plan = {.diary = &diary, .on_info = jot_down};
    char want[64];
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    struct kin_addr who = spawn_mortal(&n, &mortal, -EIO);
    EXPECT_EQ(ask(desk, do_watch, 0, &who), 0);
    EXPECT_EQ(ask(desk, do_watch, 0, &who), 0);
    kin_event_set(&mortal.go_on);
    await_words(&diary, 2);
    EXPECT_EQ(ask(desk, do_watch, 0, &(struct kin_addr){0, 0}), 0);
    await_words(&diary, 3);
    snprintf(want, sizeof want, "down:%d down:%d down:%d", -EIO, -EIO, KIN_NOPROC);
    EXPECT_DIARY(&diary, want);
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(k160_k168_a_server_is_told_by_its_callback, "K160 K168 MON-DOWN GS-INFO-DELIVER")
{
    run_on_few(in_k160_k168_a_server_is_told_by_its_callback, NULL);
}

/* K161: a monitor that is taken back before the end tells nothing. */
static int in_k161_a_monitor_that_is_taken_back_tells_nothing(void *arg)
{
    struct mortal mortal;
    struct kin_info info;
    HOUSE(n);
    (void)arg;
    EXPECT_EQ(kin_demonitor((struct kin_monitor_ref){0}), KIN_STALE);
    EXPECT_EQ(kin_demonitor((struct kin_monitor_ref){UINT64_MAX}), KIN_STALE);
    EXPECT_EQ(kin_demonitor((struct kin_monitor_ref){12345}), KIN_STALE);
    struct kin_addr who = spawn_mortal(&n, &mortal, 0);
    struct kin_monitor_ref kept = watch(who), dropped = watch(who);
    EXPECT_NE(kept.id, dropped.id);
    EXPECT_EQ(kin_demonitor(dropped), 0);
    EXPECT_EQ(kin_demonitor(dropped), KIN_STALE);
    EXPECT_EQ(kin_wait_down(dropped, &info, KIN_NEVER), KIN_STALE);
    kin_event_set(&mortal.go_on);
    EXPECT_END(kept, KIN_DOWN_NORMAL, 0);
    EXPECT_EQ(kin_wait_down(dropped, &info, KIN_NEVER), KIN_STALE);
    EXPECT_EQ(kin_demonitor(kept), KIN_STALE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k161_a_monitor_that_is_taken_back_tells_nothing, "K161")
{
    run_on_few(in_k161_a_monitor_that_is_taken_back_tells_nothing, NULL);
}

/* K162: taking one back that has fired takes its news away, and no other's. */
static int in_k162_a_monitor_that_fired_is_flushed(void *arg)
{
    struct mortal mortal;
    struct kin_info info;
    HOUSE(n);
    struct kin_addr who = spawn_mortal(&n, &mortal, -EIO);
    struct kin_monitor_ref first = watch(who), second = watch(who), third = watch(who);
    (void)arg;
    kin_event_set(&mortal.go_on);
    EXPECT_END(second, KIN_DOWN_ERROR, -EIO);
    EXPECT_EQ(kin_wait_down(third, &info, KIN_NEVER), 0);
    EXPECT_EQ(kin_demonitor(first), KIN_STALE);
    EXPECT_EQ(kin_wait_down(first, &info, KIN_NEVER), KIN_STALE);
    EXPECT_EQ(kin_wait_down(third, &info, KIN_NEVER), KIN_STALE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(k162_a_monitor_that_fired_is_flushed, "K162 D12")
{
    run_on_few(in_k162_a_monitor_that_fired_is_flushed, NULL);
}

/* K162: the same in a server: news that waits behind a callback is taken away by it. */
static int do_demonitor_after_end(struct desk *desk, const struct task_at_desk *job,
                                  struct kin_reply *reply)
{
    struct mortal *mortal = job->p;
    struct kin_monitor_ref mine, other;
    (void)desk;
    EXPECT_EQ(kin_monitor(kin_task_addr(mortal->ref), &mine), 0);
    EXPECT_EQ(kin_monitor(kin_task_addr(mortal->ref), &other), 0);
    kin_event_set(&mortal->go_on);
    struct kin_info info;
    EXPECT_EQ(kin_wait_down(other, &info, KIN_NEVER), 0); /* taken here, not by on_info */
    int rc = kin_demonitor(mine);
    EXPECT(rc == KIN_STALE || rc == 0);
    answer(reply, 0);
    return 0;
}

static int in_k162_news_that_waits_behind_a_callback_is_taken_away(void *arg)
{
    struct diary diary;
    struct mortal mortal;
    struct desk_plan plan = {.diary = &diary, .on_info = jot_down};
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    spawn_mortal(&n, &mortal, 0);
    EXPECT_EQ(ask(desk, do_demonitor_after_end, 0, &mortal), 0);
    EXPECT_EQ(ask(desk, do_add, 0, NULL), 0);
    close_desk(desk);
    EXPECT_DIARY(&diary, "");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k162_news_that_waits_behind_a_callback_is_taken_away, "K162 D12")
{
    run_on_few(in_k162_news_that_waits_behind_a_callback_is_taken_away, NULL);
}

/* ---- both at once ---- */

struct duel {
    struct kin_barrier start;
    struct kin_task_ref task[2];
    _Atomic int known;
    int round;
};

/* Watches the other, then one of: cancels him, takes the monitor back, ends. */
static int duellist(struct duel *duel, int me)
{
    struct kin_monitor_ref ref;
    struct kin_link_ref link;
    struct kin_info info;
    int downs = 0;
    await_flag(&duel->known, 2);
    struct kin_addr other = kin_task_addr(duel->task[1 - me]);
    int rc = kin_monitor(other, &ref);
    EXPECT_EQ(rc, 0);
    rc = kin_link(other, KIN_EXIT_TRAP, KIN_EXIT_IGNORE, &link);
    EXPECT(rc == 0 || rc == KIN_NOPROC);
    bool is_linked = rc == 0;
    kin_ignore(kin_barrier_wait(&duel->start, KIN_NEVER));
    if ((duel->round + me) % 3 == 0)
        kin_ignore(kin_task_cancel(duel->task[1 - me]));
    if ((duel->round + me) % 2 == 0) {
        rc = kin_demonitor(ref);
        EXPECT(rc == 0 || rc == KIN_STALE);
        EXPECT_EQ(kin_wait_down(ref, &info, 0), KIN_STALE);
        if (is_linked)
            kin_ignore(kin_unlink(link));
    } else if (kin_wait_down(ref, &info, KIN_NEVER) == 0) {
        downs++;
        EXPECT_EQ(kin_wait_down(ref, &info, 0), KIN_STALE);
    }
    EXPECT_LE(downs, 1);
    return 0;
}

static int first_duellist(void *arg)
{
    return duellist(arg, 0);
}

static int second_duellist(void *arg)
{
    return duellist(arg, 1);
}

/* K165: two who watch, cancel and leave each other. */
static int in_k165_two_who_watch_and_end_each_other(void *arg)
{
    (void)arg;
    for (int round = 0; round < 60; round++) {
        struct duel duel;
        HOUSE(n);
        memset(&duel, 0, sizeof duel);
        duel.round = round;
        EXPECT_EQ(kin_barrier_init(&duel.start, 2), 0);
        EXPECT_EQ(kin_spawn_with(&n, NULL, first_duellist, &duel, 0, &duel.task[0]), 0);
        EXPECT_EQ(kin_spawn_with(&n, NULL, second_duellist, &duel, 0, &duel.task[1]), 0);
        atomic_store(&duel.known, 2);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(k165_two_who_watch_and_end_each_other, "K165")
{
    run_on_few(in_k165_two_who_watch_and_end_each_other, NULL);
}

struct crowd {
    struct kin_addr center;
    _Atomic int ready;
    int count;
};

static int watch_the_center(void *arg)
{
    struct crowd *crowd = arg;
    struct kin_monitor_ref ref;
    struct kin_info info;
    EXPECT_EQ(kin_monitor(crowd->center, &ref), 0);
    atomic_fetch_add(&crowd->ready, 1);
    EXPECT_EQ(kin_wait_down(ref, &info, KIN_NEVER), 0);
    EXPECT_EQ(info.u.down.status, -EIO);
    return 0;
}

/* K166: thousands of monitors, one target and many, or many targets and one watcher; each fires
 * once, and nothing is left. */
static int in_k166_thousands_of_monitors(void *arg)
{
    const int count = enough(2000 / (int)kin_test_scale() + 10, 12);
    struct crowd crowd;
    struct mortal mortal;
    struct kin_stats before, after;
    (void)arg;
    EXPECT_EQ(kin_stats_get(&before), 0);
    {
        HOUSE(n);
        memset(&crowd, 0, sizeof crowd);
        crowd.center = spawn_mortal(&n, &mortal, -EIO);
        for (int i = 0; i < count; i++)
            EXPECT_EQ(kin_spawn(&n, watch_the_center, &crowd), 0);
        await_flag(&crowd.ready, count);
        kin_event_set(&mortal.go_on);
        EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    }
    {
        struct kin_monitor_ref *refs = malloc((size_t)count * sizeof *refs);
        struct mortal *many = malloc((size_t)count * sizeof *many);
        HOUSE(n);
        for (int i = 0; i < count; i++)
            refs[i] = watch(spawn_mortal(&n, &many[i], -i % 100));
        for (int i = 0; i < count; i++)
            kin_event_set(&many[i].go_on);
        for (int i = 0; i < count; i++)
            EXPECT_END(refs[i], i % 100 ? KIN_DOWN_ERROR : KIN_DOWN_NORMAL, -i % 100);
        for (int i = 0; i < count; i++)
            EXPECT_EQ(kin_demonitor(refs[i]), KIN_STALE);
        int rc = kin_nursery_join(&n, NULL);
        EXPECT_LT(rc, 0);
        free(refs);
        free(many);
    }
    EXPECT_EQ(kin_stats_get(&after), 0);
    EXPECT_EQ(after.timers, before.timers);
    return 0;
}

KIN_TEST(k166_thousands_of_monitors, "K166")
{
    run_on_few(in_k166_thousands_of_monitors, NULL);
}

static int watch_and_go(void *arg)
{
    struct mortal *mortal = arg;
    struct kin_link_ref link;
    for (int i = 0; i < 10; i++) {
        watch(kin_task_addr(mortal->ref));
        EXPECT_EQ(kin_link(kin_task_addr(mortal->ref), KIN_EXIT_TRAP, KIN_EXIT_TRAP, &link), 0);
    }
    return 0;
}

/* K168: with its end a watcher's monitors are gone; the watched one goes on and ends as ever. */
static int in_k168_the_end_of_a_watcher_takes_its_monitors_away(void *arg)
{
    struct mortal mortal;
    struct kin_task_ref watcher;
    struct kin_outcome out;
    HOUSE(n);
    struct kin_monitor_ref ref = watch(spawn_mortal(&n, &mortal, -EIO));
    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, watch_and_go, &mortal, 0, &watcher), 0);
    EXPECT_EQ(kin_task_join(&n, watcher, &out, KIN_NEVER), 0);
    EXPECT_EQ(out.severity, KIN_SEV_OK);
    kin_event_set(&mortal.go_on);
    EXPECT_END(ref, KIN_DOWN_ERROR, -EIO);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(k168_the_end_of_a_watcher_takes_its_monitors_away, "K168")
{
    run_on_few(in_k168_the_end_of_a_watcher_takes_its_monitors_away, NULL);
}

/* ---- links ---- */

/* K170: with oneself: no. Twice: two. Taken back: nothing comes. */
static int in_k170_links_are_made_and_taken_back(void *arg)
{
    struct mortal mortal;
    struct kin_link_ref one = {77}, two, three;
    struct kin_info info;
    HOUSE(n);
    (void)arg;
    EXPECT_EQ(kin_link(kin_self_addr(), KIN_EXIT_TRAP, KIN_EXIT_TRAP, &one), -EINVAL);
    EXPECT_EQ(one.id, 77);
    EXPECT_EQ(kin_unlink((struct kin_link_ref){0}), KIN_STALE);
    EXPECT_EQ(kin_unlink((struct kin_link_ref){UINT64_MAX}), KIN_STALE);
    struct kin_addr who = spawn_mortal(&n, &mortal, -EIO);
    EXPECT_EQ(kin_link(who, KIN_EXIT_TRAP, KIN_EXIT_IGNORE, &one), 0);
    EXPECT_EQ(kin_link(who, KIN_EXIT_TRAP, KIN_EXIT_IGNORE, &two), 0);
    EXPECT_EQ(kin_link(who, KIN_EXIT_TRAP, KIN_EXIT_IGNORE, &three), 0);
    EXPECT_NE(one.id, two.id);
    EXPECT_EQ(kin_unlink(two), 0);
    EXPECT_EQ(kin_unlink(two), KIN_STALE);
    kin_event_set(&mortal.go_on);
    EXPECT_EQ(kin_wait_info(&info, KIN_NEVER), 0);
    EXPECT_EQ(info.kind, KIN_INFO_EXIT);
    EXPECT_EQ(info.u.exit.reason, KIN_DOWN_ERROR);
    EXPECT_EQ(info.u.exit.status, -EIO);
    EXPECT(kin_addr_same(info.u.exit.from, who));
    EXPECT(info.u.exit.ref.id == one.id || info.u.exit.ref.id == three.id);
    struct kin_link_ref left = {info.u.exit.ref.id == one.id ? three.id : one.id};
    EXPECT_EQ(kin_wait_info(&info, KIN_NEVER), 0);
    EXPECT_EQ(info.u.exit.ref.id, left.id);
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_unlink(one), KIN_STALE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(k170_links_are_made_and_taken_back, "K170 LINK-CREATE")
{
    run_on_few(in_k170_links_are_made_and_taken_back, NULL);
}

/* K170: an exit that is there already is taken away by the unlink. */
static int in_k170_an_unlink_takes_a_queued_exit_away(void *arg)
{
    struct mortal mortal;
    struct kin_link_ref link;
    struct kin_info info;
    HOUSE(n);
    struct kin_addr who = spawn_mortal(&n, &mortal, -EIO);
    (void)arg;
    EXPECT_EQ(kin_link(who, KIN_EXIT_TRAP, KIN_EXIT_IGNORE, &link), 0);
    struct kin_outcome out;
    kin_event_set(&mortal.go_on);
    EXPECT_EQ(kin_task_join(&n, mortal.ref, &out, KIN_NEVER), 0);
    EXPECT_EQ(kin_unlink(link), KIN_STALE);
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_unlink(link), KIN_STALE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(k170_an_unlink_takes_a_queued_exit_away, "K170 D12")
{
    run_on_few(in_k170_an_unlink_takes_a_queued_exit_away, NULL);
}

/* K171: with somebody who is over, or nobody. */
static int in_k171_a_link_with_nobody_is_refused(void *arg)
{
    struct mortal mortal;
    struct kin_link_ref link = {77};
    struct kin_outcome out;
    struct kin_info info;
    HOUSE(n);
    struct kin_addr who = spawn_mortal(&n, &mortal, -EIO);
    (void)arg;
    kin_event_set(&mortal.go_on);
    EXPECT_EQ(kin_task_join(&n, mortal.ref, &out, KIN_NEVER), 0);
    for (int policy = 0; policy < 3; policy++) {
        enum kin_exit_policy mine = (enum kin_exit_policy)policy;
        EXPECT_EQ(kin_link(who, mine, KIN_EXIT_TRAP, &link), KIN_NOPROC);
        EXPECT_EQ(kin_link((struct kin_addr){0, 0}, mine, KIN_EXIT_TRAP, &link), KIN_NOPROC);
    }
    EXPECT_EQ(link.id, 77);
    EXPECT(!kin_cancelled());
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(k171_a_link_with_nobody_is_refused, "K171")
{
    run_on_few(in_k171_a_link_with_nobody_is_refused, NULL);
}

/* K172 K176: a good end is told to nobody and asks nobody to stop. */
static int in_k172_k176_a_good_end_says_nothing_over_a_link(void *arg)
{
    struct kin_info info;
    HOUSE(n);
    (void)arg;
    for (int policy = 0; policy < 3; policy++) {
        struct mortal mortal;
        struct kin_link_ref link;
        struct kin_addr who = spawn_mortal(&n, &mortal, 5);
        EXPECT_EQ(kin_link(who, (enum kin_exit_policy)policy, KIN_EXIT_PROPAGATE, &link), 0);
        struct kin_monitor_ref ref = watch(who);
        kin_event_set(&mortal.go_on);
        EXPECT_END(ref, KIN_DOWN_NORMAL, 0);
        EXPECT_EQ(kin_unlink(link), KIN_STALE);
        EXPECT(!kin_cancelled());
        EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k172_k176_a_good_end_says_nothing_over_a_link, "K172 K176 LINK-EXIT")
{
    run_on_few(in_k172_k176_a_good_end_says_nothing_over_a_link, NULL);
}

/* One of a chain: linked with the one before. */
struct ring {
    struct kin_addr before; /* {0, 0}: the first, which fails */
    struct kin_event *fall;
    _Atomic int ready;
    bool hands_on; /* returns the reason that it was asked to stop for */
    int rc, reason;
};

static int ring_main(void *arg)
{
    struct ring *ring = arg;
    struct kin_link_ref link;
    if (ring->before.id)
        EXPECT_EQ(kin_link(ring->before, KIN_EXIT_PROPAGATE, KIN_EXIT_PROPAGATE, &link), 0);
    atomic_store(&ring->ready, 1);
    ring->rc = kin_event_wait(ring->fall, KIN_NEVER);
    ring->reason = kin_cancel_reason();
    if (!ring->before.id)
        return -EIO;
    return ring->hands_on ? ring->reason : ring->rc;
}

/* K175 K177 K179: what falls on one falls on all, through chains of any length, and each learns the
 * first reason. */
static int in_k175_chains_of_links(void *arg)
{
    static const int lengths[] = {1, 2, 3, 9, 10};
    (void)arg;
    for (int shape = 0; shape < 10; shape++) {
        struct ring rings[11];
        struct kin_event fall, never;
        int length = lengths[shape / 2];
        HOUSE(n);
        memset(rings, 0, sizeof rings);
        memset(&fall, 0, sizeof fall);
        memset(&never, 0, sizeof never);
        for (int i = 0; i <= length; i++) {
            struct kin_task_ref ref;
            rings[i].fall = i == 0 ? &fall : &never;
            rings[i].hands_on = shape % 2;
            EXPECT_EQ(kin_spawn_with(&n, NULL, ring_main, &rings[i], 0, &ref), 0);
            await_flag(&rings[i].ready, 1);
            if (i < length)
                rings[i + 1].before = kin_task_addr(ref);
        }
        kin_event_set(&fall);
        EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
        EXPECT_EQ(rings[0].rc, 0);
        for (int i = 1; i <= length; i++) {
            EXPECT_EQ(rings[i].rc, KIN_CANCELLED);
            EXPECT_EQ(rings[i].reason, -EIO);
        }
    }
    return 0;
}

KIN_TEST(k175_chains_of_links, "K175 K177 LINK-EXIT")
{
    run_on_few(in_k175_chains_of_links, NULL);
}

/* K175: the end of a chain that traps is told how the last one before it ended. */
static int in_k175_a_trap_at_the_end_of_a_chain(void *arg)
{
    struct ring rings[2];
    struct kin_event fall, never;
    struct kin_task_ref refs[2];
    struct kin_link_ref link;
    struct kin_info info;
    HOUSE(n);
    (void)arg;
    memset(rings, 0, sizeof rings);
    memset(&fall, 0, sizeof fall);
    memset(&never, 0, sizeof never);
    for (int i = 0; i < 2; i++) {
        rings[i].fall = i == 0 ? &fall : &never;
        EXPECT_EQ(kin_spawn_with(&n, NULL, ring_main, &rings[i], 0, &refs[i]), 0);
        await_flag(&rings[i].ready, 1);
        rings[1].before = kin_task_addr(refs[0]);
    }
    EXPECT_EQ(kin_link(kin_task_addr(refs[1]), KIN_EXIT_TRAP, KIN_EXIT_PROPAGATE, &link), 0);
    kin_event_set(&fall);
    EXPECT_EQ(kin_wait_info(&info, KIN_NEVER), 0);
    EXPECT_EQ(info.kind, KIN_INFO_EXIT);
    EXPECT(kin_addr_same(info.u.exit.from, kin_task_addr(refs[1])));
    EXPECT_EQ(info.u.exit.reason, KIN_DOWN_CANCELLED);
    EXPECT_EQ(info.u.exit.status, KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(k175_a_trap_at_the_end_of_a_chain, "K175")
{
    run_on_few(in_k175_a_trap_at_the_end_of_a_chain, NULL);
}

struct sleeper {
    struct kin_addr other;
    kin_time until;
    _Atomic int ready;
    int rc, reason;
};

static int sleep_linked(void *arg)
{
    struct sleeper *sleeper = arg;
    struct kin_link_ref link;
    EXPECT_EQ(kin_link(sleeper->other, KIN_EXIT_PROPAGATE, KIN_EXIT_IGNORE, &link), 0);
    atomic_store(&sleeper->ready, 1);
    sleeper->rc = kin_sleep(sleeper->until);
    sleeper->reason = kin_cancel_reason();
    return sleeper->rc;
}

/* K179: a failure over a link ends a wait with a deadline, and also one that races with it. */
static int in_k179_an_exit_while_a_deadline_is_pending(void *arg)
{
    (void)arg;
    for (int round = 0; round < 40; round++) {
        struct mortal mortal;
        struct sleeper sleeper;
        struct kin_task_ref ref;
        struct kin_outcome out;
        HOUSE(n);
        memset(&sleeper, 0, sizeof sleeper);
        sleeper.other = spawn_mortal(&n, &mortal, -EIO);
        sleeper.until = round % 2 ? kin_after(KIN_SEC(1000)) : kin_after(KIN_US(200));
        EXPECT_EQ(kin_spawn_with(&n, NULL, sleep_linked, &sleeper, 0, &ref), 0);
        await_flag(&sleeper.ready, 1);
        if (round % 2 == 0)
            kin_ignore(kin_sleep(sleeper.until - KIN_US(20)));
        kin_event_set(&mortal.go_on);
        EXPECT_EQ(kin_task_join(&n, ref, &out, KIN_NEVER), 0);
        if (round % 2 || sleeper.rc != 0) {
            EXPECT_EQ(sleeper.rc, KIN_CANCELLED);
            EXPECT_EQ(sleeper.reason, -EIO);
            EXPECT_EQ(out.severity, KIN_SEV_CANCELLED);
        } else {
            EXPECT_EQ(out.severity, KIN_SEV_OK);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    }
    return 0;
}

KIN_TEST(k179_an_exit_while_a_deadline_is_pending, "K179")
{
    run_on_few(in_k179_an_exit_while_a_deadline_is_pending, NULL);
}

/* Each end of a link has its own policy; a server traps by its callback. */
static int in_each_end_of_a_link_has_its_own_policy(void *arg)
{
    struct diary diary;
    struct desk_plan plan = {.diary = &diary, .on_info = jot_down};
    char want[64];
    HOUSE(n);
    (void)arg;
    for (int policy = 0; policy < 3; policy++) {
        struct mortal mortal;
        clear_diary(&diary);
        struct kin_addr desk = open_desk(&n, &plan, NULL);
        struct kin_monitor_ref ref = watch(desk);
        struct kin_addr who = spawn_mortal(&n, &mortal, -EIO);
        EXPECT_EQ(ask(desk, do_link, policy, &who), 0);
        struct kin_monitor_ref end = watch(who);
        kin_event_set(&mortal.go_on);
        EXPECT_END(end, KIN_DOWN_ERROR, -EIO);
        if (policy == KIN_EXIT_PROPAGATE) {
            EXPECT_END(ref, KIN_DOWN_CANCELLED, KIN_CANCELLED);
            continue;
        }
        if (policy == KIN_EXIT_TRAP)
            await_words(&diary, 1);
        EXPECT_EQ(ask(desk, do_add, 1, NULL), 1);
        snprintf(want, sizeof want, "exit:%d", -EIO);
        EXPECT_DIARY(&diary, policy == KIN_EXIT_TRAP ? want : "");
        close_desk(desk);
        EXPECT_END(ref, KIN_DOWN_NORMAL, 0);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(each_end_of_a_link_has_its_own_policy, "K170 D12 LINK-EXIT")
{
    run_on_few(in_each_end_of_a_link_has_its_own_policy, NULL);
}

struct masked {
    struct kin_addr first, second;
    struct kin_event *go_on;
    _Atomic int ready;
    int reason;
};

static int wait_masked(void *arg)
{
    struct masked *masked = arg;
    struct kin_link_ref link;
    EXPECT_EQ(kin_link(masked->first, KIN_EXIT_PROPAGATE, KIN_EXIT_IGNORE, &link), 0);
    EXPECT_EQ(kin_link(masked->second, KIN_EXIT_PROPAGATE, KIN_EXIT_IGNORE, &link), 0);
    kin_mask();
    atomic_store(&masked->ready, 1);
    EXPECT_EQ(kin_event_wait(masked->go_on, KIN_NEVER), 0);
    masked->reason = kin_cancel_reason();
    kin_unmask();
    return kin_sleep(KIN_NEVER);
}

/* D12: of several failures before one looks the worst counts, in either order. */
static int in_the_worst_of_several_failures_counts(void *arg)
{
    (void)arg;
    for (int panic_first = 0; panic_first < 2; panic_first++) {
        struct mortal fails, panics;
        struct kin_event go_on;
        struct masked masked;
        struct kin_outcome out;
        HOUSE(n);
        memset(&go_on, 0, sizeof go_on);
        memset(&masked, 0, sizeof masked);
        masked.first = spawn_mortal(&n, &fails, -EIO);
        masked.second = spawn_mortal(&n, &panics, 0);
        panics.panics = true;
        masked.go_on = &go_on;
        EXPECT_EQ(kin_spawn(&n, wait_masked, &masked), 0);
        await_flag(&masked.ready, 1);
        struct mortal *first = panic_first ? &panics : &fails;
        struct mortal *second = panic_first ? &fails : &panics;
        kin_event_set(&first->go_on);
        EXPECT_EQ(kin_task_join(&n, first->ref, &out, KIN_NEVER), 0);
        kin_event_set(&second->go_on);
        EXPECT_EQ(kin_task_join(&n, second->ref, &out, KIN_NEVER), 0);
        kin_event_set(&go_on);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_PANICKED);
        EXPECT_EQ(masked.reason, KIN_PANICKED);
    }
    return 0;
}

KIN_TEST(the_worst_of_several_failures_counts, "D12 LINK-EXIT")
{
    run_on_few(in_the_worst_of_several_failures_counts, NULL);
}

/* K184: looking at a server that is busy does not wait for it. */
static int in_k184_looking_at_a_busy_server_does_not_wait(void *arg)
{
    struct gate gate;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    (void)arg;
    keep_busy(desk, &gate);
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(send_to(desk, do_add, 1, NULL), 0);
    EXPECT_EQ(kin_server_state(desk), KIN_SERVER_RUNNING);
    struct kin_monitor_ref ref = watch(desk);
    EXPECT_EQ(kin_demonitor(ref), 0);
    kin_event_set(&gate.open);
    EXPECT_EQ(ask(desk, do_add, 0, NULL), 100);
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k184_looking_at_a_busy_server_does_not_wait, "K184")
{
    run_on_few(in_k184_looking_at_a_busy_server_does_not_wait, NULL);
}
