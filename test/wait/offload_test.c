/* SPDX-License-Identifier: MIT */
/*
 * Goal: calls that block a thread: order, limits, who may leave and who may not, threads that end.
 * Method: white box: jobs that wait for a flag of the test, pools of one or two threads.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"
#include "wait/offload.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

/* A job that starts, tells so, and waits until it may go. */
struct gate {
    _Atomic int started, may_go, done;
};

static void wait_at(void *arg)
{
    struct gate *gate = arg;
    atomic_fetch_add(&gate->started, 1);
    while (!atomic_load(&gate->may_go))
        usleep(100);
    atomic_fetch_add(&gate->done, 1);
}

struct caller {
    struct gate *gate;
    kin_time deadline;
    _Atomic int status;
};

static int call_it(void *arg)
{
    struct caller *caller = arg;
    caller->status = kin__offload(KIN__OFFLOAD_CALL, wait_at, caller->gate, caller->deadline);
    return 0;
}

/* ---- running ---- */

static void add_one(void *arg)
{
    (*(int *)arg)++;
}

static int call_many(void *arg)
{
    int count = 0;
    (void)arg;
    for (int i = 0; i < 200; i++) {
        EXPECT_EQ(kin__offload(KIN__OFFLOAD_FILE, add_one, &count, KIN_NEVER), 0);
        EXPECT_EQ(count, i + 1);
    }
    EXPECT_EQ(kin__offload_threads(), 1); /* the same one each time */
    return 0;
}

KIN_TEST(a_job_has_run_when_the_call_returns, "")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        kin__offload_enter();
        EXPECT_EQ(run_reporting(workers, call_many, NULL, NULL), 0);
        kin__offload_leave();
        EXPECT_EQ(kin__offload_threads(), 0);
    }
}

KIN_TEST(outside_a_task_there_is_nothing_to_park, "N1002")
{
    int count = 0;
    EXPECT_EQ(kin__offload(KIN__OFFLOAD_FILE, add_one, &count, KIN_NEVER), KIN_NOTASK);
    EXPECT_EQ(count, 0);
}

#define CROWD 300

static void add_atomic(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
}

static int call_a_few(void *arg)
{
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin__offload(i % 2 ? KIN__OFFLOAD_FILE : KIN__OFFLOAD_CALL, add_atomic, arg,
                               KIN_NEVER), 0);
    return 0;
}

static int call_in_a_crowd(void *arg)
{
    _Atomic int count = 0;
    (void)arg;
    KIN_NURSERY(n);
    for (int i = 0; i < CROWD; i++)
        EXPECT_EQ(kin_spawn(&n, call_a_few, &count), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(count, 5 * CROWD);
    EXPECT_LE(kin__offload_threads(), 6);
    return 0;
}

KIN_TEST(more_callers_than_threads_all_get_their_turn, "")
{
    kin__offload_limit(3, KIN_SEC(10));
    run_on_few(call_in_a_crowd, NULL);
}

/* ---- order ---- */

struct place {
    _Atomic int *turn;
    int mine;
};

static void take_turn(void *arg)
{
    struct place *place = arg;
    place->mine = atomic_fetch_add(place->turn, 1);
}

static int take_place(void *arg)
{
    struct place *place = arg;
    return kin__offload(KIN__OFFLOAD_CALL, take_turn, place, KIN_NEVER);
}

static int stand_in_line(void *arg)
{
    struct gate gate = {0};
    struct caller first = {&gate, KIN_NEVER, -1};
    _Atomic int turn = 0;
    struct place places[20];
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, call_it, &first), 0);
    await(&gate.started, 1);
    for (int i = 0; i < 20; i++) {
        places[i] = (struct place){&turn, -1};
        EXPECT_EQ(kin_spawn(&n, take_place, &places[i]), 0);
        for (int j = 0; j < 3; j++)
            EXPECT_EQ(kin_yield(), 0); /* with one worker it is in line now */
    }
    atomic_store(&gate.may_go, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(first.status, 0);
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(places[i].mine, i);
    return 0;
}

