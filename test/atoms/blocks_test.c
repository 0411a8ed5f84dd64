/* SPDX-License-Identifier: MIT */
/*
 * Memory of a run: zeroed, the same addresses each time, and gone with it.
 */
#include "kin_test.h"

#include "plat/context.h"

#include "words.h"

#include <string.h>

#if KIN__ASAN
#define SKIP_WITH_A_SANITIZER() KIN_SKIP("a fault is somebody else's here")
#else
#define SKIP_WITH_A_SANITIZER() (void)0
#endif

static struct kin_atoms_report report;
static char *first[2], *inside;
static unsigned runs;
static uint32_t x;

static void use(void *arg)
{
    (void)add(&x, 1, RELAXED);
    char *memory = kin_atoms_alloc(100);
    kin_atoms_assert(memory[0] == 0 && memory[99] == 0, "it is zeroed");
    memset(memory, 1, 100);
    if (arg) {
        kin_atoms_assert(!inside || inside == memory, "the same requests give the same addresses");
        inside = memory;
    }
}

static void begin(void *arg)
{
    (void)arg;
    x = 0;
    for (int i = 0; i < 2; i++) {
        char *memory = kin_atoms_alloc(10);
        kin_atoms_assert(((uintptr_t)memory & 63) == 0, "it begins a line");
        kin_atoms_assert(memory[0] == 0, "it is zeroed");
        memory[0] = 1;
        if (runs == 0)
            first[i] = memory;
        kin_atoms_assert(first[i] == memory, "at the same address each time");
    }
    runs++;
    kin_atoms_spawn("one", use, &x);
}

KIN_TEST(memory_is_zeroed_and_at_the_same_address_in_every_run, "")
{
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    config.strategy = KIN_ATOMS_RANDOM;
    config.executions_max = 20;
    EXPECT_EQ(kin_atoms_run(&config, begin, NULL, NULL, &report), 0);
    EXPECT_EQ(runs, 20);
    EXPECT(first[0] != first[1]);
}

static void begin_wrong(void *arg)
{
    (void)arg;
    kin_atoms_free(NULL);
    kin_atoms_free(&runs);
}

KIN_TEST(what_was_not_allocated_is_not_freed, "")
{
    SKIP_WITH_A_SANITIZER();
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin_wrong, NULL, &report), KIN_PANICKED);
    EXPECT_STR(report.oracle, "wild-free");
}

static void begin_greedy(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++)
        (void)kin_atoms_alloc((size_t)1 << 20);
}

KIN_TEST(a_run_that_wants_too_much_is_told, "")
{
    EXPECT_ABORT("memory for the blocks")
    {
        kin_ignore(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin_greedy, NULL, &report));
    }
}

static void begin_find(void *arg)
{
    unsigned block;
    size_t offset;
    (void)arg;
    char *one = kin_atoms_alloc(10), *two = kin_atoms_alloc(70);
    kin_atoms_assert(kin__block_find((uintptr_t)one + 9, &block, &offset) && block == 0 &&
                         offset == 9,
                     "the last byte of the first");
    kin_atoms_assert(!kin__block_find((uintptr_t)one + 10, &block, &offset), "behind it");
    kin_atoms_assert(kin__block_find((uintptr_t)two + 64, &block, &offset) && block == 1 &&
                         offset == 64,
                     "in the second line of the second");
}

KIN_TEST(an_address_is_found_in_its_block, "")
{
    EXPECT_EQ(explore(KIN_ATOMS_ROUND_ROBIN, KIN_ATOMS_SC, begin_find, NULL, &report), 0);
}
