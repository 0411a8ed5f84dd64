/* SPDX-License-Identifier: MIT */
/*
 * What others hear of a supervisor: each decision about a child that failed, as an event for the
 * program's hook and as a report for its operator.
 *
 *     supervisor shop (task 12): child counter (task 17.2, spawned at start_counter (shop.c:40))
 *     failed: EIO: the ledger is gone; it is started again, restart 2 of 3 in 5 s
 *
 * Both are called by the supervisor's own task, between two events of its loop and without a lock,
 * so nothing is queued and nothing can be lost. A child that fails very often would fill a log: of
 * one supervisor at most REPORTS_MAX are said in a window of its restarts, and one that gives up or
 * escalates is always said. How many were left out is part of the next one, or of one at the end.
 * The hook hears of everything.
 */
#include "otp/supervisor.h"

#include "base/text.h"
#include "plat/plat.h"
#include "sched/report.h"
#include "sched/sched.h"
#include "scope/scope.h"

#include <errno.h>
#include <string.h>

#define REPORTS_MAX 16u
#define TEXT_BYTES 1024u

/* Keeps a copy of what was said, "" being nothing. Without memory it is not kept. */
static void keep(struct kin__kid *child, const char *text)
{
    size_t size = strlen(text) + 1;
    kin__heap_free(child->text);
    child->text = size > 1 ? kin__heap_alloc(size) : NULL;
    if (child->text)
        memcpy(child->text, text, size);
}

void kin__child_keep_text(struct kin__kid *child)
{
    struct kin_outcome how = {0};
    struct kin__task *task;
    struct kin__scope *scope = kin__scope_lock_of(child->task, &task);
    if (scope && task->over)
        how = kin__task_outcome(task);
    if (scope)
        kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    keep(child, how.text);
}

void kin__child_keep_words(struct kin__kid *child, const char *words)
{
    keep(child, words);
}

/* ---- words ---- */

static void put_sup(struct kin__text *text, const struct kin__sup *sup)
{
    const char *name = kin__server_name(sup->server);
    kin__text_str(text, "supervisor ");
    if (name)
        kin__text_printf(text, "%s (", name);
    kin__task_say_id(text, sup->id);
    kin__text_str(text, name ? "): " : ": ");
}

/* Who it is and how it ended. */
static void put_child(struct kin__text *text, const struct kin__kid *child)
{
    static const char *const ends[] = {"ended", "failed", "was cancelled", "panicked"};
    kin__text_printf(text, "%schild %s", child->restart == KIN_PERMANENT ? "permanent " : "",
                     child->name ? child->name : "without a name");
    if (child->addr.id && !child->has_not_started) {
        kin__text_str(text, " (");
        kin__task_say_id(text, child->addr.id);
        if (child->site) {
            kin__text_str(text, ", spawned at ");
            kin__code_place(text, (uintptr_t)child->site);
        }
        kin__text_char(text, ')');
    }
    kin__text_printf(text, " %s", child->has_not_started ? "could not be started"
                                                         : ends[child->severity]);
    if (child->severity == KIN_SEV_ERROR || child->has_not_started) {
        kin__text_str(text, ": ");
        kin__report_status(text, child->status);
    }
    if (child->text)
        kin__text_printf(text, ": %s", child->text);
}

/* What is done about it. */
static void put_decision(struct kin__text *text, const struct kin_supervisor_event *event)
{
    switch (event->kind) {
    case KIN_EVENT_STARTED:
        break;
    case KIN_EVENT_STOPPED:
        kin__text_str(text, ", and is not started again");
        return;
    case KIN_EVENT_BLOCKED:
        kin__text_printf(text, "; it is not started again: %s, on which it depends, is down",
                         event->other);
        return;
    case KIN_EVENT_ESCALATED:
        kin__text_str(text, "; the supervisor ends with it");
        return;
    case KIN_EVENT_EXHAUSTED:
        kin__text_str(text, "; the supervisor gives up, one restart too many");
        break;
    case KIN_EVENT_RESET:
        kin__text_str(text, "; one restart too many, the count begins anew");
        break;
    case KIN_EVENT_RESTART:
        kin__text_str(text, "; it is started again");
        break;
    }
    if (event->delay) {
        kin__text_str(text, " in ");
        kin__text_ns(text, event->delay);
    }
    kin__text_printf(text, ", restart %u of %u in ", event->restarts, event->max_restarts);
    kin__text_ns(text, event->window);
}

