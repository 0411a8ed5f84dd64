/* SPDX-License-Identifier: MIT */
/*
 * Flows: what a switch keeps, where it begins, how a call is escaped from, what an unwinder sees.
 *
 * Registers are checked from assembly of the test's own, which fills every register that the ABI
 * calls callee-saved and compares after coming back. What needs the raw switch is left out under
 * the sanitizers, which must hear of every switch.
 */
#define _GNU_SOURCE 1
#include "plat/context.h"

#include "base/atomic.h"
#include "base/rng.h"
#include "kin_test.h"
#include "plat/plat.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)64 * 1024)

struct flow {
    struct kin__context context;
    char *low;
    unsigned valgrind_id;
};

static struct kin__context home; /* the flow of the test itself */

static void flow_make(struct flow *flow, void (*entry)(void *))
{
    flow->low = kin__vm_reserve(STACK_BYTES);
    EXPECT(flow->low != NULL);
    flow->valgrind_id = kin__stack_announce(flow->low, flow->low + STACK_BYTES);
    kin__context_make(&flow->context, flow->low, flow->low + STACK_BYTES, entry);
}

static void flow_drop(struct flow *flow)
{
    kin__context_drop(&flow->context);
    kin__stack_forget(flow->valgrind_id);
    kin__vm_release(flow->low, STACK_BYTES);
}

/* ---- passing and coming back ---- */

static struct flow echo;

static void run_echo(void *pass)
{
    for (;;) /* ends with the test */
        pass = kin__context_switch(&echo.context, &home, (char *)pass + 1);
}

KIN_TEST(a_switch_hands_over_one_pointer, "")
{
    char bytes[100];

    kin__context_adopt(&home);
    flow_make(&echo, run_echo);
    for (int i = 0; i < 99; i++)
        EXPECT_PTR(kin__context_switch(&home, &echo.context, &bytes[i]), &bytes[i + 1]);
    flow_drop(&echo);
    kin__context_drop(&home);
}

static void run_aligned(void *pass)
{
    _Alignas(16) volatile char probe[16];

    probe[0] = 1;
    EXPECT_EQ((uintptr_t)probe % 16, 0);
    /* A frame pointer is pushed at a 16-aligned address less 16 when the entry was as a call. */
    EXPECT_EQ((uintptr_t)__builtin_frame_address(0) % 16, 0);
    kin__context_jump(&echo.context, &home, pass);
}

KIN_TEST(an_entry_finds_its_stack_aligned, "")
{
    int pass;

    kin__context_adopt(&home);
    flow_make(&echo, run_aligned);
    EXPECT_PTR(kin__context_switch(&home, &echo.context, &pass), &pass);
    flow_drop(&echo);
}

/* A chain: each flow makes the next one go on and ends by a jump, until the last jumps home. */
static struct flow chain[8];
static int chain_at;

static void run_chain(void *pass)
{
    int me = chain_at++;

    *(int *)pass += 1;
    if (me < 7)
        kin__context_jump(&chain[me].context, &chain[me + 1].context, pass);
    kin__context_jump(&chain[me].context, &home, pass);
}

KIN_TEST(a_jump_begins_and_continues_flows, "")
{
    int visits = 0;

    kin__context_adopt(&home);
    for (int i = 0; i < 8; i++)
        flow_make(&chain[i], run_chain);
    EXPECT_PTR(kin__context_switch(&home, &chain[0].context, &visits), &visits);
    EXPECT_EQ(visits, 8);
    for (int i = 0; i < 8; i++)
        flow_drop(&chain[i]);
}

static void run_returning(void *pass)
{
    (void)pass;
}

KIN_TEST(an_entry_that_returns_aborts, "")
{
    kin__context_adopt(&home);
    flow_make(&echo, run_returning);
    EXPECT_ABORT ("entry does not return") {
        kin__context_switch(&home, &echo.context, NULL);
    }
    flow_drop(&echo);
}

/* ---- many switches ---- */

static struct flow ping, pong;
static uint64_t ping_count, pong_count;

static void run_ping(void *pass)
{
    for (ping_count = 0; ping_count < 500000; ping_count++)
        kin__context_switch(&ping.context, &pong.context, pass);
    kin__context_jump(&ping.context, &home, pass);
}

static void run_pong(void *pass)
{
    for (pong_count = 1;; pong_count++) /* ends with the test */
        kin__context_switch(&pong.context, &ping.context, pass);
}

