/* SPDX-License-Identifier: MIT */
/*
 * Signals: of the operating system, as things that tasks wait for; and shutting down on one.
 *
 *     int reload_on_hup(void *arg)
 *     {
 *         int rc;
 *         while ((rc = kin_signal_wait(SIGHUP, KIN_NEVER)) == 0)
 *             reload(arg);
 *         return rc;
 *     }
 *
 * A signal is held for kin from its first use in a runtime on: it no longer does what it did to the
 * process. When the runtime ends it does that again, and what nobody has waited for by then is
 * dropped. The mask of no thread is changed: a signal is seen wherever it arrives, even when all
 * threads of the program block it. The one exception is what is sent to a single thread that blocks
 * it: raise in a task, whose worker blocks all signals, stays with that thread, so send it to the
 * process instead: kill(getpid(), signo).
 *
 * Any number of tasks may listen, in any number of runtimes. A task listens for a signal from its
 * first wait for it to its end: it is told of each that arrives, also of one that arrives between
 * two of its waits. A task that waits for the first time finds what arrived before and no task of
 * its runtime has taken. Signals of one number that arrive before a task looks are one for it, also
 * those from SIGRTMIN on, of which the system would keep each.
 *
 * In the lab nothing arrives from outside: a test raises signals by kin_lab_raise.
 *
 * A process that the program forks without an exec has no runtime: what is held here does there
 * what it did before.
 */
#ifndef KIN_SIGNAL_H
#define KIN_SIGNAL_H

#include <kin/base.h>
#include <kin/nursery.h>
#include <kin/status.h>
#include <kin/time.h>

#include <signal.h>

KIN_BEGIN_DECLS

/**
 * kin_signal_wait - wait for a signal of the operating system.
 * @signo:    SIGHUP, SIGUSR1, SIGWINCH, ... Not SIGKILL or SIGSTOP, which nobody can wait for, and
 *            not SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS and SIGABRT, which are about what
 *            a thread has just done.
 * @deadline: KIN_NEVER to wait without end; 0 to only look. With 0 it is also held from then on,
 *            so that none is missed while the program starts.
 *
 * In a select the same is kin_case_signal.
 *
 * Example:
 *     int until_told(void *arg)
 *     {
 *         int rc = kin_signal_wait(SIGUSR1, kin_after(KIN_SEC(60)));
 *         (void)arg;
 *         return rc == KIN_TIMEOUT ? 0 : rc;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  reports it
 * Needs:   KIN_CAP_PROCESS
 * Budget:  1 op
 * Returns: 0 when it has arrived, KIN_TIMEOUT, KIN_CANCELLED, KIN_NOCAP, KIN_BUDGET, KIN_NOTASK,
 *          -EINVAL for one that cannot be waited for, -ENOMEM, -EAGAIN when no thread can be had
 *          to listen
 */
KIN_API KIN_MUST_USE int kin_signal_wait(int signo, kin_time deadline);

/**
 * kin_shutdown_on_signals - let SIGINT and SIGTERM cancel a nursery.
 * @n: a nursery that is open; NULL: the first task of the runtime, and with it everything.
 *
 * The first of the two signals to arrive cancels it with KIN_CANCELLED; nobody has to wait for it.
 * Any number of nurseries may be asked for.
 *
 * The second signal is the default action: while the shutdown goes on, another one of the two does
 * what it would do without kin, which as a rule ends the process. So whoever waits in vain presses
 * the keys once more. One that comes within a tenth of a second counts as the same, because
 * terminals, shells and parent processes often send both together. Likewise once the nursery is
 * over: the signals do what they did before. A signal that some task of the program has waited for
 * never ends the process.
 *
 * Example:
 *     static int work(void *arg)
 *     {
 *         (void)arg;
 *         return kin_sleep(KIN_NEVER);
 *     }
 *     int serve(void *arg)
 *     {
 *         KIN_NURSERY(n);
 *         int rc = kin_shutdown_on_signals(&n);
 *         if (rc == 0)
 *             rc = kin_spawn(&n, work, arg);
 *         rc = kin_nursery_end(&n, rc);
 *         return rc == KIN_CANCELLED ? 0 : rc;
 *     }
 *
 * From:    task
 * Parks:   no
 * Needs:   KIN_CAP_PROCESS
 * Budget:  1 op
 * Returns: 0, KIN_STALE when the nursery is not open, KIN_NOCAP, KIN_BUDGET, KIN_CANCELLED,
 *          KIN_NOTASK, -ENOMEM, -EAGAIN when no thread can be had to listen
 */
KIN_API KIN_MUST_USE int kin_shutdown_on_signals(struct kin_nursery *n);

KIN_END_DECLS

#endif
