/* SPDX-License-Identifier: MIT */
/*
 * The only door to stdatomic: every order is in a name, every access can become a scheduling point.
 *
 * Two reasons for a door. A reader sees the order at the call and the comment beside it names the
 * partner access; and the lab learns of each access what it touches, so that the shipped code is
 * what gets explored. Compare-exchanges are strong and reload *expected on failure with relaxed
 * order: each loop that uses one re-reads through it.
 */
#ifndef KIN_BASE_ATOMIC_H
#define KIN_BASE_ATOMIC_H

#include "base/lab.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef _Atomic uint16_t kin__a16;
typedef _Atomic uint32_t kin__a32;
typedef _Atomic uint64_t kin__a64;
typedef _Atomic int64_t kin__ai64;
typedef _Atomic int32_t kin__ai32;
typedef _Atomic size_t kin__asize;

/* What the lab hears of an access; p is evaluated once more there. */
#define KIN__READS(p) KIN__LAB_TOUCH((p), KIN__LAB_READ)
#define KIN__WRITES(p) KIN__LAB_TOUCH((p), KIN__LAB_WRITE)

#define kin__load_relaxed(p) (KIN__READS(p), atomic_load_explicit((p), memory_order_relaxed))
#define kin__load_acquire(p) (KIN__READS(p), atomic_load_explicit((p), memory_order_acquire))
#define kin__load_seq(p) (KIN__READS(p), atomic_load_explicit((p), memory_order_seq_cst))

#define kin__store_relaxed(p, v)                                                                   \
    (KIN__WRITES(p), atomic_store_explicit((p), (v), memory_order_relaxed))
#define kin__store_release(p, v)                                                                   \
    (KIN__WRITES(p), atomic_store_explicit((p), (v), memory_order_release))
#define kin__store_seq(p, v) (KIN__WRITES(p), atomic_store_explicit((p), (v), memory_order_seq_cst))

#define kin__xchg_relaxed(p, v)                                                                    \
    (KIN__WRITES(p), atomic_exchange_explicit((p), (v), memory_order_relaxed))
#define kin__xchg_acquire(p, v)                                                                    \
    (KIN__WRITES(p), atomic_exchange_explicit((p), (v), memory_order_acquire))
#define kin__xchg_release(p, v)                                                                    \
    (KIN__WRITES(p), atomic_exchange_explicit((p), (v), memory_order_release))
#define kin__xchg_acq_rel(p, v)                                                                    \
    (KIN__WRITES(p), atomic_exchange_explicit((p), (v), memory_order_acq_rel))
#define kin__xchg_seq(p, v)                                                                        \
    (KIN__WRITES(p), atomic_exchange_explicit((p), (v), memory_order_seq_cst))

/* One that fails has only read. */
#if defined(KIN__LAB) && !defined(KIN__LAB_QUIET)
#define KIN__DECIDES(p, is_done) kin__lab_touch_decided((p), (is_done))
#else
#define KIN__DECIDES(p, is_done) (is_done)
#endif
#define KIN__CAS(p, expected, desired, order)                                                      \
    KIN__DECIDES(p, atomic_compare_exchange_strong_explicit((p), (expected), (desired), (order),   \
                                                            memory_order_relaxed))
#define kin__cas_relaxed(p, e, d) KIN__CAS(p, e, d, memory_order_relaxed)
#define kin__cas_acquire(p, e, d) KIN__CAS(p, e, d, memory_order_acquire)
#define kin__cas_release(p, e, d) KIN__CAS(p, e, d, memory_order_release)
#define kin__cas_acq_rel(p, e, d) KIN__CAS(p, e, d, memory_order_acq_rel)
#define kin__cas_seq(p, e, d) KIN__CAS(p, e, d, memory_order_seq_cst)

#define kin__add_relaxed(p, v)                                                                     \
    (KIN__WRITES(p), atomic_fetch_add_explicit((p), (v), memory_order_relaxed))
#define kin__add_release(p, v)                                                                     \
    (KIN__WRITES(p), atomic_fetch_add_explicit((p), (v), memory_order_release))
#define kin__add_acq_rel(p, v)                                                                     \
    (KIN__WRITES(p), atomic_fetch_add_explicit((p), (v), memory_order_acq_rel))
#define kin__add_seq(p, v)                                                                         \
    (KIN__WRITES(p), atomic_fetch_add_explicit((p), (v), memory_order_seq_cst))
#define kin__sub_relaxed(p, v)                                                                     \
    (KIN__WRITES(p), atomic_fetch_sub_explicit((p), (v), memory_order_relaxed))
#define kin__sub_release(p, v)                                                                     \
    (KIN__WRITES(p), atomic_fetch_sub_explicit((p), (v), memory_order_release))
#define kin__sub_acq_rel(p, v)                                                                     \
    (KIN__WRITES(p), atomic_fetch_sub_explicit((p), (v), memory_order_acq_rel))
#define kin__or_relaxed(p, v)                                                                      \
    (KIN__WRITES(p), atomic_fetch_or_explicit((p), (v), memory_order_relaxed))
#define kin__or_acquire(p, v)                                                                      \
    (KIN__WRITES(p), atomic_fetch_or_explicit((p), (v), memory_order_acquire))
#define kin__or_acq_rel(p, v)                                                                      \
    (KIN__WRITES(p), atomic_fetch_or_explicit((p), (v), memory_order_acq_rel))
#define kin__and_relaxed(p, v)                                                                     \
    (KIN__WRITES(p), atomic_fetch_and_explicit((p), (v), memory_order_relaxed))

/* The same for words that are not the program's state, such as who runs on a worker: no step of the
 * lab depends on them. */
#define kin__load_quiet(p) atomic_load_explicit((p), memory_order_relaxed)
#define kin__store_quiet(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define kin__store_release_quiet(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define kin__xchg_acquire_quiet(p, v) atomic_exchange_explicit((p), (v), memory_order_acquire)
#define kin__load_acquire_quiet(p) atomic_load_explicit((p), memory_order_acquire)
#define kin__add_quiet(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define kin__sub_acq_rel_quiet(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_acq_rel)

/*
 * A full fence: no later load may overtake an earlier store. Written by hand on x86-64, because
 * clang emits mfence for the C11 fence, which costs twice as much as a locked instruction.
 */
static inline void kin__fence_seq(void)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
    /* not at the top: a store there is still on its way, and the instruction would wait for it */
    __asm__ volatile("lock; orl $0, -64(%%rsp)" ::: "memory", "cc");
#elif defined(__has_feature)
#if !__has_feature(thread_sanitizer)
    atomic_thread_fence(memory_order_seq_cst);
#else
    /* The sanitizer models no fences; the hardware still gets one. */
    static _Atomic int kin__fence_word;
    (void)atomic_fetch_add_explicit(&kin__fence_word, 0, memory_order_seq_cst);
#endif
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* A full fence right behind a read-modify-write of this thread: on x86-64 that was one already.
 * Only behind one whose result is used: a compiler may make a store of another. */
static inline void kin__fence_after_rmw(void)
{
#if defined(__x86_64__)
    __asm__ volatile("" ::: "memory");
#else
    kin__fence_seq();
#endif
}

/* Orders nothing but the compiler: the cheap half of a pair whose other half is
 * kin__membarrier. */
static inline void kin__fence_light(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/* Tells the CPU that this is a spin loop. */
static inline void kin__cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("pause" ::: "memory");
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

#endif
