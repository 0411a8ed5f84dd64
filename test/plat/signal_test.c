/* SPDX-License-Identifier: MIT */
/*
 * Goal: a held signal is noted wherever it arrives, and everything is as before when it is let go.
 * Method: signals sent to the process and to threads, with and without masks; dispositions compared
 * before and after; a listener on a thread of its own.
 */
#include "kin_test.h"

#include "plat/context.h"
#include "plat/plat.h"
#include "plat/signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void handle(int signo)
{
    handled = signo;
}

KIN_TEST(what_cannot_be_held_is_told_apart, "")
{
    static const int unfit[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
                                SIGSYS, SIGABRT, 0, -1, 65, 1000, 32, 33};
    static const int fit[] = {SIGHUP, SIGINT, SIGTERM, SIGCHLD, SIGPIPE, SIGWINCH, SIGPROF};
    for (size_t i = 0; i < sizeof unfit / sizeof unfit[0]; i++)
        EXPECT(!kin__signal_is_fit(unfit[i]));
    for (size_t i = 0; i < sizeof fit / sizeof fit[0]; i++)
        EXPECT(kin__signal_is_fit(fit[i]));
    EXPECT(kin__signal_is_fit(SIGRTMIN));
    EXPECT(kin__signal_is_fit(SIGRTMAX));
}

KIN_TEST(arrivals_are_noted_once, "")
{
    EXPECT_EQ(kin__signal_hold(SIGUSR1), 0);
    EXPECT_EQ(kin__signal_hold(SIGRTMIN + 3), 0);
    EXPECT_EQ(kin__signal_take(), 0);
    errno = 77;
    EXPECT_EQ(raise(SIGUSR1), 0);
    EXPECT_EQ(errno, 77); /* the handler leaves it alone */
    EXPECT_EQ(raise(SIGUSR1), 0);
    EXPECT_EQ(raise(SIGRTMIN + 3), 0);
    EXPECT_EQ(kin__signal_take(), kin__signal_bit(SIGUSR1) | kin__signal_bit(SIGRTMIN + 3));
    EXPECT_EQ(kin__signal_take(), 0);
    kin__signal_let_go(SIGUSR1);
    kin__signal_let_go(SIGRTMIN + 3);
}

KIN_TEST(dispositions_come_back, "")
{
    struct sigaction mine, now;
    memset(&mine, 0, sizeof mine);
    mine.sa_handler = handle;
    mine.sa_flags = SA_RESTART;
    sigaddset(&mine.sa_mask, SIGUSR2);
    EXPECT_EQ(sigaction(SIGUSR1, &mine, NULL), 0);
    EXPECT_EQ(kin__signal_hold(SIGUSR1), 0);
    EXPECT_EQ(raise(SIGUSR1), 0);
    EXPECT_EQ(handled, 0);
    kin__signal_let_go(SIGUSR1);
    EXPECT_EQ(sigaction(SIGUSR1, NULL, &now), 0);
    EXPECT(now.sa_handler == handle);
    EXPECT_EQ(now.sa_flags & SA_RESTART, SA_RESTART);
    EXPECT_EQ(sigismember(&now.sa_mask, SIGUSR2), 1);
    EXPECT_EQ(raise(SIGUSR1), 0);
    EXPECT_EQ(handled, SIGUSR1);
    EXPECT_EQ(kin__signal_hold(SIGUSR1), 0);
    EXPECT_EQ(kin__signal_take(), 0); /* nothing of the time before */
    kin__signal_let_go(SIGUSR1);
}

KIN_TEST(whoever_took_it_since_keeps_it, "")
{
    struct sigaction now;
    EXPECT_EQ(kin__signal_hold(SIGUSR1), 0);
    EXPECT(signal(SIGUSR1, handle) != SIG_ERR);
    kin__signal_pass(SIGUSR1); /* not ours to pass on */
    kin__signal_let_go(SIGUSR1);
    EXPECT_EQ(sigaction(SIGUSR1, NULL, &now), 0);
    EXPECT(now.sa_handler == handle);
}

KIN_TEST(passing_on_does_what_it_did_before, "")
{
    EXPECT(signal(SIGUSR1, handle) != SIG_ERR);
    EXPECT_EQ(kin__signal_hold(SIGUSR1), 0);
    kin__signal_pass(SIGUSR1);
    EXPECT_EQ(handled, SIGUSR1);
    EXPECT_EQ(kin__signal_take(), 0);
    EXPECT_EQ(raise(SIGUSR1), 0); /* held again */
    EXPECT_EQ(kin__signal_take(), kin__signal_bit(SIGUSR1));
    kin__signal_let_go(SIGUSR1);
}

KIN_TEST(what_was_ignored_is_known, "")
{
    EXPECT(signal(SIGHUP, SIG_IGN) != SIG_ERR);
    EXPECT(kin__signal_is_ignored(SIGHUP));
    EXPECT_EQ(kin__signal_hold(SIGHUP), 0);
    EXPECT_EQ(kin__signal_hold(SIGUSR1), 0);
    EXPECT(kin__signal_is_ignored(SIGHUP)); /* as far as others are concerned */
    EXPECT(!kin__signal_is_ignored(SIGUSR1));
    kin__signal_let_go(SIGHUP);
    kin__signal_let_go(SIGUSR1);
    EXPECT(signal(SIGHUP, SIG_DFL) == SIG_IGN);
    EXPECT(!kin__signal_is_ignored(SIGHUP));
    EXPECT_EQ(kin__signal_hold(SIGHUP), 0);
    EXPECT(!kin__signal_is_ignored(SIGHUP));
    kin__signal_let_go(SIGHUP);
}

