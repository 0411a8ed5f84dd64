/* SPDX-License-Identifier: MIT */
/*
 * Budgets and capabilities: what a task may use, and what it may do.
 *
 * A nursery has a pool, a child draws its budget from the pool when it is spawned, and what is left
 * returns when it ends. What has no limit costs nothing: the tasks of a runtime in the default
 * profile are unlimited until somebody sets a limit, in the config, a nursery or a spawn.
 *
 *     config.budget --> root pool --> first task --> pool of its nursery --> child --> ...
 *
 * A nursery without a budget of its own shares what bounds its owner: the owner's own budget if it
 * was given one, else the pool that the owner lives off. So nobody gets around a limit by spawning.
 *
 * An operation that needs a component that is used up stops, and only that operation does. Where
 * the nursery recharges by itself (KIN_RECHARGE_AUTO, the default profile) the task gets more from
 * the pool and goes behind the others; otherwise, or when the pool is empty, it waits until
 * somebody recharges it, until it is cancelled, or until the deadline of the call. A wait that
 * nobody can end any more is reported with the other deadlocks.
 *
 * Capabilities stop mistakes and confine code that goes through kin. They are no sandbox: machine
 * code in the same process can do what it likes.
 */
#ifndef KIN_BUDGET_H
#define KIN_BUDGET_H

#include <kin/base.h>
#include <kin/status.h>

#include <stddef.h>
#include <stdint.h>

KIN_BEGIN_DECLS

struct kin_nursery;  /* nursery.h */
struct kin_task_ref; /* task.h */

/* What a task, or the pool of a nursery, may still use. In options all zero means the default; in
 * any other budget a component of 0 is none. A component of all ones has no limit. */
struct kin_budget {
    uint64_t ops;         /* operations: checkpoints, spawns, allocations, channels, I/O */
    uint64_t memory;      /* bytes: kin_alloc, copies of arguments, channels, servers, casts */
    uint32_t spawns;      /* children */
    uint32_t channel_ops; /* sends and receives */
    uint32_t syscalls;    /* I/O operations */
};

/* No limit, as a value: .budget = KIN_UNLIMITED_BUDGET, or an argument. */
#ifdef __cplusplus
#define KIN_UNLIMITED_BUDGET                                                                       \
    (kin_budget{UINT64_MAX, UINT64_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX})
#else
#define KIN_UNLIMITED_BUDGET                                                                       \
    ((struct kin_budget){UINT64_MAX, UINT64_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX})
#endif

/* What a child gets by default where budgets do not recharge by themselves, or less when the pool
 * has less; and no spawns [SCHED:8.2.1]. In a nursery without a pool of its own, whose children
 * live on what the owner has, it is at most half of that. */
#define KIN_DEFAULT_OPS UINT64_C(1000000)
#define KIN_DEFAULT_MEMORY (UINT64_C(1) << 20)
#define KIN_DEFAULT_CHANNEL_OPS UINT32_C(10000)
#define KIN_DEFAULT_SYSCALLS UINT32_C(10000)

/* The components, by name. */
enum kin_budget_part {
    KIN_BUDGET_NONE = 0,
    KIN_BUDGET_OPS,
    KIN_BUDGET_MEMORY,
    KIN_BUDGET_SPAWNS,
    KIN_BUDGET_CHANNEL_OPS,
    KIN_BUDGET_SYSCALLS
};

/* What a task may do. A child never has more than the owner of its nursery, nor than whoever
 * spawned it. */
#define KIN_CAP_SPAWN 0x1u      /* open nurseries, spawn */
#define KIN_CAP_BUDGET 0x2u     /* recharge budgets out of nothing */
#define KIN_CAP_CHANNEL 0x4u    /* create channels, send, receive, select on them */
#define KIN_CAP_TIME 0x8u       /* sleep, timers, tickers */
#define KIN_CAP_NET 0x10u       /* sockets and host names */
#define KIN_CAP_FILE 0x20u      /* files */
#define KIN_CAP_PROCESS 0x40u   /* processes and signals */
#define KIN_CAP_REGISTRY 0x80u  /* register and unregister names */
#define KIN_CAP_BLOCKING 0x100u /* calls that block a thread */
#define KIN_CAP_RANDOM 0x200u   /* kin_random */
#define KIN_CAP_ALL 0x3ffu
#define KIN_CAP_NONE 0x80000000u /* in options: none at all, where 0 would mean the default */

