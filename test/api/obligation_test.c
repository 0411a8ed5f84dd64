/* SPDX-License-Identifier: MIT */
/*
 * Goal: an obligation ends once, by whoever; one that is forgotten is counted, reported and fails
 * its task.
 * Method: small programs through the public headers; handles used again and again after their end.
 */
#include "api/in_runtime.h"

#include <kin/cleanup.h>
#include <kin/local.h>
#include <kin/obligation.h>

#include <pthread.h>

/* ---- refusals ---- */

KIN_TEST(outside_a_task_nothing_is_owed, "N1002")
{
    struct kin_obligation *o = NULL;

    EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_USER, &o), KIN_NOTASK);
    EXPECT_PTR(o, NULL);
    EXPECT_EQ(kin_obligation_commit(NULL), -EINVAL);
    EXPECT_EQ(kin_obligation_abort(NULL), -EINVAL);
    EXPECT_EQ(kin_leaks(), 0);
    for (uintptr_t name = 1; name < 1000000; name = name * 3 + 1) { /* names that nobody gave */
        EXPECT_EQ(kin_obligation_commit((struct kin_obligation *)name), KIN_STALE);
        EXPECT_EQ(kin_obligation_abort((struct kin_obligation *)(name << 26)), KIN_STALE);
    }
}

static int reserve_nonsense(void *arg)
{
    struct kin_obligation *o = NULL;
    (void)arg;
    EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_USER, NULL), -EINVAL);
    EXPECT_EQ(kin_obligation_reserve((enum kin_obligation_kind)5, &o), -EINVAL);
    EXPECT_EQ(kin_obligation_reserve((enum kin_obligation_kind)-1, &o), -EINVAL);
    EXPECT_PTR(o, NULL);
    EXPECT_EQ(kin_leaks(), 0);
    return 0;
}

KIN_TEST(nonsense_is_refused, "")
{
    EXPECT_EQ(run_reporting(1, reserve_nonsense, NULL, NULL), 0);
}

/* ---- ends ---- */

static int end_each_way(void *arg)
{
    struct kin_obligation *first = NULL, *second = NULL, *o = NULL;
    (void)arg;
    for (int kind = KIN_OBLIGATION_USER; kind <= KIN_OBLIGATION_IO; kind++) {
        EXPECT_EQ(kin_obligation_reserve((enum kin_obligation_kind)kind, &first), 0);
        EXPECT_EQ(kin_obligation_reserve((enum kin_obligation_kind)kind, &second), 0);
        EXPECT(first && second && first != second);
        EXPECT_EQ(kin_obligation_commit(first), 0);
        EXPECT_EQ(kin_obligation_abort(second), 0);
        for (int i = 0; i < 100; i++) { /* stale for good, whatever is made of the memory */
            EXPECT_EQ(kin_obligation_commit(first), KIN_STALE);
            EXPECT_EQ(kin_obligation_abort(second), KIN_STALE);
            EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_USER, &o), 0);
            EXPECT_EQ(kin_obligation_abort(first), KIN_STALE);
            EXPECT_EQ(kin_obligation_commit(second), KIN_STALE);
            EXPECT_EQ(i % 2 ? kin_obligation_commit(o) : kin_obligation_abort(o), 0);
        }
    }
    EXPECT_EQ(kin_leaks(), 0);
    return 4;
}

KIN_TEST(an_obligation_ends_once, "D1")
{
    EXPECT_EQ(run_reporting(1, end_each_way, NULL, NULL), 4);
    EXPECT_EQ(run_reporting(2, end_each_way, NULL, NULL), 4);
}

static int commit_it(void *arg)
{
    return kin_obligation_commit(arg);
}

static void *abort_it(void *arg)
{
    return (void *)(intptr_t)kin_obligation_abort(arg);
}

static int end_elsewhere(void *arg)
{
    struct kin_obligation *o = NULL;
    pthread_t thread;
    void *rc = NULL;
    (void)arg;
    for (int i = 0; i < 20; i++) {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_ACK, &o), 0);
        EXPECT_EQ(kin_spawn(&n, commit_it, o), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_ACK, &o), 0);
        EXPECT_EQ(pthread_create(&thread, NULL, abort_it, o), 0);
        EXPECT_EQ(pthread_join(thread, &rc), 0);
        EXPECT_EQ((intptr_t)rc, 0);
        EXPECT_EQ(kin_obligation_commit(o), KIN_STALE);
    }
    EXPECT_EQ(kin_leaks(), 0);
    return 0;
}

KIN_TEST(any_task_and_any_thread_may_end_one, "D1")
{
    run_on_few(end_elsewhere, NULL);
}

/* ---- leaks ---- */

