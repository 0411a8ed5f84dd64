/* SPDX-License-Identifier: MIT */
/*
 * Goal: a nursery that was opened while a cancellation passed its owner, and which the walk of that
 *       cancellation did not see, admits nobody: its first spawn finds what its owner is asked.
 * Method: the owner's word is given the request by hand, without a walk, which is what a canceller
 *         leaves behind that looked just before the nursery was there (the head of
 *         src/scope/cancel.c). On one worker, so that nothing else moves.
 */
#include "api/in_runtime.h"

#include "scope/scope.h"
#include "task/word.h"

struct late {
    uint64_t request;
    bool is_masked;
    int spawned, joined, reason;
    enum kin_nursery_state state;
    _Atomic int ran;
};

static int spawn_under_it(void *arg)
{
    struct late *late = arg;
    struct kin_nursery outer, inner;
    EXPECT_EQ(kin_nursery_open(&outer, NULL), 0);
    if (late->is_masked)
        kin_mask();
    EXPECT_EQ(kin_nursery_open(&inner, NULL), 0);
    EXPECT_EQ(kin_nursery_state(&inner), KIN_NURSERY_OPEN);
    (void)kin__word_request(kin__task_self(), late->request);
    EXPECT_EQ(kin_nursery_state(&inner), KIN_NURSERY_OPEN); /* nobody has walked */
    late->spawned = kin_spawn(&inner, count_it, &late->ran);
    late->state = kin_nursery_state(&inner);
    late->joined = kin_nursery_join(&inner, NULL);
    late->reason = kin_cancel_reason();
    if (late->is_masked)
        kin_unmask();
    EXPECT_EQ(kin_nursery_join(&outer, NULL), 0);
    return KIN_CANCELLED;
}

static void expect_late(uint64_t request, bool is_masked, int spawned, int joined, int reason)
{
    struct late late = {.request = request, .is_masked = is_masked};
    EXPECT_EQ(run_reporting(1, spawn_under_it, &late, NULL), KIN_CANCELLED);
    EXPECT_EQ(late.spawned, spawned);
    EXPECT_EQ(late.joined, joined);
    EXPECT_EQ(late.reason, reason);
    EXPECT_EQ(atomic_load(&late.ran), spawned == 0);
    EXPECT_EQ(late.state >= KIN_NURSERY_CANCELLING && late.state != KIN_NURSERY_CLOSED,
              spawned != 0);
}

KIN_TEST(a_spawn_finds_a_cancellation_that_the_walk_left_to_it, "NSM:4.2 NSM:6.2 NSM-3")
{
    expect_late(KIN__CANCEL, false, KIN_NOSCOPE, KIN_CANCELLED, KIN_CANCELLED);
    expect_late(KIN__CANCEL | KIN__ALONE, false, KIN_NOSCOPE, KIN_CANCELLED, KIN_CANCELLED);
    /* a kill reaches what was opened under a mask, a cancellation does not */
    expect_late(KIN__CANCEL | KIN__KILL, true, KIN_NOSCOPE, KIN_CANCELLED, KIN_STUCK);
    expect_late(KIN__CANCEL, true, 0, 0, KIN_CANCELLED);
}
