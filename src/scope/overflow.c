/* SPDX-License-Identifier: MIT */
/*
 * Stack overflow: from a hit guard page to a panic of the task [C8] [SCHED:14.1.1].
 *
 *     guard hit -> handler, on the alternate stack -> is it the guard of the stack that this
 *     worker's task runs on? No: somebody else's fault, pass it on. In libc, or configured so:
 *     report, abort. Else continue on a spare stack, as the task: report, cancel and join what it
 *     has open, escape.
 *
 * The nurseries are ended on a spare stack, because the dead frames below the escape still hold
 * what their children point at. Code of the runtime itself never hits the guard with a lock held:
 * its entries probe first (entry.h).
 */
#include "scope/overflow.h"

#include "base/text.h"
#include "plat/plat.h"
#include "scope/scope.h"
#include "task/word.h"

static void describe(struct kin__text *text, const struct kin__task *task, uintptr_t sp)
{
    const struct kin__stack *stack = task->stack;
    kin__text_printf(text, "stack overflow in task %llu (%s), entry %p, spawned at %p: ",
                     (unsigned long long)kin__task_id(task), kin__task_name(task),
                     (void *)(uintptr_t)task->fn, (void *)(uintptr_t)task->site);
    kin__text_printf(text, "%zu bytes deep of a maximum of %zu",
                     (size_t)((uintptr_t)stack->base - sp), kin__stack_class_bytes(stack->class_));
}

/* The task goes on here, on its spare stack, for the last time. */
static void on_spare(void *arg)
{
    struct kin__task *task = arg;
    struct kin__stack *dead = task->stack;
    struct kin__stack *spare = task->spare;
    char memory[320];
    struct kin__text text;
    kin__context_move(&task->ctx, spare->low, spare->base);
    kin__text_init(&text, memory, sizeof(memory));
    describe(&text, task, (uintptr_t)dead->low);
    kin__worker_self()->stack = spare;
    task->stack = spare;
    task->low = spare->low;
    kin__report(task->sched, KIN_OVERFLOW, kin__task_id(task), memory);
    task->sched->owner->unwind(task);
    kin__worker_self()->stack = dead;
    task->stack = dead;
    kin__worker_escape(task);
}

static enum kin__fault_action resolve(struct kin__fault *fault)
{
    struct kin__worker *worker = kin__worker_self();
    struct kin__task *task = worker ? kin__worker_current(worker) : NULL;
    if (!task || !worker->stack || !kin__stack_in_guard(worker->stack, fault->address))
        return KIN__FAULT_PASS;
    bool is_panic = worker->sched->config.on_overflow == KIN_STACK_PANIC && !fault->in_libc &&
                    !(task->flags & KIN__TASK_SPARE);
    struct kin__stack *spare = NULL;
    if (is_panic)
        spare = kin__stack_take(&worker->stacks, &worker->sched->stacks, task->stack_class);
    if (!spare) {
        char memory[320];
        struct kin__text text;
        kin__text_init(&text, memory, sizeof(memory));
        kin__text_str(&text, "kin: ");
        describe(&text, task, fault->sp);
        kin__text_str(&text, fault->in_libc ? ", inside libc: aborting" : ": aborting");
        kin__text_end_line(&text);
        kin__plat_write(2, memory, text.len);
        return KIN__FAULT_ABORT;
    }
    task->spare = spare;
    task->status = KIN_OVERFLOW;
    task->flags |= KIN__TASK_FAILED | KIN__TASK_PANICKED | KIN__TASK_SPARE;
    fault->stack = (uintptr_t)spare->base;
    fault->target = on_spare;
    fault->argument = task;
    return KIN__FAULT_JUMP;
}

int kin__overflow_init(void)
{
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
    kin__fault_thread_fini();
    kin__fault_fini();
}
