/* SPDX-License-Identifier: MIT */
/*
 * Goal: nurseries behave as the header says: states, admission, failures, cancellation, misuse.
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
    struct kin_outcome how = {KIN_SEV_OK, 0, 77, 0};

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

KIN_TEST(a_closed_nursery_is_terminal_when_its_last_child_is_over_joined_or_not, "B1 B10 NSM:3.3 NSM:5.2")
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
    struct kin_outcome how = {KIN_SEV_OK, 0, 0, 0};
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
    EXPECT_EQ(kin_spawn(NULL, return_it, &zero), -EINVAL);
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
    struct kin_outcome few[2] = {{KIN_SEV_OK, 0, 0, 0}, {KIN_SEV_OK, 1, 0, 0}};
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
    EXPECT_EQ(atomic_load(&tree->inner_rc), -EIO);
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
        EXPECT_EQ(kin_nursery_join(&inner, NULL), -EIO);
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
    int ten = 10, thousand = 1000;

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
        EXPECT_EQ(kin_nursery_join(&n[i], NULL), -EIO);
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
    EXPECT_EQ(kin_nursery_join(&inner, NULL), -EIO);
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
    EXPECT_EQ(kin_nursery_join(&inner, NULL), -EIO);
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

KIN_TEST(a_nursery_of_a_cancelled_task_is_born_cancelled_with_its_reason, "B12 NSM:6.2")
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
    const int many = MANY / (scale > 5 ? 20 : scale);
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
    EXPECT_EQ(kin_spawn_copy(&n, check_args, KIN_ARGS(struct args, .value = 7, .text = "copied")), 0);
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
    int levels = 10000 / (int)(kin_test_scale() > 4 ? 4 : kin_test_scale());

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