struct leaker {
    int count, status;
    struct kin_obligation *o[20];
};

static int leak(void *arg)
{
    struct leaker *leaker = arg;

    for (int i = 0; i < leaker->count; i++)
        EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_SEND, &leaker->o[i]), 0);
    if (leaker->status == -EPERM)
        kin_fail(leaker->status, "with obligations");
    if (leaker->status == KIN_PANICKED)
        kin_panic("with obligations");
    return leaker->status;
}

static int join_a_leaker(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct leaker *leaker = arg;
    struct kin_outcome how;
    struct kin_task_ref ref;
    KIN_NURSERY(n);

    options.name = "leaker";
    EXPECT_EQ(kin_spawn_with(&n, &options, leak, leaker, 0, &ref), 0);
    int rc = kin_nursery_join(&n, &how);
    EXPECT_EQ(kin_leaks(), leaker->count); /* found by the time of the join */
    if (rc < 0)
        EXPECT_EQ(how.task, ref.id);
    for (int i = 0; i < leaker->count; i++)
        EXPECT_EQ(kin_obligation_commit(leaker->o[i]), KIN_STALE);
    return rc;
}

KIN_TEST(a_leak_fails_a_task_that_would_succeed_and_its_nursery, "D1")
{
    static const int statuses[][2] = {{0, KIN_LEAKED},    {3, KIN_LEAKED}, {-ENOENT, -ENOENT},
                                      {-EPERM, -EPERM}, {KIN_PANICKED, KIN_PANICKED}};

    for (unsigned workers = 1; workers <= 2; workers++)
        for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
            struct leaker leaker = {1 + (int)i, statuses[i][0], {NULL}};
            EXPECT_EQ(run_reporting(workers, join_a_leaker, &leaker, NULL), statuses[i][1]);
        }
    EXPECT_EQ(kin_leaks(), 0); /* the runtime is over */
}

KIN_TEST(a_leak_is_reported_with_the_leaker, "D1")
{
    struct reports reports = {0};
    struct leaker leaker = {1, 0, {NULL}};

    EXPECT_EQ(run_reporting(1, join_a_leaker, &leaker, &reports), KIN_LEAKED);
    EXPECT_EQ(atomic_load(&reports.count), 1);
    EXPECT_EQ(reports.status[0], KIN_LEAKED);
    EXPECT_NE(reports.task[0], 0);
    printf("%s\n", reports.text[0]);
    EXPECT(strstr(reports.text[0], "(leaker), spawned at join_a_leaker (obligation_test.c:"));
    EXPECT(strstr(reports.text[0], "of kind send"));
    EXPECT(strstr(reports.text[0], "(obligation_test.c:"));

    memset(&reports, 0, sizeof reports);
    leaker.count = 20;
    EXPECT_EQ(run_reporting(1, join_a_leaker, &leaker, &reports), KIN_LEAKED);
    EXPECT_EQ(atomic_load(&reports.count), 8); /* a few one by one, all counted */
    EXPECT(strstr(reports.text[0], "(1 of 20)"));
    EXPECT(strstr(reports.text[7], "(8 of 20)"));
}

static int hold_over_a_join(void *arg)
{
    struct kin_obligation *o = NULL;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_LEASE, &o), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_leaks(), 0);
    EXPECT_EQ(kin_obligation_commit(o), 0);
    return 0;
}

KIN_TEST(what_the_owner_of_a_nursery_owes_may_outlast_the_join, "D1")
{
    EXPECT_EQ(run_reporting(1, hold_over_a_join, NULL, NULL), 0);
}

/* ---- kept at the last moment ---- */

static void commit_late(void *arg)
{
    EXPECT_EQ(kin_obligation_commit(arg), 0);
}

static const struct kin_local_key promise_key = {commit_late, false};

static int keep_late(void *arg)
{
    struct kin_obligation *first = NULL, *second = NULL;
    int status = *(int *)arg;
    EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_IO, &first), 0);
    EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_IO, &second), 0);
    EXPECT_EQ(kin_defer(commit_late, first), 0);
    EXPECT_EQ(kin_local_set(&promise_key, second), 0);
    if (status < 0)
        kin_fail(status, "with promises that are kept late");
    return status;
}

KIN_TEST(cleanups_and_destroys_may_still_keep_promises, "D1 NCG-3")
{
    struct reports reports = {0};
    int value = 9, error = -EIO;

    EXPECT_EQ(run_reporting(1, keep_late, &value, &reports), 9);
    EXPECT_EQ(atomic_load(&reports.count), 0);
    EXPECT_EQ(run_reporting(1, keep_late, &error, &reports), -EIO);
    EXPECT_EQ(atomic_load(&reports.count), 1); /* what the first task said, and no leak */
    EXPECT_EQ(reports.status[0], -EIO);
}

