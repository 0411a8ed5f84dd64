/* SPDX-License-Identifier: MIT */
/*
 * Goal: nurseries behave as the header says: states, admission, memory, misuse.
 * Method: small programs through the public headers on 1, 2 and 4 workers, every answer compared.
 */
#include "api/in_runtime.h"

#include <pthread.h>

/* ---- states ---- */

static int walk_to_closed(void *arg)
{
    struct kin_nursery n;
    struct kin_outcome how;
    int zero = 0;

    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_OPEN);
    EXPECT_EQ(kin_nursery_poll(&n, NULL), KIN_EMPTY);
    EXPECT_EQ(kin_spawn(&n, return_it, &zero), 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), 0);
    EXPECT_EQ(how.severity, KIN_SEV_OK);
    EXPECT_EQ(how.status, 0);
    EXPECT_EQ(how.value, 0);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSED);
    return 0;
}

KIN_TEST(open_to_closing_to_closed, "NSM:2.2 NSM:2.3 NSM:3.3 SCHED:8.1.3 SCHED:8.1.1")
{
    run_on_few(walk_to_closed, NULL);
    EXPECT_EQ(KIN_NURSERY_OPEN, 0);
    EXPECT_EQ(KIN_NURSERY_CLOSING, 1);
    EXPECT_EQ(KIN_NURSERY_CANCELLING, 2);
    EXPECT_EQ(KIN_NURSERY_CLOSED, 3);
    EXPECT_EQ(KIN_NURSERY_CANCELLED, 4);
}

static int walk_by_hand(void *arg)
{
    _Atomic int started = 0;
    int zero = 0;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, sleep_for_ever, &started), 0);
    kin_nursery_close(&n);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSING);
    EXPECT_EQ(kin_spawn(&n, return_it, &zero), KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_poll(&n, NULL), KIN_EMPTY);
    kin_nursery_close(&n);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSING);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CANCELLING);
    kin_nursery_close(&n);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CANCELLING);
    kin_nursery_cancel(&n, -EIO);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CANCELLING);
    EXPECT_EQ(kin_spawn(&n, return_it, &zero), KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CANCELLED);
    return 0;
}

KIN_TEST(open_to_closing_to_cancelling_to_cancelled, "NSM:2.3 NSM:2.4 NSM:4.2 SCHED:8.3.1")
{
    /* With one worker the child has not begun when the state is looked at. With more it may be
     * over by the time of the second cancel; it cannot be while it is not asked. */
    EXPECT_EQ(run_reporting(1, walk_by_hand, NULL, NULL), 0);
}

static int expect_terminal(struct kin_nursery *n, enum kin_nursery_state state)
{
    int zero = 0;
    struct kin_outcome how = {KIN_SEV_OK, 0, 77, 0, ""};

    EXPECT_EQ(kin_nursery_state(n), state);
    EXPECT_EQ(kin_spawn(n, return_it, &zero), KIN_NOSCOPE);
    EXPECT_EQ(kin_spawn_copy(n, return_it, &zero, sizeof zero), KIN_NOSCOPE);
    EXPECT_EQ(kin_spawn_with(n, NULL, return_it, &zero, 0, NULL), KIN_NOSCOPE);
    kin_nursery_close(n);
    EXPECT_EQ(kin_nursery_state(n), state);
    kin_nursery_cancel(n, -EIO);
    EXPECT_EQ(kin_nursery_state(n), state);
    EXPECT_EQ(kin_nursery_join(n, &how), KIN_STALE);
    EXPECT_EQ(how.value, 77);
    EXPECT_EQ(kin_nursery_join(n, NULL), KIN_STALE);
    EXPECT_PTR(kin_nursery_alloc(n, 8), NULL);
    EXPECT_EQ(kin_nursery_state(n), state);
    EXPECT(!kin_cancelled());
    return 0;
}

static int be_terminal(void *arg)
{
    struct kin_nursery n;

    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    expect_terminal(&n, KIN_NURSERY_CLOSED);
    EXPECT_EQ(kin_nursery_poll(&n, NULL), 0);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_OPEN);
    kin_nursery_cancel(&n, KIN_TIMEOUT);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_TIMEOUT);
    expect_terminal(&n, KIN_NURSERY_CANCELLED);
    EXPECT_EQ(kin_nursery_poll(&n, NULL), KIN_TIMEOUT);
    return 0;
}

