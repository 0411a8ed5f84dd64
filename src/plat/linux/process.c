/* SPDX-License-Identifier: MIT */
/*
 * Processes: a program is started by a child that shares this process's memory until it is loaded.
 *
 *     start: paths, descriptors, error pipe, stack | signals off | clone | signals as before
 *                                                                  |
 *     child, in our memory, on a stack of its own: group, directory, 0 1 2, close the rest,
 *            signals to default, mask empty, execve one path after the other
 *            failed: the error into the pipe, exit
 *
 * A fork would copy the page tables of a program with a million stacks; posix_spawn cannot give a
 * pidfd that is surely the child's, and not all C libraries close descriptors in it. So this is
 * clone with CLONE_VFORK: the calling thread, no other, waits until the program is loaded. The
 * child uses system calls only, through code without a sanitizer's instrumentation, because the
 * thread-local memory it sees is its parent's. Signals are off meanwhile: a handler that ran in the
 * child would change our memory.
 *
 * A failure is told through a close-on-exec pipe and not through the shared memory: emulators turn
 * this clone into a fork, and the pipe works there too. Only there is the pipe waited for. Where
 * memory is shared all is said when the clone returns, and a fork of another thread of the program,
 * which may have a copy of the pipe, delays nobody.
 *
 * Signals that nohup, or a shell for what it starts in the background, have made ignored are meant
 * for all that descends from there, and stay so.
 */
#define _GNU_SOURCE 1
#include "plat/process.h"

#include "plat/context.h"
#include "plat/plat.h"
#include "plat/signal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if KIN__ASAN
#include <sanitizer/asan_interface.h>
#endif

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif
/* The same on every machine; older headers lack them. */
#define NUMBER_PIDFD_SEND_SIGNAL 424
#define NUMBER_PIDFD_OPEN 434
#define NUMBER_CLOSE_RANGE 436
#define WAIT_PIDFD 3 /* P_PIDFD of waitid */

#define STACK_BYTES ((size_t)64 * 1024)
#define FDS_MAX (1u << 20) /* closed one by one where the system cannot close many at once */
#define MASK_BYTES 8       /* the kernel's signal sets */
#define PATH_DEFAULT "/usr/local/bin:/usr/bin:/bin"

#if defined(__clang__) && __has_attribute(disable_sanitizer_instrumentation)
#define CHILD_CODE __attribute__((noinline, disable_sanitizer_instrumentation))
#elif defined(__clang__)
#define CHILD_CODE __attribute__((noinline, no_sanitize("address", "thread", "undefined")))
#else
#define CHILD_CODE                                                                                 \
    __attribute__((noinline, no_sanitize_address, no_sanitize_thread, no_sanitize_undefined))
#endif

extern char **environ;

/* All that the child needs. */
struct launch {
    const struct kin__program *program;
    char *paths;      /* one after the other, an empty one at the end */
    int fds[3];       /* beyond 2; -1: left alone */
    int is_copy[3];   /* made for the child, closed here afterwards */
    int report[2];    /* the error pipe, beyond 2 */
    int is_shared;    /* written by the child: seen here, unless it has a copy of all this */
    uint64_t ignored; /* signals that stay so */
    unsigned fds_max; /* numbers to close one by one; 0: all at once */
    char *stack;
};

static struct kin__program_lacks lacks; /* what tests have taken away */
static kin__a32 has_copied;             /* a child has worked on a copy of our memory */

void kin__program_force(struct kin__program_lacks what)
{
    lacks = what;
}

bool kin__program_shares(void)
{
    return !kin__load_relaxed(&has_copied); /* relaxed: for tests */
}

/* ---- in the child ---- */

static CHILD_CODE int check(long rc)
{
    return rc < 0 ? -errno : 0;
}

static CHILD_CODE int set_place(const struct launch *launch)
{
    const struct kin__program *program = launch->program;
    int rc = 0;
    if (program->group == KIN__PROGRAM_SESSION)
        rc = check(syscall(SYS_setsid));
    else if (program->group == KIN__PROGRAM_GROUP)
        rc = check(syscall(SYS_setpgid, 0, 0));
    if (rc == 0 && program->cwd)
        rc = check(syscall(SYS_chdir, program->cwd));
    return rc;
}

