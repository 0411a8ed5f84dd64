/* SPDX-License-Identifier: MIT */
/*
 * Goal: the cleanup that a child is spawned with runs exactly once, as the oldest of the child's,
 * on every way out, also when the child never began. A refused spawn leaves it to the caller.
 * Method: children whose cleanup writes a letter or counts, ended in every way, begun or not, on 1,
 * 2 and 4 workers.
 */
#include "api/letters.h"

#include <kin/local.h>
#include <pthread.h>

static int spawn_owing(struct kin_nursery *n, kin_task_fn *fn, const void *arg, size_t arg_size,
                       void (*cleanup)(void *arg), struct kin_task_ref *out)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.cleanup = cleanup;
    return kin_spawn_with(n, &options, fn, arg, arg_size, out);
}

/* ---- children that began ---- */

enum end { BY_RETURN, BY_FAIL, BY_PANIC, BY_CANCEL };

struct way {
    enum end end;
    int status;
    _Atomic int has_begun;
};

static int end_it(void *arg)
{
    struct way *way = *(struct way **)arg;
    DEFER("b");
    DEFER("a");
    atomic_store(&way->has_begun, 1);
    if (way->end == BY_FAIL)
        kin_fail(way->status, "on purpose");
    if (way->end == BY_PANIC)
        kin_panic("on purpose");
    return way->end == BY_CANCEL ? kin_sleep(KIN_NEVER) : way->status;
}

/* The argument is the copy. */
static void write_stop(void *arg)
{
    EXPECT_EQ(atomic_load(&(*(struct way **)arg)->has_begun), 1);
    put_letter('.');
}

static int end_one(void *arg)
{
    struct way *way = arg;
    KIN_NURSERY(n);
    clear_text();
    atomic_store(&way->has_begun, 0);
    EXPECT_EQ(spawn_owing(&n, end_it, &way, sizeof way, write_stop, NULL), 0);
    if (way->end == BY_CANCEL) {
        await(&way->has_begun, 1);
        kin_nursery_cancel(&n, 0);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), way->status);
    EXPECT_STR(text, "ab.");
    return 0;
}

KIN_TEST(it_is_the_oldest_of_the_child_on_every_way_out, "NCG-3")
{
    struct way ways[] = {{BY_RETURN, 0, 0},
                         {BY_RETURN, -EIO, 0},
                         {BY_FAIL, -EPIPE, 0},
                         {BY_PANIC, KIN_PANICKED, 0},
                         {BY_CANCEL, KIN_CANCELLED, 0}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        run_on_few(end_one, &ways[i]);
}

/* ---- children that never began ---- */

enum { CHILDREN = 20 };

struct census {
    _Atomic int begun, cleaned;
};

struct child {
    struct census *census;
    int number;
};

static int sleep_counted(void *arg)
{
    atomic_fetch_add(&((struct child *)arg)->census->begun, 1);
    return kin_sleep(KIN_NEVER);
}

static void count_number(void *arg)
{
    struct child *child = arg;
    atomic_fetch_add(&child->census->cleaned, child->number);
}

/* Spawns children 1 to CHILDREN; what their cleanups count is known. */
static int spawn_all(struct kin_nursery *n, struct census *census, struct kin_task_ref *refs)
{
    int spawned = 0;
    for (int i = 0; i < CHILDREN; i++) {
        struct child child = {census, i + 1};
        int rc = spawn_owing(n, sleep_counted, &child, sizeof child, count_number,
                             refs ? &refs[i] : NULL);
        if (rc < 0)
            EXPECT_EQ(rc, KIN_NOSCOPE); /* the cancellation was faster: it is ours still */
        else
            spawned += child.number;
    }
    return spawned;
}

static int cancel_before_any(void *arg)
{
    struct census *census = arg;
    struct kin_task_ref refs[CHILDREN];
    int spawned = 0;
    {
        KIN_NURSERY(n);
        spawned += spawn_all(&n, census, NULL);
        kin_nursery_cancel(&n, 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
        EXPECT_EQ(atomic_load(&census->cleaned), spawned);
    }
    {
        KIN_NURSERY(n);
        spawned += spawn_all(&n, census, refs);
        for (int i = 0; i < CHILDREN; i++)
            EXPECT_EQ(kin_task_cancel(refs[i]), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(atomic_load(&census->cleaned), spawned);
    }
    {
        KIN_NURSERY(n);
        spawned += spawn_all(&n, census, NULL);
    } /* leaves, which cancels */
    EXPECT_EQ(atomic_load(&census->cleaned), spawned);
    EXPECT_EQ(spawned, 3 * CHILDREN * (CHILDREN + 1) / 2);
    return 0;
}

KIN_TEST(it_runs_for_a_child_that_never_began, "B6 D-90")
{
    struct census census = {0, 0};
    EXPECT_EQ(run_reporting(1, cancel_before_any, &census, NULL), 0);
    if (!kin_in_lab()) /* one worker, and no reason to leave the owner */
        EXPECT_EQ(atomic_load(&census.begun), 0);
}

static int fail_soon(void *arg)
{
    (void)arg;
    return -EIO;
}

/* The cancellation comes while some of the children have begun and others have not. */
static int cancel_in_the_middle(void *arg)
{
    struct census census = {0, 0};
    for (int round = 0; round < enough(30, 3); round++) {
        KIN_NURSERY(n, .deadline = round % 3 == 0 ? kin_after(KIN_US(50)) : 0);
        atomic_store(&census.cleaned, 0);
        int spawned = spawn_all(&n, &census, NULL);
        if (round % 3 == 1)
            kin_nursery_cancel(&n, 0);
        else if (round % 3 == 2)
            EXPECT_EQ(kin_spawn(&n, fail_soon, NULL), 0);
        EXPECT_LT(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(atomic_load(&census.cleaned), spawned);
    }
    (void)arg;
    return 0;
}

KIN_TEST(it_runs_once_whenever_the_cancellation_comes, "B6 D-90")
{
    run_on_few(cancel_in_the_middle, NULL);
}

/* ---- what it may do ---- */

static struct kin_local_key key = {NULL, true};

struct seen {
    uint64_t id;
    bool is_cancelled;
    void *local;
};

/* A task like any other, though it never had a body. */
static void look_about(void *arg)
{
    struct seen *seen = arg;
    int two = 2;
    seen->id = kin_task_id(kin_self());
    seen->is_cancelled = kin_cancelled();
    seen->local = kin_local_get(&key);
    EXPECT_EQ(kin_yield(), KIN_CANCELLED);
    DEFER("b");
    kin_mask();
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(50))), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, return_it, &two), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_unmask();
    put_letter('a');
}

static int never_run(void *arg)
{
    (void)arg;
    kin_test_fail(__FILE__, __LINE__, "the body never runs", "");
}

static int look_in_one(void *arg)
{
    struct seen seen = {0, false, NULL};
    struct kin_task_ref ref;
    int value = 1;
    KIN_NURSERY(n);
    (void)arg;
    clear_text();
    EXPECT_EQ(kin_local_set(&key, &value), 0);
    EXPECT_EQ(spawn_owing(&n, never_run, &seen, 0, look_about, &ref), 0);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(seen.id, kin_task_id(ref));
    EXPECT(seen.is_cancelled);
    EXPECT_PTR(seen.local, &value);
    EXPECT_STR(text, "ab");
    return 0;
}

KIN_TEST(it_runs_as_the_child_and_may_wait, "B6 D-90")
{
    EXPECT_EQ(run_reporting(1, look_in_one, NULL, NULL), 0);
}

struct failing {
    void (*cleanup)(void *arg);
    enum kin_severity severity;
    int report;
};

static int fail_in_one(void *arg)
{
    const struct failing *failing = arg;
    struct kin_task_ref ref;
    struct kin_outcome how;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    clear_text();
    EXPECT_EQ(spawn_owing(&n, never_run, LETTER("x"), 0, failing->cleanup, &ref), 0);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, failing->severity);
    kin_ignore(kin_nursery_join(&n, NULL));
    EXPECT_STR(text, "x");
    return 0;
}

