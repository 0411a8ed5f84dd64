/* SPDX-License-Identifier: MIT */
/*
 * Nurseries: scopes that own tasks, and from which no task escapes.
 *
 * Data first, nursery next, end last. Everything a child points at is declared before the nursery,
 * comes from kin_nursery_alloc, or was copied by kin_spawn_copy.
 *
 *     int both(void)
 *     {
 *         struct work left = {0}, right = {0};
 *         KIN_NURSERY(n);
 *         int rc = kin_spawn(&n, half, &left);
 *         if (rc == 0)
 *             rc = kin_spawn(&n, half, &right);
 *         return kin_nursery_end(&n, rc);
 *     }
 *
 *     close ends admission, cancel asks the children to stop, join waits for the last of them; end
 *     is the three of them as the way out of a function, and the one that loses no cause.
 *
 *          open ----close, join----> CLOSING ----last child over----> CLOSED
 *            |                          |
 *            +---------cancel-----------+----> CANCELLING --last child over--> CANCELLED
 */
#ifndef KIN_NURSERY_H
#define KIN_NURSERY_H

#include <kin/base.h>
#include <kin/budget.h>
#include <kin/run.h>
#include <kin/status.h>
#include <kin/task.h>
#include <kin/time.h>

#include <stddef.h>
#include <stdint.h>

KIN_BEGIN_DECLS

enum kin_nursery_state {
    KIN_NURSERY_OPEN = 0,
    KIN_NURSERY_CLOSING = 1,
    KIN_NURSERY_CANCELLING = 2,
    KIN_NURSERY_CLOSED = 3,
    KIN_NURSERY_CANCELLED = 4
};

/* What the first failing child does to its siblings. */
enum kin_on_error {
    KIN_FAIL_FAST = 0, /* they are cancelled */
    KIN_COLLECT        /* they go on */
};

/* Storage for a nursery; what is inside is the runtime's. */
struct kin_nursery {
#ifdef __cplusplus
    alignas(16) unsigned char opaque_[336];
#else
    _Alignas(16) unsigned char opaque_[336];
#endif
};

/* Who gives a task of the nursery more when its budget is used up. */
enum kin_recharge {
    KIN_RECHARGE_PROFILE = 0, /* as the runtime's profile says */
    KIN_RECHARGE_AUTO,        /* the nursery, from its pool, at once */
    KIN_RECHARGE_MANUAL       /* somebody, by kin_budget_recharge */
};

/* What a task does whose budget is used up and which nobody recharges at once. */
enum kin_on_exhausted {
    KIN_EXHAUSTED_WAIT = 0, /* waits until somebody does */
    KIN_EXHAUSTED_FAIL      /* the operation fails with KIN_BUDGET */
};

/* How soon a woken task runs; a hint that starves nobody. */
enum kin_priority {
    KIN_PRIORITY_NORMAL = 0,
    KIN_PRIORITY_HIGH, /* before the others that were woken */
    KIN_PRIORITY_LOW   /* behind them, with those that yielded */
};

struct kin_nursery_options {
    size_t size;
    const char *name;           /* kept until the join; for dumps and reports */
    kin_time deadline;          /* cancels the nursery, whose join is KIN_TIMEOUT then; 0: none */
    int64_t cancel_grace;       /* ns a cancelled child may take before it is reported; 0: 5 s */
    enum kin_on_error on_error; /* 0: KIN_FAIL_FAST */
    struct kin_budget budget;   /* the children's pool; all zero: the parent's, by profile */
    enum kin_recharge recharge;
    enum kin_on_exhausted on_exhausted;
    unsigned tasks_max;         /* most children alive at once; 0: no limit */
    unsigned errors_max;        /* failures kept; 0: 16 */
    unsigned ends_max;          /* ends of named children kept; 0: 65536 */
};
#define KIN_NURSERY_OPTIONS_INIT                                                                   \
    { sizeof(struct kin_nursery_options), 0, 0, 0, KIN_FAIL_FAST, { 0, 0, 0, 0, 0 },               \
      KIN_RECHARGE_PROFILE, KIN_EXHAUSTED_WAIT, 0, 0, 0 }
#ifndef __cplusplus
#define KIN_NURSERY_OPTIONS(...) KIN_OPTIONS_(kin_nursery_options, __VA_ARGS__)
#endif

