/* SPDX-License-Identifier: MIT */
/*
 * kin_alloc and kin_free: memory that is charged to a task.
 *
 * In front of each block stands to whom it was charged, so that whoever frees it gives the budget
 * back to the right one:
 *
 *                        scope      size       seal       task       block
 *     charged to a task  its name   bytes      .          its id     ...
 *     charged to a pool  its name   bytes      .          POOL       ...
 *     charged to nobody                        .          0          ...
 *
 * Names, not pointers: the task or the nursery may be over by then. The seal is the block's own
 * address, mixed with a constant and gone after the free, so that a pointer that is none of ours
 * and a second free are found as a rule.
 */
#include "plat/plat.h"
#include "sched/entry.h"
#include "scope/budget.h"
#include "scope/belongings.h"
#include "task/budget.h"

/* In front of every block. */
struct head {
    uint64_t seal;
    uint64_t task; /* 0: charged to nobody */
};

/* In front of a block that was charged. */
struct bill {
    uint64_t scope; /* name of the nursery */
    uint64_t size;
    struct head head;
};

#define SEAL UINT64_C(0x6b696e206d656d6f)
#define POOL (UINT64_C(1) << KIN__FRAME_INDEX_BITS) /* no task has this name: its index is 0 */
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
    head->task = 0;
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

/* The account that pays; *payer is what the head says. NULL: nobody has so much. */
static struct kin__account *charge(struct kin__task *task, size_t size, uint64_t *payer)
{
    struct kin__account *account = &task->extra->account;
    *payer = kin__task_id(task);
    if (KIN__UNLIKELY(!use_phase(account, size))) {
        (void)kin__budget_refuse(task, KIN_BUDGET_MEMORY);
        return NULL;
    }
    if (kin__account_use(account, KIN__PART_MEMORY, size))
        return account;
    *payer = POOL;
    struct kin__account *pool = account->is_pooled ? account->source.hard : NULL;
    if (pool && kin__account_use(pool, KIN__PART_MEMORY, size))
        return pool;
    (void)kin__budget_refuse(task, KIN_BUDGET_MEMORY);
    return NULL;
}

static void *alloc_charged(struct kin__task *task, size_t size)
{
    const struct kin__scope *scope = kin__load_relaxed(&task->scope); /* relaxed: constant */
    struct kin__wakes nobody = {0}; /* waits for memory */
    uint64_t payer;
    struct kin__account *account = charge(task, size, &payer);
    if (!account)
        return NULL;
    struct bill *bill = kin__heap_alloc(sizeof(*bill) + size);
    if (!bill) {
        kin__account_unuse(account, KIN__PART_MEMORY, size, &nobody);
        return NULL;
    }
    bill->scope = kin__load_relaxed(&scope->frame.name); /* relaxed: constant while it is open */
    bill->size = size;
    bill->head.seal = seal_of(bill + 1);
    bill->head.task = payer;
    return bill + 1;
}

/* The nursery of this name, locked; NULL: it is over. */
static struct kin__scope *lock_scope(uint64_t name)
{
    struct kin__frame *frame = kin__frame_at(KIN__FRAME_SCOPE, name);
    if (!frame)
        return NULL;
    struct kin__scope *scope = KIN__CONTAINER_OF(frame, struct kin__scope, frame);
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    /* relaxed: changes only when the scope is released, which takes the lock */
    if (kin__load_relaxed(&scope->frame.name) == name)
        return scope;
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return NULL;
}

/* Gives the budget back to the task that paid, or to the pool that it drew from. */
static void refund(const struct bill *bill)
{
    struct kin__wakes nobody = {0}; /* waits for memory */
    struct kin__account *account = NULL;
    struct kin__task *task = NULL;
    struct kin__scope *scope = NULL;
    if (bill->head.task != POOL)
        scope = kin__budget_lock_scope_of(bill->head.task, &task);
    if (!scope)
        scope = lock_scope(bill->scope);
    if (!scope)
        return; /* that nursery is over */
    if (task && (task->caps & KIN__CAPS_ACCOUNT))
        account = &task->extra->account;
    else
        account = kin__budget_bank(scope).hard;
    if (account)
        kin__account_unuse(account, KIN__PART_MEMORY, bill->size, &nobody);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
}

/* ---- the public face ---- */

void *kin_alloc(size_t size)
{
    struct kin__task *task = kin__task_self();
    if (size > SIZE_MOST)
        return NULL;
    if (!task)
        return alloc_free_of_charge(size);
    kin__entry_check(task);
    if (kin__op(task, 0, 0) == KIN_BUDGET) /* a cancellation is no reason to refuse memory */
        return NULL;
    if (KIN__LIKELY(!(task->flags & KIN__TASK_METERED)))
        return alloc_free_of_charge(size);
    return alloc_charged(task, size);
}

void kin_free(void *memory)
{
    if (!memory)
        return;
    kin__entry_check_self();
    struct head *head = (struct head *)memory - 1;
    KIN__CHECK(head->seal == seal_of(memory), "SCHED:3.3.1: kin_free of what kin_alloc gave, once");
    head->seal = 0;
    if (head->task == 0) {
        kin__heap_free(head);
        return;
    }
    struct bill *bill = (struct bill *)memory - 1;
    refund(bill);
    kin__heap_free(bill);
}