KIN_TEST(nothing_leaves_a_terminal_state_and_nothing_admits, "NSM:2.4 B10")
{
    run_on_few(be_terminal, NULL);
}

static int end_before_the_join(void *arg)
{
    _Atomic int ran = 0;
    struct kin_outcome how;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn(&n, count_it, &ran), 0);
    await(&ran, 1);
    kin_nursery_close(&n);
    while (kin_nursery_poll(&n, NULL) == KIN_EMPTY)
        kin_ignore(kin_yield());
    EXPECT_EQ(kin_nursery_poll(&n, &how), 0);
    EXPECT_EQ(how.severity, KIN_SEV_OK);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSED);
    kin_nursery_cancel(&n, -EIO); /* too late */
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSED);
    EXPECT_EQ(kin_nursery_poll(&n, NULL), 0);
    EXPECT(!kin_cancelled());
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSED);
    return 0;
}

KIN_TEST(a_closed_nursery_is_terminal_when_its_last_child_is_over_joined_or_not,
         "B1 B10 NSM:3.3 NSM:5.2")
{
    run_on_few(end_before_the_join, NULL);
}

static int end_empty(void *arg)
{
    struct kin_outcome how;

    (void)arg;
    {
        KIN_NURSERY(n);
        kin_nursery_close(&n); /* close itself ends an empty one */
        EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSED);
        EXPECT_EQ(kin_nursery_poll(&n, &how), 0);
        kin_nursery_cancel(&n, 0);
        EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CLOSED);
        EXPECT_PTR(kin_nursery_alloc(&n, 8), NULL);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    {
        KIN_NURSERY(n);
        kin_nursery_cancel(&n, -EIO);
        EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CANCELLED);
        EXPECT_EQ(kin_nursery_poll(&n, &how), -EIO);
        EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
        EXPECT(kin_cancelled()); /* until it is joined */
        kin_nursery_close(&n);
        EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_CANCELLED);
        EXPECT_EQ(kin_nursery_join(&n, &how), -EIO);
        EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
        EXPECT_EQ(how.status, -EIO);
        EXPECT(!kin_cancelled());
    }
    {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_nursery_join(&n, &how), 0);
        EXPECT_EQ(how.task, 0);
    }
    return 0;
}

KIN_TEST(an_empty_nursery_closes_or_is_cancelled_at_once, "B1 B10 NSM:2.3")
{
    run_on_few(end_empty, NULL);
}

static int poll_a_failure(void *arg)
{
    struct kin_outcome how = {KIN_SEV_OK, 0, 0, 0, ""};
    struct kin_task_ref ref;
    int status = -EIO;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, return_it, &status, 0, &ref), 0);
    while (kin_nursery_poll(&n, &how) == KIN_EMPTY)
        kin_ignore(kin_yield());
    EXPECT_EQ(kin_nursery_poll(&n, &how), -EIO);
    EXPECT_EQ(how.severity, KIN_SEV_ERROR);
    EXPECT_EQ(how.task, ref.id);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    EXPECT_EQ(kin_nursery_poll(&n, NULL), -EIO);
    return 0;
}

KIN_TEST(poll_tells_the_result_without_waiting, "NSM:5.2 SCHED:15.2.2")
{
    run_on_few(poll_a_failure, NULL);
}

/* ---- nonsense ---- */

