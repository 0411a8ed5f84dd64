/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of other runtimes ask of scopes, contexts, cancel scopes and bundles, asked
 *       of nurseries. Each test names the cases it covers (G: Go, T: Trio, D: libdill, N: neco).
 * Method: black box, one body per case, on 1, 2 and 4 workers.
 */
#include "api/in_runtime.h"

#include <pthread.h>

/* Runs a list of bodies one after the other. */
#define RUN_ALL(...)                                                                               \
    do {                                                                                           \
        kin_task_fn *const bodies_[] = {__VA_ARGS__};                                              \
        for (size_t i_ = 0; i_ < sizeof bodies_ / sizeof bodies_[0]; i_++)                         \
            run_on_few(bodies_[i_], NULL);                                                         \
    } while (0)

static int fail_io(void *arg)
{
    (void)arg;
    return -EIO;
}

static int fail_pipe_when_cancelled(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    return -EPIPE;
}

/* ---- contexts ---- */

/* G094: a scope that ends first leaves the one around it alone. */
static int inner_ends_first(void *arg)
{
    _Atomic int started = 0;
    KIN_NURSERY(outer);
    (void)arg;
    {
        KIN_NURSERY(inner);
        EXPECT_EQ(kin_spawn(&inner, sleep_for_ever, &started), 0);
        kin_nursery_cancel(&inner, 0);
        EXPECT_EQ(kin_nursery_join(&inner, NULL), KIN_CANCELLED);
    }
    EXPECT_EQ(kin_nursery_state(&outer), KIN_NURSERY_OPEN);
    EXPECT(!kin_cancelled());
    EXPECT_EQ(kin_nursery_join(&outer, NULL), 0);
    return 0;
}

/* G095: of scopes that are over nothing is left in the one around them. */
static int nothing_is_left(void *arg)
{
    struct kin_stats before, after;
    KIN_NURSERY(outer);
    (void)arg;
    EXPECT_EQ(kin_stats_get(&before), 0);
    for (int i = 0; i < 1000; i++) {
        KIN_NURSERY(inner, .deadline = kin_after(KIN_SEC(100)));
        kin_ignore(kin_spawn(&inner, sleep_for_ever, NULL));
        if (i % 2)
            kin_nursery_cancel(&inner, 0);
    }
    do { /* ends: a worker counts an end right behind the task that it wakes */
        kin_ignore(kin_yield());
        EXPECT_EQ(kin_stats_get(&after), 0);
    } while (after.tasks_live > before.tasks_live);
    EXPECT_EQ(after.timers, before.timers);
    EXPECT_EQ(kin_nursery_join(&outer, NULL), 0);
    return 0;
}

/* G096 G097: a deadline, and one further in or out, ends the scope that it belongs to. */
static int layers_of_deadlines(void *arg)
{
    (void)arg;
    for (int shape = 0; shape < 3; shape++) {
        struct kin_nursery outer, inner;
        struct kin_nursery_options soon = KIN_NURSERY_OPTIONS_INIT;
        struct kin_nursery_options late = KIN_NURSERY_OPTIONS_INIT;
        soon.deadline = kin_after(KIN_MS(2));
        late.deadline = kin_after(KIN_SEC(100));
        EXPECT_EQ(kin_nursery_open(&outer, shape == 1 ? &late : &soon), 0);
        EXPECT_EQ(kin_nursery_open(&inner, shape == 0 ? &late : shape == 1 ? &soon : NULL), 0);
        int rc = kin_spawn(&inner, sleep_for_ever, NULL);
        EXPECT(rc == 0 || (rc == KIN_NOSCOPE && kin_now() >= soon.deadline));
        EXPECT_EQ(kin_nursery_join(&inner, NULL), shape == 1 ? KIN_TIMEOUT : KIN_CANCELLED);
        EXPECT_EQ(kin_cancelled(), shape != 1);
        EXPECT_EQ(kin_nursery_join(&outer, NULL), shape == 1 ? 0 : KIN_TIMEOUT);
    }
    return 0;
}

