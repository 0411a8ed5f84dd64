/* SPDX-License-Identifier: MIT */
/*
 * Goal: tasks that nothing can ever wake are reported with what they wait for, once, and nobody
 * else ever is.
 * Method: a runtime whose only task receives from a channel that nobody sends to; the report ends
 * the wait. Then the same with a timer, with a thread, and with a second worker's task still at
 * work: no report comes.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"

#include <kin/chan.h>
#include <kin/blocking.h>
#include <kin/file.h>
#include <kin/signal.h>
#include <kin/sync.h>
#include <kin/view.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct story {
    struct kin_chan *chan;
    atomic_int reports;
    int status;
    char text[1024];
};

/* On the monitor's thread: keeps what was said and ends the wait. That all workers are blocked for
 * a while is another story, and one that goes on. */
static void on_report(const struct kin_report *report, void *arg)
{
    struct story *story = arg;
    if (report->status == KIN_STUCK)
        return;
    if (atomic_fetch_add(&story->reports, 1) == 0) {
        story->status = report->status;
        snprintf(story->text, sizeof(story->text), "%s", report->text);
    }
    kin_chan_close(story->chan);
}

static int run_story(struct story *story, unsigned workers, kin_task_fn *fn)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = workers;
    config.on_report = on_report;
    config.report_arg = story;
    if (kin__process_threads() != 1)
        KIN_SKIP("the process has another thread, of a sanitizer or an emulator, that could wake");
    EXPECT_EQ(kin_chan_create(&story->chan, sizeof(int), 0), 0);
    int rc = kin_run(&config, fn, story);
    kin_chan_unref(story->chan);
    return rc;
}

static int receive(void *arg)
{
    struct story *story = arg;
    int item;
    return kin_chan_recv(story->chan, &item, KIN_NEVER) == KIN_CLOSED ? 0 : -EIO;
}

static int wait_with_a_child(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.name = "the lonely one";
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, &options, receive, arg, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

/* The thread that called kin_run is there, but no worker any more. */
static int wait_on_a_replacement(void *arg)
{
    struct kin_stats stats;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, receive, arg), 0);
    do { /* ends: the child waits to be run, so the worker is replaced */
        usleep(20000);
        EXPECT_EQ(kin_stats_get(&stats), 0);
    } while (stats.workers_replaced == 0);
    while (stats.workers > 1) { /* ends: the slice is over, so it retires */
        EXPECT_EQ(kin_yield(), 0);
        EXPECT_EQ(kin_stats_get(&stats), 0);
    }
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(tasks_that_nothing_can_wake_are_reported, "A13")
{
    struct story story = {0};
    EXPECT_EQ(run_story(&story, 2, wait_with_a_child), 0);
    EXPECT_EQ(atomic_load(&story.reports), 1);
    EXPECT_EQ(story.status, KIN_DEADLOCK);
    EXPECT(strstr(story.text, "(main)"));
    EXPECT(strstr(story.text, "waits for nursery"));
    EXPECT(strstr(story.text, "(the lonely one)"));
    EXPECT(strstr(story.text, "waits for channel: receive"));

    story = (struct story){0};
    while (kin__process_threads() != 1) /* ends: who was joined is soon gone */
        kin__thread_yield();
    EXPECT_EQ(run_story(&story, 1, wait_on_a_replacement), 0);
    EXPECT_EQ(atomic_load(&story.reports), 1);
    EXPECT_EQ(story.status, KIN_DEADLOCK);
}

static int wait_beside_a_sleeper(void *arg)
{
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, sleep_for_ever, NULL), 0);
    int rc = receive(arg);
    kin_nursery_cancel(&n, KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return rc;
}

KIN_TEST(who_sleeps_for_ever_wakes_nobody, "A13")
{
    struct story story = {0};
    EXPECT_EQ(run_story(&story, 2, wait_beside_a_sleeper), 0);
    EXPECT_EQ(atomic_load(&story.reports), 1);
    EXPECT_EQ(story.status, KIN_DEADLOCK);
    EXPECT(strstr(story.text, "waits for sleep"));
}

