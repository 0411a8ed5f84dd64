/* SPDX-License-Identifier: MIT */
/*
 * What SIGINT, SIGTERM and SIGHUP do to the command line: it ends in good order, or else by force.
 *
 *     at once             a flag: no run is begun, the one under way is abandoned between two of
 *                         its steps, findings are told; processes that share the work are asked too
 *     a second later      somebody is in a step that does not end: force tells what is known
 *     three seconds later processes that share the work are killed
 *     a second signal     nothing is told any more
 *
 * A terminal asks every process of its group, and so do some programs that limit time, on top of
 * the one they started. So a second signal counts only half a second after the first, and never in
 * a process that shares the work: its parent decides. Whoever has a handler for a signal keeps it,
 * and one that is ignored stays so.
 */
#include "lab/stop.h"

#include "lab/options.h"
#include "plat/plat.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define AGAIN_NS INT64_C(500000000) /* after which a second signal is one of its own */
#define PARENT 3u                   /* times the patience of one who runs tests */
#define CHILDREN (KIN__OPTIONS_JOBS + 1u)

/* The address sanitizer asks the C library for the stack before a call that does not return, and
 * waits there for ever if that is what the signal has interrupted. */
#define NOT_WATCHED __attribute__((no_sanitize("address")))

volatile sig_atomic_t kin__stop_signal;
unsigned kin__stop_patience = 1;

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
#define SIGNALS (sizeof(signals) / sizeof(*signals))

static volatile pid_t children[CHILDREN]; /* 0: nobody; changed while the signals are held back */
static void (*force_it)(void);
static bool is_child, is_forced;
static int64_t asked_at;

static bool has_children(void)
{
    for (size_t i = 0; i < CHILDREN; i++)
        if (children[i])
            return true;
    return false;
}

static void ask_children(int signo)
{
    for (size_t i = 0; i < CHILDREN; i++)
        if (children[i])
            (void)kill(children[i], signo);
}

NOT_WATCHED _Noreturn void kin__stop_die(void)
{
    sigset_t set;
    const int signo = (int)kin__stop_signal;
    ask_children(SIGKILL);
    (void)signal(signo, SIG_DFL);
    (void)raise(signo);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, signo);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    _exit(128 + signo);
}

/* It takes too long. */
NOT_WATCHED static void on_alarm(int signo)
{
    (void)signo;
    if (has_children()) {
        ask_children(SIGKILL); /* whoever waits for them goes on */
        (void)alarm(kin__stop_patience);
        return;
    }
    if (!is_forced) {
        is_forced = true; /* once: it may fail in what it finds */
        (void)alarm(kin__stop_patience);
        if (force_it)
            force_it();
    }
    kin__stop_die();
}

static void set_action(int signo, void (*to)(int signo))
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = to;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    (void)sigaction(signo, &action, NULL);
}

/* Nothing in it can fail, so that errno stays as it is: a child has its number until it leaves the
 * table. */
NOT_WATCHED static void on_stop(int signo)
{
    if (!kin__stop_signal) {
        kin__stop_signal = signo;
        asked_at = kin__host_now();
        ask_children(signo);
        set_action(SIGALRM, on_alarm);
        (void)alarm(has_children() ? PARENT * kin__stop_patience : kin__stop_patience);
    } else if (!is_child && kin__host_now() - asked_at >= AGAIN_NS) {
        kin__stop_die();
    }
}

static void exchange(int signo, void (*from)(int signo), void (*to)(int signo))
{
    struct sigaction now;
    if (sigaction(signo, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == from)
        set_action(signo, to);
}

void kin__stop_watch(void (*force)(void))
{
    force_it = force;
    kin__stop_signal = 0;
    for (size_t i = 0; i < SIGNALS; i++)
        exchange(signals[i], SIG_DFL, on_stop);
}

void kin__stop_unwatch(void)
{
    for (size_t i = 0; i < SIGNALS; i++)
        exchange(signals[i], on_stop, SIG_DFL);
}

/* ---- processes that share the work ---- */

static void hold(sigset_t *before)
{
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < SIGNALS; i++)
        (void)sigaddset(&set, signals[i]);
    (void)sigaddset(&set, SIGALRM);
    (void)sigprocmask(SIG_BLOCK, &set, before);
}

static void replace(pid_t from, pid_t to)
{
    for (size_t i = 0; i < CHILDREN; i++) {
        if (children[i] == from) {
            children[i] = to;
            return;
        }
    }
}

pid_t kin__stop_fork(bool is_asked)
{
    sigset_t before;
    const pid_t self = getpid();
    hold(&before);
    const pid_t pid = fork();
    if (pid == 0) {
        is_child = true;
        force_it = is_asked ? force_it : NULL;
        for (size_t i = 0; i < CHILDREN; i++)
            children[i] = 0;
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != self)
            _exit(1); /* nobody is there any more who would end it */
    } else if (pid > 0 && is_asked) {
        replace(0, pid);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return pid;
}

void kin__stop_reap(pid_t pid, int *how)
{
    siginfo_t info;
    /* Ends: it does; where ends are ignored nobody is told how, only that it is gone. It leaves the
     * table before its number is free, which may be another's then. */
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0 && kill(pid, 0) == 0)
        continue;
    replace(pid, 0);
    *how = 0;
    (void)waitpid(pid, how, 0); /* at once */
}

bool kin__stop_is_child(void)
{
    return is_child;
}
