/* SPDX-License-Identifier: MIT */
/*
 * Goal: accounts take all or nothing, lose nothing, and hand what comes in to those that wait.
 * Method: white box: accounts without tasks for the arithmetic, with every limit at its edge; tasks
 *         that wait in a known order for the queue.
 */
#include "api/in_runtime.h"

#include "scope/account.h"
#include "scope/scope.h"

static const struct kin__amounts none;
static const struct kin__purse nowhere; /* where there is no limit */

/* Both sides of a purse. */
static struct kin__purse from(struct kin__account *account)
{
    return (struct kin__purse){account, account};
}

static struct kin__amounts amounts(uint64_t ops, uint64_t memory, uint64_t spawns)
{
    return (struct kin__amounts){{ops, memory, spawns, 0, 0}};
}

/* ---- amounts ---- */

KIN_TEST(amounts_keep_what_has_no_limit_apart_from_what_has_a_large_one, "SCHED:3.1.1 SCHED:3.1.2")
{
    struct kin_budget all = KIN_UNLIMITED_BUDGET;
    struct kin_budget large = {UINT64_MAX - 1, 5, UINT32_MAX - 1, 0, UINT32_MAX};
    struct kin__amounts wide = kin__amounts_of(&all);
    struct kin__amounts edge = kin__amounts_of(&large);
    struct kin__amounts beyond = {{7, 0, (uint64_t)UINT32_MAX, (uint64_t)UINT32_MAX + 9, 3}};

    for (unsigned i = 0; i < KIN__PARTS; i++)
        EXPECT_EQ(wide.of[i], KIN__UNLIMITED);
    EXPECT_EQ(edge.of[KIN__PART_OPS], UINT64_MAX - 1);
    EXPECT_EQ(edge.of[KIN__PART_SPAWNS], UINT32_MAX - 1);
    EXPECT_EQ(edge.of[KIN__PART_SYSCALLS], KIN__UNLIMITED);
    EXPECT_EQ(kin__amounts_budget(&wide).spawns, UINT32_MAX);
    EXPECT_EQ(kin__amounts_budget(&edge).spawns, UINT32_MAX - 1);
    EXPECT_EQ(kin__amounts_budget(&beyond).spawns, UINT32_MAX - 1);
    EXPECT_EQ(kin__amounts_budget(&beyond).channel_ops, UINT32_MAX - 1);
    EXPECT_EQ(kin__amounts_budget(&beyond).syscalls, 3);
    EXPECT_EQ(kin__amount_sum(UINT64_MAX - 1, 1), KIN__UNLIMITED);
    EXPECT_EQ(kin__amount_sum(UINT64_MAX - 1, 2), KIN__UNLIMITED);
    EXPECT_EQ(kin__amount_sum(KIN__UNLIMITED, 0), KIN__UNLIMITED);
    EXPECT_EQ(kin__amount_sum(2, 3), 5);
}

KIN_TEST(only_all_zero_is_the_default, "")
{
    struct kin_budget zero = {0, 0, 0, 0, 0};

    EXPECT(kin__budget_is_default(&zero));
    EXPECT(!kin__budget_is_default(&(struct kin_budget){1, 0, 0, 0, 0}));
    EXPECT(!kin__budget_is_default(&(struct kin_budget){0, 1, 0, 0, 0}));
    EXPECT(!kin__budget_is_default(&(struct kin_budget){0, 0, 1, 0, 0}));
    EXPECT(!kin__budget_is_default(&(struct kin_budget){0, 0, 0, 1, 0}));
    EXPECT(!kin__budget_is_default(&(struct kin_budget){0, 0, 0, 0, 1}));
}

/* ---- taking ---- */

