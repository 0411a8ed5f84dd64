/* SPDX-License-Identifier: MIT */
/*
 * Goal: what is said of a stuck task is true and complete: name, spawn site, what it waits for and
 *       where it stands; or on which worker it runs. One that only joins is not stuck.
 * Method: white box: tasks in every stage are looked at under the lock of their nursery.
 */
#include "api/in_runtime.h"

#include "scope/scope.h"
#include "scope/stuck.h"

struct subject {
    _Atomic int started, let_go;
    uintptr_t calls[2]; /* return addresses of its calls, innermost first */
};

/* Looks at a task by its name. */
static bool look(struct kin_nursery *n, struct kin_task_ref ref, struct kin__stuck *stuck)
{
    struct kin__scope *scope = kin__scope_lock(kin__handle_of(n));
    EXPECT(scope);
    bool is_stuck = kin__stuck_look(stuck, kin__task_find(ref.id));
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    kin__stuck_describe(stuck);
    return is_stuck;
}

static int spawn_named(struct kin_nursery *n, kin_task_fn *fn, void *arg, struct kin_task_ref *ref)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.name = "subject";
    return kin_spawn_with(n, &options, fn, arg, 0, ref);
}

__attribute__((noinline)) static int sleep_inside(struct subject *subject)
{
    subject->calls[0] = (uintptr_t)__builtin_return_address(0);
    atomic_store(&subject->started, 1);
    int rc = kin_sleep(KIN_NEVER);
    __asm__ volatile("" : "+r"(rc)); /* no tail call */
    return rc;
}

static int sleep_deep(void *arg)
{
    struct subject *subject = arg;
    subject->calls[1] = (uintptr_t)__builtin_return_address(0);
    int rc = sleep_inside(subject);
    __asm__ volatile("" : "+r"(rc));
    return rc;
}

static int look_at_a_sleeper(void *arg)
{
    static struct kin__stuck stuck;
    struct subject subject = {0};
    struct kin_task_ref ref;
    char expected[64];
    KIN_NURSERY(n);
    (void)arg;
    kin__stuck_init(&stuck);
    EXPECT_EQ(spawn_named(&n, sleep_deep, &subject, &ref), 0);
    await(&subject.started, 1);
    do { /* until it is parked */
        kin_ignore(kin_yield());
        EXPECT(look(&n, ref, &stuck));
    } while (!strstr(stuck.text, "waits for"));
    EXPECT_EQ(stuck.task, kin_task_id(ref));
    snprintf(expected, sizeof expected, "task %llu (subject), spawned at 0x",
             (unsigned long long)kin_task_id(ref));
    EXPECT(strncmp(stuck.text, expected, strlen(expected)) == 0);
    EXPECT(strstr(stuck.text, "does not react to its cancellation: it waits for sleep\n"));
    unsigned at = 0;
    for (unsigned i = 0; i < stuck.frame_count && at < 2; i++)
        at += stuck.frames[i] == subject.calls[at];
    EXPECT_EQ(at, 2); /* both calls of the task, in order */
    snprintf(expected, sizeof expected, "\n  %p", (void *)subject.calls[0]);
    EXPECT(strstr(stuck.text, expected));
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_parked_task_is_described_with_its_calls, "N2002 B7")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_reporting(workers, look_at_a_sleeper, NULL, NULL), 0);
}

static int spin(void *arg)
{
    struct subject *subject = arg;
    atomic_store(&subject->started, 1);
    while (atomic_load(&subject->let_go) == 0) {
    }
    return 0;
}

