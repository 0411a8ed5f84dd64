/* SPDX-License-Identifier: MIT */
/*
 * Flows of control: a saved stack pointer, and what the sanitizers must be told about it
 * [SCHED:5.3.1].
 *
 *   make    lays a first frame on a stack, so that the first switch to it calls entry(pass)
 *   switch  saves this flow, continues the other, and hands it one pointer
 *   jump    the same without saving: this flow is over or its stack is borrowed no longer
 *   call    calls fn(arg) in such a way that escape can end the call from any depth below it
 *
 * A switch saves the callee-saved registers and the control bits of the floating-point state (the
 * ABI calls those callee-saved; status bits are not). It leaves with a jump, never with ret: ret to
 * a place that the CPU's return stack does not expect costs four times the whole switch.
 */
#ifndef KIN_PLAT_CONTEXT_H
#define KIN_PLAT_CONTEXT_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* On a definition that assembly refers to: it keeps its name even when everything is optimised at
 * link time, where that reference is not seen. */
#if defined(__clang__)
#define KIN__FROM_ASM __attribute__((visibility("hidden"), used))
#else
#define KIN__FROM_ASM __attribute__((visibility("hidden"), used, externally_visible))
#endif

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KIN__ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define KIN__TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(KIN__ASAN)
#define KIN__ASAN 1
#endif
#if defined(__SANITIZE_THREAD__) && !defined(KIN__TSAN)
#define KIN__TSAN 1
#endif
#ifndef KIN__ASAN
#define KIN__ASAN 0
#endif
#ifndef KIN__TSAN
#define KIN__TSAN 0
#endif

struct kin__context {
    void *sp; /* where the flow goes on; meaningless while it runs */
#if KIN__ASAN
    void *fake_stack; /* the sanitizer's own stack of this flow, while it is suspended */
    const void *low;  /* bounds of the stack it runs on */
    size_t bytes;
#endif
#if KIN__TSAN
    void *fiber;  /* the sanitizer's name for this flow */
    bool is_made; /* the fiber is ours to destroy */
#endif
};

/* The primitives, in assembly; everybody else uses the wrappers below. */
void *kin__switch_raw(void **save_sp, void *to_sp, void *pass);
_Noreturn void kin__jump_raw(void *to_sp, void *pass);
/* Calls fn(arg); *escape_sp is valid until it returns. Returns what fn or the escape gave. fn
 * begins with the floating-point control words that every task begins with, and the caller has its
 * own again afterwards, whatever fn did. */
int kin__call_raw(void **escape_sp, int (*fn)(void *), void *arg);
_Noreturn void kin__escape_raw(void *escape_sp, int value);
/* The same as kin__call_raw for a caller that has the control words that every flow begins with and
 * never changes them: on some machines reading them costs as much as the rest of a call. */
#if defined(__x86_64__) && !defined(KIN_SWITCH_GENERIC)
int kin__call_clean_raw(void **escape_sp, int (*fn)(void *), void *arg);
#else
#define kin__call_clean_raw kin__call_raw
#endif
/* Lays the frame of a flow not yet begun below base; a switch to the sp it returns calls
 * entry(pass) or, unless it is NULL, first(pass, entry). In context.c for the machines with
 * assembly. */
void *kin__make_raw(void *base, void (*entry)(void *pass),
                    void (*first)(void *pass, void (*entry)(void *)));
/* Where an entry ends up that returns. */
_Noreturn void kin__entry_returned(void);

/* False when this process cannot switch stacks: a user shadow stack is active, which a jump between
 * flows would break. kin__context_make aborts then; a runtime asks first and refuses to start. The
 * first call also takes the floating-point control words of its thread as those that tasks begin
 * with. */
bool kin__context_supported(void);

/* Prepares context so that the first switch to it calls entry(pass) with base (16-aligned) as the
 * high end of the stack. entry must not return. low: the lowest usable byte. */
void kin__context_make(struct kin__context *context, void *low, void *base,
                       void (*entry)(void *pass));
/* Describes the flow that is running now, on the stack the thread was born with. */
void kin__context_adopt(struct kin__context *context);
/* Undoes make or adopt: frees what a sanitizer holds for it. Never from the flow itself, if it was
 * made. */
void kin__context_drop(struct kin__context *context);

/* What a call does not keep: every register of the vector and x87 units. */
#if defined(__x86_64__)
#define KIN__SSE_CLOBBERS                                                                          \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",       \
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "st", "st(1)", "st(2)", "st(3)", "st(4)",     \
        "st(5)", "st(6)", "st(7)"
#if defined(__AVX512F__)
#define KIN__VECTOR_CLOBBERS                                                                       \
    KIN__SSE_CLOBBERS, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23",     \
        "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3",  \
        "k4", "k5", "k6", "k7"
#else
#define KIN__VECTOR_CLOBBERS KIN__SSE_CLOBBERS
#endif
#endif

