/* SPDX-License-Identifier: MIT */
/*
 * Ends that do not return: kin_fail, kin_panic, misuse.
 */
#include "base/check.h"
#include "base/text.h"
#include "plat/plat.h"
#include "sched/entry.h"
#include "scope/belongings.h"

#include <errno.h>
#include <stdarg.h>

#define TEXT_BYTES 512u

/* Who runs where a check failed. */
static void name_current(struct kin__text *text)
{
    struct kin__task *task = kin__task_self();
    if (!task)
        return;
    kin__report_keep(task, KIN_PANICKED);
    kin__task_say(text, task);
}

void kin__fail_init(void)
{
    kin__store_relaxed(&kin__check_hook, name_current); /* relaxed: a constant function */
}

/* The running task has panicked, with these words. The first panic says how it ends. */
static void mark_panicked(struct kin__task *task, const char *words)
{
    if (!(task->flags & KIN__TASK_PANICKED)) {
        task->status = KIN_PANICKED;
        kin__words_say(task, KIN_PANICKED, words);
    }
    task->flags |= KIN__TASK_FAILED | KIN__TASK_PANICKED;
}

/* Ends the body, or the cleanup that runs: what it put down and opened goes first, the newest
 * first, while its frames still stand. */
_Noreturn static void end(struct kin__task *task)
{
    kin__entry_check(task); /* with less room than that, cleanups run on a spare stack */
    kin__task_sched(task)->owner->unwind(task);
    kin__worker_escape(task);
}

void kin_fail(int status, const char *fmt, ...)
{
    struct kin__task *task = kin__task_self();
    char memory[KIN_OUTCOME_TEXT];
    struct kin__text text;
    va_list values;
    if (!task)
        kin_panic("kin_fail outside a task");
    kin__entry_check_room(task); /* what is said is kept on the heap */
    status = status < 0 ? status : -EINVAL;
    kin__text_init(&text, memory, sizeof(memory));
    va_start(values, fmt);
    if (fmt)
        kin__text_format(&text, fmt, values);
    va_end(values);
    if (kin__cleanup_fail(task, status)) {
        if (!(task->flags & KIN__TASK_FAILED))
            kin__words_say(task, KIN_CLEANUP, memory); /* the body is well, so far */
    } else if (!(task->flags & KIN__TASK_PANICKED)) {
        int cause = task->flags & KIN__TASK_FAILED ? status : kin__cancel_cause(task, status);
        if (cause == status) /* else it was said already why */
            kin__words_say(task, status, memory);
        task->status = cause;
        task->flags |= KIN__TASK_FAILED;
    }
    end(task);
}

void kin_panic(const char *fmt, ...)
{
    KIN__LAB_POINT();
    struct kin__task *task = kin__task_self();
    char memory[TEXT_BYTES];
    struct kin__text text;
    va_list values;
    if (task)
        kin__entry_check_room(task); /* as in kin_fail */
    kin__text_init(&text, memory, sizeof(memory));
    if (task)
        kin__task_say(&text, task);
    kin__text_str(&text, task ? ", panics at " : "kin: panic outside a task, at ");
    kin__code_place(&text, (uintptr_t)__builtin_return_address(0));
    kin__text_str(&text, ": ");
    size_t words_at = text.len;
    va_start(values, fmt);
    kin__text_format(&text, fmt ? fmt : "no reason given", values);
    va_end(values);
    if (!task)
        kin__report_abort(NULL, &text);
    mark_panicked(task, memory + words_at);
    kin__report(kin__task_sched(task), KIN_PANICKED, kin__task_id(task), memory);
    end(task);
}

_Noreturn void kin__misuse(struct kin__task *task, const char *call, const char *rule,
                           const char *clause)
{
    char memory[TEXT_BYTES];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "kin: %s: %s [%s]", call, rule, clause);
    if (task) {
        kin__text_str(&text, ", ");
        kin__task_say(&text, task);
    }
    kin__report_abort(task, &text);
}