static int be_nonsense(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_spawn_options spawn = KIN_SPAWN_OPTIONS_INIT;
    struct kin_nursery n;
    struct kin_outcome how;
    int zero = 0;

    (void)arg;
    EXPECT_EQ(kin_nursery_open(NULL, NULL), -EINVAL);
    EXPECT_EQ(kin_nursery_join(NULL, NULL), -EINVAL);
    EXPECT_EQ(kin_nursery_poll(NULL, NULL), -EINVAL);
    EXPECT_EQ(kin_nursery_errors(NULL, &how, 1), 0);
    EXPECT_EQ(kin_nursery_errors_dropped(NULL), 0);
    EXPECT_PTR(kin_nursery_alloc(NULL, 1), NULL);
    EXPECT_EQ(kin_spawn(NULL, return_it, &zero), KIN_NOSCOPE);
    kin_nursery_close(NULL);
    kin_nursery_cancel(NULL, 0);
    (void)kin_nursery_state(NULL);
    options.size = 8;
    EXPECT_EQ(kin_nursery_open(&n, &options), -EINVAL);
    EXPECT_EQ(kin_spawn(&n, return_it, &zero), KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EINVAL);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EINVAL);
    EXPECT_EQ(kin_nursery_poll(&n, NULL), -EINVAL);
    EXPECT_NE(kin_nursery_state(&n), KIN_NURSERY_OPEN);
    EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), 0);
    kin_nursery_close(&n);
    kin_nursery_cancel(&n, 0);
    options = (struct kin_nursery_options)KIN_NURSERY_OPTIONS_INIT;
    options.on_error = (enum kin_on_error)7;
    EXPECT_EQ(kin_nursery_open(&n, &options), -EINVAL);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, NULL, NULL), -EINVAL);
    EXPECT_EQ(kin_spawn_copy(&n, return_it, NULL, 4), -EINVAL);
    EXPECT_EQ(kin_spawn_copy(&n, return_it, &zero, (size_t)-1), -ENOMEM);
    spawn.size = 1;
    EXPECT_EQ(kin_spawn_with(&n, &spawn, return_it, &zero, 0, NULL), -EINVAL);
    spawn = (struct kin_spawn_options)KIN_SPAWN_OPTIONS_INIT;
    spawn.stack_max_bytes = (size_t)129 << 20;
    EXPECT_EQ(kin_spawn_with(&n, &spawn, return_it, &zero, 0, NULL), -EINVAL);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_nursery_errors(&n, NULL, 5), 0);
    return 0;
}

/* Asks for results of a nursery that is another task's, or was. */
static int pry(void *arg)
{
    struct kin_nursery *n = arg;
    struct kin_outcome how = {.status = 77};
    EXPECT_EQ(kin_nursery_poll(n, &how), -EPERM);
    EXPECT_EQ(how.status, 77);
    EXPECT_EQ(kin_nursery_errors(n, &how, 1), 0);
    EXPECT_EQ(how.status, 77);
    EXPECT_EQ(kin_nursery_errors_dropped(n), 0);
    return 0;
}

static void *pry_outside(void *arg)
{
    EXPECT_EQ(pry(arg), 0);
    return NULL;
}

static int have_results(void *arg)
{
    pthread_t thread;
    int status = -EIO;
    struct kin_outcome how;
    struct kin_nursery n;
    (void)arg;
    for (int is_joined = 0; is_joined < 2; is_joined++) {
        KIN_NURSERY(others);
        if (!is_joined) {
            struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
            options.on_error = KIN_COLLECT;
            options.errors_max = 1;
            EXPECT_EQ(kin_nursery_open(&n, &options), 0);
            for (int i = 0; i < 2; i++)
                EXPECT_EQ(kin_spawn(&n, return_it, &status), 0);
            while (kin_nursery_errors(&n, NULL, 0) + kin_nursery_errors_dropped(&n) < 2)
                EXPECT_EQ(kin_yield(), 0); /* ends: both fail */
            EXPECT_EQ(kin_nursery_poll(&n, &how), KIN_EMPTY);
            EXPECT_EQ(kin_spawn(&n, pry, &n), 0); /* its own child, too */
            EXPECT_EQ(pthread_create(&thread, NULL, pry_outside, &n), 0);
            EXPECT_EQ(pthread_join(thread, NULL), 0);
            EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
        }
        EXPECT_EQ(kin_spawn(&others, pry, &n), 0);
        EXPECT_EQ(kin_nursery_join(&others, NULL), 0);
        EXPECT_EQ(kin_nursery_poll(&n, &how), -EIO);
        EXPECT_EQ(kin_nursery_errors(&n, &how, 1), 1);
        EXPECT_EQ(kin_nursery_errors_dropped(&n), 1);
    }
    return 0;
}

KIN_TEST(results_are_for_the_owner_alone, "SCHED:15.2.2")
{
    EXPECT_EQ(run_reporting(2, have_results, NULL, NULL), 0);
}

