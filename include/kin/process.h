/* SPDX-License-Identifier: MIT */
/*
 * Processes: programs that a task starts, talks to, waits for and never leaves behind.
 *
 *     int count_lines(const char *path)
 *     {
 *         const char *argv[] = {"wc", "-l", path, NULL};
 *         struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
 *         struct kin_process *process;
 *         char text[64];
 *         size_t size;
 *
 *         options.out.kind = KIN_STDIO_PIPE;
 *         int rc = kin_process_start(argv, &options, &process);
 *         if (rc == 0)
 *             rc = kin_read_full(kin_process_pipe(process, 1), text, sizeof text, &size,
 *                                KIN_NEVER);
 *         ...
 *     }
 *
 * A process belongs to the task that started it, like something put down by kin_defer at that
 * point: when the task is over, or the scope that it was started in is released, a process that
 * still runs is asked to end, by SIGTERM, and killed if it does not in time; it is reaped in any
 * case. Other tasks may use it until then. So a process that is to end with a piece of work is
 * started by the task that does the work, and a cancellation of that task ends it.
 *
 * The program gets what it is given and nothing else: the three standard descriptors, no other;
 * default actions for all signals and none blocked, except that SIGHUP, SIGINT and SIGQUIT stay
 * ignored where this process ignores them, as nohup wants it; the environment and the directory of
 * this process unless told otherwise. A program that cannot be started is a failure of the start.
 *
 * The exits of processes are awaited one by one (pidfd): SIGCHLD stays the program's, and nothing
 * of it is needed. A program that itself reaps any child, by wait or by ignoring SIGCHLD, takes
 * exits away: kin_process_wait then says -ECHILD.
 *
 * In the lab there is nothing outside: kin_process_start is KIN_UNSUPPORTED.
 */
#ifndef KIN_PROCESS_H
#define KIN_PROCESS_H

#include <kin/base.h>
#include <kin/status.h>
#include <kin/time.h>

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

KIN_BEGIN_DECLS

struct kin_process;

/* What one of the three standard descriptors of a process is. */
enum kin_stdio_kind {
    KIN_STDIO_INHERIT = 0, /* as in this process */
    KIN_STDIO_NULL,        /* nothing: reads are at the end, writes go nowhere */
    KIN_STDIO_PIPE,        /* a pipe, whose other end is kin_process_pipe */
    KIN_STDIO_FD,          /* a copy of a given descriptor */
    KIN_STDIO_OUT          /* of the error output only: the same as the output */
};

struct kin_stdio {
    enum kin_stdio_kind kind;
    int fd; /* for KIN_STDIO_FD: borrowed during the start */
};

/* Whom a process stands together with. */
enum kin_process_group {
    KIN_PROCESS_SHARED = 0, /* in the group of this process: keys at the terminal reach both */
    KIN_PROCESS_GROUP,      /* leads a group of its own, */
    KIN_PROCESS_SESSION     /* or a session: signals go to all of the group, and the whole group is
                               killed in the end, also when the process itself is over by then */
};

struct kin_process_options {
    size_t size;
    const char *const *env; /* "NAME=value" ..., NULL; without it the environment of this process */
    const char *cwd;        /* the directory it starts in; NULL: this process's */
    struct kin_stdio in, out, err;
    enum kin_process_group group;
    int stop_signal;        /* what asks it to end when its time is over; 0: SIGTERM */
    int64_t grace;          /* ns it may take to do so until it is killed; 0: half of what the
                               task's nursery grants a cancelled child, 2.5 s unless it says
                               otherwise; KIN_BRUTAL: it is killed without being asked */
};
#define KIN_PROCESS_OPTIONS_INIT                                                                   \
    { sizeof(struct kin_process_options), 0, 0, { KIN_STDIO_INHERIT, 0 },                          \
      { KIN_STDIO_INHERIT, 0 }, { KIN_STDIO_INHERIT, 0 }, KIN_PROCESS_SHARED, 0, 0 }
#ifndef __cplusplus
#define KIN_PROCESS_OPTIONS(...) KIN_OPTIONS_(kin_process_options, __VA_ARGS__)
#endif

/**
 * kin_process_start - start a program in a process of its own.
 * @argv:    borrowed: its arguments, ended by NULL. The first one is the program: a path if there
 *           is a slash in it, otherwise it is looked for in PATH of this process.
 * @options: borrowed; NULL for all defaults.
 * @out:     receives the process, which stays valid until kin_process_destroy or the end of the
 *           scope, whichever comes first.
 *
 * A worker thread does not wait meanwhile, however long the program takes to be loaded. A relative
 * path is one of the new directory, if one is given.
 *
 * Example:
 *     int sort_file(const char *path)
 *     {
 *         const char *argv[] = {"sort", "-o", path, path, NULL};
 *         struct kin_process *process;
 *         int wstatus;
 *         int rc = kin_process_start(argv, NULL, &process);
 *         if (rc == 0)
 *             rc = kin_process_wait(process, &wstatus, KIN_NEVER);
 *         return rc < 0 ? rc : wstatus == 0 ? 0 : -1;
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  before it has begun; the process exists only if 0 is returned
 * Needs:   KIN_CAP_PROCESS
 * Budget:  1 op, 1 syscall, memory until kin_process_destroy
 * Returns: 0 when the program runs; -ENOENT, -EACCES, -ENOEXEC, -E2BIG, ... when it cannot; -EBADF
 *          for a bad descriptor; -EAGAIN, -EMFILE, -ENOMEM; -EINVAL without a program or for
 *          options that make no sense; KIN_CANCELLED, KIN_TIMEOUT, KIN_NOCAP, KIN_BUDGET,
 *          KIN_NOTASK
 */
