/* SPDX-License-Identifier: MIT */
/*
 * Accounts: taking from them, putting into them, waiting for them.
 *
 * A task that needs a part that is used up waits in its own account, where a recharge arrives, and,
 * if its nursery recharges by itself, in the pool it draws from. Whoever puts something into an
 * account hands it to those that wait there, in order of arrival, under the lock: nobody who comes
 * later takes it away from them, and nobody who was woken by something else got it.
 */
#include "scope/account.h"

#include "wait/timer.h"

#define PORTION_SHARE 64u /* who is pooled holds at most one in so many of what the pool has */

/* ---- amounts ---- */

struct kin__amounts kin__amounts_of(const struct kin_budget *budget)
{
    struct kin__amounts amounts = {{budget->ops, budget->memory, budget->spawns,
                                    budget->channel_ops, budget->syscalls}};
    for (unsigned i = KIN__PART_SPAWNS; i < KIN__PARTS; i++) {
        if (amounts.of[i] == UINT32_MAX)
            amounts.of[i] = KIN__UNLIMITED;
    }
    return amounts;
}

static uint32_t narrow(uint64_t amount)
{
    if (amount == KIN__UNLIMITED)
        return UINT32_MAX;
    return amount < UINT32_MAX ? (uint32_t)amount : UINT32_MAX - 1;
}

struct kin_budget kin__amounts_budget(const struct kin__amounts *amounts)
{
    return (struct kin_budget){amounts->of[KIN__PART_OPS], amounts->of[KIN__PART_MEMORY],
                               narrow(amounts->of[KIN__PART_SPAWNS]),
                               narrow(amounts->of[KIN__PART_CHANNEL_OPS]),
                               narrow(amounts->of[KIN__PART_SYSCALLS])};
}

/* Takes amount off; what has no limit stays so. The caller knows that there is enough. */
static inline void subtract(uint64_t *left, uint64_t amount)
{
    KIN__ASSERT(*left >= amount, "SCHED:3.1.2");
    if (*left != KIN__UNLIMITED)
        *left -= amount;
}

/* ---- what was used, for the check ---- */

static inline void lock(struct kin__account *account)
{
    kin__lock_take(&account->lock, KIN__RANK_WAIT);
}

static inline void unlock(struct kin__account *account)
{
    kin__lock_give(&account->lock, KIN__RANK_WAIT);
}

#ifdef KIN_DEBUG
static void note_used_locked(struct kin__account *account, unsigned part, uint64_t amount)
{
    account->used.of[part] += amount; /* of a part without a limit nobody looks at it */
}

static void note_unused_locked(struct kin__account *account, unsigned part, uint64_t amount)
{
    account->used.of[part] -= amount;
}

/* Nothing was lost and nothing came out of nowhere, now that nobody else holds a piece of it. */
static void check_locked(struct kin__account *account)
{
    for (unsigned i = 0; i < KIN__PARTS; i++) {
        uint64_t in = kin__amount_sum(account->given.of[i], account->minted.of[i]);
        KIN__ASSERT(in == KIN__UNLIMITED || account->left.of[i] == KIN__UNLIMITED ||
                        account->left.of[i] + account->used.of[i] == in,
                    "SCHED:8.2.1: a budget is conserved");
    }
    KIN__ASSERT(account->hungry.next == NULL || kin__list_is_empty(&account->hungry),
                "SCHED:3.2.2");
}
#else
static inline void note_used_locked(struct kin__account *account, unsigned part, uint64_t amount)
{
    (void)account, (void)part, (void)amount;
}

static inline void note_unused_locked(struct kin__account *account, unsigned part, uint64_t amount)
{
    (void)account, (void)part, (void)amount;
}

static inline void check_locked(struct kin__account *account)
{
    (void)account;
}
#endif

/* ---- those that wait ---- */

/* What a task waits for: one of a part of an account. On its stack. */
struct hunger {
    struct kin__account *account;
    enum kin__part part;
    bool is_own; /* its own account: what it gets is used at once; else it is drawn */
};

static struct kin__waitq *queue_of(struct kin__account *account)
{
    return KIN__CONTAINER_OF(&account->hungry, struct kin__waitq, list);
}

static void serve_locked(const struct hunger *hunger)
{
    subtract(&hunger->account->left.of[hunger->part], 1);
    if (hunger->is_own)
        note_used_locked(hunger->account, hunger->part, 1);
}

