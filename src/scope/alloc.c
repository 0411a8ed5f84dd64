/* SPDX-License-Identifier: MIT */
/*
 * kin_alloc and kin_free: memory that is charged to a task.
 *
 * In front of each block stands who paid for it (task/account.h), so that whoever frees it gives
 * the budget back to the right one, however late:
 *
 *                           payer      size       seal       is charged   block
 *     charged               .          bytes      .          1            ...
 *     charged to nobody                           .          0            ...
 *
 * The seal is the block's own address, mixed with a constant and gone after the free, so that a
 * pointer that is none of ours and a second free are found as a rule.
 */
#include "plat/plat.h"
#include "sched/entry.h"
#include "scope/budget.h"
#include "scope/belongings.h"
#include "task/budget.h"

#include <errno.h>

/* In front of every block. */
struct head {
    uint64_t seal;
    uint64_t is_charged;
};

/* In front of a block that was charged. */
struct bill {
    struct kin__bill of;
    struct head head;
};

#define SEAL UINT64_C(0x6b696e206d656d6f)
#define SIZE_MOST ((size_t)PTRDIFF_MAX - sizeof(struct bill))

_Static_assert(sizeof(struct head) == 16 && sizeof(struct bill) == 32, "blocks stay aligned");

static uint64_t seal_of(const void *block)
{
    return (uint64_t)(uintptr_t)block ^ SEAL;
}

/* A block that nobody pays for. */
static void *alloc_free_of_charge(size_t size)
{
    struct head *head = kin__heap_alloc(sizeof(*head) + size);
    if (!head)
        return NULL;
    head->seal = seal_of(head + 1);
    head->is_charged = 0;
    return head + 1;
}

/* Takes size bytes off the phase that the task is in, if that has a limit: what is freed meanwhile
 * does not come back to it. False: it has less. */
static bool use_phase(struct kin__account *account, size_t size)
{
    uint64_t *left = account->phase ? &account->phase->of[KIN__PART_MEMORY] : NULL;
    if (!left || *left == KIN__UNLIMITED)
        return true;
    if (*left < size)
        return false;
    *left -= size;
    return true;
}

/* The account that pays. NULL: nobody has so much. */
static struct kin__account *charge(struct kin__task *task, size_t size)
{
    struct kin__account *account = &task->extra->account;
    struct kin__account *pool = account->is_pooled ? account->source.hard : NULL;
    if (KIN__UNLIKELY(!use_phase(account, size))) {
        (void)kin__budget_refuse(task, KIN_BUDGET_MEMORY);
        return NULL;
    }
    if (kin__account_use(account, KIN__PART_MEMORY, size))
        return account;
    if (pool && kin__account_use(pool, KIN__PART_MEMORY, size))
        return pool;
    if (account->phase && account->phase->of[KIN__PART_MEMORY] != KIN__UNLIMITED)
        account->phase->of[KIN__PART_MEMORY] += size;
    (void)kin__budget_refuse(task, KIN_BUDGET_MEMORY);
    return NULL;
}

int kin__budget_bill(struct kin__bill *bill, struct kin__task *task)
{
    struct kin__wakes nobody = {0}; /* waits for memory */
    struct kin__account *account = charge(task, bill->bytes);
    if (!account)
        return KIN_BUDGET;
    bill->payer = kin__account_payer(account);
    if (!bill->payer) {
        kin__account_unuse(account, KIN__PART_MEMORY, bill->bytes, &nobody);
        return -ENOMEM;
    }
    kin__payer_hold(bill->payer);
    return 0;
}

static void *alloc_charged(struct kin__task *task, size_t size, int *rc)
{
    struct kin__bill of = {NULL, size ? size : 1}; /* an empty block is memory, too */
    int charged = kin__budget_bill(&of, task);
    struct bill *bill = charged == 0 ? kin__heap_alloc(sizeof(*bill) + size) : NULL;
    if (!bill) {
        kin__bill_give(of);
        if (charged < 0)
            *rc = charged;
        return NULL;
    }
    bill->of = of;
    bill->head.seal = seal_of(bill + 1);
    bill->head.is_charged = 1;
    return bill + 1;
}

void *kin__alloc(struct kin__task *task, size_t size, int *rc)
{
    *rc = -ENOMEM;
    if (size > SIZE_MOST)
        return NULL;
    task = kin__bill_client(task);
    if (KIN__LIKELY(!task || !(task->flags & KIN__TASK_METERED)))
        return alloc_free_of_charge(size);
    return alloc_charged(task, size, rc);
}

void kin__free(void *memory)
{
    struct head *head = (struct head *)memory - 1;
    KIN__CHECK(head->seal == seal_of(memory), "SCHED:3.3.1: kin_free of what kin_alloc gave, once");
    head->seal = 0;
    if (!head->is_charged) {
        kin__heap_free(head);
        return;
    }
    struct bill *bill = (struct bill *)memory - 1;
    kin__bill_give(bill->of);
    kin__heap_free(bill);
}

/* ---- the public face ---- */

void *kin_alloc(size_t size)
{
    struct kin__task *task = kin__task_self();
    int rc;
    if (task) {
        kin__entry_check(task);
        if (kin__op(task, 0, 0) == KIN_BUDGET) /* a cancellation is no reason to refuse memory */
            return NULL;
    }
    return kin__alloc(task, size, &rc);
}

void kin_free(void *memory)
{
    if (!memory)
        return;
    kin__entry_check_gives();
    kin__free(memory);
}