/* G098: cancelled before its deadline, a scope says so, also after the deadline. */
static int cancelled_before_the_deadline(void *arg)
{
    (void)arg;
    for (int64_t ms = 2;; ms *= 2) { /* ends: some deadline is far enough to be early for */
        kin_time deadline = kin_after(KIN_MS(ms));
        KIN_NURSERY(n, .deadline = deadline);
        kin_ignore(kin_spawn(&n, sleep_for_ever, NULL));
        kin_nursery_cancel(&n, 0);
        bool is_early = kin_now() < deadline;
        kin_mask();
        EXPECT_EQ(kin_sleep(deadline + KIN_MS(2)), 0);
        kin_unmask();
        int reason = kin_cancel_reason();
        int rc = kin_nursery_join(&n, NULL);
        if (!is_early)
            continue;
        EXPECT_EQ(reason, KIN_CANCELLED);
        EXPECT_EQ(rc, KIN_CANCELLED);
        return 0;
    }
}

KIN_TEST(scopes_end_alone_with_their_deadline_or_their_cancel, "NSM:6.1 N2001 NSM:4.4")
{
    RUN_ALL(inner_ends_first, nothing_is_left, layers_of_deadlines, cancelled_before_the_deadline);
}

/* G100: somebody who is cancelled himself cancels another scope; nobody waits for ever. */
struct interlock {
    struct kin_nursery *n;
    _Atomic int started;
};

static int cancel_when_cancelled(void *arg)
{
    struct interlock *interlock = arg;
    atomic_fetch_add(&interlock->started, 1);
    int rc = kin_sleep(KIN_NEVER);
    kin_nursery_cancel(interlock->n, -EPIPE);
    return rc;
}

static int interlocked_cancels(void *arg)
{
    struct kin_nursery a, b;
    struct interlock of_a = {.n = &b}, of_b = {.n = &a};
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&a, NULL), 0);
    EXPECT_EQ(kin_nursery_open(&b, NULL), 0);
    EXPECT_EQ(kin_spawn(&a, cancel_when_cancelled, &of_a), 0);
    EXPECT_EQ(kin_spawn(&b, cancel_when_cancelled, &of_b), 0);
    await(&of_a.started, 1);
    await(&of_b.started, 1);
    kin_nursery_cancel(&a, -EIO);
    int rc = kin_nursery_join(&b, NULL);
    EXPECT(rc == KIN_CANCELLED || rc == -EPIPE); /* with a, or by the child of a */
    EXPECT_EQ(kin_nursery_join(&a, NULL), -EIO);
    return 0;
}

/* G101 G102 T016: layers of scopes, cancelled at some layer: all inside, none outside. */
struct layer {
    int left;
    int cancel_at;
    _Atomic int *ready;
};

static int be_layer(void *arg)
{
    struct layer *me = arg;
    struct layer below = {me->left - 1, me->cancel_at, me->ready};
    KIN_NURSERY(n, .deadline = me->left == me->cancel_at ? kin_after(KIN_MS(3)) : 0);
    if (me->left == 0) {
        atomic_fetch_add(me->ready, 1);
        EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
        EXPECT_EQ(kin_cancel_reason(), KIN_TIMEOUT);
        return KIN_CANCELLED;
    }
    int rc = kin_spawn(&n, be_layer, &below);
    EXPECT(rc == 0 || rc == KIN_NOSCOPE);
    rc = kin_nursery_join(&n, NULL);
    int from_above = me->left < me->cancel_at ? KIN_CANCELLED : 0;
    EXPECT_EQ(rc, me->left == me->cancel_at ? KIN_TIMEOUT : from_above);
    EXPECT_EQ(kin_cancelled(), me->left < me->cancel_at);
    return kin_cancelled() ? KIN_CANCELLED : 0;
}

