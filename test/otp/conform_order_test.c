/* SPDX-License-Identifier: MIT */
/*
 * Goal: the order of what a server is told, and the drain: cases K256, K257 and K260, and rulings
 *       D2, D3, D4, D5, D6, D11, D12, D17.
 * Method: black box, one body per case, on 1, 2 and 4 workers. A server is kept busy while things
 *         pile up for it; what it then does is compared with what the rules say.
 */
#include "otp/desk.h"

static void jot_stop(struct desk *desk, const struct kin_outcome *why)
{
    jot(desk->plan.diary, "stop:%d:%d", (int)why->severity, why->status);
}

/* ---- system messages ---- */

/* Where a server keeps what it is told. */
struct told {
    struct kin_info info[64];
    _Atomic int count;
};

static int keep_info(struct desk *desk, const struct kin_info *info)
{
    struct told *told = desk->plan.p;
    int i = atomic_load(&told->count);
    EXPECT_LT(i, 64);
    told->info[i] = *info;
    atomic_store(&told->count, i + 1);
    return 0;
}

struct sort_key {
    uint64_t time, kind, subject;
};

static struct sort_key key_of(const struct kin_info *info)
{
    struct sort_key key = {info->vt, (uint64_t)info->kind, 0};
    switch (info->kind) {
    case KIN_INFO_DOWN:
        key.subject = info->u.down.who.id;
        break;
    case KIN_INFO_EXIT:
        key.subject = info->u.exit.from.id;
        break;
    case KIN_INFO_TIMEOUT:
        key.time = (uint64_t)info->u.timeout.deadline;
        key.subject = info->u.timeout.id;
        break;
    default:
        EXPECT(false);
    }
    return key;
}

static bool is_sorted(struct sort_key a, struct sort_key b)
{
    if (a.time != b.time)
        return a.time < b.time;
    return a.kind != b.kind ? a.kind < b.kind : a.subject <= b.subject;
}

static int fail_when_told(void *arg)
{
    int rc = kin_event_wait(arg, KIN_NEVER);
    return rc < 0 ? rc : -EIO;
}

/* What a server is to watch, in which order. */
struct piled {
    struct kin_addr who[8];
    kin_time at[4];
    int shape;
};

/* Watches, links and sets timers, in an order that the shape gives. */
static int do_pile(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct piled *piled = job->p;
    for (int i = 0; i < 20; i++) {
        int what = (i * (piled->shape % 2 ? 7 : 3) + piled->shape) % 20;
        struct kin_monitor_ref monitor;
        struct kin_link_ref link;
        if (what < 8)
            EXPECT_EQ(kin_monitor(piled->who[what], &monitor), 0);
        else if (what < 16)
            EXPECT_EQ(kin_link(piled->who[what - 8], KIN_EXIT_TRAP, KIN_EXIT_IGNORE, &link), 0);
        else
            EXPECT_EQ(kin_server_timer_set(desk->server, (uint64_t)(what - 15),
                                           piled->at[what - 16]),
                      0);
    }
    answer(reply, 0);
    return 0;
}

/* K256: Down, Exit and Timeout that piled up come sorted by time, kind and subject, in whatever
 * order they were made; and each comes once. */
static int in_k256_what_piled_up_comes_sorted(void *arg)
{
    (void)arg;
    for (int shape = 0; shape < 6; shape++) {
        struct told told;
        struct gate gate;
        struct piled piled;
        struct kin_event go_on[8];
        struct kin_task_ref refs[8];
        struct desk_plan plan = {.on_info = keep_info, .p = &told};
        HOUSE(n);
        memset(&told, 0, sizeof told);
        memset(go_on, 0, sizeof go_on);
        struct kin_addr desk = open_desk(&n, &plan, NULL);
        for (int i = 0; i < 8; i++) {
            EXPECT_EQ(kin_spawn_with(&n, NULL, fail_when_told, &go_on[i], 0, &refs[i]), 0);
            piled.who[i] = kin_task_addr(refs[i]);
        }
        kin_time soon = kin_after(KIN_MS(20));
        for (int i = 0; i < 4; i++) /* two of one time, two others between the ends, perhaps */
            piled.at[i] = i < 2 ? soon : soon - KIN_MS(i);
        piled.shape = shape;
        EXPECT_EQ(ask(desk, do_pile, 0, &piled), 0);
        keep_busy(desk, &gate);
        for (int i = 0; i < 8; i++) {
            int k = (i * 5 + shape) % 8;
            kin_event_set(&go_on[k]);
            if (i % 2)
                EXPECT_EQ(kin_task_join(&n, refs[k], NULL, KIN_NEVER), 0);
        }
        for (int i = 0; i < 8; i++)
            EXPECT_EQ(kin_task_join(&n, refs[i], NULL, KIN_NEVER), 0);
        EXPECT_EQ(kin_sleep(soon + 1), 0);
        kin_event_set(&gate.open);
        await_flag(&told.count, 20);
        EXPECT_GE(ask(desk, do_add, 0, NULL), 0);
        EXPECT_EQ(atomic_load(&told.count), 20);
        for (int i = 1; i < 20; i++)
            EXPECT(is_sorted(key_of(&told.info[i - 1]), key_of(&told.info[i])));
        for (int i = 0; i < 8; i++) {
            int downs = 0, exits = 0;
            for (int k = 0; k < 20; k++) {
                downs += told.info[k].kind == KIN_INFO_DOWN &&
                         kin_addr_same(told.info[k].u.down.who, piled.who[i]);
                exits += told.info[k].kind == KIN_INFO_EXIT &&
                         kin_addr_same(told.info[k].u.exit.from, piled.who[i]);
            }
            EXPECT_EQ(downs, 1);
            EXPECT_EQ(exits, 1);
        }
        close_desk(desk);
        EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    }
    return 0;
}

