/* SPDX-License-Identifier: MIT */
/*
 * What accesses read and write under each kind of memory, and that the classes of DPOR are all.
 *
 * The litmus tests with their expected outcomes are in litmus.c, for code that is instrumented.
 * Here a few hundred small programs are made by dice, and plain search and DPOR must see the same
 * outcomes: a step that touched less than it depends on would show.
 */
#include "kin_test.h"

#include "base/rng.h"
#include "words.h"

#include <string.h>

static struct kin_atoms_report report;

/* ---- what updates do ---- */

KIN_TEST(every_update_does_what_its_name_says, "")
{
    uint8_t a = 0xf0;
    uint16_t b = 0xf0f0;
    uint32_t c = 0xf0f0f0f0;
    uint64_t d = UINT64_MAX;
    EXPECT_EQ(__tsan_atomic8_fetch_add(&a, 0x20, RELAXED), 0xf0);
    EXPECT_EQ(a, 0x10);
    EXPECT_EQ(__tsan_atomic8_fetch_sub(&a, 0x11, RELAXED), 0x10);
    EXPECT_EQ(a, 0xff);
    EXPECT_EQ(__tsan_atomic16_fetch_and(&b, 0xff00, SEQ), 0xf0f0);
    EXPECT_EQ(b, 0xf000);
    EXPECT_EQ(__tsan_atomic16_fetch_or(&b, 1, SEQ), 0xf000);
    EXPECT_EQ(b, 0xf001);
    EXPECT_EQ(__tsan_atomic32_fetch_xor(&c, 0xffffffff, ACQUIRE), 0xf0f0f0f0);
    EXPECT_EQ(c, 0x0f0f0f0f);
    EXPECT_EQ(__tsan_atomic32_fetch_nand(&c, 0xff, ACQUIRE), 0x0f0f0f0f);
    EXPECT_EQ(c, 0xfffffff0);
    EXPECT_EQ(__tsan_atomic64_exchange(&d, 5, RELEASE), UINT64_MAX);
    uint64_t expected = 4;
    EXPECT(!__tsan_atomic64_compare_exchange_weak(&d, &expected, 6, SEQ, SEQ));
    EXPECT_EQ(expected, 5);
    EXPECT(__tsan_atomic64_compare_exchange_strong(&d, &expected, 6, SEQ, RELAXED));
    EXPECT_EQ(__tsan_atomic64_compare_exchange_val(&d, 6, 7, SEQ, RELAXED), 6);
    EXPECT_EQ(__tsan_atomic64_load(&d, ACQUIRE), 7);
}

/* The same inside of a run: numbers are cut to the size of their place. */
static uint8_t small;

static void wrap_around(void *arg)
{
    (void)arg;
    kin_atoms_assert(__tsan_atomic8_fetch_add(&small, 0xff, RELAXED) == 3, "what was there");
    kin_atoms_assert(__tsan_atomic8_load(&small, RELAXED) == 2, "a byte wraps");
    kin_atoms_assert(__tsan_atomic8_fetch_nand(&small, 2, RELAXED) == 2, "what was there");
    kin_atoms_assert(__tsan_atomic8_load(&small, RELAXED) == 0xfd, "a byte has eight bits");
}

static void begin_wrap(void *arg)
{
    (void)arg;
    small = 3;
    kin_atoms_spawn("one", wrap_around, NULL);
}

KIN_TEST(numbers_are_cut_to_the_size_of_their_place, "")
{
    for (int memory = KIN_ATOMS_SC; memory <= KIN_ATOMS_C11; memory++)
        EXPECT_EQ(explore(KIN_ATOMS_DPOR, (enum kin_atoms_memory)memory, begin_wrap, NULL, &report),
                  0);
}

#ifdef __SIZEOF_INT128__
static kin__wide wide;

