/* SPDX-License-Identifier: MIT */
/*
 * Goal: time is the same in every execution, stands still while anybody works and passes for
 * whoever only waits for it.
 * Method: bodies that look at the clock in every way there is.
 */
#include "lab/in_lab.h"

static kin_time began;
static unsigned runs;

static int look(void *arg)
{
    (void)arg;
    if (runs++ == 0)
        began = kin_now();
    kin_lab_assert(kin_now() == began, "every execution begins at the same time");
    KIN_LAB_OK(kin_sleep(kin_after(KIN_MS(7))));
    kin_lab_assert(kin_now() == began + KIN_MS(7), "a sleep takes as long as it says");
    kin_lab_advance(KIN_SEC(5));
    kin_lab_assert(kin_now() == began + KIN_MS(7) + KIN_SEC(5), "and so does an advance");
    kin_lab_advance(0);
    return 0;
}

KIN_TEST(time_begins_again_and_is_exact, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 20, look, NULL), 0);
    EXPECT_GE(runs, 20);
}

static int spin(void *arg)
{
    (void)arg;
    kin_time end = kin_after(KIN_MS(5));
    while (kin_now() < end) {
    }
    for (end = kin_after(KIN_MS(5)); kin_now() < end;)
        kin_ignore(kin_yield());
    for (end = kin_after(KIN_MS(5)); kin_now() < end;)
        kin_ignore(kin_checkpoint());
    return 0;
}

static int spin_all(void *arg)
{
    KIN_NURSERY(n);
    for (int i = 0; i < 3; i++)
        KIN_LAB_OK(kin_spawn(&n, spin, arg));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(time_passes_for_those_who_spin, "")
{
    EXPECT_EQ(lab(KIN_LAB_ROUND_ROBIN, 1, spin, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 2, spin_all, NULL), 0);
}

static int nap(void *at)
{
    KIN_LAB_OK(kin_sleep(kin_after(KIN_MS(1))));
    *(kin_time *)at = kin_now();
    return 0;
}

static int advance_over(void *arg)
{
    kin_time woken = 0, now = kin_now();
    (void)arg;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, nap, &woken));
    KIN_LAB_OK(kin_lab_wait_all_blocked());
    kin_lab_assert(kin_now() == now, "nothing passes while others are waited for");
    kin_lab_advance(KIN_SEC(1));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_lab_assert(woken == now + KIN_SEC(1), "who was due on the way runs afterwards");
    return 0;
}

KIN_TEST(an_advance_lets_deadlines_come, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 50, advance_over, NULL), 0);
}

KIN_TEST(outside_of_a_run_it_is_the_host_s_clock, "")
{
    kin_time first = kin_now();
    while (kin_now() == first) {
    }
    EXPECT_GT(kin_now(), first);
}
