/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever a tree of tasks does with its budgets, what is left and what was used add up to
 *       what was granted, in every part [SCHED:8.2.1].
 * Method: trees grown at random from the printed seed on several workers, with budgets that are
 *         given, defaulted, nested, exhausted and recharged. Each task counts what it used; the
 *         pool is compared with the sum. A second kind is cancelled at random moments, recharged
 *         out of nothing and left waiting: there the assertions of debug builds do the sums.
 */
#include "api/budgets.h"

#include <kin/chan.h>

static uint64_t step(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

/* What the tasks of a tree have used in all. */
struct sum {
    _Atomic uint64_t ops, memory, spawns, channel_ops;
    _Atomic int tasks, refusals;
    _Atomic(void *) kept; /* blocks that are not freed before the end of the tree */
    struct kin_chan *chan;
};

struct work {
    struct sum *sum;
    uint64_t random;
    int depth;
};

static int be_task(void *arg);

/* A budget that is sometimes the default, sometimes too large. */
static struct kin_budget some_budget(uint64_t *random)
{
    if (step(random) % 3 == 0)
        return (struct kin_budget){0, 0, 0, 0, 0};
    struct kin_budget budget = {step(random) % 300, step(random) % 3000, (uint32_t)step(random) % 9,
                                (uint32_t)step(random) % 40, (uint32_t)step(random) % 5};
    if (step(random) % 30 == 0)
        budget.ops = step(random) % 3 ? 1000000 : UINT64_MAX;
    return budget;
}

static void spawn_one(struct work *work, struct kin_nursery *n)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct work child = {work->sum, step(&work->random), work->depth - 1};

    options.budget = some_budget(&work->random);
    options.caps = KIN_CAP_SPAWN | KIN_CAP_CHANNEL; /* not KIN_CAP_BUDGET: nothing is made */
    int rc = kin_spawn_with(n, &options, be_task, &child, sizeof child, NULL);
    if (rc == 0) {
        atomic_fetch_add(&work->sum->ops, 1);
        atomic_fetch_add(&work->sum->spawns, 1);
    } else {
        EXPECT_EQ(rc, KIN_BUDGET);
        EXPECT_NE(kin_budget_exhausted(), KIN_BUDGET_NONE);
        atomic_fetch_add(&work->sum->refusals, 1);
    }
}

/* A nursery below, with a pool of its own or without. */
static void nest(struct work *work)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;

    options.budget = some_budget(&work->random);
    options.on_exhausted = KIN_EXHAUSTED_FAIL; /* or a tree may wait for itself */
    options.recharge = (enum kin_recharge)(step(&work->random) % 3);
    int rc = kin_nursery_open(&n, &options);
    if (rc < 0) {
        EXPECT_EQ(rc, KIN_BUDGET);
        atomic_fetch_add(&work->sum->refusals, 1);
        return;
    }
    for (uint64_t i = step(&work->random) % 6; i > 0; i--)
        spawn_one(work, &n);
    if (step(&work->random) % 2) {
        rc = kin_nursery_recharge(&n, some_budget(&work->random)); /* from its own */
        EXPECT(rc == 0 || rc == KIN_BUDGET);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
}

/* Puts a block on the list: its memory stays used. */
static void keep(struct sum *sum, void *block, size_t size)
{
    void *next = atomic_load(&sum->kept);

    atomic_fetch_add(&sum->memory, size);
    do
        memcpy(block, &next, sizeof next);
    while (!atomic_compare_exchange_weak(&sum->kept, &next, block));
}

static void free_kept(struct sum *sum)
{
    for (void *block = atomic_load(&sum->kept), *next; block; block = next) {
        memcpy(&next, block, sizeof next);
        kin_free(block);
    }
}