#if KIN__ASAN || KIN__TSAN
void *kin__context_switch(struct kin__context *from, struct kin__context *to, void *pass);
_Noreturn void kin__context_jump(struct kin__context *from, struct kin__context *to, void *pass);
#else
/* Saves the running flow in from and continues to; returns when somebody switches to from, with the
 * pointer they passed. */
static inline void *kin__context_switch(struct kin__context *from, struct kin__context *to,
                                        void *pass)
{
    void *sp = to->sp;
    /* This check has a second use: a function with a call in it keeps nothing of its own under its
     * stack pointer, where kin__switch_near pushes. */
    KIN__CHECK(sp != NULL, "house: only a suspended flow is continued");
#if defined(__x86_64__) && !defined(KIN_SWITCH_GENERIC)
    /* Entered by a jump, because it leaves by a jump: a call would leave one entry too many on the
     * CPU's return stack, and every return behind the switch would be predicted wrongly (two of
     * them cost 13 ns, as much as all the rest of a yield). */
    void *got, *save = &from->sp;
    __asm__ volatile("leaq 1f(%%rip), %%rax\n\t"
                     "jmp kin__switch_near\n"
                     "1:"
                     : "=a"(got), "+D"(save), "+S"(sp), "+d"(pass)
                     :
                     : "rcx", "r8", "r9", "r10", "r11", "memory", "cc", KIN__VECTOR_CLOBBERS);
    return got;
#else
    return kin__switch_raw(&from->sp, sp, pass);
#endif
}

/* Continues to; the running flow from ends here and is never continued. */
_Noreturn static inline void kin__context_jump(struct kin__context *from, struct kin__context *to,
                                               void *pass)
{
    (void)from;
#if defined(__x86_64__) && !defined(KIN_SWITCH_GENERIC)
    /* By a jump, for the same reason. */
    __asm__ volatile("leaq 1f(%%rip), %%rax\n\t"
                     "jmp kin__jump_near\n"
                     "1:" ::"D"(to->sp),
                     "S"(pass)
                     : "rax", "memory");
    __builtin_unreachable();
#else
    kin__jump_raw(to->sp, pass);
#endif
}
#endif

/* The running flow has been moved to the stack [low, base) by a fault. Only ASan needs to know; it
 * forgets what it knew about that stack. kin__context_leave notices by itself that an escape has
 * led back, and forgets what the abandoned frames have left. */
#if KIN__ASAN
void kin__context_move(struct kin__context *context, const void *low, const void *base);
#else
static inline void kin__context_move(struct kin__context *context, const void *low,
                                     const void *base)
{
    (void)context;
    (void)low;
    (void)base;
}
#endif

/*
 * A task that borrows the stack of another runs between enter and leave, with a context of its own.
 * Only the sanitizers need to know. TSan gets a fiber per task even then: its reports then name the
 * task, and an escape leaves the shadow call stack of the fiber it happens on unbalanced, which is
 * harmless only when that fiber ends. Both are inlined into one and the same function, whose entry
 * and exit TSan then sees on one fiber.
 */
#if KIN__TSAN
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
/*
 * What a switch orders for TSan. 0: everything before it in the old flow happens before everything
 * after it in the new one, as on one thread it does; the flow that lands commits the park of the
 * one that left and uses what the worker owns, and both rest on this order. 1 would order nothing:
 * it would find races between tasks that happen to share a worker as well, and would call every
 * field of a worker racy.
 */
#ifndef KIN__TSAN_SWITCH
#define KIN__TSAN_SWITCH 0u
#endif
#endif

__attribute__((always_inline)) static inline void
kin__context_enter(struct kin__context *task, const struct kin__context *lender)
{
    task->sp = NULL;
#if KIN__ASAN
    task->fake_stack = NULL;
    task->low = lender->low;
    task->bytes = lender->bytes;
#endif
#if KIN__TSAN
    task->fiber = __tsan_create_fiber(0);
    task->is_made = true;
    __tsan_switch_to_fiber(task->fiber, KIN__TSAN_SWITCH);
#endif
    (void)lender;
}

__attribute__((always_inline)) static inline void
kin__context_leave(struct kin__context *task, const struct kin__context *lender)
{
#if KIN__ASAN
    if (task->low != lender->low)
        kin__context_move(task, lender->low, (const char *)lender->low + lender->bytes);
#endif
#if KIN__TSAN
    __tsan_switch_to_fiber(lender->fiber, KIN__TSAN_SWITCH);
    __tsan_destroy_fiber(task->fiber);
#endif
    (void)task;
    (void)lender;
}

/* False too where kin was built without valgrind's header. */
bool kin__is_under_valgrind(void);
/* Tells valgrind about a region used as a stack; the result goes to kin__stack_forget. */
unsigned kin__stack_announce(void *low, void *high);
void kin__stack_forget(unsigned id);
/* The region becomes a stack again by a jump out of a signal handler. Valgrind, which knows a
 * change of stacks by the instruction that makes it, would take the first frame for that. */
void kin__stack_reopen(void *low, void *high);

#endif