static int touch_nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* Leaves threads of kin's own behind: one for signals, one of each pool of threads that block. */
static int wait_beside_threads_of_kin(void *arg)
{
    struct stat is;
    int answer;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_shutdown_on_signals(&n), 0);
    EXPECT_EQ(kin_blocking(touch_nothing, NULL, &answer, KIN_NEVER), 0);
    EXPECT_EQ(kin_stat("/", &is), 0);
    EXPECT_EQ(kin_spawn(&n, receive, arg), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(threads_of_kin_itself_wake_nobody, "A13")
{
    struct story story = {0};
    EXPECT_EQ(run_story(&story, 2, wait_beside_threads_of_kin), 0);
    EXPECT_EQ(atomic_load(&story.reports), 1);
    EXPECT_EQ(story.status, KIN_DEADLOCK);
    EXPECT(strstr(story.text, "waits for channel: receive"));
}

static int listen_for_a_signal(void *arg)
{
    struct story *story = arg;
    EXPECT_EQ(kin_signal_wait(SIGUSR1, KIN_NEVER), 0);
    kin_chan_close(story->chan);
    return 0;
}

static int sender[2]; /* a pipe to the process that sends the signal */

/* Nobody but another process, by its signal, ends these waits. */
static int wait_beside_a_listener(void *arg)
{
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, listen_for_a_signal, arg), 0);
    EXPECT_EQ(kin_spawn(&n, receive, arg), 0);
    await_parked(1, "signal");
    EXPECT_EQ(write(sender[1], "", 1), 1);
    return kin_nursery_join(&n, NULL);
}

/* Waits to be told, and for the monitor to look some times, and sends. */
static void send_when_told(pid_t to)
{
    char byte;
    if (read(sender[0], &byte, 1) == 1)
        usleep(200000);
    kill(to, SIGUSR1);
    _exit(0);
}

KIN_TEST(a_signal_that_a_task_waits_for_is_somebody_who_wakes, "A13")
{
    struct story story = {0};
    pid_t self = getpid();
    EXPECT_EQ(pipe(sender), 0);
    pid_t child = fork();
    EXPECT_GE(child, 0);
    if (child == 0)
        send_when_told(self);
    EXPECT_EQ(run_story(&story, 2, wait_beside_a_listener), 0);
    EXPECT_EQ(atomic_load(&story.reports), 0);
    EXPECT_EQ(waitpid(child, NULL, 0), child);
    close(sender[0]);
    close(sender[1]);
}

static int run_out_of_ops(void *arg)
{
    (void)arg;
    for (int i = 0; i < 6; i++)
        EXPECT_EQ(kin_checkpoint(), 0); /* the last one not before somebody recharges it */
    return 0;
}

static int wait_beside_one_without_ops(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_task_ref ref;
    KIN_NURSERY(n, .recharge = KIN_RECHARGE_MANUAL);
    options.budget = (struct kin_budget){5, 0, 0, 0, 0};
    EXPECT_EQ(kin_spawn_with(&n, &options, run_out_of_ops, NULL, 0, &ref), 0);
    EXPECT_EQ(receive(arg), 0);
    EXPECT_EQ(kin_budget_recharge(ref, options.budget), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_budget_that_nobody_can_give_is_reported, "A13 SCHED:3.2.2")
{
    struct story story = {0};
    EXPECT_EQ(run_story(&story, 2, wait_beside_one_without_ops), 0);
    EXPECT_EQ(atomic_load(&story.reports), 1);
    EXPECT_EQ(story.status, KIN_DEADLOCK);
    EXPECT(strstr(story.text, "waits for budget"));
}

/* The kernel has threads for calls on files in the process, which stay. */
static int wait_after_files(void *arg)
{
    struct stat is;
    struct kin_stats stats;
    EXPECT_EQ(kin_stat("/", &is), 0);
    EXPECT_EQ(kin_stats_get(&stats), 0);
    if (strcmp(stats.files, "io_uring") != 0)
        return -ENOSYS; /* threads of kin's own do the same, and might wake */
    return receive(arg);
}

KIN_TEST(threads_of_the_kernel_wake_nobody, "A13")
{
    struct story story = {0};
    int rc = run_story(&story, 2, wait_after_files);
    if (rc == -ENOSYS)
        KIN_SKIP("io_uring is refused here");
    EXPECT_EQ(rc, 0);
    EXPECT_EQ(atomic_load(&story.reports), 1);
    EXPECT_EQ(story.status, KIN_DEADLOCK);
}

static int sleep_and_close(void *arg)
{
    struct story *story = arg;
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(300))), 0);
    kin_chan_close(story->chan);
    return 0;
}

static int wait_with_a_timer(void *arg)
{
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, receive, arg), 0);
    EXPECT_EQ(kin_spawn(&n, sleep_and_close, arg), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_timer_is_somebody_who_wakes, "A13")
{
    struct story story = {0};
    EXPECT_EQ(run_story(&story, 2, wait_with_a_timer), 0);
    EXPECT_EQ(atomic_load(&story.reports), 0);
}

static void *close_later(void *arg)
{
    struct story *story = arg;
    struct timespec moment = {0, 300000000};
    nanosleep(&moment, NULL);
    kin_chan_close(story->chan);
    return NULL;
}

