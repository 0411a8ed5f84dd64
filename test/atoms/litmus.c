/* SPDX-License-Identifier: MIT */
/*
 * Litmus tests: what few loads and stores may see, under each kind of memory.
 *
 * The names are those of the literature. The outcomes of a test are numbered by the values that
 * were read, one bit (or two) each; a test holds when exactly the outcomes that are allowed came
 * out of all executions.
 */
#include "harness.h"

#include <stdatomic.h>
#include <string.h>

#define RELAXED memory_order_relaxed
#define ACQUIRE memory_order_acquire
#define RELEASE memory_order_release
#define SEQ memory_order_seq_cst

static atomic_int x, y, z;
static int r[4], plain;

#define LOAD(place, order) atomic_load_explicit(&place, order)
#define STORE(place, value, order) atomic_store_explicit(&place, value, order)
#define FENCE(order) atomic_thread_fence(order)

struct test {
    void (*threads[4])(void *arg);
    unsigned (*outcome)(void);
};

static void begin(void *arg)
{
    static const char *const names[] = {"P0", "P1", "P2", "P3"};
    const struct test *test = arg;
    x = y = z = 0;
    plain = 0;
    memset(r, 0, sizeof(r));
    for (int i = 0; i < 4 && test->threads[i]; i++)
        kin_atoms_spawn(names[i], test->threads[i], NULL);
}

static void end(void *arg)
{
    harness_outcome(((const struct test *)arg)->outcome());
}

#define THREAD(name, ...)                                                                          \
    static void name(void *arg)                                                                    \
    {                                                                                              \
        (void)arg;                                                                                 \
        __VA_ARGS__                                                                                \
    }

static unsigned two(void)
{
    return (unsigned)(r[0] + 2 * r[1]);
}

static unsigned four(void)
{
    return (unsigned)(r[0] + 2 * r[1] + 4 * r[2] + 8 * r[3]);
}

/* SB: two stores, each thread then reads the other's. 0 is "neither has seen the other". */
THREAD(sb0, STORE(x, 1, RELAXED); r[0] = LOAD(y, RELAXED);)
THREAD(sb1, STORE(y, 1, RELAXED); r[1] = LOAD(x, RELAXED);)
static struct test sb = {{sb0, sb1}, two};
THREAD(sb0_fence, STORE(x, 1, RELAXED); FENCE(SEQ); r[0] = LOAD(y, RELAXED);)
THREAD(sb1_fence, STORE(y, 1, RELAXED); FENCE(SEQ); r[1] = LOAD(x, RELAXED);)
static struct test sb_fence = {{sb0_fence, sb1_fence}, two};
THREAD(sb0_weak, STORE(x, 1, RELEASE); FENCE(memory_order_acq_rel); r[0] = LOAD(y, ACQUIRE);)
THREAD(sb1_weak, STORE(y, 1, RELEASE); FENCE(memory_order_acq_rel); r[1] = LOAD(x, ACQUIRE);)
static struct test sb_weak = {{sb0_weak, sb1_weak}, two};
THREAD(sb0_seq, STORE(x, 1, SEQ); r[0] = LOAD(y, SEQ);)
THREAD(sb1_seq, STORE(y, 1, SEQ); r[1] = LOAD(x, SEQ);)
static struct test sb_seq = {{sb0_seq, sb1_seq}, two};
THREAD(sb0_all, STORE(x, 1, RELAXED); kin_atoms_fence_all(); r[0] = LOAD(y, RELAXED);)
THREAD(sb1_light, STORE(y, 1, RELAXED); atomic_signal_fence(SEQ); r[1] = LOAD(x, RELAXED);)
static struct test sb_all = {{sb0_all, sb1_light}, two};
/* Its result is used: a compiler may make a store of one that is not. */
THREAD(sb0_rmw, r[2] = atomic_exchange_explicit(&x, 1, RELAXED); r[0] = LOAD(y, RELAXED);)
THREAD(sb1_rmw, r[3] = atomic_exchange_explicit(&y, 1, RELAXED); r[1] = LOAD(x, RELAXED);)
static struct test sb_rmw = {{sb0_rmw, sb1_rmw}, two};

