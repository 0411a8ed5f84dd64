/* SPDX-License-Identifier: MIT */
/*
 * Goal: wrong uses of memory, and whatever else the processor or the C library refuses, are
 * failures of the execution with its interleaving. The process and the exploration go on.
 * Method: programs that are known to be wrong, each by two strategies; after each of them one that
 * is right.
 */
#include "kin_test.h"

#include "plat/context.h"

#include "words.h"

#include <stdlib.h>
#include <string.h>

#if KIN__ASAN
#define SKIP_WITH_A_SANITIZER() KIN_SKIP("a fault is somebody else's here")
#else
#define SKIP_WITH_A_SANITIZER() (void)0
#endif

#define FLOW(name, body)                                                                           \
    static void name(void *arg)                                                                    \
    {                                                                                              \
        (void)arg;                                                                                 \
        body                                                                                       \
    }

struct wrong {
    void (*one)(void *arg), (*other)(void *arg);
    const char *oracle, *text; /* what is found */
};

static struct kin_atoms_report report;
static uint32_t x;
static uint64_t shared; /* a pointer, or what somebody takes for one */
static int *block;
static volatile int zero;

static uint64_t take(int order)
{
    return __tsan_atomic64_load(&shared, order);
}

static void publish(const void *pointer, int order)
{
    __tsan_atomic64_store(&shared, (uintptr_t)pointer, order);
}

static void begin(void *arg)
{
    const struct wrong *wrong = arg;
    x = 0;
    shared = 0;
    block = kin_atoms_alloc(2 * sizeof(int));
    kin_atoms_spawn("one", wrong->one, NULL);
    if (wrong->other)
        kin_atoms_spawn("other", wrong->other, NULL);
}

FLOW(adds, add(&x, 1, RELAXED);)

static void expect_wrong(const struct wrong *wrong, enum kin_atoms_memory memory)
{
    static const enum kin_atoms_strategy strategies[] = {KIN_ATOMS_DPOR, KIN_ATOMS_RANDOM};
    struct wrong right = {adds, adds, NULL, NULL};
    for (unsigned i = 0; i < 2; i++) {
        EXPECT_EQ(explore(strategies[i], memory, begin, (void *)(uintptr_t)wrong, &report),
                  KIN_PANICKED);
        EXPECT_STR(report.oracle, wrong->oracle);
        EXPECT(strstr(report.text, wrong->text) != NULL);
        EXPECT(strstr(report.text, " step  thread") != NULL);
        EXPECT_EQ(explore(KIN_ATOMS_DPOR, memory, begin, &right, &report), 0);
        EXPECT(report.exhausted);
    }
}

/* ---- pointers ---- */

FLOW(publishes, put(block, 42); publish(block, RELEASE);)
FLOW(follows, kin_atoms_assert(get((int *)(uintptr_t)take(ACQUIRE)) == 42, "it is seen");)
FLOW(publishes_wild, publish((void *)(uintptr_t)0xdead0000, RELEASE);)
FLOW(follows_wild, uint64_t p = take(ACQUIRE); if (p) put((int *)(uintptr_t)p, 1);)
FLOW(publishes_no_address, publish((void *)(uintptr_t)UINT64_C(0xdead000000000000), RELEASE);)
FLOW(follows_by_load, (void)load((uint32_t *)(uintptr_t)take(ACQUIRE), RELAXED);)
FLOW(follows_by_store, store((uint32_t *)(uintptr_t)take(ACQUIRE) + 1, 1, RELAXED);)
FLOW(follows_by_cas, (void)cas((uint32_t *)(uintptr_t)take(ACQUIRE), 0, 1, SEQ);)
FLOW(follows_by_copy, int to; __tsan_memcpy(&to, (void *)(uintptr_t)take(ACQUIRE), sizeof to);)
FLOW(calls_it, ((void (*)(void))(uintptr_t)take(ACQUIRE))();)

KIN_TEST(a_null_pointer_is_found_with_its_interleaving, "")
{
    SKIP_WITH_A_SANITIZER();
    struct wrong reads = {follows, publishes, "crash", "one follows a null pointer (to 0)"};
    expect_wrong(&reads, KIN_ATOMS_SC);
    expect_wrong(&reads, KIN_ATOMS_TSO);
    expect_wrong(&reads, KIN_ATOMS_C11);
}

