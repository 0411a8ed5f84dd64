/* SPDX-License-Identifier: MIT */
/*
 * Goal: every sentence of the public contract about servers that names a status, a default, a
 *       size, or something that stays untouched; and that every call of this part says so outside
 *       a task. conform_misuse_test.c has the sentences about the rest.
 * Method: black box, one body per group of sentences, on 1, 2 and 4 workers. What can be asked with
 *         wrong arguments is asked with each of them; outputs are set before and looked at after.
 */
#include "otp/crew.h"

#include <pthread.h>

static const struct kin_addr marked = {3, 4};

/* ---- outside a task ---- */

/* Everything that needs a task says so to a thread without one. */
KIN_TEST(outside_a_task_every_call_says_so, "SCHED:10.2.3")
{
    struct kin_addr out = marked, who = {0, 1};
    struct kin_nursery n;
    struct crew *crew = malloc(sizeof *crew);
    struct kin_monitor_ref monitor = {77};
    struct kin_link_ref link = {77};
    struct kin_info info;
    struct kin_child_counts counts;
    int number = 5;
    size_t size = 5;
    memset(&n, 0, sizeof n);
    make_crew(crew, KIN_PERMANENT);
    EXPECT_EQ(kin_server_start(&n, &desk_ops, NULL, NULL, &out), KIN_NOTASK);
    EXPECT_EQ(kin_server_stop(who, 0, 0), KIN_NOTASK);
    EXPECT_EQ(kin_call(who, "x", 1, &number, sizeof number, &size, 0), KIN_NOTASK);
    EXPECT_EQ(kin_cast(who, "x", 1, 0), KIN_NOTASK);
    EXPECT_EQ(kin_supervisor_start(&n, NULL, NULL, 0, &out), KIN_NOTASK);
    EXPECT_EQ(kin_supervisor_start_child(who, crew->spec, &out, 0), KIN_NOTASK);
    EXPECT_EQ(kin_supervisor_terminate_child(who, "a", 0), KIN_NOTASK);
    EXPECT_EQ(kin_supervisor_terminate_addr(who, who, 0), KIN_NOTASK);
    EXPECT_EQ(kin_supervisor_restart_child(who, "a", &out, 0), KIN_NOTASK);
    EXPECT_EQ(kin_supervisor_delete_child(who, "a", 0), KIN_NOTASK);
    EXPECT_EQ(kin_supervisor_which_children(who, NULL, 0, 0), KIN_NOTASK);
    EXPECT_EQ(kin_supervisor_count_children(who, &counts, 0), KIN_NOTASK);
    EXPECT_EQ(kin_register("a", who, 0), KIN_NOTASK);
    EXPECT_EQ(kin_unregister("a"), KIN_NOTASK);
    EXPECT_EQ(kin_lease_renew("a", 0), KIN_NOTASK);
    EXPECT_EQ(kin_whereis("a", &out), KIN_NOTASK);
    EXPECT_EQ(kin_monitor(who, &monitor), KIN_NOTASK);
    EXPECT_EQ(kin_wait_down((struct kin_monitor_ref){1}, &info, 0), KIN_NOTASK);
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_NOTASK);
    EXPECT_EQ(kin_link(who, KIN_EXIT_TRAP, KIN_EXIT_TRAP, &link), KIN_NOTASK);
    EXPECT(kin_addr_same(out, marked));
    EXPECT_EQ(monitor.id, 77);
    EXPECT_EQ(link.id, 77);
    EXPECT_EQ(number, 5);
    EXPECT_EQ(size, 5);
    EXPECT(kin_addr_same(kin_self_addr(), (struct kin_addr){0, 0}));
    EXPECT_EQ(kin_server_state(who), KIN_SERVER_STOPPED);
    free(crew);
}

/* ---- addresses ---- */

static int keep_addr(void *arg)
{
    *(struct kin_addr *)arg = kin_self_addr();
    return 0;
}

