/* SPDX-License-Identifier: MIT */
/*
 * Oracles: what must hold in every execution, whatever the program is for.
 *
 *     at every idle point   nobody can go on now: whoever waits must have a reason to
 *         lost-wake             it was woken and is not runnable, or what it waits for is there
 *         cancellation-bounded  it was asked to stop, and its wait does not hold that back
 *     nothing will happen   deadlock: who waits for what, and who holds it
 *     now and then          starvation, livelock
 *     a nursery is joined   no-orphan, loser-drain, error-priority
 *     the runtime is over   no-orphan, quiescence, obligation-leak
 *     the end               leak (heap.c, and frames)
 *
 * Others are where the thing happens: double-enqueue in worker.c, use-after-free in heap.c.
 */
#include "lab/oracle.h"

#include "base/text.h"
#include "lab/world.h"
#include "park/peek.h"
#include "scope/scope.h"
#include "wait/chan.h"
#include "wait/event.h"
#include "wait/mutex.h"
#include "wait/owner.h"
#include "wait/timer.h"

#define STARVE_EVERY 10000u /* steps between two looks */
#define STARVE_STEPS 1000u  /* that a runnable task may be passed over, */
#define STARVE_EACH 64u     /* and so many for each that is runnable */
#define IDLE_MAX 50000u     /* steps in a row that change nothing */

/* ---- who waits for what ---- */

/* The holder of the mutex that a task waits for; NULL: it waits for none, or nobody holds it. */
static const struct kin__task *holder_of(const struct kin__waits *waits)
{
    if (waits->ops->what != kin__owner_what_mutex)
        return NULL;
    uint64_t owner = *(const uint64_t *)waits->object & KIN__OWNER_MASK;
    const struct kin__task *task = owner ? kin__task_find(owner) : NULL;
    return task ? task : owner ? kin__task_find(owner | ~KIN__OWNER_MASK) : NULL;
}

static bool is_joining(const struct kin__waits *waits)
{
    return waits->ops == &kin__join_waitable;
}

static void put_children(struct kin__text *text, const struct kin__scope *scope)
{
    const char *before = " with ";
    for (const struct kin__list *link = scope->children.next; link != &scope->children;
         link = link->next) {
        if (link == &scope->cursor)
            continue;
        const struct kin__task *child =
            KIN__CONTAINER_OF((struct kin__list *)(uintptr_t)link, struct kin__task, sibling);
        kin__text_printf(text, "%s%s", before, kin__player_path(kin__player_of(child)));
        before = ", ";
    }
}

/* One task: "root/1 waits for mutex, held by root/2". */
static void put_wait(struct kin__text *text, const struct kin__player *player)
{
    struct kin__waits waits;
    kin__text_str(text, player->path);
    if (player->task->flags & KIN__TASK_NAMED)
        kin__text_printf(text, " (%s)", player->task->name);
    if (!kin__wait_peek(player->task, &waits)) {
        kin__text_str(text, " is not parked");
        return;
    }
    kin__text_printf(text, " waits for %s%s", waits.ops->what,
                     waits.is_several ? " and others" : "");
    const struct kin__task *holder = holder_of(&waits);
    if (holder)
        kin__text_printf(text, " held by %s", kin__player_path(kin__player_of(holder)));
    if (is_joining(&waits))
        put_children(text, waits.object);
}

static void put_waits(struct kin__text *text, const char *between)
{
    const struct kin__world *w = &kin__world;
    bool is_first = true;
    for (uint32_t i = 0; i < w->player_count && !kin__text_is_full(text); i++) {
        if (!w->players[i].task)
            continue;
        if (!is_first)
            kin__text_str(text, between);
        is_first = false;
        put_wait(text, &w->players[i]);
    }
}

/* The first task that waits for something else than its own children. */
static const char *first_stuck(void)
{
    const struct kin__world *w = &kin__world;
    for (uint32_t i = 0; i < w->player_count; i++) {
        struct kin__waits waits;
        const struct kin__task *task = w->players[i].task;
        if (task && kin__wait_peek(task, &waits) && !is_joining(&waits))
            return w->players[i].path;
    }
    return "root";
}

