/* SPDX-License-Identifier: MIT */
/*
 * Tests of logs of runs.
 */
#include "kin_test.h"
#include "lab/engine.h"
#include "lab/log.h"
#include "plat/plat.h"

static void add_pick(struct kin__log *log, uint32_t name)
{
    const struct kin__decision decision = {.answer = name, .kind = KIN__CHOICE_TASK, .mark = 1};

    EXPECT(kin__log_add(log, &decision, NULL));
}

static void add_choice(struct kin__log *log, uint32_t answer, const char *label)
{
    const struct kin__decision decision = {
        .seen = 9, .answer = answer, .kind = KIN__CHOICE_CASE, .mark = 1};

    EXPECT(kin__log_add(log, &decision, label));
}

KIN_TEST(a_log_counts_steps_choices_and_switches, "")
{
    struct kin__log log = {.count = 0};

    EXPECT_EQ(kin__log_switches(&log), 0);
    add_choice(&log, 3, "first");
    add_pick(&log, 7);
    add_pick(&log, 7);
    add_choice(&log, 4, "second");
    add_pick(&log, 8);
    add_pick(&log, 7);
    EXPECT_EQ(log.count, 6);
    EXPECT_EQ(log.steps, 4);
    EXPECT_EQ(log.choices, 2);
    EXPECT_EQ(kin__log_switches(&log), 2);
    EXPECT_STR(kin__log_label(&log, 1), "second");
    EXPECT_EQ(kin__log_at(&log, 3)->answer, 4);
    kin__log_release(&log);
}

KIN_TEST(a_copy_is_the_same_or_empty, "")
{
    struct kin__log log = {.count = 0}, copy = {.count = 0};

    for (uint32_t i = 0; i < 5000; i++)
        i % 3 ? add_pick(&log, i % 5) : add_choice(&log, i, "choice");
    log.hash = 99;
    log.seed = 5;
    EXPECT(kin__log_copy(&copy, &log));
    EXPECT_EQ(copy.count, log.count);
    EXPECT_EQ(copy.steps, log.steps);
    EXPECT_EQ(copy.hash, 99);
    EXPECT_EQ(copy.seed, 5);
    EXPECT_EQ(kin__log_switches(&copy), kin__log_switches(&log));
    EXPECT_EQ(kin__log_at(&copy, 4997)->answer, kin__log_at(&log, 4997)->answer);
    kin__log_release(&copy);

    kin__plat_fail_after(1, true);
    EXPECT(!kin__log_copy(&copy, &log));
    kin__plat_fail_after(0, false);
    EXPECT_EQ(copy.count, 0);
    kin__log_release(&copy);
    kin__log_release(&log);
}
