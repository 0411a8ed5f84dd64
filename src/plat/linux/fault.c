/* SPDX-License-Identifier: MIT */
/*
 * Faults: catches SIGSEGV and SIGBUS on a stack of its own and lets a resolver decide.
 *
 *     fault --> on_fault --> resolve --+-- PASS   what was installed before us, or the default
 *                                      +-- JUMP   go on with target(argument) on another stack
 *                                      +-- ABORT  the resolver has reported; die
 *
 * JUMP changes the saved registers and returns from the handler: the kernel then restores the
 * signal mask of the faulting code, so SIGSEGV does not stay blocked, and leaves the alternate
 * stack, so it can be used again. The signal is blocked while the handler runs (no SA_NODEFER): a
 * fault inside the handler then kills the process at once, where nesting would fault for ever.
 *
 * PASS runs an earlier handler as the kernel would have, with its own mask (but on the alternate
 * stack, and again at the next fault even if it asked for one only). The default action is
 * installed and the handler returns; the instruction faults again and the core dump shows it, not
 * the handler.
 *
 * Whether the code was in libc matters because its locks may be held there. The ranges of libc, of
 * the dynamic loader and of the vdso are collected when the handler is installed, because
 * dl_iterate_phdr takes locks itself. In a static program nothing tells libc's code from the
 * program's: in_libc is then true for every fault. A pc outside these ranges does not prove that no
 * libc function is active further up the stack (qsort calls back, for instance), and an allocator
 * that replaces libc's counts as the program's own code.
 */
#define _GNU_SOURCE 1
#include "base/assert.h"
#include "base/lock.h"
#include "plat/plat.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ALT_BYTES ((size_t)64 * 1024) /* the kernel's frame can take 12 KiB of it */
#define RANGES_MAX 16u
#define SIGNALS 2

typedef enum kin__fault_action resolve_fn(struct kin__fault *fault);

struct range {
    uintptr_t low, high;
};

static const int signals[SIGNALS] = {SIGSEGV, SIGBUS};

static struct kin__lock lock;                /* rank LEAF; users, is_installed, what init writes */
static unsigned users;                       /* inits without a fini */
static bool is_installed;                    /* stays true when somebody installed on top of us */
static struct sigaction previous[SIGNALS];   /* written before the handler is installed */
static struct range libc_ranges[RANGES_MAX]; /* likewise */
static size_t libc_range_count;              /* likewise; 0: libc cannot be told apart */
static _Atomic(resolve_fn *) resolver;       /* NULL: pass everything on */

static _Thread_local __attribute__((tls_model("initial-exec"))) char *alt_base; /* NULL: none */
static _Thread_local __attribute__((tls_model("initial-exec"))) stack_t alt_before;

/* ---- where libc is ---- */

static void add_range(uintptr_t base, const ElfW(Phdr) * headers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const ElfW(Phdr) *h = &headers[i];
        if (h->p_type != PT_LOAD || !(h->p_flags & PF_X) || libc_range_count == RANGES_MAX)
            continue;
        uintptr_t low = base + h->p_vaddr;
        libc_ranges[libc_range_count++] = (struct range){low, low + h->p_memsz};
    }
}

static int visit_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    static const char *const names[] = {"libc.", "libc-", "ld-", "ld.", "ld64.", "libpthread"};
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash ? slash + 1 : info->dlpi_name;

    (void)size;
    (void)arg;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0) {
            add_range(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
            break;
        }
    return 0;
}

/* The vdso is known by its ELF header; its addresses count from the first loaded segment. */
static void add_vdso(void)
{
    uintptr_t at = (uintptr_t)getauxval(AT_SYSINFO_EHDR);
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)at;

    if (!at)
        return;
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)(at + header->e_phoff);
    for (size_t i = 0; i < header->e_phnum; i++)
        if (headers[i].p_type == PT_LOAD) {
            add_range(at + headers[i].p_offset - headers[i].p_vaddr, headers, header->e_phnum);
            return;
        }
}

static void collect_ranges(void)
{
    libc_range_count = 0;
    (void)dl_iterate_phdr(visit_object, NULL);
    if (libc_range_count > 0)
        add_vdso();
}

