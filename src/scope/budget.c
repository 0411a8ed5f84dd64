/* SPDX-License-Identifier: MIT */
/*
 * Budgets: what a nursery and a child are given, what an operation costs, who may give more.
 *
 * Nothing is metered unless something is limited: a task has an account only if a budget in force
 * has a limit, if it lacks a capability, or if the profile is a strict one (all but service). Each
 * metered nursery has a bank, the accounts that its children draw from:
 *
 *     opened with a budget     a pool of its own, drawn from the owner
 *     without                  what bounds the owner: its own account if it was given one, and
 *                              otherwise the bank of the owner's own nursery [C3]
 *
 * So no task gets around its budget by spawning [SCHED:15.1.1], and none that was given one waits
 * with its children for what it holds itself. An account that refills by itself does so for those
 * that draw from it, too: its soft parts come from its source when they are used up
 * (scope/account.c). Each account has its sources, the bank of its nursery. A bank outlives
 * whatever draws from it, because a nursery outlives its children and an owner its nurseries.
 *
 * In service a child that was given no budget is pooled: it has next to nothing of its own and
 * takes from the bank as it goes, small portions while the pool is small. Everybody else has what
 * was drawn at the spawn. What an operation costs is taken when it begins, and all of it or nothing
 * [SCHED:3.3.1] [SCHED:8.2.1].
 */
#include "scope/budget.h"

#include "park/park.h"
#include "sched/entry.h"
#include "scope/belongings.h"
#include "scope/capability.h"
#include "task/budget.h"

#include <errno.h>

#define FREE_NURSERIES 16u /* so many a task has open for nothing */

static const struct kin__amounts nothing;
static const struct kin__amounts everything = {
    {KIN__UNLIMITED, KIN__UNLIMITED, KIN__UNLIMITED, KIN__UNLIMITED, KIN__UNLIMITED}};

static struct kin__account *account_of(struct kin__task *task)
{
    KIN__ASSERT(task->flags & KIN__TASK_METERED, "SCHED:3.1.1");
    return &task->extra->account;
}

int kin__budget_refuse(struct kin__task *task, enum kin_budget_part part)
{
    struct kin__extra *extra = kin__extra_need(task);
    if (extra) /* without memory for it nobody can ask afterwards */
        extra->account.exhausted = (uint8_t)part;
    return KIN_BUDGET;
}

/* ---- the pool of a nursery ---- */

/* What bounds the owner of a nursery: its own budget if it has one, else the pool it lives off. */
static struct kin__purse purse_of(struct kin__task *owner)
{
    if (!(owner->flags & KIN__TASK_METERED))
        return (struct kin__purse){NULL, NULL};
    struct kin__account *account = account_of(owner);
    return (struct kin__purse){account->is_pooled ? account->source.soft : account,
                               account->is_hard ? account : account->source.hard};
}

/* Charges the block of a nursery to its owner, unless it is among the first few that the owner has
 * open: the handle of a nursery lies on a stack as a rule, but one handle can be opened again and
 * again. 0, KIN_BUDGET, -ENOMEM. */
static int charge_block(struct kin__scope *scope, struct kin__task *owner)
{
    unsigned open = 0;
    scope->bill = (struct kin__bill){NULL, KIN__SCOPE_BYTES};
    /* ends: after a few */
    for (const struct kin__scope *at = scope->outer; at && open < FREE_NURSERIES; at = at->outer)
        open++;
    return open < FREE_NURSERIES ? 0 : kin__bill_take(&scope->bill, owner, KIN__SCOPE_BYTES);
}

/* Makes the pool of a nursery. */
static int make_pool(struct kin__scope *scope, struct kin__purse source,
                     const struct kin__amounts *amounts)
{
    struct kin__account *pool = kin__heap_alloc(sizeof(*pool));
    if (!pool)
        return -ENOMEM;
    kin__account_init(pool, source, amounts);
    scope->pool = pool;
    scope->bank = (struct kin__purse){pool, pool};
    return 0;
}

