/* SPDX-License-Identifier: MIT */
/*
 * Oracles: what must hold in every execution, whatever the program is for.
 *
 *     at every idle point   nobody can go on now: whoever waits must have a reason to
 *         lost-wake             it was woken and is not runnable, or what it waits for is there
 *         cancellation-bounded  it was asked to stop, and its wait does not hold that back
 *     somebody is woken     fifo: nobody waits longer for the same thing
 *     nothing will happen   deadlock: who waits for what, and who holds it
 *     now and then          starvation, livelock, cancellation-bounded; quiescence after chaos
 *     after each step       budget-conservation, if an account has changed
 *     a nursery is joined   no-orphan, loser-drain, error-priority
 *     a combinator returns  loser-drain: what each branch returned is told
 *     the runtime is over   no-orphan, quiescence, obligation-leak
 *     the end               leak (heap.c, and frames), linearizability (history.c)
 *
 * Others are where the thing happens: double-enqueue in worker.c, use-after-free in heap.c,
 * lifo-cleanup in lifo.c.
 */
#include "lab/oracle.h"

#include "base/text.h"
#include "lab/fds.h"
#include "lab/history.h"
#include "lab/world.h"
#include "park/peek.h"
#include "scope/account.h"
#include "scope/scope.h"
#include "task/extra.h"
#include "wait/mutex.h"
#include "wait/owner.h"
#include "wait/timer.h"

#include <kin/combine.h>

#include <string.h>

