/* SPDX-License-Identifier: MIT */
/*
 * What the processor or the C library refuses in a run of atom mode: a wild or null access, a
 * division by zero, a stack that is used up, abort(). The run has failed; the process goes on.
 *
 *     thread ---fault---> handler, on a stack of its own ---> kin__atoms_fail ---> the next run
 *
 * The handler leaves by a jump, as every run does that fails. Nothing is blocked meanwhile
 * (SA_NODEFER), so that nothing must be unblocked. A fault of the world itself, of another thread
 * of the process, or outside of a run has the effect that it had before.
 *
 * What a library was doing when it was left stays as it is: a run that faults in malloc may leave
 * the heap locked. Such a run is reported, and it may be the last.
 */
#include "lab/atoms/atoms.h"

#include "base/text.h"
#include "plat/plat.h"

#include <signal.h>
#include <string.h>
#include <ucontext.h>

#define STACK_BYTES ((size_t)64 * 1024)
#define NULL_BYTES 4096u /* addresses that are members of nothing */

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
#define SIGNALS (sizeof(signals) / sizeof(signals[0]))

static struct {
    struct sigaction before[SIGNALS]; /* what the signals did */
    stack_t stack_before;
    struct kin__thread thread; /* who runs */
    bool is_on;
} wild;

static char stack_memory[STACK_BYTES] __attribute__((aligned(64)));

static uintptr_t pc_of(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)context->uc_mcontext.pc;
#else
    (void)context;
    return 0;
#endif
}

static void say_access(struct kin__text *text, const siginfo_t *info)
{
    uintptr_t address = (uintptr_t)info->si_addr;
    const struct kin__flow *flow = kin__atoms.current;
    uintptr_t low = (uintptr_t)flow->stack;
    if (info->si_code <= 0)
        kin__text_str(text, "is ended by a signal of the program");
    else if (low && address - (low - STACK_BYTES) < STACK_BYTES + kin__vm_page())
        kin__text_printf(text, "has used up its stack of %zu KiB", KIN__ATOMS_STACK / 1024);
    else if (info->si_code == SI_KERNEL) /* its address is not told */
        kin__text_str(text, "follows a wild pointer");
    else if (address < NULL_BYTES)
        kin__text_printf(text, "follows a null pointer (to %zu)", (size_t)address);
    else
        kin__text_printf(text, "follows a wild pointer to 0x%zx", (size_t)address);
}

static void say(struct kin__text *text, const siginfo_t *info)
{
    const struct kin__atoms *a = &kin__atoms;
    const char *name = a->phase == KIN__ATOMS_IDLE ? a->outside_name : a->current->name;
    kin__text_printf(text, "%s ", name);
    if (info->si_signo == SIGSEGV || info->si_signo == SIGBUS)
        say_access(text, info);
    else if (info->si_signo == SIGFPE)
        kin__text_str(text, "divides by zero, or by too little");
    else if (info->si_signo == SIGABRT)
        kin__text_str(text, "calls abort");
    else
        kin__text_str(text, "comes to an instruction that is none");
}

static void refuse(int signo, siginfo_t *info, void *context)
{
    struct kin__atoms *a = &kin__atoms;
    struct kin__thread self;
    kin__thread_adopt(&self);
    bool is_ours = wild.is_on && self.tid == wild.thread.tid &&
                   (a->phase != KIN__ATOMS_IDLE || a->outside);
    if (!is_ours) { /* the access is made again, now as it was before */
        kin__wild_end();
        if (info->si_code <= 0)
            (void)raise(signo);
        return;
    }
    char memory[256], place[128];
    struct kin__text text, where;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_init(&where, place, sizeof(place));
    uintptr_t pc = a->is_inside ? a->current->pc : pc_of(context) + 1; /* as a return address */
    a->is_inside = true;
    say(&text, info);
    kin__trail_code(&where, pc);
    kin__text_printf(&text, ", at %s", place);
    kin__atoms_fail("crash", KIN_PANICKED, place, memory);
}

void kin__wild_begin(void)
{
    stack_t stack = {.ss_sp = stack_memory, .ss_size = STACK_BYTES};
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = refuse;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    kin__thread_adopt(&wild.thread);
    wild.is_on = sigaltstack(&stack, &wild.stack_before) == 0;
    for (size_t i = 0; i < SIGNALS && wild.is_on; i++)
        (void)sigaction(signals[i], &action, &wild.before[i]);
}

void kin__wild_end(void)
{
    for (size_t i = 0; i < SIGNALS && wild.is_on; i++)
        (void)sigaction(signals[i], &wild.before[i], NULL);
    if (wild.is_on)
        (void)sigaltstack(&wild.stack_before, NULL); /* in the handler it stays */
    wild.is_on = false;
}

_Noreturn void kin__atoms_house(const char *condition, const char *rule, const char *function)
{
    kin__wild_end();
    kin__check_failed(condition, rule, "atoms", 0, function);
}