/* 0, 1 and 2 are copies of what they are to be; whatever else there is, is closed. */
static CHILD_CODE int set_descriptors(const struct launch *launch)
{
    unsigned report = (unsigned)launch->report[1];
    for (int i = 0; i < 3; i++) {
        if (launch->fds[i] < 0)
            continue;
        int rc = check(syscall(SYS_dup3, launch->fds[i], i, 0));
        if (rc < 0)
            return rc;
    }
    if (!launch->fds_max)
        if ((report == 3 || syscall(NUMBER_CLOSE_RANGE, 3u, report - 1, 0u) == 0) &&
            syscall(NUMBER_CLOSE_RANGE, report + 1, ~0u, 0u) == 0)
            return 0;
    for (unsigned fd = 3; fd < launch->fds_max; fd++)
        if (fd != report)
            (void)syscall(SYS_close, fd);
    return launch->fds_max ? 0 : -ENOSYS;
}

/* As a program expects them. Zero is the default action. */
static CHILD_CODE void set_signals(uint64_t ignored)
{
    const uint64_t none = 0;
    uint64_t action[8] = {0};
    for (int signo = 1; signo <= 64; signo++) {
        action[0] = ignored >> (signo - 1) & 1; /* SIG_IGN is 1, and the first word the handler */
        (void)syscall(SYS_rt_sigaction, signo, action, NULL, MASK_BYTES);
    }
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, MASK_BYTES);
}

/* Tries one path after the other: why the last one, or one that was there, cannot be run. */
static CHILD_CODE int load(const struct launch *launch)
{
    const struct kin__program *program = launch->program;
    const char *const *env =
        program->env ? program->env : (const char *const *)(uintptr_t)environ;
    int rc = -ENOENT;
    bool is_denied = false;
    for (const char *path = launch->paths; *path;) { /* ends: at the empty one */
        rc = check(syscall(SYS_execve, path, program->argv, env));
        is_denied |= rc == -EACCES;
        if (rc != -ENOENT && rc != -ENOTDIR && rc != -EACCES && rc != -ESTALE && rc != -ENODEV)
            return rc;
        while (*path++) /* ends: at its zero */
            continue;
    }
    return is_denied ? -EACCES : rc;
}

static CHILD_CODE void child_main(void *arg)
{
    struct launch *launch = arg;
    launch->is_shared = 1;
    int rc = set_place(launch);
    if (rc == 0)
        rc = set_descriptors(launch);
    if (rc == 0) {
        set_signals(launch->ignored);
        rc = load(launch);
    }
    (void)!syscall(SYS_write, launch->report[1], &rc, sizeof rc);
    for (;;) /* ends: the first one does not return */
        (void)syscall(SYS_exit_group, 127);
}

/* ---- clone ---- */

/* A child that runs child_main(launch) on a stack of its own. In one piece, because two returns of
 * one function would share its frame. Its number or -errno. */
#if defined(__x86_64__)

static long clone_child(unsigned long flags, int *fd, struct launch *launch)
{
    register long tid __asm__("r10") = 0;
    register long tls __asm__("r8") = 0;
    register void (*fn)(void *) __asm__("r12") = child_main;
    register void *arg __asm__("r13") = launch;
    long rc;

    __asm__ volatile("syscall\n\t"
                     "testq %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xorl %%ebp, %%ebp\n\t"
                     "movq %%r13, %%rdi\n\t"
                     "callq *%%r12\n\t"
                     "hlt\n"
                     "1:"
                     : "=a"(rc)
                     : "0"((long)SYS_clone), "D"(flags), "S"(launch->stack + STACK_BYTES), "d"(fd),
                       "r"(tid), "r"(tls), "r"(fn), "r"(arg)
                     : "rcx", "r11", "memory", "cc");
    return rc;
}

#elif defined(__aarch64__)

static long clone_child(unsigned long flags, int *fd, struct launch *launch)
{
    register long number __asm__("x8") = SYS_clone;
    register long x0 __asm__("x0") = (long)flags;
    register char *stack __asm__("x1") = launch->stack + STACK_BYTES;
    register int *x2 __asm__("x2") = fd;
    register long tls __asm__("x3") = 0;
    register long tid __asm__("x4") = 0;
    register void (*fn)(void *) __asm__("x20") = child_main;
    register void *arg __asm__("x21") = launch;

    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x30, xzr\n\t"
                     "mov x0, x21\n\t"
                     "blr x20\n\t"
                     "brk #1\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(number), "r"(stack), "r"(x2), "r"(tls), "r"(tid), "r"(fn), "r"(arg)
                     : "memory", "cc");
    return x0;
}

