/* SPDX-License-Identifier: MIT */
/*
 * Goal: tasks wait for signals of the operating system, and two of them shut a program down.
 * Method: the tests send signals to their own process; every way a wait can end, on one worker and
 * on several, in one runtime and in two; processes that are to be ended by a signal are forked.
 */
#include "api/in_runtime.h"

#include "plat/context.h"

#include <kin/io.h>
#include <kin/signal.h>

#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* To the process, as a terminal or a manager would send it. */
static void send_to_self(int signo)
{
    EXPECT_EQ(kill(getpid(), signo), 0);
}

/* ---- waiting ---- */

static int wait_for_one(void *arg)
{
    EXPECT_EQ(kin_signal_wait(SIGUSR1, 0), KIN_TIMEOUT); /* held from here on */
    for (int i = 0; i < 20; i++) {
        send_to_self(SIGUSR1);
        EXPECT_EQ(kin_signal_wait(SIGUSR1, KIN_NEVER), 0);
    }
    EXPECT_EQ(kin_signal_wait(SIGUSR1, kin_after(KIN_MS(5))), KIN_TIMEOUT); /* each came once */
    EXPECT_EQ(kin_signal_wait(SIGRTMIN + 3, 0), KIN_TIMEOUT);
    send_to_self(SIGRTMIN + 3);
    EXPECT_EQ(kin_signal_wait(SIGRTMIN + 3, KIN_NEVER), 0);
    (void)arg;
    return 0;
}

KIN_TEST(a_signal_ends_a_wait, "")
{
    run_on_few(wait_for_one, NULL);
}

struct crowd {
    _Atomic int waiting, woken;
    int rc;
};

static int wait_with_others(void *arg)
{
    struct crowd *crowd = arg;
    atomic_fetch_add(&crowd->waiting, 1);
    int rc = kin_signal_wait(SIGUSR1, KIN_NEVER);
    atomic_fetch_add(&crowd->woken, 1);
    return rc;
}

static int wake_all(void *arg)
{
    struct crowd crowd = {0, 0, 0};
    (void)arg;
    KIN_NURSERY(n);
    for (int i = 0; i < 8; i++)
        EXPECT_EQ(kin_spawn(&n, wait_with_others, &crowd), 0);
    await(&crowd.waiting, 8); /* each ran until it parked: there is one worker */
    EXPECT_EQ(atomic_load(&crowd.woken), 0);
    send_to_self(SIGUSR1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&crowd.woken), 8);
    EXPECT_EQ(kin_signal_wait(SIGUSR1, 0), KIN_TIMEOUT); /* and nothing is left of it */
    return 0;
}

KIN_TEST(a_signal_wakes_all_that_wait, "")
{
    EXPECT_EQ(run_reporting(1, wake_all, NULL, NULL), 0);
}

/* Whoever runs on the thread that called kin_run sends to that very thread: both have arrived when
 * the call returns. Else the kernel chooses the moment, or ThreadSanitizer. */
static int come_late(void *is_first)
{
    EXPECT_EQ(kin_signal_wait(SIGUSR1, 0), KIN_TIMEOUT);
    send_to_self(SIGUSR1);
    send_to_self(SIGUSR1);
    EXPECT_EQ(kin_signal_wait(SIGUSR1, KIN_NEVER), 0); /* it was kept */
    if (is_first && !KIN__TSAN)
        EXPECT_EQ(kin_signal_wait(SIGUSR1, 0), KIN_TIMEOUT); /* once */
    return 0;
}

KIN_TEST(a_signal_that_nobody_waits_for_is_kept, "")
{
    bool is_first = true;
    EXPECT_EQ(run_reporting(1, come_late, &is_first, NULL), 0);
    run_on_few(come_late, NULL);
}

/* A thread sanitizer keeps a signal back until the flow that it hit calls the library, which a flow
 * that is parked does not: there this would hang now and then. */
#if !KIN__TSAN

/* Two tasks listen, and each is busy now and then: together they are told of everything. */
static int count_all(void *arg)
{
    struct crowd *crowd = arg;
    EXPECT_EQ(kin_signal_wait(SIGUSR1, 0), KIN_TIMEOUT);
    atomic_fetch_add(&crowd->waiting, 1);
    for (int i = 0; i < 20; i++) {
        int rc = kin_signal_wait(SIGUSR1, KIN_NEVER);
        if (rc < 0)
            return rc;
        if (i % 3 == 0)
            EXPECT_EQ(kin_sleep(kin_after(KIN_US(200))), 0);
        atomic_fetch_add(&crowd->woken, 1);
    }
    return 0;
}