/**
 * kin_caps - what the running task may do.
 *
 * Example:
 *     int may_connect(void)
 *     {
 *         return (kin_caps() & KIN_CAP_NET) != 0;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: a set of KIN_CAP_ bits; 0 outside a task
 * Spec:    [SCHED:10.2.2] [SCHED:10.2.4]
 */
KIN_API uint32_t kin_caps(void);

/**
 * kin_budget_left - what the running task may still use.
 *
 * A task that was given no budget of its own and lives off the pool of its nursery sees what it and
 * that pool have together.
 *
 * Example:
 *     int is_low(void)
 *     {
 *         return kin_budget_left().ops < 1000;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: a component of all ones has no limit; all zero outside a task
 * Spec:    [SCHED:3.1.1] [SCHED:3.1.2]
 */
KIN_API struct kin_budget kin_budget_left(void);

/**
 * kin_nursery_budget_left - what the pool has that the children of a nursery draw from.
 * @n: a nursery.
 *
 * Example:
 *     int may_start_another(const struct kin_nursery *n)
 *     {
 *         struct kin_budget left = kin_nursery_budget_left(n);
 *         return left.spawns > 0 && left.memory >= 65536;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: a component of all ones has no limit; all zero for NULL or a nursery that is not open
 */
KIN_API struct kin_budget kin_nursery_budget_left(const struct kin_nursery *n);

/**
 * kin_budget_exhausted - which component the last KIN_BUDGET of the running task was about.
 *
 * Example:
 *     void complain(int rc)
 *     {
 *         if (rc == KIN_BUDGET && kin_budget_exhausted() == KIN_BUDGET_SPAWNS)
 *             fprintf(stderr, "no more children\n");
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: KIN_BUDGET_NONE as long as there was none, and outside a task
 * Spec:    [SCHED:14.1.1]
 */
KIN_API enum kin_budget_part kin_budget_exhausted(void);

/**
 * kin_budget_recharge - give another task more.
 * @task:   whom.
 * @amount: how much; all ones in a component takes its limit away.
 *
 * The pool of its nursery pays. What the pool lacks is made by a caller that holds KIN_CAP_BUDGET;
 * anybody else is refused, and nothing has changed. A caller that was given a budget itself gives
 * no more than its recharge_limit in all, to others as to itself, unless it is the owner and the
 * pool pays. If the task waits for a recharge, it goes on.
 * With the running task as the argument it is kin_budget_recharge_self.
 *
 * Example:
 *     int reward(struct kin_task_ref worker)
 *     {
 *         return kin_budget_recharge(worker, (struct kin_budget){.ops = 1000000});
 *     }
 *
 * From:    task: the owner of its nursery, or one that holds KIN_CAP_BUDGET
 * Parks:   no
 * Needs:   KIN_CAP_BUDGET
 * Returns: 0, KIN_NOCAP for all others, KIN_BUDGET when the pool has too little, KIN_STALE when the
 *          task is over, KIN_NOTASK
 * Spec:    [SCHED:3.2.3]
 */
KIN_API KIN_MUST_USE int kin_budget_recharge(struct kin_task_ref task, struct kin_budget amount);

/**
 * kin_budget_recharge_self - give oneself more, within recharge_limit.
 * @amount: how much.
 *
 * The limit of the spawn options counts over the whole life of the task. A component that has no
 * limit needs nothing and counts for nothing. A refused call changes nothing.
 *
 * Example:
 *     int go_on(void)
 *     {
 *         if (kin_budget_left().ops > 1000)
 *             return 0;
 *         return kin_budget_recharge_self((struct kin_budget){.ops = 100000});
 *     }
 *
 * From:    task that holds KIN_CAP_BUDGET
 * Parks:   no
 * Needs:   KIN_CAP_BUDGET
 * Returns: 0, KIN_NOCAP, KIN_BUDGET beyond the limit, KIN_NOTASK
 * Spec:    [SCHED:3.2.3]
 */