#else

static int child_entry(void *launch)
{
    child_main(launch);
    return 0;
}

static long clone_child(unsigned long flags, int *fd, struct launch *launch)
{
    int pid = clone(child_entry, launch->stack + STACK_BYTES, (int)flags, launch, fd, NULL, NULL);
    return pid < 0 ? -errno : pid;
}

#endif

/* Signals are off until the child is on its own; also those of the C library, which its functions
 * for masks leave alone. */
static long clone_quietly(unsigned long flags, int *fd, struct launch *launch)
{
    const uint64_t all = ~UINT64_C(0);
    uint64_t before = 0;
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, MASK_BYTES);
    long pid = clone_child(flags, fd, launch);
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, MASK_BYTES);
    return pid;
}

static int make_child(struct launch *launch, struct kin__child *out)
{
    const unsigned long flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
    long pid = -EINVAL;
    *out = (struct kin__child){0, -1};
    if (!lacks.pidfd)
        pid = clone_quietly(flags | CLONE_PIDFD, &out->fd, launch);
    if (pid == -EINVAL) {
        out->fd = -1;
        pid = clone_quietly(flags, NULL, launch);
    }
    if (pid < 0)
        return (int)pid;
    out->pid = (int)pid;
    if (out->fd < 0 && !lacks.pidfd) /* it cannot be reaped before this process wants it to be */
        out->fd = (int)syscall(NUMBER_PIDFD_OPEN, out->pid, 0);
    if (out->fd < 0)
        out->fd = -1;
    return 0;
}

/* ---- what must be ready before ---- */

static size_t copy_to(char *to, const char *from, size_t size)
{
    memcpy(to, from, size);
    return size;
}

/* The paths to try. */
static int find_paths(struct launch *launch)
{
    const char *name = launch->program->argv[0];
    const char *list = kin__plat_env("PATH");
    size_t size = strlen(name), parts = 1, at = 0;
    if (!size)
        return -ENOENT;
    if (!list)
        list = PATH_DEFAULT;
    if (strchr(name, '/'))
        list = ""; /* one part, in front of which nothing is put */
    for (const char *c = list; *c; c++)
        parts += *c == ':';
    launch->paths = kin__heap_alloc(strlen(list) + parts * (size + 2) + 1);
    if (!launch->paths)
        return -ENOMEM;
    for (const char *part = list;;) { /* ends: at the last part */
        size_t length = strcspn(part, ":");
        at += copy_to(launch->paths + at, part, length);
        if (length)
            launch->paths[at++] = '/';
        at += copy_to(launch->paths + at, name, size + 1);
        if (!part[length])
            return 0; /* the memory was zero: an empty one comes next */
        part += length + 1;
    }
}

/* A descriptor that is none of 0, 1 and 2: itself or a copy. -errno. */
static int lift(int fd)
{
    if (fd > 2)
        return fd;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return copy < 0 ? -errno : copy;
}

static int open_report(struct launch *launch)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    for (int i = 0; i < 2; i++) {
        launch->report[i] = lift(ends[i]);
        if (launch->report[i] != ends[i])
            (void)close(ends[i]);
    }
    return launch->report[0] < 0 ? launch->report[0]
                                 : launch->report[1] < 0 ? launch->report[1] : 0;
}

static int lift_all(struct launch *launch)
{
    for (int i = 0; i < 3; i++) {
        int fd = launch->program->fds[i];
        if (fd < 0)
            continue;
        launch->fds[i] = lift(fd);
        launch->is_copy[i] = launch->fds[i] >= 0 && launch->fds[i] != fd;
        if (launch->fds[i] < 0)
            return launch->fds[i];
    }
    return 0;
}

/* Where many descriptors cannot be closed at once, the child goes through all there may be. */
static unsigned count_fds(void)
{
    struct rlimit limit;
    /* a range without members: it closes nothing, and fails where there are no ranges */
    if (!lacks.close_range && syscall(NUMBER_CLOSE_RANGE, ~0u, ~0u, 0u) == 0)
        return 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > FDS_MAX)
        return FDS_MAX;
    return (unsigned)limit.rlim_cur;
}

