/* SPDX-License-Identifier: MIT */
/*
 * Stack overflow: from a hit guard page to a panic of the task [C8] [SCHED:14.1.1].
 *
 *     guard hit -> handler, on the alternate stack -> is it the guard of the stack that this
 *     worker's task runs on? No: somebody else's fault, pass it on, after a report if a frame has
 *     jumped over the guard. In libc, or configured so:
 *     report, abort. Else continue on a spare stack, as the task: report, run its cleanups, cancel
 *     and join what it has open, escape.
 *
 * Cleanups and nurseries are seen to on a spare stack, because the dead frames below the escape
 * still hold what they point at. Code of the runtime itself never hits the guard with a lock held:
 * its entries probe first (entry.h).
 */
#include "scope/overflow.h"

#include "base/text.h"
#include "plat/plat.h"
#include "sched/tape.h"
#include "scope/scope.h"
#include "task/word.h"

#define BEYOND_MAX ((uintptr_t)64 << 20)

static void describe(struct kin__text *text, const struct kin__task *task, uintptr_t pc,
                     uintptr_t sp)
{
    const struct kin__stack *stack = task->stack;
    kin__text_str(text, "stack overflow in ");
    kin__task_say(text, task);
    kin__text_str(text, ", at ");
    kin__code_place(text, pc + 1); /* as if a call were there */
    kin__text_printf(text, ": %zu bytes deep of a maximum of %zu",
                     (size_t)((uintptr_t)stack->base - sp), kin__stack_class_bytes(stack->class_));
}

/* What is told about one. */
struct overflow {
    struct kin__task *task;
    struct kin__text text;
    char memory[512];
};

static int report(void *arg)
{
    struct overflow *overflow = arg;
    struct kin__task *task = overflow->task;
    kin__report(kin__task_sched(task), KIN_OVERFLOW, kin__task_id(task), overflow->memory);
    return 0;
}

/* The task goes on here, on its spare stack, for the last time. */
static void on_spare(void *arg)
{
    struct kin__task *task = arg;
    struct kin__stack *dead = task->stack;
    struct kin__stack *spare = kin__worker_self()->spare;
    struct overflow overflow = {.task = task};
    void *escape = task->escape;
    kin__context_move(&task->ctx, spare->low, spare->base);
    kin__text_init(&overflow.text, overflow.memory, sizeof(overflow.memory));
    describe(&overflow.text, task, kin__worker_self()->fault_pc, (uintptr_t)dead->low);
    task->spare = spare; /* in the place of what the text just named */
    task->flags |= KIN__TASK_SPARE;
    kin__worker_self()->stack = spare;
    task->stack = spare;
    task->low = spare->low;
    /* A report that fails the task must land here, on the spare stack. */
    (void)kin__call_raw(&task->escape, report, &overflow);
    task->escape = escape;
    kin__task_sched(task)->owner->unwind(task);
    kin__worker_self()->stack = dead;
    task->stack = dead;
    task->low = dead->low;
    kin__worker_escape(task);
}

/* Whether the code has left its stack by a frame that is larger than the guard: both where it
 * stands and what it touches lie below. Further away it is a stack that the program has made. */
static bool is_beyond(const struct kin__stack *stack, const struct kin__fault *fault)
{
    uintptr_t low = (uintptr_t)stack->low - kin__stack_guard_bytes(stack);
    uintptr_t near = fault->sp - kin__stack_guard_bytes(stack);
    return fault->sp < low && low - fault->sp < BEYOND_MAX && fault->address < low &&
           fault->address > near;
}

/* The fault is no hit of a guard: somebody else's, or the end of the process. */
static enum kin__fault_action pass(struct kin__fault *fault, const struct kin__worker *worker,
                                   const struct kin__task *task)
{
    char memory[640];
    struct kin__text text;
    if (!fault->is_fatal)
        return KIN__FAULT_PASS;
    if (task && worker->stack && is_beyond(worker->stack, fault)) {
        kin__text_init(&text, memory, sizeof(memory));
        kin__report_beyond(&text, task, fault->sp);
        kin__text_end_line(&text);
        kin__plat_write(2, memory, text.len);
    }
    kin__tape_crash();
    return KIN__FAULT_PASS;
}

static enum kin__fault_action resolve(struct kin__fault *fault)
{
    struct kin__worker *worker = kin__worker_self();
    struct kin__task *task = worker ? kin__worker_current(worker) : NULL;
    if (!task || !worker->stack || !kin__stack_in_guard(worker->stack, fault->address))
        return pass(fault, worker, task);
    /* A cleanup may overflow as well as the body, and each may use the spare stack after the other;
     * not the one that runs on it already. */
    struct kin__stack *spare = task->flags & KIN__TASK_SPARE ? task->spare : NULL;
    bool is_panic = worker->sched->config.on_overflow == KIN_STACK_PANIC && !fault->in_libc &&
                    worker->stack != spare;
    if (!is_panic)
        spare = NULL;
    else if (!spare)
        spare = kin__stack_take(&worker->stacks, &worker->sched->stacks, task->stack_class);
    if (!spare) {
        char memory[512];
        struct kin__text text;
        kin__text_init(&text, memory, sizeof(memory));
        kin__text_str(&text, "kin: KIN_OVERFLOW: ");
        describe(&text, task, fault->pc, fault->sp);
        kin__text_str(&text, fault->in_libc ? ", inside libc: aborting" : ": aborting");
        kin__text_end_line(&text);
        kin__plat_write(2, memory, text.len);
        kin__tape_crash();
        return KIN__FAULT_ABORT;
    }
    worker->spare = spare;
    worker->fault_pc = fault->pc;
    kin__stack_reopen(spare->low, spare->base);
    if (!(task->flags & KIN__TASK_PANICKED))
        task->status = KIN_OVERFLOW; /* the first panic says how it ends */
    task->flags |= KIN__TASK_FAILED | KIN__TASK_PANICKED;
    fault->stack = (uintptr_t)spare->base;
    fault->target = on_spare;
    fault->argument = task;
    return KIN__FAULT_JUMP;
}

#ifdef KIN__LAB
static unsigned users; /* the lab keeps it across the runs of its one thread */
#define IS_FIRST (users++ == 0)
#define IS_LAST (--users == 0)
#else
#define IS_FIRST true
#define IS_LAST true
#endif

int kin__overflow_init(void)
{
    if (!IS_FIRST)
        return 0;
    int rc = kin__fault_init(resolve);
    if (rc < 0)
        return rc;
    rc = kin__fault_thread_init();
    if (rc < 0)
        kin__fault_fini();
    return rc;
}

void kin__overflow_fini(void)
{
    if (!IS_LAST)
        return;
    kin__fault_thread_fini();
    kin__fault_fini();
}