/* One operation, which is counted if it was charged. */
static void use(struct work *work)
{
    struct sum *sum = work->sum;
    size_t size = sizeof(void *) + step(&work->random) % 200;
    int item = 0, rc;

    switch (step(&work->random) % 4) {
    case 0:
        rc = kin_checkpoint();
        EXPECT(rc == 0 || rc == KIN_BUDGET);
        atomic_fetch_add(&sum->ops, rc == 0);
        break;
    case 1: {
        uint64_t ops = 1;
        void *memory = kin_alloc(size);
        if (!memory) {
            EXPECT_NE(kin_budget_exhausted(), KIN_BUDGET_NONE);
            ops = kin_budget_exhausted() == KIN_BUDGET_MEMORY; /* the op was paid for */
        }
        atomic_fetch_add(&sum->ops, ops);
        if (memory && step(&work->random) % 4 == 0)
            keep(sum, memory, size);
        else
            kin_free(memory);
        break;
    }
    default:
        rc = step(&work->random) % 2 ? kin_chan_send(sum->chan, &item, 0)
                                     : kin_chan_recv(sum->chan, &item, 0);
        if (rc == KIN_BUDGET)
            break;
        EXPECT(rc == 0 || rc == KIN_FULL || rc == KIN_EMPTY);
        atomic_fetch_add(&sum->ops, 1);
        atomic_fetch_add(&sum->channel_ops, 1);
    }
}

static int be_task(void *arg)
{
    struct work *work = arg;

    atomic_fetch_add(&work->sum->tasks, 1);
    for (uint64_t i = step(&work->random) % 60; i > 0; i--) {
        if (step(&work->random) % 16 == 0 && work->depth > 0)
            nest(work);
        else
            use(work);
    }
    return 0;
}

static int count_one_tree(void *arg)
{
    static const struct kin_budget granted = {20000, 60000, 400, 3000, 100};
    struct sum *sum = arg;
    uint64_t seed = (uint64_t)atomic_load(&sum->tasks) * 77 + kin_test_seed();
    struct work root = {sum, seed, 4};
    struct kin_task_ref ref;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_spawn_options first = KIN_SPAWN_OPTIONS_INIT;
    struct kin_nursery n;

    options.budget = granted;
    options.on_exhausted = KIN_EXHAUSTED_FAIL;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    first.caps = KIN_CAP_SPAWN | KIN_CAP_CHANNEL;
    if (step(&root.random) % 2)
        first.budget = (struct kin_budget){15000, 50000, 300, 2500, 50};
    EXPECT_EQ(kin_spawn_with(&n, &first, be_task, &root, sizeof root, &ref), 0);
    EXPECT_EQ(kin_task_join(&n, ref, NULL, KIN_NEVER), 0);
    struct kin_budget left = kin_nursery_budget_left(&n);
    EXPECT_EQ(left.ops + atomic_load(&sum->ops), granted.ops);
    EXPECT_EQ(left.memory + atomic_load(&sum->memory), granted.memory);
    EXPECT_EQ(left.spawns + atomic_load(&sum->spawns) + 1, granted.spawns);
    EXPECT_EQ(left.channel_ops + atomic_load(&sum->channel_ops), granted.channel_ops);
    EXPECT_EQ(left.syscalls, granted.syscalls);
    return kin_nursery_join(&n, NULL);
}

static int count_trees(void *arg)
{
    int tasks = 0, refusals = 0;

    (void)arg;
    for (unsigned i = 0; i < 400 / kin_test_scale() + 20; i++) {
        struct sum sum = {.tasks = tasks};
        EXPECT_EQ(kin_chan_create(&sum.chan, sizeof(int), 8), 0);
        EXPECT_EQ(count_one_tree(&sum), 0);
        tasks = atomic_load(&sum.tasks);
        refusals += atomic_load(&sum.refusals);
        kin_chan_unref(sum.chan);
        free_kept(&sum);
    }
    EXPECT_GT(tasks, 100); /* or nothing was tested */
    EXPECT_GT(refusals, 10);
    return 0;
}

KIN_TEST(what_is_left_and_what_was_used_is_what_was_granted, "SCHED:8.2.1 SCHED:3.3.1 B13")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        EXPECT_EQ(run_as(KIN_SERVICE, workers, count_trees, NULL), 0);
        EXPECT_EQ(run_as(KIN_SOVEREIGN, workers, count_trees, NULL), 0);
    }
}

/* ---- trouble ---- */

enum { REFS = 16 };

/* Names of tasks, some of them over, for others to recharge and to cancel. */
struct trouble {
    _Atomic uint64_t refs[REFS];
    struct kin_chan *chan;
};

struct troubled {
    struct trouble *trouble;
    uint64_t random;
    int depth;
};

