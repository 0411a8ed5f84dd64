/* SPDX-License-Identifier: MIT */
/*
 * Goal: a server that waits for its next message has no stack, and nothing else about it changes:
 * whatever can end a wait ends this one, and what the callbacks have left behind is where it was.
 * Method: white box: its task is looked at while it waits; every way out of a rest; a message and
 * an end that meet at a rest, each message with one answer; callbacks that leave something behind
 * that only a stack can undo; no memory for a stack when it is woken.
 */
#include "otp/desk.h"

#include "otp/serving.h"
#include "park/peek.h"
#include "sched/worker.h"

/* ---- looking ---- */

static struct kin__task *task_of(struct kin_addr desk)
{
    struct kin__task *task = kin__task_find(desk.id);
    EXPECT(task != NULL);
    return task;
}

/* Waits until the server is parked, and says whether it rests. Nobody wakes it meanwhile. */
static bool waits_at_rest(struct kin_addr desk)
{
    struct kin__waits waits;
    const struct kin__task *task = task_of(desk);
    while (!kin__wait_peek(task, &waits)) /* ends: or the alarm does */
        linger();
    EXPECT_STR(waits.ops->what, "mailbox");
    EXPECT(!waits.is_several);
    EXPECT_EQ(task->stack == NULL, kin__task_rests(task));
    return task->stack == NULL;
}

static int in_idle(void *arg)
{
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    for (int i = 1; i <= enough(20, 2); i++) {
        EXPECT(waits_at_rest(desk));
        EXPECT_EQ(ask(desk, do_add, 1, NULL), i);
    }
    EXPECT(waits_at_rest(desk));
    EXPECT_EQ(kin_server_state(desk), KIN_SERVER_RUNNING);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_server_that_waits_has_no_stack, "")
{
    run_on_few(in_idle, NULL);
}

/* ---- what others see ---- */

static int in_dump(void *arg)
{
    char text[4096], line[64];
    int ends[2];
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    EXPECT(waits_at_rest(desk));
    EXPECT_EQ(pipe(ends), 0);
    EXPECT_EQ(kin_dump(ends[1]), 0);
    ssize_t length = read(ends[0], text, sizeof text - 1);
    EXPECT_GT(length, 0);
    text[length] = '\0';
    char number[32];
    snprintf(line, sizeof line, "%s (server): parked on mailbox",
             said(desk.id, number, sizeof number));
    EXPECT(strstr(text, line) != NULL);
    close(ends[0]);
    close(ends[1]);
    EXPECT_EQ(kin_lock_cycles(2), 0);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_dump_shows_it_parked, "")
{
    run_on_few(in_dump, NULL);
}

/* ---- how many stacks ---- */

enum { MANY = 200, STACKS = 8 };

static int in_many(void *arg)
{
    struct kin_addr desks[MANY];
    struct kin_stats stats;
    int count = enough(MANY, 3);
    (void)arg;
    HOUSE(n);
    for (int i = 0; i < count; i++)
        desks[i] = open_desk(&n, NULL, NULL);
    for (int round = 1; round <= 2; round++) {
        for (int i = 0; i < count; i++)
            EXPECT_EQ(ask(desks[i], do_add, 1, NULL), round);
    }
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_LE(stats.stacks, kin_in_lab() ? UINT64_MAX : STACKS);
    close_house(&n);
    return 0;
}
KIN_TEST(many_servers_share_a_stack, "")
{
    EXPECT_EQ(run_reporting(1, in_many, NULL, NULL), 0);
}

/* ---- what ends a rest ---- */

static int jot_info(struct desk *desk, const struct kin_info *info)
{
    static const char *const names[] = {[KIN_INFO_DOWN] = "down", [KIN_INFO_EXIT] = "exit",
                                        [KIN_INFO_TIMEOUT] = "timeout"};
    jot(desk->plan.diary, "%s", names[info->kind]);
    return 0;
}

static void jot_stop(struct desk *desk, const struct kin_outcome *why)
{
    jot(desk->plan.diary, "stop:%d", why->severity == KIN_SEV_OK ? 0 : why->status);
}