static void add_wide(void *arg)
{
    (void)arg;
    (void)__tsan_atomic128_fetch_add(&wide, (kin__wide)1 << 64, SEQ);
    kin__wide seen = __tsan_atomic128_load(&wide, SEQ);
    while (!__tsan_atomic128_compare_exchange_strong(&wide, &seen, seen + 1, SEQ, SEQ))
        continue;
}

static void begin_wide(void *arg)
{
    (void)arg;
    wide = 0;
    kin_atoms_spawn("first", add_wide, NULL);
    kin_atoms_spawn("second", add_wide, NULL);
}

static void end_wide(void *arg)
{
    (void)arg;
    kin_atoms_assert(wide == ((kin__wide)2 << 64 | 2), "nothing is lost");
}

KIN_TEST(sixteen_bytes_are_one_access, "")
{
    for (int memory = KIN_ATOMS_SC; memory <= KIN_ATOMS_C11; memory++) {
        struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
        config.memory = (enum kin_atoms_memory)memory;
        EXPECT_EQ(kin_atoms_run(&config, begin_wide, end_wide, NULL, &report), 0);
        EXPECT(report.exhausted);
        EXPECT_GT(report.executions, 2);
    }
}
#endif

/* ---- atomic and plain accesses of one place ---- */

static uint64_t room;

/* What a thread has stored is what it sees itself, whatever way it looks. */
static void mix(void *arg)
{
    uint32_t *word = (uint32_t *)(void *)&room;
    (void)arg;
    store(word, 1, RELAXED);
    __tsan_read4(word);
    kin_atoms_assert(*(volatile uint32_t *)word == 1, "what was stored is read");
    store(word, 2, RELAXED);
    __tsan_write4(word);
    *(volatile uint32_t *)word = 3;
    kin_atoms_assert(load(word, RELAXED) == 3, "what was written last is read");
}

/* Memory that was an atomic becomes another one. */
static void change_size(void *arg)
{
    const uint64_t large = UINT64_C(1) << 40;
    mix(arg);
    __tsan_write8(&room);
    *(volatile uint64_t *)&room = 0;
    __tsan_atomic64_store(&room, large, RELAXED);
    kin_atoms_assert(__tsan_atomic64_fetch_add(&room, large, RELAXED) == large, "all eight bytes");
}

static void begin_mixed(void *arg)
{
    room = 0;
    kin_atoms_spawn("one", *(void (**)(void *))arg, NULL);
}

static void end_mixed(void *arg)
{
    bool is_large = *(void (**)(void *))arg == change_size;
    kin_atoms_assert(room == (is_large ? UINT64_C(2) << 40 : 3), "what was written last stays");
}

KIN_TEST(plain_accesses_see_what_is_in_the_buffer_of_their_thread, "")
{
    void (*bodies[])(void *) = {mix, change_size};
    for (int i = 0; i < 6; i++) {
        struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
        config.memory = (enum kin_atoms_memory)(i % 3);
        EXPECT_EQ(kin_atoms_run(&config, begin_mixed, end_mixed, &bodies[i / 3], &report), 0);
        EXPECT(report.exhausted);
    }
}

/* ---- many places ---- */

#define MANY 512u /* the first table has room for so many */
static uint32_t many[MANY];
static int handed;

/* The buffer comes to memory in front of an update, and the table of places grows meanwhile. */
static void publish_behind_many(void *arg)
{
    put(&handed, 1);
    for (unsigned i = 0; i < MANY; i++)
        store(&many[i], 1, RELAXED);
    (void)add(arg, 1, RELEASE);
}

static void subscribe(void *arg)
{
    if (load(arg, ACQUIRE))
        put(&handed, 2);
}

static uint32_t last;

static void begin_many(void *arg)
{
    (void)arg;
    last = 0;
    kin_atoms_spawn("publisher", publish_behind_many, &last);
    kin_atoms_spawn("subscriber", subscribe, &last);
}

KIN_TEST(an_update_hands_on_though_there_are_ever_more_places, "")
{
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    config.memory = KIN_ATOMS_TSO;
    config.executions_max = 1;
    EXPECT_EQ(kin_atoms_run(&config, begin_many, NULL, NULL, &report), 0);
}

