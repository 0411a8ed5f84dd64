/* SPDX-License-Identifier: MIT */
/*
 * Goal: slots of workers are started, retired and started again without losing a thread or a timer.
 * Method: runs in which every worker blocks again and again while others need it, so that slots
 * turn round; the numbers of kin_stats_get and the log of decisions must fit together.
 */
#include "kin_test.h"

#include "plat/plat.h"
#include "sched/sched.h"

#include <kin/kin.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCKERS = 6, LAPS = 5 };

struct churn {
    atomic_uint laps, sleeps;
    atomic_bool is_over;
};

/* Blocks longer than the threshold, then lets others run. */
static int block_and_yield(void *arg)
{
    struct churn *churn = arg;
    for (int i = 0; i < LAPS; i++) {
        usleep(15000);
        atomic_fetch_add(&churn->laps, 1);
        EXPECT_EQ(kin_yield(), 0);
    }
    return 0;
}

/* Has a timer in the wheel of whatever worker it is on. */
static int sleep_on_and_on(void *arg)
{
    struct churn *churn = arg;
    while (!churn->is_over) {
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(3))), 0);
        atomic_fetch_add(&churn->sleeps, 1);
    }
    return 0;
}

static unsigned count_in_log(struct kin__sched *sched, enum kin__scale_reason reason)
{
    unsigned count = 0;
    kin__lock_take(&sched->pool_lock, KIN__RANK_POOL);
    for (unsigned i = 0; i < sched->scale_count && i < KIN__SCALE_LOG; i++)
        count += sched->scale_log[i].reason == reason;
    kin__lock_give(&sched->pool_lock, KIN__RANK_POOL);
    return count;
}

static int churn_workers(void *arg)
{
    struct churn *churn = arg;
    struct kin__sched *sched = kin__worker_self()->sched;
    struct kin_stats stats;
    KIN_NURSERY(sleepers);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(kin_spawn(&sleepers, sleep_on_and_on, churn), 0);
    KIN_NURSERY(blockers);
    for (int i = 0; i < BLOCKERS; i++)
        EXPECT_EQ(kin_spawn(&blockers, block_and_yield, churn), 0);
    EXPECT_EQ(kin_nursery_join(&blockers, NULL), 0);
    churn->is_over = true;
    EXPECT_EQ(kin_nursery_join(&sleepers, NULL), 0);
    EXPECT_EQ(churn->laps, BLOCKERS * LAPS);
    do {
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
        EXPECT_EQ(kin_stats_get(&stats), 0);
        /* ends: whoever was replaced retires, and counts its last task before */
    } while (stats.workers > sched->workers_base || stats.tasks_live > 1);
    EXPECT_GE(stats.workers_replaced, 1);
    EXPECT_EQ(stats.workers_started, sched->workers_base + stats.workers_replaced);
    EXPECT_EQ(stats.tasks_live, 1);
    EXPECT_EQ(stats.pressure, 0);
    EXPECT_EQ(stats.timers, 0);
    EXPECT_EQ(count_in_log(sched, KIN__SCALE_NO_THREAD), 0);
    printf("%u replaced, %u sleeps\n", stats.workers_replaced, churn->sleeps);
    return 0;
}

KIN_TEST(slots_turn_round_while_workers_block, "C7 C12 WK:6.1 WK:6.2")
{
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct kin_config config = KIN_CONFIG_INIT;
        struct churn churn = {0};
        config.workers = workers;
        config.workers_max = workers + 2;
        EXPECT_EQ(kin_run(&config, churn_workers, &churn), 0);
        EXPECT_GE(churn.sleeps, 4);
    }
}

/* ---- the log ---- */

KIN_TEST(the_log_keeps_the_latest_decisions, "EP:7.3")
{
    static struct kin__sched sched;
    for (unsigned i = 0; i < 3 * KIN__SCALE_LOG + 5; i++)
        kin__pool_note_locked(&sched, &(struct kin__scale_event){.when = i});
    EXPECT_EQ(sched.scale_count, 3 * KIN__SCALE_LOG + 5);
    for (unsigned i = sched.scale_count - KIN__SCALE_LOG; i < sched.scale_count; i++)
        EXPECT_EQ(sched.scale_log[i % KIN__SCALE_LOG].when, i);
}

