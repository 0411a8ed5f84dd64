/* SPDX-License-Identifier: MIT */
/*
 * Goal: what is said of a stuck task is true and complete: name, spawn site, what it waits for and
 *       where it stands; or on which worker it runs. One that only joins is not stuck.
 * Method: white box: tasks in every stage are looked at under the lock of their nursery.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"
#include "scope/scope.h"
#include "scope/stuck.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>

/* ThreadSanitizer keeps signals back until the thread makes a call that it knows, and the kernel
 * tells the state of an emulator. */
#if defined(__SANITIZE_THREAD__) || KIN__TSAN
#define ANSWERS false
#else
#define ANSWERS (getenv("KIN_EMULATED") == NULL)
#endif

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
    if (is_stuck) /* nothing is named under the lock: that reads line tables */
        EXPECT(!strstr(stuck->text, "spawned at") && !strchr(stuck->text, '\n'));
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    if (is_stuck) {
        kin__stuck_describe(stuck);
        EXPECT(strstr(stuck->text, ", spawned at ") != NULL);
    }
    return is_stuck;
}

/* The worker that runs a task; NULL: none does. */
static const struct kin__worker *thread_of(struct kin_task_ref ref)
{
    const struct kin__sched *sched = kin__task_sched(kin__task_self());
    for (unsigned i = 0; i < sched->workers_max; i++)
        if (kin__load_relaxed(&sched->workers[i].current) == kin__task_find(ref.id))
            return &sched->workers[i];
    return NULL;
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
    char number[32];
    snprintf(expected, sizeof expected, "%s (subject), spawned at ",
             said(kin_task_id(ref), number, sizeof number));
    EXPECT(strncmp(stuck.text, expected, strlen(expected)) == 0);
    EXPECT(strstr(stuck.text, "does not react to its cancellation: it waits for sleep\n"));
    unsigned at = 0;
    for (unsigned i = 0; i < stuck.frame_count && at < 2; i++)
        at += stuck.frames[i] == subject.calls[at];
    EXPECT_EQ(at, 2); /* both calls of the task, in order */
    EXPECT(strstr(stuck.text, "\n  sleep_deep (stuck_test.c:"));
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_parked_task_is_described_with_its_calls, "N2002 B7")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2)
        EXPECT_EQ(run_reporting(workers, look_at_a_sleeper, NULL, NULL), 0);
}

static __attribute__((noinline)) int spin(void *arg)
{
    struct subject *subject = arg;
    atomic_store(&subject->started, 1);
    while (atomic_load(&subject->let_go) == 0) {
    }
    return 0;
}

/* The same with a nursery open, in which a child waits on a stack of its own. */
static int spin_beside_a_child(void *arg)
{
    struct subject child = {0};
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, sleep_deep, &child), 0);
    while (atomic_load(&child.started) == 0) /* ends: the child begins, here or elsewhere */
        EXPECT_EQ(kin_yield(), 0);
    int rc = spin(arg);
    __asm__ volatile("" : "+r"(rc)); /* no tail call */
    kin_nursery_cancel(&n, 0);
    kin_ignore(kin_nursery_join(&n, NULL));
    return rc;
}