static int be_troubled(void *arg);

static void trouble_one(struct troubled *work)
{
    struct kin_task_ref ref = {atomic_load(&work->trouble->refs[step(&work->random) % REFS])};
    struct kin_budget amount = {step(&work->random) % 50, 10, 1, 3, 0};
    int rc;

    if (step(&work->random) % 8 == 0)
        kin_ignore(kin_task_cancel(ref));
    if (step(&work->random) % 64 == 0)
        amount = KIN_UNLIMITED_BUDGET;
    rc = ref.id ? kin_budget_recharge(ref, amount) : 0;
    EXPECT(rc == 0 || rc == KIN_STALE || rc == KIN_BUDGET); /* the last of these: it was itself */
}

static int nest_troubled(struct troubled *work)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;

    options.budget = some_budget(&work->random);
    options.recharge = (enum kin_recharge)(step(&work->random) % 3);
    options.deadline = kin_after(KIN_MS(20)); /* what waits for ever ends with it */
    if (kin_nursery_open(&n, &options) < 0)
        return 0;
    for (uint64_t i = step(&work->random) % 5; i > 0; i--) {
        struct kin_spawn_options child_options = KIN_SPAWN_OPTIONS_INIT;
        struct troubled child = {work->trouble, step(&work->random), work->depth - 1};
        struct kin_task_ref ref;
        child_options.budget = some_budget(&work->random);
        child_options.recharge_limit = (struct kin_budget){30, 30, 3, 3, 3};
        child_options.caps = KIN_CAP_ALL;
        if (kin_spawn_with(&n, &child_options, be_troubled, &child, sizeof child, &ref) == 0)
            atomic_store(&work->trouble->refs[step(&work->random) % REFS], ref.id);
    }
    if (step(&work->random) % 3 == 0) {
        int rc = kin_nursery_recharge(&n, (struct kin_budget){10, 10, 1, 1, 1});
        EXPECT(rc == 0 || rc == KIN_BUDGET); /* its limit counts over its whole life */
    }
    if (step(&work->random) % 8 == 0)
        kin_nursery_cancel(&n, 0);
    return kin_nursery_join(&n, NULL);
}

static int be_troubled(void *arg)
{
    struct troubled *work = arg;
    void *memory = NULL;
    int item = 0, rc = 0;

    for (uint64_t i = step(&work->random) % 60; i > 0 && rc != KIN_CANCELLED; i--) {
        switch (step(&work->random) % 8) {
        case 0:
            if (work->depth > 0)
                kin_ignore(nest_troubled(work));
            break;
        case 1:
            trouble_one(work);
            break;
        case 2:
            kin_ignore(kin_budget_recharge_self((struct kin_budget){7, 7, 1, 1, 1}));
            break;
        case 3:
            kin_free(memory);
            memory = kin_alloc(step(&work->random) % 100);
            break;
        case 4:
            rc = kin_chan_send(work->trouble->chan, &item, step(&work->random) % 2 ? 0 : KIN_NEVER);
            break;
        default:
            rc = kin_checkpoint(); /* may wait for ops until somebody is kind, or cancels */
        }
    }
    if (step(&work->random) % 2)
        kin_free(memory);
    else if (memory && kin_defer(kin_free, memory) < 0) /* when the task is as good as over */
        kin_free(memory);
    return rc == KIN_CANCELLED ? rc : 0;
}

static int make_trouble(void *arg)
{
    struct trouble trouble = {.chan = NULL};

    (void)arg;
    for (unsigned i = 0; i < 60 / kin_test_scale() + 5; i++) {
        struct troubled root = {&trouble, kin_test_seed() + i, 4};
        EXPECT_EQ(kin_chan_create(&trouble.chan, sizeof(int), 1 << 16), 0);
        kin_ignore(nest_troubled(&root));
        kin_chan_unref(trouble.chan);
    }
    return 0;
}

KIN_TEST(budgets_stay_whole_under_cancels_deadlines_and_recharges, "SCHED:8.2.1 SCHED:3.2.3 B13")
{
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        EXPECT_EQ(run_as(KIN_SERVICE, workers, make_trouble, NULL), 0);
        EXPECT_EQ(run_as(KIN_SOVEREIGN, workers, make_trouble, NULL), 0);
    }
}
