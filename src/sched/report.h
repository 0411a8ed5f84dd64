/* SPDX-License-Identifier: MIT */
/*
 * Reports: how the runtime tells an operator that something is wrong.
 *
 *     kin: KIN_STUCK (N2002): task 17.2 (fetch), spawned at crawl (spider.c:88), entry ...
 *
 * A report names, in this order: the status and its code; the task, by kin__task_say (task/task.h);
 * what happened, where; and the rule or what to do. Whoever knows a task only by its id says it by
 * kin__task_say_id; a code address is said by kin__code_place (plat/plat.h).
 */
#ifndef KIN_SCHED_REPORT_H
#define KIN_SCHED_REPORT_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kin__sched;
struct kin__task;

/* Tells whoever wants to know: config.on_report, or standard error, there in one write. task is an
 * id, 0: none. The callback is the user's code, so no lock is held. */
void kin__report(struct kin__sched *sched, int status, uint64_t task, const char *text);
/* A status as reports print it: "KIN_STUCK (N2002)", "KIN_PANICKED" where it has no code. */
void kin__report_status(struct kin__text *text, int status);
/* If the runtime of the task is recorded, keeps the record because something is reported. Also in a
 * signal handler. */
void kin__report_keep(struct kin__task *task, int status);
/* Says that the frame of a task whose stack pointer is sp lies beyond the guard of its stack. Also
 * in a signal handler. */
void kin__report_beyond(struct kin__text *text, const struct kin__task *task, uintptr_t sp);
/* Ends the process with the text on standard error, because somebody broke a rule that only a bug
 * can break. task is who runs, and its stack follows the text; NULL: none. */
_Noreturn void kin__report_abort(struct kin__task *task, struct kin__text *text);

/* Options begin with their size: whether these do. If not, a report says what to write: -EINVAL
 * alone would send the caller through every field. call is the public call that got them, kind
 * their name in capitals, "SPAWN_OPTIONS" for struct kin_spawn_options. */
#define KIN__SIZED(options, call, kind)                                                            \
    (KIN__LIKELY((options)->size == sizeof(*(options))) ||                                         \
     kin__options_unsized((options)->size, sizeof(*(options)), call, kind))
/* Reports it; false. */
bool kin__options_unsized(size_t size, size_t expected, const char *call, const char *kind);

#endif
