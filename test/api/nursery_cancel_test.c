/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a nursery makes of its children's ends, and how a cancel reaches everybody below it.
 * Method: small programs through the public headers on 1, 2 and 4 workers, every answer compared.
 */
#include "api/in_runtime.h"

#include <pthread.h>

/* ---- results ---- */

enum { OK = 7, ERROR = -EIO, OTHER = -EPIPE };

/* One child of a script: waits for its turn, then ends in its way. */
struct actor {
    _Atomic int *turn, *started;
    int when;
    char how; /* s success, e error, o another error, c KIN_CANCELLED, f kin_fail, p panic */
};

static int act(void *arg)
{
    struct actor *actor = arg;

    atomic_fetch_add(actor->started, 1);
    while (atomic_load(actor->turn) < actor->when)
        kin_ignore(kin_yield());
    switch (actor->how) {
    case 'e':
        return ERROR;
    case 'o':
        return OTHER;
    case 'c':
        return KIN_CANCELLED;
    case 'f':
        kin_fail(ERROR, "as the script says");
    case 'p':
        kin_panic("as the script says");
    default:
        return OK;
    }
}

/* Waits until no more than this many tasks live. */
static void await_live(uint64_t live)
{
    struct kin_stats stats;

    do {
        kin_ignore(kin_yield());
        EXPECT_EQ(kin_stats_get(&stats), 0);
    } while (stats.tasks_live > live);
}

/* Plays a script: letters are children in order of their end, '!' is a cancel. Each step is over
 * before the next one begins; a child that sleeps ends with the first cancel, whoever caused it. */
static int play(const char *script, enum kin_on_error on_error, struct kin_outcome *out,
                size_t *errors)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    struct kin_stats stats;
    struct actor actors[8];
    _Atomic int turn = 0, started = 0;
    bool is_cancelled = false;
    int count = 0;

    options.on_error = on_error;
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    for (const char *c = script; *c; c++) {
        if (*c == '!')
            continue;
        actors[count] = (struct actor){&turn, &started, count + 1, *c};
        EXPECT_EQ(kin_spawn(&n, act, &actors[count]), 0);
        count++;
    }
    EXPECT_EQ(kin_spawn(&n, sleep_for_ever, &started), 0);
    await(&started, count + 1);
    uint64_t live = stats.tasks_live + (uint64_t)count + 1;
    for (const char *c = script; *c; c++) {
        bool cancels = *c == '!' || (on_error == KIN_FAIL_FAST && *c != 's');
        if (*c == '!')
            kin_nursery_cancel(&n, KIN_TIMEOUT);
        else
            atomic_fetch_add(&turn, 1);
        live -= *c != '!';
        live -= cancels && !is_cancelled;
        is_cancelled |= cancels;
        await_live(live);
    }
    kin_nursery_cancel(&n, 0); /* lets the idle one go */
    int rc = kin_nursery_join(&n, out);
    *errors = kin_nursery_errors(&n, NULL, 0);
    await_live(stats.tasks_live);
    return rc;
}

static void expect_play(const char *script, enum kin_on_error on_error, int rc,
                        enum kin_severity severity, size_t errors)
{
    struct kin_outcome how;
    size_t kept;

    printf("script %s, %s\n", script, on_error == KIN_COLLECT ? "collect" : "fail fast");
    fflush(stdout);
    EXPECT_EQ(play(script, on_error, &how, &kept), rc);
    EXPECT_EQ(how.severity, severity);
    EXPECT_EQ(how.status, rc);
    EXPECT_EQ(kept, errors);
    EXPECT_EQ(how.task != 0, severity != KIN_SEV_CANCELLED);
    EXPECT(!kin_cancelled());
}