struct kin_spawn_options {
    size_t size;
    const char *name;                 /* kept until the task is over */
    struct kin_budget budget;         /* all zero: the default, by profile */
    struct kin_budget recharge_limit; /* how much it may give itself in all; needs KIN_CAP_BUDGET */
    uint32_t caps;                    /* 0: by profile; KIN_CAP_NONE: none; else KIN_CAP_ bits */
    enum kin_priority priority;
    size_t stack_max_bytes;           /* 0: the runtime's */
    kin_time slot_deadline;           /* how long to wait for room under tasks_max; 0: not at all */
    void (*cleanup)(void *arg);       /* its first cleanup: see kin_spawn_with; NULL: none */
};
#define KIN_SPAWN_OPTIONS_INIT                                                                     \
    { sizeof(struct kin_spawn_options), 0, { 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0 }, 0,                \
      KIN_PRIORITY_NORMAL, 0, 0, 0 }
#ifndef __cplusplus
#define KIN_SPAWN_OPTIONS(...) KIN_OPTIONS_(kin_spawn_options, __VA_ARGS__)
#endif

/**
 * kin_nursery_open - open a nursery in the running task.
 * @n:       storage, kept until the join.
 * @options: borrowed; NULL for all defaults.
 *
 * The task becomes its owner. A task that returns with a nursery open, or leaves one by longjmp,
 * aborts with the place where it was opened; KIN_NURSERY sees to that.
 *
 * Example:
 *     int work(void *arg);
 *
 *     int work_until(void *arg, kin_time deadline)
 *     {
 *         struct kin_nursery n;
 *         int rc = kin_nursery_open(&n, KIN_NURSERY_OPTIONS(.deadline = deadline));
 *         if (rc < 0)
 *             return rc;
 *         rc = kin_spawn(&n, work, arg);
 *         return kin_nursery_end(&n, rc);
 *     }
 *
 * From:    task
 * Needs:   KIN_CAP_SPAWN
 * Budget:  a step of the turn, memory for more open nurseries than 16 and for errors_max above 16
 * Returns: 0, KIN_NOTASK, KIN_NOCAP, KIN_BUDGET when the task cannot give it that budget or has no
 *          memory for one more, -ENOMEM, -EINVAL for a wrong size or NULL, KIN_UNSUPPORTED in the
 *          core profile
 * Spec:    [SCHED:8.1.1] [NSM:2.2]
 */
KIN_API KIN_MUST_USE int kin_nursery_open(struct kin_nursery *n,
                                          const struct kin_nursery_options *options);

/**
 * kin_spawn - start fn(arg) as a child of a nursery.
 * @n:   an open nursery; while it is joined its live children may still spawn into it.
 * @fn:  what the child runs.
 * @arg: handed to fn; must live until the join.
 *
 * A refused spawn leaves nothing behind. A child that is cancelled before it begins never runs: for
 * what it is to give back see the cleanup of kin_spawn_with.
 *
 * Example:
 *     int half(void *part);
 *
 *     int both(int parts[2])
 *     {
 *         KIN_NURSERY(n);
 *         int rc = kin_spawn(&n, half, &parts[0]);
 *         if (rc == 0)
 *             rc = kin_spawn(&n, half, &parts[1]);
 *         return kin_nursery_end(&n, rc);
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run when it is refused
 * Needs:   KIN_CAP_SPAWN
 * Budget:  1 op; 1 spawn of the nursery's pool
 * Returns: 0, KIN_NOSCOPE when the nursery admits nobody, KIN_FULL under tasks_max, KIN_BUDGET,
 *          KIN_NOCAP, -ENOMEM, -EINVAL, KIN_UNSUPPORTED in the core profile
 * Spec:    [NSM:3.1] [SCHED:8.1.2] [N1001]
 */
KIN_API KIN_MUST_USE int kin_spawn(struct kin_nursery *n, kin_task_fn *fn, void *arg);

/**
 * kin_spawn_copy - start a child with a copy of its argument.
 * @n:        an open nursery.
 * @fn:       what the child runs.
 * @arg:      borrowed; the child gets a copy, aligned to 16, which goes when the child is over.
 * @arg_size: how many bytes.
 *
 * Whoever spawns pays for the copy, if it has a budget, as for memory of kin_alloc: until the child
 * is over. What is to outlive the child does not belong into its argument.
 *
 * KIN_ARGS writes the last two: kin_spawn_copy(&n, fetch, KIN_ARGS(struct fetch, .url = url)).
 *
 * Example:
 *     struct fetch {
 *         const char *url;
 *         int tries;
 *     };
 *     int fetch(void *arg);
 *
 *     int fetch_all(const char *const *urls, size_t count)
 *     {
 *         KIN_NURSERY(n);
 *         int rc = 0;
 *         for (size_t i = 0; i < count && rc == 0; i++)
 *             rc = kin_spawn_copy(&n, fetch, KIN_ARGS(struct fetch, urls[i], .tries = 3));
 *         return kin_nursery_end(&n, rc);
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run when it is refused
 * Needs:   KIN_CAP_SPAWN
 * Budget:  1 op, 1 spawn of the nursery's pool, @arg_size of memory
 * Returns: as kin_spawn
 */
