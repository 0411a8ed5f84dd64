/* SPDX-License-Identifier: MIT */
/*
 * The functions that code compiled with -fsanitize=thread calls: every one that gcc 12 and clang 14
 * emit.
 *
 * Atomics of 1 to 8 bytes go to order.c. Those of 16 bytes, which only gcc hands over, are made to
 * memory at once under every kind of memory; what they order is what they say. Plain accesses go to
 * races.c, and so do copies by memcpy and its kin when the program is linked with --wrap for them:
 * also in the forms that -D_FORTIFY_SOURCE makes of them, which check the size of the target.
 */
#include "lab/atoms/hooks.h"

#include <string.h>

#define PC ((uintptr_t)__builtin_return_address(0))
#define ORDER(order) ((order) & 7) /* the compiler's own flags are above */

/* Inside of the world itself nothing is watched: the wrapped memcpy is called from there too. The
 * cell of kin_atoms_local is each thread's own, whoever wrote there before. */
static inline void plain(const volatile void *memory, size_t size, unsigned kind, uintptr_t pc)
{
    struct kin__atoms *a = &kin__atoms;
    uintptr_t address = (uintptr_t)memory;
    if (a->is_peeking || a->is_inside || memory == (void *)a->local)
        return;
    kin__block_look(address, size, pc);
    if (a->phase == KIN__ATOMS_IDLE)
        return;
    a->is_inside = true;
    if (KIN__UNLIKELY(a->config.plain_points)) {
        if (!a->is_folded)
            kin__atoms_point();
        kin__engine_touch(a->engine, address & ~(uintptr_t)7,
                          kind & KIN__ACCESS_WRITE ? KIN__TOUCH_WRITE : KIN__TOUCH_READ);
        if (a->is_traced)
            kin__trail_note(kind & KIN__ACCESS_WRITE ? "writes" : "reads", address, 0, 0, -1, pc);
    }
    kin__races_access(address, size, kind, pc);
    if (KIN__UNLIKELY(a->current->head != a->current->tail)) /* its own, in a buffer */
        kin__order_drain(a->current, address, size);
    if (KIN__UNLIKELY(a->config.memory == KIN_ATOMS_C11) && (kind & KIN__ACCESS_WRITE))
        kin__order_forget(address, size);
    a->is_inside = false;
}

/* ---- plain accesses ---- */

#define PLAIN(bytes)                                                                               \
    void __tsan_read##bytes(void *memory)                                                          \
    {                                                                                              \
        plain(memory, bytes, 0, PC);                                                               \
    }                                                                                              \
    void __tsan_write##bytes(void *memory)                                                         \
    {                                                                                              \
        plain(memory, bytes, KIN__ACCESS_WRITE, PC);                                               \
    }                                                                                              \
    void __tsan_read_write##bytes(void *memory)                                                    \
    {                                                                                              \
        plain(memory, bytes, KIN__ACCESS_WRITE, PC);                                               \
    }                                                                                              \
    void __tsan_volatile_read##bytes(void *memory)                                                 \
    {                                                                                              \
        plain(memory, bytes, 0, PC);                                                               \
    }                                                                                              \
    void __tsan_volatile_write##bytes(void *memory)                                                \
    {                                                                                              \
        plain(memory, bytes, KIN__ACCESS_WRITE, PC);                                               \
    }                                                                                              \
    void __tsan_unaligned_read##bytes(void *memory)                                                \
    {                                                                                              \
        plain(memory, bytes, 0, PC);                                                               \
    }                                                                                              \
    void __tsan_unaligned_write##bytes(void *memory)                                               \
    {                                                                                              \
        plain(memory, bytes, KIN__ACCESS_WRITE, PC);                                               \
    }                                                                                              \
    void __tsan_unaligned_read_write##bytes(void *memory)                                          \
    {                                                                                              \
        plain(memory, bytes, KIN__ACCESS_WRITE, PC);                                               \
    }                                                                                              \
    void __tsan_unaligned_volatile_read##bytes(void *memory)                                       \
    {                                                                                              \
        plain(memory, bytes, 0, PC);                                                               \
    }                                                                                              \
    void __tsan_unaligned_volatile_write##bytes(void *memory)                                      \
    {                                                                                              \
        plain(memory, bytes, KIN__ACCESS_WRITE, PC);                                               \
    }

PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

void __tsan_read_range(void *memory, size_t size)
{
    plain(memory, size, 0, PC);
}

void __tsan_write_range(void *memory, size_t size)
{
    plain(memory, size, KIN__ACCESS_WRITE, PC);
}

void __tsan_vptr_read(void **vptr)
{
    plain(vptr, sizeof(*vptr), 0, PC);
}

void __tsan_vptr_update(void **vptr, void *value)
{
    (void)value;
    plain(vptr, sizeof(*vptr), KIN__ACCESS_WRITE, PC);
}

/* ---- copies ---- */

void *__real_memcpy(void *to, const void *from, size_t size) __attribute__((weak));
void *__real_memmove(void *to, const void *from, size_t size) __attribute__((weak));
void *__real_memset(void *to, int value, size_t size) __attribute__((weak));

static void copies(void *to, const void *from, size_t size, uintptr_t pc)
{
    if (size == 0)
        return;
    plain(from, size, 0, pc);
    plain(to, size, KIN__ACCESS_WRITE, pc);
}

void *__tsan_memcpy(void *to, const void *from, size_t size)
{
    copies(to, from, size, PC);
    return memmove(to, from, size);
}

void *__tsan_memmove(void *to, const void *from, size_t size)
{
    copies(to, from, size, PC);
    return memmove(to, from, size);
}

void *__tsan_memset(void *to, int value, size_t size)
{
    if (size)
        plain(to, size, KIN__ACCESS_WRITE, PC);
    return memset(to, value, size);
}

void *__wrap_memcpy(void *to, const void *from, size_t size)
{
    copies(to, from, size, PC);
    return __real_memcpy(to, from, size);
}

void *__wrap_memmove(void *to, const void *from, size_t size)
{
    copies(to, from, size, PC);
    return __real_memmove(to, from, size);
}

void *__wrap_memset(void *to, int value, size_t size)
{
    if (size)
        plain(to, size, KIN__ACCESS_WRITE, PC);
    return __real_memset(to, value, size);
}

void *__real___memcpy_chk(void *to, const void *from, size_t size, size_t room)
    __attribute__((weak));
void *__real___memmove_chk(void *to, const void *from, size_t size, size_t room)
    __attribute__((weak));
void *__real___memset_chk(void *to, int value, size_t size, size_t room) __attribute__((weak));

/* Whether the copy fits is asked first: one that does not ends in the library. */
void *__wrap___memcpy_chk(void *to, const void *from, size_t size, size_t room)
{
    if (size <= room)
        copies(to, from, size, PC);
    return __real___memcpy_chk(to, from, size, room);
}

void *__wrap___memmove_chk(void *to, const void *from, size_t size, size_t room)
{
    if (size <= room)
        copies(to, from, size, PC);
    return __real___memmove_chk(to, from, size, room);
}

void *__wrap___memset_chk(void *to, int value, size_t size, size_t room)
{
    if (size && size <= room)
        plain(to, size, KIN__ACCESS_WRITE, PC);
    return __real___memset_chk(to, value, size, room);
}

/* ---- atomics ---- */

/* What happens between the two is the world's: copies that it makes itself are nobody's. */
static inline bool enter(uintptr_t pc)
{
    bool was_inside = kin__atoms.is_inside;
    kin__atoms.is_inside = true;
    if (KIN__LIKELY(kin__atoms.current != NULL)) /* outside of any run memory is memory */
        kin__atoms.current->pc = pc;
    return was_inside;
}

