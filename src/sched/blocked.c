/* SPDX-License-Identifier: MIT */
/*
 * What is said when every worker is blocked in a foreign call while tasks wait.
 *
 *     all 2 workers are blocked, in calls that kin does not know, while tasks wait:
 *       worker 0, for 12 ms: task 17 (fetch), spawned at crawl (spider.c:88), entry fetch (...)
 *         nanosleep+0x40 (libc.so.6+0xd3f00)
 *         ...
 *
 * The tasks run, and may end while they are looked at: their frames stay (002:1.1), the name is
 * read with the kernel's help, and what a thread answers counts if it runs that task then.
 */
#include "sched/blocked.h"

#include "base/text.h"
#include "sched/report.h"
#include "sched/sched.h"

#define FRAMES 12u     /* of each task */
#define WORKERS_SAID 8u

struct look {
    struct kin__code code;
    const struct kin__worker *worker;
    const struct kin__task *task;
    uint64_t id;
    struct kin__text text;
    char memory[8192]; /* on the monitor's stack, which has room */
};

/* Fields that only the task's worker writes, while it goes on. */
__attribute__((no_sanitize("thread"))) static const struct kin__stack *
stack_of(const struct kin__task *task)
{
    return *(struct kin__stack *const volatile *)&task->stack;
}

__attribute__((no_sanitize("thread"))) static const char *end_of(const struct kin__task *task,
                                                                 const struct kin__stack *stack)
{
    const char *end = *(const char *const volatile *)&task->escape;
    return end < (const char *)stack->low || end > (const char *)stack->base ? stack->base : end;
}

__attribute__((no_sanitize("thread"))) static const char *low_of(const struct kin__stack *stack)
{
    return *(const char *const volatile *)&stack->low;
}

static bool is_running(const void *arg)
{
    const struct look *look = arg;
    return kin__load_relaxed(&look->worker->current) == look->task && /* relaxed: a snapshot */
           kin__task_id(look->task) == look->id;
}

/* The name, unless the memory that it is in has gone with the task. */
static void put_name(struct look *look)
{
    char name[32];
    const char *from = kin__task_name(look->task);
    for (size_t i = 0; i < sizeof(name); i++) {
        name[i] = '\0';
        if (i + 1 == sizeof(name) || !kin__plat_peek(from + i, &name[i], 1) || !name[i])
            break;
    }
    kin__text_printf(&look->text, " (%s), ", name);
}

static void put_frames(struct look *look)
{
    const struct kin__stack *stack = stack_of(look->task);
    uintptr_t frames[FRAMES];
    if (!stack)
        return;
    struct kin__where where = {&look->worker->thread, look->worker,  is_running,
                               look,                  low_of(stack), end_of(look->task, stack)};
    unsigned count = kin__thread_where(&where, &look->code, frames, FRAMES);
    for (unsigned i = 0; i < count && !kin__text_is_full(&look->text); i++) {
        kin__text_str(&look->text, "\n    ");
        kin__code_name(&look->text, frames[i]);
    }
}

static void put_worker(struct look *look, int64_t now)
{
    struct kin__task *task = kin__load_relaxed(&look->worker->current); /* relaxed: a snapshot */
    kin__text_printf(&look->text, "\n  worker %u, for ", (unsigned)look->worker->index);
    kin__text_ns(&look->text, now - look->worker->seen_since);
    kin__text_str(&look->text, ": ");
    if (!task) {
        kin__text_str(&look->text, "between tasks");
        return;
    }
    look->task = task;
    look->id = kin__task_id(task);
    kin__task_say_id(&look->text, look->id);
    put_name(look);
    kin__task_say_code(&look->text, kin__task_code(task));
    put_frames(look);
}

void kin__blocked_report(struct kin__sched *sched, unsigned count, int64_t now)
{
    struct look look = {.worker = NULL};
    unsigned said = 0;
    kin__code_read(&look.code);
    kin__text_init(&look.text, look.memory, sizeof(look.memory));
    kin__text_printf(&look.text,
                     "all %u workers are blocked, in calls that kin does not know, while tasks "
                     "wait; kin_blocking is for such calls:",
                     count);
    for (unsigned i = 0; i < sched->workers_max && said < WORKERS_SAID; i++) {
        look.worker = &sched->workers[i];
        /* relaxed: a snapshot */
        if (kin__load_relaxed(&look.worker->state) == KIN__WORKER_DEAD)
            continue;
        put_worker(&look, now);
        said++;
    }
    if (count > said)
        kin__text_printf(&look.text, "\n  and %u others", count - said);
    kin__report(sched, KIN_STUCK, look.id, look.memory);
}
