/* SPDX-License-Identifier: MIT */
/*
 * Flows: lays the first frame on a stack, and keeps the sanitizers informed of every switch.
 *
 * Without a sanitizer a switch is kin__switch_raw and nothing else (context.h). With one, each
 * switch is announced before it happens and finished where it lands, and there are two such places:
 * behind the raw switch, for a flow that goes on, and in begin_flow, for one that begins.
 *
 *   ASan   start(where to keep the fake stack, bounds of the next stack), finish(fake stack). A
 *          flow that ends gives no place to keep its fake stack, which frees it.
 *   TSan   one fiber per context. A switch is program order of its thread (KIN__TSAN_SWITCH).
 *   valgrind  hears of each stack once, when it is cut.
 *
 * The frame of a flow that has not begun is the frame of a suspended one whose place to go on is
 * kin__entry_raw; its shape is drawn in the switch file of the machine.
 */
#define _GNU_SOURCE 1
#include "plat/context.h"

#include "base/assert.h"
#include "base/atomic.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if KIN__ASAN
#include <pthread.h>
#endif

#if defined(__has_include)
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define HAS_VALGRIND 1
#endif
#endif

#if KIN__ASAN
void __sanitizer_start_switch_fiber(void **fake_stack_save, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake_stack_save, const void **bottom_old,
                                     size_t *size_old);
void __asan_unpoison_memory_region(const volatile void *low, size_t bytes);
#endif
#if KIN__TSAN
void *__tsan_get_current_fiber(void);
#endif

#if defined(__x86_64__) && !defined(KIN_SWITCH_GENERIC)

void kin__entry_raw(void);

/* What the switch knows about floating point; its layout is used in switch_x86_64.S. The first two
 * words are what a task begins with: those of the thread that started the first runtime (a program
 * linked for flushed denormals keeps them flushed), taken once, so that it does not depend on which
 * task happened to run before. */
extern struct kin__fp {
    uint32_t mxcsr;
    uint32_t x87;
    uint32_t load_always; /* 1: load mxcsr without looking whether it differs */
} kin__fp;
KIN__FROM_ASM struct kin__fp kin__fp = {0x1f80, 0x037f, 0};

/* AMD from family 0x19 on (measured on Zen 4: always loading 5.0 ns, comparing 7.0 ns a switch). */
static bool is_loading_cheaper(void)
{
    unsigned eax, ebx, ecx, edx;

    if (!__get_cpuid(0, &eax, &ebx, &ecx, &edx) || ecx != signature_AMD_ecx)
        return false;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx))
        return false;
    return ((eax >> 8) & 0xf) + ((eax >> 20) & 0xff) >= 0x19;
}

static void learn_machine(void)
{
    static kin__a32 stage; /* 0, 1 while somebody learns, 2 */
    uint32_t mxcsr, unknown = 0;
    uint16_t x87;

    /* pairs with the release below */
    if (KIN__LIKELY(kin__load_acquire(&stage) == 2))
        return;
    if (!kin__cas_relaxed(&stage, &unknown, 1)) { /* relaxed: nothing is read after it */
        while (kin__load_acquire(&stage) != 2) /* pairs as above; ends: a few instructions */
            kin__cpu_relax();
        return;
    }
    __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    kin__fp.mxcsr = mxcsr & ~0x3fu;
    kin__fp.x87 = x87;
    kin__fp.load_always = is_loading_cheaper();
    kin__store_release(&stage, 2); /* pairs with the acquires above */
}

void *kin__make_raw(void *base, void (*entry)(void *pass),
                    void (*first)(void *pass, void (*entry)(void *)))
{
    uint64_t *sp = (uint64_t *)base - 10;

    sp[0] = kin__fp.mxcsr | (uint64_t)kin__fp.x87 << 32;
    sp[1] = 0;                          /* r15 */
    sp[2] = 0;                          /* r14 */
    sp[3] = (uint64_t)(uintptr_t)entry; /* r13: second argument */
    /* r12: what kin__entry_raw calls */
    sp[4] = first ? (uint64_t)(uintptr_t)first : (uint64_t)(uintptr_t)entry;
    sp[5] = 0; /* rbx */
    sp[6] = 0; /* rbp */
    sp[7] = (uint64_t)(uintptr_t)kin__entry_raw;
    sp[8] = 0; /* ends a walk along return addresses */
    sp[9] = 0;
    return sp;
}

bool kin__context_supported(void)
{
    uint64_t shadow_sp = 0;

    learn_machine();
    /* rdsspq %rax: the shadow stack pointer, or no operation where there is none. Spelt as bytes
     * for assemblers that do not know it. */
    __asm__ volatile(".byte 0xf3, 0x48, 0x0f, 0x1e, 0xc8" : "+a"(shadow_sp));
    return shadow_sp == 0;
}

#elif defined(__aarch64__) && !defined(KIN_SWITCH_GENERIC)

void kin__entry_raw(void);

/* What the switch knows; its layout is used in switch_aarch64.S. The first word is what a task
 * begins with: that of the thread that started the first runtime, taken once, so that it does not
 * depend on which task happened to run before. */
extern struct kin__fp {
    uint64_t fpcr;
    uint32_t leave_by_ret; /* 1: landings of jumps must be marked, and ours are not */
} kin__fp;
#if defined(__ARM_FEATURE_BTI_DEFAULT)
KIN__FROM_ASM struct kin__fp kin__fp = {0, 1};
#else
KIN__FROM_ASM struct kin__fp kin__fp = {0, 0};
#endif

