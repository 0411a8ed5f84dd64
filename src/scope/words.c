/* SPDX-License-Identifier: MIT */
/*
 * The words that a task ended with: from kin_fail or kin_panic to whoever reads the outcome.
 *
 *     said        by kin_fail, kin_panic, or by the join of a nursery that failed: the task keeps
 *                 them with the status that they explain, and newer ones replace older ones
 *     concluded   the task is over, and ends with that very status: they go to its nursery; else
 *                 nobody needs them
 *     judged      the nursery keeps the failure, and its words; or counts it only, and drops them
 *     released    what must stay readable after the join stays with the room of the handle
 *
 * So words travel outward with the failure, as far as each task on the way returns the status it
 * got. They are for people: when there is no memory they are lost, and the status never is.
 */
#include "scope/belongings.h"

#include "base/text.h"
#include "plat/plat.h"

#include <string.h>

void kin__words_free(struct kin__words *list)
{
    while (list) { /* ends: one fewer each time */
        struct kin__words *words = list;
        list = words->next;
        kin__heap_free(words);
    }
}

void kin__words_say(struct kin__task *task, int status, const char *text)
{
    struct kin__words *words = *text ? kin__heap_alloc(sizeof(*words)) : NULL;
    struct kin__extra *extra = words ? kin__extra_need(task) : NULL;
    struct kin__text out;
    if (!extra) {
        kin__heap_free(words);
        return;
    }
    kin__words_free(extra->words);
    extra->words = words;
    words->next = NULL;
    words->task = kin__task_id(task);
    words->status = status;
    kin__text_init(&out, words->text, sizeof(words->text));
    kin__text_str(&out, text);
}

const char *kin__words_said(const struct kin__task *task, int status)
{
    const struct kin__words *words = task->flags & KIN__TASK_EXTRA ? task->extra->words : NULL;
    return words && words->status == status ? words->text : "";
}

void kin__words_conclude(struct kin__task *task, int status)
{
    struct kin__words *words = task->extra->words;
    struct kin__scope *scope = kin__load_relaxed(&task->scope); /* relaxed: constant */
    if (!words || words->status != status || status >= 0)
        return; /* they go with the belongings */
    task->extra->words = NULL;
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    words->next = scope->words;
    scope->words = words;
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
}

const char *kin__words_find(const struct kin__words *list, uint64_t task)
{
    while (list && list->task != task) /* ends: with the list */
        list = list->next;
    return list ? list->text : "";
}

void kin__words_drop_locked(struct kin__scope *scope, uint64_t task)
{
    struct kin__words **at = &scope->words;
    while (*at && (*at)->task != task) /* ends: with the list; the newest come first */
        at = &(*at)->next;
    struct kin__words *words = *at;
    if (!words)
        return;
    *at = words->next;
    kin__heap_free(words);
}

void kin__outcome_fill(struct kin_outcome *out, const struct kin__failure *end,
                       const struct kin__words *list)
{
    memset(out, 0, sizeof(*out));
    out->severity = (enum kin_severity)end->severity;
    out->status = end->status;
    out->task = end->task;
    if (end->severity == KIN_SEV_ERROR || end->severity == KIN_SEV_PANIC)
        strcpy(out->text, kin__words_find(list, end->task)); /* as long as that at most */
}