static bool is_in_libc(uintptr_t pc)
{
    for (size_t i = 0; i < libc_range_count; i++)
        if (pc >= libc_ranges[i].low && pc < libc_ranges[i].high)
            return true;
    return libc_range_count == 0;
}

/* ---- the machine's registers ---- */

#if defined(__x86_64__)

static uintptr_t pc_of(const ucontext_t *context)
{
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
}

static uintptr_t sp_of(const ucontext_t *context)
{
    return (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
}

/* As if target had just been called by nobody, with the state that a C function may expect:
 * direction flag clear, x87 register stack empty. */
static bool redirect(ucontext_t *context, const struct kin__fault *fault)
{
    greg_t *regs = context->uc_mcontext.gregs;
    uintptr_t sp = (fault->stack & ~(uintptr_t)15) - 8;

    *(uintptr_t *)sp = 0;
    regs[REG_RIP] = (greg_t)(uintptr_t)fault->target;
    regs[REG_RDI] = (greg_t)(uintptr_t)fault->argument;
    regs[REG_RSP] = (greg_t)sp;
    regs[REG_RBP] = 0;
    regs[REG_EFL] &= ~(greg_t)0x400;
    if (context->uc_mcontext.fpregs) {
        context->uc_mcontext.fpregs->swd = 0;
        context->uc_mcontext.fpregs->ftw = 0;
    }
    return true;
}

#elif defined(__aarch64__)

static uintptr_t pc_of(const ucontext_t *context)
{
    return (uintptr_t)context->uc_mcontext.pc;
}

static uintptr_t sp_of(const ucontext_t *context)
{
    return (uintptr_t)context->uc_mcontext.sp;
}

/* As if target had just been called by nobody; bits 10 and 11 of pstate say by what kind of branch
 * it was reached, and none is fine everywhere. */
static bool redirect(ucontext_t *context, const struct kin__fault *fault)
{
    context->uc_mcontext.pc = (uintptr_t)fault->target;
    context->uc_mcontext.sp = fault->stack & ~(uintptr_t)15;
    context->uc_mcontext.regs[0] = (uintptr_t)fault->argument;
    context->uc_mcontext.regs[29] = 0;
    context->uc_mcontext.regs[30] = 0;
    context->uc_mcontext.pstate &= ~((uint64_t)3 << 10);
    return true;
}

#else

/* Where the registers are is not known here: every fault is reported and passed on. */
static uintptr_t pc_of(const ucontext_t *context)
{
    (void)context;
    return 0;
}

static uintptr_t sp_of(const ucontext_t *context)
{
    (void)context;
    return 0;
}

static bool redirect(ucontext_t *context, const struct kin__fault *fault)
{
    (void)context;
    (void)fault;
    return false;
}

#endif

void kin__fault_where(const void *context, uintptr_t *pc, uintptr_t *sp)
{
    *pc = pc_of(context);
    *sp = sp_of(context);
}

/* ---- the handler ---- */

/* The default action, by the instruction faulting again; a signal that somebody sent would not come
 * back by itself and is sent again. */
static void pass_default(int signo, const siginfo_t *info)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    (void)sigaction(signo, &action, NULL);
    if (info->si_code <= 0)
        (void)syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signo);
}

/* Whether nobody was there before us. */
static bool is_last(int signo)
{
    const struct sigaction *before = &previous[signo == SIGSEGV ? 0 : 1];

    return !(before->sa_flags & SA_SIGINFO) &&
           (before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN);
}