KIN_TEST(it_may_fail_as_other_cleanups_may, "N3002")
{
    struct failing both[] = {{write_then_kin_fail, KIN_SEV_CANCELLED, KIN_CLEANUP},
                             {write_then_panic, KIN_SEV_PANIC, KIN_PANICKED}};
    for (int i = 0; i < 2; i++) {
        struct reports reports = {0};
        EXPECT_EQ(run_reporting(1, fail_in_one, &both[i], &reports), 0);
        EXPECT_EQ(atomic_load(&reports.count), 1);
        EXPECT_EQ(reports.status[0], both[i].report);
    }
}

/* ---- refusals ---- */

static int be_refused(void *arg)
{
    struct census census = {0, 0};
    struct child child = {&census, 1};
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n, .tasks_max = 1);
    (void)arg;
    options.cleanup = count_number;
    EXPECT_EQ(kin_spawn_with(&n, &options, NULL, &child, 0, NULL), -EINVAL);
    EXPECT_EQ(kin_spawn_with(&n, &options, never_run, &child, SIZE_MAX / 2, NULL), -ENOMEM);
    options.priority = (enum kin_priority)9;
    EXPECT_EQ(kin_spawn_with(&n, &options, never_run, &child, 0, NULL), -EINVAL);
    options.priority = KIN_PRIORITY_NORMAL;
    EXPECT_EQ(kin_spawn(&n, sleep_counted, &child), 0);
    EXPECT_EQ(kin_spawn_with(&n, &options, never_run, &child, sizeof child, NULL), KIN_FULL);
    options.slot_deadline = kin_after(KIN_US(50));
    EXPECT_EQ(kin_spawn_with(&n, &options, never_run, &child, sizeof child, NULL), KIN_TIMEOUT);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_spawn_with(&n, &options, never_run, &child, sizeof child, NULL), KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_spawn_with(&n, &options, never_run, &child, 0, NULL), KIN_NOSCOPE);
    EXPECT_EQ(atomic_load(&census.cleaned), 0);
    return 0;
}

KIN_TEST(a_refused_spawn_leaves_it_to_the_caller, "NSM:3.1 D-90")
{
    run_on_few(be_refused, NULL);
}

/* ---- from outside ---- */

struct outside {
    struct kin_nursery *n;
    struct census census;
    int spawned;
};

static void *spawn_outside(void *arg)
{
    struct outside *outside = arg;
    outside->spawned = spawn_all(outside->n, &outside->census, NULL);
    return NULL;
}

static int cancel_an_outsider_s(void *arg)
{
    struct outside outside = {.n = NULL};
    pthread_t thread;
    struct kin_nursery n;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    outside.n = &n;
    EXPECT_EQ(pthread_create(&thread, NULL, spawn_outside, &outside), 0);
    kin_ignore(kin_yield());
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(atomic_load(&outside.census.cleaned), outside.spawned);
    return 0;
}

KIN_TEST(a_thread_hands_things_over_as_a_task_does, "D-90")
{
    for (int i = 0; i < 20; i++)
        run_on_few(cancel_an_outsider_s, NULL);
}