KIN_TEST(a_use_takes_all_of_it_or_nothing, "SCHED:3.1.2 SCHED:3.3.1")
{
    struct kin__account account = {0};
    struct kin__wakes wakes = {0};
    struct kin__amounts ten = amounts(10, KIN__UNLIMITED, 0);

    kin__account_init(&account, nowhere, &ten);
    EXPECT(kin__account_use(&account, KIN__PART_OPS, 4));
    EXPECT(!kin__account_use(&account, KIN__PART_OPS, 7));
    EXPECT_EQ(account.left.of[KIN__PART_OPS], 6);
    EXPECT(kin__account_use(&account, KIN__PART_OPS, 6));
    EXPECT(!kin__account_use(&account, KIN__PART_OPS, 1));
    EXPECT(kin__account_use(&account, KIN__PART_OPS, 0));
    EXPECT(!kin__account_use(&account, KIN__PART_SPAWNS, 1)); /* 0 is none */
    EXPECT(kin__account_use(&account, KIN__PART_MEMORY, UINT64_MAX - 1));
    EXPECT_EQ(account.left.of[KIN__PART_MEMORY], KIN__UNLIMITED);
    kin__account_unuse(&account, KIN__PART_OPS, 3, &wakes);
    EXPECT_EQ(kin__account_left(&account).of[KIN__PART_OPS], 3);
    EXPECT_PTR(wakes.first, NULL);
    kin__account_settle(&account, &wakes);
}

KIN_TEST(a_draw_names_the_first_part_that_is_lacking_and_takes_nothing, "SCHED:8.2.1")
{
    struct kin__account pool = {0};
    struct kin__amounts have = amounts(10, 20, 3), want;

    kin__account_init(&pool, nowhere, &have);
    want = amounts(11, 21, 0);
    EXPECT_EQ(kin__purse_draw(from(&pool), &want), KIN_BUDGET_OPS);
    want = amounts(10, 21, 4);
    EXPECT_EQ(kin__purse_draw(from(&pool), &want), KIN_BUDGET_MEMORY);
    want = amounts(KIN__UNLIMITED, 0, 0);
    EXPECT_EQ(kin__purse_draw(from(&pool), &want), KIN_BUDGET_OPS);
    EXPECT_EQ(memcmp(&pool.left, &have, sizeof have), 0);
    want = amounts(10, 20, 3);
    EXPECT_EQ(kin__purse_draw(from(&pool), &want), KIN_BUDGET_NONE);
    EXPECT_EQ(memcmp(&pool.left, &none, sizeof none), 0);
    EXPECT_EQ(kin__purse_draw(nowhere, &want), KIN_BUDGET_NONE); /* lacks nothing */
}

KIN_TEST(an_admission_takes_one_spawn_and_a_share, "SCHED:8.1.2 SCHED:8.2.1")
{
    struct kin__account pool = {0};
    struct kin__amounts have = amounts(11, KIN__UNLIMITED, 3), want;

    kin__account_init(&pool, nowhere, &have);
    want = amounts(1, 0, 3); /* and one more */
    EXPECT_EQ(kin__purse_admit(from(&pool), &want, KIN__SHARE_EXACT), KIN_BUDGET_SPAWNS);
    EXPECT_EQ(memcmp(&pool.left, &have, sizeof have), 0);
    want = amounts(100, 100, 0);
    EXPECT_EQ(kin__purse_admit(from(&pool), &want, KIN__SHARE_HALF), KIN_BUDGET_NONE);
    EXPECT_EQ(want.of[KIN__PART_OPS], 5);
    EXPECT_EQ(want.of[KIN__PART_MEMORY], 100); /* of what has no limit it takes all it wants */
    EXPECT_EQ(pool.left.of[KIN__PART_OPS], 6);
    EXPECT_EQ(pool.left.of[KIN__PART_SPAWNS], 2);
    want = amounts(100, 100, 0);
    EXPECT_EQ(kin__purse_admit(from(&pool), &want, KIN__SHARE_FITS), KIN_BUDGET_NONE);
    EXPECT_EQ(want.of[KIN__PART_OPS], 6);
    want = amounts(0, 0, 0);
    EXPECT_EQ(kin__purse_admit(from(&pool), &want, KIN__SHARE_EXACT), KIN_BUDGET_NONE);
    EXPECT_EQ(kin__purse_admit(from(&pool), &want, KIN__SHARE_FITS), KIN_BUDGET_SPAWNS);
}

