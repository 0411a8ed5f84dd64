/* SPDX-License-Identifier: MIT */
/*
 * Signals in the lab: those that a test raises, delivered by the task that raises them.
 *
 * The system's own never arrive: nothing is installed, and no thread listens. One that nobody holds
 * does what it does to a process: as a rule it ends it, which is a failure of the run.
 *
 * An execution knows nothing of the one before: its runtime has let go of what it held, however it
 * ended, and whoever holds a signal first forgets what arrived.
 */
#include "lab/world.h"

#include "base/text.h"
#include "plat/signal.h"
#include "sched/entry.h"
#include "wait/signal.h"

#include <errno.h>
#include <signal.h>

static uint64_t held, arrived;
static int passed; /* one that is to do what it would without kin; 0: none */

int kin__signal_hold(int signo)
{
    kin__lab_touch(&held, KIN__LAB_WRITE); /* for whoever raises it */
    held |= kin__signal_bit(signo);
    arrived &= ~kin__signal_bit(signo);
    return 0;
}

void kin__signal_let_go(int signo)
{
    kin__lab_touch(&held, KIN__LAB_WRITE); /* as above */
    held &= ~kin__signal_bit(signo);
}

uint64_t kin__signal_take(void)
{
    uint64_t all = arrived;
    arrived = 0;
    return all;
}

void kin__signal_pass(int signo)
{
    passed = signo; /* the caller has a lock: it is done when that is given */
}

void kin__signal_call(void)
{
}

/* Whether a process that does not care for a signal lives on. */
static bool is_harmless(int signo)
{
    return signo == SIGCHLD || signo == SIGURG || signo == SIGWINCH || signo == SIGCONT;
}

static void act(int signo)
{
    if (is_harmless(signo))
        return;
    kin__world_failf("signal", KIN_PANICKED, kin__player_path(kin__world.current),
                     "signal %d ends the process: nobody waits for it", signo);
}

int kin_lab_raise(int signo)
{
    struct kin__task *task = kin__task_self();
    if (!kin__signal_is_fit(signo))
        return -EINVAL;
    if (!task)
        return KIN_NOTASK;
    kin__entry_check(task);
    passed = 0;
    kin__lab_touch(&held, KIN__LAB_READ); /* for whoever holds it next */
    if (held & kin__signal_bit(signo)) {
        arrived |= kin__signal_bit(signo);
        kin__signal_deliver();
    } else {
        passed = signo;
    }
    if (passed)
        act(passed);
    return 0;
}