KIN_TEST(who_comes_first_is_started_first, "")
{
    kin__offload_limit(1, KIN_SEC(10));
    EXPECT_EQ(run_reporting(1, stand_in_line, NULL, NULL), 0);
}

/* ---- leaving ---- */

static int leave_the_line(void *arg)
{
    struct gate held = {0}, unused = {0};
    struct caller first = {&held, KIN_NEVER, -1}, second = {&unused, KIN_NEVER, -1};
    struct kin_task_ref ref;
    struct kin_outcome how;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, call_it, &first), 0);
    await(&held.started, 1);
    /* no thread is free: not at all, not in time, not before the cancel */
    EXPECT_EQ(kin__offload(KIN__OFFLOAD_CALL, wait_at, &unused, 0), KIN_TIMEOUT);
    EXPECT_EQ(kin__offload(KIN__OFFLOAD_CALL, wait_at, &unused, 1), KIN_TIMEOUT);
    EXPECT_EQ(kin__offload(KIN__OFFLOAD_CALL, wait_at, &unused, kin_after(KIN_MS(5))),
              KIN_TIMEOUT);
    EXPECT_EQ(kin_spawn_with(&n, NULL, call_it, &second, 0, &ref), 0);
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT(second.status == KIN_CANCELLED || how.severity == KIN_SEV_CANCELLED);
    /* kin's own calls have threads of their own */
    int count = 0;
    EXPECT_EQ(kin__offload(KIN__OFFLOAD_FILE, add_one, &count, KIN_NEVER), 0);
    EXPECT_EQ(count, 1);
    atomic_store(&held.may_go, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(first.status, 0);
    EXPECT_EQ(unused.started, 0);
    EXPECT_EQ(held.done, 1);
    return 0;
}

KIN_TEST(a_caller_may_leave_the_line, "")
{
    kin__offload_limit(1, KIN_SEC(10));
    run_on_few(leave_the_line, NULL);
}

static int let_go(void *arg)
{
    struct gate *gate = arg;
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(kin_yield(), 0);
    atomic_store(&gate->may_go, 1);
    return 0;
}

/* Calls with a deadline after so long. False: that came before a thread did. */
static bool begin_in_time(struct kin_nursery *n, struct caller *late, int64_t ns)
{
    late->status = -1;
    late->deadline = kin_after(ns);
    EXPECT_EQ(kin_spawn(n, call_it, late), 0);
    while (!late->gate->started && late->status == -1) /* ends: one of the two happens */
        kin_ignore(kin_yield());
    return late->gate->started != 0;
}