KIN_API KIN_MUST_USE int kin_budget_recharge_self(struct kin_budget amount);

/**
 * kin_nursery_recharge - give the pool of a nursery more.
 * @n:      a nursery that is open.
 * @amount: how much; all ones in a component takes its limit away.
 *
 * A caller that holds KIN_CAP_BUDGET makes it, within its recharge_limit if it was given a budget,
 * or if the pool is one that it lives off itself; the owner who may not pays from its own. What
 * was made ends with the nursery, what was paid returns to the owner as far as it is left. A
 * nursery without a pool of its own shares what bounds its owner, which gets it then. Children that
 * wait for a recharge and whom the nursery recharges by itself go on.
 *
 * Example:
 *     int refill_every_second(void *arg)
 *     {
 *         struct kin_nursery *n = arg;
 *         int rc;
 *         do {
 *             rc = kin_sleep(kin_after(KIN_SEC(1)));
 *             if (rc == 0)
 *                 rc = kin_nursery_recharge(n, (struct kin_budget){.ops = 50000});
 *         } while (rc == 0);
 *         return rc;
 *     }
 *
 * From:    task: the owner, or one that holds KIN_CAP_BUDGET
 * Parks:   no
 * Needs:   KIN_CAP_BUDGET
 * Returns: 0, KIN_NOCAP for all others, KIN_BUDGET when the owner has too little, KIN_STALE when it
 *          is not open, -EINVAL, KIN_NOTASK, KIN_UNSUPPORTED in the core profile
 * Spec:    [SCHED:3.2.3]
 */
KIN_API KIN_MUST_USE int kin_nursery_recharge(struct kin_nursery *n, struct kin_budget amount);

/**
 * kin_alloc - memory that is charged to the running task.
 * @size: bytes.
 *
 * Costs size of the memory component and one op. A task without a limit pays with a few bytes in
 * front of the block. What is not freed yet when the task is over is used by whoever gave it the
 * budget: see kin_free.
 *
 * Example:
 *     int measure(size_t count)
 *     {
 *         long *samples = kin_alloc(count * sizeof(*samples));
 *         if (!samples)
 *             return KIN_BUDGET;
 *         samples[0] = 1;
 *         kin_free(samples);
 *         return 0;
 *     }
 *
 * From:    anywhere; outside a task nothing is charged, but on a thread of kin_blocking the memory
 *          is, to the task that waits for the thread
 * Parks:   no, but others may run
 * Budget:  1 op, @size of memory, 1 byte at least
 * Returns: zeroed memory, aligned to 16; NULL when there is none, or when the budget for it is used
 *          up: kin_budget_exhausted is KIN_BUDGET_MEMORY, or KIN_BUDGET_OPS
 * Spec:    [SCHED:3.3.1] [SCHED:4.1.1] [SCHED:14.1.1]
 */
KIN_API KIN_MUST_USE void *kin_alloc(size_t size);

/**
 * kin_free - give back what kin_alloc gave.
 * @memory: a block; NULL is left alone. Anything else, or the same block twice, aborts where it can
 *          be told.
 *
 * Whoever frees it, however late: the budget it was charged to has it again, that of the task that
 * took it or, when that is over, the pool of its nursery or, when that is over too, the owner's,
 * and so on. What was made by a recharge ended with the task it was made for, and does not return.
 *
 * Example:
 *     void *grow(void *old, size_t size, size_t more)
 *     {
 *         void *room = kin_alloc(size + more);
 *         if (!room)
 *             return NULL;
 *         memcpy(room, old, size);
 *         kin_free(old);
 *         return room;
 *     }
 *
 * From:    anywhere
 * Parks:   no
 * Returns: nothing
 */
KIN_API void kin_free(void *memory);

KIN_END_DECLS

#endif