static int never_begin(void *arg)
{
    struct leaker leaker = {3, 0, {NULL}};
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, leak, &leaker), 0);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_leaks(), 0);
    return 0;
}

KIN_TEST(a_task_that_never_began_owes_nothing, "NSM:4.2")
{
    EXPECT_EQ(run_reporting(1, never_begin, NULL, NULL), 0);
}

/* A report that leaks itself, at once or in a cleanup of its own, and then fails. */
static void leak_late(void *arg)
{
    struct kin_obligation *o;

    (void)arg;
    EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_USER, &o), 0);
}

static void leak_in_report(const struct kin_report *report, void *arg)
{
    int i = atomic_fetch_add((_Atomic int *)arg, 1);

    EXPECT_EQ(report->status, KIN_LEAKED);
    leak_late(NULL);
    EXPECT_EQ(kin_defer(leak_late, NULL), 0);
    if (i == 1)
        kin_fail(-EIO, "in a report");
}

static int leak_three(void *arg)
{
    struct leaker leaker = {3, *(int *)arg, {NULL}};
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, leak, &leaker), 0);
    int rc = kin_nursery_join(&n, NULL);
    EXPECT_EQ(kin_leaks(), 9); /* three, and two in each report of theirs */
    return rc;
}

KIN_TEST(reports_of_leaks_that_leak_come_to_an_end, "D1")
{
    struct kin_config config = KIN_CONFIG_INIT;
    _Atomic int count = 0;
    int ok = 0, error = -EIO;

    config.workers = 1;
    config.on_report = leak_in_report;
    config.report_arg = &count;
    EXPECT_EQ(kin_run(&config, leak_three, &ok), KIN_CLEANUP); /* a report has failed */
    EXPECT_EQ(atomic_load(&count), 3);
    EXPECT_EQ(kin_run(&config, leak_three, &error), -EIO);
    EXPECT_EQ(atomic_load(&count), 6);
}

/* ---- races ---- */

struct race {
    struct kin_obligation *o;
    _Atomic int won, lost;
};

static int race_to_end(void *arg)
{
    struct race *race = arg;
    int rc = kin_obligation_commit(race->o);

    if (rc == 0)
        atomic_fetch_add(&race->won, 1);
    else if (rc == KIN_STALE)
        atomic_fetch_add(&race->lost, 1);
    return 0;
}

static int races(void *arg)
{
    (void)arg;
    for (int i = 0; i < 300; i++) {
        struct race race = {NULL, 0, 0};
        KIN_NURSERY(n);
        EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_USER, &race.o), 0);
        for (int k = 0; k < 5; k++)
            EXPECT_EQ(kin_spawn(&n, race_to_end, &race), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(atomic_load(&race.won), 1);
        EXPECT_EQ(atomic_load(&race.lost), 4);
    }
    return 0;
}

KIN_TEST(of_many_that_end_one_exactly_one_wins, "D1")
{
    run_on_few(races, NULL);
}

/* The one who reserves may be over when the other commits: kept or leaked, never both. */
struct late {
    _Atomic(struct kin_obligation *) o;
    _Atomic int won;
};

static int reserve_and_go(void *arg)
{
    struct late *late = arg;
    struct kin_obligation *o;

    EXPECT_EQ(kin_obligation_reserve(KIN_OBLIGATION_USER, &o), 0);
    atomic_store(&late->o, o);
    return 0;
}

static int commit_late_or_never(void *arg)
{
    struct late *late = arg;
    struct kin_obligation *o;

    while (!(o = atomic_load(&late->o)))
        kin_ignore(kin_yield());
    int rc = kin_obligation_commit(o);
    EXPECT(rc == 0 || rc == KIN_STALE);
    atomic_fetch_add(&late->won, rc == 0);
    return 0;
}

static int late_races(void *arg)
{
    size_t leaks = 0;
    (void)arg;
    for (int i = 0; i < 300; i++) {
        struct late late = {NULL, 0};
        KIN_NURSERY(n, .on_error = KIN_COLLECT);
        EXPECT_EQ(kin_spawn(&n, reserve_and_go, &late), 0);
        EXPECT_EQ(kin_spawn(&n, commit_late_or_never, &late), 0);
        int rc = kin_nursery_join(&n, NULL);
        EXPECT_EQ(rc, atomic_load(&late.won) ? 0 : KIN_LEAKED);
        leaks += rc == KIN_LEAKED;
        EXPECT_EQ(kin_leaks(), leaks);
    }
    return 0;
}

KIN_TEST(one_that_is_kept_while_its_task_ends_is_kept_or_leaked, "D1")
{
    run_on_few(late_races, NULL);
}