KIN_TEST(a_million_switches, "")
{
    kin__context_adopt(&home);
    flow_make(&ping, run_ping);
    flow_make(&pong, run_pong);
    kin__context_switch(&home, &ping.context, NULL);
    EXPECT_EQ(ping_count, 500000);
    EXPECT_EQ(pong_count, 500000);
    flow_drop(&ping);
    flow_drop(&pong);
}

/* Flows that go wherever the dice say, each with locals and arithmetic of its own to keep. */
#define CROWD 32

static struct flow crowd[CROWD];
static struct kin__rng crowd_rng;
static int crowd_steps;

static __attribute__((noinline)) void crowd_go(int me)
{
    if (crowd_steps-- <= 0) {
        kin__context_switch(&crowd[me].context, &home, NULL);
        return;
    }
    int next = (int)(kin__rng_next(&crowd_rng) % CROWD);
    if (next != me)
        kin__context_switch(&crowd[me].context, &crowd[next].context,
                            (void *)(uintptr_t)(unsigned)next);
}

static void run_crowd(void *pass)
{
    const int me = (int)(uintptr_t)pass;
    uint64_t words[16];
    double sum = me;
    char text[32];

    for (int i = 0; i < 16; i++)
        words[i] = (uint64_t)me * 1000 + (uint64_t)i;
    for (uint64_t round = 1;; round++) { /* ends with the test */
        crowd_go(me);
        sum += 0.5;
        for (int i = 0; i < 16; i++)
            EXPECT_EQ(words[i]++, (uint64_t)me * 1000 + (uint64_t)i + round - 1);
        EXPECT(sum == me + 0.5 * (double)round);
        snprintf(text, sizeof text, "%d %.1f", me, sum); /* libc runs on such a stack */
        EXPECT_EQ(atoi(text), me);
    }
}

KIN_TEST(flows_keep_their_locals_wherever_control_goes, "")
{
    kin__context_adopt(&home);
    kin__rng_init(&crowd_rng, kin_test_seed(), 0);
    crowd_steps = 20000;
    for (int i = 0; i < CROWD; i++)
        flow_make(&crowd[i], run_crowd);
    kin__context_switch(&home, &crowd[0].context, NULL);
    EXPECT_LE(crowd_steps, 0);
    for (int i = 0; i < CROWD; i++)
        flow_drop(&crowd[i]);
}

/* A function that calls nothing may keep its locals below its stack pointer. A switch is inlined
 * into such a one here. */
#define KEPT_LOCALS 12

static struct flow leaf;
static uint64_t leaf_in[KEPT_LOCALS], leaf_out[KEPT_LOCALS];

static void run_leaf(void *pass)
{
    for (;;) { /* ends with the test */
        uint64_t kept[KEPT_LOCALS];
        for (int i = 0; i < KEPT_LOCALS; i++)
            __asm__ volatile("" : "=r"(kept[i]) : "0"(leaf_in[i]));
        kin__context_switch(&leaf.context, &home, pass);
        for (int i = 0; i < KEPT_LOCALS; i++)
            leaf_out[i] = kept[i];
    }
}

KIN_TEST(a_function_without_calls_keeps_its_locals_too, "")
{
    struct kin__rng rng;
    uint64_t before[KEPT_LOCALS];

    kin__rng_init(&rng, kin_test_seed(), 0);
    kin__context_adopt(&home);
    flow_make(&leaf, run_leaf);
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < KEPT_LOCALS; i++) {
            before[i] = leaf_in[i];
            leaf_in[i] = kin__rng_next(&rng);
        }
        kin__context_switch(&home, &leaf.context, NULL);
        for (int i = 0; i < KEPT_LOCALS && round > 0; i++)
            EXPECT_EQ(leaf_out[i], before[i]);
    }
    flow_drop(&leaf);
}

KIN_TEST(a_flow_that_is_not_suspended_cannot_be_continued, "")
{
#if !KIN__ASAN && !KIN__TSAN
    struct kin__context self, running;

    kin__context_adopt(&self);
    kin__context_adopt(&running);
    EXPECT_ABORT ("only a suspended flow is continued") {
        kin__context_switch(&self, &running, NULL);
    }
#endif
}

/* ---- registers ---- */

#if !KIN__ASAN && !KIN__TSAN && (defined(__x86_64__) || defined(__aarch64__))