/* MP: data, then a flag. 1 is "the flag without the data". */
THREAD(mp0, STORE(x, 1, RELAXED); STORE(y, 1, RELAXED);)
THREAD(mp1, r[0] = LOAD(y, RELAXED); r[1] = LOAD(x, RELAXED);)
static struct test mp = {{mp0, mp1}, two};
THREAD(mp0_release, STORE(x, 1, RELAXED); STORE(y, 1, RELEASE);)
THREAD(mp1_acquire, r[0] = LOAD(y, ACQUIRE); r[1] = LOAD(x, RELAXED);)
static struct test mp_orders = {{mp0_release, mp1_acquire}, two};
static struct test mp_half = {{mp0_release, mp1}, two};
THREAD(mp0_fence, STORE(x, 1, RELAXED); FENCE(RELEASE); STORE(y, 1, RELAXED);)
THREAD(mp1_fence, r[0] = LOAD(y, RELAXED); FENCE(ACQUIRE); r[1] = LOAD(x, RELAXED);)
static struct test mp_fences = {{mp0_fence, mp1_fence}, two};

/* LB: each reads, then writes what the other reads. 3 is "both from the future". */
THREAD(lb0, r[0] = LOAD(y, RELAXED); STORE(x, 1, RELAXED);)
THREAD(lb1, r[1] = LOAD(x, RELAXED); STORE(y, 1, RELAXED);)
static struct test lb = {{lb0, lb1}, two};

/* IRIW: two writers, two readers that disagree about the order in 1 + 4. */
THREAD(iriw_x, STORE(x, 1, RELEASE);)
THREAD(iriw_y, STORE(y, 1, RELEASE);)
THREAD(iriw2, r[0] = LOAD(x, ACQUIRE); r[1] = LOAD(y, ACQUIRE);)
THREAD(iriw3, r[2] = LOAD(y, ACQUIRE); r[3] = LOAD(x, ACQUIRE);)
static struct test iriw = {{iriw_x, iriw_y, iriw2, iriw3}, four};
THREAD(iriw_x_seq, STORE(x, 1, SEQ);)
THREAD(iriw_y_seq, STORE(y, 1, SEQ);)
THREAD(iriw2_seq, r[0] = LOAD(x, SEQ); r[1] = LOAD(y, SEQ);)
THREAD(iriw3_seq, r[2] = LOAD(y, SEQ); r[3] = LOAD(x, SEQ);)
static struct test iriw_seq = {{iriw_x_seq, iriw_y_seq, iriw2_seq, iriw3_seq}, four};
THREAD(iriw2_fence, r[0] = LOAD(x, RELAXED); FENCE(SEQ); r[1] = LOAD(y, RELAXED);)
THREAD(iriw3_fence, r[2] = LOAD(y, RELAXED); FENCE(SEQ); r[3] = LOAD(x, RELAXED);)
static struct test iriw_fence = {{iriw_x, iriw_y, iriw2_fence, iriw3_fence}, four};

/* 2+2W: two writers of both in opposite order; what is left in the end. 0 is "both the first". */
static unsigned left_over(void)
{
    return (unsigned)(x - 1 + 2 * (y - 1));
}
THREAD(w0, STORE(x, 1, RELAXED); STORE(y, 2, RELAXED);)
THREAD(w1, STORE(y, 1, RELAXED); STORE(x, 2, RELAXED);)
static struct test w22 = {{w0, w1}, left_over};
THREAD(w0_seq, STORE(x, 1, SEQ); STORE(y, 2, SEQ);)
THREAD(w1_seq, STORE(y, 1, SEQ); STORE(x, 2, SEQ);)
static struct test w22_seq = {{w0_seq, w1_seq}, left_over};

/* CoRR: one reads what another writes twice: never backwards. In fours. */
static unsigned fours(void)
{
    return (unsigned)(r[0] + 4 * r[1]);
}
THREAD(corr0, STORE(x, 1, RELAXED); STORE(x, 2, RELAXED);)
THREAD(corr1, r[0] = LOAD(x, RELAXED); r[1] = LOAD(x, RELAXED);)
static struct test corr = {{corr0, corr1}, fours};

/* WRC: what one saw of another is told to a third. 3 is "told, but not seen". */
THREAD(wrc0, STORE(x, 1, RELAXED);)
THREAD(wrc1, r[0] = LOAD(x, RELAXED); STORE(y, 1, RELAXED);)
THREAD(wrc2, r[1] = LOAD(y, RELAXED); r[2] = LOAD(x, RELAXED);)
static struct test wrc = {{wrc0, wrc1, wrc2}, four};
THREAD(wrc1_orders, r[0] = LOAD(x, RELAXED); STORE(y, 1, RELEASE);)
THREAD(wrc2_orders, r[1] = LOAD(y, ACQUIRE); r[2] = LOAD(x, RELAXED);)
static struct test wrc_orders = {{wrc0, wrc1_orders, wrc2_orders}, four};