KIN_TEST(every_kind_of_access_through_a_wrong_pointer_is_found, "")
{
    SKIP_WITH_A_SANITIZER();
    struct wrong all[] = {
        {follows_wild, publishes_wild, "crash", "one follows a wild pointer to 0xdead0000"},
        {follows_wild, publishes_no_address, "crash", "one follows a wild pointer"},
        {follows_by_load, publishes, "crash", "one follows a null pointer (to 0)"},
        {follows_by_store, publishes, "crash", "one follows a null pointer (to 4)"},
        {follows_by_cas, publishes, "crash", "one follows a null pointer (to 0)"},
        {follows_by_copy, publishes, "crash", "one follows a null pointer (to 0)"},
        {calls_it, NULL, "crash", "one follows a null pointer (to 0)"}};
    if (getenv("KIN_EMULATED")) /* it tells 0 for what is no address */
        all[1].text = "one follows a null pointer";
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        expect_wrong(&all[i], KIN_ATOMS_SC);
}

/* ---- the life of memory ---- */

FLOW(frees, kin_atoms_free(block);)
FLOW(frees_and_says, kin_atoms_free(block); store(&x, 1, RELEASE);)
FLOW(uses_if_told, if (load(&x, ACQUIRE)) put(block, 1);)
FLOW(frees_if_told, if (load(&x, ACQUIRE)) kin_atoms_free(block);)
FLOW(frees_inside, if (load(&x, RELAXED)) kin_atoms_free(block + 1);)
FLOW(frees_a_variable, kin_atoms_free(&x);)
FLOW(frees_wild, kin_atoms_free((void *)(uintptr_t)0xdead0000);)
FLOW(frees_what_is_there, kin_atoms_free((void *)(uintptr_t)take(ACQUIRE));)
FLOW(reads_it, (void)get(block);)
FLOW(reads_behind, (void)get(block + 2);)
FLOW(writes_far_behind, put(block + 17, 1);)
FLOW(writes_in_front, if (load(&x, RELAXED)) put(block - 1, 1);)
FLOW(adds_behind, add((uint32_t *)block + 2, 1, RELAXED);)
FLOW(copies_too_much, char to[16]; __tsan_memcpy(to, block, sizeof to);)
FLOW(sets_too_much, __tsan_memset(block, 1, 9);)

KIN_TEST(wrong_lives_of_memory_are_found, "")
{
    struct wrong all[] = {
        {frees, reads_it, "use-after-free", "block 0+0"},
        {frees_and_says, uses_if_told, "use-after-free", "block 0+0"},
        {frees_and_says, frees_if_told, "double-free", "other frees a block that was freed before"},
        {frees_inside, adds, "wild-free", "one frees what was not allocated in this run"},
        {frees_a_variable, NULL, "wild-free", "one frees what was not allocated"},
        {frees_wild, NULL, "wild-free", "one frees what was not allocated"},
        {publishes_wild, frees_what_is_there, "wild-free", "other frees what was not allocated"}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        expect_wrong(&all[i], KIN_ATOMS_SC);
}

KIN_TEST(accesses_beyond_an_allocation_are_found, "")
{
    struct wrong all[] = {
        {reads_behind, NULL, "out-of-bounds", "block 0+8 of 8 bytes"},
        {writes_far_behind, NULL, "out-of-bounds", "block 0+68 of 8 bytes"},
        {writes_in_front, adds, "out-of-bounds", "one accesses memory that is of no block"},
        {adds_behind, NULL, "out-of-bounds", "block 0+8 of 8 bytes"},
        {copies_too_much, NULL, "out-of-bounds", "block 0+0 of 8 bytes"},
        {sets_too_much, NULL, "out-of-bounds", "block 0+0 of 8 bytes"}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        expect_wrong(&all[i], i == 2 ? KIN_ATOMS_TSO : KIN_ATOMS_SC);
}

/* What is published without an order may be seen before what it points to. */
FLOW(fills_late, publish(block, RELAXED); put(block, 42);)
FLOW(fills_first, put(block, 42); publish(block, RELAXED);)
FLOW(looks, uint64_t p = take(RELAXED); if (p) (void)get((int *)(uintptr_t)p);)
FLOW(points_to_it, __tsan_write8(block); *(uint64_t *)(void *)block = (uintptr_t)&x;
     publish(block, RELAXED);)

KIN_TEST(publication_without_an_order_is_found, "")
{
    struct wrong late = {fills_late, looks, "data-race", "block 0+0"};
    struct wrong first = {fills_first, looks, "data-race", "block 0+0"};
    struct wrong points = {points_to_it, looks, "data-race", "block 0+0"};
    for (unsigned memory = KIN_ATOMS_SC; memory <= KIN_ATOMS_C11; memory++) {
        expect_wrong(&late, (enum kin_atoms_memory)memory);
        expect_wrong(&first, (enum kin_atoms_memory)memory);
        expect_wrong(&points, (enum kin_atoms_memory)memory);
    }
}

/* A stack of nodes whose first is freed by whoever pops it: another one may still look into it. */
struct node {
    uint64_t next;
};

FLOW(pops, uint64_t top = take(ACQUIRE); if (top) {
    struct node *node = (struct node *)(uintptr_t)top;
    uint64_t next = __tsan_atomic64_load(&node->next, RELAXED);
    if (__tsan_atomic64_compare_exchange_strong(&shared, &top, next, SEQ, RELAXED))
        kin_atoms_free(node);
})

static void begin_stack(void *arg)
{
    struct node *nodes = kin_atoms_alloc(sizeof(struct node));
    begin(arg);
    shared = (uintptr_t)nodes;
}

KIN_TEST(a_node_that_is_freed_under_a_reader_is_found, "")
{
    struct wrong wrong = {pops, pops, NULL, NULL};
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin_stack, &wrong, &report), KIN_PANICKED);
    EXPECT_STR(report.oracle, "use-after-free");
}