int kin__budget_open(struct kin__scope *scope, struct kin__task *owner,
                     const struct kin_nursery_options *options)
{
    bool has_budget = options && !kin__budget_is_default(&options->budget);
    if (!(owner->flags & KIN__TASK_METERED) && !has_budget &&
        !(options && (options->recharge || options->on_exhausted)))
        return 0;
    if (!(owner->caps & KIN_CAP_SPAWN))
        return KIN_NOCAP;
    enum kin_recharge recharge = options ? options->recharge : KIN_RECHARGE_PROFILE;
    if (recharge == KIN_RECHARGE_PROFILE)
        recharge = kin__profile_is_strict(kin__scope_sched(scope)) ? KIN_RECHARGE_MANUAL
                                                                    : KIN_RECHARGE_AUTO;
    scope->recharge = (uint8_t)recharge;
    scope->on_exhausted = (uint8_t)(options ? options->on_exhausted : KIN_EXHAUSTED_WAIT);
    scope->bank = purse_of(owner);
    scope->pool = NULL;
    scope->has |= KIN__SCOPE_METERED;
    int rc = charge_block(scope, owner);
    if (rc < 0 || !has_budget)
        return rc;
    struct kin__amounts amounts = kin__amounts_of(&options->budget);
    rc = make_pool(scope, purse_of(owner), &amounts);
    if (rc == 0) {
        enum kin_budget_part lacking = kin__purse_draw(purse_of(owner), &amounts);
        if (!lacking)
            return 0;
        kin__heap_free(scope->pool);
        rc = kin__budget_refuse(owner, lacking);
    }
    kin__bill_give(scope->bill);
    return rc;
}

void kin__budget_close(struct kin__scope *scope, struct kin__wakes *wakes)
{
    if (!(scope->has & KIN__SCOPE_METERED))
        return;
    kin__bill_give(scope->bill);
    scope->bill.payer = NULL;
    if (!scope->pool)
        return;
    kin__account_settle(scope->pool, wakes); /* [B13] */
    kin__heap_free(scope->pool);
    scope->pool = NULL;
    scope->bank = (struct kin__purse){NULL, NULL};
}

/* ---- the budget of a child ---- */

/* What a child has to begin with. */
struct share {
    struct kin__amounts amounts;
    enum kin__share how;
    bool is_pooled;  /* nothing of its own */
    bool is_hard;    /* what it is given bounds its nurseries, too */
    bool is_metered; /* false: it needs no account */
};

/* [SCHED:8.2.1]: what is given wins; otherwise the default of the profile [SCHED:10.2.2]. */
static struct share share_of(const struct kin__scope *scope,
                             const struct kin_spawn_options *options)
{
    static const struct kin__amounts standard = {
        {KIN_DEFAULT_OPS, KIN_DEFAULT_MEMORY, 0, KIN_DEFAULT_CHANNEL_OPS, KIN_DEFAULT_SYSCALLS}};
    struct kin__purse bank = kin__budget_bank(scope);
    bool is_strict = kin__profile_is_strict(kin__scope_sched(scope));
    if (options && !kin__budget_is_default(&options->budget))
        return (struct share){.amounts = kin__amounts_of(&options->budget),
                              .how = KIN__SHARE_EXACT, .is_hard = true, .is_metered = true};
    if (!is_strict && !bank.soft && !bank.hard)
        return (struct share){.amounts = everything, .how = KIN__SHARE_EXACT, .is_pooled = true};
    if (!is_strict && scope->recharge == KIN_RECHARGE_AUTO)
        return (struct share){.amounts = nothing, .how = KIN__SHARE_FITS, .is_pooled = true,
                              .is_metered = true};
    /* a child must not leave its owner with nothing */
    return (struct share){.amounts = standard,
                          .how = scope->pool ? KIN__SHARE_FITS : KIN__SHARE_HALF,
                          .is_hard = is_strict, .is_metered = true};
}

/* Uses one of a part of the phase that the task is in. False: it has none left. */
static bool use_phase(struct kin__account *account, enum kin__part part)
{
    uint64_t *left = account->phase ? &account->phase->of[part] : NULL;
    if (!left || *left == KIN__UNLIMITED)
        return true;
    if (*left == 0)
        return false;
    (*left)--;
    return true;
}

/* Takes that back. */
static void unuse_phase(struct kin__account *account, enum kin__part part)
{
    if (account->phase && account->phase->of[part] != KIN__UNLIMITED)
        account->phase->of[part]++;
}