/* Hands out what is there to those that wait for it, the first one first. */
static void feed_locked(struct kin__account *account, struct kin__wakes *wakes)
{
    if (kin__waitq_is_empty(queue_of(account)))
        return;
    struct kin__list *link = account->hungry.next;
    while (link != &account->hungry) {
        struct kin__waiter *waiter = KIN__CONTAINER_OF(link, struct kin__waiter, link);
        const struct hunger *hunger = waiter->io;
        struct kin__claimed claimed;
        link = link->next;
        if (account->left.of[hunger->part] == 0 || !kin__waitq_claim_one(waiter, &claimed))
            continue;
        serve_locked(hunger); /* it is claimed: its stack stays until it is woken */
        kin__wakes_add(wakes, &claimed, 0);
    }
}

static bool hunger_try(void *object, void *io, int *status)
{
    const struct hunger *hunger = object;
    (void)io;
    lock(hunger->account);
    bool can = hunger->account->left.of[hunger->part] != 0;
    if (can)
        serve_locked(hunger);
    unlock(hunger->account);
    *status = 0;
    return can;
}

static bool hunger_publish(void *object, struct kin__waiter *waiter, int *status)
{
    const struct hunger *hunger = object;
    (void)status;
    lock(hunger->account);
    bool links = hunger->account->left.of[hunger->part] == 0;
    if (links)
        kin__waitq_push(queue_of(hunger->account), waiter);
    unlock(hunger->account);
    return links;
}

static void hunger_unpublish(void *object, struct kin__waiter *waiter)
{
    const struct hunger *hunger = object;
    lock(hunger->account);
    kin__waitq_remove(waiter);
    unlock(hunger->account);
}

static const struct kin__waitable hunger_waitable = {"budget", hunger_try, hunger_publish,
                                                     hunger_unpublish};

int kin__account_wait(struct kin__account *account, enum kin__part part, kin_time deadline)
{
    struct hunger own = {account, part, true}, pool = {account->source.soft, part, false};
    struct kin__case cases[3] = {{.ops = &hunger_waitable, .object = &own, .io = &own},
                                 {.ops = &hunger_waitable, .object = &pool, .io = &pool}};
    int status = 0;
    uint32_t count = account->refills && pool.account ? 2 : 1;
    KIN__ASSERT(!kin__part_is_hard(part), "SCHED:3.2.1");
    int rc = kin__wait_any_until(cases, count, deadline, 0, &status);
    if (rc == 1) { /* from the pool, and used by this very operation */
        lock(account);
        account->given.of[part] = kin__amount_sum(account->given.of[part], 1);
        note_used_locked(account, part, 1);
        unlock(account);
    }
    return rc < 0 ? rc : status;
}

/* ---- the two sides of a purse ---- */

#define SOFT (1u << KIN__PART_OPS | 1u << KIN__PART_CHANNEL_OPS | 1u << KIN__PART_SYSCALLS)
#define HARD (1u << KIN__PART_MEMORY | 1u << KIN__PART_SPAWNS)

/* An account, and which parts of a purse it is. */
struct side {
    struct kin__account *account;
    unsigned parts; /* SOFT, HARD or both */
};

/* Those that have a limit: how many. */
static unsigned sides_of(struct kin__purse purse, struct side *sides)
{
    unsigned count = 0;
    if (purse.soft && purse.soft == purse.hard) {
        sides[count++] = (struct side){purse.soft, SOFT | HARD};
        return count;
    }
    if (purse.hard)
        sides[count++] = (struct side){purse.hard, HARD};
    if (purse.soft)
        sides[count++] = (struct side){purse.soft, SOFT};
    return count;
}

/* ---- taking and putting ---- */

void kin__account_init(struct kin__account *account, struct kin__purse source,
                       const struct kin__amounts *given)
{
    uint8_t exhausted = account->exhausted;
    *account = (struct kin__account){.source = source, .exhausted = exhausted};
    account->left = *given;
    account->given = *given;
}

bool kin__account_use(struct kin__account *account, enum kin__part part, uint64_t amount)
{
    lock(account);
    bool can = account->left.of[part] >= amount;
    if (can) {
        subtract(&account->left.of[part], amount);
        note_used_locked(account, part, amount);
    }
    unlock(account);
    return can;
}