static int layers(void *arg)
{
    (void)arg;
    for (int at = 1; at <= 6; at++) {
        _Atomic int ready = 0;
        struct layer first = {6, at, &ready};
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, be_layer, &first), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

/* G103 T014: born cancelled. The body of a child never runs here. */
static int born_cancelled(void *arg)
{
    _Atomic int ran = 0;
    KIN_NURSERY(outer);
    (void)arg;
    kin_nursery_cancel(&outer, -EPIPE);
    EXPECT_EQ(kin_spawn(&outer, count_it, &ran), KIN_NOSCOPE);
    KIN_NURSERY(inner);
    EXPECT_EQ(kin_nursery_state(&inner), KIN_NURSERY_CANCELLED);
    EXPECT_EQ(kin_spawn(&inner, count_it, &ran), KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&outer, NULL), -EPIPE);
    EXPECT_EQ(atomic_load(&ran), 0);
    return 0;
}

/* G104: the parent is cancelled at the very moment in which the child opens its scope. */
static int open_many(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    for (;;) {
        KIN_NURSERY(n);
        int rc = kin_spawn(&n, sleep_for_ever, NULL);
        EXPECT(rc == 0 || rc == KIN_NOSCOPE);
        if (rc == 0)
            kin_nursery_cancel(&n, -EPROTO);
        rc = kin_nursery_join(&n, NULL);
        if (rc == KIN_CANCELLED)
            return rc;
        EXPECT_EQ(rc, -EPROTO);
        if (kin_cancelled())
            return KIN_CANCELLED;
    }
}

static int cancelled_at_the_same_moment(void *arg)
{
    (void)arg;
    for (int i = 0; i < enough(100, 7); i++) {
        _Atomic int started = 0;
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, open_many, &started), 0);
        await(&started, 1);
        for (int k = i % 7; k > 0; k--)
            kin_ignore(kin_yield());
        kin_nursery_cancel(&n, -EPIPE);
        EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    }
    return 0;
}

KIN_TEST(cancels_cross_layers_and_never_lock_up, "NSM-3 NSM:6.2 B11 B12")
{
    RUN_ALL(interlocked_cancels, layers, born_cancelled);
}

KIN_TEST(a_cancel_meets_a_scope_that_is_opened, "NSM-3 NSM:6.2 B12")
{
    RUN_ALL(cancelled_at_the_same_moment);
}

/* G105 T058 T059: the first cause wins and stays; who came by it hears it too. Five shapes. */
struct cause {
    _Atomic int started, checked, go_on;
    int expected;
};

static int keep_the_cause(void *arg)
{
    struct cause *cause = arg;
    atomic_fetch_add(&cause->started, 1);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin_cancel_reason(), cause->expected);
    atomic_fetch_add(&cause->checked, 1);
    while (atomic_load(&cause->go_on) == 0)
        kin_ignore(kin_yield());
    EXPECT_EQ(kin_cancel_reason(), cause->expected);
    return KIN_CANCELLED;
}

static int keep_the_cause_below(void *arg)
{
    KIN_NURSERY(inner);
    int rc = kin_spawn(&inner, keep_the_cause, arg);
    EXPECT(rc == 0 || rc == KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_cancel_reason(), ((struct cause *)arg)->expected);
    return KIN_CANCELLED;
}

/* Waits until the child of n has begun; false: the deadline of n came before. */
static bool await_the_child(struct kin_nursery *n, struct cause *cause)
{
    while (atomic_load(&cause->started) == 0 &&
           kin_nursery_state(n) != KIN_NURSERY_CANCELLED) /* ends: it begins, or nobody is there */
        kin_ignore(kin_yield());
    return atomic_load(&cause->started) != 0;
}