/* One op of the spawner; spawns never wait. */
static int pay_for_spawn(struct kin__task *spawner)
{
    if (!spawner || !(spawner->flags & KIN__TASK_METERED))
        return 0;
    struct kin__account *account = account_of(spawner);
    if (!use_phase(account, KIN__PART_SPAWNS))
        return kin__budget_refuse(spawner, KIN_BUDGET_SPAWNS);
    if (!use_phase(account, KIN__PART_OPS)) {
        unuse_phase(account, KIN__PART_SPAWNS);
        return kin__budget_refuse(spawner, KIN_BUDGET_OPS);
    }
    if (kin__account_use(account, KIN__PART_OPS, 1))
        return 0;
    if (!account->refills ||
        !kin__account_refill(account, KIN__PART_OPS, kin__task_sched(spawner)->slice)) {
        unuse_phase(account, KIN__PART_SPAWNS);
        unuse_phase(account, KIN__PART_OPS);
        return kin__budget_refuse(spawner, KIN_BUDGET_OPS);
    }
    if (!account->is_pooled)
        spawner->slice = 1; /* it was recharged: behind the others at its next operation */
    return 0;
}

static void refund_spawner(struct kin__task *spawner, struct kin__wakes *wakes)
{
    if (!spawner || !(spawner->flags & KIN__TASK_METERED))
        return;
    unuse_phase(account_of(spawner), KIN__PART_SPAWNS);
    unuse_phase(account_of(spawner), KIN__PART_OPS);
    kin__account_unuse(account_of(spawner), KIN__PART_OPS, 1, wakes);
}

/* Fills in the account of a child that is admitted. */
static void give_account(const struct kin__scope *scope, struct kin__task *child,
                         const struct share *share, const struct kin_spawn_options *options)
{
    struct kin__account *account = &child->extra->account;
    struct kin__purse bank = kin__budget_bank(scope);
    bool is_metered = scope->has & KIN__SCOPE_METERED;
    kin__account_init(account, bank, &share->amounts);
    for (unsigned i = 0; share->is_pooled && i < KIN__PARTS; i++) {
        if (!kin__purse_side(bank, i))
            account->left.of[i] = account->given.of[i] = KIN__UNLIMITED;
    }
    account->is_pooled = share->is_pooled;
    account->is_hard = share->is_hard;
    account->refills =
        is_metered ? scope->recharge == KIN_RECHARGE_AUTO
                   : !kin__profile_is_strict(kin__scope_sched(scope));
    account->fails = is_metered && scope->on_exhausted == KIN_EXHAUSTED_FAIL;
    if (!share->is_pooled)
        account->quantum = share->amounts;
    account->limit = options ? kin__amounts_of(&options->recharge_limit) : nothing;
    account->is_given = options && !kin__budget_is_default(&options->budget);
    child->flags |= KIN__TASK_METERED;
    child->caps |= KIN__CAPS_ACCOUNT;
}

int kin__budget_admit_locked(struct kin__scope *scope, struct kin__task *spawner,
                             struct kin__task *child, const struct kin_spawn_options *options)
{
    uint16_t caps;
    int rc = kin__caps_of_child(scope, spawner, options, &caps);
    if (rc < 0)
        return rc;
    struct share share = share_of(scope, options);
    bool is_metered = share.is_metered || caps != KIN_CAP_ALL;
    if (is_metered && !kin__extra_need(child))
        return -ENOMEM;
    rc = pay_for_spawn(spawner);
    if (rc < 0)
        return rc;
    enum kin_budget_part lacking =
        kin__purse_admit(kin__budget_bank(scope), &share.amounts, share.how);
    if (lacking) {
        struct kin__wakes wakes = {0};
        refund_spawner(spawner, &wakes);
        kin__wakes_run(&wakes);
        return spawner ? kin__budget_refuse(spawner, lacking) : KIN_BUDGET;
    }
    child->caps = caps; /* before its argument is copied, which adds a bit */
    if (is_metered)
        give_account(scope, child, &share, options);
    return 0;
}

