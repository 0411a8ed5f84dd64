/* SPDX-License-Identifier: MIT */
/*
 * Reports: to the program's callback, or as text on standard error.
 */
#include "sched/report.h"

#include "plat/plat.h"
#include "sched/sched.h"
#include "sched/tape.h"

#include <errno.h>
#include <string.h>

#define FRAMES_MAX 12u    /* of the task that broke a rule, */
#define SCAN_BYTES 16384  /* found in so much of its stack */
#define LINE_BYTES 512u /* what is put together before the write; longer texts take three writes */

/* The process, or what it does, is in trouble: if it is recorded, this is what that was for. */
static void keep_record(struct kin__sched *sched, int status, uint64_t task)
{
    if (KIN__UNLIKELY(sched->tape != NULL) && status != KIN_LEAKED && status != KIN_CLEANUP)
        kin__tape_report(sched, status, task);
}

void kin__report_status(struct kin__text *text, int status)
{
    const char *code = kin_status_code(status);
    kin__text_str(text, kin_status_name(status));
    if (status == -1) /* which people write for any failure */
        kin__text_str(text, " (a return of -1)");
    if (code && *code)
        kin__text_printf(text, " (%s)", code);
}

/* One line, or more, on standard error. */
static void write_out(int status, const char *text)
{
    char memory[LINE_BYTES];
    struct kin__text line;
    size_t size = strlen(text);
    kin__text_init(&line, memory, sizeof(memory));
    kin__text_str(&line, "kin: ");
    kin__report_status(&line, status);
    kin__text_str(&line, ": ");
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

void kin__report(struct kin__sched *sched, int status, uint64_t task, const char *text)
{
    keep_record(sched, status, task);
    if (sched->config.on_report) {
        struct kin_report report = {status, task, text};
        sched->config.on_report(&report, sched->config.report_arg);
    } else {
        write_out(status, text);
    }
}

bool kin__options_unsized(size_t size, size_t expected, const char *call, const char *kind)
{
    struct kin__worker *worker = kin__worker_self();
    struct kin__task *task = worker ? kin__worker_current(worker) : NULL;
    char memory[LINE_BYTES];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    if (task) {
        kin__task_say(&text, task);
        kin__text_str(&text, ", ");
    }
    kin__text_printf(&text, "%s: the size of its options is %zu, and should be %zu: ", call, size,
                     expected);
    if (size == 0)
        kin__text_printf(&text, "begin them with KIN_%s_INIT, or write KIN_%s(.field = value)",
                         kind, kind);
    else
        kin__text_str(&text, "they were compiled with the headers of another version of kin");
    if (task)
        kin__report(worker->sched, -EINVAL, kin__task_id(task), memory);
    else
        write_out(-EINVAL, memory);
    return false;
}

void kin__report_keep(struct kin__task *task, int status)
{
    keep_record(kin__task_sched(task), status, kin__task_id(task));
}

void kin__report_beyond(struct kin__text *text, const struct kin__task *task, uintptr_t sp)
{
    kin__text_str(text, "kin: KIN_OVERFLOW: stack overflow in ");
    kin__task_say(text, task);
    kin__text_printf(text, ": a frame reaches %zu bytes below its stack, past the guard of %zu "
                     "bytes, where other stacks may lie: aborting (-fstack-clash-protection ends "
                     "the task instead)", (size_t)((uintptr_t)task->low - sp),
                     kin__stack_guard_bytes(task->stack));
}

/* Where the task stands that runs here: which call of the program broke the rule. sp: the frame of
 * the caller. This function's own frame has words of calls that are over. */
static void write_stack(const struct kin__task *task, const char *sp)
{
    static struct kin__code code; /* the process ends: others that end it too may spoil it */
    uintptr_t frames[FRAMES_MAX];
    char memory[LINE_BYTES];
    struct kin__text line;
    const char *end = task->stack ? task->stack->base : NULL;
    if (!end || sp < task->stack->low || sp >= end)
        return;
    if (end - sp > SCAN_BYTES)
        end = sp + SCAN_BYTES;
    kin__code_read(&code);
    unsigned count = kin__code_frames(&code, sp, end, frames, FRAMES_MAX);
    for (unsigned i = 0; i < count; i++) {
        kin__text_init(&line, memory, sizeof(memory));
        kin__text_str(&line, "  ");
        kin__code_name(&line, frames[i]);
        kin__text_end_line(&line);
        kin__plat_write(2, memory, line.len);
    }
}

_Noreturn void kin__report_abort(struct kin__task *task, struct kin__text *text)
{
    if (task)
        kin__report_keep(task, KIN_PANICKED);
    KIN__LAB_ABORT(text->buf);
    kin__text_end_line(text);
    kin__plat_write(2, text->buf, text->len);
    if (task)
        write_stack(task, __builtin_frame_address(0));
    kin__plat_abort();
}