KIN_TEST(null_and_wrong_sizes_are_answered, "N1001 NCG-4")
{
    run_on_few(be_nonsense, NULL);
}

static int cancel_with_nonsense(void *arg)
{
    struct kin_outcome how;
    KIN_NURSERY(n);

    (void)arg;
    kin_nursery_cancel(&n, 5);
    EXPECT_LT(kin_nursery_join(&n, &how), 0);
    EXPECT_EQ(how.severity, KIN_SEV_CANCELLED);
    return 0;
}

KIN_TEST(a_reason_that_is_no_failure_is_not_a_success_of_the_join, "NSM:4.4")
{
    run_on_few(cancel_with_nonsense, NULL);
}

/* ---- admission ---- */

struct acceptor {
    struct kin_nursery *n;
    struct kin_nursery *inner;
    _Atomic int ran, started, go, rc;
};

static int accept_ten(void *arg)
{
    struct acceptor *a = arg;

    atomic_store(&a->started, 1);
    /* the owner is joining by then: it opened nothing in between and yields to nobody */
    while (kin_nursery_state(a->n) == KIN_NURSERY_OPEN)
        kin_ignore(kin_yield());
    for (int i = 0; i < 10; i++) {
        EXPECT_EQ(kin_nursery_state(a->n), KIN_NURSERY_CLOSING);
        EXPECT_EQ(kin_spawn(a->n, count_it, &a->ran), 0);
        kin_ignore(kin_yield());
    }
    return 0;
}

static int join_an_acceptor(void *arg)
{
    struct acceptor a = {0};
    KIN_NURSERY(n);

    (void)arg;
    a.n = &n;
    EXPECT_EQ(kin_spawn(&n, accept_ten, &a), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&a.ran), 10);
    return 0;
}

KIN_TEST(live_children_spawn_while_the_nursery_is_joined, "B9 NSM:3.1")
{
    run_on_few(join_an_acceptor, NULL);
}

static int spawn_from_below(void *arg)
{
    struct acceptor *a = arg;

    while (kin_nursery_state(a->n) == KIN_NURSERY_OPEN)
        kin_ignore(kin_yield());
    atomic_store(&a->rc, kin_spawn(a->n, count_it, &a->ran));
    return 0;
}

static int open_below(void *arg)
{
    KIN_NURSERY(inner);

    EXPECT_EQ(kin_spawn(&inner, spawn_from_below, arg), 0);
    return kin_nursery_join(&inner, NULL);
}

static int join_a_grandparent(void *arg)
{
    struct acceptor a = {0};
    KIN_NURSERY(n);

    (void)arg;
    a.n = &n;
    EXPECT_EQ(kin_spawn(&n, open_below, &a), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&a.rc), KIN_NOSCOPE);
    EXPECT_EQ(atomic_load(&a.ran), 0);
    return 0;
}

KIN_TEST(grandchildren_are_outsiders_while_a_nursery_is_joined, "B9 NSM:6.1")
{
    run_on_few(join_a_grandparent, NULL);
}

static int spawn_when_told(void *arg)
{
    struct acceptor *a = arg;

    atomic_store(&a->started, 1);
    await(&a->go, 1);
    atomic_store(&a->rc, kin_spawn(a->n, count_it, &a->ran));
    return 0;
}

static int close_on_a_member(void *arg)
{
    struct acceptor a = {0};
    KIN_NURSERY(n);

    (void)arg;
    a.n = &n;
    EXPECT_EQ(kin_spawn(&n, spawn_when_told, &a), 0);
    await(&a.started, 1);
    kin_nursery_close(&n);
    atomic_store(&a.go, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&a.rc), KIN_NOSCOPE);
    EXPECT_EQ(atomic_load(&a.ran), 0);
    return 0;
}

KIN_TEST(close_refuses_members_too, "B9 NSM:2.3")
{
    run_on_few(close_on_a_member, NULL);
}

