/* SPDX-License-Identifier: MIT */
/*
 * Threads: they run, have their name and signal mask, tell their CPU time; each has its own self.
 */
#define _GNU_SOURCE 1
#include "base/lock.h"
#include "kin_test.h"
#include "plat/plat.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct report {
    struct kin__thread thread;
    char name[32];
    sigset_t mask;
    int32_t tid;
    int32_t tid_known;
    void *self_before, *self_after;
};

static void look_around(void *arg)
{
    struct report *report = arg;

    (void)pthread_getname_np(pthread_self(), report->name, sizeof report->name);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &report->mask);
    report->tid = (int32_t)syscall(SYS_gettid);
    report->tid_known = kin__load_relaxed(&report->thread.tid); /* alone: written by this thread */
    report->self_before = kin__self_get();
    kin__self_set(report);
    report->self_after = kin__self_get();
}

KIN_TEST(a_thread_runs_with_its_name_and_is_joined, "")
{
    struct report report = {.tid = 0};

    EXPECT_EQ(kin__thread_start(&report.thread, look_around, &report, 65536, "short"), 0);
    kin__thread_join(&report.thread);
    EXPECT_STR(report.name, "short");
    EXPECT_GT(report.tid, 0);
    EXPECT_EQ(report.tid_known, report.tid);
    EXPECT_EQ(report.thread.handle, 0);
    EXPECT_EQ(kin__load_relaxed(&report.thread.tid), 0); /* alone: the thread has ended */
    kin__thread_join(&report.thread);                    /* none: nothing happens */
}

KIN_TEST(a_long_name_is_cut, "")
{
    struct report report = {.tid = 0};

    EXPECT_EQ(
        kin__thread_start(&report.thread, look_around, &report, 1, "a name of thirty bytes or so"),
        0);
    kin__thread_join(&report.thread);
    EXPECT_STR(report.name, "a name of thirt");
}

KIN_TEST(a_thread_takes_only_its_own_signals, "")
{
    struct report report = {.tid = 0};
    static const int open_[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF};
    static const int blocked[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD, SIGALRM, SIGPIPE};
    sigset_t before, after;

    (void)pthread_sigmask(SIG_SETMASK, NULL, &before);
    EXPECT_EQ(kin__thread_start(&report.thread, look_around, &report, 65536, "masked"), 0);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &after);
    kin__thread_join(&report.thread);
    for (size_t i = 0; i < sizeof open_ / sizeof open_[0]; i++)
        EXPECT_EQ(sigismember(&report.mask, open_[i]), 0);
    for (size_t i = 0; i < sizeof blocked / sizeof blocked[0]; i++)
        EXPECT_EQ(sigismember(&report.mask, blocked[i]), 1);
    for (int i = 1; i < 65; i++)
        EXPECT_EQ(sigismember(&before, i), sigismember(&after, i));
}

KIN_TEST(self_belongs_to_the_thread, "")
{
    struct report report = {.tid = 0};
    int mine;

    EXPECT_PTR(kin__self_get(), NULL);
    kin__self_set(&mine);
    EXPECT_EQ(kin__thread_start(&report.thread, look_around, &report, 65536, "self"), 0);
    kin__thread_join(&report.thread);
    EXPECT_PTR(report.self_before, NULL);
    EXPECT_PTR(report.self_after, &report);
    EXPECT_PTR(kin__self_get(), &mine);
    kin__self_set(NULL);
}

struct busy {
    struct kin__thread thread;
    kin__a32 is_over;
};

static void be_busy(void *arg)
{
    struct busy *busy = arg;

    while (!kin__load_acquire(&busy->is_over)) /* pairs with the release in the test */
        kin__cpu_relax();
}

KIN_TEST(cpu_time_of_a_running_thread_grows, "")
{
    struct busy busy = {.is_over = 0};

    EXPECT_EQ(kin__thread_start(&busy.thread, be_busy, &busy, 65536, "busy"), 0);
    while (kin__thread_cpu_ns(&busy.thread) < 0) /* ends: when the thread has begun */
        kin__thread_yield();
    int64_t before = kin__thread_cpu_ns(&busy.thread);
    while (kin__thread_cpu_ns(&busy.thread) <= before) /* ends: the thread is busy */
        kin__thread_yield();
    kin__store_release(&busy.is_over, 1); /* pairs with the acquire in be_busy */
    kin__thread_join(&busy.thread);
    EXPECT_EQ(kin__thread_cpu_ns(&busy.thread), -ESRCH);
}

