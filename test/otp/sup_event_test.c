/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever a supervisor decides about a child that has ended without being asked is heard: by
 * the hook, all of it, and as reports, as many as a log can bear; and nothing else is.
 * Method: children that end in every way under every kind of supervisor, with a hook that keeps the
 * events and a runtime that keeps the reports; the texts are looked at for each thing they promise.
 */
#include "otp/kids.h"

enum { HEARD_MAX = 64 };

struct heard {
    _Atomic int count;
    struct kin_supervisor_event events[HEARD_MAX];
    char child[HEARD_MAX][8], other[HEARD_MAX][8];
};

static void hear(const struct kin_supervisor_event *event, void *arg)
{
    struct heard *heard = arg;
    int i = atomic_load(&heard->count);
    if (i < HEARD_MAX) {
        heard->events[i] = *event;
        snprintf(heard->child[i], sizeof heard->child[i], "%s", event->child);
        snprintf(heard->other[i], sizeof heard->other[i], "%s", event->other ? event->other : "");
    }
    atomic_store(&heard->count, i + 1);
}

/* Waits until the hook has heard so much. */
static void await_heard(struct heard *heard, int count)
{
    while (atomic_load(&heard->count) < count) { /* ends: or the alarm does */
        kin_ignore(kin_yield());
        if (kin_in_lab()) /* where time passes only when nobody can run */
            kin_ignore(kin_sleep(kin_after(KIN_MS(1))));
    }
}

static struct house house;
static struct heard heard;
static struct reports reports;

static void set_up(size_t count, enum kin_restart restart)
{
    furnish(&house, count, restart);
    memset(&heard, 0, sizeof heard);
    house.options.name = "boss";
    house.options.on_event = hear;
    house.options.event_arg = &heard;
}

#define EXPECT_EVENT(i, kind_, severity_, status_)                                                 \
    do {                                                                                           \
        EXPECT_EQ(heard.events[i].kind, kind_);                                                    \
        EXPECT_EQ(heard.events[i].severity, severity_);                                            \
        EXPECT_EQ(heard.events[i].status, status_);                                                \
    } while (0)

#define EXPECT_SAYS(i, words)                                                                      \
    do {                                                                                           \
        if (!strstr(reports.text[i], words))                                                       \
            EXPECT_STR(reports.text[i], words);                                                    \
    } while (0)

/* ---- restarts, and giving up ---- */

static int give_up(void *arg)
{
    (void)arg;
    set_up(1, KIN_TRANSIENT);
    move_in(&house, 1);
    struct kin_addr sup = house.sup;
    for (int i = 0; i < 4; i++) {
        struct kin_child_info info = await_restarts(&house, "a", (unsigned)i);
        tell(info.addr, END_BADLY);
        await_heard(&heard, i < 3 ? 2 * (i + 1) : 7);
        EXPECT(kin_addr_same(heard.events[2 * i].addr, info.addr));
        EXPECT(kin_addr_same(heard.events[2 * i].supervisor, sup));
        EXPECT(heard.events[2 * i].site != NULL);
    }
    EXPECT_EQ(outcome_of(&house).status, KIN_EXHAUSTED);
    kin_ignore(kin_nursery_join(&house.n, NULL));
    EXPECT_EQ(atomic_load(&heard.count), 7);
    for (int i = 0; i < 3; i++) {
        EXPECT_EVENT(2 * i, KIN_EVENT_RESTART, KIN_SEV_ERROR, -EIO);
        EXPECT_EVENT(2 * i + 1, KIN_EVENT_STARTED, KIN_SEV_ERROR, -EIO);
        EXPECT_EQ(heard.events[2 * i].restarts, i + 1);
        EXPECT_EQ(heard.events[2 * i].max_restarts, 3);
        EXPECT_EQ(heard.events[2 * i].window, KIN_SEC(100000));
        EXPECT_STR(heard.child[2 * i], "a");
    }
    EXPECT_EVENT(6, KIN_EVENT_EXHAUSTED, KIN_SEV_ERROR, -EIO);
    EXPECT_EQ(heard.events[6].restarts, 4);
    return 0;
}
KIN_TEST(each_restart_and_giving_up_is_heard, "SUP-RESTART-CHILD SUP-BUDGET-EXCEEDED")
{
    memset(&reports, 0, sizeof reports);
    EXPECT_EQ(run_reporting(2, give_up, NULL, &reports), 0);
    EXPECT_EQ(atomic_load(&reports.count), 4);
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(reports.status[i], i < 3 ? -EIO : KIN_EXHAUSTED);
        EXPECT_SAYS(i, "supervisor boss (task ");
        EXPECT_SAYS(i, "child a (task ");
        EXPECT_SAYS(i, ", spawned at ");
        EXPECT_SAYS(i, "failed: EIO");
    }
    EXPECT_SAYS(0, "it is started again, restart 1 of 3 in ");
    EXPECT_SAYS(2, "it is started again, restart 3 of 3 in ");
    EXPECT_SAYS(3, "the supervisor gives up, one restart too many, restart 4 of 3 in ");
}