KIN_TEST(what_has_no_limit_is_drawn_only_where_there_is_none, "")
{
    struct kin__account pool = {0};
    struct kin__amounts have = amounts(10, KIN__UNLIMITED, 0);
    struct kin__amounts want = amounts(KIN__UNLIMITED, KIN__UNLIMITED, 5);

    kin__account_init(&pool, nowhere, &have);
    kin__purse_draw_some(from(&pool), &want);
    EXPECT_EQ(want.of[KIN__PART_OPS], 0);
    EXPECT_EQ(want.of[KIN__PART_MEMORY], KIN__UNLIMITED);
    EXPECT_EQ(want.of[KIN__PART_SPAWNS], 0);
    EXPECT_EQ(pool.left.of[KIN__PART_OPS], 10);
    kin__purse_draw_some(nowhere, &want);
}

KIN_TEST(a_purse_with_two_sides_gives_both_or_neither, "SCHED:8.2.1")
{
    struct kin__account soft = {0}, hard = {0};
    struct kin__purse purse = {&soft, &hard};
    struct kin__amounts have = amounts(10, 10, 10), want = amounts(11, 5, 2);

    kin__account_init(&soft, nowhere, &have);
    kin__account_init(&hard, nowhere, &have);
    EXPECT_EQ(kin__purse_draw(purse, &want), KIN_BUDGET_OPS);
    EXPECT_EQ(kin__purse_admit(purse, &want, KIN__SHARE_EXACT), KIN_BUDGET_OPS);
    want = amounts(1, 11, 0);
    EXPECT_EQ(kin__purse_admit(purse, &want, KIN__SHARE_EXACT), KIN_BUDGET_MEMORY);
    EXPECT_EQ(memcmp(&soft.left, &have, sizeof have), 0);
    EXPECT_EQ(memcmp(&hard.left, &have, sizeof have), 0);
    want = amounts(1, 2, 3);
    EXPECT_EQ(kin__purse_admit(purse, &want, KIN__SHARE_EXACT), KIN_BUDGET_NONE);
    EXPECT_EQ(soft.left.of[KIN__PART_OPS], 9);
    EXPECT_EQ(soft.left.of[KIN__PART_MEMORY], 10);
    EXPECT_EQ(soft.left.of[KIN__PART_SPAWNS], 10);
    EXPECT_EQ(hard.left.of[KIN__PART_OPS], 10);
    EXPECT_EQ(hard.left.of[KIN__PART_MEMORY], 8);
    EXPECT_EQ(hard.left.of[KIN__PART_SPAWNS], 6);
    struct kin__amounts left = kin__purse_left(purse);
    EXPECT_EQ(left.of[KIN__PART_OPS], 9);
    EXPECT_EQ(left.of[KIN__PART_SPAWNS], 6);

    struct kin__account account = {0};
    struct kin__wakes wakes = {0};
    kin__account_init(&account, purse, &want);
    kin__account_settle(&account, &wakes); /* each part to the side it came from */
    EXPECT_EQ(memcmp(&soft.left, &have, sizeof have), 0);
    EXPECT_EQ(hard.left.of[KIN__PART_MEMORY], 10);
    EXPECT_EQ(hard.left.of[KIN__PART_SPAWNS], 9); /* the admission */
    kin__purse_mint(purse, &want, &wakes);
    EXPECT_EQ(soft.left.of[KIN__PART_OPS], 11);
    EXPECT_EQ(soft.left.of[KIN__PART_SPAWNS], 10);
    EXPECT_EQ(hard.left.of[KIN__PART_SPAWNS], 12);
    kin__account_settle(&soft, &wakes);
    kin__account_settle(&hard, &wakes);
    EXPECT_EQ(kin__purse_left(nowhere).of[KIN__PART_SYSCALLS], KIN__UNLIMITED);
}

/* ---- returning ---- */

KIN_TEST(what_was_made_is_used_first_and_never_returns, "SCHED:3.2.3 SCHED:8.2.1")
{
    struct kin__wakes wakes = {0};
    struct kin__amounts hundred = amounts(100, 0, 0), forty = amounts(40, 0, 0);

    for (uint64_t use = 0; use <= 140; use += 35) {
        struct kin__account pool = {0}, account = {0};
        kin__account_init(&pool, nowhere, &hundred);
        EXPECT_EQ(kin__purse_draw(from(&pool), &hundred), KIN_BUDGET_NONE);
        kin__account_init(&account, from(&pool), &hundred);
        kin__account_add(&account, &none, &forty, &wakes);
        EXPECT(kin__account_use(&account, KIN__PART_OPS, use));
        kin__account_settle(&account, &wakes);
        EXPECT_EQ(pool.left.of[KIN__PART_OPS], use <= 40 ? 100 : 140 - use);
        kin__account_settle(&pool, &wakes); /* which checks that nothing was lost */
    }
}