static int prepare(struct launch *launch)
{
    int rc = find_paths(launch);
    if (rc == 0)
        rc = lift_all(launch);
    if (rc == 0)
        rc = open_report(launch);
    if (rc == 0 && !(launch->stack = kin__vm_reserve(STACK_BYTES)))
        rc = -ENOMEM;
    launch->fds_max = count_fds();
    launch->ignored = (kin__signal_is_ignored(SIGHUP) ? kin__signal_bit(SIGHUP) : 0) |
                      (kin__signal_is_ignored(SIGINT) ? kin__signal_bit(SIGINT) : 0) |
                      (kin__signal_is_ignored(SIGQUIT) ? kin__signal_bit(SIGQUIT) : 0);
    return rc;
}

static void release_stack(char *stack)
{
#if KIN__ASAN
    /* the child never returns: the marks of its frames would be there for whoever is mapped next */
    __asan_unpoison_memory_region(stack, STACK_BYTES);
#endif
    kin__vm_release(stack, STACK_BYTES);
}

static void dispose(struct launch *launch)
{
    for (int i = 0; i < 3; i++)
        if (launch->is_copy[i])
            (void)close(launch->fds[i]);
    for (int i = 0; i < 2; i++)
        if (launch->report[i] >= 0)
            (void)close(launch->report[i]);
    if (launch->stack)
        release_stack(launch->stack);
    kin__heap_free(launch->paths);
}

/* ---- starting ---- */

/* What the child has told: 0 when it has become the program. */
static int read_report(struct launch *launch)
{
    int told = 0;
    ssize_t got;
    (void)close(launch->report[1]);
    launch->report[1] = -1;
    if (launch->is_shared)
        (void)fcntl(launch->report[0], F_SETFL, O_NONBLOCK); /* nothing there: nothing said */
    else
        kin__store_relaxed(&has_copied, 1u); /* relaxed: for tests */
    do { /* ends: nobody interrupts for ever */
        got = read(launch->report[0], &told, sizeof told);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof told ? told : 0;
}

/* It has failed and ends at once. */
static void bury(const struct kin__child *child)
{
    siginfo_t info;
    while (waitid(P_PID, (id_t)child->pid, &info, WEXITED) != 0 && errno == EINTR)
        continue; /* ends: as above */
    if (child->fd >= 0)
        (void)close(child->fd);
}

int kin__program_start(const struct kin__program *program, struct kin__child *out)
{
    struct launch launch = {.program = program, .fds = {-1, -1, -1}, .report = {-1, -1}};
    if (!kin__plat_request())
        return -EAGAIN;
    int rc = prepare(&launch);
    if (rc == 0)
        rc = make_child(&launch, out);
    if (rc == 0) {
        rc = read_report(&launch);
        if (rc < 0)
            bury(out);
    }
    dispose(&launch);
    return rc;
}

/* ---- a child ---- */

int kin__child_signal(const struct kin__child *child, int signo, bool to_group)
{
    if (to_group)
        return kill(-child->pid, signo) != 0 ? -errno : 0;
    if (child->fd >= 0) {
        if (syscall(NUMBER_PIDFD_SEND_SIGNAL, child->fd, signo, NULL, 0u) == 0)
            return 0;
        if (errno != ENOSYS && errno != EPERM)
            return -errno;
    }
    return kill(child->pid, signo) != 0 ? -errno : 0; /* unreaped: the number is still its own */
}

int kin__child_reap(const struct kin__child *child, bool keeps, int *wstatus)
{
    int flags = WEXITED | WNOHANG | (keeps ? WNOWAIT : 0), rc = -1;
    siginfo_t info;
    memset(&info, 0, sizeof info);
    if (child->fd >= 0)
        rc = waitid((idtype_t)WAIT_PIDFD, (id_t)child->fd, &info, flags);
    if (rc != 0 && (child->fd < 0 || errno == EINVAL))
        rc = waitid(P_PID, (id_t)child->pid, &info, flags);
    if (rc != 0)
        return -errno;
    if (info.si_pid == 0)
        return 0;
    if (info.si_code == CLD_EXITED)
        *wstatus = (info.si_status & 0xff) << 8;
    else
        *wstatus = (info.si_status & 0x7f) | (info.si_code == CLD_DUMPED ? 0x80 : 0);
    return 1;
}

/* ---- what a child is connected to ---- */

int kin__pipe_open(int ends[2], int ours)
{
    if (!kin__plat_request())
        return -EMFILE;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    int rc = kin__fd_unblock(ends[ours]);
    if (rc < 0) {
        (void)close(ends[0]);
        (void)close(ends[1]);
    }
    return rc;
}

int kin__null_open(void)
{
    if (!kin__plat_request())
        return -EMFILE;
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}