KIN_TEST(k256_what_piled_up_comes_sorted, "K256 GS-INFO-SORT SINV-4 D3")
{
    run_on_few(in_k256_what_piled_up_comes_sorted, NULL);
}

static int jot_info(struct desk *desk, const struct kin_info *info)
{
    if (info->kind == KIN_INFO_DOWN)
        jot(desk->plan.diary, "down:%d", info->u.down.status);
    else if (info->kind == KIN_INFO_TIMEOUT)
        jot(desk->plan.diary, "timeout:%d", (int)info->u.timeout.id);
    else
        jot(desk->plan.diary, "info:%d", (int)info->kind);
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

struct sender {
    struct kin_addr to;
    struct kin_event go_on;
    int count;
    int status;
};

static int send_and_end(void *arg)
{
    struct sender *sender = arg;
    int rc = kin_event_wait(&sender->go_on, KIN_NEVER);
    if (rc < 0)
        return rc;
    for (int i = 0; i < sender->count; i++)
        EXPECT_EQ(send_to(sender->to, do_jot, i, NULL), 0);
    return sender->status;
}

/* D3: what somebody sent before its end is handled before the news of its end; what others send
 * after it comes behind the news. */
static int in_d3_what_was_sent_before_the_end_comes_before_the_news(void *arg)
{
    (void)arg;
    for (int round = 0; round < 20; round++) {
        struct diary diary;
        struct sender sender;
        struct gate gate;
        struct kin_task_ref ref;
        char want[128];
        struct desk_plan plan = {.diary = &diary, .on_info = jot_info};
        HOUSE(n);
        clear_diary(&diary);
        memset(&sender, 0, sizeof sender);
        sender.to = open_desk(&n, &plan, NULL);
        sender.count = 5;
        sender.status = -EIO;
        EXPECT_EQ(kin_spawn_with(&n, NULL, send_and_end, &sender, 0, &ref), 0);
        struct kin_addr who = kin_task_addr(ref);
        EXPECT_EQ(ask(sender.to, do_watch, 0, &who), 0);
        bool is_busy = round % 2;
        if (is_busy)
            keep_busy(sender.to, &gate);
        kin_event_set(&sender.go_on);
        if (is_busy) {
            EXPECT_EQ(kin_task_join(&n, ref, NULL, KIN_NEVER), 0);
            EXPECT_EQ(send_to(sender.to, do_jot, 77, NULL), 0);
            kin_event_set(&gate.open);
            await_words(&diary, 7);
        } else {
            await_words(&diary, 6);
        }
        snprintf(want, sizeof want, "cast:0 cast:1 cast:2 cast:3 cast:4 down:%d%s", -EIO,
                 is_busy ? " cast:77" : "");
        EXPECT_DIARY(&diary, want);
        close_desk(sender.to);
        EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    }
    return 0;
}

KIN_TEST(d3_what_was_sent_before_the_end_comes_before_the_news, "D3 K185 GS-INFO-DELIVER")
{
    run_on_few(in_d3_what_was_sent_before_the_end_comes_before_the_news, NULL);
}

/* D3: system messages need no room in a full mailbox, and none is lost. */
static int in_d3_system_messages_need_no_room(void *arg)
{
    struct diary diary;
    struct gate gate;
    struct kin_event go_on;
    struct kin_task_ref ref;
    struct desk_plan plan = {.diary = &diary, .on_info = jot_info};
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    memset(&go_on, 0, sizeof go_on);
    options.mailbox_capacity = 1;
    struct kin_addr desk = open_desk(&n, &plan, &options);
    EXPECT_EQ(kin_spawn_with(&n, NULL, fail_when_told, &go_on, 0, &ref), 0);
    struct kin_addr who = kin_task_addr(ref);
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(ask(desk, do_watch, 0, &who), 0);
    keep_busy(desk, &gate);
    EXPECT_EQ(send_by(desk, do_jot, 1, NULL, 0), 0);
    EXPECT_EQ(send_by(desk, do_jot, 2, NULL, 0), KIN_FULL);
    kin_event_set(&go_on);
    EXPECT_EQ(kin_task_join(&n, ref, NULL, KIN_NEVER), 0);
    kin_event_set(&gate.open);
    await_words(&diary, 11);
    char want[256] = "cast:1";
    for (int i = 0; i < 10; i++)
        snprintf(want + strlen(want), sizeof want - strlen(want), " down:%d", -EIO);
    EXPECT_DIARY(&diary, want);
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(d3_system_messages_need_no_room, "D3")
{
    run_on_few(in_d3_system_messages_need_no_room, NULL);
}

/* Many senders: each one's messages come in order, and each once. */
struct stream {
    struct kin_addr to;
    int id;
};

struct seen {
    int last[8];
    int total;
};

static int do_see(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    struct seen *seen = desk->plan.p;
    int from = (int)(job->n / 100000), number = (int)(job->n % 100000);
    EXPECT_EQ(number, seen->last[from] + 1);
    seen->last[from] = number;
    seen->total++;
    answer(reply, seen->total);
    return 0;
}

static int send_in_order(void *arg)
{
    struct stream *stream = arg;
    const int count = enough(500 / (int)kin_test_scale() + 20, 12);
    for (int i = 1; i <= count; i++) {
        long n = stream->id * 100000L + i;
        if (i % 10 == 0)
            EXPECT_GT(ask(stream->to, do_see, n, NULL), 0);
        else
            EXPECT_EQ(send_to(stream->to, do_see, n, NULL), 0);
    }
    return count;
}

static int in_messages_of_one_sender_come_in_order(void *arg)
{
    struct stream streams[8];
    struct seen seen;
    struct desk_plan plan = {.p = &seen};
    const int count = enough(500 / (int)kin_test_scale() + 20, 12);
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    memset(&seen, 0, sizeof seen);
    options.mailbox_capacity = 3; /* most senders wait for room, most of the time */
    struct kin_addr desk = open_desk(&n, &plan, &options);
    {
        KIN_NURSERY(senders);
        for (int i = 0; i < 8; i++) {
            streams[i] = (struct stream){desk, i};
            EXPECT_EQ(kin_spawn(&senders, send_in_order, &streams[i]), 0);
        }
        EXPECT_EQ(kin_nursery_join(&senders, NULL), 0);
    }
    EXPECT_EQ(ask(desk, do_add, 0, NULL), 0);
    EXPECT_EQ(seen.total, 8 * count);
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(messages_of_one_sender_come_in_order, "K059 GS-CAST-HANDLE GS-CALL-HANDLE")
{
    run_on_few(in_messages_of_one_sender_come_in_order, NULL);
}

/* ---- the drain ---- */

static int jot_mask(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    do_jot(desk, job, reply);
    EXPECT_EQ(kin_server_state(kin_self_addr()), KIN_SERVER_DRAINING);
    EXPECT_EQ(kin_yield(), 0); /* masked: nobody can cancel the drain */
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(10))), 0);
    return 0;
}