void kin__account_unuse(struct kin__account *account, enum kin__part part, uint64_t amount,
                        struct kin__wakes *wakes)
{
    lock(account);
    account->left.of[part] = kin__amount_sum(account->left.of[part], amount);
    note_unused_locked(account, part, amount);
    feed_locked(account, wakes);
    unlock(account);
}

void kin__account_add(struct kin__account *account, const struct kin__amounts *given,
                      const struct kin__amounts *minted, struct kin__wakes *wakes)
{
    lock(account);
    for (unsigned i = 0; i < KIN__PARTS; i++) {
        uint64_t sum = kin__amount_sum(given->of[i], minted->of[i]);
        account->left.of[i] = kin__amount_sum(account->left.of[i], sum);
        account->given.of[i] = kin__amount_sum(account->given.of[i], given->of[i]);
        account->minted.of[i] = kin__amount_sum(account->minted.of[i], minted->of[i]);
    }
    feed_locked(account, wakes);
    unlock(account);
}

/* Puts back into an account what returns of given, as far as the parts are its. */
static void put_back(struct kin__account *account, unsigned parts, const struct kin__amounts *given,
                     const struct kin__amounts *returned, struct kin__wakes *wakes)
{
    lock(account);
    for (unsigned i = 0; i < KIN__PARTS; i++) {
        if (!(parts & (1u << i)))
            continue;
        account->left.of[i] = kin__amount_sum(account->left.of[i], returned->of[i]);
        note_used_locked(account, i, given->of[i] - returned->of[i]);
    }
    feed_locked(account, wakes);
    unlock(account);
}

void kin__account_settle(struct kin__account *account, struct kin__wakes *wakes)
{
    struct kin__amounts given, returned;
    struct side sides[2];
    lock(account);
    check_locked(account);
    given = account->given;
    for (unsigned i = 0; i < KIN__PARTS; i++) /* what was made is used first */
        returned.of[i] = account->left.of[i] < given.of[i] ? account->left.of[i] : given.of[i];
    unlock(account);
    unsigned count = sides_of(account->source, sides);
    for (unsigned i = 0; i < count; i++)
        put_back(sides[i].account, sides[i].parts, &given, &returned, wakes);
}

struct kin__amounts kin__account_left(struct kin__account *account)
{
    lock(account);
    struct kin__amounts left = account->left;
    unlock(account);
    return left;
}

/* Takes up to want of a part out of the source of an account; how much. */
static uint64_t draw_up_to(struct kin__account *source, enum kin__part part, uint64_t want,
                           bool is_pooled)
{
    lock(source);
    uint64_t left = source->left.of[part];
    if (is_pooled && left == KIN__UNLIMITED) {
        want = left;
    } else if (is_pooled) { /* so that nobody holds much that others may need more */
        uint64_t share = left / PORTION_SHARE;
        if (share < want)
            want = share ? share : 1;
    }
    if (want > left)
        want = left;
    subtract(&source->left.of[part], want);
    unlock(source);
    return want;
}

bool kin__account_refill(struct kin__account *account, enum kin__part part, uint64_t interval)
{
    uint64_t want = account->quantum.of[part] ? account->quantum.of[part] : 1;
    if (account->is_pooled)
        want = part == KIN__PART_OPS ? interval : 1;
    struct kin__account *source = account->source.soft;
    KIN__ASSERT(!kin__part_is_hard(part), "SCHED:3.2.1");
    uint64_t got = account->is_pooled ? KIN__UNLIMITED : want;
    if (source)
        got = draw_up_to(source, part, want, account->is_pooled);
    if (got == 0)
        return false;
    lock(account);
    account->given.of[part] = kin__amount_sum(account->given.of[part], got);
    account->left.of[part] = kin__amount_sum(account->left.of[part], got);
    subtract(&account->left.of[part], 1);
    note_used_locked(account, part, 1);
    unlock(account);
    return true;
}

/* ---- purses ---- */

/* The first part that a side has too little of; 0: none. spawns come on top. */
static enum kin_budget_part lacking_locked(const struct side *side,
                                           const struct kin__amounts *amounts, uint64_t spawns)
{
    for (unsigned i = 0; i < KIN__PARTS; i++) {
        uint64_t more = i == KIN__PART_SPAWNS ? spawns : 0;
        if ((side->parts & (1u << i)) &&
            side->account->left.of[i] < kin__amount_sum(amounts->of[i], more))
            return (enum kin_budget_part)(i + 1);
    }
    return KIN_BUDGET_NONE;
}

