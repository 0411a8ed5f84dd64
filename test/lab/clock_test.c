/* SPDX-License-Identifier: MIT */
/*
 * Goal: time is the same in every execution, stands still while anybody can run, and jumps for
 * those who wait for it.
 * Method: bodies that look at the clock in every way there is.
 */
#include "lab/in_lab.h"

#include <time.h>

static kin_time began;
static unsigned runs;

static int look(void *arg)
{
    (void)arg;
    kin_time now = kin_now();
    if (runs++ == 0)
        began = now;
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

/* Ways to wait for a moment without a wait. */
static int spin_at_once(void *arg)
{
    kin_time end = kin_after(KIN_MS(5));
    (void)arg;
    while (kin_now() < end) {
    }
    return 0;
}

static int spin_with_yields(void *arg)
{
    kin_time end = kin_after(KIN_MS(5));
    (void)arg;
    while (kin_now() < end)
        kin_ignore(kin_yield());
    return 0;
}

static int spin_with_checks(void *arg)
{
    kin_time end = kin_after(KIN_MS(5));
    (void)arg;
    while (kin_now() < end)
        kin_ignore(kin_checkpoint());
    return 0;
}

static int spin_in_libc(void *arg)
{
    struct timespec now;
    (void)arg;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (time_t end = now.tv_sec + 1; now.tv_sec < end;)
        clock_gettime(CLOCK_MONOTONIC, &now);
    return 0;
}

KIN_TEST(time_stands_still_for_those_who_spin, "")
{
    static kin_task_fn *const spins[] = {spin_at_once, spin_with_yields, spin_with_checks,
                                         spin_in_libc};
    static const enum kin_lab_strategy strategies[] = {KIN_LAB_ROUND_ROBIN, KIN_LAB_RANDOM,
                                                       KIN_LAB_PCT, KIN_LAB_DPOR};
    for (unsigned i = 0; i < sizeof spins / sizeof *spins; i++) {
        for (unsigned s = 0; s < sizeof strategies / sizeof *strategies; s++) {
            EXPECT_EQ(lab(strategies[s], 1, spins[i], NULL), KIN_STUCK);
            EXPECT_STR(report.oracle, "livelock");
        }
    }
}

static int64_t passed;

static int yield_often(void *arg)
{
    kin_time start = kin_now();
    (void)arg;
    for (int i = 0; i < 200; i++)
        kin_ignore(kin_yield());
    passed += kin_now() - start;
    return 0;
}

KIN_TEST(no_time_passes_while_somebody_can_run, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 5, yield_often, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_DPOR, 5, yield_often, NULL), 0);
    EXPECT_EQ(passed, 0);
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