/* The same for an access to memory. */
static inline bool enter_at(uintptr_t address, size_t size, uintptr_t pc)
{
    if (!kin__atoms.is_peeking)
        kin__block_look(address, size, pc);
    return enter(pc);
}

static inline void leave(bool was_inside)
{
    kin__atoms.is_inside = was_inside;
}

static inline uint64_t load(uintptr_t address, uint32_t size, int order, uintptr_t pc)
{
    bool was_inside = enter_at(address, size, pc);
    uint64_t value = kin__atoms_load(address, size, ORDER(order), pc);
    leave(was_inside);
    return value;
}

static inline void store(uintptr_t address, uint32_t size, uint64_t value, int order, uintptr_t pc)
{
    bool was_inside = enter_at(address, size, pc);
    kin__atoms_store(address, size, value, ORDER(order), pc);
    leave(was_inside);
}

static inline uint64_t update(uintptr_t address, uint32_t size, enum kin__update kind,
                              uint64_t value, int order, uintptr_t pc)
{
    bool was_inside = enter_at(address, size, pc);
    uint64_t old = kin__atoms_update(address, size, kind, value, ORDER(order), pc);
    leave(was_inside);
    return old;
}

static inline uint64_t cas(uintptr_t address, uint32_t size, uint64_t expected, uint64_t desired,
                           int orders, uintptr_t pc)
{
    bool was_inside = enter_at(address, size, pc);
    uint64_t old = kin__atoms_cas(address, size, expected, desired, orders & 7, orders >> 3, pc);
    leave(was_inside);
    return old;
}