KIN_API KIN_MUST_USE int kin_process_start(const char *const *argv,
                                           const struct kin_process_options *options,
                                           struct kin_process **out);

/**
 * kin_process_pid - the number of a process.
 * @process: a process.
 *
 * Once it has been waited for, the system may give the number to another one.
 *
 * Example:
 *     void show(const struct kin_process *process)
 *     {
 *         printf("runs as %ld\n", (long)kin_process_pid(process));
 *     }
 *
 * From:    anywhere
 * Returns: the number, > 0; 0 for NULL
 */
KIN_API pid_t kin_process_pid(const struct kin_process *process);

/**
 * kin_process_pipe - this side's end of a pipe.
 * @process: a process.
 * @which:   0: what it reads, to be written here; 1 and 2: its output and error output.
 *
 * It belongs to the process and is closed with it, or before by kin_process_close; not by
 * kin_close.
 *
 * Example:
 *     int say_hello(struct kin_process *process)
 *     {
 *         int rc = kin_write(kin_process_pipe(process, 0), "hello\n", 6, NULL, KIN_NEVER);
 *         if (rc == 0)
 *             rc = kin_process_close(process, 0);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Returns: a descriptor for kin_read and kin_write; -EBADF when there is none, or no longer
 */
KIN_API int kin_process_pipe(const struct kin_process *process, int which);

/**
 * kin_process_close - close this side's end of a pipe.
 * @process: a process.
 * @which:   0: it finds the end of its input; 1, 2: it can write no more.
 *
 * Tasks that wait on it get KIN_CLOSED.
 *
 * Example:
 *     int feed(struct kin_process *process, const char *text, size_t size)
 *     {
 *         int rc = kin_write(kin_process_pipe(process, 0), text, size, NULL, KIN_NEVER);
 *         return rc < 0 ? rc : kin_process_close(process, 0);
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: 0, -EBADF when there is none, or no longer
 */
KIN_API int kin_process_close(struct kin_process *process, int which);

/**
 * kin_process_wait - wait until a process is over.
 * @process:  a process.
 * @wstatus:  receives how it ended, to be looked at with WIFEXITED and the other macros of
 *            <sys/wait.h>; may be NULL.
 * @deadline: KIN_NEVER to wait without end, 0 to only look.
 *
 * Any number of tasks may wait, and as often as they like: the answer stays. A deadline or a
 * cancellation does nothing to the process. A process that leads a group is over here as soon as it
 * ends, but its number stays taken until it is destroyed, so that the rest of the group can be
 * killed.
 *
 * Where the system has no descriptors for processes (before Linux 5.3, or refused), it is looked at
 * every now and then: 1 ms after the start of the wait, then later and later, every 50 ms at most.
 *
 * Example:
 *     int code_of(struct kin_process *process, kin_time deadline)
 *     {
 *         int wstatus = 0;
 *         int rc = kin_process_wait(process, &wstatus, deadline);
 *         if (rc < 0)
 *             return rc;
 *         return WIFEXITED(wstatus) ? WEXITSTATUS(wstatus) : 128 + WTERMSIG(wstatus);
 *     }
 *
 * From:    task
 * Parks:   yes
 * Cancel:  reports it
 * Needs:   KIN_CAP_PROCESS
 * Budget:  1 op, 1 syscall
 * Returns: 0 when it is over; KIN_TIMEOUT, KIN_CANCELLED, KIN_NOCAP, KIN_BUDGET, KIN_NOTASK,
 *          -EINVAL for NULL; -ECHILD when it is over and somebody else has taken its status
 */
KIN_API KIN_MUST_USE int kin_process_wait(struct kin_process *process, int *wstatus,
                                          kin_time deadline);

/**
 * kin_process_kill - send a signal to a process.
 * @process: a process; if it leads a group, to all of the group.
 * @signo:   which; 0 sends none and only looks.
 *
 * It reaches this process or none: never another one that has got its number. A task that is being
 * cancelled may still send one.
 *
 * Example:
 *     int reload(struct kin_process *process)
 *     {
 *         return kin_process_kill(process, SIGHUP);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Needs:   KIN_CAP_PROCESS, in a task
 * Budget:  1 op, 1 syscall, in a task
 * Returns: 0, -ESRCH when it is over, -EINVAL for NULL or no such signal, -EPERM, KIN_NOCAP,
 *          KIN_BUDGET
 */
KIN_API int kin_process_kill(struct kin_process *process, int signo);

/**
 * kin_process_destroy - end a process before its scope does.
 * @process: a process that the running task has started; NULL is left alone.
 *
 * If it runs, the pipe that it reads is closed and it is asked to end; when its grace is over it is
 * killed, and at once if the task itself outstays the grace of its nursery. It is waited for, its
 * pipes are closed and its memory is given back. Nobody else may use it any more. The end of a
 * scope does the same, with one process after the other.
 *
 * Example:
 *     int run_for_a_second(void)
 *     {
 *         static const char *const argv[] = {"sleep", "1000", NULL};
 *         struct kin_process *process;
 *         int rc = kin_process_start(argv, NULL, &process);
 *         if (rc < 0)
 *             return rc;
 *         rc = kin_process_wait(process, NULL, kin_after(KIN_SEC(1)));
 *         kin_process_destroy(process);
 *         return rc == KIN_TIMEOUT ? 0 : rc;
 *     }
 *
 * From:    task, the one that started it
 * Parks:   yes
 * Cancel:  does not end the wait: no process outlives its scope
 * Returns: nothing; in any other task or thread it aborts
 */
KIN_API void kin_process_destroy(struct kin_process *process);

KIN_END_DECLS

#endif