static int stay_until_the_end(void *arg)
{
    struct gate gate = {0}, other = {0};
    struct caller late = {.gate = &gate};
    struct caller asked = {&other, KIN_NEVER, -1};
    struct kin_task_ref ref;
    (void)arg;
    KIN_NURSERY(n);
    for (int64_t ns = KIN_MS(20); !begin_in_time(&n, &late, ns); ns *= 2)
        EXPECT_EQ(late.status, KIN_TIMEOUT); /* ends: some time is enough */
    EXPECT_EQ(kin_spawn_with(&n, NULL, call_it, &asked, 0, &ref), 0);
    await(&other.started, 1);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    EXPECT_EQ(kin_sleep(late.deadline + KIN_MS(5)), 0); /* its deadline passes as well */
    EXPECT_EQ(gate.done + other.done, 0);
    EXPECT_EQ(late.status, -1); /* both still wait */
    EXPECT_EQ(asked.status, -1);
    EXPECT_EQ(kin_spawn(&n, let_go, &gate), 0);
    EXPECT_EQ(kin_spawn(&n, let_go, &other), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(late.status, 0);
    EXPECT_EQ(asked.status, 0);
    EXPECT_EQ(gate.done + other.done, 2);
    return 0;
}

KIN_TEST(a_job_that_has_started_is_waited_for, "")
{
    run_on_few(stay_until_the_end, NULL);
}

static int be_cancelled_before(void *arg)
{
    int count = 0;
    (void)arg;
    while (!kin_cancelled())
        kin_ignore(kin_yield());
    EXPECT_EQ(kin__offload(KIN__OFFLOAD_FILE, add_one, &count, KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(count, 0);
    kin_mask();
    EXPECT_EQ(kin__offload(KIN__OFFLOAD_FILE, add_one, &count, KIN_NEVER), 0);
    kin_unmask();
    EXPECT_EQ(count, 1);
    kin_time before = kin_deadline_push(1);
    EXPECT_EQ(kin__offload(KIN__OFFLOAD_FILE, add_one, &count, KIN_NEVER), KIN_CANCELLED);
    kin_deadline_pop(before);
    return 0;
}

static int cancel_it_first(void *arg)
{
    struct kin_task_ref ref;
    (void)arg;
    KIN_NURSERY(n);
    _Atomic int count = 0;
    EXPECT_EQ(kin_spawn(&n, count_it, (void *)&count), 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, be_cancelled_before, NULL, 0, &ref), 0);
    await(&count, 1);
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_task_that_was_asked_to_stop_starts_nothing, "")
{
    run_on_few(cancel_it_first, NULL);
}

/* ---- threads ---- */

static void look_around(void *arg)
{
    char *name = arg;
    sigset_t mask;
    EXPECT_EQ(pthread_getname_np(pthread_self(), name, 16), 0);
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
    EXPECT_EQ(sigismember(&mask, SIGTERM), 1);
    EXPECT_EQ(sigismember(&mask, SIGUSR1), 1);
    EXPECT_EQ(sigismember(&mask, SIGSEGV), 0);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_NOTASK);
    EXPECT_EQ(kin_yield(), KIN_NOTASK);
}

static int see_the_thread(void *arg)
{
    char name[16] = "";
    (void)arg;
    EXPECT_EQ(kin__offload(KIN__OFFLOAD_CALL, look_around, name, 0), 0); /* 0: one can be had */
    EXPECT_STR(name, "kin-block");
    return 0;
}

KIN_TEST(the_thread_has_a_name_and_leaves_signals_to_others, "")
{
    EXPECT_EQ(run_reporting(1, see_the_thread, NULL, NULL), 0);
}

static int see_threads_go(void *arg)
{
    int count = 0;
    (void)arg;
    for (int round = 0; round < 3; round++) {
        EXPECT_EQ(kin__offload(KIN__OFFLOAD_FILE, add_one, &count, KIN_NEVER), 0);
        while (kin__offload_threads()) /* ends: it idles for a millisecond */
            EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
        EXPECT_EQ(kin__offload_resting(), 0);
    }
    EXPECT_EQ(count, 3);
    return 0;
}

KIN_TEST(a_thread_without_work_ends_and_another_takes_its_place, "")
{
    kin__offload_limit(4, KIN_MS(1));
    EXPECT_EQ(run_reporting(2, see_threads_go, NULL, NULL), 0);
}

static int race_with_the_end(void *arg)
{
    int count = 0;
    (void)arg;
    for (int i = 0; i < 300; i++) {
        EXPECT_EQ(kin__offload(KIN__OFFLOAD_FILE, add_one, &count, KIN_NEVER), 0);
        EXPECT_EQ(kin_sleep(kin_after(KIN_US(40 + i % 40))), 0);
    }
    EXPECT_EQ(count, 300);
    return 0;
}

KIN_TEST(a_job_that_comes_as_its_thread_ends_is_done, "")
{
    kin__offload_limit(2, KIN_US(60));
    EXPECT_EQ(run_reporting(2, race_with_the_end, NULL, NULL), 0);
}

static int lack_threads(void *arg)
{
    int count = 0;
    (void)arg;
    kin__plat_fail_after(1, true);
    EXPECT_EQ(kin__offload(KIN__OFFLOAD_FILE, add_one, &count, KIN_NEVER), -EAGAIN);
    EXPECT_EQ(kin__offload_threads(), 0);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(kin__offload(KIN__OFFLOAD_FILE, add_one, &count, KIN_NEVER), 0);
    struct gate gate = {0};
    struct caller caller = {&gate, KIN_NEVER, -1};
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, call_it, &caller), 0);
    await(&gate.started, 1);
    kin__plat_fail_after(1, true); /* there is one thread, and it is busy */
    EXPECT_EQ(kin__offload(KIN__OFFLOAD_CALL, add_one, &count, 0), KIN_TIMEOUT);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(kin_spawn(&n, let_go, &gate), 0);
    kin__plat_fail_after(1, true); /* the job waits for it */
    EXPECT_EQ(kin__offload(KIN__OFFLOAD_CALL, add_one, &count, KIN_NEVER), 0);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(count, 2);
    return 0;
}