/* One shape; false: its deadline came before the child began. */
static bool first_cause(int shape, kin_time deadline)
{
    struct cause cause = {.expected = -EPIPE};
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    struct kin_task_ref ref;
    if (shape == 1)
        options.deadline = deadline;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    kin_task_fn *body = shape == 4 ? keep_the_cause_below : keep_the_cause;
    cause.expected = shape == 1 ? KIN_TIMEOUT : shape == 2 ? -EIO :
                     shape == 3 ? KIN_CANCELLED : -EPIPE;
    int rc = kin_spawn_with(&n, NULL, body, &cause, 0, &ref);
    EXPECT(rc == 0 || (shape == 1 && rc == KIN_NOSCOPE));
    if (!await_the_child(&n, &cause)) {
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_TIMEOUT);
        return false;
    }
    if (shape == 0 || shape == 4)
        kin_nursery_cancel(&n, -EPIPE);
    if (shape == 2)
        EXPECT_EQ(kin_spawn(&n, fail_io, NULL), 0); /* the first error */
    if (shape == 3)
        EXPECT_EQ(kin_task_cancel(ref), 0);
    while (atomic_load(&cause.checked) == 0)
        kin_ignore(kin_yield());
    kin_nursery_cancel(&n, -EPROTO); /* later ones change nothing */
    EXPECT_EQ(kin_task_cancel(ref), 0);
    atomic_store(&cause.go_on, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), shape == 3 ? -EPROTO : cause.expected);
    return true;
}

static int first_causes(void *arg)
{
    (void)arg;
    for (int shape = 0; shape < 5; shape++) {
        int64_t ms = 2;
        while (!first_cause(shape, kin_after(KIN_MS(ms)))) /* ends: some child begins in time */
            ms *= 2;
    }
    return 0;
}

/* G106: several causes at once: one of them wins, and everybody hears the same. */
struct race {
    struct kin_nursery *n;
    _Atomic int started, heard[3];
    int reason;
};

static void *cancel_it(void *arg)
{
    struct race *race = arg;
    kin_nursery_cancel(race->n, race->reason);
    return NULL;
}

static int hear(void *arg)
{
    _Atomic int *heard = arg;
    int rc = kin_sleep(KIN_NEVER);
    EXPECT_EQ(rc, KIN_CANCELLED);
    atomic_store(heard, kin_cancel_reason());
    return rc;
}

static int racing_causes(void *arg)
{
    (void)arg;
    for (int i = 0; i < 30; i++) {
        struct race races[2] = {{.reason = -EPIPE}, {.reason = -EIO}};
        _Atomic int heard[3] = {0};
        pthread_t threads[2];
        KIN_NURSERY(n);
        for (int k = 0; k < 3; k++)
            EXPECT_EQ(kin_spawn(&n, hear, &heard[k]), 0);
        for (int k = 0; k < 10; k++)
            kin_ignore(kin_yield());
        for (int k = 0; k < 2; k++) {
            races[k].n = &n;
            EXPECT_EQ(pthread_create(&threads[k], NULL, cancel_it, &races[k]), 0);
        }
        kin_mask();
        while (kin_nursery_state(&n) == KIN_NURSERY_OPEN)
            EXPECT_EQ(kin_sleep(kin_after(KIN_US(20))), 0);
        kin_unmask();
        int rc = kin_nursery_join(&n, NULL);
        EXPECT(rc == -EPIPE || rc == -EIO);
        for (int k = 0; k < 3; k++) /* 0: it was cancelled before it ran */
            EXPECT(atomic_load(&heard[k]) == rc || atomic_load(&heard[k]) == 0);
        for (int k = 0; k < 2; k++)
            EXPECT_EQ(pthread_join(threads[k], NULL), 0);
    }
    return 0;
}

KIN_TEST(the_first_cause_wins_and_stays, "B12 D1 NSM:4.2")
{
    RUN_ALL(first_causes);
}

KIN_TEST(of_causes_that_threads_bring_one_wins, "B12 D1 NSM:4.2")
{
    RUN_ALL(racing_causes);
}

/* ---- shields ---- */

/* G107 T015 T020: a shield on, off and on again; inside of another; it does not protect from
 * what is inside of it. */
