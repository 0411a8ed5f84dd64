/* SPDX-License-Identifier: MIT */
/*
 * Where a suspended flow stands: return addresses found on its saved stack, and their names.
 *
 * There are no frame pointers to follow in optimised code, and tables for unwinding need a library.
 * So every word between the saved stack pointer and the base is looked at: it counts as a return
 * address when it points into executable code, right behind a call instruction whose target, where
 * the instruction tells it, is code as well. Each frame that is active is found that way. A frame
 * that has ended may be found too, when its return address is still lying in a part of the stack
 * that a later frame holds and has not written: what is printed is the truth with some noise in it,
 * innermost first. It is meant for people who want to know where a task hangs.
 *
 * Reading the map of executable code takes the loader's lock and so does naming an address;
 * scanning takes none and allocates nothing, so it may happen under a lock of the runtime.
 */
#include "plat/plat.h"

#include "base/text.h"
#include "plat/source.h"

#include <dlfcn.h>
#include <link.h>

/* Older systems have it in a library of its own, which the program may lack. */
extern __typeof__(dladdr) dladdr __attribute__((weak));

static int add_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct kin__code *code = arg;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || !(segment->p_flags & PF_R))
            continue;
        if (code->count == KIN__CODE_PARTS)
            return 1; /* what lies in the others is not recognised */
        uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
        code->begin[code->count] = begin;
        code->end[code->count++] = begin + segment->p_memsz;
    }
    return 0;
}

void kin__code_read(struct kin__code *code)
{
    code->count = 0;
    (void)dl_iterate_phdr(add_object, code);
}

/* The part that address lies in; count when it is no code. */
static unsigned part_of_code(const struct kin__code *code, uintptr_t address)
{
    unsigned i = 0;
    while (i < code->count && (address < code->begin[i] || address >= code->end[i]))
        i++;
    return i;
}

#if defined(__x86_64__)

/* Whether the size bytes before pc are an indirect call: ff /2, with the operand that makes it that
 * long. A prefix before it needs no look. */
static bool is_indirect(const volatile uint8_t *pc, unsigned size)
{
    if (pc[-(int)size] != 0xff || (pc[1 - (int)size] & 0x38) != 0x10)
        return false;
    unsigned mode = pc[1 - (int)size] >> 6, rm = pc[1 - (int)size] & 7;
    bool has_sib = mode != 3 && rm == 4;
    unsigned displacement = mode == 1 ? 1 : mode == 2 || (mode == 0 && rm == 5) ? 4 : 0;
    if (mode == 0 && has_sib && (pc[2 - (int)size] & 7) == 5)
        displacement = 4;
    return size == 2 + has_sib + displacement;
}

static bool is_behind_call(const struct kin__code *code, unsigned part, uintptr_t pc)
{
    const volatile uint8_t *at = (const volatile uint8_t *)pc;
    uintptr_t room = pc - code->begin[part];
    if (room >= 5 && at[-5] == 0xe8) { /* call to a place relative to the next instruction */
        uint32_t offset = (uint32_t)at[-4] | (uint32_t)at[-3] << 8 | (uint32_t)at[-2] << 16 |
                          (uint32_t)at[-1] << 24;
        if (part_of_code(code, pc + (uintptr_t)(int32_t)offset) != code->count)
            return true;
    }
    for (unsigned size = 2; size <= 7 && size <= room; size++) {
        if (is_indirect(at, size))
            return true;
    }
    return false;
}

static uintptr_t strip(uintptr_t word)
{
    return word;
}

#elif defined(__aarch64__)

static bool is_behind_call(const struct kin__code *code, unsigned part, uintptr_t pc)
{
    if ((pc & 3) != 0 || pc - code->begin[part] < 4)
        return false;
    uint32_t before = *(const volatile uint32_t *)(pc - 4);
    bool is_direct = (before & 0xfc000000u) == 0x94000000u;         /* bl */
    bool is_indirect = (before & 0xfffffc1fu) == 0xd63f0000u;       /* blr */
    bool is_authenticated = (before & 0xfefff800u) == 0xd63f0800u;  /* blraa and its kind */
    return is_direct || is_indirect || is_authenticated;
}

/* A return address may be signed in the bits that no address uses. */
static uintptr_t strip(uintptr_t word)
{
    return word & ((UINT64_C(1) << 48) - 1);
}

#else

static bool is_behind_call(const struct kin__code *code, unsigned part, uintptr_t pc)
{
    return pc > code->begin[part];
}

static uintptr_t strip(uintptr_t word)
{
    return word;
}

#endif

/* The words belong to another flow, which may even go on meanwhile: the caller knows whether it
 * did. No sanitizer is to take an interest. */
__attribute__((no_sanitize("address", "thread"))) static uintptr_t peek(const uintptr_t *word)
{
    return *(const volatile uintptr_t *)word;
}

unsigned kin__code_frames(const struct kin__code *code, const void *sp, const void *end,
                          uintptr_t *frames, unsigned max)
{
    const uintptr_t *word = (const uintptr_t *)(((uintptr_t)sp + 7) & ~(uintptr_t)7);
    unsigned count = 0;
    for (; word < (const uintptr_t *)end && count < max; word++) {
        uintptr_t pc = strip(peek(word));
        unsigned part = part_of_code(code, pc);
        if (part != code->count && is_behind_call(code, part, pc))
            frames[count++] = pc;
    }
    return count;
}

/* The place of a call in words that need no address: crawl (spider.c:88), crawl+0x1c. What was
 * found: 0 nothing, 1 the function, 2 the line. */
static int put_place(struct kin__text *text, uintptr_t pc, bool is_entry)
{
    struct kin__place place;
    /* The call is before pc: behind a call that never returns another function may begin. */
    if (!kin__source_find(pc + is_entry, &place))
        return 0;
    kin__text_str(text, place.function[0] ? place.function : "?");
    if (place.line)
        kin__text_printf(text, " (%s:%u)", place.file, place.line);
    else if (!is_entry)
        kin__text_printf(text, "+0x%zx", place.offset + 1);
    return place.line ? 2 : 1;
}

static void put_code(struct kin__text *text, uintptr_t pc, bool is_entry)
{
    uintptr_t by;
    int found = put_place(text, pc, is_entry);
    if (found == 0)
        kin__text_printf(text, "%p", (void *)pc);
    if (found < 2 && kin__source_is_program(pc, &by) && by)
        kin__text_printf(text, " (+0x%zx)", (size_t)(pc - by));
}

void kin__code_place(struct kin__text *text, uintptr_t pc)
{
    put_code(text, pc, false);
}

void kin__code_entry(struct kin__text *text, uintptr_t fn)
{
    put_code(text, fn, true);
}

void kin__code_name(struct kin__text *text, uintptr_t pc)
{
    Dl_info info;
    bool has_object = dladdr && dladdr((void *)(pc - 1), &info) && info.dli_fname;
    int found = put_place(text, pc, false);
    bool is_named = found > 0;
    if (found == 2)
        return;
    if (!is_named)
        kin__text_printf(text, "%p", (void *)pc);
    if (!is_named && has_object && info.dli_sname) /* data, too */
        kin__text_printf(text, " %s+0x%zx", info.dli_sname,
                         (size_t)(pc - (uintptr_t)info.dli_saddr));
    if (has_object)
        kin__text_printf(text, " (%s+0x%zx)", info.dli_fname,
                         (size_t)(pc - (uintptr_t)info.dli_fbase));
}
