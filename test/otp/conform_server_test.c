/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the own tests of other actor systems ask of servers, asked of kin's: cases K001 to
 *       K062. Each test names its case.
 * Method: black box, one body per case, on 1, 2 and 4 workers.
 *
 * Cases that kin answers elsewhere or has nothing to ask of:
 *   K008, K046      a registry or a name of the user's own: names are the runtime's
 *   K021, K023, K026, K027  requests without a wait: a task that calls is such a request, and its
 *                   nursery the collection; K022 is the part about nobody at all
 *   K039            hibernation: a parked task keeps one page
 *   K040, K041      many nodes: there is one node
 *   K044            a loop of the user's own that becomes a server: a server is started
 *   K048, K049, K051  looking into a state, formatting it: the state is the server's own
 *   K140            a start that waits until the server is ready: conform_order_test.c, D2 D4
 *   K143, K144      the form of crash reports: a panic is one report, see K014; an error is no news
 *   K145 to K150    system messages, tracing, suspending: there is no such protocol
 *   K190 to K200    state machines: a server is one by its state
 *   K210, K212      event managers: none
 */
#include "otp/desk.h"

static int jot_stop_status(struct diary *diary, const struct kin_outcome *why)
{
    jot(diary, "stop:%d:%d", (int)why->severity, why->status);
    return 0;
}

static void jot_stop(struct desk *desk, const struct kin_outcome *why)
{
    jot_stop_status(desk->plan.diary, why);
}

/* ---- starts ---- */

/* K001: start, call, ask to stop, call again. */
static int in_k001_a_server_without_a_name_is_started_called_and_stopped(void *arg)
{
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    (void)arg;
    EXPECT_EQ(kin_server_state(desk), KIN_SERVER_RUNNING);
    EXPECT_EQ(ask(desk, do_add, 5, NULL), 5);
    EXPECT_EQ(ask(desk, do_add, 6, NULL), 11);
    EXPECT_EQ(kin_server_stop(desk, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_server_state(desk), KIN_SERVER_STOPPED);
    EXPECT_EQ(ask(desk, do_add, 5, NULL), KIN_NOPROC);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k001_a_server_without_a_name_is_started_called_and_stopped, "K001 GS-INIT GS-STOPPED")
{
    run_on_few(in_k001_a_server_without_a_name_is_started_called_and_stopped, NULL);
}

static int sleep_in_start(struct desk *desk)
{
    jot(desk->plan.diary, "asleep");
    int rc = kin_sleep(desk->plan.p ? kin_after(KIN_MS(1)) : KIN_NEVER);
    jot(desk->plan.diary, "awake:%d", rc);
    return rc;
}

/* K002: on_start may take its time, and no more than that. */
static int in_k002_a_start_that_takes_too_long_is_given_up(void *arg)
{
    struct diary diary;
    struct desk_plan plan = {.diary = &diary, .on_start = sleep_in_start, .on_stop = jot_stop};
    struct kin_addr out = {3, 4}, holder = {5, 6};
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    options.name = "slow";
    options.init_timeout = KIN_MS(2);
    EXPECT_EQ(try_open_desk(&n, &plan, &options, &out), KIN_TIMEOUT);
    EXPECT_EQ(out.node, 3);
    EXPECT_EQ(out.id, 4);
    EXPECT_EQ(kin_whereis("slow", &holder), KIN_NOPROC);
    EXPECT(!has_word(&diary, "awake:0"));
    EXPECT(!has_word(&diary, "stop:2:-4096"));
    plan.p = &plan;
    options.init_timeout = KIN_SEC(100);
    clear_diary(&diary);
    EXPECT_EQ(try_open_desk(&n, &plan, &options, &out), 0);
    EXPECT_DIARY(&diary, "asleep awake:0");
    EXPECT_EQ(ask(out, do_add, 2, NULL), 2);
    close_desk(out);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k002_a_start_that_takes_too_long_is_given_up, "K002 GS-INIT")
{
    run_on_few(in_k002_a_start_that_takes_too_long_is_given_up, NULL);
}

static int return_p(struct desk *desk)
{
    return *(int *)desk->plan.p;
}

/* K003: on_start declines: nobody is there, and the name is free. */
static int in_k003_a_start_that_declines_leaves_nothing(void *arg)
{
    struct diary diary;
    int status = KIN_IGNORE;
    struct desk_plan plan = {
        .diary = &diary, .on_start = return_p, .on_stop = jot_stop, .p = &status};
    struct kin_addr out = {3, 4};
    DESK_OPTIONS(options);
    KIN_NURSERY(n);
    (void)arg;
    clear_diary(&diary);
    options.name = "shy";
    EXPECT_EQ(try_open_desk(&n, &plan, &options, &out), KIN_IGNORE);
    EXPECT_EQ(out.id, 4);
    EXPECT_EQ(kin_whereis("shy", &out), KIN_NOPROC);
    EXPECT_DIARY(&diary, "");
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_OPEN);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k003_a_start_that_declines_leaves_nothing, "K003 D4")
{
    run_on_few(in_k003_a_start_that_declines_leaves_nothing, NULL);
}

