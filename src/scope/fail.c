/* SPDX-License-Identifier: MIT */
/*
 * Ends that do not return: kin_fail, kin_panic, misuse; and telling somebody about them.
 */
#include "base/check.h"
#include "base/text.h"
#include "plat/plat.h"
#include "sched/entry.h"
#include "sched/tape.h"
#include "scope/belongings.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#define TEXT_BYTES 512u

/* The process, or what it does, is in trouble: if it is recorded, this is what that was for. */
static void keep_record(struct kin__sched *sched, int status, uint64_t task)
{
    if (KIN__UNLIKELY(sched->tape != NULL) && status != KIN_LEAKED && status != KIN_CLEANUP)
        kin__tape_report(sched, status, task);
}

/* Who runs where a check failed. */
static void name_current(struct kin__text *text)
{
    struct kin__task *task = kin__task_self();
    if (!task)
        return;
    keep_record(kin__task_sched(task), KIN_PANICKED, kin__task_id(task));
    kin__task_say(text, task);
}

void kin__fail_init(void)
{
    kin__store_relaxed(&kin__check_hook, name_current); /* relaxed: a constant function */
}

void kin__report(struct kin__sched *sched, int status, uint64_t task, const char *text)
{
    keep_record(sched, status, task);
    if (sched->config.on_report) {
        struct kin_report report = {status, task, text};
        sched->config.on_report(&report, sched->config.report_arg);
        return;
    }
    char memory[TEXT_BYTES];
    struct kin__text line;
    size_t size = strlen(text);
    kin__text_init(&line, memory, sizeof(memory));
    kin__text_printf(&line, "kin: %s: ", kin_status_name(status));
    if (line.len + size + 1 < sizeof(memory)) { /* in one write, so that lines stay whole */
        kin__text_str(&line, text);
        kin__text_end_line(&line);
        kin__plat_write(2, memory, line.len);
        return;
    }
    kin__plat_write(2, memory, line.len);
    kin__plat_write(2, text, size);
    kin__plat_write(2, "\n", 1);
}

/* The running task has panicked. The first panic says how it ends. */
static void mark_panicked(struct kin__task *task)
{
    if (!(task->flags & KIN__TASK_PANICKED))
        task->status = KIN_PANICKED;
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
    (void)fmt; /* for readers of the code; an error is not news by itself */
    if (!task)
        kin_panic("kin_fail outside a task");
    status = status < 0 ? status : -EINVAL;
    if (!kin__cleanup_fail(task, status) && !(task->flags & KIN__TASK_PANICKED)) {
        task->status = status;
        task->flags |= KIN__TASK_FAILED;
    }
    end(task);
}

void kin_panic(const char *fmt, ...)
{
    struct kin__task *task = kin__task_self();
    char memory[TEXT_BYTES];
    struct kin__text text;
    va_list values;
    kin__text_init(&text, memory, sizeof(memory));
    if (task)
        kin__task_say(&text, task);
    kin__text_str(&text, task ? ": " : "kin: panic outside a task: ");
    va_start(values, fmt);
    kin__text_format(&text, fmt ? fmt : "no reason given", values);
    va_end(values);
    if (!task) {
        kin__text_end_line(&text);
        kin__plat_write(2, memory, text.len);
        kin__plat_abort();
    }
    mark_panicked(task);
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
        keep_record(kin__task_sched(task), KIN_PANICKED, kin__task_id(task));
        kin__text_str(&text, ", ");
        kin__task_say(&text, task);
    }
    KIN__LAB_ABORT(memory);
    kin__text_end_line(&text);
    kin__plat_write(2, memory, text.len);
    kin__plat_abort();
}
