/* SPDX-License-Identifier: MIT */
/*
 * Crashes: somebody is told when a signal is about to end the process that the process has caused.
 *
 * These are SIGABRT, SIGFPE, SIGILL and SIGSYS; fault.c has the others. Where the program has a
 * handler of its own it knows what it does, and is not asked. The kernel puts the default action
 * back before the handler runs, so that it runs once. After it the instruction fails again, or what
 * was sent is sent again: the process ends as it would have, and a core dump shows where.
 */
#define _GNU_SOURCE 1
#include "base/assert.h"
#include "base/lock.h"
#include "plat/plat.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef void hook_fn(void);

static const int signals[] = {SIGABRT, SIGFPE, SIGILL, SIGSYS};
#define SIGNALS (sizeof(signals) / sizeof(*signals))

static struct kin__lock lock;    /* rank LEAF; users */
static unsigned users;           /* inits without a fini */
static _Atomic(hook_fn *) hooked; /* NULL: nobody */

static void on_crash(int signo, siginfo_t *info, void *context)
{
    const int error = errno;
    hook_fn *hook = kin__load_acquire(&hooked); /* pairs with the release in init */

    (void)context;
    if (hook)
        hook();
    if (info->si_code <= 0) /* else the instruction comes again */
        (void)syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signo);
    errno = error;
}

/* Puts one action in the place of another, where that is what is there. */
static void replace(void (*from)(int, siginfo_t *, void *), void (*to)(int, siginfo_t *, void *))
{
    struct sigaction action, now;

    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    if (to) {
        action.sa_sigaction = to;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | (int)SA_RESETHAND;
    }
    for (size_t i = 0; i < SIGNALS; i++) {
        if (sigaction(signals[i], NULL, &now) != 0)
            continue;
        const bool has_info = now.sa_flags & SA_SIGINFO;
        if (from ? has_info && now.sa_sigaction == from : !has_info && now.sa_handler == SIG_DFL)
            (void)sigaction(signals[i], &action, NULL);
    }
}

void kin__crash_init(void (*hook)(void))
{
    kin__lock_take(&lock, KIN__RANK_LEAF);
    kin__store_release(&hooked, hook); /* pairs with the acquire in on_crash */
    if (users++ == 0)
        replace(NULL, on_crash);
    kin__lock_give(&lock, KIN__RANK_LEAF);
}

void kin__crash_fini(void)
{
    kin__lock_take(&lock, KIN__RANK_LEAF);
    KIN__CHECK(users > 0, "house: init before fini");
    if (--users == 0) {
        replace(on_crash, NULL);
        kin__store_release(&hooked, NULL); /* pairs as above */
    }
    kin__lock_give(&lock, KIN__RANK_LEAF);
}