/* ---- reports ---- */

/* Whether one more may be said now. */
static bool may_report(struct kin__sup *sup, enum kin_supervisor_event_kind kind)
{
    kin_time now = kin__clock_now();
    if (sup->reports == 0 || now - sup->reports_at >= sup->history.window) {
        sup->reports_at = now;
        sup->reports = 0;
    }
    if (sup->reports >= REPORTS_MAX && kind != KIN_EVENT_EXHAUSTED && kind != KIN_EVENT_ESCALATED) {
        sup->left_out++;
        return false;
    }
    sup->reports++;
    return true;
}

static void report(const struct kin__kid *child, const struct kin_supervisor_event *event)
{
    struct kin__sup *sup = child->sup;
    char memory[TEXT_BYTES];
    struct kin__text text;
    if (!may_report(sup, event->kind))
        return;
    kin__text_init(&text, memory, sizeof(memory));
    put_sup(&text, sup);
    put_child(&text, child);
    put_decision(&text, event);
    if (sup->left_out)
        kin__text_printf(&text, " (%llu reports before this one were left out)",
                         (unsigned long long)sup->left_out);
    sup->left_out = 0;
    kin__report(sup->sched, event->kind == KIN_EVENT_EXHAUSTED ? KIN_EXHAUSTED : child->status,
                child->addr.id, memory);
}

void kin__child_tell_start(const struct kin__kid *child, int rc)
{
    char memory[TEXT_BYTES];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    put_sup(&text, child->sup);
    kin__text_printf(&text, "the start function of child %s returned %d",
                     child->name ? child->name : "without a name", rc);
    kin__text_str(&text, rc > 0 ? ", which is neither 0 nor an error: it counts as -EBADMSG"
                                : " and no address of a child: it counts as -EBADMSG");
    kin__report(child->sup->sched, -EBADMSG, child->sup->id, memory);
}

void kin__sup_tell_rest(struct kin__sup *sup)
{
    char memory[TEXT_BYTES];
    struct kin__text text;
    if (!sup->left_out)
        return;
    kin__text_init(&text, memory, sizeof(memory));
    put_sup(&text, sup);
    kin__text_printf(&text, "%llu reports about its children were left out",
                     (unsigned long long)sup->left_out);
    sup->left_out = 0;
    kin__report(sup->sched, 0, sup->id, memory);
}

/* ---- both ---- */

void kin__sup_tell(struct kin__kid *child, enum kin_supervisor_event_kind kind, int64_t delay,
                   const char *other)
{
    struct kin__sup *sup = child->sup;
    bool is_own = kind == KIN_EVENT_EXHAUSTED && child->has_limit &&
                  child->history.count >= child->history.max;
    const struct kin__history *history = is_own ? &child->history : &sup->history;
    size_t restarts = history->count + (kind == KIN_EVENT_EXHAUSTED);
    struct kin_supervisor_event event = {.kind = kind,
                                         .supervisor = kin__server_addr(sup->server),
                                         .supervisor_name = kin__server_name(sup->server),
                                         .child = child->name,
                                         .severity = child->severity,
                                         .status = child->status,
                                         .text = child->text,
                                         .site = child->site,
                                         .other = other,
                                         .restarts = (unsigned)restarts,
                                         .max_restarts = history->max,
                                         .window = history->window,
                                         .delay = delay};
    if (!child->has_not_started || kind == KIN_EVENT_STARTED)
        event.addr = child->addr;
    if (kind != KIN_EVENT_STARTED)
        report(child, &event);
    if (sup->on_event)
        sup->on_event(&event, sup->event_arg);
}