KIN_API KIN_MUST_USE int kin_spawn_copy(struct kin_nursery *n, kin_task_fn *fn, const void *arg,
                                        size_t arg_size);

/**
 * kin_spawn_with - start a child with options, and get a name for it.
 * @n:        an open nursery.
 * @options:  borrowed; NULL for all defaults.
 * @fn:       what the child runs.
 * @arg:      as kin_spawn when arg_size is 0, else as kin_spawn_copy.
 * @arg_size: bytes to copy, or 0.
 * @out:      receives the child's name; may be NULL.
 *
 * In a full nursery it waits for room until options->slot_deadline, in order of arrival; a thread
 * blocks meanwhile. How a child with a name ended stays known until the nursery is released, but of
 * no more children than ends_max: when more have ended, the name of the one that ended first is
 * stale. So a nursery may live for years.
 *
 * What the child is to give back, such as a descriptor, is handed over with options->cleanup. The
 * child then begins with that cleanup of its argument, or of the copy, as if kin_defer were the
 * first thing it does; but it runs, too, in a child that is cancelled before it begins and never
 * gets to its body. A refused spawn runs nothing: what was to be handed over is still the caller's.
 * When there is no memory for the child's stack the cleanup runs outside of a task, where it cannot
 * wait.
 *
 * Example:
 *     int serve(void *conn);
 *
 *     void hang_up(void *conn)
 *     {
 *         kin_ignore(kin_close(*(int *)conn));
 *     }
 *
 *     int serve_one(struct kin_nursery *n, int conn)
 *     {
 *         const struct kin_spawn_options *options =
 *             KIN_SPAWN_OPTIONS(.name = "connection", .caps = KIN_CAP_TIME | KIN_CAP_NET,
 *                               .slot_deadline = kin_after(KIN_SEC(1)), .cleanup = hang_up);
 *         int rc = kin_spawn_with(n, options, serve, &conn, sizeof conn, NULL);
 *         if (rc < 0)
 *             hang_up(&conn);
 *         return rc;
 *     }
 *
 * From:    anywhere
 * Parks:   only for room
 * Cancel:  ends the wait for room with KIN_NOSCOPE
 * Needs:   KIN_CAP_SPAWN
 * Budget:  1 op, 1 spawn of the nursery's pool
 * Returns: as kin_spawn; KIN_FULL, or KIN_TIMEOUT when the slot deadline has passed
 * Spec:    [B7]
 */
KIN_API KIN_MUST_USE int kin_spawn_with(struct kin_nursery *n,
                                        const struct kin_spawn_options *options, kin_task_fn *fn,
                                        const void *arg, size_t arg_size, struct kin_task_ref *out);

/**
 * kin_nursery_close - end admission.
 * @n: a nursery; NULL or a terminal one is left alone.
 *
 * Example:
 *     int drain(struct kin_nursery *n)
 *     {
 *         kin_nursery_close(n);
 *         return kin_nursery_join(n, NULL);
 *     }
 *
 * From:    anywhere
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: nothing
 * Spec:    [NSM:2.3]
 */
KIN_API void kin_nursery_close(struct kin_nursery *n);

/**
 * kin_nursery_cancel - ask every child, and every child of theirs, to stop.
 * @n:      a nursery; NULL or a terminal one is left alone.
 * @reason: what kin_cancel_reason tells them; 0: KIN_CANCELLED.
 *
 * Asks, never waits. Parked children wake. The first reason stays. The owner's own waits report
 * the cancellation too, until it has joined.
 *
 * The nursery takes no more children from the first moment on. Those that it has are asked one
 * after the other, and a child that was asked may act before the next one is. The caller that began
 * the cancellation returns when all were asked; another caller meanwhile returns at once. A wait or
 * a checkpoint of a child that was not asked yet goes on as if nothing had happened. A child may
 * find out by itself: if kin_cancelled tells it so, the child counts as asked from then on.
 *
 * Example:
 *     int give_up(struct kin_nursery *n)
 *     {
 *         kin_nursery_cancel(n, KIN_STOPPING);
 *         return kin_nursery_join(n, NULL);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: nothing
 * Spec:    [NSM:4.2] [NSM-3] [SCHED:8.3.1]
 */