static void jot_masked_stop(struct desk *desk, const struct kin_outcome *why)
{
    jot_stop(desk, why);
    EXPECT_EQ(kin_server_state(kin_self_addr()), KIN_SERVER_STOPPING);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(10))), 0);
}

enum how { BY_TASK_CANCEL, BY_NURSERY_CANCEL, BY_STOP, HOWS };

/* Waits until the mailbox of a busy desk is full: until all who come have come. */
static void await_full(struct kin_addr desk)
{
    int rc;
    while ((rc = ask_by(desk, do_add, 0, NULL, 0)) != KIN_FULL) { /* ends: somebody comes */
        EXPECT_EQ(rc, KIN_TIMEOUT);
        linger();
    }
}

/* Casts and calls in turns, 8 in all, while it is busy. */
static void fill(struct kin_nursery *callers, struct kin_addr desk, struct caller call[4])
{
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(send_to(desk, jot_mask, 2 * i, NULL), 0);
        spawn_caller(callers, &call[i], desk, jot_mask, 2 * i + 1);
        await_flag(&call[i].began, 1);
        let_others_run();
    }
    await_full(desk);
}

/* Asks a busy server to stop, one way or another. */
static void ask_to_stop(struct kin_nursery *house, struct kin_addr desk, struct kin_task_ref task,
                        enum how how)
{
    if (how == BY_TASK_CANCEL)
        EXPECT_EQ(kin_task_cancel(task), 0);
    else if (how == BY_NURSERY_CANCEL)
        kin_nursery_cancel(house, 0);
    else
        EXPECT_EQ(kin_server_stop(desk, -ESHUTDOWN, 0), KIN_TIMEOUT);
}