void kin__budget_dismiss_locked(struct kin__scope *scope, struct kin__task *spawner,
                                struct kin__task *child)
{
    struct kin__wakes wakes = {0};
    struct kin__account *bank = kin__budget_bank(scope).hard;
    if (child->flags & KIN__TASK_METERED) {
        child->flags &= (uint16_t)~KIN__TASK_METERED;
        child->caps &= (uint16_t)~KIN__CAPS_ACCOUNT;
        kin__account_settle(&child->extra->account, &wakes);
    }
    if (bank)
        kin__account_unuse(bank, KIN__PART_SPAWNS, 1, &wakes);
    refund_spawner(spawner, &wakes);
    kin__wakes_run(&wakes);
}

void kin__budget_settle(struct kin__task *task)
{
    struct kin__wakes wakes = {0};
    if (!(task->flags & KIN__TASK_METERED))
        return;
    struct kin__scope *scope = kin__load_relaxed(&task->scope); /* relaxed: constant */
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    task->caps &= (uint16_t)~KIN__CAPS_ACCOUNT; /* nobody else comes to the account any more */
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    kin__account_settle(account_of(task), &wakes);
    task->flags &= (uint16_t)~KIN__TASK_METERED;
    kin__wakes_run(&wakes);
}

int kin__budget_root(struct kin__scope *root, struct kin__task *first)
{
    const struct kin_config *config = &kin__scope_sched(root)->config;
    bool is_limited = !kin__budget_is_default(&config->budget);
    bool is_strict = kin__profile_is_strict(kin__scope_sched(root));
    struct share share = {.amounts = everything, .is_hard = true};
    uint32_t lacks = kin__thread_lacks(); /* whoever runs it may work for a task of another one */
    if (!is_limited && !is_strict && !lacks)
        return 0;
    first->caps &= (uint16_t)~lacks;
    if (!kin__extra_need(first))
        return -ENOMEM;
    root->recharge = (uint8_t)(is_strict ? KIN_RECHARGE_MANUAL : KIN_RECHARGE_AUTO);
    root->on_exhausted = KIN_EXHAUSTED_WAIT;
    root->bank = (struct kin__purse){NULL, NULL};
    root->pool = NULL;
    if (is_limited) {
        struct kin__amounts amounts = kin__amounts_of(&config->budget);
        int rc = make_pool(root, (struct kin__purse){NULL, NULL}, &amounts);
        if (rc < 0)
            return rc;
        share.is_pooled = !is_strict;
        share.is_hard = is_strict;
        share.amounts = is_strict ? amounts : nothing;
        (void)kin__purse_draw(root->bank, &share.amounts); /* all of it: it has no sibling */
    }
    root->bill = (struct kin__bill){NULL, 0};
    root->has |= KIN__SCOPE_METERED;
    give_account(root, first, &share, NULL);
    first->extra->account.limit = everything; /* nobody is above it who could say how much */
    return 0;
}

/* ---- phases ---- */

int kin__phase_begin(struct kin__task *task, struct kin__phase *phase,
                     const struct kin_budget *budget)
{
    *phase = (struct kin__phase){.is_on = !kin__budget_is_default(budget)};
    if (!phase->is_on)
        return 0;
    struct kin__extra *extra = kin__extra_need(task);
    if (!extra) {
        phase->is_on = false;
        return -ENOMEM;
    }
    phase->left = kin__amounts_of(budget);
    phase->is_made = !(task->flags & KIN__TASK_METERED);
    if (phase->is_made) { /* an account without limits, so that its operations are looked at */
        struct kin__scope *scope = kin__load_relaxed(&task->scope); /* relaxed: constant */
        kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
        kin__account_init(&extra->account, (struct kin__purse){NULL, NULL}, &everything);
        task->flags |= KIN__TASK_METERED;
        task->caps |= KIN__CAPS_ACCOUNT;
        kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    }
    extra->account.phase = &phase->left;
    return 0;
}

void kin__phase_end(struct kin__task *task, struct kin__phase *phase)
{
    if (!phase->is_on)
        return;
    phase->is_on = false;
    task->extra->account.phase = NULL;
    if (phase->is_made)
        kin__budget_settle(task);
}

/* ---- the cost of an operation ---- */