KIN_API void kin_nursery_cancel(struct kin_nursery *n, int reason);

/**
 * kin_nursery_join - wait until every child is over, and release the nursery.
 * @n:   a nursery that the running task opened.
 * @out: receives how it went; may be NULL.
 *
 * Children that were started and not yet run may run right here. A panic is reported before an
 * error, an error before a cancellation, whichever came first. A nursery that was cancelled because
 * something around it was says KIN_CANCELLED whatever the reason; kin_cancel_reason has that. A
 * deadline that was pushed bounds the join: the nursery is cancelled by it.
 *
 * Example:
 *     int work(void *arg);
 *
 *     int work_and_tell(void *arg)
 *     {
 *         struct kin_outcome how;
 *         KIN_NURSERY(n);
 *         int rc = kin_spawn(&n, work, arg);
 *         if (rc < 0)
 *             return kin_nursery_end(&n, rc);
 *         rc = kin_nursery_join(&n, &how);
 *         if (how.severity == KIN_SEV_PANIC)
 *             fprintf(stderr, "task %llu panicked\n", (unsigned long long)how.task);
 *         return rc;
 *     }
 *
 * From:    task, the owner
 * Parks:   yes
 * Cancel:  does not end the wait: no child outlives its nursery
 * Returns: 0, the first child's failure, the reason it was cancelled with (KIN_TIMEOUT when its
 *          deadline did it, KIN_CANCELLED when it came from outside), KIN_STALE a second time;
 *          why the open failed, if it did, KIN_NOSCOPE for one that is all zero and was never
 *          opened; -EINVAL for NULL, KIN_NOTASK, KIN_UNSUPPORTED in the core profile
 * Spec:    [NSM-2] [NSM:5.1] [NSM:4.4] [SCHED:8.1.3]
 */
KIN_API KIN_MUST_USE int kin_nursery_join(struct kin_nursery *n, struct kin_outcome *out);

/**
 * kin_nursery_end - the way out of a function that opened a nursery: no cause is lost on it.
 * @n:  a nursery that the running task opened.
 * @rc: what the body of the function has come to.
 *
 * Cancels the nursery if @rc < 0, joins it, and returns the cause of a failure. A child that fails
 * cancels its nursery, and with it the calls of its parent: a spawn is KIN_NOSCOPE from then on, a
 * wait KIN_CANCELLED, a channel perhaps KIN_CLOSED. Such an @rc is an echo of the failure and does
 * not hide it.
 *
 * Example:
 *     int work(void *part);
 *
 *     int work_on_all(int *parts, size_t count)
 *     {
 *         int rc = 0;
 *         KIN_NURSERY(n);
 *         for (size_t i = 0; i < count && rc == 0; i++)
 *             rc = kin_spawn(&n, work, &parts[i]);
 *         return kin_nursery_end(&n, rc);
 *     }
 *
 * From:    task, the owner
 * Parks:   yes
 * Cancel:  does not end the wait: no child outlives its nursery
 * Returns: the first child's failure if there is one; else @rc if @rc < 0, unless @rc is
 *          KIN_CANCELLED, KIN_NOSCOPE or KIN_CLOSED and the join says why; else what
 *          kin_nursery_join returns
 * Spec:    [NSM-2] [NSM:4.4] [NSM:8.1]
 */
KIN_API KIN_MUST_USE int kin_nursery_end(struct kin_nursery *n, int rc);

/**
 * kin_nursery_join_until - a join that cancels at a deadline: for drains that have an end.
 * @n:        a nursery that the running task opened.
 * @deadline: when to cancel what is left; 0: at once.
 * @out:      receives how it went; may be NULL.
 *
 * The children go on until the deadline, and admission is as during any join. A deadline of the
 * nursery, or one that was pushed, counts too: whichever is the earliest.
 *
 * Example:
 *     int drain(struct kin_nursery *connections)
 *     {
 *         kin_nursery_close(connections);
 *         return kin_nursery_join_until(connections, kin_after(KIN_SEC(10)), NULL);
 *     }
 *
 * From:    task, the owner
 * Parks:   yes
 * Cancel:  does not end the wait: no child outlives its nursery
 * Returns: as kin_nursery_join; KIN_TIMEOUT when it had to cancel and no child failed
 * Spec:    [NSM-2] [NSM:5.1] [N2001]
 */