static int fail_in_start(struct desk *desk)
{
    kin_fail(*(int *)desk->plan.p, "in the start");
}

static int panic_in_start(struct desk *desk)
{
    (void)desk;
    kin_panic("in the start");
}

/* K004: on_start fails, by its result, by a crash, by a panic: the starter gets it, on_stop is not
 * run, the nursery does not fail. */
static int in_k004_a_start_that_fails_is_the_business_of_the_starter(void *arg)
{
    struct diary diary;
    int status = -EHOSTDOWN;
    struct desk_plan plan = {.diary = &diary, .on_stop = jot_stop, .p = &status};
    struct kin_addr out = {3, 4};
    DESK_OPTIONS(options);
    KIN_NURSERY(n);
    (void)arg;
    clear_diary(&diary);
    options.name = "ill";
    plan.on_start = return_p;
    EXPECT_EQ(try_open_desk(&n, &plan, &options, &out), -EHOSTDOWN);
    EXPECT_EQ(kin_whereis("ill", &out), KIN_NOPROC);
    plan.on_start = fail_in_start;
    EXPECT_EQ(try_open_desk(&n, &plan, &options, &out), -EHOSTDOWN);
    EXPECT_EQ(kin_whereis("ill", &out), KIN_NOPROC);
    plan.on_start = panic_in_start;
    EXPECT_EQ(try_open_desk(&n, &plan, &options, &out), KIN_PANICKED);
    EXPECT_EQ(kin_whereis("ill", &out), KIN_NOPROC);
    EXPECT_EQ(out.node, 3);
    EXPECT_EQ(out.id, 4);
    EXPECT_DIARY(&diary, "");
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_OPEN);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k004_a_start_that_fails_is_the_business_of_the_starter, "K004 D4 GS-INIT")
{
    run_on_few(in_k004_a_start_that_fails_is_the_business_of_the_starter, NULL);
}

/* K005 K006: whoever is linked with a trap, and whoever watches, is told exactly once. */
static int in_k005_k006_the_end_is_told_once_over_a_link_and_a_monitor(void *arg)
{
    struct kin_link_ref link;
    struct kin_info info;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    (void)arg;
    EXPECT_EQ(kin_link(desk, KIN_EXIT_TRAP, KIN_EXIT_IGNORE, &link), 0);
    struct kin_monitor_ref ref = watch(desk);
    EXPECT_EQ(kin_server_stop(desk, -ECONNRESET, KIN_NEVER), 0);
    EXPECT_EQ(kin_wait_info(&info, KIN_NEVER), 0);
    EXPECT_EQ(info.kind, KIN_INFO_EXIT);
    EXPECT_EQ(info.u.exit.reason, KIN_DOWN_ERROR);
    EXPECT_EQ(info.u.exit.status, -ECONNRESET);
    EXPECT_EQ(info.u.exit.ref.id, link.id);
    EXPECT(kin_addr_same(info.u.exit.from, desk));
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT);
    EXPECT_END(ref, KIN_DOWN_ERROR, -ECONNRESET);
    EXPECT_EQ(kin_wait_down(ref, &info, 0), KIN_STALE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -ECONNRESET);
    return 0;
}

KIN_TEST(k005_k006_the_end_is_told_once_over_a_link_and_a_monitor, "K005 K006 MON-DOWN LINK-EXIT")
{
    run_on_few(in_k005_k006_the_end_is_told_once_over_a_link_and_a_monitor, NULL);
}

/* K007: a second start under the name is told who has it. */
static int in_k007_a_second_start_of_a_name_gets_the_first_address(void *arg)
{
    struct diary diary;
    struct desk_plan plan = {.diary = &diary, .label = "a"};
    struct kin_addr second = {0, 0};
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    options.name = "one";
    struct kin_addr first = open_desk(&n, &plan, &options);
    EXPECT_EQ(try_open_desk(&n, &plan, &options, &second), KIN_TAKEN);
    EXPECT(kin_addr_same(first, second));
    EXPECT_DIARY(&diary, "+a");
    EXPECT_EQ(ask(first, do_add, 1, NULL), 1);
    close_desk(first);
    second = open_desk(&n, &plan, &options);
    EXPECT(!kin_addr_same(first, second));
    close_desk(second);
    EXPECT_DIARY(&diary, "+a -a +a -a");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k007_a_second_start_of_a_name_gets_the_first_address, "K007 REG-COLLISION")
{
    run_on_few(in_k007_a_second_start_of_a_name_gets_the_first_address, NULL);
}