static int tell_each(void *arg)
{
    struct crowd crowd = {0, 0, 0};
    (void)arg;
    KIN_NURSERY(n);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(kin_spawn(&n, count_all, &crowd), 0);
    await(&crowd.waiting, 4);
    for (int i = 1; i <= 20; i++) {
        send_to_self(SIGUSR1);
        await(&crowd.woken, 4 * i); /* or it would be the same as the next */
    }
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(each_task_that_listens_is_told_of_each, "")
{
    run_on_few(tell_each, NULL);
}

#endif

static int cancel_a_wait(void *arg)
{
    struct crowd crowd = {0, 0, 0};
    struct kin_outcome how;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, wait_with_others, &crowd), 0);
    await(&crowd.waiting, 1);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, &how), KIN_CANCELLED);
    EXPECT_EQ(atomic_load(&crowd.woken), 1);
    return 0;
}

KIN_TEST(a_wait_can_be_cancelled, "")
{
    run_on_few(cancel_a_wait, NULL);
}

static int ask_for_nonsense(void *arg)
{
    static const int signals[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
                                  SIGSYS, SIGABRT, 0, -7, 65, 32};
    (void)arg;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        EXPECT_EQ(kin_signal_wait(signals[i], 0), -EINVAL);
    return 0;
}

KIN_TEST(some_signals_cannot_be_waited_for, "")
{
    EXPECT_EQ(kin_signal_wait(SIGUSR1, 0), KIN_NOTASK);
    EXPECT_EQ(kin_shutdown_on_signals(NULL), KIN_NOTASK);
    EXPECT_EQ(run_reporting(1, ask_for_nonsense, NULL, NULL), 0);
}

static int lack_the_capability(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_signal_wait(SIGUSR1, 0), KIN_NOCAP);
    EXPECT_EQ(kin_shutdown_on_signals(NULL), KIN_NOCAP);
    struct kin_case one = kin_case_signal(SIGUSR1);
    EXPECT_EQ(kin_select(&one, 1, 0), KIN_NOCAP);
    struct sigaction now; /* and nothing was held */
    EXPECT_EQ(sigaction(SIGUSR1, NULL, &now), 0);
    EXPECT(now.sa_handler == SIG_DFL);
    return 0;
}

static int without_the_capability(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.caps = KIN_CAP_ALL & ~KIN_CAP_PROCESS;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, &options, lack_the_capability, arg, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(signals_need_a_capability, "")
{
    EXPECT_EQ(run_reporting(1, without_the_capability, NULL, NULL), 0);
}

/* ---- holding and giving back ---- */

static volatile sig_atomic_t handled;

static void handle(int signo)
{
    handled = signo;
}

static int use_it(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_signal_wait(SIGUSR1, 0), KIN_TIMEOUT);
    send_to_self(SIGUSR1);
    EXPECT_EQ(kin_signal_wait(SIGUSR1, KIN_NEVER), 0);
    EXPECT_EQ(handled, 0);
    return 0;
}

KIN_TEST(when_the_runtime_ends_everything_is_as_before, "")
{
    sigset_t before, after;
    EXPECT(signal(SIGUSR1, handle) != SIG_ERR);
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    for (int i = 0; i < 5; i++) {
        handled = 0;
        run_on_few(use_it, NULL);
        EXPECT_EQ(raise(SIGUSR1), 0);
        EXPECT_EQ(handled, SIGUSR1);
    }
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    for (int signo = 1; signo <= 64; signo++)
        EXPECT_EQ(sigismember(&after, signo), sigismember(&before, signo));
}

KIN_TEST(a_signal_that_all_threads_block_arrives, "")
{
    sigset_t all;
    sigfillset(&all);
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
    run_on_few(wait_for_one, NULL);
}

/* ---- several runtimes ---- */

struct runtime {
    _Atomic int *held, *done;
    int count;
};

static int hold_together(void *arg)
{
    struct runtime *runtime = arg;
    EXPECT_EQ(kin_signal_wait(SIGUSR1, 0), KIN_TIMEOUT);
    atomic_fetch_add(runtime->held, 1);
    while (atomic_load(runtime->held) < runtime->count)
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
    EXPECT_EQ(kin_signal_wait(SIGUSR1, KIN_NEVER), 0);
    atomic_fetch_add(runtime->done, 1);
    return 0;
}

static void *run_it(void *arg)
{
    EXPECT_EQ(run_reporting(2, hold_together, arg, NULL), 0);
    return NULL;
}

KIN_TEST(every_runtime_gets_it, "")
{
    for (int round = 0; round < 5; round++) {
        _Atomic int held = 0, done = 0;
        struct runtime runtime = {&held, &done, 3};
        pthread_t threads[3];
        for (int i = 0; i < 3; i++)
            EXPECT_EQ(pthread_create(&threads[i], NULL, run_it, &runtime), 0);
        while (atomic_load(&held) < 3)
            usleep(1000);
        send_to_self(SIGUSR1); /* one for all three */
        for (int i = 0; i < 3; i++)
            EXPECT_EQ(pthread_join(threads[i], NULL), 0);
        EXPECT_EQ(atomic_load(&done), 3);
    }
}

