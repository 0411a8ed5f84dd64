/* SPDX-License-Identifier: MIT */
/*
 * The trail: a failure is told step by step, with the names of threads, places and orders.
 */
#include "kin_test.h"

#include "words.h"

#include <string.h>

static uint32_t *word;
static struct kin_atoms_report report;

static void raise_it(void *arg)
{
    (void)arg;
    store(word, 0x2a, RELEASE);
}

static void look_at_it(void *arg)
{
    (void)arg;
    (void)add(word, 1, ACQ_REL);
    kin_atoms_assert(load(word, ACQUIRE) != 0x2b, "it is never seen in between");
}

static void begin(void *arg)
{
    (void)arg;
    word = kin_atoms_alloc(sizeof(*word));
    kin_atoms_spawn("raiser", raise_it, NULL);
    kin_atoms_spawn("looker", look_at_it, NULL);
}

KIN_TEST(a_failure_is_told_step_by_step, "")
{
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin, NULL, &report), KIN_PANICKED);
    EXPECT(strstr(report.text, "assert: it is never seen in between") != NULL);
    EXPECT(strstr(report.text, "raiser") != NULL);
    EXPECT(strstr(report.text, "stores block 0+0 = 0x2a (release)") != NULL);
    EXPECT(strstr(report.text, "updates block 0+0 = 0x2b (acq_rel)") != NULL);
    EXPECT(strstr(report.text, "loads block 0+0 = 0x2b (acquire)") != NULL);
}

/* Stores that wait in a buffer are seen to arrive. */
KIN_TEST(a_buffer_has_its_own_lines, "")
{
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_TSO, begin, NULL, &report), KIN_PANICKED);
    EXPECT(strstr(report.text, "reaches memory block 0+0 = 0x2a") != NULL);
}

/* A place on the stack of a thread is named by it. */
static uint32_t *shared;
static uint32_t ready;

static void lend(void *arg)
{
    uint32_t own = 0;
    (void)arg;
    shared = &own;
    store(&ready, 1, RELEASE);
    (void)add(shared, 1, RELAXED);
}

static bool is_ready(void *arg)
{
    (void)arg;
    return load(&ready, ACQUIRE) != 0;
}

static void borrow(void *arg)
{
    kin_atoms_await(is_ready, arg);
    (void)add(shared, 1, RELAXED);
    kin_atoms_assert(false, "here");
}

static void begin_lend(void *arg)
{
    (void)arg;
    ready = 0;
    kin_atoms_spawn("lender", lend, NULL);
    kin_atoms_spawn("borrower", borrow, NULL);
}

KIN_TEST(a_place_on_a_stack_is_named_by_its_thread, "")
{
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin_lend, NULL, &report), KIN_PANICKED);
    EXPECT(strstr(report.text, "updates stack of lender-") != NULL);
}

/* A report is cut where its room ends, and not in the middle of nothing. */
static void talk(void *arg)
{
    (void)arg;
    for (uint32_t i = 0; i < 3000; i++)
        store(word, i, RELAXED);
    kin_atoms_assert(false, "enough");
}

static void begin_talk(void *arg)
{
    (void)arg;
    word = kin_atoms_alloc(sizeof(*word));
    kin_atoms_spawn("talker", talk, NULL);
}

KIN_TEST(a_long_story_is_cut, "")
{
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin_talk, NULL, &report), KIN_PANICKED);
    EXPECT_LT(strlen(report.text), KIN__ATOMS_TEXT);
    EXPECT(strstr(report.text, "enough") != NULL);
}
