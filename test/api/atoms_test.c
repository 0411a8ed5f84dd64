/* SPDX-License-Identifier: MIT */
/*
 * Atom mode by its public header alone. The accesses of instrumented code are tested in test/atoms.
 */
#include "kin_test.h"

#include <kin/atoms.h>

static bool doors[2];
static unsigned entered;

static bool is_open(void *door)
{
    return *(bool *)door;
}

static void visitor(void *arg)
{
    kin_atoms_await(is_open, arg);
    entered++;
}

static void porter(void *arg)
{
    (void)arg;
    doors[kin_atoms_choose(2, "which door")] = true;
}

static void begin(void *arg)
{
    doors[0] = doors[1] = false;
    entered = 0;
    kin_atoms_spawn("porter", porter, NULL);
    for (unsigned i = 0; i < *(const unsigned *)arg; i++)
        kin_atoms_spawn(i ? "visitor 2" : "visitor 1", visitor, &doors[i]);
}

KIN_TEST(the_execution_in_which_the_door_stays_shut_is_found, "")
{
    struct kin_atoms_report report;
    unsigned visitors = 1;
    EXPECT_EQ(kin_atoms_run(NULL, begin, NULL, &visitors, &report), KIN_DEADLOCK);
    EXPECT_STR(report.oracle, "deadlock");
    EXPECT(report.text[0] != '\0');
}

static void joiner(void *arg)
{
    unsigned *number = arg;
    kin_atoms_join(*number);
    kin_atoms_assert(entered == 1, "the other one is over");
}

static void just_enter(void *arg)
{
    (void)arg;
    entered++;
}

static unsigned other;

static void begin_join(void *arg)
{
    (void)arg;
    entered = 0;
    kin_atoms_spawn("joiner", joiner, &other);
    other = kin_atoms_spawn("other", just_enter, NULL);
}

KIN_TEST(a_join_waits_for_the_end_of_a_thread, "")
{
    struct kin_atoms_report report;
    EXPECT_EQ(kin_atoms_run(NULL, begin_join, NULL, NULL, &report), 0);
    EXPECT(report.exhausted);
}

static void begin_memory(void *arg)
{
    (void)arg;
    int *memory = kin_atoms_alloc(sizeof(int));
    kin_atoms_assert(*memory == 0, "it is zeroed");
    kin_atoms_free(memory);
    kin_atoms_assert(kin_atoms_self() == 0, "this is no thread of the execution");
    kin_atoms_spin();      /* does not wait here */
    kin_atoms_fence_all(); /* and fences nobody */
}

KIN_TEST(an_execution_without_threads_is_over_at_once, "")
{
    struct kin_atoms_report report;
    EXPECT_EQ(kin_atoms_run(NULL, begin_memory, NULL, NULL, &report), 0);
    EXPECT(report.exhausted);
}