/* Monitors whom n names, or links with it and hears of its end. */
static int do_monitor(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct kin_monitor_ref ref;
    (void)desk;
    EXPECT_EQ(kin_monitor((struct kin_addr){0, (uint64_t)job->n}, &ref), 0);
    answer(reply, 0);
    return 0;
}

static int do_link(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct kin_link_ref ref;
    (void)desk;
    enum kin_exit_policy mine = (enum kin_exit_policy)(intptr_t)job->p;
    EXPECT_EQ(kin_link((struct kin_addr){0, (uint64_t)job->n}, mine, KIN_EXIT_IGNORE, &ref), 0);
    answer(reply, 0);
    return 0;
}

static int do_set_timer(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    EXPECT_EQ(kin_server_timer_set(desk->server, 1, kin_after(job->n)), 0);
    answer(reply, 0);
    return 0;
}

/* A desk that writes everything down, at rest. */
static struct kin_addr open_resting(struct kin_nursery *n, struct diary *diary)
{
    struct desk_plan plan = {.diary = diary, .on_info = jot_info, .on_stop = jot_stop};
    clear_diary(diary);
    struct kin_addr desk = open_desk(n, &plan, NULL);
    EXPECT(waits_at_rest(desk));
    return desk;
}

static int in_messages(void *arg)
{
    struct diary diary;
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = open_resting(&n, &diary), other = open_desk(&n, NULL, NULL);
    EXPECT_EQ(ask(desk, do_jot, 1, NULL), 0);
    EXPECT(waits_at_rest(desk));
    EXPECT_EQ(send_to(desk, do_jot, 2, NULL), 0);
    await_words(&diary, 2);
    EXPECT_EQ(ask(desk, do_monitor, (long)other.id, NULL), 0);
    EXPECT_EQ(ask(desk, do_link, (long)other.id, (void *)KIN_EXIT_TRAP), 0);
    EXPECT(waits_at_rest(desk));
    EXPECT_EQ(ask(other, do_return_only, -EIO, NULL), -EIO);
    await_words(&diary, 4);
    EXPECT(waits_at_rest(desk));
    EXPECT_EQ(ask(desk, do_set_timer, KIN_MS(1), NULL), 0);
    await_words(&diary, 5);
    EXPECT(waits_at_rest(desk)); /* none is left */
    close_desk(desk);
    EXPECT_DIARY(&diary, "call:1 cast:2 down exit timeout stop:0");
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}
KIN_TEST(letters_and_infos_end_a_rest, "GS-CALL-SEND GS-CAST-TRY GS-INFO-DELIVER")
{
    run_on_few(in_messages, NULL);
}

/* What ends a desk at rest: whether on_stop runs then, how it is down, with which status. */
static const struct way {
    bool stops;
    enum kin_down_reason reason;
    int status;
} ways[] = {
    {true, KIN_DOWN_NORMAL, 0},                 /* kin_server_stop */
    {true, KIN_DOWN_ERROR, -EIO},               /* the same, with a reason */
    {true, KIN_DOWN_CANCELLED, KIN_CANCELLED},  /* kin_task_cancel */
    {true, KIN_DOWN_CANCELLED, KIN_CANCELLED},  /* its nursery is cancelled */
    {true, KIN_DOWN_CANCELLED, KIN_CANCELLED},  /* the exit of a link */
    {true, KIN_DOWN_ERROR, -EIO},               /* kin_fail in a callback after it */
    {false, KIN_DOWN_PANICKED, KIN_PANICKED},   /* a panic there */
    {true, KIN_DOWN_CANCELLED, KIN_CANCELLED},  /* its nursery has a deadline */
};
enum { STOP, STOP_WITH, CANCEL, CANCEL_NURSERY, EXIT, FAIL, PANIC, DEADLINE, WAYS };
_Static_assert(sizeof ways / sizeof ways[0] == WAYS, "one line for each");

