/* SPDX-License-Identifier: MIT */
/*
 * Goal: owner and monitor never hold the bias at once, and each sees what the other did.
 * Method: both hammer it and change two plain counters that must stay equal, with the process-wide
 * barrier and with the owner's own fence.
 */
#include "kin_test.h"

#include "plat/plat.h"
#include "sched/bias.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

enum { TAKES = 3000000, REVOKES_MIN = 200 };

static struct {
    struct kin__bias bias;
    uint64_t left, right; /* plain: whoever holds the bias; equal whenever nobody does */
    uint64_t by_monitor;  /* plain: as above */
    kin__a32 is_over;
    uint64_t takes, revoked, refused;
} shared;

static void change_both(void)
{
    uint64_t was = shared.left;
    EXPECT_EQ(shared.right, was);
    shared.left = was + 1;
    kin__cpu_relax();
    shared.right = was + 1;
}

static void *monitor(void *arg)
{
    (void)arg;
    while (!kin__load_acquire(&shared.is_over)) { /* pairs with the release at the owner's end */
        if (kin__bias_revoke(&shared.bias)) {
            change_both();
            shared.by_monitor++;
            kin__bias_restore(&shared.bias);
            shared.revoked++;
        } else {
            shared.refused++;
        }
        if (shared.revoked % 8 == 0)
            sched_yield();
    }
    return NULL;
}

static void hammer(bool is_strong)
{
    pthread_t thread;
    const uint64_t takes = TAKES / kin_test_scale();
    kin__bias_init(&shared.bias, is_strong);
    EXPECT_EQ(pthread_create(&thread, NULL, monitor, NULL), 0);
    uint64_t seen = 0;
    /* ends: a revoke succeeds whenever the owner is between two takes */
    for (uint64_t i = 0; i < takes || seen < REVOKES_MIN; i++) {
        kin__bias_take(&shared.bias);
        change_both();
        shared.takes++;
        seen = shared.by_monitor;
        kin__bias_give(&shared.bias);
        if (i % 64 == 0) /* out in somebody's code, where a rescue may come */
            for (int spin = 0; spin < 200; spin++)
                kin__cpu_relax();
    }
    kin__store_release(&shared.is_over, 1u); /* pairs with the monitor's acquire */
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    EXPECT_EQ(shared.left, shared.right);
    EXPECT_EQ(shared.left, shared.takes + shared.by_monitor);
    EXPECT_EQ(shared.by_monitor, shared.revoked);
    printf("%llu takes, %llu revokes, %llu refused\n", (unsigned long long)shared.takes,
           (unsigned long long)shared.revoked, (unsigned long long)shared.refused);
}

KIN_TEST(owner_and_monitor_exclude_each_other_with_a_fence, "C7")
{
    hammer(true);
}

KIN_TEST(owner_and_monitor_exclude_each_other_with_a_barrier, "C7")
{
    if (!kin__membarrier_init())
        KIN_SKIP("the kernel has no expedited membarrier");
    hammer(false);
}

KIN_TEST(a_busy_owner_refuses_the_monitor, "C7")
{
    bool kinds[2] = {true, !kin__membarrier_init()};
    for (int i = 0; i < 2; i++) {
        struct kin__bias bias;
        kin__bias_init(&bias, kinds[i]);
        kin__bias_take(&bias);
        EXPECT(!kin__bias_revoke(&bias));
        EXPECT(!kin__bias_revoke(&bias)); /* and nothing is left behind */
        kin__bias_give(&bias);
        EXPECT(kin__bias_revoke(&bias));
        EXPECT(!kin__bias_revoke(&bias)); /* a second one has to wait for the first */
        kin__bias_restore(&bias);
        EXPECT(kin__bias_revoke(&bias));
        kin__bias_restore(&bias);
        EXPECT_EQ(kin__load_relaxed(&bias.revoked), kinds[i] ? KIN__STRONG : 0); /* alone: so */
        kin__bias_take(&bias); /* does not wait */
        kin__bias_give(&bias);
    }
}