/* ---- programs made by dice ---- */

#define THREADS 3u
#define OPS 3u
#define PLACES 2u

struct op {
    uint8_t kind; /* load, store, add, compare-exchange, fence */
    uint8_t place;
    uint8_t value;
    int order;
};

static struct op program[THREADS][OPS];
static uint32_t places[PLACES], seen[THREADS][OPS];

static void interpret(void *arg)
{
    unsigned self = kin_atoms_self() - 1;
    (void)arg;
    for (unsigned i = 0; i < OPS; i++) {
        const struct op *op = &program[self][i];
        uint32_t *place = &places[op->place];
        switch (op->kind) {
        case 0:
        case 1:
            seen[self][i] = load(place, op->order);
            break;
        case 2:
            store(place, op->value, op->order);
            break;
        case 3:
            seen[self][i] = add(place, op->value, op->order);
            break;
        case 4:
            seen[self][i] = cas(place, 0, op->value, op->order);
            break;
        default:
            __tsan_atomic_thread_fence(op->order);
        }
    }
}

static void begin_program(void *arg)
{
    static const char *const names[THREADS] = {"P0", "P1", "P2"};
    unsigned threads = *(const unsigned *)arg;
    memset(places, 0, sizeof(places));
    memset(seen, 0, sizeof(seen));
    for (unsigned i = 0; i < threads; i++)
        kin_atoms_spawn(names[i], interpret, NULL);
}

/* Outcomes as a set of hashes: their sum does not mind the order, and each counts once. */
#define OUTCOMES_MAX 65536u
static uint64_t outcomes[OUTCOMES_MAX];
static unsigned outcomes_count;
static uint64_t outcomes_sum;

static void end_program(void *arg)
{
    uint64_t hash = 88172645463325252u;
    (void)arg;
    for (unsigned i = 0; i < THREADS * OPS; i++)
        hash = (hash ^ seen[i / OPS][i % OPS]) * UINT64_C(0x9fb21c651e98df25);
    for (unsigned i = 0; i < PLACES; i++)
        hash = (hash ^ places[i]) * UINT64_C(0x9fb21c651e98df25) + 1;
    hash |= 1;
    unsigned slot = (unsigned)(hash >> 40) % OUTCOMES_MAX;
    while (outcomes[slot] && outcomes[slot] != hash)
        slot = (slot + 1) % OUTCOMES_MAX;
    if (outcomes[slot])
        return;
    outcomes[slot] = hash;
    outcomes_count++;
    outcomes_sum += hash;
}

static void make_program(struct kin__rng *rng, bool has_fences)
{
    static const int loads[] = {RELAXED, ACQUIRE, SEQ}, stores[] = {RELAXED, RELEASE, SEQ};
    static const int updates[] = {RELAXED, ACQUIRE, RELEASE, ACQ_REL, SEQ};
    static const int fences[] = {ACQUIRE, RELEASE, ACQ_REL, SEQ};
    for (unsigned i = 0; i < THREADS * OPS; i++) {
        struct op *op = &program[i / OPS][i % OPS];
        op->kind = (uint8_t)kin__rng_below(rng, has_fences ? 6 : 5);
        op->place = (uint8_t)kin__rng_below(rng, PLACES);
        op->value = (uint8_t)(1 + i);
        if (op->kind <= 1)
            op->order = loads[kin__rng_below(rng, 3)];
        else if (op->kind == 2)
            op->order = stores[kin__rng_below(rng, 3)];
        else if (op->kind <= 4)
            op->order = updates[kin__rng_below(rng, 5)];
        else
            op->order = fences[kin__rng_below(rng, 4)];
    }
}

static void collect(enum kin_atoms_strategy strategy, enum kin_atoms_memory memory,
                    unsigned threads)
{
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    config.strategy = strategy;
    config.memory = memory;
    memset(outcomes, 0, sizeof(outcomes));
    outcomes_count = 0;
    outcomes_sum = 0;
    EXPECT_EQ(kin_atoms_run(&config, begin_program, end_program, &threads, &report), 0);
    EXPECT(report.exhausted);
}

