/* SPDX-License-Identifier: MIT */
/*
 * Goal: a call gets one answer or says why not, a cast is let in, waits, is refused or makes room
 * as the server's policy says; whoever leaves takes its letter along, and whoever waits for room
 * moves up in order of arrival.
 * Method: one server that is kept busy behind a gate while others fill its mailbox, leave it and
 * are let in; each attempt with every allocation failing in turn.
 */
#include "otp/desk.h"

#include <malloc.h>

#include "plat/plat.h"

/* A desk with room for a few letters. */
static struct kin_addr small_desk(struct kin_nursery *n, struct diary *diary, size_t capacity,
                                  enum kin_overflow overflow)
{
    struct desk_plan plan = {.diary = diary};
    DESK_OPTIONS(options);
    options.mailbox_capacity = capacity;
    options.overflow = overflow;
    return open_desk(n, &plan, &options);
}

static void spawn_caster(struct kin_nursery *n, struct caller *caller, struct kin_addr to, long n_)
{
    memset(caller, 0, sizeof *caller);
    caller->to = to;
    caller->fn = do_jot;
    caller->n = n_;
    EXPECT_EQ(kin_spawn(n, caster_main, caller), 0);
    await(&caller->began, 1);
    let_others_run();
}

/* ---- answers ---- */

static int in_a_call_is_answered(void *arg)
{
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    for (int i = 1; i <= 100; i++)
        EXPECT_EQ(ask(desk, do_add, 1, NULL), i);
    EXPECT_EQ(ask_by(desk, do_add, 1, NULL, kin_after(KIN_SEC(1000))), 101);
    EXPECT_EQ(ask_by(desk, do_add, 1, NULL, 0), KIN_TIMEOUT);
    EXPECT_EQ(ask(desk, do_add, 0, NULL), 101); /* it was not sent */
    close_desk(desk);
    EXPECT_EQ(ask(desk, do_add, 1, NULL), KIN_NOPROC);
    EXPECT_EQ(ask_by(desk, do_add, 1, NULL, 0), KIN_NOPROC);
    EXPECT_EQ(send_to(desk, do_add, 1, NULL), KIN_NOPROC);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_call_is_answered, "GS-CALL-SEND GS-CALL-HANDLE GS-REPLY")
{
    run_on_few(in_a_call_is_answered, NULL);
}

