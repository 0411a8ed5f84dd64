/* SPDX-License-Identifier: MIT */
/*
 * Where a thread stands that goes on meanwhile, or sleeps in a system call.
 *
 *     asleep    the kernel tells its registers (/proc/self/task/N/syscall); its stack is read from
 *               here and counts if the kernel tells the same afterwards. The sleep goes on:
 *               a signal would end some of them early, whatever the flags of its handler.
 *     running   a signal interrupts it; the handler reads the stack of its own thread.
 *
 *     question   FREE --asker--> ASKED --handler--> ANSWERING --handler--> ANSWERED --asker--> FREE
 *                                ASKED --asker, after a while--> FREE
 *
 * Only whoever moved the question out of ASKED may touch the rest of it, so a handler that comes
 * too late, or on a thread that nobody asked, touches nothing.
 *
 * The signal is SIGPROF: threads of kin block the others. It is used only while nobody has a
 * handler for it, and what was there is put back. If the answer did not come the handler stays,
 * because the signal may still be on its way and would end the process otherwise.
 */
#define _GNU_SOURCE 1
#include "plat/plat.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ANSWER_NS INT64_C(1000000000) /* how long an answer is waited for */
#define SCAN_BYTES 65536              /* of a stack: deeper frames are those that began it all */
#define LINE_BYTES 256u

enum { FREE, ASKED, ANSWERING, ANSWERED };

static kin__a32 is_asking; /* 1: somebody has the question; nobody waits for it */
static kin__a32 state;     /* of the question; futex of the asker */
/* The asker's in FREE and ANSWERED, the handler's in ANSWERING; constant in ASKED. */
static struct {
    const struct kin__where *where;
    const struct kin__code *code;
    uintptr_t *frames;
    unsigned max, count;
    kin__ai32 tid; /* who is asked; a late handler may look at it at any time */
} question;

/* The innermost address and the return addresses behind it. */
static unsigned read_stack(const struct kin__where *where, const struct kin__code *code,
                           uintptr_t pc, uintptr_t sp, uintptr_t *frames, unsigned max)
{
    if (max == 0 || sp < (uintptr_t)where->low || sp >= (uintptr_t)where->end)
        return 0; /* it is on another stack by now */
    const char *end = where->end - (const char *)sp > SCAN_BYTES ? (const char *)sp + SCAN_BYTES
                                                                 : where->end;
    frames[0] = pc + 1; /* as if a call were there */
    return 1 + kin__code_frames(code, (const void *)sp, end, frames + 1, max - 1);
}

/* ---- asleep ---- */