struct shielded {
    _Atomic int started, asked;
};

static int shield(void *arg)
{
    struct shielded *scene = arg;
    kin_mask();
    atomic_store(&scene->started, 1);
    while (atomic_load(&scene->asked) == 0)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(50))), 0); /* on */
    kin_unmask();
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(50))), KIN_CANCELLED); /* off */
    kin_mask();
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(50))), 0); /* on again */
    {
        KIN_NURSERY(n); /* a scope of its own in there works, */
        EXPECT_EQ(kin_spawn(&n, sleep_for_ever, NULL), 0);
        kin_nursery_cancel(&n, -EIO); /* and is cancelled by its own cancel */
        EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    }
    EXPECT_EQ(kin_cancel_reason(), -EPIPE); /* what is outside is still known */
    kin_unmask();
    return KIN_CANCELLED;
}

static int shields(void *arg)
{
    struct shielded scene = {0};
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, shield, &scene), 0);
    await(&scene.started, 1);
    kin_nursery_cancel(&n, -EPIPE);
    atomic_store(&scene.asked, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    return 0;
}

/* T017 T028: tasks that sleep behind a shield stay where they are, and are ended when it goes. */
static int unshield_sleepers(void *arg)
{
    struct shielded *scene = arg;
    _Atomic int sleeping = 0;
    struct kin_nursery n;
    kin_mask();
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_spawn(&n, sleep_for_ever, &sleeping), 0);
    await(&sleeping, 3);
    atomic_store(&scene->started, 1);
    while (atomic_load(&scene->asked) == 0)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_OPEN);
    kin_unmask();
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return KIN_CANCELLED;
}

static int unshield(void *arg)
{
    struct shielded scene = {0};
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, unshield_sleepers, &scene), 0);
    await(&scene.started, 1);
    kin_nursery_cancel(&n, -EPIPE);
    atomic_store(&scene.asked, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    return 0;
}

/* T089 T045: deadlines hold behind a shield; the effective one is the tightest of all. */
static int shielded_deadlines(void *arg)
{
    kin_time soon = kin_after(KIN_MS(1)), late = kin_after(KIN_SEC(100));
    (void)arg;
    kin_mask();
    EXPECT_EQ(kin_deadline_push(late), KIN_NEVER);
    EXPECT_EQ(kin_deadline_push(KIN_NEVER), late); /* what is in force */
    EXPECT_EQ(kin_deadline_push(soon), late);
    EXPECT_EQ(kin_deadline_push(late), soon);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_TIMEOUT);
    kin_deadline_pop(KIN_NEVER);
    kin_unmask();
    return 0;
}

KIN_TEST(shields_hold_cancels_back_and_deadlines_not, "B7 B12 N2001")
{
    RUN_ALL(shields, unshield, shielded_deadlines);
}

/* ---- errors ---- */

/* T001: an error in the body ends the scope: its children are cancelled, then it comes out. */
static int fail_in_the_body(_Atomic int *cancelled)
{
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, fail_pipe_when_cancelled, cancelled), 0);
    await(cancelled, 1);
    return -EPROTO; /* the net cancels and joins */
}

static int body_errors(void *arg)
{
    _Atomic int cancelled = 0;
    (void)arg;
    EXPECT_EQ(fail_in_the_body(&cancelled), -EPROTO);
    EXPECT(!kin_cancelled());
    return 0;
}

/* T002 T005 T013: a child's error comes out of the join; further ones are listed; cancellations are
 * absorbed by the scope that made them. */
static int child_errors(void *arg)
{
    _Atomic int started = 0;
    struct kin_outcome errors[4];
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, fail_pipe_when_cancelled, &started), 0);
    EXPECT_EQ(kin_spawn(&n, sleep_for_ever, &started), 0); /* ends cancelled: no error */
    await(&started, 2);
    EXPECT_EQ(kin_spawn(&n, fail_io, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO); /* the first */
    EXPECT_EQ(kin_nursery_errors(&n, errors, 4), 2);
    EXPECT_EQ(errors[0].status, -EIO);
    EXPECT_EQ(errors[1].status, -EPIPE);
    return 0;
}

