/* SPDX-License-Identifier: MIT */
/*
 * Processes: started on a thread that may block, awaited by a descriptor, signalled only while they
 * are unreaped.
 *
 * Whoever looks first after the end reaps the process and keeps how it ended, under the process's
 * lock; the others find it there. The one that finds the end closes the descriptor, which ends all
 * waits on it, and no later one begins; so a process that is over costs no descriptor.
 *
 * A process that leads a group is looked at without being reaped. As long as it is there, though
 * dead, its number names the group and no other, and what is left of the group can be killed.
 *
 * Signals go through the descriptor, so that they never hit another process with the same number.
 * Where there is no such descriptor they are sent by number under the lock: it is free only after
 * we have reaped.
 */
#include "wait/process.h"

#include "plat/plat.h"
#include "sched/entry.h"
#include "sched/report.h"
#include "sched/sched.h"
#include "task/budget.h"
#include "wait/offload.h"
#include "wait/timer.h"

#include <kin/io.h>

#include <errno.h>
#include <signal.h>
#include <string.h>

/* How long between two looks where the end cannot be waited for. */
#define LOOK_FIRST_NS INT64_C(1000000)
#define LOOK_LAST_NS INT64_C(50000000)

static void take_lock(struct kin_process *process)
{
    kin__lock_take(&process->lock, KIN__RANK_WAIT);
}

static void give_lock(struct kin_process *process)
{
    kin__lock_give(&process->lock, KIN__RANK_WAIT);
}

/* ---- arguments ---- */

static bool is_stdio(const struct kin_stdio *one, bool may_be_out)
{
    return (unsigned)one->kind <= (may_be_out ? KIN_STDIO_OUT : KIN_STDIO_FD);
}

int kin__process_check(const char *const *argv, const struct kin_process_options *options)
{
    if (!argv || !argv[0])
        return -EINVAL;
    if (!options)
        return 0;
    if (!KIN__SIZED(options, "kin_process_start", "PROCESS_OPTIONS") ||
        !is_stdio(&options->in, false) ||
        !is_stdio(&options->out, false) || !is_stdio(&options->err, true) ||
        (unsigned)options->group > KIN_PROCESS_SESSION || options->stop_signal < 0 ||
        options->stop_signal > 64 || options->grace < KIN_BRUTAL)
        return -EINVAL;
    const struct kin_stdio *all[] = {&options->in, &options->out, &options->err};
    for (int i = 0; i < 3; i++) {
        if (all[i]->kind == KIN_STDIO_FD && all[i]->fd < 0)
            return -EBADF;
    }
    return 0;
}

struct kin_process *kin__process_make(const struct kin_process_options *options, int64_t grace)
{
    struct kin_process *process = kin__heap_alloc(sizeof(*process));
    if (!process)
        return NULL;
    process->child.fd = -1;
    for (int i = 0; i < 3; i++)
        process->pipes[i] = -1;
    process->stop_signal = SIGTERM;
    process->is_over = process->is_reaped = true; /* as long as it does not run */
    process->grace = grace;
    if (options) {
        process->leads = options->group != KIN_PROCESS_SHARED;
        if (options->grace)
            process->grace = options->grace == KIN_BRUTAL ? 0 : options->grace;
        if (options->stop_signal)
            process->stop_signal = options->stop_signal;
    }
    return process;
}

/* ---- starting ---- */

/* What is to be done on a thread that may block. */
struct start {
    struct kin_process *process;
    const struct kin_process_options *options; /* NULL: defaults */
    struct kin__program program;
    int theirs[3]; /* opened for the child: closed here afterwards; -1: none */
    int rc;
};

/* Opens what one of the three descriptors is to be. 0 or -errno. */
static int connect_one(struct start *start, int which, const struct kin_stdio *how)
{
    int ends[2], rc = 0;
    switch (how->kind) {
    case KIN_STDIO_INHERIT:
        return 0;
    case KIN_STDIO_NULL:
        rc = kin__null_open();
        start->program.fds[which] = start->theirs[which] = rc < 0 ? -1 : rc;
        return rc < 0 ? rc : 0;
    case KIN_STDIO_PIPE:
        rc = kin__pipe_open(ends, which == 0);
        if (rc < 0)
            return rc;
        start->program.fds[which] = start->theirs[which] = ends[which != 0];
        rc = kin__fd_opened(ends[which == 0]);
        if (rc == 0)
            start->process->pipes[which] = ends[which == 0];
        return rc;
    case KIN_STDIO_FD:
        start->program.fds[which] = how->fd;
        return 0;
    case KIN_STDIO_OUT:
        start->program.fds[which] = start->program.fds[1] < 0 ? 1 : start->program.fds[1];
        return 0;
    }
    return -EINVAL;
}