KIN_TEST(without_a_thread_the_call_says_so, "")
{
    EXPECT_EQ(run_reporting(1, lack_threads, NULL, NULL), 0);
}

/* ---- functions that end their thread ---- */

static void leave_at(void *arg)
{
    wait_at(arg);
    pthread_exit(NULL);
}

static int call_and_leave(void *arg)
{
    struct caller *caller = arg;
    caller->status = kin__offload(KIN__OFFLOAD_CALL, leave_at, caller->gate, caller->deadline);
    return 0;
}

static int lose_threads(void *arg)
{
    struct gate open = {.may_go = 1};
    int count = 0;
    (void)arg;
    for (int i = 0; i < 10; i++) {
        EXPECT_EQ(kin__offload(KIN__OFFLOAD_CALL, leave_at, &open, KIN_NEVER), KIN_WORKER);
        EXPECT_EQ(open.done, i + 1);
        EXPECT_EQ(kin__offload_threads(), 0);
        if (i % 2)
            EXPECT_EQ(kin__offload(KIN__OFFLOAD_CALL, add_one, &count, KIN_NEVER), 0);
    }
    EXPECT_EQ(count, 5);
    return 0;
}

/* The only thread is lost while others stand in line for it: somebody else comes for them. */
static int lose_the_only_thread(void *arg)
{
    struct gate gates[4] = {{0}, {.may_go = 1}, {.may_go = 1}, {.may_go = 1}};
    struct caller callers[4];
    bool has_threads = !arg;
    KIN_NURSERY(n);
    for (int i = 0; i < 4; i++) { /* every second one leaves */
        callers[i] = (struct caller){&gates[i], KIN_NEVER, -1};
        EXPECT_EQ(kin_spawn(&n, i % 2 ? call_it : call_and_leave, &callers[i]), 0);
        await_parked(i + 1, "blocking call");
    }
    await(&gates[0].started, 1);
    if (!has_threads)
        kin__plat_fail_after(1, true);
    atomic_store(&gates[0].may_go, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(callers[0].status, KIN_WORKER);
    for (int i = 1; i < 4; i++) {
        EXPECT_EQ(gates[i].done, has_threads);
        EXPECT_EQ(callers[i].status, !has_threads ? -EAGAIN : i % 2 ? 0 : KIN_WORKER);
    }
    return 0;
}

KIN_TEST(a_function_that_ends_its_thread_is_over, "")
{
    kin__offload_limit(1, KIN_SEC(1));
    for (unsigned workers = 1; workers <= 2; workers++) {
        EXPECT_EQ(run_reporting(workers, lose_threads, NULL, NULL), 0);
        EXPECT_EQ(run_reporting(workers, lose_the_only_thread, NULL, NULL), 0);
        EXPECT_EQ(run_reporting(workers, lose_the_only_thread, "without threads", NULL), 0);
    }
}

/* ---- several runtimes ---- */

static void *run_alone(void *arg)
{
    for (int i = 0; i < 20; i++) {
        kin__offload_enter();
        EXPECT_EQ(run_reporting(1, call_a_few, arg, NULL), 0);
        kin__offload_leave();
    }
    return NULL;
}

KIN_TEST(runtimes_come_and_go_side_by_side, "")
{
    pthread_t threads[3];
    _Atomic int count = 0;
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, run_alone, (void *)&count), 0);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    EXPECT_EQ(count, 3 * 20 * 5);
    EXPECT_EQ(kin__offload_threads(), 0);
}