/* Pays for one of a part, waiting for a recharge if need be. */
static int pay_from(struct kin__task *task, enum kin__part part, kin_time deadline)
{
    struct kin__account *account = account_of(task);
    if (KIN__LIKELY(kin__account_use(account, part, 1)))
        return 0;
    if (account->refills && kin__account_refill(account, part, kin__task_sched(task)->slice)) {
        if (!account->is_pooled)
            task->slice = 0; /* it goes behind the others */
        return 0;
    }
    if (account->fails || deadline == 0)
        return kin__budget_refuse(task, (enum kin_budget_part)(part + 1));
    int rc = kin__account_wait(account, part, NULL, deadline);
    if (rc == KIN_BUDGET)
        return kin__budget_refuse(task, (enum kin_budget_part)(part + 1));
    if (rc == 0)
        task->slice = kin__task_sched(task)->slice; /* the others had their turn */
    return rc;
}

/* The same out of the phase that the task is in and of its account. */
static int pay(struct kin__task *task, enum kin__part part, kin_time deadline)
{
    struct kin__account *account = account_of(task);
    if (KIN__UNLIKELY(!use_phase(account, part)))
        return kin__budget_refuse(task, (enum kin_budget_part)(part + 1));
    int rc = pay_from(task, part, deadline);
    if (KIN__UNLIKELY(rc < 0))
        unuse_phase(account, part);
    return rc;
}

/* Takes back what was paid of a part. */
static void refund(struct kin__task *task, enum kin__part part)
{
    struct kin__wakes wakes = {0};
    unuse_phase(account_of(task), part);
    kin__account_unuse(account_of(task), part, 1, &wakes);
    kin__wakes_run(&wakes);
}

/* All that an operation costs, or nothing. A select may cost both a channel operation and a system
 * call. */
static int charge(struct kin__task *task, unsigned what, kin_time deadline)
{
    if (what & KIN__COST_CAPS & ~(unsigned)task->caps)
        return KIN_NOCAP;
    if (KIN__LAB_EXHAUSTS())
        return KIN_BUDGET;
    int rc = pay(task, KIN__PART_OPS, deadline);
    if (KIN__UNLIKELY(rc < 0) || !(what & (KIN__COST_CHANNEL | KIN__COST_SYSCALL)))
        return rc;
    if (what & KIN__COST_CHANNEL)
        rc = pay(task, KIN__PART_CHANNEL_OPS, deadline);
    if (rc == 0 && (what & KIN__COST_SYSCALL)) {
        rc = pay(task, KIN__PART_SYSCALLS, deadline);
        if (KIN__UNLIKELY(rc < 0) && (what & KIN__COST_CHANNEL))
            refund(task, KIN__PART_CHANNEL_OPS);
    }
    if (KIN__UNLIKELY(rc < 0))
        refund(task, KIN__PART_OPS);
    return rc;
}

/* The turn of a task is over in a call that costs nothing: a cancellation that is due is reported
 * by the next one that may report it. */
static void end_turn(struct kin__task *task)
{
    task->slice = kin__task_sched(task)->slice;
    kin__worker_yield(task);
    if (kin__park_asked(task) < 0)
        task->slice = 1;
}

int kin__budget_op(struct kin__task *task, unsigned what, kin_time deadline)
{
    kin__entry_check(task);
    if (what & KIN__COST_TURN) {
        end_turn(task);
        return 0;
    }
    int rc = task->flags & KIN__TASK_METERED ? charge(task, what, deadline) : 0;
    if (task->slice != 0)
        return rc;
    task->slice = 1;
    if (rc < 0)
        return rc; /* refused: the turn ends with the next operation */
    task->slice = kin__task_sched(task)->slice;
    kin__worker_yield(task);
    return kin__park_asked(task);
}

/* ---- the public face ---- */

struct kin_budget kin_budget_left(void)
{
    struct kin__task *task = kin__task_self();
    if (!task)
        return (struct kin_budget){0, 0, 0, 0, 0};
    kin__entry_check(task);
    if (!(task->flags & KIN__TASK_METERED))
        return KIN_UNLIMITED_BUDGET;
    struct kin__amounts left = kin__account_left(account_of(task));
    const struct kin__amounts *phase = account_of(task)->phase;
    if (account_of(task)->is_pooled) {
        struct kin__amounts pool = kin__purse_left(account_of(task)->source);
        for (unsigned i = 0; i < KIN__PARTS; i++)
            left.of[i] = kin__amount_sum(left.of[i], pool.of[i]);
    }
    for (unsigned i = 0; phase && i < KIN__PARTS; i++) {
        if (phase->of[i] < left.of[i])
            left.of[i] = phase->of[i];
    }
    return kin__amounts_budget(&left);
}

