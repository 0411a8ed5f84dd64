/* SPDX-License-Identifier: MIT */
/*
 * Signals: a handler that sets a bit and rings, and a thread that sleeps until it does.
 *
 *     some thread: on_signal --> arrived |= bit, bell = 1, wake --> the listener takes the bits
 *
 * A signalfd sees only what every thread has blocked, and the masks of the program's own threads
 * are the program's: the thread that called kin_run would still be hit. A handler needs nobody's
 * mask. Where all threads block a signal nobody would run the handler; so the listener alone does
 * not block what is held. No mask of any other thread is ever changed, and no descriptor is used:
 * nothing is inherited. A process that the program has forked without an exec has the handler and
 * nobody who listens: there the handler gives the signal back and lets it do what it did.
 *
 * The handler interrupts no system call that can be restarted, and it runs on the alternate stack
 * of a worker, because the stack of a task has little room. It uses nothing but atomics and a
 * futex.
 *
 * ThreadSanitizer keeps a signal back until its thread makes a call that it knows. A sleep that is
 * restarted by the kernel would never come to that, so there the sleeps end early instead, and the
 * listener's after a while: it may have been hit right before it fell asleep.
 */
#define _GNU_SOURCE 1
#ifdef KIN__LAB /* the lab has signals of its own: lab/signal.c */
#define kin__signal_hold kin__host_signal_hold
#define kin__signal_let_go kin__host_signal_let_go
#define kin__signal_take kin__host_signal_take
#define kin__signal_pass kin__host_signal_pass
#define kin__signal_call kin__host_signal_call
#endif
#include "plat/signal.h"

#include "base/assert.h"
#include "plat/context.h"
#include "plat/plat.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#if KIN__TSAN
#define HANDLER_FLAGS SA_ONSTACK
#define LISTEN_NS 10000000
#else
#define HANDLER_FLAGS (SA_ONSTACK | SA_RESTART)
#define LISTEN_NS (-1)
#endif

static kin__a64 arrived; /* set by the handler */
static kin__a32 bell;    /* futex: 1 when there is something to look at */
static kin__a32 listens; /* the number of this process; its forks have others */
static kin__a64 ignored; /* those that are held and were ignored before */
static struct sigaction previous[KIN__SIGNALS]; /* of those that are held; under the lock of all */

/* What instructions cause, as against somebody who sends it. */
static const int caused[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
#define CAUSED (sizeof caused / sizeof caused[0])

bool kin__signal_is_fit(int signo)
{
    if (signo < 1 || signo > KIN__SIGNALS || signo == SIGKILL || signo == SIGSTOP)
        return false;
    for (size_t i = 0; i < CAUSED; i++)
        if (signo == caused[i])
            return false;
    return signo <= 31 || signo >= SIGRTMIN; /* the C library keeps those in between */
}

void kin__signal_call(void)
{
    kin__store_release(&bell, 1u); /* pairs with the exchange in kin__signal_listen */
    kin__futex_wake(&bell, 1);
}

static void on_signal(int signo)
{
    const int error = errno;

    if (kin__load_relaxed(&listens) == (uint32_t)getpid()) { /* relaxed: written before the fork */
        /* pairs with the exchange in kin__signal_take */
        (void)kin__or_acq_rel(&arrived, kin__signal_bit(signo));
        kin__signal_call();
    } else {
        (void)sigaction(signo, &previous[signo - 1], NULL);
        (void)raise(signo); /* it is blocked in here, and comes as soon as this is left */
    }
    errno = error;
}

static bool is_ours(const struct sigaction *action)
{
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == on_signal;
}

static bool is_ignoring(const struct sigaction *action)
{
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == SIG_IGN;
}

static int install(int signo, struct sigaction *before)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = HANDLER_FLAGS;
    (void)sigfillset(&action.sa_mask);
    for (size_t i = 0; i < CAUSED; i++)
        (void)sigdelset(&action.sa_mask, caused[i]);
    return sigaction(signo, &action, before) != 0 ? -errno : 0;
}

int kin__signal_hold(int signo)
{
    if (!kin__plat_request())
        return -EAGAIN;
    /* alone: what a handler that was late left behind is nobody's */
    (void)kin__and_relaxed(&arrived, ~kin__signal_bit(signo));
    kin__store_relaxed(&listens, (uint32_t)getpid()); /* relaxed: for handlers in forks */
    int rc = install(signo, &previous[signo - 1]);
    if (rc == 0 && is_ignoring(&previous[signo - 1]))
        (void)kin__or_relaxed(&ignored, kin__signal_bit(signo)); /* alone: for new programs only */
    return rc;
}

bool kin__signal_is_ignored(int signo)
{
    struct sigaction now;

    if (sigaction(signo, NULL, &now) != 0)
        return false;
    if (is_ours(&now))
        return kin__load_relaxed(&ignored) & kin__signal_bit(signo); /* relaxed: as above */
    return is_ignoring(&now);
}

void kin__signal_let_go(int signo)
{
    struct sigaction now;

    if (sigaction(signo, NULL, &now) == 0 && is_ours(&now))
        (void)sigaction(signo, &previous[signo - 1], NULL);
    (void)kin__and_relaxed(&ignored, ~kin__signal_bit(signo)); /* alone: as in kin__signal_hold */
}

uint64_t kin__signal_take(void)
{
    /* relaxed: a hint; the bell brings whoever must not miss it here again */
    if (!kin__load_relaxed(&arrived))
        return 0;
    return kin__xchg_acq_rel(&arrived, UINT64_C(0)); /* pairs with the handler */
}

/* Blocks or unblocks a set of signals in the calling thread. */
static void mask(int how, uint64_t signals)
{
    sigset_t set;

    (void)sigemptyset(&set);
    for (int signo = 1; signo <= KIN__SIGNALS; signo++)
        if (signals & kin__signal_bit(signo))
            (void)sigaddset(&set, signo);
    (void)pthread_sigmask(how, &set, NULL);
}

void kin__signal_pass(int signo)
{
    struct sigaction now;

    if (sigaction(signo, NULL, &now) != 0 || !is_ours(&now))
        return; /* somebody else has taken it */
    (void)sigaction(signo, &previous[signo - 1], NULL);
    mask(SIG_UNBLOCK, kin__signal_bit(signo));
    (void)raise(signo);
    (void)install(signo, NULL);
}

void kin__signal_listen(uint64_t held)
{
    uint64_t own = kin__signal_bit(SIGPROF); /* as for all threads of ours: see thread.c */

    for (size_t i = 0; i < CAUSED; i++)
        own |= kin__signal_bit(caused[i]);
    mask(SIG_BLOCK, ~(held | own));
    mask(SIG_UNBLOCK, held);
    if (!kin__xchg_acquire(&bell, 0u)) /* pairs with the release in kin__signal_call */
        (void)kin__futex_wait(&bell, 0, LISTEN_NS);
}