static int in_addresses_are_of_tasks(void *arg)
{
    struct kin_addr inside = {0, 0};
    struct kin_task_ref ref;
    HOUSE(n);
    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, keep_addr, &inside, 0, &ref), 0);
    EXPECT_EQ(kin_task_join(&n, ref, NULL, KIN_NEVER), 0);
    EXPECT(kin_addr_same(inside, kin_task_addr(ref)));
    EXPECT(!kin_addr_same(inside, kin_self_addr()));
    EXPECT(kin_addr_same(kin_self_addr(), kin_task_addr(kin_self())));
    EXPECT(!kin_addr_same((struct kin_addr){0, 1}, (struct kin_addr){1, 1}));
    EXPECT(kin_addr_same(kin_task_addr((struct kin_task_ref){0}), (struct kin_addr){0, 0}));
    EXPECT_EQ(kin_server_state((struct kin_addr){0, 0}), KIN_SERVER_STOPPED);
    EXPECT_EQ(kin_server_state(kin_self_addr()), KIN_SERVER_STOPPED);
    EXPECT_EQ(kin_server_state(inside), KIN_SERVER_STOPPED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(addresses_are_of_tasks, "D1")
{
    run_on_few(in_addresses_are_of_tasks, NULL);
}

/* ---- starts ---- */

static int in_starts_that_make_no_sense_are_refused(void *arg)
{
    const struct kin_server_options good = KIN_SERVER_OPTIONS_INIT;
    struct kin_server_options bad[11];
    struct kin_addr out = marked;
    char name[300];
    HOUSE(n);
    (void)arg;
    memset(name, 'x', sizeof name);
    name[256] = '\0';
    for (size_t i = 0; i < 11; i++)
        bad[i] = good;
    bad[0].size = 0;
    bad[1].size = good.size - 8;
    bad[2].size = good.size + 8;
    bad[3].name = "";
    bad[4].name = name;
    bad[5].overflow = (enum kin_overflow)9;
    bad[6].drain = (enum kin_drain)9;
    bad[7].init_timeout = -1;
    bad[8].stop_timeout = -1;
    bad[9].idle_timeout = -1;
    bad[10].priority = (enum kin_priority)9;
    for (size_t i = 0; i < 11; i++)
        EXPECT_EQ(kin_server_start(&n, &desk_ops, &bad[i], NULL, &out), -EINVAL);
    EXPECT_EQ(kin_server_start(NULL, &desk_ops, &good, NULL, &out), -EINVAL);
    EXPECT_EQ(kin_server_start(&n, NULL, &good, NULL, &out), -EINVAL);
    EXPECT_EQ(kin_server_start(&n, &desk_ops, &good, NULL, NULL), -EINVAL);
    EXPECT(kin_addr_same(out, marked));
    kin_nursery_close(&n);
    EXPECT_EQ(try_open_desk(&n, NULL, NULL, &out), KIN_NOSCOPE);
    EXPECT(kin_addr_same(out, marked));
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(try_open_desk(&n, NULL, NULL, &out), KIN_NOSCOPE);
    EXPECT(kin_addr_same(out, marked));
    return 0;
}

KIN_TEST(starts_that_make_no_sense_are_refused, "GS-INIT")
{
    run_on_few(in_starts_that_make_no_sense_are_refused, NULL);
}

static int in_a_start_in_a_cancelled_nursery_is_refused(void *arg)
{
    struct kin_addr out = marked, found = marked;
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    options.name = "late";
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(try_open_desk(&n, NULL, &options, &out), KIN_NOSCOPE);
    EXPECT_EQ(kin_supervisor_start(&n, NULL, NULL, 0, &out), KIN_NOSCOPE);
    EXPECT(kin_addr_same(out, marked));
    EXPECT_EQ(kin_whereis("late", &found), KIN_NOPROC);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_start_in_a_cancelled_nursery_is_refused, "GS-INIT SINV-5")
{
    run_on_few(in_a_start_in_a_cancelled_nursery_is_refused, NULL);
}

/* All defaults: no state, no name, room for many. */
static int in_null_options_are_defaults(void *arg)
{
    const struct kin_server_ops ops = {.on_cast = NULL};
    struct kin_addr bare;
    HOUSE(n);
    (void)arg;
    EXPECT_EQ(kin_server_start(&n, &ops, NULL, NULL, &bare), 0);
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(kin_cast(bare, NULL, 0, 0), 0);
    EXPECT_EQ(kin_server_stop(bare, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(null_options_are_defaults, "GS-INIT")
{
    run_on_few(in_null_options_are_defaults, NULL);
}

static int look_at_state(struct kin_server *s, void *state, const void *arg)
{
    const unsigned char *bytes = state;
    (void)s;
    EXPECT_EQ((uintptr_t)state % 16, 0);
    for (size_t i = 0; i < 5000; i++)
        EXPECT_EQ(bytes[i], 0);
    memset(state, 0x5a, 5000);
    EXPECT_STR((const char *)arg, "argument");
    return 0;
}

static int in_the_state_is_zero_and_the_argument_passed_on(void *arg)
{
    const struct kin_server_ops ops = {.on_start = look_at_state};
    struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;
    HOUSE(n);
    (void)arg;
    options.state_size = 5000;
    for (int i = 0; i < 3; i++) {
        struct kin_addr out;
        EXPECT_EQ(kin_server_start(&n, &ops, &options, "argument", &out), 0);
        close_desk(out);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(the_state_is_zero_and_the_argument_passed_on, "GS-INIT")
{
    run_on_few(in_the_state_is_zero_and_the_argument_passed_on, NULL);
}

static int start_with_7(struct desk *desk)
{
    (void)desk;
    return 7;
}

static int continue_with_7(struct desk *desk)
{
    (void)desk;
    return 7;
}

static int info_with_p(struct desk *desk, const struct kin_info *info)
{
    (void)info;
    return *(int *)desk->plan.p;
}

static int do_monitor_nobody(struct desk *desk, const struct task_at_desk *job,
                             struct kin_reply *reply)
{
    struct kin_monitor_ref ref;
    (void)desk;
    (void)job;
    EXPECT_EQ(kin_monitor((struct kin_addr){0, 0}, &ref), 0);
    answer(reply, 0);
    return 0;
}

/* What each callback may return. */
static int in_results_of_callbacks(void *arg)
{
    int status = 7;
    struct desk_plan plan = {
        .on_start = start_with_7, .on_continue = continue_with_7, .on_info = info_with_p};
    struct kin_addr out = marked;
    HOUSE(n);
    (void)arg;
    plan.p = &status;
    EXPECT_EQ(try_open_desk(&n, &plan, NULL, &out), -EBADMSG);
    EXPECT(kin_addr_same(out, marked));
    plan.on_start = NULL;
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    struct kin_monitor_ref ref = watch(desk);
    EXPECT_EQ(ask(desk, do_return, KIN_CONTINUE, NULL), 0);
    EXPECT_END(ref, KIN_DOWN_ERROR, -EBADMSG);
    for (int i = 0; i < 2; i++) {
        status = i ? -EIO : 7;
        desk = open_desk(&n, &plan, NULL);
        ref = watch(desk);
        EXPECT_EQ(ask(desk, do_monitor_nobody, 0, NULL), 0);
        EXPECT_END(ref, KIN_DOWN_ERROR, i ? -EIO : -EBADMSG);
    }
    desk = open_desk(&n, &plan, NULL);
    ref = watch(desk);
    EXPECT_EQ(ask(desk, do_return, -EPIPE, NULL), 0); /* it was answered before */
    EXPECT_END(ref, KIN_DOWN_ERROR, -EPIPE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EBADMSG);
    return 0;
}

KIN_TEST(results_of_callbacks, "D5")
{
    run_on_few(in_results_of_callbacks, NULL);
}

static int do_misuse(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct kin_reply *moved = NULL;
    (void)job;
    EXPECT_EQ(kin_server_stop_self(desk->server, 1), -EINVAL);
    EXPECT_EQ(kin_server_stop_self(NULL, 0), -EINVAL);
    EXPECT_EQ(kin_server_timer_set(desk->server, 0, 1), -EINVAL);
    EXPECT_EQ(kin_server_timer_cancel(desk->server, 0), -EINVAL);
    EXPECT_EQ(kin_server_timer_set(NULL, 1, 1), -EINVAL);
    EXPECT_EQ(kin_server_timer_cancel(NULL, 1), -EINVAL);
    EXPECT_EQ(kin_server_timer_cancel(desk->server, 1), KIN_STALE);
    EXPECT_EQ(kin_reply_send(NULL, NULL, 0), -EINVAL);
    EXPECT_EQ(kin_reply_send(reply, NULL, 1), -EINVAL);
    EXPECT_EQ(kin_reply_send(reply, &moved, KIN_MESSAGE_MAX + 1), -EMSGSIZE);
    EXPECT_EQ(kin_reply_abort(NULL, -EIO), -EINVAL);
    EXPECT_EQ(kin_reply_abort(reply, 0), -EINVAL);
    EXPECT_EQ(kin_reply_abort(reply, 1), -EINVAL);
    EXPECT_EQ(kin_reply_move(NULL, &moved), -EINVAL);
    EXPECT_EQ(kin_reply_move(reply, NULL), -EINVAL);
    EXPECT_PTR(moved, NULL);
    kin_reply_drop(NULL);
    answer(reply, 0);
    return 0;
}

static int in_misuse_inside_a_server_is_answered(void *arg)
{
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    (void)arg;
    EXPECT_EQ(ask(desk, do_misuse, 0, NULL), 0);
    EXPECT_EQ(ask(desk, do_add, 1, NULL), 1);
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_leaks(), 0);
    return 0;
}

KIN_TEST(misuse_inside_a_server_is_answered, "D6")
{
    run_on_few(in_misuse_inside_a_server_is_answered, NULL);
}

/* ---- calls ---- */

/* A server that echoes whatever it gets, in any size. */
static int echo(struct kin_server *s, void *state, const void *req, size_t size,
                struct kin_reply *reply)
{
    (void)s;
    (void)state;
    EXPECT_EQ(kin_reply_send(reply, req, size), 0);
    return 0;
}

static const struct kin_server_ops echo_ops = {.on_call = echo};

static int in_requests_and_replies_of_every_size(void *arg)
{
    static const size_t sizes[] = {0, 1, 7, 8, 100, 4096, KIN_MESSAGE_MAX};
    unsigned char *out = malloc(KIN_MESSAGE_MAX + 1), *in = malloc(KIN_MESSAGE_MAX + 1);
    struct kin_addr server;
    HOUSE(n);
    (void)arg;
    EXPECT_EQ(kin_server_start(&n, &echo_ops, NULL, NULL, &server), 0);
    for (size_t i = 0; i <= KIN_MESSAGE_MAX; i++)
        out[i] = (unsigned char)(i * 7);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = 99;
        memset(in, 0xee, KIN_MESSAGE_MAX + 1);
        EXPECT_EQ(kin_call(server, out, sizes[i], in, KIN_MESSAGE_MAX, &size, KIN_NEVER), 0);
        EXPECT_EQ(size, sizes[i]);
        EXPECT_EQ(memcmp(in, out, size), 0);
        EXPECT_EQ(in[size], 0xee);
        EXPECT_EQ(kin_call(server, out, sizes[i], in, sizes[i], NULL, KIN_NEVER), 0);
    }
    size_t size = 99;
    memset(in, 0xee, 8);
    EXPECT_EQ(kin_call(server, NULL, 0, NULL, 0, &size, KIN_NEVER), 0);
    EXPECT_EQ(size, 0);
    EXPECT_EQ(kin_call(server, "12345678", 8, in, 7, &size, KIN_NEVER), -EMSGSIZE);
    EXPECT_EQ(size, 8);
    EXPECT_EQ(in[0], 0xee);
    EXPECT_EQ(kin_call(server, "12345678", 8, in, 7, NULL, KIN_NEVER), -EMSGSIZE);
    EXPECT_EQ(kin_call(server, "12345678", 8, NULL, 0, &size, KIN_NEVER), -EMSGSIZE);
    size = 99;
    EXPECT_EQ(kin_call(server, out, KIN_MESSAGE_MAX + 1, in, 1, &size, KIN_NEVER), -EMSGSIZE);
    EXPECT_EQ(kin_cast(server, out, KIN_MESSAGE_MAX + 1, KIN_NEVER), -EMSGSIZE);
    EXPECT_EQ(kin_cast(server, out, KIN_MESSAGE_MAX, KIN_NEVER), 0);
    EXPECT_EQ(kin_call(server, NULL, 1, in, 1, &size, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_call(server, "x", 1, NULL, 1, &size, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_cast(server, NULL, 1, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_cast(server, NULL, 0, KIN_NEVER), 0);
    EXPECT_EQ(size, 99);
    close_desk(server);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_leaks(), 0);
    free(in);
    free(out);
    return 0;
}

KIN_TEST(requests_and_replies_of_every_size, "GS-CALL-HANDLE GS-REPLY")
{
    run_on_few(in_requests_and_replies_of_every_size, NULL);
}

/* What a call that fails leaves untouched. */
static int in_a_call_that_fails_touches_nothing(void *arg)
{
    struct task_at_desk job = {do_return_only, -EIO, NULL};
    int number = 5;
    size_t size = 99;
    struct gate gate;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    (void)arg;
    keep_busy(desk, &gate);
    EXPECT_EQ(kin_call(desk, &job, sizeof job, &number, sizeof number, &size, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_call(desk, &job, sizeof job, &number, sizeof number, &size, 1), KIN_TIMEOUT);
    EXPECT_EQ(kin_call(desk, &job, sizeof job, &number, sizeof number, &size,
                       kin_after(KIN_US(100))),
              KIN_TIMEOUT);
    kin_event_set(&gate.open);
    EXPECT_EQ(kin_call(desk, &job, sizeof job, &number, sizeof number, &size, KIN_NEVER), -EIO);
    EXPECT_EQ(kin_call(desk, &job, sizeof job, &number, sizeof number, &size, KIN_NEVER),
              KIN_NOPROC);
    EXPECT_EQ(number, 5);
    EXPECT_EQ(size, 99);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(a_call_that_fails_touches_nothing, "D6")
{
    run_on_few(in_a_call_that_fails_touches_nothing, NULL);
}

static int do_abort(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)desk;
    EXPECT_EQ(kin_reply_abort(reply, (int)job->n), 0);
    EXPECT_EQ(kin_reply_abort(reply, (int)job->n), KIN_REPLIED);
    EXPECT_EQ(kin_reply_send(reply, NULL, 0), KIN_REPLIED);
    return 0;
}

static int in_an_answer_may_be_a_status(void *arg)
{
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    (void)arg;
    EXPECT_EQ(ask(desk, do_abort, -ENOENT, NULL), -ENOENT);
    EXPECT_EQ(ask(desk, do_abort, KIN_CLOSED, NULL), KIN_CLOSED);
    EXPECT_EQ(ask(desk, do_add, 1, NULL), 1);
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_leaks(), 0);
    return 0;
}

KIN_TEST(an_answer_may_be_a_status, "D6")
{
    run_on_few(in_an_answer_may_be_a_status, NULL);
}

/* on_call that neither answers nor keeps the call: the caller is told, it is a leak, and the server
 * goes on. */
static int in_a_call_that_is_forgotten_is_a_leak(void *arg)
{
    HOUSE(n);
    size_t before = kin_leaks();
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    struct kin_monitor_ref ref = watch(desk);
    (void)arg;
    EXPECT_EQ(ask(desk, do_return_only, 0, NULL), KIN_NOREPLY);
    EXPECT_EQ(kin_leaks(), before + 1);
    EXPECT_EQ(ask(desk, do_add, 1, NULL), 1);
    struct caller caller;
    struct kin_reply *held = hold_a_call(&n, &caller, desk);
    kin_reply_drop(held);
    await_flag(&caller.over, 1);
    EXPECT_EQ(caller.rc, KIN_NOREPLY);
    EXPECT_EQ(kin_leaks(), before + 2);
    EXPECT_EQ(kin_reply_send(held, NULL, 0), KIN_GONE);
    close_desk(desk);
    EXPECT_END(ref, KIN_DOWN_NORMAL, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_call_that_is_forgotten_is_a_leak, "GS-REPLY-LEAK SINV-1 D6")
{
    run_on_few(in_a_call_that_is_forgotten_is_a_leak, NULL);
}

static int do_move_and_use_old(struct desk *desk, const struct task_at_desk *job,
                               struct kin_reply *reply)
{
    struct kin_reply *moved = NULL, *again = NULL;
    (void)desk;
    (void)job;
    EXPECT_EQ(kin_reply_move(reply, &moved), 0);
    EXPECT(moved != NULL && moved != reply);
    EXPECT_EQ(kin_reply_send(reply, NULL, 0), KIN_STALE);
    EXPECT_EQ(kin_reply_abort(reply, -EIO), KIN_STALE);
    EXPECT_EQ(kin_reply_move(reply, &again), KIN_STALE);
    EXPECT_PTR(again, NULL);
    answer(moved, 9);
    kin_reply_drop(moved);
    return 0;
}

/* Moving, and what becomes of tokens of callers who left and servers that ended. */
static int in_moved_tokens(void *arg)
{
    int number = 1;
    HOUSE(n);
    size_t before = kin_leaks();
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    (void)arg;
    EXPECT_EQ(ask(desk, do_move_and_use_old, 0, NULL), 9);
    struct caller leaver;
    memset(&leaver, 0, sizeof leaver);
    leaver.to = desk;
    leaver.fn = do_hold;
    leaver.p = &leaver.held;
    leaver.deadline = kin_after(KIN_MS(5));
    EXPECT_EQ(kin_spawn(&n, caller_main, &leaver), 0);
    await_flag(&leaver.over, 1);
    EXPECT_EQ(leaver.rc, KIN_TIMEOUT);
    struct kin_reply *held = atomic_load(&leaver.held);
    if (held) { /* it got that far within the deadline */
        EXPECT_EQ(kin_reply_send(held, &number, sizeof number), KIN_GONE);
        EXPECT_EQ(kin_reply_abort(held, -EIO), KIN_GONE);
        kin_reply_drop(held);
    }
    EXPECT_EQ(kin_leaks(), before);
    struct caller last;
    held = hold_a_call(&n, &last, desk);
    close_desk(desk);
    await_flag(&last.over, 1);
    EXPECT_EQ(last.rc, KIN_STOPPING);
    EXPECT_EQ(kin_reply_send(held, &number, sizeof number), KIN_GONE);
    kin_reply_drop(held);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(moved_tokens, "D6 GS-REPLY")
{
    run_on_few(in_moved_tokens, NULL);
}

/* A token that is lost in memory is found when the server ends. */
static int in_a_token_that_is_lost_is_found_at_the_end(void *arg)
{
    const int status[] = {0, -EIO};
    (void)arg;
    for (int i = 0; i < 2; i++) {
        struct caller caller;
        HOUSE(n);
        size_t before = kin_leaks();
        struct kin_addr desk = open_desk(&n, NULL, NULL);
        struct kin_monitor_ref ref = watch(desk);
        EXPECT(hold_a_call(&n, &caller, desk) != NULL);
        EXPECT_EQ(kin_server_stop(desk, status[i], KIN_NEVER), 0);
        await_flag(&caller.over, 1);
        EXPECT_EQ(caller.rc, status[i] ? status[i] : KIN_STOPPING);
        EXPECT_EQ(kin_leaks(), before + 1);
        EXPECT_END(ref, status[i] ? KIN_DOWN_ERROR : KIN_DOWN_NORMAL, status[i]);
        EXPECT_EQ(kin_nursery_join(&n, NULL), status[i]);
    }
    return 0;
}

KIN_TEST(a_token_that_is_lost_is_found_at_the_end, "GS-REPLY-LEAK D6")
{
    run_on_few(in_a_token_that_is_lost_is_found_at_the_end, NULL);
}

static void *answer_from_a_thread(void *arg)
{
    int number = 8;
    int rc = kin_reply_send(arg, &number, sizeof number);
    kin_reply_drop(arg);
    return (void *)(intptr_t)rc;
}

/* A thread that is no task may answer too. */
static int in_a_thread_may_answer(void *arg)
{
    struct caller caller;
    (void)arg;
    pthread_t thread;
    void *rc = &caller;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    struct kin_reply *held = hold_a_call(&n, &caller, desk);
    EXPECT_EQ(pthread_create(&thread, NULL, answer_from_a_thread, held), 0);
    await_flag(&caller.over, 1);
    EXPECT_EQ(pthread_join(thread, &rc), 0);
    EXPECT_PTR(rc, NULL);
    EXPECT_EQ(caller.rc, 8);
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_thread_may_answer, "D6")
{
    run_on_few(in_a_thread_may_answer, NULL);
}

/* A caller that is cancelled leaves; the server is not harmed. */
static int in_a_cancelled_caller_leaves(void *arg)
{
    struct caller caller;
    struct kin_task_ref task;
    struct kin_outcome out;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    (void)arg;
    memset(&caller, 0, sizeof caller);
    caller.to = desk;
    caller.fn = do_hold;
    caller.p = &caller.held;
    EXPECT_EQ(kin_spawn_with(&n, NULL, caller_main, &caller, 0, &task), 0);
    while (!atomic_load(&caller.held)) /* ends: the call is taken */
        linger();
    EXPECT_EQ(kin_task_cancel(task), 0);
    EXPECT_EQ(kin_task_join(&n, task, &out, KIN_NEVER), 0);
    EXPECT_EQ(caller.rc, KIN_CANCELLED);
    EXPECT_EQ(kin_reply_send(atomic_load(&caller.held), NULL, 0), KIN_GONE);
    kin_reply_drop(atomic_load(&caller.held));
    EXPECT_EQ(ask(desk, do_add, 1, NULL), 1);
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_leaks(), 0);
    return 0;
}

KIN_TEST(a_cancelled_caller_leaves, "D6")
{
    run_on_few(in_a_cancelled_caller_leaves, NULL);
}

/* ---- full mailboxes ---- */

/* A full mailbox, by policy. */
static int in_a_full_mailbox_that_parks(void *arg)
{
    struct diary diary;
    struct gate gate;
    struct caller caster;
    struct desk_plan plan = {.diary = &diary};
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    options.mailbox_capacity = 2;
    struct kin_addr desk = open_desk(&n, &plan, &options);
    keep_busy(desk, &gate);
    EXPECT_EQ(send_by(desk, do_jot, 1, NULL, 0), 0);
    EXPECT_EQ(send_by(desk, do_jot, 2, NULL, 1), 0); /* there is room: no deadline matters */
    EXPECT_EQ(send_by(desk, do_jot, 3, NULL, 0), KIN_FULL);
    EXPECT_EQ(ask_by(desk, do_jot, 3, NULL, 0), KIN_FULL);
    EXPECT_EQ(send_by(desk, do_jot, 3, NULL, 1), KIN_TIMEOUT);
    EXPECT_EQ(ask_by(desk, do_jot, 3, NULL, 1), KIN_TIMEOUT);
    EXPECT_EQ(send_by(desk, do_jot, 3, NULL, kin_after(KIN_US(100))), KIN_TIMEOUT);
    memset(&caster, 0, sizeof caster);
    caster.to = desk;
    caster.fn = do_jot;
    caster.n = 4;
    EXPECT_EQ(kin_spawn(&n, caster_main, &caster), 0);
    await_flag(&caster.began, 1);
    let_others_run();
    EXPECT_EQ(atomic_load(&caster.over), 0);
    kin_event_set(&gate.open);
    await_flag(&caster.over, 1);
    EXPECT_EQ(caster.rc, 0);
    await_words(&diary, 3);
    EXPECT_DIARY(&diary, "cast:1 cast:2 cast:4");
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_full_mailbox_that_parks, "GS-CAST-FULL D2")
{
    run_on_few(in_a_full_mailbox_that_parks, NULL);
}

static int in_a_full_mailbox_that_rejects_or_drops(void *arg)
{
    (void)arg;
    for (int drops = 0; drops < 2; drops++) {
        struct diary diary;
        struct gate gate;
        struct caller calls[2];
        struct desk_plan plan = {.diary = &diary};
        DESK_OPTIONS(options);
        HOUSE(n);
        clear_diary(&diary);
        options.mailbox_capacity = 2;
        options.overflow = drops ? KIN_OVERFLOW_DROP_OLDEST : KIN_OVERFLOW_REJECT;
        struct kin_addr desk = open_desk(&n, &plan, &options);
        keep_busy(desk, &gate);
        EXPECT_EQ(send_to(desk, do_jot, 1, NULL), 0);
        EXPECT_EQ(send_to(desk, do_jot, 2, NULL), 0);
        EXPECT_EQ(send_to(desk, do_jot, 3, NULL), drops ? 0 : KIN_FULL);
        EXPECT_EQ(send_by(desk, do_jot, 4, NULL, 0), drops ? 0 : KIN_FULL);
        kin_event_set(&gate.open);
        await_words(&diary, 2);
        EXPECT_DIARY(&diary, drops ? "cast:3 cast:4" : "cast:1 cast:2");
        EXPECT_EQ(ask(desk, do_add, 0, NULL), 0);
        keep_busy(desk, &gate);
        spawn_caller(&n, &calls[0], desk, do_jot, 5);
        spawn_caller(&n, &calls[1], desk, do_jot, 6);
        while (ask_by(desk, do_jot, 7, NULL, 0) != KIN_FULL) /* ends: both calls come */
            linger();
        EXPECT_EQ(send_to(desk, do_jot, 8, NULL), KIN_FULL); /* calls are not dropped */
        kin_event_set(&gate.open);
        await_flag(&calls[0].over, 1);
        await_flag(&calls[1].over, 1);
        EXPECT_EQ(calls[0].rc, 0);
        EXPECT_EQ(calls[1].rc, 0);
        close_desk(desk);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(a_full_mailbox_that_rejects_or_drops, "GS-CAST-FULL")
{
    run_on_few(in_a_full_mailbox_that_rejects_or_drops, NULL);
}

/* ---- stops ---- */

static int in_stops_answer(void *arg)
{
    struct gate gate;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    struct kin_monitor_ref ref = watch(desk);
    (void)arg;
    EXPECT_EQ(kin_server_stop(desk, 1, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_server_stop(desk, 4096, 0), -EINVAL);
    keep_busy(desk, &gate);
    EXPECT_EQ(kin_server_stop(desk, -EPROTO, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_server_stop(desk, -EIO, kin_after(KIN_US(100))), KIN_TIMEOUT);
    EXPECT_EQ(kin_server_stop((struct kin_addr){7, 7}, 0, KIN_NEVER), KIN_NOCONN);
    kin_event_set(&gate.open);
    EXPECT_END(ref, KIN_DOWN_ERROR, -EPROTO); /* the first one counts */
    EXPECT_EQ(kin_server_stop(desk, 0, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_server_stop(desk, 0, 0), KIN_NOPROC);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPROTO);
    return 0;
}

KIN_TEST(stops_answer, "GS-STOPPED")
{
    run_on_few(in_stops_answer, NULL);
}

static void overstay(struct desk *desk, const struct kin_outcome *why)
{
    (void)why;
    jot(desk->plan.diary, "stop:%d", kin_sleep(KIN_NEVER));
}

static int stop_an_overstayer(void *arg)
{
    struct desk_plan plan = {.diary = arg, .on_stop = overstay};
    DESK_OPTIONS(options);
    HOUSE(n);
    options.stop_timeout = KIN_MS(2);
    struct kin_addr desk = open_desk(&n, &plan, &options);
    struct kin_monitor_ref ref = watch(desk);
    EXPECT_EQ(kin_server_stop(desk, 0, KIN_NEVER), 0);
    end_of(ref);
    return kin_nursery_join(&n, NULL) <= 0 ? 0 : -1;
}

/* D19: the mask of drain and on_stop is bounded: past stop_timeout it is void, and reported. */
KIN_TEST(a_stop_that_takes_too_long_is_reported, "D19 N2002")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        static struct reports reports;
        static struct diary diary;
        clear_diary(&diary);
        memset(&reports, 0, sizeof reports);
        EXPECT_EQ(run_reporting(workers, stop_an_overstayer, &diary, &reports), 0);
        EXPECT_DIARY(&diary, "stop:-4096");
        EXPECT_EQ(reports.count, 1);
        EXPECT_EQ(reports.status[0], KIN_STUCK);
    }
}