KIN_API KIN_MUST_USE int kin_nursery_join_until(struct kin_nursery *n, kin_time deadline,
                                                struct kin_outcome *out);

/**
 * kin_nursery_poll - how it went, if it is over.
 * @n:   a nursery.
 * @out: receives how it went; may be NULL.
 *
 * Example:
 *     int is_over(struct kin_nursery *n)
 *     {
 *         struct kin_outcome how;
 *         return kin_nursery_poll(n, &how) != KIN_EMPTY;
 *     }
 *
 * From:    task, the owner
 * Parks:   no, but others may run
 * Budget:  a step of the turn
 * Returns: KIN_EMPTY while a child lives or may come, else as kin_nursery_join would, again and
 *          again; -EPERM for anybody but the owner
 * Spec:    [NSM:5.2] [SCHED:15.2.2]
 */
KIN_API int kin_nursery_poll(struct kin_nursery *n, struct kin_outcome *out);

/**
 * kin_nursery_state - which of the five states it is in.
 * @n: a nursery.
 *
 * Whoever is not the owner sees to it that the join cannot return meanwhile: n is the owner's.
 *
 * Example:
 *     int is_stopping(const struct kin_nursery *n)
 *     {
 *         enum kin_nursery_state state = kin_nursery_state(n);
 *         return state == KIN_NURSERY_CANCELLING || state == KIN_NURSERY_CANCELLED;
 *     }
 *
 * From:    anywhere
 * Budget:  a step of the turn
 * Returns: the state; another thread may have changed it by the time it is read. KIN_NURSERY_CLOSED
 *          for NULL, and for one that was never opened
 * Spec:    [NSM:2.2]
 */
KIN_API enum kin_nursery_state kin_nursery_state(const struct kin_nursery *n);

/**
 * kin_nursery_errors - the failures that were kept, in order of time.
 * @n:   a nursery; before the join there may be more in a moment.
 * @buf: receives at most cap of them; NULL: they are only counted.
 * @cap: its length.
 *
 * Example:
 *     void complain(struct kin_nursery *n)
 *     {
 *         struct kin_outcome how[16];
 *         size_t kept = kin_nursery_errors(n, how, 16);
 *         for (size_t i = 0; i < kept && i < 16; i++)
 *             fprintf(stderr, "task %llu: %s\n", (unsigned long long)how[i].task,
 *                     kin_status_text(how[i].status));
 *         if (kin_nursery_errors_dropped(n))
 *             fprintf(stderr, "and %zu more\n", kin_nursery_errors_dropped(n));
 *     }
 *
 * From:    task, the owner
 * Budget:  a step of the turn
 * Returns: how many are kept; valid until n is opened again; 0 for anybody but the owner
 * Spec:    [NSM-5] [SCHED:15.2.2]
 */
KIN_API size_t kin_nursery_errors(struct kin_nursery *n, struct kin_outcome *buf, size_t cap);

/**
 * kin_nursery_errors_dropped - failures beyond errors_max.
 * @n: a nursery.
 *
 * Example:
 *     size_t failures(struct kin_nursery *n)
 *     {
 *         return kin_nursery_errors(n, NULL, 0) + kin_nursery_errors_dropped(n);
 *     }
 *
 * From:    task, the owner
 * Budget:  a step of the turn
 * Returns: how many were counted and not kept; 0 for anybody but the owner
 */
KIN_API size_t kin_nursery_errors_dropped(const struct kin_nursery *n);

/**
 * kin_task_join - wait until one child is over.
 * @n:        a nursery that the running task opened.
 * @task:     a child of it, as kin_spawn_with named it.
 * @out:      receives how it ended; may be NULL.
 * @deadline: KIN_NEVER to wait without end, 0 to only look.
 *
 * The nursery stays open and is joined all the same. The end of a child that was spawned without a
 * name can be waited for, but not be asked for afterwards: that is KIN_STALE.
 *
 * Example:
 *     int measure(void *arg);
 *
 *     int measure_once(void *arg)
 *     {
 *         struct kin_task_ref task;
 *         struct kin_outcome how;
 *         KIN_NURSERY(n);
 *         int rc = kin_spawn_with(&n, NULL, measure, arg, 0, &task);
 *         if (rc == 0)
 *             rc = kin_task_join(&n, task, &how, kin_after(KIN_SEC(1)));
 *         rc = kin_nursery_end(&n, rc);
 *         return rc < 0 ? rc : how.value;
 *     }
 *
 * From:    task, the owner of n
 * Parks:   yes
 * Cancel:  reports it
 * Budget:  1 op
 * Returns: 0 once the child is over, -EPERM for others than the owner, KIN_TIMEOUT, KIN_CANCELLED,
 *          KIN_STALE for a name that is over or of a released nursery, -EINVAL, KIN_NOTASK
 * Spec:    [SCHED:15.2.2]
 */