/* ---- blocks that are kept ---- */

enum { BLOCKS = 5, BLOCK = 30 };

/* So many blocks that an account has paid for. */
static struct kin__payer *take_blocks(struct kin__account *account)
{
    struct kin__payer *payer = NULL;
    for (int i = 0; i < BLOCKS; i++) {
        EXPECT(kin__account_use(account, KIN__PART_MEMORY, BLOCK));
        payer = kin__account_payer(account);
        EXPECT(payer != NULL);
        kin__payer_hold(payer);
    }
    return payer;
}

/* 100 bytes are given to an account and 60 are made for it, of which blocks are 150. So many of
 * these are freed before it settles and the others later, one by one: all that was given returns to
 * the pool, whichever comes first, and of what was made nothing. */
KIN_TEST(of_blocks_that_are_kept_what_was_given_returns_once, "SCHED:3.2.3 SCHED:8.2.1")
{
    struct kin__wakes wakes = {0};
    struct kin__amounts hundred = amounts(0, 100, 0), sixty = amounts(0, 60, 0);

    for (int before = 0; before <= BLOCKS; before++) {
        struct kin__account pool = {0}, account = {0};
        kin__account_init(&pool, nowhere, &hundred);
        EXPECT_EQ(kin__purse_draw(from(&pool), &hundred), KIN_BUDGET_NONE);
        kin__account_init(&account, from(&pool), &hundred);
        kin__account_add(&account, &none, &sixty, &wakes);
        struct kin__payer *payer = take_blocks(&account);
        for (int i = 0; i < before; i++)
            kin__payer_refund(payer, BLOCK);
        kin__account_settle(&account, &wakes);
        memset(&account, 0, sizeof account); /* nobody looks at it any more */
        for (int i = before; i <= BLOCKS; i++) {
            uint64_t there = (uint64_t)(10 + i * BLOCK); /* 160 less the blocks that are kept */
            EXPECT_EQ(pool.left.of[KIN__PART_MEMORY], there < 100 ? there : 100);
            if (i < BLOCKS)
                kin__payer_refund(payer, BLOCK);
        }
        kin__account_settle(&pool, &wakes); /* which checks that nothing was lost */
    }
}

/* Blocks of a task that is over, whose nursery and whose owner are over, too: each of them pays,
 * and what returns is the pool's that is left. */
KIN_TEST(blocks_that_are_kept_return_past_all_that_have_settled, "SCHED:8.2.1")
{
    struct kin__wakes wakes = {0};
    struct kin__amounts all = amounts(0, BLOCKS * BLOCK, 0);
    struct kin__account floors[4];

    memset(floors, 0, sizeof floors);
    for (int i = 0; i < 4; i++) {
        struct kin__purse source = i ? from(&floors[i - 1]) : nowhere;
        EXPECT_EQ(kin__purse_draw(source, &all), KIN_BUDGET_NONE);
        kin__account_init(&floors[i], source, &all);
    }
    struct kin__payer *payer = take_blocks(&floors[3]);
    for (int i = 3; i > 0; i--) {
        kin__payer_refund(payer, BLOCK);
        for (int below = 3; below >= i; below--) /* a settled one holds nothing */
            EXPECT_EQ(floors[below].left.of[KIN__PART_MEMORY], below > i ? 0 : (4 - i) * BLOCK);
        kin__account_settle(&floors[i], &wakes);
        memset(&floors[i], 0, sizeof floors[i]);
    }
    EXPECT_EQ(floors[0].left.of[KIN__PART_MEMORY], 3 * BLOCK);
    kin__payer_refund(payer, BLOCK);
    EXPECT_EQ(floors[0].left.of[KIN__PART_MEMORY], 4 * BLOCK);
    kin__payer_refund(payer, BLOCK);
    EXPECT_EQ(floors[0].left.of[KIN__PART_MEMORY], BLOCKS * BLOCK);
    kin__account_settle(&floors[0], &wakes);
}