static void touch_stack(void *arg)
{
    volatile char deep[200 * 1024];

    for (size_t i = 0; i < sizeof deep; i += 1024)
        deep[i] = 1;
    *(int *)arg = deep[1024];
}

KIN_TEST(a_thread_has_the_stack_it_was_promised, "")
{
    struct kin__thread thread;
    int touched = 0;

    EXPECT_EQ(kin__thread_start(&thread, touch_stack, &touched, 300 * 1024, "deep"), 0);
    kin__thread_join(&thread);
    EXPECT_EQ(touched, 1);
}

struct calls {
    bool leaves;
    int called, gone, returned;
};

static void be_called(void *arg)
{
    struct calls *calls = arg;
    calls->called++;
    if (calls->leaves)
        pthread_exit(NULL);
}

static void be_told(void *arg)
{
    struct calls *calls = arg;
    calls->gone++;
}

static void call_one(void *arg)
{
    struct calls *calls = arg;
    kin__thread_call(be_called, be_told, calls);
    calls->returned++;
}

KIN_TEST(a_function_that_ends_its_thread_is_told_of, "")
{
    for (int leaves = 0; leaves <= 1; leaves++) {
        struct calls calls = {.leaves = leaves};
        struct kin__thread thread = {0};
        EXPECT_EQ(kin__thread_start(&thread, call_one, &calls, 65536, "test"), 0);
        kin__thread_join(&thread);
        EXPECT_EQ(calls.called, 1);
        EXPECT_EQ(calls.gone, leaves);
        EXPECT_EQ(calls.returned, !leaves);
    }
}

KIN_TEST(an_impossible_stack_is_an_error, "")
{
    struct kin__thread thread;
    int unused = 0;

    EXPECT_LT(kin__thread_start(&thread, touch_stack, &unused, SIZE_MAX / 4, "huge"), 0);
    EXPECT_EQ(thread.handle, 0);
}

/* ---- lock ranks ---- */

#ifdef KIN_DEBUG

KIN_TEST(ranks_may_rise, "")
{
    EXPECT(kin__rank_holds_none());
    kin__rank_take(KIN__RANK_NURSERY);
    kin__rank_take(KIN__RANK_NURSERY);
    kin__rank_take(KIN__RANK_WAIT);
    kin__rank_take(KIN__RANK_LEAF);
    EXPECT(!kin__rank_holds_none());
    kin__rank_give(KIN__RANK_WAIT); /* any order of giving is fine */
    kin__rank_give(KIN__RANK_LEAF);
    kin__rank_give(KIN__RANK_NURSERY);
    EXPECT(!kin__rank_holds_none());
    kin__rank_give(KIN__RANK_NURSERY);
    EXPECT(kin__rank_holds_none());
}

KIN_TEST(a_rank_that_does_not_rise_aborts, "")
{
    kin__rank_take(KIN__RANK_TIMER);
    EXPECT_ABORT ("lock ranks rise") {
        kin__rank_take(KIN__RANK_WAIT);
    }
    EXPECT_ABORT ("lock ranks rise") {
        kin__rank_take(KIN__RANK_TIMER);
    }
    EXPECT_ABORT ("lock ranks rise") {
        kin__rank_take(KIN__RANK_NURSERY);
    }
    kin__rank_give(KIN__RANK_TIMER);
    EXPECT_ABORT ("the thread that took it") {
        kin__rank_give(KIN__RANK_TIMER);
    }
}

static void hold_nothing(void *arg)
{
    *(bool *)arg = kin__rank_holds_none();
}

KIN_TEST(ranks_belong_to_the_thread, "")
{
    struct kin__thread thread;
    bool holds_none = false;

    kin__rank_take(KIN__RANK_LEAF);
    EXPECT_EQ(kin__thread_start(&thread, hold_nothing, &holds_none, 65536, "rank"), 0);
    kin__thread_join(&thread);
    EXPECT(holds_none);
    kin__rank_give(KIN__RANK_LEAF);
}

KIN_TEST(a_lock_checks_its_rank, "")
{
    static struct kin__lock low, high;

    kin__lock_take(&high, KIN__RANK_POOL);
    EXPECT_ABORT ("lock ranks rise") {
        kin__lock_take(&low, KIN__RANK_TASK);
    }
    kin__lock_give(&high, KIN__RANK_POOL);
    kin__lock_take(&low, KIN__RANK_TASK);
    kin__lock_take(&high, KIN__RANK_POOL);
    kin__lock_give(&high, KIN__RANK_POOL);
    kin__lock_give(&low, KIN__RANK_TASK);
    EXPECT(kin__rank_holds_none());
}

#endif
