/* SPDX-License-Identifier: MIT */
/*
 * Ends that do not return: kin_fail, kin_panic, misuse; and telling somebody about them.
 */
#include "base/check.h"
#include "base/text.h"
#include "plat/plat.h"
#include "scope/scope.h"

#include <errno.h>
#include <stdarg.h>

#define TEXT_BYTES 512u

/* Who runs where a check failed. */
static void name_current(struct kin__text *text)
{
    struct kin__task *task = kin__task_self();
    if (task)
        kin__text_printf(text, "%llu (%s), spawned at %p", (unsigned long long)kin__task_id(task),
                         kin__task_name(task), (void *)(uintptr_t)task->site);
}

void kin__fail_init(void)
{
    kin__store_relaxed(&kin__check_hook, name_current); /* relaxed: a constant function */
}

void kin__report(struct kin__sched *sched, int status, uint64_t task, const char *text)
{
    if (sched->config.on_report) {
        struct kin_report report = {status, task, text};
        sched->config.on_report(&report, sched->config.report_arg);
        return;
    }
    char memory[TEXT_BYTES];
    struct kin__text line;
    kin__text_init(&line, memory, sizeof(memory));
    kin__text_printf(&line, "kin: %s: %s", kin_status_name(status), text);
    kin__text_end_line(&line);
    kin__plat_write(2, memory, line.len);
}

/* Ends the running task: nurseries first, innermost first, while its frames still stand. */
_Noreturn static void end(struct kin__task *task, int status, bool is_panicked)
{
    task->status = status;
    task->flags |= KIN__TASK_FAILED | (is_panicked ? KIN__TASK_PANICKED : 0);
    task->sched->owner->unwind(task);
    task->status = status;
    kin__worker_escape(task);
}

void kin_fail(int status, const char *fmt, ...)
{
    struct kin__task *task = kin__task_self();
    (void)fmt; /* kept for reports of servers and supervisors; an error is not news by itself */
    if (!task)
        kin_panic("kin_fail outside a task");
    end(task, status < 0 ? status : -EINVAL, false);
}

void kin_panic(const char *fmt, ...)
{
    struct kin__task *task = kin__task_self();
    char memory[TEXT_BYTES];
    struct kin__text text;
    va_list values;
    kin__text_init(&text, memory, sizeof(memory));
    if (task)
        kin__text_printf(&text, "task %llu (%s), spawned at %p: ",
                         (unsigned long long)kin__task_id(task), kin__task_name(task),
                         (void *)(uintptr_t)task->site);
    else
        kin__text_str(&text, "kin: panic outside a task: ");
    va_start(values, fmt);
    kin__text_format(&text, fmt, values);
    va_end(values);
    if (!task) {
        kin__text_end_line(&text);
        kin__plat_write(2, memory, text.len);
        kin__plat_abort();
    }
    kin__report(task->sched, KIN_PANICKED, kin__task_id(task), memory);
    end(task, KIN_PANICKED, true);
}

_Noreturn void kin__misuse(struct kin__task *task, const char *call, const char *rule,
                           const char *clause)
{
    char memory[TEXT_BYTES];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "kin: %s: %s [%s]", call, rule, clause);
    if (task)
        kin__text_printf(&text, ", task %llu (%s), spawned at %p",
                         (unsigned long long)kin__task_id(task), kin__task_name(task),
                         (void *)(uintptr_t)task->site);
    kin__text_end_line(&text);
    kin__plat_write(2, memory, text.len);
    kin__plat_abort();
}