static int spawn_into_others(void *arg)
{
    struct acceptor a = {0};
    KIN_NURSERY(n);
    KIN_NURSERY(helpers);

    (void)arg;
    a.n = &n;
    atomic_store(&a.go, 1);
    EXPECT_EQ(kin_spawn(&helpers, spawn_when_told, &a), 0);
    EXPECT_EQ(kin_nursery_join(&helpers, NULL), 0);
    EXPECT_EQ(atomic_load(&a.rc), 0); /* open: anybody may */
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&a.ran), 1);
    return 0;
}

KIN_TEST(other_tasks_spawn_into_an_open_nursery, "NSM:3.1 SCHED:8.1.2")
{
    run_on_few(spawn_into_others, NULL);
}

static void *spawn_by_thread(void *arg)
{
    struct acceptor *a = arg;

    for (int i = 0; i < 100; i++)
        EXPECT_EQ(kin_spawn(a->n, count_it, &a->ran), 0);
    atomic_store(&a->go, 1);
    return NULL;
}

static int spawn_by_runtime_body(void *arg)
{
    spawn_by_thread(arg);
    return 0;
}

static void *spawn_by_runtime(void *arg)
{
    EXPECT_EQ(run_reporting(2, spawn_by_runtime_body, arg, NULL), 0);
    return NULL;
}

/* Starts a thread that spawns a hundred children here, and joins it. */
static void expect_foreigners(void *(*thread_main)(void *))
{
    struct acceptor a = {0};
    pthread_t thread;
    KIN_NURSERY(n);

    a.n = &n;
    EXPECT_EQ(pthread_create(&thread, NULL, thread_main, &a), 0);
    await(&a.go, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&a.ran), 100);
    EXPECT_EQ(kin_spawn(&n, count_it, &a.ran), KIN_NOSCOPE);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
}

static int meet_foreigners(void *arg)
{
    (void)arg;
    expect_foreigners(spawn_by_thread);
    expect_foreigners(spawn_by_runtime);
    return 0;
}

KIN_TEST(threads_and_other_runtimes_spawn_into_an_open_nursery, "NSM:3.1")
{
    run_on_few(meet_foreigners, NULL);
}

static void *spawn_refused(void *arg)
{
    struct acceptor *a = arg;

    while (kin_nursery_state(a->n) == KIN_NURSERY_OPEN)
        sched_yield();
    atomic_store(&a->rc, kin_spawn(a->n, count_it, &a->ran));
    atomic_store(&a->go, 1);
    return NULL;
}

static int last_until_go(void *arg)
{
    struct acceptor *a = arg;

    await(&a->go, 1);
    return 0;
}

static int join_against_a_thread(void *arg)
{
    struct acceptor a = {0};
    pthread_t thread;
    KIN_NURSERY(n);

    (void)arg;
    a.n = &n;
    EXPECT_EQ(kin_spawn(&n, last_until_go, &a), 0);
    EXPECT_EQ(pthread_create(&thread, NULL, spawn_refused, &a), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&a.rc), KIN_NOSCOPE);
    EXPECT_EQ(atomic_load(&a.ran), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    return 0;
}

KIN_TEST(threads_are_refused_while_a_nursery_is_joined, "B9 NSM:3.1 NSM:5.1")
{
    run_on_few(join_against_a_thread, NULL);
}

static int be_full(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    struct acceptor a = {0};

    (void)arg;
    options.tasks_max = 3;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_spawn(&n, last_until_go, &a), 0);
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin_spawn(&n, count_it, &a.ran), KIN_FULL);
    atomic_store(&a.go, 1);
    int rc;
    while ((rc = kin_spawn(&n, count_it, &a.ran)) == KIN_FULL)
        kin_ignore(kin_yield());
    EXPECT_EQ(rc, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&a.ran), 1);
    return 0;
}

KIN_TEST(a_full_nursery_says_so_and_has_room_again_when_a_child_is_over, "B7")
{
    run_on_few(be_full, NULL);
}

struct chain {
    struct kin_nursery *n;
    _Atomic int left, full;
};

static int spawn_the_next(void *arg)
{
    struct chain *chain = arg;
    int rc;

    while (kin_nursery_state(chain->n) == KIN_NURSERY_OPEN)
        kin_ignore(kin_yield());
    if (atomic_fetch_sub(&chain->left, 1) <= 0)
        return 0;
    rc = kin_spawn(chain->n, spawn_the_next, chain);
    if (rc == KIN_FULL)
        atomic_fetch_add(&chain->full, 1);
    else
        EXPECT_EQ(rc, 0);
    return 0;
}

