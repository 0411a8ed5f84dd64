/* SPDX-License-Identifier: MIT */
/*
 * What a supervisor does with one child: starts it, adopts it, asks it to stop.
 *
 *     start    a task of its own in the supervisor's nursery runs the start function, so that the
 *              supervisor answers others meanwhile. However that task ends, even if it never ran,
 *              its first cleanup, which runs last, posts the note of the child to the supervisor
 *     adopt    the supervisor monitors what the start function has given it. The frame of a task
 *              that was named is kept in its nursery, so that the monitor of one that is over
 *              already still says how it ended; after that the frame is forgotten
 *     stop     the ladder of [D10]: a cancel; after the child's shutdown time a cancel that no mask
 *              holds back; after five seconds more the report N2002. Nobody is ever let go of
 */
#include "otp/supervisor.h"

#include "plat/plat.h"
#include "scope/belongings.h"
#include "scope/capability.h"
#include "scope/scope.h"

#include <kin/budget.h>

#include <errno.h>
#include <string.h>

#define LOOK_AGAIN KIN_MS(10) /* for the end of a child that could not be watched */
#define SHUTDOWN_DEFAULT KIN_SEC(5)

int64_t kin__sup_report_ns = KIN_SEC(5);

/* ---- starting ---- */

/* The cleanup of the task that starts a child: says how that went. Perhaps without a task. */
static void post_result(void *arg)
{
    struct kin__kid *child = arg;
    struct kin__task *self = kin__task_self();
    if (self) {
        if (self->flags & KIN__TASK_FAILED)
            child->start_status = self->status;
        child->start_panicked = (self->flags & KIN__TASK_PANICKED) != 0;
        if (self->flags & KIN__TASK_FAILED)
            kin__child_keep_words(child, kin__words_said(self, self->status));
        self->flags &= (uint16_t)~KIN__TASK_KEPT; /* nobody will ask it by its name any more */
    }
    kin__server_post(child->sup->id, &child->note); /* from here on the child may be gone */
}

/* The task that starts a child. */
static int start_main(void *arg)
{
    struct kin__kid *child = arg;
    struct kin_addr addr = {0, 0};
    child->start_status = KIN_CANCELLED;
    int rc = child->start(&child->sup->nursery, child->arg, &addr);
    bool is_nobody = addr.id == 0 || addr.id == child->sup->id || addr.node != 0;
    if (rc > 0 || (rc == 0 && is_nobody)) {
        kin__child_tell_start(child, rc);
        rc = -EBADMSG;
    }
    child->start_addr = addr;
    child->start_status = rc;
    return 0;
}

/* Nobody waits for the note any more: a supervisor outlives the tasks that start its children. */
static void drop_note(struct kin__note *note)
{
    (void)note;
}

static uint64_t half(uint64_t amount, uint64_t unlimited)
{
    return amount == unlimited ? amount : amount / 2;
}

struct kin_budget kin__half_of(const struct kin_budget *left)
{
    return (struct kin_budget){.ops = half(left->ops, UINT64_MAX),
                               .memory = half(left->memory, UINT64_MAX),
                               .spawns = (uint32_t)half(left->spawns, UINT32_MAX),
                               .channel_ops = (uint32_t)half(left->channel_ops, UINT32_MAX),
                               .syscalls = (uint32_t)half(left->syscalls, UINT32_MAX)};
}

/* Where a task has what it was given and nothing else, one that starts a child gets half of what
 * the supervisor has, and gives back what it does not use. */
static void share(struct kin_spawn_options *options)
{
    struct kin_budget left = kin_budget_left();
    uint32_t caps = kin_caps();
    options->caps = caps ? caps : KIN_CAP_NONE;
    options->budget = kin__half_of(&left);
}

void kin__child_start(struct kin__kid *child)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_task_ref ref = {0};
    options.name = "kin: child start";
    options.cleanup = post_result;
    if (kin__profile_is_strict(child->sup->sched))
        share(&options);
    kin__child_set(child, KIN__CHILD_STARTING, child->is_wanted);
    kin__sup_alarm_off(child->sup, &child->alarm);
    child->asked = KIN__CHILD_UNASKED;
    child->note.done = drop_note;
    child->start_status = KIN_CANCELLED; /* unless it begins */
    child->start_panicked = false;
    child->task = 0;
    int rc = kin_spawn_with(&child->sup->nursery, &options, start_main, child, 0, &ref);
    if (rc == 0) {
        child->task = ref.id;
        return;
    }
    child->start_status = rc;
    kin__server_post(child->sup->id, &child->note);
}