static int look_at_one_that_runs(void *arg)
{
    static struct kin__stuck stuck;
    struct subject subject = {0};
    struct kin_task_ref ref;
    KIN_NURSERY(n);
    (void)arg;
    kin__stuck_init(&stuck);
    EXPECT_EQ(spawn_named(&n, spin, &subject, &ref), 0);
    while (atomic_load(&subject.started) == 0) /* another worker takes it */
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(50))), 0);
    EXPECT(look(&n, ref, &stuck));
    EXPECT(strstr(stuck.text, "it runs on worker "));
    EXPECT_EQ(stuck.frame_count, 0); /* where it stands is not to be had */
    atomic_store(&subject.let_go, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

static int yield_until_let_go(void *arg)
{
    struct subject *subject = arg;
    atomic_store(&subject->started, 1);
    while (atomic_load(&subject->let_go) == 0)
        kin_ignore(kin_yield());
    return 0;
}

static int look_at_one_that_is_runnable(void *arg)
{
    static struct kin__stuck stuck;
    struct subject subject = {0};
    struct kin_task_ref ref;
    KIN_NURSERY(n);
    (void)arg;
    kin__stuck_init(&stuck);
    EXPECT_EQ(spawn_named(&n, yield_until_let_go, &subject, &ref), 0);
    EXPECT(look(&n, ref, &stuck)); /* it has not begun */
    EXPECT(strstr(stuck.text, "it is runnable"));
    await(&subject.started, 1);
    EXPECT(look(&n, ref, &stuck)); /* it has yielded to this one */
    EXPECT(strstr(stuck.text, "it is runnable"));
    EXPECT_EQ(stuck.frame_count, 0);
    atomic_store(&subject.let_go, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_task_that_is_not_parked_is_said_to_run_or_to_be_runnable, "N2002")
{
    EXPECT_EQ(run_reporting(2, look_at_one_that_runs, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(1, look_at_one_that_is_runnable, NULL, NULL), 0);
}

/* ---- those that only join ---- */

static int join_one(void *arg)
{
    struct subject *subject = arg;
    KIN_NURSERY(inner);
    EXPECT_EQ(kin_spawn(&inner, yield_until_let_go, subject), 0);
    return kin_nursery_join(&inner, NULL);
}

static int join_one_that_has_begun(void *arg)
{
    struct subject *subject = arg;
    KIN_NURSERY(inner);
    EXPECT_EQ(kin_spawn(&inner, yield_until_let_go, subject), 0);
    await(&subject->started, 1);
    return kin_nursery_join(&inner, NULL);
}

static int look_at_one_that_joins(void *arg)
{
    static struct kin__stuck stuck;
    kin_task_fn *const bodies[] = {join_one, join_one_that_has_begun};
    (void)arg;
    kin__stuck_init(&stuck);
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        struct subject subject = {0};
        struct kin_task_ref ref;
        KIN_NURSERY(n);
        EXPECT_EQ(spawn_named(&n, bodies[i], &subject, &ref), 0);
        await(&subject.started, 1);
        while (look(&n, ref, &stuck)) /* until it is in its join: parked, or lending its stack */
            kin_ignore(kin_yield());
        for (int k = 0; k < 20; k++) {
            EXPECT(!look(&n, ref, &stuck));
            kin_ignore(kin_yield());
        }
        atomic_store(&subject.let_go, 1);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return 0;
}

KIN_TEST(a_task_that_only_joins_is_not_stuck, "B7 NSM-2")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_reporting(workers, look_at_one_that_joins, NULL, NULL), 0);
}

/* ---- a look while the task is being woken ---- */

static int wake_often(void *arg)
{
    struct subject *subject = arg;
    atomic_store(&subject->started, 1);
    while (atomic_load(&subject->let_go) == 0)
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(20))), 0);
    return 0;
}

static int look_all_the_time(void *arg)
{
    static struct kin__stuck stuck;
    struct subject subject = {0};
    struct kin_task_ref ref;
    const int rounds = 3000 / (int)kin_test_scale();
    KIN_NURSERY(n);
    (void)arg;
    kin__stuck_init(&stuck);
    EXPECT_EQ(spawn_named(&n, wake_often, &subject, &ref), 0);
    for (int i = 0; i < rounds; i++) {
        EXPECT(look(&n, ref, &stuck));
        EXPECT(strstr(stuck.text, "it waits for sleep") || stuck.frame_count == 0);
        if (i % 16 == 0)
            kin_ignore(kin_yield());
    }
    atomic_store(&subject.let_go, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_task_may_go_on_while_it_is_looked_at, "N2002 F1")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_reporting(workers, look_all_the_time, NULL, NULL), 0);
}