/* Nobody listens in a process that was forked: there the signal does what it did. */
KIN_TEST(a_forked_process_has_its_signals_back, "")
{
    int wstatus;
    EXPECT(signal(SIGUSR1, handle) != SIG_ERR);
    EXPECT_EQ(kin__signal_hold(SIGUSR1), 0);
    EXPECT_EQ(kin__signal_hold(SIGTERM), 0);
    pid_t pid = fork();
    EXPECT_GE(pid, 0);
    if (pid == 0) {
        (void)raise(SIGUSR1);
        if (handled != SIGUSR1)
            _exit(1);
        (void)raise(SIGTERM);
        _exit(2);
    }
    EXPECT_EQ(waitpid(pid, &wstatus, 0), pid);
    EXPECT(WIFSIGNALED(wstatus));
    EXPECT_EQ(WTERMSIG(wstatus), SIGTERM);
    EXPECT_EQ(handled, 0);
    EXPECT_EQ(raise(SIGUSR1), 0); /* and is held here */
    EXPECT_EQ(kin__signal_take(), kin__signal_bit(SIGUSR1));
    kin__signal_let_go(SIGUSR1);
    kin__signal_let_go(SIGTERM);
}

static void ask_for_memory(void)
{
    kin__plat_fail_after(1, false);
    EXPECT_EQ(kin__signal_hold(SIGUSR1), -EAGAIN);
    kin__plat_fail_after(0, false);
}

KIN_TEST(a_hold_can_be_made_to_fail, "")
{
    struct sigaction before, now;
    EXPECT_EQ(sigaction(SIGUSR1, NULL, &before), 0);
    ask_for_memory();
    EXPECT_EQ(sigaction(SIGUSR1, NULL, &now), 0);
    EXPECT(now.sa_handler == before.sa_handler);
}

/* ---- the listener ---- */

static _Atomic uint64_t heard;
static atomic_int ends;

static void listen_until_told(void *arg)
{
    uint64_t held = *(uint64_t *)arg;
    while (!atomic_load(&ends)) {
        kin__signal_listen(held);
        atomic_fetch_or(&heard, kin__signal_take());
    }
}

static void await_heard(uint64_t set)
{
    while ((atomic_load(&heard) & set) != set) /* ends: by the alarm of the test at the latest */
        usleep(1000);
}

KIN_TEST(the_listener_hears_what_all_others_block, "")
{
    uint64_t held = kin__signal_bit(SIGUSR1) | kin__signal_bit(SIGUSR2);
    struct kin__thread thread;
    sigset_t all, before, now;
    sigfillset(&all);
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &all, &before), 0);
    EXPECT_EQ(kin__signal_hold(SIGUSR1), 0);
    EXPECT_EQ(kin__signal_hold(SIGUSR2), 0);
    EXPECT_EQ(kin__thread_start(&thread, listen_until_told, &held, 65536, "listener"), 0);
    EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
    await_heard(kin__signal_bit(SIGUSR1));
    EXPECT_EQ(kill(getpid(), SIGUSR2), 0);
    await_heard(held);
    atomic_store(&heard, 0);
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    EXPECT_EQ(raise(SIGUSR2), 0); /* in this thread now */
    await_heard(kin__signal_bit(SIGUSR2));
    atomic_store(&ends, 1);
    kin__signal_call();
    kin__thread_join(&thread);
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
    for (int signo = 1; signo <= 64; signo++) /* nobody has changed it */
        EXPECT_EQ(sigismember(&now, signo), sigismember(&before, signo));
    kin__signal_let_go(SIGUSR1);
    kin__signal_let_go(SIGUSR2);
}

/* A sanitizer may keep a signal back until the next call, so there it ends early instead. */
#if !KIN__TSAN
struct reader {
    pthread_t thread;
    int fd;
};

static void *interrupt(void *arg)
{
    struct reader *reader = arg;
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        EXPECT_EQ(pthread_kill(reader->thread, SIGUSR1), 0);
    }
    EXPECT_EQ(write(reader->fd, "x", 1), 1);
    return NULL;
}

KIN_TEST(calls_are_not_interrupted, "")
{
    struct reader reader;
    int fds[2];
    char byte;
    pthread_t thread;
    EXPECT_EQ(pipe(fds), 0);
    reader = (struct reader){pthread_self(), fds[1]};
    EXPECT_EQ(kin__signal_hold(SIGUSR1), 0);
    EXPECT_EQ(pthread_create(&thread, NULL, interrupt, &reader), 0);
    EXPECT_EQ(read(fds[0], &byte, 1), 1); /* and not -1 with EINTR */
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(kin__signal_take(), kin__signal_bit(SIGUSR1));
    kin__signal_let_go(SIGUSR1);
}
#endif