static int play_all(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        enum kin_on_error way = i ? KIN_COLLECT : KIN_FAIL_FAST;
        expect_play("e!", way, ERROR, KIN_SEV_ERROR, 1);
        expect_play("!e", way, ERROR, KIN_SEV_ERROR, 1);
        expect_play("!s", way, KIN_TIMEOUT, KIN_SEV_CANCELLED, 0);
        expect_play("s!", way, KIN_TIMEOUT, KIN_SEV_CANCELLED, 0);
        expect_play("!c", way, KIN_TIMEOUT, KIN_SEV_CANCELLED, 0);
        expect_play("p!", way, KIN_PANICKED, KIN_SEV_PANIC, 1);
        expect_play("!p", way, KIN_PANICKED, KIN_SEV_PANIC, 1);
        expect_play("ep!", way, KIN_PANICKED, KIN_SEV_PANIC, 2);
        expect_play("pe!", way, KIN_PANICKED, KIN_SEV_PANIC, 2);
        expect_play("!ep", way, KIN_PANICKED, KIN_SEV_PANIC, 2);
        expect_play("e!p", way, KIN_PANICKED, KIN_SEV_PANIC, 2);
        expect_play("eo!", way, ERROR, KIN_SEV_ERROR, 2);
        expect_play("oe!", way, OTHER, KIN_SEV_ERROR, 2);
        expect_play("!oe", way, OTHER, KIN_SEV_ERROR, 2);
        expect_play("f!", way, ERROR, KIN_SEV_ERROR, 1);
        expect_play("of", way, OTHER, KIN_SEV_ERROR, 2);
        expect_play("e", way, ERROR, KIN_SEV_ERROR, 1);
        expect_play("p", way, KIN_PANICKED, KIN_SEV_PANIC, 1);
        expect_play("c!", way, KIN_CANCELLED, KIN_SEV_ERROR, 1);
    }
    return 0;
}

KIN_TEST(an_error_beats_a_cancellation_and_a_panic_beats_both_in_every_order,
         "NSM:4.4 B4 B5 NSM:8.1 NSM-5")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_reporting(workers, play_all, NULL, NULL), 0);
}

static int succeed_late(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    return 42;
}

static int keep_late_values(void *arg)
{
    _Atomic int started = 0;
    struct kin_outcome how;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, succeed_late, &started), 0);
    await(&started, 1);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), KIN_CANCELLED);
    EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
    EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), 0);
    return 0;
}

KIN_TEST(a_success_after_a_cancel_is_no_failure, "B5 NSM:4.4")
{
    run_on_few(keep_late_values, NULL);
}

static int return_cancelled_unasked(void *arg)
{
    struct kin_outcome how, error;
    int status = KIN_CANCELLED;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, return_it, &status), 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), KIN_CANCELLED);
    EXPECT_EQ(how.severity, KIN_SEV_ERROR);
    EXPECT_EQ(kin_nursery_errors(&n, &error, 1), 1);
    EXPECT_EQ(error.severity, KIN_SEV_ERROR);
    EXPECT_EQ(error.status, KIN_CANCELLED);
    return 0;
}

KIN_TEST(cancelled_without_having_been_asked_is_an_error, "B5")
{
    run_on_few(return_cancelled_unasked, NULL);
}

struct errors {
    _Atomic int turn;
    struct {
        struct errors *all;
        int when;
    } child[100];
};

static int fail_in_turn(void *arg)
{
    struct {
        struct errors *all;
        int when;
    } *me = arg;

    while (atomic_load(&me->all->turn) != me->when)
        kin_ignore(kin_yield());
    atomic_store(&me->all->turn, me->when + 1);
    return -1000 - me->when;
}

