/* SPDX-License-Identifier: MIT */
/*
 * Goal: what holds in moments that are too short for a race to hit them often: names are free when
 * the end of their holder is told; a call whose caller is about to leave is not handled; whoever
 * waits for room behind somebody who is about to leave is let in; a timer that comes late finds a
 * lease that was renewed and leaves it alone.
 * Method: each moment is made to last. A reader looks at the registry from inside of the very call
 * that tells it; the park of a sender is claimed by the test, which delivers it when everything has
 * happened; a timer is rung by hand.
 */
#include "otp/desk.h"

#include "otp/party.h"
#include "otp/registry.h"
#include "park/park.h"
#include "task/word.h"

/* ---- names and news [D11] ---- */

enum { NAMES = 5 };

static _Atomic int looks;        /* from inside of the telling */
static _Atomic size_t held_then; /* names that were held at that moment */

/* Called under the lock of the reader's party, by whoever tells it. */
static bool look_now(const struct kin__note *note, uint64_t arg)
{
    (void)note;
    atomic_store(&held_then, kin__names_count((struct kin__sched *)(uintptr_t)arg));
    atomic_fetch_add(&looks, 1);
    return true;
}

static struct kin__note *find_any(struct kin__party *party, uint64_t arg)
{
    return kin__note_look_locked(party, kin__note_any, arg);
}

static int hold(void *arg)
{
    return kin_event_wait(arg, KIN_NEVER);
}

struct telling {
    struct kin_addr holder;
    bool links; /* it is linked and told by an Exit, else monitored */
};

/* Waits for the news with eyes of its own. */
static int look_on(void *arg)
{
    static const struct kin__note_kind kind = {look_now, find_any, NULL};
    const struct telling *telling = arg;
    struct kin__sched *sched = kin__task_sched(kin__task_self());
    struct kin_monitor_ref monitor;
    struct kin_link_ref link;
    struct kin__note *note;
    if (telling->links)
        EXPECT_EQ(kin_link(telling->holder, KIN_EXIT_TRAP, KIN_EXIT_IGNORE, &link), 0);
    else
        EXPECT_EQ(kin_monitor(telling->holder, &monitor), 0);
    struct kin__party *mine = kin__party_self(kin__task_self());
    kin__party_unlock(mine);
    EXPECT_EQ(kin__note_wait(mine, &kind, (uint64_t)(uintptr_t)sched, KIN_NEVER, &note), 0);
    note->done(note);
    return 0;
}

/* One end of a holder of several names. Whether somebody looked. */
static bool end_once(bool links, bool is_cancelled)
{
    struct kin_event go = {0};
    struct kin_task_ref task;
    struct telling telling = {.links = links};
    int before = atomic_load(&looks);
    HOUSE(n);
    EXPECT_EQ(kin_spawn_with(&n, NULL, hold, &go, 0, &task), 0);
    telling.holder = kin_task_addr(task);
    for (int i = 0; i < NAMES; i++) {
        char name[8];
        snprintf(name, sizeof name, "x%d", i);
        EXPECT_EQ(kin_register(name, telling.holder, 0), 0);
    }
    EXPECT_EQ(kin_spawn(&n, look_on, &telling), 0);
    await_parked(1, "news");
    if (is_cancelled)
        EXPECT_EQ(kin_task_cancel(task), 0);
    else
        kin_event_set(&go);
    if (!is_cancelled && links)
        kin_nursery_cancel(&n, KIN_CANCELLED); /* a good end is told nobody */
    kin_ignore(kin_nursery_join(&n, NULL));
    return atomic_load(&looks) > before;
}

static int in_names_and_news(void *arg)
{
    (void)arg;
    for (int way = 0; way < 3; way++) {
        bool links = way == 2;
        while (!end_once(links, links || way == 1)) /* ends: the reader is parked, so it looks */
            EXPECT_EQ(atomic_load(&held_then), 0);
        EXPECT_EQ(atomic_load(&held_then), 0);
    }
    return 0;
}
KIN_TEST(at_the_moment_an_end_is_told_its_names_are_free, "D11")
{
    for (unsigned workers = 1; workers <= 2; workers++)
        EXPECT_EQ(run_reporting(workers, in_names_and_news, NULL, NULL), 0);
}

/* ---- senders that are about to leave [D6] ---- */

/* A sender whose time is up, and who has not noticed yet. */
struct leaver {
    struct caller caller;
    struct kin_task_ref task;
    struct kin__task *frame;
};

/* Spawns the sender, waits until that many are parked so, and ends its wait without waking it. */
static void begin_to_leave(struct kin_nursery *n, struct leaver *leaver, kin_task_fn *main,
                           int count, const char *what)
{
    EXPECT_EQ(kin_spawn_with(n, NULL, main, &leaver->caller, 0, &leaver->task), 0);
    await_parked(count, what);
    leaver->frame = kin__task_find(leaver->task.id);
    EXPECT(leaver->frame != NULL);
    uint64_t word = kin__load_acquire(&leaver->frame->ctl); /* pairs with its commit */
    enum kin__claim claim = kin__word_claim(leaver->frame, kin__word_ticket(word));
    EXPECT(claim != KIN__LOST);
    leaver->frame->wake_ready = claim == KIN__WON_PARKING;
}