#define STARVE_EVERY 10000u /* steps between two looks */
#define STARVE_STEPS 1000u  /* that a runnable task may be passed over, */
#define STARVE_EACH 64u     /* and so many for each that is runnable */
#define IDLE_MAX 50000u     /* steps in a row that change nothing */
#define DRAIN_STEPS 20000u  /* of its own that a task may make after it was told to stop */
#define FAIR_MAX 256u       /* with more tasks nobody looks who waits longest */
#define ACCOUNTS_MAX 64u    /* with more nobody adds up what they hold */
#define DRAINED_MAX 4096u   /* with more tasks nobody looks what branches returned */

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
    const char *fd = kin__sim_waits(&waits);
    kin__text_printf(text, " waits for %s%s", fd ? fd : waits.ops->what,
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

static struct kin__readiness *known; /* what can be waited for */

void kin__readiness_add(struct kin__readiness *of)
{
    static const char *const fair[] = {"channel: send", "channel: receive", "queue: send",
                                       "broadcast: send", "semaphore", "condition", "mutex",
                                       "rwlock"};
    for (size_t i = 0; i < sizeof(fair) / sizeof(fair[0]); i++)
        of->is_fair |= strcmp(of->ops->what, fair[i]) == 0;
    of->next = known;
    known = of;
}

static const struct kin__readiness *readiness_of(const struct kin__waitable *ops)
{
    const struct kin__readiness *of = known;
    while (of && of->ops != ops)
        of = of->next;
    return of;
}

/* What is there although the task waits for it, in words; NULL: nothing is known to be. */
static const char *what_is_there(const struct kin__player *player, const char **what)
{
    for (uint32_t i = 0; i < player->case_count; i++) {
        const struct kin__case *one = &player->cases[i];
        const struct kin__readiness *of = readiness_of(one->ops);
        const char *why = of ? of->why(one->object, &one->waiter) : NULL;
        *what = one->ops->what;
        if (why)
            return why;
    }
    return NULL;
}

static void look_at_parked(const struct kin__player *player)
{
    const struct kin__task *task = player->task;
    uint64_t word = kin__load_relaxed(&task->ctl); /* alone: there is one thread */
    struct kin__waits waits;
    const char *what = NULL;
    if (word & KIN__CLAIMED) {
        kin__world_failf("lost-wake", KIN_PANICKED, player->path,
                         "%s was woken, and is not runnable", player->path);
        return;
    }
    if (!kin__wait_peek(task, &waits))
        return;
    const char *there = what_is_there(player, &what);
    if (there && kin__world_looks(KIN_ORACLE_WAKE)) {
        kin__world_failf("lost-wake", KIN_PANICKED, player->path, "%s waits for %s, but %s",
                         player->path, what, there);
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
    struct kin__lab_gate gate = kin__lab_gate; /* what is looked at here is no part of a step */
    kin__lab_gate.records = 0;
    for (uint32_t i = 1; i < w->player_count && !w->is_closed; i++) {
        if (w->players[i].task && w->players[i].place == KIN__WORLD_NOBODY)
            look_at_parked(&w->players[i]);
    }
    if (!w->is_closed)
        kin__lab_gate = gate;
}

/* ---- whoever waits longest goes first ---- */

static bool waits_for(const struct kin__player *player, const struct kin__case *that)
{
    for (uint32_t i = 0; i < player->case_count; i++) {
        if (player->cases[i].ops == that->ops && player->cases[i].object == that->object)
            return true;
    }
    return false;
}

void kin__oracle_woken(const struct kin__player *player)
{
    const struct kin__world *w = &kin__world;
    uint32_t won = player->task->wait_case;
    if (won >= player->case_count || player->task->wait_status < 0 || w->player_count > FAIR_MAX)
        return;
    const struct kin__case *that = &player->cases[won];
    for (uint32_t i = 1; i < w->player_count; i++) {
        const struct kin__player *other = &w->players[i];
        if (other->place != KIN__WORLD_NOBODY || other->arrived >= player->arrived ||
            !other->case_count || !other->task || !waits_for(other, that))
            continue;
        /* alone: there is one thread; who is claimed is on its way */
        if (kin__load_relaxed(&other->task->ctl) & KIN__CLAIMED)
            continue;
        const struct kin__readiness *of = readiness_of(that->ops);
        if (!of || !of->is_fair)
            return;
        kin__world_failf("fifo", KIN_PANICKED, other->path,
                         "%s has waited for %s longer than %s, which goes first", other->path,
                         that->ops->what, player->path);
        return;
    }
}

/* ---- now and then ---- */

void kin__oracle_chaos(void)
{
    if (kin__world_looks(KIN_ORACLE_PROGRESS) && kin__lab_fault_lingers())
        kin__world_fail("quiescence", KIN_STUCK, kin__player_path(kin__world.current),
                        "faults have long stopped, and the test does not come to rest");
}

/* Whether everybody who can go on has had a turn in the last so many steps. */
static bool has_everybody_run(uint64_t steps)
{
    const struct kin__world *w = &kin__world;
    for (uint32_t i = 0; i < w->enabled_count; i++) {
        if (w->players[w->enabled[i]].ran + steps < w->steps)
            return false;
    }
    return true;
}

/* Tasks that were told to stop and do not. A schedule that passes over somebody for that long says
 * nothing about them: they may wait for just that one. The count begins again then. */
static void look_at_asked(void)
{
    struct kin__world *w = &kin__world;
    for (uint32_t i = 0; i < w->enabled_count && kin__world_looks(KIN_ORACLE_CANCEL); i++) {
        struct kin__player *player = &w->players[w->enabled[i]];
        /* alone: there is one thread */
        if (!player->task || !(kin__load_relaxed(&player->task->ctl) & KIN__REQUESTS))
            player->asked = 0;
        else if (!player->asked)
            player->asked = player->switches + 1;
        else if (player->switches <= player->asked + DRAIN_STEPS)
            continue;
        else if (!has_everybody_run(DRAIN_STEPS / 2))
            player->asked = player->switches + 1;
        else
            kin__world_failf("cancellation-bounded", KIN_STUCK, player->path,
                             "%s was asked to stop, and has gone on for %u steps", player->path,
                             DRAIN_STEPS);
    }
}

void kin__oracle_step(void)
{
    struct kin__world *w = &kin__world;
    if (KIN__UNLIKELY(w->faults & KIN_FAULT_CHAOS))
        kin__oracle_chaos();
    if (!kin__world_looks(KIN_ORACLE_PROGRESS))
        return;
    if (w->idle > IDLE_MAX && has_everybody_run(w->idle / 2)) { /* nothing will come */
        kin__world_failf("livelock", KIN_STUCK, kin__player_path(w->current),
                         "%llu steps in a row have changed nothing: everybody who can run only "
                         "looks, and time passes only when nobody can run; wait for what is looked "
                         "at, by an event, a channel, kin_sleep or a deadline",
                         (unsigned long long)w->idle);
        return;
    }
    look_at_asked();
    if (w->is_closed || !w->is_fair || w->steps % STARVE_EVERY != 0)
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

/* ---- budgets ---- */

/* All accounts that there are: of tasks, and of nurseries. */
static struct {
    struct kin__account *all[ACCOUNTS_MAX];
    uint32_t count;
} accounts;

/* Once each; false: there are too many. */
static bool add_account(struct kin__account *account)
{
    for (uint32_t i = 0; i < accounts.count; i++) {
        if (accounts.all[i] == account)
            return true;
    }
    if (accounts.count == ACCOUNTS_MAX)
        return false;
    accounts.all[accounts.count++] = account;
    return true;
}

static bool add_pool(const struct kin__scope *scope)
{
    return !scope || !(scope->has & KIN__SCOPE_METERED) || !scope->pool || add_account(scope->pool);
}

static bool find_accounts(void)
{
    const struct kin__world *w = &kin__world;
    accounts.count = 0;
    for (uint32_t i = 1; i < w->player_count; i++) {
        const struct kin__task *task = w->players[i].task;
        if (!task)
            continue;
        if ((task->flags & KIN__TASK_METERED) && !add_account(&task->extra->account))
            return false;
        if (!add_pool(kin__load_relaxed(&task->scope))) /* alone: there is one thread */
            return false;
        /* alone: as above; ends: at the outermost */
        for (const struct kin__scope *scope = kin__load_relaxed(&task->inner); scope;
             scope = scope->outer) {
            if (!add_pool(scope))
                return false;
        }
    }
    return true;
}

/* What others hold of a part that came from this account. */
static uint64_t held_by_others(const struct kin__account *account, unsigned part)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < accounts.count; i++) {
        const struct kin__account *other = accounts.all[i];
        if (kin__purse_side(other->source, part) == account)
            sum = kin__amount_sum(sum, other->given.of[part]);
    }
    return sum;
}

void kin__oracle_accounts(void)
{
    static const char *const parts[] = {"operations", "memory", "spawns", "channel operations",
                                        "system calls"};
    kin__world.has_paid = false;
    if (!kin__world_looks(KIN_ORACLE_BUDGET) || !find_accounts())
        return;
    for (uint32_t i = 0; i < accounts.count * KIN__PARTS && !kin__world.is_closed; i++) {
        const struct kin__account *account = accounts.all[i / KIN__PARTS];
        unsigned part = i % KIN__PARTS;
        uint64_t in = kin__amount_sum(account->given.of[part], account->minted.of[part]);
        uint64_t out = kin__amount_sum(account->left.of[part], held_by_others(account, part));
        if (in == KIN__UNLIMITED || out == KIN__UNLIMITED)
            continue;
        out += account->used.of[part] + account->owed.of[part];
        if (in != out)
            kin__world_failf("budget-conservation", KIN_PANICKED,
                             kin__player_path(kin__world.current),
                             "of %s %llu were granted, and %llu are left, in use or with others",
                             parts[part], (unsigned long long)in, (unsigned long long)out);
    }
}

void kin__lab_accounts(void)
{
    kin__world.has_paid = true;
}

/* ---- the end of a nursery ---- */

/* The table of priorities: the worst of what children ended with, the first of several; else that
 * it was cancelled, and why if that was not from outside [E1]; else that all is well [NSM:4.4]. */
static void look_at_outcome(const struct kin__scope *scope)
{
    const struct kin__handle *handle = scope->handle;
    const struct kin__failure *errors = handle->more ? handle->more->errors : handle->errors;
    struct kin__failure due = {0, 0, KIN_SEV_OK};
    for (uint32_t i = 0; i < handle->errors_kept; i++) {
        if (errors[i].severity > due.severity)
            due = errors[i];
    }
    if (due.severity == KIN_SEV_OK && handle->state == KIN_NURSERY_CANCELLED)
        due = (struct kin__failure){0, kin__cancel_status(scope), KIN_SEV_CANCELLED};
    const struct kin__failure *said = &handle->outcome;
    bool is_known = handle->errors_dropped == 0 || said->severity <= due.severity;
    if (is_known && (said->status != due.status || said->severity != due.severity))
        kin__world_failf("error-priority", KIN_PANICKED, kin__player_path(kin__world.current),
                         "the join says %s, but the worst end of a child was %s",
                         kin_status_name(said->status), kin_status_name(due.status));
}

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
    kin__oracle_names();
    if (scope->handle && kin__world_looks(KIN_ORACLE_RESULT))
        look_at_outcome(scope);
}

