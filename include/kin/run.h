/* SPDX-License-Identifier: MIT */
/*
 * Running: from main() into the first task and back.
 */
#ifndef KIN_RUN_H
#define KIN_RUN_H

#include <kin/base.h>
#include <kin/budget.h>
#include <kin/status.h>
#include <kin/time.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

KIN_BEGIN_DECLS

/* What a task runs. A result >= 0 is success and kept as the task's value, < 0 is its failure. */
typedef int kin_task_fn(void *arg);

/* Whom an idle worker tries to take work from. */
enum kin_victim {
    KIN_VICTIM_RANDOM = 0,  /* by the seeded generator; the default */
    KIN_VICTIM_ROUND_ROBIN, /* one after the other */
    KIN_VICTIM_LEAST_LOADED /* the worker with the most waiting tasks */
};

/* What a stack overflow in a task's own code becomes. */
enum kin_on_overflow {
    KIN_STACK_PANIC = 0, /* the task panics with KIN_OVERFLOW; inside libc the process aborts */
    KIN_STACK_ABORT      /* the process reports and aborts, always */
};

/* How much is granted without being asked for, and how often tasks give way. */
enum kin_profile {
    KIN_SERVICE = 0, /* the default: every capability, budgets that recharge; every 1024 ops */
    KIN_CLUSTER,     /* what a child has is what it was given; every 512 ops */
    KIN_SOVEREIGN,   /* the same; yield_interval says how often, 1024 if it does not */
    KIN_CORE         /* no scheduler: fn runs on the caller's thread, and nothing can be spawned */
};

/* How readiness of descriptors is found out, and who works on files. kin_stats_get tells which. */
enum kin_poller {
    KIN_POLLER_AUTO = 0, /* epoll; files by io_uring if the system lets us, else by threads */
    KIN_POLLER_URING,    /* the same, and where it is refused kin_run is KIN_UNSUPPORTED */
    KIN_POLLER_EPOLL     /* epoll; files by threads */
};

/* Something an operator should know. The text names a task by a short number: "task 17" is the id's
 * lower 26 bits, and "task 17.2" is the second that has it. On standard error the
 * status is before the text, with its code if it has one: "kin: KIN_STUCK (N2002): task 17.2 ...".
 * Strings are valid during the callback only. A callback may end
 * the process: one that calls abort() on KIN_STUCK prefers a restart to waiting for that task. */
struct kin_report {
    int status;       /* KIN_OVERFLOW, KIN_PANICKED, KIN_WORKER, ... */
    uint64_t task;    /* the task concerned, 0: none */
    const char *text; /* one or more lines, without a newline at the end */
};

struct kin_config {
    size_t size;           /* KIN_CONFIG_INIT sets it */
    unsigned workers;      /* threads that run tasks; 0: the CPUs this process may use */
    unsigned workers_max;  /* 0: twice that; the extras replace workers that are blocked */
    uint64_t seed;         /* victim choice and every random decision; 0 is a seed like any other */
    enum kin_profile profile;          /* 0: KIN_SERVICE */
    size_t stack_bytes;    /* most a stack may start with; kin starts with one page */
    size_t stack_max_bytes;            /* 0: 256 KiB; what a stack may grow to, at most 128 MiB */
    struct kin_budget budget;          /* what the whole runtime may use; all zero: no limit */
    unsigned yield_interval;           /* operations of a turn, at most 65535; 0: the profile's */
    enum kin_victim victim;            /* 0: random */
    enum kin_poller poller;            /* 0: epoll, and io_uring for files where it works */
    enum kin_on_overflow on_overflow;  /* 0: panic of the task */
    int64_t stall_threshold;           /* ns; 0: 10 ms; KIN_NEVER: workers are never replaced */
    void (*on_report)(const struct kin_report *report, void *arg); /* NULL: standard error */
    void *report_arg;
};
#define KIN_CONFIG_INIT                                                                            \
    { sizeof(struct kin_config), 0, 0, 0, KIN_SERVICE, 0, 0, { 0, 0, 0, 0, 0 }, 0,                 \
      KIN_VICTIM_RANDOM, KIN_POLLER_AUTO, KIN_STACK_PANIC, 0, 0, 0 }
#ifndef __cplusplus
#define KIN_CONFIG(...) KIN_OPTIONS_(kin_config, __VA_ARGS__)
#endif

#define KIN_WORKERS_MAX 1024u /* the most workers a runtime may be asked for */

/**
 * kin_run - run a function as the first task of a runtime, until every task is over.
 * @config: borrowed; NULL for all defaults.
 * @fn:     the first task.
 * @arg:    handed to fn.
 *
 * The calling thread becomes one of the workers. Several runtimes may exist in one process, one
 * after the other or at once on different threads. The first task holds every capability and lives
 * on config.budget.
 *
 * In the profile KIN_CORE there is no scheduler: fn is called right here and is no task, and every
 * spawn or nursery call in it answers KIN_UNSUPPORTED.
 *
 * Example:
 *     int hello(void *arg)
 *     {
 *         printf("hello %s\n", (const char *)arg);
 *         return 0;
 *     }
 *
 *     int main(void)
 *     {
 *         return kin_run(KIN_CONFIG(.workers = 2), hello, "world") == 0 ? 0 : 1;
 *     }
 *
 * From:    thread
 * Returns: what fn returned, -EINVAL for a wrong config, -EBUSY inside a task or another fn of the
 *          core profile, -ENOMEM, -EAGAIN when no thread can be had, KIN_UNSUPPORTED under a user
 *          shadow stack or for a poller that was asked for by name and is refused
 * Spec:    [SCHED:6.2.1] [SCHED:6.2.2] [SCHED:6.2.3] [SCHED:9.3.1] [SCHED:10.2.1] [SCHED:13.2.1]
 */
KIN_API KIN_MUST_USE int kin_run(const struct kin_config *config, kin_task_fn *fn, void *arg);

/**
 * kin_in_lab - whether a run of the lab is under way.
 *
 * For code that talks to what the lab cannot simulate. A program that links kin is never in the
 * lab; one that links kin-lab is while kin_lab_run runs its test.
 *
 * Example:
 *     int64_t patience(void)
 *     {
 *         return kin_in_lab() ? KIN_SEC(1) : KIN_SEC(60);
 *     }
 *
 * From:    task, thread
 * Parks:   no
 * Returns: true inside of a run
 */
KIN_API bool kin_in_lab(void);

KIN_END_DECLS

#endif