/* Opens by the macro, because what errors_max above 16 needs is given back by its net. */
static void collect(int children, unsigned errors_max)
{
    static struct errors all;
    struct kin_outcome buf[100];
    const size_t limit = errors_max ? errors_max : 16;
    const size_t kept = (size_t)children < limit ? (size_t)children : limit;
    KIN_NURSERY(n, .on_error = KIN_COLLECT, .errors_max = errors_max);

    memset(&all, 0, sizeof all);
    for (int i = 0; i < children; i++) {
        all.child[i].all = &all;
        all.child[i].when = i;
        EXPECT_EQ(kin_spawn(&n, fail_in_turn, &all.child[i]), 0);
    }
    EXPECT_LE(kin_nursery_join(&n, NULL), -1000);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSED);
    EXPECT_EQ(kin_nursery_errors(&n, buf, 100), kept);
    EXPECT_EQ(kin_nursery_errors_dropped(&n), (size_t)children - kept);
    /* The order is that of the ends, which follow the turns but for neighbours. */
    unsigned seen[100] = {0};
    for (size_t i = 0; i < kept; i++) {
        EXPECT_EQ(buf[i].severity, KIN_SEV_ERROR);
        EXPECT_NE(buf[i].task, 0);
        EXPECT_LE(buf[i].status, -1000);
        EXPECT_GT(buf[i].status, -1000 - children);
        EXPECT_EQ(seen[-1000 - buf[i].status]++, 0);
    }
    struct kin_outcome few[2] = {{KIN_SEV_OK, 0, 0, 0, ""}, {KIN_SEV_OK, 1, 0, 0, ""}};
    EXPECT_EQ(kin_nursery_errors(&n, few, 1), kept);
    EXPECT_EQ(few[0].status, buf[0].status);
    EXPECT_EQ(few[1].status, 1);
}

static int collect_errors(void *arg)
{
    (void)arg;
    collect(5, 0);
    collect(16, 0);
    collect(17, 0);
    collect(100, 0);
    collect(100, 3);
    collect(30, 17);
    collect(100, 99);
    collect(100, 1000);
    collect(3, 1000);
    return 0;
}

KIN_TEST(failures_are_kept_up_to_a_bound_and_the_rest_is_counted, "NSM:8.2 B3 NSM-5")
{
    run_on_few(collect_errors, NULL);
}

static int return_in_turn(void *arg)
{
    return *(int *)arg;
}

static int keep_in_order(void *arg)
{
    int status[10];
    struct kin_outcome buf[10];
    KIN_NURSERY(n, .on_error = KIN_COLLECT);

    (void)arg;
    for (int i = 0; i < 10; i++) {
        struct kin_stats before, after;
        status[i] = -100 - i;
        EXPECT_EQ(kin_stats_get(&before), 0);
        EXPECT_EQ(kin_spawn(&n, return_in_turn, &status[i]), 0);
        do {
            kin_ignore(kin_yield());
            EXPECT_EQ(kin_stats_get(&after), 0);
        } while (after.tasks_live > before.tasks_live);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), -100);
    EXPECT_EQ(kin_nursery_errors(&n, buf, 10), 10);
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(buf[i].status, -100 - i);
    return 0;
}

KIN_TEST(failures_are_kept_in_order_of_time, "B3 NSM-5")
{
    run_on_few(keep_in_order, NULL);
}

static int keep_many_by_hand(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    int status = -EIO;

    (void)arg;
    options.errors_max = 100;
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(kin_nursery_open(&n, &options), 0);
        EXPECT_EQ(kin_spawn(&n, return_it, &status), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
        EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), 1);
    }
    return 0;
}

KIN_TEST(a_nursery_opened_by_hand_leaks_nothing_with_many_errors, "B3")
{
    /* The leak sanitizer is what fails here. */
    run_on_few(keep_many_by_hand, NULL);
}

/* ---- fail fast ---- */

struct siblings {
    _Atomic int started, cancelled, reason;
    _Atomic int go;
};

static int be_sibling(void *arg)
{
    struct siblings *s = arg;

    atomic_fetch_add(&s->started, 1);
    int rc = kin_sleep(KIN_NEVER);
    EXPECT_EQ(rc, KIN_CANCELLED);
    EXPECT(kin_cancelled());
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED); /* for good */
    EXPECT_EQ(kin_yield(), KIN_CANCELLED);
    EXPECT_EQ(kin_checkpoint(), KIN_CANCELLED);
    atomic_store(&s->reason, kin_cancel_reason());
    atomic_fetch_add(&s->cancelled, 1);
    return rc;
}

static int fail_when_told(void *arg)
{
    struct siblings *s = arg;

    await(&s->started, 5);
    return -EPIPE;
}