static int look_at_the_start(void *arg)
{
    struct kin__sched *sched = kin__worker_self()->sched;
    struct kin_stats stats;
    (void)arg;
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.workers, 3);
    EXPECT_EQ(stats.workers_started, 3);
    EXPECT_EQ(stats.workers_replaced, 0);
    EXPECT_EQ(count_in_log(sched, KIN__SCALE_START), 1);
    for (unsigned i = 0; i < sched->workers_max; i++) {
        uint32_t state = kin__load_relaxed(&sched->workers[i].state); /* relaxed: a snapshot */
        EXPECT_EQ(state == KIN__WORKER_DEAD, i >= 3);
    }
    return 0;
}

KIN_TEST(a_runtime_starts_its_base_workers_and_no_more, "SCHED:6.2.2 WK:6.1 C12 SCHED:6.1.1")
{
    struct kin_config config = KIN_CONFIG_INIT;
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    config.workers = 3;
    config.workers_max = 7;
    EXPECT_EQ(kin_run(&config, look_at_the_start, NULL), 0);
}

static int count_default_workers(void *arg)
{
    struct kin__sched *sched = kin__worker_self()->sched;
    (void)arg;
    EXPECT_EQ(sched->workers_base, kin__cpu_count());
    EXPECT_EQ(sched->workers_max, 2 * kin__cpu_count());
    return 0;
}

KIN_TEST(by_default_there_is_a_worker_per_cpu, "SCHED:6.2.1")
{
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
    EXPECT_EQ(kin_run(NULL, count_default_workers, NULL), 0);
}

/* ---- a task ends its thread ---- */

enum { LEFT_BEHIND = 50 };

struct loss {
    unsigned workers;
    bool is_silent;              /* below the C library: nobody is told */
    bool is_hasty;               /* the runtime ends as soon as the task has */
    atomic_uint ran, cleaned, cancelled, has_left;
    int status;                  /* of the join */
    struct kin_stats stats;
    atomic_uint reports;
    atomic_int report_status;
    atomic_bool has_returned;
};

static int count_left_behind(void *arg)
{
    struct loss *loss = arg;
    loss->ran++;
    return 0;
}

static void note_cleanup(void *arg)
{
    struct loss *loss = arg;
    loss->cleaned++;
}

static int wait_for_ever(void *arg)
{
    struct loss *loss = arg;
    int rc = kin_sleep(KIN_NEVER);
    loss->cancelled += rc == KIN_CANCELLED;
    return rc;
}

static void end_thread(struct loss *loss)
{
    loss->has_left = 1;
    if (loss->is_silent)
        (void)syscall(SYS_exit, 0);
    pthread_exit(NULL);
}

/* With something to clean up and a nursery open, whose child waits: all of that is seen to. */
static int leave_in_the_middle(void *arg)
{
    struct loss *loss = arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_defer(note_cleanup, loss), 0);
    EXPECT_EQ(kin_spawn(&n, wait_for_ever, loss), 0);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_yield(), 0);
    if (loss->workers > 1) { /* not the thread that called kin_run */
        struct kin__worker *worker = kin__worker_self();
        while (worker->index == 0) { /* ends: the first task holds that one soon */
            EXPECT_EQ(kin_yield(), 0);
            worker = kin__worker_self();
        }
    }
    end_thread(loss);
    return 0;
}

static int lose_a_worker(void *arg)
{
    struct loss *loss = arg;
    KIN_NURSERY(n);
    for (unsigned i = 0; i < LEFT_BEHIND; i++)
        EXPECT_EQ(kin_spawn(&n, count_left_behind, loss), 0);
    EXPECT_EQ(kin_spawn(&n, leave_in_the_middle, loss), 0);
    while (loss->workers > 1 && !loss->has_left) { /* ends: the other worker runs it */
        if (kin__worker_self()->index != 0)
            kin_ignore(kin_yield()); /* or cancelled, by the end of the one that has left */
    }
    loss->status = kin_nursery_join(&n, NULL);
    for (;;) { /* ends: what was left behind goes on at once, the new thread comes soon after */
        EXPECT_EQ(kin_stats_get(&loss->stats), 0);
        if (loss->stats.workers_replaced > 0 || loss->is_hasty)
            return 0;
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
    }
}

static void note_report(const struct kin_report *report, void *arg)
{
    struct loss *loss = arg;
    printf("%s\n", report->text);
    loss->report_status = report->status;
    loss->reports++;
}

static void *run_and_lose(void *arg)
{
    struct loss *loss = arg;
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = loss->workers;
    config.on_report = note_report;
    config.report_arg = loss;
    config.stall_threshold = loss->is_silent ? 0 : KIN_NEVER; /* without a monitor, too */
    EXPECT_EQ(kin_run(&config, lose_a_worker, loss), 0);
    loss->has_returned = true;
    return NULL;
}