static void learn_machine(void)
{
    static kin__a32 stage; /* 0, 1 while somebody learns, 2 */
    uint32_t unknown = 0;

    /* pairs with the release below */
    if (KIN__LIKELY(kin__load_acquire(&stage) == 2))
        return;
    if (!kin__cas_relaxed(&stage, &unknown, 1)) { /* relaxed: nothing is read after it */
        while (kin__load_acquire(&stage) != 2) /* pairs as above; ends: a few instructions */
            kin__cpu_relax();
        return;
    }
    __asm__ volatile("mrs %0, fpcr" : "=r"(kin__fp.fpcr));
    kin__store_release(&stage, 2); /* pairs with the acquires above */
}

void *kin__make_raw(void *base, void (*entry)(void *pass),
                    void (*first)(void *pass, void (*entry)(void *)))
{
    uint64_t *sp = (uint64_t *)base - 24;

    for (int i = 0; i < 24; i++)
        sp[i] = 0;
    /* x19: what kin__entry_raw calls */
    sp[0] = first ? (uint64_t)(uintptr_t)first : (uint64_t)(uintptr_t)entry;
    sp[1] = (uint64_t)(uintptr_t)entry; /* x20: second argument */
    sp[11] = (uint64_t)(uintptr_t)kin__entry_raw;
    sp[20] = kin__fp.fpcr;
    return sp;
}

bool kin__context_supported(void)
{
    learn_machine();
    register uint64_t feature __asm__("x16") = 1;
    /* chkfeat x16: clears the bit when a guarded control stack is active; elsewhere a hint that
     * does nothing. */
    __asm__ volatile("hint #40" : "+r"(feature));
    return feature != 0;
}

#endif

KIN__FROM_ASM void kin__entry_returned(void)
{
    kin__check_failed("entry does not return", "house", __FILE__, __LINE__, __func__);
}

#if KIN__ASAN
/* The first thing that happens on the stack of a flow. */
static void begin_flow(void *pass, void (*entry)(void *))
{
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
    entry(pass);
    kin__entry_returned();
}
#else
#define begin_flow NULL
#endif

void kin__context_make(struct kin__context *context, void *low, void *base,
                       void (*entry)(void *pass))
{
    KIN__CHECK(kin__context_supported(), "house: no user shadow stack");
    KIN__ASSERT(((uintptr_t)base & 15) == 0, "house");
    context->sp = kin__make_raw(base, entry, begin_flow);
#if KIN__ASAN
    context->fake_stack = NULL;
    context->low = low;
    context->bytes = (size_t)((char *)base - (char *)low);
#endif
#if KIN__TSAN
    context->fiber = __tsan_create_fiber(0);
    context->is_made = true;
#endif
    (void)low;
}

void kin__context_adopt(struct kin__context *context)
{
    context->sp = NULL;
#if KIN__ASAN
    pthread_attr_t attr;
    void *low = NULL;
    size_t bytes = 0;

    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        (void)pthread_attr_getstack(&attr, &low, &bytes);
        (void)pthread_attr_destroy(&attr);
    }
    context->fake_stack = NULL;
    context->low = low;
    context->bytes = bytes;
#endif
#if KIN__TSAN
    context->fiber = __tsan_get_current_fiber();
    context->is_made = false;
#endif
}

void kin__context_drop(struct kin__context *context)
{
#if KIN__TSAN
    if (context->is_made)
        __tsan_destroy_fiber(context->fiber);
    context->fiber = NULL;
#endif
    context->sp = NULL;
}

#if KIN__ASAN || KIN__TSAN

void *kin__context_switch(struct kin__context *from, struct kin__context *to, void *pass)
{
#if KIN__ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->low, to->bytes);
#endif
#if KIN__TSAN
    __tsan_switch_to_fiber(to->fiber, KIN__TSAN_SWITCH);
#endif
    void *got = kin__switch_raw(&from->sp, to->sp, pass);
#if KIN__ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
    return got;
}

void kin__context_jump(struct kin__context *from, struct kin__context *to, void *pass)
{
    (void)from;
#if KIN__ASAN
    __sanitizer_start_switch_fiber(NULL, to->low, to->bytes);
#endif
#if KIN__TSAN
    __tsan_switch_to_fiber(to->fiber, KIN__TSAN_SWITCH);
#endif
    kin__jump_raw(to->sp, pass);
}

#endif

#if KIN__ASAN
void kin__context_move(struct kin__context *context, const void *low, const void *base)
{
    size_t bytes = (size_t)((const char *)base - (const char *)low);

    /* A switch to itself: the fake stack stays, the bounds change. */
    __sanitizer_start_switch_fiber(&context->fake_stack, low, bytes);
    __sanitizer_finish_switch_fiber(context->fake_stack, NULL, NULL);
    __asan_unpoison_memory_region(low, bytes);
    context->low = low;
    context->bytes = bytes;
}
#endif

bool kin__is_under_valgrind(void)
{
#ifdef HAS_VALGRIND
    return RUNNING_ON_VALGRIND != 0;
#else
    return false;
#endif
}

unsigned kin__stack_announce(void *low, void *high)
{
#ifdef HAS_VALGRIND
    return (unsigned)VALGRIND_STACK_REGISTER(low, high);
#else
    (void)low;
    (void)high;
    return 0;
#endif
}

void kin__stack_reopen(void *low, void *high)
{
#ifdef HAS_VALGRIND
    (void)VALGRIND_MAKE_MEM_UNDEFINED(low, (char *)high - (char *)low);
#else
    (void)low;
    (void)high;
#endif
}

void kin__stack_forget(unsigned id)
{
#ifdef HAS_VALGRIND
    VALGRIND_STACK_DEREGISTER(id);
#else
    (void)id;
#endif
}
