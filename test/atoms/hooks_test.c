/* SPDX-License-Identifier: MIT */
/*
 * The names that compilers call: all of them are there, and do to memory what they stand for.
 */
#include "kin_test.h"

#include "words.h"

#include <string.h>

KIN_TEST(atomics_of_every_size_work_outside_of_a_run, "")
{
    uint8_t a = 1;
    uint16_t b = 2;
    uint32_t c = 3;
    uint64_t d = 4;
    __tsan_atomic8_store(&a, 11, SEQ);
    __tsan_atomic16_store(&b, 12, SEQ);
    __tsan_atomic32_store(&c, 13, SEQ);
    __tsan_atomic64_store(&d, 14, SEQ);
    EXPECT_EQ(__tsan_atomic8_load(&a, SEQ), 11);
    EXPECT_EQ(__tsan_atomic16_load(&b, SEQ), 12);
    EXPECT_EQ(__tsan_atomic32_load(&c, SEQ), 13);
    EXPECT_EQ(__tsan_atomic64_load(&d, SEQ), 14);
    EXPECT_EQ(__tsan_atomic8_exchange(&a, 21, SEQ), 11);
    EXPECT_EQ(__tsan_atomic16_exchange(&b, 22, SEQ), 12);
    EXPECT_EQ(__tsan_atomic8_compare_exchange_val(&a, 21, 31, SEQ, SEQ), 21);
    EXPECT_EQ(a, 31);
    EXPECT_EQ(__tsan_atomic16_compare_exchange_val(&b, 0, 32, SEQ, SEQ), 22);
    EXPECT_EQ(b, 22);
}

#ifdef __SIZEOF_INT128__
KIN_TEST(atomics_of_sixteen_bytes_work_outside_of_a_run, "")
{
    kin__wide value = 5, expected = 5;
    EXPECT(__tsan_atomic128_fetch_or(&value, (kin__wide)1 << 100, SEQ) == 5);
    EXPECT(__tsan_atomic128_load(&value, SEQ) == ((kin__wide)1 << 100 | 5));
    EXPECT(!__tsan_atomic128_compare_exchange_weak(&value, &expected, 6, SEQ, SEQ));
    EXPECT(expected == value);
    EXPECT(__tsan_atomic128_compare_exchange_val(&value, expected, 7, SEQ, SEQ) == expected);
    EXPECT(__tsan_atomic128_exchange(&value, 8, SEQ) == 7);
    EXPECT(__tsan_atomic128_fetch_sub(&value, 9, SEQ) == 8);
    EXPECT(__tsan_atomic128_fetch_and(&value, 0xff, SEQ) == (kin__wide)-1);
    EXPECT(__tsan_atomic128_fetch_xor(&value, 0xf, SEQ) == 0xff);
    EXPECT(__tsan_atomic128_fetch_nand(&value, 0xf0, SEQ) == 0xf0);
    __tsan_atomic128_store(&value, 1, SEQ);
    EXPECT(__tsan_atomic128_fetch_add(&value, 1, SEQ) == 1);
}
#endif

KIN_TEST(copies_copy, "")
{
    char from[16] = "abcdefgh", to[16] = {0};
    EXPECT_PTR(__tsan_memcpy(to, from, 9), to);
    EXPECT_STR(to, "abcdefgh");
    EXPECT_PTR(__tsan_memmove(to + 1, to, 9), to + 1);
    EXPECT_STR(to, "aabcdefgh");
    EXPECT_PTR(__tsan_memset(to, 'z', 3), to);
    EXPECT_STR(to, "zzzcdefgh");
    EXPECT_PTR(__tsan_memcpy(to, from, 0), to);
}

