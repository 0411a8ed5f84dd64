/* SPDX-License-Identifier: MIT */
/*
 * View: what an operator sees of a running program.
 */
#ifndef KIN_VIEW_H
#define KIN_VIEW_H

#include <kin/base.h>

#include <stdint.h>

KIN_BEGIN_DECLS

/* Counters of the calling task's runtime. They are read without stopping anybody, so they may be
 * a moment old and need not add up exactly while tasks run. */
struct kin_stats {
    uint64_t tasks_live;      /* spawned and not over */
    uint64_t slices;          /* times a task was picked to run */
    uint64_t steals;          /* times a worker took work from another */
    uint64_t tasks_stolen;    /* tasks that changed worker that way */
    uint64_t wakes;           /* sleeping workers woken */
    int64_t pressure;         /* runnable tasks waiting, about; may be negative for a moment */
    uint32_t workers;         /* alive now */
    uint32_t workers_started; /* ever started */
    uint32_t workers_replaced; /* stuck ones that were given a replacement */
    uint64_t stacks;          /* stacks ever made */
    uint64_t timers;          /* deadlines waiting */
    const char *poller;       /* what watches descriptors: "epoll", "io_uring"; NULL: nothing yet */
    const char *files;        /* what works on files: "io_uring", "threads"; NULL: nothing yet */
};

/**
 * kin_stats_get - counters of the runtime that the caller is in.
 * @out: receives them.
 *
 * Each worker counts for itself, and the sum is taken while they go on: a task that was joined may
 * count as live for a moment more.
 *
 * Example:
 *     void show_load(void)
 *     {
 *         struct kin_stats stats;
 *         if (kin_stats_get(&stats) == 0)
 *             printf("%llu tasks on %u workers\n", (unsigned long long)stats.tasks_live,
 *                    stats.workers);
 *     }
 *
 * From:    task
 * Returns: 0, KIN_NOTASK, -EINVAL for NULL
 */
KIN_API int kin_stats_get(struct kin_stats *out);

/**
 * kin_dump - print every task: name, state, what it waits for, whose child it is.
 * @fd: where to.
 *
 * A line for each task, with the task and the nursery that it belongs to, its entry and where it
 * was spawned. Nobody is stopped: each line was true when it was made. Behind them comes how many
 * tasks there are that do the same, which is the line to begin with when there are many; then the
 * workers, their states, and the latest scale decisions with their reasons.
 *
 *     task 67108865 (main): running, entry 0x401136, spawned at 0x401200
 *     task 67108866 (reader): parked on sleep, child of task 67108865 (main) in nursery 67108865
 *     (requests), entry 0x401150, spawned at 0x401250                              one line
 *     2 tasks: 1 running, 1 parked on sleep
 *     worker 0: active, 12 slices, 0 queued
 *
 * Example:
 *     int show_all(void *arg)
 *     {
 *         int rc = kin_dump(2);
 *         return rc < 0 ? rc : kin_nursery_join(arg, NULL);
 *     }
 *
 * From:    task
 * Parks:   no; writing may block the thread
 * Returns: 0, KIN_NOTASK, -EBADF when fd is not open for writing, -errno of a write that failed
 */
KIN_API int kin_dump(int fd);

/**
 * kin_record_dump - write down what the scheduler did lately.
 * @fd: where to.
 *
 * A runtime is recorded when KIN_RECORD is set in the environment of kin_run: each worker keeps its
 * latest decisions (who ran, waited for what, was woken by whom, how it ended) in a ring of
 * KIN_RECORD_BYTES, 64 KiB if that is not set. With KIN_RECORD=path the record is written to that
 * file when the first task panics, is stuck or overflows its stack, on a deadlock, when a check of
 * kin fails, when the process crashes (by abort, a fault, a division by zero; unless the program
 * has a handler for that signal), or else when kin_run returns; with KIN_RECORD=1 only if something
 * bad happens, to kin-PID.kinrecord in the current directory. Runtimes that run beside another one
 * have a number behind the name: path.2. A file that cannot be written is told on standard error.
 * This call writes the record at any time, and stops nobody for that. `kin record` draws it, and
 * makes a schedule of it that the lab follows: see doc/lab.md.
 *
 * It takes a lock: a signal handler must not call it. What a crash writes does without.
 *
 * Recording costs around a tenth of a microsecond for each decision; without it, it costs nothing.
 *
 * Example:
 *     #include <errno.h>
 *     int on_request(void *arg)
 *     {
 *         int rc = kin_record_dump(*(int *)arg);
 *         return rc == KIN_UNSUPPORTED || rc == -EBUSY ? 0 : rc;
 *     }
 *
 * From:    task
 * Parks:   no; writing may block the thread
 * Returns: 0, KIN_NOTASK, KIN_UNSUPPORTED when the runtime is not recorded, -EBADF, -EBUSY while
 *          somebody else writes it, -errno of a write that failed
 */
KIN_API int kin_record_dump(int fd);

/**
 * kin_lock_cycles - find rings of locks, each held by a task that waits for the next.
 * @fd: where each ring is printed to, a line for each task in it.
 *
 * Looks at mutexes, and at rwlocks that a writer holds: who reads is not known. Locks that are held
 * by tasks of another runtime are not followed. Nobody is stopped, and what is reported was true
 * when it was found. When all tasks of a runtime wait for each other and nothing can wake them,
 * that is reported without being asked for, through on_report with KIN_DEADLOCK.
 *
 * Example:
 *     #include <errno.h>
 *     int look_for_rings(void *arg)
 *     {
 *         (void)arg;
 *         for (;;) {
 *             int rc = kin_sleep(kin_after(KIN_SEC(10)));
 *             if (rc < 0)
 *                 return rc;
 *             if (kin_lock_cycles(2) > 0)
 *                 return KIN_DEADLOCK;
 *         }
 *     }
 *
 * From:    task
 * Parks:   no
 * Returns: how many rings there are, KIN_NOTASK, -EBADF when fd is not open for writing, -errno of
 *          a write that failed
 * Spec:    [A13]
 */
KIN_API int kin_lock_cycles(int fd);

KIN_END_DECLS

#endif