struct kin_budget kin_nursery_budget_left(const struct kin_nursery *n)
{
    const struct kin__handle *handle = (const struct kin__handle *)(const void *)n;
    kin__entry_check_self(); /* no turn: looking at a budget does not change it */
    struct kin__scope *scope = n ? kin__scope_lock(handle) : NULL;
    if (!scope)
        return (struct kin_budget){0, 0, 0, 0, 0};
    struct kin__amounts left = kin__purse_left(kin__budget_bank(scope));
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return kin__amounts_budget(&left);
}

enum kin_budget_part kin_budget_exhausted(void)
{
    const struct kin__task *task = kin__task_self();
    if (!task || !(task->flags & KIN__TASK_EXTRA))
        return KIN_BUDGET_NONE;
    return (enum kin_budget_part)task->extra->account.exhausted;
}

/* Whether what an account gets is also the task's: it draws from there. */
static bool is_bounded_by(struct kin__task *task, const struct kin__account *account)
{
    const struct kin__account *at = account_of(task);
    for (; at; at = at->source.soft) { /* a chain ends */
        if (at == account || at->source.hard == account)
            return true;
    }
    return false;
}

/* The first part of which the running task, which holds KIN_CAP_BUDGET, may not make so much for
 * an account; 0: it may. Whoever was given a budget makes no more than its recharge_limit says over
 * its whole life, for itself and for all others, who could do the same for it; and nobody makes
 * more of what bounds the maker [SCHED:3.2.3]. What has no limit is nothing. */
static enum kin_budget_part too_much(struct kin__task *maker, const struct kin__account *to,
                                     const struct kin__amounts *amounts)
{
    if (!(maker->flags & KIN__TASK_METERED))
        return KIN_BUDGET_NONE;
    struct kin__account *account = account_of(maker);
    struct kin__amounts left = kin__account_left(account);
    if (!account->is_given && !is_bounded_by(maker, to))
        return KIN_BUDGET_NONE;
    for (unsigned i = 0; i < KIN__PARTS; i++) {
        if (left.of[i] != KIN__UNLIMITED && amounts->of[i] > account->limit.of[i])
            return (enum kin_budget_part)(i + 1);
    }
    for (unsigned i = 0; i < KIN__PARTS; i++) { /* it may: that counts */
        if (left.of[i] != KIN__UNLIMITED && account->limit.of[i] != KIN__UNLIMITED)
            account->limit.of[i] -= amounts->of[i];
    }
    return KIN_BUDGET_NONE;
}

/* What an account needs of these amounts: of a part that has no limit nothing. */
static struct kin__amounts needs_of(struct kin__account *account, const struct kin_budget *amount)
{
    struct kin__amounts amounts = kin__amounts_of(amount), left = kin__account_left(account);
    for (unsigned i = 0; i < KIN__PARTS; i++) {
        if (left.of[i] == KIN__UNLIMITED)
            amounts.of[i] = 0;
    }
    return amounts;
}

/* Gives an account more: its source pays, and what that lacks is made. */
static void recharge(struct kin__account *account, const struct kin__amounts *amounts,
                     struct kin__wakes *wakes)
{
    struct kin__amounts paid = *amounts, made = nothing;
    kin__purse_draw_some(account->source, &paid);
    for (unsigned i = 0; i < KIN__PARTS; i++) {
        if (amounts->of[i] == KIN__UNLIMITED && paid.of[i] != KIN__UNLIMITED)
            made.of[i] = KIN__UNLIMITED;
        else
            made.of[i] = amounts->of[i] - paid.of[i];
    }
    kin__account_add(account, &paid, &made, wakes);
}

