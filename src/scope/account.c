/* SPDX-License-Identifier: MIT */
/*
 * Accounts: taking from them, putting into them, waiting for them.
 *
 * An account that refills by itself reaches up: what it lacks of a soft part comes from its source,
 * and if that refills, too, from the source above, to the first that does not.
 *
 *     own --> budget of the owner --> budget of its owner --> pool
 *             refills                 refills                 does not
 *
 * What comes from further up passes through those in between, which note it as given: it returns to
 * the nearest one when the account is settled.
 *
 * Who is pooled takes portions of ops, so that not every operation meets the others at the lock of
 * the pool; of other parts it takes what it uses at once. A portion is no reason for others to
 * wait: when nothing is left all of them are taken back, so that a pool is used up to its last op
 * whoever holds it.
 *
 * A task that needs a part that is used up waits in its own account, where a recharge arrives, and
 * in all that this one reaches. Whoever puts something into an account hands it to those that wait
 * there, in order of arrival, under the lock: nobody who comes later takes it away from them, and
 * nobody who was woken by something else got it.
 */
#include "scope/account.h"

#include "plat/plat.h"
#include "wait/timer.h"

#define FEW_WAITS 4u /* accounts to wait in that need no memory of their own */
#define PORTION_SHARE 64u /* who is pooled holds at most one in so many of what the pool has */

static const struct kin__amounts nothing;
static const struct kin__amounts unlimited = {
    {KIN__UNLIMITED, KIN__UNLIMITED, KIN__UNLIMITED, KIN__UNLIMITED, KIN__UNLIMITED}};

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

static inline enum kin__lock_rank rank_of(const struct kin__account *account)
{
    return account->is_pooled ? KIN__RANK_POOLED : KIN__RANK_WAIT;
}

static inline void lock(struct kin__account *account)
{
    kin__lock_take(&account->lock, rank_of(account));
}

static inline void unlock(struct kin__account *account)
{
    KIN__LAB_ACCOUNTS();
    kin__lock_give(&account->lock, rank_of(account));
}

#if KIN__ACCOUNTS_CHECK
static void note_used_locked(struct kin__account *account, unsigned part, uint64_t amount)
{
    account->used.of[part] += amount; /* of a part without a limit nobody looks at it */
}

static void note_unused_locked(struct kin__account *account, unsigned part, uint64_t amount)
{
    KIN__ASSERT(account->used.of[part] >= amount, "SCHED:8.2.1: what returns was used");
    account->used.of[part] -= amount;
}

static void note_owed_locked(struct kin__account *account, unsigned part, uint64_t amount)
{
    account->owed.of[part] += amount;
}

static void note_paid(struct kin__account *account, unsigned part, uint64_t amount)
{
    lock(account);
    KIN__ASSERT(account->owed.of[part] >= amount, "SCHED:8.2.1: what is noted was handed out");
    account->owed.of[part] -= amount;
    unlock(account);
}