/* ---- among other work ---- */

struct traffic {
    int fds[2];
    _Atomic int listens, ends;
};

static int echo_bytes(void *arg)
{
    struct traffic *traffic = arg;
    char byte;
    ssize_t got;
    while ((got = kin_read(traffic->fds[1], &byte, 1, KIN_NEVER)) == 1)
        EXPECT_EQ(kin_write(traffic->fds[1], &byte, 1, NULL, KIN_NEVER), 0);
    return (int)got;
}

static int count_signals(void *arg)
{
    struct traffic *traffic = arg;
    int count = 0;
    EXPECT_EQ(kin_signal_wait(SIGUSR1, 0), KIN_TIMEOUT); /* from here on it hears of each */
    atomic_store(&traffic->listens, 1);
    while (!atomic_load(&traffic->ends)) {
        int rc = kin_signal_wait(SIGUSR1, kin_after(KIN_MS(10)));
        EXPECT(rc == 0 || rc == KIN_TIMEOUT);
        count += rc == 0;
    }
    if (count == 0) /* it did not run meanwhile, and is told now */
        EXPECT_EQ(kin_signal_wait(SIGUSR1, KIN_NEVER), 0);
    return 0;
}

/* Nothing in the program sees an interruption, however many signals come. */
static int work_under_fire(void *arg)
{
    struct traffic traffic = {.ends = 0};
    char byte;
    (void)arg;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, traffic.fds), 0);
    EXPECT_EQ(kin_signal_wait(SIGUSR1, 0), KIN_TIMEOUT);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, echo_bytes, &traffic), 0);
    EXPECT_EQ(kin_spawn(&n, count_signals, &traffic), 0);
    await(&traffic.listens, 1);
    for (int i = 0; i < 300; i++) {
        if (i % 3 == 0)
            send_to_self(SIGUSR1);
        EXPECT_EQ(kin_write(traffic.fds[0], "x", 1, NULL, KIN_NEVER), 0);
        EXPECT_EQ(kin_read(traffic.fds[0], &byte, 1, KIN_NEVER), 1);
        if (i % 100 == 0)
            EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
    }
    atomic_store(&traffic.ends, 1);
    EXPECT_EQ(kin_close(traffic.fds[0]), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(kin_close(traffic.fds[1]), 0);
    return 0;
}

KIN_TEST(signals_interrupt_nobody, "")
{
    run_on_few(work_under_fire, NULL);
}

/* ---- select ---- */

static int send_two(void *arg)
{
    int number = 7;
    send_to_self(SIGUSR1);
    return kin_chan_send(arg, &number, KIN_NEVER);
}

static int select_both(void *arg)
{
    struct kin_chan *chan;
    int number = 0, signals = 0, items = 0;
    (void)arg;
    EXPECT_EQ(kin_chan_create(&chan, sizeof(int), 0), 0);
    struct kin_case cases[] = {kin_case_signal(SIGUSR1), kin_case_recv(chan, &number),
                               kin_case_signal(0)};
    EXPECT_EQ(kin_select(cases, 3, 0), KIN_TIMEOUT);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, send_two, chan), 0);
    for (int i = 0; i < 2; i++) {
        int index = kin_select(cases, 3, KIN_NEVER);
        EXPECT(index == 0 || index == 1);
        EXPECT_EQ(cases[index].status, 0);
        signals += index == 0;
        items += index == 1;
    }
    EXPECT_EQ(signals, 1);
    EXPECT_EQ(items, 1);
    EXPECT_EQ(number, 7);
    EXPECT_EQ(kin_select(cases, 3, kin_after(KIN_MS(5))), KIN_TIMEOUT);
    cases[0] = kin_case_signal(SIGKILL);
    EXPECT_EQ(kin_select(cases, 3, KIN_NEVER), 0);
    EXPECT_EQ(cases[0].status, -EINVAL);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_signal_is_a_case_of_a_select, "")
{
    run_on_few(select_both, NULL);
}

/* ---- shutdown ---- */

static int shut_down(void *arg)
{
    int signo = *(int *)arg;
    _Atomic int running = 0;
    struct kin_outcome how;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_shutdown_on_signals(&n), 0);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_spawn(&n, sleep_for_ever, &running), 0);
    await(&running, 3);
    send_to_self(signo);
    EXPECT_EQ(kin_nursery_join(&n, &how), KIN_CANCELLED);
    return 0;
}