int kin_budget_recharge_self(struct kin_budget amount)
{
    struct kin__task *task = kin__task_self();
    struct kin__wakes wakes = {0};
    if (!task)
        return KIN_NOTASK;
    kin__entry_check(task);
    if (!(task->caps & KIN_CAP_BUDGET))
        return KIN_NOCAP;
    if (!(task->flags & KIN__TASK_METERED))
        return 0;
    struct kin__amounts amounts = needs_of(account_of(task), &amount);
    enum kin_budget_part part = too_much(task, account_of(task), &amounts);
    if (part)
        return kin__budget_refuse(task, part);
    recharge(account_of(task), &amounts, &wakes);
    kin__wakes_run(&wakes);
    return 0;
}

/* Another task has an account, and its nursery is locked: the owner of that gives what the pool
 * has; what that lacks, and what anybody else gives, is made. */
static int recharge_other(struct kin__task *self, bool is_owner, struct kin__account *account,
                          const struct kin_budget *amount, struct kin__wakes *wakes)
{
    struct kin__amounts amounts = needs_of(account, amount);
    enum kin_budget_part part =
        is_owner ? kin__purse_draw(account->source, &amounts) : KIN_BUDGET_OPS;
    if (!part) {
        kin__account_add(account, &amounts, &nothing, wakes);
        return 0;
    }
    if (self->caps & KIN_CAP_BUDGET)
        part = too_much(self, account, &amounts);
    if (part)
        return kin__budget_refuse(self, part);
    recharge(account, &amounts, wakes);
    return 0;
}

int kin_budget_recharge(struct kin_task_ref ref, struct kin_budget amount)
{
    struct kin__task *self = kin__task_self(), *task;
    struct kin__wakes wakes = {0};
    if (!self)
        return KIN_NOTASK;
    kin__entry_check(self);
    if (ref.id == kin__task_id(self))
        return kin_budget_recharge_self(amount);
    struct kin__scope *scope = kin__budget_lock_scope_of(ref.id, &task);
    if (!scope)
        return KIN_STALE;
    bool is_owner = kin__load_relaxed(&scope->owner) == self; /* relaxed: constant while it lives */
    int rc = is_owner || (self->caps & KIN_CAP_BUDGET) ? 0 : KIN_NOCAP;
    if (rc == 0 && (task->caps & KIN__CAPS_ACCOUNT))
        rc = recharge_other(self, is_owner, &task->extra->account, &amount, &wakes);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    kin__wakes_run(&wakes);
    return rc;
}

/* The scope of the task that is named, locked, if the task is not over. */
struct kin__scope *kin__budget_lock_scope_of(uint64_t id, struct kin__task **out)
{
    struct kin__scope *scope = kin__scope_lock_of(id, out);
    if (!scope || !(*out)->over)
        return scope;
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return NULL;
}

int kin_nursery_recharge(struct kin_nursery *n, struct kin_budget amount)
{
    struct kin__task *self = kin__task_self();
    struct kin__wakes wakes = {0};
    struct kin__amounts amounts = kin__amounts_of(&amount);
    if (!n)
        return -EINVAL;
    if (!self)
        return kin__no_task();
    kin__entry_check(self);
    struct kin__scope *scope = kin__scope_lock(kin__handle_of(n));
    if (!scope)
        return KIN_STALE;
    struct kin__account *pool = scope->has & KIN__SCOPE_METERED ? scope->pool : NULL;
    bool is_owner = kin__load_relaxed(&scope->owner) == self; /* relaxed: open since long */
    bool can_make = self->caps & KIN_CAP_BUDGET;
    enum kin_budget_part part =
        can_make ? too_much(self, kin__budget_bank(scope).hard, &amounts) : KIN_BUDGET_NONE;
    int rc = 0;
    if (can_make && !part) {
        kin__purse_mint(kin__budget_bank(scope), &amounts, &wakes);
    } else if (!is_owner) {
        rc = can_make ? kin__budget_refuse(self, part) : KIN_NOCAP;
    } else if (pool) { /* else it has what the owner has */
        enum kin_budget_part lacking = kin__purse_draw(pool->source, &amounts);
        if (lacking)
            rc = kin__budget_refuse(self, lacking);
        else
            kin__account_add(pool, &amounts, &nothing, &wakes);
    }
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    kin__wakes_run(&wakes);
    return rc;
}