/* Follows holders of mutexes from a task on; "" when they lead nowhere. */
static void put_ring(struct kin__text *text)
{
    const struct kin__world *w = &kin__world;
    for (uint32_t i = 0; i < w->player_count; i++) {
        const struct kin__task *first = w->players[i].task, *task = first;
        struct kin__waits waits;
        uint32_t length = 0;
        while (task && length++ < w->player_count && kin__wait_peek(task, &waits)) {
            task = holder_of(&waits);
            if (task != first)
                continue;
            kin__text_str(text, "a ring: ");
            do { /* ends: it leads back to the first */
                kin__text_printf(text, "%s -> ", kin__player_path(kin__player_of(task)));
                (void)kin__wait_peek(task, &waits);
                task = holder_of(&waits);
            } while (task && task != first);
            kin__text_printf(text, "%s; ", kin__player_path(kin__player_of(first)));
            return;
        }
    }
}

void kin__oracle_stuck(void)
{
    char memory[2048];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    put_waits(&text, "\n");
    if (kin__record_is_on)
        kin__record_waits(memory);
    kin__text_init(&text, memory, 480);
    put_ring(&text);
    put_waits(&text, "; ");
    if (kin__world.oracles & KIN_ORACLE_DEADLOCK)
        kin__world_fail("deadlock", KIN_DEADLOCK, first_stuck(), memory);
}

/* ---- whoever waits has a reason to ---- */

/* Whether somebody else than the task is in a queue. */
static bool has_other(const struct kin__waitq *queue, const struct kin__task *task)
{
    if (kin__waitq_is_empty(queue))
        return false;
    for (const struct kin__list *link = queue->list.next; link != &queue->list;
         link = link->next) {
        if (KIN__CONTAINER_OF((struct kin__list *)(uintptr_t)link, struct kin__waiter, link)
                ->task != task)
            return true;
    }
    return false;
}

/* What is there although the task waits for it, in words; NULL: nothing is known to be. */
static const char *what_is_there(const struct kin__task *task, const struct kin__waits *waits)
{
    if (waits->ops == &kin__chan_recv_waitable) {
        const struct kin_chan *chan = waits->object;
        if (kin__chan_count(chan) > 0)
            return "the channel has an item";
        if (kin__chan_state(chan) & KIN__CHAN_CLOSED)
            return "the channel is closed";
        return has_other(&chan->senders, task) ? "a sender waits" : NULL;
    }
    if (waits->ops == &kin__chan_send_waitable) {
        const struct kin_chan *chan = waits->object;
        if (kin__chan_count(chan) < chan->capacity)
            return "the channel has room";
        return has_other(&chan->receivers, task) ? "a receiver waits" : NULL;
    }
    if (is_joining(waits)) {
        const struct kin__scope *scope = waits->object;
        uint64_t word = kin__load_relaxed(&scope->word); /* alone: there is one thread */
        return kin__scope_live(word) == 0 ? "nobody is left in the nursery" : NULL;
    }
    return NULL;
}

static void look_at_parked(const struct kin__player *player)
{
    const struct kin__task *task = player->task;
    uint64_t word = kin__load_relaxed(&task->ctl); /* alone: there is one thread */
    struct kin__waits waits;
    if (word & KIN__CLAIMED) {
        kin__world_failf("lost-wake", KIN_PANICKED, player->path,
                         "%s was woken, and is not runnable", player->path);
        return;
    }
    if (!kin__wait_peek(task, &waits))
        return;
    const char *there = what_is_there(task, &waits);
    if (there && kin__world_looks(KIN_ORACLE_WAKE)) {
        kin__world_failf("lost-wake", KIN_PANICKED, player->path, "%s waits for %s, but %s",
                         player->path, waits.ops->what, there);
        return;
    }
    /* A wait that is shielded may be one that nothing ends, such as a join. */
    if ((word & KIN__REQUESTS) && !(word & KIN__SHIELD) && kin__world_looks(KIN_ORACLE_CANCEL))
        kin__world_failf("cancellation-bounded", KIN_STUCK, player->path,
                         "%s was asked to stop, and still waits for %s", player->path,
                         waits.ops->what);
}

void kin__oracle_idle(void)
{
    const struct kin__world *w = &kin__world;
    if (!kin__world_looks(KIN_ORACLE_WAKE | KIN_ORACLE_CANCEL))
        return;
    for (uint32_t i = 1; i < w->player_count && !w->is_closed; i++) {
        if (w->players[i].task && w->players[i].place == KIN__WORLD_NOBODY)
            look_at_parked(&w->players[i]);
    }
}

/* ---- now and then ---- */