/* ---- other ends ---- */

static volatile int deep;

static int recurse(int n)
{
    volatile char frame[1024];
    frame[0] = (char)n;
    return deep ? frame[0] + recurse(n + 1) + frame[0] : n;
}

#if defined(__x86_64__)
FLOW(divides, int by = (int)load(&x, RELAXED); if (by) zero = 1000 / (by - 1);)
#endif
FLOW(aborts, if (load(&x, RELAXED)) abort();)
FLOW(overflows, deep = 1; if (load(&x, RELAXED)) zero = recurse(0);)
FLOW(traps, if (load(&x, RELAXED)) __builtin_trap();)

KIN_TEST(other_ends_of_a_process_are_found, "")
{
    SKIP_WITH_A_SANITIZER();
    struct wrong all[] = {
#if defined(__x86_64__)
        {divides, adds, "crash", "one divides by zero"},
#endif
        {aborts, adds, "crash", "one calls abort"},
        {overflows, adds, "crash", "one has used up its stack"},
        {traps, adds, "crash", "one comes to an instruction that is none"}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        expect_wrong(&all[i], KIN_ATOMS_SC);
}

static bool looks_wild(void *arg)
{
    (void)arg;
    return *(volatile int *)(uintptr_t)take(ACQUIRE) != 0;
}

FLOW(awaits_wild, kin_atoms_await(looks_wild, NULL);)

KIN_TEST(a_condition_that_follows_a_null_pointer_is_found, "")
{
    SKIP_WITH_A_SANITIZER();
    struct wrong wrong = {awaits_wild, publishes, "crash", "follows a null pointer"};
    expect_wrong(&wrong, KIN_ATOMS_SC);
}

/* ---- outside of threads ---- */

static void crash(void *arg)
{
    (void)arg;
    zero = get((int *)(uintptr_t)shared);
}

static void begin_crash(void *arg)
{
    shared = 0;
    crash(arg);
}

static void end_late(void *arg)
{
    (void)arg;
    (void)get(block);
}

static void begin_twice(void *arg)
{
    begin(arg);
    kin_atoms_free(block);
    kin_atoms_free(block);
}

KIN_TEST(what_begin_and_end_do_wrong_is_found, "")
{
    SKIP_WITH_A_SANITIZER();
    struct wrong right = {adds, NULL, NULL, NULL}, frees_it = {frees, NULL, NULL, NULL};
    EXPECT_EQ(kin_atoms_run(NULL, begin_crash, NULL, NULL, &report), KIN_PANICKED);
    EXPECT(strstr(report.text, "begin follows a null pointer") != NULL);
    EXPECT_EQ(kin_atoms_run(NULL, begin, crash, &right, &report), KIN_PANICKED);
    EXPECT(strstr(report.text, "end follows a null pointer") != NULL);
    EXPECT_EQ(kin_atoms_run(NULL, begin, end_late, &frees_it, &report), KIN_PANICKED);
    EXPECT_STR(report.oracle, "use-after-free");
    EXPECT_EQ(kin_atoms_run(NULL, begin_twice, NULL, &right, &report), KIN_PANICKED);
    EXPECT_STR(report.oracle, "double-free");
    EXPECT_EQ(kin_atoms_run(NULL, begin, NULL, &right, &report), 0);
}

KIN_TEST(an_execution_that_goes_on_counts_every_crash, "")
{
    SKIP_WITH_A_SANITIZER();
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    struct wrong wrong = {follows, publishes, NULL, NULL};
    config.keeps_going = true;
    EXPECT_EQ(kin_atoms_run(&config, begin, NULL, &wrong, &report), KIN_PANICKED);
    EXPECT_GE(report.failures, 1);
    EXPECT_GT(report.executions, report.failures);
}

KIN_TEST(outside_of_a_run_a_fault_is_what_it_was, "")
{
    struct wrong right = {adds, NULL, NULL, NULL};
    EXPECT_EQ(kin_atoms_run(NULL, begin, NULL, &right, &report), 0);
    EXPECT_ABORT("")
    {
        abort();
    }
}
