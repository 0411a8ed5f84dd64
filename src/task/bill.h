/* SPDX-License-Identifier: MIT */
/*
 * Bills: who paid for the memory of something that lives on its own, such as a channel.
 *
 * What a metered task makes is charged to its budget, and whoever gives it up at last, in another
 * task or long after the runtime, gives the budget back: see struct kin__payer. The bill lies in
 * what it is for.
 */
#ifndef KIN_TASK_BILL_H
#define KIN_TASK_BILL_H

#include "base/assert.h"
#include "plat/plat.h"
#include "task/account.h"
#include "task/task.h"

#include <stddef.h>

struct kin__bill {
    struct kin__payer *payer; /* NULL: nobody paid */
    size_t bytes;
};

/* The rare half: calls owner_ops.bill of the task's runtime. Defined in sched/sched.c. */
int kin__bill_take_slow(struct kin__bill *bill, struct kin__task *task);

/* Who pays for what the running task makes; for what a plain thread makes, task NULL, the task that
 * the thread works for (kin_blocking): that task waits meanwhile, so that its account is the
 * thread's to use. NULL: nobody pays. */
static inline struct kin__task *kin__bill_client(struct kin__task *task)
{
    return KIN__LIKELY(task != NULL) ? task : kin__thread_client();
}

/* Charges bytes to a running task, NULL: to the task that the thread works for. 0, KIN_BUDGET or,
 * if there is no memory to note it, -ENOMEM. */
static inline int kin__bill_take(struct kin__bill *bill, struct kin__task *task, size_t bytes)
{
    *bill = (struct kin__bill){NULL, bytes};
    task = kin__bill_client(task);
    if (KIN__LIKELY(!task || !(task->flags & KIN__TASK_METERED)))
        return 0;
    return kin__bill_take_slow(bill, task);
}

/* What the bill is for is gone: whoever paid has the bytes again. The bill may be gone, too: it is
 * a copy. */
static inline void kin__bill_give(struct kin__bill bill)
{
    if (KIN__UNLIKELY(bill.payer != NULL))
        bill.payer->refund(bill.payer, bill.bytes);
}

#endif