void kin__oracle_step(void)
{
    struct kin__world *w = &kin__world;
    if (!kin__world_looks(KIN_ORACLE_PROGRESS))
        return;
    if (w->idle > IDLE_MAX) {
        kin__world_failf("livelock", KIN_STUCK, kin__player_path(w->current),
                         "%llu steps in a row have changed nothing",
                         (unsigned long long)w->idle);
        return;
    }
    if (!w->is_fair || w->steps % STARVE_EVERY != 0)
        return;
    uint64_t patience = STARVE_STEPS + (uint64_t)STARVE_EACH * w->enabled_count;
    for (uint32_t i = 0; i < w->enabled_count; i++) {
        const struct kin__player *player = &w->players[w->enabled[i]];
        uint64_t last = player->ran > player->since ? player->ran : player->since;
        if (w->steps - last > patience) {
            kin__world_failf("starvation", KIN_STUCK, player->path,
                             "%s is runnable and was passed over for %llu steps", player->path,
                             (unsigned long long)(w->steps - last));
            return;
        }
    }
}

/* ---- the end of a nursery ---- */

void kin__lab_joined(const struct kin__scope *scope)
{
    const struct kin__world *w = &kin__world;
    if (!w->is_running || w->is_closed)
        return;
    const struct kin__list *first = scope->children.next;
    if (first != &scope->children && kin__world_looks(KIN_ORACLE_ORPHAN)) {
        const struct kin__task *child =
            KIN__CONTAINER_OF((struct kin__list *)(uintptr_t)first, struct kin__task, sibling);
        const char *path = kin__player_path(kin__player_of(child));
        bool is_branch = scope->has & KIN__SCOPE_COUNTS;
        kin__world_failf(is_branch ? "loser-drain" : "no-orphan", KIN_ORPHAN, path,
                         "the nursery that %s is in was joined before its end", path);
        return;
    }
    const struct kin__handle *handle = scope->handle;
    if (!handle || !kin__world_looks(KIN_ORACLE_RESULT) || handle->errors_dropped)
        return;
    const struct kin__failure *errors = handle->more ? handle->more->errors : handle->errors;
    const struct kin__failure *worst = NULL;
    for (uint32_t i = 0; i < handle->errors_kept; i++) {
        if (!worst || errors[i].severity > worst->severity)
            worst = &errors[i];
    }
    const struct kin_outcome *said = &handle->outcome;
    if (worst && (said->status != worst->status || (int32_t)said->severity != worst->severity))
        kin__world_failf("error-priority", KIN_PANICKED, kin__player_path(w->current),
                         "the join says %s, but the worst end of a child was %s",
                         kin_status_name(said->status), kin_status_name(worst->status));
}

/* ---- the end of a runtime ---- */

void kin__oracle_over(void)
{
    struct kin__world *w = &kin__world;
    for (uint32_t i = 1; i < w->player_count && kin__world_looks(KIN_ORACLE_ORPHAN); i++) {
        if (w->players[i].task) {
            kin__world_failf("no-orphan", KIN_ORPHAN, w->players[i].path,
                             "%s is not over, and the runtime is", w->players[i].path);
            return;
        }
    }
    uint64_t timers = kin__timer_count(w->worker);
    if (timers && kin__world_looks(KIN_ORACLE_ORPHAN))
        kin__world_failf("quiescence", KIN_LEAKED, "clock",
                         "%llu deadlines are still armed, and the runtime is over",
                         (unsigned long long)timers);
    /* alone: there is one thread */
    uint64_t leaks = kin__load_relaxed(&w->sched->leaks);
    if (leaks && kin__world_looks(KIN_ORACLE_OBLIGATION))
        kin__world_failf("obligation-leak", KIN_LEAKED, kin__player_path(w->leaker),
                         "%llu obligations were neither kept nor given up; the first by %s",
                         (unsigned long long)leaks, kin__player_path(w->leaker));
}

void kin__oracle_end(void)
{
    uint32_t used = kin__lab_frames_used();
    if (used && kin__world_looks(KIN_ORACLE_LEAK))
        kin__world_failf("leak", KIN_LEAKED, "root", "%u frames were not given back", used);
}

/* What the runtime has to say in an execution goes to nobody, but for who has leaked. */
void kin__oracle_report(const struct kin_report *report, void *arg)
{
    struct kin__world *w = &kin__world;
    (void)arg;
    if (report->status == KIN_LEAKED && w->leaker == KIN__WORLD_NOBODY)
        w->leaker = w->current;
}