KIN_TEST(plain_accesses_outside_of_a_run_are_nothing, "")
{
    char memory[32];
    void *vptr = NULL;
    __tsan_init();
    __tsan_func_entry(memory);
    __tsan_read1(memory), __tsan_read2(memory), __tsan_read4(memory), __tsan_read8(memory);
    __tsan_write1(memory), __tsan_write2(memory), __tsan_write4(memory), __tsan_write8(memory);
    __tsan_read16(memory), __tsan_write16(memory), __tsan_read_write8(memory);
    __tsan_unaligned_read2(memory + 1), __tsan_unaligned_write16(memory + 1);
    __tsan_unaligned_read_write4(memory + 1), __tsan_volatile_read4(memory);
    __tsan_volatile_write8(memory), __tsan_unaligned_volatile_read8(memory + 1);
    __tsan_unaligned_volatile_write2(memory + 1);
    __tsan_read_range(memory, 32), __tsan_write_range(memory, 32);
    __tsan_vptr_read(&vptr), __tsan_vptr_update(&vptr, memory);
    __tsan_ignore_thread_begin(), __tsan_ignore_thread_end();
    __tsan_atomic_thread_fence(SEQ), __tsan_atomic_signal_fence(SEQ);
    __tsan_func_exit();
}

/* Every kind of plain access is watched inside of a run. */
static char memory[64] __attribute__((aligned(64)));
static void (*watched)(void);

static void access_it(void *arg)
{
    (void)arg;
    watched();
}

static void write_all(void *arg)
{
    (void)arg;
    __tsan_write_range(memory, sizeof(memory));
}

static void begin(void *arg)
{
    (void)arg;
    kin_atoms_spawn("one", access_it, NULL);
    kin_atoms_spawn("other", write_all, NULL);
}

#define WATCHED(name, call)                                                                        \
    static void name(void)                                                                         \
    {                                                                                              \
        call;                                                                                      \
    }

WATCHED(read16, __tsan_read16(memory))
WATCHED(write2, __tsan_write2(memory + 6))
WATCHED(read_write1, __tsan_read_write1(memory + 63))
WATCHED(unaligned_volatile, __tsan_unaligned_volatile_write8(memory + 3))
WATCHED(unaligned_both, __tsan_unaligned_read_write16(memory + 5))
WATCHED(volatile_read, __tsan_volatile_read4(memory))
WATCHED(range, __tsan_read_range(memory + 60, 100))
WATCHED(vptr_read, __tsan_vptr_read((void **)(void *)memory))
WATCHED(vptr_update, __tsan_vptr_update((void **)(void *)memory, NULL))
WATCHED(copy_from, char to[8]; (void)__tsan_memcpy(to, memory, 8))
WATCHED(move_to, (void)__tsan_memmove(memory, "abc", 3))
WATCHED(set, (void)__tsan_memset(memory + 8, 0, 4))

KIN_TEST(every_kind_of_plain_access_is_watched, "")
{
    static void (*const kinds[])(void) = {read16,   write2,        read_write1, unaligned_volatile,
                                          range,    volatile_read, vptr_read,   unaligned_both,
                                          move_to,  vptr_update,   copy_from,   set};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct kin_atoms_report report;
        watched = kinds[i];
        EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin, NULL, &report), KIN_PANICKED);
        EXPECT_STR(report.oracle, "data-race");
    }
}

/* The compilers' own flags, above the order itself, change nothing. */
static uint32_t word;
static int plain;

static void publish(void *arg)
{
    (void)arg;
    put(&plain, 1);
    __tsan_atomic32_store(&word, 1, RELEASE | 0x8000);
}

static void subscribe(void *arg)
{
    (void)arg;
    if (__tsan_atomic32_load(&word, ACQUIRE | 0x10000))
        kin_atoms_assert(get(&plain) == 1, "it is ordered");
}

static void begin_flags(void *arg)
{
    (void)arg;
    word = 0;
    plain = 0;
    kin_atoms_spawn("one", publish, NULL);
    kin_atoms_spawn("other", subscribe, NULL);
}

KIN_TEST(flags_of_the_compiler_beside_the_order_are_ignored, "")
{
    struct kin_atoms_report report;
    EXPECT_EQ(explore(KIN_ATOMS_DPOR, KIN_ATOMS_SC, begin_flags, NULL, &report), 0);
    EXPECT(report.exhausted);
}
