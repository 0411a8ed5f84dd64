/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a test says to the lab has the effect that the header promises.
 * Method: each call inside a run, its answer compared; and outside of one, where it does nothing.
 */
#include "lab/in_lab.h"

/* ---- choices ---- */

static unsigned chosen;
static uint64_t drawn[2];
static unsigned runs;

static int choose(void *arg)
{
    (void)arg;
    chosen |= 1u << kin_lab_choose(5, "one of five");
    kin_lab_assert(kin_lab_choose(1, "one of one") == 0, "there is no choice");
    return 0;
}

KIN_TEST(an_exhaustive_run_goes_through_every_choice, "")
{
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, choose, NULL), 0);
    EXPECT(report.exhausted);
    EXPECT_EQ(report.executions, 5);
    EXPECT_EQ(chosen, 31);
    EXPECT_EQ(kin_lab_choose(5, "outside"), 0);
}

static int draw(void *place)
{
    *(uint64_t *)place = kin_lab_random();
    return 0;
}

static int draw_both(void *arg)
{
    uint64_t now[2];
    (void)arg;
    {
        KIN_NURSERY(n);
        for (int i = 0; i < 2; i++)
            KIN_LAB_OK(kin_spawn(&n, draw, &now[i]));
        KIN_LAB_OK(kin_nursery_join(&n, NULL));
    }
    if (runs++ == 0)
        memcpy(drawn, now, sizeof(now));
    kin_lab_assert(memcmp(drawn, now, sizeof(now)) == 0, "who draws first changes nothing");
    kin_lab_assert(now[0] != now[1], "each draws for itself");
    return 0;
}

KIN_TEST(dice_do_not_depend_on_the_schedule, "")
{
    EXPECT_EQ(lab(KIN_LAB_DPOR, 0, draw_both, NULL), 0);
    EXPECT_GT(runs, 2);
    EXPECT_EQ(kin_lab_random(), 0);
}

/* ---- yields ---- */

static int count_yields(void *arg)
{
    struct kin_event event = {0};
    (void)arg;
    KIN_ASSERT_YIELDS
    {
        KIN_LAB_OK(kin_yield());
    }
    KIN_ASSERT_YIELDS
    {
        KIN_LAB_OK(kin_sleep(kin_after(1)));
    }
    KIN_ASSERT_NO_YIELD
    {
        (void)kin_now();
        (void)kin_self();
    }
    kin_event_set(&event);
    return 0;
}

static int fail_to_yield(void *arg)
{
    (void)arg;
    KIN_ASSERT_YIELDS
    {
        (void)kin_self();
    }
    return 0;
}

static int yield_after_all(void *arg)
{
    (void)arg;
    KIN_ASSERT_NO_YIELD
    {
        KIN_LAB_OK(kin_yield());
    }
    return 0;
}

KIN_TEST(blocks_that_yield_and_blocks_that_do_not, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 10, count_yields, NULL), 0);
    expect_oracle(fail_to_yield, NULL, "assert", KIN_PANICKED);
    expect_oracle(yield_after_all, NULL, "assert", KIN_PANICKED);
    EXPECT_EQ(kin_lab_switches(), 0);
}

/* ---- waiting for the others ---- */

static int steps;

static int take_steps(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++) {
        steps++;
        kin_ignore(kin_yield());
    }
    return kin_sleep(kin_after(KIN_MS(1)));
}

static int wait_for_all(void *arg)
{
    (void)arg;
    steps = 0;
    kin_time now = kin_now();
    KIN_NURSERY(n);
    for (int i = 0; i < 3; i++)
        KIN_LAB_OK(kin_spawn(&n, take_steps, NULL));
    KIN_LAB_OK(kin_lab_wait_all_blocked());
    kin_lab_assert(steps == 30, "everybody else waits");
    kin_lab_assert(kin_now() == now, "and no time has passed");
    return kin_nursery_join(&n, NULL);
}

static int wait_cancelled(void *arg)
{
    (void)arg;
    int rc = kin_lab_wait_all_blocked();
    kin_lab_assert(rc == KIN_CANCELLED, "a cancellation ends the wait");
    return rc;
}

static int cancel_who_waits(void *arg)
{
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, wait_cancelled, arg));
    for (int i = 0; i < 20; i++)
        KIN_LAB_OK(kin_yield());
    kin_nursery_cancel(&n, 0);
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

KIN_TEST(waiting_until_everybody_else_waits, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 100, wait_for_all, NULL), 0);
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 100, cancel_who_waits, NULL), 0);
    EXPECT_EQ(kin_lab_wait_all_blocked(), KIN_NOTASK);
}

/* ---- words that are shared ---- */

static struct {
    int number;
    const char *text;
} both;

static int use_shared(void *arg)
{
    (void)arg;
    KIN_SHARED(both.number) = 3;
    KIN_SHARED(both.number) += 2;
    KIN_SHARED(both.text) = "text";
    kin_lab_assert(KIN_SHARED(both.number) == 5 && KIN_SHARED(both.text)[0] == 't', "it is itself");
    return 0;
}

KIN_TEST(a_shared_word_is_the_word, "")
{
    EXPECT_EQ(lab(KIN_LAB_RANDOM, 10, use_shared, NULL), 0);
    EXPECT_EQ(use_shared(NULL), 0);
    EXPECT(!KIN_BUGGIFY("outside"));
    EXPECT(!kin_lab_fault("outside"));
    kin_lab_assert(false, "outside nothing is asserted");
    kin_lab_advance(5);
}
