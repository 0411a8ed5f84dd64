/* SPDX-License-Identifier: MIT */
/*
 * The exports that compilers of SPEC-021 link against, and the entry points of its five opcodes.
 *
 * A program needs nothing but this header. It creates a scheduler, opens a nursery, spawns into it
 * and ends it, which waits for every task:
 *
 *     SchedulerConfig config = {0};
 *     void *scheduler = janus_scheduler_create(config);
 *     void *nursery = janus_nursery_begin();
 *     janus_scheduler_spawn((void *)work, &data);
 *     int rc = janus_nursery_end(nursery);
 *     janus_scheduler_shutdown(scheduler);
 *
 * No call but the shutdown names a scheduler. A task uses the one it runs on, whoever started that,
 * kin_run included. A thread uses the one that it created last and that is not shut down; it opens
 * nurseries, spawns, joins and asks for budgets as a task of that scheduler would, and blocks where
 * a task would wait. Every task and every such thread has a stack of nurseries of its own; what is
 * spawned goes into the innermost. To any other thread there is no scheduler and no nursery.
 *
 * A nursery of this header cancels the siblings of a task that fails, as every nursery does. A task
 * whose budget is used up is recharged from the pool it draws from. When that is empty too,
 * janus_rt_budget_check waits until somebody recharges it, or until the owner of its nursery waits
 * for the nursery or for one of its tasks: then the task ends with KIN_BUDGET, since nobody would
 * recharge it. Every other operation fails with KIN_BUDGET. A task may recharge itself, over its
 * whole life by as much as default_budget.
 *
 * Statuses are those of <kin/status.h>, but for janus_nursery_end, which has four of its own.
 */
#ifndef KIN_JANUS_H
#define KIN_JANUS_H

#include <kin/base.h>
#include <kin/status.h>

#include <stddef.h>
#include <stdint.h>

KIN_BEGIN_DECLS

/* What a task or a pool may use. The components saturate: the largest number of a type means "at
 * least so many" where it comes out, and no limit where it goes in [C1]. */
typedef struct {
    uint32_t ops;
    size_t memory;
    uint16_t spawn_count, channel_ops, syscalls;
} Budget;

typedef struct {
    uint32_t worker_count;       /* 0: the CPUs this process may use */
    uint64_t deterministic_seed; /* equal seeds, equal decisions */
    Budget default_budget;       /* what the tasks may use in all; all zero: no limit */
} SchedulerConfig;

/* What janus_nursery_end answers beside the statuses of tasks. */
enum {
    JANUS_OK = 0,
    JANUS_CANCELLED = -1,
    JANUS_PANICKED = -2,
    JANUS_BUDGET = -3
};

/**
 * janus_scheduler_create - start a scheduler on threads of its own.
 * @config: how many workers, the seed, the budget.
 *
 * The calling thread may use it at once; its signals are not touched. It stays until the shutdown,
 * also when this thread ends.
 *
 * Example:
 *     #include <kin/janus.h>
 *
 *     int run(void *work, void *data)
 *     {
 *         SchedulerConfig config = {2, 42, {0, 0, 0, 0, 0}};
 *         void *scheduler = janus_scheduler_create(config);
 *         if (!scheduler)
 *             return -1;
 *         void *nursery = janus_nursery_begin();
 *         int rc = janus_scheduler_spawn(work, data);
 *         int ended = janus_nursery_end(nursery);
 *         janus_scheduler_shutdown(scheduler);
 *         return rc < 0 ? rc : ended;
 *     }
 *
 * From:    thread
 * Returns: the scheduler; NULL when there is no memory or no thread for it, for too many workers,
 *          and inside a task
 * Spec:    [SCHED:12.1.1] [SCHED:9.3.1]
 */
KIN_API KIN_MUST_USE void *janus_scheduler_create(SchedulerConfig config);

/**
 * janus_scheduler_shutdown - wait until everything is over, and free the scheduler.
 * @scheduler: what janus_scheduler_create returned; NULL, or one that is shut down, is left alone.
 *
 * Nurseries that its creator has not ended are joined: nothing is cancelled. A call of the creator
 * that is under way in another thread comes to its end first. Inside a task it aborts, naming the
 * task: the worker that runs it could never end.
 *
 * Example:
 *     #include <kin/janus.h>
 *
 *     int start_and_stop(void)
 *     {
 *         void *scheduler = janus_scheduler_create((SchedulerConfig){1, 0, {0, 0, 0, 0, 0}});
 *         if (!scheduler)
 *             return -1;
 *         janus_scheduler_shutdown(scheduler);
 *         return 0;
 *     }
 *
 * From:    thread, the creator or another
 * Returns: nothing
 * Spec:    [SCHED:12.1.1]
 */
KIN_API void janus_scheduler_shutdown(void *scheduler);