KIN_TEST(either_signal_cancels_the_nursery, "")
{
    run_on_few(shut_down, &(int){SIGTERM});
    run_on_few(shut_down, &(int){SIGINT});
}

static int finish_early(void *arg)
{
    (void)arg;
    return 0;
}

static int end_before_any_signal(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_shutdown_on_signals(&n), 0);
    EXPECT_EQ(kin_spawn(&n, finish_early, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0); /* nobody in there waits for a signal */
    EXPECT_EQ(kin_shutdown_on_signals(&n), KIN_STALE);
    return 0;
}

KIN_TEST(a_watched_nursery_ends_by_itself_too, "")
{
    run_on_few(end_before_any_signal, NULL);
}

static int cancel_all(void *arg)
{
    _Atomic int running = 0;
    (void)arg;
    EXPECT_EQ(kin_shutdown_on_signals(NULL), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, sleep_for_ever, &running), 0);
    await(&running, 1);
    send_to_self(SIGTERM);
    EXPECT_EQ(kin_sleep(KIN_NEVER), KIN_CANCELLED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 17; /* what was saved, for instance */
}

static int in_a_child(void *arg)
{
    (void)arg;
    return kin_shutdown_on_signals(NULL); /* of the whole runtime, whoever asks */
}

static int cancel_all_for_a_child(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, in_a_child, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    send_to_self(SIGINT);
    return kin_sleep(KIN_NEVER);
}

KIN_TEST(without_a_nursery_it_is_everything, "")
{
    EXPECT_EQ(run_reporting(1, cancel_all, NULL, NULL), 17);
    EXPECT_EQ(run_reporting(2, cancel_all, NULL, NULL), 17);
    EXPECT_EQ(run_reporting(2, cancel_all_for_a_child, NULL, NULL), KIN_CANCELLED);
}

/* Runs fn in a process of its own: how that ended. */
static int run_apart(kin_task_fn *fn)
{
    int wstatus;
    fflush(NULL);
    pid_t pid = fork();
    EXPECT_GE(pid, 0);
    if (pid == 0)
        _exit(run_reporting(2, fn, NULL, NULL) == 0 ? 0 : 1);
    EXPECT_EQ(waitpid(pid, &wstatus, 0), pid);
    return wstatus;
}

static int refuse_to_stop(void *arg)
{
    _Atomic int *running = arg;
    kin_mask();
    atomic_fetch_add(running, 1);
    int rc = kin_sleep(kin_after(KIN_SEC(30)));
    kin_unmask();
    return rc;
}

static int ask_twice(void *arg)
{
    _Atomic int running = 0;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_shutdown_on_signals(&n), 0);
    EXPECT_EQ(kin_spawn(&n, refuse_to_stop, &running), 0);
    await(&running, 1);
    send_to_self(SIGTERM);
    while (kin_nursery_state(&n) != KIN_NURSERY_CANCELLING)
        usleep(1000);
    for (int i = 0; i < 1000; i++) { /* the first ones may count as the same */
        send_to_self(SIGTERM);
        usleep(20000);
    }
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(another_signal_ends_the_process, "")
{
    int wstatus = run_apart(ask_twice);
    EXPECT(WIFSIGNALED(wstatus));
    EXPECT_EQ(WTERMSIG(wstatus), SIGTERM);
}

static int outlive_the_nursery(void *arg)
{
    EXPECT_EQ(end_before_any_signal(arg), 0);
    send_to_self(SIGTERM);
    return kin_sleep(kin_after(KIN_SEC(30)));
}

KIN_TEST(after_the_nursery_signals_do_what_they_did, "")
{
    int wstatus = run_apart(outlive_the_nursery);
    EXPECT(WIFSIGNALED(wstatus));
    EXPECT_EQ(WTERMSIG(wstatus), SIGTERM);
}

static int wait_as_well(void *arg)
{
    _Atomic int running = 0;
    (void)arg;
    EXPECT_EQ(kin_signal_wait(SIGTERM, 0), KIN_TIMEOUT);
    EXPECT_EQ(end_before_any_signal(NULL), 0);
    send_to_self(SIGTERM); /* a task's business now, not the process's */
    EXPECT_EQ(kin_signal_wait(SIGTERM, KIN_NEVER), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_shutdown_on_signals(&n), 0);
    EXPECT_EQ(kin_spawn(&n, sleep_for_ever, &running), 0);
    await(&running, 1);
    send_to_self(SIGTERM);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED); /* both get it */
    EXPECT_EQ(kin_signal_wait(SIGTERM, KIN_NEVER), 0);
    return 0;
}

KIN_TEST(a_signal_that_tasks_wait_for_is_theirs, "")
{
    run_on_few(wait_as_well, NULL);
}