/* Read-modify-writes: nobody is lost, and a chain of them hands a release on. */
THREAD(add0, r[0] = atomic_fetch_add_explicit(&x, 1, RELAXED);)
THREAD(add1, r[1] = atomic_fetch_add_explicit(&x, 1, RELAXED);)
static struct test add = {{add0, add1}, two};
THREAD(chain0, plain = 1; STORE(x, 1, RELEASE);)
THREAD(chain1, (void)atomic_fetch_add_explicit(&x, 1, RELAXED);)
THREAD(chain2, if (LOAD(x, ACQUIRE) == 2) r[0] = plain;)
static struct test chain = {{chain0, chain1, chain2}, two};

#define BIT(n) (UINT64_C(1) << (n))
#define ALL4 UINT64_C(0xf)
#define DISAGREE BIT(1 + 4)
#define CORR (BIT(0) | BIT(4) | BIT(8) | BIT(5) | BIT(9) | BIT(10))

#define TEST(name_, test_, sc, tso, c11)                                                           \
    {.name = name_ "_sc", .begin = begin, .end = end, .arg = &test_, .outcomes = sc},              \
    {.name = name_ "_tso", .begin = begin, .end = end, .arg = &test_, .outcomes = tso,             \
     .memory = KIN_ATOMS_TSO},                                                                     \
    {.name = name_ "_c11", .begin = begin, .end = end, .arg = &test_, .outcomes = c11,             \
     .memory = KIN_ATOMS_C11}

const struct harness harnesses[] = {
    TEST("litmus_SB", sb, ALL4 & ~BIT(0), ALL4, ALL4),
    TEST("litmus_SB_fences", sb_fence, ALL4 & ~BIT(0), ALL4 & ~BIT(0), ALL4 & ~BIT(0)),
    TEST("litmus_SB_acq_rel_fences", sb_weak, ALL4 & ~BIT(0), ALL4, ALL4),
    TEST("litmus_SB_seq", sb_seq, ALL4 & ~BIT(0), ALL4 & ~BIT(0), ALL4 & ~BIT(0)),
    TEST("litmus_SB_membarrier", sb_all, ALL4 & ~BIT(0), ALL4 & ~BIT(0), ALL4 & ~BIT(0)),
    TEST("litmus_SB_exchange", sb_rmw, ALL4 & ~BIT(0), ALL4 & ~BIT(0), ALL4),
    TEST("litmus_MP", mp, ALL4 & ~BIT(1), ALL4 & ~BIT(1), ALL4),
    TEST("litmus_MP_release_acquire", mp_orders, ALL4 & ~BIT(1), ALL4 & ~BIT(1), ALL4 & ~BIT(1)),
    TEST("litmus_MP_release_only", mp_half, ALL4 & ~BIT(1), ALL4 & ~BIT(1), ALL4),
    TEST("litmus_MP_fences", mp_fences, ALL4 & ~BIT(1), ALL4 & ~BIT(1), ALL4 & ~BIT(1)),
    TEST("litmus_LB", lb, ALL4 & ~BIT(3), ALL4 & ~BIT(3), ALL4 & ~BIT(3)),
    TEST("litmus_IRIW", iriw, 0xffff & ~DISAGREE, 0xffff & ~DISAGREE, 0xffff),
    TEST("litmus_IRIW_seq", iriw_seq, 0xffff & ~DISAGREE, 0xffff & ~DISAGREE, 0xffff & ~DISAGREE),
    TEST("litmus_IRIW_fences", iriw_fence, 0xffff & ~DISAGREE, 0xffff & ~DISAGREE,
         0xffff & ~DISAGREE),
    TEST("litmus_2+2W", w22, ALL4 & ~BIT(0), ALL4 & ~BIT(0), ALL4),
    TEST("litmus_2+2W_seq", w22_seq, ALL4 & ~BIT(0), ALL4 & ~BIT(0), ALL4 & ~BIT(0)),
    TEST("litmus_CoRR", corr, CORR, CORR, CORR),
    TEST("litmus_WRC", wrc, 0xff & ~BIT(3), 0xff & ~BIT(3), 0xff),
    TEST("litmus_WRC_release_acquire", wrc_orders, 0xff & ~BIT(3), 0xff & ~BIT(3), 0xff & ~BIT(3)),
    TEST("litmus_fetch_add", add, BIT(1) | BIT(2), BIT(1) | BIT(2), BIT(1) | BIT(2)),
    TEST("litmus_release_sequence", chain, BIT(0) | BIT(1), BIT(0) | BIT(1), BIT(0) | BIT(1)),
    {0},
};