#define UPDATE(bits, name, kind)                                                                   \
    uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *atomic,                   \
                                                uint##bits##_t value, int order)                   \
    {                                                                                              \
        return (uint##bits##_t)update((uintptr_t)atomic, bits / 8, kind, value, order, PC);        \
    }

#define CAS(bits, name)                                                                            \
    int __tsan_atomic##bits##_compare_exchange_##name(                                             \
        volatile uint##bits##_t *atomic, uint##bits##_t *expected, uint##bits##_t desired,         \
        int order, int order_failed)                                                               \
    {                                                                                              \
        uint64_t old = cas((uintptr_t)atomic, bits / 8, *expected, desired,                        \
                           ORDER(order) | ORDER(order_failed) << 3, PC);                           \
        bool is_done = old == *expected;                                                           \
        if (!is_done)                                                                              \
            *expected = (uint##bits##_t)old;                                                       \
        return is_done;                                                                            \
    }

#define ATOMIC(bits)                                                                               \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *atomic, int order)    \
    {                                                                                              \
        return (uint##bits##_t)load((uintptr_t)atomic, bits / 8, order, PC);                       \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *atomic, uint##bits##_t value,        \
                                     int order)                                                    \
    {                                                                                              \
        store((uintptr_t)atomic, bits / 8, value, order, PC);                                      \
    }                                                                                              \
    UPDATE(bits, exchange, KIN__UPDATE_SET)                                                        \
    UPDATE(bits, fetch_add, KIN__UPDATE_ADD)                                                       \
    UPDATE(bits, fetch_sub, KIN__UPDATE_SUB)                                                       \
    UPDATE(bits, fetch_and, KIN__UPDATE_AND)                                                       \
    UPDATE(bits, fetch_or, KIN__UPDATE_OR)                                                         \
    UPDATE(bits, fetch_xor, KIN__UPDATE_XOR)                                                       \
    UPDATE(bits, fetch_nand, KIN__UPDATE_NAND)                                                     \
    CAS(bits, strong)                                                                              \
    CAS(bits, weak)                                                                                \
    uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                     \
        volatile uint##bits##_t *atomic, uint##bits##_t expected, uint##bits##_t desired,          \
        int order, int order_failed)                                                               \
    {                                                                                              \
        return (uint##bits##_t)cas((uintptr_t)atomic, bits / 8, expected, desired,                 \
                                   ORDER(order) | ORDER(order_failed) << 3, PC);                   \
    }

ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

void __tsan_atomic_thread_fence(int order)
{
    bool was_inside = enter(PC);
    kin__atoms_fence(ORDER(order), PC);
    leave(was_inside);
}

/* Orders nothing but the compiler. */
void __tsan_atomic_signal_fence(int order)
{
    (void)order;
}

/* ---- atomics of 16 bytes ---- */

#ifdef __SIZEOF_INT128__

/* expected NULL: whatever is there is replaced. orders: as cas above has them. */
static kin__wide update_wide(volatile kin__wide *atomic, enum kin__update kind, kin__wide value,
                             const kin__wide *expected, int orders, uintptr_t pc)
{
    bool was_inside = enter_at((uintptr_t)atomic, 16, pc);
    kin__atoms_wide_begin();
    kin__wide old = *atomic;
    bool writes = !expected || old == *expected;
    if (writes)
        *atomic = kin__updated(kind, old, value);
    kin__atoms_wide_end((uintptr_t)atomic, true, writes, writes ? orders & 7 : orders >> 3, pc);
    leave(was_inside);
    return old;
}

kin__wide __tsan_atomic128_load(const volatile kin__wide *atomic, int order)
{
    bool was_inside = enter_at((uintptr_t)atomic, 16, PC);
    kin__atoms_wide_begin();
    kin__wide value = *atomic;
    kin__atoms_wide_end((uintptr_t)atomic, true, false, ORDER(order), PC);
    leave(was_inside);
    return value;
}

void __tsan_atomic128_store(volatile kin__wide *atomic, kin__wide value, int order)
{
    bool was_inside = enter_at((uintptr_t)atomic, 16, PC);
    kin__atoms_wide_begin();
    *atomic = value;
    kin__atoms_wide_end((uintptr_t)atomic, false, true, ORDER(order), PC);
    leave(was_inside);
}

#define UPDATE_WIDE(name, kind)                                                                    \
    kin__wide __tsan_atomic128_##name(volatile kin__wide *atomic, kin__wide value, int order)      \
    {                                                                                              \
        return update_wide(atomic, kind, value, NULL, ORDER(order), PC);                           \
    }

UPDATE_WIDE(exchange, KIN__UPDATE_SET)
UPDATE_WIDE(fetch_add, KIN__UPDATE_ADD)
UPDATE_WIDE(fetch_sub, KIN__UPDATE_SUB)
UPDATE_WIDE(fetch_and, KIN__UPDATE_AND)
UPDATE_WIDE(fetch_or, KIN__UPDATE_OR)
UPDATE_WIDE(fetch_xor, KIN__UPDATE_XOR)
UPDATE_WIDE(fetch_nand, KIN__UPDATE_NAND)

kin__wide __tsan_atomic128_compare_exchange_val(volatile kin__wide *atomic, kin__wide expected,
                                                kin__wide desired, int order, int order_failed)
{
    return update_wide(atomic, KIN__UPDATE_SET, desired, &expected,
                       ORDER(order) | ORDER(order_failed) << 3, PC);
}

#define CAS_WIDE(name)                                                                             \
    int __tsan_atomic128_compare_exchange_##name(volatile kin__wide *atomic, kin__wide *expected,  \
                                                 kin__wide desired, int order, int order_failed)   \
    {                                                                                              \
        kin__wide wanted = *expected;                                                              \
        *expected = update_wide(atomic, KIN__UPDATE_SET, desired, &wanted,                         \
                                ORDER(order) | ORDER(order_failed) << 3, PC);                      \
        return *expected == wanted;                                                                \
    }

CAS_WIDE(strong)
CAS_WIDE(weak)

#endif

/* ---- what is said and not needed ---- */

void __tsan_init(void)
{
}

void __tsan_func_entry(void *pc)
{
    (void)pc;
}

void __tsan_func_exit(void)
{
}

void __tsan_ignore_thread_begin(void)
{
}

void __tsan_ignore_thread_end(void)
{
}
