/* SPDX-License-Identifier: MIT */
/*
 * Faults: what goes wrong on purpose, and where.
 *
 * Every place where something may go wrong is a choice of the engine, so that a strategy decides, a
 * file repeats it, shrinking drops it and an exhaustive exploration goes through all of them. One
 * execution has one fault at most: after it nothing is asked any more. Under KIN_FAULT_CHAOS there
 * is no such limit at first; then there are no faults at all, and the program has to come to rest
 * before long.
 *
 *     OOM        a piece of memory, a frame or a stack is not there; or none is from here on
 *     CANCEL     the running task is cancelled where it calls kin, or as soon as it has parked
 *     FAIL       the running task fails where it calls kin, as by kin_fail; never the first task,
 *                whose end is the verdict
 *     PANIC      the running task panics there
 *     DEADLINE   the next deadline comes though somebody could run
 *     BUDGET     a metered operation finds its budget used up
 *     FILE       a call on a file fails, is short or finds the disk full: lab/file.c
 *     DELAY      the clock is one of those who can go on, as long as anybody waits for it; in
 *                sweeps, where every fault is a choice, as DEADLINE
 */
#include "lab/world.h"

#include "base/text.h"
#include "sched/entry.h"
#include "task/extra.h"

#include <kin/nursery.h>
#include <kin/task.h>

#include <errno.h>

#define CHAOS_STEPS 2000u               /* that chaos lasts, */
#define CHAOS_NS (INT64_C(10) * 1000000000) /* or so long */
#define QUIET_STEPS 100000u             /* after chaos, within which a program must end, */
#define QUIET_NS (INT64_C(3600) * 1000000000) /* and so long */
#define ROOT 1u                         /* the first task among the players */
#define DELAYS_MAX 64u                  /* that time passes early, in one execution */

static struct {
    uint32_t fired;
    uint32_t delays;
    bool is_dry;  /* there is no memory any more */
    bool is_busy; /* a fault is being made: that is not to go wrong */
    struct {
        const char *label;
        uint32_t player;
        uint64_t step;
    } first;
} faults;

void kin__lab_faults_begin(void)
{
    faults.fired = faults.delays = 0;
    faults.is_dry = faults.is_busy = false;
}

uint32_t kin__lab_faults_fired(void)
{
    return faults.fired + faults.delays;
}

void kin__lab_faults_tell(struct kin__text *out)
{
    if (faults.fired == 0)
        return;
    kin__text_printf(out, "fault:    %s, in step %llu, by %s", faults.first.label,
                     (unsigned long long)faults.first.step, kin__player_path(faults.first.player));
    if (faults.fired > 1)
        kin__text_printf(out, "; and %u more", faults.fired - 1);
    kin__text_end_line(out);
}

/* Whether anything may still go wrong. */
static bool is_time(void)
{
    const struct kin__world *w = &kin__world;
    if (!w->engine || !w->is_running || w->is_closed || faults.is_busy)
        return false;
    if (!(w->faults & KIN_FAULT_CHAOS))
        return faults.fired == 0;
    if (w->steps < CHAOS_STEPS && w->now - KIN__WORLD_START < CHAOS_NS)
        return true;
    kin__engine_caps(w->engine);
    return false;
}

/* Which of n - 1 faults happens here; 0: none. */
static uint32_t choose(uint32_t n, const char *label)
{
    struct kin__world *w = &kin__world;
    if (!is_time())
        return 0;
    /* Whether there was a fault already is something that steps have in common. */
    kin__lab_touch(&faults.fired, KIN__LAB_READ);
    uint32_t which = kin__engine_choose(w->engine, KIN__CHOICE_FAULT, n, label);
    if (!which || w->is_closed)
        return 0;
    kin__lab_touch(&faults.fired, KIN__LAB_WRITE);
    if (faults.fired++ == 0) {
        faults.first.label = label;
        faults.first.player = w->current;
        faults.first.step = w->steps;
    }
    kin__record(w->current, KIN__NOTE_FAULT, KIN__NOTE_NOBODY, NULL, label);
    return which;
}

static bool happens(const char *label)
{
    return choose(2, label) != 0;
}

