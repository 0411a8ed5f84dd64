/* SPDX-License-Identifier: MIT */
/*
 * Random numbers that a seed repeats: xoshiro256** with one stream per user.
 *
 * Every random decision of a runtime comes from its seed. Each worker draws from a stream of its
 * own, so that what one worker draws does not depend on how much another drew. Seed and stream are
 * mixed into a start from which a counter through the mixer fills the state: neighbouring seeds and
 * streams have nothing in common, and since the mixer is a bijection at most one of the four words
 * is 0, so that the state is never the one from which the generator cannot leave. Not for secrets.
 */
#ifndef KIN_BASE_RNG_H
#define KIN_BASE_RNG_H

#include "base/assert.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stdint.h>

#define KIN__RNG_STEP UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / golden ratio, odd */

struct kin__rng {
    uint64_t s[4];
};

/* Starts a stream of a seed; equal arguments give equal numbers. */
static inline void kin__rng_init(struct kin__rng *rng, uint64_t seed, uint64_t stream)
{
    uint64_t at = kin__hash_u64(seed + KIN__RNG_STEP);
    at = kin__hash_u64((at ^ stream) + KIN__RNG_STEP);
    for (int i = 0; i < 4; i++) {
        at += KIN__RNG_STEP;
        rng->s[i] = kin__hash_u64(at);
    }
}

/* 64 random bits. */
static inline uint64_t kin__rng_next(struct kin__rng *rng)
{
    uint64_t *s = rng->s;
    KIN__ASSERT((s[0] | s[1] | s[2] | s[3]) != 0, "house");
    uint64_t result = kin__hash_rotate(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = kin__hash_rotate(s[3], 45);
    return result;
}

/* A number in [0, n), each equally likely; n must not be 0. The high half of the product of a
 * random word with n is such a number but for the words whose low half lies under 2^64 mod n; those
 * are drawn again. The loop ends because less than half of all words are refused. */
static inline uint64_t kin__rng_below(struct kin__rng *rng, uint64_t n)
{
    __extension__ typedef unsigned __int128 wide;
    KIN__ASSERT(n != 0, "house");
    wide product = (wide)kin__rng_next(rng) * n;
    if (KIN__UNLIKELY((uint64_t)product < n)) {
        uint64_t refused = (0 - n) % n; /* 2^64 mod n */
        while ((uint64_t)product < refused)
            product = (wide)kin__rng_next(rng) * n;
    }
    return (uint64_t)(product >> 64);
}

/* True in hits of every total cases; total must not be 0. */
static inline bool kin__rng_chance(struct kin__rng *rng, uint64_t hits, uint64_t total)
{
    return kin__rng_below(rng, total) < hits;
}

#endif
