/* SPDX-License-Identifier: MIT */
/*
 * Goal: who is metered and who is not, which account each nursery draws from, and that a refusal at
 *       any point, for want of memory too, leaves every account as it was.
 * Method: white box: flags, banks and accounts; every request for memory fails in turn.
 */
#include "api/budgets.h"

#include "plat/plat.h"
#include "scope/belongings.h"
#include "scope/budget.h"
#include "task/budget.h"

#include <sys/wait.h>
#include <unistd.h>

static struct kin__scope *inner(void)
{
    return kin__load_relaxed(&kin__task_self()->inner);
}

/* ---- who is metered ---- */

static int be_free(void *arg)
{
    (void)arg;
    EXPECT(!(kin__task_self()->flags & (KIN__TASK_METERED | KIN__TASK_EXTRA)));
    EXPECT(!(kin__task_self()->caps & KIN__CAPS_ACCOUNT));
    return 0;
}

static int be_metered(void *arg)
{
    (void)arg;
    EXPECT(kin__task_self()->flags & KIN__TASK_METERED);
    EXPECT(kin__task_self()->caps & KIN__CAPS_ACCOUNT);
    EXPECT_EQ(kin_caps() & KIN__CAPS_ACCOUNT, 0);
    return 0;
}

static int meter_in_service(void *arg)
{
    struct kin_spawn_options named = KIN_SPAWN_OPTIONS_INIT;

    EXPECT_EQ(be_free(arg), 0);
    named.name = "named";
    {
        KIN_NURSERY(n, .name = "plain");
        EXPECT(!(inner()->has & KIN__SCOPE_METERED));
        EXPECT_EQ(kin_spawn(&n, be_free, NULL), 0);
        EXPECT_EQ(kin_spawn_with(&n, &named, be_free, NULL, 0, NULL), 0);
        EXPECT_EQ(spawn_able(&n, KIN_CAP_ALL, be_free, NULL), 0);
        EXPECT_EQ(spawn_able(&n, KIN_CAP_ALL & ~KIN_CAP_NET, be_metered, NULL), 0);
        EXPECT_EQ(spawn_on(&n, much, be_metered, NULL, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    {
        KIN_NURSERY(n, .budget = {100, 0, 10, 0, 0});
        EXPECT(inner()->has & KIN__SCOPE_METERED);
        EXPECT_EQ(kin_spawn(&n, be_metered, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return be_free(arg);
}

KIN_TEST(what_has_no_limit_is_not_metered, "SCHED:10.2.2")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, meter_in_service, NULL), 0);
}

static int meter_strictly(void *arg)
{
    EXPECT_EQ(be_metered(arg), 0);
    EXPECT_EQ(kin_caps(), KIN_CAP_ALL);
    EXPECT(is_same(kin_budget_left(), KIN_UNLIMITED_BUDGET));
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, be_metered, NULL), 0);
    EXPECT_EQ(spawn_on(&n, KIN_UNLIMITED_BUDGET, be_metered, NULL, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(in_the_strict_profiles_everybody_is_metered, "SCHED:10.2.3 SCHED:10.2.4")
{
    EXPECT_EQ(run_as(KIN_CLUSTER, 1, meter_strictly, NULL), 0);
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 1, meter_strictly, NULL), 0);
}

/* ---- banks ---- */

static bool is_purse(struct kin__purse purse, const struct kin__account *soft,
                     const struct kin__account *hard)
{
    return purse.soft == soft && purse.hard == hard;
}

static int find_banks(void *arg)
{
    struct kin__account *own = &kin__task_self()->extra->account;
    struct kin__purse around = kin__budget_bank(kin__load_relaxed(&kin__task_self()->scope));

    (void)arg;
    EXPECT(is_purse(own->source, around.soft, around.hard));
    KIN_NURSERY(plain);
    EXPECT(is_purse(kin__budget_bank(inner()), own, own));
    EXPECT_PTR(inner()->pool, NULL);
    KIN_NURSERY(pool, .budget = {10, 0, 1, 0, 0});
    struct kin__account *bank = inner()->pool;
    EXPECT(bank != NULL && bank != own && bank != around.soft);
    EXPECT(is_purse(kin__budget_bank(inner()), bank, bank));
    EXPECT(is_purse(bank->source, own, own)); /* it is the owner's budget that pays */
    KIN_NURSERY(below);
    EXPECT(is_purse(kin__budget_bank(inner()), own, own)); /* owners count, not nesting */
    EXPECT_EQ(kin_nursery_join(&below, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&pool, NULL), 0);
    return kin_nursery_join(&plain, NULL);
}

/* One that lacks a capability and nothing else bounds nobody. */
static int find_no_bank(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    EXPECT(is_purse(kin__budget_bank(inner()), NULL, NULL));
    EXPECT(is_same(kin_nursery_budget_left(&n), KIN_UNLIMITED_BUDGET));
    return kin_nursery_join(&n, NULL);
}

/* One that was given nothing has no limit of its own. */
static int find_bank_of_pooled(void *arg)
{
    struct kin__purse around = kin__budget_bank(kin__load_relaxed(&kin__task_self()->scope));

    (void)arg;
    KIN_NURSERY(plain);
    EXPECT(is_purse(kin__budget_bank(inner()), around.soft, around.hard));
    KIN_NURSERY(pool, .budget = {10, 0, 1, 0, 0});
    EXPECT(is_purse(inner()->pool->source, around.soft, around.hard));
    EXPECT_EQ(kin_nursery_join(&pool, NULL), 0);
    return kin_nursery_join(&plain, NULL);
}

static int open_banks(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(unlimited);
    KIN_NURSERY(n, .budget = much);

    if (!*(bool *)arg)
        EXPECT_EQ(spawn_able(&unlimited, KIN_CAP_SPAWN, find_no_bank, NULL), 0);
    options.caps = KIN_CAP_SPAWN;
    options.budget = (struct kin_budget){1000, 0, 10, 0, 0};
    EXPECT_EQ(kin_spawn_with(&n, &options, find_banks, arg, 0, NULL), 0);
    if (!*(bool *)arg)
        EXPECT_EQ(kin_spawn(&n, find_bank_of_pooled, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return kin_nursery_join(&unlimited, NULL);
}

KIN_TEST(each_nursery_draws_from_the_account_that_its_profile_says, "SCHED:8.2.1")
{
    bool strict = true, service = false;

    EXPECT_EQ(run_as(KIN_SERVICE, 1, open_banks, &service), 0);
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 1, open_banks, &strict), 0);
}

/* ---- charges ---- */

static int charge_all_or_nothing(void *arg)
{
    struct kin__task *task = kin__task_self();

    (void)arg;
    EXPECT_EQ(kin__op(task, KIN__COST_SYSCALL, 0), 0);
    EXPECT_EQ(kin_budget_left().syscalls, 0);
    EXPECT_EQ(kin_budget_left().ops, 9);
    EXPECT_EQ(kin__op(task, KIN__COST_SYSCALL, 0), KIN_BUDGET);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_SYSCALLS);
    EXPECT_EQ(kin_budget_left().ops, 9);
    EXPECT_EQ(kin__op(task, KIN__COST_SYSCALL | KIN_CAP_FILE, 0), KIN_NOCAP);
    EXPECT_EQ(kin_budget_left().ops, 9);
    task->slice = 1; /* a refusal at the end of a slice does not start a new one, nor wrap it */
    EXPECT_EQ(kin__op(task, KIN_CAP_FILE, 0), KIN_NOCAP);
    EXPECT_EQ(task->slice, 1);
    EXPECT_EQ(kin__op(task, 0, 0), 0);
    EXPECT_EQ(task->slice, kin__task_sched(task)->slice);
    EXPECT_EQ(kin_budget_left().ops, 8);
    return 0;
}

static int spawn_charged(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n, .recharge = KIN_RECHARGE_MANUAL);

    options.caps = KIN_CAP_SPAWN | KIN_CAP_NET;
    options.budget = (struct kin_budget){10, 0, 0, 0, 1};
    EXPECT_EQ(kin_spawn_with(&n, &options, charge_all_or_nothing, arg, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(an_operation_that_is_refused_costs_nothing, "SCHED:3.3.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, spawn_charged, NULL), 0);
}

/* ---- a spawn that fails after it was paid for ---- */

static int run_out_of_memory(void *arg)
{
    static char large[100000];
    struct kin_budget before = kin_nursery_budget_left(arg), own = kin_budget_left();

    kin__plat_fail_after(1, false);
    int rc = kin_spawn_copy(arg, nothing_to_do, large, sizeof large);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(rc, -ENOMEM);
    EXPECT(is_same(kin_nursery_budget_left(arg), before));
    EXPECT(is_same(kin_budget_left(), own));
    EXPECT_EQ(kin_spawn_copy(arg, nothing_to_do, large, sizeof large), 0);
    EXPECT_EQ(kin_nursery_budget_left(arg).spawns, before.spawns - 1);
    return 0;
}

static int fail_after_payment(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_nursery n, pool;
    struct kin_nursery_options limited = KIN_NURSERY_OPTIONS_INIT;

    (void)arg;
    limited.budget = much;
    EXPECT_EQ(kin_nursery_open(&pool, &limited), 0);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    options.caps = KIN_CAP_SPAWN;
    options.budget = (struct kin_budget){100, 100000, 0, 0, 0};
    EXPECT_EQ(kin_spawn_with(&n, &options, run_out_of_memory, &pool, 0, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return kin_nursery_join(&pool, NULL);
}

KIN_TEST(a_spawn_without_memory_for_its_argument_is_paid_back, "SCHED:8.2.1 NSM:3.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, fail_after_payment, NULL), 0);
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 1, fail_after_payment, NULL), 0);
}

/* ---- without memory ---- */

static int is_shortage(int rc)
{
    return rc == -ENOMEM || rc == -EAGAIN;
}

static int be_small(void *arg)
{
    (void)arg;
    void *memory = kin_alloc(64);
    int rc = kin_checkpoint();
    kin_free(memory);
    EXPECT_EQ(rc, 0);
    return 0;
}

static int be_branch(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;

    (void)arg;
    options.budget = (struct kin_budget){100, 1000, 4, 0, 0};
    options.on_error = KIN_COLLECT;
    struct kin_budget before = kin_budget_left();
    int rc = kin_nursery_open(&n, &options);
    if (rc < 0) {
        EXPECT(is_shortage(rc));
        EXPECT(is_same(kin_budget_left(), before)); /* left nothing behind */
        return 0;
    }
    for (int i = 0; i < 4; i++) {
        struct kin_budget ten = {10, 64, 0, 0, 0}, pool = kin_nursery_budget_left(&n);
        rc = spawn_on(&n, ten, be_small, NULL, NULL);
        EXPECT(rc == 0 || is_shortage(rc));
        if (rc < 0)
            EXPECT_EQ(pool.spawns, kin_nursery_budget_left(&n).spawns);
    }
    rc = kin_nursery_join(&n, NULL);
    EXPECT(rc == 0 || is_shortage(rc)); /* no memory for a stack */
    return 0;
}

static int be_tree(void *arg)
{
    struct kin_budget enough = {1000, 5000, 10, 10, 10};
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n, .budget = {10000, 100000, 100, 100, 100}, .on_error = KIN_COLLECT);

    (void)arg;
    options.budget = enough;
    options.caps = KIN_CAP_SPAWN;
    for (int i = 0; i < 5; i++) {
        int rc = kin_spawn_with(&n, &options, be_branch, NULL, 0, NULL);
        EXPECT(rc == 0 || is_shortage(rc) || rc == KIN_NOSCOPE);
    }
    int rc = kin_nursery_join(&n, NULL);
    EXPECT(rc == 0 || is_shortage(rc));
    return rc;
}

static int run_tree(enum kin_profile profile)
{
    struct kin_config config = KIN_CONFIG_INIT;

    config.workers = 2;
    config.profile = profile;
    config.budget = (struct kin_budget){100000, 1000000, 1000, 1000, 1000};
    return kin_run(&config, be_tree, NULL);
}

/* In a process of its own, where nothing is cached. */
static int run_short_of(uint64_t n, enum kin_profile profile)
{
    const pid_t process = fork();
    int status = 0;

    EXPECT_GE(process, 0);
    if (process == 0) {
        alarm(KIN_TEST_S / 2 * kin_test_scale());
        kin__plat_fail_after(n, false);
        int rc = run_tree(profile);
        uint64_t requests = kin__plat_requests();
        kin__plat_fail_after(0, false);
        EXPECT(rc == 0 || is_shortage(rc));
        EXPECT_EQ(run_tree(profile), 0);
        exit(requests < n ? 77 : 0); /* 77: the program needs fewer, the sweep is over */
    }
    EXPECT_EQ(waitpid(process, &status, 0), process);
    if (status != 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 77))
        printf("with request %llu failing\n", (unsigned long long)n);
    EXPECT(WIFEXITED(status));
    return WEXITSTATUS(status);
}

KIN_TEST_LIMIT(without_memory_budgets_are_refused_and_nothing_is_lost, "SCHED:8.2.1 NSM:3.1", 300)
{
    for (int profile = KIN_SERVICE; profile <= KIN_SOVEREIGN; profile += KIN_SOVEREIGN) {
        int over = 0;
        uint64_t n;
        for (n = 1; n < 1000 && over < 3; n++) {
            int status = run_short_of(n, (enum kin_profile)profile);
            EXPECT(status == 0 || status == 77);
            over = status == 77 ? over + 1 : 0;
        }
        EXPECT_EQ(over, 3);
        EXPECT_GT(n, 20);
    }
}
