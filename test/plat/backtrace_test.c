/* SPDX-License-Identifier: MIT */
/*
 * Goal: return addresses on a saved stack are found, innermost first, and nothing else is.
 * Method: stacks made by hand over code made by hand, one encoding of a call at a time; and a real
 *         flow that is suspended three calls deep.
 */
#include "kin_test.h"

#include "base/text.h"
#include "plat/context.h"
#include "plat/plat.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

/* Code made by hand: a map with one part. */
static struct kin__code map_of(const void *begin, size_t size)
{
    struct kin__code code = {.count = 1};
    code.begin[0] = (uintptr_t)begin;
    code.end[0] = (uintptr_t)begin + size;
    return code;
}

#if defined(__x86_64__)

/* Whether the address behind these bytes counts as behind a call. */
static bool counts(const char *bytes, size_t size)
{
    static unsigned char memory[64];
    struct kin__code code = map_of(memory, sizeof memory);
    uintptr_t stack[1], found[1];
    memset(memory, 0x90, sizeof memory);
    memcpy(memory + 20, bytes, size);
    stack[0] = (uintptr_t)(memory + 20 + size);
    return kin__code_frames(&code, stack, stack + 1, found, 1) == 1 && found[0] == stack[0];
}

#define COUNTS(bytes) counts(bytes, sizeof(bytes) - 1)

KIN_TEST(every_form_of_a_call_is_recognised, "N2002")
{
    EXPECT(COUNTS("\xe8\x00\x00\x00\x00"));         /* call near */
    EXPECT(!COUNTS("\xe8\x00\x10\x00\x00"));        /* the same to where no code is */
    EXPECT(COUNTS("\xff\xd0"));                     /* call *%rax */
    EXPECT(COUNTS("\x41\xff\xd3"));                 /* call *%r11 */
    EXPECT(COUNTS("\xff\x10"));                     /* call *(%rax) */
    EXPECT(COUNTS("\xff\x14\xc8"));                 /* call *(%rax,%rcx,8) */
    EXPECT(COUNTS("\xff\x14\xc5\x00\x00\x00\x00")); /* call *0(,%rax,8) */
    EXPECT(COUNTS("\xff\x50\x18"));                 /* call *24(%rax) */
    EXPECT(COUNTS("\xff\x54\x24\x08"));             /* call *8(%rsp) */
    EXPECT(COUNTS("\xff\x90\x00\x01\x00\x00"));     /* call *256(%rax) */
    EXPECT(COUNTS("\xff\x94\x24\x00\x01\x00\x00")); /* call *256(%rsp) */
    EXPECT(COUNTS("\xff\x15\x00\x00\x00\x00"));     /* call *0(%rip) */
}

KIN_TEST(what_is_no_call_is_not, "N2002")
{
    EXPECT(!COUNTS("\x90\x90\x90\x90\x90\x90\x90")); /* nothing */
    EXPECT(!COUNTS("\xe9\x00\x00\x00\x00"));         /* jmp */
    EXPECT(!COUNTS("\xff\xe0"));                     /* jmp *%rax */
    EXPECT(!COUNTS("\xff\xd0\x90"));                 /* one byte further */
    EXPECT(!COUNTS("\xff\x50\x18\x90"));
    EXPECT(!COUNTS("\xff\x75\x08"));                 /* push 8(%rbp) */
}

#endif

KIN_TEST(only_addresses_of_code_count_and_only_within_the_bounds, "N2002")
{
#if defined(__x86_64__)
    static unsigned char memory[64];
    memset(memory, 0x90, sizeof memory);
    for (int i = 0; i < 64; i += 8)
        memcpy(memory + i, "\xff\xd0", 2);
    uintptr_t first = (uintptr_t)memory + 2, second = (uintptr_t)memory + 10;
#else
    static uint32_t memory[16];
    for (int i = 0; i < 16; i++)
        memory[i] = 0x94000000u; /* bl */
    uintptr_t first = (uintptr_t)memory + 4, second = (uintptr_t)memory + 8;
#endif
    struct kin__code code = map_of(memory, 64);
    uintptr_t stack[] = {0, first, (uintptr_t)memory - 8, (uintptr_t)memory + 64, second,
                         (uintptr_t)memory, UINTPTR_MAX, first, (uintptr_t)&code};
    size_t words = sizeof stack / sizeof stack[0];
    uintptr_t found[4] = {0};
    EXPECT_EQ(kin__code_frames(&code, stack, stack + words, found, 4), 3);
    EXPECT_EQ(found[0], first);
    EXPECT_EQ(found[1], second);
    EXPECT_EQ(found[2], first);
    EXPECT_EQ(kin__code_frames(&code, stack, stack + words, found, 1), 1);
    EXPECT_EQ(kin__code_frames(&code, stack + 2, stack + words, found, 4), 2);
    EXPECT_EQ(kin__code_frames(&code, stack + 1, stack + 1, found, 4), 0);
    EXPECT_EQ(kin__code_frames(&code, stack, stack + words, found, 0), 0);
    /* a stack pointer between two words begins at the next */
    EXPECT_EQ(kin__code_frames(&code, (char *)(stack + 1) + 1, stack + words, found, 4), 2);
    code.count = 0;
    EXPECT_EQ(kin__code_frames(&code, stack, stack + words, found, 4), 0);
}