/* Fills the callee-saved registers from in, switches, and stores what they are then to out. */
void kin_test_keep(void **save_sp, void *to_sp, const uint64_t *in, uint64_t *out);

#if defined(__x86_64__)
#define KEPT 6
__asm__(".pushsection .text\n"
        ".type kin_test_keep, @function\n"
        "kin_test_keep:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    pushq %rcx\n"
        "    movq 0(%rdx), %rbp\n"
        "    movq 8(%rdx), %rbx\n"
        "    movq 16(%rdx), %r12\n"
        "    movq 24(%rdx), %r13\n"
        "    movq 32(%rdx), %r14\n"
        "    movq 40(%rdx), %r15\n"
        "    xorl %edx, %edx\n"
        "    call kin__switch_raw\n"
        "    popq %rcx\n"
        "    movq %rbp, 0(%rcx)\n"
        "    movq %rbx, 8(%rcx)\n"
        "    movq %r12, 16(%rcx)\n"
        "    movq %r13, 24(%rcx)\n"
        "    movq %r14, 32(%rcx)\n"
        "    movq %r15, 40(%rcx)\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size kin_test_keep, . - kin_test_keep\n"
        ".popsection\n");
#else
#define KEPT 19
__asm__(".pushsection .text\n"
        ".type kin_test_keep, %function\n"
        "kin_test_keep:\n"
        "    sub sp, sp, #176\n"
        "    stp x29, x30, [sp, #0]\n"
        "    stp x19, x20, [sp, #16]\n"
        "    stp x21, x22, [sp, #32]\n"
        "    stp x23, x24, [sp, #48]\n"
        "    stp x25, x26, [sp, #64]\n"
        "    stp x27, x28, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    str x3, [sp, #160]\n"
        "    ldp x19, x20, [x2, #0]\n"
        "    ldp x21, x22, [x2, #16]\n"
        "    ldp x23, x24, [x2, #32]\n"
        "    ldp x25, x26, [x2, #48]\n"
        "    ldp x27, x28, [x2, #64]\n"
        "    ldp d8, d9, [x2, #80]\n"
        "    ldp d10, d11, [x2, #96]\n"
        "    ldp d12, d13, [x2, #112]\n"
        "    ldp d14, d15, [x2, #128]\n"
        "    ldr x29, [x2, #144]\n"
        "    mov x2, #0\n"
        "    bl kin__switch_raw\n"
        "    ldr x3, [sp, #160]\n"
        "    stp x19, x20, [x3, #0]\n"
        "    stp x21, x22, [x3, #16]\n"
        "    stp x23, x24, [x3, #32]\n"
        "    stp x25, x26, [x3, #48]\n"
        "    stp x27, x28, [x3, #64]\n"
        "    stp d8, d9, [x3, #80]\n"
        "    stp d10, d11, [x3, #96]\n"
        "    stp d12, d13, [x3, #112]\n"
        "    stp d14, d15, [x3, #128]\n"
        "    str x29, [x3, #144]\n"
        "    ldp x29, x30, [sp, #0]\n"
        "    ldp x19, x20, [sp, #16]\n"
        "    ldp x21, x22, [sp, #32]\n"
        "    ldp x23, x24, [sp, #48]\n"
        "    ldp x25, x26, [sp, #64]\n"
        "    ldp x27, x28, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #176\n"
        "    ret\n"
        ".size kin_test_keep, . - kin_test_keep\n"
        ".popsection\n");
#endif

static struct flow keeper;
static struct kin__rng keeper_rng;

static void keep_and_compare(struct kin__context *from, struct kin__context *to)
{
    uint64_t in[KEPT], out[KEPT] = {0};

    for (int i = 0; i < KEPT; i++)
        in[i] = kin__rng_next(&keeper_rng);
    kin_test_keep(&from->sp, to->sp, in, out);
    for (int i = 0; i < KEPT; i++)
        EXPECT_EQ(out[i], in[i]);
}

static void run_keeper(void *pass)
{
    (void)pass;
    for (;;) /* ends with the test */
        keep_and_compare(&keeper.context, &home);
}

KIN_TEST(a_switch_keeps_the_callee_saved_registers, "SCHED:5.3.1")
{
    kin__context_adopt(&home);
    kin__rng_init(&keeper_rng, kin_test_seed(), 0);
    flow_make(&keeper, run_keeper);
    for (int i = 0; i < 1000; i++)
        keep_and_compare(&home, &keeper.context);
    flow_drop(&keeper);
}