KIN_API KIN_MUST_USE int kin_task_join(struct kin_nursery *n, struct kin_task_ref task,
                                       struct kin_outcome *out, kin_time deadline);

/**
 * kin_nursery_alloc - memory that lives until the join.
 * @n:    a nursery that is not terminal.
 * @size: bytes.
 *
 * Example:
 *     #include <errno.h>
 *
 *     int work(void *job);
 *
 *     int start_job(struct kin_nursery *n, int number)
 *     {
 *         int *job = kin_nursery_alloc(n, sizeof *job);
 *         if (!job)
 *             return -ENOMEM;
 *         *job = number;
 *         return kin_spawn(n, work, job);
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Budget:  1 op, @size of memory, until the nursery is over
 * Returns: zeroed memory, aligned to 16; NULL when there is none, when n is terminal, or when the
 *          budget for it is used up
 */
KIN_API void *kin_nursery_alloc(struct kin_nursery *n, size_t size);

/* The net under KIN_NURSERY: cancels and joins a nursery that was not joined. */
KIN_API void kin_nursery_leave_(struct kin_nursery *n);

/* KIN_NURSERY(n); or KIN_NURSERY(n, .name = "fetchers"); declares a nursery and opens it. Leaving
 * the C scope before the join cancels and joins; a failure of a child is reported then, and if it
 * was there before it is what the task ends with, unless that returns a failure of its own. If the
 * open failed, spawn answers
 * KIN_NOSCOPE, join and end the reason. */
#ifndef __cplusplus
#define KIN_NURSERY(...)                                                                           \
    KIN_NURSERY_PICK_(__VA_ARGS__, KIN_NURSERY_OF_, KIN_NURSERY_OF_, KIN_NURSERY_OF_,              \
                      KIN_NURSERY_OF_, KIN_NURSERY_OF_, KIN_NURSERY_OF_, KIN_NURSERY_OF_,          \
                      KIN_NURSERY_OF_, KIN_NURSERY_OF_, KIN_NURSERY_OF_, KIN_NURSERY_OF_,          \
                      KIN_NURSERY_OF_, KIN_NURSERY_OF_, KIN_NURSERY_OF_, KIN_NURSERY_OF_,          \
                      KIN_NURSERY_PLAIN_, 0)(__VA_ARGS__)
#define KIN_NURSERY_PICK_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16,   \
                          pick_, ...) pick_
#define KIN_NURSERY_PLAIN_(name_)                                                                  \
    KIN_CLEANUP(kin_nursery_leave_) struct kin_nursery name_;                                      \
    kin_ignore(kin_nursery_open(&name_, 0))
#define KIN_NURSERY_OF_(name_, ...)                                                                \
    KIN_CLEANUP(kin_nursery_leave_) struct kin_nursery name_;                                      \
    kin_ignore(kin_nursery_open(&name_, &(const struct kin_nursery_options){                       \
                                            .size = sizeof(struct kin_nursery_options),            \
                                            __VA_ARGS__ }))
#define KIN_ARGS(T, ...) (&(T){ __VA_ARGS__ }), sizeof(T)
/* KIN_SPAWN(&n, fn, arg, .name = "reader", .priority = KIN_PRIORITY_LOW): as kin_spawn. */
#define KIN_SPAWN(...) KIN_SPAWN_OF_(__VA_ARGS__, .size = sizeof(struct kin_spawn_options))
#define KIN_SPAWN_OF_(n_, fn_, arg_, ...)                                                          \
    kin_spawn_with(n_, &(const struct kin_spawn_options){ __VA_ARGS__ }, fn_, arg_, 0, 0)
#else
#define KIN_NURSERY(name_)                                                                         \
    KIN_CLEANUP(kin_nursery_leave_) struct kin_nursery name_;                                      \
    kin_ignore(kin_nursery_open(&name_, 0))
#endif

KIN_END_DECLS

#endif