/* Nothing was lost and nothing came out of nowhere, now that nobody else holds a piece of it. */
static void check_locked(struct kin__account *account)
{
    for (unsigned i = 0; i < KIN__PARTS; i++) {
        uint64_t in = kin__amount_sum(account->given.of[i], account->minted.of[i]);
        KIN__ASSERT(in == KIN__UNLIMITED || account->left.of[i] == KIN__UNLIMITED ||
                        kin__amount_sum(account->left.of[i], account->used.of[i]) == in,
                    "SCHED:8.2.1: a budget is conserved");
    }
    KIN__ASSERT(account->hungry.next == NULL || kin__list_is_empty(&account->hungry),
                "SCHED:3.2.2");
    KIN__ASSERT(account->holders.next == NULL || kin__list_is_empty(&account->holders),
                "SCHED:8.2.1");
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

static inline void note_owed_locked(struct kin__account *account, unsigned part, uint64_t amount)
{
    (void)account, (void)part, (void)amount;
}

static inline void note_paid(struct kin__account *account, unsigned part, uint64_t amount)
{
    (void)account, (void)part, (void)amount;
}

static inline void check_locked(struct kin__account *account)
{
    (void)account;
}
#endif

/* ---- portions ---- */

/* Takes back what is left of the portions of all that live off an account. Who waits for ops here
 * linked itself when there was nothing to take back, and is served before anybody takes a portion:
 * so what comes back is not theirs. */
static void collect_locked(struct kin__account *account)
{
    uint64_t *left = &account->left.of[KIN__PART_OPS];
    struct kin__list *link;
    while (account->holders.next && (link = kin__list_pop_front(&account->holders))) {
        struct kin__account *holder = KIN__CONTAINER_OF(link, struct kin__account, holds);
        lock(holder);
        uint64_t back = holder->portion; /* a recharge is used first; its rest stays */
        if (back > holder->left.of[KIN__PART_OPS])
            back = holder->left.of[KIN__PART_OPS];
        subtract(&holder->left.of[KIN__PART_OPS], back);
        subtract(&holder->given.of[KIN__PART_OPS], back);
        unlock(holder);
        *left = kin__amount_sum(*left, back);
    }
}

/* Whether an amount of a part is there. */
static bool has_locked(struct kin__account *account, enum kin__part part, uint64_t amount)
{
    if (account->left.of[part] < amount && part == KIN__PART_OPS)
        collect_locked(account);
    return account->left.of[part] >= amount;
}

/* Notes that somebody lives off an account and has a portion of it. */
static void note_holder_locked(struct kin__account *account, struct kin__account *holder)
{
    if (!account->holders.next)
        kin__list_init(&account->holders);
    if (!kin__list_is_linked(&holder->holds))
        kin__list_push_back(&account->holders, &holder->holds);
}

/* Gives one that is pooled more of a part, of which one is used at once: of ops a portion, at most
 * so large; of what has no limit all. False: there is nothing. */
static bool take_portion(struct kin__account *account, enum kin__part part, uint64_t most)
{
    struct kin__account *source = account->source.soft;
    lock(source);
    bool can = has_locked(source, part, 1);
    if (can) {
        uint64_t left = source->left.of[part], got = left / PORTION_SHARE;
        if (got > most)
            got = most;
        if (got == 0 || part != KIN__PART_OPS)
            got = 1;
        if (left == KIN__UNLIMITED)
            got = left;
        subtract(&source->left.of[part], got);
        lock(account);
        account->given.of[part] = kin__amount_sum(account->given.of[part], got);
        account->left.of[part] = kin__amount_sum(account->left.of[part], got);
        subtract(&account->left.of[part], 1);
        note_used_locked(account, part, 1);
        unlock(account);
        if (got > 1 && got != KIN__UNLIMITED) {
            account->portion = got - 1;
            note_holder_locked(source, account);
        }
    }
    unlock(source);
    return can;
}

/* ---- those that wait ---- */

/* What a task waits for: one of a part, in any of several accounts. On its stack. */
struct hunger {
    const struct kin__account *own; /* what it gets here is used at once; elsewhere it is drawn */
    enum kin__part part;
};

static struct kin__waitq *queue_of(struct kin__account *account)
{
    return KIN__CONTAINER_OF(&account->hungry, struct kin__waitq, list);
}

static void serve_locked(struct kin__account *account, const struct hunger *hunger)
{
    subtract(&account->left.of[hunger->part], 1);
    if (account == hunger->own)
        note_used_locked(account, hunger->part, 1);
    else
        note_owed_locked(account, hunger->part, 1);
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
        serve_locked(account, hunger); /* it is claimed: its stack stays until it is woken */
        kin__wakes_add(wakes, &claimed, 0);
    }
}

static bool hunger_try(void *object, void *io, int *status)
{
    struct kin__account *account = object;
    const struct hunger *hunger = io;
    lock(account);
    bool can = has_locked(account, hunger->part, 1);
    if (can)
        serve_locked(account, hunger);
    unlock(account);
    *status = 0;
    return can;
}

static bool hunger_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin__account *account = object;
    const struct hunger *hunger = waiter->io;
    (void)status;
    lock(account);
    bool links = !has_locked(account, hunger->part, 1);
    if (links)
        kin__waitq_push(queue_of(account), waiter);
    unlock(account);
    return links;
}

static void hunger_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin__account *account = object;
    lock(account);
    kin__waitq_remove(waiter);
    unlock(account);
}

static const struct kin__waitable hunger_waitable = {"budget", hunger_try, hunger_publish,
                                                     hunger_unpublish};