#ifdef KIN_DEBUG
KIN_TEST(an_account_that_lost_something_is_found_when_it_settles, "SCHED:8.2.1")
{
    struct kin__wakes wakes = {0};
    struct kin__amounts ten = amounts(10, 0, 0);
    struct kin__account account = {0};

    kin__account_init(&account, nowhere, &ten);
    account.left.of[KIN__PART_OPS] = 9;
    EXPECT_ABORT("a budget is conserved")
    {
        kin__account_settle(&account, &wakes);
    }
}
#endif

/* ---- refills ---- */

KIN_TEST(who_is_pooled_takes_small_portions_of_a_small_pool, "SCHED:3.2.3")
{
    struct kin__wakes wakes = {0};
    struct kin__amounts have = amounts(1000000, 0, 0);
    struct kin__account pool = {0}, account = {0};
    uint64_t spent = 0, rounds = 0;

    kin__account_init(&pool, nowhere, &have);
    kin__account_init(&account, from(&pool), &none);
    account.is_pooled = account.refills = 1;
    while (kin__account_refill(&account, KIN__PART_OPS, 1024)) {
        spent++;
        uint64_t portion = account.left.of[KIN__PART_OPS] + 1;
        uint64_t had = pool.left.of[KIN__PART_OPS] + portion;
        EXPECT_LE(portion, 1024);
        EXPECT_LE(portion - 1, had / 64);
        while (kin__account_use(&account, KIN__PART_OPS, 1))
            spent++;
        rounds++;
    }
    EXPECT_EQ(spent, 1000000);
    EXPECT_GT(rounds, 1000000 / 1024);
    EXPECT_EQ(pool.left.of[KIN__PART_OPS], 0);
    kin__account_settle(&account, &wakes);
    kin__account_settle(&pool, &wakes);
}

KIN_TEST(what_is_left_of_a_portion_is_taken_back_and_a_recharge_is_not, "SCHED:3.2.3")
{
    struct kin__wakes wakes = {0};
    struct kin__amounts have = amounts(6400, 0, 0), gift = amounts(7, 0, 0);
    struct kin__account pool = {0}, holders[3];

    memset(holders, 0, sizeof holders);
    kin__account_init(&pool, nowhere, &have);
    for (int i = 0; i < 3; i++) {
        kin__account_init(&holders[i], from(&pool), &none);
        holders[i].is_pooled = holders[i].refills = 1;
    }
    EXPECT(kin__account_refill(&holders[0], KIN__PART_OPS, 100));
    EXPECT_EQ(holders[0].left.of[KIN__PART_OPS], 99);
    EXPECT_EQ(kin__purse_draw(from(&pool), &gift), KIN_BUDGET_NONE);
    kin__account_add(&holders[0], &gift, &none, &wakes);
    EXPECT(kin__account_refill(&holders[1], KIN__PART_OPS, 50));
    EXPECT_EQ(holders[1].left.of[KIN__PART_OPS], 49);
    gift = amounts(6243, 0, 0); /* the rest */
    EXPECT_EQ(kin__purse_draw(from(&pool), &gift), KIN_BUDGET_NONE);
    kin__account_settle(&holders[1], &wakes); /* one that is over holds nothing */
    EXPECT_EQ(pool.left.of[KIN__PART_OPS], 49);
    gift = amounts(49, 0, 0);
    EXPECT_EQ(kin__purse_draw(from(&pool), &gift), KIN_BUDGET_NONE);

    EXPECT(kin__account_refill(&holders[2], KIN__PART_OPS, 100)); /* out of what the first held */
    EXPECT_EQ(holders[0].left.of[KIN__PART_OPS], 7);
    EXPECT_EQ(holders[2].left.of[KIN__PART_OPS], 0); /* a 64th of 99 */
    EXPECT_EQ(pool.left.of[KIN__PART_OPS], 98);
    gift = amounts(98, 0, 0);
    EXPECT_EQ(kin__purse_draw(from(&pool), &gift), KIN_BUDGET_NONE);
    EXPECT(!kin__account_refill(&holders[2], KIN__PART_OPS, 100));
    kin__account_settle(&holders[0], &wakes); /* both conserve what they were given */
    kin__account_settle(&holders[2], &wakes);
}