/* T007: a child that fails wakes its parent, which waits elsewhere inside of the scope. */
static int child_wakes_parent(void *arg)
{
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, fail_io, NULL), 0);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EIO);
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(10))), 0);
    return 0;
}

KIN_TEST(errors_come_out_of_the_scope, "NCG-2 NSM-5 NSM:8.1 B3 B4")
{
    RUN_ALL(body_errors, child_errors, child_wakes_parent);
}

/* ---- cancel scopes ---- */

/* T011 T012: two cancels are one; every later wait reports it. */
static int level_triggered(void *arg)
{
    _Atomic int *started = arg;
    atomic_fetch_add(started, 1);
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    return KIN_CANCELLED;
}

static int cancel_twice(void *arg)
{
    _Atomic int started = 0;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, level_triggered, &started), 0);
    await(&started, 1);
    kin_nursery_cancel(&n, 0);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    kin_nursery_cancel(&n, 0);
    EXPECT(!kin_cancelled());
    return 0;
}

/* T003: tasks take turns at checkpoints only. */
static _Atomic int turn;

static int count_without_a_check(void *arg)
{
    int *mine = arg;
    for (int i = 0; i < 3; i++) {
        int before = atomic_load(&turn);
        for (volatile int k = 0; k < 1000; k++) {
        }
        EXPECT_EQ(atomic_load(&turn), before); /* nobody came in between */
        atomic_store(&turn, before + 1);
        ++*mine;
        kin_ignore(kin_yield());
    }
    return 0;
}

static int interleave(void *arg)
{
    int counts[2] = {0, 0};
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn(&n, count_without_a_check, &counts[0]), 0);
    EXPECT_EQ(kin_spawn(&n, count_without_a_check, &counts[1]), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(counts[0] + counts[1], 6);
    return 0;
}

/* T018: a deadline that has passed, that comes, and that never does. */
static int basic_timeouts(void *arg)
{
    const kin_time deadlines[] = {1, kin_after(KIN_MS(1)), kin_after(KIN_SEC(100))};
    (void)arg;
    for (int i = 0; i < 3; i++) {
        KIN_NURSERY(n, .deadline = deadlines[i]);
        int rc = kin_sleep(kin_after(i == 2 ? KIN_MS(1) : KIN_SEC(100)));
        EXPECT_EQ(rc, i == 2 ? 0 : KIN_CANCELLED);
        EXPECT_EQ(kin_nursery_join(&n, NULL), i == 2 ? 0 : KIN_TIMEOUT);
    }
    return 0;
}

/* T019: when two are triggered the outer one is told; one that was left before it came delivers
 * nothing. */
static int nested_triggers(void *arg)
{
    struct kin_nursery outer, inner;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&outer, NULL), 0);
    EXPECT_EQ(kin_nursery_open(&inner, NULL), 0);
    kin_nursery_cancel(&inner, -EIO);
    kin_nursery_cancel(&outer, -EPIPE);
    EXPECT_EQ(kin_cancel_reason(), -EPIPE);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), -EIO);
    EXPECT(kin_cancelled());
    EXPECT_EQ(kin_nursery_join(&outer, NULL), -EPIPE);
    EXPECT(!kin_cancelled());
    EXPECT_EQ(kin_nursery_open(&inner, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&inner, NULL), 0);
    kin_nursery_cancel(&inner, 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(10))), 0);
    return 0;
}

/* T021: a handle may be opened again after its join, and is as new. */
static int reuse_a_handle(void *arg)
{
    struct kin_nursery n;
    int one = 1;
    (void)arg;
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
        EXPECT_EQ(kin_nursery_state(&n), KIN_NURSERY_OPEN);
        EXPECT_EQ(kin_spawn(&n, i == 1 ? fail_io : return_it, &one), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), i == 1 ? -EIO : 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_STALE);
        EXPECT_EQ(kin_nursery_errors(&n, NULL, 0), i == 1);
    }
    return 0;
}