static void end_it(struct kin_nursery *n, struct kin_addr desk, int way)
{
    struct kin_addr other = {0, 0};
    switch (way) {
    case STOP:
        EXPECT_EQ(kin_server_stop(desk, 0, KIN_NEVER), 0);
        break;
    case STOP_WITH:
        EXPECT_EQ(kin_server_stop(desk, -EIO, KIN_NEVER), 0);
        break;
    case CANCEL:
        EXPECT_EQ(kin_task_cancel((struct kin_task_ref){desk.id}), 0);
        break;
    case CANCEL_NURSERY:
        kin_nursery_cancel(n, 0);
        break;
    case EXIT:
        other = open_desk(n, NULL, NULL);
        EXPECT_EQ(ask(desk, do_link, (long)other.id, (void *)KIN_EXIT_PROPAGATE), 0);
        EXPECT(waits_at_rest(desk));
        EXPECT_EQ(ask(other, do_return_only, -EIO, NULL), -EIO);
        break;
    case FAIL:
        EXPECT_EQ(ask(desk, do_fail, -EIO, NULL), -EIO);
        break;
    case PANIC:
        EXPECT_EQ(ask(desk, do_panic, 0, NULL), KIN_PANICKED);
        break;
    default: /* time does it */
        break;
    }
}

static const char *stop_of(int status)
{
    static char text[32];
    snprintf(text, sizeof text, "stop:%d", status);
    return text;
}

static int in_ends(void *arg)
{
    struct diary diary;
    (void)arg;
    for (int way = 0; way < WAYS; way++) {
        KIN_NURSERY(n, .on_error = KIN_COLLECT,
                    .deadline = way == DEADLINE ? kin_after(KIN_MS(2)) : 0);
        struct desk_plan plan = {.diary = &diary, .on_stop = jot_stop};
        struct kin_addr desk = {0, 0};
        clear_diary(&diary);
        int rc = try_open_desk(&n, &plan, NULL, &desk);
        struct kin_monitor_ref ref = {0};
        if (rc == 0 && way == DEADLINE)
            rc = kin_monitor(desk, &ref);
        else if (rc == 0)
            ref = watch(desk);
        if (rc == 0) {
            if (way != DEADLINE)
                EXPECT(waits_at_rest(desk));
            kin_mask(); /* whose nursery is cancelled hears of it, too */
            end_it(&n, desk, way);
            EXPECT_END(ref, ways[way].reason, ways[way].status);
            kin_unmask();
            EXPECT_DIARY(&diary, ways[way].stops ? stop_of(ways[way].status) : "");
        } else {
            EXPECT_EQ(way, DEADLINE); /* it was too late */
        }
        close_house(&n);
    }
    return 0;
}
KIN_TEST(every_end_ends_a_rest, "GS-DRAIN-DONE GS-STOPPED")
{
    run_on_few(in_ends, NULL);
}

/* ---- what is not a rest ---- */

static _Atomic int undone;

static void undo(void *arg)
{
    (void)arg;
    atomic_fetch_add(&undone, 1);
}

static struct kin_local_key key = {.destroy = undo};

static int start_deferring(struct desk *desk)
{
    (void)desk;
    return kin_defer(undo, NULL);
}

static int start_with_local(struct desk *desk)
{
    return kin_local_set(&key, desk);
}

static int in_left_behind(void *arg)
{
    static int (*const starts[])(struct desk *) = {start_deferring, start_with_local};
    (void)arg;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        HOUSE(n);
        struct desk_plan plan = {.on_start = starts[i]};
        struct kin_addr desk = open_desk(&n, &plan, NULL);
        atomic_store(&undone, 0);
        EXPECT(!waits_at_rest(desk)); /* whoever ends it needs a stack for that */
        EXPECT_EQ(ask(desk, do_add, 3, NULL), 3);
        EXPECT_EQ(atomic_load(&undone), 0);
        close_desk(desk);
        EXPECT_EQ(atomic_load(&undone), 1);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}
KIN_TEST(a_server_with_something_to_undo_keeps_its_stack, "NCG-3")
{
    run_on_few(in_left_behind, NULL);
}

static int in_busy(void *arg)
{
    struct gate gate;
    struct kin__waits waits;
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    keep_busy(desk, &gate);
    while (!kin__wait_peek(task_of(desk), &waits)) /* ends: or the alarm does */
        linger();
    EXPECT(task_of(desk)->stack != NULL);
    kin_event_set(&gate.open);
    EXPECT_EQ(ask(desk, do_add, 1, NULL), 1);
    EXPECT(waits_at_rest(desk));
    close_house(&n);
    return 0;
}
KIN_TEST(a_callback_that_waits_keeps_the_stack, "")
{
    run_on_few(in_busy, NULL);
}