KIN_TEST(a_draw_takes_portions_back_rather_than_to_be_refused, "SCHED:8.2.1")
{
    struct kin__wakes wakes = {0};
    struct kin__amounts have = amounts(640, 0, 1), want = amounts(639, 0, 0);
    struct kin__account pool = {0}, holder = {0};

    kin__account_init(&pool, nowhere, &have);
    kin__account_init(&holder, from(&pool), &none);
    holder.is_pooled = holder.refills = 1;
    EXPECT(kin__account_refill(&holder, KIN__PART_OPS, 100));
    EXPECT_EQ(holder.left.of[KIN__PART_OPS], 9);
    EXPECT_EQ(kin__purse_admit(from(&pool), &want, KIN__SHARE_EXACT), KIN_BUDGET_NONE);
    EXPECT_EQ(holder.left.of[KIN__PART_OPS], 0);
    EXPECT_EQ(pool.left.of[KIN__PART_OPS], 0);
    kin__account_settle(&holder, &wakes);
}

KIN_TEST(other_parts_are_taken_one_by_one_and_what_has_no_limit_at_once, "SCHED:3.2.3")
{
    struct kin__amounts have = {{KIN__UNLIMITED, 0, 0, 2, 0}};
    struct kin__account pool = {0}, account = {0};

    kin__account_init(&pool, nowhere, &have);
    kin__account_init(&account, from(&pool), &none);
    account.is_pooled = account.refills = 1;
    EXPECT(kin__account_refill(&account, KIN__PART_OPS, 100));
    EXPECT_EQ(account.left.of[KIN__PART_OPS], KIN__UNLIMITED);
    EXPECT(kin__account_refill(&account, KIN__PART_CHANNEL_OPS, 100));
    EXPECT_EQ(account.left.of[KIN__PART_CHANNEL_OPS], 0);
    EXPECT(kin__account_refill(&account, KIN__PART_CHANNEL_OPS, 100));
    EXPECT(!kin__account_refill(&account, KIN__PART_CHANNEL_OPS, 100));
    EXPECT(!kin__account_refill(&account, KIN__PART_SYSCALLS, 100));
}

KIN_TEST(who_has_a_budget_of_its_own_is_refilled_by_as_much, "SCHED:3.2.3")
{
    struct kin__amounts have = amounts(25, 0, 0);
    struct kin__account pool = {0}, account = {0};

    kin__account_init(&pool, nowhere, &have);
    kin__account_init(&account, from(&pool), &none);
    account.refills = 1;
    account.quantum = amounts(10, 0, 0);
    EXPECT(kin__account_refill(&account, KIN__PART_OPS, 1));
    EXPECT_EQ(account.left.of[KIN__PART_OPS], 9);
    account.left.of[KIN__PART_OPS] = 0;
    EXPECT(kin__account_refill(&account, KIN__PART_OPS, 1));
    account.left.of[KIN__PART_OPS] = 0;
    EXPECT(kin__account_refill(&account, KIN__PART_OPS, 1)); /* the rest */
    EXPECT_EQ(account.left.of[KIN__PART_OPS], 4);
    EXPECT(!kin__account_refill(&account, KIN__PART_OPS, 1));
    account.source = nowhere; /* from where there is no limit */
    EXPECT(kin__account_refill(&account, KIN__PART_OPS, 1));
    EXPECT_EQ(account.left.of[KIN__PART_OPS], 4 + 9);
}

/* ---- those that wait ---- */

enum { WAITERS = 5 };

struct queue {
    struct kin__account pool;
    _Atomic int begun, served;
    int order[WAITERS]; /* in which they went on */
};

struct waiter {
    struct queue *queue;
    int number;
    enum kin__part part;
    int expected;
};

static int wait_in_line(void *arg)
{
    struct waiter *waiter = arg;
    struct queue *queue = waiter->queue;
    struct kin__account own = {0};
    struct kin__wakes wakes = {0};

    kin__account_init(&own, from(&queue->pool), &none);
    own.refills = 1;
    while (atomic_load(&queue->begun) < waiter->number)
        EXPECT_EQ(kin_yield(), 0);
    atomic_fetch_add(&queue->begun, 1);
    EXPECT_EQ(kin__account_wait(&own, waiter->part, NULL, KIN_NEVER), waiter->expected);
    queue->order[atomic_fetch_add(&queue->served, 1)] = waiter->number;
    kin__account_settle(&own, &wakes);
    EXPECT_EQ(own.given.of[waiter->part], waiter->expected == 0); /* used at once */
    return 0;
}