KIN_TEST(cancel_scopes_behave, "B12 NSM:4.2 N2001 B11")
{
    RUN_ALL(cancel_twice, basic_timeouts, nested_triggers, reuse_a_handle);
    EXPECT_EQ(run_reporting(1, interleave, NULL, NULL), 0);
}

/* T022 T023 T024 T025 T026: scopes that are left in the wrong order, or not at all. */
static int join_the_outer_first(void *arg)
{
    struct kin_nursery outer, inner;
    (void)arg;
    kin_ignore(kin_nursery_open(&outer, NULL));
    kin_ignore(kin_nursery_open(&inner, NULL));
    return kin_nursery_join(&outer, NULL);
}

static int leave_one_open(void *arg)
{
    static struct kin_nursery n;
    (void)arg;
    return kin_nursery_open(&n, NULL);
}

static int join_a_foreign_one(void *arg)
{
    return kin_nursery_join(arg, NULL);
}

static int let_a_child_join(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    kin_ignore(kin_spawn(&n, join_a_foreign_one, &n));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(scopes_that_are_misnested_are_found, "NSM-4 NSM-1 NSM-2")
{
    EXPECT_ABORT("inner nurseries are joined before outer ones") {
        kin_ignore(run_reporting(1, join_the_outer_first, NULL, NULL));
    }
    EXPECT_ABORT("a nursery was left open") {
        kin_ignore(run_reporting(1, leave_one_open, NULL, NULL));
    }
    EXPECT_ABORT("only the task that opened a nursery joins it") {
        kin_ignore(run_reporting(1, let_a_child_join, NULL, NULL));
    }
}

/* ---- what is counted, and what is cleaned up ---- */

/* T009 G070: counters are exact when nobody moves; a worker counts an end right behind the task
 * that it wakes. */
static int exact_counters(void *arg)
{
    _Atomic int started = 0;
    struct kin_stats stats;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.tasks_live, 1);
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(kin_spawn(&n, sleep_for_ever, &started), 0);
    await(&started, 20);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.tasks_live, 21);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    do {
        kin_ignore(kin_yield());
        EXPECT_EQ(kin_stats_get(&stats), 0);
    } while (stats.tasks_live != 1);
    EXPECT_EQ(stats.timers, 0);
    return 0;
}

/* T057 N011: what a cancelled task holds is given back before the join, the newest first. */
static _Atomic int closed;

static void close_nth(void *arg)
{
    EXPECT_EQ(atomic_fetch_add(&closed, 1), (int)(intptr_t)arg);
}

static int hold_three(void *arg)
{
    for (intptr_t i = 2; i >= 0; i--)
        EXPECT_EQ(kin_defer(close_nth, (void *)i), 0);
    return sleep_for_ever(arg);
}

static int destroyed_promptly(void *arg)
{
    _Atomic int started = 0;
    KIN_NURSERY(n);
    (void)arg;
    atomic_store(&closed, 0);
    EXPECT_EQ(kin_spawn(&n, hold_three, &started), 0);
    await(&started, 1);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(atomic_load(&closed), 3);
    return 0;
}

/* T055: ten thousand scopes inside of each other in one task. */
static int very_deep(void *arg)
{
    enum { DEEP = 10000 };
    static struct kin_nursery n[DEEP];
    (void)arg;
    for (int i = 0; i < DEEP; i++)
        EXPECT_EQ(kin_nursery_open(&n[i], NULL), 0);
    kin_nursery_cancel(&n[0], -EPIPE);
    for (int i = DEEP - 1; i >= 0; i--)
        EXPECT_EQ(kin_nursery_join(&n[i], NULL), i == 0 ? -EPIPE : KIN_CANCELLED);
    EXPECT(!kin_cancelled());
    return 0;
}