static int connect_all(struct start *start)
{
    const struct kin_process_options *options = start->options;
    if (!options)
        return 0;
    int rc = connect_one(start, 0, &options->in);
    if (rc == 0)
        rc = connect_one(start, 1, &options->out);
    if (rc == 0)
        rc = connect_one(start, 2, &options->err);
    return rc;
}

/* The child's descriptor becomes something to wait for; without one it is looked at. */
static void watch(struct kin_process *process)
{
    int fd = process->child.fd;
    if (fd < 0)
        return;
    if (kin__fd_opened(fd) < 0) { /* which has closed it */
        process->child.fd = -1;
        return;
    }
    if (kin__fd_begin(fd, &process->watched) < 0)
        process->watched.entry = NULL;
}

static void start_blocking(void *arg)
{
    struct start *start = arg;
    struct kin_process *process = start->process;
    int rc = connect_all(start);
    if (rc == 0)
        rc = kin__program_start(&start->program, &process->child);
    for (int i = 0; i < 3; i++) {
        if (start->theirs[i] >= 0)
            (void)kin__fd_close(start->theirs[i]);
    }
    if (rc == 0) {
        watch(process);
        process->is_over = process->is_reaped = false;
    }
    start->rc = rc;
}

int kin__process_run(struct kin_process *process, const char *const *argv,
                     const struct kin_process_options *options)
{
    static const enum kin__program_group groups[] = {
        [KIN_PROCESS_SHARED] = KIN__PROGRAM_SHARED,
        [KIN_PROCESS_GROUP] = KIN__PROGRAM_GROUP,
        [KIN_PROCESS_SESSION] = KIN__PROGRAM_SESSION,
    };
    struct start start = {
        .process = process,
        .options = options,
        .program = {.argv = argv, .fds = {-1, -1, -1}},
        .theirs = {-1, -1, -1},
    };
    if (options) {
        start.program.env = options->env;
        start.program.cwd = options->cwd;
        start.program.group = groups[options->group];
    }
    int rc = kin__offload(KIN__OFFLOAD_FILE, start_blocking, &start, KIN_NEVER);
    return rc < 0 ? rc : start.rc;
}

/* ---- waiting ---- */

/* Looks whether it is over. The first one to find out gets the descriptor in *closes, to be closed
 * when the lock is given up. */
static bool look_locked(struct kin_process *process, int *closes)
{
    *closes = -1;
    if (process->is_over)
        return true;
    int rc = kin__child_reap(&process->child, process->leads, &process->wstatus);
    if (rc == 0)
        return false;
    process->is_over = true;
    process->is_reaped = rc < 0 || !process->leads;
    process->error = rc < 0 ? rc : 0;
    *closes = process->child.fd;
    process->child.fd = -1;
    return true;
}

static bool look(struct kin_process *process)
{
    int closes;
    take_lock(process);
    bool is_over = look_locked(process, &closes);
    give_lock(process);
    if (closes >= 0)
        (void)kin_close(closes);
    return is_over;
}

/* Lets some time pass. 0, KIN_TIMEOUT, KIN_CANCELLED. */
static int pause_for(int64_t ns, kin_time deadline, unsigned flags)
{
    struct kin__timer timer;
    kin__timer_init(&timer, kin__clock_after(ns));
    return kin__wait_until(&kin__timer_waitable, &timer, NULL, deadline, flags);
}

/* Waits until the end may have come: 0 then; KIN_TIMEOUT, KIN_CANCELLED. */
static int wait_some(struct kin__fd_case *one, int64_t *pause, kin_time deadline, unsigned flags)
{
    struct kin__case cases[2];
    int status = 0;
    int rc = one->fd.entry ? kin__fd_prepare(&one->fd) : -EPERM;
    if (rc == KIN_CLOSED)
        return 0; /* somebody has found it */
    if (rc < 0) {
        rc = pause_for(*pause, deadline, flags);
        *pause = *pause * 2 < LOOK_LAST_NS ? *pause * 2 : LOOK_LAST_NS;
        return rc;
    }
    cases[0].ops = &kin__fd_waitable;
    cases[0].object = one;
    cases[0].io = NULL;
    rc = kin__wait_any_until(cases, 1, deadline, flags | KIN__WAIT_TRIED, &status);
    return rc < 0 ? rc : 0;
}

/* Looks; an event that comes from here on is not missed. */
static bool look_first(struct kin_process *process, struct kin__fd_case *one)
{
    if (one->fd.entry)
        kin__fd_look_again(&one->fd);
    return look(process);
}