/**
 * janus_scheduler_spawn - start func(arg) as a child of the caller's innermost nursery.
 * @func: int (*)(void *); a result below 0 is a failure.
 * @arg:  handed to func; must live until the nursery ends.
 *
 * Example:
 *     #include <kin/janus.h>
 *
 *     int body(void *arg);
 *
 *     int spawn_two(void *left, void *right)
 *     {
 *         int rc = janus_scheduler_spawn((void *)(uintptr_t)body, left);
 *         return rc < 0 ? rc : janus_scheduler_spawn((void *)(uintptr_t)body, right);
 *     }
 *
 * From:    task, or the creator of a scheduler
 * Parks:   no
 * Needs:   KIN_CAP_SPAWN
 * Budget:  1 op, 1 spawn of the nursery's pool
 * Returns: 0, KIN_NOSCOPE when the caller has no nursery open or it is being cancelled, KIN_BUDGET,
 *          KIN_NOCAP, -ENOMEM, -EINVAL for NULL
 * Spec:    [SCHED:12.1.1] [SCHED:8.1.2] [N1001]
 */
KIN_API int janus_scheduler_spawn(void *func, void *arg);

/**
 * janus_scheduler_yield - let the other tasks run.
 *
 * Example:
 *     #include <kin/janus.h>
 *
 *     int polite(void *arg)
 *     {
 *         int *rounds = arg;
 *         while (*rounds > 0) {
 *             int rc = janus_scheduler_yield();
 *             if (rc < 0)
 *                 return rc;
 *             --*rounds;
 *         }
 *         return 0;
 *     }
 *
 * From:    task
 * Parks:   no, but others run
 * Cancel:  reports it
 * Returns: 0, KIN_CANCELLED, KIN_NOTASK
 * Spec:    [SCHED:12.1.1] [SCHED:4.2.1]
 */
KIN_API int janus_scheduler_yield(void);

/**
 * janus_budget_get_current - what the caller may still use.
 *
 * Of a task, what kin_budget_left says; of the creator of a scheduler, what the pool of its
 * innermost nursery has, or that of the scheduler.
 *
 * Example:
 *     #include <kin/janus.h>
 *
 *     int is_low(void)
 *     {
 *         return janus_budget_get_current().ops < 100;
 *     }
 *
 * From:    anywhere
 * Parks:   no; a creator may block for a moment
 * Returns: the budget, saturated; all zero where there is no scheduler
 * Spec:    [SCHED:12.1.1] [SCHED:3.1.1] [C1]
 */
KIN_API Budget janus_budget_get_current(void);

/**
 * janus_budget_recharge - give the caller more.
 * @amount: how much; the largest number of a type takes the limit away.
 *
 * A task recharges itself, within the limit it was spawned with: none for tasks of this header. The
 * creator of a scheduler recharges the pool that its innermost nursery draws from, or that of the
 * scheduler, without a limit.
 *
 * Example:
 *     #include <kin/janus.h>
 *
 *     int give_a_thousand(void)
 *     {
 *         Budget amount = {.ops = 1000};
 *         return janus_budget_recharge(amount);
 *     }
 *
 * From:    task, or the creator of a scheduler
 * Parks:   no; a creator may block for a moment
 * Needs:   KIN_CAP_BUDGET
 * Returns: 0, KIN_BUDGET beyond the limit, KIN_NOCAP, KIN_NOTASK
 * Spec:    [SCHED:12.1.1] [SCHED:3.2.3]
 */
KIN_API int janus_budget_recharge(Budget amount);

/**
 * janus_nursery_begin - open a nursery; it is the caller's innermost one from here on.
 *
 * Example:
 *     #include <kin/janus.h>
 *
 *     int in_a_nursery(void *func, void *arg)
 *     {
 *         void *nursery = janus_nursery_begin();
 *         if (!nursery)
 *             return -1;
 *         int rc = janus_scheduler_spawn(func, arg), ended = janus_nursery_end(nursery);
 *         return rc < 0 ? rc : ended;
 *     }
 *
 * From:    task, or the creator of a scheduler
 * Parks:   no; a creator may block for a moment
 * Needs:   KIN_CAP_SPAWN
 * Budget:  a step of the turn, memory for more open nurseries than 16
 * Returns: the nursery, which only its owner can end; NULL when there is no scheduler or no memory,
 *          or the task lacks KIN_CAP_SPAWN
 * Spec:    [SCHED:8.1.1] [C11]
 */
KIN_API KIN_MUST_USE void *janus_nursery_begin(void);

/**
 * janus_nursery_end - wait until every task of a nursery is over, and close it.
 * @nursery: the caller's innermost one.
 *
 * Example:
 *     #include <kin/janus.h>
 *
 *     const char *how_it_went(void *nursery)
 *     {
 *         switch (janus_nursery_end(nursery)) {
 *         case 0:
 *             return "well";
 *         case -1:
 *             return "cancelled";
 *         case -2:
 *             return "panicked";
 *         case -3:
 *             return "out of budget";
 *         default:
 *             return "failed";
 *         }
 *     }
 *
 * From:    task, or the creator of a scheduler; who began it
 * Parks:   yes; a creator blocks
 * Cancel:  does not end the wait: no task outlives its nursery
 * Returns: 0; JANUS_CANCELLED when it was cancelled; JANUS_PANICKED when a task panicked;
 *          JANUS_BUDGET when one failed for want of budget; otherwise the first failure of a task,
 *          where -1, -2 and -3 have become -EIO. For misuse -EINVAL for NULL, -EBUSY when an inner
 *          one is still open, KIN_STALE for one that has ended or is not the caller's, KIN_NOTASK
 *          where there is no scheduler
 * Spec:    [SCHED:8.1.3] [NSM-2] [NSM-4]
 */