KIN_TEST(what_is_counted_and_held_is_exact, "NCG-3 NSM:6.3 NSM-3")
{
    RUN_ALL(exact_counters, destroyed_promptly, very_deep);
}

/* ---- sleeping and moving on ---- */

/* T086 T087 T088 T090 D043 D045 T032: sleeps of every length, with and without a scope around. */
static int sleeps(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_sleep(0), 0);
    EXPECT_EQ(kin_sleep(-5), 0);
    EXPECT_EQ(kin_sleep(kin_now()), 0);
    kin_time at = kin_after(KIN_MS(1));
    EXPECT_EQ(kin_sleep(at), 0);
    EXPECT_GE(kin_now(), at);
    {
        KIN_WITHIN(KIN_MS(1)); /* counts from here */
        kin_time begun = kin_now();
        EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_TIMEOUT);
        EXPECT_GE(kin_now(), begun); /* and then one moves on */
    }
    EXPECT_EQ(kin_sleep(kin_after(KIN_US(10))), 0);
    return 0;
}

KIN_TEST(sleeps_and_moves_on, "N2001")
{
    RUN_ALL(sleeps);
}

/* ---- bundles ---- */

/* D001 D002 D003 D004 D005 D006 D009 D010 D011 N012 N014: bundles of none, one and two, that have
 * ended, are cancelled at once or while they sleep, and are used again. */
static int bundles(void *arg)
{
    int one = 1;
    (void)arg;
    for (int count = 0; count <= 2; count++) {
        for (int way = 0; way < 4; way++) {
            _Atomic int started = 0;
            KIN_NURSERY(n);
            for (int i = 0; i < count; i++)
                EXPECT_EQ(way < 2 ? kin_spawn(&n, return_it, &one)
                                  : kin_spawn(&n, sleep_for_ever, &started),
                          0);
            if (way == 1) /* ended by now, as a rule */
                EXPECT_EQ(kin_sleep(kin_after(KIN_US(100))), 0);
            if (way == 3)
                await(&started, count);
            if (way >= 2)
                kin_nursery_cancel(&n, 0);
            EXPECT_EQ(kin_nursery_join(&n, NULL), way >= 2 ? KIN_CANCELLED : 0);
        }
    }
    return 0;
}

/* D012 D013: a wait for one with a deadline that comes, or does not; then the rest is ended. */
static int bundle_with_a_deadline(void *arg)
{
    int one = 1;
    struct kin_task_ref quick, slow;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, return_it, &one, 0, &quick), 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, sleep_for_ever, NULL, 0, &slow), 0);
    EXPECT_EQ(kin_task_join(&n, quick, NULL, kin_after(KIN_SEC(100))), 0);
    EXPECT_EQ(kin_task_join(&n, slow, NULL, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

/* D049 D050 D051 N013: cancelled calls go on being cancelled; what is over cannot be; one that has
 * cancellation disabled is waited for. */
static int disable_for_a_while(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    kin_mask();
    int rc = kin_sleep(kin_after(KIN_MS(3)));
    kin_unmask();
    return rc == 0 ? 11 : rc; /* it had its time */
}

static int cancel_disabled(void *arg)
{
    _Atomic int started = 0;
    struct kin_task_ref ref;
    struct kin_outcome how;
    KIN_NURSERY(n);
    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, disable_for_a_while, &started, 0, &ref), 0);
    await(&started, 1);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    int rc = kin_task_join(&n, ref, &how, kin_after(KIN_US(1)));
    EXPECT(rc == KIN_TIMEOUT || rc == 0);
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.value, 11);
    EXPECT_EQ(kin_task_cancel(ref), 0); /* over, and still known */
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_task_cancel(ref), KIN_STALE);
    return 0;
}

KIN_TEST(bundles_are_nurseries, "NSM-2 B6 B10 SCHED:15.2.2")
{
    RUN_ALL(bundles, bundle_with_a_deadline, cancel_disabled);
}
