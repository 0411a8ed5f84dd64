/* SPDX-License-Identifier: MIT */
/*
 * Ways out of a nursery, and how none of them loses a failure.
 *
 *     end      cancels if the body failed, joins, and returns the cause
 *     join     the caller asks how it went
 *     leave    the C scope is over, or the task unwinds, without either: cancels and joins. A
 *              failure of a child is reported; if it was there before, it becomes the task's own
 *              unless that ends with another (task/cause.h).
 *     none     the body returned, or was left by longjmp, with a nursery that was opened by hand:
 *              aborts, because the handle may be gone and children run on [NSM-1]
 */
#include "scope/belongings.h"

#include "base/text.h"
#include "plat/plat.h"
#include "sched/entry.h"
#include "sched/report.h"
#include "task/cause.h"

#include <errno.h>

#define TEXT_BYTES 512u

static bool is_failure(const struct kin_outcome *how)
{
    return how->severity == KIN_SEV_ERROR || how->severity == KIN_SEV_PANIC;
}

/* Which nursery it is, for people. */
static void say_nursery(struct kin__text *text, const char *name, const void *site)
{
    if (name)
        kin__text_printf(text, "the nursery %s, opened at ", name);
    else
        kin__text_str(text, "the nursery opened at ");
    kin__code_place(text, (uintptr_t)site);
}

/* ---- leave ---- */

static void report_left(struct kin__task *task, const char *name, const void *site,
                        const struct kin_outcome *how, bool was_before)
{
    char memory[TEXT_BYTES];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__task_say(&text, task);
    kin__text_str(&text, ", left ");
    say_nursery(&text, name, site);
    kin__text_str(&text, ", without a join, and ");
    kin__task_say_id(&text, how->task);
    kin__text_str(&text, was_before ? " in it had failed with "
                                    : " in it was cancelled by that and failed with ");
    kin__report_status(&text, how->status);
    if (how->text[0])
        kin__text_printf(&text, ": %s", how->text);
    kin__text_str(&text, "; the way out of a nursery is return kin_nursery_end(&n, rc)");
    kin__report(kin__task_sched(task), how->status, kin__task_id(task), memory);
}

/* Cancels a nursery that is left. What its children had come to by then, in one step. */
static struct kin__failure cancel(struct kin__scope *scope)
{
    struct kin__scope *list = NULL;
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    struct kin__failure worst = scope->worst;
    (void)kin__cancel_begin_locked(scope, KIN_CANCELLED, &list);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    kin__cancel_walk(list);
    return worst;
}

/* An open nursery goes out of scope. A failure that was there by then becomes the task's. One that
 * came of the cancellation is reported only: the task may have left because of a failure of its
 * own, with which it has dealt. */
static __attribute__((noinline)) void leave(struct kin_nursery *n, struct kin__scope *scope)
{
    struct kin__task *task = kin__task_self();
    const struct kin__handle *handle = kin__handle_of(n);
    const char *name = scope->name;
    const void *site = scope->site;
    struct kin_outcome how = {.severity = KIN_SEV_OK};
    struct kin__failure before = cancel(scope);
    kin_ignore(kin__nursery_join(n, KIN_NEVER, &how, "KIN_NURSERY"));
    bool was_before = before.severity != KIN_SEV_OK;
    if (was_before)
        kin__outcome_fill(&how, &before, handle->more ? handle->more->words : NULL);
    if (was_before && kin__cause_left(task, how.status))
        kin__words_say(task, how.status, how.text);
    if (is_failure(&how))
        report_left(task, name, site, &how, was_before);
}

void kin_nursery_leave_(struct kin_nursery *n)
{
    struct kin__handle *handle = kin__handle_of(n);
    struct kin__scope *scope = kin__load_relaxed(&handle->scope); /* relaxed: the owner's own */
    if (KIN__UNLIKELY(scope != NULL))
        leave(n, scope);
    kin__handle_empty(handle);
}

/* ---- none ---- */

_Noreturn void kin__forgot(struct kin__task *task)
{
    const struct kin__scope *scope = kin__load_relaxed(&task->inner); /* relaxed: the task's own */
    char memory[TEXT_BYTES];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_str(&text, "a nursery was left open, ");
    say_nursery(&text, scope->name, scope->site);
    kin__text_str(&text, ", by a task that has returned: a task ends every nursery that it opens "
                         "(kin_nursery_end), and leaves none by return or longjmp");
    kin__misuse(task, "kin_nursery_open", memory, "NSM-1");
}

/* ---- the public face ---- */

int kin_nursery_end(struct kin_nursery *n, int rc)
{
    struct kin_outcome how = {.severity = KIN_SEV_OK};
    if (rc < 0)
        kin_nursery_cancel(n, rc);
    int joined = kin__nursery_join(n, KIN_NEVER, &how, "kin_nursery_end");
    if (is_failure(&how))
        return joined;
    /* It was cancelled, by its deadline or from outside, or could not even be opened: an rc that
     * only echoes this says less. */
    bool is_echo = joined < 0 && joined != KIN_STALE && kin__cause_is_echo(rc);
    return rc < 0 && !is_echo ? rc : joined;
}

int kin_nursery_join_until(struct kin_nursery *n, kin_time deadline, struct kin_outcome *out)
{
    return kin__nursery_join(n, deadline, out, "kin_nursery_join_until");
}