/* Now it notices. */
static void let_leave(struct leaver *leaver)
{
    leaver->frame->wait_status = KIN_CANCELLED;
    leaver->frame->wait_case = UINT32_MAX; /* none of what it waits for */
    kin__wake_deliver(leaver->frame);
    await_flag(&leaver->caller.over, 1);
    EXPECT_EQ(leaver->caller.rc, KIN_CANCELLED);
}

static int in_departed_caller(void *arg)
{
    static struct leaver leaver;
    struct diary diary;
    struct gate gate;
    struct desk_plan plan = {.diary = &diary};
    (void)arg;
    clear_diary(&diary);
    memset(&leaver, 0, sizeof leaver);
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    keep_busy(desk, &gate);
    leaver.caller = (struct caller){.to = desk, .fn = do_jot, .n = 1};
    begin_to_leave(&n, &leaver, caller_main, 1, "call");
    EXPECT_EQ(send_to(desk, do_jot, 2, NULL), 0);
    kin_event_set(&gate.open);
    EXPECT_EQ(ask(desk, do_jot, 3, NULL), 0);
    EXPECT_DIARY(&diary, "cast:2 call:3"); /* its letter was in the box all the time */
    let_leave(&leaver);
    EXPECT_DIARY(&diary, "cast:2 call:3");
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_call_whose_caller_is_about_to_leave_is_not_handled, "D6")
{
    for (unsigned workers = 1; workers <= 2; workers++)
        EXPECT_EQ(run_reporting(workers, in_departed_caller, NULL, NULL), 0);
}

static int in_room(void *arg)
{
    static struct leaver leaver;
    static struct caller next, last;
    struct diary diary;
    struct gate gate;
    struct desk_plan plan = {.diary = &diary};
    (void)arg;
    clear_diary(&diary);
    memset(&leaver, 0, sizeof leaver);
    DESK_OPTIONS(o);
    o.mailbox_capacity = 1;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, &plan, &o);
    keep_busy(desk, &gate);
    EXPECT_EQ(send_to(desk, do_jot, 1, NULL), 0); /* the box is full */
    leaver.caller = (struct caller){.to = desk, .fn = do_jot, .n = 2};
    begin_to_leave(&n, &leaver, caster_main, 1, "cast: room");
    next = (struct caller){.to = desk, .fn = do_jot, .n = 3};
    EXPECT_EQ(kin_spawn(&n, caster_main, &next), 0);
    await_parked(1, "cast: room"); /* the other one is not parked any more */
    spawn_caller(&n, &last, desk, do_jot, 4);
    await_parked(1, "call");
    kin_event_set(&gate.open);
    await_flag(&next.over, 1); /* though the one before it has not left yet */
    await_flag(&last.over, 1);
    EXPECT_EQ(next.rc, 0);
    EXPECT_EQ(last.rc, 0);
    let_leave(&leaver);
    EXPECT(has_word(&diary, "cast:3"));
    EXPECT(has_word(&diary, "call:4"));
    EXPECT(!has_word(&diary, "cast:2"));
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(who_waits_for_room_behind_one_that_is_leaving_is_let_in, "GS-CAST-FULL GS-CALL-SEND")
{
    for (unsigned workers = 1; workers <= 2; workers++)
        EXPECT_EQ(run_reporting(workers, in_room, NULL, NULL), 0);
}

/* ---- a timer that comes late ---- */

static int in_late_timer(void *arg)
{
    struct kin__sched *sched = kin__task_sched(kin__task_self());
    struct kin_addr found;
    struct kin_info news;
    (void)arg;
    EXPECT_EQ(kin_register("lease", kin_self_addr(), KIN_SEC(1000)), 0);
    for (int i = 0; i < 3; i++) {
        EXPECT(kin__name_ring(sched, "lease")); /* as if it had been on its way before */
        EXPECT_EQ(kin_whereis("lease", &found), 0);
        EXPECT_EQ(kin_wait_info(&news, 0), KIN_TIMEOUT); /* nobody is told */
        EXPECT_EQ(kin_lease_renew("lease", KIN_SEC(1000 * (i + 2))), 0);
    }
    EXPECT_EQ(kin_unregister("lease"), 0);
    EXPECT(!kin__name_ring(sched, "lease"));
    return 0;
}
KIN_TEST(a_timer_that_comes_late_leaves_a_renewed_lease_alone, "REG-EXPIRE")
{
    EXPECT_EQ(run_reporting(1, in_late_timer, NULL, NULL), 0);
}
