/* SPDX-License-Identifier: MIT */
/*
 * Goal: every sentence of the public contract about monitors, links, names and supervisors that
 *       names a status, a default, a size, or something that stays untouched; conform_status_test.c
 *       has those about servers.
 * Method: black box, one body per group of sentences, on 1, 2 and 4 workers. What can be asked with
 *         wrong arguments is asked with each of them; outputs are set before and looked at after.
 */
#include "otp/crew.h"

static const struct kin_addr marked = {3, 4};

static int keep_addr(void *arg)
{
    *(struct kin_addr *)arg = kin_self_addr();
    return 0;
}

/* ---- monitors and links ---- */

struct borrowed {
    struct kin_monitor_ref ref;
    int rc, taken_back;
};

static int wait_for_another(void *arg)
{
    struct borrowed *borrowed = arg;
    struct kin_info info;
    borrowed->rc = kin_wait_down(borrowed->ref, &info, 0);
    return 0;
}

static int take_back(void *arg)
{
    struct borrowed *borrowed = arg;
    borrowed->taken_back = kin_demonitor(borrowed->ref);
    return 0;
}

static int in_misuse_of_monitors_and_links_is_answered(void *arg)
{
    struct kin_info info;
    struct kin_link_ref link = {77};
    struct borrowed borrowed;
    struct kin_task_ref task;
    HOUSE(n);
    struct kin_addr desk = open_desk(&n, NULL, NULL);
    (void)arg;
    EXPECT_EQ(kin_monitor(desk, NULL), -EINVAL);
    EXPECT_EQ(kin_link(desk, KIN_EXIT_TRAP, KIN_EXIT_TRAP, NULL), -EINVAL);
    EXPECT_EQ(kin_link(desk, (enum kin_exit_policy)9, KIN_EXIT_TRAP, &link), -EINVAL);
    EXPECT_EQ(kin_link(desk, KIN_EXIT_TRAP, (enum kin_exit_policy)9, &link), -EINVAL);
    EXPECT_EQ(link.id, 77);
    borrowed.ref = watch(desk);
    EXPECT_EQ(kin_wait_down(borrowed.ref, NULL, 0), -EINVAL);
    EXPECT_EQ(kin_wait_info(NULL, 0), -EINVAL);
    EXPECT_EQ(kin_wait_down((struct kin_monitor_ref){0}, &info, 0), KIN_STALE);
    EXPECT_EQ(kin_wait_down(borrowed.ref, &info, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_wait_down(borrowed.ref, &info, kin_after(KIN_US(50))), KIN_TIMEOUT);
    EXPECT_EQ(kin_wait_info(&info, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin_wait_info(&info, kin_after(KIN_US(50))), KIN_TIMEOUT);
    EXPECT_EQ(kin_spawn_with(&n, NULL, wait_for_another, &borrowed, 0, &task), 0);
    EXPECT_EQ(kin_task_join(&n, task, NULL, KIN_NEVER), 0);
    EXPECT_EQ(borrowed.rc, -EPERM);
    EXPECT_EQ(kin_spawn_with(&n, NULL, take_back, &borrowed, 0, &task), 0);
    EXPECT_EQ(kin_task_join(&n, task, NULL, KIN_NEVER), 0);
    EXPECT_EQ(borrowed.taken_back, 0);
    EXPECT_EQ(kin_wait_down(borrowed.ref, &info, 0), KIN_STALE);
    close_desk(desk);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(misuse_of_monitors_and_links_is_answered, "MON-CREATE LINK-CREATE")
{
    run_on_few(in_misuse_of_monitors_and_links_is_answered, NULL);
}

static _Atomic int waiting;

static int wait_cancelled(void *arg)
{
    struct kin_info info;
    struct kin_monitor_ref ref;
    int *rcs = arg;
    atomic_store(&waiting, 1);
    EXPECT_EQ(kin_monitor(kin_self_addr(), &ref), 0);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    rcs[0] = kin_wait_down(ref, &info, KIN_NEVER);
    rcs[1] = kin_wait_info(&info, KIN_NEVER);
    return 0;
}

static int in_waits_for_news_can_be_cancelled(void *arg)
{
    int rcs[2] = {1, 1};
    struct kin_task_ref task;
    HOUSE(n);
    (void)arg;
    atomic_store(&waiting, 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, wait_cancelled, rcs, 0, &task), 0);
    await_flag(&waiting, 1);
    EXPECT_EQ(kin_task_cancel(task), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(rcs[0], KIN_CANCELLED);
    EXPECT_EQ(rcs[1], KIN_CANCELLED);
    return 0;
}

KIN_TEST(waits_for_news_can_be_cancelled, "MON-DOWN")
{
    run_on_few(in_waits_for_news_can_be_cancelled, NULL);
}

/* ---- names ---- */

static int in_names_that_make_no_sense_are_refused(void *arg)
{
    char name[300];
    struct kin_addr me = kin_self_addr(), found = marked;
    (void)arg;
    memset(name, 'x', sizeof name);
    name[256] = '\0';
    const char *const bad[] = {NULL, "", name};
    for (size_t i = 0; i < 3; i++) {
        EXPECT_EQ(kin_register(bad[i], me, 0), -EINVAL);
        EXPECT_EQ(kin_unregister(bad[i]), -EINVAL);
        EXPECT_EQ(kin_lease_renew(bad[i], 0), -EINVAL);
        EXPECT_EQ(kin_whereis(bad[i], &found), -EINVAL);
    }
    EXPECT_EQ(kin_register("a", me, -1), -EINVAL);
    EXPECT_EQ(kin_whereis("a", NULL), -EINVAL);
    EXPECT_EQ(kin_whereis("a", &found), KIN_NOPROC);
    EXPECT(kin_addr_same(found, marked));
    EXPECT_EQ(kin_register("a", (struct kin_addr){0, 0}, 0), KIN_NOPROC);
    EXPECT_EQ(kin_register("a", (struct kin_addr){0, UINT64_MAX}, 0), KIN_NOPROC);
    name[255] = '\0';
    EXPECT_EQ(kin_register(name, me, 0), 0);
    EXPECT_EQ(kin_lease_renew(name, -1), -EINVAL);
    EXPECT_EQ(kin_whereis(name, &found), 0);
    EXPECT(kin_addr_same(found, me));
    EXPECT_EQ(kin_unregister(name), 0);
    EXPECT_EQ(kin_register("a", me, KIN_NEVER), 0);
    EXPECT_EQ(kin_unregister("a"), 0);
    return 0;
}

KIN_TEST(names_that_make_no_sense_are_refused, "REG-REGISTER REG-LOOKUP")
{
    run_on_few(in_names_that_make_no_sense_are_refused, NULL);
}

static int in_somebody_who_is_over_holds_no_names(void *arg)
{
    struct kin_task_ref ref;
    struct kin_addr inside = {0, 0}, found = marked;
    HOUSE(n);
    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, keep_addr, &inside, 0, &ref), 0);
    EXPECT_EQ(kin_task_join(&n, ref, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_register("a", inside, 0), KIN_NOPROC);
    EXPECT_EQ(kin_whereis("a", &found), KIN_NOPROC);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(somebody_who_is_over_holds_no_names, "REG-REGISTER")
{
    run_on_few(in_somebody_who_is_over_holds_no_names, NULL);
}

struct late {
    struct kin_event go_on;
    _Atomic int started;
    int rc;
};

static int register_late(void *arg)
{
    struct late *late = arg;
    kin_mask();
    atomic_store(&late->started, 1);
    EXPECT_EQ(kin_event_wait(&late->go_on, KIN_NEVER), 0);
    late->rc = kin_register("late", kin_self_addr(), 0);
    kin_unmask();
    return 0;
}

static int open_the_gate(void *arg)
{
    struct late *late = arg;
    let_others_run();
    kin_event_set(&late->go_on);
    return 0;
}

/* A nursery that is closed or cancelled registers nobody; one that is being joined its members. */
static int in_names_need_a_nursery_that_goes_on(void *arg)
{
    struct kin_addr found;
    (void)arg;
    for (int shape = 0; shape < 3; shape++) {
        struct late late;
        memset(&late, 0, sizeof late);
        HOUSE(outer);
        HOUSE(n);
        EXPECT_EQ(kin_spawn(&n, register_late, &late), 0);
        await_flag(&late.started, 1);
        if (shape == 0)
            kin_nursery_close(&n);
        else if (shape == 1)
            kin_nursery_cancel(&n, 0);
        if (shape == 2)
            EXPECT_EQ(kin_spawn(&outer, open_the_gate, &late), 0);
        else
            kin_event_set(&late.go_on);
        int rc = kin_nursery_join(&n, NULL);
        EXPECT_EQ(rc, shape == 1 ? KIN_CANCELLED : 0);
        EXPECT_EQ(kin_nursery_join(&outer, NULL), 0);
        EXPECT_EQ(late.rc, shape == 2 ? 0 : KIN_NOSCOPE);
        EXPECT_EQ(kin_whereis("late", &found), KIN_NOPROC);
    }
    return 0;
}

KIN_TEST(names_need_a_nursery_that_goes_on, "REG-REGISTER SINV-3")
{
    run_on_few(in_names_need_a_nursery_that_goes_on, NULL);
}

static int try_without_capability(void *arg)
{
    struct kin_addr found = marked;
    (void)arg;
    EXPECT_EQ(kin_register("b", kin_self_addr(), 0), KIN_NOCAP);
    EXPECT_EQ(kin_unregister("a"), KIN_NOCAP);
    EXPECT_EQ(kin_whereis("b", &found), KIN_NOPROC);
    EXPECT_EQ(kin_whereis("a", &found), 0);
    return 0;
}

static int in_names_need_their_capability(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    HOUSE(n);
    (void)arg;
    EXPECT_EQ(kin_register("a", kin_self_addr(), 0), 0);
    options.caps = KIN_CAP_SPAWN | KIN_CAP_TIME;
    EXPECT_EQ(kin_spawn_with(&n, &options, try_without_capability, NULL, 0, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_unregister("a"), 0);
    return 0;
}

KIN_TEST(names_need_their_capability, "SCHED:10.2.3")
{
    run_on_few(in_names_need_their_capability, NULL);
}

/* ---- supervisors ---- */

static int in_misuse_of_supervisors_is_answered(void *arg)
{
    struct crew crew;
    struct kin_addr out = marked;
    struct kin_child_info buf[1];
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    EXPECT_EQ(kin_supervisor_start(NULL, NULL, NULL, 0, &out), -EINVAL);
    EXPECT_EQ(kin_supervisor_start(&n, NULL, NULL, 0, NULL), -EINVAL);
    EXPECT_EQ(kin_supervisor_start(&n, NULL, NULL, 1, &out), -EINVAL);
    struct kin_addr sup = start_sup(&n, NULL, crew.spec, 1);
    EXPECT_EQ(kin_supervisor_start_child(sup, NULL, &out, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_supervisor_terminate_child(sup, NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_supervisor_terminate_addr(sup, (struct kin_addr){0, 0}, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_restart_child(sup, NULL, &out, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_supervisor_delete_child(sup, NULL, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_supervisor_which_children(sup, NULL, 1, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_supervisor_which_children(sup, buf, 0, KIN_NEVER), 1);
    EXPECT_EQ(kin_supervisor_count_children(sup, NULL, KIN_NEVER), -EINVAL);
    EXPECT(kin_addr_same(out, marked));
    /* A call and a cast of somebody who takes it for a common server. */
    EXPECT_EQ(kin_call(sup, "x", 1, NULL, 0, NULL, KIN_NEVER), -ENOSYS);
    EXPECT_EQ(kin_cast(sup, "x", 1, KIN_NEVER), 0);
    EXPECT_COUNTS(sup, 1, 1, 0, 0);
    close_desk(sup);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(misuse_of_supervisors_is_answered, "SUP-CHILD-FAILED")
{
    run_on_few(in_misuse_of_supervisors_is_answered, NULL);
}

static int wait_in_start(struct desk *desk)
{
    struct gate *gate = desk->plan.p;
    kin_event_set(&gate->reached);
    return kin_event_wait(&gate->open, KIN_NEVER);
}

/* A start whose caller leaves goes on, and the supervisor answers meanwhile. */
static int in_a_start_of_a_child_whose_caller_leaves_goes_on(void *arg)
{
    struct crew crew;
    struct gate gate;
    struct kin_addr out = marked;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    memset(&gate, 0, sizeof gate);
    struct kin_addr sup = start_sup(&n, NULL, crew.spec, 1);
    crew.plan[1].on_start = wait_in_start;
    crew.plan[1].p = &gate;
    int64_t patience = KIN_MS(1);
    do { /* ends: there is more time in each round, and the call is taken up within it */
        patience *= 2;
        EXPECT_EQ(kin_supervisor_start_child(sup, &crew.spec[1], &out, kin_after(patience)),
                  KIN_TIMEOUT);
    } while (!child_of(sup, "b").name);
    EXPECT(kin_addr_same(out, marked));
    EXPECT_EQ(kin_event_wait(&gate.reached, KIN_NEVER), 0);
    EXPECT_EQ(counts_of(sup).active, 1);
    kin_event_set(&gate.open);
    while (counts_of(sup).active < 2) /* ends: the start goes on */
        linger();
    EXPECT_EQ(ask(addr_of(sup, "b"), do_add, 1, NULL), 1);
    close_desk(sup);
    EXPECT_DIARY(&crew.diary, "+a +b -b -a");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_start_of_a_child_whose_caller_leaves_goes_on, "D8")
{
    run_on_few(in_a_start_of_a_child_whose_caller_leaves_goes_on, NULL);
}

/* A supervisor has a name as a server does, and a start under a taken one is told whose it is. */
static int in_supervisors_have_names(void *arg)
{
    struct crew crew;
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    struct kin_addr second = marked, found;
    HOUSE(n);
    (void)arg;
    make_crew(&crew, KIN_PERMANENT);
    options.name = "boss";
    struct kin_addr sup = start_sup(&n, &options, NULL, 0);
    EXPECT_EQ(kin_whereis("boss", &found), 0);
    EXPECT(kin_addr_same(found, sup));
    EXPECT_EQ(kin_supervisor_start(&n, &options, crew.spec, 1, &second), KIN_TAKEN);
    EXPECT(kin_addr_same(second, sup));
    EXPECT_DIARY(&crew.diary, "");
    close_desk(sup);
    EXPECT_EQ(kin_whereis("boss", &found), KIN_NOPROC);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(supervisors_have_names, "REG-COLLISION")
{
    run_on_few(in_supervisors_have_names, NULL);
}

struct noted {
    struct diary *diary;
    char text[16];
};

static int note_arg(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    const struct noted *noted = arg;
    jot(noted->diary, "%s", noted->text);
    return try_open_desk(n, NULL, NULL, out);
}

/* The argument and the names of a spec are the supervisor's own copies. */
static int in_a_spec_is_copied(void *arg)
{
    struct diary diary;
    struct noted noted = {&diary, "first"};
    char name[8] = "child";
    struct kin_child_spec spec;
    HOUSE(n);
    (void)arg;
    clear_diary(&diary);
    memset(&spec, 0, sizeof spec);
    spec.name = name;
    spec.start = note_arg;
    spec.arg = &noted;
    spec.arg_size = sizeof noted;
    spec.restart = KIN_PERMANENT;
    struct kin_addr sup = start_sup(&n, NULL, &spec, 1);
    snprintf(noted.text, sizeof noted.text, "second");
    snprintf(name, sizeof name, "other");
    memset(&spec, 0x55, sizeof spec);
    struct kin_addr old = addr_of(sup, "child");
    crash_child(old, -EIO);
    await_new(sup, "child", old);
    EXPECT_DIARY(&diary, "first first");
    close_desk(sup);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_spec_is_copied, "SUP-RESTART-CHILD")
{
    run_on_few(in_a_spec_is_copied, NULL);
}