/* What the diary must have after a drain of everything: each call once, the casts in order. */
static void expect_all_done(struct diary *diary, const char *stop)
{
    char *text = malloc(8192), word[16];
    const char *at = text_of(diary, text);
    for (int i = 0; i < 4; i++) {
        snprintf(word, sizeof word, "cast:%d ", 2 * i);
        at = strstr(at, word);
        EXPECT(at != NULL);
        snprintf(word, sizeof word, "call:%d", 2 * i + 1);
        EXPECT(has_word(diary, word));
    }
    EXPECT_STR(text + strlen(text) - strlen(stop), stop);
    EXPECT_EQ(atomic_load(&diary->words), 9);
    free(text);
}

/* K257: asked to stop, a server aborts the calls and does the casts in order, then on_stop, once,
 * all of it masked; with NONE it does nothing, with ALL everything. */
static void drain_one(enum kin_drain drain, enum how how)
{
    struct diary diary;
    struct gate gate;
    struct caller call[4];
    struct kin_task_ref task;
    struct kin_addr desk;
    struct desk_plan plan = {.diary = &diary, .on_stop = jot_masked_stop};
    char want[256];
    DESK_OPTIONS(options);
    clear_diary(&diary);
    options.drain = drain;
    options.mailbox_capacity = 8;
    KIN_NURSERY(callers);
    HOUSE(house);
    desk = open_desk(&house, &plan, &options);
    EXPECT_EQ(ask(desk, do_name_task, 0, &task), 0);
    struct kin_monitor_ref ref = watch(desk);
    keep_busy(desk, &gate);
    fill(&callers, desk, call);
    ask_to_stop(&house, desk, task, how);
    kin_event_set(&gate.open);
    kin_mask(); /* a cancelled nursery cancels the waits of its owner too */
    struct kin_info end = end_of(ref);
    kin_unmask();
    EXPECT_EQ(end.u.down.reason, how == BY_STOP ? KIN_DOWN_ERROR : KIN_DOWN_CANCELLED);
    EXPECT_EQ(end.u.down.status, how == BY_STOP ? -ESHUTDOWN : KIN_CANCELLED);
    int rc = kin_nursery_join(&house, NULL);
    EXPECT_EQ(rc, how == BY_STOP ? -ESHUTDOWN : how == BY_NURSERY_CANCEL ? KIN_CANCELLED : 0);
    EXPECT_EQ(kin_nursery_join(&callers, NULL), 0);
    snprintf(want, sizeof want, "%sstop:%d:%d",
             drain == KIN_DRAIN_CASTS ? "cast:0 cast:2 cast:4 cast:6 " : "",
             how == BY_STOP ? KIN_SEV_ERROR : KIN_SEV_CANCELLED,
             how == BY_STOP ? -ESHUTDOWN : KIN_CANCELLED);
    if (drain == KIN_DRAIN_ALL)
        expect_all_done(&diary, want);
    else
        EXPECT_DIARY(&diary, want);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(call[i].rc, drain == KIN_DRAIN_ALL ? 0 : KIN_STOPPING);
    EXPECT_EQ(kin_leaks(), 0);
}

static int in_k257_drains(void *arg)
{
    int shape = *(int *)arg;
    drain_one((enum kin_drain)(shape / HOWS), (enum how)(shape % HOWS));
    return 0;
}

/* K257: with casts only, which is the default. */
KIN_TEST(k257_a_drain_does_the_casts_and_aborts_the_calls,
         "K257 GS-STOP-BEGIN GS-DRAIN-MSG GS-DRAIN-DONE D17")
{
    for (int how = 0; how < HOWS; how++)
        run_on_few(in_k257_drains, &(int){KIN_DRAIN_CASTS * HOWS + how});
}

/* K257: with the option to do nothing, or everything. */
KIN_TEST(k257_a_drain_does_nothing_or_everything_if_asked, "K257 D5")
{
    for (int how = 0; how < HOWS; how++) {
        run_on_few(in_k257_drains, &(int){KIN_DRAIN_NONE * HOWS + how});
        run_on_few(in_k257_drains, &(int){KIN_DRAIN_ALL * HOWS + how});
    }
}

/* K257: whoever comes while a server drains is turned away at once; so is whoever waits for
 * room. */
