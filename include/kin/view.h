/* SPDX-License-Identifier: MIT */
/*
 * View: what an operator sees of a running program.
 */
#ifndef KIN_VIEW_H
#define KIN_VIEW_H

#include <kin/base.h>

#include <stdint.h>

KIN_BEGIN_DECLS

/* Why workers were started in the place of blocked ones, and why not. A monitor looks at all
 * workers every few milliseconds while one of them works. Each look at the pressure is counted
 * once, and so is each look at a worker that is at work: in passes or in one of the counters from
 * not_stuck on. */
struct kin_scaling {
    uint64_t positive_samples; /* looks that found runnable tasks waiting */
    uint64_t negative_samples; /* looks whose pressure was negative: counters read on the way */
    uint64_t neg_streak_max;   /* most of these in a row; a long row is a fault of the counters */
    uint64_t passes;           /* blocked, tasks waited, nobody was idle: a worker was wanted, */
    uint64_t promoted;         /* and was started; */
    uint64_t at_limit;         /* or config.workers_max were alive; */
    uint64_t no_thread;        /* or no thread could be started. The three add up to passes */
    uint64_t not_stuck;        /* it had moved, or has not stood for config.stall_threshold yet */
    uint64_t computes;         /* it has stood for so long, but its thread was not asleep */
    uint64_t no_work;          /* it was blocked, and no task waited for it */
    uint64_t idle_capacity;    /* it was blocked, and a sleeping worker took its tasks over */
    uint64_t nonpositive;      /* it was blocked, but the pressure said that no task waited */
};

/* Counters of the calling task's runtime. They are read without stopping anybody, so they may be
 * a moment old and need not add up exactly while tasks run. */
struct kin_stats {
    uint64_t tasks_live;      /* spawned and not over */
    uint64_t slices;          /* times a task was picked to run */
    uint64_t steals;          /* times a worker took work from another */
    uint64_t tasks_stolen;    /* tasks that changed worker that way */
    uint64_t steals_failed;   /* times it tried one that had nothing to take */
    uint64_t wakes;           /* sleeping workers woken */
    int64_t pressure;         /* runnable tasks waiting, about; may be negative for a moment */
    uint32_t workers;         /* alive now */
    uint32_t workers_started; /* ever started */
    uint32_t workers_replaced; /* blocked ones that were given a replacement */
    uint64_t stacks;          /* stacks ever made */
    uint64_t timers;          /* deadlines waiting */
    const char *poller;       /* what watches descriptors: "epoll"; NULL: nothing yet */
    const char *files;        /* what works on files: "io_uring", "threads"; NULL: nothing yet */
    struct kin_scaling scaling; /* what the monitor has seen and decided so far */
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
 * workers, their states, the latest scale decisions with their reasons, and how often each reason
 * was met (struct kin_scaling).
 *
 *     task 67108865 (main): running, entry 0x401136, spawned at 0x401200
 *     task 67108866 (reader): parked on sleep, child of task 67108865 (main) in nursery 67108865
 *     (requests), entry 0x401150, spawned at 0x401250                              one line
 *     2 tasks: 1 running, 1 parked on sleep
 *     worker 0: active, 12 slices, 0 queued
 *     scale 0: start worker 0
 *     pressure 0: 3 looks positive, 0 negative, at most 0 of these in a row
 *     gate: 0 passed (0 promoted, 0 at limit, 0 no thread), blocked by 9 not stuck, 2 computes,
 *     0 no work, 0 idle capacity, 0 nonpositive                                    one line
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
 * Returns: 0, KIN_NOTASK, KIN_NOCAP as kin_write would, -EBADF when fd is not open for writing,
 *          -errno of a write that failed
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
 * Returns: 0, KIN_NOTASK, KIN_NOCAP as kin_write would, KIN_UNSUPPORTED when the runtime is
 *          not recorded, -EBADF, -EBUSY while
 *          somebody else writes it, -errno of a write that failed
 */
KIN_API int kin_record_dump(int fd);

/**
 * kin_lock_cycles - find rings of tasks, each waiting for what the next one holds.
 * @fd: where each ring is printed to, a line for each task in it.
 *
 * Looks at mutexes, at rwlocks that a writer holds (who reads is not known), at calls, which wait
 * for their server unless that has moved the token, at starts of servers, and at waits for the end
 * of one task or server. What tasks of another runtime hold is not followed. Nobody is stopped, and
 * what is reported was true when it was found. When all tasks of a runtime wait for each other and
 * nothing can wake them, that is reported without being asked for, through on_report with
 * KIN_DEADLOCK.
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
 * Returns: how many rings there are, KIN_NOTASK, KIN_NOCAP as kin_write would, -EBADF when fd
 *          is not open for writing, -errno of
 *          a write that failed
 * Spec:    [A13]
 */
KIN_API int kin_lock_cycles(int fd);

KIN_END_DECLS

#endif
