/* SPDX-License-Identifier: MIT */
/*
 * Hashes: published vectors for the structure, foreign ones for our round counts, avalanche.
 */
#include "base/hash.h"

#include "base/rng.h"
#include "kin_test.h"

#include <string.h>

/* The vectors of the SipHash paper: key 00 01 .. 0f, message 00 01 .. of the given size. */
KIN_TEST(siphash_2_4_gives_its_published_vectors, "")
{
    static const struct {
        size_t size;
        uint64_t hash;
    } vectors[] = {
        {0, UINT64_C(0x726fdb47dd0e0e31)},  {1, UINT64_C(0x74f839c593dc67fd)},
        {2, UINT64_C(0x0d6c8009d9a94f5a)},  {3, UINT64_C(0x85676696d7fb7e2d)},
        {8, UINT64_C(0x93f5f5799a932462)},  {15, UINT64_C(0xa129ca6149be45e5)},
        {63, UINT64_C(0x958a324ceb064572)},
    };
    const struct kin__hash_key key = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    unsigned char message[64];
    for (size_t i = 0; i < sizeof(message); i++)
        message[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
        EXPECT_EQ(kin__hash_sip(key, message, vectors[i].size, 2, 4), vectors[i].hash);
}

/* What another implementation of SipHash-1-3, that of CPython 3.11, gives with key 0. */
KIN_TEST(names_are_hashed_with_one_and_three_rounds, "")
{
    static const struct {
        const char *name;
        uint64_t hash;
    } vectors[] = {
        {"a", UINT64_C(0x407448d2b89b1813)},
        {"kin", UINT64_C(0x5092721b3a0c1453)},
        {"1234567", UINT64_C(0xa33d651594fdae81)},
        {"12345678", UINT64_C(0x3489982430560a87)},
        {"123456789", UINT64_C(0x0fbc0f0007965fcf)},
        {"a name of some thirty bytes...", UINT64_C(0xb3ab06a42e96f11e)},
    };
    const struct kin__hash_key key = {0, 0};
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
        EXPECT_EQ(kin__hash_bytes(key, vectors[i].name, strlen(vectors[i].name)), vectors[i].hash);
}

KIN_TEST(the_place_of_the_bytes_does_not_matter, "")
{
    const struct kin__hash_key key = {1, 2};
    unsigned char memory[40];
    for (size_t offset = 0; offset < 8; offset++) {
        memset(memory, (int)(0x55 + offset), sizeof(memory));
        memcpy(memory + offset, "a name of twenty-four by", 24);
        EXPECT_EQ(kin__hash_bytes(key, memory + offset, 24),
                  kin__hash_bytes(key, "a name of twenty-four by", 24));
    }
}

KIN_TEST(key_bytes_and_size_all_count, "")
{
    const struct kin__hash_key key = {1, 2}, other = {1, 3}, third = {2, 2};
    char zeros[20] = {0};
    EXPECT_NE(kin__hash_bytes(key, "kin", 3), kin__hash_bytes(other, "kin", 3));
    EXPECT_NE(kin__hash_bytes(key, "kin", 3), kin__hash_bytes(third, "kin", 3));
    EXPECT_EQ(kin__hash_bytes(key, NULL, 0), kin__hash_bytes(key, "", 0));
    for (size_t a = 0; a < sizeof(zeros); a++)
        for (size_t b = a + 1; b < sizeof(zeros); b++)
            EXPECT_NE(kin__hash_bytes(key, zeros, a), kin__hash_bytes(key, zeros, b));
}

/* The mixer with a counter in front of it is SplitMix64, whose outputs for this seed are known. */
KIN_TEST(the_mixer_gives_published_numbers, "")
{
    const uint64_t seed = 1234567;
    EXPECT_EQ(kin__hash_u64(seed + KIN__RNG_STEP), UINT64_C(6457827717110365317));
    EXPECT_EQ(kin__hash_u64(seed + 2 * KIN__RNG_STEP), UINT64_C(3203168211198807973));
    EXPECT_EQ(kin__hash_u64(seed + 3 * KIN__RNG_STEP), UINT64_C(9817491932198370423));
    EXPECT_EQ(kin__hash_u64(0), 0);
}

KIN_TEST(each_bit_changes_about_half_of_the_hash, "")
{
    enum { ROUNDS = 400 };
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), 0);
    const struct kin__hash_key key = {kin__rng_next(&rng), kin__rng_next(&rng)};
    for (unsigned bit = 0; bit < 64; bit++) {
        int mixed = 0, hashed = 0;
        for (int i = 0; i < ROUNDS; i++) {
            uint64_t a = kin__rng_next(&rng), b = a ^ UINT64_C(1) << bit;
            mixed += __builtin_popcountll(kin__hash_u64(a) ^ kin__hash_u64(b));
            hashed +=
                __builtin_popcountll(kin__hash_bytes(key, &a, 8) ^ kin__hash_bytes(key, &b, 8));
        }
        /* 32 per round; the deviation of the sum is 80. */
        EXPECT_GT(mixed, 29 * ROUNDS);
        EXPECT_LT(mixed, 35 * ROUNDS);
        EXPECT_GT(hashed, 29 * ROUNDS);
        EXPECT_LT(hashed, 35 * ROUNDS);
    }
}
