/* SPDX-License-Identifier: MIT */
/*
 * What is said of a task that does not react to its cancellation.
 *
 *     task 134217731 (fetch), spawned at 0x5581..., does not react to its cancellation: it waits
 *     for sleep
 *       0x5581... kin__worker_park+0x3f (./app+0x11f3f)
 *       ...
 *
 * A parked task is looked at while it may be woken: what was read counts if the very same park is
 * still unclaimed afterwards (park/peek.h). Of a task that runs the worker is named, and without a
 * lock its thread is asked where it stands (plat/linux/where.c): what it answers counts if it runs
 * that task at that moment.
 */
#include "scope/stuck.h"

#include "base/text.h"
#include "park/peek.h"
#include "scope/scope.h"
#include "task/word.h"

#define SCAN_BYTES ((size_t)64 * 1024) /* of a stack: deeper frames are those that began it all */

/* Fields that only the task's worker writes, while it goes on. */
__attribute__((no_sanitize("thread"))) static uint16_t peek_flags(const struct kin__task *task)
{
    return *(const volatile uint16_t *)&task->flags;
}

__attribute__((no_sanitize("thread"))) static const struct kin__stack *
peek_stack(const struct kin__task *task)
{
    return *(struct kin__stack *const volatile *)&task->stack;
}

__attribute__((no_sanitize("thread"))) static const char *peek_sp(const struct kin__task *task)
{
    return *(const char *const volatile *)&task->ctx.sp;
}

__attribute__((no_sanitize("thread"))) static const char *peek_escape(const struct kin__task *task)
{
    return *(const char *const volatile *)&task->escape;
}

void kin__stuck_init(struct kin__stuck *stuck)
{
    kin__code_read(&stuck->code);
}

/* Whether the task is in a join that runs a child on the task's own stack. */
static bool is_lending(struct kin__task *task)
{
    bool is_found = false;
    struct kin__scope *inner = kin__load_seq(&task->inner); /* alone: a hint, checked below */
    if (!inner || !peek_stack(task))
        return false;
    kin__lock_take(&inner->lock, KIN__RANK_NURSERY); /* outer before inner */
    if (kin__load_relaxed(&inner->owner) == task) { /* relaxed: under the lock */
        KIN__LIST_EACH(link, &inner->children) {
            const struct kin__task *child = KIN__CONTAINER_OF(link, struct kin__task, sibling);
            if (link != &inner->cursor && (peek_flags(child) & KIN__TASK_BORROWS) &&
                peek_stack(child) == peek_stack(task))
                is_found = true;
        }
    }
    kin__lock_give(&inner->lock, KIN__RANK_NURSERY);
    return is_found;
}

/* Where the frames of the task end that stand on this stack. The stack may be another one's by now,
 * and is never unmapped: what was read of it counts if the task still stands there. */
__attribute__((no_sanitize("thread"))) static const char *
end_of(const struct kin__task *task, const struct kin__stack *stack, const char *from)
{
    const char *end = peek_escape(task);
    return end < from || end > stack->base ? stack->base : end;
}

/* Return addresses on the stack of a parked task. */
static void scan(struct kin__stuck *stuck, const struct kin__task *task)
{
    const struct kin__stack *stack = peek_stack(task);
    const char *sp = peek_sp(task);
    if (!stack || sp < stack->low || sp >= stack->base)
        return;
    const char *end = end_of(task, stack, sp);
    if ((size_t)(end - sp) > SCAN_BYTES)
        end = sp + SCAN_BYTES;
    stuck->frame_count =
        kin__code_frames(&stuck->code, sp, end, stuck->frames, KIN__STUCK_FRAMES);
}

__attribute__((no_sanitize("thread"))) static const char *low_of(const struct kin__stack *stack)
{
    return *(const char *const volatile *)&stack->low;
}

/* Which worker runs the task, if one does. */
static void put_worker(struct kin__stuck *stuck, struct kin__text *text,
                       const struct kin__task *task, const struct kin__sched *sched)
{
    const struct kin__stack *stack = peek_stack(task);
    for (unsigned i = 0; i < sched->workers_max; i++) {
        if (kin__load_relaxed(&sched->workers[i].current) != task) /* relaxed: a snapshot */
            continue;
        kin__text_printf(text, "it runs on worker %u", i);
        if (!stack)
            return;
        stuck->worker = &sched->workers[i];
        stuck->running = task;
        stuck->low = low_of(stack);
        stuck->end = end_of(task, stack, stuck->low);
        return;
    }
    kin__text_str(text, "it is runnable");
}

/* Whether the worker runs that task. */
static bool is_running(const void *arg)
{
    const struct kin__stuck *stuck = arg;
    return kin__load_relaxed(&stuck->worker->current) == stuck->running && /* relaxed: a snapshot */
           kin__task_id(stuck->running) == stuck->task;
}

/* Asks the thread that runs the task where it stands. */
static void ask(struct kin__stuck *stuck)
{
    struct kin__where where = {&stuck->worker->thread, stuck->worker, is_running, stuck,
                               stuck->low, stuck->end};
    stuck->frame_count =
        kin__thread_where(&where, &stuck->code, stuck->frames, KIN__STUCK_FRAMES);
}

bool kin__stuck_look(struct kin__stuck *stuck, struct kin__task *task)
{
    struct kin__scope *scope = kin__load_relaxed(&task->scope); /* relaxed: locked */
    struct kin__waits waits;
    struct kin__text text;
    bool is_parked = kin__wait_peek(task, &waits);
    if ((is_parked && waits.ops == &kin__join_waitable) || (!is_parked && is_lending(task)))
        return false;
    stuck->task = kin__task_id(task);
    stuck->frame_count = 0;
    stuck->worker = NULL;
    if (is_parked) {
        scan(stuck, task);
        is_parked = kin__wait_is_same(task, &waits);
    }
    kin__text_init(&text, stuck->text, sizeof(stuck->text));
    kin__task_say_id(&text, stuck->task);
    kin__text_printf(&text, " (%s), ", kin__task_name(task));
    stuck->text_len = text.len;
    stuck->origin = kin__task_code(task);
    kin__text_init(&text, stuck->doing, sizeof(stuck->doing));
    if (is_parked) {
        kin__text_printf(&text, "it waits for %s", waits.ops->what);
        if (waits.is_several)
            kin__text_str(&text, " and others");
    } else {
        stuck->frame_count = 0;
        put_worker(stuck, &text, task, kin__scope_sched(scope));
    }
    return true;
}

void kin__stuck_describe(struct kin__stuck *stuck)
{
    struct kin__text text = {stuck->text, sizeof(stuck->text), stuck->text_len};
    kin__task_say_code(&text, stuck->origin);
    kin__text_printf(&text, ", does not react to its cancellation: %s", stuck->doing);
    if (stuck->worker)
        ask(stuck);
    for (unsigned i = 0; i < stuck->frame_count && !kin__text_is_full(&text); i++) {
        kin__text_str(&text, "\n  ");
        kin__code_name(&text, stuck->frames[i]);
    }
}