/* The code that has spawned a task, as long as its frame is there. */
static const void *site_of(uint64_t id)
{
    struct kin__task *task;
    struct kin__scope *scope = kin__scope_lock_of(id, &task);
    const void *site = scope ? task->site : NULL;
    if (scope)
        kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return site;
}

/* The supervisor at this address, if the child is one: a reference. */
static struct kin__sup *take_below(struct kin__sup *sup, uint64_t id)
{
    struct kin__sup *found = NULL;
    struct kin__scope *scope = kin__scope_lock(kin__handle_of(&sup->nursery));
    if (!scope)
        return NULL;
    KIN__LIST_EACH(link, &sup->below) {
        struct kin__sup *below = KIN__CONTAINER_OF(link, struct kin__sup, below_next);
        if (below->id != id)
            continue;
        kin__list_remove(link);
        found = below;
        break;
    }
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return found;
}

bool kin__child_adopt(struct kin__kid *child)
{
    struct kin__sup *sup = child->sup;
    child->addr = child->start_addr;
    child->task = child->addr.id;
    child->below = take_below(sup, child->task);
    child->site = site_of(child->task);
    int rc = kin_monitor(child->addr, &child->ref);
    if (rc == 0) {
        kin__child_set(child, KIN__CHILD_RUNNING, false);
        kin__child_task_enter(child);
        child->started_at = kin__clock_now();
        return true;
    }
    /* Nobody would hear of its end: it is as if it had not been started. */
    child->start_status = rc;
    child->is_blind = true;
    (void)kin_task_cancel((struct kin_task_ref){child->task});
    (void)kin__task_kill(child->task);
    kin__sup_alarm_set(sup, &child->alarm, kin__clock_after(LOOK_AGAIN));
    return false;
}

bool kin__child_is_gone(struct kin__kid *child)
{
    struct kin__task *task;
    struct kin__scope *scope = kin__scope_lock_of(child->task, &task);
    bool is_over = !scope || task->over;
    if (scope)
        kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    if (!is_over)
        kin__sup_alarm_set(child->sup, &child->alarm, kin__clock_after(LOOK_AGAIN));
    return is_over;
}

/* Nobody will ask any more how it ended; unless it lived in the nursery of somebody else, who
 * may. */
static void forget(struct kin__kid *child)
{
    struct kin__task *task;
    struct kin__scope *scope = kin__scope_lock_of(child->task, &task);
    bool is_ours = scope && scope->handle == kin__handle_of(&child->sup->nursery);
    if (scope)
        kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    if (is_ours)
        kin__task_forget(child->task);
}

void kin__child_rested(struct kin__kid *child)
{
    kin__sup_alarm_off(child->sup, &child->alarm);
    if (child->state == KIN__CHILD_RUNNING)
        kin__child_task_leave(child);
    if (child->state == KIN__CHILD_RUNNING || child->is_blind)
        forget(child);
    if (child->below)
        kin__sup_unref(child->below);
    child->below = NULL;
    child->is_blind = false;
    child->task = 0;
    kin__child_set(child, KIN__CHILD_REST, child->is_wanted);
}

/* ---- stopping ---- */

/* How long it may take to stop. A supervisor takes as long as its children do. */
static kin_time patience_for(const struct kin__kid *child)
{
    int64_t most = child->shutdown ? child->shutdown : child->below ? KIN_NEVER : SHUTDOWN_DEFAULT;
    return most == KIN_NEVER ? KIN_NEVER : kin__clock_after(most);
}

void kin__child_stop(struct kin__kid *child)
{
    if (child->is_blind)
        return; /* it has been asked in every way there is */
    if (child->shutdown == KIN_BRUTAL) {
        child->asked = KIN__CHILD_CANCELLED;
        kin__child_hurry(child);
        return;
    }
    child->asked = KIN__CHILD_CANCELLED;
    kin__sup_alarm_set(child->sup, &child->alarm, patience_for(child));
    (void)kin_task_cancel((struct kin_task_ref){child->task});
}

void kin__child_hurry(struct kin__kid *child)
{
    if (child->asked <= KIN__CHILD_CANCELLED) {
        child->asked = KIN__CHILD_KILLED;
        kin__sup_alarm_set(child->sup, &child->alarm, kin__clock_after(kin__sup_report_ns));
        (void)kin__task_kill(child->task);
    } else if (child->asked == KIN__CHILD_KILLED) {
        child->asked = KIN__CHILD_REPORTED;
        kin__task_overdue(child->sup->sched, child->task);
    }
}