static int look_at_one_that_runs(void *arg)
{
    static struct kin__stuck stuck;
    struct subject subject = {0};
    struct kin_task_ref ref;
    KIN_NURSERY(n);
    kin__stuck_init(&stuck);
    EXPECT_EQ(spawn_named(&n, arg ? spin_beside_a_child : spin, &subject, &ref), 0);
    while (atomic_load(&subject.started) == 0) /* another worker takes it */
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(50))), 0);
    do { /* ends: its thread is given a CPU and answers */
        EXPECT(look(&n, ref, &stuck));
        EXPECT(strstr(stuck.text, "it runs on worker "));
    } while (stuck.frame_count == 0 && ANSWERS);
    printf("%s\n", stuck.text);
    EXPECT(!ANSWERS || strstr(stuck.text, "\n  spin (stuck_test.c:"));
    atomic_store(&subject.let_go, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

static int pipe_to_hang[2];

/* In a system call that nothing but the byte ends; a signal would. */
static int hang(void *arg)
{
    struct subject *subject = arg;
    struct pollfd fd = {pipe_to_hang[0], POLLIN, 0};
    atomic_store(&subject->started, 1);
    int rc = poll(&fd, 1, -1);
    __asm__ volatile("" : "+r"(rc)); /* no tail call */
    return rc == 1 ? 0 : -EIO;
}

static int look_at_one_that_hangs(void *arg)
{
    static struct kin__stuck stuck;
    struct subject subject = {0};
    struct kin_task_ref ref;
    struct pollfd fd = {-1, 0, 0};
    KIN_NURSERY(n);
    (void)arg;
    kin__stuck_init(&stuck);
    EXPECT_EQ(pipe(pipe_to_hang), 0);
    EXPECT_EQ(spawn_named(&n, hang, &subject, &ref), 0);
    while (atomic_load(&subject.started) == 0) /* another worker takes it */
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(50))), 0);
    while (!kin__thread_is_asleep(&thread_of(ref)->thread)) /* ends: it calls poll */
        EXPECT_EQ(poll(&fd, 1, 1), 0);
    do {
        EXPECT(look(&n, ref, &stuck));
        EXPECT(strstr(stuck.text, "it runs on worker "));
    } while (!strstr(stuck.text, "\n  hang (stuck_test.c:"));
    printf("%s\n", stuck.text);
    EXPECT_EQ(write(pipe_to_hang[1], "", 1), 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0); /* it was not disturbed */
    close(pipe_to_hang[0]);
    close(pipe_to_hang[1]);
    return 0;
}

KIN_TEST(a_task_in_a_system_call_is_seen_and_not_disturbed, "N2002 B7")
{
    if (getenv("KIN_EMULATED") || kin__is_under_valgrind())
        KIN_SKIP("the registers that the kernel tells are those of an emulator");
    EXPECT_EQ(run_reporting(2, look_at_one_that_hangs, NULL, NULL), 0);
}

static void take_sigprof(int signo)
{
    (void)signo;
}

static int look_while_somebody_profiles(void *arg)
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
    EXPECT_EQ(stuck.frame_count, 0);
    atomic_store(&subject.let_go, 1);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_handler_of_the_program_is_left_alone, "N2002")
{
    struct sigaction mine = {.sa_handler = take_sigprof}, now;
    (void)unsetenv("KIN_HARD"); /* one runs, and another one looks */
    EXPECT_EQ(sigaction(SIGPROF, NULL, &now), 0);
    EXPECT(now.sa_handler == SIG_DFL);
    if (ANSWERS) { /* and so is the default, afterwards */
        EXPECT_EQ(run_reporting(2, look_at_one_that_runs, NULL, NULL), 0);
        EXPECT_EQ(sigaction(SIGPROF, NULL, &now), 0);
        EXPECT(now.sa_handler == SIG_DFL);
    }
    EXPECT_EQ(sigaction(SIGPROF, &mine, NULL), 0);
    EXPECT_EQ(run_reporting(2, look_while_somebody_profiles, NULL, NULL), 0);
    EXPECT_EQ(sigaction(SIGPROF, NULL, &now), 0);
    EXPECT(now.sa_handler == take_sigprof);
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
    bool has_child = true;
    (void)unsetenv("KIN_HARD"); /* one runs, and another one looks */
    EXPECT_EQ(run_reporting(2, look_at_one_that_runs, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, look_at_one_that_runs, &has_child, NULL), 0);
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
        EXPECT(strstr(stuck.text, "it waits for sleep") ||
               strstr(stuck.text, "it runs on worker") || stuck.frame_count == 0);
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