/* Waits until it is over: 0, KIN_TIMEOUT, KIN_CANCELLED; the last one with KIN__WAIT_SHIELDED only
 * when the task is killed, and not with KIN__WAIT_DEAF. */
static int await(struct kin_process *process, kin_time deadline, unsigned flags)
{
    struct kin__fd_case one = {process->watched, KIN__READY_READ};
    int64_t pause = LOOK_FIRST_NS;
    int rc = 0;
    kin__worker_outside(1);
    while (rc == 0 && !look_first(process, &one)) { /* ends: as waits do */
        rc = deadline == 0 ? KIN_TIMEOUT : wait_some(&one, &pause, deadline, flags);
        if (rc == KIN_CANCELLED && (flags & KIN__WAIT_DEAF))
            rc = 0; /* woken once for what cannot be masked */
    }
    kin__worker_outside(-1);
    return rc;
}

int kin_process_wait(struct kin_process *process, int *wstatus, kin_time deadline)
{
    if (!process)
        return -EINVAL;
    int rc = kin__entry_begin(kin__task_self(), KIN_CAP_PROCESS | KIN__COST_SYSCALL, deadline);
    if (rc == 0)
        rc = await(process, deadline, 0);
    if (rc < 0)
        return rc;
    take_lock(process);
    if (wstatus && process->error == 0)
        *wstatus = process->wstatus;
    rc = process->error;
    give_lock(process);
    return rc;
}

/* ---- signals ---- */

/* Sends it to the process or its group. After the end of the process itself there is a group as
 * long as it is not reaped. */
static int send(struct kin_process *process, int signo)
{
    int rc = -ESRCH, closes;
    take_lock(process);
    if (!look_locked(process, &closes) || (process->leads && !process->is_reaped))
        rc = kin__child_signal(&process->child, signo, process->leads);
    give_lock(process);
    if (closes >= 0)
        (void)kin_close(closes);
    return rc;
}

int kin_process_kill(struct kin_process *process, int signo)
{
    if (!process || signo < 0)
        return -EINVAL;
    int rc = kin__entry_begin_anywhere(KIN_CAP_PROCESS | KIN__COST_SYSCALL, KIN_NEVER);
    if (rc == KIN_CANCELLED)
        rc = 0; /* nothing is waited for here, and it may be what the task has to do last */
    return rc < 0 ? rc : send(process, signo);
}

/* ---- the end ---- */

/* The group goes with the process that leads it; then that one's number is given back. */
static void reap_leader(struct kin_process *process)
{
    int wstatus;
    take_lock(process);
    if (!process->is_reaped) {
        (void)kin__child_signal(&process->child, SIGKILL, true);
        (void)kin__child_reap(&process->child, false, &wstatus);
        process->is_reaped = true;
    }
    give_lock(process);
}

void kin__process_end(struct kin_process *process)
{
    struct kin__task *task = kin__task_self();
    uint16_t pushed = task->flags & KIN__TASK_DEADLINE; /* a deadline of the body counts for less */
    task->flags &= (uint16_t)~KIN__TASK_DEADLINE;
    (void)kin_process_close(process, 0); /* many programs end by that */
    if (!look(process) && process->grace && send(process, process->stop_signal) == 0)
        (void)await(process, kin__clock_after(process->grace), KIN__WAIT_SHIELDED);
    if (!look(process)) {
        (void)send(process, SIGKILL);
        (void)await(process, KIN_NEVER, KIN__WAIT_DEAF); /* nobody survives that */
    }
    reap_leader(process);
    task->flags |= pushed;
}

void kin__process_free(struct kin_process *process)
{
    for (int i = 0; i < 3; i++)
        (void)kin_process_close(process, i);
    kin__bill_give(process->bill);
    kin__heap_free(process);
}

/* ---- the rest of the public face ---- */

pid_t kin_process_pid(const struct kin_process *process)
{
    return process ? process->child.pid : 0;
}

int kin_process_pipe(const struct kin_process *process_, int which)
{
    KIN__LAB_POINT();
    struct kin_process *process = (struct kin_process *)(uintptr_t)process_;
    if (!process || which < 0 || which > 2)
        return -EBADF;
    take_lock(process);
    int fd = process->pipes[which];
    give_lock(process);
    return fd < 0 ? -EBADF : fd;
}

int kin_process_close(struct kin_process *process, int which)
{
    if (!process || which < 0 || which > 2)
        return -EBADF;
    kin__entry_turn_self();
    take_lock(process);
    int fd = process->pipes[which];
    process->pipes[which] = -1;
    give_lock(process);
    return fd < 0 ? -EBADF : kin_close(fd);
}