/* ---- stops ---- */

/* K009: stop by address, by name: over on return; again: nobody. */
static int in_k009_a_stopped_server_is_over_when_the_stop_returns(void *arg)
{
    struct kin_addr found;
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    for (int by_name = 0; by_name < 2; by_name++) {
        options.name = "stoppable";
        struct kin_addr desk = open_desk(&n, NULL, &options);
        struct kin_monitor_ref ref = watch(desk);
        EXPECT_EQ(kin_whereis("stoppable", &found), 0);
        EXPECT(kin_addr_same(found, desk));
        EXPECT_EQ(kin_server_stop(by_name ? found : desk, 0, KIN_NEVER), 0);
        EXPECT_EQ(kin_server_state(desk), KIN_SERVER_STOPPED);
        EXPECT_EQ(kin_whereis("stoppable", &found), KIN_NOPROC);
        EXPECT_EQ(kin_server_stop(desk, 0, KIN_NEVER), KIN_NOPROC);
        EXPECT_END(ref, KIN_DOWN_NORMAL, 0);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k009_a_stopped_server_is_over_when_the_stop_returns, "K009 GS-STOPPED")
{
    run_on_few(in_k009_a_stopped_server_is_over_when_the_stop_returns, NULL);
}

/* K010: the watcher is told the reason that the stop gave. */
static int in_k010_a_stop_with_a_reason_ends_the_server_with_it(void *arg)
{
    struct diary diary;
    struct desk_plan plan = {.diary = &diary, .on_stop = jot_stop};
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    struct kin_monitor_ref ref = watch(desk);
    EXPECT_EQ(kin_server_stop(desk, -ENOSPC, KIN_NEVER), 0);
    EXPECT_END(ref, KIN_DOWN_ERROR, -ENOSPC);
    jot(&diary, "over");
    char want[64];
    snprintf(want, sizeof want, "stop:%d:%d over", KIN_SEV_ERROR, -ENOSPC);
    EXPECT_DIARY(&diary, want);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -ENOSPC);
    return 0;
}

KIN_TEST(k010_a_stop_with_a_reason_ends_the_server_with_it, "K010 MON-DOWN")
{
    run_on_few(in_k010_a_stop_with_a_reason_ends_the_server_with_it, NULL);
}

/* K011: a stop that makes no sense is refused, and the server lives. */
static int in_k011_a_stop_that_makes_no_sense_is_refused(void *arg)
{
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    (void)arg;
    EXPECT_EQ(kin_server_stop(desk, 1, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_server_stop((struct kin_addr){0, 0}, 0, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_server_state(desk), KIN_SERVER_RUNNING);
    EXPECT_EQ(ask(desk, do_add, 1, NULL), 1);
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k011_a_stop_that_makes_no_sense_is_refused, "K011")
{
    run_on_few(in_k011_a_stop_that_makes_no_sense_is_refused, NULL);
}

static int stop_quietly(void *arg)
{
    HOUSE(n);
    (void)arg;
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    EXPECT_EQ(ask(desk, do_stop_self, 0, NULL), KIN_STOPPING);
    desk = open_desk(&n, NULL, NULL);
    EXPECT_EQ(ask(desk, do_stop_self, -ENOLINK, NULL), -ENOLINK);
    return kin_nursery_join(&n, NULL) == -ENOLINK ? 0 : -1;
}

/* K013: a server that stops itself is no news. */
KIN_TEST(k013_a_server_that_stops_itself_is_not_reported, "K013")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        static struct reports reports;
        memset(&reports, 0, sizeof reports);
        EXPECT_EQ(run_reporting(workers, stop_quietly, NULL, &reports), 0);
        EXPECT_EQ(reports.count, 0);
    }
}

static uint64_t panicked_id;

static int panic_loudly(void *arg)
{
    HOUSE(n);
    (void)arg;
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    panicked_id = desk.id;
    EXPECT_EQ(ask(desk, do_panic, 0, NULL), KIN_PANICKED);
    return kin_nursery_join(&n, NULL) == KIN_PANICKED ? 0 : -1;
}

/* K014: a crash reaches the caller, and a panic is reported once. */
KIN_TEST(k014_a_panic_reaches_the_caller_and_is_reported_once, "K014")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        static struct reports reports;
        memset(&reports, 0, sizeof reports);
        EXPECT_EQ(run_reporting(workers, panic_loudly, NULL, &reports), 0);
        EXPECT_EQ(reports.count, 1);
        EXPECT_EQ(reports.status[0], KIN_PANICKED);
        EXPECT_EQ(reports.task[0], panicked_id);
    }
}