static bool is_waiting(struct queue *queue, unsigned count)
{
    unsigned linked = 0;
    kin__lock_take(&queue->pool.lock, KIN__RANK_WAIT);
    const struct kin__list *head = &queue->pool.hungry;
    for (const struct kin__list *link = head->next; link && link != head; link = link->next)
        linked++;
    kin__lock_give(&queue->pool.lock, KIN__RANK_WAIT);
    return linked == count;
}

static void put(struct queue *queue, enum kin__part part, uint64_t amount)
{
    struct kin__wakes wakes = {0};
    struct kin__amounts given = none;
    given.of[part] = amount;
    kin__account_add(&queue->pool, &given, &none, &wakes);
    kin__wakes_run(&wakes);
}

static int serve_in_order(void *arg)
{
    struct queue queue = {0};
    struct waiter waiters[WAITERS];
    struct kin__wakes wakes = {0};
    KIN_NURSERY(n);

    (void)arg;
    kin__account_init(&queue.pool, nowhere, &none);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = (struct waiter){&queue, i, i == 1 ? KIN__PART_SYSCALLS : KIN__PART_OPS, 0};
        EXPECT_EQ(kin_spawn(&n, wait_in_line, &waiters[i]), 0);
        while (!is_waiting(&queue, (unsigned)i + 1))
            EXPECT_EQ(kin_yield(), 0);
    }
    put(&queue, KIN__PART_OPS, 2); /* passes over the one that needs something else */
    await(&queue.served, 2);
    EXPECT_EQ(queue.pool.left.of[KIN__PART_OPS], 0); /* handed over, not left to be fought for */
    EXPECT_EQ(queue.order[0] + queue.order[1], 0 + 2); /* which of them runs first is open */
    EXPECT_EQ(queue.order[0] * queue.order[1], 0 * 2);
    EXPECT(is_waiting(&queue, 3));
    put(&queue, KIN__PART_SYSCALLS, 5);
    await(&queue.served, 3);
    EXPECT_EQ(queue.order[2], 1);
    EXPECT_EQ(queue.pool.left.of[KIN__PART_SYSCALLS], 4);
    put(&queue, KIN__PART_OPS, 2);
    await(&queue.served, 5);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT(is_waiting(&queue, 0));
    kin__account_settle(&queue.pool, &wakes);
    return 0;
}

KIN_TEST(those_that_wait_are_served_in_order_of_arrival, "SCHED:3.2.2")
{
    EXPECT_EQ(run_reporting(1, serve_in_order, NULL, NULL), 0);
}

static int leave_the_line(void *arg)
{
    struct queue queue = {0};
    struct waiter waiter = {&queue, 0, KIN__PART_OPS, KIN_CANCELLED};
    struct kin__account own = {0};
    struct kin__wakes wakes = {0};
    KIN_NURSERY(n);

    (void)arg;
    kin__account_init(&queue.pool, nowhere, &none);
    EXPECT_EQ(kin_spawn(&n, wait_in_line, &waiter), 0);
    while (!is_waiting(&queue, 1))
        EXPECT_EQ(kin_yield(), 0);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT(is_waiting(&queue, 0));
    put(&queue, KIN__PART_OPS, 1); /* nobody takes it */
    EXPECT_EQ(queue.pool.left.of[KIN__PART_OPS], 1);
    kin__account_init(&own, from(&queue.pool), &none);
    EXPECT_EQ(kin__account_wait(&own, KIN__PART_OPS, NULL, kin_after(KIN_MS(1))), KIN_TIMEOUT);
    EXPECT_EQ(queue.pool.left.of[KIN__PART_OPS], 1); /* it does not refill */
    own.refills = 1;
    EXPECT_EQ(kin__account_wait(&own, KIN__PART_OPS, NULL, 1), 0); /* it was there */
    kin__account_settle(&own, &wakes);
    kin__account_settle(&queue.pool, &wakes);
    return 0;
}

KIN_TEST(who_leaves_the_line_takes_nothing_along, "SCHED:3.2.2 W:4.3")
{
    run_on_few(leave_the_line, NULL);
}
