/* SPDX-License-Identifier: MIT */
/*
 * Goal: random bytes come to those who may have them, and to nobody else.
 * Method: black box; a second draw that equals the first would be a wonder of 2^-256.
 */
#include "api/in_runtime.h"

#include <kin/random.h>

KIN_TEST(outside_a_task_there_are_random_bytes_too, "")
{
    unsigned char one[32] = {0}, two[32] = {0};
    EXPECT_EQ(kin_random(one, sizeof(one)), 0);
    EXPECT_EQ(kin_random(two, sizeof(two)), 0);
    EXPECT_NE(memcmp(one, two, sizeof(one)), 0);
    EXPECT_EQ(kin_random(NULL, 1), -EINVAL);
    EXPECT_EQ(kin_random(NULL, 0), 0);
}

/* With KIN_CAP_RANDOM or without; with a byte behind the end that stays as it is. */
static int draw(void *arg)
{
    static unsigned char large[100000];
    unsigned char one[33] = {0}, two[33] = {0}, none[33] = {0};
    int expected = kin_caps() & KIN_CAP_RANDOM ? 0 : KIN_NOCAP;
    (void)arg;
    EXPECT_EQ(kin_random(one, 32), expected);
    EXPECT_EQ(kin_random(two, 32), expected);
    EXPECT_EQ(memcmp(one, two, 33) == 0, expected != 0);
    EXPECT_EQ(memcmp(one, none, 33) == 0, expected != 0);
    EXPECT_EQ(one[32], 0);
    EXPECT_EQ(kin_random(large, sizeof(large)), expected);
    size_t zeros = 0;
    for (size_t i = 0; i < sizeof(large); i++)
        zeros += large[i] == 0;
    EXPECT(expected != 0 || zeros < sizeof(large) / 64); /* one in 256 is to be expected */
    return 0;
}

static int draw_with_and_without(void *arg)
{
    static const uint32_t caps[] = {KIN_CAP_NONE, KIN_CAP_SPAWN, KIN_CAP_RANDOM};
    (void)arg;
    for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
        struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
        KIN_NURSERY(n);
        options.caps = caps[i];
        EXPECT_EQ(kin_spawn_with(&n, &options, draw, NULL, 0, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    }
    return draw(NULL);
}

KIN_TEST(random_bytes_need_their_capability, "SCHED:10.2.4")
{
    run_on_few(draw_with_and_without, NULL);
}

static int draw_a_few(void *arg)
{
    char byte;
    (void)arg;
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_random(&byte, 1), 0);
    EXPECT_EQ(kin_random(&byte, 1), KIN_BUDGET);
    EXPECT_EQ(kin_budget_exhausted(), KIN_BUDGET_SYSCALLS);
    return 0;
}

static int draw_within_a_budget(void *arg)
{
    struct kin_nursery_options limits = KIN_NURSERY_OPTIONS_INIT;
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_nursery n;
    (void)arg;
    limits.budget = (struct kin_budget){1000, 100000, 20, 10, 3};
    EXPECT_EQ(kin_nursery_open(&n, &limits), 0);
    options.budget = (struct kin_budget){1000, 100000, 10, 10, 3};
    EXPECT_EQ(kin_spawn_with(&n, &options, draw_a_few, NULL, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(each_draw_costs_a_system_call, "SCHED:3.3.1")
{
    run_on_few(draw_within_a_budget, NULL);
}
