/* SPDX-License-Identifier: MIT */
/*
 * Hashes: a keyed one for names that come from outside, a mixer for numbers that do not.
 *
 * Names are chosen by users, perhaps by hostile ones, and land in tables of fixed width; without a
 * secret key somebody could choose names that all share a bucket. SipHash with one round per word
 * and three at the end is what remains unbroken at the lowest price for strings of a dozen bytes.
 * The number of rounds is a parameter only because the published vectors are those of 2 and 4.
 */
#ifndef KIN_BASE_HASH_H
#define KIN_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct kin__hash_key {
    uint64_t k0, k1;
};

/* Mixes a number so that each bit of it changes about half the bits of the result; a bijection, and
 * 0 stays 0. */
static inline uint64_t kin__hash_u64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t kin__hash_rotate(uint64_t x, unsigned bits)
{
    return (x << bits) | (x >> (64 - bits));
}

/* One round of SipHash: four words, each added and rotated into the others. */
static inline void kin__hash_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = kin__hash_rotate(v[1], 13) ^ v[0];
    v[3] = kin__hash_rotate(v[3], 16) ^ v[2];
    v[0] = kin__hash_rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = kin__hash_rotate(v[1], 17) ^ v[2];
    v[3] = kin__hash_rotate(v[3], 21) ^ v[0];
    v[2] = kin__hash_rotate(v[2], 32);
}

/* Eight bytes as a number, the first lowest, whatever the order of the machine. */
static inline uint64_t kin__hash_word(const unsigned char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* The last size % 8 of size bytes, which begin here, likewise: part of the eight before the end,
 * where there are so many. */
static inline uint64_t kin__hash_rest(const unsigned char *bytes, size_t size)
{
    size_t rest = size % 8;
    uint64_t word = 0;
    if (rest == 0)
        return 0;
    if (size > 8)
        return kin__hash_word(bytes + rest - 8) >> (64 - 8 * rest);
    for (size_t i = 0; i < rest; i++)
        word |= (uint64_t)bytes[i] << (8 * i);
    return word;
}

static inline void kin__hash_absorb(uint64_t v[4], uint64_t word, unsigned rounds)
{
    v[3] ^= word;
    for (unsigned i = 0; i < rounds; i++)
        kin__hash_round(v);
    v[0] ^= word;
}

/* SipHash with word_rounds per eight bytes and end_rounds at the end. */
static inline uint64_t kin__hash_sip(struct kin__hash_key key, const void *bytes, size_t size,
                                     unsigned word_rounds, unsigned end_rounds)
{
    uint64_t v[4] = {
        key.k0 ^ UINT64_C(0x736f6d6570736575),
        key.k1 ^ UINT64_C(0x646f72616e646f6d),
        key.k0 ^ UINT64_C(0x6c7967656e657261),
        key.k1 ^ UINT64_C(0x7465646279746573),
    };
    const unsigned char *at = (const unsigned char *)bytes;
    for (size_t words = size / 8; words > 0; words--, at += 8)
        kin__hash_absorb(v, kin__hash_word(at), word_rounds);
    /* What is left, with the length in the top byte. */
    kin__hash_absorb(v, kin__hash_rest(at, size) | (uint64_t)size << 56, word_rounds);
    v[2] ^= 0xff;
    for (unsigned i = 0; i < end_rounds; i++)
        kin__hash_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The hash of a name under a key. bytes may be NULL when size is 0. */
static inline uint64_t kin__hash_bytes(struct kin__hash_key key, const void *bytes, size_t size)
{
    return kin__hash_sip(key, bytes, size, 1, 3);
}

#endif