#endif

/* ---- floating-point control ---- */

#if defined(__x86_64__)

#define MXCSR_CONTROL 0xffc0u

/* mxcsr in the low half, the x87 control word in the high one. */
static uint64_t control_get(void)
{
    uint32_t mxcsr;
    uint16_t x87;

    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(x87));
    return (mxcsr & MXCSR_CONTROL) | (uint64_t)x87 << 32;
}

static void control_set(uint64_t control)
{
    uint32_t mxcsr = (uint32_t)control;
    uint16_t x87 = (uint16_t)(control >> 32);

    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" ::"m"(mxcsr), "m"(x87));
}

/* Four different ones: rounding in both units, flushed denormals, x87 precision. An emulator may
 * keep nothing but the rounding. */
static uint64_t control_number(unsigned i)
{
    static const uint64_t some[4] = {0x037f00001f80, 0x0f7f00007f80, 0x007f00009fc0,
                                     0x077f00003f80};
    static const uint64_t less[4] = {0x037f00001f80, 0x0f7f00007f80, 0x0b7f00005f80,
                                     0x077f00003f80};
    static int keeps_all = -1;

    if (keeps_all < 0) {
        const uint64_t before = control_get();
        control_set(some[2]);
        keeps_all = control_get() == some[2];
        control_set(before);
    }
    return keeps_all ? some[i % 4] : less[i % 4];
}

#elif defined(__aarch64__)

static uint64_t control_get(void)
{
    uint64_t fpcr;

    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
}

static void control_set(uint64_t fpcr)
{
    __asm__ volatile("msr fpcr, %0" ::"r"(fpcr));
}

static uint64_t control_number(unsigned i)
{
    static const uint64_t some[4] = {0, UINT64_C(1) << 22, UINT64_C(1) << 24, UINT64_C(3) << 22};
    return some[i % 4];
}

#endif

#if defined(__x86_64__) || defined(__aarch64__)

static struct flow rounder[4];

static void run_rounder(void *pass)
{
    const unsigned me = (unsigned)(uintptr_t)pass;

    for (unsigned round = 0;; round++) { /* ends with the test */
        control_set(control_number(me + round / 3));
        kin__context_switch(&rounder[me].context, &home, NULL);
        EXPECT_EQ(control_get(), control_number(me + round / 3));
    }
}

static void rounders_take_turns(void)
{
    const uint64_t mine = control_get();

    for (unsigned i = 0; i < 4; i++)
        flow_make(&rounder[i], run_rounder);
    for (unsigned i = 0; i < 4000; i++) {
        kin__context_switch(&home, &rounder[i * 7 % 4].context, (void *)(uintptr_t)(i * 7 % 4));
        EXPECT_EQ(control_get(), mine);
    }
    for (unsigned i = 0; i < 4; i++)
        flow_drop(&rounder[i]);
}

KIN_TEST(each_flow_has_its_own_control_words, "")
{
    kin__context_adopt(&home);
    rounders_take_turns();
}

#if defined(__x86_64__) && !defined(KIN_SWITCH_GENERIC)

extern uint32_t kin__fp[3]; /* the third word: how the switch restores mxcsr */

KIN_TEST(control_words_are_kept_in_both_ways_of_restoring_them, "")
{
    kin__context_adopt(&home);
    EXPECT(kin__context_supported());
    for (uint32_t way = 0; way < 2; way++) {
        kin__fp[2] = way;
        rounders_take_turns();
    }
}

/* An x87 exception flag is pending while it is masked; a control word that unmasks it follows. */
static void run_pending(void *pass)
{
    uint16_t unmasked = 0x037b; /* division by zero traps */
    volatile long double zero = 0, one = 1;

    __asm__ volatile("fldcw %0" ::"m"(unmasked));
    kin__context_switch(&echo.context, &home, pass);
    one += zero; /* would trap here or in the switch */
    EXPECT(one == 1);
    kin__context_jump(&echo.context, &home, pass);
}

KIN_TEST(a_pending_exception_of_one_flow_does_not_trap_in_another, "")
{
    volatile long double zero = 0, one = 1;

    kin__context_adopt(&home);
    flow_make(&echo, run_pending);
    kin__context_switch(&home, &echo.context, NULL);
    one /= zero;
    kin__context_switch(&home, &echo.context, NULL);
    EXPECT(one > 1);
    flow_drop(&echo);
}