/* A request for memory: this one fails, or this one and all that follow. */
static bool is_refused(const char *label)
{
    const struct kin__world *w = &kin__world;
    if (!faults.is_dry) {
        uint32_t which = choose(3, label);
        faults.is_dry = which == 2;
        return which != 0;
    }
    if (w->is_closed || faults.is_busy || ((w->faults & KIN_FAULT_CHAOS) && !is_time()))
        return false;
    kin__lab_touch(&faults.fired, KIN__LAB_READ);
    kin__record(w->current, KIN__NOTE_FAULT, KIN__NOTE_NOBODY, NULL, label);
    return true;
}

bool kin__lab_fault_slow(uint32_t kind, const char *label)
{
    return kind == KIN_FAULT_OOM ? is_refused(label) : happens(label);
}

bool kin__lab_fault_lingers(void)
{
    const struct kin__world *w = &kin__world;
    return (w->faults & KIN_FAULT_CHAOS) && (w->steps > CHAOS_STEPS + QUIET_STEPS ||
                                             w->now - KIN__WORLD_START > CHAOS_NS + QUIET_NS);
}

/* ---- what happens to the running task ---- */

static void cancel_self(struct kin__task *task)
{
    faults.is_busy = true;
    kin_ignore(kin_task_cancel((struct kin_task_ref){kin__task_id(task)}));
    faults.is_busy = false;
}

static void let_deadline_come(const char *label)
{
    struct kin__world *w = &kin__world;
    int64_t next = kin__load_relaxed(&w->worker->next_deadline); /* alone: there is one thread */
    if (next == KIN_NEVER || next <= w->now || !happens(label))
        return;
    kin__world_advance(next);
}

/* Time may pass here. */
static void let_time_pass(void)
{
    const struct kin__world *w = &kin__world;
    if (w->faults & KIN_FAULT_DEADLINE)
        let_deadline_come("deadline");
    if ((w->faults & KIN_FAULT_DELAY) && (w->faults & KIN_FAULT_EACH))
        let_deadline_come("delay");
}

/* Where a task calls kin it holds nothing of the runtime's: sched/entry.h. A cleanup does not fail:
 * what it gives back would be lost in every program. */
static void fail(const struct kin__task *task)
{
    const struct kin__world *w = &kin__world;
    bool is_cleaning = (task->flags & KIN__TASK_EXTRA) && task->extra->cleanups.floor != 0;
    if (kin__player_of(task) == ROOT || is_cleaning)
        return;
    if ((w->faults & KIN_FAULT_FAIL) && happens("fail"))
        kin_fail(-EIO, "planned");
    if ((w->faults & KIN_FAULT_PANIC) && happens("panic"))
        kin_panic("planned");
}

void kin__lab_fault_point(bool may_fail)
{
    struct kin__world *w = &kin__world;
    struct kin__task *task = kin__worker_current(w->worker);
    if (!task || !is_time() || (task->flags & KIN__TASK_INTERNAL))
        return;
    if ((w->faults & KIN_FAULT_CANCEL) && happens("cancel"))
        cancel_self(task);
    let_time_pass();
    if (may_fail)
        fail(task);
}

void kin__lab_fault_parks(struct kin__task *task)
{
    if (task->flags & KIN__TASK_INTERNAL)
        return;
    if ((kin__world.faults & KIN_FAULT_CANCEL) && happens("cancel"))
        cancel_self(task);
    let_time_pass();
}

bool kin__lab_exhausts(void)
{
    return kin__lab_fault_happens(KIN_FAULT_BUDGET, "budget");
}

/* ---- time ---- */

bool kin__lab_fault_delays(void)
{
    struct kin__world *w = &kin__world;
    if (w->is_closed || (w->faults & KIN_FAULT_EACH))
        return false;
    if (faults.delays == DELAYS_MAX && w->engine)
        kin__engine_caps(w->engine);
    return faults.delays < DELAYS_MAX;
}

void kin__lab_fault_delayed(void)
{
    faults.delays++;
    kin__record(KIN__NOTE_NOBODY, KIN__NOTE_FAULT, KIN__NOTE_NOBODY, NULL, "delay");
}