/* A supervisor that gave up is a child that failed, for the one above. */
static int start_fragile(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    struct kin_child_spec leaf = {.name = "leaf", .start = kid_start, .arg = arg};
    struct kin_supervisor_options o = KIN_SUPERVISOR_OPTIONS_INIT;
    o.max_restarts = KIN_NO_RESTARTS;
    int rc = kin_supervisor_start(n, &o, &leaf, 1, out);
    struct kin_child_info info;
    if (rc == 0)
        EXPECT_EQ(kin_supervisor_which_children(*out, &info, 1, KIN_NEVER), 1);
    if (rc == 0)
        tell(info.addr, END_BADLY);
    return rc;
}

static int give_up_below(void *arg)
{
    (void)arg;
    set_up(1, KIN_TRANSIENT);
    house.specs[0].start = start_fragile;
    move_in(&house, 1);
    await_heard(&heard, 1);
    EXPECT_EVENT(0, KIN_EVENT_STOPPED, KIN_SEV_ERROR, KIN_EXHAUSTED);
    move_out(&house);
    return 0;
}
KIN_TEST(a_branch_that_gave_up_is_heard_above, "SUP-BUDGET-EXCEEDED SUP-STOP-CHILD")
{
    memset(&reports, 0, sizeof reports);
    EXPECT_EQ(run_reporting(2, give_up_below, NULL, &reports), 0);
    EXPECT_EQ(atomic_load(&reports.count), 2);
    EXPECT_SAYS(0, "child leaf (task ");
    EXPECT_SAYS(1, "supervisor boss (task ");
    EXPECT_SAYS(1, "failed: KIN_EXHAUSTED");
    EXPECT_SAYS(1, "and is not started again");
}

/* ---- every other decision ---- */

static void lose_one(enum kin_restart restart, enum order end,
                     enum kin_supervisor_event_kind kind, enum kin_severity severity, int status)
{
    set_up(1, restart);
    move_in(&house, 1);
    tell_kid(&house, "a", end);
    await_heard(&heard, 1);
    EXPECT_EVENT(0, kind, severity, status);
    move_out(&house);
    EXPECT_EQ(atomic_load(&heard.count), 1);
}

static int losses(void *arg)
{
    (void)arg;
    lose_one(KIN_TEMPORARY, END_BADLY, KIN_EVENT_STOPPED, KIN_SEV_ERROR, -EIO);
    lose_one(KIN_TEMPORARY, CRASH, KIN_EVENT_STOPPED, KIN_SEV_ERROR, -EPIPE);
    lose_one(KIN_TRANSIENT, PANIC, KIN_EVENT_STOPPED, KIN_SEV_PANIC, KIN_PANICKED);
    lose_one(KIN_ESCALATE, END_BADLY, KIN_EVENT_ESCALATED, KIN_SEV_ERROR, -EIO);
    return 0;
}
KIN_TEST(whoever_is_not_started_again_is_heard, "SUP-STOP-CHILD SUP-ESCALATE")
{
    run_on_few(losses, NULL);
}