static int fail_fast(void *arg)
{
    struct siblings s = {0};
    struct kin_outcome how;
    struct kin_task_ref ref;
    KIN_NURSERY(n);

    (void)arg;
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin_spawn(&n, be_sibling, &s), 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, fail_when_told, &s, 0, &ref), 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), -EPIPE);
    EXPECT_EQ(how.severity, KIN_SEV_ERROR);
    EXPECT_EQ(how.task, ref.id);
    EXPECT_EQ(atomic_load(&s.cancelled), 5);
    EXPECT_EQ(atomic_load(&s.reason), -EPIPE);
    EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), 1);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CANCELLED);
    return 0;
}

KIN_TEST(the_first_failure_cancels_the_siblings, "NCG-2 NSM:4.1 B3 B4")
{
    run_on_few(fail_fast, NULL);
}

static int go_on(void *arg)
{
    struct siblings *s = arg;

    await(&s->go, 1);
    EXPECT(!kin_cancelled());
    EXPECT_EQ(kin_yield(), 0);
    atomic_fetch_add(&s->started, 1);
    return 0;
}

static int fail_and_tell(void *arg)
{
    struct siblings *s = arg;

    atomic_store(&s->go, 1);
    kin_fail(-EPIPE, "the others go on");
}

static int collect_all(void *arg)
{
    struct siblings s = {0};
    KIN_NURSERY(n, .on_error = KIN_COLLECT);

    (void)arg;
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin_spawn(&n, go_on, &s), 0);
    EXPECT_EQ(kin_spawn(&n, fail_and_tell, &s), 0);
    EXPECT(!kin_cancelled());
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    EXPECT_EQ(atomic_load(&s.started), 5);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSED);
    return 0;
}

KIN_TEST(with_collect_the_siblings_go_on, "B3")
{
    run_on_few(collect_all, NULL);
}

/* ---- cancelling ---- */

static int stay_with_the_first_reason(void *arg)
{
    struct siblings s = {0};
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, be_sibling, &s), 0);
    await(&s.started, 1);
    kin_nursery_cancel(&n, -EPIPE);
    kin_nursery_cancel(&n, -EIO);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_cancel_reason(), -EPIPE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    EXPECT_EQ(atomic_load(&s.reason), -EPIPE);
    EXPECT_EQ(kin_cancel_reason(), 0);
    return 0;
}

KIN_TEST(a_cancel_is_idempotent_and_the_first_reason_stays, "NSM:4.2 B12")
{
    run_on_few(stay_with_the_first_reason, NULL);
}

static int never_run(void *arg)
{
    (void)arg;
    kin_test_fail(__FILE__, __LINE__, "the body never runs", "");
}

static int cancel_before_the_first_run(void *arg)
{
    struct kin_outcome how;
    char big[1000] = {0};
    KIN_NURSERY(n);

    (void)arg;
    for (int i = 0; i < 1000; i++) {
        EXPECT_EQ(kin_spawn(&n, never_run, NULL), 0);
        EXPECT_EQ(kin_spawn_copy(&n, never_run, big, sizeof big), 0);
    }
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), KIN_CANCELLED);
    EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
    EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), 0);
    return 0;
}

KIN_TEST(a_child_that_is_cancelled_before_its_first_run_never_runs, "B6 NSM:4.2")
{
    EXPECT_EQ(run_reporting(1, cancel_before_the_first_run, NULL, NULL), 0); /* nobody steals */
}

/* Two by two leaves below two inner nurseries. */
struct tree {
    _Atomic int leaves, gone, inner_rc;
};

static int be_leaf(void *arg)
{
    struct tree *tree = arg;

    atomic_fetch_add(&tree->leaves, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin_cancel_reason(), -EIO);
    atomic_fetch_add(&tree->gone, 1);
    return KIN_CANCELLED;
}

static int be_branch(void *arg)
{
    struct tree *tree = arg;
    KIN_NURSERY(inner);

    EXPECT_EQ(kin_spawn(&inner, be_leaf, tree), 0);
    EXPECT_EQ(kin_spawn(&inner, be_leaf, tree), 0);
    atomic_store(&tree->inner_rc, kin_nursery_join(&inner, NULL));
    EXPECT_EQ(atomic_load(&tree->inner_rc), KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_state(&inner), KIN_NURSERY_CANCELLED);
    EXPECT(kin_cancelled()); /* the branch itself was asked as well */
    return KIN_CANCELLED;
}

