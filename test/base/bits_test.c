/* SPDX-License-Identifier: MIT */
/*
 * Bits: the edges by hand, everything between against loops that do it the slow way.
 */
#include "base/bits.h"

#include "base/rng.h"
#include "kin_test.h"

KIN_TEST(powers_of_two_are_told_from_others, "")
{
    EXPECT(!kin__is_pow2(0));
    for (unsigned i = 0; i < 64; i++) {
        uint64_t power = UINT64_C(1) << i;
        EXPECT(kin__is_pow2(power));
        if (i > 1) {
            EXPECT(!kin__is_pow2(power - 1));
            EXPECT(!kin__is_pow2(power + 1));
        }
    }
    EXPECT(!kin__is_pow2(UINT64_MAX));
}

KIN_TEST(rounding_up_to_a_power_of_two, "")
{
    EXPECT_EQ(kin__round_up_pow2(0), 1);
    EXPECT_EQ(kin__round_up_pow2(1), 1);
    uint64_t expected = 1;
    for (uint64_t x = 1; x < 5000; x++) {
        while (expected < x)
            expected *= 2;
        EXPECT_EQ(kin__round_up_pow2(x), expected);
    }
    EXPECT_EQ(kin__round_up_pow2((UINT64_C(1) << 62) + 1), UINT64_C(1) << 63);
    EXPECT_EQ(kin__round_up_pow2(UINT64_C(1) << 63), UINT64_C(1) << 63);
}

KIN_TEST(first_and_last_set_bit, "")
{
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), 0);
    for (unsigned i = 0; i < 64; i++) {
        uint64_t bit = UINT64_C(1) << i;
        uint64_t noise = kin__rng_next(&rng);
        EXPECT_EQ(kin__first_bit64(bit), i);
        EXPECT_EQ(kin__first_bit64(bit | (noise & ~(bit - 1))), i);
        EXPECT_EQ(kin__log2_floor(bit), i);
        EXPECT_EQ(kin__log2_floor(bit | (noise & (bit - 1))), i);
        if (i < 32) {
            EXPECT_EQ(kin__first_bit32((uint32_t)bit), i);
            EXPECT_EQ(kin__first_bit32((uint32_t)(bit | (noise & ~(bit - 1)))), i);
        }
    }
}

KIN_TEST(alignment_is_a_multiple_and_near, "")
{
    for (size_t align = 1; align <= 64; align *= 2) {
        for (size_t x = 0; x < 300; x++) {
            EXPECT_EQ(kin__align_down(x, align), x / align * align);
            EXPECT_EQ(kin__align_up(x, align), (x + align - 1) / align * align);
        }
    }
    EXPECT_EQ(kin__align_down(SIZE_MAX, 4096), SIZE_MAX - 4095);
    EXPECT_EQ(kin__align_up(SIZE_MAX - 4095, 4096), SIZE_MAX - 4095);
    EXPECT_EQ(kin__align_up(SIZE_MAX, 4096), 0); /* there is none: the caller can see it */
}

KIN_TEST(addition_stops_at_the_ends, "")
{
    EXPECT_EQ(kin__add_sat(2, 3), 5);
    EXPECT_EQ(kin__add_sat(-2, -3), -5);
    EXPECT_EQ(kin__add_sat(INT64_MAX, 0), INT64_MAX);
    EXPECT_EQ(kin__add_sat(INT64_MAX, 1), INT64_MAX);
    EXPECT_EQ(kin__add_sat(1, INT64_MAX), INT64_MAX);
    EXPECT_EQ(kin__add_sat(INT64_MAX, INT64_MAX), INT64_MAX);
    EXPECT_EQ(kin__add_sat(INT64_MIN, -1), INT64_MIN);
    EXPECT_EQ(kin__add_sat(-1, INT64_MIN), INT64_MIN);
    EXPECT_EQ(kin__add_sat(INT64_MIN, INT64_MIN), INT64_MIN);
    EXPECT_EQ(kin__add_sat(INT64_MIN, INT64_MAX), -1);
    EXPECT_EQ(kin__add_sat(INT64_MAX - 5, 5), INT64_MAX);
    EXPECT_EQ(kin__add_sat(INT64_MAX - 5, 4), INT64_MAX - 1);
}

#ifdef KIN_DEBUG
KIN_TEST(an_alignment_that_is_no_power_of_two_aborts_in_debug, "")
{
    EXPECT_ABORT ("check failed: kin__is_pow2(align)") {
        (void)kin__align_up(10, 3);
    }
}
#endif
