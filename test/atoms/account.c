/* SPDX-License-Identifier: MIT */
/*
 * Accounts: src/scope/account.c as it is: blocks of memory that are kept by others are freed while
 * the account that paid for them is settled, and the one above it, too.
 *
 * Whenever a block is freed, what was given for it is in the account that is left, once; what was
 * made for it is nowhere; and nobody touches an account that was settled, whose memory is given to
 * somebody else at once.
 */
#include "under.h"

#include "scope/account.h"

#define GIVEN 100u /* bytes that the pool has */

static struct kin__account *pool, *middle, *child;
static struct kin__payer *payer; /* of the blocks */

static struct kin__purse from(struct kin__account *account)
{
    return (struct kin__purse){account, account};
}

static struct kin__amounts bytes(uint64_t amount)
{
    return (struct kin__amounts){.of = {[KIN__PART_MEMORY] = amount}};
}

/* An account that has drawn so much from another one. */
static struct kin__account *draw(struct kin__account *source, uint64_t amount)
{
    struct kin__account *account = kin_atoms_alloc(sizeof(*account));
    struct kin__amounts amounts = bytes(amount);
    if (source)
        kin_atoms_assert(kin__purse_draw(from(source), &amounts) == 0, "there is enough");
    kin__account_init(account, source ? from(source) : (struct kin__purse){NULL, NULL}, &amounts);
    return account;
}

static void settle(struct kin__account *account)
{
    struct kin__wakes wakes = {0};
    kin__account_settle(account, &wakes);
    kin_atoms_free(account); /* its memory is somebody else's */
}

/* A block that the account pays for. */
static struct kin__payer *take(struct kin__account *account, uint64_t amount)
{
    kin_atoms_assert(kin__account_use(account, KIN__PART_MEMORY, amount), "there is enough");
    struct kin__payer *who = kin__account_payer(account);
    kin__payer_hold(who);
    return who;
}

/* Two blocks of an account with so much that was given and so much that was made. */
static void start(bool has_middle, uint64_t made, uint64_t first, uint64_t second)
{
    struct kin__wakes wakes = {0};
    struct kin__amounts minted = bytes(made), nothing = bytes(0);
    under_begin();
    pool = draw(NULL, GIVEN);
    middle = has_middle ? draw(pool, GIVEN) : NULL;
    child = draw(has_middle ? middle : pool, GIVEN);
    if (made)
        kin__account_add(child, &nothing, &minted, &wakes);
    payer = take(child, first);
    if (second)
        kin_atoms_assert(take(child, second) == payer, "an account has one payer");
}

static void end_child(void *arg)
{
    (void)arg;
    settle(child);
}

static void end_both(void *arg)
{
    (void)arg;
    settle(child);
    settle(middle);
}

static void free_block(void *arg)
{
    kin__payer_refund(payer, *(const uint64_t *)arg);
}

static uint64_t some = 40, most = 60, three_quarters = 75;

/* All that was given is there again, and nobody refers to the payer but the pool. */
static void end(void *arg)
{
    (void)arg;
    kin_atoms_assert(kin__account_left(pool).of[KIN__PART_MEMORY] == GIVEN, "all is back, once");
    struct kin__payer *its = atomic_load_explicit(&pool->payer, memory_order_relaxed);
    kin_atoms_assert(its && its->refs == 1 && its->account == pool, "no reference is left");
    settle(pool);
}

static void begin_one(void *arg)
{
    (void)arg;
    start(false, 0, most, 0);
    under_spawn("settler", end_child, NULL);
    under_spawn("freer", free_block, &most);
}

static void begin_two(void *arg)
{
    (void)arg;
    start(false, 0, most, some);
    under_spawn("settler", end_child, NULL);
    under_spawn("freer 1", free_block, &most);
    under_spawn("freer 2", free_block, &some);
}

/* 150 bytes of which 50 were made: whichever block is freed first, 100 return. */
static void begin_made(void *arg)
{
    (void)arg;
    start(false, 50, three_quarters, three_quarters);
    under_spawn("settler", end_child, NULL);
    under_spawn("freer 1", free_block, &three_quarters);
    under_spawn("freer 2", free_block, &three_quarters);
}

static void begin_three_floors(void *arg)
{
    (void)arg;
    start(true, 0, most, 0);
    under_spawn("settler", end_both, NULL);
    under_spawn("freer", free_block, &most);
}

/* ---- two children are the first to pay, at once ---- */

static void live(void *arg)
{
    struct kin__account *own = draw(pool, *(const uint64_t *)arg);
    struct kin__payer *block = take(own, *(const uint64_t *)arg);
    settle(own);
    kin__payer_refund(block, *(const uint64_t *)arg);
}

static void begin_lives(void *arg)
{
    (void)arg;
    under_begin();
    pool = draw(NULL, GIVEN);
    under_spawn("child 1", live, &most);
    under_spawn("child 2", live, &some);
}

/* The same two live off the pool itself: it has one payer, or a block would keep one that nobody
 * tells when the pool is settled. */
static struct kin__payer *payers[2];

static void take_from_pool(void *arg)
{
    payers[*(const int *)arg] = take(pool, some);
}

static int first = 0, second = 1;

static void begin_takers(void *arg)
{
    (void)arg;
    under_begin();
    pool = draw(NULL, GIVEN);
    under_spawn("taker 1", take_from_pool, &first);
    under_spawn("taker 2", take_from_pool, &second);
}

static void end_takers(void *arg)
{
    (void)arg;
    kin_atoms_assert(payers[0] == payers[1], "an account has one payer");
    settle(pool);
    kin__payer_refund(payers[0], some);
    kin__payer_refund(payers[1], some);
}

const struct harness harnesses[] = {
    {.name = "account_settle_and_free", .begin = begin_one, .end = end},
    {.name = "account_settle_and_free_c11", .begin = begin_one, .end = end,
     .memory = KIN_ATOMS_C11},
    {.name = "account_settle_and_free_two", .begin = begin_two, .end = end},
    {.name = "account_settle_and_free_made", .begin = begin_made, .end = end},
    {.name = "account_settle_two_and_free", .begin = begin_three_floors, .end = end},
    {.name = "account_first_payers", .begin = begin_lives, .end = end},
    {.name = "account_one_payer", .begin = begin_takers, .end = end_takers},
    {.name = "account_one_payer_c11", .begin = begin_takers, .end = end_takers,
     .memory = KIN_ATOMS_C11},
    {0},
};