/* ---- a flow that is suspended ---- */

static struct kin__context main_flow, flow;
static uintptr_t calls[3];

__attribute__((noinline)) static int third(int x)
{
    calls[0] = (uintptr_t)__builtin_return_address(0);
    (void)kin__context_switch(&flow, &main_flow, NULL);
    return x + 1;
}

__attribute__((noinline)) static int second(int x)
{
    calls[1] = (uintptr_t)__builtin_return_address(0);
    int got = third(x + 1);
    __asm__ volatile("" : "+r"(got)); /* no tail call */
    return got;
}

__attribute__((noinline)) static int first(int x)
{
    calls[2] = (uintptr_t)__builtin_return_address(0);
    int got = second(x + 1);
    __asm__ volatile("" : "+r"(got));
    return got;
}

static void begin(void *pass)
{
    (void)pass;
    (void)first(1);
    kin__context_jump(&flow, &main_flow, NULL);
}

KIN_TEST(a_suspended_flow_shows_its_calls_innermost_first, "N2002")
{
    enum { BYTES = 256 * 1024, MAX = 64 };
    char *stack = aligned_alloc(64, BYTES);
    struct kin__code code;
    uintptr_t found[MAX];
    EXPECT(stack);
    memset(stack, 0, BYTES);
    kin__context_adopt(&main_flow);
    kin__context_make(&flow, stack, stack + BYTES, begin);
    (void)kin__context_switch(&main_flow, &flow, NULL);
    kin__code_read(&code);
    EXPECT_GE(code.count, 2); /* this program and libc */
    unsigned count = kin__code_frames(&code, flow.sp, stack + BYTES, found, MAX);
    unsigned at = 0;
    for (unsigned i = 0; i < count && at < 3; i++)
        at += found[i] == calls[at];
    for (unsigned i = 0; i < count; i++)
        printf("%u: %p\n", i, (void *)found[i]);
    EXPECT_EQ(at, 3); /* all of them, in order */
    (void)kin__context_switch(&main_flow, &flow, NULL);
    kin__context_drop(&flow);
    kin__context_drop(&main_flow);
    free(stack);
}

__attribute__((noinline)) static void *call_of_this_line(void)
{
    return __builtin_return_address(0);
}

KIN_TEST(an_address_is_written_with_all_that_is_known_of_it, "N2002")
{
    char memory[512];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof memory);
    kin__code_name(&text, (uintptr_t)&strtol + 1); /* libc is known by its dynamic symbols */
    printf("%s\n", memory);
#if KIN__ASAN /* it has a function of its own in the place of that */
    EXPECT(strstr(memory, "strtol") && strstr(memory, "+0x"));
#else
    EXPECT(strstr(memory, "strtol+0x1 (") == memory || strstr(memory, "strtoll+0x1 (") == memory);
    EXPECT(strstr(memory, "libc") && strstr(memory, "+0x"));
#endif
    kin__text_init(&text, memory, sizeof memory);
    kin__code_name(&text, (uintptr_t)__builtin_extract_return_addr(call_of_this_line()));
    EXPECT(strstr(memory, "all_that_is_known_of_it (backtrace_test.c:"));
    kin__text_init(&text, memory, sizeof memory);
    kin__code_name(&text, 16); /* nobody's */
    EXPECT_STR(memory, "0x10");
    kin__text_init(&text, memory, 4);
    kin__code_name(&text, (uintptr_t)&strtol + 1); /* cut off, not overrun */
    EXPECT_EQ(strlen(memory), 3);
}

KIN_TEST(an_address_of_the_program_can_be_found_in_its_file, "N2002")
{
    static const char data[] = "data";
    char memory[512], *at;
    struct kin__text text;
    Dl_info info;
    kin__text_init(&text, memory, sizeof memory);
    kin__code_place(&text, (uintptr_t)data + 1); /* the program's, and no code */
    at = strstr(memory, " (+0x");
    EXPECT(dladdr((void *)(uintptr_t)data, &info) != 0);
    const ElfW(Ehdr) *header = info.dli_fbase;
    if (header->e_type == ET_DYN) { /* else the address is that of the file */
        EXPECT(at != NULL);
        EXPECT_EQ(strtoul(at + 3, NULL, 16), (uintptr_t)data + 1 - (uintptr_t)info.dli_fbase);
    } else {
        EXPECT(at == NULL);
    }
    kin__text_init(&text, memory, sizeof memory);
    kin__code_entry(&text, (uintptr_t)&map_of);
    EXPECT(strncmp(memory, "map_of (backtrace_test.c:", 25) == 0);
    kin__text_init(&text, memory, sizeof memory);
    kin__code_entry(&text, (uintptr_t)&getauxval); /* of another file, which is stripped */
    EXPECT(strstr(memory, "getauxval") != NULL && strstr(memory, "(+0x") == NULL);
    kin__text_init(&text, memory, sizeof memory);
    kin__code_place(&text, 16);
    EXPECT_STR(memory, "0x10");
}