/* ---- calls ---- */

/* Answers what a desk holds. */
static int do_answer_held(struct desk *desk, const struct task_at_desk *job,
                          struct kin_reply *reply)
{
    struct kin_reply *held = desk->held;
    desk->held = NULL;
    answer(held, (int)job->n);
    kin_reply_drop(held);
    answer(reply, 0);
    return 0;
}

/* K016: the answer may come later. */
static int in_k016_an_answer_may_come_later(void *arg)
{
    struct caller first;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    (void)arg;
    EXPECT(hold_a_call(&n, &first, desk) != NULL);
    EXPECT_EQ(atomic_load(&first.over), 0);
    EXPECT_EQ(ask(desk, do_answer_held, 42, NULL), 0);
    await_flag(&first.over, 1);
    EXPECT_EQ(first.rc, 42);
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_leaks(), 0);
    return 0;
}

KIN_TEST(k016_an_answer_may_come_later, "K016 GS-REPLY")
{
    run_on_few(in_k016_an_answer_may_come_later, NULL);
}

static int jot_timeout(struct desk *desk, const struct kin_info *info)
{
    EXPECT_EQ(info->kind, KIN_INFO_TIMEOUT);
    EXPECT_LE(info->u.timeout.deadline, kin_now());
    jot(desk->plan.diary, "timeout:%d", (int)info->u.timeout.id);
    return 0;
}

/* K017 K036 K038: the idle timeout comes once when nothing comes, and not while something does. */
static int in_k017_the_idle_timeout_comes_once_per_idle_period(void *arg)
{
    struct diary diary;
    struct desk_plan plan = {.diary = &diary, .on_info = jot_timeout};
    DESK_OPTIONS(options);
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    options.idle_timeout = KIN_SEC(1000);
    struct kin_addr busy = open_desk(&n, &plan, &options);
    EXPECT_EQ(ask(busy, do_add, 1, NULL), 1);
    EXPECT_EQ(ask(busy, do_add, 1, NULL), 2);
    options.idle_timeout = 0;
    struct kin_addr patient = open_desk(&n, &plan, &options);
    EXPECT_EQ(ask(patient, do_add, 1, NULL), 1);
    EXPECT_DIARY(&diary, "");
    options.idle_timeout = KIN_MS(1);
    struct kin_addr idle = open_desk(&n, &plan, &options);
    await_words(&diary, 1);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(5))), 0);
    EXPECT_DIARY(&diary, "timeout:0");
    EXPECT_EQ(ask(idle, do_add, 1, NULL), 1);
    await_words(&diary, 2);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(5))), 0);
    EXPECT_DIARY(&diary, "timeout:0 timeout:0");
    close_desk(busy);
    close_desk(patient);
    close_desk(idle);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k017_the_idle_timeout_comes_once_per_idle_period, "K017 K036 K038")
{
    run_on_few(in_k017_the_idle_timeout_comes_once_per_idle_period, NULL);
}

/* K019: what no callback may return stops the server, and the caller hears of it. */
static int in_k019_a_result_that_means_nothing_stops_the_server(void *arg)
{
    HOUSE(n);
    (void)arg;
    for (int by_cast = 0; by_cast < 2; by_cast++) {
        struct kin_addr desk = open_desk(&n, NULL, NULL);
        struct kin_monitor_ref ref = watch(desk);
        if (by_cast)
            EXPECT_EQ(send_to(desk, do_return_only, 7, NULL), 0);
        else
            EXPECT_EQ(ask(desk, do_return_only, 7, NULL), -EBADMSG);
        EXPECT_END(ref, KIN_DOWN_ERROR, -EBADMSG);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EBADMSG);
    return 0;
}

KIN_TEST(k019_a_result_that_means_nothing_stops_the_server, "K019")
{
    run_on_few(in_k019_a_result_that_means_nothing_stops_the_server, NULL);
}

/* K020: on_stop has run, once, with the reason, before a caller hears of it. */
static int in_k020_on_stop_runs_before_callers_hear_of_an_error(void *arg)
{
    struct diary diary;
    struct desk_plan plan = {.diary = &diary, .on_stop = jot_stop};
    desk_fn *const ways[] = {do_return_only, do_fail, do_stop_self};
    HOUSE(n);
    (void)arg;
    for (size_t i = 0; i < 3; i++) {
        char want[64];
        clear_diary(&diary);
        struct kin_addr desk = open_desk(&n, &plan, NULL);
        EXPECT_EQ(ask(desk, ways[i], -EXDEV, NULL), -EXDEV);
        snprintf(want, sizeof want, "stop:%d:%d", KIN_SEV_ERROR, -EXDEV);
        EXPECT_DIARY(&diary, want);
    }
    clear_diary(&diary);
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    EXPECT_EQ(ask(desk, do_panic, 0, NULL), KIN_PANICKED);
    EXPECT_DIARY(&diary, "");
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_PANICKED);
    return 0;
}

