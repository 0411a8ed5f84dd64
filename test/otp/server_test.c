/* SPDX-License-Identifier: MIT */
/*
 * Goal: a start ends in one of two ways, whatever comes in between: a server that runs and whose
 * address is known, or nothing at all, no task, no name, nobody who waits, and a nursery that has
 * not failed. What supervisors are made of does what otp/server.h says.
 * Method: every way in which a start can fail, with others who wait for the server by its name;
 * each request for memory fails once; servers with an extra, step by step.
 */
#include "otp/desk.h"

#include "otp/server.h"
#include "plat/plat.h"

/* ---- options ---- */

static int in_options(void *arg)
{
    char long_name[300];
    struct kin_addr out = {3, 3};
    (void)arg;
    HOUSE(n);
    EXPECT_EQ(kin_server_start(NULL, &desk_ops, NULL, NULL, &out), -EINVAL);
    EXPECT_EQ(kin_server_start(&n, NULL, NULL, NULL, &out), -EINVAL);
    EXPECT_EQ(kin_server_start(&n, &desk_ops, NULL, NULL, NULL), -EINVAL);
    memset(long_name, 'x', sizeof long_name);
    long_name[256] = '\0';
    for (int i = 0; i < 10; i++) {
        DESK_OPTIONS(o);
        if (i == 0)
            o.size--;
        else if (i == 1)
            o.init_timeout = -1;
        else if (i == 2)
            o.stop_timeout = -1;
        else if (i == 3)
            o.idle_timeout = -1;
        else if (i == 4)
            o.overflow = (enum kin_overflow)3;
        else if (i == 5)
            o.drain = (enum kin_drain)3;
        else if (i == 6)
            o.priority = (enum kin_priority)77;
        else if (i == 7)
            o.name = "";
        else if (i == 8)
            o.name = long_name;
        else
            o.caps = 0x4000;
        EXPECT_EQ(try_open_desk(&n, NULL, &o, &out), -EINVAL);
    }
    DESK_OPTIONS(huge);
    huge.state_size = SIZE_MAX - 8;
    EXPECT_EQ(try_open_desk(&n, NULL, &huge, &out), -ENOMEM);
    EXPECT_EQ(out.node, 3); /* unchanged by all of them */
    EXPECT_EQ(out.id, 3);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(options_that_make_no_sense_start_nothing, "GS-INIT")
{
    struct kin_addr out;
    EXPECT_EQ(run_reporting(1, in_options, NULL, NULL), 0);
    EXPECT_EQ(kin_server_start((struct kin_nursery *)8, &desk_ops, NULL, NULL, &out), KIN_NOTASK);
}

/* ---- starts that fail ---- */

/* Says that it has begun, and stands at a gate until it is opened; fails with the gate's number. */
struct slow_start {
    struct gate gate;
    int rc;
    desk_fn *fn;
};

static int slow_on_start(struct desk *desk)
{
    struct slow_start *slow = desk->plan.p;
    kin_event_set(&slow->gate.reached);
    EXPECT_EQ(kin_event_wait(&slow->gate.open, KIN_NEVER), 0);
    return slow->fn ? slow->fn(desk, &(struct task_at_desk){NULL, slow->rc, NULL}, NULL) : slow->rc;
}

struct starter {
    struct kin_nursery *n;
    struct desk_plan plan;
    const char *name;
    struct kin_addr out;
    int64_t init_timeout;
    _Atomic int over;
    int rc;
};

static int start_it(void *arg)
{
    struct starter *starter = arg;
    DESK_OPTIONS(o);
    o.name = starter->name;
    o.init_timeout = starter->init_timeout;
    starter->rc = try_open_desk(starter->n, &starter->plan, &o, &starter->out);
    atomic_store(&starter->over, 1);
    return 0;
}

static int in_failing_starts(void *arg)
{
    static const struct {
        desk_fn *fn;
        int rc, expected;
    } ways[] = {{NULL, -EIO, -EIO},
                {NULL, KIN_IGNORE, KIN_IGNORE},
                {NULL, 5, -EBADMSG},
                {do_fail, -EDOM, -EDOM},
                {do_panic, 0, KIN_PANICKED}};
    (void)arg;
    HOUSE(n);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct slow_start slow = {.rc = ways[i].rc, .fn = ways[i].fn};
        struct diary diary;
        struct caller waiting;
        struct kin_addr found = {0, 0};
        clear_diary(&diary);
        struct starter starter = {.n = &n,
                                  .plan = {.diary = &diary, .label = "x", .on_start = slow_on_start,
                                           .p = &slow},
                                  .name = "slow"};
        HOUSE(inner);
        EXPECT_EQ(kin_spawn(&inner, start_it, &starter), 0);
        EXPECT_EQ(kin_event_wait(&slow.gate.reached, KIN_NEVER), 0);
        EXPECT_EQ(kin_whereis("slow", &found), 0); /* before on_start has returned */
        EXPECT_EQ(kin_server_state(found), KIN_SERVER_INIT);
        EXPECT_EQ(send_to(found, do_jot, 1, NULL), 0);
        spawn_caller(&inner, &waiting, found, do_jot, 2);
        await_parked(1, "call"); /* who comes later may find nobody */
        EXPECT_EQ(atomic_load(&waiting.over), 0);
        kin_event_set(&slow.gate.open);
        await(&starter.over, 1);
        EXPECT_EQ(starter.rc, ways[i].expected);
        EXPECT_EQ(starter.out.id, 0);
        EXPECT_EQ(kin_whereis("slow", &found), KIN_NOPROC);
        EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
        EXPECT_EQ(waiting.rc, ways[i].expected);
        EXPECT_EQ(kin_server_state(found), KIN_SERVER_STOPPED);
        EXPECT_DIARY(&diary, "+x"); /* no on_stop, nothing handled */
    }
    return kin_nursery_join(&n, NULL); /* has not failed */
}
KIN_TEST(a_failed_start_leaves_nothing_behind, "GS-INIT")
{
    run_on_few(in_failing_starts, NULL);
}