KIN_API int janus_nursery_end(void *nursery);

/**
 * janus_rt_budget_check - the opcode Budget_Check: one operation, and a turn for others if need be.
 *
 * A task that is cancelled, or whose budget is used up and cannot be recharged, ends here as by
 * kin_fail, with KIN_CANCELLED or KIN_BUDGET: C frames in between are left without running. A
 * nursery of its own that is being cancelled does not end it; janus_nursery_end will tell.
 *
 * Example:
 *     #include <kin/janus.h>
 *
 *     int compiled_loop(void *arg)
 *     {
 *         for (int i = 0; i < *(int *)arg; i++) {
 *             janus_rt_budget_decrement(1);
 *             janus_rt_budget_check();
 *         }
 *         return 0;
 *     }
 *
 * From:    task; elsewhere it does nothing
 * Parks:   no, but others may run
 * Cancel:  ends the task
 * Budget:  1 op
 * Returns: nothing, or not at all
 * Spec:    [SCHED:11.1.1] [SCHED:4.1.2] [SCHED:3.2.1] [C13]
 */
KIN_API void janus_rt_budget_check(void);

/**
 * janus_rt_budget_decrement - the opcode Budget_Decrement: take operations off the budget.
 * @cost: how many; more than there are leaves none.
 *
 * Nothing else happens: it is the next check that finds the budget used up.
 *
 * Example:
 *     #include <kin/janus.h>
 *
 *     void block_of_instructions(void)
 *     {
 *         janus_rt_budget_decrement(12);
 *         janus_rt_budget_check();
 *     }
 *
 * From:    task; elsewhere it does nothing
 * Parks:   no
 * Budget:  1 op
 * Returns: nothing
 * Spec:    [SCHED:11.1.1] [C13]
 */
KIN_API void janus_rt_budget_decrement(uint32_t cost);

/**
 * janus_rt_yield - the opcode Yield: let the other tasks run; costs no budget.
 *
 * Example:
 *     #include <kin/janus.h>
 *
 *     int spin_politely(void *arg)
 *     {
 *         _Atomic int *flag = arg;
 *         while (!*flag)
 *             janus_rt_yield();
 *         return 0;
 *     }
 *
 * From:    task; elsewhere it does nothing
 * Parks:   no, but others run
 * Cancel:  ends the task, as janus_rt_budget_check does
 * Returns: nothing, or not at all
 * Spec:    [SCHED:11.1.1] [SCHED:4.2.2] [C13]
 */
KIN_API void janus_rt_yield(void);

/**
 * janus_rt_task_create - the opcode Task_Create: a child of the innermost nursery with a budget.
 * @func:   int (*)(void *); a result below 0 is a failure.
 * @arg:    handed to func; must live until the nursery ends.
 * @budget: drawn from the pool, all of it or the call fails; all zero: the default.
 *
 * Example:
 *     #include <kin/janus.h>
 *
 *     int body(void *arg);
 *
 *     int64_t run_one(void *arg)
 *     {
 *         Budget budget = {.ops = 1000, .memory = 4096};
 *         uint64_t task = janus_rt_task_create((void *)(uintptr_t)body, arg, budget);
 *         return task ? janus_rt_task_join(task) : -1;
 *     }
 *
 * From:    task, or the creator of a scheduler
 * Parks:   no
 * Needs:   KIN_CAP_SPAWN
 * Budget:  1 op, 1 spawn of the nursery's pool
 * Returns: the task, for janus_rt_task_join; 0 when janus_scheduler_spawn would have failed
 * Spec:    [SCHED:11.1.1] [SCHED:8.2.1] [C13]
 */
KIN_API uint64_t janus_rt_task_create(void *func, void *arg, Budget budget);

/**
 * janus_rt_task_join - the opcode Task_Join: wait until a task is over.
 * @task: what janus_rt_task_create returned.
 *
 * It may be joined again until its nursery ends.
 *
 * Example:
 *     #include <kin/janus.h>
 *
 *     int64_t join_both(uint64_t first, uint64_t second)
 *     {
 *         int64_t one = janus_rt_task_join(first), two = janus_rt_task_join(second);
 *         return one < 0 ? one : two;
 *     }
 *
 * From:    task, or the creator of a scheduler; the owner of its nursery
 * Parks:   yes; a creator blocks
 * Cancel:  does not end the wait: the task is cancelled with its nursery
 * Returns: what func returned, or the status the task failed with: KIN_CANCELLED, KIN_PANICKED,
 *          KIN_BUDGET; -EINVAL for 0, KIN_STALE when its nursery has ended, -EPERM when that is not
 *          the caller's, KIN_NOTASK where there is no scheduler
 * Spec:    [SCHED:11.1.1] [SCHED:15.2.2] [C13]
 */
KIN_API int64_t janus_rt_task_join(uint64_t task);

KIN_END_DECLS

#endif