#endif

static int change_control(void *arg)
{
    *(uint64_t *)arg = control_get();
    control_set(control_number(1));
    return 5;
}

static void *escape_sp;

static int change_control_and_escape(void *arg)
{
    (void)change_control(arg);
    kin__escape_raw(escape_sp, 6);
}

KIN_TEST(a_call_gives_the_control_words_back, "")
{
    EXPECT(kin__context_supported()); /* from here on tasks begin with what is set now */
    const uint64_t start = control_get();
    uint64_t at_begin = 0;

    control_set(control_number(3));
    EXPECT_EQ(kin__call_raw(&escape_sp, change_control, &at_begin), 5);
    EXPECT_EQ(control_get(), control_number(3));
#if !defined(KIN_SWITCH_GENERIC)
    EXPECT_EQ(at_begin, start);
#endif
    EXPECT_EQ(kin__call_raw(&escape_sp, change_control_and_escape, &at_begin), 6);
    EXPECT_EQ(control_get(), control_number(3));
    control_set(start);
}

static void run_looking(void *pass)
{
    *(uint64_t *)pass = control_get();
    kin__context_jump(&echo.context, &home, pass);
}

#if !defined(KIN_SWITCH_GENERIC)
KIN_TEST(a_flow_begins_with_the_control_words_of_the_start, "")
{
    EXPECT(kin__context_supported());
    const uint64_t start = control_get();
    uint64_t at_begin = 0;

    kin__context_adopt(&home);
    control_set(control_number(2));
    flow_make(&echo, run_looking);
    kin__context_switch(&home, &echo.context, &at_begin);
    EXPECT_EQ(at_begin, start);
    EXPECT_EQ(control_get(), control_number(2));
    flow_drop(&echo);
}
#else
KIN_TEST(a_flow_begins_with_the_control_words_of_its_maker, "")
{
    uint64_t at_begin = 0;

    kin__context_adopt(&home);
    control_set(control_number(2));
    flow_make(&echo, run_looking);
    control_set(control_number(0));
    kin__context_switch(&home, &echo.context, &at_begin);
    EXPECT_EQ(at_begin, control_number(2));
    flow_drop(&echo);
}
#endif

#endif

KIN_TEST(a_clean_call_gives_its_caller_the_words_of_a_flow_that_begins, "")
{
    uint64_t start = control_get();
    uint64_t at_begin = 0;

    EXPECT(kin__context_supported());
    EXPECT_EQ(kin__call_clean_raw(&escape_sp, change_control, &at_begin), 5);
    EXPECT_EQ(at_begin, start);
    EXPECT_EQ(control_get(), start);
    EXPECT_EQ(kin__call_clean_raw(&escape_sp, change_control_and_escape, &at_begin), 6);
    EXPECT_EQ(control_get(), start);
}

/* ---- calls that can be escaped from ---- */

static int return_what_it_points_to(void *arg)
{
    return *(int *)arg;
}

KIN_TEST(a_call_returns_what_the_function_returns, "")
{
    void *sp = NULL;

    for (int i = -3; i < 3; i++)
        EXPECT_EQ(kin__call_raw(&sp, return_what_it_points_to, &i), i);
    EXPECT(sp != NULL);
}

struct descent {
    void *sp;
    int depth;
};

static __attribute__((noinline)) int descend(struct descent *descent, int depth)
{
    volatile char ballast[64];

    ballast[0] = (char)depth;
    if (depth < 0)
        return 0;
    if (depth == 0)
        kin__escape_raw(descent->sp, -42);
    return descend(descent, depth - 1) + ballast[0];
}

static int start_descent(void *arg)
{
    struct descent *descent = arg;

    return descend(descent, descent->depth);
}

KIN_TEST(an_escape_ends_the_call_from_any_depth, "")
{
    struct descent descent = {NULL, 0};
    uint64_t around[4] = {1, 2, 3, 4};

    for (descent.depth = 0; descent.depth < 1000; descent.depth += 37)
        EXPECT_EQ(kin__call_raw(&descent.sp, start_descent, &descent), -42);
    for (uint64_t i = 0; i < 4; i++)
        EXPECT_EQ(around[i], i + 1);
}

static void *outer_sp;

static int escape_outer(void *arg)
{
    (void)arg;
    kin__escape_raw(outer_sp, 7);
}