static void pass_on(int signo, siginfo_t *info, ucontext_t *context)
{
    const struct sigaction *before = &previous[signo == SIGSEGV ? 0 : 1];
    sigset_t mask = context->uc_sigmask;

    if (!(before->sa_flags & SA_SIGINFO) && before->sa_handler == SIG_IGN && info->si_code <= 0)
        return;
    if (is_last(signo)) {
        pass_default(signo, info);
        return;
    }
    (void)sigorset(&mask, &mask, &before->sa_mask);
    if (!(before->sa_flags & SA_NODEFER))
        (void)sigaddset(&mask, signo);
    (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (before->sa_flags & SA_SIGINFO)
        before->sa_sigaction(signo, info, context);
    else
        before->sa_handler(signo);
}

static void on_fault(int signo, siginfo_t *info, void *context_)
{
    ucontext_t *context = context_;
    const int error = errno;
    resolve_fn *resolve = kin__load_acquire(&resolver); /* pairs with the release in init */
    enum kin__fault_action action = KIN__FAULT_PASS;
    struct kin__fault fault = {.address = (uintptr_t)info->si_addr, .is_fatal = is_last(signo)};

    /* A code above 0 means that the kernel found it, not that somebody sent it. */
    if (resolve && info->si_code > 0) {
        kin__fault_where(context, &fault.pc, &fault.sp);
        fault.in_libc = is_in_libc(fault.pc);
        action = resolve(&fault);
    }
    if (action == KIN__FAULT_ABORT)
        kin__plat_abort();
    if (action == KIN__FAULT_PASS || !redirect(context, &fault))
        pass_on(signo, info, context);
    errno = error;
}

/* ---- installing ---- */

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_fault;
}

static int install(void)
{
    struct sigaction action;

    collect_ranges();
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    (void)sigfillset(&action.sa_mask);
    for (int i = 0; i < SIGNALS; i++)
        if (sigaction(signals[i], NULL, &previous[i]) != 0)
            return -errno;
    for (int i = 0; i < SIGNALS; i++)
        if (sigaction(signals[i], &action, NULL) != 0)
            return -errno;
    return 0;
}

/* Puts back what was there, if we are still what is there. A handler installed on top of ours may
 * call ours, so ours then stays, passing everything on. */
static void uninstall(void)
{
    struct sigaction now[SIGNALS];

    for (int i = 0; i < SIGNALS; i++)
        if (sigaction(signals[i], NULL, &now[i]) != 0 || !is_ours(&now[i]))
            return;
    for (int i = 0; i < SIGNALS; i++)
        (void)sigaction(signals[i], &previous[i], NULL);
    is_installed = false;
}

int kin__fault_init(enum kin__fault_action (*resolve)(struct kin__fault *fault))
{
    int rc = 0;

    kin__lock_take(&lock, KIN__RANK_LEAF);
    if (users > 0 && kin__load_relaxed(&resolver) != resolve) { /* relaxed: under the lock */
        rc = -EBUSY;
        goto out;
    }
    if (!is_installed) {
        rc = install();
        if (rc)
            goto out;
        is_installed = true;
    }
    users++;
    kin__store_release(&resolver, resolve); /* pairs with the acquire in on_fault */
out:
    kin__lock_give(&lock, KIN__RANK_LEAF);
    return rc;
}

void kin__fault_fini(void)
{
    kin__lock_take(&lock, KIN__RANK_LEAF);
    KIN__CHECK(users > 0, "house: init before fini");
    if (--users == 0) {
        kin__store_release(&resolver, NULL); /* pairs with the acquire in on_fault */
        uninstall();
    }
    kin__lock_give(&lock, KIN__RANK_LEAF);
}

/* ---- the stack that the handler runs on ---- */

int kin__fault_thread_init(void)
{
    const size_t page = kin__vm_page();
    stack_t alt;

    if (alt_base)
        return 0;
    char *base = mmap(NULL, ALT_BYTES + page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (base == MAP_FAILED)
        return -errno;
    memset(&alt, 0, sizeof alt);
    alt.ss_sp = base + page;
    alt.ss_size = ALT_BYTES;
    if (mprotect(base, page, PROT_NONE) != 0 || sigaltstack(&alt, &alt_before) != 0) {
        int error = errno;
        (void)munmap(base, ALT_BYTES + page);
        return -error;
    }
    alt_base = base;
    return 0;
}

void kin__fault_thread_fini(void)
{
    stack_t now;

    if (!alt_base)
        return;
    /* Somebody may have put another one in place since; that one stays. */
    if (sigaltstack(NULL, &now) == 0 && now.ss_sp == alt_base + kin__vm_page()) {
        alt_before.ss_flags &= SS_DISABLE;
        (void)sigaltstack(&alt_before, NULL);
    }
    (void)munmap(alt_base, ALT_BYTES + kin__vm_page());
    alt_base = NULL;
}