/* The same in a nursery that a failure would cancel. */
static int in_fail_fast(void *arg)
{
    struct slow_start slow = {.rc = -EIO};
    struct desk_plan plan = {.on_start = slow_on_start, .p = &slow};
    struct kin_addr out = {0, 0};
    (void)arg;
    KIN_NURSERY(n);
    kin_event_set(&slow.gate.open);
    EXPECT_EQ(try_open_desk(&n, &plan, NULL, &out), -EIO);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_OPEN);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    close_desk(desk);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_failed_start_does_not_fail_the_nursery, "GS-INIT")
{
    run_on_few(in_fail_fast, NULL);
}

/* Calls and casts that come during a start that goes well are handled when it is done. */
static int in_early_messages(void *arg)
{
    struct slow_start slow = {.rc = 0};
    struct diary diary;
    struct caller waiting;
    struct kin_addr found;
    (void)arg;
    clear_diary(&diary);
    HOUSE(n);
    HOUSE(inner);
    struct starter starter = {.n = &n, .name = "slow",
                              .plan = {.diary = &diary, .on_start = slow_on_start, .p = &slow}};
    EXPECT_EQ(kin_spawn(&inner, start_it, &starter), 0);
    EXPECT_EQ(kin_event_wait(&slow.gate.reached, KIN_NEVER), 0);
    EXPECT_EQ(kin_whereis("slow", &found), 0);
    EXPECT_EQ(send_to(found, do_jot, 1, NULL), 0);
    spawn_caller(&inner, &waiting, found, do_jot, 2);
    await(&waiting.began, 1);
    kin_event_set(&slow.gate.open);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    EXPECT_EQ(starter.rc, 0);
    EXPECT(kin_addr_same(starter.out, found));
    EXPECT_EQ(waiting.rc, 0);
    EXPECT_DIARY(&diary, "cast:1 call:2");
    close_desk(found);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(messages_to_a_server_that_starts_wait, "GS-CALL-SEND GS-CAST-TRY GS-INIT")
{
    run_on_few(in_early_messages, NULL);
}

/* ---- starters that do not wait ---- */

static int in_giving_up(void *arg)
{
    (void)arg;
    for (int by_time = 0; by_time < 2; by_time++) {
        HOUSE(n);
        struct starter starter = {.n = &n, .name = "quick", .init_timeout = by_time ? 1 : 0};
        EXPECT_EQ(start_it(&starter), 0);
        EXPECT(starter.rc == 0 || (by_time && starter.rc == KIN_TIMEOUT));
        close_house(&n);
    }
    return 0;
}
KIN_TEST(a_start_against_its_time_is_one_or_the_other, "GS-INIT")
{
    run_on_few(in_giving_up, NULL);
}

static int heeding_on_start(struct desk *desk)
{
    struct slow_start *slow = desk->plan.p;
    kin_event_set(&slow->gate.reached);
    return kin_event_wait(&slow->gate.open, KIN_NEVER); /* nobody opens it */
}

/* Starts well though it is cancelled. */
static int deaf_on_start(struct desk *desk)
{
    kin_ignore(heeding_on_start(desk));
    return 0;
}

static int in_cancelled_starter(void *arg)
{
    (void)arg;
    for (int deaf = 0; deaf < 2; deaf++) {
        struct slow_start slow = {.rc = 0};
        struct diary diary;
        struct kin_addr found;
        clear_diary(&diary);
        KIN_NURSERY(n);
        HOUSE(inner);
        struct starter starter = {
            .n = &n, .name = "slow",
            .plan = {.diary = &diary, .label = "x", .p = &slow,
                     .on_start = deaf ? deaf_on_start : heeding_on_start}};
        EXPECT_EQ(kin_spawn(&inner, start_it, &starter), 0);
        EXPECT_EQ(kin_event_wait(&slow.gate.reached, KIN_NEVER), 0);
        EXPECT_EQ(kin_whereis("slow", &found), 0);
        kin_nursery_cancel(&inner, 0);
        kin_ignore(kin_nursery_join(&inner, NULL));
        EXPECT_EQ(starter.rc, KIN_CANCELLED);
        EXPECT_EQ(starter.out.id, 0);
        EXPECT_EQ(kin_server_state(found), KIN_SERVER_STOPPED); /* it is over already */
        EXPECT_EQ(kin_whereis("slow", &found), KIN_NOPROC);
        if (deaf)
            EXPECT_DIARY(&diary, "+x -x"); /* what on_start made on_stop takes down */
        else
            EXPECT_DIARY(&diary, "+x");
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}
KIN_TEST(a_starter_that_is_cancelled_takes_the_server_along, "GS-INIT")
{
    run_on_few(in_cancelled_starter, NULL);
}

static int in_init_timeout(void *arg)
{
    struct slow_start slow = {.rc = 0};
    struct kin_addr found = {0, 0};
    (void)arg;
    KIN_NURSERY(n);
    struct starter starter = {.n = &n, .name = "slow", .init_timeout = KIN_MS(1),
                              .plan = {.p = &slow, .on_start = heeding_on_start}};
    EXPECT_EQ(start_it(&starter), 0);
    EXPECT_EQ(starter.rc, KIN_TIMEOUT);
    EXPECT_EQ(starter.out.id, 0);
    EXPECT_EQ(kin_whereis("slow", &found), KIN_NOPROC);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_start_that_takes_too_long_is_given_up, "GS-INIT")
{
    run_on_few(in_init_timeout, NULL);
}

/* Does not heed what can be masked. */
static int masked_on_start(struct desk *desk)
{
    struct slow_start *slow = desk->plan.p;
    kin_mask();
    kin_event_set(&slow->gate.reached);
    int rc = kin_event_wait(&slow->gate.open, KIN_NEVER); /* nobody opens it */
    kin_unmask();
    return rc;
}

/* A server whose on_start is deaf when its time is over, and the stop timeout after that: it is
 * reported, and cut short. */
struct deaf_start {
    int64_t init_timeout;
    bool has_begun; /* on_start had, when the time was over */
};

static int in_deaf_start(void *arg)
{
    struct deaf_start *deaf = arg;
    struct slow_start slow = {.rc = 0};
    struct kin_addr out = {0, 0};
    KIN_NURSERY(n);
    struct desk_plan plan = {.p = &slow, .on_start = masked_on_start};
    DESK_OPTIONS(o);
    o.init_timeout = deaf->init_timeout;
    o.stop_timeout = KIN_MS(1);
    EXPECT_EQ(try_open_desk(&n, &plan, &o, &out), KIN_TIMEOUT);
    EXPECT_EQ(out.id, 0);
    int rc = kin_nursery_join(&n, NULL); /* which waits for it */
    deaf->has_begun = kin_event_wait(&slow.gate.reached, 0) == 0;
    return rc;
}
KIN_TEST(a_start_that_is_deaf_is_reported_and_cut_short, "GS-INIT")
{
    struct deaf_start deaf = {.init_timeout = KIN_MS(1)};
    while (!deaf.has_begun) { /* ends: there is more time in each round */
        struct reports reports = {0};
        EXPECT_EQ(run_reporting(2, in_deaf_start, &deaf, &reports), 0);
        deaf.init_timeout *= 2;
        if (!deaf.has_begun)
            continue; /* it may have been slow to end all the same */
        EXPECT_EQ(reports.count, 1);
        EXPECT_EQ(reports.status[0], KIN_STUCK);
    }
}

/* A starter that is killed while it waits for the end of such a server takes it along. */
static int in_killed_starter(void *arg)
{
    struct slow_start slow = {.rc = 0};
    struct kin_addr found = {0, 0};
    (void)arg;
    HOUSE(n);
    KIN_NURSERY(inner, .on_error = KIN_COLLECT, .cancel_grace = KIN_MS(1));
    struct starter starter = {.n = &n, .name = "deaf",
                              .plan = {.p = &slow, .on_start = masked_on_start}};
    EXPECT_EQ(kin_spawn(&inner, start_it, &starter), 0);
    EXPECT_EQ(kin_event_wait(&slow.gate.reached, KIN_NEVER), 0);
    kin_nursery_cancel(&inner, 0);
    kin_ignore(kin_nursery_join(&inner, NULL));
    EXPECT_EQ(starter.rc, KIN_CANCELLED);
    EXPECT_EQ(kin_whereis("deaf", &found), KIN_NOPROC); /* it is over */
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_starter_that_is_killed_leaves_no_server_behind, "GS-INIT SINV-5")
{
    run_on_few(in_killed_starter, NULL);
}

/* The nursery of the server is cancelled while it is being started: on_start does not run, or is
 * cut short. */
static int in_cancelled_nursery(void *arg)
{
    (void)arg;
    for (int i = 0; i < enough(50, 1); i++) {
        struct diary diary;
        struct kin_addr found;
        clear_diary(&diary);
        HOUSE(outer);
        HOUSE(n);
        struct starter starter = {.n = &n, .name = "x", .plan = {.diary = &diary, .label = "x"}};
        EXPECT_EQ(kin_spawn(&outer, start_it, &starter), 0);
        for (int k = 0; k < i % 5; k++)
            kin_ignore(kin_yield());
        kin_nursery_cancel(&n, 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
        EXPECT_EQ(kin_whereis("x", &found), KIN_NOPROC);
        EXPECT_EQ(kin_nursery_join(&outer, NULL), 0);
        EXPECT(starter.rc == 0 || starter.rc == KIN_CANCELLED || starter.rc == KIN_NOSCOPE);
        if (starter.rc == 0)
            EXPECT_DIARY(&diary, "+x -x");
        else
            EXPECT_DIARY(&diary, "");
    }
    return 0;
}
KIN_TEST(cancelled_before_it_starts_it_does_not, "GS-INIT SINV-5")
{
    run_on_few(in_cancelled_nursery, NULL);
}

/* ---- memory ---- */

static int in_no_memory(void *arg)
{
    struct kin_addr out = {0, 0};
    DESK_OPTIONS(o);
    int failures = 0;
    (void)arg;
    KIN_NURSERY(n);
    o.name = "needy";
    for (uint64_t after = 1; after < 100; after++) {
        kin__plat_fail_after(after, false);
        int rc = try_open_desk(&n, NULL, &o, &out);
        uint64_t asked = kin__plat_requests();
        kin__plat_fail_after(0, false);
        if (rc == 0) {
            EXPECT_LT(asked, after);
            close_desk(out);
            break;
        }
        EXPECT_EQ(rc, -ENOMEM);
        EXPECT_EQ(out.id, 0);
        EXPECT_EQ(kin_whereis("needy", &out), KIN_NOPROC);
        failures++;
    }
    EXPECT_GT(failures, 0);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(each_request_for_memory_of_a_start_may_fail, "GS-INIT")
{
    EXPECT_EQ(run_reporting(1, in_no_memory, NULL, NULL), 0);
}

/* ---- servers with an extra ---- */

struct special {
    struct diary *diary;
    struct kin_server *s;
    int later;
};

struct posted {
    struct kin__note note;
    struct diary *diary;
    int number;
};

static void posted_done(struct kin__note *note)
{
    struct posted *posted = KIN__CONTAINER_OF(note, struct posted, note);
    jot(posted->diary, "done:%d", posted->number);
}

static int special_on_start(struct kin_server *s, void *state, const void *arg)
{
    struct special *special = state;
    *special = *(const struct special *)arg;
    special->s = s;
    EXPECT_PTR(kin__server_state_of(s), state);
    EXPECT_EQ(kin__server_id(s), kin_self().id);
    EXPECT(kin_addr_same(kin__server_addr(s), kin_self_addr()));
    jot(special->diary, "start");
    return special->later ? KIN__SERVER_LATER : 0;
}

static void special_on_stop(struct kin_server *s, void *state, const struct kin_outcome *why)
{
    struct special *special = state;
    (void)s;
    jot(special->diary, "stop:%d", why->status);
}

static int special_on_asked(struct kin_server *s, void *state, enum kin__asked how, int reason)
{
    struct special *special = state;
    (void)reason;
    jot(special->diary, how == KIN__ASKED_STOP     ? "asked"
                        : how == KIN__ASKED_CANCEL ? "cancelled"
                                                   : "forced");
    kin__server_alarm(s, 1); /* at once */
    return 0;
}

static int special_on_note(struct kin_server *s, void *state, struct kin__note *note)
{
    struct special *special = state;
    struct posted *posted = KIN__CONTAINER_OF(note, struct posted, note);
    jot(special->diary, "note:%d", posted->number);
    if (posted->number == 1 && special->later)
        kin__server_started(s);
    if (posted->number < 0)
        kin__server_finish(s, posted->number);
    return 0;
}

static int special_on_alarm(struct kin_server *s, void *state)
{
    struct special *special = state;
    jot(special->diary, "alarm");
    kin__server_finish(s, kin_cancelled() ? KIN_CANCELLED : 0);
    return 0;
}

static int special_on_request(struct kin_server *s, void *state, const void *req, size_t size,
                              struct kin_reply *reply)
{
    (void)s, (void)state;
    return kin_reply_send(reply, req, size);
}

static void special_on_unused(const void *arg)
{
    jot(((const struct special *)arg)->diary, "unused");
}

static const struct kin_server_ops special_ops = {.on_start = special_on_start,
                                                  .on_stop = special_on_stop};
static const struct kin__server_extra special_extra = {
    special_on_asked, special_on_note,    special_on_alarm,
    special_on_request, special_on_unused};
static const struct kin__server_extra other_extra = {special_on_asked, NULL, NULL, NULL, NULL};

struct special_starter {
    struct kin_nursery *n;
    struct special special;
    const char *name;
    struct kin_addr out;
    _Atomic int over;
    int rc;
};

static int start_special(void *arg)
{
    struct special_starter *starter = arg;
    struct kin_server_options o = KIN_SERVER_OPTIONS_INIT;
    o.state_size = sizeof(struct special);
    o.stop_timeout = KIN_NEVER;
    o.name = starter->name;
    const struct kin__server_birth birth = {.extra = &special_extra};
    starter->rc = kin__server_start(starter->n, &special_ops, &o, &starter->special,
                                    &birth, &starter->out);
    atomic_store(&starter->over, 1);
    return 0;
}

static int in_extra_stop(void *arg)
{
    struct diary diary;
    (void)arg;
    for (int cancels = 0; cancels < 2; cancels++) {
        clear_diary(&diary);
        KIN_NURSERY(n);
        struct special_starter starter = {.n = &n, .special = {.diary = &diary}};
        start_special(&starter);
        EXPECT_EQ(starter.rc, 0);
        struct kin_monitor_ref ref = watch(starter.out);
        if (cancels)
            EXPECT_EQ(kin_task_cancel((struct kin_task_ref){starter.out.id}), 0);
        else
            EXPECT_EQ(kin_server_stop(starter.out, 0, KIN_NEVER), 0);
        EXPECT_END(ref, cancels ? KIN_DOWN_CANCELLED : KIN_DOWN_NORMAL,
                   cancels ? KIN_CANCELLED : 0);
        if (cancels)
            EXPECT_DIARY(&diary, "start cancelled alarm stop:-4096");
        else
            EXPECT_DIARY(&diary, "start asked alarm stop:0");
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}
KIN_TEST(a_server_with_an_extra_is_asked_and_goes_on, "GS-STOP-BEGIN")
{
    run_on_few(in_extra_stop, NULL);
}

static int in_extra_later(void *arg)
{
    (void)arg;
    for (int good = 0; good < 2; good++) {
        struct diary diary;
        struct kin_addr found;
        clear_diary(&diary);
        struct posted posted[2] = {{.note = {.done = posted_done}, .diary = &diary, .number = 7},
                                   {.note = {.done = posted_done}, .diary = &diary,
                                    .number = good ? 1 : -EIO}};
        struct caller waiting;
        KIN_NURSERY(n);
        HOUSE(inner);
        struct special_starter starter = {
            .n = &n, .special = {.diary = &diary, .later = 1}, .name = "later"};
        EXPECT_EQ(kin_spawn(&inner, start_special, &starter), 0);
        await_word(&diary, "start");
        EXPECT_EQ(kin_whereis("later", &found), 0);
        spawn_caller(&inner, &waiting, found, do_add, 1);
        await_parked(1, "call"); /* who comes later may find nobody */
        EXPECT_EQ(atomic_load(&starter.over), 0);
        kin__server_post(found.id, &posted[0].note);
        kin__server_post(found.id, &posted[1].note);
        await(&starter.over, 1);
        EXPECT_EQ(starter.rc, good ? 0 : -EIO);
        await(&waiting.over, 1);
        EXPECT_EQ(waiting.rc, good ? -ENOSYS : -EIO); /* letters were in, and not taken */
        if (good)
            EXPECT_EQ(kin_server_stop(found, 0, KIN_NEVER), 0);
        EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
        if (good)
            EXPECT_DIARY(&diary, "start note:7 note:1 asked alarm stop:0");
        else
            EXPECT_DIARY(&diary, "start note:7 note:-5");
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}
KIN_TEST(a_server_with_an_extra_may_start_later, "GS-INIT")
{
    run_on_few(in_extra_later, NULL);
}

static int in_requests(void *arg)
{
    struct diary diary;
    int number = 5, got = 0;
    size_t size = 0;
    bool was_taken = true;
    (void)arg;
    clear_diary(&diary);
    KIN_NURSERY(n);
    struct special_starter starter = {.n = &n, .special = {.diary = &diary}};
    start_special(&starter);
    struct kin_addr to = starter.out, plain = open_desk(&n, NULL, NULL);
    EXPECT_EQ(kin__call_extra(to, &special_extra, &number, sizeof number, &got, sizeof got, &size,
                              KIN_NEVER, &was_taken),
              0);
    EXPECT_EQ(got, 5);
    EXPECT_EQ(size, sizeof got);
    EXPECT(was_taken);
    EXPECT_EQ(kin__call_extra(to, &other_extra, &number, sizeof number, NULL, 0, NULL, KIN_NEVER,
                              &was_taken),
              KIN_NOPROC);
    EXPECT(!was_taken);
    EXPECT_EQ(kin__call_extra(plain, &special_extra, NULL, 0, NULL, 0, NULL, KIN_NEVER, NULL),
              KIN_NOPROC);
    EXPECT_EQ(kin_call(to, &number, sizeof number, NULL, 0, NULL, KIN_NEVER), -ENOSYS);
    EXPECT_EQ(kin_cast(to, &number, sizeof number, KIN_NEVER), 0); /* goes nowhere */
    close_desk(plain);
    EXPECT_EQ(kin_server_stop(to, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin__call_extra(to, &special_extra, NULL, 0, NULL, 0, NULL, KIN_NEVER, &was_taken),
              KIN_NOPROC);
    EXPECT(!was_taken);
    struct posted late = {.note = {.done = posted_done}, .diary = &diary, .number = 3};
    kin__server_post(to.id, &late.note); /* it is over: given back at once */
    EXPECT_DIARY(&diary, "start asked alarm stop:0 done:3");
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(requests_reach_their_own_kind_only, "GS-CALL-SEND")
{
    run_on_few(in_requests, NULL);
}

/* An argument that on_start never saw is given back. */
static int in_unused(void *arg)
{
    struct diary diary;
    (void)arg;
    clear_diary(&diary);
    KIN_NURSERY(n);
    struct special_starter starter = {.n = &n, .special = {.diary = &diary}, .name = ""};
    start_special(&starter);
    EXPECT_EQ(starter.rc, -EINVAL);
    starter.name = "taken";
    EXPECT_EQ(kin_register("taken", kin_self_addr(), 0), 0);
    start_special(&starter);
    EXPECT_EQ(starter.rc, KIN_TAKEN);
    EXPECT(kin_addr_same(starter.out, kin_self_addr()));
    starter.name = NULL;
    {
        HOUSE(closed);
        kin_nursery_cancel(&closed, 0);
        starter.n = &closed;
        start_special(&starter);
        EXPECT_EQ(starter.rc, KIN_NOSCOPE);
        kin_ignore(kin_nursery_join(&closed, NULL));
    }
    EXPECT_DIARY(&diary, "unused unused unused");
    EXPECT_EQ(kin_unregister("taken"), 0);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(an_argument_that_is_not_used_is_given_back, "GS-INIT")
{
    run_on_few(in_unused, NULL);
}

/* ---- budgets of the start and of the stop ---- */

/* Uses up what it has: how many checkpoints went well. */
static int use_up(void)
{
    int count = 0;
    while (count < 1000 && kin_checkpoint() == 0) /* ends: at the budget, or there */
        count++;
    return count;
}

static int needy_on_start(struct desk *desk)
{
    struct kin_budget left = kin_budget_left();
    EXPECT_EQ(left.ops, 20);
    EXPECT_EQ(left.memory, 100);
    EXPECT_EQ(left.spawns, 1);
    void *some = kin_alloc(60);
    EXPECT(some != NULL);
    EXPECT(kin_alloc(60) == NULL);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_MEMORY);
    kin_free(some);
    {
        KIN_NURSERY(n);
        _Atomic int count = 0;
        EXPECT_EQ(kin_spawn(&n, count_it, &count), 0);
        EXPECT_EQ(kin_spawn(&n, count_it, &count), KIN_BUDGET);
        EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_SPAWNS);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(count, 1);
    }
    EXPECT_LE(use_up(), 20);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_OPS);
    EXPECT_EQ(kin_checkpoint(), KIN_BUDGET);
    return desk->plan.p ? kin_checkpoint() : 0;
}

static void needy_on_stop(struct desk *desk, const struct kin_outcome *why)
{
    (void)why;
    EXPECT_EQ(kin_budget_left().ops, 5);
    EXPECT_LE(use_up(), 5);
    jot(desk->plan.diary, "used");
}

static int do_use_up(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    (void)desk, (void)job;
    EXPECT_EQ(use_up(), 1000); /* no limit in between */
    answer(reply, 0);
    return 0;
}

static int in_budgets(void *arg)
{
    struct diary diary;
    struct kin_addr out;
    int fails = 1;
    (void)arg;
    clear_diary(&diary);
    KIN_NURSERY(n);
    DESK_OPTIONS(o);
    o.init_budget = (struct kin_budget){20, 100, 1, UINT32_MAX, UINT32_MAX};
    o.stop_budget = (struct kin_budget){5, 0, 0, 0, 0};
    struct desk_plan plan = {.diary = &diary, .on_start = needy_on_start,
                             .on_stop = needy_on_stop, .p = &fails};
    EXPECT_EQ(try_open_desk(&n, &plan, &o, &out), KIN_BUDGET);
    plan.p = NULL;
    struct kin_addr desk = open_desk(&n, &plan, &o);
    EXPECT_EQ(ask(desk, do_use_up, 0, NULL), 0);
    close_desk(desk);
    EXPECT_DIARY(&diary, "used");
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(the_start_and_the_stop_have_budgets, "GS-INIT GS-DRAIN-DONE")
{
    run_on_few(in_budgets, NULL);
}