static void compare(enum kin_atoms_memory memory, unsigned programs, unsigned threads)
{
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), 0);
    for (unsigned i = 0; i < programs; i++) {
        make_program(&rng, memory != KIN_ATOMS_SC);
        collect(KIN_ATOMS_DFS, memory, threads);
        unsigned count = outcomes_count;
        uint64_t sum = outcomes_sum, executions = report.executions;
        collect(KIN_ATOMS_DPOR, memory, threads);
        EXPECT_EQ(outcomes_count, count);
        EXPECT_EQ(outcomes_sum, sum);
        EXPECT_LE(report.executions, executions);
    }
}

KIN_TEST(dpor_sees_every_outcome_that_plain_search_sees, "")
{
    compare(KIN_ATOMS_SC, 60, 3);
}

KIN_TEST(dpor_sees_every_outcome_of_store_buffers, "")
{
    compare(KIN_ATOMS_TSO, 40, 2);
}

KIN_TEST(dpor_sees_every_outcome_of_weak_memory, "")
{
    compare(KIN_ATOMS_C11, 40, 2);
}

/* SB of the literature: two stores, each thread then reads the other's. */
static void make_store_buffering(void)
{
    memset(program, 0, sizeof(program));
    for (uint8_t i = 0; i < 2; i++) {
        program[i][0] = (struct op){2, i, 1, RELAXED};
        program[i][1] = program[i][2] = (struct op){0, (uint8_t)(1 - i), 0, RELAXED};
    }
}

/* What one kind of memory allows, a weaker one allows as well. */
KIN_TEST(weaker_memory_has_more_outcomes, "")
{
    struct kin__rng rng;
    unsigned more_tso = 0, more_c11 = 0;
    kin__rng_init(&rng, kin_test_seed(), 1);
    for (unsigned i = 0; i < 100; i++) {
        make_program(&rng, true);
        if (i == 0)
            make_store_buffering();
        collect(KIN_ATOMS_DPOR, KIN_ATOMS_SC, 2);
        unsigned sc = outcomes_count;
        collect(KIN_ATOMS_DPOR, KIN_ATOMS_TSO, 2);
        unsigned tso = outcomes_count;
        collect(KIN_ATOMS_DPOR, KIN_ATOMS_C11, 2);
        EXPECT_LE(sc, tso);
        EXPECT_LE(tso, outcomes_count);
        more_tso += tso > sc;
        more_c11 += outcomes_count > tso;
    }
    EXPECT_GT(more_tso, 0);
    EXPECT_GT(more_c11, 0);
}

/* ---- a bound on how old a value may be ---- */

static uint32_t x, y;

static void write_three(void *arg)
{
    (void)arg;
    for (uint32_t i = 1; i <= 3; i++)
        store(&x, i, RELAXED);
    store(&y, 1, RELAXED);
}

static uint32_t oldest;

static void read_late(void *arg)
{
    (void)arg;
    if (load(&y, RELAXED) == 1) {
        uint32_t value = load(&x, RELAXED);
        oldest = value < oldest ? value : oldest;
    }
}

static void begin_stale(void *arg)
{
    (void)arg;
    x = y = 0;
    kin_atoms_spawn("writer", write_three, NULL);
    kin_atoms_spawn("reader", read_late, NULL);
}

KIN_TEST(stale_max_bounds_how_far_back_a_load_sees, "")
{
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    config.memory = KIN_ATOMS_C11;
    oldest = 9;
    EXPECT_EQ(kin_atoms_run(&config, begin_stale, NULL, NULL, &report), 0);
    EXPECT_EQ(oldest, 0);
    config.stale_max = 1;
    oldest = 9;
    EXPECT_EQ(kin_atoms_run(&config, begin_stale, NULL, NULL, &report), 0);
    EXPECT_EQ(oldest, 2);
}