/* What a child said when it failed is in the event and in the report. */
static char heard_words[64];

static void hear_words(const struct kin_supervisor_event *event, void *arg)
{
    if (event->text && !heard_words[0])
        snprintf(heard_words, sizeof heard_words, "%s", event->text);
    hear(event, arg);
}

static int speak(void *arg)
{
    (void)arg;
    heard_words[0] = '\0';
    set_up(1, KIN_TEMPORARY);
    house.options.on_event = hear_words;
    move_in(&house, 1);
    tell_kid(&house, "a", CRASH);
    await_heard(&heard, 1);
    move_out(&house);
    EXPECT_STR(heard_words, "as it was told");
    return 0;
}
KIN_TEST(what_a_child_said_is_heard, "D7")
{
    memset(&reports, 0, sizeof reports);
    EXPECT_EQ(run_reporting(2, speak, NULL, &reports), 0);
    EXPECT_EQ(atomic_load(&reports.count), 1);
    EXPECT_SAYS(0, "failed: EPIPE: as it was told, and is not started again");
}

static int retried(void *arg)
{
    (void)arg;
    set_up(1, KIN_PERMANENT);
    house.options.max_restarts = 1;
    house.options.escalation = KIN_ESCALATION_RESET;
    house.options.reset_backoff = (struct kin_backoff){1000, 1000, 0, 0};
    move_in(&house, 1);
    struct kin_child_info info = await_state(&house, "a", KIN_CHILD_RUNNING);
    atomic_store(&house.kids[0].start_fails, 1);
    atomic_store(&house.kids[0].start_status, -EAGAIN);
    tell(info.addr, END_WELL);
    await_heard(&heard, 3);
    EXPECT_EVENT(0, KIN_EVENT_RESTART, KIN_SEV_OK, 0);
    EXPECT_EVENT(1, KIN_EVENT_RESET, KIN_SEV_ERROR, -EAGAIN); /* the attempt counts */
    EXPECT_EQ(heard.events[1].addr.id, 0);
    EXPECT_EQ(heard.events[1].delay, 1000);
    EXPECT_EQ(heard.events[2].kind, KIN_EVENT_STARTED);
    EXPECT_NE(heard.events[2].addr.id, 0);
    move_out(&house);
    return 0;
}
KIN_TEST(a_start_that_fails_and_a_reset_are_heard, "SUP-RESTART-CHILD D8")
{
    run_on_few(retried, NULL);
}

/* What somebody asked for is no news. */
static int quiet(void *arg)
{
    (void)arg;
    set_up(3, KIN_TRANSIENT);
    house.options.strategy = KIN_REST_FOR_ONE;
    move_in(&house, 3);
    EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "c", KIN_NEVER), 0);
    end_kid(&house, "b", END_WELL);
    await_state(&house, "b", KIN_CHILD_STOPPED);
    end_kid(&house, "a", END_BADLY); /* takes nobody with it but b, which had ended well */
    await_restarts(&house, "a", 1);
    await_restarts(&house, "b", 1);
    move_out(&house);
    EXPECT_EQ(atomic_load(&heard.count), 3);
    EXPECT_EVENT(0, KIN_EVENT_RESTART, KIN_SEV_ERROR, -EIO);
    EXPECT_EQ(heard.events[1].kind, KIN_EVENT_STARTED);
    EXPECT_STR(heard.child[1], "a");
    EXPECT_EQ(heard.events[2].kind, KIN_EVENT_STARTED);
    EXPECT_STR(heard.child[2], "b");
    return 0;
}
KIN_TEST(what_somebody_asked_for_is_no_news, "D16")
{
    memset(&reports, 0, sizeof reports);
    EXPECT_EQ(run_reporting(2, quiet, NULL, &reports), 0);
    EXPECT_EQ(atomic_load(&reports.count), 1);
}

/* ---- a log that is not filled ---- */

enum { STORM = 40, REPORTS_MAX = 16 };