static int cancel_a_tree(void *arg)
{
    struct tree tree = {0};
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, be_branch, &tree), 0);
    EXPECT_EQ(kin_spawn(&n, be_branch, &tree), 0);
    await(&tree.leaves, 4);
    kin_nursery_cancel(&n, -EIO);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    EXPECT_EQ(atomic_load(&tree.gone), 4);
    return 0;
}

KIN_TEST(a_cancel_reaches_two_by_two_leaves, "NSM-3 NSM:6.2 SCHED:8.3.1")
{
    run_on_few(cancel_a_tree, NULL);
}

/* A tower: each task opens a nursery with one child, the last one sleeps. */
struct tower {
    _Atomic int depth, gone;
    int height;
};

static int be_floor(void *arg)
{
    struct tower *tower = arg;

    if (atomic_fetch_add(&tower->depth, 1) + 1 < tower->height) {
        KIN_NURSERY(inner);
        EXPECT_EQ(kin_spawn(&inner, be_floor, tower), 0);
        EXPECT_EQ(kin_nursery_join(&inner, NULL), KIN_CANCELLED); /* from outside */
    } else {
        EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    }
    EXPECT_EQ(kin_cancel_reason(), -EIO);
    atomic_fetch_add(&tower->gone, 1);
    return KIN_CANCELLED;
}

static int cancel_a_tower(void *arg)
{
    struct tower tower = {0};
    KIN_NURSERY(n);

    tower.height = *(int *)arg;
    EXPECT_EQ(kin_spawn(&n, be_floor, &tower), 0);
    await(&tower.depth, tower.height);
    kin_nursery_cancel(&n, -EIO);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    EXPECT_EQ(atomic_load(&tower.gone), tower.height);
    return 0;
}

KIN_TEST(a_cancel_reaches_the_end_of_ten_and_of_a_thousand_nested_nurseries, "NSM-3 NSM:6.2")
{
    int ten = 10, thousand = enough(1000, 40);

    run_on_few(cancel_a_tower, &ten);
    run_on_few(cancel_a_tower, &thousand);
}

/* Nurseries of one task, one inside the other. */
static int nest_in_one_task(void *arg)
{
    struct kin_nursery n[50];
    _Atomic int started = 0;
    int zero = 0;

    (void)arg;
    for (int i = 0; i < 50; i++) {
        EXPECT_EQ(kin_nursery_open(&n[i], NULL), 0);
        EXPECT_EQ(kin_spawn(&n[i], sleep_for_ever, &started), 0);
    }
    await(&started, 50);
    kin_nursery_cancel(&n[20], -EIO); /* and those opened after it */
    EXPECT(kin_cancelled());
    EXPECT_EQ(kin_cancel_reason(), -EIO);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    for (int i = 49; i >= 20; i--) {
        EXPECT(kin_cancelled());
        EXPECT_EQ(kin_spawn(&n[i], return_it, &zero), KIN_NOSCOPE);
        EXPECT_EQ(kin_nursery_join(&n[i], NULL), i == 20 ? -EIO : KIN_CANCELLED);
    }
    EXPECT(!kin_cancelled());
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_nursery_state(&n[19]), KIN_NURSERY_OPEN);
    EXPECT_EQ(kin_spawn(&n[19], return_it, &zero), 0);
    for (int i = 19; i >= 0; i--) {
        kin_nursery_cancel(&n[i], 0);
        EXPECT(kin_cancelled());
        EXPECT_EQ(kin_nursery_join(&n[i], NULL), KIN_CANCELLED);
        EXPECT(!kin_cancelled());
        EXPECT_EQ(kin_sleep(0), 0);
        EXPECT_EQ(kin_checkpoint(), 0);
    }
    return 0;
}