static int wait_for_a_thread(void *arg)
{
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, close_later, arg), 0);
    int rc = receive(arg);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    return rc;
}

KIN_TEST(a_thread_of_the_process_is_somebody_who_wakes, "A13")
{
    struct story story = {0};
    EXPECT_EQ(run_story(&story, 2, wait_for_a_thread), 0);
    EXPECT_EQ(atomic_load(&story.reports), 0);
}

static int block_and_close(void *arg)
{
    return close_later(arg) == NULL ? 0 : -EIO;
}

static int wait_for_a_blocked_task(void *arg)
{
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, receive, arg), 0);
    EXPECT_EQ(kin_spawn(&n, block_and_close, arg), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_task_in_a_system_call_is_somebody_who_wakes, "A13")
{
    struct story story = {0};
    EXPECT_EQ(run_story(&story, 2, wait_for_a_blocked_task), 0);
    EXPECT_EQ(atomic_load(&story.reports), 0);
}

/* ---- rings of mutexes ---- */

#define RING 3

struct ring {
    struct kin_mutex mutexes[RING];
    struct kin_event go;
    _Atomic int hold; /* how many have their own */
};

struct member {
    struct ring *ring;
    int number;
};

static int hold_one_want_the_next(void *arg)
{
    struct member *member = arg;
    struct ring *ring = member->ring;
    EXPECT_EQ(kin_mutex_lock(&ring->mutexes[member->number], KIN_NEVER), 0);
    atomic_fetch_add(&ring->hold, 1);
    EXPECT_EQ(kin_event_wait(&ring->go, KIN_NEVER), 0);
    int rc = kin_mutex_lock(&ring->mutexes[(member->number + 1) % RING], KIN_NEVER);
    if (rc == 0)
        kin_mutex_unlock(&ring->mutexes[(member->number + 1) % RING]);
    kin_mutex_unlock(&ring->mutexes[member->number]);
    return rc;
}

static int close_a_ring(void *arg)
{
    struct ring ring = {0};
    int ends[2];
    char text[1024] = {0};
    (void)arg;
    EXPECT_EQ(pipe2(ends, O_NONBLOCK), 0);
    KIN_NURSERY(n);
    for (int i = 0; i < RING; i++)
        EXPECT_EQ(kin_spawn_copy(&n, hold_one_want_the_next,
                                 KIN_ARGS(struct member, &ring, i)), 0);
    await(&ring.hold, RING);
    EXPECT_EQ(kin_lock_cycles(ends[1]), 0); /* they hold one each and want none */
    kin_event_set(&ring.go);
    while (kin_lock_cycles(ends[1]) == 0) /* ends: each comes to wait for the next */
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
    EXPECT_GT(read(ends[0], text, sizeof(text) - 1), 0);
    EXPECT(strstr(text, "cycle: task "));
    EXPECT(strstr(text, "held by task "));
    EXPECT_EQ(kin_lock_cycles(ends[1]), 1); /* one ring, however many are in it */
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_lock_cycles(ends[1]), 0);
    EXPECT_EQ(close(ends[0]), 0);
    EXPECT_EQ(close(ends[1]), 0);
    return 0;
}

KIN_TEST(a_ring_of_mutexes_is_found_on_request, "A13")
{
    EXPECT_EQ(run_reporting(1, close_a_ring, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, close_a_ring, NULL, NULL), 0);
}

static int lock_in_order(void *arg)
{
    struct ring *ring = arg;
    for (int i = 0; i < 300; i++) {
        EXPECT_EQ(kin_mutex_lock(&ring->mutexes[0], KIN_NEVER), 0);
        EXPECT_EQ(kin_yield(), 0);
        EXPECT_EQ(kin_mutex_lock(&ring->mutexes[1], KIN_NEVER), 0);
        EXPECT_EQ(kin_yield(), 0);
        kin_mutex_unlock(&ring->mutexes[1]);
        kin_mutex_unlock(&ring->mutexes[0]);
    }
    return 0;
}

static int look_again_and_again(void *arg)
{
    struct ring ring = {0};
    (void)arg;
    KIN_NURSERY(n);
    for (int i = 0; i < 8; i++)
        EXPECT_EQ(kin_spawn(&n, lock_in_order, &ring), 0);
    for (int i = 0; i < 200; i++) {
        EXPECT_EQ(kin_lock_cycles(2), 0);
        EXPECT_EQ(kin_yield(), 0);
    }
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(locks_that_are_taken_in_order_never_look_like_a_ring, "A13")
{
    EXPECT_EQ(run_reporting(1, look_again_and_again, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, look_again_and_again, NULL, NULL), 0);
    EXPECT_EQ(kin_lock_cycles(2), KIN_NOTASK);
}