KIN__WAITABLE_READY(hunger_waitable)
{
    const struct kin__account *account = object;
    const struct hunger *hunger = waiter->io;
    return account->left.of[hunger->part] ? "there is some" : NULL;
}

/* ---- reaching up ---- */

/* The next one that an account reaches; NULL: there is none, or, if it refills, no limit above. */
static struct kin__account *above(const struct kin__account *account)
{
    return account->refills ? account->source.soft : NULL;
}

/* Notes what came from an account further up, NULL where there is no limit, in all that it passes
 * through. */
static void pass_through(struct kin__account *own, const struct kin__account *from,
                         enum kin__part part, uint64_t amount)
{
    for (struct kin__account *at = own; at != from; at = at->source.soft) { /* a chain ends */
        lock(at);
        at->given.of[part] = kin__amount_sum(at->given.of[part], amount);
        unlock(at);
    }
}

int kin__account_wait(struct kin__account *account, enum kin__part part,
                      const struct kin__case *or_else, kin_time deadline)
{
    struct hunger hunger = {account, part};
    struct kin__case few[FEW_WAITS + 2], *cases = few;
    uint32_t count = 0;
    int status = 0;
    KIN__ASSERT(!kin__part_is_hard(part), "SCHED:3.2.1");
    for (struct kin__account *at = account; at; at = above(at)) /* as deep as tasks are nested */
        count++;
    if (count > FEW_WAITS && !(cases = kin__heap_alloc((count + 2) * sizeof(*cases))))
        return KIN_BUDGET;
    count = 0;
    for (struct kin__account *at = account; at; at = above(at))
        cases[count++] = (struct kin__case){.ops = &hunger_waitable, .object = at, .io = &hunger};
    uint32_t accounts = count;
    if (or_else)
        cases[count++] = *or_else;
    int rc = kin__wait_any_until(cases, count, deadline, 0, &status);
    if (rc > 0 && (uint32_t)rc == accounts)
        status = KIN_BUDGET; /* it came to the other thing */
    else if (rc > 0) { /* from further up, and used by this very operation */
        pass_through(account, cases[rc].object, part, 1);
        lock(account);
        note_used_locked(account, part, 1);
        unlock(account);
        note_paid(cases[rc].object, part, 1);
    }
    if (cases != few)
        kin__heap_free(cases);
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
    bool can = has_locked(account, part, amount);
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
    struct kin__account *source =
        account->is_pooled && !kin__part_is_hard(part) ? account->source.soft : NULL;
    lock(account);
    note_unused_locked(account, part, amount);
    if (source && account->given.of[part] >= amount) { /* who is pooled keeps nothing */
        subtract(&account->given.of[part], amount);
        unlock(account);
        account = source;
        lock(account);
    }
    account->left.of[part] = kin__amount_sum(account->left.of[part], amount);
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

/* What is left of what an account was given; what was made is used first. */
static void leave_locked(struct kin__account *account, struct kin__amounts *given,
                         struct kin__amounts *returned)
{
    check_locked(account);
    *given = account->given;
    for (unsigned i = 0; i < KIN__PARTS; i++)
        returned->of[i] = account->left.of[i] < given->of[i] ? account->left.of[i] : given->of[i];
}

void kin__account_settle(struct kin__account *account, struct kin__wakes *wakes)
{
    struct kin__amounts given, returned;
    struct side sides[2];
    struct kin__account *source = account->is_pooled ? account->source.soft : NULL;
    /* relaxed: nobody uses the account any more */
    struct kin__payer *payer = kin__load_relaxed(&account->payer);
    if (source) { /* nobody takes anything back any more */
        lock(source);
        if (kin__list_is_linked(&account->holds))
            kin__list_remove(&account->holds);
        unlock(source);
    }
    if (payer) /* a block that is freed meanwhile returns before, or after: further up */
        kin__lock_take(&payer->lock, KIN__RANK_TASK);
    lock(account);
    leave_locked(account, &given, &returned);
    unlock(account);
    unsigned count = sides_of(account->source, sides);
    for (unsigned i = 0; i < count; i++)
        put_back(sides[i].account, sides[i].parts, &given, &returned, wakes);
    if (payer) {
        payer->account = NULL;
        payer->owed = given.of[KIN__PART_MEMORY] - returned.of[KIN__PART_MEMORY];
        kin__lock_give(&payer->lock, KIN__RANK_TASK);
        kin__payer_drop(payer);
    }
}

/* ---- who paid for memory ---- */

/* Gives back the bytes of a block to whoever paid, or to who gave it to them. */
static void give_back(struct kin__payer *payer, uint64_t amount)
{
    struct kin__wakes nobody = {0}; /* waits for memory */
    while (payer && amount > 0) { /* ends: a chain does; each refers to the one above */
        kin__lock_take(&payer->lock, KIN__RANK_TASK);
        struct kin__account *account = payer->account;
        if (account)
            kin__account_unuse(account, KIN__PART_MEMORY, amount, &nobody);
        else if (amount > payer->owed)
            amount = payer->owed; /* the rest was made, and ended with the account */
        if (!account)
            payer->owed -= amount;
        kin__lock_give(&payer->lock, KIN__RANK_TASK);
        if (account)
            return;
        payer = payer->up;
    }
}

void kin__payer_refund(struct kin__payer *payer, uint64_t amount)
{
    give_back(payer, amount);
    kin__payer_drop(payer);
}

/* Gives an account a payer below up, unless somebody else is faster. NULL: there is no memory. */
static struct kin__payer *make_payer(struct kin__account *account, struct kin__payer *up)
{
    struct kin__payer *payer = kin__heap_alloc(sizeof(*payer)), *there = NULL;
    if (!payer)
        return NULL;
    payer->refs = 1; /* the account's */
    payer->account = account;
    payer->up = up;
    payer->refund = kin__payer_refund;
    if (up)
        kin__payer_hold(up);
    /* pairs with the acquire in payer_of: children of one nursery come at once */
    if (kin__cas_acq_rel(&account->payer, &there, payer))
        return payer;
    if (up)
        kin__payer_drop(up);
    kin__heap_free(payer);
    return there;
}

static struct kin__payer *payer_of(struct kin__account *account)
{
    return account ? kin__load_acquire(&account->payer) : NULL; /* pairs with make_payer */
}

struct kin__payer *kin__account_payer(struct kin__account *account)
{
    struct kin__payer *payer = payer_of(account);
    while (!payer) { /* ends: each time one more has a payer, the topmost first */
        struct kin__account *at = account;
        while (at->source.hard && !payer_of(at->source.hard)) /* a chain ends */
            at = at->source.hard;
        payer = make_payer(at, payer_of(at->source.hard));
        if (!payer)
            return NULL;
        payer = payer_of(account);
    }
    return payer;
}

void kin__payer_hold(struct kin__payer *payer)
{
    kin__lock_take(&payer->lock, KIN__RANK_TASK);
    payer->refs++;
    kin__lock_give(&payer->lock, KIN__RANK_TASK);
}

void kin__payer_drop(struct kin__payer *payer)
{
    while (payer) { /* ends: a chain does */
        kin__lock_take(&payer->lock, KIN__RANK_TASK);
        bool is_last = --payer->refs == 0;
        kin__lock_give(&payer->lock, KIN__RANK_TASK);
        if (!is_last)
            return;
        struct kin__payer *up = payer->up;
        kin__heap_free(payer);
        payer = up;
    }
}

struct kin__amounts kin__account_left(struct kin__account *account)
{
    lock(account);
    struct kin__amounts left = account->left;
    unlock(account);
    return left;
}

/* Takes up to want of a part out of an account; how much. */
static uint64_t draw_up_to(struct kin__account *account, enum kin__part part, uint64_t want)
{
    lock(account);
    uint64_t got = has_locked(account, part, 1) ? account->left.of[part] : 0;
    if (got > want)
        got = want;
    subtract(&account->left.of[part], got);
    unlock(account);
    return got;
}

/* Brings up to want of a part down to an account from the first it reaches that has some. False:
 * none has. */
static bool bring_down(struct kin__account *own, enum kin__part part, uint64_t want)
{
    struct kin__account *from = own;
    struct kin__wakes wakes = {0};
    uint64_t got = 0;
    while (got == 0 && from && from->refills) { /* a chain ends */
        from = from->source.soft;
        got = from ? draw_up_to(from, part, want) : want;
    }
    if (got == 0)
        return false;
    pass_through(own, from, part, got);
    lock(own);
    own->left.of[part] = kin__amount_sum(own->left.of[part], got);
    feed_locked(own, &wakes);
    unlock(own);
    kin__wakes_run(&wakes);
    return true;
}

bool kin__account_refill(struct kin__account *account, enum kin__part part, uint64_t interval)
{
    struct kin__account *from = account->is_pooled ? account->source.soft : account;
    uint64_t want = from->quantum.of[part] ? from->quantum.of[part] : 1;
    KIN__ASSERT(account->refills && !kin__part_is_hard(part), "SCHED:3.2.1");
    if (account->is_pooled && take_portion(account, part, interval))
        return true;
    while (bring_down(from, part, want)) { /* ends, unless others take it away each time */
        if (account->is_pooled ? take_portion(account, part, interval)
                               : kin__account_use(account, part, 1))
            return true;
    }
    return false;
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

/* Reduces some parts of amounts to what there is, or to half of that. */
static void fit(struct kin__amounts *amounts, const struct kin__amounts *left, unsigned parts,
                enum kin__share how)
{
    for (unsigned i = 0; i < KIN__PARTS; i++) {
        uint64_t most = left->of[i];
        if (how == KIN__SHARE_HALF && most != KIN__UNLIMITED)
            most /= 2;
        if ((parts & (1u << i)) && amounts->of[i] > most)
            amounts->of[i] = amounts->of[i] == KIN__UNLIMITED ? 0 : most;
    }
}

/* What an account has and all that it reaches. */
static struct kin__amounts left_in_reach(struct kin__account *account)
{
    struct kin__amounts all = kin__account_left(account);
    while (account && account->refills) { /* a chain ends */
        account = account->source.soft;
        struct kin__amounts left = account ? kin__account_left(account) : unlimited;
        for (unsigned i = 0; i < KIN__PARTS; i++) {
            if (SOFT & (1u << i))
                all.of[i] = kin__amount_sum(all.of[i], left.of[i]);
        }
    }
    return all;
}

/* Makes an account that refills ready for a draw of soft parts. Whether there is enough is decided
 * by the draw, since others draw, too. */
static void reach(struct kin__account *account, struct kin__amounts *amounts, enum kin__share how)
{
    struct kin__amounts left = left_in_reach(account);
    if (how != KIN__SHARE_EXACT)
        fit(amounts, &left, SOFT, how);
    for (unsigned i = 0; i < KIN__PARTS; i++) {
        if ((SOFT & (1u << i)) && amounts->of[i] > left.of[i])
            return; /* it is refused, and all stays where it is */
    }
    for (unsigned i = 0; i < KIN__PARTS; i++) {
        uint64_t has;
        while ((SOFT & (1u << i)) && (has = kin__account_left(account).of[i]) < amounts->of[i] &&
               bring_down(account, (enum kin__part)i, amounts->of[i] - has))
            ; /* ends, unless others take it away each time */
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
    if (!(side->parts & HARD))
        spawns = 0;
    const struct kin__amounts *least = how == KIN__SHARE_EXACT ? amounts : &nothing;
    lock(side->account);
    enum kin_budget_part lacking = lacking_locked(side, least, spawns);
    if (lacking) {
        collect_locked(side->account);
        lacking = lacking_locked(side, least, spawns);
    }
    if (!lacking) {
        subtract(&side->account->left.of[KIN__PART_SPAWNS], spawns);
        note_used_locked(side->account, KIN__PART_SPAWNS, spawns);
        if (how != KIN__SHARE_EXACT) {
            fit(amounts, &side->account->left, side->parts & HARD, how);
            fit(amounts, &side->account->left, side->parts & SOFT,
                side->account->refills ? KIN__SHARE_FITS : how); /* halved by reach */
        }
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
        if (sides[i].account->refills && (sides[i].parts & SOFT))
            reach(sides[i].account, amounts, how);
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
    struct kin__amounts all = unlimited;
    struct side sides[2];
    unsigned count = sides_of(purse, sides);
    for (unsigned i = 0; i < count; i++) {
        struct kin__amounts left = left_in_reach(sides[i].account);
        for (unsigned part = 0; part < KIN__PARTS; part++) {
            if (sides[i].parts & (1u << part))
                all.of[part] = left.of[part];
        }
    }
    return all;
}