static void expect_replaced(struct loss *loss)
{
    pthread_t thread;
    (void)unsetenv("KIN_HARD"); /* the number of workers is the point */
#if KIN__ASAN || KIN__TSAN
    KIN_SKIP("the sanitizer does not know threads that end on the stack of a task");
#endif
    EXPECT_EQ(pthread_create(&thread, NULL, run_and_lose, loss), 0);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(loss->status, KIN_WORKER);
    EXPECT_EQ(loss->ran, LEFT_BEHIND);
    EXPECT_EQ(loss->cleaned, 1);
    EXPECT_EQ(loss->cancelled, 1);
    EXPECT_EQ(loss->stats.workers, loss->workers);
    EXPECT_EQ(loss->stats.workers_replaced, 1);
    EXPECT_EQ(loss->reports, 1);
    EXPECT_EQ(loss->report_status, KIN_WORKER);
}

KIN_TEST(a_worker_whose_thread_a_task_ends_is_replaced, "SCHED:14.1.1 C7 E4")
{
    struct loss loss = {.workers = 2};
    expect_replaced(&loss);
    EXPECT(loss.has_returned);
}

/* The thread is on its way out meanwhile, and starts another one. */
KIN_TEST(a_runtime_may_end_while_a_lost_thread_leaves_it, "SCHED:14.1.1 C7 E4")
{
    (void)unsetenv("KIN_HARD"); /* as above */
#if KIN__ASAN || KIN__TSAN
    KIN_SKIP("the sanitizer does not know threads that end on the stack of a task");
#endif
    for (unsigned i = 0; i < 100; i++) {
        struct loss loss = {.workers = 2, .is_hasty = true};
        (void)run_and_lose(&loss);
        EXPECT_EQ(loss.status, KIN_WORKER);
        EXPECT(loss.has_returned);
    }
}

KIN_TEST(the_thread_of_the_caller_can_be_lost_too, "SCHED:14.1.1 C7 E4")
{
    struct loss loss = {.workers = 1};
    expect_replaced(&loss);
    EXPECT(!loss.has_returned); /* it ended when the runtime had */
}

KIN_TEST(a_thread_that_is_gone_without_a_word_is_missed, "SCHED:14.1.1 C7 E4")
{
    struct loss loss = {.workers = 2, .is_silent = true};
    expect_replaced(&loss);
    EXPECT(loss.has_returned);
}

/* ---- runtimes that are over ---- */

struct life {
    uint64_t highest; /* index of a frame */
    uint16_t number;
};

static int yield_once(void *arg)
{
    struct life *life = arg;
    uint64_t index = kin_self().id & ((UINT64_C(1) << KIN__FRAME_INDEX_BITS) - 1);
    if (life->highest < index)
        life->highest = index;
    return kin_yield(); /* so that each of them has a stack of its own */
}

static int live(void *arg)
{
    struct life *life = arg;
    life->number = kin__worker_self()->sched->number;
    KIN_NURSERY(n);
    for (unsigned i = 0; i < 64; i++)
        EXPECT_EQ(kin_spawn(&n, yield_once, life), 0);
    return kin_nursery_join(&n, NULL);
}

/* Pages of the process. */
static long mapped(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    EXPECT(file && fscanf(file, "%ld", &pages) == 1);
    EXPECT_EQ(fclose(file), 0);
    return pages;
}

KIN_TEST(a_runtime_that_is_over_leaves_no_memory_behind, "SCHED:6.2.1 ABA:8.3")
{
    /* A life has 65 frames and 64 stacks of 64 pages: if it left them, there would be far more. */
    enum { LIVES = 100, FRAMES = 256, PAGES = 16384 };
    struct kin_config config = KIN_CONFIG_INIT;
    struct life first = {0};
    long before = 0;
    config.workers = 1;
    config.stall_threshold = KIN_NEVER; /* one thread, which has the same frames each time */
    for (unsigned i = 0; i < LIVES; i++) {
        struct life life = {0};
        EXPECT_EQ(kin_run(&config, live, &life), 0);
        if (i == 0) {
            first = life;
            before = mapped();
        }
        EXPECT_EQ(life.number, first.number);
        EXPECT_LE(life.highest, first.highest + FRAMES);
    }
    EXPECT_LE(mapped(), before + PAGES);
}