static int fill_while_joining(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    struct chain chain = {&n, 100, 0};

    (void)arg;
    options.tasks_max = 1; /* the spawner itself is the one */
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    EXPECT_EQ(kin_spawn(&n, spawn_the_next, &chain), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&chain.full), 1);
    options.tasks_max = 2;
    atomic_store(&chain.left, 100);
    atomic_store(&chain.full, 0);
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    EXPECT_EQ(kin_spawn(&n, spawn_the_next, &chain), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(the_limit_counts_children_only_also_while_joining, "B7 B9")
{
    run_on_few(fill_while_joining, NULL);
}

static int open_refused(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    int zero = 0;

    (void)arg;
    {
        KIN_NURSERY(n, .errors_max = UINT32_MAX, .name = "too large");
        EXPECT_EQ(kin_spawn(&n, return_it, &zero), KIN_NOSCOPE);
        EXPECT_EQ(kin_nursery_join(&n, NULL), -ENOMEM);
    }
    options.errors_max = UINT32_MAX;
    struct kin_nursery by_hand;
    EXPECT_EQ(kin_nursery_open(&by_hand, &options), -ENOMEM);
    return 0;
}

KIN_TEST(when_the_open_failed_spawn_is_refused_and_join_tells_why, "N1001 NSM:3.1")
{
    run_on_few(open_refused, NULL);
}

/* ---- the net ---- */

static int leave_by_return(_Atomic int *started, _Atomic int *gone)
{
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, sleep_for_ever, started), 0);
    EXPECT_EQ(kin_spawn(&n, count_it, gone), 0);
    await(started, 1);
    await(gone, 1);
    return 5;
}

static int leave_by_all_ways(void *arg)
{
    _Atomic int started = 0, gone = 0;
    struct kin_stats before, after;

    (void)arg;
    EXPECT_EQ(kin_stats_get(&before), 0);
    EXPECT_EQ(leave_by_return(&started, &gone), 5);
    for (int i = 0; i < 3; i++) {
        KIN_NURSERY(n, .name = "left by break or continue");
        EXPECT_EQ(kin_spawn(&n, sleep_for_ever, &started), 0);
        if (i == 1)
            continue;
        if (i == 2)
            break;
    }
    {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, sleep_for_ever, &started), 0);
        goto out;
    }
out:
    EXPECT(!kin_cancelled());
    do {
        EXPECT_EQ(kin_stats_get(&after), 0); /* another worker may be about to count the last */
    } while (after.tasks_live > before.tasks_live);
    return 0;
}

KIN_TEST(leaving_the_c_scope_cancels_and_joins, "B2 NCG-1")
{
    run_on_few(leave_by_all_ways, NULL);
}

/* ---- memory ---- */

struct args {
    int value;
    char text[60];
};

static int check_args(void *arg)
{
    struct args *args = arg;

    EXPECT_STR(args->text, "copied");
    args->text[0] = 'C'; /* a copy of its own */
    return args->value == 7 ? 0 : -EIO;
}

static int copy_arguments(void *arg)
{
    struct args args = {7, "copied"};
    KIN_NURSERY(n);

    (void)arg;
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(kin_spawn_copy(&n, check_args, &args, sizeof args), 0);
    EXPECT_EQ(kin_spawn_copy(&n, check_args, KIN_ARGS(struct args, .value = 7, .text = "copied")),
              0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, check_args, KIN_ARGS(struct args, 7, "copied"), NULL), 0);
    memset(&args, 0xff, sizeof args);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(spawn_copy_copies, "NSM:3.1")
{
    run_on_few(copy_arguments, NULL);
}

static int write_memory(void *arg)
{
    memset(arg, 0x5a, 100);
    return 0;
}

