/* SPDX-License-Identifier: MIT */
/*
 * The generator: published outputs, repeatability, streams, and counts that a bias would tilt.
 *
 * The bounds on counts are so wide that a fair generator passes them but for one run in a billion.
 */
#include "base/rng.h"

#include "kin_test.h"

KIN_TEST(xoshiro_gives_its_published_numbers, "")
{
    struct kin__rng rng = {{1, 2, 3, 4}};
    EXPECT_EQ(kin__rng_next(&rng), 11520);
    EXPECT_EQ(kin__rng_next(&rng), 0);
    EXPECT_EQ(kin__rng_next(&rng), 1509978240);
    EXPECT_EQ(kin__rng_next(&rng), UINT64_C(1215971899390074240));
    EXPECT_EQ(kin__rng_next(&rng), UINT64_C(1216172134540287360));
}

KIN_TEST(equal_seed_and_stream_repeat, "")
{
    struct kin__rng a, b;
    kin__rng_init(&a, 42, 7);
    kin__rng_init(&b, 42, 7);
    for (int i = 0; i < 1000; i++)
        EXPECT_EQ(kin__rng_next(&a), kin__rng_next(&b));
}

KIN_TEST(neighbouring_seeds_and_streams_share_no_number, "")
{
    enum { SEEDS = 16, STREAMS = 16, DRAWS = 16 };
    static uint64_t drawn[SEEDS * STREAMS * DRAWS];
    size_t count = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        for (uint64_t stream = 0; stream < STREAMS; stream++) {
            struct kin__rng rng;
            kin__rng_init(&rng, seed, stream);
            EXPECT_NE(rng.s[0] | rng.s[1] | rng.s[2] | rng.s[3], 0);
            for (int i = 0; i < DRAWS; i++)
                drawn[count++] = kin__rng_next(&rng);
        }
    }
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count; j++)
            if (drawn[i] == drawn[j])
                EXPECT_NE(drawn[i], drawn[j]);
}

KIN_TEST(every_bit_is_set_half_the_time, "")
{
    enum { DRAWS = 20000 };
    struct kin__rng rng;
    int set[64] = {0};
    kin__rng_init(&rng, kin_test_seed(), 1);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t word = kin__rng_next(&rng);
        for (int bit = 0; bit < 64; bit++)
            set[bit] += (int)(word >> bit & 1);
    }
    /* The deviation is 71; seven of them. */
    for (int bit = 0; bit < 64; bit++) {
        EXPECT_GT(set[bit], DRAWS / 2 - 500);
        EXPECT_LT(set[bit], DRAWS / 2 + 500);
    }
}

KIN_TEST(below_stays_below, "")
{
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), 2);
    for (int i = 0; i < 1000; i++) {
        EXPECT_EQ(kin__rng_below(&rng, 1), 0);
        EXPECT_LT(kin__rng_below(&rng, 2), 2);
        EXPECT_LT(kin__rng_below(&rng, (UINT64_C(1) << 63) + 1), (UINT64_C(1) << 63) + 1);
        EXPECT_LT(kin__rng_below(&rng, UINT64_MAX), UINT64_MAX);
        uint64_t n = kin__rng_next(&rng) | 1;
        EXPECT_LT(kin__rng_below(&rng, n), n);
    }
}

KIN_TEST(below_reaches_each_number_equally, "")
{
    enum { N = 10, DRAWS = 100000 };
    struct kin__rng rng;
    int64_t count[N] = {0};
    kin__rng_init(&rng, kin_test_seed(), 3);
    for (int i = 0; i < DRAWS; i++)
        count[kin__rng_below(&rng, N)]++;
    int64_t squares = 0;
    for (int i = 0; i < N; i++)
        squares += (count[i] - DRAWS / N) * (count[i] - DRAWS / N);
    EXPECT_LT(squares / (DRAWS / N), 65); /* chi-square, nine degrees of freedom */
    EXPECT_GT(squares, 0);
}

/* With n = 3/4 of 2^64 a multiplication or a remainder without refusal gives every third number, or
 * the first third, twice as often. */
KIN_TEST(below_refuses_the_words_that_would_tilt_it, "")
{
    enum { DRAWS = 60000 };
    const uint64_t third = UINT64_C(1) << 62;
    struct kin__rng rng;
    int by_rest[3] = {0}, by_third[3] = {0};
    kin__rng_init(&rng, kin_test_seed(), 4);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t value = kin__rng_below(&rng, 3 * third);
        by_rest[value % 3]++;
        by_third[value / third]++;
    }
    /* The deviation is 115; nearly nine of them. A tilted count is 30000 or 15000. */
    for (int i = 0; i < 3; i++) {
        EXPECT_GT(by_rest[i], 19000);
        EXPECT_LT(by_rest[i], 21000);
        EXPECT_GT(by_third[i], 19000);
        EXPECT_LT(by_third[i], 21000);
    }
}

KIN_TEST(chance_is_never_always_and_between, "")
{
    enum { DRAWS = 40000 };
    struct kin__rng rng;
    int hits = 0;
    kin__rng_init(&rng, kin_test_seed(), 5);
    for (int i = 0; i < DRAWS; i++) {
        EXPECT(!kin__rng_chance(&rng, 0, 3));
        EXPECT(kin__rng_chance(&rng, 3, 3));
        hits += kin__rng_chance(&rng, 1, 4);
    }
    /* The deviation is 87; seven of them. */
    EXPECT_GT(hits, DRAWS / 4 - 610);
    EXPECT_LT(hits, DRAWS / 4 + 610);
}