KIN_TEST(k020_on_stop_runs_before_callers_hear_of_an_error, "K020 D5")
{
    run_on_few(in_k020_on_stop_runs_before_callers_hear_of_an_error, NULL);
}

/* K022 K030 K061 K062: calls and casts to nobody come back at once. */
static int in_k022_k030_k061_calls_and_casts_to_nobody_come_back_at_once(void *arg)
{
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    (void)arg;
    close_desk(desk);
    const struct kin_addr nobody[] = {
        desk, {0, 0}, {0, UINT64_MAX}, {0, 1}, {0, desk.id + 1}, kin_self_addr()};
    for (size_t i = 0; i < sizeof nobody / sizeof nobody[0]; i++) {
        for (int never = 0; never < 2; never++) {
            kin_time deadline = never ? KIN_NEVER : 0;
            if (!kin_addr_same(nobody[i], kin_self_addr()))
                EXPECT_EQ(ask_by(nobody[i], do_add, 1, NULL, deadline), KIN_NOPROC);
            EXPECT_EQ(send_by(nobody[i], do_add, 1, NULL, deadline), KIN_NOPROC);
        }
    }
    const struct kin_addr far = {7, desk.id};
    EXPECT_EQ(ask(far, do_add, 1, NULL), KIN_NOCONN);
    EXPECT_EQ(send_to(far, do_add, 1, NULL), KIN_NOCONN);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k022_k030_k061_calls_and_casts_to_nobody_come_back_at_once, "K022 K030 K061 K062")
{
    run_on_few(in_k022_k030_k061_calls_and_casts_to_nobody_come_back_at_once, NULL);
}

/* ---- continue ---- */

static int jot_continue(struct desk *desk)
{
    jot(desk->plan.diary, "continue:%ld", desk->sum);
    if (desk->sum-- > 0)
        return KIN_CONTINUE;
    return 0;
}

static int start_with_continue(struct desk *desk)
{
    desk->sum = 1;
    return KIN_CONTINUE;
}

/* Jots n, and goes on with as many continuations. */
static int do_continue(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    do_jot(desk, job, reply);
    desk->sum = job->n;
    return KIN_CONTINUE;
}

static int continue_after_timeout(struct desk *desk, const struct kin_info *info)
{
    EXPECT_EQ(info->kind, KIN_INFO_TIMEOUT);
    jot(desk->plan.diary, "info");
    desk->sum = 0;
    return KIN_CONTINUE;
}

static int do_set_timer(struct desk *desk, const struct task_at_desk *job, struct kin_reply *reply)
{
    kin_time at = job->p ? *(kin_time *)job->p : 1;
    EXPECT_EQ(kin_server_timer_set(desk->server, (uint64_t)job->n, at), 0);
    answer(reply, 0);
    return 0;
}

/* K028: on_continue runs before any queued message, however often it asks for itself again. */
static int in_k028_continuations_run_before_queued_messages(void *arg)
{
    struct diary diary;
    struct gate gate;
    struct desk_plan plan = {.diary = &diary,
                             .on_start = start_with_continue,
                             .on_continue = jot_continue,
                             .on_info = continue_after_timeout};
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    EXPECT_EQ(ask(desk, do_continue, 2, NULL), 0);
    EXPECT_EQ(ask(desk, do_jot, 1, NULL), 0);
    EXPECT_DIARY(&diary, "continue:1 continue:0 call:2 continue:2 continue:1 continue:0 call:1");
    clear_diary(&diary);
    keep_busy(desk, &gate);
    EXPECT_EQ(send_to(desk, do_continue, 1, NULL), 0);
    EXPECT_EQ(send_to(desk, do_jot, 8, NULL), 0);
    EXPECT_EQ(send_to(desk, do_continue, 0, NULL), 0);
    EXPECT_EQ(send_to(desk, do_set_timer, 5, NULL), 0);
    kin_event_set(&gate.open);
    await_words(&diary, 8);
    EXPECT_EQ(ask(desk, do_jot, 9, NULL), 0);
    EXPECT_DIARY(&diary, "cast:1 continue:1 continue:0 cast:8 cast:0 continue:0 info continue:0 "
                         "call:9");
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k028_continuations_run_before_queued_messages, "K028")
{
    run_on_few(in_k028_continuations_run_before_queued_messages, NULL);
}