static int in_k257_newcomers_to_a_drain_are_turned_away(void *arg)
{
    struct diary diary;
    struct gate gate, slow;
    struct caller call, cast;
    struct kin_task_ref task;
    struct desk_plan plan = {.diary = &diary, .on_stop = jot_stop};
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    memset(&slow, 0, sizeof slow);
    options.mailbox_capacity = 2;
    struct kin_addr desk = open_desk(&n, &plan, &options);
    EXPECT_EQ(ask(desk, do_name_task, 0, &task), 0);
    struct kin_monitor_ref ref = watch(desk);
    keep_busy(desk, &gate);
    EXPECT_EQ(send_to(desk, do_wait, 0, &slow), 0);
    EXPECT_EQ(send_to(desk, do_jot, 1, NULL), 0);
    EXPECT_EQ(ask_by(desk, do_jot, 2, NULL, 0), KIN_FULL);
    spawn_caller(&n, &call, desk, do_jot, 3);
    memset(&cast, 0, sizeof cast);
    cast.to = desk;
    cast.fn = do_jot;
    cast.n = 4;
    EXPECT_EQ(kin_spawn(&n, caster_main, &cast), 0);
    await_flag(&call.began, 1);
    await_flag(&cast.began, 1);
    let_others_run();
    EXPECT_EQ(kin_task_cancel(task), 0);
    kin_event_set(&gate.open);
    EXPECT_EQ(kin_event_wait(&slow.reached, KIN_NEVER), 0); /* it drains */
    EXPECT_EQ(kin_server_state(desk), KIN_SERVER_DRAINING);
    EXPECT_EQ(ask(desk, do_jot, 5, NULL), KIN_STOPPING);
    EXPECT_EQ(send_to(desk, do_jot, 6, NULL), KIN_STOPPING);
    EXPECT_EQ(send_by(desk, do_jot, 6, NULL, 0), KIN_STOPPING);
    await_flag(&call.over, 1);
    await_flag(&cast.over, 1);
    EXPECT_EQ(call.rc, KIN_STOPPING);
    EXPECT_EQ(cast.rc, KIN_STOPPING);
    kin_event_set(&slow.open);
    EXPECT_END(ref, KIN_DOWN_CANCELLED, KIN_CANCELLED);
    EXPECT_DIARY(&diary, "cast:1 stop:2:-4096");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k257_newcomers_to_a_drain_are_turned_away, "K257 GS-STOP-BEGIN")
{
    run_on_few(in_k257_newcomers_to_a_drain_are_turned_away, NULL);
}