/* ---- where it runs next ---- */

static int yield_on(void *arg)
{
    while (!atomic_load((_Atomic int *)arg)) /* ends: or the alarm does */
        linger();
    return 0;
}

static int do_flag(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)desk;
    atomic_store((_Atomic int *)job->p, 1);
    answer(reply, 0);
    return 0;
}

/* Of low priority it is woken into the queue of those that yield, who otherwise all have stacks. */
static int in_low(void *arg)
{
    DESK_OPTIONS(options);
    (void)arg;
    options.priority = KIN_PRIORITY_LOW;
    for (int round = 0; round < enough(20, 1); round++) {
        _Atomic int flag = 0;
        HOUSE(n);
        struct kin_addr desk = open_desk(&n, NULL, &options);
        EXPECT(waits_at_rest(desk));
        for (int i = 0; i < 3; i++)
            EXPECT_EQ(kin_spawn(&n, yield_on, &flag), 0);
        let_others_run();
        EXPECT_EQ(send_to(desk, do_flag, 0, &flag), 0);
        await_flag(&flag, 1);
        close_desk(desk);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}
KIN_TEST(one_of_low_priority_rests_too, "")
{
    run_on_few(in_low, NULL);
}

/* Its owner joins, and may run it on its own stack; then it rests there, and the owner goes on. */
static int in_joined(void *arg)
{
    (void)arg;
    for (int round = 0; round < enough(50, 1); round++) {
        _Atomic int flag = 0;
        struct caller callers[8];
        int count = enough(8, 2);
        HOUSE(n);
        struct kin_addr desk = open_desk(&n, NULL, NULL);
        for (int i = 0; i < count; i++) {
            memset(&callers[i], 0, sizeof callers[i]);
            callers[i].to = desk;
            callers[i].fn = i + 1 < count ? do_add : do_flag;
            callers[i].p = &flag;
            EXPECT_EQ(kin_spawn(&n, i % 2 ? caller_main : caster_main, &callers[i]), 0);
        }
        struct caller last = {.to = desk, .fn = do_stop_self};
        EXPECT_EQ(kin_spawn(&n, caster_main, &last), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT(last.rc == 0);
    }
    return 0;
}
KIN_TEST(the_owner_may_run_it_while_it_joins, "")
{
    run_on_few(in_joined, NULL);
}

/* ---- a message and an end meet ---- */

struct meeting {
    struct kin_addr desk;
    struct kin_event begin;
    _Atomic int handled;
    int end;
    int called, cast; /* what they answered */
};

static int do_count(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)desk;
    atomic_fetch_add((_Atomic int *)job->p, 1);
    if (reply) {
        int one = 1, rc = kin_reply_send(reply, &one, sizeof one);
        EXPECT(rc == 0 || rc == KIN_GONE);
    }
    return 0;
}

static int meet_call(void *arg)
{
    struct meeting *meeting = arg;
    EXPECT_EQ(kin_event_wait(&meeting->begin, KIN_NEVER), 0);
    meeting->called = ask(meeting->desk, do_count, 0, &meeting->handled);
    return 0;
}

static int meet_cast(void *arg)
{
    struct meeting *meeting = arg;
    EXPECT_EQ(kin_event_wait(&meeting->begin, KIN_NEVER), 0);
    meeting->cast = send_to(meeting->desk, do_count, 0, &meeting->handled);
    return 0;
}

static int meet_end(void *arg)
{
    struct meeting *meeting = arg;
    EXPECT_EQ(kin_event_wait(&meeting->begin, KIN_NEVER), 0);
    if (meeting->end == CANCEL)
        kin_ignore(kin_task_cancel((struct kin_task_ref){meeting->desk.id}));
    else
        kin_ignore(kin_server_stop(meeting->desk, 0, KIN_NEVER));
    return 0;
}

static bool is_sent_away(int rc)
{
    return rc == KIN_STOPPING || rc == KIN_NOPROC;
}

static int in_meeting(void *arg)
{
    (void)arg;
    for (int round = 0; round < enough(300, 2); round++) {
        struct meeting meeting = {.end = round % 2 ? CANCEL : STOP};
        HOUSE(n);
        meeting.desk = open_desk(&n, NULL, NULL);
        if (round % 4 < 2)
            EXPECT(waits_at_rest(meeting.desk));
        {
            HOUSE(inner);
            EXPECT_EQ(kin_spawn(&inner, meet_call, &meeting), 0);
            EXPECT_EQ(kin_spawn(&inner, meet_cast, &meeting), 0);
            EXPECT_EQ(kin_spawn(&inner, meet_end, &meeting), 0);
            kin_event_set(&meeting.begin);
            EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
        }
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT(meeting.called == 1 || is_sent_away(meeting.called));
        EXPECT(meeting.cast == 0 || is_sent_away(meeting.cast));
        /* a cast that was let in is handled, now or by the drain */
        EXPECT_EQ(atomic_load(&meeting.handled), (meeting.called == 1) + (meeting.cast == 0));
    }
    return 0;
}
KIN_TEST(a_message_and_an_end_meet_at_a_rest, "F4 GS-DRAIN-MSG")
{
    run_on_few(in_meeting, NULL);
}

/* ---- no memory for a stack ---- */

enum { TAKEN_MAX = 4096 };

/* Takes all stacks of a task's class that there are. */
static unsigned take_all(const struct kin__task *task, struct kin__stack **taken)
{
    struct kin__worker *worker = kin__worker_self();
    unsigned count = 0;
    kin__plat_fail_after(1, true);
    while (count < TAKEN_MAX && (taken[count] = kin__stack_take(&worker->stacks,
                                     &worker->sched->stacks, task->stack_class)))
        count++;
    EXPECT_LT(count, TAKEN_MAX);
    return count;
}

static void give_all(struct kin__stack **taken, unsigned count)
{
    struct kin__worker *worker = kin__worker_self();
    kin__plat_fail_after(0, false);
    while (count > 0)
        kin__stack_give(&worker->stacks, &worker->sched->stacks, taken[--count]);
}

static int in_shortage(void *arg)
{
    static struct kin__stack *taken[TAKEN_MAX];
    struct diary diary;
    struct kin_addr found;
    DESK_OPTIONS(options);
    (void)arg;
    options.name = "clerk";
    options.stack_max_bytes = (size_t)4 << 20; /* a class of its own */
    HOUSE(n);
    for (int casts = 0; casts < 2; casts++) {
        struct desk_plan plan = {.diary = &diary, .label = "x"};
        clear_diary(&diary);
        struct kin_addr desk = open_desk(&n, &plan, &options);
        struct kin_monitor_ref ref = watch(desk);
        EXPECT(waits_at_rest(desk));
        EXPECT_EQ(send_to(desk, do_jot, 1, NULL), 0); /* so that there is a block for a letter */
        EXPECT_EQ(ask(desk, do_add, 1, NULL), 1);
        EXPECT(waits_at_rest(desk));
        unsigned count = take_all(task_of(desk), taken);
        if (casts)
            EXPECT_EQ(send_to(desk, do_jot, 2, NULL), 0);
        else
            EXPECT_EQ(ask(desk, do_add, 1, NULL), -ENOMEM);
        struct kin_info info = end_of(ref);
        give_all(taken, count);
        EXPECT_EQ(info.u.down.reason, KIN_DOWN_ERROR);
        EXPECT_EQ(info.u.down.status, -ENOMEM);
        EXPECT_DIARY(&diary, "+x cast:1"); /* as after a panic on_stop does not run */
        EXPECT_EQ(kin_whereis("clerk", &found), KIN_NOPROC);
        EXPECT_EQ(ask(desk, do_add, 1, NULL), KIN_NOPROC);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), -ENOMEM);
    return 0;
}
KIN_TEST(without_memory_for_a_stack_it_ends_and_says_so, "SCHED:5.3.2")
{
    EXPECT_EQ(run_reporting(1, in_shortage, NULL, NULL), 0);
}
