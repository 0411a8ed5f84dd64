/* SPDX-License-Identifier: MIT */
/*
 * Goal: trees of tasks that park on borrowed stacks, fail and panic come together rightly, always.
 * Method: random trees by seed; each node knows what its subtree must add up to and checks its own
 *         frame after every park. No cancel, so every node counts. The seed is printed.
 */
#include "api/in_runtime.h"

struct node {
    uint64_t random;
    int depth;
    _Atomic int *nodes; /* how many ran */
    int expected;       /* written by the node: how many its subtree is */
};

static uint64_t step(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

static void wait_a_little(uint64_t *random)
{
    switch (step(random) % 4) {
    case 0:
        EXPECT_EQ(kin_sleep(kin_after((int64_t)(step(random) % 30) * 1000)), 0);
        break;
    case 1:
        EXPECT_EQ(kin_yield(), 0);
        break;
    case 2:
        EXPECT_EQ(kin_checkpoint(), 0);
        break;
    default:
        break;
    }
}

static int be_node(void *arg)
{
    struct node *me = arg;
    struct node below[4];
    volatile uint64_t mark = me->random;
    const uint64_t children = me->depth > 0 ? step(&me->random) % 5 : 0;
    const uint64_t before = mark;
    uint64_t ends = step(&me->random) % 40;
    int total = 1;

    atomic_fetch_add(me->nodes, 1);
    wait_a_little(&me->random);
    {
        KIN_NURSERY(n, .on_error = KIN_COLLECT);
        for (uint64_t i = 0; i < children; i++) {
            below[i] = (struct node){step(&me->random), me->depth - 1, me->nodes, 0};
            EXPECT_EQ(kin_spawn(&n, be_node, &below[i]), 0);
            wait_a_little(&me->random);
        }
        int rc = kin_nursery_join(&n, NULL);
        EXPECT(rc == 0 || rc == -EIO || rc == KIN_PANICKED);
    }
    for (uint64_t i = 0; i < children; i++)
        total += below[i].expected;
    wait_a_little(&me->random);
    EXPECT_EQ(mark, before);
    me->expected = total;
    if (ends == 0)
        kin_fail(-EIO, "at random");
    if (ends == 1)
        kin_panic("at random");
    return ends == 2 ? -EIO : 0;
}

static int grow_trees(void *arg)
{
    uint64_t random = kin_test_seed();
    const int trees = 60 / (int)kin_test_scale();

    (void)arg;
    for (int i = 0; i < trees; i++) {
        _Atomic int nodes = 0;
        struct node root = {step(&random), 6, &nodes, 0};
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, be_node, &root), 0);
        int rc = kin_nursery_join(&n, NULL);
        EXPECT(rc == 0 || rc == -EIO || rc == KIN_PANICKED);
        EXPECT_EQ(atomic_load(&nodes), root.expected);
    }
    return 0;
}

KIN_TEST_LIMIT(random_trees_come_together, "NSM-2 NSM-4 F4 F5", 120)
{
    printf("seed %llu\n", (unsigned long long)kin_test_seed());
    run_on_few(grow_trees, NULL);
    EXPECT_EQ(run_reporting(16, grow_trees, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(256, grow_trees, NULL, NULL), 0);
}