static int call_inner(void *arg)
{
    void *inner_sp;

    (void)kin__call_raw(&inner_sp, arg ? escape_outer : return_what_it_points_to, arg);
    return 8;
}

KIN_TEST(an_escape_may_end_several_calls_at_once, "")
{
    int one = 1;

    EXPECT_EQ(kin__call_raw(&outer_sp, call_inner, &one), 7);
}

/* A body that parks in the middle of a call, as a task does, then escapes. */
static int switch_then_escape(void *arg)
{
    struct descent *descent = arg;

    kin__context_switch(&echo.context, &home, NULL);
    kin__context_switch(&echo.context, &home, NULL);
    return descend(descent, 20);
}

static void run_escaping(void *pass)
{
    struct descent descent = {NULL, 0};

    (void)pass;
    int rc = kin__call_raw(&descent.sp, switch_then_escape, &descent);
    kin__context_jump(&echo.context, &home, (void *)(intptr_t)rc);
}

KIN_TEST(an_escape_works_after_switches, "")
{
    kin__context_adopt(&home);
    flow_make(&echo, run_escaping);
    kin__context_switch(&home, &echo.context, NULL);
    kin__context_switch(&home, &echo.context, NULL);
    EXPECT_EQ((intptr_t)kin__context_switch(&home, &echo.context, NULL), -42);
    flow_drop(&echo);
}

/* A borrowed run: the same stack, a context of its own, which parks once. */
static struct kin__context borrower;

static int park_borrower(void *arg)
{
    kin__context_switch(&borrower, &home, arg);
    return 9;
}

static void run_lender(void *pass)
{
    void *sp;

    kin__context_enter(&borrower, &echo.context);
    int rc = kin__call_raw(&sp, park_borrower, pass);
    kin__context_leave(&borrower, &echo.context);
    kin__context_jump(&echo.context, &home, (void *)(intptr_t)rc);
}

KIN_TEST(a_borrowed_run_parks_with_a_context_of_its_own, "")
{
    int pass;

    kin__context_adopt(&home);
    flow_make(&echo, run_lender);
    EXPECT_PTR(kin__context_switch(&home, &echo.context, &pass), &pass);
    EXPECT_EQ((intptr_t)kin__context_switch(&home, &borrower, NULL), 9);
    flow_drop(&echo);
}

/* ---- what an unwinder sees ---- */

#if !defined(KIN_SWITCH_GENERIC) && !KIN__ASAN && !KIN__TSAN

void kin__entry_raw(void);

typedef int backtrace_fn(void **addresses, int size);

static backtrace_fn *unwinder;
static void *trace[64];
static int trace_count;

static __attribute__((noinline)) int take_trace(void *arg)
{
    (void)arg;
    trace_count = unwinder(trace, 64);
    __asm__ volatile("" ::: "memory"); /* no tail call: this frame is to be seen */
    return 0;
}

static void run_traced(void *pass)
{
    void *sp;

    (void)kin__call_raw(&sp, take_trace, NULL);
    kin__context_jump(&echo.context, &home, pass);
}

/* The entry, its flow, the call, the function, the unwinder's own: a handful, the entry last. */
static void trace_in_a_flow(void)
{
    kin__context_adopt(&home);
    flow_make(&echo, run_traced);
    kin__context_switch(&home, &echo.context, NULL);
    flow_drop(&echo);

    EXPECT_GE(trace_count, 4);
    EXPECT_LE(trace_count, 8);
    uintptr_t entry = (uintptr_t)kin__entry_raw;
    uintptr_t last = (uintptr_t)trace[trace_count - 1];
    if (last == 0 && trace_count > 1) /* libunwind may list the undefined caller as 0 */
        last = (uintptr_t)trace[trace_count - 2];
    EXPECT_GT(last, entry);
    EXPECT_LE(last, entry + 32);
    bool call_seen = false;
    for (int i = 0; i < trace_count; i++)
        call_seen |= (uintptr_t)trace[i] - (uintptr_t)kin__call_raw < 256;
    EXPECT(call_seen);
}

KIN_TEST(backtrace_stops_at_the_entry, "")
{
    unwinder = backtrace;
    trace_in_a_flow();
}