static int stop_in_continue(struct desk *desk)
{
    jot(desk->plan.diary, "continue");
    return kin_server_stop_self(desk->server, 0);
}

/* K028: a continuation that stops the server ends it well. */
static int in_k028_a_continuation_may_stop_the_server(void *arg)
{
    struct diary diary;
    struct desk_plan plan = {
        .diary = &diary, .on_continue = stop_in_continue, .on_stop = jot_stop};
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    struct kin_monitor_ref ref = watch(desk);
    EXPECT_EQ(send_to(desk, do_continue, 0, NULL), 0);
    EXPECT_END(ref, KIN_DOWN_NORMAL, 0);
    EXPECT_DIARY(&diary, "cast:0 continue stop:0:0");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k028_a_continuation_may_stop_the_server, "K028")
{
    run_on_few(in_k028_a_continuation_may_stop_the_server, NULL);
}

/* ---- itself ---- */

static int do_call_myself(struct desk *desk, const struct task_at_desk *job,
                          struct kin_reply *reply)
{
    (void)job;
    EXPECT_EQ(ask(kin_self_addr(), do_add, 1, NULL), KIN_DEADLOCK);
    EXPECT_EQ(ask_by(kin_self_addr(), do_add, 1, NULL, 0), KIN_DEADLOCK);
    EXPECT_EQ(kin_server_stop(kin_self_addr(), 0, KIN_NEVER), KIN_DEADLOCK);
    EXPECT_EQ(send_to(kin_self_addr(), do_add, 10, NULL), 0); /* a cast to oneself is fine */
    answer(reply, (int)desk->sum);
    return 0;
}

/* K029: a server that calls itself is told so at once. */
static int in_k029_a_server_that_calls_itself_is_told_so(void *arg)
{
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    (void)arg;
    EXPECT_EQ(ask(desk, do_call_myself, 0, NULL), 0);
    EXPECT_EQ(ask(desk, do_add, 1, NULL), 11);
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k029_a_server_that_calls_itself_is_told_so, "K029")
{
    run_on_few(in_k029_a_server_that_calls_itself_is_told_so, NULL);
}

/* ---- missing callbacks ---- */

static int set_timer_and_link(struct kin_server *s, void *state, const void *arg)
{
    (void)state;
    (void)arg;
    EXPECT_EQ(kin_server_timer_set(s, 1, 1), 0);
    return KIN_CONTINUE;
}

/* K031 K032: without on_call callers are told so; casts, infos, continuations go nowhere; the
 * server lives. */
