/* SPDX-License-Identifier: MIT */
/*
 * Goal: whoever asks is told once when a signal ends the process, which ends as it would have.
 * Method: children that abort, raise or are sent one, with and without a handler of their own.
 */
#include "kin_test.h"

#include "plat/plat.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int pipe_ends[2];

static void tell(void)
{
    (void)!write(pipe_ends[1], "!", 1);
}

static void own(int signo)
{
    (void)signo;
    _exit(7);
}

/* How a child ends that does this; *told: how often somebody was told. */
static int end_of(void (*act)(void), int *told)
{
    char bytes[8];
    int how;
    EXPECT_EQ(pipe(pipe_ends), 0);
    pid_t pid = fork();
    EXPECT_GE(pid, 0);
    if (pid == 0) {
        static const int signals[] = {SIGABRT, SIGFPE, SIGILL, SIGSYS};
        for (unsigned i = 0; i < 4; i++)
            (void)signal(signals[i], SIG_DFL); /* a sanitizer may have had its own */
        act();
        _exit(0);
    }
    close(pipe_ends[1]);
    EXPECT_EQ(waitpid(pid, &how, 0), pid);
    *told = (int)read(pipe_ends[0], bytes, sizeof bytes);
    close(pipe_ends[0]);
    return how;
}

static void abort_now(void)
{
    kin__crash_init(tell);
    kin__crash_init(tell); /* once, however many ask */
    abort();
}

static void send_one(void)
{
    kin__crash_init(tell);
    (void)kill(getpid(), SIGABRT);
    for (;;) /* ends: by the signal */
        (void)pause();
}

static void raise_another(void)
{
    kin__crash_init(tell);
    (void)raise(SIGFPE);
}

static void abort_with_own(void)
{
    (void)signal(SIGABRT, own);
    kin__crash_init(tell);
    abort();
}

static void abort_after(void)
{
    kin__crash_init(tell);
    kin__crash_init(tell);
    kin__crash_fini();
    kin__crash_fini();
    abort();
}

KIN_TEST(a_crash_is_told_once_and_happens, "")
{
    int told, how = end_of(abort_now, &told);
    EXPECT(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
    EXPECT_EQ(told, 1);
    how = end_of(send_one, &told);
    EXPECT(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
    EXPECT_EQ(told, 1);
    how = end_of(raise_another, &told);
    EXPECT(WIFSIGNALED(how) && WTERMSIG(how) == SIGFPE);
    EXPECT_EQ(told, 1);
}

KIN_TEST(who_has_a_handler_or_asks_no_longer_is_left_alone, "")
{
    int told, how = end_of(abort_with_own, &told);
    EXPECT(WIFEXITED(how) && WEXITSTATUS(how) == 7);
    EXPECT_EQ(told, 0);
    how = end_of(abort_after, &told);
    EXPECT(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
    EXPECT_EQ(told, 0);
}
