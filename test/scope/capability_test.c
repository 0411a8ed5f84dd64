/* SPDX-License-Identifier: MIT */
/*
 * Goal: no task ever holds a capability that its owner or its spawner lacks.
 * Method: white box: the rule itself for every pair of sets; trees of tasks with random sets from
 *         the seed, each child asking for anything.
 */
#include "api/budgets.h"

#include "base/rng.h"
#include "scope/capability.h"

/* ---- the rule ---- */

static int expected_for(uint32_t asked, uint32_t most, bool is_strict, uint32_t *out)
{
    if (!(most & KIN_CAP_SPAWN))
        return KIN_NOCAP;
    if ((asked & KIN_CAP_NONE) && asked != KIN_CAP_NONE)
        return -EINVAL;
    *out = asked == KIN_CAP_NONE || (asked == 0 && is_strict) ? 0 : asked ? asked : most;
    return *out & ~most ? KIN_NOCAP : 0;
}

static int check_rule(void *arg)
{
    struct kin__task *self = kin__task_self();
    uint16_t before = self->caps;
    struct kin_nursery n;
    struct kin__rng rng;
    bool is_strict = kin__profile_is_strict(kin__task_sched(self));

    (void)arg;
    kin__rng_init(&rng, kin_test_seed(), 1);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    const struct kin__scope *scope = kin__load_relaxed(&self->inner);
    for (int i = 0; i < 20000; i++) {
        struct kin__task spawner = {.caps = (uint16_t)(kin__rng_next(&rng) & KIN_CAP_ALL)};
        struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
        static const uint32_t rare[] = {0, KIN_CAP_NONE, KIN_CAP_NONE | KIN_CAP_TIME, KIN_CAP_ALL};
        uint64_t random = kin__rng_next(&rng);
        self->caps = (uint16_t)(before & (~(uint32_t)KIN_CAP_ALL | (uint32_t)(random >> 32)));
        options.caps = random % 3 ? (uint32_t)random & KIN_CAP_ALL : rare[random / 3 % 4];
        if (random & 0x40000000) /* few bits, or nearly nothing is a subset */
            options.caps &= spawner.caps & self->caps;
        const struct kin__task *by = i % 4 ? &spawner : NULL; /* NULL: a plain thread */
        uint32_t most = self->caps & (by ? by->caps : KIN_CAP_ALL) & KIN_CAP_ALL, should = 0;
        uint16_t caps = 0xdead;
        int rc = kin__caps_of_child(scope, by, &options, &caps);
        EXPECT_EQ(rc, expected_for(options.caps, most, is_strict, &should));
        EXPECT_EQ(caps, rc == 0 ? should : 0xdead); /* outputs are untouched on failure */
        EXPECT(rc < 0 || !(caps & ~most));
    }
    self->caps = before;
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_child_gets_what_is_asked_for_within_what_owner_and_spawner_have, "SCHED:10.2.4")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 1, check_rule, NULL), 0);
    EXPECT_EQ(run_as(KIN_CLUSTER, 1, check_rule, NULL), 0);
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 1, check_rule, NULL), 0);
}

/* ---- trees ---- */

struct node {
    uint64_t seed;
    uint32_t most; /* what its parent has */
    int depth;
    _Atomic int *refused, *ran;
};

static int grow(void *arg)
{
    struct node *node = arg;
    struct kin__rng rng;
    uint32_t own = kin_caps();

    atomic_fetch_add(node->ran, 1);
    EXPECT_EQ(own & ~node->most, 0);
    EXPECT_EQ(own & ~(uint32_t)KIN_CAP_ALL, 0);
    if (node->depth == 0)
        return 0;
    struct kin_nursery n;
    int rc = kin_nursery_open(&n, NULL);
    EXPECT_EQ(rc, own & KIN_CAP_SPAWN ? 0 : KIN_NOCAP);
    kin__rng_init(&rng, node->seed, (uint64_t)node->depth);
    for (int i = 0; rc == 0 && i < 4; i++) {
        struct node child = *node;
        struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
        child.seed = kin__rng_next(&rng);
        child.most = own;
        child.depth--;
        options.caps = (uint32_t)child.seed & KIN_CAP_ALL;
        if (child.seed >> 63)
            options.caps &= own;
        options.caps |= child.seed & 0x1000000 ? KIN_CAP_SPAWN : 0;
        options.budget = (struct kin_budget){1000 >> (5 - node->depth) * 2, 0, 0, 0, 0};
        options.budget.spawns = node->depth > 1 ? 1u << (2 * (unsigned)node->depth) : 0;
        int refusal = kin_spawn_with(&n, &options, grow, &child, sizeof child, NULL);
        uint32_t asked = options.caps ? options.caps : own;
        if (refusal == KIN_NOCAP) {
            EXPECT_NE(asked & ~own, 0);
            atomic_fetch_add(node->refused, 1);
        } else if (refusal != KIN_BUDGET) {
            EXPECT_EQ(refusal, 0);
            EXPECT_EQ(asked & ~own, 0);
        }
    }
    return rc == 0 ? kin_nursery_join(&n, NULL) : 0;
}

static int grow_trees(void *arg)
{
    _Atomic int refused = 0, ran = 0;
    struct kin__rng rng;

    (void)arg;
    kin__rng_init(&rng, kin_test_seed(), 2);
    for (int i = 0; i < 50; i++) {
        struct node root = {kin__rng_next(&rng), kin_caps(), 5, &refused, &ran};
        EXPECT_EQ(grow(&root), 0);
    }
    EXPECT_GT(atomic_load(&refused), 0);
    EXPECT_GT(atomic_load(&ran), 200);
    return 0;
}

KIN_TEST(in_random_trees_nobody_has_more_than_its_parent, "SCHED:10.2.2 SCHED:10.2.4 SCHED:15.1.2")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 2, grow_trees, NULL), 0);
    EXPECT_EQ(run_as(KIN_SOVEREIGN, 2, grow_trees, NULL), 0);
}

/* ---- the core profile ---- */

static int be_core(void *arg)
{
    struct kin_nursery n;
    struct kin_nursery *foreign = arg;
    int zero = 0;

    EXPECT(kin__thread_is_core());
    EXPECT_EQ(kin__no_task(), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_nursery_open(&n, NULL), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_spawn(&n, return_it, &zero), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_spawn_copy(&n, return_it, &zero, sizeof zero), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_spawn_with(&n, NULL, return_it, &zero, 0, NULL), KIN_UNSUPPORTED);
    if (foreign)
        EXPECT_EQ(kin_spawn(foreign, return_it, &zero), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_nursery_poll(&n, NULL), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_task_join(&n, (struct kin_task_ref){5}, NULL, 0), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_UNSUPPORTED);
    EXPECT_EQ(kin_run(NULL, return_it, &zero), -EBUSY);
    EXPECT_EQ(kin_self().id, 0);
    EXPECT_EQ(kin_yield(), KIN_NOTASK);
    EXPECT_EQ(kin_caps(), 0);
    void *memory = kin_alloc(100);
    EXPECT(memory != NULL);
    kin_free(memory);
    return 42;
}

KIN_TEST(the_core_profile_has_no_scheduler, "SCHED:10.2.1")
{
    EXPECT_EQ(run_as(KIN_CORE, 0, be_core, NULL), 42);
    EXPECT(!kin__thread_is_core());
    EXPECT_EQ(kin__no_task(), KIN_NOTASK);
    EXPECT_EQ(run_as(KIN_CORE, 0, be_core, NULL), 42);
}