static int in_k031_k032_a_server_without_callbacks_lives(void *arg)
{
    const struct kin_server_ops none = {0};
    const struct kin_server_ops start_only = {.on_start = set_timer_and_link};
    HOUSE(n);
    (void)arg;
    for (int i = 0; i < 2; i++) {
        struct kin_addr bare;
        EXPECT_EQ(kin_server_start(&n, i ? &start_only : &none, NULL, NULL, &bare), 0);
        struct kin_monitor_ref ref = watch(bare);
        EXPECT_EQ(kin_call(bare, "x", 1, NULL, 0, NULL, KIN_NEVER), -ENOSYS);
        EXPECT_EQ(kin_cast(bare, "x", 1, KIN_NEVER), 0);
        EXPECT_EQ(kin_call(bare, NULL, 0, NULL, 0, NULL, KIN_NEVER), -ENOSYS);
        EXPECT_EQ(kin_server_state(bare), KIN_SERVER_RUNNING);
        close_desk(bare);
        EXPECT_END(ref, KIN_DOWN_NORMAL, 0);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k031_k032_a_server_without_callbacks_lives, "K031 K032")
{
    run_on_few(in_k031_k032_a_server_without_callbacks_lives, NULL);
}

/* K034: without on_stop a server still ends with exactly the reason. */
static int in_k034_a_server_without_on_stop_ends_with_the_reason(void *arg)
{
    const struct kin_server_ops none = {0};
    HOUSE(n);
    (void)arg;
    for (int i = 0; i < 2; i++) {
        struct kin_addr bare;
        EXPECT_EQ(kin_server_start(&n, &none, NULL, NULL, &bare), 0);
        struct kin_monitor_ref ref = watch(bare);
        EXPECT_EQ(kin_server_stop(bare, i ? -EPROTO : 0, KIN_NEVER), 0);
        EXPECT_END(ref, i ? KIN_DOWN_ERROR : KIN_DOWN_NORMAL, i ? -EPROTO : 0);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPROTO);
    return 0;
}

KIN_TEST(k034_a_server_without_on_stop_ends_with_the_reason, "K034")
{
    run_on_few(in_k034_a_server_without_on_stop_ends_with_the_reason, NULL);
}

/* ---- timers ---- */

static int do_play_with_timers(struct desk *desk, const struct task_at_desk *job,
                               struct kin_reply *reply)
{
    struct kin_server *s = desk->server;
    (void)job;
    EXPECT_EQ(kin_server_timer_set(s, 1, KIN_NEVER), 0);
    EXPECT_EQ(kin_server_timer_set(s, 2, kin_after(KIN_SEC(1000))), 0);
    EXPECT_EQ(kin_server_timer_set(s, 3, 1), 0);              /* due already */
    EXPECT_EQ(kin_server_timer_set(s, 4, kin_after(KIN_MS(1))), 0);
    EXPECT_EQ(kin_server_timer_set(s, 5, 2), 0);              /* due, but cancelled */
    EXPECT_EQ(kin_server_timer_cancel(s, 5), 0);
    EXPECT_EQ(kin_server_timer_cancel(s, 5), KIN_STALE);
    EXPECT_EQ(kin_server_timer_cancel(s, 99), KIN_STALE);
    EXPECT_EQ(kin_server_timer_set(s, 6, 3), 0);
    EXPECT_EQ(kin_server_timer_set(s, 6, KIN_NEVER), 0);      /* takes its place */
    EXPECT_EQ(kin_server_timer_cancel(s, 2), 0);
    answer(reply, 0);
    return 0;
}

static int do_cancel_timer(struct desk *desk, const struct task_at_desk *job,
                           struct kin_reply *reply)
{
    answer(reply, kin_server_timer_cancel(desk->server, (uint64_t)job->n) == job->n ? 1 : 0);
    return 0;
}

/* K036 K038: a timer fires once, at its time or not at all. */
static int in_k036_k038_timers_of_a_server_fire_once(void *arg)
{
    struct diary diary;
    struct desk_plan plan = {.diary = &diary, .on_info = jot_timeout};
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    struct kin_addr desk = open_desk(&n, &plan, NULL);
    EXPECT_EQ(ask(desk, do_play_with_timers, 0, NULL), 0);
    await_words(&diary, 2);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(5))), 0);
    EXPECT_EQ(ask(desk, do_cancel_timer, 1, NULL), 0);
    EXPECT_DIARY(&diary, "timeout:3 timeout:4");
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k036_k038_timers_of_a_server_fire_once, "K036 K038")
{
    run_on_few(in_k036_k038_timers_of_a_server_fire_once, NULL);
}

/* ---- many ---- */

static int do_call_with_a_full_mailbox(struct desk *desk, const struct task_at_desk *job,
                                       struct kin_reply *reply)
{
    (void)desk;
    for (int i = 1; i <= 50; i++)
        EXPECT_EQ(ask(*(struct kin_addr *)job->p, do_add, 1, NULL), i);
    answer(reply, 0);
    return 0;
}

/* K043: letters that wait do not stand in the way of the answers to one's own calls. */
static int in_k043_a_server_with_a_long_mailbox_may_call(void *arg)
{
    struct caller caller;
    struct gate gate;
    HOUSE(n);
    DESK_OPTIONS(options);
    (void)arg;
    options.mailbox_capacity = 5000;
    struct kin_addr other = open_desk(&n, NULL, NULL);
    struct kin_addr desk = open_desk(&n, NULL, &options);
    keep_busy(desk, &gate);
    EXPECT_EQ(send_to(desk, do_call_with_a_full_mailbox, 0, &other), 0);
    for (int i = 0; i < 4000; i++)
        EXPECT_EQ(send_by(desk, do_add, 1, NULL, 0), 0);
    spawn_caller(&n, &caller, desk, do_add, 0);
    kin_event_set(&gate.open);
    await_flag(&caller.over, 1);
    EXPECT_GE(caller.rc, 0);
    EXPECT_EQ(ask(desk, do_add, 0, NULL), 4000);
    EXPECT_EQ(ask(other, do_add, 0, NULL), 50);
    close_desk(desk);
    close_desk(other);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k043_a_server_with_a_long_mailbox_may_call, "K043")
{
    run_on_few(in_k043_a_server_with_a_long_mailbox_may_call, NULL);
}

static int run_a_desk(void *arg)
{
    struct desk_plan plan = {.diary = arg, .label = "a", .on_stop = jot_stop};
    KIN_NURSERY(n);
    EXPECT_EQ(kin_register("parent", kin_self_addr(), 0), 0);
    open_desk(&n, &plan, NULL);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    jot(arg, "parent");
    return KIN_CANCELLED;
}