static int in_arguments(void *arg)
{
    char byte = 0;
    static char much[KIN_MESSAGE_MAX + 1];
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    struct kin_addr plain = kin_self_addr(), nobody = {0, 0}, far = {5, desk.id};
    EXPECT_EQ(kin_call(desk, NULL, 1, NULL, 0, NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_call(desk, &byte, 1, NULL, 1, NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_call(desk, much, sizeof much, NULL, 0, NULL, KIN_NEVER), -EMSGSIZE);
    EXPECT_EQ(kin_cast(desk, NULL, 1, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_cast(desk, much, sizeof much, KIN_NEVER), -EMSGSIZE);
    EXPECT_EQ(ask(nobody, do_add, 1, NULL), KIN_NOPROC);
    EXPECT_EQ(send_to(nobody, do_add, 1, NULL), KIN_NOPROC);
    EXPECT_EQ(ask(far, do_add, 1, NULL), KIN_NOCONN);
    EXPECT_EQ(send_to(far, do_add, 1, NULL), KIN_NOCONN);
    EXPECT_EQ(ask(plain, do_add, 1, NULL), KIN_DEADLOCK);
    EXPECT_EQ(send_to(plain, do_add, 1, NULL), KIN_NOPROC); /* a task that is no server */
    EXPECT_EQ(ask(desk, do_add, 0, NULL), 0);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(what_makes_no_sense_is_not_sent, "GS-CALL-SEND")
{
    EXPECT_EQ(run_reporting(1, in_arguments, NULL, NULL), 0);
    struct kin_addr nobody = {0, 1};
    EXPECT_EQ(kin_call(nobody, NULL, 0, NULL, 0, NULL, KIN_NEVER), KIN_NOTASK);
    EXPECT_EQ(kin_cast(nobody, NULL, 0, KIN_NEVER), KIN_NOTASK);
}

/* Echoes, through the reply, what came. */
static int echo(struct kin_server *s, void *state, const void *req, size_t size,
                struct kin_reply *reply)
{
    (void)s, (void)state;
    EXPECT_EQ((uintptr_t)req % 16, 0);
    return kin_reply_send(reply, req, size);
}

static int in_sizes(void *arg)
{
    static const size_t sizes[] = {0, 1, 64, 127, 128, 129, 4096, KIN_MESSAGE_MAX};
    static unsigned char out[KIN_MESSAGE_MAX], in[KIN_MESSAGE_MAX];
    const struct kin_server_ops ops = {.on_call = echo};
    struct kin_addr server;
    (void)arg;
    HOUSE(n);
    EXPECT_EQ(kin_server_start(&n, &ops, NULL, NULL, &server), 0);
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (unsigned char)(i * 31 + i / 256);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i], got = 99;
        memset(in, 0, sizeof in);
        EXPECT_EQ(kin_call(server, size ? out : NULL, size, in, sizeof in, &got, KIN_NEVER), 0);
        EXPECT_EQ(got, size);
        EXPECT_EQ(memcmp(in, out, size), 0);
        if (size == 0)
            continue;
        memset(in, 0x55, sizeof in);
        EXPECT_EQ(kin_call(server, out, size, in, size - 1, &got, KIN_NEVER), -EMSGSIZE);
        EXPECT_EQ(got, size);
        EXPECT_EQ(in[0], 0x55); /* nothing was copied */
        EXPECT_EQ(kin_call(server, out, size, NULL, 0, NULL, KIN_NEVER), -EMSGSIZE);
    }
    close_desk(server);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(requests_and_replies_of_all_sizes, "GS-CALL-HANDLE GS-REPLY")
{
    run_on_few(in_sizes, NULL);
}

/* ---- leaving ---- */

/* Callers that time out or are cancelled while their letters are in the box, and in the room. */
static int in_callers_leave(void *arg)
{
    struct caller caller[6];
    struct gate gate;
    struct diary diary;
    (void)arg;
    clear_diary(&diary);
    HOUSE(n);
    struct kin_addr desk = small_desk(&n, &diary, 2, KIN_OVERFLOW_PARK);
    keep_busy(desk, &gate);
    {
        HOUSE(inner);
        for (int i = 0; i < 6; i++) {
            spawn_caller(&inner, &caller[i], desk, do_jot, i);
            await_parked(i + 1, "call");
        }
        EXPECT_EQ(ask_by(desk, do_jot, 9, NULL, 0), KIN_FULL);
        EXPECT_EQ(ask_by(desk, do_jot, 9, NULL, kin_after(1)), KIN_TIMEOUT);
        close_house(&inner);
    }
    for (int i = 0; i < 6; i++)
        EXPECT_EQ(caller[i].rc, KIN_CANCELLED);
    EXPECT_EQ(ask_by(desk, do_jot, 9, NULL, kin_after(1)), KIN_TIMEOUT); /* there is room again */
    EXPECT_EQ(send_by(desk, do_jot, 7, NULL, 0), 0);
    kin_event_set(&gate.open);
    EXPECT_EQ(ask(desk, do_jot, 8, NULL), 0);
    EXPECT_DIARY(&diary, "cast:7 call:8"); /* nothing of those who left [D6] */
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(callers_leave_with_their_letters, "GS-CALL-SEND")
{
    run_on_few(in_callers_leave, NULL);
}

/* A large request is copied before it is sent: the copy of one that nobody has taken is freed. */
static int in_large_requests(void *arg)
{
    static const char request[64 * 1024];
    struct gate gate;
    struct diary diary;
    size_t before = 0;
    (void)arg;
    clear_diary(&diary);
    HOUSE(n);
    struct kin_addr desk = small_desk(&n, &diary, 2, KIN_OVERFLOW_PARK);
    keep_busy(desk, &gate);
    for (unsigned i = 0; i < 128; i++) {
        EXPECT_EQ(kin_call(desk, request, sizeof request, NULL, 0, NULL, kin_after(1)),
                  KIN_TIMEOUT);
        if (i == 64)
            before = mallinfo2().uordblks;
    }
    EXPECT_LE(mallinfo2().uordblks, before + 1024 * 1024);
    kin_event_set(&gate.open);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(callers_that_leave_take_their_large_requests_with_them, "GS-CALL-SEND")
{
    run_on_few(in_large_requests, NULL);
}

/* One that leaves the box lets the first of the room in. */
static int in_leaving_makes_room(void *arg)
{
    struct caller first, second;
    struct gate gate;
    struct diary diary;
    struct kin_task_ref ref;
    (void)arg;
    clear_diary(&diary);
    HOUSE(n);
    struct kin_addr desk = small_desk(&n, &diary, 1, KIN_OVERFLOW_PARK);
    keep_busy(desk, &gate);
    memset(&first, 0, sizeof first);
    first.to = desk;
    first.fn = do_jot;
    EXPECT_EQ(kin_spawn_with(&n, NULL, caller_main, &first, 0, &ref), 0);
    while (ask_by(desk, do_jot, 5, NULL, 0) != KIN_FULL) /* ends: it gets there */
        kin_ignore(kin_yield());
    spawn_caster(&n, &second, desk, 2);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    await(&first.over, 1);
    EXPECT_EQ(first.rc, KIN_CANCELLED);
    await(&second.over, 1); /* while the desk is still busy */
    EXPECT_EQ(second.rc, 0);
    EXPECT_EQ(send_by(desk, do_jot, 3, NULL, 0), KIN_FULL);
    kin_event_set(&gate.open);
    EXPECT_EQ(ask(desk, do_jot, 4, NULL), 0);
    EXPECT_DIARY(&diary, "cast:2 call:4");
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(who_leaves_the_box_makes_room, "GS-CAST-TRY")
{
    run_on_few(in_leaving_makes_room, NULL);
}

/* ---- full mailboxes ---- */

/* Calls and casts that wait for room are let in in order of arrival. */
static int in_order_of_arrival(void *arg)
{
    struct caller sender[6];
    struct gate gate;
    struct diary diary;
    (void)arg;
    clear_diary(&diary);
    HOUSE(n);
    struct kin_addr desk = small_desk(&n, &diary, 1, KIN_OVERFLOW_PARK);
    keep_busy(desk, &gate);
    EXPECT_EQ(send_by(desk, do_jot, 100, NULL, 0), 0);
    EXPECT_EQ(send_by(desk, do_jot, 101, NULL, 0), KIN_FULL);
    EXPECT_EQ(send_by(desk, do_jot, 101, NULL, kin_after(1)), KIN_TIMEOUT);
    for (int i = 0; i < 6; i++) {
        memset(&sender[i], 0, sizeof sender[i]);
        sender[i].to = desk;
        sender[i].fn = do_jot;
        sender[i].n = i;
        EXPECT_EQ(kin_spawn(&n, i % 2 ? caster_main : caller_main, &sender[i]), 0);
        await(&sender[i].began, 1);
        for (int turn = 0; turn < 200; turn++) /* makes the order likely */
            kin_ignore(kin_yield());
    }
    kin_event_set(&gate.open);
    for (int i = 0; i < 6; i++) {
        await(&sender[i].over, 1);
        EXPECT_EQ(sender[i].rc, 0);
    }
    close_desk(desk);
    EXPECT(has_word(&diary, "cast:100"));
    for (int i = 0; i < 6; i++) {
        char word[16];
        snprintf(word, sizeof word, i % 2 ? "cast:%d" : "call:%d", i);
        EXPECT(has_word(&diary, word));
    }
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(whoever_waits_for_room_is_let_in, "GS-CALL-SEND GS-CAST-FULL")
{
    run_on_few(in_order_of_arrival, NULL);
}

static int in_reject(void *arg)
{
    struct caller caller;
    struct gate gate;
    struct diary diary;
    (void)arg;
    clear_diary(&diary);
    HOUSE(n);
    struct kin_addr desk = small_desk(&n, &diary, 2, KIN_OVERFLOW_REJECT);
    keep_busy(desk, &gate);
    EXPECT_EQ(send_to(desk, do_jot, 1, NULL), 0);
    EXPECT_EQ(send_to(desk, do_jot, 2, NULL), 0);
    EXPECT_EQ(send_to(desk, do_jot, 3, NULL), KIN_FULL); /* whatever the deadline */
    EXPECT_EQ(send_by(desk, do_jot, 3, NULL, kin_after(KIN_SEC(1000))), KIN_FULL);
    spawn_caller(&n, &caller, desk, do_jot, 4); /* a call waits all the same */
    await_parked(1, "call");
    EXPECT_EQ(atomic_load(&caller.over), 0);
    kin_event_set(&gate.open);
    await(&caller.over, 1);
    EXPECT_EQ(caller.rc, 0);
    EXPECT_DIARY(&diary, "cast:1 cast:2 call:4");
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_mailbox_that_rejects_says_so, "GS-CAST-FULL")
{
    run_on_few(in_reject, NULL);
}

static int in_drop_oldest(void *arg)
{
    struct caller caller[2];
    struct gate gate;
    struct diary diary;
    (void)arg;
    clear_diary(&diary);
    HOUSE(n);
    struct kin_addr desk = small_desk(&n, &diary, 3, KIN_OVERFLOW_DROP_OLDEST);
    keep_busy(desk, &gate);
    EXPECT_EQ(send_to(desk, do_jot, 1, NULL), 0);
    spawn_caller(&n, &caller[0], desk, do_jot, 10);
    await_parked(1, "call");
    for (int i = 3; i < 9; i++) /* each drops the oldest cast, never the call */
        EXPECT_EQ(send_to(desk, do_jot, i, NULL), 0);
    spawn_caller(&n, &caller[1], desk, do_jot, 11); /* waits for room */
    await_parked(2, "call");
    EXPECT_EQ(send_to(desk, do_jot, 9, NULL), 0); /* a call that waits does not change that */
    kin_event_set(&gate.open);
    for (int i = 0; i < 2; i++) {
        await(&caller[i].over, 1);
        EXPECT_EQ(caller[i].rc, 0);
    }
    EXPECT(has_word(&diary, "cast:9"));
    EXPECT(!has_word(&diary, "cast:1"));
    EXPECT_EQ(kin_server_dropped(desk), 6);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_mailbox_may_drop_its_oldest_cast, "GS-CAST-FULL")
{
    run_on_few(in_drop_oldest, NULL);
}

/* With only calls in the box there is nothing to drop. */
static int in_drop_no_calls(void *arg)
{
    struct caller caller[2];
    struct gate gate;
    struct diary diary;
    (void)arg;
    clear_diary(&diary);
    HOUSE(n);
    struct kin_addr desk = small_desk(&n, &diary, 2, KIN_OVERFLOW_DROP_OLDEST);
    keep_busy(desk, &gate);
    for (int i = 0; i < 2; i++)
        spawn_caller(&n, &caller[i], desk, do_jot, i);
    while (ask_by(desk, do_jot, 5, NULL, 0) != KIN_FULL) /* ends: both get there */
        kin_ignore(kin_yield());
    EXPECT_EQ(send_to(desk, do_jot, 3, NULL), KIN_FULL);
    kin_event_set(&gate.open);
    for (int i = 0; i < 2; i++) {
        await(&caller[i].over, 1);
        EXPECT_EQ(caller[i].rc, 0);
    }
    EXPECT(!has_word(&diary, "cast:3"));
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_mailbox_never_drops_a_call, "GS-CAST-FULL")
{
    run_on_few(in_drop_no_calls, NULL);
}

/* ---- a server and itself ---- */

/* Fills its own mailbox, which must not park it. */
static int do_flood(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct kin_addr me = kin_self_addr();
    EXPECT_EQ(ask(me, do_add, 1, NULL), KIN_DEADLOCK);
    EXPECT_EQ(kin_server_stop(me, 0, KIN_NEVER), KIN_DEADLOCK);
    for (long i = 0; i < job->n; i++)
        EXPECT_EQ(send_to(me, do_add, 1, NULL), 0);
    EXPECT_EQ(send_to(me, do_add, 1, NULL), KIN_FULL);
    (void)desk;
    answer(reply, 0);
    return 0;
}

static int in_itself(void *arg)
{
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = small_desk(&n, NULL, 3, KIN_OVERFLOW_PARK);
    EXPECT_EQ(ask(desk, do_flood, 3, NULL), 0);
    EXPECT_EQ(ask(desk, do_add, 0, NULL), 3);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_server_cannot_wait_for_itself, "GS-CALL-SEND GS-CAST-FULL")
{
    run_on_few(in_itself, NULL);
}

/* ---- many ---- */

static int call_often(void *arg)
{
    struct caller *caller = arg;
    for (int i = 0; i < caller->n; i++)
        EXPECT_GE(ask(caller->to, do_add, 1, NULL), 1);
    return 0;
}

static int in_many_callers(void *arg)
{
    enum { CALLERS = 20 };
    struct caller caller[CALLERS];
    int times = enough(200, 2);
    (void)arg;
    HOUSE(n);
    struct kin_addr desk = small_desk(&n, NULL, 4, KIN_OVERFLOW_PARK);
    {
        HOUSE(inner);
        for (int i = 0; i < enough(CALLERS, 3); i++) {
            caller[i].to = desk;
            caller[i].n = times;
            EXPECT_EQ(kin_spawn(&inner, call_often, &caller[i]), 0);
        }
        EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    }
    EXPECT_EQ(ask(desk, do_add, 0, NULL), enough(CALLERS, 3) * times);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(many_callers_are_all_answered, "SINV-1")
{
    run_on_few(in_many_callers, NULL);
}

/* Each request for memory of a large call and a large cast fails once. */
static int in_without_memory(void *arg)
{
    static const unsigned char bytes[4096];
    static unsigned char back[4096];
    const struct kin_server_ops ops = {.on_call = echo};
    struct kin_addr server;
    size_t got = 99;
    (void)arg;
    HOUSE(n);
    EXPECT_EQ(kin_server_start(&n, &ops, NULL, NULL, &server), 0);
    kin__plat_fail_after(1, false);
    EXPECT_EQ(kin_call(server, bytes, sizeof bytes, back, sizeof back, &got, KIN_NEVER), -ENOMEM);
    EXPECT_EQ(got, 99);
    kin__plat_fail_after(1, false);
    EXPECT_EQ(kin_cast(server, bytes, sizeof bytes, KIN_NEVER), -ENOMEM);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(kin_call(server, bytes, sizeof bytes, back, sizeof back, &got, KIN_NEVER), 0);
    EXPECT_EQ(got, sizeof back);
    close_desk(server);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(without_memory_nothing_is_sent, "GS-CALL-SEND")
{
    EXPECT_EQ(run_reporting(1, in_without_memory, NULL, NULL), 0);
}