/* Reduces amounts to what a side has, or to a part of that. */
static void fit_locked(const struct side *side, struct kin__amounts *amounts, unsigned divisor)
{
    for (unsigned i = 0; i < KIN__PARTS; i++) {
        uint64_t left = side->account->left.of[i];
        if (left != KIN__UNLIMITED)
            left /= divisor;
        if ((side->parts & (1u << i)) && amounts->of[i] > left)
            amounts->of[i] = amounts->of[i] == KIN__UNLIMITED ? 0 : left;
    }
}

static void draw_locked(const struct side *side, const struct kin__amounts *amounts)
{
    for (unsigned i = 0; i < KIN__PARTS; i++) {
        if (side->parts & (1u << i))
            subtract(&side->account->left.of[i], amounts->of[i]);
    }
}

/* Uses some spawns of a side and draws amounts from it; what is lacking, and then nothing has
 * happened. */
static enum kin_budget_part draw_side(const struct side *side, struct kin__amounts *amounts,
                                      enum kin__share how, uint64_t spawns)
{
    static const struct kin__amounts nothing;
    if (!(side->parts & HARD))
        spawns = 0;
    lock(side->account);
    enum kin_budget_part lacking =
        lacking_locked(side, how == KIN__SHARE_EXACT ? amounts : &nothing, spawns);
    if (!lacking) {
        subtract(&side->account->left.of[KIN__PART_SPAWNS], spawns);
        note_used_locked(side->account, KIN__PART_SPAWNS, spawns);
        fit_locked(side, amounts, how == KIN__SHARE_HALF ? 2 : 1);
        draw_locked(side, amounts);
    }
    unlock(side->account);
    return lacking;
}

/* Both sides, or neither. */
static enum kin_budget_part draw(struct kin__purse purse, struct kin__amounts *amounts,
                                 enum kin__share how, uint64_t spawns)
{
    struct side sides[2];
    unsigned count = sides_of(purse, sides);
    for (unsigned i = 0; i < count; i++) {
        enum kin_budget_part lacking = draw_side(&sides[i], amounts, how, spawns);
        if (!lacking)
            continue;
        if (i > 0) { /* the hard side has given already */
            struct kin__wakes wakes = {0};
            put_back(sides[0].account, HARD, amounts, amounts, &wakes);
            kin__account_unuse(sides[0].account, KIN__PART_SPAWNS, spawns, &wakes);
            kin__wakes_run(&wakes);
        }
        return lacking;
    }
    return KIN_BUDGET_NONE;
}

enum kin_budget_part kin__purse_draw(struct kin__purse purse, const struct kin__amounts *amounts)
{
    struct kin__amounts wanted = *amounts;
    return draw(purse, &wanted, KIN__SHARE_EXACT, 0);
}

enum kin_budget_part kin__purse_admit(struct kin__purse purse, struct kin__amounts *amounts,
                                      enum kin__share how)
{
    return draw(purse, amounts, how, 1);
}

void kin__purse_draw_some(struct kin__purse purse, struct kin__amounts *amounts)
{
    (void)draw(purse, amounts, KIN__SHARE_FITS, 0);
}

void kin__purse_mint(struct kin__purse purse, const struct kin__amounts *amounts,
                     struct kin__wakes *wakes)
{
    static const struct kin__amounts nothing;
    struct side sides[2];
    unsigned count = sides_of(purse, sides);
    for (unsigned i = 0; i < count; i++) {
        struct kin__amounts its = *amounts;
        for (unsigned part = 0; part < KIN__PARTS; part++) {
            if (!(sides[i].parts & (1u << part)))
                its.of[part] = 0;
        }
        kin__account_add(sides[i].account, &nothing, &its, wakes);
    }
}

struct kin__amounts kin__purse_left(struct kin__purse purse)
{
    struct kin__amounts all;
    struct side sides[2];
    unsigned count = sides_of(purse, sides);
    for (unsigned part = 0; part < KIN__PARTS; part++)
        all.of[part] = KIN__UNLIMITED;
    for (unsigned i = 0; i < count; i++) {
        struct kin__amounts left = kin__account_left(sides[i].account);
        for (unsigned part = 0; part < KIN__PARTS; part++) {
            if (sides[i].parts & (1u << part))
                all.of[part] = left.of[part];
        }
    }
    return all;
}