static int allocate(void *arg)
{
    char *blocks[100];
    KIN_NURSERY(n);

    (void)arg;
    for (int i = 0; i < 100; i++) {
        blocks[i] = kin_nursery_alloc(&n, 100);
        EXPECT(blocks[i]);
        EXPECT_EQ((uintptr_t)blocks[i] % 16, 0);
        for (int k = 0; k < 100; k++)
            EXPECT_EQ(blocks[i][k], 0);
        EXPECT_EQ(kin_spawn(&n, write_memory, blocks[i]), 0);
    }
    EXPECT(kin_nursery_alloc(&n, 0));
    char *large = kin_nursery_alloc(&n, 1000000);
    EXPECT(large);
    memset(large, 1, 1000000);
    EXPECT_PTR(kin_nursery_alloc(&n, SIZE_MAX / 2), NULL);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_PTR(kin_nursery_alloc(&n, 1), NULL);
    return 0;
}

KIN_TEST(memory_of_a_nursery_lives_until_the_join, "")
{
    run_on_few(allocate, NULL);
}

/* ---- depth ---- */

static int be_level(void *arg)
{
    int left = *(int *)arg - 1;

    if (left == 0)
        return 0;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, be_level, &left), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(ten_thousand_levels_of_nurseries_need_no_deep_stack, "NSM-4 NSM:6.3")
{
    int levels = enough(10000 / (int)(kin_test_scale() > 4 ? 4 : kin_test_scale()), 40);

    run_on_few(be_level, &levels);
}

static int return_value(void *arg)
{
    (void)arg;
    return 1;
}

static int be_fib(void *arg)
{
    int *n = arg;
    int below[2] = {*n - 1, *n - 2};

    if (*n < 2)
        return 0;
    KIN_NURSERY(both);
    EXPECT_EQ(kin_spawn(&both, be_fib, &below[0]), 0);
    EXPECT_EQ(kin_spawn(&both, be_fib, &below[1]), 0);
    EXPECT_EQ(kin_spawn(&both, return_value, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&both, NULL), 0);
    *n = below[0] + below[1];
    return 0;
}

static int fork_and_join(void *arg)
{
    int n = 16;

    (void)arg;
    EXPECT_EQ(be_fib(&n), 0);
    EXPECT_EQ(n, 987);
    return 0;
}

KIN_TEST(fork_and_join_sees_what_the_children_wrote, "NSM-2 NSM:7.2")
{
    run_on_few(fork_and_join, NULL);
}

/* ---- misuse ---- */

static int join_of_another(void *arg)
{
    return kin_nursery_join(arg, NULL);
}

static int let_another_join(void *arg)
{
    KIN_NURSERY(n);
    KIN_NURSERY(helpers);
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;

    (void)arg;
    options.name = "culprit";
    EXPECT_EQ(kin_spawn_with(&helpers, &options, join_of_another, &n, 0, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&helpers, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

static int join_outer_first(void *arg)
{
    struct kin_nursery outer, inner;

    (void)arg;
    EXPECT_EQ(kin_nursery_open(&outer, NULL), 0);
    EXPECT_EQ(kin_nursery_open(&inner, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&outer, NULL), 0);
    return 0;
}

static int return_with_one_open(void *arg)
{
    static struct kin_nursery n;

    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    return 0;
}

static int spawn_the_careless(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n);

    (void)arg;
    options.name = "careless";
    EXPECT_EQ(kin_spawn_with(&n, &options, return_with_one_open, NULL, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_join_by_another_task_aborts_with_task_call_and_rule, "NSM-2 B2")
{
    EXPECT_ABORT("culprit")
    {
        kin_ignore(kin_run(NULL, let_another_join, NULL));
    }
    EXPECT_ABORT("kin_nursery_join: only the task that opened a nursery joins it")
    {
        kin_ignore(kin_run(NULL, let_another_join, NULL));
    }
}

KIN_TEST(joining_an_outer_nursery_before_an_inner_one_aborts, "NSM-4")
{
    EXPECT_ABORT("inner nurseries are joined before outer ones")
    {
        kin_ignore(kin_run(NULL, join_outer_first, NULL));
    }
}

KIN_TEST(a_task_that_returns_with_a_nursery_open_aborts_by_its_name, "NSM-1 N3001")
{
    EXPECT_ABORT("NSM-1")
    {
        kin_ignore(kin_run(NULL, spawn_the_careless, NULL));
    }
    EXPECT_ABORT("careless")
    {
        kin_ignore(kin_run(NULL, spawn_the_careless, NULL));
    }
}
