/* SPDX-License-Identifier: MIT */
/*
 * Powers of two, alignment, set bits, and the one addition that must not wrap.
 */
#ifndef KIN_BASE_BITS_H
#define KIN_BASE_BITS_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0 is not a power of two. */
static inline bool kin__is_pow2(uint64_t x)
{
    return x != 0 && (x & (x - 1)) == 0;
}

/* Position of the lowest set bit; x must not be 0. */
static inline unsigned kin__first_bit32(uint32_t x)
{
    KIN__ASSERT(x != 0, "house");
    return (unsigned)__builtin_ctz(x);
}

/* Position of the lowest set bit; x must not be 0. */
static inline unsigned kin__first_bit64(uint64_t x)
{
    KIN__ASSERT(x != 0, "house");
    return (unsigned)__builtin_ctzll(x);
}

/* Position of the highest set bit, which is the logarithm rounded down; x must not be 0. */
static inline unsigned kin__log2_floor(uint64_t x)
{
    KIN__ASSERT(x != 0, "house");
    return 63u - (unsigned)__builtin_clzll(x);
}

/* The smallest power of two that is not less than x, 1 for 0; x must be at most 2^63. */
static inline uint64_t kin__round_up_pow2(uint64_t x)
{
    KIN__ASSERT(x <= UINT64_C(1) << 63, "house");
    return x <= 1 ? 1 : UINT64_C(1) << (kin__log2_floor(x - 1) + 1);
}

/* The smallest multiple of align (a power of two) that is not less than x. Wraps to 0 when there is
 * none: a caller with a size from outside checks that the result is not less than x. */
static inline size_t kin__align_up(size_t x, size_t align)
{
    KIN__ASSERT(kin__is_pow2(align), "house");
    return (x + (align - 1)) & ~(align - 1);
}

/* The largest multiple of align (a power of two) that is not more than x. */
static inline size_t kin__align_down(size_t x, size_t align)
{
    KIN__ASSERT(kin__is_pow2(align), "house");
    return x & ~(align - 1);
}

/* a + b, held at INT64_MAX or INT64_MIN where it would pass them. */
static inline int64_t kin__add_sat(int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return b > 0 ? INT64_MAX : INT64_MIN;
}

#endif