/* K045: on_stop runs when the parent stops its servers, a parent with a name too. */
static int in_k045_on_stop_runs_when_the_parent_goes(void *arg)
{
    struct diary diary;
    struct kin_task_ref parent;
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    EXPECT_EQ(kin_spawn_with(&n, NULL, run_a_desk, &diary, 0, &parent), 0);
    await_word(&diary, "+a");
    EXPECT_EQ(kin_task_cancel(parent), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_DIARY(&diary, "+a -a stop:2:-4096 parent");
    return 0;
}

KIN_TEST(k045_on_stop_runs_when_the_parent_goes, "K045")
{
    run_on_few(in_k045_on_stop_runs_when_the_parent_goes, NULL);
}

/* ---- replies ---- */

struct errand {
    struct kin_reply *held;
    int number;
    int rc, again;
};

static int answer_for_another(void *arg)
{
    struct errand *errand = arg;
    errand->rc = kin_reply_send(errand->held, &errand->number, sizeof errand->number);
    errand->again = kin_reply_send(errand->held, &errand->number, sizeof errand->number);
    kin_reply_drop(errand->held);
    return 0;
}

/* K052: a third task answers; the answer arrives once. */
static int in_k052_a_third_task_may_answer(void *arg)
{
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    (void)arg;
    for (int round = 0; round < 20; round++) {
        struct errand errand = {NULL, round, 1, 1};
        struct caller caller;
        KIN_NURSERY(callers);
        errand.held = hold_a_call(&callers, &caller, desk);
        EXPECT_EQ(kin_spawn(&callers, answer_for_another, &errand), 0);
        EXPECT_EQ(kin_nursery_join(&callers, NULL), 0);
        EXPECT_EQ(caller.rc, round);
        EXPECT_EQ(errand.rc, 0);
        EXPECT_EQ(errand.again, KIN_REPLIED);
    }
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_leaks(), 0);
    return 0;
}

KIN_TEST(k052_a_third_task_may_answer, "K052 D6 GS-REPLY")
{
    run_on_few(in_k052_a_third_task_may_answer, NULL);
}

static int do_answer_twice(struct desk *desk, const struct task_at_desk *job,
                           struct kin_reply *reply)
{
    int other = 99;
    (void)job;
    answer(reply, 5);
    desk->sum = 0;
    EXPECT_EQ(kin_reply_send(reply, &other, sizeof other), KIN_REPLIED);
    EXPECT_EQ(kin_reply_abort(reply, -EIO), KIN_REPLIED);
    EXPECT_EQ(kin_reply_send(reply, NULL, 0), KIN_REPLIED);
    return 0;
}

/* K053: the first answer counts, a second is refused, nothing leaks. */
static int in_k053_a_second_answer_is_refused(void *arg)
{
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    (void)arg;
    EXPECT_EQ(ask(desk, do_answer_twice, 0, NULL), 5);
    EXPECT_EQ(ask(desk, do_add, 3, NULL), 3);
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_leaks(), 0);
    return 0;
}

KIN_TEST(k053_a_second_answer_is_refused, "K053 D6 SINV-1")
{
    run_on_few(in_k053_a_second_answer_is_refused, NULL);
}

/* K056: whoever waits for an answer of a server that stops gets the reason, a good one too. */
static int in_k056_a_stop_without_an_answer_reaches_the_caller(void *arg)
{
    const int status[] = {0, -EL2HLT, -4095, KIN_CLOSED};
    HOUSE(n);
    (void)arg;
    for (size_t i = 0; i < 4; i++) {
        struct kin_addr desk = open_desk(&n, NULL, NULL);
        struct kin_monitor_ref ref = watch(desk);
        EXPECT_EQ(ask(desk, do_stop_self, status[i], NULL),
                  status[i] ? status[i] : KIN_STOPPING);
        EXPECT_END(ref, status[i] ? KIN_DOWN_ERROR : KIN_DOWN_NORMAL, status[i]);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EL2HLT);
    return 0;
}

KIN_TEST(k056_a_stop_without_an_answer_reaches_the_caller, "K056 D5")
{
    run_on_few(in_k056_a_stop_without_an_answer_reaches_the_caller, NULL);
}

/* K059: what one sender sent arrives in order. */
static int in_k059_a_call_sees_all_casts_before_it(void *arg)
{
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    (void)arg;
    for (int round = 1; round <= 20; round++) {
        for (int i = 0; i < 100; i++)
            EXPECT_EQ(send_to(desk, do_add, 1, NULL), 0);
        EXPECT_EQ(ask(desk, do_add, 0, NULL), 100 * round);
    }
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(k059_a_call_sees_all_casts_before_it, "K059 GS-CAST-HANDLE GS-CALL-HANDLE")
{
    run_on_few(in_k059_a_call_sees_all_casts_before_it, NULL);
}