static int storm(void *arg)
{
    (void)arg;
    set_up(1, KIN_PERMANENT);
    house.options.max_restarts = 1000;
    move_in(&house, 1);
    for (unsigned i = 0; i < STORM; i++)
        tell(await_restarts(&house, "a", i).addr, END_BADLY);
    await_restarts(&house, "a", STORM);
    move_out(&house);
    EXPECT_EQ(atomic_load(&heard.count), 2 * STORM); /* the hook hears of everything */
    return 0;
}
/* Keeps the last report only. */
struct log {
    _Atomic int count;
    char last[512];
};

static void keep_last(const struct kin_report *report, void *arg)
{
    struct log *log = arg;
    atomic_fetch_add(&log->count, 1);
    snprintf(log->last, sizeof log->last, "%s", report->text);
}
KIN_TEST(a_storm_of_restarts_does_not_fill_a_log, "SUP-RESTART-CHILD")
{
    static struct log log;
    struct kin_config config = KIN_CONFIG_INIT;
    memset(&log, 0, sizeof log);
    config.workers = 2;
    config.on_report = keep_last;
    config.report_arg = &log;
    EXPECT_EQ(kin_run(&config, storm, NULL), 0);
    EXPECT_EQ(atomic_load(&log.count), REPORTS_MAX + 1);
    if (!strstr(log.last, "24 reports about its children were left out"))
        EXPECT_STR(log.last, "24 reports about its children were left out");
}

/* ---- and still has what matters ---- */

enum { LAST_STORM = REPORTS_MAX + 4 };

static int storm_to_the_end(void *arg)
{
    (void)arg;
    set_up(1, KIN_PERMANENT);
    house.options.max_restarts = LAST_STORM;
    move_in(&house, 1);
    for (unsigned i = 0; i <= LAST_STORM; i++)
        tell(await_restarts(&house, "a", i).addr, END_BADLY);
    EXPECT_EQ(outcome_of(&house).status, KIN_EXHAUSTED);
    kin_ignore(kin_nursery_join(&house.n, NULL));
    return 0;
}

/* How often somebody has said that it gives up. */
static void count_giving_up(const struct kin_report *report, void *arg)
{
    if (strstr(report->text, "the supervisor gives up"))
        atomic_fetch_add((_Atomic int *)arg, 1);
}

KIN_TEST(however_much_was_said_before_giving_up_is_said, "SUP-BUDGET-EXCEEDED")
{
    static _Atomic int count;
    struct kin_config config = KIN_CONFIG_INIT;
    atomic_store(&count, 0);
    config.workers = 2;
    config.on_report = count_giving_up;
    config.report_arg = (void *)&count;
    EXPECT_EQ(kin_run(&config, storm_to_the_end, NULL), 0);
    EXPECT_EQ(atomic_load(&count), 1);
}

/* ---- delays of resets ---- */

static int resets_far_apart(void *arg)
{
    (void)arg;
    set_up(1, KIN_PERMANENT);
    house.options.max_restarts = KIN_NO_RESTARTS;
    house.options.window = KIN_MS(1);
    house.options.escalation = KIN_ESCALATION_RESET;
    house.options.reset_backoff = (struct kin_backoff){KIN_MS(1), KIN_SEC(100), 200, 0};
    move_in(&house, 1);
    for (unsigned i = 0; i < 3; i++) {
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(3))), 0); /* more than two windows pass */
        tell(await_restarts(&house, "a", i).addr, END_BADLY);
        await_heard(&heard, (int)(2 * (i + 1))); /* the reset, and the start */
        EXPECT_EQ(heard.events[2 * i].kind, KIN_EVENT_RESET);
        EXPECT_EQ(heard.events[2 * i].delay, KIN_MS(1));
    }
    move_out(&house);
    return 0;
}

KIN_TEST(resets_that_are_two_windows_apart_are_no_row, "SUP-BUDGET-EXCEEDED")
{
    EXPECT_EQ(run_reporting(2, resets_far_apart, NULL, &reports), 0);
}