/* ---- the end of a combinator ---- */

/* The one who had this name and has ended; NULL: nobody. The newest first: they are meant. */
static const struct kin__player *ended_as(uint64_t name)
{
    const struct kin__world *w = &kin__world;
    for (uint32_t i = w->player_count; i-- > 1;) {
        if (w->players[i].how.task == name)
            return &w->players[i];
    }
    return NULL;
}

/* Whoever called it is told what every branch has returned, also that of those who lost [D1]. */
void kin__lab_drained(const struct kin_branch *branches, size_t count)
{
    const struct kin__world *w = &kin__world;
    bool is_looking = w->is_running && w->player_count <= DRAINED_MAX;
    for (size_t i = 0; i < count && is_looking && kin__world_looks(KIN_ORACLE_CANCEL); i++) {
        const struct kin_outcome *said = &branches[i].out;
        const struct kin__player *player = said->task ? ended_as(said->task) : NULL;
        if (!said->task)
            continue; /* it was never started */
        if (!player)
            kin__world_failf("loser-drain", KIN_ORPHAN, kin__player_path(w->current),
                             "branch %zu is not over, and its combinator has returned", i);
        else if (said->severity != player->how.severity || said->status != player->how.status ||
                 said->value != player->how.value)
            kin__world_failf("loser-drain", KIN_PANICKED, player->path,
                             "%s has ended with %s, %lld, and the caller of its combinator is told "
                             "%s, %lld", player->path, kin_status_name(player->how.status),
                             (long long)player->how.value, kin_status_name(said->status),
                             (long long)said->value);
    }
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
    kin__oracle_names();
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
    kin__history_end();
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