KIN_TEST(nurseries_opened_after_a_cancelled_one_go_with_it_and_those_before_stay, "B11 NSM:6.2")
{
    run_on_few(nest_in_one_task, NULL);
}

static int be_born_cancelled(void *arg)
{
    struct kin_nursery inner;

    (void)arg;
    KIN_NURSERY(outer);
    kin_nursery_cancel(&outer, -EIO);
    EXPECT_EQ(kin_nursery_open(&inner, NULL), 0);
    EXPECT_GE(kin_nursery_state(&inner), KIN_NURSERY_CANCELLING);
    EXPECT_EQ(kin_spawn(&inner, never_run, NULL), KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), KIN_CANCELLED); /* from outside */
    EXPECT_EQ(kin_nursery_state(&inner), KIN_NURSERY_CANCELLED);
    EXPECT(kin_cancelled()); /* the outer one is not joined yet */
    EXPECT_EQ(kin_nursery_join(&outer, NULL), -EIO);
    EXPECT(!kin_cancelled());
    EXPECT_EQ(kin_nursery_open(&inner, NULL), 0);
    EXPECT_EQ(kin_nursery_state(&inner), KIN_NURSERY_OPEN);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    return 0;
}

KIN_TEST(a_nursery_opened_inside_a_cancelled_one_is_born_cancelled, "B11 B12 NSM:6.2")
{
    run_on_few(be_born_cancelled, NULL);
}

static int open_when_cancelled(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    KIN_NURSERY(inner);
    EXPECT_GE(kin_nursery_state(&inner), KIN_NURSERY_CANCELLING);
    EXPECT_EQ(kin_spawn(&inner, never_run, NULL), KIN_NOSCOPE);
    EXPECT_EQ(kin_cancel_reason(), -EIO);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), KIN_CANCELLED); /* from outside */
    EXPECT(kin_cancelled()); /* for good */
    return KIN_CANCELLED;
}

static int open_in_a_cancelled_child(void *arg)
{
    _Atomic int started = 0;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, open_when_cancelled, &started), 0);
    await(&started, 1);
    kin_nursery_cancel(&n, -EIO);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), 0);
    return 0;
}

KIN_TEST(a_nursery_of_a_cancelled_task_is_born_cancelled, "B12 NSM:6.2")
{
    run_on_few(open_in_a_cancelled_child, NULL);
}

static int fail_later(void *arg)
{
    await(arg, 1);
    return -EIO;
}

static int be_woken_elsewhere(void *arg)
{
    _Atomic int go = 0;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, fail_later, &go), 0);
    EXPECT_EQ(kin_yield(), 0);
    atomic_store(&go, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED); /* the failing child wakes its parent */
    EXPECT_EQ(kin_cancel_reason(), -EIO);
    EXPECT_EQ(kin_yield(), KIN_CANCELLED);
    EXPECT_EQ(kin_checkpoint(), KIN_CANCELLED);
    EXPECT(kin_cancelled());
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    EXPECT(!kin_cancelled());
    EXPECT_EQ(kin_cancel_reason(), 0);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_checkpoint(), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(10))), 0);
    return 0;
}

KIN_TEST(a_failing_child_wakes_its_parent_that_waits_elsewhere_until_the_join, "NSM:4.1 B12")
{
    run_on_few(be_woken_elsewhere, NULL);
}

static int cancel_many(void *arg)
{
    enum { MANY = 100000 };
    static _Atomic int started;
    const int scale = (int)kin_test_scale();
    const int many = enough(MANY / (scale > 5 ? 20 : scale), 100);
    KIN_NURSERY(n);

    (void)arg;
    atomic_store(&started, 0);
    for (int i = 0; i < many; i++)
        EXPECT_EQ(kin_spawn(&n, i % 4 ? count_it : sleep_for_ever, &started), 0);
    await(&started, many);
    kin_nursery_cancel(&n, -EIO);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    EXPECT_EQ(atomic_load(&started), many);
    return 0;
}