static bool read_line(int32_t tid, char *line)
{
    char path[64];
    struct kin__text text;
    kin__text_init(&text, path, sizeof(path));
    kin__text_printf(&text, "/proc/self/task/%d/syscall", (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, line, LINE_BYTES - 1);
    (void)close(fd);
    line[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* The last two numbers of the line; of a thread that runs there are none. */
static bool registers_of(const char *line, uintptr_t *pc, uintptr_t *sp)
{
    const char *at = strrchr(line, ' ');
    if (!at || line[0] == 'r')
        return false;
    *pc = (uintptr_t)strtoull(at, NULL, 16);
    while (at > line && at[-1] != ' ') /* ends: at the blank before, or at the beginning */
        at--;
    *sp = (uintptr_t)strtoull(at, NULL, 16);
    return *pc != 0;
}

static unsigned look_asleep(const struct kin__where *where, const struct kin__code *code,
                            int32_t tid, uintptr_t *frames, unsigned max)
{
    char before[LINE_BYTES], after[LINE_BYTES];
    uintptr_t pc, sp;
    if (!read_line(tid, before) || !registers_of(before, &pc, &sp) || !where->is_there(where->arg))
        return 0;
    unsigned count = read_stack(where, code, pc, sp, frames, max);
    bool is_same = read_line(tid, after) && strcmp(before, after) == 0;
    return is_same && where->is_there(where->arg) ? count : 0;
}

/* ---- running ---- */

static void on_question(int signo, siginfo_t *info, void *context)
{
    const int error = errno;
    uint32_t expected = ASKED;
    uintptr_t pc, sp;
    (void)signo, (void)info;
    int32_t asked = kin__load_relaxed(&question.tid); /* relaxed: a hint, self is compared below */
    if (asked != (int32_t)syscall(SYS_gettid) ||
        /* pairs with the release in ask */
        !kin__cas_acquire(&state, &expected, (uint32_t)ANSWERING)) {
        errno = error;
        return;
    }
    const struct kin__where *where = question.where;
    kin__fault_where(context, &pc, &sp);
    if (kin__self_get() == where->self && where->is_there(where->arg))
        question.count =
            read_stack(where, question.code, pc, sp, question.frames, question.max);
    kin__store_release(&state, (uint32_t)ANSWERED); /* pairs with the acquire in await_answer */
    kin__futex_wake(&state, 1);
    errno = error;
}

/* False: there was none in time, and there will be none. */
static bool await_answer(void)
{
    int64_t until = kin__clock_now() + ANSWER_NS;
    uint32_t is;
    /* pairs with the release in on_question */
    while ((is = kin__load_acquire(&state)) != ANSWERED) { /* ends: it is bounded */
        int64_t left = until - kin__clock_now();
        uint32_t expected = ASKED;
        if (is == ASKED && left <= 0 &&
            kin__cas_acquire(&state, &expected, (uint32_t)FREE)) /* alone: nobody has answered */
            return false;
        (void)kin__futex_wait(&state, is, is == ASKED && left > 0 ? left : 1000000);
    }
    return true;
}

static bool is_free(const struct sigaction *action)
{
    return !(action->sa_flags & SA_SIGINFO) &&
           (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN);
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_question;
}

static struct sigaction previous; /* what was there before ours; whoever has the question */

static bool install(void)
{
    struct sigaction action, now;
    if (sigaction(SIGPROF, NULL, &now) != 0)
        return false;
    if (is_ours(&now))
        return true; /* left there by a question that was not answered */
    if (!is_free(&now))
        return false;
    previous = now;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_question;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    (void)sigfillset(&action.sa_mask);
    return sigaction(SIGPROF, &action, NULL) == 0;
}

static void uninstall(void)
{
    struct sigaction now;
    if (sigaction(SIGPROF, NULL, &now) == 0 && is_ours(&now))
        (void)sigaction(SIGPROF, &previous, NULL);
}

static unsigned ask(int32_t tid)
{
    kin__store_relaxed(&question.tid, tid); /* relaxed: published by the state */
    question.count = 0;
    if (!install())
        return 0;
    kin__store_release(&state, (uint32_t)ASKED); /* pairs with the acquires in on_question */
    bool is_sent = syscall(SYS_tgkill, getpid(), tid, SIGPROF) == 0;
    bool is_answered = is_sent && await_answer();
    if (is_answered || !is_sent)
        uninstall();
    unsigned count = is_answered ? question.count : 0;
    kin__store_release(&state, (uint32_t)FREE); /* alone: no handler looks at it any more */
    return count;
}

unsigned kin__thread_where(const struct kin__where *where, const struct kin__code *code,
                           uintptr_t *frames, unsigned max)
{
    int32_t tid = kin__load_relaxed(&where->thread->tid); /* relaxed: a number for reports */
    if (tid <= 0 || tid == (int32_t)syscall(SYS_gettid))
        return 0;
    unsigned count = look_asleep(where, code, tid, frames, max);
    if (count || kin__xchg_acquire(&is_asking, 1u) != 0) /* pairs with the release below */
        return count;
    question.where = where;
    question.code = code;
    question.frames = frames;
    question.max = max;
    count = ask(tid);
    kin__store_release(&is_asking, 0u); /* pairs with the exchange above */
    return count;
}