#if defined(__x86_64__)
KIN_TEST(libunwind_stops_at_the_entry, "")
{
    if (kin__is_under_valgrind())
        return; /* libunwind tries memory out by writing it to a pipe, which valgrind reports */
    void *library = dlopen("libunwind.so.8", RTLD_NOW);

    if (!library)
        KIN_SKIP("no libunwind");
    void *symbol = dlsym(library, "unw_backtrace");
    if (!symbol)
        KIN_SKIP("no unw_backtrace");
    memcpy(&unwinder, &symbol, sizeof unwinder);
    trace_in_a_flow();
}
#endif

#endif

/* ---- across threads ---- */

static struct flow traveller;
static struct kin__context other_home;
static void *seen_self[3];

static void run_traveller(void *pass)
{
    seen_self[0] = kin__self_get();
    kin__context_switch(&traveller.context, &home, pass);
    seen_self[1] = kin__self_get();
    kin__context_switch(&traveller.context, &other_home, pass);
    seen_self[2] = kin__self_get();
    kin__context_jump(&traveller.context, &home, pass);
}

static void other_thread(void *arg)
{
    kin__context_adopt(&other_home);
    kin__self_set(arg);
    kin__context_switch(&other_home, &traveller.context, NULL);
    kin__context_drop(&other_home);
}

KIN_TEST(a_flow_goes_on_in_another_thread, "")
{
    struct kin__thread thread;
    int here, there;

    kin__context_adopt(&home);
    kin__self_set(&here);
    flow_make(&traveller, run_traveller);
    kin__context_switch(&home, &traveller.context, NULL);
    EXPECT_EQ(kin__thread_start(&thread, other_thread, &there, 256 * 1024, "other"), 0);
    kin__thread_join(&thread);
    kin__context_switch(&home, &traveller.context, NULL);
    EXPECT_PTR(seen_self[0], &here);
    EXPECT_PTR(seen_self[1], &there);
    EXPECT_PTR(seen_self[2], &here);
    flow_drop(&traveller);
    kin__context_drop(&home);
}

/* Two threads toss flows to each other through a slot; each flow counts its own rounds. */
#define TOSSED 16
#define TOSSES 2000

struct tossed {
    struct flow flow;
    uint64_t rounds;
    struct kin__context *back; /* the thread that runs it */
};

static struct tossed tossed[TOSSED];
static kin__a32 slots[TOSSED]; /* 0 may be taken, 1 taken, 2 over */
static kin__ai32 tosses_left;

static void run_tossed(void *pass)
{
    struct tossed *self = pass;
    volatile uint64_t check = 0;

    for (;;) { /* ends with the test */
        self->rounds++;
        check++;
        EXPECT_EQ(self->rounds, check);
        kin__context_switch(&self->flow.context, self->back, NULL);
    }
}

static void toss(void *arg)
{
    struct kin__context me;
    struct kin__rng rng;

    kin__rng_init(&rng, kin_test_seed(), (uint64_t)(uintptr_t)arg);
    kin__context_adopt(&me);
    while (kin__sub_relaxed(&tosses_left, 1) > 0) { /* relaxed: a counter */
        unsigned i = (unsigned)kin__rng_below(&rng, TOSSED);
        uint32_t may = 0;
        /* pairs with the release below: the flow was left before it can be taken */
        if (!kin__cas_acquire(&slots[i], &may, 1))
            continue;
        tossed[i].back = &me;
        kin__context_switch(&me, &tossed[i].flow.context, &tossed[i]);
        kin__store_release(&slots[i], 0); /* pairs with the acquire above */
    }
    kin__context_drop(&me);
}

KIN_TEST(flows_move_between_threads_all_the_time, "")
{
    struct kin__thread threads[3];
    uint64_t rounds = 0;

    kin__store_relaxed(&tosses_left, TOSSED * TOSSES); /* relaxed: before the threads exist */
    for (int i = 0; i < TOSSED; i++)
        flow_make(&tossed[i].flow, run_tossed);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin__thread_start(&threads[i], toss, (void *)(intptr_t)i, 256 * 1024, "toss"), 0);
    for (int i = 0; i < 3; i++)
        kin__thread_join(&threads[i]);
    for (int i = 0; i < TOSSED; i++) {
        rounds += tossed[i].rounds;
        flow_drop(&tossed[i].flow);
    }
    EXPECT_GT(rounds, TOSSED * TOSSES / 8);
}

KIN_TEST(stacks_can_be_switched_here, "")
{
    EXPECT(kin__context_supported());
}