KIN_TEST_LIMIT(a_hundred_thousand_children_are_cancelled, "NSM-3 NSM:4.2 NCG-1", 120)
{
    EXPECT_EQ(run_reporting(1, cancel_many, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, cancel_many, NULL, NULL), 0);
}

static void *cancel_by_thread(void *arg)
{
    kin_nursery_cancel(arg, -EPIPE);
    return NULL;
}

static int be_cancelled_by_a_thread(void *arg)
{
    struct siblings s = {0};
    pthread_t thread;
    KIN_NURSERY(n);

    (void)arg;
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_spawn(&n, be_sibling, &s), 0);
    await(&s.started, 3);
    EXPECT_EQ(pthread_create(&thread, NULL, cancel_by_thread, &n), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    EXPECT_EQ(atomic_load(&s.cancelled), 3);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    return 0;
}

KIN_TEST(a_thread_of_the_process_cancels_a_nursery, "NSM:4.1 NSM:4.2")
{
    run_on_few(be_cancelled_by_a_thread, NULL);
}

/* ---- one cause ---- */

struct causes {
    struct kin_nursery *n;
    _Atomic int ready, go;
    _Atomic int seen[4];
};

struct cause {
    struct causes *all;
    int index;
};

static int cancel_with_own_reason(void *arg)
{
    struct cause *me = arg;

    atomic_fetch_add(&me->all->ready, 1);
    while (!atomic_load(&me->all->go))
        kin_ignore(kin_yield());
    kin_nursery_cancel(me->all->n, -100 - me->index);
    EXPECT(kin_cancelled() || kin_yield() == KIN_CANCELLED);
    atomic_store(&me->all->seen[me->index], kin_cancel_reason());
    return 0;
}

static int agree_on_one_cause(void *arg)
{
    (void)arg;
    for (int round = 0; round < 100; round++) {
        struct causes all = {0};
        struct cause causes[4];
        KIN_NURSERY(n);
        all.n = &n;
        for (int i = 0; i < 4; i++) {
            causes[i] = (struct cause){&all, i};
            EXPECT_EQ(kin_spawn(&n, cancel_with_own_reason, &causes[i]), 0);
        }
        await(&all.ready, 4);
        atomic_store(&all.go, 1);
        int rc = kin_nursery_join(&n, NULL);
        EXPECT(rc <= -100 && rc > -104);
        for (int i = 0; i < 4; i++)
            EXPECT_EQ(atomic_load(&all.seen[i]), rc);
    }
    return 0;
}

KIN_TEST(of_several_causes_at_once_one_is_seen_by_all, "NSM:4.2 B12")
{
    run_on_few(agree_on_one_cause, NULL);
}

static int fail_in_both(void *arg)
{
    int status = -EPIPE;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, return_it, &status), 0);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    kin_fail(-EIO, "so does the parent"); /* its own end counts, not its child's */
}

static int fail_in_parent_and_child(void *arg)
{
    struct kin_outcome how;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, fail_in_both, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), -EIO);
    EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), 1);
    return 0;
}

KIN_TEST(a_parent_that_fails_after_its_child_ends_with_its_own_failure, "NSM:6.1 NSM:8.1")
{
    run_on_few(fail_in_parent_and_child, NULL);
}

static int end_before_its_canceller(void *arg)
{
    _Atomic int ran = 0;
    struct kin_stats before, after;
    (void)arg;
    EXPECT_EQ(kin_stats_get(&before), 0);
    for (int i = 0; i < 200; i++) {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, count_it, &ran), 0);
        EXPECT_EQ(kin_spawn(&n, count_it, &ran), 0);
        await(&ran, 2 * i + 2);
        kin_nursery_cancel(&n, 0); /* of finished ones */
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    }
    do { /* the live count returns to its base */
        EXPECT_EQ(kin_stats_get(&after), 0);
    } while (after.tasks_live != before.tasks_live);
    EXPECT_LE(after.stacks, before.stacks + 64); /* stacks are used again */
    return 0;
}

KIN_TEST(cancelling_what_is_over_already_is_only_a_cancelled_nursery, "B10 NSM:4.4")
{
    run_on_few(end_before_its_canceller, NULL);
}
