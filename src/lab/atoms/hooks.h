/* SPDX-License-Identifier: MIT */
/*
 * The names that code compiled with -fsanitize=thread calls, for tests that call them themselves.
 */
#ifndef KIN_LAB_ATOMS_HOOKS_H
#define KIN_LAB_ATOMS_HOOKS_H

#include "lab/atoms/atoms.h"

#define KIN__HOOKS_PLAIN(bytes)                                                                    \
    KIN_API void __tsan_read##bytes(void *memory);                                                 \
    KIN_API void __tsan_write##bytes(void *memory);                                                \
    KIN_API void __tsan_read_write##bytes(void *memory);                                           \
    KIN_API void __tsan_volatile_read##bytes(void *memory);                                        \
    KIN_API void __tsan_volatile_write##bytes(void *memory);                                       \
    KIN_API void __tsan_unaligned_read##bytes(void *memory);                                       \
    KIN_API void __tsan_unaligned_write##bytes(void *memory);                                      \
    KIN_API void __tsan_unaligned_read_write##bytes(void *memory);                                 \
    KIN_API void __tsan_unaligned_volatile_read##bytes(void *memory);                              \
    KIN_API void __tsan_unaligned_volatile_write##bytes(void *memory);
KIN__HOOKS_PLAIN(1)
KIN__HOOKS_PLAIN(2)
KIN__HOOKS_PLAIN(4)
KIN__HOOKS_PLAIN(8)
KIN__HOOKS_PLAIN(16)

KIN_API void __tsan_read_range(void *memory, size_t size);
KIN_API void __tsan_write_range(void *memory, size_t size);
KIN_API void __tsan_vptr_read(void **vptr);
KIN_API void __tsan_vptr_update(void **vptr, void *value);
KIN_API void *__tsan_memcpy(void *to, const void *from, size_t size);
KIN_API void *__tsan_memmove(void *to, const void *from, size_t size);
KIN_API void *__tsan_memset(void *to, int value, size_t size);
KIN_API void *__wrap_memcpy(void *to, const void *from, size_t size);
KIN_API void *__wrap_memmove(void *to, const void *from, size_t size);
KIN_API void *__wrap_memset(void *to, int value, size_t size);
KIN_API void *__wrap___memcpy_chk(void *to, const void *from, size_t size, size_t room);
KIN_API void *__wrap___memmove_chk(void *to, const void *from, size_t size, size_t room);
KIN_API void *__wrap___memset_chk(void *to, int value, size_t size, size_t room);

KIN_API void __tsan_atomic_thread_fence(int order);
KIN_API void __tsan_atomic_signal_fence(int order);
KIN_API void __tsan_init(void);
KIN_API void __tsan_func_entry(void *pc);
KIN_API void __tsan_func_exit(void);
KIN_API void __tsan_ignore_thread_begin(void);
KIN_API void __tsan_ignore_thread_end(void);

#define KIN__HOOKS_ATOMIC(bits, type)                                                              \
    KIN_API type __tsan_atomic##bits##_load(const volatile type *atomic, int order);               \
    KIN_API void __tsan_atomic##bits##_store(volatile type *atomic, type value, int order);        \
    KIN_API type __tsan_atomic##bits##_exchange(volatile type *atomic, type value,                 \
                                            int order);                                            \
    KIN_API type __tsan_atomic##bits##_fetch_add(volatile type *atomic, type value,                \
                                            int order);                                            \
    KIN_API type __tsan_atomic##bits##_fetch_sub(volatile type *atomic, type value,                \
                                            int order);                                            \
    KIN_API type __tsan_atomic##bits##_fetch_and(volatile type *atomic, type value,                \
                                            int order);                                            \
    KIN_API type __tsan_atomic##bits##_fetch_or(volatile type *atomic, type value,                 \
                                            int order);                                            \
    KIN_API type __tsan_atomic##bits##_fetch_xor(volatile type *atomic, type value,                \
                                            int order);                                            \
    KIN_API type __tsan_atomic##bits##_fetch_nand(volatile type *atomic, type value,               \
                                            int order);                                            \
    KIN_API int __tsan_atomic##bits##_compare_exchange_strong(                                     \
        volatile type *atomic, type *expected, type desired, int order, int order_failed);         \
    KIN_API int __tsan_atomic##bits##_compare_exchange_weak(                                       \
        volatile type *atomic, type *expected, type desired, int order, int order_failed);         \
    KIN_API type __tsan_atomic##bits##_compare_exchange_val(                                       \
        volatile type *atomic, type expected, type desired, int order, int order_failed);
KIN__HOOKS_ATOMIC(8, uint8_t)
KIN__HOOKS_ATOMIC(16, uint16_t)
KIN__HOOKS_ATOMIC(32, uint32_t)
KIN__HOOKS_ATOMIC(64, uint64_t)
#ifdef __SIZEOF_INT128__
KIN__HOOKS_ATOMIC(128, kin__wide)
#endif

#endif