/* A failure in the drain ends it; the rest is dropped. */
static int in_an_error_in_the_drain_ends_it(void *arg)
{
    struct diary diary;
    struct gate gate;
    char want[64];
    struct desk_plan plan = {.diary = &diary, .on_stop = jot_stop};
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    struct kin_monitor_ref ref = watch(desk);
    keep_busy(desk, &gate);
    EXPECT_EQ(send_to(desk, do_jot, 1, NULL), 0);
    EXPECT_EQ(send_to(desk, do_return_only, -EIO, NULL), 0);
    EXPECT_EQ(send_to(desk, do_jot, 2, NULL), 0);
    EXPECT_EQ(kin_server_stop(desk, 0, 0), KIN_TIMEOUT);
    kin_event_set(&gate.open);
    EXPECT_END(ref, KIN_DOWN_ERROR, -EIO);
    snprintf(want, sizeof want, "cast:1 stop:%d:%d", KIN_SEV_ERROR, -EIO);
    EXPECT_DIARY(&diary, want);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(an_error_in_the_drain_ends_it, "D5 GS-DRAIN-DONE")
{
    run_on_few(in_an_error_in_the_drain_ends_it, NULL);
}

/* D5: an error and a stop by itself do not drain: casts are dropped, calls get the reason. */
static int in_d5_an_error_does_not_drain(void *arg)
{
    desk_fn *const ways[] = {do_return_only, do_fail, do_stop_self, do_stop_self, do_panic};
    const int status[] = {-EIO, -EIO, -EIO, 0, 0};
    const int heard[] = {-EIO, -EIO, -EIO, KIN_STOPPING, KIN_PANICKED};
    (void)arg;
    for (int way = 0; way < 5; way++) {
        struct diary diary;
        struct gate gate;
        struct caller call;
        char want[64];
        struct desk_plan plan = {.diary = &diary, .on_stop = jot_stop};
        DESK_OPTIONS(options);
        HOUSE(n);
        clear_diary(&diary);
        options.drain = KIN_DRAIN_ALL;
        options.mailbox_capacity = 3;
        struct kin_addr desk = open_desk(&n, &plan, &options);
        struct kin_monitor_ref ref = watch(desk);
        keep_busy(desk, &gate);
        EXPECT_EQ(send_to(desk, ways[way], status[way], NULL), 0);
        EXPECT_EQ(send_to(desk, do_jot, 1, NULL), 0);
        spawn_caller(&n, &call, desk, do_jot, 2);
        await_full(desk);
        kin_event_set(&gate.open);
        struct kin_info end = end_of(ref);
        EXPECT_EQ(end.u.down.status, way == 4 ? KIN_PANICKED : status[way]);
        await_flag(&call.over, 1);
        EXPECT_EQ(call.rc, heard[way]);
        snprintf(want, sizeof want, "stop:%d:%d", status[way] ? KIN_SEV_ERROR : KIN_SEV_OK,
                 status[way]);
        EXPECT_DIARY(&diary, way == 4 ? "" : want);
        EXPECT_EQ(kin_nursery_join(&n, NULL), way == 4 ? KIN_PANICKED : status[way]);
    }
    return 0;
}

KIN_TEST(d5_an_error_does_not_drain, "D5")
{
    run_on_few(in_d5_an_error_does_not_drain, NULL);
}

static int do_return_cancelled(struct desk *desk, const struct task_at_desk *job,
                               struct kin_reply *reply)
{
    struct gate *gate = job->p;
    (void)desk;
    (void)reply;
    kin_event_set(&gate->reached);
    return kin_event_wait(&gate->open, KIN_NEVER);
}

/* A callback that returns KIN_CANCELLED because it was cancelled: that is the cancellation, and it
 * drains. One that was not asked: that is an error. */
static int in_a_callback_that_gives_up_when_cancelled_is_no_failure(void *arg)
{
    struct diary diary;
    struct gate gate;
    struct kin_task_ref task;
    struct desk_plan plan = {.diary = &diary, .on_stop = jot_stop};
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    memset(&gate, 0, sizeof gate);
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    EXPECT_EQ(ask(desk, do_name_task, 0, &task), 0);
    struct kin_monitor_ref ref = watch(desk);
    EXPECT_EQ(send_to(desk, do_return_cancelled, 0, &gate), 0);
    EXPECT_EQ(kin_event_wait(&gate.reached, KIN_NEVER), 0);
    EXPECT_EQ(send_to(desk, do_jot, 1, NULL), 0);
    EXPECT_EQ(kin_task_cancel(task), 0);
    EXPECT_END(ref, KIN_DOWN_CANCELLED, KIN_CANCELLED);
    EXPECT_DIARY(&diary, "cast:1 stop:2:-4096");
    clear_diary(&diary);
    desk = open_desk(&n, &plan, NULL);
    ref = watch(desk);
    EXPECT_EQ(ask(desk, do_return_only, KIN_CANCELLED, NULL), KIN_CANCELLED);
    EXPECT_END(ref, KIN_DOWN_ERROR, KIN_CANCELLED);
    EXPECT_DIARY(&diary, "stop:1:-4096");
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_callback_that_gives_up_when_cancelled_is_no_failure, "D5 GS-STOP-BEGIN")
{
    run_on_few(in_a_callback_that_gives_up_when_cancelled_is_no_failure, NULL);
}

/* ---- before the start ---- */

static int wait_in_start(struct desk *desk)
{
    struct gate *gate = desk->plan.p;
    kin_event_set(&gate->reached);
    kin_mask();
    EXPECT_EQ(kin_event_wait(&gate->open, KIN_NEVER), 0);
    kin_unmask();
    return desk->sum == 0 ? 0 : -EIO;
}

static int fail_in_start(struct desk *desk)
{
    EXPECT_EQ(wait_in_start(desk), 0);
    return -EHOSTDOWN;
}

struct starter {
    struct kin_nursery *n;
    struct desk_plan *plan;
    struct kin_server_options *options;
    struct kin_addr out;
    int rc;
    _Atomic int over;
};

static int start_it(void *arg)
{
    struct starter *starter = arg;
    starter->rc = try_open_desk(starter->n, starter->plan, starter->options, &starter->out);
    atomic_store(&starter->over, 1);
    return 0;
}

/* D2 D4: calls and casts to a server that is being started wait; a start that fails is what the
 * callers get. */
static int in_d2_d4_calls_and_casts_to_a_server_that_starts_wait(void *arg)
{
    (void)arg;
    for (int fails = 0; fails < 2; fails++) {
        struct diary diary;
        struct gate gate;
        struct caller call;
        struct kin_addr desk;
        struct desk_plan plan = {.diary = &diary, .p = &gate};
        DESK_OPTIONS(options);
        HOUSE(n);
        clear_diary(&diary);
        memset(&gate, 0, sizeof gate);
        options.name = "starting";
        options.mailbox_capacity = 2;
        plan.on_start = fails ? fail_in_start : wait_in_start;
        struct starter starter = {&n, &plan, &options, {0, 0}, 1, 0};
        EXPECT_EQ(kin_spawn(&n, start_it, &starter), 0);
        EXPECT_EQ(kin_event_wait(&gate.reached, KIN_NEVER), 0);
        EXPECT_EQ(kin_whereis("starting", &desk), 0); /* before on_start */
        EXPECT_EQ(kin_server_state(desk), KIN_SERVER_INIT);
        EXPECT_EQ(atomic_load(&starter.over), 0);
        EXPECT_EQ(send_by(desk, do_jot, 1, NULL, 0), 0);
        spawn_caller(&n, &call, desk, do_jot, 2);
        await_full(desk);
        EXPECT_EQ(atomic_load(&call.over), 0);
        kin_event_set(&gate.open);
        await_flag(&call.over, 1);
        await_flag(&starter.over, 1);
        EXPECT_EQ(starter.rc, fails ? -EHOSTDOWN : 0);
        EXPECT_DIARY(&diary, fails ? "" : "cast:1 call:2");
        if (fails) {
            EXPECT_EQ(call.rc, -EHOSTDOWN);
        } else {
            EXPECT_EQ(call.rc, 0);
            close_desk(desk);
        }
        EXPECT_EQ(kin_whereis("starting", &desk), KIN_NOPROC);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(d2_d4_calls_and_casts_to_a_server_that_starts_wait, "D2 D4 GS-CAST-TRY GS-CALL-SEND")
{
    run_on_few(in_d2_d4_calls_and_casts_to_a_server_that_starts_wait, NULL);
}

static int start_in_a_cancelled_task(void *arg)
{
    struct starter *starter = arg;
    atomic_store(&starter->over, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    starter->rc = try_open_desk(starter->n, starter->plan, starter->options, &starter->out);
    return 0;
}

/* K260: a start by somebody who is cancelled: the server is stopped before its on_start, unless
 * another worker was quicker, and nothing of it is left. */
static int in_k260_cancelled_before_its_start(void *arg)
{
    struct diary diary;
    struct kin_task_ref task;
    struct kin_addr found;
    struct kin_stats stats;
    struct desk_plan plan = {.diary = &diary, .label = "a"};
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    options.name = "early";
    struct starter starter = {&n, &plan, &options, {3, 4}, 1, 0};
    EXPECT_EQ(kin_spawn_with(&n, NULL, start_in_a_cancelled_task, &starter, 0, &task), 0);
    await_flag(&starter.over, 1);
    EXPECT_EQ(kin_task_cancel(task), 0);
    EXPECT_EQ(kin_task_join(&n, task, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    if (starter.rc == 0) {
        EXPECT_GT(stats.workers, 1);
        close_desk(starter.out);
    } else {
        EXPECT_EQ(starter.rc, KIN_CANCELLED);
        EXPECT_EQ(starter.out.id, 4);
        EXPECT_EQ(kin_whereis("early", &found), KIN_NOPROC);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    if (stats.workers == 1)
        EXPECT_DIARY(&diary, "");
    else if (atomic_load(&diary.words) > 0)
        EXPECT_DIARY(&diary, "+a -a");
    return 0;
}

KIN_TEST(k260_cancelled_before_its_start, "K260 GS-INIT D4")
{
    run_on_few(in_k260_cancelled_before_its_start, NULL);
}

/* K260: a starter that is cancelled while on_start runs: the server is stopped, the name free. */
static int in_k260_a_starter_that_is_cancelled_in_the_middle(void *arg)
{
    struct diary diary;
    struct gate gate;
    struct kin_task_ref task;
    struct kin_addr found;
    struct desk_plan plan = {.diary = &diary, .on_start = wait_in_start, .p = &gate};
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    memset(&gate, 0, sizeof gate);
    options.name = "early";
    struct starter starter = {&n, &plan, &options, {3, 4}, 1, 0};
    EXPECT_EQ(kin_spawn_with(&n, NULL, start_it, &starter, 0, &task), 0);
    EXPECT_EQ(kin_event_wait(&gate.reached, KIN_NEVER), 0);
    EXPECT_EQ(kin_task_cancel(task), 0);
    await_parked(1, "task"); /* it has given up, and waits for the end of the server */
    kin_event_set(&gate.open);
    EXPECT_EQ(kin_task_join(&n, task, NULL, KIN_NEVER), 0);
    EXPECT_EQ(starter.rc, KIN_CANCELLED);
    EXPECT_EQ(starter.out.id, 4);
    EXPECT_EQ(kin_whereis("early", &found), KIN_NOPROC);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k260_a_starter_that_is_cancelled_in_the_middle, "K260")
{
    run_on_few(in_k260_a_starter_that_is_cancelled_in_the_middle, NULL);
}

/* ---- names and news ---- */

static int look_when_told(struct desk *desk, const struct kin_info *info)
{
    struct kin_addr found;
    EXPECT_EQ(info->kind, KIN_INFO_DOWN);
    EXPECT_EQ(kin_whereis("watched", &found), KIN_NOPROC);
    EXPECT_EQ(kin_register("watched", kin_self_addr(), 0), 0);
    EXPECT_EQ(kin_unregister("watched"), 0);
    EXPECT_EQ(ask(info->u.down.who, do_add, 1, NULL), KIN_NOPROC);
    jot(desk->plan.diary, "down");
    return 0;
}

/* D11: whoever is told of an end finds the name free and nobody there; also a caller who learns of
 * it by the status of its call. */
static int in_d11_names_are_free_before_the_news(void *arg)
{
    struct diary diary;
    struct desk_plan watching = {.diary = &diary, .on_info = look_when_told};
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    options.name = "watched";
    struct kin_addr watcher = open_desk(&n, &watching, NULL);
    for (int i = 1; i <= 20; i++) {
        struct kin_addr found;
        struct kin_addr desk = open_desk(&n, NULL, &options);
        EXPECT_EQ(ask(watcher, do_watch, 0, &desk), 0);
        if (i % 2) {
            EXPECT_EQ(ask(desk, do_return_only, -EIO, NULL), -EIO);
            int rc = kin_whereis("watched", &found);
            EXPECT(rc == KIN_NOPROC || kin_addr_same(found, watcher));
        } else {
            EXPECT_EQ(send_to(desk, do_stop_self, 0, NULL), 0);
        }
        await_words(&diary, i);
    }
    close_desk(watcher);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(d11_names_are_free_before_the_news, "D11")
{
    run_on_few(in_d11_names_are_free_before_the_news, NULL);
}

/* D6: a call whose caller has left while it waited is skipped. */
static int in_d6_a_call_whose_caller_left_is_skipped(void *arg)
{
    struct diary diary;
    struct gate gate;
    struct desk_plan plan = {.diary = &diary};
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    keep_busy(desk, &gate);
    EXPECT_EQ(ask_by(desk, do_jot, 1, NULL, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(ask_by(desk, do_jot, 2, NULL, 1), KIN_TIMEOUT);
    EXPECT_EQ(send_to(desk, do_jot, 3, NULL), 0);
    kin_event_set(&gate.open);
    EXPECT_EQ(ask(desk, do_jot, 4, NULL), 0);
    EXPECT_DIARY(&diary, "cast:3 call:4");
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(d6_a_call_whose_caller_left_is_skipped, "D6")
{
    run_on_few(in_d6_a_call_whose_caller_left_is_skipped, NULL);
}

/* Senders that wait for room are let in in the order in which they came. */
static int in_senders_that_wait_for_room_come_in_order(void *arg)
{
    struct diary diary;
    struct gate gate;
    struct caller waiting[5];
    struct desk_plan plan = {.diary = &diary};
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    options.mailbox_capacity = 1;
    struct kin_addr desk = open_desk(&n, &plan, &options);
    keep_busy(desk, &gate);
    EXPECT_EQ(send_to(desk, do_jot, 100, NULL), 0);
    for (int i = 0; i < 5; i++) {
        memset(&waiting[i], 0, sizeof waiting[i]);
        waiting[i].to = desk;
        waiting[i].fn = do_jot;
        waiting[i].n = i;
        waiting[i].deadline = i == 2 ? kin_after(KIN_MS(3)) : 0;
        EXPECT_EQ(kin_spawn(&n, i % 2 ? caster_main : caller_main, &waiting[i]), 0);
        await_flag(&waiting[i].began, 1);
        let_others_run();
    }
    await_flag(&waiting[2].over, 1); /* leaves the line */
    EXPECT_EQ(waiting[2].rc, KIN_TIMEOUT);
    kin_event_set(&gate.open);
    for (int i = 0; i < 5; i++) {
        await_flag(&waiting[i].over, 1);
        EXPECT_EQ(waiting[i].rc, i == 2 ? KIN_TIMEOUT : 0);
    }
    await_words(&diary, 5);
    bool in_order = has_word(&diary, "cast:100") && has_word(&diary, "call:0") &&
                    has_word(&diary, "cast:1") && has_word(&diary, "cast:3") &&
                    has_word(&diary, "call:4") && !has_word(&diary, "call:2");
    EXPECT(in_order);
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(senders_that_wait_for_room_come_in_order, "GS-CALL-SEND D2")
{
    run_on_few(in_senders_that_wait_for_room_come_in_order, NULL);
}
